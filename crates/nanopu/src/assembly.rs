//! Instructions as text, as the assembler reads them.

use std::fmt;

use crate::csr;
use crate::instruction::{
    CsrOp, CsrSource, FloatFormat, FloatPick, FloatReg, Instruction, IntFormat, Reg, RoundingMode,
    Width,
};

/// Names of the integer registers by the calling convention; the network registers have their own.
const NAMES: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4",
    "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4",
    "netRX", "netTX",
];

/// Names of the floating-point registers by the calling convention.
const FLOAT_NAMES: [&str; 32] = [
    "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2",
    "fa3", "fa4", "fa5", "fa6", "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9",
    "fs10", "fs11", "ft8", "ft9", "ft10", "ft11",
];

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(NAMES[self.index()])
    }
}

impl fmt::Display for FloatReg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(FLOAT_NAMES[self.index()])
    }
}

/// The lower-case name of an operation, which is the specification's.
fn lower(operation: impl fmt::Debug) -> String {
    format!("{operation:?}").to_lowercase()
}

fn width_letter(width: Width) -> char {
    match width {
        Width::Byte => 'b',
        Width::Half => 'h',
        Width::Word => 'w',
        Width::Double => 'd',
    }
}

fn float_letter(format: FloatFormat) -> char {
    match format {
        FloatFormat::Single => 's',
        FloatFormat::Double => 'd',
    }
}

/// The letter of a format as loads, stores and moves of bits have it.
fn bits_letter(format: FloatFormat) -> char {
    match format {
        FloatFormat::Single => 'w',
        FloatFormat::Double => 'd',
    }
}

fn int_name(int: IntFormat) -> String {
    lower(int)
}

/// The last operand of an instruction that does not round as `frm` has it.
fn rounding(rm: RoundingMode) -> &'static str {
    match rm {
        RoundingMode::NearestEven => ", rne",
        RoundingMode::TowardZero => ", rtz",
        RoundingMode::Down => ", rdn",
        RoundingMode::Up => ", rup",
        RoundingMode::NearestMaxMagnitude => ", rmm",
        RoundingMode::Dynamic => "",
    }
}

fn csr_name(number: u16) -> String {
    csr::name(number).map_or_else(|| format!("{number:#05x}"), str::to_owned)
}

impl Instruction {
    /// Returns the instruction as assembly; `pc` is its address, to which jumps are relative. A
    /// compressed instruction is written as the one that it stands for.
    pub fn assembly(&self, pc: u64) -> String {
        use Instruction as I;
        let goal = |offset: i64| format!("{:#x}", pc.wrapping_add_signed(offset));
        // The upper 20 bits, as the assembler takes them.
        let upper = |imm: i64| format!("{:#x}", imm >> 12 & 0xf_ffff);
        match *self {
            I::Lui { rd, imm } => format!("lui {rd}, {}", upper(imm)),
            I::Auipc { rd, imm } => format!("auipc {rd}, {}", upper(imm)),
            I::Jal {
                rd: Reg::ZERO,
                offset,
            } => format!("j {}", goal(offset)),
            I::Jal { rd, offset } => format!("jal {rd}, {}", goal(offset)),
            I::Jalr { rd, rs1, offset } => format!("jalr {rd}, {offset}({rs1})"),
            I::Branch {
                condition,
                rs1,
                rs2,
                offset,
            } => {
                format!("b{} {rs1}, {rs2}, {}", lower(condition), goal(offset))
            }
            I::Load {
                width,
                signed,
                rd,
                rs1,
                offset,
            } => {
                let unsigned = if signed || width == Width::Double {
                    ""
                } else {
                    "u"
                };
                format!("l{}{unsigned} {rd}, {offset}({rs1})", width_letter(width))
            }
            I::Store {
                width,
                rs1,
                rs2,
                offset,
            } => {
                format!("s{} {rs2}, {offset}({rs1})", width_letter(width))
            }
            I::OpImm {
                op: crate::instruction::AluOp::Add,
                rd,
                rs1,
                imm,
            } => match (rs1, imm) {
                (Reg::ZERO, imm) => format!("li {rd}, {imm}"),
                (rs1, 0) => format!("mv {rd}, {rs1}"),
                _ => format!("addi {rd}, {rs1}, {imm}"),
            },
            I::OpImm { op, rd, rs1, imm } => {
                // The `i` is before the letters for 32 bits and for unsigned numbers.
                let name = lower(op);
                let stem = name.trim_end_matches(['w', 'u']);
                format!("{stem}i{} {rd}, {rs1}, {imm}", &name[stem.len()..])
            }
            I::Op {
                op: crate::instruction::AluOp::Add,
                rd,
                rs1: Reg::ZERO,
                rs2,
            } => format!("mv {rd}, {rs2}"),
            I::Op { op, rd, rs1, rs2 } => format!("{} {rd}, {rs1}, {rs2}", lower(op)),
            I::LoadReserved { width, rd, rs1 } => {
                format!("lr.{} {rd}, ({rs1})", width_letter(width))
            }
            I::StoreConditional {
                width,
                rd,
                rs1,
                rs2,
            } => {
                format!("sc.{} {rd}, {rs2}, ({rs1})", width_letter(width))
            }
            I::Amo {
                op,
                width,
                rd,
                rs1,
                rs2,
            } => {
                format!(
                    "amo{}.{} {rd}, {rs2}, ({rs1})",
                    lower(op),
                    width_letter(width)
                )
            }
            I::Csr {
                op,
                rd,
                source,
                csr,
            } => {
                let letter = match op {
                    CsrOp::Write => 'w',
                    CsrOp::Set => 's',
                    CsrOp::Clear => 'c',
                };
                let csr = csr_name(csr);
                match (source, rd) {
                    (CsrSource::Register(Reg::ZERO), rd) if op == CsrOp::Set => {
                        format!("csrr {rd}, {csr}")
                    }
                    (CsrSource::Register(rs1), Reg::ZERO) => format!("csr{letter} {csr}, {rs1}"),
                    (CsrSource::Register(rs1), rd) => format!("csrr{letter} {rd}, {csr}, {rs1}"),
                    (CsrSource::Immediate(value), Reg::ZERO) => {
                        format!("csr{letter}i {csr}, {value}")
                    }
                    (CsrSource::Immediate(value), rd) => {
                        format!("csrr{letter}i {rd}, {csr}, {value}")
                    }
                }
            }
            I::Fence => "fence".to_owned(),
            I::FenceI => "fence.i".to_owned(),
            I::Ecall => "ecall".to_owned(),
            I::Ebreak => "ebreak".to_owned(),
            I::Mret => "mret".to_owned(),
            I::Wfi => "wfi".to_owned(),
            _ => self.float_assembly(),
        }
    }

    fn float_assembly(&self) -> String {
        use Instruction as I;
        match *self {
            I::FloatLoad {
                format,
                rd,
                rs1,
                offset,
            } => {
                format!("fl{} {rd}, {offset}({rs1})", bits_letter(format))
            }
            I::FloatStore {
                format,
                rs1,
                rs2,
                offset,
            } => {
                format!("fs{} {rs2}, {offset}({rs1})", bits_letter(format))
            }
            I::Float {
                op,
                format,
                rd,
                rs1,
                rs2,
                rm,
            } => {
                let (name, letter) = (lower(op), float_letter(format));
                format!("f{name}.{letter} {rd}, {rs1}, {rs2}{}", rounding(rm))
            }
            I::FloatSqrt {
                format,
                rd,
                rs1,
                rm,
            } => {
                format!("fsqrt.{} {rd}, {rs1}{}", float_letter(format), rounding(rm))
            }
            I::FloatFused {
                format,
                rd,
                rs1,
                rs2,
                rs3,
                negate_product,
                negate_addend,
                rm,
            } => {
                let name = match (negate_product, negate_addend) {
                    (false, false) => "fmadd",
                    (false, true) => "fmsub",
                    (true, false) => "fnmsub",
                    (true, true) => "fnmadd",
                };
                let letter = float_letter(format);
                format!("{name}.{letter} {rd}, {rs1}, {rs2}, {rs3}{}", rounding(rm))
            }
            I::FloatPick {
                pick,
                format,
                rd,
                rs1,
                rs2,
            } => {
                let name = match pick {
                    FloatPick::SignCopy => "fsgnj",
                    FloatPick::SignNegate => "fsgnjn",
                    FloatPick::SignXor => "fsgnjx",
                    FloatPick::Min => "fmin",
                    FloatPick::Max => "fmax",
                };
                format!("{name}.{} {rd}, {rs1}, {rs2}", float_letter(format))
            }
            I::FloatCompare {
                compare,
                format,
                rd,
                rs1,
                rs2,
            } => {
                format!(
                    "f{}.{} {rd}, {rs1}, {rs2}",
                    lower(compare),
                    float_letter(format)
                )
            }
            I::FloatClass { format, rd, rs1 } => {
                format!("fclass.{} {rd}, {rs1}", float_letter(format))
            }
            I::FloatConvert {
                format,
                rd,
                rs1,
                rm,
            } => {
                let from = match format {
                    FloatFormat::Single => 'd',
                    FloatFormat::Double => 's',
                };
                format!(
                    "fcvt.{}.{from} {rd}, {rs1}{}",
                    float_letter(format),
                    rounding(rm)
                )
            }
            I::FloatToInt {
                format,
                int,
                rd,
                rs1,
                rm,
            } => {
                let (int, letter) = (int_name(int), float_letter(format));
                format!("fcvt.{int}.{letter} {rd}, {rs1}{}", rounding(rm))
            }
            I::IntToFloat {
                format,
                int,
                rd,
                rs1,
                rm,
            } => {
                let (int, letter) = (int_name(int), float_letter(format));
                format!("fcvt.{letter}.{int} {rd}, {rs1}{}", rounding(rm))
            }
            I::FloatToBits { format, rd, rs1 } => {
                format!("fmv.x.{} {rd}, {rs1}", bits_letter(format))
            }
            I::BitsToFloat { format, rd, rs1 } => {
                format!("fmv.{}.x {rd}, {rs1}", bits_letter(format))
            }
            // The others are those of `assembly`.
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::decode;

    #[test]
    fn instructions_are_written_as_the_assembler_reads_them() {
        let pc = 0x8000_0100;
        for (bits, expected) in [
            (0x0530_5073, "csrwi lcurcontext, 0"),
            (0x0520_27f3, "csrr a5, lmsgsrdy"),
            (0x000f_0f93, "mv netTX, netRX"),
            (0x0640_0293, "li t0, 100"),
            (0xfff2_829b, "addiw t0, t0, -1"),
            (0xfe02_9ee3, "bne t0, zero, 0x800000fc"),
            (0x0080_006f, "j 0x80000108"),
            (0x0053_3023, "sd t0, 0(t1)"),
            (0x0003_4283, "lbu t0, 0(t1)"),
            (0x0263_33b3, "mulhu t2, t1, t1"),
            (0x1003_33af, "lr.d t2, (t1)"),
            (0x1803_33af, "sc.d t2, zero, (t1)"),
            (0x0013_3293, "sltiu t0, t1, 1"),
            (0xc005_1553, "fcvt.w.s a0, fa0, rtz"),
            (0x8000_0537, "lui a0, 0x80000"),
            (0x4501, "li a0, 0"),
            (0x87fa, "mv a5, netRX"),
        ] {
            let text = decode(bits).map_or("unknown".to_owned(), |decoded| {
                decoded.instruction.assembly(pc)
            });
            assert_eq!(text, expected, "{bits:#010x}");
        }
    }

    #[test]
    fn every_encoding_that_is_decoded_has_a_text() {
        let mut rng = support::rng::Rng::new(1);
        for _ in 0..200_000 {
            if let Some(decoded) = decode(rng.bits() as u32) {
                assert!(!decoded.instruction.assembly(0).is_empty());
            }
        }
    }
}
