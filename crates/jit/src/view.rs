//! What native code sees of a state: where the records and counts of its tables are, how tables with simple indices are looked up, and its counters' cells.
//!
//! Twelve words a table, two words an extern instance (cells, how many), six words a part of a [`VectorIndex`], and what is read in any case ([`common`]); and marks, at which a burst looks before: the sites of scouts at whose answers
//! native code looks, the levels of scouts that have something to ask, and whether packets note the use of any entries. They are made once for a state and a lane, and kept by the device;
//! everything that they point to lives as long as the state, and nothing of it moves.

use std::sync::Arc;

use exec::slots::table::TableSite;
use exec::{Derived, ExternState, Lot, State, TableState};
use ir::{ExternId, Program, TableId};
use table::prefetch::prefetch_at;
use table::{
    COUNTER_WORDS, Cells, DirectIndex, HashIndex, Lane, Lookup, TrieIndex, USAGE_WORDS,
    VectorIndex, VectorPart,
};

use crate::abi::Code;
use crate::common;
use crate::prefetch;
use crate::translate::ScoutSite;

/// Bytes of a table's part.
const TABLE: i32 = 96;

/// Which of its words says where its totals are.
const TOTALS: usize = 3;

/// Bytes of an extern's part.
const EXTERN: i32 = 16;

/// Limbs of a key that native code looks up by itself, at most.
pub(crate) const MOST_DIGITS: usize = DirectIndex::MOST_LIMBS;

/// The offsets of a table's words.
pub(crate) struct TableView {
    /// Its records, if native code reads any.
    pub(crate) records: i32,
    /// Its rows of use, if packets note each entry's use there; else 0.
    pub(crate) usage: i32,
    /// Its direct counters.
    pub(crate) counts: i32,
    /// Its totals.
    pub(crate) totals: i32,
    /// The slots of its [`DirectIndex`], if it has one, or of its [`TrieIndex`]; else 0.
    pub(crate) slots: i32,
    /// The lines of its [`HashIndex`], if it has one, or of its [`TrieIndex`]; else 0.
    pub(crate) lines: i32,
    /// Of a direct index or a trie, the number of the last slot.
    pub(crate) last_slot: i32,
    /// Of a direct index, by limb of the key: how far it is shifted, and which of its bits are outside.
    pub(crate) digits: [(i32, i32); MOST_DIGITS],
    /// Of a hash table, in the same words: how many lines there are, and both numbers of the seed, with the second one as the last factor.
    pub(crate) line_count: i32,
    pub(crate) seed: [i32; 3],
    /// Of a [`VectorIndex`], in the same words: the places that have a rule, the entries (else 0: no table has both kinds of keys), and so many
    /// bytes behind the view's beginning the words of its parts begin and end.
    pub(crate) live: i32,
    pub(crate) entries: i32,
    pub(crate) parts: [i32; 2],
    /// Of a [`TrieIndex`], in the same words, beside its slots, the number of the last one, and its lines: what addresses share, where the bits that choose a slot end, and what is found where nothing is.
    pub(crate) shared: i32,
    pub(crate) end: i32,
    pub(crate) default: i32,
    /// What there is beside the table's index, and what of that is not near: [`marks`].
    pub(crate) marks: i32,
}

/// Where a table's words are.
pub(crate) fn of_table(table: TableId) -> TableView {
    let first = table.get() as i32 * TABLE;
    TableView {
        records: first,
        usage: first + 8,
        counts: first + 16,
        totals: first + TOTALS as i32 * 8,
        slots: first + 32,
        lines: first + 40,
        last_slot: first + 48,
        // The first digit is not shifted, and nobody reads by how much.
        digits: [(first + 64, first + 56), (first + 64, first + 72)],
        line_count: first + 48,
        seed: [first + 56, first + 64, first + 72],
        live: first + 48,
        entries: first + 56,
        parts: [first + 64, first + 72],
        shared: first + 56,
        end: first + 64,
        default: first + 72,
        marks: first + 80,
    }
}

/// Where the words of a part of a [`VectorIndex`] are, in bytes from the first.
pub(crate) mod part {
    /// Where the limb of the key is, in bytes from the first; how far it is shifted down, and what is left of it.
    pub(crate) const LIMB: i32 = 0;
    pub(crate) const SHIFT: i32 = 8;
    pub(crate) const MASK: i32 = 16;
    /// Its rows.
    pub(crate) const ROWS: i32 = 24;
    /// Where classes begin, and half as many bytes as that takes: 0 where each value is a class.
    pub(crate) const STARTS: i32 = 32;
    pub(crate) const HALF: i32 = 40;
    /// Bytes of a part.
    pub(crate) const SIZE: i32 = 48;
}

/// What belongs to the entries of a table, the default action's first.
pub(crate) struct Entries {
    pub(crate) records: Rows,
    pub(crate) usage: Rows,
    pub(crate) counts: Rows,
}

/// Rows one behind the other: none where there are none, or none need be asked for. Only this file makes any, so that they are where they are said to be.
pub(crate) struct Rows {
    first: usize,
    stride: usize,
    count: u64,
}

impl Rows {
    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bytes of each.
    #[inline]
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// The address of a row.
    #[inline]
    pub(crate) fn at(&self, number: u64) -> Option<usize> {
        (number < self.count).then(|| self.first + number as usize * self.stride)
    }
}

/// Words that need not be asked for: they stay in the first-level cache, unless many devices take turns.
const NEAR: usize = 1024;

/// Words of which it is enough to ask for those that will be read: half of the second-level cache. Of more, loads bring them sooner, as they do where native code cannot ask.
const CACHED: usize = if prefetch::ARE_THERE { 64 * 1024 } else { NEAR };

/// Lines of a hash table that need not be asked for either: half of that cache.
const NEAR_LINES: u64 = 256;

/// Lines of which it is enough to ask for those that will be read. They may be more than words of rows: the next levels bring what was asked for in time, until the processor does not know
/// its pages any more. `l2` with 65,536 stations, 1 MB of lines, takes 3 to 5 cycles a packet less so, with a million 20 more.
const CACHED_LINES: u64 = if prefetch::ARE_THERE { 64 * 1024 } else { 0 };

/// What the last but one of a table's words says beside its records' stride, which is in its upper half: which rows there are, and which of them are not near. What is there has to be
/// asked for where many take turns, what is far in any case.
pub(crate) mod marks {
    const RECORDS_ARE_THERE: u64 = 1;
    const COUNTS_ARE_THERE: u64 = 2;
    const USAGE_IS_THERE: u64 = 4;
    /// So much further up is what says that rows are far, and that they are in no cache.
    const FAR: u32 = 8;
    const IN_MEMORY: u32 = 16;

    /// What says of a kind that it is there, far, or in no cache.
    pub(crate) const RECORDS: u64 = all_of(RECORDS_ARE_THERE);
    pub(crate) const COUNTS: u64 = all_of(COUNTS_ARE_THERE);
    pub(crate) const USAGE: u64 = all_of(USAGE_IS_THERE);
    const THERE: u64 = RECORDS_ARE_THERE | COUNTS_ARE_THERE | USAGE_IS_THERE;

    const fn all_of(there: u64) -> u64 {
        there | there << FAR | there << IN_MEMORY
    }

    /// What says that rows are to be asked for.
    pub(crate) const fn wanted(are_many: bool) -> u64 {
        if are_many {
            THERE
        } else {
            THERE << FAR | THERE << IN_MEMORY
        }
    }

    /// What says of rows that are to be asked for that this is not enough: they are to be loaded. Where there are many devices, all are.
    pub(crate) const LOADED: u64 = THERE | THERE << IN_MEMORY;

    /// Of one of these kinds, which has so many words.
    pub(super) fn of(kind: u64, words: usize) -> u64 {
        let if_more = |than: usize, marks: u64| if words > than { kind & marks } else { 0 };
        let [near, cached] = [super::NEAR, super::CACHED];
        if_more(0, THERE) | if_more(near, THERE << FAR) | if_more(cached, THERE << IN_MEMORY)
    }
}

/// The entries of a table of a lot's state.
#[inline]
pub(crate) fn entries(lot: &Lot<'_>, table: TableId, are_many: bool) -> Option<Entries> {
    let first = table.get() as usize * (TABLE / 8) as usize;
    let words: &[u64; (TABLE / 8) as usize] = words_of(lot).get(first..)?.first_chunk()?;
    let [records, usage, counts, .., marks, rows] = *words;
    let wanted = marks & marks::wanted(are_many);
    let given = |at: u64, stride: usize, kind: u64| Rows {
        first: at as usize,
        stride,
        count: if wanted & kind != 0 { rows } else { 0 },
    };
    Some(Entries {
        records: given(records, (marks >> 32) as usize, marks::RECORDS),
        usage: given(usage, USAGE_WORDS * WORD, marks::USAGE),
        counts: given(counts, COUNTER_WORDS * WORD, marks::COUNTS),
    })
}

const WORD: usize = size_of::<u64>();

/// How many rows a table's records have, and what is noted and counted of them, where that is.
fn rows(lookup: &Lookup, lane: Lane) -> u64 {
    let there = |cells: &Cells| match cells.lane(lane).len() {
        0 => usize::MAX,
        words => words / cells.words(),
    };
    let noted = there(lookup.usage()).min(there(lookup.counts()));
    lookup.records().count().min(noted) as u64
}

/// The last but one of a table's words.
fn marks(lookup: &Lookup, lane: Lane, is_read: bool) -> u64 {
    let usage = match lookup.notes_usage() {
        true => lookup.usage().lane(lane).len(),
        false => 0,
    };
    let records = match is_read {
        true => lookup.records().limbs().len(),
        false => 0,
    };
    (lookup.records().stride() as u64) << 32
        | marks::of(marks::RECORDS, records)
        | marks::of(marks::COUNTS, lookup.counts().lane(lane).len())
        | marks::of(marks::USAGE, usage)
}

/// The offset of an extern's cells; how many they are is eight bytes behind.
pub(crate) fn extern_at(program: &Program, id: ExternId) -> i32 {
    program.tables.len() as i32 * TABLE + id.get() as i32 * EXTERN
}

/// Makes the words for this state and lane, unless they are there.
#[inline]
pub(crate) fn derive(derived: &mut Derived, state: &Arc<State>, lane: Lane, code: &Code) {
    if !derived.is_of(state, lane) {
        // Should that panic, it is of none.
        derived.let_go();
        make(derived, state, lane, code);
        derived.is_made_of(state, lane);
    }
}

/// The words of a lot, from the first on.
#[inline]
pub(crate) fn of_lot(lot: &Lot<'_>) -> *const u64 {
    words_of(lot).as_ptr()
}

#[inline]
fn words_of<'l>(lot: &Lot<'l>) -> &'l [u64] {
    // They are of what packets see, if that is there.
    lot.state();
    &lot.owner.derived.words
}

/// Asks the processor for the totals of the first tables, so many: every packet that asks one is counted there.
#[inline]
pub(crate) fn ask_for_totals(derived: &Derived, tables: usize) {
    let words = derived.words.chunks_exact((TABLE / 8) as usize);
    for words in words.take(tables) {
        prefetch_at(words[TOTALS] as usize);
    }
}

/// What is marked of a state, or of any of several.
#[derive(Clone, Copy, Default)]
pub(crate) struct Marked([u64; 2]);

impl Marked {
    #[inline]
    pub(crate) fn of(derived: &Derived) -> Marked {
        Marked(derived.marks)
    }

    /// What is marked of any lot's.
    #[inline]
    pub(crate) fn of_any(lots: &[Lot<'_>]) -> Marked {
        lots.iter().fold(Marked::default(), |Marked(all), lot| {
            let [levels, looked_at] = lot.owner.derived.marks;
            Marked([all[LEVELS] | levels, all[LOOKED_AT] | looked_at])
        })
    }

    /// The levels whose scouts have something to ask, in a burst of one device or of many: a bit for each.
    #[inline]
    pub(crate) fn levels(self, are_many: bool) -> u64 {
        let shift = if are_many { MANY } else { 0 };
        self.0[LEVELS] >> shift & ((1 << MANY) - 1)
    }

    /// Whether the scout of a level has something to ask.
    #[inline]
    pub(crate) fn is_scouted(self, level: usize, are_many: bool) -> bool {
        self.levels(are_many) >> level & 1 != 0
    }

    /// Whether the scouts of several levels have.
    #[inline]
    pub(crate) fn are_several_scouted(self, are_many: bool) -> bool {
        let levels = self.levels(are_many);
        levels & levels.wrapping_sub(1) != 0
    }

    /// Whether the scout of a level asks hash tables whose lines are in no cache.
    #[inline]
    pub(crate) fn asks_in_memory(self, level: usize) -> bool {
        self.0[LEVELS] >> (IN_MEMORY + level) & 1 != 0
    }

    /// The sites at whose answers native code looks, by their numbers among the code's.
    #[inline]
    pub(crate) fn looked_at(self) -> u64 {
        self.0[LOOKED_AT]
    }

    /// Whether packets note the use of entries of some table.
    #[inline]
    pub(crate) fn notes_use(self) -> bool {
        self.0[LEVELS] & NOTES_USE != 0
    }
}

/// What is marked of a state: the levels of scouts that have something to ask and whether packets note the use of any entries; the sites at whose answers native code looks.
const LEVELS: usize = 0;
const LOOKED_AT: usize = 1;

/// Bits of the first mark for levels that ask in bursts of one device; behind them there are as many for bursts of many, and then as many for levels that ask hash tables whose lines
/// are in no cache.
const MANY: usize = 8;
const IN_MEMORY: usize = 2 * MANY;

/// Whether a site is among such sites, of which more than a word has bits for always are.
#[inline]
pub(crate) fn is_among(sites: u64, number: usize) -> bool {
    number >= u64::BITS as usize || sites >> number & 1 != 0
}

/// What that mark says beside the levels.
const NOTES_USE: u64 = 1 << 63;

#[cold]
fn make(derived: &mut Derived, state: &State, lane: Lane, code: &Code) {
    let words = &mut derived.words;
    words.clear();
    for (table, site) in state.tables.iter().zip(code.tables.values()) {
        let lookup = &table.lookup;
        let records = match code.recorded_tables.contains(&site.id) {
            true => records_of(lookup, site),
            false => 0,
        };
        let first = |cells: &Cells| cells.lane(lane).as_ptr().expose_provenance();
        let usage = match lookup.notes_usage() {
            true => first(lookup.usage()),
            false => 0,
        };
        let (counts, totals) = (first(lookup.counts()), first(lookup.totals()));
        let parts = [records, usage, counts, totals];
        words.extend(parts.map(|part| part as u64));
        words.extend(index_words(lookup));
        words.extend([
            marks(lookup, lane, code.tables_read.contains(&site.id)),
            rows(lookup, lane),
        ]);
    }
    for (&table, &last_needed) in &code.direct_tables {
        let TableView {
            slots, last_slot, ..
        } = of_table(table);
        let word = |at: i32| words.get(at as usize / size_of::<u64>()).copied();
        let is_there = word(slots).is_some_and(|slots| slots != 0);
        let is_whole = word(last_slot).is_some_and(|last| last >= last_needed);
        assert!(
            is_there && is_whole,
            "a table without the slots it must have"
        );
    }
    for (&table, &limbs) in &code.hashed_tables {
        let lookup = state.table(table).map(|table| &table.lookup);
        let is_direct = lookup.is_some_and(|lookup| lookup.direct().is_some());
        let hashed = lookup.and_then(|lookup| lookup.hashed());
        let is_as_told = hashed.is_some_and(|index| index.limbs == limbs);
        assert!(
            is_direct || is_as_told,
            "a table of exact keys without an index of them"
        );
    }
    for &table in &code.trie_tables {
        let trie = state.table(table).and_then(|table| table.lookup.trie());
        assert!(trie.is_some(), "a table of prefixes without a trie");
    }
    for instance in &state.externs {
        let (cells, count) = match instance {
            ExternState::Counter(counters) => {
                let cells = counters.cells().lane(lane).as_ptr();
                (cells.expose_provenance(), counters.len())
            }
            _ => (0, 0),
        };
        words.extend([cells as u64, count as u64]);
    }
    for (&counter, &cells) in &code.full_counters {
        let are_there = match state.externs.get(counter.get() as usize) {
            Some(ExternState::Counter(counters)) => counters.len() as u64 >= cells,
            _ => false,
        };
        assert!(are_there, "a counter without the cells it must have");
    }
    add_parts(words, state);
    common::list(words, state, lane, code);
    let notes_use = state.tables.iter().any(|t| t.lookup.notes_usage());
    let notes_use = if notes_use { NOTES_USE } else { 0 };
    derived.marks[LOOKED_AT] = looked_at_in(state, code);
    derived.marks[LEVELS] =
        levels(code, state) | levels_in_memory(code, state) << IN_MEMORY | notes_use;
}

/// The levels that ask hash tables whose lines are in no cache.
fn levels_in_memory(code: &Code, state: &State) -> u64 {
    let sites = code.scouts.iter().filter(|site| {
        let hashed = site.hashed_on(site.level);
        let table = state.table(site.table).filter(|_| hashed.is_some());
        let index = table.and_then(|table| table.lookup.hashed());
        index.is_some_and(|index| index.count > CACHED_LINES)
    });
    sites.fold(0, |levels, site| levels | 1 << site.level)
}

/// The levels that ask in a burst of one device, and [`MANY`] bits further up those that do in one of many. Levels whose tables are all near are left out, but for those in front of one that has others and may depend on them.
fn levels(code: &Code, state: &State) -> u64 {
    let (mut asked, mut far) = (0, 0);
    for site in &code.scouts {
        let Some(table) = state.table(site.table) else {
            continue;
        };
        let is_indexed = site.may_be_near() && has_near_index(table);
        if site.answers_at_once || is_indexed {
            continue;
        }
        asked |= 1 << site.level;
        if !(site.may_be_unasked() && has_near_lines(table)) {
            far |= 1 << site.level;
        }
    }
    // The first scout parses for those that have.
    let first = code.parsed.as_ref().map_or(0, |parsed| 1 << parsed.level);
    let with_first = |levels: u64| if levels != 0 { levels | first } else { 0 };
    with_first(asked) << MANY | with_first(up_to_last(asked, far))
}

/// Levels that ask, as far as a last one of others.
fn up_to_last(asked: u64, of: u64) -> u64 {
    match of.checked_ilog2() {
        Some(last) => asked & ((2 << last) - 1),
        None => 0,
    }
}

/// Whether the lines of a table's hash table stay in the first-level cache, unless many devices take turns.
fn has_near_lines(table: &TableState) -> bool {
    let hashed = table.lookup.hashed();
    hashed.is_some_and(|index| index.count <= NEAR_LINES)
}

/// The sites of these scouts at whose answers native code looks in a state.
fn looked_at_in(state: &State, code: &Code) -> u64 {
    let looked_at = |site: &ScoutSite| {
        let table = state.table(site.table);
        !table.is_some_and(|table| site.is_always_near(&table.lookup))
    };
    let sites = code.scouts.iter().zip(0..u64::BITS);
    sites.fold(0, |sites, (site, bit)| {
        sites | u64::from(looked_at(site)) << bit
    })
}

/// Whether native code finds keys of a table by itself: of which it may is known when it is made.
fn has_near_index(table: &TableState) -> bool {
    table.lookup.direct().is_some() || table.lookup.vectors().is_some()
}

/// Adds the words of the parts of each [`VectorIndex`], and tells its table where they are.
fn add_parts(words: &mut Vec<u64>, state: &State) {
    for (number, table) in state.tables.iter().enumerate() {
        let Some(index) = table.lookup.vectors() else {
            continue;
        };
        let first = words.len();
        words.extend(index.parts().flat_map(part_words));
        let told = TableId::new(number as u32);
        for (at, word) in of_table(told).parts.into_iter().zip([first, words.len()]) {
            words[at as usize / WORD] = (word * WORD) as u64;
        }
    }
}

fn part_words(part: VectorPart<'_>) -> [u64; part::SIZE as usize / WORD] {
    let starts = part.starts.as_ptr().expose_provenance();
    [
        (part.limb * WORD) as u64,
        part.shift.into(),
        part.mask,
        part.rows.expose_provenance() as u64,
        starts as u64,
        (size_of_val(part.starts) / 2) as u64,
    ]
}

/// The first of a table's records, which are as native code reads them, and what belongs to that in front of it.
fn records_of(lookup: &Lookup, site: &TableSite) -> usize {
    let is_read = *lookup.record_layout() == *site.records;
    assert!(is_read, "a table whose records have another layout");
    lookup.records().first().expose_provenance()
}

/// The words about a table's index from its slots on.
fn index_words(lookup: &Lookup) -> [u64; 6] {
    if let Some(direct) = lookup.direct() {
        return direct_words(&direct);
    }
    if let Some(VectorIndex { live, entries, .. }) = lookup.vectors() {
        let entries = entries.as_ptr().expose_provenance();
        return [0, 0, live, entries as u64, 0, 0];
    }
    if let Some(trie) = lookup.trie() {
        return trie_words(&trie);
    }
    match lookup.hashed() {
        Some(HashIndex {
            lines,
            count,
            seed: [a, b],
            ..
        }) => [0, lines as u64, count, a, b, b.rotate_left(32) | 1],
        None => [0; 6],
    }
}

fn trie_words(trie: &TrieIndex<'_>) -> [u64; 6] {
    [
        trie.slots.as_ptr().expose_provenance() as u64,
        trie.lines as u64,
        trie.slots.len() as u64 - 1,
        trie.shared,
        trie.end.into(),
        trie.default.into(),
    ]
}

fn direct_words(direct: &DirectIndex<'_>) -> [u64; 6] {
    let digit = |limb: usize| direct.digits.get(limb).copied().unwrap_or_default();
    let (first, second) = (digit(0), digit(1));
    let slots = direct.slots.as_ptr().expose_provenance();
    let last = direct.slots.len() as u64 - 1;
    [
        slots as u64,
        0,
        last,
        first.outside,
        second.shift.into(),
        second.outside,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notes::tests::compiled;
    use exec::Configuration;

    #[test]
    fn the_first_scout_goes_before_others_though_it_asks_nothing_itself() {
        let text = "program t own\nfield m: bit<32>\nheader_type h_t {\n a: bit<32>;\n b: bit<32>;\n}\nheader h: h_t\n\
            parser p start s {\n state s {\n extract h;\n goto accept;\n }\n}\naction is(n: bit<32>) {\n m = %n;\n}\n\
            table rules {\n key a: ternary as bit<32> = h.a;\n action is table_and_default;\n default is(32w0x0);\n size 16 declared;\n}\n\
            table second {\n key m: ternary as bit<32> = m;\n key b: ternary as bit<32> = h.b;\n action is table_and_default;\n default is(32w0x0);\n size 4096 declared;\n}\n\
            control c {\n stage rules: match rules next second;\n stage second: match second next end;\n}\n";
        let (program, compiled) = compiled(text);
        assert_eq!(compiled.code.scout_levels().len(), 2);
        let configuration = Configuration::new(Arc::new(program));
        let state = Arc::new(configuration.expect("it has no entries").snapshot());
        let mut derived = Derived::default();
        derive(&mut derived, &state, Lane::new(0), &compiled.code);
        // Of few rules: native code finds them.
        let marked = Marked::of(&derived);
        assert!(!is_among(marked.looked_at(), 0));
        assert!(is_among(marked.looked_at(), 1));
        assert!(marked.is_scouted(1, false));
        assert!(marked.is_scouted(0, false));
        assert!(marked.is_scouted(0, true));
        assert!(marked.are_several_scouted(false));
    }

    #[test]
    fn a_level_whose_tables_are_near_is_asked_where_a_later_one_has_others() {
        let cases = [
            (0b111, 0b000, 0b000),
            (0b111, 0b001, 0b001),
            (0b111, 0b011, 0b011),
            (0b111, 0b100, 0b111),
            (0b101, 0b100, 0b101),
        ];
        for (asked, far, of_one) in cases {
            assert_eq!(up_to_last(asked, far), of_one, "{asked:b} {far:b}");
        }
    }
}
