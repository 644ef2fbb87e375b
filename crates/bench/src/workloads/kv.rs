//! `kv64` and `kv16`: a switch that adds key-value pairs on their way, with its state in registers.

use exec::Configuration;
use ir::Program;
use packet::{Frame, Nanos, PortId};
use std::sync::LazyLock;
use support::crc::crc32;
use support::rng::Rng;
use table::prefetch::prefetch_at;

use super::Size;
use super::fill::Fill;
use super::flat::Flat;
use crate::forward::{Forward, Reading, SentFrames};
use crate::names::Key;
use crate::setup::{ItemSink, SetupError};
use crate::wire::{
    ETHERNET, ETHERTYPE_IPV4, IPV4_END, Ipv4, UDP, be16, be32, decrement_ttl, ipv4_is_right, put16,
    put32, put48, seal_ipv4,
};
use crate::{Hand, Workload};

/// Pairs of a message.
const PAIRS: usize = 20;
/// Places of a key in the index.
const CANDIDATES: usize = 4;
/// Bytes before the first pair: Ethernet, IPv4, UDP, and the message's own header.
const HEADERS: usize = IPV4_END + 8 + 8;
/// UDP port of messages.
const PORT: u16 = 9570;
/// Number of ports, numbered from 0.
const PORTS: u64 = 16;
/// Bytes of a value.
const VALUE: usize = 4;

/// Numbers of a variant's program.
#[derive(Clone, Copy)]
struct Shape {
    key: usize,
    slots: u64,
}

impl Shape {
    /// Returns the number of bits of an index into the places: four for each slot.
    const fn index_bits(self) -> u32 {
        (4 * self.slots).next_power_of_two().trailing_zeros()
    }

    const fn pair(self) -> usize {
        self.key + VALUE
    }

    /// Returns the P4 text.
    fn source(self) -> String {
        let absorb: String = (0..PAIRS).map(|pair| self.absorb(pair)).collect();
        let parts = [
            ("@ABSORB@\n", absorb),
            ("@KEY_BITS@", (8 * self.key).to_string()),
            ("@PAIRS@", PAIRS.to_string()),
            ("@PAIR_BYTES@", self.pair().to_string()),
            ("@SLOTS@", self.slots.to_string()),
            ("@INDEX@", (1u64 << self.index_bits()).to_string()),
        ];
        let text = include_str!("../../programs/kv.p4").to_owned();
        parts
            .iter()
            .fold(text, |text, (place, part)| text.replace(place, part))
    }

    /// Returns the code that adds a pair to its slot.
    fn absorb(self, pair: usize) -> String {
        let pair = format!("hdr.pairs[{pair}]");
        let mut search = String::from("found = SEARCH_FULL;");
        for candidate in (0..CANDIDATES).rev() {
            let next = match candidate + 1 < CANDIDATES {
                true => format!("place = place + step;\n{search}"),
                false => search,
            };
            search = format!(
                "position = (bit<32>) place[{}:0];
                index.read(entry, position);
                if (entry[63:24] != generation) {{
                    found = SEARCH_EMPTY;
                }} else {{
                    keys.read(key, (bit<32>) entry[23:0]);
                    if (key == {pair}.key) {{
                        found = SEARCH_HIT;
                    }} else {{
                        {next}
                    }}
                }}",
                self.index_bits() - 1
            );
        }
        format!(
            "            if ({pair}.isValid()) {{
                hash(place, HashAlgorithm.crc32, 32w0, {{ {pair}.key }}, 64w0x100000000);
                step = (place >> 16) | 1;
                {search}
                is_taken = false;
                if (found == SEARCH_HIT) {{
                    slot = (bit<32>) entry[23:0];
                    values.read(held, slot);
                    old = held[31:0];
                    new = old + {pair}.value;
                    if (new >= old) {{
                        values.write(slot, (held[63:32] + 1) ++ new);
                        hdr.agg.seen = hdr.agg.seen + new;
                        is_taken = true;
                    }}
                }} else if (found == SEARCH_EMPTY && used < {slots}) {{
                    slot = used;
                    keys.write(slot, {pair}.key);
                    values.write(slot, 32w1 ++ {pair}.value);
                    index.write(position, generation ++ used[23:0]);
                    hdr.agg.seen = hdr.agg.seen + {pair}.value;
                    used = used + 1;
                    is_taken = true;
                }}
                if (is_taken) {{
                    {pair}.setInvalid();
                    cut = cut + 1;
                }}
            }}\n",
            slots = self.slots
        )
    }
}

/// A variant of the workload.
pub(super) struct Variant {
    name: &'static str,
    about: &'static str,
    shape: Shape,
    source: &'static LazyLock<String>,
}

macro_rules! variant {
    ($id:ident, $name:literal, $about:literal, $key:literal, $slots:literal) => {
        pub(super) const $id: Variant = {
            const SHAPE: Shape = Shape {
                key: $key,
                slots: $slots,
            };
            static SOURCE: LazyLock<String> = LazyLock::new(|| SHAPE.source());
            Variant {
                name: $name,
                about: $about,
                shape: SHAPE,
                source: &SOURCE,
            }
        };
    };
}

variant!(
    KV64,
    "kv64",
    "a switch that adds pairs with 64-byte keys, 20 a packet: 1,000 keys in registers",
    64,
    1_000
);
variant!(
    KV64_60K,
    "kv64-60k",
    "the same with 60,000 keys",
    64,
    60_000
);
variant!(
    KV16,
    "kv16",
    "the same with 60,000 keys of 16 bytes",
    16,
    60_000
);

/// The workload.
pub(super) struct Kv {
    variant: Variant,
    keys: Vec<Vec<u8>>,
}

impl Kv {
    pub(super) fn new(variant: Variant, size: Size) -> Self {
        let Shape { key, slots } = variant.shape;
        let count = match size {
            Size::Full => slots,
            Size::Small => 200,
        };
        Self {
            keys: (0..count).map(|number| word(number, key)).collect(),
            variant,
        }
    }

    fn usual(&self, choices: &mut Rng) -> (u32, Message) {
        let pairs = (0..PAIRS).map(|_| {
            let key = choices.below(self.keys.len() as u64) as usize;
            (self.keys[key].clone(), choices.between(1, 16) as u32)
        });
        let pairs = pairs.collect();
        let message = Message {
            dst: 0x0a00_0000 | choices.below(1 << 24) as u32,
            ttl: choices.between(2, 255) as u8,
            port: PORT,
            epoch: 0,
            count: PAIRS as u8,
            pairs,
        };
        (choices.below(PORTS) as u32, message)
    }
}

/// Returns a key: letters, zeros, and their number in the last byte.
fn word(number: u64, bytes: usize) -> Vec<u8> {
    let mut choices = Rng::new(number);
    let letters = choices.between(8, bytes as u64 - 1) as usize;
    let mut word = vec![0; bytes];
    for letter in &mut word[..letters] {
        *letter = b'a' + choices.below(26) as u8;
    }
    word[bytes - 1] = letters as u8;
    word
}

struct Message {
    dst: u32,
    ttl: u8,
    port: u16,
    epoch: u16,
    count: u8,
    pairs: Vec<(Vec<u8>, u32)>,
}

impl Message {
    fn write(&self, frame: &mut Frame) {
        let pair = self.pairs.first().map_or(0, |(key, _)| key.len() + VALUE);
        let packet = Ipv4 {
            dst_mac: 0x0200_0000_0001,
            src_mac: 0x0200_0000_0002,
            src: 0x0a01_0203,
            dst: self.dst,
            ttl: self.ttl,
            protocol: UDP,
            src_port: 40_000,
            dst_port: self.port,
            len: HEADERS + pair * self.pairs.len(),
        };
        packet.write(frame);
        let bytes = frame.bytes_mut();
        // No UDP checksum.
        put16(bytes, IPV4_END + 6, 0);
        put16(bytes, IPV4_END + 8, self.epoch);
        bytes[IPV4_END + 10] = self.count;
        for (at, (key, value)) in (HEADERS..).step_by(pair.max(1)).zip(&self.pairs) {
            bytes[at..at + key.len()].copy_from_slice(key);
            put32(bytes, at + key.len(), *value);
        }
    }
}

fn mac(port: u64) -> u64 {
    0x0200_0000_0100 + port
}

impl Workload for Kv {
    fn name(&self) -> &'static str {
        self.variant.name
    }

    fn about(&self) -> &'static str {
        self.variant.about
    }

    fn source(&self) -> &'static str {
        self.variant.source
    }

    fn setup(&self, program: &Program, setup: &mut ItemSink<'_>) -> Result<(), SetupError> {
        let mut fill = Fill { program, setup };
        let routes = fill.table("routes", "forward")?;
        for port in 0..PORTS {
            let prefix = Key::Lpm(0x0a00_0000 | port << 20, 12);
            fill.add(&routes, &[prefix], &[port, mac(port)])?;
        }
        Ok(())
    }

    fn packet(&self, choices: &mut Rng, frame: &mut Frame) {
        let (port, message) = self.usual(choices);
        frame.ingress = PortId(port);
        message.write(frame);
    }

    fn stray(&self, choices: &mut Rng, frame: &mut Frame) {
        let (port, mut message) = self.usual(choices);
        frame.ingress = PortId(port);
        match choices.below(8) {
            // Keys for which there is no room at last.
            0 | 1 => {
                for (key, value) in &mut message.pairs {
                    *key = word(choices.bits() | 1 << 40, key.len());
                    // Sums overflow.
                    *value = choices.bits() as u32;
                }
            }
            2 => message.pairs.truncate(choices.below(PAIRS as u64) as usize),
            3 => message.count = choices.below(PAIRS as u64 + 3) as u8,
            4 => message.epoch = choices.below(50) as u16 / 49,
            5 => message.ttl = choices.below(2) as u8,
            6 => message.port = PORT + 1,
            _ => message.dst = choices.bits() as u32,
        }
        message.write(frame);
        let bytes = frame.bytes_mut();
        match choices.below(8) {
            0 => bytes[24] ^= 1 << choices.below(8),
            1 => bytes[14] = 0x46,
            2 => {
                let kept = choices.below(frame.len() as u64) as usize;
                frame.truncate(kept);
            }
            _ => {}
        }
    }

    fn hand_over(&self, configuration: &mut Configuration) -> Result<Hand, SetupError> {
        let routes = Flat::new(configuration, "routes", |action, params| match action {
            "forward" => Some((params[0] as u32, params[1])),
            _ => None,
        })?;
        Ok(match self.variant.shape.key {
            64 => Box::new(Loop::<64>::new(self.variant.shape, routes)),
            _ => Box::new(Loop::<16>::new(self.variant.shape, routes)),
        })
    }
}

/// A cache line of keys.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u8; 64]);

struct Loop<const KEY: usize> {
    routes: Flat<Option<(u32, u64)>>,
    shape: Shape,
    bank: u64,
    index: Vec<u64>,
    keys: Vec<Line>,
    values: Vec<u64>,
}

/// Place of a key.
enum Search {
    Hit(usize),
    Empty(usize),
    Full,
}

impl<const KEY: usize> Loop<KEY> {
    const PAIR: usize = KEY + VALUE;

    fn new(shape: Shape, routes: Flat<Option<(u32, u64)>>) -> Self {
        let slots = shape.slots as usize;
        Self {
            routes,
            shape,
            bank: 0,
            index: vec![0; 1 << shape.index_bits()],
            keys: vec![Line([0; 64]); (slots * KEY).div_ceil(64)],
            values: vec![0; slots],
        }
    }

    #[inline(always)]
    fn key(&self, slot: usize) -> &[u8] {
        let at = slot * KEY;
        &self.keys[at / 64].0[at % 64..][..KEY]
    }

    #[inline(always)]
    fn place(&self, hash: u32) -> usize {
        hash as usize & (self.index.len() - 1)
    }

    #[inline(always)]
    fn search(&self, key: &[u8], hash: u32, generation: u64) -> Search {
        let step = hash >> 16 | 1;
        let mut place = hash;
        for _ in 0..CANDIDATES {
            let position = self.place(place);
            let entry = self.index[position];
            if entry >> 24 != generation {
                return Search::Empty(position);
            }
            let slot = entry as usize & 0xff_ffff;
            if self.key(slot) == key {
                return Search::Hit(slot);
            }
            place = place.wrapping_add(step);
        }
        Search::Full
    }

    /// Adds the pairs of a message. Returns the number of those that leave it, which the following
    /// ones move up for.
    fn reduce(&mut self, bytes: &mut [u8], count: usize) -> usize {
        let generation = 1 << 16 | u64::from(be16(bytes, IPV4_END + 8));
        let mut used = match self.bank >> 24 == generation {
            true => self.bank & 0xff_ffff,
            false => 0,
        };
        let mut hashes = [0; PAIRS];
        let pairs = &bytes[HEADERS..];
        for (hash, pair) in hashes.iter_mut().zip(pairs.chunks_exact(Self::PAIR)) {
            *hash = crc32(&pair[..KEY]);
            prefetch_at(&raw const self.index[self.place(*hash)] as usize);
        }
        for &hash in &hashes[..count] {
            let slot = self.index[self.place(hash)] as usize & 0xff_ffff;
            if slot < self.values.len() {
                prefetch_at(self.key(slot).as_ptr() as usize);
                prefetch_at(&raw const self.values[slot] as usize);
            }
        }
        let mut kept = 0;
        let mut seen = be32(bytes, IPV4_END + 12);
        for (pair, &hash) in hashes[..count].iter().enumerate() {
            let at = HEADERS + pair * Self::PAIR;
            let value = be32(bytes, at + KEY);
            let key = &bytes[at..at + KEY];
            let is_taken = match self.search(key, hash, generation) {
                Search::Hit(slot) => {
                    let held = self.values[slot];
                    let sum = (held as u32).checked_add(value);
                    if let Some(sum) = sum {
                        let added = ((held >> 32) as u32).wrapping_add(1);
                        self.values[slot] = u64::from(added) << 32 | u64::from(sum);
                        seen = seen.wrapping_add(sum);
                    }
                    sum.is_some()
                }
                Search::Empty(position) if used < self.shape.slots => {
                    let at = used as usize * KEY;
                    self.keys[at / 64].0[at % 64..][..KEY].copy_from_slice(key);
                    self.values[used as usize] = 1 << 32 | u64::from(value);
                    self.index[position] = generation << 24 | used;
                    seen = seen.wrapping_add(value);
                    used += 1;
                    true
                }
                _ => false,
            };
            if !is_taken {
                bytes.copy_within(at..at + Self::PAIR, HEADERS + kept * Self::PAIR);
                kept += 1;
            }
        }
        put32(bytes, IPV4_END + 12, seen);
        self.bank = generation << 24 | used;
        count - kept
    }

    /// Returns the number of pairs of a message, if it is whole.
    #[inline(always)]
    fn pairs(bytes: &[u8]) -> Option<usize> {
        let is_udp = bytes[14] == 0x45 && be16(bytes, 20) & 0x3fff == 0 && bytes[23] == UDP;
        if !is_udp || bytes.len() < HEADERS || be16(bytes, IPV4_END + 2) != PORT {
            return None;
        }
        let pairs = usize::from(bytes[IPV4_END + 10]);
        (pairs <= PAIRS && HEADERS + pairs * Self::PAIR <= bytes.len()).then_some(pairs)
    }

    fn one(&mut self, frame: &mut Frame, out: &mut SentFrames) {
        let len = frame.len();
        let bytes = frame.bytes_mut();
        if len < IPV4_END || be16(bytes, 12) != ETHERTYPE_IPV4 || bytes[22] <= 1 {
            return;
        }
        let has_no_options = bytes[14] & 0xf == 5;
        if has_no_options && !ipv4_is_right(bytes, ETHERNET) {
            return;
        }
        let route = self.routes.find(&[be32(bytes, 30).into()]).flatten();
        let pairs = Self::pairs(bytes);
        let cut = pairs.map_or(0, |pairs| self.reduce(bytes, pairs));
        let Some((port, mac)) = route else {
            return;
        };
        put48(bytes, 0, mac);
        if !has_no_options {
            bytes[22] -= 1;
        } else if let (Some(pairs), 1..) = (pairs, cut) {
            let gone = cut * Self::PAIR;
            let end = HEADERS + pairs * Self::PAIR;
            bytes.copy_within(end.., end - gone);
            bytes[22] -= 1;
            let less = |bytes: &mut [u8], at| {
                let length = be16(bytes, at).wrapping_sub(gone as u16);
                put16(bytes, at, length);
            };
            less(bytes, 16);
            less(bytes, IPV4_END + 4);
            bytes[IPV4_END + 10] -= cut as u8;
            bytes[IPV4_END + 11] = bytes[IPV4_END + 11].wrapping_add(cut as u8);
            seal_ipv4(bytes, ETHERNET);
            frame.truncate(len - gone);
        } else {
            decrement_ttl(bytes, ETHERNET);
        }
        out.take(PortId(port), frame);
    }
}

impl<const KEY: usize> Forward for Loop<KEY> {
    fn forward(&mut self, frames: &mut [Frame], _: Nanos, out: &mut SentFrames) {
        for frame in frames {
            self.one(frame, out);
        }
    }

    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }
}
