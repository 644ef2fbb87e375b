//! Tests of v1model's packet paths: resubmission, recirculation, copies, drops, and the limits of
//! all of them.

mod common;

use common::{code, device, dropped, ns, packet, ports, send, sent, v1model};
use exec::DropReason;
use packet::PortId;
use switch::{Change, CloneSession, Replica};

fn replicas(ports: impl IntoIterator<Item = u32>) -> Vec<Replica> {
    ports
        .into_iter()
        .map(|port| Replica {
            port: PortId(port),
            instance: port + 100,
        })
        .collect()
}

/// Returns a change that sets a clone session with a copy to port 8 and the given options.
fn session(id: u32, config: CloneSession) -> Change {
    let config = CloneSession {
        replicas: replicas([8]),
        ..config
    };
    Change::SetCloneSession(id, config)
}

fn to_port(port: u32) -> String {
    code("ingress", &format!("sm.egress_spec = 9w{port:#x};"))
}

#[test]
fn a_packet_leaves_at_its_egress_spec_and_511_drops_it() {
    let mut device = device(&v1model("", &to_port(3), &code("egress", "")));
    send(&mut device, &packet(1, b"xyz"), ns(5));
    assert_eq!(sent(&mut device), [(3, packet(1, b"xyz"), 5)]);
    let mut device = common::device(&v1model("", &to_port(511), &code("egress", "")));
    send(&mut device, &packet(1, &[]), ns(5));
    assert_eq!(ports(&mut device), []);
    assert_eq!(dropped(&device, DropReason::Ingress), 1);
}

#[test]
fn an_assignment_behind_mark_to_drop_counts() {
    let ingress = code("ingress", "call mark_to_drop (); sm.egress_spec = 9w0x2;");
    let mut device = device(&v1model("", &ingress, &code("egress", "")));
    send(&mut device, &packet(1, &[]), ns(0));
    assert_eq!(ports(&mut device), [2]);
    let ingress = code("ingress", "sm.mcast_grp = 16w0x1; call mark_to_drop ();");
    let mut device = common::device(&v1model("", &ingress, &code("egress", "")));
    send(&mut device, &packet(1, &[]), ns(0));
    assert_eq!(dropped(&device, DropReason::Ingress), 1);
}

#[test]
fn egress_drops_too_and_says_so() {
    let egress = code("egress", "call mark_to_drop ();");
    let mut device = device(&v1model("", &to_port(1), &egress));
    send(&mut device, &packet(1, &[]), ns(0));
    assert_eq!(ports(&mut device), []);
    assert_eq!(dropped(&device, DropReason::Egress), 1);
}

#[test]
fn a_packet_that_is_too_short_goes_on_with_its_error() {
    let ingress = code(
        "ingress",
        "sm.egress_spec = 9w0x1; if (sm.parser_error == error.PacketTooShort) { sm.egress_spec = 9w0x2; }",
    );
    let mut device = device(&v1model("", &ingress, &code("egress", "")));
    send(&mut device, &[1, 2], ns(0));
    send(&mut device, &[], ns(0));
    assert_eq!(sent(&mut device), [(2, vec![1, 2], 0), (2, vec![], 0)]);
}

#[test]
fn every_member_of_a_large_group_gets_a_copy() {
    let ingress = code("ingress", "sm.mcast_grp = 16w0x7;");
    let egress = code("egress", "hdr.h.mark = sm.egress_rid[7:0];");
    let mut device = device(&v1model("", &ingress, &egress));
    let group = Change::SetMulticast(7, replicas(0..300));
    device.apply(group).unwrap();
    send(&mut device, &packet(1, &[]), ns(0));
    let out = sent(&mut device);
    assert_eq!(
        out.iter().map(|(port, ..)| *port).collect::<Vec<_>>(),
        (0..300).collect::<Vec<_>>()
    );
    assert!(
        out.iter()
            .all(|(port, bytes, _)| u32::from(bytes[5]) == (port + 100) & 0xff)
    );
    assert_eq!(device.ledger().replicated, 299);
    device.apply(Change::SetMulticast(7, vec![])).unwrap();
    send(&mut device, &packet(1, &[]), ns(0));
    assert_eq!(dropped(&device, DropReason::NoReplicas), 1);
}

#[test]
fn clones_keep_the_field_list_only_and_are_cut_by_their_session() {
    let ingress = code(
        "ingress",
        "sm.egress_spec = 9w0x1; meta.kept = 8w0x44; meta.lost = 8w0x55; call clone (=0, =2, 32w0x5);",
    );
    let egress = code(
        "egress",
        "hdr.h.mark = meta.kept + meta.lost; hdr.h.value = sm.instance_type;",
    );
    let mut device = device(&v1model("", &ingress, &egress));
    let session = CloneSession {
        replicas: replicas([8, 9]),
        truncate: Some(7),
        ..CloneSession::default()
    };
    device.apply(Change::SetCloneSession(5, session)).unwrap();
    send(&mut device, &packet(1, b"abcd"), ns(0));
    let clone = vec![1, 0, 0, 0, 1, 0x44, b'a'];
    let original = [&[1, 0, 0, 0, 0, 0x99][..], b"abcd"].concat();
    assert_eq!(
        sent(&mut device),
        [(8, clone.clone(), 0), (9, clone, 0), (1, original, 0)]
    );
}

#[test]
fn clones_of_clones_without_end_run_out_of_copies() {
    // Every packet clones itself when it leaves, and so does every clone.
    let egress = code("egress", "call clone (=1, =0, 32w0x5);");
    let mut device = device(&v1model("", &to_port(1), &egress));
    let session = CloneSession {
        replicas: replicas([2]),
        ..CloneSession::default()
    };
    device.apply(Change::SetCloneSession(5, session)).unwrap();
    send(&mut device, &packet(1, &[]), ns(0));
    let copies = device.ledger().replicated;
    assert!((10..70_000).contains(&copies), "{copies}");
    assert!(device.ledger().refused_copies().count() > 0);
    assert_eq!(sent(&mut device).len() as u64, copies + 1);
}

/// Returns code that runs a loop this number of times.
fn rounds(number: u32) -> String {
    format!(
        "i = 32w0x0; block 0 {{ loop 1 {{ if (i == 32w{number:#x}) {{ leave 0; }} i = i + 32w0x1; }} }}"
    )
}

#[test]
fn copies_of_copies_share_the_work_that_one_packet_may_do() {
    let egress = format!("{} call clone (=1, =0, 32w0x5);", rounds(200));
    let program = v1model("field i: bit<32>", &to_port(1), &code("egress", &egress));
    let mut device = device(&program);
    let config = CloneSession {
        replicas: replicas(0..100),
        ..CloneSession::default()
    };
    device.apply(Change::SetCloneSession(5, config)).unwrap();
    send(&mut device, &packet(1, &[]), ns(0));
    let done = sent(&mut device).len() as u32;
    // The packet's own budget, plus 4,096 units for each of 100 copies. Copies of these have shares
    // of that.
    let all = exec::WorkBudget::MAX.units() + 100 * 4096;
    assert!((101..all / 200).contains(&done), "{done}");
}

#[test]
fn copies_of_copies_take_work_by_their_bytes() {
    let copies = |bytes: usize| {
        let egress = code("egress", "call clone (=1, =0, 32w0x5);");
        let mut device = device(&v1model("", &to_port(1), &egress));
        let config = CloneSession {
            replicas: replicas([1, 2, 3, 4]),
            ..CloneSession::default()
        };
        device.apply(Change::SetCloneSession(5, config)).unwrap();
        send(&mut device, &packet(1, &vec![0; bytes]), ns(0));
        device.ledger().replicated
    };
    let (short, long) = (copies(0), copies(60_000));
    assert!((200..8000).contains(&short), "{short}");
    assert!((4..400).contains(&long), "{long}");
}

#[test]
fn each_copy_of_a_large_group_has_work_to_do_after_a_clone_too() {
    let ingress = "sm.mcast_grp = 16w0x7; call clone (=0, =0, 32w0x5);";
    let program = v1model(
        "field i: bit<32>",
        &code("ingress", ingress),
        &code("egress", &rounds(1000)),
    );
    let mut device = device(&program);
    device.apply(session(5, CloneSession::default())).unwrap();
    let group = Change::SetMulticast(7, replicas(0..300));
    device.apply(group).unwrap();
    send(&mut device, &packet(1, &[]), ns(0));
    assert_eq!(sent(&mut device).len(), 301);
}

#[test]
fn starting_over_takes_the_more_work_the_larger_the_program_is() {
    let recirculated = |stages: usize| {
        // A single stage costs less than one unit.
        let stage = |at: usize| {
            let next = at + 1;
            format!("stage ingress.s{at}: action next ingress.s{next} {{ i = i + 32w0x1; }}\n")
        };
        let last =
            format!("stage ingress.s{stages}: action next end {{ sm.egress_spec = 9w0x1; }}");
        let ingress = (0..stages).map(stage).collect::<String>() + &last;
        let egress = code("egress", "call recirculate (=0);");
        let mut device = device(&v1model("field i: bit<32>", &ingress, &egress));
        send(&mut device, &packet(1, &[]), ns(0));
        assert_eq!(ports(&mut device), []);
        device.ledger().recirculated
    };
    let small = recirculated(0);
    let large = recirculated(10_000);
    assert!(small > 100, "{small}");
    assert!((10..small / 2).contains(&large), "{large}");
}

#[test]
fn recirculation_without_end_runs_out_of_work() {
    let egress = code(
        "egress",
        "hdr.h.value = hdr.h.value + 32w0x1; call recirculate (=0);",
    );
    let mut device = device(&v1model("", &to_port(1), &egress));
    send(&mut device, &packet(1, &[]), ns(0));
    assert_eq!(ports(&mut device), []);
    assert_eq!(dropped(&device, DropReason::WorkBudget), 1);
    assert!(device.ledger().recirculated > 10);
}

#[test]
fn a_packet_goes_512_rounds_with_copies_in_each_of_them() {
    // Clones do not clone again. Clones of clones are another case.
    let egress = code(
        "egress",
        "if (sm.instance_type != 32w0x2) { if (hdr.h.value != 32w0x0) { \
         hdr.h.value = hdr.h.value - 32w0x1; call clone (=1, =0, 32w0x5); call recirculate (=0); } }",
    );
    for copies in 1..=3 {
        let mut device = device(&v1model("", &to_port(1), &egress));
        let config = CloneSession {
            replicas: replicas(0..copies),
            ..CloneSession::default()
        };
        device.apply(Change::SetCloneSession(5, config)).unwrap();
        let (mut enough, mut too_many) = (packet(1, &[]), packet(1, &[]));
        enough[1..5].copy_from_slice(&512_u32.to_be_bytes());
        too_many[1..5].copy_from_slice(&513_u32.to_be_bytes());
        send(&mut device, &enough, ns(0));
        assert_eq!(sent(&mut device).len(), 512 * copies as usize + 1);
        assert_eq!(device.ledger().refused_copies().count(), 0);
        send(&mut device, &too_many, ns(0));
        assert_eq!(sent(&mut device).len(), 513 * copies as usize);
        assert_eq!(dropped(&device, DropReason::WorkBudget), 1);
    }
}

#[test]
fn copies_that_all_start_over_end_with_the_budget() {
    // Each packet becomes two in each round, so the number of packets would grow without limit.
    let egress = code(
        "egress",
        "call clone (=1, =0, 32w0x5); call recirculate (=0);",
    );
    let ingress = code(
        "ingress",
        "sm.egress_spec = 9w0x1; call clone (=0, =0, 32w0x5);",
    );
    let mut device = device(&v1model("", &ingress, &egress));
    let config = CloneSession {
        replicas: replicas([1]),
        ..CloneSession::default()
    };
    device.apply(Change::SetCloneSession(5, config)).unwrap();
    send(&mut device, &packet(1, &[]), ns(0));
    // The available work is that of the packet and of its first copies. A round costs at least 64
    // units.
    let ledger = device.ledger();
    let most = u64::from(exec::WorkBudget::MAX.units()) * 3 / 2;
    assert!(
        (100..most / 64).contains(&ledger.recirculated),
        "{ledger:?}"
    );
    assert!(ledger.replicated < most / 16, "{ledger:?}");
    assert_eq!(device.held(), 0);
}

#[test]
fn a_resubmitted_packet_is_as_it_came_and_keeps_its_list_only() {
    let ingress = code(
        "ingress",
        "if (meta.kept == 8w0x0) { meta.kept = 8w0x5; meta.lost = 8w0x6; hdr.h.value = 32w0x1; call resubmit (=2); } \
         sm.egress_spec = 9w0x9; hdr.h.mark = meta.kept + meta.lost;",
    );
    let mut device = device(&v1model("", &ingress, &code("egress", "")));
    device.receive(PortId(4), &packet(1, b"q")).unwrap();
    device.step(ns(0));
    assert_eq!(sent(&mut device), [(9, vec![1, 0, 0, 0, 0, 5, b'q'], 0)]);
    assert_eq!(device.ledger().resubmitted, 1);
}

/// Returns the ingress port and the arrival time in microseconds that a packet sees after it starts
/// again with this field list (its number in a call).
fn after_starting_over(call: &str, list: u32) -> (u8, u32) {
    let (ingress, egress) = match call {
        "resubmit" => (format!("call resubmit (={list});"), String::new()),
        _ => (String::new(), format!("call recirculate (={list});")),
    };
    let ingress = format!(
        "sm.egress_spec = 9w0x1; if (meta.kept == 8w0x0) {{ meta.kept = 8w0x1; {ingress} }}"
    );
    let egress = format!(
        "hdr.h.mark = sm.ingress_port[7:0]; hdr.h.value = sm.ingress_global_timestamp[31:0]; \
         if (hdr.h.kind == 8w0x1) {{ hdr.h.kind = 8w0x2; {egress} }}"
    );
    let ingress = code("ingress", &ingress);
    let mut device = device(&v1model("", &ingress, &code("egress", &egress)));
    device.receive(PortId(4), &packet(1, &[])).unwrap();
    device.step(ns(7000));
    let out = sent(&mut device);
    let bytes = &out[0].1;
    let value = u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
    (bytes[5], value)
}

#[test]
fn a_packet_that_starts_over_has_its_port_and_arrival_only_in_its_list() {
    for call in ["resubmit", "recirculate"] {
        assert_eq!(after_starting_over(call, 2), (0, 0), "{call}");
        assert_eq!(after_starting_over(call, 3), (4, 7), "{call}");
    }
}

#[test]
fn a_clone_s_port_is_zero_unless_its_list_keeps_it() {
    for (list, port) in [(2, 0), (3, 4)] {
        let ingress = format!("sm.egress_spec = 9w0x1; call clone (=0, ={list}, 32w0x5);");
        let egress = code("egress", "hdr.h.mark = sm.ingress_port[7:0];");
        let mut device = device(&v1model("", &code("ingress", &ingress), &egress));
        device.apply(session(5, CloneSession::default())).unwrap();
        device.receive(PortId(4), &packet(1, &[])).unwrap();
        device.step(ns(0));
        let marks: Vec<u8> = sent(&mut device).iter().map(|sent| sent.1[5]).collect();
        assert_eq!(marks, [port, 4]);
    }
}

#[test]
fn a_packet_that_parses_again_without_error_has_none() {
    // Too short at first. Recirculation keeps `parser_error`, and emits a header in front.
    let ingress = code(
        "ingress",
        "sm.egress_spec = 9w0x1; if (sm.parser_error == error.PacketTooShort) { hdr.h.$valid$ = true; sm.egress_spec = 9w0x2; }",
    );
    let egress = code(
        "egress",
        "if (sm.egress_port == 9w0x2) { call recirculate (=3); }",
    );
    let mut device = device(&v1model("", &ingress, &egress));
    send(&mut device, &[1, 2], ns(0));
    assert_eq!(ports(&mut device), [1]);
    assert_eq!(device.ledger().recirculated, 1);
}

#[test]
fn of_several_lengths_to_cut_a_packet_to_the_smallest_counts() {
    for (ingress, egress, session_length, expected) in [
        (9, 7, None, [7, 7]),
        (7, 9, None, [9, 7]),
        (20, 9, Some(8), [8, 9]),
        (20, 8, Some(9), [8, 8]),
        (20, 30, Some(9), [9, 20]),
    ] {
        let ingress = format!(
            "sm.egress_spec = 9w0x1; call truncate (32w{ingress:#x}); call clone (=0, =0, 32w0x5);"
        );
        let egress = format!("call truncate (32w{egress:#x});");
        let program = v1model("", &code("ingress", &ingress), &code("egress", &egress));
        let mut device = device(&program);
        let config = CloneSession {
            truncate: session_length,
            ..CloneSession::default()
        };
        device.apply(session(5, config)).unwrap();
        send(&mut device, &packet(1, &[0; 40]), ns(0));
        let lengths: Vec<usize> = sent(&mut device).iter().map(|sent| sent.1.len()).collect();
        // The clone, then the original.
        assert_eq!(lengths, expected, "{ingress} {egress} {session_length:?}");
    }
}

#[test]
fn a_session_s_group_is_copied_before_its_own_ports() {
    let ingress = code(
        "ingress",
        "sm.egress_spec = 9w0x1; call clone (=0, =0, 32w0x5);",
    );
    let mut device = device(&v1model("", &ingress, &code("egress", "")));
    let config = CloneSession {
        group: Some(7),
        ..CloneSession::default()
    };
    device.apply(session(5, config)).unwrap();
    let group = Change::SetMulticast(7, replicas([2, 3]));
    device.apply(group).unwrap();
    send(&mut device, &packet(1, &[]), ns(0));
    assert_eq!(ports(&mut device), [2, 3, 8, 1]);
}

#[test]
fn a_session_s_class_of_service_is_the_queue_of_its_copies() {
    let ingress = "sm.egress_spec = 9w0x8; sm.priority = 3w0x3; call clone (=0, =LIST, 32w0x5);";
    let run = |class: u32, list: u32| {
        let ingress = code("ingress", &ingress.replace("LIST", &list.to_string()));
        let egress = code("egress", "hdr.h.mark = 5w0x0 ++ sm.priority;");
        let mut device = device(&v1model("", &ingress, &egress));
        let slow = Change::SetQueue(PortId(8), common::slow(1000, 64));
        device.apply(slow).unwrap();
        let config = CloneSession {
            class_of_service: class,
            ..CloneSession::default()
        };
        device.apply(session(5, config)).unwrap();
        for kind in 0..2 {
            device.receive(PortId(0), &packet(kind, &[])).unwrap();
        }
        device.step(ns(0));
        device.step(ns(10_000_000));
        let seen = sent(&mut device);
        let seen = seen.iter().map(|sent| (sent.1[0], sent.1[5]));
        let refused = dropped(&device, DropReason::NoSuchQueue);
        (seen.collect::<Vec<_>>(), refused)
    };
    // Clone and original are queued at the same time. The highest priority is served first.
    assert_eq!(run(0, 2), (vec![(0, 3), (1, 3), (0, 0), (1, 0)], 0));
    assert_eq!(run(5, 2), (vec![(0, 5), (1, 5), (0, 3), (1, 3)], 0));
    // BMv2 takes a clone's priority from its metadata, which a field list may keep.
    assert_eq!(run(0, 3).0[3], (1, 3));
    assert_eq!(run(9, 2), (vec![(0, 3), (1, 3)], 2));
}

#[test]
fn a_failed_assert_drops_and_is_told() {
    let ingress = code(
        "ingress",
        r#"call assert (hdr.h.kind == 8w0x2, "kind is 2");"#,
    );
    let mut device = device(&v1model("", &ingress, &code("egress", "")));
    send(&mut device, &packet(1, &[]), ns(0));
    assert_eq!(dropped(&device, DropReason::AssertFailed), 1);
    let message = device.take_message().unwrap();
    assert!(message.contains("kind is 2"), "{message}");
}

#[test]
fn how_many_packets_come_together_changes_nothing() {
    // Ingress increments a register that egress reads. A batch must not run all ingresses first.
    let registers =
        "extern r: register (bit<32>) size 1 initial (32w0x0) as bit<32>\nfield tmp: bit<32>";
    let ingress = code(
        "ingress",
        "sm.egress_spec = 9w0x1; call register.read on r (32w0x0, out {tmp}); call register.write on r (32w0x0, {tmp + 32w0x1});",
    );
    let egress = code(
        "egress",
        "call register.read on r (32w0x0, out {hdr.h.value});",
    );
    let program = v1model(registers, &ingress, &egress);
    let run = |batch: usize| {
        let mut device = device(&program);
        for packets in vec![packet(1, &[]); 6].chunks(batch) {
            for bytes in packets {
                device.receive(PortId(0), bytes).unwrap();
            }
            device.step(ns(0));
        }
        sent(&mut device)
    };
    assert_eq!(run(6), run(1));
    let values: Vec<u8> = run(6).iter().map(|(_, bytes, _)| bytes[4]).collect();
    assert_eq!(values, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn random_numbers_depend_on_the_seed_and_the_packet_only() {
    let ingress = code(
        "ingress",
        "call random (32w0x0, 32w0xffffffff, out hdr.h.value);",
    );
    let program = v1model("", &ingress, &code("egress", ""));
    let run = |seed: u64, batch: usize| {
        let config = switch::DeviceConfig {
            seed,
            ..Default::default()
        };
        let mut device = switch::Device::new(program.clone(), &interp::Interp, &config).unwrap();
        for packets in vec![packet(1, &[]); 4].chunks(batch) {
            for bytes in packets {
                device.receive(PortId(0), bytes).unwrap();
            }
            device.step(ns(0));
        }
        sent(&mut device)
    };
    assert_eq!(run(1, 1), run(1, 4));
    assert_ne!(run(1, 1), run(2, 1));
    assert_ne!(run(1, 1)[0], run(1, 1)[1]);
}
