//! Deparsers on the fast path. Headers that stay at their position in the packet are not copied.
//!
//! If a deparser only emits after its first `emit`, all emits are deferred to its end. Then the
//! layout of the new packet is known. The same is done for the first branch of a deparser that is
//! one `if`.
//! - If each header is emitted where it was parsed, only written fields are stored into the packet.
//! - Otherwise, headers that move are loaded and stored before the unparsed payload, within the
//!   frame's buffer.
//! - If the buffer has no room, or header positions are unknown, all headers are emitted into a
//!   buffer and the packet is rebuilt.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I16, I32};
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value};
use cranelift_frontend::Variable;
use exec::Unsupported;
use exec::slots::header::HeaderSite;
use ir::{
    Control, ControlId, Expr, HeaderPlace, Next, Op, Program, Stage, StageKind, Stmt, StmtKind,
};
use packet::MAX_FRAME;

use super::action::Uses;
use super::emit::pieces_of;
use super::fields::Run;
use super::{Translator, in_bytes};
use crate::abi::{Outcome, flags, offset};
use crate::helpers::Helper;

/// Deferred `emit`.
#[derive(Clone, Debug)]
pub(super) struct Emit {
    header: HeaderPlace,
    /// Variable with 1 if the deparser has reached the statement, or none if it always does.
    reached: Option<Variable>,
}

/// Control flow of a deparser with deferred emits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// It runs all of its statements.
    Straight,
    /// It has branches.
    Branching,
}

/// Maximum number of header bits that are held in values while headers are moved.
const MOVABLE_BITS: u32 = 2048;

/// New layout of the packet.
struct Placing {
    headers: Vec<Placed>,
    /// Distance in bytes from the current start of the packet to the new one.
    shift: Value,
}

/// Header that may be emitted.
struct Placed {
    site: HeaderSite,
    /// 1 if it is emitted, else 0.
    is_emitted: Value,
    /// Number of bytes that are emitted before it.
    at: Value,
    /// Offset where it was parsed, if that is known.
    offset: Option<Value>,
}

/// Part of a header to be stored: a run of whole bytes, as bit positions in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dirty {
    first: u32,
    end: u32,
}

impl Translator<'_> {
    /// Runs a deparser and replaces the packet by its result.
    pub(super) fn deparse(&mut self, control: ControlId) -> Result<(), Unsupported> {
        match branches(self.program, control).filter(|_| self.fused.is_some()) {
            Some(branches) => self.deparse_by_branch(control, branches)?,
            None => {
                self.put_off_emitting(control);
                let after = self.begin_code();
                self.control(control)?;
                self.shared_bodies()?;
                self.end_control(after, Self::forget_emitted);
                self.finish_deparse()?;
            }
        }
        let zero = self.number(0);
        self.b.def_var(self.cursor, zero);
        self.b.def_var(self.emitted, zero);
        if let Some(fusing) = self.fused.as_mut() {
            fusing.bytes_stand = false;
        }
        Ok(())
    }

    /// Replaces the packet by what a deparser has emitted.
    fn finish_deparse(&mut self) -> Result<(), Unsupported> {
        match self.fused.as_mut().and_then(|fusing| fusing.emits.take()) {
            Some(emits) => self.deparse_in_place(&emits),
            None => {
                self.rebuild();
                Ok(())
            }
        }
    }

    /// Runs a deparser that is one `if`. The emits of its first branch are deferred.
    fn deparse_by_branch(
        &mut self,
        control: ControlId,
        branches: Branches<'_>,
    ) -> Result<(), Unsupported> {
        let after = self.begin_code();
        if let Some(control) = self.program.controls.get(control) {
            self.uses = Uses::of_control(self.program, control, self.costs);
        }
        self.loc = branches.stage.loc;
        self.check_size()?;
        self.enclosing.clear();
        self.spend(self.budget.stage(branches.stage));
        let (first, second) = (self.b.create_block(), self.b.create_block());
        let (deferred, finished) = (self.b.create_block(), self.b.create_block());
        self.decide(branches.cond, first, second)?;
        self.start_sealed(first);
        if let Some(fusing) = self.fused.as_mut() {
            fusing.emits = Some(Vec::new());
            fusing.always_emits = true;
        }
        self.body(branches.emits)?;
        let emits = self.fused.as_mut().and_then(|fusing| fusing.emits.take());
        self.jump(deferred);
        self.start_sealed(second);
        self.body(branches.other)?;
        self.free_temporaries();
        if self.is_live {
            self.end_with(Outcome::Done);
        }
        self.loc = None;
        self.shared_bodies()?;
        self.end_control(after, Self::forget_emitted);
        self.rebuild();
        self.jump(finished);
        self.start_sealed(deferred);
        self.deparse_in_place(&emits.unwrap_or_default())?;
        self.jump(finished);
        self.start_sealed(finished);
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

    /// Defers an `emit`, if this deparser allows it. Returns false if it does not.
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

    /// Computes the emitted headers and their positions, if they are placed directly before the
    /// unparsed payload.
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
        // A byte that was parsed in part is not part of the payload.
        let end = match self.is_always_at_byte() {
            true => cursor,
            false => self.b.ins().iadd_imm(cursor, 7),
        };
        let parsed = self.b.ins().ushr_imm(end, 3);
        let shift = self.b.ins().isub(parsed, at);
        Placing { headers, shift }
    }

    /// Returns a truth value that is set if any header moves, or if the packet must be truncated.
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

    /// Returns a number other than 0 if the program may have issued a request.
    fn asked_flag(&mut self) -> Value {
        let flags = self.flags();
        self.b.ins().band_imm(flags, flags::ASKED as i64)
    }

    /// Returns true if headers can be moved one by one: the offset of each is tracked, and they fit
    /// into values.
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

    /// Places the emitted headers before the unparsed payload, within the frame's buffer. Branches
    /// to `anew` without changes if there is no room.
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
        // Everything that is read from the packet is loaded before the first store. Headers with
        // all fields in variables are assembled where they are written.
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

    /// Records that the frame must start where the packet now starts.
    fn note_moved(&mut self, shift: Value) {
        let flags = self.flags();
        let shift = match std::mem::replace(&mut self.code.may_move, true) {
            true => self.moved_before(shift),
            // No deparser before the first one has moved the packet.
            false => shift,
        };
        self.store_invocation(shift, offset::SHIFT);
        let flags = self.b.ins().bor_imm(flags, flags::MOVED as i64);
        self.set_flags(flags);
    }

    /// Returns the total shift of a packet that may have been moved before.
    fn moved_before(&mut self, shift: Value) -> Value {
        let flags = self.flags();
        let before = self.load_invocation(offset::SHIFT);
        let has_moved = self.b.ins().band_imm(flags, flags::MOVED as i64);
        let zero = self.number(0);
        let before = self.b.ins().select(has_moved, before, zero);
        self.b.ins().iadd(before, shift)
    }

    /// Returns 1 if a header is emitted at another position than it was parsed, else 0.
    fn is_moved(&mut self, placed: &Placed, shift: Value) -> Value {
        let to = self.b.ins().iadd(placed.at, shift);
        let is_moved = match placed.offset {
            Some(offset) => self.b.ins().icmp(IntCC::NotEqual, offset, to),
            None => self.is_set(placed.is_emitted),
        };
        let is_moved = self.number_of(is_moved);
        self.b.ins().band(is_moved, placed.is_emitted)
    }

    /// Returns true if a part of a header is read from the packet.
    fn is_read_in_packet(&self, site: &HeaderSite) -> bool {
        let runs = self.runs(site);
        runs.iter().any(|run| matches!(run, Run::InPacket { .. }))
    }

    fn words_of_header(&mut self, site: &HeaderSite) -> Vec<Value> {
        let pieces = self.pieces_of_header(site, None);
        self.words(&pieces)
    }

    /// Loads the words of a header, if it is moved.
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

    /// Returns 1 if a header is emitted, else 0.
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

    /// Translates the deferred emits as ordinary emits.
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

    /// Replaces the packet by the emitted bits and the unparsed payload.
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

    /// Stores the fields of an emitted header that the program may have changed, at the position
    /// where it was parsed.
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

    /// Returns true if anything but extraction writes a field of a header.
    fn is_written(&self, site: &HeaderSite, index: usize) -> bool {
        let field = self.field_of_header(site, index);
        let written = self.fused.as_ref().map(|fusing| &fusing.homes.written);
        field.is_none_or(|field| written.is_none_or(|written| written.contains(&field)))
    }

    /// Stores whole bytes of a header. Written fields come from their variables, others from the
    /// packet.
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

    /// Combines pieces of up to 64 bits in total into one number.
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

    /// Stores the first `count` bytes of words, at offset `at` from an address.
    fn store_words(&mut self, words: &[Value], bytes: Value, at: u32, count: u32) {
        let (mut at, mut left) = (at, count);
        for &word in words {
            let word = self.b.ins().bswap(word);
            let size = left.min(8);
            self.store_bytes(word, bytes, at, size);
            (at, left) = (at + size, left - size);
        }
    }

    /// Stores the `size` low bytes of a word, least significant first.
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

/// A deparser that is one `if`.
struct Branches<'p> {
    stage: &'p Stage,
    cond: &'p Expr,
    /// The first branch: it only emits.
    emits: &'p [Stmt],
    other: &'p [Stmt],
}

/// Returns the branches of a deparser that is one `if` with a first branch that only emits, and a
/// second one that does more.
fn branches(program: &Program, control: ControlId) -> Option<Branches<'_>> {
    let control = program.controls.get(control)?;
    let mut stages = control.stages.values();
    let (Some(stage), None) = (stages.next(), stages.next()) else {
        return None;
    };
    let StageKind::Action {
        body,
        next: Next::End,
    } = &stage.kind
    else {
        return None;
    };
    let [
        Stmt {
            kind: StmtKind::If(cond, emits, other),
            ..
        },
    ] = &body[..]
    else {
        return None;
    };
    let is_emit = |stmt: &Stmt| match &stmt.kind {
        StmtKind::Emit(header) => header.dims.is_empty(),
        _ => false,
    };
    let branches = Branches {
        stage,
        cond,
        emits,
        other,
    };
    let is_other = shape(program, control).is_none();
    (is_other && emits.iter().all(is_emit)).then_some(branches)
}

/// Returns the control flow of a deparser if its emits can be deferred. This requires that it only
/// emits and branches after its first `emit`, and has no loops.
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
    /// True after the first `emit`.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if the emits of the first branch of a deparser are deferred.
    fn has_branches(code: &str) -> bool {
        let text = format!(
            "program t own\nheader_type h_t {{\n    a: bit<8>;\n}}\nfield m: bit<8>\nheader hdr.h: h_t\n\
             control d {{\n    stage d.code: action next end {{\n{code}\n    }}\n}}\n"
        );
        let program = ir::read(&text).expect("the text is IR");
        branches(&program, ControlId::new(0)).is_some()
    }

    #[test]
    fn emits_of_a_first_branch_are_deferred_beside_a_branch_that_does_more() {
        let other = "emit_field m;";
        let branch = |first: &str, second: &str| {
            format!("        if (m == 8w1) {{\n{first}\n}}\n        else {{\n{second}\n}}")
        };
        assert!(has_branches(&branch("emit hdr.h;", other)));
        assert!(!has_branches(&branch("emit hdr.h;\nm = 8w2;", other)));
        // The emits of both branches are deferred.
        assert!(!has_branches(&branch("emit hdr.h;", "emit hdr.h;")));
        let before = format!("m = 8w1;\n{}", branch("emit hdr.h;", other));
        assert!(!has_branches(&before));
    }
}
