//! Hostile control planes: many entries, programs, packet-outs and atomic changes.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use packet::{Frame, Nanos, PortId};
use support::work::checkpoint;
use switch::{Action, Change, TableEntry};
use tenancy::{CompileError, Quotas};

use crate::common::{frame, id, marker, program};
use crate::harness::*;

/// Returns an entry of the hog's table, with a key of `width` bits.
fn entry(width: u32, key: u64) -> Change {
    let entry = TableEntry {
        keys: vec![ir::KeyMatch::Exact(bits::Value::truncated(
            key.into(),
            width,
        ))],
        priority: None,
        action: Action::Call(ir::ActionCall {
            action: 0,
            args: Vec::new(),
        }),
        idle_timeout: None,
        meter: None,
        counter: None,
    };
    Change::Insert(ir::TableId::new(0), entry)
}

#[test]
fn a_table_filled_to_the_brim_and_churned_leaves_the_victim_its_share() {
    let churned = program(
        "action a() { standard.egress_spec = 1; }
         table t { key = { hdr.h.mark ++ hdr.h.number : exact @name(\"key\"); } actions = { a; } size = 256; default_action = a(); }
         apply { t.apply(); }",
    );
    let mut test = HostileTest::new(churned);
    let quotas = Quotas {
        limits: switch::Limits {
            entries: Some(200),
            ..Default::default()
        },
        ..Quotas::default()
    };
    test.hypervisor.set_quotas(id(2), quotas).unwrap();
    let mut refused = 0;
    let outcome = test.run(54, 60, |hypervisor, round| {
        let device = hypervisor.device_mut(id(2)).unwrap();
        for key in 0..4 {
            if device.apply(entry(16, round * 4 + key)).is_err() {
                refused += 1;
                let oldest = device.configuration().tables[ir::TableId::new(0)]
                    .iter()
                    .next();
                let oldest = oldest.map(|entry| entry.id).unwrap();
                device
                    .apply(Change::Delete(ir::TableId::new(0), oldest))
                    .unwrap();
            }
        }
        device.publish();
    });
    check(&outcome);
    assert!(refused > 500);
    assert!(test.hypervisor.device_mut(id(2)).unwrap().entries() <= 200);
}

#[test]
fn a_program_that_compiles_slowly_leaves_the_victim_its_own() {
    let mut test = HostileTest::new(marker(2));
    let time = Duration::from_millis(1);
    let mut quotas = Quotas::default();
    quotas.compile.time = Some(time);
    test.hypervisor.set_quotas(id(2), quotas).unwrap();
    let compiler = test.hypervisor.compiler(id(2)).unwrap();
    let mut refusals = Vec::new();
    let outcome = test.run(54, 60, |_, round| {
        if round % 50 == 0 {
            let slow = |_: &str| -> Result<(), String> {
                loop {
                    checkpoint();
                }
            };
            refusals.push(compiler.compile("", slow).unwrap_err());
        }
    });
    check(&outcome);
    // Each ends within its time limit, and the compiler is free again.
    assert!(refusals.len() > 10);
    let is_late = |refusal: &CompileError| *refusal == CompileError::TooSlow(time);
    assert!(refusals.iter().all(is_late), "{refusals:?}");
}

#[test]
fn floods_from_and_to_controllers_leave_the_victim_its_own() {
    let talker = program(
        "action a() { standard.egress_spec = 1; }
         table t { key = { hdr.h.number : exact; } actions = { a; } size = 256; default_action = a(); }
         apply { digest<bit<8>>(1, hdr.h.mark); digest<bit<8>>(1, hdr.h.mark); digest<bit<8>>(1, hdr.h.mark); digest<bit<8>>(1, hdr.h.mark); digest<bit<8>>(1, hdr.h.mark); log_msg(\"mark {}\", { hdr.h.mark }); t.apply(); }",
    );
    let mut test = HostileTest::new(talker);
    let mut left = 0;
    let outcome = test.run(54, 60, |hypervisor, round| {
        let device = hypervisor.device_mut(id(2)).unwrap();
        for _ in 0..16 {
            device.receive(PortId(0), &[0, 0]).unwrap();
        }
        let key = round % 256;
        let inserted = device.apply(entry(8, key)).unwrap().unwrap();
        // Makes all packets see it at once, and later that it is removed.
        device
            .between_bursts(|_| Ok::<(), ()>(()))
            .unwrap()
            .unwrap();
        device
            .apply(Change::Delete(ir::TableId::new(0), inserted))
            .unwrap();
        device
            .between_bursts(|_| Ok::<(), ()>(()))
            .unwrap()
            .unwrap();
        hypervisor.step(Nanos(round * BETWEEN_BURSTS), |port, _, _| {
            left += u64::from(port.0 == 21);
        });
    });
    check(&outcome);
    assert_eq!(left, BURSTS * 16);
    // The messages are not read: some are queued, and the rest is counted as lost.
    let device = test.hypervisor.device_mut(id(2)).unwrap();
    assert!(device.lost_messages() > 0);
}

#[test]
fn a_change_between_bursts_waits_for_no_packets_of_another_vpdp() {
    let HostileTest {
        mut hypervisor,
        mut worker,
        ..
    } = HostileTest::new(marker(2));
    let mut changed = 0;
    let mut frames = [frame(10, &[0, 0]), frame(20, &[0, 0])];
    worker.forward(&mut frames, Nanos(1), |port, _, _| {
        // While packets of the other vPDP are processed.
        let other = if port.0 == 11 { 2 } else { 1 };
        let device = hypervisor.device_mut(id(other)).unwrap();
        let done = device.between_bursts(|_| Ok::<(), ()>(()));
        assert_eq!(done, Ok(Ok(())));
        changed += 1;
    });
    assert_eq!(changed, 2);
}

#[test]
fn packets_go_on_between_two_changes_whichever_vpdps() {
    let HostileTest { mut hypervisor, .. } = HostileTest::new(marker(2));
    let changed = (0..6).map(|round| {
        let device = hypervisor.device_mut(id(1 + round % 2)).unwrap();
        let changed = device.between_bursts(|_| Ok::<_, ()>(Instant::now()));
        changed.unwrap().unwrap()
    });
    let changed: Vec<Instant> = changed.collect();
    let breather = Duration::from_micros(50);
    let mut pairs = changed.windows(2);
    assert!(pairs.all(|pair| pair[1].duration_since(pair[0]) >= breather));
}

#[test]
fn packets_of_a_vpdp_that_is_being_changed_keep_no_others_waiting() {
    for (changed, others) in [(1, 21), (2, 11)] {
        let HostileTest {
            mut hypervisor,
            mut worker,
            ..
        } = HostileTest::new(marker(2));
        let (begun, begins) = mpsc::channel();
        let (sends, sent) = mpsc::channel();
        let thread = thread::spawn(move || {
            begins.recv().unwrap();
            let mut frames = [frame(10, &[0, 0]), frame(20, &[0, 0])];
            let mut send = |port: PortId, _: &mut Frame, _| sends.send(port.0).unwrap();
            worker.forward(&mut frames, Nanos(1), &mut send);
            // Packets that wait for the change continue after it.
            while worker.next_time().is_some() {
                worker.forward(&mut [], Nanos(2), &mut send);
            }
        });
        let device = hypervisor.device_mut(id(changed)).unwrap();
        let first = device.between_bursts(|_| {
            begun.send(()).unwrap();
            sent.recv_timeout(Duration::from_secs(20))
        });
        assert_eq!(first, Ok(Ok(others)));
        thread.join().unwrap();
        assert_eq!(sent.iter().count(), 1);
    }
}
