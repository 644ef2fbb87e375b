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
        ScoutSite::clear(&mut notes[site.first..], packets);
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
        for (key, found) in keys.chunks_exact(site.limbs).zip(found) {
            *found = number(table.lookup.find(key), &entries);
        }
        return;
    }
    let mut places: [Option<EntryIdx>; BURST] = [None; BURST];
    let places = &mut places[..found.len()];
    table.lookup.find_batch(keys, places);
    for (found, place) in found.iter_mut().zip(places) {
        *found = number(*place, &entries);
    }
}

/// The number of the record of what was found, of which all that the pass will read is asked for.
#[inline(always)]
fn number(found: Option<EntryIdx>, entries: &Entries) -> u64 {
    let number = found.map_or(0, |idx| idx.get() as usize + 1);
    if entries.records != 0 {
        let first = entries.records + number * entries.stride;
        let last = first + entries.stride - size_of::<u64>();
        (first..last).step_by(LINE).for_each(prefetch_at);
        prefetch_at(last);
    }
    if entries.counts != 0 {
        prefetch_at(entries.counts + number * COUNTER_WORDS * size_of::<u64>());
    }
    if entries.usage != 0 {
        prefetch_at(entries.usage + number * USAGE_WORDS * size_of::<u64>());
    }
    number as u64
}

/// Bytes of a cache line.
const LINE: usize = 64;
