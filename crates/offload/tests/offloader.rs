//! The offloader with a device, a NIC in memory, changes and faults, from seeds. A second device
//! that gets all packets and all changes is the measure.

#[path = "shared/ipv4_program.rs"]
mod ipv4_program;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bits::Value;
use ipv4_program::ipv4_program;
use ir::{ActionCall, KeyMatch, Program, TableId};
use offload::model::{BatchTime, Faults, ModelConfig, ModelNic};
use offload::{
    FlowState, FlowTracer, OffloadCommand, Offloader, OffloaderOptions, Override, Placed, PortRole,
    RuleCounts, RuleId, Target, TargetEvent, View,
};
use packet::{Nanos, PortId};
use support::rng::Rng;
use switch::{Action, Change, CounterReading, Device, DeviceConfig, EntryId, Record, TableEntry};

const INGRESS: &str = "
    control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
        direct_counter(CounterType.packets_and_bytes) route_hits;
        direct_counter(CounterType.packets_and_bytes) rule_hits;
        counter(8, CounterType.packets_and_bytes) drops;
        action forward(bit<9> port, bit<48> dst) {
            s.egress_spec = port;
            hdr.ethernet.dst = dst;
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        }
        action drop(bit<32> reason) { drops.count(reason); mark_to_drop(s); }
        table routes {
            key = { hdr.ipv4.dst: lpm; }
            actions = { forward; drop; }
            default_action = drop(1);
            counters = route_hits;
            support_timeout = true;
        }
        table rules {
            key = { hdr.ipv4.src: ternary; hdr.ipv4.protocol: ternary; }
            actions = { drop; NoAction; }
            default_action = NoAction();
            counters = rule_hits;
        }
        apply { if (hdr.ipv4.isValid()) { routes.apply(); rules.apply(); } else { drop(2); } }
    }
";

/// Returns a program with routes and rules, which count.
fn program() -> String {
    ipv4_program(INGRESS)
}

const STEP: Nanos = Nanos::from_millis(10);

struct Simulation {
    rng: Rng,
    program: Arc<Program>,
    device: Device,
    /// Gets all packets and all changes.
    measure: Device,
    records: Arc<Mutex<Vec<Record>>>,
    nic: ModelNic,
    offloader: Offloader,
    entries: Vec<(TableId, EntryId)>,
    now: Nanos,
    last_change: Nanos,
    frames: Vec<Vec<u8>>,
    /// Numbers of rules added and removed in the last steps.
    added: usize,
    removed: usize,
    in_nic: u64,
    gone: usize,
}

fn device(program: &Arc<Program>) -> Device {
    Device::new(
        Arc::clone(program),
        &interp::Interp,
        &DeviceConfig::default(),
    )
    .expect("a device")
}

fn run(device: &mut Device, now: Nanos, frame: &[u8]) -> Vec<(PortId, Vec<u8>)> {
    device.receive(PortId(1), frame).expect("a short frame");
    device.step(now);
    let mut sent = Vec::new();
    device.drain_sent(|port, bytes, _| sent.push((port, bytes.to_vec())));
    sent
}

fn frame(rng: &mut Rng) -> Vec<u8> {
    let mut frame = vec![0; 60 + rng.index(40)];
    rng.fill(&mut frame[..34]);
    frame[12..14].copy_from_slice(&if rng.one_in(12) { [0x86, 0xDD] } else { [8, 0] });
    frame[14] = 0x45;
    frame[23] = [6, 17, 1][rng.index(3)];
    frame[26..30].copy_from_slice(&[10, 0, 0, rng.below(8) as u8]);
    frame[30..34].copy_from_slice(&[10, rng.below(4) as u8, rng.below(4) as u8, 1]);
    frame
}

impl Simulation {
    fn new(seed: u64, config: ModelConfig, options: OffloaderOptions) -> Simulation {
        Simulation::of(&program(), seed, config, options)
    }

    fn of(text: &str, seed: u64, config: ModelConfig, options: OffloaderOptions) -> Simulation {
        let program = driver::compile_text("offloader", text).expect("a program");
        let program = Arc::new(program);
        let mut rng = Rng::new(seed);
        let tracer = FlowTracer::new(&program, |_| PortRole::Data).expect("a program of v1model");
        let mut device_of_user = device(&program);
        let records = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&records);
        device_of_user.follow(move |record| log.lock().unwrap().push(record.clone()));
        let frames = (0..60).map(|_| frame(&mut rng)).collect();
        Simulation {
            measure: device(&program),
            device: device_of_user,
            program,
            records,
            nic: ModelNic::new(config),
            offloader: Offloader::new(tracer, options),
            entries: Vec::new(),
            now: Nanos(1),
            last_change: Nanos::ZERO,
            frames,
            added: 0,
            removed: 0,
            in_nic: 0,
            gone: 0,
            rng,
        }
    }

    fn table(&self, name: &str) -> TableId {
        let mut tables = self.program.tables.iter();
        let found = tables.find(|(_, table)| table.name.ends_with(name));
        found.expect("a table").0
    }

    fn apply(&mut self, change: Change) -> Option<EntryId> {
        self.last_change = self.now;
        let ours = self.device.apply(change.clone());
        let theirs = self.measure.apply(change);
        assert_eq!(ours, theirs);
        ours.ok().flatten()
    }

    fn call(&mut self, table: TableId) -> ActionCall {
        let forward = table == self.table("routes") && !self.rng.one_in(4);
        let args = match forward {
            true => vec![
                Value::truncated((2 + self.rng.below(6)).into(), 9),
                Value::truncated(self.rng.bits().into(), 48),
            ],
            false => vec![Value::truncated((3 + self.rng.below(5)).into(), 32)],
        };
        let action = match (forward, table == self.table("routes")) {
            (true, _) | (false, false) => 0,
            (false, true) => 1,
        };
        ActionCall { action, args }
    }

    fn insert(&mut self) {
        let name = ["routes", "rules"][self.rng.index(2)];
        let table = self.table(name);
        let frame = self.frames[self.rng.index(self.frames.len())].clone();
        let word =
            |at: usize| u128::from(u32::from_be_bytes(frame[at..at + 4].try_into().unwrap()));
        let keys = match name {
            "routes" => {
                let len = 8 * (1 + self.rng.below(4)) as u32;
                let value = Value::truncated(word(30), 32).and(&Value::prefix_mask(len, 32));
                vec![KeyMatch::Lpm(value, len)]
            }
            _ => {
                let mask = Value::truncated(self.rng.bits().into(), 32);
                let protocol = match self.rng.one_in(2) {
                    true => KeyMatch::Any,
                    false => {
                        let protocol = Value::truncated(frame[23].into(), 8);
                        KeyMatch::Ternary(protocol, Value::all_ones(8))
                    }
                };
                vec![
                    KeyMatch::Ternary(Value::truncated(word(26), 32).and(&mask), mask),
                    protocol,
                ]
            }
        };
        let entry = TableEntry {
            keys,
            priority: (name == "rules").then(|| 1 + self.rng.below(100) as i32),
            action: Action::Call(self.call(table)),
            idle_timeout: None,
            meter: None,
            counter: None,
        };
        if let Some(id) = self.apply(Change::Insert(table, entry)) {
            self.entries.push((table, id));
        }
    }

    fn change(&mut self) {
        if self.entries.len() < 6 || self.rng.one_in(2) && self.entries.len() < 40 {
            return self.insert();
        }
        let at = self.rng.index(self.entries.len());
        let (table, id) = self.entries[at];
        if self.rng.one_in(2) {
            self.entries.swap_remove(at);
            self.apply(Change::Delete(table, id));
        } else {
            let call = self.call(table);
            self.apply(Change::Modify(table, id, Action::Call(call), None));
        }
    }

    fn command(&mut self, command: OffloadCommand) {
        match command {
            OffloadCommand::Add(rules) => {
                self.added += rules.len();
                self.nic.add(self.now, rules);
            }
            OffloadCommand::Replace(rules) => {
                self.added += rules.len();
                self.nic.replace(self.now, rules);
            }
            OffloadCommand::Remove(rules) => {
                self.removed += rules.len();
                self.nic.remove(self.now, &rules);
            }
            OffloadCommand::Read(rules) => self.nic.read(self.now, &rules),
            OffloadCommand::Credit(credit) => {
                self.gone += usize::from(credit.apply(&mut self.device, |_, _| false));
            }
        }
    }

    /// Takes the events of the NIC, and runs a step of the offloader.
    fn offload(&mut self) {
        let mut events = Vec::new();
        self.nic.poll(self.now, &mut events);
        for event in events {
            let commands = self.offloader.event(self.now, event);
            commands
                .into_iter()
                .for_each(|command| self.command(command));
        }
        let state = self.device.state();
        let view = View {
            state: &state,
            replication: self.device.replication(),
        };
        let commands = self.offloader.step(self.now, view, &self.nic);
        commands
            .into_iter()
            .for_each(|command| self.command(command));
    }

    /// Runs a step with this number of changes. Compares what is sent if no rule may be late.
    fn step(&mut self, changes: usize) {
        self.now += STEP;
        (0..changes).for_each(|_| self.change());
        let records = std::mem::take(&mut *self.records.lock().unwrap());
        records
            .iter()
            .for_each(|record| self.offloader.changed(record));
        self.offload();
        let state = self.device.state();
        let is_quiet = self.now.0 > self.last_change.0 + 1_500_000_000;
        for _ in 0..12 {
            // Some flows have most packets.
            let at = self.rng.index(self.frames.len());
            let at = self.rng.index(at + 1);
            let frame = self.frames[at].clone();
            let expected = run(&mut self.measure, self.now, &frame);
            let sent = match self.nic.process(self.now, PortId(1), &frame) {
                Some(sent) => {
                    self.in_nic += 1;
                    sent
                }
                None => {
                    let sent = run(&mut self.device, self.now, &frame);
                    let view = View {
                        state: &state,
                        replication: self.device.replication(),
                    };
                    self.offloader.observe(self.now, view, PortId(1), &frame, 1);
                    sent
                }
            };
            if is_quiet {
                assert_eq!(sent, expected, "{frame:02x?} at {:?}", self.now);
            }
        }
    }

    /// Returns what all counters of a device have.
    fn counts(&self, device: &Device) -> BTreeMap<(u32, u64), CounterReading> {
        let mut counts = BTreeMap::new();
        for (table, id) in &self.entries {
            let reading = device.read_direct_counter(*table, *id);
            counts.insert((table.get(), id.0), reading.expect("an entry"));
        }
        let drops = self.program.externs.iter();
        let mut drops = drops.filter(|(_, one)| one.name.ends_with("drops"));
        let drops = drops.next().expect("a counter").0;
        for index in 0..8 {
            let reading = device.read_counter(drops, index);
            counts.insert((u32::MAX, index.into()), reading.expect("a cell"));
        }
        for hits in device.table_hits() {
            let reading = CounterReading {
                packets: hits.hits,
                bytes: hits.misses,
            };
            counts.insert((u32::MAX - 1, hits.table.get().into()), reading);
        }
        counts
    }

    /// Returns what the counters of both devices have more than before.
    fn differences(
        &self,
        before: &[BTreeMap<(u32, u64), CounterReading>; 2],
    ) -> [BTreeMap<(u32, u64), (u64, u64)>; 2] {
        let after = [self.counts(&self.device), self.counts(&self.measure)];
        std::array::from_fn(|at| {
            let counts = after[at].iter().map(|(key, reading)| {
                let before = before[at][key];
                let packets = reading.packets - before.packets;
                (*key, (packets, reading.bytes - before.bytes))
            });
            counts.collect()
        })
    }

    /// Lets all traffic stop, so that the counts of the NIC arrive.
    fn settle(&mut self) {
        self.settle_for(400);
    }

    fn settle_for(&mut self, steps: usize) {
        for _ in 0..steps {
            self.now += STEP;
            self.offload();
        }
    }
}

fn config(seed: u64, rules: u32, faults: Faults) -> ModelConfig {
    ModelConfig {
        rules,
        add: BatchTime {
            batch: Nanos::from_millis(3),
            each: Nanos::from_micros(20),
        },
        remove: BatchTime {
            batch: Nanos::from_millis(3),
            each: Nanos::from_micros(20),
        },
        counts_period: Nanos::from_millis(100),
        faults,
        seed,
        ..ModelConfig::default()
    }
}

fn options() -> OffloaderOptions {
    OffloaderOptions {
        period: Nanos::from_millis(200),
        retry_after: Nanos::from_secs(2),
        forget_after: Nanos::from_secs(60),
        ..OffloaderOptions::default()
    }
}

/// Runs changes and traffic, then a quiet time in which all is compared.
fn check(seed: u64, rules: u32, faults: Faults) -> Simulation {
    println!("seed {seed}");
    let mut simulation = Simulation::new(seed, config(seed, rules, faults), options());
    for _ in 0..12 {
        simulation.insert();
    }
    for step in 0..150 {
        let changes = if step % 3 == 0 {
            simulation.rng.index(3)
        } else {
            0
        };
        simulation.step(changes);
    }
    for _ in 0..160 {
        simulation.step(0);
    }
    let before = [
        simulation.counts(&simulation.device),
        simulation.counts(&simulation.measure),
    ];
    // Counts that were under way belong to the time before.
    simulation.settle();
    let before = [simulation.counts(&simulation.device), before[1].clone()];
    let in_nic = simulation.in_nic;
    simulation.gone = 0;
    for _ in 0..200 {
        simulation.step(0);
    }
    simulation.settle();
    let [ours, theirs] = simulation.differences(&before);
    assert_eq!(ours, theirs);
    assert_eq!(simulation.gone, 0);
    assert!(faults != Faults::default() || simulation.in_nic > in_nic + 300);
    // The NIC has no rule that the offloader does not know.
    let active = simulation.nic.active().count();
    let flows = simulation.offloader.flows();
    let known = flows
        .filter(|flow| flow.state == FlowState::InHardware)
        .count();
    assert!(active <= known, "{active} rules, {known} flows in hardware");
    simulation
}

#[test]
fn packets_and_counts_are_those_of_a_device_without_a_nic() {
    for seed in 0..6 {
        check(seed, 1_000, Faults::default());
    }
}

#[test]
fn a_full_nic_has_the_flows_with_most_packets() {
    for seed in 100..104 {
        let simulation = check(seed, 8, Faults::default());
        let flows: Vec<_> = simulation.offloader.flows().collect();
        let there = flows
            .iter()
            .filter(|flow| flow.state == FlowState::InHardware);
        assert_eq!(there.count(), 8.min(flows.len()));
    }
}

#[test]
fn faults_of_all_kinds_change_no_packet_and_no_count() {
    let faults = Faults {
        refused: 80,
        refused_late: 80,
        not_in_hardware: 80,
        dead: 80,
        evicted: 80,
        evicted_silently: 0,
    };
    for seed in 200..208 {
        let simulation = check(seed, 12, faults);
        for flow in simulation.offloader.flows() {
            assert!(!flow.state.to_string().is_empty());
        }
    }
}

#[test]
fn a_rule_that_is_lost_silently_is_found_by_its_packets() {
    let mut simulation = Simulation::new(5, config(5, 1_000, Faults::default()), options());
    (0..12).for_each(|_| simulation.insert());
    (0..200).for_each(|_| simulation.step(0));
    let rules: Vec<RuleId> = simulation.nic.active().map(|(id, _)| id).collect();
    assert!(rules.len() > 5);
    for rule in rules {
        simulation.nic.evict_silently(rule);
    }
    (0..120).for_each(|_| simulation.step(0));
    let evicted = simulation.offloader.counts().evicted;
    assert!(evicted > 5, "{evicted}");
    // They are tried again.
    (0..400).for_each(|_| simulation.step(0));
    assert!(simulation.nic.active().count() > 5);
}

#[test]
fn a_change_traces_only_the_flows_that_met_the_entry_and_nothing_flaps() {
    let options = OffloaderOptions {
        sweep: 0,
        ..options()
    };
    let mut simulation = Simulation::new(9, config(9, 1_000, Faults::default()), options);
    (0..20).for_each(|_| simulation.insert());
    (0..300).for_each(|_| simulation.step(0));
    (simulation.added, simulation.removed) = (0, 0);
    (0..100).for_each(|_| simulation.step(0));
    assert_eq!((simulation.added, simulation.removed), (0, 0));
    let (table, id) = simulation.entries[0];
    let met = |flow: &offload::FlowReport| {
        let mut lookups = flow.flow.met.lookups.iter();
        lookups.any(|met| met.table == table && met.entry == Some(id))
    };
    let count = simulation.offloader.flows().filter(met).count() as u64;
    let before = simulation.offloader.counts();
    let call = simulation.call(table);
    simulation.apply(Change::Modify(table, id, Action::Call(call), None));
    simulation.step(0);
    let after = simulation.offloader.counts();
    assert_eq!(after.retraced - before.retraced, count);
}

#[test]
fn the_owner_s_choice_has_precedence() {
    let mut simulation = Simulation::new(3, config(3, 1_000, Faults::default()), options());
    (0..20).for_each(|_| simulation.insert());
    (0..200).for_each(|_| simulation.step(0));
    let routes = simulation.table("routes");
    simulation
        .offloader
        .set_table_override(routes, Some(Override::Never));
    (0..100).for_each(|_| simulation.step(0));
    let meets = |flow: &offload::FlowReport| {
        let mut lookups = flow.flow.met.lookups.iter();
        lookups.any(|met| met.table == routes)
    };
    let flows = simulation.offloader.flows().filter(meets);
    for flow in flows {
        assert_eq!(flow.state, FlowState::Software);
    }
}

#[test]
fn entries_expire_by_the_traffic_of_both_planes() {
    let mut simulation = Simulation::new(4, config(4, 1_000, Faults::default()), options());
    let routes = simulation.table("routes");
    let entry = TableEntry {
        keys: vec![KeyMatch::Lpm(Value::truncated(10 << 24, 32), 8)],
        priority: None,
        action: Action::Call(ActionCall {
            action: 0,
            args: vec![Value::truncated(3, 9), Value::truncated(7, 48)],
        }),
        idle_timeout: Some(Nanos::from_secs(1)),
        meter: None,
        counter: None,
    };
    let id = simulation
        .apply(Change::Insert(routes, entry))
        .expect("an entry");
    let delay = simulation.offloader.counts_delay(&simulation.nic);
    simulation.device.set_idle_delay(delay);
    (0..100).for_each(|_| simulation.step(0));
    let in_nic = simulation.in_nic;
    for _ in 0..500 {
        simulation.step(0);
        assert_eq!(simulation.device.take_idle(), []);
    }
    assert!(simulation.in_nic > in_nic + 4_000);
    let stopped = simulation.now;
    let mut expired = None;
    for _ in 0..300 {
        simulation.settle_for(1);
        simulation.device.step(simulation.now);
        if simulation.device.take_idle().contains(&(routes, id)) {
            expired.get_or_insert(simulation.now);
        }
    }
    let after = expired.expect("an idle entry").0 - stopped.0;
    assert!(
        (1_000_000_000..2_500_000_000).contains(&after),
        "{after} ns"
    );
}

/// Returns what a step commands. The NIC gets nothing of it.
fn commands(simulation: &mut Simulation, frame: &[u8]) -> Vec<OffloadCommand> {
    simulation.now += STEP;
    let records = std::mem::take(&mut *simulation.records.lock().unwrap());
    let offloader = &mut simulation.offloader;
    records.iter().for_each(|record| offloader.changed(record));
    let state = simulation.device.state();
    let view = View {
        state: &state,
        replication: simulation.device.replication(),
    };
    offloader.observe(simulation.now, view, PortId(1), frame, 1);
    offloader.step(simulation.now, view, &simulation.nic)
}

/// Returns a simulation with one flow, and the rule that it adds.
fn with_rule(options: OffloaderOptions) -> (Simulation, RuleId, Vec<u8>) {
    with_rule_of(1, options)
}

fn with_rule_of(seed: u64, options: OffloaderOptions) -> (Simulation, RuleId, Vec<u8>) {
    let config = config(seed, 1_000, Faults::default());
    let mut simulation = Simulation::new(seed, config, options);
    simulation.insert();
    let frame = simulation.frames[0].clone();
    for _ in 0..200 {
        for command in commands(&mut simulation, &frame) {
            if let OffloadCommand::Add(rules) = command {
                return (simulation, rules[0].0, frame);
            }
        }
    }
    panic!("no rule is added");
}

#[test]
fn a_rule_that_is_added_after_its_successor_is_removed() {
    let (mut simulation, old, frame) = with_rule(options());
    let routes = simulation.table("routes");
    let call = ActionCall {
        action: 1,
        args: vec![Value::truncated(7, 32)],
    };
    simulation.apply(Change::SetDefault(routes, call));
    let id = simulation.entries[0];
    simulation.apply(Change::Clear(id.0));
    let mut replaced = Vec::new();
    for command in commands(&mut simulation, &frame) {
        if let OffloadCommand::Replace(rules) = command {
            replaced = rules;
        }
    }
    let (from, new, _) = replaced.pop().expect("a rule is replaced");
    assert_eq!(from, old);
    let now = simulation.now;
    let mut event = |rule| {
        let event = TargetEvent::Added(rule, Placed::InHardware);
        simulation.offloader.event(now, event)
    };
    assert_eq!(event(new), []);
    assert_eq!(event(old), [OffloadCommand::Remove(vec![old])]);
}

#[test]
fn counts_that_start_again_are_credited() {
    let (mut simulation, rule, _) = with_rule(options());
    let now = simulation.now;
    for (packets, credited) in [(100, 100), (7, 7), (9, 2), (9, 0)] {
        let counts = RuleCounts {
            packets,
            bytes: 60 * packets,
            last_use: Some(now),
        };
        let event = TargetEvent::Counts(rule, now, counts);
        let commands = simulation.offloader.event(now, event);
        let credits = commands.iter().map(|command| match command {
            OffloadCommand::Credit(credit) => (credit.packets, credit.bytes),
            other => panic!("another command: {other:?}"),
        });
        let expected = (credited > 0).then_some((credited, 60 * credited));
        assert_eq!(credits.collect::<Vec<_>>(), Vec::from_iter(expected));
    }
}

#[test]
fn a_flow_that_is_never_forgotten_is_no_overflow() {
    let (mut simulation, rule, frame) = with_rule(OffloaderOptions {
        forget_after: Nanos::MAX,
        ..options()
    });
    let event = TargetEvent::Added(rule, Placed::InHardware);
    simulation.offloader.event(simulation.now, event);
    (0..50).for_each(|_| drop(commands(&mut simulation, &frame)));
    assert_eq!(simulation.offloader.flows().count(), 1);
}

#[test]
fn an_entry_for_a_key_that_changed_without_an_effect_takes_the_flow_at_once() {
    let text = program()
        .replace("struct metadata { }", "struct metadata { bit<8> mark; }")
        .replace(
            "apply { if (hdr.ipv4.isValid()) { routes",
            "action mark(bit<8> value) { m.mark = value; }
            table marks { key = { hdr.ipv4.src: exact; } actions = { mark; NoAction; }
                default_action = NoAction(); }
            table marked { key = { m.mark: exact; } actions = { drop; NoAction; }
                default_action = NoAction(); }
            apply { marks.apply(); marked.apply(); if (hdr.ipv4.isValid()) { routes",
        );
    let mut simulation = Simulation::of(&text, 2, config(2, 1_000, Faults::default()), options());
    let (marks, marked) = (simulation.table("marks"), simulation.table("marked"));
    let mut frame = simulation.frames[0].clone();
    frame[12..14].copy_from_slice(&[8, 0]);
    let value = |value: u128, width| Value::truncated(value, width);
    let source = u32::from_be_bytes(frame[26..30].try_into().unwrap());
    let mark = |mark| {
        Action::Call(ActionCall {
            action: 0,
            args: vec![value(mark, 8)],
        })
    };
    let entry = |key, action| TableEntry {
        keys: vec![KeyMatch::Exact(key)],
        priority: None,
        action,
        idle_timeout: None,
        meter: None,
        counter: None,
    };
    let first = entry(value(source.into(), 32), mark(5));
    let first = simulation
        .apply(Change::Insert(marks, first))
        .expect("an entry");
    commands(&mut simulation, &frame);
    let met = |simulation: &Simulation| {
        let flows: Vec<_> = simulation.offloader.flows().collect();
        assert_eq!(flows.len(), 1);
        flows[0].flow.met.lookups[1].entry
    };
    assert_eq!(met(&simulation), None);
    simulation.apply(Change::Modify(marks, first, mark(6), None));
    commands(&mut simulation, &frame);
    let drop = ActionCall {
        action: 0,
        args: vec![value(1, 32)],
    };
    let second = entry(value(6, 8), Action::Call(drop));
    let second = simulation.apply(Change::Insert(marked, second));
    commands(&mut simulation, &frame);
    assert_eq!(met(&simulation), second);
}

#[test]
fn counts_that_come_less_often_than_decisions_are_no_lost_rule() {
    let (mut simulation, rule, frame) = with_rule(options());
    let added = TargetEvent::Added(rule, Placed::InHardware);
    simulation.offloader.event(simulation.now, added);
    for step in 0..400 {
        // Two periods of decisions.
        if step % 40 == 0 {
            let counts = RuleCounts {
                packets: step + 1,
                bytes: 60 * (step + 1),
                last_use: Some(simulation.now),
            };
            let event = TargetEvent::Counts(rule, simulation.now, counts);
            simulation.offloader.event(simulation.now, event);
        }
        commands(&mut simulation, &frame);
    }
    assert_eq!(simulation.offloader.counts().evicted, 0);
    (0..100).for_each(|_| drop(commands(&mut simulation, &frame)));
    assert_eq!(simulation.offloader.counts().evicted, 1);
}

#[test]
fn counts_go_to_the_program_that_runs() {
    let other = program().replace(
        "apply { if (hdr.ipv4.isValid()) { routes.apply(); rules.apply(); }",
        "apply { if (hdr.ipv4.isValid()) { routes.apply(); }",
    );
    for (text, credited) in [(&program(), 1), (&other, 0)] {
        let (mut simulation, rule, frame) = with_rule(options());
        let added = TargetEvent::Added(rule, Placed::InHardware);
        simulation.offloader.event(simulation.now, added);
        let program = Arc::new(driver::compile_text("offloader", text).expect("a program"));
        let tracer = FlowTracer::new(&program, |_| PortRole::Data).expect("a tracer");
        simulation.offloader.exchange(tracer);
        let counts = RuleCounts {
            packets: 100,
            bytes: 6_000,
            last_use: Some(simulation.now),
        };
        let event = TargetEvent::Counts(rule, simulation.now, counts);
        let early = simulation.offloader.event(simulation.now, event.clone());
        assert_eq!(early, []);
        if credited == 0 {
            simulation.device = device(&program);
        }
        commands(&mut simulation, &frame);
        let late = simulation.offloader.event(simulation.now, event);
        assert_eq!(late.len(), credited);
    }
}

/// Returns the state of the only flow.
fn state(simulation: &Simulation) -> FlowState {
    let flows: Vec<_> = simulation.offloader.flows().collect();
    assert_eq!(flows.len(), 1);
    flows[0].state.clone()
}

/// Runs steps until one commands something that fits.
fn until<T>(
    simulation: &mut Simulation,
    frame: &[u8],
    fits: impl Fn(OffloadCommand) -> Option<T>,
) -> Option<T> {
    for _ in 0..400 {
        let commands = commands(simulation, frame);
        if let Some(found) = commands.into_iter().find_map(&fits) {
            return Some(found);
        }
    }
    None
}

fn added(command: OffloadCommand) -> Option<RuleId> {
    match command {
        OffloadCommand::Add(rules) => Some(rules[0].0),
        _ => None,
    }
}

fn removed(command: OffloadCommand) -> Option<RuleId> {
    match command {
        OffloadCommand::Remove(rules) => Some(rules[0]),
        _ => None,
    }
}

#[test]
fn a_rule_leaves_a_port_that_goes_down_and_comes_back_with_it() {
    let forwarding = (1..50).find_map(|seed| {
        let (simulation, rule, frame) = with_rule_of(seed, options());
        let flow = simulation.offloader.flows().next()?.flow;
        let port = flow.apply(&frame).first()?.0;
        Some((simulation, rule, frame, port))
    });
    let (mut simulation, rule, frame, port) = forwarding.expect("a flow that forwards");
    let event = TargetEvent::Added(rule, Placed::InHardware);
    simulation.offloader.event(simulation.now, event);
    simulation.offloader.set_port(PortId(99), false);
    assert!(
        !commands(&mut simulation, &frame)
            .into_iter()
            .any(|c| removed(c).is_some())
    );
    simulation.offloader.set_port(port, false);
    // At once, before the next decision.
    let taken: Vec<_> = commands(&mut simulation, &frame);
    assert!(
        taken
            .into_iter()
            .any(|command| removed(command) == Some(rule))
    );
    let refused = FlowState::Refused(format!("port {port} is down"));
    assert_eq!(state(&simulation), refused);
    assert_eq!(until(&mut simulation, &frame, added), None);
    assert_eq!(state(&simulation), refused);
    simulation.offloader.set_port(port, true);
    assert!(until(&mut simulation, &frame, added).is_some());
}

#[test]
fn a_rule_that_is_not_in_hardware_is_tried_again() {
    let (mut simulation, rule, frame) = with_rule(options());
    let event = TargetEvent::Added(rule, Placed::NotInHardware);
    simulation.offloader.event(simulation.now, event);
    let since = simulation.now;
    assert_eq!(until(&mut simulation, &frame, removed), Some(rule));
    assert!(simulation.now.0 - since.0 >= options().retry_after.0);
    let event = TargetEvent::Removed(rule, RuleCounts::default());
    simulation.offloader.event(simulation.now, event);
    let flows = simulation.offloader.flows().next();
    assert_eq!(flows.map(|flow| flow.state), Some(FlowState::Adding));
}

/// A target of which the rules take no frame that ends in an odd byte.
struct Narrow(ModelNic);

impl Target for Narrow {
    fn name(&self) -> &str {
        "narrow"
    }
    fn capacity(&self) -> offload::RuleCapacity {
        self.0.capacity()
    }
    fn counts_delay(&self) -> Nanos {
        self.0.counts_delay()
    }
    fn can(&self, flow: &offload::Flow) -> Result<(), offload::NotOffloadable> {
        self.0.can(flow)
    }
    fn takes(&self, _: &offload::Flow, frame: &[u8]) -> bool {
        frame.last().is_some_and(|byte| byte % 2 == 0)
    }
    fn add(&mut self, _: Nanos, _: Vec<(RuleId, Arc<offload::Flow>)>) {}
    fn replace(&mut self, _: Nanos, _: Vec<(RuleId, RuleId, Arc<offload::Flow>)>) {}
    fn remove(&mut self, _: Nanos, _: &[RuleId]) {}
    fn read(&mut self, _: Nanos, _: &[RuleId]) {}
    fn poll(&mut self, _: Nanos, _: &mut Vec<TargetEvent>) {}
    fn next_time(&self) -> Option<Nanos> {
        None
    }
}

#[test]
fn frames_that_a_narrower_rule_does_not_take_are_no_lost_rule() {
    for (last, evicted) in [(1, 0), (2, 1)] {
        let (mut simulation, rule, mut frame) = with_rule(options());
        let event = TargetEvent::Added(rule, Placed::InHardware);
        simulation.offloader.event(simulation.now, event);
        let narrow = Narrow(ModelNic::new(config(1, 100, Faults::default())));
        *frame.last_mut().expect("a byte") = last;
        for _ in 0..200 {
            simulation.now += STEP;
            let state = simulation.device.state();
            let view = View {
                state: &state,
                replication: simulation.device.replication(),
            };
            let offloader = &mut simulation.offloader;
            offloader.observe(simulation.now, view, PortId(1), &frame, 1);
            offloader.step(simulation.now, view, &narrow);
        }
        assert_eq!(simulation.offloader.counts().evicted, evicted);
    }
}

#[test]
fn counts_of_a_rule_that_ends_during_an_exchange_go_to_the_same_flow_or_are_named() {
    let other = program().replace(
        "apply { if (hdr.ipv4.isValid()) { routes.apply(); rules.apply(); }",
        "apply { if (hdr.ipv4.isValid()) { routes.apply(); }",
    );
    for (text, credited) in [(&program(), 1), (&other, 0)] {
        let (mut simulation, rule, frame) = with_rule(options());
        let added = TargetEvent::Added(rule, Placed::InHardware);
        simulation.offloader.event(simulation.now, added);
        let program = Arc::new(driver::compile_text("offloader", text).expect("a program"));
        let tracer = FlowTracer::new(&program, |_| PortRole::Data).expect("a tracer");
        simulation.offloader.exchange(tracer);
        let counts = RuleCounts {
            packets: 100,
            bytes: 6_000,
            last_use: Some(simulation.now),
        };
        let ended = TargetEvent::Evicted(rule, counts);
        assert_eq!(simulation.offloader.event(simulation.now, ended), []);
        if credited == 0 {
            simulation.device = device(&program);
        }
        let commands = commands(&mut simulation, &frame);
        let credits = commands.iter().filter_map(|command| match command {
            OffloadCommand::Credit(credit) => Some(credit.packets),
            _ => None,
        });
        let packets: u64 = credits.sum();
        assert_eq!(packets, 100 * credited);
        let uncredited = simulation.offloader.counts().uncredited;
        assert_eq!(packets + uncredited, 100);
    }
}

#[test]
fn a_lost_rule_has_its_reason_and_is_tried_again() {
    let (mut simulation, rule, frame) = with_rule(options());
    let event = TargetEvent::Added(rule, Placed::InHardware);
    simulation.offloader.event(simulation.now, event);
    let counts = RuleCounts {
        packets: 5,
        bytes: 300,
        last_use: Some(simulation.now),
    };
    let words = "the interface 'eth9' of port 9 has gone".to_owned();
    let lost = TargetEvent::Lost(rule, counts, words.clone());
    let commands = simulation.offloader.event(simulation.now, lost);
    assert!(matches!(&commands[..], [OffloadCommand::Credit(credit)] if credit.packets == 5));
    assert_eq!(state(&simulation), FlowState::Lost(words));
    let since = simulation.now;
    assert!(until(&mut simulation, &frame, added).is_some());
    assert!(simulation.now.0 - since.0 >= options().retry_after.0);
}

#[test]
fn counts_go_on_under_the_new_numbers_of_objects_and_those_of_gone_objects_are_named() {
    let shifted = program()
        .replace(
            "table routes {",
            "table first { key = { hdr.ipv4.dst: exact; } actions = { NoAction; }
                default_action = NoAction(); }
            table routes {",
        )
        .replace("routes.apply();", "first.apply(); routes.apply();");
    let without = program().replace("rules.apply();", "");
    for (text, is_credited) in [(&program(), true), (&shifted, true), (&without, false)] {
        let (mut simulation, rule, frame) = with_rule(options());
        let added = TargetEvent::Added(rule, Placed::InHardware);
        simulation.offloader.event(simulation.now, added);
        let program = Arc::new(driver::compile_text("offloader", text).expect("a program"));
        let tracer = FlowTracer::new(&program, |_| PortRole::Data).expect("a tracer");
        simulation.offloader.exchange_with_entries(tracer);
        let counts = RuleCounts {
            packets: 100,
            bytes: 6_000,
            last_use: Some(simulation.now),
        };
        let event = TargetEvent::Removed(rule, counts);
        let commands = simulation.offloader.event(simulation.now, event);
        let [OffloadCommand::Credit(credit)] = &commands[..] else {
            assert!(!is_credited && commands.is_empty(), "{commands:?}");
            // The next step traces the flow again, and it is another one.
            simulation.device = device(&program);
            self::commands(&mut simulation, &frame);
            assert_eq!(simulation.offloader.counts().uncredited, 100);
            continue;
        };
        assert!(is_credited);
        assert_eq!(
            (credit.packets, simulation.offloader.counts().uncredited),
            (100, 0)
        );
        let met = credit.flow.met.lookups.iter();
        let names = met.map(|met| program.tables[met.table].name.rsplit('.').next());
        assert_eq!(names.collect::<Vec<_>>(), [Some("routes"), Some("rules")]);
    }
}
