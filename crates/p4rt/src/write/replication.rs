//! Multicast groups and clone sessions (section "`PacketReplicationEngineEntry`").

#![expect(
    deprecated,
    reason = "P4Runtime still has the fields, and clients still use them"
)]

use std::collections::BTreeSet;
use std::sync::Arc;

use ir::Arch;
use p4info::p4::v1 as rt;
use p4info::p4::v1::packet_replication_engine_entry::Type as Given;
use p4info::p4::v1::replica::PortKind;
use p4info::p4::v1::update::Type;
use packet::PortId;
use switch::{Change, CloneSession, Replica};
use tonic::Code;

use super::profile::check_presence;
use crate::bytes;
use crate::request_error::{Checked, RequestError, invalid, refuse};
use crate::schema::Schema;
use crate::undo::Op;

/// Maximum instance: `EgressInstance_t` has 16 bits in PSA, PNA and v1model.
const MAX_INSTANCE: u32 = 0xffff;

/// Maximum class of service: `ClassOfService_t` has 8 bits.
const MAX_CLASS: u32 = 0xff;

/// PSA's port numbers: the last one below the reserved ones, `PSA_PORT_RECIRCULATE` and
/// `PSA_PORT_CPU`.
const PSA_LAST: u32 = 0xffff_fff9;
const PSA_RECIRCULATE: u32 = 0xffff_fffa;
const PSA_CPU: u32 = 0xffff_fffd;

/// Checks that the architecture has groups and sessions with this id. v1model's ids have 16 bits.
fn check_id(schema: &Schema, place: &str, id: u32) -> Checked {
    match schema.program.arch {
        Arch::V1model if id > 0xffff => {
            invalid(format!("{place}: the id is above 65535, v1model's largest"))
        }
        _ => Ok(()),
    }
}

/// Decodes a port number.
pub(crate) fn read_port(given: &[u8]) -> Checked<PortId> {
    let value = bytes::unsigned(given, 32)?;
    Ok(PortId(value.to_u64().unwrap_or_default() as u32))
}

fn replica_port(place: &str, replica: &rt::Replica) -> Checked<PortId> {
    match &replica.port_kind {
        Some(PortKind::Port(port)) => read_port(port).map_err(|fault| fault.within(place)),
        Some(PortKind::EgressPort(port)) => Ok(PortId(*port)),
        None => invalid(format!("{place}: a replica has no port")),
    }
}

/// Returns the copies to make while these ports are down. For each replica it is the first live one
/// of the replica and its backups, if there is any.
pub(crate) fn live_replicas(replicas: &[rt::Replica], down: &BTreeSet<PortId>) -> Vec<Replica> {
    let live = |replica: &rt::Replica| {
        let first = replica_port("", replica)
            .ok()
            .map(|port| (port, replica.instance));
        let backups = replica.backup_replicas.iter();
        let backups =
            backups.filter_map(|backup| Some((read_port(&backup.port).ok()?, backup.instance)));
        let mut all = first.into_iter().chain(backups);
        all.find(|(port, _)| !down.contains(port))
    };
    let live = replicas.iter().filter_map(live);
    live.map(|(port, instance)| Replica { port, instance })
        .collect()
}

fn check_replicas(schema: &Schema, place: &str, replicas: &[rt::Replica]) -> Checked {
    let mut seen = BTreeSet::new();
    for replica in replicas {
        let port = replica_port(place, replica)?;
        check_copy(schema, place, port, replica.instance)?;
        let mut all = vec![(port, replica.instance)];
        for backup in &replica.backup_replicas {
            let backup_port = read_port(&backup.port).map_err(|fault| fault.within(place))?;
            check_copy(schema, place, backup_port, backup.instance)?;
            if all.iter().any(|(other, _)| *other == backup_port) {
                return invalid(format!(
                    "{place}: a replica and its backups have the port {} twice",
                    backup_port.0
                ));
            }
            all.push((backup_port, backup.instance));
        }
        for (port, instance) in all {
            if !seen.insert((port, instance)) {
                return invalid(format!(
                    "{place} has two replicas with the port {} and the instance {instance}",
                    port.0
                ));
            }
        }
    }
    Ok(())
}

fn check_copy(schema: &Schema, place: &str, port: PortId, instance: u32) -> Checked {
    if instance > MAX_INSTANCE {
        return invalid(format!(
            "{place}: the instance {instance} is above {MAX_INSTANCE}"
        ));
    }
    let port = port.0;
    match schema.program.arch {
        // v1model's ports have 9 bits, and 511 is the drop port.
        Arch::V1model if port > 510 => invalid(format!(
            "{place}: the port {port} is no port of v1model (0 to 510)"
        )),
        Arch::Psa if port > PSA_LAST && ![PSA_RECIRCULATE, PSA_CPU].contains(&port) => {
            invalid(format!(
                "{place}: the port {port} is no port of PSA (0 to {PSA_LAST}, {PSA_RECIRCULATE} to recirculate and {PSA_CPU} for the CPU)"
            ))
        }
        _ => Ok(()),
    }
}

/// Converts an update of a multicast group or a clone session.
pub(super) fn convert(
    schema: &Arc<Schema>,
    ty: Type,
    entry: &rt::PacketReplicationEngineEntry,
) -> Checked<Op> {
    match &entry.r#type {
        Some(Given::MulticastGroupEntry(group)) => multicast(schema, ty, group),
        Some(Given::CloneSessionEntry(session)) => clone_session(schema, ty, session),
        None => invalid("the packet replication engine entry is neither a group nor a session"),
    }
}

fn multicast(schema: &Arc<Schema>, ty: Type, group: &rt::MulticastGroupEntry) -> Checked<Op> {
    let id = group.multicast_group_id;
    let place = format!("the multicast group {id}");
    if id == 0 {
        return invalid("a multicast group's id is at least 1");
    }
    check_id(schema, &place, id)?;
    if ty != Type::Delete {
        check_replicas(schema, &place, &group.replicas)?;
    }
    let group = group.clone();
    Ok(Box::new(move |target| {
        let engine = target.device.replication();
        let before = engine.groups().find(|(other, _)| *other == id);
        let before = before.map(|(_, replicas)| replicas.to_vec());
        check_presence(&place, ty, before.is_some())?;
        let back = match before {
            Some(replicas) => Change::SetMulticast(id, replicas),
            None => Change::DeleteMulticast(id),
        };
        if ty == Type::Delete {
            target.change_back(Change::DeleteMulticast(id), back)?;
            target.extras.multicast.remove(&id);
            return Ok(());
        }
        let replicas = live_replicas(&group.replicas, &target.extras.down);
        target.change_back(Change::SetMulticast(id, replicas), back)?;
        target.extras.multicast.insert(id, group);
        Ok(())
    }))
}

fn clone_session(schema: &Arc<Schema>, ty: Type, session: &rt::CloneSessionEntry) -> Checked<Op> {
    let id = session.session_id;
    let place = format!("the clone session {id}");
    if id == 0 {
        return invalid("a clone session's id is at least 1");
    }
    check_id(schema, &place, id)?;
    if ty != Type::Delete {
        check_session(schema, &place, session)?;
    }
    let session = session.clone();
    Ok(Box::new(move |target| {
        let before = target.device.replication().session(id).cloned();
        check_presence(&place, ty, before.is_some())?;
        let back = match before {
            Some(before) => Change::SetCloneSession(id, before),
            None => Change::DeleteCloneSession(id),
        };
        if ty == Type::Delete {
            target.change_back(Change::DeleteCloneSession(id), back)?;
            target.extras.sessions.remove(&id);
            return Ok(());
        }
        let made = CloneSession {
            replicas: live_replicas(&session.replicas, &target.extras.down),
            group: None,
            truncate: (session.packet_length_bytes > 0)
                .then_some(session.packet_length_bytes as u32),
            class_of_service: session.class_of_service,
        };
        target.change_back(Change::SetCloneSession(id, made), back)?;
        target.extras.sessions.insert(id, session);
        Ok(())
    }))
}

fn check_session(schema: &Schema, place: &str, session: &rt::CloneSessionEntry) -> Checked {
    check_replicas(schema, place, &session.replicas)?;
    let backed = session.replicas.iter();
    if backed
        .clone()
        .any(|replica| !replica.backup_replicas.is_empty())
    {
        return refuse(
            Code::Unimplemented,
            format!("{place}: replicas of clone sessions have no backups"),
        );
    }
    if session.class_of_service > MAX_CLASS {
        return Err(RequestError::new(
            Code::InvalidArgument,
            format!(
                "{place}: the class of service {} is above {MAX_CLASS}",
                session.class_of_service
            ),
        ));
    }
    if session.packet_length_bytes < 0 {
        return invalid(format!(
            "{place}: packet_length_bytes is negative: {}",
            session.packet_length_bytes
        ));
    }
    Ok(())
}
