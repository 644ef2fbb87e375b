//! Changes at 1,000 a second, in simulated time: no rule is removed and put back, only flows with
//! another effect get other rules, and these are right soon after the last change.

#[path = "shared/ipv4_program.rs"]
mod ipv4_program;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bits::Value;
use ir::{ActionCall, KeyMatch, Program, TableId};
use offload::model::{ModelConfig, ModelNic};
use offload::{
    Flow, FlowState, FlowTracer, OffloadCommand, Offloader, OffloaderOptions, PortRole, RuleId,
    Target, View,
};
use packet::{Nanos, PortId};
use support::rng::Rng;
use switch::{Action, Change, Device, DeviceConfig, EntryId, Record, TableEntry};

const INGRESS: &str = "
    control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
        action allow() { }
        action drop() { mark_to_drop(s); }
        action forward(bit<9> port) { s.egress_spec = port; }
        table sources { key = { hdr.ipv4.src: exact; } actions = { allow; drop; }
            default_action = drop(); }
        table destinations { key = { hdr.ipv4.dst: exact; } actions = { forward; drop; }
            default_action = drop(); }
        apply { if (sources.apply().hit) { destinations.apply(); } }
    }
";

const SOURCES: u8 = 12;
const DESTINATIONS: u8 = 10;
const FLOWS: usize = SOURCES as usize * DESTINATIONS as usize;

/// Requests for rules.
#[derive(Default)]
struct Requests {
    added: usize,
    removed: usize,
    replaced: usize,
    flows: HashMap<RuleId, Arc<Flow>>,
}

struct Bed {
    device: Device,
    program: Arc<Program>,
    offloader: Offloader,
    nic: ModelNic,
    records: Arc<Mutex<Vec<Record>>>,
    requests: Requests,
    now: Nanos,
    rng: Rng,
}

fn frame(source: u8, destination: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    (frame[12], frame[14], frame[22], frame[23]) = (8, 0x45, 64, 17);
    frame[26..30].copy_from_slice(&[10, 0, 0, source]);
    frame[30..34].copy_from_slice(&[10, 0, 1, destination]);
    frame
}

fn call(action: usize, port: Option<u128>) -> Action {
    let args = port.map(|port| Value::truncated(port, 9));
    let args = args.into_iter().collect();
    Action::Call(ActionCall { action, args })
}

impl Bed {
    fn open() -> Bed {
        let text = ipv4_program::ipv4_program(INGRESS);
        let program = Arc::new(driver::compile_text("flaps", &text).expect("a program"));
        let config = DeviceConfig::default();
        let device = Device::new(Arc::clone(&program), &interp::Interp, &config);
        let mut device = device.expect("a device");
        let records = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&records);
        device.follow(move |record| log.lock().expect("no panic").push(record.clone()));
        let tracer = FlowTracer::new(&program, |_| PortRole::Data).expect("a tracer");
        Bed {
            device,
            program,
            offloader: Offloader::new(tracer, OffloaderOptions::default()),
            nic: ModelNic::new(ModelConfig::default()),
            records,
            requests: Requests::default(),
            now: Nanos(1),
            rng: Rng::new(5),
        }
    }

    fn table(&self, name: &str) -> TableId {
        let mut tables = self.program.tables.iter();
        let found = tables.find(|(_, table)| table.name.ends_with(name));
        found.expect("a table").0
    }

    fn apply(&mut self, change: Change) -> Option<EntryId> {
        self.device.apply(change).expect("a right change")
    }

    fn insert(&mut self, table: &str, address: [u8; 4], action: Action) -> EntryId {
        let key = Value::truncated(u32::from_be_bytes(address).into(), 32);
        let entry = TableEntry {
            keys: vec![KeyMatch::Exact(key)],
            priority: None,
            action,
            idle_timeout: None,
            meter: None,
            counter: None,
        };
        let table = self.table(table);
        self.apply(Change::Insert(table, entry)).expect("a number")
    }

    fn command(&mut self, command: OffloadCommand) {
        let requests = &mut self.requests;
        match command {
            OffloadCommand::Add(rules) => {
                requests.added += rules.len();
                requests.flows.extend(rules.iter().cloned());
                self.nic.add(self.now, rules);
            }
            OffloadCommand::Replace(rules) => {
                requests.replaced += rules.len();
                for (old, new, flow) in &rules {
                    let before = requests.flows.remove(old).expect("a rule");
                    assert_ne!(before.steps, flow.steps, "the same rule");
                    requests.flows.insert(*new, Arc::clone(flow));
                }
                self.nic.replace(self.now, rules);
            }
            OffloadCommand::Remove(rules) => {
                requests.removed += rules.len();
                self.nic.remove(self.now, &rules);
            }
            OffloadCommand::Read(rules) => self.nic.read(self.now, &rules),
            OffloadCommand::Credit(credit) => {
                assert!(!credit.apply(&mut self.device, |_, _| false));
            }
        }
    }

    /// Runs a millisecond with a few packets.
    fn step(&mut self, packets: usize) {
        self.now += Nanos::from_millis(1);
        let mut commands = Vec::new();
        for record in std::mem::take(&mut *self.records.lock().expect("no panic")) {
            self.offloader.changed(&record);
        }
        let mut events = Vec::new();
        self.nic.poll(self.now, &mut events);
        for event in events {
            commands.extend(self.offloader.event(self.now, event));
        }
        let state = self.device.state();
        let view = View {
            state: &state,
            replication: self.device.replication(),
        };
        commands.extend(self.offloader.step(self.now, view, &self.nic));
        for _ in 0..packets {
            let to = self.rng.below(DESTINATIONS.into()) as u8;
            let frame = frame(self.rng.below(SOURCES.into()) as u8, to);
            if self.nic.process(self.now, PortId(1), &frame).is_none() {
                self.offloader.observe(self.now, view, PortId(1), &frame, 1);
            }
        }
        for command in commands {
            self.command(command);
        }
    }

    fn in_hardware(&self) -> usize {
        let states = self.offloader.states();
        states
            .filter(|(state, _)| **state == FlowState::InHardware)
            .count()
    }
}

#[test]
fn a_step_with_changes_does_not_sweep_all_flows_at_once_and_the_sweep_goes_on() {
    let mut bed = Bed::open();
    for source in 0..SOURCES {
        bed.insert("sources", [10, 0, 0, source], call(0, None));
    }
    let destinations: Vec<EntryId> = (0..DESTINATIONS)
        .map(|at| bed.insert("destinations", [10, 0, 1, at], call(0, Some(2))))
        .collect();
    while bed.in_hardware() < FLOWS {
        bed.step(8);
        assert!(bed.now < Nanos::from_secs(20), "{}", bed.in_hardware());
    }
    // Each step gives a destination another port, so it has commands.
    let (table, mut swept) = (bed.table("destinations"), 0);
    for number in 0..4_000usize {
        let id = destinations[number % usize::from(DESTINATIONS)];
        let port = 3 + (number / usize::from(DESTINATIONS)) as u128 % 100;
        bed.apply(Change::Modify(table, id, call(0, Some(port)), None));
        let before = bed.offloader.counts().unchanged;
        bed.step(0);
        let now = (bed.offloader.counts().unchanged - before) as usize;
        assert!(now <= FLOWS.div_ceil(8), "{now} flows in step {number}");
        swept += now;
    }
    assert!(swept > FLOWS / 8, "{swept}");
}

#[test]
fn a_thousand_changes_a_second_put_no_rule_back_and_replace_only_other_effects() {
    let mut bed = Bed::open();
    let allow = || call(0, None);
    let sources: Vec<EntryId> = (0..SOURCES)
        .map(|at| bed.insert("sources", [10, 0, 0, at], allow()))
        .collect();
    let destinations: Vec<EntryId> = (0..DESTINATIONS)
        .map(|at| bed.insert("destinations", [10, 0, 1, at], call(0, Some(2))))
        .collect();
    while bed.in_hardware() < FLOWS {
        bed.step(8);
        assert!(bed.now < Nanos::from_secs(20), "{}", bed.in_hardware());
    }
    bed.requests.added = 0;
    let mut ports = [2; DESTINATIONS as usize];
    let (table, other) = (bed.table("sources"), bed.table("destinations"));
    for number in 0..2_000usize {
        let at = number % usize::from(DESTINATIONS);
        match number % 5 {
            // One in a hundred gives a destination another port.
            0 if number % 100 == 0 => {
                let at = number / 100 % usize::from(DESTINATIONS);
                ports[at] += 1;
                let action = call(0, Some(ports[at]));
                bed.apply(Change::Modify(other, destinations[at], action, None));
            }
            0 => {
                let other = [11, 0, (number >> 8) as u8, number as u8];
                bed.insert("sources", other, allow());
            }
            1 => {
                let id = bed.insert("destinations", [12, 0, 0, 1], call(1, None));
                bed.apply(Change::Delete(other, id));
            }
            2 => {
                let id = destinations[at];
                bed.apply(Change::Modify(other, id, call(0, Some(ports[at])), None));
            }
            _ => {
                let id = sources[number % usize::from(SOURCES)];
                bed.apply(Change::Modify(table, id, allow(), None));
            }
        }
        bed.step(2);
    }
    // The NIC's own time for the last batches.
    for _ in 0..100 {
        bed.step(0);
    }
    let Requests {
        added,
        removed,
        replaced,
        ..
    } = bed.requests;
    // 20 changes of a port, 12 flows each.
    assert_eq!(
        (added, removed, replaced),
        (0, 0, 20 * usize::from(SOURCES))
    );
    assert_eq!(bed.in_hardware(), FLOWS);
    for (at, port) in (0..).zip(ports) {
        let sent = bed.nic.process(bed.now, PortId(1), &frame(3, at));
        let sent = sent.expect("a rule");
        assert_eq!(sent[0].0, PortId(port as u32), "destination {at}");
    }
}
