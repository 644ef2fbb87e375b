//! Translation of controls: a sequence of stages. Forward links are jumps, and backward links spend
//! work.

use std::collections::HashSet;

use bits::IdVec;
use cranelift_codegen::ir::Block;
use exec::Unsupported;
use ir::{Control, ControlId, Next, Stage, StageId, StageKind};

use super::Translator;
use super::action::Uses;
use super::work_bounds::nexts;
use crate::abi::Outcome;

/// Blocks of the stages of the current control.
pub(super) struct Line<'c> {
    control: &'c Control,
    stages: IdVec<StageId, Block>,
    end: Block,
}

impl Translator<'_> {
    pub(super) fn control(&mut self, id: ControlId) -> Result<(), Unsupported> {
        let Some(control) = self.program.controls.get(id) else {
            return Ok(());
        };
        self.uses = Uses::of_control(self.program, control, self.costs);
        let line = Line {
            control,
            stages: control
                .stages
                .ids()
                .map(|_| self.b.create_block())
                .collect(),
            end: self.b.create_block(),
        };
        let first = line.stages.values().next().copied();
        self.jump(first.unwrap_or(line.end));
        let again = linked_back(control);
        for (stage_id, stage) in control.stages.iter() {
            self.loc = stage.loc;
            self.check_size()?;
            self.enclosing.clear();
            match again.contains(&stage_id) {
                true => self.start(line.stages[stage_id]),
                false => self.start_sealed(line.stages[stage_id]),
            }
            self.spend(self.budget.stage(stage));
            self.stage(stage_id, stage, &line)?;
            self.free_temporaries();
        }
        self.start_sealed(line.end);
        self.end_with(Outcome::Done);
        self.loc = None;
        Ok(())
    }

    fn stage(&mut self, id: StageId, stage: &Stage, line: &Line<'_>) -> Result<(), Unsupported> {
        match &stage.kind {
            StageKind::Condition {
                cond,
                then,
                otherwise,
            } => {
                let (yes, no) = (self.b.create_block(), self.b.create_block());
                self.decide(cond, yes, no)?;
                self.start_sealed(yes);
                self.follow(id, *then, line);
                self.start_sealed(no);
                self.follow(id, *otherwise, line);
            }
            StageKind::Action { body, next } => {
                self.body(body)?;
                self.follow(id, *next, line);
            }
            StageKind::Match {
                table,
                outcome,
                next,
            } => self.match_stage(id, *table, *outcome, next, line)?,
        }
        Ok(())
    }

    /// Follows a link to the next stage.
    pub(super) fn follow(&mut self, from: StageId, next: Next, line: &Line<'_>) {
        if !self.is_live {
            return;
        }
        match next {
            Next::End => self.jump(line.end),
            Next::Stage(to) => {
                if to <= from {
                    self.spend(self.budget.back_link(line.control, from, to));
                }
                self.jump(line.stages[to]);
            }
        }
    }
}

/// Returns the targets of backward links. Their blocks cannot be sealed when they are started.
fn linked_back(control: &Control) -> HashSet<StageId> {
    let stages = control.stages.iter();
    let links = stages.flat_map(|(from, stage)| nexts(stage).map(move |next| (from, next)));
    let back = links.filter_map(|(from, next)| match next {
        Next::Stage(to) if to <= from => Some(to),
        _ => None,
    });
    back.collect()
}
