//! The figures and examples of Telemetry Report 2.0 and INT 2.1, field by field.

use std::net::{IpAddr, Ipv4Addr};

use telemetry::{
    Associations, DropRecord, EmbeddedInt, FlowKey, Hop, HopTime, Inner, Instructions, IntContents,
    IntDomain, IntError, IntMarker, IntNodeId, IntStack, Interfaces, L4Ports, MainContents,
    MxHeader, NextProtocol, NoSample, Occupancy, PacketInt, PacketKind, ReportFault, ReportVersion,
    ReportView, ReportedHops, ReportedPacket, ReportedPath, SinkHop, SourceOnly, TcpPosition,
    TelemetryReport, TlvValue,
};

use crate::fields::{ipv4, join, pack, tcp, udp};

/// The port that marks INT in the examples, "INT_TBD".
const INT_PORT: u64 = 5900;
const HOST_1: u64 = 0xc0a8_0101;
const HOST_2: u64 = 0xc0a8_0202;

const BY_PORT: IntDomain = IntDomain::new(IntMarker::UdpPort(INT_PORT as u16));
const BY_DSCP: IntDomain = IntDomain::new(IntMarker::Dscp {
    value: 0x17,
    mask: 0x3f,
});

/// Group header (section 3.2).
fn group(hardware: u64, sequence: u64, node: u64) -> Vec<u8> {
    pack(&[(4, 2), (6, hardware), (22, sequence), (32, node)])
}

/// First word of an individual report (section 3.3), with flags D, Q, F, I.
fn first_word(types: [u64; 2], length: u64, metadata: u64, flags: [u64; 4]) -> Vec<u8> {
    let [report_type, inner_type] = types;
    let [dropped, congested, tracked, intermediate] = flags;
    pack(&[
        (4, report_type),
        (4, inner_type),
        (8, length),
        (8, metadata),
        (1, dropped),
        (1, congested),
        (1, tracked),
        (1, intermediate),
        (4, 0),
    ])
}

/// Fixed part of RepType 1 (section 3.3.1).
fn int_fixed(bits: u64, domain: u64, domain_bits: u64, status: u64) -> Vec<u8> {
    pack(&[(16, bits), (16, domain), (16, domain_bits), (16, status)])
}

/// Shim header (INT 2.1, section 5.7.2).
fn shim(kind: u64, npt: u64, length: u64, last: u64) -> Vec<u8> {
    pack(&[(4, kind), (2, npt), (2, 0), (8, length), (16, last)])
}

/// INT-MD header (INT 2.1, section 5.8), with flags D, E, M.
fn md_header(
    flags: [u64; 3],
    hop_words: u64,
    remaining: u64,
    bits: u64,
    domain: [u64; 3],
) -> Vec<u8> {
    let [discard, hops, mtu] = flags;
    pack(&[
        (4, 2),
        (1, discard),
        (1, hops),
        (1, mtu),
        (12, 0),
        (5, hop_words),
        (8, remaining),
        (16, bits),
        (16, domain[0]),
        (16, domain[1]),
        (16, domain[2]),
    ])
}

/// The stack of the examples: node ID and queue occupancy of hops 2 and 1.
fn example_stack() -> Vec<u8> {
    pack(&[(32, 2), (8, 1), (24, 222), (32, 1), (8, 1), (24, 111)])
}

fn address(address: u64) -> IpAddr {
    Ipv4Addr::from(address as u32).into()
}

fn flow(protocol: u8, source: u16, destination: u16) -> FlowKey {
    FlowKey {
        source: address(HOST_1),
        destination: address(HOST_2),
        protocol,
        ports: Some(L4Ports {
            source,
            destination,
        }),
    }
}

fn queue(level: u32) -> Option<Occupancy> {
    Some(Occupancy { id: 1, level })
}

fn hop(node: u32, level: u32) -> Hop {
    Hop {
        node: Some(IntNodeId(node)),
        queue: queue(level),
        ..Hop::default()
    }
}

fn only<'a>(report: &TelemetryReport<'a>) -> telemetry::IndividualReport<'a> {
    let mut all = report.individuals();
    let first = all.next().unwrap();
    assert_eq!(all.next(), None);
    first
}

fn view<'a>(payload: &'a [u8], domain: &IntDomain) -> ReportView<'a> {
    let report = TelemetryReport::parse(payload).unwrap();
    ReportView::new(report.header.exporter, &only(&report), domain)
}

fn path_of<'a>(view: &ReportView<'a>) -> ReportedPath<'a> {
    match view.hops {
        ReportedHops::Path(path) => path,
        other => panic!("no path: {other:?}"),
    }
}

/// Report 2.0, section 4.1.
#[test]
fn a_report_has_baseline_metadata_and_a_truncated_packet() {
    let packet = join(&[&ipv4(0, 6, HOST_1, HOST_2), &tcp(1000, 80)]);
    let payload = join(&[
        &group(5, 0x2f_0001, 3),
        &first_word([1, 4], 14, 2, [0, 0, 1, 0]),
        &int_fixed(0b0101_0000_0000_0000, 0, 0, 0),
        &pack(&[(16, 7), (16, 8), (8, 1), (24, 333)]),
        &packet,
    ]);
    let report = TelemetryReport::parse(&payload).unwrap();
    assert_eq!(report.header.version, ReportVersion::V2);
    assert_eq!(report.header.exporter.node, Some(IntNodeId(3)));
    assert_eq!(report.header.exporter.hardware, 5);
    assert_eq!(report.header.sequence, 0x2f_0001);
    let individual = only(&report);
    assert_eq!(
        individual.associations,
        Associations {
            tracked: true,
            ..Associations::default()
        }
    );
    assert_eq!(
        individual.packet_bytes(),
        Some((PacketKind::Ipv4, &packet[..]))
    );
    let expected = Hop {
        interfaces: Some(Interfaces {
            ingress: 7,
            egress: 8,
        }),
        ..hop(3, 333)
    };
    assert_eq!(individual.local_hop(), Some(expected));
    let view = view(&payload, &BY_DSCP);
    assert_eq!(view.flow, Some(flow(6, 1000, 80)));
    assert!(matches!(view.hops, ReportedHops::Hop(hop) if hop == expected));
}

/// Report 2.0, section 4.2.
#[test]
fn a_report_has_metadata_and_data_of_a_domain_and_a_packet_as_tlvs() {
    let packet = join(&[&ipv4(0, 6, HOST_1, HOST_2), &tcp(1000, 80)]);
    let payload = join(&[
        &group(0, 1, 3),
        &first_word([1, 1], 2 + 3 + 2 + 11, 3, [0, 0, 1, 0]),
        &int_fixed(0x5000, 77, 0x8000, 9),
        &pack(&[(16, 7), (16, 8), (8, 1), (24, 333), (32, 0xd0d0_d0d0)]),
        &pack(&[(4, 0), (4, 0), (8, 1), (16, 0x55), (32, 0xe0e0_e0e0)]),
        &pack(&[(4, 2), (4, 0), (8, 10), (16, 0)]),
        &packet,
    ]);
    let report = TelemetryReport::parse(&payload).unwrap();
    let individual = only(&report);
    let MainContents::Metadata(local) = individual.main else {
        panic!("{individual:?}")
    };
    assert_eq!(local.domain.id, 77);
    assert_eq!(local.domain.instructions, 0x8000);
    assert_eq!(local.domain.flags, 9);
    assert_eq!(local.domain_metadata(), [0xd0; 4]);
    let Inner::Tlvs(tlvs) = individual.inner else {
        panic!("{individual:?}")
    };
    let values: Vec<TlvValue<'_>> = tlvs.iter().map(|tlv| tlv.value).collect();
    let data = TlvValue::DomainData {
        template: 0x55,
        bytes: &[0xe0; 4],
    };
    assert_eq!(values, [data, TlvValue::Packet(PacketKind::Ipv4, &packet)]);
    assert_eq!(view(&payload, &BY_DSCP).flow, Some(flow(6, 1000, 80)));
}

/// Report 2.0, section 4.3, with the packet of INT 2.1, section 6.3. The example sets MD Length 1
/// for the queue alone: the node is in the group header.
#[test]
fn the_sinks_hop_is_in_the_report_and_the_others_in_the_packet() {
    let payload = join(&[
        &group(0, 1, 3),
        &first_word([1, 4], 23, 1, [0, 0, 1, 0]),
        &int_fixed(0x1000, 0, 0, 0),
        &pack(&[(8, 1), (24, 333)]),
        &ipv4(0, 17, HOST_1, HOST_2),
        &udp(0xbeef, INT_PORT),
        &shim(1, 2, 7, 6),
        &md_header([0; 3], 2, 6, 0x9000, [0; 3]),
        &example_stack(),
        &tcp(1000, 80),
    ]);
    let view = view(&payload, &BY_PORT);
    assert_eq!(view.flow, Some(flow(6, 1000, 80)));
    let path = path_of(&view);
    assert_eq!(path.sink_hop(), SinkHop::InReport);
    assert!(path.gaps().is_complete());
    let hops: Vec<Hop> = path.hops().collect();
    assert_eq!(hops, [hop(1, 111), hop(2, 222), hop(3, 333)]);
    assert_eq!(path.stack().remaining_hops, 6);
    assert_eq!(path.summed_hop_latency(), Err(NoSample::UnknownLatency));
}

/// Report 2.0, section 4.4: INT after the outer UDP header of VXLAN. The flow is the outer one.
#[test]
fn a_sink_without_values_reports_the_packet_alone() {
    let stack = pack(&[
        (32, 3),
        (16, 31),
        (16, 32),
        (32, 2),
        (16, 21),
        (16, 22),
        (32, 1),
        (16, 11),
        (16, 12),
    ]);
    let payload = join(&[
        &group(0, 1, 9),
        &first_word([0, 4], 33, 0, [0, 0, 1, 0]),
        &ipv4(0, 17, HOST_1, HOST_2),
        &udp(56789, INT_PORT),
        // The example writes 7; its own sum counts three words of header and six of stack.
        &shim(1, 1, 9, 4789),
        &md_header([0; 3], 2, 5, 0xc000, [0; 3]),
        &stack,
        &[0; 4 * (2 + 4 + 5 + 5)],
    ]);
    let view = view(&payload, &BY_PORT);
    assert_eq!(view.flow, Some(flow(17, 56789, 4789)));
    let path = path_of(&view);
    assert_eq!(path.sink_hop(), SinkHop::Absent);
    let interfaces: Vec<u16> = path
        .hops()
        .map(|hop| hop.interfaces.unwrap().egress)
        .collect();
    assert_eq!(interfaces, [12, 22, 32]);
}

/// INT 2.1, sections 6.1, 6.3 and 6.5: the three NPT kinds; and the other marks and positions.
#[test]
fn int_md_is_found_in_tcp_and_udp() {
    let int = |shim: Vec<u8>| {
        join(&[
            &shim,
            &md_header([0; 3], 2, 6, 0x9000, [0; 3]),
            &example_stack(),
        ])
    };
    let npt_0 = int(shim(1, 0, 7, 0x2e << 2));
    let npt_1 = int(shim(1, 1, 7, 4789));
    let npt_2 = int(shim(1, 2, 7, 6));
    let options: Vec<u8> = {
        let mut header = tcp(1000, 80);
        header[12] = 0x80;
        join(&[&header, &[1; 12]])
    };
    let before_options = IntDomain {
        tcp_position: TcpPosition::BeforeOptions,
        ..BY_DSCP
    };
    let probe = IntDomain::new(IntMarker::Probe(0x1122_3344_5566_7788));
    let one_bit = IntDomain::new(IntMarker::Dscp {
        value: 0x20,
        mask: 0x20,
    });
    let ipv6 = pack(&[
        (4, 6),
        (8, 0x17 << 2),
        (20, 0),
        (16, 0),
        (8, 0),
        (8, 64),
        (64, 0x2001_0db8_0000_0000),
        (64, 1),
        (64, 0x2001_0db8_0000_0000),
        (64, 2),
        // Hop-by-hop options of 8 bytes, then TCP.
        (8, 6),
        (8, 0),
        (48, 0),
    ]);
    let flow_v6 = FlowKey {
        source: "2001:db8::1".parse().unwrap(),
        destination: "2001:db8::2".parse().unwrap(),
        ..flow(6, 1000, 80)
    };
    let dscp_header = |protocol| ipv4(0x17, protocol, HOST_1, HOST_2);
    let plain_header = |protocol| ipv4(0, protocol, HOST_1, HOST_2);
    let marker = 0x1122_3344_5566_7788u64.to_be_bytes();
    let original_dscp = NextProtocol::Payload { dscp: 0x2e };
    let mut with_vlan = vec![2; 12];
    with_vlan.extend([0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 8, 0]);
    let cases: &[(&str, IntDomain, Vec<u8>, NextProtocol, FlowKey)] = &[
        (
            "TCP by DSCP",
            BY_DSCP,
            join(&[&dscp_header(6), &tcp(1000, 80), &npt_0]),
            original_dscp,
            flow(6, 1000, 80),
        ),
        (
            "TCP with options, INT after them",
            BY_DSCP,
            join(&[&dscp_header(6), &options, &npt_0]),
            original_dscp,
            flow(6, 1000, 80),
        ),
        (
            "TCP with options, INT before them",
            before_options,
            join(&[&dscp_header(6), &options[..20], &npt_0, &options[20..]]),
            original_dscp,
            flow(6, 1000, 80),
        ),
        (
            "UDP by DSCP",
            BY_DSCP,
            join(&[&dscp_header(17), &udp(1000, 53), &npt_0]),
            original_dscp,
            flow(17, 1000, 53),
        ),
        (
            "UDP by one bit of DSCP",
            one_bit,
            join(&[&ipv4(0x29, 17, HOST_1, HOST_2), &udp(1000, 53), &npt_0]),
            original_dscp,
            flow(17, 1000, 53),
        ),
        (
            "UDP by port, payload of UDP",
            BY_PORT,
            join(&[&plain_header(17), &udp(1000, INT_PORT), &npt_1]),
            NextProtocol::UdpPayload { port: 4789 },
            flow(17, 1000, 4789),
        ),
        (
            "new UDP header before TCP",
            BY_PORT,
            join(&[&plain_header(17), &udp(9, INT_PORT), &npt_2, &tcp(1000, 80)]),
            NextProtocol::Header { protocol: 6 },
            flow(6, 1000, 80),
        ),
        (
            "UDP by probe marker",
            probe,
            join(&[&plain_header(17), &udp(1000, 53), &marker, &npt_0]),
            original_dscp,
            flow(17, 1000, 53),
        ),
        (
            "TCP over IPv6 with an extension header",
            BY_DSCP,
            join(&[&ipv6, &tcp(1000, 80), &npt_0]),
            original_dscp,
            flow_v6,
        ),
        (
            "two VLAN tags",
            BY_DSCP,
            join(&[&with_vlan, &dscp_header(6), &tcp(1000, 80), &npt_0]),
            original_dscp,
            flow(6, 1000, 80),
        ),
    ];
    for (name, domain, packet, next, flow) in cases {
        let kind = match packet[0] >> 4 {
            4 => PacketKind::Ipv4,
            6 => PacketKind::Ipv6,
            _ => PacketKind::Ethernet,
        };
        let packet = ReportedPacket::parse(kind, packet, domain);
        assert_eq!(packet.flow, Some(*flow), "{name}");
        let PacketInt::Present(int) = packet.int else {
            panic!("{name}: {packet:?}")
        };
        assert_eq!(int.next, *next, "{name}");
        let IntContents::Md(stack) = int.contents else {
            panic!("{name}: {int:?}")
        };
        let hops: Vec<Hop> = stack.hops().collect();
        assert_eq!(hops, [hop(2, 222), hop(1, 111)], "{name}");
        assert_eq!(stack.instructions, Instructions(0x9000), "{name}");
    }
}

/// INT 2.1, sections 6.2, 6.4, 6.6, and 6.7: IPsec in a new IP header.
#[test]
fn int_mx_is_found_and_the_original_packet_after_it() {
    let mx = |npt, last, words: &[u8]| {
        join(&[
            &shim(3, npt, 3 + words.len() as u64 / 4, last),
            &pack(&[
                (4, 2),
                (1, 0),
                (27, 0),
                (16, 0x9000),
                (16, 5),
                (16, 0x4000),
                (16, 1),
            ]),
            words,
        ])
    };
    let inner = ipv4(0, 51, HOST_1, HOST_2);
    let protected = FlowKey {
        ports: None,
        ..flow(51, 0, 0)
    };
    let cases: &[(IntDomain, Vec<u8>, &[u8], FlowKey)] = &[
        (
            BY_DSCP,
            join(&[
                &ipv4(0x17, 6, HOST_1, HOST_2),
                &tcp(1000, 80),
                &mx(0, 0, &[]),
            ]),
            &[],
            flow(6, 1000, 80),
        ),
        (
            BY_PORT,
            join(&[
                &ipv4(0, 17, HOST_1, HOST_2),
                &udp(9, INT_PORT),
                &mx(2, 6, &[]),
                &tcp(1000, 80),
            ]),
            &[],
            flow(6, 1000, 80),
        ),
        (
            BY_PORT,
            join(&[
                &ipv4(0, 17, HOST_1, HOST_2),
                &udp(1000, INT_PORT),
                &mx(1, 53, &[1, 2, 3, 4]),
            ]),
            &[1, 2, 3, 4],
            flow(17, 1000, 53),
        ),
        (
            BY_PORT,
            join(&[
                &ipv4(0, 17, 0x0a00_0001, 0x0a00_0002),
                &udp(9, INT_PORT),
                &mx(2, 4, &[]),
                &inner,
            ]),
            &[],
            protected,
        ),
    ];
    for (domain, packet, source_inserted, flow) in cases {
        let packet = ReportedPacket::parse(PacketKind::Ipv4, packet, domain);
        assert_eq!(packet.flow, Some(*flow));
        let PacketInt::Present(EmbeddedInt {
            contents: IntContents::Mx(header),
            ..
        }) = packet.int
        else {
            panic!("{packet:?}")
        };
        assert_eq!(
            header,
            MxHeader {
                discard: false,
                instructions: Instructions(0x9000),
                domain: telemetry::DomainInstructions {
                    id: 5,
                    instructions: 0x4000,
                    flags: 1,
                },
                source_inserted,
                missing_words: 0,
            }
        );
    }
}

/// All instructions of INT 2.1, section 5.8, with domain specific metadata before the checksum
/// complement, and source-only metadata in the source's entry.
#[test]
fn a_hop_has_its_values_in_the_order_of_the_instructions() {
    let node = |node: u64| {
        pack(&[
            (32, node),
            (16, 11),
            (16, 12),
            (32, 700),
            (8, 3),
            (24, 0x01_0203),
            (64, 0x1_0000_0001),
            (64, 0x1_0000_0301),
            (32, 100_001),
            (32, 100_002),
            (32, 55),
            (8, 4),
            (24, 0x0a_0b0c),
        ])
    };
    let domain_words = [0xd1; 4];
    let complement = [0, 0, 0xab, 0xcd];
    let source_only = [0xee; 8];
    let packet = join(&[
        &ipv4(0x17, 17, HOST_1, HOST_2),
        &udp(1000, 53),
        &shim(1, 0, 3 + 14 + 14 + 2, 0),
        &md_header([1, 0, 0], 14, 6, 0xff81, [9, 0xc000, 0x0f]),
        &node(2),
        &domain_words,
        &complement,
        &node(1),
        &domain_words,
        &source_only,
        &[0xff; 4],
    ]);
    let domain = IntDomain {
        source_only: Some(SourceOnly {
            domain: 9,
            instructions: 0x4000,
            words: 2,
        }),
        ..BY_DSCP
    };
    let packet = ReportedPacket::parse(PacketKind::Ipv4, &packet, &domain);
    let PacketInt::Present(EmbeddedInt {
        contents: IntContents::Md(stack),
        ..
    }) = packet.int
    else {
        panic!("{packet:?}")
    };
    assert!(stack.discard);
    assert_eq!(stack.hop_count(), 2);
    let entries: Vec<_> = stack.entries().collect();
    let hop = |node| Hop {
        node: Some(IntNodeId(node)),
        interfaces: Some(Interfaces {
            ingress: 11,
            egress: 12,
        }),
        latency: Some(700),
        queue: Some(Occupancy {
            id: 3,
            level: 0x01_0203,
        }),
        ingress_time: Some(HopTime::Full(0x1_0000_0001)),
        egress_time: Some(HopTime::Full(0x1_0000_0301)),
        logical_interfaces: Some(Interfaces {
            ingress: 100_001,
            egress: 100_002,
        }),
        tx_utilisation: Some(55),
        buffer: Some(Occupancy {
            id: 4,
            level: 0x0a_0b0c,
        }),
    };
    assert_eq!(entries[0].hop(), hop(2));
    assert_eq!(entries[0].domain_metadata(), domain_words);
    assert_eq!(entries[0].checksum_complement(), Some(0xabcd));
    assert_eq!(entries[1].hop(), hop(1));
    assert_eq!(
        entries[1].domain_metadata(),
        join(&[&domain_words, &source_only])
    );
    assert_eq!(entries[1].checksum_complement(), None);
}

#[test]
fn all_ones_are_an_unknown_value() {
    let entry = [0xff; 4 * 12];
    let stack = IntStack::new(Instructions(0xff80), 0, &entry).unwrap();
    assert_eq!(stack.hops().collect::<Vec<_>>(), [Hop::default()]);
    // Half of a value is no value: the whole one is known.
    let entry = [0xff, 0xff, 0, 3, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 3];
    let stack = IntStack::new(Instructions(0x4200), 0, &entry).unwrap();
    let hop = stack.hops().next().unwrap();
    assert_eq!(
        hop.interfaces,
        Some(Interfaces {
            ingress: 0xffff,
            egress: 3
        })
    );
    assert_eq!(
        hop.logical_interfaces,
        Some(Interfaces {
            ingress: u32::MAX,
            egress: 3
        })
    );
}

/// Report 2.0, section 3.3.1: bit 15 has another meaning than in INT.
#[test]
fn a_drop_has_queue_and_reason() {
    let payload = join(&[
        &group(0, 1, 3),
        &first_word([1, 0], 5, 3, [1, 1, 0, 0]),
        &int_fixed(0x4201, 0, 0, 0)[..8],
        &pack(&[(16, 7), (16, 8)]),
        &pack(&[(32, 70), (32, 80)])[..4],
        &pack(&[(8, 2), (8, 71), (16, 0)]),
    ]);
    // Bit 6 has two words: this report is one short.
    let error = TelemetryReport::parse(&payload).unwrap_err();
    assert_eq!(error.fault, ReportFault::MetadataLength);
    let payload = join(&[
        &group(0, 1, 3),
        &first_word([1, 0], 6, 4, [1, 1, 0, 0]),
        &int_fixed(0x4201, 0, 0, 0),
        &pack(&[
            (16, 7),
            (16, 8),
            (32, 70),
            (32, 80),
            (8, 2),
            (8, 71),
            (16, 0),
        ]),
    ]);
    let report = TelemetryReport::parse(&payload).unwrap();
    let individual = only(&report);
    assert_eq!(
        individual.drop_record(),
        Some(DropRecord {
            queue: 2,
            reason: 71
        })
    );
    assert!(individual.associations.dropped && individual.associations.congested);
}

#[test]
fn a_datagram_has_several_reports_and_the_last_may_extend_to_its_end() {
    let small = join(&[
        &first_word([0, 5], 1, 0, [0, 0, 0, 1]),
        &pack(&[(32, 0x6000_0000)]),
    ]);
    let none = first_word([0, 0], 0, 0, [0; 4]);
    let ioam = join(&[&first_word([2, 7], 2, 1, [0, 0, 1, 0]), &[7; 8]]);
    let reserved = join(&[&first_word([0, 9], 1, 0, [0; 4]), &[9; 4]]);
    let large = join(&[&first_word([0, 3], 255, 0, [0; 4]), &[8; 255 * 4 + 3]]);
    let payload = join(&[&group(0, 1, 3), &small, &none, &ioam, &reserved, &large]);
    let report = TelemetryReport::parse(&payload).unwrap();
    let all: Vec<_> = report.individuals().collect();
    assert_eq!(all.len(), 5);
    assert_eq!(
        all[0].packet_bytes(),
        Some((PacketKind::Ipv6, &[0x60, 0, 0, 0][..]))
    );
    assert!(all[0].associations.intermediate);
    assert_eq!(all[1].inner, Inner::None);
    assert_eq!(
        all[2].main,
        MainContents::Unsupported {
            report_type: 2,
            inner_type: 7,
            metadata_words: 1,
            bytes: &[7; 8],
        }
    );
    assert_eq!(
        all[3].inner,
        Inner::Unsupported {
            inner_type: 9,
            bytes: &[9; 4]
        }
    );
    assert_eq!(all[4].packet_bytes().unwrap().1.len(), 255 * 4 + 3);
}

#[test]
fn faulty_reports_are_refused_with_place_and_cause() {
    use ReportFault::*;
    let group = group(0, 1, 3);
    let report = |parts: &[&[u8]]| join(&[&group, &parts.concat()]);
    let flags = [0, 0, 1, 0];
    let mut cases: Vec<(Vec<u8>, usize, ReportFault)> = vec![
        (vec![], 0, Short),
        (vec![0x30; 40], 0, Version),
        (group[..7].to_vec(), 7, Short),
        (group.clone(), 8, Empty),
        (report(&[&[0, 0, 0]]), 8, Short),
        (
            report(&[&first_word([0, 4], 2, 0, flags), &[0; 4]]),
            9,
            Length,
        ),
        (
            report(&[&first_word([0, 3], 255, 0, flags), &[0; 1016]]),
            9,
            Length,
        ),
        (
            report(&[&first_word([1, 0], 1, 0, flags), &[0; 4]]),
            9,
            MainLength,
        ),
        (
            report(&[&first_word([1, 0], 2, 1, flags), &[0; 8]]),
            9,
            MainLength,
        ),
        (
            report(&[&first_word([0, 0], 1, 0, flags), &[0; 4]]),
            12,
            InnerLength,
        ),
        (report(&[&first_word([0, 1], 0, 0, flags)]), 12, InnerLength),
        (
            report(&[
                &first_word([0, 1], 2, 0, flags),
                &pack(&[(8, 0), (8, 2), (48, 0)]),
            ]),
            12,
            TlvLength,
        ),
        // Trailing bytes after the last report.
        (
            report(&[&first_word([0, 0], 0, 0, flags), &[0; 2]]),
            12,
            Short,
        ),
    ];
    // Metadata bits, domain, its bits, and words of metadata.
    for (bits, domain, domain_bits, words) in [
        (0x5000, 0, 0, 1),
        (0x5000, 0, 0, 3),
        (0x0e00, 0, 0, 5),
        (0x4000, 7, 0xc000, 2),
    ] {
        let contents = vec![0; words * 4];
        let first = first_word([1, 0], 2 + words as u64, words as u64, flags);
        let fixed = int_fixed(bits, domain, domain_bits, 0);
        cases.push((report(&[&first, &fixed, &contents]), 9, MetadataLength));
    }
    for (payload, at, fault) in cases {
        let error = TelemetryReport::parse(&payload).unwrap_err();
        assert_eq!((error.at, error.fault), (at, fault), "{payload:02x?}");
    }
}

#[test]
fn faulty_int_headers_are_refused_and_the_flow_stays_known() {
    let md = |npt: u64, length: u64, header: &[u8], stack: usize| {
        join(&[&shim(1, npt, length, 0), header, &vec![0; 4 * stack]])
    };
    let header = |hop_words, bits| md_header([0; 3], hop_words, 1, bits, [0; 3]);
    let cases: Vec<(Vec<u8>, IntError)> = vec![
        (vec![0x10, 7, 0], IntError::CutHeader),
        (md(0, 3, &header(1, 0x8000)[..8], 0), IntError::CutHeader),
        (
            join(&[&shim(2, 0, 3, 0), &header(1, 0x8000)]),
            IntError::HeaderType(2),
        ),
        (vec![0; 40], IntError::HeaderType(0)),
        (vec![0x01, 0, 9, 0, 0x30, 0, 0, 0], IntError::Version(3)),
        (md(0, 3, &[0x10; 12], 0), IntError::Version(1)),
        (md(0, 2, &header(1, 0x8000), 0), IntError::ShimLength(2)),
        (md(3, 3, &header(1, 0x8000), 0), IntError::NextProtocol(3)),
        // By DSCP, NPT is zero.
        (md(1, 3, &header(1, 0x8000), 0), IntError::NextProtocol(1)),
        (md(2, 3, &header(1, 0x8000), 0), IntError::NextProtocol(2)),
        (
            md(0, 4, &header(1, 0x8800), 1),
            IntError::HopLength {
                stated: 1,
                needed: 3,
            },
        ),
        (
            md(0, 4, &header(2, 0x8000), 1),
            IntError::HopLength {
                stated: 2,
                needed: 1,
            },
        ),
        (
            md(0, 6, &header(2, 0xc000), 3),
            IntError::StackLength {
                words: 3,
                hop_words: 2,
            },
        ),
        (
            md(0, 4, &header(0, 0), 1),
            IntError::StackLength {
                words: 1,
                hop_words: 0,
            },
        ),
    ];
    for (int, error) in cases {
        let packet = join(&[&ipv4(0x17, 17, HOST_1, HOST_2), &udp(1000, 53), &int]);
        let packet = ReportedPacket::parse(PacketKind::Ipv4, &packet, &BY_DSCP);
        assert_eq!(packet.int, PacketInt::Malformed(error), "{int:02x?}");
        assert_eq!(packet.flow, Some(flow(17, 1000, 53)));
    }
}

/// Report 2.0, section 3.4.
#[test]
fn a_report_of_a_flow_that_is_not_watched_has_no_embedded_metadata() {
    let payload = |tracked| {
        join(&[
            &group(0, 1, 3),
            &first_word([0, 4], 15, 0, [0, 1, tracked, 0]),
            &ipv4(0x17, 17, HOST_1, HOST_2),
            &udp(1000, 53),
            &shim(1, 0, 7, 0),
            &md_header([0; 3], 2, 6, 0x9000, [0; 3]),
            &example_stack(),
        ])
    };
    assert!(matches!(
        view(&payload(1), &BY_DSCP).hops,
        ReportedHops::Path(_)
    ));
    let payload = payload(0);
    let view = view(&payload, &BY_DSCP);
    assert!(matches!(view.hops, ReportedHops::None));
    assert_eq!(view.flow, Some(flow(17, 1000, 53)));
}

#[test]
fn a_flow_has_ports_only_where_the_packet_has_them() {
    let with = |fragment: u64, protocol: u64, length: usize| {
        let mut packet = join(&[&ipv4(0, protocol, HOST_1, HOST_2), &tcp(1000, 80)]);
        packet[6..8].copy_from_slice(&(fragment as u16).to_be_bytes());
        packet.truncate(length);
        let packet = ReportedPacket::parse(PacketKind::Ipv4, &packet, &BY_DSCP);
        packet.flow.map(|flow| flow.ports.is_some())
    };
    assert_eq!(with(0, 6, 40), Some(true));
    // The first fragment, later ones.
    assert_eq!(with(0x2000, 6, 40), Some(true));
    assert_eq!(with(0x2001, 6, 40), Some(false));
    assert_eq!(with(0x0001, 6, 40), Some(false));
    assert_eq!(with(0, 1, 40), Some(false));
    assert_eq!(with(0, 6, 23), Some(false));
    assert_eq!(with(0, 6, 20), Some(false));
    assert_eq!(with(0, 6, 19), None);
}
