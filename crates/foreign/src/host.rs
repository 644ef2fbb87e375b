//! Operations that handlers call: tables, leases, the packet.

use exec::{Found, PacketContext, State, TableState};
use table::{EntryActionRef, Learn, LearnError, LearningTable};

use crate::load::{HandlerCode, TableCode};

/// `CLIP_OK`, `CLIP_EXISTS`, `CLIP_FULL` and `CLIP_INVALID`.
pub(crate) const OK: i32 = 0;
pub(crate) const EXISTS: i32 = 1;
pub(crate) const FULL: i32 = 2;
pub(crate) const INVALID: i32 = 3;

/// Number of attempts while another packet changes the entry of the same key.
const ATTEMPTS: u32 = 1000;

/// Finds an entry. Writes its parameters, and returns the position of its action.
pub(crate) fn find(
    table: &TableCode,
    state: &State,
    key: &[u64],
    params: &mut [u64],
) -> Option<u32> {
    let position = |action: u32| table.positions.get(&action).copied();
    let searched = state.table(table.id)?;
    match searched.find(key, params) {
        Found::Miss => None,
        Found::Learned(hit) => position(hit.action),
        Found::Entry(idx) => {
            let call = match searched.lookup.action(Some(idx)) {
                EntryActionRef::Direct(call) => call,
                EntryActionRef::Member(member) => searched.member(member)?.into(),
                EntryActionRef::Group(_) => return None,
            };
            params
                .get_mut(..call.params.len())?
                .copy_from_slice(call.params);
            position(call.action)
        }
    }
}

/// Repeats an operation while another packet changes the entry of the same key.
fn settled<T>(mut operation: impl FnMut() -> Result<T, LearnError>) -> Result<T, LearnError> {
    for attempt in 0..ATTEMPTS {
        match operation() {
            Err(LearnError::Contended) => {
                // Two packets that wait equally long could collide for ever.
                for _ in 0..attempt * 7 % 61 {
                    std::hint::spin_loop();
                }
            }
            result => return result,
        }
    }
    Err(LearnError::Contended)
}

fn learned<'s>(table: &TableCode, state: &'s State) -> Option<(&'s TableState, &'s LearningTable)> {
    let table = state.table(table.id)?;
    Some((table, table.learned.as_deref()?))
}

/// Inserts an entry. Returns `CLIP_OK`, `CLIP_EXISTS`, `CLIP_FULL` or `CLIP_INVALID`.
pub(crate) fn insert(
    table: &TableCode,
    state: &State,
    (key, position, params): (&[u64], u32, &[u64]),
    idle_ns: u64,
    now_ns: u64,
) -> i32 {
    let Some((searched, learned)) = learned(table, state) else {
        return INVALID;
    };
    let Some((action, limbs)) = table.actions.get(&position) else {
        return INVALID;
    };
    let Some(params) = params.get(..*limbs) else {
        return INVALID;
    };
    if searched.lookup.find(key).is_some() {
        return EXISTS;
    }
    let new = Learn {
        key,
        action: action.get(),
        params,
        idle_timeout_ns: (idle_ns != 0).then_some(idle_ns),
        now_ns,
    };
    match settled(|| learned.insert(new)) {
        Ok(_) => OK,
        Err(LearnError::Exists | LearnError::Contended) => EXISTS,
        Err(LearnError::Full) => FULL,
        Err(LearnError::WrongSize) => INVALID,
    }
}

/// Replaces the action of an entry that a packet inserted. Returns true if there is one.
pub(crate) fn modify(
    table: &TableCode,
    state: &State,
    (key, position, params): (&[u64], u32, &[u64]),
) -> bool {
    let Some((_, learned)) = learned(table, state) else {
        return false;
    };
    let Some((action, limbs)) = table.actions.get(&position) else {
        return false;
    };
    let Some(params) = params.get(..*limbs) else {
        return false;
    };
    settled(|| learned.replace(key, action.get(), params)).unwrap_or(false)
}

/// Deletes an entry that a packet inserted. Returns true if there is one.
pub(crate) fn delete(table: &TableCode, state: &State, key: &[u64]) -> bool {
    let Some((_, learned)) = learned(table, state) else {
        return false;
    };
    settled(|| learned.remove(key)).unwrap_or(false)
}

/// Leases a range of a pool. Returns the first value and the number of values.
pub(crate) fn lease(code: &HandlerCode, pool: u32) -> Option<(u32, u32)> {
    code.variables.pool(pool)?.lease(code.server)
}

/// Ends a lease. Returns false if no lease begins with this value.
pub(crate) fn release(code: &HandlerCode, pool: u32, first: u32) -> bool {
    code.variables
        .pool(pool)
        .is_some_and(|pool| pool.release(first))
}

/// Returns `len` bytes of the packet from `at` on, if none of them was parsed.
pub(crate) fn bytes(packet: &mut PacketContext, at: u32, len: u32) -> Option<&mut [u8]> {
    let parsed = packet.cursor.div_ceil(8);
    let (at, len) = (at as usize, len as usize);
    if at < parsed {
        return None;
    }
    packet.bytes.bytes_mut().get_mut(at..at.checked_add(len)?)
}

/// Returns the bytes after the parsed ones: `len` of them from `index` on, as far as there are any.
/// `None` if `index` is outside.
pub(crate) fn payload(packet: &PacketContext, index: u32, len: u32) -> Option<&[u8]> {
    let rest = packet.payload().get(index as usize..)?;
    Some(&rest[..rest.len().min(len as usize)])
}

/// Appends a line to the packet's messages.
pub(crate) fn log(packet: &mut PacketContext, text: &[u8]) {
    for chunk in text.trim_ascii_end().utf8_chunks() {
        packet.log.push(chunk.valid());
        if !chunk.invalid().is_empty() {
            packet.log.push("\u{fffd}");
        }
    }
    packet.log.end_line();
}
