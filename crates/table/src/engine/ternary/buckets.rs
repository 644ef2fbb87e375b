//! [`Buckets`]: a hash table from masked keys to chains of records, a cache line a bucket.
//!
//! A slot is a tag of the hash and the first record of a chain; the key itself is in the record. A search
//! ends at the first bucket that has a slot never used.

use super::records::NONE;
use crate::prefetch::prefetch;
use std::hint::select_unpredictable;

/// Slots of a bucket.
const SLOTS: usize = 10;
/// Tags that are compared at a time.
const LANES: usize = 4;
/// The tag of a slot never used since the table was made.
const EMPTY: u16 = 0;
/// The tag of a slot not used any more.
const LEFT: u16 = 1;
/// Slots in a hundred that are taken at most.
const MAX_LOAD: usize = 75;
/// And in a table that was just made.
const FIRST_LOAD: usize = 62;

/// Tags in lanes of words, the last two without a slot.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    tags: [u64; SLOTS.div_ceil(LANES)],
    heads: [u32; SLOTS],
}

const FREE: Bucket = Bucket {
    tags: [0; SLOTS.div_ceil(LANES)],
    heads: [NONE; SLOTS],
};

const ONES: u64 = 0x0001_0001_0001_0001;
const TOPS: u64 = ONES << 15;

/// The top bit of each lane that is 0, and of some above it that are 1.
#[inline(always)]
fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & TOPS
}

impl Bucket {
    fn tag(&self, slot: usize) -> u16 {
        (self.tags[slot / LANES] >> (slot % LANES * 16)) as u16
    }

    fn set(&mut self, slot: usize, tag: u16, head: u32) {
        let shift = slot % LANES * 16;
        let word = &mut self.tags[slot / LANES];
        *word = *word & !(0xffff << shift) | u64::from(tag) << shift;
        self.heads[slot] = head;
    }

    /// The slots with this tag, in a word: bit `lane * 16 + word`; and whether the search ends here.
    #[inline(always)]
    fn look(&self, wanted: u64) -> (u64, bool) {
        let (mut same, mut empty) = (0, 0);
        for (word, &tags) in self.tags.iter().enumerate() {
            same |= zeros(tags ^ wanted) >> 15 << word;
            empty |= zeros(tags | NO_SLOTS[word]);
        }
        (same, empty != 0)
    }

    fn has_empty(&self) -> bool {
        (0..SLOTS).any(|slot| self.tag(slot) == EMPTY)
    }
}

/// See [`Buckets::chains`].
pub(super) struct Chains<'t> {
    table: &'t Buckets,
    wanted: u64,
    at: usize,
    /// The slots of this bucket that are left, as [`Bucket::look`] gives them.
    same: u64,
    is_last: bool,
}

impl Iterator for Chains<'_> {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        while self.same == 0 {
            if self.is_last {
                return None;
            }
            self.at = self.table.behind(self.at);
            (self.same, self.is_last) = self.table.buckets[self.at].look(self.wanted);
        }
        let slot = slot_of(self.same);
        self.same &= self.same - 1;
        Some(self.table.buckets[self.at].heads[slot % SLOTS])
    }
}

/// The first slot of a word that [`Bucket::look`] gives.
#[inline(always)]
fn slot_of(same: u64) -> usize {
    let bit = same.trailing_zeros() as usize;
    bit / 16 + bit % 16 * LANES
}

/// A hash table. Hashes come from outside.
#[derive(Debug, Clone)]
pub(super) struct Buckets {
    buckets: Vec<Bucket>,
    /// Slots with a chain.
    used: usize,
    /// Slots that are not empty.
    taken: usize,
}

/// A slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    bucket: usize,
    slot: usize,
}

#[inline(always)]
fn tag(hash: u64) -> u16 {
    hash as u16 | 2
}

impl Buckets {
    /// With room for so many chains.
    pub(super) fn with_room(chains: usize) -> Self {
        let buckets = (chains * 100).div_ceil(SLOTS * FIRST_LOAD).max(1);
        Self {
            buckets: vec![FREE; buckets],
            used: 0,
            taken: 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }

    /// The bucket where the search for a hash begins.
    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.buckets.len() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn behind(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() {
            0
        } else {
            bucket + 1
        }
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch(&self.buckets, self.home(hash));
    }

    /// The chains that may be of this hash: nearly always only the right one.
    #[inline(always)]
    pub(super) fn chains(&self, hash: u64) -> Chains<'_> {
        let at = self.home(hash);
        let wanted = u64::from(tag(hash)) * ONES;
        let (same, is_last) = self.buckets[at].look(wanted);
        Chains {
            table: self,
            wanted,
            at,
            same,
            is_last,
        }
    }

    /// The first chain that may be of this hash, or [`NONE`], and whether there are no others.
    #[inline(always)]
    pub(super) fn first_chain(&self, hash: u64) -> (u32, bool) {
        let bucket = &self.buckets[self.home(hash)];
        let (same, is_last) = bucket.look(u64::from(tag(hash)) * ONES);
        let slot = slot_of(same) % SLOTS;
        let head = select_unpredictable(same != 0, bucket.heads[slot], NONE);
        (head, is_last & (same & same.wrapping_sub(1) == 0))
    }

    /// The slot of this hash whose chain is the one meant.
    pub(super) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<Slot> {
        let tag = tag(hash);
        let mut at = self.home(hash);
        loop {
            let bucket = &self.buckets[at];
            let slot =
                (0..SLOTS).find(|&slot| bucket.tag(slot) == tag && is_it(bucket.heads[slot]));
            if let Some(slot) = slot {
                return Some(Slot { bucket: at, slot });
            }
            if bucket.has_empty() {
                return None;
            }
            at = self.behind(at);
        }
    }

    pub(super) fn head(&self, slot: Slot) -> u32 {
        self.buckets[slot.bucket].heads[slot.slot]
    }

    pub(super) fn set_head(&mut self, slot: Slot, head: u32) {
        self.buckets[slot.bucket].heads[slot.slot] = head;
    }

    /// Whether another chain needs more room first.
    pub(super) fn is_full(&self) -> bool {
        (self.taken + 1) * 100 > self.buckets.len() * SLOTS * MAX_LOAD
    }

    /// How many chains there are.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Adds a chain. There is room, see [`is_full`](Self::is_full).
    pub(super) fn add(&mut self, hash: u64, head: u32) {
        let mut at = self.home(hash);
        loop {
            let bucket = &mut self.buckets[at];
            let slot = (0..SLOTS).find(|&slot| bucket.tag(slot) <= LEFT);
            if let Some(slot) = slot {
                self.taken += usize::from(bucket.tag(slot) == EMPTY);
                self.used += 1;
                bucket.set(slot, tag(hash), head);
                return;
            }
            at = self.behind(at);
        }
    }

    /// Takes a chain out.
    pub(super) fn take(&mut self, slot: Slot) {
        let bucket = &mut self.buckets[slot.bucket];
        // No search goes on behind a bucket with an empty slot.
        let tag = if bucket.has_empty() { EMPTY } else { LEFT };
        self.taken -= usize::from(tag == EMPTY);
        bucket.set(slot.slot, tag, NONE);
        self.used -= 1;
    }

    /// The first records of all chains.
    pub(super) fn heads(&self) -> impl Iterator<Item = u32> + '_ {
        self.buckets.iter().flat_map(|bucket| {
            let taken = (0..SLOTS).filter(|&slot| bucket.tag(slot) > LEFT);
            taken.map(|slot| bucket.heads[slot])
        })
    }
}

/// Ones in the lanes without a slot.
const NO_SLOTS: [u64; 3] = [0, 0, 0xffff_ffff_0000_0000];
