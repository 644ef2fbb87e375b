//! Description of a state for native code: addresses of the tables' records and counters, data of
//! simple indices, and counter cells.
//!
//! The words of a description are, in this order:
//! - twelve words per table,
//! - three words per extern instance: address and number of its cells, address of their locks,
//! - six words per part of a [`VectorIndex`],
//! - the prefetch list ([`prefetch_list`]).
//!
//! Two mark words summarize a state. A burst reads them first. They contain the levels of prefetch
//! passes with lookups, the sites of which results are read, and whether packets record the use of
//! entries.
//!
//! A description is built once per state and shard, and the device stores it. All that it points to
//! lives as long as the state and is not moved.

use std::sync::Arc;

use exec::slots::table::TableSite;
use exec::{BurstSegment, Derived, ExternState, State, TableState};
use ir::{ExternId, Program, TableId};
use table::prefetch::prefetch_at;
use table::{
    COUNTER_WORDS, Cells, CounterShard, DirectIndex, HashIndex, Lookup, TrieIndex, USAGE_WORDS,
    VectorIndex, VectorPart,
};

use crate::abi::Code;
use crate::prefetch_instruction;
use crate::prefetch_list;
use crate::translate::PrefetchSite;

/// Number of bytes of a table's words.
const TABLE: i32 = 96;

/// Index of the word with the address of a table's totals.
const TOTALS: usize = 3;

/// Number of bytes of an extern's words.
const EXTERN: i32 = 24;

/// Byte offset of the address of the locks in an extern's words.
pub(crate) const LOCKS: i32 = 16;

/// Maximum number of limbs of a key that native code looks up itself.
pub(crate) const MAX_DIGITS: usize = DirectIndex::MAX_LIMBS;

/// Byte offsets of a table's words.
pub(crate) struct TableView {
    /// Records, if native code reads any.
    pub(crate) records: i32,
    /// Usage cells, if packets record the use of entries, else 0.
    pub(crate) usage: i32,
    /// Direct counters.
    pub(crate) counts: i32,
    /// Totals.
    pub(crate) totals: i32,
    /// Slots of the [`DirectIndex`] or the [`TrieIndex`], if there is one, else 0.
    pub(crate) slots: i32,
    /// Lines of the [`HashIndex`] or the [`TrieIndex`], if there is one, else 0.
    pub(crate) lines: i32,
    /// For a direct index or a trie: the index of the last slot.
    pub(crate) last_slot: i32,
    /// For a direct index, by limb of the key: the shift, and the mask of bits outside the index.
    pub(crate) digits: [(i32, i32); MAX_DIGITS],
    /// For a hash table, in the same words: the number of lines and the two seeds. The last element
    /// is the multiplier derived from the second seed.
    pub(crate) line_count: i32,
    pub(crate) seed: [i32; 3],
    /// For a [`VectorIndex`], in the same words: the bit vector of used positions and the entries.
    /// `entries` is 0 otherwise, since no table has both kinds of index. `parts` are the byte
    /// offsets where its parts' words begin and end, from the start of the description.
    pub(crate) live: i32,
    pub(crate) entries: i32,
    pub(crate) parts: [i32; 2],
    /// For a [`TrieIndex`], in the same words, in addition to slots, last slot and lines: the
    /// common prefix, the end of the bits that select a slot, and the result for a miss.
    pub(crate) shared: i32,
    pub(crate) end: i32,
    pub(crate) default: i32,
    /// Marks of the data other than the index: kinds that exist, and kinds that are not in a near
    /// cache ([`marks`]).
    pub(crate) marks: i32,
}

/// Returns the offsets of a table's words.
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
        // The first digit is not shifted, and its shift is not read.
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

/// Byte offsets of the words of a [`VectorIndex`] part, from its first word.
pub(crate) mod part {
    /// Byte offset of the key's limb, the right shift, and the mask applied after it.
    pub(crate) const LIMB: i32 = 0;
    pub(crate) const SHIFT: i32 = 8;
    pub(crate) const MASK: i32 = 16;
    /// Address of the rows.
    pub(crate) const ROWS: i32 = 24;
    /// Array of the first values of the classes, and half its size in bytes. The size is 0 if each
    /// value is a class.
    pub(crate) const STARTS: i32 = 32;
    pub(crate) const HALF: i32 = 40;
    /// Number of bytes of a part.
    pub(crate) const SIZE: i32 = 48;
}

/// Data of a table's entries, starting with the default action's.
pub(crate) struct Entries {
    pub(crate) records: Rows,
    pub(crate) usage: Rows,
    pub(crate) counts: Rows,
}

/// Array of rows, one per entry: records, direct counters, or usage cells. It is empty if there are
/// none or if they need no prefetch. Only this module creates it, so that the addresses are valid.
pub(crate) struct Rows {
    first: usize,
    stride: usize,
    count: u64,
}

impl Rows {
    /// Returns true if there are no rows.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of bytes of a row.
    #[inline]
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the address of a row, if it exists.
    #[inline]
    pub(crate) fn at(&self, number: u64) -> Option<usize> {
        (number < self.count).then(|| self.first + number as usize * self.stride)
    }
}

/// Maximum number of words that need no prefetch. They stay in the L1 cache unless many devices
/// alternate.
const NEAR: usize = 1024;

/// Maximum number of words for which prefetches suffice: half of the L2 cache. Beyond that, loads
/// are faster. The limit is lower on processors without prefetches.
const CACHED: usize = if prefetch_instruction::ARE_THERE {
    64 * 1024
} else {
    NEAR
};

/// Maximum number of lines of a hash table that need no prefetch: half of the L1 cache.
const NEAR_LINES: u64 = 256;

/// Maximum number of lines of a hash table for which prefetches suffice. It is higher than for
/// rows, since the outer caches deliver prefetched lines in time until the TLB no longer covers
/// their pages. With 65,536 addresses in `l2`, 1 MB of lines, prefetches save 3 to 5 cycles per
/// packet. With a million addresses they cost 20 cycles more.
const CACHED_LINES: u64 = if prefetch_instruction::ARE_THERE {
    64 * 1024
} else {
    0
};

/// Marks in the eleventh word of a table, below the record stride in the upper half. They name the
/// kinds of rows that exist and those that are not in a near cache. Existing rows are prefetched if
/// many devices alternate. Far rows are prefetched always.
pub(crate) mod marks {
    const RECORDS_ARE_THERE: u64 = 1;
    const COUNTS_ARE_THERE: u64 = 2;
    const USAGE_IS_THERE: u64 = 4;
    /// Shifts to the bits for rows that are far, and for rows that are in no cache.
    const FAR: u32 = 8;
    const IN_MEMORY: u32 = 16;

    /// All bits of a kind: it exists, is far, or is in no cache.
    pub(crate) const RECORDS: u64 = all_of(RECORDS_ARE_THERE);
    pub(crate) const COUNTS: u64 = all_of(COUNTS_ARE_THERE);
    pub(crate) const USAGE: u64 = all_of(USAGE_IS_THERE);
    const THERE: u64 = RECORDS_ARE_THERE | COUNTS_ARE_THERE | USAGE_IS_THERE;

    const fn all_of(there: u64) -> u64 {
        there | there << FAR | there << IN_MEMORY
    }

    /// Returns the mask of the rows that must be prefetched.
    pub(crate) const fn wanted(are_many: bool) -> u64 {
        if are_many {
            THERE
        } else {
            THERE << FAR | THERE << IN_MEMORY
        }
    }

    /// Mask of the rows for which a prefetch does not suffice and a load is needed. With many
    /// devices, this applies to all rows.
    pub(crate) const LOADED: u64 = THERE | THERE << IN_MEMORY;

    /// Returns the marks of a kind with this number of words.
    pub(super) fn of(kind: u64, words: usize) -> u64 {
        let if_more = |than: usize, marks: u64| if words > than { kind & marks } else { 0 };
        let [near, cached] = [super::NEAR, super::CACHED];
        if_more(0, THERE) | if_more(near, THERE << FAR) | if_more(cached, THERE << IN_MEMORY)
    }
}

/// Returns the entry data of a table in a segment's state.
#[inline]
pub(crate) fn entries(lot: &BurstSegment<'_>, table: TableId, are_many: bool) -> Option<Entries> {
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

/// Returns the number of a table's records for which usage and counter cells, if there are any,
/// also exist.
fn rows(lookup: &Lookup, lane: CounterShard) -> u64 {
    let there = |cells: &Cells| match cells.lane(lane).len() {
        0 => usize::MAX,
        words => words / cells.words(),
    };
    let noted = there(lookup.usage()).min(there(lookup.counts()));
    lookup.records().count().min(noted) as u64
}

/// Returns the marks of a table, with the record stride in the upper half.
fn marks(lookup: &Lookup, lane: CounterShard, is_read: bool) -> u64 {
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

/// Returns the offset of an extern's words: the address of its cells, their number, and the
/// address of their locks.
pub(crate) fn extern_at(program: &Program, id: ExternId) -> i32 {
    program.tables.len() as i32 * TABLE + id.get() as i32 * EXTERN
}

/// Builds the description for this state and shard, unless it exists.
#[inline]
pub(crate) fn derive(derived: &mut Derived, state: &Arc<State>, lane: CounterShard, code: &Code) {
    if !derived.is_of(state, lane) {
        // If `make` panics, the description belongs to no state.
        derived.let_go();
        make(derived, state, lane, code);
        derived.is_made_of(state, lane);
    }
}

/// Returns the address of a segment's description.
#[inline]
pub(crate) fn of_lot(lot: &BurstSegment<'_>) -> *const u64 {
    words_of(lot).as_ptr()
}

#[inline]
fn words_of<'l>(lot: &BurstSegment<'l>) -> &'l [u64] {
    // The call checks that the description belongs to the state that packets see.
    lot.state();
    &lot.owner.derived.words
}

/// Prefetches the totals of the first `tables` tables. Every lookup counts there.
#[inline]
pub(crate) fn ask_for_totals(derived: &Derived, tables: usize) {
    let words = derived.words.chunks_exact((TABLE / 8) as usize);
    for words in words.take(tables) {
        prefetch_at(words[TOTALS] as usize);
    }
}

/// Mark words of a state, or of several states combined.
#[derive(Clone, Copy, Default)]
pub(crate) struct Marked([u64; 2]);

impl Marked {
    #[inline]
    pub(crate) fn of(derived: &Derived) -> Marked {
        Marked(derived.marks)
    }

    /// Returns the combined marks of all segments' states.
    #[inline]
    pub(crate) fn of_any(lots: &[BurstSegment<'_>]) -> Marked {
        lots.iter().fold(Marked::default(), |Marked(all), lot| {
            let [levels, looked_at] = lot.owner.derived.marks;
            Marked([all[LEVELS] | levels, all[LOOKED_AT] | looked_at])
        })
    }

    /// Returns the levels of prefetch passes with lookups, one bit each, for bursts of one device
    /// or of many.
    #[inline]
    pub(crate) fn levels(self, are_many: bool) -> u64 {
        let shift = if are_many { MANY } else { 0 };
        self.0[LEVELS] >> shift & ((1 << MANY) - 1)
    }

    /// Returns true if the prefetch pass of a level has lookups.
    #[inline]
    pub(crate) fn is_scouted(self, level: usize, are_many: bool) -> bool {
        self.levels(are_many) >> level & 1 != 0
    }

    /// Returns true if the prefetch passes of several levels have lookups.
    #[inline]
    pub(crate) fn are_several_scouted(self, are_many: bool) -> bool {
        let levels = self.levels(are_many);
        levels & levels.wrapping_sub(1) != 0
    }

    /// Returns true if the prefetch pass of a level searches hash tables with lines that are in no
    /// cache.
    #[inline]
    pub(crate) fn asks_in_memory(self, level: usize) -> bool {
        self.0[LEVELS] >> (IN_MEMORY + level) & 1 != 0
    }

    /// Returns the bit set of the sites of which native code reads results, by their index in the
    /// code.
    #[inline]
    pub(crate) fn looked_at(self) -> u64 {
        self.0[LOOKED_AT]
    }

    /// Returns true if packets record the use of entries of some table.
    #[inline]
    pub(crate) fn notes_use(self) -> bool {
        self.0[LEVELS] & NOTES_USE != 0
    }
}

/// Indices of the two mark words: levels with lookups together with [`NOTES_USE`], and sites with
/// results that are read.
const LEVELS: usize = 0;
const LOOKED_AT: usize = 1;

/// Bit positions in the first mark word. The lowest bits are levels with lookups in bursts of one
/// device. From [`MANY`] on there are as many for bursts of several devices. From [`IN_MEMORY`] on
/// there are as many for hash tables with lines in no cache.
const MANY: usize = 8;
const IN_MEMORY: usize = 2 * MANY;

/// Returns true if a site is in the set. Sites beyond the bits of a word always are.
#[inline]
pub(crate) fn is_among(sites: u64, number: usize) -> bool {
    number >= u64::BITS as usize || sites >> number & 1 != 0
}

/// Bit of the first mark word: packets record the use of entries.
const NOTES_USE: u64 = 1 << 63;

#[cold]
fn make(derived: &mut Derived, state: &State, lane: CounterShard, code: &Code) {
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
        let [cells, count, locks] = match instance {
            ExternState::Counter(counters) => {
                let cells = counters.cells().lane(lane).as_ptr();
                [cells.expose_provenance(), counters.len(), 0]
            }
            ExternState::Register(registers) => {
                let cells = registers
                    .arrays()
                    .first()
                    .map(|array| array.limbs().as_ptr());
                [
                    cells.map_or(0, |cells| cells.expose_provenance()),
                    registers.size() as usize,
                    registers.locks().as_ptr().expose_provenance(),
                ]
            }
            _ => [0; 3],
        };
        words.extend([cells, count, locks].map(|word| word as u64));
    }
    for (&counter, &cells) in &code.full_counters {
        let are_there = match state.externs.get(counter.get() as usize) {
            Some(ExternState::Counter(counters)) => counters.len() as u64 >= cells,
            _ => false,
        };
        assert!(are_there, "a counter without the cells it must have");
    }
    for (&register, shape) in &code.registers {
        let registers = state.registers(register);
        let are_there = registers.is_some_and(|registers| shape.is_of(registers));
        assert!(are_there, "a register without the cells it must have");
    }
    add_parts(words, state);
    prefetch_list::list(words, state, lane, code);
    let notes_use = state.tables.iter().any(|t| t.lookup.notes_usage());
    let notes_use = if notes_use { NOTES_USE } else { 0 };
    derived.marks[LOOKED_AT] = looked_at_in(state, code);
    derived.marks[LEVELS] =
        levels(code, state) | levels_in_memory(code, state) << IN_MEMORY | notes_use;
}

/// Returns the levels that search hash tables with lines in no cache.
fn levels_in_memory(code: &Code, state: &State) -> u64 {
    let sites = code.scouts.iter().filter(|site| {
        let hashed = site.hashed_on(site.level);
        let table = state.table(site.table).filter(|_| hashed.is_some());
        let index = table.and_then(|table| table.lookup.hashed());
        index.is_some_and(|index| index.count > CACHED_LINES)
    });
    sites.fold(0, |levels, site| levels | 1 << site.level)
}

/// Returns the levels with lookups in bursts of one device, and shifted by [`MANY`] those in bursts
/// of many. Levels of which all tables are near are omitted, except before a level with other
/// tables, which may depend on them.
fn levels(code: &Code, state: &State) -> u64 {
    let (mut asked, mut far) = (0, 0);
    for site in &code.scouts {
        let Some(table) = state.table(site.table) else {
            continue;
        };
        let is_indexed = site.may_be_near() && has_near_index(table);
        if site.answers_at_once || site.is_direct() || is_indexed {
            continue;
        }
        asked |= 1 << site.level;
        if !(site.may_be_unasked() && has_near_lines(table)) {
            far |= 1 << site.level;
        }
    }
    // The first prefetch pass parses for the later ones.
    let first = code.parsed.as_ref().map_or(0, |parsed| 1 << parsed.level);
    let with_first = |levels: u64| if levels != 0 { levels | first } else { 0 };
    with_first(asked) << MANY | with_first(up_to_last(asked, far))
}

/// Returns the levels in `asked` up to the last level in `of`.
fn up_to_last(asked: u64, of: u64) -> u64 {
    match of.checked_ilog2() {
        Some(last) => asked & ((2 << last) - 1),
        None => 0,
    }
}

/// Returns true if the lines of a table's hash table stay in the L1 cache, unless many devices
/// alternate.
fn has_near_lines(table: &TableState) -> bool {
    let hashed = table.lookup.hashed();
    hashed.is_some_and(|index| index.count <= NEAR_LINES)
}

/// Returns the sites of which native code reads results in a state.
fn looked_at_in(state: &State, code: &Code) -> u64 {
    let looked_at = |site: &PrefetchSite| {
        let table = state.table(site.table);
        !table.is_some_and(|table| site.is_always_near(&table.lookup))
    };
    let sites = code.scouts.iter().zip(0..u64::BITS);
    sites.fold(0, |sites, (site, bit)| {
        sites | u64::from(looked_at(site)) << bit
    })
}

/// Returns true if the table has an index that native code searches itself. Compilation decides
/// which tables native code may search.
fn has_near_index(table: &TableState) -> bool {
    table.lookup.direct().is_some() || table.lookup.vectors().is_some()
}

/// Appends the words of the parts of each [`VectorIndex`], and stores their offsets in the table's
/// words.
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

/// Returns the address of a table's first record. Asserts that the layout of records is the one
/// that native code reads.
fn records_of(lookup: &Lookup, site: &TableSite) -> usize {
    let is_read = *lookup.record_layout() == *site.records;
    assert!(is_read, "a table whose records have another layout");
    lookup.records().first().expose_provenance()
}

/// Returns the words that describe a table's index, from the slots on.
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
    use crate::lookup_buffer::tests::compiled;
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
        derive(&mut derived, &state, CounterShard::new(0), &compiled.code);
        // The first table has few rules, which native code searches itself.
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
