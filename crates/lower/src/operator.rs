//! Operators and casts.

use ir::{BinOp, Expr, ScalarTy, UnOp};
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{ToPrimitive, Zero};
use passes::fold;
use sema::hir::{self, Ty, TyId};
use syntax::ast::{BinaryOp, UnaryOp};

use crate::cx::Lower;
use crate::types::value_of;
use crate::value::Rv;

impl Lower<'_> {
    pub(crate) fn unary(&mut self, op: UnaryOp, operand: &hir::Expr, ty: TyId) -> Rv {
        let value = self.value(operand);
        if let (Rv::Int(number), None) = (&value, self.scalar(ty)) {
            return Rv::Int(match op {
                UnaryOp::Neg => -number,
                UnaryOp::Plus | UnaryOp::Not => number.clone(),
                UnaryOp::Complement => -number - 1,
            });
        }
        let value = self.scalar_value(&value, ty);
        let op = match op {
            UnaryOp::Plus => return Rv::Scalar(value),
            UnaryOp::Neg => UnOp::Neg,
            UnaryOp::Complement => UnOp::Complement,
            UnaryOp::Not => UnOp::Not,
        };
        Rv::Scalar(fold::fold(Expr::Unary(op, Box::new(value))))
    }

    pub(crate) fn binary(
        &mut self,
        op: BinaryOp,
        left: &hir::Expr,
        right: &hir::Expr,
        ty: TyId,
    ) -> Rv {
        let values = self.values(&[left, right]);
        let [a, b] = values.as_slice() else {
            return Rv::Default;
        };
        self.binary_values(op, (a, left.ty), (b, right.ty), ty)
    }

    /// Lowers `a op b` of type `ty`.
    pub(crate) fn binary_values(
        &mut self,
        op: BinaryOp,
        (a, a_ty): (&Rv, TyId),
        (b, b_ty): (&Rv, TyId),
        ty: TyId,
    ) -> Rv {
        if let (Rv::Int(a), Rv::Int(b)) = (a, b) {
            return integers(op, a, b);
        }
        match op {
            BinaryOp::Eq => return Rv::Scalar(self.equal_typed(a, a_ty, b, b_ty)),
            BinaryOp::Ne => return Rv::Scalar(fold::not(self.equal_typed(a, a_ty, b, b_ty))),
            BinaryOp::Concat => {
                let (a, b) = (self.scalar_value(a, a_ty), self.scalar_value(b, b_ty));
                return Rv::Scalar(fold::fold(Expr::Concat(Box::new(a), Box::new(b))));
            }
            BinaryOp::Shl | BinaryOp::Shr => {
                let (a, b) = (self.scalar_value(a, ty), self.shift_amount(b, b_ty));
                let op = if op == BinaryOp::Shl {
                    BinOp::Shl
                } else {
                    BinOp::Shr
                };
                return Rv::Scalar(fold::fold(Expr::Binary(op, Box::new(a), Box::new(b))));
            }
            _ => {}
        }
        let Some(op) = scalar_op(op) else {
            return Rv::Default;
        };
        // An operand of type `int` takes the other's type.
        let operand_ty = if self.scalar(a_ty).is_some() {
            a_ty
        } else {
            b_ty
        };
        let (a, b) = match (self.scalar(operand_ty), a, b) {
            // `(int) x + 1` with a run-time `x`: computed in the type of `x`. A cast back gives the
            // same result.
            (None, Rv::Scalar(a), b) => (a.clone(), self.number_like(b, a)),
            (None, a, Rv::Scalar(b)) => (self.number_like(a, b), b.clone()),
            _ => (
                self.scalar_value(a, operand_ty),
                self.scalar_value(b, operand_ty),
            ),
        };
        Rv::Scalar(fold::fold(Expr::Binary(op, Box::new(a), Box::new(b))))
    }

    /// Converts a value of type `int` to the type of `other`.
    fn number_like(&mut self, value: &Rv, other: &Expr) -> Expr {
        let ty = self.expr_ty(other);
        match value {
            Rv::Int(number) => Expr::Const(ty, value_of(number, ty.width())),
            Rv::Scalar(expr) if self.expr_ty(expr) == ty => expr.clone(),
            Rv::Scalar(expr) => fold::fold(Expr::Cast(ty, Box::new(expr.clone()))),
            _ => Expr::Const(ty, bits::Value::zero(ty.width())),
        }
    }

    fn equal_typed(&mut self, a: &Rv, a_ty: TyId, b: &Rv, b_ty: TyId) -> Expr {
        let a_peeled = self.peel(a_ty);
        let ty = if matches!(self.ty(a_peeled), Ty::Integer) {
            b_ty
        } else {
            a_ty
        };
        match (a, b) {
            (Rv::Str(a), Rv::Str(b)) => fold::bool_const(a == b),
            _ => {
                let ty = self.subst(ty);
                self.equal(a, b, ty)
            }
        }
    }

    /// Returns the amount of a shift: any `bit`.
    fn shift_amount(&mut self, value: &Rv, ty: TyId) -> Expr {
        match value {
            Rv::Int(number) => self.int_const(number),
            value => match self.scalar_value(value, ty) {
                Expr::Const(_, value) => Expr::Const(ScalarTy::Bit(value.width()), value),
                other => other,
            },
        }
    }

    /// Lowers a cast to `ty`.
    pub(crate) fn cast(&mut self, operand: &hir::Expr, ty: TyId) -> Rv {
        let value = self.value(operand);
        let from_ty = self.subst(operand.ty);
        self.convert(value, from_ty, ty)
    }

    /// Converts a value to another type.
    pub(crate) fn convert(&mut self, value: Rv, from_ty: TyId, ty: TyId) -> Rv {
        let Some(to) = self.scalar(ty) else {
            let peeled = self.peel(ty);
            return match (value, self.ty(peeled).clone()) {
                (Rv::Scalar(Expr::Const(from, value)), Ty::Integer) => {
                    Rv::Int(number(&value, from.is_signed()))
                }
                // A list becomes a header by its parts; other aggregates have the same parts.
                (Rv::List(parts), _)
                    if self.record_kind(ty) == Some(syntax::ast::RecordKind::Header) =>
                {
                    Rv::Header(self.convert_parts(parts, from_ty, ty))
                }
                (Rv::List(parts), _) => Rv::List(self.convert_parts(parts, from_ty, ty)),
                (value @ Rv::Place(_), _) if self.subst(from_ty) != self.subst(ty) => {
                    self.reshape(&value, from_ty, ty)
                }
                (value, _) => value,
            };
        };
        match value {
            Rv::Int(number) => Rv::Scalar(Expr::Const(to, value_of(&number, to.width()))),
            Rv::Scalar(expr) => {
                let from = self.expr_ty(&expr);
                Rv::Scalar(if from == to {
                    expr
                } else {
                    fold::fold(Expr::Cast(to, Box::new(expr)))
                })
            }
            // A struct with one field can be cast to that field's type (section 8.11.1).
            value @ (Rv::List(_) | Rv::Place(_)) if !matches!(to, ScalarTy::Varbit(_)) => {
                match self.part_types(from_ty).first().copied() {
                    Some(part_ty) => {
                        let part = self.part(&value, from_ty, 0);
                        self.convert(part, part_ty, ty)
                    }
                    None => value,
                }
            }
            other => other,
        }
    }

    fn convert_parts(&mut self, parts: Vec<Rv>, from_ty: TyId, ty: TyId) -> Vec<Rv> {
        let (from, to) = (self.part_types(from_ty), self.part_types(ty));
        let typed = parts.into_iter().enumerate();
        typed
            .map(|(i, part)| match (from.get(i), to.get(i)) {
                (Some(&from), Some(&to)) => self.convert(part, from, to),
                _ => part,
            })
            .collect()
    }

    /// Converts a stored aggregate to another type with the same parts.
    fn reshape(&mut self, value: &Rv, from_ty: TyId, ty: TyId) -> Rv {
        let parts = self.parts(value, from_ty);
        let parts = self.convert_parts(parts, from_ty, ty);
        match self.record_kind(ty) {
            Some(syntax::ast::RecordKind::Header) => Rv::Header(parts),
            _ => Rv::List(parts),
        }
    }
}

fn scalar_op(op: BinaryOp) -> Option<BinOp> {
    Some(match op {
        BinaryOp::Add => BinOp::Add,
        BinaryOp::Sub => BinOp::Sub,
        BinaryOp::Mul => BinOp::Mul,
        BinaryOp::Div => BinOp::Div,
        BinaryOp::Mod => BinOp::Mod,
        BinaryOp::AddSat => BinOp::AddSaturating,
        BinaryOp::SubSat => BinOp::SubSaturating,
        BinaryOp::And => BinOp::And,
        BinaryOp::Or => BinOp::Or,
        BinaryOp::Xor => BinOp::Xor,
        BinaryOp::Lt => BinOp::Lt,
        BinaryOp::Le => BinOp::Le,
        BinaryOp::Gt => BinOp::Gt,
        BinaryOp::Ge => BinOp::Ge,
        _ => return None,
    })
}

/// Computes arbitrary-precision arithmetic, which only depends on constructor arguments here.
fn integers(op: BinaryOp, a: &BigInt, b: &BigInt) -> Rv {
    let shift = || b.to_u32().unwrap_or(0);
    let result = match op {
        BinaryOp::Add | BinaryOp::AddSat => a + b,
        BinaryOp::Sub | BinaryOp::SubSat => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div if !b.is_zero() => a.div_floor(b),
        BinaryOp::Mod if !b.is_zero() => a.mod_floor(b),
        BinaryOp::Shl => a << shift(),
        BinaryOp::Shr => a >> shift(),
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::Eq => return Rv::Scalar(fold::bool_const(a == b)),
        BinaryOp::Ne => return Rv::Scalar(fold::bool_const(a != b)),
        BinaryOp::Lt => return Rv::Scalar(fold::bool_const(a < b)),
        BinaryOp::Le => return Rv::Scalar(fold::bool_const(a <= b)),
        BinaryOp::Gt => return Rv::Scalar(fold::bool_const(a > b)),
        BinaryOp::Ge => return Rv::Scalar(fold::bool_const(a >= b)),
        _ => BigInt::zero(),
    };
    Rv::Int(result)
}

/// Returns the number with this bit representation.
pub(crate) fn number(value: &bits::Value, signed: bool) -> BigInt {
    let bytes = value.to_be_bytes();
    let number = BigInt::from_bytes_be(num_bigint::Sign::Plus, &bytes);
    let top = value.width().wrapping_sub(1);
    if signed && value.width() > 0 && number.bit(u64::from(top)) {
        number - (BigInt::from(1) << value.width())
    } else {
        number
    }
}
