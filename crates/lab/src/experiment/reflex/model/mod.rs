//! Rows of the timed model of the nanoPU: the shipped programs on it, with its default costs.
//!
//! Nothing here is measured. Each row says which cost it depends on most: [`sensitivity`] has the
//! effect of each one.

mod classifier;
mod device;
mod raft;
mod sensitivity;

use nanopu::{Cost, CostTable, Image, Picos};

use super::{Context, Origin, Part, Sheet, missing};
pub(super) use classifier::measure as measure_classifier;
pub(super) use device::{burst, reflex_latencies, wire_to_wire};
use raft::Knee;
pub(super) use raft::{raft_times, with_switch};
use sensitivity::{Dependence, depends_on};

/// Bytes of memory of a device.
const MEMORY: usize = 1 << 24;

/// A shipped program.
#[derive(Clone, Copy)]
pub(super) enum Program {
    /// Loopback with increment, the paper's figure 2.
    Figure2,
    /// Path latency anomalies.
    PathLatency,
    /// A replica of the replicated log.
    Raft,
}

impl Program {
    /// Returns the image.
    ///
    /// # Errors
    /// The shipped file is no image.
    fn image(self) -> Result<Image, String> {
        let file: &[u8] = match self {
            Program::Figure2 => include_bytes!("../../../../../../examples/nanopu/figure2.elf"),
            Program::PathLatency => {
                include_bytes!("../../../../../../examples/nanopu/path_latency.elf")
            }
            Program::Raft => include_bytes!("../../../../../../examples/nanopu/raft.elf"),
        };
        Image::parse(file, MEMORY).map_err(|error| format!("a shipped image: {error}"))
    }
}

/// Adds the values of the model to a subject, and the cost that the first of them depends on most.
///
/// # Errors
/// The model fails.
pub(super) fn add_model(
    sheet: &mut Sheet,
    subject: &str,
    values: &[(&'static str, f64)],
    measure: &dyn Fn(&CostTable) -> Result<f64, String>,
) -> Result<(), String> {
    sheet.add(subject, Origin::Model, values);
    let all = depends_on(measure)?;
    if let Some(most) = all.first() {
        sheet.say(subject, Origin::Model, "depends most on", &most.text());
    }
    Ok(())
}

/// Returns the time of the whole loop in ns: a report to a classifier of 100 rules and to a device,
/// its command as a write of three replicas, and the change to a switch. The latencies of the
/// layers are added (paper, 4.3).
///
/// # Errors
/// The model fails.
pub(super) fn loop_ns(costs: &CostTable) -> Result<f64, String> {
    let link = Picos(costs.get(Cost::Link)).as_nanos();
    let classify = classifier::classify_median_ns(costs)?;
    Ok(classify + device::reflex_ns(costs)? + raft::write_far_ns(costs)? + link)
}

/// Returns figure 4: writes under load.
///
/// # Errors
/// The model fails, or a signal arrived.
pub(super) fn measure_load(context: &mut Context<'_>) -> Result<Part, String> {
    let mut sheet = Sheet::new("figure 4");
    let rates = context.choose(&LOADS[..], &LOADS[..2]);
    let writes = context.choose(5_000, 200);
    let load = "writes under load";
    sheet.add(load, Origin::Paper, &[("knee, writes/s", 500_000.0)]);
    let costs = with_switch(&CostTable::default(), 300_000)?;
    let mut points = Vec::new();
    for (number, rate) in rates.iter().enumerate() {
        context.tell("figure 4", number, rates.len())?;
        points.push(raft::times_at(&costs, *rate, writes)?);
    }
    match raft::knee(&points) {
        Knee::At(rate) => sheet.add(load, Origin::Model, &[("knee, writes/s", rate)]),
        Knee::AtLeast(rate) => {
            let text = format!("at least {rate:.0}: no rate of the run is above it");
            sheet.say(load, Origin::Model, "knee, writes/s", &text);
        }
    }
    for [rate, middle, tail] in &points {
        let values = [("median us", middle / 1e3), ("p99 us", tail / 1e3)];
        sheet.add(&format!("{rate:.0} writes/s"), Origin::Model, &values);
    }
    missing(&mut sheet, load, Origin::Measured, "no load generator");
    let note = format!(
        "Model: {writes} writes of 64 sessions at each rate, with a switch of 300 ns; the knee is the \
         greatest rate up to which the 99th percentile is at most twice that of the first one. \
         Paper: figure 4 has no values but its range, 318,000 to 507,000 writes a second."
    );
    Ok(sheet.part("Figure 4: writes under load", note, Vec::new()))
}

/// Rates of writes, in writes a second.
const LOADS: [f64; 10] = [
    100e3, 200e3, 300e3, 318e3, 400e3, 450e3, 507e3, 600e3, 800e3, 1e6,
];

/// Returns the effects of all costs on the values of the model, as a part.
///
/// # Errors
/// The model fails, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    type Measure = fn(&CostTable) -> Result<f64, String>;
    let rows: [(&str, Measure); 7] = [
        ("loopback, wire to wire", device::loopback_ns),
        ("path latency, five hops, ns a report", device::report_ns),
        ("path latency, report to command", device::reflex_ns),
        ("classification, 100 rules", classifier::classify_ns),
        ("write, switch of 1 ns", raft::write_near_ns),
        ("write, switch of 300 ns", raft::write_far_ns),
        ("whole loop", loop_ns),
    ];
    let mut sheet = Sheet::new("sensitivity");
    for (number, (subject, measure)) in rows.into_iter().enumerate() {
        context.tell("sensitivity", number, rows.len())?;
        for Dependence { cost, percent } in depends_on(&measure)? {
            let subject = format!("{subject}: {} + 20 %", cost.name());
            sheet.add(&subject, Origin::Model, &[("change %", percent)]);
        }
    }
    let note = "Model: each cost is raised by 20 %, one at a time, and the value's change is given \
                for 20 %. A cost of few cycles is raised by one. Costs without an effect have no row."
        .to_owned();
    let title = "Sensitivity of the model's rows to its costs";
    Ok(sheet.part(title, note, Vec::new()))
}
