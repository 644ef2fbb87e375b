//! What becomes of a device's state when another program takes its place, object by object: the report, and the user's word.

use std::fmt;

/// What a change of program may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MayLose {
    /// Nothing: the change is refused if something would be lost.
    Nothing,
    /// State of the objects of these names.
    These(Vec<String>),
    /// Whatever has no place in the new program.
    Anything,
}

impl MayLose {
    /// Whether state of this object may go.
    pub fn covers(&self, name: &str) -> bool {
        match self {
            MayLose::Nothing => false,
            MayLose::These(names) => names.iter().any(|one| one == name),
            MayLose::Anything => true,
        }
    }
}

/// Kinds of state that belong to an object of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// Entries of a table that are not const.
    Entries,
    /// Entries that packets added.
    LearnedEntries,
    /// A default action that the control plane had set.
    DefaultAction,
    /// Counts of a table's entries.
    DirectCounters,
    /// Rates of a table's entries.
    DirectMeters,
    /// Members of an action profile or selector.
    Members,
    /// Groups of a selector.
    Groups,
    /// Members of a value set.
    ValueSetMembers,
    /// Counters that counted.
    Counters,
    /// Meters that are configured.
    Meters,
    /// Cells of a register that hold other than their first value.
    Registers,
}

impl StateKind {
    /// In words, as many of them.
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

    /// In words, of one.
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

/// What becomes of an object's state, whatever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// All of it stays as it is.
    Kept,
    /// All of it stays, in the new program's form.
    Converted,
    /// What fits into the new program's form stays.
    WhatFits,
    /// None of it has a place.
    Lost,
    /// There was none: the object is new, and begins as the new program says.
    New,
}

impl Fate {
    /// In a word.
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

/// What becomes of one kind of state of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What it is.
    pub kind: StateKind,
    /// The name of the table, extern or value set that has it.
    pub name: String,
    /// What the two programs say of it.
    pub fate: Fate,
    /// Why, where it is not simply kept.
    pub reasons: Vec<String>,
    /// How many there are on this device; of cells that stay as they are, all, whatever they hold.
    pub held: u64,
    /// How many of these the new program has no place for.
    pub lost: u64,
}

impl fmt::Display for Line {
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

/// What becomes of all state: a line an object and kind, in the order of the old program; new objects come last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migration {
    /// The lines.
    pub lines: Vec<Line>,
}

impl Migration {
    /// Lines that lose something on this device.
    pub fn losses(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.lost > 0)
    }

    /// Lines that lose something that they may not.
    pub(crate) fn refused_by(&self, word: &MayLose) -> Vec<Line> {
        let losses = self.losses().filter(|line| !word.covers(&line.name));
        losses.cloned().collect()
    }
}

/// A change of program would lose state without the user's word for it. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WouldLose {
    /// What.
    pub lines: Vec<Line>,
}

impl fmt::Display for WouldLose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.lines.iter().map(ToString::to_string).collect();
        write!(f, "the new program has no place for {}", all.join(", "))
    }
}

impl std::error::Error for WouldLose {}
