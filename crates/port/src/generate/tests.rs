//! Tests of the generator: frames match the request, and have correct lengths and checksums.

use super::*;
use crate::PcapReader;
use proptest::prelude::*;
use std::collections::HashMap;

fn generator(count: usize, order: Order, sizes: &Sizes, seed: u64) -> Generator {
    Generator::new(vec![Template::udp4()], Flows { count, order }, sizes, seed).unwrap()
}

/// Returns the next `n` frames with their flows.
fn make(generator: &mut Generator, n: usize) -> Vec<(usize, Vec<u8>)> {
    let mut frame = Frame::new();
    let mut one = || (generator.make(&mut frame), frame.bytes().to_vec());
    (0..n).map(|_| one()).collect()
}

/// Returns the Internet checksum of `bytes`, computed as in RFC 1071. It is zero if `bytes`
/// contain a correct checksum.
fn naive_checksum(bytes: &[u8]) -> u16 {
    let total = bytes.chunks(2).fold(0u32, |total, word| {
        let total = total + (u32::from(word[0]) << 8) + u32::from(*word.get(1).unwrap_or(&0));
        (total & 0xffff) + (total >> 16)
    });
    !(total as u16)
}

/// Panics if a frame has a wrong length or checksum. `at` is the offset of its IP header.
fn check_sound(bytes: &[u8], at: usize, protocol: u8, transport_at: usize) {
    let ip = &bytes[at..];
    let mut pseudo = if ip[0] >> 4 == 4 {
        assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
        assert_eq!(naive_checksum(&ip[..transport_at - at]), 0);
        ip[12..20].to_vec()
    } else {
        assert_eq!(
            usize::from(u16::from_be_bytes([ip[4], ip[5]])) + 40,
            ip.len()
        );
        ip[8..40].to_vec()
    };
    let segment = &bytes[transport_at..];
    if protocol == 17 {
        assert_eq!(
            usize::from(u16::from_be_bytes([segment[4], segment[5]])),
            segment.len()
        );
        if segment[6..8] == [0, 0] {
            return;
        }
    }
    pseudo.extend([0, protocol]);
    pseudo.extend((segment.len() as u16).to_be_bytes());
    pseudo.extend(segment);
    assert_eq!(naive_checksum(&pseudo), 0);
}

/// Builds a frame with a transport checksum. Returns it with the offsets of its IP and transport
/// headers.
fn packet(tags: usize, v6: bool, protocol: u8) -> (Vec<u8>, usize, usize) {
    let mut bytes = vec![2; 12];
    (0..tags).for_each(|_| bytes.extend([0x81, 0, 0, 5]));
    let at = bytes.len() + 2;
    let transport_len = if protocol == 6 { 24 } else { 8 };
    if v6 {
        bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, transport_len, protocol, 64]);
        bytes.extend([0x20; 16]);
        bytes.extend([0x30; 16]);
    } else {
        bytes.extend([
            0x08,
            0x00,
            0x46,
            0,
            0,
            24 + transport_len,
            0,
            0,
            0x40,
            0,
            64,
            protocol,
            0,
            0,
        ]);
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2, 1, 1, 1, 1]);
    }
    let transport_at = bytes.len();
    bytes.extend([0x12, 0x34, 0, 80]);
    match protocol {
        6 => bytes.extend([
            0, 0, 0, 1, 0, 0, 0, 2, 0x60, 0x10, 1, 0, 1, 1, 0, 0, 1, 1, 1, 1,
        ]),
        _ => bytes.extend([0, 8, 1, 1]),
    }
    (bytes, at, transport_at)
}

proptest! {
    #[test]
    fn packets_of_every_length_and_flow_are_sound(
        tags in 0usize..3,
        v6 in any::<bool>(),
        tcp in any::<bool>(),
        lengths in prop::collection::vec(110usize..2000, 1..5),
        first in any::<u64>(),
        seed in any::<u64>(),
    ) {
        let protocol = if tcp { 6 } else { 17 };
        let (bytes, at, transport_at) = packet(tags, v6, protocol);
        let addresses = if v6 { 8 } else { 12 };
        let any = |count| Values::From { first, count };
        let template = Template::new(bytes)
            .vary(at + addresses, if v6 { 8 } else { 4 }, any(7))
            .vary(transport_at + 1, 3, any(5))
            .vary(101, 3, Values::List(vec![first, first + 1]))
            .vary(3, 2, any(3))
            .vary(if v6 { at + 1 } else { at + 5 }, 1, any(2));
        let flows = Flows { count: 210, order: Order::Zipf { skew: 0.5 } };
        let sizes = Sizes::Mix(lengths.iter().map(|len| (*len, 1)).collect());
        let mut made = Generator::new(vec![template], flows, &sizes, seed).unwrap();
        for (_, frame) in make(&mut made, 300) {
            prop_assert!(lengths.contains(&frame.len()));
            check_sound(&frame, at, protocol, transport_at);
        }
    }

    #[test]
    fn flows_in_turn_are_all_different_and_come_again(count in 1usize..3000, seed in any::<u64>()) {
        let (bytes, at, transport_at) = packet(0, false, 17);
        let few = |count| Values::From { first: 0xfffe, count };
        let template = Template::new(bytes)
            .vary(at + 16, 4, few(50))
            .vary(transport_at, 2, few(60));
        let flows = Flows { count, order: Order::InTurn };
        let mut generator =
            Generator::new(vec![template], flows, &Sizes::Fixed(64), seed).unwrap();
        let round = make(&mut generator, count);
        let flows: Vec<usize> = round.iter().map(|(flow, _)| *flow).collect();
        prop_assert_eq!(flows, (0..count).collect::<Vec<_>>());
        let mut frames: Vec<Vec<u8>> = round.iter().map(|(_, frame)| frame.clone()).collect();
        frames.iter().for_each(|frame| check_sound(frame, at, 17, transport_at));
        prop_assert_eq!(make(&mut generator, count), round);
        frames.sort();
        frames.dedup();
        prop_assert_eq!(frames.len(), count);
    }
}

#[test]
fn the_same_seed_makes_the_same_frames_and_another_makes_others() {
    let order = Order::Zipf { skew: 1.0 };
    let frames = |seed| make(&mut generator(1000, order, &Sizes::imix(), seed), 500);
    assert_eq!(frames(1), frames(1));
    assert_ne!(frames(1), frames(2));
}

#[test]
fn batches_of_any_size_are_filled_with_the_same_frames() {
    let order = Order::Zipf { skew: 1.0 };
    let one_by_one: Vec<Vec<u8>> = make(&mut generator(1000, order, &Sizes::imix(), 5), 300)
        .into_iter()
        .map(|(_, frame)| frame)
        .collect();
    for capacity in [1, 7, 64, 100, 300] {
        let mut generator = generator(1000, order, &Sizes::imix(), 5);
        let mut batch = Batch::with_capacity(capacity);
        let mut frames = Vec::new();
        while frames.len() < 300 {
            batch.clear();
            assert_eq!(generator.fill(&mut batch, PortId(0), Nanos::ZERO), capacity);
            frames.extend(batch.frames().iter().map(|frame| frame.bytes().to_vec()));
        }
        assert!(frames[..300] == one_by_one, "{capacity}");
    }
}

#[test]
fn the_usual_template_is_a_sound_packet_of_the_shortest_length() {
    let mut as_it_is = generator(1, Order::InTurn, &Sizes::OfTemplates, 0);
    let (_, frame) = make(&mut as_it_is, 1).remove(0);
    assert_eq!(frame, Template::udp4().bytes);
    assert_eq!(frame.len(), 60);
    check_sound(&frame, 14, 17, 34);
}

/// Returns the frequencies of the flows in `n` frames, in descending order.
fn ranks(count: usize, skew: f64, n: usize) -> Vec<f64> {
    let mut generator = generator(count, Order::Zipf { skew }, &Sizes::OfTemplates, 7);
    let mut counts: HashMap<usize, usize> = HashMap::new();
    for (flow, _) in make(&mut generator, n) {
        *counts.entry(flow).or_default() += 1;
    }
    let mut counts: Vec<f64> = counts.values().map(|n| *n as f64).collect();
    counts.sort_by(|a, b| b.total_cmp(a));
    counts.resize(count, 0.0);
    counts
}

#[test]
fn frequencies_follow_zipfs_law() {
    for skew in [0.6, 1.0, 1.3] {
        let (count, n) = (200, 200_000);
        let harmonic: f64 = (1..=count).map(|r| (r as f64).powf(-skew)).sum();
        let counts = ranks(count, skew, n);
        // The chi-squared statistic of 199 degrees of freedom is below 290 with a probability of
        // 0.99997. Sorting by count can only lower it.
        let chi: f64 = (1..=count)
            .map(|r| {
                let expected = n as f64 * (r as f64).powf(-skew) / harmonic;
                (counts[r - 1] - expected).powi(2) / expected
            })
            .sum();
        assert!(chi < 290.0, "skew {skew}: {chi}");
    }
}

#[test]
fn without_skew_all_flows_are_equally_likely() {
    let counts = ranks(100, 0.0, 100_000);
    assert!(counts[0] < 1150.0 && counts[99] > 850.0, "{counts:?}");
}

#[test]
fn frequent_flows_are_no_neighbours() {
    let mut generator = generator(1 << 16, Order::Zipf { skew: 3.0 }, &Sizes::OfTemplates, 1);
    let mut flows: Vec<usize> = make(&mut generator, 100)
        .iter()
        .map(|(flow, _)| *flow)
        .collect();
    flows.sort();
    flows.dedup();
    assert!(flows.len() > 3);
    assert!(
        flows.windows(2).all(|pair| pair[1] - pair[0] > 100),
        "{flows:?}"
    );
}

#[test]
fn lengths_come_as_often_as_their_weights_say() {
    let mut generator = generator(1, Order::InTurn, &Sizes::imix(), 3);
    let mut counts: HashMap<usize, usize> = HashMap::new();
    for (_, frame) in make(&mut generator, 12_000) {
        check_sound(&frame, 14, 17, 34);
        *counts.entry(frame.len()).or_default() += 1;
    }
    for (len, expected) in [(60, 7000), (590, 4000), (1514, 1000)] {
        let got = counts.remove(&len).unwrap();
        assert!(got.abs_diff(expected) < 250, "{len}: {got}");
    }
    assert!(counts.is_empty());
}

#[test]
fn lengths_between_two_are_all_made() {
    let mut generator = generator(1, Order::InTurn, &Sizes::Between(60, 79), 3);
    let mut lengths: Vec<usize> = make(&mut generator, 1000)
        .iter()
        .map(|(_, f)| f.len())
        .collect();
    lengths.sort();
    lengths.dedup();
    assert_eq!(lengths, (60..80).collect::<Vec<_>>());
}

#[test]
fn a_capture_is_played_as_it_is_again_and_again() {
    let packets: Vec<Vec<u8>> = (1..=3).map(|i| vec![i; 20 * usize::from(i)]).collect();
    // A pcap file: a file header, then each packet after a record of four numbers. The last two
    // are lengths.
    let header = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1];
    let mut file: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    for bytes in &packets {
        let len = bytes.len() as u32;
        file.extend([0, 0, len, len].iter().flat_map(|word| word.to_le_bytes()));
        file.extend(bytes);
    }
    let input = Box::new(std::io::Cursor::new(file));
    let mut reader = PcapReader::new("memory".to_owned(), input).unwrap();
    let templates = Template::from_capture(&mut reader, 10).unwrap();
    let flows = Flows {
        count: templates.len(),
        order: Order::InTurn,
    };
    let mut generator = Generator::new(templates, flows, &Sizes::OfTemplates, 0).unwrap();
    let mut batch = Batch::with_capacity(7);
    assert_eq!(generator.fill(&mut batch, PortId(2), Nanos(9)), 7);
    for (i, frame) in batch.frames().iter().enumerate() {
        assert_eq!(frame.bytes(), packets[i % 3]);
        assert_eq!((frame.ingress, frame.arrival), (PortId(2), Nanos(9)));
    }
    assert_eq!(generator.fill(&mut batch, PortId(2), Nanos(9)), 0);
}

#[test]
fn what_cannot_be_made_is_refused_with_the_reason() {
    let new = |template: Template, count, skew, sizes: Sizes| {
        let flows = Flows {
            count,
            order: Order::Zipf { skew },
        };
        Generator::new(vec![template], flows, &sizes, 0)
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    let usual = Template::udp4;
    let check = |got: String, start: &str| assert!(got.starts_with(start), "{got}");
    let flows = Flows {
        count: 1,
        order: Order::InTurn,
    };
    let none = Generator::new(Vec::new(), flows, &Sizes::OfTemplates, 0);
    check(
        none.map(drop).unwrap_err().to_string(),
        "there is no packet to make others like",
    );
    check(new(usual(), 0, 0.0, Sizes::Fixed(60)), "0 flows are wanted");
    check(
        new(usual(), (1 << 24) + 1, 0.0, Sizes::Fixed(60)),
        "the fields of template 0 have values for 16777216 flows",
    );
    check(
        new(usual(), 1, -1.0, Sizes::Fixed(60)),
        "a skew of -1 is none",
    );
    check(
        new(usual(), 1, f64::NAN, Sizes::Fixed(60)),
        "a skew of NaN is none",
    );
    check(
        new(usual(), 1, 0.0, Sizes::Fixed(41)),
        "packets of 41 bytes are wanted, but the headers of template 0 take 42",
    );
    check(
        new(usual(), 1, 0.0, Sizes::Fixed(65536)),
        "packets of 65536 bytes are wanted: the longest",
    );
    check(
        new(usual(), 1, 0.0, Sizes::Between(70, 60)),
        "there is no packet size",
    );
    check(
        new(usual(), 1, 0.0, Sizes::Mix(vec![(60, 0)])),
        "there is no packet size",
    );
    let two = Values::From { first: 0, count: 2 };
    for (at, len) in [(24, 2), (38, 1), (32, 4), (0, 9), (50, 0)] {
        let refused = new(usual().vary(at, len, two.clone()), 1, 0.0, Sizes::Fixed(60));
        check(
            refused,
            &format!("the field at byte {at} of template 0 cannot vary"),
        );
    }
    check(
        new(usual().vary(60, 2, two), 1, 0.0, Sizes::OfTemplates),
        "packets of 60 bytes are wanted, but the headers of template 0 take 62",
    );
}
