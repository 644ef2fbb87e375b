//! Source positions. The files of a compilation are placed end to end in one position space.
//!
//! A [`Span`] has eight bytes and needs no file number: each file owns a range of positions.
//! [`SourceMap::lookup`] returns the file, line and column. `#line` directives change the reported
//! lines, never the positions.

use std::sync::Arc;

/// A half-open range of positions `lo..hi` in the [`SourceMap`]'s space. Position 0 belongs to no
/// file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The first byte.
    pub lo: u32,
    /// One past the last byte.
    pub hi: u32,
}

impl Span {
    /// The span of generated code without a source position.
    pub const NONE: Span = Span { lo: 0, hi: 0 };

    /// Creates the span from `lo` up to `hi`.
    pub fn new(lo: u32, hi: u32) -> Span {
        Span { lo, hi }
    }

    /// Returns the smallest span that covers both. [`Span::NONE`] adds nothing. Neither does a part
    /// before the start: a macro's expansion may end in another place than it began.
    pub fn to(self, end: Span) -> Span {
        if self.lo == 0 {
            return end;
        }
        Span {
            lo: self.lo,
            hi: self.hi.max(end.hi),
        }
    }

    /// Returns the empty span right after this one.
    pub fn end(self) -> Span {
        Span {
            lo: self.hi,
            hi: self.hi,
        }
    }

    /// Returns true if this is [`Span::NONE`].
    pub fn is_none(self) -> bool {
        self.lo == 0
    }
}

/// A `#line` directive. From physical line `physical` (from 0) on, lines are reported from `line`
/// in `path`.
#[derive(Clone, Debug)]
struct LineMark {
    physical: usize,
    line: u32,
    path: Option<Arc<str>>,
}

/// One file of the map.
#[derive(Clone, Debug)]
pub struct SourceFile {
    path: Arc<str>,
    text: Arc<str>,
    base: u32,
    line_starts: Vec<u32>,
    marks: Vec<LineMark>,
}

impl SourceFile {
    /// Returns the path as written by the user, or as built from a search directory.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the whole text without copying it.
    pub(crate) fn shared_text(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// Returns the position of the first byte.
    pub fn base(&self) -> u32 {
        self.base
    }

    fn physical_line(&self, offset: u32) -> usize {
        self.line_starts
            .partition_point(|&start| start <= offset)
            .saturating_sub(1)
    }

    fn line_text(&self, physical: usize) -> &str {
        let start = self.line_starts.get(physical).copied().unwrap_or(0) as usize;
        let end = self
            .line_starts
            .get(physical + 1)
            .map_or(self.text.len(), |&next| next as usize);
        self.text
            .get(start..end)
            .unwrap_or("")
            .trim_end_matches(['\n', '\r'])
    }
}

/// A source position for people.
#[derive(Clone, Copy, Debug)]
pub struct Location<'a> {
    /// The file, after `#line`.
    pub file: &'a str,
    /// The line, from 1, after `#line`.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
    /// The text of the line without its end.
    pub text: &'a str,
    /// The byte offset of `column` in `text`.
    pub byte: usize,
}

/// The files of one compilation.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

impl SourceMap {
    /// Creates an empty map.
    pub fn new() -> SourceMap {
        SourceMap::default()
    }

    /// Adds a file and returns its index. Returns `None` if all files together exceed 4 GiB.
    pub fn add(&mut self, path: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Option<usize> {
        let text: Arc<str> = text.into();
        let base = self
            .files
            .last()
            .map_or(1, |f| f.base + f.text.len() as u32 + 1);
        let length = u32::try_from(text.len()).ok()?;
        base.checked_add(length)?.checked_add(1)?;
        let mut line_starts = vec![0];
        line_starts.extend(
            text.bytes()
                .enumerate()
                .filter(|&(_, b)| b == b'\n')
                .map(|(i, _)| i as u32 + 1),
        );
        self.files.push(SourceFile {
            path: path.into(),
            text,
            base,
            line_starts,
            marks: Vec::new(),
        });
        Some(self.files.len() - 1)
    }

    /// Returns the files in the order in which they were first read. The first is the program.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Returns the index of the file that owns a position.
    pub fn file_of(&self, position: u32) -> Option<usize> {
        let index = self
            .files
            .partition_point(|f| f.base <= position)
            .checked_sub(1)?;
        (position <= self.files[index].base + self.files[index].text.len() as u32).then_some(index)
    }

    /// Returns the location of a position.
    pub fn lookup(&self, position: u32) -> Option<Location<'_>> {
        let file = &self.files[self.file_of(position)?];
        let offset = position - file.base;
        let physical = file.physical_line(offset);
        let text = file.line_text(physical);
        let start = file.line_starts[physical] as usize;
        let mut byte = (offset as usize - start).min(text.len());
        while !text.is_char_boundary(byte) {
            byte -= 1;
        }
        let column = text[..byte].chars().count() as u32 + 1;
        let mark = file
            .marks
            .partition_point(|m| m.physical <= physical)
            .checked_sub(1)
            .map(|i| &file.marks[i]);
        let (path, line) = match mark {
            Some(m) => (
                m.path.as_deref().unwrap_or(&file.path),
                m.line.saturating_add((physical - m.physical) as u32),
            ),
            None => (&*file.path, physical as u32 + 1),
        };
        Some(Location {
            file: path,
            line,
            column,
            text,
            byte,
        })
    }

    /// Returns the text of a span; empty if it is not inside one file.
    pub fn text(&self, span: Span) -> &str {
        let Some(file) = self.file_of(span.lo).map(|i| &self.files[i]) else {
            return "";
        };
        let (lo, hi) = (span.lo - file.base, span.hi.saturating_sub(file.base));
        file.text.get(lo as usize..hi as usize).unwrap_or("")
    }

    /// Records a `#line` directive at `position`: the next physical line is line `line` of `path`.
    pub(crate) fn mark_line(&mut self, position: u32, line: u32, path: Option<Arc<str>>) {
        let Some(file) = self.file_of(position).map(|i| &mut self.files[i]) else {
            return;
        };
        let physical = file.physical_line(position - file.base) + 1;
        let path = path.or_else(|| file.marks.last().and_then(|m| m.path.clone()));
        // A file that is included twice reaches the same marks again.
        if file.marks.last().is_none_or(|m| m.physical < physical) {
            file.marks.push(LineMark {
                physical,
                line,
                path,
            });
        }
    }
}

/// Excerpt of a line that may be long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excerpt<'t> {
    /// The byte offset of its start in the line.
    pub start: usize,
    /// The text of the excerpt.
    pub text: &'t str,
    /// True if the line continues after it.
    pub is_cut_behind: bool,
}

/// Number of characters shown before the position if a line is cut.
const SHOWN_BEFORE: usize = 16;

/// Returns at most `most` characters of a line around byte `at`. The time depends on those
/// characters only, not on the length of the line.
pub fn excerpt(line: &str, at: usize, most: usize) -> Excerpt<'_> {
    let at = line.floor_char_boundary(at);
    let near = most.saturating_sub(SHOWN_BEFORE);
    let is_far = near.checked_sub(1).is_none_or(|last| {
        let mut characters = line.char_indices();
        characters.nth(last).is_some_and(|(byte, _)| byte < at)
    });
    let start = match is_far {
        true => {
            // If the line ends soon after the position, it is shown up to its end.
            let after = line[at..].chars().take(near).count();
            let back = (most - after.min(most)).max(SHOWN_BEFORE);
            let mut starts = line[..at].char_indices().rev();
            starts.nth(back - 1).map_or(0, |(byte, _)| byte)
        }
        // The text from the line's start to the position fits.
        false => 0,
    };
    let end = line[start..]
        .char_indices()
        .nth(most)
        .map_or(line.len(), |(byte, _)| start + byte);
    Excerpt {
        start,
        text: &line[start..end],
        is_cut_behind: end < line.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_found_again_in_its_file() {
        let mut map = SourceMap::new();
        map.add("a.p4", "one\ntwo\n").unwrap();
        map.add("b.p4", "é x\r\nlast").unwrap();
        let at = |p| {
            map.lookup(p)
                .map(|l| (l.file.to_string(), l.line, l.column, l.text.to_string()))
        };
        assert_eq!(at(0), None);
        assert_eq!(at(1), Some(("a.p4".into(), 1, 1, "one".into())));
        assert_eq!(at(6), Some(("a.p4".into(), 2, 2, "two".into())));
        assert_eq!(
            at(9),
            Some(("a.p4".into(), 3, 1, "".into())),
            "the end of a file belongs to it"
        );
        assert_eq!(
            at(13),
            Some(("b.p4".into(), 1, 3, "é x".into())),
            "columns count characters"
        );
        assert_eq!(at(20), Some(("b.p4".into(), 2, 5, "last".into())));
        assert_eq!(at(21), None);
        assert_eq!(map.text(Span::new(5, 8)), "two");
    }

    #[test]
    fn line_directives_change_what_is_reported_from_the_next_line_on() {
        let mut map = SourceMap::new();
        map.add("a.p4", "x\n#line 40 \"gen.y\"\ny\n#line 7\nz\n")
            .unwrap();
        map.mark_line(3, 40, Some("gen.y".into()));
        map.mark_line(3 + 19, 7, None);
        let at = |p| map.lookup(p).map(|l| (l.file.to_string(), l.line));
        assert_eq!(at(1), Some(("a.p4".into(), 1)));
        assert_eq!(at(20), Some(("gen.y".into(), 40)));
        assert_eq!(at(30), Some(("gen.y".into(), 7)));
    }
}
