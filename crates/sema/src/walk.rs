//! Walks over the typed program's statements and expressions.

use support::work::checkpoint;

use crate::hir::{Arg, Call, Callee, Collection, Expr, ExprKind, KeySet, Keyset, Stmt, StmtKind};

/// Calls `visit` for every call in the expression, inner calls first.
pub(crate) fn calls_in_expr<'a>(expr: &'a Expr, visit: &mut dyn FnMut(&'a Call)) {
    match &expr.kind {
        ExprKind::Call(call) => calls_in_call(call, visit),
        ExprKind::ActionCall(_, args) => args.iter().for_each(|arg| calls_in_arg(arg, visit)),
        _ => children(expr).for_each(|child| calls_in_expr(child, visit)),
    }
}

fn calls_in_arg<'a>(arg: &'a Arg, visit: &mut dyn FnMut(&'a Call)) {
    if let Arg::Expr(expr) = arg {
        calls_in_expr(expr, visit);
    }
}

/// Calls `visit` for the calls in a call's object and arguments, then for itself.
pub(crate) fn calls_in_call<'a>(call: &'a Call, visit: &mut dyn FnMut(&'a Call)) {
    if let Some(object) = object_of(call) {
        calls_in_expr(object, visit);
    }
    call.args.iter().for_each(|arg| calls_in_arg(arg, visit));
    visit(call);
}

/// Returns the receiver of a method call.
pub(crate) fn object_of(call: &Call) -> Option<&Expr> {
    match &call.callee {
        Callee::ExternMethod { object, .. }
        | Callee::Apply(object)
        | Callee::Builtin(_, object) => Some(object),
        Callee::Function(_) | Callee::Action(_) | Callee::ExternFunction(_) | Callee::Table(_) => {
            None
        }
    }
}

/// Returns the direct sub-expressions, except call arguments.
pub(crate) fn children(expr: &Expr) -> impl Iterator<Item = &Expr> {
    let (fixed, many): ([Option<&Expr>; 3], &[Expr]) = match &expr.kind {
        ExprKind::Field(e, _)
        | ExprKind::StackNext(e)
        | ExprKind::StackLast(e)
        | ExprKind::StackLastIndex(e)
        | ExprKind::StackSize(e)
        | ExprKind::Slice(e, _, _)
        | ExprKind::Unary(_, e)
        | ExprKind::Cast(e) => ([Some(e), None, None], &[]),
        ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => ([Some(a), Some(b), None], &[]),
        ExprKind::Ternary(a, b, c) => ([Some(a), Some(b), Some(c)], &[]),
        ExprKind::Aggregate(elements) => ([None, None, None], elements),
        _ => ([None, None, None], &[]),
    };
    fixed.into_iter().flatten().chain(many)
}

/// Returns the expressions that a statement itself evaluates, without those of nested statements.
/// The call of a [`StmtKind::Call`] is not included.
pub(crate) fn exprs_of(stmt: &Stmt) -> Vec<&Expr> {
    match &stmt.kind {
        StmtKind::Var(_, Some(init)) => vec![init],
        StmtKind::Assign(to, from) | StmtKind::CompoundAssign(to, _, from) => vec![to, from],
        StmtKind::If(cond, ..) => vec![cond],
        StmtKind::Return(Some(value)) | StmtKind::SwitchValue { value, .. } => vec![value],
        StmtKind::For { cond, .. } => vec![cond],
        StmtKind::ForIn {
            collection: Collection::Range(lo, hi),
            ..
        } => vec![lo, hi],
        StmtKind::ForIn {
            collection: Collection::Elements(all),
            ..
        } => vec![all],
        _ => Vec::new(),
    }
}

/// Returns the bodies nested in a statement.
pub(crate) fn bodies_of(stmt: &Stmt) -> Vec<&[Stmt]> {
    match &stmt.kind {
        StmtKind::If(_, then, otherwise) => vec![then, otherwise],
        StmtKind::Block(body, _) | StmtKind::ForIn { body, .. } => vec![body],
        StmtKind::SwitchAction { cases, .. } => cases.iter().map(|case| &case.body[..]).collect(),
        StmtKind::SwitchValue { cases, .. } => cases.iter().map(|case| &case.body[..]).collect(),
        StmtKind::For {
            init, update, body, ..
        } => vec![init, body, update],
        _ => Vec::new(),
    }
}

/// Calls `visit` for every statement, outer ones first.
pub(crate) fn stmts<'a>(body: &'a [Stmt], visit: &mut dyn FnMut(&'a Stmt)) {
    for stmt in body {
        checkpoint();
        visit(stmt);
        for inner in bodies_of(stmt) {
            stmts(inner, visit);
        }
    }
}

/// Calls `visit` for every call in the statements.
pub(crate) fn calls<'a>(body: &'a [Stmt], visit: &mut dyn FnMut(&'a Call)) {
    stmts(body, &mut |stmt| {
        if let StmtKind::Call(call, _) = &stmt.kind {
            calls_in_call(call, visit);
        }
        for expr in exprs_of(stmt) {
            calls_in_expr(expr, visit);
        }
    });
}

/// Returns the expressions of a keyset.
pub(crate) fn exprs_of_keyset(keyset: &Keyset) -> Vec<&Expr> {
    let Keyset::Sets(sets) = keyset else {
        return Vec::new();
    };
    let exprs = |set| match set {
        &KeySet::Any | &KeySet::ValueSet(_) => Vec::new(),
        KeySet::Value(value) => vec![value],
        KeySet::Mask(a, b) | KeySet::Range(a, b) => vec![a, b],
    };
    sets.iter().flat_map(exprs).collect()
}
