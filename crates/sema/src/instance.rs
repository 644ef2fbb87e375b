//! Instances: declarations, constructor calls in place, and the bodies of abstract methods.

use std::sync::Arc;

use syntax::ast::{self, Arg as AstArg, Decl, Name, TypeRef};
use syntax::diag::Diagnostic;
use syntax::source::Span;

use crate::call::{ProtoRef, Written};
use crate::decl::Owner;
use crate::hir::{
    Annotation, Arg, BlockTypeKind, Expr, ExprKind, ExternId, FunctionId, Instance, InstanceId,
    Param, Ty, TyId, TypeVarId,
};
use crate::scope::Entity;
use crate::types::Subst;
use crate::unify::Bindings;
use crate::{Checker, Deprecated, Place, ThisCx, annotations, code};

/// Kind of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Extern,
    Parser,
    Control,
    Package,
}

/// A type for instantiation: the meaning of its name, and the type arguments if they are written.
struct Constructible {
    entity: Entity,
    type_args: Vec<TyId>,
    kind: Kind,
    name: Arc<str>,
}

/// A request for an instance.
struct Wanted<'a> {
    name: Name,
    args: &'a [AstArg],
    annotations: Vec<Annotation>,
    init: Option<&'a [Decl]>,
    span: Span,
    /// The type of the parameter that receives the instance.
    expected: Option<TyId>,
}

impl Checker<'_> {
    /// Checks `T(args) name;`, and declares it in the innermost scope.
    pub(crate) fn instance_decl(&mut self, decl: &ast::InstanceDecl) -> Option<InstanceId> {
        let annotations = self.annotations(&decl.annotations);
        let wanted = Wanted {
            name: decl.name.clone(),
            args: &decl.args,
            annotations,
            init: decl.init.as_deref(),
            span: decl.name.span,
            expected: None,
        };
        let (element, sizes) = array_parts(decl);
        let id = self.instantiate_type(element, wanted);
        if let Some(id) = id {
            for size in sizes.into_iter().rev() {
                let element = self.p.instances[id].ty;
                if let Some(size) = self.element_count(size) {
                    self.p.instances[id].ty = self.intern(Ty::Stack(element, size));
                }
            }
        }
        self.declare(&decl.name, id.map_or(Entity::Poison, Entity::Instance));
        id
    }

    /// Checks `T(args)` as an expression: an argument of a constructor, or a table property.
    pub(crate) fn constructor_call(
        &mut self,
        ty: &TypeRef,
        args: &[AstArg],
        span: Span,
        expected: Option<TyId>,
    ) -> Expr {
        if !self.cx.constructors {
            for arg in args {
                if let Some(value) = &arg.value {
                    self.expr(value, None);
                }
            }
            let message =
                "a constructor can only be called in an instantiation or in an argument of one";
            return self.fail(code::BAD_INSTANCE, span, message);
        }
        // Named later, after the parameter that receives the instance.
        let name = Name {
            text: "".into(),
            span,
        };
        let wanted = Wanted {
            name,
            args,
            annotations: Vec::new(),
            init: None,
            span,
            expected,
        };
        match self.instantiate_type(ty, wanted) {
            Some(id) => Expr {
                kind: ExprKind::Instance(id),
                ty: self.p.instances[id].ty,
                span,
            },
            None => self.poison(span),
        }
    }

    fn instantiate_type(&mut self, ty: &TypeRef, wanted: Wanted<'_>) -> Option<InstanceId> {
        let Some(what) = self.constructible(ty, &wanted) else {
            self.check_loose_args(wanted.args);
            return None;
        };
        if !self.check_place(&what, &wanted) {
            self.check_loose_args(wanted.args);
            return None;
        }
        match what.entity {
            Entity::Extern(id) => self.extern_instance(id, what, wanted),
            _ => self.block_instance(what, wanted),
        }
    }

    fn check_loose_args(&mut self, args: &[AstArg]) {
        self.with_cx(
            |cx| cx.constructors = true,
            |this| {
                for value in args.iter().filter_map(|arg| arg.value.as_ref()) {
                    this.expr(value, None);
                }
            },
        );
    }

    fn constructible(&mut self, ty: &TypeRef, wanted: &Wanted<'_>) -> Option<Constructible> {
        let (path, type_args) = match ty {
            TypeRef::Name(path) => (path, Vec::new()),
            TypeRef::Specialized(path, args, _) => {
                let args: Vec<TyId> = args.iter().map(|arg| self.resolve_type_arg(arg)).collect();
                (path, args)
            }
            other => {
                let ty = self.resolve_type(other);
                if ty != self.t.error {
                    self.not_constructible(ty, wanted);
                }
                return None;
            }
        };
        if self.peek(path).is_none() {
            self.unknown(&path.name, "type", Entity::is_type);
            return None;
        }
        if type_args.contains(&self.t.error) {
            return None;
        }
        let (entity, type_args) = match self.resolve(path) {
            Entity::Typedef(ty) => {
                if !type_args.is_empty() {
                    self.type_arg_count(path.name.as_str(), path.span(), 0, type_args.len());
                    return None;
                }
                match self.ty(ty).clone() {
                    Ty::Extern(id, args) => (Entity::Extern(id), args),
                    Ty::Parser(id) => (Entity::Parser(id), Vec::new()),
                    Ty::Control(id) => (Entity::Control(id), Vec::new()),
                    Ty::BlockType(id, args) => (Entity::BlockType(id), args),
                    _ => {
                        self.not_constructible(ty, wanted);
                        return None;
                    }
                }
            }
            entity => (entity, type_args),
        };
        if let Some(&bad) = type_args.iter().find(|&&arg| !self.may_be_type_arg(arg)) {
            let message = format!("{} cannot be a type argument", self.show(bad));
            self.error(code::BAD_TYPE, path.span(), message);
            return None;
        }
        self.classify(entity, type_args, path, wanted)
    }

    fn classify(
        &mut self,
        entity: Entity,
        type_args: Vec<TyId>,
        path: &ast::Path,
        wanted: &Wanted<'_>,
    ) -> Option<Constructible> {
        let (kind, params) = match entity {
            Entity::Extern(id) => (Kind::Extern, self.p.externs[id].type_params.len()),
            Entity::Blocks(list) => {
                let chosen = self.select_block(list, &path.name, wanted.args);
                return self.classify(chosen, type_args, path, wanted);
            }
            Entity::Template(template) => {
                let kind = match self.templates[template].open {
                    Entity::Parser(_) => Kind::Parser,
                    _ => Kind::Control,
                };
                (kind, self.templates[template].vars.len())
            }
            Entity::Parser(_) => (Kind::Parser, 0),
            Entity::Control(_) => (Kind::Control, 0),
            Entity::BlockType(id) if self.p.block_types[id].kind == BlockTypeKind::Package => {
                (Kind::Package, self.p.block_types[id].type_params.len())
            }
            Entity::BlockType(_) => {
                let message = format!(
                    "`{}` is only a parser or control type: it has no body to instantiate",
                    path.name.as_str()
                );
                self.error(code::BAD_INSTANCE, wanted.span, message);
                return None;
            }
            Entity::Poison => return None,
            entity if entity.is_type() => {
                let ty = self.entity_type(entity, Vec::new());
                if ty != self.t.error {
                    self.not_constructible(ty, wanted);
                }
                return None;
            }
            other => {
                let message = format!(
                    "`{}` is {}, not a type",
                    path.name.as_str(),
                    other.describe()
                );
                self.error(code::WRONG_KIND, path.span(), message);
                return None;
            }
        };
        if !type_args.is_empty() && type_args.len() != params {
            self.type_arg_count(path.name.as_str(), path.span(), params, type_args.len());
            return None;
        }
        Some(Constructible {
            entity,
            type_args,
            kind,
            name: path.name.text.clone(),
        })
    }

    fn not_constructible(&mut self, ty: TyId, wanted: &Wanted<'_>) {
        let message = format!(
            "{} has no constructor: instances are of externs, parsers, controls and packages",
            self.show(ty)
        );
        self.error(code::BAD_INSTANCE, wanted.span, message);
    }

    /// Checks the context of an instantiation (second table of appendix F).
    fn check_place(&mut self, what: &Constructible, wanted: &Wanted<'_>) -> bool {
        let nested = self.cx.constructors && wanted.name.as_str().is_empty();
        let problem = match (what.kind, self.cx.place) {
            (Kind::Parser | Kind::Control, Place::TopLevel) if !nested => {
                Some("parsers and controls cannot be instantiated at the top level")
            }
            (_, Place::TopLevel) => None,
            (Kind::Package, _) => Some("a package can only be instantiated at the top level"),
            (Kind::Parser, Place::ControlLocals | Place::ControlApply) => {
                Some("a parser cannot be instantiated in a control")
            }
            (Kind::Control, Place::ParserLocals | Place::ParserState) => {
                Some("a control cannot be instantiated in a parser")
            }
            _ => None,
        };
        if let Some(message) = problem {
            self.error(code::BAD_INSTANCE, wanted.span, message);
        }
        problem.is_none()
    }

    fn block_instance(&mut self, what: Constructible, wanted: Wanted<'_>) -> Option<InstanceId> {
        if wanted.init.is_some() {
            self.error(
                code::BAD_INSTANCE,
                wanted.span,
                "only an instance of an extern can have an initializer block",
            );
        }
        let open = match what.entity {
            Entity::Template(template) => self.templates[template].open,
            entity => entity,
        };
        let params: Vec<Param> = match open {
            Entity::Parser(id) => self.p.parsers[id].ctor_params.clone(),
            Entity::Control(id) => self.p.controls[id].ctor_params.clone(),
            Entity::BlockType(id) => self.p.block_types[id].params.clone(),
            _ => return None,
        };
        let vars: Vec<TypeVarId> = match what.entity {
            Entity::Template(template) => self.templates[template].vars.clone(),
            Entity::BlockType(id) => self.p.block_types[id].type_params.clone(),
            _ => Vec::new(),
        };
        let mut b = self.given_type_args(&vars, &what.type_args);
        if let (Entity::Template(template), Some(expected)) = (what.entity, wanted.expected) {
            self.unify_template(&mut b, template, expected);
        }
        let args = self.constructor_args(&params, &mut b, &what, &wanted)?;
        let type_args = self.type_args_of(&vars, &b);
        let ty = self.entity_type(what.entity, type_args);
        if ty == self.t.error {
            return None;
        }
        Some(self.push_instance(wanted, ty, 0, args, &params))
    }

    /// Returns the inferred type arguments, in the order of the parameters.
    fn type_args_of(&self, vars: &[TypeVarId], b: &Bindings) -> Vec<TyId> {
        let known = b.known();
        let of = |var: &TypeVarId| {
            known
                .iter()
                .find(|(v, _)| v == var)
                .map_or(self.t.error, |&(_, ty)| ty)
        };
        vars.iter().map(of).collect()
    }

    fn given_type_args(&self, vars: &[TypeVarId], given: &[TyId]) -> Bindings {
        let mut b = Bindings::new(vars.iter().copied());
        for (&var, &ty) in vars.iter().zip(given) {
            match self.ty(ty) {
                Ty::Var(v) if self.dont_care.contains(v) => b.leave_free(var),
                _ => b.set(var, ty),
            }
        }
        b
    }

    fn constructor_args(
        &mut self,
        params: &[Param],
        b: &mut Bindings,
        what: &Constructible,
        wanted: &Wanted<'_>,
    ) -> Option<Vec<Arg>> {
        let name = what.name.clone();
        let written = Written {
            name: &name,
            type_args: &[],
            args: wanted.args,
            span: wanted.span,
            expected: None,
        };
        let args = self.with_cx(
            |cx| cx.constructors = true,
            |this| {
                this.bind_args(
                    params,
                    &Subst::new(),
                    b,
                    None,
                    crate::call::Rule::Constant,
                    written,
                )
            },
        )?;
        Some(args)
    }

    fn push_instance(
        &mut self,
        wanted: Wanted<'_>,
        ty: TyId,
        constructor: usize,
        args: Vec<Arg>,
        params: &[Param],
    ) -> InstanceId {
        // Instances constructed in place are named after the parameter that receives them.
        for (arg, param) in args.iter().zip(params) {
            if let Arg::Expr(Expr {
                kind: ExprKind::Instance(id),
                ..
            }) = arg
                && self.p.instances[*id].name.as_str().is_empty()
            {
                let text = self.p.vars[param.var].name.text.clone();
                self.p.instances[*id].name.text = text;
            }
        }
        let instance = Instance {
            name: wanted.name,
            ty,
            constructor,
            args,
            methods: Vec::new(),
            inner: Vec::new(),
            annotations: wanted.annotations,
            span: wanted.span,
        };
        self.p.instances.push(instance)
    }

    fn extern_instance(
        &mut self,
        id: ExternId,
        what: Constructible,
        wanted: Wanted<'_>,
    ) -> Option<InstanceId> {
        let name = what.name.clone();
        let written = Written {
            name: &name,
            type_args: &[],
            args: wanted.args,
            span: wanted.span,
            expected: None,
        };
        let candidates: Vec<ProtoRef> = (0..self.p.externs[id].constructors.len())
            .map(|i| ProtoRef::Constructor(id, i))
            .collect();
        if candidates.is_empty() {
            self.error(
                code::BAD_INSTANCE,
                wanted.span,
                format!("extern `{name}` has no constructor"),
            );
            self.check_loose_args(wanted.args);
            return None;
        }
        let Some(ProtoRef::Constructor(_, constructor)) =
            self.select(&candidates, "constructor of", written)
        else {
            self.check_loose_args(wanted.args);
            return None;
        };
        let vars = self.p.externs[id].type_params.clone();
        let params = self.p.externs[id].constructors[constructor].params.clone();
        let mut b = self.given_type_args(&vars, &what.type_args);
        if let Some(init) = wanted.init {
            self.infer_from_methods(id, init, &mut b);
        }
        let args = self.constructor_args(&params, &mut b, &what, &wanted)?;
        let known = b.known();
        let type_args = self.type_args_of(&vars, &b);
        let ty = self.intern(Ty::Extern(id, type_args));
        let ty = self.well_formed(ty, wanted.span);
        if ty == self.t.error {
            return None;
        }
        self.warn_deprecated(Deprecated::Extern(id), wanted.span);
        let init = wanted.init;
        let span = wanted.span;
        let in_place = wanted.name.as_str().is_empty();
        let instance = self.push_instance(wanted, ty, constructor, args, &params);
        self.abstract_methods(id, ty, known, init, instance, in_place, span);
        Some(instance)
    }

    /// Infers type arguments that only the bodies of abstract methods determine.
    fn infer_from_methods(&mut self, id: ExternId, init: &[Decl], b: &mut Bindings) {
        if b.is_empty() {
            return;
        }
        for decl in init {
            let Decl::Function(function) = decl else {
                continue;
            };
            let method = self.p.externs[id]
                .methods
                .iter()
                .find(|m| m.is_abstract && m.proto.name.text == function.proto.name.text)
                .map(|m| (m.proto.params.clone(), m.proto.ret));
            let Some((params, ret)) = method else {
                continue;
            };
            for (param, written) in params.iter().zip(&function.proto.params) {
                let actual = self.resolve_type(&written.ty);
                let formal = self.p.vars[param.var].ty;
                self.unify(b, formal, actual);
            }
            if let Some(actual) = &function.proto.ret {
                let actual = self.resolve_return(actual);
                self.unify(b, ret, actual);
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one step of the construction, with all that is known so far"
    )]
    fn abstract_methods(
        &mut self,
        id: ExternId,
        ty: TyId,
        subst: Subst,
        init: Option<&[Decl]>,
        instance: InstanceId,
        in_place: bool,
        span: Span,
    ) {
        let needed: Vec<usize> = (0..self.p.externs[id].methods.len())
            .filter(|&i| self.p.externs[id].methods[i].is_abstract)
            .collect();
        let Some(init) = init else {
            let optional = |&&i: &&usize| {
                annotations::has(&self.p.externs[id].methods[i].proto.annotations, "optional")
            };
            if let Some(&first) = needed.iter().find(|i| !optional(i)) {
                let method = self.p.externs[id].methods[first].proto.name.clone();
                let message = if in_place {
                    format!(
                        "extern `{}` has abstract methods: declare an instance of it",
                        self.p.externs[id].name.as_str()
                    )
                } else {
                    format!("abstract method `{}` is not implemented", method.as_str())
                };
                let diagnostic = Diagnostic::error(code::ABSTRACT_METHOD, span, message);
                self.report(
                    diagnostic
                        .label(method.span, "the method")
                        .hint("add `= { .. }` with a body for each abstract method"),
                );
            }
            return;
        };
        if needed.is_empty() {
            let message = format!(
                "extern `{}` has no abstract methods to implement",
                self.p.externs[id].name.as_str()
            );
            self.error(code::ABSTRACT_METHOD, span, message);
        }
        let (methods, inner) = self.initializer(id, ty, &subst, init);
        for &index in &needed {
            if annotations::has(
                &self.p.externs[id].methods[index].proto.annotations,
                "optional",
            ) {
                continue;
            }
            if !methods.iter().any(|&(i, _)| i == index) {
                let method = self.p.externs[id].methods[index].proto.name.clone();
                let message = format!("abstract method `{}` is not implemented", method.as_str());
                let diagnostic = Diagnostic::error(code::ABSTRACT_METHOD, span, message);
                self.report(diagnostic.label(method.span, "the method"));
            }
        }
        self.p.instances[instance].methods = methods;
        self.p.instances[instance].inner = inner;
    }

    /// Checks the initializer block. Its methods see the enclosing declarations, as existing
    /// programs expect. The specification grants them only the block and the top level.
    fn initializer(
        &mut self,
        id: ExternId,
        ty: TyId,
        subst: &Subst,
        init: &[Decl],
    ) -> (Vec<(usize, FunctionId)>, Vec<InstanceId>) {
        let mut methods = Vec::new();
        let mut inner = Vec::new();
        self.scoped(|this| {
            for decl in init {
                match decl {
                    Decl::Instance(decl) => inner.extend(this.instance_decl(decl)),
                    Decl::Const(decl) => this.const_decl(decl),
                    Decl::Function(decl) => {
                        if let Some(method) = this.method_body(id, ty, subst, decl) {
                            methods.push(method);
                        }
                    }
                    other => {
                        let span = crate::stmt::decl_span(other);
                        let message = "an initializer block holds methods and instances only";
                        this.error(code::WRONG_PLACE, span, message);
                    }
                }
            }
        });
        (methods, inner)
    }

    fn method_body(
        &mut self,
        id: ExternId,
        ty: TyId,
        subst: &Subst,
        decl: &ast::FunctionDecl,
    ) -> Option<(usize, FunctionId)> {
        let name = &decl.proto.name;
        let found = self.p.externs[id]
            .methods
            .iter()
            .position(|m| m.is_abstract && m.proto.name.text == name.text);
        let outer = self.cx.this.replace(ThisCx { ty });
        let function = self.function_body(decl, Owner::AbstractBody, Place::Method);
        self.cx.this = outer;
        let Some(index) = found else {
            let names: Vec<String> = self.p.externs[id]
                .methods
                .iter()
                .filter(|m| m.is_abstract)
                .map(|m| m.proto.name.as_str().to_string())
                .collect();
            let message = format!(
                "extern `{}` has no abstract method `{}`",
                self.p.externs[id].name.as_str(),
                name.as_str()
            );
            let diagnostic = Diagnostic::error(code::ABSTRACT_METHOD, name.span, message);
            self.report(diagnostic.suggest(name.as_str(), names.iter().map(String::as_str)));
            return None;
        };
        self.check_implements(id, index, subst, &function);
        let function = self.p.functions.push(function);
        Some((index, function))
    }

    /// Checks that an implementation has the parameters, directions and types of its abstract
    /// method.
    fn check_implements(
        &mut self,
        id: ExternId,
        index: usize,
        subst: &Subst,
        function: &crate::hir::Function,
    ) {
        let (params, ret, declared, vars) = {
            let proto = &self.p.externs[id].methods[index].proto;
            (
                proto.params.clone(),
                proto.ret,
                proto.name.span,
                proto.type_params.clone(),
            )
        };
        let mut subst = subst.clone();
        for (&theirs, &mine) in vars.iter().zip(&function.proto.type_params) {
            let mine = self.intern(Ty::Var(mine));
            subst.push((theirs, mine));
        }
        let ret = self.subst(ret, &subst);
        let mut same = ret == function.proto.ret;
        let mut mine = function.proto.params.iter().peekable();
        for theirs in &params {
            let formal = self.p.vars[theirs.var].ty;
            let formal = self.subst(formal, &subst);
            let kind = self.p.vars[theirs.var].kind;
            let fits =
                |p: &&Param| self.p.vars[p.var].ty == formal && self.p.vars[p.var].kind == kind;
            if mine.peek().is_some_and(fits) {
                mine.next();
            } else {
                same &= theirs.optional;
            }
        }
        same &= mine.next().is_none();
        let poisoned = function.proto.ret == self.t.error
            || function
                .proto
                .params
                .iter()
                .any(|p| self.p.vars[p.var].ty == self.t.error);
        if !same && !poisoned {
            let name = &function.proto.name;
            let message = format!(
                "`{}` does not have the parameters and result of the abstract method",
                name.as_str()
            );
            let diagnostic = Diagnostic::error(code::ABSTRACT_METHOD, name.span, message);
            self.report(diagnostic.label(declared, "the method"));
        }
    }
}

/// Returns the element type and the sizes of an array of instances: `T(args) name[n];` or
/// `T[n](args) name;`.
fn array_parts(decl: &ast::InstanceDecl) -> (&TypeRef, Vec<&ast::Expr>) {
    let mut sizes: Vec<&ast::Expr> = decl.sizes.iter().collect();
    let mut element = &decl.ty;
    while let TypeRef::Array(inner, size, _) = element {
        sizes.push(size);
        element = inner;
    }
    (element, sizes)
}
