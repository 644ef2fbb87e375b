//! Builds the one program of a chain: the declarations of all steps, and the pipeline blocks.

use bits::IdVec;
use ir::{
    Block, BlockCode, BlockRole, Control, Expr, Field, FieldId, Next, Program, ScalarTy, Stage,
    StageKind, Step, StepId, StepNext, Stmt, StmtKind,
};

use support::work::checkpoint;

use super::condition::Scope;
use super::error::{ComposeError, ComposeProblem};
use super::graph::{self, Node, NodeId, What};
use super::merge::Plan;
use super::policy::Condition;
use super::{Steps, check};
use crate::link::{self, Known, Places};

/// The intrinsic that saves a step's egress port while its egress runs, if another step follows.
const KEPT_SPEC: &str = "chain.egress_spec";

/// Builder of a chain's program.
pub(super) struct Composer<'c> {
    pub(super) nodes: &'c IdVec<NodeId, Node<'c>>,
    pub(super) steps: &'c Steps<'c>,
    pub(super) plan: &'c Plan,
    pub(super) out: Program,
    pub(super) places: IdVec<NodeId, Places>,
    /// The first member of each group of merged steps, in order. Each group is one step of the
    /// program.
    firsts: Vec<NodeId>,
}

impl<'c> Composer<'c> {
    pub(super) fn new(
        nodes: &'c IdVec<NodeId, Node<'c>>,
        steps: &'c Steps<'c>,
        plan: &'c Plan,
        out: Program,
    ) -> Composer<'c> {
        let is_first = |id: &NodeId| plan.first[*id] == *id;
        Composer {
            nodes,
            steps,
            plan,
            out,
            places: IdVec::new(),
            firsts: nodes.ids().filter(is_first).collect(),
        }
    }

    /// Links the declarations of all programs into the one program.
    pub(super) fn link(&mut self) -> Result<(), ComposeError> {
        for (id, node) in self.nodes.iter() {
            checkpoint();
            let (What::Program(step), Some(program)) = (node.what, self.steps[id]) else {
                self.places.push(Places::default());
                continue;
            };
            let known = self.known(id);
            let places = link::link(&mut self.out, program, &step.name, &known);
            let places = places.map_err(|error| {
                let name = step.name.clone();
                ComposeError::at(step.at, ComposeProblem::Link { step: name, error })
            })?;
            self.places.push(places);
        }
        Ok(())
    }

    /// Returns a merged step's storage that exists already: that of the first step of its group.
    fn known(&self, id: NodeId) -> Known {
        let Some(shared) = self.plan.shared.get(&id) else {
            return Known::default();
        };
        let places = &self.places[self.plan.first[id]];
        let fields = shared.fields.iter();
        let headers = shared.headers.iter();
        Known {
            only: None,
            fields: fields
                .map(|(own, first)| (*own, places.fields[*first]))
                .collect(),
            headers: headers
                .map(|(own, first)| (*own, places.headers[*first]))
                .collect(),
        }
    }

    /// Builds the blocks of each step. A chain that is merged into one step gets no step table.
    pub(super) fn steps(&mut self) -> Result<(), ComposeError> {
        for (index, first) in self.firsts.clone().into_iter().enumerate() {
            let members = self.members(first);
            let lasts = self.lasts(&members);
            let step = StepId::new(index as u32);
            match members[..] {
                [one] => self.blocks(step, one),
                _ => self.merged(step, &members, &lasts)?,
            }
            let next = self.next(step, lasts[0])?;
            if self.firsts.len() > 1 {
                let name = self.joined_name(&members);
                self.out.pipeline.steps.push(Step { name, next });
            }
        }
        Ok(())
    }

    fn members(&self, first: NodeId) -> Vec<NodeId> {
        let is_member = |id: &NodeId| {
            checkpoint();
            self.plan.first[*id] == first
        };
        self.nodes.ids().filter(is_member).collect()
    }

    /// Returns the members without a successor among the members.
    fn lasts(&self, members: &[NodeId]) -> Vec<NodeId> {
        let stays = |next: &NodeId| members.contains(next);
        let is_last = |id: &&NodeId| {
            checkpoint();
            !self.nodes[**id].successors().iter().any(stays)
        };
        members.iter().filter(is_last).copied().collect()
    }

    /// Returns the joined names of the programs that are merged into one step.
    pub(super) fn joined_name(&self, members: &[NodeId]) -> String {
        let programs = members.iter().filter(|id| self.steps[**id].is_some());
        let names: Vec<String> = programs.map(|&id| self.name(id)).collect();
        match names.is_empty() {
            true => self.name(members[0]),
            false => names.join("+"),
        }
    }

    pub(super) fn name(&self, id: NodeId) -> String {
        match self.nodes[id].what {
            What::Program(step) => step.name.clone(),
            What::Choice => format!("chain.choice{}", id.get()),
            What::End => "chain.end".to_owned(),
        }
    }

    /// Returns the program's step that begins with a member.
    fn step(&self, node: NodeId) -> StepId {
        let at = self.firsts.iter().position(|&first| first == node);
        StepId::new(at.unwrap_or(0) as u32)
    }

    /// Returns the successor of a step that has `last` as its last member. A block of the step
    /// decides a choice.
    fn next(&mut self, step: StepId, last: NodeId) -> Result<StepNext, ComposeError> {
        Ok(match &self.nodes[last].next {
            graph::Next::End => StepNext::End,
            graph::Next::Node(node) => StepNext::Step(self.step(*node)),
            graph::Next::Choice { arms, otherwise } => {
                let conditions = arms.iter().map(|(condition, _)| *condition);
                let fields = self.route(step, last, conditions)?;
                let arms = fields.into_iter().zip(arms);
                StepNext::Branch {
                    arms: arms
                        .map(|(field, (_, node))| (field, self.step(*node)))
                        .collect(),
                    otherwise: self.step(*otherwise),
                }
            }
        })
    }

    /// Builds the block that decides a choice. Each condition gets a field.
    fn route(
        &mut self,
        step: StepId,
        last: NodeId,
        conditions: impl Iterator<Item = &'c Condition>,
    ) -> Result<Vec<FieldId>, ComposeError> {
        let name = self.name(last);
        let mut fields = Vec::new();
        let mut body = Vec::new();
        for (index, condition) in conditions.enumerate() {
            checkpoint();
            let value = self.condition(last, condition)?;
            let field = self.flag(format!("{name}.$arm{index}$"));
            fields.push(field);
            body.push(assign(field, value));
        }
        let control = Control {
            name: format!("{name}.$route$"),
            stages: [action(format!("{name}.$route$"), body, Next::End)]
                .into_iter()
                .collect(),
        };
        self.control_block(step, BlockRole::Route, control);
        Ok(fields)
    }

    /// Creates a field of type `bool`.
    pub(super) fn flag(&mut self, name: String) -> FieldId {
        let ty = ScalarTy::Bool;
        self.out.fields.push(Field { name, ty })
    }

    /// Lowers a condition of the choice after a step.
    pub(super) fn condition(
        &self,
        id: NodeId,
        condition: &Condition,
    ) -> Result<Expr, ComposeError> {
        let before = match self.nodes[id].what {
            What::Program(_) => Some(id),
            What::Choice | What::End => self.nodes[id].before,
        };
        let scope = Scope {
            chain: &self.out,
            before: before.and_then(|id| Some((self.steps[id]?, &self.places[id]))),
        };
        scope.condition(condition)
    }

    /// Builds the blocks of a step that is a single program.
    fn blocks(&mut self, step: StepId, id: NodeId) {
        let Some(program) = self.steps[id] else {
            return;
        };
        let name = self.name(id);
        for block in &program.pipeline.blocks {
            checkpoint();
            match block.code {
                BlockCode::Parser(parser) => {
                    self.parser_block(step, block.role, id, &program.parsers[parser]);
                }
                BlockCode::Control(control) => {
                    let control = self.places[id].control(&program.controls[control], &name);
                    match block.role {
                        BlockRole::Egress => self.egress_block(step, &[id], control),
                        role => self.control_block(step, role, control),
                    }
                }
            }
        }
    }

    pub(super) fn parser_block(
        &mut self,
        step: StepId,
        role: BlockRole,
        id: NodeId,
        parser: &ir::Parser,
    ) {
        let parser = self.places[id].parser(parser, &self.name(id));
        let code = BlockCode::Parser(self.out.parsers.push(parser));
        self.out.pipeline.blocks.push(Block { step, role, code });
    }

    pub(super) fn control_block(&mut self, step: StepId, role: BlockRole, control: Control) {
        let code = BlockCode::Control(self.out.controls.push(control));
        self.out.pipeline.blocks.push(Block { step, role, code });
    }

    /// Adds the egress block after these last members. Between two steps an empty egress is left
    /// out, and a non-empty one saves the port.
    pub(super) fn egress_block(&mut self, step: StepId, lasts: &[NodeId], control: Control) {
        let is_end = |id: &NodeId| matches!(self.nodes[*id].next, graph::Next::End);
        if !lasts.iter().all(is_end) {
            if control.stages.is_empty() {
                return;
            }
            self.keep_spec();
        }
        self.control_block(step, BlockRole::Egress, control);
    }

    /// Creates the field that saves a port while an egress between two steps runs.
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

    /// Returns a member's control of this role, with the ids of the chain's program.
    pub(super) fn linked(&self, id: NodeId, role: BlockRole) -> Option<Control> {
        let control = check::control(self.steps[id]?, role)?;
        Some(self.places[id].control(control, &self.name(id)))
    }
}

/// Builds the assignment `field = value;`.
pub(super) fn assign(field: FieldId, value: Expr) -> Stmt {
    Stmt {
        kind: StmtKind::Assign(field.into(), value),
        loc: None,
    }
}

/// Builds a stage that runs code.
pub(super) fn action(name: String, body: Vec<Stmt>, next: Next) -> Stage {
    Stage {
        name,
        kind: StageKind::Action { body, next },
        loc: None,
    }
}
