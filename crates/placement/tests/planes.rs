//! Assignments of items to planes: all policies beside all assignments of small problems, and the
//! policy `exact` beside `milp`.

use std::collections::BTreeMap;

use placement::planes::workload::{ProblemShape, random_problem};
use placement::planes::{Need, PlaneId, PlanePolicy, Problem, SolveError, SolveOptions};
use placement::{ItemId, Move};

/// Returns the greatest objective of all assignments that break no rule.
fn best_of_all(problem: &Problem) -> i64 {
    let planes = problem.plane_ids().count() as u16 + 1;
    let mut assignment = vec![PlaneId::HOME; problem.items()];
    let mut best = i64::MIN;
    loop {
        if problem.violations(&assignment).is_empty() {
            best = best.max(problem.objective(&assignment));
        }
        let mut at = 0;
        loop {
            let Some(plane) = assignment.get_mut(at) else {
                return best;
            };
            plane.0 += 1;
            if plane.0 < planes {
                break;
            }
            plane.0 = 0;
            at += 1;
        }
    }
}

/// Entries of one plane: items, and covers.
#[derive(Default)]
struct Entries(BTreeMap<(PlaneId, ItemId), bool>);

impl Entries {
    /// Checks that planes have what their items need. The capacity must hold if it did before.
    fn check(&self, problem: &Problem, before: &[u64], case: &str) {
        let resources = problem.resources();
        let mut used = vec![0; before.len()];
        for (&(plane, item), &is_cover) in &self.0 {
            let at = usize::from(plane.0 - 1) * resources;
            // The cover of a random problem is half of its item.
            let weights = problem.weights(item).iter();
            let weights = weights.map(|weight| match is_cover {
                true => weight.div_ceil(2),
                false => *weight,
            });
            for (used, weight) in used[at..].iter_mut().zip(weights) {
                *used += weight;
            }
            if !is_cover {
                for need in problem.needs(item) {
                    let found = self.0.get(&(plane, need.item()));
                    let is_met = match need {
                        Need::Item(_) => found == Some(&false),
                        Need::ItemOrCover(_) => found.is_some(),
                    };
                    assert!(is_met, "{case}: item {item:?} without {need:?}");
                }
            }
        }
        for (plane, (used, before)) in problem
            .plane_ids()
            .zip(used.chunks(resources).zip(before.chunks(resources)))
        {
            let capacity = &problem.plane(plane).unwrap().capacity;
            for ((used, before), capacity) in used.iter().zip(before).zip(capacity) {
                assert!(
                    used <= capacity.max(before),
                    "{case}: {plane:?} is over-full"
                );
            }
        }
    }
}

/// Applies the moves of a solution one by one.
fn replay(problem: &Problem, planes: &[PlaneId], case: &str) {
    let entries = |planes: &[PlaneId]| {
        let items = problem.item_ids().zip(planes.iter().copied());
        let items = items.filter(|&(_, plane)| plane != PlaneId::HOME);
        let mut entries: BTreeMap<_, _> =
            items.map(|(item, plane)| ((plane, item), false)).collect();
        entries.extend(problem.covers(planes).into_iter().map(|key| (key, true)));
        entries
    };
    let current = problem.current_planes();
    let is_valid_before = problem.violations(&current).is_empty();
    let before = problem.usage(&current);
    let mut held = Entries(entries(&current));
    for step in problem.moves(planes) {
        let plane = step.plane;
        match step.kind {
            Move::Install(item) => {
                let old = held.0.insert((plane, item), false);
                assert_ne!(old, Some(false), "{case}: {step:?}");
            }
            Move::Cover(item) => {
                let old = held.0.insert((plane, item), true);
                assert_ne!(old, Some(true), "{case}: {step:?}");
            }
            Move::Evict(item) => {
                assert!(held.0.remove(&(plane, item)).is_some(), "{case}: {step:?}");
            }
        }
        if is_valid_before {
            held.check(problem, &before, case);
        }
    }
    assert_eq!(held.0, entries(planes), "{case}");
}

#[test]
fn milp_and_exact_are_best_and_no_policy_breaks_a_rule() {
    let options = SolveOptions::default();
    for seed in 0..400 {
        let problem = random_problem(seed, &ProblemShape::SMALL).unwrap();
        let best = best_of_all(&problem);
        for policy in PlanePolicy::ALL {
            let case = format!("seed {seed}, {policy}");
            let solution = match policy.solve(&problem, &options) {
                Ok(solution) => solution,
                Err(SolveError::Unsupported { .. }) => continue,
                Err(error) => panic!("{case}: {error}"),
            };
            assert_eq!(
                solution.objective,
                problem.objective(&solution.planes),
                "{case}"
            );
            if policy == PlanePolicy::PaperLiteral {
                continue;
            }
            assert_eq!(problem.violations(&solution.planes), [], "{case}");
            assert!(
                solution.objective <= best,
                "{case}: {} > {best}",
                solution.objective
            );
            if matches!(policy, PlanePolicy::Milp | PlanePolicy::Exact) {
                assert_eq!(
                    (solution.objective, solution.bound),
                    (best, Some(best)),
                    "{case}"
                );
            }
            replay(&problem, &solution.planes, &case);
        }
    }
}

#[test]
fn exact_is_best_with_limits_of_moves_and_any_charge() {
    let shape = ProblemShape {
        items: 10,
        has_limits: true,
        ..ProblemShape::COUNTED
    };
    for seed in 0..1500 {
        let problem = random_problem(seed, &shape).unwrap();
        let solution = PlanePolicy::Exact.solve(&problem, &SolveOptions::default());
        let solution = solution.unwrap();
        let expected = best_of_all(&problem);
        assert_eq!(solution.objective, expected, "seed {seed}");
        assert_eq!(problem.violations(&solution.planes), [], "seed {seed}");
    }
}

fn exact_equals_milp(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let items = [14, 14, 14, 60][seed as usize % 4];
        let shape = ProblemShape {
            items,
            ..ProblemShape::COUNTED
        };
        let problem = random_problem(seed, &shape).unwrap();
        let solve = |policy: PlanePolicy| policy.solve(&problem, &SolveOptions::default()).unwrap();
        let (exact, milp) = (solve(PlanePolicy::Exact), solve(PlanePolicy::Milp));
        let found = (milp.objective, milp.bound);
        assert_eq!((exact.objective, exact.bound), found, "seed {seed}");
    }
}

#[test]
fn exact_equals_milp_on_small_problems() {
    exact_equals_milp(0..1000);
}

/// The run of 10,000 problems.
#[test]
#[ignore = "takes a minute: cargo test --release -p placement --test planes -- --ignored"]
fn exact_equals_milp_on_many_problems() {
    exact_equals_milp(0..10_000);
}

#[test]
fn a_milp_without_time_returns_the_start_with_a_warning() {
    let shape = ProblemShape {
        items: 300,
        needs: 60,
        weight: 20,
        planes: 1,
        ..ProblemShape::SMALL
    };
    let options = SolveOptions {
        time_limit: std::time::Duration::ZERO,
        ..SolveOptions::default()
    };
    let problem = random_problem(5, &shape).unwrap();
    let milp = PlanePolicy::Milp.solve(&problem, &options).unwrap();
    let dense = PlanePolicy::Dense.solve(&problem, &options).unwrap();
    assert_eq!(milp.objective, dense.objective);
    let warning = milp.warnings.last().map(ToString::to_string);
    let text = "the time limit ended the search: give more time, or use the policy dense";
    assert_eq!(warning.as_deref(), Some(text));
}

#[test]
fn a_policy_that_cannot_handle_a_problem_says_why() {
    let check = |shape: &ProblemShape, seed, expected: &str| {
        let problem = random_problem(seed, shape).unwrap();
        let found = PlanePolicy::Exact.solve(&problem, &SolveOptions::default());
        let text = found.map(|_| ()).map_err(|error| error.to_string());
        let end = "use the policy dense, or milp for a few hundred items";
        assert_eq!(
            text,
            Err(format!("the policy exact cannot handle {expected}: {end}"))
        );
    };
    let many = ProblemShape {
        items: 100,
        ..ProblemShape::COUNTED
    };
    let needs = ProblemShape { needs: 50, ..many };
    let weights = ProblemShape {
        weight: 100,
        ..many
    };
    let planes = ProblemShape {
        planes: 100,
        ..many
    };
    check(&planes, 1, "several planes beside home");
    check(&needs, 1, "requirements between items");
    check(
        &weights,
        1,
        "items of different weights (item 2 and the first one)",
    );
}
