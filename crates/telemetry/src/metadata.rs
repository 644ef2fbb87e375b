//! Metadata by bitmap: the order and the sizes of a hop's values in each format.
//!
//! A bitmap is read from its most significant bit, which the specifications call bit 0. Each set
//! bit stands for one or two words of four bytes, in the order of the bits. Reserved bits stand for
//! one word (INT 2.1, section 5.8).

use packet::Nanos;

use crate::bytes::u32_at;
use crate::hop::{DropRecord, Hop, HopTime, IntNodeId, Interfaces, Occupancy};

/// Bitmap of the values that hops give, in the numbering of its [`MetadataLayout`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Instructions(pub u16);

/// Format of a bitmap: the meaning of its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetadataLayout {
    /// Instruction bitmap of INT 2.0 and 2.1 (INT 2.1, section 5.8).
    Int2,
    /// Instruction bitmap of INT 1.0 (section 4.7): times of 4 bytes, no buffer.
    Int1,
    /// Instruction bitmap of INT 0.5 (section 5.3.4): times of 4 bytes, congestion status in
    /// place of the interfaces of level 2.
    Int05,
    /// `RepMdBits` of Report 2.0 (section 3.3.1): bit 0 is reserved, bit 15 is the drop reason.
    Report2,
    /// `RepMdBits` of Report 1.0 (section 3.2): six bits, here the upper ones.
    Report1,
    /// The drop header of Report 0.5 (section 3.2.2): ports, then queue and drop reason.
    Report05Drop,
    /// The switch local header of Report 0.5 (section 3.2.3): ports, queue, egress time.
    Report05Local,
}

/// One bit's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Node,
    Interfaces,
    Latency,
    Queue,
    IngressTime,
    EgressTime,
    IngressTimeLow,
    EgressTimeLow,
    LogicalInterfaces,
    TxUtilisation,
    Buffer,
    Drop,
    /// One word without a meaning here.
    Word,
}

use Slot::Word;

const INT_2: [Slot; 16] = [
    Slot::Node,
    Slot::Interfaces,
    Slot::Latency,
    Slot::Queue,
    Slot::IngressTime,
    Slot::EgressTime,
    Slot::LogicalInterfaces,
    Slot::TxUtilisation,
    Slot::Buffer,
    Word,
    Word,
    Word,
    Word,
    Word,
    Word,
    Word,
];

const INT_1: [Slot; 16] = {
    let mut slots = INT_2;
    slots[4] = Slot::IngressTimeLow;
    slots[5] = Slot::EgressTimeLow;
    slots[8] = Word;
    slots
};

const INT_05: [Slot; 16] = {
    let mut slots = INT_1;
    slots[6] = Word;
    slots
};

const REPORT_2: [Slot; 16] = {
    let mut slots = INT_2;
    slots[0] = Word;
    slots[15] = Slot::Drop;
    slots
};

const REPORT_1: [Slot; 16] = {
    let mut slots = [Word; 16];
    slots[0] = Slot::Interfaces;
    slots[1] = Slot::Latency;
    slots[2] = Slot::Queue;
    slots[3] = Slot::EgressTimeLow;
    slots[4] = Slot::Drop;
    slots[5] = Slot::TxUtilisation;
    slots
};

const REPORT_05_DROP: [Slot; 16] = {
    let mut slots = [Word; 16];
    slots[0] = Slot::Interfaces;
    slots[1] = Slot::Drop;
    slots
};

const REPORT_05_LOCAL: [Slot; 16] = {
    let mut slots = [Word; 16];
    slots[0] = Slot::Interfaces;
    slots[1] = Slot::Queue;
    slots[2] = Slot::EgressTimeLow;
    slots
};

impl MetadataLayout {
    const fn slots(self) -> &'static [Slot; 16] {
        match self {
            MetadataLayout::Int2 => &INT_2,
            MetadataLayout::Int1 => &INT_1,
            MetadataLayout::Int05 => &INT_05,
            MetadataLayout::Report2 => &REPORT_2,
            MetadataLayout::Report1 => &REPORT_1,
            MetadataLayout::Report05Drop => &REPORT_05_DROP,
            MetadataLayout::Report05Local => &REPORT_05_LOCAL,
        }
    }

    /// Returns whether times have 64 bits.
    const fn has_full_times(self) -> bool {
        matches!(self, MetadataLayout::Int2 | MetadataLayout::Report2)
    }
}

/// Words of the eight upper bits of a bitmap. A table, as the least x86-64 counts bits slowly.
const fn words_of_upper_bits(doubles: u8) -> [u8; 256] {
    let mut words = [0; 256];
    let mut bits = 0;
    while bits < 256 {
        let set = bits as u8;
        words[bits] = (set.count_ones() + (set & doubles).count_ones()) as u8;
        bits += 1;
    }
    words
}

/// All bits stand for one word.
static ONES: [u8; 256] = words_of_upper_bits(0);
/// Times and the interfaces of level 2 stand for two words.
static WORDS_2: [u8; 256] = words_of_upper_bits(0x0e);
/// The interfaces of level 2 stand for two words.
static WORDS_1: [u8; 256] = words_of_upper_bits(0x02);

impl Instructions {
    /// Node ID, in the layouts of INT.
    pub const NODE: Instructions = Instructions(0x8000);
    /// Interfaces of level 1, in the layouts of INT and Report 2.0, as the following ones.
    pub const INTERFACES: Instructions = Instructions(0x4000);
    /// Hop latency.
    pub const LATENCY: Instructions = Instructions(0x2000);
    /// Queue ID and occupancy.
    pub const QUEUE: Instructions = Instructions(0x1000);
    /// Ingress time.
    pub const INGRESS_TIME: Instructions = Instructions(0x0800);
    /// Egress time.
    pub const EGRESS_TIME: Instructions = Instructions(0x0400);
    /// Interfaces of level 2.
    pub const LOGICAL_INTERFACES: Instructions = Instructions(0x0200);
    /// Utilisation of the egress interface.
    pub const TX_UTILISATION: Instructions = Instructions(0x0100);
    /// Buffer ID and occupancy.
    pub const BUFFER: Instructions = Instructions(0x0080);
    /// Checksum complement, in the layouts of INT. It is a hop's last word.
    pub const CHECKSUM_COMPLEMENT: Instructions = Instructions(0x0001);
    /// Drop reason, in the layout of Report 2.0.
    pub const DROP: Instructions = Instructions(0x0001);

    /// Returns whether all bits of `other` are set.
    #[inline]
    pub const fn has(self, other: Instructions) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the node ID of an entry with these bits, in the layouts of INT.
    #[inline]
    pub(crate) fn node_of(self, values: &[u8]) -> Option<IntNodeId> {
        let word = word_at(values, 0);
        let is_known = self.has(Instructions::NODE) && word != u32::MAX;
        is_known.then_some(IntNodeId(word))
    }

    /// Returns the bits of both.
    #[must_use]
    pub const fn with(self, other: Instructions) -> Instructions {
        Instructions(self.0 | other.0)
    }

    /// Returns the number of four-byte words that the bits stand for, at most 19.
    #[inline]
    pub const fn words(self, layout: MetadataLayout) -> usize {
        let [high, low] = self.0.to_be_bytes();
        let high = match layout {
            MetadataLayout::Int2 | MetadataLayout::Report2 => WORDS_2[high as usize],
            MetadataLayout::Int1 => WORDS_1[high as usize],
            _ => ONES[high as usize],
        };
        (high + ONES[low as usize]) as usize
    }

    /// Returns the offset of a bit's words in bytes, if the bit is set.
    #[inline]
    fn place(self, layout: MetadataLayout, bit: Instructions) -> Option<usize> {
        let before = Instructions(self.0 & !(bit.0 | bit.0.wrapping_sub(1)));
        self.has(bit).then(|| 4 * before.words(layout))
    }

    /// Returns the bits of the values that a hop and its drop record have, in the layout of
    /// Report 2.0.
    pub fn of_report(hop: &Hop, drop: Option<DropRecord>) -> Instructions {
        let bits = [
            (Instructions::INTERFACES, hop.interfaces.is_some()),
            (Instructions::LATENCY, hop.latency.is_some()),
            (Instructions::QUEUE, hop.queue.is_some()),
            (Instructions::INGRESS_TIME, hop.ingress_time.is_some()),
            (Instructions::EGRESS_TIME, hop.egress_time.is_some()),
            (
                Instructions::LOGICAL_INTERFACES,
                hop.logical_interfaces.is_some(),
            ),
            (Instructions::TX_UTILISATION, hop.tx_utilisation.is_some()),
            (Instructions::BUFFER, hop.buffer.is_some()),
            (Instructions::DROP, drop.is_some()),
        ];
        let none = Instructions::default();
        bits.into_iter()
            .filter(|(_, is_known)| *is_known)
            .fold(none, |all, (bit, _)| all.with(bit))
    }
}

/// Places of the values that make up a hop's time in its node, for all entries of a stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResidencePlaces {
    latency: Option<usize>,
    /// Ingress and egress time. They have 64 bits, or 32.
    times: Option<(usize, usize)>,
    is_64_bit: bool,
}

impl ResidencePlaces {
    /// Finds the places in the layouts of INT and Report 2.0.
    #[inline]
    pub(crate) fn new(layout: MetadataLayout, bits: Instructions) -> ResidencePlaces {
        let place = |bit| bits.place(layout, bit);
        let times = Instructions::INGRESS_TIME.with(Instructions::EGRESS_TIME);
        ResidencePlaces {
            latency: place(Instructions::LATENCY),
            times: bits.has(times).then(|| {
                let ingress = place(Instructions::INGRESS_TIME).unwrap_or(0);
                (ingress, place(Instructions::EGRESS_TIME).unwrap_or(0))
            }),
            is_64_bit: layout.has_full_times(),
        }
    }

    /// Reads the time of one hop, as [`Hop::residence`].
    #[inline]
    pub(crate) fn read(&self, bytes: &[u8]) -> Option<Nanos> {
        if let Some(at) = self.latency
            && let Some(latency) = known(word_at(bytes, at))
        {
            return Some(Nanos(u64::from(latency)));
        }
        let (ingress, egress) = self.times?;
        let time = |at| {
            if self.is_64_bit {
                let pair = bytes.get(at..)?.first_chunk()?;
                full_time(u64::from_be_bytes(*pair))
            } else {
                known(word_at(bytes, at)).map(HopTime::Low)
            }
        };
        time(egress)?.since(time(ingress)?)
    }
}

/// Words of metadata that are read from the front.
struct Words<'a>(&'a [[u8; 4]]);

impl Words<'_> {
    #[inline(always)]
    fn next(&mut self) -> u32 {
        match self.0.split_first() {
            Some((word, rest)) => {
                self.0 = rest;
                u32::from_be_bytes(*word)
            }
            // Not reached: formats check their lengths. All ones are an unknown value.
            None => u32::MAX,
        }
    }

    #[inline(always)]
    fn next_pair(&mut self) -> u64 {
        u64::from(self.next()) << 32 | u64::from(self.next())
    }
}

/// The word, or `None` if it is all ones.
#[inline(always)]
fn known(word: u32) -> Option<u32> {
    (word != u32::MAX).then_some(word)
}

#[inline(always)]
fn interfaces(word: u32) -> Interfaces<u16> {
    Interfaces {
        ingress: (word >> 16) as u16,
        egress: word as u16,
    }
}

#[inline(always)]
fn occupancy(word: u32) -> Occupancy {
    Occupancy {
        id: (word >> 24) as u8,
        level: word & 0xff_ffff,
    }
}

/// Reads a hop and its drop record from the words that the bits stand for.
#[inline]
pub(crate) fn read(
    layout: MetadataLayout,
    bits: Instructions,
    bytes: &[u8],
) -> (Hop, Option<DropRecord>) {
    let mut words = Words(bytes.as_chunks().0);
    let mut hop = Hop::default();
    let mut drop = None;
    let slots = layout.slots();
    let mut rest = bits.0;
    while rest != 0 {
        let bit = rest.leading_zeros();
        rest &= !(0x8000 >> bit);
        match slots[bit as usize & 15] {
            Slot::Node => hop.node = known(words.next()).map(IntNodeId),
            Slot::Interfaces => hop.interfaces = known(words.next()).map(interfaces),
            Slot::Latency => hop.latency = known(words.next()),
            Slot::Queue => hop.queue = known(words.next()).map(occupancy),
            Slot::IngressTime => hop.ingress_time = full_time(words.next_pair()),
            Slot::EgressTime => hop.egress_time = full_time(words.next_pair()),
            Slot::IngressTimeLow => hop.ingress_time = known(words.next()).map(HopTime::Low),
            Slot::EgressTimeLow => hop.egress_time = known(words.next()).map(HopTime::Low),
            Slot::LogicalInterfaces => {
                let pair = words.next_pair();
                hop.logical_interfaces = (pair != u64::MAX).then_some(Interfaces {
                    ingress: (pair >> 32) as u32,
                    egress: pair as u32,
                });
            }
            Slot::TxUtilisation => hop.tx_utilisation = known(words.next()),
            Slot::Buffer => hop.buffer = known(words.next()).map(occupancy),
            Slot::Drop => {
                drop = known(words.next()).map(|word| DropRecord {
                    queue: (word >> 24) as u8,
                    reason: (word >> 16) as u8,
                });
            }
            Word => {
                words.next();
            }
        }
    }
    (hop, drop)
}

#[inline(always)]
fn full_time(pair: u64) -> Option<HopTime> {
    (pair != u64::MAX).then_some(HopTime::Full(pair))
}

/// Appends the words that the bits stand for; a value that the hop has not is all ones. A time of
/// the other width is written in the width of the layout: cut to 32 bits, or extended by zeros.
pub(crate) fn write(
    layout: MetadataLayout,
    bits: Instructions,
    hop: &Hop,
    drop: Option<DropRecord>,
    out: &mut Vec<u8>,
) {
    let word = |out: &mut Vec<u8>, value: Option<u32>| {
        out.extend_from_slice(&value.unwrap_or(u32::MAX).to_be_bytes());
    };
    let pair = |out: &mut Vec<u8>, value: Option<u64>| {
        out.extend_from_slice(&value.unwrap_or(u64::MAX).to_be_bytes());
    };
    let occupancy = |of: Occupancy| u32::from(of.id) << 24 | of.level & 0xff_ffff;
    let full = |time: Option<HopTime>| time.map(HopTime::nanoseconds);
    let low = |time: Option<HopTime>| time.map(|time| time.nanoseconds() as u32);
    for (bit, slot) in layout.slots().iter().enumerate() {
        if bits.0 & (0x8000 >> bit) == 0 {
            continue;
        }
        match slot {
            Slot::Node => word(out, hop.node.map(|node| node.0)),
            Slot::Interfaces => word(
                out,
                hop.interfaces
                    .map(|of| u32::from(of.ingress) << 16 | u32::from(of.egress)),
            ),
            Slot::Latency => word(out, hop.latency),
            Slot::Queue => word(out, hop.queue.map(occupancy)),
            Slot::IngressTime => pair(out, full(hop.ingress_time)),
            Slot::EgressTime => pair(out, full(hop.egress_time)),
            Slot::IngressTimeLow => word(out, low(hop.ingress_time)),
            Slot::EgressTimeLow => word(out, low(hop.egress_time)),
            Slot::LogicalInterfaces => pair(
                out,
                hop.logical_interfaces
                    .map(|of| u64::from(of.ingress) << 32 | u64::from(of.egress)),
            ),
            Slot::TxUtilisation => word(out, hop.tx_utilisation),
            Slot::Buffer => word(out, hop.buffer.map(occupancy)),
            Slot::Drop => word(
                out,
                drop.map(|of| u32::from(of.queue) << 24 | u32::from(of.reason) << 16),
            ),
            Word => word(out, None),
        }
    }
}

/// Reads a word, or all ones where there is none.
#[inline(always)]
pub(crate) fn word_at(bytes: &[u8], at: usize) -> u32 {
    u32_at(bytes, at).unwrap_or(u32::MAX)
}
