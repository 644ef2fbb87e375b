//! Match stages: the key into slots, a helper that finds what to run, and the actions of the table.

use bits::limbs_for;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::{Switch, Variable};
use exec::Unsupported;
use ir::{ActionId, MatchKind, MatchNext, MatchOutcome, StageId, TableId};

use super::Translator;
use super::control::Line;
use crate::abi::{NO_ACTION, Outcome, offset};
use crate::helpers::Helper;

/// What applying a table came to: the number of [`crate::abi::applied_number`], needed behind the action too.
struct Applied(Variable);

impl Translator<'_> {
    pub(super) fn match_stage(
        &mut self,
        id: StageId,
        table: TableId,
        outcome: MatchOutcome,
        next: &MatchNext,
        line: &Line<'_>,
    ) -> Result<(), Unsupported> {
        self.put_key(table)?;
        let number = self.help_with(Helper::Apply, &[table.get().into()]);
        let applied = Applied(self.variable(number));
        let actions: Vec<ActionId> = self.code.tables[table].actions.to_vec();
        match next {
            MatchNext::ByAction(nexts) => {
                let none = self.b.create_block();
                let ways: Vec<Block> = nexts.iter().map(|_| self.b.create_block()).collect();
                self.run_chosen(&applied, &actions, &ways, none)?;
                for (&way, &next) in ways.iter().zip(nexts) {
                    self.start(way);
                    self.put_outcome(outcome, &applied);
                    self.follow(id, next, line);
                }
                // Without an action there is no way on.
                self.start(none);
                self.put_outcome(outcome, &applied);
                self.end_with(Outcome::Done);
            }
            MatchNext::Always(next) => {
                self.run_all(&applied, &actions)?;
                self.put_outcome(outcome, &applied);
                self.follow(id, *next, line);
            }
            MatchNext::ByHit { hit, miss } => {
                self.run_all(&applied, &actions)?;
                self.put_outcome(outcome, &applied);
                let (yes, no) = (self.b.create_block(), self.b.create_block());
                let was_hit = self.hit(&applied);
                self.branch(was_hit, yes, no);
                self.start_sealed(yes);
                self.follow(id, *hit, line);
                self.start_sealed(no);
                self.follow(id, *miss, line);
            }
        }
        Ok(())
    }

    /// Whether the table was hit, as a number.
    fn hit(&mut self, applied: &Applied) -> Value {
        let number = self.b.use_var(applied.0);
        self.b.ins().ushr_imm(number, 32)
    }

    /// The position of the action that runs; [`NO_ACTION`] for none.
    fn position(&mut self, applied: &Applied) -> Value {
        let number = self.b.use_var(applied.0);
        self.b.ins().band_imm(number, NO_ACTION as i64)
    }

    fn put_key(&mut self, table: TableId) -> Result<(), Unsupported> {
        let program = self.program;
        let Some(declared) = program.tables.get(table) else {
            return Err(self.unsupported("a table that does not exist"));
        };
        let mut slot = self.code.tables[table].key;
        let mut selector = 0;
        for key in &declared.keys {
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
        Ok(())
    }

    /// Runs the action that was chosen; all ways meet behind it.
    fn run_all(&mut self, applied: &Applied, actions: &[ActionId]) -> Result<(), Unsupported> {
        let after = self.b.create_block();
        let ways = vec![after; actions.len()];
        self.run_chosen(applied, actions, &ways, after)?;
        self.start(after);
        Ok(())
    }

    /// Runs the action that was chosen, and goes on its way; to `none` if there is none.
    fn run_chosen(
        &mut self,
        applied: &Applied,
        actions: &[ActionId],
        ways: &[Block],
        none: Block,
    ) -> Result<(), Unsupported> {
        let mut switch = Switch::new();
        let mut bodies = Vec::new();
        for (position, (&action, &way)) in actions.iter().zip(ways).enumerate() {
            let declared = self.program.actions.get(action);
            let block = if declared.is_some_and(|action| action.body.is_empty()) {
                way
            } else {
                let block = self.b.create_block();
                bodies.push((block, action, way));
                block
            };
            if block != none {
                switch.set_entry(position as u128, block);
            }
        }
        let chosen = self.position(applied);
        // The position, without a search where there is one action only.
        match &bodies[..] {
            [(body, ..)] if switch.entries().len() == 1 => {
                let position = switch.entries().keys().next().copied().unwrap_or(0);
                let is_it = IntCC::Equal;
                let is_it = self.b.ins().icmp_imm(is_it, chosen, position as i64);
                self.branch(is_it, *body, none);
            }
            _ => {
                switch.emit(&mut self.b, chosen, none);
                self.is_live = false;
            }
        }
        for (block, action, way) in bodies {
            self.start(block);
            let params = self.load_invocation(offset::PARAMS);
            self.run_entry_action(action, params)?;
            self.free_temporaries();
            self.jump(way);
        }
        Ok(())
    }

    fn put_outcome(&mut self, outcome: MatchOutcome, applied: &Applied) {
        if let Some(hit) = outcome.hit {
            let slot = self.slot(hit);
            let hit = self.hit(applied);
            self.store_slots(slot, &[hit]);
        }
        if let Some(action_run) = outcome.action_run {
            let slot = self.slot(action_run);
            let position = self.position(applied);
            self.store_slots(slot, &[position]);
        }
    }
}
