//! Measurement of changes under load, with the model NIC: what they cost the thread that forwards,
//! whether flows flap, and the time from a change to its rule.
//!
//! `cargo run --release -p offload_runtime --example changes_under_load -- [SECONDS] [RATE]`
//!
//! 4,800 flows are in the NIC: 70 sources with each of 68 destinations, and one source with 40
//! more. In slices of a second, changes come at RATE a second (default 1,000), and in others none,
//! SECONDS of each (default 60). Of ten changes one gives a destination another port, so that its
//! flows get other rules; the others modify an entry without an effect, insert an entry that no
//! flow meets, and delete it. The rate is that of one thread by processor time, for packets of
//! which half stay in software. Then entries with one flow and with 70 are changed one at a time:
//! the time from the change to its rules, less the NIC's own time.

#[path = "../../../offload/tests/shared/ipv4_program.rs"]
mod ipv4_program;
mod watched;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bits::Value;
use ir::{ActionCall, KeyMatch, Program, TableId};
use offload::model::ModelConfig;
use offload::{OffloaderOptions, PortRole};
use offload_runtime::{
    NicFront, Offload, OffloadOptions, OffloadSetup, OffloadStats, SharedNic, TableChoice,
};
use packet::{Frame, Nanos, PortId};
use support::rng::Rng;
use support::tsc_clock::time_of_thread;
use switch::{Action, Change, Device, DeviceConfig, EntryId, TableEntry, Worker};
use watched::{Seen, Watched, lock};

const INGRESS: &str = "
    control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
        action allow() { }
        action drop() { mark_to_drop(s); }
        action forward(bit<9> port) { s.egress_spec = port; }
        table sources { key = { hdr.ipv4.src: exact; } actions = { allow; drop; }
            default_action = drop(); size = 8192; }
        table destinations { key = { hdr.ipv4.dst: exact; } actions = { forward; drop; }
            default_action = drop(); size = 8192; }
        table in_software { key = { hdr.ipv4.dst: exact; } actions = { forward; drop; }
            default_action = drop(); size = 8192; }
        apply {
            if (hdr.ipv4.protocol == 6) { in_software.apply(); }
            else if (sources.apply().hit) { destinations.apply(); }
        }
    }
";

const SOURCES: u8 = 70;
/// Destinations of all sources, and those of the first source alone.
const SHARED: u8 = 68;
const LONE: u8 = 40;
const DESTINATIONS: u8 = SHARED + LONE;
const SOURCE: u32 = 0x0A00_0000;
const DESTINATION: u32 = 0x0A00_0100;
const RULES: u32 = 4_800;
const BURST: usize = 64;

/// Rounds of one change at a time.
const ROUNDS: usize = LONE as usize;

fn frame(protocol: u8, source: u8, destination: u8) -> Frame {
    let mut bytes = [0; 60];
    (bytes[12], bytes[14], bytes[22], bytes[23]) = (8, 0x45, 64, protocol);
    bytes[26..30].copy_from_slice(&[10, 0, 0, source]);
    bytes[30..34].copy_from_slice(&[10, 0, 1, destination]);
    let mut frame = Frame::from_bytes(&bytes).expect("a short frame");
    frame.ingress = PortId(1);
    frame
}

fn table(program: &Program, name: &str) -> TableId {
    let mut tables = program.tables.iter();
    let found = tables.find(|(_, table)| table.name.ends_with(name));
    found.expect("a table of the program").0
}

fn entry(key: u32, args: Vec<Value>) -> TableEntry {
    TableEntry {
        keys: vec![KeyMatch::Exact(Value::truncated(key.into(), 32))],
        priority: None,
        action: Action::Call(ActionCall { action: 0, args }),
        idle_timeout: None,
        meter: None,
        counter: None,
    }
}

/// The control plane.
struct Switch {
    device: Device,
    program: Arc<Program>,
    offload: Offload,
    start: Instant,
    destinations: Vec<EntryId>,
    sources: Vec<EntryId>,
    /// An entry that no flow meets.
    extra: Option<EntryId>,
    /// Ports of the destinations.
    ports: Vec<u128>,
}

impl Switch {
    fn turn(&mut self) {
        let now = Nanos::from(self.start.elapsed());
        self.device.step(now);
        self.offload.turn(&mut self.device, now);
    }

    fn apply(&mut self, change: Change) -> Option<EntryId> {
        let id = self.device.apply(change).expect("a change of the program");
        let now = Nanos::from(self.start.elapsed());
        self.offload.turn(&mut self.device, now);
        id
    }

    /// Gives a destination another port.
    fn move_destination(&mut self, at: usize) {
        self.ports[at] = 2 + (self.ports[at] + 1) % 6;
        let args = vec![Value::truncated(self.ports[at], 9)];
        let call = Action::Call(ActionCall { action: 0, args });
        let table = table(&self.program, "destinations");
        self.apply(Change::Modify(table, self.destinations[at], call, None));
    }

    /// Makes the change of this number.
    fn change(&mut self, number: u64) {
        let table = table(&self.program, "sources");
        let at = number as usize;
        match number % 10 {
            0 => self.move_destination(at / 10 % usize::from(DESTINATIONS)),
            2 | 5 | 8 => {
                let other = entry(0x0B00_0000, Vec::new());
                self.extra = self.apply(Change::Insert(table, other));
            }
            3 | 6 | 9 => {
                if let Some(extra) = self.extra.take() {
                    self.apply(Change::Delete(table, extra));
                }
            }
            _ => {
                let args = Vec::new();
                let call = Action::Call(ActionCall { action: 0, args });
                let entry = self.sources[at % usize::from(SOURCES)];
                self.apply(Change::Modify(table, entry, call, None));
            }
        }
    }

    fn stats(&self) -> OffloadStats {
        let (ask, answer) = std::sync::mpsc::channel();
        let handle = self.offload.handle();
        handle.request(move |driver| drop(ask.send(driver.stats())));
        answer.recv().expect("the thread runs")
    }

    /// Waits until the NIC has as many flows as it holds.
    fn fill(&mut self) {
        let begin = Instant::now();
        loop {
            self.turn();
            let stats = self.stats();
            let mut states = stats.states.iter();
            if states.any(|row| row.state == "in_hw" && row.flows >= u64::from(RULES)) {
                break;
            }
            assert!(begin.elapsed() < Duration::from_secs(120), "{stats:#?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Numbers of the thread that forwards.
#[derive(Default)]
struct Progress {
    is_over: AtomicBool,
    packets: AtomicU64,
    /// Its processor time in nanoseconds.
    time: AtomicU64,
    sent: AtomicU64,
}

impl Progress {
    fn read(&self) -> (u64, u64) {
        let time = self.time.load(Ordering::Relaxed);
        (self.packets.load(Ordering::Relaxed), time)
    }
}

/// Forwards packets until the end: by turns one of a flow in the NIC, and one of the software.
fn forward(mut front: NicFront, mut worker: Worker, start: Instant, progress: &Progress) {
    let mut rng = Rng::new(1);
    let shared = (0..SOURCES).flat_map(|source| (0..SHARED).map(move |to| frame(17, source, to)));
    let lone = (SHARED..DESTINATIONS).map(|to| frame(17, 0, to));
    let in_nic: Vec<Frame> = shared.chain(lone).collect();
    let in_software: Vec<Frame> = (0..DESTINATIONS).map(|to| frame(6, 0, to)).collect();
    let mut burst: Vec<Frame> = (0..BURST).map(|_| Frame::default()).collect();
    let (mut packets, mut sent) = (0, 0);
    while !progress.is_over.load(Ordering::Relaxed) {
        let now = Nanos::from(start.elapsed());
        let mut kept = 0;
        let mut place = front.begin(now);
        for at in 0..BURST {
            let all = if at % 2 == 0 { &in_nic } else { &in_software };
            let next = &all[rng.index(all.len())];
            if !place.takes(next.ingress, next.bytes(), |_, _| sent += 1) {
                let frame = &mut burst[kept];
                frame.assign(next.bytes()).expect("a short frame");
                frame.ingress = next.ingress;
                kept += 1;
            }
        }
        drop(place);
        worker.forward(&mut burst[..kept], now, |_, _, _| sent += 1);
        packets += BURST as u64;
        let time = time_of_thread().unwrap_or_else(|| start.elapsed());
        progress.packets.store(packets, Ordering::Relaxed);
        progress
            .time
            .store(time.as_nanos() as u64, Ordering::Relaxed);
        progress.sent.store(sent, Ordering::Relaxed);
    }
}

/// Quantile of numbers.
fn quantile(numbers: &mut [f64], share: f64) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let at = (numbers.len() as f64 * share) as usize;
    let found = numbers.get(at.min(numbers.len().saturating_sub(1)));
    found.copied().unwrap_or_default()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| {
        let word = arguments.next();
        word.map_or(default, |word| word.parse().expect("a number"))
    };
    let (seconds, rate) = (number(60), number(1_000).max(1));
    let program = ipv4_program::ipv4_program(INGRESS);
    let program = Arc::new(driver::compile_text("changes", &program).expect("a program"));
    let engine = jit::Jit::new(Arc::new(interp::Interp));
    let device = Device::new(Arc::clone(&program), &engine, &DeviceConfig::default());
    let mut device = device.expect("a device");
    let mut insert = |name: &str, entry| {
        let change = Change::Insert(table(&program, name), entry);
        let id = device.apply(change).expect("an entry");
        id.expect("its number")
    };
    let (mut sources, mut destinations) = (Vec::new(), Vec::new());
    for source in 0..u32::from(SOURCES) {
        sources.push(insert("sources", entry(SOURCE + source, Vec::new())));
    }
    for destination in 0..u32::from(DESTINATIONS) {
        let args = || vec![Value::truncated(2, 9)];
        destinations.push(insert(
            "destinations",
            entry(DESTINATION + destination, args()),
        ));
        insert("in_software", entry(DESTINATION + destination, args()));
    }
    let choice: TableChoice = "in_software=never".parse().expect("a choice");
    let options = OffloadOptions {
        offloader: OffloaderOptions {
            forget_after: Nanos::from_secs(3_600),
            ..OffloaderOptions::default()
        },
        tables: vec![choice],
        table_name: str::to_owned,
        names_fields: true,
        role_of: Arc::new(|_| PortRole::Data),
        keeps_entries: false,
    };
    let config = ModelConfig {
        rules: RULES,
        ..ModelConfig::default()
    };
    let (own_time, nic) = (config.add.batch.0 as f64 / 1e6, SharedNic::new(config));
    let seen = Arc::new(Mutex::new(Seen::default()));
    let watched = Watched {
        nic: nic.clone(),
        seen: Arc::clone(&seen),
    };
    let setup = OffloadSetup {
        options,
        target: Box::new(watched),
        nic: Some(nic),
        controller_ports: Vec::new(),
    };
    let (mut fronts, readers) = setup.fronts(1);
    let (front, worker) = (fronts.remove(0), device.workers(1).remove(0));
    let start = Instant::now();
    let clock = move || Nanos::from(start.elapsed());
    let offload = Offload::start(setup, readers, &mut device, clock).expect("it starts");
    let mut switch = Switch {
        ports: vec![2; destinations.len()],
        device,
        program,
        offload,
        start,
        destinations,
        sources,
        extra: None,
    };
    let progress = Arc::new(Progress::default());
    let forwarding = std::thread::spawn({
        let progress = Arc::clone(&progress);
        move || forward(front, worker, start, &progress)
    });
    switch.fill();
    println!("{RULES} flows in the NIC after {:.1?}", start.elapsed());
    measure_rates(&mut switch, &progress, &seen, (seconds, rate));
    std::thread::sleep(Duration::from_secs(1));
    measure_changes(&mut switch, &seen, own_time, usize::from(SHARED).., 1);
    measure_changes(&mut switch, &seen, own_time, 0.., SOURCES);
    progress.is_over.store(true, Ordering::Relaxed);
    forwarding.join().expect("no panic");
    let Switch {
        mut device,
        mut offload,
        ..
    } = switch;
    offload.finish(&mut device);
    let (packets, sent) = (progress.read().0, progress.sent.load(Ordering::Relaxed));
    println!("{packets} packets, {sent} sent");
}

/// Measures the rate of the thread that forwards, with changes and without, and counts flaps.
fn measure_rates(
    switch: &mut Switch,
    progress: &Progress,
    seen: &Mutex<Seen>,
    (seconds, rate): (u64, u64),
) {
    let before = switch.stats();
    let (mut quiet, mut changing, mut made) = (Vec::new(), Vec::new(), 0u64);
    for slice in 0..2 * seconds {
        let is_changing = slice % 2 == 1;
        let (begin, from, first) = (Instant::now(), progress.read(), made);
        while begin.elapsed() < Duration::from_secs(1) {
            let due = first + (begin.elapsed().as_secs_f64() * rate as f64) as u64;
            while is_changing && made < due {
                switch.change(made);
                made += 1;
            }
            switch.turn();
            std::thread::sleep(Duration::from_micros(500));
        }
        let to = progress.read();
        let mpps = (to.0 - from.0) as f64 * 1_000.0 / (to.1 - from.1).max(1) as f64;
        let of = if is_changing {
            &mut changing
        } else {
            &mut quiet
        };
        of.push(mpps);
    }
    let after = switch.stats();
    let [with, without] = [&mut changing, &mut quiet].map(|rates| quantile(rates, 0.5));
    println!(
        "{made} changes in {seconds} s: {with:.3} Mpps with, {without:.3} without (processor time, \
         medians of slices), ratio {:.3}",
        with / without
    );
    println!(
        "rules added {}, replaced {}, removed {}, evicted {}; flows traced again {}",
        after.added - before.added,
        after.replaced - before.replaced,
        after.removed - before.removed,
        after.evicted - before.evicted,
        after.retraced - before.retraced
    );
    let seen = lock(seen);
    println!(
        "put back unchanged: {}; replaced by the same rule: {}",
        seen.flaps, seen.needless
    );
}

/// Measures the time from one change to its rules, among all flows.
fn measure_changes(
    switch: &mut Switch,
    seen: &Mutex<Seen>,
    own_time: f64,
    destinations: std::ops::RangeFrom<usize>,
    flows: u8,
) {
    let (mut decided, mut there) = (Vec::new(), Vec::new());
    for (round, at) in destinations.take(ROUNDS).enumerate() {
        {
            let mut seen = lock(seen);
            (seen.replaced, seen.added) = (None, None);
        }
        let begin = Instant::now();
        switch.move_destination(at);
        while lock(seen).added.is_none() && begin.elapsed() < Duration::from_secs(5) {
            switch.turn();
            std::thread::sleep(Duration::from_micros(200));
        }
        let times = {
            let seen = lock(seen);
            seen.replaced.zip(seen.added)
        };
        let Some((replaced, added)) = times else {
            println!("round {round}: no rule after 5 s");
            continue;
        };
        decided.push((replaced - begin).as_secs_f64() * 1e3);
        there.push((added - begin).as_secs_f64() * 1e3 - own_time);
        std::thread::sleep(Duration::from_millis(60));
    }
    println!(
        "an entry with {flows} of {RULES} flows changed, {} rounds, ms: request to the NIC {:.2} \
         (median), {:.2} (p95); rules there, less the NIC's {own_time:.1}: {:.2}, {:.2}",
        there.len(),
        quantile(&mut decided, 0.5),
        quantile(&mut decided, 0.95),
        quantile(&mut there, 0.5),
        quantile(&mut there, 0.95)
    );
}
