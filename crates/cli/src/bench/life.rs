//! Measures what operations on virtual data planes cost the packets of all of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bench::life::{Fates, Life, LifeReport, functions};
use bench::workloads::{self, Size};
use interp::Interp;
use jit::Jit;
use serde::Serialize;

use super::Options;
use crate::live::{LiveLine, bar};
use crate::{Ended, compile, out, report};

/// The share of the rate that is the load.
const LOAD: f64 = 0.8;

#[derive(Serialize)]
struct Packets {
    came: u64,
    left: u64,
    dropped: u64,
    lost: u64,
    changed: u64,
    reordered: u64,
}

impl From<Fates> for Packets {
    fn from(fates: Fates) -> Packets {
        let Fates {
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
    mpps_reached: f64,
    mpps_load: f64,
    seconds: f64,
    steady: Packets,
    changing: Packets,
    missed: u64,
    missed_without_operations: u64,
}

impl Figures {
    fn new(report: &LifeReport, workers: usize) -> Figures {
        let operations = report.operations.iter();
        Figures {
            operations: operations
                .map(|(operation, count)| (operation.name(), *count))
                .collect(),
            workers,
            mpps_reached: report.mpps,
            mpps_load: report.load_mpps,
            seconds: report.time.as_secs_f64(),
            steady: report.steady.into(),
            changing: report.changing.into(),
            missed: report.missed,
            missed_without_operations: report.quiet_missed,
        }
    }

    fn show(&self) {
        let operations = self.operations.iter();
        let counts = operations
            .clone()
            .map(|(name, count)| format!("{count} {name}"));
        let counts: Vec<String> = counts.collect();
        out::line(&format!(
            "{} operations in {:.1} s ({}), {:.2} Mpps of {:.2} that {} workers reach",
            operations.map(|(_, count)| count).sum::<usize>(),
            self.seconds,
            counts.join(", "),
            self.mpps_load,
            self.mpps_reached,
            self.workers
        ));
        let lines = [
            HEAD.map(String::from).to_vec(),
            self.steady.cells("that no operation is about"),
            self.changing.cells("that operations are about"),
        ];
        out::text(&report::align(&lines));
        out::line(&format!(
            "{} more packets found a worker's ring full, and {} without operations",
            self.missed, self.missed_without_operations
        ));
    }
}

pub(super) fn run(options: &Options, time: Duration) -> Result<Ended, String> {
    let workload = workloads::switch(Size::Small);
    let compile = |text: &str| compile::compile_text("life.p4", text).map(Arc::new);
    let functions = functions(&compile)?;
    let workers = usize::from(options.workers);
    let life = Life {
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
