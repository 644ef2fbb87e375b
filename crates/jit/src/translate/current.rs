//! Which code asks for the entry of the table that is being applied.
//!
//! Where none does, or none but to count in the table's direct counter, a table's entry need not be noted in the packet's context.

use bits::IdVec;
use ir::{ActionId, Arch, Op, Program, StageKind, Stmt, StmtKind};

/// What code asks of the current entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CurrentUse {
    /// Nothing.
    None,
    /// To count in its direct counter.
    Counts,
    /// What only the context tells.
    Any,
}

/// Operations on the current entry but counting.
const ANY: &[Op] = &[
    Op::DirectMeterExecute,
    Op::DirectMeterExecuteColored,
    Op::DirectMeterExecuteLength,
    Op::AddEntry,
    Op::SetEntryExpireTime,
    Op::RestartExpireTimer,
];

const COUNTS: &[Op] = &[Op::DirectCounterCount, Op::DirectCounterCountLength];

/// Whether an operation is about the current entry.
pub(super) fn is_about_current(program: &Program, op: Op) -> bool {
    use_of(program, op) != CurrentUse::None
}

fn use_of(program: &Program, op: Op) -> CurrentUse {
    match op {
        // v1model counts a hit when the table is applied.
        Op::DirectCounterCount if program.arch == Arch::V1model => CurrentUse::None,
        _ if COUNTS.contains(&op) => CurrentUse::Counts,
        _ if ANY.contains(&op) => CurrentUse::Any,
        _ => CurrentUse::None,
    }
}

/// What the code of a program asks of current entries.
pub(crate) struct CurrentUses {
    /// Of each action, with those that it calls.
    actions: IdVec<ActionId, Option<CurrentUse>>,
    outside: CurrentUse,
}

impl CurrentUses {
    pub(super) fn of(program: &Program) -> CurrentUses {
        let mut uses = CurrentUses {
            actions: program.actions.ids().map(|_| None).collect(),
            outside: CurrentUse::None,
        };
        for action in program.actions.ids() {
            uses.action(program, action);
        }
        // Code outside of actions finds the entry of the last table, whichever that is: nothing can be said of it.
        let stages = program.controls.values().flat_map(|c| c.stages.values());
        for stage in stages {
            if let StageKind::Action { body, .. } = &stage.kind
                && uses.code(program, body) != CurrentUse::None
            {
                uses.outside = CurrentUse::Any;
            }
        }
        uses
    }

    /// What is asked of a table's entries by these actions, or by code outside of actions.
    pub(super) fn of_actions(&self, actions: &[ActionId]) -> CurrentUse {
        let asked = actions.iter().filter_map(|&a| *self.actions.get(a)?);
        asked.chain([self.outside]).max().unwrap_or(self.outside)
    }

    /// Actions do not call each other in a circle.
    fn action(&mut self, program: &Program, id: ActionId) -> CurrentUse {
        if let Some(Some(known)) = self.actions.get(id) {
            return *known;
        }
        let action = program.actions.get(id);
        let asked = action.map_or(CurrentUse::None, |action| self.code(program, &action.body));
        if let Some(known) = self.actions.get_mut(id) {
            *known = Some(asked);
        }
        asked
    }

    fn code(&mut self, program: &Program, body: &[Stmt]) -> CurrentUse {
        let uses = body.iter().map(|stmt| match &stmt.kind {
            StmtKind::If(_, then, otherwise) => {
                let then = self.code(program, then);
                then.max(self.code(program, otherwise))
            }
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
                self.code(program, body)
            }
            StmtKind::CallAction(action, _) => self.action(program, *action),
            StmtKind::Call(call) => use_of(program, call.op),
            _ => CurrentUse::None,
        });
        uses.max().unwrap_or(CurrentUse::None)
    }
}
