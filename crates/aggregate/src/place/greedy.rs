//! Trees made switch by switch, each where it makes the sum least.

use crate::graph::NodeIndex;

use super::survey::{Survey, closer_by};
use super::tree::{PredictedBytes, Problem, Tree, TreeNode};

/// Returns the best tree of one switch with its sum: all switches with room are tried, and the
/// first name wins ties. A switch that more flows can pass is better than any with a lower sum.
pub(super) fn best_root(
    problem: &Problem<'_>,
    with_room: &[NodeIndex],
) -> Option<(Tree, PredictedBytes)> {
    let trees = with_room.iter().filter_map(|at| {
        let tree = Tree::of_root(problem, *at)?;
        let sum = tree.byte_hops(problem)?;
        Some((tree, sum))
    });
    trees.min_by_key(|(tree, sum)| (missed(tree), sum.both()))
}

/// Returns the number of mappers that do not pass the root.
pub(super) fn missed(tree: &Tree) -> usize {
    let first = tree.of_mapper.iter();
    first.filter(|first| first.is_none()).count()
}

/// The places in a tree where switches are added.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Places {
    /// Before a switch of the tree.
    Below,
    /// Also between the root and the reducer.
    All,
}

/// Adds switches with room, each time the one that lowers the sum most, until none does.
pub(super) fn grow(
    problem: &Problem<'_>,
    tree: &mut Tree,
    with_room: &[NodeIndex],
    places: Places,
) {
    while let Some(next) = best_addition(problem, tree, with_room, places) {
        *tree = next;
    }
}

/// Returns the tree with the switch that lowers the sum most.
fn best_addition(
    problem: &Problem<'_>,
    tree: &Tree,
    with_room: &[NodeIndex],
    places: Places,
) -> Option<Tree> {
    let before = tree.byte_hops(problem)?.both();
    let survey = Survey::new(problem, tree)?;
    let mut best: Option<(u64, Tree)> = None;
    let mut consider = |saving: u64, make: &dyn Fn() -> Option<Tree>| {
        if saving > best.as_ref().map_or(0, |(most, _)| *most)
            && let Some(tree) = make()
        {
            best = Some((saving, tree));
        }
    };
    for at in with_room.iter().filter(|at| !tree.has(**at)) {
        for parent in 0..tree.nodes.len() {
            consider(survey.saved_below(*at, parent), &|| {
                let next = below(problem, tree, *at, parent);
                next.byte_hops(problem).map(|_| next)
            });
        }
        if places == Places::Below {
            continue;
        }
        let next = above(problem, tree, *at);
        let after = next.byte_hops(problem).map_or(u64::MAX, |sum| sum.both());
        consider(before.saturating_sub(after), &|| Some(next.clone()));
    }
    best.map(|(_, tree)| tree)
}

/// Returns the tree with a switch before a node: it takes the inputs to which it is nearer.
pub(super) fn below(problem: &Problem<'_>, tree: &Tree, at: NodeIndex, parent: usize) -> Tree {
    let mut next = tree.clone();
    let own = next.nodes.len();
    next.nodes.push(TreeNode {
        at,
        parent: Some(parent),
    });
    let place = tree.nodes[parent].at;
    for input in tree.inputs(parent) {
        if closer_by(problem, tree, input, (at, place)) > 0 {
            next.attach(input, Some(own));
        }
    }
    next
}

/// Returns the tree with a switch between the root and the reducer: it takes the inputs of the
/// old root to which it is nearer.
pub(super) fn above(problem: &Problem<'_>, tree: &Tree, at: NodeIndex) -> Tree {
    let mut next = tree.clone();
    let old = next.nodes.len();
    let Some(root) = tree.nodes.first().copied() else {
        return next;
    };
    next.nodes.push(TreeNode {
        at: root.at,
        parent: Some(0),
    });
    next.nodes[0].at = at;
    for input in tree.inputs(0) {
        let is_nearer = closer_by(problem, tree, input, (at, root.at)) > 0;
        next.attach(input, Some(if is_nearer { 0 } else { old }));
    }
    next
}
