//! Arithmetic on SSA values. Numbers are canonical. Up to 64 bits take one value, and wider numbers
//! take several, least significant first.
//!
//! The semantics are those of [`bits::one`] and [`bits::limbs`].

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};
use ir::BinOp;

use super::Translator;

/// Returns the number of limbs of a number of `width` bits, at least one.
pub(super) fn limbs_of_width(width: u32) -> usize {
    bits::limbs_for(width).max(1)
}

/// Numbers of one limb.
impl Translator<'_> {
    pub(super) fn number(&mut self, number: u64) -> Value {
        self.b.ins().iconst(I64, number as i64)
    }

    /// Truncates a number to its width.
    pub(super) fn cut(&mut self, a: Value, width: u32) -> Value {
        if width >= 64 {
            return a;
        }
        self.b.ins().band_imm(a, bits::one::mask(width) as i64)
    }

    /// Converts a truth value to a number.
    pub(super) fn number_of(&mut self, truth: Value) -> Value {
        self.b.ins().uextend(I64, truth)
    }

    pub(super) fn is_zero(&mut self, a: Value) -> Value {
        self.b.ins().icmp_imm(IntCC::Equal, a, 0)
    }

    pub(super) fn is_set(&mut self, a: Value) -> Value {
        self.b.ins().icmp_imm(IntCC::NotEqual, a, 0)
    }

    /// Sign-extends an `int<width>` to an `int<64>`.
    pub(super) fn signed(&mut self, a: Value, width: u32) -> Value {
        match width {
            64 => a,
            0 => self.number(0),
            _ => {
                let unused = i64::from(64 - width);
                let up = self.b.ins().ishl_imm(a, unused);
                self.b.ins().sshr_imm(up, unused)
            }
        }
    }

    /// Computes an operation on numbers of `width` bits. The distance of a shift is a 64-bit
    /// number.
    pub(super) fn narrow_binary(
        &mut self,
        op: BinOp,
        width: u32,
        signed: bool,
        a: Value,
        b: Value,
    ) -> Value {
        match op {
            BinOp::Add => {
                let sum = self.b.ins().iadd(a, b);
                self.cut(sum, width)
            }
            BinOp::Sub => {
                let difference = self.b.ins().isub(a, b);
                self.cut(difference, width)
            }
            BinOp::Mul => {
                let product = self.b.ins().imul(a, b);
                self.cut(product, width)
            }
            BinOp::Div => {
                let (is_zero, divisor) = self.divisor(b);
                let quotient = self.b.ins().udiv(a, divisor);
                let zero = self.number(0);
                self.b.ins().select(is_zero, zero, quotient)
            }
            // The remainder of division by one is zero, which is the defined result for division by
            // zero.
            BinOp::Mod => {
                let (_, divisor) = self.divisor(b);
                self.b.ins().urem(a, divisor)
            }
            BinOp::AddSaturating if signed => self.saturating_signed(width, a, b, true),
            BinOp::SubSaturating if signed => self.saturating_signed(width, a, b, false),
            BinOp::AddSaturating => {
                let sum = self.b.ins().iadd(a, b);
                let sum = self.cut(sum, width);
                let over = self.b.ins().icmp(IntCC::UnsignedLessThan, sum, a);
                let most = self.number(bits::one::mask(width));
                self.b.ins().select(over, most, sum)
            }
            BinOp::SubSaturating => {
                let difference = self.b.ins().isub(a, b);
                let under = self.b.ins().icmp(IntCC::UnsignedLessThan, a, b);
                let zero = self.number(0);
                self.b.ins().select(under, zero, difference)
            }
            BinOp::And => self.b.ins().band(a, b),
            BinOp::Or => self.b.ins().bor(a, b),
            BinOp::Xor => self.b.ins().bxor(a, b),
            BinOp::Shl => {
                let shifted = self.b.ins().ishl(a, b);
                let shifted = self.cut(shifted, width);
                self.unless_shifted_out(shifted, b, width)
            }
            BinOp::Shr if signed => {
                let most = self.number(63);
                let amount = self.b.ins().umin(b, most);
                let a = self.signed(a, width);
                let shifted = self.b.ins().sshr(a, amount);
                self.cut(shifted, width)
            }
            BinOp::Shr => {
                let shifted = self.b.ins().ushr(a, b);
                self.unless_shifted_out(shifted, b, width)
            }
            comparison => {
                let truth = self.narrow_compare(comparison, width, signed, a, b);
                self.number_of(truth)
            }
        }
    }

    /// Returns the test of the divisor for zero, and a divisor with zero replaced by one.
    fn divisor(&mut self, b: Value) -> (Value, Value) {
        let is_zero = self.is_zero(b);
        let one = self.number(1);
        (is_zero, self.b.ins().select(is_zero, one, b))
    }

    /// Returns zero if the distance of the shift is at least the width.
    fn unless_shifted_out(&mut self, shifted: Value, amount: Value, width: u32) -> Value {
        let in_range = IntCC::UnsignedLessThan;
        let in_range = self.b.ins().icmp_imm(in_range, amount, i64::from(width));
        let zero = self.number(0);
        self.b.ins().select(in_range, shifted, zero)
    }

    fn saturating_signed(&mut self, width: u32, a: Value, b: Value, adds: bool) -> Value {
        let (sa, sb) = (self.signed(a, width), self.signed(b, width));
        let exact = if adds {
            self.b.ins().iadd(sa, sb)
        } else {
            self.b.ins().isub(sa, sb)
        };
        if width < 64 {
            let most = self.number(bits::one::mask(width) >> 1);
            let least = self.number(!(bits::one::mask(width) >> 1));
            let clamped = self.b.ins().smin(exact, most);
            let clamped = self.b.ins().smax(clamped, least);
            return self.cut(clamped, width);
        }
        // Overflow occurs if the result's sign differs from that of `a`, and the operands' signs
        // are equal for a sum or different for a difference.
        let signs = self.b.ins().bxor(sa, sb);
        let signs = if adds {
            self.b.ins().bnot(signs)
        } else {
            signs
        };
        let changed = self.b.ins().bxor(sa, exact);
        let over = self.b.ins().band(signs, changed);
        let over = self.b.ins().icmp_imm(IntCC::SignedLessThan, over, 0);
        let sign = self.b.ins().sshr_imm(sa, 63);
        let bound = self.b.ins().bxor_imm(sign, i64::MAX);
        self.b.ins().select(over, bound, exact)
    }

    /// Compares numbers of `width` bits. Returns a truth value.
    pub(super) fn narrow_compare(
        &mut self,
        op: BinOp,
        width: u32,
        signed: bool,
        a: Value,
        b: Value,
    ) -> Value {
        let ordered = !matches!(op, BinOp::Eq | BinOp::Ne);
        let (a, b) = if signed && ordered {
            (self.signed(a, width), self.signed(b, width))
        } else {
            (a, b)
        };
        self.b.ins().icmp(condition(op, signed), a, b)
    }
}

/// Returns the condition code of a comparison.
fn condition(op: BinOp, signed: bool) -> IntCC {
    match (op, signed) {
        (BinOp::Eq, _) => IntCC::Equal,
        (BinOp::Lt, true) => IntCC::SignedLessThan,
        (BinOp::Le, true) => IntCC::SignedLessThanOrEqual,
        (BinOp::Gt, true) => IntCC::SignedGreaterThan,
        (BinOp::Ge, true) => IntCC::SignedGreaterThanOrEqual,
        (BinOp::Lt, false) => IntCC::UnsignedLessThan,
        (BinOp::Le, false) => IntCC::UnsignedLessThanOrEqual,
        (BinOp::Gt, false) => IntCC::UnsignedGreaterThan,
        (BinOp::Ge, false) => IntCC::UnsignedGreaterThanOrEqual,
        _ => IntCC::NotEqual,
    }
}

/// Numbers of a few limbs.
impl Translator<'_> {
    /// Truncates the last limb to the number's width.
    fn cut_limbs(&mut self, mut limbs: Vec<Value>, width: u32) -> Vec<Value> {
        let bits_of_last = (width.max(1) - 1) % 64 + 1;
        if let Some(last) = limbs.last_mut() {
            *last = self.cut(*last, bits_of_last);
        }
        limbs
    }

    pub(super) fn zeros(&mut self, limbs: usize) -> Vec<Value> {
        let zero = self.number(0);
        vec![zero; limbs]
    }

    pub(super) fn complement(&mut self, a: &[Value], width: u32) -> Vec<Value> {
        let inverted = a.iter().map(|&limb| self.b.ins().bnot(limb)).collect();
        self.cut_limbs(inverted, width)
    }

    pub(super) fn negate(&mut self, a: &[Value], width: u32) -> Vec<Value> {
        let zeros = self.zeros(a.len());
        let (difference, _) = self.subtract(&zeros, a);
        self.cut_limbs(difference, width)
    }

    pub(super) fn wide_add(&mut self, a: &[Value], b: &[Value], width: u32) -> Vec<Value> {
        let mut carry: Option<Value> = None;
        let mut sums = Vec::with_capacity(a.len());
        for (&a, &b) in a.iter().zip(b) {
            let sum = self.b.ins().iadd(a, b);
            let over = self.b.ins().icmp(IntCC::UnsignedLessThan, sum, a);
            let over = self.number_of(over);
            let (sum, over) = match carry {
                None => (sum, over),
                Some(carry) => {
                    let with = self.b.ins().iadd(sum, carry);
                    let more = self.b.ins().icmp(IntCC::UnsignedLessThan, with, sum);
                    let more = self.number_of(more);
                    (with, self.b.ins().bor(over, more))
                }
            };
            sums.push(sum);
            carry = Some(over);
        }
        self.cut_limbs(sums, width)
    }

    pub(super) fn wide_sub(&mut self, a: &[Value], b: &[Value], width: u32) -> Vec<Value> {
        let (difference, _) = self.subtract(a, b);
        self.cut_limbs(difference, width)
    }

    /// Returns `a - b`, and the borrow as a number.
    fn subtract(&mut self, a: &[Value], b: &[Value]) -> (Vec<Value>, Value) {
        let mut borrow: Option<Value> = None;
        let mut differences = Vec::with_capacity(a.len());
        for (&a, &b) in a.iter().zip(b) {
            let difference = self.b.ins().isub(a, b);
            let under = self.b.ins().icmp(IntCC::UnsignedLessThan, a, b);
            let under = self.number_of(under);
            let (difference, under) = match borrow {
                None => (difference, under),
                Some(borrow) => {
                    let with = self.b.ins().isub(difference, borrow);
                    let less = IntCC::UnsignedLessThan;
                    let more = self.b.ins().icmp(less, difference, borrow);
                    let more = self.number_of(more);
                    (with, self.b.ins().bor(under, more))
                }
            };
            differences.push(difference);
            borrow = Some(under);
        }
        let borrow = match borrow {
            Some(borrow) => borrow,
            None => self.number(0),
        };
        (differences, borrow)
    }

    pub(super) fn limbwise(&mut self, op: BinOp, a: &[Value], b: &[Value]) -> Vec<Value> {
        let pairs = a.iter().zip(b);
        pairs
            .map(|(&a, &b)| match op {
                BinOp::And => self.b.ins().band(a, b),
                BinOp::Or => self.b.ins().bor(a, b),
                _ => self.b.ins().bxor(a, b),
            })
            .collect()
    }

    /// Compares numbers of several limbs. Returns a truth value.
    pub(super) fn wide_compare(
        &mut self,
        op: BinOp,
        width: u32,
        signed: bool,
        a: &[Value],
        b: &[Value],
    ) -> Value {
        match op {
            BinOp::Eq | BinOp::Ne => {
                let differing = self.limbwise(BinOp::Xor, a, b);
                let any = self.any(&differing);
                match op {
                    BinOp::Eq => self.is_zero(any),
                    _ => self.is_set(any),
                }
            }
            _ => {
                let (a, b) = if signed {
                    (
                        self.with_sign_flipped(a, width),
                        self.with_sign_flipped(b, width),
                    )
                } else {
                    (a.to_vec(), b.to_vec())
                };
                let (left, right) = match op {
                    BinOp::Lt | BinOp::Ge => (a, b),
                    _ => (b, a),
                };
                let (_, is_less) = self.subtract(&left, &right);
                match op {
                    BinOp::Lt | BinOp::Gt => self.is_set(is_less),
                    _ => self.is_zero(is_less),
                }
            }
        }
    }

    /// Returns the bitwise or of all limbs.
    pub(super) fn any(&mut self, limbs: &[Value]) -> Value {
        let mut limbs = limbs.iter().copied();
        let first = match limbs.next() {
            Some(first) => first,
            None => self.number(0),
        };
        limbs.fold(first, |all, limb| self.b.ins().bor(all, limb))
    }

    /// Flips the sign bit, which maps signed order to unsigned order.
    fn with_sign_flipped(&mut self, a: &[Value], width: u32) -> Vec<Value> {
        let mut a = a.to_vec();
        if let Some(last) = a.last_mut() {
            let sign = 1u64 << ((width - 1) % 64);
            *last = self.b.ins().bxor_imm(*last, sign as i64);
        }
        a
    }

    /// Returns `width` bits of a number from bit `lo` on. Bits beyond its end are zero.
    pub(super) fn bits_of(&mut self, a: &[Value], lo: u32, width: u32) -> Vec<Value> {
        let (skip, shift) = ((lo / 64) as usize, i64::from(lo % 64));
        let mut taken = Vec::with_capacity(limbs_of_width(width));
        for i in skip..skip + limbs_of_width(width) {
            let low = match a.get(i) {
                Some(&limb) => self.b.ins().ushr_imm(limb, shift),
                None => self.number(0),
            };
            taken.push(match a.get(i + 1) {
                Some(&next) if shift > 0 => {
                    let high = self.b.ins().ishl_imm(next, 64 - shift);
                    self.b.ins().bor(low, high)
                }
                _ => low,
            });
        }
        if width == 0 {
            return self.zeros(1);
        }
        self.cut_limbs(taken, width)
    }

    /// Shifts a number left by `lo` bits into `limbs` limbs. No bit is lost.
    pub(super) fn shifted_up(&mut self, a: &[Value], lo: u32, limbs: usize) -> Vec<Value> {
        let (skip, shift) = ((lo / 64) as usize, i64::from(lo % 64));
        let mut shifted = Vec::with_capacity(limbs);
        for i in 0..limbs {
            let at = |i: usize| i.checked_sub(skip).and_then(|i| a.get(i).copied());
            let high = at(i).map(|limb| self.b.ins().ishl_imm(limb, shift));
            let before = i.checked_sub(1).and_then(at);
            let low = match before {
                Some(limb) if shift > 0 => Some(self.b.ins().ushr_imm(limb, 64 - shift)),
                _ => None,
            };
            shifted.push(match (high, low) {
                (Some(high), Some(low)) => self.b.ins().bor(high, low),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => self.number(0),
            });
        }
        shifted
    }

    /// Returns `a` with `width` bits from bit `lo` on replaced by `with`.
    pub(super) fn deposit(
        &mut self,
        a: &[Value],
        with: &[Value],
        lo: u32,
        width: u32,
    ) -> Vec<Value> {
        let field = self.shifted_up(with, lo, a.len());
        let mut deposited = Vec::with_capacity(a.len());
        for (i, (&old, &new)) in a.iter().zip(&field).enumerate() {
            let from = lo.max(i as u32 * 64) - i as u32 * 64;
            let to = (lo + width)
                .min(i as u32 * 64 + 64)
                .saturating_sub(i as u32 * 64);
            if from >= to || from >= 64 {
                deposited.push(old);
                continue;
            }
            let replaced = bits::one::mask(to - from) << from;
            let kept = self.b.ins().band_imm(old, !replaced as i64);
            deposited.push(self.b.ins().bor(kept, new));
        }
        deposited
    }

    /// Extends a number from `from` to `to` bits, with zeros or with its sign.
    pub(super) fn extended(
        &mut self,
        a: &[Value],
        (from, to): (u32, u32),
        signed: bool,
    ) -> Vec<Value> {
        let mut extended = a.to_vec();
        let limbs = limbs_of_width(to);
        let filler = if signed && from > 0 {
            let last = a.len() - 1;
            extended[last] = self.signed(a[last], (from - 1) % 64 + 1);
            self.b.ins().sshr_imm(extended[last], 63)
        } else {
            self.number(0)
        };
        extended.resize(limbs, filler);
        if signed {
            self.cut_limbs(extended, to)
        } else {
            extended
        }
    }

    /// Returns the number in one limb, saturated if it needs more.
    pub(super) fn saturated(&mut self, a: &[Value]) -> Value {
        if a.len() == 1 {
            return a[0];
        }
        let upper = self.any(&a[1..]);
        let fits = self.is_zero(upper);
        let most = self.number(u64::MAX);
        self.b.ins().select(fits, a[0], most)
    }

    /// Returns `a` if the truth value holds, else `b`. Both are evaluated.
    pub(super) fn select(&mut self, truth: Value, a: &[Value], b: &[Value]) -> Vec<Value> {
        let pairs = a.iter().zip(b);
        pairs
            .map(|(&a, &b)| self.b.ins().select(truth, a, b))
            .collect()
    }
}
