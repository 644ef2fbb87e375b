//! Cuckoo hash table with buckets of one cache line.
//!
//! Each key has two possible lines, and a line holds several keys. A key is in the first of its two
//! lines if there was room, so most lookups read one line. A line counts, in eight groups, the keys
//! that had to go to their second line. If a key's group in its first line counts none, the key is
//! not in its second line either. Most misses therefore read one line as well.
//!
//! If both lines are full, a breadth-first search finds the shortest chain of keys that can each
//! move to their other line. This fills tables to more than nine tenths. The method is from Li et
//! al., "Algorithmic improvements for fast concurrent cuckoo hashing", EuroSys 2014.

use super::hash::Hash;
use crate::word::Word;

/// One cache line: several key positions (`slot`), each with a mark of its key and a value, and the
/// overflow counters.
pub(crate) trait Line: Clone {
    /// Representation of a key in a line: the key itself, or a tag of it.
    type Mark: Copy;
    /// Number of keys that a line holds.
    const SLOTS: usize;
    /// Creates a line without keys.
    fn empty() -> Self;

    fn mark(&self, slot: usize) -> Self::Mark;
    fn set(&mut self, slot: usize, mark: Self::Mark, value: u32);
    /// Returns the value at a position, possibly with the flag [`OUTDATED`].
    fn word(&self, slot: usize) -> &Word;
    fn overflow(&self) -> &Overflow;
    fn overflow_mut(&mut self) -> &mut Overflow;

    /// Returns the value at a position plus 1, or 0 if the position is free.
    #[inline(always)]
    fn value(&self, slot: usize) -> u32 {
        self.word(slot).get() & !OUTDATED
    }

    fn free_slot(&self) -> Option<usize> {
        (0..Self::SLOTS).find(|&slot| self.value(slot) == 0)
    }
}

/// Flag in a value, or lookup result for a missing key: a key was inserted or removed later, and
/// this copy of the table does not have that change. Values are less than the flag.
pub(crate) const OUTDATED: u32 = 1 << 31;

/// Eight overflow counters of three bits, each with a bit that marks the absence of keys of its
/// group as outdated. A counter that has reached its maximum stays there until the table is
/// rebuilt.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overflow(Word);

impl Overflow {
    const END: u32 = 7;
    pub(crate) const IS_OUTDATED: u32 = 8;

    /// Returns the bits of a group.
    #[inline(always)]
    fn group(&self, hash: Hash) -> u32 {
        self.0.get() >> (hash.group() * 4) & (Self::END | Self::IS_OUTDATED)
    }

    /// Returns true if a key with this hash may be in its second line, or if its absence is
    /// outdated.
    #[inline(always)]
    pub(crate) fn may_have(&self, hash: Hash) -> bool {
        self.group(hash) != 0
    }

    /// Returns the lookup result for a key that is in neither line: 0, or [`OUTDATED`].
    #[inline(always)]
    pub(crate) fn missing(&self, hash: Hash) -> u32 {
        (self.group(hash) & Self::IS_OUTDATED) * (OUTDATED / Self::IS_OUTDATED)
    }

    pub(super) fn outdate(&self, hash: Hash) {
        self.0.add_bits(Self::IS_OUTDATED << (hash.group() * 4));
    }

    /// Adds `step` to the number of keys of the group that are in their second line. Clears the
    /// outdated bit of the group, also for a step of 0.
    pub(super) fn count(&mut self, hash: Hash, step: i32) {
        let shift = hash.group() * 4;
        let now = self.0.get() & !(Self::IS_OUTDATED << shift);
        let is_at_end = now >> shift & Self::END == Self::END;
        self.0 = Word::new(match is_at_end {
            true => now,
            false => now.wrapping_add_signed(step << shift),
        });
    }
}

/// Error: no chain of moves makes room.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// Maximum number of lines that the search for room visits.
const SEARCH: usize = 256;

/// All lines of a table.
#[derive(Debug, Clone)]
pub(crate) struct Lines<L> {
    pub(crate) lines: Vec<L>,
}

/// Line that the search for room has reached, by moving the key at position `slot` of the previous
/// line.
#[derive(Clone, Copy)]
struct Step {
    line: usize,
    before: usize,
    slot: usize,
}

/// [`Step::before`] of the two lines of the new key.
const START: usize = usize::MAX;

impl<L: Line> Lines<L> {
    pub(crate) fn new(lines: usize) -> Self {
        Self {
            lines: vec![L::empty(); lines],
        }
    }

    pub(crate) fn slots(&self) -> usize {
        self.lines.len() * L::SLOTS
    }

    pub(crate) fn memory(&self) -> usize {
        size_of_val(&self.lines[..])
    }

    /// Iterates over the marks and values of all keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (L::Mark, u32)> {
        self.lines.iter().flat_map(|line| {
            let slots = (0..L::SLOTS).map(|slot| (line.mark(slot), line.value(slot)));
            slots.filter_map(|(mark, value)| Some((mark, value.checked_sub(1)?)))
        })
    }

    /// Inserts a key that is not present. `hash_of` returns the hash of a key that is.
    pub(crate) fn insert(
        &mut self,
        hash: Hash,
        mark: L::Mark,
        value: u32,
        hash_of: impl Fn(L::Mark, u32) -> Hash,
    ) -> Result<(), NoRoom> {
        let count = self.lines.len();
        let homes = [hash.first(count), hash.second(count)];
        let room = homes
            .iter()
            .find_map(|&line| Some((line, self.lines[line].free_slot()?)));
        let (line, slot) = match room {
            Some(room) => room,
            None => self.make_room(homes, &hash_of)?,
        };
        self.put(line, slot, hash, mark, value + 1);
        Ok(())
    }

    /// Marks a key as outdated that is at this line and position, or missing for `None`.
    pub(crate) fn outdate(&self, place: Option<(usize, usize)>, hash: Hash) {
        match place {
            Some((line, slot)) => self.lines[line].word(slot).add_bits(OUTDATED),
            None => self.lines[hash.first(self.lines.len())]
                .overflow()
                .outdate(hash),
        }
    }

    /// Removes the key at this position, which has this hash.
    pub(crate) fn remove(&mut self, line: usize, slot: usize, hash: Hash) {
        let mark = self.lines[line].mark(slot);
        self.lines[line].set(slot, mark, 0);
        self.count(line, hash, -1);
    }

    fn put(&mut self, line: usize, slot: usize, hash: Hash, mark: L::Mark, value: u32) {
        self.lines[line].set(slot, mark, value);
        self.count(line, hash, 1);
    }

    /// Updates the overflow counter in the first line of a key that was added to, or removed from,
    /// `line`.
    fn count(&mut self, line: usize, hash: Hash, step: i32) {
        let first = hash.first(self.lines.len());
        let step = if line == first { 0 } else { step };
        self.lines[first].overflow_mut().count(hash, step);
    }

    /// Frees a position in one of two full lines and returns it.
    fn make_room(
        &mut self,
        homes: [usize; 2],
        hash_of: &impl Fn(L::Mark, u32) -> Hash,
    ) -> Result<(usize, usize), NoRoom> {
        let mut steps = Vec::with_capacity(SEARCH + L::SLOTS);
        steps.extend(homes.map(|line| Step {
            line,
            before: START,
            slot: 0,
        }));
        let mut next = 0;
        while next < steps.len() && steps.len() < SEARCH {
            let Step { line, .. } = steps[next];
            for slot in 0..L::SLOTS {
                let other = self.other(line, slot, hash_of);
                if steps.iter().any(|step| step.line == other) {
                    continue;
                }
                let step = Step {
                    line: other,
                    before: next,
                    slot,
                };
                if let Some(free) = self.lines[other].free_slot() {
                    return Ok(self.shift(&steps, step, free, hash_of));
                }
                steps.push(step);
            }
            next += 1;
        }
        Err(NoRoom)
    }

    /// Returns the other line of the key at a position that is in use.
    fn other(&self, line: usize, slot: usize, hash_of: &impl Fn(L::Mark, u32) -> Hash) -> usize {
        let kept = &self.lines[line];
        let hash = hash_of(kept.mark(slot), kept.value(slot) - 1);
        let count = self.lines.len();
        // If both are the same line, this returns it, and the search has already visited it.
        hash.first(count) ^ hash.second(count) ^ line
    }

    /// Moves the keys along the path to `last`, in which position `free` is free. Returns the
    /// position that this frees.
    fn shift(
        &mut self,
        steps: &[Step],
        last: Step,
        free: usize,
        hash_of: &impl Fn(L::Mark, u32) -> Hash,
    ) -> (usize, usize) {
        let (mut step, mut free) = (last, free);
        while step.before != START {
            let from = steps[step.before];
            let (mark, value) = {
                let line = &self.lines[from.line];
                (line.mark(step.slot), line.value(step.slot))
            };
            let hash = hash_of(mark, value - 1);
            self.remove(from.line, step.slot, hash);
            self.put(step.line, free, hash, mark, value);
            (free, step) = (step.slot, from);
        }
        (step.line, free)
    }
}
