//! Keys of entries: values, masks by digits, prefixes.

use bits::Value;
use ir::{KeyMatch, MatchKind, TableId};

use super::Line;
use crate::error::Fault;
use crate::file::split_key;
use crate::resolve::{self, Sought, Word};
use crate::schema::{Key, ValueTy};
use crate::value;

impl<'a> Line<'a> {
    pub(super) fn keys(&self, table: TableId, words: &[Word<'a>]) -> Result<Vec<KeyMatch>, Fault> {
        let table = &self.schema.tables[table];
        let keys = &table.keys;
        let mut matches: Vec<KeyMatch> = keys.iter().map(left_out).collect();
        for (position, word) in words.iter().enumerate() {
            let Some((name, written)) = quoted_key(*word).or_else(|| split_key(table, *word))
            else {
                return Err(Fault::new(word.at(), "a key is written `name:value`"));
            };
            if name.text.contains('"') {
                return Err(Fault::new(name.at(), "a quote is not closed"));
            }
            let at = self.key_position(keys, name, position, &table.name)?;
            let ty = keys[at].ty;
            matches[at] = self.key_match(keys[at].match_kind, ty, written)?;
        }
        Ok(matches)
    }

    /// A key by its name, or by place where the name is of the form that back ends for C make up (`key.field0`, `key.headers_x`).
    fn key_position(
        &self,
        keys: &[Key],
        name: Word<'a>,
        position: usize,
        table: &str,
    ) -> Result<usize, Fault> {
        let sought = Sought::KeyOf(table);
        let names = keys.iter().map(|key| key.name.as_str());
        let inner = name.text.strip_prefix("key.");
        if let Some(number) = inner
            .and_then(|text| text.strip_prefix("field"))
            .and_then(|n| n.parse::<usize>().ok())
        {
            return match number < keys.len() {
                true => Ok(number),
                false => Err(Fault::new(
                    name.at(),
                    format!(
                        "the table `{table}` has {}",
                        support::count::count(keys.len() as u64, "key")
                    ),
                )),
            };
        }
        let found = resolve::find(name, names.clone(), sought);
        match (found, inner) {
            (Err(_), Some(inner)) => {
                let word = Word::new(inner, name.start + 4);
                resolve::find(word, names, sought).or_else(|fault| {
                    if position < keys.len() && keys.len() == 1 {
                        Ok(position)
                    } else {
                        Err(fault)
                    }
                })
            }
            (found, _) => found.or_else(|fault| {
                let validity = validity_names(name.text);
                let known = validity.iter().find_map(|spelling| {
                    let word = Word::new(spelling, name.start);
                    resolve::find(word, names.clone(), sought).ok()
                });
                known.ok_or(fault)
            }),
        }
    }

    fn key_match(&self, kind: MatchKind, ty: ValueTy, word: Word<'a>) -> Result<KeyMatch, Fault> {
        let text = word.text;
        if text.contains("&&&") || text.contains("..") || text == "_" {
            return value::key_match(self.schema, kind, ty, word);
        }
        match kind {
            MatchKind::Ternary | MatchKind::Optional if !text.contains('/') => {
                self.ternary(kind, ty, word)
            }
            MatchKind::Lpm if !text.contains('/') => self.prefix(ty, word),
            MatchKind::Lpm => self.written_prefix(ty, word),
            _ => value::key_match(self.schema, kind, ty, word),
        }
    }

    /// Digits with `*`: value and mask.
    fn digits(&self, ty: ValueTy, word: Word<'a>) -> Result<(Value, Value, u32), Fault> {
        let width = ty.width();
        let text = word.text;
        let (prefix, digit_bits, ones) = match text.get(..2) {
            Some("0x" | "0X") => ("0x", 4, 'f'),
            Some("0b" | "0B") => ("0b", 1, '1'),
            Some("0o" | "0O") => ("0o", 3, '7'),
            _ => {
                let value = value::scalar(self.schema, ty, word)?;
                return Ok((value, Value::all_ones(width), width));
            }
        };
        let digits = &text[2..];
        let value: String = digits
            .chars()
            .map(|c| if c == '*' { '0' } else { c })
            .collect();
        let mask: String = digits
            .chars()
            .map(|c| if c == '*' { '0' } else { ones })
            .collect();
        let value_text = format!("{prefix}{value}");
        let value = Value::parse(&value_text, width).map_err(|error| {
            Fault::new(
                word.at(),
                format!("`{text}` does not fit {width} bits: {error}"),
            )
        })?;
        let full = digits.len() as u32 * digit_bits;
        let mask = Value::parse(&format!("{prefix}{mask}"), full.max(width))
            .map_err(|error| Fault::new(word.at(), error.to_string()))?
            .resized(width);
        let written = (digits.len() - digits.matches('*').count()) as u32 * digit_bits;
        Ok((value, mask, written.min(width)))
    }

    fn ternary(&self, kind: MatchKind, ty: ValueTy, word: Word<'a>) -> Result<KeyMatch, Fault> {
        let (value, mask, _) = self.digits(ty, word)?;
        if kind == MatchKind::Ternary {
            return Ok(KeyMatch::Ternary(value.and(&mask), mask));
        }
        if mask.is_zero() {
            Ok(KeyMatch::Any)
        } else {
            Ok(KeyMatch::Exact(value))
        }
    }

    fn prefix(&self, ty: ValueTy, word: Word<'a>) -> Result<KeyMatch, Fault> {
        let (value, _, len) = self.digits(ty, word)?;
        Ok(KeyMatch::Lpm(
            value.and(&Value::prefix_mask(len, ty.width())),
            len,
        ))
    }

    /// `VALUE/LEN`: bits behind the prefix are taken as if they were zero.
    fn written_prefix(&self, ty: ValueTy, word: Word<'a>) -> Result<KeyMatch, Fault> {
        let slash = word.text.find('/').unwrap_or(word.text.len());
        let number = &word.text[..slash];
        let mut value = value::scalar(self.schema, ty, Word::new(number, word.start))?;
        let width = ty.width();
        // p4c's eBPF tests give prefixes as the kernel's map holds them: the number as it lies in a little-endian machine's memory.
        let is_plain = !number.contains(['.', ':']);
        if self.schema.arch == Some(ir::Arch::Ebpf) && is_plain && width.is_multiple_of(8) {
            let mut bytes = value.to_be_bytes();
            bytes.reverse();
            value = Value::from_be_bytes(&bytes, width).unwrap_or(value);
        }
        let len = word.text[slash + 1..]
            .parse::<u32>()
            .ok()
            .filter(|len| *len <= width);
        let len = len.ok_or_else(|| {
            Fault::new(
                word.at(),
                format!("a prefix length from 0 to {width} is wanted"),
            )
        })?;
        Ok(KeyMatch::Lpm(
            value.and(&Value::prefix_mask(len, width)),
            len,
        ))
    }
}

/// The names that a name may stand for besides, as p4c's runner of tests takes it: a header's is
/// that of its validity, and `h.valid`, `h.$valid` and `valid` are `h.$valid$`.
fn validity_names(name: &str) -> Vec<String> {
    let mut names = vec![format!("{name}$"), format!("{name}.$valid$")];
    match name.strip_suffix("valid") {
        Some("") => names.push("isValid()".to_owned()),
        Some(header) if header.ends_with('.') => names.push(format!("{header}$valid$")),
        _ => {}
    }
    names
}

/// A key with a name in quotes, `"h.a & 0xf":3`, as name and value.
fn quoted_key(word: Word<'_>) -> Option<(Word<'_>, Word<'_>)> {
    let inner = word.text.strip_prefix('"')?;
    let end = inner.find('"')?;
    let name = Word::new(&inner[..end], word.start + 1);
    let rest = Word::new(&inner[end + 1..], word.start + end + 2).trim();
    let value = rest.text.strip_prefix(':')?;
    Some((name, Word::new(value, rest.start + 1).trim()))
}

/// What a key left out means: everything, or zero for an exact one.
fn left_out(key: &Key) -> KeyMatch {
    match key.match_kind {
        MatchKind::Exact => KeyMatch::Exact(Value::zero(key.ty.width())),
        _ => KeyMatch::Any,
    }
}
