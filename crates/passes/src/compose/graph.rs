//! A policy as a forward graph of steps and choices.

use bits::{IdVec, define_id};
use support::work::checkpoint;

use super::policy::{Branch, Condition, Item, Policy, StepName};

define_id! {
    /// A node of the graph: a step, a choice or an end.
    pub(super) struct NodeId;
}

/// A node of the graph.
#[derive(Debug)]
pub(super) struct Node<'p> {
    pub(super) what: What<'p>,
    pub(super) next: Next<'p>,
    /// The step with a program that all packets come from, if there is only one.
    pub(super) before: Option<NodeId>,
}

/// Kind of a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum What<'p> {
    /// Runs a program.
    Program(&'p StepName),
    /// Only decides: packets come to its choice from several steps or from none.
    Choice,
    /// Does nothing: the end of packets that skip the last choice.
    End,
}

/// Successor of a node.
#[derive(Debug)]
pub(super) enum Next<'p> {
    End,
    Node(NodeId),
    Choice {
        arms: Vec<(&'p Condition, NodeId)>,
        otherwise: NodeId,
    },
}

/// An edge of the graph under construction that has no target yet.
#[derive(Clone, Copy)]
enum Open {
    /// The edge after a node.
    Behind(NodeId),
    /// The edge of an empty arm of a node's choice.
    Arm(NodeId, usize),
    /// The edge that is taken if no arm of a node's choice is.
    Otherwise(NodeId),
}

/// Placeholder for a node that is not known yet.
const UNKNOWN: NodeId = NodeId::new(u32::MAX);

/// Builds the graph of a policy.
pub(super) fn graph(policy: &Policy) -> IdVec<NodeId, Node<'_>> {
    let mut layout = Layout {
        nodes: IdVec::new(),
    };
    let open = layout.line(&policy.line, Vec::new(), None);
    let passing: Vec<Open> = open
        .into_iter()
        .filter(|open| !matches!(open, Open::Behind(_)))
        .collect();
    if !passing.is_empty() {
        layout.node(What::End, passing, None);
    }
    layout.nodes
}

struct Layout<'p> {
    nodes: IdVec<NodeId, Node<'p>>,
}

impl<'p> Layout<'p> {
    /// Lays out a line after the open edges and returns its own open edges. All its packets come
    /// from `before`.
    fn line(
        &mut self,
        line: &'p [Item],
        mut open: Vec<Open>,
        mut before: Option<NodeId>,
    ) -> Vec<Open> {
        for item in line {
            checkpoint();
            match item {
                Item::Step(step) => {
                    let node = self.node(What::Program(step), open, before);
                    open = vec![Open::Behind(node)];
                    before = Some(node);
                }
                Item::Branch(branch) => {
                    open = self.branch(branch, open, before);
                    before = None;
                }
            }
        }
        open
    }

    fn branch(&mut self, branch: &'p Branch, open: Vec<Open>, before: Option<NodeId>) -> Vec<Open> {
        let node = match open[..] {
            [Open::Behind(node)] => node,
            _ => self.node(What::Choice, open, before),
        };
        let arms = branch.arms.iter();
        self.nodes[node].next = Next::Choice {
            arms: arms.map(|arm| (&arm.condition, UNKNOWN)).collect(),
            otherwise: UNKNOWN,
        };
        let mut ends = Vec::new();
        for (index, arm) in branch.arms.iter().enumerate() {
            checkpoint();
            ends.extend(self.line(&arm.line, vec![Open::Arm(node, index)], before));
        }
        ends.extend(self.line(&branch.otherwise, vec![Open::Otherwise(node)], before));
        ends
    }

    /// Adds a node after the open edges.
    fn node(&mut self, what: What<'p>, open: Vec<Open>, before: Option<NodeId>) -> NodeId {
        let id = self.nodes.push(Node {
            what,
            next: Next::End,
            before,
        });
        for open in open {
            checkpoint();
            self.tie(open, id);
        }
        id
    }

    fn tie(&mut self, open: Open, to: NodeId) {
        let (Open::Behind(node) | Open::Arm(node, _) | Open::Otherwise(node)) = open;
        match (&mut self.nodes[node].next, open) {
            (Next::Choice { arms, .. }, Open::Arm(_, index)) => arms[index].1 = to,
            (Next::Choice { otherwise, .. }, Open::Otherwise(_)) => *otherwise = to,
            (next, _) => *next = Next::Node(to),
        }
    }
}

impl Node<'_> {
    /// Returns all nodes that may come next.
    pub(super) fn successors(&self) -> Vec<NodeId> {
        match &self.next {
            Next::End => Vec::new(),
            Next::Node(node) => vec![*node],
            Next::Choice { arms, otherwise } => {
                let arms = arms.iter().map(|(_, node)| *node);
                arms.chain([*otherwise]).collect()
            }
        }
    }
}
