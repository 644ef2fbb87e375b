//! Expressions: lowered to pure expressions of the IR. Calls are hoisted before them, in P4's order
//! of evaluation (section 8.1).

use ir::{BinOp, Expr, ScalarTy, StmtKind};
use num_traits::ToPrimitive;
use passes::fold;
use sema::hir::{self, ApplyMember, Arg, Builtin, Callee, ExprKind, Ty, TyId};
use support::work::checkpoint;
use syntax::ast::{BinaryOp, Direction};

use crate::cx::{Bound, Lower, bits_const};
use crate::types::value_of;
use crate::value::Rv;

/// Maximum depth of generated expressions. Parts of deeper ones are saved in temporaries.
const MAX_DEPTH: u32 = 48;

impl Lower<'_> {
    /// Evaluates an expression. Its calls are appended to the code. The value reads storage at its
    /// use.
    pub(crate) fn value(&mut self, expr: &hir::Expr) -> Rv {
        checkpoint();
        if !self.may_nest() {
            return Rv::Default;
        }
        match self.value_of(expr) {
            Rv::Scalar(value) if fold::depth(&value) > MAX_DEPTH => {
                let ty = self.expr_ty(&value);
                Rv::Scalar(self.save(ty, value))
            }
            value => value,
        }
    }

    fn value_of(&mut self, expr: &hir::Expr) -> Rv {
        match &expr.kind {
            ExprKind::Int(number) => match self.scalar(expr.ty) {
                Some(scalar) => Rv::Scalar(Expr::Const(scalar, value_of(number, scalar.width()))),
                None => Rv::Int(number.clone()),
            },
            ExprKind::Bool(value) => Rv::Scalar(fold::bool_const(*value)),
            ExprKind::String(text) => Rv::Str(text.clone()),
            ExprKind::EnumMember(id, index) => self.enum_member(*id, *index),
            ExprKind::ErrorCode(id) => {
                let name = self.hir.errors[*id].as_str();
                Rv::Scalar(self.error_const(name))
            }
            ExprKind::Var(var) => match self.vars.get(var) {
                Some(Bound::Place(place)) => {
                    let place = place.clone();
                    self.load(&place)
                }
                Some(Bound::Value(Rv::Int(number))) => {
                    let number = Rv::Int(number.clone());
                    match self.scalar(expr.ty) {
                        Some(_) => Rv::Scalar(self.scalar_value(&number, expr.ty)),
                        None => number,
                    }
                }
                Some(Bound::Value(value)) => value.clone(),
                None => self.unsupported(expr.span, "this has no value here"),
            },
            ExprKind::Instance(instance) => Rv::Instance(self.node_of(*instance)),
            ExprKind::This => self
                .this
                .last()
                .map_or(Rv::Default, |&node| Rv::Instance(node)),
            ExprKind::Field(base, index) => self.field_value(expr, base, *index),
            ExprKind::Index(base, index) => self.index_value(expr, base, index),
            ExprKind::StackNext(_) | ExprKind::StackLast(_) => match self.place(expr) {
                Some(place) => self.load(&place),
                None => self.unsupported(expr.span, "this is not an element of a stack variable"),
            },
            ExprKind::StackLastIndex(base) => {
                match self.place(base).and_then(|place| place.next_index()) {
                    Some(next) => {
                        let one = bits_const(1, 32);
                        Rv::Scalar(Expr::Binary(
                            BinOp::Sub,
                            Box::new(Expr::Read(next)),
                            Box::new(one),
                        ))
                    }
                    None => self.unsupported(expr.span, "this is not a stack variable"),
                }
            }
            ExprKind::StackSize(base) => {
                let ty = self.peel(base.ty);
                let len = if let Ty::Stack(_, len) = *self.ty(ty) {
                    len
                } else {
                    0
                };
                Rv::Scalar(bits_const(u64::from(len), 32))
            }
            ExprKind::Slice(base, hi, lo) => {
                let value = self.scalar_of(base);
                Rv::Scalar(fold::fold(Expr::Slice(Box::new(value), *hi, *lo)))
            }
            ExprKind::Unary(op, operand) => self.unary(*op, operand, expr.ty),
            ExprKind::Binary(op @ (BinaryOp::LogicalAnd | BinaryOp::LogicalOr), left, right) => {
                self.short_circuit(*op == BinaryOp::LogicalAnd, left, right)
            }
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right, expr.ty),
            ExprKind::Ternary(cond, then, otherwise) => {
                self.ternary(cond, then, otherwise, expr.ty)
            }
            ExprKind::Cast(operand) => self.cast(operand, expr.ty),
            ExprKind::Aggregate(parts) => self.aggregate(parts, expr.ty),
            ExprKind::InvalidHeader => Rv::Invalid,
            ExprKind::Default => match self.scalar(expr.ty) {
                Some(ScalarTy::Varbit(_)) | None => Rv::Default,
                Some(scalar) => Rv::Scalar(Expr::Const(scalar, bits::Value::zero(scalar.width()))),
            },
            ExprKind::Call(call) => self.call(call, expr.ty),
            ExprKind::ApplyResult(table, member) => self.apply_result(*table, *member, expr),
            ExprKind::Table(_) | ExprKind::ActionCall(..) | ExprKind::MatchKind(_) => Rv::Default,
        }
    }

    /// Evaluates a scalar.
    pub(crate) fn scalar_of(&mut self, expr: &hir::Expr) -> Expr {
        let value = self.value(expr);
        self.scalar_value(&value, expr.ty)
    }

    /// Evaluates several expressions from left to right. Each keeps the value of its own
    /// evaluation.
    pub(crate) fn values(&mut self, exprs: &[&hir::Expr]) -> Vec<Rv> {
        // The last expression that may change the value of an earlier one.
        let mut after = exprs.iter().skip(1);
        let last = after.rposition(|expr| self.has_effects(expr));
        let last = last.map(|last| last + 1);
        let mut values = Vec::with_capacity(exprs.len());
        for (index, expr) in exprs.iter().enumerate() {
            checkpoint();
            let value = self.value(expr);
            let disturbed = last.is_some_and(|last| last > index);
            values.push(if disturbed {
                self.save_value(value, expr.ty)
            } else {
                value
            });
        }
        values
    }

    fn enum_member(&mut self, id: hir::EnumId, index: usize) -> Rv {
        let decl = &self.hir.enums[id];
        let value = decl.members.get(index).and_then(|(_, value)| value.clone());
        let ty = self.types.intern(Ty::Enum(id));
        let Some(scalar) = self.scalar(ty) else {
            return Rv::Default;
        };
        let number = value.unwrap_or_else(|| index.into());
        Rv::Scalar(Expr::Const(scalar, value_of(&number, scalar.width())))
    }

    fn field_value(&mut self, expr: &hir::Expr, base: &hir::Expr, index: usize) -> Rv {
        if is_path(base)
            && let Some(place) = self.place(expr)
        {
            return self.load(&place);
        }
        let value = self.value(base);
        let ty = self.subst(base.ty);
        self.part(&value, ty, index)
    }

    fn index_value(&mut self, expr: &hir::Expr, base: &hir::Expr, index: &hir::Expr) -> Rv {
        if is_path(base)
            && !self.has_effects(index)
            && let Some(place) = self.place(expr)
        {
            return self.load(&place);
        }
        let values = self.values(&[base, index]);
        let [base_value, index_value] = values.as_slice() else {
            return Rv::Default;
        };
        let ty = self.peel(base.ty);
        let index = match index_value {
            Rv::Int(number) => bits_const(number.to_u64().unwrap_or(u64::MAX), 64),
            value => self.scalar_value(value, index.ty),
        };
        if let Expr::Const(_, number) = &index
            && let Some(number) = number.to_u64()
            && !matches!(base_value, Rv::Place(_))
        {
            return self.part(
                base_value,
                ty,
                usize::try_from(number).unwrap_or(usize::MAX),
            );
        }
        let place = self.in_storage(base_value.clone(), ty);
        match self.element(&place, index) {
            Some(place) => self.load(&place),
            None => Rv::Default,
        }
    }

    fn short_circuit(&mut self, is_and: bool, left: &hir::Expr, right: &hir::Expr) -> Rv {
        let a = self.scalar_of(left);
        let (code, b) = self.capture(|this| this.scalar_of(right));
        if code.is_empty() {
            return Rv::Scalar(if is_and {
                fold::and(a, b)
            } else {
                fold::or(a, b)
            });
        }
        let result = self.temp_field(ScalarTy::Bool);
        self.emit(StmtKind::Assign(result.into(), a));
        let held = Expr::Read(result.into());
        let (code, ()) = self.capture(|this| {
            this.code.extend(code);
            this.emit(StmtKind::Assign(result.into(), b));
        });
        self.emit_if(
            if is_and {
                held.clone()
            } else {
                fold::not(held.clone())
            },
            code,
            Vec::new(),
        );
        Rv::Scalar(held)
    }

    fn ternary(
        &mut self,
        cond: &hir::Expr,
        then: &hir::Expr,
        otherwise: &hir::Expr,
        ty: TyId,
    ) -> Rv {
        let cond = self.scalar_of(cond);
        let (then_code, a) = self.capture(|this| this.value(then));
        let (else_code, b) = self.capture(|this| this.value(otherwise));
        if then_code.is_empty() && else_code.is_empty() {
            match fold::as_bool(&cond) {
                Some(true) => return a,
                Some(false) => return b,
                None => {}
            }
            if let Some(scalar) = self.scalar(ty)
                && !matches!(scalar, ScalarTy::Varbit(_))
            {
                let (a, b) = (self.scalar_value(&a, ty), self.scalar_value(&b, ty));
                return Rv::Scalar(Expr::Ternary(Box::new(cond), Box::new(a), Box::new(b)));
            }
        }
        let result = self.temp(ty);
        let (then_code, ()) = self.capture(|this| {
            this.code.extend(then_code);
            this.assign(&result, &a, ty);
        });
        let (else_code, ()) = self.capture(|this| {
            this.code.extend(else_code);
            this.assign(&result, &b, ty);
        });
        self.emit_if(cond, then_code, else_code);
        self.load(&result)
    }

    fn aggregate(&mut self, parts: &[hir::Expr], ty: TyId) -> Rv {
        let parts: Vec<&hir::Expr> = parts.iter().collect();
        let parts = self.values(&parts);
        match self.record_kind(ty) {
            Some(syntax::ast::RecordKind::Header) => Rv::Header(parts),
            _ => Rv::List(parts),
        }
    }

    fn apply_result(&mut self, table: hir::TableId, member: ApplyMember, expr: &hir::Expr) -> Rv {
        match member {
            ApplyMember::Hit | ApplyMember::Miss => {
                let hit = self.temp_field(ScalarTy::Bool);
                let outcome = ir::MatchOutcome {
                    hit: Some(hit),
                    action_run: None,
                };
                self.apply_table(table, outcome, expr.span);
                let hit = Expr::Read(hit.into());
                Rv::Scalar(if member == ApplyMember::Hit {
                    hit
                } else {
                    fold::not(hit)
                })
            }
            ApplyMember::ActionRun => self.unsupported(
                expr.span,
                "`action_run` can only be the whole expression of a `switch`",
            ),
        }
    }

    /// Returns true if evaluating an expression may write storage that another expression reads.
    pub(crate) fn has_effects(&self, expr: &hir::Expr) -> bool {
        match &expr.kind {
            ExprKind::Call(call) => self.call_has_effects(call),
            ExprKind::ApplyResult(..) => true,
            ExprKind::Field(base, _)
            | ExprKind::StackNext(base)
            | ExprKind::StackLast(base)
            | ExprKind::StackLastIndex(base)
            | ExprKind::StackSize(base)
            | ExprKind::Slice(base, ..)
            | ExprKind::Unary(_, base)
            | ExprKind::Cast(base) => self.has_effects(base),
            ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => {
                self.has_effects(a) || self.has_effects(b)
            }
            ExprKind::Ternary(a, b, c) => {
                self.has_effects(a) || self.has_effects(b) || self.has_effects(c)
            }
            ExprKind::Aggregate(parts) => parts.iter().any(|part| self.has_effects(part)),
            _ => false,
        }
    }

    fn call_has_effects(&self, call: &hir::Call) -> bool {
        let args = |params: &[hir::Param]| {
            let mut pairs = params.iter().zip(&call.args);
            pairs.any(|(param, arg)| {
                let writes = matches!(
                    self.hir.vars[param.var].kind,
                    hir::VarKind::Param(Direction::Out | Direction::InOut)
                );
                writes || matches!(arg, Arg::Expr(expr) if self.has_effects(expr))
            })
        };
        match &call.callee {
            Callee::Builtin(
                Builtin::SetValid | Builtin::SetInvalid | Builtin::PushFront | Builtin::PopFront,
                _,
            ) => true,
            Callee::Builtin(_, object) => self.has_effects(object),
            Callee::Function(id) => args(&self.hir.functions[*id].proto.params),
            Callee::ExternFunction(id) => args(&self.hir.extern_functions[*id].params),
            Callee::ExternMethod {
                extern_id, method, ..
            } => {
                let method = &self.hir.externs[*extern_id].methods[*method];
                method.is_abstract || args(&method.proto.params)
            }
            Callee::Action(_) | Callee::Table(_) | Callee::Apply(_) => true,
        }
    }
}

/// Returns true if an expression is a path (a variable with members and elements): it may name
/// storage.
pub(crate) fn is_path(expr: &hir::Expr) -> bool {
    match &expr.kind {
        ExprKind::Var(_) => true,
        ExprKind::Field(base, _)
        | ExprKind::Index(base, _)
        | ExprKind::StackNext(base)
        | ExprKind::StackLast(base) => is_path(base),
        _ => false,
    }
}
