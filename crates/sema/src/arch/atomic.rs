//! Registers that one body reads and then writes without `@atomic`: another packet's write may
//! come between the two where several workers carry packets (section "Concurrency model").

use std::collections::BTreeMap;

use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::Span;

use crate::code;
use crate::hir::{Call, Callee, ExprKind, InstanceId, Program, Stmt, StmtKind};
use crate::walk;

/// Externs whose cells packets read and write.
const REGISTERS: [&str; 2] = ["register", "Register"];

pub(super) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    let actions = program.actions.values().map(|action| &action.body);
    let controls = program.controls.values().map(|control| &control.body);
    let functions = program.functions.values().map(|function| &function.body);
    for body in actions.chain(controls).chain(functions) {
        let mut accesses = Accesses {
            program,
            reads: BTreeMap::new(),
            found: Vec::new(),
        };
        accesses.body(body);
        for (register, read, write) in accesses.found {
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
}

/// The accesses to registers in one body.
struct Accesses<'p> {
    program: &'p Program,
    /// Registers read so far, and the first place of each.
    reads: BTreeMap<InstanceId, Span>,
    /// Registers that are written after they are read, each once.
    found: Vec<(InstanceId, Span, Span)>,
}

impl<'p> Accesses<'p> {
    fn body(&mut self, body: &'p [Stmt]) {
        for stmt in body {
            if let StmtKind::Block(_, annotations) = &stmt.kind
                && annotations.iter().any(|a| a.name.as_str() == "atomic")
            {
                continue;
            }
            let mut calls = Vec::new();
            for expr in walk::exprs_of(stmt) {
                walk::calls_in_expr(expr, &mut |call| calls.push(call));
            }
            if let StmtKind::Call(call, _) = &stmt.kind {
                walk::calls_in_call(call, &mut |call| calls.push(call));
            }
            for call in calls {
                self.call(call);
            }
            for inner in walk::bodies_of(stmt) {
                self.body(inner);
            }
        }
    }

    fn call(&mut self, call: &'p Call) {
        let Callee::ExternMethod {
            object,
            extern_id,
            method,
        } = &call.callee
        else {
            return;
        };
        let declared = &self.program.externs[*extern_id];
        let ExprKind::Instance(register) = object.kind else {
            return;
        };
        if !REGISTERS.contains(&declared.name.as_str()) {
            return;
        }
        match declared.methods[*method].proto.name.as_str() {
            "read" => {
                self.reads.entry(register).or_insert(call.span);
            }
            "write" => {
                let known = self.found.iter().any(|(found, ..)| *found == register);
                if let Some(&read) = self.reads.get(&register)
                    && !known
                {
                    self.found.push((register, read, call.span));
                }
            }
            _ => {}
        }
    }
}
