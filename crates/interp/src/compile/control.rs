//! Compilation of controls: a sequence of stages. Forward links are jumps, backward links charge
//! work.

use bits::{Id, IdVec, limbs_for};
use exec::Unsupported;
use ir::{Control, ControlId, MatchKind, MatchNext, MatchOutcome, Next, Stage, StageId, StageKind};
use support::work::checkpoint;

use super::{Compiler, Mode};
use crate::code::{Inst, Pc, Tell};

/// Labels of the stages of the current control.
struct Line<'c> {
    control: &'c Control,
    stages: IdVec<StageId, Pc>,
    end: Pc,
    /// Backward links: label, work units, and target.
    back: Vec<(Pc, u32, StageId)>,
}

impl Compiler<'_> {
    /// Compiles a control. Returns its first instruction.
    pub(super) fn control(&mut self, id: ControlId, control: &Control) -> Result<Pc, Unsupported> {
        let entry = self.code.insts.len() as Pc;
        let mut line = Line {
            control,
            stages: control.stages.ids().map(|_| self.label()).collect(),
            end: self.label(),
            back: Vec::new(),
        };
        for (stage_id, stage) in control.stages.iter() {
            checkpoint();
            self.loc = stage.loc;
            self.enclosing.clear();
            self.place_label(line.stages[stage_id]);
            self.tell(Tell::Stage(id, stage_id));
            self.spend(self.work.stage(stage));
            self.stage(stage_id, stage, &mut line)?;
            self.free_temporaries();
        }
        self.place_label(line.end);
        self.emit(Inst::End);
        for (label, units, stage) in std::mem::take(&mut line.back) {
            checkpoint();
            self.place_label(label);
            self.emit(Inst::Work { units });
            self.emit(Inst::Jump {
                to: line.stages[stage],
            });
        }
        self.loc = None;
        Ok(entry)
    }

    fn stage(
        &mut self,
        id: StageId,
        stage: &Stage,
        line: &mut Line<'_>,
    ) -> Result<(), Unsupported> {
        match &stage.kind {
            StageKind::Condition {
                cond,
                then,
                otherwise,
            } => {
                let otherwise = self.link(id, *otherwise, line);
                if self.mode == Mode::Traced {
                    let no = self.label();
                    self.jump_unless(cond, no)?;
                    self.tell(Tell::Condition(true));
                    let yes = self.link(id, *then, line);
                    self.emit(Inst::Jump { to: yes });
                    self.place_label(no);
                    self.tell(Tell::Condition(false));
                    self.emit(Inst::Jump { to: otherwise });
                    return Ok(());
                }
                self.jump_unless(cond, otherwise)?;
                self.continue_with(id, *then, line);
            }
            StageKind::Action { body, next } => {
                self.body(body)?;
                self.continue_with(id, *next, line);
            }
            StageKind::Match {
                table,
                outcome,
                next,
            } => {
                self.apply(*table, *outcome)?;
                self.after_match(id, next, line);
            }
        }
        Ok(())
    }

    fn apply(&mut self, table: ir::TableId, outcome: MatchOutcome) -> Result<(), Unsupported> {
        let program = self.program;
        let Some(declared) = program.tables.get(table) else {
            return Err(self.unsupported("a table that does not exist"));
        };
        let mut slot = self.code.tables[table].key;
        let mut selector = 0;
        for key in &declared.keys {
            checkpoint();
            let width = self.ty(&key.expr)?.width();
            if key.match_kind == MatchKind::Selector {
                let (to, _) = self.code.tables[table].selectors[selector];
                self.compute(&key.expr, to)?;
                selector += 1;
            } else {
                if width > 0 {
                    self.compute(&key.expr, slot)?;
                }
                slot += limbs_for(width) as u32;
            }
            self.free_temporaries();
        }
        self.tell(Tell::Before);
        self.emit(Inst::Apply { table: table.get() });
        if let Some(hit) = outcome.hit {
            let d = self.slot(hit);
            self.emit(Inst::StoreHit { d });
        }
        if let Some(action_run) = outcome.action_run {
            let d = self.slot(action_run);
            self.emit(Inst::StoreActionRun { d });
        }
        Ok(())
    }

    fn after_match(&mut self, id: StageId, next: &MatchNext, line: &mut Line<'_>) {
        match next {
            MatchNext::Always(next) => self.continue_with(id, *next, line),
            MatchNext::ByHit { hit, miss } => {
                let miss = self.link(id, *miss, line);
                self.emit(Inst::JumpIfMiss { to: miss });
                self.continue_with(id, *hit, line);
            }
            MatchNext::ByAction(nexts) => {
                let targets = nexts.iter().map(|next| self.link(id, *next, line));
                let targets = targets.collect();
                self.code.switches.push(targets);
                let at = self.code.switches.len() as u32 - 1;
                self.emit(Inst::SwitchAction(at));
            }
        }
    }

    /// Returns the label of a link.
    fn link(&mut self, from: StageId, next: Next, line: &mut Line<'_>) -> Pc {
        match next {
            Next::End => line.end,
            Next::Stage(to) if to > from => line.stages[to],
            Next::Stage(to) => {
                let label = self.label();
                let units = self.work.back_link(line.control, from, to);
                line.back.push((label, units, to));
                label
            }
        }
    }

    /// Emits a jump to the next stage, unless it follows directly.
    fn continue_with(&mut self, from: StageId, next: Next, line: &mut Line<'_>) {
        let follows = match next {
            Next::Stage(to) => to.index() == from.index() + 1,
            Next::End => from.index() + 1 == line.stages.len(),
        };
        if !follows {
            let to = self.link(from, next, line);
            self.emit(Inst::Jump { to });
        }
    }
}
