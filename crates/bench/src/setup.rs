//! Configuration of a device, or of a hand-written loop, by a workload.

use exec::{Configuration, ConfigurationError, action_params, field_match};
use ir::{ActionCall, KeyMatch, Program, TableId};
use std::fmt;
use std::sync::Arc;
use table::{ActionRef, EntryAction, NewEntry, TableError};

use crate::names::{ActionName, Key, NameError, TableName};

/// One configuration item.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A table entry.
    Entry {
        /// The table.
        table: TableId,
        /// One match per key field.
        keys: Vec<KeyMatch>,
        /// The priority, if the key needs one.
        priority: Option<i32>,
        /// The action call.
        call: ActionCall,
    },
    /// A multicast group: its number, and the egress ports of the copies.
    Multicast(u32, Vec<u32>),
}

impl Item {
    /// Creates an entry without priority.
    pub(crate) fn entry(
        table: &TableName,
        keys: &[Key],
        action: &ActionName,
        args: &[u64],
    ) -> Self {
        Self::ranked(table, keys, None, action, args)
    }

    /// Creates an entry.
    pub(crate) fn ranked(
        table: &TableName,
        keys: &[Key],
        priority: Option<i32>,
        action: &ActionName,
        args: &[u64],
    ) -> Self {
        Item::Entry {
            table: table.id,
            keys: table.keys(keys),
            priority,
            call: action.call(args),
        }
    }
}

/// Receives the items of a workload one by one. A list of all items would need as much memory as a
/// full table.
pub type ItemSink<'s> = dyn FnMut(Item) -> Result<(), SetupError> + 's;

/// Error of a workload's configuration: it does not fit its program.
#[derive(Debug, Clone, PartialEq)]
pub enum SetupError {
    /// A named object does not exist.
    Name(NameError),
    /// An entry does not fit its table.
    Entry(String),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupError::Name(error) => error.fmt(f),
            SetupError::Entry(error) => f.write_str(error),
        }
    }
}

impl std::error::Error for SetupError {}

impl From<NameError> for SetupError {
    fn from(error: NameError) -> Self {
        SetupError::Name(error)
    }
}

impl From<ConfigurationError> for SetupError {
    fn from(error: ConfigurationError) -> Self {
        SetupError::Entry(error.to_string())
    }
}

/// Returns the tables of a program with the entries that `items` provides. Multicast groups are
/// ignored.
///
/// # Errors
/// An entry does not fit.
pub fn configure(
    program: &Arc<Program>,
    items: impl FnOnce(&mut ItemSink<'_>) -> Result<(), SetupError>,
) -> Result<Configuration, SetupError> {
    let mut configuration = Configuration::new(Arc::clone(program))?;
    items(&mut |item| match item {
        Item::Multicast(..) => Ok(()),
        Item::Entry {
            table,
            keys,
            priority,
            call,
        } => insert(&mut configuration, table, &keys, priority, &call),
    })?;
    Ok(configuration)
}

fn insert(
    configuration: &mut Configuration,
    id: TableId,
    keys: &[KeyMatch],
    priority: Option<i32>,
    call: &ActionCall,
) -> Result<(), SetupError> {
    let program = Arc::clone(configuration.program());
    let refused = |why: &str| SetupError::Entry(format!("{}: {why}", program.tables[id].name));
    let table = &mut configuration.tables[id];
    let fields = table.spec().shape.fields().iter();
    let matches: Option<Vec<_>> = fields
        .zip(keys)
        .map(|(field, wanted)| field_match(field, wanted))
        .collect();
    let matches = matches.ok_or_else(|| refused("a match does not fit its key"))?;
    let listed = program.tables[id].actions.get(call.action);
    let listed = listed.ok_or_else(|| refused("there is no such action"))?;
    let params = action_params(&program.actions[listed.action], &call.args)
        .ok_or_else(|| refused("arguments do not fit their action"))?;
    let action = EntryAction::Direct(ActionRef {
        action: listed.action.get(),
        params,
    });
    let new = NewEntry {
        priority,
        ..NewEntry::new(matches, action)
    };
    let inserted = table.insert(new, 0);
    inserted.map_err(|error: TableError| refused(&error.to_string()))?;
    Ok(())
}
