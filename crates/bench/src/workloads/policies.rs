//! The seven policies of HyperVDP (section VI): chains of the functions in `examples/functions`,
//! with entries and packets that can be divided into parts.
//!
//! Hosts are numbered, and each is in a separate network 10.x.y.0/24. So the hosts of a part have
//! a common prefix. Each block of hosts has two firewall rules and one service class.

use driver::StepSource;
use ir::Program;
use packet::Frame;
use packet::PortId;
use support::rng::Rng;

use super::Size;
use super::fill::Fill;
use super::l2::address;
use crate::names::Key;
use crate::setup::{ItemSink, SetupError};
use crate::tenants::{Part, ShardableWorkload};
use crate::wire::{Ipv4, TCP, UDP};

/// Number of ports of the hosts.
const PORTS: u64 = 16;
/// MAC address of the router, the source of all routed frames.
const ROUTER: u64 = 0x0200_0000_00fe;
/// Network of the first host.
const NETWORK: u64 = 10 << 24;
/// Number of host bits in a host's network.
const HOST_BITS: u32 = 8;
const DNS: u16 = 53;
/// TCP ports that the firewall permits.
const WEB: (u16, u16) = (80, 443);

/// A function of a policy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Function {
    Learn,
    Switch,
    Router,
    Guard,
    Firewall,
    Service,
}

use Function::{Firewall, Guard, Learn, Router, Service, Switch};

/// Functions of each policy. The first is policy 1.
const POLICIES: [&[Function]; 7] = [
    &[Switch],
    &[Learn, Switch],
    &[Learn, Service],
    &[Router],
    &[Router, Firewall],
    &[Router, Guard, Firewall],
    &[Learn, Router, Guard, Firewall, Service],
];

/// Names of the policies on command lines.
pub(super) const NAMES: [&str; 7] = ["pol1", "pol2", "pol3", "pol4", "pol5", "pol6", "pol7"];

impl Function {
    /// Returns its name in a policy, and its text without the common headers.
    fn source(self) -> (&'static str, &'static str) {
        match self {
            Learn => (
                "mac_learn",
                include_str!("../../../../examples/functions/mac_learn.p4"),
            ),
            Switch => (
                "l2_sw",
                include_str!("../../../../examples/functions/l2_sw.p4"),
            ),
            Router => (
                "l3_sw",
                include_str!("../../../../examples/functions/l3_sw.p4"),
            ),
            Guard => (
                "ip_sg",
                include_str!("../../../../examples/functions/ip_sg.p4"),
            ),
            Firewall => ("fw", include_str!("../../../../examples/functions/fw.p4")),
            Service => ("qos", include_str!("../../../../examples/functions/qos.p4")),
        }
    }

    fn step(self) -> StepSource {
        let (name, text) = self.source();
        let shared = include_str!("../../../../examples/functions/headers.p4");
        StepSource {
            step: name.to_owned(),
            text: text.replace("#include \"headers.p4\"", shared),
        }
    }
}

/// One of the policies.
pub(super) struct Policy {
    name: &'static str,
    functions: &'static [Function],
    stations: u64,
    blocks: u64,
}

impl Policy {
    /// Returns the policy with this name.
    pub(super) fn find(name: &str, size: Size) -> Option<Policy> {
        let at = NAMES.iter().position(|other| *other == name)?;
        let (stations, blocks) = match size {
            Size::Full => (1 << 14, 256),
            Size::Small => (1 << 9, 8),
        };
        Some(Policy {
            name: NAMES[at],
            functions: POLICIES[at],
            stations,
            blocks,
        })
    }

    /// Returns the first host of a part and the number of its hosts. Every part has at least one
    /// host per port.
    fn stations(&self, part: Part) -> (u64, u64) {
        let each = (self.stations / part.of as u64).max(PORTS);
        (part.number as u64 * each, each)
    }

    /// Returns the common prefix of `stations` hosts, starting at `first`.
    fn prefix(first: u64, stations: u64) -> Key {
        let hosts = (stations << HOST_BITS) - 1;
        Key::Mask(network(first), !hosts & 0xffff_ffff)
    }

    /// Returns the prefixes of a part's blocks.
    fn blocks(&self, part: Part) -> impl Iterator<Item = Key> + use<> {
        let (first, count) = self.stations(part);
        let each = (self.stations / self.blocks).min(count);
        (0..count / each).map(move |block| Policy::prefix(first + block * each, each))
    }

    fn fill(
        &self,
        function: Function,
        part: Part,
        fill: &mut Fill<'_, '_>,
    ) -> Result<(), SetupError> {
        let (first, count) = self.stations(part);
        let stations = first..first + count;
        match function {
            Learn => {
                let known = fill.table("known_source", "NoAction")?;
                for station in stations {
                    let keys = [Key::Is(address(station)), Key::Is(port(station))];
                    fill.add(&known, &keys, &[])?;
                }
            }
            Switch => {
                let forward = fill.table("forward", "to_port")?;
                for station in stations {
                    fill.add(&forward, &[Key::Is(address(station))], &[port(station)])?;
                }
            }
            Router => {
                let routes = fill.table("routes", "next_hop")?;
                for station in stations {
                    let prefix = Key::Lpm(network(station), u32::BITS - HOST_BITS);
                    let next = [port(station), ROUTER, address(station)];
                    fill.add(&routes, &[prefix], &next)?;
                }
            }
            Guard => {
                let bindings = fill.table("bindings", "NoAction")?;
                for station in stations {
                    let from = [port(station), ROUTER, network(station) + 1];
                    fill.add(&bindings, &from.map(Key::Is), &[])?;
                }
            }
            Firewall => {
                let rules = fill.table("rules", "permit")?;
                for block in self.blocks(part) {
                    let allowed = [(UDP, DNS, DNS), (TCP, WEB.0, WEB.1)];
                    for (rank, (protocol, least, greatest)) in (1..).zip(allowed) {
                        let keys = [
                            Key::Any,
                            block,
                            Key::Is(protocol.into()),
                            Key::Any,
                            Key::Range(least.into(), greatest.into()),
                        ];
                        fill.rank(&rules, &keys, rank, &[])?;
                    }
                }
            }
            Service => {
                let classes = fill.table("classes", "class")?;
                for block in self.blocks(part) {
                    fill.rank(&classes, &[block, Key::Any, Key::Any], 1, &[5, 46])?;
                }
            }
        }
        Ok(())
    }
}

fn port(station: u64) -> u64 {
    station % PORTS
}

fn network(station: u64) -> u64 {
    NETWORK | station << HOST_BITS
}

impl ShardableWorkload for Policy {
    fn name(&self) -> &str {
        self.name
    }

    fn steps(&self) -> Vec<StepSource> {
        self.functions
            .iter()
            .map(|function| function.step())
            .collect()
    }

    fn ports(&self) -> u32 {
        PORTS as u32
    }

    fn setup(
        &self,
        program: &Program,
        part: Part,
        setup: &mut ItemSink<'_>,
    ) -> Result<(), SetupError> {
        let mut fill = Fill { program, setup };
        self.functions
            .iter()
            .try_for_each(|function| self.fill(*function, part, &mut fill))
    }

    fn packet(&self, choices: &mut Rng, part: Part, frame: &mut Frame) {
        let (first, count) = self.stations(part);
        let groups = count / PORTS;
        let (from, hop) = (choices.below(PORTS), choices.between(1, PORTS - 1));
        let src = first + choices.below(groups) * PORTS + from;
        let dst = first + choices.below(groups) * PORTS + (from + hop) % PORTS;
        let (protocol, dst_port) = match choices.below(2) {
            0 => (UDP, DNS),
            _ => (TCP, choices.between(WEB.0.into(), WEB.1.into()) as u16),
        };
        let packet = Ipv4 {
            dst_mac: address(dst),
            src_mac: address(src),
            src: network(src) as u32 + 1,
            dst: network(dst) as u32 + choices.between(1, 254) as u32,
            ttl: 64,
            protocol,
            src_port: choices.between(1024, 65_535) as u16,
            dst_port,
            len: 64,
        };
        packet.write(frame);
        frame.ingress = PortId(port(src) as u32);
    }
}
