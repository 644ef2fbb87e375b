//! Inline counting on the fast path: load, add, store, in the counter shard of the thread.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;
use exec::Unsupported;
use ir::{
    Call, CounterUnit, Expr, ExternId, ExternKind, Op, Operand, Program, ScalarTy, Stage,
    StageKind, Stmt, StmtKind, TableId,
};
use table::{COUNTER_WORDS, USAGE_WORDS};

use super::{I64, Translator, in_limbs};
use crate::abi::{flags, offset};
use crate::helpers::Helper;
use crate::view;

/// Byte offsets in an entry's usage row, as defined by `table::Lookup::usage`.
mod row {
    pub(super) const HITS: i32 = 0;
    pub(super) const BYTES: i32 = 8;
    pub(super) const LAST_USE: i32 = 16;
}

/// Byte offset of the misses in a table's totals. The hits are at offset 0, as defined by
/// `table::Lookup::totals`.
const MISSES: i32 = 8;

/// Direct counter of the table of which an action is being translated, and the variable with the
/// address of the entry's cell.
#[derive(Clone, Copy)]
pub(super) struct Applying {
    counter: Option<ExternId>,
    counted: Variable,
    /// True in v1model, where the hit has been counted.
    counts_hits: bool,
}

/// Returns true if the program sets the packet's length.
pub(super) fn sets_length(program: &Program) -> bool {
    let in_actions = program
        .actions
        .values()
        .any(|action| is_set_in(&action.body));
    let states = program
        .parsers
        .values()
        .flat_map(|parser| parser.states.values());
    let stages = program
        .controls
        .values()
        .flat_map(|control| control.stages.values());
    let stage_sets = |stage: &Stage| match &stage.kind {
        StageKind::Action { body, .. } => is_set_in(body),
        _ => false,
    };
    in_actions
        || states.into_iter().any(|state| is_set_in(&state.body))
        || stages.into_iter().any(stage_sets)
}

fn is_set_in(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::Call(call) => call.op == Op::SetPacketLength,
        StmtKind::If(_, then, otherwise) => is_set_in(then) || is_set_in(otherwise),
        StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
            is_set_in(body)
        }
        _ => false,
    })
}

impl Translator<'_> {
    /// Records a packet for the entry or default action with this record number.
    pub(super) fn note_packet(&mut self, table: TableId, number: Value) -> Applying {
        let declared = self.program.tables.get(table);
        let counter = declared.and_then(|declared| declared.direct_counter);
        let unit = counter.and_then(|counter| self.unit_of(counter));
        self.note_usage(table, number);
        let counts = self.load_view(view::of_table(table).counts);
        let behind = self.b.ins().imul_imm(number, 8 * COUNTER_WORDS as i64);
        let row = self.b.ins().iadd(counts, behind);
        let counts_hits = self.code.tables[table].counts_hits;
        if let (Some(unit), true) = (unit, counts_hits) {
            let bytes = self.counted_bytes();
            let is_hit = self.b.ins().icmp_imm(IntCC::NotEqual, number, 0);
            let hit = self.b.ins().uextend(I64, is_hit);
            let zero = self.number(0);
            let bytes = self.b.ins().select(is_hit, bytes, zero);
            self.count_at(row, unit, hit, bytes);
        }
        Applying {
            counter,
            counted: self.variable(row),
            counts_hits,
        }
    }

    /// Counts a hit or a miss of the table. Returns the number, which is a constant 0 on the path
    /// of a miss.
    pub(super) fn note_total(&mut self, table: TableId, number: Value) -> Value {
        let (hit, missed) = (self.b.create_block(), self.b.create_block());
        let (after, told) = self.block_with(1);
        let zero = self.number(0);
        self.branch(number, hit, missed);
        self.start_sealed(hit);
        self.count_hit(table);
        self.jump_with(after, &[number]);
        self.start_sealed(missed);
        self.count_miss(table);
        self.jump_with(after, &[zero]);
        self.start_sealed(after);
        told[0]
    }

    /// Counts a hit of a table. Most packets hit.
    pub(super) fn count_hit(&mut self, table: TableId) {
        self.count_one(view::of_table(table).totals);
    }

    /// Counts a miss of a table.
    pub(super) fn count_miss(&mut self, table: TableId) {
        let totals = self.load_view(view::of_table(table).totals);
        let one = self.number(1);
        self.add_at(totals, MISSES, one);
    }

    /// Records the use of the entry with this record number, if usage is recorded.
    fn note_usage(&mut self, table: TableId, number: Value) {
        let (asked, noted) = (self.cold_block(), self.cold_block());
        let after = self.b.create_block();
        let flags = self.flags();
        let may_be_noted = self.b.ins().band_imm(flags, flags::NOTES_USE as i64);
        self.branch(may_be_noted, asked, after);
        self.start_sealed(asked);
        let rows = self.load_view(view::of_table(table).usage);
        self.branch(rows, noted, after);
        self.start_sealed(noted);
        let behind = self.b.ins().imul_imm(number, 8 * USAGE_WORDS as i64);
        let row = self.b.ins().iadd(rows, behind);
        let one = self.number(1);
        let bytes = self.counted_bytes();
        let now = self.load_constant(offset::NANOS);
        self.add_at(row, row::HITS, one);
        self.add_at(row, row::BYTES, bytes);
        self.b.ins().store(in_limbs(), now, row, row::LAST_USE);
        self.jump(after);
        self.start_sealed(after);
    }

    /// Returns the packet length that counters add.
    fn counted_bytes(&mut self) -> Value {
        if self.sets_length {
            return match self.fused.is_some() {
                true => self.received_length(),
                false => self.help(Helper::CountedLength, &[]),
            };
        }
        let bits = self.packet_bits();
        self.b.ins().ushr_imm(bits, 3)
    }

    /// Translates the effect of [`Op::SetPacketLength`] on counters of the fast path.
    pub(super) fn set_length(&mut self, call: &Call) -> Result<(), Unsupported> {
        if let (Op::SetPacketLength, [Operand::In(length)]) = (call.op, &call.operands[..])
            && let Some(received) = self.fused.as_ref().map(|fused| fused.received)
        {
            let length = self.small(length)?;
            self.b.def_var(received, length);
        }
        Ok(())
    }

    pub(super) fn add_at(&mut self, cell: Value, at: i32, amount: Value) {
        let before = self.b.ins().load(I64, in_limbs(), cell, at);
        let sum = self.b.ins().iadd(before, amount);
        self.b.ins().store(in_limbs(), sum, cell, at);
    }

    fn count_at(&mut self, cell: Value, unit: CounterUnit, packets: Value, bytes: Value) {
        if unit != CounterUnit::Bytes {
            self.add_at(cell, 0, packets);
        }
        if unit != CounterUnit::Packets {
            self.add_at(cell, 8, bytes);
        }
    }

    fn unit_of(&self, counter: ExternId) -> Option<CounterUnit> {
        match self.program.externs.get(counter)?.kind {
            ExternKind::DirectCounter { unit } | ExternKind::Counter { unit, .. } => Some(unit),
            _ => None,
        }
    }

    /// Translates a counter call inline, if possible. Returns false if it is not.
    pub(super) fn count(&mut self, call: &Call) -> Result<bool, Unsupported> {
        if self.fused.is_none() {
            return Ok(false);
        }
        match call.op {
            Op::CounterCount | Op::CounterCountLength => self.count_indexed(call),
            Op::DirectCounterCount | Op::DirectCounterCountLength => self.count_direct(call),
            _ => Ok(false),
        }
    }

    /// Returns the length that the program passes, or the packet's length.
    fn given_length(
        &mut self,
        call: &Call,
        at: usize,
        is_given: bool,
    ) -> Result<Value, Unsupported> {
        match call.operands.get(at) {
            Some(Operand::In(length)) if is_given => self.small(length),
            _ => Ok(self.counted_bytes()),
        }
    }

    fn count_direct(&mut self, call: &Call) -> Result<bool, Unsupported> {
        let Some(applying) = self.applying else {
            return Ok(false);
        };
        // As in `exec`, the entry's direct counter counts, whichever direct counter the call names.
        let Some(unit) = applying.counter.and_then(|counter| self.unit_of(counter)) else {
            return Ok(true);
        };
        if applying.counts_hits {
            return Ok(true);
        }
        let is_given = call.op == Op::DirectCounterCountLength;
        let bytes = self.given_length(call, 0, is_given)?;
        let cell = self.b.use_var(applying.counted);
        let one = self.number(1);
        self.count_at(cell, unit, one, bytes);
        Ok(true)
    }

    fn count_indexed(&mut self, call: &Call) -> Result<bool, Unsupported> {
        let (Some(counter), Some(Operand::In(index))) = (call.instance, call.operands.first())
        else {
            return Ok(false);
        };
        let Some(unit) = self.unit_of(counter) else {
            return Ok(false);
        };
        let bits = self.most_bits(index);
        let mut index = self.small(index)?;
        let bytes = self.given_length(call, 1, call.op == Op::CounterCountLength)?;
        let at = view::extern_at(self.program, counter);
        let after = self.b.create_block();
        if self.has_cell_for_all(counter, bits) {
            // The index has at most this number of bits, so it is below the number of cells.
            index = self.cut(index, bits);
            self.code.full_counters.insert(counter, 1 << bits);
        } else {
            let count = self.load_view(at + 8);
            let is_inside = self.b.ins().icmp(IntCC::UnsignedLessThan, index, count);
            let inside = self.b.create_block();
            self.branch(is_inside, inside, after);
            self.start_sealed(inside);
        }
        let cells = self.load_view(at);
        let behind = self.b.ins().ishl_imm(index, 4);
        let cell = self.b.ins().iadd(cells, behind);
        let one = self.number(1);
        self.count_at(cell, unit, one, bytes);
        self.jump(after);
        self.start_sealed(after);
        Ok(true)
    }

    /// Returns an upper bound of the significant bits of a number. A widening cast adds none.
    pub(super) fn most_bits(&self, expr: &Expr) -> u32 {
        let bits = self.ty(expr).map_or(u32::MAX, |ty| ty.width());
        match expr {
            Expr::Cast(_, from) if matches!(self.ty(from), Ok(ScalarTy::Bit(_))) => {
                bits.min(self.most_bits(from))
            }
            _ => bits,
        }
    }

    /// Returns true if every number of `bits` bits is an index of the counter.
    fn has_cell_for_all(&self, counter: ExternId, bits: u32) -> bool {
        let declared = self
            .program
            .externs
            .get(counter)
            .map(|counter| &counter.kind);
        match declared {
            Some(ExternKind::Counter { size, .. }) => {
                bits < u32::BITS && u64::from(*size) >= 1 << bits
            }
            _ => false,
        }
    }
}
