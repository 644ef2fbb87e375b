//! [`StableCopy`]: keeps packets on one copy of a large structure while it changes.
//!
//! [`Versions`] gives packets its copies in turn. A cache that holds one index of several megabytes
//! may not hold two. Lookups that switch copies with every update then wait for memory: this cost
//! half of the lookup rate, while the updates themselves cost nothing.
//!
//! Packets that use a large copy therefore stay with it. It is the *base* of this and of the
//! following snapshots. For each change that the base misses, the positions in it of which the
//! result may be outdated are marked. Only lookups that find such a mark are repeated in the newest
//! copy. If the base misses many changes, or if nothing changes for a while, the newest copy
//! becomes the base. The cost is a third copy while packets are being processed and entries change.
//!
//! The base changes only by single mark bits, which leave its results as they were. A holder that
//! uses it as its own snapshot ignores them. A snapshot that sees the mark of a later change
//! repeats the lookup in its own newest copy, which is unnecessary but correct. A mark is set
//! before the snapshot with its change is published, which orders the two. When a copy applies the
//! changes that it missed, it clears the marks.

use super::{Improved, Matcher, Replay, Versions};
use crate::entry::EntryIdx;
use crate::flat_map::{BATCH, HashIndex};
use std::fmt;
use std::sync::Arc;

/// Structure of which packets can keep using an old copy.
pub(super) trait Base: Replay + Matcher + 'static {
    /// Marks all keys of which the result may differ because of a change that this copy will miss.
    /// Returns false, and does nothing, if these are not few.
    fn outdate(&self, change: &Self::Op) -> bool;

    /// Like [`Matcher::find_batch`], but returns [`ASK`] for keys that are outdated.
    fn find_or_ask(&self, keys: &[u64], out: &mut [Option<EntryIdx>]);

    /// Returns the approximate number of bytes that all lookups together read.
    fn read_bytes(&self) -> usize;
}

/// Result that requests a lookup in the newest copy. No entry has this index.
pub(super) const ASK: EntryIdx = EntryIdx::new(u32::MAX - 1);

/// Minimum size in bytes. Two copies of a smaller structure fit into the cache together.
const LARGE: usize = if cfg!(test) { 1 } else { 4 << 20 };

/// Maximum number of changes that a base misses, which it then applies at once. Small enough that
/// outdated keys stay rare.
const MAX_MISSED: usize = 8192;

/// Collection of copies ([`Versions`]) with the base, the copy that packets keep using.
pub(super) struct StableCopy<T: Base> {
    versions: Versions<T>,
    /// Base of the existing snapshots.
    base: Option<Stay<T>>,
}

struct Stay<T> {
    copy: Arc<T>,
    /// Number of changes that it misses.
    missed: usize,
}

impl<T: Base> Stay<T> {
    /// Creates a base from this copy if it is large enough.
    fn of(copy: &Arc<T>) -> Option<Self> {
        (copy.read_bytes() >= LARGE).then(|| Self {
            copy: copy.clone(),
            missed: 0,
        })
    }

    /// Records a change that the base misses. Returns false if it can no longer be the base.
    fn miss(&mut self, change: &T::Op) -> bool {
        // One reference is here, one in the versions.
        let is_held = Arc::strong_count(&self.copy) > 2;
        self.missed += 1;
        // Beyond this, cloning is cheaper than applying the missed changes.
        let most = MAX_MISSED.min(self.copy.clone_cost());
        is_held && self.missed <= most && self.copy.outdate(change)
    }
}

impl<T: Base> StableCopy<T> {
    pub(super) fn new(first: T) -> Self {
        Self {
            versions: Versions::new(first),
            base: None,
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.versions.memory(Matcher::memory)
    }

    pub(super) fn reset(&mut self, fresh: T) {
        self.base = None;
        self.versions.reset(fresh);
    }

    pub(super) fn change(&mut self, change: T::Op) {
        self.base.take_if(|base| !base.miss(&change));
        self.versions.change(change);
    }

    /// Returns the index that packets search from now on.
    pub(super) fn snapshot(&mut self) -> Arc<dyn Matcher> {
        let newest = self.versions.snapshot();
        match &self.base {
            Some(Stay { copy, missed: 1.. }) => Arc::new(Steadied {
                base: copy.clone(),
                newest,
            }),
            _ => {
                self.base = Stay::of(&newest);
                newest
            }
        }
    }

    /// Makes the newest copy the base. For use when nothing has changed for a while.
    pub(super) fn improve(&mut self) -> Improved {
        match self.base.take_if(|base| base.missed > 0) {
            Some(_) => Improved::Done,
            None => Improved::NoMore,
        }
    }
}

impl<T: Base + fmt::Debug> fmt::Debug for StableCopy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steady")
            .field("versions", &self.versions)
            .field("missed", &self.base.as_ref().map(|base| base.missed))
            .finish()
    }
}

/// Base, with the newest copy for keys that are outdated in it.
#[derive(Debug)]
struct Steadied<T> {
    base: Arc<T>,
    newest: Arc<T>,
}

/// Maximum number of limbs of keys that are looked up again together.
const GATHERED: usize = 4 * BATCH;

impl<T: Base> Steadied<T> {
    /// Looks up in the newest copy those of at most [`BATCH`] keys for which the base returned
    /// [`ASK`].
    fn find_asked(&self, keys: &[u64], limbs: usize, out: &mut [Option<EntryIdx>]) {
        let mut asked = [0; BATCH];
        let mut count = 0;
        for (i, out) in out.iter().enumerate() {
            asked[count % BATCH] = i as u8;
            count += usize::from(*out == Some(ASK));
        }
        let asked = &asked[..count];
        let key_of = |i: u8| &keys[i as usize * limbs..][..limbs];
        if limbs * BATCH > GATHERED {
            for &i in asked {
                out[i as usize] = self.newest.find(key_of(i));
            }
        } else if count > 0 {
            let mut gathered = [0; GATHERED];
            let gathered = &mut gathered[..count * limbs];
            for (&i, key) in asked.iter().zip(gathered.chunks_exact_mut(limbs)) {
                key.copy_from_slice(key_of(i));
            }
            let mut found = [None; BATCH];
            self.newest.find_batch(gathered, &mut found[..count]);
            for (&i, found) in asked.iter().zip(found) {
                out[i as usize] = found;
            }
        }
    }
}

impl<T: Base> Matcher for Steadied<T> {
    fn find(&self, key: &[u64]) -> Option<EntryIdx> {
        let mut found = [None];
        self.base.find_or_ask(key, &mut found);
        match found {
            [Some(ASK)] => self.newest.find(key),
            [found] => found,
        }
    }

    fn find_batch(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        let limbs = keys.len().checked_div(out.len()).unwrap_or(0);
        for (i, out) in out.chunks_mut(BATCH).enumerate() {
            let keys = &keys[i * BATCH * limbs..][..out.len() * limbs];
            self.base.find_or_ask(keys, out);
            self.find_asked(keys, limbs, out);
        }
    }

    /// Prefetches from the base, which is searched first. The hashes that it stores in `notes` are
    /// not used: announced keys are found by a batch lookup, which hashes them again.
    fn announce(&self, keys: &[u64], notes: &mut [u64]) {
        self.base.announce(keys, notes);
    }

    /// Returns the base, in which outdated positions are marked.
    fn hashed(&self) -> Option<HashIndex<'_>> {
        self.base.hashed()
    }

    fn memory(&self) -> usize {
        Matcher::memory(&*self.base) + Matcher::memory(&*self.newest)
    }
}
