//! Limits of a device's resources, so that devices of several tenants can share a host. Programs
//! and entries are checked before they are accepted.

use std::fmt;

use exec::{Configuration, WorkBudget, state_bytes};
use ir::{Program, TableId};
use support::count::count_are;
use table::{GroupId, MemberId, Table};

use crate::control::{Action, Change, ControlCode, ControlError, refused};
use crate::device::Device;
use crate::pre::ReplicationEngine;

/// Maximum resources of a device. `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Number of table entries, including the program's own, members and groups of action profiles,
    /// value set members, multicast groups and clone sessions. Each group or session also counts
    /// its members or copies. With this limit an entry's metadata has at most [`MAX_METADATA`]
    /// bytes.
    pub entries: Option<u64>,
    /// Number of bytes of counters, meters, registers, and tables that packets write.
    pub state_bytes: Option<u64>,
    /// Number of stages of the program, without those that control the rounds through the stage
    /// slots ([`ir::Stage::is_of_turns`]).
    pub stages: Option<u64>,
    /// Work budget of each packet; [`WorkBudget::MAX`] by default.
    pub work: Option<WorkBudget>,
}

/// Maximum number of metadata bytes of an entry if entries are limited, so that the number of
/// entries bounds the memory.
pub const MAX_METADATA: usize = 1024;

/// Resource that is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    /// Entries.
    Entries,
    /// Bytes of state.
    StateBytes,
    /// Stages.
    Stages,
}

/// Error: a request exceeds a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The resource.
    pub what: Limited,
    /// Number of entries in use. Always 0 for bytes and stages, because a program replaces those of
    /// another.
    pub used: u64,
    /// Number after the request.
    pub asked: u64,
    /// The limit.
    pub allowed: u64,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exceeded {
            what,
            used,
            asked,
            allowed,
        } = self;
        match what {
            Limited::Entries if used == asked => write!(
                f,
                "{} used, but the quota is {allowed}; delete some first, or ask for a larger quota",
                count_are(*used, "entry")
            ),
            Limited::Entries => write!(
                f,
                "{} used and there would be {asked}, but the quota is {allowed}; delete some first, or ask for a larger quota",
                count_are(*used, "entry")
            ),
            Limited::StateBytes => write!(
                f,
                "counters, meters, registers and tables that packets write take {asked} bytes, but the quota is {allowed} bytes; declare fewer cells, or ask for a larger quota"
            ),
            Limited::Stages => write!(
                f,
                "the program has {}, but the quota is {allowed}; make it shorter, or ask for a larger quota",
                support::count::count(*asked, "stage")
            ),
        }
    }
}

impl std::error::Error for Exceeded {}

impl Limits {
    fn check(what: Limited, [used, asked]: [u64; 2], allowed: Option<u64>) -> Result<(), Exceeded> {
        match allowed.filter(|allowed| asked > *allowed) {
            None => Ok(()),
            Some(allowed) => Err(Exceeded {
                what,
                used,
                asked,
                allowed,
            }),
        }
    }

    /// Checks the resources that a program itself needs.
    pub(crate) fn check_program(&self, program: &Program) -> Result<(), Exceeded> {
        Limits::check(Limited::Stages, [0, stages(program)], self.stages)?;
        let bytes = state_bytes(program);
        Limits::check(Limited::StateBytes, [0, bytes], self.state_bytes)
    }

    pub(crate) fn work(&self) -> WorkBudget {
        self.work.unwrap_or_default()
    }

    /// Checks the number of entries, of which some are in use.
    pub(crate) fn check_entries(&self, used: u64, entries: u64) -> Result<(), Exceeded> {
        Limits::check(Limited::Entries, [used, entries], self.entries)
    }
}

/// Returns the number of stages that count against [`Limits::stages`].
pub fn stages(program: &Program) -> u64 {
    let stages = program.controls.values().flat_map(|c| c.stages.values());
    stages.filter(|stage| !stage.is_of_turns()).count() as u64
}

/// Returns the number of entries that count.
pub(crate) fn entries(configuration: &Configuration, replication: &ReplicationEngine) -> u64 {
    let tables = configuration.tables.values().map(Table::len);
    let profiles = configuration.profiles.values().flatten();
    let profiles = profiles.map(|profile| {
        let groups = profile.groups().map(|(_, members)| 1 + members.len());
        profile.members().len() + groups.sum::<usize>()
    });
    let sets = configuration.value_sets.values();
    let sets = sets.map(|set| set.members().len());
    let groups = replication.groups().map(|(_, copies)| 1 + copies.len());
    let sessions = replication.sessions();
    let sessions = sessions.map(|(_, session)| 1 + session.replicas.len());
    let own = tables.chain(profiles).chain(sets);
    own.chain(groups).chain(sessions).sum::<usize>() as u64
}

/// Returns the growth of the count when a group or session gets this number of members.
fn more(members: usize, there: Option<usize>) -> usize {
    let there = there.map_or(0, |members| 1 + members);
    (1 + members).saturating_sub(there)
}

impl Device {
    /// Returns the limits of this device.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the number of entries that count against [`Limits::entries`].
    pub fn entries(&self) -> u64 {
        entries(&self.configuration, &self.replication)
    }

    /// Sets the limits. The work budget applies to packets from the next publication on.
    ///
    /// # Errors
    /// The device already exceeds the new limits. The old ones stay.
    pub fn set_limits(&mut self, limits: Limits) -> Result<(), Exceeded> {
        limits.check_program(self.program())?;
        let used = self.entries();
        limits.check_entries(used, used)?;
        self.is_stale |= self.limits.work() != limits.work();
        self.limits = limits;
        Ok(())
    }

    /// Checks that the device may hold what a change adds.
    pub(crate) fn check_room(&self, change: &Change) -> Result<(), ControlError> {
        if self.limits.entries.is_none() {
            return Ok(());
        }
        if let Change::SetMetadata(_, _, metadata) = change {
            return check_metadata(metadata);
        }
        let more = self.growth(change);
        let checked = match more {
            0 => Ok(()),
            more => {
                let used = self.entries();
                self.limits.check_entries(used, used + more as u64)
            }
        };
        checked.or_else(|error| refused(ControlCode::ResourceExhausted, error.to_string()))
    }

    /// Returns an upper bound of the entries that a change adds.
    fn growth(&self, change: &Change) -> usize {
        let profile = |id| self.configuration.profiles.get(id)?.as_ref();
        match change {
            Change::Insert(table, entry) => 1 + self.brought_by(*table, &entry.action),
            Change::Modify(table, _, action, _) => self.brought_by(*table, action),
            Change::SetMember {
                profile: id,
                id: member,
                ..
            } => {
                let there = profile(*id).and_then(|there| there.member(MemberId::new(*member)));
                usize::from(there.is_none())
            }
            Change::SetGroup {
                profile: id,
                id: group,
                members,
            } => {
                let there = profile(*id).and_then(|there| there.group(GroupId::new(*group)));
                more(members.len(), there.map(<[_]>::len))
            }
            Change::SetMulticast(id, copies) => {
                let mut groups = self.replication.groups();
                let there = groups.find(|(there, _)| there == id);
                more(copies.len(), there.map(|(_, copies)| copies.len()))
            }
            Change::SetCloneSession(id, session) => {
                let there = self.replication.session(*id);
                more(
                    session.replicas.len(),
                    there.map(|there| there.replicas.len()),
                )
            }
            Change::SetValueSet(id, members) => {
                let there = self.configuration.value_sets.get(*id);
                let there = there.map_or(0, |set| set.members().len());
                members.len().saturating_sub(there)
            }
            _ => 0,
        }
    }

    /// Returns the number of profile entries that an action creates: a member, or members and a
    /// group with them.
    fn brought_by(&self, table: TableId, action: &Action) -> usize {
        let table = self.program().tables.get(table);
        let has_profile = table.is_some_and(|table| table.implementation.is_some());
        match action {
            Action::Call(_) if has_profile => 1,
            Action::OneShot(members) if members.len() == 1 => 1,
            Action::OneShot(members) => 2 * members.len() + 1,
            _ => 0,
        }
    }
}

fn check_metadata(metadata: &[u8]) -> Result<(), ControlError> {
    if metadata.len() <= MAX_METADATA {
        return Ok(());
    }
    let message = format!(
        "what is kept with the entry takes {} bytes, but it is at most {MAX_METADATA} where entries have a quota; shorten its metadata",
        metadata.len()
    );
    refused(ControlCode::ResourceExhausted, message)
}
