//! Multipart messages: OpenFlow 1.3's header (type, flags) and the statistics of POF's objects.

use super::cursor::{Reader, Writer};
use super::error::ErrorCode;
use super::message::*;
use super::{FLOW_BYTES, read_flow_mod, write_flow_mod};
use crate::model::MAX_INSTRUCTIONS;
use crate::wire::instruction::INSTRUCTION_BYTES;

const FLOWS: u16 = 1;
const TABLES: u16 = 3;
const PORTS: u16 = 4;
const GROUPS: u16 = 6;
const METERS: u16 = 9;
/// Flag: more parts follow.
const MORE: u16 = 1;

/// Size of the entry within the statistics of an entry.
const ENTRY_BYTES: usize = FLOW_BYTES + MAX_INSTRUCTIONS * INSTRUCTION_BYTES;

pub(super) fn read_request(from: &mut Reader<'_>) -> Result<StatsRequest, ErrorCode> {
    let kind = from.u16();
    from.skip(6);
    let length = match kind {
        FLOWS => 24,
        TABLES => 0,
        PORTS | GROUPS | METERS => 8,
        _ => return Err(ErrorCode::BadMultipart),
    };
    if from.left() != length {
        return Err(ErrorCode::BadLength);
    }
    let mut number = || {
        let number = from.u32();
        from.skip(4);
        number
    };
    Ok(match kind {
        FLOWS => {
            let table = from.u8();
            from.skip(7);
            StatsRequest::Flows {
                table,
                cookie: from.u64(),
                cookie_mask: from.u64(),
            }
        }
        TABLES => StatsRequest::Tables,
        PORTS => StatsRequest::Ports(number()),
        GROUPS => StatsRequest::Groups(number()),
        _ => StatsRequest::Meters(number()),
    })
}

pub(super) fn write_request(request: &StatsRequest, to: &mut Writer) {
    let number = |kind: u16, number: u32, to: &mut Writer| {
        to.u16(kind);
        to.pad(6);
        to.u32(number);
        to.pad(4);
    };
    match request {
        StatsRequest::Flows {
            table,
            cookie,
            cookie_mask,
        } => {
            to.u16(FLOWS);
            to.pad(6);
            to.u8(*table);
            to.pad(7);
            to.u64(*cookie);
            to.u64(*cookie_mask);
        }
        StatsRequest::Tables => {
            to.u16(TABLES);
            to.pad(6);
        }
        StatsRequest::Ports(port) => number(PORTS, *port, to),
        StatsRequest::Groups(group) => number(GROUPS, *group, to),
        StatsRequest::Meters(meter) => number(METERS, *meter, to),
    }
}

/// Reads records of this size until the message ends.
fn records<T>(
    from: &mut Reader<'_>,
    size: usize,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, ErrorCode>,
) -> Result<Vec<T>, ErrorCode> {
    if !from.left().is_multiple_of(size) {
        return Err(ErrorCode::BadLength);
    }
    let count = from.left() / size;
    (0..count).map(|_| read(&mut from.part(size))).collect()
}

pub(super) fn read_reply(from: &mut Reader<'_>) -> Result<StatsReply, ErrorCode> {
    let (kind, flags) = (from.u16(), from.u16());
    from.skip(4);
    let stats = match kind {
        FLOWS => Stats::Flows(records(from, 24 + ENTRY_BYTES, read_flow)?),
        TABLES => Stats::Tables(records(from, 24, read_table)?),
        PORTS => Stats::Ports(records(from, 40, read_port)?),
        GROUPS => Stats::Groups(records(from, 24, read_group)?),
        METERS => Stats::Meters(records(from, 16, read_meter)?),
        _ => return Err(ErrorCode::BadMultipart),
    };
    Ok(StatsReply {
        has_more: flags & MORE != 0,
        stats,
    })
}

fn read_flow(from: &mut Reader<'_>) -> Result<FlowStats, ErrorCode> {
    Ok(FlowStats {
        seconds: from.u32(),
        nanoseconds: from.u32(),
        packets: from.u64(),
        bytes: from.u64(),
        flow: read_flow_mod(from)?,
    })
}

fn read_table(from: &mut Reader<'_>) -> Result<TableStats, ErrorCode> {
    let table = from.u8();
    from.skip(3);
    Ok(TableStats {
        table,
        entries: from.u32(),
        lookups: from.u64(),
        matched: from.u64(),
    })
}

fn read_port(from: &mut Reader<'_>) -> Result<PortStats, ErrorCode> {
    let port = from.u32();
    from.skip(4);
    Ok(PortStats {
        port,
        received_packets: from.u64(),
        sent_packets: from.u64(),
        received_bytes: from.u64(),
        sent_bytes: from.u64(),
    })
}

fn read_group(from: &mut Reader<'_>) -> Result<GroupStats, ErrorCode> {
    Ok(GroupStats {
        group: from.u32(),
        users: from.u32(),
        packets: from.u64(),
        bytes: from.u64(),
    })
}

fn read_meter(from: &mut Reader<'_>) -> Result<MeterStats, ErrorCode> {
    Ok(MeterStats {
        meter: from.u32(),
        users: from.u32(),
        rate: from.u32(),
    })
}

pub(super) fn write_reply(reply: &StatsReply, to: &mut Writer) {
    to.u16(match reply.stats {
        Stats::Flows(_) => FLOWS,
        Stats::Tables(_) => TABLES,
        Stats::Ports(_) => PORTS,
        Stats::Groups(_) => GROUPS,
        Stats::Meters(_) => METERS,
    });
    to.u16(if reply.has_more { MORE } else { 0 });
    to.pad(4);
    match &reply.stats {
        Stats::Flows(flows) => flows.iter().for_each(|flow| {
            to.u32(flow.seconds);
            to.u32(flow.nanoseconds);
            to.u64(flow.packets);
            to.u64(flow.bytes);
            write_flow_mod(&flow.flow, to);
        }),
        Stats::Tables(tables) => tables.iter().for_each(|table| {
            to.u8(table.table);
            to.pad(3);
            to.u32(table.entries);
            to.u64(table.lookups);
            to.u64(table.matched);
        }),
        Stats::Ports(ports) => ports.iter().for_each(|port| {
            to.u32(port.port);
            to.pad(4);
            to.u64(port.received_packets);
            to.u64(port.sent_packets);
            to.u64(port.received_bytes);
            to.u64(port.sent_bytes);
        }),
        Stats::Groups(groups) => groups.iter().for_each(|group| {
            to.u32(group.group);
            to.u32(group.users);
            to.u64(group.packets);
            to.u64(group.bytes);
        }),
        Stats::Meters(meters) => meters.iter().for_each(|meter| {
            to.u32(meter.meter);
            to.u32(meter.users);
            to.u32(meter.rate);
            to.pad(4);
        }),
    }
}
