//! Tests of the device's side of a thread and of its worker.

use super::*;

use std::cell::Cell;

use offload::model::ModelConfig;
use offload::{Flow, LengthRange, Met, MetCounter, OffloaderOptions, PortRole};
use switch::DeviceConfig;

use crate::sampling::samples;
use crate::{OffloadOptions, SharedNic};

#[path = "../../../offload/tests/shared/ipv4_program.rs"]
mod ipv4_program;

const FIRST: &str = "table first { key = { hdr.ipv4.src: exact; } actions = { NoAction; }
    default_action = NoAction(); }";

const ROUTES: &str = "direct_counter(CounterType.packets_and_bytes) hits;
    table routes { key = { hdr.ipv4.dst: exact; } actions = { NoAction; }
    default_action = NoAction(); counters = hits; }";

/// Returns a program with these declarations and statements, which sends all packets to port 2.
fn program(declarations: &str, statements: &str) -> Arc<Program> {
    let ingress = format!(
        "control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {{
            {declarations}
            apply {{ {statements} s.egress_spec = 2; }}
        }}"
    );
    let text = ipv4_program::ipv4_program(&ingress);
    Arc::new(driver::compile_text("thread", &text).expect("a program"))
}

fn device(program: &Arc<Program>) -> Device {
    let config = DeviceConfig::default();
    Device::new(Arc::clone(program), &interp::Interp, &config).expect("a device")
}

fn table(program: &Program, name: &str) -> TableId {
    let mut tables = program.tables.iter();
    let found = tables.find(|(_, table)| table.name.rsplit('.').next() == Some(name));
    found.expect("a table").0
}

/// Returns the device's side, with the ends that the thread has.
fn side(device: &mut Device) -> (Offload, Receiver<Input>, Sender<Output>) {
    let (inbox, inputs) = channel();
    let (to_device, outputs) = channel();
    let offload = Offload::new(device, true, inbox, outputs);
    (offload, inputs, to_device)
}

/// Returns the counts of packets that hit an entry.
fn credit(removed: RemovedEntry, packets: u64) -> Credit {
    let RemovedEntry { table, entry } = removed;
    let counter = MetCounter {
        cell: CounterCell::Direct(table, Some(entry)),
        bytes: offload::CountedBytes::default(),
    };
    let flow = Flow {
        ingress: PortId(1),
        matched: Vec::new(),
        length: LengthRange { min: 0, max: 100 },
        checksums: Vec::new(),
        steps: Vec::new(),
        drop: None,
        met: Met {
            counters: vec![counter],
            ..Met::default()
        },
    };
    Credit {
        flow: Arc::new(flow),
        packets,
        bytes: 60 * packets,
        last_use: Nanos::ZERO,
    }
}

fn records(number: usize) -> Vec<Record> {
    let record = |number: usize| Record {
        number: number as u64,
        time: Nanos::ZERO,
        change: switch::Change::DeleteMulticast(1),
        entry: None,
        removed: Vec::new(),
    };
    (0..number).map(record).collect()
}

fn driver_of(device: &mut Device, keeps_entries: bool) -> Driver {
    let options = OffloadOptions {
        offloader: OffloaderOptions::default(),
        tables: Vec::new(),
        table_name: str::to_owned,
        names_fields: true,
        role_of: Arc::new(|_| PortRole::Data),
        keeps_entries,
    };
    let nic = Box::new(SharedNic::new(ModelConfig::default()));
    Driver::new(options, nic, DeviceView::of(device))
}

#[test]
fn changes_that_the_thread_does_not_take_are_limited_and_have_one_message() {
    let mut device = device(&program("", ""));
    let (mut offload, inputs, _outputs) = side(&mut device);
    let give = |offload: &mut Offload, device: &mut Device, number: usize| {
        let all = records(number);
        all.iter().for_each(|record| offload.records.push(record));
        offload.turn(device, Nanos::ZERO);
    };
    let half = MAX_RECORDS / 2;
    give(&mut offload, &mut device, half);
    give(&mut offload, &mut device, half);
    let (waiting, _) = offload.changes.take().expect("changes");
    assert_eq!(
        (waiting.records.len(), waiting.is_incomplete),
        (2 * half, false)
    );
    for _ in 0..5 {
        give(&mut offload, &mut device, half);
    }
    let (waiting, _) = offload.changes.take().expect("changes");
    assert_eq!((waiting.records.len(), waiting.is_incomplete), (0, true));
    assert!(offload.changes.take().is_none());
    assert_eq!(inputs.try_iter().count(), 2, "one message each time");
}

#[test]
fn counts_that_wait_are_announced_until_all_are_taken() {
    let mut device = device(&program("", ""));
    let (mut offload, _inputs, outputs) = side(&mut device);
    for number in 0..MAX_OUTPUTS as u64 + 1 {
        outputs.send(Output::Settled(number, true)).unwrap();
    }
    assert!(offload.turn(&mut device, Nanos::ZERO));
    assert!(!offload.turn(&mut device, Nanos::ZERO));
}

#[test]
fn an_awaited_entry_gets_its_counts_after_its_table_has_another_number() {
    let before = program(ROUTES, "routes.apply();");
    let declarations = format!("{FIRST} {ROUTES}");
    let after = program(&declarations, "first.apply(); routes.apply();");
    let entry = EntryId(7);
    let old = RemovedEntry {
        table: table(&before, "routes"),
        entry,
    };
    let new = RemovedEntry {
        table: table(&after, "routes"),
        entry,
    };
    assert_ne!(old, new);
    let mut device = device(&before);
    let (mut offload, _inputs, outputs) = side(&mut device);
    let number = offload.await_counts(&mut device, old, Nanos::ZERO);
    offload.take_program(&after);
    // One of the thread before it knows of the new program, and one after it.
    offload.take(Output::Credit(credit(old, 3), before), &mut device);
    offload.take(
        Output::Credit(credit(new, 4), Arc::clone(&after)),
        &mut device,
    );
    offload.take(Output::Settled(number, true), &mut device);
    let settled = offload.take_settled();
    let [late] = &settled[..] else {
        panic!("{settled:?}");
    };
    assert!(late.is_complete && late.number == number);
    assert_eq!((late.counts.packets, late.counts.bytes), (7, 420));
    // A table that goes takes what is awaited with it.
    let number = offload.await_counts(&mut device, old, Nanos::ZERO);
    offload.take_program(&program("", ""));
    let settled = offload.take_settled();
    assert!(
        settled
            .iter()
            .all(|late| late.number == number && !late.is_complete)
    );
    assert_eq!(settled.len(), 1);
    drop(outputs);
}

#[test]
fn what_is_awaited_at_the_end_is_settled() {
    let before = program(ROUTES, "routes.apply();");
    let mut device = device(&before);
    let removed = RemovedEntry {
        table: table(&before, "routes"),
        entry: EntryId(7),
    };
    let (mut offload, _inputs, outputs) = side(&mut device);
    let number = offload.await_counts(&mut device, removed, Nanos::ZERO);
    outputs
        .send(Output::Credit(credit(removed, 3), before))
        .unwrap();
    outputs.send(Output::Ended).unwrap();
    offload.finish(&mut device);
    let settled = offload.take_settled();
    let settled: Vec<_> = settled
        .iter()
        .map(|late| (late.number, late.counts.packets))
        .collect();
    assert_eq!(settled, [(number, 3)]);
}

#[test]
fn the_thread_awaits_an_entry_under_the_new_number_of_its_table() {
    let before = program(ROUTES, "routes.apply();");
    let declarations = format!("{FIRST} {ROUTES}");
    let after = program(&declarations, "first.apply(); routes.apply();");
    let entry = EntryId(7);
    let old = RemovedEntry {
        table: table(&before, "routes"),
        entry,
    };
    let new = RemovedEntry {
        table: table(&after, "routes"),
        entry,
    };
    let (_inbox, inputs) = channel();
    let (to_device, outputs) = channel();
    let mut worker = Worker {
        driver: driver_of(&mut device(&before), true),
        changes: Arc::default(),
        readers: Vec::new(),
        next_reader: 0,
        inputs,
        outputs: to_device,
        clock: Box::new(|| Nanos::ZERO),
        next_samples: Nanos::ZERO,
        settling: BTreeMap::new(),
    };
    let exchange = |worker: &mut Worker, program: &Arc<Program>| {
        let mut records = records(1);
        records[0].change = switch::Change::Program;
        let mut waiting = Waiting::default();
        waiting.add(records.into_iter());
        let view = DeviceView::of(&mut device(program));
        assert!(worker.changes.add(waiting, view));
        worker.handle(Input::Changes);
    };
    worker.handle(Input::Settle(1, old, Arc::clone(&before)));
    exchange(&mut worker, &after);
    // It was removed before the exchange, and the thread learns of it after that.
    worker.handle(Input::Settle(2, old, before));
    worker.handle(Input::Settle(3, new, after));
    let awaited: Vec<_> = worker.settling.clone().into_iter().collect();
    assert_eq!(awaited, [(1, new), (2, new), (3, new)]);
    exchange(&mut worker, &program("", ""));
    assert!(worker.settling.is_empty());
    let settled = outputs.try_iter().filter_map(|output| match output {
        Output::Settled(number, is_complete) => Some((number, is_complete)),
        _ => None,
    });
    assert_eq!(
        settled.collect::<Vec<_>>(),
        [(1, false), (2, false), (3, false)]
    );
}

#[test]
fn no_reader_waits_for_others_that_always_have_frames() {
    let (mut samplers, mut readers): (Vec<_>, Vec<_>) = (1..=3).map(samples).unzip();
    let (mut first, mut seen) = (0, [0; 3]);
    for _ in 0..30 {
        for (port, sampler) in (0..).zip(&mut samplers) {
            (0..10).for_each(|_| sampler.note(PortId(port), &[0; 60]));
            sampler.hand_over();
        }
        // There is time for four frames.
        let left = Cell::new(4);
        read_in_turn(&mut readers, &mut first, |port, _, _| {
            seen[port.0 as usize] += 1;
            left.set(left.get() - 1);
            left.get() > 0
        });
    }
    assert!(seen.iter().all(|frames| *frames >= 36), "{seen:?}");
}

#[test]
fn rules_of_a_program_without_tables_are_removed_before_the_end() {
    let mut device = device(&program("", ""));
    let mut driver = driver_of(&mut device, false);
    let mut now = Nanos::ZERO;
    while driver
        .stats()
        .states
        .iter()
        .all(|row| row.state != "in_hw" || row.flows == 0)
    {
        driver.observe(now, PortId(1), &[0; 60], 1_000);
        driver.turn(now);
        now += Nanos::from_millis(100);
        assert!(now < Nanos::from_secs(60), "{:?}", driver.flows());
    }
    assert!(!driver.withdraw(now), "its rule is being removed");
    assert_eq!(driver.stats().rules, 1);
    now += Nanos::from_secs(1);
    driver.turn(now);
    assert!(driver.withdraw(now));
    assert_eq!(driver.stats().rules, 0);
}

/// Gives a driver packets until a flow is in a state. Returns the time.
fn until_state(driver: &mut Driver, mut now: Nanos, wanted: &str) -> Nanos {
    let end = now + Nanos::from_secs(60);
    while driver
        .flows()
        .first()
        .is_none_or(|flow| flow.state != wanted)
    {
        driver.observe(now, PortId(1), &[0; 60], 1_000);
        driver.turn(now);
        now += Nanos::from_millis(100);
        assert!(now < end, "{:?}", driver.flows());
    }
    now
}

#[test]
fn no_rule_sends_to_a_port_that_is_down() {
    let mut device = device(&program("", ""));
    let (mut offload, inputs, _outputs) = side(&mut device);
    for is_up in [true, false, false, true] {
        offload.set_port(PortId(2), is_up);
    }
    let told: Vec<bool> = inputs
        .try_iter()
        .map(|input| match input {
            Input::Port(PortId(2), is_up) => is_up,
            _ => panic!("another message"),
        })
        .collect();
    assert_eq!(told, [false, true], "changes alone");
    let mut driver = driver_of(&mut device, false);
    let now = until_state(&mut driver, Nanos::ZERO, "in_hw");
    driver.set_port(PortId(2), false);
    driver.turn(now);
    let flows = driver.flows();
    assert_eq!(flows[0].state, "refused");
    assert_eq!(flows[0].reason.as_deref(), Some("port 2 is down"));
    driver.set_port(PortId(2), true);
    until_state(&mut driver, now, "in_hw");
}

#[test]
fn reasons_for_software_say_what_decides() {
    let mut device = device(&program("", ""));
    let mut reason = |policy: &str, rules: u32, turns: u64| {
        let options = OffloadOptions {
            offloader: OffloaderOptions {
                policy: policy.parse().expect("a policy"),
                ..OffloaderOptions::default()
            },
            tables: Vec::new(),
            table_name: str::to_owned,
            names_fields: true,
            role_of: Arc::new(|_| PortRole::Data),
            keeps_entries: false,
        };
        let config = ModelConfig {
            rules,
            ..ModelConfig::default()
        };
        let nic = Box::new(SharedNic::new(config));
        let mut driver = Driver::new(options, nic, DeviceView::of(&mut device));
        for turn in 0..turns {
            let now = Nanos::from_millis(100 * turn);
            driver.turn(now);
            for port in 1..4 {
                driver.observe(now, PortId(port), &[0; 60], u64::from(port));
            }
        }
        let flows = driver.flows();
        let mut of_software = flows.iter().filter(|flow| flow.state == "software");
        let flow = of_software.next().expect("a flow in software");
        flow.reason.clone().expect("a reason")
    };
    for (policy, rules, turns, part) in [
        ("top", 9, 1, "it is new: decisions are each 1000 ms"),
        (
            "top",
            1,
            40,
            "full with 1 rules, and the flows in it gain more",
        ),
        (
            "fcfs",
            1,
            40,
            "full with 1 rules, and the flows in it came first",
        ),
        ("paper", 9, 40, "policy paper leaves it in software"),
    ] {
        let words = reason(policy, rules, turns);
        assert!(words.contains(part), "{policy}: {words}");
    }
}
