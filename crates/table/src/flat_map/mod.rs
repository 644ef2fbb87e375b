//! [`FlatMap`]: a hash map from keys of one length to numbers, in flat memory, made for batches.
//!
//! Lookups hash all keys of a batch, ask for all cache lines, and only then compare, so they wait for
//! memory together. Most keys are found, or found missing, in one line (`lines`).

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

/// How many lookups wait for memory together.
pub(crate) const BATCH: usize = 64;

/// What the forms of the map have in common. Values are less than [`OUTDATED`], less 1, and what is found may have it beside.
trait MapCore: Sized {
    /// How full it may become, in hundredths.
    const FILL: usize;

    fn with_lines(seed: Seed, lines: usize, limbs: usize) -> Self;
    fn seed(&self) -> Seed;
    fn line_count(&self) -> usize;
    fn slots(&self) -> usize;
    fn memory(&self) -> usize;
    /// The value of a key, plus 1; 0 if it is not there.
    fn get(&self, key: &[u64]) -> u32;
    /// Asks the processor for the line that [`get`](Self::get) of this key reads first; the key's hash.
    fn announce(&self, key: &[u64]) -> Hash;
    /// [`get`](Self::get) of a key with this hash.
    fn get_announced(&self, key: &[u64], hash: Hash) -> u32;
    /// [`get`](Self::get) for keys that lie one after the other.
    fn get_batch(&self, keys: &[u64], out: &mut [u32]);
    /// Sets the value of a key that is there; gives the old one.
    fn replace(&mut self, key: &[u64], value: u32) -> Option<u32>;
    /// Puts a key in that is not there.
    fn insert_new(&mut self, key: &[u64], value: u32) -> Result<(), NoRoom>;
    fn remove(&mut self, key: &[u64]) -> Option<u32>;
    /// Has lookups say that what they find for the key is outdated, until it is put in or taken out.
    fn outdate(&self, key: &[u64]);
    /// Puts all keys into other lines under another seed; if that fails, all is as before.
    fn rebuild(&mut self, seed: Seed, lines: usize) -> Result<(), NoRoom>;
}

/// A hash map from keys of one length to numbers less than 2^31 - 1. Keys of more than two limbs
/// take memory up to the largest number.
#[derive(Debug, Clone)]
pub(crate) struct FlatMap {
    form: Form,
    len: usize,
}

/// How keys are stored, by their length.
#[derive(Debug, Clone)]
enum Form {
    One(InlineMap<1, 5>),
    Two(InlineMap<2, 3>),
    Many(TaggedMap),
}

/// `$body` for the form, whichever it is.
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
    /// An empty map for keys of `limbs` limbs.
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

    /// About how many bytes it takes.
    pub(crate) fn memory(&self) -> usize {
        in_form!(&self.form, map => map.memory())
    }

    /// The value of a key, plus 1; 0 if it is not there.
    #[inline]
    pub(crate) fn get(&self, key: &[u64]) -> u32 {
        in_form!(&self.form, map => map.get(key)) & !OUTDATED
    }

    /// Asks the processor for what [`get`](Self::get) of this key reads first; the key's hash.
    #[inline(always)]
    pub(crate) fn announce(&self, key: &[u64]) -> Hash {
        in_form!(&self.form, map => map.announce(key))
    }

    /// [`get`](Self::get) of a key with the hash that [`announce`](Self::announce) gave.
    #[inline(always)]
    pub(crate) fn get_announced(&self, key: &[u64], hash: Hash) -> u32 {
        in_form!(&self.form, map => map.get_announced(key, hash)) & !OUTDATED
    }

    /// [`get`](Self::get) for `out.len()` keys, which lie in `keys` one after the other. What is outdated has [`OUTDATED`] beside.
    #[inline]
    pub(crate) fn get_batch(&self, keys: &[u64], out: &mut [u32]) {
        in_form!(&self.form, map => map.get_batch(keys, out))
    }

    /// How code sees it that looks keys up by itself, if it can.
    pub(crate) fn index(&self) -> Option<HashIndex<'_>> {
        match &self.form {
            Form::One(map) => Some(map.index()),
            Form::Two(map) => Some(map.index()),
            Form::Many(_) => None,
        }
    }

    /// Sets the value of a key; gives the one that it had.
    pub(crate) fn insert(&mut self, key: &[u64], value: u32) -> Option<u32> {
        let old = in_form!(&mut self.form, map => insert(map, self.len, key, value));
        self.len += usize::from(old.is_none());
        old
    }

    /// Says to [`get_batch`](Self::get_batch) that what it finds for this key is outdated, until the key is put in or taken out. What there is stays.
    pub(crate) fn outdate(&self, key: &[u64]) {
        in_form!(&self.form, map => map.outdate(key));
    }

    /// Takes a key out; gives the value that it had.
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

/// After a search for room that failed: other places for all keys, if the map is not full; else more lines.
fn make_room<M: MapCore>(map: &mut M, len: usize) {
    let is_full = len * 4 > map.slots() * 3;
    if is_full || map.rebuild(map.seed().next(), map.line_count()).is_err() {
        grow(map);
    }
}

/// More lines: small maps double, large ones grow by half, so that they do not stand half empty.
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
