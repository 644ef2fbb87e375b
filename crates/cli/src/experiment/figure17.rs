//! Figure 17: over the fat-tree, how long mice take and how fast elephants are: with programs, and with virtual data planes.

use std::path::Path;
use std::sync::Arc;

use bench::tenants::Entry;
use fabric::topology::FlowKind;
use fabric::{Distribution, Report, Simulation, Topology};
use packet::Nanos;
use serde::Serialize;

use super::plot::{self, Axes, Curve, Marks};
use super::policy::Policy;
use super::{Figure, Hypervdp, More, Picture, Progress, Row, head};
use crate::early::Early;
use crate::fabric::{Maker, watch};

/// Simulated time within which all flows are over, or something is wrong.
const LONGEST: Nanos = Nanos::from_secs(100_000);

/// What an edge switch has, and the longest of its compositions: what a packet costs in virtual data planes is measured with these.
const EDGE_VPDPS: usize = 4;
const EDGE_POLICY: u32 = 7;

/// A distribution over flows.
#[derive(Serialize)]
pub(super) struct Flows {
    /// What was measured, with its unit.
    measure: &'static str,
    /// How many flows.
    count: usize,
    p10: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    /// What a switch takes for a packet.
    service_us: f64,
    /// What the paper says of it.
    paper: &'static str,
}

/// One half of the figure.
struct Half {
    file: &'static str,
    measure: &'static str,
    axes: Axes,
    paper: &'static str,
    values: fn(&Report) -> Distribution,
    /// What the paper says in words, as points.
    hypervdp: &'static [(f64, f64)],
    hyper4: &'static [(f64, f64)],
}

const HALVES: [Half; 2] = [
    Half {
        file: "figure17a.svg",
        measure: "mice: completion time, s",
        axes: Axes {
            caption: "Completion time of mice",
            x: "s",
            y: "share of flows",
        },
        paper: "90 %: HyperVDP 0.085, Hyper4 0.515",
        values: |report| report.completion_times(FlowKind::Mouse),
        hypervdp: &[(0.085, 0.9)],
        hyper4: &[(0.085, 0.219), (0.515, 0.9)],
    },
    Half {
        file: "figure17b.svg",
        measure: "elephants: rate, Mbit/s",
        axes: Axes {
            caption: "Throughput of elephants",
            x: "Mbit/s",
            y: "share of flows",
        },
        paper: "10 %: native and HyperVDP 249; 90 %: HyperVDP 293, Hyper4 85",
        values: |report| {
            let rates = report.throughputs(FlowKind::Elephant);
            Distribution(rates.0.iter().map(|rate| rate * 1e-6).collect())
        },
        hypervdp: &[(249.0, 0.1), (293.0, 0.9)],
        hyper4: &[(85.0, 0.9)],
    },
];

/// A fabric that was simulated.
struct Simulated {
    name: &'static str,
    /// At most, at one switch.
    vpdps: u32,
    service: Nanos,
    report: Report,
}

/// Simulates the workload over both fabrics, draws both halves, and gives their rows.
///
/// # Errors
/// A topology is wrong, a signal came.
pub(super) fn measure(options: &Hypervdp, early: &Early) -> Result<Figure, String> {
    let cost = cost(options)?;
    let native = simulate("fat-tree, native", &options.fabric, 1.0, options, early)?;
    let vpdps = simulate(
        "fat-tree, vPDPs",
        &options.vpdp_fabric,
        cost,
        options,
        early,
    )?;
    let both = [native, vpdps];
    let mut rows = Vec::new();
    let mut pictures = Vec::new();
    for half in &HALVES {
        for simulated in &both {
            rows.push(row(half, simulated, cost)?);
        }
        pictures.push(picture(half, &both)?);
    }
    let words = [
        "fabric", "measure", "flows", "10 %", "50 %", "90 %", "99 %", "paper",
    ];
    let mut table = vec![head(&words)];
    table.extend(rows.iter().filter_map(line));
    Ok(Figure {
        title: "Figure 17: flows over the fat-tree of figure 16",
        rows,
        table,
        note: format!(
            "Simulated, elephants with {} of their bytes. A packet takes a switch of virtual data planes {cost:.2} times as long as one of programs, as \
             measured here before (Pol. {EDGE_POLICY}, {EDGE_VPDPS} vPDPs by rules). The paper's switches are BMv2 on servers.",
            options.scale
        ),
        pictures,
    })
}

/// How many times as long a packet takes in virtual data planes.
fn cost(options: &Hypervdp) -> Result<f64, String> {
    let policy = Policy::new(EDGE_POLICY)?;
    let mut progress = Progress::new();
    let mut tell = |share| progress.tell("figure 17, what a packet costs", share);
    let engine = Arc::from(options.choice.engine());
    let plan = options.plan()?;
    let report = policy.measure(engine, EDGE_VPDPS, Entry::Rules, &plan, &mut tell)?;
    Ok(1.0 / report.ratio())
}

fn simulate(
    name: &'static str,
    file: &Path,
    cost: f64,
    options: &Hypervdp,
    early: &Early,
) -> Result<Simulated, String> {
    let mut topology = crate::fabric::read(file)?;
    let Some(workload) = topology.workload else {
        let file = file.display();
        return Err(format!("{file} has no workload; add a [workload] section"));
    };
    topology.workload = Some(workload.scaled(options.scale));
    slow_down(&mut topology, cost);
    let vpdps = topology.switches.iter().map(|switch| switch.plane.vpdps());
    let vpdps = vpdps.max().unwrap_or(0) as u32;
    let service = topology.switches.iter().map(|switch| switch.service.time);
    let service = service.max().unwrap_or(Nanos::ZERO);
    let mut maker = Maker::new(options.choice, topology.seed);
    let simulation = Simulation::new(topology, &mut |spec| maker.make(spec));
    let mut simulation = simulation.map_err(|error| error.to_string())?;
    if let (Some(signal), _) = watch(&mut simulation, LONGEST, early)? {
        return Err(format!("interrupted by {signal}"));
    }
    let unbalanced = simulation.check_conservation();
    unbalanced.map_err(|unbalanced| unbalanced.to_string())?;
    Ok(Simulated {
        name,
        vpdps,
        service,
        report: simulation.report(),
    })
}

/// Has switches take so many times as long for a packet.
fn slow_down(topology: &mut Topology, cost: f64) {
    for switch in &mut topology.switches {
        let time = &mut switch.service.time;
        *time = Nanos((time.0 as f64 * cost).round() as u64);
    }
}

fn row(half: &Half, simulated: &Simulated, cost: f64) -> Result<Row, String> {
    let values = (half.values)(&simulated.report);
    let quantile = |share| {
        let value = values.quantile(share);
        value.ok_or_else(|| format!("{}: no flow is complete", half.measure))
    };
    let flows = Flows {
        measure: half.measure,
        count: values.0.len(),
        p10: quantile(0.1)?,
        p50: quantile(0.5)?,
        p90: quantile(0.9)?,
        p99: quantile(0.99)?,
        service_us: simulated.service.as_secs_f64() * 1e6,
        paper: half.paper,
    };
    Ok(Row {
        vpdps: Some(simulated.vpdps),
        ratio: (simulated.vpdps > 0).then_some(1.0 / cost),
        ..Row::new("17", simulated.name, More::Flows(flows))
    })
}

fn line(row: &Row) -> Option<Vec<String>> {
    let More::Flows(flows) = &row.more else {
        return None;
    };
    let three = |value: f64| format!("{value:.3}");
    Some(vec![
        row.policy.clone(),
        flows.measure.to_owned(),
        flows.count.to_string(),
        three(flows.p10),
        three(flows.p50),
        three(flows.p90),
        three(flows.p99),
        flows.paper.to_owned(),
    ])
}

fn picture(half: &Half, [native, vpdps]: &[Simulated; 2]) -> Result<Picture, String> {
    let steps = |simulated: &Simulated| (half.values)(&simulated.report).steps().collect();
    let curve = |name, colour, marks, points| Curve {
        marks,
        name,
        colour,
        points,
    };
    let mut curves = vec![
        curve("native", plot::NATIVE, Marks::Line, steps(native)),
        curve("vPDPs", plot::HERE, Marks::Line, steps(vpdps)),
    ];
    let papers = [
        ("HyperVDP", plot::PAPER, half.hypervdp),
        ("Hyper4", plot::OTHER, half.hyper4),
    ];
    for (name, colour, points) in papers {
        curves.push(curve(name, colour, Marks::Crosses, points.to_vec()));
    }
    Ok(Picture {
        file: half.file,
        svg: plot::curves(&half.axes, &curves)?,
    })
}
