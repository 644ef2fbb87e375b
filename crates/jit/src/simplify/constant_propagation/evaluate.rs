//! Evaluates instructions with known operands.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Function, InstructionData, Opcode, Type, Value};

use super::Known;

/// Returns the result of an instruction, of type `ty`, if the facts about its operands determine
/// it.
pub(in crate::simplify) fn evaluate(
    func: &Function,
    data: InstructionData,
    ty: Type,
    known: impl Fn(Value) -> Option<Known>,
) -> Option<u64> {
    let number = |value| match known(value) {
        Some(Known::Is(number)) => Some(number),
        _ => None,
    };
    let result = match data {
        InstructionData::UnaryImm {
            opcode: Opcode::Iconst,
            imm,
        } => imm.bits() as u64,
        InstructionData::Unary { opcode, arg } => {
            let from = func.dfg.value_type(arg);
            let value = number(arg)?;
            match opcode {
                Opcode::Uextend | Opcode::Ireduce => value,
                Opcode::Sextend => signed(value, from) as u64,
                Opcode::Bnot => !value,
                Opcode::Bswap => value.swap_bytes() >> (64 - ty.bits()),
                _ => return None,
            }
        }
        InstructionData::BinaryImm64 { opcode, arg, imm } => {
            let imm = imm.bits() as u64;
            match (opcode, number(arg)) {
                (Opcode::BandImm | Opcode::ImulImm, _) if imm == 0 => 0,
                (_, Some(value)) => binary(without_imm(opcode)?, value, imm, ty)?,
                (_, None) => return None,
            }
        }
        InstructionData::Binary {
            opcode,
            args: [a, b],
        } => match (opcode, number(a), number(b)) {
            (Opcode::Band | Opcode::Imul, Some(0), _)
            | (Opcode::Band | Opcode::Imul, _, Some(0)) => 0,
            (_, Some(a), Some(b)) => binary(opcode, a, b, ty)?,
            _ => return None,
        },
        InstructionData::IntCompareImm { cond, arg, imm, .. } => {
            let from = func.dfg.value_type(arg);
            let imm = cut(imm.bits() as u64, from);
            match (known(arg)?, cond, imm) {
                (Known::Is(value), ..) => compare(cond, value, imm, from).into(),
                (Known::NotZero, IntCC::Equal, 0) => 0,
                (Known::NotZero, IntCC::NotEqual, 0) => 1,
                _ => return None,
            }
        }
        InstructionData::IntCompare {
            cond, args: [a, b], ..
        } => {
            let from = func.dfg.value_type(a);
            compare(cond, number(a)?, number(b)?, from).into()
        }
        InstructionData::Ternary {
            opcode: Opcode::Select,
            args: [cond, yes, no],
        } => match known(cond)? {
            Known::Is(0) => number(no)?,
            _ => number(yes)?,
        },
        _ => return None,
    };
    Some(cut(result, ty))
}

/// Returns the number of bits up to the most significant one that is set.
pub(super) fn needed(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

pub(in crate::simplify) fn mask(ty: Type) -> u64 {
    u64::MAX >> (64 - ty.bits())
}

pub(in crate::simplify) fn cut(number: u64, ty: Type) -> u64 {
    number & mask(ty)
}

pub(in crate::simplify) fn signed(number: u64, ty: Type) -> i64 {
    let unused = 64 - ty.bits();
    (number << unused) as i64 >> unused
}

pub(super) fn without_imm(opcode: Opcode) -> Option<Opcode> {
    Some(match opcode {
        Opcode::IaddImm => Opcode::Iadd,
        Opcode::ImulImm => Opcode::Imul,
        Opcode::BandImm => Opcode::Band,
        Opcode::BorImm => Opcode::Bor,
        Opcode::BxorImm => Opcode::Bxor,
        Opcode::IshlImm => Opcode::Ishl,
        Opcode::UshrImm => Opcode::Ushr,
        Opcode::SshrImm => Opcode::Sshr,
        _ => return None,
    })
}

fn binary(opcode: Opcode, a: u64, b: u64, ty: Type) -> Option<u64> {
    // Cranelift takes shift distances modulo the width.
    let by = (b % u64::from(ty.bits())) as u32;
    Some(match opcode {
        Opcode::Iadd => a.wrapping_add(b),
        Opcode::Isub => a.wrapping_sub(b),
        Opcode::Imul => a.wrapping_mul(b),
        Opcode::Band => a & b,
        Opcode::Bor => a | b,
        Opcode::Bxor => a ^ b,
        Opcode::Ishl => a << by,
        Opcode::Ushr => cut(a, ty) >> by,
        Opcode::Sshr => (signed(a, ty) >> by) as u64,
        Opcode::Umin => cut(a, ty).min(cut(b, ty)),
        Opcode::Umax => cut(a, ty).max(cut(b, ty)),
        _ => return None,
    })
}

fn compare(cond: IntCC, a: u64, b: u64, ty: Type) -> bool {
    let (x, y) = (signed(a, ty), signed(b, ty));
    match cond {
        IntCC::Equal => a == b,
        IntCC::NotEqual => a != b,
        IntCC::SignedLessThan => x < y,
        IntCC::SignedGreaterThanOrEqual => x >= y,
        IntCC::SignedGreaterThan => x > y,
        IntCC::SignedLessThanOrEqual => x <= y,
        IntCC::UnsignedLessThan => a < b,
        IntCC::UnsignedGreaterThanOrEqual => a >= b,
        IntCC::UnsignedGreaterThan => a > b,
        IntCC::UnsignedLessThanOrEqual => a <= b,
    }
}
