//! Decoder of compressed instructions of 16 bits (RISC-V unprivileged specification, extension C,
//! RV64). Each is one of the instructions of 32 bits.

use crate::decode::extend;
use crate::instruction::{
    AluOp, BranchCondition, FloatFormat, FloatReg, Instruction as I, Reg, Width,
};

/// The bit `from` of a half word, moved to the bit `to`.
const fn bit(bits: u32, from: u32, to: u32) -> u32 {
    ((bits >> from) & 1) << to
}

/// `count` bits from `from` on, moved to `to`.
const fn run(bits: u32, from: u32, count: u32, to: u32) -> u32 {
    ((bits >> from) & ((1 << count) - 1)) << to
}

/// Register of a field of three bits: x8 to x15.
fn small(bits: u32, from: u32) -> Reg {
    Reg::new(8 + ((bits >> from) & 7))
}

fn small_float(bits: u32, from: u32) -> FloatReg {
    FloatReg::new(8 + ((bits >> from) & 7))
}

/// Offset of a word of registers' forms: CL and CS.
fn word_offset(bits: u32) -> i64 {
    i64::from(run(bits, 10, 3, 3) | bit(bits, 6, 2) | bit(bits, 5, 6))
}

fn double_offset(bits: u32) -> i64 {
    i64::from(run(bits, 10, 3, 3) | run(bits, 5, 2, 6))
}

/// Offset of a word above the stack pointer: CI and CSS.
fn stack_word_load(bits: u32) -> i64 {
    i64::from(bit(bits, 12, 5) | run(bits, 4, 3, 2) | run(bits, 2, 2, 6))
}

fn stack_double_load(bits: u32) -> i64 {
    i64::from(bit(bits, 12, 5) | run(bits, 5, 2, 3) | run(bits, 2, 3, 6))
}

fn stack_word_store(bits: u32) -> i64 {
    i64::from(run(bits, 9, 4, 2) | run(bits, 7, 2, 6))
}

fn stack_double_store(bits: u32) -> i64 {
    i64::from(run(bits, 10, 3, 3) | run(bits, 7, 3, 6))
}

/// The six bits of a CI immediate.
fn immediate(bits: u32) -> u32 {
    bit(bits, 12, 5) | run(bits, 2, 5, 0)
}

fn branch_offset(bits: u32) -> i64 {
    let value = bit(bits, 12, 8)
        | run(bits, 10, 2, 3)
        | run(bits, 5, 2, 6)
        | run(bits, 3, 2, 1)
        | bit(bits, 2, 5);
    extend(value, 9)
}

fn jump_offset(bits: u32) -> i64 {
    let value = bit(bits, 12, 11)
        | bit(bits, 11, 4)
        | run(bits, 9, 2, 8)
        | bit(bits, 8, 10)
        | bit(bits, 7, 6)
        | bit(bits, 6, 7)
        | run(bits, 3, 3, 1)
        | bit(bits, 2, 5);
    extend(value, 12)
}

/// Decodes a half word; its low two bits are not 3.
pub(crate) fn decode_half(half: u16) -> Option<I> {
    let bits = u32::from(half);
    match bits & 3 {
        0 => decode_quadrant_0(bits),
        1 => decode_quadrant_1(bits),
        _ => decode_quadrant_2(bits),
    }
}

fn decode_quadrant_0(bits: u32) -> Option<I> {
    let rs1 = small(bits, 7);
    let rd = small(bits, 2);
    let double = FloatFormat::Double;
    Some(match bits >> 13 {
        0 => {
            let imm = run(bits, 11, 2, 4) | run(bits, 7, 4, 6) | bit(bits, 6, 2) | bit(bits, 5, 3);
            if imm == 0 {
                return None;
            }
            I::OpImm {
                op: AluOp::Add,
                rd,
                rs1: Reg::SP,
                imm: i64::from(imm),
            }
        }
        1 => I::FloatLoad {
            format: double,
            rd: small_float(bits, 2),
            rs1,
            offset: double_offset(bits),
        },
        2 => I::Load {
            width: Width::Word,
            signed: true,
            rd,
            rs1,
            offset: word_offset(bits),
        },
        3 => I::Load {
            width: Width::Double,
            signed: true,
            rd,
            rs1,
            offset: double_offset(bits),
        },
        5 => I::FloatStore {
            format: double,
            rs1,
            rs2: small_float(bits, 2),
            offset: double_offset(bits),
        },
        6 => I::Store {
            width: Width::Word,
            rs1,
            rs2: rd,
            offset: word_offset(bits),
        },
        7 => I::Store {
            width: Width::Double,
            rs1,
            rs2: rd,
            offset: double_offset(bits),
        },
        _ => return None,
    })
}

fn decode_quadrant_1(bits: u32) -> Option<I> {
    let rd = Reg::new(bits >> 7);
    let imm = extend(immediate(bits), 6);
    Some(match bits >> 13 {
        0 => I::OpImm {
            op: AluOp::Add,
            rd,
            rs1: rd,
            imm,
        },
        1 if rd != Reg::ZERO => I::OpImm {
            op: AluOp::AddW,
            rd,
            rs1: rd,
            imm,
        },
        2 => I::OpImm {
            op: AluOp::Add,
            rd,
            rs1: Reg::ZERO,
            imm,
        },
        3 if rd == Reg::SP => {
            let value = bit(bits, 12, 9)
                | bit(bits, 6, 4)
                | bit(bits, 5, 6)
                | run(bits, 3, 2, 7)
                | bit(bits, 2, 5);
            if value == 0 {
                return None;
            }
            I::OpImm {
                op: AluOp::Add,
                rd,
                rs1: rd,
                imm: extend(value, 10),
            }
        }
        3 if imm != 0 => I::Lui { rd, imm: imm << 12 },
        4 => decode_arithmetic(bits)?,
        5 => I::Jal {
            rd: Reg::ZERO,
            offset: jump_offset(bits),
        },
        6 | 7 => {
            let condition = if bits >> 13 == 6 {
                BranchCondition::Eq
            } else {
                BranchCondition::Ne
            };
            I::Branch {
                condition,
                rs1: small(bits, 7),
                rs2: Reg::ZERO,
                offset: branch_offset(bits),
            }
        }
        _ => return None,
    })
}

fn decode_arithmetic(bits: u32) -> Option<I> {
    let rd = small(bits, 7);
    let rs2 = small(bits, 2);
    let shift = i64::from(immediate(bits));
    let op = match ((bits >> 10) & 3, (bits >> 12) & 1, (bits >> 5) & 3) {
        (0, ..) => {
            return Some(I::OpImm {
                op: AluOp::Srl,
                rd,
                rs1: rd,
                imm: shift,
            });
        }
        (1, ..) => {
            return Some(I::OpImm {
                op: AluOp::Sra,
                rd,
                rs1: rd,
                imm: shift,
            });
        }
        (2, ..) => {
            let imm = extend(immediate(bits), 6);
            return Some(I::OpImm {
                op: AluOp::And,
                rd,
                rs1: rd,
                imm,
            });
        }
        (_, 0, 0) => AluOp::Sub,
        (_, 0, 1) => AluOp::Xor,
        (_, 0, 2) => AluOp::Or,
        (_, 0, 3) => AluOp::And,
        (_, 1, 0) => AluOp::SubW,
        (_, 1, 1) => AluOp::AddW,
        _ => return None,
    };
    Some(I::Op {
        op,
        rd,
        rs1: rd,
        rs2,
    })
}

fn decode_quadrant_2(bits: u32) -> Option<I> {
    let rd = Reg::new(bits >> 7);
    let rs2 = Reg::new(bits >> 2);
    let double = FloatFormat::Double;
    Some(match bits >> 13 {
        0 => I::OpImm {
            op: AluOp::Sll,
            rd,
            rs1: rd,
            imm: i64::from(immediate(bits)),
        },
        1 => I::FloatLoad {
            format: double,
            rd: FloatReg::new(bits >> 7),
            rs1: Reg::SP,
            offset: stack_double_load(bits),
        },
        2 if rd != Reg::ZERO => I::Load {
            width: Width::Word,
            signed: true,
            rd,
            rs1: Reg::SP,
            offset: stack_word_load(bits),
        },
        3 if rd != Reg::ZERO => I::Load {
            width: Width::Double,
            signed: true,
            rd,
            rs1: Reg::SP,
            offset: stack_double_load(bits),
        },
        4 => match ((bits >> 12) & 1, rd == Reg::ZERO, rs2 == Reg::ZERO) {
            (0, false, true) => I::Jalr {
                rd: Reg::ZERO,
                rs1: rd,
                offset: 0,
            },
            (0, _, false) => I::Op {
                op: AluOp::Add,
                rd,
                rs1: Reg::ZERO,
                rs2,
            },
            (1, true, true) => I::Ebreak,
            (1, false, true) => I::Jalr {
                rd: Reg::RA,
                rs1: rd,
                offset: 0,
            },
            (1, _, false) => I::Op {
                op: AluOp::Add,
                rd,
                rs1: rd,
                rs2,
            },
            _ => return None,
        },
        5 => I::FloatStore {
            format: double,
            rs1: Reg::SP,
            rs2: FloatReg::new(bits >> 2),
            offset: stack_double_store(bits),
        },
        6 => I::Store {
            width: Width::Word,
            rs1: Reg::SP,
            rs2,
            offset: stack_word_store(bits),
        },
        7 => I::Store {
            width: Width::Double,
            rs1: Reg::SP,
            rs2,
            offset: stack_double_store(bits),
        },
        _ => return None,
    })
}
