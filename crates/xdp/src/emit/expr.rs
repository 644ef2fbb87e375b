//! Emission of expressions. A value is computed limb by limb into `R0`, in canonical form, and a
//! condition into a jump. `R7` and `R8` are kept.

use ir::{BinOp, Expr, FieldId, Place, ScalarTy, UnOp, limbs_of};
use support::work::checkpoint;

use super::{Emitted, Emitter, TEMPORARIES};
use crate::assembler::{Alu, Label, R0, R1, R2, R9, Register, Size, When};

impl Emitter<'_> {
    pub(super) fn ty(&self, expr: &Expr) -> Emitted<ScalarTy> {
        let action = self.actions.last();
        let action = action.and_then(|&id| self.program.actions.get(id));
        let ty = expr.ty(self.program, action);
        let ty = ty.ok_or_else(|| "an expression without a type".to_owned())?;
        match ty {
            ScalarTy::Varbit(_) => Err("a varbit".to_owned()),
            ty => Ok(ty),
        }
    }

    /// Computes a value of at most 64 bits into `R0`.
    pub(super) fn value(&mut self, expr: &Expr) -> Emitted {
        match self.ty(expr)?.width() {
            0..=64 => self.limb(expr, 0),
            width => Err(format!("a number of {width} bits here")),
        }
    }

    /// Allocates a temporary until the end of the statement.
    pub(super) fn temporary(&mut self) -> Emitted<i16> {
        let at = self.temporaries;
        if at >= TEMPORARIES {
            return Err("an expression that is too deep".to_owned());
        }
        self.temporaries += 1;
        Ok(self.memory.temporaries + (at * 8) as i16)
    }

    /// Computes a limb of a value into `R0`.
    pub(super) fn limb(&mut self, expr: &Expr, limb: u32) -> Emitted {
        checkpoint();
        let ty = self.ty(expr)?;
        let width = ty.width();
        match expr {
            Expr::Const(_, value) => {
                let number = value.limbs().get(limb as usize).copied();
                self.asm.set(R0, number.unwrap_or(0));
            }
            Expr::Read(place) => self.read(place, limb)?,
            Expr::Param(number) => {
                let cell = self.param(*number)?;
                self.load_memory(R0, cell + (limb * 8) as i16);
            }
            Expr::Unary(UnOp::Not, operand) => {
                self.value(operand)?;
                self.asm.alu_number(Alu::Xor, R0, 1);
            }
            Expr::Unary(UnOp::Complement, operand) => {
                self.limb(operand, limb)?;
                self.asm.alu_number(Alu::Xor, R0, -1);
                self.asm.mask(R0, bits_of_limb(width, limb));
            }
            Expr::Unary(UnOp::Neg, operand) => {
                self.narrow(width)?;
                self.value(operand)?;
                self.asm.negate(R0);
                self.asm.mask(R0, width);
            }
            Expr::Binary(op, left, right) => self.binary(*op, left, right, limb)?,
            Expr::Concat(left, right) => self.concat(left, right, limb)?,
            Expr::Slice(operand, _, lo) => {
                self.bits(operand, lo + limb * 64, bits_of_limb(width, limb))?;
            }
            Expr::Cast(_, operand) => self.cast(width, operand, limb)?,
            Expr::Ternary(cond, then, otherwise) => {
                let (no, end) = (self.asm.label(), self.asm.label());
                self.jump_unless(cond, no)?;
                self.limb(then, limb)?;
                self.asm.jump(end);
                self.asm.place(no);
                self.limb(otherwise, limb)?;
                self.asm.place(end);
            }
            Expr::VarbitEq(..) | Expr::VarbitLen(_) => return Err("a varbit".to_owned()),
        }
        Ok(())
    }

    fn narrow(&self, width: u32) -> Emitted {
        match width {
            0..=64 => Ok(()),
            _ => Err(format!("arithmetic on {width} bits")),
        }
    }

    /// Returns the offset of a parameter of the action that is being emitted.
    fn param(&self, number: u32) -> Emitted<i16> {
        let params = self.params.last();
        let cell = params.and_then(|params| params.get(number as usize));
        cell.copied()
            .ok_or_else(|| "a parameter outside of an action".to_owned())
    }

    /// Computes `count` bits, at most 64, of a value into `R0`, from bit `lo` on. Bits above the
    /// value are zero.
    fn bits(&mut self, expr: &Expr, lo: u32, count: u32) -> Emitted {
        let width = self.ty(expr)?.width();
        let (first, shift) = (lo / 64, lo % 64);
        if lo >= width {
            self.asm.set(R0, 0);
            return Ok(());
        }
        if shift + count <= 64 || (first + 1) * 64 >= width {
            self.limb(expr, first)?;
            self.asm.alu_number(Alu::Shr, R0, shift as i32);
        } else {
            self.limb(expr, first)?;
            self.asm.alu_number(Alu::Shr, R0, shift as i32);
            let low = self.temporary()?;
            self.asm.store(Size::Double, R9, low, R0);
            self.limb(expr, first + 1)?;
            self.asm.alu_number(Alu::Shl, R0, (64 - shift) as i32);
            self.load_memory(R1, low);
            self.asm.alu(Alu::Or, R0, R1);
        }
        self.asm.mask(R0, count);
        Ok(())
    }

    fn concat(&mut self, left: &Expr, right: &Expr, limb: u32) -> Emitted {
        let (high, low) = (self.ty(left)?.width(), self.ty(right)?.width());
        let start = limb * 64;
        let count = bits_of_limb(high + low, limb);
        if start >= low {
            return self.bits(left, start - low, count);
        }
        if start + count <= low {
            return self.limb(right, limb);
        }
        self.limb(right, limb)?;
        let part = self.temporary()?;
        self.asm.store(Size::Double, R9, part, R0);
        let own = low - start;
        self.bits(left, 0, count - own)?;
        self.asm.alu_number(Alu::Shl, R0, own as i32);
        self.load_memory(R1, part);
        self.asm.alu(Alu::Or, R0, R1);
        Ok(())
    }

    fn cast(&mut self, width: u32, operand: &Expr, limb: u32) -> Emitted {
        let from = self.ty(operand)?;
        let count = bits_of_limb(width, limb);
        if width <= from.width() {
            self.limb(operand, limb)?;
            self.asm.mask(R0, count);
            return Ok(());
        }
        if !from.is_signed() {
            return self.bits(operand, limb * 64, count);
        }
        self.narrow(width)?;
        self.value(operand)?;
        self.sign_extend(R0, from.width());
        self.asm.mask(R0, width);
        Ok(())
    }

    /// Extends a number of `width` bits to 64, by its sign.
    fn sign_extend(&mut self, register: Register, width: u32) {
        let unused = 64 - width.clamp(1, 64) as i32;
        self.asm.alu_number(Alu::Shl, register, unused);
        self.asm.alu_number(Alu::ShrSigned, register, unused);
    }

    /// Computes both operands of at most 64 bits: the left one into `R0`, the right one into `R1`.
    fn both(&mut self, left: &Expr, right: &Expr) -> Emitted {
        if let Expr::Const(_, value) = right
            && let [] | [_] = value.limbs()
        {
            self.value(left)?;
            self.asm
                .set(R1, value.limbs().first().copied().unwrap_or(0));
            return Ok(());
        }
        self.both_limbs(left, right, 0)
    }

    /// Computes a limb of both operands: that of the left one into `R0`, the other into `R1`.
    fn both_limbs(&mut self, left: &Expr, right: &Expr, limb: u32) -> Emitted {
        self.limb(left, limb)?;
        if let Expr::Read(place) = right
            && place.dims.is_empty()
            && !matches!(self.ty(right)?, ScalarTy::Varbit(_))
        {
            self.load_field(R1, place.base, limb);
            return Ok(());
        }
        let spilled = self.temporary()?;
        self.asm.store(Size::Double, R9, spilled, R0);
        self.limb(right, limb)?;
        self.asm.copy(R1, R0);
        self.load_memory(R0, spilled);
        Ok(())
    }

    fn binary(&mut self, op: BinOp, left: &Expr, right: &Expr, limb: u32) -> Emitted {
        if op.is_predicate() {
            let (no, end) = (self.asm.label(), self.asm.label());
            let whole = Expr::Binary(op, Box::new(left.clone()), Box::new(right.clone()));
            self.jump_unless(&whole, no)?;
            self.asm.set(R0, 1);
            self.asm.jump(end);
            self.asm.place(no);
            self.asm.set(R0, 0);
            self.asm.place(end);
            return Ok(());
        }
        let ty = self.ty(left)?;
        let (width, signed) = (ty.width(), ty.is_signed());
        let plain = match op {
            BinOp::And => Some(Alu::And),
            BinOp::Or => Some(Alu::Or),
            BinOp::Xor => Some(Alu::Xor),
            _ => None,
        };
        if let Some(operation) = plain {
            self.both_limbs(left, right, limb)?;
            self.asm.alu(operation, R0, R1);
            return Ok(());
        }
        self.narrow(width)?;
        self.narrow(self.ty(right)?.width())?;
        self.both(left, right)?;
        match op {
            BinOp::Add => self.asm.alu(Alu::Add, R0, R1),
            BinOp::Sub => self.asm.alu(Alu::Sub, R0, R1),
            BinOp::Mul => self.asm.alu(Alu::Mul, R0, R1),
            // In eBPF, division by zero gives zero too.
            BinOp::Div => self.asm.alu(Alu::Div, R0, R1),
            BinOp::Mod => {
                // In eBPF, the operand stays if the divisor is zero.
                let (zero, end) = (self.asm.label(), self.asm.label());
                self.asm.jump_if_number(When::Equal, R1, 0, zero);
                self.asm.alu(Alu::Mod, R0, R1);
                self.asm.jump(end);
                self.asm.place(zero);
                self.asm.set(R0, 0);
                self.asm.place(end);
            }
            BinOp::Shl | BinOp::Shr => self.shift(op, width, signed),
            BinOp::AddSaturating | BinOp::SubSaturating => self.saturating(op, width, signed)?,
            _ => return Err("this operation".to_owned()),
        }
        self.asm.mask(R0, width);
        Ok(())
    }

    /// Shifts `R0` by `R1`. In eBPF, amounts are taken modulo 64.
    fn shift(&mut self, op: BinOp, width: u32, signed: bool) {
        let (all, end) = (self.asm.label(), self.asm.label());
        if op == BinOp::Shr && signed {
            self.sign_extend(R0, width);
            self.asm.jump_if_number(When::AtMost, R1, 63, all);
            self.asm.set(R1, 63);
            self.asm.place(all);
            self.asm.alu(Alu::ShrSigned, R0, R1);
            return;
        }
        self.asm
            .jump_if_number(When::AtLeast, R1, width.min(64) as i32, all);
        let operation = if op == BinOp::Shl { Alu::Shl } else { Alu::Shr };
        self.asm.alu(operation, R0, R1);
        self.asm.jump(end);
        self.asm.place(all);
        self.asm.set(R0, 0);
        self.asm.place(end);
    }

    /// Adds or subtracts `R1`, bounded by the type.
    fn saturating(&mut self, op: BinOp, width: u32, signed: bool) -> Emitted {
        let end = self.asm.label();
        if !signed {
            if op == BinOp::SubSaturating {
                let enough = self.asm.label();
                self.asm.jump_if(When::AtLeast, R0, R1, enough);
                self.asm.copy(R0, R1);
                self.asm.place(enough);
                self.asm.alu(Alu::Sub, R0, R1);
                return Ok(());
            }
            self.asm.copy(R2, R0);
            self.asm.alu(Alu::Add, R0, R1);
            self.asm.mask(R0, width);
            self.asm.jump_if(When::AtLeast, R0, R2, end);
            self.asm.set(R0, bits::one::mask(width));
            self.asm.place(end);
            return Ok(());
        }
        if width > 63 {
            return Err("signed saturating arithmetic on 64 bits".to_owned());
        }
        self.sign_extend(R0, width);
        self.sign_extend(R1, width);
        let operation = match op {
            BinOp::AddSaturating => Alu::Add,
            _ => Alu::Sub,
        };
        self.asm.alu(operation, R0, R1);
        let largest = (1i64 << (width - 1)) - 1;
        let below = self.asm.label();
        self.asm.set(R1, largest as u64);
        self.asm.jump_if(When::AtMostSigned, R0, R1, below);
        self.asm.copy(R0, R1);
        self.asm.place(below);
        self.asm.set(R1, (-largest - 1) as u64);
        self.asm.jump_if(When::AtLeastSigned, R0, R1, end);
        self.asm.copy(R0, R1);
        self.asm.place(end);
        Ok(())
    }

    /// Jumps to `to` unless a condition holds.
    pub(super) fn jump_unless(&mut self, cond: &Expr, to: Label) -> Emitted {
        self.jump(cond, to, false)
    }

    /// Jumps to `to` if a condition is `when`.
    pub(super) fn jump(&mut self, cond: &Expr, to: Label, when: bool) -> Emitted {
        checkpoint();
        match cond {
            Expr::Unary(UnOp::Not, inner) => return self.jump(inner, to, !when),
            Expr::Binary(op @ (BinOp::LogicalAnd | BinOp::LogicalOr), left, right) => {
                if (*op == BinOp::LogicalAnd) == when {
                    let past = self.asm.label();
                    self.jump(left, past, !when)?;
                    self.jump(right, to, when)?;
                    self.asm.place(past);
                } else {
                    self.jump(left, to, when)?;
                    self.jump(right, to, when)?;
                }
                return Ok(());
            }
            Expr::Binary(op, left, right) if op.is_predicate() => {
                return self.compare(*op, left, right, to, when);
            }
            _ => {}
        }
        self.value(cond)?;
        let test = if when { When::Different } else { When::Equal };
        self.asm.jump_if_number(test, R0, 0, to);
        Ok(())
    }

    fn compare(&mut self, op: BinOp, left: &Expr, right: &Expr, to: Label, when: bool) -> Emitted {
        let ty = self.ty(left)?;
        if ty.width() > 64 {
            return self.compare_wide(op, left, right, (to, when), limbs_of(ty));
        }
        let signed = ty.is_signed();
        let test = match op {
            BinOp::Eq => When::Equal,
            BinOp::Ne => When::Different,
            BinOp::Lt if signed => When::BelowSigned,
            BinOp::Le if signed => When::AtMostSigned,
            BinOp::Gt if signed => When::AboveSigned,
            BinOp::Ge if signed => When::AtLeastSigned,
            BinOp::Lt => When::Below,
            BinOp::Le => When::AtMost,
            BinOp::Gt => When::Above,
            _ => When::AtLeast,
        };
        let test = if when { test } else { test.not() };
        let is_ordered = !matches!(op, BinOp::Eq | BinOp::Ne);
        self.both(left, right)?;
        if signed && is_ordered {
            self.sign_extend(R0, ty.width());
            self.sign_extend(R1, ty.width());
        }
        self.asm.jump_if(test, R0, R1, to);
        Ok(())
    }

    /// Compares two numbers of several limbs.
    fn compare_wide(
        &mut self,
        op: BinOp,
        left: &Expr,
        right: &Expr,
        (to, when): (Label, bool),
        limbs: u32,
    ) -> Emitted {
        let jumps_if_equal = match op {
            BinOp::Eq => when,
            BinOp::Ne => !when,
            _ => return Err("an order of numbers of more than 64 bits".to_owned()),
        };
        let differ = if jumps_if_equal { self.asm.label() } else { to };
        for limb in 0..limbs {
            self.both_limbs(left, right, limb)?;
            self.asm.jump_if(When::Different, R0, R1, differ);
        }
        if jumps_if_equal {
            self.asm.jump(to);
            self.asm.place(differ);
        }
        Ok(())
    }

    /// Reads a limb of a location into `R0`.
    fn read(&mut self, place: &Place, limb: u32) -> Emitted {
        if place.dims.is_empty() {
            self.load_field(R0, place.base, limb);
            return Ok(());
        }
        let (outside, end) = (self.asm.label(), self.asm.label());
        self.address(place, outside)?;
        let offset = self.offset(place.base, limb);
        self.asm.load(Size::Double, R0, R1, offset);
        self.asm.jump(end);
        self.asm.place(outside);
        self.asm.set(R0, 0);
        self.asm.place(end);
        Ok(())
    }

    /// Sets `R1` to the packet's memory plus the distance of an element, or jumps to `outside`.
    pub(super) fn address(&mut self, place: &Place, outside: Label) -> Emitted {
        let strides: Vec<u32> = place.dims.iter().map(|dim| dim.stride).collect();
        self.address_of(place.base, &place.dims, &strides, outside)
    }

    /// Does the same for the elements of `base` at strides in fields.
    pub(super) fn address_of(
        &mut self,
        base: FieldId,
        dims: &[ir::Dim],
        strides: &[u32],
        outside: Label,
    ) -> Emitted {
        let [dim] = dims else {
            return Err("an element of an array of arrays".to_owned());
        };
        let stride = strides.first().copied().unwrap_or(0);
        let second = FieldId::new(base.get().saturating_add(stride));
        let distance = match (dim.len > 1, self.program.fields.get(second)) {
            (true, Some(_)) => self.layout.offset(second) - self.layout.offset(base),
            _ => 0,
        };
        self.value(&dim.index)?;
        self.asm
            .jump_if_number(When::AtLeast, R0, dim.len as i32, outside);
        self.asm.alu_number(Alu::Mul, R0, (distance * 8) as i32);
        self.asm.copy(R1, R9);
        self.asm.alu(Alu::Add, R1, R0);
        Ok(())
    }
}

/// Returns the number of bits of a limb of a value.
pub(super) fn bits_of_limb(width: u32, limb: u32) -> u32 {
    width.saturating_sub(limb * 64).min(64)
}
