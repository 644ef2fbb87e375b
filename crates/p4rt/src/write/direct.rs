//! Which actions execute a table's direct resources (section "Direct Resources").

use ir::{ActionCall, ActionId, Arch, ExternId, Program, Stmt, StmtKind, Table};
use p4info::p4::v1 as rt;

use crate::fault::{Checked, invalid};

/// Whether an entry with this action may set the direct resources that an update sets.
pub(super) fn check_executed(
    program: &Program,
    table: &Table,
    place: &str,
    call: &ActionCall,
    entry: &rt::TableEntry,
) -> Checked {
    let Some(listed) = table.actions.get(call.action) else {
        return Ok(());
    };
    let meter = table.direct_meter.filter(|_| entry.meter_config.is_some());
    // v1model's direct counters count whatever the action does.
    let counter = table
        .direct_counter
        .filter(|_| entry.counter_data.is_some() && program.arch != Arch::V1model);
    for (what, instance) in [("meter", meter), ("counter", counter)] {
        if let Some(instance) = instance
            && !executes(program, listed.action, instance)
        {
            let name = &program.actions[listed.action].control_plane_name;
            return invalid(format!(
                "{place}: the direct {what} is set, but the action `{name}` does not execute it"
            ));
        }
    }
    Ok(())
}

/// Whether an action calls an instance, or an action that does.
fn executes(program: &Program, action: ActionId, instance: ExternId) -> bool {
    let body = program
        .actions
        .get(action)
        .map_or(&[][..], |action| &action.body);
    body.iter().any(|stmt| calls(program, stmt, instance))
}

fn calls(program: &Program, stmt: &Stmt, instance: ExternId) -> bool {
    let any = |body: &[Stmt]| body.iter().any(|stmt| calls(program, stmt, instance));
    match &stmt.kind {
        StmtKind::Call(call) => call.instance == Some(instance),
        // Actions do not call each other in a circle: the verifier sees to it.
        StmtKind::CallAction(action, _) => executes(program, *action, instance),
        StmtKind::If(_, then, otherwise) => any(then) || any(otherwise),
        StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => any(body),
        _ => false,
    }
}
