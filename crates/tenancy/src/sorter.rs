//! Frames of a burst, brought together by virtual data plane: those of one stay in their order.

use std::ops::Range;

use packet::Frame;

use crate::root::Slot;

/// Slots that are looked at at once: frames of a port come one behind the other where packets wait in it, and all of them are one vPDP's then.
pub(crate) const TOGETHER: usize = 16;

/// Slots of frames that come by slot, at most.
const FEW_SLOTS: usize = 8;

/// Sorts bursts; keeps its memory.
#[derive(Debug, Default)]
pub(crate) struct Sorter {
    /// The slot of each frame of the burst, as frames lie.
    pub(crate) slots: Vec<Slot>,
    /// Memory for those of parts of them.
    spare: Vec<Slot>,
    /// In which order frames go, by their numbers. Those of no slot are not among them.
    pub(crate) order: Vec<u32>,
    /// Whose frames go, and where in the order they are.
    groups: Vec<(Slot, Range<usize>)>,
    /// Frames of each slot, and then where its first one goes; 0 between bursts.
    counts: Vec<u32>,
    /// The slots that have frames, in the order of their first ones, while frames are counted.
    firsts: Vec<Slot>,
    /// How many frames of its slot come before each frame, as frames lie; of [`TOGETHER`] of one slot, what the first one has.
    ranks: Vec<u32>,
    /// Whether the order is that of the numbers.
    is_as_it_lies: bool,
    /// Whether frames lie in their order.
    lie_in_order: bool,
    /// Where each frame goes, if they do not.
    places: Vec<u32>,
}

/// Whether all of these numbers are this one, without a branch for each.
#[inline(always)]
pub(crate) fn are_all(numbers: impl Iterator<Item = u32>, one: u32) -> bool {
    numbers.fold(0, |other, number| other | number ^ one) == 0
}

/// The slot of all these frames, if they have one in common.
#[inline(always)]
fn common(slots: &[Slot]) -> Option<Slot> {
    let all = <&[Slot; TOGETHER]>::try_from(slots).ok()?;
    let are_one = are_all(all.iter().map(|slot| slot.0), all[0].0);
    (are_one && all[0] != Slot::NONE).then_some(all[0])
}

/// Frames from this one on are of one slot, behind those of the groups; whether they are few still, and of each slot one.
#[inline(always)]
fn add_by_slot(groups: &mut Vec<(Slot, Range<usize>)>, slot: Slot, at: usize) -> bool {
    match groups.last_mut() {
        Some((last, _)) if *last == slot => return true,
        Some((_, range)) => range.end = at,
        None => {}
    }
    let is_known = groups.iter().any(|(other, _)| *other == slot);
    let is_taken = !is_known && slot != Slot::NONE && groups.len() < FEW_SLOTS;
    if is_taken {
        groups.push((slot, at..at));
    }
    is_taken
}

impl Sorter {
    /// Makes room for so many slots.
    pub(crate) fn make_room(&mut self, slots: usize) {
        if self.counts.len() < slots {
            self.counts.resize(slots, 0);
        }
    }

    /// Has frames go as they lie, if they are those of few slots, those of each one behind the other; whether they are. Then the groups are known.
    pub(crate) fn take_by_slot(&mut self) -> bool {
        self.groups.clear();
        let together = self.slots.chunks(TOGETHER);
        for (slots, at) in together.zip((0..).step_by(TOGETHER)) {
            let each = match common(slots) {
                Some(_) => &slots[..1],
                None => slots,
            };
            let mut each = each.iter().zip(at..);
            if !each.all(|(&slot, at)| add_by_slot(&mut self.groups, slot, at)) {
                return false;
            }
        }
        self.end_by_slot(self.slots.len());
        true
    }

    /// Begins to take frames in that go as they lie.
    pub(crate) fn begin_by_slot(&mut self) {
        self.groups.clear();
        self.slots.clear();
    }

    /// The frames from this one on are of this slot; whether frames still are those of few slots, those of each one behind the other. Otherwise they end here.
    #[inline(always)]
    pub(crate) fn add_by_slot(&mut self, slot: Slot, at: usize) -> bool {
        add_by_slot(&mut self.groups, slot, at)
    }

    /// So many frames were taken in: the groups are known.
    pub(crate) fn end_by_slot(&mut self, frames: usize) {
        if let Some((_, range)) = self.groups.last_mut() {
            range.end = frames;
        }
        self.leave_in_order(frames);
        self.lie_in_order = true;
    }

    /// Writes down the slot of each frame of the groups, which go as they lie.
    pub(crate) fn write_slots(&mut self) {
        self.slots.clear();
        let each = self.groups.iter();
        let each = each.flat_map(|(slot, range)| std::iter::repeat_n(*slot, range.len()));
        self.slots.extend(each);
    }

    /// So many frames go as they lie.
    fn leave_in_order(&mut self, frames: usize) {
        if !std::mem::replace(&mut self.is_as_it_lies, true) {
            self.order.clear();
        }
        self.order.truncate(frames);
        self.order.extend(self.order.len() as u32..frames as u32);
    }

    /// Finds whose frames there are by [`Sorter::slots`]: the groups, in the order of their first ones. [`Sorter::arrange`] or [`Sorter::forget_groups`] follows.
    pub(crate) fn find_groups(&mut self) {
        self.groups.clear();
        self.lie_in_order = !self.count();
    }

    /// The slots, while those of parts of the frames stand in their place.
    pub(crate) fn lend_slots(&mut self) -> Vec<Slot> {
        std::mem::replace(&mut self.slots, std::mem::take(&mut self.spare))
    }

    /// The slots are back.
    pub(crate) fn take_back_slots(&mut self, slots: Vec<Slot>) {
        self.spare = std::mem::replace(&mut self.slots, slots);
    }

    /// What was found is not to be arranged.
    pub(crate) fn forget_groups(&mut self) {
        for (slot, _) in &self.groups {
            self.counts[slot.index()] = 0;
        }
    }

    /// Finds an order of the frames in which those of each slot come together, those of slots with the least rank first.
    pub(crate) fn arrange(&mut self, rank: impl Fn(Slot) -> usize) {
        let ranks = self.groups.iter().map(|(slot, _)| rank(*slot));
        if !ranks.is_sorted() {
            self.groups
                .sort_unstable_by_key(|(slot, found)| (rank(*slot), found.start));
            self.lie_in_order = false;
        }
        self.lay_out();
        match self.lie_in_order {
            true => self.leave_in_order(self.slots.len()),
            false => self.put_in_order(),
        }
        self.forget_groups();
    }

    /// Finds the groups, counts their frames and what comes before each; whether those of one may lie apart from each other, or some are in none.
    fn count(&mut self) -> bool {
        let (mut lie_apart, mut last, mut groups) = (false, Slot::NONE, 0);
        self.ranks.resize(self.slots.len(), 0);
        self.firsts.resize(self.slots.len() + 1, Slot::NONE);
        let together = self.slots.chunks(TOGETHER);
        for (slots, ranks) in together.zip(self.ranks.chunks_mut(TOGETHER)) {
            let (each, frames) = match common(slots) {
                Some(_) => (1, slots.len() as u32),
                None => (slots.len(), 1),
            };
            for (&slot, rank) in slots[..each].iter().zip(ranks) {
                let Some(count) = self.counts.get_mut(slot.index()) else {
                    lie_apart = true;
                    continue;
                };
                // Which frames are first ones cannot be foreseen: each slot is written down, and the next one over it unless it was.
                let is_first = *count == 0;
                self.firsts[groups] = slot;
                groups += usize::from(is_first);
                lie_apart |= !is_first & (slot != last);
                *rank = *count;
                *count += frames;
                last = slot;
            }
        }
        let firsts = self.firsts[..groups].iter().zip(0..);
        let found = firsts.map(|(slot, number)| (*slot, number..number));
        self.groups.extend(found);
        lie_apart
    }

    /// Lays the groups out one behind the other, and finds where each slot's first frame goes.
    fn lay_out(&mut self) {
        let mut begin = 0;
        for (slot, range) in &mut self.groups {
            let count = &mut self.counts[slot.index()];
            *range = begin..begin + *count as usize;
            *count = begin as u32;
            begin = range.end;
        }
    }

    fn put_in_order(&mut self) {
        self.is_as_it_lies = false;
        let frames = self.groups.last().map_or(0, |(_, range)| range.end);
        self.order.resize(frames, 0);
        let first = |slot: Slot, rank: u32| Some((self.counts.get(slot.index())? + rank) as usize);
        let together = self.slots.chunks(TOGETHER).zip(self.ranks.chunks(TOGETHER));
        for ((slots, ranks), at) in together.zip((0..).step_by(TOGETHER)) {
            if let Some(slot) = common(slots) {
                let place = first(slot, ranks[0]).unwrap_or(frames);
                let order = self.order.iter_mut().skip(place);
                order
                    .take(TOGETHER)
                    .zip(at..)
                    .for_each(|(order, at)| *order = at);
                continue;
            }
            for ((&slot, &rank), at) in slots.iter().zip(ranks).zip(at..) {
                if let Some(order) = first(slot, rank).and_then(|place| self.order.get_mut(place)) {
                    *order = at;
                }
            }
        }
    }

    /// Brings frames to their places in the order, those of no slot behind all others. From now on they lie in their order.
    ///
    /// It goes along cycles of places: what is on its way stays in registers, and the next step of a cycle needs nothing that the one before it writes.
    pub(crate) fn move_frames(&mut self, frames: &mut [Frame]) {
        if std::mem::replace(&mut self.lie_in_order, true) {
            return;
        }
        self.find_places();
        for at in 0..frames.len().min(self.places.len()) {
            let mut place = std::mem::replace(&mut self.places[at], at as u32) as usize;
            if place == at {
                continue;
            }
            let mut on_its_way = std::mem::replace(&mut frames[at], Frame::without_buffer());
            while place != at {
                let next = frames.get_mut(place).zip(self.places.get_mut(place));
                let Some((frame, next)) = next else { break };
                on_its_way = std::mem::replace(frame, on_its_way);
                place = std::mem::replace(next, place as u32) as usize;
            }
            frames[at] = on_its_way;
        }
        self.leave_in_order(self.order.len());
    }

    /// Finds where each frame goes: those of no slot behind all others.
    fn find_places(&mut self) {
        let behind = self.order.len() as u32..;
        self.places.resize(self.slots.len(), 0);
        for (place, &at) in (0..).zip(&self.order) {
            self.places[at as usize] = place;
        }
        let own = self.slots.iter().zip(&mut self.places);
        let slots = self.counts.len();
        let of_none = own.filter(|(slot, _)| slot.index() >= slots);
        of_none
            .zip(behind)
            .for_each(|((_, own), place)| *own = place);
    }

    /// Whether frames lie in their order.
    pub(crate) fn lie_in_order(&self) -> bool {
        self.lie_in_order
    }

    /// How many slots have frames.
    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// A slot and where its frames are in the order.
    pub(crate) fn group(&self, number: usize) -> (Slot, Range<usize>) {
        let (slot, range) = &self.groups[number];
        (*slot, range.clone())
    }

    /// Has the groups of these slots come behind all others.
    pub(crate) fn put_last(&mut self, goes_last: impl Fn(Slot) -> bool) {
        self.groups
            .sort_unstable_by_key(|(slot, range)| (goes_last(*slot), range.start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_go_as_they_lie_where_few_slots_come_one_behind_the_other(
            runs in prop::collection::vec((0u32..12, 1usize..40), 0..10),
        ) {
            let slot = |number: u32| if number == 11 { Slot::NONE } else { Slot(number) };
            let slots = runs.iter().flat_map(|&(number, frames)| vec![slot(number); frames]);
            let mut sorter = Sorter { slots: slots.collect(), ..Sorter::default() };
            let mut expected: Vec<(Slot, Range<usize>)> = Vec::new();
            for (at, &slot) in sorter.slots.iter().enumerate() {
                match expected.last_mut() {
                    Some((last, range)) if *last == slot => range.end = at + 1,
                    _ => expected.push((slot, at..at + 1)),
                }
            }
            let slots: std::collections::HashSet<u32> = expected.iter().map(|(slot, _)| slot.0).collect();
            let comes = slots.len() == expected.len() && slots.len() <= FEW_SLOTS && !slots.contains(&Slot::NONE.0);
            prop_assert_eq!(sorter.take_by_slot(), comes);
            if comes {
                let groups: Vec<_> = (0..sorter.groups()).map(|number| sorter.group(number)).collect();
                prop_assert_eq!(groups, expected);
                prop_assert!(sorter.lie_in_order());
                prop_assert!(sorter.order.iter().copied().eq(0..sorter.slots.len() as u32));
            }
        }

        #[test]
        fn frames_of_a_slot_come_together_and_keep_their_order_and_slots(
            bursts in prop::collection::vec(prop::collection::vec((0u32..7, 1usize..50), 0..5), 1..4),
            are_short in any::<bool>(),
            ranks in 1u32..4,
        ) {
            let mut sorter = Sorter::default();
            sorter.make_room(6);
            for runs in bursts {
                let length = |length: usize| if are_short { 1 } else { length };
                let numbers = runs.into_iter().flat_map(|(number, most)| vec![number; length(most)]);
                let numbers: Vec<u32> = numbers.collect();
                let slot = |number: &u32| if *number == 6 { Slot::NONE } else { Slot(*number) };
                sorter.slots = numbers.iter().map(slot).collect();
                let frame = |number: usize| Frame::from_bytes(&[number as u8]).unwrap();
                let mut frames: Vec<Frame> = (0..numbers.len()).map(frame).collect();
                let rank = |slot: Slot| (slot.0 % ranks) as usize;
                sorter.find_groups();
                sorter.arrange(rank);
                let in_order: Vec<u8> = sorter.order.iter().map(|&at| frames[at as usize].bytes()[0]).collect();
                sorter.move_frames(&mut frames);
                let moved: Vec<u8> = frames[..in_order.len()].iter().map(|frame| frame.bytes()[0]).collect();
                prop_assert_eq!(in_order, moved);
                prop_assert!(sorter.order.iter().copied().eq(0..sorter.order.len() as u32));
                let (mut seen, mut last) = (0, 0);
                for number in 0..sorter.groups() {
                    let (slot, range) = sorter.group(number);
                    let got: Vec<u8> = frames[range].iter().map(|frame| frame.bytes()[0]).collect();
                    let of_slot = (0u8..).zip(&numbers).filter(|(_, other)| **other == slot.0);
                    let wanted: Vec<u8> = of_slot.map(|(number, _)| number).collect();
                    seen += got.len();
                    prop_assert_eq!(got, wanted);
                    prop_assert!(last <= rank(slot));
                    last = rank(slot);
                }
                let mut others: Vec<u8> = frames[seen..].iter().map(|frame| frame.bytes()[0]).collect();
                others.sort_unstable();
                let of_none = (0u8..).zip(&numbers).filter(|(_, slot)| **slot == 6);
                let of_none: Vec<u8> = of_none.map(|(number, _)| number).collect();
                prop_assert_eq!(others, of_none);
            }
        }
    }
}
