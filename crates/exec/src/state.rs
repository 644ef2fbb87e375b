//! State of a device as the packets of one program read it: an immutable snapshot of tables and
//! shared cells.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use ir::{ExternId, HashAlgorithm, TableId};
use packet::Nanos;
use table::{
    ActionRef, CounterArray, CounterShard, EntryActionRef, EntryId, EntryIdx, GroupId, Learned,
    LearningTable, Lookup, MemberId, MeterArray, MeterCell, ProfileLookup, ValueSet,
};

use crate::{AtomicGate, HashParameters, Registers, StateHandlers};

/// Immutable snapshot that packets read. Its cells (counters, meters, registers) are shared with
/// the device's other snapshots.
#[derive(Debug)]
pub struct State {
    /// Tables, indexed by [`TableId`].
    pub tables: Box<[TableState]>,
    /// Extern instances, indexed by [`ExternId`].
    pub externs: Box<[ExternState]>,
    /// Parser value sets, indexed by [`ir::ValueSetId`].
    pub value_sets: Box<[ValueSet]>,
    /// Parameters of the hash algorithms.
    pub hash: Arc<HashParameters>,
    /// PNA: numbers of the host ports, ascending. All other ports are network ports.
    pub host_ports: Arc<[u32]>,
    /// PNA: time-outs, by expire profile.
    pub expire_profiles: Arc<ExpireProfiles>,
    /// PNA: the next flow id to allocate.
    pub next_flow_id: Arc<AtomicU32>,
    /// Lock that serializes `@atomic` code.
    pub atomic: Arc<AtomicGate>,
    /// Handlers in place of those with which the program was loaded.
    pub handlers: StateHandlers,
}

impl State {
    /// Returns the state of an extern instance.
    #[inline]
    pub fn extern_state(&self, id: ExternId) -> Option<&ExternState> {
        self.externs.get(id.get() as usize)
    }

    /// Returns the registers of an extern instance, or `None` if it is not a register.
    #[inline]
    pub fn registers(&self, id: ExternId) -> Option<&Registers> {
        match self.extern_state(id) {
            Some(ExternState::Register(registers)) => Some(registers),
            _ => None,
        }
    }

    /// Returns the state of a table.
    #[inline]
    pub fn table(&self, id: TableId) -> Option<&TableState> {
        self.tables.get(id.get() as usize)
    }

    /// Allocates a flow id. Ids are unique until the 32-bit counter wraps around.
    pub fn allocate_flow_id(&self) -> u32 {
        self.next_flow_id.fetch_add(1, Relaxed)
    }

    /// Returns true if a port is a host port (PNA).
    pub fn is_host_port(&self, port: u64) -> bool {
        u32::try_from(port).is_ok_and(|port| self.host_ports.binary_search(&port).is_ok())
    }
}

/// State of an extern instance.
#[derive(Clone, Debug)]
pub enum ExternState {
    /// A counter array.
    Counter(Arc<CounterArray>),
    /// A meter array.
    Meter(Arc<MeterArray>),
    /// A register array.
    Register(Arc<Registers>),
    /// Members and groups of an action profile or action selector.
    Profile(Arc<ProfileLookup>),
    /// An instance without state in the device.
    None,
}

/// State of a table as packets read it.
#[derive(Debug)]
pub struct TableState {
    /// Entries of the control plane and of the program, and the default action.
    pub lookup: Arc<Lookup>,
    /// Entries that packets add (`add_on_miss`), if the table allows it.
    pub learned: Option<Arc<LearningTable>>,
    /// Action profile or action selector that holds the table's actions.
    pub profile: Option<ProfileState>,
}

/// State of a table's action profile or action selector.
#[derive(Debug)]
pub struct ProfileState {
    /// Members and groups.
    pub lookup: Arc<ProfileLookup>,
    /// Hash of the selector; CRC-16 for an action profile. All bits of the hash are used. If it
    /// were cut to the selector's width, a group with more members than that width can number would
    /// have members that never get a packet.
    pub algorithm: HashAlgorithm,
}

/// Result of a table lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A miss: the default action runs.
    Miss,
    /// A hit: an entry of [`TableState::lookup`].
    Entry(EntryIdx),
    /// A hit of an entry that a packet added. Its action parameters are in
    /// [`crate::PacketContext::learned_params`].
    Learned(Learned),
}

impl Found {
    /// Returns the index in [`TableState::lookup`]: `Some(None)` for the default action, `None` for
    /// learned entries.
    #[inline]
    fn in_lookup(&self) -> Option<Option<EntryIdx>> {
        match self {
            Found::Miss => Some(None),
            Found::Entry(idx) => Some(Some(*idx)),
            Found::Learned(_) => None,
        }
    }
}

impl TableState {
    /// Searches the table. `key` holds each field's limbs in order, canonical. The parameters of a
    /// learned entry are copied to `learned_params`.
    #[inline]
    pub fn find(&self, key: &[u64], learned_params: &mut [u64]) -> Found {
        if let Some(idx) = self.lookup.find(key) {
            return Found::Entry(idx);
        }
        match &self.learned {
            None => Found::Miss,
            Some(learned) => match learned.find(key, learned_params) {
                Some(hit) => Found::Learned(hit),
                None => Found::Miss,
            },
        }
    }

    /// Records a packet for the result of a lookup: hit counts and the time of last use.
    #[inline]
    pub fn record(&self, found: &Found, lane: CounterShard, bytes: u64, now: Nanos) {
        match found {
            Found::Miss => self.lookup.record(None, lane, bytes, now.0),
            Found::Entry(idx) => self.lookup.record(Some(*idx), lane, bytes, now.0),
            Found::Learned(hit) => {
                self.lookup.record_total(true, lane);
                if let Some(learned) = &self.learned {
                    learned.record(hit, bytes, now.0);
                }
            }
        }
    }

    /// Counts a packet in the direct counter of the entry or default action, if there is one.
    #[inline]
    pub fn count(&self, found: &Found, lane: CounterShard, bytes: u64) {
        if let Some(found) = found.in_lookup() {
            self.lookup.count(found, lane, bytes);
        }
    }

    /// Returns the direct meter of the entry or default action, if there is one.
    pub fn meter(&self, found: &Found) -> Option<&MeterCell> {
        self.lookup.meter(found.in_lookup()?)
    }

    /// Returns the id of the entry that was hit.
    pub fn entry_id(&self, found: &Found) -> Option<EntryId> {
        match found {
            Found::Miss => None,
            Found::Entry(idx) => Some(self.lookup.entry_id(*idx)),
            Found::Learned(hit) => Some(hit.id),
        }
    }

    /// Returns the action of an entry or the default action. `None` for learned entries: their
    /// action is in the hit.
    #[inline]
    pub fn action(&self, found: &Found) -> Option<EntryActionRef<'_>> {
        match found {
            Found::Miss => Some(self.lookup.action(None)),
            Found::Entry(idx) => Some(self.lookup.action(Some(*idx))),
            Found::Learned(_) => None,
        }
    }

    /// Returns the action of a member of the table's action profile.
    #[inline]
    pub fn member(&self, member: MemberId) -> Option<&ActionRef> {
        self.profile.as_ref()?.lookup.member(member)
    }

    /// Returns the member of a group that this hash selects.
    #[inline]
    pub fn pick(&self, group: GroupId, hash: u64) -> Option<MemberId> {
        let profile = self.profile.as_ref()?;
        profile.lookup.pick(group, hash)
    }
}

/// PNA expire time profiles: idle time-outs of entries that packets add, by profile number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpireProfiles {
    timeouts: Vec<Option<Nanos>>,
}

impl ExpireProfiles {
    /// Returns the time-out of a profile in nanoseconds. Entries of a profile that is not set never
    /// expire.
    pub fn timeout_ns(&self, profile: u64) -> Option<u64> {
        let at = usize::try_from(profile).ok()?;
        self.timeouts
            .get(at)
            .copied()
            .flatten()
            .map(|nanos| nanos.0)
    }

    /// Returns the shortest time-out of all profiles.
    pub fn shortest(&self) -> Option<Nanos> {
        self.timeouts.iter().flatten().min().copied()
    }

    /// Sets the time-out of a profile.
    pub fn set(&mut self, profile: u8, timeout: Option<Nanos>) {
        let at = usize::from(profile);
        if self.timeouts.len() <= at {
            self.timeouts.resize(at + 1, None);
        }
        self.timeouts[at] = timeout;
    }
}
