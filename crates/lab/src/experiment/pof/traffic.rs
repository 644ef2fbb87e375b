//! Zipf traffic: packets that the NIC carries by each policy, beside a choice that knows them.

use placement::planes::workload::{NIC_PLACES, ZipfTraffic, share_of_clairvoyant, traffic_problem};
use placement::planes::{PlanePolicy, SolveOptions};

use super::{Context, Origin, Part, Sheet};
use crate::experiment::Picture;
use crate::experiment::plot::{self, Axes, Curve, Marks};

/// Exponents of Zipf's distribution.
const ALPHAS: [f64; 5] = [0.5, 0.7, 0.9, 1.0, 1.2];

const FLOWS: usize = 100_000;

/// Packets of a window.
const PACKETS: u64 = 4_000_000;

const POLICIES: [(PlanePolicy, plotters::style::RGBColor); 5] = [
    (PlanePolicy::Dense, plot::HERE),
    (PlanePolicy::Top, plot::NATIVE),
    (PlanePolicy::Threshold, plot::PAPER),
    (PlanePolicy::Fcfs, plot::OTHER),
    (
        PlanePolicy::Random,
        plotters::style::RGBColor(190, 190, 190),
    ),
];

/// Decides by a window, and counts in the next one.
///
/// # Errors
/// A policy fails, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let mut sheet = Sheet::new("traffic");
    let packets = context.scaled(PACKETS, 100_000);
    let mut curves = POLICIES.map(|(policy, colour)| Curve {
        marks: Marks::Line,
        name: policy.name(),
        colour,
        points: Vec::new(),
    });
    for (number, alpha) in ALPHAS.into_iter().enumerate() {
        context.tell("traffic", number, ALPHAS.len())?;
        let mut traffic = ZipfTraffic::new(FLOWS, alpha, 11);
        let (first, second) = (traffic.window(packets), traffic.window(packets));
        let problem = traffic_problem(&first, None).map_err(|error| error.to_string())?;
        let mut values = Vec::new();
        for ((policy, _), curve) in POLICIES.into_iter().zip(&mut curves) {
            let solution = policy.solve(&problem, &SolveOptions::default());
            let solution = solution.map_err(|error| error.to_string())?;
            let share = share_of_clairvoyant(&solution.planes, &second);
            values.push((policy.name(), share));
            curve.points.push((alpha, share));
        }
        sheet.add(&format!("alpha {alpha}"), Origin::Simulated, &values);
    }
    let axes = Axes {
        caption: "Packets in the NIC of those by a choice that knows them",
        x: "exponent of Zipf's distribution",
        y: "share",
    };
    let svg = plot::curves_from(&axes, &curves, 0.45)?;
    let file = "pof-traffic.svg";
    let note = format!(
        "Simulated: {FLOWS} flows, {NIC_PLACES} places, windows of {packets} packets; a policy knows one window and is counted in the next. Not in the paper."
    );
    Ok(sheet.part(
        "Zipf traffic: share of what a clairvoyant choice carries",
        note,
        vec![Picture { file, svg }],
    ))
}
