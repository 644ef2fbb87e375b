//! Measures the share and the latency that a virtual data plane keeps beside hostile neighbours.

use std::sync::Arc;
use std::time::Duration;

use bench::isolation::{Attack, HostileReport, IsolationTest};
use bench::tenants::ShardableWorkload;
use bench::workloads::{self, Size};
use command::Ended;
use interp::Interp;
use jit::Jit;
use runtime::tenancy_host::{Cycles, FAIR_ROUND, fairness};
use serde::Serialize;
use terminal::live::{LiveLine, bar};

use super::{BenchOptions, report};

/// Number of runs of each kind. The time is divided among them.
const ROUNDS: usize = 9;

/// Row of the result table.
#[derive(Serialize)]
struct Row {
    neighbour: &'static str,
    mpps: f64,
    share_alone: f64,
    share_beside_peer: f64,
    share: f64,
    p50_alone_us: f64,
    p50_beside_peer_us: f64,
    p50_us: f64,
    p50_ratio: f64,
    p99_alone_us: f64,
    p99_beside_peer_us: f64,
    p99_us: f64,
    /// Packet rate of the peer and of the hostile neighbour, and their shares of the time.
    peer_mpps: f64,
    peer_time: f64,
    neighbour_mpps: f64,
    neighbour_time: f64,
}

impl Row {
    fn new(attack: Attack, measured: &HostileReport) -> Row {
        Row {
            neighbour: attack.name(),
            mpps: measured.mpps,
            share_alone: measured.alone.share,
            share_beside_peer: measured.peer.share,
            share: measured.hostile.share,
            p50_alone_us: measured.alone.p50,
            p50_beside_peer_us: measured.peer.p50,
            p50_us: measured.hostile.p50,
            p50_ratio: measured.ratio,
            p99_alone_us: measured.alone.p99,
            p99_beside_peer_us: measured.peer.p99,
            p99_us: measured.hostile.p99,
            peer_mpps: measured.peer.neighbour.mpps,
            peer_time: measured.peer.neighbour.time,
            neighbour_mpps: measured.hostile.neighbour.mpps,
            neighbour_time: measured.hostile.neighbour.time,
        }
    }

    fn cells(&self) -> Vec<String> {
        let shares = [self.share_alone, self.share_beside_peer, self.share];
        let times = [self.p50_alone_us, self.p50_beside_peer_us, self.p50_us];
        let name = [self.neighbour.to_owned(), format!("{:.2}", self.mpps)];
        let shares = shares.map(|share| format!("{share:.3}"));
        let times = times.map(|time| format!("{time:.1}"));
        let cells = name.into_iter().chain(shares).chain(times);
        let carried = [self.neighbour_mpps, self.peer_time, self.neighbour_time];
        let carried = carried.map(|carried| format!("{carried:.2}"));
        let ratio = [format!("{:.2}", self.p50_ratio)];
        let tails = [self.p99_alone_us, self.p99_beside_peer_us, self.p99_us];
        let tails = tails.map(|time| format!("{time:.1}"));
        cells.chain(ratio).chain(tails).chain(carried).collect()
    }
}

const HEAD: [&str; 15] = [
    "neighbour",
    "Mpps",
    "share alone",
    "beside peer",
    "beside this",
    "p50 us alone",
    "beside peer",
    "beside this",
    "ratio",
    "p99 us alone",
    "beside peer",
    "beside this",
    "its Mpps",
    "peer's time",
    "its time",
];

pub(super) fn run(options: &BenchOptions, time: Duration) -> Result<Ended, String> {
    let workload = workloads::switch(Size::Small);
    let compile = |text: &str| driver::compile_text("hostile.p4", text).map_err(String::from);
    let steps = workload.steps();
    let step = steps.first().ok_or("the workload has no program")?;
    let program = Arc::new(compile(&step.text)?);
    let fairness = fairness();
    let mut line = LiveLine::new();
    let mut rows = Vec::new();
    for (number, attack) in Attack::ALL.into_iter().enumerate() {
        let done = bar(number as u64, Attack::ALL.len() as u64, 20);
        line.show(&format!("{}: {done}", attack.name()));
        let hostile = IsolationTest {
            workload: &workload,
            program: Arc::clone(&program),
            compile: &compile,
            engine: Arc::new(Jit::new(Arc::new(Interp))),
            fairness,
            time: time / (4 * ROUNDS as u32),
            rounds: ROUNDS,
            burst: FAIR_ROUND,
            seed: options.setup.seed,
        };
        let measured = hostile.measure(attack, Cycles::default());
        let measured = measured.map_err(|error| format!("{}: {error}", attack.name()))?;
        rows.push(Row::new(attack, &measured));
    }
    line.clear();
    report::show(options.json, HEAD, &rows, Row::cells);
    Ok(Ended::Well)
}
