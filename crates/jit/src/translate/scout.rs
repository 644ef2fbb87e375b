//! The scouts of a pass: they go through a burst before the pass does and write down the keys of tables, so that these are looked up together and what the
//! pass will read is asked for before (DESIGN, idea 2: hash and prefetch for the whole batch before the first compare).
//!
//! The first scout runs the parser, and of the conditions those that ask which headers there are, or that spare long lookups. A scout of a later level ([`super::levels`]) takes what the first one
//! has parsed ([`super::parsed`]), has the answers to the questions of those before, and follows what their actions assign ([`super::sketch`]). Whether the pass comes to a table is another matter: a scout goes
//! all ways where it does not know, and a packet that it did not ask for is looked up by the pass itself. If no code between the parser and a table writes
//! a field of its key, nor the parser behind what scouts do not do as it does (a `verify`, a header that a helper extracts), the pass takes the answer without looking at it; otherwise it
//! compares its key with the one that was asked for. So scouts change speed, never the result.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;
use exec::slots::header::HeaderSite;
use exec::{BURST, Pass, PassStep, Unsupported};
use ir::{
    ControlId, Expr, ExternKind, FieldId, MatchNext, MatchOutcome, Next, Stage, StageId, StageKind,
    Stmt, StmtKind, TableId, limbs_of,
};
use table::{Directness, Lookup};

use super::answers::{AnswerNotes, WORD_SHIFT};
use super::hashed::HashedNotes;
use super::homes::{Homes, may_part, written_behind_parting, written_in_control};
use super::levels::{Follows, Level, Levels, assigns};
use super::parsed::Noted;
use super::pass::stays;
use super::sketch::Answered;
use super::{Block, I64, INLINE_LIMBS, Translator, in_limbs};
use crate::abi::offset;

/// Where a scout's notes for one table begin, and what they are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScoutSite {
    pub(crate) table: TableId,
    /// The first word of its notes.
    pub(crate) first: usize,
    /// Limbs of a key.
    pub(crate) limbs: usize,
    /// The level of the scout that asks.
    pub(crate) level: Level,
    /// Whether the key that was asked for may be another than the pass's.
    pub(crate) is_verified: bool,
    /// What is known of an index in which native code finds keys: where there is one, nobody asks.
    nearness: Option<Directness>,
    /// Whether that is an index of slots, and no other.
    has_slots: bool,
    /// Whether the pass looks at what is noted before it looks for an index.
    pub(super) is_noted_first: bool,
    /// Whether scouts find answers by themselves, since other questions of the same level depend on them.
    pub(crate) answers_at_once: bool,
    /// Other notes, where native code looks keys up in a hash table.
    hashed: Option<HashedNotes>,
}

/// The notes for a table that is searched, in words: how many packets ask; by question which packet does, the number of the record that was found, and the key. Behind them
/// [`AnswerNotes`].
impl ScoutSite {
    const ASKERS: usize = 1;
    const FOUND: usize = Self::ASKERS + BURST;
    const KEYS: usize = Self::FOUND + BURST;

    /// Whether the questions of a level's packets are answered together.
    pub(crate) fn is_asked_on(&self, level: Level) -> bool {
        self.level == level && !self.answers_at_once && !self.is_direct()
    }

    /// The notes about a hash table that is asked on a level.
    pub(crate) fn hashed_on(&self, level: Level) -> Option<HashedNotes> {
        self.hashed.filter(|_| self.is_asked_on(level))
    }

    /// Whether native code looks the table's keys up in a hash table.
    pub(crate) fn is_hashed(&self) -> bool {
        self.hashed.is_some()
    }

    /// Whether the questions of a level's packets are answered by the table.
    pub(crate) fn is_searched_on(&self, level: Level) -> bool {
        self.is_asked_on(level) && self.hashed.is_none()
    }

    /// Whether native code always finds the answers in the table's direct index.
    pub(crate) fn is_direct(&self) -> bool {
        matches!(self.nearness, Some(Directness::Whole | Directness::Always))
    }

    /// Whether native code finds the answers by itself, if the table has an index for that.
    pub(crate) fn may_be_near(&self) -> bool {
        self.nearness.is_some()
    }

    /// Whether the scout of a level has the answers.
    fn is_answered_on(&self, level: Level) -> bool {
        let is_at_once = self.answers_at_once || self.is_direct();
        self.level < level || is_at_once && self.level == level
    }

    /// How many words they are.
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

    /// What packets are answered.
    fn answers(&self) -> AnswerNotes {
        let compared = if self.is_verified { self.limbs } else { 0 };
        let first = self.first + self.words_of_questions();
        let searched = AnswerNotes::new(first, compared);
        self.hashed.map_or(searched, HashedNotes::answers)
    }

    /// Whether nobody need ask where the table's lines are near, since the pass looks there by itself: a level that asks nothing but such tables is left out, for its scout would follow all tables
    /// before. On level 0 there is less to save. Keys that most likely have slots are not among these: code for lines would be in the way of packets that find them there.
    pub(crate) fn may_be_unasked(&self) -> bool {
        self.is_noted_first && self.level > 0
    }

    /// Whether native code never looks at what is noted, of a state with such a table: it finds all answers by itself.
    pub(crate) fn is_always_near(&self, lookup: &Lookup) -> bool {
        let is_near = match self.has_slots {
            true => lookup.direct().is_some(),
            false => lookup.vectors().is_some(),
        };
        self.may_be_near() && !self.is_noted_first && is_near
    }

    /// None of so many packets asks, in the notes of this site; nor has any an answer, where anybody looks.
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

    /// The questions of these packets.
    pub(crate) fn questions<'n>(
        &self,
        notes: &'n mut [u64],
        packets: Range<usize>,
    ) -> Questions<'n> {
        let (own, answers) = notes[self.first..].split_at_mut(self.words_of_questions());
        let (head, keys) = own.split_at_mut(Self::KEYS);
        let (asking, found) = head.split_at_mut(Self::FOUND);
        let (count, askers) = asking.split_at(Self::ASKERS);
        let askers = &askers[..(count[0] as usize).min(BURST)];
        // Packets ask one after the other.
        let before = |packet: usize| askers.partition_point(|&asker| (asker as usize) < packet);
        let begin = before(packets.start);
        let asked = begin..before(packets.end).max(begin);
        Questions {
            askers: &askers[asked.clone()],
            keys: &keys[asked.start * self.limbs..asked.end * self.limbs],
            found: &mut found[asked],
            answers: &mut answers[..BURST],
        }
    }
}

/// Questions about a table that is searched.
pub(crate) struct Questions<'n> {
    askers: &'n [u64],
    /// What is asked for.
    pub(crate) keys: &'n [u64],
    /// The numbers of the records that they hit, 0 for none, when they are answered; before, what is noted of each.
    pub(crate) found: &'n mut [u64],
    answers: &'n mut [u64],
}

impl Questions<'_> {
    /// Does something for each question: with who asks, the key, and what is noted, or the number that was found when the questions are answered.
    pub(crate) fn each(&mut self, mut work: impl FnMut(usize, &[u64], &mut u64)) {
        let limbs = self.keys.len().checked_div(self.askers.len()).unwrap_or(0);
        let questions = self.askers.iter().zip(&mut *self.found).enumerate();
        for (question, (&asker, noted)) in questions {
            work(
                asker as usize,
                &self.keys[question * limbs..][..limbs],
                noted,
            );
        }
    }

    /// Tells all that ask what was found for each question, by its place.
    pub(crate) fn answer(&mut self, mut found: impl FnMut(usize, u64) -> u64) {
        let questions = self.askers.iter().zip(&mut *self.found).enumerate();
        for (question, (&asker, noted)) in questions {
            let number = found(question, *noted);
            *noted = number;
            if let Some(answer) = self.answers.get_mut(asker as usize) {
                *answer = match number {
                    0 => AnswerNotes::MISSED,
                    number => number,
                };
            }
        }
    }
}

/// What is scouted of a pass.
#[derive(Default)]
pub(super) struct Scouting {
    /// Fields that controls from the parser on may have written, up to the end of each control that is scouted.
    written: HashMap<ControlId, HashSet<FieldId>>,
    /// The control being translated.
    pub(super) control: Option<ControlId>,
    /// The match stages that the pass takes answers for.
    pub(super) sites: HashMap<(ControlId, StageId), usize>,
    levels: Levels,
    /// Whether it is a scout that is being translated.
    is_ahead: bool,
}

impl Scouting {
    /// What may be scouted of a pass: all controls between the first parser and what makes another packet of the one that was parsed. What the architecture
    /// tells before the parser the scout is told, too; what it tells later counts as written.
    pub(super) fn of(
        program: &ir::Program,
        pass: &Pass,
        headers: &[HeaderSite],
        homes: &Homes,
    ) -> Scouting {
        let is_native = |kind: &StmtKind| match kind {
            StmtKind::Extract(header, _) => header.dims.is_empty(),
            StmtKind::Call(call) => call.instance.is_some_and(|instance| {
                let declared = program.externs.get(instance);
                let is_sum = declared.is_some_and(|e| e.kind == ExternKind::InternetChecksum);
                is_sum && !homes.sums_by_helper.contains(&instance)
            }),
            _ => false,
        };
        if !homes.is_aligned {
            return Scouting::default();
        }
        let mut scouting = Scouting::default();
        let mut written = HashSet::new();
        let mut is_parsed = false;
        for step in &pass.steps {
            match step {
                PassStep::Parse { parser, errors } => {
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
                PassStep::Control(control) if is_parsed => {
                    written.extend(written_in_control(program, *control));
                    if runs_once(pass, *control) {
                        scouting.written.insert(*control, written.clone());
                    }
                }
                PassStep::Set(field, _) if is_parsed => {
                    written.insert(*field);
                }
                PassStep::Set(..)
                | PassStep::DropIf(..)
                | PassStep::LeaveIf(_)
                | PassStep::Enqueue(_) => {}
                _ => break,
            }
        }
        scouting
    }
}

/// Whether a control is one step of a pass alone: another time it would find other keys.
fn runs_once(pass: &Pass, control: ControlId) -> bool {
    let is_it = |step: &&PassStep| matches!(step, PassStep::Control(c) | PassStep::Deparse(c) if *c == control);
    pass.steps.iter().filter(is_it).count() == 1
}

/// Whether a parser's code only extracts and computes, in native code, so that it may run twice; `is_native` says so of extractions and calls.
fn is_plain(body: &[Stmt], is_native: &impl Fn(&StmtKind) -> bool) -> bool {
    let is_plain = |body: &[Stmt]| is_plain(body, is_native);
    body.iter().all(|stmt| match &stmt.kind {
        StmtKind::Assign(place, _) | StmtKind::AssignSlice(place, ..) => place.dims.is_empty(),
        StmtKind::Advance(Expr::Const(..)) | StmtKind::Verify(..) | StmtKind::Fail(_) => true,
        StmtKind::If(_, then, otherwise) => is_plain(then) && is_plain(otherwise),
        StmtKind::Block(_, body) => is_plain(body),
        StmtKind::Leave(_) => true,
        kind => is_native(kind),
    })
}

/// Whether the scout comes to a stage.
#[derive(Clone, Copy)]
pub(super) enum Comes {
    Never,
    Always,
    /// Where this is 1.
    If(Variable),
}

impl Translator<'_> {
    /// Finds out which tables are scouted on which level.
    pub(super) fn find_levels(&mut self, pass: &Pass) {
        let Some(fused) = self.fused.as_ref() else {
            return;
        };
        let written = &fused.scouting.written;
        let mut levels = Levels::default();
        let mut is_parsed = false;
        for step in &pass.steps {
            match step {
                PassStep::Parse { .. } => is_parsed = true,
                PassStep::Set(field, input) if is_parsed => match stays(*input) {
                    true => levels.tell(*field),
                    false => levels.set(*field),
                },
                PassStep::Control(control) if written.contains_key(control) => {
                    levels.control(self.program, *control, self);
                }
                PassStep::Control(control) => levels.forget(self.program, *control),
                PassStep::Carry(_) | PassStep::Deparse(_) | PassStep::Copy { .. } => break,
                _ => {}
            }
        }
        if let Some(fused) = self.fused.as_mut() {
            fused.scouting.levels = levels;
        }
    }

    /// Whether it is a scout that is being translated.
    pub(super) fn is_ahead(&self) -> bool {
        self.fused.as_ref().is_some_and(|f| f.scouting.is_ahead)
    }

    /// The place of the answer for a match stage, if the pass may take one.
    pub(super) fn scouted(&mut self, stage: StageId, table: TableId) -> Option<ScoutSite> {
        let scouting = &self.fused.as_ref()?.scouting;
        let control = scouting.control?;
        let level = scouting.levels.asked(control, stage)?;
        let keys = &self.program.tables.get(table)?.keys;
        let is_exact = keys.iter().all(|key| self.is_known(control, &key.expr));
        let limbs = self.code.tables[table].key_limbs as usize;
        let first = self.code.end_of_scouts();
        let packing = self.packed_key(table);
        let site = ScoutSite {
            table,
            first,
            limbs,
            level,
            is_verified: !is_exact,
            nearness: self.nearness(table),
            has_slots: self.may_be_direct(table),
            // A key of many bits is not likely to have a slot.
            is_noted_first: packing.is_some() && !self.has_small_keys(table),
            // Not before its scout needs them.
            answers_at_once: false,
            hashed: packing
                .as_ref()
                .map(|packing| HashedNotes::new(first, packing)),
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

    /// Whether an expression has one value from the parser to the end of a control, and is computed without a helper.
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

    /// The number of the record that the packet at hand hits, as a scout found it; `otherwise` if none asked, or not with this key.
    pub(super) fn scouted_record(
        &mut self,
        site: ScoutSite,
        key: &[Value],
        otherwise: Block,
    ) -> Value {
        let key = self.key_to_note(site, key);
        self.noted_answer(site.answers(), &key, otherwise)
    }

    /// A key as it is noted with answers.
    fn key_to_note(&mut self, site: ScoutSite, key: &[Value]) -> Vec<Value> {
        match self.packed_key(site.table) {
            Some(packing) if site.is_hashed() && !key.is_empty() => self.pack(&packing, key),
            _ => key.to_vec(),
        }
    }

    /// The key of a table's lookup, as scouts write it down.
    pub(super) fn key_of(&mut self, table: TableId) -> Result<Vec<Value>, Unsupported> {
        let program = self.program;
        let keys = program.tables.get(table).map_or(&[][..], |t| &t.keys);
        let mut limbs = Vec::new();
        for part in keys {
            if self.ty(&part.expr)?.width() > 0 {
                limbs.extend(self.value(&part.expr)?);
            }
        }
        limbs.truncate(self.code.tables[table].key_limbs as usize);
        Ok(limbs)
    }

    /// Translates the scout of a level, of a pass that has been translated: a loop over the packets of a burst.
    pub(super) fn scout(
        mut self,
        pass: &Pass,
        sites: &ScoutedStages,
        level: Level,
    ) -> Result<(), Unsupported> {
        let common_end = self.end;
        let ended = self.b.create_block();
        self.b.append_block_param(ended, I64);
        let homes = self.homes(pass);
        self.begin_fusing(pass, homes, ended);
        let mut levels = Levels::default();
        if let Some(fused) = self.fused.as_mut() {
            fused.scouting.is_ahead = true;
            std::mem::swap(&mut levels, &mut fused.scouting.levels);
        }
        let (controls, needed) = self.scouted_on(pass, sites, &levels, level);
        let noted = self.parsed_for_scouts(pass, sites, &levels, level);
        let plan = Plan {
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

    /// The controls that the scout of a level goes through, and the fields on which its questions depend.
    pub(super) fn scouted_on(
        &self,
        pass: &Pass,
        sites: &ScoutedStages,
        levels: &Levels,
        level: Level,
    ) -> (Vec<ControlId>, HashSet<FieldId>) {
        let asks = |control: &ControlId| {
            let mut sites = sites.iter();
            sites.any(|((of, _), &site)| of == control && self.code.scouts[site].level == level)
        };
        let controls = pass.steps.iter().filter_map(|step| match step {
            PassStep::Control(control) => Some(*control),
            _ => None,
        });
        let mut controls: Vec<ControlId> = controls.collect();
        let last = controls.iter().rposition(asks);
        controls.truncate(last.map_or(0, |last| last + 1));
        let nearness = |table| self.nearness(table);
        let needed = levels.needed(self.program, &controls, level, nearness);
        (controls, needed)
    }

    fn scout_steps(&mut self, pass: &Pass, plan: &Plan<'_>) -> Result<(), Unsupported> {
        let mut is_parsed = false;
        for (number, step) in pass.steps.iter().enumerate() {
            match step {
                PassStep::Parse { .. } if is_parsed => break,
                PassStep::Parse { .. } => {
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
                PassStep::Set(..) if !is_parsed => self.step(number as u32, step)?,
                PassStep::Set(field, input) if stays(*input) && plan.needed.contains(field) => {
                    self.step(number as u32, step)?;
                }
                PassStep::Control(control) if plan.controls.contains(control) => {
                    self.scout_control(*control, plan)?;
                }
                PassStep::Control(_)
                | PassStep::Set(..)
                | PassStep::DropIf(..)
                | PassStep::LeaveIf(_)
                | PassStep::Enqueue(_) => {}
                _ => break,
            }
        }
        Ok(())
    }

    fn scout_control(&mut self, id: ControlId, plan: &Plan<'_>) -> Result<(), Unsupported> {
        let Some(control) = self.program.controls.get(id) else {
            return Ok(());
        };
        let mut comes: HashMap<StageId, Comes> = HashMap::new();
        let first = control.stages.ids().next();
        comes.extend(first.map(|first| (first, Comes::Always)));
        for (stage_id, stage) in control.stages.iter() {
            let here = comes.get(&stage_id).copied().unwrap_or(Comes::Never);
            if let Comes::Never = here {
                continue;
            }
            for (next, here) in self.scout_stage((id, stage_id), stage, here, plan)? {
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

    /// What a scout does at a stage, and where packets that come there may go on.
    fn scout_stage(
        &mut self,
        at: (ControlId, StageId),
        stage: &Stage,
        here: Comes,
        plan: &Plan<'_>,
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
                    let answered = Answered {
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

    /// The place of the answer for a match stage; the scout of its level says whether it is found at once.
    fn site_of(
        &mut self,
        at: (ControlId, StageId),
        is_of_use: bool,
        plan: &Plan<'_>,
    ) -> Option<ScoutSite> {
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

    /// Writes down the key of a table, if that has no index in which native code finds it.
    fn ask_if_searched(&mut self, site: ScoutSite) -> Result<(), Unsupported> {
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

    /// The number of the record that the packet at hand hits, which is noted if it was not before.
    pub(super) fn noted_record(&mut self, site: ScoutSite) -> Result<Value, Unsupported> {
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

    /// Writes down the key of a table.
    fn ask(&mut self, site: ScoutSite) -> Result<(), Unsupported> {
        match site.hashed.zip(self.packed_key(site.table)) {
            Some((notes, packing)) => self.ask_hashed(site.table, notes, &packing),
            None => self.ask_table(site),
        }
    }

    /// Writes down the key of a table that is searched for all packets together.
    fn ask_table(&mut self, site: ScoutSite) -> Result<(), Unsupported> {
        let key = self.key_of(site.table)?;
        let (notes, asker) = (self.load_constant(offset::NOTES), self.at());
        let at = |word: usize| 8 * (site.first + word) as i32;
        let count = self.b.ins().load(I64, in_limbs(), notes, at(0));
        let behind = self.b.ins().ishl_imm(count, WORD_SHIFT);
        let question = self.b.ins().iadd(notes, behind);
        let asker_at = at(ScoutSite::ASKERS);
        self.b.ins().store(in_limbs(), asker, question, asker_at);
        let behind = self.b.ins().imul_imm(count, 8 * site.limbs as i64);
        let place = self.b.ins().iadd(notes, behind);
        for (limb, &part) in key.iter().enumerate() {
            let key_at = at(ScoutSite::KEYS + limb);
            self.b.ins().store(in_limbs(), part, place, key_at);
        }
        let packet = self.notes_of_packet();
        self.note_key(site.answers(), packet, &key);
        let count = self.b.ins().iadd_imm(count, 1);
        self.b.ins().store(in_limbs(), count, notes, at(0));
        Ok(())
    }
}

/// What the scout of a level does.
pub(super) struct Plan<'s> {
    pub(super) levels: Levels,
    pub(super) level: Level,
    /// The controls that it goes through.
    controls: Vec<ControlId>,
    sites: &'s ScoutedStages,
    /// The fields on which its questions depend.
    pub(super) needed: HashSet<FieldId>,
    noted: Noted,
}

impl Plan<'_> {
    /// Whether questions depend on what a table's answer leads to.
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

/// The match stages that a pass takes answers for, each with the number of its site.
pub(crate) type ScoutedStages = HashMap<(ControlId, StageId), usize>;
