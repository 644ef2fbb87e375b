//! Tests of translations: what is refused, and the rules of flows that are not.

use super::*;
use crate::flow::{ChecksumTest, Edit, LengthRange, MatchedBits, Met, Summed};
use crate::tc::{Field, PeditHeader, PeditKey};

const PLAIN: TranslateOptions = TranslateOptions {
    no_ip_options: true,
    valid_ip_checksums: false,
    shortest: 60,
    longest: 9216,
    planes: RulePlanes::Both,
};

fn flow(matched: &[(u32, &[u8])], mut steps: Vec<Step>) -> Flow {
    let bits = |(offset, value): &(u32, &[u8])| MatchedBits {
        offset: *offset,
        value: value.to_vec(),
        mask: vec![0xFF; value.len()],
    };
    steps.push(Step::Output(PortId(1)));
    Flow {
        ingress: PortId(0),
        matched: matched.iter().map(bits).collect(),
        length: LengthRange { min: 34, max: 9216 },
        checksums: Vec::new(),
        steps,
        drop: None,
        met: Met::default(),
    }
}

fn of(flow: &Flow, options: &TranslateOptions) -> Result<FlowerRule, String> {
    let interfaces = Interfaces::from([(PortId(1), 7)]);
    translate(flow, &interfaces, options).map_err(|reason| reason.to_string())
}

fn set(offset: u32, value: &[u8]) -> Step {
    let (value, mask) = (value.to_vec(), vec![0xFF; value.len()]);
    Step::Edit(Edit::Set {
        offset,
        value,
        mask,
    })
}

fn set_masked(offset: u32, value: &[u8], mask: &[u8]) -> Step {
    let (value, mask) = (value.to_vec(), mask.to_vec());
    Step::Edit(Edit::Set {
        offset,
        value,
        mask,
    })
}

fn insert(offset: u32, bytes: &[u8]) -> Step {
    Step::Edit(Edit::Insert {
        offset,
        bytes: bytes.to_vec(),
    })
}

fn delete(offset: u32, len: u32) -> Step {
    Step::Edit(Edit::Delete { offset, len })
}

fn checksum(over: Vec<Summed>) -> Step {
    Step::Edit(Edit::Checksum { offset: 24, over })
}

fn header_checksum() -> Step {
    let bytes = |offset, len| Summed::Bytes { offset, len };
    checksum(vec![bytes(14, 10), bytes(26, 8)])
}

const IP: (u32, &[u8]) = (12, &[8, 0]);
const TAGGED: (u32, &[u8]) = (12, &[0x81, 0]);
const TAGGED_IP: (u32, &[u8]) = (16, &[8, 0]);
const MPLS_FRAME: (u32, &[u8]) = (12, &[0x88, 0x47]);

#[test]
fn flows_without_an_exact_rule_are_refused_with_the_reason() {
    let mut long = flow(&[IP], vec![]);
    long.length.min = 61;
    let mut short = flow(&[IP], vec![]);
    short.length.max = 1500;
    let mut elsewhere = flow(&[IP], vec![]);
    elsewhere.steps = vec![Step::Output(PortId(9))];
    let mut part = flow(&[(12, &[8])], vec![]);
    part.matched[0].mask = vec![0x08];
    part.matched[0].value = vec![0];
    let new_address = || set(30, &[1, 2, 3, 4]);
    let all_but_two = vec![Summed::Bytes {
        offset: 14,
        len: 10,
    }];
    let with_payload = vec![Summed::Rest { offset: 34 }];
    let cases = [
        (long, "length"),
        (short, "length"),
        (elsewhere, "no interface"),
        (part, "part of the EtherType"),
        (flow(&[(12, &[0, 46])], vec![]), "is a length"),
        // The number that means "each protocol" in the kernel.
        (flow(&[(12, &[0, 3])], vec![]), "is a length"),
        (
            flow(&[(12, &[0x81, 0, 0, 5, 0x81, 0])], vec![]),
            "second VLAN tag",
        ),
        (flow(&[(12, &[0x81, 0, 0x10, 5])], vec![]), "vlan.tci"),
        (
            flow(&[IP, (16, &[0, 60, 1, 2])], vec![]),
            "ipv4.total_length, ipv4.identification, for which",
        ),
        (flow(&[IP, (14, &[0x46])], vec![]), "ipv4.ihl"),
        (flow(&[IP, (36, &[7, 0xD0])], vec![]), "byte 36"),
        (
            flow(&[(12, &[0x86, 0xDD]), (30, &[1])], vec![]),
            "no prefix",
        ),
        (flow(&[(12, &[0x88, 0xB5, 1])], vec![]), "byte 14"),
        (
            flow(&[IP], vec![new_address()]),
            "leaves its checksum as it was",
        ),
        (
            flow(&[IP], vec![header_checksum(), new_address()]),
            "leaves its checksum as it was",
        ),
        (
            flow(&[IP], vec![new_address(), checksum(all_but_two)]),
            "not that of the whole",
        ),
        (
            flow(&[IP], vec![new_address(), checksum(with_payload)]),
            "checksum of TCP, UDP or ICMP",
        ),
        (flow(&[IP], vec![set(24, &[0, 0])]), "a value of its own"),
        (flow(&[IP], vec![set(14, &[0x46])]), "header's length"),
        (
            flow(&[IP, (23, &[17])], vec![set(36, &[1, 1])]),
            "checksum of TCP, UDP or ICMP",
        ),
        (
            flow(&[(12, &[0x86, 0xDD])], vec![set(38, &[1])]),
            "checksum of TCP, UDP or ICMP",
        ),
        (
            flow(&[(12, &[0x88, 0xB5])], vec![set(20, &[1])]),
            "byte 20, which is in no header that actions change",
        ),
        // An offset of the changed frame is no byte of the frame as it came in.
        (
            flow(
                &[IP],
                vec![checksum(vec![Summed::Bytes {
                    offset: 14,
                    len: 9_000,
                }])],
            ),
            "needs offset 60 of the changed frame",
        ),
        (flow(&[IP], vec![insert(14, &[0, 0, 0x31, 8])]), "label 3"),
        (
            flow(&[IP], vec![insert(14, &[1, 0, 0x31, 0])]),
            "time to live 0",
        ),
        (
            flow(&[IP], vec![insert(14, &[1, 2])]),
            "no VLAN tag and no MPLS entry",
        ),
        (flow(&[IP], vec![insert(20, &[1, 2, 3, 4])]), "moves bytes"),
        (
            flow(&[IP], vec![insert(12, &[0x81, 0, 0x10, 5])]),
            "drop eligible",
        ),
        (
            flow(&[IP], vec![insert(12, &[0x81, 0, 0x0F, 0xFF])]),
            "4095",
        ),
        (
            flow(&[IP], vec![delete(14, 4)]),
            "no VLAN tag and no MPLS entry",
        ),
        (flow(&[IP], vec![delete(0, 4)]), "moves bytes"),
        (
            flow(&[TAGGED], vec![set_masked(14, &[0, 5], &[0x0F, 0xFF])]),
            "does not match the rest",
        ),
        (flow(&[TAGGED], vec![set(14, &[0x10, 5])]), "drop eligible"),
    ];
    for (flow, words) in cases {
        match of(&flow, &PLAIN) {
            Err(reason) => assert!(reason.contains(words), "{reason}: not '{words}'"),
            Ok(rule) => panic!("not refused for '{words}': {rule:?}"),
        }
    }
}

#[test]
fn what_only_the_owner_knows_is_not_assumed() {
    let new_address = vec![set(30, &[1, 2, 3, 4]), header_checksum()];
    let cases = [
        flow(&[IP, (14, &[0x45])], vec![]),
        // Zeros, as the kernel has them for a header that is too short.
        flow(&[IP, (15, &[0])], vec![]),
        flow(&[IP, (22, &[0])], vec![]),
        flow(&[IP, (23, &[0])], vec![]),
        flow(&[IP, (23, &[17]), (36, &[7, 0xD0])], vec![]),
        flow(&[IP], new_address),
        flow(&[(12, &[0x86, 0xDD]), (20, &[17])], vec![]),
    ];
    for flow in cases {
        let reason =
            of(&flow, &TranslateOptions::default()).expect_err("it relies on the owner's word");
        assert!(reason.contains("no-ip-options"), "{reason}");
        of(&flow, &PLAIN).expect("the owner says so");
    }
}

fn key(field: Field, value: u128) -> super::super::Key {
    super::super::Key {
        field,
        value,
        mask: field.all(),
    }
}

#[test]
fn a_flow_that_leaves_the_ether_type_open_gets_a_rule_for_fewer_frames() {
    let source = flow(&[(26, &[2, 2, 2, 3])], vec![]);
    let rule = of(&source, &PLAIN).expect("there is a rule");
    assert_eq!(rule.protocol, 0x0800);
    assert_eq!(rule.keys, [key(Field::Ipv4Src, 0x0202_0203)]);
    let address = flow(&[(0, &[2, 0, 0, 0, 0, 1])], vec![]);
    let rule = of(&address, &PLAIN).expect("there is a rule");
    assert_eq!(rule.protocol, super::super::rule::ANY_PROTOCOL);
}

#[test]
fn a_flow_of_unfragmented_packets_says_so() {
    let ports = flow(&[IP, (20, &[0, 0]), (23, &[17]), (36, &[7, 0xD0])], vec![]);
    // The bit "don't fragment" has no key.
    assert!(of(&ports, &PLAIN).is_err());
    let mut ports = ports;
    let at = ports
        .matched
        .iter()
        .position(|bits| bits.offset == 20)
        .expect("it is there");
    ports.matched[at].mask = vec![0x3F, 0xFF];
    let rule = of(&ports, &PLAIN).expect("there is a rule");
    assert_eq!(rule.key(Field::Fragment).map(|key| key.value), Some(0));
    assert_eq!(rule.key(Field::DstPort).map(|key| key.value), Some(2000));
}

#[test]
fn a_key_that_is_zero_in_fragments_does_not_take_them() {
    let tcp = (23, &[6u8] as &[u8]);
    for zero in [(34, &[0u8, 0] as &[u8]), (36, &[0, 0])] {
        let rule = of(&flow(&[IP, tcp, zero], vec![]), &PLAIN).expect("there is a rule");
        assert_eq!(rule.key(Field::Fragment).map(|key| key.value), Some(0));
    }
    let mut flags = flow(&[IP, tcp, (47, &[0])], vec![]);
    flags.matched[2].mask = vec![0x02];
    let rule = of(&flags, &PLAIN).expect("there is a rule");
    assert_eq!(rule.key(Field::Fragment).map(|key| key.value), Some(0));
    let rule = of(&flow(&[IP, tcp, (36, &[7, 0xD0])], vec![]), &PLAIN).expect("there is a rule");
    assert_eq!(rule.key(Field::Fragment), None);
}

#[test]
fn zeros_beside_an_address_need_no_word_of_the_owner() {
    let flow = flow(&[IP, (15, &[0]), (26, &[2, 2, 2, 3])], vec![]);
    of(&flow, &TranslateOptions::default()).expect("the address says that the header is whole");
}

#[test]
fn an_mpls_entry_is_not_pushed_in_a_rule_for_each_ether_type() {
    let steps = vec![insert(14, &[0, 1, 1, 9]), set(12, &[0x88, 0x47])];
    let rule = of(&flow(&[], steps), &PLAIN).expect("there is a rule");
    assert_eq!(rule.protocol, 0x0800);
}

#[test]
fn the_largest_mtu_is_no_overflow() {
    assert_eq!(TranslateOptions::of_mtu(u32::MAX).longest, u32::MAX);
}

fn pedit(header: PeditHeader, offset: u32, keep: [u8; 4], value: [u8; 4]) -> PeditKey {
    PeditKey {
        header,
        offset,
        keep,
        value,
        add: false,
    }
}

fn ether_type(value: [u8; 2]) -> Action {
    let [a, b] = value;
    let keep = [0, 0, 0xFF, 0xFF];
    Action::Pedit(vec![pedit(PeditHeader::Ethernet, 12, keep, [a, b, 0, 0])])
}

#[test]
fn the_way_to_the_same_bytes_does_not_matter() {
    // A tag by an insertion, and by a new EtherType with the old one after the tag.
    let push = Action::VlanPush {
        protocol: 0x8100,
        id: 5,
        priority: 1,
    };
    let ways = [
        vec![insert(12, &[0x81, 0, 0x20, 5])],
        vec![set(12, &[0x81, 0]), insert(14, &[0x20, 5, 8, 0])],
        vec![insert(14, &[0; 4]), set(12, &[0x81, 0, 0x20, 5, 8, 0])],
    ];
    for steps in ways {
        let rule = of(&flow(&[IP], steps), &PLAIN).expect("there is a rule");
        assert_eq!(rule.actions, [push.clone(), Action::Redirect(7)]);
    }
}

#[test]
fn changes_become_the_actions_that_make_the_same_bytes() {
    let entry = |label, tc, bos, ttl| Action::MplsPush {
        protocol: 0x8847,
        label,
        tc,
        bos,
        ttl,
    };
    let field = &[0x0A, 0x0A, 0x09, 0x08];
    let mirrored = Step::Output(PortId(1));
    let cases: Vec<(Flow, Vec<Action>)> = vec![
        (
            flow(&[IP], vec![insert(14, field)]),
            vec![entry(0x0A0A0, 4, true, 8), ether_type([8, 0])],
        ),
        // With the EtherType that the kernel writes, no further change is needed.
        (
            flow(&[IP], vec![insert(14, field), set(12, &[0x88, 0x47])]),
            vec![entry(0x0A0A0, 4, true, 8)],
        ),
        (
            flow(&[IP], vec![insert(14, &[0, 1, 0, 9, 0, 2, 1, 9])]),
            vec![
                entry(0x20, 0, true, 9),
                entry(0x10, 0, false, 9),
                ether_type([8, 0]),
            ],
        ),
        (
            flow(&[MPLS_FRAME], vec![delete(14, 4), set(12, &[8, 0])]),
            vec![Action::MplsPop { protocol: 0x0800 }],
        ),
        (
            flow(&[TAGGED, TAGGED_IP], vec![delete(12, 4)]),
            vec![Action::VlanPop],
        ),
        (
            flow(
                &[TAGGED, TAGGED_IP],
                vec![set_masked(14, &[0x40, 9], &[0xEF, 0xFF])],
            ),
            vec![Action::VlanModify {
                protocol: 0x8100,
                id: 9,
                priority: 2,
            }],
        ),
        (
            flow(&[IP], vec![insert(14, field), mirrored, set(0, &[1])]),
            vec![
                entry(0x0A0A0, 4, true, 8),
                ether_type([8, 0]),
                Action::Mirror(7),
                Action::Pedit(vec![pedit(
                    PeditHeader::Ethernet,
                    0,
                    [0, 255, 255, 255],
                    [1, 0, 0, 0],
                )]),
            ],
        ),
        // A change of the header comes before the entry that moves it.
        (
            flow(
                &[IP],
                vec![
                    insert(14, field),
                    set(19, &[0x40]),
                    Step::Edit(Edit::Checksum {
                        offset: 28,
                        over: vec![
                            Summed::Bytes {
                                offset: 18,
                                len: 10,
                            },
                            Summed::Bytes { offset: 30, len: 8 },
                        ],
                    }),
                ],
            ),
            vec![
                Action::Pedit(vec![pedit(
                    PeditHeader::Ipv4,
                    0,
                    [0xFF, 0, 0xFF, 0xFF],
                    [0, 0x40, 0, 0],
                )]),
                Action::Ipv4Checksum,
                entry(0x0A0A0, 4, true, 8),
                ether_type([8, 0]),
            ],
        ),
    ];
    for (flow, mut actions) in cases {
        let rule = of(&flow, &PLAIN).expect("there is a rule");
        actions.push(Action::Redirect(7));
        assert_eq!(rule.actions, actions, "{:?}", flow.steps);
    }
}

#[test]
fn a_flow_without_output_drops_and_changes_after_the_last_output_have_no_effect() {
    let mut dropped = flow(&[IP], vec![set(30, &[1, 2, 3, 4])]);
    dropped.steps.pop();
    assert_eq!(
        of(&dropped, &PLAIN).expect("there is a rule").actions,
        [Action::Drop]
    );
    let mut late = flow(&[IP], vec![]);
    late.steps.push(set(0, &[1]));
    assert_eq!(
        of(&late, &PLAIN).expect("there is a rule").actions,
        [Action::Redirect(7)]
    );
}

#[test]
fn flags_of_zero_are_refused_where_a_frame_can_end_within_the_tcp_header() {
    let mut flow = flow(&[(12, &[0x86, 0xDD, 0x60]), (20, &[6])], vec![]);
    flow.matched[0].mask[2] = 0xF0;
    flow.matched.push(MatchedBits {
        offset: 66,
        value: vec![0, 0],
        mask: vec![0x0F, 0xFF],
    });
    flow.length.min = 68;
    for (shortest, is_exact) in [(68, false), (73, false), (74, true)] {
        let options = TranslateOptions { shortest, ..PLAIN };
        let rule = of(&flow, &options);
        assert_eq!(rule.is_ok(), is_exact, "{shortest}: {rule:?}");
        if let Err(reason) = rule {
            assert!(reason.contains("end within the TCP header"), "{reason}");
        }
    }
    // A frame that ends there has no flag that is set.
    flow.matched[2].value[1] = 2;
    assert!(
        of(
            &flow,
            &TranslateOptions {
                shortest: 68,
                ..PLAIN
            }
        )
        .is_ok()
    );
}

#[test]
fn a_narrower_rule_names_the_frames_that_it_takes() {
    let source = flow(&[(26, &[10, 0, 0, 1])], vec![]);
    let rule = of(&source, &PLAIN).expect("a rule for IPv4");
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&[8, 0]);
    assert!(rule.takes(&frame));
    frame[12..14].copy_from_slice(&[0x86, 0xDD]);
    assert!(!rule.takes(&frame));
    let port = flow(&[(12, &[8, 0]), (23, &[17]), (36, &[0, 0])], vec![]);
    let rule = of(&port, &PLAIN).expect("a rule for no fragments");
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[23] = 17;
    assert!(rule.takes(&frame));
    frame[20] = 0x20;
    assert!(!rule.takes(&frame));
    let tagged = flow(&[(12, &[0x81, 0]), (30, &[10, 0, 0, 1])], vec![]);
    let rule = of(&tagged, &PLAIN).expect("a rule for tagged IPv4");
    frame[12..18].copy_from_slice(&[0x81, 0, 0, 5, 8, 0]);
    assert!(rule.takes(&frame));
    frame[16..18].copy_from_slice(&[0x81, 0]);
    assert!(!rule.takes(&frame));
    assert!(!rule.takes(&frame[..13]));
}

/// Returns a flow of IPv4 frames with a test of this checksum.
fn tested(over: Vec<Summed>, is_right: bool) -> Flow {
    let offset = 24;
    Flow {
        checksums: vec![ChecksumTest {
            offset,
            over,
            is_right,
        }],
        ..flow(&[IP], vec![])
    }
}

#[test]
fn a_checked_checksum_needs_the_owner_s_word_and_must_be_that_of_the_header() {
    let bytes = |offset, len| Summed::Bytes { offset, len };
    // In any order of its words.
    let header = || vec![bytes(26, 8), bytes(14, 10)];
    let valid = TranslateOptions {
        valid_ip_checksums: true,
        ..PLAIN
    };
    let rule = of(&tested(header(), true), &valid).expect("a rule");
    assert_eq!(rule, of(&flow(&[IP], vec![]), &PLAIN).expect("a rule"));
    let without = of(&tested(header(), true), &PLAIN).expect_err("no word of the owner");
    assert!(without.contains("--valid-ip-checksums"), "{without}");
    for (flow, part) in [
        (tested(header(), false), "wrong checksum"),
        (tested(vec![bytes(14, 10)], true), "whole IPv4 header"),
        (
            tested([header(), vec![Summed::Word(1)]].concat(), true),
            "whole IPv4 header",
        ),
        (
            Flow {
                matched: Vec::new(),
                ..tested(vec![bytes(14, 8), bytes(26, 8)], true)
            },
            "whole IPv4 header",
        ),
    ] {
        let reason = of(&flow, &valid).expect_err("no rule");
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn a_checked_checksum_has_no_rule_where_headers_may_have_options() {
    // A program that sums 20 bytes and does not read the header's length.
    let flow = tested(
        vec![
            Summed::Bytes {
                offset: 14,
                len: 10,
            },
            Summed::Bytes { offset: 26, len: 8 },
        ],
        true,
    );
    // A header of 24 bytes with a right checksum.
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&[8, 0]);
    (frame[14], frame[17], frame[22], frame[23]) = (0x46, 46, 64, 17);
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame[34..38].copy_from_slice(&[0x94, 4, 0, 0]);
    let sum = |frame: &[u8]| {
        let words = frame[14..38].chunks(2);
        let sum: u32 = words
            .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
            .sum();
        (sum >> 16) + (sum & 0xFFFF)
    };
    let checksum = !(sum(&frame) as u16);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(sum(&frame), 0xFFFF);
    assert!(!flow.matches(PortId(0), &frame));
    let only_valid = TranslateOptions {
        no_ip_options: false,
        valid_ip_checksums: true,
        ..PLAIN
    };
    let reason = of(&flow, &only_valid).expect_err("a rule takes a packet of another flow");
    assert!(reason.contains("--no-ip-options"), "{reason}");
    let both = TranslateOptions {
        no_ip_options: true,
        ..only_valid
    };
    assert!(of(&flow, &both).expect("a rule").takes(&frame));
}

#[test]
fn a_protocol_with_open_bits_becomes_tcp_or_udp_and_the_rule_takes_no_other() {
    // The bits in which TCP and UDP differ from ICMP.
    for (value, mask, protocol) in [(4, 0xFC, 6), (0x10, 0xF0, 17)] {
        let mut flow = flow(&[IP, (23, &[value])], vec![]);
        flow.matched[1].mask = vec![mask];
        let rule = of(&flow, &PLAIN).expect("a rule");
        let key = rule.key(Field::IpProto).expect("a key");
        assert_eq!((key.value, key.mask), (protocol, 0xFF));
        let frame = |protocol: u8| {
            let mut frame = [0; 60];
            (frame[12], frame[14], frame[23]) = (8, 0x45, protocol);
            frame
        };
        assert!(flow.matches(PortId(0), &frame(value)));
        assert!(!rule.takes(&frame(value)));
        assert!(rule.takes(&frame(protocol as u8)));
    }
    // Both, and neither.
    for (value, mask) in [(0, 0x80), (0x80, 0x80)] {
        let mut flow = flow(&[IP, (23, &[value])], vec![]);
        flow.matched[1].mask = vec![mask];
        let reason = of(&flow, &PLAIN).expect_err("no rule");
        assert!(reason.contains("ipv4.protocol"), "{reason}");
    }
}
