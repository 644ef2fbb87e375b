//! If-conversion: assignments of actions become selects instead of branches. The action of an entry
//! is not predictable, and a prefetch pass needs few assignments of each.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;
use exec::Unsupported;
use ir::{ActionId, Expr, Place, Stmt, StmtKind, TableId, limbs_of};
use support::work::checkpoint;

use super::Translator;
use super::lookup_schedule::{assigns, exits};
use super::prefetch_pass::TablePrefetch;

/// Maximum number of actions of a table that are converted, and maximum number of limbs that they
/// assign together.
const MAX_CHOICES: usize = 3;
const MAX_LIMBS: u32 = 6;

/// Assignments in order.
type Assigned<'p> = Vec<(&'p Place, &'p Expr)>;

/// Action of which only the assignments are executed.
pub(super) struct SelectedAction<'p> {
    /// Position in the table.
    position: usize,
    action: ActionId,
    assigned: Assigned<'p>,
    /// True if it ends its control.
    ends: bool,
}

/// Flags of the successors of a stage, 1 for those that the packet takes.
#[derive(Clone, Copy)]
pub(super) enum Ways<'w> {
    /// One flag per action, all 0 so far.
    ByAction(&'w [Variable]),
    Others(&'w [Variable]),
}

impl<'t> Translator<'t> {
    /// Returns the actions for if-conversion, if each has only a few assignments and the choice
    /// between them is unpredictable. If all entries run one action with parameters, a branch is
    /// better. Most packets hit, so prediction works, and only parameters have to wait for the
    /// record.
    pub(super) fn choices(
        &mut self,
        table: TableId,
        actions: &[(usize, ActionId)],
        plan: &TablePrefetch<'_>,
    ) -> Option<Vec<SelectedAction<'t>>> {
        let mut choices = Vec::with_capacity(actions.len());
        let mut limbs = 0;
        for &(position, action) in actions {
            checkpoint();
            let declared = self.program.actions.get(action)?;
            let mut params = 0..declared.params.len();
            if self.hits_run(table).is_some() && !params.is_empty() {
                return None;
            }
            // The types of parameters depend on the current action.
            let around = self.action.replace((action, Vec::new()));
            let assigned = self.assigned(&declared.body, plan);
            self.action = around;
            let (assigned, ends) = assigned?;
            for (to, _) in &assigned {
                checkpoint();
                limbs += to.ty(self.program).map_or(u32::MAX, limbs_of);
            }
            let is_wide = |param| self.wide_param(action, param).is_some();
            if params.any(is_wide) || limbs > MAX_LIMBS {
                return None;
            }
            choices.push(SelectedAction {
                position,
                action,
                assigned,
                ends,
            });
        }
        (choices.len() <= MAX_CHOICES).then_some(choices)
    }

    /// Returns the assignments of an action on which later keys depend, and true if it ends its
    /// control. Returns none if it does anything else that matters.
    fn assigned(&self, body: &'t [Stmt], plan: &TablePrefetch<'_>) -> Option<(Assigned<'t>, bool)> {
        let mut assigned = Vec::new();
        for stmt in body {
            checkpoint();
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

    /// Performs the assignments of the action that a record selects. If the action ends its
    /// control, the packet takes no successor.
    pub(super) fn choose(
        &mut self,
        (table, record, is_hit): (TableId, Value, Value),
        choices: &[SelectedAction<'_>],
        ways: Ways<'_>,
    ) -> Result<(), Unsupported> {
        for choice in choices {
            checkpoint();
            let is_it = self.is_run((table, record, is_hit), choice.position);
            let fields = self.fields_in_record(table, choice.position);
            // Records of other actions have the same length, so the load is valid for any action.
            let pointer = self.variable(record);
            let params = self.entry_params(choice.action, pointer, &fields);
            let around = self.action.replace((choice.action, params));
            for (to, value) in &choice.assigned {
                checkpoint();
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

    /// Updates the successor flags for packets that run an action.
    fn choose_ways(&mut self, is_it: Value, choice: &SelectedAction<'_>, ways: Ways<'_>) {
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
                    checkpoint();
                    let before = self.b.use_var(way);
                    let here = self.b.ins().select(is_it, zero, before);
                    self.b.def_var(way, here);
                }
            }
            _ => {}
        }
    }

    /// Returns true if a record selects the action at a position.
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
