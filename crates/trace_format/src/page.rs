//! Text with indented lines, colours for terminals, and source positions at the right.

use super::step::Source;

/// Column of the source positions, unless the line is longer.
const SOURCE_COLUMN: usize = 64;

/// Style of a piece of text. It selects the colour.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Heading,
    Faint,
    Good,
    Missed,
    Bad,
    Changed,
}

impl Style {
    /// Returns the ANSI sequence that starts the style.
    fn begin(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Heading => "\x1b[1m",
            Style::Faint => "\x1b[2m",
            Style::Good => "\x1b[32m",
            Style::Missed => "\x1b[33m",
            Style::Bad => "\x1b[1;31m",
            Style::Changed => "\x1b[1;36m",
        }
    }
}

/// Text under construction.
pub(crate) struct Page {
    colours: bool,
    text: String,
    /// Number of visible characters of the open line.
    column: usize,
}

impl Page {
    pub(crate) fn new(colours: bool) -> Page {
        Page {
            colours,
            text: String::new(),
            column: 0,
        }
    }

    /// Begins a line.
    pub(crate) fn begin(&mut self, depth: usize) -> &mut Page {
        self.put(Style::Plain, &"  ".repeat(depth))
    }

    /// Appends text to the line.
    pub(crate) fn put(&mut self, style: Style, text: &str) -> &mut Page {
        self.column += text.chars().count();
        let begin = style.begin();
        if self.colours && !begin.is_empty() && !text.is_empty() {
            self.text.push_str(begin);
            self.text.push_str(text);
            self.text.push_str("\x1b[0m");
        } else {
            self.text.push_str(text);
        }
        self
    }

    /// Appends unstyled text to the line.
    pub(crate) fn plain(&mut self, text: &str) -> &mut Page {
        self.put(Style::Plain, text)
    }

    /// Ends the line.
    pub(crate) fn end(&mut self) {
        self.text.push('\n');
        self.column = 0;
    }

    /// Ends the line with the source position that it belongs to.
    pub(crate) fn end_with(&mut self, source: Option<&Source>) {
        if let Some(source) = source {
            let blanks = SOURCE_COLUMN.saturating_sub(self.column).max(2);
            self.plain(&" ".repeat(blanks));
            let name = source.file.rsplit('/').next().unwrap_or_default();
            self.put(Style::Faint, &format!("{name}:{}", source.line));
            if let Some(text) = &source.text {
                self.put(Style::Faint, &format!("  {text}"));
            }
        }
        self.end();
    }

    /// Writes a whole line.
    pub(crate) fn line(&mut self, depth: usize, style: Style, text: &str) {
        self.begin(depth).put(style, text).end();
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}
