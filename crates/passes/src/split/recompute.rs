//! Values that are computed before a cut from the packet's bytes alone (CLIP, section IV-C). They
//! are computed again after it instead of travelling.

use std::collections::{BTreeMap, BTreeSet};

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

/// A value that the packet's bytes give.
#[derive(Clone, Debug)]
pub(super) struct Recomputed {
    pub(super) field: FieldId,
    /// Its computation.
    pub(super) stmt: Stmt,
    /// Place of the computation: a stage, and the position in its body.
    pub(super) place: (StageId, usize),
    /// Values that the computation reads and that are computed, too.
    pub(super) inputs: Vec<FieldId>,
}

/// The computations of an ingress control.
pub(super) struct Computations<'p> {
    program: &'p Program,
    ingress: &'p Control,
    cuts: &'p Cuts,
    /// Fields that the packet's bytes do not give.
    unstable: FieldSet,
    /// Stages that may write each field.
    writers: Vec<Vec<StageId>>,
    /// Stages that no packet leaves without having passed.
    dominating: BTreeMap<StageId, bool>,
    /// Stages that follow each stage.
    after: BTreeMap<StageId, BTreeSet<StageId>>,
    /// Results; `None` for a field of which the computation is being examined, or that has none.
    known: BTreeMap<FieldId, Option<Recomputed>>,
}

impl<'p> Computations<'p> {
    pub(super) fn new(
        program: &'p Program,
        ingress: &'p Control,
        cuts: &'p Cuts,
    ) -> Computations<'p> {
        let mut unstable = set_by_architecture(program);
        for written in &cuts.written_at_resume {
            unstable.union_with(written);
        }
        for cut in &cuts.cuts {
            unstable.union_with(&cuts.written[cut.stage]);
        }
        Computations {
            program,
            ingress,
            cuts,
            unstable,
            writers: writers(program, ingress),
            dominating: BTreeMap::new(),
            after: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }

    /// Returns the computation of a field, if its value at every cut comes from one assignment,
    /// which every packet executes before it leaves, and the packet's bytes give the value.
    pub(super) fn of(&mut self, field: FieldId) -> Option<Recomputed> {
        if let Some(known) = self.known.get(&field) {
            return known.clone();
        }
        // A value that depends on itself has no computation.
        self.known.insert(field, None);
        let found = self.find(field);
        self.known.insert(field, found.clone());
        found
    }

    /// Returns the computations that these fields need, theirs included, each after its inputs.
    pub(super) fn closure(&mut self, fields: impl IntoIterator<Item = FieldId>) -> Vec<Recomputed> {
        let mut all: Vec<Recomputed> = Vec::new();
        for field in fields {
            self.add(field, &mut all);
        }
        all
    }

    fn add(&mut self, field: FieldId, all: &mut Vec<Recomputed>) {
        checkpoint();
        if all.iter().any(|other| other.field == field) {
            return;
        }
        if let Some(found) = self.of(field) {
            for &input in &found.inputs {
                self.add(input, all);
            }
            all.push(found);
        }
    }

    fn find(&mut self, field: FieldId) -> Option<Recomputed> {
        let stages = self.writers[field.index()].clone();
        let stage = stages.iter().copied().find(|&stage| {
            let others = stages.iter().filter(|&&other| other != stage);
            let after = self.after(stage);
            others.clone().all(|other| !after.contains(other)) && !after.contains(&stage)
        })?;
        if !self.dominates(stage) {
            return None;
        }
        let StageKind::Action { body, .. } = &self.ingress.stages[stage].kind else {
            return None;
        };
        let position = body
            .iter()
            .rposition(|stmt| Uses::of_stmt(self.program, stmt).writes.contains(&field))?;
        let stmt = &body[position];
        if !is_plain(stmt, field) {
            return None;
        }
        let mut inputs = Vec::new();
        let mut reads: Vec<FieldId> = Uses::of_stmt(self.program, stmt)
            .reads
            .into_iter()
            .collect();
        reads.sort_unstable();
        for read in reads {
            checkpoint();
            if !self.unstable.contains(read) {
                continue;
            }
            // The input has its last value here: it is assigned before.
            let input = self.of(read)?;
            let is_before = match input.place.0 == stage {
                true => input.place.1 < position,
                false => self.after(input.place.0).contains(&stage),
            };
            if !is_before {
                return None;
            }
            inputs.push(read);
        }
        Some(Recomputed {
            field,
            stmt: stmt.clone(),
            place: (stage, position),
            inputs,
        })
    }

    fn after(&mut self, stage: StageId) -> &BTreeSet<StageId> {
        let stages = &self.ingress.stages;
        self.after.entry(stage).or_insert_with(|| {
            let mut reached = BTreeSet::new();
            let mut open = links(&stages[stage].kind);
            while let Some(at) = open.pop() {
                checkpoint();
                if reached.insert(at) {
                    open.extend(links(&stages[at].kind));
                }
            }
            reached
        })
    }

    fn dominates(&mut self, stage: StageId) -> bool {
        let (stages, cuts) = (&self.ingress.stages, self.cuts);
        let known = self.dominating.entry(stage);
        *known.or_insert_with(|| dominates(stages, stage, cuts))
    }
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
