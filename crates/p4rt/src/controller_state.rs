//! Controller data that the device does not interpret. It is kept so that reads return exactly what
//! was written (section "Read-Write Symmetry").

use std::collections::BTreeSet;

use ir::{ExternId, Program, TableId};
use p4info::p4::v1::{CloneSessionEntry, MulticastGroupEntry, action_profile_group, digest_entry};
use packet::PortId;
use prost::Message;
use switch::{Change, CloneSession, Device, EntryId};
use table::GroupId;

use crate::undo_map::{Before, UndoMap};
use crate::write::{live_members, live_replicas, settle};

/// Previous values of everything that was changed, for undo.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) groups: Before<(ExternId, u32), Group>,
    pub(crate) multicast: Before<u32, MulticastGroupEntry>,
    pub(crate) sessions: Before<u32, CloneSessionEntry>,
    pub(crate) defaults: Before<TableId, Kept>,
    pub(crate) digests: Before<ExternId, digest_entry::Config>,
}

/// Controller data of one device and program.
#[derive(Clone, Debug, Default)]
pub(crate) struct ControllerState {
    /// Groups of action selectors, as written.
    pub(crate) groups: UndoMap<(ExternId, u32), Group>,
    /// Multicast groups and clone sessions, as written.
    pub(crate) multicast: UndoMap<u32, MulticastGroupEntry>,
    pub(crate) sessions: UndoMap<u32, CloneSessionEntry>,
    /// Data of the tables' default entries.
    pub(crate) defaults: UndoMap<TableId, Kept>,
    /// Ports that are down.
    pub(crate) down: BTreeSet<PortId>,
    /// Configuration of the enabled digests.
    pub(crate) digests: UndoMap<ExternId, digest_entry::Config>,
}

impl ControllerState {
    /// Returns the changes since the last call.
    pub(crate) fn take_changes(&mut self) -> Changes {
        Changes {
            groups: self.groups.take_before(),
            multicast: self.multicast.take_before(),
            sessions: self.sessions.take_before(),
            defaults: self.defaults.take_before(),
            digests: self.digests.take_before(),
        }
    }

    /// Reverts changes.
    pub(crate) fn put_back(&mut self, changes: Changes) {
        self.groups.put_back(changes.groups);
        self.multicast.put_back(changes.multicast);
        self.sessions.put_back(changes.sessions);
        self.defaults.put_back(changes.defaults);
        self.digests.put_back(changes.digests);
    }

    /// Returns the data that survives when the forwarding state is cleared: the ports that are
    /// down.
    pub(crate) fn cleared(self) -> ControllerState {
        ControllerState {
            down: self.down,
            ..ControllerState::default()
        }
    }

    /// Returns the data that survives when files replace the forwarding state: the ports that are
    /// down, and the digests that controllers have enabled.
    pub(crate) fn of_files(self) -> ControllerState {
        ControllerState {
            down: self.down,
            digests: self.digests,
            ..ControllerState::default()
        }
    }

    /// Converts the data to another program that has kept the device's state. Objects are found by
    /// name, because their ids differ.
    pub(crate) fn moved(self, before: &Program, after: &Program) -> ControllerState {
        let instance = |id: ExternId| {
            let name = &before.externs.get(id)?.name;
            let mut externs = after.externs.iter();
            externs.find(|(_, one)| one.name == *name).map(|(id, _)| id)
        };
        let table = |id: TableId| {
            let name = &before.tables.get(id)?.name;
            let mut tables = after.tables.iter();
            tables.find(|(_, one)| one.name == *name).map(|(id, _)| id)
        };
        let groups = self.groups.into_iter();
        let defaults = self.defaults.into_iter();
        let digests = self.digests.into_iter();
        ControllerState {
            groups: groups
                .filter_map(|((id, group), kept)| Some(((instance(id)?, group), kept)))
                .collect(),
            defaults: defaults
                .filter_map(|(id, kept)| Some((table(id)?, kept)))
                .collect(),
            digests: digests
                .filter_map(|(id, config)| Some((instance(id)?, config)))
                .collect(),
            ..self
        }
    }

    /// Removes groups that the device no longer has.
    pub(crate) fn forget_lost(&mut self, device: &Device) {
        let profiles = &device.configuration().profiles;
        let is_lost = |(profile, group): &&(ExternId, u32)| {
            let profile = profiles.get(*profile).and_then(Option::as_ref);
            profile.is_none_or(|profile| profile.group(GroupId::new(*group)).is_none())
        };
        let lost: Vec<_> = self.groups.keys().filter(is_lost).copied().collect();
        for group in lost {
            self.groups.remove(&group);
        }
    }

    /// Processes a change of a port's state. The device then gets only the members and replicas
    /// with live ports.
    pub(crate) fn port_changed(&mut self, device: &mut Device, port: PortId, is_up: bool) {
        let is_news = match is_up {
            true => self.down.remove(&port),
            false => self.down.insert(port),
        };
        if is_news {
            self.settle(device);
        }
    }

    /// Updates the device to the members and replicas with live ports.
    pub(crate) fn settle(&self, device: &mut Device) {
        for (table, entry) in watching(device) {
            settle(device, &self.down, table, entry);
        }
        for change in self.live_changes(device) {
            // Cannot fail: the live members and replicas are a subset of those accepted before.
            let _ = device.apply(change);
        }
    }

    /// Returns changes that set the live members and replicas of all groups and sessions.
    fn live_changes(&self, device: &Device) -> Vec<Change> {
        let groups = self
            .groups
            .iter()
            .map(|((profile, id), group)| Change::SetGroup {
                profile: *profile,
                id: *id,
                members: live_members(&group.members, &self.down),
            });
        let multicast = self.multicast.iter().map(|(id, group)| {
            Change::SetMulticast(*id, live_replicas(&group.replicas, &self.down))
        });
        let sessions = self.sessions.iter().filter_map(|(id, session)| {
            let made = device.replication().session(*id)?.clone();
            let replicas = live_replicas(&session.replicas, &self.down);
            Some(Change::SetCloneSession(
                *id,
                CloneSession { replicas, ..made },
            ))
        });
        groups.chain(multicast).chain(sessions).collect()
    }
}

/// Returns the entries with a one-shot action set that has watch ports.
fn watching(device: &Device) -> Vec<(TableId, EntryId)> {
    let tables = device.program().tables.iter();
    let with_profile = tables.filter(|(_, table)| table.implementation.is_some());
    let mut found = Vec::new();
    for (table, _) in with_profile {
        let entries = device.configuration().tables[table].iter();
        let watching = entries.filter(|entry| Kept::from_bytes(&entry.metadata).is_watching());
        found.extend(watching.map(|entry| (table, entry.id)));
    }
    found
}

/// A group of an action selector.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    pub(crate) members: Vec<action_profile_group::Member>,
    pub(crate) max_size: i32,
}

/// Controller data of an entry, stored as the entry's metadata in the device.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Kept {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) metadata: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub(crate) controller_metadata: u64,
    /// One element for each action of a one-shot action set.
    #[prost(message, repeated, tag = "3")]
    pub(crate) shots: Vec<Shot>,
    #[prost(int32, tag = "4")]
    pub(crate) selection_mode: i32,
    #[prost(int32, tag = "5")]
    pub(crate) size_semantics: i32,
}

/// Data of a one-shot action that the device does not interpret.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Shot {
    #[prost(int32, tag = "1")]
    pub(crate) weight: i32,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) watch_port: Vec<u8>,
    #[prost(int32, optional, tag = "3")]
    pub(crate) watch: Option<i32>,
    /// The action's name and arguments, if any action of the set has a watch port. They are needed
    /// because the device stores live actions only.
    #[prost(string, tag = "4")]
    pub(crate) name: String,
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub(crate) args: Vec<Vec<u8>>,
}

impl Kept {
    /// Returns true if a one-shot action has a watch port.
    pub(crate) fn is_watching(&self) -> bool {
        self.shots.iter().any(|shot| !shot.name.is_empty())
    }

    /// Encodes the data as an entry's metadata. Empty data gives no bytes.
    pub(crate) fn to_bytes(&self) -> Box<[u8]> {
        self.encode_to_vec().into()
    }

    /// Decodes an entry's metadata. Only this crate writes it, so it is well-formed.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Kept {
        Kept::decode(bytes).unwrap_or_default()
    }
}
