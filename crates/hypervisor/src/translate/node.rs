//! A function's code as a graph of sequences of primitives, branches and matches, from which stages
//! are built. Equal nodes are shared, so parser paths share code that does not differ.

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
    /// The end of the stages.
    End,
    /// Primitives, at most as many as a stage performs.
    Run(Vec<Primitive>, NodeId),
    /// Continues at the first node if any of the patterns matches, otherwise at the second.
    Branch(Vec<Cube>, NodeId, NodeId),
    /// The application of a table.
    Match(Match),
    /// Forwards to another node. It is the head of a loop, created before the loop's body.
    Loop(u32),
}

/// The application of a table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Match {
    pub(super) table: TableId,
    /// Its key.
    pub(super) keys: Vec<Bits>,
    /// Continuations of each action, after a hit and after a miss.
    pub(super) edges: Vec<Edge>,
}

/// Continuations of a table's action.
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
    /// The bodies of loops, by the number of their head.
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

    /// Creates a loop's head, which [`Nodes::close`] completes.
    pub(super) fn open(&mut self) -> NodeId {
        self.heads.push(None);
        self.add(Node::Loop(self.heads.len() as u32 - 1))
    }

    pub(super) fn close(&mut self, head: NodeId, body: NodeId) {
        if let Node::Loop(number) = self.all[head] {
            self.heads[number as usize] = Some(body);
        }
    }

    /// Returns the node, or for a loop's head its body.
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

    /// Creates nodes for primitives, followed by `next`.
    pub(super) fn run(&mut self, primitives: Vec<Primitive>, next: NodeId) -> NodeId {
        let mut next = next;
        let mut left = merged(primitives);
        while !left.is_empty() {
            let own = left.split_off(left.len().saturating_sub(STEPS));
            next = self.run_some(own, next);
        }
        next
    }

    /// Creates a node for at most one stage of primitives, merged with those of `next` if they fit
    /// into the same stage.
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
