//! Converts annotations to the IR, and reads names from them.

use ir::{Annotation, AnnotationBody, AnnotationValue};
use passes::p4::quoted;
use sema::hir;
use support::work::checkpoint;
use syntax::ast::{AnnotationToken, AnnotationTokenKind};
use syntax::source::SourceMap;

/// Converts all annotations to the IR.
pub(crate) fn annotations(sources: &SourceMap, annotations: &[hir::Annotation]) -> Vec<Annotation> {
    annotations
        .iter()
        .map(|annotation| keep(sources, annotation))
        .collect()
}

fn keep(sources: &SourceMap, annotation: &hir::Annotation) -> Annotation {
    let body = match &annotation.body {
        hir::AnnotationBody::None => AnnotationBody::None,
        hir::AnnotationBody::Tokens(tokens) => AnnotationBody::Text(text(sources, tokens)),
        hir::AnnotationBody::Expressions(values) => {
            AnnotationBody::Expressions(values.iter().map(value).collect())
        }
        hir::AnnotationBody::KeyValues(pairs) => AnnotationBody::KeyValues(
            pairs
                .iter()
                .map(|(key, v)| (key.as_str().to_owned(), value(v)))
                .collect(),
        ),
    };
    Annotation {
        name: annotation.name.as_str().to_owned(),
        body,
    }
}

fn value(value: &hir::AnnotationValue) -> AnnotationValue {
    match value {
        hir::AnnotationValue::String(text) => AnnotationValue::String(text.to_string()),
        hir::AnnotationValue::Int(number) => AnnotationValue::Int(number.to_string()),
        hir::AnnotationValue::Bool(value) => AnnotationValue::Bool(*value),
    }
}

/// Returns the text of tokens as written. Tokens from several places are joined by blanks.
fn text(sources: &SourceMap, tokens: &[AnnotationToken]) -> String {
    let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else {
        return String::new();
    };
    if as_written(sources, tokens) {
        return sources.text(first.span.to(last.span)).to_owned();
    }
    let mut text = String::new();
    for (index, token) in tokens.iter().enumerate() {
        checkpoint();
        let is_mark = |token: &AnnotationToken, marks: &[&str]| {
            token.kind == AnnotationTokenKind::Punctuation && marks.contains(&&*token.text)
        };
        let joins = is_mark(token, &[",", ")", "]", ";", "."])
            || index > 0 && is_mark(&tokens[index - 1], &["(", "[", "."]);
        if index > 0 && !joins {
            text.push(' ');
        }
        match token.kind {
            AnnotationTokenKind::String => text.push_str(&quoted(&token.text)),
            _ => text.push_str(&token.text),
        }
    }
    text
}

/// Returns true if the source has exactly these tokens at their positions, so no macro produced
/// one.
fn as_written(sources: &SourceMap, tokens: &[AnnotationToken]) -> bool {
    let is_own = |token: &AnnotationToken| match (token.kind, sources.text(token.span)) {
        (AnnotationTokenKind::String, text) => text.starts_with('"'),
        (_, text) => *text == *token.text,
    };
    let follows = |pair: &[AnnotationToken]| {
        let (before, after) = (pair[0].span, pair[1].span);
        let whole = before.to(after);
        whole.lo == before.lo && whole.hi == after.hi && before.hi <= after.lo
    };
    tokens.iter().all(is_own) && tokens.windows(2).all(follows)
}

/// Returns the only string or word in an annotation.
fn single(annotation: &hir::Annotation) -> Option<String> {
    match &annotation.body {
        hir::AnnotationBody::Tokens(tokens) => {
            Some(tokens.iter().map(|token| &*token.text).collect())
        }
        hir::AnnotationBody::Expressions(values) => match values.as_slice() {
            [hir::AnnotationValue::String(text)] => Some(text.to_string()),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the name in `@name`; the first one if there are several.
pub(crate) fn name(annotations: &[hir::Annotation]) -> Option<String> {
    annotations
        .iter()
        .find(|a| a.name.as_str() == "name")
        .and_then(single)
}

/// Returns true if there is an annotation of this name.
pub(crate) fn has(annotations: &[hir::Annotation], name: &str) -> bool {
    annotations.iter().any(|a| a.name.as_str() == name)
}

/// Returns the only word or string in the annotation with this name.
pub(crate) fn word(annotations: &[hir::Annotation], name: &str) -> Option<String> {
    annotations
        .iter()
        .find(|a| a.name.as_str() == name)
        .and_then(single)
}

/// Returns the two arguments of an annotation, strings without quotes.
pub(crate) fn pair(sources: &SourceMap, annotation: &hir::Annotation) -> Option<(String, String)> {
    match &annotation.body {
        hir::AnnotationBody::Tokens(tokens) => {
            let comma = tokens.iter().position(|token| {
                &*token.text == "," && token.kind == AnnotationTokenKind::Punctuation
            })?;
            let (first, second) = (&tokens[..comma], &tokens[comma + 1..]);
            let plain = |tokens: &[AnnotationToken]| match tokens {
                [only] => only.text.to_string(),
                many => text(sources, many),
            };
            Some((plain(first), plain(second)))
        }
        hir::AnnotationBody::Expressions(values) => match values.as_slice() {
            [first, second] => {
                let plain = |value: &hir::AnnotationValue| match value {
                    hir::AnnotationValue::String(text) => text.to_string(),
                    hir::AnnotationValue::Int(number) => number.to_string(),
                    hir::AnnotationValue::Bool(value) => value.to_string(),
                };
                Some((plain(first), plain(second)))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns the numbers in an annotation (`@field_list(1, Lists.member)`).
pub(crate) fn numbers(program: &hir::Program, annotation: &hir::Annotation) -> Vec<u32> {
    match &annotation.body {
        hir::AnnotationBody::Tokens(tokens) => tokens
            .split(|token| &*token.text == ",")
            .filter_map(|tokens| number(program, tokens))
            .collect(),
        hir::AnnotationBody::Expressions(values) => {
            let number = |value: &hir::AnnotationValue| match value {
                hir::AnnotationValue::Int(number) => u32::try_from(number).ok(),
                _ => None,
            };
            values.iter().filter_map(number).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the number of an annotation that has one value (`@drop_reports(5000)`).
pub(crate) fn only_number(program: &hir::Program, annotation: &hir::Annotation) -> Option<u32> {
    match &annotation.body {
        hir::AnnotationBody::Tokens(tokens) => number(program, tokens),
        hir::AnnotationBody::Expressions(values) => match values.as_slice() {
            [hir::AnnotationValue::Int(number)] => u32::try_from(number).ok(),
            _ => None,
        },
        hir::AnnotationBody::None | hir::AnnotationBody::KeyValues(_) => None,
    }
}

fn number(program: &hir::Program, tokens: &[AnnotationToken]) -> Option<u32> {
    match tokens {
        [literal] => {
            let digits = literal.text.rsplit(['w', 's']).next()?;
            u32::try_from(bits::Value::parse(digits, 32).ok()?.to_u64()?).ok()
        }
        [name, _dot, member] => {
            let decl = program
                .enums
                .values()
                .find(|decl| decl.name.as_str() == &*name.text)?;
            let value = &decl
                .members
                .iter()
                .find(|(name, _)| name.as_str() == &*member.text)?
                .1;
            u32::try_from(value.as_ref()?).ok()
        }
        _ => None,
    }
}
