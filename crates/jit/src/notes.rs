//! The notes of a pass's scout: what packets ask of tables, answered for a whole burst at once.

use std::sync::atomic::AtomicU64;

use exec::State;
use table::prefetch::prefetch;
use table::{COUNTER_WORDS, EntryIdx, Lane, Lookup, USAGE_WORDS};

use crate::abi::BURST;
use crate::translate::ScoutSite;

/// Words that need not be asked for: they stay in the first-level cache.
const NEAR: usize = 1024;

/// None of so many packets asks; the notes are as long as these sites want them.
pub(crate) fn clear(sites: &[ScoutSite], notes: &mut Vec<u64>, packets: usize) {
    let words = sites.last().map_or(0, |site| site.first + site.words());
    if notes.len() < words {
        notes.resize(words, 0);
    }
    for site in sites {
        ScoutSite::clear(&mut notes[site.first..], packets);
    }
}

/// Answers the questions of these sites, and asks the processor for what the pass will read of the entries.
pub(crate) fn answer<'s>(
    sites: impl Iterator<Item = &'s ScoutSite>,
    notes: &mut [u64],
    state: &State,
    lane: Lane,
) {
    for site in sites {
        let (keys, found) = site.questions(&mut notes[site.first..][..site.words()]);
        let Some(table) = state.table(site.table).filter(|_| !found.is_empty()) else {
            continue;
        };
        let will_read = WillRead::of(&table.lookup, lane);
        let mut places: [Option<EntryIdx>; BURST] = [None; BURST];
        let places = &mut places[..found.len()];
        table.lookup.find_batch(keys, places);
        for (found, place) in found.iter_mut().zip(places) {
            *found = place.map_or(0, |idx| u64::from(idx.get()) + 1);
        }
        will_read.ask_for(found);
    }
}

/// What the pass will read of entries that were found, in tables that are too large to be near.
struct WillRead<'l> {
    records: &'l [u64],
    /// Limbs from one record to the next.
    stride: usize,
    counts: &'l [AtomicU64],
    usage: &'l [AtomicU64],
}

impl<'l> WillRead<'l> {
    fn of(lookup: &'l Lookup, lane: Lane) -> Self {
        let records = lookup.records();
        let usage = match lookup.notes_usage() {
            true => lookup.usage().lane(lane),
            false => &[],
        };
        Self {
            records: far(records.limbs()),
            stride: records.stride(),
            counts: far(lookup.counts().lane(lane)),
            usage: far(usage),
        }
    }

    /// Asks for all lines of the records of these numbers and of what is counted there.
    fn ask_for(&self, numbers: &[u64]) {
        let lines = (self.stride - 1).div_ceil(LINE);
        if !self.records.is_empty() {
            for number in numbers {
                let first = *number as usize * self.stride;
                for line in 0..lines {
                    prefetch(self.records, first + line * LINE);
                }
                prefetch(self.records, first + self.stride - 1);
            }
        }
        for (cells, words) in [(self.counts, COUNTER_WORDS), (self.usage, USAGE_WORDS)] {
            if cells.is_empty() {
                continue;
            }
            for number in numbers {
                prefetch(cells, *number as usize * words);
            }
        }
    }
}

/// Words of a cache line.
const LINE: usize = 8;

/// What is not in the first-level cache already.
fn far<T>(words: &[T]) -> &[T] {
    match words.len() > NEAR {
        true => words,
        false => &[],
    }
}
