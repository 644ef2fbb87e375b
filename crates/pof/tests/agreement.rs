//! The switch agrees with the reference evaluator on random tables, entries and frames.

mod reference;

use std::collections::BTreeMap;
use std::sync::Arc;

use exec::{DropReason, Engine};
use packet::{Nanos, PortId};
use pof::model::*;
use pof::wire::{Command, FlowCommand, FlowMod, GroupMod, TableMod};
use pof::{Event, Forwarder, ForwarderOptions};
use reference::Outcome;
use support::rng::Rng;

/// Ports of the switch.
const PORTS: [u16; 4] = [1, 2, 3, 4];

/// A random source with the choices that tests need.
struct Random(Rng);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        (self.0.bits() % u64::from(end)) as u32
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u32) as usize].clone()
    }

    fn value(&mut self) -> FieldValue {
        let mut value = [0; VALUE_BYTES];
        value.fill_with(|| self.below(256) as u8);
        value
    }
}

/// A random switch, in the two forms.
struct Case {
    reference: reference::Switch,
    tables: Vec<TableMod>,
    groups: Vec<GroupMod>,
    flows: Vec<FlowMod>,
}

/// Numbers of the tables that cases have: type, number in the type, number.
const TABLES: [(TableType, u8, u8); 5] = [
    (TableType::Masked, 0, 0),
    (TableType::Masked, 1, 1),
    (TableType::LongestPrefix, 0, 10),
    (TableType::Exact, 0, 20),
    (TableType::Linear, 0, 25),
];

/// Kind of cases.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Offsets and widths of whole bytes, no jumps.
    Plain,
    /// As `Plain`, and the packet offset is known at each table, and few fields are added and
    /// deleted: the packet's first bytes are headers of most programs.
    Fixed,
    /// Everything.
    Wild,
}

struct Generator {
    random: Random,
    kind: Kind,
    /// True if the current list may move the packet offset.
    moves: bool,
}

impl Generator {
    fn unit(&mut self) -> u16 {
        match self.kind != Kind::Wild || !self.random.one_in(4) {
            true => 8,
            false => 1,
        }
    }

    fn packet_field(&mut self, most: u16) -> Field {
        let unit = self.unit();
        let length = (1 + self.random.below((most / unit).max(1).into()) as u16) * unit;
        let offset = self.random.below(40) as u16 * unit;
        Field::packet(offset, length.min(most))
    }

    fn metadata_field(&mut self, most: u16) -> Field {
        let length = 1 + self.random.below(most.into()) as u16;
        let offset = self.random.below(80) as u16;
        Field::metadata(offset, length)
    }

    fn field(&mut self, most: u16) -> Field {
        match self.random.one_in(4) {
            true => self.metadata_field(most),
            false => self.packet_field(most),
        }
    }

    fn operand(&mut self) -> Argument {
        match self.random.one_in(2) {
            true => Argument::Immediate(self.random.below(300)),
            false => Argument::Field(self.field(32)),
        }
    }

    fn port(&mut self) -> Argument {
        match self.random.below(12) {
            0 => Argument::Immediate(0xFFFF_0000 | u32::from(port::IN_PORT)),
            1 => Argument::Immediate(0xFFFF_0000 | u32::from(port::FLOOD)),
            // The length of the packet, or its ingress port.
            2 => Argument::Field(Field::metadata(0, 16)),
            3 => Argument::Field(Field::metadata(16, 8)),
            _ => Argument::Immediate(self.random.pick(&PORTS).into()),
        }
    }

    fn action(&mut self, groups: bool) -> Action {
        let mut number = self.random.below(if groups { 12 } else { 11 });
        if self.kind == Kind::Fixed && (4..=6).contains(&number) && !self.random.one_in(6) {
            number = self.random.below(4);
        }
        match number {
            0 | 11 => Action::Output {
                port: self.port(),
                metadata_offset: self.random.below(60) as u16,
                metadata_length: match self.random.one_in(3) {
                    true => self.random.pick(&[8, 16, 39, 120, 300]),
                    false => 0,
                },
                packet_offset: match self.random.one_in(4) {
                    true => self.random.below(20) as u16,
                    false => 0,
                },
            },
            1 => Action::SetField(Match {
                field: self.field(128),
                value: self.random.value(),
                mask: match self.random.one_in(4) {
                    true => self.random.value(),
                    false => [0xFF; VALUE_BYTES],
                },
            }),
            2 => Action::SetFieldFromMetadata {
                field: self.packet_field(128),
                metadata_offset: self.random.below(100) as u16,
            },
            3 => Action::ModifyField {
                field: self.field(32),
                increment: self.random.0.bits() as i32,
            },
            4 | 5 => {
                let unit = self.unit();
                Action::AddField {
                    id: 7,
                    offset: self.random.below(200) as u16 / 8 * self.unit(),
                    length: (1 + self.random.below(u32::from(128 / unit))) * u32::from(unit),
                    value: self.random.value(),
                }
            }
            6 => {
                let unit = u32::from(self.unit());
                Action::DeleteField {
                    offset: self.random.below(200) as u16 / 8 * self.unit(),
                    length: match self.kind == Kind::Wild && self.random.one_in(4) {
                        true => Argument::Field(self.field(8)),
                        false => Argument::Immediate(self.random.below(12) * unit),
                    },
                }
            }
            7 => {
                let (data, width) = (self.field(300), self.random.pick(&[16, 16, 8, 32, 13]));
                let checksum = self.field(64);
                Action::CalculateChecksum {
                    checksum_place: checksum.place(),
                    checksum_offset: checksum.offset,
                    checksum_length: width,
                    data_place: data.place(),
                    data_offset: data.offset,
                    data_length: data.length,
                }
            }
            8 => match groups && self.random.one_in(2) {
                true => Action::Group(1),
                false => Action::Counter(1 + self.random.below(5)),
            },
            9 => Action::PacketIn {
                reason: self.random.below(256),
            },
            _ => match self.random.one_in(3) {
                true => Action::Drop { reason: 3 },
                false => Action::Counter(1 + self.random.below(5)),
            },
        }
    }

    fn instruction(&mut self, at: usize, length: usize) -> Instruction {
        let most = match self.kind {
            Kind::Plain => 7,
            Kind::Fixed => 6 + u32::from(self.moves),
            Kind::Wild => 16,
        };
        match self.random.below(most) {
            0..=2 => {
                let count = 1 + self.random.below(4);
                Instruction::ApplyActions((0..count).map(|_| self.action(true)).collect())
            }
            3 => {
                let field = self.metadata_field(128);
                Instruction::WriteMetadata {
                    offset: field.offset,
                    length: field.length,
                    value: self.random.value(),
                }
            }
            4 => {
                let (from, to) = (self.packet_field(128), self.metadata_field(128));
                Instruction::WriteMetadataFromPacket {
                    metadata_offset: to.offset,
                    packet_offset: from.offset,
                    length: from.length,
                }
            }
            5 => Instruction::CalculateField {
                operation: self.random.pick(&[
                    Calculation::Add,
                    Calculation::Subtract,
                    Calculation::LeftShift,
                    Calculation::RightShift,
                    Calculation::And,
                    Calculation::Or,
                    Calculation::Xor,
                    Calculation::Nor,
                ]),
                target: self.field(32),
                source: self.operand(),
            },
            6 => Instruction::MovePacketOffset {
                direction: self.direction(),
                distance: Argument::Immediate(match self.random.one_in(8) {
                    true => u32::MAX - self.random.below(20),
                    false => self.random.below(20),
                }),
            },
            7 => Instruction::MovePacketOffset {
                direction: self.direction(),
                distance: Argument::Field(self.field(5)),
            },
            8 => Instruction::SetPacketOffset(self.operand()),
            9 => Instruction::Compare {
                result: self.random.below(4) as u8,
                left: self.field(32),
                right: self.operand(),
            },
            10 => Instruction::Branch {
                left: self.field(8),
                right: self.operand(),
                skip: 1 + self.random.below((length - at) as u32),
            },
            11 => Instruction::Jump {
                direction: Direction::Forward,
                distance: self.random.below((length - at) as u32),
            },
            12 => Instruction::ConditionalJump {
                left: self.field(8),
                right: self.operand(),
                less: self.jump(at, length),
                equal: self.jump(at, length),
                greater: self.jump(at, length),
            },
            14 => {
                let count = 1 + self.random.below(4);
                Instruction::WriteActions((0..count).map(|_| self.action(true)).collect())
            }
            15 => Instruction::ClearActions,
            _ => Instruction::Jump {
                direction: Direction::Backward,
                distance: match self.random.one_in(8) {
                    true => 1 + self.random.below(at as u32 + 1),
                    false => 0,
                },
            },
        }
    }

    fn direction(&mut self) -> Direction {
        self.random
            .pick(&[Direction::Forward, Direction::Forward, Direction::Backward])
    }

    fn jump(&mut self, at: usize, length: usize) -> Jump {
        let distance = match self.random.one_in(6) {
            true => Argument::Field(self.field(3)),
            false => Argument::Immediate(1 + self.random.below((length - at) as u32)),
        };
        Jump {
            direction: Direction::Forward,
            distance,
        }
    }

    fn list(&mut self, position: usize) -> Vec<Instruction> {
        let length = match self.kind {
            Kind::Fixed => 1 + self.random.below(2) as usize,
            Kind::Plain | Kind::Wild => 1 + self.random.below(4) as usize,
        };
        self.moves = position + 1 >= TABLES.len();
        let mut list: Vec<_> = (0..length).map(|at| self.instruction(at, length)).collect();
        // Tables lead to later ones, so that most packets end.
        let next = position + 1 + self.random.below(2) as usize;
        if let Some((table_type, _, table)) = TABLES.get(next) {
            let offset = match self.random.below(3) {
                _ if self.kind == Kind::Fixed => 0,
                0 => 0,
                1 => self.random.below(15) as u16,
                _ => (self.random.below(5) as i16).wrapping_neg() as u16,
            };
            list.push(match table_type {
                TableType::Linear => Instruction::GotoDirectTable {
                    table: *table,
                    offset,
                    index: match self.random.one_in(2) {
                        true => Argument::Immediate(self.random.below(4)),
                        false => Argument::Field(self.field(2)),
                    },
                },
                _ => Instruction::GotoTable {
                    table: *table,
                    offset,
                    fields: Vec::new(),
                },
            });
        } else {
            let output = Action::Output {
                port: self.port(),
                metadata_offset: 0,
                metadata_length: 0,
                packet_offset: 0,
            };
            list.push(Instruction::ApplyActions(vec![output]));
        }
        list
    }

    fn matches(&mut self, table_type: TableType, fields: &[Field]) -> Vec<Match> {
        let total: u32 = fields.iter().map(|field| u32::from(field.length)).sum();
        let mut prefix = self.random.below(total.min(9) + 1);
        let one = |field: &Field| {
            let mut value = self.random.value();
            // Frames have small bytes, so that they match often.
            value.iter_mut().for_each(|byte| *byte &= 3);
            let mut mask = match self.random.below(3) {
                0 => [0; VALUE_BYTES],
                _ => self.random.value(),
            };
            if table_type == TableType::LongestPrefix {
                let ones = prefix.min(field.length.into());
                prefix -= ones;
                let bits = u128::MAX.checked_shl(128 - ones).unwrap_or(0);
                mask = bits.to_be_bytes();
            }
            if table_type == TableType::Exact {
                mask = [0xFF; VALUE_BYTES];
            }
            Match {
                field: *field,
                value,
                mask,
            }
        };
        fields.iter().map(one).collect()
    }

    fn case(&mut self) -> Case {
        let mut case = Case {
            reference: reference::Switch {
                ports: PORTS.to_vec(),
                ..reference::Switch::default()
            },
            tables: Vec::new(),
            groups: Vec::new(),
            flows: Vec::new(),
        };
        let group = (0..2).map(|_| self.action(false)).collect::<Vec<_>>();
        case.groups.push(GroupMod {
            command: Command::Add,
            group_type: GroupType::All,
            id: 1,
            counter: 9,
            slot: 0,
            actions: group.clone(),
        });
        let group = reference::Group {
            counter: 9,
            actions: group,
        };
        case.reference.groups.insert(1, group);
        for (table_type, id, number) in TABLES {
            let count = match table_type {
                TableType::Linear => 0,
                TableType::Exact => 1,
                _ => 1 + self.random.below(2),
            };
            let most = if table_type == TableType::Exact {
                8
            } else {
                40
            };
            let fields: Vec<Field> = (0..count).map(|_| self.field(most)).collect();
            case.tables.push(TableMod {
                command: Command::Add,
                id,
                table_type,
                size: 64,
                key_length: fields.iter().map(|field| field.length).sum(),
                slot: 0,
                name: ObjectName::new("t"),
                fields: fields.clone(),
            });
            case.reference.tables.insert(
                number,
                reference::Table {
                    table_type,
                    fields,
                    entries: Vec::new(),
                },
            );
        }
        for (position, (table_type, id, number)) in TABLES.into_iter().enumerate() {
            for index in 0..1 + self.random.below(3) {
                let fields = case.reference.tables[&number].fields.clone();
                let flow = FlowMod {
                    command: FlowCommand::Add,
                    counter: self.random.below(3) * 10,
                    cookie: self.random.0.bits(),
                    cookie_mask: 0,
                    table: id,
                    table_type,
                    idle_timeout: 0,
                    hard_timeout: 0,
                    // Priorities differ, so that one entry wins.
                    priority: (10 * index + self.random.below(5)) as u16,
                    index,
                    slot: 0,
                    matches: self.matches(table_type, &fields),
                    instructions: self.list(position),
                };
                case.flows.push(flow);
                let _ = number;
            }
        }
        case
    }

    fn frame(&mut self) -> Vec<u8> {
        let length = match self.random.below(4) {
            0 => self.random.below(40),
            1 => 60,
            2 => 64 + self.random.below(64),
            _ => 20 + self.random.below(300),
        };
        let byte = |_| match self.random.one_in(3) {
            true => self.random.below(256) as u8,
            false => self.random.below(4) as u8,
        };
        (0..length).map(byte).collect()
    }
}

/// Makes a switch of a case. Entries that it refuses are left out of the reference.
fn build(case: &mut Case, engine: Arc<dyn Engine>) -> Forwarder {
    let mut switch = Forwarder::new(engine, ForwarderOptions::default()).expect("an empty program");
    let ports = PORTS.map(|port| (port, true));
    switch.set_ports(&ports).expect("four ports");
    for table in &case.tables {
        switch.table_mod(table).expect("a table");
    }
    for group in &case.groups {
        if let Err(error) = switch.group_mod(group) {
            panic!("{error}: {group:?}");
        }
    }
    for table in case.reference.tables.values_mut() {
        table.entries.clear();
    }
    for flow in &case.flows {
        match switch.flow_mod(flow) {
            Ok(_) => {}
            Err(pof::wire::ErrorCode::FlowOverlap) => continue,
            Err(error) => panic!("{error}: {flow:?}"),
        }
        let number = switch
            .tables()
            .number(flow.table_type, flow.table)
            .expect("a table");
        let table = case.reference.tables.get_mut(&number.0).expect("a table");
        table.entries.push(reference::Entry {
            index: flow.index,
            priority: flow.priority,
            counter: flow.counter,
            cookie: flow.cookie,
            matches: flow.matches.clone(),
            instructions: flow.instructions.clone(),
        });
    }
    switch
}

/// Runs a frame on the switch.
fn run(switch: &mut Forwarder, port: u16, frame: &[u8], now: u64) -> Outcome {
    let before: BTreeMap<u32, _> = (1..21).map(|id| (id, switch.counter(id))).collect();
    let device = switch.device();
    device.receive(PortId(port.into()), frame).expect("a frame");
    device.step(Nanos(now));
    device
        .check_conservation()
        .expect("all packets are accounted for");
    let mut outcome = Outcome::default();
    let events = switch.drain(|port, bytes| outcome.sent.push((port, bytes.to_vec())));
    for event in events {
        match event {
            Event::PacketIn {
                reason,
                table,
                cookie,
                port,
                data,
            } => outcome
                .packet_ins
                .push((reason, table.0, cookie, port, data)),
            Event::Fault { error, table } => {
                outcome.faults.push((error.kind(), error.code(), table.0));
            }
            Event::Removed(_) | Event::Port(_) => panic!("{event:?}"),
        }
    }
    for (id, before) in before {
        let after = switch.counter(id);
        if after != before {
            let counted = (after.packets - before.packets, after.bytes - before.bytes);
            outcome.counters.insert(id, counted);
        }
    }
    outcome
}

/// Returns true if a packet that used up its work, by a loop or by its copies, did the first part
/// of what it should.
fn is_beginning(outcome: &Outcome, expected: &Outcome) -> bool {
    let counted = |id: &u32| expected.counters.get(id).copied().unwrap_or_default();
    let mut counters = outcome.counters.iter();
    expected.sent.starts_with(&outcome.sent)
        && expected.packet_ins.starts_with(&outcome.packet_ins)
        && expected.faults.starts_with(&outcome.faults)
        && counters.all(|(id, count)| count.0 <= counted(id).0 && count.1 <= counted(id).1)
}

fn check(kind: Kind, seeds: std::ops::Range<u64>, frames: u32, engine: fn() -> Arc<dyn Engine>) {
    let (mut ran, mut sent, mut faults, mut cut) = (0, 0, 0, 0);
    let (mut cases, mut with_headers) = (0, 0);
    let seeds = more_seeds(seeds);
    println!("seeds {seeds:?}");
    for seed in seeds {
        let mut generator = Generator {
            random: Random(Rng::new(seed)),
            kind,
            moves: false,
        };
        let mut case = generator.case();
        let mut switch = build(&mut case, engine());
        cases += 1;
        with_headers += u32::from(!switch.device().program().headers.is_empty());
        let mut exhausted = 0;
        for frame in 0..frames {
            let port = generator.random.pick(&PORTS);
            let bytes = generator.frame();
            let expected = case.reference.run(port, &bytes);
            if expected.is_endless {
                continue;
            }
            let outcome = run(&mut switch, port, &bytes, frame.into());
            let ledger = switch.device().ledger();
            let ended = ledger.dropped(DropReason::WorkBudget);
            let is_cut = std::mem::replace(&mut exhausted, ended) < ended;
            let is_equal = match is_cut {
                true => is_beginning(&outcome, &expected),
                false => outcome == expected,
            };
            cut += usize::from(is_cut);
            assert!(
                is_equal,
                "seed {seed}, frame {frame} at port {port}: {bytes:02x?}\n\
                 expected {expected:02x?}\nfound    {outcome:02x?}\n{:#?}\n{ledger:?}",
                case.flows
            );
            ran += 1;
            sent += outcome.sent.len();
            faults += outcome.faults.len();
        }
    }
    assert!(sent > ran / 50, "{sent} copies of {ran} packets");
    assert!(
        cut * 1_000 <= ran,
        "{cut} of {ran} packets used up their work"
    );
    assert!(
        kind != Kind::Fixed || 2 * with_headers > cases,
        "{with_headers} of {cases} programs have headers"
    );
    println!("{with_headers} of {cases} programs have headers");
    println!("{ran} packets, {sent} copies sent, {faults} faults, {cut} ended by the work budget");
}

/// Returns the seeds, or as many times more of them as `POF_CASES` says.
fn more_seeds(seeds: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let times = std::env::var("POF_CASES")
        .ok()
        .and_then(|times| times.parse().ok());
    let count = (seeds.end - seeds.start) * times.unwrap_or(1);
    match times {
        None => seeds,
        Some(_) => 1_000 * seeds.start + 10_000..1_000 * seeds.start + 10_000 + count,
    }
}

fn interp() -> Arc<dyn Engine> {
    Arc::new(interp::Interp)
}

fn jit() -> Arc<dyn Engine> {
    Arc::new(jit::Jit::new(Arc::new(interp::Interp)))
}

#[test]
fn plain_lists_do_on_interp_what_the_reference_does() {
    check(Kind::Plain, 0..60, 40, interp);
}

#[test]
fn wild_lists_do_on_interp_what_the_reference_does() {
    check(Kind::Wild, 1_000..1_030, 30, interp);
}

#[test]
fn plain_lists_do_on_jit_what_the_reference_does() {
    check(Kind::Plain, 2_000..2_012, 40, jit);
}

#[test]
fn wild_lists_do_on_jit_what_the_reference_does() {
    check(Kind::Wild, 3_000..3_012, 30, jit);
}

#[test]
fn fixed_lists_do_on_interp_what_the_reference_does() {
    check(Kind::Fixed, 4_000..4_040, 40, interp);
}

#[test]
fn fixed_lists_do_on_jit_what_the_reference_does() {
    check(Kind::Fixed, 5_000..5_008, 40, jit);
}
