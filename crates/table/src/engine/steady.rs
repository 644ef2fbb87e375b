//! [`Steady`]: packets stay with one copy of a large structure while it changes.
//!
//! [`Versions`] hands packets its copies in turn. Two copies of an index of many megabytes do not fit in a cache where one does, and lookups
//! that change over with every update wait for memory: half of their rate was lost to that, and none to the updates themselves.
//!
//! So packets that saw a large copy go on with it: it is the *base*, of this and the next snapshots. For each change that it misses, the base itself
//! says where what it finds may be outdated; those few lookups, and no others, are made again in the newest copy. When the base misses many changes,
//! or when nothing changes for a while, the newest copy is the next base. That costs a third copy while packets are under way and entries change.
//!
//! A base only ever learns that it is outdated, in single bits that leave what it finds as it was: to whoever has it as a snapshot they mean
//! nothing, and a snapshot that sees the bit of a later change looks a key up in its own newest copy for nothing. A bit comes before the snapshot with its
//! change is published, which orders the two. A copy that makes the changes that it missed writes those bits away.

use super::{Improved, Matcher, Replay, Versions};
use crate::entry::EntryIdx;
use crate::flat_map::{BATCH, HashIndex};
use std::fmt;
use std::sync::Arc;

/// A structure of which packets can stay with an old copy.
pub(super) trait Base: Replay + Matcher + 'static {
    /// Lets this copy know of a change that it will miss: all keys that may find something else are outdated. False, and nothing is done, if that
    /// cannot be said of few.
    fn outdate(&self, change: &Self::Op) -> bool;

    /// [`Matcher::find_batch`], but [`ASK`] for keys that are outdated.
    fn find_or_ask(&self, keys: &[u64], out: &mut [Option<EntryIdx>]);

    /// About how many bytes all lookups together read.
    fn read_bytes(&self) -> usize;
}

/// The newest copy is to be asked. No entry has this place.
pub(super) const ASK: EntryIdx = EntryIdx::new(u32::MAX - 1);

/// Two copies of less stay in the cache beside one another.
const LARGE: usize = if cfg!(test) { 1 } else { 4 << 20 };

/// The most changes that a base misses, which it then makes at once; few enough that outdated keys stay rare.
const MOST_MISSED: usize = 8192;

/// [`Versions`], and the copy that packets stay with.
pub(super) struct Steady<T: Base> {
    versions: Versions<T>,
    /// Of the snapshots that there are.
    base: Option<Stay<T>>,
}

struct Stay<T> {
    copy: Arc<T>,
    /// How many changes it misses.
    missed: usize,
}

impl<T: Base> Stay<T> {
    /// If it is worth it to stay with this copy.
    fn of(copy: &Arc<T>) -> Option<Self> {
        (copy.read_bytes() >= LARGE).then(|| Self {
            copy: copy.clone(),
            missed: 0,
        })
    }

    /// Notes a change that it will miss; false if it is no base any more.
    fn miss(&mut self, change: &T::Op) -> bool {
        // This, and the copy among the versions.
        let is_held = Arc::strong_count(&self.copy) > 2;
        self.missed += 1;
        // A copy that misses more than this is not worth to be kept.
        let most = MOST_MISSED.min(self.copy.clone_cost());
        is_held && self.missed <= most && self.copy.outdate(change)
    }
}

impl<T: Base> Steady<T> {
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

    /// What packets search from now on.
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

    /// Nothing has changed for a while: the newest copy is the one to stay with.
    pub(super) fn improve(&mut self) -> Improved {
        match self.base.take_if(|base| base.missed > 0) {
            Some(_) => Improved::Done,
            None => Improved::NoMore,
        }
    }
}

impl<T: Base + fmt::Debug> fmt::Debug for Steady<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steady")
            .field("versions", &self.versions)
            .field("missed", &self.base.as_ref().map(|base| base.missed))
            .finish()
    }
}

/// A base, and the newest copy for the keys that are outdated there.
#[derive(Debug)]
struct Steadied<T> {
    base: Arc<T>,
    newest: Arc<T>,
}

/// Limbs of keys that are looked up again together.
const GATHERED: usize = 4 * BATCH;

impl<T: Base> Steadied<T> {
    /// Finds the keys of at most [`BATCH`] for which the base asks.
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

    /// The base is the one that is asked first, so what it reads is asked for. The hashes that it notes are of no use: keys that were announced are found
    /// as batches are, and these are hashed again.
    fn announce(&self, keys: &[u64], notes: &mut [u64]) {
        self.base.announce(keys, notes);
    }

    /// The base: of what is outdated there it says so.
    fn hashed(&self) -> Option<HashIndex<'_>> {
        self.base.hashed()
    }

    fn memory(&self) -> usize {
        Matcher::memory(&*self.base) + Matcher::memory(&*self.newest)
    }
}
