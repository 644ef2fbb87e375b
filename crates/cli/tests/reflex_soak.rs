//! Members of a store as real processes, under load and faults: killed, stopped for 100 ms, with a
//! full disk, replaced one by one. Histories of the clients must be linearizable.
//!
//! `cargo xtask reflex-soak` runs it with many faults. `POLYPLANE_SOAK_FAULTS` is the number of
//! kills, and of stops.

mod lab;

#[path = "../../consensus/src/sim/linear.rs"]
#[allow(dead_code, reason = "operations that compare and set are not used")]
mod linear;

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lab::{Directory, Running, polyplane};
use linear::{Effect, Operation, Verdict};
use port::Netns;
use reflex_runtime::{ControlClient, KeyOperation};
use support::rng::Rng;

/// The first nodes, then those that replace them.
const NODES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const FIRST: usize = 3;
const CLIENTS: u64 = 4;
/// Keys of an epoch. Each has a history of its own.
const KEYS: u64 = 3;
/// Faults of an epoch: afterwards clients use other keys, so no history becomes long.
const EPOCH: usize = 5;
/// Operations that clients complete between two faults.
const BETWEEN: u64 = 20;
/// The time of an election that the file gives.
const ELECTION: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(100);
/// Time within which something must happen: a failure, and no measurement.
const SOON: Duration = Duration::from_secs(60);
/// Bytes of a packet on interfaces between members: a whole message with its headers.
const MTU: u32 = 2_100;
/// Bytes of each node's disk.
const DISK: &str = "size=67108864";

/// Waits until `found` returns something.
fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(start.elapsed() < SOON, "{what} does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Faults of a run.
#[derive(Clone, Copy)]
struct Faults {
    kills: usize,
    pauses: usize,
    fills: usize,
    /// True if the environment gives their number.
    is_long: bool,
}

impl Faults {
    /// Returns a few faults, or as many as the environment gives.
    fn chosen() -> Faults {
        let given = std::env::var("POLYPLANE_SOAK_FAULTS").ok();
        let is_long = given.is_some();
        let number = given.map_or(5, |text| text.parse().expect("a number of faults"));
        Faults {
            kills: number,
            pauses: number,
            fills: (number / 20).max(1),
            is_long,
        }
    }
}

/// Way of messages between the members.
#[derive(Clone, Copy)]
enum Way {
    Udp,
    Rings,
    /// AF_XDP on the ends of cables to a bridge, in a namespace of its own.
    Xdp,
}

/// Creates a namespace with an interface for each node, all at one bridge. Returns `None`, and
/// prints the reason, if the machine forbids namespaces.
fn network() -> Option<Netns> {
    let netns = match Netns::create() {
        Ok(netns) => netns,
        Err(error) => {
            println!("skipped: {error}");
            return None;
        }
    };
    let quiet = || std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    let _ = netns.run(quiet).unwrap();
    let mut links = netns.rtnl().unwrap();
    links.add_bridge("bridge").unwrap();
    links.set_mtu("bridge", MTU).unwrap();
    links.set_up("bridge").unwrap();
    for node in NODES {
        let (near, far) = (interface(node), format!("far{node}"));
        links.add_veth(&near, &far, None).unwrap();
        for end in [&near, &far] {
            links.set_mtu(end, MTU).unwrap();
            links.set_up(end).unwrap();
        }
        links.join_bridge(&far, "bridge").unwrap();
    }
    drop(links);
    Some(netns)
}

fn interface(node: &str) -> String {
    format!("node{node}")
}

/// The members and their files.
struct Cluster {
    netns: Option<Netns>,
    dir: Directory,
    file: String,
    members: Vec<Option<Running>>,
    /// The disks are file systems of their own.
    has_disks: bool,
}

impl Cluster {
    fn start(test: &str, way: Way, netns: Option<Netns>) -> Cluster {
        let dir = Directory::new(test);
        let nodes = match way {
            Way::Udp => {
                let sockets = NODES.map(|_| UdpSocket::bind("127.0.0.1:0").expect("a free port"));
                let nodes = NODES.iter().zip(&sockets).map(|(name, socket)| {
                    let address = socket.local_addr().expect("it is bound");
                    format!("{{ name = \"{name}\", address = \"{address}\" }}")
                });
                nodes.collect::<Vec<_>>()
            }
            Way::Rings => NODES.map(|name| format!("\"{name}\"")).to_vec(),
            Way::Xdp => {
                let nodes = NODES.iter().zip(1..).map(|(name, number)| {
                    let interface = interface(name);
                    format!(
                        "{{ name = \"{name}\", address = \"10.9.0.{number}:7000\", \
                         interface = \"xdp:{interface}\" }}"
                    )
                });
                nodes.collect()
            }
        };
        let ring = match way {
            Way::Udp | Way::Xdp => String::new(),
            Way::Rings => format!("ring = \"soak.{}\"\n", std::process::id()),
        };
        let mut has_disks = true;
        for name in NODES {
            let disk = dir.0.join("store").join(name);
            std::fs::create_dir_all(&disk).unwrap();
            let size = std::ffi::CString::new(DISK).unwrap();
            let flags = rustix::mount::MountFlags::NODEV;
            let mounted = rustix::mount::mount("tmpfs", &disk, "tmpfs", flags, size.as_c_str());
            has_disks &= mounted.is_ok();
        }
        if !has_disks {
            println!("full disks are skipped: a small file system cannot be mounted");
        }
        // Reports are not what is tested: a ring that nothing sends to.
        let text = format!(
            "[[source]]\nlisten = \"ring:none.{}\"\nnode = \"a\"\n\
             from = [{{ node = 9, address = \"127.0.0.1\" }}]\n\
             [[monitor]]\nname = \"m\"\nkind = \"path_latency\"\nmatch = [\"any\"]\n\
             above = \"1 us\"\n\
             [store]\nnodes = [{}]\nspares = [{}]\n{ring}keep = \"disk\"\ndir = \"store\"\n\
             election_timeout = \"{} ms\"\n",
            std::process::id(),
            nodes[..FIRST].join(", "),
            nodes[FIRST..].join(", "),
            ELECTION.as_millis()
        );
        let file = dir.with("loops.toml", text);
        let mut cluster = Cluster {
            netns,
            dir,
            file,
            members: Vec::new(),
            has_disks,
        };
        let members = (0..NODES.len()).map(|at| (at < FIRST).then(|| cluster.member(at)));
        cluster.members = members.collect();
        cluster
    }

    fn member(&self, at: usize) -> Running {
        let mut command = polyplane();
        let socket = self.socket(at);
        command.args([
            "reflex", "member", &self.file, "--name", NODES[at], "--json",
        ]);
        command.arg("--control").arg(socket);
        let mut running = match &self.netns {
            None => Running::start(&mut command),
            Some(netns) => netns.run(|| Running::start(&mut command)).unwrap(),
        };
        // Full pipes would stop it.
        let err = BufReader::new(running.0.stderr.take().expect("it is piped"));
        std::thread::spawn(move || {
            for line in err.lines().map_while(Result::ok) {
                println!("{line}");
            }
        });
        let out = BufReader::new(running.0.stdout.take().expect("it is piped"));
        std::thread::spawn(move || out.lines().map_while(Result::ok).for_each(drop));
        running
    }

    /// Sends a signal to a member that runs.
    fn signal(&self, at: usize, name: &str) {
        let running = self.members[at].as_ref().expect("the member runs");
        running.signal(name);
    }

    /// Ends a member by a signal.
    fn end(&mut self, at: usize, signal: &str) {
        self.signal(at, signal);
        let running = self.members[at].as_mut().expect("the member runs");
        running.0.wait().expect("it is a child");
        self.members[at] = None;
    }

    fn socket(&self, at: usize) -> PathBuf {
        self.dir.0.join(format!("{}.sock", NODES[at]))
    }

    /// Returns the state of a member, if it answers.
    fn show(&self, at: usize) -> Option<serde_json::Value> {
        ControlClient::connect(&self.socket(at)).ok()?.show().ok()
    }

    /// Returns the member that leads, of these, and its term.
    fn leader(&self, among: &[usize]) -> Option<(usize, u64)> {
        let leads = among.iter().filter_map(|at| {
            let state = self.show(*at)?;
            let node = &state["nodes"][0];
            (node["role"] == "leader").then(|| Some((*at, node["term"].as_u64()?)))?
        });
        leads.max_by_key(|(_, term)| *term)
    }

    /// Waits until a member follows a leader, or leads.
    fn wait_until_follows(&self, at: usize) {
        wait_for("a member that follows", || {
            let state = self.show(at)?;
            let node = &state["nodes"][0];
            (node["role"] == "leader" || !node["leader"].is_null()).then_some(())
        });
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.members.clear();
        if self.has_disks {
            for name in NODES {
                let disk = self.dir.0.join("store").join(name);
                let detach = rustix::mount::UnmountFlags::DETACH;
                let _ = rustix::mount::unmount(&disk, detach);
            }
        }
    }
}

/// State that clients share with the thread that makes faults.
#[derive(Default)]
struct Load {
    stops: AtomicBool,
    epoch: AtomicU64,
    completed: AtomicU64,
    /// Operations that were refused, or of unknown outcome.
    failed: AtomicU64,
    /// Members that clients ask, as bits.
    asked: AtomicU64,
    /// Operations under way at each member.
    under_way: [AtomicU64; NODES.len()],
    histories: Mutex<HashMap<String, Vec<Operation>>>,
}

impl Load {
    /// Waits until all operations that began before have ended: those that met a fault may take
    /// long.
    fn settle(&self) {
        let asked = self.asked.swap(0, Ordering::SeqCst);
        wait_for("the end of all operations", || {
            let mut all = self.under_way.iter();
            all.all(|count| count.load(Ordering::SeqCst) == 0)
                .then_some(())
        });
        self.asked.store(asked, Ordering::SeqCst);
    }

    /// Waits until clients have completed some operations.
    fn wait_for_operations(&self) {
        let from = self.completed.load(Ordering::Relaxed);
        wait_for("operations of clients", || {
            (self.completed.load(Ordering::Relaxed) >= from + BETWEEN).then_some(())
        });
    }
}

/// One client: an operation after another, at any member.
struct Client {
    number: u64,
    rng: Rng,
    sockets: Vec<PathBuf>,
    open: BTreeMap<usize, ControlClient>,
    written: u64,
    start: Instant,
}

/// Outcome of an operation.
enum Done {
    Value(Option<String>),
    /// It had no effect.
    Refused,
    Unknown,
}

impl Client {
    fn run(mut self, load: &Load) {
        while !load.stops.load(Ordering::Relaxed) {
            let epoch = load.epoch.load(Ordering::Relaxed);
            let key = format!("{epoch}.{}", self.rng.below(KEYS));
            self.operate(&key, load);
        }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Chooses a member, and counts the operation that begins there.
    fn begin(&mut self, load: &Load) -> usize {
        loop {
            let at = self.rng.index(self.sockets.len());
            load.under_way[at].fetch_add(1, Ordering::SeqCst);
            if load.asked.load(Ordering::SeqCst) & 1 << at != 0 {
                return at;
            }
            load.under_way[at].fetch_sub(1, Ordering::SeqCst);
            std::thread::yield_now();
        }
    }

    fn operate(&mut self, key: &str, load: &Load) {
        let at = self.begin(load);
        // Values of all writes differ.
        self.written += 1;
        let value = self.written * CLIENTS + self.number + 1;
        let (operation, effect) = match self.rng.below(10) {
            0 => (KeyOperation::Delete(key.to_owned()), Effect::Write(0)),
            1..5 => {
                let put = KeyOperation::Put(key.to_owned(), value.to_string());
                (put, Effect::Write(value))
            }
            _ => (KeyOperation::Get(key.to_owned()), Effect::Read(0)),
        };
        let call = self.now();
        let outcome = self.ask(at, operation);
        let done = self.now();
        load.under_way[at].fetch_sub(1, Ordering::SeqCst);
        if !matches!(outcome, Done::Value(_)) {
            load.failed.fetch_add(1, Ordering::SeqCst);
        }
        let (effect, done) = match (outcome, effect) {
            (Done::Refused, _) | (Done::Unknown, Effect::Read(_)) => return,
            (Done::Unknown, effect) => (effect, None),
            (Done::Value(value), Effect::Read(_)) => {
                let seen = value.map_or(0, |text| text.parse().expect("a value of a client"));
                (Effect::Read(seen), Some(done))
            }
            (Done::Value(_), effect) => (effect, Some(done)),
        };
        if done.is_some() {
            load.completed.fetch_add(1, Ordering::Relaxed);
        }
        let mut histories = load.histories.lock().unwrap();
        let history = histories.entry(key.to_owned()).or_default();
        history.push(Operation { call, done, effect });
    }

    fn ask(&mut self, at: usize, operation: KeyOperation) -> Done {
        if !self.open.contains_key(&at) {
            match ControlClient::connect(&self.sockets[at]) {
                Ok(client) => drop(self.open.insert(at, client)),
                Err(_) => return Done::Refused,
            }
        }
        let client = self.open.get_mut(&at).expect("it is open");
        let error = match client.operate(operation) {
            Ok(value) => return Done::Value(value),
            Err(error) => error.to_string(),
        };
        let is_refused = ["no_quorum:", "busy:", "disk:"];
        if is_refused.iter().any(|word| error.starts_with(word)) {
            return Done::Refused;
        }
        println!("{}: {error}", NODES[at]);
        // The member was killed, or the store had no leader for long.
        self.open.remove(&at);
        Done::Unknown
    }
}

/// A fault of a member.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Pause,
    Fill,
}

/// Makes one fault. Returns the time without a leader, if the leader was killed.
fn make(cluster: &mut Cluster, load: &Load, fault: Fault, victim: usize) -> Option<Duration> {
    let others: Vec<usize> = (0..FIRST).filter(|at| *at != victim).collect();
    let led = cluster.leader(&[victim]);
    match fault {
        Fault::Kill => {
            let start = Instant::now();
            cluster.end(victim, "KILL");
            let mut without = None;
            if let Some((_, term)) = led {
                wait_for("a leader of a later term", || {
                    cluster.leader(&others).filter(|(_, new)| *new > term)
                });
                without = Some(start.elapsed());
            }
            load.wait_for_operations();
            cluster.members[victim] = Some(cluster.member(victim));
            cluster.wait_until_follows(victim);
            without
        }
        Fault::Pause => {
            cluster.signal(victim, "STOP");
            std::thread::sleep(PAUSE);
            cluster.signal(victim, "CONT");
            None
        }
        Fault::Fill => {
            let disk = cluster.dir.0.join("store").join(NODES[victim]);
            let ballast = disk.join("ballast");
            let mut file = std::fs::File::create(&ballast).unwrap();
            wait_for("a full disk", || {
                while std::io::Write::write(&mut file, &[1; 4096]).is_ok() {}
                let state = cluster.show(victim)?;
                state["disk"].is_string().then_some(())
            });
            // An open file keeps its room.
            drop(file);
            std::fs::remove_file(&ballast).unwrap();
            wait_for("a disk with room", || {
                let state = cluster.show(victim)?;
                state["disk"].is_null().then_some(())
            });
            None
        }
    }
}

/// Replaces each of the first members by another one under load. No request fails.
fn replace_all(cluster: &mut Cluster, load: &Load) {
    for old in 0..FIRST {
        let new = old + FIRST;
        load.epoch.fetch_add(1, Ordering::Relaxed);
        cluster.members[new] = Some(cluster.member(new));
        load.wait_for_operations();
        let members: Vec<usize> = (old..=new).collect();
        let failed = load.failed.load(Ordering::SeqCst);
        // Clients go to the others first: a node that is no member answers nothing.
        load.asked.fetch_and(!(1 << old), Ordering::SeqCst);
        wait_for("operations at the old member end", || {
            (load.under_way[old].load(Ordering::SeqCst) == 0).then_some(())
        });
        wait_for("a replacement", || {
            let (leader, _) = cluster.leader(&members)?;
            let mut client = ControlClient::connect(&cluster.socket(leader)).ok()?;
            client.replace(NODES[old], NODES[new]).ok()
        });
        load.asked.fetch_or(1 << new, Ordering::SeqCst);
        cluster.end(old, "TERM");
        load.wait_for_operations();
        let failures = load.failed.load(Ordering::SeqCst) - failed;
        assert_eq!(failures, 0, "requests failed during a replacement");
        let state = cluster.show(new).expect("it runs");
        let voters: Vec<&str> = NODES[old + 1..=new].to_vec();
        assert_eq!(state["voters"], serde_json::json!(voters));
    }
}

/// Runs the faults under load, and judges the histories.
fn soak(test: &str, way: Way, faults: Faults) {
    let netns = match way {
        Way::Udp | Way::Rings => None,
        Way::Xdp => match network() {
            Some(netns) => Some(netns),
            None => return,
        },
    };
    let mut cluster = Cluster::start(test, way, netns);
    let all: Vec<usize> = (0..FIRST).collect();
    wait_for("a leader", || cluster.leader(&all));
    let load = Arc::new(Load::default());
    load.asked.store((1 << FIRST) - 1, Ordering::SeqCst);
    let start = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let client = Client {
                number,
                rng: Rng::new(number),
                sockets: (0..NODES.len()).map(|at| cluster.socket(at)).collect(),
                open: BTreeMap::new(),
                written: 0,
                start,
            };
            let load = Arc::clone(&load);
            std::thread::spawn(move || client.run(&load))
        })
        .collect();
    let mut plan = vec![Fault::Kill; faults.kills];
    plan.extend(vec![Fault::Pause; faults.pauses]);
    if cluster.has_disks {
        plan.extend(vec![Fault::Fill; faults.fills]);
    }
    let mut rng = Rng::new(1);
    for at in (1..plan.len()).rev() {
        plan.swap(at, rng.index(at + 1));
    }
    // Of each kind, the leader is the victim as often as others.
    let mut made = [0; 3];
    let mut without = Vec::new();
    for (number, fault) in plan.into_iter().enumerate() {
        load.epoch.store((number / EPOCH) as u64, Ordering::Relaxed);
        load.wait_for_operations();
        let (leader, _) = wait_for("a leader", || cluster.leader(&all));
        let others: Vec<usize> = all.iter().copied().filter(|at| *at != leader).collect();
        let count = &mut made[fault as usize];
        *count += 1;
        let victim = match *count % 2 {
            1 => leader,
            _ => others[rng.index(others.len())],
        };
        without.extend(make(&mut cluster, &load, fault, victim));
    }
    load.settle();
    replace_all(&mut cluster, &load);
    load.wait_for_operations();
    load.stops.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().expect("a client ends");
    }
    // What was acknowledged is there, at each member.
    let mut histories = std::mem::take(&mut *load.histories.lock().unwrap());
    for at in FIRST..NODES.len() {
        for (key, history) in &mut histories {
            let call = start.elapsed().as_nanos() as u64;
            let value = wait_for("a read", || {
                let mut client = ControlClient::connect(&cluster.socket(at)).ok()?;
                client.operate(KeyOperation::Get(key.clone())).ok()
            });
            let seen = value.map_or(0, |text| text.parse().expect("a value of a client"));
            history.push(Operation {
                call,
                done: Some(start.elapsed().as_nanos() as u64),
                effect: Effect::Read(seen),
            });
        }
    }
    let operations: usize = histories.values().map(Vec::len).sum();
    let unknown = histories.values().flatten().filter(|it| it.done.is_none());
    println!(
        "{} kills, {} stops and {} full disks; {operations} operations of {} keys, {} of them of \
         unknown outcome",
        made[0],
        made[1],
        made[2],
        histories.len(),
        unknown.count()
    );
    without.sort();
    let median = without[without.len() / 2];
    println!(
        "time until another leader: median {median:?}, longest {:?}; an election has {ELECTION:?}",
        without[without.len() - 1]
    );
    for (key, history) in &histories {
        let verdict = linear::check(history);
        assert_eq!(verdict, Verdict::Linearizable, "key {key}: {history:?}");
    }
    // The machine of a short run may be busy with other tests.
    if faults.is_long {
        assert!(median <= 3 * ELECTION, "{without:?}");
    }
}

#[test]
fn members_over_rings_lose_no_write_and_stay_linearizable_under_faults() {
    soak("reflex-soak-rings", Way::Rings, Faults::chosen());
}

#[test]
#[ignore = "cargo xtask reflex-soak runs it; `reflex_process` kills members over UDP"]
fn members_over_udp_lose_no_write_and_stay_linearizable_under_faults() {
    soak("reflex-soak-udp", Way::Udp, Faults::chosen());
}

#[test]
#[ignore = "cargo xtask reflex-soak runs it"]
fn members_over_xdp_lose_no_write_and_stay_linearizable_under_faults() {
    soak("reflex-soak-xdp", Way::Xdp, Faults::chosen());
}

#[test]
fn messages_by_af_xdp_on_veth_carry_a_store_through_a_kill_a_stop_and_replacements() {
    let faults = Faults {
        kills: 1,
        pauses: 1,
        fills: 0,
        is_long: false,
    };
    soak("reflex-short-xdp", Way::Xdp, faults);
}
