//! Tests of entries that packets add: their expiry, and the records of insertion and expiry.

mod common;

use std::sync::{Arc, Mutex};

use common::{code, device, ns, packet, send, sent, v1model};
use ir::{Program, TableId};
use packet::PortId;
use switch::{Change, ControlCode, Device, LearnedEntry, Record};

const TABLE: TableId = TableId::new(0);

/// Returns a program with a table on `kind`. Misses add entries with expire profile 0. Hits write
/// the entry's mark to the packet, and restart its timer if `value` is 1.
fn learning() -> Arc<Program> {
    let declarations = r#"
field meta.failed: bit<8>
action known(mark: bit<8>) {
    hdr.h.mark = %mark;
    if (hdr.h.value == 32w0x1) {
        call restart_expire_timer ();
    }
    sm.egress_spec = 9w0x1;
}
action unknown() {
    call add_entry (=0, 8w0x0, {hdr.h.kind + 8w0x1}, out meta.failed);
    sm.egress_spec = 9w0x2;
}
table flows {
    key kind: exact as bit<8> = hdr.h.kind;
    action known tableonly;
    action unknown defaultonly;
    default unknown();
    size 8;
    add_on_miss;
}
"#;
    let ingress = "    stage ingress.flows: match flows next end;";
    v1model(declarations, ingress, &code("egress", ""))
}

fn with_timeout(program: &Arc<Program>, timeout: u64) -> Device {
    let mut device = device(program);
    let change = Change::SetExpireProfile(0, Some(ns(timeout)));
    device.apply(change).unwrap();
    device
}

fn followed(device: &mut Device) -> Arc<Mutex<Vec<Record>>> {
    let records = Arc::new(Mutex::new(Vec::new()));
    let followed = records.clone();
    device.follow(move |record| followed.lock().unwrap().push(record.clone()));
    records
}

/// Sends packets of these kinds at this time, and returns their egress ports.
fn out(device: &mut Device, kinds: &[u8], now: u64) -> Vec<u32> {
    for &kind in kinds {
        device.receive(PortId(0), &packet(kind, &[])).unwrap();
    }
    device.step(ns(now));
    sent(device).into_iter().map(|(port, ..)| port).collect()
}

fn keys(entries: &[(TableId, LearnedEntry)]) -> Vec<u64> {
    entries.iter().map(|(_, entry)| entry.key[0]).collect()
}

#[test]
fn an_entry_goes_at_its_time_and_not_before() {
    let mut device = with_timeout(&learning(), 100);
    assert_eq!(out(&mut device, &[1, 1, 2], 10), [2, 1, 2]);
    send(&mut device, &[2, 0, 0, 0, 1, 0], ns(50));
    assert_eq!(device.next_time(), Some(ns(110)));
    device.step(ns(109));
    assert_eq!(keys(&device.take_expired()), []);
    device.step(ns(110));
    assert_eq!(keys(&device.take_expired()), [1]);
    assert_eq!(device.next_time(), Some(ns(150)));
    device.step(ns(150));
    assert_eq!(keys(&device.take_expired()), [2]);
    assert_eq!(device.next_time(), None);
    let hits = &device.table_hits()[0];
    assert_eq!((hits.hits, hits.misses), (2, 2));
}

#[test]
fn entries_that_come_and_go_are_records_in_their_order_among_all_changes() {
    let mut device = with_timeout(&learning(), 100);
    let records = followed(&mut device);
    out(&mut device, &[7, 3, 7, 5], 10);
    device.apply(Change::SetHostPorts(vec![1])).unwrap();
    out(&mut device, &[1], 60);
    device.step(ns(110));
    device.apply(Change::Clear(TABLE)).unwrap();
    let told: Vec<String> = (records.lock().unwrap().iter())
        .map(|record| {
            let what = match &record.change {
                Change::Learn(TABLE, entry) => format!("learn {}", entry.key[0]),
                Change::Expire(TABLE, entry) => format!("expire {}", entry.key[0]),
                Change::SetHostPorts(_) => "ports".to_owned(),
                Change::Clear(_) => "clear".to_owned(),
                other => panic!("{other:?}"),
            };
            format!("{} at {}: {what}", record.number, record.time.0)
        })
        .collect();
    let expect = [
        "2 at 10: learn 7",
        "3 at 10: learn 3",
        "4 at 10: learn 5",
        "5 at 10: ports",
        "6 at 60: learn 1",
        "7 at 110: expire 7",
        "8 at 110: expire 3",
        "9 at 110: expire 5",
        "10 at 110: clear",
    ];
    // The order of expiries at the same time is unspecified.
    let mut sorted = told.clone();
    sorted[5..8].sort_by_key(|line| line.split(' ').next_back().map(str::to_owned));
    assert_eq!(told[..5], expect[..5]);
    assert_eq!(told[8], expect[8]);
    let gone: Vec<&str> = sorted[5..8]
        .iter()
        .filter_map(|line| line.split(": ").nth(1))
        .collect();
    assert_eq!(gone, ["expire 3", "expire 5", "expire 7"]);
}

#[test]
fn one_who_follows_the_records_has_the_same_entries() {
    let mut device = with_timeout(&learning(), 100);
    let records = followed(&mut device);
    out(&mut device, &[7, 3, 5], 10);
    out(&mut device, &[9], 90);
    device.step(ns(110));
    let mut mirror = common::device(&learning());
    for record in records.lock().unwrap().iter() {
        mirror.apply(record.change.clone()).unwrap();
    }
    let entries = |device: &Device| {
        device.configuration().learned[TABLE]
            .as_ref()
            .unwrap()
            .entries()
    };
    assert_eq!(entries(&mirror), entries(&device));
    assert_eq!(entries(&mirror).len(), 1);
    assert_eq!(out(&mut mirror, &[9, 7], 110), [1, 2]);
    // Entries that no packet of this program could add are refused.
    let known = entries(&device).remove(0);
    let refused = |mirror: &mut Device, change: Change, code: ControlCode| {
        assert_eq!(mirror.apply(change).unwrap_err().code, code);
    };
    let learn = |entry: LearnedEntry| Change::Learn(TABLE, entry);
    refused(
        &mut mirror,
        learn(known.clone()),
        ControlCode::AlreadyExists,
    );
    let mut wide = known.clone();
    wide.key = [0x100].into();
    refused(&mut mirror, learn(wide), ControlCode::InvalidArgument);
    let mut foreign = known.clone();
    foreign.action.action = 99;
    refused(&mut mirror, learn(foreign), ControlCode::InvalidArgument);
    let mut short = known.clone();
    short.action.params = [].into();
    refused(&mut mirror, learn(short), ControlCode::InvalidArgument);
    let mut other = known.clone();
    other.id.0 += 100;
    refused(
        &mut mirror,
        Change::Expire(TABLE, other),
        ControlCode::NotFound,
    );
}

#[test]
fn a_step_that_learns_nothing_tells_nothing() {
    let mut device = with_timeout(&learning(), 100);
    let records = followed(&mut device);
    out(&mut device, &[1], 10);
    for now in 11..50 {
        assert_eq!(out(&mut device, &[1], now), [1]);
    }
    assert_eq!(records.lock().unwrap().len(), 1);
}
