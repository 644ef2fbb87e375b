//! [`Versions`]: flat structures that change under traffic.
//!
//! Packets search flat memory without pages or locks, and a snapshot that they hold never changes.
//! The control side therefore keeps several copies of the structure. It applies a change to a copy
//! that no packet holds, after replaying the changes that the copy missed. This copy is the next
//! snapshot. The method is left-right (Ramalhete and Correia 2015) with reference counts in place
//! of reader counters.
//!
//! In the steady state there are two copies, and each change is applied twice. A copy is cloned
//! only when none is writable: at the first change after a snapshot, and while packets hold all
//! copies. Bulk loading before the first snapshot, or between two snapshots, writes one copy.
//!
//! Bounds:
//! - Memory: one copy for each different snapshot that is held, plus two.
//! - Time of a change without a clone: it is applied to one copy, after at most
//!   [`Replay::clone_cost`] others.
//! - Number of clones: a change clones only for one of two reasons. Since the last clone, more
//!   snapshots are held than ever before, or one of several snapshots is held for long.
//!
//! Snapshots that are held for the time of a batch thus cost a few clones once and then none. This
//! holds for up to [`MAX_COPIES`] minus two threads. Unused copies miss more and more changes and
//! are dropped. Each different snapshot that is held for long, for example by packets in a slow
//! queue, costs one copy.

use crate::engine::Rule;
use crate::entry::{EntryIdx, Rank};
use crate::key::FieldMatch;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

/// Maximum number of copies that are kept for reuse. Packets may hold further ones for any time.
const MAX_COPIES: usize = 16;

/// Structure that changes by operations that can be replayed on a copy.
pub trait Replay: Clone {
    /// Type of one change.
    type Op;

    /// Applies the change.
    fn apply(&mut self, op: &Self::Op);

    /// Returns the approximate number of operations that take as much time as a clone. A copy that
    /// missed more is dropped.
    fn clone_cost(&self) -> usize;
}

/// Copies of a structure, of which the newest has all changes.
pub struct Versions<T: Replay> {
    /// Never empty, and at most [`MAX_COPIES`].
    copies: Vec<Version<T>>,
    /// Index of the copy that has all changes.
    newest: usize,
    /// Number of changes so far.
    end: u64,
    /// The most recent changes: all that some copy missed.
    log: VecDeque<T::Op>,
    /// Copies that are no longer kept but may still be held by packets.
    given_up: Vec<Weak<T>>,
}

struct Version<T> {
    /// Number of changes that the copy has.
    at: u64,
    copy: Arc<T>,
}

impl<T: Replay> Versions<T> {
    /// Creates the structure with one copy, `first`.
    pub fn new(first: T) -> Self {
        Self {
            copies: vec![Version {
                at: 0,
                copy: Arc::new(first),
            }],
            newest: 0,
            end: 0,
            log: VecDeque::new(),
            given_up: Vec::new(),
        }
    }

    /// Returns the structure with all changes.
    pub fn newest(&self) -> &T {
        &self.copies[self.newest].copy
    }

    /// Returns an immutable snapshot of the current structure for packets.
    pub fn snapshot(&self) -> Arc<T> {
        self.copies[self.newest].copy.clone()
    }

    /// Returns the sum of `of` over all copies, including those that only packets hold.
    pub fn memory(&self, of: impl Fn(&T) -> usize) -> usize {
        let kept = self.copies.iter().map(|version| of(&version.copy));
        let held = self.given_up.iter().filter_map(Weak::upgrade);
        kept.sum::<usize>() + held.map(|copy| of(&copy)).sum::<usize>()
    }

    /// Applies a change, which the next snapshot has.
    pub fn change(&mut self, op: T::Op) {
        self.newest = self.writable();
        let version = &mut self.copies[self.newest];
        let copy = Arc::get_mut(&mut version.copy).expect("a writable copy is held by nobody else");
        let missed = (self.end - version.at) as usize;
        for missed in self.log.range(self.log.len() - missed..) {
            copy.apply(missed);
        }
        copy.apply(&op);
        self.end += 1;
        version.at = self.end;
        if self.copies.len() > 1 {
            self.log.push_back(op);
        }
        self.forget();
    }

    /// Replaces the structure by `fresh`.
    pub fn reset(&mut self, fresh: T) {
        for place in (0..self.copies.len()).rev() {
            self.give_up(place);
        }
        let given_up = std::mem::take(&mut self.given_up);
        *self = Self {
            given_up,
            ..Self::new(fresh)
        };
    }

    /// Returns the index of a copy that nothing else holds: the one that missed least, otherwise a
    /// new clone.
    fn writable(&mut self) -> usize {
        let free = |version: &mut Version<T>| Arc::get_mut(&mut version.copy).is_some();
        let places = self.copies.iter_mut().enumerate();
        let best = places
            .filter_map(|(place, version)| free(version).then_some((version.at, place)))
            .max();
        if let Some((_, place)) = best {
            return place;
        }
        if self.copies.len() == MAX_COPIES {
            let oldest = (0..MAX_COPIES).min_by_key(|&place| self.copies[place].at);
            self.give_up(oldest.unwrap_or(0));
        }
        let newest = &self.copies[self.newest];
        let clone = Version {
            at: newest.at,
            copy: Arc::new(T::clone(&newest.copy)),
        };
        self.copies.push(clone);
        self.copies.len() - 1
    }

    /// Drops log records that no copy misses, and copies that missed too many changes.
    fn forget(&mut self) {
        let worth = self.newest().clone_cost().max(MAX_COPIES) as u64;
        while let Some(place) = (0..self.copies.len())
            .find(|&place| place != self.newest && self.end - self.copies[place].at > worth)
        {
            self.give_up(place);
        }
        let copies = self.copies.iter();
        let missed = copies.map(|version| self.end - version.at).max();
        let kept = missed.unwrap_or(0) as usize;
        self.log.drain(..self.log.len().saturating_sub(kept));
    }

    fn give_up(&mut self, place: usize) {
        let version = self.copies.swap_remove(place);
        self.given_up.retain(|copy| copy.strong_count() > 0);
        self.given_up.push(Arc::downgrade(&version.copy));
        if self.newest == self.copies.len() {
            self.newest = place;
        }
    }
}

impl<T: Replay + fmt::Debug> fmt::Debug for Versions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Versions")
            .field("newest", self.newest())
            .field("copies", &self.copies.len())
            .field("log", &self.log.len())
            .finish()
    }
}

/// Operation on a match engine: insert or remove a rule.
#[derive(Debug, Clone)]
pub struct RuleChange {
    /// True for insert, false for remove.
    pub is_insert: bool,
    /// [`Rule::idx`].
    pub idx: EntryIdx,
    /// [`Rule::matches`].
    pub matches: Arc<[FieldMatch]>,
    /// [`Rule::rank`].
    pub rank: Rank,
}

impl RuleChange {
    /// Creates the operation that inserts a rule.
    pub fn insert(rule: Rule<'_>) -> Self {
        Self {
            is_insert: true,
            idx: rule.idx,
            matches: rule.matches.clone(),
            rank: rule.rank,
        }
    }

    /// Creates the operation that removes a rule.
    pub fn remove(rule: Rule<'_>) -> Self {
        Self {
            is_insert: false,
            ..Self::insert(rule)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_size::usual_or_interpreted;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    /// List that counts how often it was cloned.
    #[derive(Debug, Default)]
    struct List {
        items: Vec<u32>,
        clones: u32,
        /// Clones of all copies together.
        all_clones: Arc<AtomicU32>,
    }

    impl Clone for List {
        fn clone(&self) -> Self {
            self.all_clones.fetch_add(1, Relaxed);
            Self {
                items: self.items.clone(),
                clones: self.clones + 1,
                all_clones: self.all_clones.clone(),
            }
        }
    }

    impl Replay for List {
        type Op = u32;

        fn apply(&mut self, op: &u32) {
            self.items.push(*op);
        }

        fn clone_cost(&self) -> usize {
            self.items.len() / 2
        }
    }

    proptest! {
        #[test]
        fn snapshots_stay_as_they_were_taken(
            steps in proptest::collection::vec((0u8..5, any::<prop::sample::Index>()), 0..usual_or_interpreted(200, 40))
        ) {
            let mut versions = Versions::new(List::default());
            let mut model: Vec<u32> = Vec::new();
            let mut held: Vec<(Arc<List>, Vec<u32>)> = Vec::new();
            for (number, (step, which)) in steps.into_iter().enumerate() {
                match step {
                    0 | 1 => {
                        versions.change(number as u32);
                        model.push(number as u32);
                    }
                    2 | 3 => held.push((versions.snapshot(), model.clone())),
                    _ if held.is_empty() => {}
                    _ => drop(held.swap_remove(which.index(held.len()))),
                }
                prop_assert_eq!(&versions.newest().items, &model);
                prop_assert!(versions.copies.len() <= MAX_COPIES);
                for (snapshot, then) in &held {
                    prop_assert_eq!(&snapshot.items, then);
                }
                let mut different: Vec<_> = held.iter().map(|(list, _)| Arc::as_ptr(list)).collect();
                different.sort();
                different.dedup();
                prop_assert!(versions.memory(|_| 1) >= different.len());
            }
        }
    }

    #[test]
    fn a_load_writes_one_copy_and_changes_in_the_steady_state_clone_once() {
        let mut versions = Versions::new(List::default());
        for i in 0..1000 {
            versions.change(i);
        }
        assert_eq!((versions.copies.len(), versions.log.len()), (1, 0));
        let mut root = versions.snapshot();
        assert_eq!(root.clones, 0);
        for i in 0..1000 {
            versions.change(i);
            root = versions.snapshot();
            assert!(root.clones <= 1 && versions.copies.len() == 2 && versions.log.len() <= 1);
        }
        assert_eq!(root.items.len(), 2000);
    }

    #[test]
    fn packets_on_many_threads_that_hold_snapshots_for_a_while_cost_a_clone_each_once() {
        const THREADS: usize = MAX_COPIES - 2;
        // Large enough that no copy misses more changes than a clone costs.
        const CHANGES: u32 = usual_or_interpreted(1000, 200) as u32;
        let mut versions = Versions::new(List::default());
        (0..CHANGES).for_each(|i| versions.change(i));
        let mut held: VecDeque<_> = (0..THREADS).map(|_| versions.snapshot()).collect();
        for i in 0..CHANGES {
            versions.change(i);
            held.push_back(versions.snapshot());
            held.pop_front();
            assert!(versions.memory(|_| 1) <= THREADS + 2);
        }
        let clones = versions.newest().all_clones.load(Relaxed);
        assert_eq!(clones as usize, THREADS);
    }

    #[test]
    fn copies_that_only_packets_hold_count_as_memory_until_they_are_let_go() {
        let mut versions = Versions::new(List::default());
        let mut held = Vec::new();
        for i in 0..100 {
            held.push(versions.snapshot());
            versions.change(i);
        }
        assert_eq!(versions.memory(|_| 1), 101);
        versions.reset(List::default());
        assert_eq!(versions.memory(|_| 1), 101);
        held.clear();
        assert_eq!(versions.memory(|_| 1), 1);
    }

    #[test]
    fn a_copy_that_missed_much_is_given_up_with_the_log_for_it() {
        let mut versions = Versions::new(List::default());
        let held = versions.snapshot();
        for i in 0..1000 {
            versions.change(i);
        }
        assert_eq!((versions.copies.len(), versions.log.len()), (1, 0));
        assert_eq!((held.items.len(), versions.newest().clones), (0, 1));
    }
}
