//! TAP port: the switch has one end of a virtual interface, and the local kernel has the other.

use super::link::{self, LinkWatch};
use super::rtnl::Rtnl;
use super::sys;
use crate::{LinkState, Port, PortError, PortStats, RxDrop, TxDrop, TxOutcome};
use packet::{Batch, Frame, MAX_FRAME, Nanos, PortId};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

const TUN: &str = "/dev/net/tun";

/// Length of an Ethernet header, in bytes. The kernel refuses shorter frames.
const MIN_FRAME: usize = 14;

/// A switch port on a TAP device. A device created by this port disappears with it. A device that
/// existed before stays.
pub struct TapPort {
    id: PortId,
    watch: LinkWatch,
    tun: File,
    /// A socket in the device's network namespace, for link queries.
    control: OwnedFd,
    /// Counts frames that the kernel dropped because the switch did not read them in time.
    overflow: Overflow,
    /// Receive buffer. One byte longer than the longest frame, to detect longer frames.
    scratch: Box<[u8]>,
    stats: PortStats,
}

impl TapPort {
    /// Opens the TAP device `name` in the calling thread's network namespace as switch port `id`.
    /// Creates it if it does not exist, and brings it up.
    ///
    /// # Errors
    /// [`PortError::NoPermission`] without CAP_NET_ADMIN or ownership of the device.
    /// [`PortError::TapUnavailable`] if the device is in use, or the interface of this name is not
    /// a TAP device.
    pub fn open(id: PortId, name: &str) -> Result<TapPort, PortError> {
        let doing = || format!("opening the TAP device {name}");
        let error = |source: io::Error| match source.raw_os_error() {
            Some(libc::EACCES) => PortError::System {
                doing: format!(
                    "{}: this user may not use {TUN}; run with sudo, or allow it by 'sudo chmod 666 \
                     {TUN}'",
                    doing()
                ),
                source,
            },
            Some(libc::EPERM) => PortError::NoPermission {
                doing: doing(),
                capability: "CAP_NET_ADMIN",
            },
            Some(libc::EBUSY | libc::EINVAL) => PortError::TapUnavailable {
                name: name.to_owned(),
                source,
            },
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => PortError::System {
                doing: format!("{} needs {TUN} ('modprobe tun')", doing()),
                source,
            },
            _ => PortError::System {
                doing: doing(),
                source,
            },
        };
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
        let tun = options.open(TUN).map_err(error)?;
        sys::attach_tap(&tun, name).map_err(error)?;
        let control = link::control_socket().map_err(error)?;
        bring_up(control.as_fd(), name);
        let interface = link::find(name)?;
        Ok(TapPort {
            id,
            watch: LinkWatch::new(&interface, control.as_fd()),
            tun,
            overflow: Overflow::new(interface.index),
            control,
            scratch: vec![0; MAX_FRAME + 1].into_boxed_slice(),
            stats: PortStats::default(),
        })
    }

    /// Receives one frame into the batch. Returns true if there was one.
    fn receive(&mut self, batch: &mut Batch, now: Nanos) -> Result<bool, PortError> {
        let len = match self.tun.read(&mut self.scratch) {
            Ok(len) => len,
            Err(e) => return self.not_received(e),
        };
        let Some(frame) = batch.push() else {
            return Ok(false);
        };
        match frame.assign(&self.scratch[..len]) {
            Ok(()) => {
                frame.ingress = self.id;
                frame.arrival = now;
                self.stats.count_rx(len);
            }
            Err(_) => {
                self.stats.rx_dropped.add(RxDrop::TooLong, 1);
                batch.pop();
            }
        }
        Ok(true)
    }

    fn not_received(&mut self, error: io::Error) -> Result<bool, PortError> {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(false),
            // The device is down or was removed.
            Some(libc::EIO | libc::EBADFD | libc::EFAULT) => {
                self.watch.refresh(self.control.as_fd());
                Ok(false)
            }
            _ => {
                let doing = format!("receiving from {}", self.watch.name());
                Err(PortError::System {
                    doing,
                    source: error,
                })
            }
        }
    }

    /// Updates the counter of frames dropped by the kernel, if a query is due.
    fn count_overflow(&mut self) {
        let dropped = self.overflow.ask(&self.watch);
        self.stats.rx_dropped.add(RxDrop::QueueFull, dropped);
    }

    /// Returns the reason for which the kernel refused a frame.
    fn refused(&mut self, error: &io::Error) -> TxDrop {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => TxDrop::QueueFull,
            Some(libc::EMSGSIZE) => TxDrop::TooLong,
            Some(libc::EIO | libc::EBADFD | libc::ENETDOWN) => {
                self.watch.refresh(self.control.as_fd());
                TxDrop::LinkDown
            }
            _ => TxDrop::Refused,
        }
    }
}

/// Counter of frames dropped by the kernel. The kernel transmits on the device what the switch
/// receives, so its TX drops count.
struct Overflow {
    /// `None` if the kernel has no rtnetlink. Then nothing is counted.
    rtnl: Option<Rtnl>,
    dropped: u64,
    /// Value of [`LinkWatch::looks`] at the last query.
    looks: Option<u64>,
}

impl Overflow {
    /// Starts counting at the current value.
    fn new(index: u32) -> Overflow {
        let mut rtnl = Rtnl::open().ok();
        let facts = rtnl.as_mut().and_then(|rtnl| rtnl.facts(index).ok());
        Overflow {
            rtnl,
            dropped: facts.map_or(0, |facts| facts.tx_dropped),
            looks: None,
        }
    }

    /// Returns the number of frames dropped since the last query, or 0 if no query is due.
    fn ask(&mut self, watch: &LinkWatch) -> u64 {
        if self.looks == Some(watch.looks()) || watch.state() == LinkState::Gone {
            return 0;
        }
        self.looks = Some(watch.looks());
        let facts = self.rtnl.as_mut().map(|rtnl| rtnl.facts(watch.index()));
        let Some(Ok(facts)) = facts else { return 0 };
        let before = std::mem::replace(&mut self.dropped, facts.tx_dropped);
        facts.tx_dropped.saturating_sub(before)
    }
}

/// Brings the device up. The device's owner may lack the permission. Then the link stays down
/// until an administrator brings it up.
fn bring_up(control: BorrowedFd<'_>, name: &str) {
    if let Ok(flags) = sys::if_flags(control, name) {
        let _ = sys::set_if_flags(control, name, flags | libc::IFF_UP);
    }
}

impl Port for TapPort {
    fn id(&self) -> PortId {
        self.id
    }

    fn name(&self) -> &str {
        self.watch.name()
    }

    fn rx(&mut self, batch: &mut Batch, now: Nanos) -> Result<usize, PortError> {
        let before = batch.len();
        while batch.room() > 0 {
            match self.receive(batch, now) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if batch.len() == before => return Err(error),
                Err(_) => break,
            }
        }
        self.watch.check(self.control.as_fd(), now);
        self.count_overflow();
        if batch.len() == before {
            self.watch.tell()?;
        }
        Ok(batch.len() - before)
    }

    fn tx(&mut self, frames: &[Frame]) -> TxOutcome {
        let mut outcome = TxOutcome::default();
        for frame in frames {
            let dropped = if self.watch.state() != LinkState::Up {
                TxDrop::LinkDown
            } else if frame.len() < MIN_FRAME {
                TxDrop::TooShort
            } else {
                match self.tun.write(frame.bytes()) {
                    // The kernel accepts a frame as a whole or not at all.
                    Ok(_whole) => {
                        self.stats.count_tx(frame.len(), &mut outcome);
                        continue;
                    }
                    Err(e) => self.refused(&e),
                }
            };
            self.stats.count_tx_drop(dropped, 1, &mut outcome);
        }
        outcome
    }

    fn stats(&mut self) -> PortStats {
        self.count_overflow();
        self.stats
    }

    fn link(&self) -> LinkState {
        self.watch.state()
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.tun.as_fd())
    }
}
