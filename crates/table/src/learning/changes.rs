//! Changes that packets make, as the control side collects them, and the operations of handlers.
//!
//! An entry that a packet removes leaves the table at once. If the control side knows the entry
//! (`REPORTED`), the packet puts its id and key into the [`RemovalLog`] first, while the bucket is
//! claimed. Another packet can insert the same key only after that. So a removal is in the log
//! before the control side can see a new entry for the key.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::{
    LearnError, LearnedEntry, LearningTable, READ_TRIES, REPORTED, State, TAG_MASK, next, word,
};
use crate::entry::EntryId;
use crate::removal_log::RemovalLog;

/// Change of a learning table that packets made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LearnedChange {
    /// A packet removed the entry with this id and key.
    Removed(EntryId, Box<[u64]>),
    /// A packet inserted this entry.
    Inserted(LearnedEntry),
    /// A packet replaced the action of this entry.
    Modified(LearnedEntry),
}

impl LearningTable {
    /// Returns the changes that packets have made since the last call: removals in their order,
    /// then inserted and modified entries in order of insertion and in their current state. An
    /// entry that came and went since the last call is omitted. Applied in this order to the table
    /// of the last call, the changes give the present table, and never exceed its capacity.
    ///
    /// Call it after each batch of packets. The cost is in proportion to the number of changes.
    pub fn take_changes(&self) -> Vec<LearnedChange> {
        let mut expiry = self.lock_expiry();
        self.file_retimed(&mut expiry.timers);
        let (mut inserted, mut modified) = (Vec::new(), Vec::new());
        self.inserted.take(|slot| {
            while let Some((entry, meta)) = self.read_entry(slot) {
                if meta & REPORTED != 0 {
                    modified.push(entry);
                    break;
                }
                let reported = next(meta, State::Full, meta & TAG_MASK) | REPORTED;
                let marked = self.meta[slot].compare_exchange(meta, reported, SeqCst, SeqCst);
                if marked.is_ok() {
                    inserted.push(entry);
                    break;
                }
            }
        });
        inserted.sort_unstable_by_key(|entry| entry.id);
        let mut changes = Vec::new();
        let mut gone = Vec::new();
        if let Some(log) = &self.removed {
            log.take(|id, key| {
                let id = EntryId(id);
                gone.push(id);
                if inserted
                    .binary_search_by_key(&id, |entry| entry.id)
                    .is_err()
                {
                    changes.push(LearnedChange::Removed(id, key));
                }
            });
        }
        gone.sort_unstable();
        let stays = |entry: &LearnedEntry| gone.binary_search(&entry.id).is_err();
        let inserted = inserted.into_iter().map(LearnedChange::Inserted);
        let written = inserted.chain(modified.into_iter().map(LearnedChange::Modified));
        let mut written: Vec<_> = written
            .filter_map(|change| match &change {
                LearnedChange::Inserted(entry) | LearnedChange::Modified(entry) => {
                    stays(entry).then_some((entry.id, change))
                }
                LearnedChange::Removed(..) => None,
            })
            .collect();
        written.sort_by_key(|(id, _)| *id);
        changes.extend(written.into_iter().map(|(_, change)| change));
        changes
    }

    /// Returns the entries that packets have inserted since the last call, in order of insertion
    /// and in their current state. For tables that are not for handlers.
    pub fn take_inserted(&self) -> Vec<LearnedEntry> {
        let changes = self.take_changes().into_iter();
        changes
            .filter_map(|change| match change {
                LearnedChange::Inserted(entry) => Some(entry),
                _ => None,
            })
            .collect()
    }

    /// Replaces the action of the entry with this key, by a packet. Returns false if there is none.
    /// The table must be for handlers.
    pub fn replace(&self, key: &[u64], action: u32, params: &[u64]) -> Result<bool, LearnError> {
        let fits = key.len() == self.shape.limbs() && params.len() <= self.param_limbs;
        if !fits || !self.is_for_handlers() {
            return Err(LearnError::WrongSize);
        }
        let (home, tag) = self.place(key);
        for _ in 0..READ_TRIES {
            let Some((slot, meta)) = self.find_slot(home, tag, key) else {
                return Ok(false);
            };
            if self.rewrite((slot, meta), tag, action, params) {
                self.inserted.insert(slot);
                return Ok(true);
            }
        }
        Err(LearnError::Contended)
    }

    /// Removes the entry with this key, by a packet. Returns false if there is none. The table must
    /// be for handlers.
    pub fn remove(&self, key: &[u64]) -> Result<bool, LearnError> {
        let Some(log) = &self.removed else {
            return Err(LearnError::WrongSize);
        };
        if key.len() != self.shape.limbs() {
            return Err(LearnError::WrongSize);
        }
        let (home, tag) = self.place(key);
        for _ in 0..READ_TRIES {
            let Some((slot, meta)) = self.find_slot(home, tag, key) else {
                return Ok(false);
            };
            let claimed = next(meta, State::Claimed, tag);
            let taken = self.meta[slot].compare_exchange(meta, claimed, SeqCst, SeqCst);
            if taken.is_err() {
                continue;
            }
            if meta & REPORTED != 0 && !self.log_removal(log, slot, key) {
                let back = next(claimed, State::Full, tag) | REPORTED;
                self.meta[slot].store(back, SeqCst);
                break;
            }
            self.release(slot);
            return Ok(true);
        }
        Err(LearnError::Contended)
    }

    fn log_removal(&self, log: &RemovalLog, slot: usize, key: &[u64]) -> bool {
        let id = self.words(slot)[word::ID].load(Relaxed);
        log.push(id, key)
    }
}
