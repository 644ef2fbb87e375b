//! Hash-table lookups in native code, in three steps:
//! - A prefetch pass hashes the keys of a burst. It prefetches the line that must contain each key
//!   and stores its address.
//! - After the last packet, and after loads of the lines if those are faster, a function compares
//!   the keys in the first lines. It stores the second lines of the keys that were not found.
//! - A further function compares the keys in the second lines.
//!
//! Both lookup functions prefetch the entries that the fast path will read, or list them to be
//! loaded. [`table::HashIndex`] defines the layout of tables.
//!
//! An uncertain result (an outdated element) counts as no lookup. Then the fast path searches the
//! lines itself, and calls a helper as the last resort. It does the same without prefetch passes,
//! for few packets or near lines.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32X4, I8X16, I32, I64X2, I128};
use cranelift_codegen::ir::{
    AliasRegion, Block, BlockArg, ConstantData, Endianness, InstBuilder, MemFlags, Value,
};
use cranelift_frontend::Variable;
use exec::{BURST, Unsupported};
use ir::TableId;
use table::{COUNTER_WORDS, Directness, HashIndex, PackedKey, USAGE_WORDS};

use super::lookup_results::{LookupResults, WORD_SHIFT};
use super::lookup_schedule::Level;
use super::{BurstLayout, I64, Translator, in_limbs, memory};
use crate::abi::{LINE, offset};
use crate::lookup_buffer::RowAddresses;
use crate::{prefetch_instruction, view};

/// Number of slots of single-limb keys that are compared by vectors, two at a time.
const VECTORED: usize = 4;

/// Returns the flags for vector loads from lines, which may be unaligned.
fn in_lines() -> MemFlags {
    memory(AliasRegion::Heap)
}

/// Returns the flags of a cast that keeps the bytes of a vector in memory order.
fn in_order() -> MemFlags {
    MemFlags::new().with_endianness(Endianness::Little)
}

/// Lines in which a lookup function searches.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lines {
    First,
    Second,
}

/// Layout of the lookup buffer of a hash table, in words. For each lookup it has the first line and
/// the packet, named by the address of [`Translator::notes_of_packet`]. The first lookup function
/// reuses these words for late lookups, counted from 0: the packet of a lookup that missed in its
/// first line, and the second line. [`LookupResults`] with packed keys follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashedLookups {
    first: usize,
    answers: LookupResults,
}

impl HashedLookups {
    /// Indices of the counters: all lookups, first lines searched, late lookups, and late lookups
    /// finished.
    const ASKED: usize = 0;
    const ANSWERED: usize = 1;
    const LATE: usize = 2;
    const SETTLED: usize = 3;
    const LINES: usize = 4;
    const ASKERS: usize = Self::LINES + BURST;
    /// A sentinel that is no packet follows the last packet.
    const ANSWERS: usize = Self::ASKERS + BURST + 1;

    pub(super) fn new(first: usize, packing: &PackedKey) -> HashedLookups {
        HashedLookups {
            first,
            answers: LookupResults::new(first + Self::ANSWERS, packing.limbs),
        }
    }

    /// Returns the size in words.
    pub(super) fn words(self) -> usize {
        Self::ANSWERS + self.answers.words()
    }

    /// Returns the layout of the results.
    pub(super) fn answers(self) -> LookupResults {
        self.answers
    }

    /// Clears the lookups.
    pub(super) fn clear(self, notes: &mut [u64]) {
        notes[self.first..][..Self::LINES].fill(0);
    }

    /// Ends the writing of lookups. Returns their lines.
    pub(crate) fn lines(self, notes: &mut [u64]) -> &[u64] {
        let notes = &mut notes[self.first..];
        let count = (notes[Self::ASKED] as usize).min(BURST);
        notes[Self::ASKERS + count] = u64::MAX;
        &notes[Self::LINES..][..count]
    }

    /// Returns the second lines of late lookups, after all first lines were searched.
    pub(crate) fn second_lines(self, notes: &[u64]) -> &[u64] {
        let notes = &notes[self.first..];
        let count = (notes[Self::LATE] as usize).min(BURST);
        &notes[Self::ASKERS..][..count]
    }

    /// Returns the byte offset of a word in the lookup buffer.
    fn at(self, word: usize) -> i32 {
        8 * (self.first + word) as i32
    }
}

impl Translator<'_> {
    /// Returns the packing of a table's keys, if native code searches it as a hash table when it
    /// has no direct index.
    pub(super) fn packed_key(&self, table: TableId) -> Option<PackedKey> {
        let has_slots = self
            .directness(table)
            .is_some_and(|it| it != Directness::Sometimes);
        let is_hashed = !has_slots && self.has_exact_keys(table);
        is_hashed.then(|| PackedKey::of(&self.key_widths(table)))?
    }

    /// Packs a key as its table stores it.
    pub(super) fn pack(&mut self, packing: &PackedKey, key: &[Value]) -> Vec<Value> {
        let mut packed: Vec<Option<Value>> = vec![None; packing.limbs];
        for step in &packing.steps {
            let (limb, to) = (key[step.from as usize], step.to as usize);
            let shift = i64::from(step.shift);
            let lower = self.b.ins().ishl_imm(limb, shift);
            self.put_in(&mut packed[to], lower);
            if step.spills {
                let upper = self.b.ins().ushr_imm(limb, 64 - shift);
                self.put_in(&mut packed[to + 1], upper);
            }
        }
        let zero = self.number(0);
        packed
            .into_iter()
            .map(|limb| limb.unwrap_or(zero))
            .collect()
    }

    /// Returns the exclusive or of the lower and upper half of a product.
    fn fold(&mut self, a: Value, b: Value) -> Value {
        let [a, b] = [a, b].map(|factor| self.b.ins().uextend(I128, factor));
        let product = self.b.ins().imul(a, b);
        let (low, high) = self.b.ins().isplit(product);
        self.b.ins().bxor(low, high)
    }

    /// Returns the hash of a packed key.
    fn hash(&mut self, table: TableId, packed: &[Value]) -> Value {
        let [a, b, c] = view::of_table(table).seed.map(|at| self.load_view(at));
        let first = self.b.ins().bxor(packed[0], a);
        let factor = match packed.get(1) {
            Some(&second) => self.b.ins().bxor(second, b),
            None => b,
        };
        let hash = self.fold(first, factor);
        self.fold(hash, c)
    }

    /// Returns the address of the line that half of a hash selects.
    fn line(&mut self, table: TableId, half: Value) -> Value {
        let words = view::of_table(table);
        let (lines, count) = (
            self.load_view(words.lines),
            self.load_view(words.line_count),
        );
        let scaled = self.b.ins().imul(half, count);
        let number = self.b.ins().ushr_imm(scaled, 32);
        let behind = self.b.ins().imul_imm(number, HashIndex::LINE as i64);
        self.b.ins().iadd(lines, behind)
    }

    fn first_line(&mut self, table: TableId, hash: Value) -> Value {
        let half = self.b.ins().ushr_imm(hash, 32);
        self.line(table, half)
    }

    fn second_line(&mut self, table: TableId, hash: Value) -> Value {
        let half = self.b.ins().band_imm(hash, 0xffff_ffff);
        self.line(table, half)
    }

    /// Stores the packed key of a table, and the line that must contain it.
    pub(super) fn ask_hashed(
        &mut self,
        table: TableId,
        to: HashedLookups,
        packing: &PackedKey,
    ) -> Result<(), Unsupported> {
        let key = self.key_of(table)?;
        let packed = self.pack(packing, &key);
        let hash = self.hash(table, &packed);
        let line = self.first_line(table, hash);
        self.prefetch(line);
        let packet = self.notes_of_packet();
        let question = self.take_question(to.at(HashedLookups::ASKED))?;
        for (word, at) in [
            (line, HashedLookups::LINES),
            (packet, HashedLookups::ASKERS),
        ] {
            self.b.ins().store(in_limbs(), word, question, to.at(at));
        }
        self.note_key(to.answers, packet, &packed);
        Ok(())
    }

    /// Searches a line for a key. Returns the record number, which may be marked as outdated, or 0.
    /// It has no branches, since the slot is unpredictable.
    fn probe(&mut self, line: Value, packed: &[Value]) -> Value {
        let found = match packed {
            [key] => self.probe_four(line, *key),
            _ => self.b.ins().iconst(I32, 0),
        };
        let compared = if packed.len() == 1 { VECTORED } else { 0 };
        let slots = compared..HashIndex::slots(packed.len());
        let found = slots.fold(found, |found, slot| {
            let here = self.probe_slot(line, packed, slot);
            self.b.ins().bor(found, here)
        });
        self.b.ins().uextend(I64, found)
    }

    /// Returns the record number in a slot if that has this key, else 0.
    fn probe_slot(&mut self, line: Value, packed: &[Value], slot: usize) -> Value {
        let limbs = packed.len();
        let place = HashIndex::places_at(limbs) + 4 * slot;
        let place = self.b.ins().load(I32, in_limbs(), line, place as i32);
        let none = self.b.ins().iconst(I32, 0);
        let stored = |this: &mut Self, limb: usize| {
            let at = 8 * (slot * limbs + limb) as i32;
            this.b.ins().load(I64, in_limbs(), line, at)
        };
        if let [key] = packed {
            let stored = stored(self, 0);
            let same = self.b.ins().icmp(IntCC::Equal, *key, stored);
            return self.b.ins().select(same, place, none);
        }
        let mut differs = self.number(0);
        for (limb, &part) in packed.iter().enumerate() {
            let stored = stored(self, limb);
            let here = self.b.ins().bxor(stored, part);
            differs = self.b.ins().bor(differs, here);
        }
        self.b.ins().select(differs, none, place)
    }

    /// Searches the first [`VECTORED`] slots of a line with single-limb keys, two at a time.
    fn probe_four(&mut self, line: Value, key: Value) -> Value {
        let key = self.b.ins().splat(I64X2, key);
        let pairs = [0, 16].map(|at| {
            let stored = self.b.ins().load(I64X2, in_lines(), line, at);
            let same = self.b.ins().icmp(IntCC::Equal, key, stored);
            self.b.ins().bitcast(I8X16, in_order(), same)
        });
        // The comparison fills 64-bit lanes with equal bits. Half of each lane is a mask for a
        // 32-bit record number.
        let halves = [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27];
        let halves = ConstantData::from(halves.as_slice());
        let halves = self.b.func.dfg.immediates.push(halves);
        let same = self.b.ins().shuffle(pairs[0], pairs[1], halves);
        let places_at = HashIndex::places_at(1) as i32;
        let places = self.b.ins().load(I8X16, in_lines(), line, places_at);
        let mut found = self.b.ins().band(same, places);
        // At most one lane is not zero. The or of all four lanes moves it to lane 0.
        for lanes in [[2, 3, 0, 1], [1, 0, 3, 2]] {
            let lanes: Vec<u8> = lanes
                .iter()
                .flat_map(|lane| 4 * lane..4 * lane + 4)
                .collect();
            let lanes = self
                .b
                .func
                .dfg
                .immediates
                .push(ConstantData::from(&lanes[..]));
            let moved = self.b.ins().shuffle(found, found, lanes);
            found = self.b.ins().bor(found, moved);
        }
        // Lane 0 as a floating-point number takes one instruction to move. As an integer it would
        // take two.
        let found = self.b.ins().bitcast(F32X4, in_order(), found);
        let found = self.b.ins().extractlane(found, 0);
        self.b.ins().bitcast(I32, MemFlags::new(), found)
    }

    /// Returns true if the result of a probe is neither a miss nor outdated.
    fn is_certain(&mut self, found: Value) -> Value {
        self.is_certain_or(true, found)
    }

    /// Returns the same test, or its negation for `false`.
    fn is_certain_or(&mut self, is_certain: bool, found: Value) -> Value {
        let code = match is_certain {
            true => IntCC::UnsignedLessThan,
            false => IntCC::UnsignedGreaterThanOrEqual,
        };
        let less = self.b.ins().iadd_imm(found, -1);
        let most = i64::from(HashIndex::OUTDATED) - 1;
        self.b.ins().icmp_imm(code, less, most)
    }

    /// Returns the size of a word in bytes if the test holds, else 0.
    fn step_if(&mut self, is_certain: bool, found: Value) -> Value {
        let counts = self.is_certain_or(is_certain, found);
        let counts = self.b.ins().uextend(I64, counts);
        self.b.ins().ishl_imm(counts, WORD_SHIFT)
    }

    /// Returns the record number that a table's key hits, without a prefetched lookup. A helper
    /// would reach the same lines through the table, its lookup structure, and its index. These are
    /// three dependent accesses to far memory if very many devices alternate.
    pub(super) fn search_hashed(
        &mut self,
        table: TableId,
        packing: &PackedKey,
    ) -> Result<Value, Unsupported> {
        let key = self.key_of(table)?;
        let packed = self.pack(packing, &key);
        let (known, number) = self.block_with(1);
        let unknown = self.cold_block();
        self.look_in_lines(table, &packed, known, unknown);
        self.start_sealed(unknown);
        let found = self.find(table)?;
        self.jump_with(known, &[found]);
        self.start_sealed(known);
        Ok(number[0])
    }

    /// Looks up a key in its lines. Branches to `known` with the record number, or to `unknown`.
    fn look_in_lines(&mut self, table: TableId, packed: &[Value], known: Block, unknown: Block) {
        let (doubtful, missing) = (self.b.create_block(), self.b.create_block());
        let (second, again) = (self.b.create_block(), self.cold_block());
        let hash = self.hash(table, packed);
        let line = self.first_line(table, hash);
        let found = self.probe(line, packed);
        let is_certain = self.is_certain(found);
        let to_found = [BlockArg::Value(found)];
        self.b
            .ins()
            .brif(is_certain, known, &to_found, doubtful, &[]);
        self.start_sealed(doubtful);
        self.branch(found, unknown, missing);
        self.start_sealed(missing);
        let overflow = self
            .b
            .ins()
            .load(I32, in_limbs(), line, HashIndex::OVERFLOW_AT as i32);
        let overflow = self.b.ins().uextend(I64, overflow);
        let group = self.b.ins().ushr_imm(hash, 40);
        let group = self.b.ins().band_imm(group, 7);
        let shift = self.b.ins().ishl_imm(group, 2);
        let overflow = self.b.ins().ushr(overflow, shift);
        let may_have = self.b.ins().band_imm(overflow, 15);
        let zero = self.number(0);
        let to_known = [BlockArg::Value(zero)];
        self.b.ins().brif(may_have, second, &[], known, &to_known);
        self.start_sealed(second);
        let line = self.second_line(table, hash);
        let found = self.probe(line, packed);
        let is_certain = self.is_certain(found);
        let to_found = [BlockArg::Value(found)];
        self.b.ins().brif(is_certain, known, &to_found, again, &[]);
        self.start_sealed(again);
        // The key is in neither line. The result is a miss unless an element of its group is
        // outdated.
        let outdated = self
            .b
            .ins()
            .band_imm(overflow, i64::from(HashIndex::MISSING_OUTDATED));
        let doubt = self.b.ins().bor(outdated, found);
        self.b.ins().brif(doubt, unknown, &[], known, &to_known);
        self.is_live = false;
    }

    /// Translates a function that performs the lookups of a level for a segment. Each table is
    /// processed separately, so the code has no branches on the packets that use it.
    pub(super) fn answers(mut self, level: Level, list: RowAddresses, lines: Lines) {
        let sites = self.code.scouts.iter();
        let sites = sites.filter_map(|site| Some((site.table, site.hashed_on(level)?)));
        let sites: Vec<(TableId, HashedLookups)> = sites.collect();
        let notes = self.load_constant(offset::NOTES);
        let rows = self.b.ins().iadd_imm(notes, 8 * list.first as i64);
        let listed = self.b.ins().load(I64, in_limbs(), rows, 0);
        let behind = self.b.ins().ishl_imm(listed, WORD_SHIFT);
        let next = self.b.ins().iadd(rows, behind);
        let next = self.variable(next);
        for (table, site) in sites {
            match lines {
                Lines::First => self.answer_from_first_lines(table, site, next),
                Lines::Second => self.answer_from_second_lines(table, site, next),
            }
        }
        let next = self.b.use_var(next);
        let behind = self.b.ins().isub(next, rows);
        let listed = self.b.ins().ushr_imm(behind, WORD_SHIFT);
        self.b.ins().store(in_limbs(), listed, rows, 0);
        self.b.ins().return_(&[listed]);
        let never = self.end;
        self.start(never);
        let number = self.b.block_params(never)[0];
        self.b.ins().return_(&[number]);
        self.b.seal_all_blocks();
        self.b.finalize();
    }

    /// Selects the device of the packet of a lookup.
    fn look_at_asker(&mut self, asker: Value) {
        let notes = self.load_constant(offset::NOTES);
        let behind = self.b.ins().isub(asker, notes);
        let packet = self.b.ins().ushr_imm(behind, WORD_SHIFT);
        self.look_at_device(packet);
    }

    /// Returns the packet address after the last packet of the segment.
    fn end_of_lot(&mut self) -> Value {
        let [notes, end] = [offset::NOTES, offset::COUNT].map(|at| self.load_constant(at));
        let behind = self.b.ins().ishl_imm(end, WORD_SHIFT);
        self.b.ins().iadd(notes, behind)
    }

    /// Returns the address of the lookup of which the index is stored at byte `at` of the lookup
    /// buffer. It is relative to the first lookup, as for packets.
    pub(super) fn question_behind(&mut self, at: i32) -> Value {
        let notes = self.load_constant(offset::NOTES);
        let number = self.load_note(notes, at);
        let behind = self.b.ins().ishl_imm(number, WORD_SHIFT);
        self.b.ins().iadd(notes, behind)
    }

    /// Stores the index of a lookup at byte `at` of the lookup buffer.
    pub(super) fn number_question(&mut self, at: i32, question: Value) {
        let notes = self.load_constant(offset::NOTES);
        let behind = self.b.ins().isub(question, notes);
        let number = self.b.ins().ushr_imm(behind, WORD_SHIFT);
        self.b.ins().store(in_limbs(), number, notes, at);
    }

    /// Searches the first lines, from the first open lookup to the last one of the segment's
    /// packets. The result is unpredictable, so misses are stored without a branch, as [`table`]
    /// does in batches. Their second lines are computed in a second loop, so that the memory
    /// accesses of all segments overlap.
    fn answer_from_first_lines(&mut self, table: TableId, site: HashedLookups, next: Variable) {
        let end = self.end_of_lot();
        let question = self.question_behind(site.at(HashedLookups::ANSWERED));
        let first_late = self.question_behind(site.at(HashedLookups::LATE));
        let question = self.variable(question);
        let [late, asked] = [(); 2].map(|()| self.variable(first_late));
        let is_of_lot = |this: &mut Self, here| {
            let asker = this.load_note(here, site.at(HashedLookups::ASKERS));
            let is_of_lot = this.b.ins().icmp(IntCC::UnsignedLessThan, asker, end);
            (is_of_lot, asker)
        };
        let answer = |this: &mut Self, here, asker| {
            let line = this.load_note(here, site.at(HashedLookups::LINES));
            this.answer_at_once(site, (line, asker), late)
        };
        let list = |this: &mut Self, found, wanted| {
            let step = this.step_if(true, found);
            this.each_row(table, (found, wanted), |this, row| {
                this.list_row(row, (next, step));
            });
        };
        match self.arrival() {
            BurstLayout::Interleaved => self.each_word(question, is_of_lot, |this, here, asker| {
                this.look_at_asker(asker);
                let found = answer(this, here, asker);
                let wanted = this.wanted_rows(table);
                list(this, found, wanted);
            }),
            BurstLayout::Grouped => {
                // The kind of prefetch is tested once here, not for each lookup.
                let [lists, other, asks, plain] = [(); 4].map(|()| self.b.create_block());
                let through = self.b.create_block();
                let wanted = self.wanted_rows(table);
                let listed = self.b.ins().band_imm(wanted, view::marks::LOADED as i64);
                self.branch(listed, lists, other);
                self.start_sealed(other);
                self.branch(wanted, asks, plain);
                for way in [lists, asks, plain] {
                    self.start_sealed(way);
                    self.each_word(question, is_of_lot, |this, here, asker| {
                        let found = answer(this, here, asker);
                        if way == lists {
                            list(this, found, wanted);
                        } else if way == asks {
                            this.each_row(table, (found, wanted), Self::prefetch);
                        }
                    });
                    self.jump(through);
                }
                self.start_sealed(through);
            }
        }
        let question = self.b.use_var(question);
        self.number_question(site.at(HashedLookups::ANSWERED), question);
        let last_late = self.b.use_var(late);
        let is_late = |this: &mut Self, here| {
            let is_late = this.b.ins().icmp(IntCC::UnsignedLessThan, here, last_late);
            (is_late, here)
        };
        self.each_word(asked, is_late, |this, here, _| {
            let asker = this.load_note(here, site.at(HashedLookups::LINES));
            this.look_at_asker(asker);
            let packed = this.packed_key_of(site, asker);
            let hash = this.hash(table, &packed);
            let line = this.second_line(table, hash);
            this.prefetch(line);
            let at = site.at(HashedLookups::ASKERS);
            this.b.ins().store(in_limbs(), line, here, at);
        });
        let late = self.b.use_var(late);
        self.number_question(site.at(HashedLookups::LATE), late);
    }

    /// Finishes the late lookups of the segment's packets, after their second lines have been
    /// loaded.
    fn answer_from_second_lines(&mut self, table: TableId, site: HashedLookups, next: Variable) {
        let end = self.end_of_lot();
        let question = self.question_behind(site.at(HashedLookups::SETTLED));
        let last_late = self.question_behind(site.at(HashedLookups::LATE));
        let question = self.variable(question);
        let is_of_lot = |this: &mut Self, here| {
            let asker = this.load_note(here, site.at(HashedLookups::LINES));
            let is_late = this.b.ins().icmp(IntCC::UnsignedLessThan, here, last_late);
            let is_of_lot = this.b.ins().icmp(IntCC::UnsignedLessThan, asker, end);
            (this.b.ins().band(is_late, is_of_lot), asker)
        };
        self.each_word(question, is_of_lot, |this, _, asker| {
            this.look_at_asker(asker);
            let wanted = this.wanted_rows(table);
            this.answer_late((table, site), asker, (wanted, next));
        });
        let question = self.b.use_var(question);
        self.number_question(site.at(HashedLookups::SETTLED), question);
    }

    /// Translates a loop over words, starting at the address in a variable. `is_there` returns the
    /// loop condition and a value that is passed to `body`. At the end the variable has the address
    /// of the first word that was not processed.
    fn each_word(
        &mut self,
        place: Variable,
        is_there: impl FnOnce(&mut Self, Value) -> (Value, Value),
        body: impl FnOnce(&mut Self, Value, Value),
    ) {
        let (begin, there) = (self.b.create_block(), self.b.create_block());
        let through = self.b.create_block();
        self.jump(begin);
        self.start(begin);
        let here = self.b.use_var(place);
        let (is_there, told) = is_there(self, here);
        self.branch(is_there, there, through);
        self.start_sealed(there);
        body(self, here, told);
        let following = self.b.ins().iadd_imm(here, 1 << WORD_SHIFT);
        self.b.def_var(place, following);
        self.jump(begin);
        self.start_sealed(through);
        self.b.seal_block(begin);
    }

    /// Prefetches a line. The address may be invalid.
    pub(super) fn prefetch(&mut self, line: Value) {
        if prefetch_instruction::ARE_THERE {
            self.b
                .ins()
                .uload16(I64, prefetch_instruction::flags(), line, 0);
        }
    }

    fn load_note(&mut self, from: Value, at: i32) -> Value {
        self.b.ins().load(I64, in_limbs(), from, at)
    }

    /// Returns the packed key of a packet.
    fn packed_key_of(&mut self, site: HashedLookups, asker: Value) -> Vec<Value> {
        let limbs = 0..site.answers.limbs();
        let packed = limbs.map(|limb| self.load_note(asker, site.answers.key(limb)));
        packed.collect()
    }

    /// Performs a lookup in its first line and stores the result. Also stores the packet in the
    /// list of late lookups. The list advances only for a miss, so that a hit is overwritten.
    /// Returns the result.
    fn answer_at_once(
        &mut self,
        site: HashedLookups,
        (line, asker): (Value, Value),
        late: Variable,
    ) -> Value {
        let packed = self.packed_key_of(site, asker);
        let found = self.probe(line, &packed);
        let at = site.answers.answer();
        self.b.ins().store(in_limbs(), found, asker, at);
        let place = self.b.use_var(late);
        let lines = site.at(HashedLookups::LINES);
        self.b.ins().store(in_limbs(), asker, place, lines);
        let step = self.step_if(false, found);
        let place = self.b.ins().iadd(place, step);
        self.b.def_var(late, place);
        found
    }

    /// Performs the late lookup of a packet.
    fn answer_late(
        &mut self,
        (table, site): (TableId, HashedLookups),
        asker: Value,
        (wanted, next): (Value, Variable),
    ) {
        let after = self.b.create_block();
        let unknown = self.cold_block();
        let (known, number) = self.block_with(1);
        let packed = self.packed_key_of(site, asker);
        self.look_in_lines(table, &packed, known, unknown);
        self.start_sealed(unknown);
        let nothing = self.number(0);
        let at = site.answers.answer();
        self.b.ins().store(in_limbs(), nothing, asker, at);
        self.jump(after);
        self.start_sealed(known);
        self.note_answer(site.answers, asker, number[0]);
        let some = self.b.create_block();
        self.branch(wanted, some, after);
        self.start_sealed(some);
        let step = self.number(1 << WORD_SHIFT);
        self.each_row(table, (number[0], wanted), |this, row| {
            this.list_row(row, (next, step));
        });
        self.jump(after);
        self.start_sealed(after);
    }

    /// Returns the marks of the rows of a table that must be listed.
    fn wanted_rows(&mut self, table: TableId) -> Value {
        let marks = self.load_view(view::of_table(table).marks);
        let wanted = self.load_constant(offset::ROWS_WANTED);
        self.b.ins().band(marks, wanted)
    }

    /// Applies `work` to all lines of the rows of an entry that the fast path will read and that
    /// are not near.
    fn each_row(
        &mut self,
        table: TableId,
        (number, wanted): (Value, Value),
        mut work: impl FnMut(&mut Self, Value),
    ) {
        let words = view::of_table(table);
        let records = self.code.tables[table].records.stride();
        let declared = self.program.tables.get(table);
        let is_counted = declared.is_some_and(|table| table.direct_counter.is_some());
        let kinds = [
            self.code.tables_read.contains(&table).then_some((
                view::marks::RECORDS,
                words.records,
                records,
            )),
            is_counted.then_some((view::marks::COUNTS, words.counts, 8 * COUNTER_WORDS)),
            Some((view::marks::USAGE, words.usage, 8 * USAGE_WORDS)),
        ];
        for (kind, first, stride) in kinds.into_iter().flatten() {
            let (these, others) = (self.b.create_block(), self.b.create_block());
            let is_wanted = self.b.ins().band_imm(wanted, kind as i64);
            self.branch(is_wanted, these, others);
            self.start_sealed(these);
            let first = self.load_view(first);
            let behind = self.b.ins().imul_imm(number, stride as i64);
            let row = self.b.ins().iadd(first, behind);
            for behind in (0..stride).step_by(LINE) {
                let line = self.b.ins().iadd_imm(row, behind as i64);
                work(self, line);
            }
            self.jump(others);
            self.start_sealed(others);
        }
    }

    /// Prefetches a line of a row, and lists it for the loads after all lookups. With a step of 0
    /// the result is uncertain. Then the element is written within the lookup's own part of the
    /// list ([`words_of_rows`]), and is overwritten or remains after the list's end. It is never
    /// loaded.
    fn list_row(&mut self, line: Value, (next, step): (Variable, Value)) {
        self.prefetch(line);
        let place = self.b.use_var(next);
        // The first word of the list is the number of elements.
        self.b.ins().store(in_limbs(), line, place, 8);
        let place = self.b.ins().iadd(place, step);
        self.b.def_var(next, place);
    }

    /// Combines a part with the parts of a limb that were added before.
    fn put_in(&mut self, place: &mut Option<Value>, part: Value) {
        *place = Some(match *place {
            Some(before) => self.b.ins().bor(before, part),
            None => part,
        });
    }
}

/// Returns the maximum number of words that a table's rows take in the list, for one burst.
/// `records` is the record stride.
pub(crate) fn words_of_rows(records: usize) -> usize {
    let strides = [records, 8 * COUNTER_WORDS, 8 * USAGE_WORDS];
    let lines = strides.map(|stride| stride.div_ceil(LINE));
    BURST * lines.iter().sum::<usize>()
}
