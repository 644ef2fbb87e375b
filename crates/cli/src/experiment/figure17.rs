//! Figure 17: over the fat-tree, how long mice take and how fast elephants are.

use fabric::topology::FlowKind;
use fabric::{Distribution, Simulation};
use packet::Nanos;
use plotters::prelude::*;

use super::{Hypervdp, Row};
use crate::early::Early;
use crate::fabric::{Maker, watch};

/// Simulated time within which all flows are over, or something is wrong.
const LONGEST: Nanos = Nanos::from_secs(100_000);

const SIZE: (u32, u32) = (760, 480);

/// A curve's colour, one that people who see few colours tell from others.
const NATIVE: RGBColor = RGBColor(0, 114, 178);

/// One half of the figure.
struct Half {
    file: &'static str,
    measure: &'static str,
    caption: &'static str,
    paper: &'static str,
    /// In the measure's unit.
    values: Distribution,
}

/// Simulates the workload, draws both halves, and gives their rows.
///
/// # Errors
/// The topology is wrong, a signal came, or a file cannot be written.
pub(super) fn measure(options: &Hypervdp, early: &Early) -> Result<Vec<Row>, String> {
    let mut topology = crate::fabric::read(&options.fabric)?;
    let Some(workload) = topology.workload else {
        let file = options.fabric.display();
        return Err(format!("{file} has no workload; add a [workload] section"));
    };
    topology.workload = Some(workload.scaled(options.scale));
    let mut maker = Maker::new(options.choice, topology.seed);
    let simulation = Simulation::new(topology, &mut |spec| maker.make(spec));
    let mut simulation = simulation.map_err(|error| error.to_string())?;
    if let (Some(signal), _) = watch(&mut simulation, LONGEST, early) {
        return Err(format!("interrupted by {signal}"));
    }
    let unbalanced = simulation.check_conservation();
    unbalanced.map_err(|unbalanced| unbalanced.to_string())?;
    let report = simulation.report();
    let scaled = |values: Distribution, by: f64| {
        Distribution(values.0.iter().map(|value| value * by).collect())
    };
    let halves = [
        Half {
            file: "figure17a.svg",
            measure: "mice: completion time, s",
            caption: "Completion time of mice, s",
            paper: "90 %: HyperVDP 0.085, Hyper4 0.515",
            values: report.completion_times(FlowKind::Mouse),
        },
        Half {
            file: "figure17b.svg",
            measure: "elephants: rate, Mbit/s",
            caption: "Throughput of elephants, Mbit/s",
            paper: "10 %: native and HyperVDP 249; 90 %: HyperVDP 293, Hyper4 85",
            values: scaled(report.throughputs(FlowKind::Elephant), 1e-6),
        },
    ];
    halves
        .iter()
        .map(|half| {
            super::write(&options.out.join(half.file), &draw(half)?)?;
            row(half)
        })
        .collect()
}

fn row(half: &Half) -> Result<Row, String> {
    let quantile = |share| {
        let value = half.values.quantile(share);
        value.ok_or_else(|| format!("{}: no flow is complete", half.measure))
    };
    Ok(Row {
        figure: 17,
        policy: "fat-tree, native",
        vpdps: 0,
        measure: half.measure,
        count: half.values.0.len(),
        p10: quantile(0.1)?,
        p50: quantile(0.5)?,
        p90: quantile(0.9)?,
        p99: quantile(0.99)?,
        paper: half.paper,
    })
}

/// The distribution as a picture.
fn draw(half: &Half) -> Result<String, String> {
    let mut svg = String::new();
    drawn(half, &mut svg).map_err(|error| format!("cannot draw {}: {error}", half.file))?;
    Ok(svg)
}

fn drawn(half: &Half, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let most = half.values.quantile(1.0).unwrap_or(1.0).max(1e-9);
    let mut chart = ChartBuilder::on(&area)
        .caption(half.caption, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..most * 1.05, 0.0..1.0)?;
    chart.configure_mesh().y_desc("share of flows").draw()?;
    let steps: Vec<(f64, f64)> = half.values.steps().collect();
    let curve = PathElement::new(steps, NATIVE.stroke_width(2));
    chart
        .draw_series([curve])?
        .label("native")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], NATIVE.stroke_width(2)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .draw()?;
    area.present()?;
    Ok(())
}
