//! Simulation of flows through a switch and servers with one placement policy.

use std::sync::Arc;

use command::engine::Choice;
use command::topology::run_simulation;
use exec::Engine;
use fabric::topology::{PlaneSpec, SplitSpec, SwitchSpec};
use fabric::{LatencyReport, Node, Simulation, SplitFabric, Topology};
use packet::Nanos;
use passes::split::{SplitOptions, split};
use placement::{Nesting, Policy};
use port::Signal;
use serde::Serialize;

const PROGRAM: &str = include_str!("flows.p4");

/// First source port of the flows of a stream.
const FIRST_PORT: u32 = 1024;

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

/// Figures of one simulation. Latencies and shares are those of the second half of the packets.
#[derive(Serialize)]
pub(super) struct Outcome {
    pub(super) share_percent: f64,
    /// Share of the most frequent flows by their probabilities.
    pub(super) exact_share_percent: f64,
    /// Mean number of keys that the switch reports in a window.
    pub(super) reports_in_window: f64,
    moves: u64,
    /// Packets a second that the switch answers, and requests a second of each server.
    switch_mpps: f64,
    server_mpps: Vec<f64>,
    pub(super) mean_us: f64,
    /// Mean with the most frequent flows in the switch and no queue.
    exact_mean_us: f64,
    pub(super) deviation_us: f64,
    pub(super) p90_us: f64,
    pub(super) below_8_us_percent: f64,
    reordered: u64,
    lost: u64,
    dropped: u64,
}

/// Simulates a case.
///
/// # Errors
/// The topology cannot run, or a signal arrived.
pub(super) fn run(
    case: &Case,
    choice: Choice,
    take_signal: &dyn Fn() -> Option<Signal>,
) -> Result<Outcome, String> {
    let text = topology(case);
    let topology = Topology::read("clip", &text, std::path::Path::new(""));
    let topology = topology.map_err(|error| error.to_string())?;
    let made = Simulation::new(topology, &mut |spec| node(spec, case, choice));
    let mut simulation = made.map_err(|error| error.to_string())?;
    let end = Nanos::from_secs(100_000);
    if let (Some(signal), _) = run_simulation(&mut simulation, end, take_signal)? {
        return Err(format!("interrupted by {signal}"));
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
    let seconds = case.packets as f64 * INTERVAL_NS as f64 / 1e9;
    let windows = (case.packets as f64 / WINDOW as f64).max(1.0);
    let mpps = |packets: u64| packets as f64 / seconds / 1e6;
    Ok(Outcome {
        share_percent: share_below(4.0),
        exact_share_percent: exact_share(case),
        reports_in_window: split.counts.reports as f64 / windows,
        moves: split.counts.moves,
        switch_mpps: mpps(split.counts.in_switch),
        server_mpps: report.servers.iter().map(|s| mpps(s.requests)).collect(),
        mean_us: latency.mean_us,
        exact_mean_us: 2.0 + 11.0 * (1.0 - exact_share(case) / 100.0),
        deviation_us: latency.deviation_us,
        p90_us: latency.p90_us,
        below_8_us_percent: share_below(8.0),
        reordered: stream.reordered,
        lost: stream.sent - stream.received,
        dropped: report.dropped.iter().map(|drop| drop.packets).sum(),
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
        2.0 * alpha,
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
