//! Tests of checksum completion, segmentation and VLAN tags against naive models.

use super::*;
use crate::nest::{Made, Part, Position, make, naive_checksum, parts};
use proptest::prelude::*;

/// Returns a correct frame in which the `n`-th checksum, innermost first, is left to the
/// interface. Outer checksums are computed as if it were complete. Also returns the start of the
/// sum and the offset of the field from there.
fn left_to_the_interface(right: &Made, n: usize) -> Option<(Vec<u8>, usize, usize)> {
    let checksum = right.checksums.iter().rev().nth(n)?;
    let mut bytes = right.bytes.clone();
    if checksum.is_crc {
        bytes[checksum.at..checksum.at + 4].fill(0);
    } else {
        bytes[checksum.at..checksum.at + 2].copy_from_slice(&checksum.pseudo.to_be_bytes());
    }
    Some((bytes, checksum.start, checksum.at - checksum.start))
}

/// Returns the virtio header of a merged frame with these headers.
fn merged_header(parts: &[Part], made: &Made, size: usize, told: bool) -> VnetHeader {
    let last = made.checksums.last().unwrap();
    let is_six = |part: &&Part| matches!(part, Part::V4(_) | Part::V6(_));
    let kind = match (parts.last(), parts.iter().rev().find(is_six)) {
        (Some(Part::Udp(..)), _) => SegmentKind::Udp,
        (_, Some(Part::V6(_))) => SegmentKind::Tcp6,
        _ => SegmentKind::Tcp4,
    };
    VnetHeader {
        checksum: told.then_some((last.start, last.at - last.start)),
        segments: Some((kind, size)),
    }
}

proptest! {
    #[test]
    fn segments_are_what_the_sender_would_have_sent_one_by_one(
        parts in parts().prop_filter("no SCTP", |p| p.last() != Some(&Part::Sctp)),
        payload in prop::collection::vec(any::<u8>(), 1..6_000),
        size in 1usize..3000,
        told in any::<bool>(),
    ) {
        prop_assume!(payload.len() / size < 200);
        let merged = make(&parts, &payload, Position::default());
        let header = merged_header(&parts, &merged, size, told);
        let found = Segments::find(&merged.bytes, &header).unwrap();
        prop_assert_eq!(found.count(), payload.len().div_ceil(size));
        let mut out = Frame::new();
        for (i, part) in payload.chunks(size).enumerate() {
            found.write(&merged.bytes, i, &mut out).unwrap();
            let position = Position {
                segment: i as u16,
                skipped: (i * size) as u32,
                is_not_last: i + 1 < found.count(),
            };
            let expect = make(&parts, part, position);
            prop_assert!(out.bytes() == expect.bytes, "segment {i} of {parts:?}");
        }
    }

    #[test]
    fn a_checksum_left_to_the_interface_is_completed_at_any_depth(
        parts in parts(),
        payload in prop::collection::vec(any::<u8>(), 1..300),
        depth in 0usize..3,
        padding in 0usize..2,
    ) {
        let right = make(&parts, &payload, Position::default());
        let mut same = right.bytes.clone();
        complete_unfinished(&mut same);
        prop_assert_eq!(&same, &right.bytes, "a right one stays");
        let Some((mut frame, start, offset)) = left_to_the_interface(&right, depth) else {
            return Ok(());
        };
        let mut by_offset = frame.clone();
        prop_assert!(complete_checksum(&mut by_offset, start, offset));
        prop_assert_eq!(&by_offset, &right.bytes, "by the kernel's offsets");
        // An incomplete GRE checksum cannot be distinguished from a wrong one. No kernel leaves it
        // to the interface.
        if offset == 4 {
            return Ok(());
        }
        // Padding after the packet is not part of it.
        frame.extend(vec![0; padding * 9]);
        complete_unfinished(&mut frame);
        prop_assert_eq!(&frame[..right.bytes.len()], &right.bytes[..], "{:?}", parts);
    }

    #[test]
    fn a_wrong_checksum_is_the_senders(
        parts in parts(),
        payload in prop::collection::vec(any::<u8>(), 1..300),
        wrong in 1u16..,
    ) {
        let right = make(&parts, &payload, Position::default());
        let last = right.checksums.last().unwrap();
        prop_assume!(wrong != last.pseudo);
        let mut frame = right.bytes.clone();
        frame[last.at..last.at + 2].copy_from_slice(&wrong.to_be_bytes());
        let before = frame.clone();
        complete_unfinished(&mut frame);
        prop_assert_eq!(frame, before);
    }

    #[test]
    fn a_captured_frame_in_a_payload_that_is_sound_stays(
        tunnel in prop::sample::select(vec![4789u16, 6081, 7777]),
        payload in prop::collection::vec(any::<u8>(), 1..300),
        is_left in any::<bool>(),
    ) {
        // The captured frame inside has a checksum that was left to an interface. Outside is the
        // sender's own checksum.
        let shim = if tunnel == 6081 { Part::Geneve(0) } else { Part::Vxlan };
        let inside = [Part::Ethernet(0), Part::V4(false), Part::Udp(80, true)];
        let captured = make(&inside, &payload, Position::default());
        let (captured, ..) = left_to_the_interface(&captured, 0).unwrap();
        let outside = [Part::Ethernet(0), Part::V4(false), Part::Udp(tunnel, true), shim];
        let right = make(&outside, &captured, Position::default());
        // Excludes the 1 in 65,536 cases in which the outer checksum equals the pseudo header's
        // sum.
        let mut frame = match is_left {
            true => left_to_the_interface(&right, 0).unwrap().0,
            false => right.bytes.clone(),
        };
        prop_assume!(right.bytes[40..42] != right.checksums[0].pseudo.to_be_bytes());
        complete_unfinished(&mut frame);
        let inside_stays = frame[50..] == right.bytes[50..];
        prop_assert!(inside_stays);
        prop_assert_eq!(frame, right.bytes);
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
            let is_udp = offset == 6;
            let expect = match naive_checksum(&bytes[start..]) { 0 if is_udp => 0xffff, sum => sum };
            let at = start + offset;
            prop_assert_eq!(u16::from_be_bytes([frame[at], frame[at + 1]]), expect);
            frame[at..at + 2].copy_from_slice(&bytes[at..at + 2]);
        }
        prop_assert_eq!(frame, bytes);
    }

    #[test]
    fn no_bytes_make_the_search_for_headers_panic(
        ethertype in prop::sample::select(vec![[0x08u8, 0x00], [0x86, 0xdd], [0x81, 0x00]]),
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        size in 0usize..2000,
        start in 0usize..130,
        gso in 0u8..6,
    ) {
        let mut frame = vec![1; 12];
        frame.extend(ethertype);
        frame.extend(&bytes);
        complete_unfinished(&mut frame);
        let [half, start] = [size, start].map(|n| (n as u16).to_ne_bytes());
        for flags in 0..2 {
            let header = [flags, gso, 0, 0, half[0], half[1], start[0], start[1], 16, 0];
            let header = VnetHeader::parse(&header);
            if let Some(found) = Segments::find(&frame, &header) {
                let mut out = Frame::new();
                for i in 0..found.count() {
                    found.write(&frame, i, &mut out).unwrap();
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_taken_apart_is_not_found() {
    let tcp = |ip: Part| {
        let parts = vec![Part::Ethernet(0), ip, Part::Tcp];
        let made = make(&parts, &[1; 3000], Position::default());
        let header = merged_header(&parts, &made, 1000, true);
        (made.bytes, header)
    };
    let (bytes, header) = tcp(Part::V4(false));
    assert!(Segments::find(&bytes, &header).is_some());
    let check = |bytes: &[u8], header: VnetHeader| {
        assert_eq!(Segments::find(bytes, &header), None, "{header:?}");
    };
    let elsewhere = Some((90, 16));
    check(
        &bytes,
        VnetHeader {
            checksum: elsewhere,
            ..header
        },
    );
    let other = Some((SegmentKind::Other, 1000));
    check(
        &bytes,
        VnetHeader {
            segments: other,
            ..header
        },
    );
    let no_size = Some((SegmentKind::Tcp4, 0));
    check(
        &bytes,
        VnetHeader {
            segments: no_size,
            ..header
        },
    );
    let mut fragment = bytes.clone();
    fragment[20] = 0x20;
    check(&fragment, header);
    let (bytes, header) = tcp(Part::V6(0));
    let other_version = Some((SegmentKind::Tcp4, 1000));
    check(
        &bytes,
        VnetHeader {
            segments: other_version,
            ..header
        },
    );
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
