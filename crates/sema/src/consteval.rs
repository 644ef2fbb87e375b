//! Compile-time evaluation with integers of any size.

use num_bigint::{BigInt, Sign};
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};
use syntax::ast::{BinaryOp, UnaryOp};
use syntax::source::Span;

use crate::hir::{Arg, Call, Callee, Expr, ExprKind, Ty, TyId, VarKind};
use crate::types::{MAX_WIDTH, MAX_WRITTEN, Num};
use crate::{Checker, annotations, code};

/// Returns `value` modulo 2^width, in the range of the type.
pub(crate) fn wrap(value: &BigInt, num: Num) -> BigInt {
    let (width, signed) = match num {
        Num::Integer => return value.clone(),
        Num::Bit(w) => (w, false),
        Num::Int(w) => (w, true),
    };
    let modulus = BigInt::one() << width;
    let low = value.mod_floor(&modulus);
    if signed && width > 0 && low.bit(u64::from(width) - 1) {
        low - modulus
    } else {
        low
    }
}

/// Returns the non-negative number with the two's complement bits of the value.
pub(crate) fn unsigned(value: &BigInt, width: u32) -> BigInt {
    wrap(value, Num::Bit(width))
}

fn clamp(value: BigInt, num: Num) -> BigInt {
    let (least, most) = match num {
        Num::Integer => return value,
        Num::Bit(w) => (BigInt::zero(), (BigInt::one() << w) - 1),
        Num::Int(w) => {
            let half = BigInt::one() << w.saturating_sub(1);
            (-half.clone(), half - 1)
        }
    };
    value.clamp(least, most)
}

impl Checker<'_> {
    /// Returns the integer of a folded expression: a literal, or a member of a serializable enum.
    pub(crate) fn int_value(&self, e: &Expr) -> Option<BigInt> {
        match &e.kind {
            ExprKind::Int(value) => Some(value.clone()),
            ExprKind::EnumMember(id, member) => self.p.enums[*id].members.get(*member)?.1.clone(),
            _ => None,
        }
    }

    /// Returns true if an expression depends neither on run-time values nor on constructor
    /// parameters.
    pub(crate) fn is_literal(&self, e: &Expr) -> bool {
        match &e.kind {
            ExprKind::Int(_)
            | ExprKind::Bool(_)
            | ExprKind::String(_)
            | ExprKind::EnumMember(..)
            | ExprKind::ErrorCode(_)
            | ExprKind::MatchKind(_)
            | ExprKind::InvalidHeader
            | ExprKind::Default => true,
            ExprKind::Aggregate(elements) => {
                elements.iter().all(|element| self.is_literal(element))
            }
            ExprKind::Cast(inner) => self.is_literal(inner),
            _ => e.ty == self.t.error,
        }
    }

    /// Returns true if an expression is compile-time known: made of literals, constructor
    /// parameters and instances.
    pub(crate) fn is_compile_time(&self, e: &Expr) -> bool {
        match &e.kind {
            ExprKind::Var(var) => match self.p.vars[*var].kind {
                VarKind::CtorParam => true,
                VarKind::Param(direction) => direction == syntax::ast::Direction::None,
                VarKind::Local => false,
            },
            ExprKind::Instance(_) | ExprKind::This | ExprKind::StackSize(_) => true,
            ExprKind::Aggregate(elements) => {
                elements.iter().all(|element| self.is_compile_time(element))
            }
            ExprKind::Field(inner, _)
            | ExprKind::Slice(inner, ..)
            | ExprKind::Unary(_, inner)
            | ExprKind::Cast(inner) => self.is_compile_time(inner),
            ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => {
                self.is_compile_time(a) && self.is_compile_time(b)
            }
            ExprKind::Ternary(a, b, c) => [a, b, c].into_iter().all(|e| self.is_compile_time(e)),
            ExprKind::Call(call) if self.is_static(call) => call.args.iter().all(|arg| match arg {
                Arg::Expr(e) => self.is_compile_time(e),
                Arg::Omitted => true,
            }),
            ExprKind::Call(call) => matches!(
                call.callee,
                Callee::Builtin(
                    crate::hir::Builtin::MinSizeInBits
                        | crate::hir::Builtin::MinSizeInBytes
                        | crate::hir::Builtin::MaxSizeInBits
                        | crate::hir::Builtin::MaxSizeInBytes,
                    _
                )
            ),
            _ => self.is_literal(e),
        }
    }

    /// Returns true if a call is evaluated at compile time: of a `@pure` extern function, or of one
    /// that creates an object.
    fn is_static(&self, call: &Call) -> bool {
        let Callee::ExternFunction(id) = call.callee else {
            return false;
        };
        let proto = &self.p.extern_functions[id];
        annotations::has(&proto.annotations, "pure") || matches!(self.ty(proto.ret), Ty::Extern(..))
    }

    /// Builds a literal of a type. Wraps it with a warning if it is out of range.
    pub(crate) fn int_literal_of(&mut self, value: &BigInt, ty: TyId, span: Span) -> Expr {
        let num = self.num(self.base(ty)).unwrap_or(Num::Integer);
        if !Self::in_range(value, num) {
            let fitted = wrap(value, num);
            // -1 for the largest unsigned value is customary.
            if !(value.is_negative()
                && matches!(num, Num::Bit(w) if (-value).bits() <= u64::from(w)))
            {
                let message = format!(
                    "{value} does not fit into {}: it becomes {fitted}",
                    self.show(ty)
                );
                self.warn(code::W_OVERFLOW, span, message);
            }
            return Expr {
                kind: ExprKind::Int(fitted),
                ty,
                span,
            };
        }
        Expr {
            kind: ExprKind::Int(value.clone()),
            ty,
            span,
        }
    }

    /// Builds the literal of a computed value. Wraps silently, like run-time arithmetic.
    pub(crate) fn computed(&self, value: &BigInt, ty: TyId, span: Span) -> Expr {
        let num = self.num(self.base(ty)).unwrap_or(Num::Integer);
        Expr {
            kind: ExprKind::Int(wrap(value, num)),
            ty,
            span,
        }
    }

    /// Folds `-e`, `+e`, `~e` of a literal.
    pub(crate) fn fold_unary(&self, op: UnaryOp, value: &BigInt, ty: TyId, span: Span) -> Expr {
        let result = match op {
            UnaryOp::Neg => -value,
            UnaryOp::Complement => -value - 1,
            UnaryOp::Plus | UnaryOp::Not => value.clone(),
        };
        self.computed(&result, ty, span)
    }

    /// Folds an operation on two literals of the same type with a result of that type. Returns
    /// `None` if an error was reported.
    pub(crate) fn fold_arithmetic(
        &mut self,
        op: BinaryOp,
        a: &BigInt,
        b: &BigInt,
        ty: TyId,
        span: Span,
    ) -> Option<Expr> {
        let num = self.num(ty).unwrap_or(Num::Integer);
        let result = match op {
            BinaryOp::Add => a + b,
            BinaryOp::Sub => a - b,
            BinaryOp::Mul => a * b,
            BinaryOp::AddSat => clamp(a + b, num),
            BinaryOp::SubSat => clamp(a - b, num),
            BinaryOp::And => a & b,
            BinaryOp::Or => a | b,
            BinaryOp::Xor => a ^ b,
            BinaryOp::Div | BinaryOp::Mod => return self.fold_division(op, a, b, ty, span),
            _ => return None,
        };
        if num == Num::Integer && result.bits() > u64::from(MAX_WIDTH) {
            let message = format!(
                "the result has {} bits; at most {MAX_WIDTH} are supported",
                result.bits()
            );
            self.error(code::CONST_EVAL, span, message);
            return None;
        }
        Some(self.computed(&result, ty, span))
    }

    fn fold_division(
        &mut self,
        op: BinaryOp,
        a: &BigInt,
        b: &BigInt,
        ty: TyId,
        span: Span,
    ) -> Option<Expr> {
        let word = if op == BinaryOp::Div {
            "division"
        } else {
            "modulo"
        };
        if b.is_zero() {
            self.error(code::CONST_EVAL, span, format!("{word} by zero"));
            return None;
        }
        if a.is_negative() || b.is_negative() {
            self.error(
                code::CONST_EVAL,
                span,
                format!("{word} is not defined for negative numbers"),
            );
            return None;
        }
        let result = if op == BinaryOp::Div { a / b } else { a % b };
        Some(self.computed(&result, ty, span))
    }

    /// Folds a shift of a literal by a non-negative literal.
    pub(crate) fn fold_shift(
        &mut self,
        op: BinaryOp,
        a: &BigInt,
        by: &BigInt,
        ty: TyId,
        span: Span,
    ) -> Option<Expr> {
        let num = self.num(ty).unwrap_or(Num::Integer);
        if op == BinaryOp::Shr {
            let shifted = match by.to_u64().filter(|&n| n <= a.bits()) {
                Some(n) => a >> n,
                None if a.sign() == Sign::Minus => BigInt::from(-1),
                None => BigInt::zero(),
            };
            return Some(self.computed(&shifted, ty, span));
        }
        let amount = by.to_u64();
        match num {
            Num::Integer => match amount
                .filter(|&n| n.saturating_add(a.bits()) <= u64::from(MAX_WIDTH))
            {
                Some(n) => Some(self.computed(&(a << n), ty, span)),
                None => {
                    let message = format!("the result of the shift has more than {MAX_WIDTH} bits");
                    self.error(code::CONST_EVAL, span, message);
                    None
                }
            },
            Num::Bit(w) | Num::Int(w) => {
                let shifted = match amount.filter(|&n| n < u64::from(w)) {
                    Some(n) => a << n,
                    None => BigInt::zero(),
                };
                Some(self.computed(&shifted, ty, span))
            }
        }
    }

    /// Compares two folded values. Returns `None` if one is unknown.
    pub(crate) fn fold_equal(&self, a: &Expr, b: &Expr) -> Option<bool> {
        if let (Some(x), Some(y)) = (self.int_value(a), self.int_value(b)) {
            return Some(x == y);
        }
        match (&a.kind, &b.kind) {
            (ExprKind::Bool(x), ExprKind::Bool(y)) => Some(x == y),
            (ExprKind::String(x), ExprKind::String(y)) => Some(x == y),
            (ExprKind::EnumMember(_, x), ExprKind::EnumMember(_, y)) => Some(x == y),
            (ExprKind::ErrorCode(x), ExprKind::ErrorCode(y)) => Some(x == y),
            (ExprKind::MatchKind(x), ExprKind::MatchKind(y)) => Some(x == y),
            (ExprKind::InvalidHeader, ExprKind::InvalidHeader) => Some(true),
            (ExprKind::Aggregate(_), ExprKind::InvalidHeader)
            | (ExprKind::InvalidHeader, ExprKind::Aggregate(_)) => Some(false),
            (ExprKind::Aggregate(xs), ExprKind::Aggregate(ys)) if xs.len() == ys.len() => {
                let mut all = Some(true);
                for (x, y) in xs.iter().zip(ys) {
                    match self.fold_equal(x, y) {
                        Some(false) => return Some(false),
                        Some(true) => {}
                        None => all = None,
                    }
                }
                all
            }
            _ => None,
        }
    }

    /// Returns the default value of a type as literals; `None` if it has none (section "Default
    /// values").
    pub(crate) fn default_value(&mut self, ty: TyId, span: Span) -> Option<Expr> {
        let kind = match self.ty(ty).clone() {
            Ty::Integer | Ty::Bit(_) | Ty::Int(_) => ExprKind::Int(BigInt::zero()),
            Ty::Bool => ExprKind::Bool(false),
            Ty::String => ExprKind::String("".into()),
            Ty::ErrorCode => ExprKind::ErrorCode(crate::hir::ErrorId::new(0)),
            Ty::Enum(id) if self.p.enums[id].underlying.is_some() => ExprKind::Int(BigInt::zero()),
            Ty::Enum(id) => ExprKind::EnumMember(id, 0),
            Ty::NewType(id) => {
                let inner = self.default_value(self.p.new_types[id].underlying, span)?;
                inner.kind
            }
            Ty::Varbit(_) | Ty::Error | Ty::Var(_) => ExprKind::Default,
            // Too many to be written out one by one.
            Ty::Stack(..) | Ty::Tuple(_) if self.leaves(ty) > MAX_WRITTEN => ExprKind::Default,
            Ty::Record(id, _)
                if self.p.records[id].kind == syntax::ast::RecordKind::Struct
                    && self.leaves(ty) > MAX_WRITTEN =>
            {
                ExprKind::Default
            }
            Ty::Record(id, args) => {
                if self.p.records[id].kind != syntax::ast::RecordKind::Struct {
                    ExprKind::InvalidHeader
                } else {
                    let fields: Option<Vec<Expr>> = (0..self.p.records[id].fields.len())
                        .map(|i| {
                            let field = self.field_type(id, &args, i);
                            self.default_value(field, span)
                        })
                        .collect();
                    ExprKind::Aggregate(fields?)
                }
            }
            Ty::Stack(element, size) => {
                let value = self.default_value(element, span)?;
                ExprKind::Aggregate(vec![value; size as usize])
            }
            Ty::Tuple(elements) => {
                let values: Option<Vec<Expr>> = elements
                    .iter()
                    .map(|&element| self.default_value(element, span))
                    .collect();
                ExprKind::Aggregate(values?)
            }
            _ => return None,
        };
        Some(Expr { kind, ty, span })
    }
}
