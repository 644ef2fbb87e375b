//! Match stages of tables with known contents ([`exec::Facts`]): a table without entries is
//! straight code for its default action, few entries are compared in code, and parameters that all
//! entries share are constants.
//!
//! The code is right only for states for which the facts hold. Counts, the use of entries and work
//! are the same as in code for any contents.

use bits::{Value as Bits, limbs_for};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use exec::{CommonAction, KnownAction, KnownRule, TableFacts, Unsupported};
use ir::{ActionId, MatchKind, MatchNext, ScalarTy, TableId, limbs_of};
use table::{FieldMatch, RecordField};

use super::action::Param;
use super::expr::is_wide;
use super::lookup_schedule::Follows;
use super::table::MatchStage;
use super::{INLINE_LIMBS, Translator};

/// Maximum number of entries that are compared one by one if all keys are exact. The index of such
/// a table is faster than more comparisons: with four, `upf` lost 5 %.
const MAX_EXACT: usize = 1;

/// Result of a lookup that is known where the code runs.
struct Outcome<'f> {
    is_hit: bool,
    /// Record number.
    number: Value,
    position: usize,
    /// Limbs of each parameter that is known.
    params: Vec<Option<&'f [u64]>>,
}

impl<'t> Translator<'t> {
    /// Returns the facts about a table, on the fast path.
    fn facts_of(&self, table: TableId) -> Option<&'t TableFacts> {
        self.fused.as_ref()?;
        self.facts?.table(table)
    }

    /// Returns the entries of a table, if code compares its keys with each of them.
    pub(super) fn compared_rules(&self, table: TableId) -> Option<&'t [KnownRule]> {
        let rules = self.facts_of(table)?.rules.as_deref()?;
        if rules.is_empty() {
            return Some(rules);
        }
        let keys = &self.program.tables.get(table)?.keys;
        let is_exact = keys.iter().all(|key| key.match_kind == MatchKind::Exact);
        let limbs = self.code.tables[table].key_limbs;
        if is_exact && rules.len() > MAX_EXACT || !(1..=INLINE_LIMBS).contains(&limbs) {
            return None;
        }
        let can_compare = keys.iter().all(|key| {
            let compares = |ty: ScalarTy| match key.match_kind {
                MatchKind::Selector => false,
                MatchKind::Range => !ty.is_signed() && limbs_of(ty) == 1,
                _ => !is_wide(ty),
            };
            self.ty(&key.expr).is_ok_and(compares) && self.follows(&key.expr)
        });
        can_compare.then_some(rules)
    }

    /// Returns the record number of the first of these entries that the key matches, 0 for none.
    pub(super) fn compare_rules(
        &mut self,
        table: TableId,
        rules: &[KnownRule],
    ) -> Result<Value, Unsupported> {
        let mut found = self.number(0);
        if rules.is_empty() {
            return Ok(found);
        }
        let key = self.key_of(table)?;
        let widths = self.key_widths(table);
        for rule in rules.iter().rev() {
            let number = self.number(rule.record.into());
            found = match self.matches(&key, &widths, rule) {
                Some(truth) => self.b.ins().select(truth, number, found),
                None => number,
            };
        }
        Ok(found)
    }

    /// Returns a truth value for the match of a key, `None` if the entry matches all keys.
    fn matches(&mut self, key: &[Value], widths: &[u32], rule: &KnownRule) -> Option<Value> {
        let (mut all, mut first) = (None, 0);
        for (&width, matched) in widths.iter().zip(&rule.matches[..]) {
            let limbs = limbs_for(width);
            let here = key.get(first..first + limbs).unwrap_or_default();
            first += limbs;
            let here = self.matches_field(here, width, matched);
            all = match (all, here) {
                (Some(all), Some(here)) => Some(self.b.ins().band(all, here)),
                (all, here) => all.or(here),
            };
        }
        all
    }

    fn matches_field(&mut self, key: &[Value], width: u32, matched: &FieldMatch) -> Option<Value> {
        let all = Bits::all_ones(width);
        match matched {
            FieldMatch::Exact(value) | FieldMatch::Optional(Some(value)) => {
                self.equals(key, value, &all)
            }
            FieldMatch::Lpm { value, prefix_len } => {
                self.equals(key, value, &Bits::prefix_mask(*prefix_len, width))
            }
            FieldMatch::Ternary { value, mask } => self.equals(key, value, mask),
            FieldMatch::Range { lo, hi } => {
                let [lo, hi] = [lo, hi].map(first_limb);
                if lo == 0 && hi == first_limb(&all) {
                    return None;
                }
                let above = self
                    .b
                    .ins()
                    .iadd_imm(*key.first()?, lo.wrapping_neg() as i64);
                let most = hi.wrapping_sub(lo) as i64;
                let code = IntCC::UnsignedLessThanOrEqual;
                Some(self.b.ins().icmp_imm(code, above, most))
            }
            FieldMatch::Optional(None) => None,
        }
    }

    /// Compares the bits of a mask. Returns `None` if it has none.
    fn equals(&mut self, key: &[Value], value: &Bits, mask: &Bits) -> Option<Value> {
        let mut truth = None;
        let width = mask.width();
        let limbs = key.iter().zip(value.limbs()).zip(mask.limbs()).enumerate();
        for (at, ((&limb, &value), &mask)) in limbs {
            if mask == 0 {
                continue;
            }
            let bits = (width - 64 * at as u32).min(64);
            let compared = match mask == bits::one::mask(bits) {
                true => limb,
                false => self.b.ins().band_imm(limb, mask as i64),
            };
            let same = self.b.ins().icmp_imm(IntCC::Equal, compared, value as i64);
            truth = match truth {
                Some(truth) => Some(self.b.ins().band(truth, same)),
                None => Some(same),
            };
        }
        truth
    }

    /// Translates a stage for the known contents of its table. Returns false if they are of no use
    /// beyond the lookup.
    pub(super) fn known_stage(&mut self, stage: &MatchStage<'_, '_>) -> Result<bool, Unsupported> {
        let table = stage.table;
        let Some(facts) = self.facts_of(table) else {
            return Ok(false);
        };
        if facts.is_empty() {
            // Prefetch passes know the result by it.
            self.scouted(stage.id, table);
            let number = self.number(0);
            self.run_known(stage, Outcome::missed(&facts.default, number))?;
            return Ok(true);
        }
        let Some(common) = &facts.common else {
            return Ok(false);
        };
        let action = self.code.tables[table].actions[common.position];
        let is_duplicated =
            facts.default.position == common.position && !self.costs.is_short(action);
        // The general code knows the action of all hits too.
        let is_declared = self.hits_run(table).is_some();
        let is_known = is_declared && common.params.iter().all(Option::is_none);
        if is_known || is_duplicated || self.are_alike(table, stage.outcome, stage.next) {
            return Ok(false);
        }
        let (test, number) = match self.compared_rules(table) {
            Some([rule]) => {
                self.scouted(stage.id, table);
                let number = self.number(rule.record.into());
                let key = self.key_of(table)?;
                let widths = self.key_widths(table);
                let truth = self.matches(&key, &widths, rule);
                (truth.unwrap_or(number), number)
            }
            _ => {
                let number = self.record_number(stage.id, table)?;
                (number, number)
            }
        };
        let (hit, missed) = (self.b.create_block(), self.b.create_block());
        self.branch(test, hit, missed);
        self.start_sealed(hit);
        self.run_known(stage, Outcome::hit(common, number))?;
        self.start_sealed(missed);
        let zero = self.number(0);
        self.run_known(stage, Outcome::missed(&facts.default, zero))?;
        Ok(true)
    }

    /// Counts a packet with a known result, runs its action, and follows the link.
    fn run_known(
        &mut self,
        stage: &MatchStage<'_, '_>,
        outcome: Outcome<'_>,
    ) -> Result<(), Unsupported> {
        let Outcome {
            is_hit,
            number,
            position,
            params,
        } = outcome;
        let table = stage.table;
        match is_hit {
            true => self.count_hit(table),
            false => self.count_miss(table),
        }
        self.applying = Some(self.note_packet(table, number));
        let action = self.code.tables[table].actions[position];
        let fields = self.fields_in_record(table, position);
        let are_constant = self.are_constant(action, &params);
        let record = match (are_constant.contains(&false), is_hit) {
            (false, _) => number,
            (true, true) => self.record_of(table, number),
            (true, false) => self.default_record(table),
        };
        let params = self.known_params(record, &fields, &params, &are_constant);
        self.run_action(action, params)?;
        self.free_temporaries();
        // The action may have ended the control.
        let way = self.b.create_block();
        self.jump(way);
        self.start_sealed(way);
        let told = [
            (stage.outcome.hit, u64::from(is_hit)),
            (stage.outcome.action_run, position as u64),
        ];
        for (field, value) in told {
            if let Some(field) = field {
                let (slot, value) = (self.slot(field), self.number(value));
                self.store_slots(slot, &[value]);
            }
        }
        let next = match stage.next {
            MatchNext::ByAction(nexts) => nexts[position],
            MatchNext::Always(next) => *next,
            MatchNext::ByHit { hit, miss } => match is_hit {
                true => *hit,
                false => *miss,
            },
        };
        self.follow(stage.id, next, stage.line);
        self.applying = None;
        Ok(())
    }

    /// Returns for each parameter of an action if code uses it as a constant.
    fn are_constant(&self, action: ActionId, params: &[Option<&[u64]>]) -> Vec<bool> {
        let declared = self.program.actions.get(action);
        let declared = declared.map_or(&[][..], |action| &action.params);
        let is_constant = |(param, known): (&ir::ActionParam, &Option<&[u64]>)| {
            let is_narrow = !is_wide(param.ty) && !matches!(param.ty, ScalarTy::Varbit(_));
            is_narrow && known.is_some()
        };
        declared.iter().zip(params).map(is_constant).collect()
    }

    /// Returns the locations of an action's parameters: constants, or fields of a record.
    fn known_params(
        &mut self,
        record: Value,
        fields: &[RecordField],
        params: &[Option<&[u64]>],
        are_constant: &[bool],
    ) -> Vec<Param> {
        let pointer = self.entry_pointer_to(record);
        let params = params.iter().zip(are_constant).zip(fields);
        let mut homes = Vec::with_capacity(fields.len());
        for ((known, &is_constant), &field) in params {
            homes.push(match known.filter(|_| is_constant) {
                Some(limbs) => {
                    let mut variables = Vec::with_capacity(limbs.len());
                    for &limb in limbs {
                        let limb = self.number(limb);
                        variables.push(self.variable(limb));
                    }
                    Param::Variables(variables)
                }
                None => Param::Entry(pointer, field),
            });
        }
        homes
    }
}

impl<'f> Outcome<'f> {
    fn hit(common: &'f CommonAction, number: Value) -> Outcome<'f> {
        Outcome {
            is_hit: true,
            number,
            position: common.position,
            params: common.params.iter().map(Option::as_deref).collect(),
        }
    }

    fn missed(default: &'f KnownAction, number: Value) -> Outcome<'f> {
        Outcome {
            is_hit: false,
            number,
            position: default.position,
            params: default.params.iter().map(|limbs| Some(&**limbs)).collect(),
        }
    }
}

fn first_limb(value: &Bits) -> u64 {
    value.limbs().first().copied().unwrap_or(0)
}
