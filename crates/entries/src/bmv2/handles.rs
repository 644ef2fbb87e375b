//! Handles by which BMv2 numbers what commands add.

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

/// Items with handles: the lowest free one for each new item.
#[derive(Clone, Debug)]
pub(super) struct HandleTable<T> {
    reuse: HandleReuse,
    slots: Vec<(u32, Option<T>)>,
}

impl<T> HandleTable<T> {
    pub(super) fn new(reuse: HandleReuse) -> HandleTable<T> {
        HandleTable {
            reuse,
            slots: Vec::new(),
        }
    }

    /// Adds an item. Returns its handle.
    pub(super) fn add(&mut self, item: T) -> u32 {
        let free = self.slots.iter().position(|(_, item)| item.is_none());
        let slot = free.unwrap_or(self.slots.len());
        match free {
            Some(_) => self.slots[slot].1 = Some(item),
            None => self.slots.push((0, Some(item))),
        }
        self.handle(slot)
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
            assert_eq!([table.add('a'), table.add('b'), table.add('c')], [0, 1, 2]);
            assert_eq!(table.remove(1), Some('b'));
            assert_eq!(table.remove(1), None);
            assert_eq!(table.add('d'), again);
            assert_eq!(table.get_mut(again), Some(&mut 'd'));
            assert_eq!(table.contains(1), again == 1);
            assert_eq!(table.add('e'), 3);
            let handles: Vec<u32> = table.iter().map(|(handle, _)| handle).collect();
            assert_eq!(handles, [0, again, 2, 3]);
        }
    }
}
