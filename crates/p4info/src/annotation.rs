//! Annotations: stored as P4Runtime requires, and evaluated if they give values (`@id`, `@brief`,
//! `@pkginfo`, ...).

use ir::{Annotation, AnnotationBody, AnnotationValue};
use support::work::checkpoint;

use crate::error::P4InfoProblem;
use crate::p4::config::v1::{
    Documentation, Expression, ExpressionList, KeyValuePair, KeyValuePairList,
    StructuredAnnotation, expression::Value, structured_annotation::Body,
};

/// The annotations of an object, sorted into the P4Info fields for them.
#[derive(Default)]
pub(crate) struct KeptAnnotation {
    pub(crate) annotations: Vec<String>,
    pub(crate) structured: Vec<StructuredAnnotation>,
    pub(crate) doc: Option<Documentation>,
}

/// Unstructured annotations that are represented by other fields of P4Info.
const TOLD_ELSEWHERE: [&str; 4] = ["name", "id", "brief", "description"];

/// Sorts annotations. Those named in `dropped` are also represented by other fields.
pub(crate) fn keep(
    annotations: &[Annotation],
    dropped: &[&str],
    problems: &mut Vec<P4InfoProblem>,
) -> KeptAnnotation {
    let mut kept = KeptAnnotation::default();
    for annotation in annotations {
        checkpoint();
        let name = annotation.name.as_str();
        match &annotation.body {
            AnnotationBody::Expressions(_) | AnnotationBody::KeyValues(_) => {
                match structured(annotation) {
                    Ok(annotation) => kept.structured.push(annotation),
                    Err(problem) => problems.push(problem),
                }
            }
            AnnotationBody::None | AnnotationBody::Text(_)
                if TOLD_ELSEWHERE.contains(&name) || dropped.contains(&name) => {}
            AnnotationBody::None => kept.annotations.push(format!("@{name}")),
            AnnotationBody::Text(text) => kept.annotations.push(format!("@{name}({text})")),
        }
    }
    match documentation(annotations) {
        Ok(doc) => kept.doc = doc,
        Err(problem) => problems.push(problem),
    }
    kept
}

fn structured(annotation: &Annotation) -> Result<StructuredAnnotation, P4InfoProblem> {
    let body = match &annotation.body {
        AnnotationBody::Expressions(values) => {
            let expressions = values
                .iter()
                .map(|value| expression(&annotation.name, value))
                .collect::<Result<_, _>>()?;
            // An empty list has a body by the specification, but p4c omits it, and so do readers of
            // p4c's output.
            Some(Body::ExpressionList(ExpressionList { expressions }))
                .filter(|_| !values.is_empty())
        }
        AnnotationBody::KeyValues(pairs) => {
            let pair = |(key, value): &(String, AnnotationValue)| {
                let value = Some(expression(&annotation.name, value)?);
                Ok(KeyValuePair {
                    key: key.clone(),
                    value,
                })
            };
            let kv_pairs = pairs
                .iter()
                .map(pair)
                .collect::<Result<_, P4InfoProblem>>()?;
            Some(Body::KvPairList(KeyValuePairList { kv_pairs }))
        }
        AnnotationBody::None | AnnotationBody::Text(_) => None,
    };
    Ok(StructuredAnnotation {
        name: annotation.name.clone(),
        body,
        source_location: None,
    })
}

fn expression(annotation: &str, value: &AnnotationValue) -> Result<Expression, P4InfoProblem> {
    let value = match value {
        AnnotationValue::String(text) => Value::StringValue(text.clone()),
        AnnotationValue::Bool(value) => Value::BoolValue(*value),
        AnnotationValue::Int(number) => {
            Value::Int64Value(
                number
                    .parse()
                    .map_err(|_| P4InfoProblem::AnnotationNumber {
                        name: annotation.to_owned(),
                        number: number.clone(),
                    })?,
            )
        }
    };
    Ok(Expression { value: Some(value) })
}

/// Returns the documentation from `@brief` and `@description`.
fn documentation(annotations: &[Annotation]) -> Result<Option<Documentation>, P4InfoProblem> {
    let brief = string(annotations, "brief")?;
    let description = string(annotations, "description")?;
    if brief.is_none() && description.is_none() {
        return Ok(None);
    }
    Ok(Some(Documentation {
        brief: brief.unwrap_or_default(),
        description: description.unwrap_or_default(),
    }))
}

/// Returns true if the annotation exists.
pub(crate) fn has(annotations: &[Annotation], name: &str) -> bool {
    annotations.iter().any(|annotation| annotation.name == name)
}

/// Returns the number of `@id`.
pub(crate) fn id(annotations: &[Annotation]) -> Result<Option<u32>, P4InfoProblem> {
    number(annotations, "id")
}

/// Returns the number in an annotation, if it exists. The first annotation of this name counts.
pub(crate) fn number<N: TryFrom<u64>>(
    annotations: &[Annotation],
    name: &str,
) -> Result<Option<N>, P4InfoProblem> {
    let parse = |word: &Word| match word {
        Word::Plain(text) => integer(text).and_then(|number| N::try_from(number).ok()),
        Word::String(_) | Word::Mark(_) => None,
    };
    single(
        annotations,
        name,
        "one positive number that is not too large",
        parse,
    )
}

/// Returns the string in an annotation, if it exists. The first annotation of this name counts.
pub(crate) fn string(
    annotations: &[Annotation],
    name: &str,
) -> Result<Option<String>, P4InfoProblem> {
    let parse = |word: &Word| match word {
        Word::String(text) => Some(text.clone()),
        Word::Plain(_) | Word::Mark(_) => None,
    };
    single(annotations, name, "one string in quotes", parse)
}

fn single<T>(
    annotations: &[Annotation],
    name: &str,
    expected: &'static str,
    parse: impl Fn(&Word) -> Option<T>,
) -> Result<Option<T>, P4InfoProblem> {
    let Some(annotation) = annotations
        .iter()
        .find(|annotation| annotation.name == name)
    else {
        return Ok(None);
    };
    let value = match words(annotation).as_slice() {
        [word] => parse(word),
        _ => None,
    };
    value.map(Some).ok_or_else(|| P4InfoProblem::Annotation {
        name: name.to_owned(),
        expected,
    })
}

/// A value in `@pkginfo` and `@platform_property`.
#[derive(Debug, PartialEq)]
pub(crate) enum PairValue {
    /// A string.
    String(String),
    /// A number.
    Number(u64),
}

/// Returns the keys and values of all annotations with this name, in order.
pub(crate) fn pairs(
    annotations: &[Annotation],
    name: &str,
) -> Result<Vec<(String, PairValue)>, P4InfoProblem> {
    let mut pairs = Vec::new();
    for annotation in annotations
        .iter()
        .filter(|annotation| annotation.name == name)
    {
        let words = words(annotation);
        for pair in words.split(|word| *word == Word::Mark(',')) {
            let parsed = match pair {
                [Word::Plain(key), Word::Mark('='), Word::String(text)] => {
                    Some((key, PairValue::String(text.clone())))
                }
                [Word::Plain(key), Word::Mark('='), Word::Plain(text)] => {
                    integer(text).map(|number| (key, PairValue::Number(number)))
                }
                _ => None,
            };
            let (key, value) = parsed.ok_or_else(|| P4InfoProblem::Annotation {
                name: name.to_owned(),
                expected: "pairs `key = value` with commas between them, each value a string in quotes or a number",
            })?;
            pairs.push((key.clone(), value));
        }
    }
    Ok(pairs)
}

/// A token of an annotation's body.
#[derive(Debug, PartialEq)]
enum Word {
    /// A name or a number.
    Plain(String),
    /// A string, without its quotes.
    String(String),
    /// Any other character.
    Mark(char),
}

/// Returns the tokens of an annotation's body, for any kind of body.
fn words(annotation: &Annotation) -> Vec<Word> {
    let value = |value: &AnnotationValue| match value {
        AnnotationValue::String(text) => Word::String(text.clone()),
        AnnotationValue::Int(number) => Word::Plain(number.clone()),
        AnnotationValue::Bool(value) => Word::Plain(value.to_string()),
    };
    match &annotation.body {
        AnnotationBody::None => Vec::new(),
        AnnotationBody::Text(text) => split(text),
        AnnotationBody::Expressions(values) => {
            let mut words: Vec<Word> = values
                .iter()
                .flat_map(|v| [value(v), Word::Mark(',')])
                .collect();
            words.pop();
            words
        }
        AnnotationBody::KeyValues(pairs) => {
            let pair = |(key, v): &(String, AnnotationValue)| {
                [
                    Word::Plain(key.clone()),
                    Word::Mark('='),
                    value(v),
                    Word::Mark(','),
                ]
            };
            let mut words: Vec<Word> = pairs.iter().flat_map(pair).collect();
            words.pop();
            words
        }
    }
}

fn split(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '"' => quoted(&rest[1..]),
            c if is_plain(c) => {
                let end = rest.find(|c| !is_plain(c)).unwrap_or(rest.len());
                (Word::Plain(rest[..end].to_owned()), &rest[end..])
            }
            c => (Word::Mark(c), &rest[c.len_utf8()..]),
        };
        words.push(word);
        rest = after.trim_start();
    }
    words
}

fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the string after an opening quote, and the remaining text. A backslash at the end of a
/// line joins it with the next one.
fn quoted(text: &str) -> (Word, &str) {
    let mut string = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (Word::String(string), &text[at + 1..]),
            '\\' => match chars.next() {
                Some((_, '\n')) | None => {}
                Some((_, 'n')) => string.push('\n'),
                Some((_, 't')) => string.push('\t'),
                Some((_, 'r')) => string.push('\r'),
                Some((_, other)) => string.push(other),
            },
            c => string.push(c),
        }
    }
    (Word::String(string), "")
}

/// Parses a P4 literal, with or without width, in any base.
fn integer(text: &str) -> Option<u64> {
    let text = text.replace('_', "");
    let digits = match text.find(['w', 's']) {
        Some(at) if at > 0 && text[..at].bytes().all(|b| b.is_ascii_digit()) => &text[at + 1..],
        _ => &text,
    };
    let prefix = digits.get(..2).map(str::to_ascii_lowercase);
    let (base, digits) = match prefix.as_deref() {
        Some("0x") => (16, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0d") => (10, &digits[2..]),
        _ => (10, digits),
    };
    u64::from_str_radix(digits, base).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str, body: &str) -> Annotation {
        Annotation {
            name: name.to_owned(),
            body: AnnotationBody::Text(body.to_owned()),
        }
    }

    #[test]
    fn numbers_are_read_in_every_base_and_width() {
        for (body, number) in [
            ("7", 7),
            ("0x12ab_34", 0x12_ab34),
            ("0b101", 5),
            ("8w0x1F", 31),
            ("32w10", 10),
            ("0o17", 15),
        ] {
            assert_eq!(id(&[text("id", body)]), Ok(Some(number)), "{body}");
        }
        for body in ["", "x", "1 2", "\"1\"", "0x1_0000_0000", "-1", "é", "0é"] {
            assert!(id(&[text("id", body)]).is_err(), "{body}");
        }
    }

    #[test]
    fn strings_lose_their_quotes_and_escapes() {
        assert_eq!(
            string(&[text("brief", r#" "a \"b\" \\ c" "#)], "brief"),
            Ok(Some(r#"a "b" \ c"#.to_owned()))
        );
        assert_eq!(
            string(&[text("brief", "\"one\\\ntwo\"")], "brief"),
            Ok(Some("onetwo".to_owned()))
        );
        assert!(string(&[text("brief", "word")], "brief").is_err());
        assert_eq!(string(&[], "brief"), Ok(None));
    }

    #[test]
    fn pairs_come_from_free_and_structured_bodies() {
        let free = text("pkginfo", r#"name = "a,b", size=0x10"#);
        let structured = Annotation {
            name: "pkginfo".to_owned(),
            body: AnnotationBody::KeyValues(vec![(
                "url".to_owned(),
                AnnotationValue::String("u".to_owned()),
            )]),
        };
        let expected = vec![
            ("name".to_owned(), PairValue::String("a,b".to_owned())),
            ("size".to_owned(), PairValue::Number(16)),
            ("url".to_owned(), PairValue::String("u".to_owned())),
        ];
        assert_eq!(pairs(&[free, structured], "pkginfo"), Ok(expected));
        assert!(pairs(&[text("pkginfo", "name")], "pkginfo").is_err());
    }
}
