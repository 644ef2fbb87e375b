//! `cargo xtask soak --split`: new flows at a steady rate through the source NAT over a switch and
//! two servers. Entries come and expire all the time, so no process may grow, and without traffic
//! no entry stays that the program does not keep.
//!
//! Entries of `outbound` expire. One of `inbound` stays until its port serves another flow, so
//! there are as many as ports of the pool have ever been used.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use packet::{Batch, Frame, Nanos, PortId};
use port::{
    Flows, Generator, Netns, Order, Port, PortDriver, Sizes, Template, Values, open_interface,
};
use serde_json::{Value, json};

use super::{Namespace, SplitProcesses};
use crate::Outcome;

/// Number of ports of the NAT. About 20,000 are in use at 10,000 flows a second, so all are used
/// before the warm-up ends.
const POOL: u64 = 28_672;

/// Pool and time-out of UDP flows in the program's text.
const POOL_LINE: &str = "CLIP_POOL(ports, 65536 - NAT_FIRST_PORT);";
const TIMEOUT_LINE: &str = "return 30 * SECOND;";

/// Time after the last packet after which no entry of `outbound` is left.
const EXPIRY: Duration = Duration::from_secs(8);

/// Inside hosts, and their ports.
const HOSTS: u64 = 251;
const PORTS: u64 = 60_000;

/// 192.168.1.1, the first inside host, and 198.51.100.7 outside.
const INSIDE: u64 = 0xc0a8_0101;
const OUTSIDE: u64 = 0xc633_6407;

/// Interval in which frames are sent.
const BEAT: Duration = Duration::from_millis(5);

/// Maximum growth of a process after its warm-up, in KiB: free memory of the allocator. Queues
/// grow and shrink with the load of the machine, so the least sizes of the first and the last
/// quarter of the time are compared.
const GROWTH: u64 = 8192;

/// Time between two samples of the sizes.
const SAMPLE: Duration = Duration::from_secs(5);

/// Rate and time of the churn.
pub(crate) struct Churn {
    pub(crate) flows_per_second: u64,
    pub(crate) time: Duration,
}

pub(crate) fn run(root: &Path, binary: &Path, churn: &Churn) -> Outcome {
    let directory = std::env::temp_dir().join(format!("polyplane-churn-{}", std::process::id()));
    std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    let report = run_in(root, binary, churn, &directory);
    // A folder that is left does no harm.
    let _ = std::fs::remove_dir_all(&directory);
    let report = report?;
    println!("{report:#}");
    match report["verdict"] == "passed" {
        true => Ok(()),
        false => Err(report["failure"].as_str().unwrap_or_default().to_owned()),
    }
}

/// Returns the least size of each process.
fn least(samples: &[Vec<u64>]) -> Vec<u64> {
    let samples = samples.iter().cloned();
    let least = samples.reduce(|least, sizes| {
        let both = least.into_iter().zip(sizes);
        both.map(|(least, size)| least.min(size)).collect()
    });
    least.unwrap_or_default()
}

fn run_in(root: &Path, binary: &Path, churn: &Churn, directory: &Path) -> Result<Value, String> {
    let (program, entries) = program(root, directory)?;
    let namespace = Namespace::new(binary)?;
    let hosts = Netns::create().map_err(|error| error.to_string())?;
    for (name, other) in [("inside", Some(&hosts)), ("outside", Some(&hosts))] {
        lay(namespace.netns(), name, &format!("{name}-host"), other)?;
    }
    for server in ["server1", "server2"] {
        lay(namespace.netns(), &format!("to-{server}"), server, None)?;
    }
    let names = ["inside", "outside", "to-server1", "to-server2"];
    let ports = names.iter().enumerate();
    let ports: Vec<String> = ports.map(|(port, name)| format!("{port}={name}")).collect();
    let links = ["0=server1".to_owned(), "0=server2".to_owned()];
    let entries = entries.display().to_string();
    let program = program.display().to_string();
    let options = ["--entries", entries.as_str()];
    let mut split = SplitProcesses::start(&namespace, &program, (&ports, &links), &options)?;
    let mut source = Source::open(&hosts)?;
    let start = Instant::now();
    // Tables grow until the first flows expire.
    let warm_up = (churn.time / 5)
        .max(Duration::from_secs(30))
        .min(churn.time);
    let sizes = || {
        split
            .all()
            .map(|process| process.memory().0)
            .collect::<Vec<u64>>()
    };
    source.send_until(start + warm_up, churn.flows_per_second);
    let mut samples = vec![sizes()];
    while start.elapsed() < churn.time {
        let end = (start.elapsed() + SAMPLE).min(churn.time);
        source.send_until(start + end, churn.flows_per_second);
        samples.push(sizes());
    }
    let quarter = samples.len().div_ceil(4);
    let (begin, end) = (
        least(&samples[..quarter]),
        least(&samples[samples.len() - quarter..]),
    );
    let seconds = start.elapsed().as_secs_f64();
    let processes = split.all().zip(begin.iter().zip(&end));
    let processes = processes.map(|(process, (begin, end))| {
        json!({
            "name": process.name,
            "begin_kib": begin,
            "end_kib": end,
            "processor_seconds": process.processor_seconds(),
        })
    });
    let processes: Vec<Value> = processes.collect();
    let busy = Entries::read(&split, &namespace)?;
    std::thread::sleep(EXPIRY);
    let idle = Entries::read(&split, &namespace)?;
    split.restart_control(&namespace)?;
    // The servers report their entries after they are connected.
    std::thread::sleep(EXPIRY);
    let at_servers = Entries::read(&split, &namespace)?;
    let grown = begin
        .iter()
        .zip(&end)
        .any(|(begin, end)| *end > begin + GROWTH);
    // A flow lives for two seconds.
    let failure = if busy.outbound < churn.flows_per_second {
        Some("too few flows live")
    } else if grown {
        Some("a process grew")
    } else if idle.outbound != 0 {
        Some("expired entries stay at the coordinator")
    } else if idle.inbound > POOL {
        Some("the coordinator has more entries than ports")
    } else if idle != at_servers {
        Some("the coordinator and the servers have different entries")
    } else {
        None
    };
    Ok(json!({
        "seconds": seconds,
        "flows": source.sent,
        "processes": processes,
        "entries": {
            "under_traffic": busy.json(),
            "without_traffic": idle.json(),
            "of_servers": at_servers.json(),
        },
        "failure": failure,
        "verdict": if failure.is_some() { "failed" } else { "passed" },
    }))
}

/// Numbers of entries of the two mirrored tables at the coordinator.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entries {
    outbound: u64,
    inbound: u64,
}

impl Entries {
    fn read(split: &SplitProcesses, namespace: &Namespace<'_>) -> Result<Entries, String> {
        let status = split.status(namespace)?;
        let count = |name: &str| {
            let mut tables = status["tables"].as_array().into_iter().flatten();
            let table = tables.find(|table| table["name"] == name);
            let entries = table.and_then(|table| table["entries"].as_u64());
            entries.ok_or_else(|| format!("`split status` reports no entries of {name}"))
        };
        Ok(Entries {
            outbound: count("NatIngress.outbound")?,
            inbound: count("NatIngress.inbound")?,
        })
    }

    fn json(self) -> Value {
        json!({ "outbound": self.outbound, "inbound": self.inbound })
    }
}

/// Writes the NAT with a short time-out and a small pool. Returns its path and that of its entries.
fn program(root: &Path, directory: &Path) -> Result<(PathBuf, PathBuf), String> {
    let examples = root.join("examples/split");
    let text = std::fs::read_to_string(examples.join("snat.p4c"));
    let mut text = text.map_err(|error| error.to_string())?;
    let pool = format!("CLIP_POOL(ports, {POOL});");
    for (line, other) in [(POOL_LINE, &pool[..]), (TIMEOUT_LINE, "return 2 * SECOND;")] {
        if !text.contains(line) {
            return Err(format!("snat.p4c has no line `{line}`"));
        }
        text = text.replace(line, other);
    }
    let program = directory.join("snat.p4c");
    std::fs::write(&program, text).map_err(|error| error.to_string())?;
    Ok((program, examples.join("snat.entries")))
}

/// Creates a cable with both ends up.
fn lay(netns: &Netns, name: &str, peer: &str, other: Option<&Netns>) -> Result<(), String> {
    let failed = |error: port::RtnlError| error.to_string();
    let mut rtnl = netns.rtnl().map_err(|error| error.to_string())?;
    rtnl.add_veth(name, peer, other).map_err(failed)?;
    rtnl.set_up(name).map_err(failed)?;
    match other {
        Some(other) => {
            let mut rtnl = other.rtnl().map_err(|error| error.to_string())?;
            rtnl.set_up(peer).map_err(failed)
        }
        None => rtnl.set_up(peer).map_err(failed),
    }
}

/// Source of the first packets of flows.
struct Source {
    port: Box<dyn Port>,
    generator: Generator,
    sent: u64,
}

impl Source {
    fn open(hosts: &Netns) -> Result<Source, String> {
        let open = || open_interface(PortId(0), "inside-host", PortDriver::Auto, 1);
        let opened = hosts.run(open).map_err(|error| error.to_string())?;
        let mut shares = opened.map_err(|error| error.to_string())?.shares;
        let port = shares.pop().ok_or("the source has no port")?;
        Ok(Source {
            port,
            generator: generator()?,
            sent: 0,
        })
    }

    /// Sends flows at this rate until a time.
    fn send_until(&mut self, end: Instant, per_second: u64) {
        let per_beat = (per_second * BEAT.as_millis() as u64 / 1000).max(1) as usize;
        let mut next = Instant::now();
        while next < end {
            let mut batch = Batch::with_capacity(per_beat);
            self.generator.fill(&mut batch, PortId(0), Nanos::ZERO);
            self.sent += self.port.tx(batch.frames()).sent;
            next += BEAT;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }
}

/// Returns UDP frames of inside hosts, each of another flow.
fn generator() -> Result<Generator, String> {
    let one = Flows {
        count: 1,
        order: Order::InTurn,
    };
    let usual = Generator::new(vec![Template::udp4()], one, &Sizes::OfTemplates, 1);
    let mut frame = Frame::new();
    usual.map_err(|error| error.to_string())?.make(&mut frame);
    let values = |first, count| Values::From { first, count };
    let template = Template::new(frame.bytes().to_vec())
        .vary(26, 4, values(INSIDE, HOSTS))
        .vary(30, 4, values(OUTSIDE, 1))
        .vary(34, 2, values(1024, PORTS));
    let flows = Flows {
        count: (HOSTS * PORTS) as usize,
        order: Order::InTurn,
    };
    Generator::new(vec![template], flows, &Sizes::OfTemplates, 1).map_err(|e| e.to_string())
}
