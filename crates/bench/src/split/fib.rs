//! `fib`: a gateway of tenants with 100,000 routes.

use exec::Configuration;
use generators::{Family, RoutingTable};
use ir::Program;
use packet::{Frame, Nanos, PortId};
use passes::split::SplitProgram;
use support::rng::Rng;

use super::SplitFunction;
use super::fields::{BitField, ResponseFields};
use crate::Hand;
use crate::forward::{Forward, Reading, SentFrames};
use crate::names::Key;
use crate::setup::{ItemSink, SetupError};
use crate::wire::{
    ETHERNET, ETHERTYPE_IPV4, IPV4_END, Ipv4, UDP, be16, be32, decrement_ttl, ipv4_is_right, put16,
    put32, put48, seal_ipv4,
};
use crate::workloads::fill::Fill;
use crate::workloads::flat::{Asked, BURST, Flat};

/// Number of flows, each to a prefix of its own without longer ones.
const FLOWS: u32 = 10_000;
/// Number of routes.
const ROUTES: usize = 100_000;
const TENANTS: u64 = 16;
const FIRST_VNI: u64 = 100;
const NEXT_HOPS: u64 = 256;
const PORTS: u64 = 8;
const GATEWAY_ADDRESS: u32 = 0x0aff_0001;
const GATEWAY_MAC: u64 = 0x0200_0000_fe01;
const OUR_MAC: u64 = 0x0200_0000_0100;
const THEIR_MAC: u64 = 0x0200_0000_0200;
const ROUTER_MAC: u64 = 0x0200_0001_0000;
const VXLAN_PORT: u16 = 4789;
const NEW_TTL: u8 = 64;

/// Offsets of the headers in a packet.
const VXLAN: usize = IPV4_END + 8;
const INNER: usize = VXLAN + 8;
const INNER_IPV4: usize = INNER + ETHERNET;
const INNER_END: usize = INNER_IPV4 + 20;

/// The function.
pub(super) struct Fib {
    table: RoutingTable,
    /// Routes by their numbers, of flows first, with their tenants.
    routes: Vec<(u64, u32, u8)>,
    /// Inner destination of each flow.
    destinations: Vec<u32>,
}

impl Fib {
    pub(super) fn new() -> Fib {
        let table = RoutingTable::generate(Family::V4, ROUTES, 1);
        let mut choices = Rng::new(3);
        let mut routes: Vec<(u64, u32, u8)> = table
            .routes()
            .iter()
            .map(|route| {
                let vni = FIRST_VNI + choices.below(TENANTS);
                (vni, route.address as u32, route.len)
            })
            .collect();
        // Prefixes of 24 bits and more have no longer ones below them in this table, but for few.
        routes.sort_by_key(|(vni, address, len)| (*len != 24, hash(*vni, *address)));
        let destinations = routes.iter().take(FLOWS as usize);
        let destinations = destinations.map(|(_, address, _)| address | 7).collect();
        Fib {
            table,
            routes,
            destinations,
        }
    }
}

fn hash(vni: u64, address: u32) -> u64 {
    (vni << 32 | u64::from(address)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl SplitFunction for Fib {
    fn name(&self) -> &'static str {
        "fib"
    }

    fn file(&self) -> &'static str {
        "fib.p4"
    }

    fn source(&self) -> &'static str {
        include_str!("../../../../examples/split/fib.p4")
    }

    fn flows(&self) -> u32 {
        FLOWS
    }

    fn min_bytes(&self) -> usize {
        INNER_END + 8
    }

    fn setup(&self, program: &Program, setup: &mut ItemSink<'_>) -> Result<(), SetupError> {
        let mut fill = Fill { program, setup };
        let hops = fill.table("next_hops", "to_vtep")?;
        for hop in 0..NEXT_HOPS {
            let vtep = 0x0aff_0100 + (hop << 8);
            let vni = FIRST_VNI + hop % TENANTS;
            fill.add(&hops, &[Key::Is(hop + 1)], &[vtep, vni, ROUTER_MAC + hop])?;
        }
        let underlay = fill.table("underlay", "to_port")?;
        for hop in 0..NEXT_HOPS {
            let args = [hop % PORTS, OUR_MAC, THEIR_MAC + hop];
            fill.add(&underlay, &[Key::Lpm(0x0aff_0100 + (hop << 8), 24)], &args)?;
        }
        Ok(())
    }

    fn entries(&self, program: &Program, setup: &mut ItemSink<'_>) -> Result<(), SetupError> {
        self.entries_of(program, self.table.routes().len() as u32, setup)
    }

    fn entries_of(
        &self,
        program: &Program,
        flows: u32,
        setup: &mut ItemSink<'_>,
    ) -> Result<(), SetupError> {
        let mut fill = Fill { program, setup };
        let fib = fill.table("fib", "set_next_hop")?;
        for (number, (vni, address, len)) in self.routes.iter().take(flows as usize).enumerate() {
            let keys = [Key::Is(*vni), Key::Lpm((*address).into(), (*len).into())];
            fill.add(&fib, &keys, &[1 + number as u64 % NEXT_HOPS])?;
        }
        Ok(())
    }

    fn packet(&self, flow: u32, bytes: usize, frame: &mut Frame) {
        let outer = Ipv4 {
            dst_mac: OUR_MAC,
            src_mac: THEIR_MAC,
            src: 0x0aff_ff01,
            dst: GATEWAY_ADDRESS,
            ttl: 64,
            protocol: UDP,
            src_port: 50_000,
            dst_port: VXLAN_PORT,
            len: bytes.max(self.min_bytes()),
        };
        frame.ingress = PortId(0);
        outer.write(frame);
        let bytes = frame.bytes_mut();
        put16(bytes, 40, 0);
        put32(bytes, VXLAN, 0x0800_0000);
        put32(bytes, VXLAN + 4, (self.routes[flow as usize].0 as u32) << 8);
        put48(bytes, INNER, GATEWAY_MAC);
        put48(bytes, INNER + 6, THEIR_MAC);
        put16(bytes, INNER + 12, ETHERTYPE_IPV4);
        let inner = Ipv4 {
            dst_mac: 0,
            src_mac: 0,
            src: 0x0a00_0001,
            dst: self.destinations[flow as usize],
            ttl: 64,
            protocol: 0,
            src_port: 0,
            dst_port: 0,
            len: 0,
        };
        inner.write_ipv4(&mut bytes[INNER_IPV4..]);
    }

    fn first(&self, _: u32, _: &mut Frame) -> bool {
        false
    }

    fn request(&self, flow: u32, frame: &mut Frame) {
        self.packet(flow, self.min_bytes(), frame);
    }

    fn hand(&self, configuration: &mut Configuration) -> Result<Option<Hand>, SetupError> {
        Ok(Some(Box::new(Loop {
            fib: Flat::new(configuration, "fib", |_, params| params[0])?,
            hops: Flat::new(configuration, "next_hops", |_, params| Hop {
                vtep: params[0] as u32,
                vni: params[1] as u32,
                mac: params[2],
            })?,
            underlay: Flat::new(configuration, "underlay", |_, params| Way {
                port: params[0] as u32,
                src: params[1],
                dst: params[2],
            })?,
        })))
    }

    fn server_hand(
        &self,
        program: &SplitProgram,
        configuration: &mut Configuration,
    ) -> Result<Option<Hand>, SetupError> {
        let layout = &program.plan.frame;
        Ok(Some(Box::new(ServerLoop {
            response: ResponseFields::new(program, 2),
            vni: BitField::key(layout, 0, 24),
            address: BitField::key(layout, 24, 32),
            next_hop: BitField::parameter(layout, "next_hop")?,
            fib: Flat::new(configuration, "fib", |_, params| params[0])?,
        })))
    }
}

#[derive(Clone, Copy, Default)]
struct Hop {
    vtep: u32,
    vni: u32,
    mac: u64,
}

#[derive(Clone, Copy, Default)]
struct Way {
    port: u32,
    src: u64,
    dst: u64,
}

/// The whole function for packets of tenants that hit. Others are dropped.
struct Loop {
    fib: Flat<u64>,
    hops: Flat<Hop>,
    underlay: Flat<Way>,
}

fn is_usual(bytes: &[u8]) -> bool {
    let Some(headers) = bytes.first_chunk::<INNER_END>() else {
        return false;
    };
    be16(headers, 12) == ETHERTYPE_IPV4
        && headers[14] == 0x45
        && be16(headers, 20) & 0x3fff == 0
        && headers[23] == UDP
        && be32(headers, 30) == GATEWAY_ADDRESS
        && be16(headers, 36) == VXLAN_PORT
        && headers[VXLAN] & 8 != 0
        && be16(headers, INNER + 12) == ETHERTYPE_IPV4
        && headers[INNER_IPV4] == 0x45
        && ipv4_is_right(headers, ETHERNET)
        && ipv4_is_right(headers, INNER_IPV4)
        && headers[INNER_IPV4 + 8] > 1
}

impl Loop {
    fn burst(&mut self, frames: &mut [Frame], out: &mut SentFrames) {
        let mut routes = Asked::<2>::new();
        for (i, frame) in frames.iter().enumerate() {
            let bytes = frame.bytes();
            if is_usual(bytes) {
                let vni = be32(bytes, VXLAN + 4) >> 8;
                routes.ask(i, [vni.into(), be32(bytes, INNER_IPV4 + 16).into()]);
            }
        }
        let mut hops = Asked::<1>::new();
        routes.answer(&self.fib, |i, hop| {
            if let Some(hop) = hop {
                hops.ask(i, [hop]);
            }
        });
        let mut ways = Asked::<1>::new();
        hops.answer(&self.hops, |i, hop| {
            if let Some(hop) = hop {
                rewrite(frames[i].bytes_mut(), hop);
                ways.ask(i, [hop.vtep.into()]);
            }
        });
        ways.answer(&self.underlay, |i, way| {
            if let Some(way) = way {
                let bytes = frames[i].bytes_mut();
                put48(bytes, 0, way.dst);
                put48(bytes, 6, way.src);
                out.take(PortId(way.port), &frames[i]);
            }
        });
    }
}

#[inline(always)]
fn rewrite(bytes: &mut [u8], hop: Hop) {
    let reserved = be32(bytes, VXLAN + 4) & 0xff;
    put32(bytes, VXLAN + 4, hop.vni << 8 | reserved);
    put48(bytes, INNER, hop.mac);
    put48(bytes, INNER + 6, GATEWAY_MAC);
    decrement_ttl(bytes, INNER_IPV4);
    put32(bytes, 26, GATEWAY_ADDRESS);
    put32(bytes, 30, hop.vtep);
    bytes[22] = NEW_TTL;
    put16(bytes, 40, 0);
    seal_ipv4(bytes, ETHERNET);
}

impl Forward for Loop {
    fn forward(&mut self, frames: &mut [Frame], _: Nanos, out: &mut SentFrames) {
        for burst in frames.chunks_mut(BURST) {
            self.burst(burst, out);
        }
    }

    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }
}

/// The server half: finds the route.
struct ServerLoop {
    response: ResponseFields,
    vni: BitField,
    address: BitField,
    next_hop: BitField,
    fib: Flat<u64>,
}

impl Forward for ServerLoop {
    fn forward(&mut self, frames: &mut [Frame], _: Nanos, out: &mut SentFrames) {
        for burst in frames.chunks_mut(BURST) {
            let mut routes = Asked::<2>::new();
            for (i, frame) in burst.iter().enumerate() {
                let bytes = frame.bytes();
                if self.response.is_request(bytes) {
                    routes.ask(i, [self.vni.get(bytes), self.address.get(bytes)]);
                }
            }
            routes.answer(&self.fib, |i, hop| {
                if let Some(hop) = hop {
                    let bytes = burst[i].bytes_mut();
                    self.next_hop.put(bytes, hop);
                    self.response.answer(bytes);
                    out.take(PortId(0), &burst[i]);
                }
            });
        }
    }

    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }
}
