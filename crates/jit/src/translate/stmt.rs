//! Translation of statements.

use cranelift_codegen::ir::{InstBuilder, Value};
use exec::Unsupported;
use exec::slots::header::HeaderCopy;
use exec::slots::wide::WideOp;
use ir::{Expr, HeaderPlace, LabelId, Place, StackId, Stmt, StmtKind, limbs_of};

use super::{INLINE_LIMBS, Translator};
use crate::abi::Outcome;
use crate::helpers::Helper;

impl Translator<'_> {
    /// Translates statements, up to one that makes the following code unreachable.
    pub(super) fn body(&mut self, stmts: &[Stmt]) -> Result<(), Unsupported> {
        let hashing = self.hashing_statements(stmts).unwrap_or_default();
        let lasting = self.lasting_temporaries;
        for (at, stmt) in stmts.iter().enumerate() {
            if !self.is_live {
                break;
            }
            if at == hashing.start && !hashing.is_empty() {
                self.prefetch_registers(&stmts[hashing.clone()])?;
            }
            let around = self.loc;
            self.loc = stmt.loc.or(around);
            self.check_size()?;
            self.stmt(stmt)?;
            self.free_temporaries();
            self.loc = around;
        }
        self.forget_hashes(lasting);
        Ok(())
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), Unsupported> {
        match &stmt.kind {
            StmtKind::Assign(place, value) => self.assign(place, value),
            StmtKind::AssignSlice(place, hi, lo, value) => {
                self.assign_slice(place, *lo, hi + 1 - lo, value)
            }
            StmtKind::AssignVarbit(place, from) => {
                let from = self.locate(from)?;
                let a = self.in_slots(from);
                let to = self.locate(place)?;
                self.store_from(to, a);
                Ok(())
            }
            StmtKind::ClearVarbit(place) => self.clear_varbit(place),
            StmtKind::CopyHeader(to, from) => self.copy_header(to, from),
            StmtKind::If(cond, then, otherwise) => self.conditional(cond, then, otherwise),
            StmtKind::Block(label, body) => {
                let leave = self.b.create_block();
                self.enclosing.insert(*label, (leave, leave));
                self.body(body)?;
                self.jump(leave);
                self.start_sealed(leave);
                Ok(())
            }
            StmtKind::Loop(label, body) => self.repeat(*label, body),
            StmtKind::Leave(label) => {
                let to = self.enclosing.get(label).map(|around| around.0);
                let to =
                    to.ok_or_else(|| self.unsupported("leaving a block that is not around"))?;
                self.jump(to);
                Ok(())
            }
            StmtKind::Continue(label) => {
                let to = self.enclosing.get(label).map(|around| around.1);
                let to =
                    to.ok_or_else(|| self.unsupported("continuing a loop that is not around"))?;
                self.jump(to);
                Ok(())
            }
            StmtKind::Atomic(body) => {
                self.help(Helper::EnterAtomic, &[]);
                self.body(body)?;
                if self.is_live {
                    self.help(Helper::LeaveAtomic, &[]);
                }
                Ok(())
            }
            StmtKind::Exit => {
                self.end_with(Outcome::Done);
                Ok(())
            }
            StmtKind::CallAction(action, args) => self.call_action(*action, args),
            StmtKind::Extract(header, size) => self.extract(header, size.as_ref()),
            StmtKind::Advance(bits) => self.advance(bits),
            StmtKind::Lookahead { total, dests } => self.lookahead(*total, dests),
            StmtKind::PacketLength(place) => self.packet_length(place),
            StmtKind::Verify(cond, error) => self.verify(cond, error),
            StmtKind::Fail(error) => {
                self.end_with(Outcome::Reject(*error));
                Ok(())
            }
            StmtKind::Emit(header) => self.emit(header),
            StmtKind::EmitField(place) => self.emit_field(place),
            StmtKind::PushFront(stack, n) => self.shift(Helper::PushFront, *stack, *n),
            StmtKind::PopFront(stack, n) => self.shift(Helper::PopFront, *stack, *n),
            StmtKind::Call(call) => self.call(call),
        }
    }

    fn conditional(
        &mut self,
        cond: &Expr,
        then: &[Stmt],
        otherwise: &[Stmt],
    ) -> Result<(), Unsupported> {
        let (yes, end) = (self.b.create_block(), self.b.create_block());
        let no = if otherwise.is_empty() {
            end
        } else {
            self.b.create_block()
        };
        self.decide(cond, yes, no)?;
        self.free_temporaries();
        self.start_sealed(yes);
        self.body(then)?;
        self.jump(end);
        if !otherwise.is_empty() {
            self.start_sealed(no);
            self.body(otherwise)?;
            self.jump(end);
        }
        self.start_sealed(end);
        Ok(())
    }

    fn repeat(&mut self, label: LabelId, body: &[Stmt]) -> Result<(), Unsupported> {
        let (round, leave) = (self.b.create_block(), self.b.create_block());
        self.enclosing.insert(label, (leave, round));
        self.jump(round);
        self.start(round);
        let params = self.current_action().map_or(&[][..], |a| &a.params);
        self.spend(self.budget.round(params, body));
        self.body(body)?;
        self.jump(round);
        self.b.seal_block(round);
        self.start_sealed(leave);
        Ok(())
    }

    pub(super) fn assign(&mut self, place: &Place, value: &Expr) -> Result<(), Unsupported> {
        let to = self.locate(place)?;
        if !to.is_wide() {
            let value = self.value(value)?;
            self.store(to, &value);
        } else if to.at.is_none() {
            self.compute(value, to.base)?;
        } else {
            let a = self.slot_of(value)?;
            self.store_from(to, a);
        }
        Ok(())
    }

    pub(super) fn assign_slice(
        &mut self,
        place: &Place,
        lo: u32,
        width: u32,
        value: &Expr,
    ) -> Result<(), Unsupported> {
        let to = self.locate(place)?;
        if !to.is_wide() {
            let value = self.value(value)?;
            let old = self.load(to);
            let new = self.deposit(&old, &value, lo, width);
            self.store(to, &new);
            return Ok(());
        }
        let a = self.slot_of(value)?;
        let whole = self.in_slots(to);
        self.wide_step(WideOp::Deposit, whole, (a, a), (width, lo));
        if to.at.is_some() {
            self.store_from(to, whole);
        }
        Ok(())
    }

    fn clear_varbit(&mut self, place: &Place) -> Result<(), Unsupported> {
        let to = self.locate(place)?;
        if to.at.is_none() {
            self.clear(to.base, to.limbs());
        } else {
            let zeros = self.temporary(to.limbs());
            self.clear(zeros, to.limbs());
            self.store_from(to, zeros);
        }
        Ok(())
    }

    fn copy_header(&mut self, to: &HeaderPlace, from: &HeaderPlace) -> Result<(), Unsupported> {
        let (dst, dst_at) = self.locate_header(to)?;
        let (src, src_at) = self.locate_header(from)?;
        let copy = HeaderCopy {
            dst: self.code.headers[dst].valid,
            src: self.code.headers[src].valid,
            limbs: self.code.headers[dst].limbs(),
        };
        if dst_at.is_none() && src_at.is_none() && copy.limbs <= 4 * INLINE_LIMBS {
            let values = self.load_slots(copy.src, copy.limbs);
            self.store_slots(copy.dst, &values);
            return Ok(());
        }
        self.code.header_copies.push(copy);
        let which = self.code.header_copies.len() as u64 - 1;
        let (to, from) = (self.distance_number(dst_at), self.distance_number(src_at));
        let which = self.number(which);
        self.help(Helper::CopyHeader, &[which, to, from]);
        Ok(())
    }

    fn shift(&mut self, helper: Helper, stack: StackId, n: u32) -> Result<(), Unsupported> {
        self.help_with(helper, &[stack.get().into(), n.into()]);
        Ok(())
    }

    fn packet_length(&mut self, place: &Place) -> Result<(), Unsupported> {
        let to = self.locate(place)?;
        let bits = self.packet_bits();
        let bytes = self.b.ins().ushr_imm(bits, 3);
        let mut value: Vec<Value> = vec![bytes];
        let zero = self.number(0);
        value.resize(limbs_of(to.ty) as usize, zero);
        self.store(to, &value);
        Ok(())
    }

    fn verify(&mut self, cond: &Expr, error: &Expr) -> Result<(), Unsupported> {
        // Prefetch passes skip verification: a useless lookup changes nothing, and few packets
        // fail.
        if self.is_ahead() {
            return Ok(());
        }
        let (holds, fails) = (self.b.create_block(), self.cold_block());
        self.decide(cond, holds, fails)?;
        self.start_sealed(fails);
        let error = self.narrow(error)?;
        let number = self.b.ins().bor_imm(error, Outcome::REJECT_FLAG as i64);
        self.jump_with(self.end, &[number]);
        self.start_sealed(holds);
        Ok(())
    }
}
