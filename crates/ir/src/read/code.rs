//! Reads code: parsers, controls, statements and expressions.

use std::collections::HashMap;

use bits::{Id, IdVec, Value};
use support::work::checkpoint;

use super::{Failure, Kind, Names, Read, Reader};
use crate::code::*;
use crate::ops::Op;
use crate::program::*;
use crate::types::ScalarTy;
use crate::words::Word;

impl Reader<'_> {
    /// Declares the names of the states or stages in the next pair of braces, without advancing.
    fn declare_locals(&mut self, word: &str) -> Read<()> {
        let start = self.scan.here();
        self.scan.expect("{")?;
        let mut names = Names::default();
        while self.scan.eat_word(word) {
            checkpoint();
            names.declare(&self.scan.name()?);
            self.scan.skip_item()?;
        }
        self.names[Kind::Local as usize] = names;
        self.scan.go_to(start);
        Ok(())
    }

    pub(super) fn parser(&mut self) -> Read<()> {
        let name = self.declare(Kind::Parser)?;
        self.scan.keyword("start")?;
        let start_at = self.scan.here();
        // The start state is declared further down: look it up there first.
        if !self.scan.eat("#") {
            self.scan.name()?;
        } else {
            self.scan.number::<u32>()?;
        }
        self.declare_locals("state")?;
        self.scan.go_to(start_at);
        let start = self.id(Kind::Local)?;
        let mut states = IdVec::new();
        self.braced(|r| {
            states.push(r.state()?);
            Ok(())
        })?;
        self.out.parsers.push(Parser {
            name,
            states,
            start,
        });
        Ok(())
    }

    fn state(&mut self) -> Read<State> {
        self.scan.keyword("state")?;
        let name = self.scan.name()?;
        let loc = self.loc()?;
        self.scan.expect("{")?;
        let mut body = Vec::new();
        let transition = loop {
            match self.scan.peek_ident() {
                "goto" => break self.goto()?,
                "select" => break self.select()?,
                _ => body.push(self.stmt()?),
            }
        };
        self.scan.expect("}")?;
        Ok(State {
            name,
            body,
            transition,
            loc,
        })
    }

    fn goto(&mut self) -> Read<Transition> {
        self.scan.keyword("goto")?;
        let target = self.target()?;
        self.scan.expect(";")?;
        Ok(Transition::Direct(target))
    }

    fn target(&mut self) -> Read<Target> {
        if self.scan.eat_word("accept") {
            Ok(Target::Accept)
        } else if self.scan.eat_word("reject") {
            Ok(Target::Reject)
        } else {
            Ok(Target::State(self.id(Kind::Local)?))
        }
    }

    fn select(&mut self) -> Read<Transition> {
        self.scan.keyword("select")?;
        let keys = self.list("(", ")", Self::expr)?;
        let mut cases = Vec::new();
        self.braced(|r| {
            let keyset = if r.scan.eat_word("value_set") {
                Keyset::ValueSet(r.id(Kind::ValueSet)?)
            } else {
                Keyset::Sets(r.list("(", ")", Self::key_set)?)
            };
            r.scan.expect(":")?;
            let target = r.target()?;
            cases.push(SelectCase { keyset, target });
            r.scan.expect(";")
        })?;
        Ok(Transition::Select { keys, cases })
    }

    fn key_set(&mut self) -> Read<KeySet> {
        if self.scan.eat_word("_") {
            return Ok(KeySet::Any);
        }
        if self.scan.eat_word("value_set") {
            return Ok(KeySet::ValueSet(self.id(Kind::ValueSet)?));
        }
        let value = self.expr()?;
        if self.scan.eat("&&&") {
            return Ok(KeySet::Mask(value, self.expr()?));
        }
        if self.scan.eat("..") {
            return Ok(KeySet::Range(value, self.expr()?));
        }
        Ok(KeySet::Value(value))
    }

    pub(super) fn control(&mut self) -> Read<()> {
        let name = self.declare(Kind::Control)?;
        self.declare_locals("stage")?;
        let mut stages = IdVec::new();
        self.braced(|r| {
            stages.push(r.stage()?);
            Ok(())
        })?;
        self.out.controls.push(Control { name, stages });
        Ok(())
    }

    fn stage(&mut self) -> Read<Stage> {
        self.scan.keyword("stage")?;
        let name = self.scan.name()?;
        let loc = self.loc()?;
        self.scan.expect(":")?;
        let at = self.scan.here();
        let kind = match self.scan.ident()? {
            "condition" => {
                let cond = self.expr()?;
                self.scan.keyword("then")?;
                let then = self.next()?;
                self.scan.keyword("else")?;
                let otherwise = self.next()?;
                self.scan.expect(";")?;
                StageKind::Condition {
                    cond,
                    then,
                    otherwise,
                }
            }
            "match" => self.match_stage()?,
            "action" => {
                self.scan.keyword("next")?;
                let next = self.next()?;
                let body = self.body()?;
                StageKind::Action { body, next }
            }
            other => {
                let message = format!("a stage is 'condition', 'match' or 'action', not '{other}'");
                return Err(Failure { at, message });
            }
        };
        Ok(Stage { name, kind, loc })
    }

    fn match_stage(&mut self) -> Read<StageKind> {
        let table = self.id(Kind::Table)?;
        let mut outcome = MatchOutcome::default();
        if self.scan.eat_word("hit") {
            outcome.hit = Some(self.id(Kind::Field)?);
        }
        if self.scan.eat_word("action_run") {
            outcome.action_run = Some(self.id(Kind::Field)?);
        }
        self.scan.keyword("next")?;
        let next = if self.scan.eat_word("hit") {
            let hit = self.next()?;
            self.scan.keyword("miss")?;
            let miss = self.next()?;
            MatchNext::ByHit { hit, miss }
        } else if self.scan.eat_word("by_action") {
            MatchNext::ByAction(self.list("(", ")", Self::next)?)
        } else {
            MatchNext::Always(self.next()?)
        };
        self.scan.expect(";")?;
        Ok(StageKind::Match {
            table,
            outcome,
            next,
        })
    }

    fn next(&mut self) -> Read<Next> {
        if self.scan.eat_word("end") {
            Ok(Next::End)
        } else {
            Ok(Next::Stage(self.id(Kind::Local)?))
        }
    }

    /// Reads `{ statements }`.
    pub(super) fn body(&mut self) -> Read<Vec<Stmt>> {
        self.nested(|r| {
            let mut stmts = Vec::new();
            r.braced(|r| {
                stmts.push(r.stmt()?);
                Ok(())
            })?;
            Ok(stmts)
        })
    }

    fn stmt(&mut self) -> Read<Stmt> {
        if let Some(stmt) = self.compound()? {
            return Ok(stmt);
        }
        let kind = self.simple()?;
        self.scan.expect(";")?;
        let loc = self.loc()?;
        Ok(Stmt { kind, loc })
    }

    /// Reads a statement with a body, if one comes next.
    fn compound(&mut self) -> Read<Option<Stmt>> {
        let word = self.scan.peek_ident();
        if !["if", "block", "loop", "atomic"].contains(&word) {
            return Ok(None);
        }
        self.scan.keyword(word)?;
        let (loc, kind) = match word {
            "if" => {
                self.scan.expect("(")?;
                let cond = self.expr()?;
                self.scan.expect(")")?;
                let loc = self.loc()?;
                let then = self.body()?;
                let otherwise = if self.scan.eat_word("else") {
                    self.body()?
                } else {
                    Vec::new()
                };
                (loc, StmtKind::If(cond, then, otherwise))
            }
            "atomic" => (self.loc()?, StmtKind::Atomic(self.body()?)),
            _ => {
                let label = LabelId::new(self.scan.number()?);
                let loc = self.loc()?;
                let body = self.body()?;
                let kind = if word == "loop" {
                    StmtKind::Loop(label, body)
                } else {
                    StmtKind::Block(label, body)
                };
                (loc, kind)
            }
        };
        Ok(Some(Stmt { kind, loc }))
    }

    fn simple(&mut self) -> Read<StmtKind> {
        let start = self.scan.here();
        let word = self.scan.peek_ident();
        if !word.is_empty() {
            self.scan.keyword(word)?;
        }
        Ok(match word {
            "varbit" => {
                let to = self.place()?;
                self.scan.expect("=")?;
                StmtKind::AssignVarbit(to, self.place()?)
            }
            "clear" => StmtKind::ClearVarbit(self.place()?),
            "header" => {
                let to = self.header_place()?;
                self.scan.expect("=")?;
                StmtKind::CopyHeader(to, self.header_place()?)
            }
            "leave" => StmtKind::Leave(LabelId::new(self.scan.number()?)),
            "continue" => StmtKind::Continue(LabelId::new(self.scan.number()?)),
            "exit" => StmtKind::Exit,
            "run" => {
                let action = self.id(Kind::Action)?;
                StmtKind::CallAction(action, self.list("(", ")", Self::expr)?)
            }
            "extract" => {
                let header = self.header_place()?;
                let size = if self.scan.eat(",") {
                    Some(self.expr()?)
                } else {
                    None
                };
                StmtKind::Extract(header, size)
            }
            "advance" => StmtKind::Advance(self.expr()?),
            "lookahead" => self.lookahead()?,
            "packet_length" => StmtKind::PacketLength(self.place()?),
            "verify" => {
                let cond = self.expr()?;
                self.scan.expect(",")?;
                StmtKind::Verify(cond, self.expr()?)
            }
            "fail" => {
                self.scan.keyword("error")?;
                let at = self.scan.here();
                let error = u32::try_from(self.error_number()?).map_err(|_| Failure {
                    at,
                    message: "there is no such error".to_owned(),
                })?;
                StmtKind::Fail(error)
            }
            "emit" => StmtKind::Emit(self.header_place()?),
            "emit_field" => StmtKind::EmitField(self.place()?),
            "push_front" | "pop_front" => {
                let stack = self.id(Kind::Stack)?;
                self.scan.expect(",")?;
                let n = self.scan.number()?;
                if word == "push_front" {
                    StmtKind::PushFront(stack, n)
                } else {
                    StmtKind::PopFront(stack, n)
                }
            }
            "call" => self.call()?,
            _ => {
                self.scan.go_to(start);
                self.assign()?
            }
        })
    }

    fn assign(&mut self) -> Read<StmtKind> {
        let place = self.place()?;
        if self.scan.eat("[") {
            let hi = self.scan.number()?;
            self.scan.expect(":")?;
            let lo = self.scan.number()?;
            self.scan.expect("]")?;
            self.scan.expect("=")?;
            return Ok(StmtKind::AssignSlice(place, hi, lo, self.expr()?));
        }
        self.scan.expect("=")?;
        Ok(StmtKind::Assign(place, self.expr()?))
    }

    fn lookahead(&mut self) -> Read<StmtKind> {
        let total = self.scan.number()?;
        let dests = self.list("(", ")", |r| {
            let place = r.place()?;
            r.scan.keyword("at")?;
            Ok((place, r.scan.number()?))
        })?;
        Ok(StmtKind::Lookahead { total, dests })
    }

    fn call(&mut self) -> Read<StmtKind> {
        let at = self.scan.here();
        let name = self.op_name()?;
        let op = Op::from_name(&name).ok_or_else(|| Failure {
            at,
            message: format!("there is no operation '{name}'"),
        })?;
        let instance = if self.scan.eat_word("on") {
            Some(self.id(Kind::Extern)?)
        } else {
            None
        };
        let operands = self.list("(", ")", Self::call_operand)?;
        Ok(StmtKind::Call(Call {
            op,
            instance,
            operands,
        }))
    }

    /// Reads words joined by dots.
    fn op_name(&mut self) -> Read<String> {
        let mut name = self.scan.ident()?.to_owned();
        while self.scan.eat(".") {
            checkpoint();
            name.push('.');
            name.push_str(self.scan.ident()?);
        }
        Ok(name)
    }

    fn call_operand(&mut self) -> Read<Operand> {
        if self.scan.eat_word("out") {
            if self.scan.looking_at("{") {
                return Ok(Operand::Outs(self.list("{", "}", Self::place)?));
            }
            return Ok(Operand::Out(self.place()?));
        }
        if self.scan.looking_at("{") {
            return Ok(Operand::Data(self.list("{", "}", Self::expr)?));
        }
        if self.scan.looking_at("\"") {
            return Ok(Operand::Text(self.scan.text()?));
        }
        if self.scan.eat("=") {
            return Ok(Operand::Number(self.scan.number()?));
        }
        Ok(Operand::In(self.expr()?))
    }

    fn place(&mut self) -> Read<Place> {
        let base = self.id(Kind::Field)?;
        let dims = self.dims()?;
        Ok(Place { base, dims })
    }

    fn header_place(&mut self) -> Read<HeaderPlace> {
        let base = self.id(Kind::Header)?;
        let dims = self.dims()?;
        Ok(HeaderPlace { base, dims })
    }

    fn dims(&mut self) -> Read<Vec<Dim>> {
        let mut dims = Vec::new();
        while self.scan.eat("{") {
            checkpoint();
            let index = self.expr()?;
            self.scan.keyword("in")?;
            let len = self.scan.number()?;
            self.scan.keyword("by")?;
            let stride = self.scan.number()?;
            self.scan.expect("}")?;
            dims.push(Dim { index, len, stride });
        }
        Ok(dims)
    }

    /// Reads operands joined by at most one operator.
    pub(super) fn expr(&mut self) -> Read<Expr> {
        let a = self.operand()?;
        if self.scan.eat("?") {
            let b = self.operand()?;
            self.scan.expect(":")?;
            let c = self.operand()?;
            return Ok(Expr::Ternary(Box::new(a), Box::new(b), Box::new(c)));
        }
        if self.scan.looking_at("&&&") || self.scan.looking_at("..") {
            return Ok(a);
        }
        if self.scan.eat("++") {
            return Ok(Expr::Concat(Box::new(a), Box::new(self.operand()?)));
        }
        let op = BinOp::WORDS.iter().find(|(_, op)| self.scan.eat(op));
        match op {
            Some((op, _)) => Ok(Expr::Binary(*op, Box::new(a), Box::new(self.operand()?))),
            None => Ok(a),
        }
    }

    fn operand(&mut self) -> Read<Expr> {
        self.nested(|r| {
            for (op, sign) in UnOp::WORDS {
                checkpoint();
                if r.scan.eat(sign) {
                    return Ok(Expr::Unary(*op, Box::new(r.operand()?)));
                }
            }
            let mut e = r.primary()?;
            while r.scan.eat("[") {
                checkpoint();
                let hi = r.scan.number()?;
                r.scan.expect(":")?;
                let lo = r.scan.number()?;
                r.scan.expect("]")?;
                e = Expr::Slice(Box::new(e), hi, lo);
            }
            Ok(e)
        })
    }

    fn primary(&mut self) -> Read<Expr> {
        if self.scan.eat("(") {
            let e = self.expr()?;
            self.scan.expect(")")?;
            return Ok(e);
        }
        if self.scan.eat("%") {
            return Ok(Expr::Param(self.reference(Kind::Param)?));
        }
        let word = self.scan.peek_ident();
        match word {
            "true" | "false" => {
                self.scan.keyword(word)?;
                let value = Value::truncated(u128::from(word == "true"), 1);
                Ok(Expr::Const(ScalarTy::Bool, value))
            }
            "varbit_eq" => {
                self.scan.keyword(word)?;
                self.scan.expect("(")?;
                let a = self.place()?;
                self.scan.expect(",")?;
                let b = self.place()?;
                self.scan.expect(")")?;
                Ok(Expr::VarbitEq(a, b))
            }
            "varbit_len" => {
                self.scan.keyword(word)?;
                self.scan.expect("(")?;
                let a = self.place()?;
                self.scan.expect(")")?;
                Ok(Expr::VarbitLen(a))
            }
            "bit" | "int" | "bool" | "error" | "enum" => self.typed(),
            _ if word.starts_with(|c: char| c.is_ascii_digit()) => {
                let (value, signed) = self.scan.literal()?;
                let width = value.width();
                let ty = if signed {
                    ScalarTy::Int(width)
                } else {
                    ScalarTy::Bit(width)
                };
                Ok(Expr::Const(ty, value))
            }
            _ => Ok(Expr::Read(self.place()?)),
        }
    }

    /// Reads an expression that begins with a type: a cast, `error.Name`, `enum E::Member`.
    fn typed(&mut self) -> Read<Expr> {
        let at = self.scan.here();
        let ty = self.ty()?;
        let number = match ty {
            ScalarTy::Error if self.scan.looking_at(".") => self.error_number()?,
            ScalarTy::Enum(id) if self.scan.eat("::") => {
                self.member(|reader| reader.members.get(id.index()))?
            }
            _ => {
                self.scan.expect("(")?;
                let e = self.expr()?;
                self.scan.expect(")")?;
                return Ok(Expr::Cast(ty, Box::new(e)));
            }
        };
        let value = Value::from_u128(u128::from(number), 32).map_err(|e| Failure {
            at,
            message: e.to_string(),
        })?;
        Ok(Expr::Const(ty, value))
    }

    /// Reads `.Name` of an error.
    fn error_number(&mut self) -> Read<u64> {
        self.scan.expect(".")?;
        self.member(|reader| Some(&reader.errors))
    }

    /// Reads the name of a member, or its number after `#`.
    fn member(&mut self, members: impl Fn(&Self) -> Option<&HashMap<String, u64>>) -> Read<u64> {
        if self.scan.eat("#") {
            return self.scan.number();
        }
        let at = self.scan.here();
        let name = self.scan.name()?;
        let number = members(self).and_then(|members| members.get(&name));
        number.copied().ok_or_else(|| Failure {
            at,
            message: format!("there is no member '{name}'"),
        })
    }
}
