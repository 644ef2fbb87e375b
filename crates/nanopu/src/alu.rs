//! Operations of integers, as the RISC-V unprivileged specification defines them (I, M, A).

use crate::instruction::{AluOp, AmoOp, BranchCondition, Width};

/// The low 32 bits, extended by sign.
const fn word(value: u64) -> u64 {
    value as i32 as i64 as u64
}

/// Result of an operation. Division by zero and overflow have the results of chapter M, table 11.
pub(crate) fn operate(op: AluOp, a: u64, b: u64) -> u64 {
    let (signed_a, signed_b) = (a as i64, b as i64);
    let (word_a, word_b) = (a as i32, b as i32);
    match op {
        AluOp::Add => a.wrapping_add(b),
        AluOp::Sub => a.wrapping_sub(b),
        AluOp::Sll => a << (b & 63),
        AluOp::Slt => u64::from(signed_a < signed_b),
        AluOp::Sltu => u64::from(a < b),
        AluOp::Xor => a ^ b,
        AluOp::Srl => a >> (b & 63),
        AluOp::Sra => (signed_a >> (b & 63)) as u64,
        AluOp::Or => a | b,
        AluOp::And => a & b,
        AluOp::AddW => word(a.wrapping_add(b)),
        AluOp::SubW => word(a.wrapping_sub(b)),
        AluOp::SllW => word(u64::from((a as u32) << (b & 31))),
        AluOp::SrlW => word(u64::from((a as u32) >> (b & 31))),
        AluOp::SraW => (word_a >> (b & 31)) as i64 as u64,
        AluOp::Mul => a.wrapping_mul(b),
        AluOp::Mulh => ((i128::from(signed_a) * i128::from(signed_b)) >> 64) as u64,
        AluOp::Mulhsu => ((i128::from(signed_a) * i128::from(b)) >> 64) as u64,
        AluOp::Mulhu => ((u128::from(a) * u128::from(b)) >> 64) as u64,
        AluOp::Div if b == 0 => u64::MAX,
        AluOp::Div => signed_a.wrapping_div(signed_b) as u64,
        AluOp::Divu => a.checked_div(b).unwrap_or(u64::MAX),
        AluOp::Rem if b == 0 => a,
        AluOp::Rem => signed_a.wrapping_rem(signed_b) as u64,
        AluOp::Remu => a.checked_rem(b).unwrap_or(a),
        AluOp::MulW => word(a.wrapping_mul(b)),
        AluOp::DivW if word_b == 0 => u64::MAX,
        AluOp::DivW => word_a.wrapping_div(word_b) as i64 as u64,
        AluOp::DivuW => (a as u32)
            .checked_div(b as u32)
            .map_or(u64::MAX, |value| word(u64::from(value))),
        AluOp::RemW if word_b == 0 => word(a),
        AluOp::RemW => word_a.wrapping_rem(word_b) as i64 as u64,
        AluOp::RemuW => word(u64::from(
            (a as u32).checked_rem(b as u32).unwrap_or(a as u32),
        )),
    }
}

/// Value of a branch's condition.
pub(crate) fn holds(condition: BranchCondition, a: u64, b: u64) -> bool {
    match condition {
        BranchCondition::Eq => a == b,
        BranchCondition::Ne => a != b,
        BranchCondition::Lt => (a as i64) < b as i64,
        BranchCondition::Ge => a as i64 >= b as i64,
        BranchCondition::Ltu => a < b,
        BranchCondition::Geu => a >= b,
    }
}

/// New value of the memory that an atomic instruction changes. For a word, both values are
/// extended by sign, which keeps the order of signed and of unsigned words.
pub(crate) fn atomic(op: AmoOp, width: Width, old: u64, operand: u64) -> u64 {
    let operand = match width {
        Width::Word => word(operand),
        _ => operand,
    };
    match op {
        AmoOp::Swap => operand,
        AmoOp::Add => old.wrapping_add(operand),
        AmoOp::Xor => old ^ operand,
        AmoOp::And => old & operand,
        AmoOp::Or => old | operand,
        AmoOp::Min => (old as i64).min(operand as i64) as u64,
        AmoOp::Max => (old as i64).max(operand as i64) as u64,
        AmoOp::Minu => old.min(operand),
        AmoOp::Maxu => old.max(operand),
    }
}
