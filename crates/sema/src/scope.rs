//! Name lookup in nested scopes, from the innermost to the outermost.

use std::collections::HashMap;
use std::sync::Arc;

use syntax::ast::{Name, Path};
use syntax::diag::Diagnostic;
use syntax::source::Span;

use crate::hir::{
    ActionId, BlockTypeId, ControlId, EnumId, ExternId, InstanceId, MatchKindId, NewTypeId,
    ParserId, RecordId, StateId, TableId, TyId, TypeVarId, ValueSetId, VarId, VarKind,
};
use crate::{Checker, Place, code};

/// Number of errors after which similar names are no longer suggested.
const MAX_SUGGESTED: usize = 200;

/// Meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entity {
    /// A typedef.
    Typedef(TyId),
    /// A header, union or struct.
    Record(RecordId),
    /// An enum.
    Enum(EnumId),
    /// A `type`.
    NewType(NewTypeId),
    /// An extern object type.
    Extern(ExternId),
    /// A parser with states.
    Parser(ParserId),
    /// A control with a body.
    Control(ControlId),
    /// A parser type, control type or package.
    BlockType(BlockTypeId),
    /// A generic parser or control.
    Template(usize),
    /// Several blocks with one name.
    Blocks(usize),
    /// A type parameter.
    TypeVar(TypeVarId),
    /// A constant, by its index in the list of constants.
    Const(usize),
    /// A variable or parameter.
    Var(VarId),
    /// An instance.
    Instance(InstanceId),
    /// A table.
    Table(TableId),
    /// An action.
    Action(ActionId),
    /// Functions, by the index of their overload list.
    Overloads(usize),
    /// A value set.
    ValueSet(ValueSetId),
    /// A match kind.
    MatchKind(MatchKindId),
    /// A parser state.
    State(StateId),
    /// A declaration in progress, which may not be used yet.
    Open,
    /// A table declaration in progress. Its name already hides outer ones.
    OpenTable,
    /// A rejected declaration.
    Poison,
}

impl Entity {
    /// Returns true if the name denotes a type.
    pub(crate) fn is_type(self) -> bool {
        use Entity::*;
        matches!(
            self,
            Typedef(_)
                | Record(_)
                | Enum(_)
                | NewType(_)
                | Extern(_)
                | Parser(_)
                | Control(_)
                | BlockType(_)
                | TypeVar(_)
                | Template(_)
                | Blocks(_)
        )
    }

    /// Returns its kind, for messages.
    pub(crate) fn describe(self) -> &'static str {
        use Entity::*;
        match self {
            Typedef(_) | NewType(_) | TypeVar(_) => "a type",
            Record(_) => "a struct or header type",
            Enum(_) => "an enum type",
            Extern(_) => "an extern type",
            Parser(_) => "a parser",
            Template(_) | Blocks(_) => "a parser or control",
            Control(_) => "a control",
            BlockType(_) => "a parser, control or package type",
            Const(_) => "a constant",
            Var(_) => "a variable",
            Instance(_) => "an instance",
            Table(_) => "a table",
            Action(_) => "an action",
            Overloads(_) => "a function",
            ValueSet(_) => "a value set",
            MatchKind(_) => "a match kind",
            State(_) => "a parser state",
            Open | OpenTable | Poison => "a declaration with an error",
        }
    }
}

/// One scope.
#[derive(Debug, Default)]
struct Scope {
    names: HashMap<Arc<str>, (Entity, Span)>,
}

/// The current scopes, the top level first.
#[derive(Debug)]
pub(crate) struct Scopes {
    stack: Vec<Scope>,
}

impl Scopes {
    pub(crate) fn new() -> Scopes {
        Scopes {
            stack: vec![Scope::default()],
        }
    }

    fn top(&mut self) -> &mut Scope {
        let last = self.stack.len() - 1;
        &mut self.stack[last]
    }

    /// Looks up a name.
    ///
    /// A declaration in progress is not visible yet: an outer declaration with the same name is
    /// found.
    pub(crate) fn find(&self, name: &str) -> Option<(Entity, Span)> {
        let mut open = None;
        for scope in self.stack.iter().rev() {
            match scope.names.get(name).copied() {
                Some(found @ (Entity::Open, _)) => open = open.or(Some(found)),
                Some(found) => return Some(found),
                None => {}
            }
        }
        open
    }

    /// Looks up a name at the top level.
    pub(crate) fn find_global(&self, name: &str) -> Option<(Entity, Span)> {
        self.stack[0].names.get(name).copied()
    }

    /// Looks up a name in the innermost scope only.
    pub(crate) fn find_here(&self, name: &str) -> Option<(Entity, Span)> {
        self.stack.last()?.names.get(name).copied()
    }

    fn all_names(&self) -> impl Iterator<Item = (&str, Entity)> {
        self.stack.iter().flat_map(|scope| {
            scope
                .names
                .iter()
                .map(|(name, &(entity, _))| (&**name, entity))
        })
    }

    /// Hides all scopes but the top level, and returns them for [`restore`](Self::restore).
    pub(crate) fn only_global(&mut self) -> Hidden {
        Hidden(self.stack.split_off(1))
    }

    /// Restores hidden scopes.
    pub(crate) fn restore(&mut self, hidden: Hidden) {
        self.stack.truncate(1);
        self.stack.extend(hidden.0);
    }
}

/// Scopes that are temporarily hidden.
#[derive(Debug)]
pub(crate) struct Hidden(Vec<Scope>);

impl Checker<'_> {
    /// Runs `f` in a new innermost scope.
    pub(crate) fn scoped<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        self.scopes.stack.push(Scope::default());
        let result = f(self);
        self.scopes.stack.pop();
        result
    }

    /// Declares a name in the innermost scope. A second declaration is an error, and the first one
    /// stays.
    pub(crate) fn declare(&mut self, name: &Name, entity: Entity) {
        if name.as_str().is_empty() {
            return;
        }
        if let Some((_, before)) = self.scopes.find_here(name.as_str()) {
            return self.duplicate(name, before);
        }
        if let Entity::Var(_) | Entity::Const(_) = entity
            && !matches!(self.cx.place, Place::ParserLocals | Place::ControlLocals)
        {
            self.check_shadowed_param(name, entity);
        }
        self.scopes
            .top()
            .names
            .insert(name.text.clone(), (entity, name.span));
    }

    /// Checks that a local declaration does not hide a parameter of its action, function, control
    /// or parser.
    fn check_shadowed_param(&mut self, name: &Name, entity: Entity) {
        if let Entity::Var(var) = entity
            && !matches!(self.p.vars[var].kind, VarKind::Local)
        {
            return;
        }
        let Some((Entity::Var(var), before)) = self.scopes.find(name.as_str()) else {
            return;
        };
        if self.p.vars[var].kind == VarKind::Local {
            return;
        }
        let message = format!("`{}` hides a parameter of the same name", name.as_str());
        self.report(
            Diagnostic::error(code::SHADOWS_PARAM, name.span, message)
                .label(before, "the parameter")
                .hint("choose another name for the local declaration"),
        );
    }

    /// Replaces the meaning of a name in the innermost scope.
    pub(crate) fn redeclare(&mut self, name: &Name, entity: Entity) {
        self.scopes
            .top()
            .names
            .insert(name.text.clone(), (entity, name.span));
    }

    /// Marks a name as a declaration in progress, unless the scope has it already. A use is a
    /// recursion.
    pub(crate) fn open(&mut self, name: &Name) {
        if self.scopes.find_here(name.as_str()).is_none() {
            self.scopes
                .top()
                .names
                .insert(name.text.clone(), (Entity::Open, name.span));
        }
    }

    /// Declares a name that [`open`](Self::open) marked.
    pub(crate) fn close(&mut self, name: &Name, entity: Entity) {
        match self.scopes.find_here(name.as_str()) {
            Some((Entity::Open | Entity::OpenTable, span)) if span == name.span => {
                self.redeclare(name, entity);
            }
            _ => self.declare(name, entity),
        }
    }

    pub(crate) fn duplicate(&mut self, name: &Name, before: Span) {
        let message = format!("`{}` is declared twice in the same scope", name.as_str());
        let mut diagnostic = Diagnostic::error(code::DUPLICATE, name.span, message);
        if !before.is_none() {
            diagnostic = diagnostic.label(before, "declared here before");
        }
        self.report(diagnostic);
    }

    /// Looks up a path. An unknown name is reported and yields `Poison`.
    pub(crate) fn resolve(&mut self, path: &Path) -> Entity {
        let name = path.name.as_str();
        let found = if path.absolute {
            self.scopes.find_global(name)
        } else {
            self.scopes.find(name)
        };
        match found {
            Some((Entity::Open | Entity::OpenTable, before)) => {
                let message = format!("`{name}` uses itself: recursion is not allowed");
                self.report(
                    Diagnostic::error(code::RECURSION, path.span(), message)
                        .label(before, "declared here"),
                );
                Entity::Poison
            }
            Some((entity, _)) => entity,
            None => {
                self.unknown(&path.name, "name", |_| true);
                Entity::Poison
            }
        }
    }

    /// Looks up a path without reporting errors.
    pub(crate) fn peek(&self, path: &Path) -> Option<Entity> {
        let name = path.name.as_str();
        let found = if path.absolute {
            self.scopes.find_global(name)
        } else {
            self.scopes.find(name)
        };
        found.map(|(entity, _)| entity)
    }

    /// Reports an unknown name, and suggests a similar one among those that `fits` accepts.
    pub(crate) fn unknown(&mut self, name: &Name, what: &str, fits: impl Fn(Entity) -> bool) {
        if name.as_str().is_empty() {
            return;
        }
        let message = format!("unknown {what} `{}`", name.as_str());
        let mut diagnostic = Diagnostic::error(code::UNKNOWN_NAME, name.span, message);
        // The search visits all names, which would take too long in a program of many wrong names.
        if self.diags.error_count() < MAX_SUGGESTED {
            let names = self.scopes.all_names();
            let near = names.filter(|&(_, entity)| fits(entity)).map(|(n, _)| n);
            diagnostic = diagnostic.suggest(name.as_str(), near);
        }
        self.report(diagnostic);
    }
}
