//! Prints objectives, gaps and times of decisions at the sizes of OVS-POF-TC's tables II and III, a
//! row of JSON a line: `cargo run --release --example planes_scale -p placement [SEEDS]`.
//!
//! A time is that of one core for all steps from flows to moves: the problem built and checked, the
//! choice, the moves and the objective.

use std::time::Instant;

use placement::planes::workload::{
    Flow, TABLE_2, TABLE_3, WorkloadError, nic_problem, placement_flows, replacement_flows,
};
use placement::planes::{BatchCharge, PlaneId, PlanePolicy, SolveOptions};

/// Flows of the largest program that the policy `milp` gets.
const MAX_MILP_FLOWS: usize = 10_000;

fn main() -> Result<(), WorkloadError> {
    let seeds = std::env::args().nth(1).and_then(|seeds| seeds.parse().ok());
    for seed in 1..=seeds.unwrap_or(1) {
        for (flows, paper) in TABLE_2 {
            let row = format!("\"table\": 2, \"old\": 0, \"new\": {flows}");
            print(&row, &placement_flows(flows, seed), seed, paper)?;
        }
        for (old, new, paper) in TABLE_3 {
            let row = format!("\"table\": 3, \"old\": {old}, \"new\": {new}");
            print(&row, &replacement_flows(old, new, seed)?, seed, paper)?;
        }
    }
    Ok(())
}

/// Prints a row for each policy.
fn print(row: &str, flows: &[Flow], seed: u64, paper: u64) -> Result<(), WorkloadError> {
    let mut best = 0;
    for policy in [
        PlanePolicy::Exact,
        PlanePolicy::Paper,
        PlanePolicy::PaperLiteral,
        PlanePolicy::Milp,
        PlanePolicy::Top,
        PlanePolicy::Fcfs,
    ] {
        if policy == PlanePolicy::Milp && flows.len() > MAX_MILP_FLOWS {
            continue;
        }
        let options = SolveOptions {
            seed,
            ..SolveOptions::default()
        };
        let start = Instant::now();
        let problem = nic_problem(flows, BatchCharge::NewAndFewer)?;
        let solution = policy.solve(&problem, &options)?;
        let seconds = start.elapsed().as_secs_f64();
        let objective = -solution.objective;
        if policy == PlanePolicy::Exact {
            best = objective;
        }
        let in_nic = solution
            .planes
            .iter()
            .filter(|&&plane| plane != PlaneId::HOME);
        let gap = (objective - best) as f64 / best as f64 * 100.0;
        println!(
            "{{{row}, \"policy\": \"{policy}\", \"seed\": {seed}, \"objective_us\": {objective}, \
             \"gap_percent\": {gap:.4}, \"in_nic\": {}, \"moves\": {}, \"seconds\": {seconds:.4}, \
             \"paper_objective_us\": {paper}}}",
            in_nic.count(),
            solution.moves.len(),
        );
    }
    Ok(())
}
