//! Formats the server's data as JSON.

use controller::{Catalog, Datum, Read};
use entries::{CounterValue, EntryAction, MeterConfig, Object, Table, TableEntry, Update};
use ir::{ActionCall, ActionId};
use serde_json::{Map, Value, json};

/// Formats an update, with its statement.
pub(crate) fn update(catalog: &Catalog, read: &Read) -> Value {
    let schema = &catalog.schema;
    let mut value = match &read.update {
        Update::Insert(table, entry) => table_entry(catalog, &schema.tables[*table], entry),
        Update::SetDefault(table, call) => {
            let table = &schema.tables[*table];
            json!({ "table": table.name, "is_default": true, "action": table_call(catalog, table, call) })
        }
        Update::Member {
            profile,
            id,
            action,
            args,
        } => json!({
            "profile": schema.externs[*profile].name,
            "member": id,
            "action": call(catalog, *action, args),
        }),
        Update::Group {
            profile,
            id,
            members,
            max_size,
        } => {
            let members = members.iter();
            let members = members.map(|one| json!({ "member": one.member, "weight": one.weight }));
            json!({
                "profile": schema.externs[*profile].name,
                "group": id,
                "members": members.collect::<Vec<_>>(),
                "max_size": max_size,
            })
        }
        Update::Multicast { id, replicas } => {
            json!({ "multicast": id, "replicas": copies(replicas) })
        }
        Update::Clone(session) => json!({
            "clone": session.id,
            "replicas": copies(&session.replicas),
            "truncate": session.truncate,
            "class": session.class_of_service,
        }),
        Update::Register {
            register,
            index,
            values,
        } => {
            let register = &schema.externs[*register];
            let types = match &register.kind {
                Object::Register { cell, .. } => &cell[..],
                _ => &[],
            };
            let values = types.iter().zip(values);
            let values = values.map(|(ty, value)| schema.value(*ty, entries::Format::Plain, value));
            json!({ "register": register.name, "index": index, "values": values.collect::<Vec<_>>() })
        }
        Update::Meter {
            meter,
            index,
            config,
        } => {
            let mut value = json!({ "meter": schema.externs[*meter].name, "index": index });
            add(&mut value, rates(config));
            value
        }
        Update::Counter {
            counter,
            index,
            value,
        } => {
            let mut told = json!({ "counter": schema.externs[*counter].name, "index": index });
            add(&mut told, counts(value));
            told
        }
        Update::ExpireProfile {
            profile,
            timeout_ns,
        } => {
            json!({ "expire_profile": profile, "timeout_ns": timeout_ns })
        }
        Update::Queue(queue) => json!({
            "priority": queue.priority,
            "queue": queue.port,
            "packets_per_second": queue.packets_per_second,
            "bits_per_second": queue.bits_per_second,
            "depth": queue.depth,
        }),
        Update::HashCrc { bits, .. } => json!({ "hash": format!("crc{bits}") }),
        Update::HashKey(_) => json!({ "hash": "toeplitz" }),
        Update::HashSeed(seed) => json!({ "hash": "seed", "seed": seed }),
        Update::HostPorts(ports) => json!({ "host_ports": ports }),
        Update::ValueSet { value_set, .. } => {
            json!({ "value_set": schema.value_sets[*value_set].name })
        }
    };
    add(
        &mut value,
        json!({ "statement": schema.statement(&read.update) }),
    );
    if read.is_const {
        add(&mut value, json!({ "is_const": true }));
    }
    if let Some(metadata) = &read.metadata {
        add(&mut value, json!({ "metadata": metadata }));
    }
    value
}

fn table_entry(catalog: &Catalog, table: &Table, entry: &TableEntry) -> Value {
    let schema = &catalog.schema;
    let keys = table.keys.iter().zip(&entry.keys);
    let matches: Map<String, Value> = keys
        .map(|(key, wanted)| (key.name.clone(), schema.key_match(key, wanted).into()))
        .collect();
    let action = match &entry.action {
        EntryAction::Call(call) => table_call(catalog, table, call),
        EntryAction::Member(id) => json!({ "member": id }),
        EntryAction::Group(id) => json!({ "group": id }),
        EntryAction::OneShot(actions) => {
            let one = |(call, weight): &(ActionCall, u32)| {
                let mut value = table_call(catalog, table, call);
                add(&mut value, json!({ "weight": weight }));
                value
            };
            json!({ "one_shot": actions.iter().map(one).collect::<Vec<_>>() })
        }
    };
    let mut value = json!({ "table": table.name, "match": matches, "action": action });
    if let Some(priority) = entry.priority {
        add(&mut value, json!({ "priority": priority }));
    }
    if let Some(ns) = entry.idle_timeout_ns {
        add(&mut value, json!({ "idle_timeout_ns": ns }));
    }
    if let Some(counter) = &entry.counter {
        add(&mut value, json!({ "counter": counts(counter) }));
    }
    if let Some(meter) = &entry.meter {
        add(&mut value, json!({ "meter": rates(meter) }));
    }
    value
}

fn table_call(catalog: &Catalog, table: &Table, wanted: &ActionCall) -> Value {
    match table.actions.get(wanted.action) {
        Some(&action) => call(catalog, action, &wanted.args),
        None => Value::Null,
    }
}

fn call(catalog: &Catalog, action: ActionId, args: &[bits::Value]) -> Value {
    let action = &catalog.schema.actions[action];
    let params = action.params.iter().zip(args);
    let params: Map<String, Value> = params
        .map(|(param, value)| {
            let value = catalog.schema.value(param.ty, param.format, value);
            (param.name.clone(), value.into())
        })
        .collect();
    json!({ "name": action.name, "params": params })
}

fn copies(all: &[entries::Replica]) -> Vec<Value> {
    let one = |copy: &entries::Replica| json!({ "port": copy.port, "instance": copy.instance });
    all.iter().map(one).collect()
}

pub(crate) fn counts(value: &CounterValue) -> Value {
    json!({ "packets": value.packets, "bytes": value.bytes })
}

pub(crate) fn rates(config: &MeterConfig) -> Value {
    let mut rates = json!({ "cir": config.cir, "cburst": config.cburst, "pir": config.pir, "pburst": config.pburst });
    if let Some(eburst) = config.eburst {
        add(&mut rates, json!({ "eburst": eburst }));
    }
    rates
}

/// Moves the members of one object into another.
pub(crate) fn add(to: &mut Value, from: Value) {
    if let (Value::Object(to), Value::Object(from)) = (to, from) {
        to.extend(from);
    }
}

/// Formats a value of any type as JSON.
pub(crate) fn datum(value: &Datum) -> Value {
    match value {
        Datum::Number(text) | Datum::Word(text) => text.clone().into(),
        Datum::Bool(value) => (*value).into(),
        Datum::Nothing => Value::Null,
        Datum::Parts(parts) if parts.iter().all(|(name, _)| name.is_empty()) => parts
            .iter()
            .map(|(_, part)| datum(part))
            .collect::<Vec<_>>()
            .into(),
        Datum::Parts(parts) => {
            let members = parts.iter().map(|(name, part)| (name.clone(), datum(part)));
            Value::Object(members.collect())
        }
    }
}

/// Formats a value of any type for people.
pub(crate) fn told(value: &Datum) -> String {
    match value {
        Datum::Number(text) => text.clone(),
        Datum::Word(word) => word.clone(),
        Datum::Bool(value) => value.to_string(),
        Datum::Nothing => "none".to_owned(),
        Datum::Parts(parts) => {
            let one = |(name, part): &(String, Datum)| match name.is_empty() {
                true => told(part),
                false => format!("{name}: {}", told(part)),
            };
            let parts: Vec<String> = parts.iter().map(one).collect();
            format!("{{ {} }}", parts.join(", "))
        }
    }
}
