//! The type of an expression, and where the elements of a header place lie.

use crate::code::{BinOp, Expr, HeaderPlace, Place, UnOp};
use crate::program::{Action, HeaderId, Program};
use crate::types::ScalarTy;

impl Expr {
    /// Its type. `action` is the action whose parameters it may read. `None` for an expression that the verifier would refuse.
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
                // Each side is asked for once: twice is 2^n for n operands.
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
    /// The type of what it holds.
    pub fn ty(&self, program: &Program) -> Option<ScalarTy> {
        program.fields.get(self.base).map(|field| field.ty)
    }
}

impl BinOp {
    /// Whether it gives a `bool`.
    pub fn is_predicate(self) -> bool {
        use BinOp::{Eq, Ge, Gt, Le, LogicalAnd, LogicalOr, Lt, Ne};
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge | LogicalAnd | LogicalOr)
    }
}

impl HeaderPlace {
    /// How many fields lie between two elements, for each of `dims`. In verified code every element is where these strides say.
    pub fn field_strides(&self, program: &Program) -> Vec<u32> {
        let valid = |id| program.headers.get(id).map(|header| header.valid.get());
        let stride = |dim: &crate::Dim| {
            let second = HeaderId::new(self.base.get().saturating_add(dim.stride));
            valid(second)?.checked_sub(valid(self.base)?)
        };
        // With one element there is no second one, and the stride is never used.
        let of = |dim: &crate::Dim| if dim.len > 1 { stride(dim) } else { None };
        self.dims.iter().map(|dim| of(dim).unwrap_or(0)).collect()
    }
}
