//! Tests of checksum completion, segmentation and tags against naive models.

use super::*;
use proptest::prelude::*;

/// The Internet checksum as RFC 1071 words it, to check the fast one against.
fn naive_checksum(bytes: &[u8]) -> u16 {
    let mut total: u32 = 0;
    for (i, byte) in bytes.iter().enumerate() {
        total += if i % 2 == 0 {
            u32::from(*byte) << 8
        } else {
            u32::from(*byte)
        };
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

/// A merged frame: Ethernet, tags, IP, TCP or UDP, payload; with the header that virtio would give.
struct Merged {
    bytes: Vec<u8>,
    header: VnetHeader,
}

fn merged(tags: usize, v6: bool, tcp: bool, payload: &[u8], size: usize) -> Merged {
    let mut bytes = vec![2; 12];
    for _ in 0..tags {
        bytes.extend([0x81, 0x00, 0x00, 0x05]);
    }
    bytes.extend(if v6 { [0x86, 0xdd] } else { [0x08, 0x00] });
    let transport_len = if tcp { 32 } else { 8 };
    let len = transport_len + payload.len();
    let protocol = if tcp { 6 } else { 17 };
    if v6 {
        // A destination option of eight bytes stands before the transport header.
        bytes.extend([0x60, 0, 0, 0]);
        bytes.extend(((len + 8) as u16).to_be_bytes());
        bytes.extend([60, 64]);
        bytes.extend([0x20; 16]);
        bytes.extend([0x30; 16]);
        bytes.extend([protocol, 0, 1, 4, 0, 0, 0, 0]);
    } else {
        bytes.extend([0x45, 0]);
        bytes.extend(((len + 20) as u16).to_be_bytes());
        bytes.extend([0xff, 0xff, 0x40, 0, 64, protocol, 0, 0]);
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    }
    let transport_at = bytes.len();
    if tcp {
        bytes.extend([0x12, 0x34, 0x00, 0x50, 0xff, 0xff, 0xff, 0x00, 0, 0, 0, 1]);
        bytes.extend([0x80, TCP_CWR | TCP_PSH | TCP_FIN | 0x10, 1, 0, 0, 0, 0, 0]);
        bytes.extend([1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
    } else {
        bytes.extend([0x12, 0x34, 0x00, 0x50]);
        bytes.extend((len as u16).to_be_bytes());
        bytes.extend([0, 0]);
    }
    bytes.extend(payload);
    let kind = match (tcp, v6) {
        (true, false) => SegmentKind::Tcp4,
        (true, true) => SegmentKind::Tcp6,
        (false, _) => SegmentKind::Udp,
    };
    let checksum = Some((transport_at, if tcp { 16 } else { 6 }));
    Merged {
        bytes,
        header: VnetHeader {
            checksum,
            segments: Some((kind, size)),
        },
    }
}

/// Whether the TCP or UDP checksum over a segment and its pseudo header is right.
fn transport_checksum_holds(found: &Segments, bytes: &[u8]) -> bool {
    let ip = &bytes[found.network_at..];
    let segment = &bytes[found.transport_at..];
    let mut covered = Vec::new();
    covered.extend(if found.version == Version::V4 {
        &ip[12..20]
    } else {
        &ip[8..40]
    });
    covered.extend((segment.len() as u32).to_be_bytes());
    covered.extend([
        0,
        0,
        0,
        if found.transport == Transport::Tcp {
            6
        } else {
            17
        },
    ]);
    covered.extend(segment);
    naive_checksum(&covered) == 0
}

proptest! {
    #[test]
    fn segments_carry_the_payload_with_sound_headers(
        tags in 0usize..3,
        v6 in any::<bool>(),
        tcp in any::<bool>(),
        payload in prop::collection::vec(any::<u8>(), 1..20_000),
        size in 1usize..9000,
    ) {
        prop_assume!(payload.len() / size < 200);
        let merged = merged(tags, v6, tcp, &payload, size);
        let found = Segments::find(&merged.bytes, &merged.header).unwrap();
        prop_assert_eq!(found.count(), payload.len().div_ceil(size));
        let mut out = Frame::new();
        let mut carried: Vec<u8> = Vec::new();
        for i in 0..found.count() {
            found.write(&merged.bytes, i, &mut out).unwrap();
            let bytes = out.bytes();
            prop_assert!(transport_checksum_holds(&found, bytes), "segment {i}");
            let ip = &bytes[found.network_at..];
            if v6 {
                prop_assert_eq!(usize::from(u16::from_be_bytes([ip[4], ip[5]])), ip.len() - 40);
            } else {
                prop_assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
                prop_assert_eq!(naive_checksum(&ip[..20]), 0);
                let id = 0xffffu16.wrapping_add(i as u16);
                prop_assert_eq!([ip[4], ip[5]], id.to_be_bytes());
            }
            let transport = &bytes[found.transport_at..];
            if tcp {
                let sequence = 0xffff_ff00u32.wrapping_add(carried.len() as u32);
                prop_assert_eq!(&transport[4..8], sequence.to_be_bytes());
                let last = i + 1 == found.count();
                prop_assert_eq!(transport[13] & (TCP_FIN | TCP_PSH) != 0, last);
                prop_assert_eq!(transport[13] & TCP_CWR != 0, i == 0);
            } else {
                prop_assert_eq!(&transport[4..6], (transport.len() as u16).to_be_bytes());
            }
            carried.extend(&bytes[found.payload_at..]);
        }
        prop_assert_eq!(carried, payload);
    }

    #[test]
    fn a_completed_checksum_is_what_the_naive_sum_says(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        start in 0usize..220,
        offset in 0usize..220,
    ) {
        let mut frame = bytes.clone();
        let inside = start + offset + 2 <= bytes.len();
        prop_assert_eq!(complete_checksum(&mut frame, start, offset), inside);
        if inside {
            let expect = match naive_checksum(&bytes[start..]) { 0 => 0xffff, sum => sum };
            let at = start + offset;
            prop_assert_eq!(u16::from_be_bytes([frame[at], frame[at + 1]]), expect);
            frame[at..at + 2].copy_from_slice(&bytes[at..at + 2]);
        }
        prop_assert_eq!(frame, bytes);
    }

    #[test]
    fn a_checksum_left_to_the_interface_is_recognised_and_completed(
        tags in 0usize..3,
        v6 in any::<bool>(),
        tcp in any::<bool>(),
        payload in prop::collection::vec(any::<u8>(), 1..2000),
        wrong in any::<u16>(),
    ) {
        let merged = merged(tags, v6, tcp, &payload, payload.len());
        let found = Segments::find(&merged.bytes, &merged.header).unwrap();
        let mut right = Frame::new();
        found.write(&merged.bytes, 0, &mut right).unwrap();
        let mut frame = right.bytes().to_vec();
        complete_unfinished(&mut frame);
        prop_assert_eq!(&frame, right.bytes(), "a right one stays");
        let at = found.transport_at + if tcp { 16 } else { 6 };
        let addresses = if v6 { 8..40 } else { 12..20 };
        let mut pseudo = frame[found.network_at..][addresses].to_vec();
        pseudo.extend([0, if tcp { 6 } else { 17 }]);
        pseudo.extend(((frame.len() - found.transport_at) as u16).to_be_bytes());
        let unfinished = !naive_checksum(&pseudo);
        frame[at..at + 2].copy_from_slice(&unfinished.to_be_bytes());
        // Padding behind the packet is no part of it.
        frame.extend([1; 5]);
        complete_unfinished(&mut frame);
        prop_assert!(transport_checksum_holds(&found, &frame[..right.len()]));
        prop_assert_eq!(&frame[right.len()..], [1; 5]);
        prop_assume!(wrong != unfinished);
        frame[at..at + 2].copy_from_slice(&wrong.to_be_bytes());
        let before = frame.clone();
        complete_unfinished(&mut frame);
        prop_assert_eq!(frame, before, "a wrong one is the sender's");
    }

    #[test]
    fn no_bytes_make_the_search_for_headers_panic(
        ethertype in prop::sample::select(vec![[0x08u8, 0x00], [0x86, 0xdd], [0x81, 0x00]]),
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        size in 0usize..2000,
        gso in 0u8..6,
    ) {
        let mut frame = vec![1; 12];
        frame.extend(ethertype);
        frame.extend(&bytes);
        complete_unfinished(&mut frame);
        let half = (size as u16).to_ne_bytes();
        let header = VnetHeader::parse(&[0, gso, 0, 0, half[0], half[1], 0, 0, 0, 0]);
        if let Some(found) = Segments::find(&frame, &header) {
            let mut out = Frame::new();
            for i in 0..found.count() {
                found.write(&frame, i, &mut out).unwrap();
            }
        }
    }
}

#[test]
fn what_cannot_be_taken_apart_is_not_found() {
    let mut inside_a_tunnel = merged(0, false, true, &[1; 3000], 1000);
    inside_a_tunnel.header.checksum = Some((90, 16));
    let mut other_kind = merged(0, false, true, &[1; 3000], 1000);
    other_kind.header.segments = Some((SegmentKind::Other, 1000));
    let mut wrong_version = merged(0, true, true, &[1; 3000], 1000);
    wrong_version.header.segments = Some((SegmentKind::Tcp4, 1000));
    let no_size = merged(0, false, true, &[1; 3000], 0);
    for merged in [inside_a_tunnel, other_kind, wrong_version, no_size] {
        assert_eq!(
            Segments::find(&merged.bytes, &merged.header),
            None,
            "{:?}",
            merged.header
        );
    }
}

#[test]
fn a_tag_goes_between_the_addresses_and_the_type() {
    let mut frame = Frame::from_bytes(&[1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 8, 0, 0x45]).unwrap();
    insert_vlan(&mut frame, 0x88a8, 0x2005).unwrap();
    let expect = [
        1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x88, 0xa8, 0x20, 0x05, 8, 0, 0x45,
    ];
    assert_eq!(frame.bytes(), expect);
    let mut short = Frame::from_bytes(&[1; 11]).unwrap();
    assert!(insert_vlan(&mut short, 0x8100, 1).is_err());
    assert_eq!(short.bytes(), [1; 11]);
}

#[test]
fn virtios_header_is_read_in_the_machines_byte_order() {
    let mut header = [0; 10];
    header[0] = 1;
    header[1] = 0x81;
    header[4..6].copy_from_slice(&1448u16.to_ne_bytes());
    header[6..8].copy_from_slice(&34u16.to_ne_bytes());
    header[8..10].copy_from_slice(&16u16.to_ne_bytes());
    let expect = VnetHeader {
        checksum: Some((34, 16)),
        segments: Some((SegmentKind::Tcp4, 1448)),
    };
    assert_eq!(VnetHeader::parse(&header), expect);
    assert_eq!(VnetHeader::parse(&[0; 10]), VnetHeader::default());
}
