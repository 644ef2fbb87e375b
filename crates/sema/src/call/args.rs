//! Binding of arguments to parameters: by position or name, defaults, optional parameters,
//! directions, and type inference.

use std::collections::{HashMap, HashSet};

use support::count::{are, count};
use syntax::ast::{Arg as AstArg, Direction};
use syntax::diag::Diagnostic;
use syntax::source::Span;

use super::Written;
use crate::hir::{Arg, Expr, ExprKind, Param, Ty, TyId, TypeVarId, VarKind};
use crate::types::Subst;
use crate::unify::Bindings;
use crate::{Checker, code};

/// Rule for arguments of directionless parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A value known at compile time.
    Constant,
    /// Any value: a parameter of an action in a call.
    Action,
}

impl Checker<'_> {
    /// Returns true if the number and the names of arguments fit the parameters.
    pub(crate) fn fits(&self, params: &[Param], args: &[AstArg]) -> bool {
        let free = |p: &Param| p.optional || p.default.is_some();
        if args.iter().any(|arg| arg.name.is_some()) {
            let names = self.places_by_name(params);
            let place_of = |arg: &AstArg| names.get(&*arg.name.as_ref()?.text).copied();
            let places: Option<HashSet<usize>> = args.iter().map(place_of).collect();
            let mut needed = (0..params.len()).filter(|&at| !free(&params[at]));
            return places.is_some_and(|given| needed.all(|at| given.contains(&at)));
        }
        args.len() <= params.len() && params[args.len()..].iter().all(free)
    }

    /// Returns the positions of the parameters by name: of several with one name, the first.
    fn places_by_name(&self, params: &[Param]) -> HashMap<&str, usize> {
        let named = params.iter().enumerate().rev();
        named
            .map(|(at, param)| (self.p.vars[param.var].name.as_str(), at))
            .collect()
    }

    /// Returns the position of each parameter's argument. Reports arguments that do not fit.
    fn match_args(&mut self, params: &[Param], written: Written<'_>) -> Option<Vec<Option<usize>>> {
        let mut places: Vec<Option<usize>> = vec![None; params.len()];
        let named = written.args.iter().filter(|arg| arg.name.is_some()).count();
        if named > 0 && named < written.args.len() {
            let span = written
                .args
                .iter()
                .find(|arg| arg.name.is_none())
                .map_or(written.span, |arg| arg.span);
            self.error(
                code::BAD_ARGS,
                span,
                "either all arguments of a call have names, or none",
            );
            return None;
        }
        let mut good = true;
        let found: Vec<Option<usize>> = match named {
            0 => Vec::new(),
            _ => {
                let names = self.places_by_name(params);
                let name = |arg: &AstArg| names.get(&*arg.name.as_ref()?.text).copied();
                written.args.iter().map(name).collect()
            }
        };
        for (i, arg) in written.args.iter().enumerate() {
            let place = match &arg.name {
                None => Some(i).filter(|&i| i < params.len()),
                Some(name) => {
                    let found = found[i];
                    if found.is_none() {
                        self.unknown_param(params, name, written);
                        good = false;
                        continue;
                    }
                    found
                }
            };
            let Some(place) = place else {
                self.too_many(params, written);
                return None;
            };
            if places[place].is_some() {
                let name = self.p.vars[params[place].var].name.clone();
                let message = format!("argument `{}` is given twice", name.as_str());
                self.error(code::DUPLICATE, arg.span, message);
                good = false;
            }
            places[place] = Some(i);
        }
        for (param, place) in params.iter().zip(&places) {
            if place.is_none() && !param.optional && param.default.is_none() {
                let name = self.p.vars[param.var].name.clone();
                let message = format!(
                    "no argument for parameter `{}` of `{}`",
                    name.as_str(),
                    written.name
                );
                let diagnostic = Diagnostic::error(code::BAD_ARGS, written.span, message);
                self.report(diagnostic.label(name.span, "the parameter"));
                good = false;
            }
        }
        good.then_some(places)
    }

    fn unknown_param(&mut self, params: &[Param], name: &syntax::ast::Name, written: Written<'_>) {
        let message = format!("`{}` has no parameter `{}`", written.name, name.as_str());
        let names: Vec<&str> = params
            .iter()
            .map(|p| self.p.vars[p.var].name.as_str())
            .collect();
        let diagnostic =
            Diagnostic::error(code::BAD_ARGS, name.span, message).suggest(name.as_str(), names);
        self.report(diagnostic);
    }

    fn too_many(&mut self, params: &[Param], written: Written<'_>) {
        let message = format!(
            "`{}` takes {}, but {} given",
            written.name,
            count(params.len() as u64, "argument"),
            are(written.args.len() as u64)
        );
        self.error(code::BAD_ARGS, written.span, message);
    }

    /// Returns the parameters in the order in which a call with named arguments gives them, then
    /// the omitted ones (section 6.8, steps 1 and 6). Empty if no argument has a name.
    pub(crate) fn order_of_args(&self, params: &[Param], args: &[AstArg]) -> Vec<usize> {
        if args.iter().all(|arg| arg.name.is_none()) {
            return Vec::new();
        }
        let names = self.places_by_name(params);
        let place = |arg: &AstArg| names.get(&*arg.name.as_ref()?.text).copied();
        let mut order: Vec<usize> = args.iter().filter_map(place).collect();
        if order.is_sorted() {
            return Vec::new();
        }
        let given: HashSet<usize> = order.iter().copied().collect();
        order.extend((0..params.len()).filter(|at| !given.contains(at)));
        order
    }

    /// Checks the arguments of a call and puts them into the order of the parameters.
    ///
    /// `result` holds the result type and the expected type. Type variables that no argument binds
    /// are inferred from these.
    pub(crate) fn bind_args(
        &mut self,
        params: &[Param],
        object: &Subst,
        b: &mut Bindings,
        result: Option<(TyId, Option<TyId>)>,
        rule: Rule,
        written: Written<'_>,
    ) -> Option<Vec<Arg>> {
        let Some(places) = self.match_args(params, written) else {
            self.poison_args(written);
            return None;
        };
        let mut values: Vec<Option<Expr>> = vec![None; written.args.len()];
        let mut good = true;
        let mut params_of_args: Vec<Option<usize>> = vec![None; written.args.len()];
        for (param, arg) in places.iter().enumerate() {
            if let Some(arg) = *arg {
                params_of_args[arg] = Some(param);
            }
        }
        for (i, arg) in written.args.iter().enumerate() {
            let Some(place) = params_of_args[i] else {
                continue;
            };
            let formal = self.formal_type(&params[place], object);
            values[i] = self.infer_arg(arg, &params[place], formal, b, &mut good, written);
        }
        if !good {
            return None;
        }
        if let Some((ret, Some(expected))) = result
            && !b.is_empty()
            && b.unknown().next().is_some()
        {
            self.unify(b, ret, expected);
        }
        let mut defaults = self.learn_defaults(params, &places, object, b, written);
        self.settle(params, &places, object, b);
        if !self.all_inferred(b, written) {
            return None;
        }
        let known = b.known();
        let mut args = Vec::with_capacity(params.len());
        for (i, (param, place)) in params.iter().zip(&places).enumerate() {
            let formal = self.formal_type(param, object);
            let formal = self.subst(formal, &known);
            let formal = self.well_formed(formal, written.span);
            good &= self.check_inferred(param, formal, written);
            args.push(match place {
                Some(i) => match values[*i].take() {
                    Some(value) => self.pass(value, param, formal, rule, &mut good),
                    None => Arg::Omitted,
                },
                None => match defaults[i].take() {
                    Some(value) => self.pass(value, param, formal, rule, &mut good),
                    None => Self::default_arg(param, written.span),
                },
            });
        }
        good.then_some(args)
    }

    /// Checks that the type inferred for a parameter with a direction has run-time values.
    fn check_inferred(&mut self, param: &Param, formal: TyId, written: Written<'_>) -> bool {
        let compile_time = matches!(
            self.ty(formal),
            Ty::String | Ty::Integer | Ty::List(_) | Ty::Extern(..)
        );
        if !compile_time || self.direction(param) == Direction::None {
            return formal != self.t.error;
        }
        let name = self.p.vars[param.var].name.clone();
        let message = format!(
            "parameter `{}` has a direction: it cannot be of type {}",
            name.as_str(),
            self.show(formal)
        );
        self.report(
            Diagnostic::error(code::BAD_ARGS, written.span, message)
                .label(name.span, "the parameter"),
        );
        false
    }

    fn formal_type(&mut self, param: &Param, object: &Subst) -> TyId {
        let ty = self.p.vars[param.var].ty;
        self.subst(ty, object)
    }

    fn direction(&self, param: &Param) -> Direction {
        match self.p.vars[param.var].kind {
            VarKind::Param(direction) => direction,
            _ => Direction::None,
        }
    }

    /// Checks one argument and infers type arguments from it.
    fn infer_arg(
        &mut self,
        arg: &AstArg,
        param: &Param,
        formal: TyId,
        b: &mut Bindings,
        good: &mut bool,
        written: Written<'_>,
    ) -> Option<Expr> {
        let direction = self.direction(param);
        let Some(value) = &arg.value else {
            if direction != Direction::Out && !param.optional {
                let name = self.p.vars[param.var].name.clone();
                let message = format!(
                    "`_` can only be given for an `out` parameter, and `{}` is none",
                    name.as_str()
                );
                self.error(code::BAD_ARGS, arg.span, message);
                *good = false;
            }
            return None;
        };
        let hint = self.subst(formal, &b.known());
        let hint = if b.is_empty() || !self.is_open(hint) {
            Some(hint)
        } else {
            None
        };
        let value = self.expr(value, hint);
        if value.ty == self.t.error {
            *good = false;
            return Some(value);
        }
        if !self.may_be_argument(value.ty) || self.is_block(value.ty) && !self.cx.constructors {
            let message = format!("{} cannot be an argument", self.show(value.ty));
            self.error(code::BAD_ARGS, arg.span, message);
            *good = false;
            return Some(value);
        }
        if !b.is_empty() && !self.unify_expr(b, formal, &value) {
            let formal = self.subst(formal, &b.known());
            let name = self.p.vars[param.var].name.clone();
            let known = self.num(value.ty).is_some() && self.num(formal).is_some();
            let enumerated = self.enum_underlying(value.ty).is_some();
            if !known && !enumerated {
                let message = format!(
                    "parameter `{}` of `{}` has type {}, but the argument is {}",
                    name.as_str(),
                    written.name,
                    self.show(formal),
                    self.show(value.ty)
                );
                let diagnostic = Diagnostic::error(code::MISMATCH, value.span, message);
                self.report(diagnostic.label(name.span, "the parameter"));
                *good = false;
            }
        }
        Some(value)
    }

    /// Returns true if it is a parser, control or package.
    fn is_block(&self, ty: TyId) -> bool {
        matches!(
            self.ty(ty),
            Ty::Parser(_) | Ty::Control(_) | Ty::BlockType(..)
        )
    }

    fn may_be_argument(&self, ty: TyId) -> bool {
        !matches!(
            self.ty(ty),
            Ty::Void
                | Ty::Table(_)
                | Ty::ApplyResult(_)
                | Ty::ActionEnum(_)
                | Ty::Action
                | Ty::Set(_)
        )
    }

    /// Reports type parameters that remain unknown or would be a type without run-time values.
    pub(crate) fn all_inferred(&mut self, b: &Bindings, written: Written<'_>) -> bool {
        if let Some(var) = b.unknown().next() {
            let name = self.p.type_vars[var].as_str().to_string();
            let message = format!(
                "the type argument `{name}` of `{}` cannot be inferred",
                written.name
            );
            let diagnostic = Diagnostic::error(code::NOT_INFERRED, written.span, message);
            self.report(diagnostic.hint(format!("write it: `{}<..>(..)`", written.name)));
            return false;
        }
        for (var, ty) in b.known() {
            if self.anonymous_fields(ty).is_some() {
                let message = format!(
                    "the type of the argument of `{}` is not known: `{{ a = .. }}` fits many structs",
                    written.name
                );
                let diagnostic = Diagnostic::error(code::NOT_INFERRED, written.span, message);
                self.report(diagnostic.hint("cast it: `(S){ a = .. }`"));
                return false;
            }
            if self.lacks_width(ty) {
                let name = self.p.type_vars[var].as_str().to_string();
                let message = format!(
                    "the type argument `{name}` of `{}` cannot be inferred: the argument has no width",
                    written.name
                );
                let diagnostic = Diagnostic::error(code::NOT_INFERRED, written.span, message);
                self.report(diagnostic.hint("give the literal a width, as in `8w1`"));
                return false;
            }
        }
        true
    }

    /// Returns true if a type contains an integer without width, `...` or `{#}`.
    fn lacks_width(&self, ty: TyId) -> bool {
        if self.is_weak(ty) {
            return true;
        }
        match self.ty(ty) {
            Ty::Integer => true,
            Ty::Tuple(elements) => elements.iter().any(|&element| self.lacks_width(element)),
            Ty::Record(id, _) => self.anonymous.contains(id),
            _ => false,
        }
    }

    /// Converts an argument for its parameter, by the rules of the direction.
    fn pass(
        &mut self,
        value: Expr,
        param: &Param,
        formal: TyId,
        rule: Rule,
        good: &mut bool,
    ) -> Arg {
        let name = self.p.vars[param.var].name.clone();
        let span = value.span;
        let value = match self.direction(param) {
            Direction::Out | Direction::InOut => {
                if !self.require_lvalue(&value, &format!("the argument for `{}`", name.as_str())) {
                    *good = false;
                    return Arg::Omitted;
                }
                if value.ty == formal {
                    value
                } else {
                    self.mismatch(value.ty, formal, span)
                }
            }
            Direction::In => self.coerce(value, formal),
            Direction::None => {
                let value = self.coerce(value, formal);
                if rule == Rule::Constant
                    && value.ty != self.t.error
                    && !self.is_compile_time(&value)
                {
                    let message = format!(
                        "the argument for `{}` must be known at compile time: the parameter has no direction",
                        name.as_str()
                    );
                    let diagnostic = Diagnostic::error(code::NOT_CONSTANT, span, message);
                    self.report(diagnostic.label(name.span, "the parameter"));
                    *good = false;
                }
                value
            }
        };
        *good &= value.ty != self.t.error;
        Arg::Expr(value)
    }

    fn default_arg(param: &Param, span: Span) -> Arg {
        match &param.default {
            Some(default) => Arg::Expr(Expr {
                span,
                ..default.clone()
            }),
            None => Arg::Omitted,
        }
    }

    /// Evaluates default values with type parameters in their types, and infers from them.
    fn learn_defaults(
        &mut self,
        params: &[Param],
        places: &[Option<usize>],
        object: &Subst,
        b: &mut Bindings,
        written: Written<'_>,
    ) -> Vec<Option<Expr>> {
        let mut values = Vec::with_capacity(params.len());
        for (param, place) in params.iter().zip(places) {
            let mut value = None;
            if place.is_none() && param.default.is_some() {
                let formal = self.formal_type(param, object);
                value = self.open_default(param, formal, b, written.span);
                if let Some(value) = &value {
                    self.unify_expr(b, formal, value);
                }
            }
            values.push(value);
        }
        values
    }

    /// Binds unknown type parameters to `void` if they are given as `_`, or if only omitted
    /// optional parameters mention them.
    fn settle(
        &mut self,
        params: &[Param],
        places: &[Option<usize>],
        object: &Subst,
        b: &mut Bindings,
    ) {
        let unknown: Vec<TypeVarId> = b.unknown().collect();
        for var in unknown {
            let mut mentioned = false;
            let mut needed = false;
            for (param, place) in params.iter().zip(places) {
                let formal = self.formal_type(param, object);
                if self.vars_in(formal).contains(&var) {
                    mentioned = true;
                    needed |= place.is_some() || !param.optional;
                }
            }
            if b.is_free(var) || (mentioned && !needed) {
                b.set(var, self.t.void);
            }
        }
    }

    /// Returns the value of an argument that was given.
    pub(crate) fn given(args: &[Arg], place: usize) -> Option<&Expr> {
        match args.get(place) {
            Some(Arg::Expr(e)) if !matches!(e.kind, ExprKind::Default) => Some(e),
            _ => None,
        }
    }
}
