//! Stateful externs: operations on counters, meters and entries that packets add, in a device's
//! [`State`].

use ir::{ActionId, ExternId, TableId};
use table::{Color, CounterKind, CounterReading, CounterShard, Learn};

use crate::{CurrentEntry, ExternState, Found, PacketContext, State, TableState};

/// Returns a colour's number in IR code: 0 green, 1 yellow, 2 red.
pub fn color_number(color: Color) -> u64 {
    match color {
        Color::Green => 0,
        Color::Yellow => 1,
        Color::Red => 2,
    }
}

/// Returns the colour with this number. Any other number is red.
pub fn color_of_number(number: u64) -> Color {
    match number {
        0 => Color::Green,
        1 => Color::Yellow,
        _ => Color::Red,
    }
}

/// Counts the packet at an index. An index outside the array has no effect.
pub fn counter_count(
    state: &State,
    lane: CounterShard,
    counter: ExternId,
    index: u64,
    length: u64,
) {
    if let Some(ExternState::Counter(array)) = state.extern_state(counter) {
        array.count(lane, index, length);
    }
}

/// Adds `amount` to the packet count and the byte count, as far as the counter has them.
pub fn counter_add(state: &State, lane: CounterShard, counter: ExternId, index: u64, amount: u64) {
    if let Some(ExternState::Counter(array)) = state.extern_state(counter) {
        let counts = |other| if array.kind() == other { 0 } else { amount };
        let amounts = CounterReading {
            packets: counts(CounterKind::Bytes),
            bytes: counts(CounterKind::Packets),
        };
        array.add(lane, index, amounts);
    }
}

/// Counts the packet in the direct counter of the table being applied.
pub fn direct_counter_count(state: &State, packet: &PacketContext, length: u64) {
    if let Some((table, found)) = current(state, packet) {
        table.count(found, packet.lane, length);
    }
}

/// Executes a meter at an index. The packet is green if the index is outside the array.
pub fn meter_execute(
    state: &State,
    meter: ExternId,
    index: u64,
    before: Color,
    packet: &PacketContext,
    length: u64,
) -> Color {
    match state.extern_state(meter) {
        Some(ExternState::Meter(array)) => array
            .execute(index, before, length, packet.now.0)
            .unwrap_or_default(),
        _ => Color::default(),
    }
}

/// Executes the direct meter of the table being applied.
pub fn direct_meter_execute(
    state: &State,
    before: Color,
    packet: &PacketContext,
    length: u64,
) -> Color {
    match current(state, packet).and_then(|(table, found)| table.meter(found)) {
        Some(meter) => meter.execute(before, length, packet.now.0),
        None => before,
    }
}

/// Returns the table being applied and its lookup result.
fn current<'s, 'p>(
    state: &'s State,
    packet: &'p PacketContext,
) -> Option<(&'s TableState, &'p Found)> {
    let current = packet.current.as_ref()?;
    Some((state.table(current.table)?, &current.found))
}

/// PNA `add_entry`: adds an entry for the key that was missed. Returns true if it was added. It
/// takes effect only after a miss, that is in the default action. An entry for a key that was hit
/// would not be found until the entry that was hit is gone.
pub fn add_entry(
    state: &State,
    current: &CurrentEntry,
    key: &[u64],
    action: ActionId,
    params: &[u64],
    profile: u64,
    now_ns: u64,
) -> bool {
    if current.found != Found::Miss {
        return false;
    }
    let table: TableId = current.table;
    let Some(learned) = state
        .tables
        .get(table.get() as usize)
        .and_then(|table| table.learned.as_ref())
    else {
        return false;
    };
    let new = Learn {
        key,
        action: action.get(),
        params,
        idle_timeout_ns: state.expire_profiles.timeout_ns(profile),
        now_ns,
    };
    learned.insert(new).is_ok()
}

/// PNA `set_entry_expire_time`: sets the time-out of the entry that was hit to that of this
/// profile.
pub fn set_entry_expire_time(state: &State, profile: u64, packet: &PacketContext) {
    if let Some((learned, hit)) = current_learned(state, packet) {
        learned.set_idle_timeout(hit, state.expire_profiles.timeout_ns(profile), packet.now.0);
    }
}

/// PNA `restart_expire_timer`: restarts the time-out of the entry that was hit.
pub fn restart_expire_timer(state: &State, packet: &PacketContext) {
    if let Some((learned, hit)) = current_learned(state, packet) {
        learned.restart_timer(hit, packet.now.0);
    }
}

fn current_learned<'s, 'p>(
    state: &'s State,
    packet: &'p PacketContext,
) -> Option<(&'s table::LearningTable, &'p table::Learned)> {
    let current = packet.current.as_ref()?;
    let table = state.tables.get(current.table.get() as usize)?;
    match &current.found {
        Found::Learned(hit) => Some((table.learned.as_deref()?, hit)),
        _ => None,
    }
}
