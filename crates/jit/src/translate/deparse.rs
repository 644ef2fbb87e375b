//! Deparsers in a pass: headers that are to be sent where they were parsed stay there.
//!
//! Emitting is put off until the deparser is through, where it does nothing else once it has begun to emit. Then it is known what the packet is to
//! become: if that is all that was parsed, each header at its old place, only fields that the program writes are stored into the packet. Otherwise all
//! headers are emitted, and the packet is put together anew.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;
use exec::Unsupported;
use exec::slots::header::HeaderSite;
use ir::{Control, ControlId, HeaderPlace, Next, Op, Program, StageKind, Stmt, StmtKind};

use super::emit::pieces_of;
use super::{I64, Translator, in_bytes};
use crate::abi::{flags, offset};
use crate::helpers::Helper;

/// An `emit` that was put off.
#[derive(Clone, Debug)]
pub(super) struct Emit {
    header: HeaderPlace,
    /// Whether the deparser has come there; `None` if it always does.
    reached: Option<Variable>,
}

/// A deparser whose emitting can be put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// It does everything in it.
    Straight,
    /// It has conditions.
    Branching,
}

/// What is dirty in a header: a run of whole bytes, as bits from the header's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dirty {
    first: u32,
    end: u32,
}

impl Translator<'_> {
    /// Runs a deparser, and makes the packet what it emitted.
    pub(super) fn deparse(&mut self, control: ControlId) -> Result<(), Unsupported> {
        self.put_off_emitting(control);
        let after = self.begin_code();
        self.control(control)?;
        self.shared_bodies()?;
        self.end_control(after, Self::forget_emitted);
        match self.fused.as_mut().and_then(|fusing| fusing.emits.take()) {
            Some(emits) => self.deparse_in_place(&emits)?,
            None => self.rebuild(),
        }
        let zero = self.number(0);
        self.b.def_var(self.cursor, zero);
        self.b.def_var(self.emitted, zero);
        if let Some(fusing) = self.fused.as_mut() {
            fusing.bytes_stand = false;
        }
        Ok(())
    }

    fn put_off_emitting(&mut self, control: ControlId) {
        let program = self.program;
        let control = program.controls.get(control);
        let Some(shape) = control.and_then(|control| shape(program, control)) else {
            return;
        };
        if let Some(fusing) = self.fused.as_mut() {
            fusing.emits = Some(Vec::new());
            fusing.always_emits = shape == Shape::Straight;
        }
    }

    /// Puts an `emit` off, if that is what this deparser does.
    pub(super) fn put_off(&mut self, header: &HeaderPlace) -> bool {
        let Some(fusing) = self.fused.as_ref() else {
            return false;
        };
        if fusing.emits.is_none() {
            return false;
        }
        let reached = (!fusing.always_emits).then(|| self.b.declare_var(I64));
        let header = header.clone();
        if let Some(emits) = self.fused.as_mut().and_then(|f| f.emits.as_mut()) {
            emits.push(Emit { header, reached });
        }
        if let Some(reached) = reached {
            let one = self.number(1);
            self.b.def_var(reached, one);
        }
        true
    }

    fn deparse_in_place(&mut self, emits: &[Emit]) -> Result<(), Unsupported> {
        let moves = self.moves(emits);
        let (moved, stays, after) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        self.branch(moves, moved, stays);
        self.start_sealed(moved);
        self.emit_all(emits)?;
        self.rebuild();
        self.jump(after);
        self.start_sealed(stays);
        for emit in emits {
            self.store_dirty(emit)?;
        }
        self.jump(after);
        self.start_sealed(after);
        Ok(())
    }

    /// Whether anything would be somewhere else than it was parsed, as a truth value.
    fn moves(&mut self, emits: &[Emit]) -> Value {
        let mut moves = match self.calls(Op::Truncate) {
            true => {
                let flags = self.load_invocation(offset::FLAGS);
                self.b.ins().band_imm(flags, flags::ASKED as i64)
            }
            false => self.number(0),
        };
        let mut at = self.number(0);
        for emit in emits {
            let is_emitted = self.is_emitted(emit);
            let Some((offset, bytes)) = self.offset_of(emit) else {
                moves = self.b.ins().bor(moves, is_emitted);
                continue;
            };
            let offset = self.b.use_var(offset);
            let is_elsewhere = self.b.ins().icmp(IntCC::NotEqual, offset, at);
            let is_elsewhere = self.b.ins().uextend(I64, is_elsewhere);
            let is_moved = self.b.ins().band(is_elsewhere, is_emitted);
            moves = self.b.ins().bor(moves, is_moved);
            let length = self.b.ins().imul_imm(is_emitted, i64::from(bytes));
            at = self.b.ins().iadd(at, length);
        }
        let cursor = self.b.use_var(self.cursor);
        let parsed = self.b.ins().ushr_imm(cursor, 3);
        let is_elsewhere = self.b.ins().icmp(IntCC::NotEqual, parsed, at);
        let is_elsewhere = self.b.ins().uextend(I64, is_elsewhere);
        self.b.ins().bor(moves, is_elsewhere)
    }

    /// Whether a header is emitted: 0 or 1.
    fn is_emitted(&mut self, emit: &Emit) -> Value {
        let valid = self.code.headers[emit.header.base.get() as usize].valid;
        let is_valid = self.load_slots(valid, 1)[0];
        match emit.reached {
            Some(reached) => {
                let reached = self.b.use_var(reached);
                self.b.ins().band(is_valid, reached)
            }
            None => is_valid,
        }
    }

    /// Where the header is in the packet, if that is known, and its bytes.
    fn offset_of(&self, emit: &Emit) -> Option<(Variable, u32)> {
        let fusing = self.fused.as_ref()?;
        let offset = fusing.offsets.get(&emit.header.base)?;
        let site = self.code.headers.get(emit.header.base.get() as usize)?;
        Some((*offset, site.fixed_bits / 8))
    }

    /// Emits what was put off.
    fn emit_all(&mut self, emits: &[Emit]) -> Result<(), Unsupported> {
        let after = self.begin_code();
        for emit in emits {
            let skipped = self.b.create_block();
            if let Some(reached) = emit.reached {
                let reached = self.b.use_var(reached);
                let emitted = self.b.create_block();
                self.branch(reached, emitted, skipped);
                self.start_sealed(emitted);
            }
            self.emit(&emit.header)?;
            self.jump(skipped);
            self.start_sealed(skipped);
        }
        self.end_control(after, Self::forget_emitted);
        Ok(())
    }

    /// The packet becomes what was emitted and what was not parsed.
    fn rebuild(&mut self) {
        self.show_emitted();
        let number = self.help(Helper::FinishDeparse, &[]);
        let bytes = self.load_invocation(offset::BYTES);
        self.b.def_var(self.bytes, bytes);
        let bits = self.load_invocation(offset::BITS);
        self.b.def_var(self.bits, bits);
        self.return_if(number, |this| this.return_number(number));
    }

    /// Writes the fields of a header that the program may have changed to where it was parsed.
    fn store_dirty(&mut self, emit: &Emit) -> Result<(), Unsupported> {
        let site = self.code.headers[emit.header.base.get() as usize].clone();
        let dirty = self.dirty(&site);
        if dirty.is_empty() || self.offset_of(emit).is_none() {
            return Ok(());
        }
        let is_emitted = self.is_emitted(emit);
        let (there, after) = (self.b.create_block(), self.b.create_block());
        self.branch(is_emitted, there, after);
        self.start_sealed(there);
        let bytes = self.bytes_of_header(site.id);
        for run in dirty {
            self.store_run(&site, bytes, run);
        }
        self.jump(after);
        self.start_sealed(after);
        Ok(())
    }

    fn dirty(&self, site: &HeaderSite) -> Vec<Dirty> {
        let mut runs: Vec<Dirty> = Vec::new();
        let mut bit = 0;
        for (index, field) in site.fields.iter().enumerate() {
            let end = bit + field.width;
            if field.width > 0 && self.is_written(site, index) {
                let (first, end) = (bit / 8 * 8, end.next_multiple_of(8));
                match runs.last_mut() {
                    Some(run) if first <= run.end => run.end = end,
                    _ => runs.push(Dirty { first, end }),
                }
            }
            bit = end;
        }
        runs
    }

    /// Whether anything but extraction writes a field of a header.
    fn is_written(&self, site: &HeaderSite, index: usize) -> bool {
        let field = self.field_of_header(site, index);
        let written = self.fused.as_ref().map(|fusing| &fusing.homes.written);
        field.is_none_or(|field| written.is_none_or(|written| written.contains(&field)))
    }

    /// Stores whole bytes of a header: fields that are written from where they live, others as they stand in the packet.
    fn store_run(&mut self, site: &HeaderSite, bytes: Value, run: Dirty) {
        let mut pieces = Vec::new();
        let mut bit = 0;
        for (index, field) in site.fields.iter().enumerate() {
            let end = bit + field.width;
            let (from, to) = (bit.max(run.first), end.min(run.end));
            if from < to {
                if self.is_written(site, index) {
                    let limbs = bits::limbs_for(field.width) as u32;
                    let value = self.load_slots(field.slot, limbs);
                    pieces.extend(pieces_of(&value, field.width));
                } else {
                    let value = self.load_bits(bytes, from, to - from, site.fixed_bits);
                    pieces.extend(pieces_of(&value, to - from));
                }
            }
            bit = end;
        }
        let (mut at, mut left) = (run.first / 8, (run.end - run.first) / 8);
        for word in self.words(&pieces) {
            let word = self.b.ins().bswap(word);
            let size = left.min(8);
            self.store_bytes(word, bytes, at, size);
            (at, left) = (at + size, left - size);
        }
    }

    /// Stores the `size` low bytes of a word, the lowest first.
    fn store_bytes(&mut self, word: Value, bytes: Value, at: u32, size: u32) {
        let (mut word, mut at, mut left) = (word, at as i32, size);
        while left > 0 {
            let step = 1 << left.ilog2();
            match step {
                8 => self.b.ins().store(in_bytes(), word, bytes, at),
                4 => self.b.ins().istore32(in_bytes(), word, bytes, at),
                2 => self.b.ins().istore16(in_bytes(), word, bytes, at),
                _ => self.b.ins().istore8(in_bytes(), word, bytes, at),
            };
            (at, left) = (at + step as i32, left - step);
            if left > 0 {
                word = self.b.ins().ushr_imm(word, i64::from(step) * 8);
            }
        }
    }
}

/// Whether a deparser's emitting can be put off to its end: from the first `emit` on it does nothing but emit and branch, and it never goes back.
fn shape(program: &Program, control: &Control) -> Option<Shape> {
    if program.actions.values().any(|a| emits(&a.body)) {
        return None;
    }
    let mut walk = Walk {
        has_begun: false,
        shape: Shape::Straight,
    };
    for (id, stage) in control.stages.iter() {
        let is_next = |next: Next| match next {
            Next::End => id.get() as usize + 1 == control.stages.len(),
            Next::Stage(to) => to.get() == id.get() + 1,
        };
        let goes_on = |next: Next| match next {
            Next::End => true,
            Next::Stage(to) => to > id,
        };
        match &stage.kind {
            StageKind::Condition {
                then, otherwise, ..
            } => {
                walk.shape = Shape::Branching;
                if !goes_on(*then) || !goes_on(*otherwise) {
                    return None;
                }
            }
            StageKind::Action { body, next } => {
                walk.body(body)?;
                if !is_next(*next) {
                    walk.shape = Shape::Branching;
                }
                if !goes_on(*next) {
                    return None;
                }
            }
            StageKind::Match { .. } => return None,
        }
    }
    Some(walk.shape)
}

struct Walk {
    /// Whether an `emit` has been seen.
    has_begun: bool,
    shape: Shape,
}

impl Walk {
    fn body(&mut self, body: &[Stmt]) -> Option<()> {
        body.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Option<()> {
        match &stmt.kind {
            StmtKind::Emit(header) => {
                self.has_begun = true;
                header.dims.is_empty().then_some(())
            }
            StmtKind::EmitField(_) => None,
            StmtKind::If(_, then, otherwise) => {
                self.shape = Shape::Branching;
                self.body(then)?;
                self.body(otherwise)
            }
            StmtKind::Block(_, body) => {
                self.shape = Shape::Branching;
                self.body(body)
            }
            StmtKind::Leave(_) | StmtKind::Exit => {
                self.shape = Shape::Branching;
                Some(())
            }
            StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
                self.shape = Shape::Branching;
                (!self.has_begun && !emits(body)).then_some(())
            }
            _ => (!self.has_begun).then_some(()),
        }
    }
}

fn emits(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::Emit(_) | StmtKind::EmitField(_) => true,
        StmtKind::If(_, then, otherwise) => emits(then) || emits(otherwise),
        StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => emits(body),
        _ => false,
    })
}
