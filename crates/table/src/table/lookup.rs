//! [`Lookup`]: the snapshot of a table that packets read.

use super::{DefaultEntry, row_of, total};
use crate::counter::CounterKind;
use crate::engine::{DirectIndex, Matcher, TrieIndex, VectorIndex};
use crate::entry::{Entry, EntryAction, EntryActionRef, EntryId, EntryIdx};
use crate::flat_map::HashIndex;
use crate::meter::MeterCell;
use crate::packed_entries::{PackedEntries, PackedEntry};
use crate::prefetch::{prefetch_value, tell_lines_of};
use crate::records::{RecordLayout, Records};
use crate::tally::{Cells, CounterShard, add};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Snapshot of a table. Immutable, except for the cells of its entries.
#[derive(Debug)]
pub struct Lookup {
    pub(super) matcher: Arc<dyn Matcher>,
    pub(super) entries: Arc<PackedEntries>,
    pub(super) default: Arc<DefaultEntry>,
    pub(super) records: Arc<Records>,
    pub(super) layout: Arc<RecordLayout>,
    pub(super) usage: Arc<Cells>,
    pub(super) counts: Arc<Cells>,
    pub(super) totals: Arc<Cells>,
    pub(super) notes_usage: bool,
    pub(super) counter: Option<CounterKind>,
}

impl Lookup {
    /// Prefetches memory that every lookup reads, whatever its key.
    #[inline]
    pub fn ask_for(&self) {
        prefetch_value(&*self.matcher);
    }

    /// Reports memory that (nearly) every lookup reads, whatever its key: one address for each
    /// cache line of it.
    pub fn tell_common(&self, tell: &mut dyn FnMut(usize)) {
        tell_lines_of(self, tell);
        self.matcher.tell_common(tell);
    }

    /// Prefetches what lookups of `notes.len()` keys read first. The keys are consecutive in
    /// `keys`. Stores intermediate results in `notes`, so that
    /// [`find_announced`](Self::find_announced) need not compute them again. For callers that have
    /// other work to do between the two calls.
    #[inline]
    pub fn announce(&self, keys: &[u64], notes: &mut [u64]) {
        self.matcher.announce(keys, notes);
    }

    /// Like [`find`](Self::find), for keys that were [announced](Self::announce) to this same
    /// snapshot. `notes` holds the results of that call. Each is replaced by the index of the entry
    /// found plus 1, or by 0.
    #[inline]
    pub fn find_announced(&self, keys: &[u64], notes: &mut [u64]) {
        self.matcher.find_announced(keys, notes);
    }

    /// Returns the entry that `key` hits. `key` has the limbs of each field in the order of the
    /// [`KeyShape`], canonical. Counts nothing; see [`record`](Self::record).
    #[inline]
    pub fn find(&self, key: &[u64]) -> Option<EntryIdx> {
        self.matcher.find(key)
    }

    /// Like [`find`](Self::find), for `out.len()` keys of equal length, which are consecutive in
    /// `keys`. Batches of 32 to 64 keys hide memory latency best.
    #[inline]
    pub fn find_batch(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        self.matcher.find_batch(keys, out);
    }

    /// Returns the index of this snapshot if it is a direct index, which compiled code can search
    /// inline.
    pub fn direct(&self) -> Option<DirectIndex<'_>> {
        self.matcher.direct()
    }

    /// Returns the index of this snapshot if it is a hash table that compiled code can search
    /// inline.
    pub fn hashed(&self) -> Option<HashIndex<'_>> {
        self.matcher.hashed()
    }

    /// Returns the index of this snapshot if it is a bit-vector index, for few rules, that compiled
    /// code can search inline.
    pub fn vectors(&self) -> Option<VectorIndex<'_>> {
        self.matcher.vectors()
    }

    /// Returns the index of this snapshot if it is a trie that compiled code can search inline.
    pub fn trie(&self) -> Option<TrieIndex<'_>> {
        self.matcher.trie()
    }

    /// Returns the entry at `idx`, which must come from [`find`](Self::find) on this same snapshot.
    /// Panics if there is no such entry.
    pub fn entry(&self, idx: EntryIdx) -> Entry {
        self.at(idx).to_entry()
    }

    /// Returns the id of the entry at `idx`, as [`entry`](Self::entry) does.
    #[inline]
    pub fn entry_id(&self, idx: EntryIdx) -> EntryId {
        self.at(idx).id()
    }

    /// Returns the action of the entry at `idx`, as [`entry`](Self::entry) does, or the default
    /// action for `None`.
    #[inline]
    pub fn action(&self, found: Option<EntryIdx>) -> EntryActionRef<'_> {
        match found {
            None => (&self.default.action).into(),
            Some(idx) => self.at(idx).action(),
        }
    }

    #[inline]
    fn at(&self, idx: EntryIdx) -> PackedEntry<'_> {
        let entry = self.entries.get(idx);
        entry.expect("the index is of this snapshot")
    }

    /// Iterates over all entries with their indices, in order of index.
    pub fn iter(&self) -> impl Iterator<Item = (EntryIdx, Entry)> {
        let entries = self.entries.iter();
        entries.map(|(idx, entry)| (idx, entry.to_entry()))
    }

    /// Returns the default action.
    #[inline]
    pub fn default_action(&self) -> &EntryAction {
        &self.default.action
    }

    /// Returns the direct meter of the entry found, or of the default action for `None`.
    #[inline]
    pub fn meter(&self, found: Option<EntryIdx>) -> Option<&MeterCell> {
        match found {
            None => self.default.meter.as_deref(),
            Some(idx) => self.at(idx).meter(),
        }
    }

    /// Records a packet of `bytes` bytes that arrived at `now_ns` and hit the entry `found`, or
    /// missed for `None`.
    #[inline]
    pub fn record(&self, found: Option<EntryIdx>, lane: CounterShard, bytes: u64, now_ns: u64) {
        self.record_total(found.is_some(), lane);
        if !self.notes_usage {
            return;
        }
        if let [hits, sum, last, ..] = self.usage.row(lane, row_of(found)) {
            add(hits, 1);
            add(sum, bytes);
            if last.load(Relaxed) < now_ns {
                last.store(now_ns, Relaxed);
            }
        }
    }

    /// Counts a hit or a miss in the totals of the table.
    #[inline]
    pub fn record_total(&self, is_hit: bool, lane: CounterShard) {
        let word = if is_hit { total::HITS } else { total::MISSES };
        if let Some(cell) = self.totals.row(lane, 0).get(word) {
            add(cell, 1);
        }
    }

    /// Returns true if packets write usage rows.
    #[inline]
    pub fn notes_usage(&self) -> bool {
        self.notes_usage
    }

    /// Returns the cells of the totals: one row of two words, hits and misses.
    #[inline]
    pub fn totals(&self) -> &Cells {
        &self.totals
    }

    /// Counts a packet of `bytes` bytes in the direct counter of the entry found, or of the default
    /// action for `None`. Does nothing if the table has no direct counters.
    #[inline]
    pub fn count(&self, found: Option<EntryIdx>, lane: CounterShard, bytes: u64) {
        if let Some(kind) = self.counter {
            kind.amounts(bytes)
                .add_to(self.counts.row(lane, row_of(found)));
        }
    }

    /// Returns the action records of all entries.
    #[inline]
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Returns the layout of the action records.
    pub fn record_layout(&self) -> &RecordLayout {
        &self.layout
    }

    /// Returns the cells of the usage rows, of [`USAGE_WORDS`] words each: packets, bytes, and time
    /// of the last packet. Row 0 is for the default action, row `idx + 1` for the entry. Empty
    /// while packets write no usage rows.
    #[inline]
    pub fn usage(&self) -> &Cells {
        &self.usage
    }

    /// Returns the cells of the direct counters, with the same rows, of [`COUNTER_WORDS`] words
    /// each: packets and bytes. Empty in a table without direct counters.
    #[inline]
    pub fn counts(&self) -> &Cells {
        &self.counts
    }
}
