//! The state of a switch as its controllers see it: tables with entries, groups, meters, counters.
//!
//! A message is first checked ([`Tables::flow_change`] and the like), which gives a change, and the
//! change is applied when the device has it too ([`Tables::apply_flow`]). A check changes nothing.

mod check;
mod packed;
mod table;
mod uses;

pub(crate) use check::{jump_target, prefix_length};
pub use table::Table;

use std::collections::{BTreeMap, BTreeSet};

use crate::model::*;
use crate::wire::{
    Command, Counter, CounterCommand, ErrorCode, FlowCommand, FlowMod, GroupMod, MeterMod, TableMod,
};
use packed::Forms;
use uses::{Uses, next_table};

/// Maximum number of objects of each kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tables of each type, in the order of [`TableType::ALL`]. They number the tables of all
    /// types: those of the first type come first.
    pub tables: [u8; 4],
    /// Entries of a table.
    pub table_size: u32,
    /// Bits of a key.
    pub key_bits: u16,
    /// Counters. Their numbers are below it, and 0 is none.
    pub counters: u32,
    /// Meters. Their numbers are below it.
    pub meters: u32,
    /// Groups. Their numbers are below it.
    pub groups: u32,
    /// Instruction lists that differ in more than their immediates, in all tables together.
    pub shapes: usize,
}

impl Default for Limits {
    /// Returns POFSwitch's numbers of tables, and larger limits of the rest.
    fn default() -> Limits {
        Limits {
            tables: [10, 10, 5, 20],
            table_size: 1 << 20,
            key_bits: MAX_FIELDS as u16 * MAX_FIELD_BITS,
            counters: 16_384,
            meters: 1_024,
            groups: 1_024,
            shapes: 1_024,
        }
    }
}

/// Number of a table among those of all types, as GOTO_TABLE names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableNumber(pub u8);

impl TableNumber {
    /// The table that looks up each received packet first.
    pub const FIRST: TableNumber = TableNumber(0);
    /// The place of the actions of a packet-out. No table has this number.
    pub const PACKET_OUT: TableNumber = TableNumber(0xFF);
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Counter of its packets; 0 for none.
    pub counter: u32,
    /// A number of the controller.
    pub cookie: u64,
    /// Seconds without a packet after which it goes; 0 for never.
    pub idle_timeout: u16,
    /// Seconds after which it goes; 0 for never.
    pub hard_timeout: u16,
    /// Its priority in a table of type MM.
    pub priority: u16,
    /// Its number in the table.
    pub index: u32,
    /// Its match, one for each field of the table.
    pub matches: Vec<Match>,
    /// Its instructions.
    pub instructions: Vec<Instruction>,
}

impl Entry {
    fn of(flow: &FlowMod) -> Entry {
        Entry {
            counter: flow.counter,
            cookie: flow.cookie,
            idle_timeout: flow.idle_timeout,
            hard_timeout: flow.hard_timeout,
            priority: flow.priority,
            index: flow.index,
            matches: flow.matches.clone(),
            instructions: flow.instructions.clone(),
        }
    }

    /// Returns all actions of its instructions.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.instructions.iter().flat_map(Instruction::actions)
    }
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its type.
    pub group_type: GroupType,
    /// Counter of its packets; 0 for none.
    pub counter: u32,
    /// Its actions.
    pub actions: Vec<Action>,
}

/// Change of entries that a FLOW_MOD asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowChange {
    /// Adds an entry.
    Insert(TableNumber, Entry),
    /// Replaces the entry of the same index.
    Replace(TableNumber, Entry),
    /// Removes the entry with this index.
    Remove(TableNumber, u32),
    /// Changes nothing; the controller asks for this entry.
    Report(TableNumber, u32),
}

/// Change of tables that a TABLE_MOD asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// Adds or replaces an empty table.
    Set(TableNumber, Table),
    /// Changes the name and the size of a table.
    Resize(TableNumber, u32, ObjectName),
    /// Removes an empty table.
    Remove(TableNumber),
    /// Changes nothing; the controller asks for this table.
    Report(TableNumber),
}

/// Change of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupChange {
    /// Adds or replaces a group.
    Set(u32, Group),
    /// Removes a group.
    Remove(u32),
    /// Changes nothing; the controller asks for this group.
    Report(u32),
}

/// Change of meters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterChange {
    /// Adds or replaces a meter with this rate in kbit/s.
    Set(u32, u32),
    /// Removes a meter.
    Remove(u32),
    /// Changes nothing; the controller asks for this meter.
    Report(u32),
}

/// Change of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterChange {
    /// Makes a counter, at zero.
    Add(u32),
    /// Removes a counter.
    Remove(u32),
    /// Sets a counter to zero.
    Clear(u32),
    /// Changes nothing; the controller asks for this counter.
    Report(u32),
}

/// All objects of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    limits: Limits,
    tables: BTreeMap<TableNumber, Table>,
    groups: BTreeMap<u32, Group>,
    meters: BTreeMap<u32, u32>,
    counters: BTreeSet<u32>,
    forms: Forms,
    uses: Uses,
}

impl Tables {
    /// Creates the state of a switch without objects.
    pub fn new(limits: Limits) -> Tables {
        Tables {
            limits,
            ..Tables::default()
        }
    }

    /// Returns the limits and the tables, without entries and other objects.
    pub(crate) fn without_entries(&self) -> Tables {
        let tables = self.tables.iter().map(|(number, table)| {
            let fields = table.fields.clone();
            let empty = Table::new(table.table_type, table.size, table.name, fields);
            (*number, empty)
        });
        Tables {
            tables: tables.collect(),
            ..Tables::new(self.limits.clone())
        }
    }

    /// Puts another group in the place of one, and returns that. Counters are not made.
    pub(crate) fn exchange_group(&mut self, id: u32, group: Option<Group>) -> Option<Group> {
        match group {
            Some(group) => self.groups.insert(id, group),
            None => self.groups.remove(&id),
        }
    }

    /// Returns the limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the number of a table, or `None` if the type has fewer tables.
    pub fn number(&self, table_type: TableType, id: u8) -> Option<TableNumber> {
        let at = table_type as usize;
        let before: u32 = self.limits.tables[..at].iter().map(|n| u32::from(*n)).sum();
        let number = u8::try_from(before + u32::from(id)).ok()?;
        let number = TableNumber(number);
        (id < self.limits.tables[at] && number != TableNumber::PACKET_OUT).then_some(number)
    }

    /// Returns the number of a table among those of its type.
    pub fn id_in_type(&self, number: TableNumber) -> u8 {
        let mut id = number.0;
        for tables in self.limits.tables {
            if id < tables {
                break;
            }
            id -= tables;
        }
        id
    }

    /// Returns the tables, by number.
    pub fn tables(&self) -> impl Iterator<Item = (TableNumber, &Table)> {
        self.tables.iter().map(|(number, table)| (*number, table))
    }

    /// Returns a table.
    pub fn table(&self, number: TableNumber) -> Option<&Table> {
        self.tables.get(&number)
    }

    /// Returns the groups, by number.
    pub fn groups(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.groups.iter().map(|(id, group)| (*id, group))
    }

    /// Returns a group.
    pub fn group(&self, id: u32) -> Option<&Group> {
        self.groups.get(&id)
    }

    /// Returns the meters, by number, and their rates in kbit/s.
    pub fn meters(&self) -> impl Iterator<Item = (u32, u32)> {
        self.meters.iter().map(|(id, rate)| (*id, *rate))
    }

    /// Returns the rate of a meter in kbit/s.
    pub fn meter(&self, id: u32) -> Option<u32> {
        self.meters.get(&id).copied()
    }

    /// Returns true if there is a counter of this number.
    pub fn has_counter(&self, id: u32) -> bool {
        self.counters.contains(&id)
    }

    /// Returns the counters.
    pub fn counters(&self) -> impl Iterator<Item = u32> {
        self.counters.iter().copied()
    }

    /// Returns the entries that use a group: table and index.
    pub fn users_of_group(&self, group: u32) -> impl Iterator<Item = (TableNumber, u32)> {
        self.uses.of_group(group)
    }

    /// Returns the number of entries that use a group.
    pub fn count_users_of_group(&self, group: u32) -> usize {
        self.uses.count_of_group(group)
    }

    /// Returns the number of entries that use a meter.
    pub fn users_of_meter(&self, meter: u32) -> usize {
        self.uses.count_of_meter(meter)
    }

    /// Returns an entry that leads to a table: its table and index.
    pub(crate) fn leading_to(&self, wanted: TableNumber) -> Option<(TableNumber, u32)> {
        let leads = |entry: &Entry| {
            let mut next = entry.instructions.iter().filter_map(next_table);
            next.any(|table| table == wanted)
        };
        self.tables.iter().find_map(|(number, table)| {
            let entry = table.entries().find(leads)?;
            Some((*number, entry.index))
        })
    }

    /// Returns the entry that a message would make or change, and its table. What the message
    /// selects is not checked.
    pub(crate) fn new_entry(&self, flow: &FlowMod) -> Option<(TableNumber, Entry)> {
        let makes = matches!(
            flow.command,
            FlowCommand::Add | FlowCommand::Modify | FlowCommand::ModifyStrict
        );
        let number = self.number(flow.table_type, flow.table).filter(|_| makes)?;
        let entry = Entry::of(flow);
        let is_allowed = self.check_entry(self.table(number)?, &entry).is_ok();
        is_allowed.then_some((number, entry))
    }

    /// Checks a FLOW_MOD.
    ///
    /// # Errors
    /// The message is not allowed in this state.
    pub fn flow_change(&self, flow: &FlowMod) -> Result<FlowChange, ErrorCode> {
        self.check_slot(flow.slot)?;
        let number = self.number(flow.table_type, flow.table);
        let number = number.ok_or(ErrorCode::FlowBadTable)?;
        let table = self.table(number).ok_or(ErrorCode::FlowBadTable)?;
        let is_strict = matches!(
            flow.command,
            FlowCommand::ModifyStrict | FlowCommand::DeleteStrict
        );
        if !is_strict && flow.index >= table.size {
            return Err(ErrorCode::BadEntryIndex);
        }
        let entry = Entry::of(flow);
        match flow.command {
            FlowCommand::Add => {
                self.check_entry(table, &entry)?;
                if table.has_entry(flow.index) {
                    return Err(ErrorCode::EntryExists);
                }
                if table.same_match(&entry).is_some() {
                    return Err(ErrorCode::FlowOverlap);
                }
                if table.len() >= table.size as usize {
                    return Err(ErrorCode::TableFull);
                }
                Ok(FlowChange::Insert(number, entry))
            }
            FlowCommand::Modify => {
                self.selected(table, flow, Some(flow.index))?;
                self.check_entry(table, &entry)?;
                let other = table.same_match(&entry);
                if other.is_some_and(|other| other != flow.index) {
                    return Err(ErrorCode::FlowOverlap);
                }
                Ok(FlowChange::Replace(number, entry))
            }
            FlowCommand::ModifyStrict => {
                self.check_entry(table, &entry)?;
                let index = table.same_match(&entry);
                let old = self.selected(table, flow, index)?;
                let new = Entry {
                    counter: entry.counter,
                    instructions: entry.instructions,
                    ..old
                };
                Ok(FlowChange::Replace(number, new))
            }
            FlowCommand::Delete => {
                let old = self.selected(table, flow, Some(flow.index))?;
                Ok(FlowChange::Remove(number, old.index))
            }
            FlowCommand::DeleteStrict => {
                check::matches(table, &entry.matches)?;
                let index = table.same_match(&entry);
                let old = self.selected(table, flow, index)?;
                Ok(FlowChange::Remove(number, old.index))
            }
            FlowCommand::Query => {
                let old = self.selected(table, flow, Some(flow.index))?;
                Ok(FlowChange::Report(number, old.index))
            }
            FlowCommand::QueryResult => Err(ErrorCode::FlowBadCommand),
        }
    }

    /// Returns the entry that a message selects by index and cookie.
    fn selected(
        &self,
        table: &Table,
        flow: &FlowMod,
        index: Option<u32>,
    ) -> Result<Entry, ErrorCode> {
        let entry = index.and_then(|index| table.entry(index));
        let has_cookie = |entry: &Entry| (entry.cookie ^ flow.cookie) & flow.cookie_mask == 0;
        entry.filter(has_cookie).ok_or(ErrorCode::NoSuchEntry)
    }

    /// Applies a change that [`Tables::flow_change`] has returned for this state. Returns the
    /// counters that it made.
    pub fn apply_flow(&mut self, change: FlowChange) -> Vec<u32> {
        let (number, old, new) = match change {
            FlowChange::Insert(number, entry) => (number, None, Some(entry)),
            FlowChange::Replace(number, entry) => (number, Some(entry.index), Some(entry)),
            FlowChange::Remove(number, index) => (number, Some(index), None),
            FlowChange::Report(..) => return Vec::new(),
        };
        let Some(table) = self.tables.get_mut(&number) else {
            return Vec::new();
        };
        let made = match &new {
            Some(entry) => {
                let used = check::counters_of(entry.counter, entry.actions());
                used.filter(|id| self.counters.insert(*id)).collect()
            }
            None => Vec::new(),
        };
        if let Some(index) = old
            && let Some(entry) = table.remove(index, &mut self.forms)
        {
            self.uses.remove(number, &entry);
        }
        if let Some(entry) = new {
            self.uses.add(number, &entry);
            table.insert(entry, &mut self.forms);
        }
        made
    }

    /// Checks a TABLE_MOD.
    ///
    /// # Errors
    /// The message is not allowed in this state.
    pub fn table_change(&self, wanted: &TableMod) -> Result<TableChange, ErrorCode> {
        self.check_slot(wanted.slot)?;
        let number = self.number(wanted.table_type, wanted.id);
        let number = number.ok_or(ErrorCode::BadTableId)?;
        let old = self.table(number);
        match wanted.command {
            Command::Add if old.is_some() => Err(ErrorCode::TableExists),
            Command::Add => Ok(TableChange::Set(number, self.new_table(wanted)?)),
            Command::Modify => {
                let old = old.ok_or(ErrorCode::NoSuchTable)?;
                let new = self.new_table(wanted)?;
                // Its entries keep their places, so only what they do not depend on may change.
                if old.fields == new.fields {
                    let highest = old.indices().next_back();
                    return match highest.is_some_and(|index| index >= new.size) {
                        true => Err(ErrorCode::BadTableSize),
                        false => Ok(TableChange::Resize(number, new.size, new.name)),
                    };
                }
                match old.is_empty() {
                    true => Ok(TableChange::Set(number, new)),
                    false => Err(ErrorCode::TableNotEmpty),
                }
            }
            Command::Delete => {
                let old = old.ok_or(ErrorCode::NoSuchTable)?;
                match !old.is_empty() || self.uses.leads_to(number) {
                    true => Err(ErrorCode::TableNotEmpty),
                    false => Ok(TableChange::Remove(number)),
                }
            }
            Command::Query => {
                old.ok_or(ErrorCode::NoSuchTable)?;
                Ok(TableChange::Report(number))
            }
            Command::QueryResult => Err(ErrorCode::TableBadCommand),
        }
    }

    fn new_table(&self, wanted: &TableMod) -> Result<Table, ErrorCode> {
        if !(1..=self.limits.table_size).contains(&wanted.size) {
            return Err(ErrorCode::BadTableSize);
        }
        check::key(wanted, self.limits.key_bits)?;
        let fields = wanted.fields.clone();
        Ok(Table::new(
            wanted.table_type,
            wanted.size,
            wanted.name,
            fields,
        ))
    }

    /// Applies a change that [`Tables::table_change`] has returned for this state.
    pub fn apply_table(&mut self, change: TableChange) {
        match change {
            TableChange::Set(number, table) => {
                self.tables.insert(number, table);
            }
            TableChange::Resize(number, size, name) => {
                if let Some(table) = self.tables.get_mut(&number) {
                    (table.size, table.name) = (size, name);
                }
            }
            TableChange::Remove(number) => {
                self.tables.remove(&number);
            }
            TableChange::Report(_) => {}
        }
    }

    /// Returns a copy of a table, for [`Tables::restore_table`].
    pub(crate) fn clone_of_table(&self, number: Option<TableNumber>) -> Option<Table> {
        self.tables.get(&number?).cloned()
    }

    /// Undoes a change of a table.
    pub(crate) fn restore_table(&mut self, number: Option<TableNumber>, before: Option<Table>) {
        match (number, before) {
            (Some(number), Some(before)) => self.tables.insert(number, before),
            (Some(number), None) => self.tables.remove(&number),
            (None, _) => None,
        };
    }

    /// Checks a GROUP_MOD.
    ///
    /// # Errors
    /// The message is not allowed in this state.
    pub fn group_change(&self, wanted: &GroupMod) -> Result<GroupChange, ErrorCode> {
        self.check_slot(wanted.slot)?;
        if wanted.id >= self.limits.groups {
            return Err(ErrorCode::InvalidGroup);
        }
        let old = self.group(wanted.id);
        let new = || {
            self.check_group(wanted)?;
            let group = Group {
                group_type: wanted.group_type,
                counter: wanted.counter,
                actions: wanted.actions.clone(),
            };
            Ok(GroupChange::Set(wanted.id, group))
        };
        match wanted.command {
            Command::Add if old.is_some() => Err(ErrorCode::GroupExists),
            Command::Add => new(),
            _ if old.is_none() => Err(ErrorCode::UnknownGroup),
            Command::Modify => new(),
            Command::Delete if self.uses.count_of_group(wanted.id) > 0 => {
                Err(ErrorCode::GroupInUse)
            }
            Command::Delete => Ok(GroupChange::Remove(wanted.id)),
            Command::Query => Ok(GroupChange::Report(wanted.id)),
            Command::QueryResult => Err(ErrorCode::GroupBadCommand),
        }
    }

    /// Applies a change that [`Tables::group_change`] has returned for this state. Returns the
    /// counters that it made.
    pub fn apply_group(&mut self, change: GroupChange) -> Vec<u32> {
        match change {
            GroupChange::Set(id, group) => {
                let used = check::counters_of(group.counter, group.actions.iter());
                let made = used.filter(|id| self.counters.insert(*id)).collect();
                self.groups.insert(id, group);
                return made;
            }
            GroupChange::Remove(id) => {
                self.groups.remove(&id);
            }
            GroupChange::Report(_) => {}
        }
        Vec::new()
    }

    /// Checks a METER_MOD.
    ///
    /// # Errors
    /// The message is not allowed in this state.
    pub fn meter_change(&self, wanted: &MeterMod) -> Result<MeterChange, ErrorCode> {
        self.check_slot(wanted.slot)?;
        if wanted.id >= self.limits.meters {
            return Err(ErrorCode::InvalidMeter);
        }
        let exists = self.meters.contains_key(&wanted.id);
        match wanted.command {
            Command::Add if exists => Err(ErrorCode::MeterExists),
            Command::Add => Ok(MeterChange::Set(wanted.id, wanted.rate)),
            _ if !exists => Err(ErrorCode::UnknownMeter),
            Command::Modify => Ok(MeterChange::Set(wanted.id, wanted.rate)),
            Command::Delete if self.users_of_meter(wanted.id) > 0 => Err(ErrorCode::MeterInUse),
            Command::Delete => Ok(MeterChange::Remove(wanted.id)),
            Command::Query => Ok(MeterChange::Report(wanted.id)),
            Command::QueryResult => Err(ErrorCode::MeterBadCommand),
        }
    }

    /// Applies a change that [`Tables::meter_change`] has returned for this state.
    pub fn apply_meter(&mut self, change: MeterChange) {
        match change {
            MeterChange::Set(id, rate) => {
                self.meters.insert(id, rate);
            }
            MeterChange::Remove(id) => {
                self.meters.remove(&id);
            }
            MeterChange::Report(_) => {}
        }
    }

    /// Checks a COUNTER_MOD or COUNTER_REQUEST. The command of a request counts as a query.
    ///
    /// # Errors
    /// The message is not allowed in this state.
    pub fn counter_change(&self, wanted: &Counter) -> Result<CounterChange, ErrorCode> {
        self.check_slot(wanted.slot)?;
        let id = wanted.id;
        if id == 0 || id >= self.limits.counters {
            return Err(ErrorCode::BadCounterId);
        }
        let exists = self.counters.contains(&id);
        match wanted.command {
            CounterCommand::Add => Ok(CounterChange::Add(id)),
            _ if !exists => Err(ErrorCode::NoSuchCounter),
            CounterCommand::Delete => Ok(CounterChange::Remove(id)),
            CounterCommand::Clear => Ok(CounterChange::Clear(id)),
            CounterCommand::Query => Ok(CounterChange::Report(id)),
            CounterCommand::QueryResult => Err(ErrorCode::CounterBadCommand),
        }
    }

    /// Applies a change that [`Tables::counter_change`] has returned for this state.
    pub fn apply_counter(&mut self, change: CounterChange) {
        match change {
            CounterChange::Add(id) => {
                self.counters.insert(id);
            }
            CounterChange::Remove(id) => {
                self.counters.remove(&id);
            }
            CounterChange::Clear(_) | CounterChange::Report(_) => {}
        }
    }

    fn check_slot(&self, slot: u16) -> Result<(), ErrorCode> {
        match slot {
            0 | 0xFFFF => Ok(()),
            _ => Err(ErrorCode::InvalidSlot),
        }
    }
}
