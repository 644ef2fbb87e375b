//! Analysis of the code that uses the current entry of an applied table.
//!
//! If no code uses it, or only counts in the direct counter, the entry need not be recorded in the
//! packet's context.

use bits::IdVec;
use ir::{ActionId, Arch, Op, Program, StageKind, Stmt, StmtKind};
use support::work::checkpoint;

/// Use of the current entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CurrentUse {
    /// No use.
    None,
    /// Counting in its direct counter.
    Counts,
    /// Any use that needs the context.
    Any,
}

/// Operations on the current entry other than counting.
const ANY: &[Op] = &[
    Op::DirectMeterExecute,
    Op::DirectMeterExecuteColored,
    Op::DirectMeterExecuteLength,
    Op::AddEntry,
    Op::SetEntryExpireTime,
    Op::RestartExpireTimer,
];

const COUNTS: &[Op] = &[Op::DirectCounterCount, Op::DirectCounterCountLength];

/// Returns true if an operation uses the current entry.
pub(super) fn is_about_current(program: &Program, op: Op) -> bool {
    use_of(program, op) != CurrentUse::None
}

fn use_of(program: &Program, op: Op) -> CurrentUse {
    match op {
        // In v1model, a hit is counted when the table is applied.
        Op::DirectCounterCount if program.arch == Arch::V1model => CurrentUse::None,
        _ if COUNTS.contains(&op) => CurrentUse::Counts,
        _ if ANY.contains(&op) => CurrentUse::Any,
        _ => CurrentUse::None,
    }
}

/// Uses of current entries in a program.
pub(crate) struct CurrentUses {
    /// Uses by each action, including the actions that it calls.
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
            checkpoint();
            uses.action(program, action);
        }
        // Code outside of actions uses the entry of the last applied table, whichever that is. So
        // any use must be assumed for all tables.
        let stages = program.controls.values().flat_map(|c| c.stages.values());
        for stage in stages {
            checkpoint();
            if let StageKind::Action { body, .. } = &stage.kind
                && uses.code(program, body) != CurrentUse::None
            {
                uses.outside = CurrentUse::Any;
            }
        }
        uses
    }

    /// Returns the use of a table's entries by these actions and by code outside of actions.
    pub(super) fn of_actions(&self, actions: &[ActionId]) -> CurrentUse {
        let asked = actions.iter().filter_map(|&a| *self.actions.get(a)?);
        asked.chain([self.outside]).max().unwrap_or(self.outside)
    }

    /// Computes the use by an action. Actions are not recursive.
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
