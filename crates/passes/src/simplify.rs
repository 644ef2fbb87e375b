//! Simplification of a whole program: constant branches, empty and unreachable stages, unreachable
//! states.

use std::collections::HashMap;

use bits::{Id, IdSet, IdVec};
use ir::{
    Control, MatchNext, Next, Parser, Program, SelectCase, Stage, StageId, StageKind, State,
    StateId, Stmt, StmtKind, Target, Transition,
};

use support::work::checkpoint;

use crate::fold;

/// Simplifies a program in place.
pub fn simplify(program: &mut Program) {
    for (_, action) in program.actions.iter_mut() {
        body(&mut action.body);
    }
    for (_, parser) in program.parsers.iter_mut() {
        simplify_parser(parser);
    }
    for (_, control) in program.controls.iter_mut() {
        simplify_control(control);
    }
}

/// Returns true if control can reach the end of a statement.
fn falls_through(stmt: &Stmt) -> bool {
    !matches!(
        stmt.kind,
        StmtKind::Leave(_) | StmtKind::Continue(_) | StmtKind::Exit | StmtKind::Fail(_)
    )
}

fn body(stmts: &mut Vec<Stmt>) {
    let old = std::mem::take(stmts);
    for mut stmt in old {
        checkpoint();
        if stmts.last().is_some_and(|last| !falls_through(last)) {
            break;
        }
        match &mut stmt.kind {
            StmtKind::If(cond, then, otherwise) => {
                body(then);
                body(otherwise);
                match fold::as_bool(cond) {
                    Some(true) => stmts.append(then),
                    Some(false) => stmts.append(otherwise),
                    None if then.is_empty() && otherwise.is_empty() => {}
                    None if then.is_empty() => {
                        let cond = fold::not(cond.clone());
                        let otherwise = std::mem::take(otherwise);
                        stmts.push(Stmt {
                            kind: StmtKind::If(cond, otherwise, Vec::new()),
                            loc: stmt.loc,
                        });
                    }
                    None => stmts.push(stmt),
                }
            }
            StmtKind::Block(label, inner) => {
                let label = *label;
                body(inner);
                // A leave at the end of its own block is a no-op.
                while inner
                    .last()
                    .is_some_and(|last| last.kind == StmtKind::Leave(label))
                {
                    inner.pop();
                }
                if mentions(inner, label) {
                    stmts.push(stmt);
                } else {
                    stmts.append(inner);
                }
            }
            StmtKind::Loop(_, inner) => {
                body(inner);
                stmts.push(stmt);
            }
            StmtKind::Atomic(inner) => {
                body(inner);
                if !inner.is_empty() {
                    stmts.push(stmt);
                }
            }
            StmtKind::Verify(cond, _) if fold::as_bool(cond) == Some(true) => {}
            _ => stmts.push(stmt),
        }
    }
    if let Some(end) = stmts.iter().position(|stmt| !falls_through(stmt)) {
        stmts.truncate(end + 1);
    }
}

fn mentions(stmts: &[Stmt], label: ir::LabelId) -> bool {
    stmts.iter().any(|stmt| {
        checkpoint();
        match &stmt.kind {
            StmtKind::Leave(other) | StmtKind::Continue(other) => *other == label,
            StmtKind::If(_, then, otherwise) => mentions(then, label) || mentions(otherwise, label),
            StmtKind::Block(_, inner) | StmtKind::Loop(_, inner) | StmtKind::Atomic(inner) => {
                mentions(inner, label)
            }
            _ => false,
        }
    })
}

fn simplify_parser(parser: &mut Parser) {
    for (_, state) in parser.states.iter_mut() {
        checkpoint();
        body(&mut state.body);
        if state
            .body
            .last()
            .is_some_and(|last| matches!(last.kind, StmtKind::Fail(_)))
        {
            state.transition = Transition::Direct(Target::Reject);
        }
        if let Transition::Select { cases, .. } = &mut state.transition {
            simplify_select(cases);
        }
    }
    let mut reached = IdSet::default();
    let mut work = vec![parser.start];
    while let Some(id) = work.pop() {
        checkpoint();
        if reached.insert(id) {
            work.extend(successors(&parser.states[id]));
        }
    }
    let mut renamed = HashMap::new();
    let old = std::mem::take(&mut parser.states);
    for (id, state) in old.ids().zip(old.into_vec()) {
        checkpoint();
        if reached.contains(id) {
            renamed.insert(id, parser.states.push(state));
        }
    }
    let rename = |target: &mut Target| {
        if let Target::State(id) = target {
            *id = renamed[id];
        }
    };
    for (_, state) in parser.states.iter_mut() {
        checkpoint();
        match &mut state.transition {
            Transition::Direct(target) => rename(target),
            Transition::Select { cases, .. } => {
                cases.iter_mut().for_each(|case| rename(&mut case.target))
            }
        }
    }
    parser.start = renamed[&parser.start];
}

/// Drops the cases after one that matches everything.
fn simplify_select(cases: &mut Vec<SelectCase>) {
    let all = |case: &SelectCase| match &case.keyset {
        ir::Keyset::Sets(sets) => {
            checkpoint();
            sets.iter().all(|set| matches!(set, ir::KeySet::Any))
        }
        ir::Keyset::ValueSet(_) => false,
    };
    if let Some(last) = cases.iter().position(all) {
        cases.truncate(last + 1);
    }
}

fn successors(state: &State) -> Vec<StateId> {
    let of = |target: &Target| match target {
        Target::State(id) => Some(*id),
        Target::Accept | Target::Reject => None,
    };
    match &state.transition {
        Transition::Direct(target) => of(target).into_iter().collect(),
        Transition::Select { cases, .. } => {
            cases.iter().filter_map(|case| of(&case.target)).collect()
        }
    }
}

fn simplify_control(control: &mut Control) {
    for (_, stage) in control.stages.iter_mut() {
        checkpoint();
        if let StageKind::Action { body: code, .. } = &mut stage.kind {
            body(code);
        }
    }
    thread(&mut control.stages);
    merge(&mut control.stages);
    sweep(control);
}

/// Returns the links of a stage.
pub(crate) fn links(kind: &mut StageKind) -> Vec<&mut Next> {
    match kind {
        StageKind::Condition {
            then, otherwise, ..
        } => vec![then, otherwise],
        StageKind::Action { next, .. } => vec![next],
        StageKind::Match { next, .. } => match next {
            MatchNext::Always(next) => vec![next],
            MatchNext::ByHit { hit, miss } => vec![hit, miss],
            MatchNext::ByAction(all) => all.iter_mut().collect(),
        },
    }
}

/// Returns the successor of a stage that does nothing.
fn passes_on(stage: &Stage) -> Option<Next> {
    match &stage.kind {
        StageKind::Action { body, next } if body.is_empty() => Some(*next),
        StageKind::Condition {
            cond,
            then,
            otherwise,
        } => match fold::as_bool(cond) {
            Some(true) => Some(*then),
            Some(false) => Some(*otherwise),
            None if then == otherwise => Some(*then),
            None => None,
        },
        _ => None,
    }
}

/// Redirects links that lead to stages which do nothing.
fn thread(stages: &mut IdVec<StageId, Stage>) {
    let skip: IdVec<StageId, Option<Next>> = stages.values().map(passes_on).collect();
    let end_of = |mut next: Next| {
        for _ in 0..skip.len() {
            checkpoint();
            let Next::Stage(id) = next else { break };
            let Some(other) = skip[id] else { break };
            next = other;
        }
        next
    };
    for (_, stage) in stages.iter_mut() {
        checkpoint();
        for link in links(&mut stage.kind) {
            *link = end_of(*link);
        }
        if let StageKind::Match { next, .. } = &mut stage.kind {
            let same = match next {
                MatchNext::Always(_) => None,
                MatchNext::ByHit { hit, miss } => (hit == miss).then_some(*hit),
                MatchNext::ByAction(all) => all
                    .first()
                    .filter(|first| all.iter().all(|link| link == *first))
                    .copied(),
            };
            if let Some(same) = same {
                *next = MatchNext::Always(same);
            }
        }
        if let StageKind::Action { body, next } = &mut stage.kind
            && body.last().is_some_and(|last| last.kind == StmtKind::Exit)
        {
            *next = Next::End;
            body.pop();
        }
    }
    // The control starts at its first stage. An empty first stage is replaced by its successor.
    let Some(first) = stages.ids().next() else {
        return;
    };
    if let Some(next) = skip[first] {
        let target = end_of(next);
        stages[first].kind = StageKind::Action {
            body: Vec::new(),
            next: target,
        };
    }
}

/// Merges an action stage into its only predecessor, if that is an action stage as well. The call
/// of a remote handler stays a stage of its own.
fn merge(stages: &mut IdVec<StageId, Stage>) {
    let mut into: IdVec<StageId, usize> = stages.values().map(|_| 0).collect();
    for (_, stage) in stages.iter_mut() {
        checkpoint();
        for link in links(&mut stage.kind) {
            if let Next::Stage(id) = link {
                into[*id] += 1;
            }
        }
    }
    let ids: Vec<StageId> = stages.ids().collect();
    let is_remote: IdVec<StageId, bool> = stages
        .values()
        .map(|stage| stage.kind.remote_call().is_some())
        .collect();
    for id in ids.into_iter().rev() {
        checkpoint();
        let StageKind::Action {
            next: Next::Stage(next),
            ..
        } = stages[id].kind
        else {
            continue;
        };
        if into[next] != 1 || next.index() == 0 || next == id || is_remote[id] || is_remote[next] {
            continue;
        }
        let StageKind::Action {
            body: tail,
            next: after,
        } = &mut stages[next].kind
        else {
            continue;
        };
        let (tail, after) = (std::mem::take(tail), *after);
        if let StageKind::Action { body, next } = &mut stages[id].kind {
            // An exit inside must not run the code of the next stage. It leaves the control in both
            // forms.
            body.extend(tail);
            *next = after;
        }
        into[next] = 0;
    }
}

/// Removes unreachable stages, and a first stage that does nothing.
fn sweep(control: &mut Control) {
    let Some(first) = control.stages.ids().next() else {
        return;
    };
    let start = match &control.stages[first].kind {
        StageKind::Action { body, next } if body.is_empty() => *next,
        _ => Next::Stage(first),
    };
    let mut reached = IdSet::default();
    let mut work = vec![start];
    while let Some(next) = work.pop() {
        checkpoint();
        if let Next::Stage(id) = next
            && reached.insert(id)
        {
            work.extend(
                links(&mut control.stages[id].kind)
                    .into_iter()
                    .map(|link| *link),
            );
        }
    }
    // A back edge to a stage before the start would make another stage the first.
    if let Next::Stage(start) = start
        && reached.iter().any(|id: StageId| id < start)
    {
        reached.insert(first);
    }
    let mut renamed = HashMap::new();
    let old = std::mem::take(&mut control.stages);
    for (id, stage) in old.ids().zip(old.into_vec()) {
        checkpoint();
        if reached.contains(id) {
            renamed.insert(id, control.stages.push(stage));
        }
    }
    for (_, stage) in control.stages.iter_mut() {
        checkpoint();
        for link in links(&mut stage.kind) {
            if let Next::Stage(id) = link {
                *id = renamed[id];
            }
        }
    }
}
