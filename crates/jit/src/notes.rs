//! The notes of a pass's scout: what packets ask of tables, answered for a whole burst at once.

use std::ops::Range;

use exec::{BURST, Lot, State};
use table::prefetch::prefetch_at;
use table::{COUNTER_WORDS, EntryIdx, USAGE_WORDS};

use crate::translate::ScoutSite;
use crate::view::{self, Entries};

/// Up to so many keys are looked up one by one: what they read is on its way when there are others beside them.
const FEW: usize = 8;

/// None of so many packets asks; the notes are as long as these sites want them.
pub(crate) fn clear(sites: &[ScoutSite], notes: &mut Vec<u64>, packets: usize) {
    let words = sites.last().map_or(0, |site| site.first + site.words());
    if notes.len() < words {
        notes.resize(words, 0);
    }
    for site in sites {
        site.clear(notes, packets);
    }
}

/// Asks the processor for what the answers to these packets' questions will read first.
pub(crate) fn announce(site: &ScoutSite, notes: &mut [u64], packets: Range<usize>, state: &State) {
    let (keys, found) = site.questions(notes, packets);
    if let Some(table) = state.table(site.table)
        && !found.is_empty()
    {
        table.lookup.announce(keys, found.len());
    }
}

/// Answers these packets' questions, and asks the processor for what the pass will read of the entries. Where there are many lots, what they read is never
/// near.
pub(crate) fn answer(
    site: &ScoutSite,
    notes: &mut [u64],
    packets: Range<usize>,
    lot: &Lot<'_>,
    are_many: bool,
) {
    let (keys, found) = site.questions(notes, packets);
    let Some(table) = lot.state.table(site.table).filter(|_| !found.is_empty()) else {
        return;
    };
    let Some(entries) = view::entries(lot.derived, site.table, are_many) else {
        return;
    };
    if are_many && found.len() <= FEW && site.limbs > 0 {
        for (key, found) in keys.chunks_exact(site.limbs).zip(&mut *found) {
            *found = number(table.lookup.find(key));
        }
    } else {
        let mut places: [Option<EntryIdx>; BURST] = [None; BURST];
        let places = &mut places[..found.len()];
        table.lookup.find_batch(keys, places);
        for (found, place) in found.iter_mut().zip(places) {
            *found = number(*place);
        }
    }
    ask_for(&entries, found);
}

/// The number of the record of what was found.
#[inline(always)]
fn number(found: Option<EntryIdx>) -> u64 {
    found.map_or(0, |idx| u64::from(idx.get()) + 1)
}

/// Asks the processor for all that the pass will read of the entries with these numbers.
fn ask_for(entries: &Entries, numbers: &[u64]) {
    ask_for_rows(entries.records, entries.stride, numbers);
    ask_for_rows(entries.counts, COUNTER_WORDS * size_of::<u64>(), numbers);
    ask_for_rows(entries.usage, USAGE_WORDS * size_of::<u64>(), numbers);
}

/// Asks for rows of so many bytes each, from the first one's address on; for none if that is 0.
fn ask_for_rows(first: usize, stride: usize, numbers: &[u64]) {
    if first == 0 {
        return;
    }
    for number in numbers {
        prefetch_at(first + *number as usize * stride);
    }
    // Rows are laid out so that none is in more lines than it must be.
    for behind in (LINE..stride).step_by(LINE) {
        for number in numbers {
            prefetch_at(first + *number as usize * stride + behind);
        }
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;
