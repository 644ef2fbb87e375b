//! A connection with a controller, without I/O: bytes in, bytes out.
//!
//! [`Session::receive`] takes what the controller sent, makes the changes on a [`Forwarder`], and
//! appends the replies to [`Session::take_output`]. [`Session::notify`] appends what packets and
//! time-outs made. Messages are answered in their order, so a barrier's reply comes after the
//! errors of all messages before it.

use std::collections::HashMap;

use packet::Nanos;

use crate::forwarder::{Event, Forwarder, RemovalReason, Removed};
use crate::model::{ObjectName, TableType, port};
use crate::tables::{Entry, TableNumber};
use crate::wire::{
    Body, Command, Config, Counter, CounterCommand, ErrorCode, ErrorMessage, Features, FlowCommand,
    FlowMod, FlowRemoved, FlowStats, GroupMod, GroupStats, HEADER_BYTES, Message, MeterMod,
    MeterStats, NO_BUFFER, PacketIn, PacketOut, Port, PortStatus, Refused, ResourceReport, Role,
    RoleChange, Stats, StatsReply, StatsRequest, TableMod, TableResource, TableStats, decode,
    encode, message_length,
};

/// Nanoseconds between two errors of a table's packets.
const FAULT_INTERVAL: u64 = 1_000_000_000;
/// Maximum number of entries in one part of their statistics.
const FLOWS_IN_PART: usize = 28;
/// Default of [`Config::miss_send_length`].
const MISS_SEND_LENGTH: u16 = 0xFFFF;

/// Description of a switch for its controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its number.
    pub device: u32,
    /// Its ports.
    pub ports: Vec<Port>,
}

impl Description {
    /// Returns the description of a port with this number and name, up and enabled.
    pub fn port(device: u32, id: u16, name: &str) -> Port {
        Port {
            slot: 0,
            id,
            device,
            address: [0x02, 0, 0, 0, (id >> 8) as u8, id as u8],
            name: ObjectName::new(name),
            config: 0,
            state: 1 << 2,
            current: 0,
            advertised: 0,
            supported: 0,
            peer: 0,
            current_speed: 0,
            maximum_speed: 0,
            is_enabled: true,
        }
    }
}

/// Bytes of output above which no message is taken and packet-ins are dropped: the controller does
/// not read.
const MAX_OUTPUT: usize = 1 << 20;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The controller's HELLO is awaited.
    Hello,
    /// Messages are taken.
    Open,
    /// The connection must be closed, after the output was sent.
    Closed,
}

/// A connection with a controller.
#[derive(Debug)]
pub struct Session {
    phase: Phase,
    input: Vec<u8>,
    output: Vec<u8>,
    config: Config,
    role: Role,
    generation: Option<u64>,
    next_xid: u32,
    last_faults: HashMap<TableNumber, Nanos>,
    dropped_packet_ins: u64,
}

impl Session {
    /// Creates a session. Its output begins with the switch's HELLO.
    pub fn new(description: &Description) -> Session {
        let mut session = Session {
            phase: Phase::Hello,
            input: Vec::new(),
            output: Vec::new(),
            config: Config {
                device: description.device,
                flags: 0,
                miss_send_length: MISS_SEND_LENGTH,
            },
            role: Role::Equal,
            generation: None,
            next_xid: 1,
            last_faults: HashMap::new(),
            dropped_packet_ins: 0,
        };
        session.announce(Body::Hello);
        session
    }

    /// Returns the state of the connection.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the controller's role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the number of packet-ins that were dropped since the controller did not read.
    pub fn dropped_packet_ins(&self) -> u64 {
        self.dropped_packet_ins
    }

    /// Returns true while no message is taken: send the output first, then call
    /// [`Session::receive`], also without bytes.
    pub fn is_full(&self) -> bool {
        self.output.len() > MAX_OUTPUT
    }

    /// Returns the bytes for the controller.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    fn send(&mut self, xid: u32, body: Body) {
        self.output.extend(encode(&Message { xid, body }));
    }

    /// Sends a message that is no reply.
    fn announce(&mut self, body: Body) {
        let xid = self.next_xid;
        self.next_xid = self.next_xid.wrapping_add(1);
        self.send(xid, body);
    }

    fn refuse(&mut self, xid: u32, error: ErrorCode) {
        let text = error.to_string();
        let failure = ErrorMessage::new(error, self.config.device, &text);
        self.send(xid, Body::Error(failure));
    }

    /// Takes bytes from the controller. A message may come in parts. While [`Session::is_full`],
    /// the bytes wait: read no more of them.
    pub fn receive(&mut self, bytes: &[u8], switch: &mut Forwarder, own: &Description) {
        if self.phase == Phase::Closed {
            return;
        }
        self.input.extend_from_slice(bytes);
        let mut taken = 0;
        while !self.is_full()
            && let Some(length) = message_length(&self.input[taken..])
        {
            let Some(message) = self.input.get(taken..taken + length) else {
                break;
            };
            let decoded = decode(message);
            taken += length;
            self.handle(decoded, switch, own);
            if self.phase == Phase::Closed {
                break;
            }
        }
        self.input.drain(..taken);
    }

    fn handle(
        &mut self,
        decoded: Result<Message, Refused>,
        switch: &mut Forwarder,
        own: &Description,
    ) {
        let message = match decoded {
            Ok(message) => message,
            Err(Refused { xid, error }) => {
                self.refuse(xid, error);
                if error == ErrorCode::HelloIncompatible || self.phase == Phase::Hello {
                    self.phase = Phase::Closed;
                }
                return;
            }
        };
        let is_hello = message.body == Body::Hello;
        if self.phase == Phase::Hello && !is_hello {
            self.refuse(message.xid, ErrorCode::HelloIncompatible);
            self.phase = Phase::Closed;
            return;
        }
        self.phase = Phase::Open;
        if let Err(error) = self.answer(message.xid, message.body, switch, own) {
            self.refuse(message.xid, error);
        }
    }

    fn answer(
        &mut self,
        xid: u32,
        body: Body,
        switch: &mut Forwarder,
        own: &Description,
    ) -> Result<(), ErrorCode> {
        if self.role == Role::Slave && is_change(&body) {
            return Err(ErrorCode::IsSlave);
        }
        match body {
            Body::Hello | Body::EchoReply(_) | Body::Error(_) => {}
            Body::EchoRequest(data) => self.send(xid, Body::EchoReply(data)),
            Body::Experimenter(..) => return Err(ErrorCode::BadExperimenter),
            Body::FeaturesRequest => {
                let features = features(switch, own);
                self.send(xid, Body::FeaturesReply(features));
            }
            Body::GetConfigRequest => {
                self.send(xid, Body::GetConfigReply(self.config));
                self.send(xid, Body::ResourceReport(resources(switch, own)));
                for port in &own.ports {
                    let status = PortStatus {
                        reason: 0,
                        port: *port,
                    };
                    self.send(xid, Body::PortStatus(status));
                }
            }
            Body::SetConfig(config) => {
                self.config = Config {
                    device: own.device,
                    ..config
                };
            }
            Body::PacketOut(packet) => packet_out(&packet, switch)?,
            Body::FlowMod(flow) => {
                if let Some(entry) = switch.flow_mod(&flow)? {
                    let reply = flow_message(&entry, flow.table_type, flow.table);
                    self.send(xid, Body::FlowMod(reply));
                }
            }
            Body::TableMod(table) => {
                if let Some(number) = switch.table_mod(&table)? {
                    let reply = table_message(switch, number);
                    reply
                        .into_iter()
                        .for_each(|reply| self.send(xid, Body::TableMod(reply)));
                }
            }
            Body::GroupMod(group) => {
                if let Some(id) = switch.group_mod(&group)? {
                    let reply = group_message(switch, id);
                    reply
                        .into_iter()
                        .for_each(|reply| self.send(xid, Body::GroupMod(reply)));
                }
            }
            Body::MeterMod(meter) => {
                if let Some(id) = switch.meter_mod(&meter)? {
                    let rate = switch.tables().meters().find(|(meter, _)| *meter == id);
                    let reply = meter_message(id, rate.map_or(0, |(_, rate)| rate));
                    self.send(xid, Body::MeterMod(reply));
                }
            }
            Body::CounterMod(counter) => self.counter(xid, counter, switch)?,
            Body::CounterRequest(counter) => {
                let query = Counter {
                    command: CounterCommand::Query,
                    ..counter
                };
                self.counter(xid, query, switch)?;
            }
            // Ports are switched on and off by the owner of the switch.
            Body::PortMod(status) => {
                let ids = own.ports.iter().map(|port| port.id);
                return match ids.into_iter().any(|id| id == status.port.id) {
                    true => Err(ErrorCode::UnsupportedPortMod),
                    false => Err(ErrorCode::PortModBadPort),
                };
            }
            Body::MultipartRequest(request) => self.statistics(xid, request, switch)?,
            Body::BarrierRequest => self.send(xid, Body::BarrierReply),
            Body::RoleRequest(change) => self.change_role(xid, change)?,
            Body::QueryAllRequest(slot) => match slot {
                0 | 0xFFFF => self.query_all(xid, switch),
                _ => return Err(ErrorCode::InvalidSlot),
            },
            // Messages of a switch.
            Body::FeaturesReply(_)
            | Body::GetConfigReply(_)
            | Body::PacketIn(_)
            | Body::FlowRemoved(_)
            | Body::PortStatus(_)
            | Body::ResourceReport(_)
            | Body::MultipartReply(_)
            | Body::BarrierReply
            | Body::RoleReply(_)
            | Body::CounterReply(_)
            | Body::QueryAllFin => return Err(ErrorCode::BadType),
        }
        Ok(())
    }

    fn counter(
        &mut self,
        xid: u32,
        counter: Counter,
        switch: &mut Forwarder,
    ) -> Result<(), ErrorCode> {
        if let Some(count) = switch.counter_mod(&counter)? {
            let reply = Counter {
                command: CounterCommand::QueryResult,
                slot: 0,
                id: counter.id,
                packets: count.packets,
                bytes: count.bytes,
            };
            self.send(xid, Body::CounterReply(reply));
        }
        Ok(())
    }

    fn change_role(&mut self, xid: u32, change: RoleChange) -> Result<(), ErrorCode> {
        match change.role {
            Role::NoChange => {}
            Role::Equal => self.role = Role::Equal,
            Role::Master | Role::Slave => {
                // Numbers grow, modulo 2^64, as OpenFlow compares them.
                let is_stale = |last: u64| change.generation.wrapping_sub(last).cast_signed() < 0;
                if self.generation.is_some_and(is_stale) {
                    return Err(ErrorCode::StaleRole);
                }
                self.generation = Some(change.generation);
                self.role = change.role;
            }
        }
        let reply = RoleChange {
            role: self.role,
            generation: self.generation.unwrap_or(0),
        };
        self.send(xid, Body::RoleReply(reply));
        Ok(())
    }

    /// Sends all objects as answers to queries, and the end of them.
    fn query_all(&mut self, xid: u32, switch: &Forwarder) {
        let tables = switch.tables();
        for (number, table) in tables.tables() {
            let message = table_message(switch, number);
            message
                .into_iter()
                .for_each(|table| self.send(xid, Body::TableMod(table)));
            let id = tables.id_in_type(number);
            for entry in table.entries() {
                let flow = flow_message(entry, table.table_type, id);
                self.send(xid, Body::FlowMod(flow));
            }
        }
        for (id, _) in tables.groups() {
            let message = group_message(switch, id);
            message
                .into_iter()
                .for_each(|group| self.send(xid, Body::GroupMod(group)));
        }
        for (id, rate) in tables.meters() {
            self.send(xid, Body::MeterMod(meter_message(id, rate)));
        }
        for id in tables.counters() {
            let count = switch.counter(id);
            let counter = Counter {
                command: CounterCommand::QueryResult,
                slot: 0,
                id,
                packets: count.packets,
                bytes: count.bytes,
            };
            self.send(xid, Body::CounterReply(counter));
        }
        self.send(xid, Body::QueryAllFin);
    }

    fn statistics(
        &mut self,
        xid: u32,
        request: StatsRequest,
        switch: &Forwarder,
    ) -> Result<(), ErrorCode> {
        let tables = switch.tables();
        let selects = |wanted: u32, id: u32| wanted == StatsRequest::ANY || wanted == id;
        let stats = match request {
            StatsRequest::Flows {
                table,
                cookie,
                cookie_mask,
            } => {
                let is_wanted = |number: TableNumber| {
                    table == StatsRequest::ALL || number == TableNumber(table)
                };
                if table != StatsRequest::ALL && tables.table(TableNumber(table)).is_none() {
                    return Err(ErrorCode::RequestBadTable);
                }
                let wanted = tables.tables().filter(|(number, _)| is_wanted(*number));
                let flows = wanted.flat_map(|(number, table)| {
                    let has_cookie =
                        move |entry: &&Entry| (entry.cookie ^ cookie) & cookie_mask == 0;
                    let entries = table.entries().filter(has_cookie);
                    entries.map(move |entry| flow_stats(switch, number, table.table_type, entry))
                });
                let flows: Vec<FlowStats> = flows.collect();
                let mut parts: Vec<Vec<FlowStats>> =
                    flows.chunks(FLOWS_IN_PART).map(<[_]>::to_vec).collect();
                let last = parts.pop().unwrap_or_default();
                for part in parts {
                    let part = StatsReply {
                        has_more: true,
                        stats: Stats::Flows(part),
                    };
                    self.send(xid, Body::MultipartReply(part));
                }
                Stats::Flows(last)
            }
            StatsRequest::Tables => {
                let stats = tables.tables().map(|(number, table)| {
                    let (hits, misses) = switch.hits(number);
                    TableStats {
                        table: number.0,
                        entries: table.len() as u32,
                        lookups: hits + misses,
                        matched: hits,
                    }
                });
                Stats::Tables(stats.collect())
            }
            // Ports belong to the process that runs the switch; it has their statistics.
            StatsRequest::Ports(_) => return Err(ErrorCode::BadMultipart),
            StatsRequest::Groups(wanted) => {
                let groups = tables.groups().filter(|(id, _)| selects(wanted, *id));
                let stats = groups.map(|(id, group)| {
                    let count = match group.counter {
                        0 => crate::Count::default(),
                        counter => switch.counter(counter),
                    };
                    GroupStats {
                        group: id,
                        users: tables.users_of_group(id).len() as u32,
                        packets: count.packets,
                        bytes: count.bytes,
                    }
                });
                Stats::Groups(stats.collect())
            }
            StatsRequest::Meters(wanted) => {
                let meters = tables.meters().filter(|(id, _)| selects(wanted, *id));
                let stats = meters.map(|(id, rate)| MeterStats {
                    meter: id,
                    users: tables.users_of_meter(id) as u32,
                    rate,
                });
                Stats::Meters(stats.collect())
            }
        };
        let reply = StatsReply {
            has_more: false,
            stats,
        };
        self.send(xid, Body::MultipartReply(reply));
        Ok(())
    }

    /// Reports to the controller what packets and time-outs made at this time. A slave gets none of
    /// it.
    pub fn notify(&mut self, event: &Event, now: Nanos) {
        if self.phase != Phase::Open || self.role == Role::Slave {
            return;
        }
        match event {
            Event::PacketIn {
                reason,
                table,
                cookie,
                port,
                data,
            } => {
                if self.is_full() {
                    self.dropped_packet_ins += 1;
                    return;
                }
                let most = usize::from(self.config.miss_send_length);
                let packet = PacketIn {
                    buffer: NO_BUFFER,
                    length: u16::try_from(data.len()).unwrap_or(u16::MAX),
                    reason: *reason,
                    table: table.0,
                    cookie: *cookie,
                    device: self.config.device,
                    slot: 0,
                    port: *port,
                    data: data[..data.len().min(most)].to_vec(),
                };
                self.announce(Body::PacketIn(packet));
            }
            Event::Fault { error, table } => {
                let last = self.last_faults.get(table);
                if last.is_some_and(|last| now.0 < last.0.saturating_add(FAULT_INTERVAL)) {
                    return;
                }
                self.last_faults.insert(*table, now);
                let text = format!("{error}, in table {}", table.0);
                let failure = ErrorMessage::new(*error, self.config.device, &text);
                self.announce(Body::Error(failure));
            }
            Event::Removed(removed) => self.announce(Body::FlowRemoved(flow_removed(removed))),
        }
    }

    /// Asks the controller whether it is there.
    pub fn echo(&mut self) {
        if self.phase == Phase::Open {
            self.announce(Body::EchoRequest(Vec::new()));
        }
    }

    /// Returns true if the beginning of a message has come, but not its end.
    pub fn is_within_message(&self) -> bool {
        !self.input.is_empty() && self.input.len() < usize::from(u16::MAX) + HEADER_BYTES
    }
}

/// Returns true if a message changes the switch.
fn is_change(body: &Body) -> bool {
    matches!(
        body,
        Body::PacketOut(_)
            | Body::FlowMod(_)
            | Body::GroupMod(_)
            | Body::PortMod(_)
            | Body::TableMod(_)
            | Body::MeterMod(_)
            | Body::CounterMod(_)
            | Body::SetConfig(_)
    )
}

fn features(switch: &Forwarder, own: &Description) -> Features {
    let tables = switch.tables().limits().tables.iter();
    Features {
        device: own.device,
        slot: 0,
        ports: own.ports.len() as u16,
        tables: tables.map(|count| u16::from(*count)).sum(),
        // Flow, table and group statistics.
        capabilities: 1 | 1 << 1 | 1 << 3,
        vendor: ObjectName::new("Polyplane"),
        forwarding_engine: ObjectName::new("Polyplane POF"),
        lookup_engine: ObjectName::new("Polyplane POF"),
    }
}

fn resources(switch: &Forwarder, own: &Description) -> ResourceReport {
    let limits = switch.tables().limits();
    ResourceReport {
        kind: 0,
        slot: 0,
        counters: limits.counters,
        meters: limits.meters,
        groups: limits.groups,
        tables: TableType::ALL.map(|table_type| TableResource {
            device: own.device,
            table_type,
            tables: limits.tables[table_type as usize],
            key_length: limits.key_bits,
            size: limits.table_size,
        }),
    }
}

fn packet_out(packet: &PacketOut, switch: &mut Forwarder) -> Result<(), ErrorCode> {
    if packet.buffer != NO_BUFFER && packet.data.is_empty() {
        return Err(ErrorCode::BufferUnknown);
    }
    let in_port = match packet.in_port >> 16 {
        0 => packet.in_port as u16,
        0xFFFF => port::CONTROLLER,
        _ => return Err(ErrorCode::BadPort),
    };
    switch.packet_out(in_port, &packet.actions, &packet.data)
}

/// Returns the answer to a query of an entry.
fn flow_message(entry: &Entry, table_type: TableType, table: u8) -> FlowMod {
    FlowMod {
        command: FlowCommand::QueryResult,
        counter: entry.counter,
        cookie: entry.cookie,
        cookie_mask: 0,
        table,
        table_type,
        idle_timeout: entry.idle_timeout,
        hard_timeout: entry.hard_timeout,
        priority: entry.priority,
        index: entry.index,
        slot: 0,
        matches: entry.matches.clone(),
        instructions: entry.instructions.clone(),
    }
}

fn flow_stats(
    switch: &Forwarder,
    number: TableNumber,
    table_type: TableType,
    entry: &Entry,
) -> FlowStats {
    let (count, age) = switch.usage(number, entry.index).unwrap_or_default();
    let (seconds, nanoseconds) = split_seconds(age);
    FlowStats {
        seconds,
        nanoseconds,
        packets: count.packets,
        bytes: count.bytes,
        flow: flow_message(entry, table_type, switch.tables().id_in_type(number)),
    }
}

fn split_seconds(time: Nanos) -> (u32, u32) {
    let seconds = time.0 / 1_000_000_000;
    let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
    (seconds, (time.0 % 1_000_000_000) as u32)
}

/// Returns the answer to a query of a table.
fn table_message(switch: &Forwarder, number: TableNumber) -> Option<TableMod> {
    let table = switch.tables().table(number)?;
    Some(TableMod {
        command: Command::QueryResult,
        id: switch.tables().id_in_type(number),
        table_type: table.table_type,
        size: table.size,
        key_length: table.fields.iter().map(|field| field.length).sum(),
        slot: 0,
        name: table.name,
        fields: table.fields.clone(),
    })
}

/// Returns the answer to a query of a group.
fn group_message(switch: &Forwarder, id: u32) -> Option<GroupMod> {
    let group = switch.tables().group(id)?;
    Some(GroupMod {
        command: Command::QueryResult,
        group_type: group.group_type,
        id,
        counter: group.counter,
        slot: 0,
        actions: group.actions.clone(),
    })
}

/// Returns the answer to a query of a meter.
fn meter_message(id: u32, rate: u32) -> MeterMod {
    MeterMod {
        command: Command::QueryResult,
        slot: 0,
        id,
        rate,
    }
}

fn flow_removed(removed: &Removed) -> FlowRemoved {
    let entry = &removed.entry;
    let (seconds, nanoseconds) = split_seconds(removed.duration);
    FlowRemoved {
        cookie: entry.cookie,
        priority: entry.priority,
        reason: match removed.reason {
            RemovalReason::Idle => 0,
            RemovalReason::Hard => 1,
            RemovalReason::Deleted => 2,
        },
        table: removed.table.0,
        seconds,
        nanoseconds,
        idle_timeout: entry.idle_timeout,
        hard_timeout: entry.hard_timeout,
        packets: removed.count.packets,
        bytes: removed.count.bytes,
        matches: entry.matches.clone(),
    }
}
