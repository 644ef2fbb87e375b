//! `sai`: a switch with the thirty tables of the Switch Abstraction Interface (SAI).

mod hand;

use bits::Value;
use exec::Configuration;
use generators::{Family, Kind, Prefix, Route, RoutingTable, RuleSet, Spread};
use ir::Program;
use packet::{Frame, PortId};
use support::rng::Rng;

use super::Size;
use super::acl::tag;
use super::fill::Fill;
use crate::names::Key;
use crate::setup::{ItemSink, SetupError};
use crate::wire::{ETHERTYPE_IPV6, Ipv4, TCP, UDP, put16, put48};
use crate::{Hand, Workload};

/// Number of individual ports, from 0. Port `p` is bridge port `BRIDGE_PORTS + p` and untagged
/// member of one VLAN.
const PORTS: u64 = 16;
const BRIDGE_PORTS: u64 = 1;
/// Link aggregation groups (LAGs) of four ports each, from port 16 on. They are tagged members of
/// all VLANs.
const LAGS: u64 = 4;
const LAG_PORTS: u64 = 4;
const LAG_BRIDGE_PORTS: u64 = 101;
/// Number of VLANs. VLAN `FIRST_VID + v` is the object `1 + v`, and has the router interface with
/// the same number.
const VLANS: u64 = 16;
const FIRST_VID: u64 = 100;
/// Number of virtual routers, numbered from 1. VLANs are assigned to them round robin.
const VRFS: u64 = 4;
/// Number of neighbors, which are also the hosts and next hops.
const NEIGHBOURS: u64 = 256;
/// Number of groups of 16 next hops, numbered from 1.
const GROUPS: u64 = 64;
/// MAC address of the router.
const OUR_MAC: u64 = 0x0200_0000_0100;

/// The workload.
pub(super) struct Sai {
    /// Routing tables of the virtual routers.
    routes4: Vec<RoutingTable>,
    routes6: Vec<RoutingTable>,
    /// Number of host routes of each virtual router.
    hosts: u64,
    rules: RuleSet,
}

impl Sai {
    pub(super) fn new(size: Size) -> Self {
        match size {
            Size::Full => Self::of(5000, 2000, 1024, 256),
            Size::Small => Self::of(50, 20, 10, 20),
        }
    }

    /// Creates the workload with about 100,000 entries.
    pub(super) fn large() -> Self {
        Self::of(15_000, 7500, 1024, 256)
    }

    /// Creates the workload with these numbers of IPv4 routes, IPv6 routes and hosts per virtual
    /// router, and of rules.
    fn of(v4: usize, v6: usize, hosts: u64, rules: usize) -> Self {
        let tables = |family, size| {
            let table = |vrf| RoutingTable::generate(family, size, vrf);
            (0..VRFS).map(table).collect()
        };
        Self {
            routes4: tables(Family::V4, v4),
            routes6: tables(Family::V6, v6),
            hosts,
            rules: RuleSet::generate(Kind::Acl, Spread::Scaled, rules, 1),
        }
    }
}

fn their_mac(neighbour: u64) -> u64 {
    0x0200_0000_1000 + neighbour
}

/// Returns the VLAN of a neighbor, from 0.
fn vlan_of(neighbour: u64) -> u64 {
    neighbour % VLANS
}

/// Returns the bridge port of a neighbor: its VLAN's individual port or a LAG.
fn bridge_port_of(neighbour: u64) -> u64 {
    match neighbour / VLANS % 2 {
        0 => BRIDGE_PORTS + vlan_of(neighbour),
        _ => LAG_BRIDGE_PORTS + neighbour % LAGS,
    }
}

/// Returns the virtual router of a VLAN, from 0.
fn vrf_of(vlan: u64) -> u64 {
    vlan % VRFS
}

/// Returns an IPv4 host address of a virtual router.
fn host4(vrf: u64, host: u64) -> u64 {
    0x0a00_0000 | vrf << 16 | host
}

/// Returns an IPv6 host address of a virtual router.
fn host6(vrf: u64, host: u64) -> u128 {
    0xfd00_u128 << 112 | u128::from(vrf) << 64 | u128::from(host)
}

fn denies(rule: usize) -> bool {
    rule % 10 == 9
}

impl Workload for Sai {
    fn name(&self) -> &'static str {
        "sai"
    }

    fn about(&self) -> &'static str {
        "thirty tables in the order of SAI: VLANs, IPv4 and IPv6 routes, ECMP, LAGs, lists, classes"
    }

    fn source(&self) -> &'static str {
        include_str!("../../programs/sai.p4")
    }

    fn setup(&self, program: &Program, setup: &mut ItemSink<'_>) -> Result<(), SetupError> {
        let mut fill = Fill { program, setup };
        fill.bridge()?;
        fill.neighbours()?;
        fill.classes_and_lists(&self.rules)?;
        fill.routes(self)
    }

    fn packet(&self, choices: &mut Rng, frame: &mut Frame) {
        self.usual(choices).write(frame, choices);
    }

    fn stray(&self, choices: &mut Rng, frame: &mut Frame) {
        let mut visit = self.usual(choices);
        match choices.below(12) {
            0 => visit.ip.dst_mac = choices.bits() >> 16,
            1 => visit.ip.src_mac = choices.bits() >> 16,
            2 => visit.vlan = choices.below(VLANS),
            3 => visit.ip.ttl = choices.below(2) as u8,
            4 => visit.dscp = choices.below(64) as u8,
            5 => visit.ip.dst = choices.bits() as u32,
            6 => visit.ip.protocol = choices.bits() as u8,
            7 => visit.port = choices.below(PORTS + LAGS * LAG_PORTS + 1),
            8 => visit.ip.dst_port = 7,
            9 => {
                // A packet that matches a rule of the access list. It is bridged to a host,
                // because few of these addresses have a route.
                (visit.dst6, visit.ip.dst_mac) = (None, visit.ip.src_mac ^ VLANS);
                let rules = self.rules.rules();
                let rule = &rules[choices.below(rules.len() as u64) as usize];
                let [src, dst, from, to, protocol] = rule.random_header(choices);
                (visit.ip.src, visit.ip.dst) = (src as u32, dst as u32);
                (visit.ip.src_port, visit.ip.dst_port) = (from as u16, to as u16);
                visit.ip.protocol = protocol as u8;
            }
            10 => visit.ip.len = choices.between(64, 1600) as usize,
            _ => {}
        }
        visit.write(frame, choices);
        let len = frame.len() as u64;
        match choices.below(6) {
            0 => frame.truncate(choices.below(len.min(64)) as usize),
            1 => {
                let at = 12 + choices.below(40) as usize;
                frame.bytes_mut()[at] ^= 1 << choices.below(8);
            }
            _ => {}
        }
    }

    fn hand_over(&self, configuration: &mut Configuration) -> Result<Hand, SetupError> {
        Ok(Box::new(hand::Loop::new(configuration)?))
    }
}

/// A packet to be generated.
struct Visit {
    vlan: u64,
    port: u64,
    is_tagged: bool,
    dscp: u8,
    /// Destination address of an IPv6 packet. `None` for IPv4.
    dst6: Option<u128>,
    ip: Ipv4,
}

impl Sai {
    fn usual(&self, choices: &mut Rng) -> Visit {
        let vlan = choices.below(VLANS);
        let vrf = vrf_of(vlan);
        let is_tagged = choices.per_mille(500);
        // A neighbor in the same VLAN: on the individual port if the packet comes from a LAG, and
        // vice versa.
        let side = if is_tagged { 0 } else { 1 };
        let neighbour = (choices.below(NEIGHBOURS / VLANS / 2) * 2 + side) * VLANS + vlan;
        let table = vrf as usize;
        let mut ip = Ipv4 {
            dst_mac: OUR_MAC,
            src_mac: their_mac(neighbour ^ VLANS),
            src: choices.bits() as u32,
            dst: self.routes4[table].destination(choices) as u32,
            ttl: choices.between(2, 255) as u8,
            protocol: if choices.per_mille(700) { TCP } else { UDP },
            src_port: choices.bits() as u16,
            dst_port: 443,
            len: 64,
        };
        let mut dst6 = None;
        match choices.below(100) {
            0..60 => {}
            60..75 => ip.dst = host4(vrf, choices.below(self.hosts)) as u32,
            75..85 => dst6 = Some(self.routes6[table].destination(choices)),
            85..90 => dst6 = Some(host6(vrf, choices.below(self.hosts))),
            _ => ip.dst_mac = their_mac(neighbour),
        }
        let lag_port = PORTS + choices.below(LAGS * LAG_PORTS);
        Visit {
            vlan,
            port: if is_tagged { lag_port } else { vlan },
            is_tagged,
            dscp: choices.below(40) as u8,
            dst6,
            ip,
        }
    }
}

impl Visit {
    fn write(&self, frame: &mut Frame, choices: &mut Rng) {
        self.ip.write(frame);
        let bytes = frame.bytes_mut();
        match self.dst6 {
            None => {
                bytes[15] = self.dscp << 2;
                crate::wire::seal_ipv4(bytes, 14);
            }
            Some(dst) => {
                bytes[14..].fill(0);
                put16(bytes, 12, ETHERTYPE_IPV6);
                put16(bytes, 14, 0x6000 | u16::from(self.dscp) << 6);
                let payload = (bytes.len() - 54) as u16;
                put16(bytes, 18, payload);
                bytes[20] = self.ip.protocol;
                bytes[21] = self.ip.ttl;
                put48(bytes, 22, 0x2001_0db8_0000);
                put48(bytes, 32, choices.bits() >> 16);
                bytes[38..54].copy_from_slice(&dst.to_be_bytes());
                put16(bytes, 54, self.ip.src_port);
                put16(bytes, 56, self.ip.dst_port);
            }
        }
        frame.ingress = PortId(self.port as u32);
        if self.is_tagged {
            tag(frame, FIRST_VID + self.vlan);
        }
    }
}

impl Fill<'_, '_> {
    /// Adds ports, LAGs, VLANs and VLAN members.
    fn bridge(&mut self) -> Result<(), SetupError> {
        let port = self.table("port", "set_port")?;
        let lag_member = self.table("lag_member", "to_port")?;
        for number in 0..PORTS {
            let bridge_port = BRIDGE_PORTS + number;
            self.add(
                &port,
                &[Key::Is(number)],
                &[bridge_port, FIRST_VID + number],
            )?;
            for hash in 0..8 {
                let keys = [Key::Is(bridge_port), Key::Is(hash)];
                self.add(&lag_member, &keys, &[number])?;
            }
        }
        for lag in 0..LAGS {
            let bridge_port = LAG_BRIDGE_PORTS + lag;
            let first = PORTS + lag * LAG_PORTS;
            for number in first..first + LAG_PORTS {
                self.add(&port, &[Key::Is(number)], &[bridge_port, FIRST_VID])?;
            }
            for hash in 0..8 {
                let keys = [Key::Is(bridge_port), Key::Is(hash)];
                self.add(&lag_member, &keys, &[first + hash % LAG_PORTS])?;
            }
        }
        let egress_port = self.table("egress_port", "count")?;
        for number in 0..PORTS + LAGS * LAG_PORTS {
            self.add(&egress_port, &[Key::Is(number)], &[])?;
        }
        let vlan = self.table("vlan", "set_vlan")?;
        let untagged = self.table("egress_vlan", "untagged")?;
        let tagged = self.table("egress_vlan", "tagged")?;
        for number in 0..VLANS {
            let id = Key::Is(1 + number);
            self.add(&vlan, &[Key::Is(FIRST_VID + number)], &[1 + number])?;
            let own = [Key::Is(BRIDGE_PORTS + number), id];
            self.member(&own)?;
            self.add(&untagged, &own, &[])?;
            for lag in 0..LAGS {
                let keys = [Key::Is(LAG_BRIDGE_PORTS + lag), id];
                self.member(&keys)?;
                self.add(&tagged, &keys, &[FIRST_VID + number])?;
            }
        }
        Ok(())
    }

    /// Adds a bridge port to a VLAN.
    fn member(&mut self, keys: &[Key]) -> Result<(), SetupError> {
        for (table, action) in [
            ("vlan_member", "member"),
            ("stp_port", "forwarding"),
            ("egress_stp", "forwarding"),
        ] {
            let table = self.table(table, action)?;
            self.add(&table, keys, &[])?;
        }
        Ok(())
    }

    /// Adds hosts, next hops and router interfaces.
    fn neighbours(&mut self) -> Result<(), SetupError> {
        let source = self.table("fdb_source", "NoAction")?;
        let fdb = self.table("fdb", "to_bridge_port")?;
        let next_hop = self.table("next_hop", "set_next_hop")?;
        let neighbour = self.table("neighbour", "set_dst_mac")?;
        for number in 0..NEIGHBOURS {
            let id = 1 + vlan_of(number);
            let station = [Key::Is(id), Key::Is(their_mac(number))];
            self.add(&source, &station, &[])?;
            self.add(&fdb, &station, &[bridge_port_of(number)])?;
            self.add(&next_hop, &[Key::Is(1 + number)], &[id, number])?;
            let keys = [Key::Is(id), Key::Is(number)];
            self.add(&neighbour, &keys, &[their_mac(number)])?;
        }
        let group = self.table("next_hop_group", "to_next_hop")?;
        for number in 0..GROUPS {
            for member in 0..16 {
                let keys = [Key::Is(1 + number), Key::Is(member)];
                let hop = 1 + (number * 29 + member * 17) % NEIGHBOURS;
                self.add(&group, &keys, &[hop])?;
            }
        }
        let my_mac = self.table("my_mac", "to_us")?;
        self.rank(&my_mac, &[Key::Any, Key::Is(OUR_MAC)], 2, &[])?;
        // MAC addresses of VRRP.
        let vrrp = Key::Mask(0x5e00_0100, 0xffff_ffff_ff00);
        self.rank(&my_mac, &[Key::Is(1), vrrp], 1, &[])?;
        let in_rif = self.table("router_interface", "set_rif")?;
        let out_rif = self.table("out_interface", "set_out_rif")?;
        let rif_vrf = self.table("rif_vrf", "set_vrf")?;
        let mtu = self.table("mtu", "fits")?;
        for vlan in 0..VLANS {
            let id = 1 + vlan;
            self.add(&in_rif, &[Key::Is(id)], &[id])?;
            self.add(&out_rif, &[Key::Is(id)], &[OUR_MAC, id])?;
            self.add(&rif_vrf, &[Key::Is(id)], &[1 + vrf_of(vlan)])?;
            self.rank(&mtu, &[Key::Is(id), Key::Range(0, 1518)], 1, &[])?;
        }
        let virtual_router = self.table("virtual_router", "routes_ip")?;
        (1..=VRFS).try_for_each(|vrf| self.add(&virtual_router, &[Key::Is(vrf)], &[]))
    }

    fn classes_and_lists(&mut self, rules: &RuleSet) -> Result<(), SetupError> {
        let dscp_to_class = self.table("dscp_to_class", "set_class")?;
        for dscp in 0..64 {
            self.add(&dscp_to_class, &[Key::Is(dscp)], &[dscp >> 3, dscp & 1])?;
        }
        let to_queue = self.table("class_to_queue", "to_queue")?;
        let to_dscp = self.table("class_to_dscp", "set_dscp")?;
        for class in 0..8 {
            self.add(&to_queue, &[Key::Is(class)], &[7 - class])?;
            for colour in 0..2 {
                let keys = [Key::Is(class), Key::Is(colour)];
                self.add(&to_dscp, &keys, &[class << 3 | colour << 1])?;
            }
        }
        // Bridge ports 1 to 8: voice traffic (DSCP 46) is assigned to the last virtual router, and
        // packets with a network control DSCP are dropped.
        let vrf = self.table("acl_pre_ingress", "choose_vrf")?;
        let drop = self.table("acl_pre_ingress", "drop")?;
        for bridge_port in 1..=8 {
            let voice = [Key::Is(bridge_port), Key::Any, Key::Any, Key::Is(46)];
            self.rank(&vrf, &voice, 20, &[VRFS])?;
            let control = [Key::Is(bridge_port), Key::Any, Key::Any, Key::Mask(48, 48)];
            self.rank(&drop, &control, 10, &[5])?;
        }
        let drop = self.table("acl_ingress_mac", "drop")?;
        for vlan in 1..=VLANS {
            let loops = [Key::Is(vlan), Key::Any, Key::Is(0x9000)];
            self.rank(&drop, &loops, 1, &[14])?;
        }
        let drop = self.table("acl_egress", "drop")?;
        for port in 0..PORTS {
            let echo = [Key::Is(port), Key::Is(UDP.into()), Key::Range(7, 19)];
            self.rank(&drop, &echo, 1, &[1])?;
        }
        self.access_list(rules)
    }

    fn access_list(&mut self, rules: &RuleSet) -> Result<(), SetupError> {
        let permit = self.table("acl_ingress_ipv4", "permit")?;
        let deny = self.table("acl_ingress_ipv4", "deny")?;
        let count = rules.rules().len();
        for (i, rule) in rules.rules().iter().enumerate() {
            let keys = [
                prefix(rule.source),
                prefix(rule.destination),
                Key::Range(rule.source_port.lo.into(), rule.source_port.hi.into()),
                Key::Range(
                    rule.destination_port.lo.into(),
                    rule.destination_port.hi.into(),
                ),
                rule.protocol
                    .map_or(Key::Any, |protocol| Key::Is(protocol.into())),
            ];
            let table = if denies(i) { &deny } else { &permit };
            self.rank(table, &keys, (count - i) as u64, &[])?;
        }
        Ok(())
    }

    fn routes(&mut self, sai: &Sai) -> Result<(), SetupError> {
        let mut choices = Rng::new(2);
        let host4_table = self.table("ipv4_host", "to_next_hop")?;
        let host6_table = self.table("ipv6_host", "to_next_hop")?;
        for vrf in 0..VRFS {
            for host in 0..sai.hosts {
                let hop = [1 + choices.below(NEIGHBOURS)];
                let keys = [Key::Is(1 + vrf), Key::Is(host4(vrf, host))];
                self.add(&host4_table, &keys, &hop)?;
                let keys = [Key::Is(1 + vrf), Key::Wide(host6(vrf, host))];
                self.add(&host6_table, &keys, &hop)?;
            }
        }
        for (name, tables) in [("ipv4_route", &sai.routes4), ("ipv6_route", &sai.routes6)] {
            let hop = self.table(name, "to_next_hop")?;
            let group = self.table(name, "to_group")?;
            for (vrf, table) in tables.iter().enumerate() {
                for route in table.routes() {
                    let keys = [Key::Is(1 + vrf as u64), lpm(route)];
                    match choices.per_mille(250) {
                        true => self.add(&group, &keys, &[1 + choices.below(GROUPS)])?,
                        false => self.add(&hop, &keys, &[1 + choices.below(NEIGHBOURS)])?,
                    }
                }
            }
        }
        Ok(())
    }
}

fn lpm(route: &Route) -> Key {
    Key::WideLpm(route.address, route.len.into())
}

fn prefix(prefix: Prefix) -> Key {
    let mask = Value::prefix_mask(prefix.len.into(), 32).to_u64();
    Key::Mask(prefix.address.into(), mask.unwrap_or(0))
}
