//! Control plane: every change of a device's state is one [`Change`]. It is checked against the
//! program, applied, and reported as a numbered [`Record`].

use std::fmt;
use std::sync::Arc;
use support::count::{are, count, there_are};

use bits::Value;
use exec::{ExternState, HashParameters, Registers, action_params, field_match};
use ir::{ActionCall, ActionId, ActionScope, ExternId, KeyMatch, MatchKind, TableId, ValueSetId};
use packet::{Nanos, PortId};
use table::{
    ActionRef, ColorCounts, CounterReading, Entry, EntryAction, EntryId, FieldMatch, KeyField,
    LearnedEntry, MeterArray, MeterCell, MeterConfig, NewEntry,
};

use crate::device::Device;
use crate::pre::{CloneSession, Replica};
use crate::queue::QueueConfig;

/// Table entry.
#[derive(Clone, Debug, PartialEq)]
pub struct TableEntry {
    /// Matches, one for each key that is not a selector key.
    pub keys: Vec<KeyMatch>,
    /// Priority, for tables that need one.
    pub priority: Option<i32>,
    /// Action of the entry.
    pub action: Action,
    /// Idle time-out: the control plane is notified after this time without a hit.
    pub idle_timeout: Option<Nanos>,
    /// Rates of the direct meter.
    pub meter: Option<MeterConfig>,
    /// Initial value of the direct counter.
    pub counter: Option<CounterReading>,
}

/// Action of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Runs an action.
    Call(ActionCall),
    /// Runs a member of the table's action profile.
    Member(u32),
    /// Runs a member of a group of the table's selector.
    Group(u32),
    /// Creates an action profile group for this entry alone: actions and weights.
    OneShot(Vec<(ActionCall, u32)>),
}

/// Change of a device's state.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Adds an entry.
    Insert(TableId, TableEntry),
    /// Changes the action and the idle time-out of an entry. Its match, priority and counters stay.
    Modify(TableId, EntryId, Action, Option<Nanos>),
    /// Sets the metadata that the controller stores with an entry. Packets do not see it. Const
    /// entries have none.
    SetMetadata(TableId, EntryId, Box<[u8]>),
    /// Removes an entry.
    Delete(TableId, EntryId),
    /// Removes all entries of a table that are not const.
    Clear(TableId),
    /// Sets the default action.
    SetDefault(TableId, ActionCall),
    /// Restores the default action of the program.
    ResetDefault(TableId),
    /// Adds or replaces a member of an action profile or selector.
    SetMember {
        /// The profile.
        profile: ExternId,
        /// The member.
        id: u32,
        /// Its action.
        action: ActionId,
        /// Values of its parameters.
        args: Vec<Value>,
    },
    /// Removes a member.
    DeleteMember(ExternId, u32),
    /// Adds or replaces a group of a selector: members and weights.
    SetGroup {
        /// The selector.
        profile: ExternId,
        /// The group.
        id: u32,
        /// Its members and their weights.
        members: Vec<(u32, u32)>,
    },
    /// Removes a group.
    DeleteGroup(ExternId, u32),
    /// Adds or replaces a multicast group.
    SetMulticast(u32, Vec<Replica>),
    /// Removes a multicast group.
    DeleteMulticast(u32),
    /// Adds or replaces a clone session.
    SetCloneSession(u32, CloneSession),
    /// Removes a clone session.
    DeleteCloneSession(u32),
    /// Writes one cell of a register, or all of them.
    WriteRegister(ExternId, Option<u32>, Vec<Value>),
    /// Sets all cells of a register to their initial value.
    ResetRegister(ExternId),
    /// Sets the rates of one meter, or of all.
    SetMeter(ExternId, Option<u32>, MeterConfig),
    /// Removes the rates of one meter, or of all. Such a meter marks every packet green.
    ResetMeter(ExternId, Option<u32>),
    /// Sets or removes the rates of the direct meter of an entry, or of the default action.
    SetDirectMeter(TableId, Option<EntryId>, Option<MeterConfig>),
    /// Writes the packet counts by colour of one meter, or of all.
    WriteColorCounts(ExternId, Option<u32>, ColorCounts),
    /// Writes the packet counts by colour of the direct meter of an entry, or of the default
    /// action.
    WriteDirectColorCounts(TableId, Option<EntryId>, ColorCounts),
    /// Writes one counter, or all of them.
    WriteCounter(ExternId, Option<u32>, CounterReading),
    /// Writes the direct counter of an entry, or of the default action.
    WriteDirectCounter(TableId, Option<EntryId>, CounterReading),
    /// Replaces the members of a value set.
    SetValueSet(ValueSetId, Vec<Vec<KeyMatch>>),
    /// Sets the parameters of `crc16_custom`, `crc32_custom` and of Toeplitz hashes.
    SetHashParameters(HashParameters),
    /// Sets the host ports (PNA).
    SetHostPorts(Vec<u32>),
    /// Sets the time-out of entries that packets add with this expire profile (PNA). `None` means
    /// never.
    SetExpireProfile(u8, Option<Nanos>),
    /// Configures the queues of a port.
    SetQueue(PortId, QueueConfig),
    /// Stores or removes bytes of the control plane under a name. Packets do not see them, and they
    /// outlive programs.
    SetNote(Box<[u8]>, Option<Box<[u8]>>),
    /// Another program has replaced the running one, with the state that it kept. Reported by the
    /// device; it cannot be applied.
    Program,
    /// A packet added this entry. Created by the device when a step ends. A replica that follows
    /// the records applies it.
    Learn(TableId, LearnedEntry),
    /// This entry, which a packet had added, has expired. Created and applied as [`Change::Learn`].
    Expire(TableId, LearnedEntry),
    /// A packet replaced the action of this entry, which a packet had added. Created and applied as
    /// [`Change::Learn`].
    Relearn(TableId, LearnedEntry),
    /// A packet removed the entry with this id and key, which a packet had added. Created and
    /// applied as [`Change::Learn`].
    Forget(TableId, EntryId, Box<[u64]>),
}

impl Change {
    /// Returns true for changes that packets have made, or that followed from their entries: the
    /// device creates them, and a replica applies them.
    pub fn is_learned(&self) -> bool {
        matches!(
            self,
            Change::Learn(..) | Change::Relearn(..) | Change::Forget(..) | Change::Expire(..)
        )
    }
}

/// Record of a change that was made: its position in the device's total order of changes.
#[derive(Clone, Debug)]
pub struct Record {
    /// Sequence number, from 1 without gaps.
    pub number: u64,
    /// Time of the device.
    pub time: Nanos,
    /// The change.
    pub change: Change,
    /// Id of the entry that the change created.
    pub entry: Option<EntryId>,
    /// Entries that the change removed.
    pub removed: Vec<Arc<Entry>>,
}

/// Error code, with P4Runtime's meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlCode {
    /// The change does not fit the program.
    InvalidArgument,
    /// The object does not exist.
    NotFound,
    /// The object already exists.
    AlreadyExists,
    /// A table, profile or quota is full.
    ResourceExhausted,
    /// The program does not allow the change.
    PermissionDenied,
    /// Another object refers to this one.
    FailedPrecondition,
}

/// Error of a change. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlError {
    /// The code.
    pub code: ControlCode,
    /// The cause, with names.
    pub message: String,
    /// The existing entry, if one is in conflict.
    pub existing: Option<EntryId>,
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ControlError {}

pub(crate) fn refused<T>(code: ControlCode, message: impl Into<String>) -> Result<T, ControlError> {
    Err(ControlError {
        code,
        message: message.into(),
        existing: None,
    })
}

type Applied = Result<Option<EntryId>, ControlError>;

impl Device {
    /// Applies a change. Packets see it from the next step on.
    pub fn apply(&mut self, change: Change) -> Result<Option<EntryId>, ControlError> {
        self.check_room(&change)?;
        let removed = self.removed_by(&change);
        let entry = self.change(&change)?;
        // Packets do not see notes, so no new snapshot is needed.
        self.is_stale |= !matches!(change, Change::SetNote(..));
        self.tell(change, entry, removed);
        Ok(entry)
    }

    pub(crate) fn change(&mut self, change: &Change) -> Applied {
        match change {
            Change::Insert(table, entry) => return self.insert(*table, entry),
            Change::Modify(table, id, action, timeout) => {
                self.modify(*table, *id, action, *timeout)?
            }
            Change::SetMetadata(table, id, metadata) => self.set_metadata(*table, *id, metadata)?,
            Change::Delete(table, id) => self.delete(*table, *id)?,
            Change::Clear(table) => self.clear(*table)?,
            Change::SetDefault(table, call) => self.set_default(*table, call)?,
            Change::ResetDefault(table) => {
                let own = self.table_of(*table)?.default.clone();
                self.set_default(*table, &own)?
            }
            Change::SetMember {
                profile,
                id,
                action,
                args,
            } => self.set_member(*profile, *id, *action, args)?,
            Change::DeleteMember(profile, id) => self.delete_member(*profile, *id)?,
            Change::SetGroup {
                profile,
                id,
                members,
            } => self.set_group(*profile, *id, members)?,
            Change::DeleteGroup(profile, id) => self.delete_group(*profile, *id)?,
            Change::SetMulticast(0, _) => {
                return refused(
                    ControlCode::InvalidArgument,
                    "a multicast group's number is at least 1",
                );
            }
            Change::SetMulticast(id, replicas) => self.replication.set_group(*id, replicas.clone()),
            Change::DeleteMulticast(id) if self.replication.remove_group(*id) => {}
            Change::DeleteMulticast(id) => {
                return refused(
                    ControlCode::NotFound,
                    format!("there is no multicast group {id}"),
                );
            }
            Change::SetCloneSession(id, session) => {
                self.replication.set_session(*id, session.clone())
            }
            Change::DeleteCloneSession(id) if self.replication.remove_session(*id) => {}
            Change::DeleteCloneSession(id) => {
                return refused(
                    ControlCode::NotFound,
                    format!("there is no clone session {id}"),
                );
            }
            Change::WriteRegister(register, index, values) => {
                self.write_register(*register, *index, values)?
            }
            Change::ResetRegister(register) => self.registers(*register)?.reset(),
            Change::SetMeter(meter, index, config) => {
                self.set_meter(*meter, *index, Some(*config))?
            }
            Change::ResetMeter(meter, index) => self.set_meter(*meter, *index, None)?,
            Change::SetDirectMeter(table, entry, config) => {
                self.set_direct_meter(*table, *entry, *config)?
            }
            Change::WriteColorCounts(meter, index, counts) => {
                self.write_color_counts(*meter, *index, *counts)?
            }
            Change::WriteDirectColorCounts(table, entry, counts) => {
                self.direct_meter(*table, *entry)?.write_counts(*counts);
            }
            Change::WriteDirectCounter(table, entry, reading) => {
                self.write_direct_counter(*table, *entry, *reading)?
            }
            Change::SetHashParameters(parameters) => {
                if parameters.toeplitz_key.is_empty() || parameters.toeplitz_key.len() % 4 != 0 {
                    let message = "a Toeplitz key has 4, 8, 12, ... bytes";
                    return refused(ControlCode::InvalidArgument, message);
                }
                self.configuration.hash = Arc::new(parameters.clone());
            }
            Change::SetHostPorts(ports) => {
                let mut ports = ports.clone();
                ports.sort_unstable();
                self.configuration.host_ports = ports.into();
            }
            Change::WriteCounter(counter, index, reading) => {
                self.write_counter(*counter, *index, *reading)?
            }
            Change::SetValueSet(set, members) => self.set_value_set(*set, members)?,
            Change::SetExpireProfile(profile, timeout) => {
                Arc::make_mut(&mut self.configuration.expire_profiles).set(*profile, *timeout);
            }
            Change::SetQueue(port, config) => {
                let now = self.core.now;
                self.core.queues.configure(*port, *config, now);
                if let Some(office) = &self.office {
                    office.configure(*port, *config);
                }
            }
            Change::SetNote(name, Some(bytes)) => {
                self.notes.insert(name.clone(), bytes.clone());
            }
            Change::SetNote(name, None) => {
                self.notes.remove(name);
            }
            Change::Program => {
                let message = "a program is loaded by `replace` or `adopt`";
                return refused(ControlCode::InvalidArgument, message);
            }
            Change::Learn(table, entry) => self.learn(*table, entry)?,
            Change::Expire(table, entry) => {
                let known = self.forget(*table, entry.id, &entry.key)?;
                self.put_expired(*table, known);
            }
            Change::Relearn(table, entry) => self.relearn(*table, entry)?,
            Change::Forget(table, id, key) => self.forget_removed(*table, *id, key)?,
        }
        Ok(None)
    }

    pub(crate) fn table_of(&self, id: TableId) -> Result<&ir::Table, ControlError> {
        match self.program().tables.get(id) {
            Some(table) => Ok(table),
            None => refused(ControlCode::NotFound, "there is no such table"),
        }
    }

    fn insert(&mut self, id: TableId, entry: &TableEntry) -> Applied {
        let table = self.table_of(id)?;
        let name = table.name.clone();
        if table.entries_are_const {
            let message = format!("the entries of the table `{name}` are const");
            return refused(ControlCode::PermissionDenied, message);
        }
        let matches = self.matches(id, &entry.keys)?;
        let action = self.entry_action(id, &entry.action)?;
        let mut new = NewEntry::new(matches, action.clone());
        new.priority = entry.priority;
        new.idle_timeout_ns = entry.idle_timeout.map(|time| time.0);
        let now = self.core.now.0;
        let inserted = self.configuration.tables[id].insert(new, now);
        let made = match inserted {
            Ok(made) => made,
            Err(error) => {
                self.release(id, &action);
                return Err(ControlError {
                    code: table_code(&error),
                    message: format!("the table `{name}`: {error}"),
                    existing: match error {
                        table::TableError::Duplicate(existing) => Some(existing),
                        _ => None,
                    },
                });
            }
        };
        self.set_entry_cells(id, made, entry)?;
        Ok(Some(made))
    }

    /// Sets the direct meter and counter of a new entry. The entry stays if its table has none and
    /// none was requested.
    fn set_entry_cells(
        &mut self,
        table: TableId,
        id: EntryId,
        entry: &TableEntry,
    ) -> Result<(), ControlError> {
        if entry.meter.is_none() && entry.counter.is_none() {
            return Ok(());
        }
        let name = self.table_of(table)?.name.clone();
        let entries = &mut self.configuration.tables[table];
        let failure = match (entry.meter, entries.meter(Some(id))) {
            (Some(_), None) => Some(format!("the table `{name}` has no direct meter")),
            (Some(config), Some(meter)) => {
                meter.configure(config).err().map(|error| error.to_string())
            }
            (None, _) => None,
        };
        let failure = failure.or_else(|| {
            let is_set = entry
                .counter
                .is_none_or(|reading| entries.write_counter(Some(id), reading));
            (!is_set).then(|| format!("the table `{name}` has no direct counter"))
        });
        match failure {
            None => Ok(()),
            Some(message) => {
                self.delete(table, id)?;
                refused(ControlCode::InvalidArgument, message)
            }
        }
    }

    fn matches(&self, id: TableId, keys: &[KeyMatch]) -> Result<Vec<FieldMatch>, ControlError> {
        let table = self.table_of(id)?;
        let fields = self.configuration.tables[id].spec().shape.fields();
        if fields.len() != keys.len() {
            let message = format!(
                "the table `{}` has {}, but {} given",
                table.name,
                count(fields.len() as u64, "key"),
                are(keys.len() as u64)
            );
            return refused(ControlCode::InvalidArgument, message);
        }
        let named = table
            .keys
            .iter()
            .filter(|key| key.match_kind != MatchKind::Selector);
        let matched = |((field, wanted), key): ((&KeyField, &KeyMatch), &ir::Key)| match field_match(
            field, wanted,
        ) {
            Some(matched) => Ok(matched),
            None => {
                let message = format!(
                    "the key `{}` of the table `{}` cannot match this",
                    key.name, table.name
                );
                refused(ControlCode::InvalidArgument, message)
            }
        };
        fields.iter().zip(keys).zip(named).map(matched).collect()
    }

    /// Checks a call of one of the table's actions. `forbidden` is the scope that is not allowed in
    /// this place.
    pub(crate) fn table_call(
        &self,
        id: TableId,
        call: &ActionCall,
        forbidden: ActionScope,
    ) -> Result<ActionRef, ControlError> {
        let table = self.table_of(id)?;
        let Some(listed) = table.actions.get(call.action) else {
            return refused(
                ControlCode::InvalidArgument,
                format!("the table `{}` has no such action", table.name),
            );
        };
        let action = &self.program().actions[listed.action];
        if listed.scope == forbidden {
            let place = if forbidden == ActionScope::DefaultOnly {
                "in entries"
            } else {
                "as default action"
            };
            let message = format!(
                "the action `{}` cannot be used {place} of the table `{}`",
                action.control_plane_name, table.name
            );
            return refused(ControlCode::PermissionDenied, message);
        }
        match action_params(action, &call.args) {
            Some(params) => Ok(ActionRef {
                action: listed.action.get(),
                params,
            }),
            None => refused(
                ControlCode::InvalidArgument,
                format!(
                    "the action `{}` takes other parameters",
                    action.control_plane_name
                ),
            ),
        }
    }

    fn modify(
        &mut self,
        table: TableId,
        id: EntryId,
        action: &Action,
        timeout: Option<Nanos>,
    ) -> Result<(), ControlError> {
        let name = self.table_of(table)?.name.clone();
        let refuse = |error: table::TableError| {
            refused(table_code(&error), format!("the table `{name}`: {error}"))
        };
        let old = match self.configuration.tables[table].get(id) {
            None => return refuse(table::TableError::NotFound),
            Some(old) if old.is_const => return refuse(table::TableError::ConstEntry(id)),
            Some(old) => old,
        };
        // Removes the one-shot members of the old action first, to make room for the new ones.
        let own = self.take_own(table, &old.action);
        let action = match self.entry_action(table, action) {
            Ok(action) => action,
            Err(error) => {
                self.put_back(table, own);
                return Err(error);
            }
        };
        let entries = &mut self.configuration.tables[table];
        let timeout = timeout.map(|timeout| timeout.0);
        match entries.modify(id, action.clone(), timeout, old.metadata.clone()) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.release(table, &action);
                self.put_back(table, own);
                refuse(error)
            }
        }
    }

    fn set_metadata(
        &mut self,
        table: TableId,
        id: EntryId,
        metadata: &[u8],
    ) -> Result<(), ControlError> {
        let name = self.table_of(table)?.name.clone();
        let entries = &mut self.configuration.tables[table];
        let Some(entry) = entries.get(id) else {
            let message = format!("the table `{name}` has no such entry");
            return refused(ControlCode::NotFound, message);
        };
        let (action, timeout) = (entry.action.clone(), entry.idle_timeout_ns);
        let set = entries.modify(id, action, timeout, metadata.into());
        set.or_else(|error| refused(table_code(&error), format!("the table `{name}`: {error}")))
    }

    fn delete(&mut self, table: TableId, id: EntryId) -> Result<(), ControlError> {
        let name = self.table_of(table)?.name.clone();
        let entries = &mut self.configuration.tables[table];
        match entries.delete(id) {
            Ok(entry) => {
                self.release(table, &entry.action);
                Ok(())
            }
            Err(error) => refused(table_code(&error), format!("the table `{name}`: {error}")),
        }
    }

    fn clear(&mut self, table: TableId) -> Result<(), ControlError> {
        self.table_of(table)?;
        self.tell_learned();
        let entries = &mut self.configuration.tables[table];
        let going: Vec<_> = entries.iter().filter(|entry| !entry.is_const).collect();
        entries.clear();
        for entry in going {
            self.release(table, &entry.action);
        }
        if let Some(learned) = &self.configuration.learned[table] {
            learned.clear();
        }
        Ok(())
    }

    fn set_default(&mut self, id: TableId, call: &ActionCall) -> Result<(), ControlError> {
        let table = self.table_of(id)?;
        if table.default_is_const && *call != table.default {
            let message = format!("the default action of the table `{}` is const", table.name);
            return refused(ControlCode::PermissionDenied, message);
        }
        let action = self.table_call(id, call, ActionScope::TableOnly)?;
        self.configuration.tables[id].set_default(EntryAction::Direct(action));
        Ok(())
    }

    fn cells(&self, id: ExternId) -> Option<&ExternState> {
        self.configuration.cells.get(id)
    }

    fn registers(&self, id: ExternId) -> Result<&Registers, ControlError> {
        match self.cells(id) {
            Some(ExternState::Register(registers)) => Ok(registers),
            _ => refused(ControlCode::NotFound, "there is no such register"),
        }
    }

    fn write_register(
        &self,
        id: ExternId,
        index: Option<u32>,
        values: &[Value],
    ) -> Result<(), ControlError> {
        let registers = self.registers(id)?;
        let fits = registers.arrays().len() == values.len()
            && registers
                .arrays()
                .iter()
                .zip(values)
                .all(|(array, value)| array.width() == value.width());
        if !fits {
            return refused(
                ControlCode::InvalidArgument,
                "the register's cells have other values",
            );
        }
        let indices = indices(index, registers.size())?;
        for index in indices {
            registers.set(index.into(), values);
        }
        Ok(())
    }

    fn meters(&self, id: ExternId) -> Result<&MeterArray, ControlError> {
        match self.cells(id) {
            Some(ExternState::Meter(meters)) => Ok(meters),
            _ => refused(ControlCode::NotFound, "there is no such meter"),
        }
    }

    fn set_meter(
        &self,
        id: ExternId,
        index: Option<u32>,
        config: Option<MeterConfig>,
    ) -> Result<(), ControlError> {
        let meters = self.meters(id)?;
        for index in indices(index, meters.len() as u32)? {
            let set = config.map(|config| meters.configure(index.into(), config));
            match set {
                None => meters.reset(index.into()).unwrap_or_default(),
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    return refused(ControlCode::InvalidArgument, error.to_string());
                }
            }
        }
        Ok(())
    }

    fn no_such_entry<T>(&self, table: TableId) -> Result<T, ControlError> {
        let name = &self.table_of(table)?.name;
        refused(
            ControlCode::NotFound,
            format!("the table `{name}` has no such entry"),
        )
    }

    fn write_color_counts(
        &self,
        id: ExternId,
        index: Option<u32>,
        counts: ColorCounts,
    ) -> Result<(), ControlError> {
        let meters = self.meters(id)?;
        for index in indices(index, meters.len() as u32)? {
            meters
                .write_counts(index.into(), counts)
                .unwrap_or_default();
        }
        Ok(())
    }

    /// Returns the direct meter of an entry, or of the default action.
    fn direct_meter(
        &self,
        table: TableId,
        entry: Option<EntryId>,
    ) -> Result<&MeterCell, ControlError> {
        self.table_of(table)?;
        let entries = &self.configuration.tables[table];
        if entry.is_some_and(|entry| !entries.contains(entry)) {
            return self.no_such_entry(table);
        }
        match entries.meter(entry) {
            Some(meter) => Ok(meter),
            None => refused(
                ControlCode::InvalidArgument,
                "the table has no direct meter",
            ),
        }
    }

    fn set_direct_meter(
        &self,
        table: TableId,
        entry: Option<EntryId>,
        config: Option<MeterConfig>,
    ) -> Result<(), ControlError> {
        let meter = self.direct_meter(table, entry)?;
        match config {
            None => meter.reset(),
            Some(config) => meter
                .configure(config)
                .or_else(|error| refused(ControlCode::InvalidArgument, error.to_string()))?,
        }
        Ok(())
    }

    fn write_direct_counter(
        &mut self,
        table: TableId,
        entry: Option<EntryId>,
        reading: CounterReading,
    ) -> Result<(), ControlError> {
        self.table_of(table)?;
        let entries = &mut self.configuration.tables[table];
        if entries.usage_of(entry).is_none() {
            return self.no_such_entry(table);
        }
        if !entries.write_counter(entry, reading) {
            return refused(
                ControlCode::InvalidArgument,
                "the table has no direct counter",
            );
        }
        Ok(())
    }

    fn write_counter(
        &self,
        id: ExternId,
        index: Option<u32>,
        reading: CounterReading,
    ) -> Result<(), ControlError> {
        let Some(ExternState::Counter(counters)) = self.cells(id) else {
            return refused(ControlCode::NotFound, "there is no such counter");
        };
        for index in indices(index, counters.len() as u32)? {
            counters.write(index.into(), reading);
        }
        Ok(())
    }

    fn set_value_set(
        &mut self,
        id: ValueSetId,
        members: &[Vec<KeyMatch>],
    ) -> Result<(), ControlError> {
        let Some(set) = self.configuration.value_sets.get_mut(id) else {
            return refused(ControlCode::NotFound, "there is no such value set");
        };
        let shape = set.shape().clone();
        let convert = |member: &Vec<KeyMatch>| -> Option<Vec<FieldMatch>> {
            let same = member.len() == shape.fields().len();
            same.then(|| {
                shape
                    .fields()
                    .iter()
                    .zip(member)
                    .map(|(field, wanted)| field_match(field, wanted))
                    .collect()
            })?
        };
        let Some(members) = members.iter().map(convert).collect::<Option<Vec<_>>>() else {
            return refused(
                ControlCode::InvalidArgument,
                "a member does not fit the value set's fields",
            );
        };
        set.set(members)
            .or_else(|error| refused(ControlCode::InvalidArgument, error.to_string()))
    }

    /// Returns a cell of a register, or `None` if the index is out of range.
    pub fn read_register(&self, id: ExternId, index: u32) -> Option<Vec<Value>> {
        self.registers(id).ok()?.get(index.into())
    }

    /// Returns a counter, or `None` if the index is out of range.
    pub fn read_counter(&self, id: ExternId, index: u32) -> Option<CounterReading> {
        match self.cells(id)? {
            ExternState::Counter(counters) => counters.read(index.into()),
            _ => None,
        }
    }

    /// Returns the rates of a meter, if they are set.
    pub fn read_meter(&self, id: ExternId, index: u32) -> Option<MeterConfig> {
        match self.cells(id)? {
            ExternState::Meter(meters) => meters.config(index.into()),
            _ => None,
        }
    }

    /// Returns the packet counts by colour of a meter.
    pub fn read_color_counts(&self, id: ExternId, index: u32) -> Option<ColorCounts> {
        match self.cells(id)? {
            ExternState::Meter(meters) => meters.counts(index.into()),
            _ => None,
        }
    }

    /// Returns the direct counter of an entry.
    pub fn read_direct_counter(&self, table: TableId, entry: EntryId) -> Option<CounterReading> {
        self.configuration.tables.get(table)?.counter(Some(entry))
    }
}

/// Returns the range of one index, or of all.
fn indices(index: Option<u32>, size: u32) -> Result<std::ops::Range<u32>, ControlError> {
    match index {
        None => Ok(0..size),
        Some(index) if index < size => Ok(index..index + 1),
        Some(index) => refused(
            ControlCode::InvalidArgument,
            format!(
                "the index {index} is outside: {}",
                there_are(size.into(), "cell")
            ),
        ),
    }
}

fn table_code(error: &table::TableError) -> ControlCode {
    use table::TableError::{ConstEntry, Duplicate, Full, NotFound};
    match error {
        Duplicate(_) => ControlCode::AlreadyExists,
        NotFound => ControlCode::NotFound,
        Full { .. } => ControlCode::ResourceExhausted,
        ConstEntry(_) => ControlCode::PermissionDenied,
        _ => ControlCode::InvalidArgument,
    }
}
