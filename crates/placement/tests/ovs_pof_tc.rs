//! Placement and replacement of OVS-POF-TC: its tables, its heuristics and its printed models.

use good_lp::{Expression, Solution as _, SolverModel, Variable, constraint, variable};
use placement::planes::workload::{
    BATCH_IN_US, BATCH_OUT_US, Flow, KERNEL_PACKETS_PER_SECOND, LATENCY_KERNEL_US, LATENCY_NIC_US,
    LATENCY_OVERLOAD_US, NIC_PLACES, TABLE_2, TABLE_3, kernel_kbps, nic_problem, placement_flows,
    replacement_flows,
};
use placement::planes::{
    BatchCharge, ItemSpec, LimitedPlane, Load, PlaneId, PlanePolicy, Problem, ProblemBuilder,
    Solution, SolveOptions, SolveWarning,
};
use support::rng::Rng;

const NIC: PlaneId = PlaneId(1);

fn flow(is_heavy: bool, current: Option<PlaneId>) -> Flow {
    let home_limit = kernel_kbps(1024);
    let offered = if is_heavy { home_limit + 1 } else { home_limit };
    Flow {
        load: Load {
            offered,
            home_limit,
        },
        current,
    }
}

fn solve(policy: PlanePolicy, problem: &Problem) -> Solution {
    policy.solve(problem, &SolveOptions::default()).unwrap()
}

/// Returns the number of flows in the NIC.
fn offloaded(solution: &Solution) -> u64 {
    solution
        .planes
        .iter()
        .filter(|&&plane| plane == NIC)
        .count() as u64
}

/// Returns the heavy flows in the kernel of an objective of the paper: batches, flows in the NIC,
/// and light and heavy flows in the kernel. `None` if it is no such sum.
fn heavy_in_kernel(objective: u64, batches: u32, flows: u32) -> Option<u64> {
    let placed = u64::from(flows).min(NIC_PLACES);
    let [nic, light, heavy] =
        [LATENCY_NIC_US, LATENCY_KERNEL_US, LATENCY_OVERLOAD_US].map(u64::from);
    let kernel = u64::from(flows) - placed;
    let rest = objective.checked_sub(u64::from(batches) + placed * nic + kernel * light)?;
    (rest % (heavy - light) == 0).then_some(rest / (heavy - light))
}

#[test]
fn table_2_is_a_sum_of_whole_flows_that_exact_finds() {
    for (flows, objective) in TABLE_2 {
        let heavy = heavy_in_kernel(objective, BATCH_IN_US, flows).unwrap();
        let all = (0..u64::from(flows)).map(|at| flow(at < heavy + NIC_PLACES, None));
        let all: Vec<Flow> = all.collect();
        let problem = nic_problem(&all, BatchCharge::NewAndFewer).unwrap();
        for policy in [PlanePolicy::Exact, PlanePolicy::Paper] {
            let solution = solve(policy, &problem);
            assert_eq!(
                -solution.objective, objective as i64,
                "{flows} flows, {policy}"
            );
        }
        if flows > 10_000 {
            // 96 % of the flows exceed the kernel.
            let share = (heavy + NIC_PLACES) as f64 / f64::from(flows);
            assert!((0.959..0.963).contains(&share), "{flows} flows: {share}");
        }
    }
}

#[test]
fn table_3_is_a_sum_of_whole_flows_that_the_objective_has() {
    for (old, new, objective) in TABLE_3 {
        let flows = old + new;
        // Small rows fill the NIC, large ones exchange.
        let is_exchange = u64::from(flows) > NIC_PLACES;
        let batches = BATCH_IN_US + if is_exchange { BATCH_OUT_US } else { 0 };
        let heavy = heavy_in_kernel(objective, batches, flows).unwrap();
        // The new flows in the NIC take the places of old ones.
        let places = NIC_PLACES.min(flows.into());
        let entered = if is_exchange { 100 } else { u64::from(new) };
        let stayed = places - entered;
        let mut kernel = 0;
        let mut all = Vec::new();
        let mut planes = Vec::new();
        for at in 0..u64::from(flows) {
            let is_old = at < old.into();
            let rank = if is_old { at } else { at - u64::from(old) };
            let is_placed = rank < if is_old { stayed } else { entered };
            let was_placed = is_old && rank < if is_exchange { NIC_PLACES } else { stayed };
            kernel += u64::from(!is_placed);
            let before = if was_placed { NIC } else { PlaneId::HOME };
            all.push(flow(is_placed || kernel <= heavy, is_old.then_some(before)));
            planes.push(if is_placed { NIC } else { PlaneId::HOME });
        }
        let problem = nic_problem(&all, BatchCharge::NewAndFewer).unwrap();
        assert_eq!(problem.violations(&planes), [], "{old} and {new}");
        assert_eq!(
            -problem.objective(&planes),
            objective as i64,
            "{old} and {new}"
        );
    }
}

#[test]
fn the_gap_of_table_2_is_a_tenth_of_the_printed_one() {
    // The column of the MILP: six digits.
    let gap = |heuristic: f64, milp: f64| (heuristic - milp) / milp * 100.0;
    let placement = gap(36_379_400.0, 36_372_000.0);
    assert_eq!(format!("{placement:.3}"), "0.020");
    assert_eq!(format!("{:.2}", gap(37_440_250.0, 36_267_500.0)), "3.23");
    // An optimum above the heuristic's objective.
    assert!(gap(684_611_550.0, 684_612_000.0) < 0.0);
}

#[test]
fn the_kernels_throughput_makes_96_percent_of_flows_heavy() {
    assert_eq!(kernel_kbps(1024), KERNEL_PACKETS_PER_SECOND * 8192 / 1000);
    let flows = placement_flows(100_000, 1);
    let heavy = flows.iter().filter(|flow| flow.load.is_heavy()).count();
    assert!((95_800..96_400).contains(&heavy), "{heavy}");
}

#[test]
fn the_printed_placement_overfills_the_nic_from_4801_to_5365_flows() {
    for (flows, is_over) in [
        (4800, false),
        (4801, true),
        (5000, true),
        (5300, true),
        (5450, false),
        (10_000, false),
    ] {
        for seed in 0..5 {
            let all = placement_flows(flows, seed);
            let problem = nic_problem(&all, BatchCharge::NewAndFewer).unwrap();
            let case = format!("{flows} flows, seed {seed}");
            let literal = solve(PlanePolicy::PaperLiteral, &problem);
            let warned = literal.warnings.iter();
            let warned = warned.filter(|warning| matches!(warning, SolveWarning::Violation(_)));
            assert_eq!(warned.count(), usize::from(is_over), "{case}");
            assert_eq!(offloaded(&literal) > NIC_PLACES, is_over, "{case}");
            if is_over {
                assert_eq!(offloaded(&literal), u64::from(flows), "{case}");
            }
            let paper = solve(PlanePolicy::Paper, &problem);
            assert_eq!(problem.violations(&paper.planes), [], "{case}");
            let exact = solve(PlanePolicy::Exact, &problem);
            assert!(paper.objective <= exact.objective, "{case}");
        }
    }
}

#[test]
fn the_printed_replacement_removes_flows_that_the_nic_does_not_have() {
    for (old, new, least) in [(6000, 4000, 4840), (60_000, 40_000, 5300)] {
        let flows = replacement_flows(old, new, 1).unwrap();
        let problem = nic_problem(&flows, BatchCharge::NewAndFewer).unwrap();
        let literal = solve(PlanePolicy::PaperLiteral, &problem);
        assert!(
            offloaded(&literal) > least,
            "{old}: {}",
            offloaded(&literal)
        );
        let paper = solve(PlanePolicy::Paper, &problem);
        assert_eq!(problem.violations(&paper.planes), [], "{old}");
    }
}

/// Draws flows, some of which have been placed before.
fn random_flows(rng: &mut Rng) -> Vec<Flow> {
    let most = *rng.pick(&[30, 1000, 6000, 8000]).unwrap();
    let count = rng.between(1, most);
    let old = [0, 1, 3][rng.index(3)];
    let mut places = rng.below(NIC_PLACES + 1);
    let mut draw = |rng: &mut Rng| {
        let mut flow = Flow::draw(rng);
        if rng.one_in(3) {
            // Light flows are rare otherwise.
            flow.load.offered = rng.between(1, 2 * flow.load.home_limit);
        }
        if rng.index(4) < old {
            let is_placed = places > 0 && rng.one_in(2);
            places -= u64::from(is_placed);
            flow.current = Some(if is_placed { NIC } else { PlaneId::HOME });
        }
        flow
    };
    (0..count).map(|_| draw(rng)).collect()
}

#[test]
fn the_repaired_heuristics_are_never_over_capacity_nor_better_than_exact() {
    let mut rng = Rng::new(7);
    for case in 0..3000 {
        let flows = random_flows(&mut rng);
        let charge = [BatchCharge::NewAndFewer, BatchCharge::Moves][rng.index(2)];
        let problem = nic_problem(&flows, charge).unwrap();
        let paper = solve(PlanePolicy::Paper, &problem);
        assert!(offloaded(&paper) <= NIC_PLACES, "case {case}");
        assert_eq!(problem.violations(&paper.planes), [], "case {case}");
        let exact = solve(PlanePolicy::Exact, &problem);
        assert!(paper.objective <= exact.objective, "case {case}");
    }
}

#[test]
fn an_exchange_of_old_flows_is_free_in_the_papers_model_alone() {
    // The NIC is full of light flows, and the kernel has as many heavy ones.
    let places = NIC_PLACES as usize;
    let light = (0..places).map(|_| flow(false, Some(NIC)));
    let heavy = (0..places).map(|_| flow(true, Some(PlaneId::HOME)));
    let flows: Vec<Flow> = light.chain(heavy).collect();
    let cost = |charge| {
        let problem = nic_problem(&flows, charge).unwrap();
        let solution = solve(PlanePolicy::Exact, &problem);
        assert!(solution.planes[places..].iter().all(|&plane| plane == NIC));
        -solution.objective - NIC_PLACES as i64 * i64::from(LATENCY_NIC_US + LATENCY_KERNEL_US)
    };
    assert_eq!(cost(BatchCharge::NewAndFewer), 0);
    assert_eq!(
        cost(BatchCharge::Moves),
        i64::from(BATCH_IN_US + BATCH_OUT_US)
    );
}

/// Equation (10) of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Equation10 {
    /// `a (1 - x) >= epsilon + f3`: no flow can be in the NIC, since the left side is 0 then.
    Printed,
    /// `a (1 - x) >= f3`.
    Repaired,
}

/// Solves the model of placement, (2) to (16), for a NIC with these places, and returns the
/// objective and the number of flows in the NIC.
fn printed_model(flows: &[Flow], places: u32, form: Equation10) -> (i64, usize) {
    let (epsilon, large) = (0.01, 200.0);
    let latencies = [LATENCY_NIC_US, LATENCY_KERNEL_US, LATENCY_OVERLOAD_US].map(f64::from);
    let mut all = good_lp::ProblemVariables::new();
    let mut binary = || all.add(variable().binary());
    let x: Vec<Variable> = flows.iter().map(|_| binary()).collect();
    let f: Vec<[Variable; 3]> = flows
        .iter()
        .map(|_| [binary(), binary(), binary()])
        .collect();
    let [g1, g2, g3] = [binary(), binary(), binary()];
    let gamma = g1 + g3;
    let placed: Expression = x.iter().sum();
    let mut objective = f64::from(BATCH_IN_US) * gamma;
    let mut rows = vec![
        constraint!(placed.clone() <= places),
        constraint!(g1 + g2 + g3 == 1),
        constraint!(placed.clone() <= -epsilon * g1 + large * g3),
        constraint!(placed >= -large * g1 + epsilon * g3),
    ];
    for ((flow, &x), &f) in flows.iter().zip(&x).zip(&f) {
        let a = flow.load.offered as f64 / flow.load.home_limit as f64;
        for (latency, f) in latencies.into_iter().zip(f) {
            objective += latency * f;
        }
        rows.push(constraint!(f[0] + f[1] + f[2] == 1));
        rows.push(match form {
            Equation10::Printed => constraint!(a * (1 - x) >= epsilon + f[2]),
            Equation10::Repaired => constraint!(a * (1 - x) >= f[2]),
        });
        rows.push(constraint!(a * (1 - x) <= f[1] + large * f[2]));
    }
    let model = all.minimise(objective.clone()).using(good_lp::microlp);
    let solved = model.with_all(rows).solve().unwrap();
    let placed = x.iter().filter(|&&x| solved.value(x) > 0.5).count();
    (solved.eval(objective).round() as i64, placed)
}

#[test]
fn equation_10_forbids_offloading_and_its_repair_agrees_with_exact() {
    for seed in 0..10 {
        let flows = placement_flows(6, seed);
        let places = 4;
        let mut nic = LimitedPlane::new("nic", vec![places.into()]);
        nic.costs.batch_in = BATCH_IN_US.into();
        let mut builder = ProblemBuilder::new(1, vec![nic]);
        for flow in &flows {
            builder.add(ItemSpec {
                weights: &[1],
                gains: &[
                    -i64::from(flow.kernel_latency()),
                    -i64::from(LATENCY_NIC_US),
                ],
                current: None,
                load: flow.load,
                cover: None,
            });
        }
        let problem = builder.build().unwrap();
        let kernel: i64 = flows
            .iter()
            .map(|flow| i64::from(flow.kernel_latency()))
            .sum();
        let printed = printed_model(&flows, places, Equation10::Printed);
        assert_eq!(printed, (kernel, 0), "seed {seed}");
        let (objective, placed) = printed_model(&flows, places, Equation10::Repaired);
        let exact = solve(PlanePolicy::Exact, &problem);
        assert_eq!(
            (-exact.objective, offloaded(&exact)),
            (objective, placed as u64)
        );
    }
}
