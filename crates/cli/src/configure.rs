//! From texts to a configured device: what entries files and STF tests ask, in the device's words; and what a device did, for reports.

use std::path::Path;
use std::sync::Arc;

use entries::Update;
use packet::{Nanos, PortId};
use switch::{Action, Change, Device, DeviceConfig, Replica};

use crate::args::Source;
use crate::report::{DeviceReport, Drops, TableReport};
use crate::{compile, out};

/// Compiles a program and loads it with its entries. With errors in either, they are shown and there is none.
pub(crate) fn load(source: &Source, entries: Option<&Path>) -> Result<Option<Device>, String> {
    let Some(program) = compile::compile(source) else {
        return Ok(None);
    };
    let mut device = device(program)?;
    let Some(path) = entries else {
        return Ok(Some(device));
    };
    let file = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {file}: {error}"))?;
    Ok(add_entries(&mut device, &file, &text).then_some(device))
}

/// Compiles a program that is given as text, with its entries; what is built in has no errors to show.
pub(crate) fn load_text(
    name: &str,
    text: &str,
    entries_name: &str,
    entries: &str,
) -> Result<Device, String> {
    let program = compile::compile_text(name, text)?;
    let mut device = device(program)?;
    match add_entries(&mut device, entries_name, entries) {
        true => Ok(device),
        false => Err(format!("{entries_name} has errors")),
    }
}

/// A device that runs a program.
pub(crate) fn device(program: ir::Program) -> Result<Device, String> {
    let program = Arc::new(program);
    Device::new(program, &interp::Interp, &DeviceConfig::default())
        .map_err(|error| error.to_string())
}

/// Reads an entries file and applies it; whether it was without errors, which are shown.
fn add_entries(device: &mut Device, file: &str, text: &str) -> bool {
    let updates = match entries::read(device.program(), file, text) {
        Ok(updates) => updates,
        Err(errors) => {
            errors
                .iter()
                .for_each(|error| out::note(&error.to_string()));
            return false;
        }
    };
    for update in updates {
        if let Err(error) = device.apply(change(update)) {
            out::note(&format!("{file}: error: {error}"));
            return false;
        }
    }
    true
}

/// What an update asks of a device.
pub(crate) fn change(update: Update) -> Change {
    match update {
        Update::Insert(table, entry) => Change::Insert(table, self::entry(entry)),
        Update::SetDefault(table, call) => Change::SetDefault(table, call),
        Update::Member {
            profile,
            id,
            action,
            args,
        } => Change::SetMember {
            profile,
            id,
            action,
            args,
        },
        Update::Group {
            profile,
            id,
            members,
            ..
        } => {
            let members = members
                .iter()
                .map(|member| (member.member, member.weight))
                .collect();
            Change::SetGroup {
                profile,
                id,
                members,
            }
        }
        Update::Multicast { id, replicas } => {
            Change::SetMulticast(id, replicas.iter().map(replica).collect())
        }
        Update::Clone(session) => {
            let replicas = session.replicas.iter().map(replica).collect();
            let (truncate, class_of_service) = (session.truncate, session.class_of_service);
            let made = switch::CloneSession {
                replicas,
                group: None,
                truncate,
                class_of_service,
            };
            Change::SetCloneSession(session.id, made)
        }
        Update::Register {
            register,
            index,
            values,
        } => Change::WriteRegister(register, index, values),
        Update::Meter {
            meter,
            index,
            config,
        } => Change::SetMeter(meter, index, meter_config(config)),
        Update::Counter {
            counter,
            index,
            value,
        } => Change::WriteCounter(counter, Some(index), reading(value)),
        Update::ValueSet { value_set, members } => Change::SetValueSet(
            value_set,
            members.into_iter().map(|member| member.fields).collect(),
        ),
    }
}

fn entry(entry: entries::TableEntry) -> switch::TableEntry {
    let action = match entry.action {
        entries::EntryAction::Call(call) => Action::Call(call),
        entries::EntryAction::Member(id) => Action::Member(id),
        entries::EntryAction::Group(id) => Action::Group(id),
        entries::EntryAction::OneShot(calls) => Action::OneShot(calls),
    };
    switch::TableEntry {
        keys: entry.keys,
        priority: entry.priority,
        action,
        idle_timeout: entry.idle_timeout_ns.map(Nanos),
        meter: entry.meter.map(meter_config),
        counter: entry.counter.map(reading),
    }
}

fn replica(replica: &entries::Replica) -> Replica {
    Replica {
        port: PortId(replica.port),
        instance: replica.instance,
    }
}

fn meter_config(config: entries::MeterConfig) -> switch::MeterConfig {
    let entries::MeterConfig {
        cir,
        cburst,
        pir,
        pburst,
    } = config;
    switch::MeterConfig {
        cir,
        cburst,
        pir,
        pburst,
    }
}

fn reading(value: entries::CounterValue) -> switch::CounterReading {
    switch::CounterReading {
        packets: value.packets,
        bytes: value.bytes,
    }
}

/// What a device did.
pub(crate) fn report(device: &Device) -> DeviceReport {
    let program = device.program();
    let tables = device.table_hits().into_iter().map(|table| TableReport {
        name: program.tables[table.table].name.clone(),
        hits: table.hits,
        misses: table.misses,
    });
    let ledger = device.ledger();
    let dropped = ledger.drops().map(|(reason, packets)| Drops {
        reason: reason.name().to_string(),
        packets,
    });
    DeviceReport {
        tables: tables.collect(),
        dropped: dropped.collect(),
        replicated: ledger.replicated,
        held: device.held() as u64,
        ..DeviceReport::default()
    }
}
