//! Tables II and III: placement and replacement of flows by each policy.

use std::time::Instant;

use placement::planes::workload::{
    Flow, NIC_PLACES, TABLE_2, TABLE_3, nic_problem, placement_flows, replacement_flows,
};
use placement::planes::{BatchCharge, PlaneId, PlanePolicy, SolveError, SolveOptions};

use super::{Context, Origin, Part, Sheet, TableNumber};

/// Flows of the largest row of both tables.
const MOST: u64 = 3_000_000;

/// Flows of the largest problem that the policy `milp` gets.
const MAX_MILP_FLOWS: usize = 10_000;

/// Number of seeds; of runs with fewer than `FEW` flows it is 2.
const SEEDS: u64 = 5;
const FEW: u64 = 20_000;

/// The paper's results of a row: objective in us of the MILP, times in s of MILP and heuristic.
struct Paper {
    milp: Option<(f64, f64)>,
    seconds: f64,
}

const fn paper(milp: Option<(f64, f64)>, seconds: f64) -> Paper {
    Paper { milp, seconds }
}

const PAPER_2: [Paper; 6] = [
    paper(Some((23_000.0, 0.01)), 0.001),
    paper(Some((27_500.0, 0.03)), 0.001),
    paper(Some((36_372_000.0, 0.16)), 0.0070),
    paper(Some((684_612_000.0, 1.51)), 0.1249),
    paper(Some((7_171_470_000.0, 26.78)), 1.5211),
    paper(None, 6.0512),
];

const PAPER_3: [Paper; 6] = [
    paper(Some((23_000.0, 0.01)), 0.001),
    paper(Some((27_500.0, 0.01)), 0.0040),
    paper(Some((36_267_500.0, 0.16)), 0.0170),
    paper(Some((685_200_000.0, 1.55)), 0.2289),
    paper(Some((7_172_680_000.0, 26.12)), 3.2770),
    paper(None, 12.4293),
];

/// Results of a policy for one seed.
struct Outcome {
    objective: i64,
    seconds: f64,
    in_nic: usize,
}

/// Decides all rows with all policies.
///
/// # Errors
/// A policy fails, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let mut sheet = Sheet::new("table II");
    let limit = context.scaled(MOST, 100);
    let seeds = if limit < FEW { 2 } else { SEEDS };
    let mut rows: Vec<(&'static str, u32, u32, u64, &Paper)> = Vec::new();
    if context.has_table(TableNumber::Placement) {
        let of_table = TABLE_2.into_iter().zip(&PAPER_2);
        rows.extend(of_table.map(|((new, us), paper)| ("table II", 0, new, us, paper)));
    }
    if context.has_table(TableNumber::Replacement) {
        let of_table = TABLE_3.into_iter().zip(&PAPER_3);
        rows.extend(of_table.map(|((old, new, us), paper)| ("table III", old, new, us, paper)));
    }
    rows.retain(|(_, old, new, ..)| u64::from(old + new) <= limit);
    let all = rows.len();
    for (number, (place, old, new, us, paper)) in rows.into_iter().enumerate() {
        sheet.place(place);
        let flows_text = match place {
            "table II" => format!("II, {new}"),
            _ => format!("III, {old} + {new}"),
        };
        let values = [("objective us", us as f64), ("s", paper.seconds)];
        sheet.add(&format!("{flows_text}, heuristic"), Origin::Paper, &values);
        if let Some((objective, seconds)) = paper.milp {
            let values = [("objective us", objective), ("s", seconds)];
            sheet.add(&format!("{flows_text}, MILP"), Origin::Paper, &values);
        }
        // The best of each seed, by `exact`, which comes first.
        let mut best = Vec::new();
        let flows: Result<Vec<Vec<Flow>>, String> = (1..=seeds)
            .map(|seed| match old {
                0 => Ok(placement_flows(new, seed)),
                _ => replacement_flows(old, new, seed).map_err(|error| error.to_string()),
            })
            .collect();
        let flows = flows?;
        for policy in policies((old + new) as usize) {
            let mut outcomes = Vec::new();
            for (seed, flows) in (1..).zip(&flows) {
                context.tell(place, number, all)?;
                outcomes.extend(decide(policy, flows, seed)?);
            }
            if policy == PlanePolicy::Exact {
                best = outcomes.iter().map(|outcome| outcome.objective).collect();
            }
            if outcomes.is_empty() {
                continue;
            }
            add(
                &mut sheet,
                &format!("{flows_text}, {policy}"),
                &outcomes,
                &best,
            );
        }
    }
    let note = format!(
        "Objectives are those of the paper's model and parameters, means of {seeds} seeds; times are of one core for all steps from flows to moves, medians. \
         Gap: over `exact`, mean and largest of the seeds. Flows are drawn, so objectives differ from the paper's by the number of heavy flows. \
         The old flows of table III were placed by `exact`. The paper's own gaps are 0.020 % (printed as 0.203) and 3.23 %. \
         `paper-literal` puts more flows than {NIC_PLACES} in the NIC, where the count says so; its objective is then no result. `milp` gets at most {MAX_MILP_FLOWS} flows."
    );
    Ok(sheet.part(
        "Tables II and III: placement and replacement of flows",
        note,
        Vec::new(),
    ))
}

/// Returns the policies for a number of flows, `exact` first.
fn policies(flows: usize) -> impl Iterator<Item = PlanePolicy> {
    let others = PlanePolicy::ALL.into_iter();
    let others = others.filter(|policy| *policy != PlanePolicy::Exact);
    let is_possible =
        move |policy: &PlanePolicy| *policy != PlanePolicy::Milp || flows <= MAX_MILP_FLOWS;
    std::iter::once(PlanePolicy::Exact)
        .chain(others)
        .filter(is_possible)
}

/// Decides. `None`: the policy cannot handle the problem.
fn decide(policy: PlanePolicy, flows: &[Flow], seed: u64) -> Result<Option<Outcome>, String> {
    let options = SolveOptions {
        seed,
        ..SolveOptions::default()
    };
    let begin = Instant::now();
    let problem = nic_problem(flows, BatchCharge::NewAndFewer);
    let problem = problem.map_err(|error| error.to_string())?;
    let solution = match policy.solve(&problem, &options) {
        Err(SolveError::Unsupported { .. }) => return Ok(None),
        solved => solved.map_err(|error| error.to_string())?,
    };
    let seconds = begin.elapsed().as_secs_f64();
    let planes = solution.planes.iter();
    Ok(Some(Outcome {
        objective: -solution.objective,
        seconds,
        in_nic: planes.filter(|plane| **plane != PlaneId::HOME).count(),
    }))
}

/// Adds the row of a policy.
fn add(sheet: &mut Sheet, subject: &str, outcomes: &[Outcome], best: &[i64]) {
    let count = outcomes.len() as f64;
    let mean = outcomes.iter().map(|one| one.objective).sum::<i64>() as f64 / count;
    let gaps = outcomes.iter().zip(best);
    let gaps = gaps.map(|(one, best)| (one.objective - best) as f64 / *best as f64 * 100.0);
    let gaps: Vec<f64> = gaps.collect();
    let mut seconds: Vec<f64> = outcomes.iter().map(|one| one.seconds).collect();
    let median = support::quantile::quantile(&mut seconds, 0.5).unwrap_or(0.0);
    let most = outcomes.iter().map(|one| one.in_nic).max().unwrap_or(0);
    sheet.add(
        subject,
        Origin::Model,
        &[
            ("objective us", mean),
            ("gap %", gaps.iter().sum::<f64>() / count),
            ("gap % most", gaps.iter().copied().fold(0.0, f64::max)),
            ("in NIC, most", most as f64),
        ],
    );
    sheet.add(subject, Origin::Measured, &[("s", median)]);
}
