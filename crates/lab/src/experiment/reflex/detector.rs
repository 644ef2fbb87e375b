//! Table 1: reports through decoding and path latency detection, beside a loop by hand over the
//! same frames.

use std::time::Instant;

use nanopu::CostTable;
use packet::Nanos;
use reflex::{
    Compare, DetourNode, LatencyMeasure, LatencyOutcome, Loops, PathLatencyMonitor,
    PathLatencySpec, PathSample,
};
use support::rng::Rng;
use telemetry::{ReportView, ReportedHops, TelemetryReport};

use super::hand_written::HandWritten;
use super::model::{add_model, burst, reflex_latencies};
use super::reports::{LOOPS, five_hops};
use super::{Context, Origin, Part, ROUNDS, Sheet, median, missing, ratio, reflex_latency};
use crate::experiment::Picture;
use crate::experiment::plot::{self, Axes, Bars};

/// Latency of each hop in ns, and the amount above the average that is an alarm.
const LATENCY: u32 = 500;
const ABOVE: u32 = 1_000;
/// Samples of an average.
const WINDOW: usize = 10;

/// Reports of equal length, one after another.
struct Reports {
    bytes: Vec<u8>,
    length: usize,
}

impl Reports {
    /// Creates one report of each flow, in random order.
    fn new(flows: u32) -> Result<Reports, String> {
        let mut order: Vec<u32> = (0..flows).collect();
        let mut rng = Rng::new(1);
        for at in (1..order.len()).rev() {
            order.swap(at, rng.index(at + 1));
        }
        let (mut bytes, mut length) = (Vec::new(), 0);
        for flow in order {
            let report = five_hops(flow, LATENCY)?;
            length = report.len();
            bytes.extend(report);
        }
        Ok(Reports { bytes, length })
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.length.max(1))
    }
}

/// Reports that are decoded before the first of them is compared.
const BATCH: usize = 16;

/// The product's way of a report: decoding, flow, path, detection.
struct Product {
    loops: Loops,
    monitor: PathLatencyMonitor,
    now: Nanos,
    samples: Vec<PathSample>,
}

impl Product {
    fn new(flows: u32) -> Result<Product, String> {
        let text = LOOPS.replace("{flows}", &flows.to_string());
        let loops = Loops::read("loops", &text).map_err(|error| error.to_string())?;
        let spec = PathLatencySpec {
            window: WINDOW,
            above: Nanos(ABOVE.into()),
            compare: Compare::Above,
            measure: LatencyMeasure::Hops,
            detour: DetourNode::First,
            flows: flows as usize,
            forget: Nanos::from_secs(1),
        };
        Ok(Product {
            monitor: PathLatencyMonitor::new(spec, 1),
            loops,
            now: Nanos::ZERO,
            samples: Vec::with_capacity(BATCH),
        })
    }

    /// Returns the number of normal samples of these reports.
    fn observe<'r>(&mut self, mut reports: impl Iterator<Item = &'r [u8]>) -> usize {
        let domain = self.loops.sources[0].domain;
        let mut normal = 0;
        loop {
            self.samples.clear();
            let mut taken = 0;
            for payload in reports.by_ref().take(BATCH) {
                taken += 1;
                let Ok(report) = TelemetryReport::parse(payload) else {
                    continue;
                };
                for individual in report.individuals() {
                    let view = ReportView::new(report.header.exporter, &individual, &domain);
                    let (Some(flow), ReportedHops::Path(path)) = (view.flow, &view.hops) else {
                        continue;
                    };
                    self.now += Nanos(10);
                    self.samples
                        .extend(self.monitor.sample(flow, path, self.now));
                }
            }
            self.monitor.observe_batch(&self.samples, |_, outcome| {
                normal += usize::from(outcome == LatencyOutcome::Normal);
            });
            if taken < BATCH {
                return normal;
            }
        }
    }
}

/// Returns million reports a second of work that takes `rounds` times all reports.
fn rate(count: usize, work: &mut dyn FnMut() -> usize) -> Result<f64, String> {
    let start = Instant::now();
    let normal = work();
    let seconds = start.elapsed().as_secs_f64();
    match normal == count {
        true => Ok(count as f64 / seconds / 1e6),
        false => Err(format!("{normal} of {count} reports are normal: a defect")),
    }
}

/// Serial IO and MAC in each direction in ps (paper, 3.2).
const SERIAL_IO: u64 = 26_000;

/// Adds the rows of the model: reports of one flow in a burst at the line rate, and a report to its
/// command, without and with the MAC.
fn model_rows(sheet: &mut Sheet, subject: &str) -> Result<(), String> {
    let costs = CostTable::default();
    let rate = |costs: &CostTable| Ok(burst(costs)?.rate);
    let reflex = |costs: &CostTable| Ok(median(&reflex_latencies(costs, 20)?));
    add_model(sheet, subject, &[("Mreports/s", rate(&costs)?)], &rate)?;
    let command = "report to command, without MAC and serial IO";
    sheet.add(command, Origin::Paper, &[("latency ns", 78.0)]);
    let latency = [("latency ns", reflex(&costs)?)];
    add_model(sheet, command, &latency, &reflex)?;
    let mut with_mac = costs.clone();
    let set = with_mac.set(nanopu::Cost::SerialIo, SERIAL_IO);
    set.map_err(|error| error.to_string())?;
    let command = "report to command, with MAC and serial IO";
    sheet.add(command, Origin::Paper, &[("latency ns", 130.0)]);
    sheet.add(
        command,
        Origin::Model,
        &[("latency ns", reflex(&with_mac)?)],
    );
    Ok(())
}

/// Measures both sides by turns.
///
/// # Errors
/// The sides differ, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let mut sheet = Sheet::new("table 1");
    let sizes = context.choose([256, 1_000_000], [256, 20_000]);
    let least = context.choose(4_000_000, 20_000);
    let (mut here, mut by_hand) = (Vec::new(), Vec::new());
    for (at, flows) in sizes.into_iter().enumerate() {
        let reports = Reports::new(flows)?;
        let mut product = Product::new(flows)?;
        let mut hand = HandWritten::new(flows as usize, ABOVE);
        let passes = (least / flows as usize).max(1);
        let count = passes * flows as usize;
        let mut of_product = || {
            let pass = |_| product.observe(reports.iter());
            (0..passes).map(pass).sum::<usize>()
        };
        let mut of_hand = || {
            let mut normal = 0;
            for _ in 0..passes {
                let alarms = reports.iter().filter(|report| hand.observe(report));
                normal += flows as usize - alarms.count();
            }
            normal
        };
        // Windows are filled.
        for _ in 0..=WINDOW / passes {
            rate(count, &mut of_product)?;
            rate(count, &mut of_hand)?;
        }
        let (mut rates, mut hand_rates) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            context.tell("table 1", at * ROUNDS + round, 2 * ROUNDS)?;
            rates.push(rate(count, &mut of_product)?);
            hand_rates.push(rate(count, &mut of_hand)?);
        }
        let jump = five_hops(0, LATENCY + ABOVE)?;
        if product.observe(std::iter::once(&jump[..])) != 0 || !hand.observe(&jump) {
            return Err("a jump of a latency is not found: a defect".to_owned());
        }
        let subject = format!("path latency, {flows} flows, five hops");
        let values = [
            ("Mreports/s", median(&rates)),
            ("ns a report", 1e3 / median(&rates)),
            ("by hand Mreports/s", median(&hand_rates)),
            ("of by hand", ratio(&rates, &hand_rates)),
        ];
        sheet.add(&subject, Origin::Measured, &values);
        if at == 0 {
            model_rows(&mut sheet, &subject)?;
        } else {
            missing(
                &mut sheet,
                &subject,
                Origin::Model,
                "the program has 256 flows",
            );
        }
        here.push(Some(median(&rates)));
        by_hand.push(Some(median(&hand_rates)));
        if at == 0 {
            let values = [("Mreports/s", 20.0), ("latency ns", 130.0)];
            sheet.add(&subject, Origin::Paper, &values);
        }
    }
    reflex_latency::rows(context, &mut sheet)?;
    let values = [("Mreports/s", 0.7), ("latency ns", 2_400.0)];
    sheet.add("the same over eRPC", Origin::Paper, &values);
    let axes = Axes {
        caption: "Table 1: path latency detection",
        x: "flows",
        y: "million reports a second",
    };
    let groups = sizes.map(|flows| flows.to_string());
    let kinds = [
        ("here (measured)", plot::HERE, here),
        ("by hand (measured)", plot::NATIVE, by_hand),
        ("nanoPU (paper)", plot::PAPER, vec![Some(20.0), None]),
    ];
    let kinds = kinds.map(|(name, colour, values)| Bars {
        name,
        colour,
        values,
    });
    let svg = plot::bars(&axes, &groups, &kinds)?;
    let note = format!(
        "Measured: one core, reports in memory, each of another flow than the one before; decoding, flow, path and detection, in batches of {BATCH}; medians of {ROUNDS} turns. \
         By hand: one layout, few checks, no state by path. Paper: bursts of 100 into a queue; 78 ns without the MAC."
    );
    let pictures = vec![Picture {
        file: "reflex-table-1.svg",
        svg,
    }];
    Ok(sheet.part("Table 1: path latency detection", note, pictures))
}
