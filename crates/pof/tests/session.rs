//! A scripted controller over the bytes of a session: tables, flows, frames, counters, time-outs,
//! roles and errors.

use std::sync::Arc;

use packet::{Nanos, PortId};
use pof::model::*;
use pof::session::{Phase, Session};
use pof::wire::*;
use pof::{ControlledSwitch, Forwarder, ForwarderOptions, OnMiss, SessionId};

/// A switch with ports 1 to 3 and one controller.
struct Bed {
    switch: ControlledSwitch,
    session: Session,
    now: Nanos,
}

fn switch_of(options: ForwarderOptions, device: u32, ports: Vec<Port>) -> ControlledSwitch {
    let forwarder = Forwarder::new(Arc::new(interp::Interp), options).unwrap();
    ControlledSwitch::new(forwarder, device, ports).unwrap()
}

impl Bed {
    fn new() -> Bed {
        let ports = (1..=3).map(|id| pof::port(77, id, "eth")).collect();
        let switch = switch_of(ForwarderOptions::default(), 77, ports);
        let mut bed = Bed {
            session: Session::new(SessionId(0), &switch),
            switch,
            now: Nanos(0),
        };
        assert_eq!(bed.replies(), [(1, Body::Hello)]);
        assert_eq!(bed.ask(0, Body::Hello), []);
        bed
    }

    /// Returns the messages that the switch has sent since the last call.
    fn replies(&mut self) -> Vec<(u32, Body)> {
        let output = self.session.take_output();
        let mut rest = output.as_slice();
        let mut messages = Vec::new();
        while let Some(length) = message_length(rest) {
            let message = decode(&rest[..length]).unwrap();
            messages.push((message.xid, message.body));
            rest = &rest[length..];
        }
        assert!(rest.is_empty());
        messages
    }

    fn ask(&mut self, xid: u32, body: Body) -> Vec<(u32, Body)> {
        let bytes = encode(&Message { xid, body });
        self.session.receive(&bytes, &mut self.switch);
        self.replies()
    }

    /// Sends a message that has no reply.
    fn set(&mut self, body: Body) {
        assert_eq!(self.ask(5, body), []);
    }

    /// Returns the type and the code of the error that is the only reply.
    fn error(&mut self, body: Body) -> (u16, u16) {
        match self.ask(6, body).as_slice() {
            [(6, Body::Error(failure))] => (failure.kind, failure.code),
            other => panic!("{other:?}"),
        }
    }

    /// Lets a frame in, and returns the frames that leave. Events go to the controller.
    fn frame(&mut self, port: u16, bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
        self.switch
            .forwarder
            .device()
            .receive(PortId(port.into()), bytes)
            .unwrap();
        self.run()
    }

    fn run(&mut self) -> Vec<(u16, Vec<u8>)> {
        self.switch.forwarder.device().step(self.now);
        self.switch.forwarder.device().check_conservation().unwrap();
        self.switch.forwarder.expire();
        let mut sent = Vec::new();
        let events = self
            .switch
            .drain(|port, bytes| sent.push((port, bytes.to_vec())));
        for event in events {
            self.session.notify(&event, &self.switch, self.now);
        }
        sent
    }

    fn wait(&mut self, seconds: u64) {
        self.now = Nanos(self.now.0 + seconds * 1_000_000_000);
        self.run();
    }
}

fn table(command: Command, id: u8, table_type: TableType, fields: &[Field]) -> Body {
    Body::TableMod(TableMod {
        command,
        id,
        table_type,
        size: 16,
        key_length: fields.iter().map(|field| field.length).sum(),
        slot: 0,
        name: ObjectName::new("flows"),
        fields: fields.to_vec(),
    })
}

/// The destination address of IPv4 after Ethernet.
const DESTINATION: Field = Field {
    id: 3,
    offset: 240,
    length: 32,
};

fn left(bytes: &[u8]) -> FieldValue {
    let mut value = FieldValue::default();
    value[..bytes.len()].copy_from_slice(bytes);
    value
}

fn flow(command: FlowCommand, index: u32, last: u8, instructions: Vec<Instruction>) -> FlowMod {
    FlowMod {
        command,
        counter: 1 + index,
        cookie: 0xC0 + u64::from(index),
        cookie_mask: 0,
        table: 0,
        table_type: TableType::Masked,
        idle_timeout: 0,
        hard_timeout: 0,
        priority: 10,
        index,
        slot: 0,
        matches: vec![Match {
            field: DESTINATION,
            value: left(&[10, 0, 0, last]),
            mask: left(&[255; 4]),
        }],
        instructions,
    }
}

fn output(port: u32) -> Action {
    Action::Output {
        port: Argument::Immediate(port),
        metadata_offset: 0,
        metadata_length: 0,
        packet_offset: 0,
    }
}

fn apply(actions: Vec<Action>) -> Instruction {
    Instruction::ApplyActions(actions)
}

/// Returns a frame of 64 bytes to this address.
fn ipv4(last: u8) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..64).collect();
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[30..34].copy_from_slice(&[10, 0, 0, last]);
    frame
}

/// A table, and two flows: the paper's SetField and AddField.
fn two_flows(bed: &mut Bed) {
    bed.set(table(Command::Add, 0, TableType::Masked, &[DESTINATION]));
    let set = Action::SetField(Match {
        field: DESTINATION,
        value: left(&[10, 2, 2, 2]),
        mask: left(&[255; 16]),
    });
    let list = vec![apply(vec![set, output(2)])];
    bed.set(Body::FlowMod(flow(FlowCommand::Add, 0, 1, list)));
    let add = Action::AddField {
        id: 9,
        offset: 112,
        length: 32,
        value: left(&[10, 10, 9, 8]),
    };
    let list = vec![apply(vec![add, output(3)])];
    bed.set(Body::FlowMod(flow(FlowCommand::Add, 1, 2, list)));
}

#[test]
fn a_controller_makes_a_table_and_two_flows_and_frames_follow_them() {
    let mut bed = Bed::new();
    let features = bed.ask(1, Body::FeaturesRequest);
    assert!(
        matches!(&features[..], [(1, Body::FeaturesReply(f))] if f.device == 77 && f.ports == 3)
    );
    let config = Config {
        device: 77,
        flags: 0,
        miss_send_length: 100,
    };
    bed.set(Body::SetConfig(config));
    let configured = bed.ask(2, Body::GetConfigRequest);
    assert_eq!(configured[0], (2, Body::GetConfigReply(config)));
    assert!(matches!(configured[1].1, Body::ResourceReport(_)));
    assert_eq!(configured.len(), 2 + 3);
    two_flows(&mut bed);
    assert_eq!(bed.ask(3, Body::BarrierRequest), [(3, Body::BarrierReply)]);
    let mut changed = ipv4(1);
    changed[30..34].copy_from_slice(&[10, 2, 2, 2]);
    assert_eq!(bed.frame(1, &ipv4(1)), [(2, changed)]);
    let mut longer = ipv4(2);
    longer.splice(14..14, [10, 10, 9, 8]);
    assert_eq!(bed.frame(1, &ipv4(2)), [(3, longer)]);
    // A miss goes to the controller, as much of it as it wants.
    assert_eq!(bed.frame(3, &ipv4(3)), []);
    let missed = bed.replies();
    let [(_, Body::PacketIn(packet))] = &missed[..] else {
        panic!("{missed:?}");
    };
    assert_eq!((packet.reason, packet.table, packet.port), (0, 0, 3));
    assert_eq!((packet.length, packet.data.clone()), (64, ipv4(3)));
}

#[test]
fn a_message_may_come_byte_by_byte() {
    let mut bed = Bed::new();
    let table = table(Command::Add, 0, TableType::Masked, &[DESTINATION]);
    let two = [(1, table.clone()), (2, table)].map(|(xid, body)| encode(&Message { xid, body }));
    for byte in two.concat() {
        bed.session.receive(&[byte], &mut bed.switch);
    }
    let replies = bed.replies();
    assert!(matches!(&replies[..], [(2, Body::Error(f))] if (f.kind, f.code) == (8, 4)));
}

#[test]
fn an_entry_of_a_known_shape_makes_no_program() {
    let mut bed = Bed::new();
    two_flows(&mut bed);
    let before = bed.switch.forwarder.programs();
    for index in 2..10 {
        let set = Action::SetField(Match {
            field: DESTINATION,
            value: left(&[10, 9, 9, index as u8]),
            mask: left(&[255; 16]),
        });
        let list = vec![apply(vec![set, output(1 + index % 3)])];
        bed.set(Body::FlowMod(flow(
            FlowCommand::Add,
            index,
            index as u8 + 10,
            list,
        )));
    }
    assert_eq!(bed.switch.forwarder.programs(), before);
    let sent = bed.frame(1, &ipv4(17));
    assert_eq!((sent[0].0, &sent[0].1[30..34]), (2, &[10, 9, 9, 7][..]));
}

#[test]
fn a_new_shape_keeps_counts_and_ages() {
    let mut bed = Bed::new();
    two_flows(&mut bed);
    bed.frame(1, &ipv4(1));
    bed.wait(3);
    let before = bed.switch.forwarder.programs();
    let list = vec![apply(vec![Action::Counter(40), output(1)])];
    bed.set(Body::FlowMod(flow(FlowCommand::Add, 2, 3, list)));
    assert_eq!(bed.switch.forwarder.programs(), before + 1);
    bed.frame(1, &ipv4(1));
    bed.frame(1, &ipv4(3));
    let request = |id| Counter {
        command: CounterCommand::Query,
        slot: 0,
        id,
        packets: 0,
        bytes: 0,
    };
    for (id, packets) in [(1, 2), (2, 0), (3, 1), (40, 1)] {
        let reply = Counter {
            command: CounterCommand::QueryResult,
            packets,
            bytes: 64 * packets,
            ..request(id)
        };
        let replies = bed.ask(8, Body::CounterRequest(request(id)));
        assert_eq!(replies, [(8, Body::CounterReply(reply))], "counter {id}");
    }
    let flows = StatsRequest::Flows {
        table: 0,
        cookie: 0xC0,
        cookie_mask: 0xFFFF,
    };
    let replies = bed.ask(9, Body::MultipartRequest(flows));
    let [(9, Body::MultipartReply(reply))] = &replies[..] else {
        panic!("{replies:?}");
    };
    let Stats::Flows(flows) = &reply.stats else {
        panic!("{reply:?}");
    };
    let numbers: Vec<_> = flows
        .iter()
        .map(|f| (f.flow.index, f.seconds, f.packets))
        .collect();
    assert_eq!(numbers, [(0, 3, 2)]);
}

#[test]
fn entries_go_by_time_and_by_command_with_their_counts() {
    let mut bed = Bed::new();
    bed.set(table(Command::Add, 0, TableType::Masked, &[DESTINATION]));
    let with = |index, idle_timeout, hard_timeout| {
        let list = vec![apply(vec![output(2)])];
        Body::FlowMod(FlowMod {
            idle_timeout,
            hard_timeout,
            ..flow(FlowCommand::Add, index, index as u8, list)
        })
    };
    bed.set(with(1, 2, 0));
    bed.set(with(2, 0, 3));
    bed.set(with(3, 0, 0));
    for _ in 0..3 {
        bed.wait(1);
        bed.frame(1, &ipv4(1));
    }
    let removed = |replies: Vec<(u32, Body)>| -> Vec<(u64, u8, u32, u64, u64)> {
        let of = |body| match body {
            Body::FlowRemoved(r) => (r.cookie, r.reason, r.seconds, r.packets, r.bytes),
            other => panic!("{other:?}"),
        };
        replies.into_iter().map(|(_, body)| of(body)).collect()
    };
    let gone = bed.replies();
    assert_eq!(removed(gone), [(0xC2, 1, 3, 0, 0)]);
    bed.wait(2);
    let gone = bed.replies();
    assert_eq!(removed(gone), [(0xC1, 0, 5, 3, 192)]);
    bed.set(Body::FlowMod(flow(FlowCommand::Delete, 3, 3, Vec::new())));
    bed.run();
    let gone = bed.replies();
    assert_eq!(removed(gone), [(0xC3, 2, 5, 0, 0)]);
    assert_eq!(
        bed.error(Body::FlowMod(flow(FlowCommand::Delete, 3, 3, Vec::new()))),
        (5, 9)
    );
}

#[test]
fn strict_commands_find_entries_by_match_and_priority() {
    let mut bed = Bed::new();
    two_flows(&mut bed);
    let list = vec![apply(vec![output(1)])];
    let modify = flow(FlowCommand::ModifyStrict, 99, 2, list.clone());
    bed.set(Body::FlowMod(modify));
    assert_eq!(bed.frame(1, &ipv4(2)), [(1, ipv4(2))]);
    let other = FlowMod {
        priority: 11,
        ..flow(FlowCommand::DeleteStrict, 0, 2, Vec::new())
    };
    assert_eq!(bed.error(Body::FlowMod(other.clone())), (5, 9));
    bed.set(Body::FlowMod(FlowMod {
        priority: 10,
        ..other
    }));
    let query = flow(FlowCommand::Query, 1, 0, Vec::new());
    assert_eq!(bed.error(Body::FlowMod(query)), (5, 9));
    let query = flow(FlowCommand::Query, 0, 0, Vec::new());
    let found = bed.ask(4, Body::FlowMod(query));
    assert!(matches!(&found[..], [(4, Body::FlowMod(f))]
        if f.command == FlowCommand::QueryResult && f.cookie == 0xC0));
}

#[test]
fn refused_changes_have_the_protocols_codes() {
    let mut bed = Bed::new();
    two_flows(&mut bed);
    let list = || vec![apply(vec![output(1)])];
    let go = |table| {
        vec![Instruction::GotoTable {
            table,
            offset: 0,
            fields: Vec::new(),
        }]
    };
    let add = |index, last, list| Body::FlowMod(flow(FlowCommand::Add, index, last, list));
    let with_type = |table_type, id| {
        Body::FlowMod(FlowMod {
            table_type,
            table: id,
            ..flow(FlowCommand::Add, 0, 9, Vec::new())
        })
    };
    let table = |command, id, table_type| table(command, id, table_type, &[DESTINATION]);
    let set = |field: Field| {
        vec![apply(vec![Action::SetField(Match {
            field,
            ..Match::default()
        })])]
    };
    let rows = [
        (add(0, 9, list()), (5, 8)),
        (add(5, 1, list()), (5, 3)),
        (add(16, 9, list()), (5, 11)),
        (with_type(TableType::Masked, 3), (5, 2)),
        (with_type(TableType::Exact, 5), (5, 2)),
        (add(5, 9, go(1)), (3, 2)),
        (add(5, 9, go(25)), (3, 2)),
        (add(5, 9, vec![Instruction::Meter(4)]), (12, 3)),
        (
            add(
                5,
                9,
                vec![Instruction::WriteActions(vec![Action::Group(4)])],
            ),
            (2, 9),
        ),
        (add(5, 9, vec![apply(vec![Action::Group(4)])]), (2, 9)),
        (add(5, 9, vec![apply(vec![output(0x0001_0001)])]), (2, 4)),
        (add(5, 9, vec![apply(vec![Action::Counter(0)])]), (2, 5)),
        (add(5, 9, set(Field::packet(0, 0))), (2, 1)),
        (add(5, 9, set(Field::metadata(1_020, 5))), (3, 19)),
        (
            add(
                5,
                9,
                vec![Instruction::Jump {
                    direction: Direction::Forward,
                    distance: 1,
                }],
            ),
            (3, 20),
        ),
        (table(Command::Add, 0, TableType::Masked), (8, 4)),
        (table(Command::Add, 10, TableType::Masked), (8, 3)),
        (table(Command::Delete, 1, TableType::Masked), (8, 5)),
        (table(Command::Delete, 0, TableType::Masked), (8, 8)),
    ];
    for (at, (body, expected)) in rows.into_iter().enumerate() {
        assert_eq!(bed.error(body), expected, "row {at}");
    }
    let mut wide = flow(FlowCommand::Add, 5, 9, list());
    wide.matches[0].field.length = 31;
    assert_eq!(bed.error(Body::FlowMod(wide)), (4, 1));
    let mut other = flow(FlowCommand::Add, 5, 9, list());
    other.matches[0].field.offset = 241;
    assert_eq!(bed.error(Body::FlowMod(other)), (4, 6));
    bed.set(table(Command::Add, 0, TableType::Linear));
    let mut long = flow(FlowCommand::Add, 5, 9, list());
    long.table_type = TableType::Linear;
    long.matches[0].field.length = 129;
    assert_eq!(bed.error(Body::FlowMod(long)), (4, 1));
    // Nothing has changed.
    assert_eq!(
        bed.switch
            .forwarder
            .tables()
            .tables()
            .map(|(_, table)| table.len())
            .sum::<usize>(),
        2
    );
}

#[test]
fn a_table_that_an_instruction_names_stays() {
    let mut bed = Bed::new();
    two_flows(&mut bed);
    bed.set(table(Command::Add, 1, TableType::Masked, &[DESTINATION]));
    let go = Instruction::GotoTable {
        table: 1,
        offset: 0,
        fields: Vec::new(),
    };
    bed.set(Body::FlowMod(flow(FlowCommand::Add, 3, 3, vec![go])));
    let delete = || table(Command::Delete, 1, TableType::Masked, &[DESTINATION]);
    assert_eq!(bed.error(delete()), (8, 8));
    // Its packets miss there.
    assert_eq!(bed.frame(1, &ipv4(3)), []);
    assert!(matches!(&bed.replies()[..], [(_, Body::PacketIn(p))] if p.table == 1));
    bed.set(Body::FlowMod(flow(FlowCommand::Delete, 3, 3, Vec::new())));
    bed.set(delete());
}

#[test]
fn a_table_is_full_at_its_size() {
    let mut bed = Bed::new();
    bed.set(table(Command::Add, 0, TableType::Masked, &[DESTINATION]));
    let list = || vec![apply(vec![output(1)])];
    for index in 0..16 {
        bed.set(Body::FlowMod(flow(
            FlowCommand::Add,
            index,
            index as u8,
            list(),
        )));
    }
    let more = flow(FlowCommand::Add, 16, 16, list());
    assert_eq!(bed.error(Body::FlowMod(more)), (5, 11));
}

#[test]
fn a_packet_out_runs_its_actions() {
    let mut bed = Bed::new();
    two_flows(&mut bed);
    let packet = |in_port, actions: Vec<Action>| {
        Body::PacketOut(PacketOut {
            buffer: NO_BUFFER,
            in_port,
            actions,
            data: ipv4(1),
        })
    };
    bed.set(packet(0xFFFF_FFFD, vec![output(3), output(2)]));
    assert_eq!(bed.run(), [(3, ipv4(1)), (2, ipv4(1))]);
    bed.set(packet(2, vec![output(0xFFFF_FFFB)]));
    assert_eq!(bed.run(), [(1, ipv4(1)), (3, ipv4(1))]);
    bed.set(packet(0xFFFF_FFFD, vec![output(0xFFFF_FFFB), output(2)]));
    let all = [(1, ipv4(1)), (2, ipv4(1)), (3, ipv4(1)), (2, ipv4(1))];
    assert_eq!(bed.run(), all);
    bed.set(packet(2, vec![output(0xFFFF_FFF8)]));
    assert_eq!(bed.run(), [(2, ipv4(1))]);
    // To the tables.
    bed.set(packet(1, vec![output(0xFFFF_FFF9)]));
    let sent = bed.run();
    assert_eq!((sent[0].0, &sent[0].1[30..34]), (2, &[10, 2, 2, 2][..]));
    assert_eq!(bed.error(packet(1, vec![Action::Group(1)])), (2, 9));
}

#[test]
fn a_change_of_a_group_reaches_its_entries() {
    let mut bed = Bed::new();
    bed.set(table(Command::Add, 0, TableType::Masked, &[DESTINATION]));
    let group = |command, group_type, actions| {
        Body::GroupMod(GroupMod {
            command,
            group_type,
            id: 7,
            counter: 30,
            slot: 0,
            actions,
        })
    };
    bed.set(group(Command::Add, GroupType::Indirect, vec![output(2)]));
    let list = vec![apply(vec![Action::Group(7)])];
    bed.set(Body::FlowMod(flow(FlowCommand::Add, 1, 1, list)));
    assert_eq!(bed.frame(1, &ipv4(1)), [(2, ipv4(1))]);
    let all = vec![output(3), output(2), output(3)];
    bed.set(group(Command::Modify, GroupType::All, all));
    assert_eq!(
        bed.frame(1, &ipv4(1)),
        [(3, ipv4(1)), (2, ipv4(1)), (3, ipv4(1))]
    );
    // One of them, always the same for the same packet.
    bed.set(group(
        Command::Modify,
        GroupType::Select,
        vec![output(2), output(3)],
    ));
    let chosen = bed.frame(1, &ipv4(1));
    assert_eq!(chosen.len(), 1);
    assert_eq!(bed.frame(1, &ipv4(1)), chosen);
    // The first live port.
    bed.set(group(
        Command::Modify,
        GroupType::FastFailover,
        vec![output(2), output(3)],
    ));
    assert_eq!(bed.frame(1, &ipv4(1)), [(2, ipv4(1))]);
    bed.switch.set_link(2, false).unwrap();
    assert_eq!(bed.frame(1, &ipv4(1)), [(3, ipv4(1))]);
    // The change of the port.
    assert_eq!(bed.replies().len(), 1);
    assert_eq!(
        bed.error(group(Command::Delete, GroupType::All, Vec::new())),
        (6, 9)
    );
    assert_eq!(bed.switch.forwarder.counter(30).packets, 6);
}

#[test]
fn a_change_of_a_group_keeps_its_entries_within_the_limit_of_checksums() {
    let mut bed = Bed::new();
    bed.set(table(Command::Add, 0, TableType::Masked, &[DESTINATION]));
    let sum = |words: u16| Action::CalculateChecksum {
        checksum_place: Place::Packet,
        checksum_offset: 0,
        checksum_length: 8,
        data_place: Place::Packet,
        data_offset: 0,
        data_length: 8 * words,
    };
    let group = |command, actions| {
        Body::GroupMod(GroupMod {
            command,
            group_type: GroupType::All,
            id: 7,
            counter: 0,
            slot: 0,
            actions,
        })
    };
    bed.set(group(Command::Add, vec![output(2)]));
    // All but 100 of the 13,824 words of a list.
    let list = vec![
        apply(vec![sum(4_608), sum(4_608)]),
        apply(vec![sum(4_508), Action::Group(7)]),
    ];
    bed.set(Body::FlowMod(flow(FlowCommand::Add, 1, 1, list)));
    let refused = bed.error(group(Command::Modify, vec![sum(101)]));
    assert_eq!(refused, (6, 12));
    bed.set(group(Command::Modify, vec![sum(100)]));
}

#[test]
fn a_meter_drops_what_is_above_its_rate() {
    let mut bed = Bed::new();
    bed.set(table(Command::Add, 0, TableType::Masked, &[DESTINATION]));
    let meter = |command, rate| {
        Body::MeterMod(MeterMod {
            command,
            slot: 0,
            id: 3,
            rate,
        })
    };
    bed.set(meter(Command::Add, 8));
    let list = vec![Instruction::Meter(3), apply(vec![output(2)])];
    bed.set(Body::FlowMod(flow(FlowCommand::Add, 1, 1, list)));
    // The burst is one longest packet: 9,216 bytes are 144 frames.
    let passed: usize = (0..200).map(|_| bed.frame(1, &ipv4(1)).len()).sum();
    assert_eq!(passed, 144);
    // 1,000 bytes a second.
    bed.wait(1);
    let passed: usize = (0..200).map(|_| bed.frame(1, &ipv4(1)).len()).sum();
    assert_eq!(passed, 15);
    bed.set(meter(Command::Modify, 0));
    let passed: usize = (0..200).map(|_| bed.frame(1, &ipv4(1)).len()).sum();
    assert_eq!(passed, 200);
    assert_eq!(bed.error(meter(Command::Delete, 0)), (12, 0));
}

#[test]
fn a_field_outside_the_frame_is_reported_once_a_second() {
    let mut bed = Bed::new();
    two_flows(&mut bed);
    for _ in 0..5 {
        assert_eq!(bed.frame(1, &ipv4(1)[..33]), []);
    }
    let replies = bed.replies();
    assert!(matches!(&replies[..], [(_, Body::Error(f))] if (f.kind, f.code) == (14, 0x1001)));
    bed.wait(1);
    bed.frame(1, &ipv4(1)[..33]);
    assert_eq!(bed.replies().len(), 1);
    assert_eq!(bed.switch.forwarder.faults(pof::Fault::FieldOutside), 6);
}

#[test]
fn a_list_that_loops_ends_by_its_work_budget() {
    let mut bed = Bed::new();
    bed.set(table(Command::Add, 0, TableType::Masked, &[DESTINATION]));
    let back = Instruction::Jump {
        direction: Direction::Backward,
        distance: 2,
    };
    let list = vec![apply(vec![Action::Counter(9)]), back];
    bed.set(Body::FlowMod(flow(FlowCommand::Add, 1, 1, list)));
    assert_eq!(bed.frame(1, &ipv4(1)), []);
    let dropped = bed
        .switch
        .forwarder
        .device()
        .ledger()
        .dropped(exec::DropReason::WorkBudget);
    assert_eq!(dropped, 1);
}

#[test]
fn a_slave_reads_but_does_not_write() {
    let mut bed = Bed::new();
    let change = |role, generation| Body::RoleRequest(RoleChange { role, generation });
    let reply = |role, generation| Body::RoleReply(RoleChange { role, generation });
    assert_eq!(
        bed.ask(1, change(Role::Slave, 5)),
        [(1, reply(Role::Slave, 5))]
    );
    let add = table(Command::Add, 0, TableType::Masked, &[DESTINATION]);
    assert_eq!(bed.error(add.clone()), (1, 10));
    assert_eq!(
        bed.ask(2, Body::QueryAllRequest(0)),
        [(2, Body::QueryAllFin)]
    );
    assert_eq!(bed.error(change(Role::Master, 4)), (11, 0));
    assert_eq!(
        bed.ask(3, change(Role::Master, 6)),
        [(3, reply(Role::Master, 6))]
    );
    bed.set(add);
}

#[test]
fn there_is_one_master_and_the_others_read() {
    let mut bed = Bed::new();
    let mut other = Session::new(SessionId(1), &bed.switch);
    let mut ask_other = |bed: &mut Bed, body: Body| {
        let hello = encode(&Message {
            xid: 0,
            body: Body::Hello,
        });
        other.receive(&hello, &mut bed.switch);
        other.take_output();
        other.receive(&encode(&Message { xid: 7, body }), &mut bed.switch);
        let output = other.take_output();
        (!output.is_empty()).then(|| decode(&output).unwrap().body)
    };
    let change = |role, generation| Body::RoleRequest(RoleChange { role, generation });
    let add = |id| table(Command::Add, id, TableType::Masked, &[DESTINATION]);
    bed.ask(1, change(Role::Master, 1));
    // Another controller takes over, so the first one may only read.
    let taken = ask_other(&mut bed, change(Role::Master, 2));
    assert_eq!(
        taken,
        Some(Body::RoleReply(RoleChange {
            role: Role::Master,
            generation: 2
        }))
    );
    assert_eq!(bed.error(add(0)), (1, 10));
    assert_eq!(ask_other(&mut bed, add(0)), None);
    let query = table(Command::Query, 0, TableType::Masked, &[DESTINATION]);
    assert!(matches!(bed.ask(1, query)[..], [(1, Body::TableMod(_))]));
    let role = bed.ask(1, change(Role::NoChange, 0));
    assert_eq!(
        role,
        [(
            1,
            Body::RoleReply(RoleChange {
                role: Role::Slave,
                generation: 2
            })
        )]
    );
    // Its number is of before the other one's.
    assert_eq!(bed.error(change(Role::Master, 1)), (11, 0));
    // Packets go to the master, changes of ports to all.
    bed.frame(1, &ipv4(9));
    assert_eq!(bed.replies(), []);
    bed.switch.set_link(2, false).unwrap();
    bed.run();
    assert!(matches!(bed.replies()[..], [(_, Body::PortStatus(status))] if status.port.state == 1));
    other.leave(&mut bed.switch);
    assert_eq!(bed.error(add(1)), (1, 10));
    bed.ask(1, change(Role::Master, 3));
    bed.set(add(1));
}

#[test]
fn a_controller_switches_ports_off_and_on() {
    let mut bed = Bed::new();
    let mut port = *bed.switch.ports().next().unwrap();
    let set = |port: Port| Body::PortMod(PortStatus { reason: 2, port });
    port.config = 1;
    let replies = bed.ask(1, set(port));
    assert_eq!(replies, []);
    assert!(!bed.switch.receives(1) && !bed.switch.sends(1) && bed.switch.receives(2));
    bed.run();
    let told = bed.replies();
    assert!(
        matches!(told[..], [(_, Body::PortStatus(PortStatus { reason: 2, port }))]
        if (port.config, port.state) == (1, 0))
    );
    port.config = 1 << 6;
    bed.set(set(port));
    assert!(bed.switch.receives(1) && bed.switch.sends(1));
    bed.frame(1, &ipv4(9));
    // The change of the port, but no packet-in.
    assert!(matches!(bed.replies()[..], [(_, Body::PortStatus(_))]));
    port.config = 1 << 9;
    assert_eq!(bed.error(set(port)), (7, 0));
    port.id = 9;
    assert_eq!(bed.error(set(port)), (7, 1));
}

#[test]
fn query_all_makes_the_state_it_was_made_of() {
    let mut bed = Bed::new();
    two_flows(&mut bed);
    bed.set(table(
        Command::Add,
        2,
        TableType::LongestPrefix,
        &[DESTINATION],
    ));
    let replies = bed.ask(9, Body::QueryAllRequest(0xFFFF));
    let mut copy = Bed::new();
    for (_, body) in &replies {
        match body.clone() {
            Body::TableMod(table) => copy.set(Body::TableMod(TableMod {
                command: Command::Add,
                ..table
            })),
            Body::FlowMod(flow) => copy.set(Body::FlowMod(FlowMod {
                command: FlowCommand::Add,
                ..flow
            })),
            Body::CounterReply(_) | Body::QueryAllFin => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(copy.ask(9, Body::QueryAllRequest(0xFFFF)), replies);
    assert_eq!(
        copy.switch.forwarder.tables(),
        bed.switch.forwarder.tables()
    );
}

#[test]
fn a_session_that_does_not_begin_with_hello_is_closed() {
    let options = ForwarderOptions {
        on_miss: OnMiss::Drop,
        ..ForwarderOptions::default()
    };
    let mut switch = switch_of(options, 1, Vec::new());
    let starts = [
        encode(&Message {
            xid: 3,
            body: Body::FeaturesRequest,
        }),
        vec![5, 0, 0, 8, 0, 0, 0, 3],
        vec![4, 0, 0, 0, 0, 0, 0, 3],
    ];
    for start in starts {
        let mut session = Session::new(SessionId(0), &switch);
        session.receive(&start, &mut switch);
        assert_eq!(session.phase(), Phase::Closed, "{start:?}");
    }
}

#[test]
fn messages_of_a_switch_and_of_other_dialects_are_bad_types() {
    let mut bed = Bed::new();
    assert_eq!(bed.error(Body::BarrierReply), (1, 1));
    for kind in [36, 101, 102] {
        let bytes = [4, kind, 0, 8, 0, 0, 0, 6];
        bed.session.receive(&bytes, &mut bed.switch);
        let replies = bed.replies();
        assert!(matches!(&replies[..], [(6, Body::Error(f))] if (f.kind, f.code) == (1, 1)));
    }
    assert_eq!(
        bed.ask(1, Body::EchoRequest(vec![1, 2])),
        [(1, Body::EchoReply(vec![1, 2]))]
    );
}

#[test]
fn tables_are_made_and_deleted_under_traffic() {
    let mut bed = Bed::new();
    two_flows(&mut bed);
    for round in 0..40u16 {
        // The same table with another key each time.
        let field = Field::packet(240, 8 + round % 3 * 8);
        let one = Match {
            field,
            ..Match::default()
        };
        let entry = |command, instructions| {
            Body::FlowMod(FlowMod {
                table: 1,
                matches: vec![one],
                ..flow(command, 0, 0, instructions)
            })
        };
        let go = Instruction::GotoTable {
            table: 1,
            offset: 0,
            fields: Vec::new(),
        };
        bed.set(table(Command::Add, 1, TableType::Masked, &[field]));
        bed.set(entry(FlowCommand::Add, vec![apply(vec![output(2)])]));
        bed.set(Body::FlowMod(flow(FlowCommand::Add, 5, 5, vec![go])));
        assert_eq!(bed.frame(1, &ipv4(5)), [(2, ipv4(5))]);
        bed.set(Body::FlowMod(flow(FlowCommand::Delete, 5, 5, Vec::new())));
        bed.set(entry(FlowCommand::Delete, Vec::new()));
        bed.set(table(Command::Delete, 1, TableType::Masked, &[field]));
        assert_eq!(bed.frame(1, &ipv4(1)).len(), 1);
        // Two entries have gone.
        assert_eq!(bed.replies().len(), 2);
    }
    assert_eq!(bed.switch.forwarder.counter(1).packets, 80);
}

#[test]
fn too_many_shapes_are_refused_and_leave_what_there_is() {
    let mut options = ForwarderOptions::default();
    options.limits.shapes = 2;
    let mut switch = switch_of(options, 1, vec![pof::port(1, 2, "eth")]);
    let mut session = Session::new(SessionId(0), &switch);
    let mut bodies = vec![
        Body::Hello,
        table(Command::Add, 0, TableType::Masked, &[DESTINATION]),
    ];
    for copies in 1..4 {
        let list = vec![apply(vec![output(2); copies])];
        let index = copies as u32;
        bodies.push(Body::FlowMod(flow(
            FlowCommand::Add,
            index,
            copies as u8,
            list,
        )));
    }
    session.take_output();
    for body in bodies {
        session.receive(&encode(&Message { xid: 1, body }), &mut switch);
    }
    let refused = decode(&session.take_output()).unwrap().body;
    assert!(matches!(refused, Body::Error(f) if (f.kind, f.code) == (5, 1)));
    switch
        .forwarder
        .device()
        .receive(PortId(1), &ipv4(2))
        .unwrap();
    switch.forwarder.device().step(Nanos(1));
    let mut sent = 0;
    switch.drain(|_, _| sent += 1);
    assert_eq!(sent, 2);
}

/// Messages of which each byte matters.
fn seeds() -> Vec<Body> {
    let field = |offset, length| Field::packet(offset, length);
    let lists = [
        vec![
            Instruction::WriteMetadata {
                offset: 50,
                length: 16,
                value: left(&[1, 2]),
            },
            Instruction::MovePacketOffset {
                direction: Direction::Forward,
                distance: Argument::Field(field(8, 4)),
            },
            apply(vec![
                Action::AddField {
                    id: 0,
                    offset: 16,
                    length: 24,
                    value: left(&[1, 2, 3]),
                },
                Action::DeleteField {
                    offset: 8,
                    length: Argument::Field(field(0, 5)),
                },
                output(2),
            ]),
        ],
        vec![
            apply(vec![
                Action::CalculateChecksum {
                    checksum_place: Place::Packet,
                    checksum_offset: 192,
                    checksum_length: 16,
                    data_place: Place::Packet,
                    data_offset: 112,
                    data_length: 160,
                },
                Action::PacketIn { reason: 9 },
            ]),
            Instruction::WriteActions(vec![output(1), Action::Counter(3)]),
            Instruction::Branch {
                left: field(0, 8),
                right: Argument::Immediate(0),
                skip: 2,
            },
            Instruction::SetPacketOffset(Argument::Immediate(14)),
            Instruction::GotoTable {
                table: 1,
                offset: 2,
                fields: Vec::new(),
            },
        ],
        vec![
            Instruction::CalculateField {
                operation: Calculation::LeftShift,
                target: field(40, 20),
                source: Argument::Field(Field::metadata(0, 16)),
            },
            Instruction::Jump {
                direction: Direction::Backward,
                distance: 1,
            },
        ],
    ];
    let mut bodies: Vec<Body> = (0..2)
        .map(|id| table(Command::Add, id, TableType::Masked, &[DESTINATION]))
        .collect();
    for (index, list) in lists.into_iter().enumerate() {
        let index = index as u32;
        bodies.push(Body::FlowMod(flow(
            FlowCommand::Add,
            index,
            index as u8,
            list,
        )));
    }
    bodies
}

#[test]
fn new_shapes_that_wait_make_one_program() {
    let mut bed = Bed::new();
    bed.set(table(Command::Add, 0, TableType::Masked, &[DESTINATION]));
    let before = bed.switch.forwarder.programs();
    let lists = (0..6).map(|count| {
        let index = u32::from(count);
        let actions = vec![output(2); 1 + usize::from(count)];
        flow(FlowCommand::Add, index, count, vec![apply(actions)])
    });
    let mut flows: Vec<FlowMod> = lists.collect();
    // One is refused, and its shape does no harm.
    flows[3].index = 999;
    let bytes = |flow: &FlowMod| {
        let body = Body::FlowMod(flow.clone());
        encode(&Message { xid: 5, body })
    };
    let text: Vec<u8> = flows.iter().flat_map(bytes).collect();
    bed.session.receive(&text, &mut bed.switch);
    let replies = bed.replies();
    assert!(
        matches!(&replies[..], [(5, Body::Error(failure))] if (failure.kind, failure.code) == (5, 11))
    );
    assert_eq!(bed.switch.forwarder.programs(), before + 1);
    assert_eq!(bed.frame(1, &ipv4(5)).len(), 6);
    assert_eq!(bed.frame(1, &ipv4(3)).len(), 0);
}

#[test]
fn long_answers_wait_for_the_controller() {
    let mut bed = Bed::new();
    let Body::TableMod(table) = table(Command::Add, 0, TableType::Masked, &[DESTINATION]) else {
        panic!();
    };
    let size = 2_000;
    bed.set(Body::TableMod(TableMod { size, ..table }));
    for index in 0..size {
        let mut flow = flow(FlowCommand::Add, index, 0, vec![apply(vec![output(2)])]);
        flow.counter = 0;
        flow.matches[0].value = left(&index.to_be_bytes());
        bed.set(Body::FlowMod(flow));
    }
    for request in [
        Body::QueryAllRequest(0),
        Body::MultipartRequest(StatsRequest::Flows {
            table: StatsRequest::ALL,
            cookie: 0,
            cookie_mask: 0,
        }),
    ] {
        let barrier = encode(&Message {
            xid: 9,
            body: Body::BarrierRequest,
        });
        let request = encode(&Message {
            xid: 8,
            body: request,
        });
        bed.session
            .receive(&[request, barrier].concat(), &mut bed.switch);
        let mut flows = 0;
        let mut last = None;
        let mut parts = 0;
        while last != Some(Body::BarrierReply) {
            // It holds little, however long the answer is.
            for (_, body) in bed.replies() {
                flows += match &body {
                    Body::FlowMod(_) => 1,
                    Body::MultipartReply(StatsReply {
                        stats: Stats::Flows(flows),
                        ..
                    }) => flows.len(),
                    _ => 0,
                };
                last = Some(body);
            }
            parts += 1;
            bed.session.receive(&[], &mut bed.switch);
        }
        assert_eq!(flows, size as usize);
        assert!(parts > 3, "{parts}");
    }
}

#[test]
fn statistics_of_one_entry_among_thousands_are_one_message() {
    let mut bed = Bed::new();
    let Body::TableMod(table) = table(Command::Add, 0, TableType::Masked, &[DESTINATION]) else {
        panic!();
    };
    let size = 5_000;
    bed.set(Body::TableMod(TableMod { size, ..table }));
    for index in 0..size {
        let mut flow = flow(FlowCommand::Add, index, 0, vec![apply(vec![output(2)])]);
        flow.counter = 0;
        flow.cookie = u64::from(index);
        flow.matches[0].value = left(&index.to_be_bytes());
        bed.set(Body::FlowMod(flow));
    }
    let mut ask = |cookie| {
        let request = StatsRequest::Flows {
            table: StatsRequest::ALL,
            cookie,
            cookie_mask: u64::MAX,
        };
        let replies = bed.ask(9, Body::MultipartRequest(request));
        let part = |(_, body)| match body {
            Body::MultipartReply(StatsReply {
                has_more,
                stats: Stats::Flows(flows),
            }) => (
                has_more,
                flows.iter().map(|flow| flow.flow.cookie).collect(),
            ),
            other => panic!("{other:?}"),
        };
        replies.into_iter().map(part).collect::<Vec<_>>()
    };
    assert_eq!(ask(4_990), [(false, vec![4_990])]);
    assert_eq!(ask(7), [(true, vec![7]), (false, vec![])]);
    assert_eq!(ask(u64::MAX), [(false, vec![])]);
}

#[test]
fn a_table_in_use_names_the_flow_and_a_mask_in_an_exact_table_is_refused() {
    let mut bed = Bed::new();
    two_flows(&mut bed);
    let delete = table(Command::Delete, 0, TableType::Masked, &[DESTINATION]);
    let replies = bed.ask(6, delete);
    let [(6, Body::Error(failure))] = &replies[..] else {
        panic!("{replies:?}");
    };
    assert!(failure.text.ends_with("it has flow 0"), "{}", failure.text);
    bed.set(table(Command::Add, 0, TableType::Exact, &[DESTINATION]));
    let goto = Instruction::GotoTable {
        table: 20,
        offset: 0,
        fields: Vec::new(),
    };
    bed.set(Body::FlowMod(flow(FlowCommand::Add, 7, 7, vec![goto])));
    let replies = bed.ask(
        6,
        table(Command::Delete, 0, TableType::Exact, &[DESTINATION]),
    );
    let [(6, Body::Error(failure))] = &replies[..] else {
        panic!("{replies:?}");
    };
    let text = &failure.text;
    assert!(text.ends_with("flow 7 of table mm/0 leads to it"), "{text}");
    let mut exact = flow(FlowCommand::Add, 0, 1, vec![apply(vec![output(2)])]);
    exact.table_type = TableType::Exact;
    bed.set(Body::FlowMod(exact.clone()));
    exact.index = 1;
    exact.matches[0].mask = left(&[255, 255, 255]);
    assert_eq!(bed.error(Body::FlowMod(exact)), (4, 8));
}

#[test]
fn packets_to_ports_that_are_not_there_are_counted() {
    let mut bed = Bed::new();
    bed.set(table(Command::Add, 0, TableType::Masked, &[DESTINATION]));
    let list = vec![apply(vec![output(9), output(2), output(0xFFFF_FFFB)])];
    bed.set(Body::FlowMod(flow(FlowCommand::Add, 0, 1, list)));
    assert_eq!(bed.frame(1, &ipv4(1)).len(), 3);
    assert_eq!(bed.switch.portless(), 1);
    let ledger = bed.switch.forwarder.device().ledger();
    assert_eq!(ledger.sent, 3, "copies that wait are not sent");
    assert_eq!(ledger.dropped(exec::DropReason::NoSuchPort), 1);
}

#[test]
fn changed_messages_do_no_harm() {
    let mut random = support::rng::Rng::new(7);
    let mut below = |end: usize| random.below(end as u64) as usize;
    let seeds = seeds();
    let mut changes = 0;
    for _ in 0..30 {
        let mut bed = Bed::new();
        for body in &seeds {
            bed.ask(1, body.clone());
        }
        for _ in 0..40 {
            // Entries are modified, since their indices are in use.
            let body = match seeds[below(seeds.len())].clone() {
                Body::FlowMod(flow) => Body::FlowMod(FlowMod {
                    command: FlowCommand::Modify,
                    ..flow
                }),
                other => other,
            };
            let mut bytes = encode(&Message { xid: 1, body });
            for _ in 0..1 + below(3) {
                // The header and the parts of a message that mean something.
                let parts = [8..48, 48..90, 368..400, 376..470, 672..770, 976..1_010];
                let part = parts[below(parts.len())].clone();
                let at = (part.start + below(part.len())).min(bytes.len() - 1);
                bytes[at] = [0, 1, 2, 4, 8, 31, 255, below(256) as u8][below(8)];
            }
            bed.session.receive(&bytes, &mut bed.switch);
            changes += usize::from(bed.replies().is_empty());
            let mut frame = ipv4(below(4) as u8);
            frame.truncate(20 + below(45));
            bed.frame(1, &frame);
            bed.replies();
        }
    }
    assert!(changes > 100, "{changes}");
}
