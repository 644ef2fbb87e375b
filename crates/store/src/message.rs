//! Protobuf messages of stored objects. docs/reference/state-directory.md describes them. A field's
//! number is never reused with another meaning.

use std::num::{NonZeroU32, NonZeroU64};

use bits::Value;
use exec::{CrcParameters, HashParameters};
use ir::{ActionCall, KeyMatch};
use packet::{Nanos, PortId};
use prost::{Message, Oneof};
use switch::{
    Action, CloneSession, CounterReading, MeterConfig, PriorityQueueConfig, QUEUE_PRIORITIES,
    QueueConfig, Replica, TableEntry,
};
use table::{ActionRef, EntryId, LearnedEntry};

/// Value with its width, most significant byte first.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueMessage {
    #[prost(uint32, tag = "1")]
    width: u32,
    #[prost(bytes = "vec", tag = "2")]
    bytes: Vec<u8>,
}

impl From<&Value> for ValueMessage {
    fn from(value: &Value) -> Self {
        ValueMessage {
            width: value.width(),
            bytes: value.to_be_bytes(),
        }
    }
}

impl ValueMessage {
    fn read(&self) -> Option<Value> {
        Value::from_be_bytes(&self.bytes, self.width).ok()
    }
}

fn values(from: &[Value]) -> Vec<ValueMessage> {
    from.iter().map(ValueMessage::from).collect()
}

fn read_values(from: &[ValueMessage]) -> Option<Vec<Value>> {
    from.iter().map(ValueMessage::read).collect()
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PrefixMessage {
    #[prost(message, optional, tag = "1")]
    value: Option<ValueMessage>,
    #[prost(uint32, tag = "2")]
    length: u32,
}

/// Value and mask, or lower and upper bound.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PairMessage {
    #[prost(message, optional, tag = "1")]
    first: Option<ValueMessage>,
    #[prost(message, optional, tag = "2")]
    second: Option<ValueMessage>,
}

impl PairMessage {
    fn of(first: &Value, second: &Value) -> PairMessage {
        PairMessage {
            first: Some(first.into()),
            second: Some(second.into()),
        }
    }

    fn read(&self) -> Option<(Value, Value)> {
        Some((self.first.as_ref()?.read()?, self.second.as_ref()?.read()?))
    }
}

/// Match of a field.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MatchMessage {
    #[prost(oneof = "Matched", tags = "1, 2, 3, 4")]
    matched: Option<Matched>,
}

/// Kinds of match. A field without one matches anything.
#[derive(Clone, PartialEq, Oneof)]
enum Matched {
    #[prost(message, tag = "1")]
    Exact(ValueMessage),
    #[prost(message, tag = "2")]
    Prefix(PrefixMessage),
    #[prost(message, tag = "3")]
    Ternary(PairMessage),
    #[prost(message, tag = "4")]
    Range(PairMessage),
}

impl From<&KeyMatch> for MatchMessage {
    fn from(key: &KeyMatch) -> Self {
        let matched = match key {
            KeyMatch::Any => None,
            KeyMatch::Exact(value) => Some(Matched::Exact(value.into())),
            KeyMatch::Lpm(value, length) => Some(Matched::Prefix(PrefixMessage {
                value: Some(value.into()),
                length: *length,
            })),
            KeyMatch::Ternary(value, mask) => Some(Matched::Ternary(PairMessage::of(value, mask))),
            KeyMatch::Range(low, high) => Some(Matched::Range(PairMessage::of(low, high))),
        };
        MatchMessage { matched }
    }
}

impl MatchMessage {
    fn read(&self) -> Option<KeyMatch> {
        Some(match &self.matched {
            None => KeyMatch::Any,
            Some(Matched::Exact(value)) => KeyMatch::Exact(value.read()?),
            Some(Matched::Prefix(prefix)) => {
                KeyMatch::Lpm(prefix.value.as_ref()?.read()?, prefix.length)
            }
            Some(Matched::Ternary(pair)) => {
                let (value, mask) = pair.read()?;
                KeyMatch::Ternary(value, mask)
            }
            Some(Matched::Range(pair)) => {
                let (low, high) = pair.read()?;
                KeyMatch::Range(low, high)
            }
        })
    }
}

fn matches(keys: &[KeyMatch]) -> Vec<MatchMessage> {
    keys.iter().map(MatchMessage::from).collect()
}

fn read_matches(keys: &[MatchMessage]) -> Option<Vec<KeyMatch>> {
    keys.iter().map(MatchMessage::read).collect()
}

/// Call of an action: its position in its table's `actions` list, or its id in the program.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CallMessage {
    #[prost(uint32, tag = "1")]
    action: u32,
    #[prost(message, repeated, tag = "2")]
    args: Vec<ValueMessage>,
    /// Weight of an action in a one-shot group.
    #[prost(uint32, tag = "3")]
    weight: u32,
}

impl CallMessage {
    pub(crate) fn new(action: u32, args: &[Value]) -> CallMessage {
        CallMessage {
            action,
            args: values(args),
            weight: 0,
        }
    }

    pub(crate) fn of(call: &ActionCall) -> CallMessage {
        CallMessage::new(call.action as u32, &call.args)
    }

    pub(crate) fn read_parts(&self) -> Option<(u32, Vec<Value>)> {
        Some((self.action, read_values(&self.args)?))
    }

    pub(crate) fn read(&self) -> Option<ActionCall> {
        let (action, args) = self.read_parts()?;
        Some(ActionCall {
            action: action as usize,
            args,
        })
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OneShotMessage {
    #[prost(message, repeated, tag = "1")]
    calls: Vec<CallMessage>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Does {
    #[prost(message, tag = "3")]
    Call(CallMessage),
    #[prost(uint32, tag = "4")]
    Member(u32),
    #[prost(uint32, tag = "5")]
    Group(u32),
    #[prost(message, tag = "6")]
    OneShot(OneShotMessage),
}

impl From<&Action> for Does {
    fn from(action: &Action) -> Does {
        match action {
            Action::Call(call) => Does::Call(CallMessage::of(call)),
            Action::Member(id) => Does::Member(*id),
            Action::Group(id) => Does::Group(*id),
            Action::OneShot(calls) => {
                let calls = calls.iter().map(|(call, weight)| CallMessage {
                    weight: *weight,
                    ..CallMessage::of(call)
                });
                Does::OneShot(OneShotMessage {
                    calls: calls.collect(),
                })
            }
        }
    }
}

impl Does {
    fn read(&self) -> Option<Action> {
        Some(match self {
            Does::Call(call) => Action::Call(call.read()?),
            Does::Member(id) => Action::Member(*id),
            Does::Group(id) => Action::Group(*id),
            Does::OneShot(shots) => {
                let calls = shots.calls.iter();
                let calls = calls.map(|call| Some((call.read()?, call.weight)));
                Action::OneShot(calls.collect::<Option<_>>()?)
            }
        })
    }
}

/// Rates of a meter.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MeterMessage {
    #[prost(uint64, tag = "1")]
    cir: u64,
    #[prost(uint64, tag = "2")]
    cburst: u64,
    #[prost(oneof = "Excess", tags = "3, 4")]
    excess: Option<Excess>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PeakMessage {
    #[prost(uint64, tag = "1")]
    pir: u64,
    #[prost(uint64, tag = "2")]
    pburst: u64,
}

#[derive(Clone, PartialEq, Oneof)]
enum Excess {
    /// Two-rate meter: peak rate and burst.
    #[prost(message, tag = "3")]
    Peak(PeakMessage),
    /// Single-rate meter: excess burst.
    #[prost(uint64, tag = "4")]
    Burst(u64),
}

impl From<&MeterConfig> for MeterMessage {
    fn from(config: &MeterConfig) -> Self {
        let (cir, cburst, excess) = match *config {
            MeterConfig::TwoRate {
                cir,
                cburst,
                pir,
                pburst,
            } => (cir, cburst, Excess::Peak(PeakMessage { pir, pburst })),
            MeterConfig::SingleRate {
                cir,
                cburst,
                eburst,
            } => (cir, cburst, Excess::Burst(eburst)),
        };
        MeterMessage {
            cir,
            cburst,
            excess: Some(excess),
        }
    }
}

impl MeterMessage {
    pub(crate) fn read(&self) -> Option<MeterConfig> {
        let (cir, cburst) = (self.cir, self.cburst);
        Some(match self.excess.as_ref()? {
            Excess::Peak(peak) => MeterConfig::TwoRate {
                cir,
                cburst,
                pir: peak.pir,
                pburst: peak.pburst,
            },
            Excess::Burst(eburst) => MeterConfig::SingleRate {
                cir,
                cburst,
                eburst: *eburst,
            },
        })
    }
}

/// Consecutive meters. Those without rates are empty.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MetersMessage {
    #[prost(message, repeated, tag = "1")]
    meters: Vec<MaybeMeter>,
}

#[derive(Clone, PartialEq, Message)]
struct MaybeMeter {
    #[prost(message, optional, tag = "1")]
    meter: Option<MeterMessage>,
}

impl MetersMessage {
    pub(crate) fn of(configs: &[Option<MeterConfig>]) -> MetersMessage {
        let meters = configs.iter().map(|config| MaybeMeter {
            meter: config.as_ref().map(MeterMessage::from),
        });
        MetersMessage {
            meters: meters.collect(),
        }
    }

    pub(crate) fn read(&self) -> Option<Vec<Option<MeterConfig>>> {
        let meters = self.meters.iter();
        let meters = meters.map(|maybe| match &maybe.meter {
            None => Some(None),
            Some(meter) => meter.read().map(Some),
        });
        meters.collect()
    }
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct CounterMessage {
    #[prost(uint64, tag = "1")]
    packets: u64,
    #[prost(uint64, tag = "2")]
    bytes: u64,
}

impl From<CounterReading> for CounterMessage {
    fn from(reading: CounterReading) -> Self {
        CounterMessage {
            packets: reading.packets,
            bytes: reading.bytes,
        }
    }
}

impl From<CounterMessage> for CounterReading {
    fn from(message: CounterMessage) -> Self {
        CounterReading {
            packets: message.packets,
            bytes: message.bytes,
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CountersMessage {
    #[prost(message, repeated, tag = "1")]
    pub(crate) counters: Vec<CounterMessage>,
}

/// Consecutive cells of a register.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RegistersMessage {
    #[prost(message, repeated, tag = "1")]
    cells: Vec<ValuesMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct ValuesMessage {
    #[prost(message, repeated, tag = "1")]
    values: Vec<ValueMessage>,
}

impl RegistersMessage {
    pub(crate) fn of(cells: &[Vec<Value>]) -> RegistersMessage {
        let cells = cells.iter().map(|cell| ValuesMessage {
            values: values(cell),
        });
        RegistersMessage {
            cells: cells.collect(),
        }
    }

    pub(crate) fn read(&self) -> Option<Vec<Vec<Value>>> {
        let cells = self.cells.iter();
        cells.map(|cell| read_values(&cell.values)).collect()
    }
}

/// Table entry.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EntryMessage {
    #[prost(message, repeated, tag = "1")]
    keys: Vec<MatchMessage>,
    #[prost(int32, optional, tag = "2")]
    priority: Option<i32>,
    #[prost(oneof = "Does", tags = "3, 4, 5, 6")]
    does: Option<Does>,
    #[prost(uint64, optional, tag = "7")]
    idle_timeout_ns: Option<u64>,
    #[prost(message, optional, tag = "8")]
    meter: Option<MeterMessage>,
    #[prost(bytes = "vec", tag = "9")]
    metadata: Vec<u8>,
}

impl EntryMessage {
    pub(crate) fn of(entry: &TableEntry, metadata: &[u8]) -> EntryMessage {
        EntryMessage {
            keys: matches(&entry.keys),
            priority: entry.priority,
            does: Some((&entry.action).into()),
            idle_timeout_ns: entry.idle_timeout.map(|timeout| timeout.0),
            meter: entry.meter.as_ref().map(MeterMessage::from),
            metadata: metadata.to_vec(),
        }
    }

    pub(crate) fn read(self) -> Option<(TableEntry, Box<[u8]>)> {
        let meter = match &self.meter {
            None => None,
            Some(meter) => Some(meter.read()?),
        };
        let entry = TableEntry {
            keys: read_matches(&self.keys)?,
            priority: self.priority,
            action: self.does?.read()?,
            idle_timeout: self.idle_timeout_ns.map(Nanos),
            meter,
            counter: None,
        };
        Some((entry, self.metadata.into()))
    }
}

/// Default entry.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DefaultMessage {
    #[prost(message, optional, tag = "1")]
    pub(crate) call: Option<CallMessage>,
    #[prost(message, optional, tag = "2")]
    pub(crate) meter: Option<MeterMessage>,
}

/// Entry that a packet added. Its match key is part of the encoded key.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LearnedMessage {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint32, tag = "2")]
    action: u32,
    /// Parameters. Each starts with a new element, least significant 64 bits first.
    #[prost(uint64, repeated, tag = "3")]
    params: Vec<u64>,
    #[prost(uint64, optional, tag = "4")]
    idle_timeout_ns: Option<u64>,
}

impl From<&LearnedEntry> for LearnedMessage {
    fn from(entry: &LearnedEntry) -> Self {
        LearnedMessage {
            id: entry.id.0,
            action: entry.action.action,
            params: entry.action.params.to_vec(),
            idle_timeout_ns: entry.idle_timeout_ns,
        }
    }
}

impl LearnedMessage {
    pub(crate) fn read(self, key: &[u64]) -> LearnedEntry {
        LearnedEntry {
            id: EntryId(self.id),
            key: key.into(),
            action: ActionRef {
                action: self.action,
                params: self.params.into(),
            },
            idle_timeout_ns: self.idle_timeout_ns,
            timer_start_ns: 0,
            usage: Default::default(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ReplicaMessage {
    #[prost(uint32, tag = "1")]
    port: u32,
    #[prost(uint32, tag = "2")]
    instance: u32,
}

/// Copies of a packet. For a clone session also its other properties.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ReplicasMessage {
    #[prost(message, repeated, tag = "1")]
    replicas: Vec<ReplicaMessage>,
    #[prost(uint32, optional, tag = "2")]
    group: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    truncate: Option<u32>,
    #[prost(uint32, tag = "4")]
    class_of_service: u32,
}

impl ReplicasMessage {
    pub(crate) fn of(replicas: &[Replica]) -> ReplicasMessage {
        let replicas = replicas.iter().map(|replica| ReplicaMessage {
            port: replica.port.0,
            instance: replica.instance,
        });
        ReplicasMessage {
            replicas: replicas.collect(),
            ..ReplicasMessage::default()
        }
    }

    pub(crate) fn read(&self) -> Vec<Replica> {
        let replicas = self.replicas.iter().map(|replica| Replica {
            port: PortId(replica.port),
            instance: replica.instance,
        });
        replicas.collect()
    }
}

impl From<&CloneSession> for ReplicasMessage {
    fn from(session: &CloneSession) -> Self {
        ReplicasMessage {
            group: session.group,
            truncate: session.truncate,
            class_of_service: session.class_of_service,
            ..ReplicasMessage::of(&session.replicas)
        }
    }
}

impl ReplicasMessage {
    pub(crate) fn read_session(&self) -> CloneSession {
        CloneSession {
            replicas: self.read(),
            group: self.group,
            truncate: self.truncate,
            class_of_service: self.class_of_service,
        }
    }
}

/// Members of a value set.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueSetMessage {
    #[prost(message, repeated, tag = "1")]
    members: Vec<KeyMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct KeyMessage {
    #[prost(message, repeated, tag = "1")]
    fields: Vec<MatchMessage>,
}

impl ValueSetMessage {
    pub(crate) fn of(members: &[Vec<KeyMatch>]) -> ValueSetMessage {
        let members = members.iter().map(|member| KeyMessage {
            fields: matches(member),
        });
        ValueSetMessage {
            members: members.collect(),
        }
    }

    pub(crate) fn read(&self) -> Option<Vec<Vec<KeyMatch>>> {
        let members = self.members.iter();
        members.map(|member| read_matches(&member.fields)).collect()
    }
}

/// Members of a group.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GroupMessage {
    #[prost(message, repeated, tag = "1")]
    members: Vec<WeightMessage>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct WeightMessage {
    #[prost(uint32, tag = "1")]
    member: u32,
    #[prost(uint32, tag = "2")]
    weight: u32,
}

impl GroupMessage {
    pub(crate) fn of(members: &[(u32, u32)]) -> GroupMessage {
        let members = members.iter();
        let members = members.map(|&(member, weight)| WeightMessage { member, weight });
        GroupMessage {
            members: members.collect(),
        }
    }

    pub(crate) fn read(&self) -> Vec<(u32, u32)> {
        let members = self.members.iter();
        members.map(|part| (part.member, part.weight)).collect()
    }
}

/// List of numbers: host ports, a single number, or the time-out of an expire profile.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NumbersMessage {
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) numbers: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct QueueMessage {
    #[prost(uint64, tag = "1")]
    depth: u64,
    #[prost(uint64, optional, tag = "2")]
    bits_per_second: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    packets_per_second: Option<u64>,
    /// Limits of the priorities that have any.
    #[prost(message, repeated, tag = "4")]
    priorities: Vec<PriorityQueueMessage>,
}

/// Limits of the queue of one priority. 0 stands for none.
#[derive(Clone, Copy, PartialEq, Message)]
struct PriorityQueueMessage {
    #[prost(uint32, tag = "1")]
    priority: u32,
    #[prost(uint32, tag = "2")]
    depth: u32,
    #[prost(uint64, tag = "3")]
    bits_per_second: u64,
    #[prost(uint64, tag = "4")]
    packets_per_second: u64,
}

impl From<&QueueConfig> for QueueMessage {
    fn from(config: &QueueConfig) -> Self {
        QueueMessage {
            depth: config.depth as u64,
            bits_per_second: config.bits_per_second,
            packets_per_second: config.packets_per_second,
            priorities: (0..)
                .zip(&config.priorities)
                .filter(|(_, own)| **own != PriorityQueueConfig::default())
                .map(|(priority, own)| PriorityQueueMessage {
                    priority,
                    depth: own.depth.map_or(0, NonZeroU32::get),
                    bits_per_second: own.bits_per_second.map_or(0, NonZeroU64::get),
                    packets_per_second: own.packets_per_second.map_or(0, NonZeroU64::get),
                })
                .collect(),
        }
    }
}

impl QueueMessage {
    pub(crate) fn read(self) -> Option<QueueConfig> {
        let mut priorities = [PriorityQueueConfig::default(); QUEUE_PRIORITIES];
        for own in &self.priorities {
            let place = priorities.get_mut(usize::try_from(own.priority).ok()?)?;
            *place = PriorityQueueConfig {
                depth: NonZeroU32::new(own.depth),
                bits_per_second: NonZeroU64::new(own.bits_per_second),
                packets_per_second: NonZeroU64::new(own.packets_per_second),
            };
        }
        Some(QueueConfig {
            priorities,
            depth: self.depth.try_into().ok()?,
            bits_per_second: self.bits_per_second,
            packets_per_second: self.packets_per_second,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Message)]
struct CrcMessage {
    #[prost(uint32, tag = "1")]
    polynomial: u32,
    #[prost(uint32, tag = "2")]
    initial: u32,
    #[prost(uint32, tag = "3")]
    final_xor: u32,
    #[prost(bool, tag = "4")]
    reflect_in: bool,
    #[prost(bool, tag = "5")]
    reflect_out: bool,
}

impl From<&CrcParameters> for CrcMessage {
    fn from(crc: &CrcParameters) -> Self {
        CrcMessage {
            polynomial: crc.polynomial,
            initial: crc.initial,
            final_xor: crc.final_xor,
            reflect_in: crc.reflect_in,
            reflect_out: crc.reflect_out,
        }
    }
}

impl CrcMessage {
    fn read(self) -> CrcParameters {
        CrcParameters {
            polynomial: self.polynomial,
            initial: self.initial,
            final_xor: self.final_xor,
            reflect_in: self.reflect_in,
            reflect_out: self.reflect_out,
        }
    }
}

/// Parameters of the hash algorithms.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HashMessage {
    #[prost(message, optional, tag = "1")]
    crc16: Option<CrcMessage>,
    #[prost(message, optional, tag = "2")]
    crc32: Option<CrcMessage>,
    #[prost(bytes = "vec", tag = "3")]
    toeplitz_key: Vec<u8>,
    #[prost(uint32, tag = "4")]
    seed: u32,
}

impl From<&HashParameters> for HashMessage {
    fn from(parameters: &HashParameters) -> Self {
        HashMessage {
            crc16: Some((&parameters.crc16).into()),
            crc32: Some((&parameters.crc32).into()),
            toeplitz_key: parameters.toeplitz_key.clone(),
            seed: parameters.seed,
        }
    }
}

impl HashMessage {
    pub(crate) fn read(self) -> Option<HashParameters> {
        Some(HashParameters {
            crc16: self.crc16?.read(),
            crc32: self.crc32?.read(),
            toeplitz_key: self.toeplitz_key,
            seed: self.seed,
        })
    }
}
