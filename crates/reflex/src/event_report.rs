//! Decisions as telemetry reports, for collectors that read them.

use std::net::IpAddr;

use telemetry::{
    Associations, Exporter, FlowKey, Hop, IntNodeId, Occupancy, PacketKind, ReportEvent,
    ReportHeader, ReportVersion, ReportWriter,
};

use crate::decision::{Decision, Measured, Subject};

/// Writes a decision as a datagram of Report 2.0 of a node, with one individual report: the
/// headers of a packet of the flow that it is about, its latency, or the queue of a burst in bytes.
/// `out` has this datagram alone afterwards.
pub fn write_event_report(out: &mut Vec<u8>, node: IntNodeId, sequence: u32, decision: &Decision) {
    out.clear();
    let mut hop = Hop {
        node: Some(node),
        ..Hop::default()
    };
    let mut associations = Associations::default();
    let word = |value: u64| u32::try_from(value).ok().filter(|it| *it < u32::MAX);
    match decision.measured {
        Measured::Latency { latency, .. } => hop.latency = word(latency.0),
        Measured::Queueing { delay, .. } => {
            hop.latency = word(delay.0);
            associations.congested = true;
        }
        Measured::Burst { bytes, .. } => {
            // The field has 24 bits.
            let level = bytes.min(0x00ff_fffe) as u32;
            hop.queue = Some(Occupancy { id: 0, level });
            associations.congested = true;
        }
        _ => {}
    }
    let packet = match decision.subject {
        Subject::Flow(flow) => Some(headers(&flow)),
        Subject::Host(host) => Some(headers(&FlowKey {
            source: host,
            destination: match host {
                IpAddr::V4(_) => IpAddr::from([0; 4]),
                IpAddr::V6(_) => IpAddr::from([0; 16]),
            },
            protocol: 0,
            ports: None,
        })),
        Subject::Tenant => None,
    };
    associations.tracked = packet.is_some();
    let header = ReportHeader {
        version: ReportVersion::V2,
        exporter: Exporter {
            node: Some(node),
            hardware: 0,
        },
        sequence,
    };
    let event = ReportEvent {
        associations,
        hop,
        drop: None,
        packet: packet.as_ref().map(|(kind, bytes)| (*kind, &bytes[..])),
        max_packet: 64,
    };
    // One event is shorter than the longest report.
    let written = ReportWriter::new(&header, out).event(&event);
    debug_assert!(written.is_ok());
}

/// Returns the headers of a packet of a flow: IP, and the ports if there are some.
fn headers(flow: &FlowKey) -> (PacketKind, Vec<u8>) {
    let ports = flow.ports.map(|ports| {
        let [source, destination] = [ports.source, ports.destination].map(u16::to_be_bytes);
        [source, destination].concat()
    });
    // UDP's length and checksum follow the ports.
    let transport = ports.map_or(Vec::new(), |ports| [&ports[..], &[0, 8, 0, 0]].concat());
    let length = transport.len() as u16;
    match (flow.source, flow.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut bytes = vec![0x45, 0];
            bytes.extend((20 + length).to_be_bytes());
            bytes.extend([0, 0, 0, 0, 64, flow.protocol, 0, 0]);
            bytes.extend(source.octets());
            bytes.extend(destination.octets());
            let checksum = support::checksum::internet_checksum(&bytes);
            bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
            bytes.extend(transport);
            (PacketKind::Ipv4, bytes)
        }
        (source, destination) => {
            let octets = |address: IpAddr| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            let mut bytes = vec![0x60, 0, 0, 0];
            bytes.extend(length.to_be_bytes());
            bytes.extend([flow.protocol, 64]);
            bytes.extend(octets(source));
            bytes.extend(octets(destination));
            bytes.extend(transport);
            (PacketKind::Ipv6, bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use packet::Nanos;
    use telemetry::{IntDomain, IntMarker, L4Ports, ReportView, TelemetryReport};

    use super::*;
    use crate::decision::{DecisionId, Outcome, PathNodes};
    use crate::loops::MonitorIndex;

    #[test]
    fn a_report_of_a_decision_has_its_flow_and_what_was_measured() {
        let flow = |source: &str, destination: &str| FlowKey {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            protocol: 17,
            ports: Some(L4Ports {
                source: 1024,
                destination: 6000,
            }),
        };
        let mut out = vec![1, 2, 3];
        for (number, flow) in [
            flow("10.0.1.1", "10.0.2.1"),
            flow("2001:db8::1", "2001:db8::2"),
        ]
        .into_iter()
        .enumerate()
        {
            let decision = Decision {
                id: DecisionId(1),
                at: Nanos(5),
                monitor: MonitorIndex(0),
                subject: Subject::Flow(flow),
                path: PathNodes::default(),
                measured: Measured::Latency {
                    latency: Nanos(50_000),
                    average: Nanos(1_000),
                },
                outcome: Outcome::Reported,
            };
            write_event_report(&mut out, IntNodeId(99), number as u32, &decision);
            let report = TelemetryReport::parse(&out).expect("it is a report");
            assert_eq!(report.header.exporter.node, Some(IntNodeId(99)));
            assert_eq!(report.header.sequence, number as u32);
            let individual = report.individuals().next().expect("it has one");
            let domain = IntDomain::new(IntMarker::None);
            let view = ReportView::new(report.header.exporter, &individual, &domain);
            assert_eq!(view.flow, Some(flow));
            assert_eq!(individual.local_hop().unwrap().latency, Some(50_000));
            assert!(individual.associations.tracked);
        }
    }
}
