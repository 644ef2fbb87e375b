//! Flows of POF tables: random tables, entries and frames.

mod common;
#[path = "shared/pof_role.rs"]
mod pof_role;

use std::sync::Arc;

use common::{Rig, Tally};
use offload::{Edit, Step, Summed};
use packet::PortId;
use pof::model::*;
use pof::wire::{Command, FlowCommand, FlowMod, GroupMod, TableMod};
use pof::{Forwarder, ForwarderOptions, OnMiss};
use pof_role::pof_role;
use support::rng::Rng;
use switch::{Device, DeviceConfig};

const PORTS: [u16; 4] = [1, 2, 3, 4];

/// Type, number in the type.
const TABLES: [(TableType, u8); 4] = [
    (TableType::Masked, 0),
    (TableType::LongestPrefix, 0),
    (TableType::Exact, 0),
    (TableType::Linear, 0),
];

struct Generator {
    rng: Rng,
    /// True for fields of any bits, jumps and operands from the packet.
    is_wild: bool,
}

impl Generator {
    fn below(&mut self, end: u32) -> u32 {
        self.rng.below(end.into()) as u32
    }

    fn value(&mut self) -> FieldValue {
        let mut value = [0; VALUE_BYTES];
        self.rng.fill(&mut value);
        value
    }

    fn field(&mut self, most: u16) -> Field {
        if self.below(5) == 0 {
            let length = 1 + self.below(most.into()) as u16;
            return Field::metadata(self.below(60) as u16, length);
        }
        let unit = if self.is_wild && self.below(4) == 0 {
            1
        } else {
            8
        };
        let length = (1 + self.below((most / unit).into()) as u16) * unit;
        Field::packet(self.below(24) as u16 * unit, length)
    }

    fn operand(&mut self) -> Argument {
        match self.below(3) {
            0 if self.is_wild => Argument::Field(self.field(16)),
            _ => Argument::Immediate(self.below(300)),
        }
    }

    fn output(&mut self) -> Action {
        let port = match self.below(12) {
            0 => 0xFFFF_0000 | u32::from(port::FLOOD),
            1 => 0xFFFF_0000 | u32::from(port::IN_PORT),
            _ => PORTS[self.rng.index(PORTS.len())].into(),
        };
        Action::Output {
            port: Argument::Immediate(port),
            metadata_offset: 0,
            metadata_length: if self.below(6) == 0 { 16 } else { 0 },
            packet_offset: if self.below(6) == 0 { 2 } else { 0 },
        }
    }

    fn action(&mut self) -> Action {
        match self.below(if self.is_wild { 12 } else { 9 }) {
            0 => self.output(),
            1 | 2 => Action::SetField(Match {
                field: self.field(64),
                value: self.value(),
                mask: if self.below(4) == 0 {
                    self.value()
                } else {
                    [0xFF; VALUE_BYTES]
                },
            }),
            3 => Action::ModifyField {
                field: Field::packet(8 * self.below(24) as u16, 8),
                increment: self.below(6) as i32 - 3,
            },
            4 => Action::AddField {
                id: 7,
                offset: 8 * self.below(20) as u16,
                length: 8 * (1 + self.below(8)),
                value: self.value(),
            },
            5 => Action::DeleteField {
                offset: 8 * self.below(20) as u16,
                length: Argument::Immediate(8 * self.below(6)),
            },
            6 => {
                let data =
                    Field::packet(8 * self.below(20) as u16, 16 * (2 + self.below(9)) as u16);
                let within = self.below(u32::from(data.length) / 16) as u16;
                Action::CalculateChecksum {
                    checksum_place: Place::Packet,
                    checksum_offset: data.offset + 16 * within,
                    checksum_length: 16,
                    data_place: Place::Packet,
                    data_offset: data.offset,
                    data_length: data.length,
                }
            }
            7 => Action::Counter(1 + self.below(5)),
            8 if self.below(6) == 0 => Action::Drop { reason: 3 },
            8 => Action::Counter(1 + self.below(5)),
            9 => Action::ModifyField {
                field: self.field(32),
                increment: self.rng.bits() as i32,
            },
            10 => Action::SetFieldFromMetadata {
                field: self.field(64),
                metadata_offset: self.below(80) as u16,
            },
            _ => Action::Group(1),
        }
    }

    fn instruction(&mut self, at: usize, length: usize) -> Instruction {
        match self.below(if self.is_wild { 9 } else { 5 }) {
            0..=2 => {
                let count = 1 + self.below(3);
                Instruction::ApplyActions((0..count).map(|_| self.action()).collect())
            }
            3 => Instruction::WriteMetadataFromPacket {
                metadata_offset: self.below(60) as u16,
                packet_offset: 8 * self.below(30) as u16,
                length: 8 * (1 + self.below(8)) as u16,
            },
            4 => Instruction::MovePacketOffset {
                direction: Direction::Forward,
                distance: Argument::Immediate(self.below(12)),
            },
            5 => Instruction::CalculateField {
                operation: [
                    Calculation::Add,
                    Calculation::Subtract,
                    Calculation::LeftShift,
                    Calculation::RightShift,
                    Calculation::And,
                    Calculation::Or,
                    Calculation::Xor,
                    Calculation::Nor,
                ][self.rng.index(8)],
                target: self.field(32),
                source: self.operand(),
            },
            6 => Instruction::Branch {
                left: self.field(8),
                right: self.operand(),
                skip: 1 + self.below((length - at) as u32),
            },
            7 => Instruction::MovePacketOffset {
                direction: Direction::Forward,
                distance: Argument::Field(self.field(4)),
            },
            _ => Instruction::Jump {
                direction: Direction::Forward,
                distance: self.below((length - at) as u32),
            },
        }
    }

    fn list(&mut self, position: usize) -> Vec<Instruction> {
        let length = 1 + self.below(3) as usize;
        let mut list: Vec<_> = (0..length).map(|at| self.instruction(at, length)).collect();
        let next = position + 1 + self.below(2) as usize;
        list.push(match TABLES.get(next) {
            Some((TableType::Linear, _)) => Instruction::GotoDirectTable {
                table: 25,
                offset: 0,
                index: match self.below(2) {
                    0 => Argument::Immediate(self.below(3)),
                    _ => Argument::Field(self.field(2)),
                },
            },
            Some((table_type, id)) => Instruction::GotoTable {
                table: number_of(*table_type, *id),
                offset: self.below(3) as u16,
                fields: Vec::new(),
            },
            None => Instruction::ApplyActions(vec![self.output()]),
        });
        list
    }

    fn matches(&mut self, table_type: TableType, fields: &[Field], frame: &[u8]) -> Vec<Match> {
        let total: u32 = fields.iter().map(|field| u32::from(field.length)).sum();
        let mut prefix = self.below(total + 1);
        let one = |field: &Field| {
            let mut value = self.value();
            if field.place() == Place::Packet && self.below(4) > 0 {
                value = bits_at(frame, field.offset.into());
            }
            let mut mask = match self.below(3) {
                0 => [0; VALUE_BYTES],
                1 => [0xFF; VALUE_BYTES],
                _ => self.value(),
            };
            if table_type == TableType::LongestPrefix {
                let ones = prefix.min(field.length.into());
                prefix -= ones;
                mask = u128::MAX.checked_shl(128 - ones).unwrap_or(0).to_be_bytes();
            }
            Match {
                field: *field,
                value,
                mask,
            }
        };
        fields.iter().map(one).collect()
    }

    /// Builds a switch with random tables and entries.
    fn switch(&mut self, frames: &[(PortId, Vec<u8>)]) -> Forwarder {
        let options = ForwarderOptions {
            on_miss: match self.below(8) {
                0 => OnMiss::PacketIn,
                _ => OnMiss::Drop,
            },
            ..ForwarderOptions::default()
        };
        let mut switch = Forwarder::new(Arc::new(interp::Interp), options).expect("no tables");
        switch
            .set_ports(&PORTS.map(|port| (port, true)))
            .expect("ports");
        let group = GroupMod {
            command: Command::Add,
            group_type: [GroupType::All, GroupType::Select][self.rng.index(2)],
            id: 1,
            counter: 9,
            slot: 0,
            actions: vec![self.output(), self.output()],
        };
        switch.group_mod(&group).expect("a group");
        let mut keys = Vec::new();
        for (table_type, id) in TABLES {
            let count = match table_type {
                TableType::Linear => 0,
                TableType::Exact => 1,
                _ => 1 + self.below(2),
            };
            let most = if table_type == TableType::Exact {
                16
            } else {
                48
            };
            let fields: Vec<Field> = (0..count).map(|_| self.field(most)).collect();
            let table = TableMod {
                command: Command::Add,
                id,
                table_type,
                size: 64,
                key_length: fields.iter().map(|field| field.length).sum(),
                slot: 0,
                name: ObjectName::new("t"),
                fields: fields.clone(),
            };
            switch.table_mod(&table).expect("a table");
            keys.push(fields);
        }
        for (position, ((table_type, id), fields)) in TABLES.into_iter().zip(keys).enumerate() {
            for index in 0..2 + self.below(4) {
                let frame = &frames[self.rng.index(frames.len())].1;
                let mut matches = self.matches(table_type, &fields, frame);
                // The last entry of a masked table is for all packets.
                if table_type == TableType::Masked && index == 0 {
                    matches
                        .iter_mut()
                        .for_each(|one| one.mask = [0; VALUE_BYTES]);
                }
                let flow = FlowMod {
                    command: FlowCommand::Add,
                    counter: self.below(3) * 10,
                    cookie: self.rng.bits(),
                    cookie_mask: 0,
                    table: id,
                    table_type,
                    idle_timeout: 0,
                    hard_timeout: 0,
                    priority: if index == 0 { 0 } else { self.below(30) as u16 },
                    index,
                    slot: 0,
                    matches,
                    instructions: self.list(position),
                };
                // An entry that the switch refuses is left out.
                let _ = switch.flow_mod(&flow);
            }
        }
        switch
    }

    fn frame(&mut self) -> Vec<u8> {
        let length = match self.below(8) {
            0 => self.below(60),
            1..=4 => 90 + self.below(8),
            _ => 60 + self.below(200),
        };
        let byte = |_| match self.below(3) {
            0 => self.rng.bits() as u8,
            _ => self.below(4) as u8,
        };
        (0..length).map(byte).collect()
    }
}

fn number_of(table_type: TableType, id: u8) -> u8 {
    id + match table_type {
        TableType::Masked => 0,
        TableType::LongestPrefix => 10,
        TableType::Exact => 20,
        TableType::Linear => 25,
    }
}

/// Returns the bits of a frame from an offset on, zeros after its end.
fn bits_at(frame: &[u8], offset: usize) -> FieldValue {
    let bit = |at: usize| {
        frame
            .get(at / 8)
            .is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1)
    };
    let mut value = [0; VALUE_BYTES];
    for at in 0..8 * VALUE_BYTES {
        value[at / 8] |= u8::from(bit(offset + at)) << (7 - at % 8);
    }
    value
}

/// Moves the device out of a switch: events for controllers do not matter here.
fn device_of(mut switch: Forwarder) -> Device {
    let mut empty = ir::Program::empty("empty", ir::Arch::V1model);
    empty.errors.push("NoError".to_owned());
    let empty = Device::new(Arc::new(empty), &interp::Interp, &DeviceConfig::default());
    std::mem::replace(switch.device(), empty.expect("an empty program"))
}

fn check(is_wild: bool, seeds: std::ops::Range<u64>) -> Tally {
    let mut tally = Tally::default();
    let times = std::env::var("OFFLOAD_CASES").ok();
    let times: u64 = times.and_then(|times| times.parse().ok()).unwrap_or(1);
    for seed in seeds.start * times..seeds.end * times {
        println!("seed {seed}");
        let rng = Rng::new(seed);
        let mut generator = Generator { rng, is_wild };
        let frames: Vec<_> = (0..16)
            .map(|_| {
                let port = PORTS[generator.rng.index(4)];
                (PortId(port.into()), generator.frame())
            })
            .collect();
        let switch = generator.switch(&frames);
        let mut rig = Rig::new(device_of(switch), pof_role).expect("a POF program");
        rig.check(&mut generator.rng, &frames, &mut tally);
    }
    println!("{tally:#?}");
    tally
}

#[test]
fn flows_of_plain_lists_do_what_interp_does() {
    let tally = check(false, 0..40);
    assert!(tally.flows > 300 && tally.with_edits > 100, "{tally:#?}");
}

#[test]
fn flows_of_wild_lists_do_what_interp_does() {
    let tally = check(true, 1_000..1_006);
    assert!(tally.flows > 40 && tally.with_edits > 5, "{tally:#?}");
}

/// Returns the flow of a frame by one entry that matches ⟨208,32⟩, as in the paper's figures.
fn flow_of_paper(actions: Vec<Action>, matched: [u8; 4], frame: &[u8]) -> offload::Flow {
    let options = ForwarderOptions::default();
    let mut switch = Forwarder::new(Arc::new(interp::Interp), options).expect("no tables");
    switch.set_ports(&[(1, true), (2, true)]).expect("ports");
    let field = Field::packet(208, 32);
    let table = TableMod {
        command: Command::Add,
        id: 0,
        table_type: TableType::Masked,
        size: 64,
        key_length: 32,
        slot: 0,
        name: ObjectName::new("flows"),
        fields: vec![field],
    };
    switch.table_mod(&table).expect("a table");
    let mut value = [0; VALUE_BYTES];
    value[..4].copy_from_slice(&matched);
    let mut mask = [0; VALUE_BYTES];
    mask[..4].fill(0xFF);
    let flow = FlowMod {
        command: FlowCommand::Add,
        counter: 0,
        cookie: 0,
        cookie_mask: 0,
        table: 0,
        table_type: TableType::Masked,
        idle_timeout: 0,
        hard_timeout: 0,
        priority: 1,
        index: 0,
        slot: 0,
        matches: vec![Match { field, value, mask }],
        instructions: vec![Instruction::ApplyActions(actions)],
    };
    switch.flow_mod(&flow).expect("an entry");
    let mut rig = Rig::new(device_of(switch), pof_role).expect("a POF program");
    let flow = rig.tracer.trace_in(&mut rig.device, PortId(1), frame);
    flow.expect("a flow")
}

#[test]
fn the_flows_of_the_paper_s_figures_have_its_edits() {
    let output = Action::Output {
        port: Argument::Immediate(2),
        metadata_offset: 0,
        metadata_length: 0,
        packet_offset: 0,
    };
    let mut value = [0; VALUE_BYTES];
    let mut mask = [0; VALUE_BYTES];
    mask[..4].fill(0xFF);
    let mut frame: Vec<u8> = (0..60).collect();
    frame[26..30].copy_from_slice(&[2, 2, 2, 3]);
    value[..4].copy_from_slice(&[10, 2, 2, 2]);
    let set = Action::SetField(Match {
        field: Field::packet(240, 32),
        value,
        mask,
    });
    let checksum = Action::CalculateChecksum {
        checksum_place: Place::Packet,
        checksum_offset: 192,
        checksum_length: 16,
        data_place: Place::Packet,
        data_offset: 112,
        data_length: 160,
    };
    // Figure 4, as printed and with a checksum action.
    let printed = flow_of_paper(vec![set.clone(), output.clone()], [2, 2, 2, 3], &frame);
    let write = Step::Edit(Edit::Set {
        offset: 30,
        value: vec![10, 2, 2, 2],
        mask: vec![0xFF; 4],
    });
    assert_eq!(printed.steps, [write.clone(), Step::Output(PortId(2))]);
    let bits: Vec<_> = printed
        .matched
        .iter()
        .map(|bits| (bits.offset, &bits.value[..]))
        .collect();
    assert_eq!(bits, [(26, &[2, 2, 2, 3][..])]);
    let summed = flow_of_paper(vec![set, checksum, output.clone()], [2, 2, 2, 3], &frame);
    let sum = Step::Edit(Edit::Checksum {
        offset: 24,
        over: vec![
            Summed::Bytes {
                offset: 14,
                len: 10,
            },
            Summed::Bytes { offset: 26, len: 8 },
        ],
    });
    assert_eq!(summed.steps, [write, sum, Step::Output(PortId(2))]);
    // Figure 5.
    frame[26..30].copy_from_slice(&[2, 2, 2, 2]);
    value[..4].copy_from_slice(&[10, 10, 9, 8]);
    let add = Action::AddField {
        id: 7,
        offset: 112,
        length: 32,
        value,
    };
    let added = flow_of_paper(vec![add, output], [2, 2, 2, 2], &frame);
    let insert = Step::Edit(Edit::Insert {
        offset: 14,
        bytes: vec![10, 10, 9, 8],
    });
    assert_eq!(added.steps, [insert, Step::Output(PortId(2))]);
}
