//! Random choices, values and expressions of any width.

use bits::Value;
use ir::{BinOp, Dim, Expr, FieldId, Place, ScalarTy, UnOp};

/// Consecutive fields of one type, indexed at run time.
#[derive(Clone, Copy)]
pub(crate) struct Array {
    pub(crate) first: FieldId,
    pub(crate) len: u32,
    pub(crate) ty: ScalarTy,
}

/// Generator of expressions, from one seed.
pub(crate) struct Maker {
    state: u64,
    /// Fields that expressions read.
    fields: Vec<(FieldId, ScalarTy)>,
    pub(crate) arrays: Vec<Array>,
}

impl Maker {
    pub(crate) fn new(seed: u64, fields: Vec<(FieldId, ScalarTy)>) -> Maker {
        Maker {
            state: seed,
            fields,
            arrays: Vec::new(),
        }
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.state >> 33) % n
    }

    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// Returns a value. Small numbers and all ones, which are corner cases, are frequent.
    pub(crate) fn value(&mut self, width: u32) -> Value {
        match self.below(4) {
            0 => Value::truncated(self.below(5).into(), width),
            1 => Value::all_ones(width),
            _ => {
                let limbs = bits::limbs_for(width);
                let limbs: Vec<u64> = (0..limbs)
                    .map(|_| self.below(1 << 31) | self.below(1 << 31) << 31 | self.below(4) << 62)
                    .collect();
                Value::from_limbs(&limbs, width)
            }
        }
    }

    /// Returns the type of one of the fields.
    pub(crate) fn ty(&mut self) -> ScalarTy {
        let at = self.below(self.fields.len() as u64) as usize;
        self.fields[at].1
    }

    /// Returns the type of one of the numeric fields.
    pub(crate) fn number_ty(&mut self) -> ScalarTy {
        loop {
            if let ty @ (ScalarTy::Bit(_) | ScalarTy::Int(_)) = self.ty() {
                return ty;
            }
        }
    }

    pub(crate) fn constant(&mut self, ty: ScalarTy) -> Expr {
        Expr::Const(ty, self.value(ty.width()))
    }

    /// Returns a field of this type.
    pub(crate) fn field(&mut self, ty: ScalarTy) -> Option<FieldId> {
        let same = self.fields.iter().filter(|field| field.1 == ty);
        let same: Vec<FieldId> = same.map(|field| field.0).collect();
        (!same.is_empty()).then(|| self.pick(&same))
    }

    /// Returns an element of an array. Its index may be out of range.
    pub(crate) fn element(&mut self, array: Array, depth: u32) -> Place {
        let index = match self.below(3) {
            0 => Expr::Const(ScalarTy::Bit(8), self.value(8)),
            1 => {
                let number = self.below(u64::from(array.len) + 1);
                Expr::Const(ScalarTy::Bit(64), Value::truncated(number.into(), 64))
            }
            _ => {
                let ty = self.number_ty();
                let index = self.expr(ty, depth.saturating_sub(1));
                Expr::Cast(
                    ScalarTy::Bit(2),
                    Box::new(Expr::Cast(ScalarTy::Bit(ty.width()), Box::new(index))),
                )
            }
        };
        Place {
            base: array.first,
            dims: vec![Dim {
                index,
                len: array.len,
                stride: 1,
            }],
        }
    }

    fn leaf(&mut self, ty: ScalarTy) -> Expr {
        let arrays = self.arrays.iter().filter(|array| array.ty == ty);
        let arrays: Vec<Array> = arrays.copied().collect();
        match (self.below(4), self.field(ty)) {
            (0, _) if !arrays.is_empty() => {
                let array = self.pick(&arrays);
                Expr::Read(self.element(array, 0))
            }
            (1.., Some(field)) => Expr::Read(field.into()),
            _ => self.constant(ty),
        }
    }

    /// Returns an expression of this type.
    pub(crate) fn expr(&mut self, ty: ScalarTy, depth: u32) -> Expr {
        if depth == 0 || self.below(6) == 0 {
            return self.leaf(ty);
        }
        let d = depth - 1;
        if ty == ScalarTy::Bool {
            return self.condition(d);
        }
        let width = ty.width();
        match self.below(8) {
            0 => {
                let op = self.pick(&[UnOp::Neg, UnOp::Complement]);
                Expr::Unary(op, self.boxed(ty, d))
            }
            1 => {
                let cond = self.boxed(ScalarTy::Bool, d);
                Expr::Ternary(cond, self.boxed(ty, d), self.boxed(ty, d))
            }
            2 => {
                let from = self.number_ty().width();
                // A cast may change only the width or only the sign.
                let from = match ty {
                    ScalarTy::Int(_) => ScalarTy::Int(from),
                    _ => ScalarTy::Bit(from),
                };
                Expr::Cast(ty, self.boxed(from, d))
            }
            3 if !ty.is_signed() && width > 1 => {
                let low = 1 + self.below(u64::from(width) - 1) as u32;
                let high = self.boxed(ScalarTy::Bit(width - low), d);
                Expr::Concat(high, self.boxed(ScalarTy::Bit(low), d))
            }
            4 if !ty.is_signed() => {
                let from = width + self.below(10) as u32;
                let from = from.min(self.widest()).max(width);
                let lo = self.below(u64::from(from - width) + 1) as u32;
                Expr::Slice(self.boxed(ScalarTy::Bit(from), d), lo + width - 1, lo)
            }
            5 => {
                let op = self.pick(&[BinOp::Shl, BinOp::Shr]);
                let amount = self.boxed(ScalarTy::Bit(13), 0);
                Expr::Binary(op, self.boxed(ty, d), amount)
            }
            _ => {
                use BinOp::{Add, AddSaturating, And, Div, Mod, Mul, Or, Sub, SubSaturating, Xor};
                let ops = [
                    Add,
                    Sub,
                    Mul,
                    AddSaturating,
                    SubSaturating,
                    And,
                    Or,
                    Xor,
                    Div,
                    Mod,
                ];
                let count = if ty.is_signed() { 8 } else { 10 };
                let op = self.pick(&ops[..count]);
                Expr::Binary(op, self.boxed(ty, d), self.boxed(ty, d))
            }
        }
    }

    fn condition(&mut self, depth: u32) -> Expr {
        match self.below(4) {
            0 => Expr::Unary(UnOp::Not, self.boxed(ScalarTy::Bool, depth)),
            1 => {
                let op = self.pick(&[BinOp::LogicalAnd, BinOp::LogicalOr]);
                let left = self.boxed(ScalarTy::Bool, depth);
                Expr::Binary(op, left, self.boxed(ScalarTy::Bool, depth))
            }
            _ => {
                use BinOp::{Eq, Ge, Gt, Le, Lt, Ne};
                let op = self.pick(&[Eq, Ne, Lt, Le, Gt, Ge]);
                let ty = self.number_ty();
                Expr::Binary(op, self.boxed(ty, depth), self.boxed(ty, depth))
            }
        }
    }

    fn boxed(&mut self, ty: ScalarTy, depth: u32) -> Box<Expr> {
        Box::new(self.expr(ty, depth))
    }

    fn widest(&self) -> u32 {
        let widths = self.fields.iter().map(|field| field.1.width());
        widths.max().unwrap_or(64)
    }
}
