//! Generic parsers and controls, and blocks with one name that differ in their constructor
//! parameters.
//!
//! The specification allows neither for blocks with a body, but existing programs use both. A
//! generic block is checked once as written. It is checked again for each list of type arguments
//! that it is used with. So later stages see closed types only.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use syntax::ast::{self, Arg as AstArg, Name};
use syntax::diag::Diagnostic;
use syntax::source::Span;

use crate::hir::{Expr, Param, Ty, TyId, TypeVarId, VarId};
use crate::scope::Entity;
use crate::types::Subst;
use crate::unify::Bindings;
use crate::{Checker, code};

/// The syntax tree of a generic block.
#[derive(Clone, Debug)]
pub(crate) enum TemplateDecl {
    Parser(Rc<ast::ParserDecl>),
    Control(Rc<ast::ControlDecl>),
}

impl TemplateDecl {
    fn signature(&self) -> &ast::BlockTypeDecl {
        match self {
            TemplateDecl::Parser(decl) => &decl.signature,
            TemplateDecl::Control(decl) => &decl.signature,
        }
    }
}

/// A generic parser or control.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    decl: TemplateDecl,
    /// Its type parameters.
    pub(crate) vars: Vec<TypeVarId>,
    /// The block checked with open type parameters.
    pub(crate) open: Entity,
    /// The specialised blocks, by type arguments.
    made: HashMap<Vec<TyId>, Entity>,
}

/// The default value of a constructor parameter with type parameters in its type. It is evaluated
/// at each use.
#[derive(Clone, Debug)]
pub(crate) struct OpenDefault {
    expr: Rc<ast::Expr>,
}

impl Checker<'_> {
    /// Declares a generic parser or control.
    pub(crate) fn template(&mut self, decl: TemplateDecl) {
        let name = decl.signature().name.clone();
        self.open(&name);
        let names = decl.signature().type_params.clone();
        self.unique(names.iter(), "type parameter");
        let vars: Vec<TypeVarId> = names
            .iter()
            .map(|name| self.p.type_vars.push(name.clone()))
            .collect();
        let entities: Vec<Entity> = vars.iter().map(|&var| Entity::TypeVar(var)).collect();
        let open = self.make(&decl, &entities);
        self.templates.push(Template {
            decl,
            vars,
            open,
            made: HashMap::new(),
        });
        self.close_block(&name, Entity::Template(self.templates.len() - 1));
    }

    fn make(&mut self, decl: &TemplateDecl, type_args: &[Entity]) -> Entity {
        match decl {
            TemplateDecl::Parser(decl) => Entity::Parser(self.make_parser(decl, type_args)),
            TemplateDecl::Control(decl) => Entity::Control(self.make_control(decl, type_args)),
        }
    }

    /// Returns the specialisation of a generic block for these type arguments.
    pub(crate) fn specialise(&mut self, template: usize, args: Vec<TyId>) -> Entity {
        if let Some(&made) = self.templates[template].made.get(&args) {
            return made;
        }
        let decl = self.templates[template].decl.clone();
        let entities: Vec<Entity> = args.iter().map(|&arg| Entity::Typedef(arg)).collect();
        let hidden = self.scopes.only_global();
        let made = self.make(&decl, &entities);
        self.scopes.restore(hidden);
        self.templates[template].made.insert(args, made);
        made
    }

    /// Infers the type arguments of a generic block from the expected type.
    pub(crate) fn unify_template(&mut self, b: &mut Bindings, template: usize, expected: TyId) {
        let open = self.templates[template].open;
        let open = self.entity_type(open, Vec::new());
        let (Some((_, mine)), Some((_, theirs))) =
            (self.block_signature(open), self.block_signature(expected))
        else {
            return;
        };
        for (mine, theirs) in mine.iter().zip(&theirs) {
            self.unify(b, mine.ty, theirs.ty);
        }
    }

    /// Declares a block. Another one with the same name and kind may exist if the constructor
    /// parameters differ.
    pub(crate) fn close_block(&mut self, name: &Name, entity: Entity) {
        match self.scopes.find_here(name.as_str()) {
            Some((Entity::Open, span)) if span == name.span => self.redeclare(name, entity),
            Some((before, span)) if before != Entity::Open => {
                let others = match before {
                    Entity::Blocks(list) => self.block_sets[list].clone(),
                    other => vec![other],
                };
                let mine = self.constructor_names(entity);
                let alike = |this: &Self, &other: &Entity| {
                    std::mem::discriminant(&other) != std::mem::discriminant(&entity)
                        || this.constructor_names(other) == mine
                };
                if mine.is_none() || others.iter().any(|other| alike(self, other)) {
                    return self.duplicate(name, span);
                }
                match before {
                    Entity::Blocks(list) => self.block_sets[list].push(entity),
                    _ => {
                        self.block_sets.push(vec![before, entity]);
                        self.redeclare(name, Entity::Blocks(self.block_sets.len() - 1));
                    }
                }
            }
            _ => self.declare(name, entity),
        }
    }

    /// Returns the constructor parameters of a block.
    fn constructor_params(&self, entity: Entity) -> Option<&[Param]> {
        match entity {
            Entity::Parser(id) => Some(&self.p.parsers[id].ctor_params),
            Entity::Control(id) => Some(&self.p.controls[id].ctor_params),
            Entity::BlockType(id)
                if self.p.block_types[id].kind == crate::hir::BlockTypeKind::Package =>
            {
                Some(&self.p.block_types[id].params)
            }
            _ => None,
        }
    }

    fn constructor_names(&self, entity: Entity) -> Option<Vec<Arc<str>>> {
        let params = self.constructor_params(entity)?;
        Some(
            params
                .iter()
                .map(|param| self.p.vars[param.var].name.text.clone())
                .collect(),
        )
    }

    /// Returns the block that fits the arguments of a constructor call, among those with one name.
    pub(crate) fn select_block(&mut self, list: usize, name: &Name, args: &[AstArg]) -> Entity {
        let fits = |this: &Self, &entity: &Entity| {
            this.constructor_params(entity)
                .is_some_and(|params| this.fits(params, args))
        };
        let fitting: Vec<Entity> = self.block_sets[list]
            .iter()
            .filter(|entity| fits(self, entity))
            .copied()
            .collect();
        match fitting[..] {
            [one] => one,
            [] => {
                let message = format!(
                    "no constructor of `{}` takes these arguments",
                    name.as_str()
                );
                self.error(code::BAD_ARGS, name.span, message);
                Entity::Poison
            }
            _ => {
                let message = format!(
                    "more than one constructor of `{}` takes these arguments",
                    name.as_str()
                );
                self.report(Diagnostic::error(code::AMBIGUOUS, name.span, message));
                Entity::Poison
            }
        }
    }

    /// Stores a default value with an open type, for evaluation at each use.
    pub(crate) fn keep_open_default(&mut self, var: VarId, expr: &ast::Expr) {
        self.open_defaults.insert(
            var,
            OpenDefault {
                expr: Rc::new(expr.clone()),
            },
        );
    }

    /// Evaluates an open default value with the known type arguments.
    pub(crate) fn open_default(
        &mut self,
        param: &Param,
        formal: TyId,
        b: &Bindings,
        span: Span,
    ) -> Option<Expr> {
        let default = self.open_defaults.get(&param.var)?.clone();
        let known: Subst = b.known();
        let unknown: Vec<TypeVarId> = b.unknown().collect();
        let expected = self.subst(formal, &known);
        let hidden = self.scopes.only_global();
        let mut value = self.scoped(|this| {
            for (var, ty) in known {
                let name = this.p.type_vars[var].clone();
                this.declare(&name, Entity::Typedef(ty));
            }
            for var in unknown {
                let name = this.p.type_vars[var].clone();
                this.declare(&name, Entity::TypeVar(var));
            }
            this.with_cx(
                |cx| cx.constructors = true,
                |this| this.expr(&default.expr, Some(expected)),
            )
        });
        self.scopes.restore(hidden);
        value.span = span;
        Some(value)
    }

    /// Returns the type variables in a type.
    pub(crate) fn vars_in(&self, ty: TyId) -> Vec<TypeVarId> {
        let mut found = Vec::new();
        self.collect_vars(ty, &mut found);
        found
    }

    fn collect_vars(&self, ty: TyId, found: &mut Vec<TypeVarId>) {
        match self.ty(ty) {
            Ty::Var(var) if !found.contains(var) => found.push(*var),
            Ty::Record(_, args)
            | Ty::Extern(_, args)
            | Ty::BlockType(_, args)
            | Ty::Tuple(args) => {
                args.iter().for_each(|&arg| self.collect_vars(arg, found));
            }
            Ty::List(element) | Ty::Set(element) | Ty::Stack(element, _) => {
                self.collect_vars(*element, found)
            }
            _ => {}
        }
    }
}
