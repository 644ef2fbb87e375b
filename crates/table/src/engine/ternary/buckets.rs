//! [`Buckets`]: hash table from masked keys to chains of records, with buckets of one cache line.
//!
//! A bucket holds several chains (`slot` in the code is the position in a bucket). For each it has
//! a tag of the hash and the first record of the chain. The key itself is in the record. A search
//! ends at the first bucket with a position that was never used.

use super::records::NONE;
use crate::prefetch::prefetch;
use std::hint::select_unpredictable;

/// Number of chains that a bucket holds.
const SLOTS: usize = 10;
/// Number of tags that are compared at once.
const LANES: usize = 4;
/// Tag of a position that was never used since the table was created.
const EMPTY: u16 = 0;
/// Tag of a position that is no longer used (tombstone).
const LEFT: u16 = 1;
/// Maximum load in percent.
const MAX_LOAD: usize = 75;
/// Load of a new table in percent.
const FIRST_LOAD: usize = 62;

/// Bucket. Tags are 16-bit lanes of words; the last two lanes have no position.
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

/// Sets the top bit of each lane that is 0. May also set it in lanes above the first such lane that
/// are 1.
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

    /// Returns the positions with this tag (bit `lane * 16 + word`), and true if the search ends in
    /// this bucket.
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

/// Iterator over chains, see [`Buckets::chains`].
pub(super) struct Chains<'t> {
    table: &'t Buckets,
    wanted: u64,
    at: usize,
    /// Remaining positions in this bucket, in the format of [`Bucket::look`].
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

/// Returns the first position in the format of [`Bucket::look`].
#[inline(always)]
fn slot_of(same: u64) -> usize {
    let bit = same.trailing_zeros() as usize;
    bit / 16 + bit % 16 * LANES
}

/// Hash table. Callers compute the hashes.
#[derive(Debug, Clone)]
pub(super) struct Buckets {
    buckets: Vec<Bucket>,
    /// Number of positions with a chain.
    used: usize,
    /// Number of positions that are not empty.
    taken: usize,
}

/// Position in the table.
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
    /// Creates a table with room for `chains` chains.
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

    /// Returns the bucket in which the search for a hash starts.
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

    /// Iterates over the chains that may have this hash: nearly always only the right one.
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

    /// Returns the first chain that may have this hash, or [`NONE`], and true if there are no
    /// others.
    #[inline(always)]
    pub(super) fn first_chain(&self, hash: u64) -> (u32, bool) {
        let bucket = &self.buckets[self.home(hash)];
        let (same, is_last) = bucket.look(u64::from(tag(hash)) * ONES);
        let slot = slot_of(same) % SLOTS;
        let head = select_unpredictable(same != 0, bucket.heads[slot], NONE);
        (head, is_last & (same & same.wrapping_sub(1) == 0))
    }

    /// Returns the position with this hash of the chain that `is_it` accepts.
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

    /// Returns true if the table must be enlarged before another chain is added.
    pub(super) fn is_full(&self) -> bool {
        (self.taken + 1) * 100 > self.buckets.len() * SLOTS * MAX_LOAD
    }

    /// Returns the number of chains.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Adds a chain. The table must have room, see [`is_full`](Self::is_full).
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

    /// Removes a chain.
    pub(super) fn take(&mut self, slot: Slot) {
        let bucket = &mut self.buckets[slot.bucket];
        // No search continues after a bucket with an empty position, so no tombstone is needed.
        let tag = if bucket.has_empty() { EMPTY } else { LEFT };
        self.taken -= usize::from(tag == EMPTY);
        bucket.set(slot.slot, tag, NONE);
        self.used -= 1;
    }

    /// Iterates over the first records of all chains.
    pub(super) fn heads(&self) -> impl Iterator<Item = u32> + '_ {
        self.buckets.iter().flat_map(|bucket| {
            let taken = (0..SLOTS).filter(|&slot| bucket.tag(slot) > LEFT);
            taken.map(|slot| bucket.heads[slot])
        })
    }
}

/// Ones in the lanes without a position.
const NO_SLOTS: [u64; 3] = [0, 0, 0xffff_ffff_0000_0000];
