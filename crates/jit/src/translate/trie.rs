//! Trie lookups in native code without prefetched results: for small bursts, most of which have one
//! packet, and for tables with keys that prefetch passes do not know.
//!
//! A helper would reach the same slot through the table, its lookup structure, and its index. These
//! are three dependent accesses and ten cache lines, which are far if very many devices alternate.
//! [`table::TrieIndex`] defines the layout of tries.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use exec::Unsupported;
use ir::{MatchKind, TableId};
use table::TrieIndex;

use super::expr::is_wide;
use super::lookup_schedule::Follows;
use super::{Translator, in_limbs};
use crate::view::{self, TableView};

/// Number of bits of an address.
const BITS: u32 = u64::BITS;

impl Translator<'_> {
    /// Returns the width of a table's key, if it is a single prefix that native code looks up.
    fn prefix_width(&self, table: TableId) -> Option<u32> {
        let [key] = self.program.tables.get(table)?.keys.as_slice() else {
            return None;
        };
        let ty = self.ty(&key.expr).ok().filter(|ty| !is_wide(*ty))?;
        let width = ty.width();
        let is_prefix = key.match_kind == MatchKind::Lpm && (1..=BITS).contains(&width);
        (self.fused.is_some() && is_prefix && self.follows(&key.expr)).then_some(width)
    }

    /// Looks up a table's key without a prefetched result. Returns the record number.
    pub(super) fn search_alone(&mut self, table: TableId) -> Result<Value, Unsupported> {
        match self.prefix_width(table) {
            Some(width) => self.search_trie(table, width),
            None => self.find(table),
        }
    }

    fn search_trie(&mut self, table: TableId, width: u32) -> Result<Value, Unsupported> {
        self.code.trie_tables.insert(table);
        let key = self.key_of(table)?[0];
        let address = self.b.ins().ishl_imm(key, i64::from(BITS - width));
        let words = view::of_table(table);
        let target = self.first_target(&words, address);
        let [lines, end] = [words.lines, words.end].map(|at| self.load_view(at));
        let rest = self.b.ins().ishl(address, end);
        let (ask, asked) = self.block_with(2);
        let [enter, entered] = [(); 2].map(|()| self.b.create_block());
        if self.is_in_cold() {
            for block in [ask, enter, entered] {
                self.b.set_cold_block(block);
            }
        }
        self.jump_with(ask, &[target, rest]);
        self.start(ask);
        let (target, rest) = (asked[0], asked[1]);
        let node = self.b.ins().band_imm(target, i64::from(TrieIndex::NODE));
        self.branch(node, enter, entered);
        self.start_sealed(enter);
        let next = self.target_behind(lines, target, rest);
        let rest = self.b.ins().ishl_imm(rest, i64::from(TrieIndex::STRIDE));
        self.jump_with(ask, &[next, rest]);
        self.b.seal_block(ask);
        self.start_sealed(entered);
        let default = self.load_view(words.default);
        Ok(self.b.ins().select(target, target, default))
    }

    /// Returns the first target of an address, from the slots.
    fn first_target(&mut self, words: &TableView, address: Value) -> Value {
        let [shared, end, last, slots] =
            [words.shared, words.end, words.last_slot, words.slots].map(|at| self.load_view(at));
        let differs = self.b.ins().bxor(address, shared);
        // Shifts in two steps, each by less than 64, since the number of bits may be 0.
        let half = self.b.ins().ushr_imm(differs, 1);
        let most = self.number((BITS - 1).into());
        let behind = self.b.ins().isub(most, end);
        let slot = self.b.ins().ushr(half, behind);
        let slot = self.b.ins().umin(slot, last);
        self.at_slot(slots, slot)
    }

    /// Returns the target in a node, for the rest of the address.
    fn target_behind(&mut self, lines: Value, target: Value, rest: Value) -> Value {
        let zero = self.number(0);
        let shift = i64::from(BITS - TrieIndex::STRIDE);
        let bits = self.b.ins().ushr_imm(rest, shift);
        let wide = self.b.ins().band_imm(target, i64::from(TrieIndex::WIDE));
        let part = self.b.ins().ushr_imm(bits, 4);
        let part = self.b.ins().select(wide, part, zero);
        let place = self.b.ins().band_imm(target, i64::from(TrieIndex::PLACE));
        let place = self.b.ins().iadd(place, part);
        let behind = self.b.ins().imul_imm(place, TrieIndex::LINE as i64);
        let line = self.b.ins().iadd(lines, behind);
        // The form of a node is unpredictable. So the words of a wide node are also read in the
        // other form, and not used.
        let [covered, starts] = [0, 2].map(|at| self.up_to(line, at, bits));
        let behind = self.b.ins().popcnt(starts);
        let is_covered = self.b.ins().icmp_imm(IntCC::SignedLessThan, covered, 0);
        let behind = self.b.ins().select(is_covered, behind, zero);
        let narrow = self.b.ins().iadd_imm(behind, TrieIndex::FALLBACK as i64);
        let own = self.b.ins().band_imm(bits, 15);
        let word = self.b.ins().select(wide, own, narrow);
        self.at_slot(line, word)
    }

    /// Returns the set of slots up to this one, from two words of a line, shifted so that this slot
    /// is the most significant bit.
    fn up_to(&mut self, line: Value, word: i32, slot: Value) -> Value {
        let [low, high] =
            [word, word + 1].map(|word| self.b.ins().uload32(in_limbs(), line, 4 * word));
        let high = self.b.ins().ishl_imm(high, 32);
        let set = self.b.ins().bor(low, high);
        let last = self.number((BITS - 1).into());
        let above = self.b.ins().isub(last, slot);
        self.b.ins().ishl(set, above)
    }
}
