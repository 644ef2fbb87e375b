//! Errors with a position in the text.

use std::fmt;

/// An error in a text, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryError {
    /// The file as the user named it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Length of the marked text in characters.
    pub length: u32,
    /// The error message.
    pub message: String,
    /// Suggests how to fix the error.
    pub hint: Option<String>,
    /// The line's text.
    pub text: String,
}

/// Maximum number of characters shown of a line, and how many of them precede the marked text if
/// the line is cut.
const SHOWN: usize = 160;
const SHOWN_BEFORE: usize = 40;

impl EntryError {
    /// Returns the line, and the number of characters before the marked text. A long line is cut
    /// around the marked text.
    fn excerpt(&self) -> (String, usize) {
        let before = self.column.saturating_sub(1) as usize;
        let length = self.text.chars().count();
        if length <= SHOWN {
            return (self.text.clone(), before);
        }
        let first = match before < SHOWN - SHOWN_BEFORE {
            true => 0,
            false => (before - SHOWN_BEFORE).min(length - SHOWN),
        };
        let shown: String = self.text.chars().skip(first).take(SHOWN).collect();
        let cut_before = if first > 0 { "..." } else { "" };
        let cut_behind = if first + SHOWN < length { "..." } else { "" };
        let text = format!("{cut_before}{shown}{cut_behind}");
        (text, before - first + cut_before.len())
    }
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        let (text, before) = self.excerpt();
        let blank = |c| if c == '\t' { '\t' } else { ' ' };
        let indent: String = text.chars().take(before).map(blank).collect();
        let marked = text.chars().count().saturating_sub(before);
        let marks = (self.length as usize).min(marked).max(1);
        writeln!(
            f,
            "{}:{}:{}: error: {}",
            self.file, self.line, self.column, self.message
        )?;
        writeln!(f, "{gutter} |")?;
        writeln!(f, "{number} | {text}")?;
        write!(f, "{gutter} | {indent}{}", "^".repeat(marks))?;
        match &self.hint {
            Some(hint) => write!(f, "\n{gutter} = hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for EntryError {}

/// An error with byte offsets, before these are converted to line and column.
#[derive(Clone, Debug)]
pub(crate) struct EntriesError {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl EntriesError {
    pub(crate) fn new(at: (usize, usize), message: impl Into<String>) -> EntriesError {
        EntriesError {
            start: at.0,
            end: at.1,
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> EntriesError {
        self.hint = Some(hint.into());
        self
    }

    /// Moves the error to a text in which this one begins at `start`.
    pub(crate) fn moved(mut self, start: usize) -> EntriesError {
        self.start += start;
        self.end += start;
        self
    }

    /// Returns the message and the hint without the position.
    pub(crate) fn into_line(self) -> String {
        match self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message,
        }
    }

    /// Converts the offsets to line and column in `text`.
    pub(crate) fn locate(self, file: &str, text: &str) -> EntryError {
        let start = self.start.min(text.len());
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let line_text = text[line_start..line_end].trim_end_matches('\r');
        let mut end = self.end.clamp(start, line_end.max(start));
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        EntryError {
            file: file.to_string(),
            line: text[..line_start].matches('\n').count() as u32 + 1,
            column: text[line_start..start].chars().count() as u32 + 1,
            length: text[start..end].chars().count().max(1) as u32,
            message: self.message,
            hint: self.hint,
            text: line_text.to_string(),
        }
    }
}
