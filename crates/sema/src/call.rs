//! Calls: overload resolution, type arguments, and binding of arguments to parameters.

mod args;
mod builtin;
mod method;

pub(crate) use args::Rule;

use syntax::ast::{self, Arg as AstArg, TypeRef};
use syntax::diag::Diagnostic;
use syntax::source::Span;

use crate::hir::{
    ActionId, Call, Callee, Expr, ExprKind, ExternFnId, ExternId, FunctionId, Prototype, TyId,
};
use crate::scope::Entity;
use crate::types::Subst;
use crate::unify::Bindings;
use crate::{Checker, Deprecated, FnRef, Place, code};

/// Reference to a prototype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtoRef {
    Function(FunctionId),
    Extern(ExternFnId),
    Method(ExternId, usize),
    Constructor(ExternId, usize),
}

/// A call as written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written<'a> {
    pub(crate) name: &'a str,
    pub(crate) type_args: &'a [TypeRef],
    pub(crate) args: &'a [AstArg],
    pub(crate) span: Span,
    pub(crate) expected: Option<TyId>,
}

impl Checker<'_> {
    pub(crate) fn proto(&self, proto: ProtoRef) -> &Prototype {
        match proto {
            ProtoRef::Function(id) => &self.p.functions[id].proto,
            ProtoRef::Extern(id) => &self.p.extern_functions[id],
            ProtoRef::Method(id, method) => &self.p.externs[id].methods[method].proto,
            ProtoRef::Constructor(id, index) => &self.p.externs[id].constructors[index],
        }
    }

    /// Checks a call or constructor in an expression or statement.
    pub(crate) fn call(
        &mut self,
        callee: &ast::Expr,
        type_args: &[TypeRef],
        args: &[AstArg],
        span: Span,
        expected: Option<TyId>,
    ) -> Expr {
        let mut written = Written {
            name: "",
            type_args,
            args,
            span,
            expected,
        };
        match &callee.kind {
            ast::ExprKind::Name(path) => {
                written.name = path.name.as_str();
                match self.resolve(path) {
                    Entity::Overloads(list) => self.call_function(list, written),
                    Entity::Action(action) => self.call_action(action, written),
                    Entity::Poison => self.poison_args(written),
                    entity if entity.is_type() => {
                        let ty = if type_args.is_empty() {
                            TypeRef::Name(path.clone())
                        } else {
                            TypeRef::Specialized(path.clone(), type_args.to_vec(), callee.span)
                        };
                        self.constructor_call(&ty, args, span, expected)
                    }
                    other => {
                        let message = format!(
                            "`{}` is {}: it cannot be called",
                            written.name,
                            other.describe()
                        );
                        self.fail(code::BAD_CALL, span, message)
                    }
                }
            }
            ast::ExprKind::TypeName(ty) => self.constructor_call(ty, args, span, expected),
            ast::ExprKind::Member(base, name) => {
                written.name = name.as_str();
                self.call_member(base, name, written)
            }
            _ => self.fail(code::BAD_CALL, span, "this cannot be called"),
        }
    }

    /// Checks the arguments of an unknown callee, so that errors in them are still reported.
    pub(crate) fn poison_args(&mut self, written: Written<'_>) -> Expr {
        for arg in written.args {
            if let Some(value) = &arg.value {
                self.expr(value, None);
            }
        }
        self.poison(written.span)
    }

    fn call_function(&mut self, list: usize, written: Written<'_>) -> Expr {
        let candidates: Vec<ProtoRef> = self.overloads[list]
            .iter()
            .map(|&f| match f {
                FnRef::Function(id) => ProtoRef::Function(id),
                FnRef::Extern(id) => ProtoRef::Extern(id),
            })
            .collect();
        let Some(chosen) = self.select(&candidates, "function", written) else {
            return self.poison_args(written);
        };
        if !self.check_function_place(chosen, written) {
            return self.poison_args(written);
        }
        let Some((call_args, subst)) = self.instantiate(chosen, &Subst::new(), written) else {
            return self.poison(written.span);
        };
        let callee = match chosen {
            ProtoRef::Function(id) => Callee::Function(id),
            ProtoRef::Extern(id) => {
                self.warn_deprecated(Deprecated::Function(id), written.span);
                Callee::ExternFunction(id)
            }
            _ => return self.poison(written.span),
        };
        self.finish_call(callee, chosen, call_args, &Subst::new(), &subst, written)
    }

    fn check_function_place(&mut self, chosen: ProtoRef, written: Written<'_>) -> bool {
        let is_assert = written.name == "static_assert";
        if self.cx.place == Place::TopLevel && !is_assert && !self.cx.constructors {
            let message = format!(
                "`{}` cannot be called here: there is no run time at the top level",
                written.name
            );
            self.error(code::WRONG_PLACE, written.span, message);
            return false;
        }
        if written.name == "verify"
            && matches!(chosen, ProtoRef::Extern(_))
            && !self.cx.place.in_parser()
        {
            self.error(
                code::WRONG_PLACE,
                written.span,
                "`verify` can only be called in a parser",
            );
            return false;
        }
        true
    }

    pub(crate) fn warn_deprecated(&mut self, what: Deprecated, span: Span) {
        if let Some(text) = self.deprecated.get(&what).cloned() {
            self.warn(
                code::W_DEPRECATED,
                span,
                format!("this is deprecated: {text}"),
            );
        }
    }

    /// Returns the only candidate that fits the number and the names of the arguments.
    pub(crate) fn select(
        &mut self,
        candidates: &[ProtoRef],
        what: &str,
        written: Written<'_>,
    ) -> Option<ProtoRef> {
        if let [only] = candidates {
            return Some(*only);
        }
        let fitting: Vec<ProtoRef> = candidates
            .iter()
            .copied()
            .filter(|&c| self.fits(&self.proto(c).params, written.args))
            .collect();
        match fitting[..] {
            [one] => Some(one),
            [] => {
                let message = format!("no {what} `{}` takes these arguments", written.name);
                let mut diagnostic = Diagnostic::error(code::BAD_ARGS, written.span, message);
                for &candidate in candidates.iter().take(4) {
                    diagnostic = diagnostic.label(self.proto(candidate).name.span, "candidate");
                }
                self.report(diagnostic);
                None
            }
            _ => {
                let message = format!(
                    "more than one {what} `{}` takes these arguments",
                    written.name
                );
                let mut diagnostic = Diagnostic::error(code::AMBIGUOUS, written.span, message);
                for &candidate in &fitting {
                    diagnostic = diagnostic.label(self.proto(candidate).name.span, "candidate");
                }
                self.report(diagnostic);
                None
            }
        }
    }

    /// Checks the arguments of a call and infers its type arguments. `object` holds the type
    /// arguments of the receiver.
    pub(crate) fn instantiate(
        &mut self,
        proto: ProtoRef,
        object: &Subst,
        written: Written<'_>,
    ) -> Option<(Vec<crate::hir::Arg>, Subst)> {
        let (vars, params, ret) = {
            let p = self.proto(proto);
            (p.type_params.clone(), p.params.clone(), p.ret)
        };
        let mut b = Bindings::new(vars.iter().copied());
        if !written.type_args.is_empty() {
            if written.type_args.len() != vars.len() {
                self.type_arg_count(
                    written.name,
                    written.span,
                    vars.len(),
                    written.type_args.len(),
                );
                self.poison_args(written);
                return None;
            }
            for (&var, arg) in vars.iter().zip(written.type_args) {
                let ty = self.resolve_type_arg(arg);
                if ty == self.t.error {
                    self.poison_args(written);
                    return None;
                }
                if !matches!(arg, TypeRef::DontCare(_)) {
                    b.set(var, ty);
                }
            }
        }
        let ret = self.subst(ret, object);
        let target = Some((ret, written.expected));
        let args = self.bind_args(
            &params,
            object,
            &mut b,
            target,
            args::Rule::Constant,
            written,
        )?;
        Some((args, b.known()))
    }

    pub(crate) fn finish_call(
        &mut self,
        callee: Callee,
        proto: ProtoRef,
        args: Vec<crate::hir::Arg>,
        object: &Subst,
        subst: &Subst,
        written: Written<'_>,
    ) -> Expr {
        let (vars, ret, params) = {
            let p = self.proto(proto);
            (p.type_params.clone(), p.ret, p.params.clone())
        };
        let order = self.order_of_args(&params, written.args);
        let ret = self.subst(ret, object);
        let ty = self.subst(ret, subst);
        let ty = self.well_formed(ty, written.span);
        let type_args: Vec<TyId> = vars
            .iter()
            .map(|var| {
                subst
                    .iter()
                    .find(|(v, _)| v == var)
                    .map_or(self.t.error, |&(_, ty)| ty)
            })
            .collect();
        if written.name == "static_assert" && matches!(callee, Callee::ExternFunction(_)) {
            return self.static_assert(&args, ty, written.span);
        }
        let call = Call {
            callee,
            type_args,
            args,
            order,
            span: written.span,
        };
        Expr {
            kind: ExprKind::Call(call),
            ty,
            span: written.span,
        }
    }

    /// Evaluates `static_assert(check, message)`. No code remains.
    fn static_assert(&mut self, args: &[crate::hir::Arg], ty: TyId, span: Span) -> Expr {
        let value = |i: usize| match args.get(i) {
            Some(crate::hir::Arg::Expr(e)) => Some(&e.kind),
            _ => None,
        };
        match value(0) {
            Some(ExprKind::Bool(true)) => Expr {
                kind: ExprKind::Bool(true),
                ty,
                span,
            },
            Some(ExprKind::Bool(false)) => {
                let message = match value(1) {
                    Some(ExprKind::String(text)) => format!("static assertion failed: {text}"),
                    _ => "static assertion failed".to_string(),
                };
                self.fail(code::ASSERTION, span, message)
            }
            _ => self.fail(
                code::NOT_CONSTANT,
                span,
                "the condition of `static_assert` must be known at compile time",
            ),
        }
    }

    fn call_action(&mut self, action: ActionId, written: Written<'_>) -> Expr {
        if !written.type_args.is_empty() {
            let message = "an action has no type parameters";
            return self.fail(code::TYPE_ARGS, written.span, message);
        }
        if !matches!(self.cx.place, Place::ControlApply | Place::Action) {
            let message = match self.cx.place {
                Place::Function | Place::Method => "a function cannot call an action",
                place if place.in_parser() => "a parser cannot call an action",
                _ => "an action cannot be called here",
            };
            let declared = self
                .action_spans
                .get(&action)
                .copied()
                .unwrap_or(Span::NONE);
            let diagnostic = Diagnostic::error(code::WRONG_PLACE, written.span, message);
            self.report(diagnostic.label(declared, "the action"));
            return self.poison_args(written);
        }
        let params = self.p.actions[action].params.clone();
        let mut b = Bindings::default();
        let Some(args) = self.bind_args(
            &params,
            &Subst::new(),
            &mut b,
            None,
            args::Rule::Action,
            written,
        ) else {
            return self.poison(written.span);
        };
        let order = self.order_of_args(&params, written.args);
        let call = Call {
            callee: Callee::Action(action),
            type_args: Vec::new(),
            args,
            order,
            span: written.span,
        };
        Expr {
            kind: ExprKind::Call(call),
            ty: self.t.void,
            span: written.span,
        }
    }
}
