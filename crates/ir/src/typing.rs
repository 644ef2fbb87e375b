//! Types of expressions, and strides of header places.

use crate::code::{BinOp, Expr, HeaderPlace, Place, UnOp};
use crate::program::{Action, HeaderId, Program};
use crate::types::ScalarTy;

impl Expr {
    /// Returns its type. `action` is the action with the parameters that it may read. Returns
    /// `None` for an expression that the verifier rejects.
    pub fn ty(&self, program: &Program, action: Option<&Action>) -> Option<ScalarTy> {
        let ty = |expr: &Expr| expr.ty(program, action);
        Some(match self {
            Expr::Const(ty, _) | Expr::Cast(ty, _) => *ty,
            Expr::Read(place) => place.ty(program)?,
            Expr::Param(index) => action?.params.get(*index as usize)?.ty,
            Expr::Unary(UnOp::Not, _) | Expr::VarbitEq(..) => ScalarTy::Bool,
            Expr::Unary(_, operand) => ty(operand)?,
            Expr::Binary(op, left, _) if op.is_predicate() => ty(left).map(|_| ScalarTy::Bool)?,
            Expr::Binary(_, left, _) => ty(left)?,
            Expr::Concat(left, right) => {
                // Each side is typed once: twice would take 2^n steps for n operands.
                let (left, right) = (ty(left)?, ty(right)?);
                let width = left.width().saturating_add(right.width());
                if left.is_signed() {
                    ScalarTy::Int(width)
                } else {
                    ScalarTy::Bit(width)
                }
            }
            Expr::Slice(_, hi, lo) => ScalarTy::Bit(hi.checked_sub(*lo)? + 1),
            Expr::Ternary(_, then, _) => ty(then)?,
            Expr::VarbitLen(_) => ScalarTy::Bit(32),
        })
    }
}

impl Place {
    /// Returns the type of its field.
    pub fn ty(&self, program: &Program) -> Option<ScalarTy> {
        program.fields.get(self.base).map(|field| field.ty)
    }
}

impl BinOp {
    /// Returns true if it yields a `bool`.
    pub fn is_predicate(self) -> bool {
        use BinOp::{Eq, Ge, Gt, Le, LogicalAnd, LogicalOr, Lt, Ne};
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge | LogicalAnd | LogicalOr)
    }
}

impl HeaderPlace {
    /// Returns the distance of two elements in fields, for each of `dims`. Verified code has its
    /// elements at these strides.
    pub fn field_strides(&self, program: &Program) -> Vec<u32> {
        let valid = |id| program.headers.get(id).map(|header| header.valid.get());
        let stride = |dim: &crate::Dim| {
            let second = HeaderId::new(self.base.get().saturating_add(dim.stride));
            valid(second)?.checked_sub(valid(self.base)?)
        };
        // With one element there is no second one, so the stride is never used.
        let of = |dim: &crate::Dim| if dim.len > 1 { stride(dim) } else { None };
        self.dims.iter().map(|dim| of(dim).unwrap_or(0)).collect()
    }
}
