//! Hash map for keys of more than two limbs. Lines hold tags of the keys. The keys are in a
//! separate array, indexed by value.

use super::hash::{Hash, Seed};
use super::lines::{Line, Lines, NoRoom, Overflow};
use super::{BATCH, MapCore};
use crate::prefetch::prefetch;
use crate::word::Word;

const SLOTS: usize = 10;

/// Cache line of ten tags and values.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct TagLine {
    /// Values plus 1; 0 for a free position.
    values: [Word; SLOTS],
    tags: [u16; SLOTS],
    overflow: Overflow,
}

const _: () = assert!(size_of::<TagLine>() == 64);

impl Line for TagLine {
    type Mark = u16;
    const SLOTS: usize = SLOTS;

    fn empty() -> Self {
        Self {
            values: std::array::from_fn(|_| Word::default()),
            tags: [0; SLOTS],
            overflow: Overflow::default(),
        }
    }

    #[inline(always)]
    fn word(&self, slot: usize) -> &Word {
        &self.values[slot]
    }

    fn mark(&self, slot: usize) -> u16 {
        self.tags[slot]
    }

    fn set(&mut self, slot: usize, mark: u16, value: u32) {
        self.tags[slot] = mark;
        self.values[slot] = Word::new(value);
    }

    fn overflow(&self) -> &Overflow {
        &self.overflow
    }

    fn overflow_mut(&mut self) -> &mut Overflow {
        &mut self.overflow
    }
}

impl TagLine {
    /// Returns the positions that are in use and have this tag: bit `i` is for position `i`.
    #[inline(always)]
    fn with_tag(&self, tag: u16) -> u32 {
        let mut slots = 0;
        for slot in 0..SLOTS {
            // Read both unconditionally, because a branch on them would be unpredictable.
            let is_it = (self.tags[slot] == tag) & (self.value(slot) != 0);
            slots |= u32::from(is_it) << slot;
        }
        slots
    }
}

/// Map with a separate array of keys. Values should be dense, because that array is as long as the
/// largest value.
#[derive(Debug, Clone)]
pub(crate) struct TaggedMap {
    seed: Seed,
    lines: Lines<TagLine>,
    keys: Keys,
}

/// Keys by value, contiguous.
#[derive(Debug, Clone)]
struct Keys {
    limbs: usize,
    store: AlignedLimbs,
}

impl Keys {
    #[inline(always)]
    fn get(&self, value: u32) -> &[u64] {
        let start = value as usize * self.limbs;
        &self.store.as_slice()[start..start + self.limbs]
    }

    fn set(&mut self, value: u32, key: &[u64]) {
        let start = value as usize * self.limbs;
        self.store.reach(start + self.limbs);
        self.store.as_mut_slice()[start..start + self.limbs].copy_from_slice(key);
    }

    /// Prefetches the first and the last cache line of a key.
    #[inline(always)]
    fn prefetch(&self, value: u32) {
        let start = value as usize * self.limbs;
        prefetch(self.store.as_slice(), start);
        prefetch(self.store.as_slice(), start + self.limbs - 1);
    }

    fn memory(&self) -> usize {
        size_of_val(self.store.as_slice())
    }
}

impl TaggedMap {
    /// Returns the position that has the key, among those that have its tag.
    #[inline(always)]
    fn slot_of(&self, line: &TagLine, tag: u16, key: &[u64]) -> Option<usize> {
        let mut slots = line.with_tag(tag);
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            if self.keys.get(line.value(slot) - 1) == key {
                return Some(slot);
            }
            slots &= slots - 1;
        }
        None
    }

    /// Returns the line and position of a key.
    #[inline(always)]
    fn place(&self, key: &[u64], hash: Hash) -> Option<(usize, usize)> {
        let lines = &self.lines.lines[..];
        let first = hash.first(lines.len());
        if let Some(slot) = self.slot_of(&lines[first], hash.tag(), key) {
            return Some((first, slot));
        }
        if !lines[first].overflow.may_have(hash) {
            return None;
        }
        let second = hash.second(lines.len());
        Some((second, self.slot_of(&lines[second], hash.tag(), key)?))
    }

    /// Returns the value of a key plus 1, or 0 if the key is missing, possibly with the flag
    /// [`OUTDATED`](super::OUTDATED).
    #[inline(always)]
    fn get_hashed(&self, key: &[u64], hash: Hash) -> u32 {
        let lines = &self.lines.lines[..];
        match self.place(key, hash) {
            Some((line, slot)) => lines[line].word(slot).get(),
            None => lines[hash.first(lines.len())].overflow.missing(hash),
        }
    }

    /// Looks up at most [`BATCH`] keys at once.
    fn get_some(&self, keys: &[u64], out: &mut [u32]) {
        let lines = &self.lines.lines[..];
        let limbs = self.keys.limbs;
        let keys = || keys.chunks_exact(limbs);
        let mut hashes = [Hash::default(); BATCH];
        for (key, hash) in keys().zip(&mut hashes) {
            *hash = self.seed.hash(key);
            prefetch(lines, hash.first(lines.len()));
        }
        for (_, hash) in keys().zip(hashes) {
            let line = &lines[hash.first(lines.len())];
            match line.with_tag(hash.tag()) {
                0 => prefetch(lines, hash.second(lines.len())),
                slots => {
                    let slot = slots.trailing_zeros() as usize;
                    self.keys.prefetch(line.value(slot) - 1);
                }
            }
        }
        for ((key, hash), found) in keys().zip(hashes).zip(out) {
            *found = self.get_hashed(key, hash);
        }
    }

    /// Calls [`Lines::insert`] for a key that is already in `keys`.
    fn put(&mut self, value: u32) -> Result<(), NoRoom> {
        let (seed, keys) = (self.seed, &self.keys);
        let hash = seed.hash(keys.get(value));
        let hash_of = |_, value| seed.hash(keys.get(value));
        self.lines.insert(hash, hash.tag(), value, hash_of)
    }
}

impl MapCore for TaggedMap {
    const FILL: usize = 93;

    fn with_lines(seed: Seed, lines: usize, limbs: usize) -> Self {
        Self {
            seed,
            lines: Lines::new(lines),
            keys: Keys {
                limbs,
                store: AlignedLimbs::default(),
            },
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
        self.lines.memory() + self.keys.memory()
    }

    #[inline]
    fn get(&self, key: &[u64]) -> u32 {
        self.get_hashed(key, self.seed.hash(key))
    }

    fn announce(&self, key: &[u64]) -> Hash {
        let (hash, lines) = (self.seed.hash(key), &self.lines.lines[..]);
        prefetch(lines, hash.first(lines.len()));
        hash
    }

    fn get_announced(&self, key: &[u64], hash: Hash) -> u32 {
        self.get_hashed(key, hash)
    }

    fn get_batch(&self, keys: &[u64], out: &mut [u32]) {
        let limbs = self.keys.limbs;
        for (keys, out) in keys.chunks(BATCH * limbs).zip(out.chunks_mut(BATCH)) {
            self.get_some(keys, out);
        }
    }

    fn replace(&mut self, key: &[u64], value: u32) -> Option<u32> {
        let (line, slot) = self.place(key, self.seed.hash(key))?;
        self.keys.set(value, key);
        let line = &mut self.lines.lines[line];
        let old = line.value(slot) - 1;
        line.values[slot] = Word::new(value + 1);
        Some(old)
    }

    fn insert_new(&mut self, key: &[u64], value: u32) -> Result<(), NoRoom> {
        self.keys.set(value, key);
        self.put(value)
    }

    fn remove(&mut self, key: &[u64]) -> Option<u32> {
        let hash = self.seed.hash(key);
        let (line, slot) = self.place(key, hash)?;
        let value = self.lines.lines[line].value(slot) - 1;
        self.lines.remove(line, slot, hash);
        Some(value)
    }

    fn outdate(&self, key: &[u64]) {
        let hash = self.seed.hash(key);
        self.lines.outdate(self.place(key, hash), hash);
    }

    fn rebuild(&mut self, seed: Seed, lines: usize) -> Result<(), NoRoom> {
        let old_seed = std::mem::replace(&mut self.seed, seed);
        let old = std::mem::replace(&mut self.lines, Lines::new(lines));
        let rebuilt = old.iter().try_for_each(|(_, value)| self.put(value));
        if rebuilt.is_err() {
            (self.seed, self.lines) = (old_seed, old);
        }
        rebuilt
    }
}

/// Array of limbs that starts at a cache line boundary, so that aligned groups of eight limbs are
/// in one line.
#[derive(Debug, Default)]
struct AlignedLimbs {
    limbs: Vec<u64>,
    /// Index in `limbs` of the first limb.
    start: usize,
}

/// Size of a cache line in bytes.
const LINE: usize = 64;

impl AlignedLimbs {
    #[inline(always)]
    fn as_slice(&self) -> &[u64] {
        &self.limbs[self.start..]
    }

    fn as_mut_slice(&mut self) -> &mut [u64] {
        &mut self.limbs[self.start..]
    }

    /// Returns a copy extended with zeros to `len` limbs.
    fn grown(&self, len: usize) -> Self {
        let mut limbs: Vec<u64> = Vec::with_capacity(len + LINE / 8);
        let start = limbs.as_ptr().align_offset(LINE).min(LINE / 8);
        limbs.resize(start, 0);
        limbs.extend_from_slice(self.as_slice());
        limbs.resize(start + len, 0);
        Self { limbs, start }
    }

    /// Grows to at least `len` limbs.
    fn reach(&mut self, len: usize) {
        let now = self.as_slice().len();
        if len > now {
            *self = self.grown(len.max(now + now / 2));
        }
    }
}

impl Clone for AlignedLimbs {
    fn clone(&self) -> Self {
        self.grown(self.as_slice().len())
    }
}
