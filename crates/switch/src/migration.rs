//! Migration of a device's state to another program: the report for each object, and the user's
//! permission to lose state.

use std::fmt;

/// Permission to lose state when the program changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MayLose {
    /// No state: the change is refused if any would be lost.
    Nothing,
    /// State of the objects with these names.
    These(Vec<String>),
    /// All state that has no place in the new program.
    Anything,
}

impl MayLose {
    /// Returns true if state of this object may be lost.
    pub fn covers(&self, name: &str) -> bool {
        match self {
            MayLose::Nothing => false,
            MayLose::These(names) => names.iter().any(|one| one == name),
            MayLose::Anything => true,
        }
    }
}

/// Kinds of an object's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// Entries of a table that are not const.
    Entries,
    /// Entries that packets added.
    LearnedEntries,
    /// A default action that the control plane had set.
    DefaultAction,
    /// Direct counters of a table's entries.
    DirectCounters,
    /// Direct meters of a table's entries.
    DirectMeters,
    /// Members of an action profile or selector.
    Members,
    /// Groups of a selector.
    Groups,
    /// Members of a value set.
    ValueSetMembers,
    /// Counters that are not zero.
    Counters,
    /// Meters that are configured.
    Meters,
    /// Cells of a register that differ from their initial value.
    Registers,
}

impl StateKind {
    /// Returns the name in the plural.
    pub fn name(self) -> &'static str {
        match self {
            StateKind::Entries => "entries",
            StateKind::LearnedEntries => "learned entries",
            StateKind::DefaultAction => "default action",
            StateKind::DirectCounters => "direct counters",
            StateKind::DirectMeters => "direct meters",
            StateKind::Members => "members",
            StateKind::Groups => "groups",
            StateKind::ValueSetMembers => "value set members",
            StateKind::Counters => "counters",
            StateKind::Meters => "meters",
            StateKind::Registers => "registers",
        }
    }

    /// Returns the name in the singular.
    pub fn name_of_one(self) -> &'static str {
        match self {
            StateKind::Entries => "entry",
            StateKind::LearnedEntries => "learned entry",
            StateKind::DefaultAction => "default action",
            StateKind::DirectCounters => "direct counter",
            StateKind::DirectMeters => "direct meter",
            StateKind::Members => "member",
            StateKind::Groups => "group",
            StateKind::ValueSetMembers => "value set member",
            StateKind::Counters => "counter",
            StateKind::Meters => "meter",
            StateKind::Registers => "register",
        }
    }
}

/// Outcome for the state of an object, whatever its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// All of it stays unchanged.
    Kept,
    /// All of it stays, converted to the new program's form.
    Converted,
    /// The part that fits the new program's form stays.
    WhatFits,
    /// None of it has a place in the new program.
    Lost,
    /// The object is new, with the new program's initial state.
    New,
}

impl Fate {
    /// Returns the name of the outcome.
    pub fn name(self) -> &'static str {
        match self {
            Fate::Kept => "kept",
            Fate::Converted => "converted",
            Fate::WhatFits => "what fits",
            Fate::Lost => "lost",
            Fate::New => "new",
        }
    }
}

/// Outcome for one kind of state of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationLine {
    /// Kind of state.
    pub kind: StateKind,
    /// Name of the table, extern or value set.
    pub name: String,
    /// Outcome according to the two programs.
    pub fate: Fate,
    /// Reasons, unless the state is simply kept.
    pub reasons: Vec<String>,
    /// Number of items on this device. Of cells that stay unchanged all are counted, whatever they
    /// hold.
    pub held: u64,
    /// Number of items for which the new program has no place.
    pub lost: u64,
}

impl fmt::Display for MigrationLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.lost {
            1 => self.kind.name_of_one(),
            _ => self.kind.name(),
        };
        write!(f, "{} {kind} of `{}`", self.lost, self.name)?;
        match self.reasons.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", self.reasons.join("; ")),
        }
    }
}

/// Report of a migration: one line for each object and kind of state, in the order of the old
/// program. New objects come last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migration {
    /// The lines.
    pub lines: Vec<MigrationLine>,
}

impl Migration {
    /// Returns the lines with losses on this device.
    pub fn losses(&self) -> impl Iterator<Item = &MigrationLine> {
        self.lines.iter().filter(|line| line.lost > 0)
    }

    /// Returns the lines with losses that are not permitted.
    pub(crate) fn refused_by(&self, word: &MayLose) -> Vec<MigrationLine> {
        let losses = self.losses().filter(|line| !word.covers(&line.name));
        losses.cloned().collect()
    }
}

/// Error: a change of program would lose state without permission. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WouldLose {
    /// The losses.
    pub lines: Vec<MigrationLine>,
}

impl fmt::Display for WouldLose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.lines.iter().map(ToString::to_string).collect();
        write!(f, "the new program has no place for {}", all.join(", "))
    }
}

impl std::error::Error for WouldLose {}
