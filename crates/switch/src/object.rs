//! Objects of a device's persistent state. Each has a key, its [`ObjectPlace`], and is read and
//! restored separately.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bits::Value;
use exec::{ExternState, HashParameters};
use ir::{ActionCall, ActionId, ExternId, KeyMatch, Program, TableId, ValueSetId};
use packet::{Nanos, PortId};
use table::{
    ActionRef, CounterReading, Entry, EntryAction, EntryId, FieldMatch, GroupId, GroupMember,
    LearnedEntry, MemberId, MeterConfig,
};

use crate::control::{Action, Change, ControlCode, ControlError, Record, TableEntry, refused};
use crate::device::Device;
use crate::pre::{CloneSession, Replica};
use crate::profiles::is_one_shot;
use crate::queue::QueueConfig;

/// Number of cells of a counter, meter or register that form one object.
pub const CELLS: u32 = 64;

/// Key of an object. The order of keys is an order of restoration: an object comes after those to
/// which it refers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectPlace {
    /// The program.
    Program,
    /// A note of the control plane.
    Note(Box<[u8]>),
    /// The parameters of the hash algorithms.
    Hash,
    /// PNA: the host ports.
    HostPorts,
    /// PNA: the time-out of this expire profile.
    ExpireProfile(u8),
    /// The queue configuration of a port.
    Queue(PortId),
    /// A value set.
    ValueSet(ValueSetId),
    /// A member of an action profile.
    Member(ExternId, u32),
    /// A group of a selector.
    Group(ExternId, u32),
    /// All entries of a table, including those that packets added. This object can only be deleted.
    Entries(TableId),
    /// A table entry.
    Entry(TableId, EntryId),
    /// The next entry number of a table.
    NextEntry(TableId),
    /// The default entry of a table.
    Default(TableId),
    /// The entry with this key that a packet added.
    Learned(TableId, Box<[u64]>),
    /// PNA: the next flow id.
    NextFlow,
    /// A multicast group.
    Multicast(u32),
    /// A clone session.
    CloneSession(u32),
    /// The configurations of [`CELLS`] meters, from index [`CELLS`] times this number on.
    Meters(ExternId, u32),
    /// The values of [`CELLS`] counters.
    Counters(ExternId, u32),
    /// The direct counter of an entry, or of the default action.
    DirectCounter(TableId, Option<EntryId>),
    /// The values of [`CELLS`] register cells.
    Registers(ExternId, u32),
}

/// Value of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// The program.
    Program(Arc<Program>),
    /// A note.
    Note(Box<[u8]>),
    /// The parameters of the hash algorithms.
    Hash(HashParameters),
    /// Host ports.
    HostPorts(Vec<u32>),
    /// A time-out, if it is set.
    Timeout(Option<Nanos>),
    /// The queue configuration of a port.
    Queue(QueueConfig),
    /// Members of a value set.
    ValueSet(Vec<Vec<KeyMatch>>),
    /// The action of a member.
    Member(ActionId, Vec<Value>),
    /// The members of a group, and their weights.
    Group(Vec<(u32, u32)>),
    /// An entry with its metadata. Of a const entry only the direct meter is restored.
    Entry(TableEntry, Box<[u8]>),
    /// The next number.
    Next(u64),
    /// The default action, if it is not the program's, and its direct meter.
    Default(Option<ActionCall>, Option<MeterConfig>),
    /// An entry that a packet added.
    Learned(LearnedEntry),
    /// The copies of a multicast group.
    Replicas(Vec<Replica>),
    /// A clone session.
    CloneSession(CloneSession),
    /// The configurations of meters.
    Meters(Vec<Option<MeterConfig>>),
    /// The values of counters.
    Counters(Vec<CounterReading>),
    /// The value of a counter.
    Counter(CounterReading),
    /// The values of register cells.
    Registers(Vec<Vec<Value>>),
}

/// Objects that a change has modified.
pub(crate) enum Changed {
    /// These objects.
    Places(Vec<ObjectPlace>),
    /// All objects.
    Everything,
}

/// Converts the match of a field to the form of a [`TableEntry`].
pub fn key_match(matched: &FieldMatch) -> KeyMatch {
    match matched {
        FieldMatch::Exact(value) | FieldMatch::Optional(Some(value)) => {
            KeyMatch::Exact(value.clone())
        }
        FieldMatch::Optional(None) => KeyMatch::Any,
        FieldMatch::Lpm { value, prefix_len } => KeyMatch::Lpm(value.clone(), *prefix_len),
        FieldMatch::Ternary { value, mask } => KeyMatch::Ternary(value.clone(), mask.clone()),
        FieldMatch::Range { lo, hi } => KeyMatch::Range(lo.clone(), hi.clone()),
    }
}

/// Returns the values of an action's parameters.
pub fn arguments(action: &ir::Action, params: &[u64]) -> Vec<Value> {
    let mut at = 0;
    let value = |param: &ir::ActionParam| {
        let own = params.get(at..).unwrap_or(&[]);
        at += ir::limbs_of(param.ty) as usize;
        Value::from_limbs(own, param.ty.width())
    };
    action.params.iter().map(value).collect()
}

/// Returns the cell objects that a change of one cell, or of all, modifies.
fn chunks(device: &Device, id: ExternId, index: Option<u32>) -> std::ops::Range<u32> {
    match index {
        Some(index) => index / CELLS..index / CELLS + 1,
        None => 0..cells_of(device, id).div_ceil(CELLS),
    }
}

fn cells_of(device: &Device, id: ExternId) -> u32 {
    match device.configuration().cells.get(id) {
        Some(ExternState::Counter(counters)) => counters.len() as u32,
        Some(ExternState::Meter(meters)) => meters.len() as u32,
        Some(ExternState::Register(registers)) => registers.size(),
        _ => 0,
    }
}

/// Returns the objects that a recorded change has modified.
pub(crate) fn changed(device: &Device, record: &Record) -> Changed {
    let cells = |id, index, place: fn(ExternId, u32) -> ObjectPlace| {
        let chunks = chunks(device, id, index);
        chunks.map(|chunk| place(id, chunk)).collect()
    };
    Changed::Places(match &record.change {
        Change::Program => return Changed::Everything,
        Change::Insert(table, entry) => {
            let made = record.entry.map(|id| ObjectPlace::Entry(*table, id));
            let counter = entry.counter.and(record.entry);
            let counter = counter.map(|id| ObjectPlace::DirectCounter(*table, Some(id)));
            let made = made.into_iter().chain(counter);
            made.chain([ObjectPlace::NextEntry(*table)]).collect()
        }
        Change::Modify(table, id, ..)
        | Change::SetMetadata(table, id, _)
        | Change::Delete(table, id)
        | Change::SetDirectMeter(table, Some(id), _) => vec![ObjectPlace::Entry(*table, *id)],
        Change::Clear(table) => vec![ObjectPlace::Entries(*table)],
        Change::SetDefault(table, _)
        | Change::ResetDefault(table)
        | Change::SetDirectMeter(table, None, _) => vec![ObjectPlace::Default(*table)],
        Change::SetMember { profile, id, .. } | Change::DeleteMember(profile, id) => {
            vec![ObjectPlace::Member(*profile, *id)]
        }
        Change::SetGroup { profile, id, .. } | Change::DeleteGroup(profile, id) => {
            vec![ObjectPlace::Group(*profile, *id)]
        }
        Change::SetMulticast(id, _) | Change::DeleteMulticast(id) => {
            vec![ObjectPlace::Multicast(*id)]
        }
        Change::SetCloneSession(id, _) | Change::DeleteCloneSession(id) => {
            vec![ObjectPlace::CloneSession(*id)]
        }
        Change::WriteRegister(id, index, _) => cells(*id, *index, ObjectPlace::Registers),
        Change::ResetRegister(id) => cells(*id, None, ObjectPlace::Registers),
        Change::SetMeter(id, index, _) | Change::ResetMeter(id, index) => {
            cells(*id, *index, ObjectPlace::Meters)
        }
        // Only the rates of meters are stored.
        Change::WriteColorCounts(..) | Change::WriteDirectColorCounts(..) => Vec::new(),
        Change::WriteCounter(id, index, _) => cells(*id, *index, ObjectPlace::Counters),
        Change::WriteDirectCounter(table, id, _) => vec![ObjectPlace::DirectCounter(*table, *id)],
        Change::SetValueSet(id, _) => vec![ObjectPlace::ValueSet(*id)],
        Change::SetHashParameters(_) => vec![ObjectPlace::Hash],
        Change::SetHostPorts(_) => vec![ObjectPlace::HostPorts],
        Change::SetExpireProfile(profile, _) => vec![ObjectPlace::ExpireProfile(*profile)],
        Change::SetQueue(port, _) => vec![ObjectPlace::Queue(*port)],
        Change::Forget(table, _, key) => vec![ObjectPlace::Learned(*table, key.clone())],
        Change::Relearn(table, entry) => vec![ObjectPlace::Learned(*table, entry.key.clone())],
        Change::Learn(table, entry) | Change::Expire(table, entry) => {
            vec![
                ObjectPlace::Learned(*table, entry.key.clone()),
                ObjectPlace::NextFlow,
            ]
        }
        Change::SetNote(name, _) => vec![ObjectPlace::Note(name.clone())],
    })
}

/// Returns the keys of all objects that a device may have.
pub(crate) fn all_places(device: &Device) -> BTreeSet<ObjectPlace> {
    places_with(device, |_| true)
}

/// Returns the keys of all objects but those of entries of tables for which `has_entries` is false.
fn places_with(device: &Device, has_entries: impl Fn(TableId) -> bool) -> BTreeSet<ObjectPlace> {
    let configuration = device.configuration();
    let mut places = BTreeSet::from([
        ObjectPlace::Program,
        ObjectPlace::Hash,
        ObjectPlace::HostPorts,
        ObjectPlace::NextFlow,
    ]);
    places.extend(device.notes().keys().cloned().map(ObjectPlace::Note));
    places.extend((0..=u8::MAX).map(ObjectPlace::ExpireProfile));
    let queues = device.core.queues.configured().into_iter();
    places.extend(queues.map(|(port, _)| ObjectPlace::Queue(port)));
    places.extend(
        configuration
            .value_sets
            .iter()
            .map(|(id, _)| ObjectPlace::ValueSet(id)),
    );
    for (id, profile) in configuration.profiles.iter() {
        let Some(profile) = profile else { continue };
        places.extend(
            profile
                .members()
                .map(|(member, _)| ObjectPlace::Member(id, member.get())),
        );
        places.extend(
            profile
                .groups()
                .map(|(group, _)| ObjectPlace::Group(id, group.get())),
        );
    }
    for (id, _) in configuration.tables.iter() {
        places.extend([ObjectPlace::NextEntry(id), ObjectPlace::Default(id)]);
        if has_entries(id) {
            places.extend(entries_of(device, id));
        }
    }
    let replication = device.replication();
    places.extend(
        replication
            .groups()
            .map(|(id, _)| ObjectPlace::Multicast(id)),
    );
    places.extend(
        replication
            .sessions()
            .map(|(id, _)| ObjectPlace::CloneSession(id)),
    );
    for (id, cells) in configuration.cells.iter() {
        let place = match cells {
            ExternState::Meter(_) => ObjectPlace::Meters,
            _ => continue,
        };
        places.extend(chunks(device, id, None).map(|chunk| place(id, chunk)));
    }
    places
}

/// Returns the keys of a table's entries.
pub(crate) fn entries_of(device: &Device, table: TableId) -> Vec<ObjectPlace> {
    let entries = device.configuration().tables[table].ids();
    let entries = entries.map(|entry| ObjectPlace::Entry(table, entry));
    let learned = device.configuration().learned[table].as_ref();
    let learned = learned.map_or_else(Vec::new, |learned| learned.entries());
    let learned = learned
        .into_iter()
        .map(|entry| ObjectPlace::Learned(table, entry.key));
    entries.chain(learned).collect()
}

/// Returns the keys of all counters.
pub(crate) fn counters_of(device: &Device) -> Vec<ObjectPlace> {
    let mut places = arrays(
        device,
        |cells| matches!(cells, ExternState::Counter(_)),
        ObjectPlace::Counters,
    );
    for (table, declared) in device.program().tables.iter() {
        if declared.direct_counter.is_some() {
            let entries = device.configuration().tables[table].ids();
            let entries = entries.map(|entry| ObjectPlace::DirectCounter(table, Some(entry)));
            places.extend(entries.chain([ObjectPlace::DirectCounter(table, None)]));
        }
    }
    places
}

/// Returns the keys of all registers.
pub(crate) fn registers_of(device: &Device) -> Vec<ObjectPlace> {
    arrays(
        device,
        |cells| matches!(cells, ExternState::Register(_)),
        ObjectPlace::Registers,
    )
}

fn arrays(
    device: &Device,
    is_meant: fn(&ExternState) -> bool,
    place: fn(ExternId, u32) -> ObjectPlace,
) -> Vec<ObjectPlace> {
    let cells = device.configuration().cells.iter();
    let meant = cells.filter(|(_, cells)| is_meant(cells));
    let places =
        meant.flat_map(|(id, _)| chunks(device, id, None).map(move |chunk| place(id, chunk)));
    places.collect()
}

impl Device {
    /// Returns the object with this key, if there is one.
    pub(crate) fn object(&self, place: &ObjectPlace) -> Option<Object> {
        let configuration = self.configuration();
        Some(match place {
            ObjectPlace::Program => Object::Program(Arc::clone(self.program())),
            ObjectPlace::Note(name) => Object::Note(self.notes().get(name)?.clone()),
            ObjectPlace::Hash => Object::Hash((*configuration.hash).clone()),
            ObjectPlace::HostPorts => Object::HostPorts(configuration.host_ports.to_vec()),
            ObjectPlace::ExpireProfile(profile) => {
                let timeout = configuration
                    .expire_profiles
                    .timeout_ns((*profile).into())?;
                Object::Timeout(Some(Nanos(timeout)))
            }
            ObjectPlace::Queue(port) => Object::Queue(self.core.queues.config(*port)),
            ObjectPlace::ValueSet(id) => {
                let members = configuration.value_sets.get(*id)?.members();
                let members = members.map(|member| member.iter().map(key_match).collect());
                Object::ValueSet(members.collect())
            }
            ObjectPlace::Member(profile, id) => self.member_object(*profile, *id)?,
            ObjectPlace::Group(profile, id) if !is_one_shot(*id) => {
                let profile = configuration.profiles.get(*profile)?.as_ref()?;
                let members = profile.group(GroupId::new(*id))?.iter();
                Object::Group(
                    members
                        .map(|part| (part.member.get(), part.weight))
                        .collect(),
                )
            }
            ObjectPlace::Group(..) | ObjectPlace::Entries(_) => return None,
            ObjectPlace::Entry(table, id) => {
                let entry = configuration.tables.get(*table)?.get(*id)?;
                let written = self.written(*table, &entry)?;
                if entry.is_const && written.meter.is_none() {
                    return None;
                }
                Object::Entry(written, entry.metadata.clone())
            }
            ObjectPlace::NextEntry(table) => {
                Object::Next(configuration.tables.get(*table)?.next_id().0)
            }
            ObjectPlace::Default(table) => self.default_object(*table)?,
            ObjectPlace::Learned(table, key) => {
                Object::Learned(configuration.learned.get(*table)?.as_ref()?.get(key)?)
            }
            ObjectPlace::NextFlow => {
                Object::Next(configuration.next_flow_id.load(Ordering::Relaxed).into())
            }
            ObjectPlace::Multicast(id) => {
                let mut groups = self.replication().groups();
                Object::Replicas(groups.find(|(other, _)| other == id)?.1.to_vec())
            }
            ObjectPlace::CloneSession(id) => {
                Object::CloneSession(self.replication().session(*id)?.clone())
            }
            ObjectPlace::Meters(id, chunk) => {
                let cells = self.cells_of_chunk(*id, *chunk);
                let configs: Vec<_> = cells.map(|index| self.read_meter(*id, index)).collect();
                configs
                    .iter()
                    .any(Option::is_some)
                    .then_some(Object::Meters(configs))?
            }
            ObjectPlace::Counters(id, chunk) => {
                let cells = self.cells_of_chunk(*id, *chunk);
                Object::Counters(
                    cells
                        .filter_map(|index| self.read_counter(*id, index))
                        .collect(),
                )
            }
            ObjectPlace::DirectCounter(table, entry) => {
                Object::Counter(configuration.tables.get(*table)?.counter(*entry)?)
            }
            ObjectPlace::Registers(id, chunk) => {
                let cells = self.cells_of_chunk(*id, *chunk);
                Object::Registers(
                    cells
                        .filter_map(|index| self.read_register(*id, index))
                        .collect(),
                )
            }
        })
    }

    pub(crate) fn cells_of_chunk(&self, id: ExternId, chunk: u32) -> std::ops::Range<u32> {
        let first = chunk.saturating_mul(CELLS);
        first..first.saturating_add(CELLS).min(cells_of(self, id))
    }

    fn member_object(&self, profile: ExternId, id: u32) -> Option<Object> {
        if is_one_shot(id) {
            return None;
        }
        let profile = self.configuration().profiles.get(profile)?.as_ref()?;
        let action = profile.member(MemberId::new(id))?;
        let id = ActionId::new(action.action);
        let declared = self.program().actions.get(id)?;
        Some(Object::Member(id, arguments(declared, &action.params)))
    }

    fn default_object(&self, table: TableId) -> Option<Object> {
        let entries = self.configuration().tables.get(table)?;
        let call = match entries.default_action() {
            EntryAction::Direct(action) => self.call(table, action),
            _ => None,
        };
        let call = call.filter(|call| *call != self.program().tables[table].default);
        let meter = entries.default_meter().and_then(|meter| meter.config());
        (call.is_some() || meter.is_some()).then_some(Object::Default(call, meter))
    }

    /// Converts an action of a table to a call.
    fn call(&self, table: TableId, action: &ActionRef) -> Option<ActionCall> {
        let program = self.program();
        let mut listed = program.tables[table].actions.iter();
        let at = listed.position(|listed| listed.action.get() == action.action)?;
        let declared = &program.actions[program.tables[table].actions[at].action];
        Some(ActionCall {
            action: at,
            args: arguments(declared, &action.params),
        })
    }

    /// Converts the action of an entry to the form of a [`TableEntry`]. Members and groups that the
    /// device created for this entry alone become a one-shot action.
    pub fn action(&self, table: TableId, action: &EntryAction) -> Option<Action> {
        let profile = self.program().tables.get(table)?.implementation;
        let profile = profile.and_then(|id| self.configuration().profiles[id].as_ref());
        let shot = |part: &GroupMember| {
            let action = profile?.member(part.member)?;
            Some((self.call(table, action)?, part.weight))
        };
        Some(match action {
            EntryAction::Direct(action) => Action::Call(self.call(table, action)?),
            EntryAction::Member(id) if is_one_shot(id.get()) => {
                let (member, weight) = (*id, 1);
                Action::OneShot(vec![shot(&GroupMember { member, weight })?])
            }
            EntryAction::Member(id) => Action::Member(id.get()),
            EntryAction::Group(id) if is_one_shot(id.get()) => {
                let parts = profile?.group(*id)?.iter();
                Action::OneShot(parts.map(shot).collect::<Option<_>>()?)
            }
            EntryAction::Group(id) => Action::Group(id.get()),
        })
    }

    /// Returns an entry in the form of a [`TableEntry`], without its metadata and its counter.
    pub fn written(&self, table: TableId, entry: &Entry) -> Option<TableEntry> {
        Some(TableEntry {
            keys: entry.matches.iter().map(key_match).collect(),
            priority: entry.priority,
            action: self.action(table, &entry.action)?,
            idle_timeout: entry.idle_timeout_ns.map(Nanos),
            meter: entry.meter.as_ref().and_then(|meter| meter.config()),
            counter: None,
        })
    }

    /// Returns all objects of the device, including its cells, in the order of keys: the input of
    /// [`Device::restore`].
    pub fn objects(&self) -> Vec<(ObjectPlace, Object)> {
        let mut places = all_places(self);
        places.extend(counters_of(self));
        places.extend(registers_of(self));
        let objects = places
            .into_iter()
            .filter_map(|place| self.object(&place).map(|object| (place, object)));
        objects.collect()
    }

    /// Returns the counters, registers and meters of the device, in the order of keys. They are
    /// read one after the other, so that a large table needs no memory for this.
    pub fn cell_objects(&self) -> impl Iterator<Item = (ObjectPlace, Object)> {
        let is_meter = |cells: &ExternState| matches!(cells, ExternState::Meter(_));
        let meters = arrays(self, is_meter, ObjectPlace::Meters);
        let is_counter = |cells: &ExternState| matches!(cells, ExternState::Counter(_));
        let counters = arrays(self, is_counter, ObjectPlace::Counters);
        let tables = self.program().tables.iter();
        let counted = tables.filter(|(_, declared)| declared.direct_counter.is_some());
        let direct = counted.flat_map(|(table, _)| {
            let entries = self.configuration().tables[table].ids().map(Some);
            let all = std::iter::once(None).chain(entries);
            all.map(move |entry| ObjectPlace::DirectCounter(table, entry))
        });
        let places = meters.into_iter().chain(counters).chain(direct);
        let places = places.chain(registers_of(self));
        places.filter_map(|place| self.object(&place).map(|object| (place, object)))
    }

    /// Returns the objects of the device but for cells that packets write, and for the entries of
    /// tables for which `has_entries` is false, in the order of keys.
    pub fn objects_with(
        &self,
        has_entries: impl Fn(TableId) -> bool,
    ) -> impl Iterator<Item = (ObjectPlace, Object)> {
        let places = places_with(self, has_entries).into_iter();
        places.filter_map(|place| self.object(&place).map(|object| (place, object)))
    }

    /// Restores the state that objects describe. It replaces all existing entries, also the
    /// program's own ones that are not const. Nothing is recorded. The objects must be in the order
    /// of their keys. The program object is ignored.
    ///
    /// # Errors
    /// An object does not fit the program, or there are more than the device may hold. The device
    /// must not be used then.
    pub fn restore(
        &mut self,
        objects: impl IntoIterator<Item = (ObjectPlace, Object)>,
    ) -> Result<(), ControlError> {
        let tables: Vec<TableId> = self.program().tables.iter().map(|(id, _)| id).collect();
        for table in tables {
            self.change(&Change::Clear(table))?;
        }
        for (place, object) in objects {
            self.put(place, object)?;
        }
        for (_, entries) in self.configuration.tables.iter_mut() {
            let last = entries.iter().next_back().map(|entry| entry.id);
            entries.number_from(EntryId(last.map_or(0, |last| last.0.saturating_add(1))));
        }
        self.is_stale = true;
        let entries = self.entries();
        let checked = self.limits().check_entries(0, entries);
        checked.or_else(|error| refused(ControlCode::ResourceExhausted, error.to_string()))
    }

    fn put(&mut self, place: ObjectPlace, object: Object) -> Result<(), ControlError> {
        let change = match (place, object) {
            (ObjectPlace::Program, Object::Program(_)) => return Ok(()),
            (ObjectPlace::Note(name), Object::Note(bytes)) => Change::SetNote(name, Some(bytes)),
            (ObjectPlace::Hash, Object::Hash(parameters)) => Change::SetHashParameters(parameters),
            (ObjectPlace::HostPorts, Object::HostPorts(ports)) => Change::SetHostPorts(ports),
            (ObjectPlace::ExpireProfile(profile), Object::Timeout(timeout)) => {
                Change::SetExpireProfile(profile, timeout)
            }
            (ObjectPlace::Queue(port), Object::Queue(config)) => Change::SetQueue(port, config),
            (ObjectPlace::ValueSet(id), Object::ValueSet(members)) => {
                Change::SetValueSet(id, members)
            }
            (ObjectPlace::Member(profile, id), Object::Member(action, args)) => Change::SetMember {
                profile,
                id,
                action,
                args,
            },
            (ObjectPlace::Group(profile, id), Object::Group(members)) => Change::SetGroup {
                profile,
                id,
                members,
            },
            (ObjectPlace::Entry(table, id), Object::Entry(entry, metadata)) => {
                return self.put_entry(table, id, entry, metadata);
            }
            (ObjectPlace::NextEntry(table), Object::Next(next)) => {
                self.table_of(table)?;
                self.configuration.tables[table].number_from(EntryId(next));
                return Ok(());
            }
            (ObjectPlace::Default(table), Object::Default(call, meter)) => {
                let call = call.map(|call| Change::SetDefault(table, call));
                call.map_or(Ok(None), |change| self.change(&change))?;
                if meter.is_none() {
                    return Ok(());
                }
                Change::SetDirectMeter(table, None, meter)
            }
            (ObjectPlace::Learned(table, _), Object::Learned(entry)) => {
                // Its idle time restarts.
                let now = self.core.now.0;
                Change::Learn(
                    table,
                    LearnedEntry {
                        timer_start_ns: now,
                        usage: Default::default(),
                        ..entry
                    },
                )
            }
            (ObjectPlace::NextFlow, Object::Next(next)) => {
                let next = next as u32;
                self.configuration
                    .next_flow_id
                    .fetch_max(next, Ordering::Relaxed);
                return Ok(());
            }
            (ObjectPlace::Multicast(id), Object::Replicas(replicas)) => {
                Change::SetMulticast(id, replicas)
            }
            (ObjectPlace::CloneSession(id), Object::CloneSession(session)) => {
                Change::SetCloneSession(id, session)
            }
            (ObjectPlace::DirectCounter(table, entry), Object::Counter(reading)) => {
                Change::WriteDirectCounter(table, entry, reading)
            }
            (ObjectPlace::Meters(id, chunk), Object::Meters(configs)) => {
                let cells = (chunk.saturating_mul(CELLS)..).zip(configs);
                let set = cells
                    .filter_map(|(index, config)| Some(Change::SetMeter(id, Some(index), config?)));
                return self.change_all(set.collect());
            }
            (ObjectPlace::Counters(id, chunk), Object::Counters(readings)) => {
                let cells = (chunk.saturating_mul(CELLS)..).zip(readings);
                let set =
                    cells.map(|(index, reading)| Change::WriteCounter(id, Some(index), reading));
                return self.change_all(set.collect());
            }
            (ObjectPlace::Registers(id, chunk), Object::Registers(cells)) => {
                let cells = (chunk.saturating_mul(CELLS)..).zip(cells);
                let set =
                    cells.map(|(index, values)| Change::WriteRegister(id, Some(index), values));
                return self.change_all(set.collect());
            }
            (place, _) => {
                let message = format!("at {place:?} there is another kind of object");
                return refused(ControlCode::InvalidArgument, message);
            }
        };
        self.change(&change).map(drop)
    }

    fn change_all(&mut self, changes: Vec<Change>) -> Result<(), ControlError> {
        changes
            .iter()
            .try_for_each(|change| self.change(change).map(drop))
    }

    /// Inserts a deleted entry again under its former number, so that its rank among entries of the
    /// same priority is unchanged.
    ///
    /// # Errors
    /// As for [`Change::Insert`], or the number belongs to another entry.
    pub fn insert_again(
        &mut self,
        table: TableId,
        id: EntryId,
        entry: TableEntry,
    ) -> Result<(), ControlError> {
        self.table_of(table)?;
        let entries = &mut self.configuration.tables[table];
        if entries.contains(id) {
            let message = format!("the entry {} of {table:?} is there", id.0);
            return refused(ControlCode::AlreadyExists, message);
        }
        let next = entries.next_id();
        entries.number_again(id);
        let made = self.apply(Change::Insert(table, entry));
        self.configuration.tables[table].number_from(next);
        made.map(drop)
    }

    fn put_entry(
        &mut self,
        table: TableId,
        id: EntryId,
        entry: TableEntry,
        metadata: Box<[u8]>,
    ) -> Result<(), ControlError> {
        self.table_of(table)?;
        let entries = &mut self.configuration.tables[table];
        if entries.get(id).is_some_and(|there| there.is_const) {
            return self
                .change(&Change::SetDirectMeter(table, Some(id), entry.meter))
                .map(drop);
        }
        entries.number_again(id);
        let made = self.change(&Change::Insert(table, entry))?;
        if made != Some(id) {
            let message = format!("the entry {} of {table:?} does not get its number", id.0);
            return refused(ControlCode::InvalidArgument, message);
        }
        match metadata.is_empty() {
            true => Ok(()),
            false => self
                .change(&Change::SetMetadata(table, id, metadata))
                .map(drop),
        }
    }
}
