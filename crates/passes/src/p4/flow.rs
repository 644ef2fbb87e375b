//! Control flow: a line of stages as structured code, the inverse of [`crate::sequence`].
//!
//! A stage with several predecessors ends a block, which its dominator opens; links to it leave
//! the block. A stage with a backward link to it is the start of a loop.

use std::collections::{BTreeSet, HashMap};

use bits::{Id, IdVec};
use ir::{
    Control, Expr, FieldId, LabelId, Loc, MatchNext, MatchOutcome, Next, Op, StageId, StageKind,
    Stmt, StmtKind, TableId,
};
use support::work::checkpoint;

use super::storage::advances;
/// Label of a block or loop of structured code.
pub(super) type Label = u32;

/// The label of a whole body. Leaving it ends the body.
pub(super) const END: Label = u32::MAX;

/// Structured code.
#[derive(Clone, Debug)]
pub(super) enum Code<'a> {
    /// A statement without a body.
    Stmt(&'a Stmt),
    /// Extraction into the next element of a stack, which increments the index.
    ExtractNext(&'a Stmt),
    /// The calls of a running checksum, as one: clear, add, read.
    Checksum(&'a Stmt, &'a Stmt),
    If(Test<'a>, Option<Loc>, Vec<Code<'a>>, Vec<Code<'a>>),
    Block(Label, Vec<Code<'a>>),
    Loop(Label, Vec<Code<'a>>),
    Leave(Label),
    Continue(Label),
    Atomic(Vec<Code<'a>>),
    /// A table, with code after each of its actions.
    Apply(Apply<'a>),
}

/// A condition.
#[derive(Clone, Copy, Debug)]
pub(super) enum Test<'a> {
    Expr(&'a Expr),
    /// The lookup of a table hits.
    Hit(TableId, Option<FieldId>),
}

/// The application of a table.
#[derive(Clone, Debug)]
pub(super) struct Apply<'a> {
    pub(super) table: TableId,
    pub(super) outcome: MatchOutcome,
    pub(super) loc: Option<Loc>,
    /// Code for sets of actions, by their positions in the table.
    pub(super) arms: Vec<(Vec<usize>, Vec<Code<'a>>)>,
}

/// Makes new labels for those of the IR, which are unique within one body only.
#[derive(Default)]
pub(super) struct Labels {
    next: Label,
    known: HashMap<LabelId, Label>,
}

impl Labels {
    fn starting_at(next: Label) -> Labels {
        Labels {
            next,
            known: HashMap::new(),
        }
    }

    fn of(&mut self, id: LabelId) -> Label {
        let next = &mut self.next;
        *self.known.entry(id).or_insert_with(|| {
            *next += 1;
            *next - 1
        })
    }
}

/// Returns the code of an action or a parser state.
pub(super) fn of_body(body: &[Stmt]) -> Vec<Code<'_>> {
    codes(body, &mut Labels::default())
}

fn codes<'a>(body: &'a [Stmt], labels: &mut Labels) -> Vec<Code<'a>> {
    let mut made = Vec::new();
    let mut at = 0;
    while let Some(stmt) = body.get(at) {
        at += 1;
        if body.get(at).is_some_and(|next| advances(stmt, next)) {
            at += 1;
            made.push(Code::ExtractNext(stmt));
            continue;
        }
        if let (true, Some(add), Some(get)) = (
            calls(stmt, Op::InternetChecksumClear),
            body.get(at)
                .filter(|add| calls(add, Op::InternetChecksumAdd)),
            body.get(at + 1)
                .filter(|get| calls(get, Op::InternetChecksumGet)),
        ) {
            at += 2;
            made.push(Code::Checksum(add, get));
            continue;
        }
        made.push(match &stmt.kind {
            StmtKind::If(cond, then, otherwise) => Code::If(
                Test::Expr(cond),
                stmt.loc,
                codes(then, labels),
                codes(otherwise, labels),
            ),
            StmtKind::Block(label, body) => {
                let label = labels.of(*label);
                Code::Block(label, codes(body, labels))
            }
            StmtKind::Loop(label, body) => {
                let label = labels.of(*label);
                Code::Loop(label, codes(body, labels))
            }
            StmtKind::Leave(label) => Code::Leave(labels.of(*label)),
            StmtKind::Continue(label) => Code::Continue(labels.of(*label)),
            StmtKind::Atomic(body) => Code::Atomic(codes(body, labels)),
            _ => Code::Stmt(stmt),
        });
    }
    made
}

fn calls(stmt: &Stmt, op: Op) -> bool {
    matches!(&stmt.kind, StmtKind::Call(call) if call.op == op)
}

/// Returns the code of a control.
pub(super) fn of_control(control: &Control) -> Vec<Code<'_>> {
    if control.stages.is_empty() {
        return Vec::new();
    }
    let mut tree = Tree::new(control);
    let mut code = Vec::new();
    tree.from(StageId::new(0), &mut code);
    code
}

/// Stages that have a block or loop of their own, by their dominators.
struct Tree<'a> {
    control: &'a Control,
    /// Stages that a backward link leads to.
    heads: BTreeSet<StageId>,
    /// Stages that links reach by leaving a block.
    merges: BTreeSet<StageId>,
    /// For each stage the merges inside its loop, if it starts one, and those after it.
    inside: IdVec<StageId, Vec<StageId>>,
    behind: IdVec<StageId, Vec<StageId>>,
    labels: Labels,
}

impl<'a> Tree<'a> {
    fn new(control: &'a Control) -> Tree<'a> {
        let count = control.stages.len();
        let mut before: IdVec<StageId, Vec<StageId>> = (0..count).map(|_| Vec::new()).collect();
        let mut heads = BTreeSet::new();
        let mut latches: Vec<(StageId, StageId)> = Vec::new();
        let mut idom: IdVec<StageId, Option<StageId>> = (0..count).map(|_| None).collect();
        let mut is_reached: IdVec<StageId, bool> = (0..count).map(|at| at == 0).collect();
        for (id, stage) in control.stages.iter() {
            if !is_reached[id] {
                continue;
            }
            for next in next_stages(&stage.kind) {
                if next <= id {
                    heads.insert(next);
                    latches.push((id, next));
                } else {
                    is_reached[next] = true;
                    before[next].push(id);
                }
            }
        }
        for id in control.stages.ids().skip(1) {
            let mut common: Option<StageId> = None;
            for &pred in &before[id] {
                common = Some(match common {
                    None => pred,
                    Some(other) => meet(&idom, pred, other),
                });
            }
            idom[id] = common;
        }
        let loops: Vec<(StageId, BTreeSet<StageId>)> = heads
            .iter()
            .map(|&head| {
                let ends = latches.iter().filter(|(_, to)| *to == head);
                (head, body_of(&before, head, ends.map(|(from, _)| *from)))
            })
            .collect();
        let mut merges = BTreeSet::new();
        let empty = || (0..count).map(|_| Vec::new()).collect();
        let (mut inside, mut behind): (IdVec<_, Vec<StageId>>, IdVec<_, Vec<StageId>>) =
            (empty(), empty());
        for id in control.stages.ids() {
            let Some(parent) = idom[id] else { continue };
            // The outermost loop that the stage comes after, with its dominator inside.
            let exited = loops
                .iter()
                .find(|(_, body)| body.contains(&parent) && !body.contains(&id));
            if let Some((head, _)) = exited {
                merges.insert(id);
                behind[*head].push(id);
            } else if distinct(&before[id]) > 1 || links_twice(control, &before[id], id) {
                merges.insert(id);
                inside[parent].push(id);
            }
        }
        // Labels of stages: twice the id for leaving, one more for a loop.
        Tree {
            control,
            heads,
            merges,
            inside,
            behind,
            labels: Labels::starting_at(2 * count as Label),
        }
    }

    /// Appends the code from a stage on.
    fn from(&mut self, first: StageId, out: &mut Vec<Code<'a>>) {
        let mut at = Some(first);
        while let Some(stage) = at {
            checkpoint();
            let behind = self.behind[stage].clone();
            at = self.behind_loop(stage, &behind, out);
        }
    }

    /// Appends a stage with what follows its loop. Returns the stage that comes next.
    fn behind_loop(
        &mut self,
        stage: StageId,
        behind: &[StageId],
        out: &mut Vec<Code<'a>>,
    ) -> Option<StageId> {
        if let Some((&last, before)) = behind.split_last() {
            let mut body = Vec::new();
            if let Some(next) = self.behind_loop(stage, before, &mut body) {
                self.from(next, &mut body);
            }
            out.push(Code::Block(leave(last), body));
            return Some(last);
        }
        let inside = self.inside[stage].clone();
        if !self.heads.contains(&stage) {
            return self.blocks(stage, &inside, out);
        }
        let mut body = Vec::new();
        if let Some(next) = self.blocks(stage, &inside, &mut body) {
            self.from(next, &mut body);
        }
        out.push(Code::Loop(again(stage), body));
        None
    }

    /// Appends a stage within the blocks that it opens.
    fn blocks(
        &mut self,
        stage: StageId,
        merges: &[StageId],
        out: &mut Vec<Code<'a>>,
    ) -> Option<StageId> {
        if let Some((&last, before)) = merges.split_last() {
            let mut body = Vec::new();
            if let Some(next) = self.blocks(stage, before, &mut body) {
                self.from(next, &mut body);
            }
            out.push(Code::Block(leave(last), body));
            return Some(last);
        }
        self.own(stage, out)
    }

    fn own(&mut self, id: StageId, out: &mut Vec<Code<'a>>) -> Option<StageId> {
        let control = self.control;
        let stage = &control.stages[id];
        match &stage.kind {
            StageKind::Action { body, next } => {
                self.labels.known.clear();
                out.extend(codes(body, &mut self.labels));
                self.link(id, *next, out)
            }
            StageKind::Condition {
                cond,
                then,
                otherwise,
            } => {
                let test = Test::Expr(cond);
                self.fork(id, (test, stage.loc), *then, *otherwise, out)
            }
            StageKind::Match {
                table,
                outcome,
                next,
            } => {
                let apply = |arms| {
                    Code::Apply(Apply {
                        table: *table,
                        outcome: *outcome,
                        loc: stage.loc,
                        arms,
                    })
                };
                match next {
                    MatchNext::Always(next) => {
                        out.push(apply(Vec::new()));
                        return self.link(id, *next, out);
                    }
                    MatchNext::ByHit { hit, miss } => {
                        let test = Test::Hit(*table, outcome.hit);
                        return self.fork(id, (test, stage.loc), *hit, *miss, out);
                    }
                    MatchNext::ByAction(all) => {
                        let mut arms: Vec<(Next, Vec<usize>)> = Vec::new();
                        for (action, &next) in all.iter().enumerate() {
                            match arms.iter_mut().find(|(known, _)| *known == next) {
                                Some((_, actions)) => actions.push(action),
                                None => arms.push((next, vec![action])),
                            }
                        }
                        let arms = arms
                            .into_iter()
                            .map(|(next, actions)| (actions, self.branch(id, next)))
                            .collect();
                        out.push(apply(arms));
                    }
                }
                None
            }
        }
    }

    /// Appends a branch. The code of one side comes next, if it comes here at all: all sides end by
    /// a jump. Long chains of branches so make no deep code.
    fn fork(
        &mut self,
        from: StageId,
        (test, loc): (Test<'a>, Option<Loc>),
        then: Next,
        otherwise: Next,
        out: &mut Vec<Code<'a>>,
    ) -> Option<StageId> {
        let mut jump = Vec::new();
        match self.link(from, otherwise, &mut jump) {
            None => {
                let mut first = Vec::new();
                let next = self.link(from, then, &mut first);
                out.push(Code::If(test, loc, first, jump));
                next
            }
            Some(next) => {
                let first = self.branch(from, then);
                out.push(Code::If(test, loc, first, Vec::new()));
                Some(next)
            }
        }
    }

    fn branch(&mut self, from: StageId, next: Next) -> Vec<Code<'a>> {
        let mut code = Vec::new();
        if let Some(next) = self.link(from, next, &mut code) {
            self.from(next, &mut code);
        }
        code
    }

    /// Follows a link. Returns the stage if its code comes here.
    fn link(&self, from: StageId, next: Next, out: &mut Vec<Code<'a>>) -> Option<StageId> {
        match next {
            Next::End => out.push(Code::Leave(END)),
            Next::Stage(to) if to <= from => out.push(Code::Continue(again(to))),
            Next::Stage(to) if self.merges.contains(&to) => out.push(Code::Leave(leave(to))),
            Next::Stage(to) => return Some(to),
        }
        None
    }
}

/// Returns the stages that links lead to.
fn next_stages(kind: &StageKind) -> impl Iterator<Item = StageId> {
    let all = match kind {
        StageKind::Condition {
            then, otherwise, ..
        } => vec![*then, *otherwise],
        StageKind::Action { next, .. } => vec![*next],
        StageKind::Match { next, .. } => match next {
            MatchNext::Always(next) => vec![*next],
            MatchNext::ByHit { hit, miss } => vec![*hit, *miss],
            MatchNext::ByAction(all) => all.clone(),
        },
    };
    all.into_iter().filter_map(|next| match next {
        Next::Stage(id) => Some(id),
        Next::End => None,
    })
}

fn leave(stage: StageId) -> Label {
    2 * stage.index() as Label
}

fn again(stage: StageId) -> Label {
    leave(stage) + 1
}

/// Returns the nearest common dominator.
fn meet(idom: &IdVec<StageId, Option<StageId>>, mut a: StageId, mut b: StageId) -> StageId {
    while a != b {
        let later = if a > b { &mut a } else { &mut b };
        match idom[*later] {
            Some(up) => *later = up,
            None => return StageId::new(0),
        }
    }
    a
}

/// Returns the stages of a loop.
fn body_of(
    before: &IdVec<StageId, Vec<StageId>>,
    head: StageId,
    ends: impl Iterator<Item = StageId>,
) -> BTreeSet<StageId> {
    let mut body = BTreeSet::from([head]);
    let mut open: Vec<StageId> = ends.collect();
    while let Some(stage) = open.pop() {
        if body.insert(stage) {
            open.extend(&before[stage]);
        }
    }
    body
}

fn distinct(stages: &[StageId]) -> usize {
    stages.iter().collect::<BTreeSet<_>>().len()
}

/// Returns true if the only predecessor has several links to the stage that need code in several
/// places.
fn links_twice(control: &Control, before: &[StageId], to: StageId) -> bool {
    let [first, _, ..] = before else {
        return false;
    };
    match &control.stages[*first].kind {
        // Actions with one successor share a branch.
        StageKind::Match {
            next: MatchNext::ByAction(_),
            ..
        } => false,
        kind => next_stages(kind).filter(|&next| next == to).count() > 1,
    }
}
