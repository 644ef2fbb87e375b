//! L-values: expressions that may be assigned to or passed as `out` and `inout` (section
//! "L-values").

use syntax::ast::Direction;
use syntax::diag::Diagnostic;

use crate::hir::{Expr, ExprKind, VarKind};
use crate::{Checker, code};

impl Checker<'_> {
    /// Reports an expression that is not an l-value, and returns true if it is one. `what` names
    /// the construct that needs it.
    pub(crate) fn require_lvalue(&mut self, e: &Expr, what: &str) -> bool {
        if e.ty == self.t.error {
            return false;
        }
        let Err(reason) = self.lvalue(e) else {
            return true;
        };
        let message = format!("{what} must be an l-value: {reason}");
        let mut diagnostic = Diagnostic::error(code::NOT_LVALUE, e.span, message);
        if let Some(&span) = self
            .root_variable(e)
            .and_then(|var| self.var_spans.get(&var))
        {
            diagnostic = diagnostic.label(span, "declared here");
        }
        self.report(diagnostic);
        false
    }

    fn root_variable(&self, e: &Expr) -> Option<crate::hir::VarId> {
        match &e.kind {
            ExprKind::Var(var) => Some(*var),
            ExprKind::Field(inner, _)
            | ExprKind::Index(inner, _)
            | ExprKind::StackNext(inner)
            | ExprKind::StackLast(inner)
            | ExprKind::Slice(inner, ..) => self.root_variable(inner),
            _ => None,
        }
    }

    fn lvalue(&self, e: &Expr) -> Result<(), String> {
        match &e.kind {
            ExprKind::Var(var) => {
                let var = &self.p.vars[*var];
                let name = var.name.as_str();
                match var.kind {
                    VarKind::Local | VarKind::Param(Direction::Out | Direction::InOut) => Ok(()),
                    VarKind::Param(Direction::In) => {
                        Err(format!("`{name}` is an `in` parameter, which is read-only"))
                    }
                    VarKind::Param(Direction::None) => Err(format!(
                        "`{name}` is a parameter without direction, which is read-only"
                    )),
                    VarKind::CtorParam => Err(format!(
                        "`{name}` is a constructor parameter, which is read-only"
                    )),
                }
            }
            ExprKind::Field(inner, _) | ExprKind::Index(inner, _) | ExprKind::StackNext(inner) => {
                self.lvalue(inner)
            }
            ExprKind::StackLast(inner) => self.lvalue(inner),
            ExprKind::Slice(inner, ..) => self.lvalue(inner),
            ExprKind::Call(_) => Err("the result of a call is a value".into()),
            ExprKind::Cast(_) => Err("the result of a cast is a value".into()),
            ExprKind::Int(_) | ExprKind::Bool(_) | ExprKind::String(_) | ExprKind::Aggregate(_) => {
                Err("this is a constant or a literal".into())
            }
            _ => Err("this is a value".into()),
        }
    }
}
