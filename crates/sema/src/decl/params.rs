//! Parameters: directions, defaults, `@optional`, and the types allowed in each context (appendix
//! F).

use syntax::ast::{self, Direction};
use syntax::diag::Diagnostic;

use crate::hir::{Param, Ty, TyId, VarKind};
use crate::scope::Entity;
use crate::unify::Bindings;
use crate::{Checker, annotations, code};

/// Kind of the declaration that has the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A parser type or control type.
    BlockType,
    /// A package.
    Package,
    /// A parser or control with a body.
    Block,
    /// The constructor of a parser.
    ParserConstructor,
    /// The constructor of a control.
    ControlConstructor,
    /// The constructor of an extern.
    Constructor,
    /// A method of an extern.
    Method,
    /// An extern function.
    ExternFunction,
    /// A function with a body.
    Function,
    /// The body of an abstract method.
    AbstractBody,
    /// An action.
    Action,
}

impl Owner {
    fn is_constructor(self) -> bool {
        matches!(
            self,
            Owner::Package
                | Owner::ParserConstructor
                | Owner::ControlConstructor
                | Owner::Constructor
        )
    }

    fn may_be_optional(self) -> bool {
        matches!(
            self,
            Owner::BlockType
                | Owner::Package
                | Owner::Block
                | Owner::Constructor
                | Owner::Method
                | Owner::ExternFunction
        )
    }
}

impl Checker<'_> {
    /// Declares parameters in the innermost scope.
    pub(crate) fn params(&mut self, list: &[ast::Param], owner: Owner) -> Vec<Param> {
        let params = list.iter().map(|param| self.param(param, owner)).collect();
        if owner == Owner::Action {
            self.check_action_order(list);
        }
        params
    }

    fn param(&mut self, param: &ast::Param, owner: Owner) -> Param {
        let annotations = self.annotations(&param.annotations);
        let optional = annotations::has(&annotations, "optional");
        let ty = self.resolve_param_type(&param.ty, owner);
        let ty = self.check_param_type(ty, param, owner);
        let default = self.param_default(param, ty, optional, owner);
        if optional && !owner.may_be_optional() {
            let message = format!(
                "parameter `{}` cannot be optional here",
                param.name.as_str()
            );
            self.error(code::BAD_PARAM, param.name.span, message);
        }
        let kind = if owner.is_constructor() {
            VarKind::CtorParam
        } else {
            VarKind::Param(param.direction)
        };
        let var = self.new_var(&param.name, ty, kind, annotations);
        self.declare(&param.name, Entity::Var(var));
        if let (Some((_, true)), Some(written)) = (&default, &param.default) {
            self.keep_open_default(var, written);
        }
        let default = default.map(|(value, _)| value);
        Param {
            var,
            optional,
            default,
        }
    }

    fn resolve_param_type(&mut self, ty: &ast::TypeRef, _: Owner) -> TyId {
        self.resolve_type(ty)
    }

    fn check_param_type(&mut self, ty: TyId, param: &ast::Param, owner: Owner) -> TyId {
        let name = param.name.as_str();
        let directed = param.direction != Direction::None;
        let shown = self.show(ty);
        if owner.is_constructor() && directed {
            let message = format!("constructor parameter `{name}` cannot have a direction");
            self.error(code::BAD_PARAM, param.span, message);
            return ty;
        }
        let problem = match self.ty(ty) {
            Ty::Error => None,
            Ty::Extern(..) if owner == Owner::Action => Some(format!(
                "a parameter of an action cannot have the extern type {shown}"
            )),
            Ty::Integer if owner == Owner::Action => {
                Some(format!("a parameter of an action cannot have type {shown}"))
            }
            Ty::Extern(..) | Ty::String | Ty::Integer | Ty::List(_) if directed => Some(format!(
                "a parameter of type {shown} cannot have a direction"
            )),
            Ty::Parser(_) | Ty::Control(_) | Ty::BlockType(..) if !self.takes_block(ty, owner) => {
                Some(format!("a parameter cannot have type {shown} here"))
            }
            _ => None,
        };
        match problem {
            Some(message) => {
                self.error(code::BAD_PARAM, param.name.span, message);
                self.t.error
            }
            None => ty,
        }
    }

    /// Returns true if a parser, control or package may be a parameter (first table of appendix F).
    fn takes_block(&self, ty: TyId, owner: Owner) -> bool {
        use crate::hir::BlockTypeKind::*;
        // A block with a body is not a parameter type; its parser type or control type is.
        let Ty::BlockType(id, _) = self.ty(ty) else {
            return false;
        };
        let kind = self.p.block_types[*id].kind;
        match owner {
            Owner::Package => true,
            Owner::ParserConstructor => kind == Parser,
            Owner::ControlConstructor => kind == Control,
            _ => false,
        }
    }

    /// Returns the default value, and true if its type is open. An open default is evaluated at
    /// each use.
    fn param_default(
        &mut self,
        param: &ast::Param,
        ty: TyId,
        optional: bool,
        owner: Owner,
    ) -> Option<(crate::hir::Expr, bool)> {
        let default = param.default.as_ref()?;
        let name = param.name.as_str();
        if optional {
            let message = format!("optional parameter `{name}` cannot have a default value");
            self.error(code::BAD_PARAM, param.name.span, message);
        }
        if matches!(param.direction, Direction::Out | Direction::InOut) {
            let message =
                format!("`out` and `inout` parameters such as `{name}` cannot have default values");
            self.error(code::BAD_PARAM, param.name.span, message);
        }
        let open = owner.is_constructor() && self.is_open(ty);
        let value = self.with_cx(
            |cx| cx.constructors = owner.is_constructor(),
            |this| {
                let value = this.expr(default, Some(ty));
                if !open {
                    return this.coerce(value, ty);
                }
                let mut b = Bindings::new(this.vars_in(ty));
                if this.unify_expr(&mut b, ty, &value) {
                    value
                } else {
                    this.mismatch(value.ty, ty, default.span)
                }
            },
        );
        if value.ty != self.t.error && !self.is_compile_time(&value) {
            let message = format!("the default value of `{name}` must be known at compile time");
            self.error(code::NOT_CONSTANT, default.span, message);
        }
        Some((value, open))
    }

    /// Checks that directionless parameters of an action come last.
    fn check_action_order(&mut self, list: &[ast::Param]) {
        let Some(last) = list.iter().rposition(|p| p.direction != Direction::None) else {
            return;
        };
        for param in list[..last]
            .iter()
            .filter(|p| p.direction == Direction::None)
        {
            let message = format!(
                "parameter `{}` has no direction: it must come after those that have",
                param.name.as_str()
            );
            let diagnostic = Diagnostic::error(code::BAD_PARAM, param.name.span, message);
            self.report(diagnostic.label(list[last].name.span, "this one has a direction"));
        }
    }
}
