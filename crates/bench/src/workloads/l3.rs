//! `l3`: a router with a full Internet routing table for IPv4.

use exec::Configuration;
use generators::{Family, RoutingTable};
use ir::Program;
use packet::{Frame, Nanos, PortId};
use support::rng::Rng;
use table::EntryIdx;

use super::Size;
use super::fill::Fill;
use super::flat::{BURST, Counter, Flat};
use crate::forward::{Forward, Reading, SentFrames};
use crate::names::Key;
use crate::setup::{ItemSink, SetupError};
use crate::wire::{
    ETHERNET, ETHERTYPE_IPV4, IPV4_END, Ipv4, UDP, be16, be32, be48, decrement_ttl, ipv4_is_right,
    put16, put48,
};
use crate::{Hand, Workload};

/// Number of prefixes in a full table.
const ROUTES: usize = 964_000;
/// Number of next hops.
const NEXT_HOPS: u64 = 256;
/// Number of ports, numbered from 0.
const PORTS: u32 = 16;
/// Port of the control plane.
const CPU_PORT: u32 = 255;

/// The workload.
pub(super) struct Router {
    table: RoutingTable,
}

impl Router {
    pub(super) fn new(size: Size) -> Self {
        let routes = match size {
            Size::Full => ROUTES,
            Size::Small => 500,
        };
        Self {
            table: RoutingTable::generate(Family::V4, routes, 1),
        }
    }

    fn usual(&self, choices: &mut Rng) -> (u32, Ipv4) {
        let port = choices.below(PORTS.into()) as u32;
        let packet = Ipv4 {
            dst_mac: our_mac(port.into()),
            src_mac: their_mac(choices.below(NEXT_HOPS)),
            src: choices.bits() as u32,
            dst: self.table.destination(choices) as u32,
            ttl: choices.between(2, 255) as u8,
            protocol: UDP,
            src_port: choices.bits() as u16,
            dst_port: choices.bits() as u16,
            len: 64,
        };
        (port, packet)
    }
}

fn our_mac(port: u64) -> u64 {
    0x0200_0000_0100 + port
}

fn their_mac(next_hop: u64) -> u64 {
    0x0200_0000_1000 + next_hop
}

impl Workload for Router {
    fn name(&self) -> &'static str {
        "l3"
    }

    fn about(&self) -> &'static str {
        "an IPv4 router with 964,000 routes: checksums, hops, counters"
    }

    fn source(&self) -> &'static str {
        include_str!("../../programs/l3.p4")
    }

    fn setup(&self, program: &Program, setup: &mut ItemSink<'_>) -> Result<(), SetupError> {
        let mut fill = Fill { program, setup };
        let interfaces = fill.table("interfaces", "interface")?;
        for port in 0..u64::from(PORTS) {
            fill.add(&interfaces, &[Key::Is(port)], &[our_mac(port)])?;
        }
        let next_hops = fill.table("next_hops", "forward")?;
        for hop in 0..NEXT_HOPS {
            let port = hop % u64::from(PORTS);
            let args = [port, our_mac(port), their_mac(hop)];
            fill.add(&next_hops, &[Key::Is(hop)], &args)?;
        }
        let routes = fill.table("routes", "via")?;
        let mut choices = Rng::new(2);
        for route in self.table.routes() {
            let prefix = Key::Lpm(route.address as u64, route.len.into());
            fill.add(&routes, &[prefix], &[choices.below(NEXT_HOPS)])?;
        }
        Ok(())
    }

    fn packet(&self, choices: &mut Rng, frame: &mut Frame) {
        let (port, packet) = self.usual(choices);
        frame.ingress = PortId(port);
        packet.write(frame);
    }

    fn stray(&self, choices: &mut Rng, frame: &mut Frame) {
        let (port, mut packet) = self.usual(choices);
        frame.ingress = PortId(port);
        match choices.below(8) {
            0 => packet.ttl = choices.below(2) as u8,
            1 => packet.dst_mac = 0xffff_ffff_ffff,
            2 => packet.dst = 0x7f00_0001,
            3 => frame.ingress = PortId(PORTS),
            _ => {}
        }
        packet.write(frame);
        let bytes = frame.bytes_mut();
        match choices.below(8) {
            0 => bytes[24] ^= 1 << choices.below(8),
            1 => put16(bytes, 12, 0x86dd),
            2 => bytes[14] = 0x46,
            3 => bytes[14] = 0x65,
            4 => frame.truncate(choices.below(IPV4_END as u64) as usize),
            _ => {}
        }
    }

    fn hand_over(&self, configuration: &mut Configuration) -> Result<Hand, SetupError> {
        Ok(Box::new(Loop {
            interfaces: Flat::new(configuration, "interfaces", |_, params| params[0])?,
            routes: Flat::new(configuration, "routes", |_, params| params[0])?,
            next_hops: Flat::new(configuration, "next_hops", |_, params| NextHop {
                port: params[0] as u32,
                src: params[1],
                dst: params[2],
            })?,
            exceptions: Counter::new("exceptions", 8),
            port_tx: Counter::new("port_tx", 512),
        }))
    }
}

#[derive(Clone, Copy, Default)]
struct NextHop {
    port: u32,
    src: u64,
    dst: u64,
}

/// Reason for which a packet is not forwarded, numbered as in the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exception {
    TooShort,
    NotForUs,
    NotIpv4,
    HasOptions,
    BadChecksum,
    LastHop,
    NoRoute,
    NoNextHop,
}

struct Loop {
    interfaces: Flat<u64>,
    routes: Flat<u64>,
    next_hops: Flat<NextHop>,
    exceptions: Counter,
    port_tx: Counter,
}

impl Loop {
    /// Checks a packet before its route lookup. Returns its destination address.
    #[inline(always)]
    fn look(&self, frame: &Frame) -> Result<u64, Exception> {
        let Some(bytes) = frame.bytes().first_chunk::<IPV4_END>() else {
            return Err(self.look_at_short(frame));
        };
        let port = u64::from(frame.ingress.0);
        if be48(bytes, 0) != self.interfaces.find(&[port]).unwrap_or(0) {
            Err(Exception::NotForUs)
        } else if be16(bytes, 12) != ETHERTYPE_IPV4 {
            Err(Exception::NotIpv4)
        } else if bytes[14] != 0x45 {
            Err(Exception::HasOptions)
        } else if !ipv4_is_right(bytes, ETHERNET) {
            Err(Exception::BadChecksum)
        } else if bytes[22] <= 1 {
            Err(Exception::LastHop)
        } else {
            Ok(be32(bytes, 30).into())
        }
    }

    #[cold]
    fn look_at_short(&self, frame: &Frame) -> Exception {
        let bytes = frame.bytes();
        if bytes.len() < ETHERNET || be16(bytes, 12) == ETHERTYPE_IPV4 {
            return Exception::TooShort;
        }
        match self.interfaces.find(&[u64::from(frame.ingress.0)]) {
            Some(mac) if mac == be48(bytes, 0) => Exception::NotIpv4,
            _ => Exception::NotForUs,
        }
    }

    fn burst(&mut self, frames: &mut [Frame], out: &mut SentFrames) {
        let mut keys = [0; BURST];
        let mut found: [Option<EntryIdx>; BURST] = [None; BURST];
        let mut trouble = [None; BURST];
        let n = frames.len();
        for (i, frame) in frames.iter().enumerate() {
            match self.look(frame) {
                Ok(destination) => keys[i] = destination,
                Err(exception) => trouble[i] = Some(exception),
            }
        }
        self.routes.find_batch(&keys[..n], &mut found[..n]);
        for i in 0..n {
            match found[i] {
                Some(route) => keys[i] = self.routes.at(route),
                None => trouble[i] = trouble[i].or(Some(Exception::NoRoute)),
            }
        }
        self.next_hops.find_batch(&keys[..n], &mut found[..n]);
        for (i, frame) in frames.iter_mut().enumerate() {
            match (trouble[i], found[i]) {
                (None, Some(hop)) => self.forward_one(frame, self.next_hops.at(hop), out),
                (None, None) => self.except(frame, Exception::NoNextHop, out),
                (Some(exception), _) => self.except(frame, exception, out),
            }
        }
    }

    #[inline(always)]
    fn forward_one(&mut self, frame: &mut Frame, hop: NextHop, out: &mut SentFrames) {
        self.port_tx.count(hop.port as usize, frame.len());
        if let Some(bytes) = frame.bytes_mut().first_chunk_mut::<IPV4_END>() {
            put48(bytes, 0, hop.dst);
            put48(bytes, 6, hop.src);
            decrement_ttl(bytes, ETHERNET);
        }
        out.take(PortId(hop.port), frame);
    }

    #[cold]
    fn except(&mut self, frame: &mut Frame, exception: Exception, out: &mut SentFrames) {
        use Exception::{HasOptions, LastHop, NotIpv4};
        self.exceptions.count_packet(exception as usize);
        if matches!(exception, HasOptions | LastHop | NotIpv4) {
            self.port_tx.count(CPU_PORT as usize, frame.len());
            out.take(PortId(CPU_PORT), frame);
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
        vec![self.exceptions.reading(), self.port_tx.reading()]
    }
}
