//! What a switch more, or in another's place, would save in a tree, without making the tree.

use crate::graph::{NodeIndex, UNREACHABLE};

use super::tree::{Input, PredictedBytes, Problem, Tree};

/// A tree with the bytes and inputs of its nodes.
pub(super) struct Survey<'a, 'g> {
    pub(super) problem: &'a Problem<'g>,
    pub(super) tree: &'a Tree,
    carried: Vec<PredictedBytes>,
    inputs: Vec<Vec<Input>>,
}

impl<'a, 'g> Survey<'a, 'g> {
    /// Surveys a tree. Returns `None` if it has too many tiers.
    pub(super) fn new(problem: &'a Problem<'g>, tree: &'a Tree) -> Option<Survey<'a, 'g>> {
        let carried = tree.carried(problem.bytes(), &tree.upwards(problem)?);
        let inputs = (0..tree.nodes.len()).map(|node| tree.inputs(node).collect());
        Some(Survey {
            problem,
            tree,
            carried,
            inputs: inputs.collect(),
        })
    }

    fn bytes(&self, input: Input) -> PredictedBytes {
        match input {
            Input::Mapper(mapper) => PredictedBytes::of_mapper(self.problem.mappers[mapper].1),
            Input::Node(node) => self.carried[node],
        }
    }

    /// Returns what a switch before a node saves, if it takes the inputs to which it is nearer. It
    /// changes the bytes of no other link, so that is the difference of its inputs' ways and its
    /// own.
    pub(super) fn saved_below(&self, at: NodeIndex, parent: usize) -> u64 {
        let place = self.tree.nodes[parent].at;
        let onward = self.problem.ways.distance(at, place);
        if onward == UNREACHABLE {
            return 0;
        }
        let mut saved = 0;
        let mut own = PredictedBytes::default();
        for input in &self.inputs[parent] {
            let closer = closer_by(self.problem, self.tree, *input, (at, place));
            if closer > 0 {
                let bytes = self.bytes(*input);
                saved += bytes.both() * closer;
                own.reduce(bytes);
            }
        }
        saved.saturating_sub(own.times(onward).both())
    }

    /// Returns true if another switch in a node's place lowers the sum. It changes the bytes of no
    /// other link.
    pub(super) fn saves_moved(&self, node: usize, at: NodeIndex) -> bool {
        let ways = &self.problem.ways;
        let own = self.tree.nodes[node];
        let next = own.parent.map(|parent| self.tree.nodes[parent].at);
        let next = next.unwrap_or(ways.reducer);
        let sum = |at: NodeIndex| {
            let product = |bytes: PredictedBytes, hops: u32| bytes.both() * u64::from(hops);
            let inputs = self.inputs[node].iter().map(|input| {
                let begin = self.tree.begin(self.problem, *input);
                product(self.bytes(*input), ways.distance(begin, at))
            });
            let onward = product(self.carried[node], ways.distance(at, next));
            inputs.fold(onward, u64::saturating_add)
        };
        sum(at) < sum(own.at)
    }
}

/// Returns how many hops nearer an input is to the first place than to the second.
pub(super) fn closer_by(
    problem: &Problem<'_>,
    tree: &Tree,
    input: Input,
    (place, than): (NodeIndex, NodeIndex),
) -> u64 {
    let begin = tree.begin(problem, input);
    let (new, old) = (
        problem.ways.distance(begin, place),
        problem.ways.distance(begin, than),
    );
    // An unreachable place is the farthest.
    old.saturating_sub(new).into()
}
