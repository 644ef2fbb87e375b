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

use crate::engine::Rule;
use crate::entry::{EntryIdx, Rank};
use crate::key::FieldMatch;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// The most copies that are kept; packets may hold others for as long as they take.
const MAX_COPIES: usize = 4;

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

    /// All copies that are kept.
    pub fn copies(&self) -> impl ExactSizeIterator<Item = &T> {
        self.copies.iter().map(|version| &*version.copy)
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
        *self = Self::new(fresh);
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
        self.copies.swap_remove(place);
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
    use proptest::prelude::*;

    /// A list that counts how often it was copied.
    #[derive(Debug, Default)]
    struct List {
        items: Vec<u32>,
        clones: u32,
    }

    impl Clone for List {
        fn clone(&self) -> Self {
            Self {
                items: self.items.clone(),
                clones: self.clones + 1,
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
            steps in proptest::collection::vec((0u8..5, any::<prop::sample::Index>()), 0..200)
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
                prop_assert!(versions.copies().len() <= MAX_COPIES);
                for (snapshot, then) in &held {
                    prop_assert_eq!(&snapshot.items, then);
                }
            }
        }
    }

    #[test]
    fn a_load_writes_one_copy_and_changes_in_the_steady_state_clone_once() {
        let mut versions = Versions::new(List::default());
        for i in 0..1000 {
            versions.change(i);
        }
        assert_eq!((versions.copies().len(), versions.log.len()), (1, 0));
        let mut root = versions.snapshot();
        assert_eq!(root.clones, 0);
        for i in 0..1000 {
            versions.change(i);
            root = versions.snapshot();
            assert!(root.clones <= 1 && versions.copies().len() == 2 && versions.log.len() <= 1);
        }
        assert_eq!(root.items.len(), 2000);
    }

    #[test]
    fn a_copy_that_missed_much_is_given_up_with_the_log_for_it() {
        let mut versions = Versions::new(List::default());
        let held = versions.snapshot();
        for i in 0..1000 {
            versions.change(i);
        }
        assert_eq!((versions.copies().len(), versions.log.len()), (1, 0));
        assert_eq!((held.items.len(), versions.newest().clones), (0, 1));
    }
}
