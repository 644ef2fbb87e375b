//! Restrictions on calls (P4_16, appendix on compile-time and run-time calls): allowed callers, and
//! no recursion.

use std::collections::BTreeMap;

use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::Span;

use crate::hir::{
    ActionId, Call, Callee, ControlId, Expr, ExprKind, FunctionId, LocalDecl, ParserId, Program,
    State, Stmt, StmtKind, TableId, Transition, Ty,
};
use crate::{code, walk};

/// Checks all calls of a program that has no errors so far.
pub(crate) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    let mut checker = Checker {
        program,
        diagnostics,
        calls: BTreeMap::new(),
    };
    checker.functions();
    checker.actions();
    checker.parsers();
    checker.controls();
    checker.recursion();
}

/// Kind of the calling code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    ParserState,
    /// Initialisers of a parser's or control's variables.
    TopLevel,
    ControlApply,
    Action,
    Function,
    /// A table's key, and arguments bound in its list of actions.
    Table,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Place::ParserState => "a parser state",
            Place::TopLevel => "an initializer outside of the apply block or a state",
            Place::ControlApply => "an apply block",
            Place::Action => "an action",
            Place::Function => "a function",
            Place::Table => "a table",
        }
    }
}

/// A caller or callee.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Function(FunctionId),
    Action(ActionId),
    Parser(ParserId),
    Control(ControlId),
}

struct Checker<'p, 'd> {
    program: &'p Program,
    diagnostics: &'d mut Diagnostics,
    /// The call graph, with the first source position of each edge.
    calls: BTreeMap<Node, BTreeMap<Node, Span>>,
}

impl<'p> Checker<'p, '_> {
    fn functions(&mut self) {
        for (id, function) in self.program.functions.iter() {
            self.body(&function.body, Node::Function(id), Place::Function);
            self.forbid_exit(&function.body, "a function");
        }
    }

    fn actions(&mut self) {
        for (id, action) in self.program.actions.iter() {
            self.body(&action.body, Node::Action(id), Place::Action);
            self.forbid_switch_on_tables(&action.body, Place::Action);
        }
    }

    fn parsers(&mut self) {
        for (id, parser) in self.program.parsers.iter() {
            let node = Node::Parser(id);
            self.locals(&parser.locals, node);
            for state in parser.states.values() {
                self.state(state, node);
            }
        }
    }

    fn state(&mut self, state: &'p State, node: Node) {
        self.body(&state.body, node, Place::ParserState);
        self.forbid_exit(&state.body, "a parser");
        self.forbid_switch_on_tables(&state.body, Place::ParserState);
        if let Transition::Select { args, cases, .. } = &state.transition {
            let keysets = cases
                .iter()
                .flat_map(|case| walk::exprs_of_keyset(&case.keyset));
            for expr in args.iter().chain(keysets) {
                self.expr(expr, node, Place::ParserState);
            }
        }
    }

    fn controls(&mut self) {
        for (id, control) in self.program.controls.iter() {
            let node = Node::Control(id);
            self.locals(&control.locals, node);
            self.body(&control.body, node, Place::ControlApply);
        }
    }

    fn locals(&mut self, locals: &'p [LocalDecl], node: Node) {
        for local in locals {
            match local {
                LocalDecl::Var(_, Some(init)) => self.expr(init, node, Place::TopLevel),
                LocalDecl::Instance(instance) => {
                    let instance = &self.program.instances[*instance];
                    if let Some(target) = self.block(instance.ty) {
                        self.edge(node, target, instance.span);
                    }
                }
                LocalDecl::Table(table) => self.table(*table, node),
                LocalDecl::Var(_, None) | LocalDecl::ValueSet(_) | LocalDecl::Action(_) => {}
            }
        }
    }

    /// Checks keys and bound arguments: they may call what an apply block may, but apply no table.
    fn table(&mut self, table: TableId, node: Node) {
        let table = &self.program.tables[table];
        for key in &table.keys {
            self.expr(&key.expr, node, Place::Table);
        }
        for arg in table
            .actions
            .iter()
            .flat_map(|action| action.args.iter().flatten())
        {
            if let crate::hir::Arg::Expr(expr) = arg {
                self.expr(expr, node, Place::Table);
            }
        }
    }

    fn body(&mut self, body: &'p [Stmt], node: Node, place: Place) {
        walk::calls(body, &mut |call| self.call(call, node, place));
    }

    fn expr(&mut self, expr: &'p Expr, node: Node, place: Place) {
        walk::calls_in_expr(expr, &mut |call| self.call(call, node, place));
    }

    fn call(&mut self, call: &'p Call, node: Node, place: Place) {
        match &call.callee {
            Callee::Function(id) => self.edge(node, Node::Function(*id), call.span),
            Callee::Action(id) => {
                self.edge(node, Node::Action(*id), call.span);
                self.only(
                    call,
                    place,
                    &[Place::ControlApply, Place::Action],
                    "actions",
                );
            }
            Callee::Table(_) => self.only(call, place, &[Place::ControlApply], "tables"),
            Callee::Apply(object) => self.apply(call, object, node, place),
            Callee::ExternFunction(_) | Callee::ExternMethod { .. } | Callee::Builtin(..) => {}
        }
    }

    fn apply(&mut self, call: &'p Call, object: &'p Expr, node: Node, place: Place) {
        match self.block(object.ty) {
            Some(target @ Node::Parser(_)) => {
                self.edge(node, target, call.span);
                self.only(call, place, &[Place::ParserState], "parsers");
            }
            Some(target) => {
                self.edge(node, target, call.span);
                self.only(call, place, &[Place::ControlApply], "controls");
            }
            None => {}
        }
    }

    /// Returns the parser or control that an object of this type runs.
    fn block(&self, ty: crate::hir::TyId) -> Option<Node> {
        match self.program.types.get(ty) {
            Ty::Parser(id) => Some(Node::Parser(*id)),
            Ty::Control(id) => Some(Node::Control(*id)),
            _ => None,
        }
    }

    fn only(&mut self, call: &Call, place: Place, allowed: &[Place], what: &str) {
        if !allowed.contains(&place) {
            let names: Vec<&str> = allowed.iter().map(|place| place.name()).collect();
            let message = format!("{what} cannot be called from {}", place.name());
            let error = Diagnostic::error(code::WRONG_PLACE, call.span, message);
            self.diagnostics
                .push(error.hint(format!("they can be called from {}", names.join(" and "))));
        }
    }

    fn forbid_exit(&mut self, body: &'p [Stmt], place: &str) {
        walk::stmts(body, &mut |stmt| {
            if matches!(stmt.kind, StmtKind::Exit) {
                let message = format!("`exit` cannot stand in {place}");
                let error = Diagnostic::error(code::WRONG_PLACE, stmt.span, message);
                self.diagnostics.push(error.hint("`exit` ends the control that is running; it stands in actions and apply blocks"));
            }
        });
    }

    fn forbid_switch_on_tables(&mut self, body: &'p [Stmt], place: Place) {
        walk::stmts(body, &mut |stmt| {
            if matches!(stmt.kind, StmtKind::SwitchAction { .. }) {
                let message = format!("tables cannot be applied in {}", place.name());
                self.diagnostics
                    .push(Diagnostic::error(code::WRONG_PLACE, stmt.span, message));
            }
            for expr in walk::exprs_of(stmt) {
                self.forbid_apply_results(expr, place);
            }
        });
    }

    fn forbid_apply_results(&mut self, expr: &Expr, place: Place) {
        if matches!(expr.kind, ExprKind::ApplyResult(..)) {
            let message = format!("tables cannot be applied in {}", place.name());
            self.diagnostics
                .push(Diagnostic::error(code::WRONG_PLACE, expr.span, message));
        }
        for child in walk::children(expr) {
            self.forbid_apply_results(child, place);
        }
    }

    fn edge(&mut self, from: Node, to: Node, span: Span) {
        self.calls
            .entry(from)
            .or_default()
            .entry(to)
            .or_insert(span);
    }

    /// Reports each cycle of calls once, at the call that closes it.
    fn recursion(&mut self) {
        let mut done: BTreeMap<Node, bool> = BTreeMap::new();
        let nodes: Vec<Node> = self.calls.keys().copied().collect();
        for node in nodes {
            self.search(node, &mut done);
        }
    }

    /// Runs a depth-first search with an explicit stack. `done` is false while a node is on it.
    fn search(&mut self, root: Node, done: &mut BTreeMap<Node, bool>) {
        let targets =
            |calls: &BTreeMap<Node, BTreeMap<Node, Span>>, node: Node| -> Vec<(Node, Span)> {
                calls
                    .get(&node)
                    .into_iter()
                    .flatten()
                    .map(|(to, span)| (*to, *span))
                    .collect()
            };
        if done.contains_key(&root) {
            return;
        }
        done.insert(root, false);
        let mut stack = vec![(root, targets(&self.calls, root))];
        while let Some((node, rest)) = stack.last_mut() {
            let node = *node;
            let Some((next, span)) = rest.pop() else {
                done.insert(node, true);
                stack.pop();
                continue;
            };
            match done.get(&next) {
                Some(true) => {}
                Some(false) => self.report_circle(next, span),
                None => {
                    done.insert(next, false);
                    stack.push((next, targets(&self.calls, next)));
                }
            }
        }
    }

    fn report_circle(&mut self, node: Node, span: Span) {
        let (what, name) = match node {
            Node::Function(id) => ("function", &self.program.functions[id].proto.name),
            Node::Action(id) => ("action", &self.program.actions[id].name),
            Node::Parser(id) => ("parser", &self.program.parsers[id].name),
            Node::Control(id) => ("control", &self.program.controls[id].name),
        };
        let message = format!(
            "the {what} `{}` calls itself; P4 has no recursion",
            name.as_str()
        );
        self.diagnostics.push(
            Diagnostic::error(code::RECURSION, span, message).label(name.span, "declared here"),
        );
    }
}
