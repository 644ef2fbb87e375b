//! Diagnostics: error, source position and remedy. Every stage of the front end creates them. They
//! are printed as text or JSON.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::source::{SourceMap, Span, excerpt};

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The program is rejected.
    Error,
    /// The program is accepted.
    Warning,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// A secondary source position of a diagnostic.
#[derive(Clone, Debug)]
pub struct Label {
    /// Source position.
    pub span: Span,
    /// Description of this position.
    pub message: String,
}

/// An error or a warning.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// Severity.
    pub severity: Severity,
    /// A stable code: `E00..` files and the preprocessor, `E01..` lexer and parser, `E02..` and up
    /// semantic checks.
    pub code: &'static str,
    /// The message: one line, no capital, no full stop.
    pub message: String,
    /// Source position.
    pub span: Span,
    /// Secondary positions that explain it.
    pub labels: Vec<Label>,
    /// Facts that explain it.
    pub notes: Vec<String>,
    /// Suggested fix.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// Creates an error at `span`.
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Error, code, span, message.into())
    }

    /// Creates a warning at `span`.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Warning, code, span, message.into())
    }

    fn new(severity: Severity, code: &'static str, span: Span, message: String) -> Diagnostic {
        Diagnostic {
            severity,
            code,
            message,
            span,
            labels: Vec::new(),
            notes: Vec::new(),
            hint: None,
        }
    }

    /// Cuts texts to [`TEXT_BYTES`].
    fn cut(&mut self) {
        let labels = self.labels.iter_mut().map(|label| &mut label.message);
        let texts = labels.chain(&mut self.notes).chain(&mut self.hint);
        for text in texts.chain([&mut self.message]) {
            if text.len() > TEXT_BYTES {
                text.truncate(text.floor_char_boundary(TEXT_BYTES));
                text.push_str(ELLIPSIS);
            }
        }
    }

    /// Adds a secondary position.
    pub fn label(mut self, span: Span, message: impl Into<String>) -> Diagnostic {
        self.labels.push(Label {
            span,
            message: message.into(),
        });
        self
    }

    /// Adds a note.
    pub fn note(mut self, note: impl Into<String>) -> Diagnostic {
        self.notes.push(note.into());
        self
    }

    /// Sets the suggested fix.
    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    /// Adds "did you mean" if one of `candidates` is similar to `name`.
    pub fn suggest<'a>(
        self,
        name: &str,
        candidates: impl IntoIterator<Item = &'a str>,
    ) -> Diagnostic {
        match suggest(name, candidates) {
            Some(close) => self.hint(format!("did you mean `{close}`?")),
            None => self,
        }
    }
}

/// Maximum number of characters of a source line shown. Of a longer line the part around the
/// position is shown.
const LINE_SHOWN: usize = 140;

/// Marks the omitted part of a line.
pub const ELLIPSIS: &str = "...";

/// Maximum number of errors printed before "... and N more".
pub const SHOWN: usize = 50;

/// Maximum number of diagnostics kept for each severity. Further ones are only counted.
pub const KEPT: usize = 1000;

/// Maximum number of names compared with an unknown one.
const CANDIDATES: usize = 20_000;

/// Maximum length of a message, note or hint in bytes. A longer one is cut: messages repeat names
/// of the program.
const TEXT_BYTES: usize = 2000;

/// The diagnostics of a compilation.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    seen: HashSet<(Span, &'static str, String)>,
    errors: usize,
    warnings: usize,
    /// Number of diagnostics not kept, for each severity.
    dropped: [usize; 2],
}

impl Diagnostics {
    /// Creates an empty collection.
    pub fn new() -> Diagnostics {
        Diagnostics::default()
    }

    /// Adds a diagnostic, unless the same one was added for the same position before. After
    /// [`KEPT`] of its severity it is only counted.
    pub fn push(&mut self, mut diagnostic: Diagnostic) {
        let severity = diagnostic.severity;
        if self.count(severity) - self.dropped[severity as usize] >= KEPT {
            return self.add_dropped(severity, 1);
        }
        diagnostic.cut();
        let key = (diagnostic.span, diagnostic.code, diagnostic.message.clone());
        if self.seen.insert(key) {
            *self.count_mut(severity) += 1;
            self.list.push(diagnostic);
        }
    }

    /// Adds all of `other`.
    pub fn extend(&mut self, other: Diagnostics) {
        for diagnostic in other.list {
            self.push(diagnostic);
        }
        for severity in [Severity::Error, Severity::Warning] {
            self.add_dropped(severity, other.dropped[severity as usize]);
        }
    }

    fn count(&self, severity: Severity) -> usize {
        match severity {
            Severity::Error => self.errors,
            Severity::Warning => self.warnings,
        }
    }

    fn count_mut(&mut self, severity: Severity) -> &mut usize {
        match severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        }
    }

    fn add_dropped(&mut self, severity: Severity, number: usize) {
        *self.count_mut(severity) += number;
        self.dropped[severity as usize] += number;
    }

    /// Returns true if there are errors: the program is rejected.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Returns the number of errors.
    pub fn error_count(&self) -> usize {
        self.errors
    }

    /// Returns the number of diagnostics of all severities.
    pub fn len(&self) -> usize {
        self.errors + self.warnings
    }

    /// Returns true if there are no diagnostics.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the kept diagnostics, sorted by position.
    pub fn sorted(&self) -> Vec<&Diagnostic> {
        let mut sorted: Vec<_> = self.list.iter().collect();
        sorted.sort_by_key(|d| (d.span.lo, d.severity));
        sorted
    }

    /// Formats them as text: at most [`SHOWN`] errors and as many warnings, by position, with a
    /// blank line between them.
    pub fn render(&self, sources: &SourceMap, colour: bool) -> String {
        let mut out = String::new();
        let mut shown = [0usize; 2];
        let total = [self.errors, self.warnings];
        for diagnostic in self.sorted() {
            let kind = diagnostic.severity as usize;
            if shown[kind] == SHOWN {
                continue;
            }
            shown[kind] += 1;
            if !out.is_empty() {
                out.push('\n');
            }
            Renderer {
                sources,
                colour,
                out: &mut out,
            }
            .diagnostic(diagnostic);
        }
        for (kind, word) in ["error", "warning"].into_iter().enumerate() {
            let more = total[kind] - shown[kind];
            if more > 0 {
                let _ = writeln!(
                    out,
                    "\n... and {more} more {word}{}",
                    if more == 1 { "" } else { "s" }
                );
            }
        }
        out
    }

    /// Formats them as a JSON array of objects with `file`, `line`, `column`, `end_line`,
    /// `end_column`, `severity`, `code`, `message`, `hint` (or null), `notes` (strings) and
    /// `labels` (objects with a position and a message). They are sorted by position, up to
    /// [`KEPT`] of each severity.
    pub fn to_json(&self, sources: &SourceMap) -> String {
        let objects: Vec<String> = self
            .sorted()
            .iter()
            .map(|d| diagnostic_json(d, sources))
            .collect();
        if objects.is_empty() {
            "[]\n".to_string()
        } else {
            format!("[\n  {}\n]\n", objects.join(",\n  "))
        }
    }
}

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const BLUE: &str = "\x1b[1;34m";
const RESET: &str = "\x1b[0m";

struct Renderer<'a> {
    sources: &'a SourceMap,
    colour: bool,
    out: &'a mut String,
}

impl Renderer<'_> {
    fn diagnostic(&mut self, d: &Diagnostic) {
        let main = if d.severity == Severity::Error {
            RED
        } else {
            YELLOW
        };
        if let Some(at) = self.sources.lookup(d.span.lo) {
            let place = format!("{}:{}:{}: ", at.file, at.line, at.column);
            self.paint(BOLD, &place);
        }
        self.paint(main, &format!("{}[{}]", d.severity.word(), d.code));
        self.paint(BOLD, &format!(": {}", d.message));
        self.out.push('\n');
        let gutter = self.gutter(d);
        self.excerpt(d.span, gutter, '^', main, "");
        for label in &d.labels {
            self.label(d, label, gutter);
        }
        for note in &d.notes {
            self.remark(gutter, "note", note);
        }
        if let Some(hint) = &d.hint {
            self.remark(gutter, "hint", hint);
        }
    }

    /// Returns the number of digits of the longest line number in the diagnostic.
    fn gutter(&self, d: &Diagnostic) -> usize {
        let spans = std::iter::once(d.span).chain(d.labels.iter().map(|l| l.span));
        spans
            .filter_map(|s| self.sources.lookup(s.lo))
            .map(|at| at.line.to_string().len())
            .max()
            .unwrap_or(1)
    }

    fn label(&mut self, d: &Diagnostic, label: &Label, gutter: usize) {
        let Some(at) = self.sources.lookup(label.span.lo) else {
            return self.remark(gutter, "note", &label.message);
        };
        if self
            .sources
            .lookup(d.span.lo)
            .is_none_or(|primary| primary.file != at.file)
        {
            let place = format!("{:gutter$}--> {}:{}:{}\n", "", at.file, at.line, at.column);
            self.paint(BLUE, &place);
        }
        self.excerpt(label.span, gutter, '-', BLUE, &label.message);
    }

    fn excerpt(&mut self, span: Span, gutter: usize, mark: char, style: &str, message: &str) {
        let Some(at) = self.sources.lookup(span.lo) else {
            return;
        };
        let shown = excerpt(at.text, at.byte, LINE_SHOWN);
        let mut text = String::new();
        if shown.start > 0 {
            text.push_str(ELLIPSIS);
        }
        let byte = at.byte - shown.start + text.len();
        text.push_str(shown.text);
        let number = at.line.to_string();
        self.paint(BLUE, &format!("{number:>gutter$} | "));
        self.out.push_str(&text);
        if shown.is_cut_behind {
            self.out.push_str(ELLIPSIS);
        }
        self.out.push('\n');
        self.paint(BLUE, &format!("{:gutter$} | ", ""));
        // Tabs stay tabs, so that the marks are aligned with the text above.
        self.out.extend(
            text[..byte]
                .chars()
                .map(|c| if c == '\t' { '\t' } else { ' ' }),
        );
        let covered = (span.hi.saturating_sub(span.lo) as usize).min(text.len() - byte);
        let width = text
            .bytes()
            .skip(byte)
            .take(covered)
            .filter(|b| b & 0xC0 != 0x80)
            .count()
            .max(1);
        let mut marks: String = std::iter::repeat_n(mark, width).collect();
        if !message.is_empty() {
            marks.push(' ');
            marks.push_str(message);
        }
        self.paint(style, &marks);
        self.out.push('\n');
    }

    fn remark(&mut self, gutter: usize, word: &str, text: &str) {
        self.paint(BLUE, &format!("{:gutter$} = ", ""));
        self.paint(BOLD, &format!("{word}: "));
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn paint(&mut self, style: &str, text: &str) {
        if self.colour {
            self.out.push_str(style);
            self.out.push_str(text);
            self.out.push_str(RESET);
        } else {
            self.out.push_str(text);
        }
    }
}

fn diagnostic_json(d: &Diagnostic, sources: &SourceMap) -> String {
    let hint = d.hint.as_deref().map_or("null".to_string(), json_string);
    let notes: Vec<String> = d.notes.iter().map(|n| json_string(n)).collect();
    let labels: Vec<String> = d
        .labels
        .iter()
        .map(|l| {
            format!(
                "{{{}, \"message\": {}}}",
                place_json(l.span, sources),
                json_string(&l.message)
            )
        })
        .collect();
    format!(
        "{{{}, \"severity\": \"{}\", \"code\": \"{}\", \"message\": {}, \"hint\": {hint}, \"notes\": [{}], \"labels\": [{}]}}",
        place_json(d.span, sources),
        d.severity.word(),
        d.code,
        json_string(&d.message),
        notes.join(", "),
        labels.join(", "),
    )
}

fn place_json(span: Span, sources: &SourceMap) -> String {
    let Some(start) = sources.lookup(span.lo) else {
        return "\"file\": null, \"line\": 0, \"column\": 0, \"end_line\": 0, \"end_column\": 0"
            .to_string();
    };
    let end = sources.lookup(span.hi).unwrap_or(start);
    format!(
        "\"file\": {}, \"line\": {}, \"column\": {}, \"end_line\": {}, \"end_column\": {}",
        json_string(start.file),
        start.line,
        start.column,
        end.line,
        end.column
    )
}

fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns the candidate most similar to `name`, if at most a third of the name's characters
/// differ.
pub fn suggest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = name.chars().count() / 3;
    let near = |candidate: &'a str| {
        if candidate == name || name.is_empty() {
            return None;
        }
        if candidate.eq_ignore_ascii_case(name) {
            return Some((0, candidate));
        }
        let distance = edit_distance(name, candidate, limit)?;
        Some((distance, candidate))
    };
    candidates
        .into_iter()
        .take(CANDIDATES)
        .filter_map(near)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the number of insertions, deletions, replacements and swaps of neighbours between two
/// words, if it is at most `limit`.
fn edit_distance(a: &str, b: &str, limit: usize) -> Option<usize> {
    // The difference of the lengths is a lower bound.
    if a.chars().count().abs_diff(b.chars().count()) > limit {
        return None;
    }
    Some(strsim::osa_distance(a, b)).filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> SourceMap {
        let mut map = SourceMap::new();
        map.add("dir/a.p4", "const bit x = y;\n\tbit<8> long_name;\n")
            .unwrap();
        map.add("b.p4", "header h {}\n").unwrap();
        map
    }

    #[test]
    fn text_names_the_place_shows_the_line_and_says_what_to_do() {
        let mut all = Diagnostics::new();
        let second = Diagnostic::error("E0002", Span::new(26, 35), "second")
            .label(Span::new(45, 46), "declared here")
            .note("a fact");
        all.push(second);
        all.push(
            Diagnostic::error("E0001", Span::new(15, 16), "`y` is unknown")
                .hint("did you mean `x`?"),
        );
        let expect = "\
dir/a.p4:1:15: error[E0001]: `y` is unknown
1 | const bit x = y;
  |               ^
  = hint: did you mean `x`?

dir/a.p4:2:9: error[E0002]: second
2 | \tbit<8> long_name;
  | \t       ^^^^^^^^^
 --> b.p4:1:8
1 | header h {}
  |        - declared here
  = note: a fact
";
        assert_eq!(all.render(&map(), false), expect);
    }

    #[test]
    fn the_same_said_twice_is_said_once_and_the_list_is_capped() {
        let mut all = Diagnostics::new();
        for i in 0..60 {
            all.push(Diagnostic::error(
                "E0001",
                Span::new(1 + i % 55, 2 + i % 55),
                "bad",
            ));
        }
        assert_eq!(all.error_count(), 55);
        assert!(
            all.render(&map(), false)
                .ends_with("\n... and 5 more errors\n")
        );
    }

    #[test]
    fn json_is_escaped_and_complete() {
        let mut all = Diagnostics::new();
        assert_eq!(all.to_json(&map()), "[]\n");
        all.push(
            Diagnostic::warning("W0001", Span::new(1, 6), "a \"quoted\"\nline")
                .label(Span::new(7, 10), "l"),
        );
        let expect = "[\n  {\"file\": \"dir/a.p4\", \"line\": 1, \"column\": 1, \"end_line\": 1, \"end_column\": 6, \
            \"severity\": \"warning\", \"code\": \"W0001\", \"message\": \"a \\\"quoted\\\"\\nline\", \"hint\": null, \
            \"notes\": [], \"labels\": [{\"file\": \"dir/a.p4\", \"line\": 1, \"column\": 7, \"end_line\": 1, \
            \"end_column\": 10, \"message\": \"l\"}]}\n]\n";
        assert_eq!(all.to_json(&map()), expect);
    }

    #[test]
    fn only_near_names_are_suggested() {
        let names = ["ipv4_dst", "ethernet", "apply"];
        assert_eq!(suggest("ipv4_dts", names), Some("ipv4_dst"));
        assert_eq!(suggest("Ethernet", names), Some("ethernet"));
        assert_eq!(suggest("aply", names), Some("apply"));
        assert_eq!(suggest("vlan", names), None);
        assert_eq!(suggest("apply", ["apply"]), None);
    }
}
