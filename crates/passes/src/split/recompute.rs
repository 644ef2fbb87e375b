//! Postponable intermediate values (CLIP, section IV-C): values that are computed before a cut and
//! used only after it. They are computed again from the packet instead of travelling.

use std::collections::BTreeSet;

use bits::{Id, IdVec};
use ir::{
    Call, Control, FieldId, HashAlgorithm, Op, Operand, Program, Stage, StageId, StageKind, Stmt,
    StmtKind,
};
use support::work::checkpoint;

use super::cuts::Cuts;
use super::layout::set_by_architecture;
use super::liveness::FieldSet;
use crate::slots::links;
use crate::uses::Uses;

/// A value that both halves compute again.
#[derive(Clone, Debug)]
pub(super) struct Recomputed {
    pub(super) field: FieldId,
    /// Its computation.
    pub(super) stmt: Stmt,
}

/// Returns those of the fields that can be computed again. Each has one assignment, which every
/// packet executes before it leaves, from values that the packet's bytes give.
pub(super) fn recomputed(
    program: &Program,
    ingress: &Control,
    cuts: &Cuts,
    travelling: &FieldSet,
) -> Vec<Recomputed> {
    let mut unstable = set_by_architecture(program);
    for written in &cuts.written_at_resume {
        unstable.union_with(written);
    }
    for cut in &cuts.cuts {
        unstable.union_with(&cuts.written[cut.stage]);
    }
    let writers = writers(program, ingress);
    let mut found = Vec::new();
    for field in travelling.iter() {
        checkpoint();
        let [stage] = writers[field.index()][..] else {
            continue;
        };
        let StageKind::Action { body, .. } = &ingress.stages[stage].kind else {
            continue;
        };
        let mut assignments = body.iter().filter(|stmt| writes(program, stmt, field));
        let (Some(stmt), None) = (assignments.next(), assignments.next()) else {
            continue;
        };
        let is_stable = || {
            let uses = Uses::of_stmt(program, stmt);
            uses.reads.iter().all(|&input| !unstable.contains(input))
        };
        if is_plain(stmt, field) && is_stable() && dominates(&ingress.stages, stage, cuts) {
            let stmt = stmt.clone();
            found.push(Recomputed { field, stmt });
        }
    }
    found
}

/// Returns the stages that may write each field.
fn writers(program: &Program, ingress: &Control) -> Vec<Vec<StageId>> {
    let mut writers = vec![Vec::new(); program.fields.len()];
    for (id, stage) in ingress.stages.iter() {
        checkpoint();
        for field in Uses::of_stage(program, stage).writes {
            writers[field.index()].push(id);
        }
    }
    writers
}

fn writes(program: &Program, stmt: &Stmt, field: FieldId) -> bool {
    Uses::of_stmt(program, stmt).writes.contains(&field)
}

/// Returns true if a statement does nothing but compute this field.
fn is_plain(stmt: &Stmt, field: FieldId) -> bool {
    match &stmt.kind {
        StmtKind::Assign(place, _) => place.base == field && place.dims.is_empty(),
        StmtKind::Call(Call {
            op: Op::Hash,
            operands,
            ..
        }) => {
            let random = HashAlgorithm::Random.number();
            let is_random = matches!(operands.first(), Some(Operand::Number(n)) if *n == random);
            let out = match operands.last() {
                Some(Operand::Out(place)) => place.base == field && place.dims.is_empty(),
                _ => false,
            };
            out && !is_random
        }
        _ => false,
    }
}

/// Returns true if no packet leaves without having passed the stage.
fn dominates(stages: &IdVec<StageId, Stage>, stage: StageId, cuts: &Cuts) -> bool {
    let mut reached = BTreeSet::new();
    let mut open = vec![StageId::new(0)];
    while let Some(at) = open.pop() {
        checkpoint();
        if at != stage && reached.insert(at) {
            open.extend(links(&stages[at].kind));
        }
    }
    cuts.cuts.iter().all(|cut| !reached.contains(&cut.stage))
}
