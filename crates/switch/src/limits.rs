//! What a device may hold, where somebody else's device stands beside it: checked when programs come and before entries do.

use std::fmt;

use exec::{Configuration, state_bytes};
use ir::Program;
use table::{GroupId, MemberId, Table};

use crate::control::{Action, Change, ControlCode, ControlError, refused};
use crate::device::Device;
use crate::pre::ReplicationEngine;

/// The most that a device may hold; what is not given is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Entries of tables, the program's own among them, members and groups of profiles, members of value sets, copies of multicast groups and clone
    /// sessions.
    pub entries: Option<u64>,
    /// Bytes of counters, meters, registers and tables that packets write.
    pub state_bytes: Option<u64>,
    /// Stages of the program.
    pub stages: Option<u64>,
}

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
    /// What there would be.
    pub asked: u64,
    /// What there may be.
    pub allowed: u64,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exceeded {
            what,
            asked,
            allowed,
        } = self;
        match what {
            Limited::Entries => write!(
                f,
                "there would be {asked} entries, but the quota is {allowed}; delete some first, or ask for a larger quota"
            ),
            Limited::StateBytes => write!(
                f,
                "counters, meters, registers and tables that packets write take {asked} bytes, but the quota is {allowed}; declare fewer cells, or ask for a larger quota"
            ),
            Limited::Stages => write!(
                f,
                "the program has {asked} stages, but the quota is {allowed}; make it shorter, or ask for a larger quota"
            ),
        }
    }
}

impl std::error::Error for Exceeded {}

impl Limits {
    fn check(what: Limited, asked: u64, allowed: Option<u64>) -> Result<(), Exceeded> {
        match allowed.filter(|allowed| asked > *allowed) {
            None => Ok(()),
            Some(allowed) => Err(Exceeded {
                what,
                asked,
                allowed,
            }),
        }
    }

    /// Checks what a program itself takes.
    pub(crate) fn check_program(&self, program: &Program) -> Result<(), Exceeded> {
        let stages = program.controls.values();
        let stages = stages.map(|control| control.stages.len() as u64).sum();
        Limits::check(Limited::Stages, stages, self.stages)?;
        Limits::check(Limited::StateBytes, state_bytes(program), self.state_bytes)
    }

    pub(crate) fn check_entries(&self, entries: u64) -> Result<(), Exceeded> {
        Limits::check(Limited::Entries, entries, self.entries)
    }
}

/// Entries that count.
pub(crate) fn entries(configuration: &Configuration, replication: &ReplicationEngine) -> u64 {
    let tables = configuration.tables.values().map(Table::len);
    let profiles = configuration.profiles.values().flatten();
    let profiles = profiles.map(|profile| profile.members().len() + profile.groups().len());
    let sets = configuration.value_sets.values();
    let sets = sets.map(|set| set.members().len());
    let groups = replication.groups().map(|(_, copies)| copies.len());
    let sessions = replication.sessions();
    let sessions = sessions.map(|(_, session)| session.replicas.len());
    let own = tables.chain(profiles).chain(sets);
    own.chain(groups).chain(sessions).sum::<usize>() as u64
}

/// Entries that an action brings with it: the members of a one-shot group, and the group.
fn brought_by(action: &Action) -> usize {
    match action {
        Action::OneShot(members) => members.len() + 1,
        _ => 0,
    }
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

    /// Gives the device other limits.
    ///
    /// # Errors
    /// It holds more already; the limits stay.
    pub fn set_limits(&mut self, limits: Limits) -> Result<(), Exceeded> {
        limits.check_program(self.program())?;
        limits.check_entries(self.entries())?;
        self.limits = limits;
        Ok(())
    }

    /// Checks that there is room for what a change adds.
    pub(crate) fn check_room(&self, change: &Change) -> Result<(), ControlError> {
        if self.limits.entries.is_none() {
            return Ok(());
        }
        let more = self.growth(change);
        let checked = match more {
            0 => Ok(()),
            more => self.limits.check_entries(self.entries() + more as u64),
        };
        checked.or_else(|error| refused(ControlCode::ResourceExhausted, error.to_string()))
    }

    /// Entries that there are more after a change, at most.
    fn growth(&self, change: &Change) -> usize {
        let profile = |id| self.configuration.profiles.get(id)?.as_ref();
        match change {
            Change::Insert(_, entry) => 1 + brought_by(&entry.action),
            Change::Modify(_, _, action, _) => brought_by(action),
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
                ..
            } => {
                let there = profile(*id).and_then(|there| there.group(GroupId::new(*group)));
                usize::from(there.is_none())
            }
            Change::SetMulticast(id, copies) => {
                let there = self.replication.group(*id).len();
                copies.len().saturating_sub(there)
            }
            Change::SetCloneSession(id, session) => {
                let there = self.replication.session(*id);
                let there = there.map_or(0, |there| there.replicas.len());
                session.replicas.len().saturating_sub(there)
            }
            Change::SetValueSet(id, members) => {
                let there = self.configuration.value_sets.get(*id);
                let there = there.map_or(0, |set| set.members().len());
                members.len().saturating_sub(there)
            }
            _ => 0,
        }
    }
}
