//! Text under construction, and the text of annotations.

use ir::{Annotation, AnnotationBody, AnnotationValue};

use super::names::quoted;

/// Lines with indentation.
#[derive(Default)]
pub(super) struct Text {
    out: String,
    indent: usize,
}

impl Text {
    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        for _ in 0..self.indent {
            self.out.push_str("    ");
        }
        self.out.push_str(line.as_ref());
        self.out.push('\n');
    }

    pub(super) fn blank(&mut self) {
        if !self.out.ends_with("\n\n") && !self.out.ends_with("{\n") {
            self.out.push('\n');
        }
    }

    /// Prints a body between braces, which follow `head`.
    pub(super) fn block(&mut self, head: &str, body: impl FnOnce(&mut Self)) {
        self.open(head);
        body(self);
        self.close("}");
    }

    pub(super) fn open(&mut self, head: &str) {
        self.line(format!("{head} {{"));
        self.indent += 1;
    }

    pub(super) fn close(&mut self, end: &str) {
        while self.out.ends_with("\n\n") {
            self.out.pop();
        }
        self.indent -= 1;
        self.line(end);
    }

    /// Prints a side of a branch without its closing brace.
    pub(super) fn arm(&mut self, head: &str, body: impl FnOnce(&mut Self)) {
        self.line(format!("{head} {{"));
        self.indent += 1;
        body(self);
        self.indent -= 1;
    }

    /// Prints one item a line, with commas between them.
    pub(super) fn list(&mut self, items: impl Iterator<Item = String>) {
        let items: Vec<String> = items.collect();
        for (at, item) in items.iter().enumerate() {
            let comma = if at + 1 < items.len() { "," } else { "" };
            self.line(format!("{item}{comma}"));
        }
    }

    pub(super) fn finish(self) -> String {
        self.out
    }
}

/// Returns an annotation as P4 text.
pub(super) fn annotation_text(annotation: &Annotation) -> String {
    let value = |value: &AnnotationValue| match value {
        AnnotationValue::String(text) => quoted(text),
        AnnotationValue::Int(number) => number.clone(),
        AnnotationValue::Bool(value) => value.to_string(),
    };
    let name = &annotation.name;
    match &annotation.body {
        AnnotationBody::None => format!("@{name}"),
        AnnotationBody::Text(text) => format!("@{name}({text})"),
        AnnotationBody::Expressions(values) => {
            let values: Vec<String> = values.iter().map(value).collect();
            format!("@{name}[{}]", values.join(", "))
        }
        AnnotationBody::KeyValues(pairs) => {
            let pairs = pairs.iter();
            let pairs: Vec<String> = pairs
                .map(|(key, of)| format!("{key}={}", value(of)))
                .collect();
            format!("@{name}[{}]", pairs.join(", "))
        }
    }
}

/// Returns annotations as text, with a blank after each. Those that the printer makes itself are
/// left out.
pub(super) fn annotations(annotations: &[Annotation]) -> String {
    let mut text = String::new();
    for annotation in annotations {
        if annotation.name != "name" {
            text += &annotation_text(annotation);
            text.push(' ');
        }
    }
    text
}

/// Returns the name that `@name` gives.
pub(super) fn given_name(annotations: &[Annotation]) -> Option<String> {
    let name = annotations.iter().find(|a| a.name == "name")?;
    match &name.body {
        AnnotationBody::Text(text) => Some(text.trim().trim_matches('"').to_owned()),
        AnnotationBody::Expressions(values) => match values.as_slice() {
            [AnnotationValue::String(text)] => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}
