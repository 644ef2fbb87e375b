//! Faults of the NIC and of the kernel, each with its named outcome.

use std::time::{Duration, Instant};

use offload::Step;
use offload::tc::{RulePlanes, TcError};
use packet::PortId;

use crate::bed::{Bed, flow, run, set_nic, udp_frame};

/// Returns a flow of one destination, out of port 1.
fn to(last: u8) -> offload::Flow {
    flow(
        &[(12, &[8, 0]), (30, &[10, 0, 0, last])],
        vec![Step::Output(PortId(1))],
    )
}

#[test]
fn a_nic_that_is_full_in_the_middle_of_a_batch_leaves_the_rest_in_software() {
    let Some(mut bed) = Bed::open() else { return };
    set_nic("capacity", "3");
    let mut installed = Vec::new();
    for last in 0..5 {
        let rule = bed.translate(&to(last), RulePlanes::Both).unwrap();
        installed.push(bed.add(rule).expect("software takes it"));
    }
    let in_hardware: Vec<bool> = installed.iter().map(|rule| rule.in_hardware).collect();
    assert_eq!(in_hardware, [true, true, true, false, false]);
    assert!(
        installed[3]
            .words
            .as_ref()
            .is_some_and(|words| words.contains("full"))
    );
    for last in 0..5 {
        let frame = udp_frame([1; 4], [10, 0, 0, last], 60);
        assert_eq!(bed.exchange(&frame), [(PortId(1), frame.clone())]);
    }
    let dump = bed.session.dump(bed.nic, Some(0)).unwrap();
    assert_eq!(dump.len(), 5);
    for there in dump {
        let own = installed
            .iter()
            .find(|rule| rule.rule.cookie == there.rule.cookie)
            .unwrap();
        assert_eq!(
            (&there.rule, there.in_hardware),
            (&own.rule, own.in_hardware)
        );
        let counts = there.counts;
        assert_eq!((counts.hardware_packets == 1), own.in_hardware);
        assert_eq!(counts.hardware_packets + counts.software_packets, 1);
    }
    installed.iter().for_each(|rule| bed.remove(rule));
    assert_eq!(bed.session.dump(bed.nic, None).unwrap(), []);
}

#[test]
fn a_driver_that_refuses_late_is_waited_for_and_its_words_are_kept() {
    let Some(mut bed) = Bed::open() else { return };
    set_nic("refuse", "1");
    set_nic("delay_ms", "300");
    let begin = Instant::now();
    let installed = bed
        .add(bed.translate(&to(1), RulePlanes::Both).unwrap())
        .unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(300));
    assert!(!installed.in_hardware);
    assert!(
        installed
            .words
            .as_ref()
            .is_some_and(|words| words.contains("refused by the test"))
    );
    let frame = udp_frame([1; 4], [10, 0, 0, 1], 60);
    assert_eq!(bed.exchange(&frame), [(PortId(1), frame.clone())]);
    bed.remove(&installed);
    match bed.add(bed.translate(&to(1), RulePlanes::Hardware).unwrap()) {
        Err(TcError::Refused {
            words: Some(words), ..
        }) => {
            assert!(words.contains("refused by the test"));
        }
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_nic_without_the_key_or_with_too_few_actions_says_which() {
    let cases = [
        ("max_actions", "0", "too many actions"),
        ("keys", "3", "key is not supported"),
    ];
    for (setting, value, words) in cases {
        let Some(mut bed) = Bed::open() else { return };
        set_nic(setting, value);
        let rule = bed.translate(&to(1), RulePlanes::Both).unwrap();
        let installed = bed.add(rule).unwrap();
        let said = installed.words.as_deref().unwrap_or_default();
        assert!(said.contains(words), "{said}");
        bed.remove(&installed);
    }
}

#[test]
fn a_nic_that_says_yes_and_does_not_match_is_seen_by_packets_in_software() {
    let Some(mut bed) = Bed::open() else { return };
    set_nic("lie", "1");
    let installed = bed
        .add(bed.translate(&to(1), RulePlanes::Both).unwrap())
        .unwrap();
    assert!(installed.in_hardware);
    let frame = udp_frame([1; 4], [10, 0, 0, 1], 60);
    assert_eq!(bed.exchange(&frame), [(PortId(1), frame.clone())]);
    let counts = bed.read(&installed).counts;
    assert_eq!((counts.hardware_packets, counts.software_packets), (0, 1));
    bed.remove(&installed);
}

#[test]
fn a_replaced_rule_has_the_new_actions_and_the_same_handle() {
    let Some(mut bed) = Bed::open() else { return };
    let installed = bed
        .add(bed.translate(&to(1), RulePlanes::Both).unwrap())
        .unwrap();
    let mut rule = installed.rule.clone();
    rule.actions = vec![offload::tc::Action::Redirect(bed.interfaces[&PortId(2)])];
    let replaced = bed
        .session
        .replace(bed.nic, installed.handle, &rule)
        .unwrap();
    assert_eq!((&replaced.rule, replaced.in_hardware), (&rule, true));
    assert_eq!(replaced.handle, installed.handle);
    let frame = udp_frame([1; 4], [10, 0, 0, 1], 60);
    assert_eq!(bed.exchange(&frame), [(PortId(2), frame.clone())]);
    assert_eq!(bed.session.dump(bed.nic, None).unwrap().len(), 1);
    bed.remove(&replaced);
    let place = bed.place(&replaced);
    assert!(matches!(
        bed.session.delete(place),
        Err(TcError::Refused { .. })
    ));
}

#[test]
fn rules_of_others_are_left_out_of_a_dump_or_have_another_cookie() {
    let Some(mut bed) = Bed::open() else { return };
    let at = [
        "filter", "add", "dev", "nic0", "ingress", "protocol", "ip", "prio",
    ];
    run(
        "tc",
        &[
            &at[..],
            &["900", "flower", "dst_ip", "9.9.9.9", "action", "drop"],
        ]
        .concat(),
    );
    run(
        "tc",
        &[
            &at[..],
            &["901", "flower", "ip_flags", "firstfrag", "action", "drop"],
        ]
        .concat(),
    );
    let installed = bed
        .add(bed.translate(&to(1), RulePlanes::Both).unwrap())
        .unwrap();
    let dump = bed.session.dump(bed.nic, None).unwrap();
    let found: Vec<_> = dump
        .iter()
        .map(|rule| (rule.rule.priority, rule.rule.cookie))
        .collect();
    assert_eq!(
        found,
        [
            (installed.rule.priority, installed.rule.cookie),
            (900, [0; 16])
        ]
    );
    bed.remove(&installed);
    let text = run("tc", &["filter", "show", "dev", "nic0", "ingress"]);
    assert!(
        text.contains("dst_ip 9.9.9.9") && text.contains("firstfrag"),
        "{text}"
    );
    run("tc", &["filter", "del", "dev", "nic0", "ingress"]);
}

#[test]
fn a_missing_module_and_a_missing_interface_are_refused_by_name() {
    let Some(mut bed) = Bed::open() else { return };
    run("rmmod", &["act_vlan"]);
    let tag = offload::Edit::Insert {
        offset: 12,
        bytes: vec![0x81, 0, 0, 5],
    };
    let push = flow(
        &[(12, &[8, 0])],
        vec![Step::Edit(tag), Step::Output(PortId(1))],
    );
    match bed.add(bed.translate(&push, RulePlanes::Both).unwrap()) {
        Err(error @ TcError::Refused { .. }) => {
            assert!(error.to_string().contains("TC action module"), "{error}");
        }
        other => panic!("not refused: {other:?}"),
    }
    run("insmod", &["/lib/act_vlan.ko"]);
    let installed = bed
        .add(bed.translate(&push, RulePlanes::Both).unwrap())
        .unwrap();
    bed.remove(&installed);
    let rule = bed.translate(&to(1), RulePlanes::Both).unwrap();
    assert!(matches!(
        bed.session.add(9999, &rule),
        Err(TcError::Refused { .. })
    ));
}
