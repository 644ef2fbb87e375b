//! Match fields of table entries and of value set members (section "Match Format").

use std::collections::HashMap;

use bits::Value;
use ir::{KeyMatch, MatchKind};
use p4info::p4::v1::FieldMatch;
use p4info::p4::v1::field_match::FieldMatchType;
use tonic::Code;

use crate::bytes::hex;
use crate::coding::Names;
use crate::request_error::{Checked, RequestError, invalid};
use crate::schema::FieldView;

/// Converts the match fields of an update. The result has one match per field; missing fields are
/// "don't care".
pub(super) fn matches(
    names: &Names,
    place: &str,
    fields: &[FieldView],
    given: &[FieldMatch],
) -> Checked<Vec<KeyMatch>> {
    let mut by_id = HashMap::with_capacity(given.len());
    for one in given {
        if fields.iter().all(|field| field.id != one.field_id) {
            return invalid(format!(
                "{place} has no match field with the id {}",
                one.field_id
            ));
        }
        if by_id.insert(one.field_id, one).is_some() {
            return invalid(format!(
                "{place}: the match field {} is given twice",
                one.field_id
            ));
        }
    }
    let matched = |field: &FieldView| match by_id.get(&field.id) {
        Some(given) => one(names, field, given).map_err(|fault| {
            fault
                .within(&format!("{place}: the match field `{}`", field.name))
                .coded(Code::InvalidArgument)
        }),
        None if field.kind == MatchKind::Exact => invalid(format!(
            "{place}: the exact match field `{}` is missing",
            field.name
        )),
        None => Ok(KeyMatch::Any),
    };
    fields.iter().map(matched).collect()
}

fn one(names: &Names, field: &FieldView, given: &FieldMatch) -> Checked<KeyMatch> {
    let read = |bytes: &[u8]| field.coding.read(names, bytes);
    match (field.kind, &given.field_match_type) {
        (MatchKind::Exact, Some(FieldMatchType::Exact(exact))) => {
            Ok(KeyMatch::Exact(read(&exact.value)?))
        }
        (MatchKind::Optional, Some(FieldMatchType::Optional(optional))) => {
            Ok(KeyMatch::Exact(read(&optional.value)?))
        }
        (MatchKind::Lpm, Some(FieldMatchType::Lpm(lpm))) => {
            prefix(read(&lpm.value)?, lpm.prefix_len, &lpm.value)
        }
        (MatchKind::Ternary, Some(FieldMatchType::Ternary(ternary))) => {
            masked(read(&ternary.value)?, read(&ternary.mask)?)
        }
        (MatchKind::Range, Some(FieldMatchType::Range(range))) => {
            bounds(field, read(&range.low)?, read(&range.high)?)
        }
        (_, None) => invalid("it says nothing: field_match_type is not set"),
        (kind, Some(_)) => invalid(format!(
            "it is of the kind {}, but is given another",
            told(kind)
        )),
    }
}

fn told(kind: MatchKind) -> &'static str {
    match kind {
        MatchKind::Exact => "EXACT",
        MatchKind::Lpm => "LPM",
        MatchKind::Ternary => "TERNARY",
        MatchKind::Range => "RANGE",
        MatchKind::Optional => "OPTIONAL",
        MatchKind::Selector => "selector",
    }
}

fn prefix(value: Value, len: i32, given: &[u8]) -> Checked<KeyMatch> {
    let width = value.width();
    let len = match u32::try_from(len) {
        Ok(0) => return invalid("a prefix of length 0 matches anything: leave the field out"),
        Ok(len) if len <= width => len,
        _ => {
            return invalid(format!(
                "the prefix length {len} is not within 1 to {width}"
            ));
        }
    };
    if value != value.and(&Value::prefix_mask(len, width)) {
        return invalid(format!(
            "the value {} has bits behind the prefix /{len}",
            hex(given)
        ));
    }
    Ok(KeyMatch::Lpm(value, len))
}

fn masked(value: Value, mask: Value) -> Checked<KeyMatch> {
    if mask.is_zero() {
        return invalid("a mask of zeros matches anything: leave the field out");
    }
    if value != value.and(&mask) {
        let (value, mask) = (hex(&value.to_p4rt_bytes()), hex(&mask.to_p4rt_bytes()));
        return invalid(format!(
            "the value {value} has bits outside of the mask {mask}"
        ));
    }
    Ok(KeyMatch::Ternary(value, mask))
}

fn bounds(field: &FieldView, low: Value, high: Value) -> Checked<KeyMatch> {
    let range = KeyMatch::Range(low.clone(), high.clone());
    let (Some(matched), Some(any)) = (
        exec::field_match(&field.field, &range),
        table::FieldMatch::any(&field.field),
    ) else {
        return Err(RequestError::new(
            Code::InvalidArgument,
            "the bounds do not fit",
        ));
    };
    if matched == any {
        return invalid("a range of all values matches anything: leave the field out");
    }
    let in_order = match field.field.kind {
        // Numbers in two's complement are ordered by sign first. Numbers of equal sign are ordered
        // as unsigned.
        table::MatchKind::SignedRange => {
            let sign = Value::prefix_mask(1, low.width());
            let is_negative = |value: &Value| !value.and(&sign).is_zero();
            (!is_negative(&low), &low) <= (!is_negative(&high), &high)
        }
        _ => low <= high,
    };
    if !in_order {
        let (low, high) = (hex(&low.to_p4rt_bytes()), hex(&high.to_p4rt_bytes()));
        return invalid(format!(
            "the low bound {low} is above the high bound {high}"
        ));
    }
    Ok(range)
}
