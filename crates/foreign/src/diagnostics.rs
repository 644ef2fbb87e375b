//! Diagnostics of C code: the compiler's messages, and findings of our own.

use std::fmt;

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The code cannot be used.
    Error,
    /// The code can be used.
    Warning,
    /// Addition to the diagnostic before it.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        })
    }
}

/// Place in the user's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodePlace {
    /// The file, as the caller named it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, if it is known.
    pub column: Option<u32>,
}

impl fmt::Display for CodePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        match self.column {
            Some(column) => write!(f, ":{column}"),
            None => Ok(()),
        }
    }
}

/// Diagnostic about C code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeDiagnostic {
    /// The place, if it is known.
    pub place: Option<CodePlace>,
    /// Its severity.
    pub severity: Severity,
    /// Its text: one line.
    pub text: String,
}

impl fmt::Display for CodeDiagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        write!(f, "{}: {}", self.severity, self.text)
    }
}

/// Maximum number of diagnostics that are kept.
pub(crate) const MAX_DIAGNOSTICS: usize = 100;

/// Reads the messages of a C compiler (GCC, Clang or TinyCC). Lines that quote the code are
/// skipped.
pub(crate) fn read(output: &str) -> Vec<CodeDiagnostic> {
    let lines = output.lines().filter_map(read_line);
    lines.take(MAX_DIAGNOSTICS).collect()
}

/// Returns the messages without those about the calls of the handlers, with their notes: a wrong
/// signature has a message of its own. If there are no others, all stay.
pub(crate) fn without_calls(all: Vec<CodeDiagnostic>, calls: &str) -> Vec<CodeDiagnostic> {
    let mut kept = Vec::new();
    let mut is_about_calls = false;
    for one in &all {
        if one.severity != Severity::Note {
            let file = one.place.as_ref().map(|place| place.file.as_str());
            is_about_calls = file == Some(calls);
        }
        if !is_about_calls {
            kept.push(one.clone());
        }
    }
    match kept.iter().any(|one| one.severity == Severity::Error) {
        true => kept,
        false => all,
    }
}

fn read_line(line: &str) -> Option<CodeDiagnostic> {
    let kinds = [
        (" fatal error: ", Severity::Error),
        (" error: ", Severity::Error),
        (" warning: ", Severity::Warning),
        (" note: ", Severity::Note),
    ];
    let found = kinds.iter().filter_map(|(word, severity)| {
        let at = line.find(word)?;
        Some((at, at + word.len(), *severity))
    });
    let (at, end, severity) = found.min()?;
    let text = line[end..].trim().to_owned();
    let before = line[..at].strip_suffix(':')?;
    let place = place(before);
    // A line that quotes the code has a number and a bar first.
    (place.is_some() || !before.contains('|')).then_some(CodeDiagnostic {
        place,
        severity,
        text,
    })
}

/// Reads `file:line:column` or `file:line`.
fn place(text: &str) -> Option<CodePlace> {
    let (rest, last) = text.rsplit_once(':')?;
    let last: u32 = last.parse().ok()?;
    let with_column = rest.rsplit_once(':').and_then(|(file, line)| {
        let line = line.parse().ok()?;
        Some((file, line, Some(last)))
    });
    let (file, line, column) = with_column.unwrap_or((rest, last, None));
    Some(CodePlace {
        file: file.to_owned(),
        line,
        column,
    })
}

impl PartialOrd for Severity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Severity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (*self as u8).cmp(&(*other as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_about_calls_are_left_out_beside_others() {
        let check = |lines: &[&str], expected: &[&str]| {
            let kept = without_calls(read(&lines.join("\n")), "calls.c");
            let kept: Vec<String> = kept.iter().map(ToString::to_string).collect();
            assert_eq!(kept, expected);
        };
        let own = "app.p4c:1:5: error: conflicting types for 'h'";
        let note = "clip.h:9:5: note: previous declaration";
        let call = "calls.c:3:1: error: too many arguments";
        let about = "app.p4c:1:5: note: declared here";
        check(&[own, note, call, about], &[own, note]);
        check(&[call, about, own, note], &[own, note]);
        check(&[call, about], &[call, about]);
        check(&[], &[]);
    }

    #[test]
    fn messages_of_compilers_have_places() {
        for (line, expect) in [
            (
                "app.p4c:12:5: error: x undeclared",
                Some("app.p4c:12:5: error: x undeclared"),
            ),
            (
                "a:b.c:3: error: ';' expected",
                Some("a:b.c:3: error: ';' expected"),
            ),
            (
                "a.c:1:2: warning: a error: b",
                Some("a.c:1:2: warning: a error: b"),
            ),
            (
                "a.c:1:10: fatal error: x.h: No such file",
                Some("a.c:1:10: error: x.h: No such file"),
            ),
            ("   12 |     int x = \" error: \";", None),
            ("a.c: In function 'h':", None),
            ("cc1: error: bad value", Some("error: bad value")),
            ("compilation terminated.", None),
        ] {
            let read = read_line(line).map(|one| one.to_string());
            assert_eq!(read.as_deref(), expect, "{line}");
        }
    }
}
