//! Cycles of Rocket's multiplier and divider, which depend on the operands.
//!
//! The unit is one iterative circuit for both. A multiplication takes some bits of its first
//! operand in a cycle, and ends when the bits that are left are zeros. A division starts at the
//! first bit of the quotient that can be a one.

use crate::instruction::AluOp;

/// Bits of the first operand that the multiplier takes in a cycle.
const STEP: u32 = 8;
/// Bits of an operand.
const BITS: u32 = 64;

/// Costs of the unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MulDivCosts {
    /// Cycles of a multiplication of 64 bits without early exit.
    pub(crate) multiply: u64,
    /// Cycles of a division of 64 bits without early exit.
    pub(crate) divide: u64,
    /// True if multiplications of small numbers end early.
    pub(crate) multiply_exits: bool,
    /// True if divisions with short quotients start late.
    pub(crate) divide_exits: bool,
}

impl MulDivCosts {
    /// Returns the cycles from an operation to its result, at least 1. None if the unit does not
    /// have the operation.
    pub(crate) fn cycles(&self, op: AluOp, a: u64, b: u64) -> Option<u64> {
        let cycles = match op {
            AluOp::Mul => self.multiply.saturating_sub(self.saved_of_product(a, BITS)),
            // The upper half of a product needs all steps.
            AluOp::Mulh | AluOp::Mulhsu | AluOp::Mulhu => self.multiply,
            AluOp::MulW => {
                let half = self.multiply.saturating_sub(u64::from(BITS / STEP / 2));
                half.saturating_sub(self.saved_of_product(a, BITS / 2))
            }
            AluOp::Div => self.quotient(a, b, Sign::OfBoth),
            AluOp::Rem => self.quotient(a, b, Sign::OfDividend),
            AluOp::Divu | AluOp::Remu => self.quotient(a, b, Sign::None),
            AluOp::DivW => self.quotient(signed_word(a), signed_word(b), Sign::OfBoth),
            AluOp::RemW => self.quotient(signed_word(a), signed_word(b), Sign::OfDividend),
            AluOp::DivuW | AluOp::RemuW => {
                self.quotient(u64::from(a as u32), u64::from(b as u32), Sign::None)
            }
            _ => return None,
        };
        Some(cycles.max(1))
    }

    /// Steps of a multiplication that an early exit saves. The exit itself takes a step, the first
    /// one of a product of 64 bits and the last one cannot be an exit.
    fn saved_of_product(&self, a: u64, bits: u32) -> u64 {
        let all = bits / STEP;
        let least = if bits == BITS { 1 } else { 0 };
        let significant = bits - (a << (BITS - bits)).leading_zeros().min(bits);
        let steps = significant.div_ceil(STEP).max(least) + 1;
        match self.multiply_exits {
            true => u64::from(all.saturating_sub(steps)),
            false => 0,
        }
    }

    fn quotient(&self, a: u64, b: u64, sign: Sign) -> u64 {
        let is_negative = |number: u64| sign != Sign::None && (number as i64) < 0;
        let (of_a, of_b) = (is_negative(a), is_negative(b));
        let negates_result = match sign {
            Sign::None => false,
            Sign::OfBoth => of_a != of_b && b != 0,
            Sign::OfDividend => of_a,
        };
        let signs = u64::from(of_a || of_b) + u64::from(negates_result);
        let absolute = |number: u64, is_negative: bool| match is_negative {
            true => number.wrapping_neg(),
            false => number,
        };
        let skipped = match self.divide_exits && b != 0 {
            true => skipped_bits(absolute(a, of_a), absolute(b, of_b)),
            false => 0,
        };
        (self.divide + signs).saturating_sub(u64::from(skipped))
    }
}

/// Sign of a division's result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// Operands have no sign.
    None,
    /// Negative if the operands' signs differ.
    OfBoth,
    /// That of the dividend.
    OfDividend,
}

fn signed_word(value: u64) -> u64 {
    value as i32 as i64 as u64
}

/// Bits of the quotient that the divider does not compute one by one. It compares the places of
/// the highest ones by a subtraction of six bits, so a dividend that is a little smaller than the
/// divisor has no exit.
fn skipped_bits(dividend: u64, divisor: u64) -> u32 {
    let highest = |number: u64| number.checked_ilog2().unwrap_or(0);
    let position = !highest(dividend).wrapping_sub(highest(divisor)) % BITS;
    // The step that finds the position is one of the bits.
    position.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROCKET: MulDivCosts = MulDivCosts {
        multiply: 10,
        divide: 67,
        multiply_exits: true,
        divide_exits: true,
    };

    #[test]
    fn small_operands_take_fewer_cycles_and_large_ones_all() {
        let minus = |number: u64| number.wrapping_neg();
        let cases = [
            // A step, and one for the exit, besides request and result.
            (AluOp::Mul, 0, u64::MAX, 4),
            (AluOp::Mul, 0xff, u64::MAX, 4),
            (AluOp::Mul, 0x100, 3, 5),
            (AluOp::Mul, 1 << 47, 3, 9),
            (AluOp::Mul, 1 << 48, 3, 10),
            (AluOp::Mul, minus(1), 3, 10),
            (AluOp::Mulhu, 1, 1, 10),
            (AluOp::MulW, 0, 9, 3),
            (AluOp::MulW, 9, 9, 4),
            (AluOp::MulW, 0xffff_ffff_0000_0009, 9, 4),
            (AluOp::MulW, 1 << 31, 9, 6),
            // 15 bits by 4: 12 bits of the quotient.
            (AluOp::Divu, 25_000, 10, 67 - 51),
            (AluOp::DivuW, 25_000, 10, 67 - 51),
            (AluOp::Divu, u64::MAX, 1, 67),
            (AluOp::Divu, 25_000, 0, 67),
            (AluOp::Remu, 1, 1, 67 - 62),
            // The subtraction of the places wraps around.
            (AluOp::Remu, 1, 2, 67),
            (AluOp::Remu, 1, 1 << 10, 67 - 8),
            (AluOp::Div, minus(25_000), 10, 67 - 51 + 2),
            (AluOp::Div, minus(25_000), minus(10), 67 - 51 + 1),
            (AluOp::Rem, 25_000, minus(10), 67 - 51 + 1),
            (AluOp::RemW, minus(25_000), 10, 67 - 51 + 2),
        ];
        for (op, a, b, cycles) in cases {
            assert_eq!(
                ROCKET.cycles(op, a, b),
                Some(cycles),
                "{op:?} {a:#x} {b:#x}"
            );
        }
        assert_eq!(ROCKET.cycles(AluOp::Add, 1, 1), None);
    }

    #[test]
    fn without_exits_operands_have_no_effect() {
        let costs = MulDivCosts {
            multiply_exits: false,
            divide_exits: false,
            ..ROCKET
        };
        for (a, b) in [(0, 1), (25_000, 10), (u64::MAX >> 1, 3)] {
            assert_eq!(costs.cycles(AluOp::Mul, a, b), Some(10));
            assert_eq!(costs.cycles(AluOp::MulW, a, b), Some(6));
            assert_eq!(costs.cycles(AluOp::Divu, a, b), Some(67));
        }
        let free = MulDivCosts {
            multiply: 1,
            divide: 1,
            ..ROCKET
        };
        assert_eq!(free.cycles(AluOp::MulW, 0, 0), Some(1));
        assert_eq!(free.cycles(AluOp::Div, 1, 1), Some(1));
    }
}
