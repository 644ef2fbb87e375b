//! Translation of match stages: the lookup, inline or by a helper, and the actions of the table.

use bits::limbs_for;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::{Switch, Variable};
use exec::{DropReason, Unsupported};
use ir::{ActionId, ActionScope, MatchKind, MatchNext, MatchOutcome, StageId, TableId};
use table::{Directness, RecordLayout};

use super::action::Uses;
use super::control::Line;
use super::entry_uses::CurrentUse;
use super::expr::is_wide;
use super::lookup_schedule::Follows;
use super::prefetch_pass::PrefetchSite;
use super::{I64, Translator, in_limbs};
use crate::abi::{NO_ACTION, Outcome, offset};
use crate::helpers::Helper;
use crate::view::{self, MAX_DIGITS};

/// Maximum width of each part of a small key, in bits.
const MAX_SMALL_BITS: u32 = 16;

/// Maximum number of actions that are distinguished by successive comparisons.
const COMPARED_ACTIONS: usize = 4;

/// Match stage of a control.
pub(super) struct MatchStage<'s, 'l> {
    pub(super) id: StageId,
    pub(super) table: TableId,
    pub(super) outcome: MatchOutcome,
    pub(super) next: &'s MatchNext,
    pub(super) line: &'s Line<'l>,
}

/// Result of applying a table. The variables are also used after the action.
struct Applied {
    /// 1 for a hit, else 0.
    hit: Variable,
    /// Position of the action that runs, [`NO_ACTION`] for none.
    position: Variable,
    /// Address of the entry's record, or of the contiguous parameters of its action.
    params: Variable,
    found: Found,
}

/// Source of the action that runs.
#[derive(Clone, Copy)]
enum Found {
    /// The position.
    Position,
    /// The head of the record with this number.
    Record {
        head: Value,
        number: Value,
        table: TableId,
        /// True for the default action's record.
        is_missed: bool,
    },
    /// None: all actions are empty.
    Alike,
}

impl Translator<'_> {
    pub(super) fn match_stage(
        &mut self,
        id: StageId,
        table: TableId,
        outcome: MatchOutcome,
        next: &MatchNext,
        line: &Line<'_>,
    ) -> Result<(), Unsupported> {
        let stage = MatchStage {
            id,
            table,
            outcome,
            next,
            line,
        };
        let is_flat = self.is_flat(table, &self.uses);
        if is_flat && self.known_stage(&stage)? {
            return Ok(());
        }
        match self.hits_run(table) {
            Some(position)
                if is_flat
                    && !self.is_action_asked(&stage)
                    && self.is_worth_two_ways(table, position) =>
            {
                self.hit_or_miss(&stage, position)?;
            }
            _ => self.any_action(&stage, is_flat)?,
        }
        self.applying = None;
        Ok(())
    }

    /// Returns true if the action itself is read after it runs, or if the choice of the action has
    /// no effect.
    fn is_action_asked(&self, stage: &MatchStage<'_, '_>) -> bool {
        let MatchStage {
            table,
            outcome,
            next,
            ..
        } = *stage;
        outcome.action_run.is_some() || self.are_alike(table, outcome, next)
    }

    /// Returns true if hits, which all run the action at this position, and misses deserve separate
    /// paths. A long action must not be duplicated.
    fn is_worth_two_ways(&self, table: TableId, position: usize) -> bool {
        let action = self.code.tables[table].actions[position];
        self.costs.is_short(action) || !self.may_miss_run(table, position)
    }

    /// Returns true if the action at a position may be a table's default action.
    pub(super) fn may_miss_run(&self, table: TableId, position: usize) -> bool {
        let declared = self.program.tables.get(table);
        declared.is_some_and(|table| match table.default_is_const {
            true => table.default.action == position,
            false => table.actions[position].scope != ActionScope::TableOnly,
        })
    }

    /// Translates a stage in which all hits run the action at this position. Hits and misses have
    /// separate paths to the end of the stage, so that only one test is needed.
    fn hit_or_miss(
        &mut self,
        stage: &MatchStage<'_, '_>,
        position: usize,
    ) -> Result<(), Unsupported> {
        let table = stage.table;
        let number = self.record_number(stage.id, table)?;
        let (hit, missed) = (self.b.create_block(), self.b.create_block());
        self.branch(number, hit, missed);
        self.start_sealed(hit);
        self.run_hit(stage, position, number)?;
        self.start_sealed(missed);
        let zero = self.number(0);
        self.count_miss(table);
        self.applying = Some(self.note_packet(table, zero));
        let record = self.default_record(table);
        let head = self.default_head(table);
        let applied = Applied {
            hit: self.variable(zero),
            position: self.variable(head),
            params: self.variable(record),
            found: Found::Record {
                head,
                number: zero,
                table,
                is_missed: true,
            },
        };
        self.run_and_follow(stage, &applied)
    }

    /// Runs the action of a hit entry, and follows the link.
    fn run_hit(
        &mut self,
        stage: &MatchStage<'_, '_>,
        position: usize,
        number: Value,
    ) -> Result<(), Unsupported> {
        let table = stage.table;
        self.count_hit(table);
        self.applying = Some(self.note_packet(table, number));
        let action = self.code.tables[table].actions[position];
        let fields = self.fields_in_record(table, position);
        let record = match fields.is_empty() {
            true => self.default_record(table),
            false => self.record_of(table, number),
        };
        self.run_entry_action(action, record, &fields)?;
        self.free_temporaries();
        // The action may have ended the control.
        let way = self.b.create_block();
        self.jump(way);
        self.start_sealed(way);
        if let Some(hit) = stage.outcome.hit {
            let (slot, one) = (self.slot(hit), self.number(1));
            self.store_slots(slot, &[one]);
        }
        let next = match stage.next {
            MatchNext::ByAction(nexts) => nexts[position],
            MatchNext::Always(next) | MatchNext::ByHit { hit: next, .. } => *next,
        };
        self.follow(stage.id, next, stage.line);
        Ok(())
    }

    /// Translates a stage in which the action depends on the entry.
    fn any_action(&mut self, stage: &MatchStage<'_, '_>, is_flat: bool) -> Result<(), Unsupported> {
        let applied = match is_flat {
            true => self.find_record(stage)?,
            false => {
                self.put_key(stage.table)?;
                self.apply(stage.table)
            }
        };
        self.run_and_follow(stage, &applied)
    }

    /// Runs the selected action, and follows the link.
    fn run_and_follow(
        &mut self,
        stage: &MatchStage<'_, '_>,
        applied: &Applied,
    ) -> Result<(), Unsupported> {
        let MatchStage {
            id,
            table,
            outcome,
            next,
            line,
        } = *stage;
        let actions: Vec<ActionId> = self.code.tables[table].actions.to_vec();
        match next {
            MatchNext::ByAction(nexts) => {
                let none = self.b.create_block();
                let ways: Vec<Block> = nexts.iter().map(|_| self.b.create_block()).collect();
                self.run_chosen(applied, &actions, &ways, none)?;
                for (&way, &next) in ways.iter().zip(nexts) {
                    self.start_sealed(way);
                    self.put_outcome(outcome, applied);
                    self.follow(id, next, line);
                }
                // Without an action the control ends.
                self.start_sealed(none);
                self.put_outcome(outcome, applied);
                self.end_with(Outcome::Done);
            }
            MatchNext::Always(next) => {
                self.run_all(applied, &actions)?;
                self.put_outcome(outcome, applied);
                self.follow(id, *next, line);
            }
            MatchNext::ByHit { hit, miss } => {
                self.run_all(applied, &actions)?;
                self.put_outcome(outcome, applied);
                let (yes, no) = (self.b.create_block(), self.b.create_block());
                let was_hit = self.b.use_var(applied.hit);
                self.branch(was_hit, yes, no);
                self.start_sealed(yes);
                self.follow(id, *hit, line);
                self.start_sealed(no);
                self.follow(id, *miss, line);
            }
        }
        Ok(())
    }

    /// Returns true if the table is applied by its records alone. It must be on the fast path, must
    /// not add entries on a miss, and its actions may use the current entry only for counting.
    pub(super) fn is_flat(&self, table: TableId, uses: &Uses) -> bool {
        let actions = &self.code.tables[table].actions;
        let declared = self.program.tables.get(table);
        if self.fused.is_none() || declared.is_none_or(ir::Table::is_written_by_packets) {
            return false;
        }
        // A helper loads wide parameters, and it does not access records.
        let is_wide = |action: &ActionId| {
            let wide = self.wide_params.get(*action);
            wide.is_some_and(|wide| wide.iter().any(Option::is_some))
        };
        if actions.iter().any(is_wide) {
            return false;
        }
        match self.current_uses.of_actions(actions) {
            CurrentUse::None => true,
            // A shared action counts for several tables.
            CurrentUse::Counts => !actions.iter().any(|&a| self.runs_shared(a, uses)),
            CurrentUse::Any => false,
        }
    }

    /// Applies the table with a helper: lookup, accounting, and selection of the action.
    fn apply(&mut self, table: TableId) -> Applied {
        let number = self.help_with(Helper::Apply, &[table.get().into()]);
        let zero = self.number(0);
        let [hit, position, params] = [(); 3].map(|()| self.variable(zero));
        let applied = Applied {
            hit,
            position,
            params,
            found: Found::Position,
        };
        self.take_applied(&applied, number);
        applied
    }

    /// Decodes the number that a helper returned.
    fn take_applied(&mut self, applied: &Applied, number: Value) {
        let hit = self.b.ins().ushr_imm(number, 32);
        self.b.def_var(applied.hit, hit);
        let position = self.b.ins().band_imm(number, NO_ACTION as i64);
        self.b.def_var(applied.position, position);
        let params = match applied.found {
            Found::Position => self.load_invocation(offset::PARAMS),
            // A record was assembled.
            _ => {
                let settled = i64::from(self.code.settled) * 8;
                self.b.ins().iadd_imm(self.limbs, settled)
            }
        };
        self.b.def_var(applied.params, params);
    }

    /// Returns the record number that a stage's key hits, 0 for a miss.
    pub(super) fn record_number(
        &mut self,
        id: StageId,
        table: TableId,
    ) -> Result<Value, Unsupported> {
        match self.scouted(id, table) {
            Some(site) if site.is_noted_first => self.scouted_or(site, |this| {
                this.near_or(table, |this| this.find_alone(site))
            }),
            Some(site) => self.near_or(table, |this| {
                this.scouted_or(site, |this| this.find_alone(site))
            }),
            None => self.near_or(table, |this| this.search_alone(table)),
        }
    }

    /// Looks the table up and accounts for the packet. The entry's record selects the action.
    fn find_record(&mut self, stage: &MatchStage<'_, '_>) -> Result<Applied, Unsupported> {
        let table = stage.table;
        let number = self.record_number(stage.id, table)?;
        let number = self.note_total(table, number);
        self.applying = Some(self.note_packet(table, number));
        let is_hit = self.b.ins().icmp_imm(IntCC::NotEqual, number, 0);
        let hit = self.b.ins().uextend(I64, is_hit);
        let hit = self.variable(hit);
        if self.are_alike(table, stage.outcome, stage.next) {
            let nothing = self.number(NO_ACTION);
            return Ok(Applied {
                hit,
                position: self.variable(nothing),
                params: self.variable(nothing),
                found: Found::Alike,
            });
        }
        let record = self.record_of(table, number);
        let head = self.head_of(table, record, number);
        Ok(Applied {
            hit,
            position: self.variable(head),
            params: self.variable(record),
            found: Found::Record {
                head,
                number,
                table,
                is_missed: false,
            },
        })
    }

    /// Looks up a key with a helper. Returns the record number, 0 for a miss.
    pub(super) fn find(&mut self, table: TableId) -> Result<Value, Unsupported> {
        self.put_key(table)?;
        Ok(self.help_with(Helper::Find, &[table.get().into()]))
    }

    /// Looks up a key without a prefetched result. Returns the record number.
    fn find_alone(&mut self, site: PrefetchSite) -> Result<Value, Unsupported> {
        match self.packed_key(site.table) {
            Some(packing) if site.is_noted_first => self.search_hashed(site.table, &packing),
            _ => self.search_alone(site.table),
        }
    }

    /// Returns the record number from a prefetched lookup, if there is one, else from `search`.
    fn scouted_or(
        &mut self,
        site: PrefetchSite,
        search: impl FnOnce(&mut Self) -> Result<Value, Unsupported>,
    ) -> Result<Value, Unsupported> {
        // If results are read before an index, packets with an index or with near lines may have no
        // result. Then the other path is not cold.
        let alone = match site.is_noted_first {
            true => self.b.create_block(),
            false => self.cold_block(),
        };
        let (after, number) = self.block_with(1);
        let key = match site.is_verified {
            true => self.key_of(site.table)?,
            false => Vec::new(),
        };
        let scouted = self.scouted_record(site, &key, alone);
        self.jump_with(after, &[scouted]);
        self.start_sealed(alone);
        let found = search(self)?;
        self.jump_with(after, &[found]);
        self.start_sealed(after);
        Ok(number[0])
    }

    /// Returns the availability of the table's direct index, if native code can search one.
    pub(super) fn directness(&self, table: TableId) -> Option<Directness> {
        if self.compared_rules(table).is_some() {
            return Some(Directness::Always);
        }
        let is_possible = self.may_be_direct(table);
        is_possible.then(|| Directness::of(self.key_widths(table)))
    }

    /// Returns the widths of the parts of a table's key.
    pub(super) fn key_widths(&self, table: TableId) -> Vec<u32> {
        let keys = self.program.tables.get(table).map(|table| &table.keys);
        let keys = keys.into_iter().flatten();
        keys.map(|key| self.ty(&key.expr).map_or(u32::MAX, |ty| ty.width()))
            .collect()
    }

    /// Returns true if the table may have a direct index that native code searches.
    pub(super) fn may_be_direct(&self, table: TableId) -> bool {
        let limbs = self.code.tables[table].key_limbs as usize;
        (1..=MAX_DIGITS).contains(&limbs) && self.has_exact_keys(table)
    }

    /// Returns true on the fast path if all parts of a table's key are exact and computed without a
    /// helper.
    pub(super) fn has_exact_keys(&self, table: TableId) -> bool {
        let keys = self.program.tables.get(table).map(|table| &table.keys);
        let mut keys = keys.into_iter().flatten();
        let can_follow = |expr| self.follows(expr) && self.ty(expr).is_ok_and(|ty| !is_wide(ty));
        let is_exact = keys.all(|key| key.match_kind == MatchKind::Exact && can_follow(&key.expr));
        self.fused.is_some() && is_exact
    }

    /// Returns true if the parts of a table's key are small, such as ports and VLAN ids. Then the
    /// table most likely has a direct index.
    pub(super) fn has_small_keys(&self, table: TableId) -> bool {
        let mut widths = self.key_widths(table).into_iter();
        widths.all(|width| width <= MAX_SMALL_BITS)
    }

    /// Returns the address of the slots of a table's direct index, 0 if there is none.
    pub(super) fn slots_of(&mut self, table: TableId) -> Value {
        self.load_view(view::of_table(table).slots)
    }

    /// Returns the availability of an index that native code searches, direct or bit-vector.
    pub(super) fn nearness(&self, table: TableId) -> Option<Directness> {
        let may_be_among_few = self.uses_bit_vector(table);
        let among_few = may_be_among_few.then_some(Directness::Sometimes);
        self.directness(table).or(among_few)
    }

    /// Returns a word that is not 0 if the table has such an index.
    pub(super) fn near_index(&mut self, table: TableId) -> Value {
        match self.may_be_direct(table) {
            true => self.slots_of(table),
            false => self.load_view(view::of_table(table).entries),
        }
    }

    /// Returns the record number that the key hits: from an index that native code searches if the
    /// state has one, else from `search`.
    fn near_or(
        &mut self,
        table: TableId,
        search: impl FnOnce(&mut Self) -> Result<Value, Unsupported>,
    ) -> Result<Value, Unsupported> {
        if let Some(rules) = self.compared_rules(table) {
            return self.compare_rules(table, rules);
        }
        let Some(directness) = self.directness(table) else {
            return self.among_few_or(table, search);
        };
        let key = self.key_of(table)?;
        let slots = self.slots_of(table);
        if directness != Directness::Sometimes {
            let bits: u32 = self.key_widths(table).iter().sum();
            let (last, found) = match directness {
                Directness::Whole => (
                    bits::one::mask(bits),
                    self.in_whole_index(table, &key, slots),
                ),
                _ => (0, self.in_slot(table, &key, slots)),
            };
            self.code.direct_tables.insert(table, last);
            return Ok(found);
        }
        let (direct, searched) = (self.b.create_block(), self.b.create_block());
        let (after, number) = self.block_with(1);
        self.branch(slots, direct, searched);
        self.start_sealed(direct);
        let found = self.in_slot(table, &key, slots);
        self.jump_with(after, &[found]);
        self.start_sealed(searched);
        let found = search(self)?;
        self.jump_with(after, &[found]);
        self.start_sealed(after);
        Ok(number[0])
    }

    /// Returns the record number in the slot of a key, for an index with a slot for every key.
    fn in_whole_index(&mut self, table: TableId, key: &[Value], slots: Value) -> Value {
        let widths = self.key_widths(table);
        let (mut slot, mut shift) = (self.number(0), 0);
        for (&limb, width) in key
            .iter()
            .zip(widths.into_iter().filter(|&width| width > 0))
        {
            // No key has more bits, so the slot is at most the last one.
            let limb = self.cut(limb, width);
            let shifted = self.b.ins().ishl_imm(limb, i64::from(shift));
            slot = self.b.ins().bor(slot, shifted);
            shift += width;
        }
        self.at_slot(slots, slot)
    }

    /// Returns the record number in the slot of a key.
    fn in_slot(&mut self, table: TableId, key: &[Value], slots: Value) -> Value {
        let words = view::of_table(table);
        if let &[limb] = key {
            // The last slot means a miss. It is the first one that belongs to no key with an entry.
            let last = self.load_view(words.last_slot);
            let slot = self.b.ins().umin(limb, last);
            return self.at_slot(slots, slot);
        }
        let mut slot = self.number(0);
        let mut outside = self.number(0);
        for (at, (&limb, (shift, bits))) in key.iter().zip(words.digits).enumerate() {
            let shifted = match at {
                0 => limb,
                _ => {
                    let shift = self.load_view(shift);
                    self.b.ins().ishl(limb, shift)
                }
            };
            slot = self.b.ins().bor(slot, shifted);
            let bits = self.load_view(bits);
            let here = self.b.ins().band(limb, bits);
            outside = self.b.ins().bor(outside, here);
        }
        let last = self.load_view(words.last_slot);
        let slot = self.b.ins().select(outside, last, slot);
        self.at_slot(slots, slot)
    }

    pub(super) fn at_slot(&mut self, slots: Value, slot: Value) -> Value {
        let behind = self.b.ins().ishl_imm(slot, 2);
        let place = self.b.ins().iadd(slots, behind);
        // This load must not be moved: without such an index there are no slots.
        self.b.ins().uload32(in_limbs(), place, 0)
    }

    /// Returns the record number that the current packet hits, for a table that is resolved
    /// immediately or has a prefetched result. Branches to `otherwise` if there is none.
    pub(super) fn answered_record(
        &mut self,
        site: PrefetchSite,
        otherwise: Block,
    ) -> Result<Value, Unsupported> {
        self.near_or(site.table, |this| match site.answers_at_once {
            true => this.noted_record(site),
            false => Ok(this.scouted_record(site, &[], otherwise)),
        })
    }

    fn put_key(&mut self, table: TableId) -> Result<(), Unsupported> {
        let program = self.program;
        let Some(declared) = program.tables.get(table) else {
            return Err(self.unsupported("a table that does not exist"));
        };
        let mut slot = self.code.tables[table].key;
        let mut selector = 0;
        for key in &declared.keys {
            let width = self.ty(&key.expr)?.width();
            if key.match_kind == MatchKind::Selector {
                let (to, _) = self.code.tables[table].selectors[selector];
                self.compute(&key.expr, to)?;
                selector += 1;
            } else {
                if width > 0 {
                    self.compute(&key.expr, slot)?;
                }
                slot += limbs_for(width) as u32;
            }
            self.free_temporaries();
        }
        Ok(())
    }

    /// Runs the selected action, and continues after it on one path.
    fn run_all(&mut self, applied: &Applied, actions: &[ActionId]) -> Result<(), Unsupported> {
        if matches!(applied.found, Found::Alike) {
            return Ok(());
        }
        let after = self.b.create_block();
        let ways = vec![after; actions.len()];
        self.run_chosen(applied, actions, &ways, after)?;
        self.start_sealed(after);
        Ok(())
    }

    /// Runs the selected action. Continues on the path of that action, or at `none` if there is
    /// none.
    fn run_chosen(
        &mut self,
        applied: &Applied,
        actions: &[ActionId],
        ways: &[Block],
        none: Block,
    ) -> Result<(), Unsupported> {
        self.check_room(actions.len())?;
        let mut bodies = Vec::new();
        let mut blocks = Vec::new();
        let missed = match applied.found {
            Found::Record {
                table,
                is_missed: true,
                ..
            } => Some((table, self.cold_block())),
            _ => None,
        };
        for (position, (&action, &way)) in actions.iter().zip(ways).enumerate() {
            let declared = self.program.actions.get(action);
            let never = missed.filter(|(table, _)| !self.may_miss_run(*table, position));
            let block = if let Some((_, never)) = never {
                never
            } else if declared.is_some_and(|action| action.body.is_empty()) {
                way
            } else {
                let block = self.b.create_block();
                bodies.push((block, position, action, way));
                block
            };
            blocks.push(block);
        }
        match applied.found {
            Found::Record {
                head,
                number,
                table,
                ..
            } => self.go_by_record(applied, head, number, table, &blocks),
            Found::Position | Found::Alike => {}
        }
        self.go_by_position(applied, &blocks, none);
        if let Some((_, never)) = missed {
            // The device rejects such default actions.
            self.start_sealed(never);
            self.end_with(Outcome::Drop(DropReason::Aborted));
        }
        for (block, position, action, way) in bodies {
            self.check_size()?;
            self.start_sealed(block);
            let params = self.b.use_var(applied.params);
            let fields = match applied.found {
                Found::Record { table, .. } => self.fields_in_record(table, position),
                _ => self.fields_in_limbs(action),
            };
            self.run_entry_action(action, params, &fields)?;
            self.free_temporaries();
            self.jump(way);
        }
        Ok(())
    }

    /// Branches by the action in a record's head. If the head does not name the action, code
    /// continues with its position.
    fn go_by_record(
        &mut self,
        applied: &Applied,
        head: Value,
        number: Value,
        table: TableId,
        blocks: &[Block],
    ) {
        let slow = self.cold_block();
        self.go_by_head(head, blocks, slow);
        self.start_sealed(slow);
        let table = self.number(table.get().into());
        let number = self.help(Helper::Settle, &[table, number]);
        self.take_applied(applied, number);
    }

    /// Branches by the action in a record's head.
    pub(super) fn go_by_head(&mut self, head: Value, blocks: &[Block], otherwise: Block) {
        let told = blocks.iter().take(RecordLayout::ELSEWHERE.into());
        if blocks.len() <= COMPARED_ACTIONS {
            return self.go_by_comparing(head, told, otherwise);
        }
        let mut switch = Switch::new();
        for (position, &block) in told.enumerate() {
            switch.set_entry(position as u128, block);
        }
        switch.emit(&mut self.b, head, otherwise);
        self.is_live = false;
    }

    /// Branches by successive comparisons. For few actions these branches are better predicted than
    /// an indirect jump.
    fn go_by_comparing<'b>(
        &mut self,
        head: Value,
        ways: impl Iterator<Item = &'b Block>,
        otherwise: Block,
    ) {
        for (position, &block) in ways.enumerate() {
            let is_it = self.b.ins().icmp_imm(IntCC::Equal, head, position as i64);
            let next = self.b.create_block();
            self.branch(is_it, block, next);
            self.start_sealed(next);
        }
        self.jump(otherwise);
    }

    fn go_by_position(&mut self, applied: &Applied, blocks: &[Block], none: Block) {
        let mut switch = Switch::new();
        let blocks = blocks.iter().enumerate();
        for (position, &block) in blocks.filter(|(_, block)| **block != none) {
            switch.set_entry(position as u128, block);
        }
        let chosen = self.b.use_var(applied.position);
        switch.emit(&mut self.b, chosen, none);
        self.is_live = false;
    }

    fn put_outcome(&mut self, outcome: MatchOutcome, applied: &Applied) {
        if let Some(hit) = outcome.hit {
            let slot = self.slot(hit);
            let hit = self.b.use_var(applied.hit);
            self.store_slots(slot, &[hit]);
        }
        if let Some(action_run) = outcome.action_run {
            let slot = self.slot(action_run);
            let position = self.b.use_var(applied.position);
            self.store_slots(slot, &[position]);
        }
    }
}
