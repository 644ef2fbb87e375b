//! Measures virtual data planes beside the same program alone.

use std::sync::Arc;
use std::time::Duration;

use bench::measure::Plan;
use bench::tenants::{Entry, Tenants, TenantsReport};
use bench::workloads::{self, Size};
use interp::Interp;
use jit::Jit;
use serde::Serialize;

use super::Options;
use crate::live::{LiveLine, bar};
use crate::{Ended, compile, out, report};

/// A row of figures; times in microseconds, of a burst.
#[derive(Serialize)]
struct Row {
    policy: String,
    entry: &'static str,
    vpdps: usize,
    native_mpps: f64,
    vpdp_mpps: f64,
    ratio: f64,
    native_cycles: f64,
    vpdp_cycles: f64,
    native_p50_us: f64,
    native_p99_us: f64,
    p50_us: f64,
    p99_us: f64,
}

impl Row {
    fn new(policy: &str, entry: Entry, vpdps: usize, report: &TenantsReport) -> Row {
        Row {
            policy: policy.to_owned(),
            entry: entry.name(),
            vpdps,
            native_mpps: report.native.mpps,
            vpdp_mpps: report.hosted.mpps,
            ratio: report.ratio(),
            native_cycles: report.native.ticks_per_packet,
            vpdp_cycles: report.hosted.ticks_per_packet,
            native_p50_us: report.native_burst.0,
            native_p99_us: report.native_burst.1,
            p50_us: report.hosted_burst.0,
            p99_us: report.hosted_burst.1,
        }
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.policy.clone(),
            self.entry.to_owned(),
            self.vpdps.to_string(),
            format!("{:.2}", self.native_mpps),
            format!("{:.2}", self.vpdp_mpps),
            format!("{:.3}", self.ratio),
            format!("{:.1}", self.vpdp_cycles - self.native_cycles),
            format!("{:.1} / {:.1}", self.native_p50_us, self.p50_us),
            format!("{:.1} / {:.1}", self.native_p99_us, self.p99_us),
        ]
    }
}

const HEAD: [&str; 9] = [
    "program",
    "entry",
    "vPDPs",
    "alone Mpps",
    "vPDPs Mpps",
    "ratio",
    "cycles more",
    "p50 us",
    "p99 us",
];

pub(super) fn run(options: &Options, time: Duration) -> Result<Ended, String> {
    let function = workloads::divisible(Size::Full);
    let workload = workloads::find(function.name()).ok_or("the function has no program")?;
    let program = Arc::new(compile::compile_text("l2.p4", workload.source())?);
    let plan = Plan {
        time,
        burst: options.burst.into(),
        seed: 1,
    };
    let mut line = LiveLine::new();
    let mut rows = Vec::new();
    for vpdps in &options.vpdps {
        for entry in Entry::ALL {
            let tenants = Tenants {
                function: &*function,
                program: Arc::clone(&program),
                engine: Arc::new(Jit::new(Arc::new(Interp))),
                vpdps: *vpdps,
                entry,
            };
            let mut tell = |share: f64| {
                if line.is_due() {
                    let done = bar((share * 100.0) as u64, 100, 20);
                    line.show(&format!("{vpdps} vPDPs by {}: {done}", entry.name()));
                }
            };
            let measured = tenants.measure(&plan, &mut tell);
            let measured = measured.map_err(|error| error.to_string())?;
            rows.push(Row::new(function.name(), entry, *vpdps, &measured));
        }
    }
    line.clear();
    if options.json {
        out::json(&rows);
        return Ok(Ended::Well);
    }
    let mut lines = vec![HEAD.map(String::from).to_vec()];
    lines.extend(rows.iter().map(Row::cells));
    out::text(&report::align(&lines));
    Ok(Ended::Well)
}
