//! Bit-vector classification: lookups in small rule sets. Each part of the key selects a row with
//! one bit per rule. The lowest bit that is set in all rows is the entry.
//!
//! [`table::VectorIndex`] defines the layout of the rows. The number of parts depends on the rules,
//! so generated code loops over them. The loop is the same for all packets, so its branches are
//! predictable.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, StackSlot, StackSlotData, StackSlotKind, Value};
use exec::Unsupported;
use ir::{MatchKind, TableId};

use super::expr::is_wide;
use super::lookup_schedule::Follows;
use super::{I64, INLINE_LIMBS, Translator, in_constants, in_limbs, in_stack};
use crate::abi::offset;
use crate::view::{self, part};

/// Bytes of a word, and the base-2 logarithm of its alignment.
const WORD: i32 = 8;
const ALIGNMENT: u8 = 3;

/// Maximum declared size of a table that may be small. Larger tables rarely have few rules, and the
/// extra code prevents tail duplication. With that code, `acl-1k` took 310 to 336 cycles per
/// packet.
const MAX_WANTED: u32 = 1024;

impl Translator<'_> {
    /// Returns true if a table on the fast path may use bit-vector lookup, and its keys are
    /// computed without a helper.
    pub(super) fn uses_bit_vector(&self, table: TableId) -> bool {
        let Some(declared) = self.program.tables.get(table) else {
            return false;
        };
        let wants_more = declared.size_is_declared && declared.size > MAX_WANTED;
        let keys = || declared.keys.iter();
        let has_rules = keys().any(|key| {
            matches!(
                key.match_kind,
                MatchKind::Ternary | MatchKind::Range | MatchKind::Optional
            )
        });
        let can_follow = keys().all(|key| {
            let is_narrow = self.ty(&key.expr).is_ok_and(|ty| !is_wide(ty));
            key.match_kind != MatchKind::Selector && is_narrow && self.follows(&key.expr)
        });
        let limbs = self.code.tables[table].key_limbs;
        let is_small = (1..=INLINE_LIMBS).contains(&limbs);
        self.fused.is_some() && has_rules && can_follow && is_small && !wants_more
    }

    /// Returns the record number that the key hits. Uses bit-vector lookup if the state has such an
    /// index, else `search`.
    pub(super) fn among_few_or(
        &mut self,
        table: TableId,
        search: impl FnOnce(&mut Self) -> Result<Value, Unsupported>,
    ) -> Result<Value, Unsupported> {
        if !self.uses_bit_vector(table) {
            return search(self);
        }
        let (few, searched) = (self.b.create_block(), self.b.create_block());
        let (after, number) = self.block_with(1);
        let entries = self.load_view(view::of_table(table).entries);
        self.branch(entries, few, searched);
        self.start_sealed(few);
        let found = self.among_few(table, entries)?;
        self.jump_with(after, &[found]);
        self.start_sealed(searched);
        let found = search(self)?;
        self.jump_with(after, &[found]);
        self.start_sealed(after);
        Ok(number[0])
    }

    fn among_few(&mut self, table: TableId, entries: Value) -> Result<Value, Unsupported> {
        let key = self.key_of(table)?;
        let limbs = self.put_on_stack(&key);
        let words = view::of_table(table);
        let places = self.rules_of_parts(&words, limbs);
        let place = self.b.ins().ctz(places);
        let behind = self.b.ins().ishl_imm(place, 2);
        let entry = self.b.ins().iadd(entries, behind);
        Ok(self.b.ins().uload32(in_limbs(), entry, 0))
    }

    /// Stores a key's limbs on the stack and returns their address. Parts name limbs by their
    /// offset.
    fn put_on_stack(&mut self, key: &[Value]) -> Value {
        let slot = self.key_slot();
        let limbs = self.b.ins().stack_addr(I64, slot, 0);
        // No key has more limbs. The slot has no room for them.
        for (&limb, at) in key.iter().zip(0..INLINE_LIMBS as i32) {
            self.b.ins().store(in_stack(), limb, limbs, WORD * at);
        }
        limbs
    }

    /// Returns the stack slot for keys. All tables share it, since lookups do not overlap.
    fn key_slot(&mut self) -> StackSlot {
        if let Some(slot) = self.key_slot {
            return slot;
        }
        let size = INLINE_LIMBS * WORD as u32;
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, size, ALIGNMENT);
        *self.key_slot.insert(self.b.create_sized_stack_slot(data))
    }

    /// Returns the rules that match in all parts, as a bit vector.
    fn rules_of_parts(&mut self, words: &view::TableView, limbs: Value) -> Value {
        let live = self.load_view(words.live);
        let view = self.load_constant(offset::VIEW);
        let [first, end] = words.parts.map(|at| {
            let behind = self.load_view(at);
            self.b.ins().iadd(view, behind)
        });
        let (each, of_part) = self.block_with(2);
        let (through, rules) = self.block_with(1);
        let is_any = self.b.ins().icmp(IntCC::NotEqual, first, end);
        self.go_either_way(is_any, (each, &[first, live]), (through, &[live]));
        self.start(each);
        let (here, before) = (of_part[0], of_part[1]);
        let class = self.class_of(here, limbs);
        let rows = self.load_part(here, part::ROWS);
        let row = self.b.ins().iadd(rows, class);
        let row = self.b.ins().load(I64, in_limbs(), row, 0);
        let both = self.b.ins().band(before, row);
        let next = self.b.ins().iadd_imm(here, i64::from(part::SIZE));
        let is_more = self.b.ins().icmp(IntCC::NotEqual, next, end);
        self.go_either_way(is_more, (each, &[next, both]), (through, &[both]));
        self.b.seal_block(each);
        self.start_sealed(through);
        rules[0]
    }

    /// Returns the class of the key in a part, as byte offset of a row. It is the value itself, or
    /// found by binary search.
    fn class_of(&mut self, here: Value, limbs: Value) -> Value {
        let at = self.load_part(here, part::LIMB);
        let limb = self.b.ins().iadd(limbs, at);
        let limb = self.b.ins().load(I64, in_stack(), limb, 0);
        let [shift, mask, half] =
            [part::SHIFT, part::MASK, part::HALF].map(|at| self.load_part(here, at));
        let shifted = self.b.ins().ushr(limb, shift);
        let value = self.b.ins().band(shifted, mask);
        let itself = self.b.ins().ishl_imm(value, 3);
        let (halve, of_half) = self.block_with(2);
        let (known, class) = self.block_with(1);
        let none = self.number(0);
        self.go_either_way(half, (halve, &[half, none]), (known, &[itself]));
        self.start(halve);
        let (half, least) = (of_half[0], of_half[1]);
        let starts = self.load_part(here, part::STARTS);
        let middle = self.b.ins().iadd(least, half);
        let start = self.b.ins().iadd(starts, middle);
        let start = self.b.ins().load(I64, in_limbs(), start, 0);
        let is_behind = self.b.ins().icmp(IntCC::UnsignedLessThan, value, start);
        let least = self.b.ins().select(is_behind, least, middle);
        let half = self.b.ins().ushr_imm(half, 1);
        let is_more =
            self.b
                .ins()
                .icmp_imm(IntCC::UnsignedGreaterThanOrEqual, half, i64::from(WORD));
        self.go_either_way(is_more, (halve, &[half, least]), (known, &[least]));
        self.b.seal_block(halve);
        self.start_sealed(known);
        class[0]
    }

    fn load_part(&mut self, here: Value, at: i32) -> Value {
        self.b.ins().load(I64, in_constants(), here, at)
    }

    fn go_either_way(
        &mut self,
        truth: Value,
        then: (Block, &[Value]),
        otherwise: (Block, &[Value]),
    ) {
        let [then_args, otherwise_args] = [then.1, otherwise.1].map(|values| {
            let args: Vec<_> = values.iter().map(|&value| value.into()).collect();
            args
        });
        let (then, otherwise) = (then.0, otherwise.0);
        self.b
            .ins()
            .brif(truth, then, &then_args, otherwise, &otherwise_args);
        self.is_live = false;
    }
}
