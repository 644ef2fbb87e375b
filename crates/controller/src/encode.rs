//! Conversion of updates and targets to P4Runtime entities.

use std::fmt;

use bits::Value;
use entries::{
    CloneSession, EntryAction, MeterConfig, Replica, TableEntry, Update, UpdateTarget,
    ValueSetMember,
};
use ir::{ActionCall, ActionId, ExternId, KeyMatch, MatchKind, TableId, ValueSetId};
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity;
use p4info::p4::v1::field_match::{self, FieldMatchType};
use p4info::p4::v1::replica::PortKind;

use crate::catalog::Catalog;
use crate::data::DEEPEST;
use crate::number;

/// Error: an update cannot be converted to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// P4Runtime has no message for it.
    NoMessage(&'static str),
    /// The type of a value is known only to the server.
    UnknownType,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeError::NoMessage(what) => write!(f, "P4Runtime has no message for {what}"),
            EncodeError::UnknownType => f.write_str("the P4Info does not tell the type"),
        }
    }
}

impl std::error::Error for EncodeError {}

impl Catalog {
    /// Converts an update to an entity.
    ///
    /// # Errors
    /// P4Runtime cannot express the update.
    pub fn entity(&self, update: &Update) -> Result<Entity, EncodeError> {
        Ok(match update {
            Update::Insert(table, entry) => Entity::TableEntry(self.table_entry(*table, entry)),
            Update::SetDefault(table, call) => Entity::TableEntry(rt::TableEntry {
                action: Some(action(self.call(*table, call))),
                ..self.default_entry(*table)
            }),
            Update::Member {
                profile,
                id,
                action,
                args,
            } => Entity::ActionProfileMember(rt::ActionProfileMember {
                action: Some(self.action(*action, args)),
                ..self.member(*profile, *id)
            }),
            Update::Group {
                profile,
                id,
                members,
                max_size,
            } => {
                let members = members
                    .iter()
                    .map(|member| rt::action_profile_group::Member {
                        member_id: member.member,
                        weight: signed(member.weight),
                        watch_kind: None,
                    });
                Entity::ActionProfileGroup(rt::ActionProfileGroup {
                    members: members.collect(),
                    max_size: signed(*max_size),
                    ..self.group(*profile, *id)
                })
            }
            Update::Multicast { id, replicas } => {
                let group = rt::MulticastGroupEntry {
                    multicast_group_id: *id,
                    replicas: self.replicas(replicas),
                    metadata: Vec::new(),
                };
                replication(rt::packet_replication_engine_entry::Type::MulticastGroupEntry(group))
            }
            Update::Clone(session) => self.clone_session(session),
            Update::Register {
                register,
                index,
                values,
            } => self.register(*register, *index, values)?,
            Update::Meter {
                meter,
                index,
                config,
            } => Entity::MeterEntry(rt::MeterEntry {
                meter_id: self.externs.id(*meter),
                index: index.map(cell),
                config: Some(rates(config)),
                counter_data: None,
            }),
            Update::Counter {
                counter,
                index,
                value,
            } => Entity::CounterEntry(rt::CounterEntry {
                counter_id: self.externs.id(*counter),
                index: Some(cell(*index)),
                data: Some(counts(value)),
            }),
            Update::ExpireProfile { .. } => {
                return Err(EncodeError::NoMessage("PNA's expire profiles"));
            }
            Update::Queue(_) => return Err(EncodeError::NoMessage("queues of ports")),
            Update::HostPorts(_) => return Err(EncodeError::NoMessage("host ports")),
            Update::HashCrc { .. } | Update::HashKey(_) | Update::HashSeed(_) => {
                return Err(EncodeError::NoMessage("parameters of hashes"));
            }
            Update::ValueSet { value_set, members } => Entity::ValueSetEntry(rt::ValueSetEntry {
                value_set_id: self.value_sets.id(*value_set),
                members: members
                    .iter()
                    .map(|one| self.set_member(*value_set, one))
                    .collect(),
            }),
        })
    }

    /// Converts a target to an entity that names the object to be removed.
    pub fn target(&self, target: &UpdateTarget) -> Entity {
        match target {
            UpdateTarget::Entry {
                table,
                keys,
                priority,
            } => Entity::TableEntry(rt::TableEntry {
                table_id: self.tables.id(*table),
                r#match: self.matches(*table, keys),
                priority: priority.unwrap_or_default(),
                ..rt::TableEntry::default()
            }),
            UpdateTarget::Default(table) => Entity::TableEntry(self.default_entry(*table)),
            UpdateTarget::Member { profile, id } => {
                Entity::ActionProfileMember(self.member(*profile, *id))
            }
            UpdateTarget::Group { profile, id } => {
                Entity::ActionProfileGroup(self.group(*profile, *id))
            }
            UpdateTarget::Multicast(id) => {
                let group = rt::MulticastGroupEntry {
                    multicast_group_id: *id,
                    ..rt::MulticastGroupEntry::default()
                };
                replication(rt::packet_replication_engine_entry::Type::MulticastGroupEntry(group))
            }
            UpdateTarget::Clone(id) => {
                let session = rt::CloneSessionEntry {
                    session_id: *id,
                    ..rt::CloneSessionEntry::default()
                };
                replication(rt::packet_replication_engine_entry::Type::CloneSessionEntry(session))
            }
        }
    }

    fn default_entry(&self, table: TableId) -> rt::TableEntry {
        rt::TableEntry {
            table_id: self.tables.id(table),
            is_default_action: true,
            ..rt::TableEntry::default()
        }
    }

    fn table_entry(&self, table: TableId, entry: &TableEntry) -> rt::TableEntry {
        rt::TableEntry {
            table_id: self.tables.id(table),
            r#match: self.matches(table, &entry.keys),
            action: Some(self.entry_action(table, &entry.action)),
            priority: entry.priority.unwrap_or_default(),
            idle_timeout_ns: long(entry.idle_timeout_ns.unwrap_or_default()),
            meter_config: entry.meter.as_ref().map(rates),
            counter_data: entry.counter.as_ref().map(counts),
            ..rt::TableEntry::default()
        }
    }

    /// Returns a match for each key that is not `_`. Omitted fields match everything.
    fn matches(&self, table: TableId, keys: &[KeyMatch]) -> Vec<rt::FieldMatch> {
        self.field_matches(&self.fields[table], &self.schema.tables[table].keys, keys)
    }

    fn field_matches(
        &self,
        ids: &[u32],
        fields: &[entries::Key],
        wanted: &[KeyMatch],
    ) -> Vec<rt::FieldMatch> {
        let all = ids.iter().zip(fields).zip(wanted);
        let matches = all.filter_map(|((id, field), wanted)| {
            Some(rt::FieldMatch {
                field_id: *id,
                field_match_type: Some(field_match(field, wanted)?),
            })
        });
        matches.collect()
    }

    fn set_member(&self, set: ValueSetId, member: &ValueSetMember) -> rt::ValueSetMember {
        let fields = &self.schema.value_sets[set].fields;
        rt::ValueSetMember {
            r#match: self.field_matches(&self.set_fields[set], fields, &member.fields),
        }
    }

    fn entry_action(&self, table: TableId, wanted: &EntryAction) -> rt::TableAction {
        use rt::table_action::Type;
        let kind = match wanted {
            EntryAction::Call(call) => return action(self.call(table, call)),
            EntryAction::Member(id) => Type::ActionProfileMemberId(*id),
            EntryAction::Group(id) => Type::ActionProfileGroupId(*id),
            EntryAction::OneShot(actions) => {
                let actions = actions
                    .iter()
                    .map(|(call, weight)| rt::ActionProfileAction {
                        action: Some(self.call(table, call)),
                        weight: signed(*weight),
                        watch_kind: None,
                    });
                Type::ActionProfileActionSet(rt::ActionProfileActionSet {
                    action_profile_actions: actions.collect(),
                    ..rt::ActionProfileActionSet::default()
                })
            }
        };
        rt::TableAction { r#type: Some(kind) }
    }

    fn call(&self, table: TableId, call: &ActionCall) -> rt::Action {
        match self.schema.tables[table].actions.get(call.action) {
            Some(&id) => self.action(id, &call.args),
            None => rt::Action::default(),
        }
    }

    fn action(&self, action: ActionId, args: &[Value]) -> rt::Action {
        let params = self.params[action]
            .iter()
            .zip(&self.schema.actions[action].params);
        let params = params
            .zip(args)
            .map(|((id, param), value)| rt::action::Param {
                param_id: *id,
                value: number::write(param.ty, value),
            });
        rt::Action {
            action_id: self.actions.id(action),
            params: params.collect(),
        }
    }

    fn member(&self, profile: ExternId, id: u32) -> rt::ActionProfileMember {
        rt::ActionProfileMember {
            action_profile_id: self.externs.id(profile),
            member_id: id,
            action: None,
        }
    }

    fn group(&self, profile: ExternId, id: u32) -> rt::ActionProfileGroup {
        rt::ActionProfileGroup {
            action_profile_id: self.externs.id(profile),
            group_id: id,
            ..rt::ActionProfileGroup::default()
        }
    }

    fn clone_session(&self, session: &CloneSession) -> Entity {
        let session = rt::CloneSessionEntry {
            session_id: session.id,
            replicas: self.replicas(&session.replicas),
            class_of_service: session.class_of_service,
            packet_length_bytes: signed(session.truncate.unwrap_or_default()),
        };
        replication(rt::packet_replication_engine_entry::Type::CloneSessionEntry(session))
    }

    fn replicas(&self, all: &[Replica]) -> Vec<rt::Replica> {
        let port = |port: u32| match self.ports_are_numbers {
            #[allow(deprecated, reason = "servers before 1.4 know no other")]
            true => PortKind::EgressPort(port),
            false => PortKind::Port(Value::truncated(port.into(), 32).to_p4rt_bytes()),
        };
        let replica = |replica: &Replica| rt::Replica {
            port_kind: Some(port(replica.port)),
            instance: replica.instance,
            backup_replicas: Vec::new(),
        };
        all.iter().map(replica).collect()
    }

    fn register(
        &self,
        register: ExternId,
        index: Option<u32>,
        values: &[Value],
    ) -> Result<Entity, EncodeError> {
        let id = self.externs.id(register);
        let spec = self.cell_spec(id);
        let data = spec.and_then(|spec| self.write_data(spec, &mut values.iter(), DEEPEST));
        Ok(Entity::RegisterEntry(rt::RegisterEntry {
            register_id: id,
            index: index.map(cell),
            data: Some(data.ok_or(EncodeError::UnknownType)?),
        }))
    }
}

fn field_match(field: &entries::Key, wanted: &KeyMatch) -> Option<FieldMatchType> {
    let bytes = |value: &Value| number::write(field.ty, value);
    Some(match wanted {
        KeyMatch::Any => return None,
        KeyMatch::Exact(value) => match field.match_kind {
            MatchKind::Optional => FieldMatchType::Optional(field_match::Optional {
                value: bytes(value),
            }),
            _ => FieldMatchType::Exact(field_match::Exact {
                value: bytes(value),
            }),
        },
        // Matches with no significant bits are omitted (section 9.1.1).
        KeyMatch::Lpm(_, 0) => return None,
        KeyMatch::Ternary(_, mask) if mask.is_zero() => return None,
        KeyMatch::Lpm(value, len) => FieldMatchType::Lpm(field_match::Lpm {
            value: bytes(value),
            prefix_len: signed(*len),
        }),
        KeyMatch::Ternary(value, mask) => FieldMatchType::Ternary(field_match::Ternary {
            value: bytes(value),
            mask: bytes(mask),
        }),
        KeyMatch::Range(low, high) if low.is_zero() && *high == Value::all_ones(high.width()) => {
            return None;
        }
        KeyMatch::Range(low, high) => FieldMatchType::Range(field_match::Range {
            low: bytes(low),
            high: bytes(high),
        }),
    })
}

fn action(action: rt::Action) -> rt::TableAction {
    rt::TableAction {
        r#type: Some(rt::table_action::Type::Action(action)),
    }
}

fn replication(kind: rt::packet_replication_engine_entry::Type) -> Entity {
    Entity::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry { r#type: Some(kind) })
}

fn cell(index: u32) -> rt::Index {
    rt::Index {
        index: index.into(),
    }
}

fn rates(config: &MeterConfig) -> rt::MeterConfig {
    rt::MeterConfig {
        cir: long(config.cir),
        cburst: long(config.cburst),
        pir: long(config.pir),
        pburst: long(config.pburst),
        eburst: long(config.eburst.unwrap_or(0)),
    }
}

fn counts(value: &entries::CounterValue) -> rt::CounterData {
    rt::CounterData {
        byte_count: long(value.bytes),
        packet_count: long(value.packets),
    }
}

/// Converts a number to a signed one. Numbers out of range exceed the limits of every device.
fn signed(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
