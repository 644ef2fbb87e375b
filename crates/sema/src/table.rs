//! Tables: keys, actions, default action and the other properties (section "Tables").

mod entries;

use std::collections::HashMap;

use num_bigint::BigInt;
use support::work::checkpoint;
use syntax::ast::{self, ActionRef, Arg as AstArg, Direction, KeyElement, TablePropertyValue};
use syntax::diag::Diagnostic;
use syntax::source::Span;

use crate::call::{Rule, Written};
use crate::hir::{
    ActionCall, ActionId, Annotation, AnnotationBody, Arg, Expr, ExprKind, Key, LocalDecl,
    MatchKindId, Param, Property, Table, TableAction, TableId, Ty, TyId, VarKind,
};
use crate::same::same_arg;
use crate::scope::Entity;
use crate::types::Subst;
use crate::unify::Bindings;
use crate::{Checker, Place, annotations, code};

/// Maximum size of a table. It fits P4Runtime's `int64` and all targets.
const MAX_SIZE: u32 = i32::MAX as u32;

/// A table under construction, with the written action references of its list.
struct Draft<'a> {
    table: Table,
    /// The references in the list, for comparing arguments.
    refs: Vec<&'a ActionRef>,
    has_actions: bool,
    /// Positions of the actions in the list, and their names.
    positions: HashMap<ActionId, usize>,
    names: HashMap<std::sync::Arc<str>, usize>,
    /// Value of `priority_delta`.
    priority_delta: num_bigint::BigInt,
}

impl Checker<'_> {
    pub(crate) fn table(&mut self, decl: &ast::TableDecl) -> Option<TableId> {
        let annotations = self.annotations(&decl.annotations);
        self.open(&decl.name);
        if let Some((Entity::Open, _)) = self.scopes.find_here(decl.name.as_str()) {
            self.redeclare(&decl.name, Entity::OpenTable);
        }
        self.unique(
            decl.properties.iter().map(|property| &property.name),
            "table property",
        );
        let mut draft = Draft {
            table: Table {
                name: decl.name.clone(),
                keys: Vec::new(),
                actions: Vec::new(),
                default_action: None,
                default_is_const: false,
                entries: Vec::new(),
                entries_are_const: false,
                largest_priority_wins: true,
                size: None,
                properties: Vec::new(),
                annotations,
                span: decl.name.span,
            },
            refs: Vec::new(),
            has_actions: false,
            positions: HashMap::new(),
            names: HashMap::new(),
            priority_delta: 1.into(),
        };
        for property in &decl.properties {
            self.property(&mut draft, property);
        }
        if !draft.has_actions {
            let message = format!("table `{}` has no `actions` property", decl.name.as_str());
            self.error(code::BAD_PROPERTY, decl.name.span, message);
        }
        // Entries come last: their priorities depend on other properties, wherever these are.
        let written = decl
            .properties
            .iter()
            .find_map(|property| match &property.value {
                TablePropertyValue::Entries(entries) => Some((property, entries)),
                _ => None,
            });
        if let Some((property, entries)) = written {
            let before = decl
                .properties
                .iter()
                .take_while(|p| !std::ptr::eq(*p, property));
            let has = |name: &str| before.clone().any(|p| p.name.as_str() == name);
            if !has("key") && decl.properties.iter().any(|p| p.name.as_str() == "key") {
                self.error(
                    code::BAD_ENTRY,
                    property.name.span,
                    "`entries` must come after `key`",
                );
            } else {
                self.entries(&mut draft, property, entries);
            }
        }
        self.implicit_default(&mut draft);
        let id = self.p.tables.push(draft.table);
        self.close(&decl.name, Entity::Table(id));
        Some(id)
    }

    fn property<'a>(&mut self, draft: &mut Draft<'a>, property: &'a ast::TableProperty) {
        match &property.value {
            TablePropertyValue::Key(keys) => {
                draft.table.keys = keys.iter().filter_map(|key| self.key(key)).collect();
            }
            TablePropertyValue::Actions(actions) => {
                draft.has_actions = true;
                for action in actions {
                    self.list_action(draft, action);
                }
            }
            TablePropertyValue::Entries(_) => {}
            TablePropertyValue::Expr(e) => self.expr_property(draft, property, e),
            TablePropertyValue::Instance(decl) => {
                if let Some(id) = self.instance_decl(decl) {
                    self.cx.pending.push(LocalDecl::Instance(id));
                    let value = Expr {
                        kind: ExprKind::Instance(id),
                        ty: self.p.instances[id].ty,
                        span: decl.span,
                    };
                    self.push_property(draft, property, value);
                }
            }
        }
    }

    fn push_property(&mut self, draft: &mut Draft<'_>, property: &ast::TableProperty, value: Expr) {
        let annotations = self.annotations(&property.annotations);
        draft.table.properties.push(Property {
            name: property.name.clone(),
            value,
            is_const: property.is_const,
            annotations,
        });
    }

    fn expr_property(
        &mut self,
        draft: &mut Draft<'_>,
        property: &ast::TableProperty,
        e: &ast::Expr,
    ) {
        match property.name.as_str() {
            "default_action" => {
                draft.table.default_is_const = property.is_const;
                if !draft.has_actions {
                    let message = "`default_action` must come after `actions`";
                    self.error(code::BAD_PROPERTY, property.name.span, message);
                    return;
                }
                draft.table.default_action = self.default_action(draft, e);
            }
            "size" => {
                let size = self.expr(e, None);
                if size.ty != self.t.error
                    && !(self.is_numeric(size.ty) && self.is_compile_time(&size))
                {
                    let message =
                        "the size of a table must be an integer that is known at compile time";
                    self.error(code::NOT_CONSTANT, e.span, message);
                }
                if let Some(number) = self.int_value(&size)
                    && !(BigInt::ZERO..=BigInt::from(MAX_SIZE)).contains(&number)
                {
                    let message = format!(
                        "the size of a table must be between 0 and {MAX_SIZE}: it is {number}"
                    );
                    self.error(code::OUT_OF_RANGE, e.span, message);
                }
                draft.table.size = Some(size);
            }
            "largest_priority_wins" => {
                let value = self.condition(e, "`largest_priority_wins`");
                match value.kind {
                    ExprKind::Bool(value) => draft.table.largest_priority_wins = value,
                    _ if value.ty == self.t.error => {}
                    _ => self.error(
                        code::NOT_CONSTANT,
                        e.span,
                        "`largest_priority_wins` must be known at compile time",
                    ),
                }
            }
            "priority_delta" => {
                if let Some(delta) = self.constant_int(e, "`priority_delta`") {
                    if delta.sign() != num_bigint::Sign::Plus {
                        self.error(
                            code::OUT_OF_RANGE,
                            e.span,
                            format!("`priority_delta` must be positive: it is {delta}"),
                        );
                    }
                    draft.priority_delta = delta;
                }
            }
            _ => {
                let value = self.property_value(draft, property, e);
                self.push_property(draft, property, value);
            }
        }
    }

    /// Checks the value of an architecture's property: an instance, a literal, an action.
    fn property_value(
        &mut self,
        draft: &Draft<'_>,
        property: &ast::TableProperty,
        e: &ast::Expr,
    ) -> Expr {
        if let Some((path, args)) = action_reference(e)
            && let Some(Entity::Action(action)) = self.peek(path)
        {
            let args = self.action_args(action, args, e.span);
            return Expr {
                kind: ExprKind::ActionCall(action, args.unwrap_or_default()),
                ty: self.t.action,
                span: e.span,
            };
        }
        let before = self.p.instances.len();
        let value = self.with_cx(|cx| cx.constructors = true, |this| this.expr(e, None));
        if let ExprKind::Instance(id) = value.kind
            && self.p.instances.len() > before
        {
            let name = format!("{}.{}", draft.table.name.as_str(), property.name.as_str());
            self.p.instances[id].name.text = name.into();
            self.cx.pending.push(LocalDecl::Instance(id));
        }
        value
    }

    fn action_args(&mut self, action: ActionId, args: &[AstArg], span: Span) -> Option<Vec<Arg>> {
        let params = self.p.actions[action].params.clone();
        let name = self.p.actions[action].name.text.clone();
        let written = Written {
            name: &name,
            type_args: &[],
            args,
            span,
            expected: None,
        };
        self.bind_args(
            &params,
            &Subst::new(),
            &mut Bindings::default(),
            None,
            Rule::Constant,
            written,
        )
    }

    fn key(&mut self, key: &KeyElement) -> Option<Key> {
        let annotations = self.annotations(&key.annotations);
        let match_kind = self.match_kind(&key.match_kind);
        let expr = self.with_cx(
            |cx| cx.place = Place::ControlApply,
            |this| this.expr(&key.expr, None),
        );
        if expr.ty == self.t.error {
            return match_kind.map(|match_kind| Key {
                expr,
                match_kind,
                control_plane_name: "".into(),
                annotations,
            });
        }
        if !self.may_be_key(expr.ty) {
            let message = format!("a key cannot have type {}", self.show(expr.ty));
            self.error(code::BAD_KEY, key.expr.span, message);
        }
        let given = annotations::string_of(&annotations, "name");
        let name = match given.or_else(|| Some(self.key_name(&key.expr, &expr)?.into())) {
            Some(name) => name,
            None => {
                let message = "this key needs a name for the control plane";
                let diagnostic = Diagnostic::error(code::BAD_KEY, key.expr.span, message);
                self.report(diagnostic.hint("add `@name(\"..\")` after the match kind"));
                "".into()
            }
        };
        Some(Key {
            expr,
            match_kind: match_kind?,
            control_plane_name: name,
            annotations,
        })
    }

    fn may_be_key(&self, ty: TyId) -> bool {
        matches!(
            self.ty(ty),
            Ty::Bit(_)
                | Ty::Int(_)
                | Ty::Bool
                | Ty::Enum(_)
                | Ty::ErrorCode
                | Ty::NewType(_)
                | Ty::Varbit(_)
                | Ty::Error
        )
    }

    fn match_kind(&mut self, name: &ast::Name) -> Option<MatchKindId> {
        let found = self
            .p
            .match_kinds
            .iter()
            .find(|(_, kind)| kind.text == name.text)
            .map(|(id, _)| id);
        if found.is_some() {
            return found;
        }
        if let Some((entity, _)) = self.scopes.find(name.as_str()) {
            // A constant of type `match_kind` denotes one, too.
            if let Entity::Const(index) = entity
                && let ExprKind::MatchKind(id) = self.consts[index].kind
            {
                return Some(id);
            }
            let message = format!(
                "`{}` is {}, not a match kind",
                name.as_str(),
                entity.describe()
            );
            self.error(code::BAD_KEY, name.span, message);
            return None;
        }
        let message = format!("unknown match kind `{}`", name.as_str());
        let known = self.p.match_kinds.values().map(ast::Name::as_str);
        let diagnostic =
            Diagnostic::error(code::UNKNOWN_NAME, name.span, message).suggest(name.as_str(), known);
        self.report(diagnostic);
        None
    }

    fn resolve_action(&mut self, path: &ast::Path) -> Option<ActionId> {
        if self.peek(path).is_none() {
            self.unknown(&path.name, "action", |entity| {
                matches!(entity, Entity::Action(_))
            });
            return None;
        }
        match self.resolve(path) {
            Entity::Action(action) => Some(action),
            Entity::Poison => None,
            other => {
                let message = format!(
                    "`{}` is {}, not an action",
                    path.name.as_str(),
                    other.describe()
                );
                self.error(code::BAD_ACTION, path.span(), message);
                None
            }
        }
    }

    fn list_action<'a>(&mut self, draft: &mut Draft<'a>, reference: &'a ActionRef) {
        let annotations = self.annotations(&reference.annotations);
        let Some(action) = self.resolve_action(&reference.path) else {
            return;
        };
        let name = self.p.actions[action].name.text.clone();
        checkpoint();
        if let Some(&twin) = draft.names.get(&name) {
            let message = format!("action `{name}` is in the list twice");
            let before = draft.refs[twin].span;
            self.report(
                Diagnostic::error(code::DUPLICATE, reference.span, message)
                    .label(before, "listed here before"),
            );
            return;
        }
        let args = self.bound_args(action, reference);
        draft.positions.insert(action, draft.table.actions.len());
        draft.names.insert(name, draft.table.actions.len());
        let given = reference.args.as_deref().unwrap_or_default();
        let order = self.order_of_args(&self.p.actions[action].params, given);
        draft.table.actions.push(TableAction {
            action,
            args: args.unwrap_or_default(),
            order,
            annotations,
        });
        draft.refs.push(reference);
    }

    /// Binds the arguments of an action reference to the parameters of the action. The reference is
    /// in an action list or names an action of the list.
    fn bind_listed(
        &mut self,
        params: &[Param],
        rule: Rule,
        name: &str,
        (args, span): (&[AstArg], Span),
    ) -> Option<Vec<Arg>> {
        let written = Written {
            name,
            type_args: &[],
            args,
            span,
            expected: None,
        };
        self.with_cx(
            |cx| {
                cx.place = Place::ControlApply;
                cx.tables = false;
            },
            |this| {
                let bindings = &mut Bindings::default();
                this.bind_args(params, &Subst::new(), bindings, None, rule, written)
            },
        )
    }

    /// Binds the arguments in an action list: all parameters with a direction, and no others.
    fn bound_args(&mut self, action: ActionId, reference: &ActionRef) -> Option<Vec<Option<Arg>>> {
        let params = self.p.actions[action].params.clone();
        let directed: Vec<Param> = params
            .iter()
            .filter(|p| self.is_directed(p))
            .cloned()
            .collect();
        let given = reference.args.as_deref().unwrap_or_default();
        let name = self.p.actions[action].name.text.clone();
        if given.iter().all(|arg| arg.name.is_none())
            && let Some(extra) = given.get(directed.len())
            && given.len() <= params.len()
        {
            let param = self.p.vars[params[directed.len()].var].name.clone();
            let message = format!(
                "parameter `{}` of `{name}` is set by the control plane: it cannot be bound here",
                param.as_str()
            );
            let diagnostic = Diagnostic::error(code::BAD_ACTION, extra.span, message);
            self.report(diagnostic.label(param.span, "the parameter has no direction"));
            return None;
        }
        let args = self.bind_listed(&directed, Rule::Action, &name, (given, reference.span))?;
        let mut args = args.into_iter();
        Some(
            params
                .iter()
                .map(|p| {
                    if self.is_directed(p) {
                        args.next()
                    } else {
                        None
                    }
                })
                .collect(),
        )
    }

    fn is_directed(&self, param: &Param) -> bool {
        matches!(self.p.vars[param.var].kind, VarKind::Param(direction) if direction != Direction::None)
    }

    fn default_action(&mut self, draft: &Draft<'_>, e: &ast::Expr) -> Option<ActionCall> {
        let Some((path, args)) = action_reference(e) else {
            let value = self.expr(e, None);
            if value.ty != self.t.error {
                self.error(
                    code::BAD_ACTION,
                    e.span,
                    "the default action must be an action of the list",
                );
            }
            return None;
        };
        let call = self.listed_call(draft, path, args, e.span)?;
        if annotations::has(&draft.table.actions[call.action].annotations, "tableonly") {
            let message = "this action is marked `@tableonly`: it cannot be the default action";
            self.error(code::BAD_ACTION, e.span, message);
        }
        Some(call)
    }

    /// Checks a call of a listed action with its control-plane arguments.
    fn listed_call(
        &mut self,
        draft: &Draft<'_>,
        path: &ast::Path,
        args: &[AstArg],
        span: Span,
    ) -> Option<ActionCall> {
        let action = self.resolve_action(path)?;
        let name = self.p.actions[action].name.text.clone();
        let Some(&index) = draft.positions.get(&action) else {
            let twin = draft.names.contains_key(&name);
            let mut message = format!(
                "action `{name}` is not in the list of table `{}`",
                draft.table.name.as_str()
            );
            if twin {
                message.push_str(" (another action of that name is)");
            }
            let names: Vec<String> = draft
                .table
                .actions
                .iter()
                .map(|a| self.p.actions[a.action].name.as_str().to_string())
                .collect();
            let diagnostic = Diagnostic::error(code::BAD_ACTION, span, message);
            self.report(diagnostic.suggest(&name, names.iter().map(String::as_str)));
            return None;
        };
        let listed = &draft.table.actions[index].args;
        let args = self.control_plane_args(action, listed, args, span)?;
        Some(ActionCall {
            action: index,
            args,
            span,
        })
    }

    /// Returns the values of directionless parameters. Arguments with a direction must equal those
    /// in the list.
    fn control_plane_args(
        &mut self,
        action: ActionId,
        listed: &[Option<Arg>],
        args: &[AstArg],
        span: Span,
    ) -> Option<Vec<Expr>> {
        let params = self.p.actions[action].params.clone();
        let name = self.p.actions[action].name.text.clone();
        let bound = self.bind_listed(&params, Rule::Constant, &name, (args, span))?;
        let mut good = true;
        for ((mine, theirs), param) in bound.iter().zip(listed).zip(&params) {
            let (Some(theirs), true) = (theirs, self.is_directed(param)) else {
                continue;
            };
            if same_arg(mine, theirs) {
                continue;
            }
            let name = self.p.vars[param.var].name.clone();
            let message = format!(
                "the argument for `{}` is not the one in the list of actions",
                name.as_str()
            );
            let at = |arg: &Arg| match arg {
                Arg::Expr(e) => e.span,
                Arg::Omitted => span,
            };
            let diagnostic = Diagnostic::error(code::BAD_ACTION, at(mine), message);
            self.report(diagnostic.label(at(theirs), "in the list"));
            good = false;
        }
        if !good {
            return None;
        }
        let values = bound
            .into_iter()
            .zip(&params)
            .filter(|(_, p)| !self.is_directed(p));
        Some(
            values
                .filter_map(|(arg, _)| match arg {
                    Arg::Expr(e) => Some(e),
                    Arg::Omitted => None,
                })
                .collect(),
        )
    }

    /// Adds `NoAction` as the default action, also to the list, if there is no `default_action`.
    fn implicit_default(&mut self, draft: &mut Draft<'_>) {
        if draft.table.default_action.is_some() || !draft.has_actions {
            return;
        }
        let span = draft.table.span;
        let no_action = match self.scopes.find_global("NoAction") {
            Some((Entity::Action(action), _)) if self.p.actions[action].params.is_empty() => action,
            Some((Entity::Poison, _)) => return,
            Some((_, declared)) => {
                let message = "`NoAction` must be an action without parameters, for it is the default action of tables";
                let diagnostic = Diagnostic::error(code::BAD_ACTION, declared, message);
                self.report(diagnostic.label(span, "this table has no `default_action`"));
                return;
            }
            None => {
                let message = format!(
                    "table `{}` has no `default_action`, and `NoAction` is not declared",
                    draft.table.name.as_str()
                );
                let diagnostic = Diagnostic::error(code::BAD_ACTION, span, message);
                self.report(diagnostic.hint("include core.p4"));
                return;
            }
        };
        let found = draft
            .table
            .actions
            .iter()
            .position(|a| a.action == no_action);
        if let Some(found) = found
            && annotations::has(&draft.table.actions[found].annotations, "tableonly")
        {
            let message = format!(
                "`NoAction` is the default action of table `{}`, which has no `default_action`: it \
                 cannot be marked `@tableonly`",
                draft.table.name.as_str()
            );
            let listed = draft.refs.get(found).map_or(span, |listed| listed.span);
            let diagnostic = Diagnostic::error(code::BAD_ACTION, listed, message);
            let hint = "remove the annotation, or add a `default_action` with another action";
            self.report(diagnostic.label(span, "the table").hint(hint));
        }
        let action = found.unwrap_or_else(|| {
            // An implicitly added action is not available to entries.
            let default_only = Annotation {
                name: ast::Name {
                    text: "defaultonly".into(),
                    span,
                },
                body: AnnotationBody::None,
                span,
            };
            draft.table.actions.push(TableAction {
                action: no_action,
                args: Vec::new(),
                order: Vec::new(),
                annotations: vec![default_only],
            });
            draft.table.actions.len() - 1
        });
        draft.table.default_action = Some(ActionCall {
            action,
            args: Vec::new(),
            span,
        });
    }
}

/// Returns the parts of `name` or `name(args)`.
fn action_reference(e: &ast::Expr) -> Option<(&ast::Path, &[AstArg])> {
    match &e.kind {
        ast::ExprKind::Name(path) => Some((path, &[])),
        ast::ExprKind::Call { callee, args, .. } => match &callee.kind {
            ast::ExprKind::Name(path) => Some((path, args)),
            _ => None,
        },
        _ => None,
    }
}
