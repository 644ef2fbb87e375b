//! Tests of the control plane: refused changes and their codes, the effect on packets, records, and
//! time-outs.

mod common;

use std::sync::{Arc, Mutex};

use bits::Value;
use common::{code, device, entry, insert, ns, packet, ports, send, sent, v1model, value};
use ir::{ActionCall, ActionId, ExternId, KeyMatch, Program, TableId};
use packet::Nanos;
use switch::{
    Action, Change, ControlCode, CounterReading, Device, DeviceConfig, MeterConfig, TableEntry,
};

const TABLE: TableId = TableId::new(0);

/// Returns a program with two tables. The first matches `kind`, has the actions `send(port)` and
/// `drop`, a direct counter, and a direct meter that marks. The second has a selector.
fn switching() -> Arc<Program> {
    let declarations = r#"
extern hits: direct_counter packets_and_bytes
extern rate: direct_meter packets
extern chosen: action_selector size 8 width 16 crc16
extern cells: register (bit<16>) size 4 initial (16w0x7) as bit<16>
action send(port: bit<9>) {
    sm.egress_spec = %port;
    call direct_meter.execute on rate (out hdr.h.mark);
}
action drop() {
    call mark_to_drop ();
}
action go(port: bit<9>) {
    sm.egress_spec = %port;
}
table forward {
    key kind: exact as bit<8> = hdr.h.kind;
    action send table_and_default;
    action drop defaultonly;
    default drop();
    size 3;
    direct_counter hits;
    direct_meter rate;
    idle_timeout;
}
table spread {
    key kind: exact as bit<8> = hdr.h.kind;
    key value: selector as bit<32> = hdr.h.value;
    action go table_and_default;
    default go(9w0x1ff);
    size 8;
    implementation chosen;
}
"#;
    let ingress = "    stage ingress.forward: match forward next end";
    v1model(declarations, &format!("{ingress};"), &code("egress", ""))
}

fn spreading() -> Device {
    let program = switching();
    let mut text = program.to_string();
    text = text.replace("match forward next end", "match spread next end");
    device(&common::program(&text))
}

fn key(kind: u8) -> Vec<KeyMatch> {
    vec![KeyMatch::Exact(value(kind.into(), 8))]
}

fn port(number: u128) -> Vec<Value> {
    vec![value(number, 9)]
}

fn send_to(number: u128) -> Action {
    Action::Call(ActionCall {
        action: 0,
        args: port(number),
    })
}

fn refused(device: &mut Device, change: Change, code: ControlCode) {
    let error = device.apply(change.clone()).unwrap_err();
    assert_eq!(error.code, code, "{change:?}: {error}");
}

#[test]
fn entries_are_added_changed_and_deleted_between_packets() {
    let mut device = device(&switching());
    let id = insert(&mut device, key(1), 0, port(5));
    send(&mut device, &packet(1, &[]), ns(0));
    device
        .apply(Change::Modify(TABLE, id, send_to(6), None))
        .unwrap();
    send(&mut device, &packet(1, &[]), ns(0));
    device.apply(Change::Delete(TABLE, id)).unwrap();
    send(&mut device, &packet(1, &[]), ns(0));
    assert_eq!(ports(&mut device), [5, 6]);
    let call = ActionCall {
        action: 0,
        args: port(9),
    };
    device.apply(Change::SetDefault(TABLE, call)).unwrap();
    send(&mut device, &packet(1, &[]), ns(0));
    device.apply(Change::ResetDefault(TABLE)).unwrap();
    send(&mut device, &packet(1, &[]), ns(0));
    assert_eq!(ports(&mut device), [9]);
    let hits = &device.table_hits()[0];
    assert_eq!((hits.hits, hits.misses), (2, 3));
}

#[test]
fn an_entry_keeps_the_controller_s_bytes_and_packets_do_not_see_them() {
    let mut device = device(&switching());
    let id = insert(&mut device, key(1), 0, port(5));
    let set = |bytes: &[u8]| Change::SetMetadata(TABLE, id, bytes.into());
    device.apply(set(b"mine")).unwrap();
    device
        .apply(Change::Modify(TABLE, id, send_to(6), None))
        .unwrap();
    let metadata = |device: &Device| {
        let entry = device.configuration().tables[TABLE].get(id);
        entry.map(|entry| entry.metadata.to_vec())
    };
    assert_eq!(metadata(&device).as_deref(), Some(&b"mine"[..]));
    send(&mut device, &packet(1, &[]), ns(0));
    assert_eq!(ports(&mut device), [6]);
    device.apply(Change::Delete(TABLE, id)).unwrap();
    refused(&mut device, set(b"late"), ControlCode::NotFound);
}

#[test]
fn wrong_changes_are_refused_with_p4runtime_s_codes_and_change_nothing() {
    let mut device = device(&switching());
    let new = |keys: Vec<KeyMatch>, action: Action| Change::Insert(TABLE, entry(keys, action));
    insert(&mut device, key(1), 0, port(5));
    use ControlCode::{
        AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, ResourceExhausted,
    };
    refused(&mut device, new(key(1), send_to(6)), AlreadyExists);
    refused(&mut device, new(vec![], send_to(6)), InvalidArgument);
    let wide = vec![KeyMatch::Exact(value(1, 9))];
    refused(&mut device, new(wide, send_to(6)), InvalidArgument);
    let no_args = Action::Call(ActionCall {
        action: 0,
        args: vec![],
    });
    refused(&mut device, new(key(2), no_args), InvalidArgument);
    refused(&mut device, new(key(2), Action::Member(1)), InvalidArgument);
    let with_priority = TableEntry {
        priority: Some(3),
        ..entry(key(2), send_to(1))
    };
    refused(
        &mut device,
        Change::Insert(TABLE, with_priority),
        InvalidArgument,
    );
    refused(&mut device, Change::Clear(TableId::new(9)), NotFound);
    refused(&mut device, Change::DeleteMulticast(1), NotFound);
    refused(
        &mut device,
        Change::SetMulticast(0, vec![]),
        InvalidArgument,
    );
    insert(&mut device, key(2), 0, port(5));
    insert(&mut device, key(3), 0, port(5));
    refused(&mut device, new(key(4), send_to(6)), ResourceExhausted);
    let selector = ExternId::new(2);
    let member = |id: u32| Change::SetMember {
        profile: selector,
        id,
        action: ActionId::new(2),
        args: port(4),
    };
    device.apply(member(1)).unwrap();
    refused(&mut device, member(1 << 31), InvalidArgument);
    let group = |members: Vec<(u32, u32)>| Change::SetGroup {
        profile: selector,
        id: 1,
        members,
    };
    refused(&mut device, group(vec![(2, 1)]), NotFound);
    refused(&mut device, group(vec![(1, 0)]), InvalidArgument);
    device.apply(group(vec![(1, 1)])).unwrap();
    refused(
        &mut device,
        Change::DeleteMember(selector, 1),
        FailedPrecondition,
    );
    let spread = TableId::new(1);
    let uses_group = entry(key(1), Action::Group(1));
    device.apply(Change::Insert(spread, uses_group)).unwrap();
    refused(
        &mut device,
        Change::DeleteGroup(selector, 1),
        FailedPrecondition,
    );
    assert_eq!(device.table_hits().len(), 2);
}

#[test]
fn a_drop_action_that_is_only_a_default_is_refused_in_entries() {
    let mut device = device(&switching());
    let drop = Action::Call(ActionCall {
        action: 1,
        args: vec![],
    });
    let error = device
        .apply(Change::Insert(TABLE, entry(key(1), drop)))
        .unwrap_err();
    assert!(error.message.contains("drop"), "{error}");
}

#[test]
fn groups_of_one_entry_come_and_go_with_it() {
    let mut device = spreading();
    let spread = TableId::new(1);
    let call = |to: u128| ActionCall {
        action: 0,
        args: port(to),
    };
    // The selector holds eight members. Without deletion of the old ones the third entry would not
    // fit.
    for round in 0..10 {
        let group = Action::OneShot(vec![(call(3), 1), (call(4), 1), (call(5), 2)]);
        let id = device
            .apply(Change::Insert(spread, entry(key(1), group)))
            .unwrap()
            .unwrap();
        if round == 9 {
            break;
        }
        let change = match round % 2 {
            0 => Change::Delete(spread, id),
            _ => Change::Clear(spread),
        };
        device.apply(change).unwrap();
    }
    let mut seen = [0; 3];
    for value in 0..200u8 {
        send(&mut device, &[1, 0, 0, value, value, 0], ns(0));
    }
    for port in ports(&mut device) {
        seen[port as usize - 3] += 1;
    }
    assert!(
        seen.iter().all(|&n| n > 20) && seen[2] > seen[0] && seen[2] > seen[1],
        "{seen:?}"
    );
    // All packets of a flow use one member.
    for _ in 0..20 {
        send(&mut device, &[1, 0, 0, 9, 9, 0], ns(0));
    }
    let flow = ports(&mut device);
    assert!(flow.iter().all(|port| *port == flow[0]));
}

/// Returns an entry action with a one-shot group: its members send to these ports.
fn spread_over(ports: std::ops::Range<u128>) -> Action {
    let call = |number| ActionCall {
        action: 0,
        args: port(number),
    };
    Action::OneShot(ports.map(|number| (call(number), 1)).collect())
}

#[test]
fn an_entry_s_own_members_make_room_for_its_next_ones_and_stay_when_those_are_refused() {
    let mut device = spreading();
    let spread = TableId::new(1);
    // The profile holds eight members, all used by one entry.
    let insert = Change::Insert(spread, entry(key(1), spread_over(10..18)));
    let id = device.apply(insert).unwrap().unwrap();
    let modify = |ports| Change::Modify(spread, id, spread_over(ports), None);
    let mut out = |change: Change, ok: bool| {
        let changed = device.apply(change);
        assert_eq!(changed.is_ok(), ok, "{changed:?}");
        for value in 0..100u8 {
            send(&mut device, &[1, 0, 0, value, value, 0], ns(0));
        }
        let ports = ports(&mut device);
        let all: std::collections::BTreeSet<u32> = ports.into_iter().collect();
        let members = device.configuration().profiles[ExternId::new(2)].as_ref();
        let members = members.map(|profile| (profile.members().len(), profile.groups().len()));
        (all, members.unwrap())
    };
    assert_eq!(out(modify(20..28), true), ((20..28).collect(), (8, 1)));
    assert_eq!(out(modify(30..39), false), ((20..28).collect(), (8, 1)));
    assert_eq!(out(modify(40..41), true), ((40..41).collect(), (1, 0)));
    assert_eq!(out(modify(50..59), false), ((40..41).collect(), (1, 0)));
    device.apply(Change::Delete(spread, id)).unwrap();
    let profile = device.configuration().profiles[ExternId::new(2)].as_ref();
    assert_eq!(profile.unwrap().members().len(), 0);
}

#[test]
fn direct_meters_colour_by_the_device_s_time() {
    let mut device = device(&switching());
    let id = insert(&mut device, key(1), 0, port(5));
    let rates = MeterConfig::TwoRate {
        cir: 1,
        cburst: 1,
        pir: 2,
        pburst: 2,
    };
    let change = Change::SetDirectMeter(TABLE, Some(id), Some(rates));
    device.apply(change).unwrap();
    let mut colours = |at: Nanos| {
        send(&mut device, &packet(1, &[]), at);
        sent(&mut device)[0].1[5]
    };
    let second = Nanos::from_secs;
    assert_eq!(
        [
            colours(second(10)),
            colours(second(10)),
            colours(second(10))
        ],
        [0, 1, 2]
    );
    assert_eq!(
        [
            colours(second(11)),
            colours(second(11)),
            colours(second(11))
        ],
        [0, 1, 2]
    );
    assert_eq!(colours(second(20)), 0);
}

#[test]
fn direct_counters_count_hits_and_can_be_written() {
    let mut device = device(&switching());
    let id = insert(&mut device, key(1), 0, port(5));
    let reading = CounterReading {
        packets: 10,
        bytes: 1000,
    };
    device
        .apply(Change::WriteDirectCounter(TABLE, Some(id), reading))
        .unwrap();
    send(&mut device, &packet(1, b"1234"), ns(0));
    let read = device.read_direct_counter(TABLE, id).unwrap();
    assert_eq!((read.packets, read.bytes), (11, 1010));
}

#[test]
fn an_idle_entry_is_told_once_until_it_is_hit_again() {
    let mut device = device(&switching());
    let idle = TableEntry {
        idle_timeout: Some(Nanos::from_secs(5)),
        ..entry(key(1), send_to(5))
    };
    let id = device.apply(Change::Insert(TABLE, idle)).unwrap().unwrap();
    let mut told = |at: u64, hit: bool| {
        if hit {
            send(&mut device, &packet(1, &[]), Nanos::from_secs(at));
        }
        device.step(Nanos::from_secs(at));
        device.take_idle()
    };
    assert_eq!(told(4, false), []);
    assert_eq!(told(5, false), [(TABLE, id)]);
    assert_eq!(told(9, false), []);
    assert_eq!(told(10, true), []);
    assert_eq!(told(14, false), []);
    assert_eq!(told(15, false), [(TABLE, id)]);
}

#[test]
fn registers_reset_to_what_the_program_gives() {
    let mut device = device(&switching());
    let cells = ExternId::new(3);
    assert_eq!(device.read_register(cells, 2), Some(vec![value(7, 16)]));
    let write = Change::WriteRegister(cells, Some(2), vec![value(9, 16)]);
    device.apply(write).unwrap();
    assert_eq!(device.read_register(cells, 2), Some(vec![value(9, 16)]));
    device.apply(Change::ResetRegister(cells)).unwrap();
    assert_eq!(device.read_register(cells, 2), Some(vec![value(7, 16)]));
    assert_eq!(device.read_register(cells, 4), None);
}

#[test]
fn every_change_is_one_record_in_order() {
    let mut device = device(&switching());
    let records = Arc::new(Mutex::new(Vec::new()));
    let followed = records.clone();
    device.follow(move |record| followed.lock().unwrap().push(record.clone()));
    device.step(ns(7));
    let id = insert(&mut device, key(1), 0, port(5));
    assert!(
        device
            .apply(Change::Insert(TABLE, entry(key(1), send_to(6))))
            .is_err()
    );
    device.apply(Change::Delete(TABLE, id)).unwrap();
    let records = records.lock().unwrap();
    let numbers: Vec<u64> = records.iter().map(|record| record.number).collect();
    assert_eq!(numbers, [1, 2]);
    assert_eq!((records[0].time, records[0].entry), (ns(7), Some(id)));
}

#[test]
fn a_replaced_program_keeps_its_state_and_its_packets() {
    let program = switching();
    let mut device = device(&program);
    insert(&mut device, key(1), 0, port(5));
    let cells = ExternId::new(3);
    let write = Change::WriteRegister(cells, Some(1), vec![value(42, 16)]);
    device.apply(write).unwrap();
    let slow = Change::SetQueue(packet::PortId(5), common::slow(1000, 64));
    device.apply(slow).unwrap();
    for _ in 0..3 {
        device
            .receive(packet::PortId(0), &packet(1, b"old"))
            .unwrap();
    }
    device.step(ns(0));
    assert_eq!(device.held(), 2);
    // The new program has an additional field, and marks its packets in egress.
    let text = program
        .to_string()
        .replace(
            "field meta.kept: bit<8>",
            "field meta.kept: bit<8>\nfield meta.more: bit<500>",
        )
        .replace(
            "stage egress.code: action next end {",
            "stage egress.code: action next end {\nhdr.h.value = 32w0xff;",
        );
    let new = common::program(&text);
    device
        .replace(new, &interp::Interp, &DeviceConfig::default())
        .unwrap();
    device
        .receive(packet::PortId(0), &packet(1, b"new"))
        .unwrap();
    device.step(Nanos::from_secs(1));
    device.step(Nanos::from_secs(2));
    let out: Vec<(u8, Vec<u8>)> = sent(&mut device)
        .into_iter()
        .map(|(_, bytes, _)| (bytes[4], bytes[6..].to_vec()))
        .collect();
    let old = (0, b"old".to_vec());
    assert_eq!(
        out,
        [old.clone(), old.clone(), old, (0xff, b"new".to_vec())]
    );
    let read = device.read_register(ExternId::new(3), 1);
    assert_eq!(read, Some(vec![value(42, 16)]));
}
