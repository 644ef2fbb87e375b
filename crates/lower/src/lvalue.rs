//! L-values: destinations of assignments and of `out` and `inout` arguments.

use ir::{BinOp, Expr, StmtKind};
use passes::fold;
use sema::hir::{self, Arg, ExprKind, TyId};

use crate::cx::{Bound, Lower, bits_const};
use crate::storage::Place;
use crate::value::Rv;

/// A destination.
#[derive(Clone, Debug)]
pub(crate) enum Lvalue {
    /// A place.
    Place(Place),
    /// Bits of a scalar place.
    Slice(Place, u32, u32),
    /// None: an omitted argument.
    Discard,
}

impl Lower<'_> {
    /// Returns the destination that an expression names. Indices are evaluated now, but read when
    /// the destination is used; see [`Lower::settle`].
    pub(crate) fn lvalue(&mut self, expr: &hir::Expr) -> Lvalue {
        match &expr.kind {
            ExprKind::Slice(base, hi, lo) => match self.lvalue(base) {
                Lvalue::Place(place) => Lvalue::Slice(place, *hi, *lo),
                Lvalue::Slice(place, _, low) => Lvalue::Slice(place, low + hi, low + lo),
                Lvalue::Discard => Lvalue::Discard,
            },
            _ => self.place(expr).map_or(Lvalue::Discard, Lvalue::Place),
        }
    }

    /// Returns the storage that an expression names; `None` for a value without storage.
    pub(crate) fn place(&mut self, expr: &hir::Expr) -> Option<Place> {
        match &expr.kind {
            ExprKind::Var(var) => match self.vars.get(var)? {
                Bound::Place(place) | Bound::Value(Rv::Place(place)) => Some(place.clone()),
                Bound::Value(_) => None,
            },
            ExprKind::Field(base, index) => {
                let base = self.place(base)?;
                self.member(&base, *index)
            }
            ExprKind::Index(base, index) => {
                let base = self.place(base)?;
                let index_ty = index.ty;
                let index = self.value(index);
                let index = self.scalar_value(&index, index_ty);
                self.element(&base, index)
            }
            ExprKind::StackNext(base) => {
                let base = self.place(base)?;
                let next = Expr::Read(base.next_index()?);
                self.check_bounds(&base, next.clone());
                self.element(&base, next)
            }
            ExprKind::StackLast(base) => {
                let base = self.place(base)?;
                let next = Expr::Read(base.next_index()?);
                let one = bits_const(1, 32);
                let last = Expr::Binary(BinOp::Sub, Box::new(next), Box::new(one));
                self.check_bounds(&base, last.clone());
                self.element(&base, last)
            }
            _ => None,
        }
    }

    /// Checks a stack index. In a parser an index out of range is an error (section 8.18).
    fn check_bounds(&mut self, stack: &Place, index: Expr) {
        if self.mode == crate::cx::Mode::Parser {
            let len = bits_const(stack.parts().len() as u64, 32);
            let inside = Expr::Binary(BinOp::Lt, Box::new(index), Box::new(len));
            let error = self.error_const("StackOutOfBounds");
            self.emit(StmtKind::Verify(inside, error));
        }
    }

    /// Returns the destination of an argument.
    pub(crate) fn arg_lvalue(&mut self, arg: &Arg) -> Lvalue {
        match arg {
            Arg::Expr(expr) => self.lvalue(expr),
            Arg::Omitted => Lvalue::Discard,
        }
    }

    /// Returns the same destination with saved indices.
    pub(crate) fn settle_lvalue(&mut self, lvalue: Lvalue) -> Lvalue {
        match lvalue {
            Lvalue::Place(place) => Lvalue::Place(self.settle(&place)),
            Lvalue::Slice(place, hi, lo) => Lvalue::Slice(self.settle(&place), hi, lo),
            Lvalue::Discard => Lvalue::Discard,
        }
    }

    /// Returns the current value of a destination.
    pub(crate) fn load_lvalue(&mut self, lvalue: &Lvalue) -> Rv {
        match lvalue {
            Lvalue::Place(place) => self.load(place),
            Lvalue::Slice(place, hi, lo) => match place.scalar() {
                Some((place, _)) => Rv::Scalar(fold::fold(Expr::Slice(
                    Box::new(Expr::Read(place)),
                    *hi,
                    *lo,
                ))),
                None => Rv::Default,
            },
            Lvalue::Discard => Rv::Default,
        }
    }

    /// Writes a destination.
    pub(crate) fn store(&mut self, lvalue: &Lvalue, value: &Rv, ty: TyId) {
        match lvalue {
            Lvalue::Place(place) => self.assign(place, value, ty),
            Lvalue::Slice(place, hi, lo) => {
                let value = self.scalar_value(value, ty);
                if let Some((place, _)) = place.scalar() {
                    self.emit(StmtKind::AssignSlice(place, *hi, *lo, value));
                }
            }
            Lvalue::Discard => {}
        }
    }

    /// Returns a scalar place for an extern to write, and true if it must be stored afterwards.
    pub(crate) fn out_place(&mut self, lvalue: &Lvalue, ty: TyId) -> (Place, bool) {
        match lvalue {
            Lvalue::Place(place) => (place.clone(), false),
            Lvalue::Slice(..) => (self.temp(ty), true),
            Lvalue::Discard => (self.temp(ty), false),
        }
    }
}
