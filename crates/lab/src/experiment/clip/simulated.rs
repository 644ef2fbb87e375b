//! Simulation of flows through a switch and servers with one placement policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bench::split::ports::{FIRST_PORT, PROGRAM};
use command::engine::Choice;
use exec::Engine;
use fabric::topology::SwitchId;
use fabric::topology::{PlaneSpec, SplitSpec, SwitchSpec};
use fabric::{LatencyReport, Node, ServerReport, Simulation, SplitFabric, Topology};
use packet::Nanos;
use passes::split::{SplitOptions, split};
use placement::{Nesting, Policy};

/// Number of flows.
pub(super) const FLOWS: u32 = 10_000;

/// Bytes of a key.
pub(super) const KEY_BYTES: f64 = 2.0;

/// Packets of a window.
const WINDOW: u64 = 10_000;

/// Time between packets: a worker serves the most frequent flow, and those that share it.
const INTERVAL_NS: u64 = 4000;

/// Kind of the table's key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// Each flow has an entry.
    Exact,
    /// Of four flows side by side, three have a prefix of their own inside one for all four.
    Prefixes(Nesting),
}

impl Keys {
    pub(super) fn name(self) -> &'static str {
        match self {
            Keys::Exact => "exact",
            Keys::Prefixes(Nesting::Leaf) => "lpm, leaf",
            Keys::Prefixes(Nesting::Dependents) => "lpm, dependents",
            Keys::Prefixes(Nesting::Cover) => "lpm, cover",
        }
    }

    /// Returns the entry of a flow.
    fn entry(self, port: u32) -> String {
        match self {
            Keys::Exact => format!("ports {{ hdr.udp.src: {port}; }} -> to_port(1)\n"),
            Keys::Prefixes(_) if port % 4 == 3 => {
                format!("ports {{ hdr.udp.src: {}/14; }} -> to_port(1)\n", port - 3)
            }
            Keys::Prefixes(_) => format!("ports {{ hdr.udp.src: {port}/16; }} -> to_port(1)\n"),
        }
    }
}

/// One row's setting.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) keys: Keys,
    pub(super) policy: Policy,
    pub(super) alpha: f64,
    pub(super) flows: u32,
    pub(super) top: u64,
    pub(super) packets: u64,
}

/// Results of one simulation. Latencies and shares are those of the second half of the packets.
pub(super) struct Outcome {
    pub(super) share_percent: f64,
    /// Share of the most frequent flows by their probabilities.
    pub(super) exact_share_percent: f64,
    /// Mean number of keys that the switch reports in a window.
    pub(super) reports_in_window: f64,
    /// Least and most reports of a window, from the tenth on.
    pub(super) late_reports: (u64, u64),
    pub(super) moves: u64,
    /// Packets a second of the stream, and the fraction of time in which each server works.
    offered_mpps: f64,
    loads: Vec<f64>,
    /// Requests of each server for each packet.
    server_shares: Vec<f64>,
    pub(super) mean_us: f64,
    /// Mean with the most frequent flows in the switch and no queue.
    pub(super) exact_mean_us: f64,
    pub(super) deviation_us: f64,
    pub(super) p90_us: f64,
    pub(super) below_8_us_percent: f64,
    pub(super) reordered: u64,
    pub(super) lost: u64,
    /// Times in microseconds.
    pub(super) times: Vec<f64>,
}

/// Rates of switch and servers when one server is full, in Mpps.
pub(super) struct Saturated {
    pub(super) switch: f64,
    pub(super) servers: [f64; 2],
}

impl Saturated {
    pub(super) fn all(&self) -> f64 {
        self.switch + self.servers.iter().sum::<f64>()
    }
}

impl Outcome {
    /// Returns the rates at which the busier server is full.
    pub(super) fn saturated(&self) -> Saturated {
        let load = self.loads.iter().copied().fold(1e-9, f64::max);
        let offered = self.offered_mpps / load;
        let server = |at: usize| offered * self.server_shares.get(at).copied().unwrap_or(0.0);
        let servers = [server(0), server(1)];
        Saturated {
            switch: (offered - servers[0] - servers[1]).max(0.0),
            servers,
        }
    }
}

/// Simulates a case. `stop` ends it early.
///
/// # Errors
/// The topology cannot run, or it was stopped.
pub(super) fn run(case: &Case, choice: Choice, stop: &AtomicBool) -> Result<Outcome, String> {
    let text = topology(case);
    let topology = Topology::read("clip", &text, std::path::Path::new(""));
    let topology = topology.map_err(|error| error.to_string())?;
    let made = Simulation::new(topology, &mut |spec| node(spec, case, choice));
    let mut simulation = made.map_err(|error| error.to_string())?;
    let end = Nanos::from_secs(100_000);
    // Reports at the end of each window, and what servers had done at half time.
    let half = Nanos(case.packets / 2 * INTERVAL_NS);
    let mut reports: Vec<u64> = Vec::new();
    let mut at_half = None;
    let ran = simulation.run(end, &mut |simulation| {
        let now = simulation.now();
        let window = (now.0 / (WINDOW * INTERVAL_NS)) as usize;
        if reports.len() <= window {
            let counted = simulation.split_counts(SwitchId(0));
            reports.resize(window + 1, counted.map_or(0, |counts| counts.reports));
        }
        if at_half.is_none() && now >= half {
            at_half = Some(simulation.report());
        }
        !stop.load(Relaxed)
    });
    ran.map_err(|error| error.to_string())?;
    if stop.load(Relaxed) {
        return Err("the simulation was stopped".to_owned());
    }
    let unbalanced = simulation.check_conservation();
    unbalanced.map_err(|unbalanced| unbalanced.to_string())?;
    let report = simulation.report();
    let times = simulation.latencies(0);
    let times = &times[times.len() / 2..];
    let latency = LatencyReport::new(times).ok_or("no packet arrived")?;
    // A packet of the switch alone takes two links; the shortest way over a server takes four.
    let share_below = |us: f64| {
        let below = times.iter().filter(|time| f64::from(**time) < us * 1e3);
        below.count() as f64 / times.len() as f64 * 100.0
    };
    let split = report.switches[0]
        .split
        .ok_or("the switch has no program")?;
    let stream = &report.streams[0];
    let windows = (case.packets as f64 / WINDOW as f64).max(1.0);
    let late = reports.windows(2).map(|pair| pair[1] - pair[0]).skip(10);
    let late: Vec<u64> = late.take((windows as usize).saturating_sub(12)).collect();
    let at_half = at_half.unwrap_or_else(|| report.clone());
    let seconds = report.seconds - at_half.seconds;
    let packets = (case.packets - case.packets / 2) as f64;
    let pairs = || report.servers.iter().zip(&at_half.servers);
    let load = |(end, half): (&ServerReport, &ServerReport)| {
        (end.load * report.seconds - half.load * at_half.seconds) / seconds.max(1e-9)
    };
    let share = |(end, half): (&ServerReport, &ServerReport)| {
        (end.requests - half.requests) as f64 / packets.max(1.0)
    };
    Ok(Outcome {
        share_percent: share_below(4.0),
        exact_share_percent: exact_share(case),
        reports_in_window: split.counts.reports as f64 / windows,
        late_reports: (
            late.iter().copied().min().unwrap_or(0),
            late.iter().copied().max().unwrap_or(0),
        ),
        moves: split.counts.moves,
        offered_mpps: 1e3 / INTERVAL_NS as f64,
        loads: pairs().map(load).collect(),
        server_shares: pairs().map(share).collect(),
        mean_us: latency.mean_us,
        exact_mean_us: 2.0 + 11.0 * (1.0 - exact_share(case) / 100.0),
        deviation_us: latency.deviation_us,
        p90_us: latency.p90_us,
        below_8_us_percent: share_below(8.0),
        reordered: stream.reordered,
        lost: stream.sent - stream.received,
        times: times.iter().map(|time| f64::from(*time) / 1e3).collect(),
    })
}

/// Returns the share of packets of the most frequent flows, in percent.
fn exact_share(case: &Case) -> f64 {
    let weight = |rank: u32| f64::from(rank).powf(-case.alpha);
    let all: f64 = (1..=case.flows).map(weight).sum();
    let top: f64 = (1..=case.flows.min(case.top as u32)).map(weight).sum();
    top / all * 100.0
}

fn topology(case: &Case) -> String {
    let Case {
        keys,
        policy,
        alpha,
        flows,
        top,
        packets,
    } = case;
    let lpm = match keys {
        Keys::Prefixes(nesting) => *nesting,
        Keys::Exact => Nesting::default(),
    };
    let server = |name: &str, port: u32| {
        format!(
            "[[server]]\nname = \"{name}\"\nworkers = 8\nservice = \"9 us\"\nbacklog = 100000\n\
             [[link]]\nends = [\"{name}\", \"s:{port}\"]\n"
        )
    };
    format!(
        "seed = 1\n[split]\nprogram = \"flows.p4\"\ninstall = \"1.5 ms\"\nplacement = \"{}\"\n\
         top = {top}\nwindow = \"{} ns\"\nsketch = \"16384x2\"\nk = {:.3}\n\
         lpm = \"{}\"\n[defaults.link]\ndelay = \"1 us\"\nqueue = 100000\n[[switch]]\nname = \"s\"\n{}{}\
         [[host]]\nname = \"a\"\nmac = \"02:00:00:00:00:0a\"\nip = \"10.0.0.1/24\"\n\
         neighbours = {{ \"10.0.0.2\" = \"02:00:00:00:00:0b\" }}\n\
         [[host]]\nname = \"b\"\nmac = \"02:00:00:00:00:0b\"\nip = \"10.0.0.2/24\"\n\
         [[link]]\nends = [\"a\", \"s:0\"]\n[[link]]\nends = [\"b\", \"s:1\"]\n\
         [[traffic]]\nfrom = \"a\"\nto = \"b\"\npackets = {packets}\ninterval = \"{INTERVAL_NS} ns\"\n\
         flows = {flows}\nalpha = {alpha:?}\n",
        policy.name(),
        WINDOW * INTERVAL_NS,
        // The paper's factor; it must be positive.
        (2.0 * alpha).max(0.1),
        lpm.name(),
        server("server0", 10),
        server("server1", 11),
    )
}

fn node(spec: &SwitchSpec, case: &Case, choice: Choice) -> Result<Box<dyn Node>, String> {
    let PlaneSpec::Split(split) = &spec.plane else {
        return Err("it has no split program".to_owned());
    };
    let fabric = planes(split, case, choice)?;
    let node = fabric.into_node(split, spec.service);
    node.map_err(|error| error.to_string())
}

fn planes(spec: &SplitSpec, case: &Case, choice: Choice) -> Result<SplitFabric, String> {
    let text = match case.keys {
        Keys::Exact => PROGRAM.to_owned(),
        Keys::Prefixes(_) => PROGRAM.replace("src : exact", "src : lpm"),
    };
    let program = driver::compile_text("flows.p4", &text)?;
    let options = SplitOptions::default();
    let program = split(&program, &options).map_err(|error| error.to_string())?;
    let mut engine = |_: Option<u16>| -> Box<dyn Engine> { choice.engine_before_packets() };
    let fabric = SplitFabric::new(&program, spec, options.request_port, 1, &mut engine);
    let mut fabric = fabric.map_err(|error| error.to_string())?;
    let whole = fabric.coordinator_mut().whole_mut();
    let ports = FIRST_PORT..FIRST_PORT + case.flows;
    let text: String = ports.map(|port| case.keys.entry(port)).collect();
    let program = Arc::clone(whole.program());
    let entries = entries::read(&program, "flows.entries", &text);
    let entries = entries.map_err(|errors| errors[0].to_string())?;
    apply_entries::apply_file(whole, &entries).map_err(|error| error.to_string())?;
    Ok(fabric)
}
