//! Figure 17: completion times of mice and throughputs of elephants over the fat-tree, with
//! programs alone and with virtual data planes.

use std::path::Path;
use std::sync::Arc;

use bench::tenants::Entry;
use command::switches::Maker;
use command::topology::{read, run_simulation};
use fabric::topology::FlowKind;
use fabric::{Distribution, Report, Simulation, Topology};
use packet::Nanos;
use port::Signal;
use serde::Serialize;

use super::plot::{self, Axes, Curve, Marks};
use super::policy::Policy;
use super::{Figure, Hypervdp, More, Picture, Progress, Row, head};

/// Limit of the simulated time. All flows complete well before it.
const MAX: Nanos = Nanos::from_secs(100_000);

/// vPDPs of an edge switch, and the longest policy among them. The cost of a packet in virtual
/// data planes is measured with these.
const EDGE_VPDPS: usize = 4;
const EDGE_POLICY: u32 = 7;

/// Distribution over flows.
#[derive(Serialize)]
pub(super) struct Flows {
    /// Name of the measure, with its unit.
    measure: &'static str,
    /// Number of flows.
    count: usize,
    p10: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    /// Service time of a switch per packet.
    service_us: f64,
    /// The paper's result.
    paper: &'static str,
}

/// One half of the figure.
struct Half {
    file: &'static str,
    measure: &'static str,
    axes: Axes,
    paper: &'static str,
    values: fn(&Report) -> Distribution,
    /// The results that the paper gives in its text, as points.
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

/// Results of one simulated fabric.
struct Simulated {
    name: &'static str,
    /// Maximum number of vPDPs at one switch.
    vpdps: u32,
    service: Nanos,
    report: Report,
}

/// Simulates the workload over both fabrics, draws both halves, and returns their rows.
///
/// # Errors
/// A topology is wrong, or a signal arrived.
pub(super) fn measure(
    options: &Hypervdp,
    take_signal: &dyn Fn() -> Option<Signal>,
) -> Result<Figure, String> {
    let cost = cost(options)?;
    let native = simulate(
        "fat-tree, native",
        &options.fabric,
        1.0,
        options,
        take_signal,
    )?;
    let vpdps = simulate(
        "fat-tree, vPDPs",
        &options.vpdp_fabric,
        cost,
        options,
        take_signal,
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

/// Measures the cost of a packet in virtual data planes relative to the program alone.
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
    take_signal: &dyn Fn() -> Option<Signal>,
) -> Result<Simulated, String> {
    let mut topology = read(file)?;
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
    if let (Some(signal), _) = run_simulation(&mut simulation, MAX, take_signal)? {
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

/// Multiplies the service times of all switches by `cost`.
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
