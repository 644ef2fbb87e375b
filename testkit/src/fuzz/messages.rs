//! The target `messages`: P4Runtime requests, some with changed bytes, on a device with every kind
//! of object. Each must be executed or refused.

use std::sync::{Arc, OnceLock};

use interp::Interp;
use ir::Program;
use p4info::P4Info;
use p4info::p4::config::v1::match_field::{Match, MatchType};
use p4info::p4::config::v1::{self as info};
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::field_match::{self, FieldMatchType};
use p4rt::{FuzzOutcome, FuzzServer, Loader};
use packet::{Nanos, PortId};
use prost::Message;
use support::rng::Rng;
use switch::{Device, DeviceConfig, LoadError};

use super::guard::guarded;
use super::{Case, Fault, front};

/// The program that the P4Runtime tests load.
const PROGRAM: &str = include_str!("../../../crates/p4rt/tests/p4rt/all.p4");

/// Maximum number of requests in a case.
const MAX_REQUESTS: usize = 24;

/// The CPU port.
const CPU: PortId = PortId(510);

/// An encoded request.
#[derive(Clone, Debug)]
enum Request {
    Write(Vec<u8>),
    Read(Vec<u8>),
    PacketOut(Vec<u8>),
}

/// Loader with the reference engine.
struct Plain;

impl Loader for Plain {
    fn compile(&self, _text: &str) -> Result<Program, String> {
        Err("programs are compiled before".to_owned())
    }

    fn device(&self, program: Arc<Program>) -> Result<Device, LoadError> {
        Device::new(program, &Interp, &DeviceConfig::default())
    }
}

/// Returns the program and its P4Info.
fn material(case: &Case<'_>) -> Option<&'static (Arc<Program>, P4Info)> {
    static MATERIAL: OnceLock<Option<(Arc<Program>, P4Info)>> = OnceLock::new();
    let made = MATERIAL.get_or_init(|| {
        let program = front::examine(PROGRAM, case.limit).ok().flatten()?;
        let info = p4info::p4info(&program).ok()?;
        Some((program, info))
    });
    made.as_ref()
}

/// Runs one sequence of requests. Returns a fault if something is wrong.
pub(crate) fn case(case: &Case<'_>) -> Option<(Fault, String)> {
    let (program, info) = material(case)?;
    let mut choices = Rng::new(case.stream());
    let count = 1 + choices.index(MAX_REQUESTS);
    let mut writer = Writer {
        info,
        choices: &mut choices,
    };
    let requests: Vec<Request> = (0..count).map(|_| writer.request()).collect();
    let (program, given) = (Arc::clone(program), requests.clone());
    let fault = match guarded(case.limit, move || made(program, &given)) {
        Ok(Ok(done)) => {
            (0..done.min(1)).for_each(|_| case.accept());
            return None;
        }
        Ok(Err(fault)) => fault,
        Err(trouble) => trouble.fault("serving requests"),
    };
    let lines = requests.iter().map(|request| format!("{request:02x?}\n"));
    Some((fault, lines.collect()))
}

/// Applies requests. Returns how many had an effect.
fn made(program: Arc<Program>, requests: &[Request]) -> Result<usize, Fault> {
    let rehearsal = FuzzServer::new(&Plain, program);
    let mut rehearsal = rehearsal.map_err(|error| Fault::new("no rehearsal", error))?;
    let mut done = 0;
    for (at, request) in requests.iter().enumerate() {
        let became = match request {
            Request::Write(bytes) => rehearsal.write(bytes),
            Request::Read(bytes) => rehearsal.read(bytes),
            Request::PacketOut(bytes) => rehearsal.packet_out(CPU, bytes),
        };
        done += usize::from(matches!(became, FuzzOutcome::Done(1..)));
        let device = rehearsal.device();
        // Written state must not break the packet path either.
        let frame = [at as u8; 64];
        let received = device.receive(PortId(at as u32 % 8), &frame);
        received.map_err(|error| Fault::new("a frame is refused", error.to_string()))?;
        device.step(Nanos::from_millis(at as u64));
        device.drain_sent(|_, _, _| {});
        let checked = device.check_conservation();
        checked.map_err(|error| Fault::new("packets are not conserved", error.to_string()))?;
    }
    Ok(done)
}

/// Generates requests.
struct Writer<'a> {
    info: &'a P4Info,
    choices: &'a mut Rng,
}

impl Writer<'_> {
    fn request(&mut self) -> Request {
        let kind = self.choices.index(8);
        let mut bytes = match kind {
            0 => self.packet_out().encode_to_vec(),
            1 | 2 => {
                let entities = (0..1 + self.choices.index(3)).map(|_| self.entity());
                rt::ReadRequest {
                    entities: entities.collect(),
                    ..Default::default()
                }
                .encode_to_vec()
            }
            _ => {
                let updates = (0..1 + self.choices.index(4)).map(|_| rt::Update {
                    r#type: 1 + self.choices.index(3) as i32,
                    entity: Some(self.entity()),
                });
                let updates = updates.collect();
                rt::WriteRequest {
                    updates,
                    atomicity: self.choices.index(3) as i32,
                    ..Default::default()
                }
                .encode_to_vec()
            }
        };
        if self.choices.one_in(2) {
            self.change(&mut bytes);
        }
        match kind {
            0 => Request::PacketOut(bytes),
            1 | 2 => Request::Read(bytes),
            _ => Request::Write(bytes),
        }
    }

    /// Changes, inserts, removes and repeats bytes.
    fn change(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.choices.index(3) {
            let at = self.choices.index(bytes.len());
            match self.choices.index(5) {
                _ if bytes.is_empty() => return,
                0 => bytes[at] = self.choices.bits() as u8,
                1 => bytes[at] ^= 1 << self.choices.index(8),
                2 => bytes.insert(at, [0, 1, 0x7f, 0x80, 0xff][self.choices.index(5)]),
                3 => drop(bytes.remove(at)),
                _ => {
                    let tail = bytes.split_off(at);
                    bytes.extend_from_slice(&tail[..tail.len().min(9)]);
                    bytes.extend(tail);
                }
            }
        }
    }

    fn packet_out(&mut self) -> rt::PacketOut {
        let metadata = (1..=2).map(|metadata_id| rt::PacketMetadata {
            metadata_id,
            value: self.bytes(7),
        });
        rt::PacketOut {
            metadata: metadata.collect(),
            payload: vec![0x55; 20 + self.choices.index(60)],
        }
    }

    /// Returns a number of this width as its shortest byte string. Small numbers are frequent.
    fn bytes(&mut self, width: i32) -> Vec<u8> {
        let bits = match self.choices.one_in(2) {
            true => self.choices.index(8) as u64,
            false => self.choices.bits(),
        };
        let width = u32::try_from(width).unwrap_or(0).clamp(1, 64);
        let value = bits & (u64::MAX >> (64 - width));
        let bytes = value.to_be_bytes();
        let zeros = (value.leading_zeros() / 8).min(7) as usize;
        bytes[zeros..].to_vec()
    }

    /// Returns the id of one of these objects, sometimes 0, sometimes an id of no object.
    fn id(&mut self, preambles: Vec<&Option<info::Preamble>>) -> u32 {
        let ids: Vec<u32> = preambles
            .iter()
            .filter_map(|p| Some(p.as_ref()?.id))
            .collect();
        match self.choices.index(20) {
            0 => 0,
            1 => self.choices.bits() as u32,
            _ => self.choices.pick(&ids).copied().unwrap_or_default(),
        }
    }

    fn index(&mut self) -> Option<rt::Index> {
        let index = self.choices.index(6) as i64 - 1;
        (!self.choices.one_in(4)).then_some(rt::Index { index })
    }

    fn entity(&mut self) -> rt::Entity {
        let info = self.info;
        let kind = match self.choices.index(14) {
            0..=3 => Kind::TableEntry(self.entry()),
            4 => Kind::CounterEntry(rt::CounterEntry {
                counter_id: self.id(info.counters.iter().map(|o| &o.preamble).collect()),
                index: self.index(),
                data: self.counter_data(),
            }),
            5 => Kind::MeterEntry(rt::MeterEntry {
                meter_id: self.id(info.meters.iter().map(|o| &o.preamble).collect()),
                index: self.index(),
                config: self.meter_config(),
                counter_data: None,
            }),
            6 => Kind::DirectCounterEntry(rt::DirectCounterEntry {
                table_entry: Some(self.entry()),
                data: self.counter_data(),
            }),
            7 => Kind::DirectMeterEntry(rt::DirectMeterEntry {
                table_entry: Some(self.entry()),
                config: self.meter_config(),
                counter_data: None,
            }),
            8 => Kind::RegisterEntry(rt::RegisterEntry {
                register_id: self.id(info.registers.iter().map(|o| &o.preamble).collect()),
                index: self.index(),
                data: Some(rt::P4Data {
                    data: Some(rt::p4_data::Data::Bitstring(self.bytes(32))),
                }),
            }),
            9 => Kind::ActionProfileMember(rt::ActionProfileMember {
                action_profile_id: self.profile(),
                member_id: self.choices.index(4) as u32,
                action: Some(self.action()),
            }),
            10 => Kind::ActionProfileGroup(self.group()),
            11 => Kind::PacketReplicationEngineEntry(self.replication()),
            12 => Kind::DigestEntry(rt::DigestEntry {
                digest_id: self.id(info.digests.iter().map(|o| &o.preamble).collect()),
                config: Some(rt::digest_entry::Config {
                    max_timeout_ns: self.choices.index(1000) as i64,
                    max_list_size: self.choices.index(5) as i32,
                    ack_timeout_ns: self.choices.index(1000) as i64,
                }),
            }),
            _ => Kind::ValueSetEntry(self.value_set()),
        };
        let entity = (!self.choices.one_in(50)).then_some(kind);
        rt::Entity { entity }
    }

    fn counter_data(&mut self) -> Option<rt::CounterData> {
        let data = rt::CounterData {
            byte_count: self.choices.index(100) as i64 - 1,
            packet_count: self.choices.index(100) as i64 - 1,
        };
        self.choices.one_in(2).then_some(data)
    }

    fn meter_config(&mut self) -> Option<rt::MeterConfig> {
        let mut rate = || self.choices.index(9) as i64 - 1;
        let config = rt::MeterConfig {
            cir: rate(),
            cburst: rate(),
            pir: rate(),
            pburst: rate(),
            eburst: 0,
        };
        self.choices.one_in(2).then_some(config)
    }

    fn profile(&mut self) -> u32 {
        let profiles = self.info.action_profiles.iter();
        self.id(profiles.map(|o| &o.preamble).collect())
    }

    fn action(&mut self) -> rt::Action {
        let info = self.info;
        let Some(action) = self.choices.pick(&info.actions) else {
            return rt::Action::default();
        };
        let params = action.params.iter().map(|param| rt::action::Param {
            param_id: param.id,
            value: self.bytes(param.bitwidth),
        });
        rt::Action {
            params: params.collect(),
            action_id: action.preamble.as_ref().map_or(0, |p| p.id),
        }
    }

    fn group(&mut self) -> rt::ActionProfileGroup {
        use rt::action_profile_group::Member;
        let members = (0..self.choices.index(4)).map(|_| Member {
            member_id: self.choices.index(4) as u32,
            weight: self.choices.index(4) as i32,
            ..Default::default()
        });
        rt::ActionProfileGroup {
            members: members.collect(),
            action_profile_id: self.profile(),
            group_id: self.choices.index(4) as u32,
            max_size: self.choices.index(6) as i32,
        }
    }

    fn replication(&mut self) -> rt::PacketReplicationEngineEntry {
        use rt::packet_replication_engine_entry::Type;
        let replicas = (0..self.choices.index(4)).map(|_| rt::Replica {
            port_kind: Some(rt::replica::PortKind::Port(self.bytes(9))),
            instance: self.choices.index(3) as u32,
            ..Default::default()
        });
        let replicas = replicas.collect();
        let id = self.choices.index(4) as u32;
        let entry = match self.choices.one_in(2) {
            true => Type::MulticastGroupEntry(rt::MulticastGroupEntry {
                multicast_group_id: id,
                replicas,
                ..Default::default()
            }),
            false => Type::CloneSessionEntry(rt::CloneSessionEntry {
                session_id: id,
                replicas,
                packet_length_bytes: self.choices.index(64) as i32,
                ..Default::default()
            }),
        };
        rt::PacketReplicationEngineEntry {
            r#type: Some(entry),
        }
    }

    fn value_set(&mut self) -> rt::ValueSetEntry {
        let members = (0..self.choices.index(4)).map(|_| {
            let exact = field_match::Exact {
                value: self.bytes(16),
            };
            rt::ValueSetMember {
                r#match: vec![rt::FieldMatch {
                    field_id: 1,
                    field_match_type: Some(FieldMatchType::Exact(exact)),
                }],
            }
        });
        let members = members.collect();
        let sets = self.info.value_sets.iter();
        rt::ValueSetEntry {
            value_set_id: self.id(sets.map(|o| &o.preamble).collect()),
            members,
        }
    }

    fn entry(&mut self) -> rt::TableEntry {
        let info = self.info;
        let Some(table) = self.choices.pick(&info.tables) else {
            return rt::TableEntry::default();
        };
        let fields = table.match_fields.iter();
        let matches = fields.filter_map(|field| self.field(field));
        let matches = matches.collect();
        let needs_priority = table
            .match_fields
            .iter()
            .any(|field| !matches!(field.r#match, Some(Match::MatchType(kind)) if kind == MatchType::Exact as i32 || kind == MatchType::Lpm as i32));
        rt::TableEntry {
            table_id: table.preamble.as_ref().map_or(0, |p| p.id),
            r#match: matches,
            action: (!self.choices.one_in(5)).then(|| self.table_action(table)),
            priority: match needs_priority {
                true => self.choices.index(4) as i32,
                false => 0,
            },
            is_default_action: self.choices.one_in(10),
            idle_timeout_ns: match self.choices.one_in(8) {
                true => self.choices.index(1_000_000) as i64,
                false => 0,
            },
            meter_config: self.meter_config().filter(|_| self.choices.one_in(3)),
            counter_data: self.counter_data().filter(|_| self.choices.one_in(3)),
            ..Default::default()
        }
    }

    fn table_action(&mut self, table: &info::Table) -> rt::TableAction {
        use rt::table_action::Type;
        let action = match (table.implementation_id, self.choices.index(3)) {
            (0, _) => Type::Action(self.action()),
            (_, 0) => Type::ActionProfileMemberId(self.choices.index(4) as u32),
            (_, 1) => Type::ActionProfileGroupId(self.choices.index(4) as u32),
            _ => {
                let actions = (0..1 + self.choices.index(3)).map(|_| rt::ActionProfileAction {
                    action: Some(self.action()),
                    weight: self.choices.index(3) as i32,
                    ..Default::default()
                });
                Type::ActionProfileActionSet(rt::ActionProfileActionSet {
                    action_profile_actions: actions.collect(),
                    ..Default::default()
                })
            }
        };
        rt::TableAction {
            r#type: Some(action),
        }
    }

    fn field(&mut self, field: &info::MatchField) -> Option<rt::FieldMatch> {
        let Some(Match::MatchType(kind)) = field.r#match else {
            return None;
        };
        let (value, other) = (self.bytes(field.bitwidth), self.bytes(field.bitwidth));
        let is_left_out = self.choices.one_in(4);
        let given = match MatchType::try_from(kind) {
            Ok(MatchType::Exact) => FieldMatchType::Exact(field_match::Exact { value }),
            _ if is_left_out => return None,
            Ok(MatchType::Lpm) => FieldMatchType::Lpm(field_match::Lpm {
                value,
                prefix_len: field.bitwidth,
            }),
            Ok(MatchType::Ternary) => FieldMatchType::Ternary(field_match::Ternary {
                mask: value.clone(),
                value,
            }),
            Ok(MatchType::Range) => FieldMatchType::Range(field_match::Range {
                low: value.clone().min(other.clone()),
                high: value.max(other),
            }),
            Ok(MatchType::Optional) => FieldMatchType::Optional(field_match::Optional { value }),
            _ => return None,
        };
        Some(rt::FieldMatch {
            field_id: field.id,
            field_match_type: Some(given),
        })
    }
}
