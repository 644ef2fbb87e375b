//! A policy as steps that lead forward: what follows what, and where packets choose.

use bits::{IdVec, define_id};

use super::policy::{Branch, Condition, Item, Policy, StepName};

define_id! {
    /// A step of the chain, those without a program included.
    pub(super) struct NodeId;
}

/// A step of the chain.
#[derive(Debug)]
pub(super) struct Node<'p> {
    pub(super) what: What<'p>,
    pub(super) next: Next<'p>,
    /// The step with a program that all packets come from, if they do.
    pub(super) before: Option<NodeId>,
}

/// What a step does.
#[derive(Clone, Copy, Debug)]
pub(super) enum What<'p> {
    /// It runs a program.
    Program(&'p StepName),
    /// It only decides: packets come to its choice from several steps, or from none.
    Choice,
    /// It does nothing: the end of packets that pass by the last choice.
    End,
}

/// What comes after a step.
#[derive(Debug)]
pub(super) enum Next<'p> {
    End,
    Node(NodeId),
    Choice {
        arms: Vec<(&'p Condition, NodeId)>,
        otherwise: NodeId,
    },
}

/// An end of what has been laid out so far, to be tied to what comes next.
#[derive(Clone, Copy)]
enum Open {
    /// Behind a node.
    Behind(NodeId),
    /// An empty arm of a node's choice.
    Arm(NodeId, usize),
    /// Where no arm of a node's choice is taken.
    Otherwise(NodeId),
}

/// A node that is not known yet.
const UNKNOWN: NodeId = NodeId::new(u32::MAX);

/// Lays out a policy.
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
    /// Lays out a line behind the open ends, whose packets all come from `before`; its own open ends.
    fn line(
        &mut self,
        line: &'p [Item],
        mut open: Vec<Open>,
        mut before: Option<NodeId>,
    ) -> Vec<Open> {
        for item in line {
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
            ends.extend(self.line(&arm.line, vec![Open::Arm(node, index)], before));
        }
        ends.extend(self.line(&branch.otherwise, vec![Open::Otherwise(node)], before));
        ends
    }

    /// Adds a node behind the open ends.
    fn node(&mut self, what: What<'p>, open: Vec<Open>, before: Option<NodeId>) -> NodeId {
        let id = self.nodes.push(Node {
            what,
            next: Next::End,
            before,
        });
        for open in open {
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
    /// All nodes that may come next.
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
