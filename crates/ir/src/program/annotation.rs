//! The strings of an annotation.

use crate::{AnnotationBody, AnnotationValue};

impl AnnotationBody {
    /// Returns the strings of the body, one per line. `None` if it has none, or contains anything
    /// else.
    #[must_use]
    pub fn strings(&self) -> Option<String> {
        let strings = match self {
            AnnotationBody::Text(body) => literals(body),
            AnnotationBody::Expressions(values) => values
                .iter()
                .map(|value| match value {
                    AnnotationValue::String(text) => Some(text.clone()),
                    AnnotationValue::Int(_) | AnnotationValue::Bool(_) => None,
                })
                .collect(),
            AnnotationBody::None | AnnotationBody::KeyValues(_) => None,
        };
        strings
            .filter(|strings| !strings.is_empty())
            .map(|strings| strings.join("\n"))
    }
}

/// Returns the string literals of a text. `None` if it contains anything else.
fn literals(body: &str) -> Option<Vec<String>> {
    let mut literals = Vec::new();
    let mut chars = body.chars();
    loop {
        match chars.by_ref().find(|c| !c.is_whitespace()) {
            Some('"') => {}
            Some(_) => return None,
            None => return Some(literals),
        }
        let mut text = String::new();
        while let Some(c) = chars.next().filter(|c| *c != '"') {
            match c {
                '\\' => match chars.next() {
                    Some('n') => text.push('\n'),
                    Some(escaped) => text.push(escaped),
                    None => {}
                },
                c => text.push(c),
            }
        }
        literals.push(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(body: &str) -> Option<String> {
        AnnotationBody::Text(body.to_owned()).strings()
    }

    #[test]
    fn the_strings_of_a_body_are_joined_by_line_ends() {
        assert_eq!(strings(r#" "a == 1;" "b" "#).as_deref(), Some("a == 1;\nb"));
        assert_eq!(strings(r#""\"x\" \n\\""#).as_deref(), Some("\"x\" \n\\"));
        assert_eq!(strings(r#""""#).as_deref(), Some(""));
        let values = ["a", "b"].map(|text| AnnotationValue::String(text.to_owned()));
        let structured = AnnotationBody::Expressions(values.to_vec());
        assert_eq!(structured.strings().as_deref(), Some("a\nb"));
    }

    #[test]
    fn a_body_with_anything_else_or_nothing_has_no_strings() {
        for body in ["", "  ", "a", r#""a", "b""#, r#""a" b"#] {
            assert_eq!(strings(body), None, "{body}");
        }
        let mixed = vec![
            AnnotationValue::String("a".to_owned()),
            AnnotationValue::Int("1".to_owned()),
        ];
        for body in [
            AnnotationBody::None,
            AnnotationBody::KeyValues(Vec::new()),
            AnnotationBody::Expressions(Vec::new()),
            AnnotationBody::Expressions(mixed),
        ] {
            assert_eq!(body.strings(), None, "{body:?}");
        }
    }
}
