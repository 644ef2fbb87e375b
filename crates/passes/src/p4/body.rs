//! Bodies: structured code as P4 statements.
//!
//! P4 leaves a body with `return` and the innermost loop with `break`. Any other jump becomes the
//! end of a branch: code that follows a branch with a jump at its end moves into the other branch.
//! Where that does not suffice, a flag records the jump, and a test of it guards the code between.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ir::{Action, BlockRole, Expr, Loc, Op, Program, StmtKind};
use support::work::checkpoint;

use super::PrintError;
use super::call::Natives;
use super::expr::Term;
use super::flow::{Apply, Code, END, Label, Test};
use super::names::Names;
use super::storage::Storage;
use super::text::Text;
use super::types::Types;
use crate::fold::bool_const;
use crate::uses::Uses;

/// Depth of nested statements from which on `return` is preferred to more nesting.
const DEEP: u32 = 24;

/// Maximum depth of nested statements.
const MAX_DEPTH: u32 = 200;

/// P4 statements.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Out {
    Line(String),
    /// Conditions with their bodies, and the body if none holds.
    If(Vec<(String, Vec<Out>)>, Vec<Out>),
    /// Labels with their bodies.
    Switch(String, Vec<(Vec<String>, Vec<Out>)>),
    For(String, Vec<Out>),
    Atomic(Vec<Out>),
}

/// Names of a block's declarations.
#[derive(Default)]
pub(super) struct Scope {
    pub(super) tables: BTreeMap<ir::TableId, String>,
    pub(super) actions: BTreeMap<ir::ActionId, String>,
    pub(super) value_sets: BTreeMap<ir::ValueSetId, String>,
}

/// The translation of one body: an action, a parser state or a control.
pub(super) struct Body<'a> {
    pub(super) program: &'a Program,
    pub(super) storage: &'a Storage,
    pub(super) types: &'a Types<'a>,
    pub(super) externs: &'a bits::IdVec<ir::ExternId, String>,
    pub(super) lists: &'a super::lists::Lists,
    pub(super) natives: &'a Natives,
    pub(super) scope: &'a Scope,
    pub(super) role: BlockRole,
    pub(super) action: Option<&'a Action>,
    /// Names of the action's parameters.
    pub(super) params: Vec<String>,
    /// Names that are taken, for variables.
    pub(super) names: Names,
    /// The body, for errors.
    pub(super) place: String,
    pub(super) loc: Cell<Option<Loc>>,
    /// The conditions of the branches around the code.
    pub(super) guards: Vec<Expr>,
    /// Uses of a parser state's transition.
    pub(super) behind: Option<Uses>,
    flow: FlowState,
}

#[derive(Default)]
struct FlowState {
    /// The loops around the code, the innermost last.
    loops: Vec<Label>,
    /// For each of them the jumps to its end.
    exits: Vec<Vec<Jump>>,
    /// The number of loops around each block.
    depths: BTreeMap<Label, usize>,
    /// Labels of open blocks at the end of the body.
    ends: BTreeSet<Label>,
    flags: BTreeMap<Label, String>,
    nesting: u32,
}

/// A jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Jump {
    Leave(Label),
    Continue(Label),
}

/// The environment that all bodies of a block share.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) program: &'a Program,
    pub(super) storage: &'a Storage,
    pub(super) types: &'a Types<'a>,
    pub(super) externs: &'a bits::IdVec<ir::ExternId, String>,
    pub(super) lists: &'a super::lists::Lists,
    pub(super) natives: &'a Natives,
    pub(super) scope: &'a Scope,
    pub(super) role: BlockRole,
}

impl<'a> Body<'a> {
    pub(super) fn new(block: Block<'a>, names: Names, place: String) -> Body<'a> {
        Body {
            program: block.program,
            storage: block.storage,
            types: block.types,
            externs: block.externs,
            lists: block.lists,
            natives: block.natives,
            scope: block.scope,
            role: block.role,
            action: None,
            params: Vec::new(),
            names,
            place,
            loc: Cell::new(None),
            guards: Vec::new(),
            behind: None,
            flow: FlowState::default(),
        }
    }

    /// Translates a whole body.
    pub(super) fn body(&mut self, code: Vec<Code<'_>>) -> Result<Vec<Out>, PrintError> {
        self.flow = FlowState::default();
        let (out, _) = self.list(code.into(), &[Jump::Leave(END)])?;
        Ok(out)
    }

    pub(super) fn is_parser(&self) -> bool {
        matches!(self.role, BlockRole::Parser)
    }

    /// Returns the error for a construct at the current statement.
    pub(super) fn error(&self, construct: impl Into<String>) -> PrintError {
        let mut place = self.place.clone();
        if let Some(loc) = self.loc.get() {
            let file = self.program.files.get(loc.file as usize);
            let file = file.map_or("", String::as_str);
            place = format!("{file}:{}:{}: {place}", loc.line, loc.column);
        }
        PrintError::new(construct, place)
    }

    /// Translates a list of statements. At its end control is where `tails` lead. Also returns the
    /// labels with a jump that only a flag records: the code after the list must not run then.
    fn list(
        &mut self,
        codes: VecDeque<Code<'_>>,
        tails: &[Jump],
    ) -> Result<(Vec<Out>, BTreeSet<Label>), PrintError> {
        checkpoint();
        self.flow.nesting += 1;
        if self.flow.nesting > MAX_DEPTH {
            return Err(self.error(format!("code nested deeper than {MAX_DEPTH}")));
        }
        let made = self.nested_list(codes, tails);
        self.flow.nesting -= 1;
        made
    }

    fn nested_list(
        &mut self,
        mut rest: VecDeque<Code<'_>>,
        tails: &[Jump],
    ) -> Result<(Vec<Out>, BTreeSet<Label>), PrintError> {
        let mut out = Vec::new();
        let mut pending = BTreeSet::new();
        while let Some(code) = rest.pop_front() {
            let before = pending.len();
            match code {
                Code::Leave(label) => {
                    self.jump(Jump::Leave(label), tails, &mut out, &mut pending)?;
                    break;
                }
                Code::Continue(label) => {
                    self.jump(Jump::Continue(label), tails, &mut out, &mut pending)?;
                    break;
                }
                Code::Stmt(stmt) => {
                    self.loc.set(stmt.loc.or(self.loc.get()));
                    match &stmt.kind {
                        StmtKind::Exit if self.is_parser() => {
                            return Err(self.error("`exit` in a parser"));
                        }
                        StmtKind::Exit => {
                            out.push(Out::Line("exit;".to_owned()));
                            break;
                        }
                        StmtKind::Call(call) if call.op == Op::HoldAtomic => {
                            let (body, more) = self.list(std::mem::take(&mut rest), tails)?;
                            out.push(Out::Atomic(body));
                            pending.extend(more);
                        }
                        StmtKind::Verify(cond, _) if self.is_implied(cond, rest.front()) => {}
                        _ if self.is_drop(stmt, rest.front()) => {
                            rest.pop_front();
                            let drop = "mark_to_drop(standard_metadata);";
                            out.push(Out::Line(drop.to_owned()));
                        }
                        _ => self.stmt(stmt, &mut out)?,
                    }
                }
                Code::ExtractNext(stmt) => self.extract_next(stmt, &mut out)?,
                Code::Checksum(add, get) => self.checksum(add, get, &mut out)?,
                Code::If(test, loc, then, otherwise) => {
                    self.loc.set(loc.or(self.loc.get()));
                    let more = self.branch(test, then, otherwise, &mut rest, tails, &mut out)?;
                    pending.extend(more);
                }
                Code::Apply(apply) => {
                    self.loc.set(apply.loc.or(self.loc.get()));
                    let inner = if rest.is_empty() { tails } else { &[] };
                    pending.extend(self.apply(apply, inner, &mut out)?);
                }
                Code::Block(label, body) => {
                    let mut inner = vec![Jump::Leave(label)];
                    if rest.is_empty() {
                        inner.extend(tails);
                        if tails.contains(&Jump::Leave(END)) {
                            self.flow.ends.insert(label);
                        }
                    }
                    self.flow.depths.insert(label, self.flow.loops.len());
                    let (body, mut more) = self.list(body.into(), &inner)?;
                    self.flow.depths.remove(&label);
                    if more.remove(&label) {
                        let flag = self.flag(label);
                        out.push(Out::Line(format!("bool {flag} = false;")));
                    }
                    out.extend(body);
                    pending.extend(more);
                }
                Code::Loop(label, body) => {
                    let exits = if rest.is_empty() { tails } else { &[] };
                    pending.extend(self.repeat(label, body, exits, &mut out)?);
                }
                Code::Atomic(body) => {
                    let (body, more) = self.list(body.into(), &[])?;
                    out.push(Out::Atomic(body));
                    pending.extend(more);
                }
            }
            // A jump out of a loop around the code has left it by `break`.
            let depth = self.flow.loops.len();
            let here = pending.iter().copied();
            let here: Vec<Label> = here
                .filter(|label| self.flow.depths.get(label) == Some(&depth))
                .collect();
            if pending.len() > before && !here.is_empty() && !rest.is_empty() {
                let flags: Vec<String> = here.iter().map(|&label| self.flag(label)).collect();
                let cond = match flags.as_slice() {
                    [only] => format!("!{only}"),
                    _ => format!("!({})", flags.join(" || ")),
                };
                let (body, more) = self.list(std::mem::take(&mut rest), tails)?;
                pending.extend(more);
                if !body.is_empty() {
                    out.push(Out::If(vec![(cond, body)], Vec::new()));
                }
            }
        }
        Ok((out, pending))
    }

    /// Translates a branch. Code that follows it may move into one of its sides.
    fn branch<'c>(
        &mut self,
        test: Test<'c>,
        then: Vec<Code<'c>>,
        otherwise: Vec<Code<'c>>,
        rest: &mut VecDeque<Code<'c>>,
        tails: &[Jump],
        out: &mut Vec<Out>,
    ) -> Result<BTreeSet<Label>, PrintError> {
        let mut pending = BTreeSet::new();
        let mut arms = Vec::new();
        let (mut test, mut then, mut otherwise) =
            (test, VecDeque::from(then), VecDeque::from(otherwise));
        let last = loop {
            // The code after it goes on in the side that reaches it, if only one does.
            if !rest.is_empty() && arms.is_empty() {
                if always_jumps(&then) {
                    let is_flat = otherwise.is_empty() && self.is_direct(&then, tails);
                    if !is_flat {
                        otherwise.append(rest);
                    }
                } else if always_jumps(&otherwise) {
                    let is_flat = then.is_empty() && self.is_direct(&otherwise, tails);
                    if !is_flat {
                        then.append(rest);
                    }
                }
            }
            let inner = if rest.is_empty() { tails } else { &[] };
            let cond = self.test(test, out, arms.is_empty())?;
            let guard = match test {
                Test::Expr(guard) => guard.clone(),
                Test::Hit(..) => bool_const(true),
            };
            self.guards.push(guard);
            let (body, more) = self.list(then, inner)?;
            self.guards.pop();
            pending.extend(more);
            arms.push((cond, body));
            // A branch at the end of the other side is one more arm.
            let is_chain = match otherwise.front() {
                Some(Code::If(Test::Expr(_) | Test::Hit(_, None), _, yes, no)) => {
                    let is_flat = ends(yes) || ends(no) && self.flow.nesting <= DEEP;
                    otherwise.len() == 1 || rest.is_empty() && is_flat
                }
                _ => false,
            };
            if !is_chain {
                break otherwise;
            }
            let Some(Code::If(next, loc, yes, no)) = otherwise.pop_front() else {
                break otherwise;
            };
            self.loc.set(loc.or(self.loc.get()));
            let (mut yes, mut no) = (VecDeque::from(yes), VecDeque::from(no));
            match always_jumps(&yes) {
                true => no.append(&mut otherwise),
                false => yes.append(&mut otherwise),
            }
            (test, then, otherwise) = (next, yes, no);
        };
        let inner = if rest.is_empty() { tails } else { &[] };
        let (body, more) = self.list(last, inner)?;
        pending.extend(more);
        push_if(arms, body, out);
        Ok(pending)
    }

    /// Returns true if code is a jump that P4 has a statement for, and more nesting is no good.
    fn is_direct(&self, code: &VecDeque<Code<'_>>, tails: &[Jump]) -> bool {
        let jump = match code.back() {
            Some(Code::Leave(label)) => Jump::Leave(*label),
            Some(Code::Continue(label)) => Jump::Continue(*label),
            Some(Code::Stmt(_)) => return self.flow.nesting > DEEP,
            _ => return false,
        };
        let is_tail = tails.contains(&jump);
        (!is_tail || self.flow.nesting > DEEP) && self.statement(jump).is_some()
    }

    /// Returns the P4 statement for a jump.
    fn statement(&self, jump: Jump) -> Option<&'static str> {
        let innermost = self.flow.loops.last().copied();
        let exits = self.flow.exits.last();
        if exits.is_some_and(|exits| exits.contains(&jump)) {
            return Some("break;");
        }
        match jump {
            Jump::Leave(label) if label == END || self.flow.ends.contains(&label) => {
                (!self.is_parser()).then_some("return;")
            }
            Jump::Leave(_) => None,
            Jump::Continue(label) => (innermost == Some(label)).then_some("continue;"),
        }
    }

    fn jump(
        &mut self,
        jump: Jump,
        tails: &[Jump],
        out: &mut Vec<Out>,
        pending: &mut BTreeSet<Label>,
    ) -> Result<(), PrintError> {
        if tails.contains(&jump) {
            return Ok(());
        }
        if let Some(statement) = self.statement(jump) {
            out.push(Out::Line(statement.to_owned()));
            return Ok(());
        }
        let Jump::Leave(label) = jump else {
            return Err(self.error("a jump to the next iteration of an outer loop"));
        };
        let depth = self.flow.depths.get(&label).copied();
        let depth = depth.ok_or_else(|| self.error("a loop that is entered at several places"))?;
        let flag = self.flag(label);
        out.push(Out::Line(format!("{flag} = true;")));
        pending.insert(label);
        if depth < self.flow.loops.len() {
            out.push(Out::Line("break;".to_owned()));
        }
        Ok(())
    }

    fn flag(&mut self, label: Label) -> String {
        let names = &mut self.names;
        let flags = self.flow.flags.entry(label);
        flags.or_insert_with(|| names.fresh("leaves")).clone()
    }

    /// Translates a loop. Returns the labels of jumps out of it that flags record.
    fn repeat(
        &mut self,
        label: Label,
        body: Vec<Code<'_>>,
        exits: &[Jump],
        out: &mut Vec<Out>,
    ) -> Result<BTreeSet<Label>, PrintError> {
        if self.is_parser() {
            return Err(self.error("a loop in a parser state"));
        }
        self.flow.depths.insert(label, self.flow.loops.len());
        let mut exits = exits.to_vec();
        exits.push(Jump::Leave(label));
        let mut body = VecDeque::from(body);
        // A test at the start becomes the loop's condition.
        let mut cond = "true".to_owned();
        if let Some(Code::If(Test::Expr(test), _, then, otherwise)) = body.front() {
            let is_exit = |code: &[Code<'_>]| match code {
                [Code::Leave(to)] => exits.contains(&Jump::Leave(*to)),
                _ => false,
            };
            if otherwise.is_empty() && is_exit(then) {
                cond = self.negated(test)?;
                body.pop_front();
            } else if then.is_empty() && is_exit(otherwise) {
                cond = self.text(test)?;
                body.pop_front();
            }
        }
        self.flow.loops.push(label);
        self.flow.exits.push(exits);
        let (body, mut pending) = self.list(body, &[Jump::Continue(label)])?;
        self.flow.loops.pop();
        self.flow.exits.pop();
        self.flow.depths.remove(&label);
        if pending.remove(&label) {
            let flag = self.flag(label);
            out.push(Out::Line(format!("bool {flag} = false;")));
        }
        out.push(Out::For(cond, body));
        let mut around = BTreeSet::new();
        for label in pending {
            let depth = self.flow.depths.get(&label).copied().unwrap_or(0);
            if depth < self.flow.loops.len() {
                let flag = self.flag(label);
                let leave = vec![Out::Line("break;".to_owned())];
                out.push(Out::If(vec![(flag, leave)], Vec::new()));
            }
            around.insert(label);
        }
        Ok(around)
    }

    /// Returns the text of a condition. The lookup of a table that is not the first condition of a
    /// chain happens only if those before fail, as P4 requires.
    fn test(
        &mut self,
        test: Test<'_>,
        out: &mut Vec<Out>,
        is_first: bool,
    ) -> Result<String, PrintError> {
        match test {
            Test::Expr(expr) => self.text(expr),
            Test::Hit(table, None) => Ok(format!("{}.apply().hit", self.table(table)?)),
            Test::Hit(table, Some(field)) if is_first => {
                let hit = Term::primary(format!("{}.apply().hit", self.table(table)?));
                self.write(&field.into(), hit, out)?;
                self.text(&Expr::Read(field.into()))
            }
            Test::Hit(..) => Err(self.error("the stored result of a lookup in a chain")),
        }
    }

    pub(super) fn negated(&self, expr: &Expr) -> Result<String, PrintError> {
        self.text(&crate::fold::not(expr.clone()))
    }

    pub(super) fn table(&self, id: ir::TableId) -> Result<&'a str, PrintError> {
        let name = self.scope.tables.get(&id).map(String::as_str);
        name.ok_or_else(|| self.error("a table outside of a control"))
    }

    /// Translates the application of a table.
    fn apply(
        &mut self,
        apply: Apply<'_>,
        tails: &[Jump],
        out: &mut Vec<Out>,
    ) -> Result<BTreeSet<Label>, PrintError> {
        let name = self.table(apply.table)?;
        let outcome = apply.outcome;
        let mut pending = BTreeSet::new();
        if let Some(hit) = outcome.hit {
            if outcome.action_run.is_some() || !apply.arms.is_empty() {
                return Err(self.error("both `hit` and `action_run` of one lookup"));
            }
            let hit_text = Term::primary(format!("{name}.apply().hit"));
            self.write(&hit.into(), hit_text, out)?;
            return Ok(pending);
        }
        let table = &self.program.tables[apply.table];
        let mut arms = apply.arms;
        if let Some(field) = outcome.action_run {
            if arms.is_empty() {
                arms.push(((0..table.actions.len()).collect(), Vec::new()));
            }
            return self.numbered(apply.table, field, arms, tails, out);
        }
        let mut made = Vec::new();
        for (actions, code) in arms {
            let (body, more) = self.list(code.into(), tails)?;
            pending.extend(more);
            made.push((actions, body));
        }
        self.switch(apply.table, made, out)?;
        Ok(pending)
    }

    /// Translates the application of a table with its action's position stored in a field.
    fn numbered(
        &mut self,
        table: ir::TableId,
        field: ir::FieldId,
        arms: Vec<(Vec<usize>, Vec<Code<'_>>)>,
        tails: &[Jump],
        out: &mut Vec<Out>,
    ) -> Result<BTreeSet<Label>, PrintError> {
        let mut pending = BTreeSet::new();
        let mut made = Vec::new();
        for (actions, code) in arms {
            for action in actions {
                let mut body = Vec::new();
                let number = Term::primary(format!("32w{action}"));
                self.write(&field.into(), number, &mut body)?;
                let (code, more) = self.list(code.clone().into(), tails)?;
                pending.extend(more);
                body.extend(code);
                made.push((vec![action], body));
            }
        }
        self.switch(table, made, out)?;
        Ok(pending)
    }

    /// Appends a `switch` over the actions of a table.
    fn switch(
        &self,
        id: ir::TableId,
        mut arms: Vec<(Vec<usize>, Vec<Out>)>,
        out: &mut Vec<Out>,
    ) -> Result<(), PrintError> {
        let name = self.table(id)?;
        let table = &self.program.tables[id];
        if arms.iter().all(|(_, body)| body.is_empty()) {
            out.push(Out::Line(format!("{name}.apply();")));
            return Ok(());
        }
        let implicit = super::table::has_implicit_default(self.program, table)
            .then(|| table.actions.len() - 1);
        let is_default = |actions: &[usize]| implicit.is_some_and(|at| actions.contains(&at));
        let needs_default = arms
            .iter()
            .any(|(actions, body)| is_default(actions) && !body.is_empty());
        arms.retain(|(actions, body)| !body.is_empty() || needs_default && !is_default(actions));
        arms.sort_by_key(|(actions, _)| is_default(actions));
        let mut made = Vec::new();
        for (actions, body) in arms {
            let mut labels = Vec::new();
            for &action in &actions {
                if implicit == Some(action) {
                    labels.push("default".to_owned());
                } else {
                    labels.push(self.action_name(table.actions[action].action)?.to_owned());
                }
            }
            // `default` is the last label.
            labels.sort_by_key(|label| label == "default");
            made.push((labels, body));
        }
        out.push(Out::Switch(format!("{name}.apply().action_run"), made));
        Ok(())
    }

    pub(super) fn action_name(&self, id: ir::ActionId) -> Result<&'a str, PrintError> {
        let name = self.scope.actions.get(&id).map(String::as_str);
        name.ok_or_else(|| self.error("an action outside of a control"))
    }
}

/// Appends an `if`, without empty sides.
pub(super) fn push_if(mut arms: Vec<(String, Vec<Out>)>, otherwise: Vec<Out>, out: &mut Vec<Out>) {
    while otherwise.is_empty()
        && arms
            .last()
            .is_some_and(|(cond, body)| body.is_empty() && !cond.ends_with(".hit"))
    {
        arms.pop();
    }
    match arms.as_slice() {
        [] => out.extend(otherwise),
        [(cond, body)] if body.is_empty() => match cond.strip_suffix(".hit") {
            Some(apply) if otherwise.is_empty() => out.push(Out::Line(format!("{apply};"))),
            Some(apply) => {
                let miss = format!("{apply}.miss");
                out.push(Out::If(vec![(miss, otherwise)], Vec::new()));
            }
            None => {
                let cond = negation(cond);
                out.push(Out::If(vec![(cond, otherwise)], Vec::new()));
            }
        },
        _ => out.push(Out::If(arms, otherwise)),
    }
}

fn negation(cond: &str) -> String {
    let is_name = |text: &str| {
        let text = text.strip_suffix("()").unwrap_or(text);
        text.chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.[]".contains(c))
    };
    match cond.strip_prefix('!') {
        Some(inner) if is_name(inner) => inner.to_owned(),
        _ if is_name(cond) => format!("!{cond}"),
        _ => format!("!({cond})"),
    }
}

/// Returns true if the end of code is never reached.
fn always_jumps(code: &VecDeque<Code<'_>>) -> bool {
    code.back().is_some_and(jumps)
}

fn ends(code: &[Code<'_>]) -> bool {
    code.last().is_some_and(jumps)
}

fn jumps(code: &Code<'_>) -> bool {
    match code {
        Code::Leave(_) | Code::Continue(_) => true,
        Code::Stmt(stmt) => matches!(stmt.kind, StmtKind::Exit | StmtKind::Fail(_)),
        Code::If(_, _, then, otherwise) => ends(then) && ends(otherwise),
        Code::Atomic(body) => ends(body),
        Code::Block(label, body) => ends(body) && !leaves(body, *label),
        // The arms are for all actions.
        Code::Apply(apply) => !apply.arms.is_empty() && apply.arms.iter().all(|(_, arm)| ends(arm)),
        _ => false,
    }
}

/// Returns true if code leaves the block.
fn leaves(code: &[Code<'_>], label: Label) -> bool {
    code.iter().any(|code| match code {
        Code::Leave(to) => *to == label,
        Code::If(_, _, then, otherwise) => leaves(then, label) || leaves(otherwise, label),
        Code::Block(_, body) | Code::Loop(_, body) | Code::Atomic(body) => leaves(body, label),
        Code::Apply(apply) => apply.arms.iter().any(|(_, body)| leaves(body, label)),
        _ => false,
    })
}

/// Prints statements.
pub(super) fn print(out: &[Out], text: &mut Text) {
    for stmt in out {
        match stmt {
            Out::Line(line) => text.line(line),
            Out::If(arms, otherwise) => {
                for (at, (cond, body)) in arms.iter().enumerate() {
                    let word = if at == 0 { "if" } else { "} else if" };
                    text.arm(&format!("{word} ({cond})"), |text| print(body, text));
                }
                if !otherwise.is_empty() {
                    text.arm("} else", |text| print(otherwise, text));
                }
                text.line("}");
            }
            Out::Switch(head, arms) => text.block(&format!("switch ({head})"), |text| {
                for (labels, body) in arms {
                    let (last, before) = match labels.split_last() {
                        Some(all) => all,
                        None => continue,
                    };
                    before
                        .iter()
                        .for_each(|label| text.line(format!("{label}:")));
                    text.block(&format!("{last}:"), |text| print(body, text));
                }
            }),
            Out::For(cond, body) => {
                text.block(&format!("for (; {cond}; )"), |text| print(body, text));
            }
            Out::Atomic(body) => text.block("@atomic", |text| print(body, text)),
        }
    }
}
