//! Hash map for keys of one or two limbs, which are stored in the lines themselves.

use std::hint::select_unpredictable;
use std::mem::offset_of;

use super::hash::{Hash, Seed};
use super::lines::{Line, Lines, NoRoom, Overflow};
use super::{BATCH, HashIndex, MapCore};
use crate::prefetch::prefetch;
use crate::word::Word;

/// Cache line of `SLOTS` keys of `LIMBS` limbs.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct InlineLine<const LIMBS: usize, const SLOTS: usize> {
    keys: [[u64; LIMBS]; SLOTS],
    /// Values plus 1; 0 for a free position.
    values: [Word; SLOTS],
    overflow: Overflow,
}

/// Returns true if lines have the layout that [`HashIndex`] documents for compiled code.
const fn is_as_told<const LIMBS: usize, const SLOTS: usize>() -> bool {
    size_of::<InlineLine<LIMBS, SLOTS>>() == HashIndex::LINE
        && HashIndex::slots(LIMBS) == SLOTS
        && offset_of!(InlineLine<LIMBS, SLOTS>, keys) == 0
        && offset_of!(InlineLine<LIMBS, SLOTS>, values) == HashIndex::places_at(LIMBS)
        && offset_of!(InlineLine<LIMBS, SLOTS>, overflow) == HashIndex::OVERFLOW_AT
}

const _: () = assert!(is_as_told::<1, 5>() && is_as_told::<2, 3>());

impl<const LIMBS: usize, const SLOTS: usize> Line for InlineLine<LIMBS, SLOTS> {
    type Mark = [u64; LIMBS];
    const SLOTS: usize = SLOTS;

    fn empty() -> Self {
        Self {
            keys: [[0; LIMBS]; SLOTS],
            values: std::array::from_fn(|_| Word::default()),
            overflow: Overflow::default(),
        }
    }

    #[inline(always)]
    fn word(&self, slot: usize) -> &Word {
        &self.values[slot]
    }

    fn mark(&self, slot: usize) -> [u64; LIMBS] {
        self.keys[slot]
    }

    fn set(&mut self, slot: usize, mark: [u64; LIMBS], value: u32) {
        self.keys[slot] = mark;
        self.values[slot] = Word::new(value);
    }

    fn overflow(&self) -> &Overflow {
        &self.overflow
    }

    fn overflow_mut(&mut self) -> &mut Overflow {
        &mut self.overflow
    }
}

impl<const LIMBS: usize, const SLOTS: usize> InlineLine<LIMBS, SLOTS> {
    /// Returns the value of a key plus 1, possibly with the flag [`OUTDATED`](super::OUTDATED), or
    /// 0 if the key is not in this line. Branch-free, because branches on the position would be
    /// unpredictable.
    #[inline(always)]
    pub(super) fn probe(&self, key: &[u64; LIMBS]) -> u32 {
        let mut found = 0;
        for (stored, value) in self.keys.iter().zip(&self.values) {
            let differs = stored
                .iter()
                .zip(key)
                .fold(0, |differs, (a, b)| differs | a ^ b);
            // Load the value unconditionally. The compiler does not speculate an atomic load, so a
            // conditional one would become a branch.
            found |= select_unpredictable(differs == 0, value.get(), 0);
        }
        found
    }

    fn slot_of(&self, key: &[u64; LIMBS]) -> Option<usize> {
        (0..SLOTS).find(|&slot| self.value(slot) != 0 && self.keys[slot] == *key)
    }
}

/// Map with keys in its lines.
#[derive(Debug, Clone)]
pub(crate) struct InlineMap<const LIMBS: usize, const SLOTS: usize> {
    seed: Seed,
    pub(super) lines: Lines<InlineLine<LIMBS, SLOTS>>,
}

impl<const LIMBS: usize, const SLOTS: usize> InlineMap<LIMBS, SLOTS> {
    #[inline(always)]
    fn hash(seed: Seed, key: &[u64; LIMBS]) -> Hash {
        if LIMBS == 1 {
            seed.hash_one(key[0])
        } else {
            seed.hash(key)
        }
    }

    /// Returns the map in the form that compiled code can search inline.
    pub(super) fn index(&self) -> HashIndex<'_> {
        HashIndex::new(LIMBS, self.lines.lines.as_ptr_range(), self.seed)
    }

    /// Returns the line and position of a key.
    fn place(&self, key: &[u64; LIMBS], hash: Hash) -> Option<(usize, usize)> {
        let lines = &self.lines.lines;
        let homes = [hash.first(lines.len()), hash.second(lines.len())];
        homes
            .iter()
            .find_map(|&line| Some((line, lines[line].slot_of(key)?)))
    }

    /// Looks up at most [`BATCH`] keys at once.
    #[inline(always)]
    fn get_some(&self, keys: &[[u64; LIMBS]], out: &mut [u32]) {
        let lines = &self.lines.lines[..];
        let mut hashes = [Hash::default(); BATCH];
        for (key, hash) in keys.iter().zip(&mut hashes) {
            *hash = Self::hash(self.seed, key);
            prefetch(lines, hash.first(lines.len()));
        }
        let mut late = [0u8; BATCH];
        let mut lates = 0;
        for (i, ((key, hash), found)) in keys.iter().zip(hashes).zip(&mut *out).enumerate() {
            let line = &lines[hash.first(lines.len())];
            *found = line.probe(key);
            late[lates % BATCH] = i as u8;
            lates += usize::from(*found == 0 && line.overflow.may_have(hash));
        }
        let late = &late[..lates];
        for &i in late {
            prefetch(lines, hashes[i as usize % BATCH].second(lines.len()));
        }
        for &i in late {
            let hash = hashes[i as usize % BATCH];
            let found = lines[hash.second(lines.len())].probe(&keys[i as usize]);
            let missing = lines[hash.first(lines.len())].overflow.missing(hash);
            out[i as usize] = if found == 0 { missing } else { found };
        }
    }
}

impl<const LIMBS: usize, const SLOTS: usize> MapCore for InlineMap<LIMBS, SLOTS> {
    /// In theory, insertion succeeds up to a load of 0.95 (0.9 for two keys in a line). Near that
    /// limit it becomes slow.
    const FILL: usize = if SLOTS >= 5 { 93 } else { 89 };

    fn with_lines(seed: Seed, lines: usize, _limbs: usize) -> Self {
        Self {
            seed,
            lines: Lines::new(lines),
        }
    }

    fn seed(&self) -> Seed {
        self.seed
    }

    fn line_count(&self) -> usize {
        self.lines.lines.len()
    }

    fn slots(&self) -> usize {
        self.lines.slots()
    }

    fn memory(&self) -> usize {
        self.lines.memory()
    }

    #[inline(always)]
    fn get(&self, key: &[u64]) -> u32 {
        let hash = key.first_chunk().map(|key| Self::hash(self.seed, key));
        hash.map_or(0, |hash| self.get_announced(key, hash))
    }

    #[inline(always)]
    fn get_announced(&self, key: &[u64], hash: Hash) -> u32 {
        let Some(key) = key.first_chunk::<LIMBS>() else {
            return 0;
        };
        let lines = &self.lines.lines[..];
        let line = &lines[hash.first(lines.len())];
        let found = line.probe(key);
        if found == 0 && line.overflow.may_have(hash) {
            return lines[hash.second(lines.len())].probe(key);
        }
        found
    }

    #[inline(always)]
    fn announce(&self, key: &[u64]) -> Hash {
        let hash = key.first_chunk().map(|key| Self::hash(self.seed, key));
        let (hash, lines) = (hash.unwrap_or_default(), &self.lines.lines[..]);
        prefetch(lines, hash.first(lines.len()));
        hash
    }

    fn get_batch(&self, keys: &[u64], out: &mut [u32]) {
        let (keys, _) = keys.as_chunks::<LIMBS>();
        for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            self.get_some(keys, out);
        }
    }

    fn replace(&mut self, key: &[u64], value: u32) -> Option<u32> {
        let key = key.first_chunk()?;
        let (line, slot) = self.place(key, Self::hash(self.seed, key))?;
        let line = &mut self.lines.lines[line];
        let old = line.value(slot) - 1;
        line.values[slot] = Word::new(value + 1);
        Some(old)
    }

    fn insert_new(&mut self, key: &[u64], value: u32) -> Result<(), NoRoom> {
        let key = key.first_chunk().expect("a key of the map's length");
        let seed = self.seed;
        let hash = Self::hash(seed, key);
        self.lines
            .insert(hash, *key, value, |key, _| Self::hash(seed, &key))
    }

    fn remove(&mut self, key: &[u64]) -> Option<u32> {
        let key = key.first_chunk()?;
        let hash = Self::hash(self.seed, key);
        let (line, slot) = self.place(key, hash)?;
        let value = self.lines.lines[line].value(slot) - 1;
        self.lines.remove(line, slot, hash);
        Some(value)
    }

    fn outdate(&self, key: &[u64]) {
        if let Some(key) = key.first_chunk() {
            let hash = Self::hash(self.seed, key);
            self.lines.outdate(self.place(key, hash), hash);
        }
    }

    fn rebuild(&mut self, seed: Seed, lines: usize) -> Result<(), NoRoom> {
        let mut rebuilt = Self::with_lines(seed, lines, LIMBS);
        for (key, value) in self.lines.iter() {
            rebuilt.insert_new(&key, value)?;
        }
        *self = rebuilt;
        Ok(())
    }
}
