//! Random and damaged payloads: no panic, the same result as a second decoder that reads field by
//! field, and equal bytes when an accepted payload is written again.

use proptest::collection::vec;
use proptest::prelude::*;
use support::rng::{INCREMENT, folded_product, mix};
use telemetry::{
    EmbeddedInt, Inner, IntContents, IntDomain, IntMarker, MainContents, PacketKind, ReportVersion,
    ReportView, ReportedHops, ReportedPacket, SourceOnly, TelemetryReport, TlvValue,
    write_json_line,
};

use crate::fields::Fields;

/// One individual report as its fields: types, flags, then named contents.
type Plain = (u64, u64, [u64; 4], Vec<u64>, Vec<u8>, Vec<u8>);

/// Second decoder of Report 2.0 (sections 3.2 and 3.3). `None` if a rule is broken.
fn second_decoder(payload: &[u8]) -> Option<([u64; 3], Vec<Plain>)> {
    if payload.len() < 12 {
        return None;
    }
    let mut fields = Fields::new(payload);
    if fields.next(4) != 2 {
        return None;
    }
    let header = [fields.next(6), fields.next(22), fields.next(32)];
    let mut reports = Vec::new();
    let mut rest = fields.rest();
    while !rest.is_empty() {
        if rest.len() < 4 {
            return None;
        }
        let mut fields = Fields::new(rest);
        let [report_type, inner_type] = [fields.next(4), fields.next(4)];
        let [words, metadata] = [fields.next(8) as usize, fields.next(8) as usize];
        let flags = [
            fields.next(1),
            fields.next(1),
            fields.next(1),
            fields.next(1),
        ];
        fields.next(4);
        let all = fields.rest();
        let end = if words == 255 && all.len() >= 1020 {
            all.len()
        } else {
            4 * words
        };
        let contents = all.get(..end)?;
        rest = &all[end..];
        let (fixed, values, inner) = match report_type {
            0 => (vec![], &[][..], contents),
            1 => {
                let inner = contents.get(8 + 4 * metadata..)?;
                let mut fields = Fields::new(contents);
                let fixed: Vec<u64> = (0..4).map(|_| fields.next(16)).collect();
                let bit = |bits: u64, bit: u32| (bits >> (15 - bit) & 1) as usize;
                let baseline: usize = (0..16)
                    .map(|at| bit(fixed[0], at) * if (4..=6).contains(&at) { 2 } else { 1 })
                    .sum();
                let of_domain: usize = (0..16).map(|at| bit(fixed[2], at)).sum();
                let extra = metadata.checked_sub(baseline)?;
                if of_domain == 0 && extra != 0 || fixed[1] != 0 && extra < of_domain {
                    return None;
                }
                (fixed, &contents[8..8 + 4 * metadata], inner)
            }
            _ => (vec![metadata as u64], &[][..], contents),
        };
        if report_type < 2 {
            match inner_type {
                0 if !inner.is_empty() => return None,
                1 => {
                    let mut tlvs = inner;
                    if tlvs.is_empty() {
                        return None;
                    }
                    while !tlvs.is_empty() {
                        let length = 4 + 4 * usize::from(*tlvs.get(1)?);
                        tlvs = tlvs.get(length..)?;
                    }
                }
                _ => {}
            }
        }
        reports.push((
            report_type,
            inner_type,
            flags,
            fixed,
            values.to_vec(),
            inner.to_vec(),
        ));
    }
    Some((header, reports))
}

/// The same fields by the crate.
fn first_decoder(payload: &[u8]) -> Option<([u64; 3], Vec<Plain>)> {
    let report = TelemetryReport::parse(payload).ok()?;
    if report.header.version != ReportVersion::V2 {
        return None;
    }
    let header = [
        u64::from(report.header.exporter.hardware),
        u64::from(report.header.sequence),
        u64::from(report.header.exporter.node.unwrap().0),
    ];
    let plain = |report: telemetry::IndividualReport<'_>| -> Plain {
        let of = report.associations;
        let flags = [of.dropped, of.congested, of.tracked, of.intermediate].map(u64::from);
        let (inner_type, inner) = match report.inner {
            Inner::None => (0, vec![]),
            Inner::Tlvs(tlvs) => {
                let mut bytes = vec![];
                for tlv in tlvs.iter() {
                    let (kind, template, value) = match tlv.value {
                        TlvValue::DomainData { template, bytes } => (0, template, bytes),
                        TlvValue::Packet(PacketKind::Ethernet, bytes) => (1, 0, bytes),
                        TlvValue::Packet(PacketKind::Ipv4, bytes) => (2, 0, bytes),
                        TlvValue::Packet(PacketKind::Ipv6, bytes) => (3, 0, bytes),
                        TlvValue::Unsupported {
                            tlv_type,
                            template,
                            bytes,
                        } => (tlv_type, template, bytes),
                    };
                    bytes.extend([kind << 4, (value.len() / 4) as u8]);
                    bytes.extend(template.to_be_bytes());
                    bytes.extend(value);
                }
                (1, bytes)
            }
            Inner::DomainData(bytes) => (2, bytes.to_vec()),
            Inner::Packet(PacketKind::Ethernet, bytes) => (3, bytes.to_vec()),
            Inner::Packet(PacketKind::Ipv4, bytes) => (4, bytes.to_vec()),
            Inner::Packet(PacketKind::Ipv6, bytes) => (5, bytes.to_vec()),
            Inner::Unsupported { inner_type, bytes } => (inner_type.into(), bytes.to_vec()),
        };
        match report.main {
            MainContents::InnerOnly => (0, inner_type, flags, vec![], vec![], inner),
            MainContents::Metadata(local) => {
                let mut values = Vec::new();
                let domain = local.domain;
                let fixed = [local.bits.0, domain.id, domain.instructions, domain.flags];
                let baseline = 4 * local.bits.words(local.layout());
                // The writer gives the metadata's bytes.
                let mut out = Vec::new();
                telemetry::ReportWriter::new(
                    &TelemetryReport::parse(payload).unwrap().header,
                    &mut out,
                )
                .individual(&report)
                .unwrap();
                values.extend(&out[20..20 + baseline]);
                values.extend(local.domain_metadata());
                (
                    1,
                    inner_type,
                    flags,
                    fixed.map(u64::from).to_vec(),
                    values,
                    inner,
                )
            }
            MainContents::Unsupported {
                report_type,
                inner_type,
                metadata_words,
                bytes,
            } => {
                let fixed = vec![metadata_words.into()];
                let (report_type, inner_type) = (report_type.into(), inner_type.into());
                (
                    report_type,
                    inner_type,
                    flags,
                    fixed,
                    vec![],
                    bytes.to_vec(),
                )
            }
        }
    };
    Some((header, report.individuals().map(plain).collect()))
}

/// Clears the fields of an accepted payload that are ignored upon reception.
fn without_reserved(payload: &[u8]) -> Vec<u8> {
    let mut bytes = payload.to_vec();
    match payload[0] >> 4 {
        0 => {
            bytes[1] &= 0xe0;
            bytes[2] = 0;
            bytes[3] &= 0x3f;
        }
        1 => {
            bytes[1] &= 0xff;
            // Six bits after the metadata bits.
            let first = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            bytes[..4].copy_from_slice(&(first & !0x7e00).to_be_bytes());
        }
        _ => {
            let mut at = 8;
            while at < bytes.len() {
                let words = usize::from(bytes[at + 1]);
                let rest = bytes.len() - at - 4;
                let length = if words == 255 && rest >= 1020 {
                    rest
                } else {
                    4 * words
                };
                bytes[at + 3] &= 0xf0;
                let [report_type, inner_type] = [bytes[at] >> 4, bytes[at] & 0x0f];
                if report_type == 0 {
                    bytes[at + 2] = 0;
                }
                if report_type < 2 && inner_type == 1 {
                    let main = usize::from(report_type) * (8 + 4 * usize::from(bytes[at + 2]));
                    let mut tlv = at + 4 + main;
                    while tlv < at + 4 + length {
                        let kind = bytes[tlv] >> 4;
                        bytes[tlv] &= 0xf0;
                        if (1..=3).contains(&kind) {
                            bytes[tlv + 2] = 0;
                            bytes[tlv + 3] = 0;
                        }
                        tlv += 4 + 4 * usize::from(bytes[tlv + 1]);
                    }
                }
                at += 4 + length;
            }
        }
    }
    bytes
}

/// Domains with each mark.
fn domains() -> Vec<IntDomain> {
    let markers = [
        IntMarker::None,
        IntMarker::Dscp { value: 0, mask: 0 },
        IntMarker::UdpPort(5900),
        IntMarker::Probe(0),
    ];
    let mut domains: Vec<IntDomain> = markers.map(IntDomain::new).into();
    domains[1].source_only = Some(SourceOnly {
        domain: 1,
        instructions: 0xffff,
        words: 3,
    });
    domains
}

/// Reads all that can be read of a payload.
fn read_all(payload: &[u8]) {
    let Ok(report) = TelemetryReport::parse(payload) else {
        return;
    };
    let mut text = String::new();
    for individual in report.individuals() {
        individual.drop_record();
        for domain in domains() {
            let view = ReportView::new(report.header.exporter, &individual, &domain);
            if let ReportedHops::Path(path) = view.hops {
                assert!(path.hops().count() <= path.stack().hop_count() + 1);
                let _ = path.summed_hop_latency();
                let _ = path.first_ingress_to_last_egress(telemetry::EqualClocks);
                path.revisited();
                let mut nodes = path.hops().map(|hop| hop.node);
                let hash = nodes.try_fold(mix(1), |hash, node| {
                    let word = hash.wrapping_add(INCREMENT) ^ u64::from(node?.0);
                    Some(folded_product(word, INCREMENT))
                });
                let is_complete = path.gaps().is_complete();
                assert_eq!(path.path_hash(1), hash.map(mix).filter(|_| is_complete));
            }
            write_json_line(&report.header, &individual, &view, &mut text);
        }
    }
    let mut out = Vec::new();
    report.write(&mut out).unwrap();
    assert_eq!(out, without_reserved(payload));
    // What is written is accepted, and equal but for reserved fields.
    let mut again = Vec::new();
    TelemetryReport::parse(&out)
        .unwrap()
        .write(&mut again)
        .unwrap();
    assert_eq!(again, out);
}

/// Bytes that are mostly small numbers, so that lengths often fit.
fn small_bytes(length: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(
        prop_oneof![3 => 0u8..8, 1 => any::<u8>(), 1 => Just(0xff)],
        0..length,
    )
}

/// Individual reports with lengths that fit, mostly.
fn individual() -> impl Strategy<Value = Vec<u8>> {
    let types = prop_oneof![Just(0u8), Just(1), Just(1), 0u8..16];
    let inner = prop_oneof![0u8..6, 0u8..16];
    let bits = prop_oneof![any::<u16>(), Just(0x4800), Just(0xffff), Just(0)];
    let domain = prop_oneof![4 => Just([0u16; 3]), 1 => any::<[u16; 3]>()];
    let parts = (
        types,
        inner,
        any::<u8>(),
        bits,
        domain,
        small_bytes(60),
        -1i32..2,
        0usize..3,
    );
    parts.prop_map(
        |(report_type, inner_type, flags, bits, domain, mut body, error, extra)| {
            body.truncate(body.len() / 4 * 4);
            let baseline = bits.count_ones() + (bits & 0x0e00).count_ones();
            let mut contents = Vec::new();
            let mut metadata = 0;
            if report_type == 1 {
                metadata = baseline as usize;
                if domain[1] != 0 {
                    metadata += domain[1].count_ones() as usize + extra;
                }
                for field in [bits, domain[0], domain[1], domain[2]] {
                    contents.extend(field.to_be_bytes());
                }
                contents.extend((0..4 * metadata).map(|at| (at * 37) as u8));
            }
            if inner_type == 1 {
                contents.extend([0x20, (body.len() / 4) as u8, 0, 0]);
            }
            contents.extend(body);
            // One in three lengths is wrong by a word.
            let words = (contents.len() / 4) as i32 + if flags % 3 == 0 { error } else { 0 };
            let mut bytes = vec![
                report_type << 4 | inner_type,
                words.clamp(0, 255) as u8,
                metadata as u8,
                flags,
            ];
            bytes.extend(contents);
            bytes
        },
    )
}

fn group() -> impl Strategy<Value = Vec<u8>> {
    (any::<[u8; 8]>(), vec(individual(), 0..5)).prop_map(|(mut header, reports)| {
        header[0] = 0x20 | header[0] & 0x0f;
        [header.to_vec(), reports.concat()].concat()
    })
}

/// An IPv4 or IPv6 packet with bytes after TCP or UDP that often are INT.
fn int_packet() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let words = (0u8..4, 1u8..6, any::<[u8; 2]>(), any::<[u8; 6]>());
    (
        any::<bool>(),
        any::<bool>(),
        words,
        small_bytes(120),
        0u8..3,
    )
        .prop_map(|(is_v6, is_udp, (hops, kind, bits, domain), rest, npt)| {
            let protocol = if is_udp { 17 } else { 6 };
            let mut packet = if is_v6 {
                let mut header = vec![0; 40];
                header[0] = 0x60;
                header[6] = protocol;
                header
            } else {
                let mut header = vec![0; 20];
                header[0] = 0x45;
                header[9] = protocol;
                header
            };
            let mut transport = vec![0; if is_udp { 8 } else { 20 }];
            transport[2..4].copy_from_slice(&5900u16.to_be_bytes());
            if !is_udp {
                transport[12] = 0x50;
            }
            packet.extend(transport);
            let instructions = u16::from_be_bytes(bits);
            let words = instructions.count_ones() + (instructions & 0x0e00).count_ones();
            let length = 3 + hops * words as u8;
            packet.extend([kind << 4 | npt << 2, length, 0, 4]);
            packet.extend([0x20, 0, words as u8, 1]);
            packet.extend(bits);
            packet.extend(if rest.len() % 4 == 0 { domain } else { [0; 6] });
            packet.extend(rest);
            (if is_v6 { 5 } else { 4 }, packet)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_payloads_are_read_without_a_panic_and_written_as_they_came(
        payload in prop_oneof![vec(any::<u8>(), 0..80), small_bytes(80)]
    ) {
        read_all(&payload);
        prop_assert_eq!(first_decoder(&payload), second_decoder(&payload));
    }

    #[test]
    fn groups_are_read_as_by_a_second_decoder(payload in group()) {
        read_all(&payload);
        let expected = second_decoder(&payload).map(|(header, mut reports)| {
            // Templates of packets and reserved bits of TLVs are not kept.
            for report in &mut reports {
                if report.0 < 2 && report.1 == 1 {
                    let mut at = 0;
                    while at < report.5.len() {
                        let length = 4 + 4 * usize::from(report.5[at + 1]);
                        let kind = report.5[at] >> 4;
                        report.5[at] &= 0xf0;
                        if (1..=3).contains(&kind) {
                            report.5[at + 2..at + 4].fill(0);
                        }
                        at += length;
                    }
                }
            }
            (header, reports)
        });
        prop_assert_eq!(first_decoder(&payload), expected);
    }

    #[test]
    fn older_reports_are_written_as_they_came(
        version in 0u8..2,
        length in 4u8..11,
        protocol in 0u8..3,
        bits in 0u32..64,
        low in any::<u32>(),
        rest in vec(any::<u8>(), 0..80),
    ) {
        let length = if version == 1 && low % 4 != 0 { 4 + bits.count_ones() as u8 } else { length };
        let mut first = u32::from(version) << 28 | low & 0x0fff_ffff;
        if version == 1 {
            first = first & !0x0fff_8000 | u32::from(length) << 24
                | u32::from(protocol) << 21 | bits << 15;
        } else {
            first = first & !0x0f00_0000 | u32::from(protocol) << 24;
        }
        let payload = [first.to_be_bytes().to_vec(), rest].concat();
        read_all(&payload);
    }

    #[test]
    fn packets_with_int_are_read_without_a_panic((inner_type, packet) in int_packet()) {
        let words = packet.len() / 4;
        let payload = [
            vec![0x20, 0, 0, 1, 0, 0, 0, 7, inner_type, words as u8, 0, 0x20],
            packet[..4 * words].to_vec(),
        ]
        .concat();
        read_all(&payload);
    }

    #[test]
    fn int_headers_are_written_as_they_came((inner_type, packet) in int_packet()) {
        let kind = if inner_type == 4 { PacketKind::Ipv4 } else { PacketKind::Ipv6 };
        let start = if inner_type == 4 { 20 } else { 40 };
        let shim = start + if packet[start - 11] == 17 || packet[6] == 17 { 8 } else { 20 };
        let _ = ReportedPacket::parse(kind, &packet, &domains()[1]);
        let source_only = domains()[1].source_only;
        if let Ok((int, rest)) = EmbeddedInt::parse(&packet[shim..], source_only.as_ref()) {
            let mut out = Vec::new();
            let is_cut = match int.contents {
                IntContents::Md(stack) => stack.is_cut(),
                IntContents::Mx(header) => header.missing_words > 0,
            };
            prop_assert_eq!(int.write(&mut out).is_err(), is_cut);
            if !is_cut {
                let mut expected = packet[shim..packet.len() - rest.len()].to_vec();
                // Reserved fields.
                match int.contents {
                    IntContents::Md(_) => {
                        expected[5] = 0;
                        expected[6] &= 0x1f;
                        expected[4] &= 0xfe;
                    }
                    IntContents::Mx(_) => {
                        expected[4] &= 0xf8;
                        expected[5..8].fill(0);
                    }
                }
                prop_assert_eq!(out, expected);
            }
        }
    }
}
