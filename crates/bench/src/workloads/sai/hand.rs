//! The hand-written loop of `sai`. A burst passes the thirty tables one by one, and each table is
//! looked up in one batch for all packets that use it.

use exec::Configuration;
use packet::{Frame, Nanos, PortId};

use crate::forward::{Forward, Reading, SentFrames};
use crate::names::NameError;
use crate::wire::{
    ETHERNET, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, TCP, UDP, be16, be32, be48,
    corrected, ipv4_is_right, put16, put48,
};
use crate::workloads::acl::tag;
use crate::workloads::flat::{Asked, BURST, Counter, DirectCounter, Flat};

/// Drop reason in ingress, numbered as in the program. Access lists define further ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drop {
    Malformed = 0,
    NoPort = 1,
    NotMember = 2,
    StpBlocked = 3,
    BadChecksum = 4,
    NoVrf = 6,
    LastHop = 7,
    NoRoute = 8,
    NoGroup = 9,
    NoNextHop = 10,
    NoNeighbour = 11,
    NoRif = 12,
    NoStation = 13,
    IngressAcl = 14,
    NoLagMember = 15,
    SamePort = 16,
}

/// Drop reasons in egress.
const NOT_MEMBER: u64 = 0;
const TOO_LONG: u64 = 2;

/// Protocol of a packet.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Other,
    V4,
    V6,
}

/// State of a packet.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Fate {
    #[default]
    OnItsWay,
    /// Dropped in ingress, with the reason.
    Dropped(u64),
    /// Dropped in egress, with the reason.
    DroppedLate(u64),
}

/// State of a packet in the loop.
#[derive(Clone, Copy, Default)]
struct Visit {
    fate: Fate,
    kind: Kind,
    is_tagged: bool,
    is_to_us: bool,
    is_routed: bool,
    /// Offset of the IP header.
    ip: usize,
    ingress: u64,
    ethertype: u64,
    src: u64,
    dst: u64,
    protocol: u64,
    dscp: u64,
    l4: u32,
    hash: u64,
    bridge_port: u64,
    vid: u64,
    vlan: u64,
    class: u64,
    colour: u64,
    rif: u64,
    vrf: u64,
    group: u64,
    next_hop: u64,
    neighbour: u64,
    out_rif: u64,
    out_bridge_port: u64,
    port: u64,
    len: u64,
    /// VLAN tag and DSCP of the sent packet. `None` in `out_vid` means untagged. `None` in
    /// `out_dscp` means unchanged.
    out_vid: Option<u64>,
    out_dscp: Option<u64>,
}

impl Visit {
    fn drop(&mut self, reason: Drop) {
        self.fate = Fate::Dropped(reason as u64);
    }

    fn is_here(&self) -> bool {
        self.fate == Fate::OnItsWay
    }

    /// Returns true if the packet is for the router.
    fn is_for_router(&self) -> bool {
        self.is_to_us && self.kind != Kind::Other
    }
}

/// Looks up one table. `wants` returns the key of a packet that uses the table, and `tell` applies
/// the result.
#[inline(always)]
fn stage<const LIMBS: usize, T: Copy + Default>(
    visits: &mut [Visit],
    table: &Flat<T>,
    wants: impl Fn(&Visit) -> Option<[u64; LIMBS]>,
    tell: impl Fn(&mut Visit, Option<T>),
) {
    let mut asked = Asked::<LIMBS>::new();
    for (i, visit) in visits.iter().enumerate() {
        if visit.is_here()
            && let Some(key) = wants(visit)
        {
            asked.ask(i, key);
        }
    }
    asked.answer(table, |i, found| tell(&mut visits[i], found));
}

/// Result of a route: a next hop, a group, or a drop.
#[derive(Clone, Copy, Default)]
enum Way {
    #[default]
    None,
    NextHop(u64),
    Group(u64),
    Drop(u64),
}

fn way(action: &str, params: &[u64]) -> Way {
    match action {
        "to_next_hop" => Way::NextHop(params[0]),
        "to_group" => Way::Group(params[0]),
        _ => Way::Drop(params[0]),
    }
}

/// Result of an access list: nothing, a virtual router, or a drop.
#[derive(Clone, Copy, Default)]
enum Verdict {
    #[default]
    Pass,
    Vrf(u64),
    Drop(u64),
}

fn verdict(action: &str, params: &[u64]) -> Verdict {
    match action {
        "choose_vrf" => Verdict::Vrf(params[0]),
        "drop" => Verdict::Drop(params[0]),
        _ => Verdict::Pass,
    }
}

/// The loop, with its tables in the program's order.
pub(super) struct Loop {
    port: Flat<(u64, u64)>,
    vlan: Flat<u64>,
    vlan_member: Flat<()>,
    stp_port: Flat<()>,
    dscp_to_class: Flat<(u64, u64)>,
    acl_pre_ingress: Flat<Verdict>,
    fdb_source: Flat<()>,
    my_mac: Flat<bool>,
    router_interface: Flat<u64>,
    rif_vrf: Flat<u64>,
    virtual_router: Flat<()>,
    ipv4_host: Flat<u64>,
    ipv4_route: Flat<Way>,
    ipv6_host: Flat<u64>,
    ipv6_route: Flat<Way>,
    next_hop_group: Flat<u64>,
    next_hop: Flat<(u64, u64)>,
    neighbour: Flat<u64>,
    out_interface: Flat<(u64, u64)>,
    fdb: Flat<u64>,
    acl_ingress_ipv4: Flat<bool>,
    acl_ingress_mac: Flat<Verdict>,
    lag_member: Flat<u64>,
    class_to_queue: Flat<u64>,
    egress_vlan: Flat<Option<u64>>,
    egress_stp: Flat<()>,
    class_to_dscp: Flat<u64>,
    mtu: Flat<()>,
    acl_egress: Flat<Verdict>,
    egress_port: Flat<()>,
    drops: Counter,
    rif_counters: Counter,
    acl_hits: DirectCounter,
    egress_drops: Counter,
    port_tx: Counter,
}

impl Loop {
    pub(super) fn new(tables: &mut Configuration) -> Result<Self, NameError> {
        let nothing = |_: &str, _: &[u64]| ();
        let number = |_: &str, params: &[u64]| params[0];
        let two = |_: &str, params: &[u64]| (params[0], params[1]);
        let list = Flat::new(tables, "acl_ingress_ipv4", |action, _| action == "permit")?;
        Ok(Self {
            port: Flat::new(tables, "port", two)?,
            vlan: Flat::new(tables, "vlan", number)?,
            vlan_member: Flat::new(tables, "vlan_member", nothing)?,
            stp_port: Flat::new(tables, "stp_port", nothing)?,
            dscp_to_class: Flat::new(tables, "dscp_to_class", two)?,
            acl_pre_ingress: Flat::new(tables, "acl_pre_ingress", verdict)?,
            fdb_source: Flat::new(tables, "fdb_source", nothing)?,
            my_mac: Flat::new(tables, "my_mac", |action, _| action == "to_us")?,
            router_interface: Flat::new(tables, "router_interface", number)?,
            rif_vrf: Flat::new(tables, "rif_vrf", number)?,
            virtual_router: Flat::new(tables, "virtual_router", nothing)?,
            ipv4_host: Flat::new(tables, "ipv4_host", number)?,
            ipv4_route: Flat::new(tables, "ipv4_route", way)?,
            ipv6_host: Flat::new(tables, "ipv6_host", number)?,
            ipv6_route: Flat::new(tables, "ipv6_route", way)?,
            next_hop_group: Flat::new(tables, "next_hop_group", number)?,
            next_hop: Flat::new(tables, "next_hop", two)?,
            neighbour: Flat::new(tables, "neighbour", number)?,
            out_interface: Flat::new(tables, "out_interface", two)?,
            fdb: Flat::new(tables, "fdb", number)?,
            acl_hits: list.direct_counter("acl_hits"),
            acl_ingress_ipv4: list,
            acl_ingress_mac: Flat::new(tables, "acl_ingress_mac", verdict)?,
            lag_member: Flat::new(tables, "lag_member", number)?,
            class_to_queue: Flat::new(tables, "class_to_queue", number)?,
            egress_vlan: Flat::new(tables, "egress_vlan", |_, params| params.first().copied())?,
            egress_stp: Flat::new(tables, "egress_stp", nothing)?,
            class_to_dscp: Flat::new(tables, "class_to_dscp", number)?,
            mtu: Flat::new(tables, "mtu", nothing)?,
            acl_egress: Flat::new(tables, "acl_egress", verdict)?,
            egress_port: Flat::new(tables, "egress_port", nothing)?,
            drops: Counter::new("drops", 17),
            rif_counters: Counter::new("rif_counters", 64),
            egress_drops: Counter::new("egress_drops", 3),
            port_tx: Counter::new("port_tx", 512),
        })
    }

    fn burst(&mut self, frames: &mut [Frame], out: &mut SentFrames) {
        let mut visits = [Visit::default(); BURST];
        let visits = &mut visits[..frames.len()];
        for (frame, visit) in frames.iter().zip(&mut *visits) {
            match parse(frame) {
                Some(parsed) => *visit = parsed,
                None => visit.drop(Drop::Malformed),
            }
        }
        self.enter(visits);
        check(frames, visits);
        self.classify(visits);
        self.enter_router(frames, visits);
        self.route(frames, visits);
        self.resolve(visits);
        self.bridge(frames, visits);
        self.choose_port(visits);
        self.leave(visits);
        for (frame, visit) in frames.iter_mut().zip(&*visits) {
            self.finish(frame, visit, out);
        }
    }

    /// Tables 1 to 4.
    fn enter(&mut self, visits: &mut [Visit]) {
        stage(
            visits,
            &self.port,
            |v| Some([v.ingress]),
            |v, found| match found {
                None => v.drop(Drop::NoPort),
                Some((bridge_port, vid)) => {
                    v.bridge_port = bridge_port;
                    v.vid = if v.is_tagged { v.vid } else { vid };
                }
            },
        );
        stage(
            visits,
            &self.vlan,
            |v| Some([v.vid]),
            |v, found| match found {
                None => v.drop(Drop::NotMember),
                Some(vlan) => v.vlan = vlan,
            },
        );
        let place = |v: &Visit| Some([v.bridge_port, v.vlan]);
        stage(visits, &self.vlan_member, place, |v, found| {
            if found.is_none() {
                v.drop(Drop::NotMember);
            }
        });
        stage(visits, &self.stp_port, place, |v, found| {
            if found.is_none() {
                v.drop(Drop::StpBlocked);
            }
        });
    }

    /// Tables 5 to 8.
    fn classify(&mut self, visits: &mut [Visit]) {
        let ip = |v: &Visit| (v.kind != Kind::Other).then_some([v.dscp]);
        stage(visits, &self.dscp_to_class, ip, |v, found| {
            (v.class, v.colour) = found.unwrap_or((0, 0));
        });
        let key = |v: &Visit| Some([v.bridge_port, v.src, v.ethertype, v.dscp]);
        stage(visits, &self.acl_pre_ingress, key, |v, found| match found {
            Some(Verdict::Vrf(vrf)) => v.vrf = vrf,
            Some(Verdict::Drop(reason)) => v.fate = Fate::Dropped(reason),
            Some(Verdict::Pass) | None => {}
        });
        stage(
            visits,
            &self.fdb_source,
            |v| Some([v.vlan, v.src]),
            |_, _| {},
        );
        stage(
            visits,
            &self.my_mac,
            |v| Some([v.vlan, v.dst]),
            |v, found| {
                v.is_to_us = found == Some(true);
            },
        );
    }

    /// Tables 9 to 11, and the TTL check.
    fn enter_router(&mut self, frames: &[Frame], visits: &mut [Visit]) {
        let to_router = |v: &Visit| v.is_for_router().then_some([v.vlan]);
        stage(visits, &self.router_interface, to_router, |v, found| {
            v.rif = found.unwrap_or(0);
        });
        let key = |v: &Visit| v.is_for_router().then_some([v.rif]);
        stage(visits, &self.rif_vrf, key, |v, found| match found {
            None => v.drop(Drop::NoVrf),
            Some(vrf) if v.vrf == 0 => v.vrf = vrf,
            Some(_) => {}
        });
        let key = |v: &Visit| v.is_for_router().then_some([v.vrf]);
        stage(visits, &self.virtual_router, key, |v, found| match found {
            None => v.drop(Drop::NoVrf),
            Some(()) => v.is_routed = true,
        });
        for (frame, v) in frames.iter().zip(visits) {
            if v.is_here() && v.is_routed {
                self.rif_counters.count(v.rif as usize, frame.len());
                let ttl_at = v.ip + if v.kind == Kind::V4 { 8 } else { 7 };
                if frame.bytes()[ttl_at] <= 1 {
                    v.drop(Drop::LastHop);
                }
            }
        }
    }

    /// Tables 12 to 15.
    fn route(&mut self, frames: &[Frame], visits: &mut [Visit]) {
        let mut hosts4 = Asked::<2>::new();
        let mut hosts6 = Asked::<3>::new();
        let key4 = |i: usize, v: &Visit| [v.vrf, be32(frames[i].bytes(), v.ip + 16).into()];
        let key6 = |i: usize, v: &Visit| {
            let (high, low) = address6(frames[i].bytes(), v.ip + 24);
            [v.vrf, low, high]
        };
        for (i, v) in visits.iter().enumerate() {
            match v.kind {
                _ if !v.is_here() || !v.is_routed => {}
                Kind::V4 => hosts4.ask(i, key4(i, v)),
                Kind::V6 => hosts6.ask(i, key6(i, v)),
                Kind::Other => {}
            }
        }
        let mut routes4 = Asked::<2>::new();
        hosts4.answer(&self.ipv4_host, |i, found| match found {
            Some(hop) => visits[i].next_hop = hop,
            None => routes4.ask(i, key4(i, &visits[i])),
        });
        let mut routes6 = Asked::<3>::new();
        hosts6.answer(&self.ipv6_host, |i, found| match found {
            Some(hop) => visits[i].next_hop = hop,
            None => routes6.ask(i, key6(i, &visits[i])),
        });
        let mut go = |i: usize, found| match found {
            Some(Way::NextHop(hop)) => visits[i].next_hop = hop,
            Some(Way::Group(group)) => visits[i].group = group,
            Some(Way::Drop(reason)) => visits[i].fate = Fate::Dropped(reason),
            Some(Way::None) | None => visits[i].drop(Drop::NoRoute),
        };
        routes4.answer(&self.ipv4_route, &mut go);
        routes6.answer(&self.ipv6_route, &mut go);
    }

    /// Tables 16 to 19.
    fn resolve(&mut self, visits: &mut [Visit]) {
        let group = |v: &Visit| (v.group != 0).then_some([v.group, v.hash & 15]);
        stage(
            visits,
            &self.next_hop_group,
            group,
            |v, found| match found {
                None => v.drop(Drop::NoGroup),
                Some(hop) => v.next_hop = hop,
            },
        );
        let hop = |v: &Visit| v.is_routed.then_some([v.next_hop]);
        stage(visits, &self.next_hop, hop, |v, found| match found {
            None => v.drop(Drop::NoNextHop),
            Some(hop) => (v.out_rif, v.neighbour) = hop,
        });
        let neighbour = |v: &Visit| v.is_routed.then_some([v.out_rif, v.neighbour]);
        stage(visits, &self.neighbour, neighbour, |v, found| match found {
            None => v.drop(Drop::NoNeighbour),
            Some(mac) => v.dst = mac,
        });
        let rif = |v: &Visit| v.is_routed.then_some([v.out_rif]);
        stage(visits, &self.out_interface, rif, |v, found| match found {
            None => v.drop(Drop::NoRif),
            Some(interface) => (v.src, v.vlan) = interface,
        });
    }

    /// Tables 20 to 22.
    fn bridge(&mut self, frames: &[Frame], visits: &mut [Visit]) {
        stage(
            visits,
            &self.fdb,
            |v| Some([v.vlan, v.dst]),
            |v, found| match found {
                None => v.drop(Drop::NoStation),
                Some(bridge_port) => v.out_bridge_port = bridge_port,
            },
        );
        let mut asked = Asked::<5>::new();
        for (i, v) in visits.iter().enumerate() {
            if v.is_here() && v.kind == Kind::V4 {
                let bytes = frames[i].bytes();
                let (src, dst) = (be32(bytes, v.ip + 12), be32(bytes, v.ip + 16));
                let ports = [v.l4 >> 16, v.l4 & 0xffff].map(u64::from);
                asked.ask(i, [src.into(), dst.into(), ports[0], ports[1], v.protocol]);
            }
        }
        let (list, hits) = (&self.acl_ingress_ipv4, &mut self.acl_hits);
        asked.answer_places(list, |i, place| {
            hits.count_hit(place, frames[i].len());
            if place.is_some_and(|place| !list.at(place)) {
                visits[i].drop(Drop::IngressAcl);
            }
        });
        let key = |v: &Visit| Some([v.vlan, v.dst, v.ethertype]);
        stage(visits, &self.acl_ingress_mac, key, |v, found| {
            if let Some(Verdict::Drop(reason)) = found {
                v.fate = Fate::Dropped(reason);
            }
        });
    }

    /// Tables 23 and 24.
    fn choose_port(&mut self, visits: &mut [Visit]) {
        for v in visits.iter_mut().filter(|v| v.is_here()) {
            if !v.is_routed && v.out_bridge_port == v.bridge_port {
                v.drop(Drop::SamePort);
            }
        }
        let key = |v: &Visit| Some([v.out_bridge_port, v.hash >> 4 & 7]);
        stage(visits, &self.lag_member, key, |v, found| match found {
            None => v.drop(Drop::NoLagMember),
            Some(port) => v.port = port,
        });
        stage(
            visits,
            &self.class_to_queue,
            |v| Some([v.class]),
            |v, found| {
                v.class = found.unwrap_or(v.class);
            },
        );
    }

    /// Tables 25 to 30.
    fn leave(&mut self, visits: &mut [Visit]) {
        let place = |v: &Visit| Some([v.out_bridge_port, v.vlan]);
        stage(visits, &self.egress_stp, place, |v, found| {
            if found.is_none() {
                v.fate = Fate::DroppedLate(NOT_MEMBER);
            }
        });
        stage(visits, &self.egress_vlan, place, |v, found| match found {
            None => v.fate = Fate::DroppedLate(NOT_MEMBER),
            Some(vid) => v.out_vid = vid,
        });
        let class = |v: &Visit| (v.kind != Kind::Other).then_some([v.class, v.colour]);
        stage(visits, &self.class_to_dscp, class, |v, found| {
            v.out_dscp = found
        });
        let mtu = |v: &Visit| v.is_routed.then_some([v.out_rif, v.len]);
        stage(visits, &self.mtu, mtu, |v, found| {
            if found.is_none() {
                v.fate = Fate::DroppedLate(TOO_LONG);
            }
        });
        let key = |v: &Visit| Some([v.port, v.protocol, u64::from(v.l4 & 0xffff)]);
        stage(visits, &self.acl_egress, key, |v, found| {
            if let Some(Verdict::Drop(reason)) = found {
                v.fate = Fate::DroppedLate(reason);
            }
        });
        let mut asked = Asked::<1>::new();
        for (i, v) in visits.iter().enumerate().filter(|(_, v)| v.is_here()) {
            asked.ask(i, [v.port]);
        }
        let port_tx = &mut self.port_tx;
        asked.answer(&self.egress_port, |i, found| {
            if found.is_some() {
                port_tx.count(visits[i].port as usize, visits[i].len as usize);
            }
        });
    }

    #[inline(always)]
    fn finish(&mut self, frame: &mut Frame, visit: &Visit, out: &mut SentFrames) {
        match visit.fate {
            Fate::OnItsWay => {
                rewrite(frame, visit);
                out.take(PortId(visit.port as u32), frame);
            }
            Fate::Dropped(reason) => self.drops.count_packet(reason as usize),
            Fate::DroppedLate(reason) => self.egress_drops.count_packet(reason as usize),
        }
    }
}

/// Returns the two halves of an IPv6 address.
fn address6(bytes: &[u8], at: usize) -> (u64, u64) {
    let half = |at| u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4));
    (half(at), half(at + 8))
}

/// Parses a frame like the program's parser. Returns `None` if it is too short.
#[inline(always)]
fn parse(frame: &Frame) -> Option<Visit> {
    let bytes = frame.bytes();
    let ethernet = bytes.first_chunk::<ETHERNET>()?;
    let mut ethertype = be16(ethernet, 12);
    let mut visit = Visit {
        ingress: frame.ingress.0.into(),
        ethertype: ethertype.into(),
        src: be48(ethernet, 6),
        dst: be48(ethernet, 0),
        len: bytes.len() as u64,
        ..Visit::default()
    };
    let mut at = ETHERNET;
    if ethertype == ETHERTYPE_VLAN {
        let tag = bytes.get(14..18)?;
        visit.is_tagged = true;
        visit.vid = u64::from(be16(tag, 0) & 0xfff);
        ethertype = be16(tag, 2);
        at += 4;
    }
    visit.ip = at;
    let l4_at = match ethertype {
        ETHERTYPE_IPV4 => {
            let ip = bytes.get(at..at + 20)?;
            visit.kind = Kind::V4;
            visit.protocol = ip[9].into();
            visit.dscp = u64::from(ip[1] >> 2);
            let has_ports = ip[0] & 0xf == 5 && be16(ip, 6) & 0x1fff == 0;
            has_ports.then_some(at + 20)
        }
        ETHERTYPE_IPV6 => {
            let ip = bytes.get(at..at + 40)?;
            visit.kind = Kind::V6;
            visit.protocol = ip[6].into();
            visit.dscp = u64::from(be16(ip, 0) >> 6 & 63);
            Some(at + 40)
        }
        _ => None,
    };
    if let Some(at) = l4_at
        && [TCP, UDP].map(u64::from).contains(&visit.protocol)
    {
        visit.l4 = be32(bytes.get(at..at + 4)?, 0);
    }
    Some(visit)
}

/// Validates IP headers and computes the flow hash.
fn check(frames: &[Frame], visits: &mut [Visit]) {
    for (frame, v) in frames.iter().zip(visits).filter(|(_, v)| v.is_here()) {
        let bytes = frame.bytes();
        let folded = match v.kind {
            Kind::Other => continue,
            Kind::V4 if bytes[v.ip] != 0x45 => {
                v.drop(Drop::Malformed);
                continue;
            }
            Kind::V4 if !ipv4_is_right(bytes, v.ip) => {
                v.drop(Drop::BadChecksum);
                continue;
            }
            Kind::V4 => be32(bytes, v.ip + 12) ^ be32(bytes, v.ip + 16),
            Kind::V6 => be32(bytes, v.ip + 20) ^ be32(bytes, v.ip + 36),
        };
        let folded = folded ^ v.l4;
        let half = folded >> 16 ^ folded;
        v.hash = u64::from((half >> 8 ^ half) & 0xff);
    }
}

#[inline(always)]
fn rewrite(frame: &mut Frame, visit: &Visit) {
    let bytes = frame.bytes_mut();
    if visit.is_routed {
        put48(bytes, 0, visit.dst);
        put48(bytes, 6, visit.src);
    }
    let header = &mut bytes[visit.ip..];
    match visit.kind {
        Kind::Other => {}
        Kind::V4 => rewrite_ipv4(header, visit),
        Kind::V6 => {
            if visit.is_routed {
                header[7] -= 1;
            }
            if let Some(dscp) = visit.out_dscp {
                let others = be16(header, 0) & !(63 << 6);
                put16(header, 0, others | (dscp as u16) << 6);
            }
        }
    }
    match (visit.is_tagged, visit.out_vid) {
        (false, None) => {}
        (false, Some(vid)) => tag(frame, vid),
        (true, Some(vid)) => {
            let priority = be16(bytes, 14) & 0xf000;
            put16(bytes, 14, priority | vid as u16);
        }
        (true, None) => {
            bytes.copy_within(0..12, 4);
            // The frame has a tag, so this does not fail.
            let _ = frame.pull_front(4);
        }
    }
}

#[inline(always)]
fn rewrite_ipv4(header: &mut [u8], visit: &Visit) {
    let (class, ttl) = (be16(header, 0), be16(header, 8));
    if visit.is_routed {
        header[8] -= 1;
    }
    if let Some(dscp) = visit.out_dscp {
        header[1] = header[1] & 3 | (dscp as u8) << 2;
    }
    let checksum = corrected(be16(header, 10), class, be16(header, 0));
    let checksum = corrected(checksum, ttl, be16(header, 8));
    put16(header, 10, checksum);
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
            self.rif_counters.reading(),
            self.acl_hits.reading(),
            self.egress_drops.reading(),
            self.port_tx.reading(),
        ]
    }
}
