//! Translation of narrow expressions, and of conditions.

use cranelift_codegen::ir::types::I8;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use exec::Unsupported;
use exec::slots::Slot;
use exec::slots::wide::WideOp;
use ir::{BinOp, Expr, ScalarTy, UnOp, limbs_of};

use super::arith::limbs_of_width;
use super::{INLINE_LIMBS, Translator};
use crate::helpers::Helper;

/// Returns true if values of this type are stored in slots.
pub(super) fn is_wide(ty: ScalarTy) -> bool {
    limbs_of(ty) > INLINE_LIMBS
}

/// Returns true if evaluating an expression costs less than a branch around it.
fn is_cheap(expr: &Expr, depth: u32) -> bool {
    let below = |inner: &Expr| depth > 0 && is_cheap(inner, depth - 1);
    match expr {
        Expr::Const(..) | Expr::Param(_) => true,
        Expr::Read(place) => place.dims.is_empty(),
        Expr::Unary(_, inner) | Expr::Slice(inner, ..) | Expr::Cast(_, inner) => below(inner),
        Expr::Binary(BinOp::Div | BinOp::Mod | BinOp::Mul, ..) => false,
        Expr::Binary(_, left, right) => below(left) && below(right),
        _ => false,
    }
}

impl Translator<'_> {
    /// Returns the value of an expression of at most 64 bits.
    pub(super) fn narrow(&mut self, expr: &Expr) -> Result<Value, Unsupported> {
        Ok(self.value(expr)?[0])
    }

    /// Returns the value in one number, saturated if it needs more.
    pub(super) fn small(&mut self, expr: &Expr) -> Result<Value, Unsupported> {
        let ty = self.ty(expr)?;
        if !is_wide(ty) {
            let value = self.value(expr)?;
            return Ok(self.saturated(&value));
        }
        let a = self.slot_of(expr)?;
        let d = self.temporary(1);
        self.wide_step(WideOp::Saturate, d, (a, a), (ty.width(), ty.width()));
        Ok(self.load_slots(d, 1)[0])
    }

    /// Returns the value of a narrow expression.
    pub(super) fn value(&mut self, expr: &Expr) -> Result<Vec<Value>, Unsupported> {
        self.check_size()?;
        Ok(match expr {
            Expr::Const(ty, value) => self.constant_value(value, *ty),
            Expr::Read(place) => {
                let from = self.locate(place)?;
                self.load(from)
            }
            Expr::Param(index) => self.param(*index)?,
            Expr::Unary(op, operand) => self.unary(*op, operand)?,
            Expr::Binary(op, ..) if op.is_predicate() => {
                let truth = self.truth(expr)?;
                vec![self.number_of(truth)]
            }
            Expr::Binary(op, left, right) => self.binary(*op, left, right)?,
            Expr::Concat(left, right) => self.concat(left, right)?,
            Expr::Slice(operand, hi, lo) => self.slice(operand, *lo, hi + 1 - lo)?,
            Expr::Cast(to, operand) => self.cast(*to, operand)?,
            Expr::Ternary(cond, then, otherwise) => self.ternary(cond, then, otherwise)?,
            Expr::VarbitEq(left, right) => {
                let (left, right) = (self.locate(left)?, self.locate(right)?);
                let n = left.limbs();
                let (a, b) = (self.in_slots(left), self.in_slots(right));
                vec![self.equal_slots(a, b, n)]
            }
            Expr::VarbitLen(place) => {
                let from = self.locate(place)?;
                let a = self.in_slots(from);
                self.load_slots(a, 1)
            }
        })
    }

    fn constant_value(&mut self, value: &bits::Value, ty: ScalarTy) -> Vec<Value> {
        let mut limbs = value.resized(ty.width()).limbs().to_vec();
        limbs.resize(limbs_of(ty) as usize, 0);
        limbs.into_iter().map(|limb| self.number(limb)).collect()
    }

    /// Returns 1 if `n` limbs are equal, else 0.
    pub(super) fn equal_slots(&mut self, a: u32, b: u32, n: u32) -> Value {
        if n > INLINE_LIMBS {
            return self.help_with(Helper::Equal, &[a.into(), b.into(), n.into()]);
        }
        let (a, b) = (self.load_slots(a, n), self.load_slots(b, n));
        let truth = self.wide_compare(BinOp::Eq, 64 * n, false, &a, &b);
        self.number_of(truth)
    }

    fn unary(&mut self, op: UnOp, operand: &Expr) -> Result<Vec<Value>, Unsupported> {
        let width = self.ty(operand)?.width();
        let a = self.value(operand)?;
        Ok(match op {
            UnOp::Neg if a.len() == 1 => {
                let negated = self.b.ins().ineg(a[0]);
                vec![self.cut(negated, width)]
            }
            UnOp::Complement if a.len() == 1 => {
                let inverted = self.b.ins().bnot(a[0]);
                vec![self.cut(inverted, width)]
            }
            UnOp::Neg => self.negate(&a, width),
            UnOp::Complement => self.complement(&a, width),
            UnOp::Not => vec![self.b.ins().bxor_imm(a[0], 1)],
        })
    }

    fn binary(&mut self, op: BinOp, left: &Expr, right: &Expr) -> Result<Vec<Value>, Unsupported> {
        let ty = self.ty(left)?;
        let (width, signed) = (ty.width(), ty.is_signed());
        let a = self.value(left)?;
        if matches!(op, BinOp::Shl | BinOp::Shr) {
            if let Some(amount) = constant_amount(right)
                && a.len() > 1
            {
                return Ok(self.shift_by(op, ty, &a, amount));
            }
            let amount = self.small(right)?;
            if a.len() == 1 {
                return Ok(vec![self.narrow_binary(op, width, signed, a[0], amount)]);
            }
            return Ok(self.wide_by_slots(op, ty, &a, &[amount]));
        }
        let b = self.value(right)?;
        if a.len() == 1 {
            return Ok(vec![self.narrow_binary(op, width, signed, a[0], b[0])]);
        }
        Ok(match op {
            BinOp::Add => self.wide_add(&a, &b, width),
            BinOp::Sub => self.wide_sub(&a, &b, width),
            BinOp::And | BinOp::Or | BinOp::Xor => self.limbwise(op, &a, &b),
            _ => self.wide_by_slots(op, ty, &a, &b),
        })
    }

    /// Shifts several limbs by a constant distance.
    fn shift_by(&mut self, op: BinOp, ty: ScalarTy, a: &[Value], amount: u64) -> Vec<Value> {
        let width = ty.width();
        let by = amount.min(width.into()) as u32;
        match op {
            BinOp::Shl if by == width => self.zeros(a.len()),
            BinOp::Shl => {
                let kept = self.bits_of(a, 0, width - by);
                self.shifted_up(&kept, by, a.len())
            }
            _ if ty.is_signed() => {
                // The sign bit is never shifted out.
                let by = by.min(width - 1);
                let kept = self.bits_of(a, by, width - by);
                self.extended(&kept, (width - by, width), true)
            }
            _ if by == width => self.zeros(a.len()),
            _ => {
                let kept = self.bits_of(a, by, width - by);
                self.extended(&kept, (width - by, width), false)
            }
        }
    }

    fn concat(&mut self, left: &Expr, right: &Expr) -> Result<Vec<Value>, Unsupported> {
        let (high, low) = (self.ty(left)?.width(), self.ty(right)?.width());
        let a = self.value(left)?;
        let b = self.value(right)?;
        if high == 0 {
            return Ok(b);
        }
        if low == 0 {
            return Ok(a);
        }
        let a = self.shifted_up(&a, low, limbs_of_width(high + low));
        let b = self.extended(&b, (low, high + low), false);
        Ok(self.limbwise(BinOp::Or, &a, &b))
    }

    /// Returns `width` bits from bit `lo` on.
    fn slice(&mut self, operand: &Expr, lo: u32, width: u32) -> Result<Vec<Value>, Unsupported> {
        let ty = self.ty(operand)?;
        if !is_wide(ty) {
            let a = self.value(operand)?;
            return Ok(self.bits_of(&a, lo, width));
        }
        let a = self.slot_of(operand)?;
        let (first, end) = (lo / 64, (lo + width).div_ceil(64));
        let limbs = self.load_slots(a + first, end - first);
        Ok(self.bits_of(&limbs, lo % 64, width))
    }

    fn cast(&mut self, to: ScalarTy, operand: &Expr) -> Result<Vec<Value>, Unsupported> {
        let from = self.ty(operand)?;
        let (width, wanted) = (from.width(), to.width());
        if wanted < width {
            return match wanted {
                0 => Ok(self.zeros(1)),
                _ => self.slice(operand, 0, wanted),
            };
        }
        let a = self.value(operand)?;
        if wanted == width {
            return Ok(a);
        }
        Ok(self.extended(&a, (width, wanted), from.is_signed()))
    }

    fn ternary(
        &mut self,
        cond: &Expr,
        then: &Expr,
        otherwise: &Expr,
    ) -> Result<Vec<Value>, Unsupported> {
        let limbs = limbs_of(self.ty(then)?) as usize;
        if is_cheap(then, 2) && is_cheap(otherwise, 2) {
            let truth = self.truth(cond)?;
            let a = self.value(then)?;
            let b = self.value(otherwise)?;
            return Ok(self.select(truth, &a, &b));
        }
        let (yes, no) = (self.b.create_block(), self.b.create_block());
        let (end, result) = self.block_with(limbs);
        self.decide(cond, yes, no)?;
        self.start_sealed(yes);
        let value = self.value(then)?;
        self.jump_with(end, &value);
        self.start_sealed(no);
        let value = self.value(otherwise)?;
        self.jump_with(end, &value);
        self.start_sealed(end);
        Ok(result)
    }

    /// Returns a condition as a truth value.
    pub(super) fn truth(&mut self, expr: &Expr) -> Result<Value, Unsupported> {
        match expr {
            Expr::Unary(UnOp::Not, inner) => {
                let inner = self.narrow(inner)?;
                Ok(self.is_zero(inner))
            }
            Expr::Binary(op @ (BinOp::LogicalAnd | BinOp::LogicalOr), left, right) => {
                if is_cheap(right, 3) {
                    let (a, b) = (self.truth(left)?, self.truth(right)?);
                    return Ok(match op {
                        BinOp::LogicalAnd => self.b.ins().band(a, b),
                        _ => self.b.ins().bor(a, b),
                    });
                }
                let number = self.decided(expr)?;
                Ok(self.is_set(number))
            }
            Expr::Binary(op, left, right) if op.is_predicate() => self.compare(*op, left, right),
            _ => {
                let number = self.narrow(expr)?;
                Ok(self.is_set(number))
            }
        }
    }

    fn compare(&mut self, op: BinOp, left: &Expr, right: &Expr) -> Result<Value, Unsupported> {
        let ty = self.ty(left)?;
        let (width, signed) = (ty.width(), ty.is_signed());
        if is_wide(ty) {
            let (a, b) = (self.slot_of(left)?, self.slot_of(right)?);
            let number = self.compare_slots(op, ty, a, b);
            return Ok(self.is_set(number));
        }
        if let (BinOp::Eq | BinOp::Ne, Expr::Read(a), Expr::Read(b)) = (op, left, right)
            && let Some(slots) = self.vectors_in_frame(a).zip(self.vectors_in_frame(b))
        {
            let differs = self.vectors_differ(slots, limbs_of(ty));
            return Ok(match op {
                BinOp::Ne => differs,
                _ => self.is_zero(differs),
            });
        }
        let (a, b) = (self.value(left)?, self.value(right)?);
        Ok(self.compare_values(op, (width, signed), &a, &b))
    }

    /// Returns true if values in the frame differ.
    fn vectors_differ(&mut self, (a, b): (Slot, Slot), limbs: u32) -> Value {
        let (a, b) = (self.load_vectors(a, limbs), self.load_vectors(b, limbs));
        let all = a.into_iter().zip(b).fold(None, |all, (a, b)| {
            let differs = self.b.ins().bxor(a, b);
            Some(match all {
                Some(all) => self.b.ins().bor(all, differs),
                None => differs,
            })
        });
        match all {
            Some(all) => self.b.ins().vany_true(all),
            None => self.b.ins().iconst(I8, 0),
        }
    }

    pub(super) fn compare_values(
        &mut self,
        op: BinOp,
        (width, signed): (u32, bool),
        a: &[Value],
        b: &[Value],
    ) -> Value {
        if a.len() == 1 {
            self.narrow_compare(op, width, signed, a[0], b[0])
        } else {
            self.wide_compare(op, width, signed, a, b)
        }
    }

    /// Returns a condition as a number, with short-circuit evaluation.
    fn decided(&mut self, cond: &Expr) -> Result<Value, Unsupported> {
        let (yes, no) = (self.b.create_block(), self.b.create_block());
        let (end, result) = self.block_with(1);
        self.decide(cond, yes, no)?;
        self.start_sealed(yes);
        let one = self.number(1);
        self.jump_with(end, &[one]);
        self.start_sealed(no);
        let zero = self.number(0);
        self.jump_with(end, &[zero]);
        self.start_sealed(end);
        Ok(result[0])
    }

    /// Translates `work` under a condition.
    pub(super) fn if_holds(
        &mut self,
        cond: &Expr,
        work: impl FnOnce(&mut Self) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        let (holds, after) = (self.b.create_block(), self.b.create_block());
        self.decide(cond, holds, after)?;
        self.start_sealed(holds);
        work(self)?;
        self.jump(after);
        self.start_sealed(after);
        Ok(())
    }

    /// Branches to one of two blocks by a condition. Both can be sealed afterwards if nothing else
    /// jumps there.
    pub(super) fn decide(
        &mut self,
        cond: &Expr,
        then: Block,
        otherwise: Block,
    ) -> Result<(), Unsupported> {
        match cond {
            Expr::Unary(UnOp::Not, inner) => self.decide(inner, otherwise, then),
            Expr::Binary(op @ (BinOp::LogicalAnd | BinOp::LogicalOr), left, right)
                if !is_cheap(right, 3) =>
            {
                let second = self.b.create_block();
                match op {
                    BinOp::LogicalAnd => self.decide(left, second, otherwise)?,
                    _ => self.decide(left, then, second)?,
                }
                self.start_sealed(second);
                self.decide(right, then, otherwise)
            }
            _ => {
                let truth = self.truth(cond)?;
                self.branch(truth, then, otherwise);
                Ok(())
            }
        }
    }
}

/// Returns the distance of a shift, if it is a constant.
fn constant_amount(expr: &Expr) -> Option<u64> {
    match expr {
        Expr::Const(_, value) => Some(value.to_u64().unwrap_or(u64::MAX)),
        _ => None,
    }
}
