//! How fast a controller writes and reads over loopback gRPC, in batches of 1,000, in memory and with the state kept on a disk, and what packets notice:
//! `cargo bench -p p4rt`. Behind `--` may stand a number of exact entries, a number of routes (`routes=964000`) and a directory for the state
//! (`state=DIR`; its disk is what is measured). The figures are of the whole way, the client's part included, which runs in the same process.

#[expect(dead_code, reason = "the tests use the rest")]
#[path = "../tests/p4rt/rig.rs"]
mod rig;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4info::p4::v1::update::Type;
use p4rt::{Server, Setup};
use packet::{Frame, Nanos, PortId};
use port::Poller;
use rig::*;
use store::Directory;
use switch::{KeptCells, Worker};

/// Updates of a batch.
const BATCH: u32 = 1000;

/// Batches that may wait for their answers: a controller that does not wait for each.
const MOST_UNDER_WAY: usize = 4;

/// Frames of a burst.
const BURST: usize = 64;

struct Wanted {
    entries: u32,
    routes: u32,
    state: PathBuf,
}

fn main() {
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
                measure(&wanted, is_kept, has_traffic).await;
            }
        }
    });
}

/// A switch with a worker: an office that serves the controller beside it, as the command has.
struct Switch {
    server: Server,
    traffic: Arc<Traffic>,
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

/// What a worker notices: the time of each burst, in nanoseconds.
#[derive(Default)]
struct Traffic {
    is_on: AtomicBool,
    packets: AtomicU64,
    bursts: Mutex<Vec<u32>>,
}

impl Switch {
    fn start(state: Option<&std::path::Path>) -> Switch {
        let mut device = empty_device();
        if let Some(state) = state {
            let kept = Directory::open(state).and_then(|directory| directory.device(1));
            let keeper = kept.and_then(|kept| kept.keep()).expect("it is new");
            device.keep_in(Box::new(keeper), KeptCells::default(), false);
        }
        let (mut inbox, cpu, remote) = p4rt::channel(PortId(CPU)).expect("a socket pair");
        let setup = Setup {
            id: 1,
            remote,
            loader: Arc::new(Compiler),
            program: None,
            notes: device.notes().clone(),
            allowed: Vec::new(),
        };
        let address: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let server = Server::start(address, vec![setup]).expect("a free port");
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
            std::thread::spawn(move || carry(worker, &stop, &traffic))
        };
        Switch {
            server,
            traffic,
            stop,
            threads: vec![office, carrying],
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("it does not panic");
        }
    }
}

/// Takes bursts through the program as long as there is traffic.
fn carry(mut worker: Worker, stop: &AtomicBool, traffic: &Traffic) {
    let begin = Instant::now();
    // To an address that is not written: what packets do stays the same.
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
        traffic.packets.fetch_add(BURST as u64, Ordering::Relaxed);
        traffic.bursts.lock().expect("nobody panics").push(nanos);
    }
}

impl Traffic {
    /// Packets a second and the median and the 99th hundredth of bursts, since `begin` and the last time.
    fn take(&self, begin: Instant) -> (f64, u32, u32) {
        let packets = self.packets.swap(0, Ordering::Relaxed);
        let mut bursts = std::mem::take(&mut *self.bursts.lock().expect("nobody panics"));
        bursts.sort_unstable();
        let at = |part: usize| bursts.get(bursts.len() * part / 100).copied().unwrap_or(0);
        (
            packets as f64 / begin.elapsed().as_secs_f64(),
            at(50),
            at(99),
        )
    }
}

async fn measure(wanted: &Wanted, is_kept: bool, has_traffic: bool) {
    let state = tempfile::tempdir_in(&wanted.state).expect("a directory");
    let switch = Switch::start(is_kept.then(|| state.path()));
    println!(
        "\nstate {}, {}",
        if is_kept { "kept" } else { "in memory" },
        if has_traffic {
            "with traffic"
        } else {
            "no traffic"
        }
    );
    let mut client = Client::connect(switch.server.address()).await;
    let _stream = client.open(Some(1), "").await;
    let text = ALL.replace("size = 16;", &format!("size = {};", wanted.entries));
    let lpm = "table lpm_table {";
    let text = text.replace(lpm, &format!("{lpm} size = {};", wanted.routes.max(1)));
    let loaded = client.load(Action::VerifyAndCommit, &text).await;
    loaded.expect("it loads");
    let objects = Objects::of(&client.config().await);
    switch.traffic.is_on.store(has_traffic, Ordering::Relaxed);
    if has_traffic {
        switch.traffic.take(Instant::now());
        let begin = Instant::now();
        tokio::time::sleep(Duration::from_secs(2)).await;
        tell_traffic("nothing is written", &switch.traffic, begin);
    }
    let exact_entry = |number: u32, port: u8| {
        let forward = does(objects.id("forward"), &[&[port]]);
        let key = bits::Value::truncated(number.into(), 48).to_p4rt_bytes();
        entry(objects.id("exact_table"), vec![exact(1, &key)], forward)
    };
    for (what, ty, port) in [
        ("exact entries inserted", Type::Insert, 1),
        ("exact entries modified", Type::Modify, 2),
        ("exact entries deleted", Type::Delete, 2),
    ] {
        if ty == Type::Delete {
            let begin = Instant::now();
            let all = Kind::TableEntry(entry(objects.id("exact_table"), vec![], None));
            assert_eq!(client.read(all).await.len(), wanted.entries as usize);
            tell("exact entries read", wanted.entries, begin);
        }
        let made = |number| Kind::TableEntry(exact_entry(number, port));
        write(&client, &switch, what, ty, wanted.entries, made).await;
    }
    if wanted.routes > 0 {
        let made = |number| {
            let (address, length) = route(number);
            let forward = does(objects.id("forward"), &[b"\x03"]);
            let address = bits::Value::truncated(address.into(), 48).to_p4rt_bytes();
            Kind::TableEntry(entry(
                objects.id("lpm_table"),
                vec![lpm_of(&address, length)],
                forward,
            ))
        };
        let what = "routes inserted";
        write(&client, &switch, what, Type::Insert, wanted.routes, made).await;
    }
}

fn lpm_of(address: &[u8], length: i32) -> p4info::p4::v1::FieldMatch {
    lpm(1, address, length)
}

/// Prefixes of the lengths of an Internet table: more than half have 24 bits, the rest 16 to 23.
fn route(number: u32) -> (u64, i32) {
    let length = match number % 10 {
        0..6 => 24,
        6 | 7 => 22,
        8 => 23,
        _ => 21,
    };
    let scattered = number.wrapping_mul(0x9e37_79b1);
    // Numbers of one length are apart: the last bits of the number are in the prefix' first ones.
    let prefix = scattered.reverse_bits() >> (32 - length);
    (u64::from(prefix) << (48 - length), length)
}

/// Writes in batches, several under way, and tells how fast, and what packets noticed.
async fn write(
    client: &Client,
    switch: &Switch,
    what: &str,
    ty: Type,
    count: u32,
    made: impl Fn(u32) -> Kind,
) {
    let begin = Instant::now();
    switch.traffic.take(begin);
    let mut under_way = std::collections::VecDeque::new();
    let mut refused = 0;
    for first in (0..count).step_by(BATCH as usize) {
        let numbers = first..count.min(first + BATCH);
        let request = client.batch(numbers.map(|number| (ty, made(number))).collect());
        let mut grpc = client.grpc.clone();
        under_way.push_back(tokio::spawn(async move { grpc.write(request).await }));
        if under_way.len() >= MOST_UNDER_WAY
            && let Some(first) = under_way.pop_front()
        {
            refused += refusals(first.await.expect("it ends"));
        }
    }
    for last in under_way {
        refused += refusals(last.await.expect("it ends"));
    }
    tell(what, count, begin);
    assert_eq!(refused, 0, "{what}");
    if switch.traffic.is_on.load(Ordering::Relaxed) {
        tell_traffic(what, &switch.traffic, begin);
    }
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

fn tell(what: &str, count: u32, begin: Instant) {
    let seconds = begin.elapsed().as_secs_f64();
    let rate = f64::from(count) / seconds;
    println!("  {count} {what} in {seconds:.2} s: {rate:.0} a second");
}

fn tell_traffic(what: &str, traffic: &Traffic, begin: Instant) {
    let (rate, median, most) = traffic.take(begin);
    println!(
        "    packets while {what}: {:.0} thousand a second; a burst of {BURST} takes {:.1} us, 99 of 100 at most {:.1} us",
        rate / 1e3,
        f64::from(median) / 1e3,
        f64::from(most) / 1e3
    );
}
