//! Parsers, controls and statements.

use bits::{Id, Value};
use ir::{
    BinOp, Control, ControlId, Expr, FieldId, HeaderId, HeaderPlace, KeySet, Keyset, LabelId,
    MatchNext, Next, Parser, ParserId, ScalarTy, StackId, StageId, StageKind, Stmt, StmtKind,
    Target, Transition,
};

use super::expr::{malformed, zeros};
use super::value::{Bit, Knowledge, Word};
use super::{End, Frame, ParsedField, Walk};
use crate::flow::NotOffloadable;

/// Place at which code goes on after a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The next statement.
    Next,
    /// The end of a block or loop.
    Leave(LabelId),
    /// The next iteration of a loop.
    Continue(LabelId),
    /// The end of the parser or control.
    Exit,
}

impl Walk<'_> {
    /// Runs a parser. Returns the number of its error.
    pub(super) fn parser(&mut self, id: ParserId, parser: &Parser) -> Result<u32, End> {
        match self.states(id, parser) {
            Ok(()) => Ok(0),
            Err(End::Reject(error)) => Ok(error),
            Err(end) => Err(end),
        }
    }

    fn states(&mut self, id: ParserId, parser: &Parser) -> Result<(), End> {
        let mut at = parser.start;
        loop {
            self.step()?;
            self.spend_on_state(id, at)?;
            let state = parser.states.get(at).ok_or_else(malformed)?;
            if self.body(&state.body)? == After::Exit {
                return Ok(());
            }
            let target = match &state.transition {
                Transition::Direct(target) => *target,
                Transition::Select { keys, cases } => {
                    let signed = keys.iter().map(|key| self.is_signed(key));
                    let signed = signed.collect::<Result<Vec<_>, _>>()?;
                    let keys = keys.iter().map(|key| self.eval(key));
                    let keys = keys.collect::<Result<Vec<_>, _>>()?;
                    let mut found = None;
                    for case in cases {
                        if self.is_in(&case.keyset, &keys, &signed)? {
                            found = Some(case.target);
                            break;
                        }
                    }
                    found.ok_or(End::Reject(self.errors.no_match))?
                }
            };
            at = match target {
                Target::Accept => return Ok(()),
                Target::Reject => return Err(End::Reject(0)),
                Target::State(next) => next,
            };
        }
    }

    fn is_in(&mut self, keyset: &Keyset, keys: &[Word], signed: &[bool]) -> Result<bool, End> {
        let sets = match keyset {
            Keyset::ValueSet(set) => return self.is_in_value_set(*set, keys),
            Keyset::Sets(sets) => sets,
        };
        for ((set, key), signed) in sets.iter().zip(keys).zip(signed) {
            let is_in = match set {
                _ if key.is_empty() => true,
                KeySet::Any => true,
                KeySet::Value(value) => {
                    let value = self.eval(value)?;
                    self.know.is_equal(key, &value)?
                }
                KeySet::Mask(value, mask) => {
                    let (value, mask) = (self.eval(value)?, self.eval(mask)?);
                    let a = self.bitwise(BinOp::And, key, &mask);
                    let b = self.bitwise(BinOp::And, &value, &mask);
                    self.know.is_equal(&a, &b)?
                }
                KeySet::Range(lo, hi) => {
                    let (lo, hi) = (self.eval(lo)?, self.eval(hi)?);
                    self.is_between(key, (&lo, &hi), *signed)?
                }
                KeySet::ValueSet(set) => self.is_in_value_set(*set, std::slice::from_ref(key))?,
            };
            if !is_in {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs a control.
    pub(super) fn control(&mut self, of: ControlId, control: &Control) -> Result<(), End> {
        let mut next = match control.stages.is_empty() {
            true => Next::End,
            false => Next::Stage(StageId::from_index(0)),
        };
        while let Next::Stage(id) = next {
            self.step()?;
            self.spend_on_stage(of, id)?;
            let stage = control.stages.get(id).ok_or_else(malformed)?;
            next = match &stage.kind {
                StageKind::Condition {
                    cond,
                    then,
                    otherwise,
                } => match self.decide(cond)? {
                    true => *then,
                    false => *otherwise,
                },
                StageKind::Action { body, next } => match self.body(body)? {
                    After::Exit => Next::End,
                    _ => *next,
                },
                StageKind::Match {
                    table,
                    outcome,
                    next,
                } => {
                    let Some(applied) = self.apply(*table, outcome)? else {
                        return Ok(());
                    };
                    match next {
                        MatchNext::Always(next) => *next,
                        MatchNext::ByHit { hit, miss } => match applied.hit {
                            true => *hit,
                            false => *miss,
                        },
                        MatchNext::ByAction(nexts) => {
                            let next = applied.position.and_then(|at| nexts.get(at as usize));
                            next.copied().unwrap_or(Next::End)
                        }
                    }
                }
            };
            if let Next::Stage(to) = next
                && to <= id
            {
                self.spend_on_link(control, id, to)?;
            }
        }
        Ok(())
    }

    /// Runs an action. Returns true if it ends the control.
    pub(super) fn action(&mut self, id: ir::ActionId, params: Vec<Word>) -> Result<bool, End> {
        let action = self.program.actions.get(id).ok_or_else(malformed)?;
        self.spend_on_action(id)?;
        self.frames.push(Frame {
            action: Some(id),
            params,
        });
        let after = self.body(&action.body);
        self.frames.pop();
        Ok(after? == After::Exit)
    }

    pub(super) fn body(&mut self, stmts: &[Stmt]) -> Result<After, End> {
        for stmt in stmts {
            let after = self.stmt(&stmt.kind)?;
            if after != After::Next {
                return Ok(after);
            }
        }
        Ok(After::Next)
    }

    fn stmt(&mut self, stmt: &StmtKind) -> Result<After, End> {
        self.step()?;
        match stmt {
            StmtKind::Assign(place, value) => {
                let value = self.eval(value)?;
                self.write(place, value)?;
            }
            StmtKind::AssignSlice(place, hi, lo, value) => {
                let value = self.eval(value)?;
                let mut whole = self.read(place)?;
                let part = whole.get_mut(*lo as usize..=*hi as usize);
                let part = part.ok_or_else(malformed)?;
                part.copy_from_slice(value.get(..part.len()).ok_or_else(malformed)?);
                self.write(place, whole)?;
            }
            StmtKind::AssignVarbit(place, from) => {
                let value = self.read(from)?;
                self.write(place, value)?;
            }
            StmtKind::ClearVarbit(place) => self.write(place, Word::new())?,
            StmtKind::CopyHeader(to, from) => self.copy_header(to, from)?,
            StmtKind::If(cond, then, otherwise) => {
                let taken = match self.decide(cond)? {
                    true => then,
                    false => otherwise,
                };
                return self.body(taken);
            }
            StmtKind::Block(label, body) => {
                let after = self.body(body)?;
                let is_left = after == After::Leave(*label) || after == After::Continue(*label);
                return Ok(if is_left { After::Next } else { after });
            }
            StmtKind::Loop(label, body) => {
                let action = self.frames.last().and_then(|frame| frame.action);
                let action = action.and_then(|id| self.program.actions.get(id));
                let params = action.map_or(&[][..], |action| &action.params);
                let cost = self.cost_of_round(params, body);
                loop {
                    self.step()?;
                    self.spend_on_round(cost)?;
                    match self.body(body)? {
                        After::Leave(left) if left == *label => break,
                        After::Continue(next) if next == *label => {}
                        After::Next => {}
                        after => return Ok(after),
                    }
                }
            }
            StmtKind::Leave(label) => return Ok(After::Leave(*label)),
            StmtKind::Continue(label) => return Ok(After::Continue(*label)),
            StmtKind::Atomic(body) => return self.body(body),
            StmtKind::Exit => return Ok(After::Exit),
            StmtKind::CallAction(action, args) => {
                let args = args.iter().map(|arg| self.eval(arg));
                let args = args.collect::<Result<Vec<_>, _>>()?;
                if self.action(*action, args)? {
                    return Ok(After::Exit);
                }
            }
            StmtKind::Extract(header, size) => self.extract(header, size.as_ref())?,
            StmtKind::Advance(bits) => {
                let bits = self.number(bits)?.min(u64::from(u32::MAX));
                let end = self.job.cursor as u64 + bits;
                self.needs(end)?;
                self.job.cursor = end as usize;
            }
            StmtKind::Lookahead { total, dests } => {
                let start = self.job.cursor;
                self.needs(start as u64 + u64::from(*total))?;
                let mut values = Vec::new();
                for (place, offset) in dests {
                    let ty = place.ty(self.program).ok_or_else(malformed)?;
                    values.push(self.take(start + *offset as usize, ty.width())?);
                }
                for ((place, _), value) in dests.iter().zip(values) {
                    self.write(place, value)?;
                }
            }
            StmtKind::PacketLength(place) => {
                let ty = place.ty(self.program).ok_or_else(malformed)?;
                let length = self.know.length_plus(self.job.bytes.growth(), ty.width())?;
                self.write(place, length)?;
            }
            StmtKind::Verify(cond, error) => {
                if !self.decide(cond)? {
                    let error = self.number(error)?;
                    return Err(End::Reject(error as u32));
                }
            }
            StmtKind::Fail(error) => return Err(End::Reject(*error)),
            StmtKind::Emit(header) => self.emit(header)?,
            StmtKind::EmitField(place) => {
                let value = self.read(place)?;
                self.push_emitted(&value)?;
            }
            StmtKind::PushFront(stack, n) => self.push_front(*stack, *n)?,
            StmtKind::PopFront(stack, n) => self.pop_front(*stack, *n)?,
            StmtKind::Call(call) => self.call(call)?,
        }
        Ok(After::Next)
    }

    /// Requires that the packet has this number of bits.
    fn needs(&mut self, bits: u64) -> Result<(), End> {
        let bytes = i64::try_from(bits.div_ceil(8)).unwrap_or(i64::MAX >> 1);
        let prefix = self.job.bytes.prefix.len() as i64 / 8;
        let has = bytes <= prefix || self.know.has_length(bytes - self.job.bytes.growth());
        match has {
            true => Ok(()),
            false => Err(End::Reject(self.errors.packet_too_short)),
        }
    }

    /// Returns the bits of the packet from a position on. The packet has them.
    fn take(&self, start: usize, width: u32) -> Result<Word, End> {
        let (prefix, tail) = (&self.job.bytes.prefix, self.job.bytes.tail as usize * 8);
        let bit = |at: usize| match prefix.get(at) {
            Some(bit) => Ok(*bit),
            None => {
                let at = at - prefix.len() + tail;
                match at / 8 < self.know.frame().len() {
                    true => Ok(self.know.input(at as u32)),
                    false => Err(malformed()),
                }
            }
        };
        (start..start + width as usize).rev().map(bit).collect()
    }

    /// Returns the header of a place; `None` if an index is out of range.
    fn header_of(&mut self, place: &HeaderPlace) -> Result<Option<HeaderSpan>, End> {
        let header = self.program.headers.get(place.base).ok_or_else(malformed)?;
        let types = self.program.header_types.get(header.ty);
        let count = types.ok_or_else(malformed)?.fields.len();
        let mut first = header.valid.get() as usize;
        let mut is_inside = true;
        for (dim, stride) in place.dims.iter().zip(place.field_strides(self.program)) {
            let index = self.number(&dim.index)?;
            is_inside &= index < u64::from(dim.len);
            first += index.min(u64::from(dim.len)) as usize * stride as usize;
        }
        let end = first + count + 1;
        let span = HeaderSpan {
            base: place.base,
            first,
            end,
        };
        Ok((is_inside && end <= self.job.fields.len()).then_some(span))
    }

    fn header_fields(&self, header: HeaderId) -> Result<&[ir::HeaderField], End> {
        let declared = self.program.headers.get(header).ok_or_else(malformed)?;
        let ty = self.program.header_types.get(declared.ty);
        Ok(&ty.ok_or_else(malformed)?.fields)
    }

    fn extract(&mut self, place: &HeaderPlace, size: Option<&Expr>) -> Result<(), End> {
        let size = match size {
            Some(bits) => Some(self.number(bits)?),
            None => None,
        };
        let Some(span) = self.header_of(place)? else {
            return Err(End::Reject(self.errors.stack_out_of_bounds));
        };
        let types: Vec<ScalarTy> = self
            .header_fields(span.base)?
            .iter()
            .map(|f| f.ty)
            .collect();
        let is_varbit = |ty: &ScalarTy| matches!(ty, ScalarTy::Varbit(_));
        let fixed = types.iter().filter(|ty| !is_varbit(ty));
        let fixed: u64 = fixed.map(|ty| u64::from(ty.width())).sum();
        let varbit = size.unwrap_or(0);
        let most = types.iter().find(|ty| is_varbit(ty)).map(|ty| ty.width());
        if !varbit.is_multiple_of(8) && !fixed.wrapping_add(varbit).is_multiple_of(8) {
            return Err(End::Reject(self.errors.invalid_argument));
        }
        let end = (self.job.cursor as u64 + fixed).saturating_add(varbit);
        self.needs(end)?;
        if varbit > u64::from(most.unwrap_or(0)) {
            return Err(End::Reject(self.errors.header_too_short));
        }
        let mut start = self.job.cursor;
        for (ty, field) in types.iter().zip(span.first + 1..) {
            let width = if is_varbit(ty) {
                varbit as u32
            } else {
                ty.width()
            };
            self.job.fields[field] = self.take(start, width)?;
            // Later rounds take other bytes than those of the frame as it came in.
            if self.job.bytes.prefix.is_empty() && self.job.bytes.tail == 0 {
                self.parsed.push(ParsedField {
                    offset: start as u32,
                    width,
                    field: FieldId::from_index(field),
                });
            }
            start += width as usize;
        }
        self.job.fields[span.first] = vec![Bit::Known(true)];
        self.job.cursor = end as usize;
        Ok(())
    }

    fn emit(&mut self, place: &HeaderPlace) -> Result<(), End> {
        let Some(span) = self.header_of(place)? else {
            return Ok(());
        };
        let valid = self.job.fields[span.first].clone();
        if self.know.fix_number(&valid)? == 0 {
            return Ok(());
        }
        for field in span.first + 1..span.end {
            let value = self.job.fields[field].clone();
            self.push_emitted(&value)?;
        }
        Ok(())
    }

    fn push_emitted(&mut self, value: &[Bit]) -> Result<(), End> {
        self.job.emitted.extend(value.iter().rev());
        match self.job.emitted.len() > packet::MAX_FRAME * 8 {
            true => Err(End::Drop(exec::DropReason::FrameTooLong)),
            false => Ok(()),
        }
    }

    fn copy_header(&mut self, to: &HeaderPlace, from: &HeaderPlace) -> Result<(), End> {
        let (to, from) = (self.header_of(to)?, self.header_of(from)?);
        let Some(to) = to else {
            return Ok(());
        };
        match from {
            Some(from) => {
                let values = self.job.fields[from.first..from.end].to_vec();
                self.job.fields[to.first..to.end].clone_from_slice(&values);
            }
            None => self.clear(to.first..to.end),
        }
        Ok(())
    }

    /// Zeroes fields.
    pub(super) fn clear(&mut self, fields: std::ops::Range<usize>) {
        for at in fields {
            let ty = self.program.fields[FieldId::from_index(at)].ty;
            self.job.fields[at] = zero_of(ty);
        }
    }

    /// Returns the first field of a stack, the number of fields of an element, and the number of
    /// elements.
    fn stack_of(&self, stack: StackId) -> Result<(usize, usize, usize, FieldId), End> {
        let stack = self.program.stacks.get(stack).ok_or_else(malformed)?;
        let header = self.program.headers.get(stack.first);
        let first = header.ok_or_else(malformed)?.valid.get() as usize;
        let element = self.header_fields(stack.first)?.len() + 1;
        Ok((first, element, stack.len as usize, stack.next_index))
    }

    fn push_front(&mut self, stack: StackId, n: u32) -> Result<(), End> {
        let (first, element, len, next_index) = self.stack_of(stack)?;
        let n = (n as usize).min(len);
        let moved = self.job.fields[first..first + (len - n) * element].to_vec();
        self.job.fields[first + n * element..first + len * element].clone_from_slice(&moved);
        self.clear(first..first + n * element);
        self.move_next_index(next_index, |next| (next + n as u64).min(len as u64))
    }

    fn pop_front(&mut self, stack: StackId, n: u32) -> Result<(), End> {
        let (first, element, len, next_index) = self.stack_of(stack)?;
        let n = (n as usize).min(len);
        let moved = self.job.fields[first + n * element..first + len * element].to_vec();
        self.job.fields[first..first + (len - n) * element].clone_from_slice(&moved);
        for at in len - n..len {
            self.job.fields[first + at * element] = zeros(1);
        }
        self.move_next_index(next_index, |next| next.saturating_sub(n as u64))
    }

    fn move_next_index(&mut self, field: FieldId, to: impl Fn(u64) -> u64) -> Result<(), End> {
        let word = self.job.fields[field.index()].clone();
        let next = to(self.know.fix_number(&word)?);
        let width = word.len() as u32;
        self.job.fields[field.index()] = Knowledge::word(&Value::truncated(next.into(), width));
        Ok(())
    }

    /// Replaces the packet's parsed bytes by the emitted ones.
    pub(super) fn finish_deparse(&mut self) -> Result<(), End> {
        let job = &mut self.job;
        if !job.cursor.is_multiple_of(8) || !job.emitted.len().is_multiple_of(8) {
            return Err(NotOffloadable::PartialByte.into());
        }
        let mut prefix = std::mem::take(&mut job.emitted);
        let parsed = job.bytes.prefix.len();
        if job.cursor < parsed {
            prefix.extend_from_slice(&job.bytes.prefix[job.cursor..]);
        }
        let more = job.cursor.saturating_sub(parsed) / 8;
        job.bytes = super::Bytes {
            prefix,
            tail: job.bytes.tail + more as u32,
        };
        job.cursor = 0;
        let growth = job.bytes.growth();
        let longest = packet::MAX_FRAME as i64;
        match growth > 0 && self.know.has_length(longest - growth + 1) {
            true => Err(End::Drop(exec::DropReason::FrameTooLong)),
            false => Ok(()),
        }
    }
}

/// A header: its validity and its fields.
#[derive(Clone, Copy, Debug)]
struct HeaderSpan {
    base: HeaderId,
    first: usize,
    end: usize,
}

/// Returns the zero of a type. An empty varbit has no bits.
pub(super) fn zero_of(ty: ScalarTy) -> Word {
    match ty {
        ScalarTy::Varbit(_) => Word::new(),
        ty => zeros(ty.width()),
    }
}
