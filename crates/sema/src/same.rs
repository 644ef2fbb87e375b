//! Structural equality of checked expressions, independent of their position.

use crate::hir::{Arg, Call, Callee, Expr, ExprKind};

/// Returns true if two expressions have the same structure, names and values.
pub(crate) fn same_expr(a: &Expr, b: &Expr) -> bool {
    use ExprKind::*;
    match (&a.kind, &b.kind) {
        (Int(x), Int(y)) => x == y,
        (Bool(x), Bool(y)) => x == y,
        (String(x), String(y)) => x == y,
        (EnumMember(x, m), EnumMember(y, n)) => x == y && m == n,
        (ErrorCode(x), ErrorCode(y)) => x == y,
        (MatchKind(x), MatchKind(y)) => x == y,
        (Var(x), Var(y)) => x == y,
        (Instance(x), Instance(y)) => x == y,
        (Table(x), Table(y)) => x == y,
        (This, This) | (InvalidHeader, InvalidHeader) | (Default, Default) => true,
        (Field(x, i), Field(y, j)) => i == j && same_expr(x, y),
        (Index(x, i), Index(y, j)) => same_expr(x, y) && same_expr(i, j),
        (StackNext(x), StackNext(y))
        | (StackLast(x), StackLast(y))
        | (StackLastIndex(x), StackLastIndex(y))
        | (StackSize(x), StackSize(y)) => same_expr(x, y),
        (Slice(x, h, l), Slice(y, i, m)) => h == i && l == m && same_expr(x, y),
        (Unary(o, x), Unary(p, y)) => o == p && same_expr(x, y),
        (Binary(o, x, s), Binary(p, y, t)) => o == p && same_expr(x, y) && same_expr(s, t),
        (Ternary(a, b, c), Ternary(x, y, z)) => {
            same_expr(a, x) && same_expr(b, y) && same_expr(c, z)
        }
        (Cast(x), Cast(y)) => a.ty == b.ty && same_expr(x, y),
        (Aggregate(xs), Aggregate(ys)) => {
            xs.len() == ys.len() && xs.iter().zip(ys).all(|(x, y)| same_expr(x, y))
        }
        (Call(x), Call(y)) => same_call(x, y),
        (ApplyResult(x, m), ApplyResult(y, n)) => x == y && m == n,
        _ => false,
    }
}

fn same_call(a: &Call, b: &Call) -> bool {
    let callee = match (&a.callee, &b.callee) {
        (Callee::Function(x), Callee::Function(y)) => x == y,
        (Callee::Action(x), Callee::Action(y)) => x == y,
        (Callee::ExternFunction(x), Callee::ExternFunction(y)) => x == y,
        (
            Callee::ExternMethod {
                object: x,
                extern_id: e,
                method: m,
            },
            Callee::ExternMethod {
                object: y,
                extern_id: f,
                method: n,
            },
        ) => e == f && m == n && same_expr(x, y),
        (Callee::Table(x), Callee::Table(y)) => x == y,
        (Callee::Apply(x), Callee::Apply(y)) => same_expr(x, y),
        (Callee::Builtin(f, x), Callee::Builtin(g, y)) => f == g && same_expr(x, y),
        _ => false,
    };
    callee
        && a.type_args == b.type_args
        && a.args.len() == b.args.len()
        && a.args.iter().zip(&b.args).all(|(x, y)| same_arg(x, y))
}

/// Returns true if two arguments are the same.
pub(crate) fn same_arg(a: &Arg, b: &Arg) -> bool {
    match (a, b) {
        (Arg::Expr(x), Arg::Expr(y)) => same_expr(x, y),
        (Arg::Omitted, Arg::Omitted) => true,
        _ => false,
    }
}
