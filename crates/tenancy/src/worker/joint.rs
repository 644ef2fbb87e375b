//! Packets that go through a function together, whoever's they are: of all vPDPs that run the same, in which nothing waits and which nothing limits. That is the
//! usual way, in which no vPDP is visited by itself.

use std::num::NonZeroUsize;
use std::ops::Range;

use exec::{AS_THEY_LIE, BURST};
use packet::{Frame, Nanos, PortId};
use switch::{Companions, Marks, Run, Through, forward_together};

use super::ahead::{ALONE, TOGETHER_WITH_OTHERS};
use super::way::leave;
use super::{Commons, Worker, watch};
use crate::desk::Seat;
use crate::root::{Admission, Place, Root, Slot, Ways};
use crate::sorter::Sorter;

/// What is known of slots: it is asked anew when the thread's bell rang, another root was taken, or a packet of the slot did not go straight through.
#[derive(Default)]
pub(super) struct Functions {
    /// By slot, the function through which its packets go together with others'.
    of: Vec<Option<NonZeroUsize>>,
}

impl Functions {
    /// Nothing is known of so many slots.
    pub(super) fn forget(&mut self, slots: usize) {
        self.of.clear();
        self.of.resize(slots, None);
    }

    /// Nothing is known of a slot.
    pub(super) fn forget_one(&mut self, slot: Slot) {
        if let Some(of) = self.of.get_mut(slot.index()) {
            *of = None;
        }
    }

    #[inline]
    pub(super) fn of(&self, slot: Slot) -> Option<NonZeroUsize> {
        self.of.get(slot.index()).copied().flatten()
    }

    /// Which slots come first where frames are sorted: functions one behind the other, and then those that have none.
    pub(super) fn rank(&self, slot: Slot) -> usize {
        self.of(slot).map_or(usize::MAX, NonZeroUsize::get)
    }

    /// Packets of a slot go through this function with others'.
    fn learn(&mut self, slot: Slot, function: NonZeroUsize) {
        if let Some(of) = self.of.get_mut(slot.index()) {
            *of = Some(function);
        }
    }
}

/// A vPDP with so many frames, where all frames lie in their order, is served by itself: what that costs is little for each, and each takes a little less.
const MANY_FRAMES: usize = 2 * BURST;

/// Seats by slot, as they go together in this burst.
struct Crew<'s> {
    seats: &'s mut [Option<Box<Seat>>],
    burst: u64,
}

impl Companions for Crew<'_> {
    type Number = Slot;

    #[inline]
    fn worker(&self, slot: Slot) -> Option<&switch::Worker> {
        Some(&self.seats.get(slot.index())?.as_ref()?.worker)
    }

    #[inline]
    fn worker_mut(&mut self, slot: Slot) -> Option<&mut switch::Worker> {
        Some(&mut self.seats.get_mut(slot.index())?.as_mut()?.worker)
    }

    fn passes(&self, slot: Slot) -> u32 {
        let seat = self.seats.get(slot.index()).and_then(Option::as_ref);
        seat.map_or(0, |seat| seat.most_passes(self.burst, 1))
    }
}

impl Worker {
    /// The function that packets of a slot go through together with others'; none if they are served by themselves.
    #[inline]
    pub(super) fn function(&mut self, root: &Root, slot: Slot) -> Option<NonZeroUsize> {
        self.functions
            .of(slot)
            .or_else(|| self.find_function(root, slot))
    }

    fn find_function(&mut self, root: &Root, slot: Slot) -> Option<NonZeroUsize> {
        let seat = self.seats.get_mut(slot.index())?.as_mut()?;
        let is_free = |place: &Place| place.admission == Admission::Open && place.is_unlimited;
        let is_free = self.fairness.is_none() && root.place(slot).is_some_and(is_free);
        // Whose packet did not go straight through, or of whom nothing was known before a visit by itself, is visited by itself for the rest of the burst: each that does not has others'
        // packets begin anew.
        let was_visited = seat.visited == self.commons.links.burst();
        if !is_free || was_visited || !seat.worker.may_join(self.now) {
            return None;
        }
        let function = NonZeroUsize::new(seat.worker.runs()?)?;
        seat.known = seat.worker.publications();
        self.functions.learn(slot, function);
        self.functions.of(slot)
    }

    /// Finds out of all groups of frames what these go through; whether all go together with others.
    pub(super) fn find_functions(&mut self, root: &Root) -> bool {
        let mut all = true;
        for number in 0..self.sorter.groups() {
            let (slot, _) = self.sorter.group(number);
            all &= self.function(root, slot).is_some();
        }
        all
    }

    /// Takes the frames of these groups through what they go through, many of a function at once; frames of others are served by slot.
    pub(super) fn go(
        &mut self,
        root: &Root,
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
            // Who rings over and over does not keep packets from going.
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

    /// Takes few frames in: as they come, if they go together with others'. To bring those of each vPDP together would take longer than it spares.
    pub(super) fn go_as_they_come(
        &mut self,
        root: &Root,
        frames: &mut [Frame],
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        if frames.is_empty() {
            return;
        }
        self.enter_few(root, frames);
        self.go_as_they_lie(root, frames, sent);
    }

    /// The same for frames whose slots are known, few of each vPDP: few at once.
    pub(super) fn go_in_small_bursts(
        &mut self,
        root: &Root,
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

    /// Takes the frames of the runs through what they go through, if that is one function for all of them; otherwise they are served by slot.
    fn go_as_they_lie(
        &mut self,
        root: &Root,
        frames: &mut [Frame],
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let order = &AS_THEY_LIE[..frames.len()];
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

    /// Finds whose frames these are, as they lie, and gives each the virtual port that it comes in by. Part of its only caller, as are the others on this way: a packet that comes alone takes as
    /// long for a handful of calls as for a twentieth of a program.
    #[inline(always)]
    fn enter_few(&mut self, root: &Root, frames: &mut [Frame]) {
        let runs = &mut self.runs;
        runs.clear();
        let entered = root.entrances.enter_in_runs(frames, BURST, |slot, at| {
            runs.push(run_from(slot, at));
            true
        });
        if entered < frames.len() {
            self.sorter.slots.clear();
            self.sorter.slots.resize(entered, Slot::NONE);
            self.classify(root, frames, &[]);
            add_runs(&mut self.runs, &self.sorter.slots[entered..], entered);
        }
        end_runs(&mut self.runs, frames.len());
    }

    /// Whether the packets of all runs go through one function together.
    #[inline(always)]
    fn have_one_function(&mut self, root: &Root) -> bool {
        let mut function = None;
        (0..self.runs.len()).all(|number| {
            let found = self.function(root, self.runs[number].whose);
            found.is_some() && *function.get_or_insert(found) == found
        })
    }

    /// Whether that is so of all groups, and no frame is in none.
    pub(super) fn are_of_one_function(&self) -> bool {
        let first = self.functions.of(self.sorter.group(0).0);
        let groups = 0..self.sorter.groups();
        let mut functions = groups.map(|number| self.functions.of(self.sorter.group(number).0));
        first.is_some()
            && functions.all(|of| of == first)
            && !self.sorter.slots.contains(&Slot::NONE)
    }

    /// Finds whose the frames from this place in the order on are, as far as they go through a function; the first of these groups has the place.
    fn find_runs(
        &mut self,
        root: &Root,
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
            self.runs.push(Run { whose, frames });
            begin += frames;
            last = number;
        }
        self.look_ahead(root, last, TOGETHER_WITH_OTHERS);
    }

    /// Takes packets of the runs in hand, unless the thread's bell rang: then all that is known of slots is asked anew.
    fn take_in_hand(&mut self) -> bool {
        let marks = self.runs.iter().map(|run| run.whose.mark());
        let marks = marks.fold(Marks::default(), Marks::and);
        let has_rung = self.desk.bell.listen(marks, &mut self.rings);
        if has_rung {
            self.functions.forget(self.seats.len());
        }
        !has_rung
    }

    /// Takes frames of the runs through the function of all of them; how many are through.
    fn fly(
        &mut self,
        root: &Root,
        frames: (&mut [Frame], &[u32]),
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) -> usize {
        let Commons { links, contexts } = &mut self.commons;
        let nowhere = &self.nowhere;
        let ways = |slot| root.ways(slot).unwrap_or(Ways::none(nowhere));
        let crew = &mut Crew {
            seats: &mut self.seats,
            burst: links.burst(),
        };
        let leave = |ways: Ways<'_>, port, frame: &mut Frame, time| {
            leave(ways, links, sent, (port, frame, time));
        };
        let (runs, now) = (&self.runs, self.now);
        let through = forward_together(crew, runs, contexts, frames, now, ways, leave);
        let seats = &mut self.seats;
        links.settle(|slot, reason| {
            if let Some(Some(seat)) = seats.get_mut(slot.index()) {
                seat.worker.count_drop(reason);
            }
        });
        self.land(through)
    }

    /// What follows when packets of the runs are through; how many are.
    #[inline(always)]
    fn land(&mut self, through: Through) -> usize {
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
                // It has only told something.
                false => seat.most_passes(burst, 0),
            };
            seat.visited = burst;
            watch(seat, &mut self.watched);
        }
        let untold = &mut self.untold;
        self.runs.iter().for_each(|run| untold.put(run.whose));
        through.frames
    }

    /// Whose this frame of the runs is.
    fn whose(&self, mut frame: usize) -> Option<Slot> {
        let is_behind = |run: &&Run<Slot>| match frame.checked_sub(run.frames) {
            Some(rest) => {
                frame = rest;
                false
            }
            None => true,
        };
        self.runs.iter().find(is_behind).map(|run| run.whose)
    }
}

/// A run that begins with this frame: it has that in place of how many they are until all runs are known.
fn run_from(whose: Slot, begin: usize) -> Run<Slot> {
    Run {
        whose,
        frames: begin,
    }
}

/// Finds where runs begin in frames of these slots, from this one on.
fn add_runs(runs: &mut Vec<Run<Slot>>, slots: &[Slot], begin: usize) {
    let mut last = runs.last().map(|run| run.whose);
    for (&slot, at) in slots.iter().zip(begin..) {
        if last.replace(slot) != Some(slot) {
            runs.push(run_from(slot, at));
        }
    }
}

/// All runs are known: the last one ends here.
fn end_runs(runs: &mut [Run<Slot>], mut end: usize) {
    for run in runs.iter_mut().rev() {
        let begin = run.frames;
        run.frames = end - begin;
        end = begin;
    }
}

/// How far frames went in their order.
struct At {
    place: usize,
    /// In which the place is; behind the last one if none is.
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

/// How many of these frames, one at least, lie one behind the other.
fn lie_together(order: &[u32]) -> usize {
    let behind = order.iter().zip(order[0]..);
    behind.take_while(|(at, place)| **at == *place).count()
}
