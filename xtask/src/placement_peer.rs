//! `cargo xtask placement-peer`: the policy `exact` of `placement` beside HiGHS, at 10,000 to
//! 1,000,000 flows. HiGHS is the package `highspy` of PyPI; it is no dependency of Polyplane.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use clap::Args;
use placement::planes::workload::{
    BATCH_IN_US, BATCH_OUT_US, Flow, LATENCY_NIC_US, NIC_PLACES, nic_problem, placement_flows,
    replacement_flows,
};
use placement::planes::{BatchCharge, PlaneId, PlanePolicy, SolveOptions};

use crate::{Outcome, target};

#[derive(Args)]
pub(crate) struct Options {
    /// Python with the package `highspy`, for example of a virtual environment.
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Most flows of a problem.
    #[arg(long, default_value_t = 1_000_000)]
    most: u32,
    /// Seeds of each size.
    #[arg(long, default_value_t = 3)]
    seeds: u64,
}

/// Flows of problems: old and new ones.
const SIZES: [(u32, u32); 9] = [
    (0, 5000),
    (60, 5000),
    (0, 10_000),
    (6000, 4000),
    (3000, 7000),
    (0, 100_000),
    (60_000, 40_000),
    (0, 1_000_000),
    (600_000, 400_000),
];

pub(crate) fn run(root: &Path, options: &Options) -> Outcome {
    let found = Command::new(&options.python)
        .args(["-c", "import highspy, numpy"])
        .output();
    if !found.is_ok_and(|output| output.status.success()) {
        println!(
            "placement-peer: skipped, {} has no highspy: install it in a virtual environment and \
             name its Python with --python",
            options.python.display()
        );
        return Ok(());
    }
    println!("old\tnew\tseed\thighs_us\tbound_us\texact_us\thighs_s\texact_s\tbytes_a_flow");
    for (old, new) in SIZES {
        if old + new > options.most {
            continue;
        }
        for seed in 1..=options.seeds {
            let error = |error| format!("{old} old and {new} new flows: {error}");
            let mut flows = match old {
                0 => placement_flows(new, seed),
                _ => replacement_flows(old, new, seed).map_err(|e| error(e.to_string()))?,
            };
            // Every other seed exchanges: the NIC has light flows.
            if seed % 2 == 0 {
                swap_placed(&mut flows);
            }
            compare(root, options, &flows, (old, new, seed)).map_err(error)?;
        }
    }
    Ok(())
}

/// Sends the flows in the NIC home and puts others there, the last old ones.
fn swap_placed(flows: &mut [Flow]) {
    let is_placed = |flow: &Flow| flow.current == Some(PlaneId(1));
    let count = flows.iter().filter(|flow| is_placed(flow)).count();
    let mut old: Vec<&mut Flow> = flows
        .iter_mut()
        .filter(|flow| flow.current.is_some())
        .collect();
    old.sort_by_key(|flow| (is_placed(flow), flow.load.is_heavy()));
    for (at, flow) in old.into_iter().enumerate() {
        flow.current = Some(PlaneId(u16::from(at < count)));
    }
}

/// Solves a problem both ways.
fn compare(
    root: &Path,
    options: &Options,
    flows: &[Flow],
    (old, new, seed): (u32, u32, u64),
) -> Outcome {
    let before = begin_memory();
    let start = Instant::now();
    let problem = nic_problem(flows, BatchCharge::NewAndFewer).map_err(|e| e.to_string())?;
    let exact = PlanePolicy::Exact.solve(&problem, &SolveOptions::default());
    let exact = exact.map_err(|error| error.to_string())?;
    let exact_seconds = start.elapsed().as_secs_f64();
    let bytes = status("VmHWM:").saturating_sub(before) / flows.len().max(1);
    let violations = problem.violations(&exact.planes);
    if let Some(violation) = violations.first() {
        return Err(violation.to_string());
    }

    let mut text = format!("{NIC_PLACES} {LATENCY_NIC_US} {BATCH_IN_US} {BATCH_OUT_US}\n");
    for flow in flows {
        let state = match flow.current {
            None => "new",
            Some(PlaneId::HOME) => "kernel",
            Some(_) => "nic",
        };
        let _ = writeln!(text, "{state} {}", flow.kernel_latency());
    }
    let file = target().join("placement-peer.txt");
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    let output = Command::new(&options.python)
        .arg(root.join("xtask/placement/peer.py"))
        .arg(&file)
        .output()
        .map_err(|error| format!("cannot start {}: {error}", options.python.display()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // HiGHS writes its version first.
    let last = text.lines().last().unwrap_or_default();
    let words: Vec<&str> = last.split_whitespace().collect();
    let [objective, bound, seconds] = words[..] else {
        return Err(format!("peer.py wrote: {text}"));
    };
    let ours = -exact.objective;
    println!(
        "{old}\t{new}\t{seed}\t{objective}\t{bound}\t{ours}\t{seconds}\t{exact_seconds:.3}\t{bytes}"
    );
    match objective.parse() == Ok(ours) {
        true => Ok(()),
        false => Err(format!(
            "HiGHS finds {objective}, exact {ours} (seed {seed})"
        )),
    }
}

/// Begins a measurement of the most memory in use, and returns what is in use now.
fn begin_memory() -> usize {
    // 5 sets the largest resident set to the present one. Where that fails, rows are too large.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    status("VmRSS:")
}

/// Returns the bytes of a row of the process's status, or 0.
fn status(row: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rest = text.lines().find_map(|line| line.strip_prefix(row));
    let kib = rest.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok());
    kib.unwrap_or(0) * 1024
}
