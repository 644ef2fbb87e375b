//! Monitors, permissions and measurements in words and as JSON.

use ::reflex::{
    BurstFlows, ChangeSpec, Compare, ElementIndex, LatencyMeasure, Loops, Measured, MonitorKind,
    ReflexSpec, Setting,
};
use packet::Nanos;
use serde::Serialize;
use support::amount;

/// Measurement of a decision as JSON: the keys of its monitor's kind. Times are nanoseconds, rates
/// bytes a second.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ShownMeasured {
    Latency {
        latency: u64,
        average: u64,
    },
    Peers {
        peers: u32,
        peer_limit: u32,
    },
    Revisit {
        revisited: u32,
    },
    TimeToLive {
        ttl_drop_reason: u8,
    },
    Rate {
        rate: u64,
        rate_limit: u64,
        share: u64,
    },
    Queueing {
        delay: u64,
        objective: u64,
        mean_bytes: u32,
    },
    Burst {
        queue_node: u32,
        queue_port: u32,
        queue_bytes: u64,
        flow_bytes: u64,
    },
    ByProgram {
        measured: u64,
        limit: u64,
    },
}

impl ShownMeasured {
    pub(super) fn new(measured: &Measured) -> ShownMeasured {
        match *measured {
            Measured::Latency { latency, average } => ShownMeasured::Latency {
                latency: latency.0,
                average: average.0,
            },
            Measured::Peers { peers, limit } => ShownMeasured::Peers {
                peers,
                peer_limit: limit,
            },
            Measured::Revisit(node) => ShownMeasured::Revisit { revisited: node.0 },
            Measured::TimeToLive(reason) => ShownMeasured::TimeToLive {
                ttl_drop_reason: reason,
            },
            Measured::Rate { rate, limit, share } => ShownMeasured::Rate {
                rate,
                rate_limit: limit,
                share,
            },
            Measured::Queueing {
                delay,
                objective,
                mean_bytes,
            } => ShownMeasured::Queueing {
                delay: delay.0,
                objective: objective.0,
                mean_bytes,
            },
            Measured::Burst {
                node,
                port,
                bytes,
                flow_bytes,
            } => ShownMeasured::Burst {
                queue_node: node.0,
                queue_port: port,
                queue_bytes: bytes,
                flow_bytes,
            },
            Measured::ByProgram { measured, limit } => ShownMeasured::ByProgram { measured, limit },
        }
    }
}

/// Returns a measurement in words.
pub(super) fn measured(measured: &Measured) -> String {
    match *measured {
        Measured::Latency { latency, average } => {
            format!("{}, average {}", time(latency), time(average))
        }
        Measured::Peers { peers, limit } => format!("{peers} peers, limit {limit}"),
        Measured::Revisit(node) => format!("node {node} twice"),
        Measured::TimeToLive(reason) => format!("time to live ended, reason {reason}"),
        Measured::Rate { rate, limit, share } => format!(
            "{}, limit {}, share {}",
            byte_rate(rate),
            byte_rate(limit),
            byte_rate(share)
        ),
        Measured::Queueing {
            delay,
            objective,
            mean_bytes,
        } => format!(
            "{} of packets of {mean_bytes} bytes, objective {}",
            time(delay),
            time(objective)
        ),
        Measured::Burst {
            node,
            port,
            bytes,
            flow_bytes,
        } => format!(
            "{} of {} in the queue of node {node}, port {port}",
            amount::bytes(flow_bytes),
            amount::bytes(bytes)
        ),
        Measured::ByProgram { measured, limit } => format!("{measured}, limit {limit}"),
    }
}

/// Returns the content of a change in words.
pub(super) fn setting(setting: Setting) -> String {
    match setting {
        Setting::Action(Some(port)) => format!("port {port}"),
        Setting::Action(None) => "entry".to_owned(),
        Setting::Rate(rate) => byte_rate(rate),
        Setting::Value(value) => format!("value {value}"),
    }
}

/// Returns what a monitor looks for.
pub(super) fn kind(kind: &MonitorKind) -> String {
    match kind {
        MonitorKind::PathLatency(spec) => {
            let measure = match spec.measure {
                LatencyMeasure::Hops => "times in nodes",
                LatencyMeasure::EqualClocks => "time from the first node to the last",
            };
            let than = match spec.compare {
                Compare::Above => "above",
                Compare::Paper => "from",
            };
            let (above, window) = (time(spec.above), spec.window);
            format!("{measure} more than {above} {than} the average of {window}")
        }
        MonitorKind::Spreader(spec) => format!(
            "hosts with more than {} peers in {}",
            spec.limit,
            time(spec.window)
        ),
        MonitorKind::Loops(_) => "packets that visit a node twice".to_owned(),
        MonitorKind::RateLimit(spec) => format!(
            "max-min fair shares of {}, measured over {}",
            byte_rate(spec.limit),
            time(spec.every)
        ),
        MonitorKind::Tuning(spec) => format!(
            "queueing of node {}, port {}, of {} at most for 99 of 100 packets, every {}",
            spec.node,
            spec.port,
            time(spec.objective),
            time(spec.every)
        ),
        MonitorKind::Program(spec) => {
            let entries = spec.entries.as_ref();
            let entries = entries.map(|entries| format!(" with {}", entries.display()));
            let (program, entries) = (spec.program.display(), entries.unwrap_or_default());
            format!("what the P4 program {program}{entries} finds")
        }
        MonitorKind::Microburst(spec) => {
            let flows = match spec.flows {
                BurstFlows::Victims => "victims",
                BurstFlows::Culprits => "culprits",
            };
            let (above, share) = (amount::bytes(spec.above), spec.share / 10);
            format!("{flows} of bursts above {above}, entitled to {share} % of a queue")
        }
    }
}

/// Returns a permission in words.
pub(super) fn reflex(reflex: &ReflexSpec, loops: &Loops) -> String {
    let ElementIndex(element) = reflex.element;
    let element = &loops.elements[element].name;
    let change = match &reflex.change {
        ChangeSpec::Entry(entry) => {
            let ports: Vec<String> = entry.ports.iter().map(ToString::to_string).collect();
            let ports = match &ports[..] {
                [] => String::new(),
                ports => format!(", ports {}", ports.join(", ")),
            };
            let prefixes = entry.prefixes.iter();
            let prefixes = prefixes.map(|(address, length)| format!("{address}/{length}"));
            let prefixes: Vec<String> = prefixes.collect();
            let prefixes = match &prefixes[..] {
                [] => String::new(),
                prefixes => format!(", prefixes {}", prefixes.join(", ")),
            };
            let meter = entry
                .meter
                .map(|(rate, _)| format!(", each at {}", byte_rate(rate)));
            let meter = meter.unwrap_or_default();
            let (action, table, entries) = (&entry.action, &entry.table, reflex.entries);
            let replace = match entry.replace {
                true => ", also entries of others",
                false => "",
            };
            format!(
                "{action} of {table} in {element}{ports}{prefixes}{meter}, at most {entries} entries{replace}"
            )
        }
        ChangeSpec::Meter { name, cell, burst } => format!(
            "rate of {name}, cell {cell}, in {element}, bursts of {}",
            amount::bytes(*burst)
        ),
        ChangeSpec::Queue(port) => format!("room of the queue of port {port} in {element}"),
        ChangeSpec::Register { name, cell } => format!("{name}, cell {cell}, in {element}"),
    };
    let life = reflex
        .life
        .map(|life| format!(", restored after {}", time(life)));
    format!(
        "{change}, {} changes a second, one of a place in {}{}",
        reflex.rate,
        time(reflex.hold),
        life.unwrap_or_default()
    )
}

pub(super) fn time(time: Nanos) -> String {
    amount::time(time.into())
}

fn byte_rate(bytes: u64) -> String {
    amount::bit_rate(bytes as f64 * 8.0)
}
