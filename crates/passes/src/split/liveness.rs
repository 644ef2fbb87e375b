//! Liveness: the fields that may be read from a stage of ingress on.
//!
//! The analysis runs backwards over the blocks that follow: deparser, checksum computation, egress,
//! ingress. A statement that always writes a whole field ends the field's life; everything else is
//! on the safe side.

use std::collections::HashMap;

use bits::{IdSet, IdVec};
use ir::{
    ActionId, BlockCode, BlockRole, Call, Control, Expr, FieldId, HeaderPlace, LabelId, MatchNext,
    Next, Op, Operand, Place, Program, StageId, StageKind, Stmt, StmtKind,
};
use support::work::checkpoint;

use crate::uses::{Uses, fields_of};

/// A set of fields.
pub(super) type FieldSet = IdSet<FieldId>;

/// Intrinsics that v1model sets when a packet enters egress, whatever the program wrote.
const SET_AT_EGRESS: &[&str] = &[
    "standard_metadata.instance_type",
    "standard_metadata.egress_port",
    "standard_metadata.packet_length",
    "standard_metadata.enq_timestamp",
    "standard_metadata.enq_qdepth",
    "standard_metadata.deq_timedelta",
    "standard_metadata.deq_qdepth",
    "standard_metadata.egress_global_timestamp",
    "standard_metadata.egress_spec",
];

/// Intrinsics that v1model reads when ingress has ended.
const READ_AFTER_INGRESS: &[&str] = &[
    "standard_metadata.egress_spec",
    "standard_metadata.mcast_grp",
    "standard_metadata.priority",
    "standard_metadata.egress_rid",
    crate::length::REST,
];

/// Intrinsics that v1model reads when egress has ended.
const READ_AFTER_EGRESS: &[&str] = &["standard_metadata.egress_spec"];

/// Live fields of ingress.
pub(super) struct Liveness {
    /// At the start of each stage.
    pub(super) before: IdVec<StageId, FieldSet>,
    /// At the end of ingress.
    pub(super) at_end: FieldSet,
}

impl Liveness {
    /// Analyzes the program of which `ingress` is the ingress control.
    pub(super) fn of(program: &Program, ingress: &Control) -> Liveness {
        let mut live = FieldSet::new();
        for role in [BlockRole::Deparser, BlockRole::ComputeChecksum] {
            live = before_block(program, role, &live);
        }
        let listed = listed_fields(program);
        live.union_with(&listed);
        live.union_with(&intrinsics(program, READ_AFTER_EGRESS));
        live = before_block(program, BlockRole::Egress, &live);
        for field in intrinsics(program, SET_AT_EGRESS).iter() {
            live.remove(field);
        }
        live.union_with(&listed);
        live.union_with(&intrinsics(program, READ_AFTER_INGRESS));
        Liveness {
            before: before_stages(program, ingress, &live),
            at_end: live,
        }
    }
}

/// Returns the fields of all field lists: clones, resubmitted and recirculated packets keep them.
pub(super) fn listed_fields(program: &Program) -> FieldSet {
    program
        .pipeline
        .field_lists
        .values()
        .flatten()
        .copied()
        .collect()
}

fn intrinsics(program: &Program, names: &[&str]) -> FieldSet {
    let known = &program.pipeline.intrinsics;
    names
        .iter()
        .filter_map(|name| known.get(*name).copied())
        .collect()
}

/// Returns the live fields before a block, from those after it. A block that does not exist changes
/// nothing.
fn before_block(program: &Program, role: BlockRole, after: &FieldSet) -> FieldSet {
    let mut blocks = program.pipeline.blocks.iter();
    let control = blocks.find_map(|block| match block.code {
        BlockCode::Control(id) if block.role == role => program.controls.get(id),
        _ => None,
    });
    let Some(control) = control else {
        return after.clone();
    };
    let before = before_stages(program, control, after);
    match before.values().next() {
        Some(first) => first.clone(),
        None => after.clone(),
    }
}

/// Returns the live fields before each stage of a control, from those after the control.
fn before_stages(
    program: &Program,
    control: &Control,
    after: &FieldSet,
) -> IdVec<StageId, FieldSet> {
    let mut before: IdVec<StageId, FieldSet> =
        control.stages.ids().map(|_| FieldSet::new()).collect();
    let mut backward = Backward {
        program,
        at_exit: after,
        labels: HashMap::new(),
    };
    // Only a loop that applies a table leads backwards, so few rounds suffice.
    loop {
        let mut has_grown = false;
        for (id, stage) in control.stages.iter().rev() {
            checkpoint();
            let at = |next: Next| match next {
                Next::End => after,
                Next::Stage(stage) => &before[stage],
            };
            let live = match &stage.kind {
                StageKind::Condition {
                    cond,
                    then,
                    otherwise,
                } => {
                    let mut live = at(*then).clone();
                    live.union_with(at(*otherwise));
                    backward.read(cond, &mut live);
                    live
                }
                StageKind::Action { body, next } => {
                    let mut live = at(*next).clone();
                    backward.body(body, &mut live);
                    live
                }
                StageKind::Match {
                    table,
                    outcome,
                    next,
                } => {
                    let table = &program.tables[*table];
                    let mut live = FieldSet::new();
                    for (number, listed) in table.actions.iter().enumerate() {
                        let mut through = match next {
                            MatchNext::Always(next) => at(*next).clone(),
                            MatchNext::ByHit { hit, miss } => {
                                let mut both = at(*hit).clone();
                                both.union_with(at(*miss));
                                both
                            }
                            MatchNext::ByAction(all) => match all.get(number) {
                                Some(next) => at(*next).clone(),
                                None => after.clone(),
                            },
                        };
                        for field in [outcome.hit, outcome.action_run].into_iter().flatten() {
                            through.remove(field);
                        }
                        backward.action(listed.action, &mut through);
                        live.union_with(&through);
                    }
                    for key in &table.keys {
                        backward.read(&key.expr, &mut live);
                    }
                    live
                }
            };
            has_grown |= before[id].union_with(&live);
        }
        if !has_grown {
            return before;
        }
    }
}

struct Backward<'p> {
    program: &'p Program,
    /// Live fields after the control, where `exit` leads.
    at_exit: &'p FieldSet,
    /// Live fields where `Leave` and `Continue` of a label lead.
    labels: HashMap<LabelId, (FieldSet, FieldSet)>,
}

impl Backward<'_> {
    fn body(&mut self, body: &[Stmt], live: &mut FieldSet) {
        for stmt in body.iter().rev() {
            checkpoint();
            self.stmt(stmt, live);
        }
    }

    fn action(&mut self, id: ActionId, live: &mut FieldSet) {
        // Labels of an action are local to it.
        let outer = std::mem::take(&mut self.labels);
        let program = self.program;
        self.body(&program.actions[id].body, live);
        self.labels = outer;
    }

    fn stmt(&mut self, stmt: &Stmt, live: &mut FieldSet) {
        match &stmt.kind {
            StmtKind::Assign(to, value) => {
                kill(to, live);
                self.read_dims(to, live);
                self.read(value, live);
            }
            StmtKind::ClearVarbit(to) | StmtKind::PacketLength(to) => {
                kill(to, live);
                self.read_dims(to, live);
            }
            StmtKind::AssignVarbit(to, from) => {
                kill(to, live);
                self.read_dims(to, live);
                self.read(&Expr::Read(from.clone()), live);
            }
            StmtKind::CopyHeader(to, _) => {
                self.kill_header(to, live);
                self.uses(stmt, live);
            }
            StmtKind::If(cond, then, otherwise) => {
                let mut other = live.clone();
                self.body(otherwise, &mut other);
                self.body(then, live);
                live.union_with(&other);
                self.read(cond, live);
            }
            StmtKind::Block(label, body) => {
                let after = live.clone();
                self.labels.insert(*label, (after.clone(), after));
                self.body(body, live);
            }
            StmtKind::Loop(label, body) => {
                let after = live.clone();
                let mut head = FieldSet::new();
                loop {
                    self.labels.insert(*label, (after.clone(), head.clone()));
                    let mut around = head.clone();
                    self.body(body, &mut around);
                    if !head.union_with(&around) {
                        break;
                    }
                }
                *live = head;
            }
            StmtKind::Leave(label) => {
                if let Some((after, _)) = self.labels.get(label) {
                    *live = after.clone();
                }
            }
            StmtKind::Continue(label) => {
                if let Some((_, head)) = self.labels.get(label) {
                    *live = head.clone();
                }
            }
            StmtKind::Atomic(body) => self.body(body, live),
            StmtKind::Exit => *live = self.at_exit.clone(),
            StmtKind::CallAction(action, args) => {
                self.action(*action, live);
                for arg in args {
                    self.read(arg, live);
                }
            }
            StmtKind::Call(call) => self.call(call, live),
            _ => self.uses(stmt, live),
        }
    }

    fn call(&mut self, call: &Call, live: &mut FieldSet) {
        if call.op == Op::Remote {
            for operand in &call.operands {
                if let Operand::Outs(places) = operand {
                    places.iter().for_each(|place| kill(place, live));
                }
            }
        }
        for operand in &call.operands {
            match operand {
                Operand::In(value) => self.read(value, live),
                Operand::Data(values) => values.iter().for_each(|value| self.read(value, live)),
                Operand::Out(place) => self.read_dims(place, live),
                Operand::Outs(places) => {
                    places.iter().for_each(|place| self.read_dims(place, live));
                }
                Operand::Text(_) | Operand::Number(_) => {}
            }
        }
    }

    /// Adds all fields that a statement reads.
    fn uses(&self, stmt: &Stmt, live: &mut FieldSet) {
        for field in Uses::of_stmt(self.program, stmt).reads {
            live.insert(field);
        }
    }

    fn read(&self, expr: &Expr, live: &mut FieldSet) {
        if let Expr::Const(..) | Expr::Param(_) = expr {
            return;
        }
        for field in Uses::of_expr(self.program, expr).reads {
            live.insert(field);
        }
    }

    fn read_dims(&self, place: &Place, live: &mut FieldSet) {
        for dim in &place.dims {
            self.read(&dim.index, live);
        }
    }

    fn kill_header(&self, place: &HeaderPlace, live: &mut FieldSet) {
        if place.dims.is_empty() {
            for field in fields_of(self.program, place.base) {
                live.remove(field);
            }
        }
    }
}

/// Removes a field that is written as a whole.
fn kill(place: &Place, live: &mut FieldSet) {
    if place.dims.is_empty() {
        live.remove(place.base);
    }
}
