//! Placements of random reductions, compared with the best of all, and of a fat-tree.

mod topologies;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aggregate::{
    KeyClass, Operator, Placement, Plan, PlanError, PredictedBytes, ReductionRequest, Shape,
    ValueClass,
};
use fabric::Topology;
use fabric::topology::{HostId, NodeId, PlaneSpec, SwitchId};
use support::rng::Rng;
use topologies::{fat_tree, random_topology};

const TOPOLOGIES: u64 = 1000;

/// Most of a plan's bytes times hops, as a multiple of the best placement's.
const MOST: f64 = 1.1;

fn request(name: &str, mappers: Vec<(HostId, u64)>, reducer: HostId) -> ReductionRequest {
    ReductionRequest {
        name: name.to_owned(),
        shape: Shape {
            operator: Operator::Add,
            keys: KeyClass::B8,
            values: ValueClass::I64,
        },
        mappers,
        reducer,
        slots: 10,
        tiers: 2,
        to_all: false,
    }
}

/// A topology with reductions, made from a seed.
fn case(seed: u64) -> (Topology, Vec<ReductionRequest>) {
    let mut rng = Rng::new(seed);
    let hosts = rng.between(2, 7) as usize;
    let topology = random_topology(&mut rng, 8, hosts);
    let reductions = rng.between(1, 3);
    let requests = (0..reductions).map(|number| {
        // All trees are tried, so few reductions have many mappers and tiers.
        let (mappers, tiers) = match rng.below(32) {
            0 => (4, rng.between(1, 4)),
            1 => (5, rng.between(1, 2)),
            _ => (rng.between(1, 3), rng.between(1, 4)),
        };
        let mappers = (0..mappers).map(|_| (HostId(rng.index(hosts)), rng.between(1, 1000)));
        let mappers = mappers.collect();
        let mut request = request(&format!("r{number}"), mappers, HostId(rng.index(hosts)));
        request.slots = [10, 20, 30][rng.index(3)];
        request.tiers = tiers as u16;
        request
    });
    let requests = requests.collect();
    (topology, requests)
}

/// Returns the number of links between each two nodes, where hosts do not forward.
fn distances(topology: &Topology) -> BTreeMap<(NodeId, NodeId), u64> {
    let hosts = (0..topology.hosts.len()).map(|n| NodeId::Host(HostId(n)));
    let switches = (0..topology.switches.len()).map(|n| NodeId::Switch(SwitchId(n)));
    let nodes: Vec<NodeId> = hosts.chain(switches).collect();
    let mut distances = BTreeMap::new();
    for from in &nodes {
        distances.insert((*from, *from), 0);
        let mut reached = vec![*from];
        for distance in 1.. {
            let mut next = Vec::new();
            for link in &topology.links {
                let [a, b] = link.ends.map(|end| end.node);
                for (a, b) in [(a, b), (b, a)] {
                    if reached.contains(&a) && !distances.contains_key(&(*from, b)) {
                        distances.insert((*from, b), distance);
                        next.push(b);
                    }
                }
            }
            reached = next;
            reached.retain(|node| matches!(node, NodeId::Switch(_)));
            if reached.is_empty() {
                break;
            }
        }
    }
    distances
}

/// Distances of a reduction over a set of switches, which it takes all.
struct Members<'r> {
    request: &'r ReductionRequest,
    between: Vec<Vec<u64>>,
    to_reducer: Vec<u64>,
    from_mapper: Vec<Vec<u64>>,
}

/// Returns, for each set of switches, the least sum of a tree of all of them, over all trees in
/// which each switch but the last has two inputs or more: another one changes nothing for the
/// better.
fn all_trees(
    topology: &Topology,
    request: &ReductionRequest,
    distances: &BTreeMap<(NodeId, NodeId), u64>,
) -> BTreeMap<usize, u64> {
    let mut best = BTreeMap::new();
    for set in 1usize..1 << topology.switches.len() {
        let numbers = (0..topology.switches.len()).filter(|n| set & (1 << n) != 0);
        let nodes: Vec<NodeId> = numbers.map(|n| NodeId::Switch(SwitchId(n))).collect();
        if nodes.len() > request.mappers.len() {
            continue;
        }
        let to_all = |from: NodeId| nodes.iter().map(|to| distances[&(from, *to)]).collect();
        let reducer = NodeId::Host(request.reducer);
        let mappers = request.mappers.iter();
        let members = Members {
            request,
            between: nodes.iter().map(|from| to_all(*from)).collect(),
            to_reducer: nodes
                .iter()
                .map(|from| distances[&(*from, reducer)])
                .collect(),
            from_mapper: mappers
                .map(|(host, _)| to_all(NodeId::Host(*host)))
                .collect(),
        };
        let mut least = u64::MAX;
        each_choice(nodes.len(), nodes.len(), &mut |parents| {
            if let Some(depths) = members.depths(parents) {
                each_choice(request.mappers.len(), nodes.len(), &mut |firsts| {
                    least = least.min(members.sum(parents, &depths, firsts));
                });
            }
        });
        best.insert(set, least);
    }
    best
}

/// Calls `visit` with all ways to choose one of `among` numbers `times` times.
fn each_choice(times: usize, among: usize, visit: &mut dyn FnMut(&[usize])) {
    let mut choice = vec![0; times];
    loop {
        visit(&choice);
        let Some(place) = choice.iter().rposition(|it| it + 1 < among) else {
            return;
        };
        choice[place] += 1;
        choice[place + 1..].fill(0);
    }
}

impl Members<'_> {
    /// Returns the number of switches after each, or `None` if these parents make no tree or one
    /// with too many tiers. The root is its own parent.
    fn depths(&self, parents: &[usize]) -> Option<Vec<u16>> {
        if (0..parents.len()).filter(|n| parents[*n] == *n).count() != 1 {
            return None;
        }
        let mut depths = vec![0; parents.len()];
        for (node, depth) in depths.iter_mut().enumerate() {
            let mut at = node;
            while parents[at] != at {
                at = parents[at];
                *depth += 1;
                if *depth >= self.request.tiers {
                    return None;
                }
            }
        }
        Some(depths)
    }

    fn sum(&self, parents: &[usize], depths: &[u16], firsts: &[usize]) -> u64 {
        let (mut least, mut most) = ([0; 8], [0; 8]);
        let mut sum = 0;
        for (mapper, first) in firsts.iter().enumerate() {
            let bytes = self.request.mappers[mapper].1;
            sum += 2 * bytes * self.from_mapper[mapper][*first];
            least[*first] = bytes.max(least[*first]);
            most[*first] += bytes;
        }
        for depth in (0..self.request.tiers).rev() {
            for node in (0..parents.len()).filter(|node| depths[*node] == depth) {
                let bytes = least[node] + most[node];
                let parent = parents[node];
                if parent == node {
                    sum += bytes * self.to_reducer[node];
                } else {
                    sum += bytes * self.between[node][parent];
                    least[parent] = least[node].max(least[parent]);
                    most[parent] += most[node];
                }
            }
        }
        sum
    }
}

/// Returns the least sum of all reductions over all placements that the slots allow.
fn best_of_all(topology: &Topology, requests: &[ReductionRequest]) -> Option<u64> {
    let distances = distances(topology);
    let slots = topology.switches.iter().map(|switch| match switch.plane {
        PlaneSpec::Aggregate { slots } => u64::from(slots),
        _ => 0,
    });
    let slots: Vec<u64> = slots.collect();
    let mut states = vec![(slots, 0)];
    for request in requests {
        let trees = all_trees(topology, request, &distances);
        // A set with a subset that is not worse is left out.
        let is_needed = |(set, sum): &(&usize, &u64)| {
            let mut others = trees.iter();
            !others.any(|(other, its)| other != *set && *other & **set == *other && its <= sum)
        };
        let trees: Vec<(&usize, &u64)> = trees.iter().filter(is_needed).collect();
        let mut next: BTreeMap<Vec<u64>, u64> = BTreeMap::new();
        for (free, before) in &states {
            for (set, sum) in &trees {
                let mut free = free.clone();
                let fits = free.iter_mut().enumerate().all(|(n, free)| {
                    let needed = if **set & (1 << n) != 0 {
                        request.needed()
                    } else {
                        0
                    };
                    let left = free.checked_sub(needed);
                    *free = left.unwrap_or(0);
                    left.is_some()
                });
                if fits {
                    let best = next.entry(free).or_insert(u64::MAX);
                    *best = (before + **sum).min(*best);
                }
            }
        }
        states = next.into_iter().collect();
    }
    states.into_iter().map(|(_, sum)| sum).min()
}

fn total(plan: &Plan) -> u64 {
    let sums = plan
        .reductions
        .iter()
        .map(|reduction| reduction.byte_hops.both());
    sums.sum()
}

/// Comparison of plans with the best placements.
#[derive(Default)]
struct Report {
    placed: u32,
    refused: u32,
    missed: u32,
    best: u32,
    worst: f64,
    worst_seed: u64,
}

fn compare(placement: Placement) -> Report {
    let mut report = Report::default();
    for seed in 0..TOPOLOGIES {
        let (topology, requests) = case(seed);
        let plan = Plan::with_placement(&topology, &requests, placement);
        match (plan, best_of_all(&topology, &requests)) {
            (Ok(plan), Some(best)) => {
                let links = plan.predicted_links(&topology);
                let on_links: PredictedBytes = links.iter().map(|link| link.bytes).sum();
                assert_eq!(on_links.both(), total(&plan), "seed {seed}");
                assert!(best <= total(&plan), "seed {seed}: better than the best");
                report.placed += 1;
                report.best += u32::from(total(&plan) == best);
                let ratio = total(&plan) as f64 / best as f64;
                if ratio > report.worst {
                    (report.worst, report.worst_seed) = (ratio, seed);
                }
            }
            (Err(PlanError::NoRoom { .. } | PlanError::NoSwitch { .. }), None) => {
                report.refused += 1
            }
            (Err(_), Some(_)) => report.missed += 1,
            (plan, best) => panic!("seed {seed}: {plan:?}, {best:?}"),
        }
    }
    let Report {
        placed,
        refused,
        missed,
        best,
        worst,
        worst_seed,
    } = report;
    println!(
        "{placement:?}: {placed} placed, {best} of them as the best of all, the worst {worst:.3} \
         of it (seed {worst_seed}); {refused} without room, {missed} with room that was not found"
    );
    report
}

#[test]
fn plans_of_small_topologies_are_near_the_best_of_all_placements() {
    let report = compare(Placement::Moves);
    assert!(
        report.worst <= MOST,
        "seed {}: {}",
        report.worst_seed,
        report.worst
    );
    assert_eq!(report.missed, 0);
    assert!(report.placed > 500, "few cases have room");
    assert!(report.refused > 0, "no case is without room");
    let greedy = compare(Placement::Greedy);
    assert!(
        greedy.worst > report.worst && greedy.best < report.best,
        "moves improve nothing"
    );
}

#[test]
fn the_same_input_has_the_same_plan() {
    for seed in 0..50 {
        let (topology, requests) = case(seed);
        assert_eq!(
            Plan::new(&topology, &requests),
            Plan::new(&topology, &requests)
        );
    }
}

#[test]
fn a_fat_tree_of_128_hosts_is_planned_in_short_time() {
    let topology = fat_tree(8);
    for tiers in 1..=4 {
        let mappers = (0..127).map(|host| (HostId(host), 1_000 + 7 * host as u64));
        let mut request = request("r", mappers.collect(), HostId(127));
        request.tiers = tiers;
        let began = Instant::now();
        let plan = Plan::new(&topology, &[request.clone()]);
        let took = began.elapsed();
        let plan = plan.unwrap_or_else(|error| panic!("{error}"));
        let [planned] = &plan.reductions[..] else {
            panic!("there is one reduction");
        };
        let greedy = Plan::with_placement(&topology, &[request], Placement::Greedy);
        let greedy = greedy.map_or(0, |greedy| total(&greedy));
        println!(
            "128 hosts, {tiers} tiers: {took:?}, {} switches reduce, {:?}, greedy {greedy}",
            planned.switches.len(),
            planned.byte_hops
        );
        // Without optimisation the time means little.
        let most = if cfg!(debug_assertions) { 10_000 } else { 100 };
        assert!(took < Duration::from_millis(most), "{took:?}");
        assert!(total(&plan) <= greedy);
    }
}
