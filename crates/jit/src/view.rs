//! What native code sees of a state: where the records and counts of its tables are, and its counters' cells.
//!
//! Two words a table (records, counts), then two words an extern instance (cells, how many). They are made once for a state and a lane, and kept with the
//! context; everything that they point to lives as long as the state, and nothing of it moves.

use exec::{ExternState, PacketContext, State};
use ir::{ExternId, Program, TableId};

/// Bytes of a table's or an extern's part.
const PART: i32 = 16;

/// The offset of a table's records; its counts are eight bytes behind.
pub(crate) fn table_at(table: TableId) -> i32 {
    table.get() as i32 * PART
}

/// The offset of an extern's cells; how many they are is eight bytes behind.
pub(crate) fn extern_at(program: &Program, id: ExternId) -> i32 {
    (program.tables.len() as i32 + id.get() as i32) * PART
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
        let records = table.lookup.records().limbs().as_ptr();
        let counts = table.lookup.cells().lane(packet.lane).as_ptr();
        words.extend([records.expose_provenance(), counts.expose_provenance()].map(|p| p as u64));
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
