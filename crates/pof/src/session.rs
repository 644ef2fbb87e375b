//! A connection with a controller, without I/O: bytes in, bytes out.
//!
//! [`Session::receive`] takes what the controller sent, makes the changes on a
//! [`ControlledSwitch`], and appends the replies to [`Session::take_output`]. [`Session::notify`]
//! appends what packets and time-outs made. Messages are answered in their order, so a barrier's
//! reply comes after the errors of all messages before it. A message that needs another program
//! waits for it ([`crate::program_job`]), and with it those that follow, but for ECHO_REQUEST up to
//! the next barrier.

use std::collections::HashMap;

use packet::Nanos;

use crate::controlled::{ControlledSwitch, SessionId};
use crate::forwarder::{Event, Forwarder, RemovalReason, Removed};
use crate::long_answer::{LongAnswer, split_seconds};
use crate::model::{ObjectName, TableType, port};
use crate::objects::{flow_message, group_message, meter_message, table_message};
use crate::program_job::ProgramWait;
use crate::tables::{TableNumber, Tables};
use crate::text;
use crate::wire::{
    Body, Command, Config, Counter, CounterCommand, ErrorCode, ErrorMessage, Features, FlowCommand,
    FlowMod, FlowRemoved, GroupStats, Message, MeterStats, NO_BUFFER, PacketIn, PacketOut,
    PortStats, PortStatus, Refused, ResourceReport, Role, RoleChange, Stats, StatsReply,
    StatsRequest, TableResource, TableStats, VERSION, decode, encode, message_length,
};

/// Nanoseconds between two errors of a table's packets.
const FAULT_INTERVAL: u64 = 1_000_000_000;
/// Default of [`Config::miss_send_length`].
const MISS_SEND_LENGTH: u16 = 0xFFFF;

/// Bytes of output above which no message is taken and packet-ins are dropped: the controller does
/// not read.
const MAX_OUTPUT: usize = 1 << 20;

/// Bytes of output above which other reports are dropped, too.
const MAX_REPORTS: usize = 4 * MAX_OUTPUT;

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
    id: SessionId,
    phase: Phase,
    input: Vec<u8>,
    /// Number of bytes at the beginning of the input that were handled.
    taken: usize,
    output: Vec<u8>,
    config: Config,
    /// The role that it has asked for. A master is a slave while another one is master.
    role: Role,
    next_xid: u32,
    /// The answer that is under way. Messages wait for its end.
    long_answer: Option<LongAnswer>,
    /// The wait for a program of the next messages. It stays until they are handled.
    wait: Option<ProgramWait>,
    /// Number of waiting bytes in which no ECHO_REQUEST is left to answer.
    looked: usize,
    last_faults: HashMap<TableNumber, Nanos>,
    dropped_packet_ins: u64,
    dropped_reports: u64,
}

impl Session {
    /// Creates a session with this number, which no other one has. Its output begins with the
    /// switch's HELLO.
    pub fn new(id: SessionId, switch: &ControlledSwitch) -> Session {
        let mut session = Session {
            id,
            phase: Phase::Hello,
            input: Vec::new(),
            taken: 0,
            output: Vec::new(),
            config: Config {
                device: switch.device(),
                flags: 0,
                miss_send_length: MISS_SEND_LENGTH,
            },
            role: Role::Equal,
            next_xid: 1,
            long_answer: None,
            wait: None,
            looked: 0,
            last_faults: HashMap::new(),
            dropped_packet_ins: 0,
            dropped_reports: 0,
        };
        session.announce(Body::Hello);
        session
    }

    /// Returns the state of the connection.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the controller's role.
    pub fn role(&self, switch: &ControlledSwitch) -> Role {
        match self.role {
            Role::Master if switch.roles.master != Some(self.id) => Role::Slave,
            role => role,
        }
    }

    /// Ends the session on the switch: if it was master, there is none then.
    pub fn leave(&mut self, switch: &mut ControlledSwitch) {
        self.phase = Phase::Closed;
        self.wait = None;
        self.step_down(switch);
    }

    fn step_down(&self, switch: &mut ControlledSwitch) {
        if switch.roles.master == Some(self.id) {
            switch.roles.master = None;
        }
    }

    /// Returns the number of packet-ins that were dropped since the controller did not read.
    pub fn dropped_packet_ins(&self) -> u64 {
        self.dropped_packet_ins
    }

    /// Returns the number of other reports, such as FLOW_REMOVED, that were dropped since the
    /// controller did not read.
    pub fn dropped_reports(&self) -> u64 {
        self.dropped_reports
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

    fn send_some(&mut self, xid: u32, body: Option<Body>) {
        if let Some(body) = body {
            self.send(xid, body);
        }
    }

    /// Sends a message that is no reply.
    fn announce(&mut self, body: Body) {
        let xid = self.next_xid;
        self.next_xid = self.next_xid.wrapping_add(1);
        self.send(xid, body);
    }

    fn refuse(&mut self, xid: u32, error: ErrorCode) {
        self.refuse_for(xid, error, "");
    }

    /// Sends an error with a text after its name.
    fn refuse_for(&mut self, xid: u32, error: ErrorCode, reason: &str) {
        let text = format!("{error}{reason}");
        let failure = ErrorMessage::new(error, self.config.device, &text);
        self.send(xid, Body::Error(failure));
    }

    /// Takes bytes from the controller, and handles all messages that are complete. While
    /// [`Session::is_full`], the bytes wait: read no more of them.
    pub fn receive(&mut self, bytes: &[u8], switch: &mut ControlledSwitch) {
        self.push(bytes);
        while self.handle_next(switch) {}
    }

    /// Takes bytes from the controller. A message may come in parts.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.phase != Phase::Closed {
            self.input.drain(..std::mem::take(&mut self.taken));
            self.input.extend_from_slice(bytes);
        }
    }

    /// Returns true if a complete message waits, or a part of an answer.
    pub fn has_message(&self) -> bool {
        let has_more = self.long_answer.is_some() || next_message(self.waiting()).is_some();
        self.phase != Phase::Closed && has_more
    }

    /// Returns the input that was not handled.
    fn waiting(&self) -> &[u8] {
        &self.input[self.taken..]
    }

    /// Returns the number of bytes that came and were not handled.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting().len()
    }

    /// Returns true while the next message waits for a program.
    pub fn waits_for_program(&self, switch: &ControlledSwitch) -> bool {
        let wait = self.wait.as_ref();
        wait.is_some_and(|wait| switch.forwarder.is_pending(wait))
    }

    /// Handles one message, or makes one part of a long answer. Returns false if no message is
    /// complete, while [`Session::is_full`], or if the next message waits for a program.
    pub fn handle_next(&mut self, switch: &mut ControlledSwitch) -> bool {
        if self.phase == Phase::Closed || self.is_full() {
            return false;
        }
        if self.waits_for_program(switch) {
            return self.answer_echo();
        }
        if let Some(mut answer) = self.long_answer.take() {
            for body in answer.part(&switch.forwarder) {
                self.send(answer.xid, body);
            }
            self.long_answer = (!answer.is_over()).then_some(answer);
            return true;
        }
        let input = &self.input[self.taken..];
        let Some(length) = message_length(input) else {
            return false;
        };
        let Some(message) = input.get(..length) else {
            // What does not begin as a message is not waited for.
            if self.phase == Phase::Hello && input[0] != VERSION {
                self.refuse(0, ErrorCode::HelloIncompatible);
                self.phase = Phase::Closed;
            }
            return false;
        };
        let decoded = decode(message);
        let end = self.taken + message.len();
        let prepared = match &decoded {
            Ok(message) => self.prepare(&message.body, end, switch),
            Err(_) => Ok(false),
        };
        if prepared == Ok(true) {
            return self.answer_echo();
        }
        self.taken = end;
        self.looked = 0;
        let is_flow = matches!(&decoded, Ok(message) if matches!(message.body, Body::FlowMod(_)));
        match (prepared, decoded) {
            (Err(error), Ok(message)) => self.refuse(message.xid, error),
            (_, decoded) => self.handle(decoded, switch),
        }
        if let Some(wait) = &mut self.wait {
            wait.messages = wait.messages.saturating_sub(1);
            if wait.messages == 0 || !is_flow {
                self.wait = None;
            }
        }
        true
    }

    /// Returns true if a message must wait for a program. The input goes on at `end` after it.
    ///
    /// # Errors
    /// Its program cannot be made.
    fn prepare(
        &mut self,
        body: &Body,
        end: usize,
        switch: &mut ControlledSwitch,
    ) -> Result<bool, ErrorCode> {
        let is_slave = self.role(switch) == Role::Slave;
        if self.phase != Phase::Open || !is_change(body) || is_slave {
            return Ok(false);
        }
        let following = || following_flows(&self.input[end..]);
        let last = self.wait.as_ref();
        let wait = switch.forwarder.prepare(body, following, last)?;
        let must_wait = wait.is_some();
        if must_wait {
            self.wait = wait;
        }
        Ok(must_wait)
    }

    /// Answers the first ECHO_REQUEST that waits after the next message and before a barrier.
    /// Returns false if there is none.
    fn answer_echo(&mut self) -> bool {
        let first = next_message(self.waiting()).map_or(0, <[u8]>::len);
        self.looked = self.looked.max(first);
        loop {
            let begin = self.taken + self.looked;
            let rest = self.input.get(begin..).unwrap_or_default();
            let Some(message) = next_message(rest) else {
                return false;
            };
            let length = message.len();
            match decode(message) {
                Ok(Message {
                    body: Body::BarrierRequest,
                    ..
                }) => return false,
                Ok(Message {
                    xid,
                    body: Body::EchoRequest(data),
                }) => {
                    self.input.drain(begin..begin + length);
                    self.send(xid, Body::EchoReply(data));
                    return true;
                }
                _ => self.looked += length,
            }
        }
    }

    fn handle(&mut self, decoded: Result<Message, Refused>, switch: &mut ControlledSwitch) {
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
        if let Err(error) = self.answer(message.xid, message.body, switch) {
            self.refuse(message.xid, error);
        }
    }

    fn answer(
        &mut self,
        xid: u32,
        body: Body,
        shared: &mut ControlledSwitch,
    ) -> Result<(), ErrorCode> {
        if self.role(shared) == Role::Slave && is_change(&body) {
            return Err(ErrorCode::IsSlave);
        }
        let switch = &mut shared.forwarder;
        match body {
            Body::Hello | Body::EchoReply(_) | Body::Error(_) => {}
            Body::EchoRequest(data) => self.send(xid, Body::EchoReply(data)),
            Body::Experimenter(..) => return Err(ErrorCode::BadExperimenter),
            Body::FeaturesRequest => {
                let features = features(shared);
                self.send(xid, Body::FeaturesReply(features));
            }
            Body::GetConfigRequest => {
                self.send(xid, Body::GetConfigReply(self.config));
                self.send(xid, Body::ResourceReport(resources(shared)));
                for port in shared.ports() {
                    let (reason, port) = (0, *port);
                    self.send(xid, Body::PortStatus(PortStatus { reason, port }));
                }
            }
            Body::SetConfig(config) => {
                self.config = Config {
                    device: self.config.device,
                    ..config
                };
            }
            Body::PacketOut(packet) => packet_out(&packet, switch)?,
            Body::FlowMod(flow) => {
                if let Some((number, index)) = switch.flow_mod(&flow)? {
                    let tables = switch.tables();
                    let entry = tables.table(number).and_then(|table| table.entry(index));
                    let reply = entry.and_then(|entry| flow_message(tables, number, entry));
                    self.send_some(xid, reply.map(Body::FlowMod));
                }
            }
            Body::TableMod(table) => {
                let made = switch.table_mod(&table);
                if made == Err(ErrorCode::TableNotEmpty) {
                    let text = in_use(table.table_type, table.id, switch.tables());
                    self.refuse_for(xid, ErrorCode::TableNotEmpty, &text);
                    return Ok(());
                }
                if let Some(number) = made? {
                    let reply = table_message(switch.tables(), number);
                    self.send_some(xid, reply.map(Body::TableMod));
                }
            }
            Body::GroupMod(group) => {
                if let Some(id) = switch.group_mod(&group)? {
                    let reply = group_message(switch.tables(), id);
                    self.send_some(xid, reply.map(Body::GroupMod));
                }
            }
            Body::MeterMod(meter) => {
                if let Some(id) = switch.meter_mod(&meter)? {
                    let reply = meter_message(switch.tables(), id);
                    self.send_some(xid, reply.map(Body::MeterMod));
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
            Body::PortMod(status) => shared.port_mod(&status.port)?,
            Body::MultipartRequest(request) => self.statistics(xid, request, shared)?,
            Body::BarrierRequest => self.send(xid, Body::BarrierReply),
            Body::RoleRequest(change) => self.change_role(xid, change, shared)?,
            Body::QueryAllRequest(slot) => match slot {
                0 | 0xFFFF => self.long_answer = Some(LongAnswer::objects(xid, switch)),
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

    fn change_role(
        &mut self,
        xid: u32,
        change: RoleChange,
        switch: &mut ControlledSwitch,
    ) -> Result<(), ErrorCode> {
        match change.role {
            Role::NoChange => {}
            Role::Equal => {
                self.step_down(switch);
                self.role = Role::Equal;
            }
            Role::Master | Role::Slave => {
                // Numbers grow, modulo 2^64, as OpenFlow compares them.
                let is_stale = |last: u64| change.generation.wrapping_sub(last).cast_signed() < 0;
                if switch.roles.generation.is_some_and(is_stale) {
                    return Err(ErrorCode::StaleRole);
                }
                switch.roles.generation = Some(change.generation);
                self.step_down(switch);
                if change.role == Role::Master {
                    switch.roles.master = Some(self.id);
                }
                self.role = change.role;
            }
        }
        let reply = RoleChange {
            role: self.role(switch),
            generation: switch.roles.generation.unwrap_or(0),
        };
        self.send(xid, Body::RoleReply(reply));
        Ok(())
    }

    fn statistics(
        &mut self,
        xid: u32,
        request: StatsRequest,
        shared: &ControlledSwitch,
    ) -> Result<(), ErrorCode> {
        let switch = &shared.forwarder;
        let tables = switch.tables();
        let selects = |wanted: u32, id: u32| wanted == StatsRequest::ANY || wanted == id;
        let stats = match request {
            StatsRequest::Flows {
                table,
                cookie,
                cookie_mask,
            } => {
                if table != StatsRequest::ALL && tables.table(TableNumber(table)).is_none() {
                    return Err(ErrorCode::RequestBadTable);
                }
                let answer = LongAnswer::flows(xid, table, (cookie, cookie_mask), switch);
                self.long_answer = Some(answer);
                return Ok(());
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
            StatsRequest::Ports(wanted) => {
                let counts = shared.port_counts().iter();
                let is_all = |wanted: u32| wanted == u32::from(port::ANY);
                let is_wanted = |port: &&PortStats| is_all(wanted) || selects(wanted, port.port);
                Stats::Ports(counts.filter(is_wanted).copied().collect())
            }
            StatsRequest::Groups(wanted) => {
                let groups = tables.groups().filter(|(id, _)| selects(wanted, *id));
                let stats = groups.map(|(id, group)| {
                    let count = match group.counter {
                        0 => crate::Count::default(),
                        counter => switch.counter(counter),
                    };
                    GroupStats {
                        group: id,
                        users: tables.count_users_of_group(id) as u32,
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

    /// Reports to the controller what packets, time-outs and ports made at this time. A slave gets
    /// the changes of ports only.
    pub fn notify(&mut self, event: &Event, switch: &ControlledSwitch, now: Nanos) {
        let is_for_slaves = matches!(event, Event::Port(_));
        let is_unwanted = self.role(switch) == Role::Slave && !is_for_slaves;
        if self.phase != Phase::Open || is_unwanted {
            return;
        }
        if self.output.len() > MAX_REPORTS {
            self.dropped_reports += u64::from(!matches!(event, Event::PacketIn { .. }));
            self.dropped_packet_ins += u64::from(matches!(event, Event::PacketIn { .. }));
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
                let name = text::table_name(switch.forwarder.tables(), *table);
                let text = format!("{error}, in table {name}");
                let failure = ErrorMessage::new(*error, self.config.device, &text);
                self.announce(Body::Error(failure));
            }
            Event::Removed(removed) => self.announce(Body::FlowRemoved(flow_removed(removed))),
            Event::Port(status) => self.announce(Body::PortStatus(*status)),
        }
    }

    /// Asks the controller whether it is there.
    pub fn echo(&mut self) {
        if self.phase == Phase::Open {
            self.announce(Body::EchoRequest(Vec::new()));
        }
    }
}

/// Returns the message with which these bytes begin, if it is complete.
fn next_message(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(..message_length(bytes)?)
}

/// Returns the FLOW_MODs with which these bytes begin.
fn following_flows(mut bytes: &[u8]) -> Vec<FlowMod> {
    let flows = std::iter::from_fn(|| {
        let message = next_message(bytes)?;
        bytes = &bytes[message.len()..];
        match decode(message).ok()?.body {
            Body::FlowMod(flow) => Some(flow),
            _ => None,
        }
    });
    flows.collect()
}

/// Returns the reason for which a table is in use, as the end of a sentence.
fn in_use(table_type: TableType, id: u8, tables: &Tables) -> String {
    let number = tables.number(table_type, id);
    let own = number.and_then(|number| tables.table(number)?.indices().next());
    match (own, number.and_then(|number| tables.leading_to(number))) {
        (Some(index), _) => format!(": it has flow {index}"),
        (None, Some((table, index))) => {
            let name = text::table_name(tables, table);
            format!(": flow {index} of table {name} leads to it")
        }
        (None, None) => String::new(),
    }
}

/// Returns true if a message changes the switch or sends a packet.
fn is_change(body: &Body) -> bool {
    match body {
        Body::FlowMod(flow) => flow.command != FlowCommand::Query,
        Body::TableMod(table) => table.command != Command::Query,
        Body::GroupMod(group) => group.command != Command::Query,
        Body::MeterMod(meter) => meter.command != Command::Query,
        Body::CounterMod(counter) => counter.command != CounterCommand::Query,
        Body::PacketOut(_) | Body::PortMod(_) | Body::SetConfig(_) => true,
        _ => false,
    }
}

fn features(switch: &ControlledSwitch) -> Features {
    let tables = switch.forwarder.tables().limits().tables.iter();
    Features {
        device: switch.device(),
        slot: 0,
        ports: switch.ports().len() as u16,
        tables: tables.map(|count| u16::from(*count)).sum(),
        // Flow, table, port and group statistics.
        capabilities: 0b1111,
        vendor: ObjectName::new("Polyplane"),
        forwarding_engine: ObjectName::new("Polyplane POF"),
        lookup_engine: ObjectName::new("Polyplane POF"),
    }
}

fn resources(switch: &ControlledSwitch) -> ResourceReport {
    let limits = switch.forwarder.tables().limits();
    ResourceReport {
        kind: 0,
        slot: 0,
        counters: limits.counters,
        meters: limits.meters,
        groups: limits.groups,
        tables: TableType::ALL.map(|table_type| TableResource {
            device: switch.device(),
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
