//! Prints code: parsers, controls, statements and expressions.

use super::{Printer, list, name, names, text, value};
use crate::code::*;
use crate::program::*;
use crate::types::ScalarTy;
use crate::words::Word;

impl<'a> Printer<'a> {
    pub(super) fn parser(&mut self, parser: &'a Parser) {
        let states = super::names_of(&parser.states, |s| &s.name);
        let head = format!(
            "parser {} start {}",
            name(&parser.name),
            names::get(&states, parser.start)
        );
        self.braces(format_args!("{head}"), |s| {
            for state in parser.states.values() {
                let head = format!("state {}{}", name(&state.name), s.loc(state.loc));
                s.braces(format_args!("{head}"), |s| {
                    s.stmts(&state.body);
                    s.transition(&states, &state.transition);
                });
            }
        });
    }

    fn transition(&mut self, states: &[String], transition: &'a Transition) {
        let goto = |target: Target| match target {
            Target::Accept => "accept".to_owned(),
            Target::Reject => "reject".to_owned(),
            Target::State(id) => names::get(states, id),
        };
        match transition {
            Transition::Direct(target) => self.line(format_args!("goto {};", goto(*target))),
            Transition::Select { keys, cases } => {
                let head = format!("select ({})", list(keys, |k| self.expr(k)));
                self.braces(format_args!("{head}"), |s| {
                    for case in cases {
                        let keyset = s.keyset(&case.keyset);
                        s.line(format_args!("{keyset}: {};", goto(case.target)));
                    }
                });
            }
        }
    }

    fn keyset(&self, keyset: &Keyset) -> String {
        let value_set = |id| format!("value_set {}", names::get(&self.refs.value_sets, id));
        match keyset {
            Keyset::ValueSet(id) => value_set(*id),
            Keyset::Sets(sets) => {
                let sets = list(sets, |set| match set {
                    KeySet::Any => "_".to_owned(),
                    KeySet::Value(v) => self.expr(v),
                    KeySet::Mask(v, mask) => {
                        format!("{} &&& {}", self.operand(v), self.operand(mask))
                    }
                    KeySet::Range(lo, hi) => {
                        format!("{} .. {}", self.operand(lo), self.operand(hi))
                    }
                    KeySet::ValueSet(id) => value_set(*id),
                });
                format!("({sets})")
            }
        }
    }

    pub(super) fn control(&mut self, control: &'a Control) {
        let stages = super::names_of(&control.stages, |s| &s.name);
        let head = format!("control {}", name(&control.name));
        self.braces(format_args!("{head}"), |s| {
            for stage in control.stages.values() {
                s.stage(&stages, stage);
            }
        });
    }

    fn stage(&mut self, stages: &[String], stage: &'a Stage) {
        let to = |next: Next| match next {
            Next::Stage(id) => names::get(stages, id),
            Next::End => "end".to_owned(),
        };
        let head = format!("stage {}{}:", name(&stage.name), self.loc(stage.loc));
        match &stage.kind {
            StageKind::Condition {
                cond,
                then,
                otherwise,
            } => self.line(format_args!(
                "{head} condition {} then {} else {};",
                self.expr(cond),
                to(*then),
                to(*otherwise)
            )),
            StageKind::Match {
                table,
                outcome,
                next,
            } => {
                let field = |word: &str, id: Option<FieldId>| {
                    id.map_or(String::new(), |id| {
                        format!(" {word} {}", names::get(&self.refs.fields, id))
                    })
                };
                let next = match next {
                    MatchNext::Always(next) => format!("next {}", to(*next)),
                    MatchNext::ByHit { hit, miss } => {
                        format!("next hit {} miss {}", to(*hit), to(*miss))
                    }
                    MatchNext::ByAction(all) => {
                        format!("next by_action ({})", list(all, |n| to(*n)))
                    }
                };
                self.line(format_args!(
                    "{head} match {}{}{} {next};",
                    names::get(&self.refs.tables, *table),
                    field("hit", outcome.hit),
                    field("action_run", outcome.action_run)
                ));
            }
            StageKind::Action { body, next } => {
                self.braces(format_args!("{head} action next {}", to(*next)), |s| {
                    s.stmts(body);
                });
            }
        }
    }

    pub(super) fn stmts(&mut self, stmts: &'a [Stmt]) {
        stmts.iter().for_each(|s| self.stmt(s));
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        let at = self.loc(stmt.loc);
        match &stmt.kind {
            StmtKind::If(cond, then, otherwise) => {
                let cond = self.expr(cond);
                self.braces(format_args!("if ({cond}){at}"), |s| s.stmts(then));
                if !otherwise.is_empty() {
                    self.braces(format_args!("else"), |s| s.stmts(otherwise));
                }
            }
            StmtKind::Block(label, body) => {
                self.braces(format_args!("block {label}{at}"), |s| s.stmts(body));
            }
            StmtKind::Loop(label, body) => {
                self.braces(format_args!("loop {label}{at}"), |s| s.stmts(body));
            }
            StmtKind::Atomic(body) => self.braces(format_args!("atomic{at}"), |s| s.stmts(body)),
            simple => {
                let simple = self.simple(simple);
                self.line(format_args!("{simple};{at}"));
            }
        }
    }

    /// Formats a statement without a body.
    fn simple(&self, stmt: &StmtKind) -> String {
        match stmt {
            StmtKind::Assign(place, e) => format!("{} = {}", self.place(place), self.expr(e)),
            StmtKind::AssignSlice(place, hi, lo, e) => {
                format!("{}[{hi}:{lo}] = {}", self.place(place), self.expr(e))
            }
            StmtKind::AssignVarbit(to, from) => {
                format!("varbit {} = {}", self.place(to), self.place(from))
            }
            StmtKind::ClearVarbit(place) => format!("clear {}", self.place(place)),
            StmtKind::CopyHeader(to, from) => {
                format!("header {} = {}", self.header(to), self.header(from))
            }
            StmtKind::Leave(label) => format!("leave {label}"),
            StmtKind::Continue(label) => format!("continue {label}"),
            StmtKind::Exit => "exit".to_owned(),
            StmtKind::CallAction(action, args) => format!(
                "run {}({})",
                names::get(&self.refs.actions, *action),
                list(args, |e| self.expr(e))
            ),
            StmtKind::Extract(header, None) => format!("extract {}", self.header(header)),
            StmtKind::Extract(header, Some(size)) => {
                format!("extract {}, {}", self.header(header), self.expr(size))
            }
            StmtKind::Advance(amount) => format!("advance {}", self.expr(amount)),
            StmtKind::Lookahead { total, dests } => {
                let dests = list(dests, |(place, offset)| {
                    format!("{} at {offset}", self.place(place))
                });
                format!("lookahead {total} ({dests})")
            }
            StmtKind::PacketLength(place) => format!("packet_length {}", self.place(place)),
            StmtKind::Verify(cond, error) => {
                format!("verify {}, {}", self.expr(cond), self.expr(error))
            }
            StmtKind::Fail(error) => format!("fail {}", self.error(u64::from(*error))),
            StmtKind::Emit(header) => format!("emit {}", self.header(header)),
            StmtKind::EmitField(place) => format!("emit_field {}", self.place(place)),
            StmtKind::PushFront(stack, n) => {
                format!("push_front {}, {n}", names::get(&self.refs.stacks, *stack))
            }
            StmtKind::PopFront(stack, n) => {
                format!("pop_front {}, {n}", names::get(&self.refs.stacks, *stack))
            }
            StmtKind::Call(call) => self.call(call),
            StmtKind::If(..) | StmtKind::Block(..) | StmtKind::Loop(..) | StmtKind::Atomic(..) => {
                String::new()
            }
        }
    }

    fn call(&self, call: &Call) -> String {
        let instance = call.instance.map_or(String::new(), |id| {
            format!(" on {}", names::get(&self.refs.externs, id))
        });
        let operands = list(&call.operands, |operand| match operand {
            Operand::In(e) => self.expr(e),
            Operand::Out(place) => format!("out {}", self.place(place)),
            Operand::Data(all) => format!("{{{}}}", list(all, |e| self.expr(e))),
            Operand::Outs(all) => format!("out {{{}}}", list(all, |p| self.place(p))),
            Operand::Text(s) => text(s),
            Operand::Number(n) => format!("={n}"),
        });
        format!("call {}{instance} ({operands})", call.op.name())
    }

    fn place(&self, place: &Place) -> String {
        names::get(&self.refs.fields, place.base) + &self.dims(&place.dims)
    }

    fn header(&self, place: &HeaderPlace) -> String {
        names::get(&self.refs.headers, place.base) + &self.dims(&place.dims)
    }

    fn dims(&self, dims: &[Dim]) -> String {
        dims.iter()
            .map(|d| format!("{{{} in {} by {}}}", self.expr(&d.index), d.len, d.stride))
            .collect()
    }

    fn error(&self, number: u64) -> String {
        let errors = &self.program.errors;
        match member(errors, number) {
            Some(e) => format!("error.{}", name(e)),
            None => format!("error.#{number}"),
        }
    }

    fn constant(&self, ty: ScalarTy, v: &bits::Value) -> String {
        let number = v.to_u64();
        match (ty, number) {
            (ScalarTy::Bool, Some(0)) => "false".to_owned(),
            (ScalarTy::Bool, Some(1)) => "true".to_owned(),
            (ScalarTy::Int(w), _) => format!("{w}s{v}"),
            (ScalarTy::Error, Some(number)) => self.error(number),
            (ScalarTy::Enum(id), Some(number)) => {
                let members = self.program.enums.get(id).map(|e| &e.members);
                let member = match members.and_then(|m| member(m, number)) {
                    Some(m) => name(m),
                    None => format!("#{number}"),
                };
                format!("{}::{member}", self.ty(ty))
            }
            _ => value(v),
        }
    }

    /// Formats an expression that is alone or between separators.
    pub(super) fn expr(&self, e: &Expr) -> String {
        match e {
            Expr::Binary(op, a, b) => {
                format!("{} {} {}", self.operand(a), op.word(), self.operand(b))
            }
            Expr::Concat(a, b) => format!("{} ++ {}", self.operand(a), self.operand(b)),
            Expr::Ternary(c, a, b) => format!(
                "{} ? {} : {}",
                self.operand(c),
                self.operand(a),
                self.operand(b)
            ),
            simple => self.operand(simple),
        }
    }

    /// Formats an expression, in parentheses unless it is a primary expression.
    fn operand(&self, e: &Expr) -> String {
        match e {
            Expr::Const(ty, v) => self.constant(*ty, v),
            Expr::Read(place) => self.place(place),
            Expr::Param(at) => format!("%{}", names::at(&self.params, *at as usize)),
            Expr::Unary(op, a) => format!("{}{}", op.word(), self.operand(a)),
            Expr::Slice(a, hi, lo) if matches!(**a, Expr::Unary(..)) => {
                format!("({})[{hi}:{lo}]", self.operand(a))
            }
            Expr::Slice(a, hi, lo) => format!("{}[{hi}:{lo}]", self.operand(a)),
            Expr::Cast(ty, a) => format!("{}({})", self.ty(*ty), self.expr(a)),
            Expr::VarbitEq(a, b) => format!("varbit_eq({}, {})", self.place(a), self.place(b)),
            Expr::VarbitLen(a) => format!("varbit_len({})", self.place(a)),
            Expr::Binary(..) | Expr::Concat(..) | Expr::Ternary(..) => {
                format!("({})", self.expr(e))
            }
        }
    }
}

/// Returns the member with this number, if its name is unambiguous.
fn member(members: &[String], number: u64) -> Option<&String> {
    let at = usize::try_from(number).ok()?;
    let member = members.get(at)?;
    (members.iter().position(|m| m == member) == Some(at)).then_some(member)
}
