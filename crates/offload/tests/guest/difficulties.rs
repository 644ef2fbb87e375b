//! Cases in which the obvious rule is wrong, shown by the kernel.

use offload::tc::{
    Action, Field, FlowerRule, Key, PeditHeader, PeditKey, Priorities, RulePlanes, TcError,
    TranslateOptions,
};
use offload::{Edit, Step};
use packet::PortId;

use crate::bed::{Bed, flow, ipv4_checksum, run, set, set_nic, udp_frame};

const IPV4: u16 = 0x0800;

fn key(field: Field, value: u128) -> Key {
    Key {
        field,
        value,
        mask: field.all(),
    }
}

/// Returns a rule that is written by hand.
fn rule(priority: u16, protocol: u16, keys: Vec<Key>, actions: Vec<Action>) -> FlowerRule {
    let planes = RulePlanes::Both;
    FlowerRule {
        chain: 0,
        priority,
        protocol,
        keys,
        actions,
        planes,
        cookie: [0; 16],
    }
}

impl Bed {
    fn redirect(&self, port: u32) -> Action {
        Action::Redirect(self.interfaces[&PortId(port)])
    }
}

#[test]
fn difficulty_1_hardware_overtakes_better_software_so_only_disjoint_flows_are_exact() {
    let Some(mut bed) = Bed::open() else { return };
    let destination = |value| key(Field::Ipv4Dst, value);
    let mut better = rule(3, IPV4, vec![destination(0x0101_0101)], vec![Action::Drop]);
    better.planes = RulePlanes::Software;
    let mut worse = rule(
        4,
        IPV4,
        vec![destination(0x0101_0101)],
        vec![bed.redirect(1)],
    );
    worse.planes = RulePlanes::Hardware;
    let (better, worse) = (bed.add(better).unwrap(), bed.add(worse).unwrap());
    let frame = udp_frame([2, 2, 2, 3], [1, 1, 1, 1], 60);
    assert_eq!(
        bed.exchange(&frame),
        [(PortId(1), frame.clone())],
        "the better rule drops"
    );
    bed.remove(&better);
    bed.remove(&worse);
    // Flows of these two tables' entries: the drop excludes nothing, so the other flow must.
    let first = flow(&[(12, &[8, 0]), (30, &[1, 1, 1, 1])], vec![]);
    let second = flow(
        &[(12, &[8, 0]), (30, &[1, 1, 1, 2])],
        vec![Step::Output(PortId(1))],
    );
    assert!(first.is_disjoint_from(&second));
    for planes in [
        [RulePlanes::Software, RulePlanes::Hardware],
        [RulePlanes::Hardware, RulePlanes::Software],
    ] {
        let rules = [(&first, planes[0]), (&second, planes[1])];
        let rules = rules.map(|(flow, planes)| bed.translate(flow, planes).unwrap());
        let installed = rules.map(|rule| bed.add(rule).unwrap());
        assert_eq!(bed.exchange(&frame), []);
        let other = udp_frame([2, 2, 2, 3], [1, 1, 1, 2], 60);
        assert_eq!(bed.exchange(&other), [(PortId(1), other.clone())]);
        installed.iter().for_each(|installed| bed.remove(installed));
    }
}

#[test]
fn difficulty_2_a_refused_rule_runs_in_software_and_says_so_with_the_drivers_words() {
    let Some(mut bed) = Bed::open() else { return };
    set_nic("capacity", "0");
    let flow = flow(&[(12, &[8, 0])], vec![Step::Output(PortId(1))]);
    let installed = bed
        .add(bed.translate(&flow, RulePlanes::Both).unwrap())
        .expect("no error");
    assert!(!installed.in_hardware);
    assert!(
        installed
            .words
            .as_ref()
            .is_some_and(|words| words.contains("table is full"))
    );
    bed.remove(&installed);
    match bed.add(bed.translate(&flow, RulePlanes::Hardware).unwrap()) {
        Err(TcError::Refused {
            words: Some(words), ..
        }) => assert!(words.contains("full")),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn difficulty_4_a_push_alone_is_another_frame_and_some_fields_cannot_be_pushed() {
    let Some(mut bed) = Bed::open() else { return };
    let add = |bytes: [u8; 4]| {
        let field = Edit::Insert {
            offset: 14,
            bytes: bytes.to_vec(),
        };
        flow(
            &[(12, &[8, 0])],
            vec![Step::Edit(field), Step::Output(PortId(1))],
        )
    };
    let wanted = add([0x0A, 0x0A, 0x09, 0x08]);
    let frame = udp_frame([1; 4], [2; 4], 60);
    let push = |label, ttl| Action::MplsPush {
        protocol: 0x8847,
        label,
        tc: 4,
        bos: true,
        ttl,
    };
    let obvious = rule(1, IPV4, vec![], vec![push(0x0A0A0, 8), bed.redirect(1)]);
    let installed = bed.add(obvious).unwrap();
    assert_ne!(bed.exchange(&frame), Bed::expected(&wanted, &frame));
    bed.remove(&installed);
    let installed = bed
        .add(bed.translate(&wanted, RulePlanes::Both).unwrap())
        .unwrap();
    assert_eq!(bed.exchange(&frame), Bed::expected(&wanted, &frame));
    bed.remove(&installed);
    for (bytes, label, ttl) in [([0, 0, 0x39, 8], 3, 8), ([0x0A, 0x0A, 9, 0], 0x0A0A0, 0)] {
        assert!(bed.translate(&add(bytes), RulePlanes::Both).is_err());
        let refused = rule(1, IPV4, vec![], vec![push(label, ttl), bed.redirect(1)]);
        assert!(matches!(bed.add(refused), Err(TcError::Refused { .. })));
    }
}

#[test]
fn difficulty_5_ports_after_options_match_a_key_and_not_the_flow() {
    let Some(mut bed) = Bed::open() else { return };
    let port = flow(
        &[(12, &[8, 0]), (23, &[17]), (36, &[7, 0xD0])],
        vec![Step::Output(PortId(1))],
    );
    let mut frame = udp_frame([1; 4], [2; 4], 60);
    // One word of options, and the port after it.
    frame[14] = 0x46;
    frame.splice(34..34, [1, 1, 1, 0]);
    assert!(!port.matches(PortId(0), &frame));
    let keys = vec![key(Field::IpProto, 17), key(Field::DstPort, 2000)];
    let installed = bed.add(rule(1, IPV4, keys, vec![bed.redirect(1)])).unwrap();
    assert_eq!(
        bed.exchange(&frame).len(),
        1,
        "the kernel finds the port after the options"
    );
    bed.remove(&installed);
    let options = TranslateOptions::default();
    let reason = offload::tc::translate(&port, &bed.interfaces, &options).unwrap_err();
    assert!(reason.to_string().contains("no-ip-options"), "{reason}");
    bed.translate(&port, RulePlanes::Both)
        .expect("the owner says that there are no options");
}

#[test]
fn difficulty_6_counts_are_those_of_the_action_that_counts_and_of_whole_frames() {
    let Some(mut bed) = Bed::open() else { return };
    let steps = vec![
        set(30, &[10, 2, 2, 2]),
        Step::Edit(ipv4_checksum(14)),
        Step::Output(PortId(1)),
    ];
    let flow = flow(&[(12, &[8, 0])], steps);
    let actions = vec![Action::Ipv4Checksum, bed.redirect(1)];
    let installed = bed.add(rule(1, IPV4, vec![], actions)).unwrap();
    let frame = udp_frame([1; 4], [2; 4], 60);
    for _ in 0..3 {
        bed.exchange(&frame);
    }
    let text = run(
        "tc",
        &["-s", "-j", "filter", "show", "dev", "nic0", "ingress"],
    );
    let json: serde_json::Value = serde_json::from_str(&text).expect("tc prints JSON");
    let actions = &json[1]["options"]["actions"];
    assert_eq!(
        actions[0]["stats"]["packets"], 0,
        "csum counts hardware: {text}"
    );
    assert_eq!(actions[1]["stats"]["hw_packets"], 3, "{text}");
    let counts = bed.read(&installed).counts;
    assert_eq!((counts.hardware_packets, counts.hardware_bytes), (3, 180));
    bed.remove(&installed);
    let installed = bed
        .add(bed.translate(&flow, RulePlanes::Software).unwrap())
        .unwrap();
    bed.exchange(&frame);
    let text = run(
        "tc",
        &["-s", "-j", "filter", "show", "dev", "nic0", "ingress"],
    );
    let json: serde_json::Value = serde_json::from_str(&text).expect("tc prints JSON");
    assert_eq!(
        json[1]["options"]["actions"][0]["stats"]["bytes"], 46,
        "{text}"
    );
    let counts = bed.read(&installed).counts;
    assert_eq!((counts.software_packets, counts.software_bytes), (1, 60));
    bed.remove(&installed);
}

#[test]
fn difficulty_7_masks_of_one_priority_are_tried_in_order_of_insertion() {
    let Some(mut bed) = Bed::open() else { return };
    let prefix = |mask: u128| Key {
        field: Field::Ipv4Dst,
        value: 0x0A01_0100 & mask,
        mask,
    };
    let wide = rule(1, IPV4, vec![prefix(0xFFFF_0000)], vec![bed.redirect(1)]);
    let narrow = rule(1, IPV4, vec![prefix(0xFFFF_FF00)], vec![bed.redirect(2)]);
    let mut priorities = Priorities::new(1);
    assert_ne!(priorities.of(&wide), priorities.of(&narrow));
    let frame = udp_frame([1; 4], [10, 1, 1, 7], 60);
    let software = |mut rule: FlowerRule| {
        rule.planes = RulePlanes::Software;
        rule
    };
    let (wide, narrow) = (
        bed.add(software(wide)).unwrap(),
        bed.add(software(narrow)).unwrap(),
    );
    assert_eq!(
        bed.exchange(&frame)[0].0,
        PortId(1),
        "the longer prefix does not win"
    );
    bed.remove(&wide);
    bed.remove(&narrow);
    let first = bed
        .add(rule(1, IPV4, vec![prefix(0xFFFF_0000)], vec![Action::Drop]))
        .unwrap();
    let other = rule(1, 0x86DD, vec![], vec![Action::Drop]);
    assert!(
        bed.add(other).is_err(),
        "a priority belongs to one protocol"
    );
    bed.remove(&first);
}

#[test]
fn difficulty_8_a_sum_of_two_bytes_carries_the_wrong_way_and_of_one_byte_is_exact() {
    let Some(mut bed) = Bed::open() else { return };
    let mut frame = udp_frame([1; 4], [2; 4], 60);
    frame[18..20].copy_from_slice(&[0x01, 0xFF]);
    let sum = PeditKey {
        header: PeditHeader::Ipv4,
        offset: 4,
        keep: [0, 0, 255, 255],
        value: [0, 1, 0, 0],
        add: true,
    };
    let actions = vec![Action::Pedit(vec![sum]), bed.redirect(1)];
    let installed = bed.add(rule(1, IPV4, vec![], actions)).unwrap();
    let out = bed.exchange(&frame);
    assert_ne!(
        out[0].1[18..20],
        [0x02, 0x00],
        "the kernel adds in network order"
    );
    bed.remove(&installed);
    let steps = |offset, value| {
        let add = Step::Edit(Edit::Add { offset, value });
        vec![add, Step::Edit(ipv4_checksum(14)), Step::Output(PortId(1))]
    };
    for planes in [RulePlanes::Hardware, RulePlanes::Software] {
        for offset in [15, 18, 19, 22, 33] {
            for value in [1, 127, 255] {
                let flow = flow(&[(12, &[8, 0])], steps(offset, value));
                let installed = bed.add(bed.translate(&flow, planes).unwrap()).unwrap();
                assert_eq!(
                    bed.exchange(&frame),
                    Bed::expected(&flow, &frame),
                    "{offset}"
                );
                bed.remove(&installed);
            }
        }
    }
}

#[test]
fn difficulty_9_an_evicted_rule_stays_in_hw_and_its_packets_in_software_tell() {
    let Some(mut bed) = Bed::open() else { return };
    let flow = flow(&[(12, &[8, 0])], vec![Step::Output(PortId(1))]);
    let installed = bed
        .add(bed.translate(&flow, RulePlanes::Both).unwrap())
        .unwrap();
    let frame = udp_frame([1; 4], [2; 4], 60);
    bed.exchange(&frame);
    set_nic("evict", "1");
    assert_eq!(bed.exchange(&frame), Bed::expected(&flow, &frame));
    let after = bed.read(&installed);
    assert!(after.in_hardware, "the kernel learns of evictions");
    assert_eq!(after.counts.hardware_packets, 1);
    assert_eq!(
        (after.counts.software_packets, after.counts.software_bytes),
        (1, 60)
    );
    bed.remove(&installed);
}

#[test]
fn difficulty_10_a_rule_for_ports_leaves_fragments_alone() {
    let Some(mut bed) = Bed::open() else { return };
    let port = flow(
        &[(12, &[8, 0]), (23, &[17]), (36, &[7, 0xD0])],
        vec![Step::Output(PortId(1))],
    );
    for planes in [RulePlanes::Hardware, RulePlanes::Software] {
        let installed = bed.add(bed.translate(&port, planes).unwrap()).unwrap();
        let mut frame = udp_frame([1; 4], [2; 4], 60);
        assert_eq!(bed.exchange(&frame).len(), 1);
        // First fragment: its port is that of the flow. A rule may match fewer packets.
        frame[20] = 0x20;
        assert!(port.matches(PortId(0), &frame));
        assert_eq!(bed.exchange(&frame), []);
        // A later fragment has other bytes there.
        frame[20..22].copy_from_slice(&[0, 9]);
        assert_eq!(bed.exchange(&frame), []);
        bed.remove(&installed);
    }
}

#[test]
fn a_rule_for_tagged_ip_takes_no_frame_of_two_tags_or_of_pppoe() {
    let Some(mut bed) = Bed::open() else { return };
    let tagged = flow(
        &[(12, &[0x81, 0]), (16, &[8, 0]), (34, &[2, 2, 2, 2])],
        vec![Step::Output(PortId(1))],
    );
    let untagged = flow(
        &[(12, &[8, 0]), (30, &[2, 2, 2, 2])],
        vec![Step::Output(PortId(1))],
    );
    let plain = udp_frame([1; 4], [2; 4], 60);
    let with = |at: usize, bytes: &[u8]| {
        let mut frame = plain.clone();
        frame.splice(at..at, bytes.iter().copied());
        frame
    };
    let one = with(12, &[0x81, 0, 0, 5]);
    let two = with(12, &[0x81, 0, 0, 5, 0x81, 0, 0, 6]);
    let session = [0x88, 0x64, 0x11, 0, 0, 1, 0, 50, 0, 0x21];
    let mut pppoe = with(12, &session);
    pppoe.drain(22..24);
    let mut tagged_pppoe = pppoe.clone();
    tagged_pppoe.splice(12..12, [0x81, 0, 0, 5]);
    for (flow, own) in [(&tagged, &one), (&untagged, &plain)] {
        for planes in [RulePlanes::Hardware, RulePlanes::Software] {
            let installed = bed.add(bed.translate(flow, planes).unwrap()).unwrap();
            for frame in [&plain, &one, &two, &pppoe, &tagged_pppoe] {
                let expected = match frame == own {
                    true => Bed::expected(flow, frame),
                    false => Vec::new(),
                };
                assert_eq!(bed.exchange(frame), expected, "{planes:?} {frame:02x?}");
            }
            bed.remove(&installed);
        }
    }
}
