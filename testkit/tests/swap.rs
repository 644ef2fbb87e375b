//! Tests of changes while workers forward: no packet is lost, reordered, or sees a partial change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use exec::Engine;
use ir::{ActionCall, KeyMatch, Program};
use packet::{Frame, Nanos, PortId};
use switch::{
    Action, Change, Device, DeviceConfig, EntryId, MayLose, MigrationMode, QueueConfig, TableEntry,
    Worker,
};
use testkit::{compile_text, engines};

const BURST: usize = 32;

/// Maximum number of packets of each kind and worker.
const MOST: u32 = 8_000;

/// A program that writes its version into every packet at every stage: m1 in the first ingress, m2
/// in the first egress, m3 and m4 in the second ones. Kinds: 1 is recirculated, 2 resubmitted, 3
/// cloned to port 9, 4 sent to port 7, which is slow.
const MARKING: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> kind; bit<8> worker; bit<32> number; bit<8> m1; bit<8> m2; bit<8> m3; bit<8> m4; }
struct H { h_t h; }
struct M { @field_list(0) bit<8> first; }
parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout H hdr, inout M m) { apply { } }
control I(inout H hdr, inout M m, inout standard_metadata_t s) {
    counter(2, CounterType.packets) seen;
    DECLARATIONS
    action go(bit<9> port) { s.egress_spec = port; }
    table t { key = { hdr.h.kind : exact; } actions = { ACTIONS go; } default_action = go(1); }
    apply {
        if (s.instance_type == 0) {
            seen.count((bit<32>) VERSION - 1);
            hdr.h.m1 = VERSION;
            m.first = VERSION;
            if (hdr.h.kind == 2) { resubmit_preserving_field_list(0); }
            if (hdr.h.kind == 3) { clone_preserving_field_list(CloneType.I2E, 3, 0); }
        } else {
            hdr.h.m3 = VERSION;
            hdr.h.m1 = m.first;
        }
        t.apply();
    }
}
control E(inout H hdr, inout M m, inout standard_metadata_t s) {
    apply {
        if (hdr.h.kind == 1 && hdr.h.m3 != 0) {
            hdr.h.m4 = VERSION;
        } else {
            hdr.h.m2 = VERSION;
            hdr.h.m1 = m.first;
            if (hdr.h.kind == 1) { recirculate_preserving_field_list(0); }
        }
    }
}
control D(packet_out p, in H hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#;

/// Compiles a version of the program. The second has an additional first action, so that action ids
/// change.
fn marking(version: u32) -> Arc<Program> {
    let (declared, listed) = match version {
        1 => ("", ""),
        _ => (
            "action other(bit<64> x) { s.mcast_grp = (bit<16>) x; }",
            "other;",
        ),
    };
    let text = MARKING.replace("VERSION", &format!("(bit<8>) {version}"));
    let text = text
        .replace("DECLARATIONS", declared)
        .replace("ACTIONS", listed);
    compile_text(&text).unwrap()
}

/// Returns the engines without the stepwise variants.
fn plain_engines() -> impl Iterator<Item = Arc<dyn Engine>> {
    engines().into_iter().step_by(2)
}

fn device(program: &Arc<Program>, engine: &dyn Engine) -> Device {
    Device::new(Arc::clone(program), engine, &DeviceConfig::default()).unwrap()
}

fn frame(kind: u8, worker: u8, number: u32) -> Frame {
    let number = number.to_be_bytes();
    let head = [kind, worker];
    let bytes = [&head[..], &number, &[0; 4], &[0xee; 20]].concat();
    Frame::from_bytes(&bytes).unwrap()
}

/// A packet that was sent: its port, kind, worker, number and marks.
struct Left {
    port: u32,
    flow: (u8, u8),
    number: u32,
    marks: [u8; 4],
}

impl Left {
    fn of(port: PortId, frame: &Frame) -> Left {
        let bytes = frame.bytes();
        Left {
            port: port.0,
            flow: (bytes[0], bytes[1]),
            number: u32::from_be_bytes(bytes[2..6].try_into().unwrap()),
            marks: bytes[6..10].try_into().unwrap(),
        }
    }
}

/// Forwards bursts of all kinds until `is_over` is set. Returns the number of packets of each kind,
/// and the packets sent.
fn forward(
    worker: &mut Worker,
    number: u8,
    start: Instant,
    is_over: &AtomicBool,
    bursts: &AtomicU64,
) -> (u32, Vec<Left>) {
    let mut left = Vec::new();
    let mut next = 0;
    while !is_over.load(Ordering::Acquire) {
        let mut frames = Vec::with_capacity(BURST);
        // Of a worker that waits for a processor the queue of the slow port does not become full.
        while frames.len() < BURST && next < MOST {
            frames.extend((0..5).map(|kind| frame(kind, number, next)));
            next += 1;
        }
        let now = Nanos::from(start.elapsed());
        worker.forward(&mut frames, now, |port, frame, _| {
            left.push(Left::of(port, frame))
        });
        bursts.fetch_add(1, Ordering::Release);
    }
    (next, left)
}

fn check_left(left: &[Left], came: &[u32]) {
    let mut next: BTreeMap<((u8, u8), u32), u32> = BTreeMap::new();
    let mut versions = [0; 3];
    for one in left {
        let expected = next.entry((one.flow, one.port)).or_default();
        assert_eq!(
            one.number, *expected,
            "lost or overtaken: {:?} by {}",
            one.flow, one.port
        );
        *expected += 1;
        let is_again = (one.flow.0 == 1 || one.flow.0 == 2) && one.port != 9;
        let [m1, m2, m3, m4] = one.marks;
        let marks = match (is_again, one.flow.0) {
            (false, _) => vec![m1, m2],
            (true, 1) => vec![m1, m2, m3, m4],
            (true, _) => vec![m1, m2, m3],
        };
        assert!(m1 == 1 || m1 == 2, "{:?}", one.marks);
        assert!(
            marks.iter().all(|mark| *mark == m1),
            "both programs: {:?} of {:?}",
            one.marks,
            one.flow
        );
        versions[usize::from(m1)] += 1;
    }
    assert!(
        versions[1] > 0 && versions[2] > 0,
        "both programs run: {versions:?}"
    );
    for (worker, came) in came.iter().enumerate() {
        for (kind, port) in [(0, 5), (1, 5), (2, 5), (3, 5), (3, 9), (4, 7)] {
            let out = next
                .get(&((kind, worker as u8), port))
                .copied()
                .unwrap_or(0);
            assert_eq!(out, *came, "kind {kind} by port {port}");
        }
    }
}

#[test]
fn programs_that_replace_each_other_lose_overtake_and_mix_no_packet() {
    for engine in plain_engines() {
        let programs = [marking(1), marking(2)];
        let mut changed = device(&programs[0], &*engine);
        let slow = QueueConfig {
            depth: 1 << 20,
            packets_per_second: Some(20_000),
            ..QueueConfig::default()
        };
        changed.apply(Change::SetQueue(PortId(7), slow)).unwrap();
        let replica = |port| switch::Replica {
            port: PortId(port),
            instance: 0,
        };
        let session = switch::CloneSession {
            replicas: vec![replica(9)],
            ..switch::CloneSession::default()
        };
        changed.apply(Change::SetCloneSession(3, session)).unwrap();
        for (kind, port) in [(0, 5), (1, 5), (2, 5), (3, 5), (4, 7)] {
            insert(&mut changed, "I.t", kind, "I.go", port);
        }
        let workers = changed.workers(2);
        let (is_over, start) = (AtomicBool::new(false), Instant::now());
        let bursts = [AtomicU64::new(0), AtomicU64::new(0)];
        let mut ends = thread::scope(|scope| {
            let (is_over, bursts) = (&is_over, &bursts);
            let threads: Vec<_> = workers
                .into_iter()
                .enumerate()
                .map(|(number, mut worker)| {
                    scope.spawn(move || {
                        let (came, left) =
                            forward(&mut worker, number as u8, start, is_over, &bursts[number]);
                        (worker, came, left)
                    })
                })
                .collect();
            for swap in 0..24 {
                let next = device(&programs[(swap + 1) % 2], &*engine);
                changed
                    .adopt(next, MigrationMode::State(MayLose::Nothing))
                    .unwrap();
                changed.publish();
                changed.step(Nanos::from(start.elapsed()));
                for bursts in bursts {
                    let enough = bursts.load(Ordering::Acquire) + 3;
                    while bursts.load(Ordering::Acquire) < enough {
                        thread::yield_now();
                    }
                }
            }
            is_over.store(true, Ordering::Release);
            let ends = threads.into_iter().map(|thread| thread.join().unwrap());
            ends.collect::<Vec<_>>()
        });
        // Packets queued at the slow port are sent later.
        let mut now = Nanos::from(start.elapsed());
        while changed.held() > 0 {
            now = Nanos(now.0 + 1_000_000_000);
            for (worker, _, left) in &mut ends {
                worker.forward(&mut [], now, |port, frame, _| {
                    left.push(Left::of(port, frame))
                });
            }
        }
        let came: Vec<u32> = ends.iter().map(|(_, came, _)| *came).collect();
        let left: Vec<Left> = ends.into_iter().flat_map(|(_, _, left)| left).collect();
        check_left(&left, &came);
        changed.check_conservation().unwrap();
        let first_passes: u64 = came.iter().map(|came| u64::from(*came) * 5).sum();
        let counters = counted(&changed, "I.seen");
        assert_eq!(
            counters.iter().sum::<u64>(),
            first_passes,
            "each packet by one program"
        );
        assert!(counters.iter().all(|count| *count > 0));
    }
}

fn counted(device: &Device, name: &str) -> Vec<u64> {
    let mut externs = device.program().externs.iter();
    let (id, _) = externs.find(|(_, one)| one.name == name).unwrap();
    let read = |index| device.read_counter(id, index);
    (0..)
        .map_while(read)
        .map(|reading| reading.packets)
        .collect()
}

/// Returns a call of an action by name.
fn call(program: &Program, table: &str, action: &str, arg: u128) -> (ir::TableId, ActionCall) {
    let (id, table) = program
        .tables
        .iter()
        .find(|(_, one)| one.name == table)
        .unwrap();
    let named =
        |listed: &ir::TableAction| program.actions[listed.action].control_plane_name == action;
    let at = table.actions.iter().position(named).unwrap();
    let width = program.actions[table.actions[at].action].params[0]
        .ty
        .width();
    let args = vec![bits::Value::truncated(arg, width)];
    (id, ActionCall { action: at, args })
}

fn insert(device: &mut Device, table: &str, key: u128, action: &str, arg: u128) -> EntryId {
    let (table, call) = call(device.program(), table, action, arg);
    let entry = TableEntry {
        keys: vec![KeyMatch::Exact(bits::Value::truncated(key, 8))],
        priority: None,
        action: Action::Call(call),
        idle_timeout: None,
        meter: None,
        counter: None,
    };
    device.apply(Change::Insert(table, entry)).unwrap().unwrap()
}

/// Writes the values of two tables, a register and the members of a group into each packet. They
/// change together.
const AGREEING: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> kind; bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct H { h_t h; }
struct M { }
parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout H hdr, inout M m) { apply { } }
control I(inout H hdr, inout M m, inout standard_metadata_t s) {
    register<bit<8>>(16) r;
    action set_a(bit<8> v) { hdr.h.a = v; }
    action set_b(bit<8> v) { hdr.h.b = v; }
    table first { key = { hdr.h.kind : exact; } actions = { set_a; NoAction; } default_action = NoAction; }
    table last { key = { hdr.h.kind : exact; } actions = { set_b; NoAction; } default_action = NoAction; }
    apply {
        s.egress_spec = 1;
        first.apply();
        r.read(hdr.h.c, 3);
        s.mcast_grp = 5;
        last.apply();
        r.read(hdr.h.d, 12);
    }
}
control E(inout H hdr, inout M m, inout standard_metadata_t s) {
    apply { hdr.h.kind = (bit<8>) s.egress_rid; }
}
control D(packet_out p, in H hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#;

/// Returns a device of `AGREEING` with all values 1, and the ids of its two entries.
fn agreeing(engine: &dyn Engine) -> (Device, [EntryId; 2]) {
    let program = compile_text(AGREEING).unwrap();
    let mut device = device(&program, engine);
    let first = insert(&mut device, "I.first", 7, "I.set_a", 1);
    let last = insert(&mut device, "I.last", 7, "I.set_b", 1);
    set_published(&mut device, [first, last], 1);
    set_cells(&mut device, 1);
    device.publish();
    (device, [first, last])
}

/// Sets the values that packets see after a publication.
fn set_published(device: &mut Device, [first, last]: [EntryId; 2], value: u32) {
    let calls = [("I.first", "I.set_a", first), ("I.last", "I.set_b", last)];
    for (table, action, id) in calls {
        let (table, call) = call(device.program(), table, action, value.into());
        device
            .apply(Change::Modify(table, id, Action::Call(call), None))
            .unwrap();
    }
    let replica = switch::Replica {
        port: PortId(1),
        instance: value,
    };
    device
        .apply(Change::SetMulticast(5, vec![replica]))
        .unwrap();
}

/// Sets the values that packets see immediately.
fn set_cells(device: &mut Device, value: u32) {
    let program = Arc::clone(device.program());
    let mut externs = program.externs.iter();
    let register = externs.find(|(_, one)| one.name == "I.r").unwrap().0;
    for index in [3, 12] {
        let value = vec![bits::Value::truncated(value.into(), 8)];
        device
            .apply(Change::WriteRegister(register, Some(index), value))
            .unwrap();
    }
}

/// Changes all values repeatedly while two workers forward. `is_enough` decides when to stop, from
/// the numbers of packets, changes, and packets with mixed values.
fn flip(
    device: &mut Device,
    mut set: impl FnMut(&mut Device, u32),
    is_enough: impl Fn(u64, u64, u64) -> bool,
) -> (u64, u64) {
    let (is_over, packets, mixed) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let workers = device.workers(2);
    let mut flips = 0;
    thread::scope(|scope| {
        for mut worker in workers {
            let (is_over, packets, mixed) = (&is_over, &packets, &mixed);
            scope.spawn(move || {
                let one = Frame::from_bytes(&[7, 0, 0, 0, 0, 0xee]).unwrap();
                let mut frames: Vec<Frame> = (0..BURST).map(|_| Frame::new()).collect();
                while !is_over.load(Ordering::Acquire) {
                    frames.iter_mut().for_each(|frame| frame.copy_from(&one));
                    worker.forward(&mut frames, Nanos::ZERO, |_, frame, _| {
                        let said = &frame.bytes()[..5];
                        let agree = said.iter().all(|value| *value == said[0]);
                        mixed.fetch_add(u64::from(!agree), Ordering::Relaxed);
                    });
                    packets.fetch_add(BURST as u64, Ordering::Relaxed);
                }
            });
        }
        let seen = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        while !is_enough(seen(&packets), flips, seen(&mixed)) {
            flips += 1;
            set(device, 1 + (flips % 2) as u32);
        }
        is_over.store(true, Ordering::Release);
    });
    (flips, mixed.into_inner())
}

#[test]
fn a_change_of_tables_groups_and_cells_is_seen_whole_or_not_at_all() {
    for engine in plain_engines() {
        let (mut device, entries) = agreeing(&*engine);
        let set = |device: &mut Device, value| {
            set_published(device, entries, value);
            let cells = |device: &mut Device| {
                set_cells(device, value);
                Ok::<(), ()>(())
            };
            device.between_bursts(cells).unwrap().unwrap();
            // A publication directly afterwards must not change the result.
            device.apply(Change::SetMulticast(9, Vec::new())).unwrap();
            device.publish();
        };
        let until = Instant::now() + Duration::from_secs(60);
        let is_enough =
            |packets, flips, _| (packets > 50_000 && flips > 300) || Instant::now() > until;
        let (flips, mixed) = flip(&mut device, set, is_enough);
        assert!(flips > 100, "{flips}");
        assert_eq!(mixed, 0, "of {flips} changes");
    }
}

/// Checks that the test above would detect a mixture: without the barrier, or in two parts, packets
/// see one.
#[test]
fn a_change_in_parts_is_seen_by_some_packet() {
    let parts: [fn(&mut Device, [EntryId; 2], u32); 2] = [
        |device, entries, value| {
            set_published(device, entries, value);
            set_cells(device, value);
            device.publish();
        },
        |device, entries, value| {
            let (table, call) = call(device.program(), "I.first", "I.set_a", value.into());
            let modify = Change::Modify(table, entries[0], Action::Call(call), None);
            device.apply(modify).unwrap();
            device.publish();
            set_published(device, entries, value);
            device.publish();
        },
    ];
    for set in parts {
        let (mut device, entries) = agreeing(&*engines()[0]);
        let until = Instant::now() + Duration::from_secs(60);
        let is_enough = |_, _, mixed| mixed > 0 || Instant::now() > until;
        let (_, mixed) = flip(
            &mut device,
            |device, value| set(device, entries, value),
            is_enough,
        );
        assert!(mixed > 0);
    }
}

/// Sends a digest with a value of the packet.
const TELLING: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; }
struct H { h_t h; }
struct M { }
struct told_t { bit<8> a; }
parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout H hdr, inout M m) { apply { } }
control I(inout H hdr, inout M m, inout standard_metadata_t s) { apply { TELL } }
control E(inout H hdr, inout M m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in H hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#;

#[test]
fn what_packets_told_is_of_the_program_that_they_went_through() {
    let telling = compile_text(&TELLING.replace("TELL", "digest<told_t>(1, { hdr.h.a });"));
    let silent = compile_text(&TELLING.replace("TELL", "")).unwrap();
    let engine = &engines()[0];
    let config = DeviceConfig::default();
    let mut device = Device::new(telling.unwrap(), engine.as_ref(), &config).unwrap();
    let before = Arc::clone(device.program());
    device.receive(PortId(1), &[7]).unwrap();
    device.step(Nanos(1));
    device.replace(silent, engine.as_ref(), &config).unwrap();
    let digest = device.take_digest().expect("it waits");
    assert!(Arc::ptr_eq(&digest.program, &before));
    assert_eq!(digest.limbs, [7]);
}
