//! Explicit casts (section "Explicit casts").

use num_traits::{One, Zero};
use syntax::ast::{self, TypeRef};
use syntax::diag::Diagnostic;
use syntax::source::Span;

use crate::hir::{Expr, ExprKind, Ty, TyId};
use crate::types::Num;
use crate::{Checker, code};

impl Checker<'_> {
    pub(super) fn cast(&mut self, ty: &TypeRef, operand: &ast::Expr, span: Span) -> Expr {
        let target = self.resolve_type(ty);
        let operand = self.expr(operand, Some(target));
        if target == self.t.error || operand.ty == self.t.error {
            return self.poison(span);
        }
        if self.is_untyped(&operand) {
            let mut value = self.coerce(operand, target);
            value.span = span;
            return value;
        }
        let mut value = self.explicit_cast(operand, target, span);
        value.span = span;
        value
    }

    fn explicit_cast(&mut self, e: Expr, target: TyId, span: Span) -> Expr {
        if e.ty == target {
            return if self.is_value(target) {
                e
            } else {
                self.bad_cast(e.ty, target, span)
            };
        }
        if target == self.t.boolean {
            return self.cast_to_bool(e, span);
        }
        if let Some(value) = self.try_cast(&e, target) {
            return value;
        }
        self.bad_cast(e.ty, target, span)
    }

    fn cast_to_bool(&mut self, e: Expr, span: Span) -> Expr {
        let boolean = self.t.boolean;
        let base = self.base(e.ty);
        if let (Some(Num::Integer | Num::Bit(1)), Some(value)) =
            (self.num(base), self.int_value(&e))
        {
            if value.is_zero() || value.is_one() {
                return Expr {
                    kind: ExprKind::Bool(value.is_one()),
                    ty: boolean,
                    span,
                };
            }
            let message = format!("only 0 and 1 can be cast to `bool`, but this is {value}");
            return self.fail(code::BAD_CAST, span, message);
        }
        match self.num(base) {
            Some(Num::Bit(1)) => Expr {
                kind: ExprKind::Cast(Box::new(e)),
                ty: boolean,
                span,
            },
            _ if base == boolean => Expr {
                kind: ExprKind::Cast(Box::new(e)),
                ty: boolean,
                span,
            },
            _ => self.bad_cast(e.ty, boolean, span),
        }
    }

    /// Returns the cast, if the language allows it. A `type` is cast to and from its underlying
    /// type, step by step.
    fn try_cast(&mut self, e: &Expr, target: TyId) -> Option<Expr> {
        let (from, to) = (e.ty, target);
        if let Ty::NewType(id) = *self.ty(to) {
            let under = self.p.new_types[id].underlying;
            let inner = if from == under {
                e.clone()
            } else {
                self.wrapping_cast(e, under)?
            };
            return Some(self.retype(inner, to));
        }
        if let Ty::NewType(id) = *self.ty(from) {
            let under = self.p.new_types[id].underlying;
            let inner = self.retype(e.clone(), under);
            return if under == to {
                Some(inner)
            } else {
                self.try_cast(&inner, to)
            };
        }
        if let Some(under) = self.enum_underlying(from) {
            let inner = self.cast_to(e.clone(), under);
            return if under == to {
                Some(inner)
            } else {
                self.try_cast(&inner, to)
            };
        }
        if let Some(under) = self.enum_underlying(to) {
            let inner = if from == under {
                e.clone()
            } else {
                self.int_cast(e, under)?
            };
            return Some(self.cast_to(inner, to));
        }
        if from == self.t.boolean {
            return match (self.num(to), &e.kind) {
                (Some(Num::Bit(1)), ExprKind::Bool(value)) => {
                    Some(self.computed(&u8::from(*value).into(), to, e.span))
                }
                (Some(Num::Bit(1)), _) => Some(self.cast_to(e.clone(), to)),
                _ => None,
            };
        }
        self.number_cast(e, to)
    }

    /// Casts a literal without width, which can become a `type` or an enum in one step.
    fn int_cast(&mut self, e: &Expr, under: TyId) -> Option<Expr> {
        if e.ty != self.t.integer {
            return None;
        }
        self.number_cast(e, under)
    }

    fn wrapping_cast(&mut self, e: &Expr, under: TyId) -> Option<Expr> {
        match self.ty(under) {
            Ty::NewType(_) => self.try_cast(e, under),
            _ => self.int_cast(e, under),
        }
    }

    fn number_cast(&mut self, e: &Expr, to: TyId) -> Option<Expr> {
        let legal = match (self.num(e.ty)?, self.num(to)?) {
            (Num::Integer, _) | (_, Num::Integer) => true,
            (Num::Bit(_), Num::Bit(_)) | (Num::Int(_), Num::Int(_)) => true,
            (Num::Bit(a), Num::Int(b)) | (Num::Int(a), Num::Bit(b)) => a == b,
        };
        if !legal {
            return None;
        }
        match self.int_value(e) {
            Some(value) if e.ty == self.t.integer => Some(self.int_literal_of(&value, to, e.span)),
            Some(value) => Some(self.computed(&value, to, e.span)),
            None => Some(Expr {
                kind: ExprKind::Cast(Box::new(e.clone())),
                ty: to,
                span: e.span,
            }),
        }
    }

    /// Returns the same value under another name of its type.
    fn retype(&mut self, e: Expr, ty: TyId) -> Expr {
        match e.kind {
            ExprKind::Int(_) | ExprKind::Bool(_) => Expr { ty, ..e },
            _ => {
                let span = e.span;
                Expr {
                    kind: ExprKind::Cast(Box::new(e)),
                    ty,
                    span,
                }
            }
        }
    }

    fn bad_cast(&mut self, from: TyId, to: TyId, span: Span) -> Expr {
        let message = format!("{} cannot be cast to {}", self.show(from), self.show(to));
        let mut diagnostic = Diagnostic::error(code::BAD_CAST, span, message);
        if let (Some(a), Some(b)) = (self.num(from), self.num(to))
            && a != b
        {
            diagnostic =
                diagnostic.hint("a cast changes either the width or the sign: use two casts");
        } else if to == self.t.boolean && self.num(from).is_some() {
            diagnostic = diagnostic.hint("compare it: `.. != 0`");
        }
        self.report(diagnostic);
        self.poison(span)
    }
}
