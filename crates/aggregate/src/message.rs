//! Messages between mappers, switches and reducers, and their bytes in a UDP datagram.
//!
//! All numbers are big-endian. docs/AGGREGATE.md has the format and test vectors.

use crate::pair::{
    KeyClass, Operator, Pair, Shape, ValueClass, read_key, read_value, write_key, write_value,
};
use crate::vector::{LANE_BITS, LANES, LaneBlock, LaneOperation};

/// First and last UDP port of messages.
pub const PORTS: std::ops::RangeInclusive<u16> = 9570..=9579;

/// Version of the format.
pub(crate) const VERSION: u8 = 1;

/// Length of the header.
pub const HEADER_BYTES: usize = 24;

/// Length of the fields after the header of [`Kind::Collect`] and [`Kind::Reply`].
pub(crate) const BANK_BYTES: usize = 16;

/// Maximum number of pairs in a message.
pub const MAX_PAIRS: usize = 64;

/// Type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Between master and agents.
    Control,
    /// Pairs of a mapper.
    Data,
    /// Receipt of the reducer for a message of a mapper.
    Ack,
    /// End of an epoch of a mapper.
    End,
    /// State of the reduction: the reducer's to a mapper, and a mapper's question for it.
    Signal,
    /// The reducer's request for slots of a switch.
    Collect,
    /// Pairs of slots.
    Reply,
    /// The reducer's order to a switch to forget an epoch, and its answer.
    Clear,
    /// A mapper's question for a block of the result, and the answer.
    Result,
}

impl Kind {
    const ALL: [Kind; 9] = [
        Kind::Control,
        Kind::Data,
        Kind::Ack,
        Kind::End,
        Kind::Signal,
        Kind::Collect,
        Kind::Reply,
        Kind::Clear,
        Kind::Result,
    ];

    /// Returns the code on the wire.
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// Flags of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// The message belongs to a reduction (the paper's CPA).
    pub const VALID: Flags = Flags(1 << 7);
    /// A receipt (CPK).
    pub const ACK: Flags = Flags(1 << 6);
    /// Slots of a switch must be collected (CPD).
    pub const COLLECT: Flags = Flags(1 << 5);
    /// A switch had no free slot for a pair of this message.
    pub const FULL: Flags = Flags(1 << 4);
    /// The last epoch of a mapper; of a signal: the reduction is complete.
    pub const LAST: Flags = Flags(1 << 3);
    /// A switch has cut all pairs of this repeated message: later ones have its place.
    pub const OLD: Flags = Flags(1 << 2);

    /// Returns true if all these flags are set.
    pub fn has(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns the union.
    #[must_use]
    pub fn with(self, flags: Flags) -> Flags {
        Flags(self.0 | flags.0)
    }
}

/// Header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The type.
    pub kind: Kind,
    /// The flags.
    pub flags: Flags,
    /// Operator and classes.
    pub shape: Shape,
    /// Number of the reduction.
    pub job: u16,
    /// Attempt of the job.
    pub attempt: u16,
    /// The mapper, or the switch of collected slots.
    pub flow: u16,
    /// The epoch.
    pub epoch: u16,
    /// Sequence number in the flow. Of a question for a block of the result and its answer: the
    /// number of the submission.
    pub sequence: u32,
    /// Number of the last load of the reduction's switches.
    pub incarnation: u32,
    /// Number of pairs of the shape after the header.
    pub pairs: u8,
    /// Number of pairs that switches have taken out.
    pub absorbed: u8,
    /// Of a reducer's receipt: number of messages that the reducer accepts beyond its base. Of a
    /// mapper's message: number of its transmission, so that repeats have another checksum.
    pub credit: u16,
}

/// Position and counts of collected slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bank {
    /// The first slot.
    pub first: u32,
    /// Number of slots of the epoch.
    pub used: u32,
    /// Number of pairs that have been combined in the slots of this reply. Of a vector, the lower
    /// 32 bits; the upper ones have the number of mappers of which blocks are in them.
    pub counts: u64,
}

impl Bank {
    /// Returns the number of blocks that have been combined in the slots of a vector.
    pub(crate) fn combined_blocks(&self) -> u64 {
        self.counts & u64::from(u32::MAX)
    }

    /// Returns the number of mappers of which blocks are in the slots of a vector.
    pub(crate) fn mappers(&self) -> u64 {
        self.counts >> 32
    }
}

/// State of a reduction in a signal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// First epoch that is open.
    pub base: u16,
    /// Number of the load with which the flow's mapper began. An older mapper stops.
    pub since: u32,
    /// Number of the submission, from 1.
    pub submission: u32,
    /// Place of the first key of the base epoch. All keys before it are in the result.
    pub start: u32,
    /// For each epoch from the base on, the place of its last key.
    pub ends: Vec<u32>,
}

/// Receipts of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Receipts {
    /// All sequence numbers before this one have a receipt, of the reducer or of a switch.
    pub base: u32,
    /// Sequence numbers from the base on that have arrived; the lowest bit is the base's, and 0.
    pub arrived: u128,
}

/// Counts of a mapper in an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EpochCounts {
    /// Messages with pairs for which the reducer has sent receipts.
    pub messages: u32,
    /// Pairs, before any switch.
    pub pairs: u64,
    /// Pairs of messages for which switches have sent receipts.
    pub taken: u64,
}

/// Content after the header.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// Pairs of the shape.
    Pairs(Vec<Pair>),
    /// Pairs with keys or values of any size, which pass switches as they are.
    Large(Vec<Pair>),
    /// Receipts of the reducer.
    Receipts(Receipts),
    /// Receipt of a switch that has taken the last pairs out of the message of this number.
    Taken,
    /// End of an epoch of a mapper.
    End(EpochCounts),
    /// State of the reduction.
    State(State),
    /// Question of a mapper, with its number of pairs.
    Question {
        /// Number of different keys of the mapper.
        pairs: u64,
        /// Number of the load with which the mapper began.
        since: u32,
        /// Number of the submission, from 1.
        submission: u32,
        /// The operation on a vector.
        lanes: Option<LaneOperation>,
    },
    /// Request for slots, or their pairs.
    Bank(Bank, Vec<Pair>),
    /// A block of a vector, or none where a switch has taken it out.
    Blocks(Vec<LaneBlock>),
    /// A block of floats as they are, which passes switches; in an answer, one of the result.
    Floats(LaneBlock),
    /// Request for slots of a vector, or their blocks.
    BlockBank(Bank, Vec<LaneBlock>),
    /// Question of a mapper for a block of the result, by its number.
    Wanted(u32),
    /// Nothing.
    Nothing,
}

impl Body {
    /// Returns the number of pairs.
    pub(crate) fn pairs(&self) -> u64 {
        match self {
            Body::Pairs(pairs) | Body::Large(pairs) | Body::Bank(_, pairs) => pairs.len() as u64,
            Body::Blocks(blocks) | Body::BlockBank(_, blocks) => blocks.len() as u64,
            Body::Floats(_) => 1,
            _ => 0,
        }
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// The header. Its number of pairs is that of the body.
    pub header: Header,
    /// The content.
    pub body: Body,
}

/// Code in place of the number of pairs: the body has pairs of any size.
const LARGE: u8 = 255;

/// Code of no operation on a vector.
const NO_LANES: u8 = 255;

impl Message {
    /// Returns the bytes of a datagram.
    pub fn write(&self) -> Vec<u8> {
        let Header {
            kind,
            flags,
            shape,
            job,
            attempt,
            flow,
            epoch,
            sequence,
            incarnation,
            absorbed,
            credit,
            pairs: _,
        } = self.header;
        let pairs = match &self.body {
            Body::Large(_) | Body::Floats(_) => LARGE,
            body => body.pairs() as u8,
        };
        let mut bytes = Vec::with_capacity(1500);
        bytes.push(VERSION << 4 | kind.code());
        bytes.push(flags.0);
        bytes.push(shape.operator.code());
        bytes.push(shape.keys.code() << 4 | shape.values.code());
        for field in [job, attempt, flow, epoch] {
            bytes.extend(field.to_be_bytes());
        }
        bytes.extend(sequence.to_be_bytes());
        bytes.extend(incarnation.to_be_bytes());
        bytes.extend([pairs, absorbed]);
        bytes.extend(credit.to_be_bytes());
        match &self.body {
            Body::Pairs(pairs) => write_pairs(pairs, shape, &mut bytes),
            Body::Large(pairs) => write_large(pairs, &mut bytes),
            Body::Receipts(receipts) => {
                bytes.extend(receipts.base.to_be_bytes());
                bytes.extend(receipts.arrived.to_be_bytes());
            }
            Body::End(counts) => {
                bytes.extend(counts.messages.to_be_bytes());
                bytes.extend(counts.pairs.to_be_bytes());
                bytes.extend(counts.taken.to_be_bytes());
            }
            Body::State(state) => {
                bytes.extend(state.base.to_be_bytes());
                bytes.extend(state.since.to_be_bytes());
                bytes.extend(state.submission.to_be_bytes());
                bytes.extend(state.start.to_be_bytes());
                for end in &state.ends {
                    bytes.extend(end.to_be_bytes());
                }
            }
            Body::Question {
                pairs,
                since,
                submission,
                lanes,
            } => {
                bytes.extend(pairs.to_be_bytes());
                bytes.extend(since.to_be_bytes());
                bytes.extend(submission.to_be_bytes());
                bytes.push(lanes.map_or(NO_LANES, LaneOperation::code));
            }
            Body::Bank(bank, pairs) => {
                write_bank(bank, &mut bytes);
                write_pairs(pairs, shape, &mut bytes);
            }
            Body::Blocks(blocks) => write_blocks(blocks, &mut bytes),
            Body::Floats(block) => write_blocks(std::slice::from_ref(block), &mut bytes),
            Body::BlockBank(bank, blocks) => {
                write_bank(bank, &mut bytes);
                write_blocks(blocks, &mut bytes);
            }
            Body::Wanted(block) => bytes.extend((block << LANE_BITS).to_be_bytes()),
            Body::Taken | Body::Nothing => {}
        }
        bytes
    }

    /// Reads the bytes of a datagram. `None` if they are no message of this version.
    pub fn read(bytes: &[u8]) -> Option<Message> {
        let mut reader = Reader(bytes);
        let kind = reader.u8()?;
        if kind >> 4 != VERSION {
            return None;
        }
        let kind = *Kind::ALL.get(usize::from(kind & 15))?;
        let flags = Flags(reader.u8()?);
        let operator = Operator::from_code(reader.u8()?)?;
        let classes = reader.u8()?;
        let shape = Shape {
            operator,
            keys: KeyClass::from_code(classes >> 4)?,
            values: ValueClass::from_code(classes & 15)?,
        };
        let is_vector = shape.is_vector();
        let header = Header {
            kind,
            flags,
            shape,
            job: reader.u16()?,
            attempt: reader.u16()?,
            flow: reader.u16()?,
            epoch: reader.u16()?,
            sequence: reader.u32()?,
            incarnation: reader.u32()?,
            pairs: reader.u8()?,
            absorbed: reader.u8()?,
            credit: reader.u16()?,
        };
        let body = match kind {
            Kind::Data if is_vector && header.pairs == LARGE => Body::Floats(reader.block()?),
            Kind::Data if is_vector => Body::Blocks(reader.blocks(header)?),
            Kind::Data if header.pairs == LARGE => Body::Large(reader.large()?),
            Kind::Data => Body::Pairs(reader.pairs(header)?),
            Kind::Ack if reader.0.is_empty() => Body::Taken,
            Kind::Ack => Body::Receipts(Receipts {
                base: reader.u32()?,
                arrived: reader.u128()?,
            }),
            Kind::End => Body::End(EpochCounts {
                messages: reader.u32()?,
                pairs: reader.u64()?,
                taken: reader.u64()?,
            }),
            Kind::Signal if flags.has(Flags::ACK) => Body::State(State {
                base: reader.u16()?,
                since: reader.u32()?,
                submission: reader.u32()?,
                start: reader.u32()?,
                ends: std::iter::from_fn(|| reader.u32()).collect(),
            }),
            Kind::Signal => Body::Question {
                pairs: reader.u64()?,
                since: reader.u32()?,
                submission: reader.u32()?,
                lanes: match reader.u8()? {
                    NO_LANES => None,
                    code => Some(LaneOperation::from_code(code)?),
                },
            },
            Kind::Collect | Kind::Reply => {
                let bank = Bank {
                    first: reader.u32()?,
                    used: reader.u32()?,
                    counts: reader.u64()?,
                };
                match is_vector {
                    true => Body::BlockBank(bank, reader.blocks(header)?),
                    false => Body::Bank(bank, reader.pairs(header)?),
                }
            }
            Kind::Result if is_vector && flags.has(Flags::ACK) && header.pairs == LARGE => {
                Body::Floats(reader.block()?)
            }
            Kind::Result if is_vector && flags.has(Flags::ACK) => {
                Body::Blocks(reader.blocks(header)?)
            }
            Kind::Result if is_vector => Body::Wanted(reader.block_number()?),
            Kind::Control | Kind::Clear | Kind::Result => Body::Nothing,
        };
        reader.0.is_empty().then_some(Message { header, body })
    }
}

fn write_pairs(pairs: &[Pair], shape: Shape, bytes: &mut Vec<u8>) {
    for pair in pairs {
        let at = bytes.len();
        bytes.resize(at + shape.pair_bytes(), 0);
        let (key, value) = bytes[at..].split_at_mut(shape.keys.bytes());
        write_key(&pair.key, key);
        write_value(pair.value, value);
    }
}

fn write_bank(bank: &Bank, bytes: &mut Vec<u8>) {
    bytes.extend(bank.first.to_be_bytes());
    bytes.extend(bank.used.to_be_bytes());
    bytes.extend(bank.counts.to_be_bytes());
}

fn write_blocks(blocks: &[LaneBlock], bytes: &mut Vec<u8>) {
    for block in blocks {
        bytes.extend((block.number << LANE_BITS).to_be_bytes());
        bytes.extend(block.lanes.iter().flat_map(|lane| lane.to_be_bytes()));
    }
}

/// Length of a pair with a key of any size: the key's length, the key, the value.
pub(crate) fn large_bytes(pair: &Pair) -> usize {
    2 + pair.key.len() + 16
}

fn write_large(pairs: &[Pair], bytes: &mut Vec<u8>) {
    for pair in pairs {
        bytes.extend((pair.key.len() as u16).to_be_bytes());
        bytes.extend(&*pair.key);
        bytes.extend(pair.value.to_be_bytes());
    }
}

/// Bytes that are not read yet.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.take().map(u128::from_be_bytes)
    }

    fn pairs(&mut self, header: Header) -> Option<Vec<Pair>> {
        let shape = header.shape;
        (0..header.pairs)
            .map(|_| {
                let (pair, rest) = self.0.split_at_checked(shape.pair_bytes())?;
                self.0 = rest;
                let (key, value) = pair.split_at(shape.keys.bytes());
                Some(Pair::new(read_key(key)?, read_value(value, shape.values)))
            })
            .collect()
    }

    /// Reads the index of a block's first lane.
    fn block_number(&mut self) -> Option<u32> {
        let first = self.u32()?;
        (first % LANES as u32 == 0).then_some(first >> LANE_BITS)
    }

    fn block(&mut self) -> Option<LaneBlock> {
        let number = self.block_number()?;
        let lanes: Option<_> = (0..LANES).map(|_| self.u32()).collect();
        Some(LaneBlock {
            number,
            lanes: lanes?,
        })
    }

    fn blocks(&mut self, header: Header) -> Option<Vec<LaneBlock>> {
        (0..header.pairs).map(|_| self.block()).collect()
    }

    fn large(&mut self) -> Option<Vec<Pair>> {
        let mut pairs = Vec::new();
        while !self.0.is_empty() {
            let len = usize::from(self.u16()?);
            let (key, rest) = self.0.split_at_checked(len)?;
            self.0 = rest;
            pairs.push(Pair::new(key, i128::from_be_bytes(self.take()?)));
        }
        Some(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vector of docs/AGGREGATE.md.
    #[test]
    fn the_documented_message_is_read_and_written() {
        let bytes = [
            0x11, 0x80, 0x02, 0x00, 0, 6, 0, 7, 0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 1, 0, 0, 1,
            0x61, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5,
        ];
        let shape = Shape {
            operator: Operator::Add,
            keys: KeyClass::B8,
            values: ValueClass::I32,
        };
        let message = Message {
            header: Header {
                kind: Kind::Data,
                flags: Flags::VALID,
                shape,
                job: 6,
                attempt: 7,
                flow: 1,
                epoch: 2,
                sequence: 3,
                incarnation: 4,
                pairs: 1,
                absorbed: 0,
                credit: 1,
            },
            body: Body::Pairs(vec![Pair::new(*b"a", 5)]),
        };
        assert_eq!(Message::read(&bytes), Some(message.clone()));
        assert_eq!(message.write(), bytes);
        for cut in 0..bytes.len() {
            assert_eq!(Message::read(&bytes[..cut]), None);
        }
    }
}
