//! `acl-500` to `acl-10k`: a switch that routes between VLANs and has an access list.

use bits::Value;
use exec::Configuration;
use generators::{Family, Kind, PortRange, Prefix, RoutingTable, RuleSet, Spread};
use ir::Program;
use packet::{Frame, Nanos, PortId};
use support::rng::Rng;
use table::{ActionRef, EntryAction, Table, TableSpec};

use super::Size;
use super::fill::Fill;
use super::flat::{Asked, BURST, Counter, DirectCounter, Flat};
use crate::forward::{Forward, Reading, SentFrames};
use crate::names::Key;
use crate::setup::{ItemSink, SetupError};
use crate::tables::{rule_entries, rule_shape};
use crate::wire::{
    ETHERNET, ETHERTYPE_IPV4, ETHERTYPE_VLAN, Ipv4, TCP, UDP, be16, be32, be48, decrement_ttl,
    ipv4_is_right, put16, put48,
};
use crate::{Hand, Workload};

/// Number of routes, in addition to the default route.
const ROUTES: usize = 10_000;
/// Number of VLANs, numbered from 1. Each has one untagged port. One more port, the trunk, carries
/// all VLANs tagged.
const VLANS: u64 = 15;
const TRUNK: u64 = VLANS;
/// Number of hosts, which are also the next hops.
const STATIONS: u64 = 240;
/// Number of different headers in the normal traffic.
const HEADERS: usize = 65_536;
/// One in this number of rules denies.
const DENIES: usize = 10;

/// The workload, with its access list.
pub(super) struct Acl {
    name: &'static str,
    about: &'static str,
    routes: RoutingTable,
    rules: RuleSet,
    /// Headers permitted by the rules.
    permitted: Vec<[u64; 5]>,
}

impl Acl {
    pub(super) fn new(name: &'static str, about: &'static str, rules: usize, size: Size) -> Self {
        let (rules, routes, headers) = match size {
            Size::Full => (rules, ROUTES, HEADERS),
            Size::Small => (rules / 10, 100, 500),
        };
        let rules = RuleSet::generate(Kind::Acl, Spread::Scaled, rules, 1);
        let permitted = permitted(&rules, headers);
        Self {
            name,
            about,
            routes: RoutingTable::generate(Family::V4, routes, 1),
            rules,
            permitted,
        }
    }

    /// Returns a normal packet with its VLAN, and true if it is received tagged.
    fn usual(&self, choices: &mut Rng) -> (Ipv4, u64, bool) {
        let which = choices.below(self.permitted.len() as u64) as usize;
        let [src, dst, src_port, dst_port, protocol] = self.permitted[which];
        let vid = choices.between(1, VLANS);
        let neighbour = choices.below(STATIONS / VLANS) * VLANS + vid - 1;
        let is_routed = choices.per_mille(900);
        let packet = Ipv4 {
            dst_mac: match is_routed {
                true => our_mac(vid),
                false => their_mac(neighbour),
            },
            src_mac: their_mac(vid - 1),
            src: src as u32,
            dst: dst as u32,
            ttl: choices.between(2, 255) as u8,
            protocol: protocol as u8,
            src_port: src_port as u16,
            dst_port: dst_port as u16,
            len: 64,
        };
        (packet, vid, choices.per_mille(500))
    }
}

/// Returns the router's MAC address in a VLAN.
fn our_mac(vid: u64) -> u64 {
    0x0200_0000_0100 + vid
}

fn their_mac(station: u64) -> u64 {
    0x0200_0000_1000 + station
}

/// Returns the VLAN of a host.
fn vid_of(station: u64) -> u64 {
    station % VLANS + 1
}

/// Returns the port of a host.
fn port_of(station: u64) -> u64 {
    match station.is_multiple_of(2) {
        true => vid_of(station) - 1,
        false => TRUNK,
    }
}

fn denies(rule: usize) -> bool {
    rule % DENIES == DENIES - 1
}

/// Returns headers of the rules' trace for which the first matching rule permits. Ports are 0 for
/// protocols other than TCP and UDP.
fn permitted(rules: &RuleSet, count: usize) -> Vec<[u64; 5]> {
    let call = |rule| {
        EntryAction::Direct(ActionRef {
            action: u32::from(denies(rule)),
            params: Box::default(),
        })
    };
    let mut table = Table::new(TableSpec::new(rule_shape(), rules.rules().len()), call(0));
    for entry in rule_entries(rules, call) {
        // All rules are different, so no insertion fails.
        let _ = table.insert(entry, 0);
    }
    let lookup = table.snapshot();
    let is_permitted = |key: &[u64; 5]| {
        let found = lookup.find(key);
        found.is_some_and(|idx| lookup.action(Some(idx)) == (&call(0)).into())
    };
    let mut permitted = Vec::with_capacity(count);
    let mut seed = 1;
    while permitted.len() < count {
        let trace = rules.trace(count, seed);
        let keys = trace.chunks_exact(5).map(|key| {
            let has_ports = [TCP, UDP].contains(&(key[4] as u8));
            let port = |at: usize| if has_ports { key[at] } else { 0 };
            [key[0], key[1], port(2), port(3), key[4]]
        });
        permitted.extend(keys.filter(is_permitted));
        seed += 1;
    }
    permitted.truncate(count);
    permitted
}

fn prefix(prefix: Prefix) -> Key {
    let mask = Value::prefix_mask(prefix.len.into(), 32).to_u64();
    Key::Mask(prefix.address.into(), mask.unwrap_or(0))
}

/// Inserts a VLAN tag after the addresses.
pub(super) fn tag(frame: &mut Frame, vid: u64) {
    if frame.push_front(&[0; 4]).is_ok() {
        let bytes = frame.bytes_mut();
        bytes.copy_within(4..16, 0);
        put16(bytes, 12, ETHERTYPE_VLAN);
        put16(bytes, 14, vid as u16);
    }
}

impl Workload for Acl {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn source(&self) -> &'static str {
        include_str!("../../programs/acl.p4")
    }

    fn setup(&self, program: &Program, setup: &mut ItemSink<'_>) -> Result<(), SetupError> {
        let mut fill = Fill { program, setup };
        let ports = fill.table("ports", "access")?;
        let untagged = fill.table("members", "untagged")?;
        let tagged = fill.table("members", "tagged")?;
        let macs = fill.table("router_macs", "to_us")?;
        fill.add(&ports, &[Key::Is(TRUNK)], &[1])?;
        for vid in 1..=VLANS {
            let (port, in_vlan) = (vid - 1, Key::Is(vid));
            fill.add(&ports, &[Key::Is(port)], &[vid])?;
            fill.add(&untagged, &[Key::Is(port), in_vlan], &[])?;
            fill.add(&tagged, &[Key::Is(TRUNK), in_vlan], &[])?;
            fill.add(&macs, &[in_vlan, Key::Is(our_mac(vid))], &[])?;
        }
        let stations = fill.table("stations", "to_port")?;
        let next_hops = fill.table("next_hops", "forward")?;
        for station in 0..STATIONS {
            let (vid, mac) = (vid_of(station), their_mac(station));
            let keys = [Key::Is(vid), Key::Is(mac)];
            fill.add(&stations, &keys, &[port_of(station)])?;
            let args = [vid, our_mac(vid), mac];
            fill.add(&next_hops, &[Key::Is(station)], &args)?;
        }
        self.set_up_rules_and_routes(&mut fill)
    }

    fn packet(&self, choices: &mut Rng, frame: &mut Frame) {
        let (packet, vid, is_tagged) = self.usual(choices);
        packet.write(frame);
        frame.ingress = PortId(if is_tagged { TRUNK } else { vid - 1 } as u32);
        if is_tagged {
            tag(frame, vid);
        }
    }

    fn stray(&self, choices: &mut Rng, frame: &mut Frame) {
        let (mut packet, vid, is_tagged) = self.usual(choices);
        match choices.below(8) {
            0 => packet.ttl = choices.below(2) as u8,
            1 => packet.dst_mac = choices.bits() >> 16,
            2 => packet.dst = choices.bits() as u32,
            3 => packet.src_port ^= choices.bits() as u16,
            4 => packet.protocol = choices.bits() as u8,
            _ => {}
        }
        packet.write(frame);
        let bytes = frame.bytes_mut();
        match choices.below(8) {
            0 => bytes[24] ^= 1 << choices.below(8),
            1 => put16(bytes, 12, 0x0806),
            2 => bytes[14] = 0x46,
            3 => bytes[14] = 0x65,
            4 => bytes[20 + choices.below(2) as usize] = 1,
            _ => {}
        }
        frame.ingress = PortId(if is_tagged { TRUNK } else { vid - 1 } as u32);
        if is_tagged {
            tag(frame, vid);
            // Priority bits must be preserved. The last value makes an unknown VLAN, which is
            // dropped.
            let bits = [0, 0xe000, 0x5000, 0x0800][choices.below(4) as usize];
            frame.bytes_mut()[14] |= (bits >> 8) as u8;
        }
        match choices.below(8) {
            0 => frame.ingress = PortId(choices.below(TRUNK + 2) as u32),
            1 => frame.truncate(choices.below(44) as usize),
            _ => {}
        }
    }

    fn hand_over(&self, configuration: &mut Configuration) -> Result<Hand, SetupError> {
        let access_list = Flat::new(configuration, "access_list", |action, _| action == "permit")?;
        Ok(Box::new(Loop {
            ports: Flat::new(configuration, "ports", |_, params| params[0])?,
            router_macs: Flat::new(configuration, "router_macs", |_, _| ())?,
            rule_hits: access_list.direct_counter("rule_hits"),
            access_list,
            routes: Flat::new(configuration, "routes", |_, params| params[0])?,
            next_hops: Flat::new(configuration, "next_hops", |_, params| NextHop {
                vid: params[0],
                src: params[1],
                dst: params[2],
            })?,
            stations: Flat::new(configuration, "stations", |_, params| params[0] as u32)?,
            members: Flat::new(configuration, "members", |action, _| action == "tagged")?,
            drops: Counter::new("drops", 6),
            port_tx: Counter::new("port_tx", 512),
        }))
    }
}

impl Acl {
    fn set_up_rules_and_routes(&self, fill: &mut Fill<'_, '_>) -> Result<(), SetupError> {
        let permit = fill.table("access_list", "permit")?;
        let deny = fill.table("access_list", "deny")?;
        let count = self.rules.rules().len();
        for (i, rule) in self.rules.rules().iter().enumerate() {
            let range = |range: PortRange| Key::Range(range.lo.into(), range.hi.into());
            let keys = [
                prefix(rule.source),
                prefix(rule.destination),
                range(rule.source_port),
                range(rule.destination_port),
                rule.protocol
                    .map_or(Key::Any, |protocol| Key::Is(protocol.into())),
            ];
            let action = if denies(i) { &deny } else { &permit };
            fill.rank(action, &keys, (count - i) as u64, &[])?;
        }
        let routes = fill.table("routes", "via")?;
        let mut choices = Rng::new(2);
        fill.add(&routes, &[Key::Lpm(0, 0)], &[0])?;
        for route in self.routes.routes() {
            let prefix = Key::Lpm(route.address as u64, route.len.into());
            fill.add(&routes, &[prefix], &[choices.below(STATIONS)])?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Default)]
struct NextHop {
    vid: u64,
    src: u64,
    dst: u64,
}

/// Drop reason, numbered as in the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drop {
    Malformed,
    NoVlan,
    BadChecksum,
    LastHop,
    NoRoute,
    NoStation,
}

/// State of a packet in the loop.
#[derive(Clone, Copy, Default)]
struct Visit {
    /// True until the packet is dropped.
    is_alive: bool,
    is_tagged: bool,
    is_routed: bool,
    /// Offset of the IPv4 header, or 0 if there is none.
    ipv4: usize,
    /// Source and destination port in one word.
    l4: u32,
    vid: u64,
    dst: u64,
    hop: NextHop,
    port: u32,
}

struct Loop {
    ports: Flat<u64>,
    router_macs: Flat<()>,
    /// True if the rule permits.
    access_list: Flat<bool>,
    rule_hits: DirectCounter,
    routes: Flat<u64>,
    next_hops: Flat<NextHop>,
    stations: Flat<u32>,
    /// True if the port carries the VLAN tagged.
    members: Flat<bool>,
    drops: Counter,
    port_tx: Counter,
}

/// Parses a frame like the program's parser. Returns `None` if it is too short.
#[inline(always)]
fn parse(frame: &Frame) -> Option<Visit> {
    let bytes = frame.bytes();
    let ethernet = bytes.first_chunk::<ETHERNET>()?;
    let mut visit = Visit {
        is_alive: true,
        dst: be48(ethernet, 0),
        ..Visit::default()
    };
    let (mut ethertype, mut at) = (be16(ethernet, 12), ETHERNET);
    if ethertype == ETHERTYPE_VLAN {
        let tag = bytes.get(14..18)?;
        visit.is_tagged = true;
        visit.vid = u64::from(be16(tag, 0) & 0xfff);
        ethertype = be16(tag, 2);
        at += 4;
    }
    if ethertype == ETHERTYPE_IPV4 {
        let ipv4 = bytes.get(at..at + 20)?;
        visit.ipv4 = at;
        let is_first = ipv4[0] & 0xf == 5 && be16(ipv4, 6) & 0x1fff == 0;
        if is_first && matches!(ipv4[9], TCP | UDP) {
            visit.l4 = be32(bytes.get(at + 20..at + 24)?, 0);
        }
    }
    Some(visit)
}

impl Loop {
    #[cold]
    fn drop(&mut self, visit: &mut Visit, reason: Drop) {
        self.drops.count_packet(reason as usize);
        visit.is_alive = false;
    }

    fn burst(&mut self, frames: &mut [Frame], out: &mut SentFrames) {
        let mut visits = [Visit::default(); BURST];
        let visits = &mut visits[..frames.len()];
        self.enter(frames, visits);
        self.classify(frames, visits);
        self.check_access(frames, visits);
        self.route(frames, visits);
        self.switch(visits);
        self.leave(frames, visits, out);
    }

    /// Parses the packets and determines their VLANs.
    fn enter(&mut self, frames: &[Frame], visits: &mut [Visit]) {
        for (frame, visit) in frames.iter().zip(visits) {
            match parse(frame) {
                None => self.drop(visit, Drop::Malformed),
                Some(parsed) => {
                    *visit = parsed;
                    match self.ports.find(&[frame.ingress.0.into()]) {
                        None => self.drop(visit, Drop::NoVlan),
                        Some(vid) if !visit.is_tagged => visit.vid = vid,
                        Some(_) => {}
                    }
                }
            }
        }
    }

    /// Determines which packets are routed, and validates their headers.
    fn classify(&mut self, frames: &[Frame], visits: &mut [Visit]) {
        let mut asked = Asked::<2>::new();
        for (i, visit) in visits.iter().enumerate().filter(|(_, v)| v.is_alive) {
            asked.ask(i, [visit.vid, visit.dst]);
        }
        asked.answer(&self.router_macs, |i, found| {
            visits[i].is_routed = found.is_some()
        });
        for (frame, visit) in frames.iter().zip(visits).filter(|(_, v)| v.is_alive) {
            let bytes = frame.bytes();
            if visit.ipv4 == 0 {
                if visit.is_routed {
                    self.drop(visit, Drop::NoRoute);
                }
            } else if bytes[visit.ipv4] != 0x45 {
                self.drop(visit, Drop::Malformed);
            } else if !ipv4_is_right(bytes, visit.ipv4) {
                self.drop(visit, Drop::BadChecksum);
            }
        }
    }

    fn check_access(&mut self, frames: &[Frame], visits: &mut [Visit]) {
        let mut asked = Asked::<5>::new();
        for (i, visit) in visits.iter().enumerate() {
            if visit.is_alive && visit.ipv4 != 0 {
                let header = &frames[i].bytes()[visit.ipv4..visit.ipv4 + 20];
                let (src, dst) = (be32(header, 12), be32(header, 16));
                let ports = [visit.l4 >> 16, visit.l4 & 0xffff].map(u64::from);
                asked.ask(
                    i,
                    [src.into(), dst.into(), ports[0], ports[1], header[9].into()],
                );
            }
        }
        let (list, hits) = (&self.access_list, &mut self.rule_hits);
        asked.answer_places(list, |i, place| {
            hits.count_hit(place, frames[i].len());
            visits[i].is_alive = place.is_some_and(|place| list.at(place));
        });
    }

    fn route(&mut self, frames: &[Frame], visits: &mut [Visit]) {
        let mut asked = Asked::<1>::new();
        for (i, visit) in visits.iter_mut().enumerate() {
            if !(visit.is_alive && visit.is_routed) {
                continue;
            }
            let header = &frames[i].bytes()[visit.ipv4..visit.ipv4 + 20];
            match header[8] {
                0 | 1 => self.drop(visit, Drop::LastHop),
                _ => asked.ask(i, [be32(header, 16).into()]),
            }
        }
        let mut hops = Asked::<1>::new();
        let mut lost = 0;
        asked.answer(&self.routes, |i, found| match found {
            Some(hop) => hops.ask(i, [hop]),
            None => {
                visits[i].is_alive = false;
                lost += 1;
            }
        });
        hops.answer(&self.next_hops, |i, found| {
            let visit = &mut visits[i];
            match found {
                Some(hop) => (visit.hop, visit.vid, visit.dst) = (hop, hop.vid, hop.dst),
                None => {
                    visit.is_alive = false;
                    lost += 1;
                }
            }
        });
        self.drops.count_packets(Drop::NoRoute as usize, lost);
    }

    fn switch(&mut self, visits: &mut [Visit]) {
        let mut asked = Asked::<2>::new();
        for (i, visit) in visits.iter().enumerate().filter(|(_, v)| v.is_alive) {
            asked.ask(i, [visit.vid, visit.dst]);
        }
        let mut lost = 0;
        asked.answer(&self.stations, |i, found| match found {
            Some(port) => visits[i].port = port,
            None => {
                visits[i].is_alive = false;
                lost += 1;
            }
        });
        self.drops.count_packets(Drop::NoStation as usize, lost);
    }

    fn leave(&mut self, frames: &mut [Frame], visits: &[Visit], out: &mut SentFrames) {
        let mut asked = Asked::<2>::new();
        for (i, visit) in visits.iter().enumerate().filter(|(_, v)| v.is_alive) {
            asked.ask(i, [visit.port.into(), visit.vid]);
        }
        let port_tx = &mut self.port_tx;
        asked.answer(&self.members, |i, found| {
            let (visit, frame) = (&visits[i], &mut frames[i]);
            if let Some(is_tagged) = found {
                port_tx.count(visit.port as usize, frame.len());
                rewrite(frame, visit, is_tagged);
                out.take(PortId(visit.port), frame);
            }
        });
    }
}

#[inline(always)]
fn rewrite(frame: &mut Frame, visit: &Visit, is_tagged: bool) {
    let bytes = frame.bytes_mut();
    if visit.is_routed {
        put48(bytes, 0, visit.hop.dst);
        put48(bytes, 6, visit.hop.src);
        decrement_ttl(bytes, visit.ipv4);
    }
    match (visit.is_tagged, is_tagged) {
        (false, false) => {}
        (false, true) => tag(frame, visit.vid),
        (true, true) => {
            let priority = be16(bytes, 14) & 0xf000;
            put16(bytes, 14, priority | visit.vid as u16);
        }
        (true, false) => {
            bytes.copy_within(0..12, 4);
            // The frame has a tag, so this does not fail.
            let _ = frame.pull_front(4);
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
            self.port_tx.reading(),
            self.rule_hits.reading(),
        ]
    }
}
