//! Conversion from IR types to those of the crate `table`: keys, matches, parameters.

use bits::{Value, limbs_for};
use ir::{
    Action, ActionScope, CounterUnit, ExternKind, KeyMatch, MatchKind, Program, ScalarTy, Table,
};
use std::sync::Arc;
use support::work::checkpoint;
use table::{
    CounterKind, FieldMatch, KeyField, KeyShape, MeterUnit, PriorityOrder, RecordLayout, RunBy,
    TableSpec,
};

/// Returns the match kind of `table` for a field of this type; `None` for a selector key, which is
/// not matched.
fn match_kind(kind: MatchKind, ty: ScalarTy) -> Option<table::MatchKind> {
    Some(match kind {
        MatchKind::Exact => table::MatchKind::Exact,
        MatchKind::Lpm => table::MatchKind::Lpm,
        MatchKind::Ternary => table::MatchKind::Ternary,
        MatchKind::Range if ty.is_signed() => table::MatchKind::SignedRange,
        MatchKind::Range => table::MatchKind::Range,
        MatchKind::Optional => table::MatchKind::Optional,
        MatchKind::Selector => return None,
    })
}

/// Returns the key shape of fields with these types and match kinds. Selector keys are left out.
pub fn key_shape(fields: impl IntoIterator<Item = (ScalarTy, MatchKind)>) -> KeyShape {
    KeyShape::new(fields.into_iter().filter_map(|(ty, kind)| {
        let (width, kind) = (ty.width(), match_kind(kind, ty)?);
        Some(KeyField { width, kind })
    }))
}

/// Returns the specification from which a table is created.
pub fn table_spec(program: &Program, table: &Table) -> TableSpec {
    let fields = table.keys.iter().map(|key| {
        let ty = key.expr.ty(program, None).unwrap_or(ScalarTy::Bit(0));
        (ty, key.match_kind)
    });
    let kind_of = |id: Option<ir::ExternId>| Some(&program.externs.get(id?)?.kind);
    TableSpec {
        shape: key_shape(fields),
        order: if table.largest_priority_wins {
            PriorityOrder::LargestWins
        } else {
            PriorityOrder::SmallestWins
        },
        capacity: (table.size as usize).max(table.entries.len()).max(1),
        records: Arc::new(record_layout(program, table)),
        notes_usage: table.idle_timeout,
        direct_counter: match kind_of(table.direct_counter) {
            Some(ExternKind::DirectCounter { unit }) => Some(counter_kind(*unit)),
            _ => None,
        },
        direct_meter: match kind_of(table.direct_meter) {
            Some(ExternKind::DirectMeter { unit }) => Some(meter_unit(*unit)),
            _ => None,
        },
    }
}

/// Returns the layout of the records of a table's entries, for both writers and readers.
pub(crate) fn record_layout(program: &Program, table: &Table) -> RecordLayout {
    // A varbit is preceded by its size, and all its limbs are stored.
    let width = |param: &ir::ActionParam| match param.ty {
        ScalarTy::Varbit(_) => 64 * ir::limbs_of(param.ty),
        ty => ty.width(),
    };
    RecordLayout::new(table.actions.iter().map(|listed| {
        checkpoint();
        let action = program.actions.get(listed.action);
        let params = action.map_or(&[][..], |action| &action.params);
        // Entries of a table with an action profile store a reference to a member or group, not an
        // action.
        let run_by = match listed.scope {
            _ if table.implementation.is_some() => RunBy::DefaultOnly,
            ActionScope::DefaultOnly => RunBy::DefaultOnly,
            ActionScope::TableAndDefault | ActionScope::TableOnly => RunBy::Entries,
        };
        (listed.action.get(), run_by, params.iter().map(width))
    }))
}

/// Returns the unit of a counter.
pub(crate) fn counter_kind(unit: CounterUnit) -> CounterKind {
    match unit {
        CounterUnit::Packets => CounterKind::Packets,
        CounterUnit::Bytes => CounterKind::Bytes,
        CounterUnit::Both => CounterKind::PacketsAndBytes,
    }
}

/// Returns the unit of a meter.
pub(crate) fn meter_unit(unit: CounterUnit) -> MeterUnit {
    match unit {
        CounterUnit::Packets => MeterUnit::Packets,
        CounterUnit::Bytes | CounterUnit::Both => MeterUnit::Bytes,
    }
}

/// Converts an entry's match of one field to the field's match kind, with ignored bits cleared.
/// Returns `None` if that kind cannot express it, or if a value does not have the field's width.
/// Full masks and full prefixes become exact values. Ternary fields accept all kinds except ranges.
pub fn field_match(field: &KeyField, wanted: &KeyMatch) -> Option<FieldMatch> {
    use table::MatchKind::{Exact, Lpm, Optional, Range, SignedRange, Ternary};
    let width = field.width;
    let fits = |value: &Value| value.width() == width;
    let matched = match (field.kind, wanted) {
        (_, KeyMatch::Any) => FieldMatch::any(field)?,
        (Exact, KeyMatch::Exact(value)) => FieldMatch::Exact(value.clone()),
        (Lpm, KeyMatch::Exact(value)) => lpm(value, width),
        (Ternary, KeyMatch::Exact(value)) => ternary(value, &Value::all_ones(width)),
        (Range | SignedRange, KeyMatch::Exact(value)) => range(value, value),
        (Optional, KeyMatch::Exact(value)) => FieldMatch::Optional(Some(value.clone())),
        (Lpm, KeyMatch::Lpm(value, len)) if *len <= width => lpm(value, *len),
        (Ternary, KeyMatch::Lpm(value, len)) => ternary(value, &Value::prefix_mask(*len, width)),
        (Ternary, KeyMatch::Ternary(value, mask)) if fits(mask) => ternary(value, mask),
        (Lpm, KeyMatch::Ternary(value, mask)) => lpm(value, mask.prefix_len()?),
        (Range | SignedRange, KeyMatch::Range(lo, hi)) if fits(hi) => range(lo, hi),
        (_, KeyMatch::Lpm(value, len)) if *len == width => {
            return field_match(field, &KeyMatch::Exact(value.clone()));
        }
        (_, KeyMatch::Lpm(_, 0)) => FieldMatch::any(field)?,
        (_, KeyMatch::Ternary(value, mask)) if *mask == Value::all_ones(width) => {
            return field_match(field, &KeyMatch::Exact(value.clone()));
        }
        (_, KeyMatch::Ternary(_, mask)) if mask.is_zero() => FieldMatch::any(field)?,
        (_, KeyMatch::Range(lo, hi)) if lo == hi => {
            return field_match(field, &KeyMatch::Exact(lo.clone()));
        }
        _ => return None,
    };
    let fits_all = match &matched {
        FieldMatch::Exact(value) | FieldMatch::Optional(Some(value)) => fits(value),
        FieldMatch::Lpm { value, .. } | FieldMatch::Ternary { value, .. } => fits(value),
        FieldMatch::Range { lo, .. } => fits(lo),
        FieldMatch::Optional(None) => true,
    };
    fits_all.then(|| matched.canonical())
}

fn lpm(value: &Value, prefix_len: u32) -> FieldMatch {
    FieldMatch::Lpm {
        value: value.clone(),
        prefix_len,
    }
}

fn ternary(value: &Value, mask: &Value) -> FieldMatch {
    FieldMatch::Ternary {
        value: value.clone(),
        mask: mask.clone(),
    }
}

fn range(lo: &Value, hi: &Value) -> FieldMatch {
    FieldMatch::Range {
        lo: lo.clone(),
        hi: hi.clone(),
    }
}

/// Returns the values of an action's parameters as limbs; each starts on a new limb. `None` unless
/// there is exactly one value of the right width for each parameter.
pub fn action_params(action: &Action, args: &[Value]) -> Option<Box<[u64]>> {
    if action.params.len() != args.len() {
        return None;
    }
    let mut limbs = Vec::new();
    for (param, arg) in action.params.iter().zip(args) {
        if arg.width() != param.ty.width() {
            return None;
        }
        limbs.extend_from_slice(arg.limbs());
        let padding = ir::limbs_of(param.ty) as usize - limbs_for(arg.width());
        limbs.extend(std::iter::repeat_n(0, padding));
    }
    Some(limbs.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: table::MatchKind, wanted: KeyMatch, expected: Option<FieldMatch>) {
        assert_eq!(field_match(&KeyField { width: 8, kind }, &wanted), expected);
    }

    #[test]
    fn entries_say_what_they_want_in_the_field_s_own_kind() {
        let v = |number: u128| Value::truncated(number, 8);
        let exact = || KeyMatch::Exact(v(0x12));
        check(
            table::MatchKind::Exact,
            exact(),
            Some(FieldMatch::Exact(v(0x12))),
        );
        check(table::MatchKind::Lpm, exact(), Some(lpm(&v(0x12), 8)));
        check(
            table::MatchKind::Lpm,
            KeyMatch::Lpm(v(0x12), 4),
            Some(lpm(&v(0x10), 4)),
        );
        check(
            table::MatchKind::Lpm,
            KeyMatch::Ternary(v(0x12), v(0xf0)),
            Some(lpm(&v(0x10), 4)),
        );
        check(
            table::MatchKind::Lpm,
            KeyMatch::Ternary(v(0x12), v(0x0f)),
            None,
        );
        check(
            table::MatchKind::Range,
            exact(),
            Some(range(&v(0x12), &v(0x12))),
        );
        check(table::MatchKind::Exact, KeyMatch::Any, None);
        check(
            table::MatchKind::Optional,
            KeyMatch::Any,
            Some(FieldMatch::Optional(None)),
        );
        check(
            table::MatchKind::Exact,
            KeyMatch::Exact(Value::truncated(1, 9)),
            None,
        );
    }
}
