//! Tests of a table with an index so large that workers keep using one copy of it (`table`'s
//! `engine/steady.rs`). One thread changes the table while another forwards. On every engine, the
//! packets of a burst must see the table at one point in time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bits::Value;
use exec::Engine;
use ir::{ActionCall, KeyMatch, TableId};
use packet::{Frame, Nanos};
use switch::{Action, Change, Device, DeviceConfig, TableEntry, Worker};
use table::EntryId;

/// Writes the number of its entry into each packet, or 0.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>

header h_t { bit<48> key; bit<32> number; }
struct headers_t { h_t h; }
struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action leave(bit<32> number) { hdr.h.number = number; }
    table t { key = { hdr.h.key : exact; } actions = { leave; NoAction; } default_action = NoAction(); size = 600000; }
    apply { sm.egress_spec = 1; t.apply(); }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply {} }
control U(inout headers_t hdr, inout metadata_t meta) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

const TABLE: TableId = TableId::new(0);
/// Number of permanent entries: more than 4 MiB of hash lines, whatever their fill level.
const STAYING: u64 = 340_000;
/// Number of keys that are added and removed in turn.
const CHANGING: u64 = 64;
const CHANGES: u64 = 3_000;
const BURST: u64 = 32;

/// Returns the key with this number. All keys are different.
fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4b) & 0xffff_ffff_ffff
}

/// Returns the expected result of a changing key after `changes` changes: the number of times it
/// changed, if its entry exists; otherwise 0.
fn left_after(changes: u64, which: u64) -> u64 {
    let times = (changes + CHANGING - 1 - which) / CHANGING;
    if times % 2 == 1 { times } else { 0 }
}

fn insert(device: &mut Device, key: u64, number: u64) -> EntryId {
    let call = ActionCall {
        action: 0,
        args: vec![Value::truncated(number.into(), 32)],
    };
    let entry = TableEntry {
        keys: vec![KeyMatch::Exact(Value::truncated(key.into(), 48))],
        priority: None,
        action: Action::Call(call),
        idle_timeout: None,
        meter: None,
        counter: None,
    };
    let id = device.apply(Change::Insert(TABLE, entry)).unwrap();
    id.expect("an entry has a name")
}

/// Progress of both threads.
#[derive(Default)]
struct Progress {
    /// Number of changes that packets may see.
    begun: AtomicU64,
    /// Number of changes that a burst must see if it begins now. They were published, and a whole
    /// burst ended before the next publication.
    required: AtomicU64,
    bursts: AtomicU64,
}

/// Returns the key numbers of a burst. Every other one is a changing key.
fn asked(burst: u64) -> Vec<u64> {
    let numbers = (burst * BURST..).take(BURST as usize);
    let numbers = numbers.map(|at| (at, at * 7919 % STAYING));
    numbers
        .map(|(at, number)| match at % 2 {
            0 => number,
            _ => STAYING + at / 2 * 7919 % CHANGING,
        })
        .collect()
}

/// Forwards a burst. Returns the results of its packets.
fn forward(worker: &mut Worker, asked: &[u64], now: Nanos) -> Vec<u64> {
    let packet = |number: &u64| {
        let bytes = [&key(*number).to_be_bytes()[2..], &[0; 4]].concat();
        Frame::from_bytes(&bytes).unwrap()
    };
    let mut frames: Vec<Frame> = asked.iter().map(packet).collect();
    let mut left = Vec::new();
    worker.forward(&mut frames, now, |_, frame, _| {
        let number = frame.bytes()[6..].try_into().unwrap();
        left.push(u32::from_be_bytes(number).into());
    });
    left
}

/// Returns true if these results for these keys are possible after `changes` changes.
fn agrees(asked: &[u64], left: &[u64], changes: u64) -> bool {
    let expected = asked
        .iter()
        .map(|&number| match number.checked_sub(STAYING) {
            None => number + 1,
            Some(which) => left_after(changes, which),
        });
    expected.eq(left.iter().copied())
}

/// Forwards bursts until all changes are made, and one more. Each burst must see the table at one
/// point in time, not earlier than the previous burst did, and not earlier than `required`. No more
/// is guaranteed: a worker does not wait for a device that is publishing.
fn carry(mut worker: Worker, progress: &Progress) {
    let mut seen = 0;
    for burst in 0.. {
        let asked = asked(burst);
        let required = progress.required.load(Ordering::SeqCst);
        let left = forward(&mut worker, &asked, Nanos(burst));
        let begun = progress.begun.load(Ordering::Acquire);
        seen = seen.max(required);
        let moment = (seen..=begun).find(|&changes| agrees(&asked, &left, changes));
        seen = moment.unwrap_or_else(|| {
            panic!("{asked:?} left {left:?}, after none of {seen} to {begun} changes")
        });
        progress.bursts.store(burst + 1, Ordering::SeqCst);
        if required == CHANGES {
            return;
        }
    }
}

/// Makes the changes, some of them together, some while bursts run. `is_over` is true if the
/// forwarding thread has ended.
fn change(device: &mut Device, progress: &Progress, is_over: impl Fn() -> bool) {
    let mut entries: Vec<Option<EntryId>> = vec![None; CHANGING as usize];
    let mut done = 0;
    while done < CHANGES {
        let behind = CHANGES.min(done + 1 + done % 3);
        progress.begun.store(behind, Ordering::Release);
        for number in done..behind {
            let which = number % CHANGING;
            let entry = &mut entries[which as usize];
            *entry = match entry.take() {
                Some(id) => {
                    device.apply(Change::Delete(TABLE, id)).unwrap();
                    None
                }
                None => Some(insert(device, key(STAYING + which), number / CHANGING + 1)),
            };
        }
        if done % 700 > behind % 700 {
            // Workers will keep using the newest copy.
            device.improve(Duration::ZERO);
        }
        device.publish();
        done = behind;
        if done % 10 > 7 || done == CHANGES {
            progress.required.store(done, Ordering::SeqCst);
        }
        if done % 10 > 7 {
            // Waits for the current burst and the one after it.
            let over = progress.bursts.load(Ordering::SeqCst) + 2;
            while progress.bursts.load(Ordering::SeqCst) < over && !is_over() {
                thread::yield_now();
            }
        }
    }
}

/// Guard that ends the forwarding thread, even if the changing thread panics.
struct Ends<'p>(&'p Progress);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.required.store(CHANGES, Ordering::SeqCst);
    }
}

fn check(engine: &dyn Engine) {
    let program = testkit::compile_text(PROGRAM).unwrap_or_else(|errors| panic!("{errors}"));
    let mut device = Device::new(program, engine, &DeviceConfig::default()).unwrap();
    for number in 0..STAYING {
        insert(&mut device, key(number), number + 1);
    }
    device.publish();
    let worker = device.workers(1).remove(0);
    let progress = Progress::default();
    thread::scope(|scope| {
        let carrier = scope.spawn(|| carry(worker, &progress));
        let _end = Ends(&progress);
        change(&mut device, &progress, || carrier.is_finished());
    });
    device.check_conservation().unwrap();
}

#[test]
fn packets_find_what_was_there_while_another_thread_changes_a_large_table() {
    for engine in testkit::engines() {
        check(&*engine);
    }
}
