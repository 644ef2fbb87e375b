//! Instructions of RV64IMAFDC with Zicsr and Zifencei, decoded.

/// An integer register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reg(u8);

impl Reg {
    /// x0, always zero.
    pub const ZERO: Self = Self(0);
    /// x1, the return address.
    pub const RA: Self = Self(1);
    /// x2, the stack pointer.
    pub const SP: Self = Self(2);
    /// x30, the next word of the received message.
    pub const NET_RX: Self = Self(30);
    /// x31, the next word of the sent message.
    pub const NET_TX: Self = Self(31);

    /// Returns the register of the low five bits of a number.
    pub const fn new(number: u32) -> Self {
        Self((number & 31) as u8)
    }

    /// Returns the number, 0 to 31.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A floating-point register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FloatReg(u8);

impl FloatReg {
    /// Returns the register of the low five bits of a number.
    pub const fn new(number: u32) -> Self {
        Self((number & 31) as u8)
    }

    /// Returns the number, 0 to 31.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Operation of two integers. Those with `W` use and give 32 bits, extended by sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum AluOp {
    Add,
    Sub,
    Sll,
    Slt,
    Sltu,
    Xor,
    Srl,
    Sra,
    Or,
    And,
    AddW,
    SubW,
    SllW,
    SrlW,
    SraW,
    Mul,
    Mulh,
    Mulhsu,
    Mulhu,
    Div,
    Divu,
    Rem,
    Remu,
    MulW,
    DivW,
    DivuW,
    RemW,
    RemuW,
}

/// Condition of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum BranchCondition {
    Eq,
    Ne,
    Lt,
    Ge,
    Ltu,
    Geu,
}

/// Width of an access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum Width {
    Byte,
    Half,
    Word,
    Double,
}

impl Width {
    /// Returns the number of bytes.
    pub const fn bytes(self) -> u8 {
        match self {
            Self::Byte => 1,
            Self::Half => 2,
            Self::Word => 4,
            Self::Double => 8,
        }
    }
}

/// Operation of an atomic instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum AmoOp {
    Swap,
    Add,
    Xor,
    And,
    Or,
    Min,
    Max,
    Minu,
    Maxu,
}

/// Effect of an instruction on a CSR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum CsrOp {
    Write,
    Set,
    Clear,
}

/// Operand of an instruction on a CSR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum CsrSource {
    Register(Reg),
    Immediate(u8),
}

/// Format of a floating-point number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum FloatFormat {
    Single,
    Double,
}

/// Format of an integer that a floating-point number is converted to or from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum IntFormat {
    W,
    Wu,
    L,
    Lu,
}

/// Rounding of an instruction: one of the five modes, or that of `frm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum RoundingMode {
    NearestEven,
    TowardZero,
    Down,
    Up,
    NearestMaxMagnitude,
    Dynamic,
}

impl RoundingMode {
    /// Returns the mode of an instruction's `rm` field.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        Some(match bits & 7 {
            0 => Self::NearestEven,
            1 => Self::TowardZero,
            2 => Self::Down,
            3 => Self::Up,
            4 => Self::NearestMaxMagnitude,
            7 => Self::Dynamic,
            _ => return None,
        })
    }
}

/// Operation with a rounded floating-point result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum FloatOp {
    Add,
    Sub,
    Mul,
    Div,
}

/// Operation with a floating-point result that is not rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum FloatPick {
    SignCopy,
    SignNegate,
    SignXor,
    Min,
    Max,
}

/// Comparison of floating-point numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum FloatCompare {
    Le,
    Lt,
    Eq,
}

/// A decoded instruction. Offsets and immediates are extended by sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum Instruction {
    Lui {
        rd: Reg,
        imm: i64,
    },
    Auipc {
        rd: Reg,
        imm: i64,
    },
    Jal {
        rd: Reg,
        offset: i64,
    },
    Jalr {
        rd: Reg,
        rs1: Reg,
        offset: i64,
    },
    Branch {
        condition: BranchCondition,
        rs1: Reg,
        rs2: Reg,
        offset: i64,
    },
    Load {
        width: Width,
        signed: bool,
        rd: Reg,
        rs1: Reg,
        offset: i64,
    },
    Store {
        width: Width,
        rs1: Reg,
        rs2: Reg,
        offset: i64,
    },
    OpImm {
        op: AluOp,
        rd: Reg,
        rs1: Reg,
        imm: i64,
    },
    Op {
        op: AluOp,
        rd: Reg,
        rs1: Reg,
        rs2: Reg,
    },
    LoadReserved {
        width: Width,
        rd: Reg,
        rs1: Reg,
    },
    StoreConditional {
        width: Width,
        rd: Reg,
        rs1: Reg,
        rs2: Reg,
    },
    Amo {
        op: AmoOp,
        width: Width,
        rd: Reg,
        rs1: Reg,
        rs2: Reg,
    },
    Csr {
        op: CsrOp,
        rd: Reg,
        source: CsrSource,
        csr: u16,
    },
    Fence,
    FenceI,
    Ecall,
    Ebreak,
    Mret,
    Wfi,
    FloatLoad {
        format: FloatFormat,
        rd: FloatReg,
        rs1: Reg,
        offset: i64,
    },
    FloatStore {
        format: FloatFormat,
        rs1: Reg,
        rs2: FloatReg,
        offset: i64,
    },
    Float {
        op: FloatOp,
        format: FloatFormat,
        rd: FloatReg,
        rs1: FloatReg,
        rs2: FloatReg,
        rm: RoundingMode,
    },
    FloatSqrt {
        format: FloatFormat,
        rd: FloatReg,
        rs1: FloatReg,
        rm: RoundingMode,
    },
    /// rd = (± rs1 × rs2) ± rs3.
    FloatFused {
        format: FloatFormat,
        rd: FloatReg,
        rs1: FloatReg,
        rs2: FloatReg,
        rs3: FloatReg,
        negate_product: bool,
        negate_addend: bool,
        rm: RoundingMode,
    },
    FloatPick {
        pick: FloatPick,
        format: FloatFormat,
        rd: FloatReg,
        rs1: FloatReg,
        rs2: FloatReg,
    },
    FloatCompare {
        compare: FloatCompare,
        format: FloatFormat,
        rd: Reg,
        rs1: FloatReg,
        rs2: FloatReg,
    },
    FloatClass {
        format: FloatFormat,
        rd: Reg,
        rs1: FloatReg,
    },
    /// A number of the other format to `format`.
    FloatConvert {
        format: FloatFormat,
        rd: FloatReg,
        rs1: FloatReg,
        rm: RoundingMode,
    },
    FloatToInt {
        format: FloatFormat,
        int: IntFormat,
        rd: Reg,
        rs1: FloatReg,
        rm: RoundingMode,
    },
    IntToFloat {
        format: FloatFormat,
        int: IntFormat,
        rd: FloatReg,
        rs1: Reg,
        rm: RoundingMode,
    },
    FloatToBits {
        format: FloatFormat,
        rd: Reg,
        rs1: FloatReg,
    },
    BitsToFloat {
        format: FloatFormat,
        rd: FloatReg,
        rs1: Reg,
    },
}

impl Instruction {
    /// Returns the integer registers that the instruction reads; x0 where it reads fewer.
    pub(crate) fn sources(&self) -> [Reg; 2] {
        use Instruction as I;
        match *self {
            I::Jalr { rs1, .. }
            | I::Load { rs1, .. }
            | I::OpImm { rs1, .. }
            | I::LoadReserved { rs1, .. }
            | I::FloatLoad { rs1, .. }
            | I::FloatStore { rs1, .. }
            | I::IntToFloat { rs1, .. }
            | I::BitsToFloat { rs1, .. }
            | I::Csr {
                source: CsrSource::Register(rs1),
                ..
            } => [rs1, Reg::ZERO],
            I::Branch { rs1, rs2, .. }
            | I::Store { rs1, rs2, .. }
            | I::Op { rs1, rs2, .. }
            | I::StoreConditional { rs1, rs2, .. }
            | I::Amo { rs1, rs2, .. } => [rs1, rs2],
            _ => [Reg::ZERO; 2],
        }
    }

    /// Returns the integer register that the instruction writes; x0 if it writes none.
    pub(crate) fn destination(&self) -> Reg {
        use Instruction as I;
        match *self {
            I::Lui { rd, .. }
            | I::Auipc { rd, .. }
            | I::Jal { rd, .. }
            | I::Jalr { rd, .. }
            | I::Load { rd, .. }
            | I::OpImm { rd, .. }
            | I::Op { rd, .. }
            | I::LoadReserved { rd, .. }
            | I::StoreConditional { rd, .. }
            | I::Amo { rd, .. }
            | I::Csr { rd, .. }
            | I::FloatCompare { rd, .. }
            | I::FloatClass { rd, .. }
            | I::FloatToInt { rd, .. }
            | I::FloatToBits { rd, .. } => rd,
            _ => Reg::ZERO,
        }
    }

    /// Returns the floating-point registers that the instruction waits for, or none if it has no
    /// such registers. The destination is among them: results are not overtaken.
    pub(crate) fn float_sources(&self) -> Option<[FloatReg; 4]> {
        use Instruction as I;
        Some(match *self {
            I::FloatLoad { rd, .. } | I::IntToFloat { rd, .. } | I::BitsToFloat { rd, .. } => {
                [rd; 4]
            }
            I::FloatStore { rs2, .. } => [rs2; 4],
            I::Float { rd, rs1, rs2, .. } | I::FloatPick { rd, rs1, rs2, .. } => {
                [rd, rs1, rs2, rs2]
            }
            I::FloatSqrt { rd, rs1, .. } | I::FloatConvert { rd, rs1, .. } => [rd, rs1, rs1, rs1],
            I::FloatFused {
                rd, rs1, rs2, rs3, ..
            } => [rd, rs1, rs2, rs3],
            I::FloatCompare { rs1, rs2, .. } => [rs1, rs2, rs2, rs2],
            I::FloatClass { rs1, .. } | I::FloatToInt { rs1, .. } | I::FloatToBits { rs1, .. } => {
                [rs1; 4]
            }
            _ => return None,
        })
    }
}
