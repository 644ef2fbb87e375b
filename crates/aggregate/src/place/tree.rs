//! The tree of switches that reduce a reduction's flows, and its sum of bytes times hops.

use std::ops::{Add, AddAssign};

use crate::graph::{NodeIndex, UNREACHABLE, Ways};

/// Bytes of a link, or bytes times hops of a placement, in the two extreme cases of
/// inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PredictedBytes {
    /// All mappers have the same keys, so that a switch sends on the largest of its inputs.
    pub least: u64,
    /// No two mappers have a key in common, so that a switch sends on all of its inputs.
    pub most: u64,
}

impl PredictedBytes {
    /// Returns the bytes of a flow that was not reduced.
    pub(crate) fn of_mapper(bytes: u64) -> PredictedBytes {
        PredictedBytes {
            least: bytes,
            most: bytes,
        }
    }

    /// Returns the sum of both cases, by which placements are compared.
    pub fn both(&self) -> u64 {
        self.least + self.most
    }

    /// Reduces a flow with another one.
    pub(crate) fn reduce(&mut self, other: PredictedBytes) {
        self.least = self.least.max(other.least);
        self.most += other.most;
    }

    /// Returns the bytes times a number of hops.
    pub(crate) fn times(&self, hops: u32) -> PredictedBytes {
        PredictedBytes {
            least: self.least * u64::from(hops),
            most: self.most * u64::from(hops),
        }
    }
}

impl Add for PredictedBytes {
    type Output = PredictedBytes;

    fn add(self, other: PredictedBytes) -> PredictedBytes {
        PredictedBytes {
            least: self.least + other.least,
            most: self.most + other.most,
        }
    }
}

impl AddAssign for PredictedBytes {
    fn add_assign(&mut self, other: PredictedBytes) {
        *self = *self + other;
    }
}

impl std::iter::Sum for PredictedBytes {
    fn sum<I: Iterator<Item = PredictedBytes>>(all: I) -> PredictedBytes {
        all.fold(PredictedBytes::default(), Add::add)
    }
}

/// A reduction without switches yet.
pub(crate) struct Problem<'g> {
    pub(crate) ways: Ways<'g>,
    /// The hosts of the mappers, with their bytes: at least one.
    pub(crate) mappers: Vec<(NodeIndex, u64)>,
    /// Switches that reduce on a path, at most.
    pub(crate) tiers: usize,
    /// Slots that it takes in a switch.
    pub(crate) needed: u64,
}

impl Problem<'_> {
    /// Returns those of some switches to which a mapper's host has a link.
    pub(crate) fn nearest(&self, switches: &[NodeIndex]) -> Vec<NodeIndex> {
        let is_near = |at: &&NodeIndex| {
            let mut mappers = self.mappers.iter();
            mappers.any(|(host, _)| self.ways.distance(*host, **at) == 1)
        };
        switches.iter().filter(is_near).copied().collect()
    }

    /// Returns the bytes of the mappers.
    pub(crate) fn bytes(&self) -> impl Iterator<Item = u64> {
        self.mappers.iter().map(|(_, bytes)| *bytes)
    }
}

/// A switch of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TreeNode {
    pub(crate) at: NodeIndex,
    /// The next switch of the tree. `None`: the reducer.
    pub(crate) parent: Option<usize>,
}

/// Input of a switch of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Mapper(usize),
    Node(usize),
}

/// The switches of a reduction. The flows of all mappers that can pass the root do so, so that
/// the reducer's link carries each key once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    /// The root is the first one.
    pub(crate) nodes: Vec<TreeNode>,
    /// For each mapper: the first switch that reduces its flow. `None`: it goes to the reducer.
    pub(crate) of_mapper: Vec<Option<usize>>,
}

impl Tree {
    /// Returns the tree of no switch.
    pub(crate) fn direct(problem: &Problem<'_>) -> Tree {
        Tree {
            nodes: Vec::new(),
            of_mapper: vec![None; problem.mappers.len()],
        }
    }

    /// Returns the tree of one switch, or `None` if no mapper's flow can pass it.
    pub(crate) fn of_root(problem: &Problem<'_>, at: NodeIndex) -> Option<Tree> {
        let ways = &problem.ways;
        if ways.distance(at, ways.reducer) == UNREACHABLE {
            return None;
        }
        let mappers = problem.mappers.iter();
        let of_mapper: Vec<Option<usize>> = mappers
            .map(|(host, _)| (ways.distance(*host, at) != UNREACHABLE).then_some(0))
            .collect();
        let is_used = of_mapper.iter().any(Option::is_some);
        is_used.then(|| Tree {
            nodes: vec![TreeNode { at, parent: None }],
            of_mapper,
        })
    }

    /// Returns true if a switch is in the tree.
    pub(crate) fn has(&self, at: NodeIndex) -> bool {
        self.nodes.iter().any(|node| node.at == at)
    }

    /// Returns the inputs of a node.
    pub(crate) fn inputs(&self, node: usize) -> impl Iterator<Item = Input> {
        let mappers = self.of_mapper.iter().enumerate();
        let mappers = mappers.filter(move |(_, first)| **first == Some(node));
        let nodes = self.nodes.iter().enumerate();
        let nodes = nodes.filter(move |(_, other)| other.parent == Some(node));
        let mappers = mappers.map(|(mapper, _)| Input::Mapper(mapper));
        mappers.chain(nodes.map(|(node, _)| Input::Node(node)))
    }

    /// Returns the number of switches that reduce after a node, or `None` if there are more than
    /// the tiers allow.
    fn depth(&self, problem: &Problem<'_>, node: usize) -> Option<usize> {
        let mut depth = 0;
        let mut at = node;
        while let Some(parent) = self.nodes[at].parent {
            depth += 1;
            if depth >= problem.tiers {
                return None;
            }
            at = parent;
        }
        Some(depth)
    }

    /// Returns the nodes in an order in which each comes before its parent, or `None` if there
    /// are more tiers than allowed.
    pub(crate) fn upwards(&self, problem: &Problem<'_>) -> Option<Vec<usize>> {
        let mut depths = Vec::with_capacity(self.nodes.len());
        for node in 0..self.nodes.len() {
            depths.push(self.depth(problem, node)?);
        }
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by_key(|node| std::cmp::Reverse(depths[*node]));
        Some(order)
    }

    /// Returns the bytes that each node sends on, from those of the mappers.
    pub(crate) fn carried(
        &self,
        mappers: impl Iterator<Item = u64>,
        upwards: &[usize],
    ) -> Vec<PredictedBytes> {
        let mut carried = vec![PredictedBytes::default(); self.nodes.len()];
        for (bytes, first) in mappers.zip(&self.of_mapper) {
            if let Some(node) = first {
                carried[*node].reduce(PredictedBytes::of_mapper(bytes));
            }
        }
        for node in upwards {
            if let Some(parent) = self.nodes[*node].parent {
                let bytes = carried[*node];
                carried[parent].reduce(bytes);
            }
        }
        carried
    }

    /// Returns the sum of bytes times hops, or `None` if the tree has too many tiers or a flow
    /// has no way.
    pub(crate) fn byte_hops(&self, problem: &Problem<'_>) -> Option<PredictedBytes> {
        let upwards = self.upwards(problem)?;
        let carried = self.carried(problem.bytes(), &upwards);
        let ways = &problem.ways;
        let place = |node: Option<usize>| node.map_or(ways.reducer, |node| self.nodes[node].at);
        let mut sum = PredictedBytes::default();
        for ((host, bytes), first) in problem.mappers.iter().zip(&self.of_mapper) {
            let hops = ways.distance(*host, place(*first));
            if hops == UNREACHABLE {
                return None;
            }
            sum += PredictedBytes::of_mapper(*bytes).times(hops);
        }
        for (node, carried) in self.nodes.iter().zip(&carried) {
            let hops = ways.distance(node.at, place(node.parent));
            if hops == UNREACHABLE {
                return None;
            }
            sum += carried.times(hops);
        }
        Some(sum)
    }

    /// Returns the links from each node to the reducer, by way of the nodes after it.
    pub(crate) fn onward(&self, problem: &Problem<'_>) -> Vec<u64> {
        let ways = &problem.ways;
        let onward = (0..self.nodes.len()).map(|node| {
            let (mut at, mut hops) = (self.nodes[node], 0);
            while let Some(parent) = at.parent {
                hops += u64::from(ways.distance(at.at, self.nodes[parent].at));
                at = self.nodes[parent];
            }
            hops + u64::from(ways.distance(at.at, ways.reducer))
        });
        onward.collect()
    }

    /// Returns the tree with another switch in a node's place.
    pub(crate) fn moved(&self, node: usize, at: NodeIndex) -> Tree {
        let mut moved = self.clone();
        moved.nodes[node].at = at;
        moved
    }

    /// Gives an input another next node.
    pub(crate) fn attach(&mut self, input: Input, to: Option<usize>) {
        match input {
            Input::Mapper(mapper) => self.of_mapper[mapper] = to,
            Input::Node(node) => self.nodes[node].parent = to,
        }
    }

    /// Returns the place at which an input begins.
    pub(crate) fn begin(&self, problem: &Problem<'_>, input: Input) -> NodeIndex {
        match input {
            Input::Mapper(mapper) => problem.mappers[mapper].0,
            Input::Node(node) => self.nodes[node].at,
        }
    }

    /// Removes a node. Its inputs go on to its parent. In place of the root, its first node as
    /// an input becomes the root. Returns false if nothing could be in the root's place.
    pub(crate) fn remove(&mut self, node: usize) -> bool {
        let heir = match self.nodes[node].parent {
            Some(parent) => parent,
            None => {
                let mut others = self.nodes.iter();
                let Some(heir) = others.position(|other| other.parent == Some(node)) else {
                    return false;
                };
                self.nodes[heir].parent = None;
                heir
            }
        };
        let inputs: Vec<Input> = self.inputs(node).collect();
        for input in inputs {
            self.attach(input, Some(heir));
        }
        // The last node takes the number of the removed one; the root stays the first.
        let last = self.nodes.len() - 1;
        let mut renumber = |a: usize, b: usize| {
            self.nodes.swap(a, b);
            let swapped = |number: usize| match number {
                number if number == a => b,
                number if number == b => a,
                number => number,
            };
            for node in &mut self.nodes {
                node.parent = node.parent.map(swapped);
            }
            for first in &mut self.of_mapper {
                *first = first.map(swapped);
            }
        };
        if node == 0 {
            renumber(0, heir);
            renumber(heir, last);
        } else {
            renumber(node, last);
        }
        self.nodes.pop();
        true
    }

    /// Removes switches other than the root with less than two inputs, which combine nothing, and
    /// lets each mapper pass the root that can.
    pub(crate) fn settle(&mut self, problem: &Problem<'_>) {
        for (first, (host, _)) in self.of_mapper.iter_mut().zip(&problem.mappers) {
            if let Some(root) = self.nodes.first()
                && first.is_none()
                && problem.ways.distance(*host, root.at) != UNREACHABLE
            {
                *first = Some(0);
            }
        }
        while let Some(idle) = (1..self.nodes.len()).find(|node| self.inputs(*node).count() < 2) {
            self.remove(idle);
        }
    }
}
