//! Limit on the size of a program after expansion, checked before anything is expanded.
//!
//! An engine runs code without calls. Each application of a control or parser and each call of a
//! function or action is replaced by the body. Each instance has separate tables and state.
//! Controls that apply others twice, level by level, double the size at each level. The sizes here
//! are those after expansion. They are computed bottom-up from the callees, each body once, so the
//! check is linear in the size of the program.

use std::collections::HashMap;

use support::work::checkpoint;
use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::Span;

use crate::hir::{
    ActionId, Arg, Call, Callee, Collection, ControlId, Expr, ExprKind, FunctionId, InstanceId,
    LocalDecl, ParserId, Program, Stmt, StmtKind, TableId, Transition, Ty,
};
use crate::{code, walk};

/// Number of statements, operators and operands that any program may expand to.
pub const MAX_EXPANSION: u64 = 1 << 19;
/// Additional number for each written statement, operator and operand: longer programs may expand
/// to more.
pub const EXPANSION_OF_WRITTEN: u64 = 8;
/// Maximum nesting depth of calls, applications and instances.
pub const MAX_CALL_DEPTH: u32 = 128;

/// Returns the number of statements, operators and operands that this program may expand to.
pub fn expansion_limit(program: &Program) -> u64 {
    let mut written = 0u64;
    let mut add = |more: u64| written = written.saturating_add(more);
    let bodies = (program.functions.values().map(|f| &f.body))
        .chain(program.actions.values().map(|a| &a.body))
        .chain(program.controls.values().map(|c| &c.body));
    for body in bodies {
        add(written_in(body));
    }
    for parser in program.parsers.values() {
        for state in parser.states.values() {
            add(written_in(&state.body).saturating_add(transition_size(&state.transition)));
        }
    }
    for table in program.tables.ids() {
        add(table_size(program, table));
    }
    MAX_EXPANSION.saturating_add(written.saturating_mul(EXPANSION_OF_WRITTEN))
}

/// Checks the code that `main` instantiates. The program has no recursion.
pub(crate) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    let Some(main) = program.main else { return };
    let mut sizes = Sizes {
        program,
        limit: expansion_limit(program),
        known: HashMap::new(),
        depth: 0,
        error: None,
    };
    let mut total = 0;
    sizes.instance(main, program.instances[main].span, &mut total);
    for global in &program.globals {
        if *global != main {
            sizes.instance(*global, program.instances[*global].span, &mut total);
        }
    }
    sizes.blocks(main, &mut total);
    if let Some(error) = sizes.error {
        diagnostics.push(error);
    }
}

/// A unit of expansion.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Unit {
    Function(FunctionId),
    Action(ActionId),
    /// The code of a parser or control, wherever it is applied.
    Parser(ParserId),
    Control(ControlId),
    /// The parts that each instance has separately: instances, tables and their actions.
    ParserInstance(ParserId),
    ControlInstance(ControlId),
}

struct Sizes<'p> {
    program: &'p Program,
    limit: u64,
    known: HashMap<Unit, u64>,
    /// Nesting depth of the units being measured.
    depth: u32,
    /// The first error. All later ones would enclose it.
    error: Option<Diagnostic>,
}

impl<'p> Sizes<'p> {
    /// Adds to the size of the unit being measured. `span` is the position of the expansion.
    fn add(&mut self, total: &mut u64, more: u64, span: Span) {
        *total = total.saturating_add(more);
        if *total > self.limit && self.error.is_none() {
            let message = format!(
                "here the program is expanded to more than {} statements, operators and operands",
                self.limit
            );
            let note = "the bodies of controls, parsers, functions and actions are put where they \
                        are applied or called, and each instance has tables of its own";
            let error = Diagnostic::error(code::EXPANSION, span, message).note(note);
            self.error = Some(error.hint("apply or call it fewer times"));
        }
    }

    /// Returns the size of a unit that is expanded at `span`.
    fn unit(&mut self, unit: Unit, span: Span) -> u64 {
        if let Some(&known) = self.known.get(&unit) {
            return known;
        }
        if self.error.is_some() {
            return 0;
        }
        if self.depth >= MAX_CALL_DEPTH {
            let message = format!(
                "calls and instances are nested more than {MAX_CALL_DEPTH} levels deep here"
            );
            self.error = Some(Diagnostic::error(code::EXPANSION, span, message));
            return 0;
        }
        self.depth += 1;
        let mut total = 1;
        self.measure(unit, &mut total);
        self.depth -= 1;
        self.known.insert(unit, total);
        total
    }

    fn measure(&mut self, unit: Unit, total: &mut u64) {
        let program = self.program;
        match unit {
            Unit::Function(id) => self.body(&program.functions[id].body, 1, total),
            Unit::Action(id) => self.body(&program.actions[id].body, 1, total),
            Unit::Parser(id) => {
                let parser = &program.parsers[id];
                self.variables(&parser.locals, total);
                for state in parser.states.values() {
                    self.body(&state.body, 1, total);
                    let size = transition_size(&state.transition);
                    self.add(total, size, state.name.span);
                    if let Transition::Select { args, cases, .. } = &state.transition {
                        let sets = cases.iter();
                        let sets = sets.flat_map(|case| walk::exprs_of_keyset(&case.keyset));
                        args.iter()
                            .chain(sets)
                            .for_each(|e| self.calls(e, 1, total));
                    }
                }
            }
            Unit::Control(id) => {
                let control = &program.controls[id];
                self.variables(&control.locals, total);
                self.body(&control.body, 1, total);
            }
            Unit::ParserInstance(id) => self.own(&program.parsers[id].locals, total),
            Unit::ControlInstance(id) => self.own(&program.controls[id].locals, total),
        }
    }

    /// Adds the initialisers of variables.
    fn variables(&mut self, locals: &'p [LocalDecl], total: &mut u64) {
        for local in locals {
            if let LocalDecl::Var(_, Some(init)) = local {
                self.expr(init, 1, total);
            }
        }
    }

    /// Adds the instances, tables and actions of an instance.
    fn own(&mut self, locals: &'p [LocalDecl], total: &mut u64) {
        let program = self.program;
        for local in locals {
            checkpoint();
            match local {
                LocalDecl::Instance(id) => {
                    self.instance(*id, program.instances[*id].span, total);
                }
                LocalDecl::Table(id) => {
                    let size = table_size(program, *id);
                    self.add(total, size, program.tables[*id].span);
                }
                LocalDecl::Action(id) => {
                    let span = program.actions[*id].name.span;
                    let size = self.unit(Unit::Action(*id), span);
                    self.add(total, size, span);
                }
                LocalDecl::Var(..) | LocalDecl::ValueSet(_) => {}
            }
        }
    }

    /// Adds an instance, including the instances among its arguments.
    fn instance(&mut self, id: InstanceId, span: Span, total: &mut u64) {
        let program = self.program;
        let instance = &program.instances[id];
        for arg in &instance.args {
            if let Arg::Expr(Expr {
                kind: ExprKind::Instance(inner),
                span,
                ..
            }) = arg
                && !program.globals.contains(inner)
            {
                self.instance(*inner, *span, total);
            }
        }
        for inner in &instance.inner {
            self.instance(*inner, program.instances[*inner].span, total);
        }
        let size = match program.types.get(instance.ty) {
            Ty::Parser(id) => self.unit(Unit::ParserInstance(*id), span),
            Ty::Control(id) => self.unit(Unit::ControlInstance(*id), span),
            _ => 0,
        };
        self.add(total, size.saturating_add(1), span);
    }

    /// Adds the code of the blocks that are arguments of a package, and of nested packages.
    fn blocks(&mut self, package: InstanceId, total: &mut u64) {
        let program = self.program;
        for arg in &program.instances[package].args {
            let Arg::Expr(Expr {
                kind: ExprKind::Instance(id),
                span,
                ..
            }) = arg
            else {
                continue;
            };
            let size = match program.types.get(program.instances[*id].ty) {
                Ty::Parser(id) => self.unit(Unit::Parser(*id), *span),
                Ty::Control(id) => self.unit(Unit::Control(*id), *span),
                Ty::BlockType(..) => {
                    self.blocks(*id, total);
                    0
                }
                _ => 0,
            };
            self.add(total, size, *span);
        }
    }

    /// Adds statements that occur `times` times in the expansion.
    fn body(&mut self, body: &'p [Stmt], times: u64, total: &mut u64) {
        for stmt in body {
            checkpoint();
            self.add(total, times.saturating_mul(labels(stmt)), stmt.span);
            if let StmtKind::Call(call, _) = &stmt.kind {
                self.call(call, times, total);
            }
            for expr in walk::exprs_of(stmt) {
                self.expr(expr, times, total);
            }
            let times = times.saturating_mul(self.copies(stmt));
            for inner in walk::bodies_of(stmt) {
                self.body(inner, times, total);
            }
        }
    }

    /// Returns the number of copies of a statement's body in the expansion. A loop over parts of
    /// several types has a copy for each.
    fn copies(&self, stmt: &Stmt) -> u64 {
        let StmtKind::ForIn {
            collection: Collection::Elements(elements),
            ..
        } = &stmt.kind
        else {
            return 1;
        };
        match (&elements.kind, self.program.types.get(elements.ty)) {
            (ExprKind::Aggregate(parts), _) => parts.len() as u64,
            (_, Ty::Tuple(parts)) => parts.len() as u64,
            _ => 1,
        }
    }

    fn expr(&mut self, expr: &'p Expr, times: u64, total: &mut u64) {
        self.add(total, times.saturating_mul(expr_size(expr)), expr.span);
        self.calls(expr, times, total);
    }

    fn calls(&mut self, expr: &'p Expr, times: u64, total: &mut u64) {
        walk::calls_in_expr(expr, &mut |call| self.callee(call, times, total));
    }

    fn call(&mut self, call: &'p Call, times: u64, total: &mut u64) {
        self.add(total, times.saturating_mul(call_size(call)), call.span);
        walk::calls_in_call(call, &mut |call| self.callee(call, times, total));
    }

    fn callee(&mut self, call: &'p Call, times: u64, total: &mut u64) {
        let program = self.program;
        let unit = match &call.callee {
            Callee::Function(id) => Unit::Function(*id),
            Callee::Action(id) => Unit::Action(*id),
            Callee::Apply(object) => match program.types.get(object.ty) {
                Ty::Parser(id) => Unit::Parser(*id),
                Ty::Control(id) => Unit::Control(*id),
                _ => return,
            },
            Callee::ExternMethod { object, method, .. } => match object.kind {
                ExprKind::Instance(id) => {
                    let mut methods = program.instances[id].methods.iter();
                    match methods.find(|(index, _)| index == method) {
                        Some((_, function)) => Unit::Function(*function),
                        None => return,
                    }
                }
                _ => return,
            },
            Callee::ExternFunction(_) | Callee::Table(_) | Callee::Builtin(..) => return,
        };
        let size = self.unit(unit, call.span);
        self.add(total, times.saturating_mul(size), call.span);
    }
}

/// Returns the size of the statement itself with its labels.
fn labels(stmt: &Stmt) -> u64 {
    let labels: usize = match &stmt.kind {
        StmtKind::SwitchAction { cases, .. } => cases.iter().map(|case| case.labels.len()).sum(),
        StmtKind::SwitchValue { cases, .. } => cases.iter().map(|case| case.labels.len()).sum(),
        _ => 0,
    };
    labels as u64 + 1
}

/// Returns the number of statements, operators and operands of a body as written.
fn written_in(body: &[Stmt]) -> u64 {
    let mut size = 0u64;
    walk::stmts(body, &mut |stmt| {
        checkpoint();
        size = size.saturating_add(labels(stmt));
        if let StmtKind::Call(call, _) = &stmt.kind {
            size = size.saturating_add(call_size(call));
        }
        for expr in walk::exprs_of(stmt) {
            size = size.saturating_add(expr_size(expr));
        }
    });
    size
}

fn transition_size(transition: &Transition) -> u64 {
    match transition {
        Transition::Direct(_) => 1,
        Transition::Select { args, cases, .. } => {
            let sets = cases.iter();
            let sets = sets.flat_map(|case| walk::exprs_of_keyset(&case.keyset));
            let size: u64 = args.iter().chain(sets).map(expr_size).sum();
            size + cases.len() as u64 + 1
        }
    }
}

/// Returns the size of a table with its key, actions and entries.
fn table_size(program: &Program, id: TableId) -> u64 {
    let table = &program.tables[id];
    let keys: u64 = table.keys.iter().map(|key| expr_size(&key.expr)).sum();
    let row = (table.keys.len() + 1) as u64;
    let rows = (table.entries.len() as u64).saturating_mul(row);
    keys.saturating_add(table.actions.len() as u64)
        .saturating_add(rows)
        .saturating_add(1)
}

/// Returns the number of operators and operands of an expression, including call arguments.
fn expr_size(expr: &Expr) -> u64 {
    1 + match &expr.kind {
        ExprKind::Call(call) => call_size(call),
        ExprKind::ActionCall(_, args) => args.iter().map(arg_size).sum(),
        _ => walk::children(expr).map(expr_size).sum(),
    }
}

fn call_size(call: &Call) -> u64 {
    let object = walk::object_of(call).map_or(0, expr_size);
    object + call.args.iter().map(arg_size).sum::<u64>()
}

fn arg_size(arg: &Arg) -> u64 {
    match arg {
        Arg::Expr(expr) => expr_size(expr),
        Arg::Omitted => 1,
    }
}
