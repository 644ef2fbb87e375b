//! Telemetry reports of one packet with an INT stack of five hops, as a sink sends them, and a loop
//! file that takes them.

use std::net::Ipv4Addr;

use telemetry::{
    Associations, EmbeddedInt, Exporter, Hop, HopTime, Instructions, IntContents, IntNodeId,
    IntStack, NextProtocol, PacketKind, ReportEvent, ReportHeader, ReportVersion, ReportWriter,
};

/// A loop file that takes these reports: path latencies of one switch, and detours. Settings of its
/// permission can follow, and a store.
pub const LOOPS: &str = r#"
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
reflex = "detour"
[[reflex]]
name = "detour"
element = "leaf1"
table = "t"
key = ["ip.src", "ip.dst", "ip.protocol", "l4.src", "l4.dst"]
action = "via"
ports = [1, 2]
rate = "1000000/s"
entries = 4096
"#;

/// Address of the exporter.
pub const FROM: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 9);

/// Node of the exporter.
pub const EXPORTER: u32 = 9;

/// Returns the payload of Report 2.0 with this sequence number. The flow is a source port, and
/// `latency` is the time in each hop in nanoseconds.
///
/// # Errors
/// The writer's error as text: a defect.
pub fn five_hops(sequence: u32, flow: u16, latency: u32) -> Result<Vec<u8>, String> {
    let mut entries = Vec::new();
    for hop in 1..=5u32 {
        entries.extend(hop.to_be_bytes());
        entries.extend([0, 1, 0, 2]);
        entries.extend(latency.to_be_bytes());
    }
    let stack = IntStack::new(Instructions(0xe000), 3, &entries);
    let stack = stack.map_err(|error| error.to_string())?;
    let mut packet = vec![0x45, 0x17 << 2, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend([10, 0, 1, 1, 10, 0, 2, 1]);
    packet.extend(flow.to_be_bytes());
    packet.extend([19, 136, 0, 0, 0, 0]);
    let int = EmbeddedInt {
        next: NextProtocol::Payload { dscp: 0 },
        contents: IntContents::Md(stack),
    };
    int.write(&mut packet).map_err(|error| error.to_string())?;
    let header = ReportHeader {
        version: ReportVersion::V2,
        exporter: Exporter {
            node: Some(IntNodeId(EXPORTER)),
            hardware: 0,
        },
        sequence,
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
