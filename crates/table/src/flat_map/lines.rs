//! Tables of cache lines in which each key has two places: cuckoo hashing with buckets.
//!
//! A line takes several keys. A key lies in the first of its two lines if there was room, so most
//! lookups read one line. A line counts, in eight groups, the keys that had to go to their second
//! line: a key of a group that counts none is not there either, and a miss reads one line as well.
//!
//! When both lines are full, a breadth-first search finds the shortest chain of keys that can each
//! go to their other line (Li et al., "Algorithmic improvements for fast concurrent cuckoo hashing",
//! EuroSys 2014), which fills tables to more than nine tenths.

use super::hash::Hash;

/// One cache line: slots, each with a mark of its key and a value, and the overflow counters.
pub(crate) trait Line: Copy {
    /// What stands for the key in a slot.
    type Mark: Copy;
    /// How many slots there are.
    const SLOTS: usize;
    /// A line without keys.
    const EMPTY: Self;

    /// The value of a slot, plus 1; 0 if it is free.
    fn value(&self, slot: usize) -> u32;
    fn mark(&self, slot: usize) -> Self::Mark;
    fn set(&mut self, slot: usize, mark: Self::Mark, value: u32);
    fn overflow(&mut self) -> &mut Overflow;

    fn free_slot(&self) -> Option<usize> {
        (0..Self::SLOTS).find(|&slot| self.value(slot) == 0)
    }
}

/// Eight counters of four bits. One that has reached its end stays there until the table is rebuilt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Overflow(u32);

impl Overflow {
    /// Without keys.
    pub(crate) const NONE: Self = Self(0);
    const END: u32 = 15;

    /// Whether a key with this hash may be in its second line.
    #[inline(always)]
    pub(crate) fn may_have(self, hash: Hash) -> bool {
        self.0 >> (hash.group() * 4) & Self::END != 0
    }

    pub(super) fn count(&mut self, hash: Hash, step: i32) {
        let shift = hash.group() * 4;
        let count = self.0 >> shift & Self::END;
        if count != Self::END {
            self.0 = self.0.wrapping_add_signed(step << shift);
        }
    }
}

/// No chain of moves that makes room was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// How many lines the search for room looks into.
const SEARCH: usize = 256;

/// The lines of a table.
#[derive(Debug, Clone)]
pub(crate) struct Lines<L> {
    pub(crate) lines: Vec<L>,
}

/// A line that the search for room has reached, by moving `slot` of the line before it.
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
            lines: vec![L::EMPTY; lines],
        }
    }

    pub(crate) fn slots(&self) -> usize {
        self.lines.len() * L::SLOTS
    }

    pub(crate) fn memory(&self) -> usize {
        size_of_val(&self.lines[..])
    }

    /// All keys: their marks and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (L::Mark, u32)> {
        self.lines.iter().flat_map(|line| {
            let slots = (0..L::SLOTS).map(|slot| (line.mark(slot), line.value(slot)));
            slots.filter_map(|(mark, value)| Some((mark, value.checked_sub(1)?)))
        })
    }

    /// Puts a key in that is not there. `hash_of` says the hash of a key that is.
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

    /// Takes the key out that lies in this slot and has this hash.
    pub(crate) fn remove(&mut self, line: usize, slot: usize, hash: Hash) {
        let mark = self.lines[line].mark(slot);
        self.lines[line].set(slot, mark, 0);
        self.count(line, hash, -1);
    }

    fn put(&mut self, line: usize, slot: usize, hash: Hash, mark: L::Mark, value: u32) {
        self.lines[line].set(slot, mark, value);
        self.count(line, hash, 1);
    }

    /// Lets the first line of a key know that it came to, or went from, `line`.
    fn count(&mut self, line: usize, hash: Hash, step: i32) {
        let first = hash.first(self.lines.len());
        if line != first {
            self.lines[first].overflow().count(hash, step);
        }
    }

    /// Frees a slot in one of two full lines and says which.
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

    /// The other line of the key in a slot that is in use.
    fn other(&self, line: usize, slot: usize, hash_of: &impl Fn(L::Mark, u32) -> Hash) -> usize {
        let kept = &self.lines[line];
        let hash = hash_of(kept.mark(slot), kept.value(slot) - 1);
        let count = self.lines.len();
        // If both are one line, this gives that line, which the search has seen.
        hash.first(count) ^ hash.second(count) ^ line
    }

    /// Moves the keys on the way to `last`, which has `free` free, and says which slot that frees.
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
