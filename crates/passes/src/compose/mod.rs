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
//! [`Form::Steps`] is this meaning word for word: a run of blocks for each step ([`ir::Pipeline::steps`]).

mod check;
mod condition;
mod error;
mod graph;
mod policy;
mod scan;

use std::collections::HashMap;

use bits::IdVec;
use ir::{
    Arch, Block, BlockCode, BlockRole, Control, Field, FieldId, Next, Program, ScalarTy, Stage,
    StageKind, Step, StepId, StepNext, Stmt, StmtKind,
};

pub use crate::link::LinkError;
pub use error::{ComposeError, Problem};
pub use policy::{
    Arm, Branch, Comparison, Condition, Item, Number, Operand, Policy, PolicyError, Position,
    StepName,
};

use crate::link::{self, Known, Places};
use condition::Scope;
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
}

/// The intrinsic in which a step's port is kept while its egress runs, if another step follows.
const KEPT_SPEC: &str = "chain.egress_spec";

/// Makes a chain one program, which the verifier accepts.
///
/// # Errors
/// The first thing that is wrong with the chain.
pub fn compose(
    name: &str,
    policy: &Policy,
    programs: &[StepProgram<'_>],
    _form: Form,
) -> Result<Program, ComposeError> {
    let nodes = graph::graph(policy);
    let steps = resolve(&nodes, programs)?;
    check_edges(&nodes, &steps)?;
    let first = steps.values().flatten().next();
    let arch = first.map_or(Arch::V1model, |program| program.arch);
    let mut composer = Composer {
        nodes: &nodes,
        steps: &steps,
        out: link::empty(name, arch),
        places: IdVec::new(),
    };
    composer.link()?;
    composer.steps()?;
    match ir::verify(&composer.out) {
        Ok(()) => Ok(composer.out),
        Err(errors) => Err(Problem::Verify(errors).into()),
    }
}

type Steps<'p> = IdVec<NodeId, Option<&'p Program>>;

/// The program of each step.
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
    for next in nodes[from].successors() {
        match nodes[next].what {
            What::Program(_) => found.push(next),
            What::Choice => found.extend(followers(nodes, next)),
            What::End => {}
        }
    }
    found
}

struct Composer<'c, 'p> {
    nodes: &'c IdVec<NodeId, Node<'c>>,
    steps: &'c Steps<'p>,
    out: Program,
    places: IdVec<NodeId, Places>,
}

impl Composer<'_, '_> {
    /// Puts all programs' things into the one.
    fn link(&mut self) -> Result<(), ComposeError> {
        for (id, node) in self.nodes.iter() {
            let (What::Program(step), Some(program)) = (node.what, self.steps[id]) else {
                self.places.push(Places::default());
                continue;
            };
            let places = link::link(&mut self.out, program, &step.name, &Known::default());
            let places = places.map_err(|error| {
                let step_name = step.name.clone();
                let problem = Problem::Link {
                    step: step_name,
                    error,
                };
                ComposeError::at(step.at, problem)
            })?;
            self.places.push(places);
        }
        Ok(())
    }

    /// Gives each step its blocks; a chain of one step is a program as any.
    fn steps(&mut self) -> Result<(), ComposeError> {
        for (id, node) in self.nodes.iter() {
            self.blocks(id);
            let next = self.next(id)?;
            if self.nodes.len() > 1 {
                let name = self.step_name(id, node);
                self.out.pipeline.steps.push(Step { name, next });
            }
        }
        Ok(())
    }

    fn step_name(&self, id: NodeId, node: &Node<'_>) -> String {
        match node.what {
            What::Program(step) => step.name.clone(),
            What::Choice => format!("chain.choice{}", id.get()),
            What::End => "chain.end".to_owned(),
        }
    }

    /// What comes after a step; a choice is decided by a block of that step.
    fn next(&mut self, id: NodeId) -> Result<StepNext, ComposeError> {
        let step = |node: NodeId| StepId::new(node.get());
        Ok(match &self.nodes[id].next {
            graph::Next::End => StepNext::End,
            graph::Next::Node(node) => StepNext::Step(step(*node)),
            graph::Next::Choice { arms, otherwise } => {
                let conditions: Vec<&Condition> = arms.iter().map(|(cond, _)| *cond).collect();
                let fields = self.route(id, &conditions)?;
                let arms = fields.into_iter().zip(arms);
                StepNext::Branch {
                    arms: arms
                        .map(|(field, (_, node))| (field, step(*node)))
                        .collect(),
                    otherwise: step(*otherwise),
                }
            }
        })
    }

    /// The block that decides a choice: a field for each condition.
    fn route(
        &mut self,
        id: NodeId,
        conditions: &[&Condition],
    ) -> Result<Vec<FieldId>, ComposeError> {
        let name = self.step_name(id, &self.nodes[id]);
        let mut fields = Vec::new();
        let mut body = Vec::new();
        for (index, condition) in conditions.iter().enumerate() {
            let value = self.scope(id).condition(condition)?;
            let field = self.out.fields.push(Field {
                name: format!("{name}.$arm{index}$"),
                ty: ScalarTy::Bool,
            });
            fields.push(field);
            body.push(Stmt {
                kind: StmtKind::Assign(field.into(), value),
                loc: None,
            });
        }
        let stage = Stage {
            name: format!("{name}.$route$.choose"),
            kind: StageKind::Action {
                body,
                next: Next::End,
            },
            loc: None,
        };
        let control = self.out.controls.push(Control {
            name: format!("{name}.$route$"),
            stages: [stage].into_iter().collect(),
        });
        self.block(id, BlockRole::Route, BlockCode::Control(control));
        Ok(fields)
    }

    /// What the conditions behind a step see.
    fn scope(&self, id: NodeId) -> Scope<'_> {
        let before = match self.nodes[id].what {
            What::Program(_) => Some(id),
            What::Choice | What::End => self.nodes[id].before,
        };
        let before = before.and_then(|id| Some((self.steps[id]?, &self.places[id])));
        Scope {
            chain: &self.out,
            before,
        }
    }

    fn blocks(&mut self, id: NodeId) {
        let (What::Program(step), Some(program)) = (self.nodes[id].what, self.steps[id]) else {
            return;
        };
        let is_last = matches!(self.nodes[id].next, graph::Next::End);
        for block in &program.pipeline.blocks {
            let code = match block.code {
                BlockCode::Parser(parser) => {
                    let parser = self.places[id].parser(&program.parsers[parser], &step.name);
                    BlockCode::Parser(self.out.parsers.push(parser))
                }
                BlockCode::Control(control) => {
                    let control = &program.controls[control];
                    let is_between = block.role == BlockRole::Egress && !is_last;
                    if is_between && control.stages.is_empty() {
                        continue;
                    }
                    if is_between {
                        self.keep_spec();
                    }
                    let control = self.places[id].control(control, &step.name);
                    BlockCode::Control(self.out.controls.push(control))
                }
            };
            self.block(id, block.role, code);
        }
    }

    fn block(&mut self, id: NodeId, role: BlockRole, code: BlockCode) {
        let step = StepId::new(id.get());
        self.out.pipeline.blocks.push(Block { step, role, code });
    }

    /// Makes the field in which a port is kept while an egress between two steps runs.
    fn keep_spec(&mut self) {
        let intrinsics = &mut self.out.pipeline.intrinsics;
        let spec = intrinsics.get("standard_metadata.egress_spec");
        if let Some(&spec) = spec
            && !intrinsics.contains_key(KEPT_SPEC)
        {
            let ty = self.out.fields[spec].ty;
            let name = KEPT_SPEC.to_owned();
            let kept = self.out.fields.push(Field { name, ty });
            intrinsics.insert(KEPT_SPEC.to_owned(), kept);
        }
    }
}
