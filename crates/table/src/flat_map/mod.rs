//! [`FlatMap`]: hash map from keys of equal length to numbers, in flat memory, optimized for
//! batches.
//!
//! A batch lookup hashes all keys, prefetches all cache lines, and only then compares. The memory
//! accesses of the batch thus overlap. Most keys are found, or found missing, in one cache line
//! (`lines`).

mod hash;
mod index;
mod inline;
mod lines;
mod tagged;

pub(crate) use hash::{Hash, Seed};
pub use index::HashIndex;
use inline::InlineMap;
use lines::NoRoom;
pub(crate) use lines::OUTDATED;
use tagged::TaggedMap;

/// Number of lookups of which the memory accesses overlap.
pub(crate) const BATCH: usize = 64;

/// Interface of the forms of the map. Values are less than `OUTDATED - 1`. The results of lookups
/// may have the flag [`OUTDATED`] set.
trait MapCore: Sized {
    /// Maximum load factor in percent.
    const FILL: usize;

    fn with_lines(seed: Seed, lines: usize, limbs: usize) -> Self;
    fn seed(&self) -> Seed;
    fn line_count(&self) -> usize;
    fn slots(&self) -> usize;
    fn memory(&self) -> usize;
    /// Returns the value of a key plus 1, or 0 if the key is missing.
    fn get(&self, key: &[u64]) -> u32;
    /// Prefetches the line that [`get`](Self::get) of this key reads first. Returns the key's hash.
    fn announce(&self, key: &[u64]) -> Hash;
    /// Like [`get`](Self::get), for a key with this hash.
    fn get_announced(&self, key: &[u64], hash: Hash) -> u32;
    /// Like [`get`](Self::get), for consecutive keys.
    fn get_batch(&self, keys: &[u64], out: &mut [u32]);
    /// Sets the value of a key that is present and returns the old one. Returns `None` if the key
    /// is missing.
    fn replace(&mut self, key: &[u64], value: u32) -> Option<u32>;
    /// Inserts a key that is not present.
    fn insert_new(&mut self, key: &[u64], value: u32) -> Result<(), NoRoom>;
    fn remove(&mut self, key: &[u64]) -> Option<u32>;
    /// Marks lookup results for the key as outdated, until it is inserted or removed.
    fn outdate(&self, key: &[u64]);
    /// Rebuilds the map with another seed and number of lines. On failure, the map is unchanged.
    fn rebuild(&mut self, seed: Seed, lines: usize) -> Result<(), NoRoom>;
}

/// Hash map from keys of equal length to numbers less than 2^31 - 1. If keys have more than two
/// limbs, memory is in proportion to the largest number, because numbers index the key storage.
#[derive(Debug, Clone)]
pub(crate) struct FlatMap {
    form: Form,
    len: usize,
}

/// Storage form of the keys, which depends on their length.
#[derive(Debug, Clone)]
enum Form {
    One(InlineMap<1, 5>),
    Two(InlineMap<2, 3>),
    Many(TaggedMap),
}

/// Evaluates `$body` with the map of the current form.
macro_rules! in_form {
    ($form:expr, $map:ident => $body:expr) => {
        match $form {
            Form::One($map) => $body,
            Form::Two($map) => $body,
            Form::Many($map) => $body,
        }
    };
}

impl FlatMap {
    /// Creates an empty map for keys of `limbs` limbs.
    pub(crate) fn new(limbs: usize) -> Self {
        let seed = Seed::random();
        let form = match limbs {
            0 | 1 => Form::One(InlineMap::with_lines(seed, 1, 1)),
            2 => Form::Two(InlineMap::with_lines(seed, 1, 2)),
            _ => Form::Many(TaggedMap::with_lines(seed, 1, limbs)),
        };
        Self { form, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the approximate size in bytes.
    pub(crate) fn memory(&self) -> usize {
        in_form!(&self.form, map => map.memory())
    }

    /// Returns the value of a key plus 1, or 0 if the key is missing.
    #[inline]
    pub(crate) fn get(&self, key: &[u64]) -> u32 {
        in_form!(&self.form, map => map.get(key)) & !OUTDATED
    }

    /// Prefetches the line that [`get`](Self::get) of this key reads first. Returns the key's hash.
    #[inline(always)]
    pub(crate) fn announce(&self, key: &[u64]) -> Hash {
        in_form!(&self.form, map => map.announce(key))
    }

    /// Like [`get`](Self::get), for a key with the hash that [`announce`](Self::announce) returned.
    #[inline(always)]
    pub(crate) fn get_announced(&self, key: &[u64], hash: Hash) -> u32 {
        in_form!(&self.form, map => map.get_announced(key, hash)) & !OUTDATED
    }

    /// Like [`get`](Self::get), for `out.len()` keys, which are consecutive in `keys`. Outdated
    /// results have the flag [`OUTDATED`] set.
    #[inline]
    pub(crate) fn get_batch(&self, keys: &[u64], out: &mut [u32]) {
        in_form!(&self.form, map => map.get_batch(keys, out))
    }

    /// Returns the map in the form that compiled code can search inline, if it has that form.
    pub(crate) fn index(&self) -> Option<HashIndex<'_>> {
        match &self.form {
            Form::One(map) => Some(map.index()),
            Form::Two(map) => Some(map.index()),
            Form::Many(_) => None,
        }
    }

    /// Sets the value of a key and returns its previous value.
    pub(crate) fn insert(&mut self, key: &[u64], value: u32) -> Option<u32> {
        let old = in_form!(&mut self.form, map => insert(map, self.len, key, value));
        self.len += usize::from(old.is_none());
        old
    }

    /// Marks the results of [`get_batch`](Self::get_batch) for this key as outdated, until the key
    /// is inserted or removed. The stored value stays.
    pub(crate) fn outdate(&self, key: &[u64]) {
        in_form!(&self.form, map => map.outdate(key));
    }

    /// Removes a key and returns its value.
    pub(crate) fn remove(&mut self, key: &[u64]) -> Option<u32> {
        let old = in_form!(&mut self.form, map => map.remove(key));
        self.len -= usize::from(old.is_some());
        old
    }
}

fn insert<M: MapCore>(map: &mut M, len: usize, key: &[u64], value: u32) -> Option<u32> {
    let old = map.replace(key, value);
    if old.is_some() {
        return old;
    }
    if (len + 1) * 100 > map.slots() * M::FILL {
        grow(map);
    }
    while map.insert_new(key, value).is_err() {
        make_room(map, len);
    }
    None
}

/// Makes room after a failed insertion: rehashes all keys with a new seed if the map is not full,
/// otherwise grows it.
fn make_room<M: MapCore>(map: &mut M, len: usize) {
    let is_full = len * 4 > map.slots() * 3;
    if is_full || map.rebuild(map.seed().next(), map.line_count()).is_err() {
        grow(map);
    }
}

/// Increases the number of lines. Small maps double. Large maps grow by half, so that less memory
/// is unused.
fn grow<M: MapCore>(map: &mut M) {
    let lines = map.line_count();
    let mut more = if lines < 1024 {
        lines * 2
    } else {
        lines + lines / 2
    };
    let mut seed = map.seed();
    while map.rebuild(seed, more).is_err() {
        seed = seed.next();
        more += more / 8 + 1;
    }
}

#[cfg(test)]
mod tests;
