//! Changes of a device as P4Runtime updates, for a controller that keeps a device at another place
//! like one of its own.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use bits::Value;
use exec::field_match;
use ir::{ActionCall, ActionId, ExternId, KeyMatch, Program, TableId};
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::packet_replication_engine_entry::Type as ReplicationType;
use p4info::p4::v1::table_action::Type as GivenAction;
use p4info::p4::v1::update::Type;
use prost::Message;
use switch::{Action, Change, CloneSession, CounterReading, EntryId, Replica, TableEntry};
use table::Entry;

use crate::controller_state::Kept;
use crate::data::DataCoder;
use crate::pipeline;
use crate::read::message;
use crate::schema::{CellsView, Schema, TableView};

/// Change that P4Runtime has no update for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError(String);

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EncodeError {}

fn unknown<T>(what: impl fmt::Display) -> Result<T, EncodeError> {
    Err(EncodeError(format!("{what} has no update in P4Runtime")))
}

/// Encoder of the changes of one device for one other device.
///
/// It has the keys of the entries that the other device holds. Entries carry the number of
/// [`EntryId`] as their metadata, eight bytes in network order.
pub struct UpdateEncoder {
    pub(crate) schema: Schema,
    /// Keys of the entries, as encoded [`rt::TableEntry`]s. An encoder that gets the entries with
    /// their changes has none.
    keys: HashMap<(TableId, EntryId), Box<[u8]>>,
    /// Other objects that exist.
    objects: HashSet<Object>,
}

/// An object that updates insert and delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Object {
    Member(ExternId, u32),
    Group(ExternId, u32),
    Multicast(u32),
    Session(u32),
}

/// Returns the number of an entry that an encoder has sent, from its metadata.
pub fn entry_number(metadata: &[u8]) -> Option<EntryId> {
    Some(EntryId(u64::from_be_bytes(metadata.try_into().ok()?)))
}

/// Returns the metadata that a controller has written with an entry of a device.
pub fn controller_metadata(entry: &table::Entry) -> Vec<u8> {
    Kept::from_bytes(&entry.metadata).metadata
}

impl UpdateEncoder {
    /// Creates the encoder for a device that runs this program and holds nothing but its constant
    /// entries.
    ///
    /// # Errors
    /// The program has no P4Info.
    pub fn new(program: Arc<Program>) -> Result<UpdateEncoder, EncodeError> {
        let schema = pipeline::own_schema(program).map_err(|fault| EncodeError(fault.message))?;
        Ok(UpdateEncoder {
            schema,
            keys: HashMap::new(),
            objects: HashSet::new(),
        })
    }

    /// Returns the id of a table in P4Runtime.
    pub fn table_id(&self, table: TableId) -> Option<u32> {
        Some(self.table(table).ok()?.id)
    }

    /// Returns the cell that an entity of a counter or register is about, and its value as a
    /// change.
    pub fn cell_change(&self, entity: &Kind) -> Option<Change> {
        match entity {
            Kind::CounterEntry(entry) => {
                let view = self.schema.counters.get(&entry.counter_id)?;
                let index = u32::try_from(entry.index.as_ref()?.index).ok()?;
                let reading = reading(entry.data.as_ref()?);
                Some(Change::WriteCounter(view.instance, Some(index), reading))
            }
            Kind::RegisterEntry(entry) => {
                let view = self.schema.registers.get(&entry.register_id)?;
                let index = u32::try_from(entry.index.as_ref()?.index).ok()?;
                let mut values = Vec::new();
                let (ty, data) = (view.data_ty.as_ref()?, entry.data.as_ref()?);
                self.data_coder().read(ty, data, &mut values).ok()?;
                Some(Change::WriteRegister(view.instance, Some(index), values))
            }
            _ => None,
        }
    }

    pub(crate) fn data_coder(&self) -> DataCoder<'_> {
        DataCoder {
            program: &self.schema.program,
            names: &self.schema.names,
        }
    }

    /// Returns the updates of a change. `made` is the entry that the change has created. A change
    /// of an entry that the other device does not hold has none.
    ///
    /// # Errors
    /// P4Runtime has no update for the change.
    pub fn updates(
        &mut self,
        change: &Change,
        made: Option<EntryId>,
    ) -> Result<Vec<rt::Update>, EncodeError> {
        self.encode(change, made, None)
    }

    /// Returns the updates of a change for a device that holds all entries of this one. `touched`
    /// are the entries that the change is about. The encoder keeps no keys: it is for such devices
    /// alone.
    ///
    /// # Errors
    /// P4Runtime has no update for the change.
    pub fn updates_of(
        &mut self,
        change: &Change,
        made: Option<EntryId>,
        touched: &[Arc<Entry>],
    ) -> Result<Vec<rt::Update>, EncodeError> {
        self.encode(change, made, Some(touched))
    }

    fn encode(
        &mut self,
        change: &Change,
        made: Option<EntryId>,
        touched: Option<&[Arc<Entry>]>,
    ) -> Result<Vec<rt::Update>, EncodeError> {
        let one = match change {
            Change::Insert(table, entry) => {
                let Some(made) = made else {
                    return unknown("an entry without a number");
                };
                let message = self.entry(*table, entry, made)?;
                if touched.is_none() {
                    self.keys.insert((*table, made), key_of(&message));
                }
                update(Type::Insert, Kind::TableEntry(message))
            }
            Change::Modify(table, id, action, timeout) => {
                let Some(key) = self.key(*table, *id, touched) else {
                    return Ok(Vec::new());
                };
                let view = self.table(*table)?;
                update(
                    Type::Modify,
                    Kind::TableEntry(rt::TableEntry {
                        action: Some(self.action(view, action)?),
                        idle_timeout_ns: timeout.map_or(0, |timeout| timeout.0 as i64),
                        metadata: id.0.to_be_bytes().to_vec(),
                        ..key
                    }),
                )
            }
            Change::Delete(table, id) => {
                let key = self.key(*table, *id, touched);
                self.keys.remove(&(*table, *id));
                match key {
                    Some(key) => update(Type::Delete, Kind::TableEntry(key)),
                    None => return Ok(Vec::new()),
                }
            }
            Change::Clear(table) => return Ok(self.clear(*table, touched)),
            Change::SetDefault(table, call) => {
                let action = Action::Call(call.clone());
                let action = self.action(self.table(*table)?, &action)?;
                self.default(*table, Some(action))?
            }
            Change::ResetDefault(table) => self.default(*table, None)?,
            Change::SetMetadata(..) | Change::SetNote(..) => return Ok(Vec::new()),
            Change::SetDirectMeter(table, id, config) => {
                let Some(key) = self.direct_key(*table, *id, touched)? else {
                    return Ok(Vec::new());
                };
                let config = config.map(message::meter);
                let meter = rt::DirectMeterEntry {
                    table_entry: Some(key),
                    config,
                    counter_data: None,
                };
                update(Type::Modify, Kind::DirectMeterEntry(meter))
            }
            Change::WriteDirectCounter(table, id, reading) => {
                let Some(key) = self.direct_key(*table, *id, touched)? else {
                    return Ok(Vec::new());
                };
                let counter = rt::DirectCounterEntry {
                    table_entry: Some(key),
                    data: Some(message::counter(*reading)),
                };
                update(Type::Modify, Kind::DirectCounterEntry(counter))
            }
            change => return self.object_updates(change),
        };
        Ok(vec![one])
    }

    /// Returns the updates of a change of another object than an entry.
    fn object_updates(&mut self, change: &Change) -> Result<Vec<rt::Update>, EncodeError> {
        let one = match change {
            Change::SetMember {
                profile,
                id,
                action,
                args,
            } => {
                let member = rt::ActionProfileMember {
                    action_profile_id: self.profile(*profile)?,
                    member_id: *id,
                    action: Some(self.call(*action, args)?),
                };
                let ty = self.set(Object::Member(*profile, *id));
                update(ty, Kind::ActionProfileMember(member))
            }
            Change::DeleteMember(profile, id) => {
                self.objects.remove(&Object::Member(*profile, *id));
                let member = rt::ActionProfileMember {
                    action_profile_id: self.profile(*profile)?,
                    member_id: *id,
                    action: None,
                };
                update(Type::Delete, Kind::ActionProfileMember(member))
            }
            Change::SetGroup {
                profile,
                id,
                members,
            } => {
                let group = self.group(*profile, *id, members)?;
                let ty = self.set(Object::Group(*profile, *id));
                update(ty, Kind::ActionProfileGroup(group))
            }
            Change::DeleteGroup(profile, id) => {
                self.objects.remove(&Object::Group(*profile, *id));
                let group = self.group(*profile, *id, &[])?;
                update(Type::Delete, Kind::ActionProfileGroup(group))
            }
            Change::SetMulticast(id, replicas) => {
                let ty = self.set(Object::Multicast(*id));
                replication(ty, multicast(*id, replicas))
            }
            Change::DeleteMulticast(id) => {
                self.objects.remove(&Object::Multicast(*id));
                replication(Type::Delete, multicast(*id, &[]))
            }
            Change::SetCloneSession(id, session) => {
                let ty = self.set(Object::Session(*id));
                replication(ty, clone_session(*id, session)?)
            }
            Change::DeleteCloneSession(id) => {
                self.objects.remove(&Object::Session(*id));
                replication(Type::Delete, clone_session(*id, &CloneSession::default())?)
            }
            Change::WriteRegister(id, index, values) => {
                let view = self.cells(*id)?;
                let Some(ty) = &view.data_ty else {
                    return unknown(format_args!("the register `{}`", view.name));
                };
                let mut scalars = values.iter().map(|value| (value.clone(), None));
                let register = rt::RegisterEntry {
                    register_id: view.id,
                    index: index.map(cell),
                    data: self.data_coder().write(ty, &mut scalars),
                };
                update(Type::Modify, Kind::RegisterEntry(register))
            }
            Change::SetMeter(id, index, config) => {
                let meter = rt::MeterEntry {
                    meter_id: self.cells(*id)?.id,
                    index: index.map(cell),
                    config: Some(message::meter(*config)),
                    counter_data: None,
                };
                update(Type::Modify, Kind::MeterEntry(meter))
            }
            Change::ResetMeter(id, index) => {
                let meter = rt::MeterEntry {
                    meter_id: self.cells(*id)?.id,
                    index: index.map(cell),
                    config: None,
                    counter_data: None,
                };
                update(Type::Modify, Kind::MeterEntry(meter))
            }
            Change::WriteCounter(id, index, reading) => {
                let counter = rt::CounterEntry {
                    counter_id: self.cells(*id)?.id,
                    index: index.map(cell),
                    data: Some(message::counter(*reading)),
                };
                update(Type::Modify, Kind::CounterEntry(counter))
            }
            Change::SetValueSet(id, members) => {
                let mut views = self.schema.value_sets.values();
                let Some(view) = views.find(|view| view.set == *id) else {
                    return unknown("a value set of another program");
                };
                let member = |keys: &Vec<KeyMatch>| rt::ValueSetMember {
                    r#match: self.matches(&view.fields, keys),
                };
                let set = rt::ValueSetEntry {
                    value_set_id: view.id,
                    members: members.iter().map(member).collect(),
                };
                update(Type::Modify, Kind::ValueSetEntry(set))
            }
            Change::SetHashParameters(_) => return unknown("the parameters of hashes"),
            Change::SetHostPorts(_) => return unknown("the list of host ports"),
            Change::SetExpireProfile(..) => return unknown("the time-out of an expire profile"),
            Change::SetQueue(..) => return unknown("the configuration of a queue"),
            Change::ResetRegister(_) => return unknown("the initial value of a register"),
            Change::WriteColorCounts(..) | Change::WriteDirectColorCounts(..) => {
                return unknown("a count of colours");
            }
            _ => return unknown("a change that packets have made"),
        };
        Ok(vec![one])
    }

    /// Notes an object. Returns the type of the update that sets it.
    fn set(&mut self, object: Object) -> Type {
        match self.objects.insert(object) {
            true => Type::Insert,
            false => Type::Modify,
        }
    }

    /// Returns the deletions of all entries of a table that the other device holds.
    fn clear(&mut self, table: TableId, touched: Option<&[Arc<Entry>]>) -> Vec<rt::Update> {
        let deletion = |key| update(Type::Delete, Kind::TableEntry(key));
        if let Some(touched) = touched {
            let keys = touched
                .iter()
                .filter_map(|entry| self.key_of_entry(table, entry));
            return keys.map(deletion).collect();
        }
        let held = self.keys.keys().filter(|(of, _)| *of == table);
        let mut held: Vec<EntryId> = held.map(|(_, id)| *id).collect();
        held.sort_unstable();
        let mut updates = Vec::new();
        for id in held {
            updates.extend(self.key(table, id, None).map(deletion));
            self.keys.remove(&(table, id));
        }
        updates
    }

    fn default(
        &self,
        table: TableId,
        action: Option<rt::TableAction>,
    ) -> Result<rt::Update, EncodeError> {
        let entry = rt::TableEntry {
            table_id: self.table(table)?.id,
            is_default_action: true,
            action,
            ..rt::TableEntry::default()
        };
        Ok(update(Type::Modify, Kind::TableEntry(entry)))
    }

    fn table(&self, table: TableId) -> Result<&TableView, EncodeError> {
        let mut views = self.schema.tables.values();
        match views.find(|view| view.table == table) {
            Some(view) => Ok(view),
            None => unknown("a table that P4Runtime does not show"),
        }
    }

    fn profile(&self, profile: ExternId) -> Result<u32, EncodeError> {
        let mut views = self.schema.profiles.values();
        match views.find(|view| view.profile == profile) {
            Some(view) => Ok(view.id),
            None => unknown("an action profile that P4Runtime does not show"),
        }
    }

    fn cells(&self, instance: ExternId) -> Result<&CellsView, EncodeError> {
        let schema = &self.schema;
        let all = [&schema.counters, &schema.meters, &schema.registers];
        let mut views = all.into_iter().flat_map(HashMap::values);
        match views.find(|view| view.instance == instance) {
            Some(view) => Ok(view),
            None => unknown("an extern object that P4Runtime does not show"),
        }
    }

    /// Returns the message of an entry with its number.
    fn entry(
        &self,
        table: TableId,
        entry: &TableEntry,
        made: EntryId,
    ) -> Result<rt::TableEntry, EncodeError> {
        let view = self.table(table)?;
        Ok(rt::TableEntry {
            table_id: view.id,
            r#match: self.matches(&view.keys, &entry.keys),
            priority: entry.priority.unwrap_or(0),
            action: Some(self.action(view, &entry.action)?),
            metadata: made.0.to_be_bytes().to_vec(),
            idle_timeout_ns: entry.idle_timeout.map_or(0, |timeout| timeout.0 as i64),
            meter_config: entry.meter.map(message::meter),
            counter_data: entry.counter.map(message::counter),
            ..rt::TableEntry::default()
        })
    }

    fn matches(
        &self,
        fields: &[crate::schema::FieldView],
        keys: &[KeyMatch],
    ) -> Vec<rt::FieldMatch> {
        let given = fields.iter().zip(keys);
        let matched = given.filter_map(|(view, key)| field_match(&view.field, key));
        let matched: Vec<_> = matched.collect();
        message::matches(&self.schema.names, fields, &matched)
    }

    fn action(&self, view: &TableView, action: &Action) -> Result<rt::TableAction, EncodeError> {
        let call = |call: &ActionCall| {
            let listed = self.schema.program.tables[view.table]
                .actions
                .get(call.action);
            match listed {
                Some(listed) => self.call(listed.action, &call.args),
                None => unknown(format_args!("an action that `{}` does not list", view.name)),
            }
        };
        let given = match action {
            Action::Call(one) => GivenAction::Action(call(one)?),
            Action::Member(id) => GivenAction::ActionProfileMemberId(*id),
            Action::Group(id) => GivenAction::ActionProfileGroupId(*id),
            Action::OneShot(parts) => {
                let mut actions = Vec::new();
                for (part, weight) in parts {
                    actions.push(rt::ActionProfileAction {
                        action: Some(call(part)?),
                        weight: *weight as i32,
                        ..rt::ActionProfileAction::default()
                    });
                }
                GivenAction::ActionProfileActionSet(rt::ActionProfileActionSet {
                    action_profile_actions: actions,
                    ..rt::ActionProfileActionSet::default()
                })
            }
        };
        Ok(rt::TableAction {
            r#type: Some(given),
        })
    }

    fn call(&self, action: ActionId, args: &[Value]) -> Result<rt::Action, EncodeError> {
        let declared = self.schema.program.actions.get(action);
        let name = declared.map_or("", |declared| declared.control_plane_name.as_str());
        let Some(view) = self.schema.action_named(name) else {
            return unknown(format_args!("the action `{name}`"));
        };
        let params = view.params.iter().zip(args);
        let params = params.map(|(param, value)| rt::action::Param {
            param_id: param.id,
            value: param.coding.write(&self.schema.names, value),
        });
        Ok(rt::Action {
            action_id: view.id,
            params: params.collect(),
        })
    }

    fn group(
        &self,
        profile: ExternId,
        id: u32,
        members: &[(u32, u32)],
    ) -> Result<rt::ActionProfileGroup, EncodeError> {
        let member = |(member_id, weight): &(u32, u32)| rt::action_profile_group::Member {
            member_id: *member_id,
            weight: *weight as i32,
            watch_kind: None,
        };
        Ok(rt::ActionProfileGroup {
            action_profile_id: self.profile(profile)?,
            group_id: id,
            members: members.iter().map(member).collect(),
            max_size: 0,
        })
    }

    /// Returns the key of an entry, if the other device holds it.
    fn key(
        &self,
        table: TableId,
        id: EntryId,
        touched: Option<&[Arc<Entry>]>,
    ) -> Option<rt::TableEntry> {
        let Some(touched) = touched else {
            let key = self.keys.get(&(table, id))?;
            return rt::TableEntry::decode(&key[..]).ok();
        };
        let entry = touched.iter().find(|entry| entry.id == id)?;
        self.key_of_entry(table, entry)
    }

    fn key_of_entry(&self, table: TableId, entry: &Entry) -> Option<rt::TableEntry> {
        let view = self.table(table).ok()?;
        Some(rt::TableEntry {
            table_id: view.id,
            r#match: message::matches(&self.schema.names, &view.keys, &entry.matches),
            priority: entry.priority.unwrap_or(0),
            ..rt::TableEntry::default()
        })
    }

    /// Returns the key of an entry, or of the default entry.
    fn direct_key(
        &self,
        table: TableId,
        id: Option<EntryId>,
        touched: Option<&[Arc<Entry>]>,
    ) -> Result<Option<rt::TableEntry>, EncodeError> {
        let Some(id) = id else {
            return Ok(Some(rt::TableEntry {
                table_id: self.table(table)?.id,
                is_default_action: true,
                ..rt::TableEntry::default()
            }));
        };
        Ok(self.key(table, id, touched))
    }
}

fn update(ty: Type, kind: Kind) -> rt::Update {
    rt::Update {
        r#type: ty.into(),
        entity: Some(rt::Entity { entity: Some(kind) }),
    }
}

fn replication(ty: Type, entry: ReplicationType) -> rt::Update {
    let entry = rt::PacketReplicationEngineEntry {
        r#type: Some(entry),
    };
    update(ty, Kind::PacketReplicationEngineEntry(entry))
}

/// Returns the encoded key of an entry.
fn key_of(entry: &rt::TableEntry) -> Box<[u8]> {
    let key = rt::TableEntry {
        table_id: entry.table_id,
        r#match: entry.r#match.clone(),
        priority: entry.priority,
        ..rt::TableEntry::default()
    };
    key.encode_to_vec().into()
}

fn cell(index: u32) -> rt::Index {
    rt::Index {
        index: index.into(),
    }
}

/// Returns the value of a counter.
pub(crate) fn reading(data: &rt::CounterData) -> CounterReading {
    CounterReading {
        packets: data.packet_count as u64,
        bytes: data.byte_count as u64,
    }
}

fn multicast(id: u32, replicas: &[Replica]) -> ReplicationType {
    ReplicationType::MulticastGroupEntry(rt::MulticastGroupEntry {
        multicast_group_id: id,
        replicas: replicas.iter().map(message::replica).collect(),
        metadata: Vec::new(),
    })
}

fn clone_session(id: u32, session: &CloneSession) -> Result<ReplicationType, EncodeError> {
    if session.group.is_some() {
        return unknown("a clone session with a multicast group");
    }
    Ok(ReplicationType::CloneSessionEntry(rt::CloneSessionEntry {
        session_id: id,
        replicas: session.replicas.iter().map(message::replica).collect(),
        class_of_service: session.class_of_service,
        packet_length_bytes: session.truncate.map_or(0, |bytes| bytes as i32),
    }))
}
