//! Benchmark of P4Runtime writes and reads over loopback gRPC, and of their effect on packets. Run
//! it with `cargo bench -p p4rt`.
//!
//! Batches have 1,000 updates. State is kept in memory only, or also on a disk. Arguments after
//! `--`: a number of exact entries, a number of routes (`routes=964000`), and a directory for the
//! state (`state=DIR`), of which the disk is measured. Times include the client, which runs in the
//! same process.
//!
//! As in the command, all threads but the worker leave the first core to the worker. With packets
//! running, a controller first writes as fast as it can. Then it writes at the rates that a switch
//! must sustain while it forwards: 100,000 exact entries a second in memory, 50,000 with the state
//! on disk. Windows of writing alternate with windows without writes. Packets of both are compared
//! by wall-clock time and by the worker's processor time, which other processes do not affect.

#[expect(dead_code, reason = "the tests use the rest")]
#[path = "../tests/p4rt/rig.rs"]
mod rig;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4info::p4::v1::update::Type;
use p4rt::{Loader, Server, ServerConfig, Urgency};
use packet::{Frame, Nanos, PortId};
use port::{Cores, Poller};
use rig::*;
use store::Directory;
use switch::{Device, KeptCells, Worker};

/// Number of updates in a batch.
const BATCH: u32 = 1000;

/// Maximum number of batches in flight. The controller does not wait for each answer.
const MAX_UNDER_WAY: usize = 4;

/// Number of frames in a burst.
const BURST: usize = 64;

/// Duration of the window without writes that is measured before each window of writing.
const REST: Duration = Duration::from_millis(500);

/// Number of times that all entries are inserted, modified and deleted while packets run. Each is
/// one window.
const ROUNDS: usize = 3;

struct Wanted {
    entries: u32,
    routes: u32,
    state: PathBuf,
}

fn main() {
    // The worker's thread may use the first core. All other threads inherit this restriction.
    let cores = Cores::allowed().expect("the system tells");
    if cores.behind(1).keep_to().is_err() {
        println!("there is one core: the worker shares it");
    }
    let mut wanted = Wanted {
        entries: 100_000,
        routes: 964_000,
        state: std::env::temp_dir(),
    };
    for word in std::env::args().skip(1) {
        match word.split_once('=') {
            Some(("routes", number)) => wanted.routes = number.parse().expect("a number"),
            Some(("state", directory)) => wanted.state = directory.into(),
            _ => wanted.entries = word.parse().unwrap_or(wanted.entries),
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        for is_kept in [false, true] {
            for has_traffic in [false, true] {
                measure(&wanted, &cores, is_kept, has_traffic).await;
            }
        }
    });
}

/// A switch with one worker thread, and a control loop on another thread that serves the
/// controller.
struct Switch {
    server: Server,
    traffic: Arc<Traffic>,
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

/// Traffic control and measurements shared with the worker.
#[derive(Default)]
struct Traffic {
    is_on: AtomicBool,
    seen: Mutex<Seen>,
}

/// Measurements of a worker since they were last taken.
#[derive(Default)]
struct Seen {
    /// Duration of each burst in nanoseconds.
    bursts: Vec<u32>,
    /// The worker's processor time at the beginning and at the end.
    processor: (Duration, Duration),
}

impl Switch {
    fn start(cores: &Cores, state: Option<&Path>) -> Switch {
        let mut device = match state {
            Some(state) => kept_device(state),
            None => empty_device(),
        };
        let is_programmed = p4rt::has_config(device.notes());
        let (mut inbox, cpu, remote) = p4rt::channel(PortId(CPU)).expect("a socket pair");
        let setup = ServerConfig {
            id: 1,
            second_id: None,
            remote,
            loader: Arc::new(Compiler),
            program: is_programmed.then(|| Arc::clone(device.program())),
            ports: Vec::new(),
            notes: device.notes().clone(),
            extensions: &[],
            allowed: Vec::new(),
        };
        let address: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let server = Server::start(address, vec![setup], Urgency::AsWorkers).expect("a free port");
        let (stop, traffic) = (Arc::new(AtomicBool::new(false)), Arc::<Traffic>::default());
        let worker = device.workers(1).remove(0);
        let office = {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let (begin, mut poller) = (Instant::now(), Poller::new());
                while !stop.load(Ordering::Relaxed) {
                    let has_more = inbox.serve(&mut device, false);
                    device.step(Nanos::from(begin.elapsed()));
                    if !has_more {
                        let fds = [inbox.wake_fd(), cpu.wake_fd()];
                        let waited = poller.wait(fds, Duration::from_millis(10));
                        waited.expect("descriptors can be waited for");
                    }
                }
            })
        };
        let carrying = {
            let (stop, traffic) = (Arc::clone(&stop), Arc::clone(&traffic));
            let cores = cores.clone();
            std::thread::spawn(move || {
                cores.keep_to().expect("it could run there before");
                carry(worker, &stop, &traffic);
            })
        };
        Switch {
            server,
            traffic,
            stop,
            threads: vec![office, carrying],
        }
    }
}

/// Returns a device with the state that a directory holds.
fn kept_device(state: &Path) -> Device {
    let kept = Directory::open(state).and_then(|directory| directory.device(1));
    let kept = kept.expect("it is a directory of ours");
    let program = kept.program().expect("it can be read");
    let has_program = program.is_some();
    let mut device = match program {
        Some(program) => {
            let mut device = Compiler.device(program).expect("it ran before");
            kept.restore(&mut device).expect("it fits");
            device
        }
        None => empty_device(),
    };
    let keeper = Box::new(kept.keep().expect("a thread"));
    device.keep_in(keeper, KeptCells::default(), has_program);
    device
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("it does not panic");
        }
    }
}

/// Processes bursts while traffic is on.
fn carry(mut worker: Worker, stop: &AtomicBool, traffic: &Traffic) {
    let begin = Instant::now();
    // The destination address is not written, so the packets' processing does not change.
    let bytes = frame(0x8000_0000_0001, 2, 0x9999);
    let mut frames: Vec<Frame> = (0..BURST).map(|_| Frame::default()).collect();
    while !stop.load(Ordering::Relaxed) {
        if !traffic.is_on.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        let now = Nanos::from(begin.elapsed());
        for frame in &mut frames {
            frame.assign(&bytes).expect("it is short");
            frame.ingress = PortId(1);
            frame.arrival = now;
        }
        let burst = Instant::now();
        worker.forward(&mut frames, now, |_, _, _| {});
        let nanos = u32::try_from(burst.elapsed().as_nanos()).unwrap_or(u32::MAX);
        let mut seen = traffic.seen.lock().expect("nobody panics");
        seen.bursts.push(nanos);
        seen.processor.1 = processor_time();
    }
}

/// Returns the processor time of the calling thread.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("it is not negative")
}

/// Packet rates and burst times of one window.
#[derive(Clone, Copy)]
struct Packets {
    /// Packets per second.
    rate: f64,
    /// Packets per second of the worker's processor time.
    own_rate: f64,
    /// The median and the 99th percentile of burst times, in microseconds.
    median: f64,
    most: f64,
}

impl Traffic {
    /// Returns the measurements since `begin` and the previous call.
    fn take(&self, begin: Instant) -> Packets {
        let mut seen = self.seen.lock().expect("nobody panics");
        let time = begin.elapsed().as_secs_f64();
        let Seen {
            mut bursts,
            processor,
        } = std::mem::take(&mut *seen);
        seen.processor = (processor.1, processor.1);
        drop(seen);
        bursts.sort_unstable();
        let count = (bursts.len() * BURST) as f64;
        let at = |part: usize| bursts.get(bursts.len() * part / 100).copied().unwrap_or(0);
        Packets {
            rate: count / time,
            own_rate: count / (processor.1 - processor.0).as_secs_f64(),
            median: f64::from(at(50)) / 1e3,
            most: f64::from(at(99)) / 1e3,
        }
    }
}

/// A switch with a primary controller and a program with known object ids.
struct Bench {
    switch: Switch,
    client: Client,
    objects: Objects,
    _stream: Stream,
}

async fn measure(wanted: &Wanted, cores: &Cores, is_kept: bool, has_traffic: bool) {
    let state = tempfile::tempdir_in(&wanted.state).expect("a directory");
    let state = is_kept.then(|| state.path());
    println!(
        "\nstate {}, {}",
        if is_kept { "kept" } else { "in memory" },
        if has_traffic {
            "with traffic"
        } else {
            "no traffic"
        }
    );
    let mut bench = Bench::start(wanted, Switch::start(cores, state)).await;
    match (has_traffic, is_kept) {
        (false, _) => {
            bench.alone(wanted).await;
            drop(bench);
            if let Some(state) = state {
                start_again(wanted, cores, state).await;
            }
        }
        (true, false) => bench.beside_packets(wanted, 100_000).await,
        (true, true) => bench.beside_packets(wanted, 50_000).await,
    }
}

/// Measures the time from the start of a switch with stored routes until it answers a controller.
async fn start_again(wanted: &Wanted, cores: &Cores, state: &Path) {
    let begin = Instant::now();
    let switch = Switch::start(cores, Some(state));
    let mut client = Client::connect(switch.server.address()).await;
    let objects = Objects::of(&client.config().await);
    let time = begin.elapsed();
    let all = Kind::TableEntry(entry(objects.id("lpm_table"), vec![], None));
    assert_eq!(client.read(all).await.len(), wanted.routes as usize);
    tell("routes there when it starts again", wanted.routes, time);
}

/// The passes over all exact entries: name, type of update, and output port.
const PASSES: [(&str, Type, u8); 3] = [
    ("exact entries inserted", Type::Insert, 1),
    ("exact entries modified", Type::Modify, 2),
    ("exact entries deleted", Type::Delete, 2),
];

impl Bench {
    async fn start(wanted: &Wanted, switch: Switch) -> Bench {
        let mut client = Client::connect(switch.server.address()).await;
        let stream = client.open(Some(1), "").await;
        let text = ALL.replace("size = 16;", &format!("size = {};", wanted.entries));
        let lpm = "table lpm_table {";
        let text = text.replace(lpm, &format!("{lpm} size = {};", wanted.routes.max(1)));
        let loaded = client.load(Action::VerifyAndCommit, &text).await;
        loaded.expect("it loads");
        let objects = Objects::of(&client.config().await);
        Bench {
            switch,
            client,
            objects,
            _stream: stream,
        }
    }

    fn exact_entry(&self, number: u32, port: u8) -> Kind {
        let forward = does(self.objects.id("forward"), &[&[port]]);
        let key = bits::Value::truncated(number.into(), 48).to_p4rt_bytes();
        let table = self.objects.id("exact_table");
        Kind::TableEntry(entry(table, vec![exact(1, &key)], forward))
    }

    fn route(&self, number: u32) -> Kind {
        let (address, length) = route(number);
        let forward = does(self.objects.id("forward"), &[b"\x03"]);
        let address = bits::Value::truncated(address.into(), 48).to_p4rt_bytes();
        let matches = vec![lpm(1, &address, length)];
        Kind::TableEntry(entry(self.objects.id("lpm_table"), matches, forward))
    }

    /// Measures writes and reads without packets.
    async fn alone(&mut self, wanted: &Wanted) {
        let count = wanted.entries;
        for (what, ty, port) in PASSES {
            if ty == Type::Delete {
                let begin = Instant::now();
                let all = Kind::TableEntry(entry(self.objects.id("exact_table"), vec![], None));
                assert_eq!(self.client.read(all).await.len(), count as usize);
                tell("exact entries read", count, begin.elapsed());
            }
            let made = |number| (ty, self.exact_entry(number, port));
            tell(what, count, write(&self.client, count, None, made).await);
        }
        if wanted.routes > 0 {
            let made = |number| (Type::Insert, self.route(number));
            let time = write(&self.client, wanted.routes, None, made).await;
            tell("routes inserted", wanted.routes, time);
        }
    }

    /// Measures writes while packets are processed, first as fast as possible and then at a given
    /// rate.
    async fn beside_packets(&mut self, wanted: &Wanted, rate: u32) {
        self.switch.traffic.is_on.store(true, Ordering::Relaxed);
        for (how, pace) in [
            ("exact entries, as fast as they are taken", None),
            ("exact entries at the rate that is asked", Some(rate)),
        ] {
            let mut windows = Vec::new();
            for (_, ty, port) in PASSES.repeat(ROUNDS) {
                let made = |number| (ty, self.exact_entry(number, port));
                windows.push(self.window(wanted.entries, pace, made).await);
            }
            tell_windows(how, &windows);
        }
        if wanted.routes > 0 {
            let made = |number| (Type::Insert, self.route(number));
            let window = self.window(wanted.routes, None, made).await;
            tell_windows("routes, as fast as they are taken", &[window]);
        }
    }

    async fn window(
        &self,
        count: u32,
        pace: Option<u32>,
        made: impl Fn(u32) -> (Type, Kind),
    ) -> Window {
        let before = self.packets_while(tokio::time::sleep(REST)).await.0;
        let writing = write(&self.client, count, pace, made);
        let (meanwhile, time) = self.packets_while(writing).await;
        let rate = f64::from(count) / time.as_secs_f64();
        Window {
            rate,
            before,
            meanwhile,
        }
    }

    async fn packets_while<T>(&self, work: impl Future<Output = T>) -> (Packets, T) {
        let begin = Instant::now();
        self.switch.traffic.take(begin);
        let done = work.await;
        (self.switch.traffic.take(begin), done)
    }
}

/// Returns a prefix. Lengths resemble those of an Internet routing table: more than half have 24
/// bits, the rest 21 to 23.
fn route(number: u32) -> (u64, i32) {
    let length = match number % 10 {
        0..6 => 24,
        6 | 7 => 22,
        8 => 23,
        _ => 21,
    };
    let scattered = number.wrapping_mul(0x9e37_79b1);
    // Prefixes of one length are distinct: the low bits of the number become the prefix' high bits.
    let prefix = scattered.reverse_bits() >> (32 - length);
    (u64::from(prefix) << (48 - length), length)
}

/// Writes in batches, several in flight, at most `pace` updates a second. Returns the duration.
async fn write(
    client: &Client,
    count: u32,
    pace: Option<u32>,
    made: impl Fn(u32) -> (Type, Kind),
) -> Duration {
    let begin = tokio::time::Instant::now();
    let mut under_way = VecDeque::new();
    let mut refused = 0;
    for first in (0..count).step_by(BATCH as usize) {
        if let Some(pace) = pace {
            let due = Duration::from_secs_f64(f64::from(first) / f64::from(pace));
            tokio::time::sleep_until(begin + due).await;
        }
        let numbers = first..count.min(first + BATCH);
        let request = client.batch(numbers.map(&made).collect());
        let mut grpc = client.grpc.clone();
        under_way.push_back(tokio::spawn(async move { grpc.write(request).await }));
        if under_way.len() >= MAX_UNDER_WAY
            && let Some(first) = under_way.pop_front()
        {
            refused += refusals(first.await.expect("it ends"));
        }
    }
    for last in under_way {
        refused += refusals(last.await.expect("it ends"));
    }
    assert_eq!(refused, 0);
    begin.elapsed()
}

fn refusals<T>(answer: Result<T, tonic::Status>) -> usize {
    match answer {
        Ok(_) => 0,
        Err(status) => {
            let errors = errors(&status);
            errors.iter().filter(|e| e.canonical_code != 0).count()
        }
    }
}

fn tell(what: &str, count: u32, time: Duration) {
    let seconds = time.as_secs_f64();
    let rate = f64::from(count) / seconds;
    println!("  {count} {what} in {seconds:.2} s: {rate:.0} a second");
}

/// Update rate of one window, and packets before it and during it.
struct Window {
    rate: f64,
    before: Packets,
    meanwhile: Packets,
}

/// Prints the medians over windows.
fn tell_windows(how: &str, windows: &[Window]) {
    let median = |figure: &dyn Fn(&Window) -> f64| {
        let mut all: Vec<f64> = windows.iter().map(figure).collect();
        support::quantile::median(&mut all).expect("there is a window")
    };
    println!(
        "  a controller writes {how}: {:.0} a second",
        median(&|window| window.rate)
    );
    println!(
        "    packets: {:.0} thousand a second before, {:.2} of that meanwhile ({:.2} by processor time)",
        median(&|window| window.before.rate) / 1e3,
        median(&|window| window.meanwhile.rate / window.before.rate),
        median(&|window| window.meanwhile.own_rate / window.before.own_rate),
    );
    println!(
        "    a burst of {BURST}: {:.1} us before, {:.2} of that meanwhile; 99 of 100 at most {:.1} and {:.1} us",
        median(&|window| window.before.median),
        median(&|window| window.meanwhile.median / window.before.median),
        median(&|window| window.before.most),
        median(&|window| window.meanwhile.most),
    );
}
