//! Detects registers that a packet reads and then writes without `@atomic`. If several workers
//! process packets, another packet's write may come between the two (section "Concurrency model").
//!
//! Bodies are walked in execution order, including the actions, tables, functions and controls that
//! they call. The number of steps is limited. If a program needs more, the results found so far are
//! reported.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use support::work::checkpoint;
use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::Span;

use crate::annotations::has;
use crate::code;
use crate::hir::{
    ActionId, Call, Callee, ControlId, Expr, ExprKind, FunctionId, InstanceId, LocalDecl, Program,
    Stmt, StmtKind, TableId, Ty,
};
use crate::walk;

/// Externs with cells that packets read and write.
const REGISTERS: [&str; 2] = ["register", "Register"];

/// Maximum number of accesses of called code examined in a program.
const MAX_STEPS: usize = 1 << 20;

pub(super) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    let mut walk = Walk {
        program,
        known: HashMap::new(),
        found: Vec::new(),
        shown: HashSet::new(),
        left: MAX_STEPS,
    };
    for id in program.actions.ids() {
        walk.unit(Unit::Action(id));
    }
    for id in program.functions.ids() {
        walk.unit(Unit::Function(id));
    }
    for id in program.controls.ids() {
        walk.unit(Unit::Control(id));
    }
    for (register, read, write) in walk.found {
        let name = program.instances[register].name.as_str();
        let message = format!(
            "the register `{name}` is read and then written outside of `@atomic`: with several \
             workers, writes of other packets between the two are lost"
        );
        let diagnostic = Diagnostic::warning(code::W_NOT_ATOMIC, write, message)
            .label(read, "read here")
            .hint("put both into one block `@atomic { .. }`");
        diagnostics.push(diagnostic);
    }
}

/// A unit of code that can be called.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Unit {
    Action(ActionId),
    Table(TableId),
    Function(FunctionId),
    Control(ControlId),
}

/// The registers that code reads and writes, with the first source position of each.
#[derive(Clone, Default)]
struct Accesses {
    reads: BTreeMap<InstanceId, Span>,
    writes: BTreeMap<InstanceId, Span>,
}

struct Walk<'p> {
    program: &'p Program,
    /// Accesses of units walked so far; empty for units being walked.
    known: HashMap<Unit, Rc<Accesses>>,
    /// Writes after reads, each once in a body.
    found: Vec<(InstanceId, Span, Span)>,
    /// Pairs of register and write already reported.
    shown: HashSet<(InstanceId, Span)>,
    /// Remaining steps.
    left: usize,
}

impl<'p> Walk<'p> {
    fn unit(&mut self, unit: Unit) -> Rc<Accesses> {
        if let Some(known) = self.known.get(&unit) {
            return known.clone();
        }
        checkpoint();
        self.known.insert(unit, Rc::default());
        let program = self.program;
        let mut accesses = Accesses::default();
        let mut once = HashSet::new();
        match unit {
            Unit::Action(id) => self.body(&program.actions[id].body, &mut accesses, &mut once),
            Unit::Function(id) => self.body(&program.functions[id].body, &mut accesses, &mut once),
            Unit::Control(id) => {
                let control = &program.controls[id];
                for local in &control.locals {
                    if let LocalDecl::Var(_, Some(init)) = local {
                        let mut calls = Vec::new();
                        walk::calls_in_expr(init, &mut |call| calls.push(call));
                        self.calls(calls, &mut accesses, &mut once);
                    }
                }
                self.body(&control.body, &mut accesses, &mut once);
            }
            // One of the actions runs.
            Unit::Table(id) => {
                for listed in &program.tables[id].actions {
                    let action = self.unit(Unit::Action(listed.action));
                    if self.may_follow(&action) {
                        accesses.add(&action);
                    }
                }
            }
        }
        let accesses = Rc::new(accesses);
        self.known.insert(unit, accesses.clone());
        accesses
    }

    fn body(&mut self, body: &'p [Stmt], accesses: &mut Accesses, once: &mut HashSet<InstanceId>) {
        for stmt in body {
            if let StmtKind::Block(inner, annotations) = &stmt.kind
                && has(annotations, "atomic")
            {
                let within = self.within(inner);
                self.follow(&within, accesses, once);
                continue;
            }
            let mut calls = Vec::new();
            let mut tables = Vec::new();
            for expr in walk::exprs_of(stmt) {
                walk::calls_in_expr(expr, &mut |call| calls.push(call));
                applied(expr, &mut tables);
            }
            if let StmtKind::Call(call, _) = &stmt.kind {
                walk::calls_in_call(call, &mut |call| calls.push(call));
            }
            if let StmtKind::SwitchAction { table, .. } = &stmt.kind {
                tables.push(*table);
            }
            self.calls(calls, accesses, once);
            for table in tables {
                let called = self.unit(Unit::Table(table));
                self.follow(&called, accesses, once);
            }
            for inner in walk::bodies_of(stmt) {
                self.body(inner, accesses, once);
            }
        }
    }

    /// Returns the accesses of an atomic block as seen by the code around it: reads and writes
    /// inside the block are one atomic access.
    fn within(&mut self, body: &'p [Stmt]) -> Accesses {
        let mut accesses = Accesses::default();
        let found = self.found.len();
        self.body(body, &mut accesses, &mut HashSet::new());
        for (register, _, write) in self.found.drain(found..) {
            self.shown.remove(&(register, write));
        }
        let whole: Vec<InstanceId> = accesses
            .reads
            .keys()
            .filter(|register| accesses.writes.contains_key(register))
            .copied()
            .collect();
        for register in whole {
            accesses.reads.remove(&register);
            accesses.writes.remove(&register);
        }
        accesses
    }

    fn calls(
        &mut self,
        calls: Vec<&'p Call>,
        accesses: &mut Accesses,
        once: &mut HashSet<InstanceId>,
    ) {
        for call in calls {
            let called = match &call.callee {
                Callee::Action(id) => self.unit(Unit::Action(*id)),
                Callee::Function(id) => self.unit(Unit::Function(*id)),
                Callee::Table(id) => self.unit(Unit::Table(*id)),
                Callee::Apply(object) => match &object.kind {
                    ExprKind::Instance(id) => {
                        match self.program.types.get(self.program.instances[*id].ty) {
                            Ty::Control(id) => self.unit(Unit::Control(*id)),
                            _ => continue,
                        }
                    }
                    _ => continue,
                },
                Callee::ExternMethod { .. } => match self.own(call) {
                    Some(own) => Rc::new(own),
                    None => continue,
                },
                Callee::ExternFunction(_) | Callee::Builtin(..) => continue,
            };
            self.follow(&called, accesses, once);
        }
    }

    /// Charges the steps to examine accesses. Returns true if enough were left.
    fn may_follow(&mut self, later: &Accesses) -> bool {
        checkpoint();
        let steps = 1 + later.reads.len() + later.writes.len();
        let left = self.left.checked_sub(steps);
        self.left = left.unwrap_or(0);
        left.is_some()
    }

    /// Appends later accesses to earlier ones, and reports a write after a read.
    fn follow(
        &mut self,
        later: &Accesses,
        accesses: &mut Accesses,
        once: &mut HashSet<InstanceId>,
    ) {
        if !self.may_follow(later) {
            return;
        }
        for (&register, &write) in &later.writes {
            if let Some(&read) = accesses.reads.get(&register)
                && once.insert(register)
                && self.shown.insert((register, write))
            {
                self.found.push((register, read, write));
            }
        }
        accesses.add(later);
    }

    /// Returns the access of a register's method.
    fn own(&self, call: &Call) -> Option<Accesses> {
        let Callee::ExternMethod {
            object,
            extern_id,
            method,
        } = &call.callee
        else {
            return None;
        };
        let declared = &self.program.externs[*extern_id];
        let ExprKind::Instance(register) = object.kind else {
            return None;
        };
        if !REGISTERS.contains(&declared.name.as_str()) {
            return None;
        }
        let mut accesses = Accesses::default();
        let kind = match declared.methods[*method].proto.name.as_str() {
            "read" => &mut accesses.reads,
            "write" => &mut accesses.writes,
            _ => return None,
        };
        kind.insert(register, call.span);
        Some(accesses)
    }
}

/// Collects the tables that an expression applies to test for a hit.
fn applied(expr: &Expr, tables: &mut Vec<TableId>) {
    if let ExprKind::ApplyResult(table, _) = expr.kind {
        tables.push(table);
    }
    walk::children(expr).for_each(|child| applied(child, tables));
}

impl Accesses {
    fn add(&mut self, other: &Accesses) {
        for (register, span) in &other.reads {
            self.reads.entry(*register).or_insert(*span);
        }
        for (register, span) in &other.writes {
            self.writes.entry(*register).or_insert(*span);
        }
    }
}
