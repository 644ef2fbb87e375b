//! Operations on more than one limb. Operands are copied to scratch first, so any overlap is fine.

use bits::{limbs, limbs_for};

use super::Machine;
use crate::code::{Wide, WideInst};

impl Machine<'_> {
    pub(super) fn wide(&mut self, at: u32) {
        let inst = self.code.wides[at as usize];
        let scratch = self.code.wide_scratch as usize;
        let (low, high) = self.limbs.split_at_mut(scratch);
        let area = high.len() / 3;
        let (a, high) = high.split_at_mut(area);
        let (b, result) = high.split_at_mut(area);
        run(inst, low, a, b, result);
    }
}

/// Limbs of a number of this width, at least one.
fn at_least_one(width: u32) -> usize {
    limbs_for(width).max(1)
}

fn run(inst: WideInst, low: &mut [u64], a: &mut [u64], b: &mut [u64], result: &mut [u64]) {
    let WideInst {
        kind,
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
    let written = match kind {
        Wide::Add
        | Wide::Sub
        | Wide::Mul
        | Wide::And
        | Wide::Or
        | Wide::Xor
        | Wide::AddSaturating
        | Wide::SubSaturating
        | Wide::AddSaturatingSigned
        | Wide::SubSaturatingSigned
        | Wide::Div
        | Wide::Mod => {
            read(low, a, from_a, n);
            read(low, b, from_b, n);
            binary(kind, result, a, b, width);
            n
        }
        Wide::Shl | Wide::Shr | Wide::ShrSigned => {
            read(low, a, from_a, n);
            let amount = low[from_b as usize];
            match kind {
                Wide::Shl => limbs::shl(result, a, amount, width),
                Wide::Shr => limbs::shr(result, a, amount, width),
                _ => limbs::ashr(result, a, amount, width),
            }
            n
        }
        Wide::Neg => {
            read(low, a, from_a, n);
            limbs::neg(result, a, width);
            n
        }
        Wide::Complement => {
            read(low, a, from_a, n);
            limbs::not(result, a, width);
            n
        }
        Wide::Lt | Wide::Le | Wide::LtSigned | Wide::LeSigned => {
            let a = &low[from_a as usize..from_a as usize + n];
            let b = &low[from_b as usize..from_b as usize + n];
            let order = match kind {
                Wide::Lt | Wide::Le => limbs::cmp(a, b),
                _ => limbs::cmp_signed(a, b, width),
            };
            result[0] = u64::from(match kind {
                Wide::Lt | Wide::LtSigned => order.is_lt(),
                _ => order.is_le(),
            });
            1
        }
        Wide::Concat => {
            read(low, a, from_a, n);
            read(low, b, from_b, at_least_one(other));
            limbs::concat(result, a, width, b, other);
            at_least_one(width + other)
        }
        Wide::Slice => {
            // `b` says how many limbs the operand has.
            let source = &low[from_a as usize..(from_a + from_b) as usize];
            limbs::extract(result, source, other, width);
            n
        }
        Wide::ZeroExtend => {
            read(low, a, from_a, n);
            limbs::zero_extend(result, other, a, width);
            at_least_one(other)
        }
        Wide::SignExtend => {
            read(low, a, from_a, n);
            limbs::sign_extend(result, other, a, width);
            at_least_one(other)
        }
        Wide::Deposit => {
            read(low, a, from_a, n);
            limbs::deposit(&mut low[d..], other, a, width);
            return;
        }
        Wide::Saturate => {
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

fn binary(kind: Wide, result: &mut [u64], a: &mut [u64], b: &[u64], width: u32) {
    match kind {
        Wide::Add => limbs::add(result, a, b, width),
        Wide::Sub => limbs::sub(result, a, b, width),
        Wide::Mul => limbs::mul(result, a, b, width),
        Wide::And => limbs::and(result, a, b, width),
        Wide::Or => limbs::or(result, a, b, width),
        Wide::AddSaturating => limbs::sat_add(result, a, b, width),
        Wide::SubSaturating => limbs::sat_sub(result, a, b, width),
        Wide::AddSaturatingSigned => limbs::sat_add_signed(result, a, b, width),
        Wide::SubSaturatingSigned => limbs::sat_sub_signed(result, a, b, width),
        Wide::Div => exec::wide::div(result, a, b, width),
        Wide::Mod => exec::wide::rem(result, a, b, width),
        _ => limbs::xor(result, a, b, width),
    }
}
