//! Lookups: the bits that decide which entry of a table, or which member of a value set, matches.

use std::collections::HashMap;
use std::sync::Arc;

use bits::{Id, Value, limbs_for};
use exec::{Found, State, TableState, field_match, table_spec};
use ir::{FieldId, HashAlgorithm, KeyMatch, MatchKind, MatchOutcome, Program, TableId, ValueSetId};
use table::{
    Entry, EntryActionRef, EntryId, EntryIdx, FieldMatch, KeyShape, Lookup, PriorityOrder,
};

use super::expr::malformed;
use super::value::{Bit, Knowledge, Word};
use super::{End, Walk};
use crate::flow::{CounterCell, MetCounter, MetLookup, NotOffloadable};

/// Entries of tables in the order in which they win, kept as long as the tables do not change.
#[derive(Default)]
pub(super) struct Indices {
    of: HashMap<TableId, Arc<Index>>,
    ranked: HashMap<TableId, HashMap<EntryId, Ranked>>,
}

/// Entries of one table in the order in which they win.
struct Index {
    lookup: Arc<Lookup>,
    /// Widths of the key's fields.
    widths: Vec<u32>,
    entries: Vec<(EntryIdx, Arc<Condition>)>,
}

/// An entry's place in the order in which entries win, and its condition.
struct Ranked {
    matches: Arc<[FieldMatch]>,
    rank: (i64, EntryId),
    condition: Arc<Condition>,
}

/// Condition of an entry.
struct Condition {
    /// Bits that must be equal, over the limbs of a key.
    mask: Vec<u64>,
    value: Vec<u64>,
    /// Fields that must be in a range.
    ranges: Vec<(usize, Value, Value)>,
}

impl Condition {
    fn of(matches: &[FieldMatch], widths: &[u32]) -> Condition {
        let mut condition = Condition {
            mask: Vec::new(),
            value: Vec::new(),
            ranges: Vec::new(),
        };
        for (at, (matched, width)) in matches.iter().zip(widths).enumerate() {
            let zero = Value::zero(*width);
            let (mask, value) = match matched {
                FieldMatch::Exact(value) | FieldMatch::Optional(Some(value)) => {
                    (zero.not(), value.clone())
                }
                FieldMatch::Optional(None) => (zero.clone(), zero),
                FieldMatch::Lpm { value, prefix_len } => {
                    (Value::prefix_mask(*prefix_len, *width), value.clone())
                }
                FieldMatch::Ternary { value, mask } => (mask.clone(), value.clone()),
                FieldMatch::Range { lo, hi } => {
                    condition.ranges.push((at, lo.clone(), hi.clone()));
                    (zero.clone(), zero)
                }
            };
            condition.value.extend(value.and(&mask).limbs());
            condition.mask.extend(mask.limbs());
        }
        condition
    }
}

impl Indices {
    /// Returns the index of a table. It is made again if the table has changed.
    fn of(&mut self, program: &Program, id: TableId, state: &TableState) -> Option<Arc<Index>> {
        let kept = self.of.get(&id);
        if let Some(index) = kept.filter(|index| Arc::ptr_eq(&index.lookup, &state.lookup)) {
            return Some(Arc::clone(index));
        }
        let spec = table_spec(program, program.tables.get(id)?);
        let widths: Vec<u32> = spec
            .shape
            .fields()
            .iter()
            .map(|field| field.width)
            .collect();
        // The order of `table::Rank`.
        let by_priority = spec.shape.needs_priority();
        let class = |entry: &Entry| match (by_priority, entry.priority, spec.order) {
            (false, ..) => -i64::from(KeyShape::prefix_len(&entry.matches)),
            (true, None, _) => i64::MIN,
            (true, Some(priority), PriorityOrder::LargestWins) => -i64::from(priority),
            (true, Some(priority), PriorityOrder::SmallestWins) => i64::from(priority),
        };
        // An entry keeps its matches and its priority as long as it exists.
        let mut ranked = self.ranked.remove(&id).unwrap_or_default();
        let mut still = HashMap::with_capacity(ranked.len());
        let mut entries = Vec::new();
        for (idx, entry) in state.lookup.iter() {
            let kept = ranked.remove(&entry.id);
            let kept = kept.filter(|kept| kept.matches == entry.matches);
            let kept = kept.unwrap_or_else(|| Ranked {
                matches: Arc::clone(&entry.matches),
                rank: (class(&entry), entry.id),
                condition: Arc::new(Condition::of(&entry.matches, &widths)),
            });
            entries.push((kept.rank, idx, Arc::clone(&kept.condition)));
            still.insert(entry.id, kept);
        }
        self.ranked.insert(id, still);
        entries.sort_unstable_by_key(|(rank, ..)| *rank);
        let entries = entries.into_iter();
        let index = Arc::new(Index {
            entries: entries
                .map(|(_, idx, condition)| (idx, condition))
                .collect(),
            lookup: Arc::clone(&state.lookup),
            widths,
        });
        self.of.insert(id, Arc::clone(&index));
        Some(index)
    }
}

/// The key of a lookup: the bits of it that the flow fixes, over the limbs of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MetKey {
    pub(super) table: TableId,
    value: Vec<u64>,
    known: Vec<u64>,
}

impl MetKey {
    /// Returns true if a packet of the flow may have a key that meets these conditions.
    pub(super) fn may_meet(&self, program: &Program, keys: &[KeyMatch]) -> bool {
        let Some(table) = program.tables.get(self.table) else {
            return true;
        };
        let spec = table_spec(program, table);
        let fields = spec.shape.fields();
        let matches = fields.iter().zip(keys);
        let matches: Option<Vec<_>> = matches
            .map(|(field, wanted)| field_match(field, wanted))
            .collect();
        let Some(matches) = matches else {
            return true;
        };
        let widths: Vec<u32> = fields.iter().map(|field| field.width).collect();
        let condition = Condition::of(&matches, &widths);
        let limbs = self.value.iter().zip(&self.known);
        let wanted = condition.value.iter().zip(&condition.mask);
        limbs
            .zip(wanted)
            .all(|((a, known), (b, mask))| (a ^ b) & mask & known == 0)
    }
}

/// A key, and the bits of it that the flow fixes, over the limbs of a key.
struct KeyBits<'k> {
    fields: &'k [Word],
    value: Vec<u64>,
    known: Vec<u64>,
}

impl<'k> KeyBits<'k> {
    fn of(know: &Knowledge<'_>, fields: &'k [Word]) -> KeyBits<'k> {
        let mut key = KeyBits {
            fields,
            value: Vec::new(),
            known: Vec::new(),
        };
        for field in fields {
            key.value.extend(know.concrete(field).limbs());
        }
        key.note(know);
        key
    }

    /// Notes which bits are fixed now.
    fn note(&mut self, know: &Knowledge<'_>) {
        self.known.clear();
        for field in self.fields {
            let mut limbs = vec![0u64; limbs_for(field.len() as u32)];
            for (at, bit) in field.iter().enumerate() {
                limbs[at / 64] |= u64::from(know.known(*bit).is_some()) << (at % 64);
            }
            self.known.extend(limbs);
        }
    }

    /// Returns the first bit that is in the mask and not fixed: of the first field, its most
    /// significant one.
    fn first_open(&self, mask: &[u64]) -> Option<Bit> {
        let mut offset = 0;
        for field in self.fields {
            let limbs = limbs_for(field.len() as u32);
            for at in (0..limbs).rev() {
                let open = mask[offset + at] & !self.known[offset + at];
                if open != 0 {
                    let at = at * 64 + open.ilog2() as usize;
                    return field.get(at).copied();
                }
            }
            offset += limbs;
        }
        None
    }

    /// Decides whether a condition holds.
    fn decide(&mut self, know: &mut Knowledge<'_>, condition: &Condition) -> Result<bool, End> {
        loop {
            let limbs = self.value.iter().zip(&self.known);
            let wanted = condition.value.iter().zip(&condition.mask);
            let differs =
                |((a, known), (b, mask)): ((&u64, &u64), (&u64, &u64))| (a ^ b) & mask & known != 0;
            if limbs.zip(wanted).any(differs) {
                return Ok(false);
            }
            let Some(bit) = self.first_open(&condition.mask) else {
                break;
            };
            know.fix(bit)?;
            self.note(know);
        }
        for (field, lo, hi) in &condition.ranges {
            let key = &self.fields[*field];
            let (from, to) = (Knowledge::word(lo), Knowledge::word(hi));
            let is_from = know.is_at_least(key, &from)?;
            // A range of signed numbers may wrap.
            let is_in = match lo <= hi {
                true => is_from && know.is_at_least(&to, key)?,
                false => is_from || know.is_at_least(&to, key)?,
            };
            self.note(know);
            if !is_in {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Result of applying a table.
pub(super) struct AppliedTable {
    pub(super) hit: bool,
    /// Position of the action that ran in the table's list.
    pub(super) position: Option<u32>,
}

impl Walk<'_> {
    /// Applies a table. Returns `None` if its action ends the control.
    pub(super) fn apply(
        &mut self,
        id: TableId,
        outcome: &MatchOutcome,
    ) -> Result<Option<AppliedTable>, End> {
        let table = self.program.tables.get(id).ok_or_else(malformed)?;
        let site = self.sites.get(id).ok_or_else(malformed)?;
        let state: &State = self.state;
        let tables = state.table(id).ok_or_else(malformed)?;
        let (mut fields, mut selectors) = (Vec::new(), Vec::new());
        for key in &table.keys {
            let value = self.eval(&key.expr)?;
            match key.match_kind {
                MatchKind::Selector => selectors.push(value),
                _ => fields.push(value),
            }
        }
        let found = self.find(id, tables, &fields)?;
        if found.is_none() && tables.learned.is_some() {
            return Err(NotOffloadable::LearnedEntry(table.name.clone()).into());
        }
        // The walk's own order of entries is checked against the table's.
        let mut at = site.key as usize;
        for field in &fields {
            let value = self.know.concrete(field);
            self.limbs[at..at + value.limbs().len()].copy_from_slice(value.limbs());
            at += value.limbs().len();
        }
        if site.find(&self.limbs, state) != found {
            return Err(NotOffloadable::Disagreement.into());
        }
        let found = found.map_or(Found::Miss, Found::Entry);
        if let Some(EntryActionRef::Group(_)) = tables.action(&found) {
            let profile = tables.profile.as_ref();
            if profile.is_some_and(|profile| profile.algorithm == HashAlgorithm::Random) {
                return Err(NotOffloadable::Random.into());
            }
            for (word, (slot, _)) in selectors.iter().zip(&site.selectors) {
                let value = self.know.fix_all(word)?;
                let slot = *slot as usize;
                self.limbs[slot..slot + value.limbs().len()].copy_from_slice(value.limbs());
            }
        }
        let applied = site.settle(found, &self.limbs, self.context, state);
        let entry = tables.entry_id(&found);
        self.job.current = Some((id, entry));
        self.met.lookups.push(MetLookup {
            table: id,
            entry,
            group: applied.group,
            member: applied.member,
            bytes: self.job.length,
        });
        if site.counts_hits && entry.is_some() {
            self.met.counters.push(MetCounter {
                cell: CounterCell::Direct(id, entry),
                bytes: self.job.length,
            });
        }
        let params = applied.params.limbs(&[]);
        let action = applied
            .position
            .and_then(|at| site.actions.get(at as usize));
        if let Some(action) = action {
            let declared = self.program.actions.get(*action).ok_or_else(malformed)?;
            let mut words = Vec::new();
            let mut rest = params;
            for param in &declared.params {
                let (own, others) = rest.split_at(rest.len().min(ir::limbs_of(param.ty) as usize));
                words.push(param_word(own, param.ty));
                rest = others;
            }
            if self.action(*action, words)? {
                return Ok(None);
            }
        }
        let mut store = |field: Option<FieldId>, value: u64| {
            if let Some(word) = field.and_then(|f| self.job.fields.get_mut(f.index())) {
                let width = word.len() as u32;
                *word = Knowledge::word(&Value::truncated(value.into(), width));
            }
        };
        store(outcome.hit, applied.hit.into());
        store(
            outcome.action_run,
            applied.position.unwrap_or(u32::MAX).into(),
        );
        Ok(Some(AppliedTable {
            hit: applied.hit,
            position: applied.position,
        }))
    }

    fn find(
        &mut self,
        id: TableId,
        state: &TableState,
        fields: &[Word],
    ) -> Result<Option<EntryIdx>, End> {
        let index = self.indices.of(self.program, id, state);
        let index = index.ok_or_else(malformed)?;
        if !fields
            .iter()
            .map(Vec::len)
            .eq(index.widths.iter().map(|w| *w as usize))
        {
            return Err(malformed());
        }
        let mut key = KeyBits::of(&self.know, fields);
        let mut found = None;
        for (idx, condition) in &index.entries {
            if key.decide(&mut self.know, condition)? {
                found = Some(*idx);
                break;
            }
        }
        self.keys.push(MetKey {
            table: id,
            value: key.value,
            known: key.known,
        });
        Ok(found)
    }

    /// Decides whether a key is in a value set.
    pub(super) fn is_in_value_set(&mut self, id: ValueSetId, keys: &[Word]) -> Result<bool, End> {
        let state: &State = self.state;
        let Some(set) = state.value_sets.get(id.get() as usize) else {
            return Ok(false);
        };
        if !self.met.value_sets.contains(&id) {
            self.met.value_sets.push(id);
        }
        let widths: Vec<u32> = set.shape().fields().iter().map(|f| f.width).collect();
        let mut key = KeyBits::of(&self.know, keys);
        for member in set.members() {
            if key.decide(&mut self.know, &Condition::of(member, &widths))? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns a parameter's value from its limbs. A varbit is preceded by its width.
fn param_word(limbs: &[u64], ty: ir::ScalarTy) -> Word {
    match ty {
        ir::ScalarTy::Varbit(most) => {
            let width = limbs.first().map_or(0, |width| *width as u32).min(most);
            let limbs = limbs.get(1..).unwrap_or_default();
            Knowledge::word(&Value::from_limbs(limbs, width))
        }
        ty => Knowledge::word(&Value::from_limbs(limbs, ty.width())),
    }
}
