//! Annotations: evaluates structured ones, joins strings, and checks the rules of the language.

use std::collections::HashMap;
use std::sync::Arc;

use num_bigint::BigInt;
use num_traits::{Signed, Zero};
use syntax::ast::{self, AnnotationToken, AnnotationTokenKind};
use syntax::diag::Diagnostic;
use syntax::source::Span;

use crate::hir::{Annotation, AnnotationBody, AnnotationValue, Expr, ExprKind};
use crate::{Checker, code};

/// Annotations with a single string as body.
const STRINGS: [&str; 3] = ["name", "deprecated", "noWarn"];

impl Checker<'_> {
    /// Checks the annotations of a declaration.
    pub(crate) fn annotations(&mut self, list: &[ast::Annotation]) -> Vec<Annotation> {
        let mut first_uses: HashMap<&str, &ast::Annotation> = HashMap::new();
        for annotation in list {
            let structured = |a: &ast::Annotation| {
                matches!(
                    a.body,
                    ast::AnnotationBody::Expressions(_) | ast::AnnotationBody::KeyValues(_)
                )
            };
            let twin = *first_uses
                .entry(annotation.name.as_str())
                .or_insert(annotation);
            if !std::ptr::eq(twin, annotation) && (structured(annotation) || structured(twin)) {
                let message = format!(
                    "the structured annotation `@{}` is given twice",
                    annotation.name.as_str()
                );
                let diagnostic = Diagnostic::error(code::DUPLICATE, annotation.span, message);
                self.report(diagnostic.label(twin.span, "given here before"));
            }
        }
        list.iter()
            .map(|annotation| self.annotation(annotation))
            .collect()
    }

    fn annotation(&mut self, annotation: &ast::Annotation) -> Annotation {
        let body = match &annotation.body {
            ast::AnnotationBody::None => AnnotationBody::None,
            ast::AnnotationBody::Tokens(tokens) => self.tokens(annotation, tokens),
            ast::AnnotationBody::Values(tokens, values) => {
                AnnotationBody::Tokens(self.values(annotation, tokens, values))
            }
            ast::AnnotationBody::Expressions(list) => AnnotationBody::Expressions(
                list.iter()
                    .filter_map(|e| self.annotation_value(e))
                    .collect(),
            ),
            ast::AnnotationBody::KeyValues(list) => {
                let mut first_uses: HashMap<&str, &ast::Name> = HashMap::new();
                for (key, _) in list {
                    let before = *first_uses.entry(key.as_str()).or_insert(key);
                    if !std::ptr::eq(before, key) {
                        let message = format!("key `{}` is given twice", key.as_str());
                        let diagnostic = Diagnostic::error(code::DUPLICATE, key.span, message);
                        self.report(diagnostic.label(before.span, "given here before"));
                    }
                }
                let values = list
                    .iter()
                    .filter_map(|(key, value)| Some((key.clone(), self.annotation_value(value)?)))
                    .collect();
                AnnotationBody::KeyValues(values)
            }
        };
        let empty = matches!(annotation.body, ast::AnnotationBody::None);
        if empty && STRINGS[..2].contains(&annotation.name.as_str()) {
            self.needs_string(annotation, annotation.span);
        }
        self.check_known_annotation(annotation, &body);
        Annotation {
            name: annotation.name.clone(),
            body,
            span: annotation.span,
        }
    }

    /// Checks the bodies of annotations that the language and P4Runtime define.
    fn check_known_annotation(&mut self, annotation: &ast::Annotation, body: &AnnotationBody) {
        let name = annotation.name.as_str();
        let is_valued = ast::VALUED_ANNOTATIONS.contains(&name);
        let needed = match (&annotation.body, body) {
            (ast::AnnotationBody::None, _) if is_valued => unmet(name, &[]),
            // A `@pragma` line.
            (ast::AnnotationBody::Tokens(tokens), _) if is_valued && !are_literals(tokens) => {
                Some("literals: expressions can be written in parentheses")
            }
            (_, AnnotationBody::Expressions(values)) if is_valued => {
                let known = |value: &AnnotationValue| (None, value.clone(), annotation.span);
                unmet(name, &values.iter().map(known).collect::<Vec<_>>())
            }
            (_, AnnotationBody::KeyValues(pairs)) if is_valued => {
                let mut known = Vec::with_capacity(pairs.len());
                for (key, value) in pairs {
                    known.push((Some(key), value.clone(), key.span));
                }
                unmet(name, &known)
            }
            _ => None,
        };
        if let Some(needed) = needed {
            let message = format!("`@{name}` needs {needed}");
            self.error(code::BAD_ANNOTATION, annotation.span, message);
            return;
        }
        let problem = match (name, body) {
            ("pkginfo", AnnotationBody::None) => {
                Some("`@pkginfo` needs keys and values: `@pkginfo(name = \"..\")`")
            }
            ("match", AnnotationBody::Tokens(tokens)) if !self.is_match_kind(tokens) => {
                Some("`@match` needs the name of a match kind")
            }
            ("match", AnnotationBody::None) => Some("`@match` needs the name of a match kind"),
            ("p4runtime_translation", AnnotationBody::Tokens(tokens))
                if !is_translation(tokens) =>
            {
                Some("`@p4runtime_translation` needs a string and `bit<w>` or `string`")
            }
            _ => None,
        };
        if let Some(message) = problem {
            self.error(code::BAD_ANNOTATION, annotation.span, message);
        }
    }

    fn is_match_kind(&self, tokens: &[AnnotationToken]) -> bool {
        match tokens {
            [only] => self
                .p
                .match_kinds
                .values()
                .any(|kind| kind.text == only.text),
            _ => false,
        }
    }

    /// Returns the tokens of an unstructured annotation with values. Expressions are replaced by
    /// their literals; literals stay as written.
    fn values(
        &mut self,
        annotation: &ast::Annotation,
        tokens: &[AnnotationToken],
        values: &[(Option<ast::Name>, ast::Expr)],
    ) -> Vec<AnnotationToken> {
        let mut known = Vec::with_capacity(values.len());
        for (key, written) in values {
            let value = self.expr(written, None);
            if value.ty == self.t.error {
                return Vec::new();
            }
            let number = self.int_value(&value).map(AnnotationValue::Int);
            let Some(value) = number.or_else(|| self.plain_value(&value)) else {
                let message = format!(
                    "`@{}` holds integers, strings and booleans that are known at compile time",
                    annotation.name.as_str()
                );
                self.error(code::BAD_ANNOTATION, written.span, message);
                return Vec::new();
            };
            known.push((key.as_ref(), value, written.span));
        }
        if let Some(needed) = unmet(annotation.name.as_str(), &known) {
            let message = format!("`@{}` needs {needed}", annotation.name.as_str());
            self.error(code::BAD_ANNOTATION, annotation.span, message);
            return Vec::new();
        }
        let is_literal = |(_, e): &(Option<ast::Name>, ast::Expr)| {
            matches!(
                e.kind,
                ast::ExprKind::Int(_) | ast::ExprKind::String(_) | ast::ExprKind::Bool(_)
            )
        };
        // These are read as numbers. The others are also kept as text.
        let is_read = matches!(
            annotation.name.as_str(),
            "field_list" | "mirror" | "priority"
        );
        if !is_read && values.iter().all(is_literal) {
            return tokens.to_vec();
        }
        literals(&known)
    }

    /// Returns the tokens of an unstructured annotation. The tokens of a string annotation become
    /// one string.
    fn tokens(
        &mut self,
        annotation: &ast::Annotation,
        tokens: &[AnnotationToken],
    ) -> AnnotationBody {
        if !STRINGS.contains(&annotation.name.as_str()) {
            return AnnotationBody::Tokens(tokens.to_vec());
        }
        let mut text = String::new();
        let mut wants_string = true;
        for token in tokens {
            match token.kind {
                AnnotationTokenKind::String if wants_string => {
                    text.push_str(&token.text);
                    wants_string = false;
                }
                // The lexer may produce `++` as one token or as two.
                AnnotationTokenKind::Punctuation if matches!(&*token.text, "++" | "+") => {
                    wants_string = true
                }
                _ => {
                    self.needs_string(annotation, token.span);
                    return AnnotationBody::None;
                }
            }
        }
        if wants_string {
            self.needs_string(annotation, annotation.span);
            return AnnotationBody::None;
        }
        let span = tokens.first().map_or(annotation.span, |first| first.span);
        AnnotationBody::Tokens(vec![AnnotationToken {
            kind: AnnotationTokenKind::String,
            text: text.into(),
            span,
        }])
    }

    fn needs_string(&mut self, annotation: &ast::Annotation, span: Span) {
        let message = format!(
            "the annotation `@{}` needs a string",
            annotation.name.as_str()
        );
        self.error(code::BAD_ANNOTATION, span, message);
    }

    fn annotation_value(&mut self, e: &ast::Expr) -> Option<AnnotationValue> {
        let value = self.expr(e, None);
        if value.ty == self.t.error {
            return None;
        }
        let found = self.plain_value(&value);
        if found.is_none() {
            let message = "a structured annotation holds compile-time known values of type `int`, `string` or `bool`";
            self.error(code::BAD_ANNOTATION, e.span, message);
        }
        found
    }

    fn plain_value(&self, e: &Expr) -> Option<AnnotationValue> {
        match &e.kind {
            ExprKind::String(text) => Some(AnnotationValue::String(text.clone())),
            ExprKind::Bool(value) => Some(AnnotationValue::Bool(*value)),
            ExprKind::Int(value) => Some(AnnotationValue::Int(value.clone())),
            _ => None,
        }
    }
}

/// A value of an annotation: its key, if any, and its source position.
type Known<'a> = (Option<&'a ast::Name>, AnnotationValue, Span);

/// Describes the values that an annotation needs, if it has others.
fn unmet(name: &str, values: &[Known<'_>]) -> Option<&'static str> {
    let is_zero = |known: &Known<'_>| matches!(&known.1, AnnotationValue::Int(n) if n.is_zero());
    let is_number = |value: &AnnotationValue, most: i64| {
        matches!(value, AnnotationValue::Int(n)
            if !n.is_negative() && *n <= BigInt::from(most))
    };
    let unsigned = i64::from(u32::MAX);
    let plain = |(key, value, _): &Known<'_>, most| key.is_none() && is_number(value, most);
    let (good, needed) = match (name, values) {
        ("id", [one]) => (
            plain(one, unsigned) && !is_zero(one),
            "one number from 1 to 4294967295",
        ),
        ("mirror", [one]) => (
            plain(one, i64::from(i32::MAX)) && !is_zero(one),
            "one number of entries from 1 to 2147483647",
        ),
        ("mirror", _) => (false, "one number of entries from 1 to 2147483647"),
        ("id", _) => (false, "one number from 1 to 4294967295"),
        ("priority", [one]) => (plain(one, unsigned), "one number from 0 to 4294967295"),
        ("priority", _) => (false, "one number from 0 to 4294967295"),
        ("max_group_size" | "max_member_weight", [one]) => (
            plain(one, i64::from(i32::MAX)),
            "one number from 0 to 2147483647",
        ),
        ("max_group_size" | "max_member_weight", _) => (false, "one number from 0 to 2147483647"),
        ("field_list", list) => (
            !list.is_empty() && list.iter().all(|one| plain(one, unsigned)),
            "numbers of field lists, from 0 to 4294967295",
        ),
        ("pkginfo" | "platform_property", pairs) => (
            pairs
                .iter()
                .all(|(key, value, _)| key.is_some() && !matches!(value, AnnotationValue::Bool(_))),
            "pairs `key = value` with commas between them, each value a string or a number",
        ),
        (_, [(None, AnnotationValue::String(_), _)]) => (true, ""),
        _ => (false, "one string"),
    };
    (!good).then_some(needed)
}

/// Returns true if the tokens are literals separated by commas, with optional keys.
fn are_literals(tokens: &[AnnotationToken]) -> bool {
    tokens.iter().enumerate().all(|(index, token)| {
        let before_key = |next: &AnnotationToken| &*next.text == "=";
        match token.kind {
            AnnotationTokenKind::Integer | AnnotationTokenKind::String => true,
            AnnotationTokenKind::Word => tokens.get(index + 1).is_some_and(before_key),
            AnnotationTokenKind::Punctuation => matches!(&*token.text, "," | "=" | "(" | ")"),
        }
    })
}

/// Converts values to tokens.
fn literals(values: &[Known<'_>]) -> Vec<AnnotationToken> {
    use AnnotationTokenKind::{Integer, Punctuation, String, Word};
    let mut tokens: Vec<AnnotationToken> = Vec::new();
    for (index, (key, value, span)) in values.iter().enumerate() {
        let mut push = |kind, text: Arc<str>| {
            let span = *span;
            tokens.push(AnnotationToken { kind, text, span });
        };
        if index > 0 {
            push(Punctuation, ",".into());
        }
        if let Some(key) = key {
            push(Word, key.text.clone());
            push(Punctuation, "=".into());
        }
        match value {
            AnnotationValue::Int(number) => push(Integer, number.to_string().into()),
            AnnotationValue::String(text) => push(String, text.clone()),
            AnnotationValue::Bool(value) => push(Word, value.to_string().into()),
        }
    }
    tokens
}

/// Returns the string in an annotation.
pub(crate) fn string_of(annotations: &[Annotation], name: &str) -> Option<Arc<str>> {
    str_of(annotations, name).map(Arc::from)
}

/// Returns the string in an annotation, borrowed.
pub(crate) fn str_of<'a>(annotations: &'a [Annotation], name: &str) -> Option<&'a str> {
    let annotation = annotations.iter().find(|a| a.name.as_str() == name)?;
    match &annotation.body {
        AnnotationBody::Tokens(tokens) => match tokens.as_slice() {
            [token] if token.kind == AnnotationTokenKind::String => Some(&token.text),
            _ => None,
        },
        AnnotationBody::Expressions(values) => match values.as_slice() {
            [AnnotationValue::String(text)] => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Returns true if an annotation is present.
pub(crate) fn has(annotations: &[Annotation], name: &str) -> bool {
    annotations.iter().any(|a| a.name.as_str() == name)
}

/// Returns true if the tokens are `"uri", bit<w>` or `"uri", string` (P4Runtime, section 8.4.6).
/// The width may also be a plain number.
fn is_translation(tokens: &[AnnotationToken]) -> bool {
    let [uri, comma, kind @ ..] = tokens else {
        return false;
    };
    if uri.kind != AnnotationTokenKind::String || &*comma.text != "," {
        return false;
    }
    let texts: Vec<&str> = kind.iter().map(|token| &*token.text).collect();
    match texts[..] {
        ["string"] | ["bit"] => true,
        ["bit", "<", _, ">"] => kind[2].kind == AnnotationTokenKind::Integer,
        [_] => kind[0].kind == AnnotationTokenKind::Integer,
        _ => false,
    }
}
