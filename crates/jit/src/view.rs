//! What native code sees of a state: where the records and counts of its tables are, how tables with simple indices are looked up, and its counters' cells.
//!
//! Nine words a table, two words an extern instance (cells, how many), and a last one: the levels of scouts that have something to ask. They are made once
//! for a state and a lane, and kept with the context; everything that they point to lives as long as the state, and nothing of it moves.

use exec::{ExternState, PacketContext, State};
use ir::{ExternId, Program, TableId};
use table::{Cells, Lookup};

use crate::abi::Code;
use crate::translate::ScoutSite;

/// Bytes of a table's part.
const TABLE: i32 = 72;

/// Bytes of an extern's part.
const EXTERN: i32 = 16;

/// Limbs of a key that native code looks up by itself, at most.
pub(crate) const MOST_DIGITS: usize = 2;

/// The offsets of a table's words.
pub(crate) struct TableView {
    /// Its records.
    pub(crate) records: i32,
    /// Its rows of use.
    pub(crate) usage: i32,
    /// Its direct counters.
    pub(crate) counts: i32,
    /// Its totals.
    pub(crate) totals: i32,
    /// The slots of its [`table::DirectIndex`], if it has one; else 0, and nothing in the words behind.
    pub(crate) slots: i32,
    /// The number of the last slot.
    pub(crate) last_slot: i32,
    /// By limb of the key: how far it is shifted, and which of its bits are outside.
    pub(crate) digits: [(i32, i32); MOST_DIGITS],
}

/// Where a table's words are.
pub(crate) fn of_table(table: TableId) -> TableView {
    let first = table.get() as i32 * TABLE;
    TableView {
        records: first,
        usage: first + 8,
        counts: first + 16,
        totals: first + 24,
        slots: first + 32,
        last_slot: first + 40,
        // The first digit is not shifted, and nobody reads by how much.
        digits: [(first + 56, first + 48), (first + 56, first + 64)],
    }
}

/// The offset of an extern's cells; how many they are is eight bytes behind.
pub(crate) fn extern_at(program: &Program, id: ExternId) -> i32 {
    program.tables.len() as i32 * TABLE + id.get() as i32 * EXTERN
}

/// Makes the words for this state and the packet's lane, unless they are there. They begin where the result says.
pub(crate) fn derive(packet: &mut PacketContext, state: &State, code: &Code) -> *const u64 {
    let of = Some((state.number, packet.lane));
    if packet.derived.of != of {
        make(packet, state, code);
        packet.derived.of = of;
    }
    packet.derived.words.as_ptr()
}

/// Whether the scout of a level has something to ask, of the words that were derived last.
pub(crate) fn is_scouted(packet: &PacketContext, level: usize) -> bool {
    let levels = packet.derived.words.last();
    levels.is_some_and(|levels| levels >> level & 1 != 0)
}

#[cold]
fn make(packet: &mut PacketContext, state: &State, code: &Code) {
    let words = &mut packet.derived.words;
    words.clear();
    for table in &state.tables {
        let lookup = &table.lookup;
        let records = lookup.records().limbs().as_ptr().expose_provenance();
        let first = |cells: &Cells| cells.lane(packet.lane).as_ptr().expose_provenance();
        let usage = first(lookup.usage());
        let (counts, totals) = (first(lookup.counts()), first(lookup.totals()));
        let parts = [records, usage, counts, totals];
        words.extend(parts.map(|part| part as u64));
        words.extend(direct_words(lookup));
    }
    for instance in &state.externs {
        let (cells, count) = match instance {
            ExternState::Counter(counters) => {
                let cells = counters.cells().lane(packet.lane).as_ptr();
                (cells.expose_provenance(), counters.len())
            }
            _ => (0, 0),
        };
        words.extend([cells as u64, count as u64]);
    }
    let asks = |site: &&ScoutSite| {
        let table = state.table(site.table);
        let is_direct = table.is_some_and(|table| direct_words(&table.lookup)[0] != 0);
        let is_native = site.answers_at_once || site.may_be_direct && is_direct;
        !is_native
    };
    let asked = code.scouts.iter().filter(asks);
    words.push(asked.fold(0, |levels, site| levels | 1 << site.level));
}

/// The words about a table's index from its slots on.
fn direct_words(lookup: &Lookup) -> [u64; 5] {
    let direct = lookup.direct();
    let Some(direct) = direct.filter(|direct| direct.digits.len() <= MOST_DIGITS) else {
        return [0; 5];
    };
    let digit = |limb: usize| direct.digits.get(limb).copied().unwrap_or_default();
    let (first, second) = (digit(0), digit(1));
    let slots = direct.slots.as_ptr().expose_provenance();
    let last = direct.slots.len() as u64 - 1;
    [
        slots as u64,
        last,
        first.outside,
        second.shift.into(),
        second.outside,
    ]
}
