//! Events written as Report 2.0 and as JSON.

use proptest::prelude::*;
use telemetry::{
    Associations, DropRecord, Exporter, Hop, HopTime, Inner, IntDomain, IntMarker, IntNodeId,
    Interfaces, MAX_REPORT, MainContents, Occupancy, PacketKind, ReportEvent, ReportHeader,
    ReportVersion, ReportView, ReportWriter, TelemetryReport, WriteError, write_json_line,
};

use crate::fields::{ipv4, join, pack, udp};

const HEADER: ReportHeader = ReportHeader {
    version: ReportVersion::V2,
    exporter: Exporter {
        node: Some(IntNodeId(7)),
        hardware: 5,
    },
    sequence: 9,
};

const NONE: Associations = Associations {
    dropped: false,
    congested: false,
    tracked: false,
    intermediate: false,
};

fn event<'a>(
    hop: Hop,
    packet: Option<(PacketKind, &'a [u8])>,
    max_packet: usize,
) -> ReportEvent<'a> {
    ReportEvent {
        associations: NONE,
        hop,
        drop: None,
        packet,
        max_packet,
    }
}

#[test]
fn an_event_has_the_bits_of_its_values() {
    let packet = ipv4(0, 17, 1, 2);
    let event = ReportEvent {
        associations: Associations {
            dropped: true,
            ..NONE
        },
        drop: Some(DropRecord {
            queue: 2,
            reason: 71,
        }),
        ..event(
            Hop {
                node: Some(IntNodeId(7)),
                interfaces: Some(Interfaces {
                    ingress: 1,
                    egress: 2,
                }),
                ingress_time: Some(HopTime::Full(0x1_0000_0000)),
                ..Hop::default()
            },
            Some((PacketKind::Ipv4, &packet)),
            18,
        )
    };
    let mut out = vec![0xaa];
    ReportWriter::new(&HEADER, &mut out).event(&event).unwrap();
    let expected = join(&[
        &[0xaa],
        &pack(&[(4, 2), (6, 5), (22, 9), (32, 7)]),
        // 18 bytes of the packet are four whole words.
        &pack(&[(4, 1), (4, 4), (8, 2 + 4 + 4), (8, 4), (1, 1), (7, 0)]),
        &pack(&[(16, 0x4801), (16, 0), (16, 0), (16, 0)]),
        &pack(&[
            (16, 1),
            (16, 2),
            (64, 0x1_0000_0000),
            (8, 2),
            (8, 71),
            (16, 0),
        ]),
        &packet[..16],
    ]);
    assert_eq!(out, expected);
}

#[test]
fn a_datagram_is_full_at_its_limit_and_after_a_report_to_its_end() {
    let bytes = vec![1; 70_000];
    let mut out = Vec::new();
    let mut writer = ReportWriter::new(&HEADER, &mut out);
    let long = |length| event(Hop::default(), Some((PacketKind::Ethernet, &bytes)), length);
    writer.event(&long(400)).unwrap();
    assert_eq!(writer.event(&long(70_000)), Err(WriteError::TooLong));
    let before = writer.length();
    // Fixed part and packet: 2 + 252 words are the largest length that a number states.
    writer.event(&long(4 * 252)).unwrap();
    assert_eq!(writer.length() - before, 4 * 255);
    writer.event(&long(4 * 253)).unwrap();
    assert_eq!(writer.event(&long(0)), Err(WriteError::AfterLast));
    let report = TelemetryReport::parse(&out).unwrap();
    let lengths: Vec<usize> = report
        .individuals()
        .map(|report| report.packet_bytes().unwrap().1.len())
        .collect();
    assert_eq!(lengths, [400, 4 * 252, 4 * 253]);
    assert!(out.len() <= MAX_REPORT);
}

/// A report of an older version becomes one of Report 2.0 with the same values.
#[test]
fn older_reports_are_translated() {
    let payload = join(&[
        &pack(&[
            (4, 1),
            (4, 6),
            (3, 1),
            (6, 0b11_0000),
            (6, 0),
            (3, 0b010),
            (6, 5),
            (32, 7),
            (32, 9),
            (32, 5000),
            (16, 11),
            (16, 12),
            (32, 700),
        ]),
        &ipv4(0, 17, 1, 2),
    ]);
    let report = TelemetryReport::parse(&payload).unwrap();
    let individual = report.individuals().next().unwrap();
    let mut out = Vec::new();
    ReportWriter::new(&report.header, &mut out)
        .individual(&individual)
        .unwrap();
    let translated = TelemetryReport::parse(&out).unwrap();
    assert_eq!(translated.header, HEADER);
    let other = translated.individuals().next().unwrap();
    assert_eq!(other.associations, individual.associations);
    assert_eq!(other.packet_bytes(), individual.packet_bytes());
    assert_eq!(
        other.local_hop(),
        Some(Hop {
            ingress_time: Some(HopTime::Full(5000)),
            ..individual.local_hop().unwrap()
        })
    );
}

#[test]
fn a_line_of_json_has_what_is_known() {
    let packet = join(&[
        &ipv4(0x17, 17, 0x0a00_0101, 0x0a00_0201),
        &udp(1000, 5000),
        &pack(&[(8, 0x10), (8, 5), (16, 0)]),
        &pack(&[
            (4, 2),
            (1, 0),
            (1, 1),
            (1, 1),
            (12, 0),
            (5, 2),
            (8, 6),
            (16, 0xa000),
            (48, 0),
        ]),
        &pack(&[(32, 6), (32, 700)]),
    ]);
    let hop = Hop {
        latency: Some(300),
        interfaces: Some(Interfaces {
            ingress: 1,
            egress: 2,
        }),
        ..Hop::default()
    };
    let event = ReportEvent {
        associations: Associations {
            tracked: true,
            ..NONE
        },
        drop: Some(DropRecord {
            queue: 2,
            reason: 71,
        }),
        ..event(hop, Some((PacketKind::Ipv4, &packet)), 200)
    };
    let mut out = Vec::new();
    ReportWriter::new(&HEADER, &mut out).event(&event).unwrap();
    let report = TelemetryReport::parse(&out).unwrap();
    let individual = report.individuals().next().unwrap();
    let line = |domain: &IntDomain| {
        let view = ReportView::new(report.header.exporter, &individual, domain);
        let mut line = String::new();
        write_json_line(&report.header, &individual, &view, &mut line);
        line
    };
    let start = "{\"version\":\"2.0\",\"node\":7,\"hardware\":5,\"sequence\":9,\
        \"dropped\":false,\"congested\":false,\"tracked\":true,\"intermediate\":false,\
        \"drop\":{\"queue\":2,\"reason\":71},\
        \"flow\":{\"source\":\"10.0.1.1\",\"destination\":\"10.0.2.1\",\"protocol\":17,\
        \"source_port\":1000,\"destination_port\":5000},";
    let own = "{\"node\":7,\"ingress_interface\":1,\"egress_interface\":2,\"latency\":300}";
    assert_eq!(
        line(&IntDomain::new(IntMarker::None)),
        format!("{start}\"scope\":\"hop\",\"hops\":[{own}]}}\n")
    );
    assert_eq!(
        line(&IntDomain::new(IntMarker::Dscp {
            value: 0x17,
            mask: 0x3f
        })),
        format!(
            "{start}\"scope\":\"path\",\"sink_hop\":\"report\",\
             \"missing\":[\"hops_exceeded\",\"mtu_exceeded\"],\
             \"hops\":[{{\"node\":6,\"latency\":700}},{own}]}}\n"
        )
    );
}

fn hops() -> impl Strategy<Value = Hop> {
    let interfaces = proptest::option::of((any::<u16>(), any::<u16>()));
    let logical = proptest::option::of((any::<u32>(), any::<u32>()));
    let word = || proptest::option::of(0..u32::MAX);
    let time = || proptest::option::of(0..u64::MAX);
    let level = || proptest::option::of((any::<u8>(), 0u32..1 << 24));
    (
        (interfaces, logical, word(), word()),
        (time(), time(), level(), level()),
    )
        .prop_map(
            |((interfaces, logical, latency, tx), (ingress, egress, queue, buffer))| {
                let occupancy = |(id, level)| Occupancy { id, level };
                Hop {
                    node: Some(IntNodeId(7)),
                    interfaces: interfaces
                        .filter(|of| *of != (u16::MAX, u16::MAX))
                        .map(|(ingress, egress)| Interfaces { ingress, egress }),
                    latency,
                    queue: queue.filter(|of| *of != (0xff, 0xff_ffff)).map(occupancy),
                    ingress_time: ingress.map(HopTime::Full),
                    egress_time: egress.map(HopTime::Full),
                    logical_interfaces: logical
                        .filter(|of| *of != (u32::MAX, u32::MAX))
                        .map(|(ingress, egress)| Interfaces { ingress, egress }),
                    tx_utilisation: tx,
                    buffer: buffer.filter(|of| *of != (0xff, 0xff_ffff)).map(occupancy),
                }
            },
        )
}

proptest! {
    #[test]
    fn events_are_read_as_they_were_written(
        hops in proptest::collection::vec((hops(), proptest::option::of(any::<[u8; 2]>())), 1..6),
        packet in proptest::collection::vec(any::<u8>(), 0..40),
        flags in any::<[bool; 4]>(),
    ) {
        let [dropped, congested, tracked, intermediate] = flags;
        let associations = Associations { dropped, congested, tracked, intermediate };
        let mut out = Vec::new();
        let mut writer = ReportWriter::new(&HEADER, &mut out);
        for (hop, drop) in &hops {
            writer.event(&ReportEvent {
                associations,
                hop: *hop,
                drop: drop.map(|[queue, reason]| DropRecord { queue, reason }),
                packet: (!packet.is_empty()).then_some((PacketKind::Ethernet, &packet)),
                max_packet: 64,
            }).unwrap();
        }
        let report = TelemetryReport::parse(&out).unwrap();
        prop_assert_eq!(report.header, HEADER);
        let read: Vec<_> = report.individuals().collect();
        prop_assert_eq!(read.len(), hops.len());
        for (individual, (hop, drop)) in read.iter().zip(&hops) {
            prop_assert_eq!(individual.associations, associations);
            let MainContents::Metadata(local) = individual.main else {
                panic!("{individual:?}")
            };
            let drop = drop.map(|[queue, reason]| DropRecord { queue, reason });
            prop_assert_eq!(local.read(), (*hop, drop));
            match individual.inner {
                Inner::None => prop_assert!(packet.is_empty()),
                Inner::Packet(PacketKind::Ethernet, bytes) => {
                    prop_assert_eq!(bytes, &packet[..packet.len() / 4 * 4]);
                }
                other => panic!("{other:?}"),
            }
        }
        let mut again = Vec::new();
        report.write(&mut again).unwrap();
        prop_assert_eq!(again, out);
    }
}
