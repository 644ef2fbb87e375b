//! A switch in the guest: a device in software at the test NIC's interfaces, an offloader, and the
//! target of the kernel.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bits::Value;
use ir::{ActionCall, KeyMatch, Program, TableId};
use offload::tc::TcTargetOptions;
use offload::{
    Flow, FlowState, FlowTracer, OffloadCommand, Offloader, OffloaderOptions, PortRole, RuleId,
    Target, TargetEvent, View,
};
use packet::{Batch, Frame, Nanos, PortId};
use port::{AfPacketPort, Port};
use switch::{Action, Change, CounterReading, Device, DeviceConfig, EntryId, Record, TableEntry};

use crate::bed::{Bed, PORTS, backlog, udp_frame};
use crate::ipv4_program::ipv4_program;
use crate::target::{Rig, options};

/// Sources and destinations have a table each, so that few entries make many flows.
const INGRESS: &str = "
    control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
        direct_counter(CounterType.packets_and_bytes) hits;
        action allow() { }
        action drop() { mark_to_drop(s); }
        action forward(bit<9> port) { s.egress_spec = port; }
        table sources { key = { hdr.ipv4.src: exact; } actions = { allow; drop; }
            default_action = drop(); size = 8192; counters = hits; }
        table destinations { key = { hdr.ipv4.dst: exact; } actions = { forward; drop; }
            default_action = drop(); size = 8192; }
        apply {
            if (hdr.ipv4.isValid()) {
                if (sources.apply().hit) { destinations.apply(); }
            } else { drop(); }
        }
    }
";

pub(crate) struct World {
    pub(crate) device: Device,
    pub(crate) offloader: Offloader,
    pub(crate) rig: Rig,
    ports: Vec<AfPacketPort>,
    program: Arc<Program>,
    records: Arc<Mutex<Vec<Record>>>,
    /// Requests to the target, with the flow of each rule.
    pub(crate) added: Vec<(RuleId, Arc<Flow>)>,
    pub(crate) replaced: Vec<(RuleId, RuleId, Arc<Flow>)>,
    pub(crate) removed: Vec<RuleId>,
    pub(crate) flows: HashMap<RuleId, Arc<Flow>>,
    /// Time of the last step of the offloader, without that of requests.
    pub(crate) decision: Duration,
    /// Events since they were taken.
    pub(crate) events: Vec<TargetEvent>,
    pub(crate) in_software: u64,
}

/// Returns settings for quick tests.
pub(crate) fn quick() -> OffloaderOptions {
    OffloaderOptions {
        period: Nanos::from_millis(100),
        retry_after: Nanos::from_millis(600),
        forget_after: Nanos::from_secs(600),
        sweep: 0,
        ..OffloaderOptions::default()
    }
}

impl World {
    pub(crate) fn open(offloader: OffloaderOptions, target: TcTargetOptions) -> World {
        let text = ipv4_program(INGRESS);
        let text = text.replace(
            "update_checksum(hdr.ipv4.isValid()",
            "update_checksum(false",
        );
        let program = Arc::new(driver::compile_text("world", &text).expect("a program"));
        let config = DeviceConfig::default();
        let device = Device::new(Arc::clone(&program), &interp::Interp, &config);
        let mut device = device.expect("a device");
        let records = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&records);
        device.follow(move |record| log.lock().expect("no panic").push(record.clone()));
        let tracer = FlowTracer::new(&program, |_| PortRole::Data).expect("a tracer");
        let ports = (0..PORTS).map(|port| {
            let port = AfPacketPort::open(PortId(port), &format!("nic{port}"));
            port.expect("an interface opens")
        });
        World {
            device,
            offloader: Offloader::new(tracer, offloader),
            rig: Rig::open(target),
            ports: ports.collect(),
            program,
            records,
            added: Vec::new(),
            replaced: Vec::new(),
            removed: Vec::new(),
            flows: HashMap::new(),
            decision: Duration::ZERO,
            events: Vec::new(),
            in_software: 0,
        }
    }

    /// Opens a world with the settings of tests.
    pub(crate) fn quick() -> World {
        World::open(quick(), options())
    }

    pub(crate) fn table(&self, name: &str) -> TableId {
        let mut tables = self.program.tables.iter();
        tables
            .find(|(_, table)| table.name.ends_with(name))
            .expect("a table")
            .0
    }

    pub(crate) fn insert(&mut self, table: &str, address: [u8; 4], port: u128) -> EntryId {
        let args = match table {
            "sources" => Vec::new(),
            _ => vec![Value::truncated(port, 9)],
        };
        let entry = TableEntry {
            keys: vec![KeyMatch::Exact(Value::truncated(
                u32::from_be_bytes(address).into(),
                32,
            ))],
            priority: None,
            action: Action::Call(ActionCall { action: 0, args }),
            idle_timeout: None,
            meter: None,
            counter: None,
        };
        let change = Change::Insert(self.table(table), entry);
        self.device
            .apply(change)
            .expect("an entry")
            .expect("a number")
    }

    pub(crate) fn forward(&mut self, entry: EntryId, port: u128) {
        let call = ActionCall {
            action: 0,
            args: vec![Value::truncated(port, 9)],
        };
        let change = Change::Modify(self.table("destinations"), entry, Action::Call(call), None);
        self.device.apply(change).expect("an entry");
    }

    /// Returns the counter of an entry of `sources`.
    pub(crate) fn counter(&self, entry: EntryId) -> CounterReading {
        let table = self.table("sources");
        self.device
            .read_direct_counter(table, entry)
            .expect("a counter")
    }

    /// Notes a packet that has been in software.
    pub(crate) fn observe(&mut self, frame: &[u8], packets: u64) {
        let now = self.rig.now();
        let state = self.device.state();
        let view = View {
            state: &state,
            replication: self.device.replication(),
        };
        self.offloader.observe(now, view, PortId(0), frame, packets);
    }

    /// Forwards what has reached the interfaces, and runs the offloader.
    pub(crate) fn pump(&mut self) {
        while backlog() > 0 {
            std::thread::yield_now();
        }
        let mut batch = Batch::with_capacity(64);
        self.ports[0]
            .rx(&mut batch, Nanos(0))
            .expect("the interface is up");
        let frames: Vec<Vec<u8>> = batch.frames().iter().map(|f| f.bytes().to_vec()).collect();
        for frame in frames {
            self.in_software += 1;
            self.device
                .receive(PortId(0), &frame)
                .expect("a short frame");
            self.device.step(self.rig.now());
            let mut sent = Vec::new();
            self.device
                .drain_sent(|port, bytes, _| sent.push((port, bytes.to_vec())));
            for (port, bytes) in sent {
                let frame = Frame::from_bytes(&bytes).expect("a short frame");
                self.ports[port.0 as usize].tx(std::slice::from_ref(&frame));
            }
            self.observe(&frame, 1);
        }
        self.step();
    }

    /// Runs the offloader.
    pub(crate) fn step(&mut self) {
        let records = std::mem::take(&mut *self.records.lock().expect("no panic"));
        records
            .iter()
            .for_each(|record| self.offloader.changed(record));
        let now = self.rig.now();
        let mut events = Vec::new();
        self.rig.target.poll(now, &mut events);
        for event in events {
            self.events.push(event.clone());
            let commands = self.offloader.event(now, event);
            commands
                .into_iter()
                .for_each(|command| self.command(command));
        }
        let begin = Instant::now();
        let state = self.device.state();
        let view = View {
            state: &state,
            replication: self.device.replication(),
        };
        let commands = self.offloader.step(now, view, &self.rig.target);
        self.decision = begin.elapsed();
        commands
            .into_iter()
            .for_each(|command| self.command(command));
    }

    fn command(&mut self, command: OffloadCommand) {
        let now = self.rig.now();
        match command {
            OffloadCommand::Add(rules) => {
                self.flows.extend(rules.iter().cloned());
                self.added.extend(rules.iter().cloned());
                self.rig.target.add(now, rules);
            }
            OffloadCommand::Replace(rules) => {
                let flows = rules.iter().map(|(_, new, flow)| (*new, Arc::clone(flow)));
                self.flows.extend(flows);
                self.replaced.extend(rules.iter().cloned());
                self.rig.target.replace(now, rules);
            }
            OffloadCommand::Remove(rules) => {
                self.removed.extend(&rules);
                self.rig.target.remove(now, &rules);
            }
            OffloadCommand::Read(rules) => self.rig.target.read(now, &rules),
            OffloadCommand::Credit(credit) => {
                credit.apply(&mut self.device, |_, _| false);
            }
        }
    }

    /// Runs until a condition holds.
    pub(crate) fn until(&mut self, what: &str, holds: impl Fn(&mut World) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            self.pump();
            assert!(begin.elapsed() < Duration::from_secs(100), "{what}");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Returns the number of flows in a state.
    pub(crate) fn count(&self, fits: impl Fn(&FlowState) -> bool) -> usize {
        self.offloader
            .flows()
            .filter(|flow| fits(&flow.state))
            .count()
    }

    pub(crate) fn in_hardware(&self) -> usize {
        self.count(|state| *state == FlowState::InHardware)
    }
}

fn frame(source: u8) -> Vec<u8> {
    udp_frame([10, 1, 0, source], [10, 2, 0, 1], 60 + usize::from(source))
}

/// Sends a frame of each of five sources, each of which must come out of this port once. Returns
/// the number of those that were in software.
fn sent_to(bed: &mut Bed, world: &mut World, sent: &mut [u64; 5], port: PortId) -> u64 {
    let before = world.in_software;
    for (source, sent) in (0..).zip(sent) {
        bed.send(&frame(source));
        *sent += 1;
        world.pump();
        assert_eq!(
            bed.receive(),
            [(port, frame(source))],
            "one copy of each frame"
        );
    }
    world.in_software - before
}

#[test]
fn counts_of_both_planes_are_the_frames_that_were_sent_also_after_an_eviction() {
    let Some(mut bed) = Bed::open() else { return };
    let mut world = World::quick();
    let sources: Vec<EntryId> = (0..5)
        .map(|source| world.insert("sources", [10, 1, 0, source], 0))
        .collect();
    let destination = world.insert("destinations", [10, 2, 0, 1], 1);
    let mut sent = [0u64; 5];
    let one = PortId(1);
    for _ in 0..3 {
        sent_to(&mut bed, &mut world, &mut sent, one);
    }
    world.until("flows are offloaded", |world| world.in_hardware() == 5);
    let before = world.in_software;
    for _ in 0..20 {
        sent_to(&mut bed, &mut world, &mut sent, one);
    }
    assert_eq!(world.in_software, before, "the NIC has all flows");
    // The NIC drops two rules, and the kernel says nothing.
    crate::bed::set_nic("evict", "2");
    let begin = Instant::now();
    while world.offloader.counts().evicted < 2 {
        sent_to(&mut bed, &mut world, &mut sent, one);
        std::thread::sleep(Duration::from_millis(5));
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "evictions are found"
        );
    }
    assert_eq!(world.count(|state| *state == FlowState::Evicted), 2);
    let begin = Instant::now();
    while world.in_hardware() < 5 {
        sent_to(&mut bed, &mut world, &mut sent, one);
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "they are added again"
        );
    }
    // The NIC says yes to a new rule, which matches nothing.
    crate::bed::set_nic("lie", "1");
    let evicted = world.offloader.counts().evicted;
    world.forward(destination, 2);
    world.until("rules are replaced", |world| world.replaced.len() == 5);
    let begin = Instant::now();
    let mut lied = sent_to(&mut bed, &mut world, &mut sent, PortId(2));
    while world.offloader.counts().evicted < evicted + 5 {
        lied += sent_to(&mut bed, &mut world, &mut sent, PortId(2));
        std::thread::sleep(Duration::from_millis(5));
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "rules without effect are found"
        );
    }
    assert!(lied > 0);
    crate::bed::set_nic("lie", "0");
    let begin = Instant::now();
    while world.in_hardware() < 5 {
        sent_to(&mut bed, &mut world, &mut sent, PortId(2));
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "they are added again"
        );
    }
    let total: u64 = sent.iter().sum();
    world.until("counts arrive", |world| {
        let counted = sources.iter().map(|entry| world.counter(*entry).packets);
        counted.sum::<u64>() >= total
    });
    for (source, entry) in (0u8..).zip(&sources) {
        let packets = sent[usize::from(source)];
        let bytes = packets * frame(source).len() as u64;
        assert_eq!(
            world.counter(*entry),
            CounterReading { packets, bytes },
            "{source}"
        );
    }
}
