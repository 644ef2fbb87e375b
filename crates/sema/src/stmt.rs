//! Statements.

use std::collections::HashMap;

use support::work::checkpoint;
use syntax::ast::{self, BinaryOp, Decl};
use syntax::diag::Diagnostic;
use syntax::source::Span;

use crate::expr::symbol;
use crate::hir::{
    ActionId, ApplyMember, Collection, Expr, ExprKind, Stmt, StmtKind, SwitchCase, TableId, Ty,
    TyId, Var, VarId, VarKind,
};
use crate::scope::Entity;
use crate::types::Num;
use crate::{Checker, Place, code};

impl Checker<'_> {
    /// Checks the statements of a block, in a new scope.
    pub(crate) fn block(&mut self, block: &ast::Block) -> Vec<Stmt> {
        self.scoped(|this| this.stmts(&block.stmts))
    }

    pub(crate) fn stmts(&mut self, stmts: &[ast::Stmt]) -> Vec<Stmt> {
        stmts.iter().filter_map(|stmt| self.stmt(stmt)).collect()
    }

    fn stmt(&mut self, stmt: &ast::Stmt) -> Option<Stmt> {
        use ast::StmtKind::*;
        checkpoint();
        let span = stmt.span;
        let kind = match &stmt.kind {
            Empty => return None,
            Decl(decl) => self.local_decl(decl)?,
            Assign(lhs, rhs) => self.assign(lhs, rhs),
            CompoundAssign(lhs, op, rhs) => self.compound_assign(lhs, *op, rhs, span),
            Call(e) => self.call_stmt(e)?,
            If(cond, then, otherwise) => {
                let cond = self.condition(cond, "the condition of `if`");
                let then = self.branch(then);
                let otherwise = otherwise
                    .as_ref()
                    .map(|stmt| self.branch(stmt))
                    .unwrap_or_default();
                StmtKind::If(cond, then, otherwise)
            }
            Block(block) => {
                let annotations = self.annotations(&block.annotations);
                StmtKind::Block(self.block(block), annotations)
            }
            Return(value) => self.return_stmt(value.as_ref(), span),
            Exit => self.exit_stmt(span),
            Break => self.loop_jump(StmtKind::Break, "break", span),
            Continue => self.loop_jump(StmtKind::Continue, "continue", span),
            Switch(subject, cases) => self.switch(subject, cases, span)?,
            For(stmt) => self.for_stmt(stmt),
            ForIn(stmt) => self.for_in(stmt)?,
        };
        Some(Stmt { kind, span })
    }

    /// Checks a branch or the body of a loop: a block, or one statement.
    fn branch(&mut self, stmt: &ast::Stmt) -> Vec<Stmt> {
        match &stmt.kind {
            ast::StmtKind::Block(block) if block.annotations.is_empty() => self.block(block),
            _ => self.scoped(|this| this.stmt(stmt).into_iter().collect()),
        }
    }

    fn local_decl(&mut self, decl: &Decl) -> Option<StmtKind> {
        match decl {
            Decl::Const(constant) => {
                self.const_decl(constant);
                None
            }
            Decl::Variable(variable) => {
                let (var, init) = self.variable(variable)?;
                Some(StmtKind::Var(var, init))
            }
            Decl::Instance(instance) => {
                let place = match self.cx.place {
                    Place::ControlApply => "in the `apply` block of a control",
                    Place::ParserState => "in a parser state",
                    Place::Action => "in an action",
                    _ => "in a function or method",
                };
                let message = format!(
                    "`{}` cannot be instantiated {place}",
                    instance.name.as_str()
                );
                let mut diagnostic =
                    Diagnostic::error(code::BAD_INSTANCE, instance.name.span, message);
                if self.cx.place == Place::ControlApply {
                    diagnostic =
                        diagnostic.hint("declare the instance in the control, before `apply`");
                }
                self.report(diagnostic);
                self.declare(&instance.name, Entity::Poison);
                None
            }
            other => {
                self.error(
                    code::WRONG_PLACE,
                    decl_span(other),
                    "this cannot be declared here",
                );
                None
            }
        }
    }

    /// Checks and declares a local variable.
    pub(crate) fn variable(&mut self, decl: &ast::VariableDecl) -> Option<(VarId, Option<Expr>)> {
        let ty = self.resolve_closed(&decl.ty, decl.name.span);
        let ty = self.variable_type(ty, &decl.name);
        let init = decl.init.as_ref().map(|init| self.expr_to(init, ty));
        let annotations = self.annotations(&decl.annotations);
        let var = self.new_var(&decl.name, ty, VarKind::Local, annotations);
        self.declare(&decl.name, Entity::Var(var));
        Some((var, init))
    }

    pub(crate) fn new_var(
        &mut self,
        name: &ast::Name,
        ty: TyId,
        kind: VarKind,
        annotations: Vec<crate::hir::Annotation>,
    ) -> VarId {
        let var = self.p.vars.push(Var {
            name: name.clone(),
            ty,
            kind,
            annotations,
        });
        self.var_spans.insert(var, name.span);
        var
    }

    /// Checks that a variable may have the type; reports it if not. Returns the type to use.
    fn variable_type(&mut self, ty: TyId, name: &ast::Name) -> TyId {
        let problem = match self.ty(ty) {
            Ty::Extern(..) | Ty::Parser(_) | Ty::Control(_) | Ty::BlockType(..) => {
                let shown = self.show(ty);
                let message = format!("a variable cannot have type {shown}");
                let diagnostic = Diagnostic::error(code::BAD_TYPE, name.span, message);
                self.report(diagnostic.hint(format!("instantiate it: `T(..) {};`", name.as_str())));
                return self.t.error;
            }
            Ty::Integer => "give it a width, or declare a constant",
            Ty::String => "strings exist at compile time only: declare a constant",
            Ty::MatchKind => "match kinds exist at compile time only",
            Ty::List(_) => "lists exist at compile time only",
            Ty::Void => "`void` has no values",
            _ => return ty,
        };
        let message = format!("a variable cannot have type {}", self.show(ty));
        self.report(Diagnostic::error(code::BAD_TYPE, name.span, message).hint(problem));
        self.t.error
    }

    fn assign(&mut self, lhs: &ast::Expr, rhs: &ast::Expr) -> StmtKind {
        if let ast::ExprKind::PlusSlice(base, lo, width) = &lhs.kind
            && let Some(stmt) = self.assign_moving_slice(base, lo, width, rhs, lhs.span)
        {
            return stmt;
        }
        let lhs = self.expr(lhs, None);
        let good = self.require_lvalue(&lhs, "the left side of an assignment");
        let target = if good { lhs.ty } else { self.t.error };
        if good && !self.is_value(lhs.ty) {
            let message = format!("{} cannot be assigned", self.show(lhs.ty));
            self.error(code::BAD_TYPE, lhs.span, message);
        }
        let rhs = if target == self.t.error {
            self.expr(rhs, None)
        } else {
            self.expr_to(rhs, target)
        };
        StmtKind::Assign(lhs, rhs)
    }

    fn compound_assign(
        &mut self,
        lhs: &ast::Expr,
        op: BinaryOp,
        rhs: &ast::Expr,
        span: Span,
    ) -> StmtKind {
        use BinaryOp::*;
        let lhs = self.expr(lhs, None);
        if !matches!(
            op,
            Mul | Div | Mod | Add | Sub | AddSat | SubSat | Shl | Shr | And | Or | Xor
        ) {
            self.error(
                code::BAD_STATEMENT,
                span,
                format!("`{}=` is not an assignment", symbol(op)),
            );
        }
        self.require_lvalue(&lhs, "the left side of an assignment");
        let rhs = self.expr(rhs, Some(lhs.ty));
        let value = self.binary_of(op, lhs.clone(), rhs, span);
        let ty = lhs.ty;
        let value = if value.ty == ty {
            value
        } else {
            self.coerce(value, ty)
        };
        // The converted operand: literals have their width, enums are cast.
        let rhs = match value.kind {
            ExprKind::Binary(_, _, rhs) => *rhs,
            _ => self.poison(span),
        };
        StmtKind::CompoundAssign(lhs, op, rhs)
    }

    fn call_stmt(&mut self, e: &ast::Expr) -> Option<StmtKind> {
        let value = self.expr(e, None);
        let ty = value.ty;
        match value.kind {
            ExprKind::Call(call) => Some(StmtKind::Call(call, ty)),
            ExprKind::Instance(_) => {
                self.error(
                    code::BAD_STATEMENT,
                    e.span,
                    "a constructor call is not a statement",
                );
                None
            }
            // A call evaluated at compile time leaves no code.
            _ => None,
        }
    }

    fn return_stmt(&mut self, value: Option<&ast::Expr>, span: Span) -> StmtKind {
        if self.cx.place.in_parser() {
            self.error(
                code::WRONG_PLACE,
                span,
                "`return` cannot be used in a parser",
            );
        }
        let ret = self.cx.ret;
        let value = match value {
            Some(value) if ret == self.t.void => {
                self.expr(value, None);
                let message = match self.cx.place {
                    Place::Function | Place::Method => {
                        "a function that returns `void` cannot return a value"
                    }
                    _ => "only a function can return a value",
                };
                self.error(code::BAD_RETURN, span, message);
                None
            }
            Some(value) => Some(self.expr_to(value, ret)),
            None => {
                if ret != self.t.void && ret != self.t.error {
                    let message = format!("a value of type {} must be returned", self.show(ret));
                    self.error(code::BAD_RETURN, span, message);
                }
                None
            }
        };
        StmtKind::Return(value)
    }

    fn exit_stmt(&mut self, span: Span) -> StmtKind {
        if !matches!(self.cx.place, Place::ControlApply | Place::Action) {
            let place = if self.cx.place.in_parser() {
                "parser"
            } else {
                "function"
            };
            self.error(
                code::WRONG_PLACE,
                span,
                format!("`exit` cannot be used in a {place}"),
            );
        }
        StmtKind::Exit
    }

    fn loop_jump(&mut self, kind: StmtKind, word: &str, span: Span) -> StmtKind {
        if self.cx.loops == 0 {
            self.error(
                code::WRONG_PLACE,
                span,
                format!("`{word}` can only be used in a loop"),
            );
        }
        kind
    }

    fn switch(
        &mut self,
        subject: &ast::Expr,
        cases: &[ast::SwitchCase],
        span: Span,
    ) -> Option<StmtKind> {
        if self.cx.place.in_parser() {
            self.error(
                code::WRONG_PLACE,
                span,
                "`switch` cannot be used in a parser: use `transition select`",
            );
        }
        self.check_default_last(cases);
        let outer = std::mem::replace(&mut self.cx.switch_subject, true);
        let value = self.expr(subject, None);
        self.cx.switch_subject = outer;
        if let ExprKind::ApplyResult(table, ApplyMember::ActionRun) = value.kind {
            let mut seen: HashMap<usize, Span> = HashMap::new();
            let listed = self.p.tables[table].actions.iter().zip(0..);
            let listed: HashMap<ActionId, usize> =
                listed.map(|(listed, at)| (listed.action, at)).collect();
            let cases = self.switch_cases(cases, |this, label| {
                this.action_label(table, &listed, label, &mut seen)
            });
            return Some(StmtKind::SwitchAction { table, cases });
        }
        let switchable = match self.ty(value.ty) {
            Ty::Bit(_) | Ty::Int(_) | Ty::Enum(_) | Ty::ErrorCode | Ty::Bool => true,
            Ty::Integer => self.is_literal(&value),
            Ty::NewType(_) => self.num(self.base(value.ty)).is_some(),
            _ => false,
        };
        let ty = if switchable { value.ty } else { self.t.error };
        if !switchable && value.ty != self.t.error {
            let message = format!("`switch` is not defined for {}", self.show(value.ty));
            self.error(code::BAD_OPERAND, value.span, message);
        }
        let mut seen: HashMap<String, Span> = HashMap::new();
        let cases = self.switch_cases(cases, |this, label| this.value_label(ty, label, &mut seen));
        Some(StmtKind::SwitchValue { value, cases })
    }

    fn check_default_last(&mut self, cases: &[ast::SwitchCase]) {
        let Some(first) = cases.iter().position(|case| case.label.is_none()) else {
            return;
        };
        for case in &cases[first + 1..] {
            let message = if case.label.is_none() {
                "`switch` has more than one `default` label"
            } else {
                "`default` must be the last label of a `switch`"
            };
            self.error(code::BAD_LABEL, case.label_span, message);
        }
    }

    /// Checks the cases of a switch. Labels that fall through are merged into the case with the
    /// body.
    fn switch_cases<L>(
        &mut self,
        cases: &[ast::SwitchCase],
        mut label: impl FnMut(&mut Self, &ast::Expr) -> Option<L>,
    ) -> Vec<SwitchCase<L>> {
        let mut out = Vec::new();
        let mut open: SwitchCase<L> = SwitchCase {
            labels: Vec::new(),
            is_default: false,
            body: Vec::new(),
        };
        for case in cases {
            match &case.label {
                Some(e) => open.labels.extend(label(self, e)),
                None => open.is_default = true,
            }
            if let Some(body) = &case.body {
                open.body = self.block(body);
                let empty = SwitchCase {
                    labels: Vec::new(),
                    is_default: false,
                    body: Vec::new(),
                };
                out.push(std::mem::replace(&mut open, empty));
            }
        }
        if !open.labels.is_empty() || open.is_default {
            out.push(open);
        }
        out
    }

    fn action_label(
        &mut self,
        table: TableId,
        listed: &HashMap<ActionId, usize>,
        label: &ast::Expr,
        seen: &mut HashMap<usize, Span>,
    ) -> Option<usize> {
        let ast::ExprKind::Name(path) = &label.kind else {
            self.error(
                code::BAD_LABEL,
                label.span,
                "a label of this `switch` must be an action of the table",
            );
            return None;
        };
        let action: ActionId = match self.resolve(path) {
            Entity::Action(action) => action,
            Entity::Poison => return None,
            other => {
                let message = format!(
                    "`{}` is {}, not an action",
                    path.name.as_str(),
                    other.describe()
                );
                self.error(code::BAD_LABEL, label.span, message);
                return None;
            }
        };
        let found = listed.get(&action).copied();
        if found.is_none() {
            let name = self.p.tables[table].name.clone();
            let message = format!(
                "action `{}` is not in the list of table `{}`",
                path.name.as_str(),
                name.as_str()
            );
            let diagnostic = Diagnostic::error(code::BAD_LABEL, label.span, message);
            self.report(diagnostic.label(name.span, "the table"));
        }
        if let Some(before) = found.and_then(|index| seen.insert(index, label.span)) {
            let diagnostic =
                Diagnostic::error(code::BAD_LABEL, label.span, "this label is used twice");
            self.report(diagnostic.label(before, "used here before"));
        }
        found
    }

    fn value_label(
        &mut self,
        ty: TyId,
        label: &ast::Expr,
        seen: &mut HashMap<String, Span>,
    ) -> Option<Expr> {
        let value = self.expr_to(label, ty);
        if value.ty == self.t.error {
            return None;
        }
        if !self.is_literal(&value) {
            self.error(
                code::NOT_CONSTANT,
                label.span,
                "a label of a `switch` must be known at compile time",
            );
            return None;
        }
        let key = match (&value.kind, self.int_value(&value)) {
            (_, Some(number)) => number.to_string(),
            (kind, None) => format!("{kind:?}"),
        };
        if let Some(&before) = seen.get(&key) {
            let diagnostic =
                Diagnostic::error(code::BAD_LABEL, label.span, "this label is used twice");
            self.report(diagnostic.label(before, "used here before"));
        }
        seen.insert(key, label.span);
        Some(value)
    }

    fn for_stmt(&mut self, stmt: &ast::ForStmt) -> StmtKind {
        let annotations = self.annotations(&stmt.annotations);
        self.scoped(|this| {
            let init = this.stmts(&stmt.init);
            let cond = this.condition(&stmt.cond, "the condition of `for`");
            let update = this.stmts(&stmt.update);
            let body = this.loop_body(&stmt.body);
            StmtKind::For {
                init,
                cond,
                update,
                body,
                annotations,
            }
        })
    }

    fn loop_body(&mut self, body: &ast::Stmt) -> Vec<Stmt> {
        self.cx.loops += 1;
        let body = self.branch(body);
        self.cx.loops -= 1;
        body
    }

    fn for_in(&mut self, stmt: &ast::ForInStmt) -> Option<StmtKind> {
        let annotations = self.annotations(&stmt.annotations);
        self.scoped(|this| {
            let var = this.loop_variable(stmt)?;
            let ty = this.p.vars[var].ty;
            let collection = this.collection(&stmt.collection, ty);
            let body = this.loop_body(&stmt.body);
            Some(StmtKind::ForIn {
                var,
                collection: collection?,
                body,
                annotations,
            })
        })
    }

    fn loop_variable(&mut self, stmt: &ast::ForInStmt) -> Option<VarId> {
        match (&stmt.var_ty, &stmt.var.kind) {
            (Some(ty), ast::ExprKind::Name(path)) => {
                let ty = self.resolve_type(ty);
                let ty = self.variable_type(ty, &path.name);
                let var = self.new_var(&path.name, ty, VarKind::Local, Vec::new());
                self.declare(&path.name, Entity::Var(var));
                Some(var)
            }
            _ => {
                let message = "the variable of a `for .. in` loop is declared by the loop";
                let diagnostic = Diagnostic::error(code::BAD_STATEMENT, stmt.var.span, message);
                self.report(diagnostic.hint("write its type before it: `for (bit<8> i in ..)`"));
                None
            }
        }
    }

    fn collection(&mut self, e: &ast::Expr, ty: TyId) -> Option<Collection> {
        if let ast::ExprKind::Binary(BinaryOp::Range, lo, hi) = &e.kind {
            let lo = self.expr_to(lo, ty);
            let hi = self.expr_to(hi, ty);
            if ty != self.t.error
                && !matches!(self.num(self.base(ty)), Some(Num::Bit(_) | Num::Int(_)))
            {
                let message = format!(
                    "a range has numbers, but the loop variable is {}",
                    self.show(ty)
                );
                self.error(code::MISMATCH, e.span, message);
                return None;
            }
            return Some(Collection::Range(lo, hi));
        }
        let value = self.expr(e, None);
        if value.ty == self.t.error {
            return None;
        }
        let value = if self.is_untyped(&value) && matches!(self.ty(value.ty), Ty::Tuple(_)) {
            let list = self.intern(Ty::List(ty));
            self.coerce(value, list)
        } else {
            value
        };
        let element = match self.ty(value.ty) {
            Ty::Stack(element, _) | Ty::List(element) => *element,
            Ty::Error => return None,
            _ => {
                let message = format!("{} has no elements to walk through", self.show(value.ty));
                self.error(code::BAD_OPERAND, e.span, message);
                return None;
            }
        };
        if element != ty && ty != self.t.error {
            let message = format!(
                "the elements are {}, but the loop variable is {}",
                self.show(element),
                self.show(ty)
            );
            self.error(code::MISMATCH, e.span, message);
            return None;
        }
        Some(Collection::Elements(value))
    }
}

/// Returns the source position of a declaration.
pub(crate) fn decl_span(decl: &Decl) -> Span {
    match decl {
        Decl::Const(d) => d.span,
        Decl::Extern(d) => d.name.span,
        Decl::ExternFunction(d) => d.span,
        Decl::Foreign(d) => d.span,
        Decl::Action(d) => d.name.span,
        Decl::Parser(d) => d.signature.name.span,
        Decl::ParserType(d) | Decl::ControlType(d) | Decl::Package(d) => d.span,
        Decl::Control(d) => d.signature.name.span,
        Decl::Record(d) => d.name.span,
        Decl::Enum(d) => d.name.span,
        Decl::Typedef(d) => d.span,
        Decl::Error(d) | Decl::MatchKind(d) => d.span,
        Decl::Function(d) => d.proto.name.span,
        Decl::Instance(d) => d.span,
        Decl::Variable(d) => d.span,
        Decl::Table(d) => d.name.span,
        Decl::ValueSet(d) => d.span,
    }
}
