//! Constant folding of one expression node, given folded operands.
//!
//! Operations that are not computed here (wide divisions) stay. Engines compute the same results.

use std::cmp::Ordering;

use bits::{Value, limbs, limbs_for};
use ir::{BinOp, Expr, ScalarTy, UnOp};
use support::work::checkpoint;

/// Returns a boolean constant.
pub fn bool_const(value: bool) -> Expr {
    Expr::Const(ScalarTy::Bool, Value::truncated(u128::from(value), 1))
}

/// Returns the value of a boolean constant.
pub fn as_bool(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Const(ScalarTy::Bool, value) => Some(!value.is_zero()),
        _ => None,
    }
}

/// Builds `!e`.
pub fn not(expr: Expr) -> Expr {
    fold(Expr::Unary(UnOp::Not, Box::new(expr)))
}

/// Builds `a && b`.
pub fn and(a: Expr, b: Expr) -> Expr {
    fold(Expr::Binary(BinOp::LogicalAnd, Box::new(a), Box::new(b)))
}

/// Builds `a || b`.
pub fn or(a: Expr, b: Expr) -> Expr {
    fold(Expr::Binary(BinOp::LogicalOr, Box::new(a), Box::new(b)))
}

/// Builds the conjunction of all conditions as a balanced tree.
pub fn all(conditions: Vec<Expr>) -> Expr {
    balanced(conditions, true, and)
}

/// Builds the disjunction of all conditions as a balanced tree.
pub fn any(conditions: Vec<Expr>) -> Expr {
    balanced(conditions, false, or)
}

fn balanced(mut conditions: Vec<Expr>, none: bool, join: fn(Expr, Expr) -> Expr) -> Expr {
    while conditions.len() > 1 {
        let mut halves = Vec::with_capacity(conditions.len().div_ceil(2));
        let mut pairs = conditions.into_iter();
        while let Some(first) = pairs.next() {
            halves.push(match pairs.next() {
                Some(second) => join(first, second),
                None => first,
            });
        }
        conditions = halves;
    }
    conditions.pop().unwrap_or_else(|| bool_const(none))
}

/// Returns the nesting depth of an expression.
pub fn depth(expr: &Expr) -> u32 {
    checkpoint();
    1 + match expr {
        Expr::Const(..) | Expr::Param(_) => 0,
        Expr::Read(place) | Expr::VarbitLen(place) => index_depth(place),
        Expr::VarbitEq(a, b) => index_depth(a).max(index_depth(b)),
        Expr::Unary(_, a) | Expr::Slice(a, ..) | Expr::Cast(_, a) => depth(a),
        Expr::Binary(_, a, b) | Expr::Concat(a, b) => depth(a).max(depth(b)),
        Expr::Ternary(a, b, c) => depth(a).max(depth(b)).max(depth(c)),
    }
}

fn index_depth(place: &ir::Place) -> u32 {
    place
        .dims
        .iter()
        .map(|dim| depth(&dim.index))
        .max()
        .unwrap_or(0)
}

/// Folds the topmost node.
pub fn fold(expr: Expr) -> Expr {
    checkpoint();
    match expr {
        Expr::Unary(op, operand) => unary(op, *operand),
        Expr::Binary(op, left, right) => binary(op, left, right),
        Expr::Concat(left, right) => concat(left, right),
        Expr::Slice(operand, hi, lo) => slice(operand, hi, lo),
        Expr::Cast(ty, operand) => cast(ty, operand),
        Expr::Ternary(cond, then, otherwise) => match as_bool(&cond) {
            Some(true) => *then,
            Some(false) => *otherwise,
            None => Expr::Ternary(cond, then, otherwise),
        },
        other => other,
    }
}

fn unary(op: UnOp, operand: Expr) -> Expr {
    match (op, operand) {
        (UnOp::Not, Expr::Const(ty, value)) => Expr::Const(ty, value.not()),
        (UnOp::Not, Expr::Unary(UnOp::Not, inner)) => *inner,
        (UnOp::Not, Expr::Binary(compared, left, right)) if opposite(compared).is_some() => {
            Expr::Binary(opposite(compared).unwrap_or(compared), left, right)
        }
        (UnOp::Complement, Expr::Const(ty, value)) => Expr::Const(ty, value.not()),
        (UnOp::Neg, Expr::Const(ty, value)) => Expr::Const(ty, value.neg()),
        (op, operand) => Expr::Unary(op, Box::new(operand)),
    }
}

/// Returns the negation of a comparison.
fn opposite(op: BinOp) -> Option<BinOp> {
    Some(match op {
        BinOp::Eq => BinOp::Ne,
        BinOp::Ne => BinOp::Eq,
        BinOp::Lt => BinOp::Ge,
        BinOp::Ge => BinOp::Lt,
        BinOp::Gt => BinOp::Le,
        BinOp::Le => BinOp::Gt,
        _ => return None,
    })
}

fn binary(op: BinOp, left: Box<Expr>, right: Box<Expr>) -> Expr {
    match (op, as_bool(&left), as_bool(&right)) {
        (BinOp::LogicalAnd, Some(true), _) | (BinOp::LogicalOr, Some(false), _) => return *right,
        (BinOp::LogicalAnd, Some(false), _) | (BinOp::LogicalOr, Some(true), _) => return *left,
        (BinOp::LogicalAnd, _, Some(true)) | (BinOp::LogicalOr, _, Some(false)) => return *left,
        _ => {}
    }
    if let (Expr::Const(ty, a), Expr::Const(_, b)) = (&*left, &*right)
        && let Some(result) = binary_values(op, *ty, a, b)
    {
        return result;
    }
    Expr::Binary(op, left, right)
}

fn binary_values(op: BinOp, ty: ScalarTy, a: &Value, b: &Value) -> Option<Expr> {
    let width = ty.width();
    if width == 0 {
        return None;
    }
    let signed = ty.is_signed();
    let amount = || b.to_u64().unwrap_or(u64::MAX);
    let with = |f: fn(&mut [u64], &[u64], &[u64], u32)| {
        let mut result = vec![0; limbs_for(width)];
        f(&mut result, a.limbs(), b.limbs(), width);
        Value::from_limbs(&result, width)
    };
    let shifted = |f: fn(&mut [u64], &[u64], u64, u32)| {
        let mut result = vec![0; limbs_for(width)];
        f(&mut result, a.limbs(), amount(), width);
        Value::from_limbs(&result, width)
    };
    let quotient = |f: fn(u128, u128) -> Option<u128>| {
        Some(Value::truncated(
            f(a.to_u128()?, b.to_u128()?).unwrap_or(0),
            width,
        ))
    };
    let order = || {
        if signed {
            limbs::cmp_signed(a.limbs(), b.limbs(), width)
        } else {
            limbs::cmp(a.limbs(), b.limbs())
        }
    };
    let value = match op {
        BinOp::Add => with(limbs::add),
        BinOp::Sub => with(limbs::sub),
        BinOp::Mul => with(limbs::mul),
        BinOp::Div => quotient(u128::checked_div)?,
        BinOp::Mod => quotient(u128::checked_rem)?,
        BinOp::AddSaturating if signed => with(limbs::sat_add_signed),
        BinOp::AddSaturating => with(limbs::sat_add),
        BinOp::SubSaturating if signed => with(limbs::sat_sub_signed),
        BinOp::SubSaturating => with(limbs::sat_sub),
        BinOp::And => with(limbs::and),
        BinOp::Or => with(limbs::or),
        BinOp::Xor => with(limbs::xor),
        BinOp::Shl => shifted(limbs::shl),
        BinOp::Shr if signed => shifted(limbs::ashr),
        BinOp::Shr => shifted(limbs::shr),
        BinOp::Eq => return Some(bool_const(a == b)),
        BinOp::Ne => return Some(bool_const(a != b)),
        BinOp::Lt => return Some(bool_const(order() == Ordering::Less)),
        BinOp::Le => return Some(bool_const(order() != Ordering::Greater)),
        BinOp::Gt => return Some(bool_const(order() == Ordering::Greater)),
        BinOp::Ge => return Some(bool_const(order() != Ordering::Less)),
        BinOp::LogicalAnd | BinOp::LogicalOr => return None,
    };
    Some(Expr::Const(ty, value))
}

fn concat(left: Box<Expr>, right: Box<Expr>) -> Expr {
    let (Expr::Const(ty, a), Expr::Const(_, b)) = (&*left, &*right) else {
        return Expr::Concat(left, right);
    };
    let width = a.width() + b.width();
    let ty = if ty.is_signed() {
        ScalarTy::Int(width)
    } else {
        ScalarTy::Bit(width)
    };
    if a.width() == 0 || b.width() == 0 {
        let rest = if a.width() == 0 { b } else { a };
        return Expr::Const(ty, rest.clone());
    }
    let mut result = vec![0; limbs_for(width)];
    limbs::concat(&mut result, a.limbs(), a.width(), b.limbs(), b.width());
    Expr::Const(ty, Value::from_limbs(&result, width))
}

fn slice(operand: Box<Expr>, hi: u32, lo: u32) -> Expr {
    let Expr::Const(_, value) = &*operand else {
        return Expr::Slice(operand, hi, lo);
    };
    let width = hi - lo + 1;
    let mut result = vec![0; limbs_for(width)];
    limbs::extract(&mut result, value.limbs(), lo, width);
    Expr::Const(ScalarTy::Bit(width), Value::from_limbs(&result, width))
}

fn cast(ty: ScalarTy, operand: Box<Expr>) -> Expr {
    let Expr::Const(from, value) = &*operand else {
        return Expr::Cast(ty, operand);
    };
    let width = ty.width();
    if from.is_signed() && width > value.width() && value.width() > 0 {
        let mut result = vec![0; limbs_for(width)];
        limbs::sign_extend(&mut result, width, value.limbs(), value.width());
        return Expr::Const(ty, Value::from_limbs(&result, width));
    }
    Expr::Const(ty, value.resized(width))
}
