//! The objects of a switch by name, and the messages that make them.
//!
//! A name is what a store needs to know that an object has changed; its message is what a store
//! keeps, and what a query returns.

use crate::tables::{Entry, TableNumber, Tables};
use crate::wire::{
    Body, Command, Counter, CounterCommand, FlowCommand, FlowMod, GroupMod, MeterMod, TableMod,
};

/// Name of an object. Objects come after those that they may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKey {
    /// A table.
    Table(TableNumber),
    /// A meter.
    Meter(u32),
    /// A group.
    Group(u32),
    /// An entry, by its table and index.
    Entry(TableNumber, u32),
    /// A counter.
    Counter(u32),
}

impl ObjectKey {
    /// Returns the names of all objects of a switch, in ascending order.
    pub fn all(tables: &Tables) -> Vec<ObjectKey> {
        let mut keys: Vec<ObjectKey> = Vec::new();
        keys.extend(tables.tables().map(|(number, _)| ObjectKey::Table(number)));
        keys.extend(tables.meters().map(|(id, _)| ObjectKey::Meter(id)));
        keys.extend(tables.groups().map(|(id, _)| ObjectKey::Group(id)));
        for (number, table) in tables.tables() {
            let indices = table.indices();
            keys.extend(indices.map(|index| ObjectKey::Entry(number, index)));
        }
        keys.extend(tables.counters().map(ObjectKey::Counter));
        keys
    }

    /// Returns the message that makes the object, or `None` if there is none of this name.
    pub fn message(self, tables: &Tables) -> Option<Body> {
        Some(match self {
            ObjectKey::Table(number) => Body::TableMod(TableMod {
                command: Command::Add,
                ..table_message(tables, number)?
            }),
            ObjectKey::Meter(id) => Body::MeterMod(MeterMod {
                command: Command::Add,
                ..meter_message(tables, id)?
            }),
            ObjectKey::Group(id) => Body::GroupMod(GroupMod {
                command: Command::Add,
                ..group_message(tables, id)?
            }),
            ObjectKey::Entry(number, index) => Body::FlowMod(FlowMod {
                command: FlowCommand::Add,
                ..flow_message(tables, number, tables.table(number)?.entry(index)?)?
            }),
            ObjectKey::Counter(id) if tables.has_counter(id) => Body::CounterMod(Counter {
                command: CounterCommand::Add,
                slot: 0,
                id,
                packets: 0,
                bytes: 0,
            }),
            ObjectKey::Counter(_) => return None,
        })
    }
}

/// Returns the answer to a query of an entry.
pub(crate) fn flow_message(tables: &Tables, number: TableNumber, entry: Entry) -> Option<FlowMod> {
    Some(FlowMod {
        command: FlowCommand::QueryResult,
        counter: entry.counter,
        cookie: entry.cookie,
        cookie_mask: 0,
        table: tables.id_in_type(number),
        table_type: tables.table(number)?.table_type,
        idle_timeout: entry.idle_timeout,
        hard_timeout: entry.hard_timeout,
        priority: entry.priority,
        index: entry.index,
        slot: 0,
        matches: entry.matches,
        instructions: entry.instructions,
    })
}

/// Returns the answer to a query of a table.
pub(crate) fn table_message(tables: &Tables, number: TableNumber) -> Option<TableMod> {
    let table = tables.table(number)?;
    Some(TableMod {
        command: Command::QueryResult,
        id: tables.id_in_type(number),
        table_type: table.table_type,
        size: table.size,
        key_length: table.fields.iter().map(|field| field.length).sum(),
        slot: 0,
        name: table.name,
        fields: table.fields.clone(),
    })
}

/// Returns the answer to a query of a group.
pub(crate) fn group_message(tables: &Tables, id: u32) -> Option<GroupMod> {
    let group = tables.group(id)?;
    Some(GroupMod {
        command: Command::QueryResult,
        group_type: group.group_type,
        id,
        counter: group.counter,
        slot: 0,
        actions: group.actions.clone(),
    })
}

/// Returns the answer to a query of a meter.
pub(crate) fn meter_message(tables: &Tables, id: u32) -> Option<MeterMod> {
    Some(MeterMod {
        command: Command::QueryResult,
        slot: 0,
        id,
        rate: tables.meter(id)?,
    })
}
