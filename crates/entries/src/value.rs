//! Values in text form: numbers, IPv4, IPv6 and MAC addresses, enum members, prefixes, masks and
//! ranges.

use std::net::{Ipv4Addr, Ipv6Addr};

use bits::{Value, ValueError};
use ir::{KeyMatch, MatchKind, ScalarTy};
use support::mac::{MacAddress, octets};

use crate::error::EntriesError;
use crate::resolve::Word;
use crate::schema::{Schema, ValueTy};

/// Reads a value.
pub(crate) fn scalar(schema: &Schema, ty: ValueTy, word: Word<'_>) -> Result<Value, EntriesError> {
    if word.text.is_empty() {
        return Err(EntriesError::new(word.at(), "a value is missing here"));
    }
    let ty = match ty {
        ValueTy::Scalar(ty) => ty,
        ValueTy::Text => return string(word),
    };
    is_one_value(word)?;
    let width = ty.width();
    match ty {
        ScalarTy::Bool if word.text == "true" => return Ok(Value::all_ones(1)),
        ScalarTy::Bool if word.text == "false" => return Ok(Value::zero(1)),
        ScalarTy::Error => {
            let member = word.text.strip_prefix("error.").unwrap_or(word.text);
            if let Some(at) = schema.errors.iter().position(|name| name == member) {
                return Ok(Value::truncated(at as u128, width));
            }
        }
        ScalarTy::Enum(id) => {
            let member = word.text.rsplit('.').next().unwrap_or_default();
            if let Some(at) = schema.enums[id]
                .members
                .iter()
                .position(|name| name == member)
            {
                return Ok(Value::truncated(at as u128, width));
            }
        }
        _ => {}
    }
    if let Some(value) = address(word, width)? {
        return Ok(value);
    }
    if let Some(value) = enum_member(schema, word.text, width) {
        return Ok(value);
    }
    number(word, width, ty.is_signed())
}

/// Checks that a text is one value or match: blanks are only around the operators of matches.
/// The next value is where a separator is missing.
fn is_one_value(word: Word<'_>) -> Result<(), EntriesError> {
    const OPERATORS: [&str; 3] = ["&&&", "..", "/"];
    if !word.text.contains(char::is_whitespace) {
        return Ok(());
    }
    let mut end = 0;
    let mut before = "";
    for token in word.text.split_whitespace() {
        // The token is in the rest of the text, as it was split from it.
        let at = end + word.text[end..].find(token).unwrap_or(0);
        end = at + token.len();
        let joins = |operator: &&str| before.ends_with(*operator) || token.starts_with(*operator);
        if !before.is_empty() && !OPERATORS.iter().any(joins) {
            let start = word.start + at;
            let next = token.trim_end_matches([':', '=']);
            let message = format!("`,` is missing before `{next}`");
            return Err(EntriesError::new((start, start + next.len()), message)
                .hint("values are separated by `,`, keys also by `;`; a name is followed by `:`"));
        }
        before = token;
    }
    Ok(())
}

/// Returns the value of a member of a serializable enum, written `Enum.member`.
fn enum_member(schema: &Schema, text: &str, width: u32) -> Option<Value> {
    let (name, member) = text.rsplit_once('.')?;
    let mut enums = schema.serializable.iter();
    let own = enums.find(|own| own.name == name && own.width == width)?;
    let mut members = own.members.iter();
    let (_, value) = members.find(|(name, _)| name == member)?;
    Some(value.clone())
}

/// Reads a string as its bytes. It is a word without quotes, or text in quotes with the escapes
/// `\\` and `\"`.
fn string(word: Word<'_>) -> Result<Value, EntriesError> {
    let text = match word.text.strip_prefix('"') {
        Some(rest) => match rest.strip_suffix('"') {
            Some(inner) => inner.replace("\\\"", "\"").replace("\\\\", "\\"),
            None => {
                return Err(EntriesError::new(
                    word.at(),
                    "the string has no closing quote",
                ));
            }
        },
        None if word.text.contains(char::is_whitespace) => {
            let message = format!("`{}` is more than one word", word.text);
            return Err(EntriesError::new(word.at(), message)
                .hint("write a string with blanks in quotes; values are separated by `,`"));
        }
        None => word.text.to_owned(),
    };
    let width = text.len() as u32 * 8;
    match Value::from_be_bytes(text.as_bytes(), width) {
        Ok(value) if width > 0 => Ok(value),
        _ => Err(EntriesError::new(word.at(), "a string may not be empty")),
    }
}

/// Reads an IPv4, IPv6 or MAC address, if the word has such a form.
fn address(word: Word<'_>, width: u32) -> Result<Option<Value>, EntriesError> {
    let text = word.text;
    let (what, own, number) = if let Ok(ip) = text.parse::<Ipv4Addr>() {
        ("an IPv4 address", 32, u128::from(u32::from(ip)))
    } else if let Some(mac) = mac(text) {
        ("a MAC address", 48, u128::from(mac))
    } else if text.contains(':')
        && let Ok(ip) = text.parse::<Ipv6Addr>()
    {
        ("an IPv6 address", 128, u128::from(ip))
    } else {
        return Ok(None);
    };
    if own != width {
        let message = format!("{what} has {own} bits, but a value of {width} bits is wanted");
        return Err(EntriesError::new(word.at(), message));
    }
    Ok(Some(Value::truncated(number, width)))
}

fn mac(text: &str) -> Option<u64> {
    octets(text, &[':', '-'], 1..=2).map(|bytes| MacAddress(bytes).into())
}

fn number(word: Word<'_>, width: u32, signed: bool) -> Result<Value, EntriesError> {
    let (negative, digits) = match word.text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, word.text),
    };
    let no_value = || {
        EntriesError::new(word.at(), format!("`{}` is no value of {width} bits", word.text)).hint(
            "write a number (10, 0x0a, 0b1010), an address (10.0.0.1, 00:11:22:33:44:55, fe80::1), true, false or a member of an enum",
        )
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) || (negative && !signed) {
        return Err(no_value());
    }
    let value = Value::parse(digits, width).map_err(|error| match error {
        ValueError::TooWide { .. } => too_wide(word, width),
        ValueError::NoDigits | ValueError::BadDigit { .. } => no_value(),
    })?;
    // A positive number may also be the bit pattern of a negative one, such as 0xff.
    let fits = !negative
        || value == Value::prefix_mask(1, width)
        || value.resized(width.saturating_sub(1)).resized(width) == value;
    if !fits {
        return Err(too_wide(word, width));
    }
    Ok(if negative { value.neg() } else { value })
}

fn too_wide(word: Word<'_>, width: u32) -> EntriesError {
    EntriesError::new(
        word.at(),
        format!("`{}` does not fit into {width} bits", word.text),
    )
}

/// Reads a match of an entries file: `_`, `value`, `value/len`, `value &&& mask`, `lo..hi`.
pub(crate) fn key_match(
    schema: &Schema,
    kind: MatchKind,
    ty: ValueTy,
    word: Word<'_>,
) -> Result<KeyMatch, EntriesError> {
    let text = word.text;
    if text == "_" || text == "*" || text == "default" {
        return match kind {
            MatchKind::Exact => Err(EntriesError::new(word.at(), "an exact key needs a value")),
            _ => Ok(KeyMatch::Any),
        };
    }
    if ty == ValueTy::Text {
        return scalar(schema, ty, word).map(KeyMatch::Exact);
    }
    is_one_value(word)?;
    if let Some((value, mask)) = split(word, "&&&") {
        wants(kind, &[MatchKind::Ternary], word, "a mask")?;
        let written = (value, mask);
        let (value, mask) = (scalar(schema, ty, value)?, scalar(schema, ty, mask)?);
        return masked(value, mask, written, word);
    }
    if let Some((lo, hi)) = split(word, "..") {
        wants(kind, &[MatchKind::Range], word, "a range")?;
        return range(scalar(schema, ty, lo)?, scalar(schema, ty, hi)?, ty, word);
    }
    if let Some((value, len)) = split(word, "/") {
        wants(
            kind,
            &[MatchKind::Lpm, MatchKind::Ternary],
            word,
            "a prefix",
        )?;
        return prefix(kind, scalar(schema, ty, value)?, value, len, word);
    }
    Ok(exact_match(kind, scalar(schema, ty, word)?))
}

/// Returns the match of one value.
pub(crate) fn exact_match(kind: MatchKind, value: Value) -> KeyMatch {
    match kind {
        MatchKind::Lpm => {
            let width = value.width();
            KeyMatch::Lpm(value, width)
        }
        MatchKind::Ternary => {
            let mask = Value::all_ones(value.width());
            KeyMatch::Ternary(value, mask)
        }
        MatchKind::Range => KeyMatch::Range(value.clone(), value),
        MatchKind::Exact | MatchKind::Optional | MatchKind::Selector => KeyMatch::Exact(value),
    }
}

fn split<'a>(word: Word<'a>, by: &str) -> Option<(Word<'a>, Word<'a>)> {
    let mut windows = word.text.as_bytes().windows(by.len());
    let at = windows.position(|window| window == by.as_bytes())?;
    let left = Word::new(&word.text[..at], word.start);
    let right = Word::new(&word.text[at + by.len()..], word.start + at + by.len());
    Some((left.trim(), right.trim()))
}

fn wants(
    kind: MatchKind,
    allowed: &[MatchKind],
    word: Word<'_>,
    what: &str,
) -> Result<(), EntriesError> {
    if allowed.contains(&kind) {
        return Ok(());
    }
    Err(EntriesError::new(
        word.at(),
        format!(
            "{what} cannot stand for this key, which matches {}",
            kind_name(kind)
        ),
    ))
}

/// Returns the name of a match kind in P4.
pub(crate) fn kind_name(kind: MatchKind) -> &'static str {
    match kind {
        MatchKind::Exact => "exact",
        MatchKind::Lpm => "lpm",
        MatchKind::Ternary => "ternary",
        MatchKind::Range => "range",
        MatchKind::Optional => "optional",
        MatchKind::Selector => "selector",
    }
}

fn masked(
    value: Value,
    mask: Value,
    written: (Word<'_>, Word<'_>),
    word: Word<'_>,
) -> Result<KeyMatch, EntriesError> {
    if value.and(&mask) != value {
        let (shown, mask_shown) = (written.0.text, written.1.text);
        let message = format!(
            "the value {shown} has bits outside its mask {mask_shown}, so nothing could match it"
        );
        let fitting = as_written(shown, &value.and(&mask));
        return Err(
            EntriesError::new(word.at(), message).hint(format!("write {fitting} &&& {mask_shown}"))
        );
    }
    Ok(KeyMatch::Ternary(value, mask))
}

/// Formats a value in the same notation as `like`.
fn as_written(like: &str, value: &Value) -> String {
    let Some(number) = value.to_u128() else {
        return value.to_string();
    };
    match value.width() {
        32 if like.parse::<Ipv4Addr>().is_ok() => Ipv4Addr::from(number as u32).to_string(),
        48 if mac(like).is_some() => {
            let bytes = value.to_be_bytes();
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            bytes.join(":")
        }
        128 if like.contains(':') => Ipv6Addr::from(number).to_string(),
        _ if like.starts_with("0b") => format!("{number:#b}"),
        _ if like.bytes().all(|byte| byte.is_ascii_digit()) => number.to_string(),
        _ => value.to_string(),
    }
}

/// Returns the match of a range, which must not be empty.
pub(crate) fn range(
    lo: Value,
    hi: Value,
    ty: ValueTy,
    word: Word<'_>,
) -> Result<KeyMatch, EntriesError> {
    let width = ty.width();
    let above = match ty.is_signed() {
        true => bits::limbs::cmp_signed(lo.limbs(), hi.limbs(), width).is_gt(),
        false => lo > hi,
    };
    if above {
        return Err(EntriesError::new(
            word.at(),
            format!(
                "the range {} is empty: its low end is above its high end",
                word.text
            ),
        ));
    }
    Ok(KeyMatch::Range(lo, hi))
}

fn prefix(
    kind: MatchKind,
    value: Value,
    written: Word<'_>,
    len: Word<'_>,
    word: Word<'_>,
) -> Result<KeyMatch, EntriesError> {
    let width = value.width();
    let bits = len.text.parse::<u32>().ok().filter(|bits| *bits <= width);
    let Some(bits) = bits else {
        return Err(EntriesError::new(
            len.at(),
            format!("a prefix length from 0 to {width} is wanted here"),
        ));
    };
    let mask = Value::prefix_mask(bits, width);
    if value.and(&mask) != value {
        let message = format!("{}/{bits} has bits set behind its prefix", written.text);
        let fitting = as_written(written.text, &value.and(&mask));
        return Err(EntriesError::new(word.at(), message).hint(format!("write {fitting}/{bits}")));
    }
    Ok(match kind {
        MatchKind::Ternary => KeyMatch::Ternary(value, mask),
        _ => KeyMatch::Lpm(value, bits),
    })
}
