//! Converts structured code with table applications to a line of stages (HyperVDP, section IV-C).
//!
//! Every maximal run of code without a table becomes one action stage. A branch becomes a condition
//! stage if it contains a table, or leaves a block that contains one. Leaving becomes a link. Links
//! go forward, except those of loops that apply tables.

use std::collections::{HashMap, HashSet};

use bits::{Id, IdVec};
use ir::{
    Expr, LabelId, Loc, MatchNext, MatchOutcome, Next, Op, Stage, StageId, StageKind, Stmt,
    StmtKind, TableId, UnOp,
};
use support::work::checkpoint;

/// Structured code. Variants other than [`Node::Stmt`] are for code that applies a table somewhere
/// inside.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A statement. It may leave enclosing blocks and loops.
    Stmt(Stmt),
    /// `if`
    If {
        /// The condition.
        cond: Expr,
        /// The body for true.
        then: Vec<Node>,
        /// The body for false.
        otherwise: Vec<Node>,
        /// Source position.
        loc: Option<Loc>,
    },
    /// A body that `Leave(label)` leaves.
    Block(LabelId, Vec<Node>),
    /// A body that is repeated until it is left.
    Loop(LabelId, Vec<Node>),
    /// A table application.
    Apply(Box<Apply>),
}

/// A table application.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply {
    /// The table.
    pub table: TableId,
    /// The stage's name, normally the table's.
    pub name: String,
    /// Destination of the outcome.
    pub outcome: MatchOutcome,
    /// Code that runs next, before the code that follows.
    pub dispatch: Dispatch,
    /// Source position.
    pub loc: Option<Loc>,
}

/// Code that runs after a table, depending on the result.
#[derive(Clone, Debug, PartialEq)]
pub enum Dispatch {
    /// No such code.
    Always,
    /// One body after a hit, another after a miss.
    ByHit {
        /// After a hit.
        hit: Vec<Node>,
        /// After a miss.
        miss: Vec<Node>,
    },
    /// A body selected by the action that ran.
    ByAction {
        /// For each action of the table the index of its body; `None` runs nothing.
        choice: Vec<Option<usize>>,
        /// The bodies.
        bodies: Vec<Vec<Node>>,
    },
}

/// Builds a line of stages. Their names start with `control`.
pub fn sequence(control: &str, code: Vec<Node>) -> IdVec<StageId, Stage> {
    let mut sequencer = Sequencer {
        control,
        stages: Vec::new(),
        joins: Vec::new(),
        labels: HashMap::new(),
        names: HashMap::new(),
    };
    let entry = sequencer.join();
    let end = sequencer.join();
    sequencer.joins[end.index()] = Join::End;
    sequencer.line(code, entry, end);
    sequencer.finish()
}

bits::define_id! {
    /// A join point between stages that links lead to. It is resolved when all stages exist.
    struct JoinId;
}

#[derive(Clone, Copy)]
enum Join {
    /// Not placed yet.
    Open,
    /// The start of a stage.
    Stage(StageId),
    /// An alias of another point.
    Same(JoinId),
    /// The control's end.
    End,
}

struct Proto {
    name: String,
    loc: Option<Loc>,
    kind: ProtoKind,
}

enum ProtoKind {
    Condition(Expr, JoinId, JoinId),
    Match(TableId, MatchOutcome, ProtoNext),
    Action(Vec<Stmt>, JoinId),
}

enum ProtoNext {
    Always(JoinId),
    ByHit(JoinId, JoinId),
    ByAction(Vec<JoinId>),
}

/// Targets of `Leave` and `Continue` of an enclosing block or loop.
#[derive(Clone, Copy)]
struct Exits {
    leave: JoinId,
    again: JoinId,
}

struct Sequencer<'a> {
    control: &'a str,
    stages: Vec<Proto>,
    joins: Vec<Join>,
    labels: HashMap<LabelId, Exits>,
    names: HashMap<String, u32>,
}

impl Sequencer<'_> {
    fn join(&mut self) -> JoinId {
        self.joins.push(Join::Open);
        JoinId::from_index(self.joins.len() - 1)
    }

    fn same(&mut self, join: JoinId, other: JoinId) {
        self.joins[join.index()] = Join::Same(other);
    }

    /// Places a stage at `entry`.
    fn stage(&mut self, entry: JoinId, name: String, loc: Option<Loc>, kind: ProtoKind) {
        let name = self.unique(name);
        self.joins[entry.index()] = Join::Stage(StageId::from_index(self.stages.len()));
        self.stages.push(Proto { name, loc, kind });
    }

    fn unique(&mut self, name: String) -> String {
        let count = self.names.entry(name.clone()).or_insert(0);
        *count += 1;
        if *count == 1 {
            name
        } else {
            format!("{name}${count}")
        }
    }

    fn named(&self, what: &str, loc: Option<Loc>) -> String {
        match loc {
            Some(loc) => format!("{}.{what}_{}", self.control, loc.line),
            None => format!("{}.{what}", self.control),
        }
    }

    /// Lays out `code`, which starts at `entry` and continues at `after`.
    fn line(&mut self, code: Vec<Node>, entry: JoinId, after: JoinId) {
        let mut here = entry;
        let mut run = Vec::new();
        for node in code {
            checkpoint();
            match node {
                Node::Stmt(stmt) if is_closed(&stmt) => run.push(stmt),
                open => {
                    here = self.flush(&mut run, here);
                    match self.open(open, here) {
                        Some(next) => here = next,
                        None => return,
                    }
                }
            }
        }
        here = self.flush(&mut run, here);
        self.same(here, after);
    }

    /// Puts the code collected so far into a stage.
    fn flush(&mut self, run: &mut Vec<Stmt>, here: JoinId) -> JoinId {
        let Some(first) = run.first() else {
            return here;
        };
        let loc = run.iter().find_map(|stmt| stmt.loc).or(first.loc);
        let next = self.join();
        let name = self.named("do", loc);
        self.stage(
            here,
            name,
            loc,
            ProtoKind::Action(std::mem::take(run), next),
        );
        next
    }

    /// Lays out code that cannot be part of a stage. Returns `None` if the code after it is
    /// unreachable.
    fn open(&mut self, node: Node, here: JoinId) -> Option<JoinId> {
        let next = self.join();
        match node {
            Node::If {
                cond,
                then,
                otherwise,
                loc,
            } => {
                let (yes, no) = (self.join(), self.join());
                let name = self.named("if", loc);
                let condition = match cond {
                    Expr::Unary(UnOp::Not, cond) => ProtoKind::Condition(*cond, no, yes),
                    cond => ProtoKind::Condition(cond, yes, no),
                };
                self.stage(here, name, loc, condition);
                self.line(then, yes, next);
                self.line(otherwise, no, next);
            }
            Node::Block(label, body) => {
                self.labels.insert(
                    label,
                    Exits {
                        leave: next,
                        again: next,
                    },
                );
                self.line(body, here, next);
            }
            Node::Loop(label, body) => {
                let head = self.join();
                self.same(here, head);
                self.labels.insert(
                    label,
                    Exits {
                        leave: next,
                        again: head,
                    },
                );
                self.line(body, head, head);
            }
            Node::Apply(apply) => self.apply(*apply, here, next),
            Node::Stmt(stmt) => return self.open_stmt(stmt, here, next),
        }
        Some(next)
    }

    fn open_stmt(&mut self, stmt: Stmt, here: JoinId, next: JoinId) -> Option<JoinId> {
        let nodes = |body: Vec<Stmt>| body.into_iter().map(Node::Stmt).collect();
        let node = match stmt.kind {
            StmtKind::Leave(label) => {
                let target = self.labels.get(&label).map(|exits| exits.leave)?;
                self.same(here, target);
                return None;
            }
            StmtKind::Continue(label) => {
                let target = self.labels.get(&label).map(|exits| exits.again)?;
                self.same(here, target);
                return None;
            }
            StmtKind::If(cond, then, otherwise) => Node::If {
                cond,
                then: nodes(then),
                otherwise: nodes(otherwise),
                loc: stmt.loc,
            },
            StmtKind::Block(label, body) => Node::Block(label, nodes(body)),
            StmtKind::Loop(label, body) => Node::Loop(label, nodes(body)),
            StmtKind::Atomic(body) => {
                self.line(nodes(body), here, next);
                return Some(next);
            }
            kind => {
                let after = self.join();
                let name = self.named("do", stmt.loc);
                self.stage(
                    here,
                    name,
                    stmt.loc,
                    ProtoKind::Action(
                        vec![Stmt {
                            kind,
                            loc: stmt.loc,
                        }],
                        after,
                    ),
                );
                return Some(after);
            }
        };
        self.open(node, here)
    }

    fn apply(&mut self, apply: Apply, here: JoinId, next: JoinId) {
        let (proto, bodies) = match apply.dispatch {
            Dispatch::Always => (ProtoNext::Always(next), Vec::new()),
            Dispatch::ByHit { hit, miss } => {
                let (yes, no) = (self.join(), self.join());
                (ProtoNext::ByHit(yes, no), vec![(hit, yes), (miss, no)])
            }
            Dispatch::ByAction { choice, bodies } => {
                let bodies: Vec<_> = bodies.into_iter().map(|body| (body, self.join())).collect();
                let links = choice.into_iter();
                let links = links.map(|body| {
                    body.and_then(|b| bodies.get(b))
                        .map_or(next, |(_, join)| *join)
                });
                (ProtoNext::ByAction(links.collect()), bodies)
            }
        };
        self.stage(
            here,
            apply.name,
            apply.loc,
            ProtoKind::Match(apply.table, apply.outcome, proto),
        );
        for (body, join) in bodies {
            self.line(body, join, next);
        }
    }

    fn resolve(&self, join: JoinId) -> Next {
        let mut join = join;
        // A cycle of aliases is a loop without a stage. It can only come from an empty infinite
        // loop.
        for _ in 0..=self.joins.len() {
            checkpoint();
            match self.joins[join.index()] {
                Join::Stage(stage) => return Next::Stage(stage),
                Join::Same(other) => join = other,
                Join::End | Join::Open => return Next::End,
            }
        }
        Next::End
    }

    fn finish(mut self) -> IdVec<StageId, Stage> {
        let stages = std::mem::take(&mut self.stages);
        stages
            .into_iter()
            .map(|proto| {
                let kind = match proto.kind {
                    ProtoKind::Condition(cond, yes, no) => StageKind::Condition {
                        cond,
                        then: self.resolve(yes),
                        otherwise: self.resolve(no),
                    },
                    ProtoKind::Match(table, outcome, next) => {
                        let next = match next {
                            ProtoNext::Always(join) => MatchNext::Always(self.resolve(join)),
                            ProtoNext::ByHit(yes, no) => MatchNext::ByHit {
                                hit: self.resolve(yes),
                                miss: self.resolve(no),
                            },
                            ProtoNext::ByAction(links) => MatchNext::ByAction(
                                links.into_iter().map(|join| self.resolve(join)).collect(),
                            ),
                        };
                        StageKind::Match {
                            table,
                            outcome,
                            next,
                        }
                    }
                    ProtoKind::Action(body, next) => StageKind::Action {
                        body,
                        next: self.resolve(next),
                    },
                };
                Stage {
                    name: proto.name,
                    kind,
                    loc: proto.loc,
                }
            })
            .collect()
    }
}

/// Returns true if a statement leaves and continues only blocks and loops inside itself, and calls
/// no remote handler: such a call is a stage of its own.
fn is_closed(stmt: &Stmt) -> bool {
    fn walk(stmt: &Stmt, own: &mut HashSet<LabelId>) -> bool {
        checkpoint();
        match &stmt.kind {
            StmtKind::Leave(label) | StmtKind::Continue(label) => own.contains(label),
            StmtKind::Call(call) => call.op != Op::Remote,
            StmtKind::If(_, then, otherwise) => {
                then.iter().chain(otherwise).all(|stmt| walk(stmt, own))
            }
            StmtKind::Atomic(body) => body.iter().all(|stmt| walk(stmt, own)),
            StmtKind::Block(label, body) | StmtKind::Loop(label, body) => {
                own.insert(*label);
                body.iter().all(|stmt| walk(stmt, own))
            }
            _ => true,
        }
    }
    walk(stmt, &mut HashSet::new())
}
