//! Annotations: empty, unstructured, structured, and `@pragma` lines.

use super::cursor::{Parse, Parser};
use crate::ast::{
    Annotation, AnnotationBody, AnnotationToken, AnnotationTokenKind, VALUED_ANNOTATIONS,
};
use crate::token::{AFTER_NEWLINE, Class};

impl Parser<'_> {
    /// Parses all annotations at this point.
    pub(super) fn annotations(&mut self) -> Parse<Vec<Annotation>> {
        let mut all = Vec::new();
        while self.is("@") {
            all.push(self.annotation()?);
        }
        Ok(all)
    }

    fn annotation(&mut self) -> Parse<Annotation> {
        let start = self.expect("@")?;
        if self.kind() != Class::Word {
            return Err(self.unexpected("an annotation's name"));
        }
        let name = self.any_word();
        let body = if name.as_str() == "pragma" {
            return self.pragma(start);
        } else if self.is("(") && VALUED_ANNOTATIONS.contains(&name.as_str()) {
            self.values()?
        } else if self.is("(") {
            AnnotationBody::Tokens(self.free_tokens()?)
        } else if self.is("[") {
            self.structured()?
        } else {
            AnnotationBody::None
        };
        Ok(Annotation {
            name,
            body,
            span: self.since(start),
        })
    }

    /// Parses `name tokens..` up to the end of the line.
    fn pragma(&mut self, start: crate::source::Span) -> Parse<Annotation> {
        if self.kind() != Class::Word || self.starts_line() {
            return Err(self.unexpected("the pragma's name"));
        }
        let name = self.any_word();
        let mut tokens = Vec::new();
        while !self.starts_line() && !self.at_end() {
            tokens.extend(self.annotation_token());
            self.bump();
        }
        Ok(Annotation {
            name,
            body: AnnotationBody::Tokens(tokens),
            span: self.since(start),
        })
    }

    /// Parses `(e1, e2)` or `(k1 = e1)`, as tokens and as expressions.
    fn values(&mut self) -> Parse<AnnotationBody> {
        let from = self.index() + 1;
        self.expect("(")?;
        let values = self.separated(")", false, |p| {
            let key = p.is_name() && p.text_at(p.index() + 1) == "=";
            let key = if key { Some(p.name()?) } else { None };
            if key.is_some() {
                p.expect("=")?;
            }
            Ok((key, p.expr()?))
        })?;
        Ok(AnnotationBody::Values(
            self.tokens_between(from, self.index() - 1),
            values,
        ))
    }

    fn tokens_between(&self, from: usize, to: usize) -> Vec<AnnotationToken> {
        (from..to)
            .filter_map(|at| self.annotation_token_at(at))
            .collect()
    }

    fn starts_line(&self) -> bool {
        self.token().is_none_or(|token| token.has(AFTER_NEWLINE))
    }

    fn free_tokens(&mut self) -> Parse<Vec<AnnotationToken>> {
        let Some(end) = self.skip_parentheses() else {
            return Err(self.unexpected("parentheses that match"));
        };
        self.bump();
        let mut tokens = Vec::new();
        while self.index() + 1 < end {
            tokens.extend(self.annotation_token());
            self.bump();
        }
        self.bump();
        Ok(tokens)
    }

    /// Returns the index after the `)` that closes the `(` here, counting only parentheses.
    fn skip_parentheses(&self) -> Option<usize> {
        let mut depth = 0usize;
        let mut at = self.index();
        loop {
            match (self.kind_at(at), self.text_at(at)) {
                (Class::End, _) => return None,
                (Class::Punctuation, "(") => depth += 1,
                (Class::Punctuation, ")") => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }

    fn structured(&mut self) -> Parse<AnnotationBody> {
        self.expect("[")?;
        let is_pairs = self.is_name() && self.text_at(self.index() + 1) == "=";
        if is_pairs {
            let pairs = self.separated("]", true, |p| {
                let name = p.name()?;
                p.expect("=")?;
                Ok((name, p.expr()?))
            })?;
            return Ok(AnnotationBody::KeyValues(pairs));
        }
        Ok(AnnotationBody::Expressions(self.separated(
            "]",
            true,
            |p| p.expr(),
        )?))
    }

    fn annotation_token(&self) -> Option<AnnotationToken> {
        self.annotation_token_at(self.index())
    }

    fn annotation_token_at(&self, index: usize) -> Option<AnnotationToken> {
        let token = self.token_at(index)?;
        let kind = match token.class() {
            Class::String => AnnotationTokenKind::String,
            Class::Integer => AnnotationTokenKind::Integer,
            Class::Word => AnnotationTokenKind::Word,
            Class::Punctuation | Class::End => AnnotationTokenKind::Punctuation,
        };
        Some(AnnotationToken {
            kind,
            text: self.meaning_of(token),
            span: token.span,
        })
    }
}
