//! The notes of a pass's scout: what packets ask of tables, answered for a whole burst at once.

use exec::State;
use table::prefetch::prefetch;
use table::{EntryIdx, Lane};

use crate::abi::BURST;
use crate::translate::ScoutSite;

/// Words that need not be asked for: they stay in the first-level cache.
const NEAR: usize = 1024;

/// Nobody asks; the notes are as long as these sites want them.
pub(crate) fn clear(sites: &[ScoutSite], notes: &mut Vec<u64>) {
    let words = sites.last().map_or(0, |site| site.first + site.words());
    if notes.len() < words {
        notes.resize(words, 0);
    }
    for site in sites {
        ScoutSite::clear(&mut notes[site.first..]);
    }
}

/// Answers all questions, and asks the processor for what the pass will read of the entries.
pub(crate) fn answer(sites: &[ScoutSite], notes: &mut [u64], state: &State, lane: Lane) {
    for site in sites {
        let (keys, found) = site.questions(&mut notes[site.first..][..site.words()]);
        let Some(table) = state.table(site.table) else {
            continue;
        };
        let (records, counts) = (table.lookup.records(), table.lookup.cells());
        let rows = match table.lookup.has_rows() {
            true => counts.lane(lane),
            false => &[],
        };
        let mut places: [Option<EntryIdx>; BURST] = [None; BURST];
        let places = &mut places[..found.len()];
        table.lookup.find_batch(keys, places);
        for (found, place) in found.iter_mut().zip(places) {
            let number = place.map_or(0, |idx| idx.get() as usize + 1);
            *found = number as u64;
            if records.limbs().len() > NEAR {
                prefetch(records.limbs(), number * records.stride());
            }
            if rows.len() > NEAR {
                prefetch(rows, number * counts.words());
            }
        }
    }
}
