//! Tests of constant folding against arithmetic on wide machine integers.

use bits::Value;
use ir::{BinOp, Expr, ScalarTy, UnOp};
use passes::fold;
use proptest::prelude::*;

fn constant(ty: ScalarTy, number: i128) -> Expr {
    Expr::Const(ty, Value::truncated(number as u128, ty.width()))
}

/// Returns the number of a constant, by its type's sign.
fn number(expr: &Expr) -> Option<i128> {
    let Expr::Const(ty, value) = expr else {
        return None;
    };
    let raw = value.to_u128()? as i128;
    let sign = 1i128 << (ty.width() - 1);
    Some(if ty.is_signed() && raw & sign != 0 {
        raw - 2 * sign
    } else {
        raw
    })
}

/// Returns the bounds of a type.
fn bounds(ty: ScalarTy) -> (i128, i128) {
    let span = 1i128 << ty.width();
    if ty.is_signed() {
        (-span / 2, span / 2 - 1)
    } else {
        (0, span - 1)
    }
}

fn expected(op: BinOp, ty: ScalarTy, a: i128, b: i128) -> Option<i128> {
    let (least, most) = bounds(ty);
    Some(match op {
        BinOp::Add => a + b,
        BinOp::Sub => a - b,
        BinOp::Mul => a * b,
        BinOp::Div if ty.is_signed() => return None,
        BinOp::Mod if ty.is_signed() => return None,
        BinOp::Div => a.checked_div(b).unwrap_or(0),
        BinOp::Mod => a.checked_rem(b).unwrap_or(0),
        BinOp::AddSaturating => (a + b).clamp(least, most),
        BinOp::SubSaturating => (a - b).clamp(least, most),
        BinOp::And => a & b,
        BinOp::Or => a | b,
        BinOp::Xor => a ^ b,
        BinOp::Eq => i128::from(a == b),
        BinOp::Ne => i128::from(a != b),
        BinOp::Lt => i128::from(a < b),
        BinOp::Le => i128::from(a <= b),
        BinOp::Gt => i128::from(a > b),
        BinOp::Ge => i128::from(a >= b),
        BinOp::Shl | BinOp::Shr | BinOp::LogicalAnd | BinOp::LogicalOr => return None,
    })
}

const OPS: &[BinOp] = &[
    BinOp::Add,
    BinOp::Sub,
    BinOp::Mul,
    BinOp::Div,
    BinOp::Mod,
    BinOp::AddSaturating,
    BinOp::SubSaturating,
    BinOp::And,
    BinOp::Or,
    BinOp::Xor,
    BinOp::Eq,
    BinOp::Ne,
    BinOp::Lt,
    BinOp::Le,
    BinOp::Gt,
    BinOp::Ge,
];

/// Returns types of 1 to 60 bits, so that products fit the machine integers of the test.
fn any_ty() -> impl Strategy<Value = ScalarTy> {
    (1u32..=60, any::<bool>()).prop_map(|(width, signed)| {
        if signed {
            ScalarTy::Int(width)
        } else {
            ScalarTy::Bit(width)
        }
    })
}

proptest! {
    #[test]
    fn binary_operations_wrap_and_stop_as_defined(ty in any_ty(), a in any::<i64>(), b in any::<i64>()) {
        let (a, b) = (constant(ty, a.into()), constant(ty, b.into()));
        let (Some(x), Some(y)) = (number(&a), number(&b)) else { panic!("constants have numbers") };
        for &op in OPS {
            let Some(expected) = expected(op, ty, x, y) else { continue };
            let folded = fold::fold(Expr::Binary(op, Box::new(a.clone()), Box::new(b.clone())));
            let expected_ty = if op.is_predicate() { ScalarTy::Bool } else { ty };
            prop_assert_eq!(folded, constant(expected_ty, expected), "{:?} {} {}", op, x, y);
        }
    }

    #[test]
    fn shifts_keep_the_sign_of_int_only(ty in any_ty(), a in any::<i64>(), amount in 0u32..70) {
        let value = constant(ty, a.into());
        let x = number(&value).expect("a constant has a number");
        let by = Box::new(constant(ScalarTy::Bit(8), amount.into()));
        let shifted = |op| fold::fold(Expr::Binary(op, Box::new(value.clone()), by.clone()));
        let right = if amount >= 64 { x >> 63 >> 1 } else { x >> amount };
        prop_assert_eq!(shifted(BinOp::Shr), constant(ty, right));
        let left = if amount >= ty.width() { 0 } else { x << amount };
        prop_assert_eq!(shifted(BinOp::Shl), constant(ty, left));
    }

    #[test]
    fn casts_extend_by_the_sign_of_the_source(from in any_ty(), to in any_ty(), a in any::<i64>()) {
        let value = constant(from, a.into());
        let x = number(&value).expect("a constant has a number");
        prop_assert_eq!(fold::fold(Expr::Cast(to, Box::new(value))), constant(to, x));
    }

    #[test]
    fn slices_take_apart_what_concatenation_joins(a in any::<u64>(), b in any::<u64>(), wide in 1u32..=64, narrow in 1u32..=64) {
        let (a, b) = (constant(ScalarTy::Bit(wide), a.into()), constant(ScalarTy::Bit(narrow), b.into()));
        let joined = fold::fold(Expr::Concat(Box::new(a.clone()), Box::new(b.clone())));
        let high = fold::fold(Expr::Slice(Box::new(joined.clone()), wide + narrow - 1, narrow));
        let low = fold::fold(Expr::Slice(Box::new(joined), narrow - 1, 0));
        prop_assert_eq!((high, low), (a, b));
    }
}

#[test]
fn a_negated_comparison_is_the_opposite_one() {
    let read = || Box::new(Expr::Read(ir::FieldId::new(0).into()));
    for (op, opposite) in [
        (BinOp::Eq, BinOp::Ne),
        (BinOp::Lt, BinOp::Ge),
        (BinOp::Le, BinOp::Gt),
    ] {
        let compared = |op| Expr::Binary(op, read(), read());
        assert_eq!(fold::not(compared(op)), compared(opposite));
        assert_eq!(fold::not(compared(opposite)), compared(op));
    }
    let negated = Expr::Unary(UnOp::Not, read());
    assert_eq!(fold::not(negated), *read());
}

#[test]
fn many_conditions_make_a_shallow_tree() {
    let reads = (0..1000).map(|id| Expr::Read(ir::FieldId::new(id).into()));
    assert!(fold::depth(&fold::all(reads.clone().collect())) <= 11);
    assert!(fold::depth(&fold::any(reads.collect())) <= 11);
    assert_eq!(fold::all(Vec::new()), fold::bool_const(true));
    assert_eq!(fold::any(Vec::new()), fold::bool_const(false));
}
