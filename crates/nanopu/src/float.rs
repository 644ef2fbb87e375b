//! Floating-point operations of extensions F and D: results and exception flags, bit by bit.
//!
//! NaN results are the canonical NaN. Underflow is detected after rounding, and overflow does not
//! depend on the result (RISC-V unprivileged specification, F, "Floating-Point Control and Status
//! Register"). The library does both otherwise: [`end_flags`] has the difference.

use rustc_apfloat::ieee::{Double, Quad, Single};
use rustc_apfloat::{Float, FloatConvert, Round, Status, StatusAnd};

use crate::instruction::{FloatCompare, FloatFormat, FloatOp, FloatPick, IntFormat, RoundingMode};

/// Exception flags, as `fflags` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(pub(crate) u8);

impl Flags {
    const NONE: Self = Self(0);
    const INEXACT: Self = Self(1);
    const UNDERFLOW: Self = Self(2);
    const OVERFLOW: Self = Self(4);
    const DIVIDE_BY_ZERO: Self = Self(8);
    const INVALID: Self = Self(16);

    fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    fn from_status(status: Status) -> Self {
        let mut flags = Self::NONE;
        for (bit, flag) in [
            (Status::INEXACT, Self::INEXACT),
            (Status::UNDERFLOW, Self::UNDERFLOW),
            (Status::OVERFLOW, Self::OVERFLOW),
            (Status::DIV_BY_ZERO, Self::DIVIDE_BY_ZERO),
            (Status::INVALID_OP, Self::INVALID),
        ] {
            if status.contains(bit) {
                flags.add(flag);
            }
        }
        flags
    }
}

/// Rounding of the library. `Dynamic` is resolved before.
pub(crate) fn round(mode: RoundingMode) -> Round {
    match mode {
        RoundingMode::NearestEven | RoundingMode::Dynamic => Round::NearestTiesToEven,
        RoundingMode::TowardZero => Round::TowardZero,
        RoundingMode::Down => Round::TowardNegative,
        RoundingMode::Up => Round::TowardPositive,
        RoundingMode::NearestMaxMagnitude => Round::NearestTiesToAway,
    }
}

/// A format of registers: its bits in a register of 64 bits, and its constants.
trait Binary: Float + FloatConvert<Quad>
where
    Quad: FloatConvert<Self>,
{
    const CANONICAL_NAN: u64;
    const MIN_NORMAL: u64;
    const MAX_FINITE: u64;
    const SIGN: u64;
    fn read(register: u64) -> Self;
    fn write(self) -> u64;
    /// The square root, rounded to nearest even.
    fn host_sqrt(self) -> Self;
}

impl Binary for Single {
    const CANONICAL_NAN: u64 = 0x7fc0_0000;
    const MIN_NORMAL: u64 = 0x0080_0000;
    const MAX_FINITE: u64 = 0x7f7f_ffff;
    const SIGN: u64 = 1 << 31;

    fn read(register: u64) -> Self {
        Self::from_bits(u128::from(unbox(register)))
    }

    fn write(self) -> u64 {
        BOX | self.to_bits() as u64
    }

    fn host_sqrt(self) -> Self {
        Self::from_bits(
            f32::from_bits(self.to_bits() as u32)
                .sqrt()
                .to_bits()
                .into(),
        )
    }
}

impl Binary for Double {
    const CANONICAL_NAN: u64 = 0x7ff8_0000_0000_0000;
    const MIN_NORMAL: u64 = 0x0010_0000_0000_0000;
    const MAX_FINITE: u64 = 0x7fef_ffff_ffff_ffff;
    const SIGN: u64 = 1 << 63;

    fn read(register: u64) -> Self {
        Self::from_bits(u128::from(register))
    }

    fn write(self) -> u64 {
        self.to_bits() as u64
    }

    fn host_sqrt(self) -> Self {
        Self::from_bits(
            f64::from_bits(self.to_bits() as u64)
                .sqrt()
                .to_bits()
                .into(),
        )
    }
}

/// The upper bits of a register that has a single: all ones.
pub(crate) const BOX: u64 = 0xffff_ffff_0000_0000;

/// The single of a register; the canonical NaN if the register has none.
pub(crate) fn unbox(register: u64) -> u32 {
    if register & BOX == BOX {
        register as u32
    } else {
        Single::CANONICAL_NAN as u32
    }
}

/// Runs code with the type of a format.
macro_rules! with_format {
    ($format:expr, $type:ident => $code:expr) => {
        match $format {
            FloatFormat::Single => {
                type $type = Single;
                $code
            }
            FloatFormat::Double => {
                type $type = Double;
                $code
            }
        }
    };
}

/// Result and flags, with the canonical NaN in the place of any NaN.
fn finish<F: Binary>(value: F, mut flags: Flags, operands: &[F]) -> (u64, Flags)
where
    Quad: FloatConvert<F>,
{
    if operands.iter().any(|o| o.is_signaling()) {
        flags.add(Flags::INVALID);
    }
    if value.is_nan() {
        return (F::from_bits(F::CANONICAL_NAN.into()).write(), flags);
    }
    (value.write(), flags)
}

/// The flags of a result at the ends of the range of exponents, which depend on the result that
/// an exponent of any size would have: underflow if that is below the least normal number, and
/// overflow if it is above the greatest finite one. `compute` gives the result of 113 bits, rounded
/// toward zero.
fn end_flags<F: Binary>(
    value: F,
    status: Status,
    round: Round,
    compute: impl FnOnce() -> StatusAnd<Quad>,
) -> Flags
where
    Quad: FloatConvert<F>,
{
    let bits = value.to_bits() as u64 & !F::SIGN;
    let (scale, flag) = if bits == F::MIN_NORMAL {
        (200, Flags::UNDERFLOW)
    } else if bits == F::MAX_FINITE {
        (-200, Flags::OVERFLOW)
    } else {
        return Flags::NONE;
    };
    if !status.contains(Status::INEXACT) {
        return Flags::NONE;
    }
    let wide = compute();
    // Rounding to odd: a second rounding, to at most 111 bits, gives what one rounding gives.
    let odd = u128::from(wide.status.contains(Status::INEXACT));
    let wide = Quad::from_bits(wide.value.to_bits() | odd);
    let narrow: StatusAnd<F> = wide.scalbn(scale).convert_r(round, &mut false);
    let limit = F::from_bits(bits.into()).scalbn(scale);
    let size = narrow.value.abs();
    let is_outside = if scale > 0 {
        size < limit
    } else {
        size > limit
    };
    if is_outside { flag } else { Flags::NONE }
}

fn widen<F: Binary>(value: F) -> Quad
where
    Quad: FloatConvert<F>,
{
    let wide: StatusAnd<Quad> = value.convert(&mut false);
    wide.value
}

fn rounded<F: Binary>(
    result: StatusAnd<F>,
    round: Round,
    operands: &[F],
    compute: impl FnOnce() -> StatusAnd<Quad>,
) -> (u64, Flags)
where
    Quad: FloatConvert<F>,
{
    let mut flags = Flags::from_status(result.status);
    flags.add(end_flags(result.value, result.status, round, compute));
    finish(result.value, flags, operands)
}

/// An operation of two numbers with 113 bits.
type WideOperation = fn(Quad, Quad, Round) -> StatusAnd<Quad>;

/// Sum, difference, product or quotient.
pub(crate) fn operate(
    op: FloatOp,
    format: FloatFormat,
    a: u64,
    b: u64,
    round: Round,
) -> (u64, Flags) {
    with_format!(format, F => {
        let (a, b) = (F::read(a), F::read(b));
        let toward_zero = Round::TowardZero;
        let (result, wide): (_, WideOperation) = match op {
            FloatOp::Add => (a.add_r(b, round), |a, b, r| a.add_r(b, r)),
            FloatOp::Sub => (a.sub_r(b, round), |a, b, r| a.sub_r(b, r)),
            FloatOp::Mul => (a.mul_r(b, round), |a, b, r| a.mul_r(b, r)),
            FloatOp::Div => (a.div_r(b, round), |a, b, r| a.div_r(b, r)),
        };
        rounded(result, round, &[a, b], || wide(widen(a), widen(b), toward_zero))
    })
}

/// Fused multiply-add of registers, with negations.
pub(crate) fn fused(
    format: FloatFormat,
    [a, b, c]: [u64; 3],
    negate_product: bool,
    negate_addend: bool,
    round: Round,
) -> (u64, Flags) {
    with_format!(format, F => {
        let negated = |value: F, negate: bool| if negate { -value } else { value };
        let a = negated(F::read(a), negate_product);
        let (b, c) = (F::read(b), negated(F::read(c), negate_addend));
        let result = a.mul_add_r(b, c, round);
        let wide = || widen(a).mul_add_r(widen(b), widen(c), Round::TowardZero);
        let (value, mut flags) = rounded(result, round, &[a, b, c], wide);
        // Infinity times zero is invalid even if the addend is a quiet NaN.
        if (a.is_infinite() && b.is_zero()) || (a.is_zero() && b.is_infinite()) {
            flags.add(Flags::INVALID);
        }
        (value, flags)
    })
}

/// Square root.
pub(crate) fn sqrt(format: FloatFormat, a: u64, round: Round) -> (u64, Flags) {
    with_format!(format, F => {
        let a = F::read(a);
        if a.is_nan() || a.is_zero() {
            return finish(a, Flags::NONE, &[a]);
        }
        if a.is_negative() {
            return finish(F::from_bits(F::CANONICAL_NAN.into()), Flags::INVALID, &[a]);
        }
        if a.is_infinite() {
            return finish(a, Flags::NONE, &[a]);
        }
        let nearest = a.host_sqrt();
        // The square has at most 106 bits: it is exact in 113.
        let square = (widen(nearest) * widen(nearest)).value;
        let exact = widen(a);
        if square == exact {
            return finish(nearest, Flags::NONE, &[a]);
        }
        let bits = nearest.to_bits();
        let bits = match round {
            Round::TowardZero | Round::TowardNegative if square > exact => bits - 1,
            Round::TowardPositive if square < exact => bits + 1,
            // A root is never in the middle of two numbers.
            _ => bits,
        };
        finish(F::from_bits(bits), Flags::INEXACT, &[a])
    })
}

/// Sign injection, minimum or maximum.
pub(crate) fn pick(pick: FloatPick, format: FloatFormat, a: u64, b: u64) -> (u64, Flags) {
    with_format!(format, F => {
        let (a, b) = (F::read(a), F::read(b));
        let sign = u128::from(F::SIGN);
        let (bits_a, bits_b) = (a.to_bits(), b.to_bits());
        let injected = |bits: u128| (F::from_bits(bits_a & !sign | bits & sign).write(), Flags::NONE);
        let smallest = match pick {
            FloatPick::SignCopy => return injected(bits_b),
            FloatPick::SignNegate => return injected(!bits_b),
            FloatPick::SignXor => return injected(bits_a ^ bits_b),
            FloatPick::Min => true,
            FloatPick::Max => false,
        };
        let value = if a.is_nan() {
            b
        } else if b.is_nan() {
            a
        } else if a.is_zero() && b.is_zero() {
            // -0 is less than +0.
            if a.is_negative() == smallest { a } else { b }
        } else if (a < b) == smallest {
            a
        } else {
            b
        };
        finish(value, Flags::NONE, &[a, b])
    })
}

/// Comparison. `feq` is quiet; the others are invalid with any NaN.
pub(crate) fn compare(compare: FloatCompare, format: FloatFormat, a: u64, b: u64) -> (u64, Flags) {
    with_format!(format, F => {
        let (a, b) = (F::read(a), F::read(b));
        let (holds, is_quiet) = match compare {
            FloatCompare::Le => (a <= b, false),
            FloatCompare::Lt => (a < b, false),
            FloatCompare::Eq => (a == b, true),
        };
        let is_invalid = if is_quiet {
            a.is_signaling() || b.is_signaling()
        } else {
            a.is_nan() || b.is_nan()
        };
        let flags = if is_invalid { Flags::INVALID } else { Flags::NONE };
        (u64::from(holds), flags)
    })
}

/// The class, as one of ten bits (F, "Floating-Point Classify Instruction").
pub(crate) fn classify(format: FloatFormat, a: u64) -> u64 {
    with_format!(format, F => {
        let a = F::read(a);
        let negative = a.is_negative();
        let bit = match () {
            () if a.is_signaling() => 8,
            () if a.is_nan() => 9,
            () if a.is_infinite() => if negative { 0 } else { 7 },
            () if a.is_zero() => if negative { 3 } else { 4 },
            () if a.is_denormal() => if negative { 2 } else { 5 },
            () => if negative { 1 } else { 6 },
        };
        1 << bit
    })
}

/// A number of the other format, converted to `format`.
pub(crate) fn convert(format: FloatFormat, a: u64, round: Round) -> (u64, Flags) {
    match format {
        FloatFormat::Double => {
            let a = Single::read(a);
            let wide: StatusAnd<Double> = a.convert_r(round, &mut false);
            let flags = if a.is_signaling() {
                Flags::INVALID
            } else {
                Flags::NONE
            };
            finish(wide.value, flags, &[])
        }
        FloatFormat::Single => {
            let a = Double::read(a);
            let narrow: StatusAnd<Single> = a.convert_r(round, &mut false);
            let mut flags = if a.is_nan() {
                Flags::NONE
            } else {
                Flags::from_status(narrow.status)
            };
            if a.is_signaling() {
                flags.add(Flags::INVALID);
            }
            let exact = || StatusAnd {
                status: Status::OK,
                value: widen(a),
            };
            flags.add(end_flags(narrow.value, narrow.status, round, exact));
            finish(narrow.value, flags, &[])
        }
    }
}

/// Conversion to an integer. NaN is the greatest one, and numbers outside of the range are its
/// nearest end; both are invalid.
pub(crate) fn to_int(format: FloatFormat, int: IntFormat, a: u64, round: Round) -> (u64, Flags) {
    let (least, most) = match int {
        IntFormat::W => (i128::from(i32::MIN), i128::from(i32::MAX)),
        IntFormat::Wu => (0, i128::from(u32::MAX)),
        IntFormat::L => (i128::from(i64::MIN), i128::from(i64::MAX)),
        IntFormat::Lu => (0, i128::from(u64::MAX)),
    };
    // Results of 32 bits are extended by sign, unsigned ones too.
    let register = |value: i128| match int {
        IntFormat::W | IntFormat::Wu => value as i32 as i64 as u64,
        IntFormat::L | IntFormat::Lu => value as u64,
    };
    with_format!(format, F => {
        let a = F::read(a);
        if a.is_nan() {
            return (register(most), Flags::INVALID);
        }
        // All numbers in range have fewer than 100 bits.
        let converted = a.to_i128_r(100, round, &mut false);
        let overflows = converted.status.contains(Status::INVALID_OP);
        if overflows || !(least..=most).contains(&converted.value) {
            let end = if a.is_negative() { least } else { most };
            return (register(end), Flags::INVALID);
        }
        (register(converted.value), Flags::from_status(converted.status))
    })
}

/// Conversion of an integer.
pub(crate) fn from_int(format: FloatFormat, int: IntFormat, a: u64, round: Round) -> (u64, Flags) {
    let value = match int {
        IntFormat::W => i128::from(a as i32),
        IntFormat::Wu => i128::from(a as u32),
        IntFormat::L => i128::from(a as i64),
        IntFormat::Lu => i128::from(a),
    };
    with_format!(format, F => {
        let result = F::from_i128_r(value, round);
        (result.value.write(), Flags::from_status(result.status))
    })
}
