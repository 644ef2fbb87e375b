//! Statements without bodies.

use bits::Value;
use ir::{BinOp, Expr, FieldId, HeaderPlace, Operand, Place, ScalarTy, StackId, Stmt, StmtKind};

use super::PrintError;
use super::body::{Body, Out};
use super::expr::{Choices, MAX_CHOICES, Term};
use super::flow::{Code, Test};
use super::storage::FieldHome;
use crate::uses::{Uses, fields_of};

impl Body<'_> {
    /// Appends a statement.
    pub(super) fn stmt(&mut self, stmt: &Stmt, out: &mut Vec<Out>) -> Result<(), PrintError> {
        let line = |out: &mut Vec<Out>, text: String| out.push(Out::Line(text));
        match &stmt.kind {
            // No control reads the index of such a stack.
            StmtKind::Assign(place, _)
                if !self.is_parser()
                    && matches!(self.storage.field(place.base), FieldHome::Next(_)) => {}
            StmtKind::Assign(place, value) => {
                let value = self.term(value)?;
                self.write(place, value, out)?;
            }
            StmtKind::AssignSlice(place, hi, lo, value) => {
                self.write_slice(place, (*hi, *lo), value, out)?;
            }
            StmtKind::AssignVarbit(to, from) => {
                let value = Term::primary(self.varbit(from)?);
                self.write(to, value, out)?;
            }
            StmtKind::ClearVarbit(_) => return Err(self.error("an empty `varbit`")),
            StmtKind::CopyHeader(to, from) => self.copy(to, from, out)?,
            StmtKind::CallAction(action, args) => {
                let name = self.action_name(*action)?.to_owned();
                let params = &self.program.actions[*action].params;
                let mut texts = Vec::new();
                for (arg, param) in args.iter().zip(params) {
                    let term = self.term(arg)?;
                    texts.push(self.value_of_named(&param.data_ty, term).text);
                }
                line(out, format!("{name}({});", texts.join(", ")));
            }
            StmtKind::Extract(header, size) => {
                let size = match size {
                    Some(size) => format!(", {}", self.text(size)?),
                    None => String::new(),
                };
                let extract = |header: &str| format!("packet.extract({header}{size});");
                let otherwise = || {
                    let fails = "verify(false, error.StackOutOfBounds);";
                    vec![Out::Line(fails.to_owned())]
                };
                self.each(header, extract, otherwise(), out)?;
            }
            StmtKind::Advance(amount) => {
                line(out, format!("packet.advance({});", self.text(amount)?));
            }
            StmtKind::Lookahead { total, dests } => self.lookahead(*total, dests, out)?,
            StmtKind::PacketLength(place) => {
                self.write(place, Term::primary("packet.length()"), out)?;
            }
            StmtKind::Verify(cond, error) => {
                let (cond, error) = (self.text(cond)?, self.text(error)?);
                line(out, format!("verify({cond}, {error});"));
            }
            StmtKind::Fail(error) => {
                let error =
                    self.constant(ScalarTy::Error, &Value::truncated(*error as u128, 32))?;
                line(out, format!("verify(false, {});", error.text));
            }
            StmtKind::Emit(header) => {
                self.each(
                    header,
                    |header| format!("packet.emit({header});"),
                    Vec::new(),
                    out,
                )?;
            }
            StmtKind::EmitField(_) => {
                return Err(self.error("the emission of a value that is no header"));
            }
            StmtKind::PushFront(stack, count) => {
                self.check_stack(*stack)?;
                let path = self.storage.stack(*stack);
                line(out, format!("{path}.push_front({count});"));
            }
            StmtKind::PopFront(stack, count) => {
                self.check_stack(*stack)?;
                let path = self.storage.stack(*stack);
                line(out, format!("{path}.pop_front({count});"));
            }
            StmtKind::Call(call) => self.call(call, out)?,
            StmtKind::If(..)
            | StmtKind::Block(..)
            | StmtKind::Loop(..)
            | StmtKind::Atomic(..)
            | StmtKind::Leave(_)
            | StmtKind::Continue(_)
            | StmtKind::Exit => {}
        }
        Ok(())
    }

    /// Rejects an operation on a whole stack with an index that is a variable.
    fn check_stack(&self, stack: StackId) -> Result<(), PrintError> {
        if self.is_parser() {
            return Err(self.error("`push_front` or `pop_front` in a parser"));
        }
        self.check_write(self.storage.stack(stack))
    }

    /// Writes bits of a scalar.
    fn write_slice(
        &self,
        place: &Place,
        (hi, lo): (u32, u32),
        value: &Expr,
        out: &mut Vec<Out>,
    ) -> Result<(), PrintError> {
        let ty = self.program.fields[place.base].ty;
        let from = self.ty(value)?;
        let value = self.term(value)?;
        let value = match from {
            ScalarTy::Int(width) => Term::primary(format!("(bit<{width}>){}", value.tight())),
            _ => value,
        };
        if let (Some(path), ScalarTy::Bit(_)) = (self.direct(place)?, ty) {
            self.check_write(&path)?;
            out.push(Out::Line(format!("{path}[{hi}:{lo}] = {};", value.text)));
            return Ok(());
        }
        // The bits around the slice stay.
        let width = ty.width();
        let old = self.term(&Expr::Read(place.clone()))?.tight();
        let mut parts = Vec::new();
        if hi + 1 < width {
            parts.push(format!("{old}[{}:{}]", width - 1, hi + 1));
        }
        parts.push(value.operand());
        if lo > 0 {
            parts.push(format!("{old}[{}:0]", lo - 1));
        }
        let whole = parts.join(" ++ ");
        let whole = match ty {
            ScalarTy::Int(width) => Term::primary(format!("(int<{width}>)({whole})")),
            _ if parts.len() == 1 => Term::primary(whole),
            _ => Term::primary(format!("({whole})")),
        };
        self.write(place, whole, out)
    }

    /// Appends a statement for the header that a place denotes, or `otherwise` if its index is out
    /// of range.
    fn each(
        &self,
        header: &HeaderPlace,
        text: impl Fn(&str) -> String,
        otherwise: Vec<Out>,
        out: &mut Vec<Out>,
    ) -> Result<(), PrintError> {
        match self.headers(header)? {
            Choices::One(header) => out.push(Out::Line(text(&header))),
            Choices::Many(all) => {
                let arms = all.into_iter();
                let arms = arms.map(|(cond, header)| (cond, vec![Out::Line(text(&header))]));
                out.push(Out::If(arms.collect(), otherwise));
            }
        }
        Ok(())
    }

    fn copy(
        &self,
        to: &HeaderPlace,
        from: &HeaderPlace,
        out: &mut Vec<Out>,
    ) -> Result<(), PrintError> {
        match (self.headers(to)?, self.headers(from)?) {
            (Choices::One(to), Choices::One(from)) => {
                self.check_write(&to)?;
                out.push(Out::Line(format!("{to} = {from};")));
            }
            (Choices::Many(all), Choices::One(from)) => {
                let arms = all.into_iter();
                let arms = arms.map(|(cond, to)| {
                    let copy = Out::Line(format!("{to} = {from};"));
                    (cond, vec![copy])
                });
                out.push(Out::If(arms.collect(), Vec::new()));
            }
            (Choices::One(to), Choices::Many(all)) => {
                self.check_write(&to)?;
                let arms = all.into_iter();
                let arms = arms.map(|(cond, from)| {
                    let copy = Out::Line(format!("{to} = {from};"));
                    (cond, vec![copy])
                });
                // An index out of range reads an invalid header.
                let otherwise = vec![Out::Line(format!("{to}.setInvalid();"))];
                out.push(Out::If(arms.collect(), otherwise));
            }
            (Choices::Many(all), Choices::Many(others)) => {
                if all.len() * others.len() > MAX_CHOICES {
                    let message = "a copy between headers of large arrays with indices";
                    return Err(self.error(message));
                }
                let mut arms = Vec::new();
                for (cond, to) in all {
                    let copies = others.iter();
                    let copies = copies.map(|(cond, from)| {
                        let copy = Out::Line(format!("{to} = {from};"));
                        (cond.clone(), vec![copy])
                    });
                    let otherwise = vec![Out::Line(format!("{to}.setInvalid();"))];
                    arms.push((cond, vec![Out::If(copies.collect(), otherwise)]));
                }
                out.push(Out::If(arms, Vec::new()));
            }
        }
        Ok(())
    }

    /// Reads ahead into one wide value, and takes its parts.
    fn lookahead(
        &mut self,
        total: u32,
        dests: &[(Place, u32)],
        out: &mut Vec<Out>,
    ) -> Result<(), PrintError> {
        if total == 0 {
            return Ok(());
        }
        let ty = format!("bit<{total}>");
        let read = format!("packet.lookahead<{ty}>()");
        if let [(place, 0)] = dests
            && self.program.fields[place.base].ty == ScalarTy::Bit(total)
        {
            return self.write(place, Term::primary(read), out);
        }
        let name = self.names.fresh("ahead");
        out.push(Out::Line(format!("{ty} {name} = {read};")));
        for (place, offset) in dests {
            let ty = self.program.fields[place.base].ty;
            let (hi, lo) = (total - 1 - offset, total - offset - ty.width());
            let bits = format!("{name}[{hi}:{lo}]");
            let value = match ty {
                ScalarTy::Bit(_) => Term::primary(bits),
                ScalarTy::Int(width) => Term::primary(format!("(int<{width}>){bits}")),
                ScalarTy::Bool => Term::primary(format!("(bool){bits}")),
                _ => return Err(self.error(format!("a value of {ty:?} that is read ahead"))),
            };
            self.write(place, value, out)?;
        }
        Ok(())
    }

    /// Extracts into the next element of a stack.
    pub(super) fn extract_next(
        &mut self,
        stmt: &Stmt,
        out: &mut Vec<Out>,
    ) -> Result<(), PrintError> {
        self.loc.set(stmt.loc.or(self.loc.get()));
        self.stmt(stmt, out)?;
        let StmtKind::Extract(header, _) = &stmt.kind else {
            return Ok(());
        };
        let [dim] = header.dims.as_slice() else {
            return Ok(());
        };
        let native = self.storage.stack_of(header.base);
        let is_native = native.is_some_and(|stack| {
            self.storage.is_native(stack) && self.names_native(&dim.index, stack) == Some(true)
        });
        if !is_native && let Expr::Read(index) = &dim.index {
            let next = format!("{} + 32w1", self.term(&dim.index)?.operand());
            self.write(index, Term::primary(next), out)?;
        }
        Ok(())
    }

    /// Returns true if two statements are v1model's `mark_to_drop`.
    pub(super) fn is_drop(&self, first: &Stmt, second: Option<&Code<'_>>) -> bool {
        let Some(Code::Stmt(second)) = second else {
            return false;
        };
        let intrinsic = |name: &str| self.program.pipeline.intrinsics.get(name).copied();
        let writes = |stmt: &Stmt, name: &str, value: fn(u32) -> Value| match &stmt.kind {
            StmtKind::Assign(place, Expr::Const(ty, number)) => {
                place.dims.is_empty()
                    && intrinsic(name) == Some(place.base)
                    && *number == value(ty.width())
            }
            _ => false,
        };
        writes(first, "standard_metadata.egress_spec", Value::all_ones)
            && writes(second, "standard_metadata.mcast_grp", Value::zero)
    }

    /// Returns true if a check of a stack's index is implied by what follows: an access to the
    /// stack's `last` or `next` checks it, too.
    pub(super) fn is_implied(&self, cond: &Expr, next: Option<&Code<'_>>) -> bool {
        let Expr::Binary(BinOp::Lt, index, _) = cond else {
            return false;
        };
        if !self.is_parser() {
            return false;
        }
        let stacks = self.program.stacks.iter();
        let mut stacks = stacks.filter(|(id, _)| {
            self.storage.is_native(*id) && self.names_native(index, *id).is_some()
        });
        let Some((_, stack)) = stacks.next() else {
            return false;
        };
        let uses = match next {
            Some(Code::Stmt(stmt)) => Uses::of_stmt(self.program, stmt),
            Some(Code::If(Test::Expr(cond), ..)) => Uses::of_expr(self.program, cond),
            Some(_) => return false,
            None => match &self.behind {
                Some(uses) => uses.clone(),
                None => return false,
            },
        };
        let fields: Vec<FieldId> = fields_of(self.program, stack.first).collect();
        fields.iter().any(|field| uses.indexed.contains(field))
    }

    /// Reads a running ones' complement checksum over data.
    pub(super) fn checksum(
        &mut self,
        add: &Stmt,
        get: &Stmt,
        out: &mut Vec<Out>,
    ) -> Result<(), PrintError> {
        let (StmtKind::Call(add), StmtKind::Call(get)) = (&add.kind, &get.kind) else {
            return Ok(());
        };
        let (Some(id), [Operand::Data(data)], [Operand::Out(place)]) = (
            add.instance,
            add.operands.as_slice(),
            get.operands.as_slice(),
        ) else {
            return Err(self.error("a running checksum"));
        };
        let name = &self.externs[id];
        let value = format!("{name}.get({})", self.data_list(data)?);
        self.write(place, Term::primary(value), out)
    }
}
