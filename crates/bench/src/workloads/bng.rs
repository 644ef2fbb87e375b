//! `bng`: the downlink of a broadband network gateway, which encapsulates packets for subscribers'
//! PPPoE sessions.

use exec::Configuration;
use ir::Program;
use packet::{Frame, Nanos, PortId};
use support::rng::Rng;

use super::Size;
use super::fill::Fill;
use super::flat::{Asked, BURST, Counter, DirectCounter, Flat};
use crate::forward::{Forward, Reading, SentFrames};
use crate::names::Key;
use crate::setup::{ItemSink, SetupError};
use crate::wire::{
    ETHERNET, ETHERTYPE_IPV4, ETHERTYPE_VLAN, IPV4_END, Ipv4, UDP, be16, be32, decrement_ttl,
    ipv4_is_right, put16, put48,
};
use crate::{Hand, Workload};

/// Number of subscribers.
const SUBSCRIBERS: u64 = 100_000;
/// Number of ports, numbered from 0. The first four lead to subscribers, the others to the core.
const PORTS: u64 = 8;
const ACCESS_PORTS: u64 = 4;

const ETHERTYPE_SERVICE_TAG: u16 = 0x88a8;
const ETHERTYPE_PPPOE_SESSION: u16 = 0x8864;
const PPP_IPV4: u16 = 0x0021;
/// Length of two VLAN tags and of PPPoE with PPP, in bytes.
const ADDED: usize = 4 + 4 + 8;

/// The workload.
pub(super) struct Bng {
    subscribers: u64,
}

impl Bng {
    pub(super) fn new(size: Size) -> Self {
        Self {
            subscribers: match size {
                Size::Full => SUBSCRIBERS,
                Size::Small => 200,
            },
        }
    }

    fn usual(&self, choices: &mut Rng) -> Ipv4 {
        Ipv4 {
            dst_mac: OUR_MAC,
            src_mac: 0x0200_0000_2000 + choices.below(64),
            src: choices.bits() as u32,
            dst: address(choices.below(self.subscribers)),
            ttl: choices.between(2, 128) as u8,
            protocol: UDP,
            src_port: 443,
            dst_port: choices.bits() as u16,
            len: 64,
        }
    }
}

const OUR_MAC: u64 = 0x0200_0000_0100;

/// Returns the address of a subscriber.
fn address(subscriber: u64) -> u32 {
    0x6440_0000 + subscriber as u32
}

impl Workload for Bng {
    fn name(&self) -> &'static str {
        "bng"
    }

    fn about(&self) -> &'static str {
        "a broadband gateway, downlink (PSA): tags and PPPoE put on for 100,000 subscribers"
    }

    fn source(&self) -> &'static str {
        include_str!("../../programs/bng.p4")
    }

    fn setup(&self, program: &Program, setup: &mut ItemSink<'_>) -> Result<(), SetupError> {
        let mut fill = Fill { program, setup };
        let subscribers = fill.table("subscribers", "to_subscriber")?;
        for subscriber in 0..self.subscribers {
            let args = [
                subscriber % ACCESS_PORTS,
                OUR_MAC,
                0x0200_1000_0000 + subscriber,
                100 + subscriber / 4000,
                1 + subscriber % 4000,
                1 + subscriber % 65_000,
            ];
            let key = Key::Is(address(subscriber).into());
            fill.add(&subscribers, &[key], &args)?;
        }
        Ok(())
    }

    fn packet(&self, choices: &mut Rng, frame: &mut Frame) {
        frame.ingress = PortId(choices.between(ACCESS_PORTS, PORTS - 1) as u32);
        self.usual(choices).write(frame);
    }

    fn stray(&self, choices: &mut Rng, frame: &mut Frame) {
        frame.ingress = PortId(choices.below(PORTS) as u32);
        let mut packet = self.usual(choices);
        match choices.below(4) {
            0 => packet.dst = choices.bits() as u32,
            1 => packet.ttl = choices.below(2) as u8,
            _ => {}
        }
        packet.write(frame);
        match choices.below(4) {
            0 => frame.truncate(choices.below(IPV4_END as u64) as usize),
            1 => frame.bytes_mut()[12 + choices.below(22) as usize] ^= 1 << choices.below(8),
            _ => {}
        }
    }

    fn hand_over(&self, configuration: &mut Configuration) -> Result<Hand, SetupError> {
        let subscribers = Flat::new(configuration, "subscribers", |_, params| {
            Session::new(params)
        })?;
        Ok(Box::new(Loop {
            accounting: subscribers.direct_counter("accounting"),
            subscribers,
            drops: Counter::new("drops", 2),
            port_tx: Counter::new("port_tx", 64),
        }))
    }
}

/// Header of a subscriber's packets, without the length.
#[derive(Clone, Copy)]
struct Session {
    header: [u8; IPV4_END - 20 + ADDED],
    port: u32,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            header: [0; _],
            port: 0,
        }
    }
}

impl Session {
    fn new(params: &[u64]) -> Self {
        let mut session = Self {
            port: params[0] as u32,
            ..Self::default()
        };
        let bytes = &mut session.header;
        put48(bytes, 0, params[2]);
        put48(bytes, 6, params[1]);
        put16(bytes, 12, ETHERTYPE_SERVICE_TAG);
        put16(bytes, 14, params[3] as u16);
        put16(bytes, 16, ETHERTYPE_VLAN);
        put16(bytes, 18, params[4] as u16);
        put16(bytes, 20, ETHERTYPE_PPPOE_SESSION);
        put16(bytes, 22, 0x1100);
        put16(bytes, 24, params[5] as u16);
        put16(bytes, LENGTH_AT + 2, PPP_IPV4);
        session
    }
}

/// Offset of the PPPoE length.
const LENGTH_AT: usize = 26;

struct Loop {
    subscribers: Flat<Session>,
    accounting: DirectCounter,
    drops: Counter,
    port_tx: Counter,
}

/// Drop reasons, numbered as in the program.
const MALFORMED: usize = 0;
const LAST_HOP: usize = 1;

#[inline(always)]
fn look(frame: &Frame) -> Result<u64, usize> {
    let Some(bytes) = frame.bytes().first_chunk::<IPV4_END>() else {
        return Err(MALFORMED);
    };
    let is_right = be16(bytes, 12) == ETHERTYPE_IPV4
        && bytes[ETHERNET] == 0x45
        && ipv4_is_right(bytes, ETHERNET);
    match (is_right, bytes[22]) {
        (false, _) => Err(MALFORMED),
        (true, 0 | 1) => Err(LAST_HOP),
        (true, _) => Ok(be32(bytes, 30).into()),
    }
}

impl Loop {
    fn burst(&mut self, frames: &mut [Frame], out: &mut SentFrames) {
        let mut asked = Asked::<1>::new();
        for (i, frame) in frames.iter().enumerate() {
            match look(frame) {
                Ok(destination) => asked.ask(i, [destination]),
                Err(reason) => self.drops.count_packet(reason),
            }
        }
        let (subscribers, accounting, port_tx) =
            (&self.subscribers, &mut self.accounting, &mut self.port_tx);
        asked.answer_places(subscribers, |i, place| {
            let frame = &mut frames[i];
            accounting.count(place, frame.len());
            if let Some(place) = place {
                let session = subscribers.get(place);
                encapsulate(frame, session);
                port_tx.count(session.port as usize, frame.len());
                out.take(PortId(session.port), frame);
            }
        });
    }
}

#[inline(always)]
fn encapsulate(frame: &mut Frame, session: &Session) {
    let bytes = frame.bytes_mut();
    decrement_ttl(bytes, ETHERNET);
    let length = be16(bytes, ETHERNET + 2).wrapping_add(2);
    // The Ethernet header is also replaced. The headroom suffices for the new header.
    let moved = frame
        .pull_front(ETHERNET)
        .and_then(|()| frame.push_front(&session.header));
    if moved.is_ok() {
        put16(frame.bytes_mut(), LENGTH_AT, length);
    }
}

impl Forward for Loop {
    fn forward(&mut self, frames: &mut [Frame], _: Nanos, out: &mut SentFrames) {
        for burst in frames.chunks_mut(BURST) {
            self.burst(burst, out);
        }
    }

    fn readings(&self) -> Vec<Reading> {
        vec![
            self.drops.reading(),
            self.accounting.reading(),
            self.port_tx.reading(),
        ]
    }
}
