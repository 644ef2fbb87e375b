//! `upf`: the uplink of a 5G user plane function, which removes GTP-U tunnels.

use exec::Configuration;
use generators::{Family, RoutingTable};
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
    ETHERNET, ETHERTYPE_IPV4, IPV4_END, Ipv4, UDP, be16, be32, be48, decrement_ttl, ipv4_is_right,
    put16, put32, put48,
};
use crate::{Hand, Workload};

/// Number of user sessions.
const SESSIONS: u64 = 100_000;
/// Number of routes, in addition to the default route.
const ROUTES: usize = 1000;
/// Number of tunnel endpoint addresses, to which gNBs (5G radio nodes) send.
const INTERFACES: u64 = 4;
/// Number of ports, numbered from 0.
const PORTS: u64 = 4;

/// The UDP port of GTP-U.
const GTP_U: u16 = 2152;
/// The first two bytes of GTP-U, without option flags: version 1, protocol type GTP, message type
/// G-PDU.
const G_PDU: u16 = 0x30ff;
/// Offsets of the parts of a tunnelled packet.
const GTP_AT: usize = IPV4_END + 8;
const OPTIONS_AT: usize = GTP_AT + 8;
const SESSION_AT: usize = OPTIONS_AT + 4;

/// The workload.
pub(super) struct Upf {
    sessions: u64,
    routes: RoutingTable,
}

impl Upf {
    pub(super) fn new(size: Size) -> Self {
        let (sessions, routes) = match size {
            Size::Full => (SESSIONS, ROUTES),
            Size::Small => (200, 50),
        };
        Self {
            sessions,
            routes: RoutingTable::generate(Family::V4, routes, 1),
        }
    }

    fn usual(&self, choices: &mut Rng) -> Tunnelled {
        let session = choices.below(self.sessions);
        let interface = choices.below(INTERFACES);
        let outer = Ipv4 {
            dst_mac: our_mac(interface),
            src_mac: 0x0200_0000_2000 + choices.below(64),
            src: 0xac10_0000 + choices.below(4096) as u32,
            dst: our_address(interface),
            ttl: 64,
            protocol: UDP,
            src_port: GTP_U,
            dst_port: GTP_U,
            len: 0,
        };
        let inner = Ipv4 {
            src: user(session),
            dst: self.routes.destination(choices) as u32,
            ttl: choices.between(2, 128) as u8,
            src_port: choices.bits() as u16,
            dst_port: 443,
            ..outer
        };
        Tunnelled {
            outer,
            flags: if choices.per_mille(900) { 4 } else { 0 },
            extension: 0x85,
            session: 0x0110_0900,
            teid: teid(session),
            inner,
        }
    }
}

fn our_mac(interface: u64) -> u64 {
    0x0200_0000_0100 + interface
}

fn our_address(interface: u64) -> u32 {
    0x0afe_0001 + interface as u32
}

/// Returns the tunnel endpoint id of a session. Ids are unique and far apart.
fn teid(session: u64) -> u32 {
    (session as u32).wrapping_mul(0x9e37_79b1)
}

/// Returns the user address of a session.
fn user(session: u64) -> u32 {
    0x0a00_0000 + session as u32
}

/// A tunnelled packet. Its inner IPv4 header is followed by 8 bytes.
struct Tunnelled {
    outer: Ipv4,
    /// Option flags of the GTP-U header.
    flags: u8,
    /// Type of the first extension header.
    extension: u8,
    /// The extension header: its length, type and quality of service, and the type of the next
    /// one.
    session: u32,
    teid: u32,
    inner: Ipv4,
}

impl Tunnelled {
    fn write(&self, frame: &mut Frame) {
        let inner_at = match (self.flags, self.extension) {
            (0, _) => OPTIONS_AT,
            (1..4, _) | (_, 0) => SESSION_AT,
            _ => SESSION_AT + 4,
        };
        let Ok(bytes) = frame.make_space(inner_at + 28) else {
            return;
        };
        bytes.fill(0);
        self.inner.write_ipv4(&mut bytes[inner_at..]);
        put16(bytes, GTP_AT, G_PDU | u16::from(self.flags) << 8);
        let length = (bytes.len() - OPTIONS_AT) as u16;
        put16(bytes, GTP_AT + 2, length);
        put32(bytes, GTP_AT + 4, self.teid);
        if self.flags != 0 {
            bytes[OPTIONS_AT + 3] = self.extension;
        }
        if inner_at > SESSION_AT {
            put32(bytes, SESSION_AT, self.session);
        }
        self.outer.write_ipv4(&mut bytes[ETHERNET..]);
        put48(bytes, 0, self.outer.dst_mac);
        put48(bytes, 6, self.outer.src_mac);
        put16(bytes, 12, ETHERTYPE_IPV4);
    }
}

impl Workload for Upf {
    fn name(&self) -> &'static str {
        "upf"
    }

    fn about(&self) -> &'static str {
        "a 5G user plane function, uplink: GTP-U taken away for 100,000 sessions"
    }

    fn source(&self) -> &'static str {
        include_str!("../../programs/upf.p4")
    }

    fn setup(&self, program: &Program, setup: &mut ItemSink<'_>) -> Result<(), SetupError> {
        let mut fill = Fill { program, setup };
        let interfaces = fill.table("interfaces", "ours")?;
        for interface in 0..INTERFACES {
            let keys = [
                Key::Is(our_mac(interface)),
                Key::Is(our_address(interface).into()),
            ];
            fill.add(&interfaces, &keys, &[])?;
        }
        let sessions = fill.table("sessions", "uplink")?;
        for session in 0..self.sessions {
            let tunnel = Key::Is(teid(session).into());
            fill.add(&sessions, &[tunnel], &[user(session).into()])?;
        }
        let routes = fill.table("routes", "forward")?;
        let mut choices = Rng::new(2);
        for route in self.routes.routes() {
            let prefix = Key::Lpm(route.address as u64, route.len.into());
            let hop = choices.below(64);
            let args = [hop % PORTS, our_mac(hop % PORTS), 0x0200_0000_3000 + hop];
            fill.add(&routes, &[prefix], &args)?;
        }
        Ok(())
    }

    fn packet(&self, choices: &mut Rng, frame: &mut Frame) {
        frame.ingress = PortId(choices.below(PORTS) as u32);
        self.usual(choices).write(frame);
    }

    fn stray(&self, choices: &mut Rng, frame: &mut Frame) {
        frame.ingress = PortId(choices.below(PORTS) as u32);
        let mut packet = self.usual(choices);
        match choices.below(12) {
            0 => packet.outer.dst = choices.bits() as u32,
            1 => packet.outer.dst_mac ^= 1 << 32,
            2 => packet.outer.dst_port += 1,
            3 => packet.outer.protocol = 6,
            4 => packet.flags = choices.below(8) as u8,
            5 => packet.extension = [0, 0x20][choices.below(2) as usize],
            6 => packet.session ^= 1 << choices.below(32),
            7 => packet.teid ^= 1 << choices.below(32),
            8 => packet.inner.src ^= 1,
            9 => packet.inner.dst = 0x7f00_0001,
            10 => packet.inner.ttl = choices.below(2) as u8,
            _ => {}
        }
        packet.write(frame);
        let len = frame.len() as u64;
        let at = choices.below(len) as usize;
        match choices.below(4) {
            0 => frame.truncate(at),
            1 => frame.bytes_mut()[at] ^= 1 << choices.below(8),
            2 => frame.bytes_mut()[ETHERNET + choices.below(8) as usize] ^= 1 << choices.below(8),
            _ => {}
        }
    }

    fn hand_over(&self, configuration: &mut Configuration) -> Result<Hand, SetupError> {
        let sessions = Flat::new(configuration, "sessions", |_, params| params[0] as u32)?;
        Ok(Box::new(Loop {
            interfaces: Flat::new(configuration, "interfaces", |_, _| ())?,
            usage: sessions.direct_counter("usage"),
            sessions,
            routes: Flat::new(configuration, "routes", |_, params| NextHop {
                port: params[0] as u32,
                src: params[1],
                dst: params[2],
            })?,
            drops: Counter::new("drops", 8),
        }))
    }
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
    NotForUs,
    NotTunnel,
    BadChecksum,
    NoSession,
    Spoofed,
    LastHop,
    NoRoute,
}

/// Parses a packet like the program's parser. Returns the offset of the inner packet, or `None` if
/// it is not a supported tunnel packet.
#[inline(always)]
fn parse(bytes: &[u8]) -> Result<Option<usize>, Drop> {
    let Some(outer) = bytes.first_chunk::<IPV4_END>() else {
        return Err(Drop::Malformed);
    };
    if be16(outer, 12) != ETHERTYPE_IPV4 {
        return Err(Drop::Malformed);
    }
    if outer[14] != 0x45 || be16(outer, 20) & 0x3fff != 0 || outer[23] != UDP {
        return Ok(None);
    }
    let Some(udp) = bytes.get(IPV4_END..GTP_AT) else {
        return Err(Drop::Malformed);
    };
    if be16(udp, 2) != GTP_U {
        return Ok(None);
    }
    let Some(gtp) = bytes.get(GTP_AT..OPTIONS_AT) else {
        return Err(Drop::Malformed);
    };
    if be16(gtp, 0) & 0xf0ff != G_PDU {
        return Ok(None);
    }
    let inner_at = match gtp[0] & 7 {
        0 => Some(OPTIONS_AT),
        flags => parse_options(bytes, flags)?,
    };
    match inner_at {
        Some(at) if bytes.len() < at + 20 => Err(Drop::Malformed),
        inner_at => Ok(inner_at),
    }
}

#[inline(always)]
fn parse_options(bytes: &[u8], flags: u8) -> Result<Option<usize>, Drop> {
    let Some(options) = bytes.get(OPTIONS_AT..SESSION_AT) else {
        return Err(Drop::Malformed);
    };
    match (flags & 4, options[3]) {
        (0, _) | (_, 0) => Ok(Some(SESSION_AT)),
        (_, 0x85) => match bytes.get(SESSION_AT..SESSION_AT + 4) {
            None => Err(Drop::Malformed),
            Some([1, _, _, 0]) => Ok(Some(SESSION_AT + 4)),
            Some(_) => Ok(None),
        },
        _ => Ok(None),
    }
}

struct Loop {
    interfaces: Flat<()>,
    sessions: Flat<u32>,
    usage: DirectCounter,
    routes: Flat<NextHop>,
    drops: Counter,
}

impl Loop {
    /// Checks a packet before its session lookup. Returns the offset of the inner packet.
    #[inline(always)]
    fn look(&self, bytes: &[u8]) -> Result<usize, Drop> {
        let inner_at = parse(bytes)?;
        let address = u64::from(be32(bytes, 30));
        if self.interfaces.find(&[be48(bytes, 0), address]).is_none() {
            return Err(Drop::NotForUs);
        }
        let at = inner_at.ok_or(Drop::NotTunnel)?;
        let is_right =
            bytes[at] == 0x45 && ipv4_is_right(bytes, ETHERNET) && ipv4_is_right(bytes, at);
        is_right.then_some(at).ok_or(Drop::BadChecksum)
    }

    fn burst(&mut self, frames: &mut [Frame], out: &mut SentFrames) {
        let mut inner = [0; BURST];
        let mut tunnels = Asked::<1>::new();
        for (i, frame) in frames.iter().enumerate() {
            match self.look(frame.bytes()) {
                Err(reason) => self.drops.count_packet(reason as usize),
                Ok(at) => {
                    inner[i] = at;
                    tunnels.ask(i, [be32(frame.bytes(), GTP_AT + 4).into()]);
                }
            }
        }
        let mut destinations = Asked::<1>::new();
        let (sessions, usage, drops) = (&self.sessions, &mut self.usage, &mut self.drops);
        tunnels.answer_places(sessions, |i, place| {
            let (bytes, at) = (frames[i].bytes(), inner[i]);
            usage.count_hit(place, bytes.len());
            let reason = match place.map(|place| sessions.at(place)) {
                None => Drop::NoSession,
                Some(user) if user != be32(bytes, at + 12) => Drop::Spoofed,
                Some(_) if bytes[at + 8] <= 1 => Drop::LastHop,
                Some(_) => return destinations.ask(i, [be32(bytes, at + 16).into()]),
            };
            drops.count_packet(reason as usize);
        });
        destinations.answer(&self.routes, |i, hop| match hop {
            None => drops.count_packet(Drop::NoRoute as usize),
            Some(hop) => {
                let (frame, at) = (&mut frames[i], inner[i]);
                // The Ethernet header moves to directly before the inner packet.
                if frame.pull_front(at - ETHERNET).is_ok()
                    && let Some(bytes) = frame.bytes_mut().first_chunk_mut::<IPV4_END>()
                {
                    put48(bytes, 0, hop.dst);
                    put48(bytes, 6, hop.src);
                    put16(bytes, 12, ETHERTYPE_IPV4);
                    decrement_ttl(bytes, ETHERNET);
                }
                out.take(PortId(hop.port), frame);
            }
        });
    }
}

impl Forward for Loop {
    fn forward(&mut self, frames: &mut [Frame], _: Nanos, out: &mut SentFrames) {
        for burst in frames.chunks_mut(BURST) {
            self.burst(burst, out);
        }
    }

    fn readings(&self) -> Vec<Reading> {
        vec![self.drops.reading(), self.usage.reading()]
    }
}
