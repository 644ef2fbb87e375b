//! Merging of steps: a header that was parsed once stays parsed.
//!
//! If a step's parser would find exactly what the parser before it has found, deparsing and parsing
//! between the two are left out. The steps share one storage for their headers and for what their
//! parsers compute. Their controls form one line of stages, with the egress of each step that
//! another one follows. A choice becomes a condition stage. [`plan`] decides which steps are
//! merged.
//!
//! Code between two members of the line keeps the chain's semantics:
//!
//! - A packet that must be dropped goes to the end of the line, where the architecture drops it.
//! - Metadata that only egress has becomes zero.
//! - Fields of invalid headers become zero if the step may have written them, as in a packet that
//!   is parsed again.
//! - A checksum is not computed if it is computed again before anything can read it.

mod line;
mod plan;
mod profile;
mod reason;
mod same;

use std::collections::HashSet;

use bits::Value;
use ir::{
    BinOp, BlockRole, Call, Control, Expr, FieldId, HashAlgorithm, Op, Operand, Stage, StageKind,
    StepId, Stmt, StmtKind, UnOp,
};

use support::work::checkpoint;

pub(super) use plan::{Plan, apart, plan};
pub use reason::Reason;

use super::build::{Composer, action, assign};
use super::check;
use super::error::ComposeError;
use super::graph::{self, NodeId};
use crate::uses::{Uses, fields_of};
use line::{Line, Point};

/// Standard metadata that only egress has, and that an earlier step may have written.
const OF_EGRESS: &[&str] = &[
    "egress_port",
    "egress_rid",
    "enq_timestamp",
    "enq_qdepth",
    "deq_timedelta",
    "deq_qdepth",
    "egress_global_timestamp",
];

/// Operations of a checksum computation that can be left out if it is done again.
const UPDATES: &[Op] = &[Op::UpdateChecksum, Op::UpdateChecksumWithPayload];

/// Operations that only verify a checksum.
const CHECKS: &[Op] = &[Op::VerifyChecksum, Op::VerifyChecksumWithPayload];

/// Steps that are merged into one, and their line under construction.
struct Group<'g> {
    members: &'g [NodeId],
    /// The members without a successor among the members.
    lasts: &'g [NodeId],
    /// A field for each of these, if there are several. It is true if the packet came through that
    /// member.
    came_by: &'g [FieldId],
    line: Line,
    /// The start of each member.
    begins: Vec<Point>,
    end: Point,
}

impl<'g> Group<'g> {
    fn new(members: &'g [NodeId], lasts: &'g [NodeId], came_by: &'g [FieldId]) -> Group<'g> {
        let mut line = Line::new();
        let begins = members.iter().map(|_| line.point()).collect();
        let end = line.point();
        line.end(end);
        Group {
            members,
            lasts,
            came_by,
            line,
            begins,
            end,
        }
    }

    /// Returns the start of a member, or the end of the line for a step that is not a member.
    fn begin(&self, id: NodeId) -> Point {
        let at = self.members.iter().position(|member| *member == id);
        at.map_or(self.end, |at| self.begins[at])
    }

    /// Appends a control at `here` and returns its end.
    fn control(&mut self, here: Point, control: &Control) -> Point {
        let after = self.line.point();
        self.line.control(control, here, after);
        after
    }

    /// Appends code at `here` and returns its end.
    fn code(&mut self, here: Point, name: &str, body: Vec<Stmt>) -> Point {
        if body.is_empty() {
            return here;
        }
        let after = self.line.point();
        let name = self.line.unique(name);
        self.line.here(here);
        self.line.stage(action(name, body, after.link()));
        after
    }

    /// Appends a condition at `here` and returns the points for true and false.
    fn condition(&mut self, here: Point, name: &str, cond: Expr) -> (Point, Point) {
        let (then, otherwise) = (self.line.point(), self.line.point());
        let name = self.line.unique(name);
        self.line.here(here);
        self.line.stage(Stage {
            name,
            kind: StageKind::Condition {
                cond,
                then: then.link(),
                otherwise: otherwise.link(),
            },
            loc: None,
        });
        (then, otherwise)
    }
}

impl Composer<'_> {
    /// Builds the blocks of a step that merges several steps of the chain.
    pub(super) fn merged(
        &mut self,
        step: StepId,
        members: &[NodeId],
        lasts: &[NodeId],
    ) -> Result<(), ComposeError> {
        let (first, name) = (members[0], self.joined_name(members));
        if let Some(program) = self.steps[first]
            && let Some(parser) = check::parser(program)
        {
            self.parser_block(step, BlockRole::Parser, first, parser);
        }
        if let Some(verify) = self.linked(first, BlockRole::VerifyChecksum) {
            self.control_block(step, BlockRole::VerifyChecksum, verify);
        }
        let flag = |composer: &mut Self, last: &NodeId| {
            let name = format!("{}.$came_by$", composer.name(*last));
            composer.flag(name)
        };
        let came_by: Vec<FieldId> = match lasts.len() {
            1 => Vec::new(),
            _ => lasts.iter().map(|last| flag(self, last)).collect(),
        };
        let mut group = Group::new(members, lasts, &came_by);
        for &id in members {
            checkpoint();
            self.member(&mut group, id)?;
        }
        let ingress = Control {
            name: format!("{name}.ingress"),
            stages: group.line.finish(),
        };
        self.control_block(step, BlockRole::Ingress, ingress);
        for role in [
            BlockRole::Egress,
            BlockRole::ComputeChecksum,
            BlockRole::Deparser,
        ] {
            let controls = self.last_controls(first, lasts, role);
            let name = format!("{name}.{}", role.name());
            let control = by_last(name, controls, &came_by);
            match role {
                BlockRole::Egress => self.egress_block(step, lasts, control),
                role => self.control_block(step, role, control),
            }
        }
        Ok(())
    }

    /// Returns the control of this role of each last member. A packet that only passes a choice has
    /// left its step, and is sent as it was parsed.
    fn last_controls(&self, first: NodeId, lasts: &[NodeId], role: BlockRole) -> Vec<Control> {
        let control = |&last: &NodeId| {
            let own = match (self.steps[last], role) {
                (None, BlockRole::Deparser) => self.linked(first, role),
                _ => self.linked(last, role),
            };
            own.unwrap_or_else(|| empty(role))
        };
        lasts.iter().map(control).collect()
    }

    /// Lays out a member.
    fn member(&mut self, group: &mut Group<'_>, id: NodeId) -> Result<(), ComposeError> {
        let mut here = group.begin(id);
        let name = self.name(id);
        let last = group.lasts.iter().position(|last| *last == id);
        if let Some(&field) = last.and_then(|at| group.came_by.get(at)) {
            // Before the member's blocks, which may leave the line by `exit`.
            let told = vec![assign(field, crate::fold::bool_const(true))];
            here = group.code(here, &format!("{name}.$last$"), told);
        }
        let has_begun = group.members[0] == id;
        let blocks = [BlockRole::VerifyChecksum, BlockRole::Ingress];
        for role in blocks.into_iter().skip(usize::from(has_begun)) {
            if let Some(control) = self.linked(id, role)
                && !self.only_checks(&control)
            {
                here = group.control(here, &control);
            }
        }
        if last.is_some() {
            group.line.same(here, group.end);
            return Ok(());
        }
        if let Some(cond) = self.drops(id) {
            let (drop, stay) = group.condition(here, &format!("{name}.$drop$"), cond);
            group.line.same(drop, group.end);
            here = stay;
        }
        if let Some(egress) = self.own_egress(id) {
            let port = self.tell_port();
            here = group.code(here, &format!("{name}.$egress$"), port);
            here = group.control(here, &egress);
        }
        if let Some(compute) = self.linked(id, BlockRole::ComputeChecksum)
            && !self.is_redone(group.members, id)?
        {
            here = group.control(here, &compute);
        }
        self.ways_on(group, id, here)
    }

    /// Links the end of a member to its successors.
    fn ways_on(
        &self,
        group: &mut Group<'_>,
        id: NodeId,
        mut here: Point,
    ) -> Result<(), ComposeError> {
        let leave = format!("{}.$leave$", self.name(id));
        let body = self.forgets(group.members, id)?;
        let way = |group: &mut Group<'_>, here: Point, next: NodeId| {
            let here = group.code(here, &leave, body.clone());
            group.line.same(here, group.begin(next));
        };
        match &self.nodes[id].next {
            graph::Next::End => {}
            graph::Next::Node(next) => way(group, here, *next),
            graph::Next::Choice { arms, otherwise } => {
                for (condition, next) in arms {
                    checkpoint();
                    let cond = self.condition(id, condition)?;
                    let name = format!("{}.$choice$", self.name(id));
                    let (taken, not_taken) = group.condition(here, &name, cond);
                    way(group, taken, *next);
                    here = not_taken;
                }
                way(group, here, *otherwise);
            }
        }
        Ok(())
    }

    /// Returns true if a control only verifies checksums. No member after the first needs the
    /// result.
    fn only_checks(&self, control: &Control) -> bool {
        let uses = Uses::of_control(&self.out, control);
        let is_check = uses.ops.iter().all(|op| CHECKS.contains(op));
        is_check && uses.writes.is_empty() && uses.tables.is_empty() && !uses.ops.is_empty()
    }

    /// Returns the egress of a member that is not the last, if it does anything.
    fn own_egress(&self, id: NodeId) -> Option<Control> {
        let egress = self.linked(id, BlockRole::Egress)?;
        Some(egress).filter(|egress| !egress.stages.is_empty())
    }

    fn standard(&self, name: &str) -> Option<FieldId> {
        let name = format!("standard_metadata.{name}");
        self.out.pipeline.intrinsics.get(&name).copied()
    }

    fn uses(&self, id: NodeId, roles: &[BlockRole]) -> Uses {
        let controls = roles.iter().filter_map(|&role| self.linked(id, role));
        let uses = controls.map(|control| Uses::of_control(&self.out, &control));
        uses.fold(Uses::default(), Uses::and)
    }

    /// Returns the condition under which a member drops a packet, if it can.
    fn drops(&self, id: NodeId) -> Option<Expr> {
        let writes = self
            .uses(id, &[BlockRole::VerifyChecksum, BlockRole::Ingress])
            .writes;
        let (spec, group) = (self.standard("egress_spec")?, self.standard("mcast_grp"));
        let group = group.into_iter();
        if !group.clone().chain([spec]).any(|f| writes.contains(&f)) {
            return None;
        }
        let is = |field: FieldId, value: fn(u32) -> Value| {
            let ty = self.out.fields[field].ty;
            let value = Expr::Const(ty, value(ty.width()));
            Expr::Binary(BinOp::Eq, Expr::Read(field.into()).into(), value.into())
        };
        let all = group.map(|field| is(field, Value::zero));
        let all = [is(spec, Value::all_ones)].into_iter().chain(all);
        Some(crate::fold::all(all.collect()))
    }

    /// Builds the code that sets `egress_port` before egress.
    fn tell_port(&self) -> Vec<Stmt> {
        let fields = self
            .standard("egress_port")
            .zip(self.standard("egress_spec"));
        let told = fields.map(|(port, spec)| assign(port, Expr::Read(spec.into())));
        told.into_iter().collect()
    }

    /// Builds the code that clears what the next member must not see: metadata of egress, and
    /// fields of invalid headers.
    fn forgets(&self, members: &[NodeId], id: NodeId) -> Result<Vec<Stmt>, ComposeError> {
        let Some(deparser) = self.linked(id, BlockRole::Deparser) else {
            return Ok(Vec::new());
        };
        let mut roles = vec![
            BlockRole::VerifyChecksum,
            BlockRole::Ingress,
            BlockRole::Egress,
        ];
        if !self.is_redone(members, id)? {
            roles.push(BlockRole::ComputeChecksum);
        }
        let mut writes = self.uses(id, &roles).writes;
        if self.own_egress(id).is_some() {
            writes.extend(self.standard("egress_port"));
        }
        let zero = |&field: &FieldId| {
            let ty = self.out.fields[field].ty;
            assign(field, Expr::Const(ty, Value::zero(ty.width())))
        };
        let of_egress = OF_EGRESS.iter().filter_map(|name| self.standard(name));
        let of_egress = of_egress.filter(|field| writes.contains(field));
        let mut body: Vec<Stmt> = of_egress.map(|field| zero(&field)).collect();
        for header in check::emitted(&deparser).unwrap_or_default() {
            checkpoint();
            let fields = fields_of(&self.out, header).filter(|field| writes.contains(field));
            let fields: Vec<Stmt> = fields.map(|field| zero(&field)).collect();
            if !fields.is_empty() {
                let valid = Expr::Read(self.out.headers[header].valid.into());
                let invalid = Expr::Unary(UnOp::Not, valid.into());
                body.push(Stmt {
                    kind: StmtKind::If(invalid, fields, Vec::new()),
                    loc: None,
                });
            }
        }
        Ok(body)
    }

    /// Returns true if the checksums that a member computes are computed again, in the same manner,
    /// before anything can read them.
    fn is_redone(&self, members: &[NodeId], id: NodeId) -> Result<bool, ComposeError> {
        let Some(compute) = self.linked(id, BlockRole::ComputeChecksum) else {
            return Ok(false);
        };
        let Some(updates) = updates(&compute) else {
            return Ok(false);
        };
        let results = Uses::of_control(&self.out, &compute).writes;
        let conditions = updates.iter().flat_map(|call| operands_in(call));
        let asked = conditions.flat_map(|expr| Uses::of_expr(&self.out, expr).reads);
        let asked: HashSet<FieldId> = asked.collect();
        let summed = updates.iter().flat_map(|call| operands_data(call));
        let mut summed = summed.flat_map(|expr| Uses::of_expr(&self.out, expr).reads);
        if summed.any(|field| results.contains(&field)) || !asked.is_disjoint(&results) {
            return Ok(false);
        }
        let behind = self.behind(members, id);
        for &id in &behind {
            checkpoint();
            let own = self.linked(id, BlockRole::ComputeChecksum);
            let is_same = own.is_some_and(|own| bare(&own) == bare(&compute));
            let is_last = self.behind(members, id).is_empty();
            let mut roles = vec![
                BlockRole::VerifyChecksum,
                BlockRole::Ingress,
                BlockRole::Egress,
            ];
            if !is_same {
                roles.push(BlockRole::ComputeChecksum);
            }
            let uses = self.uses(id, &roles);
            let is_seen = !uses.reads.is_disjoint(&results) || !uses.writes.is_disjoint(&asked);
            if is_seen || is_last && !is_same {
                return Ok(false);
            }
        }
        let mut seen = HashSet::new();
        for &id in behind.iter().chain([&id]) {
            if let graph::Next::Choice { arms, .. } = &self.nodes[id].next {
                for (condition, _) in arms {
                    checkpoint();
                    let cond = self.condition(id, condition)?;
                    seen.extend(Uses::of_expr(&self.out, &cond).reads);
                }
            }
        }
        Ok(seen.is_disjoint(&results))
    }

    /// Returns the members that packets may reach after this one.
    fn behind(&self, members: &[NodeId], id: NodeId) -> Vec<NodeId> {
        let mut behind = Vec::new();
        let mut open = self.nodes[id].successors();
        while let Some(next) = open.pop() {
            checkpoint();
            if members.contains(&next) && !behind.contains(&next) {
                behind.push(next);
                open.extend(self.nodes[next].successors());
            }
        }
        behind
    }
}

fn empty(role: BlockRole) -> Control {
    Control {
        name: role.name().to_owned(),
        stages: Default::default(),
    }
}

/// Builds one control for all last members: the common one if they are equal, else a choice among
/// them.
fn by_last(name: String, controls: Vec<Control>, came_by: &[FieldId]) -> Control {
    let same = controls.iter().all(|one| bare(one) == bare(&controls[0]));
    if let (true, Some(one)) = (same, controls.first()) {
        let stages = one.stages.clone();
        return Control { name, stages };
    }
    let mut group = Group::new(&[], &[], &[]);
    let mut here = group.line.point();
    for (control, &flag) in controls.iter().zip(came_by) {
        checkpoint();
        let cond = Expr::Read(flag.into());
        let (own, others) = group.condition(here, &format!("{name}.$by$"), cond);
        let after = group.control(own, control);
        group.line.same(after, group.end);
        here = others;
    }
    group.line.same(here, group.end);
    let stages = group.line.finish();
    Control { name, stages }
}

/// Returns the calls of a control that does nothing but compute checksums, unconditionally.
fn updates(control: &Control) -> Option<Vec<&Call>> {
    let mut calls = Vec::new();
    for stage in control.stages.values() {
        checkpoint();
        let StageKind::Action { body, .. } = &stage.kind else {
            return None;
        };
        for stmt in body {
            checkpoint();
            match &stmt.kind {
                StmtKind::Call(call) if UPDATES.contains(&call.op) && !is_random(call) => {
                    calls.push(call);
                }
                _ => return None,
            }
        }
    }
    Some(calls)
}

fn is_random(call: &Call) -> bool {
    let random = HashAlgorithm::Random.number();
    call.operands.first() == Some(&Operand::Number(random))
}

fn operands_in(call: &Call) -> impl Iterator<Item = &Expr> {
    call.operands.iter().filter_map(|operand| match operand {
        Operand::In(value) => Some(value),
        _ => None,
    })
}

fn operands_data(call: &Call) -> impl Iterator<Item = &Expr> {
    let data = call.operands.iter().filter_map(|operand| match operand {
        Operand::Data(values) => Some(values),
        _ => None,
    });
    data.flatten()
}

/// Returns the stages of a control without names and source positions.
fn bare(control: &Control) -> Vec<StageKind> {
    let stages = control.stages.values();
    let kind = |stage: &Stage| {
        checkpoint();
        stage.kind.clone()
    };
    let mut kinds: Vec<StageKind> = stages.map(kind).collect();
    for kind in &mut kinds {
        if let StageKind::Action { body, .. } = kind {
            forget_places(body);
        }
    }
    kinds
}

fn forget_places(body: &mut [Stmt]) {
    for stmt in body {
        checkpoint();
        stmt.loc = None;
        match &mut stmt.kind {
            StmtKind::If(_, then, otherwise) => {
                forget_places(then);
                forget_places(otherwise);
            }
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
                forget_places(body);
            }
            _ => {}
        }
    }
}
