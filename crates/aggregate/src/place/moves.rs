//! Single moves: all trees that differ from a tree in one choice.

use crate::graph::NodeIndex;

use super::greedy::{above, below};
use super::survey::Survey;
use super::tree::{Input, Problem, Tree};

/// Calls `visit` with each tree that one move makes, until it returns true. `places` are switches
/// that may be added. Moves that cannot lower the sum are left out.
pub(super) fn visit(
    problem: &Problem<'_>,
    tree: &Tree,
    places: &[NodeIndex],
    visit: &mut dyn FnMut(Tree) -> bool,
) -> bool {
    let free: Vec<NodeIndex> = places.iter().copied().filter(|at| !tree.has(*at)).collect();
    let Some(survey) = Survey::new(problem, tree) else {
        return false;
    };
    visit_places(&survey, &free, visit)
        || visit_additions(&survey, &free, visit)
        || visit_removals(tree, visit)
        || visit_inputs(problem, tree, visit)
}

/// Calls `visit` with each tree in which a node is at one of these places or removed, until it
/// returns true.
pub(super) fn visit_leaving(
    tree: &Tree,
    node: usize,
    places: &[NodeIndex],
    visit: &mut dyn FnMut(Tree) -> bool,
) -> bool {
    let free = places.iter().filter(|at| !tree.has(**at));
    let moved = free.map(|at| tree.moved(node, *at));
    let mut rest = tree.clone();
    let rest = rest.remove(node).then_some(rest);
    moved.chain(rest).any(visit)
}

/// Another switch in the place of a node, or two nodes in each other's place.
fn visit_places(
    survey: &Survey<'_, '_>,
    free: &[NodeIndex],
    visit: &mut dyn FnMut(Tree) -> bool,
) -> bool {
    let tree = survey.tree;
    let nodes = 0..tree.nodes.len();
    let moved = nodes.clone().flat_map(|node| {
        let free = free.iter();
        let free = free.filter(move |at| survey.saves_moved(node, **at));
        free.map(move |at| tree.moved(node, *at))
    });
    let swapped = nodes.clone().flat_map(|a| {
        nodes.clone().skip(a + 1).map(move |b| {
            let mut next = tree.moved(a, tree.nodes[b].at);
            next.nodes[b].at = tree.nodes[a].at;
            next
        })
    });
    moved.chain(swapped).any(visit)
}

/// One more switch.
fn visit_additions(
    survey: &Survey<'_, '_>,
    free: &[NodeIndex],
    visit: &mut dyn FnMut(Tree) -> bool,
) -> bool {
    let (problem, tree) = (survey.problem, survey.tree);
    let mut additions = free.iter().flat_map(|at| {
        let parents = (0..tree.nodes.len()).filter(|parent| survey.saved_below(*at, *parent) > 0);
        let below = parents.map(|parent| below(problem, tree, *at, parent));
        below.chain([above(problem, tree, *at)])
    });
    additions.any(visit)
}

/// One switch less.
fn visit_removals(tree: &Tree, visit: &mut dyn FnMut(Tree) -> bool) -> bool {
    let mut removals = (0..tree.nodes.len()).filter_map(|node| {
        let mut next = tree.clone();
        next.remove(node).then_some(next)
    });
    removals.any(visit)
}

/// Another next switch of a mapper or of a switch.
fn visit_inputs(problem: &Problem<'_>, tree: &Tree, visit: &mut dyn FnMut(Tree) -> bool) -> bool {
    let onward = tree.onward(problem);
    let mappers = tree.of_mapper.iter().enumerate();
    let mappers = mappers.map(|(mapper, first)| (Input::Mapper(mapper), *first));
    let nodes = tree.nodes.iter().enumerate().skip(1);
    let nodes = nodes.map(|(node, it)| (Input::Node(node), it.parent));
    let mut changed = mappers.chain(nodes).flat_map(|(input, own)| {
        let others = (0..tree.nodes.len()).filter(move |to| Some(*to) != own);
        let onward = &onward;
        let others = others.filter(move |to| {
            let is_other = input != Input::Node(*to);
            is_other && own.is_some_and(|own| can_gain(problem, tree, onward, input, (own, *to)))
        });
        others.map(move |to| {
            let mut next = tree.clone();
            next.attach(input, Some(to));
            next
        })
    });
    changed.any(visit)
}

/// Returns false if an input cannot lower the sum by another next switch: its own links and its
/// share of all bytes grow by more than its old path could have less.
fn can_gain(
    problem: &Problem<'_>,
    tree: &Tree,
    onward: &[u64],
    input: Input,
    (own, to): (usize, usize),
) -> bool {
    let begin = tree.begin(problem, input);
    let hops = |node: usize| u64::from(problem.ways.distance(begin, tree.nodes[node].at));
    2 * (hops(own) + onward[own]) > 2 * hops(to) + onward[to]
}
