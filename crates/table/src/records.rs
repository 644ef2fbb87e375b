//! [`Records`]: what a table's entries do, flat, for code that has found an entry and must not follow pointers.
//!
//! A record is a head and the action's parameters in their limbs, at a fixed distance from the next one. Record 0 is the default action's, record
//! `idx + 1` the entry's in place `idx`: a lookup that counts from 1 and gives 0 for a miss needs no case.

use crate::engine::{Replay, Versions};
use crate::entry::EntryAction;
use std::sync::Arc;

/// What packets see of all entries' actions. Never changes.
#[derive(Debug)]
pub struct Records {
    stride: usize,
    /// The records begin behind as many limbs as bring them to a cache line's beginning.
    limbs: Vec<u64>,
    skipped: usize,
}

/// Limbs, and bytes, of a cache line.
const LINE: usize = 8;
const LINE_BYTES: usize = 64;

impl Records {
    /// The head of what is not told here: an entry that refers to an action profile, or whose parameters have no room.
    pub const ELSEWHERE: u64 = u64::MAX;

    /// The head of an action with that number and so many limbs of parameters.
    #[inline]
    pub const fn head(action: u32, params: u32) -> u64 {
        (params as u64) << 32 | action as u64
    }

    /// Limbs from one record to the next, in a table whose longest parameters have so many: no record is in more lines than it must be.
    pub const fn stride_of(params: usize) -> usize {
        let limbs = params + 1;
        match limbs < LINE {
            true => limbs.next_power_of_two(),
            false => limbs.next_multiple_of(LINE),
        }
    }

    /// Limbs from one record to the next: the head and the parameters.
    #[inline]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// All records.
    #[inline]
    pub fn limbs(&self) -> &[u64] {
        &self.limbs[self.skipped..]
    }

    fn new(stride: usize) -> Self {
        Self {
            stride,
            limbs: Vec::new(),
            skipped: 0,
        }
    }

    /// The same with room for so many limbs.
    fn with_room(&self, room: usize) -> Self {
        let mut limbs: Vec<u64> = Vec::with_capacity(room + LINE);
        let skipped = limbs.as_ptr().align_offset(LINE_BYTES).min(LINE);
        limbs.resize(skipped, 0);
        limbs.extend_from_slice(self.limbs());
        Self {
            stride: self.stride,
            limbs,
            skipped,
        }
    }

    /// There are so many limbs at least; new records tell nothing.
    fn grow(&mut self, limbs: usize) {
        if self.limbs().len() >= limbs {
            return;
        }
        let end = self.skipped + limbs;
        if self.limbs.capacity() < end {
            *self = self.with_room(limbs.next_power_of_two());
        }
        self.limbs.resize(self.skipped + limbs, Self::ELSEWHERE);
    }
}

impl Clone for Records {
    fn clone(&self) -> Self {
        self.with_room(self.limbs().len())
    }
}

/// The control side of [`Records`].
#[derive(Debug)]
pub(crate) struct RecordStore {
    stride: usize,
    versions: Versions<Records>,
}

impl RecordStore {
    /// Records with room for so many limbs of parameters; all tell nothing.
    pub(crate) fn new(params: usize) -> Self {
        let stride = Records::stride_of(params);
        Self {
            stride,
            versions: Versions::new(Records::new(stride)),
        }
    }

    pub(crate) fn snapshot(&self) -> Arc<Records> {
        self.versions.snapshot()
    }

    /// Sets a record.
    pub(crate) fn set(&mut self, record: usize, action: &EntryAction) {
        let limbs = match action {
            EntryAction::Direct(action) if action.params.len() < self.stride => {
                let head = Records::head(action.action, action.params.len() as u32);
                let params = action.params.iter().copied();
                std::iter::once(head).chain(params).collect()
            }
            _ => Box::new([Records::ELSEWHERE]) as Box<[u64]>,
        };
        self.versions.change(Change { record, limbs });
    }

    pub(crate) fn memory(&self) -> usize {
        self.versions
            .memory(|records| records.limbs.capacity() * size_of::<u64>())
    }
}

/// One record's limbs, as far as they matter.
#[derive(Debug)]
pub struct Change {
    record: usize,
    limbs: Box<[u64]>,
}

impl Replay for Records {
    type Op = Change;

    fn apply(&mut self, change: &Change) {
        let first = change.record * self.stride;
        self.grow(first + self.stride);
        let first = self.skipped + first;
        self.limbs[first..first + change.limbs.len()].copy_from_slice(&change.limbs);
    }

    fn clone_cost(&self) -> usize {
        self.limbs.len() / 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::ActionRef;

    #[test]
    fn no_record_of_at_most_a_line_is_in_two_and_growing_keeps_what_they_say() {
        for params in 0..LINE as u64 {
            let mut store = RecordStore::new(params as usize);
            let action = |record: u64| {
                EntryAction::Direct(ActionRef {
                    action: record as u32,
                    params: (0..params).map(|i| record << 8 | i).collect(),
                })
            };
            for record in 0..100 {
                store.set(record as usize, &action(record));
            }
            let records = store.snapshot();
            for records in [&*records, &(*records).clone()] {
                for record in 0..100 {
                    let limbs = &records.limbs()[record as usize * records.stride()..];
                    let line = |limb: &u64| (&raw const *limb).addr() / LINE_BYTES;
                    assert_eq!(limbs[0], Records::head(record as u32, params as u32));
                    assert!((0..params).all(|i| limbs[1 + i as usize] == record << 8 | i));
                    assert_eq!(line(&limbs[0]), line(&limbs[params as usize]));
                }
            }
        }
    }
}
