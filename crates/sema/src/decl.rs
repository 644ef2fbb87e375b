//! Top-level declarations: constants, types, prototypes, functions and actions.

mod params;
mod types;

pub(crate) use params::Owner;

use syntax::ast::{self, Decl, Name};
use syntax::diag::Diagnostic;
use syntax::source::Span;

use crate::hir::{
    Action, BlockType, BlockTypeKind, Extern, ForeignBlock, Function, Method, Prototype, Ty, TyId,
    TypeVarId,
};
use crate::scope::Entity;
use crate::stmt::decl_span;
use crate::{Checker, Deprecated, FnRef, Place, annotations, arch, code};

impl Checker<'_> {
    /// Checks all declarations in order. Error codes and match kinds are visible in the whole
    /// program, wherever they are declared (section 7.1.2).
    pub(crate) fn program(&mut self, program: &ast::Program) {
        for decl in &program.decls {
            match decl {
                Decl::Error(list) => self.error_decl(list),
                Decl::MatchKind(list) => self.match_kind_decl(list),
                _ => {}
            }
        }
        for decl in &program.decls {
            self.top_level(decl);
        }
        self.check_main();
    }

    /// Checks that a top-level `main` is a package instance.
    fn check_main(&mut self) {
        let Some((entity, span)) = self.scopes.find_global("main") else {
            return;
        };
        let package = |ty: TyId| matches!(self.ty(ty), Ty::BlockType(..));
        match entity {
            Entity::Poison | Entity::Overloads(_) => {}
            Entity::Instance(id) if package(self.p.instances[id].ty) => {}
            _ => self.error(
                code::BAD_DECL,
                span,
                "`main` must be an instance of a package",
            ),
        }
    }

    fn top_level(&mut self, decl: &Decl) {
        match decl {
            Decl::Const(constant) => {
                let index = self.consts.len();
                self.const_decl(constant);
                if let Some(value) = self.consts.get(index) {
                    let constant = (constant.name.clone(), value.clone());
                    self.p.constants.push(constant);
                }
            }
            Decl::Foreign(block) => self.p.foreign.push(ForeignBlock {
                text: block.text.clone(),
                span: block.span,
            }),
            Decl::Extern(decl) => self.extern_decl(decl),
            Decl::ExternFunction(proto) => self.extern_function(proto),
            Decl::Action(action) => {
                self.action(action);
            }
            Decl::Parser(parser) => self.parser_decl(parser),
            Decl::ParserType(block) => self.block_type(block, BlockTypeKind::Parser),
            Decl::Control(control) => self.control_decl(control),
            Decl::ControlType(block) => self.block_type(block, BlockTypeKind::Control),
            Decl::Package(block) => self.block_type(block, BlockTypeKind::Package),
            Decl::Record(record) => {
                self.record_decl(record);
            }
            Decl::Enum(decl) => {
                self.enum_decl(decl);
            }
            Decl::Typedef(decl) => self.typedef(decl),
            // Declared before all others.
            Decl::Error(_) | Decl::MatchKind(_) => {}
            Decl::Function(function) => self.function_decl(function),
            Decl::Instance(instance) => self.global_instance(instance),
            Decl::ValueSet(set) => {
                self.value_set(set);
            }
            Decl::Variable(_) => {
                let message = "variables cannot be declared at the top level";
                let diagnostic = Diagnostic::error(code::WRONG_PLACE, decl_span(decl), message);
                self.report(
                    diagnostic.hint("declare a constant, or a variable in a control or parser"),
                );
            }
            Decl::Table(table) => {
                self.error(
                    code::WRONG_PLACE,
                    table.name.span,
                    "tables can only be declared in a control",
                );
            }
        }
    }

    fn global_instance(&mut self, decl: &ast::InstanceDecl) {
        let Some(id) = self.instance_decl(decl) else {
            return;
        };
        self.p.globals.push(id);
        if decl.name.as_str() == "main" {
            self.p.main = Some(id);
            self.p.package_annotations = self.p.instances[id].annotations.clone();
        }
    }

    /// Checks `const T name = init;` at any level.
    pub(crate) fn const_decl(&mut self, decl: &ast::ConstDecl) {
        let ty = self.resolve_closed(&decl.ty, decl.name.span);
        self.annotations(&decl.annotations);
        if ty != self.t.error && !self.is_value(ty) {
            let message = format!("a constant cannot have type {}", self.show(ty));
            self.error(code::BAD_TYPE, decl.name.span, message);
            self.declare(&decl.name, Entity::Poison);
            return;
        }
        self.open(&decl.name);
        let value = self.expr_to(&decl.init, ty);
        let mut value = value;
        if value.ty != self.t.error && !self.is_literal(&value) {
            let message = format!(
                "the value of constant `{}` must be known at compile time",
                decl.name.as_str()
            );
            value = self.fail(code::NOT_CONSTANT, decl.init.span, message);
        }
        if value.ty == self.t.error {
            self.close(&decl.name, Entity::Poison);
            return;
        }
        if let Some(number) = self.int_value(&value) {
            arch::check_constant(decl, &number, &mut self.diags);
        }
        self.consts.push(value);
        self.close(&decl.name, Entity::Const(self.consts.len() - 1));
    }

    /// Declares type parameters in the innermost scope.
    pub(crate) fn type_params(&mut self, names: &[Name]) -> Vec<TypeVarId> {
        names
            .iter()
            .map(|name| {
                let var = self.p.type_vars.push(name.clone());
                self.declare(name, Entity::TypeVar(var));
                var
            })
            .collect()
    }

    fn block_type(&mut self, decl: &ast::BlockTypeDecl, kind: BlockTypeKind) {
        let annotations = self.annotations(&decl.annotations);
        self.open(&decl.name);
        let (type_params, params) = self.scoped(|this| {
            let type_params = this.type_params(&decl.type_params);
            let owner = match kind {
                BlockTypeKind::Package => Owner::Package,
                _ => Owner::BlockType,
            };
            let params = this.params(&decl.params, owner);
            (type_params, params)
        });
        let block = BlockType {
            kind,
            name: decl.name.clone(),
            type_params,
            params,
            annotations,
        };
        let id = self.p.block_types.push(block);
        self.close_block(&decl.name, Entity::BlockType(id));
    }

    fn extern_decl(&mut self, decl: &ast::ExternDecl) {
        let annotations = self.annotations(&decl.annotations);
        self.open(&decl.name);
        let id = self.scoped(|this| {
            let type_params = this.type_params(&decl.type_params);
            let mut constructors = Vec::new();
            let mut methods: Vec<Method> = Vec::new();
            for method in &decl.methods {
                let is_constructor = method.proto.name.text == decl.name.text;
                let owner = if is_constructor {
                    Owner::Constructor
                } else {
                    Owner::Method
                };
                this.check_method_name(decl, method);
                let proto = this.prototype(&method.proto, owner);
                if is_constructor {
                    this.check_twin(&proto, constructors.iter());
                    constructors.push(proto);
                } else {
                    this.check_method_twin(&proto, method.is_abstract, &methods);
                    methods.push(Method {
                        proto,
                        is_abstract: method.is_abstract,
                    });
                }
            }
            let decl = Extern {
                name: decl.name.clone(),
                type_params,
                constructors,
                methods,
                annotations,
            };
            this.p.externs.push(decl)
        });
        if let Some(text) = annotations::string_of(&self.p.externs[id].annotations, "deprecated") {
            self.deprecated
                .insert(Deprecated::Extern(id), text.to_string());
        }
        self.close(&decl.name, Entity::Extern(id));
    }

    fn check_method_name(&mut self, decl: &ast::ExternDecl, method: &ast::MethodProto) {
        let (name, ret) = (&method.proto.name, &method.proto.ret);
        if name.text == decl.name.text && ret.is_some() {
            self.error(
                code::BAD_DECL,
                name.span,
                "a constructor cannot have a return type",
            );
        } else if name.text != decl.name.text && ret.is_none() {
            let message = format!("method `{}` has no return type", name.as_str());
            let diagnostic = Diagnostic::error(code::BAD_DECL, name.span, message);
            self.report(diagnostic.hint(format!(
                "a constructor would be named `{}`",
                decl.name.as_str()
            )));
        }
        if name.text == decl.name.text && !method.proto.type_params.is_empty() {
            self.error(
                code::BAD_DECL,
                name.span,
                "a constructor cannot have type parameters",
            );
        }
    }

    fn check_method_twin(&mut self, proto: &Prototype, is_abstract: bool, before: &[Method]) {
        let same_name = before.iter().find(|m| m.proto.name.text == proto.name.text);
        if let Some(other) = same_name
            && (is_abstract || other.is_abstract)
        {
            let message = format!(
                "abstract method `{}` cannot be overloaded",
                proto.name.as_str()
            );
            let diagnostic = Diagnostic::error(code::DUPLICATE, proto.name.span, message);
            self.report(diagnostic.label(other.proto.name.span, "declared here before"));
            return;
        }
        self.check_twin(proto, before.iter().map(|m| &m.proto));
    }

    /// Checks that two declarations with the same name differ in the number or names of their
    /// parameters.
    fn check_twin<'p>(&mut self, proto: &Prototype, before: impl Iterator<Item = &'p Prototype>) {
        let names = |p: &Prototype| -> Vec<std::sync::Arc<str>> {
            p.params
                .iter()
                .map(|param| self.p.vars[param.var].name.text.clone())
                .collect()
        };
        let mine = names(proto);
        let twin = before
            .into_iter()
            .find(|other| other.name.text == proto.name.text && names(other) == mine);
        if let Some(twin) = twin {
            let span = twin.name.span;
            let message = format!(
                "`{}` is declared twice with the same parameters",
                proto.name.as_str()
            );
            self.report(
                Diagnostic::error(code::DUPLICATE, proto.name.span, message)
                    .label(span, "declared here before"),
            );
        }
    }

    /// Checks a prototype. Its type parameters and parameters are declared in a separate scope.
    fn prototype(&mut self, proto: &ast::FunctionProto, owner: Owner) -> Prototype {
        self.scoped(|this| this.open_prototype(proto, owner))
    }

    /// Checks a prototype and leaves its parameters declared in the current scope.
    pub(crate) fn open_prototype(&mut self, proto: &ast::FunctionProto, owner: Owner) -> Prototype {
        let annotations = self.annotations(&proto.annotations);
        let type_params = self.type_params(&proto.type_params);
        let ret = match &proto.ret {
            Some(ty) => self.resolve_return(ty),
            None => self.t.void,
        };
        let ret = self.check_return_type(ret, proto, owner);
        let params = self.params(&proto.params, owner);
        Prototype {
            name: proto.name.clone(),
            type_params,
            params,
            ret,
            annotations,
        }
    }

    fn check_return_type(&mut self, ret: TyId, proto: &ast::FunctionProto, owner: Owner) -> TyId {
        let bad = match self.ty(ret) {
            Ty::Integer | Ty::String => true,
            Ty::Void => false,
            // A factory of objects, called at compile time.
            Ty::Extern(..) => owner != Owner::ExternFunction,
            _ => !self.is_value(ret),
        };
        if bad {
            let message = format!("`{}` cannot return {}", proto.name.as_str(), self.show(ret));
            self.error(code::BAD_RETURN, proto.name.span, message);
            return self.t.error;
        }
        ret
    }

    fn extern_function(&mut self, decl: &ast::FunctionProto) {
        let proto = self.prototype(decl, Owner::ExternFunction);
        let deprecated = annotations::string_of(&proto.annotations, "deprecated");
        let id = self.p.extern_functions.push(proto);
        if let Some(text) = deprecated {
            self.deprecated
                .insert(Deprecated::Function(id), text.to_string());
        }
        self.add_overload(&decl.name, FnRef::Extern(id));
    }

    fn add_overload(&mut self, name: &Name, function: FnRef) {
        match self.scopes_here(name) {
            None => {
                self.overloads.push(vec![function]);
                self.declare(name, Entity::Overloads(self.overloads.len() - 1));
            }
            Some((Entity::Overloads(list), _)) => {
                let bodiless = |f: &FnRef| matches!(f, FnRef::Extern(_));
                let others: Vec<Prototype> = self.overloads[list]
                    .iter()
                    .map(|&f| self.fn_proto(f).clone())
                    .collect();
                let proto = self.fn_proto(function).clone();
                // Functions with bodies that differ only in types are ambiguous only when they are
                // called.
                if bodiless(&function) {
                    self.check_twin(&proto, others.iter());
                }
                self.overloads[list].push(function);
            }
            Some((Entity::Open, span)) if span == name.span => {
                self.overloads.push(vec![function]);
                self.redeclare(name, Entity::Overloads(self.overloads.len() - 1));
            }
            Some((_, before)) => self.duplicate(name, before),
        }
    }

    fn scopes_here(&self, name: &Name) -> Option<(Entity, Span)> {
        self.scopes.find_here(name.as_str())
    }

    pub(crate) fn fn_proto(&self, function: FnRef) -> &Prototype {
        match function {
            FnRef::Function(id) => &self.p.functions[id].proto,
            FnRef::Extern(id) => &self.p.extern_functions[id],
        }
    }

    fn function_decl(&mut self, decl: &ast::FunctionDecl) {
        self.open(&decl.proto.name);
        let function = self.function_body(decl, Owner::Function, Place::Function);
        let id = self.p.functions.push(function);
        self.add_overload(&decl.proto.name, FnRef::Function(id));
    }

    /// Checks a function with its body.
    pub(crate) fn function_body(
        &mut self,
        decl: &ast::FunctionDecl,
        owner: Owner,
        place: Place,
    ) -> Function {
        let this = self.cx.this;
        self.with_cx(
            |cx| {
                cx.place = place;
                cx.loops = 0;
                cx.this = this;
                cx.constructors = false;
                cx.switch_subject = false;
            },
            |checker| {
                checker.scoped(|checker| {
                    let proto = checker.open_prototype(&decl.proto, owner);
                    checker.cx.ret = proto.ret;
                    let body = checker.block(&decl.body);
                    Function { proto, body }
                })
            },
        )
    }

    /// Checks an action of the top level or of a control.
    pub(crate) fn action(&mut self, decl: &ast::ActionDecl) -> crate::hir::ActionId {
        let annotations = self.annotations(&decl.annotations);
        self.open(&decl.name);
        let void = self.t.void;
        let (params, body) = self.with_cx(
            |cx| {
                cx.place = Place::Action;
                cx.ret = void;
                cx.loops = 0;
                cx.switch_subject = false;
            },
            |this| {
                this.scoped(|this| {
                    let params = this.params(&decl.params, Owner::Action);
                    let body = this.block(&decl.body);
                    (params, body)
                })
            },
        );
        let control = self.cx.control;
        let action = Action {
            name: decl.name.clone(),
            params,
            body,
            annotations,
            control,
        };
        let id = self.p.actions.push(action);
        self.action_spans.insert(id, decl.name.span);
        self.close(&decl.name, Entity::Action(id));
        id
    }
}
