//! Compilation of statements.

use exec::Unsupported;
use exec::slots::Slot;
use exec::slots::header::{HeaderCopy, Lookahead};
use exec::slots::wide::WideOp;
use ir::{ActionId, Expr, FieldId, HeaderPlace, Place, Stmt, StmtKind, limbs_of};
use support::work::checkpoint;

use super::Compiler;
use crate::code::{HeaderCopyAt, Inst, NONE, Tell};

impl Compiler<'_> {
    pub(super) fn body(&mut self, stmts: &[Stmt]) -> Result<(), Unsupported> {
        for stmt in stmts {
            checkpoint();
            let around = self.loc;
            self.loc = stmt.loc.or(around);
            self.stmt(stmt)?;
            self.free_temporaries();
            self.loc = around;
        }
        Ok(())
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), Unsupported> {
        match &stmt.kind {
            StmtKind::If(cond, then, otherwise) => self.conditional(cond, then, otherwise),
            StmtKind::Block(label, body) => {
                let leave = self.label();
                self.enclosing.insert(*label, (leave, leave));
                self.body(body)?;
                self.place_label(leave);
                Ok(())
            }
            StmtKind::Loop(label, body) => {
                let (round, leave) = (self.label(), self.label());
                self.enclosing.insert(*label, (leave, round));
                self.tell(Tell::Loop(round));
                let loc = self.loc;
                self.place_label(round);
                let params = self.current_action().map_or(&[][..], |a| &a.params);
                let units = self.work.round(params, body);
                self.emit(Inst::Work { units });
                self.tell(Tell::Round(round, loc));
                self.body(body)?;
                self.emit(Inst::Jump { to: round });
                self.place_label(leave);
                self.tell(Tell::LoopLeft(round));
                Ok(())
            }
            StmtKind::Leave(label) => {
                let to = self.enclosing.get(label).map(|around| around.0);
                let to =
                    to.ok_or_else(|| self.unsupported("leaving a block that is not around"))?;
                self.emit(Inst::Jump { to });
                Ok(())
            }
            StmtKind::Continue(label) => {
                let to = self.enclosing.get(label).map(|around| around.1);
                let to =
                    to.ok_or_else(|| self.unsupported("continuing a loop that is not around"))?;
                self.emit(Inst::Jump { to });
                Ok(())
            }
            StmtKind::Atomic(body) => {
                self.emit(Inst::EnterAtomic);
                self.body(body)?;
                self.emit(Inst::LeaveAtomic);
                Ok(())
            }
            StmtKind::Exit => {
                self.tell(Tell::Exit);
                self.emit(Inst::End);
                Ok(())
            }
            StmtKind::CallAction(action, args) => self.call_action(*action, args),
            StmtKind::Extract(header, size) => self.extract(header, size.as_ref()),
            StmtKind::Verify(cond, error) => {
                let holds = self.label();
                self.jump(cond, holds, true)?;
                let a = self.operand(error)?;
                self.emit(Inst::RejectWith { a });
                self.place_label(holds);
                Ok(())
            }
            StmtKind::Fail(error) => {
                self.emit(Inst::Reject { error: *error });
                Ok(())
            }
            StmtKind::Advance(bits) => {
                let a = self.small_operand(bits)?;
                self.emit(Inst::Advance { a });
                Ok(())
            }
            StmtKind::Emit(header) => {
                let (header, at) = self.locate_header(header)?;
                self.emit(Inst::Emit { header, at });
                Ok(())
            }
            StmtKind::EmitField(place) => self.emit_field(place),
            writing => {
                let loc = self.loc;
                self.tell(Tell::Before);
                let target = self.writing(writing)?;
                self.tell(Tell::After(target, loc));
                Ok(())
            }
        }
    }

    fn conditional(
        &mut self,
        cond: &Expr,
        then: &[Stmt],
        otherwise: &[Stmt],
    ) -> Result<(), Unsupported> {
        let no = self.label();
        self.jump_unless(cond, no)?;
        self.free_temporaries();
        self.body(then)?;
        if otherwise.is_empty() {
            self.place_label(no);
            return Ok(());
        }
        let end = self.label();
        self.emit(Inst::Jump { to: end });
        self.place_label(no);
        self.body(otherwise)?;
        self.place_label(end);
        Ok(())
    }

    /// Compiles a statement that writes fields. Returns the field of which the write is always
    /// reported.
    fn writing(&mut self, stmt: &StmtKind) -> Result<FieldId, Unsupported> {
        let none = FieldId::new(NONE);
        match stmt {
            StmtKind::Assign(place, value) => self.assign(place, value),
            StmtKind::AssignSlice(place, hi, lo, value) => {
                self.assign_slice(place, *hi, *lo, value)
            }
            StmtKind::AssignVarbit(place, from) => {
                let a = self.varbit(from)?;
                let to = self.locate(place)?;
                self.store(to, a);
                Ok(place.base)
            }
            StmtKind::ClearVarbit(place) => {
                let to = self.locate(place)?;
                let zeros = self.constant(vec![0; limbs_of(to.ty) as usize]);
                self.store(to, zeros);
                Ok(place.base)
            }
            StmtKind::CopyHeader(to, from) => self.copy_header(to, from).map(|()| none),
            StmtKind::PushFront(stack, n) => {
                self.emit(Inst::PushFront {
                    stack: stack.get(),
                    n: *n,
                });
                Ok(none)
            }
            StmtKind::PopFront(stack, n) => {
                self.emit(Inst::PopFront {
                    stack: stack.get(),
                    n: *n,
                });
                Ok(none)
            }
            StmtKind::Lookahead { total, dests } => self.lookahead(*total, dests).map(|()| none),
            StmtKind::PacketLength(place) => {
                let to = self.locate(place)?;
                let d = self.temporary(1);
                self.emit(Inst::PacketLength { d });
                self.store(to, d);
                Ok(place.base)
            }
            StmtKind::Call(call) => self.call(call).map(|()| none),
            _ => Err(self.unsupported("a statement that writes nothing")),
        }
    }

    fn assign(&mut self, place: &Place, value: &Expr) -> Result<FieldId, Unsupported> {
        let to = self.locate(place)?;
        if to.at == NONE {
            self.compute(value, to.base)?;
        } else {
            let a = self.operand(value)?;
            self.store(to, a);
        }
        Ok(place.base)
    }

    fn assign_slice(
        &mut self,
        place: &Place,
        hi: u32,
        lo: u32,
        value: &Expr,
    ) -> Result<FieldId, Unsupported> {
        let to = self.locate(place)?;
        let width = to.ty.width();
        let a = self.operand(value)?;
        let whole: Slot = if to.at == NONE {
            to.base
        } else {
            let copy = self.temporary(limbs_of(to.ty));
            self.load(to, copy);
            copy
        };
        if width <= 64 {
            self.emit(Inst::Deposit {
                d: whole,
                a,
                lo: lo as u8,
                w: (hi + 1 - lo) as u8,
            });
        } else {
            self.wide(WideOp::Deposit, whole, a, a, hi + 1 - lo, lo);
        }
        self.store(to, whole);
        Ok(place.base)
    }

    fn call_action(&mut self, action: ActionId, args: &[Expr]) -> Result<(), Unsupported> {
        for (i, arg) in args.iter().enumerate() {
            checkpoint();
            let param = self.params.get(action).and_then(|slots| slots.get(i));
            if let Some(&d) = param {
                self.compute(arg, d)?;
            }
        }
        self.emit(Inst::CallAction {
            action: action.get(),
        });
        Ok(())
    }

    fn extract(&mut self, header: &HeaderPlace, size: Option<&Expr>) -> Result<(), Unsupported> {
        let (header, at) = self.locate_header(header)?;
        let size = match size {
            Some(bits) => self.small_operand(bits)?,
            None => NONE,
        };
        self.emit(Inst::Extract { header, at, size });
        Ok(())
    }

    fn emit_field(&mut self, place: &Place) -> Result<(), Unsupported> {
        let from = self.locate(place)?;
        let a = if from.at == NONE {
            from.base
        } else {
            let copy = self.temporary(limbs_of(from.ty));
            self.load(from, copy);
            copy
        };
        self.emit(match from.ty {
            ir::ScalarTy::Varbit(_) => Inst::EmitVarbit { a },
            ty => Inst::EmitField { a, n: ty.width() },
        });
        Ok(())
    }

    fn copy_header(&mut self, to: &HeaderPlace, from: &HeaderPlace) -> Result<(), Unsupported> {
        let (dst, dst_at) = self.locate_header(to)?;
        let (src, src_at) = self.locate_header(from)?;
        let sites = &self.code.headers;
        let (Some(to), Some(from)) = (sites.get(dst as usize), sites.get(src as usize)) else {
            return Err(self.unsupported("a header that does not exist"));
        };
        let copy = HeaderCopyAt {
            copy: HeaderCopy {
                dst: to.valid,
                src: from.valid,
                limbs: to.limbs(),
            },
            dst_at,
            src_at,
        };
        self.code.header_copies.push(copy);
        let at = self.code.header_copies.len() as u32 - 1;
        self.emit(Inst::CopyHeader(at));
        Ok(())
    }

    fn lookahead(&mut self, total: u32, dests: &[(Place, u32)]) -> Result<(), Unsupported> {
        let mut slots = Vec::new();
        let mut moves = Vec::new();
        for (place, offset) in dests {
            checkpoint();
            let to = self.locate(place)?;
            let slot = if to.at == NONE {
                to.base
            } else {
                self.temporary(limbs_of(to.ty))
            };
            slots.push((slot, to.ty.width(), *offset));
            moves.push((to, slot));
        }
        self.code.lookaheads.push(Lookahead {
            total,
            dests: slots.into(),
        });
        let at = self.code.lookaheads.len() as u32 - 1;
        self.emit(Inst::Lookahead(at));
        for (to, slot) in moves {
            checkpoint();
            self.store(to, slot);
        }
        Ok(())
    }
}
