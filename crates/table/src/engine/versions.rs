//! [`Versions`]: flat structures that change under traffic.
//!
//! Packets search flat memory, without pages or locks, and a snapshot that they hold never changes.
//! So the control side keeps a few copies of the structure: a change goes to one that no packet
//! holds, after the changes that it missed were replayed on it, and that one is the next snapshot
//! (left-right, Ramalhete and Correia 2015, with reference counts in place of reader counters).
//!
//! In the steady state there are two copies and each change is applied twice. A copy is cloned only
//! when there is none to write, that is at the first change after a snapshot and while packets hold
//! all of them. A load before the first snapshot, or between two, writes one copy.
//!
//! Bounds. Memory: a copy for each different snapshot that is held, and two more. Time: a change is
//! applied to one copy after at most [`Replay::clone_cost`] others; or it clones, and then since the
//! last clone one more snapshot is held than ever before, or one of many that were held for long. So
//! what packets hold for the time of a batch, on any number of threads up to [`MAX_COPIES`] less two,
//! costs some clones once and then none. Copies that are not needed any more miss more and more
//! changes, and go. Whoever holds many different snapshots for long, as packets in a slow queue do,
//! pays for each with a copy.

use crate::engine::Rule;
use crate::entry::{EntryIdx, Rank};
use crate::key::FieldMatch;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

/// The most copies that are kept to be written again; packets may hold others for as long as they take.
const MAX_COPIES: usize = 16;

/// A structure that changes by operations that can be repeated on a copy.
pub trait Replay: Clone {
    /// One change.
    type Op;

    /// Makes the change.
    fn apply(&mut self, op: &Self::Op);

    /// About how many operations cost as much time as a clone. A copy that missed more is given up.
    fn clone_cost(&self) -> usize;
}

/// The copies of a structure, of which the newest has all changes.
pub struct Versions<T: Replay> {
    /// Never empty, and at most [`MAX_COPIES`].
    copies: Vec<Version<T>>,
    /// Which of `copies` has all changes.
    newest: usize,
    /// How many changes there were.
    end: u64,
    /// The last of them: all that some copy missed.
    log: VecDeque<T::Op>,
    /// Copies that are not kept, and may be held by packets.
    given_up: Vec<Weak<T>>,
}

struct Version<T> {
    /// How many changes the copy has.
    at: u64,
    copy: Arc<T>,
}

impl<T: Replay> Versions<T> {
    /// One copy: `first`.
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

    /// The structure with all changes.
    pub fn newest(&self) -> &T {
        &self.copies[self.newest].copy
    }

    /// The structure of this moment, for packets: it never changes.
    pub fn snapshot(&self) -> Arc<T> {
        self.copies[self.newest].copy.clone()
    }

    /// What all copies take together, also those that only packets hold.
    pub fn memory(&self, of: impl Fn(&T) -> usize) -> usize {
        let kept = self.copies.iter().map(|version| of(&version.copy));
        let held = self.given_up.iter().filter_map(Weak::upgrade);
        kept.sum::<usize>() + held.map(|copy| of(&copy)).sum::<usize>()
    }

    /// Makes a change, which the next snapshot has.
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

    /// Starts over with `fresh`.
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

    /// The place of a copy that nobody holds: the one that missed least, or else a new clone.
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

    /// Forgets changes that no copy misses, and copies that missed too many.
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

/// A change of a match engine as an operation: a rule that comes or goes.
#[derive(Debug, Clone)]
pub struct RuleChange {
    /// Whether it comes.
    pub is_insert: bool,
    /// [`Rule::idx`].
    pub idx: EntryIdx,
    /// [`Rule::matches`].
    pub matches: Arc<[FieldMatch]>,
    /// [`Rule::rank`].
    pub rank: Rank,
}

impl RuleChange {
    /// The rule comes.
    pub fn insert(rule: Rule<'_>) -> Self {
        Self {
            is_insert: true,
            idx: rule.idx,
            matches: rule.matches.clone(),
            rank: rule.rank,
        }
    }

    /// The rule goes.
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

    /// A list that counts how often it was copied.
    #[derive(Debug, Default)]
    struct List {
        items: Vec<u32>,
        clones: u32,
        /// Of it and of what it was cloned from.
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
        // So many that no copy misses more than a clone costs.
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
