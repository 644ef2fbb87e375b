//! Chains of programs, made one program.
//!
//! # What a chain means
//!
//! A [`Policy`] names steps, each a v1model program, in a line with branches. A packet goes through the first step's whole pipeline: parser, checksum
//! verification, ingress, egress, checksum computation, deparser. What that emitted is parsed by the next step, and so on. Between two steps:
//!
//! - **Dropping.** A packet whose step leaves it with port 511 and without a multicast group after ingress, or with port 511 after egress, is dropped;
//!   `exit` alone drops nothing.
//! - **Standard metadata** is carried from step to step: the port chosen, the multicast group, the priority, the port and time at which the packet came
//!   in. A step that says nothing about them leaves them as the step before did. What only egress has (`egress_port`, `egress_rid`, times and depths of
//!   the queue) is zero in every ingress; `packet_length` is the packet's as the step gets it; `parser_error` and `checksum_error` are each step's own.
//! - **User metadata** is each step's own and begins at zero.
//! - **The queue** is an ideal one, where a packet never waits, before every egress but the last step's: there are the real queue, multicast, and
//!   the copies of the group. A packet for a multicast group goes through the steps between as one.
//! - **Copies** that a step clones are for somebody beside the way, as a monitor: they go through the real queue of their session's port and the egress
//!   and deparser of that step, and leave. **Resubmitted** and **recirculated** packets go through their step again; **truncating** cuts what the
//!   step's deparser emits; **digests**, counters, meters and registers are as in the program alone.
//! - **Branches** are decided behind the step before them, by standard metadata and that step's fields as its deparser found them; a field of a header
//!   that is not valid is zero there. Where packets come from several steps, or from none, standard metadata alone is seen.
//!
//! Every name of a step's things begins with the step's name (`fw.Firewall.rules`), so that a program may be several steps, and state is kept by
//! name when a chain changes. Steps share the types that are equal.
//!
//! # Forms
//!
//! [`Form::Steps`] is this meaning word for word: a run of blocks for each step ([`ir::Pipeline::steps`]). In [`Form::Merged`] a header parsed once stays
//! parsed where nobody can tell; [`Composed::joints`] says where not, and why. Both forms do the same to every packet, but for the
//! work that they take from its budget.

mod build;
mod check;
mod condition;
mod error;
mod graph;
mod merge;
mod policy;
mod scan;
mod show;

use std::collections::{HashMap, HashSet};

use bits::IdVec;
use ir::{Arch, Program};

pub use crate::link::LinkError;
pub use error::{ComposeError, Problem};
pub use merge::Reason;
pub use policy::{
    Arm, Branch, Comparison, Condition, Item, Number, Operand, Policy, PolicyError, Position,
    StepName,
};

use build::Composer;
use graph::{Node, NodeId, What};

/// The program of a step.
#[derive(Clone, Copy, Debug)]
pub struct StepProgram<'p> {
    /// The step's name in the policy.
    pub step: &'p str,
    /// Its program, which the verifier accepts.
    pub program: &'p Program,
}

/// How a chain is made one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each step has blocks of its own: what a chain means, word for word.
    Steps,
    /// Steps that go on with the headers of those before them are one.
    Merged,
}

/// A chain as one program.
#[derive(Clone, Debug)]
pub struct Composed {
    /// The program, which the verifier accepts.
    pub program: Program,
    /// Whether each step but the first ones goes on with the headers of the steps before it.
    pub joints: Vec<Joint>,
}

/// How a step follows those before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joint {
    /// The step.
    pub step: String,
    /// Why packets are deparsed and parsed again in front of it; none where they are not.
    pub apart: Option<Reason>,
}

/// Makes a chain one program.
///
/// # Errors
/// The first thing that is wrong with the chain.
pub fn compose(
    name: &str,
    policy: &Policy,
    programs: &[StepProgram<'_>],
    form: Form,
) -> Result<Composed, ComposeError> {
    let nodes = graph::graph(policy);
    let steps = resolve(&nodes, programs)?;
    check_edges(&nodes, &steps)?;
    let by = |plan: &merge::Plan| by_plan(name, &nodes, &steps, plan, form);
    match form {
        Form::Steps => by(&merge::apart(&nodes, &Reason::AsAsked)),
        // What is wrong with the steps by themselves is told of them.
        Form::Merged => by(&merge::plan(&nodes, &steps))
            .or_else(|_| by(&merge::apart(&nodes, &Reason::NotValid))),
    }
}

/// Makes a chain one program by a plan.
fn by_plan(
    name: &str,
    nodes: &IdVec<NodeId, Node<'_>>,
    steps: &Steps<'_>,
    plan: &merge::Plan,
    form: Form,
) -> Result<Composed, ComposeError> {
    let first = steps.values().flatten().next();
    let arch = first.map_or(Arch::V1model, |program| program.arch);
    let mut composer = Composer::new(nodes, steps, plan, Program::empty(name, arch));
    composer.link()?;
    composer.steps()?;
    let mut program = composer.out;
    if form == Form::Merged {
        crate::simplify::simplify(&mut program);
    }
    ir::verify(&program).map_err(Problem::Verify)?;
    let joints = joints(nodes, plan);
    Ok(Composed { program, joints })
}

/// What became of each step that others stand before.
fn joints(nodes: &IdVec<NodeId, Node<'_>>, plan: &merge::Plan) -> Vec<Joint> {
    let follows = |id: NodeId| nodes.values().any(|node| node.successors().contains(&id));
    let joint = |(id, node): (NodeId, &Node<'_>)| match node.what {
        What::Program(step) if follows(id) => Some(Joint {
            step: step.name.clone(),
            apart: plan.apart.get(&id).cloned(),
        }),
        _ => None,
    };
    nodes.iter().filter_map(joint).collect()
}

/// The program of each step that has one.
type Steps<'p> = IdVec<NodeId, Option<&'p Program>>;

fn resolve<'p>(
    nodes: &IdVec<NodeId, Node<'_>>,
    programs: &[StepProgram<'p>],
) -> Result<Steps<'p>, ComposeError> {
    let mut known: HashMap<&str, Position> = HashMap::new();
    let is_chain = nodes.len() > 1;
    let mut steps = IdVec::new();
    for node in nodes.values() {
        let What::Program(step) = node.what else {
            steps.push(None);
            continue;
        };
        let name = step.name.clone();
        let wrong = |problem: Problem| ComposeError::at(step.at, problem);
        if let Some(&first) = known.get(step.name.as_str()) {
            return Err(wrong(Problem::StepTwice { step: name, first }));
        }
        known.insert(&step.name, step.at);
        let mut found = programs.iter().filter(|given| given.step == step.name);
        let Some(program) = found.next().map(|given| given.program) else {
            let known = programs.iter().map(|given| given.step.to_owned()).collect();
            return Err(wrong(Problem::UnknownStep { step: name, known }));
        };
        if is_chain && program.arch != Arch::V1model {
            let arch = program.arch;
            return Err(wrong(Problem::Architecture { step: name, arch }));
        }
        steps.push(Some(program));
    }
    Ok(steps)
}

/// Every step can begin with what each step that packets come from sends.
fn check_edges(nodes: &IdVec<NodeId, Node<'_>>, steps: &Steps<'_>) -> Result<(), ComposeError> {
    for (id, node) in nodes.iter() {
        let (What::Program(before), Some(sender)) = (node.what, steps[id]) else {
            continue;
        };
        for next in followers(nodes, id) {
            let (What::Program(step), Some(program)) = (nodes[next].what, steps[next]) else {
                continue;
            };
            check::expects((&before.name, sender), (&step.name, program))
                .map_err(|problem| ComposeError::at(step.at, problem))?;
        }
    }
    Ok(())
}

/// The steps with a program that packets may come to next.
fn followers(nodes: &IdVec<NodeId, Node<'_>>, from: NodeId) -> Vec<NodeId> {
    let mut found = Vec::new();
    // Choices behind choices are met by many ways.
    let mut seen = HashSet::new();
    let mut open = nodes[from].successors();
    while let Some(next) = open.pop() {
        if !seen.insert(next) {
            continue;
        }
        match nodes[next].what {
            What::Program(_) => found.push(next),
            What::Choice => open.extend(nodes[next].successors()),
            What::End => {}
        }
    }
    found.sort();
    found
}
