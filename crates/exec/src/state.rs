//! A device's state as packets of one program see it: an immutable root of tables and shared cells.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use ir::{ExternId, HashAlgorithm, TableId};
use packet::Nanos;
use table::{
    ActionRef, CounterArray, EntryAction, EntryId, EntryIdx, GroupId, Lane, Learned, LearningTable,
    Lookup, MemberId, MeterArray, MeterCell, ProfileLookup, ValueSet,
};

use crate::{AtomicGate, HashParameters, Registers};

/// The root that packets read. Cells behind it are shared with other roots of the device.
#[derive(Debug)]
pub struct State {
    /// Tables, by [`TableId`].
    pub tables: Box<[TableState]>,
    /// Extern instances, by [`ExternId`].
    pub externs: Box<[ExternState]>,
    /// Parser value sets, by [`ir::ValueSetId`].
    pub value_sets: Box<[ValueSet]>,
    /// Parameters of hashes.
    pub hash: Arc<HashParameters>,
    /// PNA: which ports are host ports, ascending; the others are network ports.
    pub host_ports: Arc<[u32]>,
    /// PNA: time-outs by profile.
    pub expire_profiles: Arc<ExpireProfiles>,
    /// PNA: the next flow id.
    pub next_flow_id: Arc<AtomicU32>,
    /// What `@atomic` code goes through.
    pub atomic: Arc<AtomicGate>,
}

impl State {
    /// The state of an extern instance.
    #[inline]
    pub fn extern_state(&self, id: ExternId) -> Option<&ExternState> {
        self.externs.get(id.get() as usize)
    }

    /// The registers of an instance.
    #[inline]
    pub fn registers(&self, id: ExternId) -> Option<&Registers> {
        match self.extern_state(id) {
            Some(ExternState::Register(registers)) => Some(registers),
            _ => None,
        }
    }

    /// The state of a table.
    #[inline]
    pub fn table(&self, id: TableId) -> Option<&TableState> {
        self.tables.get(id.get() as usize)
    }

    /// A flow id that no other packet got, as long as 32 bits suffice.
    pub fn allocate_flow_id(&self) -> u32 {
        self.next_flow_id.fetch_add(1, Relaxed)
    }

    /// Whether a port is a host port (PNA).
    pub fn is_host_port(&self, port: u64) -> bool {
        u32::try_from(port).is_ok_and(|port| self.host_ports.binary_search(&port).is_ok())
    }
}

/// The state of an extern instance.
#[derive(Clone, Debug)]
pub enum ExternState {
    /// Counters.
    Counter(Arc<CounterArray>),
    /// Meters.
    Meter(Arc<MeterArray>),
    /// Registers.
    Register(Arc<Registers>),
    /// Members and groups of an action profile or selector.
    Profile(Arc<ProfileLookup>),
    /// The instance has no state of the device's.
    None,
}

/// A table as packets see it.
#[derive(Debug)]
pub struct TableState {
    /// Entries of the control plane and the program, and the default action.
    pub lookup: Arc<Lookup>,
    /// Entries that packets added, where they may.
    pub learned: Option<Arc<LearningTable>>,
    /// The action profile or selector that holds the table's actions.
    pub profile: Option<ProfileState>,
}

/// The action profile or selector of a table.
#[derive(Debug)]
pub struct ProfileState {
    /// Members and groups.
    pub lookup: Arc<ProfileLookup>,
    /// The selector's hash; CRC-16 for a profile. All of its bits count, or a group with more
    /// members than the selector's width can number would have members that get no packet.
    pub algorithm: HashAlgorithm,
}

/// What a lookup found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing: the default action runs.
    Miss,
    /// An entry of [`TableState::lookup`].
    Entry(EntryIdx),
    /// An entry that a packet added; its parameters are in [`crate::PacketContext::learned_params`].
    Learned(Learned),
}

impl Found {
    /// The entry of [`TableState::lookup`] that stands for it, or none for the default action; nothing for learned entries.
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
    /// Finds the entry for a key: each field's limbs in order, canonical.
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

    /// Notes a packet for what was found.
    #[inline]
    pub fn record(&self, found: &Found, lane: Lane, bytes: u64, now: Nanos) {
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

    /// Counts a packet in the direct counter of what was found, if it has one.
    #[inline]
    pub fn count(&self, found: &Found, lane: Lane, bytes: u64) {
        if let Some(found) = found.in_lookup() {
            self.lookup.count(found, lane, bytes);
        }
    }

    /// The direct meter of what was found, if it has one.
    pub fn meter(&self, found: &Found) -> Option<&MeterCell> {
        self.lookup.meter(found.in_lookup()?)
    }

    /// The id of the entry found.
    pub fn entry_id(&self, found: &Found) -> Option<EntryId> {
        match found {
            Found::Miss => None,
            Found::Entry(idx) => Some(self.lookup.entry(*idx).id),
            Found::Learned(hit) => Some(hit.id),
        }
    }

    /// What an entry or the default action says to run. `None` for learned entries, whose action is in the hit.
    #[inline]
    pub fn action(&self, found: &Found) -> Option<&EntryAction> {
        match found {
            Found::Miss => Some(self.lookup.default_action()),
            Found::Entry(idx) => Some(&self.lookup.entry(*idx).action),
            Found::Learned(_) => None,
        }
    }

    /// The action of a member of the table's profile.
    #[inline]
    pub fn member(&self, member: MemberId) -> Option<&ActionRef> {
        self.profile.as_ref()?.lookup.member(member)
    }

    /// The member of a group that this hash chooses.
    #[inline]
    pub fn pick(&self, group: GroupId, hash: u64) -> Option<MemberId> {
        let profile = self.profile.as_ref()?;
        profile.lookup.pick(group, hash)
    }
}

/// PNA: how long entries that packets add stay without being hit, by profile number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpireProfiles {
    timeouts: Vec<Option<Nanos>>,
}

impl ExpireProfiles {
    /// The time-out of a profile in nanoseconds; a profile that is not set never expires.
    pub fn timeout_ns(&self, profile: u64) -> Option<u64> {
        let at = usize::try_from(profile).ok()?;
        self.timeouts
            .get(at)
            .copied()
            .flatten()
            .map(|nanos| nanos.0)
    }

    /// The shortest time-out of all profiles.
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
