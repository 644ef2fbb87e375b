//! Stable sort of a burst's frames by tenant.

use std::ops::Range;

use packet::Frame;

use crate::snapshot::VpdpIndex;

/// Number of tenant indices compared at once. A port with a backlog delivers many consecutive
/// frames of one vPDP.
pub(crate) const TOGETHER: usize = 16;

/// Maximum number of tenants in a burst that is processed without sorting.
const FEW_SLOTS: usize = 8;

/// Sorts bursts by tenant. Its buffers are reused.
#[derive(Debug, Default)]
pub(crate) struct Sorter {
    /// Tenant index of each frame of the burst, by frame index.
    pub(crate) slots: Vec<VpdpIndex>,
    /// Second buffer for `slots`, while the first one is lent out.
    spare: Vec<VpdpIndex>,
    /// Frame indices in processing order. Frames without a tenant are left out.
    pub(crate) order: Vec<u32>,
    /// Frame groups: the tenant, and the range in `order`.
    groups: Vec<(VpdpIndex, Range<usize>)>,
    /// By tenant: number of frames, later the position of its first frame. All 0 between bursts.
    counts: Vec<u32>,
    /// Tenants with frames, in order of their first frames. Valid while frames are counted.
    firsts: Vec<VpdpIndex>,
    /// By frame: number of preceding frames of its tenant. In a chunk of [`TOGETHER`] frames of
    /// one tenant, only the first frame's rank is set.
    ranks: Vec<u32>,
    /// True if `order` is the identity.
    is_as_it_lies: bool,
    /// True if the frames are stored in processing order.
    lie_in_order: bool,
    /// By frame: its position after [`Sorter::move_frames`].
    places: Vec<u32>,
}

/// Returns true if all numbers are equal to `one`. Branch-free.
#[inline(always)]
pub(crate) fn are_all(numbers: impl Iterator<Item = u32>, one: u32) -> bool {
    numbers.fold(0, |other, number| other | number ^ one) == 0
}

/// Returns the common tenant of a full chunk of frames, if it has one.
#[inline(always)]
fn common(slots: &[VpdpIndex]) -> Option<VpdpIndex> {
    let all = <&[VpdpIndex; TOGETHER]>::try_from(slots).ok()?;
    let are_one = are_all(all.iter().map(|slot| slot.0), all[0].0);
    (are_one && all[0] != VpdpIndex::NONE).then_some(all[0])
}

/// Extends the groups: frames from index `at` on belong to this tenant. Returns false if the
/// tenant has a group already, is [`VpdpIndex::NONE`], or is one too many.
#[inline(always)]
fn add_by_slot(groups: &mut Vec<(VpdpIndex, Range<usize>)>, slot: VpdpIndex, at: usize) -> bool {
    match groups.last_mut() {
        Some((last, _)) if *last == slot => return true,
        Some((_, range)) => range.end = at,
        None => {}
    }
    let is_known = groups.iter().any(|(other, _)| *other == slot);
    let is_taken = !is_known && slot != VpdpIndex::NONE && groups.len() < FEW_SLOTS;
    if is_taken {
        groups.push((slot, at..at));
    }
    is_taken
}

impl Sorter {
    /// Grows the tables to this many tenants.
    pub(crate) fn make_room(&mut self, slots: usize) {
        if self.counts.len() < slots {
            self.counts.resize(slots, 0);
        }
    }

    /// Builds the groups without sorting, if the frames are already grouped by tenant and have few
    /// tenants. Returns false otherwise.
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

    /// Starts incremental grouping of frames that are not sorted.
    pub(crate) fn begin_by_slot(&mut self) {
        self.groups.clear();
        self.slots.clear();
    }

    /// Adds frames from index `at` on as frames of this tenant. Returns false if the burst is then
    /// no longer grouped, or has too many tenants; the groups end before `at`.
    #[inline(always)]
    pub(crate) fn add_by_slot(&mut self, slot: VpdpIndex, at: usize) -> bool {
        add_by_slot(&mut self.groups, slot, at)
    }

    /// Ends incremental grouping after this many frames.
    pub(crate) fn end_by_slot(&mut self, frames: usize) {
        if let Some((_, range)) = self.groups.last_mut() {
            range.end = frames;
        }
        self.leave_in_order(frames);
        self.lie_in_order = true;
    }

    /// Writes the tenant index of each frame to `slots`, from the groups.
    pub(crate) fn write_slots(&mut self) {
        self.slots.clear();
        let each = self.groups.iter();
        let each = each.flat_map(|(slot, range)| std::iter::repeat_n(*slot, range.len()));
        self.slots.extend(each);
    }

    /// Sets `order` to the identity for this many frames.
    fn leave_in_order(&mut self, frames: usize) {
        if !std::mem::replace(&mut self.is_as_it_lies, true) {
            self.order.clear();
        }
        self.order.truncate(frames);
        self.order.extend(self.order.len() as u32..frames as u32);
    }

    /// Builds the groups from [`Sorter::slots`], in order of their first frames.
    /// [`Sorter::arrange`] or [`Sorter::forget_groups`] must follow.
    pub(crate) fn find_groups(&mut self) {
        self.groups.clear();
        self.lie_in_order = !self.count();
    }

    /// Lends out `slots`, so that parts of the burst can be sorted meanwhile.
    pub(crate) fn lend_slots(&mut self) -> Vec<VpdpIndex> {
        std::mem::replace(&mut self.slots, std::mem::take(&mut self.spare))
    }

    /// Returns the lent `slots`.
    pub(crate) fn take_back_slots(&mut self, slots: Vec<VpdpIndex>) {
        self.spare = std::mem::replace(&mut self.slots, slots);
    }

    /// Discards the groups of [`Sorter::find_groups`].
    pub(crate) fn forget_groups(&mut self) {
        for (slot, _) in &self.groups {
            self.counts[slot.index()] = 0;
        }
    }

    /// Computes the processing order: frames grouped by tenant, tenants in ascending order of
    /// `rank`.
    pub(crate) fn arrange(&mut self, rank: impl Fn(VpdpIndex) -> usize) {
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

    /// Finds and counts the groups, and the rank of each frame. Returns true if frames of a tenant
    /// may not be contiguous, or some frames have no tenant.
    fn count(&mut self) -> bool {
        let (mut lie_apart, mut last, mut groups) = (false, VpdpIndex::NONE, 0);
        self.ranks.resize(self.slots.len(), 0);
        self.firsts.resize(self.slots.len() + 1, VpdpIndex::NONE);
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
                // Branch-free: the entry is always written, and overwritten by the next tenant
                // unless it was new.
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

    /// Assigns each group its range, and stores the start in `counts`.
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
        let first =
            |slot: VpdpIndex, rank: u32| Some((self.counts.get(slot.index())? + rank) as usize);
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

    /// Moves the frames into processing order; frames without a tenant come last.
    ///
    /// The permutation is applied cycle by cycle. The moving frame stays in registers, and no step
    /// of a cycle depends on a store of the step before it.
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

    /// Computes the position of each frame; frames without a tenant come last.
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

    /// Returns true if the frames are stored in processing order.
    pub(crate) fn lie_in_order(&self) -> bool {
        self.lie_in_order
    }

    /// Returns the number of groups.
    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Returns the tenant and the range in `order` of a group.
    pub(crate) fn group(&self, number: usize) -> (VpdpIndex, Range<usize>) {
        let (slot, range) = &self.groups[number];
        (*slot, range.clone())
    }

    /// Moves the groups of these tenants to the end.
    pub(crate) fn put_last(&mut self, goes_last: impl Fn(VpdpIndex) -> bool) {
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
            let slot = |number: u32| if number == 11 { VpdpIndex::NONE } else { VpdpIndex(number) };
            let slots = runs.iter().flat_map(|&(number, frames)| vec![slot(number); frames]);
            let mut sorter = Sorter { slots: slots.collect(), ..Sorter::default() };
            let mut expected: Vec<(VpdpIndex, Range<usize>)> = Vec::new();
            for (at, &slot) in sorter.slots.iter().enumerate() {
                match expected.last_mut() {
                    Some((last, range)) if *last == slot => range.end = at + 1,
                    _ => expected.push((slot, at..at + 1)),
                }
            }
            let slots: std::collections::HashSet<u32> = expected.iter().map(|(slot, _)| slot.0).collect();
            let comes = slots.len() == expected.len() && slots.len() <= FEW_SLOTS && !slots.contains(&VpdpIndex::NONE.0);
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
                let slot = |number: &u32| if *number == 6 { VpdpIndex::NONE } else { VpdpIndex(*number) };
                sorter.slots = numbers.iter().map(slot).collect();
                let frame = |number: usize| Frame::from_bytes(&[number as u8]).unwrap();
                let mut frames: Vec<Frame> = (0..numbers.len()).map(frame).collect();
                let rank = |slot: VpdpIndex| (slot.0 % ranks) as usize;
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
