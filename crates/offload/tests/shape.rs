//! Flows of known packets, step by step: each edit is recognised as what it is.

use std::sync::Arc;

use offload::{ChecksumTest, Edit, Flow, FlowTracer, NotOffloadable, PortRole, Step, Summed};
use packet::PortId;
use switch::{Device, DeviceConfig};

const HEADERS: &str = "
    #include <core.p4>
    #include <v1model.p4>
    header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
    header vlan_t { bit<16> tci; bit<16> type; }
    header ipv4_t {
        bit<8> version_ihl; bit<8> tos; bit<16> length; bit<32> id;
        bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
    }
    struct headers { ethernet_t ethernet; vlan_t vlan; ipv4_t ipv4; }
    struct metadata { bit<16> word; }
    parser P(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t s) {
        state start {
            p.extract(hdr.ethernet);
            transition select(hdr.ethernet.type) {
                0x8100: vlan;
                0x0800: ipv4;
                default: accept;
            }
        }
        state vlan { p.extract(hdr.vlan); transition accept; }
        state ipv4 { p.extract(hdr.ipv4); transition accept; }
    }
    control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) { apply { } }
    control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
    control V(inout headers hdr, inout metadata m) { apply { VERIFY } }
    control C(inout headers hdr, inout metadata m) { apply {
        update_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version_ihl, hdr.ipv4.tos, hdr.ipv4.length,
            hdr.ipv4.id, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    } }
    control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
        STATE
        apply { s.egress_spec = 2; APPLY }
    }
    V1Switch(P(), V(), I(), E(), C(), D()) main;
";

/// Returns the flow of a frame in a program with this code in its ingress control.
fn flow(state: &str, apply: &str, frame: &[u8]) -> Result<Flow, NotOffloadable> {
    flow_verified("", state, apply, frame)
}

fn flow_verified(
    verify: &str,
    state: &str,
    apply: &str,
    frame: &[u8],
) -> Result<Flow, NotOffloadable> {
    let text = HEADERS.replace("VERIFY", verify);
    let text = text.replace("STATE", state).replace("APPLY", apply);
    flow_of(&text, frame)
}

fn flow_of(text: &str, frame: &[u8]) -> Result<Flow, NotOffloadable> {
    let program = Arc::new(driver::compile_text("shape", text).expect("a program"));
    let device = Device::new(program, &interp::Interp, &DeviceConfig::default());
    let mut device = device.expect("a device");
    let mut tracer = FlowTracer::new(device.program(), |_| PortRole::Data)?;
    tracer.trace_in(&mut device, PortId(1), frame)
}

/// Returns a frame with an EtherType.
fn frame(ether_type: u16) -> Vec<u8> {
    let mut frame: Vec<u8> = (1..=64).collect();
    frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
    frame
}

fn steps(apply: &str, frame: &[u8]) -> Vec<Step> {
    flow("", apply, frame).expect("a flow").steps
}

fn matched(flow: &Flow) -> Vec<(u32, Vec<u8>, Vec<u8>)> {
    let all = flow.matched.iter();
    all.map(|bits| (bits.offset, bits.value.clone(), bits.mask.clone()))
        .collect()
}

/// The checksum of an IPv4 header that starts at byte 14.
fn ipv4_checksum() -> Step {
    let over = vec![
        Summed::Bytes {
            offset: 14,
            len: 10,
        },
        Summed::Bytes { offset: 26, len: 8 },
    ];
    Step::Edit(Edit::Checksum { offset: 24, over })
}

const OUTPUT: Step = Step::Output(PortId(2));

#[test]
fn a_flow_fixes_the_bits_that_the_parser_selected_by_and_no_others() {
    let flow = flow("", "", &frame(0x8100)).expect("a flow");
    assert_eq!(matched(&flow), [(12, vec![0x81, 0x00], vec![0xFF, 0xFF])]);
    assert_eq!((flow.length.min, flow.length.max), (18, 65_535));
    assert_eq!(flow.steps, [OUTPUT]);
    assert_eq!(flow.drop, None);
}

#[test]
fn a_missed_case_fixes_bits_up_to_the_first_difference() {
    // 0x8100 is missed at the bit after the first ones, 0x0800 at the first one.
    let flow = flow("", "", &frame(0xC000)).expect("a flow");
    assert_eq!(matched(&flow), [(12, vec![0xC0], vec![0xC0])]);
}

#[test]
fn a_router_sets_subtracts_and_sums() {
    let apply = "hdr.ethernet.src = 0x0a0b0c0d0e0f; hdr.ipv4.ttl = hdr.ipv4.ttl - 1;";
    let made = steps(apply, &frame(0x0800));
    let set = Edit::Set {
        offset: 6,
        value: vec![10, 11, 12, 13, 14, 15],
        mask: vec![0xFF; 6],
    };
    let add = Edit::Add {
        offset: 22,
        value: 255,
    };
    assert_eq!(
        made,
        [Step::Edit(set), Step::Edit(add), ipv4_checksum(), OUTPUT]
    );
}

#[test]
fn an_unchanged_header_whose_checksum_is_computed_is_summed() {
    assert_eq!(steps("", &frame(0x0800)), [ipv4_checksum(), OUTPUT]);
}

#[test]
fn bits_of_a_byte_are_written_with_a_mask() {
    let set = Edit::Set {
        offset: 15,
        value: vec![0x0A],
        mask: vec![0x0F],
    };
    let made = steps("hdr.ipv4.tos[3:0] = 10;", &frame(0x0800));
    assert_eq!(made, [Step::Edit(set), ipv4_checksum(), OUTPUT]);
}

#[test]
fn a_pushed_tag_is_an_insertion_and_a_popped_one_a_deletion() {
    let push = "hdr.vlan.setValid(); hdr.vlan.type = hdr.ethernet.type; hdr.vlan.tci = 7;
        hdr.ethernet.type = 0x8100;";
    let insert = Edit::Insert {
        offset: 12,
        bytes: vec![0x81, 0x00, 0, 7],
    };
    assert_eq!(steps(push, &frame(0xC000)), [Step::Edit(insert), OUTPUT]);
    let pop = "hdr.ethernet.type = hdr.vlan.type; hdr.vlan.setInvalid();";
    let delete = Edit::Delete { offset: 12, len: 4 };
    assert_eq!(steps(pop, &frame(0x8100)), [Step::Edit(delete), OUTPUT]);
}

#[test]
fn values_that_no_edit_gives_are_fixed() {
    // Swapped addresses become constants of the flow.
    let swap = "bit<48> old = hdr.ethernet.dst; hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = old;";
    let flow = flow("", swap, &frame(0xC000)).expect("a flow");
    let (offset, value, mask) = &matched(&flow)[0];
    assert_eq!((*offset, &value[..12]), (0, &frame(0)[..12]));
    assert_eq!(mask[..12], [0xFF; 12]);
    assert!(matches!(
        flow.steps[0],
        Step::Edit(Edit::Set { offset: 0, .. })
    ));
}

#[test]
fn a_condition_on_the_length_is_a_range_of_lengths() {
    let apply = "if (s.packet_length < 60) { mark_to_drop(s); }";
    let long = flow("", apply, &frame(0xC000)).expect("a flow");
    assert_eq!((long.length.min, long.length.max), (60, 65_535));
    let short = flow("", apply, &frame(0xC000)[..40]).expect("a flow");
    assert_eq!((short.length.min, short.length.max), (14, 59));
    assert_eq!(short.drop, Some(exec::DropReason::Ingress));
    assert!(long.is_disjoint_from(&short));
}

#[test]
fn a_comparison_fixes_bits_from_the_most_significant_one_until_it_is_decided() {
    let mut bytes = frame(0x0800);
    bytes[22] = 64;
    let apply = "if (hdr.ipv4.ttl <= 1) { mark_to_drop(s); }";
    let flow = flow("", apply, &bytes).expect("a flow");
    assert!(
        matched(&flow).contains(&(22, vec![0x40], vec![0xC0])),
        "{flow:?}"
    );
}

#[test]
fn a_checksum_that_is_verified_and_not_used_fixes_nothing() {
    let verify = "verify_checksum(true, { hdr.ipv4.src, hdr.ipv4.dst }, hdr.ipv4.checksum,
        HashAlgorithm.csum16);";
    let unused = flow_verified(verify, "", "", &frame(0x0800)).expect("a flow");
    assert_eq!(matched(&unused).len(), 1);
    let apply = "if (s.checksum_error == 1) { mark_to_drop(s); }";
    let mut right = frame(0x0800);
    let sum = support::checksum::internet_checksum(&right[26..34]);
    right[24..26].copy_from_slice(&sum.to_be_bytes());
    let over = vec![Summed::Bytes { offset: 26, len: 8 }];
    for (frame, is_right) in [(&right, true), (&frame(0x0800), false)] {
        let used = flow_verified(verify, "", apply, frame).expect("a flow");
        // The result of the comparison, and none of the bits.
        let over = over.clone();
        let test = ChecksumTest {
            offset: 24,
            over,
            is_right,
        };
        assert_eq!(used.checksums, [test]);
        assert_eq!(matched(&used).len(), 1);
        assert_eq!(used.drop.is_none(), is_right);
        assert!(used.matches(PortId(1), frame));
        let mut other = frame.clone();
        other[30] ^= 1;
        assert_eq!(used.matches(PortId(1), &other), !is_right);
    }
}

#[test]
fn a_checksum_that_is_not_in_the_frame_as_it_came_in_fixes_its_bits() {
    let verify = "verify_checksum(true, { hdr.ipv4.ttl }, hdr.ipv4.checksum,
        HashAlgorithm.csum16);";
    let apply = "if (s.checksum_error == 1) { mark_to_drop(s); }";
    // One byte is no word of a checksum.
    let flow = flow_verified(verify, "", apply, &frame(0x0800)).expect("a flow");
    assert_eq!(flow.checksums, []);
    assert!(matched(&flow).contains(&(22, vec![23], vec![0xFF])));
}

#[test]
fn what_a_flow_cannot_follow_has_its_reason() {
    let register = "register<bit<16>>(4) cells;";
    let cases = [
        ("", "log_msg(\"hello\");", "the program writes a message"),
        (
            "",
            "if (s.ingress_global_timestamp == 7) { mark_to_drop(s); }",
            "the result depends on the time",
        ),
        (
            "",
            "random(m.word, 0, 9); if (m.word == 3) { mark_to_drop(s); }",
            "the result depends on a random number",
        ),
        (
            register,
            "cells.read(m.word, 1); hdr.ethernet.type = m.word;",
            "the program uses the register 'I.cells'",
        ),
        (
            register,
            "cells.write(1, 7);",
            "the program uses the register 'I.cells'",
        ),
        (
            "meter(4, MeterType.bytes) limits;",
            "limits.execute_meter(1, m.word);",
            "the meter 'I.limits' colours the packet",
        ),
        ("", "truncate(20);", "the program cuts the packet"),
    ];
    for (state, apply, reason) in cases {
        let found = flow(state, apply, &frame(0xC000)).map_err(|reason| reason.to_string());
        assert_eq!(found, Err(reason.to_owned()), "{apply}");
    }
    // A register that is read into a field that nothing uses has no effect.
    let unused = flow(register, "cells.read(m.word, 1);", &frame(0xC000));
    assert!(unused.is_ok(), "{unused:?}");
}

#[test]
fn a_sum_of_too_many_words_is_refused() {
    let double = "sum = sum + sum; ".repeat(18);
    let apply = |ethernet: &str| {
        format!(
            "bit<128> sum = (bit<128>) {ethernet}; {double}
            if (sum == 1) {{ s.egress_spec = 3; }}"
        )
    };
    let refused = flow("", &apply("hdr.ethernet.type"), &frame(0x8100));
    assert_eq!(refused.err(), None, "the sum is one of constants");
    let refused = flow("", &apply("hdr.ethernet.src[15:0]"), &frame(0x8100));
    assert_eq!(refused.err(), Some(NotOffloadable::Work));
}

#[test]
fn a_change_of_too_many_bytes_is_refused() {
    let text = HEADERS.replace("VERIFY", "").replace("STATE", "").replace(
        "bit<16> tci; bit<16> type; }",
        "bit<16> tci; bit<16> type; bit<BITS> more; }",
    );
    let text = text.replace("APPLY", "hdr.vlan.more = 0;");
    let mut long = frame(0x8100);
    long.resize(3_000, 0xFF);
    let of = |bytes: usize| flow_of(&text.replace("BITS", &(8 * bytes).to_string()), &long);
    assert_eq!(of(2_000).err(), None);
    assert_eq!(of(2_100).err(), Some(NotOffloadable::Work));
}

/// Returns what a device sends for a frame at port 1.
fn sent(device: &mut Device, frame: &[u8]) -> Vec<(PortId, Vec<u8>)> {
    device.receive(PortId(1), frame).expect("a short frame");
    device.step(packet::Nanos(1));
    let mut sent = Vec::new();
    device.drain_sent(|port, bytes, _| sent.push((port, bytes.to_vec())));
    sent
}

#[test]
fn copies_to_one_port_by_queues_of_different_priorities_are_refused() {
    let apply = "clone_preserving_field_list(CloneType.I2E, 7, 0); hdr.ethernet.src = 7;";
    let text = HEADERS.replace("VERIFY", "").replace("STATE", "");
    let program = driver::compile_text("shape", &text.replace("APPLY", apply));
    let program = Arc::new(program.expect("a program"));
    let frame = frame(0x9000);
    for (port, class, is_exact) in [(2, 0, true), (2, 5, false), (3, 5, true)] {
        let device = Device::new(
            Arc::clone(&program),
            &interp::Interp,
            &DeviceConfig::default(),
        );
        let mut device = device.expect("a device");
        let session = switch::CloneSession {
            replicas: vec![switch::Replica {
                port: PortId(port),
                instance: 1,
            }],
            class_of_service: class,
            ..switch::CloneSession::default()
        };
        let change = switch::Change::SetCloneSession(7, session);
        device.apply(change).expect("a session");
        let mut tracer = FlowTracer::new(&program, |_| PortRole::Data).expect("a tracer");
        let flow = tracer.trace_in(&mut device, PortId(1), &frame);
        let sent = sent(&mut device, &frame);
        match flow {
            // The order between ports is no one's.
            Ok(flow) if is_exact => {
                let (mut ours, mut theirs) = (flow.apply(&frame), sent);
                ours.sort_by_key(|(port, _)| *port);
                theirs.sort_by_key(|(port, _)| *port);
                assert_eq!(ours, theirs);
            }
            Err(NotOffloadable::QueueOrder(PortId(2))) if !is_exact => {
                // The copy was made first, and the original has other bytes.
                assert_eq!(sent.len(), 2);
            }
            other => panic!("port {port}, class {class}: {other:?}"),
        }
    }
}

#[test]
fn a_packet_that_the_device_drops_for_its_work_has_no_flow() {
    let apply = "bit<32> sum = 0; for (bit<32> n in 0 .. 400) { sum = sum + n; }
        hdr.ethernet.src = (bit<48>) sum;";
    let text = HEADERS.replace("VERIFY", "").replace("STATE", "");
    let program = driver::compile_text("shape", &text.replace("APPLY", apply));
    let program = Arc::new(program.expect("a program"));
    let frame = frame(0x9000);
    let mut has_flow = Vec::new();
    for units in [256, 400, 410, 600, 65_536] {
        let work = exec::WorkBudget::new(units).expect("a budget");
        let mut config = DeviceConfig::default();
        config.limits.work = Some(work);
        let device = Device::new(Arc::clone(&program), &interp::Interp, &config);
        let mut device = device.expect("a device");
        let tracer = FlowTracer::new(&program, |_| PortRole::Data).expect("a tracer");
        let mut tracer = tracer.with_budget(work);
        let flow = tracer.trace_in(&mut device, PortId(1), &frame);
        let sent = sent(&mut device, &frame);
        match flow {
            Ok(flow) => assert_eq!(flow.apply(&frame), sent, "{units} units"),
            Err(reason) => {
                assert_eq!(reason, NotOffloadable::Work);
                assert_eq!(sent, [], "{units} units");
            }
        }
        has_flow.push(!sent.is_empty());
    }
    assert_eq!(has_flow, [false, false, true, true, true]);
}
