//! Frames of a burst, brought together by virtual data plane: those of one stay in their order.

use std::ops::Range;

use packet::Frame;

use crate::root::Slot;

/// Sorts bursts; keeps its memory.
#[derive(Debug, Default)]
pub(crate) struct Sorter {
    /// The slot of each frame of the burst, as frames lie.
    pub(crate) slots: Vec<Slot>,
    /// In which order frames go, by their numbers, and the slot of each in that order. Those of no slot are not among them.
    pub(crate) order: Vec<u32>,
    pub(crate) sorted: Vec<Slot>,
    /// Frames of each slot, and then where its next frame goes; 0 between bursts.
    counts: Vec<u32>,
    /// Slots with frames, in the order of their first: where these are, and before that is known, which group it is.
    groups: Vec<(Slot, Range<usize>)>,
    /// Whether frames lie in their order; otherwise, where each one's place is in that, those of no slot behind all others.
    lie_in_order: bool,
    places: Vec<u32>,
}

impl Sorter {
    /// Makes room for so many slots.
    pub(crate) fn make_room(&mut self, slots: usize) {
        if self.counts.len() < slots {
            self.counts.resize(slots, 0);
        }
    }

    /// The slot of all frames, if they have one in common.
    pub(crate) fn only_slot(&self) -> Option<Slot> {
        let first = self
            .slots
            .first()
            .copied()
            .filter(|slot| *slot != Slot::NONE)?;
        self.slots
            .iter()
            .all(|slot| *slot == first)
            .then_some(first)
    }

    /// Finds whose frames there are by [`Sorter::slots`]: the groups, in the order of their first ones. [`Sorter::arrange`] follows.
    pub(crate) fn find_groups(&mut self) {
        self.groups.clear();
        self.lie_in_order = !self.count();
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
            true => self.keep(),
            false => self.put_in_order(),
        }
        for (slot, _) in &self.groups {
            self.counts[slot.index()] = 0;
        }
    }

    /// Frames go as they lie, without groups: those of a slot may go apart from each other.
    pub(crate) fn leave(&mut self) {
        self.groups.clear();
        self.lie_in_order = true;
        self.keep();
    }

    fn keep(&mut self) {
        self.order.clear();
        self.sorted.clear();
        for (at, &slot) in (0..).zip(&self.slots) {
            if slot != Slot::NONE {
                self.order.push(at);
                self.sorted.push(slot);
            }
        }
    }

    /// Finds the groups, and counts their frames; whether those of one may lie apart from each other, or some are in none.
    fn count(&mut self) -> bool {
        let (mut lie_apart, mut last) = (false, Slot::NONE);
        for &slot in &self.slots {
            let Some(count) = self.counts.get_mut(slot.index()) else {
                lie_apart = true;
                continue;
            };
            if *count == 0 {
                let number = self.groups.len();
                self.groups.push((slot, number..number));
            } else {
                lie_apart |= slot != last;
            }
            *count += 1;
            last = slot;
        }
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
        let frames = self.groups.last().map_or(0, |(_, range)| range.end);
        self.order.resize(frames, 0);
        self.sorted.resize(frames, Slot::NONE);
        self.places.resize(self.slots.len(), 0);
        let mut behind = frames as u32;
        let own = self.slots.iter().zip(&mut self.places);
        for (at, (&slot, place)) in (0..).zip(own) {
            let next = self.counts.get_mut(slot.index());
            let is_there = next.is_some();
            let next = next.unwrap_or(&mut behind);
            *place = *next;
            *next += 1;
            if is_there {
                self.order[*place as usize] = at;
                self.sorted[*place as usize] = slot;
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
        for (at, frame) in (0..).zip(&mut self.order) {
            *frame = at;
        }
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
        fn frames_of_a_slot_come_together_and_keep_their_order_and_slots(
            bursts in prop::collection::vec(prop::collection::vec((0u32..7, 1usize..9), 0..20), 1..4),
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
                for (frame, own) in frames.iter().zip(&sorter.sorted) {
                    prop_assert_eq!(slot(&numbers[frame.bytes()[0] as usize]), *own);
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
