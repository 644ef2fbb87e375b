//! What actions assign, by a choice in place of a branch: which action a table's entry runs cannot be foreseen, and a scout follows few assignments of each.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;
use exec::Unsupported;
use ir::{ActionId, Expr, Place, Stmt, StmtKind, TableId, limbs_of};

use super::Translator;
use super::levels::{assigns, exits};
use super::scout::Plan;

/// Actions of a table that are chosen from, and limbs that these assign together, at most.
const MOST_CHOICES: usize = 3;
const MOST_LIMBS: u32 = 6;

/// What is assigned, one after the other.
type Assigned<'p> = Vec<(&'p Place, &'p Expr)>;

/// An action that is only followed for what it assigns.
pub(super) struct Choice<'p> {
    /// Its position in the table.
    position: usize,
    action: ActionId,
    assigned: Assigned<'p>,
    /// Whether it ends its control.
    ends: bool,
}

/// Where packets may go on, each 1 for those that do.
#[derive(Clone, Copy)]
pub(super) enum Ways<'w> {
    /// One for each action, 0 so far.
    ByAction(&'w [Variable]),
    Others(&'w [Variable]),
}

impl<'t> Translator<'t> {
    /// These actions, each with its position in the table, if each only assigns something, and not much, and if it cannot be foreseen which of them it is. Where entries run one action alone, most
    /// packets hit one: what a branch foresees then waits for no record, but for an action that takes nothing from it.
    pub(super) fn choices(
        &mut self,
        table: TableId,
        actions: &[(usize, ActionId)],
        plan: &Plan<'_>,
    ) -> Option<Vec<Choice<'t>>> {
        let mut choices = Vec::with_capacity(actions.len());
        let mut limbs = 0;
        for &(position, action) in actions {
            let declared = self.program.actions.get(action)?;
            let mut params = 0..declared.params.len();
            if self.hits_run(table).is_some() && !params.is_empty() {
                return None;
            }
            // By its action an expression has the types of parameters.
            let around = self.action.replace((action, Vec::new()));
            let assigned = self.assigned(&declared.body, plan);
            self.action = around;
            let (assigned, ends) = assigned?;
            for (to, _) in &assigned {
                limbs += to.ty(self.program).map_or(u32::MAX, limbs_of);
            }
            let is_wide = |param| self.wide_param(action, param).is_some();
            if params.any(is_wide) || limbs > MOST_LIMBS {
                return None;
            }
            choices.push(Choice {
                position,
                action,
                assigned,
                ends,
            });
        }
        (choices.len() <= MOST_CHOICES).then_some(choices)
    }

    /// What an action's code assigns that later questions depend on, and whether it ends its control, if it does no more.
    fn assigned(&self, body: &'t [Stmt], plan: &Plan<'_>) -> Option<(Assigned<'t>, bool)> {
        let mut assigned = Vec::new();
        for stmt in body {
            match &stmt.kind {
                StmtKind::Assign(to, value) => {
                    assigned.extend(self.is_wanted(to, value, plan).then_some((to, value)));
                }
                StmtKind::Exit => return Some((assigned, true)),
                StmtKind::Leave(_) => return None,
                _ => {
                    let stmt = std::slice::from_ref(stmt);
                    if exits(self.program, stmt) || assigns(self.program, stmt, &plan.needed) {
                        return None;
                    }
                }
            }
        }
        Some((assigned, false))
    }

    /// Assigns what the one of these actions assigns that a record tells. Packets go none of the ways if it ends its control.
    pub(super) fn choose(
        &mut self,
        (table, record, is_hit): (TableId, Value, Value),
        choices: &[Choice<'_>],
        ways: Ways<'_>,
    ) -> Result<(), Unsupported> {
        for choice in choices {
            let is_it = self.is_run((table, record, is_hit), choice.position);
            let fields = self.fields_in_record(table, choice.position);
            // The record of another action is as long.
            let pointer = self.variable(record);
            let params = self.entry_params(choice.action, pointer, &fields);
            let around = self.action.replace((choice.action, params));
            for (to, value) in &choice.assigned {
                let to = self.locate(to)?;
                let value = self.value(value)?;
                let before = self.load(to);
                let chosen = self.select(is_it, &value, &before);
                self.store(to, &chosen);
            }
            self.action = around;
            self.choose_ways(is_it, choice, ways);
        }
        Ok(())
    }

    /// Packets that run an action go its way, where each has one.
    fn choose_ways(&mut self, is_it: Value, choice: &Choice<'_>, ways: Ways<'_>) {
        match (ways, choice.ends) {
            (Ways::ByAction(ways), false) => {
                if let Some(&way) = ways.get(choice.position) {
                    let here = self.number_of(is_it);
                    self.b.def_var(way, here);
                }
            }
            (Ways::Others(ways), true) => {
                let zero = self.number(0);
                for &way in ways {
                    let before = self.b.use_var(way);
                    let here = self.b.ins().select(is_it, zero, before);
                    self.b.def_var(way, here);
                }
            }
            _ => {}
        }
    }

    /// Whether a record tells the action at a position.
    fn is_run(
        &mut self,
        (table, record, is_hit): (TableId, Value, Value),
        position: usize,
    ) -> Value {
        let is_known = self.hits_run(table) == Some(position);
        if is_known && !self.may_miss_run(table, position) {
            return is_hit;
        }
        let head = self.head_of(table, record, is_hit);
        self.b.ins().icmp_imm(IntCC::Equal, head, position as i64)
    }
}
