//! From checked updates to a device's changes.

use entries::{EntryAction, TableEntry, Update};
use packet::{Nanos, PortId};
use switch::{
    Action, Change, CloneSession, ControlError, CounterReading, Device, EntryId, MeterConfig,
    Replica,
};

/// Makes the change that an update asks for. The id of the entry that it adds, if it adds one.
///
/// # Errors
/// The device refuses it: there is no room, the entry exists, a member is missing.
pub fn apply(device: &mut Device, update: &Update) -> Result<Option<EntryId>, ControlError> {
    device.apply(change(update))
}

fn change(update: &Update) -> Change {
    match update {
        Update::Insert(table, entry) => Change::Insert(*table, table_entry(entry)),
        Update::SetDefault(table, call) => Change::SetDefault(*table, call.clone()),
        Update::Member {
            profile,
            id,
            action,
            args,
        } => Change::SetMember {
            profile: *profile,
            id: *id,
            action: *action,
            args: args.clone(),
        },
        Update::Group {
            profile,
            id,
            members,
            ..
        } => Change::SetGroup {
            profile: *profile,
            id: *id,
            members: members.iter().map(|m| (m.member, m.weight)).collect(),
        },
        Update::Multicast { id, replicas: all } => Change::SetMulticast(*id, replicas(all)),
        Update::Clone(session) => Change::SetCloneSession(
            session.id,
            CloneSession {
                replicas: replicas(&session.replicas),
                group: None,
                truncate: session.truncate,
                class_of_service: session.class_of_service,
            },
        ),
        Update::Register {
            register,
            index,
            values,
        } => Change::WriteRegister(*register, *index, values.clone()),
        Update::Meter {
            meter,
            index,
            config,
        } => Change::SetMeter(*meter, *index, meter_config(config)),
        Update::Counter {
            counter,
            index,
            value,
        } => Change::WriteCounter(*counter, Some(*index), reading(value)),
        Update::ExpireProfile {
            profile,
            timeout_ns,
        } => Change::SetExpireProfile(*profile, timeout_ns.map(Nanos)),
        Update::ValueSet { value_set, members } => {
            let members = members.iter().map(|member| member.fields.clone());
            Change::SetValueSet(*value_set, members.collect())
        }
    }
}

fn table_entry(entry: &TableEntry) -> switch::TableEntry {
    switch::TableEntry {
        keys: entry.keys.clone(),
        priority: entry.priority,
        action: match &entry.action {
            EntryAction::Call(call) => Action::Call(call.clone()),
            EntryAction::Member(member) => Action::Member(*member),
            EntryAction::Group(group) => Action::Group(*group),
            EntryAction::OneShot(actions) => Action::OneShot(actions.clone()),
        },
        idle_timeout: entry.idle_timeout_ns.map(Nanos),
        meter: entry.meter.as_ref().map(meter_config),
        counter: entry.counter.as_ref().map(reading),
    }
}

pub(crate) fn replicas(all: &[entries::Replica]) -> Vec<Replica> {
    let copy = |replica: &entries::Replica| Replica {
        port: PortId(replica.port),
        instance: replica.instance,
    };
    all.iter().map(copy).collect()
}

fn meter_config(config: &entries::MeterConfig) -> MeterConfig {
    MeterConfig {
        cir: config.cir,
        cburst: config.cburst,
        pir: config.pir,
        pburst: config.pburst,
    }
}

fn reading(value: &entries::CounterValue) -> CounterReading {
    CounterReading {
        packets: value.packets,
        bytes: value.bytes,
    }
}
