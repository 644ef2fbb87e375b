//! Report 1.0 and 0.5 with INT 1.0 and 0.5 in them, field by field.

use telemetry::{
    DropRecord, EmbeddedInt, Exporter, Hop, HopTime, IntContents, IntDomain, IntError, IntMarker,
    IntNodeId, Interfaces, MetadataLayout, NextProtocol, Occupancy, PacketKind, ReportFault,
    ReportVersion, ReportView, ReportedHops, SinkHop, TelemetryReport,
};

use crate::fields::{ipv4, join, pack, tcp};

const BY_DSCP: IntDomain = IntDomain::new(IntMarker::Dscp {
    value: 0x17,
    mask: 0x3f,
});

/// Fixed header of Report 1.0 (section 3.2), with the bits D, Q, F.
fn report_1(length: u64, protocol: u64, bits: u64, flags: [u64; 3]) -> Vec<u8> {
    pack(&[
        (4, 1),
        (4, length),
        (3, protocol),
        (6, bits),
        (6, 0),
        (1, flags[0]),
        (1, flags[1]),
        (1, flags[2]),
        (6, 33),
        (32, 7),
        (32, 0x8000_0001),
        (32, 5000),
    ])
}

/// Fixed header of Report 0.5 (section 3.2.1).
fn report_05(protocol: u64, flags: [u64; 3]) -> Vec<u8> {
    pack(&[
        (4, 0),
        (4, protocol),
        (1, flags[0]),
        (1, flags[1]),
        (1, flags[2]),
        (15, 0),
        (6, 33),
        (32, 0x8000_0001),
        (32, 5000),
    ])
}

/// The packet of INT 1.0, section 5.1. The figure states a shim length of 8, as that of INT 0.5
/// with its tail header; by section 4.7 it is 7: the fixed headers of 12 bytes and the stack.
fn int_1_packet() -> Vec<u8> {
    join(&[
        &ipv4(0x17, 6, 1, 2),
        &tcp(1000, 80),
        &pack(&[(8, 1), (8, 0), (8, 7), (6, 5), (2, 0)]),
        &pack(&[
            (4, 1),
            (2, 0),
            (1, 0),
            (1, 0),
            (1, 0),
            (10, 0),
            (5, 2),
            (8, 6),
            (16, 0x9000),
            (16, 0),
        ]),
        &pack(&[(32, 2), (8, 1), (24, 222), (32, 1), (8, 1), (24, 111)]),
        b"payload",
    ])
}

fn hop(node: u32, level: u32) -> Hop {
    Hop {
        node: Some(IntNodeId(node)),
        queue: Some(Occupancy { id: 1, level }),
        ..Hop::default()
    }
}

fn view<'a>(report: &TelemetryReport<'a>) -> ReportView<'a> {
    let individual = report.individuals().next().unwrap();
    assert_eq!(report.individuals().count(), 1);
    ReportView::new(report.header.exporter, &individual, &BY_DSCP)
}

fn written(report: &TelemetryReport<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    report.write(&mut out).unwrap();
    out
}

#[test]
fn report_1_has_all_metadata_in_order() {
    let packet = int_1_packet();
    let payload = join(&[
        &report_1(10, 1, 0b11_1111, [1, 0, 1]),
        &pack(&[
            (16, 11),
            (16, 12),
            (32, 700),
            (8, 3),
            (24, 333),
            (32, 5700),
            (8, 4),
            (8, 71),
            (16, 0),
            (32, 55),
        ]),
        &packet,
    ]);
    let report = TelemetryReport::parse(&payload).unwrap();
    assert_eq!(report.header.version, ReportVersion::V1);
    assert_eq!(
        report.header.exporter,
        Exporter {
            node: Some(IntNodeId(7)),
            hardware: 33
        }
    );
    assert_eq!(report.header.sequence, 0x8000_0001);
    let individual = report.individuals().next().unwrap();
    assert!(individual.associations.dropped && individual.associations.tracked);
    assert!(!individual.associations.congested);
    assert_eq!(
        individual.packet_bytes(),
        Some((PacketKind::Ipv4, &packet[..]))
    );
    assert_eq!(
        individual.local_hop(),
        Some(Hop {
            node: Some(IntNodeId(7)),
            interfaces: Some(Interfaces {
                ingress: 11,
                egress: 12
            }),
            latency: Some(700),
            queue: Some(Occupancy { id: 3, level: 333 }),
            ingress_time: Some(HopTime::Low(5000)),
            egress_time: Some(HopTime::Low(5700)),
            tx_utilisation: Some(55),
            ..Hop::default()
        })
    );
    let drop = DropRecord {
        queue: 4,
        reason: 71,
    };
    assert_eq!(individual.drop_record(), Some(drop));
    let view = view(&report);
    let ReportedHops::Path(path) = view.hops else {
        panic!("{view:?}")
    };
    assert_eq!(path.hops().count(), 3);
    assert_eq!(path.stack().layout(), MetadataLayout::Int1);
    assert_eq!(path.sink_hop(), SinkHop::InReport);
    assert_eq!(written(&report), payload);
}

/// Without metadata bits the fixed header's time is no hop: the sink's hop is in the stack.
#[test]
fn report_1_without_metadata_has_the_sinks_hop_in_the_stack() {
    let mut payload = join(&[&report_1(4, 1, 0, [0, 1, 1]), &int_1_packet()]);
    // The newest entry is node 2.
    payload[4..8].copy_from_slice(&2u32.to_be_bytes());
    let report = TelemetryReport::parse(&payload).unwrap();
    assert_eq!(report.individuals().next().unwrap().local_hop(), None);
    let view = view(&report);
    let ReportedHops::Path(path) = view.hops else {
        panic!("{view:?}")
    };
    let hops: Vec<Hop> = path.hops().collect();
    assert_eq!(hops, [hop(1, 111), hop(2, 222)]);
    assert_eq!(path.sink_hop(), SinkHop::InStack);
    assert_eq!(written(&report), payload);
}

#[test]
fn report_05_has_a_drop_header_a_switch_local_header_or_none() {
    let frame = join(&[&[2; 12], &[8, 0], &ipv4(0, 6, 1, 2), &tcp(1000, 80)]);
    let local = pack(&[(32, 7), (16, 11), (16, 12), (8, 3), (24, 333), (32, 5700)]);
    let payload = join(&[&report_05(2, [0, 1, 0]), &local, &frame]);
    let report = TelemetryReport::parse(&payload).unwrap();
    assert_eq!(report.header.version, ReportVersion::V05);
    assert_eq!(
        report.header.exporter,
        Exporter {
            node: None,
            hardware: 33
        }
    );
    let individual = report.individuals().next().unwrap();
    let interfaces = Some(Interfaces {
        ingress: 11,
        egress: 12,
    });
    assert_eq!(
        individual.local_hop(),
        Some(Hop {
            node: Some(IntNodeId(7)),
            interfaces,
            queue: Some(Occupancy { id: 3, level: 333 }),
            ingress_time: Some(HopTime::Low(5000)),
            egress_time: Some(HopTime::Low(5700)),
            ..Hop::default()
        })
    );
    assert!(individual.associations.congested);
    assert_eq!(written(&report), payload);

    let drop = pack(&[(32, 7), (16, 11), (16, 12), (8, 3), (8, 71), (16, 0)]);
    let payload = join(&[&report_05(1, [1, 0, 0]), &drop, &frame]);
    let report = TelemetryReport::parse(&payload).unwrap();
    let individual = report.individuals().next().unwrap();
    let drop = DropRecord {
        queue: 3,
        reason: 71,
    };
    assert_eq!(individual.drop_record(), Some(drop));
    assert_eq!(individual.local_hop().unwrap().interfaces, interfaces);
    assert_eq!(written(&report), payload);

    let payload = join(&[&report_05(0, [0, 0, 1]), &frame]);
    let report = TelemetryReport::parse(&payload).unwrap();
    let individual = report.individuals().next().unwrap();
    assert_eq!(individual.local_hop(), None);
    assert_eq!(
        individual.packet_bytes(),
        Some((PacketKind::Ethernet, &frame[..]))
    );
    assert_eq!(written(&report), payload);
}

/// INT 0.5, section 5.4.1: the shim's length counts the shim and the tail.
#[test]
fn int_05_has_a_tail_header() {
    let int = |length: u64, total: u64| {
        join(&[
            &pack(&[(8, 1), (8, 0), (8, length), (8, 0)]),
            &pack(&[
                (4, 0),
                (2, 0),
                (1, 0),
                (1, 1),
                (3, 0),
                (5, 3),
                (8, 16),
                (8, total),
                (16, 0x8e00),
                (16, 0),
            ]),
            // Node, times of 4 bytes; bit 6 is the congestion status, of one word.
            &pack(&[(32, 2), (32, 1000), (32, 1700), (32, 9)])[..12],
        ])
    };
    // Four instructions and a count of three.
    let bytes = join(&[&int(8, 1), &[9; 4], &[6, 0, 22, 0], b"rest"]);
    let count = IntError::StackLength {
        words: 4,
        hop_words: 3,
    };
    assert_eq!(EmbeddedInt::parse(&bytes, None), Err(count));
    let mut bytes = bytes;
    bytes[5] = 4;
    let (int, rest) = EmbeddedInt::parse(&bytes, None).unwrap();
    assert_eq!(rest, b"rest");
    assert_eq!(int.next, NextProtocol::UdpPayload { port: 22 });
    let IntContents::Md(stack) = int.contents else {
        panic!("{int:?}")
    };
    assert_eq!(stack.layout(), MetadataLayout::Int05);
    assert!(stack.hops_exceeded && !stack.discard);
    assert_eq!(stack.remaining_hops, 15);
    let expected = Hop {
        node: Some(IntNodeId(2)),
        ingress_time: Some(HopTime::Low(1000)),
        egress_time: Some(HopTime::Low(1700)),
        ..Hop::default()
    };
    assert_eq!(stack.hops().collect::<Vec<_>>(), [expected]);
}

#[test]
fn int_1_has_its_flags_and_times_of_four_bytes() {
    let bytes = join(&[
        &pack(&[(8, 1), (8, 0), (8, 9), (6, 5), (2, 0)]),
        &pack(&[
            (4, 1),
            (2, 3),
            (1, 1),
            (1, 0),
            (1, 1),
            (10, 0),
            (5, 6),
            (8, 4),
            (16, 0x8e81),
            (16, 0),
        ]),
        // Node, times, interfaces of level 2, a reserved word, the complement: seven words.
        &pack(&[(32, 2), (32, 1000), (32, 1700)]),
        &pack(&[(32, 21), (32, 22), (32, 0), (32, 0xffff_ffff)])[..12],
    ]);
    let length = IntError::HopLength {
        stated: 6,
        needed: 7,
    };
    assert_eq!(EmbeddedInt::parse(&bytes, None), Err(length));
    let mut bytes = join(&[&bytes, &[0xff; 4]]);
    bytes[2] = 10;
    bytes[6] = 7;
    let (int, rest) = EmbeddedInt::parse(&bytes, None).unwrap();
    assert_eq!(rest, []);
    assert_eq!(int.next, NextProtocol::Payload { dscp: 5 });
    let IntContents::Md(stack) = int.contents else {
        panic!("{int:?}")
    };
    assert!(stack.discard && stack.mtu_exceeded && !stack.hops_exceeded);
    let entry = stack.entries().next().unwrap();
    let logical = Interfaces {
        ingress: 21,
        egress: 22,
    };
    assert_eq!(
        entry.hop(),
        Hop {
            node: Some(IntNodeId(2)),
            ingress_time: Some(HopTime::Low(1000)),
            egress_time: Some(HopTime::Low(1700)),
            logical_interfaces: Some(logical),
            ..Hop::default()
        }
    );
    assert_eq!(entry.checksum_complement(), None);
    let mut out = Vec::new();
    assert_eq!(int.write(&mut out), Err(IntError::Version(1)));
}

#[test]
fn faulty_older_reports_are_refused() {
    use ReportFault::*;
    let cases: Vec<(Vec<u8>, usize, ReportFault)> = vec![
        (report_1(4, 3, 0, [0; 3]), 1, NextProtocol),
        (report_1(4, 0, 1, [0; 3]), 0, MetadataLength),
        (report_1(5, 0, 0, [0; 3]), 0, MetadataLength),
        (report_1(5, 0, 1, [0; 3]), 16, Short),
        (report_1(4, 0, 0, [0; 3])[..15].to_vec(), 15, Short),
        (report_05(3, [0; 3]), 0, NextProtocol),
        (report_05(2, [0; 3]), 12, Short),
        (join(&[&report_05(1, [0; 3]), &[0; 11]]), 23, Short),
        (report_05(0, [0; 3])[..11].to_vec(), 11, Short),
    ];
    for (payload, at, fault) in cases {
        let error = TelemetryReport::parse(&payload).unwrap_err();
        assert_eq!((error.at, error.fault), (at, fault), "{payload:02x?}");
    }
}
