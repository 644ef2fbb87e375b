//! Emission of controls and statements.

use bits::Id;
use ir::{ControlId, Expr, HeaderPlace, MatchNext, Next, Place, StackId, StageKind, Stmt};
use ir::{FieldId, HeaderId, Program, ScalarTy, StmtKind, limbs_of};
use support::work::checkpoint;

use super::expr::bits_of_limb;
use super::{Emitted, Emitter};
use crate::assembler::{Alu, Label, R0, R1, R2, R9, Size, When};

impl Emitter<'_> {
    pub(super) fn control(&mut self, id: ControlId) -> Emitted {
        let program = self.program;
        let control = &program.controls[id];
        let stages: Vec<Label> = control.stages.ids().map(|_| self.asm.label()).collect();
        let end = self.asm.label();
        self.block_end = end;
        for (stage_id, stage) in control.stages.iter() {
            checkpoint();
            self.loc = stage.loc;
            self.enclosing.clear();
            self.temporaries = 0;
            self.asm.place(stages[stage_id.index()]);
            let link = |this: &mut Self, next: Next| match next {
                Next::End => end,
                Next::Stage(to) if to > stage_id => stages[to.index()],
                Next::Stage(_) => this.leave_label("a loop that applies a table".to_owned()),
            };
            match &stage.kind {
                StageKind::Condition {
                    cond,
                    then,
                    otherwise,
                } => {
                    let (then, otherwise) = (link(self, *then), link(self, *otherwise));
                    self.or_leave(|this| {
                        this.jump_unless(cond, otherwise)?;
                        this.asm.jump(then);
                        Ok(())
                    });
                }
                StageKind::Action { body, next } => {
                    self.body(body);
                    let next = link(self, *next);
                    self.asm.jump(next);
                }
                StageKind::Match {
                    table,
                    outcome,
                    next,
                } => {
                    let all: Vec<Next> = match next {
                        MatchNext::Always(next) => vec![*next],
                        MatchNext::ByHit { hit, miss } => vec![*hit, *miss],
                        MatchNext::ByAction(nexts) => nexts.clone(),
                    };
                    let labels: Vec<Label> = all.iter().map(|&next| link(self, next)).collect();
                    self.or_leave(|this| {
                        let site = this.apply(*table, *outcome)?;
                        this.after_match(site, next, &labels, end);
                        Ok(())
                    });
                }
            }
        }
        self.asm.place(end);
        self.loc = None;
        Ok(())
    }

    /// Emits the links after a match stage. `site` has the action and whether there was a hit.
    fn after_match(&mut self, site: (i16, i16), next: &MatchNext, labels: &[Label], end: Label) {
        let (action, hit) = site;
        match next {
            MatchNext::Always(_) => self.asm.jump(labels[0]),
            MatchNext::ByHit { .. } => {
                self.load_memory(R0, hit);
                self.asm.jump_if_number(When::Equal, R0, 0, labels[1]);
                self.asm.jump(labels[0]);
            }
            MatchNext::ByAction(_) => {
                self.load_memory(R0, action);
                for (position, &label) in labels.iter().enumerate() {
                    self.asm
                        .jump_if_number(When::Equal, R0, position as i32, label);
                }
                self.asm.jump(end);
            }
        }
    }

    /// Emits statements. A statement without a form in eBPF becomes a place at which packets leave.
    pub(super) fn body(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            checkpoint();
            let (around, temporaries) = (self.loc, self.temporaries);
            self.loc = stmt.loc.or(around);
            self.or_leave(|this| this.stmt(&stmt.kind));
            self.temporaries = temporaries;
            self.loc = around;
        }
    }

    fn stmt(&mut self, stmt: &StmtKind) -> Emitted {
        match stmt {
            StmtKind::Assign(place, value) => self.assign(place, value),
            StmtKind::AssignSlice(place, hi, lo, value) => {
                self.assign_slice(place, (*hi, *lo), value)
            }
            StmtKind::If(cond, then, otherwise) => {
                let (no, end) = (self.asm.label(), self.asm.label());
                self.jump_unless(cond, no)?;
                self.body(then);
                self.asm.jump(end);
                self.asm.place(no);
                self.body(otherwise);
                self.asm.place(end);
                Ok(())
            }
            StmtKind::Block(label, body) => {
                let leave = self.asm.label();
                self.enclosing.insert(*label, leave);
                self.body(body);
                self.asm.place(leave);
                Ok(())
            }
            StmtKind::Leave(label) => {
                let to = self.enclosing.get(label).copied();
                self.asm
                    .jump(to.ok_or_else(|| "a block that is not around".to_owned())?);
                Ok(())
            }
            // What the packet does to shared state leaves by itself.
            StmtKind::Atomic(body) => {
                self.body(body);
                Ok(())
            }
            StmtKind::Exit => {
                self.asm.jump(self.block_end);
                Ok(())
            }
            StmtKind::CallAction(action, args) => self.call_action(*action, args),
            StmtKind::CopyHeader(to, from) => self.copy_header(to, from),
            StmtKind::PushFront(stack, n) => {
                self.push_front(*stack, *n);
                Ok(())
            }
            StmtKind::PopFront(stack, n) => {
                self.pop_front(*stack, *n);
                Ok(())
            }
            StmtKind::Extract(header, size) => self.extract(header, size.as_ref()),
            StmtKind::Advance(bits) => self.advance(bits),
            StmtKind::Lookahead { total, dests } => self.lookahead(*total, dests),
            StmtKind::PacketLength(place) => {
                self.plain(place)?;
                self.load_memory(R0, self.memory.length);
                self.store_field(place.base, 0, R0);
                Ok(())
            }
            StmtKind::Verify(cond, error) => {
                let holds = self.asm.label();
                self.jump(cond, holds, true)?;
                self.value(error)?;
                self.asm.jump(self.reject);
                self.asm.place(holds);
                Ok(())
            }
            StmtKind::Fail(error) => {
                self.fail(*error);
                Ok(())
            }
            StmtKind::Emit(header) => self.emit_header(header),
            StmtKind::EmitField(place) => self.emit_field(place),
            StmtKind::Call(call) => self.call(call),
            StmtKind::Loop(..) | StmtKind::Continue(_) => Err("a loop".to_owned()),
            StmtKind::AssignVarbit(..) | StmtKind::ClearVarbit(_) => Err("a varbit".to_owned()),
        }
    }

    /// Checks that a location is known when the program is emitted.
    pub(super) fn plain(&self, place: &Place) -> Emitted {
        match (self.program.fields[place.base].ty, place.dims.is_empty()) {
            (ScalarTy::Varbit(_), _) => Err("a varbit".to_owned()),
            (_, false) => Err("an element of an array here".to_owned()),
            (_, true) => Ok(()),
        }
    }

    fn assign(&mut self, place: &Place, value: &Expr) -> Emitted {
        let ty = self.ty(value)?;
        if !place.dims.is_empty() {
            return self.assign_element(place, value, limbs_of(ty));
        }
        if limbs_of(ty) == 1 {
            self.limb(value, 0)?;
            self.store_field(place.base, 0, R0);
            return Ok(());
        }
        let cells = self.limbs(value, limbs_of(ty))?;
        for (limb, cell) in (0..).zip(cells) {
            self.load_memory(R0, cell);
            self.store_field(place.base, limb, R0);
        }
        Ok(())
    }

    /// Computes all limbs of a value into temporaries.
    fn limbs(&mut self, value: &Expr, limbs: u32) -> Emitted<Vec<i16>> {
        let mut cells = Vec::new();
        for limb in 0..limbs {
            checkpoint();
            self.limb(value, limb)?;
            let cell = self.temporary()?;
            self.asm.store(Size::Double, R9, cell, R0);
            cells.push(cell);
        }
        Ok(cells)
    }

    fn assign_element(&mut self, place: &Place, value: &Expr, limbs: u32) -> Emitted {
        let outside = self.asm.label();
        let cells = self.limbs(value, limbs)?;
        self.address(place, outside)?;
        for (limb, cell) in (0..).zip(cells) {
            self.load_memory(R0, cell);
            let offset = self.offset(place.base, limb);
            self.asm.store(Size::Double, R1, offset, R0);
        }
        self.asm.place(outside);
        Ok(())
    }

    fn assign_slice(&mut self, place: &Place, (hi, lo): (u32, u32), value: &Expr) -> Emitted {
        self.plain(place)?;
        let count = hi + 1 - lo;
        let (limb, shift) = (lo / 64, lo % 64);
        if shift + count > 64 {
            return Err("a slice over a boundary of 64 bits".to_owned());
        }
        self.value(value)?;
        self.asm.alu_number(Alu::Shl, R0, shift as i32);
        self.load_field(R1, place.base, limb);
        self.asm.set(R2, !(bits::one::mask(count) << shift));
        self.asm.alu(Alu::And, R1, R2);
        self.asm.alu(Alu::Or, R0, R1);
        self.store_field(place.base, limb, R0);
        Ok(())
    }

    /// Runs an action here. Its arguments get cells of their own.
    fn call_action(&mut self, action: ir::ActionId, args: &[Expr]) -> Emitted {
        let program = self.program;
        let callee = &program.actions[action];
        if self.params.len() as u32 > ir::MAX_CALL_DEPTH {
            return Err("so deep calls".to_owned());
        }
        let mut params = Vec::new();
        for (arg, param) in args.iter().zip(&callee.params) {
            checkpoint();
            let limbs = limbs_of(param.ty);
            let cells = self.cells(limbs);
            for limb in 0..limbs {
                self.limb(arg, limb)?;
                self.asm
                    .store(Size::Double, R9, cells + (limb * 8) as i16, R0);
            }
            params.push(cells);
        }
        self.run_action(action, params);
        Ok(())
    }

    /// Emits the body of an action with its parameters.
    pub(super) fn run_action(&mut self, action: ir::ActionId, params: Vec<i16>) {
        let program = self.program;
        let enclosing = std::mem::take(&mut self.enclosing);
        let loc = self.loc;
        self.params.push(params);
        self.actions.push(action);
        self.body(&program.actions[action].body);
        self.actions.pop();
        self.params.pop();
        self.loc = loc;
        self.enclosing = enclosing;
    }

    fn copy_header(&mut self, to: &HeaderPlace, from: &HeaderPlace) -> Emitted {
        if !to.dims.is_empty() || !from.dims.is_empty() {
            return Err("a copy of an element of a stack".to_owned());
        }
        let (start, limbs) = self.header_limbs(to.base);
        let (source, _) = self.header_limbs(from.base);
        self.copy_limbs(source, start, limbs);
        Ok(())
    }

    /// Returns the offset of a header, its validity first, and its number of limbs.
    fn header_limbs(&self, header: HeaderId) -> (i16, u32) {
        let program = self.program;
        let instance = &program.headers[header];
        let fields = fields_of(program, header);
        let limbs = fields.map(|field| limbs_of(program.fields[field].ty));
        (self.offset(instance.valid, 0), limbs.sum())
    }

    /// Copies memory, from the first limb on.
    fn copy_limbs(&mut self, from: i16, to: i16, limbs: u32) {
        for limb in 0..limbs as i16 {
            self.load_memory(R0, from + limb * 8);
            self.asm.store(Size::Double, R9, to + limb * 8, R0);
        }
    }

    fn push_front(&mut self, id: StackId, n: u32) {
        let program = self.program;
        let stack = &program.stacks[id];
        let (first, limbs) = self.header_limbs(stack.first);
        let size = (limbs * 8) as i16;
        let n = n.min(stack.len);
        for element in (n..stack.len).rev() {
            let from = first + (element - n) as i16 * size;
            self.copy_limbs(from, first + element as i16 * size, limbs);
        }
        for limb in 0..(n * limbs) as i16 {
            self.asm.store_number(Size::Double, R9, first + limb * 8, 0);
        }
        let below = self.asm.label();
        self.load_field(R0, stack.next_index, 0);
        self.asm.alu_number(Alu::Add, R0, n as i32);
        self.asm
            .jump_if_number(When::AtMost, R0, stack.len as i32, below);
        self.asm.set(R0, stack.len.into());
        self.asm.place(below);
        self.store_field(stack.next_index, 0, R0);
    }

    fn pop_front(&mut self, id: StackId, n: u32) {
        let program = self.program;
        let stack = &program.stacks[id];
        let (first, limbs) = self.header_limbs(stack.first);
        let size = (limbs * 8) as i16;
        let n = n.min(stack.len);
        for element in n..stack.len {
            let to = first + (element - n) as i16 * size;
            self.copy_limbs(first + element as i16 * size, to, limbs);
        }
        for element in stack.len - n..stack.len {
            let valid = first + element as i16 * size;
            self.asm.store_number(Size::Double, R9, valid, 0);
        }
        let above = self.asm.label();
        self.load_field(R0, stack.next_index, 0);
        self.asm.jump_if_number(When::AtLeast, R0, n as i32, above);
        self.asm.set(R0, n.into());
        self.asm.place(above);
        self.asm.alu_number(Alu::Sub, R0, n as i32);
        self.store_field(stack.next_index, 0, R0);
    }

    /// Stores a value of at most 64 bits, which is in `R0`, in a destination of any width.
    pub(super) fn give(&mut self, place: &Place) -> Emitted {
        self.plain(place)?;
        let ty = self.program.fields[place.base].ty;
        self.asm.mask(R0, bits_of_limb(ty.width(), 0));
        self.store_field(place.base, 0, R0);
        for limb in 1..limbs_of(ty) {
            let offset = self.offset(place.base, limb);
            self.asm.store_number(Size::Double, R9, offset, 0);
        }
        Ok(())
    }
}

/// Returns the fields of a header: its validity, then its fields.
pub(super) fn fields_of(program: &Program, header: HeaderId) -> impl Iterator<Item = FieldId> {
    let instance = &program.headers[header];
    let fields = program.header_types[instance.ty].fields.len() as u32;
    let first = instance.valid.get();
    (first..=first + fields).map(FieldId::new)
}
