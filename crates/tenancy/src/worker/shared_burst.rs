//! Shared bursts: packets of all vPDPs that run the same compiled program are processed in one
//! call. A vPDP takes part only while it has no queued packets and no limits. This is the common
//! case; other vPDPs are served one by one.

use std::num::NonZeroUsize;
use std::ops::Range;

use exec::{BURST, IDENTITY_ORDER};
use packet::{Frame, Nanos, PortId};
use switch::{BurstProgress, DeviceMask, SegmentRun, WorkerSet, forward_shared_burst};

use super::egress_path::leave;
use super::prefetch::{ALONE, TOGETHER_WITH_OTHERS};
use super::{Commons, Worker, watch};
use crate::snapshot::{Admission, EgressMap, SwitchSnapshot, VpdpIndex, VpdpPlace};
use crate::sorter::Sorter;
use crate::worker_mailbox::VpdpWorker;

/// Cache: function of each tenant for shared bursts. Entries are dropped when the thread's epoch
/// changes, a new root is taken, or a packet of the tenant leaves the fast path.
#[derive(Default)]
pub(super) struct Functions {
    /// Indexed by tenant; `None` if unknown, or not eligible for shared bursts.
    of: Vec<Option<NonZeroUsize>>,
}

impl Functions {
    /// Clears the cache for this many tenants.
    pub(super) fn forget(&mut self, slots: usize) {
        self.of.clear();
        self.of.resize(slots, None);
    }

    /// Clears the entry of a tenant.
    pub(super) fn forget_one(&mut self, slot: VpdpIndex) {
        if let Some(of) = self.of.get_mut(slot.index()) {
            *of = None;
        }
    }

    #[inline]
    pub(super) fn of(&self, slot: VpdpIndex) -> Option<NonZeroUsize> {
        self.of.get(slot.index()).copied().flatten()
    }

    /// Returns the sort key of a tenant: tenants are sorted by function, those without one come
    /// last.
    pub(super) fn rank(&self, slot: VpdpIndex) -> usize {
        self.of(slot).map_or(usize::MAX, NonZeroUsize::get)
    }

    /// Sets the function of a tenant.
    fn learn(&mut self, slot: VpdpIndex, function: NonZeroUsize) {
        if let Some(of) = self.of.get_mut(slot.index()) {
            *of = Some(function);
        }
    }
}

/// Number of frames from which on a vPDP is served alone, if the burst is sorted: the cost of a
/// turn per frame is small then, and each frame costs a little less.
const MANY_FRAMES: usize = 2 * BURST;

/// Members of a shared burst: per-thread states by tenant index.
struct SharedBurstMembers<'s> {
    seats: &'s mut [Option<Box<VpdpWorker>>],
    burst: u64,
}

impl WorkerSet for SharedBurstMembers<'_> {
    type Number = VpdpIndex;

    #[inline]
    fn worker(&self, slot: VpdpIndex) -> Option<&switch::Worker> {
        Some(&self.seats.get(slot.index())?.as_ref()?.worker)
    }

    #[inline]
    fn worker_mut(&mut self, slot: VpdpIndex) -> Option<&mut switch::Worker> {
        Some(&mut self.seats.get_mut(slot.index())?.as_mut()?.worker)
    }

    fn passes(&self, slot: VpdpIndex) -> u32 {
        let seat = self.seats.get(slot.index()).and_then(Option::as_ref);
        seat.map_or(0, |seat| seat.most_passes(self.burst, 1))
    }
}

impl Worker {
    /// Returns the function of a tenant for shared bursts, or `None` if it must be served alone.
    #[inline]
    pub(super) fn function(
        &mut self,
        root: &SwitchSnapshot,
        slot: VpdpIndex,
    ) -> Option<NonZeroUsize> {
        self.functions
            .of(slot)
            .or_else(|| self.find_function(root, slot))
    }

    fn find_function(&mut self, root: &SwitchSnapshot, slot: VpdpIndex) -> Option<NonZeroUsize> {
        let seat = self.seats.get_mut(slot.index())?.as_mut()?;
        let observation = &self.commons.observation;
        let is_free = |place: &VpdpPlace| {
            place.admission == Admission::Open && place.is_unlimited && !observation.is_of(place)
        };
        let is_free = self.fairness.is_none() && root.place(slot).is_some_and(is_free);
        // A vPDP that was served alone, or of which a packet left the fast path, is served alone
        // for the rest of the burst. Each such packet restarts the shared burst.
        let was_visited = seat.visited == self.commons.links.burst();
        if !is_free || was_visited || !seat.worker.may_join(self.now) {
            return None;
        }
        let function = NonZeroUsize::new(seat.worker.runs()?)?;
        seat.known = seat.worker.publications();
        self.functions.learn(slot, function);
        self.functions.of(slot)
    }

    /// Looks up the functions of all frame groups. Returns true if all take part in shared bursts.
    pub(super) fn find_functions(&mut self, root: &SwitchSnapshot) -> bool {
        let mut all = true;
        for number in 0..self.sorter.groups() {
            let (slot, _) = self.sorter.group(number);
            all &= self.function(root, slot).is_some();
        }
        all
    }

    /// Processes frame groups: consecutive groups with one function together, the others per
    /// tenant.
    pub(super) fn go(
        &mut self,
        root: &SwitchSnapshot,
        groups: Range<usize>,
        frames: &mut [Frame],
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let order = std::mem::take(&mut self.sorter.order);
        let mut at = At::begin_of(&self.sorter, groups.start);
        let mut has_rung = false;
        while at.group < groups.end {
            let (slot, range) = self.sorter.group(at.group);
            let is_visited = self.sorter.lie_in_order() && range.end - at.place >= MANY_FRAMES;
            let function = match is_visited {
                true => {
                    self.look_ahead(root, at.group, ALONE);
                    None
                }
                false => self.function(root, slot),
            };
            let mut through = 0;
            // After a second change of the epoch, the group is served alone: frequent changes must
            // not stop packets.
            if let Some(function) = function.filter(|_| !has_rung) {
                self.find_runs(root, function, at.place, at.group..groups.end);
                match self.take_in_hand() {
                    true => through = self.fly(root, (frames, &order[at.place..]), sent),
                    false => {
                        has_rung = true;
                        continue;
                    }
                }
            }
            if through == 0 {
                let own = &order[at.place..range.end];
                through = match self.sorter.lie_in_order() {
                    true => own.len(),
                    false => lie_together(own),
                };
                let first = own[0] as usize;
                self.serve(root, slot, first..first + through, frames, sent);
            }
            has_rung = false;
            at.go_on(&self.sorter, through);
        }
        self.sorter.order = order;
    }

    /// Processes a small burst in arrival order if all packets take part in a shared burst.
    /// Sorting would cost more than it saves.
    pub(super) fn go_as_they_come(
        &mut self,
        root: &SwitchSnapshot,
        frames: &mut [Frame],
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        if frames.is_empty() {
            return;
        }
        self.enter_few(root, frames);
        self.go_as_they_lie(root, frames, sent);
    }

    /// Processes classified frames in small bursts, in arrival order. For few frames per vPDP.
    pub(super) fn go_in_small_bursts(
        &mut self,
        root: &SwitchSnapshot,
        frames: &mut [Frame],
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let slots = self.sorter.lend_slots();
        for (frames, slots) in frames.chunks_mut(BURST).zip(slots.chunks(BURST)) {
            self.runs.clear();
            add_runs(&mut self.runs, slots, 0);
            end_runs(&mut self.runs, frames.len());
            self.go_as_they_lie(root, frames, sent);
        }
        self.sorter.take_back_slots(slots);
    }

    /// Processes the frames of `self.runs` in one shared burst if they have one function, and else
    /// per tenant.
    fn go_as_they_lie(
        &mut self,
        root: &SwitchSnapshot,
        frames: &mut [Frame],
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let order = &IDENTITY_ORDER[..frames.len()];
        let through = match self.have_one_function(root) && self.take_in_hand() {
            true => self.fly(root, (frames, order), sent),
            false => 0,
        };
        let rest = &mut frames[through..];
        if !rest.is_empty() {
            let slots = self.runs.iter();
            let slots = slots.flat_map(|run| std::iter::repeat_n(run.whose, run.frames));
            self.sorter.slots.clear();
            self.sorter.slots.extend(slots.skip(through));
            self.serve_sorted(root, rest, sent);
        }
    }

    /// Classifies a small burst into `self.runs`. Inlined, as the other functions of this path: a
    /// call costs a single packet as much as a twentieth of a program.
    #[inline(always)]
    fn enter_few(&mut self, root: &SwitchSnapshot, frames: &mut [Frame]) {
        let runs = &mut self.runs;
        runs.clear();
        let entered = root.entrances.enter_in_runs(frames, BURST, |slot, at| {
            runs.push(run_from(slot, at));
            true
        });
        if entered < frames.len() {
            self.sorter.slots.clear();
            self.sorter.slots.resize(entered, VpdpIndex::NONE);
            self.classify(root, frames, &[]);
            add_runs(&mut self.runs, &self.sorter.slots[entered..], entered);
        }
        end_runs(&mut self.runs, frames.len());
    }

    /// Returns true if all runs have one function.
    #[inline(always)]
    fn have_one_function(&mut self, root: &SwitchSnapshot) -> bool {
        let mut function = None;
        (0..self.runs.len()).all(|number| {
            let found = self.function(root, self.runs[number].whose);
            found.is_some() && *function.get_or_insert(found) == found
        })
    }

    /// Returns true if all groups have one function, and every frame belongs to a group.
    pub(super) fn are_of_one_function(&self) -> bool {
        let first = self.functions.of(self.sorter.group(0).0);
        let groups = 0..self.sorter.groups();
        let mut functions = groups.map(|number| self.functions.of(self.sorter.group(number).0));
        first.is_some()
            && functions.all(|of| of == first)
            && !self.sorter.slots.contains(&VpdpIndex::NONE)
    }

    /// Collects the runs of a shared burst: frames from index `begin` in the order, while their
    /// groups have this function. `begin` is in the first group.
    fn find_runs(
        &mut self,
        root: &SwitchSnapshot,
        function: NonZeroUsize,
        mut begin: usize,
        groups: Range<usize>,
    ) {
        self.runs.clear();
        let end = begin + BURST;
        let mut last = groups.start;
        for number in groups {
            let (whose, range) = self.sorter.group(number);
            if begin == end || self.function(root, whose) != Some(function) {
                break;
            }
            let frames = range.end.min(end) - begin;
            self.runs.push(SegmentRun { whose, frames });
            begin += frames;
            last = number;
        }
        self.look_ahead(root, last, TOGETHER_WITH_OTHERS);
    }

    /// Marks the packets of the runs as in progress. Returns false, and clears the function cache,
    /// if the thread's epoch has changed.
    fn take_in_hand(&mut self) -> bool {
        let marks = self.runs.iter().map(|run| run.whose.mark());
        let marks = marks.fold(DeviceMask::default(), DeviceMask::and);
        let has_rung = self.desk.bell.listen(marks, &mut self.rings);
        if has_rung {
            self.functions.forget(self.seats.len());
        }
        !has_rung
    }

    /// Processes the frames of the runs with their common function. Returns the number of
    /// processed frames.
    fn fly(
        &mut self,
        root: &SwitchSnapshot,
        frames: (&mut [Frame], &[u32]),
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) -> usize {
        let Commons {
            links, contexts, ..
        } = &mut self.commons;
        let nowhere = &self.nowhere;
        let ways = |slot| root.ways(slot).unwrap_or(EgressMap::none(nowhere));
        let crew = &mut SharedBurstMembers {
            seats: &mut self.seats,
            burst: links.burst(),
        };
        let leave = |ways: EgressMap<'_>, port, frame: &mut Frame, time| {
            leave(ways, links, sent, (port, frame, time));
        };
        let (runs, now) = (&self.runs, self.now);
        let through = forward_shared_burst(crew, runs, contexts, frames, now, ways, leave);
        let seats = &mut self.seats;
        links.settle(|slot, reason| {
            if let Some(Some(seat)) = seats.get_mut(slot.index()) {
                seat.worker.count_drop(reason);
            }
        });
        self.land(through)
    }

    /// Updates the state of the last tenant and the pending reports after a shared burst. Returns
    /// the number of processed frames.
    #[inline(always)]
    fn land(&mut self, through: BurstProgress) -> usize {
        let gone = self.runs.iter().map(|run| run.frames).sum::<usize>();
        let is_cut = through.has_left || through.frames < gone;
        let last = through.frames.checked_sub(1).filter(|_| is_cut);
        if let Some(last) = last.and_then(|last| self.whose(last))
            && let Some(Some(seat)) = self.seats.get_mut(last.index())
        {
            self.functions.forget_one(last);
            let burst = self.commons.links.burst();
            seat.passes_left = match through.has_left {
                true => 0,
                // The packet did not leave the fast path; it only produced a report.
                false => seat.most_passes(burst, 0),
            };
            seat.visited = burst;
            watch(seat, &mut self.watched);
        }
        let untold = &mut self.untold;
        self.runs.iter().for_each(|run| untold.put(run.whose));
        through.frames
    }

    /// Returns the tenant of a frame of the runs.
    fn whose(&self, mut frame: usize) -> Option<VpdpIndex> {
        let is_behind = |run: &&SegmentRun<VpdpIndex>| match frame.checked_sub(run.frames) {
            Some(rest) => {
                frame = rest;
                false
            }
            None => true,
        };
        self.runs.iter().find(is_behind).map(|run| run.whose)
    }
}

/// Creates a run that starts at this frame. `frames` has the start index until [`end_runs`]
/// replaces it by the length.
fn run_from(whose: VpdpIndex, begin: usize) -> SegmentRun<VpdpIndex> {
    SegmentRun {
        whose,
        frames: begin,
    }
}

/// Appends the runs of these tenant indices; the first one is of frame `begin`.
fn add_runs(runs: &mut Vec<SegmentRun<VpdpIndex>>, slots: &[VpdpIndex], begin: usize) {
    let mut last = runs.last().map(|run| run.whose);
    for (&slot, at) in slots.iter().zip(begin..) {
        if last.replace(slot) != Some(slot) {
            runs.push(run_from(slot, at));
        }
    }
}

/// Replaces the start index of each run by its length. The last run ends at `end`.
fn end_runs(runs: &mut [SegmentRun<VpdpIndex>], mut end: usize) {
    for run in runs.iter_mut().rev() {
        let begin = run.frames;
        run.frames = end - begin;
        end = begin;
    }
}

/// Position in the processing order.
struct At {
    place: usize,
    /// The group that contains `place`, or the number of groups at the end.
    group: usize,
}

impl At {
    fn begin_of(sorter: &Sorter, group: usize) -> At {
        let place = match group < sorter.groups() {
            true => sorter.group(group).1.start,
            false => 0,
        };
        At { place, group }
    }

    fn go_on(&mut self, sorter: &Sorter, frames: usize) {
        self.place += frames;
        while self.group < sorter.groups() && sorter.group(self.group).1.end <= self.place {
            self.group += 1;
        }
    }
}

/// Returns the length of the first contiguous run of frame indices, at least 1.
fn lie_together(order: &[u32]) -> usize {
    let behind = order.iter().zip(order[0]..);
    behind.take_while(|(at, place)| **at == *place).count()
}
