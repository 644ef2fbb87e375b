//! Reports of packets with five hops, as a sink sends them, and the loop file that takes them.

use std::net::Ipv4Addr;

use telemetry::{
    Associations, EmbeddedInt, Exporter, Hop, HopTime, Instructions, IntContents, IntNodeId,
    IntStack, NextProtocol, PacketKind, ReportEvent, ReportHeader, ReportVersion, ReportWriter,
};

/// The loop file. `{flows}` stands for a number of flows.
pub(super) const LOOPS: &str = r#"
[[element]]
name = "leaf1"
delay = "0 ns"
[[source]]
listen = "host:collector"
from = [{ node = 9, address = "10.9.0.9" }]
int_dscp = 23
[[monitor]]
name = "slow"
kind = "path_latency"
match = ["ip.dst 10.0.2.0/24"]
window = 10
above = "1 us"
flows = {flows}
reflex = "detour"
[[reflex]]
name = "detour"
element = "leaf1"
table = "I.detour"
key = ["ip.src", "ip.dst", "ip.protocol", "l4.src", "l4.dst"]
action = "I.via"
ports = [1, 2]
rate = "1000000000/s"
entries = 16384
"#;

/// Address of the sink.
pub(super) const FROM: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 9);

/// Instruction bits: node, ports and latency of each hop.
const INSTRUCTIONS: u16 = 0xe000;

/// Returns the payload of Report 2.0 about a packet of a flow, with five hops of this latency in
/// nanoseconds.
///
/// # Errors
/// The writer's error: a defect.
pub(super) fn five_hops(flow: u32, latency: u32) -> Result<Vec<u8>, String> {
    let mut entries = Vec::new();
    for hop in 1..=5u32 {
        entries.extend(hop.to_be_bytes());
        entries.extend([0, 1, 0, 2]);
        entries.extend(latency.to_be_bytes());
    }
    let stack = IntStack::new(Instructions(INSTRUCTIONS), 3, &entries);
    let stack = stack.map_err(|error| error.to_string())?;
    let mut packet = vec![0x45, 23 << 2, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend([10, (flow >> 16) as u8, 1, 1, 10, 0, 2, 1]);
    packet.extend((flow as u16).to_be_bytes());
    packet.extend([19, 136, 0, 0, 0, 0]);
    let int = EmbeddedInt {
        next: NextProtocol::Payload { dscp: 0 },
        contents: IntContents::Md(stack),
    };
    int.write(&mut packet).map_err(|error| error.to_string())?;
    let header = ReportHeader {
        version: ReportVersion::V2,
        exporter: Exporter {
            node: Some(IntNodeId(9)),
            hardware: 0,
        },
        sequence: 0,
    };
    let event = ReportEvent {
        associations: Associations {
            tracked: true,
            ..Associations::default()
        },
        hop: Hop {
            ingress_time: Some(HopTime::Full(1)),
            ..Hop::default()
        },
        drop: None,
        packet: Some((PacketKind::Ipv4, &packet)),
        max_packet: 256,
    };
    let mut out = Vec::new();
    let mut writer = ReportWriter::new(&header, &mut out);
    writer.event(&event).map_err(|error| error.to_string())?;
    Ok(out)
}

/// Sets the sequence number of a report.
pub(super) fn number(payload: &mut [u8], sequence: u32) {
    if let Some(word) = payload.first_chunk_mut::<4>() {
        *word = (2 << 28 | sequence & 0x3f_ffff).to_be_bytes();
    }
}
