//! Values with the widths of entry arguments, built from ranges and bits.

use bits::{Value, limbs};
use ir::BinOp;

/// Returns a bit of a value; bit 0 is the least significant.
pub(super) fn bit(value: &Value, at: u32) -> bool {
    at < value.width() && limbs::bit(value.limbs(), at)
}

/// Returns the value of these bits, the most significant first.
pub(super) fn from_bits(bits: &[bool]) -> Value {
    let mut all = vec![0u64; bits::limbs_for(bits.len() as u32)];
    for (at, _) in bits.iter().rev().enumerate().filter(|(_, is)| **is) {
        all[at / 64] |= 1 << (at % 64);
    }
    Value::from_limbs(&all, bits.len() as u32)
}

/// Returns `width` ones at bit `lo`, in a value of `total` bits.
pub(super) fn ones(lo: u32, width: u32, total: u32) -> Value {
    placed(&Value::all_ones(width), lo, total)
}

/// Returns a value placed at bit `lo`, in a value of `total` bits.
pub(super) fn placed(value: &Value, lo: u32, total: u32) -> Value {
    let mut all = vec![0u64; bits::limbs_for(total)];
    if value.width() > 0 {
        limbs::deposit(&mut all, lo, value.limbs(), value.width());
    }
    Value::from_limbs(&all, total)
}

/// Returns `a | b`. Both have the same width.
pub(super) fn or(a: &Value, b: &Value) -> Value {
    let all: Vec<u64> = a
        .limbs()
        .iter()
        .zip(b.limbs())
        .map(|(a, b)| a | b)
        .collect();
    Value::from_limbs(&all, a.width())
}

/// Returns a number of this width.
pub(super) fn number(number: u32, width: u32) -> Value {
    Value::truncated(u128::from(number), width)
}

/// Returns `a op b` with wrap-around. Both have the same width.
pub(super) fn arithmetic(op: BinOp, a: &Value, b: &Value) -> Option<Value> {
    let width = a.width();
    let mut result = vec![0u64; bits::limbs_for(width)];
    match op {
        BinOp::Add => limbs::add(&mut result, a.limbs(), b.limbs(), width),
        BinOp::Sub => limbs::sub(&mut result, a.limbs(), b.limbs(), width),
        BinOp::Mul => limbs::mul(&mut result, a.limbs(), b.limbs(), width),
        _ => return None,
    }
    Some(Value::from_limbs(&result, width))
}
