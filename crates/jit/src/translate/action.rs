//! Translation of actions. An action is inlined where it is run, or translated once per function if
//! it is long and used at several positions.
//!
//! A shared action is a subroutine within the function. The caller assigns its parameters and the
//! index of the return position, all of them variables, and jumps to it. Actions are not recursive,
//! so one set of variables per action suffices. Code after an action may be reached from a shared
//! one. It must use variables, since earlier SSA values do not dominate it.

use std::collections::{HashMap, HashSet};

use bits::IdVec;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::{Switch, Variable};
use exec::Unsupported;
use exec::slots::Slot;
use ir::{ActionId, Control, Expr, Program, StageKind, Stmt, StmtKind, limbs_of};
use support::work::checkpoint;
use table::RecordField;

use super::{INLINE_LIMBS, Translator};

/// Maximum number of statements of an action that is always inlined.
const INLINE_COST: u32 = 12;

/// Location of a parameter of the current action.
#[derive(Clone, Debug)]
pub(super) enum Param {
    /// In memory, at an offset from the pointer to an entry's record or parameters.
    Entry(Variable, RecordField),
    /// In variables.
    Variables(Vec<Variable>),
    /// In slots.
    Slots(Slot),
}

/// Action that several positions of a function share.
pub(super) struct SharedAction {
    entry: Block,
    exit: Block,
    params: Vec<Param>,
    /// Index of the return position.
    back: Variable,
    places: Vec<Block>,
    is_translated: bool,
}

/// Costs of actions in statements, without called actions.
pub(crate) struct ActionCosts {
    costs: IdVec<ActionId, u32>,
    /// Actions that each calls, once per call.
    called: IdVec<ActionId, Vec<ActionId>>,
}

impl ActionCosts {
    pub(crate) fn of(program: &Program) -> ActionCosts {
        let mut costs = IdVec::default();
        let mut called = IdVec::default();
        for action in program.actions.values() {
            checkpoint();
            let mut calls = Vec::new();
            costs.push(statements(&action.body, &mut calls));
            called.push(calls);
        }
        ActionCosts { costs, called }
    }

    /// Returns true if an action, including those that it calls, is short enough to be inlined
    /// everywhere.
    pub(super) fn is_short(&self, action: ActionId) -> bool {
        let (mut cost, mut waiting) = (0u32, vec![action]);
        while let Some(action) = waiting.pop() {
            checkpoint();
            let own = self.costs.get(action).copied().unwrap_or(0);
            // Every action costs at least one, so that the loop ends for actions that only call
            // others.
            cost = cost.saturating_add(own).saturating_add(1);
            if cost > INLINE_COST + 1 {
                return false;
            }
            waiting.extend(self.called.get(action).into_iter().flatten());
        }
        true
    }
}

/// Returns the number of statements. Appends the actions that they call to `calls`.
fn statements(body: &[Stmt], calls: &mut Vec<ActionId>) -> u32 {
    let mut count = 0u32;
    for stmt in body {
        checkpoint();
        count = count.saturating_add(1);
        count = count.saturating_add(match &stmt.kind {
            StmtKind::If(_, then, otherwise) => {
                statements(then, calls).saturating_add(statements(otherwise, calls))
            }
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
                statements(body, calls)
            }
            StmtKind::CallAction(action, _) => {
                calls.push(*action);
                0
            }
            _ => 0,
        });
    }
    count
}

/// Uses of actions in a function.
#[derive(Debug, Default)]
pub(super) struct Uses {
    places: HashMap<ActionId, u32>,
    shared: HashSet<ActionId>,
}

impl Uses {
    pub(super) fn of_control(program: &Program, control: &Control, costs: &ActionCosts) -> Uses {
        let mut calls = Vec::new();
        for stage in control.stages.values() {
            checkpoint();
            match &stage.kind {
                StageKind::Action { body, .. } => {
                    statements(body, &mut calls);
                }
                StageKind::Match { table, .. } => {
                    let table = program.tables.get(*table);
                    let actions = table.map_or(&[][..], |table| &table.actions);
                    calls.extend(actions.iter().map(|action| action.action));
                }
                StageKind::Condition { .. } => {}
            }
        }
        Uses::of(&calls, costs)
    }

    fn of(calls: &[ActionId], costs: &ActionCosts) -> Uses {
        let mut uses = Uses::default();
        let mut waiting: Vec<ActionId> = calls.to_vec();
        while let Some(action) = waiting.pop() {
            checkpoint();
            let places = uses.places.entry(action).or_insert(0);
            *places += 1;
            if *places == 1 {
                waiting.extend(costs.called.get(action).into_iter().flatten());
            }
        }
        let mut known = HashMap::new();
        for &action in calls {
            checkpoint();
            uses.decide(action, costs, &mut known);
        }
        uses
    }

    /// Decides if an action is shared. Returns its cost at one position: one jump if it is shared,
    /// else all of its statements.
    fn decide(
        &mut self,
        action: ActionId,
        costs: &ActionCosts,
        known: &mut HashMap<ActionId, u32>,
    ) -> u32 {
        if let Some(&cost) = known.get(&action) {
            return cost;
        }
        let mut cost = costs.costs.get(action).copied().unwrap_or(0);
        for &called in costs.called.get(action).into_iter().flatten() {
            checkpoint();
            cost = cost.saturating_add(self.decide(called, costs, known));
        }
        if cost > INLINE_COST && self.places.get(&action).is_some_and(|&places| places > 1) {
            self.shared.insert(action);
            cost = 1;
        }
        known.insert(action, cost);
        cost
    }
}

impl Translator<'_> {
    /// Returns the value of a narrow parameter.
    pub(super) fn param(&mut self, index: u32) -> Result<Vec<Value>, Unsupported> {
        let param = self.param_home(index);
        let param = param.ok_or_else(|| self.unsupported("a parameter outside of an action"))?;
        Ok(self.param_value(&param))
    }

    fn param_value(&mut self, param: &Param) -> Vec<Value> {
        match param {
            Param::Entry(entry, field) => {
                let entry = self.b.use_var(*entry);
                self.load_field(entry, *field)
            }
            Param::Variables(variables) => variables.iter().map(|&v| self.b.use_var(v)).collect(),
            Param::Slots(slot) => self.load_slots(*slot, 1),
        }
    }

    fn param_home(&self, index: u32) -> Option<Param> {
        let (_, params) = self.action.as_ref()?;
        params.get(index as usize).cloned()
    }

    /// Returns the slots of a parameter that is stored in slots.
    pub(super) fn param_slot(&self, index: u32) -> Option<Slot> {
        match self.param_home(index)? {
            Param::Slots(slot) => Some(slot),
            _ => None,
        }
    }

    /// Copies a wide parameter into slots.
    pub(super) fn param_into(&mut self, index: u32, d: Slot) -> Result<(), Unsupported> {
        let ty = self.ty(&Expr::Param(index))?;
        let slot = self.param_slot(index);
        let slot = slot.ok_or_else(|| self.unsupported("a parameter outside of an action"))?;
        self.copy(d, slot, limbs_of(ty));
        Ok(())
    }

    /// Runs the action of an entry. `fields` are the offsets of its parameters from the pointer
    /// `entry`.
    pub(super) fn run_entry_action(
        &mut self,
        action: ActionId,
        entry: Value,
        fields: &[RecordField],
    ) -> Result<(), Unsupported> {
        let pointer = self.entry_pointer_to(entry);
        let params = self.entry_params(action, pointer, fields);
        self.run_action(action, params)
    }

    /// Assigns the variable with the address of the current entry's parameters. Entries' actions do
    /// not nest, so one variable suffices for all.
    pub(super) fn entry_pointer_to(&mut self, entry: Value) -> Variable {
        let pointer = match self.entry_pointer {
            Some(pointer) => pointer,
            None => self.declare(),
        };
        self.entry_pointer = Some(pointer);
        self.b.def_var(pointer, entry);
        pointer
    }

    /// Runs an action with these arguments.
    pub(super) fn call_action(
        &mut self,
        action: ActionId,
        args: &[Expr],
    ) -> Result<(), Unsupported> {
        let mut params = Vec::with_capacity(args.len());
        for (i, arg) in args.iter().enumerate() {
            checkpoint();
            params.push(match self.wide_param(action, i) {
                Some(slot) => {
                    self.compute(arg, slot)?;
                    Param::Slots(slot)
                }
                None => {
                    let value = self.value(arg)?;
                    Param::Variables(value.into_iter().map(|v| self.variable(v)).collect())
                }
            });
        }
        self.run_action(action, params)
    }

    /// Declares a new variable.
    pub(super) fn declare(&mut self) -> Variable {
        self.variables += 1;
        self.b.declare_var(I64)
    }

    /// Declares a new variable and assigns this value.
    pub(super) fn variable(&mut self, value: Value) -> Variable {
        let variable = self.declare();
        self.b.def_var(variable, value);
        variable
    }

    pub(super) fn wide_param(&self, action: ActionId, index: usize) -> Option<Slot> {
        self.wide_params.get(action)?.get(index).copied().flatten()
    }

    pub(super) fn run_action(
        &mut self,
        action: ActionId,
        params: Vec<Param>,
    ) -> Result<(), Unsupported> {
        if self.uses.shared.contains(&action) {
            return self.run_shared(action, params);
        }
        self.action_body(action, params)
    }

    /// Translates the action's body at the current position. Labels are local to it.
    fn action_body(&mut self, action: ActionId, params: Vec<Param>) -> Result<(), Unsupported> {
        let Some(declared) = self.program.actions.get(action) else {
            return Ok(());
        };
        let around = self.action.replace((action, params));
        let enclosing = std::mem::take(&mut self.enclosing);
        self.spend(self.budget.action(action));
        let translated = self.body(&declared.body);
        self.enclosing = enclosing;
        self.action = around;
        translated
    }

    /// Returns true if this action is shared or runs a shared one.
    pub(super) fn runs_shared(&self, action: ActionId, uses: &Uses) -> bool {
        let mut seen = HashSet::from([action]);
        let mut waiting = vec![action];
        while let Some(action) = waiting.pop() {
            checkpoint();
            if uses.shared.contains(&action) {
                return true;
            }
            let called = self.costs.called.get(action).into_iter().flatten();
            waiting.extend(called.copied().filter(|&called| seen.insert(called)));
        }
        false
    }

    fn run_shared(&mut self, action: ActionId, params: Vec<Param>) -> Result<(), Unsupported> {
        self.declare_shared(action);
        let values: Vec<Vec<Value>> = params.iter().map(|p| self.param_value(p)).collect();
        let place = self.b.create_block();
        let Some(shared) = self.shared_actions.get_mut(&action) else {
            return Ok(());
        };
        let number = shared.places.len() as i64;
        shared.places.push(place);
        for (param, values) in shared.params.iter().zip(values) {
            checkpoint();
            if let Param::Variables(variables) = param {
                for (&variable, value) in variables.iter().zip(values) {
                    checkpoint();
                    self.b.def_var(variable, value);
                }
            }
        }
        let (entry, back) = (shared.entry, shared.back);
        let number = self.b.ins().iconst(I64, number);
        self.b.def_var(back, number);
        self.jump(entry);
        self.start(place);
        Ok(())
    }

    fn declare_shared(&mut self, action: ActionId) {
        if self.shared_actions.contains_key(&action) {
            return;
        }
        let declared = self.program.actions.get(action);
        let declared = declared.map_or(&[][..], |action| &action.params);
        let params = declared.iter().enumerate().map(|(i, param)| {
            let limbs = limbs_of(param.ty).min(INLINE_LIMBS);
            match self.wide_param(action, i) {
                Some(slot) => Param::Slots(slot),
                None => Param::Variables((0..limbs).map(|_| self.declare()).collect()),
            }
        });
        let params = params.collect();
        let shared = SharedAction {
            entry: self.b.create_block(),
            exit: self.b.create_block(),
            params,
            back: self.declare(),
            places: Vec::new(),
            is_translated: false,
        };
        self.shared_actions.insert(action, shared);
    }

    /// Translates the shared actions, including those that they use.
    pub(super) fn shared_bodies(&mut self) -> Result<(), Unsupported> {
        while let Some((&action, shared)) = self
            .shared_actions
            .iter_mut()
            .filter(|(_, shared)| !shared.is_translated)
            .min_by_key(|(action, _)| action.get())
        {
            shared.is_translated = true;
            let (entry, exit, params) = (shared.entry, shared.exit, shared.params.clone());
            self.check_size()?;
            self.start(entry);
            self.action_body(action, params)?;
            self.jump(exit);
        }
        let mut all: Vec<_> = std::mem::take(&mut self.shared_actions)
            .into_iter()
            .collect();
        all.sort_by_key(|(action, _)| action.get());
        for (_, shared) in all {
            checkpoint();
            self.start(shared.exit);
            let back = self.b.use_var(shared.back);
            let mut switch = Switch::new();
            for (number, &place) in shared.places.iter().enumerate().skip(1) {
                checkpoint();
                switch.set_entry(number as u128, place);
            }
            match shared.places.first() {
                Some(&first) => switch.emit(&mut self.b, back, first),
                None => {
                    self.b.ins().jump(self.end, &[]);
                }
            }
            self.is_live = false;
        }
        Ok(())
    }
}
