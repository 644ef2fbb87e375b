//! Operations on numbers of more than one limb. Operands are copied to scratch limbs first, so
//! operands and result may overlap in any order.

use bits::{limbs, limbs_for};

use super::Slot;

/// Operation on numbers of any width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WideOp {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b`, unsigned
    Div,
    /// `a % b`, unsigned
    Mod,
    /// `a |+| b`, unsigned
    AddSaturating,
    /// `a |-| b`, unsigned
    SubSaturating,
    /// `a |+| b`, signed
    AddSaturatingSigned,
    /// `a |-| b`, signed
    SubSaturatingSigned,
    /// `a & b`
    And,
    /// `a | b`
    Or,
    /// `a ^ b`
    Xor,
    /// `a << b`; the amount is one limb.
    Shl,
    /// `a >> b`, unsigned; the amount is one limb.
    Shr,
    /// `a >> b`, signed; the amount is one limb.
    ShrSigned,
    /// `-a`
    Neg,
    /// `~a`
    Complement,
    /// `a < b` in one limb, unsigned
    Lt,
    /// `a <= b` in one limb, unsigned
    Le,
    /// `a < b` in one limb, signed
    LtSigned,
    /// `a <= b` in one limb, signed
    LeSigned,
    /// Concatenates `a` of `width` bits and `b` of `other` bits.
    Concat,
    /// Extracts `width` bits of `a` from bit `other` on. `b` is the number of limbs of `a`.
    Slice,
    /// Zero-extends to `other` bits.
    ZeroExtend,
    /// Sign-extends to `other` bits.
    SignExtend,
    /// Overwrites `width` bits of `d` from bit `other` on.
    Deposit,
    /// Result of one limb: the number, or the largest 64-bit number if it does not fit.
    Saturate,
}

/// Operation on numbers in slots. Operands and result may overlap.
#[derive(Clone, Copy, Debug)]
pub struct WideStep {
    /// The operation.
    pub op: WideOp,
    /// Slot of the result.
    pub d: Slot,
    /// Slot of the first operand.
    pub a: Slot,
    /// Slot of the second operand, unless the operation defines it otherwise.
    pub b: Slot,
    /// Width of `a`, and of the result unless the operation defines it otherwise.
    pub width: u32,
    /// Width of `b`, unless the operation defines it otherwise.
    pub other: u32,
}

impl WideStep {
    /// Returns the width of the widest number that the operation handles, in bits.
    pub fn widest(&self) -> u32 {
        match self.op {
            WideOp::Concat => self.width + self.other,
            WideOp::Slice => self.b.saturating_mul(64).max(self.width),
            WideOp::ZeroExtend | WideOp::SignExtend => self.width.max(self.other),
            _ => self.width,
        }
    }

    /// Returns the number of scratch limbs that [`WideStep::run`] needs: for two operands and a
    /// result.
    pub fn scratch_limbs(&self) -> u32 {
        3 * (limbs_for(self.widest()) as u32 + 1)
    }

    /// Executes the operation. All limbs from slot `scratch` on are scratch.
    pub fn run(&self, limbs: &mut [u64], scratch: Slot) {
        let (low, high) = limbs.split_at_mut(scratch as usize);
        let area = high.len() / 3;
        let (a, high) = high.split_at_mut(area);
        let (b, result) = high.split_at_mut(area);
        run(*self, low, a, b, result);
    }
}
/// Returns the number of limbs of a number of this width, at least one.
fn at_least_one(width: u32) -> usize {
    limbs_for(width).max(1)
}

fn run(inst: WideStep, low: &mut [u64], a: &mut [u64], b: &mut [u64], result: &mut [u64]) {
    let WideStep {
        op,
        d,
        a: from_a,
        b: from_b,
        width,
        other,
    } = inst;
    let n = at_least_one(width);
    let read = |low: &[u64], to: &mut [u64], from: u32, n: usize| {
        to[..n].copy_from_slice(&low[from as usize..from as usize + n]);
    };
    let d = d as usize;
    let written = match op {
        WideOp::Add
        | WideOp::Sub
        | WideOp::Mul
        | WideOp::And
        | WideOp::Or
        | WideOp::Xor
        | WideOp::AddSaturating
        | WideOp::SubSaturating
        | WideOp::AddSaturatingSigned
        | WideOp::SubSaturatingSigned
        | WideOp::Div
        | WideOp::Mod => {
            read(low, a, from_a, n);
            read(low, b, from_b, n);
            binary(op, result, a, b, width);
            n
        }
        WideOp::Shl | WideOp::Shr | WideOp::ShrSigned => {
            read(low, a, from_a, n);
            let amount = low[from_b as usize];
            match op {
                WideOp::Shl => limbs::shl(result, a, amount, width),
                WideOp::Shr => limbs::shr(result, a, amount, width),
                _ => limbs::ashr(result, a, amount, width),
            }
            n
        }
        WideOp::Neg => {
            read(low, a, from_a, n);
            limbs::neg(result, a, width);
            n
        }
        WideOp::Complement => {
            read(low, a, from_a, n);
            limbs::not(result, a, width);
            n
        }
        WideOp::Lt | WideOp::Le | WideOp::LtSigned | WideOp::LeSigned => {
            let a = &low[from_a as usize..from_a as usize + n];
            let b = &low[from_b as usize..from_b as usize + n];
            let order = match op {
                WideOp::Lt | WideOp::Le => limbs::cmp(a, b),
                _ => limbs::cmp_signed(a, b, width),
            };
            result[0] = u64::from(match op {
                WideOp::Lt | WideOp::LtSigned => order.is_lt(),
                _ => order.is_le(),
            });
            1
        }
        WideOp::Concat => {
            read(low, a, from_a, n);
            read(low, b, from_b, at_least_one(other));
            limbs::concat(result, a, width, b, other);
            at_least_one(width + other)
        }
        WideOp::Slice => {
            // `b` is the operand's number of limbs.
            let source = &low[from_a as usize..(from_a + from_b) as usize];
            limbs::extract(result, source, other, width);
            n
        }
        WideOp::ZeroExtend => {
            read(low, a, from_a, n);
            limbs::zero_extend(result, other, a, width);
            at_least_one(other)
        }
        WideOp::SignExtend => {
            read(low, a, from_a, n);
            limbs::sign_extend(result, other, a, width);
            at_least_one(other)
        }
        WideOp::Deposit => {
            read(low, a, from_a, n);
            limbs::deposit(&mut low[d..], other, a, width);
            return;
        }
        WideOp::Saturate => {
            let source = &low[from_a as usize..from_a as usize + n];
            result[0] = if limbs::is_zero(&source[1..]) {
                source[0]
            } else {
                u64::MAX
            };
            1
        }
    };
    low[d..d + written].copy_from_slice(&result[..written]);
}

fn binary(op: WideOp, result: &mut [u64], a: &mut [u64], b: &[u64], width: u32) {
    match op {
        WideOp::Add => limbs::add(result, a, b, width),
        WideOp::Sub => limbs::sub(result, a, b, width),
        WideOp::Mul => limbs::mul(result, a, b, width),
        WideOp::And => limbs::and(result, a, b, width),
        WideOp::Or => limbs::or(result, a, b, width),
        WideOp::AddSaturating => limbs::sat_add(result, a, b, width),
        WideOp::SubSaturating => limbs::sat_sub(result, a, b, width),
        WideOp::AddSaturatingSigned => limbs::sat_add_signed(result, a, b, width),
        WideOp::SubSaturatingSigned => limbs::sat_sub_signed(result, a, b, width),
        WideOp::Div => crate::wide::div(result, a, b, width),
        WideOp::Mod => crate::wide::rem(result, a, b, width),
        _ => limbs::xor(result, a, b, width),
    }
}
