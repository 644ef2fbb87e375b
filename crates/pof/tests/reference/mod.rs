//! A reference evaluator of POF: bytes in, bytes out, bit by bit, without IR. Written from the
//! description of the protocol in docs/internals/pof.md, as simply as possible.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::collections::BTreeMap;

use pof::model::*;

/// Longest packet in bytes.
pub const MAX_PACKET: usize = 9_216;

/// A table of the reference: its number is its key in [`Switch::tables`].
#[derive(Clone, Debug)]
pub struct Table {
    pub table_type: TableType,
    pub fields: Vec<Field>,
    pub entries: Vec<Entry>,
}

/// An entry.
#[derive(Clone, Debug)]
pub struct Entry {
    pub index: u32,
    pub priority: u16,
    pub counter: u32,
    pub cookie: u64,
    pub matches: Vec<Match>,
    pub instructions: Vec<Instruction>,
}

/// A group of type all or indirect.
#[derive(Clone, Debug)]
pub struct Group {
    pub counter: u32,
    pub actions: Vec<Action>,
}

/// All tables.
#[derive(Clone, Debug, Default)]
pub struct Switch {
    pub tables: BTreeMap<u8, Table>,
    pub groups: BTreeMap<u32, Group>,
    pub ports: Vec<u16>,
}

/// A packet for the controllers: reason, table, cookie, port, data.
pub type PacketIn = (u8, u8, u64, u16, Vec<u8>);

/// Effects of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Port and bytes, in order.
    pub sent: Vec<(u16, Vec<u8>)>,
    pub packet_ins: Vec<PacketIn>,
    /// Type and code of the error, and the table.
    pub faults: Vec<(u16, u16, u8)>,
    /// Packets and bytes of each counter.
    pub counters: BTreeMap<u32, (u64, u64)>,
    /// True if the packet ran longer than any should; nothing else is valid then.
    pub is_endless: bool,
}

/// Reason for which a packet is finished.
enum End {
    /// It is dropped, or its list is over.
    Done,
    /// Type and code of an error.
    Fault(u16, u16),
    /// It runs longer than any should.
    Endless,
}

const OUTSIDE: End = End::Fault(14, 0x1001);
const BAD_JUMP: End = End::Fault(3, 20);
const TOO_MANY: End = End::Fault(2, 7);

fn bits_of(bytes: &[u8], offset: usize, length: usize) -> Vec<bool> {
    let bit = |at: usize| bytes[at / 8] >> (7 - at % 8) & 1 == 1;
    (offset..offset + length).map(bit).collect()
}

fn put_bits(bytes: &mut [u8], offset: usize, bits: &[bool]) {
    for (at, bit) in bits.iter().enumerate() {
        let (byte, shift) = ((offset + at) / 8, 7 - (offset + at) % 8);
        bytes[byte] = bytes[byte] & !(1 << shift) | u8::from(*bit) << shift;
    }
}

fn to_bytes(bits: &[bool]) -> Vec<u8> {
    let mut bytes = vec![0; bits.len().div_ceil(8)];
    put_bits(&mut bytes, 0, bits);
    bytes
}

fn number(bits: &[bool]) -> u128 {
    bits.iter()
        .fold(0, |number, bit| number << 1 | u128::from(*bit))
}

fn number_bits(number: u128, length: usize) -> Vec<bool> {
    (0..length)
        .rev()
        .map(|at| at < 128 && number >> at & 1 == 1)
        .collect()
}

/// Order of an action in the action set, and the field of which the set has one.
type SetKey = (u8, Option<(Place, u16, u16)>);

/// An action of the action set, with its entry's table and cookie.
struct Written {
    action: Action,
    table: u8,
    cookie: u64,
}

/// Returns the order of an action in the action set, and the field of which it has one.
fn set_key(action: &Action) -> SetKey {
    let of = |field: &Field| Some((field.place(), field.offset, field.length));
    match action {
        Action::DeleteField { .. } => (0, None),
        Action::AddField { .. } => (1, None),
        Action::ModifyField { field, .. } => (2, of(field)),
        Action::SetField(set) => (3, of(&set.field)),
        Action::SetFieldFromMetadata { field, .. } => (4, of(field)),
        Action::CalculateChecksum { .. } => (5, None),
        Action::Counter(_) => (6, None),
        Action::Drop { .. } => (7, None),
        Action::PacketIn { .. } => (8, None),
        Action::Group(_) => (9, None),
        Action::Output { .. } => (10, None),
    }
}

struct Packet<'s> {
    switch: &'s Switch,
    bytes: Vec<u8>,
    offset: usize,
    metadata: [u8; METADATA_BYTES as usize],
    port: u16,
    table: u8,
    cookie: u64,
    copies: usize,
    steps: usize,
    /// Actions by their order and field.
    set: BTreeMap<SetKey, Written>,
    outcome: Outcome,
}

impl Switch {
    /// Runs a packet.
    pub fn run(&self, port: u16, bytes: &[u8]) -> Outcome {
        let mut packet = Packet {
            switch: self,
            bytes: bytes.to_vec(),
            offset: 0,
            metadata: [0; METADATA_BYTES as usize],
            port,
            table: 0,
            cookie: 0,
            copies: 0,
            steps: 0,
            set: BTreeMap::new(),
            outcome: Outcome::default(),
        };
        packet.note_length();
        packet.metadata[2] = port as u8;
        if self.tables.contains_key(&0) {
            match packet.pipeline() {
                Ok(()) | Err(End::Done) => {}
                Err(End::Fault(kind, code)) => {
                    packet.outcome.faults.push((kind, code, packet.table));
                }
                Err(End::Endless) => packet.outcome.is_endless = true,
            }
        }
        packet.outcome
    }
}

/// Lookup that follows a list.
enum Next {
    Lookup(u8),
    Index(u8, u32),
}

impl Packet<'_> {
    fn note_length(&mut self) {
        let length = (self.bytes.len() as u16).to_be_bytes();
        self.metadata[..2].copy_from_slice(&length);
    }

    fn pipeline(&mut self) -> Result<(), End> {
        let mut next = Some(Next::Lookup(0));
        while let Some(to) = next {
            let number = match to {
                Next::Lookup(number) | Next::Index(number, _) => number,
            };
            self.table = number;
            let table = &self.switch.tables[&number];
            let entry = match to {
                Next::Lookup(_) => self.lookup(table)?,
                Next::Index(_, index) => table.entries.iter().find(|entry| entry.index == index),
            };
            let Some(entry) = entry else {
                self.cookie = 0;
                return self.packet_in(0);
            };
            self.cookie = entry.cookie;
            self.count(entry.counter);
            next = self.list(&entry.instructions)?;
        }
        let set = std::mem::take(&mut self.set);
        let has_group = set
            .values()
            .any(|one| matches!(one.action, Action::Group(_)));
        for written in set.into_values() {
            if has_group && matches!(written.action, Action::Output { .. }) {
                continue;
            }
            (self.table, self.cookie) = (written.table, written.cookie);
            self.action(&written.action)?;
        }
        Ok(())
    }

    fn lookup<'t>(&self, table: &'t Table) -> Result<Option<&'t Entry>, End> {
        if table.entries.is_empty() {
            return Ok(None);
        }
        let mut key = Vec::new();
        for field in &table.fields {
            key.extend(self.read(*field)?);
        }
        let concat = |entry: &Entry, of: fn(&Match) -> &FieldValue| -> Vec<bool> {
            let bits = |one: &Match| bits_of(of(one), 0, one.field.length.into());
            entry.matches.iter().flat_map(bits).collect()
        };
        let full = vec![true; key.len()];
        let found = table.entries.iter().filter_map(|entry| {
            let value = concat(entry, |one| &one.value);
            let mask = match table.table_type {
                TableType::Exact => full.clone(),
                _ => concat(entry, |one| &one.mask),
            };
            let mut bits = key.iter().zip(&value).zip(&mask);
            let matches = bits.all(|((key, value), mask)| !mask || key == value);
            let rank = match table.table_type {
                TableType::LongestPrefix => mask.iter().filter(|bit| **bit).count(),
                _ => entry.priority.into(),
            };
            matches.then_some((rank, entry))
        });
        Ok(found.max_by_key(|(rank, _)| *rank).map(|(_, entry)| entry))
    }

    fn count(&mut self, counter: u32) {
        if counter != 0 {
            let cell = self.outcome.counters.entry(counter).or_default();
            *cell = (cell.0 + 1, cell.1 + self.bytes.len() as u64);
        }
    }

    /// Returns the first bit of a run of bits of the packet, if the packet has them.
    fn inside(&self, offset: usize, length: usize) -> Result<usize, End> {
        let first = 8 * self.offset + offset;
        match first + length <= 8 * self.bytes.len() {
            true => Ok(first),
            false => Err(OUTSIDE),
        }
    }

    fn read(&self, field: Field) -> Result<Vec<bool>, End> {
        let (offset, length) = (field.offset.into(), field.length.into());
        match field.place() {
            Place::Metadata => Ok(bits_of(&self.metadata, offset, length)),
            _ => Ok(bits_of(&self.bytes, self.inside(offset, length)?, length)),
        }
    }

    fn write(&mut self, field: Field, bits: &[bool]) -> Result<(), End> {
        let (offset, length) = (usize::from(field.offset), usize::from(field.length));
        match field.place() {
            Place::Metadata => put_bits(&mut self.metadata, offset, bits),
            _ => {
                let first = self.inside(offset, length)?;
                put_bits(&mut self.bytes, first, bits);
            }
        }
        Ok(())
    }

    fn operand(&self, operand: &Argument) -> Result<u32, End> {
        match operand {
            Argument::Immediate(number) => Ok(*number),
            Argument::Field(field) => Ok(number(&self.read(*field)?) as u32),
        }
    }

    fn move_to(&mut self, offset: i64) -> Result<(), End> {
        match usize::try_from(offset) {
            Ok(offset) if offset <= self.bytes.len() => {
                self.offset = offset;
                Ok(())
            }
            _ => Err(OUTSIDE),
        }
    }

    fn list(&mut self, list: &[Instruction]) -> Result<Option<Next>, End> {
        let mut at = 0i64;
        while let Some(instruction) = usize::try_from(at).ok().and_then(|at| list.get(at)) {
            self.steps += 1;
            if self.steps > 2_000 {
                return Err(End::Endless);
            }
            let mut next = at + 1;
            match instruction {
                Instruction::GotoTable { table, offset, .. } => {
                    self.move_to(self.offset as i64 + i64::from(*offset as i16))?;
                    return Ok(Some(Next::Lookup(*table)));
                }
                Instruction::GotoDirectTable {
                    table,
                    offset,
                    index,
                } => {
                    self.move_to(self.offset as i64 + i64::from(*offset as i16))?;
                    return Ok(Some(Next::Index(*table, self.operand(index)?)));
                }
                Instruction::WriteMetadata {
                    offset,
                    length,
                    value,
                } => {
                    let bits = bits_of(value, 0, (*length).into());
                    self.write(Field::metadata(*offset, *length), &bits)?;
                }
                Instruction::ApplyActions(actions) => self.actions(actions)?,
                Instruction::WriteMetadataFromPacket {
                    metadata_offset,
                    packet_offset,
                    length,
                } => {
                    let bits = self.read(Field::packet(*packet_offset, *length))?;
                    self.write(Field::metadata(*metadata_offset, *length), &bits)?;
                }
                Instruction::ConditionalJump {
                    left,
                    right,
                    less,
                    equal,
                    greater,
                } => {
                    let left = self.operand(&Argument::Field(*left))?;
                    let jump = match left.cmp(&self.operand(right)?) {
                        std::cmp::Ordering::Less => less,
                        std::cmp::Ordering::Equal => equal,
                        std::cmp::Ordering::Greater => greater,
                    };
                    let distance = i64::from(self.operand(&jump.distance)?);
                    next = match jump.direction {
                        Direction::Forward => at + distance,
                        Direction::Backward => at - distance,
                    };
                }
                Instruction::CalculateField {
                    operation,
                    target,
                    source,
                } => {
                    let left = self.operand(&Argument::Field(*target))?;
                    let right = self.operand(source)?;
                    let result = match operation {
                        Calculation::Add => left.wrapping_add(right),
                        Calculation::Subtract => left.wrapping_sub(right),
                        Calculation::LeftShift => left.checked_shl(right).unwrap_or(0),
                        Calculation::RightShift => left.checked_shr(right).unwrap_or(0),
                        Calculation::And => left & right,
                        Calculation::Or => left | right,
                        Calculation::Xor => left ^ right,
                        Calculation::Nor => !(left | right),
                    };
                    let bits = number_bits(result.into(), target.length.into());
                    self.write(*target, &bits)?;
                }
                Instruction::MovePacketOffset {
                    direction,
                    distance,
                } => {
                    let distance = i64::from(self.operand(distance)?);
                    self.move_to(match direction {
                        Direction::Forward => self.offset as i64 + distance,
                        Direction::Backward => self.offset as i64 - distance,
                    })?;
                }
                Instruction::SetPacketOffset(offset) => {
                    let offset = self.operand(offset)?;
                    self.move_to(offset.into())?;
                }
                Instruction::Compare {
                    result,
                    left,
                    right,
                } => {
                    let left = self.operand(&Argument::Field(*left))?;
                    let order = match left.cmp(&self.operand(right)?) {
                        std::cmp::Ordering::Equal => 0,
                        std::cmp::Ordering::Greater => 1,
                        std::cmp::Ordering::Less => 2,
                    };
                    put_bits(
                        &mut self.metadata,
                        32 + 2 * usize::from(*result),
                        &number_bits(order, 2),
                    );
                }
                Instruction::Branch { left, right, skip } => {
                    let left = self.operand(&Argument::Field(*left))?;
                    if left != self.operand(right)? {
                        next = at + i64::from(*skip);
                    }
                }
                Instruction::Jump {
                    direction,
                    distance,
                } => {
                    next = match direction {
                        Direction::Forward => at + 1 + i64::from(*distance),
                        Direction::Backward => at + 1 - i64::from(*distance),
                    };
                }
                Instruction::ClearActions => self.set.clear(),
                Instruction::WriteActions(actions) => {
                    for action in actions {
                        let written = Written {
                            action: action.clone(),
                            table: self.table,
                            cookie: self.cookie,
                        };
                        self.set.insert(set_key(action), written);
                    }
                }
                Instruction::Meter(_) => panic!("the reference has no meters"),
            }
            if !(0..=list.len() as i64).contains(&next) {
                return Err(BAD_JUMP);
            }
            at = next;
        }
        Ok(None)
    }

    fn actions(&mut self, actions: &[Action]) -> Result<(), End> {
        actions.iter().try_for_each(|action| self.action(action))
    }

    fn action(&mut self, action: &Action) -> Result<(), End> {
        match action {
            Action::Output {
                port,
                metadata_offset,
                metadata_length,
                packet_offset,
            } => {
                let port = self.operand(port)? as u16;
                let first = self.inside(8 * usize::from(*packet_offset), 0)?;
                let bits = usize::from(*metadata_length).next_multiple_of(8);
                let mut sent = to_bytes(&bits_of(&self.metadata, (*metadata_offset).into(), bits));
                sent.extend_from_slice(&self.bytes[first / 8..]);
                self.copies += 1;
                if self.copies > 16 {
                    return Err(TOO_MANY);
                }
                match port {
                    port::IN_PORT => self.outcome.sent.push((self.port, sent)),
                    port::FLOOD | port::ALL => {
                        let others = self.switch.ports.iter().filter(|port| **port != self.port);
                        let sent = others.map(|port| (*port, sent.clone()));
                        self.outcome.sent.extend(sent);
                    }
                    port => self.outcome.sent.push((port, sent)),
                }
            }
            Action::SetField(set) => {
                let length = usize::from(set.field.length);
                let old = self.read(set.field)?;
                let (value, mask) = (
                    bits_of(&set.value, 0, length),
                    bits_of(&set.mask, 0, length),
                );
                let bits = (0..length).map(|at| if mask[at] { value[at] } else { old[at] });
                self.write(set.field, &bits.collect::<Vec<_>>())?;
            }
            Action::SetFieldFromMetadata {
                field,
                metadata_offset,
            } => {
                let bits = bits_of(
                    &self.metadata,
                    (*metadata_offset).into(),
                    field.length.into(),
                );
                self.write(*field, &bits)?;
            }
            Action::ModifyField { field, increment } => {
                let old = number(&self.read(*field)?) as u32;
                let new = old.wrapping_add(*increment as u32);
                let bits = number_bits(new.into(), field.length.into());
                self.write(*field, &bits)?;
            }
            Action::AddField {
                offset,
                length,
                value,
                ..
            } => {
                let first = self.inside((*offset).into(), 0)?;
                let length = *length as usize;
                if self.bytes.len() + length.div_ceil(8) > MAX_PACKET {
                    return Err(OUTSIDE);
                }
                let mut bits = bits_of(&self.bytes, 0, 8 * self.bytes.len());
                bits.splice(first..first, bits_of(value, 0, length));
                self.bytes = to_bytes(&bits);
                self.note_length();
            }
            Action::DeleteField { offset, length } => {
                let length = self.operand(length)? as usize;
                let first = self.inside((*offset).into(), length)?;
                let mut bits = bits_of(&self.bytes, 0, 8 * self.bytes.len());
                bits.drain(first..first + length);
                self.bytes = to_bytes(&bits);
                self.note_length();
            }
            Action::CalculateChecksum {
                checksum_place,
                checksum_offset,
                checksum_length,
                data_place,
                data_offset,
                data_length,
            } => {
                let field = |place: &Place, offset: &u16, length: &u16| match place {
                    Place::Metadata => Field::metadata(*offset, *length),
                    _ => Field::packet(*offset, *length),
                };
                let checksum = field(checksum_place, checksum_offset, checksum_length);
                let data = field(data_place, data_offset, data_length);
                self.read(data)?;
                let width = usize::from(*checksum_length);
                self.write(checksum, &vec![false; width])?;
                let words = self.read(data)?;
                let most = (1u128 << width) - 1;
                let sum = words.chunks_exact(width).fold(0, |sum, word| {
                    let sum = sum + number(word);
                    (sum & most) + (sum >> width)
                });
                self.write(checksum, &number_bits(!sum & most, width))?;
            }
            Action::Group(id) => {
                let group = self.switch.groups[id].clone();
                self.count(group.counter);
                self.actions(&group.actions)?;
            }
            Action::Drop { .. } => return Err(End::Done),
            Action::PacketIn { reason } => self.packet_in(*reason as u8)?,
            Action::Counter(id) => self.count(*id),
        }
        Ok(())
    }

    fn packet_in(&mut self, reason: u8) -> Result<(), End> {
        self.copies += 1;
        if self.copies > 16 {
            return Err(TOO_MANY);
        }
        let packet = (
            reason,
            self.table,
            self.cookie,
            self.port,
            self.bytes.clone(),
        );
        self.outcome.packet_ins.push(packet);
        Ok(())
    }
}
