//! Reads of all objects but table entries: action profiles, cells, replication, value sets,
//! digests.

use exec::{ExternState, Registers};
use ir::{ExternId, ValueSetId};
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::packet_replication_engine_entry::Type as ReplicationType;
use std::sync::Arc;
use switch::{CloneSession, Device, Replica, is_one_shot};
use table::{ActionRef, CounterArray, FieldMatch, MeterArray};
use tonic::Code;

use super::{chosen, is_told, message};
use crate::controller_state::ControllerState;
use crate::data::DataCoder;
use crate::request_error::{Checked, invalid, refuse};
use crate::schema::{CellsView, Schema};
use crate::write::index;

/// Range of array cells that are converted to messages together.
type Cells = std::ops::Range<u32>;

/// Query for objects. It is taken when it is executed.
#[derive(Debug)]
pub(crate) struct ObjectQuery(Option<Asked>);

#[derive(Debug)]
enum Asked {
    Nothing,
    Members(Vec<u32>, u32),
    Groups(Vec<u32>, u32),
    Counters(Vec<u32>, Option<u32>),
    /// The flag requests the counters of each colour.
    Meters(Vec<u32>, Option<u32>, bool),
    Registers(Vec<u32>, Option<u32>),
    Multicast(u32),
    Sessions(u32),
    ValueSets(Vec<u32>),
    Digests(Vec<u32>),
}

/// An object that was found.
pub(crate) enum FoundObject {
    Member(u32, u32, ActionRef),
    Ready(Box<Kind>),
    Counters(u32, Cells, Arc<CounterArray>),
    Meters(u32, Cells, Arc<MeterArray>, bool),
    Registers(u32, Cells, Arc<Registers>),
    ValueSet(u32, Vec<Vec<FieldMatch>>),
}

fn ready(kind: Kind) -> FoundObject {
    FoundObject::Ready(Box::new(kind))
}

impl ObjectQuery {
    /// Returns the query of a request.
    pub(super) fn plan(schema: &Schema, role: &str, kind: &Kind) -> Checked<ObjectQuery> {
        let cells = |view: &CellsView| is_told(view.role.as_deref(), role);
        let profiles = |id| {
            chosen(&schema.profiles, "action profile", id, |view| {
                is_told(view.role.as_deref(), role)
            })
        };
        let asked = match kind {
            Kind::ActionProfileMember(member) => {
                check_wildcard("member_id", member.action_profile_id, member.member_id != 0)?;
                Asked::Members(profiles(member.action_profile_id)?, member.member_id)
            }
            Kind::ActionProfileGroup(group) => {
                check_wildcard("group_id", group.action_profile_id, group.group_id != 0)?;
                Asked::Groups(profiles(group.action_profile_id)?, group.group_id)
            }
            Kind::CounterEntry(entry) => {
                let ids = chosen(&schema.counters, "counter", entry.counter_id, cells)?;
                let at = array_index(
                    "counter",
                    &schema.counters,
                    entry.counter_id,
                    entry.index.as_ref(),
                )?;
                Asked::Counters(ids, at)
            }
            Kind::MeterEntry(entry) => {
                let ids = chosen(&schema.meters, "meter", entry.meter_id, cells)?;
                let at = array_index(
                    "meter",
                    &schema.meters,
                    entry.meter_id,
                    entry.index.as_ref(),
                )?;
                Asked::Meters(ids, at, entry.counter_data.is_some())
            }
            Kind::RegisterEntry(entry) => {
                let ids = chosen(&schema.registers, "register", entry.register_id, cells)?;
                let at = array_index(
                    "register",
                    &schema.registers,
                    entry.register_id,
                    entry.index.as_ref(),
                )?;
                Asked::Registers(ids, at)
            }
            Kind::PacketReplicationEngineEntry(entry) => match &entry.r#type {
                Some(ReplicationType::MulticastGroupEntry(group)) => {
                    Asked::Multicast(group.multicast_group_id)
                }
                Some(ReplicationType::CloneSessionEntry(session)) => {
                    Asked::Sessions(session.session_id)
                }
                None => {
                    return invalid(
                        "the packet replication engine entry is neither a group nor a session",
                    );
                }
            },
            Kind::ValueSetEntry(entry) => {
                let told = |view: &crate::schema::ValueSetView| is_told(view.role.as_deref(), role);
                Asked::ValueSets(chosen(
                    &schema.value_sets,
                    "value set",
                    entry.value_set_id,
                    told,
                )?)
            }
            Kind::DigestEntry(entry) => {
                Asked::Digests(chosen(&schema.digests, "digest", entry.digest_id, cells)?)
            }
            Kind::ExternEntry(entry) if entry.extern_type_id == 0 => Asked::Nothing,
            Kind::ExternEntry(entry) => {
                let message = format!("there is no extern type {:#x}", entry.extern_type_id);
                return refuse(Code::Unimplemented, message);
            }
            Kind::TableEntry(_) | Kind::DirectCounterEntry(_) | Kind::DirectMeterEntry(_) => {
                return refuse(Code::Internal, "entries are read elsewhere");
            }
        };
        Ok(ObjectQuery(Some(asked)))
    }

    /// Collects all requested objects. Returns `None` at the second call.
    pub(super) fn collect(
        &mut self,
        schema: &Schema,
        device: &Device,
        extras: &ControllerState,
    ) -> Checked<Option<Vec<FoundObject>>> {
        let Some(asked) = self.0.take() else {
            return Ok(None);
        };
        let cells = |id: ExternId| device.configuration().cells.get(id);
        Ok(Some(match asked {
            Asked::Nothing => Vec::new(),
            Asked::Members(ids, member) => members(schema, device, &ids, member),
            Asked::Groups(ids, group) => groups(schema, device, extras, &ids, group),
            Asked::Counters(ids, at) => found_cells(&ids, |id| {
                let view = schema.counters.get(&id)?;
                match cells(view.instance)? {
                    ExternState::Counter(all) => Some(FoundObject::Counters(
                        id,
                        range(at, view.size),
                        Arc::clone(all),
                    )),
                    _ => None,
                }
            }),
            Asked::Meters(ids, at, wants_colors) => found_cells(&ids, |id| {
                let view = schema.meters.get(&id)?;
                match cells(view.instance)? {
                    ExternState::Meter(all) => Some(FoundObject::Meters(
                        id,
                        range(at, view.size),
                        Arc::clone(all),
                        wants_colors,
                    )),
                    _ => None,
                }
            }),
            Asked::Registers(ids, at) => found_cells(&ids, |id| {
                let view = schema.registers.get(&id)?;
                match cells(view.instance)? {
                    // A single cell is read by the job, between packets. Whole arrays are read
                    // later, while packets run.
                    ExternState::Register(all) => match at {
                        Some(at) => register(schema, view, all, at).map(ready),
                        None => Some(FoundObject::Registers(id, 0..view.size, Arc::clone(all))),
                    },
                    _ => None,
                }
            }),
            Asked::Multicast(id) => multicast(device, extras, id),
            Asked::Sessions(id) => sessions(device, extras, id),
            Asked::ValueSets(ids) => value_sets(schema, device, &ids),
            Asked::Digests(ids) => digests(schema, extras, &ids),
        }))
    }
}

/// Checks that a wildcard id is not combined with the id of a single element.
fn check_wildcard(field: &str, id: u32, is_narrow: bool) -> Checked {
    match id == 0 && is_narrow {
        true => invalid(format!(
            "the object's id is 0, which is all: {field} must be 0 as well"
        )),
        false => Ok(()),
    }
}

fn array_index(
    what: &str,
    all: &std::collections::HashMap<u32, CellsView>,
    id: u32,
    at: Option<&rt::Index>,
) -> Checked<Option<u32>> {
    match all.get(&id) {
        Some(view) => index(&format!("the {what} `{}`", view.name), at, view.size),
        None => {
            check_wildcard("index", id, at.is_some())?;
            Ok(None)
        }
    }
}

fn range(at: Option<u32>, size: u32) -> Cells {
    match at {
        Some(at) => at..at + 1,
        None => 0..size,
    }
}

fn found_cells(ids: &[u32], found: impl Fn(u32) -> Option<FoundObject>) -> Vec<FoundObject> {
    ids.iter().filter_map(|id| found(*id)).collect()
}

fn members(schema: &Schema, device: &Device, ids: &[u32], member: u32) -> Vec<FoundObject> {
    let mut found = Vec::new();
    for view in ids.iter().filter_map(|id| schema.profiles.get(id)) {
        let profile = device.configuration().profiles[view.profile].as_ref();
        let all = profile.into_iter().flat_map(|profile| profile.members());
        let wanted = all
            .map(|(id, action)| (id.get(), action))
            .filter(|(id, _)| !is_one_shot(*id) && (member == 0 || member == *id));
        found.extend(wanted.map(|(id, action)| FoundObject::Member(view.id, id, action.clone())));
    }
    found
}

fn groups(
    schema: &Schema,
    device: &Device,
    extras: &ControllerState,
    ids: &[u32],
    group: u32,
) -> Vec<FoundObject> {
    use rt::action_profile_group::Member;
    let mut found = Vec::new();
    for view in ids.iter().filter_map(|id| schema.profiles.get(id)) {
        let profile = device.configuration().profiles[view.profile].as_ref();
        let all = profile.into_iter().flat_map(|profile| profile.groups());
        let wanted = all
            .map(|(id, parts)| (id.get(), parts))
            .filter(|(id, _)| !is_one_shot(*id) && (group == 0 || group == *id));
        for (id, parts) in wanted {
            let written = extras.groups.get(&(view.profile, id));
            let member = |part: &table::GroupMember| Member {
                member_id: part.member.get(),
                weight: part.weight as i32,
                watch_kind: None,
            };
            found.push(ready(Kind::ActionProfileGroup(rt::ActionProfileGroup {
                action_profile_id: view.id,
                group_id: id,
                members: match written {
                    Some(written) => written.members.clone(),
                    None => parts.iter().map(member).collect(),
                },
                max_size: written.map_or(0, |written| written.max_size),
            })));
        }
    }
    found
}

fn multicast(device: &Device, extras: &ControllerState, id: u32) -> Vec<FoundObject> {
    let groups = device.replication().groups();
    let wanted = groups.filter(|(group, _)| id == 0 || id == *group);
    let message = |(group, replicas): (u32, &[Replica])| {
        let written = extras.multicast.get(&group).cloned();
        let message = written.unwrap_or_else(|| rt::MulticastGroupEntry {
            multicast_group_id: group,
            replicas: replicas.iter().map(message::replica).collect(),
            metadata: Vec::new(),
        });
        replication(ReplicationType::MulticastGroupEntry(message))
    };
    wanted.map(message).collect()
}

fn sessions(device: &Device, extras: &ControllerState, id: u32) -> Vec<FoundObject> {
    let sessions = device.replication().sessions();
    let wanted = sessions.filter(|(session, _)| id == 0 || id == *session);
    let message = |(session, made): (u32, &CloneSession)| {
        let written = extras.sessions.get(&session).cloned();
        let message = written.unwrap_or_else(|| rt::CloneSessionEntry {
            session_id: session,
            replicas: made.replicas.iter().map(message::replica).collect(),
            class_of_service: made.class_of_service,
            packet_length_bytes: made.truncate.map_or(0, |bytes| bytes as i32),
        });
        replication(ReplicationType::CloneSessionEntry(message))
    };
    wanted.map(message).collect()
}

fn replication(ty: ReplicationType) -> FoundObject {
    ready(Kind::PacketReplicationEngineEntry(
        rt::PacketReplicationEngineEntry { r#type: Some(ty) },
    ))
}

fn value_sets(schema: &Schema, device: &Device, ids: &[u32]) -> Vec<FoundObject> {
    let members = |set: ValueSetId| {
        let members = device.configuration().value_sets[set].members();
        members.map(<[FieldMatch]>::to_vec).collect()
    };
    let views = ids.iter().filter_map(|id| schema.value_sets.get(id));
    views
        .map(|view| FoundObject::ValueSet(view.id, members(view.set)))
        .collect()
}

fn digests(schema: &Schema, extras: &ControllerState, ids: &[u32]) -> Vec<FoundObject> {
    let views = ids.iter().filter_map(|id| schema.digests.get(id));
    let message = |view: &CellsView| {
        let config = *extras.digests.get(&view.instance)?;
        Some(ready(Kind::DigestEntry(rt::DigestEntry {
            digest_id: view.id,
            config: Some(config),
        })))
    };
    views.filter_map(message).collect()
}

fn register(schema: &Schema, view: &CellsView, cells: &Registers, at: u32) -> Option<Kind> {
    let values = cells.get(at.into())?;
    let coder = DataCoder {
        program: &schema.program,
        names: &schema.names,
    };
    let mut scalars = values.into_iter().map(|value| (value, None));
    Some(Kind::RegisterEntry(rt::RegisterEntry {
        register_id: view.id,
        index: Some(rt::Index { index: at.into() }),
        data: coder.write(view.data_ty.as_ref()?, &mut scalars),
    }))
}

impl FoundObject {
    /// Converts the object to messages.
    pub(super) fn message(self, schema: &Schema) -> Vec<Kind> {
        match self {
            FoundObject::Ready(kind) => vec![*kind],
            FoundObject::Member(profile, id, action) => {
                vec![Kind::ActionProfileMember(rt::ActionProfileMember {
                    action_profile_id: profile,
                    member_id: id,
                    action: message::action(schema, &action),
                })]
            }
            FoundObject::Counters(id, cells, all) => {
                let one = |at: u32| {
                    let data = all.read(at.into()).map(message::counter);
                    Kind::CounterEntry(rt::CounterEntry {
                        counter_id: id,
                        index: Some(rt::Index { index: at.into() }),
                        data,
                    })
                };
                cells.map(one).collect()
            }
            FoundObject::Meters(id, cells, all, wants_colors) => {
                let one = |at: u32| {
                    let colors = all.counts(at.into()).filter(|_| wants_colors);
                    Kind::MeterEntry(rt::MeterEntry {
                        meter_id: id,
                        index: Some(rt::Index { index: at.into() }),
                        config: all.config(at.into()).map(message::meter),
                        counter_data: colors.map(message::colors),
                    })
                };
                cells.map(one).collect()
            }
            FoundObject::Registers(id, cells, all) => {
                let Some(view) = schema.registers.get(&id) else {
                    return Vec::new();
                };
                cells
                    .filter_map(|at| register(schema, view, &all, at))
                    .collect()
            }
            FoundObject::ValueSet(id, members) => {
                let Some(view) = schema.value_sets.get(&id) else {
                    return Vec::new();
                };
                let member = |member: &Vec<FieldMatch>| rt::ValueSetMember {
                    r#match: message::matches(&schema.names, &view.fields, member),
                };
                vec![Kind::ValueSetEntry(rt::ValueSetEntry {
                    value_set_id: id,
                    members: members.iter().map(member).collect(),
                })]
            }
        }
    }
}
