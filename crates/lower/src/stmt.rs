//! Lowering of statements.

use std::collections::HashSet;

use ir::{BinOp, Call, Expr, MatchOutcome, Op, StmtKind};
use passes::fold;
use passes::sequence::{Dispatch, Node};
use sema::hir::{self, ApplyMember, Arg, Callee, Collection, ExprKind, Ty, TyId, VarId};
use support::work::checkpoint;
use syntax::ast::{BinaryOp, UnaryOp};
use syntax::source::Span;

use crate::annotate;
use crate::cx::{Bound, LoopLabels, Lower, ReturnTo, bits_const, plain};
use crate::storage::Place;
use crate::value::Rv;

impl Lower<'_> {
    pub(crate) fn stmts(&mut self, stmts: &[hir::Stmt]) {
        for stmt in stmts {
            checkpoint();
            self.stmt(stmt);
        }
    }

    pub(crate) fn stmt(&mut self, stmt: &hir::Stmt) {
        checkpoint();
        let outer = self.loc;
        let outer_span = std::mem::replace(&mut self.span, stmt.span);
        if self.may_nest() {
            self.loc = self.loc_of(stmt.span).or(outer);
            self.stmt_kind(stmt);
        }
        self.loc = outer;
        self.span = outer_span;
    }

    fn stmt_kind(&mut self, stmt: &hir::Stmt) {
        match &stmt.kind {
            hir::StmtKind::Var(var, init) => self.declare_var(*var, init.as_ref()),
            hir::StmtKind::Assign(to, value) => self.assignment(to, value),
            hir::StmtKind::CompoundAssign(to, op, value) => {
                self.compound_assignment(to, *op, value)
            }
            hir::StmtKind::Call(call, ty) => {
                self.call(call, *ty);
            }
            hir::StmtKind::If(cond, then, otherwise) => self.if_stmt(cond, then, otherwise),
            hir::StmtKind::Block(body, annotations) => self.block(body, annotations),
            hir::StmtKind::Return(value) => self.return_stmt(value.as_ref()),
            hir::StmtKind::Exit => self.emit_exit(),
            hir::StmtKind::Break => {
                if let Some(labels) = self.loops.last() {
                    self.emit(StmtKind::Leave(labels.leave));
                }
            }
            hir::StmtKind::Continue => {
                if let Some(labels) = self.loops.last() {
                    self.emit(StmtKind::Leave(labels.again));
                }
            }
            hir::StmtKind::SwitchAction { table, cases } => {
                self.switch_action(*table, cases, stmt.span)
            }
            hir::StmtKind::SwitchValue { value, cases } => self.switch_value(value, cases),
            hir::StmtKind::For {
                init,
                cond,
                update,
                body,
                ..
            } => self.for_stmt(init, cond, update, body),
            hir::StmtKind::ForIn {
                var,
                collection,
                body,
                ..
            } => self.for_in(*var, collection, body),
        }
    }

    /// Returns the storage of a local variable, always the same within an instance.
    pub(crate) fn var_storage(&mut self, var: VarId) -> Place {
        let hir = self.hir;
        let decl = &hir.vars[var];
        let ty = self.subst(decl.ty);
        let key = (self.node, var, ty);
        if let Some(slot) = self.storage.get(&key) {
            return Place::of(slot.clone(), ty);
        }
        let name = self.local_name(decl.name.as_str());
        let place = self.allocate(&name, ty);
        self.storage.insert(key, place.slot.clone());
        place
    }

    /// Declares a variable.
    pub(crate) fn declare_var(&mut self, var: VarId, init: Option<&hir::Expr>) {
        let ty = self.subst(self.hir.vars[var].ty);
        let value = init.map(|init| self.value(init));
        if let Some(value) = &value
            && !matches!(
                value,
                Rv::Scalar(_)
                    | Rv::Place(_)
                    | Rv::List(_)
                    | Rv::Header(_)
                    | Rv::Invalid
                    | Rv::Default
                    | Rv::Int(_)
            )
        {
            self.vars.insert(var, Bound::Value(value.clone()));
            return;
        }
        if matches!(self.ty(ty), Ty::Integer | Ty::List(_)) {
            self.vars
                .insert(var, Bound::Value(value.unwrap_or(Rv::Default)));
            return;
        }
        let place = self.var_storage(var);
        match value {
            Some(value) => self.assign(&place, &value, ty),
            None => self.reset_headers(&place),
        }
        self.vars.insert(var, Bound::Place(place));
    }

    fn assignment(&mut self, to: &hir::Expr, value: &hir::Expr) {
        let mut lvalue = self.lvalue(to);
        let before = self.code.len();
        if self.has_effects(value) {
            lvalue = self.settle_lvalue(lvalue);
        }
        let value = self.value(value);
        if self.code.len() != before {
            lvalue = self.settle_lvalue(lvalue);
        }
        let ty = self.subst(to.ty);
        self.store(&lvalue, &value, ty);
    }

    fn compound_assignment(&mut self, to: &hir::Expr, op: BinaryOp, value: &hir::Expr) {
        let lvalue = self.lvalue(to);
        let lvalue = self.settle_lvalue(lvalue);
        let mut old = self.load_lvalue(&lvalue);
        let ty = self.subst(to.ty);
        if self.has_effects(value) {
            old = self.save_value(old, ty);
        }
        let amount = self.value(value);
        let result = match op {
            BinaryOp::LogicalAnd | BinaryOp::LogicalOr => {
                let (a, b) = (self.scalar_value(&old, ty), self.scalar_value(&amount, ty));
                Rv::Scalar(if op == BinaryOp::LogicalAnd {
                    fold::and(a, b)
                } else {
                    fold::or(a, b)
                })
            }
            op => self.binary_values(op, (&old, ty), (&amount, value.ty), ty),
        };
        self.store(&lvalue, &result, ty);
    }

    fn block(&mut self, body: &[hir::Stmt], annotations: &[hir::Annotation]) {
        if !annotate::has(annotations, "atomic") {
            return self.stmts(body);
        }
        let (code, ()) = self.capture(|this| this.stmts(body));
        match plain(code) {
            Ok(body) if !body.is_empty() => self.emit(StmtKind::Atomic(body)),
            Ok(_) => {}
            // Code with tables becomes stages, and stays atomic to the end of its control.
            Err(code) => {
                self.emit(StmtKind::Call(Call {
                    op: Op::HoldAtomic,
                    instance: None,
                    operands: Vec::new(),
                }));
                self.code.extend(code);
            }
        }
    }

    fn return_stmt(&mut self, value: Option<&hir::Expr>) {
        let result = value.map(|value| (self.value(value), value.ty));
        match self.returns.last().cloned() {
            Some(ReturnTo::Label(label, place)) => {
                if let (Some(place), Some((result, _))) = (place, result) {
                    self.assign(&place, &result, place.ty);
                }
                self.emit(StmtKind::Leave(label));
            }
            Some(ReturnTo::Nowhere) | None => {}
        }
    }

    fn if_stmt(&mut self, cond: &hir::Expr, then: &[hir::Stmt], otherwise: &[hir::Stmt]) {
        if let Some((table, on_hit)) = applied_condition(cond)
            && !self.must_check_exit(table)
        {
            let (yes, ()) = self.capture(|this| this.stmts(then));
            let (no, ()) = self.capture(|this| this.stmts(otherwise));
            let (hit, miss) = if on_hit { (yes, no) } else { (no, yes) };
            let dispatch = if hit.is_empty() && miss.is_empty() {
                Dispatch::Always
            } else {
                Dispatch::ByHit { hit, miss }
            };
            self.emit_apply(table, MatchOutcome::default(), dispatch, cond.span);
            return;
        }
        let cond = self.scalar_of(cond);
        match fold::as_bool(&cond) {
            Some(true) => return self.stmts(then),
            Some(false) => return self.stmts(otherwise),
            None => {}
        }
        if is_long_chain(otherwise) {
            return self.if_chain(cond, then, otherwise);
        }
        let (then, ()) = self.capture(|this| this.stmts(then));
        let (otherwise, ()) = self.capture(|this| this.stmts(otherwise));
        self.emit_if(cond, then, otherwise);
    }

    /// Lowers an `if .. else if ..` chain with many branches as a sequence, without nesting.
    fn if_chain(&mut self, cond: Expr, then: &[hir::Stmt], otherwise: &[hir::Stmt]) {
        let end = self.label();
        let (code, ()) = self.capture(|this| {
            let (mut cond, mut then, mut rest) = (cond, then, otherwise);
            loop {
                checkpoint();
                let (branch, ()) = this.capture(|this| {
                    this.stmts(then);
                    this.emit(StmtKind::Leave(end));
                });
                this.emit_if(cond, branch, Vec::new());
                match rest {
                    [
                        hir::Stmt {
                            kind: hir::StmtKind::If(next, yes, no),
                            span,
                        },
                    ] if !this.is_over() => {
                        this.span = *span;
                        this.loc = this.loc_of(*span).or(this.loc);
                        cond = this.scalar_of(next);
                        (then, rest) = (yes, no);
                    }
                    rest => break this.stmts(rest),
                }
            }
        });
        self.emit_block(end, code);
    }

    fn switch_action(&mut self, table: hir::TableId, cases: &[hir::SwitchCase<usize>], span: Span) {
        let made = self.make_table(table);
        let actions = self.out.tables[made.id].actions.len();
        let default = cases.iter().position(|case| case.is_default);
        let mut choice: Vec<Option<usize>> = vec![default; actions];
        // The first case with a label counts.
        for (body, case) in cases.iter().enumerate().rev() {
            checkpoint();
            for &action in &case.labels {
                checkpoint();
                if let Some(choice) = choice.get_mut(action) {
                    *choice = Some(body);
                }
            }
        }
        let bodies: Vec<Vec<Node>> = cases
            .iter()
            .map(|case| self.capture(|this| this.stmts(&case.body)).0)
            .collect();
        if !self.must_check_exit(table) {
            let dispatch = Dispatch::ByAction { choice, bodies };
            return self.emit_apply(table, MatchOutcome::default(), dispatch, span);
        }
        let ran = self.temp_field(ir::ScalarTy::Bit(32));
        self.apply_table(
            table,
            MatchOutcome {
                hit: None,
                action_run: Some(ran),
            },
            span,
        );
        let mut of_bodies: Vec<Vec<usize>> = vec![Vec::new(); bodies.len()];
        for (action, body) in choice.iter().enumerate() {
            checkpoint();
            if let Some(body) = *body {
                of_bodies[body].push(action);
            }
        }
        let mut chain = Vec::new();
        for (body, code) in bodies.into_iter().enumerate().rev() {
            checkpoint();
            let mut cond = fold::bool_const(false);
            for &action in &of_bodies[body] {
                checkpoint();
                let number = bits_const(action as u64, 32);
                let is = Expr::Binary(
                    BinOp::Eq,
                    Box::new(Expr::Read(ran.into())),
                    Box::new(number),
                );
                cond = fold::or(cond, is);
            }
            chain = self.capture(|this| this.emit_if(cond, code, chain)).0;
        }
        self.code.extend(chain);
    }

    fn switch_value(&mut self, value: &hir::Expr, cases: &[hir::SwitchCase<hir::Expr>]) {
        let ty = self.subst(value.ty);
        let value = self.value(value);
        let value = self.save_value(value, ty);
        let default = cases.iter().find(|case| case.is_default);
        let rest = match default {
            Some(case) => self.capture(|this| this.stmts(&case.body)).0,
            None => Vec::new(),
        };
        let named: Vec<_> = cases.iter().filter(|case| !case.is_default).collect();
        let Some((last, before)) = named.split_last() else {
            return self.code.extend(rest);
        };
        // A sequence without nesting: there may be a large number of cases.
        let end = self.label();
        let (code, ()) = self.capture(|this| {
            for case in before {
                checkpoint();
                let cond = this.case_condition(&value, ty, &case.labels);
                let (code, ()) = this.capture(|this| {
                    this.stmts(&case.body);
                    this.emit(StmtKind::Leave(end));
                });
                this.emit_if(cond, code, Vec::new());
            }
            let cond = this.case_condition(&value, ty, &last.labels);
            let (code, ()) = this.capture(|this| this.stmts(&last.body));
            this.emit_if(cond, code, rest);
        });
        if before.is_empty() {
            self.code.extend(code);
        } else {
            self.emit_block(end, code);
        }
    }

    fn case_condition(&mut self, value: &Rv, ty: TyId, labels: &[hir::Expr]) -> Expr {
        let mut any = Vec::new();
        for label in labels {
            checkpoint();
            let label = self.value(label);
            any.push(self.equal(value, &label, ty));
        }
        fold::any(any)
    }

    fn for_stmt(
        &mut self,
        init: &[hir::Stmt],
        cond: &hir::Expr,
        update: &[hir::Stmt],
        body: &[hir::Stmt],
    ) {
        self.stmts(init);
        self.loop_of(|this, leave| {
            let cond = this.scalar_of(cond);
            this.leave_unless(cond, leave);
            this.round(leave, |this| this.stmts(body));
            this.stmts(update);
        });
    }

    /// Lowers a loop. `f` appends one iteration.
    fn loop_of(&mut self, f: impl FnOnce(&mut Self, ir::LabelId)) {
        let leave = self.label();
        let (code, ()) = self.capture(|this| f(this, leave));
        self.emit_loop(leave, code);
    }

    /// Lowers the body of an iteration, which `break` and `continue` leave.
    fn round(&mut self, leave: ir::LabelId, f: impl FnOnce(&mut Self)) {
        let again = self.label();
        self.loops.push(LoopLabels { leave, again });
        let (code, ()) = self.capture(f);
        self.loops.pop();
        self.emit_block(again, code);
    }

    fn leave_unless(&mut self, cond: Expr, leave: ir::LabelId) {
        let (code, ()) = self.capture(|this| this.emit(StmtKind::Leave(leave)));
        self.emit_if(fold::not(cond), code, Vec::new());
    }

    fn for_in(&mut self, var: VarId, collection: &Collection, body: &[hir::Stmt]) {
        match collection {
            Collection::Range(lo, hi) => self.for_range(var, lo, hi, body),
            Collection::Elements(elements) => {
                let ty = self.peel(elements.ty);
                match self.value(elements) {
                    Rv::Place(place) if matches!(self.ty(ty), Ty::Stack(..)) => {
                        self.for_stack(var, &place, ty, body)
                    }
                    value => self.for_parts(var, &value, ty, body),
                }
            }
        }
    }

    /// Lowers `for (x in lo .. hi)`. Nothing is computed past `hi`, which may be the maximum of its
    /// type.
    fn for_range(&mut self, var: VarId, lo: &hir::Expr, hi: &hir::Expr, body: &[hir::Stmt]) {
        let values = self.values(&[lo, hi]);
        let [lo_value, hi_value] = values.as_slice() else {
            return;
        };
        let ty = self.subst(self.hir.vars[var].ty);
        let Some(scalar) = self.scalar(ty) else {
            return;
        };
        let lo = self.scalar_value(lo_value, ty);
        let hi = self.scalar_value(hi_value, ty);
        let hi = self.save(scalar, hi);
        let counter = self.temp_field(scalar);
        self.saved.insert(counter);
        self.emit(StmtKind::Assign(counter.into(), lo));
        let place = self.var_storage(var);
        self.vars.insert(var, Bound::Place(place.clone()));
        let read = || Box::new(Expr::Read(counter.into()));
        self.loop_of(|this, leave| {
            this.leave_unless(Expr::Binary(BinOp::Le, read(), Box::new(hi.clone())), leave);
            this.assign(&place, &Rv::Scalar(*read()), ty);
            this.round(leave, |this| this.stmts(body));
            this.leave_unless(Expr::Binary(BinOp::Ne, read(), Box::new(hi.clone())), leave);
            let one = Expr::Const(scalar, bits::Value::truncated(1, scalar.width()));
            this.emit(StmtKind::Assign(
                counter.into(),
                Expr::Binary(BinOp::Add, read(), Box::new(one)),
            ));
        });
    }

    fn for_stack(&mut self, var: VarId, stack: &Place, ty: TyId, body: &[hir::Stmt]) {
        let Ty::Stack(element_ty, len) = *self.ty(ty) else {
            return;
        };
        let stack = self.settle(stack);
        let counter = self.temp_field(ir::ScalarTy::Bit(32));
        self.saved.insert(counter);
        self.emit(StmtKind::Assign(counter.into(), bits_const(0, 32)));
        let place = self.var_storage(var);
        self.vars.insert(var, Bound::Place(place.clone()));
        let read = || Box::new(Expr::Read(counter.into()));
        self.loop_of(|this, leave| {
            let inside = Expr::Binary(BinOp::Lt, read(), Box::new(bits_const(u64::from(len), 32)));
            this.leave_unless(inside, leave);
            if let Some(element) = this.element(&stack, *read()) {
                let value = this.load(&element);
                this.assign(&place, &value, element_ty);
            }
            this.round(leave, |this| this.stmts(body));
            let next = Expr::Binary(BinOp::Add, read(), Box::new(bits_const(1, 32)));
            this.emit(StmtKind::Assign(counter.into(), next));
        });
    }

    /// Lowers a loop over parts of different types or values: one copy of the body for each.
    fn for_parts(&mut self, var: VarId, value: &Rv, ty: TyId, body: &[hir::Stmt]) {
        let parts = match value {
            Rv::List(parts) => parts.clone(),
            value => self.parts(value, ty),
        };
        let element_ty = self.subst(self.hir.vars[var].ty);
        let place = self.var_storage(var);
        self.vars.insert(var, Bound::Place(place.clone()));
        let saved: Vec<Rv> = parts
            .into_iter()
            .map(|part| self.save_value(part, element_ty))
            .collect();
        let leave = self.label();
        let (code, ()) = self.capture(|this| {
            for part in saved {
                checkpoint();
                if this.is_over() {
                    break;
                }
                this.assign(&place, &part, element_ty);
                this.round(leave, |this| this.stmts(body));
            }
        });
        self.emit_block(leave, code);
    }
}

/// Returns true if these are the branches of a long `else if` chain.
fn is_long_chain(mut otherwise: &[hir::Stmt]) -> bool {
    /// Maximum number of branches of a chain that are nested.
    const NESTED: usize = 48;
    for _ in 0..NESTED {
        match otherwise {
            [
                hir::Stmt {
                    kind: hir::StmtKind::If(_, _, rest),
                    ..
                },
            ] => otherwise = rest,
            _ => return false,
        }
    }
    true
}

/// Matches `t.apply().hit` (true) or `t.apply().miss` (false), possibly negated.
fn applied_condition(cond: &hir::Expr) -> Option<(hir::TableId, bool)> {
    match &cond.kind {
        ExprKind::ApplyResult(table, ApplyMember::Hit) => Some((*table, true)),
        ExprKind::ApplyResult(table, ApplyMember::Miss) => Some((*table, false)),
        ExprKind::Unary(UnaryOp::Not, inner) => {
            applied_condition(inner).map(|(table, on_hit)| (table, !on_hit))
        }
        _ => None,
    }
}

/// Collects the variables used in an action's body, including the actions that it calls.
pub(crate) fn mentioned_vars(
    program: &hir::Program,
    action: hir::ActionId,
    seen: &mut HashSet<hir::ActionId>,
    found: &mut HashSet<VarId>,
) {
    if seen.insert(action) {
        let mut walk = Mentions {
            program,
            seen,
            found,
        };
        walk.stmts(&program.actions[action].body);
    }
}

struct Mentions<'a> {
    program: &'a hir::Program,
    seen: &'a mut HashSet<hir::ActionId>,
    found: &'a mut HashSet<VarId>,
}

impl Mentions<'_> {
    fn stmts(&mut self, stmts: &[hir::Stmt]) {
        for stmt in stmts {
            checkpoint();
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &hir::Stmt) {
        match &stmt.kind {
            hir::StmtKind::Var(_, init) | hir::StmtKind::Return(init) => {
                init.iter().for_each(|init| self.expr(init))
            }
            hir::StmtKind::Assign(a, b) | hir::StmtKind::CompoundAssign(a, _, b) => {
                self.expr(a);
                self.expr(b);
            }
            hir::StmtKind::Call(call, _) => self.call(call),
            hir::StmtKind::If(cond, then, otherwise) => {
                self.expr(cond);
                self.stmts(then);
                self.stmts(otherwise);
            }
            hir::StmtKind::Block(body, _) => self.stmts(body),
            hir::StmtKind::Exit | hir::StmtKind::Break | hir::StmtKind::Continue => {}
            hir::StmtKind::SwitchAction { cases, .. } => {
                cases.iter().for_each(|case| self.stmts(&case.body))
            }
            hir::StmtKind::SwitchValue { value, cases } => {
                self.expr(value);
                cases.iter().for_each(|case| self.stmts(&case.body));
            }
            hir::StmtKind::For {
                init,
                cond,
                update,
                body,
                ..
            } => {
                self.stmts(init);
                self.expr(cond);
                self.stmts(update);
                self.stmts(body);
            }
            hir::StmtKind::ForIn {
                collection, body, ..
            } => {
                match collection {
                    Collection::Range(lo, hi) => {
                        self.expr(lo);
                        self.expr(hi);
                    }
                    Collection::Elements(elements) => self.expr(elements),
                }
                self.stmts(body);
            }
        }
    }

    fn expr(&mut self, expr: &hir::Expr) {
        match &expr.kind {
            ExprKind::Var(var) => {
                self.found.insert(*var);
            }
            ExprKind::Field(a, _)
            | ExprKind::StackNext(a)
            | ExprKind::StackLast(a)
            | ExprKind::StackLastIndex(a)
            | ExprKind::StackSize(a)
            | ExprKind::Slice(a, ..)
            | ExprKind::Unary(_, a)
            | ExprKind::Cast(a) => self.expr(a),
            ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => {
                self.expr(a);
                self.expr(b);
            }
            ExprKind::Ternary(a, b, c) => {
                self.expr(a);
                self.expr(b);
                self.expr(c);
            }
            ExprKind::Aggregate(parts) => parts.iter().for_each(|part| self.expr(part)),
            ExprKind::Call(call) => self.call(call),
            _ => {}
        }
    }

    fn call(&mut self, call: &hir::Call) {
        match &call.callee {
            Callee::Action(action) => {
                mentioned_vars(self.program, *action, self.seen, self.found);
            }
            Callee::ExternMethod { object, .. }
            | Callee::Apply(object)
            | Callee::Builtin(_, object) => {
                self.expr(object);
            }
            _ => {}
        }
        for arg in &call.args {
            checkpoint();
            if let Arg::Expr(expr) = arg {
                self.expr(expr);
            }
        }
    }
}
