//! The policy `dense`: beside `milp` where items have weights and requirements, and on Zipf traffic
//! beside a choice that knows the traffic.

use std::time::Duration;

use placement::planes::workload::{
    ProblemShape, ZipfTraffic, random_problem, share_of_clairvoyant, traffic_problem,
};
use placement::planes::{
    ItemSpec, LimitedPlane, Load, PlaneId, PlanePolicy, ProblemBuilder, SolveOptions,
};

/// Problems with requirements and weights, of `items` items at most.
fn shape(items: usize) -> ProblemShape {
    ProblemShape {
        items,
        planes: 2,
        resources: 2,
        weight: 20,
        needs: 60,
        batch: 40,
        move_cost: 3,
        has_limits: false,
    }
}

/// Gaps of `dense` to the bound of `milp`, in percent: mean and worst.
#[derive(Debug)]
struct Gaps {
    mean: f64,
    worst: f64,
    /// Problems of which the time limit ended the search.
    unproven: usize,
}

fn gaps(problems: u64, items: usize, time: Duration) -> Gaps {
    let options = SolveOptions {
        time_limit: time,
        ..SolveOptions::default()
    };
    let mut all = Gaps {
        mean: 0.0,
        worst: 0.0,
        unproven: 0,
    };
    for seed in 0..problems {
        let problem = random_problem(seed, &shape(items)).unwrap();
        let dense = PlanePolicy::Dense.solve(&problem, &options).unwrap();
        let milp = PlanePolicy::Milp.solve(&problem, &options).unwrap();
        // A bound is on the safe side of an optimum that is not proven.
        let best = milp.bound.unwrap_or(milp.objective);
        assert!(dense.objective <= best, "seed {seed}");
        assert_eq!(problem.violations(&dense.planes), [], "seed {seed}");
        let missing = (best - dense.objective) as f64;
        let gap = missing / (best.unsigned_abs() as f64).max(1.0) * 100.0;
        all.mean += gap / problems as f64;
        all.worst = all.worst.max(gap);
        all.unproven += usize::from(milp.objective < best);
    }
    all
}

#[test]
fn dense_is_near_milp_with_requirements_and_weights() {
    let found = gaps(60, 60, Duration::from_secs(1));
    assert!(found.mean <= 2.0 && found.worst <= 10.0, "{found:?}");
}

/// The run of 500 problems.
#[test]
#[ignore = "takes minutes: cargo test --release -p placement --test dense -- --ignored"]
fn dense_is_near_milp_on_500_problems_of_300_items() {
    let found = gaps(500, 300, Duration::from_millis(1500));
    println!("{found:?}");
    assert!(found.mean <= 2.0 && found.worst <= 10.0, "{found:?}");
}

/// Flows of the traffic.
const FLOWS: usize = 100_000;

/// Packets of a window.
const PACKETS: u64 = 4_000_000;

#[test]
fn dense_and_top_carry_what_a_clairvoyant_choice_carries_on_zipf_traffic() {
    for alpha in [0.5, 0.7, 0.9, 1.0, 1.2] {
        let mut traffic = ZipfTraffic::new(FLOWS, alpha, 11);
        let first = traffic.window(PACKETS);
        let second = traffic.window(PACKETS);
        let share = |policy: PlanePolicy| {
            let known = traffic_problem(&first, None).unwrap();
            let solution = policy.solve(&known, &SolveOptions::default()).unwrap();
            share_of_clairvoyant(&solution.planes, &second)
        };
        let shares = [
            PlanePolicy::Dense,
            PlanePolicy::Top,
            PlanePolicy::Threshold,
            PlanePolicy::Fcfs,
            PlanePolicy::Random,
        ]
        .map(share);
        println!("alpha {alpha}: dense, top, threshold, fcfs, random: {shares:.3?}");
        let [dense, top, threshold, fcfs, random] = shares;
        assert!(dense >= 0.95 && top >= 0.95, "alpha {alpha}: {shares:?}");
        assert!(threshold >= 0.8, "alpha {alpha}: {shares:?}");
        assert!(fcfs < 0.5 && random < 0.5, "alpha {alpha}: {shares:?}");
    }
}

#[test]
fn a_flow_in_the_nic_stays_unless_another_gains_more_than_the_move_costs() {
    let counts = [10, 11, 12];
    let on = |planes: [u16; 3]| planes.map(PlaneId);
    let mut nic = LimitedPlane::new("nic", vec![1]);
    nic.costs.item_in = 1;
    let mut builder = ProblemBuilder::new(1, vec![nic]);
    for (packets, plane) in counts.into_iter().zip(on([0, 1, 0])) {
        builder.add(ItemSpec {
            weights: &[1],
            gains: &[0, packets],
            current: Some(plane),
            load: Load::default(),
            cover: None,
        });
    }
    let problem = builder.build().unwrap();
    for policy in [PlanePolicy::Dense, PlanePolicy::Exact, PlanePolicy::Milp] {
        let solution = policy.solve(&problem, &SolveOptions::default()).unwrap();
        assert_eq!(solution.objective, 11, "{policy}");
    }
}
