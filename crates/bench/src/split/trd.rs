//! `trd`: connections with indices. Its packets send the same segment again and again.

use std::sync::Arc;

use exec::Configuration;
use ir::Program;
use packet::{Frame, Nanos, PortId};
use passes::split::SplitProgram;
use table::LearningTable;

use super::SplitFunction;
use super::fields::{BitField, ResponseFields};
use crate::Hand;
use crate::forward::{Forward, Reading, SentFrames};
use crate::names::{Key, TableName};
use crate::setup::{ItemSink, SetupError};
use crate::wire::{Ipv4, TCP, be16, corrected32, put16, put32};
use crate::workloads::fill::Fill;

/// Number of connections.
const FLOWS: u32 = 10_000;
/// Number of connections with an index: a server has a part of the pool, for at least all flows.
const INDICES: &str = "65536";
const TCP_SYN: u8 = 0x02;
const TCP_ACK: u8 = 0x10;
/// Sequence number of a SYN.
const FIRST: u32 = 1000;

/// The function.
pub(super) struct Trd;

fn ends(flow: u32) -> (u32, u16) {
    (0x0a00_0000 | flow >> 6, 1024 + (flow & 63) as u16)
}

const SERVER: (u32, u16) = (0xc633_6409, 443);

fn write(flow: u32, bytes: usize, flags: u8, frame: &mut Frame) {
    let (address, port) = ends(flow);
    let sequence = FIRST + u32::from(flags & TCP_SYN == 0);
    let packet = Ipv4 {
        dst_mac: 0x0200_0000_0002,
        src_mac: 0x0200_0000_0001,
        src: address,
        dst: SERVER.0,
        ttl: 64,
        protocol: TCP,
        src_port: port,
        dst_port: SERVER.1,
        len: bytes,
    };
    frame.ingress = PortId(0);
    packet.write(frame);
    let bytes = frame.bytes_mut();
    put32(bytes, 38, sequence);
    bytes[47] = flags;
    let checksum = corrected32(be16(bytes, 50), 0, sequence);
    put16(bytes, 50, corrected32(checksum, 0, flags.into()));
}

impl SplitFunction for Trd {
    fn name(&self) -> &'static str {
        "trd"
    }

    fn file(&self) -> &'static str {
        "trd.p4c"
    }

    fn source(&self) -> &'static str {
        include_str!("../../../../examples/split/trd.p4c")
    }

    fn defines(&self) -> Vec<(String, String)> {
        vec![("INDICES".to_owned(), INDICES.to_owned())]
    }

    fn flows(&self) -> u32 {
        FLOWS
    }

    fn min_bytes(&self) -> usize {
        64
    }

    fn setup(&self, program: &Program, setup: &mut ItemSink<'_>) -> Result<(), SetupError> {
        let mut fill = Fill { program, setup };
        let wire = fill.table("wire", "to_port")?;
        fill.add(&wire, &[Key::Is(0)], &[1])?;
        fill.add(&wire, &[Key::Is(1)], &[0])
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
        let index = fill.table("flow_index", "tracked")?;
        for flow in 0..flows {
            let (address, port) = ends(flow);
            let key = [
                address.into(),
                SERVER.0.into(),
                port.into(),
                SERVER.1.into(),
            ];
            // Index, generation, phase (open), since, initiator (low), initial numbers.
            let args = [flow.into(), 1, 1, 0, 0, FIRST.into(), 0];
            fill.add(&index, &key.map(Key::Is), &args)?;
        }
        Ok(())
    }

    fn packet(&self, flow: u32, bytes: usize, frame: &mut Frame) {
        write(flow, bytes, TCP_ACK, frame);
    }

    fn first(&self, flow: u32, frame: &mut Frame) -> bool {
        write(flow, self.min_bytes(), TCP_SYN, frame);
        true
    }

    fn request(&self, flow: u32, frame: &mut Frame) {
        write(flow, self.min_bytes(), TCP_SYN, frame);
    }

    fn hand(&self, _: &mut Configuration) -> Result<Option<Hand>, SetupError> {
        Ok(None)
    }

    fn server_hand(
        &self,
        program: &SplitProgram,
        configuration: &mut Configuration,
    ) -> Result<Option<Hand>, SetupError> {
        let layout = &program.plan.frame;
        let parameter = |name| BitField::parameter(layout, name);
        let table = TableName::find(&program.server, "flow_index")?;
        let learned = configuration.learned.get(table.id).and_then(Option::clone);
        let table = learned.ok_or_else(|| SetupError::Entry("flow_index has no handler".into()))?;
        Ok(Some(Box::new(ServerLoop {
            response: ResponseFields::new(program, 2),
            key: [
                BitField::key(layout, 0, 32),
                BitField::key(layout, 32, 32),
                BitField::key(layout, 64, 16),
                BitField::key(layout, 80, 16),
            ],
            copies: [(
                parameter("TrdIngress.segment.time")?,
                parameter("request.segment.time")?,
            )],
            key_copies: [
                parameter("request.low_address")?,
                parameter("request.high_address")?,
                parameter("request.low_port")?,
                parameter("request.high_port")?,
            ],
            start: parameter("request.segment.start")?,
            flags: parameter("request.segment.flags")?,
            set: [
                (parameter("TrdIngress.index")?, Value::Index),
                (parameter("TrdIngress.generation")?, Value::Generation),
                (parameter("TrdIngress.has_index")?, Value::One),
                // The client has the lower address.
                (parameter("request.side")?, Value::Zero),
                (parameter("request.segment.length")?, Value::Length),
                (parameter("response.has_index")?, Value::One),
                (parameter("response.index")?, Value::Index),
                (parameter("response.generation")?, Value::Generation),
            ],
            added: layout.added_bytes() as usize,
            table,
        })))
    }
}

#[derive(Clone, Copy)]
enum Value {
    Index,
    Generation,
    Zero,
    One,
    /// Length of the segment in sequence numbers: its bytes and its SYN.
    Length,
}

/// The server half for repeated SYNs of known connections: finds the index.
struct ServerLoop {
    response: ResponseFields,
    key: [BitField; 4],
    key_copies: [BitField; 4],
    copies: [(BitField, BitField); 1],
    start: BitField,
    flags: BitField,
    set: [(BitField, Value); 8],
    added: usize,
    table: Arc<LearningTable>,
}

impl ServerLoop {
    #[inline(always)]
    fn answer(&self, bytes: &mut [u8], now: Nanos) -> bool {
        if !self.response.is_request(bytes) {
            return false;
        }
        let key = self.key.map(|field| field.get(bytes));
        let mut params = [0; 7];
        // The table is applied, and then the handler finds the entry again.
        let Some(hit) = self.table.find(&key, &mut params) else {
            return false;
        };
        self.table.restart_timer(&hit, now.0);
        if self.table.find(&key, &mut params).is_none() {
            return false;
        }
        let sequence = u64::from(crate::wire::be32(bytes, self.added + 38));
        let flags = u64::from(bytes[self.added + 47]);
        let total = [bytes[self.added + 16], bytes[self.added + 17]];
        let length = u64::from(u16::from_be_bytes(total)).saturating_sub(40) + 1;
        for (field, value) in self.key_copies.iter().zip(key) {
            field.put(bytes, value);
        }
        for (from, to) in &self.copies {
            let value = from.get(bytes);
            to.put(bytes, value);
        }
        self.start.put(bytes, sequence);
        self.flags.put(bytes, flags);
        for (field, value) in &self.set {
            let value = match value {
                Value::Index => params[0],
                Value::Generation => params[1],
                Value::Zero => 0,
                Value::One => 1,
                Value::Length => length,
            };
            field.put(bytes, value);
        }
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
    }

    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }
}
