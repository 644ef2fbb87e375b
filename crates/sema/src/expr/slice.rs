//! Slices: `e[hi:lo]` and `e[lo +: width]`.

use num_traits::{Signed, ToPrimitive};
use syntax::ast::{self, BinaryOp, UnaryOp};
use syntax::source::Span;

use crate::hir::{Expr, ExprKind, StmtKind, Ty};
use crate::types::{MAX_WIDTH, Num};
use crate::{Checker, code};

impl Checker<'_> {
    pub(super) fn slice(
        &mut self,
        base: &ast::Expr,
        hi: &ast::Expr,
        lo: &ast::Expr,
        span: Span,
    ) -> Expr {
        let base = self.expr(base, None);
        let base = self.underlying_of(base);
        let hi = self.slice_bound(hi);
        let lo = self.slice_bound(lo);
        let (Some(hi), Some(lo)) = (hi, lo) else {
            return self.poison(span);
        };
        let num = match self.num(base.ty) {
            Some(num) => num,
            None if base.ty == self.t.error => return self.poison(span),
            None => {
                let message = format!(
                    "{} cannot be sliced: only `bit`, `int` and integers can",
                    self.show(base.ty)
                );
                return self.fail(code::BAD_OPERAND, span, message);
            }
        };
        if hi < lo {
            let message = format!("a slice is written [high:low], but {hi} is less than {lo}");
            return self.fail(code::OUT_OF_RANGE, span, message);
        }
        if let Num::Bit(width) | Num::Int(width) = num
            && hi >= width
        {
            let message = format!(
                "bit {hi} is out of range: {} has {width} bits",
                self.show(base.ty)
            );
            return self.fail(code::OUT_OF_RANGE, span, message);
        }
        let ty = self.intern(Ty::Bit(hi - lo + 1));
        if let Some(value) = self.int_value(&base) {
            return self.computed(&(value >> lo), ty, span);
        }
        if num == Num::Integer {
            return self.fail(
                code::NOT_CONSTANT,
                span,
                "an `int` that is sliced must be known at compile time",
            );
        }
        Expr {
            kind: ExprKind::Slice(Box::new(base), hi, lo),
            ty,
            span,
        }
    }

    fn slice_bound(&mut self, e: &ast::Expr) -> Option<u32> {
        let value = self.constant_int(e, "the bound of a slice")?;
        if value.is_negative() {
            self.error(
                code::OUT_OF_RANGE,
                e.span,
                format!("the bound of a slice cannot be negative: it is {value}"),
            );
            return None;
        }
        match value.to_u32().filter(|&n| n < MAX_WIDTH) {
            Some(bound) => Some(bound),
            None => {
                self.error(
                    code::OUT_OF_RANGE,
                    e.span,
                    format!("bit {value} is out of range"),
                );
                None
            }
        }
    }

    /// Checks `e[lo +: width]`. It becomes a slice if `lo` is constant, otherwise a shift.
    pub(super) fn plus_slice(
        &mut self,
        base: &ast::Expr,
        lo: &ast::Expr,
        width: &ast::Expr,
        span: Span,
    ) -> Expr {
        let base = self.expr(base, None);
        let base = self.underlying_of(base);
        let lo = self.expr(lo, None);
        let lo = self.underlying_of(lo);
        let width = self.slice_bound(width);
        let Some(width) = width else {
            return self.poison(span);
        };
        if base.ty == self.t.error || lo.ty == self.t.error {
            return self.poison(span);
        }
        let total = match self.num(base.ty) {
            Some(Num::Bit(total) | Num::Int(total)) => total,
            _ => {
                let message = format!(
                    "{} cannot be sliced by `+:`: only `bit` and `int` can",
                    self.show(base.ty)
                );
                return self.fail(code::BAD_OPERAND, span, message);
            }
        };
        if width == 0 {
            return self.fail(code::OUT_OF_RANGE, span, "a slice has at least one bit");
        }
        if let Some(start) = self.int_value(&lo) {
            return self.constant_plus_slice(base, &start, width, total, lo.span, span);
        }
        if !matches!(self.num(lo.ty), Some(Num::Bit(_))) {
            let message = format!(
                "the start of a slice must be a `bit<w>` or a constant, not {}",
                self.show(lo.ty)
            );
            return self.fail(code::BAD_OPERAND, lo.span, message);
        }
        let unsigned = self.intern(Ty::Bit(total));
        let ty = self.intern(Ty::Bit(width));
        let base = if base.ty == unsigned {
            base
        } else {
            self.cast_to(base, unsigned)
        };
        let shifted = ExprKind::Binary(BinaryOp::Shr, Box::new(base), Box::new(lo));
        let shifted = Expr {
            kind: shifted,
            ty: unsigned,
            span,
        };
        if width == total {
            shifted
        } else {
            Expr {
                kind: ExprKind::Cast(Box::new(shifted)),
                ty,
                span,
            }
        }
    }

    fn constant_plus_slice(
        &mut self,
        base: Expr,
        start: &num_bigint::BigInt,
        width: u32,
        total: u32,
        at: Span,
        span: Span,
    ) -> Expr {
        if start.is_negative() {
            return self.fail(
                code::OUT_OF_RANGE,
                at,
                format!("the start of a slice cannot be negative: it is {start}"),
            );
        }
        let lo = start
            .to_u32()
            .filter(|&lo| lo.checked_add(width).is_some_and(|end| end <= total));
        let Some(lo) = lo else {
            let message = format!(
                "bits {start} to {} are out of range: there are {total}",
                start + width - 1
            );
            return self.fail(code::OUT_OF_RANGE, at, message);
        };
        let ty = self.intern(Ty::Bit(width));
        match self.int_value(&base) {
            Some(value) => self.computed(&(value >> lo), ty, span),
            None => Expr {
                kind: ExprKind::Slice(Box::new(base), lo + width - 1, lo),
                ty,
                span,
            },
        }
    }

    /// Checks `base[lo +: width] = value` if `lo` is known only at run time; the bits are inserted
    /// by masks. Returns `None` if `lo` is constant.
    pub(crate) fn assign_moving_slice(
        &mut self,
        base: &ast::Expr,
        lo: &ast::Expr,
        width: &ast::Expr,
        value: &ast::Expr,
        span: Span,
    ) -> Option<StmtKind> {
        let errors = self.diags.error_count();
        let start = self.expr(lo, None);
        let start = self.underlying_of(start);
        if self.diags.error_count() > errors || self.int_value(&start).is_some() {
            return None;
        }
        let base = self.expr(base, None);
        let (Some(Num::Bit(total)), Some(Num::Bit(_))) = (self.num(base.ty), self.num(start.ty))
        else {
            return None;
        };
        if !self.require_lvalue(&base, "the left side of an assignment") {
            return Some(StmtKind::Assign(self.poison(span), self.poison(span)));
        }
        let width = self.slice_bound(width)?.min(total);
        let whole = base.ty;
        let part = self.intern(Ty::Bit(width));
        let value = self.expr_to(value, part);
        if value.ty == self.t.error {
            return Some(StmtKind::Assign(base, value));
        }
        let ones = (num_bigint::BigInt::from(1) << width) - 1;
        let ones = self.computed(&ones, whole, span);
        let of = |kind| Expr {
            kind,
            ty: whole,
            span,
        };
        let shifted = |e: Expr| {
            of(ExprKind::Binary(
                BinaryOp::Shl,
                Box::new(e),
                Box::new(start.clone()),
            ))
        };
        let mask = of(ExprKind::Unary(
            UnaryOp::Complement,
            Box::new(shifted(ones)),
        ));
        let kept = of(ExprKind::Binary(
            BinaryOp::And,
            Box::new(base.clone()),
            Box::new(mask),
        ));
        let value = if part == whole {
            value
        } else {
            self.cast_to(value, whole)
        };
        let put = ExprKind::Binary(BinaryOp::Or, Box::new(kept), Box::new(shifted(value)));
        Some(StmtKind::Assign(base, of(put)))
    }
}
