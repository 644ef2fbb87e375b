//! Checks actions: their code, call depth and cost, and their uses of a table's externs and
//! entries.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use support::work::checkpoint;

use super::stmt::Context;
use super::{Check, MAX_CALL_COST, MAX_CALL_DEPTH, Verifier, same};
use crate::code::*;
use crate::ops::{InstanceKind, Op};
use crate::program::*;

/// Size of an action, including all actions that it calls.
#[derive(Clone, Copy, Default)]
pub(super) struct Expanded {
    depth: u32,
    cost: u32,
}

/// Calls in an action.
#[derive(Default)]
pub(super) struct Calls<'a> {
    actions: Vec<ActionId>,
    /// Calls that refer to the table that runs the action.
    of_tables: Vec<&'a Call>,
}

fn concerns_table(call: &Call) -> bool {
    let instance = call.op.instance();
    matches!(
        instance,
        InstanceKind::DirectCounter | InstanceKind::DirectMeter
    ) || call.op == Op::AddEntry
}

impl<'a> Verifier<'a> {
    pub(super) fn actions(&mut self) {
        for (id, action) in self.program.actions.iter() {
            checkpoint();
            self.enter(format!("action {}", action.name), action.loc);
            for param in &action.params {
                checkpoint();
                let check = self.scalar(param.ty);
                self.tell(check);
            }
            self.body(&action.body, Context::Action(id));
        }
        let mut known = HashMap::new();
        let mut open = HashSet::new();
        for (id, action) in self.program.actions.iter() {
            checkpoint();
            self.enter(format!("action {}", action.name), action.loc);
            open.clear();
            let check = self.expand(id, &mut known, &mut open);
            self.tell(check.map(drop));
        }
        self.expanded = known;
    }

    fn expand(
        &self,
        id: ActionId,
        known: &mut HashMap<ActionId, Expanded>,
        open: &mut HashSet<ActionId>,
    ) -> Check<Expanded> {
        if let Some(expanded) = known.get(&id) {
            return Ok(*expanded);
        }
        let Some(action) = self.program.actions.get(id) else {
            return Ok(Expanded::default());
        };
        if open.len() >= MAX_CALL_DEPTH as usize {
            return Err(format!(
                "actions call each other deeper than {MAX_CALL_DEPTH}"
            ));
        }
        if !open.insert(id) {
            return Err(format!("{} calls itself", action.name));
        }
        let mut sum = Expanded { depth: 1, cost: 1 };
        let mut calls = Vec::new();
        walk(&action.body, &mut |stmt| {
            sum.cost = sum.cost.saturating_add(1);
            if let StmtKind::CallAction(callee, _) = &stmt.kind {
                calls.push(*callee);
            }
        });
        for callee in calls {
            checkpoint();
            let callee = self.expand(callee, known, open)?;
            sum.cost = sum.cost.saturating_add(callee.cost);
            sum.depth = sum.depth.max(callee.depth + 1);
        }
        open.remove(&id);
        if sum.depth > MAX_CALL_DEPTH || sum.cost > MAX_CALL_COST {
            return Err(format!(
                "calls come to {} statements at depth {}; {MAX_CALL_COST} at {MAX_CALL_DEPTH} are allowed",
                sum.cost, sum.depth
            ));
        }
        known.insert(id, sum);
        Ok(sum)
    }

    /// Computes the cost of a control: each stage once, with the most expensive action of each
    /// table.
    pub(super) fn control_cost(&self, control: &Control) -> Check {
        let cost_of = |id: &ActionId| self.expanded.get(id).map_or(0, |e| e.cost);
        let mut sum = 0u32;
        for stage in control.stages.values() {
            checkpoint();
            sum = sum.saturating_add(1);
            match &stage.kind {
                StageKind::Condition { .. } => {}
                StageKind::Match { table, .. } => {
                    let actions = self.program.tables.get(*table).map(|t| t.actions.iter());
                    let costs = actions.into_iter().flatten().map(|a| cost_of(&a.action));
                    sum = sum.saturating_add(costs.max().unwrap_or(0));
                }
                StageKind::Action { body, .. } => walk(body, &mut |stmt| {
                    sum = sum.saturating_add(1);
                    if let StmtKind::CallAction(callee, _) = &stmt.kind {
                        sum = sum.saturating_add(cost_of(callee));
                    }
                }),
            }
        }
        if sum > MAX_CALL_COST {
            return Err(format!(
                "its stages come to {sum} statements; {MAX_CALL_COST} are allowed"
            ));
        }
        Ok(())
    }

    /// Checks the code of the table's actions and of the actions that they call. It may only use
    /// this table's direct externs and entries.
    pub(super) fn table_code(&mut self, table: &Table) -> Check {
        let mut todo: Vec<ActionId> = table.actions.iter().map(|a| a.action).collect();
        let mut seen: HashSet<ActionId> = HashSet::new();
        while let Some(id) = todo.pop() {
            checkpoint();
            let Some(action) = self.program.actions.get(id).filter(|_| seen.insert(id)) else {
                continue;
            };
            let calls = self.calls_of(id);
            todo.extend(&calls.actions);
            for call in &calls.of_tables {
                checkpoint();
                self.table_call(table, action, call)
                    .map_err(|e| format!("action {}: {e}", action.name))?;
            }
        }
        Ok(())
    }

    /// Returns an action's calls. They are cached, because many tables may have the action.
    fn calls_of(&mut self, id: ActionId) -> Rc<Calls<'a>> {
        if let Some(known) = self.calls.get(&id) {
            return known.clone();
        }
        let mut calls = Calls::default();
        let body = self.program.actions.get(id).map_or(&[][..], |a| &a.body);
        walk(body, &mut |stmt| match &stmt.kind {
            StmtKind::CallAction(callee, _) => calls.actions.push(*callee),
            StmtKind::Call(call) if concerns_table(call) => calls.of_tables.push(call),
            _ => {}
        });
        let calls = Rc::new(calls);
        self.calls.insert(id, calls.clone());
        calls
    }

    fn table_call(&mut self, table: &Table, action: &Action, call: &Call) -> Check {
        let attached = match call.op.instance() {
            InstanceKind::DirectCounter => table.direct_counter,
            InstanceKind::DirectMeter => table.direct_meter,
            _ if call.op == Op::AddEntry => return self.add_entry(table, action, call),
            _ => return Ok(()),
        };
        if call.instance == attached {
            Ok(())
        } else {
            Err(format!("{} of an extern of another table", call.op.name()))
        }
    }

    /// Checks that `add_entry` names an action of the table and gives all its parameters.
    fn add_entry(&mut self, table: &Table, caller: &Action, call: &Call) -> Check {
        let [Operand::Number(at), _, Operand::Data(args), _] = &call.operands[..] else {
            return Ok(());
        };
        if !table.add_on_miss {
            return Err("add_entry in an action of a table without add_on_miss".to_owned());
        }
        let added = usize::try_from(*at)
            .ok()
            .and_then(|at| table.actions.get(at));
        let added = added.and_then(|a| self.program.actions.get(a.action));
        let added = added.ok_or("add_entry of an action that the table does not have")?;
        if added.params.len() != args.len() {
            return Err(format!(
                "add_entry: {} takes {} arguments",
                added.name,
                added.params.len()
            ));
        }
        for (param, arg) in added.params.iter().zip(args) {
            checkpoint();
            same(param.ty, self.expr(arg, Some(caller))?)?;
        }
        Ok(())
    }
}

impl Verifier<'_> {
    /// Returns true if a control emits, in its own code or in an action that it or one of its
    /// tables runs.
    pub(super) fn emits(&self, id: ControlId) -> bool {
        let Some(control) = self.program.controls.get(id) else {
            return false;
        };
        let mut seen = HashSet::new();
        control.stages.values().any(|stage| match &stage.kind {
            StageKind::Action { body, .. } => self.code_emits(body, &mut seen),
            StageKind::Condition { .. } => false,
            StageKind::Match { table, .. } => {
                let table = self.program.tables.get(*table);
                let actions = table.map_or(&[][..], |table| &table.actions);
                actions
                    .iter()
                    .any(|listed| self.action_emits(listed.action, &mut seen))
            }
        })
    }

    /// Returns true if an action emits. `seen` holds the actions visited so far.
    fn action_emits(&self, id: ActionId, seen: &mut HashSet<ActionId>) -> bool {
        match self.program.actions.get(id) {
            Some(action) if seen.insert(id) => self.code_emits(&action.body, seen),
            _ => false,
        }
    }

    fn code_emits(&self, body: &[Stmt], seen: &mut HashSet<ActionId>) -> bool {
        let mut emits = false;
        let mut called = Vec::new();
        walk(body, &mut |stmt| match &stmt.kind {
            StmtKind::Emit(_) | StmtKind::EmitField(_) => emits = true,
            StmtKind::CallAction(callee, _) => called.push(*callee),
            _ => {}
        });
        emits
            || called
                .into_iter()
                .any(|callee| self.action_emits(callee, seen))
    }
}

/// Calls `see` with every statement, outer ones first.
pub(super) fn walk<'s>(stmts: &'s [Stmt], see: &mut impl FnMut(&'s Stmt)) {
    for stmt in stmts {
        checkpoint();
        see(stmt);
        match &stmt.kind {
            StmtKind::If(_, a, b) => {
                walk(a, see);
                walk(b, see);
            }
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
                walk(body, see)
            }
            _ => {}
        }
    }
}
