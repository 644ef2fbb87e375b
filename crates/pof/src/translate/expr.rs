//! Short forms of IR expressions and statements.

use bits::Value;
use ir::{BinOp, Call, Expr, FieldId, Op, Operand, Place, ScalarTy, Stmt, StmtKind, UnOp};

/// Type of numbers that count bytes, instructions or copies.
pub(super) const NUMBER: u32 = 32;

pub(super) fn bit(width: u32, number: u128) -> Expr {
    Expr::Const(ScalarTy::Bit(width), Value::truncated(number, width))
}

/// Returns a 32-bit number.
pub(super) fn number(number: u32) -> Expr {
    bit(NUMBER, number.into())
}

/// Returns a number of any width with these bits at its low end.
pub(super) fn ones(width: u32, of: u32) -> Expr {
    let ones = Value::all_ones(width.min(of)).resized(of);
    Expr::Const(ScalarTy::Bit(of), ones)
}

pub(super) fn zeros(width: u32) -> Expr {
    Expr::Const(ScalarTy::Bit(width), Value::zero(width))
}

pub(super) fn truth(truth: bool) -> Expr {
    Expr::Const(ScalarTy::Bool, Value::truncated(truth.into(), 1))
}

pub(super) fn read(field: FieldId) -> Expr {
    Expr::Read(Place::from(field))
}

pub(super) fn cast(width: u32, expr: Expr) -> Expr {
    Expr::Cast(ScalarTy::Bit(width), Box::new(expr))
}

pub(super) fn binary(op: BinOp, left: Expr, right: Expr) -> Expr {
    Expr::Binary(op, Box::new(left), Box::new(right))
}

pub(super) fn add(left: Expr, right: Expr) -> Expr {
    binary(BinOp::Add, left, right)
}

pub(super) fn sub(left: Expr, right: Expr) -> Expr {
    binary(BinOp::Sub, left, right)
}

pub(super) fn shl(value: Expr, by: Expr) -> Expr {
    binary(BinOp::Shl, value, by)
}

pub(super) fn shr(value: Expr, by: Expr) -> Expr {
    binary(BinOp::Shr, value, by)
}

pub(super) fn and(left: Expr, right: Expr) -> Expr {
    binary(BinOp::And, left, right)
}

pub(super) fn or(left: Expr, right: Expr) -> Expr {
    binary(BinOp::Or, left, right)
}

pub(super) fn is_equal(left: Expr, right: Expr) -> Expr {
    binary(BinOp::Eq, left, right)
}

pub(super) fn complement(value: Expr) -> Expr {
    Expr::Unary(UnOp::Complement, Box::new(value))
}

pub(super) fn not(cond: Expr) -> Expr {
    Expr::Unary(UnOp::Not, Box::new(cond))
}

/// Returns `count` bits of a value, the first of which is `low` bits above its end.
pub(super) fn slice(value: Expr, count: u32, low: u32) -> Expr {
    Expr::Slice(Box::new(value), low + count - 1, low)
}

/// Returns all parts, one after the other. Parts without bits are left out by `None`.
pub(super) fn join(parts: impl IntoIterator<Item = Option<Expr>>) -> Option<Expr> {
    let concat = |left, right| Expr::Concat(Box::new(left), Box::new(right));
    parts.into_iter().flatten().reduce(concat)
}

pub(super) fn stmt(kind: StmtKind) -> Stmt {
    Stmt { kind, loc: None }
}

pub(super) fn assign(to: impl Into<Place>, value: Expr) -> Stmt {
    stmt(StmtKind::Assign(to.into(), value))
}

pub(super) fn when(cond: Expr, then: Vec<Stmt>) -> Stmt {
    stmt(StmtKind::If(cond, then, Vec::new()))
}

pub(super) fn call(op: Op, instance: Option<ir::ExternId>, operands: Vec<Operand>) -> Stmt {
    stmt(StmtKind::Call(Call {
        op,
        instance,
        operands,
    }))
}
