//! Observation of the packets of a running switch: captures of frames at ports, traces, and
//! summaries of the ways of packets. Observers come and go while the switch runs.
//!
//! A frame that an observer takes leaves its burst and is processed alone, so that what happens to
//! it is known. All others are processed at full speed.

mod budget;
mod drop_sites;
mod paths;
mod ports;
mod service;
mod vpdps;
mod worker;

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use packet::{Nanos, PortId};
use port::FrameDirection;
use tenancy::VpdpId;

use crate::trace_filter::{PacketFilter, TracedPacket};
use budget::PacketBudget;
use paths::PathTable;

pub use budget::ObserverLimits;
pub(crate) use drop_sites::DropSites;
pub use drop_sites::SampledDrops;
pub use ports::ObservedPorts;
pub use service::Unrendered;
pub(crate) use service::{DeviceObservation, Summaries};
pub(crate) use vpdps::ObserverOfVpdps;
pub(crate) use worker::{ReceivedObservers, SentObservers};

/// Maximum number of observers of a switch, or of all vPDPs of a switch.
const MAX_OBSERVERS: usize = 64;

/// Maximum number of observers of one device, and the maximum while half of all places are taken:
/// then the others are kept for devices with fewer.
const MAX_OF_DEVICE: usize = 8;
const MAX_OF_DEVICE_THEN: usize = 1;

/// A frame that an observer has taken at a port.
#[derive(Debug)]
pub struct CapturedFrame {
    /// The port.
    pub port: PortId,
    /// Its direction at the port.
    pub direction: FrameDirection,
    /// Time since 1970.
    pub time: Nanos,
    /// Length of the whole frame.
    pub length: usize,
    /// The first bytes of the frame.
    pub bytes: Box<[u8]>,
    /// The reason for which the frame was dropped, if it was: `dropped: tail_drop`.
    pub comment: Option<String>,
}

/// Outcome of giving something to the consumer of an observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The consumer has it.
    Yes,
    /// The consumer has no room now.
    Full,
}

/// Function that gives something to a consumer, and counts it as delivered or gives it back.
type Deliver<T> = Box<dyn Fn(T, &Arc<PacketBudget>) + Send + Sync>;

/// Purpose of an observer: what it wants of its packets.
enum Wish {
    /// The first bytes of the frames, when they come and when they leave.
    Frames {
        snap_len: usize,
        deliver: Deliver<CapturedFrame>,
    },
    /// All steps of the packets.
    Traces(Deliver<TracedPacket>),
    /// Counts of packets by their way.
    Paths(PathTable),
}

/// Set of the ports at which an observer captures frames. Ports can leave it while the switch runs.
#[derive(Debug)]
pub struct CapturedPorts(Box<[(PortId, AtomicBool)]>);

impl CapturedPorts {
    /// Returns the set of these ports.
    pub fn new(ports: &[PortId]) -> CapturedPorts {
        let mut ports = ports.to_vec();
        ports.sort_unstable();
        ports.dedup();
        let ports = ports.into_iter().map(|port| (port, AtomicBool::new(true)));
        CapturedPorts(ports.collect())
    }

    /// Takes a port out of the set. Workers may take a few more of its frames.
    pub fn remove(&self, port: PortId) {
        if let Some(is_in) = self.find(port) {
            is_in.store(false, Relaxed);
        }
    }

    /// Returns true if the port is in the set.
    pub fn contains(&self, port: PortId) -> bool {
        self.find(port).is_some_and(|is_in| is_in.load(Relaxed))
    }

    fn find(&self, port: PortId) -> Option<&AtomicBool> {
        let at = self.0.binary_search_by_key(&port, |(own, _)| *own).ok()?;
        Some(&self.0[at].1)
    }
}

/// Observer of packets that match a filter.
pub struct Observer {
    filter: PacketFilter,
    /// The port at which frames are observed; all ports without one.
    port: Option<PortId>,
    /// The ports at which frames are observed; all ports without a set.
    ports: Option<Arc<CapturedPorts>>,
    /// The vPDP of which packets are observed; the switch without one.
    vpdp: Option<VpdpId>,
    wish: Wish,
    budget: Arc<PacketBudget>,
}

impl Observer {
    fn new(
        filter: PacketFilter,
        port: Option<PortId>,
        limits: ObserverLimits,
        wish: Wish,
    ) -> Observer {
        Observer {
            filter,
            port,
            ports: None,
            vpdp: None,
            wish,
            budget: Arc::new(PacketBudget::new(limits)),
        }
    }

    /// Returns an observer that captures frames: at most `snap_len` bytes of each.
    pub fn of_frames(
        filter: PacketFilter,
        port: Option<PortId>,
        limits: ObserverLimits,
        snap_len: usize,
        deliver: impl Fn(CapturedFrame) -> Taken + Send + Sync + 'static,
    ) -> Observer {
        let deliver = Box::new(move |frame, budget: &Arc<PacketBudget>| {
            let taken = deliver(frame);
            match taken {
                Taken::Yes => drop(budget.delivered()),
                Taken::Full => budget.give_back(),
            }
        });
        Observer::new(filter, port, limits, Wish::Frames { snap_len, deliver })
    }

    fn of_paths(filter: PacketFilter, limits: ObserverLimits) -> Observer {
        Observer::new(filter, None, limits, Wish::Paths(PathTable::default()))
    }

    /// Returns the observer, for frames at these ports.
    #[must_use]
    pub fn at_ports(self, ports: Arc<CapturedPorts>) -> Observer {
        Observer {
            ports: Some(ports),
            ..self
        }
    }

    /// Returns the observer, for packets of this vPDP.
    fn of_vpdp(self, vpdp: Option<VpdpId>) -> Observer {
        Observer { vpdp, ..self }
    }

    /// Returns the number of matching packets that were not taken, for their rate or because the
    /// consumer had no room.
    pub fn skipped(&self) -> u64 {
        self.budget.skipped()
    }

    #[inline]
    fn matches(&self, port: PortId, bytes: &[u8]) -> bool {
        self.port.is_none_or(|own| own == port)
            && self.ports.as_ref().is_none_or(|own| own.contains(port))
            && self.filter.matches_at(port, bytes)
    }

    /// Counts a matching packet. Returns true if it is taken.
    #[cold]
    fn takes(&self, now: Nanos) -> bool {
        self.budget.takes(now)
    }

    fn wants_frames(&self) -> bool {
        matches!(self.wish, Wish::Frames { .. })
    }

    /// Delivers a frame at a port, if the observer captures frames.
    fn capture(&self, frame: SeenFrame<'_>) {
        let Wish::Frames { snap_len, deliver } = &self.wish else {
            return;
        };
        let bytes = &frame.bytes[..frame.bytes.len().min(*snap_len)];
        let captured = CapturedFrame {
            port: frame.port,
            direction: frame.direction,
            time: frame.time,
            length: frame.bytes.len(),
            bytes: bytes.into(),
            comment: frame.dropped.map(|reason| format!("dropped: {reason}")),
        };
        deliver(captured, &self.budget);
    }
}

/// A frame at a port, with the reason for which it was dropped.
#[derive(Clone, Copy)]
struct SeenFrame<'f> {
    port: PortId,
    direction: FrameDirection,
    time: Nanos,
    bytes: &'f [u8],
    dropped: Option<&'static str>,
}

/// Error: the switch or the vPDP has as many observers as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyObservers;

impl std::fmt::Display for TooManyObservers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("too many captures, traces and summaries run already; end one of them")
    }
}

impl std::error::Error for TooManyObservers {}

type Observers = Arc<[Arc<Observer>]>;

/// The observers of a switch.
#[derive(Default)]
pub struct PacketObservers {
    /// Number of changes so far. Workers compare it once a round.
    changes: AtomicU64,
    all: Mutex<Observers>,
    ports: Arc<ObservedPorts>,
}

impl PacketObservers {
    /// Returns no observers, of a switch with these ports.
    pub(crate) fn at(ports: &[(PortId, String)]) -> PacketObservers {
        PacketObservers {
            ports: Arc::new(ObservedPorts::new(ports)),
            ..PacketObservers::default()
        }
    }

    /// Returns the ports of the switch.
    pub fn ports(&self) -> &Arc<ObservedPorts> {
        &self.ports
    }

    /// Adds an observer, up to the end of the guard's life.
    ///
    /// # Errors
    /// There are as many as there may be.
    pub fn add(self: &Arc<Self>, observer: Observer) -> Result<ObserverGuard, TooManyObservers> {
        let observer = Arc::new(observer);
        let mut all = self.lock();
        let of_device = all.iter().filter(|other| other.vpdp == observer.vpdp);
        let most = match all.len() < MAX_OBSERVERS / 2 {
            true => MAX_OF_DEVICE,
            false => MAX_OF_DEVICE_THEN,
        };
        if all.len() >= MAX_OBSERVERS || of_device.count() >= most {
            return Err(TooManyObservers);
        }
        *all = all.iter().chain([&observer]).cloned().collect();
        self.changes.fetch_add(1, Release);
        Ok(ObserverGuard {
            observer,
            of: Arc::clone(self),
        })
    }

    fn remove(&self, observer: &Arc<Observer>) {
        let mut all = self.lock();
        let others = all.iter().filter(|other| !Arc::ptr_eq(other, observer));
        *all = others.cloned().collect();
        self.changes.fetch_add(1, Release);
    }

    /// Returns the observers if they have changed since the number of changes was `seen`.
    #[inline]
    fn changed_since(&self, seen: &mut u64) -> Option<Observers> {
        let changes = self.changes.load(Acquire);
        if changes == *seen {
            return None;
        }
        *seen = changes;
        Some(Arc::clone(&self.lock()))
    }

    fn lock(&self) -> MutexGuard<'_, Observers> {
        // The list is replaced as a whole.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard of an observer, which ends with it.
pub struct ObserverGuard {
    observer: Arc<Observer>,
    of: Arc<PacketObservers>,
}

impl ObserverGuard {
    /// Returns the observer.
    pub fn observer(&self) -> &Arc<Observer> {
        &self.observer
    }
}

impl Drop for ObserverGuard {
    fn drop(&mut self) {
        self.of.remove(&self.observer);
    }
}

/// Returns the time since 1970.
fn wall_clock() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock before 1970 is not set.
    Nanos::from(since.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(vpdp: Option<VpdpId>) -> Observer {
        let limits = ObserverLimits {
            packets: None,
            rate: 1,
        };
        Observer::of_paths(PacketFilter::all(), limits).of_vpdp(vpdp)
    }

    #[test]
    fn observers_come_and_go_and_are_bounded() {
        let all = Arc::<PacketObservers>::default();
        let mut seen = 0;
        assert!(all.changed_since(&mut seen).is_none());
        let add = || all.add(paths(None));
        let guards: Vec<_> = (0..MAX_OF_DEVICE).map(|_| add().unwrap()).collect();
        assert_eq!(all.changed_since(&mut seen).unwrap().len(), MAX_OF_DEVICE);
        assert_eq!(add().err(), Some(TooManyObservers));
        drop(guards);
        assert_eq!(all.changed_since(&mut seen).unwrap().len(), 0);
        assert!(all.changed_since(&mut seen).is_none());
    }

    #[test]
    fn frames_at_ports_outside_of_the_set_do_not_match() {
        let ports = Arc::new(CapturedPorts::new(&[PortId(7), PortId(2), PortId(7)]));
        let observer = paths(None).at_ports(Arc::clone(&ports));
        let matching = || {
            let all = (0..9).filter(|port| observer.matches(PortId(*port), &[0; 60]));
            all.collect::<Vec<u32>>()
        };
        assert_eq!(matching(), [2, 7]);
        ports.remove(PortId(2));
        ports.remove(PortId(3));
        assert_eq!(matching(), [7]);
        ports.remove(PortId(7));
        assert!(matching().is_empty());
    }

    #[test]
    fn few_devices_do_not_take_the_places_of_others() {
        let all = Arc::<PacketObservers>::default();
        let add = |id: u16| all.add(paths(Some(VpdpId::new(id).unwrap())));
        let mut guards = Vec::new();
        for id in 1..=8 {
            guards.extend((0..MAX_OF_DEVICE).map_while(|_| add(id).ok()));
        }
        // Four of them have all that they may have.
        assert_eq!(guards.len(), MAX_OBSERVERS / 2 + 4);
        guards.push(add(9).unwrap());
        assert!(add(9).is_err());
        assert!(add(1).is_err());
    }
}
