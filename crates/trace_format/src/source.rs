//! Source lines of the program.

use std::collections::HashMap;

use ir::Loc;
use syntax::diag::ELLIPSIS;
use syntax::source;

use super::step::Source;

/// Reads a file of the program. Returns `None` if that is not possible.
pub type ReadSource<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Source files. Each is read at its first use.
pub(crate) struct SourceLines<'a> {
    files: &'a [String],
    read: ReadSource<'a>,
    lines: HashMap<u32, Vec<String>>,
}

impl<'a> SourceLines<'a> {
    pub(crate) fn new(files: &'a [String], read: ReadSource<'a>) -> SourceLines<'a> {
        SourceLines {
            files,
            read,
            lines: HashMap::new(),
        }
    }

    /// Returns a source position with its file name and its line's text.
    pub(crate) fn at(&mut self, loc: Option<Loc>) -> Option<Source> {
        let loc = loc?;
        let file = self.files.get(loc.file as usize)?;
        let read = self.read;
        let lines = self.lines.entry(loc.file).or_insert_with(|| {
            let text = read(file).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        });
        let line = (loc.line as usize)
            .checked_sub(1)
            .and_then(|at| lines.get(at));
        Some(Source {
            file: file.clone(),
            line: loc.line,
            column: loc.column,
            text: line
                .map(|line| excerpt(line, loc.column as usize))
                .filter(|text| !text.is_empty()),
        })
    }
}

/// Maximum number of shown characters of a line.
const MAX: usize = 80;

/// Returns a line without its indentation. Of a long line, the part around `column`, which counts
/// characters from 1.
fn excerpt(line: &str, column: usize) -> String {
    let text = line.trim();
    let indentation = line.len() - line.trim_start().len();
    let at = line
        .char_indices()
        .nth(column.saturating_sub(1))
        .map_or(line.len(), |(byte, _)| byte);
    let shown = source::excerpt(text, at.saturating_sub(indentation), MAX);
    let before = if shown.start > 0 { ELLIPSIS } else { "" };
    let behind = if shown.is_cut_behind { ELLIPSIS } else { "" };
    format!("{before}{}{behind}", shown.text.trim())
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn a_long_line_is_cut_around_the_place_that_is_meant() {
        assert_eq!(excerpt("    a = b;\t", 5), "a = b;");
        let long: String = (0..100).map(|n| format!("{n:02}äö;")).collect();
        assert_eq!(long.chars().count(), 500);
        let head: String = long.chars().take(80).collect();
        assert_eq!(excerpt(&long, 1), format!("{head}..."));
        assert_eq!(excerpt(&format!("   {long}"), 20), format!("{head}..."));
        let around = excerpt(&long, 251);
        assert!(
            around.starts_with("...;47") && around.contains("50äö;"),
            "{around}"
        );
        assert_eq!(around.chars().count(), 3 + 80 + 3);
        let tail: String = long.chars().skip(420).collect();
        assert_eq!(excerpt(&long, 499), format!("...{tail}"));
        assert_eq!(
            excerpt(&long, 4000),
            format!("...{tail}"),
            "a place outside"
        );
    }
}
