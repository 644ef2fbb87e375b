//! Chains of programs, composed into one program.
//!
//! # Semantics of a chain
//!
//! A [`Policy`] names steps, each a v1model program, in a line with branches. A packet passes the
//! whole pipeline of the first step: parser, checksum verification, ingress, egress, checksum
//! computation, deparser. The next step parses what that step emitted, and so on. Between two
//! steps:
//!
//! - **Dropping.** A packet is dropped if it has port 511 and no multicast group after a step's
//!   ingress, or port 511 after its egress. `exit` alone drops nothing.
//! - **Standard metadata** is passed from step to step: the chosen port, the multicast group, the
//!   priority, the ingress port and the ingress time. A step that does not set them keeps the
//!   values of the step before. Metadata that only egress has (`egress_port`, `egress_rid`, queue
//!   times and depths) is zero in every ingress. `packet_length` is the length of the packet that
//!   the step receives. `parser_error` and `checksum_error` are local to each step.
//! - **User metadata** is local to each step and starts at zero.
//! - **The queue** before every egress but the last step's is ideal: a packet never waits. The last
//!   step has the real queue, multicast, and the copies of a multicast group. Before it, a packet
//!   for a multicast group is processed as one packet.
//! - **Clones** of a step are meant for a monitor. They pass the real queue of their session's port
//!   and the egress and deparser of that step, and are transmitted. **Resubmitted** and
//!   **recirculated** packets repeat their step. **Truncation** cuts what the step's deparser
//!   emits. **Digests**, counters, meters and registers act as in the program alone.
//! - **Branches** are decided after the step before them. They test standard metadata and the
//!   fields of that step as its deparser found them; a field of an invalid header is zero. If
//!   packets come from several steps or from none, only standard metadata is visible.
//!
//! Every name of a step's items begins with the step's name (`fw.Firewall.rules`). So one program
//! can be several steps, and state is kept by name when a chain changes. Steps share equal types.
//!
//! # Forms
//!
//! [`Form::Steps`] implements these semantics literally, with separate blocks for each step
//! ([`ir::Pipeline::steps`]). In [`Form::Merged`], a header that was parsed once stays parsed where
//! this cannot be observed. [`Composed::joints`] gives the places where it does not, with the
//! reason. Both forms treat every packet alike, except for the work that they charge to its budget.

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
use support::work::checkpoint;

pub use crate::link::LinkError;
pub use error::{ComposeError, ComposeProblem};
pub use merge::Reason;
pub use policy::{
    Arm, Branch, Comparison, Condition, Item, Number, Operand, Policy, PolicyError, Position,
    StepName,
};

use build::Composer;
use graph::{Node, NodeId, What};

/// Program of a step.
#[derive(Clone, Copy, Debug)]
pub struct StepProgram<'p> {
    /// The step's name in the policy.
    pub step: &'p str,
    /// Its program, which the verifier accepts.
    pub program: &'p Program,
}

/// Form of a composed chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each step has separate blocks: the semantics of a chain, literally.
    Steps,
    /// Steps that continue with the headers of their predecessors are merged.
    Merged,
}

/// A chain as one program.
#[derive(Clone, Debug)]
pub struct Composed {
    /// The program, which the verifier accepts.
    pub program: Program,
    /// For each step but the first ones, whether it continues with the headers of the steps before
    /// it.
    pub joints: Vec<Joint>,
}

/// Connection of a step to its predecessors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joint {
    /// The step.
    pub step: String,
    /// Reason why packets are deparsed and parsed again before it; `None` if they are not.
    pub apart: Option<Reason>,
}

/// Composes a chain into one program.
///
/// # Errors
/// The first error of the chain.
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
        // Errors of the steps themselves are reported for the unmerged form.
        Form::Merged => by(&merge::plan(&nodes, &steps))
            .or_else(|_| by(&merge::apart(&nodes, &Reason::NotValid))),
    }
}

/// Composes a chain by a plan.
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
    ir::verify(&program).map_err(ComposeProblem::Verify)?;
    let joints = joints(nodes, plan);
    Ok(Composed { program, joints })
}

/// Returns the joint of each step that has predecessors.
fn joints(nodes: &IdVec<NodeId, Node<'_>>, plan: &merge::Plan) -> Vec<Joint> {
    let follows = |id: NodeId| {
        nodes.values().any(|node| {
            checkpoint();
            node.successors().contains(&id)
        })
    };
    let joint = |(id, node): (NodeId, &Node<'_>)| match node.what {
        What::Program(step) if follows(id) => Some(Joint {
            step: step.name.clone(),
            apart: plan.apart.get(&id).cloned(),
        }),
        _ => None,
    };
    nodes.iter().filter_map(joint).collect()
}

/// Program of each step that has one.
type Steps<'p> = IdVec<NodeId, Option<&'p Program>>;

fn resolve<'p>(
    nodes: &IdVec<NodeId, Node<'_>>,
    programs: &[StepProgram<'p>],
) -> Result<Steps<'p>, ComposeError> {
    let mut known: HashMap<&str, Position> = HashMap::new();
    let is_chain = nodes.len() > 1;
    let mut steps = IdVec::new();
    for node in nodes.values() {
        checkpoint();
        let What::Program(step) = node.what else {
            steps.push(None);
            continue;
        };
        let name = step.name.clone();
        let wrong = |problem: ComposeProblem| ComposeError::at(step.at, problem);
        if let Some(&first) = known.get(step.name.as_str()) {
            return Err(wrong(ComposeProblem::StepTwice { step: name, first }));
        }
        known.insert(&step.name, step.at);
        let mut found = programs.iter().filter(|given| given.step == step.name);
        let Some(program) = found.next().map(|given| given.program) else {
            let known = programs.iter().map(|given| given.step.to_owned()).collect();
            return Err(wrong(ComposeProblem::UnknownStep { step: name, known }));
        };
        if is_chain && program.arch != Arch::V1model {
            let arch = program.arch;
            return Err(wrong(ComposeProblem::Architecture { step: name, arch }));
        }
        steps.push(Some(program));
    }
    Ok(steps)
}

/// Checks that every step can parse what each of its predecessors sends.
fn check_edges(nodes: &IdVec<NodeId, Node<'_>>, steps: &Steps<'_>) -> Result<(), ComposeError> {
    for (id, node) in nodes.iter() {
        let (What::Program(before), Some(sender)) = (node.what, steps[id]) else {
            continue;
        };
        for next in followers(nodes, id) {
            checkpoint();
            let (What::Program(step), Some(program)) = (nodes[next].what, steps[next]) else {
                continue;
            };
            check::expects((&before.name, sender), (&step.name, program))
                .map_err(|problem| ComposeError::at(step.at, problem))?;
        }
    }
    Ok(())
}

/// Returns the steps with a program that packets may reach next.
fn followers(nodes: &IdVec<NodeId, Node<'_>>, from: NodeId) -> Vec<NodeId> {
    let mut found = Vec::new();
    // Nested choices can be reached by several paths.
    let mut seen = HashSet::new();
    let mut open = nodes[from].successors();
    while let Some(next) = open.pop() {
        checkpoint();
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
