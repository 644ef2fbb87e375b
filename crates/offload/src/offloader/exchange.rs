//! The objects of flows after another program has taken the place of the old one.

use std::collections::HashMap;
use std::sync::Arc;

use ir::{ExternId, Program, TableId, ValueSetId};

use crate::flow::{CounterCell, Flow, Met, MetCounter, MetLookup};

/// The objects of a program by those of the program before it, by their names.
pub struct SameObjects {
    tables: HashMap<TableId, TableId>,
    externs: HashMap<ExternId, ExternId>,
    value_sets: HashMap<ValueSetId, ValueSetId>,
}

fn by_name<'p, I: Copy + Eq + std::hash::Hash>(
    old: impl Iterator<Item = (I, &'p str)>,
    new: impl Iterator<Item = (I, &'p str)>,
) -> HashMap<I, I> {
    let new: HashMap<&str, I> = new.map(|(id, name)| (name, id)).collect();
    old.filter_map(|(id, name)| Some((id, *new.get(name)?)))
        .collect()
}

impl SameObjects {
    /// Compares two programs.
    pub fn of(old: &Program, new: &Program) -> SameObjects {
        fn tables(program: &Program) -> impl Iterator<Item = (TableId, &str)> {
            let tables = program.tables.iter();
            tables.map(|(id, table)| (id, &table.name[..]))
        }
        fn externs(program: &Program) -> impl Iterator<Item = (ExternId, &str)> {
            let externs = program.externs.iter();
            externs.map(|(id, external)| (id, &external.name[..]))
        }
        fn value_sets(program: &Program) -> impl Iterator<Item = (ValueSetId, &str)> {
            let sets = program.value_sets.iter();
            sets.map(|(id, set)| (id, &set.name[..]))
        }
        SameObjects {
            tables: by_name(tables(old), tables(new)),
            externs: by_name(externs(old), externs(new)),
            value_sets: by_name(value_sets(old), value_sets(new)),
        }
    }

    /// Returns the new program's table of the same name. `None` if it has gone.
    pub fn table(&self, id: TableId) -> Option<TableId> {
        self.tables.get(&id).copied()
    }

    /// Returns a flow with its objects in the new program. `None` if one of them has gone.
    pub fn flow(&self, flow: &Flow) -> Option<Arc<Flow>> {
        let lookup = |met: &MetLookup| {
            let table = *self.tables.get(&met.table)?;
            Some(MetLookup { table, ..*met })
        };
        let counter = |met: &MetCounter| {
            let cell = match met.cell {
                CounterCell::Index(id, index) => CounterCell::Index(*self.externs.get(&id)?, index),
                CounterCell::Direct(table, entry) => {
                    CounterCell::Direct(*self.tables.get(&table)?, entry)
                }
            };
            Some(MetCounter { cell, ..*met })
        };
        let value_set = |id: &ValueSetId| self.value_sets.get(id).copied();
        let Met {
            lookups,
            counters,
            multicast_groups,
            clone_sessions,
            value_sets,
        } = &flow.met;
        let met = Met {
            lookups: lookups.iter().map(lookup).collect::<Option<_>>()?,
            counters: counters.iter().map(counter).collect::<Option<_>>()?,
            multicast_groups: multicast_groups.clone(),
            clone_sessions: clone_sessions.clone(),
            value_sets: value_sets.iter().map(value_set).collect::<Option<_>>()?,
        };
        Some(Arc::new(Flow {
            met,
            ..flow.clone()
        }))
    }
}
