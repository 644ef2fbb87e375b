//! The rules of PNA for tables to which packets add entries.

use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::Span;

use crate::code;
use crate::hir::{ActionId, Callee, ExprKind, Program, Stmt, Table};
use crate::walk;

/// Checks that `add_entry` is called only in the default action of a table with
/// `add_on_miss = true`.
pub(super) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    let mut error = |span: Span, message: String| {
        diagnostics.push(Diagnostic::error(code::ARCHITECTURE, span, message));
    };
    for control in program.controls.values() {
        if let Some(span) = adds_entry(program, &control.body) {
            error(
                span,
                "`add_entry` can only be called in an action".to_string(),
            );
        }
    }
    for (id, action) in program.actions.iter() {
        let Some(span) = adds_entry(program, &action.body) else {
            continue;
        };
        for table in program.tables.values().filter(|table| runs(table, id)) {
            let name = table.name.as_str();
            if !adds_on_miss(table) {
                error(
                    span,
                    format!(
                        "`add_entry` needs `add_on_miss = true` in table `{name}`, which has this action"
                    ),
                );
            } else if table
                .default_action
                .as_ref()
                .is_some_and(|default| table.actions[default.action].action != id)
            {
                error(
                    span,
                    format!(
                        "`add_entry` can only be called in the default action of table `{name}`"
                    ),
                );
            }
        }
    }
}

fn runs(table: &Table, action: ActionId) -> bool {
    table.actions.iter().any(|listed| listed.action == action)
}

fn adds_on_miss(table: &Table) -> bool {
    let property = table
        .properties
        .iter()
        .find(|property| property.name.as_str() == "add_on_miss");
    property.is_some_and(|property| matches!(property.value.kind, ExprKind::Bool(true)))
}

fn adds_entry(program: &Program, body: &[Stmt]) -> Option<Span> {
    let mut found = None;
    walk::calls(body, &mut |call| {
        if let Callee::ExternFunction(id) = call.callee
            && program.extern_functions[id].name.as_str() == "add_entry"
        {
            found.get_or_insert(call.span);
        }
    });
    found
}
