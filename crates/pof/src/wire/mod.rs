//! The wire format: version 4, the dialect of POFSwitch 1.4 with slots.
//!
//! [`decode`] takes a whole message, [`message_length`] returns its length. A message that is
//! refused has an [`ErrorCode`], and its number as far as its header has one. The instruction
//! blocks of dialect 1.5 (types 36, 101, 102) are unknown types here.

mod cursor;
mod error;
mod instruction;
mod message;
mod stats;

pub use error::ErrorCode;
pub use message::*;

use crate::model::*;
use cursor::{Reader, Writer};
use instruction::*;

/// Version of the protocol.
pub const VERSION: u8 = 4;
/// Size of a message's header in bytes.
pub const HEADER_BYTES: usize = 8;
/// Size of a FLOW_MOD's body without instructions in bytes.
const FLOW_BYTES: usize = 40 + MAX_FIELDS * 40;

/// Error of a message, and the number of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The number.
    pub xid: u32,
    /// The error.
    pub error: ErrorCode,
}

/// Returns the length of the message that these bytes begin with, or `None` if there are too
/// few. A length below the header's counts as the header's.
pub fn message_length(bytes: &[u8]) -> Option<usize> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    Some(length.max(HEADER_BYTES))
}

/// Reads one message.
///
/// # Errors
/// The message is not one of this dialect, or a part of it is not allowed.
pub fn decode(bytes: &[u8]) -> Result<Message, Refused> {
    let mut header = Reader::new(bytes);
    let (version, kind) = (header.u8(), header.u8());
    let (length, xid) = (header.u16(), header.u32());
    let refused = |error| Refused { xid, error };
    if version != VERSION {
        // A HELLO of another version fails the negotiation, see `session`.
        return Err(refused(match kind {
            0 => ErrorCode::HelloIncompatible,
            _ => ErrorCode::BadVersion,
        }));
    }
    if usize::from(length) != bytes.len() || !header.is_complete() {
        return Err(refused(ErrorCode::BadLength));
    }
    let body = decode_body(kind, &mut header).map_err(refused)?;
    match header.is_complete() {
        true => Ok(Message { xid, body }),
        false => Err(refused(ErrorCode::BadLength)),
    }
}

fn decode_body(kind: u8, from: &mut Reader<'_>) -> Result<Body, ErrorCode> {
    let rest = from.left();
    // Whether the body's length is the one of its type. Types that are not here vary.
    let fixed = match kind {
        5 | 7 | 21 | 22 | 35 => Some(0),
        8 | 9 | 34 => Some(8),
        6 => Some(208),
        1 => Some(16 + ErrorMessage::TEXT_BYTES),
        11 => Some(40 + MAX_FIELDS * 40),
        12 | 17 => Some(128),
        13 => Some(80),
        16 => Some(16 + MAX_GROUP_ACTIONS * ACTION_BYTES),
        18 => Some(144),
        25 | 26 | 30 => Some(16),
        31..=33 => Some(24),
        _ => None,
    };
    if fixed.is_some_and(|fixed| fixed != rest) {
        return Err(ErrorCode::BadLength);
    }
    Ok(match kind {
        0 => {
            // Elements of a HELLO are skipped, as OpenFlow demands.
            from.skip(rest);
            Body::Hello
        }
        1 => Body::Error(read_failure(from)),
        2 => Body::EchoRequest(from.take(rest).to_vec()),
        3 => Body::EchoReply(from.take(rest).to_vec()),
        4 => {
            let experimenter = from.u32();
            Body::Experimenter(experimenter, from.take(rest.saturating_sub(4)).to_vec())
        }
        5 => Body::FeaturesRequest,
        6 => Body::FeaturesReply(read_features(from)),
        7 => Body::GetConfigRequest,
        8 => Body::GetConfigReply(read_config(from)),
        9 => Body::SetConfig(read_config(from)),
        10 => Body::PacketIn(read_packet_in(from)),
        11 => Body::FlowRemoved(read_flow_removed(from)),
        12 => Body::PortStatus(read_port_status(from)),
        13 => Body::ResourceReport(read_resources(from)?),
        14 => Body::PacketOut(read_packet_out(from)?),
        15 => Body::FlowMod(read_flow_mod(from)?),
        16 => Body::GroupMod(read_group_mod(from)?),
        17 => Body::PortMod(read_port_status(from)),
        18 => Body::TableMod(read_table_mod(from)?),
        19 => Body::MultipartRequest(stats::read_request(from)?),
        20 => Body::MultipartReply(stats::read_reply(from)?),
        21 => Body::BarrierRequest,
        22 => Body::BarrierReply,
        25 => Body::RoleRequest(read_role(from)?),
        26 => Body::RoleReply(read_role(from)?),
        30 => Body::MeterMod(read_meter_mod(from)?),
        31 => Body::CounterMod(read_counter(from)?),
        32 => Body::CounterRequest(read_counter(from)?),
        33 => Body::CounterReply(read_counter(from)?),
        34 => {
            let slot = from.u16();
            from.skip(6);
            Body::QueryAllRequest(slot)
        }
        35 => Body::QueryAllFin,
        _ => return Err(ErrorCode::BadType),
    })
}

fn kind_of(body: &Body) -> u8 {
    match body {
        Body::Hello => 0,
        Body::Error(_) => 1,
        Body::EchoRequest(_) => 2,
        Body::EchoReply(_) => 3,
        Body::Experimenter(..) => 4,
        Body::FeaturesRequest => 5,
        Body::FeaturesReply(_) => 6,
        Body::GetConfigRequest => 7,
        Body::GetConfigReply(_) => 8,
        Body::SetConfig(_) => 9,
        Body::PacketIn(_) => 10,
        Body::FlowRemoved(_) => 11,
        Body::PortStatus(_) => 12,
        Body::ResourceReport(_) => 13,
        Body::PacketOut(_) => 14,
        Body::FlowMod(_) => 15,
        Body::GroupMod(_) => 16,
        Body::PortMod(_) => 17,
        Body::TableMod(_) => 18,
        Body::MultipartRequest(_) => 19,
        Body::MultipartReply(_) => 20,
        Body::BarrierRequest => 21,
        Body::BarrierReply => 22,
        Body::RoleRequest(_) => 25,
        Body::RoleReply(_) => 26,
        Body::MeterMod(_) => 30,
        Body::CounterMod(_) => 31,
        Body::CounterRequest(_) => 32,
        Body::CounterReply(_) => 33,
        Body::QueryAllRequest(_) => 34,
        Body::QueryAllFin => 35,
    }
}

/// Writes one message. Lists that are longer than the format holds are cut off, as is a message
/// that is longer than 65,535 bytes: callers split statistics and bound packets.
pub fn encode(message: &Message) -> Vec<u8> {
    let mut writer = Writer::default();
    let to = &mut writer;
    to.u8(VERSION);
    to.u8(kind_of(&message.body));
    to.u16(0);
    to.u32(message.xid);
    match &message.body {
        Body::Hello
        | Body::FeaturesRequest
        | Body::GetConfigRequest
        | Body::BarrierRequest
        | Body::BarrierReply
        | Body::QueryAllFin => {}
        Body::Error(failure) => write_failure(failure, to),
        Body::EchoRequest(data) | Body::EchoReply(data) => to.put(data),
        Body::Experimenter(experimenter, data) => {
            to.u32(*experimenter);
            to.put(data);
        }
        Body::FeaturesReply(features) => write_features(features, to),
        Body::GetConfigReply(config) | Body::SetConfig(config) => {
            to.u32(config.device);
            to.u16(config.flags);
            to.u16(config.miss_send_length);
        }
        Body::PacketIn(packet) => write_packet_in(packet, to),
        Body::FlowRemoved(removed) => write_flow_removed(removed, to),
        Body::PortStatus(status) | Body::PortMod(status) => write_port_status(status, to),
        Body::ResourceReport(report) => write_resources(report, to),
        Body::PacketOut(packet) => write_packet_out(packet, to),
        Body::FlowMod(flow) => write_flow_mod(flow, to),
        Body::GroupMod(group) => write_group_mod(group, to),
        Body::TableMod(table) => write_table_mod(table, to),
        Body::MultipartRequest(request) => stats::write_request(request, to),
        Body::MultipartReply(reply) => stats::write_reply(reply, to),
        Body::RoleRequest(change) | Body::RoleReply(change) => {
            to.u32(role_number(change.role));
            to.pad(4);
            to.u64(change.generation);
        }
        Body::MeterMod(meter) => write_meter_mod(meter, to),
        Body::CounterMod(counter) | Body::CounterRequest(counter) | Body::CounterReply(counter) => {
            write_counter(counter, to);
        }
        Body::QueryAllRequest(slot) => {
            to.u16(*slot);
            to.pad(6);
        }
    }
    let mut bytes = writer.into_bytes();
    bytes.truncate(usize::from(u16::MAX));
    let length = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// Writes one message as [`encode`] does, but a FLOW_MOD ends after its last instruction.
pub fn encode_short(message: &Message) -> Vec<u8> {
    let mut bytes = encode(message);
    if let Body::FlowMod(flow) = &message.body {
        let instructions = flow.instructions.len().min(MAX_INSTRUCTIONS);
        bytes.truncate(HEADER_BYTES + FLOW_BYTES + instructions * INSTRUCTION_BYTES);
        let length = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
    }
    bytes
}

fn read_table_type(number: u8, error: ErrorCode) -> Result<TableType, ErrorCode> {
    TableType::ALL
        .get(usize::from(number))
        .copied()
        .ok_or(error)
}

fn read_matches(count: u8, from: &mut Reader<'_>) -> Result<Vec<Match>, ErrorCode> {
    if usize::from(count) > MAX_FIELDS {
        return Err(ErrorCode::BadMatchLength);
    }
    let mut from = from.part(MAX_FIELDS * 40);
    Ok((0..count).map(|_| read_match(&mut from)).collect())
}

fn write_matches(matches: &[Match], to: &mut Writer) {
    let end = to.len() + MAX_FIELDS * 40;
    let matches = matches.iter().take(MAX_FIELDS);
    matches.for_each(|one| write_match(one, to));
    to.pad_to(end);
}

fn read_flow_mod(from: &mut Reader<'_>) -> Result<FlowMod, ErrorCode> {
    let instructions = from.left().checked_sub(FLOW_BYTES);
    let is_whole = |bytes: usize| bytes.is_multiple_of(INSTRUCTION_BYTES);
    let places = match instructions {
        Some(bytes) if is_whole(bytes) => bytes / INSTRUCTION_BYTES,
        _ => return Err(ErrorCode::BadLength),
    };
    if places > MAX_INSTRUCTIONS {
        return Err(ErrorCode::BadLength);
    }
    let command = match from.u8() {
        0 => FlowCommand::Add,
        1 => FlowCommand::Modify,
        2 => FlowCommand::ModifyStrict,
        3 => FlowCommand::Delete,
        4 => FlowCommand::DeleteStrict,
        5 => FlowCommand::Query,
        6 => FlowCommand::QueryResult,
        _ => return Err(ErrorCode::FlowBadCommand),
    };
    let (matches, instructions) = (from.u8(), from.u8());
    if usize::from(instructions) > places {
        return Err(ErrorCode::BadInstructionLength);
    }
    from.skip(1);
    let (counter, cookie, cookie_mask) = (from.u32(), from.u64(), from.u64());
    let table = from.u8();
    let table_type = read_table_type(from.u8(), ErrorCode::FlowBadTableType)?;
    let (idle_timeout, hard_timeout) = (from.u16(), from.u16());
    let (priority, index, slot) = (from.u16(), from.u32(), from.u16());
    from.skip(2);
    let matches = read_matches(matches, from)?;
    let read = (0..instructions).map(|_| read_instruction(from));
    let instructions = read.collect::<Result<_, _>>()?;
    Ok(FlowMod {
        command,
        counter,
        cookie,
        cookie_mask,
        table,
        table_type,
        idle_timeout,
        hard_timeout,
        priority,
        index,
        slot,
        matches,
        instructions,
    })
}

fn write_flow_mod(flow: &FlowMod, to: &mut Writer) {
    let end = to.len() + FLOW_BYTES + MAX_INSTRUCTIONS * INSTRUCTION_BYTES;
    to.u8(match flow.command {
        FlowCommand::Add => 0,
        FlowCommand::Modify => 1,
        FlowCommand::ModifyStrict => 2,
        FlowCommand::Delete => 3,
        FlowCommand::DeleteStrict => 4,
        FlowCommand::Query => 5,
        FlowCommand::QueryResult => 6,
    });
    to.u8(flow.matches.len().min(MAX_FIELDS) as u8);
    to.u8(flow.instructions.len().min(MAX_INSTRUCTIONS) as u8);
    to.pad(1);
    to.u32(flow.counter);
    to.u64(flow.cookie);
    to.u64(flow.cookie_mask);
    to.u8(flow.table);
    to.u8(flow.table_type as u8);
    to.u16(flow.idle_timeout);
    to.u16(flow.hard_timeout);
    to.u16(flow.priority);
    to.u32(flow.index);
    to.u16(flow.slot);
    to.pad(2);
    write_matches(&flow.matches, to);
    for instruction in flow.instructions.iter().take(MAX_INSTRUCTIONS) {
        write_instruction(instruction, to);
    }
    to.pad_to(end);
}

fn read_command(number: u8, error: ErrorCode) -> Result<Command, ErrorCode> {
    Ok(match number {
        0 => Command::Add,
        1 => Command::Modify,
        2 => Command::Delete,
        3 => Command::Query,
        4 => Command::QueryResult,
        _ => return Err(error),
    })
}

fn command_number(command: Command) -> u8 {
    match command {
        Command::Add => 0,
        Command::Modify => 1,
        Command::Delete => 2,
        Command::Query => 3,
        Command::QueryResult => 4,
    }
}

fn read_table_mod(from: &mut Reader<'_>) -> Result<TableMod, ErrorCode> {
    let command = read_command(from.u8(), ErrorCode::TableBadCommand)?;
    let id = from.u8();
    let table_type = read_table_type(from.u8(), ErrorCode::BadTableType)?;
    let fields = from.u8();
    let (size, key_length, slot) = (from.u32(), from.u16(), from.u16());
    from.skip(4);
    let name = ObjectName(from.array());
    Ok(TableMod {
        command,
        id,
        table_type,
        size,
        key_length,
        slot,
        name,
        fields: read_fields(fields, from).map_err(|_| ErrorCode::BadKeyLength)?,
    })
}

fn write_table_mod(table: &TableMod, to: &mut Writer) {
    to.u8(command_number(table.command));
    to.u8(table.id);
    to.u8(table.table_type as u8);
    to.u8(table.fields.len().min(MAX_FIELDS) as u8);
    to.u32(table.size);
    to.u16(table.key_length);
    to.u16(table.slot);
    to.pad(4);
    to.put(&table.name.0);
    write_fields(&table.fields, to);
}

fn read_group_mod(from: &mut Reader<'_>) -> Result<GroupMod, ErrorCode> {
    let command = read_command(from.u8(), ErrorCode::GroupBadCommand)?;
    let group_type = match from.u8() {
        0 => GroupType::All,
        1 => GroupType::Select,
        2 => GroupType::Indirect,
        3 => GroupType::FastFailover,
        _ => return Err(ErrorCode::BadGroupType),
    };
    let actions = from.u8();
    from.skip(1);
    let (id, counter, slot) = (from.u32(), from.u32(), from.u16());
    from.skip(2);
    if usize::from(actions) > MAX_GROUP_ACTIONS {
        return Err(ErrorCode::BadBucket);
    }
    Ok(GroupMod {
        command,
        group_type,
        id,
        counter,
        slot,
        actions: read_actions(actions, MAX_GROUP_ACTIONS, from)?,
    })
}

fn write_group_mod(group: &GroupMod, to: &mut Writer) {
    to.u8(command_number(group.command));
    to.u8(match group.group_type {
        GroupType::All => 0,
        GroupType::Select => 1,
        GroupType::Indirect => 2,
        GroupType::FastFailover => 3,
    });
    to.u8(group.actions.len().min(MAX_GROUP_ACTIONS) as u8);
    to.pad(1);
    to.u32(group.id);
    to.u32(group.counter);
    to.u16(group.slot);
    to.pad(2);
    write_actions(&group.actions, MAX_GROUP_ACTIONS, to);
}

fn read_meter_mod(from: &mut Reader<'_>) -> Result<MeterMod, ErrorCode> {
    let command = read_command(from.u8(), ErrorCode::MeterBadCommand)?;
    from.skip(1);
    let (slot, id, rate) = (from.u16(), from.u32(), from.u32());
    from.skip(4);
    Ok(MeterMod {
        command,
        slot,
        id,
        rate,
    })
}

fn write_meter_mod(meter: &MeterMod, to: &mut Writer) {
    to.u8(command_number(meter.command));
    to.pad(1);
    to.u16(meter.slot);
    to.u32(meter.id);
    to.u32(meter.rate);
    to.pad(4);
}

fn read_counter(from: &mut Reader<'_>) -> Result<Counter, ErrorCode> {
    let command = match from.u8() {
        0 => CounterCommand::Add,
        1 => CounterCommand::Delete,
        2 => CounterCommand::Clear,
        3 => CounterCommand::Query,
        4 => CounterCommand::QueryResult,
        _ => return Err(ErrorCode::CounterBadCommand),
    };
    from.skip(1);
    Ok(Counter {
        command,
        slot: from.u16(),
        id: from.u32(),
        packets: from.u64(),
        bytes: from.u64(),
    })
}

fn write_counter(counter: &Counter, to: &mut Writer) {
    to.u8(match counter.command {
        CounterCommand::Add => 0,
        CounterCommand::Delete => 1,
        CounterCommand::Clear => 2,
        CounterCommand::Query => 3,
        CounterCommand::QueryResult => 4,
    });
    to.pad(1);
    to.u16(counter.slot);
    to.u32(counter.id);
    to.u64(counter.packets);
    to.u64(counter.bytes);
}

fn read_failure(from: &mut Reader<'_>) -> ErrorMessage {
    let (kind, code) = (from.u16(), from.u16());
    let (device, slot) = (from.u32(), from.u16());
    from.skip(6);
    let text: [u8; ErrorMessage::TEXT_BYTES] = from.array();
    let longest = &text[..ErrorMessage::TEXT_BYTES - 1];
    let end = longest.iter().position(|byte| *byte == 0);
    let text = &longest[..end.unwrap_or(longest.len())];
    let readable = |byte: &u8| {
        if byte.is_ascii() {
            char::from(*byte)
        } else {
            '?'
        }
    };
    let text = match std::str::from_utf8(text) {
        Ok(text) => text.to_owned(),
        Err(_) => text.iter().map(readable).collect(),
    };
    ErrorMessage {
        kind,
        code,
        device,
        slot,
        text,
    }
}

fn write_failure(failure: &ErrorMessage, to: &mut Writer) {
    to.u16(failure.kind);
    to.u16(failure.code);
    to.u32(failure.device);
    to.u16(failure.slot);
    to.pad(6);
    let end = to.len() + ErrorMessage::TEXT_BYTES;
    let text = failure.text.as_bytes();
    to.put(&text[..text.len().min(ErrorMessage::TEXT_BYTES - 1)]);
    to.pad_to(end);
}

fn read_features(from: &mut Reader<'_>) -> Features {
    let device = from.u32();
    let (slot, ports, tables) = (from.u16(), from.u16(), from.u16());
    from.skip(2);
    Features {
        device,
        slot,
        ports,
        tables,
        capabilities: from.u32(),
        vendor: ObjectName(from.array()),
        forwarding_engine: ObjectName(from.array()),
        lookup_engine: ObjectName(from.array()),
    }
}

fn write_features(features: &Features, to: &mut Writer) {
    to.u32(features.device);
    to.u16(features.slot);
    to.u16(features.ports);
    to.u16(features.tables);
    to.pad(2);
    to.u32(features.capabilities);
    to.put(&features.vendor.0);
    to.put(&features.forwarding_engine.0);
    to.put(&features.lookup_engine.0);
}

fn read_config(from: &mut Reader<'_>) -> Config {
    Config {
        device: from.u32(),
        flags: from.u16(),
        miss_send_length: from.u16(),
    }
}

fn read_resources(from: &mut Reader<'_>) -> Result<ResourceReport, ErrorCode> {
    let kind = from.u8();
    from.skip(1);
    let slot = from.u16();
    let (counters, meters, groups) = (from.u32(), from.u32(), from.u32());
    let mut table = || {
        let device = from.u32();
        let table_type = read_table_type(from.u8(), ErrorCode::BadTableType)?;
        let (tables, key_length, size) = (from.u8(), from.u16(), from.u32());
        from.skip(4);
        Ok(TableResource {
            device,
            table_type,
            tables,
            key_length,
            size,
        })
    };
    Ok(ResourceReport {
        kind,
        slot,
        counters,
        meters,
        groups,
        tables: [table()?, table()?, table()?, table()?],
    })
}

fn write_resources(report: &ResourceReport, to: &mut Writer) {
    to.u8(report.kind);
    to.pad(1);
    to.u16(report.slot);
    to.u32(report.counters);
    to.u32(report.meters);
    to.u32(report.groups);
    for table in &report.tables {
        to.u32(table.device);
        to.u8(table.table_type as u8);
        to.u8(table.tables);
        to.u16(table.key_length);
        to.u32(table.size);
        to.pad(4);
    }
}

fn read_port_status(from: &mut Reader<'_>) -> PortStatus {
    let reason = from.u8();
    from.skip(7);
    let (slot, id, device) = (from.u16(), from.u16(), from.u32());
    let address = from.array();
    from.skip(2);
    let port = Port {
        slot,
        id,
        device,
        address,
        name: ObjectName(from.array()),
        config: from.u32(),
        state: from.u32(),
        current: from.u32(),
        advertised: from.u32(),
        supported: from.u32(),
        peer: from.u32(),
        current_speed: from.u32(),
        maximum_speed: from.u32(),
        is_enabled: from.u8() != 0,
    };
    from.skip(7);
    PortStatus { reason, port }
}

fn write_port_status(status: &PortStatus, to: &mut Writer) {
    let port = &status.port;
    to.u8(status.reason);
    to.pad(7);
    to.u16(port.slot);
    to.u16(port.id);
    to.u32(port.device);
    to.put(&port.address);
    to.pad(2);
    to.put(&port.name.0);
    for number in [
        port.config,
        port.state,
        port.current,
        port.advertised,
        port.supported,
        port.peer,
        port.current_speed,
        port.maximum_speed,
    ] {
        to.u32(number);
    }
    to.u8(u8::from(port.is_enabled));
    to.pad(7);
}

fn read_packet_in(from: &mut Reader<'_>) -> PacketIn {
    let buffer = from.u32();
    let (length, reason, table) = (from.u16(), from.u8(), from.u8());
    let (cookie, device) = (from.u64(), from.u32());
    let (slot, port) = (from.u16(), from.u16());
    PacketIn {
        buffer,
        length,
        reason,
        table,
        cookie,
        device,
        slot,
        port,
        data: from.take(from.left()).to_vec(),
    }
}

fn write_packet_in(packet: &PacketIn, to: &mut Writer) {
    to.u32(packet.buffer);
    to.u16(packet.length);
    to.u8(packet.reason);
    to.u8(packet.table);
    to.u64(packet.cookie);
    to.u32(packet.device);
    to.u16(packet.slot);
    to.u16(packet.port);
    to.put(&packet.data);
}

/// The packet is followed by unused bytes up to 2,048 in messages of POFSwitch's own controller.
fn read_packet_out(from: &mut Reader<'_>) -> Result<PacketOut, ErrorCode> {
    let (buffer, in_port, actions) = (from.u32(), from.u32(), from.u8());
    from.skip(3);
    let length = from.u32();
    if usize::from(actions) > MAX_ACTIONS {
        return Err(ErrorCode::TooManyActions);
    }
    let actions = read_actions(actions, MAX_ACTIONS, from)?;
    let rest = from.take(from.left());
    let data = usize::try_from(length)
        .ok()
        .and_then(|length| rest.get(..length));
    Ok(PacketOut {
        buffer,
        in_port,
        actions,
        data: data.ok_or(ErrorCode::BadPacket)?.to_vec(),
    })
}

fn write_packet_out(packet: &PacketOut, to: &mut Writer) {
    to.u32(packet.buffer);
    to.u32(packet.in_port);
    to.u8(packet.actions.len() as u8);
    to.pad(3);
    to.u32(packet.data.len() as u32);
    write_actions(&packet.actions, MAX_ACTIONS, to);
    to.put(&packet.data);
}

fn read_flow_removed(from: &mut Reader<'_>) -> FlowRemoved {
    let (cookie, priority, reason) = (from.u64(), from.u16(), from.u8());
    let (table, seconds, nanoseconds) = (from.u8(), from.u32(), from.u32());
    let (idle_timeout, hard_timeout) = (from.u16(), from.u16());
    let (packets, bytes) = (from.u64(), from.u64());
    let matches = (0..MAX_FIELDS).map(|_| read_match(from));
    FlowRemoved {
        cookie,
        priority,
        reason,
        table,
        seconds,
        nanoseconds,
        idle_timeout,
        hard_timeout,
        packets,
        bytes,
        matches: matches.filter(|one| one.field.length > 0).collect(),
    }
}

fn write_flow_removed(removed: &FlowRemoved, to: &mut Writer) {
    to.u64(removed.cookie);
    to.u16(removed.priority);
    to.u8(removed.reason);
    to.u8(removed.table);
    to.u32(removed.seconds);
    to.u32(removed.nanoseconds);
    to.u16(removed.idle_timeout);
    to.u16(removed.hard_timeout);
    to.u64(removed.packets);
    to.u64(removed.bytes);
    write_matches(&removed.matches, to);
}

fn read_role(from: &mut Reader<'_>) -> Result<RoleChange, ErrorCode> {
    let role = match from.u32() {
        0 => Role::NoChange,
        1 => Role::Equal,
        2 => Role::Master,
        3 => Role::Slave,
        _ => return Err(ErrorCode::BadRole),
    };
    from.skip(4);
    Ok(RoleChange {
        role,
        generation: from.u64(),
    })
}

fn role_number(role: Role) -> u32 {
    match role {
        Role::NoChange => 0,
        Role::Equal => 1,
        Role::Master => 2,
        Role::Slave => 3,
    }
}
