//! Type inference: finds the type arguments of a call from its arguments.

use syntax::ast::RecordKind;

use crate::Checker;
use crate::hir::{BlockTypeKind, Expr, ExprKind, Param, Ty, TyId, TypeVarId, VarKind};
use crate::types::Subst;

/// Known type arguments of one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bindings {
    vars: Vec<(TypeVarId, Option<TyId>)>,
    /// Variables that may remain unknown: `_` was written for them.
    free: Vec<TypeVarId>,
}

impl Bindings {
    /// Creates bindings with all of `vars` unknown.
    pub(crate) fn new(vars: impl IntoIterator<Item = TypeVarId>) -> Bindings {
        Bindings {
            vars: vars.into_iter().map(|var| (var, None)).collect(),
            free: Vec::new(),
        }
    }

    /// Returns the binding of a variable; `None` if it is not one of these.
    fn get(&self, var: TypeVarId) -> Option<Option<TyId>> {
        self.vars
            .iter()
            .find(|&&(v, _)| v == var)
            .map(|&(_, ty)| ty)
    }

    pub(crate) fn set(&mut self, var: TypeVarId, ty: TyId) {
        if let Some(slot) = self.vars.iter_mut().find(|(v, _)| *v == var) {
            slot.1 = Some(ty);
        }
    }

    /// Allows a variable to remain unknown.
    pub(crate) fn leave_free(&mut self, var: TypeVarId) {
        self.free.push(var);
    }

    /// Returns true if a variable may remain unknown.
    pub(crate) fn is_free(&self, var: TypeVarId) -> bool {
        self.free.contains(&var)
    }

    /// Returns the known bindings.
    pub(crate) fn known(&self) -> Subst {
        self.vars
            .iter()
            .filter_map(|&(var, ty)| Some((var, ty?)))
            .collect()
    }

    /// Returns the unbound variables.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = TypeVarId> {
        self.vars
            .iter()
            .filter(|(_, ty)| ty.is_none())
            .map(|&(var, _)| var)
    }

    /// Returns true if there are no variables.
    pub(crate) fn is_empty(&self) -> bool {
        self.vars.is_empty()
    }
}

impl Checker<'_> {
    /// Unifies `actual` with `formal` by binding type variables.
    pub(crate) fn unify(&mut self, b: &mut Bindings, formal: TyId, actual: TyId) -> bool {
        if actual == self.t.error || formal == self.t.error {
            return true;
        }
        if let Ty::Var(var) = *self.ty(formal) {
            match b.get(var) {
                Some(None) => {
                    if !self.is_dont_care(actual) && actual != formal {
                        b.set(var, actual);
                    }
                    return true;
                }
                Some(Some(known)) => return self.refine(b, var, known, actual),
                None if self.dont_care.contains(&var) => return true,
                None => {}
            }
        }
        if formal == actual || self.is_dont_care(actual) {
            return true;
        }
        match (self.ty(formal).clone(), self.ty(actual).clone()) {
            (Ty::Record(f, fs), Ty::Record(a, actuals)) if f == a => {
                self.unify_all(b, &fs, &actuals)
            }
            (Ty::Extern(f, fs), Ty::Extern(a, actuals)) if f == a => {
                self.unify_all(b, &fs, &actuals)
            }
            (Ty::BlockType(f, fs), Ty::BlockType(a, actuals)) if f == a => {
                self.unify_all(b, &fs, &actuals)
            }
            (Ty::Tuple(fs), Ty::Tuple(actuals)) => self.unify_all(b, &fs, &actuals),
            (Ty::List(f), Ty::List(a)) | (Ty::Set(f), Ty::Set(a)) => self.unify(b, f, a),
            (Ty::Stack(f, n), Ty::Stack(a, m)) => n == m && self.unify(b, f, a),
            (Ty::BlockType(..), Ty::BlockType(..) | Ty::Parser(_) | Ty::Control(_)) => {
                self.unify_blocks(b, formal, actual)
            }
            _ => false,
        }
    }

    fn unify_all(&mut self, b: &mut Bindings, formals: &[TyId], actuals: &[TyId]) -> bool {
        formals.len() == actuals.len()
            && formals
                .iter()
                .zip(actuals)
                .all(|(&f, &a)| self.unify(b, f, a))
    }

    fn is_dont_care(&self, ty: TyId) -> bool {
        matches!(self.ty(ty), Ty::Var(var) if self.dont_care.contains(var))
    }

    /// Merges a further argument type into a bound variable. Widths win over literals without
    /// width, known types win over `...`.
    fn refine(&mut self, b: &mut Bindings, var: TypeVarId, known: TyId, actual: TyId) -> bool {
        match self.merge(known, actual) {
            Some(ty) => {
                b.set(var, ty);
                true
            }
            None => false,
        }
    }

    fn merge(&mut self, a: TyId, b: TyId) -> Option<TyId> {
        if a == b || self.is_dont_care(b) || self.is_weak(b) {
            return Some(a);
        }
        if self.is_weak(a) || self.is_dont_care(a) {
            return Some(b);
        }
        match (self.ty(a).clone(), self.ty(b).clone()) {
            (Ty::Integer, Ty::Bit(_) | Ty::Int(_)) => Some(b),
            (Ty::Bit(_) | Ty::Int(_), Ty::Integer) => Some(a),
            (Ty::Tuple(xs), Ty::Tuple(ys)) if xs.len() == ys.len() => {
                let merged: Option<Vec<TyId>> = xs
                    .iter()
                    .zip(&ys)
                    .map(|(&x, &y)| self.merge(x, y))
                    .collect();
                Some(self.intern(Ty::Tuple(merged?)))
            }
            (Ty::BlockType(..), _) => {
                let mut none = Bindings::default();
                self.unify(&mut none, a, b).then_some(a)
            }
            _ => None,
        }
    }

    /// Returns true if the type is only a placeholder for `...` or `{#}`.
    pub(crate) fn is_weak(&self, ty: TyId) -> bool {
        ty == self.t.dots || ty == self.t.invalid
    }

    /// Unifies an argument with `formal`. A tuple expression may become a struct, header, stack or
    /// list.
    pub(crate) fn unify_expr(&mut self, b: &mut Bindings, formal: TyId, actual: &Expr) -> bool {
        if self.is_weak(actual.ty) {
            return true;
        }
        // Implicit casts are added later.
        let base = self.base(formal);
        if actual.ty == self.t.integer && matches!(self.ty(base), Ty::Bit(_) | Ty::Int(_)) {
            return true;
        }
        if self.enum_underlying(actual.ty) == Some(formal) {
            return true;
        }
        if let Ty::Var(var) = *self.ty(formal)
            && let Some(Some(known)) = b.get(var)
            && matches!(actual.kind, ExprKind::Aggregate(_))
            && matches!(self.ty(known), Ty::Record(..) | Ty::List(_) | Ty::Stack(..))
        {
            return self.unify_expr(b, known, actual);
        }
        let ExprKind::Aggregate(elements) = &actual.kind else {
            return self.unify(b, formal, actual.ty);
        };
        if let Some(names) = self.anonymous_fields(actual.ty) {
            return self.unify_fields(b, formal, actual, elements, &names);
        }
        if !matches!(self.ty(actual.ty), Ty::Tuple(_)) {
            return self.unify(b, formal, actual.ty);
        }
        let formals: Vec<TyId> = match self.ty(formal).clone() {
            Ty::Tuple(types) => types,
            Ty::List(element) | Ty::Stack(element, _) => vec![element; elements.len()],
            Ty::Record(id, args) if self.p.records[id].kind != RecordKind::HeaderUnion => {
                (0..self.p.records[id].fields.len())
                    .map(|i| self.field_type(id, &args, i))
                    .collect()
            }
            _ => return self.unify(b, formal, actual.ty),
        };
        let rest = elements.last().is_some_and(|last| last.ty == self.t.dots);
        if formals.len() != elements.len() && !rest {
            return false;
        }
        formals
            .iter()
            .zip(elements)
            .all(|(&f, element)| self.unify_expr(b, f, element))
    }

    /// Unifies a structure-valued expression of unknown type with `formal`, field by field.
    fn unify_fields(
        &mut self,
        b: &mut Bindings,
        formal: TyId,
        actual: &Expr,
        elements: &[Expr],
        names: &[std::sync::Arc<str>],
    ) -> bool {
        let Ty::Record(id, args) = self.ty(formal).clone() else {
            return self.unify(b, formal, actual.ty);
        };
        elements.iter().zip(names).all(|(element, name)| {
            match self.p.records[id]
                .fields
                .iter()
                .position(|f| f.name.text == *name)
            {
                Some(i) => {
                    let field = self.field_type(id, &args, i);
                    self.unify_expr(b, field, element)
                }
                None => **name == *"...",
            }
        })
    }

    /// Returns the field names of the anonymous struct of `{ a = 1 }`, if its type is not known
    /// yet.
    pub(crate) fn anonymous_fields(&self, ty: TyId) -> Option<Vec<std::sync::Arc<str>>> {
        match self.ty(ty) {
            Ty::Record(id, _) if self.anonymous.contains(id) => Some(
                self.p.records[*id]
                    .fields
                    .iter()
                    .map(|f| f.name.text.clone())
                    .collect(),
            ),
            _ => None,
        }
    }

    /// Unifies a parser or control with a parser or control type: parameters pairwise, equal
    /// directions.
    fn unify_blocks(&mut self, b: &mut Bindings, formal: TyId, actual: TyId) -> bool {
        let (Some((formal_kind, formals)), Some((actual_kind, actuals))) =
            (self.block_signature(formal), self.block_signature(actual))
        else {
            return false;
        };
        if formal_kind != actual_kind || formal_kind == BlockTypeKind::Package {
            return false;
        }
        let required = formals.iter().filter(|f| !f.optional).count();
        if actuals.len() < required || actuals.len() > formals.len() {
            return false;
        }
        formals
            .iter()
            .zip(&actuals)
            .all(|(f, a)| f.kind == a.kind && self.unify(b, f.ty, a.ty))
    }

    /// Returns the kind and parameters of a parser or control, with type arguments substituted.
    pub(crate) fn block_signature(&mut self, ty: TyId) -> Option<(BlockTypeKind, Vec<Signature>)> {
        match self.ty(ty).clone() {
            Ty::BlockType(id, args) => {
                let block = &self.p.block_types[id];
                let kind = block.kind;
                let subst: Subst = block.type_params.iter().copied().zip(args).collect();
                let params = block.params.clone();
                Some((kind, self.signatures(&params, &subst)))
            }
            Ty::Parser(id) => {
                let params = self.p.parsers[id].params.clone();
                Some((
                    BlockTypeKind::Parser,
                    self.signatures(&params, &Subst::new()),
                ))
            }
            Ty::Control(id) => {
                let params = self.p.controls[id].params.clone();
                Some((
                    BlockTypeKind::Control,
                    self.signatures(&params, &Subst::new()),
                ))
            }
            _ => None,
        }
    }

    fn signatures(&mut self, params: &[Param], subst: &Subst) -> Vec<Signature> {
        let one = |this: &mut Self, param: &Param| {
            let var = &this.p.vars[param.var];
            let (kind, ty) = (var.kind, var.ty);
            Signature {
                kind,
                ty: this.subst(ty, subst),
                optional: param.optional || param.default.is_some(),
            }
        };
        params.iter().map(|param| one(self, param)).collect()
    }
}

/// A parameter as callers see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature {
    pub(crate) kind: VarKind,
    pub(crate) ty: TyId,
    pub(crate) optional: bool,
}
