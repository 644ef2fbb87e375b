//! Figure 15: throughput and delay of policies 1 to 7: the chain alone, in virtual data planes,
//! and as entries of the P4 hypervisor.

use std::sync::Arc;

use bench::OnWorker;
use bench::measure::{Plan, Side};
use bench::tenants::{Entry, ShardableWorkload};
use packet::Batch;
use runtime::tenancy_host::ROUND;
use serde::Serialize;
use support::tsc_clock::Clock;
use switch::Device;

use super::emitted::{self, Emitted};
use super::plot::{self, Axes, Bars};
use super::policy;
use super::{Figure, Hypervdp, More, Picture, Progress, Row, cell, head};

/// Number of policies in figure 14(b).
const POLICIES: u32 = 7;

/// The paper's results for HyperVDP on BMv2 (section V-C), as ranges over all policies: the
/// remaining share of the throughput, and the growth of the delay. The bounds of the delay are
/// those of Pol. 1 and Pol. 7.
const PAPER_THROUGHPUT: (f64, f64) = (1.0 - 0.703, 1.0 - 0.346);
const PAPER_DELAY: (f64, f64) = (1.274, 1.410);

/// Result for one policy.
#[derive(Serialize)]
pub(super) struct Policy {
    /// Latency of a packet of the chain alone, at a tenth of its maximum rate.
    native_p50_us: f64,
    native_p99_us: f64,
    /// Latency in virtual data planes relative to the chain alone: median over pairs of runs of
    /// the ratio of their medians.
    delay_ratio: f64,
    /// The same at half of the maximum rate, with the latencies in virtual data planes.
    half_native_p50_us: f64,
    half_p50_us: f64,
    half_p99_us: f64,
    half_delay_ratio: f64,
    /// Rates on the interpreter: of the chain alone, and as entries of the P4 hypervisor.
    interpreted_mpps: Option<f64>,
    emitted_mpps: Option<f64>,
    emitted_ratio: Option<f64>,
    paper_ratio_least: f64,
    paper_ratio_most: f64,
    paper_delay_ratio_least: f64,
    paper_delay_ratio_most: f64,
}

/// Burst size for the interpreter. Large bursts would take it too long.
const SHORT: usize = Batch::DEFAULT;

/// Runs the measurement.
///
/// # Errors
/// A policy refuses its entries, or the P4 hypervisor cannot express it.
pub(super) fn measure(options: &Hypervdp) -> Result<Figure, String> {
    let plan = options.plan()?;
    let short = Plan {
        burst: SHORT,
        ..plan
    };
    let hypervisor = Emitted::new()?;
    let mut progress = Progress::new();
    let mut rows = Vec::new();
    for number in 1..=POLICIES {
        let policy = policy::Policy::new(number)?;
        let name = format!("figure 15, {}", policy.name());
        let named = |why: String| format!("{name}: {why}");
        let sides = sides(&policy, &hypervisor).map_err(named)?;
        let interpreted = interpreted(sides, &policy, &short, &mut |share| {
            progress.tell(&name, share)
        });
        // These rates do not depend on the number of vPDPs, so only the first row has them.
        let mut interpreted = Some(interpreted.map_err(named)?);
        for vpdps in &options.vpdps {
            let name = format!("{name}, vPDPs: {vpdps}");
            let hosted = hosted(&policy, *vpdps, options, &plan, &mut |share| {
                progress.tell(&name, share)
            });
            rows.push(
                hosted
                    .map_err(named)?
                    .row(policy.name(), interpreted.take()),
            );
        }
    }
    drop(progress);
    let words = [
        "policy",
        "vPDPs",
        "native Mpps",
        "vPDPs Mpps",
        "ratio",
        "p50 us",
        "p99 us",
        "delay ratio",
        "p50 us at half",
        "delay ratio",
        "interp Mpps",
        "emitted Mpps",
    ];
    let mut table = vec![head(&words)];
    table.extend(rows.iter().filter_map(line));
    Ok(Figure {
        title: "Figure 15: throughput and delay of policies",
        table,
        note: note(),
        pictures: pictures(&rows, &options.vpdps)?,
        rows,
    })
}

fn note() -> String {
    let (least, most) = PAPER_THROUGHPUT;
    let (short, long) = PAPER_DELAY;
    format!(
        "Here: one core, packets of 64 bytes in memory, rounds of {ROUND}, as many as a worker of `polyplane host` takes at once, \
         whole ports that are full; p50 and p99 are times of a packet, alone / in vPDPs, that come in any order at a tenth \
         of the rate that the program alone carries, and the delay ratio is the median over pairs of runs; \"at half\" is the same at half of that rate. \"interp\" and \"emitted\" are the \
         chain and the same as entries of the emitted hypervisor, both on the interpreter, in bursts of {SHORT}.\n\
         The paper (on BMv2): ratios of throughput {least:.3} to {most:.3}, of delay {short:.3} (Pol. 1) to {long:.3} (Pol. 7); it gives no numbers for \
         each policy in words."
    )
}

/// Result for virtual data planes.
struct Hosted {
    vpdps: u32,
    report: bench::tenants::TenantsReport,
}

fn hosted(
    policy: &policy::Policy,
    vpdps: u32,
    options: &Hypervdp,
    plan: &Plan,
    tell: &mut (dyn FnMut(f64) + Send),
) -> Result<Hosted, String> {
    let engine = Arc::from(options.choice.engine());
    let report = policy.measure(engine, vpdps as usize, Entry::Whole, plan, tell)?;
    Ok(Hosted { vpdps, report })
}

impl Hosted {
    /// Returns the row, with the rates of the chain and the P4 hypervisor on the interpreter.
    fn row(&self, policy: &str, interpreted: Option<(f64, f64)>) -> Row {
        let (latencies, half) = (self.report.latencies, self.report.at_half);
        let more = Policy {
            native_p50_us: latencies.first.p50,
            native_p99_us: latencies.first.p99,
            delay_ratio: latencies.ratio,
            half_native_p50_us: half.first.p50,
            half_p50_us: half.second.p50,
            half_p99_us: half.second.p99,
            half_delay_ratio: half.ratio,
            interpreted_mpps: interpreted.map(|(native, _)| native),
            emitted_mpps: interpreted.map(|(_, emitted)| emitted),
            emitted_ratio: interpreted.map(|(native, emitted)| emitted / native),
            paper_ratio_least: PAPER_THROUGHPUT.0,
            paper_ratio_most: PAPER_THROUGHPUT.1,
            paper_delay_ratio_least: PAPER_DELAY.0,
            paper_delay_ratio_most: PAPER_DELAY.1,
        };
        Row::measured("15", policy, self.vpdps, &self.report, More::Policy(more))
    }
}

/// Returns the chain and the P4 hypervisor that hosts it, with the same table contents.
fn sides(policy: &policy::Policy, hypervisor: &Emitted) -> Result<[Device; 2], String> {
    let (program, updates) = (policy.program(), policy.updates()?);
    Ok([
        emitted::with_updates(program, &updates)?,
        hypervisor.host(program, &updates)?,
    ])
}

/// Returns the rates of both, in million packets per second.
fn interpreted(
    mut devices: [Device; 2],
    policy: &policy::Policy,
    plan: &Plan,
    tell: &mut (dyn FnMut(f64) + Send),
) -> Result<(f64, f64), String> {
    let workers = devices.iter_mut().map(|device| device.workers(1));
    let sides = workers
        .flatten()
        .zip(["the chain", "the emitted hypervisor"]);
    let sides = sides.map(|(worker, name)| Side {
        name: name.to_owned(),
        forward: Box::new(OnWorker(worker)),
    });
    let mut sides = [sides.collect()];
    let measured = bench::measure::measure(&mut sides, policy, plan, &Clock::new(), tell);
    measured.iter().try_for_each(policy::check_all_sent)?;
    match &measured[..] {
        [native, emitted] => Ok((native.mpps, emitted.mpps)),
        _ => Err("there is no worker".to_owned()),
    }
}

fn policy_of(row: &Row) -> Option<&Policy> {
    match &row.more {
        More::Policy(policy) => Some(policy),
        _ => None,
    }
}

fn line(row: &Row) -> Option<Vec<String>> {
    let more = policy_of(row)?;
    let two = |value: f64| format!("{value:.2}");
    let both =
        |native: f64, vpdps: Option<f64>| format!("{native:.2} / {:.2}", vpdps.unwrap_or(f64::NAN));
    Some(vec![
        row.policy.clone(),
        cell(row.vpdps),
        cell(row.native_mpps.map(two)),
        cell(row.vpdp_mpps.map(two)),
        cell(row.ratio.map(two)),
        both(more.native_p50_us, row.p50_us),
        both(more.native_p99_us, row.p99_us),
        two(more.delay_ratio),
        both(more.half_native_p50_us, Some(more.half_p50_us)),
        two(more.half_delay_ratio),
        cell(more.interpreted_mpps.map(|mpps| format!("{mpps:.3}"))),
        cell(more.emitted_mpps.map(|mpps| format!("{mpps:.4}"))),
    ])
}

/// Draws delay and throughput for the smallest number of vPDPs, each relative to the program
/// alone. Absolute rates of BMv2 and of this machine are not comparable.
fn pictures(rows: &[Row], vpdps: &[u32]) -> Result<Vec<Picture>, String> {
    let fewest = vpdps.iter().min().copied();
    let rows: Vec<&Row> = rows.iter().filter(|row| row.vpdps == fewest).collect();
    let groups: Vec<String> = rows.iter().map(|row| row.policy.clone()).collect();
    let of = |value: fn(&Row, &Policy) -> Option<f64>| {
        let values = rows
            .iter()
            .map(|row| policy_of(row).and_then(|more| value(row, more)));
        values.collect::<Vec<_>>()
    };
    let constant = |value: f64| vec![Some(value); rows.len()];
    let kind = |name, colour, values| Bars {
        name,
        colour,
        values,
    };
    let delay = [
        kind("vPDP", plot::HERE, of(|_, more| Some(more.delay_ratio))),
        kind("HyperVDP, least", plot::PAPER, constant(PAPER_DELAY.0)),
        kind("HyperVDP, most", plot::OTHER, constant(PAPER_DELAY.1)),
    ];
    let throughput = [
        kind("vPDP", plot::HERE, of(|row, _| row.ratio)),
        kind(
            "emitted hypervisor",
            plot::NATIVE,
            of(|_, more| more.emitted_ratio),
        ),
        kind("HyperVDP, least", plot::OTHER, constant(PAPER_THROUGHPUT.0)),
        kind("HyperVDP, most", plot::PAPER, constant(PAPER_THROUGHPUT.1)),
    ];
    let axes = |caption| Axes {
        caption,
        x: "",
        y: "of native",
    };
    Ok(vec![
        Picture {
            file: "figure15a.svg",
            svg: plot::bars(&axes("Delay, of the program alone"), &groups, &delay)?,
        },
        Picture {
            file: "figure15b.svg",
            svg: plot::bars(
                &axes("Throughput, of the program alone"),
                &groups,
                &throughput,
            )?,
        },
    ])
}
