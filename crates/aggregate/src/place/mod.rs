//! The switches that reduce: where bytes times hops are least.
//!
//! The paper's greedy places one switch after the other. Single moves then lower the sum until
//! none does, from several starts where there are few switches.

mod greedy;
mod moves;
mod survey;
mod tree;

use std::cmp::Reverse;

use crate::graph::NodeIndex;
use greedy::Places;

pub use tree::PredictedBytes;
pub(crate) use tree::{Input, Problem, Tree};

/// The algorithm that chooses switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Each switch in turn where it makes the sum of bytes times hops least.
    Greedy,
    /// The greedy, then single moves until none lowers the sum.
    #[default]
    Moves,
}

/// Evaluations of a tree's inputs for which there is time in all starts.
const WORK: usize = 2_000_000;

/// The trees of all reductions, and the slots that are left.
#[derive(Clone)]
pub(crate) struct Placed<'p, 'g> {
    problems: &'p [Problem<'g>],
    /// Switches with slots.
    switches: &'p [NodeIndex],
    /// For each reduction: its tree.
    pub(crate) trees: Vec<Tree>,
    /// For each node: its slots that are free.
    pub(crate) free: Vec<u64>,
}

/// A placement to begin with.
struct Start {
    /// The order of the reductions.
    order: Vec<usize>,
    /// The root of one of them.
    root: Option<(usize, NodeIndex)>,
    /// The switches that are added first.
    first: First,
}

/// The switches that are added first, after the root.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    /// The switches of the mappers' hosts, then those where their flows meet.
    Nearest,
    /// Any.
    Any,
}

/// Error for a reduction that no switch has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FullError {
    /// The reduction.
    pub(crate) index: usize,
    /// The most slots that are free in a switch that its flows can pass.
    pub(crate) free: u64,
}

/// The reasons for a switch of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The sum without the switch, if another one could be the root.
    pub(crate) without: Option<PredictedBytes>,
    /// The other switches with room, with the sum if they had its place: the best ones first.
    pub(crate) others: Vec<(NodeIndex, PredictedBytes)>,
    /// The other switches that flows can pass, without room.
    pub(crate) full: Vec<NodeIndex>,
}

/// Places reductions on switches. `order` has the reductions that want a switch, as the greedy
/// takes them; `free` has each node's slots.
///
/// # Errors
/// No switch has room for a reduction.
pub(crate) fn place<'p, 'g>(
    problems: &'p [Problem<'g>],
    switches: &'p [NodeIndex],
    (order, free): (&[usize], Vec<u64>),
    placement: Placement,
) -> Result<Placed<'p, 'g>, FullError> {
    let empty = Placed {
        problems,
        switches,
        trees: problems.iter().map(Tree::direct).collect(),
        free,
    };
    let first = empty.begin(&Start {
        order: order.to_vec(),
        root: None,
        first: First::Nearest,
    });
    if placement == Placement::Greedy {
        return first;
    }
    let first = first.map(|placed| placed.improved(order));
    let starts = empty.starts(order).into_iter();
    let others = starts.filter_map(|start| empty.begin(&start).ok());
    let others = others.map(|placed| placed.improved(order));
    // Of equal sums, the first one.
    let all = first.clone().into_iter().chain(others);
    match all.min_by_key(Placed::weight) {
        Some(best) => Ok(best),
        None => first,
    }
}

impl Placed<'_, '_> {
    /// Returns further starts, as many as there is time for.
    fn starts(&self, order: &[usize]) -> Vec<Start> {
        let mut by_slots = order.to_vec();
        by_slots.sort_by_key(|index| Reverse(self.problems[*index].needed));
        let orders = (0..order.len()).map(|first| {
            let mut rotated = order.to_vec();
            let first = rotated.remove(first);
            rotated.insert(0, first);
            rotated
        });
        let orders = orders.chain([by_slots]);
        let any = |order: Vec<usize>, root| Start {
            order,
            root,
            first: First::Any,
        };
        let orders = orders.map(|order| any(order, None));
        let roots = order.iter().flat_map(|index| {
            let roots = self.switches.iter();
            roots.map(|at| any(order.to_vec(), Some((*index, *at))))
        });
        let mappers: usize = self.problems.iter().map(|p| p.mappers.len() + 1).sum();
        let work = mappers * mappers * self.switches.len() * self.switches.len();
        orders
            .chain(roots)
            .take(1.max(WORK / work.max(1)))
            .collect()
    }

    /// Places the roots, then further switches, each where it makes the sum least.
    fn begin(&self, start: &Start) -> Result<Self, FullError> {
        let mut placed = self.clone();
        if let Some((index, at)) = start.root
            && self.free[at.0] >= self.problems[index].needed
            && let Some(tree) = Tree::of_root(&self.problems[index], at)
        {
            placed.set(index, tree);
        }
        for index in &start.order {
            if placed.trees[*index].nodes.is_empty() {
                let problem = &self.problems[*index];
                let best = greedy::best_root(problem, &placed.with_room(*index));
                let (tree, _) = best.ok_or_else(|| placed.full_error(*index))?;
                placed.set(*index, tree);
            }
        }
        for index in &start.order {
            let mut tree = placed.trees[*index].clone();
            let problem = &self.problems[*index];
            let with_room = placed.with_room(*index);
            if start.first == First::Nearest {
                let nearest = problem.nearest(&with_room);
                greedy::grow(problem, &mut tree, &nearest, Places::Below);
            }
            greedy::grow(problem, &mut tree, &with_room, Places::All);
            placed.set(*index, tree);
        }
        Ok(placed)
    }

    fn full_error(&self, index: usize) -> FullError {
        let problem = &self.problems[index];
        let mut passed = self.switches.to_vec();
        passed.retain(|at| Tree::of_root(problem, *at).is_some());
        let free = passed.iter().map(|at| self.free[at.0]).max();
        FullError {
            index,
            free: free.unwrap_or(0),
        }
    }

    /// Lowers the sum by single moves of a reduction, and where a switch is full by one of another
    /// reduction that makes room, until there is none.
    fn improved(mut self, order: &[usize]) -> Self {
        loop {
            let mut is_better = false;
            for index in order {
                while let Some(tree) = self.better(*index) {
                    self.set(*index, tree);
                    is_better = true;
                }
            }
            for index in order {
                while let Some((tree, other, other_tree)) = self.better_with(*index) {
                    self.set(other, Tree::direct(&self.problems[other]));
                    self.set(*index, tree);
                    self.set(other, other_tree);
                    is_better = true;
                }
            }
            if !is_better {
                return self;
            }
        }
    }

    /// Returns a tree with a lower sum for a reduction.
    fn better(&self, index: usize) -> Option<Tree> {
        let problem = &self.problems[index];
        let tree = &self.trees[index];
        let before = weight(problem, tree);
        let mut found = None;
        moves::visit(problem, tree, &self.with_room(index), &mut |mut next| {
            next.settle(problem);
            let is_better = weight(problem, &next) < before;
            found = is_better.then_some(next);
            is_better
        });
        found
    }

    /// Returns a tree for a reduction that uses a full switch, and another reduction with a tree
    /// that leaves it, where the sum of both is lower.
    fn better_with(&self, index: usize) -> Option<(Tree, usize, Tree)> {
        let (problem, tree) = (&self.problems[index], &self.trees[index]);
        let before = weight(problem, tree);
        let is_full = |at: &&NodeIndex| self.free[at.0] < problem.needed && !tree.has(**at);
        for at in self.switches.iter().filter(is_full) {
            for (other, problem_other) in self.problems.iter().enumerate() {
                let its = &self.trees[other];
                let room = self.free[at.0] + problem_other.needed;
                let node = its.nodes.iter().position(|node| node.at == *at);
                let Some(node) = node.filter(|_| other != index && room >= problem.needed) else {
                    continue;
                };
                let before_other = weight(problem_other, its);
                let mut found = None;
                moves::visit(problem, tree, &[*at], &mut |mut next| {
                    next.settle(problem);
                    let after = weight(problem, &next);
                    if after >= before || !next.has(*at) {
                        return false;
                    }
                    let mut placed = self.clone();
                    placed.set(other, Tree::direct(problem_other));
                    placed.set(index, next.clone());
                    let mut places = placed.with_room(other);
                    places.retain(|place| place != at);
                    moves::visit_leaving(its, node, &places, &mut |mut its_next| {
                        its_next.settle(problem_other);
                        let after_other = weight(problem_other, &its_next);
                        let is_placed = its_next.nodes.iter().all(|n| places.contains(&n.at));
                        let missed = after.0 + after_other.0 <= before.0 + before_other.0;
                        let sum = after.1.saturating_add(after_other.1);
                        if is_placed && missed && sum < before.1 + before_other.1 {
                            found = Some((next.clone(), other, its_next));
                        }
                        found.is_some()
                    })
                });
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// Returns the switches with room for a reduction.
    pub(crate) fn with_room(&self, index: usize) -> Vec<NodeIndex> {
        let needed = self.problems[index].needed;
        let all = self.switches.iter().copied();
        all.filter(|at| self.free[at.0] >= needed).collect()
    }

    /// Returns what is given of a reduction.
    pub(crate) fn problem(&self, index: usize) -> &Problem<'_> {
        &self.problems[index]
    }

    /// Returns the reasons for a node of a reduction's tree.
    pub(crate) fn choice(&self, index: usize, node: usize) -> Choice {
        let (problem, tree) = (&self.problems[index], &self.trees[index]);
        let mut rest = tree.clone();
        let without = rest.remove(node).then(|| rest.byte_hops(problem)).flatten();
        let mut others = Vec::new();
        let mut full = Vec::new();
        for at in self.switches.iter().filter(|at| !tree.has(**at)) {
            match tree.moved(node, *at).byte_hops(problem) {
                Some(_) if self.free[at.0] < problem.needed => full.push(*at),
                Some(sum) => others.push((*at, sum)),
                None => {}
            }
        }
        others.sort_by_key(|(at, sum)| (sum.both(), *at));
        Choice {
            without,
            others,
            full,
        }
    }

    /// Gives a reduction another tree.
    fn set(&mut self, index: usize, tree: Tree) {
        let needed = self.problems[index].needed;
        let old = std::mem::replace(&mut self.trees[index], tree);
        for node in old.nodes {
            self.free[node.at.0] += needed;
        }
        for node in &self.trees[index].nodes {
            self.free[node.at.0] -= needed;
        }
    }

    /// Returns what is least in the best placement.
    fn weight(&self) -> (usize, u64) {
        let all = self.problems.iter().zip(&self.trees);
        all.fold((0, 0), |(missed, sum), (problem, tree)| {
            let (m, s) = weight(problem, tree);
            (missed + m, sum.saturating_add(s))
        })
    }
}

/// Returns the mappers that do not pass the root, and the sum: what is least in the best tree.
fn weight(problem: &Problem<'_>, tree: &Tree) -> (usize, u64) {
    let sum = tree.byte_hops(problem);
    (greedy::missed(tree), sum.map_or(u64::MAX, |sum| sum.both()))
}
