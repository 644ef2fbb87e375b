//! Adds entries to a program's tables by the names of a table and an action.

use ir::Program;

use crate::names::{ActionName, Key, TableName};
use crate::setup::{Item, ItemSink, SetupError};

/// Adds entries to tables.
pub(crate) struct Fill<'f, 's> {
    pub(crate) program: &'f Program,
    pub(crate) setup: &'f mut ItemSink<'s>,
}

impl Fill<'_, '_> {
    /// Looks up a table and one of its actions.
    pub(crate) fn table(
        &self,
        name: &str,
        action: &str,
    ) -> Result<(TableName, ActionName), SetupError> {
        let table = TableName::find(self.program, name)?;
        let action = table.action(self.program, action)?;
        Ok((table, action))
    }

    /// Adds an entry.
    pub(crate) fn add(
        &mut self,
        (table, action): &(TableName, ActionName),
        keys: &[Key],
        args: &[u64],
    ) -> Result<(), SetupError> {
        (self.setup)(Item::entry(table, keys, action, args))
    }

    /// Adds an entry with a priority.
    pub(crate) fn rank(
        &mut self,
        (table, action): &(TableName, ActionName),
        keys: &[Key],
        priority: u64,
        args: &[u64],
    ) -> Result<(), SetupError> {
        let priority = Some(priority as i32);
        (self.setup)(Item::ranked(table, keys, priority, action, args))
    }
}
