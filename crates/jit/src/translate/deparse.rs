//! Deparsers in a pass: headers that are to be sent where they were parsed stay there.
//!
//! Emitting is put off until the deparser is through, where it does nothing else once it has begun to emit. Then it is known what the packet is to
//! become: if that is all that was parsed, each header at its old place, only fields that the program writes are stored into the packet. Otherwise those
//! that come to be elsewhere are taken from the packet and written in front of what was not parsed, within the frame's buffer. Where that has no room, or
//! where it is not known what stands where, all headers are emitted into a buffer, and the packet is put together anew.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I16, I32};
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value};
use cranelift_frontend::Variable;
use exec::Unsupported;
use exec::slots::header::HeaderSite;
use ir::{Control, ControlId, HeaderPlace, Next, Op, Program, StageKind, Stmt, StmtKind};
use packet::MAX_FRAME;

use super::emit::pieces_of;
use super::fields::Run;
use super::{Translator, in_bytes};
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

/// Bits up to which headers are held in values while they are moved.
const MOVABLE_BITS: u32 = 2048;

/// Where what is emitted comes to be.
struct Placing {
    headers: Vec<Placed>,
    /// By how many bytes the packet will begin behind where it begins now.
    shift: Value,
}

/// A header that may be emitted.
struct Placed {
    site: HeaderSite,
    /// 0 or 1.
    is_emitted: Value,
    /// Bytes that are emitted before it.
    at: Value,
    /// Where it was parsed, if that is known.
    offset: Option<Value>,
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
        let reached = (!fusing.always_emits).then(|| self.declare());
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
        let placing = self.placing(emits);
        let moves = self.moves(&placing);
        let (moved, stays) = (self.b.create_block(), self.b.create_block());
        let after = self.b.create_block();
        self.branch(moves, moved, stays);
        self.start_sealed(moved);
        if self.is_movable(emits) {
            let anew = self.cold_block();
            self.relocate(&placing, anew);
            self.jump(after);
            self.start_sealed(anew);
        }
        self.emit_all(emits)?;
        self.rebuild();
        self.jump(after);
        self.start_sealed(stays);
        for placed in &placing.headers {
            self.store_if_dirty(placed);
        }
        self.jump(after);
        self.start_sealed(after);
        Ok(())
    }

    /// What is emitted, and where it comes to be if it is put in front of what was not parsed.
    fn placing(&mut self, emits: &[Emit]) -> Placing {
        let mut headers = Vec::with_capacity(emits.len());
        let mut at = self.number(0);
        for emit in emits {
            let site = self.code.headers[emit.header.base.get() as usize].clone();
            let is_emitted = self.is_emitted(emit);
            let offset = self.offset_of(site.id);
            headers.push(Placed {
                is_emitted,
                at,
                offset,
                site,
            });
            if let (Some(_), Some(placed)) = (offset, headers.last()) {
                let bytes = i64::from(placed.site.fixed_bits / 8);
                let length = self.b.ins().imul_imm(is_emitted, bytes);
                at = self.b.ins().iadd(at, length);
            }
        }
        let cursor = self.b.use_var(self.cursor);
        // A byte of which anything was parsed is not sent behind what is emitted.
        let end = match self.is_always_at_byte() {
            true => cursor,
            false => self.b.ins().iadd_imm(cursor, 7),
        };
        let parsed = self.b.ins().ushr_imm(end, 3);
        let shift = self.b.ins().isub(parsed, at);
        Placing { headers, shift }
    }

    /// Whether anything would be somewhere else than it was parsed, as a truth value.
    fn moves(&mut self, placing: &Placing) -> Value {
        let mut moves = placing.shift;
        for placed in &placing.headers {
            let is_moved = match placed.offset {
                Some(offset) => {
                    let distance = self.b.ins().isub(offset, placed.at);
                    let zero = self.number(0);
                    self.b.ins().select(placed.is_emitted, distance, zero)
                }
                None => placed.is_emitted,
            };
            moves = self.b.ins().bor(moves, is_moved);
        }
        if self.calls(Op::Truncate) {
            let asked = self.asked_flag();
            moves = self.b.ins().bor(moves, asked);
        }
        moves
    }

    /// Whether the program may have asked something, as a number.
    fn asked_flag(&mut self) -> Value {
        let flags = self.flags();
        self.b.ins().band_imm(flags, flags::ASKED as i64)
    }

    /// Whether headers can be moved one by one: it is known where each was parsed, and they are few enough to be held in values meanwhile.
    fn is_movable(&self, emits: &[Emit]) -> bool {
        let bits = |emit: &Emit| {
            let header = emit.header.base;
            let fusing = self.fused.as_ref();
            let is_tracked = fusing.is_some_and(|fusing| fusing.offsets.knows(header));
            let site = self.code.headers.get(header.get() as usize)?;
            is_tracked.then_some(site.fixed_bits)
        };
        let total: Option<u32> = emits.iter().map(bits).sum();
        total.is_some_and(|total| total <= MOVABLE_BITS)
    }

    /// Puts what is emitted in front of what was not parsed, within the frame's buffer; goes to `anew`, with nothing changed, where that has no room.
    fn relocate(&mut self, placing: &Placing, anew: Block) {
        let shift = placing.shift;
        let headroom = self.b.use_var(self.headroom);
        let headroom = self.b.ins().iadd(headroom, shift);
        let bits = self.b.use_var(self.bits);
        let more = self.b.ins().ishl_imm(shift, 3);
        let bits = self.b.ins().isub(bits, more);
        let most = MAX_FRAME as i64 * 8;
        let is_full = self.b.ins().icmp_imm(IntCC::SignedLessThan, headroom, 0);
        let is_long = self.b.ins().icmp_imm(IntCC::SignedGreaterThan, bits, most);
        let mut hard = vec![is_full, is_long];
        if self.calls(Op::Truncate) {
            let asked = self.asked_flag();
            hard.push(self.is_set(asked));
        }
        for is_hard in hard {
            let fits = self.b.create_block();
            self.branch(is_hard, anew, fits);
            self.start_sealed(fits);
        }
        // All that stands in the packet is read before any of it is written over; what has values of its own is put together where it is written.
        let bytes = self.b.use_var(self.bytes);
        let front = self.b.ins().iadd(bytes, shift);
        let taken: Vec<(Value, Option<Vec<Value>>)> = placing
            .headers
            .iter()
            .map(|placed| {
                let is_moved = self.is_moved(placed, shift);
                let is_read = self.is_read_in_packet(&placed.site);
                let words = is_read.then(|| self.take_moved(placed, is_moved));
                (is_moved, words)
            })
            .collect();
        for (placed, (is_moved, words)) in placing.headers.iter().zip(taken) {
            let (writes, stays) = (self.b.create_block(), self.b.create_block());
            let after = self.b.create_block();
            self.branch(is_moved, writes, stays);
            self.start_sealed(writes);
            let words = words.unwrap_or_else(|| self.words_of_header(&placed.site));
            let to = self.b.ins().iadd(front, placed.at);
            self.store_words(&words, to, 0, placed.site.fixed_bits / 8);
            self.jump(after);
            self.start_sealed(stays);
            self.store_if_dirty(placed);
            self.jump(after);
            self.start_sealed(after);
        }
        self.b.def_var(self.bytes, front);
        self.b.def_var(self.bits, bits);
        self.b.def_var(self.headroom, headroom);
        self.note_moved(shift);
    }

    /// The frame will begin where the packet does now.
    fn note_moved(&mut self, shift: Value) {
        let flags = self.flags();
        let shift = match std::mem::replace(&mut self.code.may_move, true) {
            true => self.moved_before(shift),
            // Nothing in front of the first deparser has moved it.
            false => shift,
        };
        self.store_invocation(shift, offset::SHIFT);
        let flags = self.b.ins().bor_imm(flags, flags::MOVED as i64);
        self.set_flags(flags);
    }

    /// By how much a packet is moved that may have been moved before.
    fn moved_before(&mut self, shift: Value) -> Value {
        let flags = self.flags();
        let before = self.load_invocation(offset::SHIFT);
        let has_moved = self.b.ins().band_imm(flags, flags::MOVED as i64);
        let zero = self.number(0);
        let before = self.b.ins().select(has_moved, before, zero);
        self.b.ins().iadd(before, shift)
    }

    /// Whether a header is emitted elsewhere than it was parsed: 0 or 1.
    fn is_moved(&mut self, placed: &Placed, shift: Value) -> Value {
        let to = self.b.ins().iadd(placed.at, shift);
        let is_moved = match placed.offset {
            Some(offset) => self.b.ins().icmp(IntCC::NotEqual, offset, to),
            None => self.is_set(placed.is_emitted),
        };
        let is_moved = self.number_of(is_moved);
        self.b.ins().band(is_moved, placed.is_emitted)
    }

    /// Whether a part of a header is read where it stands in the packet.
    fn is_read_in_packet(&self, site: &HeaderSite) -> bool {
        let runs = self.runs(site);
        runs.iter().any(|run| matches!(run, Run::InPacket { .. }))
    }

    fn words_of_header(&mut self, site: &HeaderSite) -> Vec<Value> {
        let pieces = self.pieces_of_header(site, None);
        self.words(&pieces)
    }

    /// The words of a header, if it is moved.
    fn take_moved(&mut self, placed: &Placed, is_moved: Value) -> Vec<Value> {
        let count = placed.site.fixed_bits.div_ceil(64) as usize;
        let takes = self.b.create_block();
        let (after, taken) = self.block_with(count);
        let zero = self.number(0);
        let nothing: Vec<BlockArg> = vec![zero.into(); count];
        self.b.ins().brif(is_moved, takes, &[], after, &nothing);
        self.start_sealed(takes);
        let words = self.words_of_header(&placed.site);
        self.jump_with(after, &words);
        self.start_sealed(after);
        taken
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
        let headroom = self.load_invocation(offset::HEADROOM);
        self.b.def_var(self.headroom, headroom);
        self.return_if(number, |this| this.return_number(number));
    }

    /// Writes the fields of a header that the program may have changed to where it was parsed, if it is emitted.
    fn store_if_dirty(&mut self, placed: &Placed) {
        let site = &placed.site;
        let dirty = self.dirty(site);
        if dirty.is_empty() || placed.offset.is_none() {
            return;
        }
        let (there, after) = (self.b.create_block(), self.b.create_block());
        self.branch(placed.is_emitted, there, after);
        self.start_sealed(there);
        let bytes = self.bytes_of_header(site.id);
        for run in dirty {
            self.store_run(site, bytes, run);
        }
        self.jump(after);
        self.start_sealed(after);
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
        let (at, count) = (run.first / 8, (run.end - run.first) / 8);
        let ty = match count {
            1 => I8,
            2 => I16,
            4 => I32,
            _ => {
                let words = self.words(&pieces);
                return self.store_words(&words, bytes, at, count);
            }
        };
        let number = self.number_of_pieces(&pieces);
        let number = self.b.ins().ireduce(ty, number);
        let number = match ty {
            I8 => number,
            _ => self.b.ins().bswap(number),
        };
        self.b.ins().store(in_bytes(), number, bytes, at as i32);
    }

    /// Pieces of at most 64 bits together as one number.
    fn number_of_pieces(&mut self, pieces: &[(Value, u32)]) -> Value {
        let mut number = None;
        for &(value, width) in pieces.iter().filter(|(_, width)| *width > 0) {
            number = Some(match number {
                None => value,
                Some(before) => {
                    let before = self.b.ins().ishl_imm(before, i64::from(width));
                    self.b.ins().bor(before, value)
                }
            });
        }
        number.unwrap_or_else(|| self.number(0))
    }

    /// Stores the first `count` bytes of words, `at` bytes behind an address.
    fn store_words(&mut self, words: &[Value], bytes: Value, at: u32, count: u32) {
        let (mut at, mut left) = (at, count);
        for &word in words {
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
