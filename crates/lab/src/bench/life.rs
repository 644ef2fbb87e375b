//! Measures the cost of operations on virtual data planes for the packets of all of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bench::churn::{ChurnTest, DeliveryCounts, LifeReport, Rates, functions};
use bench::workloads::{self, Size};
use command::Ended;
use interp::Interp;
use jit::Jit;
use serde::Serialize;
use support::text_table;
use terminal::live::{LiveLine, bar};
use terminal::out;

use super::BenchOptions;

/// Load, as a share of the maximum rate.
const LOAD: f64 = 0.8;

/// A rate below this share of the load counts as clearly lower.
const CLEARLY: f64 = 0.995;

#[derive(Serialize)]
struct Packets {
    came: u64,
    left: u64,
    dropped: u64,
    lost: u64,
    changed: u64,
    reordered: u64,
}

impl From<DeliveryCounts> for Packets {
    fn from(fates: DeliveryCounts) -> Packets {
        let DeliveryCounts {
            came,
            left,
            dropped,
            lost,
            changed,
            reordered,
        } = fates;
        Packets {
            came,
            left,
            dropped,
            lost,
            changed,
            reordered,
        }
    }
}

impl Packets {
    fn is_as_it_should(&self) -> bool {
        [self.lost, self.changed, self.reordered] == [0; 3]
    }

    fn cells(&self, name: &str) -> Vec<String> {
        let counts = [
            self.came,
            self.left,
            self.dropped,
            self.lost,
            self.changed,
            self.reordered,
        ];
        let counts = counts.map(|count| count.to_string());
        std::iter::once(name.to_owned()).chain(counts).collect()
    }
}

const HEAD: [&str; 7] = [
    "packets of vPDPs",
    "came",
    "left",
    "dropped",
    "lost",
    "changed",
    "reordered",
];

#[derive(Serialize)]
struct Figures {
    operations: BTreeMap<&'static str, usize>,
    workers: usize,
    seconds: f64,
    reached_mpps: f64,
    reached_behind_mpps: f64,
    load_mpps: f64,
    without_operations: Load,
    with_operations: Load,
    steady: Packets,
    changing: Packets,
}

/// Load that the workers carried.
#[derive(Serialize)]
struct Load {
    carried_mpps: f64,
    missed_mpps: f64,
    /// Maximum number of packets that waited for one worker.
    most_waiting: u64,
    /// Carried rate, as a share of the maximum rate.
    share: f64,
}

impl Load {
    fn new(rates: Rates, reached: Rates) -> Load {
        Load {
            carried_mpps: rates.carried,
            missed_mpps: rates.missed,
            most_waiting: rates.most_waiting,
            share: rates.carried / reached.carried,
        }
    }

    fn cells(&self, name: &str) -> Vec<String> {
        vec![
            name.to_owned(),
            format!("{:.2}", self.carried_mpps),
            format!("{:.3}", self.missed_mpps),
            self.most_waiting.to_string(),
            format!("{:.3}", self.share),
        ]
    }
}

const LOAD_HEAD: [&str; 5] = [
    "load",
    "carried Mpps",
    "missed Mpps",
    "most waiting",
    "of the rate",
];

impl Figures {
    fn new(report: &LifeReport, workers: usize) -> Figures {
        let operations = report.operations.iter();
        Figures {
            operations: operations
                .map(|(operation, count)| (operation.name(), *count))
                .collect(),
            workers,
            seconds: report.time.as_secs_f64(),
            reached_mpps: report.reached.carried,
            reached_behind_mpps: report.reached_behind.carried,
            load_mpps: report.reached.carried * LOAD,
            without_operations: Load::new(report.quiet, report.reached),
            with_operations: Load::new(report.operated, report.reached),
            steady: report.steady.into(),
            changing: report.changing.into(),
        }
    }

    fn show(&self) {
        let operations = self.operations.iter();
        let counts = operations
            .clone()
            .map(|(name, count)| format!("{count} {name}"));
        let counts: Vec<String> = counts.collect();
        out::line(&format!(
            "{} operations in {:.1} s ({})",
            operations.map(|(_, count)| count).sum::<usize>(),
            self.seconds,
            counts.join(", "),
        ));
        out::line(&format!(
            "beside operations {} workers reach {:.2} Mpps before, {:.2} Mpps behind these; the load is {:.2} Mpps",
            self.workers, self.reached_mpps, self.reached_behind_mpps, self.load_mpps
        ));
        out::text(&text_table::align(&[
            LOAD_HEAD.map(String::from).to_vec(),
            self.without_operations.cells("without operations"),
            self.with_operations.cells("with operations"),
        ]));
        out::text(&text_table::align(&[
            HEAD.map(String::from).to_vec(),
            self.steady.cells("that no operation is about"),
            self.changing.cells("that operations are about"),
        ]));
        if self.with_operations.share < LOAD * CLEARLY {
            out::line(&format!(
                "the load was not carried: {:.0} % of what workers reach, not {:.0} %",
                self.with_operations.share * 100.0,
                LOAD * 100.0
            ));
        }
    }
}

pub(super) fn run(options: &BenchOptions, time: Duration) -> Result<Ended, String> {
    let workload = workloads::switch(Size::Small);
    let compile = |text: &str| Ok(Arc::new(driver::compile_text("life.p4", text)?));
    let functions = functions(&compile)?;
    let workers = usize::from(options.workers);
    let life = ChurnTest {
        workload: &workload,
        functions: &functions,
        engine: Arc::new(Jit::new(Arc::new(Interp))),
        operations: options.operations as usize,
        seed: options.setup.seed,
        load: LOAD,
        time,
        workers,
    };
    let mut line = LiveLine::new();
    let mut tell = |share: f64| {
        if line.is_due() {
            let done = bar((share * 100.0) as u64, 100, 20);
            line.show(&format!("operations: {done}"));
        }
    };
    let measured = life.measure(&mut tell).map_err(|error| error.to_string())?;
    line.clear();
    let figures = Figures::new(&measured, workers);
    match options.json {
        true => out::json(&figures),
        false => figures.show(),
    }
    match figures.steady.is_as_it_should() && figures.changing.is_as_it_should() {
        true => Ok(Ended::Well),
        false => Err("packets were lost, changed or reordered: a defect".to_owned()),
    }
}
