//! [`Records`]: what a table's entries do, flat, for code that has found an entry and must not follow pointers.
//!
//! A record is a head and the action's parameters in their limbs, at a fixed distance from the next one. Record 0 is the default action's, record
//! `idx + 1` the entry's in place `idx`: a lookup that counts from 1 and gives 0 for a miss needs no case.

use crate::engine::{Replay, Versions};
use crate::entry::EntryAction;
use std::sync::Arc;

/// What packets see of all entries' actions. Never changes.
#[derive(Debug, Clone)]
pub struct Records {
    stride: usize,
    limbs: Vec<u64>,
}

impl Records {
    /// The head of what is not told here: an entry that refers to an action profile, or whose parameters have no room.
    pub const ELSEWHERE: u64 = u64::MAX;

    /// The head of an action with that number and so many limbs of parameters.
    #[inline]
    pub const fn head(action: u32, params: u32) -> u64 {
        (params as u64) << 32 | action as u64
    }

    /// Limbs from one record to the next, in a table whose longest parameters have so many.
    pub const fn stride_of(params: usize) -> usize {
        params + 1
    }

    /// Limbs from one record to the next: the head and the parameters.
    #[inline]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// All records.
    #[inline]
    pub fn limbs(&self) -> &[u64] {
        &self.limbs
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
        let limbs = Vec::new();
        Self {
            stride,
            versions: Versions::new(Records { stride, limbs }),
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
        if self.limbs.len() < first + self.stride {
            self.limbs.resize(first + self.stride, Self::ELSEWHERE);
        }
        self.limbs[first..first + change.limbs.len()].copy_from_slice(&change.limbs);
    }

    fn clone_cost(&self) -> usize {
        self.limbs.len() / 64
    }
}
