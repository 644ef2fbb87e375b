//! What a device may hold, where somebody else's device stands beside it: checked when programs come and before entries do.

use std::fmt;

use exec::{Configuration, WorkBudget, state_bytes};
use ir::{Program, TableId};
use table::{GroupId, MemberId, Table};

use crate::control::{Action, Change, ControlCode, ControlError, refused};
use crate::device::Device;
use crate::pre::ReplicationEngine;

/// The most that a device may hold; what is not given is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Entries of tables, the program's own among them, members of profiles and of value sets, groups of profiles, multicast groups and clone sessions,
    /// each of them with its members or copies. Metadata of an entry has no more than [`MOST_METADATA`] bytes then.
    pub entries: Option<u64>,
    /// Bytes of counters, meters, registers and tables that packets write.
    pub state_bytes: Option<u64>,
    /// Stages of the program, without those that lead packets through turns ([`ir::Stage::is_of_turns`]).
    pub stages: Option<u64>,
    /// What each packet may do; [`WorkBudget::MOST`] without it.
    pub work: Option<WorkBudget>,
}

/// Bytes that a controller keeps with an entry at most, where entries are limited: so that their number bounds memory.
pub const MOST_METADATA: usize = 1024;

/// What a limit is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    /// Entries.
    Entries,
    /// Bytes of state.
    StateBytes,
    /// Stages.
    Stages,
}

/// A limit does not allow what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// Which limit.
    pub what: Limited,
    /// Entries that there are already. A program's bytes and stages take the place of another's: of them there are none.
    pub used: u64,
    /// What there would be.
    pub asked: u64,
    /// What there may be.
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
                "{used} entries are used, but the quota is {allowed}; delete some first, or ask for a larger quota"
            ),
            Limited::Entries => write!(
                f,
                "{used} entries are used and there would be {asked}, but the quota is {allowed}; delete some first, or ask for a larger quota"
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

    /// Checks what a program itself takes.
    pub(crate) fn check_program(&self, program: &Program) -> Result<(), Exceeded> {
        Limits::check(Limited::Stages, [0, stages(program)], self.stages)?;
        let bytes = state_bytes(program);
        Limits::check(Limited::StateBytes, [0, bytes], self.state_bytes)
    }

    pub(crate) fn work(&self) -> WorkBudget {
        self.work.unwrap_or_default()
    }

    /// Checks that there may be so many entries, where some are used.
    pub(crate) fn check_entries(&self, used: u64, entries: u64) -> Result<(), Exceeded> {
        Limits::check(Limited::Entries, [used, entries], self.entries)
    }
}

/// Stages of a program that count against [`Limits::stages`].
pub fn stages(program: &Program) -> u64 {
    let stages = program.controls.values().flat_map(|c| c.stages.values());
    stages.filter(|stage| !stage.is_of_turns()).count() as u64
}

/// Entries that count.
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

/// What something with members or copies counts more than it does already.
fn more(members: usize, there: Option<usize>) -> usize {
    let there = there.map_or(0, |members| 1 + members);
    (1 + members).saturating_sub(there)
}

impl Device {
    /// What this device may hold.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Entries that count against [`Limits::entries`].
    pub fn entries(&self) -> u64 {
        entries(&self.configuration, &self.replication)
    }

    /// Gives the device other limits. Packets meet what they may do once it is published.
    ///
    /// # Errors
    /// It holds more already; the limits stay.
    pub fn set_limits(&mut self, limits: Limits) -> Result<(), Exceeded> {
        limits.check_program(self.program())?;
        let used = self.entries();
        limits.check_entries(used, used)?;
        self.is_stale |= self.limits.work() != limits.work();
        self.limits = limits;
        Ok(())
    }

    /// Checks that there is room for what a change adds.
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

    /// Entries that there are more after a change, at most.
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

    /// Entries that an action brings with it, where a profile keeps it: a member, or members and a group of them.
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
    if metadata.len() <= MOST_METADATA {
        return Ok(());
    }
    let message = format!(
        "what is kept with the entry takes {} bytes, but it is at most {MOST_METADATA} where entries have a quota; shorten its metadata",
        metadata.len()
    );
    refused(ControlCode::ResourceExhausted, message)
}
