//! Speculative execution of actions in prefetch passes: only the assignments on which later keys
//! depend. The fast path compares the key before it uses a result. So omissions cost time but never
//! change a result.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder};
use cranelift_frontend::Variable;
use exec::Unsupported;
use ir::{
    ActionId, Control, Expr, LabelId, MatchNext, MatchOutcome, Next, Place, Stmt, StmtKind,
    TableId, limbs_of,
};
use support::work::checkpoint;

use super::action::{Param, Uses};
use super::if_conversion::Ways;
use super::lookup_schedule::{Follows, assigns, exits};
use super::prefetch_pass::{Comes, PrefetchSite, TablePrefetch};
use super::{INLINE_LIMBS, Translator};

/// Match stage with a lookup result that a prefetch pass uses.
pub(super) struct ResolvedLookup<'n> {
    pub(super) table: TableId,
    pub(super) outcome: MatchOutcome,
    pub(super) next: &'n MatchNext,
    pub(super) site: PrefetchSite,
    /// True if the successor of the stage matters.
    pub(super) decides: bool,
}

impl Follows for Translator<'_> {
    fn follows(&self, expr: &Expr) -> bool {
        let all = |exprs: &[&Expr]| exprs.iter().all(|expr| self.follows(expr));
        match expr {
            Expr::Const(ty, _) => limbs_of(*ty) <= INLINE_LIMBS,
            Expr::Param(_) => true,
            Expr::Read(place) => self.follows_place(place),
            Expr::Cast(ty, a) => limbs_of(*ty) <= INLINE_LIMBS && all(&[a]),
            Expr::Unary(_, a) | Expr::Slice(a, ..) => all(&[a]),
            Expr::Binary(_, a, b) | Expr::Concat(a, b) => all(&[a, b]),
            Expr::Ternary(a, b, c) => all(&[a, b, c]),
            Expr::VarbitLen(_) | Expr::VarbitEq(..) => false,
        }
    }

    fn follows_place(&self, place: &Place) -> bool {
        let fused = self.fused.as_ref();
        place.dims.is_empty() && fused.is_some_and(|f| f.homes.followed.contains(&place.base))
    }

    fn is_scouted(&self, table: TableId, control: &Control) -> bool {
        let limbs = self.code.tables[table].key_limbs;
        let uses = Uses::of_control(self.program, control, self.costs);
        (1..=INLINE_LIMBS).contains(&limbs) && self.is_flat(table, &uses)
    }

    fn is_answered_at_once(&self, table: TableId) -> bool {
        let is_compared = self.compared_rules(table).is_some();
        is_compared || self.may_be_direct(table) && self.has_small_keys(table)
    }
}

impl Translator<'_> {
    /// Returns true if a prefetch pass can compute an expression, and its value is narrow.
    fn can_follow(&self, expr: &Expr) -> bool {
        let is_small = |limbs| limbs <= INLINE_LIMBS;
        self.follows(expr) && self.ty(expr).is_ok_and(|ty| is_small(limbs_of(ty)))
    }

    /// Returns true if a prefetch pass executes an assignment.
    pub(super) fn is_wanted(&self, to: &Place, value: &Expr, plan: &TablePrefetch<'_>) -> bool {
        plan.needed.contains(&to.base) && self.follows_place(to) && self.can_follow(value)
    }

    /// Translates `work` under the condition that packets reach a stage.
    pub(super) fn if_comes(
        &mut self,
        here: Comes,
        work: impl FnOnce(&mut Self) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        let Comes::If(here) = here else {
            return work(self);
        };
        let (inside, after) = (self.b.create_block(), self.b.create_block());
        let here = self.b.use_var(here);
        self.branch(here, inside, after);
        self.start_sealed(inside);
        work(self)?;
        self.jump(after);
        self.start_sealed(after);
        Ok(())
    }

    /// Executes the code of a stage speculatively. Returns the condition for its successor.
    pub(super) fn sketch_stage(
        &mut self,
        here: Comes,
        body: &[Stmt],
        plan: &TablePrefetch<'_>,
    ) -> Result<Comes, Unsupported> {
        let may_exit = exits(self.program, body);
        if !may_exit && !assigns(self.program, body, &plan.needed) {
            return Ok(here);
        }
        let zero = self.number(0);
        let goes_on = self.variable(zero);
        self.if_comes(here, |this| {
            let after = this.b.create_block();
            this.done = Some(after);
            this.sketch(body, plan)?;
            if this.is_live {
                let one = this.number(1);
                this.b.def_var(goes_on, one);
            }
            this.jump(after);
            this.done = None;
            this.start_sealed(after);
            Ok(())
        })?;
        Ok(if may_exit { Comes::If(goes_on) } else { here })
    }

    fn sketch(&mut self, body: &[Stmt], plan: &TablePrefetch<'_>) -> Result<(), Unsupported> {
        for stmt in body {
            checkpoint();
            if !self.is_live {
                break;
            }
            self.sketch_stmt(stmt, plan)?;
            self.free_temporaries();
        }
        Ok(())
    }

    fn sketch_stmt(&mut self, stmt: &Stmt, plan: &TablePrefetch<'_>) -> Result<(), Unsupported> {
        match &stmt.kind {
            StmtKind::Assign(to, value) if self.is_wanted(to, value, plan) => {
                self.assign(to, value)
            }
            StmtKind::AssignSlice(to, hi, lo, value) if self.is_wanted(to, value, plan) => {
                self.assign_slice(to, *lo, hi + 1 - lo, value)
            }
            // Unknown conditions are assumed to be false, since most of them test for erroneous
            // packets.
            StmtKind::If(cond, then, otherwise)
                if plan.levels.is_known(cond, plan.level) && self.can_follow(cond) =>
            {
                self.sketch_if(cond, then, otherwise, plan)
            }
            StmtKind::Block(label, body) => self.sketch_block(*label, body, plan),
            StmtKind::Leave(label) => {
                if let Some(&(to, _)) = self.enclosing.get(label) {
                    self.jump(to);
                }
                Ok(())
            }
            StmtKind::Exit => {
                if let Some(done) = self.done {
                    self.jump(done);
                }
                Ok(())
            }
            StmtKind::CallAction(action, args) => self.sketch_call(*action, args, plan),
            _ => Ok(()),
        }
    }

    fn sketch_if(
        &mut self,
        cond: &Expr,
        then: &[Stmt],
        otherwise: &[Stmt],
        plan: &TablePrefetch<'_>,
    ) -> Result<(), Unsupported> {
        let (yes, no) = (self.b.create_block(), self.b.create_block());
        let end = self.b.create_block();
        self.decide(cond, yes, no)?;
        self.free_temporaries();
        self.start_sealed(yes);
        self.sketch(then, plan)?;
        self.jump(end);
        self.start_sealed(no);
        self.sketch(otherwise, plan)?;
        self.jump(end);
        self.start_sealed(end);
        Ok(())
    }

    fn sketch_block(
        &mut self,
        label: LabelId,
        body: &[Stmt],
        plan: &TablePrefetch<'_>,
    ) -> Result<(), Unsupported> {
        let leave = self.b.create_block();
        self.enclosing.insert(label, (leave, leave));
        self.sketch(body, plan)?;
        self.jump(leave);
        self.start_sealed(leave);
        Ok(())
    }

    fn sketch_call(
        &mut self,
        action: ActionId,
        args: &[Expr],
        plan: &TablePrefetch<'_>,
    ) -> Result<(), Unsupported> {
        let Some(declared) = self.program.actions.get(action) else {
            return Ok(());
        };
        let (body, program) = (&declared.body, self.program);
        let is_of_use = exits(program, body) || assigns(program, body, &plan.needed);
        let is_wide = (0..args.len()).any(|i| self.wide_param(action, i).is_some());
        if !is_of_use || is_wide || !args.iter().all(|arg| self.can_follow(arg)) {
            return Ok(());
        }
        let mut params = Vec::with_capacity(args.len());
        for arg in args {
            checkpoint();
            let value = self.value(arg)?;
            params.push(Param::Variables(
                value.into_iter().map(|v| self.variable(v)).collect(),
            ));
        }
        self.sketch_action(action, params, plan)
    }

    fn sketch_action(
        &mut self,
        action: ActionId,
        params: Vec<Param>,
        plan: &TablePrefetch<'_>,
    ) -> Result<(), Unsupported> {
        let Some(declared) = self.program.actions.get(action) else {
            return Ok(());
        };
        let around = self.action.replace((action, params));
        let enclosing = std::mem::take(&mut self.enclosing);
        let followed = self.sketch(&declared.body, plan);
        self.enclosing = enclosing;
        self.action = around;
        followed
    }

    /// Executes the action of a lookup result speculatively. Returns the successors with their
    /// conditions.
    pub(super) fn sketch_answer(
        &mut self,
        here: Comes,
        answered: &ResolvedLookup<'_>,
        plan: &TablePrefetch<'_>,
    ) -> Result<Vec<(Next, Comes)>, Unsupported> {
        let nexts: Vec<Next> = match answered.next {
            MatchNext::Always(next) => vec![*next],
            MatchNext::ByHit { hit, miss } => vec![*hit, *miss],
            MatchNext::ByAction(nexts) => nexts.clone(),
        };
        let zero = self.number(0);
        let ways: Vec<Variable> = nexts.iter().map(|_| self.variable(zero)).collect();
        self.if_comes(here, |this| {
            let after = this.b.create_block();
            this.follow_answer(answered, &ways, plan, after)?;
            this.start_sealed(after);
            Ok(())
        })?;
        let comes = |way: Variable| match answered.decides {
            true => Comes::If(way),
            false => here,
        };
        let ways = ways.into_iter().map(comes);
        Ok(nexts.into_iter().zip(ways).collect())
    }

    fn follow_answer(
        &mut self,
        answered: &ResolvedLookup<'_>,
        ways: &[Variable],
        plan: &TablePrefetch<'_>,
        after: Block,
    ) -> Result<(), Unsupported> {
        let table = answered.table;
        let number = self.answered_record(answered.site, after)?;
        let is_hit = self.b.ins().icmp_imm(IntCC::NotEqual, number, 0);
        let hit = self.number_of(is_hit);
        if let Some(field) = answered
            .outcome
            .hit
            .filter(|field| plan.needed.contains(field))
        {
            let slot = self.slot(field);
            self.store_slots(slot, &[hit]);
        }
        let by_hit = matches!(answered.next, MatchNext::ByHit { .. });
        let by_action = matches!(answered.next, MatchNext::ByAction(_));
        if let (true, &[on_hit, on_miss]) = (by_hit && answered.decides, ways) {
            let miss = self.b.ins().bxor_imm(hit, 1);
            self.b.def_var(on_hit, hit);
            self.b.def_var(on_miss, miss);
        }
        let program = self.program;
        let actions = self.code.tables[table].actions.to_vec();
        let mut arms = Vec::new();
        let mut blocks = Vec::new();
        for (position, &action) in actions.iter().enumerate() {
            checkpoint();
            let body = program.actions.get(action).map_or(&[][..], |a| &a.body);
            let ends = answered.decides && exits(program, body);
            let is_of_use =
                ends || assigns(program, body, &plan.needed) || (answered.decides && by_action);
            blocks.push(match is_of_use {
                true => {
                    let block = self.b.create_block();
                    let way = ways.get(position).filter(|_| by_action);
                    arms.push((block, position, action, way));
                    block
                }
                false => after,
            });
        }
        let action_run = answered.outcome.action_run;
        let action_run = action_run.filter(|field| plan.needed.contains(field));
        if arms.is_empty() && action_run.is_none() {
            self.jump(after);
            return Ok(());
        }
        let record = self.record_of(table, number);
        let followed: Vec<(usize, ActionId)> = arms.iter().map(|arm| (arm.1, arm.2)).collect();
        let choices = action_run
            .is_none()
            .then(|| self.choices(table, &followed, plan));
        if let Some(choices) = choices.flatten() {
            let ways = match by_action && answered.decides {
                true => Ways::ByAction(ways),
                false => Ways::Others(ways),
            };
            self.choose((table, record, is_hit), &choices, ways)?;
            self.jump(after);
            return Ok(());
        }
        let head = self.head_of(table, record, is_hit);
        if let Some(field) = action_run {
            let slot = self.slot(field);
            self.store_slots(slot, &[head]);
        }
        self.go_by_head(head, &blocks, after);
        for (block, position, action, way) in arms {
            checkpoint();
            self.start(block);
            let exit = self.b.create_block();
            self.done = Some(exit);
            let fields = self.fields_in_record(table, position);
            let pointer = self.variable(record);
            let params = self.entry_params(action, pointer, &fields);
            self.sketch_action(action, params, plan)?;
            if self.is_live {
                if let Some(&way) = way {
                    let one = self.number(1);
                    self.b.def_var(way, one);
                }
                self.jump(after);
            }
            self.done = None;
            self.start_sealed(exit);
            let zero = self.number(0);
            for &way in ways {
                checkpoint();
                self.b.def_var(way, zero);
            }
            self.jump(after);
        }
        Ok(())
    }
}
