//! Prefetch passes. Before the fast path runs, a prefetch pass walks the burst and writes the
//! lookup keys of its packets. Then the tables are searched in one batch and the entries are
//! prefetched (DESIGN, idea 2: hash and prefetch for the whole batch before the first compare).
//!
//! The first prefetch pass runs the parser. It evaluates conditions on header validity and
//! conditions that avoid long lookups. A pass of a later level ([`super::lookup_schedule`]) loads
//! the fields that the first one has parsed ([`super::parse_cache`]). It uses the results of
//! earlier lookups and evaluates the assignments of their actions ([`super::speculative_actions`]).
//!
//! Prefetch passes are speculative. Where a branch cannot be decided they follow both sides, and
//! the fast path itself looks up a packet without a prefetched lookup. The fast path compares its
//! key with the prefetched one, unless the key cannot differ. That requires that no code between
//! the parser and the table writes a field of the key. It also requires that the parser does not
//! write such a field after code that prefetch passes omit (`verify`, headers extracted by a
//! helper). So prefetch passes change speed, never results.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;
use exec::slots::header::HeaderSite;
use exec::{BURST, FastPath, FastPathStep, Unsupported};
use ir::{
    ControlId, Expr, ExternKind, FieldId, MatchNext, MatchOutcome, Next, Op, Stage, StageId,
    StageKind, Stmt, StmtKind, TableId, limbs_of,
};
use support::work::checkpoint;
use table::{Directness, Lookup};

use super::fast_path::stays;
use super::field_allocation::{
    FieldAllocation, may_part, written_behind_parting, written_in_control,
};
use super::hashed::HashedLookups;
use super::lookup_results::{LookupResults, WORD_SHIFT};
use super::lookup_schedule::{Follows, Level, LookupSchedule, assigns};
use super::parse_cache::Noted;
use super::speculative_actions::ResolvedLookup;
use super::{Block, I64, INLINE_LIMBS, Translator, in_limbs};
use crate::abi::offset;

/// Lookups of one match stage: their position in the lookup buffer, and their properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PrefetchSite {
    pub(crate) table: TableId,
    /// Index of the first word in the lookup buffer.
    pub(crate) first: usize,
    /// Number of limbs of a key.
    pub(crate) limbs: usize,
    /// Level of the prefetch pass that writes the keys.
    pub(crate) level: Level,
    /// True if the prefetched key may differ from that of the fast path.
    pub(crate) is_verified: bool,
    /// Availability of an index that native code searches, if there can be one. With such an index
    /// there are no prefetched lookups.
    nearness: Option<Directness>,
    /// True if that is a direct index.
    has_slots: bool,
    /// True if the fast path reads lookup results before it tests for an index.
    pub(super) is_noted_first: bool,
    /// True if prefetch passes resolve the lookup immediately, since other keys of the same level
    /// depend on it.
    pub(crate) answers_at_once: bool,
    /// Layout of the lookup buffer for a hash table that native code searches.
    hashed: Option<HashedLookups>,
}

/// For a table that is searched by its own code, the words of the lookup buffer are: the number of
/// lookups, the packet of each, the record number of each, and the key of each. [`LookupResults`]
/// follow.
impl PrefetchSite {
    const ASKERS: usize = 1;
    const FOUND: usize = Self::ASKERS + BURST;
    const KEYS: usize = Self::FOUND + BURST;

    /// Returns true if the lookups of a level are performed in batches.
    pub(crate) fn is_asked_on(&self, level: Level) -> bool {
        self.level == level && !self.answers_at_once && !self.is_direct()
    }

    /// Returns the layout for a hash table with lookups on a level.
    pub(crate) fn hashed_on(&self, level: Level) -> Option<HashedLookups> {
        self.hashed.filter(|_| self.is_asked_on(level))
    }

    /// Returns true if native code searches the table as a hash table.
    pub(crate) fn is_hashed(&self) -> bool {
        self.hashed.is_some()
    }

    /// Returns true if the table's own code performs the lookups of a level.
    pub(crate) fn is_searched_on(&self, level: Level) -> bool {
        self.is_asked_on(level) && self.hashed.is_none()
    }

    /// Returns true if native code always finds entries in the table's direct index.
    pub(crate) fn is_direct(&self) -> bool {
        matches!(self.nearness, Some(Directness::Whole | Directness::Always))
    }

    /// Returns true if native code finds entries itself, if the state has an index for that.
    pub(crate) fn may_be_near(&self) -> bool {
        self.nearness.is_some()
    }

    /// Returns true if results are available in the prefetch pass of a level.
    fn is_answered_on(&self, level: Level) -> bool {
        let is_at_once = self.answers_at_once || self.is_direct();
        self.level < level || is_at_once && self.level == level
    }

    /// Returns the size in words.
    pub(crate) fn words(&self) -> usize {
        match (self.is_direct(), self.hashed) {
            (true, _) => 0,
            (false, Some(hashed)) => hashed.words(),
            (false, None) => self.words_of_questions() + self.answers().words(),
        }
    }

    fn words_of_questions(&self) -> usize {
        Self::KEYS + BURST * self.limbs
    }

    /// Returns the layout of the results.
    fn answers(&self) -> LookupResults {
        let compared = if self.is_verified { self.limbs } else { 0 };
        let first = self.first + self.words_of_questions();
        let searched = LookupResults::new(first, compared);
        self.hashed.map_or(searched, HashedLookups::answers)
    }

    /// Returns true if lookups may be omitted when the table's lines are near, since the fast path
    /// searches them itself. A level with only such tables is omitted, as its pass would evaluate
    /// all tables before. On level 0 there is less to save. Small keys, which most likely have a
    /// direct index, are excluded: code for lines would slow down packets that use the index.
    pub(crate) fn may_be_unasked(&self) -> bool {
        self.is_noted_first && self.level > 0
    }

    /// Returns true if native code never reads the lookup results of a state with such a table,
    /// since it finds all entries itself.
    pub(crate) fn is_always_near(&self, lookup: &Lookup) -> bool {
        let is_near = match self.has_slots {
            true => lookup.direct().is_some(),
            false => lookup.vectors().is_some(),
        };
        self.may_be_near() && !self.is_noted_first && is_near
    }

    /// Clears the lookups of a number of packets, and their results if any are read.
    pub(crate) fn clear(&self, notes: &mut [u64], packets: usize, is_looked_at: bool) {
        if self.is_direct() {
            return;
        }
        match self.hashed {
            Some(hashed) => hashed.clear(notes),
            None => notes[self.first] = 0,
        }
        if is_looked_at {
            self.answers().clear(notes, packets);
        }
    }

    /// Returns the lookups of these packets.
    pub(crate) fn questions<'n>(
        &self,
        notes: &'n mut [u64],
        packets: Range<usize>,
    ) -> LookupKeys<'n> {
        let (own, answers) = notes[self.first..].split_at_mut(self.words_of_questions());
        let (head, keys) = own.split_at_mut(Self::KEYS);
        let (asking, found) = head.split_at_mut(Self::FOUND);
        let (count, askers) = asking.split_at(Self::ASKERS);
        let askers = &askers[..(count[0] as usize).min(BURST)];
        // Packets have written their lookups in ascending order.
        let before = |packet: usize| askers.partition_point(|&asker| (asker as usize) < packet);
        let begin = before(packets.start);
        let asked = begin..before(packets.end).max(begin);
        LookupKeys {
            askers: &askers[asked.clone()],
            keys: &keys[asked.start * self.limbs..asked.end * self.limbs],
            found: &mut found[asked],
            answers: &mut answers[..BURST],
        }
    }
}

/// Lookups in a table that is searched by its own code.
pub(crate) struct LookupKeys<'n> {
    askers: &'n [u64],
    /// Keys.
    pub(crate) keys: &'n [u64],
    /// Record numbers that the keys hit, 0 for a miss. Before the lookups, intermediate values of
    /// each.
    pub(crate) found: &'n mut [u64],
    answers: &'n mut [u64],
}

impl LookupKeys<'_> {
    /// Runs `work` for each lookup, with its packet, its key, and its intermediate value or record
    /// number.
    pub(crate) fn each(&mut self, mut work: impl FnMut(usize, &[u64], &mut u64)) {
        let limbs = self.keys.len().checked_div(self.askers.len()).unwrap_or(0);
        let questions = self.askers.iter().zip(&mut *self.found).enumerate();
        for (question, (&asker, noted)) in questions {
            checkpoint();
            work(
                asker as usize,
                &self.keys[question * limbs..][..limbs],
                noted,
            );
        }
    }

    /// Stores the record number of each lookup in the results of its packet. `found` maps a
    /// lookup's index and intermediate value to the number.
    pub(crate) fn answer(&mut self, mut found: impl FnMut(usize, u64) -> u64) {
        let questions = self.askers.iter().zip(&mut *self.found).enumerate();
        for (question, (&asker, noted)) in questions {
            checkpoint();
            let number = found(question, *noted);
            *noted = number;
            if let Some(answer) = self.answers.get_mut(asker as usize) {
                *answer = match number {
                    0 => LookupResults::MISSED,
                    number => number,
                };
            }
        }
    }
}

/// Plan of the prefetch passes of a fast path.
#[derive(Default)]
pub(super) struct PrefetchPlan {
    /// Fields that code may have written between the parser and the end of each control with
    /// lookups.
    written: HashMap<ControlId, HashSet<FieldId>>,
    /// Control being translated.
    pub(super) control: Option<ControlId>,
    /// Match stages that use lookup results.
    pub(super) sites: HashMap<(ControlId, StageId), usize>,
    levels: LookupSchedule,
    /// True if a prefetch pass is being translated.
    is_ahead: bool,
}

impl PrefetchPlan {
    /// Finds the controls that may have prefetched lookups: those between the first parser and any
    /// step that replaces the parsed packet. Prefetch passes know inputs of the architecture before
    /// the parser. Later inputs count as written fields.
    pub(super) fn of(
        program: &ir::Program,
        pass: &FastPath,
        headers: &[HeaderSite],
        homes: &FieldAllocation,
    ) -> PrefetchPlan {
        let is_native = |kind: &StmtKind| match kind {
            StmtKind::Extract(header, _) => header.dims.is_empty(),
            StmtKind::Call(call) if call.op == Op::SetPacketLength => true,
            StmtKind::Call(call) => call.instance.is_some_and(|instance| {
                let declared = program.externs.get(instance);
                let is_sum = declared.is_some_and(|e| e.kind == ExternKind::InternetChecksum);
                is_sum && !homes.sums_by_helper.contains(&instance)
            }),
            _ => false,
        };
        if !homes.is_aligned {
            return PrefetchPlan::default();
        }
        let mut scouting = PrefetchPlan::default();
        let mut written = HashSet::new();
        let mut is_parsed = false;
        for step in &pass.steps {
            checkpoint();
            match step {
                FastPathStep::Parse { parser, errors } => {
                    let parser = program.parsers.get(*parser);
                    let mut states = parser.into_iter().flat_map(|p| p.states.values());
                    if is_parsed || !states.all(|s| is_plain(&s.body, &is_native)) {
                        break;
                    }
                    is_parsed = true;
                    let mut states = parser.into_iter().flat_map(|p| p.states.values());
                    let parts = |stmt: &Stmt| may_part(stmt, headers);
                    if states.any(|state| state.body.iter().any(parts)) {
                        written.extend(errors);
                        let behind = |p| written_behind_parting(program, p, headers);
                        written.extend(parser.into_iter().flat_map(behind));
                    }
                }
                FastPathStep::Control(control) if is_parsed => {
                    written.extend(written_in_control(program, *control));
                    if runs_once(pass, *control) {
                        scouting.written.insert(*control, written.clone());
                    }
                }
                FastPathStep::Set(field, _) if is_parsed => {
                    written.insert(*field);
                }
                FastPathStep::Set(..)
                | FastPathStep::DropIf(..)
                | FastPathStep::LeaveIf(_)
                | FastPathStep::SendFrame
                | FastPathStep::Enqueue(_) => {}
                _ => break,
            }
        }
        scouting
    }
}

/// Returns true if a control is only one step of a fast path. A second run would have other keys.
fn runs_once(pass: &FastPath, control: ControlId) -> bool {
    let is_it = |step: &&FastPathStep| matches!(step, FastPathStep::Control(c) | FastPathStep::Deparse(c) if *c == control);
    pass.steps.iter().filter(is_it).count() == 1
}

/// Returns true if a parser only extracts and computes in native code, so that it may run twice.
/// `is_native` decides this for extractions and calls.
fn is_plain(body: &[Stmt], is_native: &impl Fn(&StmtKind) -> bool) -> bool {
    let is_plain = |body: &[Stmt]| is_plain(body, is_native);
    body.iter().all(|stmt| match &stmt.kind {
        StmtKind::Assign(place, _)
        | StmtKind::AssignSlice(place, ..)
        | StmtKind::PacketLength(place) => place.dims.is_empty(),
        StmtKind::Advance(Expr::Const(..)) | StmtKind::Verify(..) | StmtKind::Fail(_) => true,
        StmtKind::If(_, then, otherwise) => is_plain(then) && is_plain(otherwise),
        StmtKind::Block(_, body) => is_plain(body),
        StmtKind::Leave(_) => true,
        kind => is_native(kind),
    })
}

/// Condition under which a prefetch pass reaches a stage.
#[derive(Clone, Copy)]
pub(super) enum Comes {
    Never,
    Always,
    /// If this variable is 1.
    If(Variable),
}

impl Translator<'_> {
    /// Computes the lookup schedule.
    pub(super) fn find_levels(&mut self, pass: &FastPath) {
        let Some(fused) = self.fused.as_ref() else {
            return;
        };
        let written = &fused.scouting.written;
        let mut levels = LookupSchedule::default();
        let mut is_parsed = false;
        for step in &pass.steps {
            checkpoint();
            match step {
                FastPathStep::Parse { .. } => is_parsed = true,
                FastPathStep::Set(field, input) if is_parsed => match stays(*input) {
                    true => levels.tell(*field),
                    false => levels.set(*field),
                },
                FastPathStep::Control(control) if written.contains_key(control) => {
                    levels.control(self.program, *control, self);
                }
                FastPathStep::Control(control) => levels.forget(self.program, *control),
                FastPathStep::Carry(_) | FastPathStep::Deparse(_) | FastPathStep::Copy { .. } => {
                    break;
                }
                _ => {}
            }
        }
        if let Some(fused) = self.fused.as_mut() {
            fused.scouting.levels = levels;
        }
    }

    /// Returns true if a prefetch pass is being translated.
    pub(super) fn is_ahead(&self) -> bool {
        self.fused.as_ref().is_some_and(|f| f.scouting.is_ahead)
    }

    /// Creates the site of a match stage, if the fast path can use lookup results there.
    pub(super) fn scouted(&mut self, stage: StageId, table: TableId) -> Option<PrefetchSite> {
        let scouting = &self.fused.as_ref()?.scouting;
        let control = scouting.control?;
        let level = scouting.levels.asked(control, stage)?;
        let keys = &self.program.tables.get(table)?.keys;
        let is_exact = keys.iter().all(|key| self.is_known(control, &key.expr));
        let limbs = self.code.tables[table].key_limbs as usize;
        let first = self.code.end_of_scouts();
        let packing = self.packed_key(table);
        let site = PrefetchSite {
            table,
            first,
            limbs,
            level,
            is_verified: !is_exact,
            nearness: self.nearness(table),
            has_slots: self.may_be_direct(table),
            // A wide key is unlikely to have a direct index.
            is_noted_first: packing.is_some() && !self.has_small_keys(table),
            // The prefetch pass of its level sets this, if it needs the results.
            answers_at_once: false,
            hashed: packing
                .as_ref()
                .map(|packing| HashedLookups::new(first, packing)),
        };
        self.code
            .hashed_tables
            .extend(packing.map(|packing| (table, packing.limbs)));
        let number = self.code.scouts.len();
        self.code.scouts.push(site);
        let fused = self.fused.as_mut()?;
        fused.scouting.sites.insert((control, stage), number);
        Some(site)
    }

    /// Returns true if an expression has one value from the parser to the end of a control, and is
    /// computed without a helper.
    fn is_known(&self, control: ControlId, expr: &Expr) -> bool {
        let Some(fused) = &self.fused else {
            return false;
        };
        let Some(written) = fused.scouting.written.get(&control) else {
            return false;
        };
        let is_small = self
            .ty(expr)
            .is_ok_and(|ty| limbs_of(ty) <= INLINE_LIMBS && !matches!(ty, ir::ScalarTy::Varbit(_)));
        let known = |expr: &Expr| self.is_known(control, expr);
        is_small
            && match expr {
                Expr::Const(..) => true,
                Expr::Read(place) => {
                    place.dims.is_empty()
                        && fused.homes.followed.contains(&place.base)
                        && !written.contains(&place.base)
                }
                Expr::Unary(_, a) | Expr::Slice(a, ..) | Expr::Cast(_, a) => known(a),
                Expr::Binary(_, a, b) | Expr::Concat(a, b) => known(a) && known(b),
                Expr::Ternary(a, b, c) => known(a) && known(b) && known(c),
                Expr::Param(_) | Expr::VarbitLen(_) | Expr::VarbitEq(..) => false,
            }
    }

    /// Loads the record number that the current packet hits from the lookup results. Branches to
    /// `otherwise` if there is no result for this key.
    pub(super) fn scouted_record(
        &mut self,
        site: PrefetchSite,
        key: &[Value],
        otherwise: Block,
    ) -> Value {
        let key = self.key_to_note(site, key);
        self.noted_answer(site.answers(), &key, otherwise)
    }

    /// Returns a key in the form in which it is stored with results.
    fn key_to_note(&mut self, site: PrefetchSite, key: &[Value]) -> Vec<Value> {
        match self.packed_key(site.table) {
            Some(packing) if site.is_hashed() && !key.is_empty() => self.pack(&packing, key),
            _ => key.to_vec(),
        }
    }

    /// Returns the key of a table's lookup, as prefetch passes store it.
    pub(super) fn key_of(&mut self, table: TableId) -> Result<Vec<Value>, Unsupported> {
        let program = self.program;
        let keys = program.tables.get(table).map_or(&[][..], |t| &t.keys);
        let mut limbs = Vec::new();
        for part in keys {
            checkpoint();
            if self.ty(&part.expr)?.width() > 0 {
                limbs.extend(self.value(&part.expr)?);
            }
        }
        limbs.truncate(self.code.tables[table].key_limbs as usize);
        Ok(limbs)
    }

    /// Translates the prefetch pass of a level, for a fast path that has been translated. It is a
    /// loop over the packets of a burst.
    pub(super) fn scout(
        mut self,
        pass: &FastPath,
        sites: &PrefetchedStages,
        level: Level,
    ) -> Result<(), Unsupported> {
        let common_end = self.end;
        let ended = self.b.create_block();
        self.b.append_block_param(ended, I64);
        let homes = self.homes(pass);
        self.begin_fusing(pass, homes, ended);
        let mut levels = LookupSchedule::default();
        if let Some(fused) = self.fused.as_mut() {
            fused.scouting.is_ahead = true;
            std::mem::swap(&mut levels, &mut fused.scouting.levels);
        }
        let (controls, needed) = self.scouted_on(pass, sites, &levels, level);
        let noted = self.parsed_for_scouts(pass, sites, &levels, level);
        let plan = TablePrefetch {
            needed,
            levels,
            level,
            controls,
            sites,
            noted,
        };
        let begin = self.begin_burst();
        self.begin_packet();
        self.scout_steps(pass, &plan)?;
        let zero = self.number(0);
        self.jump_with(ended, &[zero]);
        self.start(ended);
        let at = self.at();
        let at = self.b.ins().iadd_imm(at, 1);
        self.set_at(at);
        let count = self.load_constant(offset::COUNT);
        let through = self.b.create_block();
        let goes_on = self.b.ins().icmp(IntCC::UnsignedLessThan, at, count);
        self.branch(goes_on, begin, through);
        self.start(through);
        self.end_lot(at);
        self.end_burst(begin, common_end);
        self.b.finalize();
        Ok(())
    }

    /// Returns the controls that the prefetch pass of a level walks, and the fields on which its
    /// keys depend.
    pub(super) fn scouted_on(
        &self,
        pass: &FastPath,
        sites: &PrefetchedStages,
        levels: &LookupSchedule,
        level: Level,
    ) -> (Vec<ControlId>, HashSet<FieldId>) {
        let asks = |control: &ControlId| {
            let mut sites = sites.iter();
            sites.any(|((of, _), &site)| of == control && self.code.scouts[site].level == level)
        };
        let controls = pass.steps.iter().filter_map(|step| match step {
            FastPathStep::Control(control) => Some(*control),
            _ => None,
        });
        let mut controls: Vec<ControlId> = controls.collect();
        let last = controls.iter().rposition(asks);
        controls.truncate(last.map_or(0, |last| last + 1));
        let nearness = |table| self.nearness(table);
        let needed = levels.needed(self.program, &controls, level, nearness);
        (controls, needed)
    }

    fn scout_steps(
        &mut self,
        pass: &FastPath,
        plan: &TablePrefetch<'_>,
    ) -> Result<(), Unsupported> {
        let mut is_parsed = false;
        for (number, step) in pass.steps.iter().enumerate() {
            checkpoint();
            match step {
                FastPathStep::Parse { .. } if is_parsed => break,
                FastPathStep::Parse { .. } => {
                    match &plan.noted {
                        Noted::Before(parsed) => self.take_parsed(parsed),
                        Noted::Here(parsed) => {
                            self.step(number as u32, step)?;
                            self.note_parsed(parsed);
                        }
                        Noted::Nowhere => self.step(number as u32, step)?,
                    }
                    is_parsed = true;
                }
                FastPathStep::Set(..) if !is_parsed => self.step(number as u32, step)?,
                FastPathStep::Set(field, input) if stays(*input) && plan.needed.contains(field) => {
                    self.step(number as u32, step)?;
                }
                FastPathStep::Control(control) if plan.controls.contains(control) => {
                    self.scout_control(*control, plan)?;
                }
                FastPathStep::Control(_)
                | FastPathStep::Set(..)
                | FastPathStep::DropIf(..)
                | FastPathStep::LeaveIf(_)
                | FastPathStep::SendFrame
                | FastPathStep::Enqueue(_) => {}
                _ => break,
            }
        }
        Ok(())
    }

    fn scout_control(
        &mut self,
        id: ControlId,
        plan: &TablePrefetch<'_>,
    ) -> Result<(), Unsupported> {
        let Some(control) = self.program.controls.get(id) else {
            return Ok(());
        };
        let mut comes: HashMap<StageId, Comes> = HashMap::new();
        let first = control.stages.ids().next();
        comes.extend(first.map(|first| (first, Comes::Always)));
        for (stage_id, stage) in control.stages.iter() {
            checkpoint();
            let here = comes.get(&stage_id).copied().unwrap_or(Comes::Never);
            if let Comes::Never = here {
                continue;
            }
            for (next, here) in self.scout_stage((id, stage_id), stage, here, plan)? {
                checkpoint();
                if let Next::Stage(to) = next
                    && to > stage_id
                {
                    let before = comes.get(&to).copied().unwrap_or(Comes::Never);
                    let either = self.either(before, here);
                    comes.insert(to, either);
                }
            }
        }
        Ok(())
    }

    /// Translates a stage in a prefetch pass. Returns its successors with their conditions.
    fn scout_stage(
        &mut self,
        at: (ControlId, StageId),
        stage: &Stage,
        here: Comes,
        plan: &TablePrefetch<'_>,
    ) -> Result<Vec<(Next, Comes)>, Unsupported> {
        let all = |nexts: &[Next]| nexts.iter().map(|&next| (next, here)).collect();
        let decides = plan.levels.decides(at.0, at.1, plan.level);
        Ok(match &stage.kind {
            StageKind::Condition {
                cond,
                then,
                otherwise,
            } if decides => {
                let yes = self.narrow(cond)?;
                let no = self.b.ins().bxor_imm(yes, 1);
                let then = (*then, self.both(here, yes));
                vec![then, (*otherwise, self.both(here, no))]
            }
            StageKind::Condition {
                then, otherwise, ..
            } => all(&[*then, *otherwise]),
            StageKind::Action { body, next } => {
                let here = self.sketch_stage(here, body, plan)?;
                vec![(*next, here)]
            }
            StageKind::Match {
                table,
                outcome,
                next,
            } => {
                let is_of_use = decides || plan.is_of_use(self.program, *table, *outcome);
                let site = self.site_of(at, is_of_use, plan);
                if let Some(site) = site.filter(|site| site.is_asked_on(plan.level)) {
                    self.if_comes(here, |this| this.ask_if_searched(site))?;
                }
                let answered = site.filter(|site| site.is_answered_on(plan.level));
                if let Some(site) = answered.filter(|_| is_of_use) {
                    let answered = ResolvedLookup {
                        table: *table,
                        outcome: *outcome,
                        next,
                        site,
                        decides,
                    };
                    return self.sketch_answer(here, &answered, plan);
                }
                match next {
                    MatchNext::Always(next) => all(&[*next]),
                    MatchNext::ByHit { hit, miss } => all(&[*hit, *miss]),
                    MatchNext::ByAction(nexts) => all(nexts),
                }
            }
        })
    }

    /// Returns the site of a match stage. In the prefetch pass of its level, decides if the lookup
    /// is resolved immediately.
    fn site_of(
        &mut self,
        at: (ControlId, StageId),
        is_of_use: bool,
        plan: &TablePrefetch<'_>,
    ) -> Option<PrefetchSite> {
        let number = *plan.sites.get(&at)?;
        let mut site = self.code.scouts[number];
        if site.level == plan.level {
            site.answers_at_once = is_of_use && self.is_answered_at_once(site.table);
            self.code.scouts[number] = site;
        }
        Some(site)
    }

    fn both(&mut self, here: Comes, truth: Value) -> Comes {
        let both = match here {
            Comes::Never => return Comes::Never,
            Comes::Always => truth,
            Comes::If(here) => {
                let here = self.b.use_var(here);
                self.b.ins().band(here, truth)
            }
        };
        Comes::If(self.variable(both))
    }

    fn either(&mut self, one: Comes, other: Comes) -> Comes {
        match (one, other) {
            (Comes::Never, other) => other,
            (one, Comes::Never) => one,
            (Comes::Always, _) | (_, Comes::Always) => Comes::Always,
            (Comes::If(one), Comes::If(other)) => {
                let (one, other) = (self.b.use_var(one), self.b.use_var(other));
                let either = self.b.ins().bor(one, other);
                Comes::If(self.variable(either))
            }
        }
    }

    /// Writes the key of a table, unless the state has an index that native code searches.
    fn ask_if_searched(&mut self, site: PrefetchSite) -> Result<(), Unsupported> {
        if !site.may_be_near() {
            return self.ask(site);
        }
        let (searched, after) = (self.b.create_block(), self.b.create_block());
        let index = self.near_index(site.table);
        self.branch(index, after, searched);
        self.start_sealed(searched);
        self.ask(site)?;
        self.jump(after);
        self.start_sealed(after);
        Ok(())
    }

    /// Returns the record number that the current packet hits. If there is no result yet, looks it
    /// up and stores it.
    pub(super) fn noted_record(&mut self, site: PrefetchSite) -> Result<Value, Unsupported> {
        let (unknown, after) = (self.cold_block(), self.b.create_block());
        let number = self.b.append_block_param(after, I64);
        let noted = self.scouted_record(site, &[], unknown);
        self.jump_with(after, &[noted]);
        self.start_sealed(unknown);
        let found = self.find(site.table)?;
        let key = self.key_of(site.table)?;
        let key = self.key_to_note(site, &key);
        let packet = self.notes_of_packet();
        self.note_key(site.answers(), packet, &key);
        self.note_answer(site.answers(), packet, found);
        self.jump_with(after, &[found]);
        self.start_sealed(after);
        Ok(number)
    }

    /// Writes the key of a table.
    fn ask(&mut self, site: PrefetchSite) -> Result<(), Unsupported> {
        match site.hashed.zip(self.packed_key(site.table)) {
            Some((notes, packing)) => self.ask_hashed(site.table, notes, &packing),
            None => self.ask_table(site),
        }
    }

    /// Writes the key of a table that is searched in batches by its own code.
    fn ask_table(&mut self, site: PrefetchSite) -> Result<(), Unsupported> {
        let key = self.key_of(site.table)?;
        let (notes, asker) = (self.load_constant(offset::NOTES), self.at());
        let at = |word: usize| 8 * (site.first + word) as i32;
        let count = self.b.ins().load(I64, in_limbs(), notes, at(0));
        let behind = self.b.ins().ishl_imm(count, WORD_SHIFT);
        let question = self.b.ins().iadd(notes, behind);
        let asker_at = at(PrefetchSite::ASKERS);
        self.b.ins().store(in_limbs(), asker, question, asker_at);
        let behind = self.b.ins().imul_imm(count, 8 * site.limbs as i64);
        let place = self.b.ins().iadd(notes, behind);
        for (limb, &part) in key.iter().enumerate() {
            checkpoint();
            let key_at = at(PrefetchSite::KEYS + limb);
            self.b.ins().store(in_limbs(), part, place, key_at);
        }
        let packet = self.notes_of_packet();
        self.note_key(site.answers(), packet, &key);
        let count = self.b.ins().iadd_imm(count, 1);
        self.b.ins().store(in_limbs(), count, notes, at(0));
        Ok(())
    }
}

/// Plan of the prefetch pass of one level.
pub(super) struct TablePrefetch<'s> {
    pub(super) levels: LookupSchedule,
    pub(super) level: Level,
    /// Controls that it walks.
    controls: Vec<ControlId>,
    sites: &'s PrefetchedStages,
    /// Fields on which its keys depend.
    pub(super) needed: HashSet<FieldId>,
    noted: Noted,
}

impl TablePrefetch<'_> {
    /// Returns true if keys depend on the result of a table.
    fn is_of_use(&self, program: &ir::Program, table: TableId, outcome: MatchOutcome) -> bool {
        let told = outcome.hit.into_iter().chain(outcome.action_run);
        let actions = program
            .tables
            .get(table)
            .into_iter()
            .flat_map(|t| &t.actions);
        let mut bodies = actions.filter_map(|action| program.actions.get(action.action));
        told.into_iter().any(|field| self.needed.contains(&field))
            || bodies.any(|action| assigns(program, &action.body, &self.needed))
    }
}

/// Match stages that use lookup results, each with the index of its site.
pub(crate) type PrefetchedStages = HashMap<(ControlId, StageId), usize>;
