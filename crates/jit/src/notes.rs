//! The notes of a pass's scout: what packets ask of tables, answered for a whole burst at once.

use std::ops::Range;

use exec::{BURST, Lot, State};
use table::EntryIdx;

use crate::abi;
use crate::translate::ScoutSite;
use crate::view::{self, Entries};

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

/// Asks the processor for what the answers to these packets' questions will read first; what they need not find out again stands where they will.
pub(crate) fn announce(site: &ScoutSite, notes: &mut [u64], packets: Range<usize>, state: &State) {
    let (keys, found) = site.questions(notes, packets);
    if let Some(table) = state.table(site.table)
        && !found.is_empty()
    {
        table.lookup.announce(keys, found);
    }
}

/// Answers these packets' questions, which were announced if there are many lots, and loads what the pass will read of the entries: that
/// is never near where there are many lots.
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
    let Some(entries) = view::entries(lot, site.table, are_many) else {
        return;
    };
    if are_many {
        table.lookup.find_announced(keys, found);
    } else {
        let mut places: [Option<EntryIdx>; BURST] = [None; BURST];
        let places = &mut places[..found.len()];
        table.lookup.find_batch(keys, places);
        for (found, place) in found.iter_mut().zip(places) {
            *found = place.map_or(0, |idx| u64::from(idx.get()) + 1);
        }
    }
    load(&entries, found);
}

/// Loads what the pass will read of the entries with these numbers.
fn load(entries: &Entries, numbers: &[u64]) {
    for rows in [&entries.records, &entries.counts, &entries.usage] {
        if !rows.is_empty() {
            abi::load_rows(rows, numbers);
        }
    }
}
