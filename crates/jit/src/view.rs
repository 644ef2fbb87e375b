//! What native code sees of a state: where the records and counts of its tables are, and its counters' cells.
//!
//! Four words a table, then two words an extern instance (cells, how many). They are made once for a state and a lane, and kept with the context;
//! everything that they point to lives as long as the state, and nothing of it moves.

use exec::{ExternState, PacketContext, State};
use ir::{ExternId, Program, TableId};
use table::Cells;

/// Bytes of a table's part.
const TABLE: i32 = 32;

/// Bytes of an extern's part.
const EXTERN: i32 = 16;

/// The offsets of a table's words.
pub(crate) struct TableView {
    /// Its records.
    pub(crate) records: i32,
    /// Its rows of use, if packets note each entry's use there; else 0.
    pub(crate) usage: i32,
    /// Its direct counters.
    pub(crate) counts: i32,
    /// Its totals.
    pub(crate) totals: i32,
}

/// Where a table's words are.
pub(crate) fn of_table(table: TableId) -> TableView {
    let first = table.get() as i32 * TABLE;
    TableView {
        records: first,
        usage: first + 8,
        counts: first + 16,
        totals: first + 24,
    }
}

/// The offset of an extern's cells; how many they are is eight bytes behind.
pub(crate) fn extern_at(program: &Program, id: ExternId) -> i32 {
    program.tables.len() as i32 * TABLE + id.get() as i32 * EXTERN
}

/// Makes the words for this state and the packet's lane, unless they are there. They begin where the result says.
pub(crate) fn derive(packet: &mut PacketContext, state: &State) -> *const u64 {
    let of = Some((state.number, packet.lane));
    if packet.derived.of != of {
        make(packet, state);
        packet.derived.of = of;
    }
    packet.derived.words.as_ptr()
}

#[cold]
fn make(packet: &mut PacketContext, state: &State) {
    let words = &mut packet.derived.words;
    words.clear();
    for table in &state.tables {
        let lookup = &table.lookup;
        let records = lookup.records().limbs().as_ptr().expose_provenance();
        let first = |cells: &Cells| cells.lane(packet.lane).as_ptr().expose_provenance();
        let usage = match lookup.notes_usage() {
            true => first(lookup.usage()),
            false => 0,
        };
        let (counts, totals) = (first(lookup.counts()), first(lookup.totals()));
        let parts = [records, usage, counts, totals];
        words.extend(parts.map(|part| part as u64));
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
}
