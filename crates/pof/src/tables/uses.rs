//! The entries that refer to a table, a group or a meter.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Entry, TableNumber};
use crate::model::*;

/// References of all entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Uses {
    /// Number of entries that lead to a table.
    tables: BTreeMap<TableNumber, u32>,
    /// Table and index of the entries that use a group.
    groups: HashMap<u32, BTreeSet<(TableNumber, u32)>>,
    /// Number of entries that use a meter.
    meters: HashMap<u32, u32>,
}

/// Returns the table to which an instruction leads.
pub(super) fn next_table(instruction: &Instruction) -> Option<TableNumber> {
    match instruction {
        Instruction::GotoTable { table, .. } | Instruction::GotoDirectTable { table, .. } => {
            Some(TableNumber(*table))
        }
        _ => None,
    }
}

fn tables_of(entry: &Entry) -> BTreeSet<TableNumber> {
    entry.instructions.iter().filter_map(next_table).collect()
}

fn groups_of(entry: &Entry) -> BTreeSet<u32> {
    let groups = entry.actions().filter_map(|action| match action {
        Action::Group(id) => Some(*id),
        _ => None,
    });
    groups.collect()
}

fn meters_of(entry: &Entry) -> BTreeSet<u32> {
    let meters = entry.instructions.iter().filter_map(|one| match one {
        Instruction::Meter(id) => Some(*id),
        _ => None,
    });
    meters.collect()
}

impl Uses {
    pub(super) fn add(&mut self, table: TableNumber, entry: &Entry) {
        for next in tables_of(entry) {
            *self.tables.entry(next).or_default() += 1;
        }
        for group in groups_of(entry) {
            let users = self.groups.entry(group).or_default();
            users.insert((table, entry.index));
        }
        for meter in meters_of(entry) {
            *self.meters.entry(meter).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, table: TableNumber, entry: &Entry) {
        for next in tables_of(entry) {
            if let Some(count) = self.tables.get_mut(&next) {
                *count -= 1;
            }
        }
        for group in groups_of(entry) {
            if let Some(users) = self.groups.get_mut(&group) {
                users.remove(&(table, entry.index));
            }
        }
        for meter in meters_of(entry) {
            if let Some(count) = self.meters.get_mut(&meter) {
                *count -= 1;
            }
        }
    }

    /// Returns true if an entry leads to this table.
    pub(super) fn leads_to(&self, table: TableNumber) -> bool {
        self.tables.get(&table).is_some_and(|count| *count > 0)
    }

    /// Returns table and index of the entries that use a group, in ascending order.
    pub(super) fn of_group(&self, group: u32) -> impl Iterator<Item = (TableNumber, u32)> {
        self.groups.get(&group).into_iter().flatten().copied()
    }

    /// Returns the number of entries that use a group.
    pub(super) fn count_of_group(&self, group: u32) -> usize {
        self.groups.get(&group).map_or(0, BTreeSet::len)
    }

    /// Returns the number of entries that use a meter.
    pub(super) fn count_of_meter(&self, meter: u32) -> usize {
        self.meters.get(&meter).map_or(0, |count| *count as usize)
    }
}
