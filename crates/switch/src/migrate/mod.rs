//! Migration of state to another program, by the rules of docs/reference/program-change.md. The
//! same code predicts and performs it.
//!
//! First, everything is analysed, and state that needs conversion is written to the new
//! configuration. The old one stays unchanged. Tables that need no conversion are only noted. When
//! the change is made ([`MigratedState::finish`]), noted tables move as a whole, with their
//! indexes, counts and ids, at no cost per entry.

mod cells;
mod profiles;
mod tables;

use std::collections::HashMap;

use exec::Configuration;
use ir::{ExternId, ExternKind, TableId};
use packet::Nanos;
use table::{EntryAction, EntryId, NewEntry, TableSpec};

use crate::conversion::{ConversionNotes, Declared};
use crate::migration::{Fate, Migration, MigrationLine, StateKind};

/// Result of the analysis, and the moves that remain.
#[derive(Default)]
pub(crate) struct MigratedState {
    pub(crate) migration: Migration,
    moves: Vec<Move>,
}

/// Move of a whole table.
struct Move {
    from: TableId,
    to: TableId,
    default: EntryAction,
    /// New action ids, where they differ.
    numbers: Option<HashMap<u32, u32>>,
    /// Initial entries of the new program that the old one did not have.
    initial: Vec<NewEntry>,
}

impl MigratedState {
    /// Returns the growth of the new tables when the change is made.
    pub(crate) fn moving(&self, old: &Configuration, new: &Configuration) -> u64 {
        let moving = self.moves.iter().map(|one| {
            let there = new.tables[one.to].len();
            (old.tables[one.from].len() + one.initial.len()).saturating_sub(there)
        });
        moving.sum::<usize>() as u64
    }

    /// Makes the change. Returns the report, and the data to undo the moves of whole tables.
    pub(crate) fn finish(
        self,
        old: &mut Configuration,
        new: &mut Configuration,
        now: Nanos,
    ) -> (Migration, Vec<MigratedTable>) {
        let moved = self.moves.into_iter().map(|one| one.make(old, new, now));
        (self.migration, moved.collect())
    }
}

impl Move {
    fn make(self, old: &mut Configuration, new: &mut Configuration, now: Nanos) -> MigratedTable {
        let spec = new.tables[self.to].spec().clone();
        let table = &mut new.tables[self.to];
        std::mem::swap(&mut old.tables[self.from], table);
        let before = (table.spec().clone(), table.default_action().clone());
        table.refit(spec, self.default, self.numbers.as_ref());
        // Existing entries have precedence.
        let insert = |entry| table.insert(entry, now.0).ok();
        MigratedTable {
            added: self.initial.into_iter().filter_map(insert).collect(),
            from: self.from,
            to: self.to,
            before,
            numbers: self.numbers,
        }
    }
}

/// Table that was moved as a whole.
pub(crate) struct MigratedTable {
    from: TableId,
    to: TableId,
    before: (TableSpec, EntryAction),
    numbers: Option<HashMap<u32, u32>>,
    added: Vec<EntryId>,
}

impl MigratedTable {
    /// Undoes the move.
    pub(crate) fn go_back(self, old: &mut Configuration, new: &mut Configuration) {
        let table = &mut old.tables[self.from];
        std::mem::swap(&mut new.tables[self.to], table);
        for id in self.added {
            // The entry may have been deleted since.
            let _ = table.delete(id);
        }
        let numbers = self.numbers.map(|numbers| {
            let back = numbers.into_iter().map(|(before, after)| (after, before));
            back.collect()
        });
        let (spec, default) = self.before;
        table.refit(spec, default, numbers.as_ref());
    }
}

/// Analyses the migration of all state, and converts it where necessary. The old configuration
/// stays unchanged.
pub(crate) fn carry(old: &Configuration, new: &mut Configuration, now: Nanos) -> MigratedState {
    new.hash = old.hash.clone();
    new.expire_profiles = old.expire_profiles.clone();
    new.host_ports = old.host_ports.clone();
    // Packets of both programs allocate from the same sequence.
    new.next_flow_id = old.next_flow_id.clone();
    let mut keeper = Keeper {
        old,
        new,
        now,
        profiles: Vec::new(),
        lines: Vec::new(),
        moves: Vec::new(),
    };
    keeper.externs();
    keeper.value_sets();
    keeper.tables();
    keeper.new_objects();
    MigratedState {
        migration: Migration {
            lines: keeper.lines,
        },
        moves: keeper.moves,
    }
}

/// Action profile that is kept.
struct KeptProfile {
    from: ExternId,
    to: ExternId,
    /// True if all of it is kept, including one-shot members.
    is_whole: bool,
}

struct Keeper<'c> {
    old: &'c Configuration,
    new: &'c mut Configuration,
    now: Nanos,
    profiles: Vec<KeptProfile>,
    lines: Vec<MigrationLine>,
    moves: Vec<Move>,
}

/// Number of items, and the number of lost ones.
#[derive(Clone, Copy, Default)]
struct Count {
    held: usize,
    lost: usize,
}

impl Count {
    fn add(&mut self, is_kept: bool) {
        self.held += 1;
        self.lost += usize::from(!is_kept);
    }

    fn all_kept(held: usize) -> Count {
        Count { held, lost: 0 }
    }

    fn all_lost(held: usize) -> Count {
        Count { held, lost: held }
    }
}

impl Keeper<'_> {
    fn line(&mut self, kind: StateKind, name: &str, notes: ConversionNotes, count: Count) {
        let fate = match (notes.may_lose, notes.reasons.is_empty()) {
            (true, _) => Fate::WhatFits,
            (false, true) => Fate::Kept,
            (false, false) => Fate::Converted,
        };
        self.line_of(kind, name, fate, notes.reasons, count);
    }

    fn lost(&mut self, kind: StateKind, name: &str, reason: &str, held: usize) {
        let reasons = vec![reason.to_owned()];
        self.line_of(kind, name, Fate::Lost, reasons, Count::all_lost(held));
    }

    fn line_of(
        &mut self,
        kind: StateKind,
        name: &str,
        fate: Fate,
        reasons: Vec<String>,
        count: Count,
    ) {
        let mut told: Vec<String> = Vec::new();
        for reason in reasons {
            if !told.contains(&reason) {
                told.push(reason);
            }
        }
        self.lines.push(MigrationLine {
            kind,
            name: name.to_owned(),
            fate,
            reasons: told,
            held: count.held as u64,
            lost: count.lost as u64,
        });
    }

    fn new_objects(&mut self) {
        let (before, after) = (self.old.program().clone(), self.new.program().clone());
        for table in after.tables.values() {
            if !before.tables.values().any(|old| old.name == table.name) {
                self.begins(StateKind::Entries, &table.name);
            }
        }
        for instance in after.externs.values() {
            let kind = match &instance.kind {
                ExternKind::Counter { .. } => StateKind::Counters,
                ExternKind::Meter { .. } => StateKind::Meters,
                ExternKind::Register { .. } => StateKind::Registers,
                ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. } => {
                    StateKind::Members
                }
                _ => continue,
            };
            if !before.externs.values().any(|old| old.name == instance.name) {
                self.begins(kind, &instance.name);
            }
        }
        for set in after.value_sets.values() {
            if !before.value_sets.values().any(|old| old.name == set.name) {
                self.begins(StateKind::ValueSetMembers, &set.name);
            }
        }
    }

    fn begins(&mut self, kind: StateKind, name: &str) {
        self.line_of(kind, name, Fate::New, Vec::new(), Count::default());
    }
}

fn declared(configuration: &Configuration, id: TableId) -> Declared<'_> {
    let program = configuration.program();
    Declared {
        program,
        table: &program.tables[id],
        spec: configuration.tables[id].spec(),
    }
}

fn tell_size(before: usize, after: usize, notes: &mut ConversionNotes) {
    let sizes = format!("it takes {after} instead of {before}");
    match after.cmp(&before) {
        std::cmp::Ordering::Less => notes.risk(sizes),
        std::cmp::Ordering::Equal => {}
        std::cmp::Ordering::Greater => notes.tell(sizes),
    }
}
