//! Checks that actions execute a table's direct resources (section "Direct Resources").

use ir::{ActionCall, ActionId, Arch, ExternId, Program, Stmt, StmtKind, Table, TableId};
use switch::{Action, Device};
use table::{GroupId, MemberId};

use crate::request_error::{Checked, invalid};

/// The direct resources that an update of an entry sets.
#[derive(Clone, Copy)]
pub(super) struct Set {
    pub(super) meter: bool,
    pub(super) counter: bool,
}

/// Checks that at least one of an entry's actions executes each direct resource that the update
/// sets. A group or a one-shot set may have several actions.
pub(super) fn check_executed(
    program: &Program,
    table: &Table,
    place: &str,
    actions: &[ActionId],
    set: Set,
) -> Checked {
    let meter = table.direct_meter.filter(|_| set.meter);
    // v1model's direct counters count for every action.
    let counter = table
        .direct_counter
        .filter(|_| set.counter && program.arch != Arch::V1model);
    for (what, instance) in [("meter", meter), ("counter", counter)] {
        let Some(instance) = instance else { continue };
        let is_executed = |action: &ActionId| executes(program, *action, instance);
        if let Some(first) = actions.first()
            && !actions.iter().any(is_executed)
        {
            let name = &program.actions[*first].control_plane_name;
            return invalid(format!(
                "{place}: the direct {what} is set, but the action `{name}` does not execute it"
            ));
        }
    }
    Ok(())
}

/// Returns the actions of an entry. Members and groups are resolved in the device.
pub(super) fn actions(device: &Device, table: TableId, action: &Action) -> Vec<ActionId> {
    let declared = &device.program().tables[table];
    let listed = |call: &ActionCall| Some(declared.actions.get(call.action)?.action);
    let profile = declared.implementation;
    let profile = profile.and_then(|id| device.configuration().profiles[id].as_ref());
    let of_member = |id| {
        let member = profile?.member(id)?;
        Some(ActionId::new(member.action))
    };
    match action {
        Action::Call(call) => listed(call).into_iter().collect(),
        Action::OneShot(calls) => calls.iter().filter_map(|(call, _)| listed(call)).collect(),
        Action::Member(id) => of_member(MemberId::new(*id)).into_iter().collect(),
        Action::Group(id) => {
            let group = profile.and_then(|profile| profile.group(GroupId::new(*id)));
            let members = group.into_iter().flatten();
            members
                .filter_map(|member| of_member(member.member))
                .collect()
        }
    }
}

/// Returns true if an action calls an extern instance, directly or through another action.
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
        // The recursion ends: the verifier refuses cyclic calls of actions.
        StmtKind::CallAction(action, _) => executes(program, *action, instance),
        StmtKind::If(_, then, otherwise) => any(then) || any(otherwise),
        StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => any(body),
        _ => false,
    }
}
