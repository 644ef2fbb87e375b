//! Decoder of instructions of 32 bits (RISC-V unprivileged specification, chapter "RV32/64G
//! Instruction Set Listings"). Reserved encodings are no instructions.

use crate::compressed;
use crate::instruction::{
    AluOp, AmoOp, BranchCondition, CsrOp, CsrSource, FloatCompare, FloatFormat, FloatOp, FloatPick,
    FloatReg, Instruction as I, IntFormat, Reg, RoundingMode, Width,
};

/// An instruction with its length in bytes, 2 or 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Instruction.
    pub instruction: I,
    /// Length in bytes.
    pub length: u8,
}

/// Decodes the instruction at the start of four bytes. The upper two are not used if the lower two
/// are a compressed instruction.
pub fn decode(bits: u32) -> Option<Decoded> {
    if bits & 3 == 3 {
        let instruction = decode_word(bits)?;
        Some(Decoded {
            instruction,
            length: 4,
        })
    } else {
        let instruction = compressed::decode_half((bits & 0xffff) as u16)?;
        Some(Decoded {
            instruction,
            length: 2,
        })
    }
}

/// The bits `high` to `low` of a word.
const fn field(bits: u32, high: u32, low: u32) -> u32 {
    (bits >> low) & ((1 << (high - low + 1)) - 1)
}

/// The low `width` bits of a number, extended by sign.
pub(crate) const fn extend(value: u32, width: u32) -> i64 {
    (((value << (32 - width)) as i32) >> (32 - width)) as i64
}

fn rd(bits: u32) -> Reg {
    Reg::new(bits >> 7)
}
fn rs1(bits: u32) -> Reg {
    Reg::new(bits >> 15)
}
fn rs2(bits: u32) -> Reg {
    Reg::new(bits >> 20)
}
fn frd(bits: u32) -> FloatReg {
    FloatReg::new(bits >> 7)
}
fn frs1(bits: u32) -> FloatReg {
    FloatReg::new(bits >> 15)
}
fn frs2(bits: u32) -> FloatReg {
    FloatReg::new(bits >> 20)
}
fn frs3(bits: u32) -> FloatReg {
    FloatReg::new(bits >> 27)
}
fn funct3(bits: u32) -> u32 {
    field(bits, 14, 12)
}
fn funct7(bits: u32) -> u32 {
    field(bits, 31, 25)
}
fn i_immediate(bits: u32) -> i64 {
    extend(bits >> 20, 12)
}
fn s_immediate(bits: u32) -> i64 {
    extend(field(bits, 31, 25) << 5 | field(bits, 11, 7), 12)
}
fn b_immediate(bits: u32) -> i64 {
    let value = field(bits, 31, 31) << 12
        | field(bits, 7, 7) << 11
        | field(bits, 30, 25) << 5
        | field(bits, 11, 8) << 1;
    extend(value, 13)
}
fn u_immediate(bits: u32) -> i64 {
    i64::from((bits & 0xffff_f000) as i32)
}
fn j_immediate(bits: u32) -> i64 {
    let value = field(bits, 31, 31) << 20
        | field(bits, 19, 12) << 12
        | field(bits, 20, 20) << 11
        | field(bits, 30, 21) << 1;
    extend(value, 21)
}

fn decode_word(bits: u32) -> Option<I> {
    let rd = rd(bits);
    let rs1 = rs1(bits);
    let rs2 = rs2(bits);
    Some(match bits & 0x7f {
        0x37 => I::Lui {
            rd,
            imm: u_immediate(bits),
        },
        0x17 => I::Auipc {
            rd,
            imm: u_immediate(bits),
        },
        0x6f => I::Jal {
            rd,
            offset: j_immediate(bits),
        },
        0x67 if funct3(bits) == 0 => I::Jalr {
            rd,
            rs1,
            offset: i_immediate(bits),
        },
        0x63 => {
            let condition = match funct3(bits) {
                0 => BranchCondition::Eq,
                1 => BranchCondition::Ne,
                4 => BranchCondition::Lt,
                5 => BranchCondition::Ge,
                6 => BranchCondition::Ltu,
                7 => BranchCondition::Geu,
                _ => return None,
            };
            I::Branch {
                condition,
                rs1,
                rs2,
                offset: b_immediate(bits),
            }
        }
        0x03 => {
            let (width, signed) = match funct3(bits) {
                0 => (Width::Byte, true),
                1 => (Width::Half, true),
                2 => (Width::Word, true),
                3 => (Width::Double, true),
                4 => (Width::Byte, false),
                5 => (Width::Half, false),
                6 => (Width::Word, false),
                _ => return None,
            };
            I::Load {
                width,
                signed,
                rd,
                rs1,
                offset: i_immediate(bits),
            }
        }
        0x23 => {
            let width = match funct3(bits) {
                0 => Width::Byte,
                1 => Width::Half,
                2 => Width::Word,
                3 => Width::Double,
                _ => return None,
            };
            I::Store {
                width,
                rs1,
                rs2,
                offset: s_immediate(bits),
            }
        }
        0x13 => decode_op_imm(bits)?,
        0x1b => decode_op_imm_w(bits)?,
        0x33 => I::Op {
            op: decode_op(bits)?,
            rd,
            rs1,
            rs2,
        },
        0x3b => I::Op {
            op: decode_op_w(bits)?,
            rd,
            rs1,
            rs2,
        },
        0x2f => decode_atomic(bits)?,
        0x0f => match funct3(bits) {
            0 => I::Fence,
            1 => I::FenceI,
            _ => return None,
        },
        0x73 => decode_system(bits)?,
        0x07 => {
            let format = float_width(bits)?;
            I::FloatLoad {
                format,
                rd: frd(bits),
                rs1,
                offset: i_immediate(bits),
            }
        }
        0x27 => {
            let format = float_width(bits)?;
            I::FloatStore {
                format,
                rs1,
                rs2: frs2(bits),
                offset: s_immediate(bits),
            }
        }
        0x43 | 0x47 | 0x4b | 0x4f => I::FloatFused {
            format: float_format(bits)?,
            rd: frd(bits),
            rs1: frs1(bits),
            rs2: frs2(bits),
            rs3: frs3(bits),
            // FNMSUB is -(rs1 x rs2) + rs3, FNMADD is -(rs1 x rs2) - rs3.
            negate_product: matches!(bits & 0x7f, 0x4b | 0x4f),
            negate_addend: matches!(bits & 0x7f, 0x47 | 0x4f),
            rm: RoundingMode::from_bits(funct3(bits))?,
        },
        0x53 => decode_float(bits)?,
        _ => return None,
    })
}

fn decode_op_imm(bits: u32) -> Option<I> {
    let (rd, rs1) = (rd(bits), rs1(bits));
    let shift = i64::from(field(bits, 25, 20));
    let (op, imm) = match funct3(bits) {
        0 => (AluOp::Add, i_immediate(bits)),
        2 => (AluOp::Slt, i_immediate(bits)),
        3 => (AluOp::Sltu, i_immediate(bits)),
        4 => (AluOp::Xor, i_immediate(bits)),
        6 => (AluOp::Or, i_immediate(bits)),
        7 => (AluOp::And, i_immediate(bits)),
        1 if field(bits, 31, 26) == 0 => (AluOp::Sll, shift),
        5 if field(bits, 31, 26) == 0 => (AluOp::Srl, shift),
        5 if field(bits, 31, 26) == 0x10 => (AluOp::Sra, shift),
        _ => return None,
    };
    Some(I::OpImm { op, rd, rs1, imm })
}

fn decode_op_imm_w(bits: u32) -> Option<I> {
    let (rd, rs1) = (rd(bits), rs1(bits));
    let shift = i64::from(field(bits, 24, 20));
    let (op, imm) = match (funct3(bits), funct7(bits)) {
        (0, _) => (AluOp::AddW, i_immediate(bits)),
        (1, 0) => (AluOp::SllW, shift),
        (5, 0) => (AluOp::SrlW, shift),
        (5, 0x20) => (AluOp::SraW, shift),
        _ => return None,
    };
    Some(I::OpImm { op, rd, rs1, imm })
}

fn decode_op(bits: u32) -> Option<AluOp> {
    Some(match (funct7(bits), funct3(bits)) {
        (0x00, 0) => AluOp::Add,
        (0x20, 0) => AluOp::Sub,
        (0x00, 1) => AluOp::Sll,
        (0x00, 2) => AluOp::Slt,
        (0x00, 3) => AluOp::Sltu,
        (0x00, 4) => AluOp::Xor,
        (0x00, 5) => AluOp::Srl,
        (0x20, 5) => AluOp::Sra,
        (0x00, 6) => AluOp::Or,
        (0x00, 7) => AluOp::And,
        (0x01, 0) => AluOp::Mul,
        (0x01, 1) => AluOp::Mulh,
        (0x01, 2) => AluOp::Mulhsu,
        (0x01, 3) => AluOp::Mulhu,
        (0x01, 4) => AluOp::Div,
        (0x01, 5) => AluOp::Divu,
        (0x01, 6) => AluOp::Rem,
        (0x01, 7) => AluOp::Remu,
        _ => return None,
    })
}

fn decode_op_w(bits: u32) -> Option<AluOp> {
    Some(match (funct7(bits), funct3(bits)) {
        (0x00, 0) => AluOp::AddW,
        (0x20, 0) => AluOp::SubW,
        (0x00, 1) => AluOp::SllW,
        (0x00, 5) => AluOp::SrlW,
        (0x20, 5) => AluOp::SraW,
        (0x01, 0) => AluOp::MulW,
        (0x01, 4) => AluOp::DivW,
        (0x01, 5) => AluOp::DivuW,
        (0x01, 6) => AluOp::RemW,
        (0x01, 7) => AluOp::RemuW,
        _ => return None,
    })
}

fn decode_atomic(bits: u32) -> Option<I> {
    let (rd, rs1, rs2) = (rd(bits), rs1(bits), rs2(bits));
    let width = match funct3(bits) {
        2 => Width::Word,
        3 => Width::Double,
        _ => return None,
    };
    let op = match field(bits, 31, 27) {
        0x02 if rs2 == Reg::ZERO => return Some(I::LoadReserved { width, rd, rs1 }),
        0x03 => {
            return Some(I::StoreConditional {
                width,
                rd,
                rs1,
                rs2,
            });
        }
        0x01 => AmoOp::Swap,
        0x00 => AmoOp::Add,
        0x04 => AmoOp::Xor,
        0x0c => AmoOp::And,
        0x08 => AmoOp::Or,
        0x10 => AmoOp::Min,
        0x14 => AmoOp::Max,
        0x18 => AmoOp::Minu,
        0x1c => AmoOp::Maxu,
        _ => return None,
    };
    Some(I::Amo {
        op,
        width,
        rd,
        rs1,
        rs2,
    })
}

fn decode_system(bits: u32) -> Option<I> {
    let op = match funct3(bits) & 3 {
        0 => {
            return match bits {
                0x0000_0073 => Some(I::Ecall),
                0x0010_0073 => Some(I::Ebreak),
                0x3020_0073 => Some(I::Mret),
                0x1050_0073 => Some(I::Wfi),
                _ => None,
            };
        }
        1 => CsrOp::Write,
        2 => CsrOp::Set,
        _ => CsrOp::Clear,
    };
    let source = if funct3(bits) & 4 == 0 {
        CsrSource::Register(rs1(bits))
    } else {
        CsrSource::Immediate(field(bits, 19, 15) as u8)
    };
    Some(I::Csr {
        op,
        rd: rd(bits),
        source,
        csr: (bits >> 20) as u16,
    })
}

/// The format of a floating-point load or store.
fn float_width(bits: u32) -> Option<FloatFormat> {
    match funct3(bits) {
        2 => Some(FloatFormat::Single),
        3 => Some(FloatFormat::Double),
        _ => None,
    }
}

/// The format in the `fmt` field of a floating-point operation.
fn float_format(bits: u32) -> Option<FloatFormat> {
    match field(bits, 26, 25) {
        0 => Some(FloatFormat::Single),
        1 => Some(FloatFormat::Double),
        _ => None,
    }
}

fn decode_float(bits: u32) -> Option<I> {
    let format = float_format(bits)?;
    let (rs1, rs2) = (frs1(bits), frs2(bits));
    let selector = field(bits, 24, 20);
    let rm = || RoundingMode::from_bits(funct3(bits));
    let float = |op| {
        Some(I::Float {
            op,
            format,
            rd: frd(bits),
            rs1,
            rs2,
            rm: rm()?,
        })
    };
    let pick = |pick| {
        Some(I::FloatPick {
            pick,
            format,
            rd: frd(bits),
            rs1,
            rs2,
        })
    };
    let compare = |compare| {
        Some(I::FloatCompare {
            compare,
            format,
            rd: rd(bits),
            rs1,
            rs2,
        })
    };
    match (field(bits, 31, 27), funct3(bits)) {
        (0x00, _) => float(FloatOp::Add),
        (0x01, _) => float(FloatOp::Sub),
        (0x02, _) => float(FloatOp::Mul),
        (0x03, _) => float(FloatOp::Div),
        (0x0b, _) if selector == 0 => Some(I::FloatSqrt {
            format,
            rd: frd(bits),
            rs1,
            rm: rm()?,
        }),
        (0x04, 0) => pick(FloatPick::SignCopy),
        (0x04, 1) => pick(FloatPick::SignNegate),
        (0x04, 2) => pick(FloatPick::SignXor),
        (0x05, 0) => pick(FloatPick::Min),
        (0x05, 1) => pick(FloatPick::Max),
        (0x14, 0) => compare(FloatCompare::Le),
        (0x14, 1) => compare(FloatCompare::Lt),
        (0x14, 2) => compare(FloatCompare::Eq),
        (0x08, _) => {
            let other = match format {
                FloatFormat::Single => 1,
                FloatFormat::Double => 0,
            };
            (selector == other).then_some(I::FloatConvert {
                format,
                rd: frd(bits),
                rs1,
                rm: rm()?,
            })
        }
        (0x18, _) => {
            let int = int_format(selector)?;
            Some(I::FloatToInt {
                format,
                int,
                rd: rd(bits),
                rs1,
                rm: rm()?,
            })
        }
        (0x1a, _) => {
            let int = int_format(selector)?;
            Some(I::IntToFloat {
                format,
                int,
                rd: frd(bits),
                rs1: self::rs1(bits),
                rm: rm()?,
            })
        }
        (0x1c, 0) if selector == 0 => Some(I::FloatToBits {
            format,
            rd: rd(bits),
            rs1,
        }),
        (0x1c, 1) if selector == 0 => Some(I::FloatClass {
            format,
            rd: rd(bits),
            rs1,
        }),
        (0x1e, 0) if selector == 0 => Some(I::BitsToFloat {
            format,
            rd: frd(bits),
            rs1: self::rs1(bits),
        }),
        _ => None,
    }
}

fn int_format(selector: u32) -> Option<IntFormat> {
    Some(match selector {
        0 => IntFormat::W,
        1 => IntFormat::Wu,
        2 => IntFormat::L,
        3 => IntFormat::Lu,
        _ => return None,
    })
}
