//! `snat`: flows of hosts inside, with their mappings.

use exec::Configuration;
use ir::Program;
use packet::{Frame, Nanos, PortId};
use passes::split::SplitProgram;
use std::sync::Arc;
use support::checksum::fold;
use table::{EntryIdx, Learn, LearningTable};

use super::SplitFunction;
use super::fields::{BitField, ResponseFields};
use crate::Hand;
use crate::forward::{Forward, Reading, SentFrames};
use crate::names::{Key, TableName};
use crate::setup::{ItemSink, SetupError};
use crate::wire::{
    ETHERNET, ETHERTYPE_IPV4, IPV4_END, Ipv4, TCP, UDP, be16, be32, corrected32, decrement_ttl,
    ipv4_is_right, put16, put32, put48,
};
use crate::workloads::fill::Fill;
use crate::workloads::flat::{Asked, BURST, Flat};

/// Number of flows.
const FLOWS: u32 = 10_000;
const INSIDE: u64 = 0;
const OUTSIDE: u64 = 1;
const NAT_ADDRESS: u32 = 0xcb00_7101;
const FIRST_PORT: u16 = 1024;
const OUR_MAC: u64 = 0x0200_0000_0100;
const THEIR_MAC: u64 = 0x0200_0000_0200;
const TCP_ACK: u8 = 0x10;
const TCP_FIN_ACK: u8 = 0x11;
/// Length of Ethernet, IPv4 and TCP headers in bytes.
const TCP_END: usize = IPV4_END + 20;

/// Time-outs of the handler: of open connections, and of those that end.
const OPEN_NS: u64 = 7_440_000_000_000;
const ENDING_NS: u64 = 240_000_000_000;

/// The function.
pub(super) struct Snat;

fn host(flow: u32) -> (u32, u16) {
    (0x0a00_0000 | flow >> 6, FIRST_PORT + (flow & 63) as u16 * 7)
}

fn write(flow: u32, bytes: usize, flags: u8, frame: &mut Frame) {
    let (address, port) = host(flow);
    let packet = Ipv4 {
        dst_mac: OUR_MAC,
        src_mac: THEIR_MAC,
        src: address,
        dst: 0xc633_6409,
        ttl: 64,
        protocol: TCP,
        src_port: port,
        dst_port: 443,
        len: bytes,
    };
    frame.ingress = PortId(INSIDE as u32);
    packet.write(frame);
    // The checksum of TCP covers the flags.
    let bytes = frame.bytes_mut();
    bytes[47] = flags;
    let checksum = corrected32(be16(bytes, 50), 0, flags.into());
    put16(bytes, 50, checksum);
}

impl SplitFunction for Snat {
    fn name(&self) -> &'static str {
        "snat"
    }

    fn file(&self) -> &'static str {
        "snat.p4c"
    }

    fn source(&self) -> &'static str {
        include_str!("../../../../examples/split/snat.p4c")
    }

    fn flows(&self) -> u32 {
        FLOWS
    }

    fn min_bytes(&self) -> usize {
        64
    }

    fn setup(&self, program: &Program, setup: &mut ItemSink<'_>) -> Result<(), SetupError> {
        let mut fill = Fill { program, setup };
        let sides = fill.table("port_side", "set_side")?;
        fill.add(&sides, &[Key::Is(INSIDE)], &[1])?;
        fill.add(&sides, &[Key::Is(OUTSIDE)], &[2])?;
        let routes = fill.table("route", "to_port")?;
        fill.add(
            &routes,
            &[Key::Lpm(0x0a00_0000, 8)],
            &[INSIDE, OUR_MAC, THEIR_MAC],
        )?;
        fill.add(&routes, &[Key::Lpm(0, 0)], &[OUTSIDE, OUR_MAC, THEIR_MAC])
    }

    fn entries(&self, program: &Program, setup: &mut ItemSink<'_>) -> Result<(), SetupError> {
        self.entries_of(program, FLOWS, setup)
    }

    fn entries_of(
        &self,
        program: &Program,
        flows: u32,
        setup: &mut ItemSink<'_>,
    ) -> Result<(), SetupError> {
        let mut fill = Fill { program, setup };
        let outbound = fill.table("outbound", "translate")?;
        let inbound = fill.table("inbound", "translate")?;
        for flow in 0..flows {
            let (address, port) = host(flow);
            let ours = u64::from(FIRST_PORT) + u64::from(flow);
            let key = |address: u32, port: u64| [TCP.into(), address.into(), port].map(Key::Is);
            fill.add(
                &outbound,
                &key(address, port.into()),
                &[NAT_ADDRESS.into(), ours],
            )?;
            fill.add(
                &inbound,
                &key(NAT_ADDRESS, ours),
                &[address.into(), port.into()],
            )?;
        }
        Ok(())
    }

    fn packet(&self, flow: u32, bytes: usize, frame: &mut Frame) {
        write(flow, bytes, TCP_ACK, frame);
    }

    fn first(&self, flow: u32, frame: &mut Frame) -> bool {
        write(flow, self.min_bytes(), 0x02, frame);
        true
    }

    fn request(&self, flow: u32, frame: &mut Frame) {
        write(flow, self.min_bytes(), TCP_FIN_ACK, frame);
    }

    fn hand(&self, configuration: &mut Configuration) -> Result<Option<Hand>, SetupError> {
        Ok(Some(Box::new(Loop {
            sides: Flat::new(configuration, "port_side", |_, params| params[0] == 1)?,
            outbound: Flat::new(configuration, "outbound", |_, params| End {
                address: params[0] as u32,
                port: params[1] as u16,
            })?,
            routes: Flat::new(configuration, "route", |_, params| NextHop {
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
        let parameter = |name| BitField::parameter(layout, name);
        let table = TableName::find(&program.server, "outbound")?;
        let action = table.listed(&program.server, "translate")?;
        let learned = configuration.learned.get(table.id).and_then(Option::clone);
        let table = learned.ok_or_else(|| SetupError::Entry("outbound has no handler".into()))?;
        Ok(Some(Box::new(ServerLoop {
            response: ResponseFields::new(program, 2),
            protocol: BitField::key(layout, 0, 8),
            address: BitField::key(layout, 8, 32),
            port: BitField::key(layout, 40, 16),
            side: parameter("meta.side")?,
            new_address: parameter("new_address")?,
            new_port: parameter("new_port")?,
            is_known: parameter("is_known")?,
            request: [
                parameter("request.protocol")?,
                parameter("request.address")?,
                parameter("request.l4_port")?,
                parameter("request.side")?,
                parameter("request.tcp_flags")?,
            ],
            answer_address: parameter("response.address")?,
            answer_port: parameter("response.l4_port")?,
            added: layout.added_bytes() as usize,
            action,
            table,
        })))
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

/// The whole function for packets from inside that hit. Others are dropped.
struct Loop {
    /// True if the port is inside.
    sides: Flat<bool>,
    outbound: Flat<End>,
    routes: Flat<NextHop>,
}

impl Loop {
    /// Returns true if the packet is one that can be translated, from inside.
    #[inline(always)]
    fn is_usual(&self, frame: &Frame) -> bool {
        let bytes = frame.bytes();
        let Some(headers) = bytes.first_chunk::<IPV4_END>() else {
            return false;
        };
        let is_whole = be16(headers, 12) == ETHERTYPE_IPV4
            && headers[14] == 0x45
            && be16(headers, 20) & 0x3fff == 0;
        let l4_end = match headers[23] {
            TCP => TCP_END,
            UDP => IPV4_END + 8,
            _ => usize::MAX,
        };
        if !is_whole || bytes.len() < l4_end || !ipv4_is_right(headers, ETHERNET) {
            return false;
        }
        let ends = headers[23] == TCP && bytes[47] & 0x05 != 0;
        let is_inside = self.sides.find(&[frame.ingress.0.into()]);
        headers[22] > 1 && !ends && is_inside == Some(true)
    }

    fn burst(&mut self, frames: &mut [Frame], out: &mut SentFrames) {
        let mut outbound = Asked::<3>::new();
        for (i, frame) in frames.iter().enumerate() {
            if self.is_usual(frame) {
                let bytes = frame.bytes();
                let (protocol, address) = (bytes[23], be32(bytes, 26));
                let port = be16(bytes, 34);
                outbound.ask(i, [protocol.into(), address.into(), port.into()]);
            }
        }
        let mut routes = Asked::<1>::new();
        let ends = &self.outbound;
        outbound.answer_places(ends, |i, place: Option<EntryIdx>| {
            if let Some(place) = place {
                rewrite(frames[i].bytes_mut(), ends.at(place));
                routes.ask(i, [be32(frames[i].bytes(), 30).into()]);
            }
        });
        routes.answer(&self.routes, |i, hop| {
            if let (Some(hop), frame) = (hop, &mut frames[i]) {
                if let Some(bytes) = frame.bytes_mut().first_chunk_mut::<IPV4_END>() {
                    put48(bytes, 0, hop.dst);
                    put48(bytes, 6, hop.src);
                    decrement_ttl(bytes, ETHERNET);
                }
                out.take(PortId(hop.port), frame);
            }
        });
    }
}

/// Replaces source address and port, and updates the checksums.
#[inline(always)]
fn rewrite(bytes: &mut [u8], end: End) {
    let old = (be32(bytes, 26), be16(bytes, 34));
    put32(bytes, 26, end.address);
    put16(bytes, 34, end.port);
    let checksum = corrected32(be16(bytes, 24), old.0, end.address);
    put16(bytes, 24, checksum);
    let change =
        u64::from(!old.0) + u64::from(end.address) + u64::from(!old.1) + u64::from(end.port);
    let corrected = |checksum: u16| !fold(u64::from(!checksum) + change);
    if bytes[23] == TCP {
        let checksum = corrected(be16(bytes, 50));
        put16(bytes, 50, checksum);
    } else if be16(bytes, 40) != 0 {
        let checksum = match corrected(be16(bytes, 40)) {
            0 => 0xffff,
            checksum => checksum,
        };
        put16(bytes, 40, checksum);
    }
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

/// The server half for packets that end known flows: finds the mapping, and lets it end soon.
struct ServerLoop {
    response: ResponseFields,
    protocol: BitField,
    address: BitField,
    port: BitField,
    side: BitField,
    new_address: BitField,
    new_port: BitField,
    is_known: BitField,
    request: [BitField; 5],
    answer_address: BitField,
    answer_port: BitField,
    /// Number of bytes before the packet's own IPv4 header, but for Ethernet.
    added: usize,
    /// The action `translate`.
    action: u32,
    table: Arc<LearningTable>,
}

impl ServerLoop {
    #[inline(always)]
    fn answer(&self, bytes: &mut [u8], now: Nanos) -> bool {
        if !self.response.is_request(bytes) {
            return false;
        }
        let key = [self.protocol, self.address, self.port].map(|field| field.get(bytes));
        let mut end = [0; 2];
        // The table is applied, and then the handler finds the entry again.
        let Some(hit) = self.table.find(&key, &mut end) else {
            return false;
        };
        self.table.restart_timer(&hit, now.0);
        if self.table.find(&key, &mut end).is_none() {
            return false;
        }
        let flags = bytes[self.added + 47];
        if flags != 0 && self.table.remove(&key).unwrap_or(false) {
            let _ = self.table.insert(Learn {
                key: &key,
                action: self.action,
                params: &end,
                idle_timeout_ns: Some(match flags {
                    0 => OPEN_NS,
                    _ => ENDING_NS,
                }),
                now_ns: now.0,
            });
        }
        let side = self.side.get(bytes);
        let values = [key[0], key[1], key[2], side, flags.into()];
        for (field, value) in self.request.iter().zip(values) {
            field.put(bytes, value);
        }
        self.new_address.put(bytes, end[0]);
        self.new_port.put(bytes, end[1]);
        self.is_known.put(bytes, 1);
        self.answer_address.put(bytes, end[0]);
        self.answer_port.put(bytes, end[1]);
        self.response.answer(bytes);
        true
    }
}

impl Forward for ServerLoop {
    fn forward(&mut self, frames: &mut [Frame], now: Nanos, out: &mut SentFrames) {
        for frame in frames {
            if self.answer(frame.bytes_mut(), now) {
                out.take(PortId(0), frame);
            }
        }
        // The control side takes the changes of each burst.
        self.table.take_changes();
    }

    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }
}
