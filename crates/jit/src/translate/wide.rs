//! Wide expressions: helpers compute them in slots. Operations on narrow values that are not worth
//! inlining are translated here too.

use cranelift_codegen::ir::{InstBuilder, Value};
use exec::Unsupported;
use exec::slots::Slot;
use exec::slots::wide::{WideOp, WideStep};
use ir::{BinOp, Expr, ScalarTy, UnOp, limbs_of};

use super::Translator;
use super::expr::is_wide;
use crate::helpers::Helper;

impl Translator<'_> {
    pub(super) fn wide_step(
        &mut self,
        op: WideOp,
        d: Slot,
        (a, b): (Slot, Slot),
        (width, other): (u32, u32),
    ) {
        let step = WideStep {
            op,
            d,
            a,
            b,
            width,
            other,
        };
        let scratch = step.scratch_limbs();
        *self.wide_scratch_limbs = scratch.max(*self.wide_scratch_limbs);
        self.code.wides.push(step);
        let at = self.code.wides.len() as u64 - 1;
        self.help_with(Helper::Wide, &[at]);
    }

    /// Computes an operation on values through slots.
    pub(super) fn wide_by_slots(
        &mut self,
        op: BinOp,
        ty: ScalarTy,
        a: &[Value],
        b: &[Value],
    ) -> Vec<Value> {
        let limbs = a.len() as u32;
        let (left, right) = (self.temporary(limbs), self.temporary(b.len() as u32));
        let d = self.temporary(limbs);
        self.store_slots(left, a);
        self.store_slots(right, b);
        let width = ty.width();
        self.wide_step(
            wide_op(op, ty.is_signed()),
            d,
            (left, right),
            (width, width),
        );
        self.load_slots(d, limbs)
    }

    /// Compares wide numbers. Returns 1 or 0.
    pub(super) fn compare_slots(&mut self, op: BinOp, ty: ScalarTy, a: Slot, b: Slot) -> Value {
        let n = limbs_of(ty);
        match op {
            BinOp::Eq => self.equal_slots(a, b, n),
            BinOp::Ne => {
                let equal = self.equal_slots(a, b, n);
                self.b.ins().bxor_imm(equal, 1)
            }
            _ => {
                let d = self.temporary(1);
                let (a, b) = match op {
                    BinOp::Gt | BinOp::Ge => (b, a),
                    _ => (a, b),
                };
                let width = ty.width();
                self.wide_step(wide_op(op, ty.is_signed()), d, (a, b), (width, width));
                self.load_slots(d, 1)[0]
            }
        }
    }

    /// Returns slots with an expression's value, of any width: its own location, or temporaries.
    pub(super) fn slot_of(&mut self, expr: &Expr) -> Result<Slot, Unsupported> {
        match expr {
            Expr::Read(place) => {
                let from = self.locate(place)?;
                if from.at.is_none() && self.home(from.base).is_none() {
                    return Ok(from.base);
                }
            }
            Expr::Param(index) => {
                if let Some(slot) = self.param_slot(*index) {
                    return Ok(slot);
                }
            }
            _ => {}
        }
        let ty = self.ty(expr)?;
        let d = self.temporary(limbs_of(ty));
        self.compute(expr, d)?;
        Ok(d)
    }

    /// Computes an expression of any width into slots. All operands are read before the slots are
    /// written.
    pub(super) fn compute(&mut self, expr: &Expr, d: Slot) -> Result<(), Unsupported> {
        let ty = self.ty(expr)?;
        if !is_wide(ty) && !matches!(ty, ScalarTy::Varbit(_)) {
            let value = self.value(expr)?;
            self.store_slots(d, &value);
            return Ok(());
        }
        let width = ty.width();
        match expr {
            Expr::Const(ty, value) => {
                let mut limbs = value.resized(width).limbs().to_vec();
                limbs.resize(limbs_of(*ty) as usize, 0);
                let constant = self.constant(limbs);
                self.help_with(Helper::Constant, &[d.into(), constant]);
            }
            Expr::Read(place) => {
                let from = self.locate(place)?;
                self.load_into(from, d);
            }
            Expr::Param(index) => self.param_into(*index, d)?,
            Expr::Unary(op, operand) => {
                let a = self.slot_of(operand)?;
                let op = match op {
                    UnOp::Neg => WideOp::Neg,
                    UnOp::Complement | UnOp::Not => WideOp::Complement,
                };
                self.wide_step(op, d, (a, a), (width, width));
            }
            Expr::Binary(op, left, right) => {
                let a = self.slot_of(left)?;
                let b = if matches!(op, BinOp::Shl | BinOp::Shr) {
                    let amount = self.small(right)?;
                    let slot = self.temporary(1);
                    self.store_slots(slot, &[amount]);
                    slot
                } else {
                    self.slot_of(right)?
                };
                self.wide_step(wide_op(*op, ty.is_signed()), d, (a, b), (width, width));
            }
            Expr::Concat(left, right) => {
                let (high, low) = (self.ty(left)?.width(), self.ty(right)?.width());
                let (a, b) = (self.slot_of(left)?, self.slot_of(right)?);
                if high == 0 {
                    self.copy(d, b, limbs_of(ty));
                } else if low == 0 {
                    self.copy(d, a, limbs_of(ty));
                } else {
                    self.wide_step(WideOp::Concat, d, (a, b), (high, low));
                }
            }
            Expr::Slice(operand, hi, lo) => {
                let limbs = limbs_of(self.ty(operand)?);
                let a = self.slot_of(operand)?;
                self.wide_step(WideOp::Slice, d, (a, limbs), (hi + 1 - lo, *lo));
            }
            Expr::Cast(to, operand) => self.wide_cast(*to, operand, d)?,
            Expr::Ternary(cond, then, otherwise) => {
                let (yes, no) = (self.b.create_block(), self.b.create_block());
                let end = self.b.create_block();
                self.decide(cond, yes, no)?;
                self.start_sealed(yes);
                self.compute(then, d)?;
                self.jump(end);
                self.start_sealed(no);
                self.compute(otherwise, d)?;
                self.jump(end);
                self.start_sealed(end);
            }
            Expr::VarbitEq(..) | Expr::VarbitLen(_) => {
                return Err(self.unsupported("a varbit's length of many limbs"));
            }
        }
        Ok(())
    }

    fn wide_cast(&mut self, to: ScalarTy, operand: &Expr, d: Slot) -> Result<(), Unsupported> {
        let from = self.ty(operand)?;
        let a = self.slot_of(operand)?;
        let (width, wanted) = (from.width(), to.width());
        if width == wanted {
            self.copy(d, a, limbs_of(to));
        } else if wanted < width {
            self.wide_step(WideOp::Slice, d, (a, limbs_of(from)), (wanted, 0));
        } else if from.is_signed() && width > 0 {
            self.wide_step(WideOp::SignExtend, d, (a, a), (width, wanted));
        } else {
            self.wide_step(WideOp::ZeroExtend, d, (a, a), (width, wanted));
        }
        Ok(())
    }
}

/// Returns the wide operation. For reversed comparisons the operands are exchanged.
fn wide_op(op: BinOp, signed: bool) -> WideOp {
    match op {
        BinOp::Add => WideOp::Add,
        BinOp::Sub => WideOp::Sub,
        BinOp::Mul => WideOp::Mul,
        BinOp::Div => WideOp::Div,
        BinOp::Mod => WideOp::Mod,
        BinOp::AddSaturating if signed => WideOp::AddSaturatingSigned,
        BinOp::SubSaturating if signed => WideOp::SubSaturatingSigned,
        BinOp::AddSaturating => WideOp::AddSaturating,
        BinOp::SubSaturating => WideOp::SubSaturating,
        BinOp::And | BinOp::LogicalAnd => WideOp::And,
        BinOp::Or | BinOp::LogicalOr => WideOp::Or,
        BinOp::Xor | BinOp::Eq | BinOp::Ne => WideOp::Xor,
        BinOp::Shl => WideOp::Shl,
        BinOp::Shr if signed => WideOp::ShrSigned,
        BinOp::Shr => WideOp::Shr,
        BinOp::Lt | BinOp::Gt if signed => WideOp::LtSigned,
        BinOp::Le | BinOp::Ge if signed => WideOp::LeSigned,
        BinOp::Lt | BinOp::Gt => WideOp::Lt,
        BinOp::Le | BinOp::Ge => WideOp::Le,
    }
}
