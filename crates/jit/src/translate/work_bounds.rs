//! Upper bounds on the work of a fast path.

use std::cell::RefCell;
use std::collections::HashMap;

use exec::{FastPath, FastPathStep, WorkBudget};
use ir::work::Work;
use ir::{
    ActionId, Control, MatchNext, Next, Op, Parser, Program, Stage, StageId, StageKind, StateId,
    Stmt, StmtKind, Target, Transition,
};
use support::work::checkpoint;

/// Returns true if no path can use up any work budget: there are no loops, and the total is at most
/// the minimum budget. Then the remaining work need not be compared.
pub(super) fn has_work(program: &Program, budget: &Work<'_>, pass: &FastPath) -> bool {
    let bounds = Bounds {
        program,
        budget,
        actions: RefCell::default(),
    };
    let mut sum = 0u64;
    for step in &pass.steps {
        checkpoint();
        let most = match step {
            FastPathStep::Parse { parser, .. } => program
                .parsers
                .get(*parser)
                .map(|parser| bounds.parser(parser)),
            FastPathStep::Control(control) | FastPathStep::Deparse(control) => program
                .controls
                .get(*control)
                .map(|control| bounds.control(control)),
            _ => None,
        };
        match most {
            None => {}
            Some(Some(most)) => sum = sum.saturating_add(most),
            Some(None) => return false,
        }
    }
    sum <= u64::from(WorkBudget::MIN.units())
}

struct Bounds<'b> {
    program: &'b Program,
    budget: &'b Work<'b>,
    /// Bounds of actions that are already computed.
    actions: RefCell<HashMap<ActionId, Option<u64>>>,
}

/// Returns the sum of bounds, or none if one is unbounded.
fn sum(mut all: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    all.try_fold(0u64, |sum, more| Some(sum.saturating_add(more?)))
}

impl Bounds<'_> {
    /// Returns the bound of a parser, counting each state once.
    fn parser(&self, parser: &Parser) -> Option<u64> {
        if goes_round(parser) {
            return None;
        }
        sum(parser.states.values().map(|state| {
            Some(u64::from(self.budget.state(state)).saturating_add(self.body(&state.body)?))
        }))
    }

    fn control(&self, control: &Control) -> Option<u64> {
        sum(control
            .stages
            .iter()
            .map(|(id, stage)| self.stage(id, stage)))
    }

    fn stage(&self, id: StageId, stage: &Stage) -> Option<u64> {
        if nexts(stage).any(|next| matches!(next, Next::Stage(to) if to <= id)) {
            return None;
        }
        let own = u64::from(self.budget.stage(stage));
        let code = match &stage.kind {
            StageKind::Condition { .. } => Some(0),
            StageKind::Action { body, .. } => self.body(body),
            StageKind::Match { table, .. } => {
                let table = self.program.tables.get(*table);
                let actions = table.into_iter().flat_map(|table| &table.actions);
                sum(actions.map(|action| self.action(action.action)))
            }
        };
        Some(own.saturating_add(code?))
    }

    /// Returns the bound of an action. The verifier has rejected recursive actions.
    fn action(&self, id: ActionId) -> Option<u64> {
        if let Some(&known) = self.actions.borrow().get(&id) {
            return known;
        }
        let action = self.program.actions.get(id);
        let body = action.map_or(Some(0), |action| self.body(&action.body));
        let own = u64::from(self.budget.action(id));
        let most = body.map(|body| own.saturating_add(body));
        self.actions.borrow_mut().insert(id, most);
        most
    }

    /// Returns the bound of the actions that a body calls. The body itself is charged with its
    /// stage, state or action.
    fn body(&self, body: &[Stmt]) -> Option<u64> {
        sum(body.iter().map(|stmt| match &stmt.kind {
            StmtKind::Loop(..) => None,
            StmtKind::If(_, then, otherwise) => {
                Some(self.body(then)?.saturating_add(self.body(otherwise)?))
            }
            StmtKind::Block(_, body) | StmtKind::Atomic(body) => self.body(body),
            StmtKind::CallAction(action, _) => self.action(*action),
            StmtKind::Call(call) => (!takes_work(call.op)).then_some(0),
            _ => Some(0),
        }))
    }
}

/// Returns true if the work of an operation is known only at run time.
fn takes_work(op: Op) -> bool {
    matches!(
        op,
        Op::VerifyChecksumWithPayload | Op::UpdateChecksumWithPayload | Op::ChecksumGet
    )
}

/// Returns the possible successors of a stage.
pub(super) fn nexts(stage: &Stage) -> impl Iterator<Item = Next> {
    let nexts = match &stage.kind {
        StageKind::Condition {
            then, otherwise, ..
        } => vec![*then, *otherwise],
        StageKind::Action { next, .. } => vec![*next],
        StageKind::Match { next, .. } => match next {
            MatchNext::Always(next) => vec![*next],
            MatchNext::ByHit { hit, miss } => vec![*hit, *miss],
            MatchNext::ByAction(nexts) => nexts.clone(),
        },
    };
    nexts.into_iter()
}

/// Returns the possible successors of a parser state.
pub(super) fn targets(transition: &Transition) -> Vec<Target> {
    match transition {
        Transition::Direct(target) => vec![*target],
        Transition::Select { cases, .. } => cases.iter().map(|case| case.target).collect(),
    }
}

/// Returns true if a parser's state graph has a cycle (Kahn's topological sort).
fn goes_round(parser: &Parser) -> bool {
    let mut led_to = vec![0u32; parser.states.len()];
    let next = |id: StateId| {
        let state = parser.states.get(id);
        let targets = state.map_or(Vec::new(), |state| targets(&state.transition));
        targets.into_iter().filter_map(|target| match target {
            Target::State(to) => Some(to),
            _ => None,
        })
    };
    for to in parser.states.ids().flat_map(next) {
        checkpoint();
        if let Some(count) = led_to.get_mut(to.get() as usize) {
            *count += 1;
        }
    }
    let is_free = |id: &StateId| led_to.get(id.get() as usize) == Some(&0);
    let mut free: Vec<StateId> = parser.states.ids().filter(is_free).collect();
    let mut taken = 0;
    while let Some(id) = free.pop() {
        checkpoint();
        taken += 1;
        for to in next(id) {
            checkpoint();
            if let Some(count) = led_to.get_mut(to.get() as usize) {
                *count -= 1;
                if *count == 0 {
                    free.push(to);
                }
            }
        }
    }
    taken < parser.states.len()
}
