//! Encoding of objects and their keys as bytes. The encoded keys have the order of the keys
//! ([`ObjectPlace`]). docs/reference/state-directory.md describes both.

use ir::{ExternId, TableId, ValueSetId};
use packet::{Nanos, PortId};
use prost::Message;
use std::sync::Arc;
use switch::{EntryId, Object, ObjectPlace};

use crate::disk::KindName;
use crate::message::{
    CallMessage, CounterMessage, CountersMessage, DefaultMessage, EntryMessage, GroupMessage,
    HashMessage, LearnedMessage, MeterMessage, MetersMessage, NumbersMessage, QueueMessage,
    RegistersMessage, ReplicasMessage, ValueSetMessage,
};

/// First byte of an encoded key.
pub(crate) mod kind {
    pub(crate) const PROGRAM: u8 = 1;
    pub(crate) const NOTE: u8 = 2;
    pub(crate) const HASH: u8 = 3;
    pub(crate) const HOST_PORTS: u8 = 4;
    pub(crate) const EXPIRE_PROFILE: u8 = 5;
    pub(crate) const QUEUE: u8 = 6;
    pub(crate) const VALUE_SET: u8 = 7;
    pub(crate) const MEMBER: u8 = 8;
    pub(crate) const GROUP: u8 = 9;
    pub(crate) const ENTRY: u8 = 10;
    pub(crate) const NEXT_ENTRY: u8 = 11;
    pub(crate) const DEFAULT: u8 = 12;
    pub(crate) const LEARNED: u8 = 13;
    pub(crate) const NEXT_FLOW: u8 = 14;
    pub(crate) const MULTICAST: u8 = 15;
    pub(crate) const CLONE_SESSION: u8 = 16;
    pub(crate) const METERS: u8 = 17;
    pub(crate) const COUNTERS: u8 = 18;
    pub(crate) const DIRECT_COUNTER: u8 = 19;
    pub(crate) const REGISTERS: u8 = 20;
}

/// Encodes a key and its object, as stored in a device's file (docs/reference/state-directory.md).
pub fn write_object(place: &ObjectPlace, object: &Object) -> (Vec<u8>, Vec<u8>) {
    (key(place), bytes(object))
}

/// Decodes the result of [`write_object`]. Returns `None` for other bytes.
pub fn read_object(key: &[u8], bytes: &[u8]) -> Option<(ObjectPlace, Object)> {
    let place = place(key)?;
    let object = object(&place, bytes)?;
    Some((place, object))
}

/// Encodes a key. [`ObjectPlace::Entries`] is never stored: [`table_keys`] returns the keys that it
/// covers.
pub(crate) fn key(place: &ObjectPlace) -> Vec<u8> {
    let (kind, numbers): (u8, &[u32]) = match place {
        ObjectPlace::Program => (kind::PROGRAM, &[]),
        ObjectPlace::Note(name) => return [&[kind::NOTE][..], name].concat(),
        ObjectPlace::Hash => (kind::HASH, &[]),
        ObjectPlace::HostPorts => (kind::HOST_PORTS, &[]),
        ObjectPlace::ExpireProfile(profile) => (kind::EXPIRE_PROFILE, &[(*profile).into()]),
        ObjectPlace::Queue(port) => (kind::QUEUE, &[port.0]),
        ObjectPlace::ValueSet(id) => (kind::VALUE_SET, &[id.get()]),
        ObjectPlace::Member(profile, id) => (kind::MEMBER, &[profile.get(), *id]),
        ObjectPlace::Group(profile, id) => (kind::GROUP, &[profile.get(), *id]),
        ObjectPlace::Entries(table) => return table_key(kind::ENTRY, *table),
        ObjectPlace::Entry(table, id) => return with_id(kind::ENTRY, *table, *id),
        ObjectPlace::NextEntry(table) => (kind::NEXT_ENTRY, &[table.get()]),
        ObjectPlace::Default(table) => (kind::DEFAULT, &[table.get()]),
        ObjectPlace::Learned(table, limbs) => {
            let mut key = table_key(kind::LEARNED, *table);
            key.extend(limbs.iter().flat_map(|limb| limb.to_be_bytes()));
            return key;
        }
        ObjectPlace::NextFlow => (kind::NEXT_FLOW, &[]),
        ObjectPlace::Multicast(id) => (kind::MULTICAST, &[*id]),
        ObjectPlace::CloneSession(id) => (kind::CLONE_SESSION, &[*id]),
        ObjectPlace::Meters(id, chunk) => (kind::METERS, &[id.get(), *chunk]),
        ObjectPlace::Counters(id, chunk) => (kind::COUNTERS, &[id.get(), *chunk]),
        ObjectPlace::DirectCounter(table, None) => (kind::DIRECT_COUNTER, &[table.get()]),
        ObjectPlace::DirectCounter(table, Some(id)) => {
            return with_id(kind::DIRECT_COUNTER, *table, *id);
        }
        ObjectPlace::Registers(id, chunk) => (kind::REGISTERS, &[id.get(), *chunk]),
    };
    let mut key = vec![kind];
    key.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    key
}

fn table_key(kind: u8, table: TableId) -> Vec<u8> {
    let mut key = Vec::with_capacity(13);
    key.push(kind);
    key.extend(table.get().to_be_bytes());
    key
}

fn with_id(kind: u8, table: TableId, id: EntryId) -> Vec<u8> {
    let mut key = table_key(kind, table);
    key.extend(id.0.to_be_bytes());
    key
}

/// Returns the ranges of all keys of a table's entries (including those that packets added) and of
/// their counters.
pub(crate) fn table_keys(table: TableId) -> [std::ops::Range<Vec<u8>>; 3] {
    let next = TableId::new(table.get().saturating_add(1));
    let kinds = [kind::ENTRY, kind::LEARNED, kind::DIRECT_COUNTER];
    kinds.map(|kind| table_key(kind, table)..table_key(kind, next))
}

/// Decodes a key.
pub(crate) fn place(key: &[u8]) -> Option<ObjectPlace> {
    let (&kind, rest) = key.split_first()?;
    if kind == kind::NOTE {
        return Some(ObjectPlace::Note(rest.into()));
    }
    let (first, behind) = match rest.split_first_chunk() {
        Some((number, behind)) => (Some(u32::from_be_bytes(*number)), behind),
        None if rest.is_empty() => (None, rest),
        None => return None,
    };
    let id = || Some(EntryId(u64::from_be_bytes(behind.try_into().ok()?)));
    let second = || Some(u32::from_be_bytes(behind.try_into().ok()?));
    let table = || first.map(TableId::new);
    let instance = || first.map(ExternId::new);
    Some(match kind {
        kind::PROGRAM => ObjectPlace::Program,
        kind::HASH => ObjectPlace::Hash,
        kind::HOST_PORTS => ObjectPlace::HostPorts,
        kind::EXPIRE_PROFILE => ObjectPlace::ExpireProfile(first?.try_into().ok()?),
        kind::QUEUE => ObjectPlace::Queue(PortId(first?)),
        kind::VALUE_SET => ObjectPlace::ValueSet(ValueSetId::new(first?)),
        kind::MEMBER => ObjectPlace::Member(instance()?, second()?),
        kind::GROUP => ObjectPlace::Group(instance()?, second()?),
        kind::ENTRY => ObjectPlace::Entry(table()?, id()?),
        kind::NEXT_ENTRY => ObjectPlace::NextEntry(table()?),
        kind::DEFAULT => ObjectPlace::Default(table()?),
        kind::LEARNED => {
            let (limbs, []) = behind.as_chunks() else {
                return None;
            };
            ObjectPlace::Learned(
                table()?,
                limbs.iter().map(|limb| u64::from_be_bytes(*limb)).collect(),
            )
        }
        kind::NEXT_FLOW => ObjectPlace::NextFlow,
        kind::MULTICAST => ObjectPlace::Multicast(first?),
        kind::CLONE_SESSION => ObjectPlace::CloneSession(first?),
        kind::METERS => ObjectPlace::Meters(instance()?, second()?),
        kind::COUNTERS => ObjectPlace::Counters(instance()?, second()?),
        kind::DIRECT_COUNTER if behind.is_empty() => ObjectPlace::DirectCounter(table()?, None),
        kind::DIRECT_COUNTER => ObjectPlace::DirectCounter(table()?, Some(id()?)),
        kind::REGISTERS => ObjectPlace::Registers(instance()?, second()?),
        _ => return None,
    })
}

/// Encodes an object.
pub(crate) fn bytes(object: &Object) -> Vec<u8> {
    let numbers = |numbers: Vec<u64>| NumbersMessage { numbers }.encode_to_vec();
    match object {
        Object::Program(program) => program.to_string().into_bytes(),
        Object::Note(bytes) => bytes.to_vec(),
        Object::Hash(parameters) => HashMessage::from(parameters).encode_to_vec(),
        Object::HostPorts(ports) => numbers(ports.iter().map(|port| (*port).into()).collect()),
        Object::Timeout(timeout) => numbers(timeout.iter().map(|timeout| timeout.0).collect()),
        Object::Queue(config) => QueueMessage::from(config).encode_to_vec(),
        Object::ValueSet(members) => ValueSetMessage::of(members).encode_to_vec(),
        Object::Member(action, args) => CallMessage::new(action.get(), args).encode_to_vec(),
        Object::Group(members) => GroupMessage::of(members).encode_to_vec(),
        Object::Entry(entry, metadata) => EntryMessage::of(entry, metadata).encode_to_vec(),
        Object::Next(next) => numbers(vec![*next]),
        Object::Default(call, meter) => DefaultMessage {
            call: call.as_ref().map(CallMessage::of),
            meter: meter.as_ref().map(MeterMessage::from),
        }
        .encode_to_vec(),
        Object::Learned(entry) => LearnedMessage::from(entry).encode_to_vec(),
        Object::Replicas(replicas) => ReplicasMessage::of(replicas).encode_to_vec(),
        Object::CloneSession(session) => ReplicasMessage::from(session).encode_to_vec(),
        Object::Meters(configs) => MetersMessage::of(configs).encode_to_vec(),
        Object::Counters(readings) => CountersMessage {
            counters: readings.iter().map(|reading| (*reading).into()).collect(),
        }
        .encode_to_vec(),
        Object::Counter(reading) => CounterMessage::from(*reading).encode_to_vec(),
        Object::Registers(cells) => RegistersMessage::of(cells).encode_to_vec(),
    }
}

fn message<M: Message + Default>(bytes: &[u8]) -> Option<M> {
    M::decode(bytes).ok()
}

fn number(bytes: &[u8]) -> Option<u64> {
    message::<NumbersMessage>(bytes)?.numbers.first().copied()
}

/// Decodes the object of a key.
pub(crate) fn object(place: &ObjectPlace, bytes: &[u8]) -> Option<Object> {
    Some(match place {
        ObjectPlace::Program => {
            let text = std::str::from_utf8(bytes).ok()?;
            Object::Program(Arc::new(ir::read(text).ok()?))
        }
        ObjectPlace::Note(_) => Object::Note(bytes.into()),
        ObjectPlace::Hash => Object::Hash(message::<HashMessage>(bytes)?.read()?),
        ObjectPlace::HostPorts => {
            let ports = message::<NumbersMessage>(bytes)?.numbers;
            let ports = ports.into_iter().map(|port| port.try_into().ok());
            Object::HostPorts(ports.collect::<Option<_>>()?)
        }
        ObjectPlace::ExpireProfile(_) => {
            let timeout = message::<NumbersMessage>(bytes)?.numbers;
            Object::Timeout(timeout.first().copied().map(Nanos))
        }
        ObjectPlace::Queue(_) => Object::Queue(message::<QueueMessage>(bytes)?.read()?),
        ObjectPlace::ValueSet(_) => Object::ValueSet(message::<ValueSetMessage>(bytes)?.read()?),
        ObjectPlace::Member(..) => {
            let (action, args) = message::<CallMessage>(bytes)?.read_parts()?;
            Object::Member(ir::ActionId::new(action), args)
        }
        ObjectPlace::Group(..) => Object::Group(message::<GroupMessage>(bytes)?.read()),
        ObjectPlace::Entries(_) => return None,
        ObjectPlace::Entry(..) => {
            let (entry, metadata) = message::<EntryMessage>(bytes)?.read()?;
            Object::Entry(entry, metadata)
        }
        ObjectPlace::NextEntry(_) | ObjectPlace::NextFlow => Object::Next(number(bytes)?),
        ObjectPlace::Default(_) => {
            let default = message::<DefaultMessage>(bytes)?;
            let call = default.call.map(|call| call.read());
            let meter = default.meter.map(|meter| meter.read());
            if call == Some(None) || meter == Some(None) {
                return None;
            }
            Object::Default(call.flatten(), meter.flatten())
        }
        ObjectPlace::Learned(_, key) => {
            Object::Learned(message::<LearnedMessage>(bytes)?.read(key))
        }
        ObjectPlace::Multicast(_) => Object::Replicas(message::<ReplicasMessage>(bytes)?.read()),
        ObjectPlace::CloneSession(_) => {
            Object::CloneSession(message::<ReplicasMessage>(bytes)?.read_session())
        }
        ObjectPlace::Meters(..) => Object::Meters(message::<MetersMessage>(bytes)?.read()?),
        ObjectPlace::Counters(..) => {
            let counters = message::<CountersMessage>(bytes)?.counters;
            Object::Counters(counters.into_iter().map(Into::into).collect())
        }
        ObjectPlace::DirectCounter(..) => Object::Counter(message::<CounterMessage>(bytes)?.into()),
        ObjectPlace::Registers(..) => {
            Object::Registers(message::<RegistersMessage>(bytes)?.read()?)
        }
    })
}

/// Returns the name of the kind of a key's object.
pub(crate) fn kind_name(key: &[u8]) -> Option<KindName> {
    let (one, several) = match *key.first()? {
        kind::PROGRAM => ("program", "programs"),
        kind::NOTE => ("note of the control plane", "notes of the control plane"),
        kind::HASH => (
            "set of parameters of hashes",
            "sets of parameters of hashes",
        ),
        kind::HOST_PORTS => ("list of host ports", "lists of host ports"),
        kind::EXPIRE_PROFILE => ("time-out profile", "time-out profiles"),
        kind::QUEUE => ("port queue", "port queues"),
        kind::VALUE_SET => ("value set", "value sets"),
        kind::MEMBER => ("action profile member", "action profile members"),
        kind::GROUP => ("action profile group", "action profile groups"),
        kind::ENTRY => ("table entry", "table entries"),
        kind::DEFAULT => ("default entry", "default entries"),
        kind::LEARNED => ("entry added by packets", "entries added by packets"),
        kind::MULTICAST => ("multicast group", "multicast groups"),
        kind::CLONE_SESSION => ("clone session", "clone sessions"),
        kind::METERS => ("range of meters", "ranges of meters"),
        kind::COUNTERS => ("range of counters", "ranges of counters"),
        kind::DIRECT_COUNTER => ("direct counter", "direct counters"),
        kind::REGISTERS => ("range of register cells", "ranges of register cells"),
        _ => return None,
    };
    Some(KindName { one, several })
}
