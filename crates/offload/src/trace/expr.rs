//! Values of expressions, with their origins.

use std::rc::Rc;

use bits::{Value, limbs, limbs_for};
use ir::{BinOp, Expr, Place, ScalarTy, UnOp};

use super::value::{Bit, Knowledge, NodeKind, SumWord, Word};
use super::{End, Walk};
use crate::flow::NotOffloadable;

impl Walk<'_> {
    fn ty(&self, expr: &Expr) -> Result<ScalarTy, End> {
        let action = self.frames.last().and_then(|frame| frame.action);
        let action = action.and_then(|id| self.program.actions.get(id));
        expr.ty(self.program, action).ok_or_else(malformed)
    }

    pub(super) fn is_signed(&self, expr: &Expr) -> Result<bool, End> {
        let ty = self.ty(expr)?;
        Ok(ty.is_signed() && ty.width() > 0)
    }

    /// Returns the field of a place; `None` if an index is out of range.
    pub(super) fn field_of(&mut self, place: &Place) -> Result<Option<usize>, End> {
        let mut at = place.base.get() as usize;
        let mut is_inside = true;
        for dim in &place.dims {
            let index = self.number(&dim.index)?;
            is_inside &= index < u64::from(dim.len);
            at += (index.min(u64::from(dim.len)) as usize) * dim.stride as usize;
        }
        Ok(is_inside.then_some(at))
    }

    pub(super) fn read(&mut self, place: &Place) -> Result<Word, End> {
        let ty = place.ty(self.program).ok_or_else(malformed)?;
        let at = self.field_of(place)?;
        Ok(match (at.and_then(|at| self.job.fields.get(at)), ty) {
            (Some(word), _) => word.clone(),
            (None, ScalarTy::Varbit(_)) => Word::new(),
            (None, ty) => zeros(ty.width()),
        })
    }

    pub(super) fn write(&mut self, place: &Place, value: Word) -> Result<(), End> {
        let at = self.field_of(place)?;
        if let Some(field) = at.and_then(|at| self.job.fields.get_mut(at)) {
            *field = value;
        }
        Ok(())
    }

    /// Evaluates a number. One that does not fit becomes the largest.
    pub(super) fn number(&mut self, expr: &Expr) -> Result<u64, End> {
        let word = self.eval(expr)?;
        Ok(self.know.fix_number(&word)?)
    }

    /// Decides a condition.
    pub(super) fn decide(&mut self, expr: &Expr) -> Result<bool, End> {
        match expr {
            Expr::Unary(UnOp::Not, inner) => Ok(!self.decide(inner)?),
            Expr::Binary(BinOp::LogicalAnd, left, right) => {
                Ok(self.decide(left)? && self.decide(right)?)
            }
            Expr::Binary(BinOp::LogicalOr, left, right) => {
                Ok(self.decide(left)? || self.decide(right)?)
            }
            Expr::Binary(op, left, right) if op.is_predicate() => {
                let signed = self.is_signed(left)?;
                let (a, b) = (self.eval(left)?, self.eval(right)?);
                self.compare(*op, signed, &a, &b)
            }
            _ => Ok(self.number(expr)? != 0),
        }
    }

    fn compare(&mut self, op: BinOp, signed: bool, a: &[Bit], b: &[Bit]) -> Result<bool, End> {
        let at_least = |walk: &mut Self, a: &[Bit], b: &[Bit]| match signed {
            true => walk.is_signed_at_least(a, b),
            false => Ok(walk.know.is_at_least(a, b)?),
        };
        Ok(match op {
            BinOp::Eq => self.know.is_equal(a, b)?,
            BinOp::Ne => !self.know.is_equal(a, b)?,
            BinOp::Ge => at_least(self, a, b)?,
            BinOp::Lt => !at_least(self, a, b)?,
            BinOp::Le => at_least(self, b, a)?,
            _ => !at_least(self, b, a)?,
        })
    }

    fn is_signed_at_least(&mut self, a: &[Bit], b: &[Bit]) -> Result<bool, End> {
        let (Some((a_sign, a_rest)), Some((b_sign, b_rest))) = (a.split_last(), b.split_last())
        else {
            return Ok(true);
        };
        let (a_sign, b_sign) = (self.know.fix(*a_sign)?, self.know.fix(*b_sign)?);
        match a_sign == b_sign {
            true => Ok(self.know.is_at_least(a_rest, b_rest)?),
            false => Ok(b_sign),
        }
    }

    /// Returns true if `lo <= key <= hi`.
    pub(super) fn is_between(
        &mut self,
        key: &[Bit],
        (lo, hi): (&[Bit], &[Bit]),
        signed: bool,
    ) -> Result<bool, End> {
        Ok(
            self.compare(BinOp::Ge, signed, key, lo)?
                && self.compare(BinOp::Le, signed, key, hi)?,
        )
    }

    pub(super) fn eval(&mut self, expr: &Expr) -> Result<Word, End> {
        Ok(match expr {
            Expr::Const(ty, value) => Knowledge::word(&value.resized(ty.width())),
            Expr::Read(place) => self.read(place)?,
            Expr::Param(index) => {
                let frame = self.frames.last().ok_or_else(malformed)?;
                let param = frame.params.get(*index as usize);
                param.ok_or_else(malformed)?.clone()
            }
            Expr::Unary(op, operand) => {
                let word = self.eval(operand)?;
                match op {
                    UnOp::Neg => {
                        let zero = zeros(word.len() as u32);
                        self.sum(&zero, &word, true)?
                    }
                    UnOp::Complement | UnOp::Not => self.complement(&word),
                }
            }
            Expr::Binary(op, ..) if op.is_predicate() => vec![Bit::Known(self.decide(expr)?)],
            Expr::Binary(op, left, right) => {
                let signed = self.is_signed(left)?;
                let (a, b) = (self.eval(left)?, self.eval(right)?);
                self.binary(*op, signed, &a, &b)?
            }
            Expr::Concat(high, low) => {
                let (high, mut low) = (self.eval(high)?, self.eval(low)?);
                low.extend(high);
                low
            }
            Expr::Slice(operand, hi, lo) => {
                let word = self.eval(operand)?;
                let taken = word.get(*lo as usize..=*hi as usize);
                taken.ok_or_else(malformed)?.to_vec()
            }
            Expr::Cast(to, operand) => {
                let signed = self.is_signed(operand)?;
                let mut word = self.eval(operand)?;
                let fill = match (signed, word.last()) {
                    (true, Some(sign)) => *sign,
                    _ => Bit::Known(false),
                };
                word.resize(to.width() as usize, fill);
                word
            }
            Expr::Ternary(cond, then, otherwise) => match self.decide(cond)? {
                true => self.eval(then)?,
                false => self.eval(otherwise)?,
            },
            Expr::VarbitEq(left, right) => {
                let (a, b) = (self.read(left)?, self.read(right)?);
                vec![Bit::Known(self.know.is_equal(&a, &b)?)]
            }
            Expr::VarbitLen(place) => {
                let length = self.read(place)?.len();
                Knowledge::word(&Value::truncated(length as u128, 32))
            }
        })
    }

    fn binary(&mut self, op: BinOp, signed: bool, a: &[Bit], b: &[Bit]) -> Result<Word, End> {
        let width = a.len() as u32;
        Ok(match op {
            BinOp::And | BinOp::Or | BinOp::Xor => self.bitwise(op, a, b),
            BinOp::Shl | BinOp::Shr => {
                let amount = self.know.fix_number(b)?.min(width.into()) as usize;
                let fill = match (signed, op, a.last()) {
                    (true, BinOp::Shr, Some(sign)) => *sign,
                    _ => Bit::Known(false),
                };
                let filled = std::iter::repeat_n(fill, amount);
                match op {
                    BinOp::Shl => filled
                        .chain(a[..a.len() - amount].iter().copied())
                        .collect(),
                    _ => a[amount..].iter().copied().chain(filled).collect(),
                }
            }
            BinOp::Add => self.sum(a, b, false)?,
            BinOp::Sub => self.sum(a, b, true)?,
            _ => {
                let (x, y) = (self.know.concrete(a), self.know.concrete(b));
                let value = arithmetic(op, signed, &x, &y);
                let inputs: Vec<Bit> = a.iter().chain(b).copied().collect();
                self.know.function(&inputs, &value)
            }
        })
    }

    pub(super) fn bitwise(&mut self, op: BinOp, a: &[Bit], b: &[Bit]) -> Word {
        let pairs = a.iter().zip(b);
        pairs.map(|(a, b)| self.bit(op, *a, *b)).collect()
    }

    fn bit(&mut self, op: BinOp, a: Bit, b: Bit) -> Bit {
        // A bit that the flow fixes keeps its origin where it decides nothing.
        let (x, y) = (self.know.known(a), self.know.known(b));
        match (op, x, y) {
            (BinOp::And, Some(false), _) | (BinOp::And, _, Some(false)) => Bit::Known(false),
            (BinOp::Or, Some(true), _) | (BinOp::Or, _, Some(true)) => Bit::Known(true),
            (BinOp::And, Some(true), _) => b,
            (BinOp::And, _, Some(true)) => a,
            (BinOp::Or | BinOp::Xor, Some(false), _) => b,
            (BinOp::Or | BinOp::Xor, _, Some(false)) => a,
            (BinOp::And | BinOp::Or, ..) if a == b => a,
            (BinOp::Xor, ..) if a == b => Bit::Known(false),
            _ => {
                let (x, y) = (self.know.value_of(a), self.know.value_of(b));
                let value = match op {
                    BinOp::And => x & y,
                    BinOp::Or => x | y,
                    _ => x ^ y,
                };
                let value = Value::truncated(value.into(), 1);
                self.know.function(&[a, b], &value)[0]
            }
        }
    }

    fn complement(&mut self, word: &[Bit]) -> Word {
        if let Some(checksum) = self.checksum_of_sum(word) {
            return checksum;
        }
        let ones = vec![Bit::Known(true); word.len()];
        self.bitwise(BinOp::Xor, word, &ones)
    }

    /// Returns the checksum, if the word is the complement of a whole sum of 16 bits.
    fn checksum_of_sum(&mut self, word: &[Bit]) -> Option<Word> {
        let (words, most) = self.as_sum(word)?;
        if word.len() != 16 || most > 0xFFFF || words.len() < 2 {
            return None;
        }
        let value = self.know.concrete(word).not();
        let inputs: Vec<Bit> = words.iter().flatten().copied().collect();
        let kind = NodeKind::Checksum {
            words,
            payload: None,
        };
        Some(self.know.result(kind, &inputs, &value))
    }

    /// Returns the words of a sum and its bound, if a value is a sum of words.
    fn as_sum(&self, word: &[Bit]) -> Option<(Rc<[SumWord]>, u128)> {
        if let Bit::Of(id, 0) = *word.first()?
            && let NodeKind::Sum { words, most } = &self.know.node(id).kind
        {
            let own = word.iter().zip(0..);
            let own = own
                .take_while(|(bit, at)| **bit == Bit::Of(id, *at))
                .count();
            let are_zero = word[own..].iter().all(|bit| *bit == Bit::Known(false));
            return (are_zero && most >> own.min(127) == 0).then(|| (words.clone(), *most));
        }
        // A single word.
        let (low, high) = word.split_at_checked(16)?;
        let is_zero = high.iter().all(|bit| self.know.known(*bit) == Some(false));
        let mut one: SumWord = low.try_into().ok()?;
        one.reverse();
        is_zero.then(|| (Rc::from([one]), 0xFFFF))
    }

    /// Returns the sum in which the carries above 16 bits are added back, if `a` has the low bits
    /// of a sum and `b` the others.
    fn as_folded(&self, a: &[Bit], b: &[Bit]) -> Option<(Rc<[SumWord]>, u128)> {
        let (Bit::Of(id, 0), Bit::Of(other, 16)) = (*a.first()?, *b.first()?) else {
            return None;
        };
        let NodeKind::Sum { words, most } = &self.know.node(id).kind else {
            return None;
        };
        let low = a.iter().zip(0..).all(|(bit, at)| match at < 16 {
            true => *bit == Bit::Of(id, at),
            false => *bit == Bit::Known(false),
        });
        let high = b.iter().zip(16..).all(|(bit, at)| match *bit {
            Bit::Of(of, place) => of == id && place == at,
            Bit::Known(false) => most >> at.min(127) == 0,
            _ => false,
        });
        // All bits of the sum are in the two parts: it has as many as `a`.
        let most = match *most {
            most if most <= 0xFFFF => most,
            most if most <= 2 * 0xFFFF => 0xFFFF,
            most => 0xFFFF + (most >> 16),
        };
        (low && high && other == id).then(|| (words.clone(), most))
    }

    fn sum(&mut self, a: &[Bit], b: &[Bit], minus: bool) -> Result<Word, End> {
        let width = a.len() as u32;
        let (x, y) = (self.know.concrete(a), self.know.concrete(b));
        let op = if minus { BinOp::Sub } else { BinOp::Add };
        let value = arithmetic(op, false, &x, &y);
        let (a_known, b_known) = (self.know.constant(a), self.know.constant(b));
        match (a_known, b_known) {
            (Some(_), Some(_)) => return Ok(Knowledge::word(&value)),
            (None, Some(known)) => {
                let plus = if minus { known.neg() } else { known.clone() };
                if let Some(length) = self.know.as_length(a)
                    && let Some(more) = known.to_u64().filter(|more| *more < 1 << 32)
                {
                    let more = more as i64;
                    let plus = if minus { length - more } else { length + more };
                    return Ok(self.know.length_plus(plus, width)?);
                }
                if minus || self.as_words(a, b).is_none() {
                    return Ok(self.plus(a, &plus));
                }
            }
            (Some(_), None) if !minus && self.know.as_length(b).is_some() => {
                return self.sum(b, a, false);
            }
            (Some(known), None) if !minus && self.as_words(a, b).is_none() => {
                return Ok(self.plus(b, &known));
            }
            _ => {}
        }
        if !minus && let Some((words, most)) = self.as_words(a, b) {
            // Each sum has a copy of all its words.
            self.steps_of(words.len())?;
            let inputs: Vec<Bit> = words.iter().flatten().copied().collect();
            let kind = NodeKind::Sum { words, most };
            return Ok(self.know.result(kind, &inputs, &value));
        }
        let inputs: Vec<Bit> = a.iter().chain(b).copied().collect();
        Ok(self.know.function(&inputs, &value))
    }

    /// Returns the words of `a + b`, if it is a sum of words that does not wrap.
    fn as_words(&self, a: &[Bit], b: &[Bit]) -> Option<(Rc<[SumWord]>, u128)> {
        if a.len() <= 16 {
            return None;
        }
        if let Some(folded) = self.as_folded(a, b).or_else(|| self.as_folded(b, a)) {
            return Some(folded);
        }
        let ((words, most), (others, more)) = (self.as_sum(a)?, self.as_sum(b)?);
        let most = most + more;
        let fits = a.len() >= 127 || most >> a.len() == 0;
        let all = words.iter().chain(others.iter()).copied();
        fits.then(|| (all.collect(), most))
    }

    /// Returns a number plus a constant. Bits below the constant's lowest one stay.
    fn plus(&mut self, word: &[Bit], plus: &Value) -> Word {
        let same = (0..plus.width())
            .take_while(|at| !limbs::bit(plus.limbs(), *at))
            .count();
        let (low, high) = word.split_at(same.min(word.len()));
        let mut sum = low.to_vec();
        if high.is_empty() {
            return sum;
        }
        let width = high.len() as u32;
        let mut plus_high = vec![0; limbs_for(width)];
        limbs::extract(&mut plus_high, plus.limbs(), same as u32, width);
        let plus = Value::from_limbs(&plus_high, width);
        let value = arithmetic(BinOp::Add, false, &self.know.concrete(high), &plus);
        match self.know.constant(high).is_some() {
            true => sum.extend(Knowledge::word(&value)),
            false => {
                let kind = NodeKind::Plus(plus.limbs().into());
                sum.extend(self.know.result(kind, high, &value));
            }
        }
        sum
    }
}

/// Returns `width` zeros.
pub(super) fn zeros(width: u32) -> Word {
    vec![Bit::Known(false); width as usize]
}

/// The verifier accepts no program that has this.
pub(super) fn malformed() -> End {
    End::Not(NotOffloadable::Disagreement)
}

/// Returns the result of an operation on constants of one width.
fn arithmetic(op: BinOp, signed: bool, a: &Value, b: &Value) -> Value {
    let width = a.width();
    let mut result = vec![0; limbs_for(width)];
    let (d, x, y) = (&mut result[..], a.limbs(), b.limbs());
    match (op, signed) {
        (BinOp::Add, _) => limbs::add(d, x, y, width),
        (BinOp::Sub, _) => limbs::sub(d, x, y, width),
        (BinOp::Mul, _) => limbs::mul(d, x, y, width),
        (BinOp::AddSaturating, false) => limbs::sat_add(d, x, y, width),
        (BinOp::AddSaturating, true) => limbs::sat_add_signed(d, x, y, width),
        (BinOp::SubSaturating, false) => limbs::sat_sub(d, x, y, width),
        (BinOp::SubSaturating, true) => limbs::sat_sub_signed(d, x, y, width),
        (BinOp::Div, _) => exec::wide::div(d, &mut x.to_vec(), y, width),
        (BinOp::Mod, _) => exec::wide::rem(d, &mut x.to_vec(), y, width),
        _ => {}
    }
    Value::from_limbs(&result, width)
}
