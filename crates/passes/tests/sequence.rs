//! Tests that sequencing and simplification keep the order of events. The reference is a walk over
//! the structured code, on hand-written and on random code.

use bits::{IdVec, Value};
use ir::{
    Control, Expr, FieldId, LabelId, MatchNext, MatchOutcome, Next, ScalarTy, Stage, StageId,
    StageKind, Stmt, StmtKind, TableId,
};
use passes::sequence::{Apply, Dispatch, Node, sequence};
use proptest::prelude::*;

/// Observable events: statements, conditions and table applications, in order.
#[derive(Clone, Debug, PartialEq)]
enum Event {
    Ran(u32),
    Asked(u32),
    Applied(u32),
}

/// Outcome of running a piece of code.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flow {
    On,
    Leave(LabelId),
    Again(LabelId),
    Exit,
}

/// Runs code. Its decisions depend only on the number of earlier events.
struct Machine {
    events: Vec<Event>,
    seed: u64,
}

const MAX_EVENTS: usize = 200;

impl Machine {
    fn new(seed: u64) -> Machine {
        Machine {
            events: Vec::new(),
            seed,
        }
    }

    fn answer(&mut self, choices: u64) -> u64 {
        let mut x = self.seed ^ (self.events.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x ^= x >> 29;
        x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (x >> 32) % choices
    }

    fn see(&mut self, event: Event) -> Result<(), ()> {
        self.events.push(event);
        if self.events.len() < MAX_EVENTS {
            Ok(())
        } else {
            Err(())
        }
    }

    fn ask(&mut self, cond: &Expr) -> Result<bool, ()> {
        match cond {
            Expr::Read(place) => {
                self.see(Event::Asked(place.base.get()))?;
                Ok(self.answer(2) == 1)
            }
            Expr::Const(_, value) => Ok(!value.is_zero()),
            Expr::Unary(_, inner) => Ok(!self.ask(inner)?),
            other => panic!("the generator makes no {other:?}"),
        }
    }

    fn stmts(&mut self, body: &[Stmt]) -> Result<Flow, ()> {
        for stmt in body {
            let flow = self.stmt(stmt)?;
            if flow != Flow::On {
                return Ok(flow);
            }
        }
        Ok(Flow::On)
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<Flow, ()> {
        match &stmt.kind {
            StmtKind::Assign(place, _) => self.see(Event::Ran(place.base.get())).map(|()| Flow::On),
            StmtKind::If(cond, then, otherwise) => {
                let body = if self.ask(cond)? { then } else { otherwise };
                self.stmts(body)
            }
            StmtKind::Block(label, body) => {
                let flow = self.stmts(body)?;
                Ok(if flow == Flow::Leave(*label) {
                    Flow::On
                } else {
                    flow
                })
            }
            StmtKind::Loop(label, body) => loop {
                match self.stmts(body)? {
                    Flow::Leave(l) if l == *label => return Ok(Flow::On),
                    Flow::On => {}
                    Flow::Again(l) if l == *label => {}
                    flow => return Ok(flow),
                }
            },
            StmtKind::Leave(label) => Ok(Flow::Leave(*label)),
            StmtKind::Continue(label) => Ok(Flow::Again(*label)),
            StmtKind::Exit => Ok(Flow::Exit),
            other => panic!("the generator makes no {other:?}"),
        }
    }

    fn nodes(&mut self, nodes: &[Node]) -> Result<Flow, ()> {
        for node in nodes {
            let flow = self.node(node)?;
            if flow != Flow::On {
                return Ok(flow);
            }
        }
        Ok(Flow::On)
    }

    fn node(&mut self, node: &Node) -> Result<Flow, ()> {
        match node {
            Node::Stmt(stmt) => self.stmt(stmt),
            Node::If {
                cond,
                then,
                otherwise,
                ..
            } => {
                let body = if self.ask(cond)? { then } else { otherwise };
                self.nodes(body)
            }
            Node::Block(label, body) => {
                let flow = self.nodes(body)?;
                Ok(if flow == Flow::Leave(*label) {
                    Flow::On
                } else {
                    flow
                })
            }
            Node::Loop(label, body) => loop {
                match self.nodes(body)? {
                    Flow::Leave(l) if l == *label => return Ok(Flow::On),
                    Flow::On => {}
                    Flow::Again(l) if l == *label => {}
                    flow => return Ok(flow),
                }
            },
            Node::Apply(apply) => {
                self.see(Event::Applied(apply.table.get()))?;
                let answer = self.answer(ACTIONS);
                match &apply.dispatch {
                    Dispatch::Always => Ok(Flow::On),
                    Dispatch::ByHit { hit, miss } => {
                        self.nodes(if answer % 2 == 1 { hit } else { miss })
                    }
                    Dispatch::ByAction { choice, bodies } => match choice[answer as usize] {
                        Some(body) => self.nodes(&bodies[body]),
                        None => Ok(Flow::On),
                    },
                }
            }
        }
    }

    fn stages(&mut self, stages: &IdVec<StageId, Stage>) -> Result<(), ()> {
        let mut at = stages.ids().next().map_or(Next::End, Next::Stage);
        let mut idle = 0;
        while let Next::Stage(id) = at {
            let before = self.events.len();
            at = self.stage(&stages[id].kind)?;
            idle = if self.events.len() == before {
                idle + 1
            } else {
                0
            };
            assert!(idle <= stages.len(), "stages that do nothing for ever");
        }
        Ok(())
    }

    fn stage(&mut self, kind: &StageKind) -> Result<Next, ()> {
        Ok(match kind {
            StageKind::Condition {
                cond,
                then,
                otherwise,
            } => {
                if self.ask(cond)? {
                    *then
                } else {
                    *otherwise
                }
            }
            StageKind::Action { body, next } => match self.stmts(body)? {
                Flow::On => *next,
                Flow::Exit => Next::End,
                flow => panic!("{flow:?} out of a stage"),
            },
            StageKind::Match { table, next, .. } => {
                self.see(Event::Applied(table.get()))?;
                let answer = self.answer(ACTIONS);
                match next {
                    MatchNext::Always(next) => *next,
                    MatchNext::ByHit { hit, miss } => {
                        if answer % 2 == 1 {
                            *hit
                        } else {
                            *miss
                        }
                    }
                    MatchNext::ByAction(links) => links[answer as usize],
                }
            }
        })
    }
}

const ACTIONS: u64 = 4;

fn stmt(kind: StmtKind) -> Stmt {
    Stmt { kind, loc: None }
}

fn run(id: u32) -> Node {
    Node::Stmt(assign(id))
}

fn assign(id: u32) -> Stmt {
    let one = Expr::Const(ScalarTy::Bit(8), Value::truncated(1, 8));
    stmt(StmtKind::Assign(FieldId::new(id).into(), one))
}

fn cond(id: u32) -> Expr {
    Expr::Read(FieldId::new(id).into())
}

fn apply(table: u32, dispatch: Dispatch) -> Node {
    Node::Apply(Box::new(Apply {
        table: TableId::new(table),
        name: format!("t{table}"),
        outcome: MatchOutcome::default(),
        dispatch,
        loc: None,
    }))
}

fn simplified(stages: IdVec<StageId, Stage>) -> IdVec<StageId, Stage> {
    let mut program = ir::Program::empty("", ir::Arch::V1model);
    let control = program.controls.push(Control {
        name: "c".into(),
        stages,
    });
    passes::simplify::simplify(&mut program);
    std::mem::take(&mut program.controls[control].stages)
}

/// Returns the number of back edges. Links go forward, except those of loops.
fn back_edges(stages: &IdVec<StageId, Stage>) -> usize {
    let forward = |from: StageId, next: &Next| match next {
        Next::Stage(to) => *to > from,
        Next::End => true,
    };
    stages
        .iter()
        .map(|(id, stage)| {
            let links: Vec<Next> = match &stage.kind {
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
            links.iter().filter(|link| !forward(id, link)).count()
        })
        .sum()
}

fn check(code: Vec<Node>) -> IdVec<StageId, Stage> {
    let stages = sequence("c", code.clone());
    let simple = simplified(stages.clone());
    for seed in 0..64 {
        let mut walked = Machine::new(seed);
        let _ = walked.nodes(&code);
        for line in [&stages, &simple] {
            let mut staged = Machine::new(seed);
            let _ = staged.stages(line);
            assert_eq!(walked.events, staged.events, "{code:#?}\n{line:#?}");
        }
    }
    simple
}

#[test]
fn code_without_tables_is_one_stage() {
    let branch = StmtKind::If(cond(1), vec![assign(2)], vec![stmt(StmtKind::Exit)]);
    let stages = check(vec![run(0), Node::Stmt(stmt(branch)), run(3)]);
    assert_eq!(stages.len(), 1);
}

#[test]
fn a_table_splits_the_code_around_it() {
    let stages = check(vec![run(0), apply(7, Dispatch::Always), run(1)]);
    let kinds: Vec<_> = stages
        .values()
        .map(|stage| std::mem::discriminant(&stage.kind))
        .collect();
    assert_eq!(kinds.len(), 3);
    assert_eq!(kinds[0], kinds[2]);
}

#[test]
fn a_hit_chooses_without_a_condition_stage() {
    let dispatch = Dispatch::ByHit {
        hit: vec![run(1)],
        miss: vec![run(2)],
    };
    let stages = check(vec![apply(7, dispatch), run(3)]);
    assert_eq!(stages.len(), 4);
    assert!(
        !stages
            .values()
            .any(|stage| matches!(stage.kind, StageKind::Condition { .. }))
    );
}

#[test]
fn leaving_a_block_that_has_a_table_is_a_link() {
    let label = LabelId::new(0);
    let leave = stmt(StmtKind::If(
        cond(1),
        vec![stmt(StmtKind::Leave(label))],
        Vec::new(),
    ));
    let body = vec![
        run(0),
        Node::Stmt(leave),
        apply(7, Dispatch::Always),
        run(2),
    ];
    let stages = check(vec![Node::Block(label, body), run(3)]);
    assert_eq!(back_edges(&stages), 0);
}

#[test]
fn a_loop_that_applies_a_table_links_back_once() {
    let label = LabelId::new(0);
    let leave = stmt(StmtKind::If(
        cond(1),
        vec![stmt(StmtKind::Leave(label))],
        Vec::new(),
    ));
    let body = vec![Node::Stmt(leave), apply(7, Dispatch::Always), run(2)];
    let stages = check(vec![run(0), Node::Loop(label, body), run(3)]);
    assert_eq!(back_edges(&stages), 1);
}

#[test]
fn stages_have_names_of_their_own() {
    let code = vec![
        apply(1, Dispatch::Always),
        run(0),
        apply(1, Dispatch::Always),
        run(0),
        apply(1, Dispatch::Always),
    ];
    let stages = check(code);
    let names: std::collections::HashSet<_> = stages.values().map(|stage| &stage.name).collect();
    assert_eq!(names.len(), stages.len());
}

/// Random code from a stream of numbers.
struct Generator<'a> {
    numbers: std::slice::Iter<'a, u8>,
    labels: u32,
    ids: u32,
    /// The enclosing blocks (false) and loops (true).
    open: Vec<(LabelId, bool)>,
}

impl Generator<'_> {
    fn number(&mut self, choices: u8) -> u8 {
        self.numbers.next().map_or(0, |n| n % choices)
    }

    fn id(&mut self) -> u32 {
        self.ids += 1;
        self.ids
    }

    fn body(&mut self, depth: u32) -> Vec<Node> {
        // Every body has an event, so that no branch is dropped together with its condition.
        let mut body = vec![run(self.id())];
        let count = self.number(4);
        body.extend((0..count).map(|_| self.node(depth)));
        body
    }

    fn labelled(&mut self, is_loop: bool, depth: u32) -> (LabelId, Vec<Node>) {
        let label = LabelId::new(self.labels);
        self.labels += 1;
        self.open.push((label, is_loop));
        let body = self.body(depth);
        self.open.pop();
        (label, body)
    }

    fn node(&mut self, depth: u32) -> Node {
        if depth == 0 {
            return run(self.id());
        }
        match self.number(10) {
            0 => Node::Stmt(stmt(StmtKind::Exit)),
            1 | 2 => {
                let cond = cond(self.id());
                let (then, otherwise) = (self.body(depth - 1), self.body(depth - 1));
                pack(
                    |then, otherwise| StmtKind::If(cond.clone(), then, otherwise),
                    then,
                    otherwise,
                )
                .unwrap_or_else(|(then, otherwise)| Node::If {
                    cond: cond.clone(),
                    then,
                    otherwise,
                    loc: None,
                })
            }
            3 => {
                let (label, body) = self.labelled(false, depth - 1);
                pack(|body, _| StmtKind::Block(label, body), body, Vec::new())
                    .unwrap_or_else(|(body, _)| Node::Block(label, body))
            }
            4 => {
                let (label, body) = self.labelled(true, depth - 1);
                pack(|body, _| StmtKind::Loop(label, body), body, Vec::new())
                    .unwrap_or_else(|(body, _)| Node::Loop(label, body))
            }
            5 if !self.open.is_empty() => {
                let which = usize::from(self.number(self.open.len() as u8));
                let (label, is_loop) = self.open[which];
                Node::Stmt(stmt(if is_loop && self.number(2) == 1 {
                    StmtKind::Continue(label)
                } else {
                    StmtKind::Leave(label)
                }))
            }
            6 => apply(self.id(), Dispatch::Always),
            7 => {
                let (hit, miss) = (self.body(depth - 1), self.body(depth - 1));
                apply(self.id(), Dispatch::ByHit { hit, miss })
            }
            8 => {
                let bodies = vec![self.body(depth - 1), self.body(depth - 1)];
                let choice =
                    (0..ACTIONS).map(|_| [None, Some(0), Some(1)][usize::from(self.number(3))]);
                let choice = choice.collect();
                apply(self.id(), Dispatch::ByAction { choice, bodies })
            }
            _ => run(self.id()),
        }
    }
}

/// Packs code without tables into one statement.
fn pack(
    make: impl FnOnce(Vec<Stmt>, Vec<Stmt>) -> StmtKind,
    a: Vec<Node>,
    b: Vec<Node>,
) -> Result<Node, (Vec<Node>, Vec<Node>)> {
    let plain = |nodes: &[Node]| -> Option<Vec<Stmt>> {
        nodes
            .iter()
            .map(|node| match node {
                Node::Stmt(stmt) => Some(stmt.clone()),
                _ => None,
            })
            .collect()
    };
    match (plain(&a), plain(&b)) {
        (Some(a), Some(b)) => Ok(Node::Stmt(stmt(make(a, b)))),
        _ => Err((a, b)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn stages_do_what_the_structured_code_does(numbers in proptest::collection::vec(any::<u8>(), 0..120)) {
        let mut generator = Generator { numbers: numbers.iter(), labels: 0, ids: 0, open: Vec::new() };
        let code: Vec<Node> = (0..6).map(|_| generator.node(4)).collect();
        check(code);
    }
}
