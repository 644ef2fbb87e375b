//! A function's code as a graph of what stages are made of: runs of primitives, branches, matches. Equal nodes are one node, so paths through the parser share
//! the code in which they do not differ.

use std::collections::HashMap;

use bits::{IdVec, Value, define_id};
use ir::TableId;

use super::pattern::{Bits, Cube};
use super::shuffle::merged;
use crate::shape::STEPS;

define_id! {
    /// A node of the graph.
    pub(super) struct NodeId;
}

/// A primitive: an action of the emitted program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Primitive {
    pub(super) action: &'static str,
    pub(super) args: Vec<Value>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Node {
    /// The line of stages ends.
    End,
    /// Primitives, at most as many as a stage performs.
    Run(Vec<Primitive>, NodeId),
    /// One way if any of the patterns fits, the other otherwise.
    Branch(Vec<Cube>, NodeId, NodeId),
    /// A table of the function.
    Match(Match),
    /// Goes on at another node: the head of a loop, made before what it goes on with.
    Loop(u32),
}

/// A table of the function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Match {
    pub(super) table: TableId,
    /// Its key.
    pub(super) keys: Vec<Bits>,
    /// For each of its actions: where a hit goes on, and a miss.
    pub(super) edges: Vec<Edge>,
}

/// Where a table's action goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Edge {
    pub(super) hit: NodeId,
    pub(super) miss: NodeId,
}

/// All nodes.
#[derive(Debug)]
pub(super) struct Nodes {
    all: IdVec<NodeId, Node>,
    known: HashMap<Node, NodeId>,
    /// What the heads of loops go on with.
    heads: Vec<Option<NodeId>>,
}

impl Nodes {
    pub(super) fn new() -> Nodes {
        Nodes {
            all: IdVec::default(),
            known: HashMap::new(),
            heads: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, node: Node) -> NodeId {
        if let Some(id) = self.known.get(&node) {
            return *id;
        }
        let id = self.all.push(node.clone());
        self.known.insert(node, id);
        id
    }

    pub(super) fn end(&mut self) -> NodeId {
        self.add(Node::End)
    }

    /// A loop's head, which [`Nodes::close`] ends.
    pub(super) fn open(&mut self) -> NodeId {
        self.heads.push(None);
        self.add(Node::Loop(self.heads.len() as u32 - 1))
    }

    pub(super) fn close(&mut self, head: NodeId, body: NodeId) {
        if let Node::Loop(number) = self.all[head] {
            self.heads[number as usize] = Some(body);
        }
    }

    /// The node, or what it goes on with.
    pub(super) fn resolve(&self, id: NodeId) -> NodeId {
        match self.all[id] {
            Node::Loop(number) => match self.heads[number as usize] {
                Some(body) if body != id => self.resolve(body),
                _ => id,
            },
            _ => id,
        }
    }

    pub(super) fn get(&self, id: NodeId) -> &Node {
        &self.all[self.resolve(id)]
    }

    /// Primitives, then `next`.
    pub(super) fn run(&mut self, primitives: Vec<Primitive>, next: NodeId) -> NodeId {
        let mut next = next;
        let mut left = merged(primitives);
        while !left.is_empty() {
            let own = left.split_off(left.len().saturating_sub(STEPS));
            next = self.run_some(own, next);
        }
        next
    }

    /// A few primitives, in one stage with those behind if they are few enough.
    fn run_some(&mut self, mut own: Vec<Primitive>, next: NodeId) -> NodeId {
        let after = match &self.all[next] {
            Node::Run(more, after) => {
                let both = merged(own.iter().chain(more).cloned().collect());
                (both.len() <= STEPS).then_some((both, *after))
            }
            _ => None,
        };
        let mut next = next;
        if let Some((both, after)) = after {
            (own, next) = (both, after);
        }
        self.add(Node::Run(own, next))
    }

    pub(super) fn branch(&mut self, cubes: Vec<Cube>, then: NodeId, otherwise: NodeId) -> NodeId {
        if then == otherwise || cubes.is_empty() {
            return otherwise;
        }
        if cubes.iter().any(|cube| cube.0.is_empty()) {
            return then;
        }
        self.add(Node::Branch(cubes, then, otherwise))
    }
}
