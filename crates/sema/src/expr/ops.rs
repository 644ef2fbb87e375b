//! Unary and binary operators.

use num_traits::Signed;
use syntax::ast::{self, BinaryOp, UnaryOp};
use syntax::diag::Diagnostic;
use syntax::source::Span;

use crate::hir::{Expr, ExprKind, Ty, TyId};
use crate::types::Num;
use crate::{Checker, code};

/// Maximum length in bytes of a string built by `++`.
const MAX_STRING: usize = 1 << 20;

/// Returns an operator as written.
pub(crate) fn symbol(op: BinaryOp) -> &'static str {
    use BinaryOp::*;
    match op {
        Mul => "*",
        Div => "/",
        Mod => "%",
        Add => "+",
        Sub => "-",
        AddSat => "|+|",
        SubSat => "|-|",
        Shl => "<<",
        Shr => ">>",
        Le => "<=",
        Ge => ">=",
        Lt => "<",
        Gt => ">",
        Eq => "==",
        Ne => "!=",
        And => "&",
        Xor => "^",
        Or => "|",
        Concat => "++",
        LogicalAnd => "&&",
        LogicalOr => "||",
        Mask => "&&&",
        Range => "..",
    }
}

fn unary_symbol(op: UnaryOp) -> &'static str {
    match op {
        UnaryOp::Neg => "-",
        UnaryOp::Plus => "+",
        UnaryOp::Complement => "~",
        UnaryOp::Not => "!",
    }
}

/// Hint for an operation on a float of clip.p4.
const FLOAT_HINT: &str = "P4 only copies floats and compares their bits: compute in a handler, where C has `float` and \
     `double`";

impl Checker<'_> {
    /// Returns true for the floats of clip.p4.
    fn is_float(&self, ty: TyId) -> bool {
        let Ty::NewType(id) = self.ty(ty) else {
            return false;
        };
        let name = self.p.new_types[*id].name.as_str();
        matches!(name, "float32" | "float64")
    }

    pub(super) fn unary(&mut self, op: UnaryOp, operand: &ast::Expr, span: Span) -> Expr {
        let operand = self.expr(operand, None);
        if operand.ty == self.t.error {
            return self.poison(span);
        }
        if op == UnaryOp::Not {
            return self.logical_not(operand, span);
        }
        let operand = self.underlying_of(operand);
        let allowed = match self.num(operand.ty) {
            None => false,
            Some(Num::Integer) if op == UnaryOp::Complement => {
                let message = "`~` needs an operand with a width, but this is an `int`";
                self.report(
                    Diagnostic::error(code::BAD_OPERAND, span, message)
                        .hint("give it a width, as in `32w1`"),
                );
                return self.poison(span);
            }
            Some(_) => true,
        };
        if !allowed {
            let message = format!(
                "`{}` is not defined for {}",
                unary_symbol(op),
                self.show(operand.ty)
            );
            let mut diagnostic = Diagnostic::error(code::BAD_OPERAND, span, message);
            if self.is_float(operand.ty) {
                diagnostic = diagnostic.hint(FLOAT_HINT);
            }
            self.report(diagnostic);
            return self.poison(span);
        }
        let ty = operand.ty;
        if let Some(value) = self.int_value(&operand) {
            return self.fold_unary(op, &value, ty, span);
        }
        Expr {
            kind: ExprKind::Unary(op, Box::new(operand)),
            ty,
            span,
        }
    }

    fn logical_not(&mut self, operand: Expr, span: Span) -> Expr {
        if operand.ty != self.t.boolean {
            let message = format!("`!` needs a `bool`, but this is {}", self.show(operand.ty));
            return self.fail(code::BAD_OPERAND, span, message);
        }
        let kind = match operand.kind {
            ExprKind::Bool(value) => ExprKind::Bool(!value),
            _ => ExprKind::Unary(UnaryOp::Not, Box::new(operand)),
        };
        Expr {
            kind,
            ty: self.t.boolean,
            span,
        }
    }

    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        a: &ast::Expr,
        b: &ast::Expr,
        span: Span,
    ) -> Expr {
        let a = self.expr(a, None);
        let hint = if self.is_untyped(&a) {
            None
        } else {
            Some(a.ty)
        };
        let b = self.expr(b, hint);
        self.binary_of(op, a, b, span)
    }

    /// Checks a binary operation on typed operands.
    pub(crate) fn binary_of(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        use BinaryOp::*;
        if a.ty == self.t.error || b.ty == self.t.error {
            return self.poison(span);
        }
        match op {
            LogicalAnd | LogicalOr => self.logical(op, a, b, span),
            Eq | Ne => self.equality(op, a, b, span),
            Lt | Le | Gt | Ge => self.ordering(op, a, b, span),
            Shl | Shr => self.shift(op, a, b, span),
            Concat => self.concat(a, b, span),
            Mask | Range => self.set(op, a, b, span),
            Mul | Div | Mod | Add | Sub | AddSat | SubSat | And | Or | Xor => {
                self.arithmetic(op, a, b, span)
            }
        }
    }

    fn bad_operands(&mut self, op: BinaryOp, a: &Expr, b: &Expr, span: Span) -> Expr {
        let (left, right) = (self.show(a.ty), self.show(b.ty));
        let message = format!("`{}` is not defined for {left} and {right}", symbol(op));
        let mut diagnostic = Diagnostic::error(code::BAD_OPERAND, span, message);
        let strings = a.ty == self.t.string && b.ty == self.t.string;
        if strings && op == BinaryOp::Add {
            diagnostic = diagnostic.hint("strings are joined by `++`");
        } else if matches!((self.num(a.ty), self.num(b.ty)), (Some(_), Some(_))) {
            diagnostic = diagnostic.hint("cast one operand to the type of the other");
        } else if self.is_float(a.ty) || self.is_float(b.ty) {
            diagnostic = diagnostic.hint(FLOAT_HINT);
        } else if matches!(self.ty(a.ty), Ty::NewType(_)) || matches!(self.ty(b.ty), Ty::NewType(_))
        {
            diagnostic = diagnostic.hint("cast to the underlying type first");
        }
        self.report(diagnostic);
        self.poison(span)
    }

    fn logical(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        let boolean = self.t.boolean;
        if a.ty != boolean || b.ty != boolean {
            return self.bad_operands(op, &a, &b, span);
        }
        let neutral = op == BinaryOp::LogicalAnd;
        let kind = match (&a.kind, &b.kind) {
            (ExprKind::Bool(x), _) if *x != neutral => ExprKind::Bool(*x),
            (ExprKind::Bool(_), _) => b.kind,
            (_, ExprKind::Bool(y)) if *y == neutral => a.kind,
            _ => ExprKind::Binary(op, Box::new(a), Box::new(b)),
        };
        Expr {
            kind,
            ty: boolean,
            span,
        }
    }

    fn equality(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        let (a, b) = self.balance(a, b);
        if a.ty == self.t.error || b.ty == self.t.error {
            return self.poison(span);
        }
        if a.ty != b.ty || !self.is_comparable(a.ty) {
            let (left, right) = (self.show(a.ty), self.show(b.ty));
            let message = if a.ty == b.ty {
                format!("values of type {left} cannot be compared")
            } else {
                format!("{left} cannot be compared to {right}")
            };
            return self.fail(code::BAD_OPERAND, span, message);
        }
        let boolean = self.t.boolean;
        let known = self
            .fold_equal(&a, &b)
            .map(|equal| ExprKind::Bool(equal == (op == BinaryOp::Eq)));
        let kind = known.unwrap_or_else(|| ExprKind::Binary(op, Box::new(a), Box::new(b)));
        Expr {
            kind,
            ty: boolean,
            span,
        }
    }

    /// Returns true if values of the type can be compared for equality.
    pub(crate) fn is_comparable(&mut self, ty: TyId) -> bool {
        match self.ty(ty).clone() {
            Ty::Error => true,
            Ty::Record(id, args) => (0..self.p.records[id].fields.len()).all(|i| {
                let field = self.field_type(id, &args, i);
                self.is_comparable(field)
            }),
            Ty::Tuple(elements) => elements.iter().all(|&element| self.is_comparable(element)),
            Ty::Stack(element, _) => self.is_comparable(element),
            Ty::Var(_) | Ty::List(_) => false,
            _ => self.is_value(ty),
        }
    }

    fn ordering(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        let (a, b) = self.numeric_pair(a, b);
        if a.ty == self.t.error || b.ty == self.t.error {
            return self.poison(span);
        }
        if a.ty != b.ty || self.num(a.ty).is_none() {
            return self.bad_operands(op, &a, &b, span);
        }
        let kind = match (self.int_value(&a), self.int_value(&b)) {
            (Some(x), Some(y)) => ExprKind::Bool(match op {
                BinaryOp::Lt => x < y,
                BinaryOp::Le => x <= y,
                BinaryOp::Gt => x > y,
                _ => x >= y,
            }),
            _ => ExprKind::Binary(op, Box::new(a), Box::new(b)),
        };
        Expr {
            kind,
            ty: self.t.boolean,
            span,
        }
    }

    /// Converts operands of a numeric operator: enums become their underlying type.
    fn numeric_pair(&mut self, a: Expr, b: Expr) -> (Expr, Expr) {
        let a = self.underlying_of(a);
        let b = self.underlying_of(b);
        self.balance(a, b)
    }

    fn arithmetic(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        use BinaryOp::*;
        // Checked before a literal takes the width of the other operand, and wraps.
        if matches!(op, Div | Mod) && !self.check_signs(op, &a, &b, span) {
            return self.poison(span);
        }
        let (a, b) = self.numeric_pair(a, b);
        if a.ty == self.t.error || b.ty == self.t.error {
            return self.poison(span);
        }
        let ty = a.ty;
        let num = match self.num(ty) {
            Some(num) if a.ty == b.ty => num,
            _ => return self.bad_operands(op, &a, &b, span),
        };
        if num == Num::Integer && matches!(op, AddSat | SubSat) {
            let message = format!(
                "`{}` needs operands with a width, but these are of type `int`",
                symbol(op)
            );
            self.report(
                Diagnostic::error(code::BAD_OPERAND, span, message)
                    .hint("give one a width, as in `32w5`"),
            );
            return self.poison(span);
        }
        if matches!(op, Div | Mod) && !self.check_division(op, &a, &b, num, span) {
            return self.poison(span);
        }
        if let (Some(x), Some(y)) = (self.int_value(&a), self.int_value(&b)) {
            return self
                .fold_arithmetic(op, &x, &y, ty, span)
                .unwrap_or_else(|| self.poison(span));
        }
        Expr {
            kind: ExprKind::Binary(op, Box::new(a), Box::new(b)),
            ty,
            span,
        }
    }

    fn check_division(&mut self, op: BinaryOp, a: &Expr, b: &Expr, num: Num, span: Span) -> bool {
        let word = if op == BinaryOp::Div {
            "division"
        } else {
            "modulo"
        };
        if let Num::Int(_) = num {
            let message = format!(
                "{word} is not defined for the signed type {}",
                self.show(a.ty)
            );
            self.error(code::BAD_OPERAND, span, message);
            return false;
        }
        if self
            .int_value(b)
            .is_some_and(|divisor| divisor == num_bigint::BigInt::ZERO)
        {
            self.error(code::CONST_EVAL, span, format!("{word} by zero"));
            return false;
        }
        true
    }

    /// Checks the signs: division and modulo are defined only for positive numbers.
    fn check_signs(&mut self, op: BinaryOp, a: &Expr, b: &Expr, span: Span) -> bool {
        let word = if op == BinaryOp::Div {
            "division"
        } else {
            "modulo"
        };
        let negative = |e: &Expr| self.int_value(e).is_some_and(|value| value.is_negative());
        if negative(a) || negative(b) {
            let message = format!("{word} is not defined for negative numbers");
            self.error(code::CONST_EVAL, span, message);
            return false;
        }
        true
    }

    fn shift(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        let a = self.underlying_of(a);
        let b = self.underlying_of(b);
        let Some(num) = self.num(a.ty) else {
            let message = format!(
                "the left operand of `{}` must be a number, not {}",
                symbol(op),
                self.show(a.ty)
            );
            return self.fail(code::BAD_OPERAND, a.span.to(span), message);
        };
        let amount = self.int_value(&b);
        let right_fits = match self.num(b.ty) {
            Some(Num::Bit(_)) => true,
            Some(Num::Integer | Num::Int(_)) => amount.is_some() || self.is_compile_time(&b),
            None => false,
        };
        if !right_fits {
            let message = format!(
                "the right operand of `{}` must be a `bit<w>` or a constant that is not negative, not {}",
                symbol(op),
                self.show(b.ty)
            );
            return self.fail(code::BAD_OPERAND, span, message);
        }
        if amount.as_ref().is_some_and(Signed::is_negative) {
            return self.fail(
                code::CONST_EVAL,
                span,
                "shifts by negative amounts are not allowed",
            );
        }
        if num == Num::Integer && !self.is_compile_time(&b) {
            let message = "the width of the result is not known: the left operand is an integer without width";
            self.report(
                Diagnostic::error(code::NOT_INFERRED, span, message)
                    .hint("give it a width, as in `32w1 << x`"),
            );
            return self.poison(span);
        }
        let ty = a.ty;
        if let (Some(x), Some(by)) = (self.int_value(&a), &amount) {
            return self
                .fold_shift(op, &x, by, ty, span)
                .unwrap_or_else(|| self.poison(span));
        }
        if let (Some(by), Num::Bit(w) | Num::Int(w)) = (&amount, num)
            && *by >= w.into()
            && w > 0
        {
            self.warn(
                code::W_OVERFLOW,
                span,
                format!("shifting a value of {w} bits by {by}"),
            );
        }
        Expr {
            kind: ExprKind::Binary(op, Box::new(a), Box::new(b)),
            ty,
            span,
        }
    }

    fn concat(&mut self, a: Expr, b: Expr, span: Span) -> Expr {
        let op = BinaryOp::Concat;
        if let (ExprKind::String(x), ExprKind::String(y)) = (&a.kind, &b.kind) {
            if x.len() + y.len() > MAX_STRING {
                return self.fail(code::BAD_SIZE, span, "this string is too long");
            }
            let text = format!("{x}{y}");
            return Expr {
                kind: ExprKind::String(text.into()),
                ty: self.t.string,
                span,
            };
        }
        if a.ty == self.t.string && b.ty == self.t.string {
            return Expr {
                kind: ExprKind::Binary(op, Box::new(a), Box::new(b)),
                ty: self.t.string,
                span,
            };
        }
        let a = self.underlying_of(a);
        let b = self.underlying_of(b);
        let width = |num| match num {
            Some(Num::Bit(w) | Num::Int(w)) => Some(w),
            _ => None,
        };
        let (Some(left), Some(right)) = (width(self.num(a.ty)), width(self.num(b.ty))) else {
            if a.ty == self.t.integer || b.ty == self.t.integer {
                let message = "`++` needs operands with a width, but one is of type `int`";
                let diagnostic = Diagnostic::error(code::BAD_OPERAND, span, message);
                self.report(diagnostic.hint("give it a width, as in `8w1`"));
                return self.poison(span);
            }
            return self.bad_operands(op, &a, &b, span);
        };
        let total = left.saturating_add(right);
        if total > crate::types::MAX_WIDTH {
            let message = format!(
                "the result has {total} bits; at most {} are supported",
                crate::types::MAX_WIDTH
            );
            return self.fail(code::BAD_SIZE, span, message);
        }
        let signed = matches!(self.num(a.ty), Some(Num::Int(_)));
        let ty = self.intern(if signed {
            Ty::Int(total)
        } else {
            Ty::Bit(total)
        });
        if let (Some(x), Some(y)) = (self.int_value(&a), self.int_value(&b)) {
            let joined = (x << right) | crate::consteval::unsigned(&y, right);
            return self.computed(&joined, ty, span);
        }
        Expr {
            kind: ExprKind::Binary(op, Box::new(a), Box::new(b)),
            ty,
            span,
        }
    }

    /// Checks a set: `a &&& b` or `a .. b`.
    fn set(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        let (a, b) = if a.ty == b.ty {
            (a, b)
        } else {
            self.numeric_pair(a, b)
        };
        if a.ty == self.t.error || b.ty == self.t.error {
            return self.poison(span);
        }
        if a.ty != b.ty
            || self.num(self.base(a.ty)).is_none() && self.enum_underlying(a.ty).is_none()
        {
            return self.bad_operands(op, &a, &b, span);
        }
        let ty = self.intern(Ty::Set(a.ty));
        Expr {
            kind: ExprKind::Binary(op, Box::new(a), Box::new(b)),
            ty,
            span,
        }
    }
}
