//! Data path of the hypervisor. A burst is classified, its packets are processed by the vPDPs'
//! programs as far as quotas admit them, and the results are sent. Packets of vPDPs with the same
//! program are processed together ([`shared_burst`]), the others per vPDP.

use std::ops::Range;
use std::sync::Arc;

use exec::{BURST, DropReason};
use packet::{Frame, Nanos, PortId};
use switch::{Contexts, Ledger, PacketProcessor, SegmentRun};

use crate::cycle_accounting::{CycleAccounting, CycleUse, EstimatedCost, Reception};
use crate::rate_limiter::Used;
use crate::share::{Fairness, ServiceTurn, Shares};
use crate::snapshot::{Admission, EgressMap, SwitchSnapshot, VpdpIndex, VpdpPlace};
use crate::sorter::{Sorter, TOGETHER};
use crate::worker_mailbox::{VpdpWorker, WorkerMailbox};

mod egress_path;
mod observation;
mod pending_reports;
mod ports;
mod prefetch;
mod service_class;
mod shared_burst;

pub(crate) use egress_path::MAX_LINKED;
use egress_path::{EgressPath, Links};
use observation::Observation;
pub use observation::{ObservedPacket, VpdpObserver};
use pending_reports::PendingReports;
use prefetch::{ALONE, PREFETCH_DISTANCE};
use service_class::ServiceClass;
use shared_burst::Functions;

/// Maximum number of links between virtual ports that a packet may pass before it is sent or
/// queued.
pub const MAX_HOPS: usize = 8;

/// Recirculations that a vPDP's packets may use in a burst: a fixed number, and an additional
/// number per packet. Packets above it continue in later bursts, after the other vPDPs' packets.
const PASSES_A_BURST: u32 = 64;
const PASSES_A_PACKET: u32 = 8;

/// Maximum number of frames classified before processing starts, if frames arrive grouped by vPDP.
/// Larger batches lower the cost per vPDP but delay the first frame.
const PART: usize = 1024;

/// Minimum number of frames of such a batch, unless the burst is shorter. If fewer arrive grouped
/// by vPDP, frames are sorted first.
const MIN_PART: usize = 256;

/// Average number of frames per vPDP from which on sorting by vPDP pays.
const FEW_EACH: usize = 6;

/// Postponed packets of a deleted vPDP that are processed per burst.
const LEAVING_A_BURST: usize = 8;

/// Fixed cost of receiving a packet, in bytes copied; the frame length is added.
const BYTES_OF_PACKET: usize = 512;

/// Data path worker: processes a share of the packets of a switch with virtual data planes. It is
/// moved to the thread that runs it.
pub struct Worker {
    desk: Arc<WorkerMailbox>,
    version: u64,
    root: Arc<SwitchSnapshot>,
    /// Empty root that takes the place of `snapshot` while a burst is processed.
    nothing: Option<Arc<SwitchSnapshot>>,
    fairness: Option<Fairness>,
    seats: Vec<Option<Box<VpdpWorker>>>,
    /// Functions of the tenants for shared bursts, and the thread epoch for which they are valid.
    functions: Functions,
    rings: u64,
    /// Runs of frames, each of one tenant, that are processed together next.
    runs: Vec<SegmentRun<VpdpIndex>>,
    /// Per-thread states of deleted or unloaded vPDPs, each with the root for the egress of its
    /// packets.
    leaving: Vec<(Box<VpdpWorker>, Arc<SwitchSnapshot>)>,
    /// Entry used by per-thread states that are in no root.
    nowhere: VpdpPlace,
    sorter: Sorter,
    /// For each prefetch stage, the first frame group of the burst that was not prefetched yet.
    asked: [usize; PREFETCH_DISTANCE.len()],
    /// Tenants with waiting packets.
    watched: Vec<VpdpIndex>,
    untold: PendingReports,
    /// Buffer for postponed packets that are processed now.
    taken_up: Vec<Frame>,
    commons: Commons,
    gauge: Box<dyn CycleAccounting>,
    shares: Shares,
    /// Reception report for the next frames.
    reception: Reception,
    /// Accounting of packets that belong to no vPDP.
    ledger: Ledger,
    is_untold: bool,
    now: Nanos,
}

/// State shared by all vPDPs of a worker.
#[derive(Default)]
struct Commons {
    links: Links,
    /// Packet contexts.
    contexts: Contexts,
    observation: Observation,
}

/// Returns the maximum number of recirculations of a vPDP in a burst with this many of its
/// packets.
pub(crate) fn most_passes(packets: usize) -> u32 {
    let packets = u32::try_from(packets).unwrap_or(u32::MAX);
    PASSES_A_BURST.saturating_add(packets.saturating_mul(PASSES_A_PACKET))
}

/// Processes packets of a vPDP, and work that is due in it, with at most `passes` recirculations.
/// Returns the number of recirculations that began.
fn run<S: FnMut(PortId, &mut Frame, Nanos)>(
    seat: &mut VpdpWorker,
    ways: EgressMap<'_>,
    commons: &mut Commons,
    frames: &mut [Frame],
    passes: u32,
    now: Nanos,
    sent: &mut S,
) -> u64 {
    let Commons {
        links,
        contexts,
        observation,
    } = commons;
    let before = seat.passes();
    seat.visited = links.burst();
    let worker = &mut seat.worker;
    let is_observed = observation.is_of(ways.place);
    // Two instances: the code for description headers would slow down egress without them.
    match ways.place.describes_all() {
        _ if is_observed => {
            let shared = (&mut *links, contexts);
            observation.run(worker, ways, shared, frames, passes, now, sent);
        }
        true => {
            let way = EgressPath::<S, true> { ways, links, sent };
            worker.forward_among(contexts, frames, now, passes, way);
        }
        false => {
            let way = EgressPath::<S, false> { ways, links, sent };
            worker.forward_among(contexts, frames, now, passes, way);
        }
    }
    links.settle(|_, reason| seat.worker.count_drop(reason));
    let begun = seat.passes() - before;
    seat.passes_left = u64::from(passes).saturating_sub(begun) as u32;
    begun
}

/// Divisor of the minimum cost billed for packets: at least a quarter of a service turn.
const MIN_SHARE: u64 = 4;

/// Runs packets as [`run`] does, measures the cost, and charges it to the vPDP's rate limiter.
/// Returns the work and its cost.
fn run_charged<S: FnMut(PortId, &mut Frame, Nanos)>(
    seat: &mut VpdpWorker,
    ways: EgressMap<'_>,
    commons: &mut Commons,
    frames: &mut [Frame],
    passes: u32,
    (now, sent): (Nanos, &mut S),
    gauge: &mut dyn CycleAccounting,
) -> (CycleUse, ServiceTurn) {
    let packets = frames.len() as u64;
    gauge.begin();
    let passes = run(seat, ways, commons, frames, passes, now, sent);
    let work = CycleUse { packets, passes };
    let cycles = gauge.end(work);
    ways.place.gate.charge(Used { passes, cycles }, now);
    let of_packets = match packets {
        0 => cycles,
        _ => cycles.saturating_sub(gauge.visit()).max(cycles / MIN_SHARE),
    };
    (work, ServiceTurn { cycles, of_packets })
}

/// Adds a vPDP with waiting packets to the watched list. Returns true if packets wait, or if the
/// vPDP has taken another program or other tables. It must then be checked again before its
/// packets are processed in shared bursts.
fn watch(seat: &mut VpdpWorker, watched: &mut Vec<VpdpIndex>) -> bool {
    if !seat.is_watched && seat.worker.next_time().is_some() {
        seat.is_watched = true;
        watched.push(seat.slot);
    }
    seat.is_watched || seat.worker.publications() != seat.known
}

impl PacketProcessor for Worker {
    fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        Worker::forward(self, frames, now, sent);
    }

    fn next_time(&self) -> Option<Nanos> {
        Worker::next_time(self)
    }
}

impl Worker {
    /// Creates a worker with the data published so far, so that its first packets are processed
    /// with it. The caller must not publish concurrently.
    pub(crate) fn new(desk: Arc<WorkerMailbox>) -> Worker {
        let mut worker = Worker {
            desk,
            version: 0,
            root: Arc::default(),
            nothing: None,
            fairness: None,
            seats: Vec::new(),
            functions: Functions::default(),
            rings: 0,
            runs: Vec::with_capacity(BURST),
            leaving: Vec::new(),
            nowhere: VpdpPlace::nowhere(),
            sorter: Sorter::default(),
            asked: [0; PREFETCH_DISTANCE.len()],
            watched: Vec::new(),
            untold: PendingReports::default(),
            taken_up: Vec::new(),
            commons: Commons::default(),
            gauge: Box::new(EstimatedCost::default()),
            shares: Shares::default(),
            reception: Reception::default(),
            ledger: Ledger::default(),
            is_untold: false,
            now: Nanos::ZERO,
        };
        worker.take_root();
        worker
    }

    /// Sets the cycle accounting, which is [`EstimatedCost`] by default.
    pub fn measure_by(&mut self, gauge: impl CycleAccounting + 'static) {
        self.gauge = Box::new(gauge);
    }

    /// Sets the observer of the packets of vPDPs.
    pub fn observe_by(&mut self, observer: Box<dyn VpdpObserver>) {
        self.commons.observation = Observation::by(observer);
    }

    /// Reports how the frames of the next [`Worker::forward`] call were received.
    pub fn received(&mut self, reception: Reception) {
        self.reception = reception;
    }

    /// Returns the maximum number of packets of a vPDP in a service turn. It is small while many
    /// are postponed, even if no other vPDP has demand.
    fn most_served(&mut self, slot: VpdpIndex) -> usize {
        match self.fairness {
            Some(_) if self.postponed(slot) > 0 => self.shares.visit(slot).min(BURST),
            Some(_) => self.shares.visit(slot),
            None => usize::MAX,
        }
    }

    fn postponed(&self, slot: VpdpIndex) -> usize {
        self.seat(slot).map_or(0, |seat| seat.worker.postponed())
    }

    /// Sets the callback that wakes this worker's thread, called when another worker hands it a
    /// packet. Only the first call has an effect.
    pub fn wake_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.desk.wake_by(Box::new(wake));
    }

    /// Returns the time at which a packet on this worker may continue, leave a queue, or be taken
    /// over from another worker.
    pub fn next_time(&self) -> Option<Nanos> {
        if self.desk.is_called() {
            return Some(self.now);
        }
        let watched = self.watched.iter().filter_map(|slot| self.seat(*slot));
        let watched = watched.filter_map(|seat| self.next_time_of(seat));
        let leaving = self.leaving.iter();
        let leaving = leaving.filter_map(|(seat, _)| seat.worker.next_time());
        watched.chain(leaving).min()
    }

    /// Returns the time at which a vPDP has work: recirculated packets also wait for its share.
    fn next_time_of(&self, seat: &VpdpWorker) -> Option<Nanos> {
        let next = seat.worker.next_time()?;
        match self.fairness {
            Some(_) if seat.worker.is_behind() => Some(next.max(self.shares.next_pass(seat.slot))),
            _ => Some(next),
        }
    }

    fn seat(&self, slot: VpdpIndex) -> Option<&VpdpWorker> {
        self.seats.get(slot.index())?.as_deref()
    }

    /// Processes received frames; `Frame::ingress` is the physical port. Each packet to be sent is
    /// passed to `sent` with its physical port and the egress time. `sent` may swap the frame for
    /// another one. The contents of `frames` are unspecified afterwards.
    ///
    /// Without frames, it does the work due by `now` and sends the control side all pending
    /// reports, which otherwise wait for more frames.
    pub fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        mut sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.now = self.now.max(now);
        let now = self.now;
        self.commons.links.begin(frames.len());
        self.take_root();
        if self.commons.observation.update() {
            // Observed vPDPs are served alone.
            self.functions.forget(self.seats.len());
        }
        // The root is moved, not cloned: the reference count would cost as much as a packet.
        let nothing = self.nothing.take().unwrap_or_default();
        let root = std::mem::replace(&mut self.root, nothing);
        if let Some(fairness) = &self.fairness {
            self.shares.miss(self.gauge.missed());
            self.shares.begin(fairness, root.slots(), now);
        }
        self.watch_all_if_called();
        if !self.watched.is_empty() {
            self.go_on(&root, ServiceClass::InCredit, &mut sent);
        }
        self.run_leaving(&root, &mut sent);
        if self.fairness.is_some() && !frames.is_empty() {
            self.shares.receive(self.reception);
        }
        self.begin_sorting();
        self.take_in(&root, frames, &mut sent);
        if !self.watched.is_empty() {
            self.go_on(&root, ServiceClass::Others, &mut sent);
        }
        self.follow_links(&root, &mut sent);
        self.tell(frames.len());
        self.desk.bell.end();
        self.nothing = Some(std::mem::replace(&mut self.root, root));
    }

    /// Takes the data that the control side has published.
    #[inline]
    fn take_root(&mut self) {
        if self.desk.has_published(self.version) {
            self.take_published();
        }
    }

    #[cold]
    fn take_published(&mut self) {
        let Some(mut published) = self.desk.take(&mut self.version) else {
            return;
        };
        let root = Arc::clone(&published.root);
        // The control side keeps old roots until it holds the last reference: nothing is freed
        // here.
        let before = std::mem::replace(&mut self.root, Arc::clone(&root));
        if self.fairness != published.fairness {
            // Measurements under the old configuration do not apply to the new one.
            (self.fairness, self.shares) = (published.fairness, Shares::default());
        }
        let slots = root.slots().max(self.seats.len());
        self.seats.resize_with(slots, || None);
        self.sorter.make_room(slots);
        self.commons.links.make_room(slots);
        self.functions.forget(slots);
        self.untold.make_room(slots);
        let arrivals = published.arrivals.drain(..);
        for at in &mut self.seats {
            let goes = |seat: &mut Box<VpdpWorker>| seat.serial != root.serial(seat.slot);
            if let Some(seat) = at.take_if(goes) {
                self.leaving.push((seat, Arc::clone(&before)));
            }
        }
        for seat in arrivals {
            match seat.serial == root.serial(seat.slot) {
                true => {
                    let at = seat.slot.index();
                    self.seats[at] = Some(seat);
                }
                // The vPDP was created and deleted before this worker looked.
                false => self.leaving.push((seat, Arc::clone(&root))),
            }
        }
        self.commons.contexts.forget_gone();
        // A new vPDP must not inherit the account of a reused tenant index. Each worker sees the
        // index unused in between.
        self.shares.forget(|slot| root.place(slot).is_none());
        let seats = &self.seats;
        let seat = |slot: &VpdpIndex| seats.get(slot.index()).and_then(Option::as_deref);
        self.watched
            .retain(|slot| seat(slot).is_some_and(|seat| seat.is_watched));
    }

    /// Classifies and processes frames. With fair sharing, all frames of the burst are classified
    /// first. Otherwise they are processed in batches, while they arrive grouped by vPDP and are
    /// processed in shared bursts. No packet waits or is limited then, so batching does not change
    /// the result.
    fn take_in(
        &mut self,
        root: &SwitchSnapshot,
        frames: &mut [Frame],
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let mut rest = frames;
        loop {
            if self.fairness.is_none() && rest.len() <= BURST {
                return self.go_as_they_come(root, rest, sent);
            }
            let Some(count) = self.come_by_slot(root, rest) else {
                break;
            };
            if self.fairness.is_some() {
                return self.serve_fairly(root, rest, sent);
            }
            if !self.find_functions(root) {
                self.sorter.write_slots();
                self.classify(root, rest, &[]);
                return self.serve_all(root, rest, sent);
            }
            let (part, later) = rest.split_at_mut(count);
            self.asked = [0; PREFETCH_DISTANCE.len()];
            self.go(root, 0..self.sorter.groups(), part, sent);
            rest = later;
        }
        self.classify(root, rest, &[]);
        self.serve_sorted(root, rest, sent);
    }

    /// Classifies the next batch of frames, if they arrive grouped by vPDP, and returns its
    /// length. Otherwise returns `None`; some frames may be classified then.
    fn come_by_slot(&mut self, root: &SwitchSnapshot, frames: &mut [Frame]) -> Option<usize> {
        self.sorter.begin_by_slot();
        let (least, most) = match self.fairness {
            // Fair sharing distributes the whole burst at once.
            Some(_) => (frames.len(), frames.len()),
            None => (MIN_PART.min(frames.len()), PART),
        };
        let sorter = &mut self.sorter;
        let take = |slot, at| sorter.add_by_slot(slot, at);
        let entered = root.entrances.enter_in_runs(frames, most, take);
        sorter.end_by_slot(entered);
        if entered >= least {
            return Some(entered);
        }
        sorter.write_slots();
        if root.entrances.has_signs(frames[entered].ingress) {
            // The next frame belongs to no vPDP, or to one that would break the grouping.
            return None;
        }
        let (frames, later) = frames.split_at_mut(least);
        self.classify(root, frames, later);
        self.sorter.take_by_slot().then_some(least)
    }

    /// Classifies each frame without a tenant index, and sets its virtual port. The frames of
    /// `behind` are prefetched.
    fn classify(&mut self, root: &SwitchSnapshot, frames: &mut [Frame], behind: &[Frame]) {
        let Worker {
            sorter,
            ledger,
            is_untold,
            ..
        } = self;
        let mut refuse = |reason| {
            ledger.refuse(1, reason);
            *is_untold = true;
        };
        let known = sorter.slots.len();
        sorter.slots.resize(frames.len(), VpdpIndex::NONE);
        let (mut rest, mut slots) = (&mut frames[known..], &mut sorter.slots[known..]);
        while !rest.is_empty() {
            let count = rest.len().min(TOGETHER);
            let (some, later) = rest.split_at_mut(count);
            let (own, others) = slots.split_at_mut(count);
            let next = if later.is_empty() { behind } else { &*later };
            root.entrances.enter(some, next, own, &mut refuse);
            (rest, slots) = (later, others);
        }
    }

    /// Processes classified frames.
    fn serve_all(
        &mut self,
        root: &SwitchSnapshot,
        frames: &mut [Frame],
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        if self.fairness.is_none() && self.sorter.take_by_slot() {
            if !self.find_functions(root) {
                return self.serve_groups(root, frames, sent);
            }
            self.asked = [0; PREFETCH_DISTANCE.len()];
            return self.go(root, 0..self.sorter.groups(), frames, sent);
        }
        self.serve_sorted(root, frames, sent);
    }

    /// Processes classified frames that may not be grouped by tenant.
    fn serve_sorted(
        &mut self,
        root: &SwitchSnapshot,
        frames: &mut [Frame],
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.sorter.find_groups();
        let go_together = self.fairness.is_none() && self.find_functions(root);
        let are_few = (BURST + 1..FEW_EACH * self.sorter.groups()).contains(&frames.len());
        if go_together && are_few && self.are_of_one_function() {
            self.sorter.forget_groups();
            return self.go_in_small_bursts(root, frames, sent);
        }
        let Worker {
            sorter, functions, ..
        } = self;
        sorter.arrange(|slot| functions.rank(slot));
        if go_together {
            self.asked = [0; PREFETCH_DISTANCE.len()];
            return self.go(root, 0..self.sorter.groups(), frames, sent);
        }
        self.sorter.move_frames(frames);
        match self.fairness {
            Some(_) => self.serve_fairly(root, frames, sent),
            None => self.serve_groups(root, frames, sent),
        }
    }

    /// Processes frames that are sorted by tenant, with fair sharing. vPDPs that have used their
    /// guaranteed share are served last.
    fn serve_fairly(
        &mut self,
        root: &SwitchSnapshot,
        frames: &mut [Frame],
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.end_sorting();
        self.share_reception(frames);
        let shares = &self.shares;
        self.sorter.put_last(|slot| !shares.has_credit(slot));
        self.serve_groups(root, frames, sent);
    }

    /// Starts to measure classification and sorting, up to [`Worker::end_sorting`].
    fn begin_sorting(&mut self) {
        if self.fairness.is_some() {
            self.gauge.begin();
        }
    }

    fn end_sorting(&mut self) {
        let cycles = self.gauge.end(CycleUse::default());
        self.shares.receive(Reception {
            cycles,
            missed: self.gauge.missed(),
            is_behind: false,
        });
        if !self.commons.links.is_followed {
            self.reception.cycles += cycles;
        }
    }

    /// Bills the cost of receiving and sorting a burst to the vPDPs, by packets and bytes. Packets
    /// from links were billed when they were received.
    fn share_reception(&mut self, frames: &[Frame]) {
        if self.commons.links.is_followed {
            return;
        }
        let cycles = std::mem::take(&mut self.reception).cycles as f64;
        let groups = self.sorter.groups();
        self.shares.meet(groups);
        let bytes = |frames: &[Frame]| {
            let lengths = frames.iter().map(|frame| BYTES_OF_PACKET + frame.len());
            lengths.sum::<usize>() as f64
        };
        let cycles_of_byte = cycles / bytes(frames).max(1.0);
        for (slot, range) in (0..groups).map(|number| self.sorter.group(number)) {
            let packets = range.len();
            let part = cycles_of_byte * bytes(&frames[range]);
            self.shares.receive_for(slot, packets, part);
        }
    }

    fn serve_groups(
        &mut self,
        root: &SwitchSnapshot,
        frames: &mut [Frame],
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.asked = [0; PREFETCH_DISTANCE.len()];
        let mut number = 0;
        while number < self.sorter.groups() {
            let first = number;
            while number < self.sorter.groups() && self.goes_with_others(number) {
                number += 1;
            }
            if first < number {
                self.go(root, first..number, frames, sent);
                continue;
            }
            self.look_ahead(root, number, ALONE);
            let (slot, range) = self.sorter.group(number);
            number += 1;
            self.serve(root, slot, range, frames, sent);
        }
    }

    fn goes_with_others(&self, group: usize) -> bool {
        let (slot, _) = self.sorter.group(group);
        self.functions.of(slot).is_some()
    }

    /// Processes packets of one vPDP in a service turn; the excess is postponed to the next one.
    fn serve(
        &mut self,
        root: &SwitchSnapshot,
        slot: VpdpIndex,
        range: Range<usize>,
        frames: &mut [Frame],
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let is_linked = self.commons.links.is_followed;
        let most = match is_linked {
            // The hop limit bounds the packets on links.
            true => usize::MAX,
            false => self.most_served(slot),
        };
        let seat = self.seats.get_mut(slot.index());
        let (Some(place), Some(seat)) = (root.place(slot), seat.and_then(Option::as_mut)) else {
            let closed = root.place(slot).map(|place| place.admission);
            let reason = match closed {
                Some(Admission::Closed(reason)) => reason,
                _ => DropReason::Unclassified,
            };
            self.ledger.refuse(range.len() as u64, reason);
            self.is_untold = true;
            return;
        };
        self.untold.put(slot);
        if let Admission::Closed(reason) = place.admission {
            return seat.worker.refuse(range.len() as u64, reason);
        }
        // Packets do not wait for a device that is being changed: they are postponed, as those
        // that arrive after postponed ones, to keep the order. Packets from links are not
        // postponed: they would lose their hop count and circulate for ever.
        let waits = !is_linked && (seat.worker.is_held() || seat.worker.postponed() > 0);
        let served = match waits {
            true => range.start..range.start,
            false => range.start..range.start + range.len().min(most),
        };
        if range.len() >= most {
            self.shares.has_more(slot, range.len());
        }
        let later = &mut frames[served.end..range.end];
        if !later.is_empty() {
            let reason = match self.fairness {
                Some(_) => DropReason::FairShare,
                None => DropReason::TailDrop,
            };
            let spare = &mut self.commons.links.spare;
            seat.worker.postpone(later, spare, reason);
            if watch(seat, &mut self.watched) {
                self.functions.forget_one(slot);
            }
        }
        if !served.is_empty() {
            self.run_admitted(root, slot, served, frames, sent);
        }
    }

    /// Processes packets of one vPDP, up to its quotas.
    fn run_admitted(
        &mut self,
        root: &SwitchSnapshot,
        slot: VpdpIndex,
        range: Range<usize>,
        frames: &mut [Frame],
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let now = self.now;
        let seat = self.seats.get_mut(slot.index());
        let (Some(ways), Some(seat)) = (root.ways(slot), seat.and_then(Option::as_mut)) else {
            return;
        };
        let place = ways.place;
        let is_unlimited = place.is_unlimited && self.fairness.is_none();
        let frames = &mut frames[range];
        if is_unlimited {
            let passes = seat.most_passes(self.commons.links.burst(), frames.len());
            run(seat, ways, &mut self.commons, frames, passes, now, sent);
        } else {
            let (mut admitted, reason) = place.gate.admit(frames.len(), now);
            seat.worker.refuse((frames.len() - admitted) as u64, reason);
            let mut passes = seat.most_passes(self.commons.links.burst(), admitted);
            if self.fairness.is_some() {
                let (served, most) = self.shares.admit(slot, place.gate.weight, admitted);
                seat.worker
                    .refuse((admitted - served) as u64, DropReason::FairShare);
                (admitted, passes) = (served, passes.min(most));
            }
            let frames = &mut frames[..admitted];
            let gauge = &mut *self.gauge;
            let commons = &mut self.commons;
            let (work, visit) =
                run_charged(seat, ways, commons, frames, passes, (now, sent), gauge);
            self.shares.book(slot, work, visit, seat.worker.is_behind());
        }
        if watch(seat, &mut self.watched) {
            self.functions.forget_one(slot);
        }
    }

    /// Processes the remaining packets of deleted or unloaded vPDPs, and returns states without
    /// packets to the control side.
    fn run_leaving(
        &mut self,
        root: &SwitchSnapshot,
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        if self.leaving.is_empty() {
            return;
        }
        for (seat, before) in &mut self.leaving {
            // The tenant index may have been reused.
            let own = before.ways(seat.slot);
            let own = own.filter(|ways| ways.place.serial == seat.serial);
            let had = own.unwrap_or(EgressMap::none(&self.nowhere));
            // Egress follows the current port map if the vPDP still exists. A deleted vPDP keeps
            // its old ports as long as no other vPDP has them.
            let has = root.ways_of(had.place);
            let ways = has.unwrap_or(had);
            let mut foreign = 0;
            let mut sent = |port, frame: &mut Frame, time| match has.is_some()
                || root.lets_leave(before, had.place, port)
            {
                true => sent(port, frame, time),
                false => foreign += 1,
            };
            let gauge = &mut *self.gauge;
            let frames = &mut self.taken_up;
            if !seat.worker.is_held() {
                seat.worker.dequeue_deferred(LEAVING_A_BURST, frames);
            }
            let passes = most_passes(frames.len());
            let commons = &mut self.commons;
            let when = (self.now, &mut sent);
            run_charged(seat, ways, commons, frames, passes, when, gauge);
            (0..foreign).for_each(|_| seat.worker.count_drop(DropReason::ForeignEgress));
            frames
                .drain(..)
                .for_each(|frame| self.commons.links.spare.put(frame));
            seat.worker.tell();
        }
        let Some(mut told) = self.desk.tell() else {
            return;
        };
        let is_done =
            |(seat, _): &mut (Box<VpdpWorker>, Arc<SwitchSnapshot>)| seat.worker.held() == 0;
        let gone = self.leaving.extract_if(.., is_done);
        told.gone.extend(gone.map(|(seat, _)| seat));
    }

    /// Processes packets that were sent over links, repeatedly until none are left.
    fn follow_links(
        &mut self,
        root: &SwitchSnapshot,
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let mut hops = 1;
        self.commons.links.is_followed = true;
        while !self.commons.links.frames.is_empty() {
            self.is_untold = true;
            let mut frames = std::mem::take(&mut self.commons.links.frames);
            std::mem::swap(&mut self.sorter.slots, &mut self.commons.links.slots);
            self.commons.links.slots.clear();
            match hops <= MAX_HOPS {
                true => {
                    self.begin_sorting();
                    self.serve_all(root, &mut frames, sent);
                }
                false => self.refuse_linked(),
            }
            hops += 1;
            for frame in frames.drain(..) {
                self.commons.links.spare.put(frame);
            }
            if self.commons.links.frames.is_empty() {
                // The buffer is reused.
                self.commons.links.frames = frames;
            }
        }
        self.commons.links.is_followed = false;
    }

    /// Drops packets that have passed too many links.
    fn refuse_linked(&mut self) {
        for slot in &self.sorter.slots {
            let seat = self.seats.get_mut(slot.index()).and_then(Option::as_mut);
            match seat {
                Some(seat) => {
                    seat.worker.refuse(1, DropReason::LinkHops);
                    self.untold.put(*slot);
                }
                None => self.ledger.refuse(1, DropReason::LinkHops),
            }
        }
    }
}

impl Drop for Worker {
    /// Hands the worker's state and counters back to the hypervisor.
    fn drop(&mut self) {
        let leaving = self.leaving.drain(..).map(|(seat, _)| seat);
        let seats = self.seats.drain(..).flatten().chain(leaving);
        {
            let mut told = self.desk.told();
            told.ledger.clone_from(&self.ledger);
            told.linked = self.commons.links.count;
        }
        self.desk.close(seats);
    }
}
