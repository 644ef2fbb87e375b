//! Conversion of entities that were read to the updates that would create them.

use std::fmt;

use bits::Value;
use entries::{
    CloneSession, CounterValue, EntryAction, GroupMember, MeterConfig, Object, Replica, TableEntry,
    Update, ValueSetMember,
};
use ir::{ActionCall, ActionId, ExternId, KeyMatch, TableId};
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity;
use p4info::p4::v1::field_match::FieldMatchType;
use p4info::p4::v1::replica::PortKind;

use crate::catalog::Catalog;
use crate::number;

/// A decoded entity.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The update that would create it.
    pub update: Update,
    /// True if it belongs to the program and cannot be changed.
    pub is_const: bool,
    /// Metadata of a table entry, as text; bytes that are no text are `0x` and hexadecimal digits.
    /// The update cannot express it.
    pub metadata: Option<String>,
    /// Other properties that the update cannot express.
    pub unsaid: Vec<&'static str>,
}

/// Error: an entity cannot be converted to an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// It has an id that is not in the P4Info.
    UnknownId(&'static str, u32),
    /// Its parts do not match the P4Info.
    Unfit(&'static str),
    /// It has no content: a default action that is not set, or a meter without rates.
    Nothing,
    /// The entries format cannot express it.
    NoWords(&'static str),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::UnknownId(what, id) => {
                write!(
                    f,
                    "the server tells of a {what} {id:#x}, which its P4Info does not have"
                )
            }
            DecodeError::Unfit(what) => {
                write!(
                    f,
                    "the server tells of a {what} that does not fit its P4Info"
                )
            }
            DecodeError::Nothing => f.write_str("nothing is set"),
            DecodeError::NoWords(what) => write!(f, "entries files have no words for {what}"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Returns metadata as one line of text.
fn text_of(metadata: &[u8]) -> String {
    let text = str::from_utf8(metadata).ok();
    let text = text.filter(|text| !text.chars().any(char::is_control));
    let digits = || metadata.iter().map(|byte| format!("{byte:02x}"));
    text.map_or_else(
        || format!("0x{}", digits().collect::<String>()),
        str::to_owned,
    )
}

impl Catalog {
    /// Converts an entity that a server sent to an update.
    ///
    /// # Errors
    /// The entity does not fit the P4Info, or has no content.
    pub fn read(&self, entity: &Entity) -> Result<Read, DecodeError> {
        let mut unsaid = Vec::new();
        let mut is_const = false;
        let mut metadata = None;
        let update = match entity {
            Entity::TableEntry(entry) => {
                is_const = entry.is_const;
                metadata = (!entry.metadata.is_empty()).then(|| text_of(&entry.metadata));
                self.read_table_entry(entry, &mut unsaid)?
            }
            Entity::ActionProfileMember(member) => {
                let profile = self.profile(member.action_profile_id)?;
                let action = member.action.as_ref().ok_or(DecodeError::Unfit("member"))?;
                let (action, args) = self.read_action(action)?;
                Update::Member {
                    profile,
                    id: member.member_id,
                    action,
                    args,
                }
            }
            Entity::ActionProfileGroup(group) => self.read_group(group, &mut unsaid)?,
            Entity::PacketReplicationEngineEntry(entry) => read_replication(entry, &mut unsaid)?,
            Entity::RegisterEntry(entry) => self.read_register(entry)?,
            Entity::MeterEntry(entry) => Update::Meter {
                meter: self.instance("meter", entry.meter_id)?,
                index: Some(cell(entry.index.as_ref())?),
                config: meter(entry.config.as_ref().ok_or(DecodeError::Nothing)?),
            },
            Entity::CounterEntry(entry) => Update::Counter {
                counter: self.instance("counter", entry.counter_id)?,
                index: cell(entry.index.as_ref())?,
                value: counts(entry.data.as_ref().ok_or(DecodeError::Nothing)?),
            },
            Entity::ValueSetEntry(entry) => self.read_value_set(entry)?,
            Entity::DirectMeterEntry(_) | Entity::DirectCounterEntry(_) => {
                return Err(DecodeError::NoWords(
                    "direct resources beside their entries",
                ));
            }
            Entity::DigestEntry(_) => return Err(DecodeError::NoWords("digests")),
            Entity::ExternEntry(_) => return Err(DecodeError::NoWords("other externs")),
        };
        Ok(Read {
            update,
            is_const,
            metadata,
            unsaid,
        })
    }

    fn read_table_entry(
        &self,
        entry: &rt::TableEntry,
        unsaid: &mut Vec<&'static str>,
    ) -> Result<Update, DecodeError> {
        let id = self.tables.own(entry.table_id);
        let table = id.ok_or(DecodeError::UnknownId("table", entry.table_id))?;
        let action = entry
            .action
            .as_ref()
            .and_then(|action| action.r#type.as_ref());
        if entry.is_default_action {
            return match action {
                Some(rt::table_action::Type::Action(action)) => {
                    Ok(Update::SetDefault(table, self.read_call(table, action)?))
                }
                Some(_) => Err(DecodeError::NoWords("a default action of a profile")),
                None => Err(DecodeError::Nothing),
            };
        }
        let action = action.ok_or(DecodeError::Unfit("table entry"))?;
        Ok(Update::Insert(
            table,
            TableEntry {
                keys: self.read_matches(
                    &self.fields[table],
                    &self.schema.tables[table].keys,
                    &entry.r#match,
                )?,
                priority: Some(entry.priority).filter(|priority| *priority != 0),
                action: self.read_entry_action(table, action, unsaid)?,
                idle_timeout_ns: u64::try_from(entry.idle_timeout_ns)
                    .ok()
                    .filter(|ns| *ns > 0),
                meter: entry.meter_config.as_ref().map(meter),
                counter: entry.counter_data.as_ref().map(counts),
            },
        ))
    }

    fn read_matches(
        &self,
        ids: &[u32],
        fields: &[entries::Key],
        given: &[rt::FieldMatch],
    ) -> Result<Vec<KeyMatch>, DecodeError> {
        let mut matches = vec![KeyMatch::Any; fields.len()];
        for one in given {
            let at = ids.iter().position(|id| *id == one.field_id);
            let at = at.ok_or(DecodeError::UnknownId("match field", one.field_id))?;
            let kind = one
                .field_match_type
                .as_ref()
                .ok_or(DecodeError::Unfit("match"))?;
            matches[at] = key_match(&fields[at], kind)?;
        }
        Ok(matches)
    }

    fn read_entry_action(
        &self,
        table: TableId,
        action: &rt::table_action::Type,
        unsaid: &mut Vec<&'static str>,
    ) -> Result<EntryAction, DecodeError> {
        use rt::table_action::Type;
        Ok(match action {
            Type::Action(action) => EntryAction::Call(self.read_call(table, action)?),
            Type::ActionProfileMemberId(id) => EntryAction::Member(*id),
            Type::ActionProfileGroupId(id) => EntryAction::Group(*id),
            Type::ActionProfileActionSet(set) => {
                let mut actions = Vec::new();
                for one in &set.action_profile_actions {
                    if one.watch_kind.is_some() {
                        unsaid.push("watch ports");
                    }
                    let action = one
                        .action
                        .as_ref()
                        .ok_or(DecodeError::Unfit("one-shot action"))?;
                    actions.push((self.read_call(table, action)?, unsigned(one.weight)));
                }
                EntryAction::OneShot(actions)
            }
        })
    }

    fn read_call(&self, table: TableId, action: &rt::Action) -> Result<ActionCall, DecodeError> {
        let (id, args) = self.read_action(action)?;
        let mut listed = self.schema.tables[table].actions.iter();
        let action = listed.position(|own| *own == id);
        Ok(ActionCall {
            action: action.ok_or(DecodeError::Unfit("table's action"))?,
            args,
        })
    }

    fn read_action(&self, action: &rt::Action) -> Result<(ActionId, Vec<Value>), DecodeError> {
        let id = self.actions.own(action.action_id);
        let id = id.ok_or(DecodeError::UnknownId("action", action.action_id))?;
        let params = self.params[id].iter().zip(&self.schema.actions[id].params);
        let mut args = Vec::new();
        for (number, param) in params {
            let given = action.params.iter().find(|given| given.param_id == *number);
            let given = given.ok_or(DecodeError::Unfit("action's parameter"))?;
            args.push(number::read(param.ty, &given.value));
        }
        Ok((id, args))
    }

    fn instance(&self, what: &'static str, id: u32) -> Result<ExternId, DecodeError> {
        self.externs.own(id).ok_or(DecodeError::UnknownId(what, id))
    }

    fn profile(&self, id: u32) -> Result<ExternId, DecodeError> {
        self.instance("action profile", id)
    }

    fn read_group(
        &self,
        group: &rt::ActionProfileGroup,
        unsaid: &mut Vec<&'static str>,
    ) -> Result<Update, DecodeError> {
        if group
            .members
            .iter()
            .any(|member| member.watch_kind.is_some())
        {
            unsaid.push("watch ports");
        }
        let members = group.members.iter().map(|member| GroupMember {
            member: member.member_id,
            weight: unsigned(member.weight),
        });
        Ok(Update::Group {
            profile: self.profile(group.action_profile_id)?,
            id: group.group_id,
            members: members.collect(),
            max_size: u32::try_from(group.max_size).unwrap_or(0),
        })
    }

    fn read_register(&self, entry: &rt::RegisterEntry) -> Result<Update, DecodeError> {
        let register = self.instance("register", entry.register_id)?;
        if !matches!(self.schema.externs[register].kind, Object::Register { .. }) {
            return Err(DecodeError::NoWords("a register of this type"));
        }
        let data = entry.data.as_ref().ok_or(DecodeError::Nothing)?;
        let spec = self.cell_spec(entry.register_id);
        let values = spec.and_then(|spec| self.read_data(spec, data));
        Ok(Update::Register {
            register,
            index: Some(cell(entry.index.as_ref())?),
            values: values.ok_or(DecodeError::Unfit("register's cell"))?,
        })
    }

    fn read_value_set(&self, entry: &rt::ValueSetEntry) -> Result<Update, DecodeError> {
        let id = self.value_sets.own(entry.value_set_id);
        let value_set = id.ok_or(DecodeError::UnknownId("value set", entry.value_set_id))?;
        let fields = &self.schema.value_sets[value_set].fields;
        let ids = &self.set_fields[value_set];
        let mut members = Vec::new();
        for member in &entry.members {
            members.push(ValueSetMember {
                fields: self.read_matches(ids, fields, &member.r#match)?,
            });
        }
        Ok(Update::ValueSet { value_set, members })
    }
}

fn key_match(field: &entries::Key, given: &FieldMatchType) -> Result<KeyMatch, DecodeError> {
    let value = |bytes: &[u8]| number::read(field.ty, bytes);
    Ok(match given {
        FieldMatchType::Exact(exact) => KeyMatch::Exact(value(&exact.value)),
        FieldMatchType::Optional(optional) => KeyMatch::Exact(value(&optional.value)),
        FieldMatchType::Lpm(lpm) => match u32::try_from(lpm.prefix_len) {
            Ok(len) if len <= field.ty.width() => KeyMatch::Lpm(value(&lpm.value), len),
            _ => return Err(DecodeError::Unfit("prefix")),
        },
        FieldMatchType::Ternary(ternary) => {
            KeyMatch::Ternary(value(&ternary.value), value(&ternary.mask))
        }
        FieldMatchType::Range(range) => KeyMatch::Range(value(&range.low), value(&range.high)),
        FieldMatchType::Other(_) => return Err(DecodeError::NoWords("this kind of match")),
    })
}

fn read_replication(
    entry: &rt::PacketReplicationEngineEntry,
    unsaid: &mut Vec<&'static str>,
) -> Result<Update, DecodeError> {
    use rt::packet_replication_engine_entry::Type;
    Ok(match entry.r#type.as_ref().ok_or(DecodeError::Nothing)? {
        Type::MulticastGroupEntry(group) => {
            if !group.metadata.is_empty() {
                unsaid.push("the metadata of groups");
            }
            Update::Multicast {
                id: group.multicast_group_id,
                replicas: replicas(&group.replicas, unsaid)?,
            }
        }
        Type::CloneSessionEntry(session) => Update::Clone(CloneSession {
            id: session.session_id,
            replicas: replicas(&session.replicas, unsaid)?,
            truncate: u32::try_from(session.packet_length_bytes)
                .ok()
                .filter(|len| *len > 0),
            class_of_service: session.class_of_service,
        }),
    })
}

fn replicas(
    all: &[rt::Replica],
    unsaid: &mut Vec<&'static str>,
) -> Result<Vec<Replica>, DecodeError> {
    let mut made = Vec::new();
    for replica in all {
        if !replica.backup_replicas.is_empty() {
            unsaid.push("backup replicas");
        }
        let port = match &replica.port_kind {
            #[allow(deprecated, reason = "servers before 1.4 know no other")]
            Some(PortKind::EgressPort(port)) => Some(*port),
            Some(PortKind::Port(bytes)) => Value::from_be_bytes(bytes, 32)
                .ok()
                .and_then(|value| value.to_u64())
                .map(|port| port as u32),
            None => None,
        };
        made.push(Replica {
            port: port.ok_or(DecodeError::NoWords("ports with names"))?,
            instance: replica.instance,
        });
    }
    Ok(made)
}

fn cell(index: Option<&rt::Index>) -> Result<u32, DecodeError> {
    let index = index.map_or(0, |index| index.index);
    u32::try_from(index).map_err(|_| DecodeError::Unfit("index"))
}

/// Converts a weight or a count. The default is 1.
fn unsigned(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(1).max(1)
}

fn meter(config: &rt::MeterConfig) -> MeterConfig {
    let number = |number: i64| u64::try_from(number).unwrap_or(0);
    MeterConfig {
        cir: number(config.cir),
        cburst: number(config.cburst),
        pir: number(config.pir),
        pburst: number(config.pburst),
        eburst: Some(number(config.eburst)).filter(|eburst| *eburst > 0),
    }
}

fn counts(data: &rt::CounterData) -> CounterValue {
    CounterValue {
        packets: u64::try_from(data.packet_count).unwrap_or(0),
        bytes: u64::try_from(data.byte_count).unwrap_or(0),
    }
}
