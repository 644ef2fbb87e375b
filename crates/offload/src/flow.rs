//! Flows: what one packet's way through a program depended on, and what it does to the packet.

use std::fmt;

use exec::DropReason;
use ir::{ExternId, TableId};
use packet::PortId;
use table::EntryId;

/// The packets that take one way through a program, and that way.
///
/// Two flows that are made under one state are equal, or no packet matches both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The port at which its packets come in.
    pub ingress: PortId,
    /// Bits of the frame as it came in that all its packets share, in order of their offsets. No
    /// two ranges overlap or touch.
    pub matched: Vec<MatchedBits>,
    /// Lengths of its frames.
    pub length: LengthRange,
    /// Checksums of the frame as it came in that all its packets have right, or wrong, in order.
    /// No two are over the same bytes.
    pub checksums: Vec<ChecksumTest>,
    /// The changes of the frame and its outputs, in order. A flow without [`Step::Output`] drops
    /// its packets.
    pub steps: Vec<Step>,
    /// Reason of the drop, in a flow without output.
    pub drop: Option<DropReason>,
    /// The objects of the device that its packets met.
    pub met: Met,
}

/// A range of bits of a frame with the values that a flow requires.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MatchedBits {
    /// Offset of the first byte.
    pub offset: u32,
    /// Required values; bits outside the mask are zero.
    pub value: Vec<u8>,
    /// Bits that are compared. As long as `value`; no byte of it is zero.
    pub mask: Vec<u8>,
}

/// A comparison of an Internet checksum (RFC 1071) in a frame with that of its data. Its bytes are
/// not fixed by it: a program that drops packets with a wrong checksum has one flow for all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChecksumTest {
    /// Offset of the first of the two bytes with the checksum.
    pub offset: u32,
    /// The data: [`Summed::Bytes`] and [`Summed::Word`] of the frame as it came in.
    pub over: Vec<Summed>,
    /// True if the flow's packets have the checksum of the data.
    pub is_right: bool,
}

/// The lengths in bytes of a flow's frames, without the frame check sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LengthRange {
    /// The shortest. All matched bits and all bytes that the steps touch are inside of it.
    pub min: u32,
    /// The longest.
    pub max: u32,
}

/// A step of a flow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Changes the frame.
    Edit(Edit),
    /// Sends the frame as it is at this time. Further steps go on with it.
    Output(PortId),
}

/// A change of a frame. Offsets count from the first byte of the frame as it is when the change is
/// made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edit {
    /// Writes the bits of `mask`.
    Set {
        /// Offset of the first byte.
        offset: u32,
        /// The bytes. Bits outside the mask are zero.
        value: Vec<u8>,
        /// The bits that are written. As long as `value`, no byte of it is zero.
        mask: Vec<u8>,
    },
    /// Adds to one byte, without a carry to the next.
    Add {
        /// Offset of the byte.
        offset: u32,
        /// The summand: 255 subtracts 1.
        value: u8,
    },
    /// Inserts bytes before the byte at `offset`.
    Insert {
        /// The offset.
        offset: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Deletes bytes.
    Delete {
        /// Offset of the first one.
        offset: u32,
        /// Their number.
        len: u32,
    },
    /// Writes the Internet checksum (RFC 1071) of these data in two bytes. The data never include
    /// the two bytes themselves.
    Checksum {
        /// Offset of the first of the two bytes.
        offset: u32,
        /// The data. Each piece has an even number of bytes.
        over: Vec<Summed>,
    },
}

/// A piece of the data of a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Summed {
    /// Bytes of the frame as it is when the checksum is written.
    Bytes {
        /// Offset of the first one.
        offset: u32,
        /// Their number.
        len: u32,
    },
    /// A constant.
    Word(u16),
    /// All bytes from here to the end of the frame, the last one padded with a zero byte.
    Rest {
        /// The offset.
        offset: u32,
    },
}

/// The objects of the device that a flow's packets met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// The lookups, in order.
    pub lookups: Vec<MetLookup>,
    /// The cells of counters that count each of its packets.
    pub counters: Vec<MetCounter>,
    /// The multicast groups that copied it.
    pub multicast_groups: Vec<u32>,
    /// The clone sessions that copied it.
    pub clone_sessions: Vec<u32>,
    /// The parser value sets that it was compared with.
    pub value_sets: Vec<ir::ValueSetId>,
}

/// A lookup in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetLookup {
    /// The table.
    pub table: TableId,
    /// The entry that was hit, or `None` for a miss.
    pub entry: Option<EntryId>,
    /// The group of the action selector that chose the member.
    pub group: Option<u32>,
    /// The member of the action profile.
    pub member: Option<u32>,
    /// Bytes that the table counts for a packet.
    pub bytes: CountedBytes,
}

/// A cell of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetCounter {
    /// The cell.
    pub cell: CounterCell,
    /// Bytes that it counts for a packet.
    pub bytes: CountedBytes,
}

/// Place of a counter's cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterCell {
    /// A cell of a counter array.
    Index(ExternId, u32),
    /// The direct counter of an entry, or of the default action.
    Direct(TableId, Option<EntryId>),
}

/// Number of bytes that a counter counts for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedBytes {
    /// The length of the frame as it came in, plus this number.
    Frame(i64),
    /// A fixed number.
    Fixed(u64),
}

impl Default for CountedBytes {
    fn default() -> CountedBytes {
        CountedBytes::Frame(0)
    }
}

impl CountedBytes {
    /// Returns the bytes of some packets. `bytes` are those of their frames as they came in.
    pub fn of(self, packets: u64, bytes: u64) -> u64 {
        let more = |each: i64| i128::from(each) * i128::from(packets);
        match self {
            CountedBytes::Frame(each) => {
                let sum = (i128::from(bytes) + more(each)).max(0);
                u64::try_from(sum).unwrap_or(u64::MAX)
            }
            CountedBytes::Fixed(each) => each.saturating_mul(packets),
        }
    }
}

impl Flow {
    /// Returns true if a packet belongs to the flow.
    pub fn matches(&self, ingress: PortId, frame: &[u8]) -> bool {
        let length = frame.len() as u64;
        let fits = |bits: &MatchedBits| {
            let bytes = frame.get(bits.offset as usize..).unwrap_or_default();
            let mut wanted = bits.value.iter().zip(&bits.mask).zip(bytes);
            bytes.len() >= bits.value.len() && wanted.all(|((v, m), byte)| byte & m == *v)
        };
        self.ingress == ingress
            && (u64::from(self.length.min)..=self.length.max.into()).contains(&length)
            && self.matched.iter().all(fits)
            && self.checksums.iter().all(|test| test.holds(frame))
    }

    /// Returns what the flow makes of a frame that matches it: the outputs in order.
    pub fn apply(&self, frame: &[u8]) -> Vec<(PortId, Vec<u8>)> {
        let mut frame = frame.to_vec();
        let mut outputs = Vec::new();
        for step in &self.steps {
            match step {
                Step::Edit(edit) => edit.apply(&mut frame),
                Step::Output(port) => outputs.push((*port, frame.clone())),
            }
        }
        outputs
    }

    /// Returns true if no packet matches both flows.
    pub fn is_disjoint_from(&self, other: &Flow) -> bool {
        let differs = |a: &MatchedBits, b: &MatchedBits| {
            let start = a.offset.max(b.offset);
            let end = a.end().min(b.end());
            (start..end).any(|at| {
                let ((v, m), (w, n)) = (a.byte(at), b.byte(at));
                (v ^ w) & m & n != 0
            })
        };
        self.ingress != other.ingress
            || self.length.max < other.length.min
            || other.length.max < self.length.min
            || self
                .matched
                .iter()
                .any(|a| other.matched.iter().any(|b| differs(a, b)))
            || self
                .checksums
                .iter()
                .any(|a| other.checksums.iter().any(|b| a.is_opposite_of(b)))
    }

    /// Returns true if each packet of the other flow matches this one, too.
    pub fn covers(&self, other: &Flow) -> bool {
        let in_other = |at: u32| {
            let mut all = other.matched.iter();
            let bits = all.find(|bits| (bits.offset..bits.end()).contains(&at));
            bits.map_or((0, 0), |bits| bits.byte(at))
        };
        let is_met = |bits: &MatchedBits| {
            (bits.offset..bits.end()).all(|at| {
                let ((value, mask), (fixed, known)) = (bits.byte(at), in_other(at));
                mask & !known == 0 && (value ^ fixed) & mask == 0
            })
        };
        self.ingress == other.ingress
            && self.length.min <= other.length.min
            && self.length.max >= other.length.max
            && self.matched.iter().all(is_met)
            && self
                .checksums
                .iter()
                .all(|test| other.checksums.contains(test))
    }

    /// Returns true if both flows do the same to each packet, and count it in the same cells.
    pub fn has_effect_of(&self, other: &Flow) -> bool {
        self.steps == other.steps && self.drop == other.drop && self.met == other.met
    }
}

impl MatchedBits {
    /// Returns the offset after the last byte.
    pub fn end(&self) -> u32 {
        self.offset + self.value.len() as u32
    }

    /// Returns value and mask of the byte at an offset inside the range.
    fn byte(&self, at: u32) -> (u8, u8) {
        let at = (at - self.offset) as usize;
        (self.value[at], self.mask[at])
    }
}

impl ChecksumTest {
    /// Returns true if a frame that has all bytes of the test passes it.
    pub fn holds(&self, frame: &[u8]) -> bool {
        let bytes = frame.get(self.offset as usize..).unwrap_or_default();
        let found = bytes.first_chunk().copied().map(u16::from_be_bytes);
        (found == Some(checksum(frame, &self.over))) == self.is_right
    }

    /// Returns true if each frame passes one of both tests, and none passes both.
    fn is_opposite_of(&self, other: &ChecksumTest) -> bool {
        (self.offset, &self.over) == (other.offset, &other.over) && self.is_right != other.is_right
    }
}

impl Edit {
    /// Makes the change. A frame that does not have the bytes stays as it is: no flow that this
    /// crate makes matches such a frame.
    pub fn apply(&self, frame: &mut Vec<u8>) {
        match self {
            Edit::Set {
                offset,
                value,
                mask,
            } => {
                let bytes = frame.get_mut(*offset as usize..).unwrap_or_default();
                for ((byte, value), mask) in bytes.iter_mut().zip(value).zip(mask) {
                    *byte = *byte & !mask | value & mask;
                }
            }
            Edit::Add { offset, value } => {
                if let Some(byte) = frame.get_mut(*offset as usize) {
                    *byte = byte.wrapping_add(*value);
                }
            }
            Edit::Insert { offset, bytes } => {
                let at = *offset as usize;
                if at <= frame.len() {
                    frame.splice(at..at, bytes.iter().copied());
                }
            }
            Edit::Delete { offset, len } => {
                let (start, end) = (*offset as usize, (*offset + *len) as usize);
                if end <= frame.len() {
                    frame.drain(start..end);
                }
            }
            Edit::Checksum { offset, over } => {
                let checksum = checksum(frame, over).to_be_bytes();
                let place = frame.get_mut(*offset as usize..).unwrap_or_default();
                if let Some(place) = place.first_chunk_mut() {
                    *place = checksum;
                }
            }
        }
    }
}

/// Returns the Internet checksum of these data.
fn checksum(frame: &[u8], over: &[Summed]) -> u16 {
    let of_bytes = |bytes: &[u8]| -> u64 {
        let words = bytes.chunks(2);
        let word = |pair: &[u8]| match *pair {
            [high, low] => u64::from(u16::from_be_bytes([high, low])),
            [high] => u64::from(high) << 8,
            _ => 0,
        };
        words.map(word).sum()
    };
    let piece = |piece: &Summed| match *piece {
        Summed::Bytes { offset, len } => {
            let bytes = frame.get(offset as usize..(offset + len) as usize);
            of_bytes(bytes.unwrap_or_default())
        }
        Summed::Word(word) => word.into(),
        Summed::Rest { offset } => of_bytes(frame.get(offset as usize..).unwrap_or_default()),
    };
    let mut sum: u64 = over.iter().map(piece).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

/// Reason for which a packet's way cannot be offloaded, as users read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NotOffloadable {
    /// The program reads or writes a register.
    Register(String),
    /// A meter colours the packet.
    Meter(String),
    /// The packet's way depends on a random number.
    Random,
    /// The packet's way depends on the time.
    Time,
    /// The packet's way depends on the queue.
    Queue,
    /// The program sends a digest.
    Digest(String),
    /// The program writes a message.
    Message,
    /// The packet is cloned where flows cannot follow.
    Clone,
    /// The packet starts again more often than flows follow.
    Recirculation,
    /// The packet goes to a port that the data plane does not have, that of a controller.
    ControllerPort(PortId),
    /// The packet goes to a port that the switch does not have.
    MissingPort(PortId),
    /// The packet hits or adds an entry that packets add.
    LearnedEntry(String),
    /// A checksum or hash covers bytes that the parser did not take.
    Payload,
    /// The program cuts the packet.
    Truncated,
    /// The packet's bytes depend on its length, in a way that flows do not express.
    Length,
    /// The packet leaves the pipeline as a request to a server, or a handler outside processes it.
    Handler,
    /// The program has an operation that flows do not follow.
    Operation(&'static str),
    /// The program is written for an architecture that flows do not follow.
    Architecture(&'static str),
    /// The program is a chain of programs.
    Chain,
    /// The packet used more work than flows follow.
    Work,
    /// The packet is not of whole bytes at this point.
    PartialByte,
    /// The packet goes to a port that is down.
    PortDown(PortId),
    /// Copies go to one port by queues of different priorities, so that the queues choose their
    /// order.
    QueueOrder(PortId),
    /// The walk disagrees with the device on this packet. It is a defect of Polyplane.
    Disagreement,
    /// The target has no rule that is exact.
    Target(String),
}

impl fmt::Display for NotOffloadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use NotOffloadable as N;
        match self {
            N::Register(name) => write!(f, "the program uses the register '{name}'"),
            N::Meter(name) => write!(f, "the meter '{name}' colours the packet"),
            N::Random => f.write_str("the result depends on a random number"),
            N::Time => f.write_str("the result depends on the time"),
            N::Queue => f.write_str("the result depends on the state of the queue"),
            N::Digest(name) => write!(f, "the program sends the digest '{name}'"),
            N::Message => f.write_str("the program writes a message"),
            N::Clone => f.write_str("the packet is cloned before its egress"),
            N::Recirculation => f.write_str("the packet is resubmitted or recirculated too often"),
            // Larger numbers are no ports that users know.
            N::ControllerPort(PortId(port @ 0..=0xFFFF)) => {
                write!(f, "the packet goes to the controllers (port {port})")
            }
            N::ControllerPort(_) => f.write_str("the packet goes to the controllers"),
            N::MissingPort(port) => {
                write!(
                    f,
                    "the packet goes to port {port}, which the switch does not have"
                )
            }
            N::LearnedEntry(table) => write!(f, "packets add the entries of the table '{table}'"),
            N::Payload => f.write_str("a checksum or hash covers the bytes after the headers"),
            N::Truncated => f.write_str("the program cuts the packet"),
            N::Length => f.write_str("the bytes of the packet depend on its length"),
            N::Handler => f.write_str("a handler outside of the program processes the packet"),
            N::Operation(name) => write!(f, "the program uses '{name}'"),
            N::Architecture(name) => write!(f, "programs for {name} are not offloaded"),
            N::Chain => f.write_str("the program is a chain of programs"),
            N::Work => f.write_str("the packet takes more steps than are followed"),
            N::PartialByte => f.write_str("the packet is not of whole bytes"),
            N::PortDown(port) => write!(f, "port {port} is down"),
            N::QueueOrder(port) => write!(
                f,
                "copies go to port {port} by queues of different priorities"
            ),
            N::Disagreement => f.write_str(
                "the flow does not agree with the interpreter; please report it as a defect",
            ),
            N::Target(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for NotOffloadable {}
