//! Conversion of keys, actions and cells of one program to those of another, with the reasons why
//! something cannot be converted.
//!
//! A conversion preserves the meaning. A converted entry matches the same packets as before, and
//! passes the same values to the same action.

use bits::Value;
use exec::field_match;
use ir::{Action, ActionScope, KeyMatch, Program, ScalarTy, limbs_of};
use table::{
    ActionRef, Entry, FieldMatch, KeyField, KeyShape, MatchKind, PriorityOrder, TableSpec,
};

/// Table with its declaration in a program.
#[derive(Clone, Copy)]
pub(crate) struct Declared<'p> {
    pub(crate) program: &'p Program,
    pub(crate) table: &'p ir::Table,
    pub(crate) spec: &'p TableSpec,
}

/// Matched key of a table.
struct Key<'p> {
    name: &'p str,
    field: KeyField,
    is_signed: bool,
}

impl<'p> Declared<'p> {
    fn keys(self) -> Vec<Key<'p>> {
        let matched = self.table.keys.iter();
        let matched = matched.filter(|key| key.match_kind != ir::MatchKind::Selector);
        let fields = self.spec.shape.fields().iter();
        let key = |(key, field): (&'p ir::Key, &KeyField)| Key {
            name: &key.name,
            field: *field,
            is_signed: key
                .expr
                .ty(self.program, None)
                .is_some_and(ScalarTy::is_signed),
        };
        matched.zip(fields).map(key).collect()
    }

    fn selector_keys(self) -> Vec<&'p str> {
        let selected = self.table.keys.iter();
        let selected = selected.filter(|key| key.match_kind == ir::MatchKind::Selector);
        selected.map(|key| key.name.as_str()).collect()
    }

    /// Returns the action with this control-plane name, if its scope in the table is not
    /// `forbidden`.
    fn action(self, name: &str, forbidden: ActionScope) -> Option<(u32, &'p Action)> {
        self.table.actions.iter().find_map(|listed| {
            let action = self.program.actions.get(listed.action)?;
            let is_it = action.control_plane_name == name && listed.scope != forbidden;
            is_it.then_some((listed.action.get(), action))
        })
    }
}

/// Report of a conversion.
#[derive(Debug, Default)]
pub(crate) struct ConversionNotes {
    pub(crate) reasons: Vec<String>,
    /// True if some state may have no converted form.
    pub(crate) may_lose: bool,
}

impl ConversionNotes {
    pub(crate) fn tell(&mut self, reason: String) {
        self.reasons.push(reason);
    }

    pub(crate) fn risk(&mut self, reason: String) {
        self.may_lose = true;
        self.reasons.push(reason);
    }
}

/// Source of one field of the new key.
enum FieldFit {
    /// Converted from the old field at this index.
    From(usize, Resized),
    /// A wildcard match.
    Any(FieldMatch),
}

/// Conversion of a field to another width or match kind.
#[derive(Clone, Copy)]
struct Resized {
    from: KeyField,
    to: KeyField,
}

/// Priority of entries with the new key.
enum RankFit {
    Same,
    /// Derived from the prefix length, so that the same entries win as before.
    FromPrefix(PriorityOrder),
}

/// Conversion of entries from one key to another.
pub(crate) struct KeyConversion {
    fields: Vec<FieldFit>,
    /// Old fields that the new key does not have.
    dropped: Vec<(usize, KeyField)>,
    rank: RankFit,
    pub(crate) notes: ConversionNotes,
}

impl KeyConversion {
    /// # Errors
    /// The reason why no entry can be kept.
    pub(crate) fn of(old: Declared<'_>, new: Declared<'_>) -> Result<KeyConversion, String> {
        let mut notes = ConversionNotes::default();
        let (before, after) = (old.keys(), new.keys());
        let mut fields = Vec::new();
        for key in &after {
            let at = before.iter().position(|other| other.name == key.name);
            fields.push(match at {
                None => added(key, &mut notes)?,
                Some(at) => {
                    let resized = Resized::of(&before[at], key, &mut notes)?;
                    FieldFit::From(at, resized)
                }
            });
        }
        let mut dropped = Vec::new();
        for (at, key) in before.iter().enumerate() {
            if after.iter().any(|other| other.name == key.name) {
                continue;
            }
            if key.field.kind == MatchKind::Exact {
                return Err(format!("the key `{}` is gone, and it was exact", key.name));
            }
            notes.risk(format!(
                "the key `{}` is gone: entries stay that match any value of it",
                key.name
            ));
            dropped.push((at, key.field));
        }
        let order = fields.iter().filter_map(|field| match field {
            FieldFit::From(at, _) => Some(*at),
            FieldFit::Any(_) => None,
        });
        if !order.is_sorted() {
            notes.tell("its keys come in another order".to_owned());
        }
        if old.selector_keys() != new.selector_keys() {
            notes.tell("its selector hashes other fields".to_owned());
        }
        let rank = rank(old.spec, new.spec, &mut notes)?;
        Ok(KeyConversion {
            fields,
            dropped,
            rank,
            notes,
        })
    }

    /// Returns the match and the priority of an entry in the new table. `None` if they cannot be
    /// expressed there.
    pub(crate) fn convert(&self, entry: &Entry) -> Option<(Vec<FieldMatch>, Option<i32>)> {
        let matches_any = |(at, field): &(usize, KeyField)| {
            FieldMatch::any(field) == entry.matches.get(*at).cloned()
        };
        if !self.dropped.iter().all(matches_any) {
            return None;
        }
        let field = |fit: &FieldFit| match fit {
            FieldFit::Any(any) => Some(any.clone()),
            FieldFit::From(at, resized) => resized.convert(entry.matches.get(*at)?),
        };
        let matches = self.fields.iter().map(field).collect::<Option<Vec<_>>>()?;
        let priority = match self.rank {
            RankFit::Same => entry.priority,
            RankFit::FromPrefix(order) => {
                let length = KeyShape::prefix_len(&entry.matches) as i32;
                Some(match order {
                    PriorityOrder::LargestWins => 1 + length,
                    PriorityOrder::SmallestWins => i32::MAX - length,
                })
            }
        };
        Some((matches, priority))
    }
}

fn added(key: &Key<'_>, notes: &mut ConversionNotes) -> Result<FieldFit, String> {
    match FieldMatch::any(&key.field) {
        Some(any) => {
            notes.tell(format!(
                "the key `{}` is new: entries match any value of it",
                key.name
            ));
            Ok(FieldFit::Any(any))
        }
        None => Err(format!("the key `{}` is new, and it is exact", key.name)),
    }
}

fn rank(old: &TableSpec, new: &TableSpec, notes: &mut ConversionNotes) -> Result<RankFit, String> {
    match (old.shape.needs_priority(), new.shape.needs_priority()) {
        (true, true) if old.order != new.order => Err("the opposite priority wins".to_owned()),
        (false, false) | (true, true) => Ok(RankFit::Same),
        (true, false) => Err("its entries have priorities, and the new ones have none".to_owned()),
        (false, true) => {
            notes.tell("its entries get priorities: the longer prefix goes first".to_owned());
            Ok(RankFit::FromPrefix(new.order))
        }
    }
}

impl Resized {
    fn of(old: &Key<'_>, new: &Key<'_>, notes: &mut ConversionNotes) -> Result<Resized, String> {
        let (from, to, name) = (old.field, new.field, new.name);
        if from.width != to.width {
            if old.is_signed || new.is_signed {
                return Err(format!("the signed key `{name}` has another width"));
            }
            let widths = format!(
                "the key `{name}` has {} bits instead of {}",
                to.width, from.width
            );
            match to.width < from.width {
                true => notes.risk(widths),
                false => notes.tell(widths),
            }
        }
        if from.kind != to.kind {
            use MatchKind::{Exact, Lpm, Optional, Range, Ternary};
            let kinds = format!("the key `{name}` is {} instead of {}", to.kind, from.kind);
            match (from.kind, to.kind) {
                (Exact, _) | (Lpm, Ternary) | (Optional, Lpm | Ternary | Range) => {
                    notes.tell(kinds);
                }
                (Range, MatchKind::SignedRange) | (MatchKind::SignedRange, Range) => {
                    return Err(format!("the key `{name}` has another sign"));
                }
                _ => notes.risk(kinds),
            }
        }
        Ok(Resized { from, to })
    }

    fn convert(&self, matched: &FieldMatch) -> Option<FieldMatch> {
        if self.from == self.to {
            return Some(matched.clone());
        }
        if FieldMatch::any(&self.from).as_ref() == Some(matched) {
            return field_match(&self.to, &KeyMatch::Any);
        }
        field_match(&self.to, &self.resize(matched)?)
    }

    /// Converts a match to the new width. It matches the same numbers: in a wider field the leading
    /// bits are 0.
    fn resize(&self, matched: &FieldMatch) -> Option<KeyMatch> {
        let (from, to) = (self.from.width, self.to.width);
        Some(match matched {
            FieldMatch::Optional(None) => KeyMatch::Any,
            FieldMatch::Exact(value) | FieldMatch::Optional(Some(value)) => {
                KeyMatch::Exact(resized(value, to)?)
            }
            FieldMatch::Lpm { value, prefix_len } => {
                let len = (prefix_len + to).saturating_sub(from);
                KeyMatch::Lpm(resized(value, to)?, len)
            }
            FieldMatch::Ternary { value, mask } => {
                let front = match to > from {
                    true => Value::prefix_mask(to - from, to),
                    false => Value::zero(to),
                };
                let mask = mask.resized(to).not().and(&front.not()).not();
                KeyMatch::Ternary(resized(value, to)?, mask)
            }
            FieldMatch::Range { lo, hi } => {
                let hi = resized(hi, to).unwrap_or(Value::all_ones(to));
                KeyMatch::Range(resized(lo, to)?, hi)
            }
        })
    }
}

/// Returns the same number with another width, if it fits.
fn resized(value: &Value, width: u32) -> Option<Value> {
    let resized = value.resized(width);
    (resized.resized(value.width()) == *value).then_some(resized)
}

/// Returns the same signed number with another width, if it fits.
fn resized_signed(value: &Value, width: u32) -> Option<Value> {
    let is_negative = |value: &Value| {
        let sign = Value::prefix_mask(1.min(value.width()), value.width());
        !value.and(&sign).is_zero()
    };
    let extend = |value: &Value, width: u32| match is_negative(value) {
        // Sign extension.
        true => value.not().resized(width).not(),
        false => value.resized(width),
    };
    let resized = extend(value, width);
    (extend(&resized, value.width()) == *value).then_some(resized)
}

/// Conversion of a value set's members.
pub(crate) struct MemberConversion(Vec<Resized>);

impl MemberConversion {
    /// # Errors
    /// The reason why no member can be kept.
    pub(crate) fn of(
        old: (&ir::ValueSet, &KeyShape),
        new: (&ir::ValueSet, &KeyShape),
        notes: &mut ConversionNotes,
    ) -> Result<MemberConversion, String> {
        let (before, after) = (members_of(old), members_of(new));
        if before.len() != after.len() {
            let counts = (after.len(), before.len());
            return Err(format!(
                "its members have {} instead of {}",
                support::count::count(counts.0 as u64, "field"),
                counts.1
            ));
        }
        let fields = before.iter().zip(&after);
        let fields = fields.map(|(old, new)| Resized::of(old, new, notes));
        Ok(MemberConversion(fields.collect::<Result<_, _>>()?))
    }

    pub(crate) fn convert(&self, member: &[FieldMatch]) -> Option<Vec<FieldMatch>> {
        let fields = self.0.iter().zip(member);
        fields.map(|(fit, matched)| fit.convert(matched)).collect()
    }
}

fn members_of<'p>((set, shape): (&'p ir::ValueSet, &KeyShape)) -> Vec<Key<'p>> {
    let fields = set.fields.iter().zip(shape.fields());
    let key = |(declared, field): (&'p ir::ValueSetField, &KeyField)| Key {
        name: match declared.name.as_str() {
            "" => &set.name,
            name => name,
        },
        field: *field,
        is_signed: declared.ty.is_signed(),
    };
    fields.map(key).collect()
}

/// Conversion of calls of one action to another.
pub(crate) struct ActionConversion {
    /// Id of the new action.
    pub(crate) number: u32,
    /// Sources of the parameters; `None` if their limbs are the same.
    params: Option<Vec<ParamFit>>,
}

struct ParamFit {
    /// First limb of the old parameter.
    at: usize,
    from: ScalarTy,
    to: ScalarTy,
}

impl ActionConversion {
    /// Finds the action with the same control-plane name in the new table.
    ///
    /// # Errors
    /// The reason why no call of it can be kept.
    pub(crate) fn of(
        old: &Action,
        new: Declared<'_>,
        forbidden: ActionScope,
        notes: &mut ConversionNotes,
    ) -> Result<ActionConversion, String> {
        let name = &old.control_plane_name;
        let found = new.action(name, forbidden);
        let (number, new) = found.ok_or_else(|| format!("the action `{name}` is gone"))?;
        let gone = |param: &&ir::ActionParam| !new.params.iter().any(|new| new.name == param.name);
        if let Some(gone) = old.params.iter().find(gone) {
            let param = &gone.name;
            return Err(format!(
                "the parameter `{param}` of the action `{name}` is gone"
            ));
        }
        let params = new
            .params
            .iter()
            .map(|param| ParamFit::of(old, param, notes));
        let params = params.collect::<Result<Vec<_>, _>>()?;
        let mut at = 0;
        let is_same = params.iter().all(|param| {
            let is_here = param.at == at;
            at += limbs_of(param.to) as usize;
            is_here && is_same_size(param.from, param.to)
        });
        if !is_same
            && params
                .iter()
                .all(|param| is_same_size(param.from, param.to))
        {
            notes.tell(format!(
                "the parameters of the action `{name}` come in another order"
            ));
        }
        Ok(ActionConversion {
            number,
            params: (!is_same).then_some(params),
        })
    }

    /// Returns true if the parameters are unchanged.
    pub(crate) fn keeps_params(&self) -> bool {
        self.params.is_none()
    }

    /// Converts a call. Returns `None` if a value does not fit.
    pub(crate) fn convert(&self, call: &ActionRef) -> Option<ActionRef> {
        let params = match &self.params {
            None => call.params.clone(),
            Some(params) => {
                let mut limbs = Vec::new();
                for param in params {
                    param.put(call.params.get(param.at..)?, &mut limbs)?;
                }
                limbs.into()
            }
        };
        Some(ActionRef {
            action: self.number,
            params,
        })
    }
}

fn is_same_size(a: ScalarTy, b: ScalarTy) -> bool {
    (a.width(), limbs_of(a)) == (b.width(), limbs_of(b))
}

impl ParamFit {
    fn of(
        old: &Action,
        new: &ir::ActionParam,
        notes: &mut ConversionNotes,
    ) -> Result<ParamFit, String> {
        let (action, name) = (&old.control_plane_name, &new.name);
        let mut at = 0;
        for param in &old.params {
            if param.name == *name {
                let what = || format!("the parameter `{name}` of the action `{action}`");
                check_ty(param.ty, new.ty, what, notes)?;
                return Ok(ParamFit {
                    at,
                    from: param.ty,
                    to: new.ty,
                });
            }
            at += limbs_of(param.ty) as usize;
        }
        Err(format!(
            "the parameter `{name}` of the action `{action}` is new"
        ))
    }

    fn put(&self, limbs: &[u64], out: &mut Vec<u64>) -> Option<()> {
        let own = limbs.get(..limbs_of(self.from) as usize)?;
        if is_same_size(self.from, self.to) {
            out.extend_from_slice(own);
            return Some(());
        }
        let value = convert_value(&Value::from_limbs(own, self.from.width()), self.to)?;
        out.extend_from_slice(value.limbs());
        Some(())
    }
}

/// Checks the conversion of a type, and reports its consequences.
///
/// # Errors
/// Values have no meaning in the new type.
fn check_ty(
    from: ScalarTy,
    to: ScalarTy,
    what: impl Fn() -> String,
    notes: &mut ConversionNotes,
) -> Result<(), String> {
    let (old, new) = (from.width(), to.width());
    match (from, to) {
        _ if is_same_size(from, to) => {}
        (ScalarTy::Bit(_), ScalarTy::Bit(_)) | (ScalarTy::Int(_), ScalarTy::Int(_)) => {
            let widths = format!("{} has {new} bits instead of {old}", what());
            match new < old {
                true => notes.risk(widths),
                false => notes.tell(widths),
            }
        }
        _ => return Err(format!("{} has another type", what())),
    }
    Ok(())
}

/// Converts a number to a type that [`check_ty`] accepted, if it fits.
fn convert_value(value: &Value, to: ScalarTy) -> Option<Value> {
    match to {
        ScalarTy::Int(width) => resized_signed(value, width),
        to => resized(value, to.width()),
    }
}

/// Conversion of a register's cells.
pub(crate) struct CellConversion(Vec<ScalarTy>);

impl CellConversion {
    /// # Errors
    /// The reason why no cell can be kept.
    pub(crate) fn of(
        old: &[ScalarTy],
        new: &[ScalarTy],
        notes: &mut ConversionNotes,
    ) -> Result<CellConversion, String> {
        if old.len() != new.len() {
            return Err("its cells have another type".to_owned());
        }
        for (from, to) in old.iter().zip(new) {
            check_ty(*from, *to, || "a cell".to_owned(), notes)?;
        }
        Ok(CellConversion(new.to_vec()))
    }

    pub(crate) fn convert(&self, cell: &[Value]) -> Option<Vec<Value>> {
        let fields = cell.iter().zip(&self.0);
        fields
            .map(|(value, to)| convert_value(value, *to))
            .collect()
    }
}
