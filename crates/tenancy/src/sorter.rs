//! Frames of a burst, brought together by virtual data plane: those of one stay in their order.

use std::ops::Range;

use packet::Frame;

use crate::root::Slot;

/// Sorts bursts; keeps its memory.
#[derive(Debug, Default)]
pub(crate) struct Sorter {
    /// The slot of each frame of the burst.
    pub(crate) slots: Vec<Slot>,
    /// Frames of each slot, and then where its next frame goes; 0 between bursts.
    counts: Vec<u32>,
    /// Slots with frames, in the order of their first.
    groups: Vec<(Slot, Range<usize>)>,
    /// Where each frame goes.
    places: Vec<u32>,
}

impl Sorter {
    /// Makes room for so many slots.
    pub(crate) fn make_room(&mut self, slots: usize) {
        if self.counts.len() < slots {
            self.counts.resize(slots, 0);
        }
    }

    /// Brings frames together by [`Sorter::slots`]. Those of no slot come last, in no group.
    pub(crate) fn sort(&mut self, frames: &mut [Frame]) {
        self.groups.clear();
        let first = self.slots.first().copied().unwrap_or(Slot::NONE);
        if self.slots.iter().all(|slot| *slot == first) {
            if first != Slot::NONE {
                self.groups.push((first, 0..frames.len()));
            }
            return;
        }
        let lie_apart = self.count();
        let behind = self.lay_out();
        if lie_apart {
            self.find_places(behind);
            self.exchange(frames);
        }
        for (slot, _) in &self.groups {
            self.counts[slot.index()] = 0;
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
                self.groups.push((slot, 0..0));
            } else {
                lie_apart |= slot != last;
            }
            *count += 1;
            last = slot;
        }
        lie_apart
    }

    /// Lays the groups out one behind the other, and finds where each slot's first frame goes; where the frames of no slot begin.
    fn lay_out(&mut self) -> u32 {
        let mut begin = 0;
        for (slot, range) in &mut self.groups {
            let count = &mut self.counts[slot.index()];
            *range = begin..begin + *count as usize;
            *count = begin as u32;
            begin = range.end;
        }
        begin as u32
    }

    /// Finds where each frame goes.
    fn find_places(&mut self, mut behind: u32) {
        self.places.resize(self.slots.len(), 0);
        for (place, slot) in self.places.iter_mut().zip(&self.slots) {
            let next = self.counts.get_mut(slot.index());
            let next = next.unwrap_or(&mut behind);
            *place = *next;
            *next += 1;
        }
    }

    /// Brings each frame to its place, along cycles of places: what is on its way stays in registers, and the next step of a cycle needs nothing that the
    /// one before it writes.
    fn exchange(&mut self, frames: &mut [Frame]) {
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
    }

    /// How many slots have frames.
    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// A slot and where its frames are.
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
        fn frames_of_a_slot_come_together_and_keep_their_order(
            bursts in prop::collection::vec(prop::collection::vec((0u32..7, 1usize..9), 0..20), 1..4),
            are_short in any::<bool>(),
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
                sorter.sort(&mut frames);
                let mut seen = 0;
                for number in 0..sorter.groups() {
                    let (slot, range) = sorter.group(number);
                    let got: Vec<u8> = frames[range].iter().map(|frame| frame.bytes()[0]).collect();
                    let of_slot = (0u8..).zip(&numbers).filter(|(_, other)| **other == slot.0);
                    let wanted: Vec<u8> = of_slot.map(|(number, _)| number).collect();
                    seen += got.len();
                    prop_assert_eq!(got, wanted);
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
