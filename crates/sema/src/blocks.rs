//! Parsers and controls: their parameters, locals, states and bodies.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use bits::{Id, IdVec};
use syntax::ast::{self, Decl, Name};
use syntax::diag::Diagnostic;

use crate::decl::Owner;
use crate::hir::{
    Control, ControlId, LocalDecl, Param, Parser, ParserId, SelectCase, State, StateId, Target,
    Transition, Ty, TyId, ValueSet, ValueSetId,
};
use crate::scope::Entity;
use crate::stmt::decl_span;
use crate::template::TemplateDecl;
use crate::{BlockCx, Checker, Place, code};

impl Checker<'_> {
    pub(crate) fn parser_decl(&mut self, decl: &ast::ParserDecl) {
        if !decl.signature.type_params.is_empty() {
            return self.template(TemplateDecl::Parser(Rc::new(decl.clone())));
        }
        self.open(&decl.signature.name);
        let id = self.make_parser(decl, &[]);
        self.close_block(&decl.signature.name, Entity::Parser(id));
    }

    /// Checks a parser with `type_args` for its type parameters.
    pub(crate) fn make_parser(&mut self, decl: &ast::ParserDecl, type_args: &[Entity]) -> ParserId {
        let annotations = self.annotations(&decl.signature.annotations);
        let id = self.p.parsers.push(Parser {
            name: decl.signature.name.clone(),
            params: Vec::new(),
            ctor_params: Vec::new(),
            locals: Vec::new(),
            states: IdVec::new(),
            start: StateId::new(0),
            annotations,
        });
        self.in_block(Place::ParserLocals, None, |this| {
            this.parser_parts(id, decl, type_args)
        });
        id
    }

    /// Runs `f` in the context of a new parser or control.
    fn in_block(&mut self, place: Place, control: Option<ControlId>, f: impl FnOnce(&mut Self)) {
        let pending = std::mem::take(&mut self.cx.pending);
        let cx = BlockCx {
            place,
            control,
            ..BlockCx::new(self.t.void)
        };
        let outer = std::mem::replace(&mut self.cx, cx);
        f(self);
        self.cx = outer;
        self.cx.pending = pending;
    }

    fn parser_parts(&mut self, id: ParserId, decl: &ast::ParserDecl, type_args: &[Entity]) {
        self.scoped(|this| {
            let (params, ctor_params) = this.signature(
                &decl.signature,
                &decl.ctor_params,
                Owner::ParserConstructor,
                type_args,
            );
            let parser = &mut this.p.parsers[id];
            parser.params = params;
            parser.ctor_params = ctor_params;
            this.scoped(|this| {
                let locals = this.locals(&decl.locals);
                let (states, start) = this.states(decl);
                let pending = std::mem::take(&mut this.cx.pending);
                let parser = &mut this.p.parsers[id];
                parser.locals = locals;
                parser.locals.extend(pending);
                parser.states = states;
                parser.start = start.unwrap_or(StateId::new(0));
            });
        });
    }

    fn signature(
        &mut self,
        signature: &ast::BlockTypeDecl,
        ctor_params: &[ast::Param],
        owner: Owner,
        type_args: &[Entity],
    ) -> (Vec<Param>, Vec<Param>) {
        for (param, &entity) in signature.type_params.iter().zip(type_args) {
            self.declare(param, entity);
        }
        let params = self.params(&signature.params, Owner::Block);
        let ctor_params = self.params(ctor_params, owner);
        (params, ctor_params)
    }

    /// Checks constants, variables, instances, value sets, actions and tables, in order.
    fn locals(&mut self, decls: &[Decl]) -> Vec<LocalDecl> {
        let mut locals = Vec::new();
        for decl in decls {
            let local = match decl {
                Decl::Const(constant) => {
                    self.const_decl(constant);
                    None
                }
                Decl::Variable(variable) => self
                    .variable(variable)
                    .map(|(var, init)| LocalDecl::Var(var, init)),
                Decl::Instance(instance) => self.instance_decl(instance).map(LocalDecl::Instance),
                Decl::ValueSet(set) if self.cx.place.in_parser() => {
                    self.value_set(set).map(LocalDecl::ValueSet)
                }
                Decl::Action(action) if self.cx.place == Place::ControlLocals => {
                    Some(LocalDecl::Action(self.action(action)))
                }
                Decl::Table(table) if self.cx.place == Place::ControlLocals => {
                    self.table(table).map(LocalDecl::Table)
                }
                other => {
                    let block = if self.cx.place.in_parser() {
                        "parser"
                    } else {
                        "control"
                    };
                    let message = format!("this cannot be declared in a {block}");
                    self.error(code::WRONG_PLACE, decl_span(other), message);
                    None
                }
            };
            // Instances created by initialisers and properties precede the declarations that use
            // them.
            locals.append(&mut self.cx.pending);
            locals.extend(local);
        }
        locals
    }

    pub(crate) fn value_set(&mut self, decl: &ast::ValueSetDecl) -> Option<ValueSetId> {
        let annotations = self.annotations(&decl.annotations);
        let element = self.resolve_type(&decl.ty);
        if element != self.t.error && !self.may_be_in_value_set(element) {
            let message = format!("a value set cannot hold {}", self.show(element));
            self.error(code::BAD_TYPE, decl.span, message);
            self.declare(&decl.name, Entity::Poison);
            return None;
        }
        let size = self.expr(&decl.size, None);
        let numeric = self.is_numeric(size.ty);
        if size.ty != self.t.error && !(numeric && self.is_compile_time(&size)) {
            let message =
                "the size of a value set must be an integer that is known at compile time";
            self.error(code::NOT_CONSTANT, decl.size.span, message);
        }
        let id = self.p.value_sets.push(ValueSet {
            name: decl.name.clone(),
            element,
            size,
            annotations,
        });
        self.declare(&decl.name, Entity::ValueSet(id));
        Some(id)
    }

    fn may_be_in_value_set(&mut self, ty: TyId) -> bool {
        match self.ty(ty).clone() {
            Ty::Bit(_) | Ty::Int(_) | Ty::Bool | Ty::Enum(_) | Ty::NewType(_) | Ty::ErrorCode => {
                true
            }
            Ty::Tuple(elements) => elements
                .iter()
                .all(|&element| self.may_be_in_value_set(element)),
            Ty::Record(id, args) if self.p.records[id].kind == ast::RecordKind::Struct => {
                (0..self.p.records[id].fields.len()).all(|i| {
                    let field = self.field_type(id, &args, i);
                    self.may_be_in_value_set(field)
                })
            }
            _ => false,
        }
    }

    fn states(&mut self, decl: &ast::ParserDecl) -> (IdVec<StateId, State>, Option<StateId>) {
        let mut start = None;
        for (i, state) in decl.states.iter().enumerate() {
            let id = StateId::from_index(i);
            if matches!(state.name.as_str(), "accept" | "reject") {
                let message = format!(
                    "state `{}` is built in and cannot be declared",
                    state.name.as_str()
                );
                self.error(code::BAD_STATE, state.name.span, message);
                continue;
            }
            if state.name.as_str() == "start" && start.is_none() {
                start = Some(id);
            }
            self.declare(&state.name, Entity::State(id));
        }
        if start.is_none() {
            let name = &decl.signature.name;
            let message = format!("parser `{}` has no state `start`", name.as_str());
            let names = decl.states.iter().map(|state| state.name.as_str());
            self.report(
                Diagnostic::error(code::BAD_STATE, name.span, message).suggest("start", names),
            );
        }
        let names: HashMap<Arc<str>, StateId> = decl
            .states
            .iter()
            .enumerate()
            .rev()
            .map(|(i, state)| (state.name.text.clone(), StateId::from_index(i)))
            .collect();
        self.cx.place = Place::ParserState;
        let states = decl
            .states
            .iter()
            .map(|state| self.state(state, &names))
            .collect();
        (states, start)
    }

    fn state(&mut self, state: &ast::State, names: &HashMap<Arc<str>, StateId>) -> State {
        let annotations = self.annotations(&state.annotations);
        let (body, transition) = self.scoped(|this| {
            let body = this.stmts(&state.body);
            let transition = this.transition(&state.transition, names);
            (body, transition)
        });
        State {
            name: state.name.clone(),
            body,
            transition,
            annotations,
        }
    }

    fn transition(
        &mut self,
        transition: &ast::Transition,
        names: &HashMap<Arc<str>, StateId>,
    ) -> Transition {
        match transition {
            ast::Transition::Implicit => Transition::Direct(Target::Reject),
            ast::Transition::Direct(name) => Transition::Direct(self.target(name, names)),
            ast::Transition::Select(select) => self.select_expr(select, names),
        }
    }

    fn target(&mut self, name: &Name, names: &HashMap<Arc<str>, StateId>) -> Target {
        match name.as_str() {
            "accept" => return Target::Accept,
            "reject" => return Target::Reject,
            _ => {}
        }
        if let Some(&id) = names.get(&name.text) {
            return Target::State(id);
        }
        match self.scopes.find(name.as_str()) {
            Some((entity, _)) if !matches!(entity, Entity::Open | Entity::Poison) => {
                let message = format!(
                    "`{}` is {}, not a state of this parser",
                    name.as_str(),
                    entity.describe()
                );
                self.error(code::BAD_STATE, name.span, message);
            }
            Some(_) => {}
            None => {
                let message = format!("unknown state `{}`", name.as_str());
                let known = names.keys().map(|key| &**key).chain(["accept", "reject"]);
                let diagnostic = Diagnostic::error(code::UNKNOWN_NAME, name.span, message);
                self.report(diagnostic.suggest(name.as_str(), known));
            }
        }
        Target::Reject
    }

    fn select_expr(
        &mut self,
        select: &ast::Select,
        names: &HashMap<Arc<str>, StateId>,
    ) -> Transition {
        let (args, shapes) = self.select_args(&select.args);
        let mut cases = Vec::with_capacity(select.cases.len());
        let mut covered = false;
        for case in &select.cases {
            let target = self.target(&case.state, names);
            let Some(keyset) = self.select_keyset(&case.keyset, &shapes) else {
                continue;
            };
            if covered {
                self.warn(
                    code::W_CASE,
                    case.span,
                    "this case is never reached: an earlier one matches everything",
                );
            }
            covered |= Self::matches_all(&keyset);
            cases.push(SelectCase {
                keyset,
                target,
                span: case.span,
            });
        }
        Transition::Select {
            args,
            cases,
            span: select.span,
        }
    }

    pub(crate) fn control_decl(&mut self, decl: &ast::ControlDecl) {
        if !decl.signature.type_params.is_empty() {
            return self.template(TemplateDecl::Control(Rc::new(decl.clone())));
        }
        self.open(&decl.signature.name);
        let id = self.make_control(decl, &[]);
        self.close_block(&decl.signature.name, Entity::Control(id));
    }

    /// Checks a control with `type_args` for its type parameters.
    pub(crate) fn make_control(
        &mut self,
        decl: &ast::ControlDecl,
        type_args: &[Entity],
    ) -> ControlId {
        let annotations = self.annotations(&decl.signature.annotations);
        let id = self.p.controls.push(Control {
            name: decl.signature.name.clone(),
            params: Vec::new(),
            ctor_params: Vec::new(),
            locals: Vec::new(),
            body: Vec::new(),
            annotations,
        });
        self.in_block(Place::ControlLocals, Some(id), |this| {
            this.control_parts(id, decl, type_args)
        });
        id
    }

    fn control_parts(&mut self, id: ControlId, decl: &ast::ControlDecl, type_args: &[Entity]) {
        self.scoped(|this| {
            let (params, ctor_params) = this.signature(
                &decl.signature,
                &decl.ctor_params,
                Owner::ControlConstructor,
                type_args,
            );
            let control = &mut this.p.controls[id];
            control.params = params;
            control.ctor_params = ctor_params;
            this.scoped(|this| {
                let locals = this.locals(&decl.locals);
                this.cx.place = Place::ControlApply;
                let body = this.block(&decl.body);
                let pending = std::mem::take(&mut this.cx.pending);
                let control = &mut this.p.controls[id];
                control.locals = locals;
                control.locals.extend(pending);
                control.body = body;
            });
        });
    }
}
