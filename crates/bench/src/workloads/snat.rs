//! `snat`: address and port translation in both directions.

use exec::Configuration;
use generators::{Family, RoutingTable};
use ir::Program;
use packet::{Frame, Nanos, PortId};
use support::checksum::fold;
use support::rng::Rng;
use table::EntryIdx;

use super::Size;
use super::fill::Fill;
use super::flat::{Asked, BURST, Counter, DirectCounter, Flat};
use crate::forward::{Forward, Reading, SentFrames};
use crate::names::Key;
use crate::setup::{ItemSink, SetupError};
use crate::wire::{
    ETHERNET, ETHERTYPE_IPV4, IPV4_END, Ipv4, TCP, UDP, be16, be32, corrected32, decrement_ttl,
    ipv4_is_right, put16, put32, put48,
};
use crate::{Hand, Workload};

/// Number of known flows.
const FLOWS: u64 = 100_000;
/// Number of routes to the outside.
const ROUTES: usize = 1000;
/// Number of ports, numbered from 0. The first half is inside, the second half outside.
const PORTS: u64 = 8;
const CPU_PORT: u32 = 255;

/// The workload.
pub(super) struct Snat {
    flows: u64,
    routes: RoutingTable,
}

/// A flow: the host's address and port, the translated address and port, and the protocol.
#[derive(Clone, Copy)]
struct Flow {
    host: (u32, u16),
    ours: (u32, u16),
    protocol: u8,
}

fn flow(number: u64) -> Flow {
    let mut choices = Rng::new(number);
    Flow {
        // Each host uses 1,024 ports, and each translated address serves 32 hosts.
        host: (
            0x0a00_0000 | (number >> 10) as u32,
            1024 + (number & 1023) as u16,
        ),
        ours: (
            0xc633_6400 | (number >> 15) as u32,
            1024 + (number & 0x7fff) as u16,
        ),
        protocol: if choices.per_mille(800) { TCP } else { UDP },
    }
}

impl Snat {
    pub(super) fn new(size: Size) -> Self {
        let (flows, routes) = match size {
            Size::Full => (FLOWS, ROUTES),
            Size::Small => (300, 50),
        };
        Self {
            flows,
            routes: RoutingTable::generate(Family::V4, routes, 1),
        }
    }

    /// Returns a normal packet and its ingress port. It is from a host or to a host.
    fn usual(&self, choices: &mut Rng) -> (Ipv4, u64) {
        let flow = flow(choices.below(self.flows));
        let other = (self.routes.destination(choices) as u32, 443);
        let is_out = choices.per_mille(500);
        let (from, to) = if is_out {
            (flow.host, other)
        } else {
            (other, flow.ours)
        };
        let packet = Ipv4 {
            dst_mac: OUR_MAC,
            src_mac: 0x0200_0000_2000 + choices.below(64),
            src: from.0,
            dst: to.0,
            ttl: choices.between(2, 128) as u8,
            protocol: flow.protocol,
            src_port: from.1,
            dst_port: to.1,
            len: 64,
        };
        let port = choices.below(PORTS / 2);
        (packet, if is_out { port } else { port + PORTS / 2 })
    }
}

const OUR_MAC: u64 = 0x0200_0000_0100;

impl Workload for Snat {
    fn name(&self) -> &'static str {
        "snat"
    }

    fn about(&self) -> &'static str {
        "address and port translation, both ways, for 100,000 flows of TCP and UDP"
    }

    fn source(&self) -> &'static str {
        include_str!("../../programs/snat.p4")
    }

    fn setup(&self, program: &Program, setup: &mut ItemSink<'_>) -> Result<(), SetupError> {
        let mut fill = Fill { program, setup };
        let inside = fill.table("sides", "inside")?;
        let outside = fill.table("sides", "outside")?;
        for port in 0..PORTS {
            let side = if port < PORTS / 2 { &inside } else { &outside };
            fill.add(side, &[Key::Is(port)], &[])?;
        }
        let outbound = fill.table("outbound", "leave_as")?;
        let inbound = fill.table("inbound", "deliver_to")?;
        for number in 0..self.flows {
            let flow = flow(number);
            let numbers = |(address, port): (u32, u16)| [address.into(), port.into()];
            let keys = |(address, port): (u32, u16)| {
                let values = [address.into(), port.into(), flow.protocol.into()];
                values.map(Key::Is)
            };
            fill.add(&outbound, &keys(flow.host), &numbers(flow.ours))?;
            fill.add(&inbound, &keys(flow.ours), &numbers(flow.host))?;
        }
        let routes = fill.table("routes", "forward")?;
        let mut choices = Rng::new(2);
        let mut hop = |ports: std::ops::Range<u64>| {
            let port = choices.between(ports.start, ports.end - 1);
            [port, OUR_MAC + port, 0x0200_0000_3000 + choices.below(64)]
        };
        for host in 0..=self.flows >> 10 {
            let prefix = Key::Lpm(0x0a00_0000 | host, 32);
            fill.add(&routes, &[prefix], &hop(0..PORTS / 2))?;
        }
        for route in self.routes.routes() {
            let prefix = Key::Lpm(route.address as u64, route.len.into());
            fill.add(&routes, &[prefix], &hop(PORTS / 2..PORTS))?;
        }
        Ok(())
    }

    fn packet(&self, choices: &mut Rng, frame: &mut Frame) {
        let (packet, port) = self.usual(choices);
        frame.ingress = PortId(port as u32);
        packet.write(frame);
    }

    fn stray(&self, choices: &mut Rng, frame: &mut Frame) {
        let (mut packet, port) = self.usual(choices);
        frame.ingress = PortId(port as u32);
        match choices.below(8) {
            0 => packet.src_port ^= 1 << 15,
            1 => packet.dst_port ^= 1 << 15,
            2 => packet.dst = choices.bits() as u32,
            3 => packet.ttl = choices.below(2) as u8,
            4 => packet.protocol = 1,
            5 => packet.protocol ^= TCP ^ UDP,
            6 => frame.ingress = PortId(choices.below(PORTS + 1) as u32),
            _ => {}
        }
        packet.write(frame);
        let bytes = frame.bytes_mut();
        match choices.below(8) {
            0 => bytes[12 + choices.below(22) as usize] ^= 1 << choices.below(8),
            // Checksums with a special meaning or an equivalent value.
            1 => put16(bytes, 40, [0, 0xffff][choices.below(2) as usize]),
            2 => put16(bytes, 50, [0, 0xffff][choices.below(2) as usize]),
            3 => put16(bytes, 40, choices.bits() as u16),
            4 => frame.truncate(choices.below(56) as usize),
            _ => {}
        }
    }

    fn hand_over(&self, configuration: &mut Configuration) -> Result<Hand, SetupError> {
        let end = |_: &str, params: &[u64]| End {
            address: params[0] as u32,
            port: params[1] as u16,
        };
        let outbound = Flat::new(configuration, "outbound", end)?;
        let inbound = Flat::new(configuration, "inbound", end)?;
        Ok(Box::new(Loop {
            sides: Flat::new(configuration, "sides", |action, _| action == "inside")?,
            flows_out: outbound.direct_counter("flows_out"),
            outbound,
            flows_in: inbound.direct_counter("flows_in"),
            inbound,
            routes: Flat::new(configuration, "routes", |_, params| NextHop {
                port: params[0] as u32,
                src: params[1],
                dst: params[2],
            })?,
            drops: Counter::new("drops", 8),
        }))
    }
}

/// Address and port of one end of a flow.
#[derive(Clone, Copy, Default)]
struct End {
    address: u32,
    port: u16,
}

#[derive(Clone, Copy, Default)]
struct NextHop {
    port: u32,
    src: u64,
    dst: u64,
}

/// Drop reason, numbered as in the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drop {
    Malformed,
    NotIpv4,
    BadChecksum,
    LastHop,
    NoPorts,
    NoSide,
    Unasked,
    NoRoute,
}

/// Length of Ethernet, IPv4 and TCP headers, in bytes.
const TCP_END: usize = IPV4_END + 20;

struct Loop {
    /// True if the port is inside.
    sides: Flat<bool>,
    outbound: Flat<End>,
    flows_out: DirectCounter,
    inbound: Flat<End>,
    flows_in: DirectCounter,
    routes: Flat<NextHop>,
    drops: Counter,
}

impl Loop {
    /// Checks a packet. Returns true if it comes from inside.
    #[inline(always)]
    fn look(&self, frame: &Frame) -> Result<bool, Drop> {
        let bytes = frame.bytes();
        let Some(headers) = bytes.first_chunk::<IPV4_END>() else {
            return Err(match bytes.get(12..ETHERNET) {
                Some(ethertype) if be16(ethertype, 0) != ETHERTYPE_IPV4 => Drop::NotIpv4,
                _ => Drop::Malformed,
            });
        };
        if be16(headers, 12) != ETHERTYPE_IPV4 {
            return Err(Drop::NotIpv4);
        }
        let is_whole = headers[14] == 0x45 && be16(headers, 20) & 0x3fff == 0;
        let l4_end = match headers[23] {
            TCP if is_whole => TCP_END,
            UDP if is_whole => IPV4_END + 8,
            _ => 0,
        };
        if bytes.len() < l4_end {
            Err(Drop::Malformed)
        } else if !ipv4_is_right(headers, ETHERNET) {
            Err(Drop::BadChecksum)
        } else if headers[22] <= 1 {
            Err(Drop::LastHop)
        } else if l4_end == 0 {
            Err(Drop::NoPorts)
        } else {
            let side = self.sides.find(&[frame.ingress.0.into()]);
            side.ok_or(Drop::NoSide)
        }
    }

    fn burst(&mut self, frames: &mut [Frame], out: &mut SentFrames) {
        let mut outbound = Asked::<3>::new();
        let mut inbound = Asked::<3>::new();
        for (i, frame) in frames.iter().enumerate() {
            let is_inside = match self.look(frame) {
                Ok(is_inside) => is_inside,
                Err(reason) => {
                    self.drops.count_packet(reason as usize);
                    continue;
                }
            };
            let bytes = frame.bytes();
            let key = |address_at, port_at| {
                let (address, port) = (be32(bytes, address_at), be16(bytes, port_at));
                [address.into(), port.into(), bytes[23].into()]
            };
            match is_inside {
                true => outbound.ask(i, key(26, 34)),
                false => inbound.ask(i, key(30, 36)),
            }
        }
        let mut fates = [Fate::Gone; BURST];
        self.translate(frames, &outbound, &inbound, &mut fates);
        self.route(frames, &fates, out);
    }

    fn translate(
        &mut self,
        frames: &mut [Frame],
        outbound: &Asked<3>,
        inbound: &Asked<3>,
        fates: &mut [Fate; BURST],
    ) {
        let (ends, flows) = (&self.outbound, &mut self.flows_out);
        outbound.answer_places(ends, |i, place: Option<EntryIdx>| {
            flows.count_hit(place, frames[i].len());
            fates[i] = match place {
                None => Fate::ToCpu,
                Some(place) => {
                    rewrite(frames[i].bytes_mut(), 26, 34, ends.at(place));
                    Fate::Translated
                }
            };
        });
        let (ends, flows, drops) = (&self.inbound, &mut self.flows_in, &mut self.drops);
        inbound.answer_places(ends, |i, place| {
            flows.count_hit(place, frames[i].len());
            match place {
                None => drops.count_packet(Drop::Unasked as usize),
                Some(place) => {
                    rewrite(frames[i].bytes_mut(), 30, 36, ends.at(place));
                    fates[i] = Fate::Translated;
                }
            }
        });
    }

    fn route(&mut self, frames: &mut [Frame], fates: &[Fate; BURST], out: &mut SentFrames) {
        let mut asked = Asked::<1>::new();
        for (i, frame) in frames.iter().enumerate() {
            if fates[i] == Fate::Translated {
                asked.ask(i, [be32(frame.bytes(), 30).into()]);
            }
        }
        let mut hops = [None; BURST];
        asked.answer(&self.routes, |i, hop| hops[i] = hop);
        for (i, frame) in frames.iter_mut().enumerate() {
            match (fates[i], hops[i]) {
                (Fate::Gone, _) => {}
                (Fate::ToCpu, _) => out.take(PortId(CPU_PORT), frame),
                (Fate::Translated, None) => self.drops.count_packet(Drop::NoRoute as usize),
                (Fate::Translated, Some(hop)) => {
                    if let Some(bytes) = frame.bytes_mut().first_chunk_mut::<IPV4_END>() {
                        put48(bytes, 0, hop.dst);
                        put48(bytes, 6, hop.src);
                        decrement_ttl(bytes, ETHERNET);
                    }
                    out.take(PortId(hop.port), frame);
                }
            }
        }
    }
}

/// State of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Gone,
    ToCpu,
    Translated,
}

/// Replaces an address and a port, and updates the checksums. The IPv4 checksum must be correct.
#[inline(always)]
fn rewrite(bytes: &mut [u8], address_at: usize, port_at: usize, end: End) {
    let old = (be32(bytes, address_at), be16(bytes, port_at));
    put32(bytes, address_at, end.address);
    put16(bytes, port_at, end.port);
    let checksum = corrected32(be16(bytes, 24), old.0, end.address);
    put16(bytes, 24, checksum);
    let change =
        u64::from(!old.0) + u64::from(end.address) + u64::from(!old.1) + u64::from(end.port);
    let corrected = |checksum: u16| !fold(u64::from(!checksum) + change);
    if bytes[23] == TCP {
        put16(bytes, 50, corrected(be16(bytes, 50)));
    } else if be16(bytes, 40) != 0 {
        // Zero means that there is no checksum. A computed zero is sent as all ones.
        match corrected(be16(bytes, 40)) {
            0 => put16(bytes, 40, 0xffff),
            checksum => put16(bytes, 40, checksum),
        }
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
            self.flows_out.reading(),
            self.flows_in.reading(),
        ]
    }
}
