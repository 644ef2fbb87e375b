//! AF_XDP port on an existing network interface: the driver delivers frames to the process before
//! the kernel's network stack sees them.
//!
//! Frames are copied between the memory shared with the kernel and [`packet::Frame`]s. For a short
//! frame this costs a few nanoseconds and the first cache miss on its bytes, which the program
//! would have anyway. In return, a frame can be stored, extended, and sent by any type of port.

mod btf;
mod program;

use super::link::{self, Interface, LinkWatch};
use super::offload::OffloadsOff;
use super::refusal::Refusals;
use super::segment::complete_unfinished;
use super::sys::{
    self,
    xsk::{KERNEL_HEADROOM, Packet, Xsk, XskConfig, join_fds},
};
use crate::{LinkState, Port, PortError, PortStats, RxDrop, TxDrop, TxOutcome};
use packet::{Batch, Frame, MAX_FRAME, Nanos, PortId};
use program::{Attached, Sockets};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// Length of an Ethernet header, in bytes. Shorter frames are not sent.
const MIN_FRAME: usize = 14;

/// Length of an Ethernet header and two VLAN tags, in bytes.
const LINK_HEADER: usize = 22;

/// Size of a chunk, in bytes: small if frames fit into it, large otherwise.
const SMALL_CHUNK: usize = 2048;
const LARGE_CHUNK: usize = 4096;

/// Capacity for received frames: maximum of one queue, total of all queues, and minimum of one
/// queue.
const RX_FRAMES: u32 = 4096;
const RX_FRAMES_TOGETHER: u32 = 32768;
const RX_FRAMES_LEAST: u32 = 1024;

/// Capacity for frames to be sent.
const TX_FRAMES: u32 = 2048;

/// Drivers of interfaces with a kernel at the other end that may leave checksums to the interface.
const VIRTUAL_DRIVERS: [&str; 3] = ["veth", "tun", "virtio_net"];

/// The driver for which the kernel has copied the frames, and returned their memory, when a send
/// call returns. Others may return memory that their devices still read (virtio_net:
/// `IFF_TX_SKB_NO_LINEAR` with `napi_tx=0`).
const RETURNS_AT_ONCE: &str = "veth";

/// Mode in which frames are redirected to AF_XDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// Native: the driver runs the XDP program.
    Driver,
    /// Generic: the kernel runs the program after the driver. Every driver supports this. With
    /// most it is slower than [`super::AfPacketPort`].
    Generic,
}

/// An XDP program that runs before a port: it forwards frames by itself, and redirects those that
/// it leaves to the port's sockets.
pub trait FrontProgram {
    /// Returns the instructions. The program's context is in register 6 when they begin. `sockets`
    /// is the descriptor of the map from queue numbers to sockets. `may_be_incomplete` is true if
    /// the checksums of frames may be left to the interface.
    fn instructions(&self, sockets: RawFd, may_be_incomplete: bool) -> Vec<u64>;
}

/// A switch port on a Linux interface by AF_XDP. Needs Linux 5.9; 6.8 or later is better. While it
/// is open, the interface is promiscuous, and the host's network stack receives nothing from it.
pub struct AfXdpPort {
    id: PortId,
    watch: LinkWatch,
    queues: Vec<Xsk>,
    /// Index of the queue to receive from first. Rotates, for fairness.
    first: usize,
    /// One descriptor for all queues, if there are several.
    joined: Option<OwnedFd>,
    /// True if the device is polled when no frame is available (busy polling).
    polls: bool,
    stats: PortStats,
    refusals: Refusals,
    common: Arc<Common>,
}

/// State shared by all shares of a port. Dropped with the last share.
struct Common {
    /// A packet socket that is never read. It keeps the interface promiscuous and serves link
    /// queries.
    control: OwnedFd,
    /// True if senders may leave checksums to the interface.
    completes: bool,
    mode: XdpMode,
    driver: String,
    /// Number of queues of the interface.
    queues: usize,
    attached: Attached,
    _offloads: OffloadsOff,
}

impl AfXdpPort {
    /// Opens the interface `name` in the calling thread's network namespace as switch port `id`,
    /// with all its queues.
    ///
    /// # Errors
    /// [`PortError::NoSuchInterface`], [`PortError::NotEthernet`], or [`PortError::NoPermission`]
    /// without CAP_NET_RAW. [`PortError::NoXdp`] if the kernel, the driver or the user's
    /// permissions do not allow it, or if another program uses XDP on the interface.
    pub fn open(id: PortId, name: &str, mode: XdpMode) -> Result<AfXdpPort, PortError> {
        let mut shares = AfXdpPort::open_shares(id, name, mode, 1)?;
        Ok(shares.swap_remove(0))
    }

    /// Opens the interface in several shares with separate queues. Their number is the number of
    /// queues, but at most `most`, which must be at least 1. The driver distributes frames over
    /// the queues.
    ///
    /// # Errors
    /// As [`AfXdpPort::open`].
    pub fn open_shares(
        id: PortId,
        name: &str,
        mode: XdpMode,
        most: usize,
    ) -> Result<Vec<AfXdpPort>, PortError> {
        AfXdpPort::open_after(id, name, (mode, most), None)
    }

    /// Opens the interface as [`AfXdpPort::open_shares`] does. `front`, if given, is the XDP
    /// program of the interface, instead of the port's own.
    ///
    /// # Errors
    /// As [`AfXdpPort::open`].
    pub fn open_after(
        id: PortId,
        name: &str,
        (mode, most): (XdpMode, usize),
        front: Option<&dyn FrontProgram>,
    ) -> Result<Vec<AfXdpPort>, PortError> {
        let interface = link::find(name)?;
        let system = |doing: &str| {
            let doing = format!("{doing} {name}");
            move |source| PortError::System { doing, source }
        };
        let control = open_control(&interface)?;
        let driver = sys::ethtool_driver(control.as_fd(), name);
        let driver = driver.unwrap_or_else(|_| "unknown".to_owned());
        let queues = sys::ethtool_rx_queues(control.as_fd(), name).unwrap_or(1);
        let ethtool = link::control_socket().map_err(system("asking about"))?;
        let mut offloads = OffloadsOff::new(ethtool, name);
        let no_xdp = |error: io::Error| PortError::NoXdp {
            name: name.to_owned(),
            because: why_not(&error, name, &driver),
        };
        let by_driver = mode == XdpMode::Driver;
        // In generic mode the kernel gives the program what any sender has left to the interface.
        let completes = VIRTUAL_DRIVERS.contains(&driver.as_str()) || !by_driver;
        let open = || {
            let mut sockets = Sockets::new(queues.max(1))?;
            let returns_at_once = driver == RETURNS_AT_ONCE;
            let queues = open_queues(&interface, queues.max(1), mode, returns_at_once)?;
            for (number, queue) in (0..).zip(&queues) {
                sockets.set(number, queue.fd())?;
            }
            let attached = match front {
                Some(front) => {
                    let code = front.instructions(sockets.raw_fd(), completes);
                    sockets.attach_front(interface.index, by_driver, &code)?
                }
                None => sockets.attach(interface.index, by_driver)?,
            };
            Ok((queues, attached))
        };
        let (queues, attached) = open().map_err(no_xdp)?;
        if !attached.puts_tags_back {
            offloads.leave_tags();
        }
        let common = Arc::new(Common {
            control,
            completes,
            mode,
            driver,
            queues: queues.len(),
            attached,
            _offloads: offloads,
        });
        let dealt = deal(queues, most);
        let shares = dealt.into_iter().map(|queues| {
            let share = AfXdpPort::with(id, &interface, queues, &common);
            share.map_err(system("waiting for"))
        });
        shares.collect()
    }

    /// Creates one share with these queues.
    fn with(
        id: PortId,
        interface: &Interface,
        queues: Vec<Xsk>,
        common: &Arc<Common>,
    ) -> io::Result<AfXdpPort> {
        let joined = match queues.as_slice() {
            [_] => None,
            several => Some(join_fds(several.iter().map(Xsk::fd))?),
        };
        Ok(AfXdpPort {
            id,
            watch: LinkWatch::new(interface, common.control.as_fd()),
            queues,
            first: 0,
            joined,
            polls: false,
            stats: PortStats::default(),
            refusals: Refusals::new(),
            common: Arc::clone(common),
        })
    }

    /// Returns the number of queues of the interface, including those of other shares.
    pub fn queues(&self) -> usize {
        self.common.queues
    }

    /// Returns true if frames may lack VLAN tags that a sender left to the interface. A veth peer
    /// does this for its VLAN interfaces, and only Linux 6.8 and later report the tags.
    pub fn may_lose_tags(&self) -> bool {
        self.common.completes && !self.common.attached.puts_tags_back
    }

    /// Enables busy polling: whenever [`Port::rx`] finds no frame, the device is polled for up to
    /// `microseconds` and `budget` frames. This lowers latency and uses one core for both. It
    /// helps if the interface's interrupts are deferred (`napi_defer_hard_irqs`,
    /// `gro_flush_timeout`). A veth interface has no interrupts. Needs Linux 5.11.
    ///
    /// # Errors
    /// The kernel does not allow it.
    pub fn set_busy_poll(&mut self, microseconds: u32, budget: u32) -> Result<(), PortError> {
        self.polls = true;
        for queue in &self.queues {
            let set = queue.set_busy_poll(microseconds, budget);
            set.map_err(|source| PortError::System {
                doing: format!("setting busy polling on {}", self.watch.name()),
                source,
            })?;
        }
        Ok(())
    }

    /// Forwards all received frames to `to` unchanged, directly between the rings. This is the
    /// minimal work of a switch on such ports, as a baseline for measurements. Returns the number
    /// of frames.
    pub fn pass_to(&mut self, to: &mut AfXdpPort) -> u64 {
        let Some(out) = to.queues.first_mut() else {
            return 0;
        };
        let (mut passed, mut full) = (0, 0);
        let mut lost = 0;
        let mut send = |out: &mut Xsk| out.transmit(|_| lost += 1).is_ok();
        for queue in &mut self.queues {
            queue.receive(|packet| {
                let bytes = packet.bytes().unwrap_or_default();
                // Frames that the kernel does not accept now are sent with the next ones.
                let mut queue = || out.queue(bytes) || send(out) && out.queue(bytes);
                if bytes.len() >= MIN_FRAME && queue() {
                    to.stats.tx_frames += 1;
                    to.stats.tx_bytes += bytes.len() as u64;
                    passed += 1;
                } else {
                    full += 1;
                }
                self.stats.count_rx(bytes.len());
                true
            });
            queue.wake_rx();
        }
        send(out);
        to.stats.tx_frames -= lost;
        to.stats.tx_dropped.add(TxDrop::QueueFull, full + lost);
        passed - lost
    }

    /// Receives frames from one queue until it is empty or the batch is full.
    fn receive(&mut self, queue: usize, batch: &mut Batch, now: Nanos) {
        let AfXdpPort {
            id,
            queues,
            stats,
            polls,
            common,
            ..
        } = self;
        let Some(queue) = queues.get_mut(queue) else {
            return;
        };
        if *polls && !queue.has_received() {
            queue.poll_device();
        }
        queue.receive(|packet| {
            let Some(frame) = batch.push() else {
                return false;
            };
            if !fill(frame, packet) {
                stats.rx_dropped.add(RxDrop::TooLong, 1);
                batch.pop();
                return true;
            }
            if common.completes {
                complete_unfinished(frame.bytes_mut());
            }
            frame.ingress = *id;
            frame.arrival = now;
            stats.count_rx(frame.len());
            true
        });
        queue.wake_rx();
    }

    /// Returns the reason for which a frame cannot be sent, if known in advance.
    fn unsendable(&self, frame: &Frame) -> Option<TxDrop> {
        let out = self.queues.first()?;
        if self.watch.state() != LinkState::Up {
            Some(TxDrop::LinkDown)
        } else if frame.len() < MIN_FRAME {
            Some(TxDrop::TooShort)
        } else if !self.watch.carries(frame.bytes()) || !out.can_carry(frame.len()) {
            Some(TxDrop::TooLong)
        } else {
            None
        }
    }

    /// Makes the kernel send the queued frames. Frames that it accepts but does not send are moved
    /// from the sent frames to the drops.
    fn transmit(&mut self, outcome: &mut TxOutcome) {
        let AfXdpPort {
            queues,
            watch,
            stats,
            refusals,
            common,
            ..
        } = self;
        let Some(out) = queues.first_mut() else {
            return;
        };
        let control = common.control.as_fd();
        let mut lost = |len| {
            let reason = refusals.why(len, watch, control);
            stats.count_tx_lost(len, reason, outcome);
        };
        if out.transmit(&mut lost).is_err() {
            // The link is down or gone.
            watch.refresh(control);
        }
        if watch.state() == LinkState::Gone {
            let lost = |len| stats.count_tx_lost(len, TxDrop::LinkDown, outcome);
            out.give_up(lost);
        }
    }
}

/// Distributes the queues over at most `most` shares, round robin. Every share gets at least one.
fn deal(queues: Vec<Xsk>, most: usize) -> Vec<Vec<Xsk>> {
    let shares = queues.len().min(most).max(1);
    let mut dealt: Vec<Vec<Xsk>> = (0..shares).map(|_| Vec::new()).collect();
    for (number, queue) in queues.into_iter().enumerate() {
        dealt[number % shares].push(queue);
    }
    dealt
}

/// Copies a received packet into `frame`. Returns false if it is too long.
#[inline]
fn fill(frame: &mut Frame, packet: &Packet<'_>) -> bool {
    if let Some(bytes) = packet.bytes() {
        return frame.assign(bytes).is_ok();
    }
    let len: usize = packet.parts().map(<[u8]>::len).sum();
    if len > MAX_FRAME || frame.make_space(len).is_err() {
        return false;
    }
    let mut rest = frame.bytes_mut();
    for part in packet.parts() {
        let (place, behind) = rest.split_at_mut(part.len());
        place.copy_from_slice(part);
        rest = behind;
    }
    true
}

fn open_control(interface: &Interface) -> Result<OwnedFd, PortError> {
    let doing = || format!("opening a raw socket on {}", interface.name);
    let open = || {
        // With protocol 0 the socket receives nothing.
        let fd = sys::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0)?;
        sys::set_promiscuous(&fd, interface.index)?;
        Ok(fd)
    };
    open().map_err(|source: io::Error| match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => PortError::NoPermission {
            doing: doing(),
            capability: "CAP_NET_RAW",
        },
        _ => PortError::System {
            doing: doing(),
            source,
        },
    })
}

/// Number of attempts to open a queue that is in use, and the time between them.
const ATTEMPTS: u32 = 10;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(10);

/// Retries `open` while a queue is in use. The kernel releases a queue some time after its socket
/// was closed. That includes our sockets of an earlier attempt with other options.
fn patiently<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..ATTEMPTS {
        match open() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                std::thread::sleep(BETWEEN_ATTEMPTS);
            }
            opened => return opened,
        }
    }
    open()
}

/// Opens a socket for each queue, with the best options that kernel and driver support: zero copy
/// first, then frames in several chunks.
fn open_queues(
    interface: &Interface,
    queues: u32,
    mode: XdpMode,
    returns_at_once: bool,
) -> io::Result<Vec<Xsk>> {
    let fits = |chunk: usize| interface.mtu as usize + LINK_HEADER + KERNEL_HEADROOM <= chunk;
    let small = if fits(SMALL_CHUNK) {
        SMALL_CHUNK
    } else {
        LARGE_CHUNK
    };
    let ways = [
        (true, true, small),
        (true, false, LARGE_CHUNK),
        (false, true, small),
        (false, false, LARGE_CHUNK),
    ];
    let rx = (RX_FRAMES_TOGETHER / queues).clamp(RX_FRAMES_LEAST, RX_FRAMES);
    let mut last = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
    for (zero_copy, scattered, chunk) in ways {
        if zero_copy && mode == XdpMode::Generic || !scattered && !fits(chunk) {
            continue;
        }
        let open = |queue| {
            Xsk::open(&XskConfig {
                index: interface.index,
                queue,
                chunk,
                // The power of two at or below `rx`.
                rx: 1 << rx.ilog2(),
                tx: TX_FRAMES,
                zero_copy,
                scattered,
                returns_at_once,
            })
        };
        match patiently(|| (0..queues).map(open).collect()) {
            Ok(opened) => return Ok(opened),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns the reason of an error, with advice.
fn why_not(error: &io::Error, name: &str, driver: &str) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "it needs root, or the capabilities CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF outside of any \
             user namespace"
                .to_owned()
        }
        Some(libc::EBUSY) => format!(
            "another program uses XDP on it: stop that, or remove what is left of it ('ip link set dev \
             {name} xdp off')"
        ),
        Some(libc::EOPNOTSUPP) => format!("its driver ({driver}) has no XDP"),
        Some(libc::EAFNOSUPPORT | libc::ENOSYS) => "this kernel has no AF_XDP".to_owned(),
        Some(libc::ENOBUFS | libc::ENOMEM) => {
            "there is not enough memory that can be locked ('ulimit -l')".to_owned()
        }
        Some(libc::ERANGE) => "its MTU, or its peer's, is too large for XDP".to_owned(),
        _ => error.to_string(),
    }
}

/// Formats the driver and its mode: `driver veth, copying, 1 queue`.
impl fmt::Display for AfXdpPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Common {
            mode,
            driver,
            queues,
            ..
        } = &*self.common;
        let copying = match mode {
            XdpMode::Generic => "in generic mode",
            XdpMode::Driver if self.queues.iter().all(Xsk::is_zero_copy) => "without copying",
            XdpMode::Driver => "copying",
        };
        let plural = if *queues == 1 { "queue" } else { "queues" };
        write!(f, "driver {driver}, {copying}, {queues} {plural}")?;
        if self.queues.iter().all(Xsk::is_huge) {
            f.write_str(", huge pages")?;
        }
        Ok(())
    }
}

impl Port for AfXdpPort {
    fn id(&self) -> PortId {
        self.id
    }

    fn name(&self) -> &str {
        self.watch.name()
    }

    fn rx(&mut self, batch: &mut Batch, now: Nanos) -> Result<usize, PortError> {
        let before = batch.len();
        let queues = self.queues.len();
        for i in 0..queues {
            self.receive((self.first + i) % queues, batch, now);
        }
        self.first = (self.first + 1) % queues;
        if self.queues.first_mut().is_some_and(Xsk::has_pending) {
            self.transmit(&mut TxOutcome::default());
        }
        self.watch.check(self.common.control.as_fd(), now);
        if batch.len() == before {
            self.watch.tell()?;
        }
        Ok(batch.len() - before)
    }

    fn tx(&mut self, frames: &[Frame]) -> TxOutcome {
        let mut outcome = TxOutcome::default();
        for frame in frames {
            let dropped = match self.unsendable(frame) {
                Some(reason) => reason,
                None if self.enqueue(frame.bytes(), &mut outcome) => {
                    self.stats.count_tx(frame.len(), &mut outcome);
                    continue;
                }
                None => TxDrop::QueueFull,
            };
            self.stats.count_tx_drop(dropped, 1, &mut outcome);
        }
        self.transmit(&mut outcome);
        outcome
    }

    fn stats(&mut self) -> PortStats {
        let drops = |queue: &Xsk| queue.drops().unwrap_or_default();
        let missed: u64 = self
            .queues
            .iter()
            .map(drops)
            .map(|drops| drops.no_room + drops.ring_full)
            .sum();
        let mut stats = self.stats;
        stats.rx_dropped.add(RxDrop::QueueFull, missed);
        stats
    }

    fn link(&self) -> LinkState {
        self.watch.state()
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.joined {
            Some(joined) => Some(joined.as_fd()),
            None => self.queues.first().map(Xsk::fd),
        }
    }
}

impl AfXdpPort {
    /// Queues a frame for transmission. If the ring is full, the kernel is first made to send.
    #[inline]
    fn enqueue(&mut self, bytes: &[u8], outcome: &mut TxOutcome) -> bool {
        let queue = |this: &mut AfXdpPort| this.queues.first_mut().is_some_and(|q| q.queue(bytes));
        if queue(self) {
            return true;
        }
        self.transmit(outcome);
        queue(self)
    }
}
