//! A port on an existing network interface, by AF_XDP: the driver gives frames to the process before the
//! kernel's own network sees them.
//!
//! Frames are copied between the memory that is shared with the kernel and [`packet::Frame`]s. That is
//! a few nanoseconds for a short frame and the first touch of its bytes, which the program would have to
//! pay for else; in return a frame can be kept, grown and sent by a port of any kind.

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
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of an Ethernet header, without which nothing is sent.
const MIN_FRAME: usize = 14;

/// Bytes of an Ethernet header and two VLAN tags.
const LINK_HEADER: usize = 22;

/// Bytes of a chunk where a frame fits, and where it may not.
const SMALL_CHUNK: usize = 2048;
const LARGE_CHUNK: usize = 4096;

/// Frames that may wait to be received: by one queue, by all together, by one of very many.
const RX_FRAMES: u32 = 4096;
const RX_FRAMES_TOGETHER: u32 = 32768;
const RX_FRAMES_LEAST: u32 = 1024;

/// Frames that may wait to be sent.
const TX_FRAMES: u32 = 2048;

/// Drivers of interfaces whose other end is a kernel that leaves checksums to "the wire".
const VIRTUAL_DRIVERS: [&str; 3] = ["veth", "tun", "virtio_net"];

/// The driver whose interfaces have what the kernel copies on its way, and its memory back, when a call to send returns. Others may give memory back that their devices still read
/// (virtio_net: `IFF_TX_SKB_NO_LINEAR` with `napi_tx=0`).
const RETURNS_AT_ONCE: &str = "veth";

/// How a driver gives frames to AF_XDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// The driver itself runs the program that redirects frames.
    Driver,
    /// The kernel does, behind the driver: possible with every driver, and slower than
    /// [`super::AfPacketPort`] with most.
    Generic,
}

/// A switch port on a Linux interface (AF_XDP; Linux 5.9, better 6.8). While it is open the interface is
/// promiscuous, and this machine's own network does not receive from it.
pub struct AfXdpPort {
    id: PortId,
    watch: LinkWatch,
    queues: Vec<Xsk>,
    /// The queue to receive from first: each in turn.
    first: usize,
    /// All queues' descriptors in one, if there are several.
    joined: Option<OwnedFd>,
    /// Whether the device is polled when nothing has come.
    polls: bool,
    stats: PortStats,
    refusals: Refusals,
    common: Arc<Common>,
}

/// What all shares of a port have together; it goes with the last of them.
struct Common {
    /// A packet socket that is never read: it keeps the interface promiscuous, and is asked about the
    /// link.
    control: OwnedFd,
    /// Whether senders may leave checksums to the interface.
    completes: bool,
    mode: XdpMode,
    driver: String,
    /// How many queues the interface has.
    queues: usize,
    attached: Attached,
    _offloads: OffloadsOff,
}

impl AfXdpPort {
    /// Opens the interface `name` of the thread's network namespace as switch port `id`, with all its
    /// queues.
    ///
    /// # Errors
    /// [`PortError::NoSuchInterface`], [`PortError::NotEthernet`], [`PortError::NoPermission`] without
    /// CAP_NET_RAW; [`PortError::NoXdp`] if the kernel, the driver or the user's rights do not allow it,
    /// or something else uses XDP on the interface.
    pub fn open(id: PortId, name: &str, mode: XdpMode) -> Result<AfXdpPort, PortError> {
        let mut shares = AfXdpPort::open_shares(id, name, mode, 1)?;
        Ok(shares.swap_remove(0))
    }

    /// The same in shares, each with queues of its own: as many as there are queues, and `most` at most,
    /// which is one at least. The interface spreads frames over its queues, as its driver says.
    ///
    /// # Errors
    /// As [`AfXdpPort::open`].
    pub fn open_shares(
        id: PortId,
        name: &str,
        mode: XdpMode,
        most: usize,
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
        let open = || {
            let mut sockets = Sockets::new(queues.max(1))?;
            let returns_at_once = driver == RETURNS_AT_ONCE;
            let queues = open_queues(&interface, queues.max(1), mode, returns_at_once)?;
            for (number, queue) in (0..).zip(&queues) {
                sockets.set(number, queue.fd())?;
            }
            let attached = sockets.attach(interface.index, by_driver)?;
            Ok((queues, attached))
        };
        let (queues, attached) = open().map_err(no_xdp)?;
        if !attached.puts_tags_back {
            offloads.leave_tags();
        }
        let common = Arc::new(Common {
            control,
            completes: VIRTUAL_DRIVERS.contains(&driver.as_str()) || !by_driver,
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

    /// One share, with these queues.
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

    /// How many queues the interface has, those of other shares among them.
    pub fn queues(&self) -> usize {
        self.common.queues
    }

    /// Whether VLAN tags that a sender leaves to the interface may be missing from frames: a veth peer
    /// does that for its VLAN interfaces, and only Linux 6.8 and later tell of it.
    pub fn may_lose_tags(&self) -> bool {
        self.common.completes && !self.common.attached.puts_tags_back
    }

    /// Has the device polled whenever [`Port::rx`] finds nothing, for up to `microseconds` and `budget`
    /// frames, instead of waiting for its interrupts: lower latency, and one processor for both. It pays
    /// where the interface's interrupts are deferred (`napi_defer_hard_irqs`, `gro_flush_timeout`); a veth
    /// interface has none. Needs Linux 5.11.
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

    /// Receives what has arrived and sends it by `to` unchanged, without frames in between: the least
    /// that a switch on such ports does, to compare one with. How many frames.
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
                // What the kernel does not take now it takes with the next frames.
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

    /// Takes what one queue has, as far as the batch has room.
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

    /// Why a frame cannot be sent, if that is known without trying.
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

    /// Has the kernel send what is queued. Frames that it takes and does not send are counted as
    /// dropped
    /// instead of sent.
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

/// Deals queues out to at most so many shares, each in turn; none is without.
fn deal(queues: Vec<Xsk>, most: usize) -> Vec<Vec<Xsk>> {
    let shares = queues.len().min(most).max(1);
    let mut dealt: Vec<Vec<Xsk>> = (0..shares).map(|_| Vec::new()).collect();
    for (number, queue) in queues.into_iter().enumerate() {
        dealt[number % shares].push(queue);
    }
    dealt
}

/// Copies what has arrived; whether it is short enough for a frame.
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
        // With protocol 0 it receives nothing.
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

/// How often, and after how long, a queue that is taken is asked for again.
const ATTEMPTS: u32 = 10;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(10);

/// Opens again what is still taken: the kernel gives queues back some time after the socket that had them was closed, one of our own that could not be
/// attached in another way among them.
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

/// Opens a socket for each queue, in the best way that kernel and driver have: without copying, with
/// frames in several chunks.
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
                // A power of two below.
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

/// The reason of an error, and what to do about it.
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

/// How the port works: `driver veth, copying, 1 queue`.
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
    /// Queues a frame to be sent, after having the kernel send what waits if there is no room.
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
