//! Compilation of expressions: values to slots, conditions to jumps.

use bits::limbs_for;
use exec::Unsupported;
use exec::slots::Slot;
use exec::slots::wide::{WideOp, WideStep};
use ir::{BinOp, Expr, ScalarTy, UnOp, limbs_of};

use super::Compiler;
use crate::code::{Inst, NONE, Pc};

impl Compiler<'_> {
    pub(super) fn ty(&self, expr: &Expr) -> Result<ScalarTy, Unsupported> {
        expr.ty(self.program, self.current_action())
            .ok_or_else(|| self.unsupported("an expression of no type"))
    }

    /// Returns a slot with the expression's value: its own slot, or a temporary.
    pub(super) fn operand(&mut self, expr: &Expr) -> Result<Slot, Unsupported> {
        match expr {
            Expr::Const(ty, value) => Ok(self.value(value, *ty)),
            Expr::Read(place) if place.dims.is_empty() => Ok(self.slot(place.base)),
            Expr::Param(index) => self.param(*index),
            // A cast between one-limb types that keeps the value needs no code.
            Expr::Cast(to, inner) if self.is_free_cast(*to, inner)? => self.operand(inner),
            _ => {
                let ty = self.ty(expr)?;
                let d = self.temporary(limbs_of(ty));
                self.compute(expr, d)?;
                Ok(d)
            }
        }
    }

    fn is_free_cast(&self, to: ScalarTy, inner: &Expr) -> Result<bool, Unsupported> {
        let from = self.ty(inner)?;
        Ok(from.width() == to.width()
            || (from.width() < to.width() && !from.is_signed() && to.width() <= 64))
    }

    fn param(&self, index: u32) -> Result<Slot, Unsupported> {
        self.action
            .and_then(|action| self.params.get(action)?.get(index as usize).copied())
            .ok_or_else(|| self.unsupported("a parameter outside of an action"))
    }

    /// Returns a slot with the value in one limb. A number that does not fit becomes the largest.
    pub(super) fn small_operand(&mut self, expr: &Expr) -> Result<Slot, Unsupported> {
        let width = self.ty(expr)?.width();
        let a = self.operand(expr)?;
        if width <= 64 {
            return Ok(a);
        }
        let d = self.temporary(1);
        self.wide(WideOp::Saturate, d, a, a, width, width);
        Ok(d)
    }

    pub(super) fn wide(&mut self, op: WideOp, d: Slot, a: Slot, b: Slot, width: u32, other: u32) {
        let step = WideStep {
            op,
            d,
            a,
            b,
            width,
            other,
        };
        self.wide = self.wide.max(step.scratch_limbs());
        self.code.wides.push(step);
        let at = self.code.wides.len() as u32 - 1;
        self.emit(Inst::Wide(at));
    }

    /// Computes an expression into `d`. All of its operands are read before `d` is written.
    pub(super) fn compute(&mut self, expr: &Expr, d: Slot) -> Result<(), Unsupported> {
        match expr {
            Expr::Const(ty, value) => {
                let a = self.value(value, *ty);
                self.copy(d, a, limbs_of(*ty));
            }
            Expr::Read(place) => {
                let from = self.locate(place)?;
                self.load(from, d);
            }
            Expr::Param(index) => {
                let a = self.param(*index)?;
                let limbs = limbs_of(self.ty(expr)?);
                self.copy(d, a, limbs);
            }
            Expr::Unary(op, operand) => self.unary(*op, operand, d)?,
            Expr::Binary(BinOp::LogicalAnd | BinOp::LogicalOr, ..) => self.decide(expr, d)?,
            Expr::Binary(op, left, right) => self.binary(*op, left, right, d)?,
            Expr::Concat(left, right) => self.concat(left, right, d)?,
            Expr::Slice(operand, hi, lo) => self.slice(operand, *hi, *lo, d)?,
            Expr::Cast(to, operand) => self.cast(*to, operand, d)?,
            Expr::Ternary(cond, then, otherwise) => {
                let (no, end) = (self.label(), self.label());
                self.jump_unless(cond, no)?;
                self.compute(then, d)?;
                self.emit(Inst::Jump { to: end });
                self.place_label(no);
                self.compute(otherwise, d)?;
                self.place_label(end);
            }
            Expr::VarbitEq(left, right) => {
                let n = limbs_of(self.ty(&Expr::Read(left.clone()))?);
                let a = self.varbit(left)?;
                let b = self.varbit(right)?;
                self.emit(Inst::EqN { d, a, b, n });
            }
            Expr::VarbitLen(place) => {
                let a = self.varbit(place)?;
                self.copy(d, a, 1);
            }
        }
        Ok(())
    }

    /// Returns the slots of a varbit: its own, or a copy if its address is known only at run time.
    pub(super) fn varbit(&mut self, place: &ir::Place) -> Result<Slot, Unsupported> {
        let from = self.locate(place)?;
        if from.at == NONE {
            return Ok(from.base);
        }
        let d = self.temporary(limbs_of(from.ty));
        self.load(from, d);
        Ok(d)
    }

    pub(super) fn copy(&mut self, d: Slot, a: Slot, limbs: u32) {
        if d == a {
            return;
        }
        match limbs {
            1 => self.emit(Inst::Copy { d, a }),
            n => self.emit(Inst::CopyN { d, a, n }),
        }
    }

    fn unary(&mut self, op: UnOp, operand: &Expr, d: Slot) -> Result<(), Unsupported> {
        let width = self.ty(operand)?.width();
        let a = self.operand(operand)?;
        if width > 64 {
            let kind = match op {
                UnOp::Neg => WideOp::Neg,
                UnOp::Complement | UnOp::Not => WideOp::Complement,
            };
            self.wide(kind, d, a, a, width, width);
            return Ok(());
        }
        let w = width as u8;
        self.emit(match op {
            UnOp::Neg => Inst::Neg { d, a, w },
            UnOp::Complement => Inst::Complement { d, a, w },
            UnOp::Not => Inst::Complement { d, a, w: 1 },
        });
        Ok(())
    }

    fn binary(&mut self, op: BinOp, left: &Expr, right: &Expr, d: Slot) -> Result<(), Unsupported> {
        let ty = self.ty(left)?;
        let is_shift = matches!(op, BinOp::Shl | BinOp::Shr);
        let a = self.operand(left)?;
        let b = if is_shift {
            self.small_operand(right)?
        } else {
            self.operand(right)?
        };
        if ty.width() > 64 {
            self.wide_binary(op, ty, d, a, b);
            return Ok(());
        }
        let w = ty.width() as u8;
        let signed = ty.is_signed() && w > 0;
        let inst = match op {
            BinOp::Add => Inst::Add { d, a, b, w },
            BinOp::Sub => Inst::Sub { d, a, b, w },
            BinOp::Mul => Inst::Mul { d, a, b, w },
            BinOp::Div => Inst::Div { d, a, b },
            BinOp::Mod => Inst::Mod { d, a, b },
            BinOp::AddSaturating if signed => Inst::AddSaturatingSigned { d, a, b, w },
            BinOp::SubSaturating if signed => Inst::SubSaturatingSigned { d, a, b, w },
            BinOp::AddSaturating => Inst::AddSaturating { d, a, b, w },
            BinOp::SubSaturating => Inst::SubSaturating { d, a, b },
            BinOp::And | BinOp::LogicalAnd => Inst::And { d, a, b },
            BinOp::Or | BinOp::LogicalOr => Inst::Or { d, a, b },
            BinOp::Xor => Inst::Xor { d, a, b },
            BinOp::Shl => Inst::Shl { d, a, b, w },
            BinOp::Shr if signed => Inst::ShrSigned { d, a, b, w },
            BinOp::Shr => Inst::Shr { d, a, b, w },
            BinOp::Eq => Inst::Eq { d, a, b },
            BinOp::Ne => Inst::Ne { d, a, b },
            BinOp::Lt if signed => Inst::LtSigned { d, a, b, w },
            BinOp::Le if signed => Inst::LeSigned { d, a, b, w },
            BinOp::Gt if signed => Inst::LtSigned { d, a: b, b: a, w },
            BinOp::Ge if signed => Inst::LeSigned { d, a: b, b: a, w },
            BinOp::Lt => Inst::Lt { d, a, b },
            BinOp::Le => Inst::Le { d, a, b },
            BinOp::Gt => Inst::Lt { d, a: b, b: a },
            BinOp::Ge => Inst::Le { d, a: b, b: a },
        };
        self.emit(inst);
        Ok(())
    }

    fn wide_binary(&mut self, op: BinOp, ty: ScalarTy, d: Slot, a: Slot, b: Slot) {
        let (width, signed) = (ty.width(), ty.is_signed());
        let n = limbs_for(width) as u32;
        let (kind, a, b) = match op {
            BinOp::Add => (WideOp::Add, a, b),
            BinOp::Sub => (WideOp::Sub, a, b),
            BinOp::Mul => (WideOp::Mul, a, b),
            BinOp::Div => (WideOp::Div, a, b),
            BinOp::Mod => (WideOp::Mod, a, b),
            BinOp::AddSaturating if signed => (WideOp::AddSaturatingSigned, a, b),
            BinOp::SubSaturating if signed => (WideOp::SubSaturatingSigned, a, b),
            BinOp::AddSaturating => (WideOp::AddSaturating, a, b),
            BinOp::SubSaturating => (WideOp::SubSaturating, a, b),
            BinOp::And | BinOp::LogicalAnd => (WideOp::And, a, b),
            BinOp::Or | BinOp::LogicalOr => (WideOp::Or, a, b),
            BinOp::Xor => (WideOp::Xor, a, b),
            BinOp::Shl => (WideOp::Shl, a, b),
            BinOp::Shr if signed => (WideOp::ShrSigned, a, b),
            BinOp::Shr => (WideOp::Shr, a, b),
            BinOp::Eq => return self.emit(Inst::EqN { d, a, b, n }),
            BinOp::Ne => {
                self.emit(Inst::EqN { d, a, b, n });
                return self.emit(Inst::Complement { d, a: d, w: 1 });
            }
            BinOp::Lt if signed => (WideOp::LtSigned, a, b),
            BinOp::Le if signed => (WideOp::LeSigned, a, b),
            BinOp::Gt if signed => (WideOp::LtSigned, b, a),
            BinOp::Ge if signed => (WideOp::LeSigned, b, a),
            BinOp::Lt => (WideOp::Lt, a, b),
            BinOp::Le => (WideOp::Le, a, b),
            BinOp::Gt => (WideOp::Lt, b, a),
            BinOp::Ge => (WideOp::Le, b, a),
        };
        self.wide(kind, d, a, b, width, width);
    }

    fn concat(&mut self, left: &Expr, right: &Expr, d: Slot) -> Result<(), Unsupported> {
        let (high, low) = (self.ty(left)?.width(), self.ty(right)?.width());
        let a = self.operand(left)?;
        let b = self.operand(right)?;
        if high == 0 {
            self.copy(d, b, (limbs_for(low) as u32).max(1));
        } else if low == 0 {
            self.copy(d, a, limbs_for(high) as u32);
        } else if high + low <= 64 {
            let w = low as u8;
            self.emit(Inst::Concat { d, a, b, w });
        } else {
            self.wide(WideOp::Concat, d, a, b, high, low);
        }
        Ok(())
    }

    fn slice(&mut self, operand: &Expr, hi: u32, lo: u32, d: Slot) -> Result<(), Unsupported> {
        let width = self.ty(operand)?.width();
        let a = self.operand(operand)?;
        let taken = hi + 1 - lo;
        if width <= 64 {
            self.emit(Inst::Slice {
                d,
                a,
                lo: lo as u8,
                w: taken as u8,
            });
        } else {
            self.wide(WideOp::Slice, d, a, limbs_for(width) as u32, taken, lo);
        }
        Ok(())
    }

    fn cast(&mut self, to: ScalarTy, operand: &Expr, d: Slot) -> Result<(), Unsupported> {
        let from = self.ty(operand)?;
        let a = self.operand(operand)?;
        let (width, wanted) = (from.width(), to.width());
        if width == wanted {
            self.copy(d, a, limbs_of(to));
        } else if width.max(wanted) <= 64 {
            if wanted < width {
                self.emit(Inst::Slice {
                    d,
                    a,
                    lo: 0,
                    w: wanted as u8,
                });
            } else if from.is_signed() && width > 0 {
                self.emit(Inst::SignExtend {
                    d,
                    a,
                    from: width as u8,
                    w: wanted as u8,
                });
            } else {
                self.copy(d, a, 1);
            }
        } else if wanted < width {
            self.wide(WideOp::Slice, d, a, limbs_for(width) as u32, wanted, 0);
        } else if from.is_signed() && width > 0 {
            self.wide(WideOp::SignExtend, d, a, a, width, wanted);
        } else {
            self.wide(WideOp::ZeroExtend, d, a, a, width, wanted);
        }
        Ok(())
    }

    /// Stores the value of a condition in a slot.
    fn decide(&mut self, expr: &Expr, d: Slot) -> Result<(), Unsupported> {
        let (no, end) = (self.label(), self.label());
        let (one, zero) = (self.number(1), self.number(0));
        self.jump_unless(expr, no)?;
        self.emit(Inst::Copy { d, a: one });
        self.emit(Inst::Jump { to: end });
        self.place_label(no);
        self.emit(Inst::Copy { d, a: zero });
        self.place_label(end);
        Ok(())
    }

    /// Jumps to `to` unless the condition holds.
    pub(super) fn jump_unless(&mut self, cond: &Expr, to: Pc) -> Result<(), Unsupported> {
        self.jump(cond, to, false)
    }

    /// Jumps to `to` if the condition equals `when`.
    pub(super) fn jump(&mut self, cond: &Expr, to: Pc, when: bool) -> Result<(), Unsupported> {
        match cond {
            Expr::Unary(UnOp::Not, inner) => return self.jump(inner, to, !when),
            Expr::Binary(op @ (BinOp::LogicalAnd | BinOp::LogicalOr), left, right) => {
                // Short-circuit evaluation: `a && b` is false as soon as one operand is, `a || b`
                // is true as soon as one operand is.
                if (*op == BinOp::LogicalAnd) == when {
                    let past = self.label();
                    self.jump(left, past, !when)?;
                    self.jump(right, to, when)?;
                    self.place_label(past);
                } else {
                    self.jump(left, to, when)?;
                    self.jump(right, to, when)?;
                }
                return Ok(());
            }
            Expr::Binary(op, left, right) if op.is_predicate() => {
                let ty = self.ty(left)?;
                if ty.width() <= 64 && self.jump_compare(*op, ty, left, right, to, when)? {
                    return Ok(());
                }
            }
            _ => {}
        }
        let a = self.operand(cond)?;
        self.emit(if when {
            Inst::JumpIf { a, to }
        } else {
            Inst::JumpIfNot { a, to }
        });
        Ok(())
    }

    /// Emits one instruction for a comparison of single limbs. Returns false if there is none.
    fn jump_compare(
        &mut self,
        op: BinOp,
        ty: ScalarTy,
        left: &Expr,
        right: &Expr,
        to: Pc,
        when: bool,
    ) -> Result<bool, Unsupported> {
        let ordered = matches!(op, BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge);
        if ordered && ty.is_signed() {
            return Ok(false);
        }
        let a = self.operand(left)?;
        let b = self.operand(right)?;
        self.emit(match (op, when) {
            (BinOp::Eq, true) | (BinOp::Ne, false) => Inst::JumpEq { a, b, to },
            (BinOp::Eq, false) | (BinOp::Ne, true) => Inst::JumpNe { a, b, to },
            (BinOp::Lt, true) | (BinOp::Ge, false) => Inst::JumpLt { a, b, to },
            (BinOp::Lt, false) | (BinOp::Ge, true) => Inst::JumpGe { a, b, to },
            (BinOp::Gt, true) | (BinOp::Le, false) => Inst::JumpLt { a: b, b: a, to },
            _ => Inst::JumpGe { a: b, b: a, to },
        });
        Ok(true)
    }
}
