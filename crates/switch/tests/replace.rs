//! Tests of program replacement: state that is kept, and state that has no place in the new
//! program.

mod common;

use std::sync::atomic::Ordering::SeqCst;

use common::{code, device, entry, ns, packet, ports, send, sent, v1model, value};
use ir::{ActionCall, ActionId, ExternId, KeyMatch, TableId, ValueSetId};
use switch::{
    Action, AdoptError, Change, Device, DeviceConfig, Fate, MayLose, MigrationMode, StateKind,
};

fn replace(device: &mut Device, text: &str) -> Vec<(StateKind, String, u64)> {
    let program = common::program(text);
    let migration = device
        .replace(program, &interp::Interp, &DeviceConfig::default())
        .unwrap();
    let lost = migration.losses();
    lost.map(|line| (line.kind, line.name.clone(), line.lost))
        .collect()
}

fn dropped(kind: StateKind, name: &str, count: u64) -> (StateKind, String, u64) {
    (kind, name.to_owned(), count)
}

/// Returns a program in which misses add entries that mark with a parameter of `width` bits. Kinds
/// from 128 on add an entry with another action.
fn learning(width: u32, more: &str, size: u32) -> String {
    let declarations = format!(
        r#"
field meta.failed: bit<8>
{more}
action mark(value: bit<{width}>) {{
    hdr.h.mark = %value[7:0];
    sm.egress_spec = 9w0x1;
}}
action pass() {{
    sm.egress_spec = 9w0x3;
}}
action unknown() {{
    sm.egress_spec = 9w0x2;
    if (hdr.h.kind >= 8w0x80) {{
        call add_entry (=1, 8w0x0, {{}}, out meta.failed);
    }} else {{
        call add_entry (=0, 8w0x0, {{{width}w0x5}}, out meta.failed);
    }}
}}
table flows {{
    key kind: exact as bit<8> = hdr.h.kind;
    action mark tableonly;
    action pass tableonly;
    action unknown defaultonly;
    default unknown();
    size {size};
    add_on_miss;
}}
"#
    );
    let ingress = "    stage ingress.flows: match flows next end;";
    v1model(&declarations, ingress, &code("egress", "")).to_string()
}

fn learned(device: &Device) -> usize {
    let table = device.configuration().learned[TableId::new(0)].as_ref();
    table.unwrap().len()
}

#[test]
fn learned_entries_stay_where_their_action_has_the_parameters() {
    let mut device = device(&common::program(&learning(8, "", 8)));
    let timeout = Change::SetExpireProfile(0, Some(ns(100)));
    device.apply(timeout).unwrap();
    let kinds = [1, 2, 0x80, 0x81];
    for kind in kinds {
        send(&mut device, &packet(kind, &[]), ns(10));
    }
    assert_eq!(ports(&mut device), [2; 4]);
    // Another action comes first, so that all action ids change.
    let other = "action first() {\n    sm.egress_spec = 9w0x8;\n}";
    assert_eq!(replace(&mut device, &learning(8, other, 8)), []);
    send(&mut device, &packet(1, &[]), ns(20));
    send(&mut device, &packet(0x80, &[]), ns(20));
    let out = sent(&mut device);
    assert_eq!((out[0].0, out[0].1[5], out[1].0), (1, 5, 3));
    // A wider parameter keeps the values.
    assert_eq!(replace(&mut device, &learning(70, other, 8)), []);
    send(&mut device, &packet(0x81, &[]), ns(20));
    send(&mut device, &packet(1, &[]), ns(20));
    let out = sent(&mut device);
    assert_eq!((out[0].0, out[1].0, out[1].1[5]), (3, 1, 5));
    // A smaller table keeps the oldest entries. Time-outs continue.
    let gone = replace(&mut device, &learning(70, "", 2));
    assert_eq!(gone, [dropped(StateKind::LearnedEntries, "flows", 2)]);
    assert_eq!(learned(&device), 2);
    device.step(ns(109));
    assert_eq!((learned(&device), device.take_expired().len()), (2, 0));
    device.step(ns(110));
    assert_eq!((learned(&device), device.take_expired().len()), (0, 2));
}

#[test]
fn packets_of_both_programs_share_learned_entries_of_one_layout() {
    let mut device = device(&common::program(&learning(8, "", 8)));
    let slow = Change::SetQueue(packet::PortId(2), common::slow(1000, 64));
    device.apply(slow).unwrap();
    send(&mut device, &packet(1, &[]), ns(10));
    let text = learning(8, "field meta.more: bit<500>", 8);
    assert_eq!(replace(&mut device, &text), []);
    send(&mut device, &packet(1, &[]), ns(20));
    assert_eq!(learned(&device), 1);
}

/// Returns a program with tables that use a selector (one of them only in the old program), a value
/// set and a counter.
fn spreading(with_drop: bool, size: u32, more: &str) -> String {
    let listed = if with_drop {
        "action drop table_and_default;"
    } else {
        ""
    };
    let declarations = format!(
        r#"
extern chosen: action_selector size {size} width 16 crc16
extern seen: counter packets size 4
{more}
action go(port: bit<9>) {{
    sm.egress_spec = %port;
}}
action drop() {{
    call mark_to_drop ();
}}
table spread {{
    key kind: exact as bit<8> = hdr.h.kind;
    key value: selector as bit<32> = hdr.h.value;
    action go table_and_default;
    {listed}
    default go(9w0x1ff);
    size 8;
    implementation chosen;
}}
"#
    );
    let ingress = "    stage ingress.spread: match spread next end;";
    v1model(&declarations, ingress, &code("egress", "")).to_string()
}

fn key(kind: u8) -> Vec<KeyMatch> {
    vec![KeyMatch::Exact(value(kind.into(), 8))]
}

fn go(port: u128) -> ActionCall {
    ActionCall {
        action: 0,
        args: vec![value(port, 9)],
    }
}

fn in_profile(device: &Device) -> (usize, usize) {
    let profile = device.configuration().profiles[ExternId::new(0)].as_ref();
    let profile = profile.unwrap();
    (profile.members().len(), profile.groups().len())
}

#[test]
fn entries_stay_with_the_members_that_fit_and_no_others_stay() {
    let mut device = device(&common::program(&spreading(true, 16, "")));
    let drop = ActionCall {
        action: 1,
        args: vec![],
    };
    let set_member = |id: u32, action: u32, args: Vec<_>| Change::SetMember {
        profile: ExternId::new(0),
        id,
        action: ActionId::new(action),
        args,
    };
    let set_group = |id: u32, members: Vec<(u32, u32)>| Change::SetGroup {
        profile: ExternId::new(0),
        id,
        members,
    };
    let insert = |kind: u8, action| Change::Insert(TableId::new(0), entry(key(kind), action));
    let changes = [
        set_member(1, 0, vec![value(5, 9)]),
        set_member(2, 1, vec![]),
        set_group(1, vec![(1, 1)]),
        set_group(2, vec![(1, 1), (2, 1)]),
        insert(1, Action::Member(1)),
        insert(2, Action::Member(2)),
        insert(3, Action::Group(1)),
        insert(4, Action::Group(2)),
        insert(5, Action::OneShot(vec![(go(6), 1), (go(6), 1)])),
        insert(6, Action::OneShot(vec![(go(7), 1), (drop, 1)])),
        insert(7, Action::Call(go(8))),
    ];
    for change in changes {
        device.apply(change).unwrap();
    }
    assert_eq!(in_profile(&device), (7, 4));
    let out = |device: &mut Device| {
        for kind in 1..8 {
            send(device, &packet(kind, &[]), ns(0));
        }
        ports(device)
    };
    // The new program does not have the action `drop` in this table.
    let gone = replace(&mut device, &spreading(false, 16, ""));
    let expect = [
        dropped(StateKind::Members, "chosen", 1),
        dropped(StateKind::Groups, "chosen", 1),
        dropped(StateKind::Entries, "spread", 3),
    ];
    assert_eq!(gone, expect);
    assert_eq!(out(&mut device), [5, 5, 6, 8]);
    // One member of the controller, two of a one-shot group, one of another entry.
    assert_eq!(in_profile(&device), (4, 2));
    // There is space for the controller's member and two others.
    let gone = replace(&mut device, &spreading(false, 3, ""));
    assert_eq!(gone, [dropped(StateKind::Entries, "spread", 1)]);
    assert_eq!(out(&mut device), [5, 5, 6]);
    assert_eq!(in_profile(&device), (3, 2));
    let table = TableId::new(0);
    let entries = device.configuration().tables[table].iter();
    let last = entries.map(|entry| entry.id).max().unwrap();
    device.apply(Change::Delete(table, last)).unwrap();
    assert_eq!(in_profile(&device), (1, 1));
    let gone = replace(&mut device, &learning(8, "", 4));
    let expect = [
        dropped(StateKind::Members, "chosen", 1),
        dropped(StateKind::Groups, "chosen", 1),
        dropped(StateKind::Entries, "spread", 2),
    ];
    assert_eq!(gone, expect);
}

#[test]
fn value_sets_and_flow_ids_go_on() {
    let set = |size: u32, width: u32| {
        spreading(
            true,
            4,
            &format!(
                "value_set kinds size {size} as bit<{width}> {{\n    '': bit<{width}> exact;\n}}"
            ),
        )
    };
    let mut device = device(&common::program(&set(4, 8)));
    let members = vec![key(1), key(2), key(3)];
    let change = Change::SetValueSet(ValueSetId::new(0), members);
    device.apply(change).unwrap();
    device.configuration().next_flow_id.store(7, SeqCst);
    let known = |device: &Device| {
        let set = &device.configuration().value_sets[ValueSetId::new(0)];
        (1..5u64)
            .filter(|&kind| set.contains(&[kind]))
            .collect::<Vec<_>>()
    };
    assert_eq!(replace(&mut device, &set(3, 8)), []);
    assert_eq!(known(&device), [1, 2, 3]);
    assert_eq!(device.configuration().next_flow_id.load(SeqCst), 7);
    let gone = replace(&mut device, &set(2, 8));
    assert_eq!(gone, [dropped(StateKind::ValueSetMembers, "kinds", 1)]);
    assert_eq!(known(&device), [1, 2]);
    // A wider field keeps the numbers.
    assert_eq!(replace(&mut device, &set(2, 9)), []);
    assert_eq!(known(&device), [1, 2]);
    assert_eq!(
        replace(&mut device, &set(2, 1)),
        [dropped(StateKind::ValueSetMembers, "kinds", 1)]
    );
}

#[test]
fn a_default_action_that_was_set_stays_if_the_program_lets_it() {
    let mut device = device(&common::program(&spreading(true, 4, "")));
    let drop = ActionCall {
        action: 1,
        args: vec![],
    };
    let table = TableId::new(0);
    device.apply(Change::SetDefault(table, drop)).unwrap();
    assert_eq!(
        replace(&mut device, &spreading(true, 4, "field meta.x: bit<9>")),
        []
    );
    send(&mut device, &packet(1, &[]), ns(0));
    assert_eq!(ports(&mut device), []);
    let gone = replace(&mut device, &spreading(false, 4, ""));
    assert_eq!(gone, [dropped(StateKind::DefaultAction, "spread", 1)]);
}

#[test]
fn a_device_made_beside_takes_over_all_state_or_none_or_is_refused() {
    let with_table = |table: &str| {
        let text = r#"
action go(port: bit<9>) {
    sm.egress_spec = %port;
}
table forward {
    key kind: exact as bit<8> = hdr.h.kind;
    action go table_and_default;
    default go(9w0x3);
    size 4;
}
"#;
        let ingress = "    stage ingress.forward: match forward next end;";
        let program = v1model(text, ingress, &code("egress", "")).to_string();
        common::program(&program.replace("forward", table))
    };
    let mut device = device(&with_table("forward"));
    let key = vec![KeyMatch::Exact(value(1, 8))];
    common::insert(&mut device, key, 0, vec![value(5, 9)]);
    let through = |device: &mut Device| {
        send(device, &packet(1, &[]), ns(0));
        ports(device)
    };
    let beside = |table| common::device(&with_table(table));
    let keep = |may_lose| MigrationMode::State(may_lose);
    let these = |name: &str| keep(MayLose::These(vec![name.to_owned()]));
    for word in [keep(MayLose::Nothing), these("other")] {
        let AdoptError::WouldLose(refused) = device.adopt(beside("other"), word).unwrap_err()
        else {
            panic!("no limit is set");
        };
        assert_eq!(refused.lines.len(), 1);
        assert_eq!(
            (refused.lines[0].name.as_str(), refused.lines[0].lost),
            ("forward", 1)
        );
        assert_eq!(through(&mut device), [5]);
    }
    let kept = device
        .adopt(beside("forward"), keep(MayLose::Nothing))
        .unwrap();
    assert_eq!((kept.losses().count(), kept.lines[0].fate), (0, Fate::Kept));
    assert_eq!(through(&mut device), [5]);
    device
        .adopt(beside("forward"), MigrationMode::Nothing)
        .unwrap();
    assert_eq!(through(&mut device), [3]);
    let key = vec![KeyMatch::Exact(value(1, 8))];
    common::insert(&mut device, key, 0, vec![value(5, 9)]);
    assert!(device.adopt(beside("other"), these("forward")).is_ok());
    assert_eq!(through(&mut device), [3]);
    device.check_conservation().unwrap();
}
