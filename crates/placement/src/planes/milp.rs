//! Policy `milp`: the problem as a mixed integer linear program, solved by branch and bound.
//!
//! The program is OVS-POF-TC's models FP, (2) to (16), and FR, (17) to (31), for several planes,
//! weights, requirements and limits of moves. Rates are given, so the latency of a flow on a plane
//! is a constant: the auxiliary variables of (7) to (11), of which (10) forbids x = 1, are not
//! needed. The two batches of a plane keep their variables; their rows have the number of items
//! that fit in the place of the large constant M.

use std::collections::BTreeMap;
use std::time::Duration;

use good_lp::solvers::WithTimeLimit;
use good_lp::{
    Expression, ResolutionError, Solution as _, SolverModel, Variable, WithInitialSolution,
    constraint, microlp, variable,
};

use super::SolveError;
use super::problem::{Need, PlaneId, Problem};
use crate::ItemId;

/// Assignment that the solver found.
pub(crate) struct Found {
    pub(crate) planes: Vec<PlaneId>,
    /// No objective is above this. `None`: not known.
    pub(crate) bound: Option<i64>,
    /// The time limit ended the search.
    pub(crate) is_interrupted: bool,
}

/// Variables of a program with the values that they have for a known assignment.
#[derive(Default)]
struct Program {
    variables: good_lp::ProblemVariables,
    known: Vec<(Variable, f64)>,
}

impl Program {
    /// Adds a variable of 0 or 1.
    fn add(&mut self, is_integer: bool, is_known: bool) -> Variable {
        let definition = match is_integer {
            true => variable().binary(),
            false => variable().clamp(0, 1),
        };
        let variable = self.variables.add(definition);
        self.known.push((variable, f64::from(u8::from(is_known))));
        variable
    }
}

/// Solves the program from an assignment that is allowed.
///
/// # Errors
/// The solver fails.
pub(crate) fn solve(
    problem: &Problem,
    start: &[PlaneId],
    time: Duration,
) -> Result<Found, SolveError> {
    let mut program = Program::default();
    let mut objective = Expression::default();
    let mut rows = Vec::new();
    let planes: Vec<PlaneId> = problem.plane_ids().collect();

    // x: an item on a plane with limits, (3), (4).
    let mut places: BTreeMap<(ItemId, PlaneId), Variable> = BTreeMap::new();
    let mut at_home: i64 = 0;
    for item in problem.item_ids() {
        at_home += problem.value(item, PlaneId::HOME);
        let mut sum = Expression::default();
        for &plane in &planes {
            let x = program.add(true, start[item.index()] == plane);
            objective.add_mul(problem.excess(item, plane) as f64, x);
            sum += x;
            places.insert((item, plane), x);
        }
        if planes.len() > 1 {
            rows.push(constraint!(sum <= 1));
        }
    }
    let place = |item, plane| places[&(item, plane)];

    let covers_before = problem.covers(start);
    let mut covers: BTreeMap<(PlaneId, ItemId), Variable> = BTreeMap::new();
    for item in problem.item_ids() {
        for &need in problem.needs(item) {
            let other = need.item();
            for &plane in &planes {
                let (x, needed) = (place(item, plane), place(other, plane));
                match need {
                    Need::Item(_) => rows.push(constraint!(x - needed <= 0)),
                    Need::ItemOrCover(_) => {
                        let key = (plane, other);
                        let cover = *covers
                            .entry(key)
                            .or_insert_with(|| program.add(false, covers_before.contains(&key)));
                        rows.push(constraint!(x - needed - cover <= 0));
                    }
                }
            }
        }
    }

    let (limits, _) = problem.move_limits();
    for (&plane, limit) in planes.iter().zip(limits) {
        let Some(spec) = problem.plane(plane) else {
            continue;
        };
        for (resource, &capacity) in spec.capacity.iter().enumerate() {
            let mut used = Expression::default();
            for item in problem.item_ids() {
                used.add_mul(problem.weights(item)[resource] as f64, place(item, plane));
            }
            for (&(of, item), &cover) in &covers {
                if of == plane {
                    used.add_mul(problem.cover(item)[resource] as f64, cover);
                }
            }
            rows.push(constraint!(used <= capacity as f64));
        }
        let fit = most_items(problem, plane);
        let (mut ins, mut outs) = (Expression::default(), Expression::default());
        let (mut most_in, mut before) = (0u64, 0u64);
        let mut moves = Expression::default();
        let (mut is_in, mut after) = (false, 0u64);
        for item in problem.item_ids() {
            let x = place(item, plane);
            let is_chosen = start[item.index()] == plane;
            if problem.is_charged_in(item, plane) {
                ins += x;
                most_in += 1;
                is_in |= is_chosen;
            } else {
                outs += x;
                after += u64::from(is_chosen);
            }
            if problem.current(item) == Some(plane) {
                before += 1;
                moves += 1 - x;
            } else {
                moves += x;
            }
        }
        // gamma: a batch in, (12) to (15) and (23) to (26).
        if spec.costs.batch_in > 0 {
            let gamma = program.add(true, is_in);
            objective.add_mul(-(spec.costs.batch_in as f64), gamma);
            rows.push(constraint!(ins - most_in.min(fit) as f64 * gamma <= 0));
        }
        // xi: a batch out, (27) to (30).
        if spec.costs.batch_out > 0 && before > 0 {
            let xi = program.add(true, after < before);
            objective.add_mul(-(spec.costs.batch_out as f64), xi);
            rows.push(constraint!(outs + before as f64 * xi >= before as f64));
        }
        if let Some(limit) = limit {
            rows.push(constraint!(moves <= limit as f64));
        }
    }

    let Program { variables, known } = program;
    let model = variables.maximise(objective).using(microlp);
    let model = model.with_all(rows).with_initial_solution(known);
    let model = model.with_time_limit(time.as_secs_f64());
    let solved = match model.solve() {
        Ok(solved) => solved,
        // The solver had no time even to take the known assignment.
        Err(ResolutionError::Other(_)) => {
            return Ok(Found {
                planes: start.to_vec(),
                bound: None,
                is_interrupted: true,
            });
        }
        Err(error) => return Err(SolveError::Solver(error.to_string())),
    };
    let mut found = vec![PlaneId::HOME; problem.items()];
    for (&(item, plane), &x) in &places {
        if solved.value(x) > 0.5 {
            found[item.index()] = plane;
        }
    }
    // Floats hold integers up to 2^53: what larger sums allow is checked here.
    let is_right = problem.violations(&found).is_empty();
    if !is_right || problem.objective(&found) < problem.objective(start) {
        return Ok(Found {
            planes: start.to_vec(),
            bound: None,
            is_interrupted: false,
        });
    }
    let is_interrupted = !matches!(solved.status(), good_lp::solvers::SolutionStatus::Optimal);
    let best = solved.into_inner().stats().best_bound;
    Ok(Found {
        planes: found,
        // Objectives are integers.
        bound: best.map(|bound| at_home.saturating_add((bound + 1e-6).floor() as i64)),
        is_interrupted,
    })
}

/// Returns the number of items on a plane at most, by the smallest weights.
fn most_items(problem: &Problem, plane: PlaneId) -> u64 {
    let capacity = problem
        .plane(plane)
        .map_or(&[][..], |plane| &plane.capacity);
    let of_resource = |(resource, &capacity): (usize, &u64)| {
        let mut weights: Vec<u64> = (problem.item_ids())
            .map(|item| problem.weights(item)[resource])
            .collect();
        weights.sort_unstable();
        let mut used = 0;
        let fitting = weights.into_iter().take_while(|weight| {
            used += weight;
            used <= capacity
        });
        fitting.count() as u64
    };
    let counts = capacity.iter().enumerate().map(of_resource);
    counts.min().unwrap_or(problem.items() as u64)
}
