//! Lookup buffer: lookup keys of a burst, as the prefetch passes write them, and the results of the
//! batched lookups.

use std::ops::Range;

use exec::{BURST, BurstSegment, State};
use table::EntryIdx;
use table::prefetch::prefetch_at;

use crate::abi::{self, Code};
use crate::translate::{ParsedFields, PrefetchSite, words_of_rows};
use crate::view::{self, Rows};

/// Position of the list of rows to prefetch in the lookup buffer. Rows are records, counters and
/// usage cells of entries. The list is the number of rows followed by their addresses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowAddresses {
    pub(crate) first: usize,
    /// Number of words of the list.
    words: usize,
}

impl RowAddresses {
    /// Returns the listed rows and clears the list.
    pub(crate) fn take(self, notes: &mut [u64]) -> &[u64] {
        match notes[self.first..][..self.words].split_first_mut() {
            Some((count, rows)) => &rows[..std::mem::take(count) as usize],
            None => &[],
        }
    }
}

/// Returns the position of the list after all other parts of the lookup buffer. It has room for all
/// rows that packets can find in hash tables.
pub(crate) fn list_of_rows(code: &Code) -> RowAddresses {
    let hashed = code
        .scouts
        .iter()
        .filter(|site| site.hashed_on(site.level).is_some());
    let rows = hashed.map(|site| words_of_rows(code.tables[site.table].records.stride()));
    let rows: usize = rows.sum();
    RowAddresses {
        first: code.end_of_scouts() + code.parsed.as_ref().map_or(0, ParsedFields::words),
        words: if rows > 0 { 1 + rows } else { 0 },
    }
}

/// Clears the lookup buffer for a number of packets: no keys, no listed rows. Resizes it for this
/// code. `looked_at` marks the sites of which results are read by any segment
/// ([`view::Marked::looked_at`]).
pub(crate) fn clear(code: &Code, notes: &mut Vec<u64>, packets: usize, looked_at: u64) {
    let words = code.rows.first + code.rows.words;
    if notes.len() < words {
        notes.resize(words, 0);
    }
    for (number, site) in code.scouts.iter().enumerate() {
        site.clear(notes, packets, view::is_among(looked_at, number));
    }
    if code.rows.words > 0 {
        notes[code.rows.first] = 0;
    }
}

/// Ends the writing of keys for hash tables. Loads their first lines ahead if they are in no cache.
pub(crate) fn end_questions(code: &Code, level: usize, notes: &mut [u64], are_in_memory: bool) {
    for site in code.scouts.iter().filter_map(|site| site.hashed_on(level)) {
        let lines = site.lines(notes);
        if are_in_memory {
            abi::read_ahead(lines);
        }
    }
}

/// Ends the lookups in first lines. Loads second lines for keys that were not found there. Returns
/// true if there are any.
pub(crate) fn end_first_lines(
    code: &Code,
    level: usize,
    notes: &[u64],
    are_in_memory: bool,
) -> bool {
    let mut are_any = false;
    for site in code.scouts.iter().filter_map(|site| site.hashed_on(level)) {
        let lines = site.second_lines(notes);
        if are_in_memory {
            abi::read_ahead(lines);
        }
        are_any |= !lines.is_empty();
    }
    are_any
}

/// Prefetches the memory that the lookups of these packets read first. Computed intermediate values
/// are stored in place of the results, for the lookup itself.
pub(crate) fn announce(
    site: &PrefetchSite,
    notes: &mut [u64],
    packets: Range<usize>,
    state: &State,
) {
    let asked = site.questions(notes, packets);
    if let Some(table) = state.table(site.table)
        && !asked.keys.is_empty()
    {
        table.lookup.announce(asked.keys, asked.found);
    }
}

/// Performs the lookups of these packets, which were announced if there are many segments. Then
/// loads or prefetches the entries that the fast path will read. With many segments they are never
/// in a near cache.
pub(crate) fn answer(
    site: &PrefetchSite,
    notes: &mut [u64],
    packets: Range<usize>,
    lot: &BurstSegment<'_>,
    are_many: bool,
) {
    let mut asked = site.questions(notes, packets);
    let is_asked = !asked.keys.is_empty();
    let Some(table) = lot.state().table(site.table).filter(|_| is_asked) else {
        return;
    };
    let Some(entries) = view::entries(lot, site.table, are_many) else {
        return;
    };
    if are_many {
        table.lookup.find_announced(asked.keys, asked.found);
        asked.answer(|_, found| found);
    } else {
        let mut places: [Option<EntryIdx>; BURST] = [None; BURST];
        let places = &mut places[..asked.found.len()];
        table.lookup.find_batch(asked.keys, places);
        asked.answer(|question, _| EntryIdx::record_of(places[question]).into());
    }
    for rows in [&entries.records, &entries.counts, &entries.usage] {
        match are_many {
            // With few packets per segment, loads would delay the next segment's lookups. They cost
            // 64 vPDPs of `l2` 100 cycles more per packet when their tables were searched here.
            // Rows that native code has found are loaded after all segments' lookups
            // ([`abi::read_ahead`]).
            true => ask_for(rows, asked.found),
            false if rows.is_empty() => {}
            false => abi::load_rows(rows, asked.found),
        }
    }
}

/// Performs [`announce`] and [`answer`] for interleaved packets, each of which may belong to
/// another segment than the one before.
pub(crate) fn answer_mixed<'l>(
    site: &PrefetchSite,
    notes: &mut [u64],
    packets: usize,
    lot_of: impl Fn(usize) -> Option<&'l BurstSegment<'l>>,
) {
    let mut asked = site.questions(notes, 0..packets);
    if asked.keys.is_empty() {
        return;
    }
    let table_of = |asker| lot_of(asker)?.state().table(site.table);
    let mut are_there = true;
    asked.each(|asker, key, noted| match table_of(asker) {
        Some(table) => table.lookup.announce(key, std::slice::from_mut(noted)),
        None => are_there = false,
    });
    if !are_there {
        return;
    }
    asked.each(|asker, key, noted| {
        let noted = std::slice::from_mut(noted);
        if let Some(table) = table_of(asker) {
            table.lookup.find_announced(key, noted);
        }
        let entries = lot_of(asker).and_then(|lot| view::entries(lot, site.table, true));
        if let Some(entries) = entries {
            for rows in [&entries.records, &entries.counts, &entries.usage] {
                ask_for(rows, noted);
            }
        }
    });
    asked.answer(|_, found| found);
}

/// Prefetches the rows of these numbers.
fn ask_for(rows: &Rows, numbers: &[u64]) {
    for behind in (0..rows.stride()).step_by(abi::LINE) {
        for row in numbers.iter().filter_map(|&number| rows.at(number)) {
            prefetch_at(row + behind);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::backend::{FastPathCode, compile_pass};
    use crate::translate::BurstLayout;
    use exec::{FastPath, FastPathStep, Natives};
    use ir::{ControlId, Layout, ParserId, Program};

    /// Reads a program in the text form of the IR. Returns it with the fast path through its first
    /// parser and first control.
    pub(crate) fn read(text: &str) -> (Program, FastPath) {
        let program = ir::read(text).unwrap_or_else(|error| panic!("{error:?}"));
        let parse = FastPathStep::Parse {
            parser: ParserId::new(0),
            errors: Vec::new(),
        };
        let pass = FastPath {
            steps: vec![parse, FastPathStep::Control(ControlId::new(0))],
        };
        (program, pass)
    }

    /// Reads and compiles such a program.
    pub(crate) fn compiled(text: &str) -> (Program, FastPathCode) {
        let (program, pass) = read(text);
        let (layout, natives) = (Layout::of(&program), Natives::default());
        let compiled = compile_pass(&program, &layout, &natives, &pass, BurstLayout::Grouped);
        (program, compiled.expect("it is compiled"))
    }

    #[test]
    fn answers_are_cleared_where_anybody_looks_at_them() {
        let text = "program p own\nfield a: bit<32>\nparser p start s {\n state s {\n goto accept;\n }\n}\naction none() {\n}\n\
            table rules {\n key a: ternary as bit<32> = a;\n action none table_and_default;\n default none();\n size 16 declared;\n}\n\
            control c {\n stage rules: match rules next end;\n}\n";
        let (_, compiled) = compiled(text);
        let cleared = |looked_at: u64| {
            let mut notes = vec![u64::MAX; 1000];
            clear(&compiled.code, &mut notes, 7, looked_at);
            notes.iter().filter(|&&word| word == 0).count()
        };
        // Number of lookups, and the results of seven packets.
        assert_eq!(cleared(0), 1);
        assert_eq!(cleared(1), 1 + 7);
    }
}
