//! Measures virtual data planes against the same program alone.

use std::sync::Arc;
use std::time::Duration;

use bench::arrival::Arrival;
use bench::io::Cables;
use bench::latency::{Latencies, Wires};
use bench::measure::Plan;
use bench::tenants::{Entry, ShardableWorkload, Tenants, TenantsReport};
use bench::workloads::{self, Size};
use command::Ended;
use interp::Interp;
use jit::Jit;
use runtime::tenancy_host::ROUND;
use serde::Serialize;
use terminal::live::{LiveLine, bar};
use terminal::out;

use super::{BenchOptions, Order, report};

/// Row of the result table; times in microseconds. Latencies are of packets in memory at a tenth
/// and at half of the rate that the program alone reaches, and of packets from wire to wire.
#[derive(Serialize)]
struct Row {
    policy: String,
    entry: &'static str,
    arrival: &'static str,
    vpdps: usize,
    native_mpps: f64,
    vpdp_mpps: f64,
    ratio: f64,
    native_cycles: f64,
    vpdp_cycles: f64,
    #[serde(flatten)]
    times: Times,
    at_half: Times,
    /// `None` if this machine has no virtual wires: they need root, or the right to create a user
    /// namespace.
    over_wires: Option<Times>,
}

/// Latencies of packets, alone and in vPDPs.
#[derive(Serialize)]
struct Times {
    native_p50_us: f64,
    native_p99_us: f64,
    p50_us: f64,
    p99_us: f64,
    p50_ratio: f64,
}

impl Times {
    fn new(latencies: &Latencies) -> Times {
        let (native, hosted) = (latencies.first, latencies.second);
        Times {
            native_p50_us: native.p50,
            native_p99_us: native.p99,
            p50_us: hosted.p50,
            p99_us: hosted.p99,
            p50_ratio: latencies.ratio,
        }
    }
}

impl Row {
    fn new(
        policy: &str,
        (entry, arrival): (Entry, Arrival),
        vpdps: usize,
        report: &TenantsReport,
    ) -> Row {
        let (native, hosted) = report.middle;
        Row {
            policy: policy.to_owned(),
            entry: entry.name(),
            arrival: arrival.name(),
            vpdps,
            native_mpps: native.mpps,
            vpdp_mpps: hosted.mpps,
            ratio: report.ratio(),
            native_cycles: native.ticks_per_packet,
            vpdp_cycles: hosted.ticks_per_packet,
            times: Times::new(&report.latencies),
            at_half: Times::new(&report.at_half),
            over_wires: report.over_wires.as_ref().map(Times::new),
        }
    }

    fn cells(&self) -> Vec<String> {
        let wires = |cell: &dyn Fn(&Times) -> String| {
            let wires = self.over_wires.as_ref();
            wires.map_or_else(String::new, cell)
        };
        let (times, half) = (&self.times, &self.at_half);
        vec![
            self.policy.clone(),
            self.entry.to_owned(),
            self.arrival.to_owned(),
            self.vpdps.to_string(),
            format!("{:.2}", self.native_mpps),
            format!("{:.2}", self.vpdp_mpps),
            format!("{:.3}", self.ratio),
            format!("{:.1}", self.vpdp_cycles - self.native_cycles),
            format!("{:.2} / {:.2}", times.native_p50_us, times.p50_us),
            format!("{:.3}", times.p50_ratio),
            format!("{:.1} / {:.1}", times.native_p99_us, times.p99_us),
            format!("{:.1} / {:.1}", half.native_p50_us, half.p50_us),
            format!("{:.3}", half.p50_ratio),
            format!("{:.1} / {:.1}", half.native_p99_us, half.p99_us),
            wires(&|wires| format!("{:.1} / {:.1}", wires.native_p50_us, wires.p50_us)),
            wires(&|wires| format!("{:.3}", wires.p50_ratio)),
            wires(&|wires| format!("{:.1} / {:.1}", wires.native_p99_us, wires.p99_us)),
        ]
    }
}

const HEAD: [&str; 17] = [
    "program",
    "entry",
    "arrival",
    "vPDPs",
    "alone Mpps",
    "vPDPs Mpps",
    "ratio",
    "cycles more",
    "p50 us",
    "p50 ratio",
    "p99 us",
    "half p50 us",
    "p50 ratio",
    "p99 us",
    "wires p50 us",
    "p50 ratio",
    "p99 us",
];

/// Returns the combinations to measure for each number of vPDPs: all ingress classifications with
/// these arrival orders. By default packets arrive mixed, and for ports of one vPDP also from
/// queues.
fn ways(arrivals: &[Order]) -> Vec<(Entry, Arrival)> {
    let is_measured = |entry: Entry, arrival: Arrival| match arrivals {
        [] => arrival == Arrival::Mixed || entry == Entry::Whole,
        said => said.iter().any(|order| order.arrival() == arrival),
    };
    let orders = [Arrival::Mixed, Arrival::Queues];
    let of = |entry| {
        let measured = orders.into_iter().filter(move |&it| is_measured(entry, it));
        measured.map(move |arrival| (entry, arrival))
    };
    Entry::ALL.into_iter().flat_map(of).collect()
}

/// Measures a function in these combinations with `vpdps` vPDPs.
fn measure(
    function: &dyn ShardableWorkload,
    ways: &[(Entry, Arrival)],
    vpdps: usize,
    plan: &Plan,
    mut wires: Option<&mut Cables>,
    line: &mut LiveLine,
) -> Result<Vec<Row>, String> {
    let program = driver::compile_steps(function.name(), &function.steps())?;
    let program = Arc::new(program);
    let rows = ways.iter().map(|&(entry, arrival)| {
        let tenants = Tenants {
            function,
            program: Arc::clone(&program),
            engine: Arc::new(Jit::new(Arc::new(Interp))),
            vpdps,
            entry,
            arrival,
        };
        let mut tell = |share: f64| {
            if line.is_due() {
                let done = bar((share * 100.0) as u64, 100, 20);
                let (name, entry) = (function.name(), entry.name());
                let arrival = arrival.name();
                line.show(&format!(
                    "{name} in {vpdps} vPDPs by {entry}, {arrival}: {done}"
                ));
            }
        };
        let wires = wires.as_deref_mut().map(|cables| cables as &mut dyn Wires);
        let measured = tenants.measure(plan, wires, &mut tell);
        let measured = measured.map_err(|error| error.to_string())?;
        Ok(Row::new(
            function.name(),
            (entry, arrival),
            vpdps,
            &measured,
        ))
    });
    rows.collect()
}

pub(super) fn run(options: &BenchOptions, time: Duration) -> Result<Ended, String> {
    let plan = Plan {
        time,
        burst: options.burst.map_or(ROUND, usize::from),
        seed: 1,
    };
    let mut cables = match Cables::open() {
        Ok(cables) => Some(cables),
        Err(error) => {
            out::note(&format!("latencies are not measured over wires: {error}"));
            None
        }
    };
    let ways = ways(&options.arrival);
    let mut line = LiveLine::new();
    let mut rows = Vec::new();
    for name in &options.policy {
        let function = workloads::divisible(name, Size::Full).ok_or_else(|| {
            let known: Vec<&str> = workloads::divisibles().collect();
            format!(
                "there is no policy \"{name}\": there are {}",
                known.join(", ")
            )
        })?;
        for vpdps in &options.vpdps {
            rows.extend(measure(
                &*function,
                &ways,
                *vpdps,
                &plan,
                cables.as_mut(),
                &mut line,
            )?);
        }
    }
    line.clear();
    report::show(options.json, HEAD, &rows, Row::cells);
    Ok(Ended::Well)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_that_is_said_is_measured_once_and_both_by_ports_if_none_is() {
        let (mixed, queues) = (Arrival::Mixed, Arrival::Queues);
        let both = ways(&[]);
        assert_eq!(both.len(), 4);
        assert!(both.contains(&(Entry::Whole, queues)));
        let twice = ways(&[Order::Mixed, Order::Mixed]);
        assert_eq!(twice, Entry::ALL.map(|entry| (entry, mixed)));
    }
}
