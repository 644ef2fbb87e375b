//! Handles by which BMv2 numbers what commands add.

use std::collections::BTreeSet;

/// Treatment of the handle of a removed item in BMv2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandleReuse {
    /// The next item gets it.
    Same,
    /// The next item gets it with a higher version in the upper bits, as table entries do.
    NextVersion,
}

/// Bits of a handle below its version.
const SLOT_BITS: u32 = 24;

/// Number of items that have a handle at one time.
pub(super) const MAX_ITEMS: usize = 1 << SLOT_BITS;

/// Items with handles: the lowest free one for each new item.
#[derive(Clone, Debug)]
pub(super) struct HandleTable<T> {
    reuse: HandleReuse,
    slots: Vec<(u32, Option<T>)>,
    /// Slots without an item.
    free: BTreeSet<usize>,
}

impl<T> HandleTable<T> {
    pub(super) fn new(reuse: HandleReuse) -> HandleTable<T> {
        HandleTable {
            reuse,
            slots: Vec::new(),
            free: BTreeSet::new(),
        }
    }

    /// Adds an item. Returns its handle, or `None` if all handles are in use.
    pub(super) fn add(&mut self, item: T) -> Option<u32> {
        let slot = match self.free.pop_first() {
            Some(slot) => {
                self.slots[slot].1 = Some(item);
                slot
            }
            None if self.slots.len() < MAX_ITEMS => {
                self.slots.push((0, Some(item)));
                self.slots.len() - 1
            }
            None => return None,
        };
        Some(self.handle(slot))
    }

    fn handle(&self, slot: usize) -> u32 {
        self.slots[slot].0 << SLOT_BITS | slot as u32
    }

    /// Returns the slot of a handle that is in use.
    fn slot(&self, handle: u32) -> Option<usize> {
        let slot = (handle & ((1 << SLOT_BITS) - 1)) as usize;
        let (version, item) = self.slots.get(slot)?;
        (item.is_some() && *version == handle >> SLOT_BITS).then_some(slot)
    }

    pub(super) fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        let slot = self.slot(handle)?;
        self.slots[slot].1.as_mut()
    }

    pub(super) fn contains(&self, handle: u32) -> bool {
        self.slot(handle).is_some()
    }

    /// Removes an item. Returns it, if it was there.
    pub(super) fn remove(&mut self, handle: u32) -> Option<T> {
        let slot = self.slot(handle)?;
        let (version, item) = &mut self.slots[slot];
        if self.reuse == HandleReuse::NextVersion {
            *version = (*version + 1) & 0xff;
        }
        self.free.insert(slot);
        item.take()
    }

    /// Returns the items with their handles, in the order of their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(slot, (_, item))| Some((self.handle(slot), item.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_handle_is_given_again_as_bmv2_does() {
        for (reuse, again) in [
            (HandleReuse::Same, 1),
            (HandleReuse::NextVersion, 1 << 24 | 1),
        ] {
            let mut table = HandleTable::new(reuse);
            let handles = ['a', 'b', 'c'].map(|item| table.add(item));
            assert_eq!(handles, [Some(0), Some(1), Some(2)]);
            assert_eq!(table.remove(1), Some('b'));
            assert_eq!(table.remove(1), None);
            assert_eq!(table.add('d'), Some(again));
            assert_eq!(table.get_mut(again), Some(&mut 'd'));
            assert_eq!(table.contains(1), again == 1);
            assert_eq!(table.add('e'), Some(3));
            let handles: Vec<u32> = table.iter().map(|(handle, _)| handle).collect();
            assert_eq!(handles, [0, again, 2, 3]);
        }
    }

    #[test]
    fn there_are_as_many_handles_as_slots() {
        let mut table = HandleTable::new(HandleReuse::NextVersion);
        table.slots = vec![(0, Some(())); MAX_ITEMS];
        assert_eq!(table.add(()), None);
        assert_eq!(table.remove(7), Some(()));
        assert_eq!(table.remove(5), Some(()));
        // Version 1 of the lowest free slot.
        assert_eq!(table.add(()), Some(1 << SLOT_BITS | 5));
        assert_eq!(table.add(()), Some(1 << SLOT_BITS | 7));
        assert_eq!(table.add(()), None);
    }
}
