//! Entries files that are read in parts: a large file is never in memory as a whole.

use super::placed::{Statement, StatementPlace};
use super::{Reader, Restrictions, read_file, without_mark};
use crate::bmv2::EntriesFormat;
use crate::error::{EntriesError, EntryError};
use crate::restriction;
use crate::schema::Schema;
use crate::update::Update;
use ir::Program;

/// Number of statements of a [`FilePart`].
const STATEMENTS: usize = 1024;

/// Number of errors of a text that are kept.
const MAX_ERRORS: usize = 1000;

/// Consecutive statements of an entries file, with their text.
#[derive(Debug)]
pub struct FilePart {
    text: String,
    /// Number of lines of the file before the text.
    lines_before: u32,
    /// Each update with the place of its statement in the text and its line in the file.
    statements: Vec<(Update, StatementPlace, u32)>,
}

impl FilePart {
    /// Hands over all updates with their statements, in the order of the file.
    pub fn each(self, mut take: impl FnMut(Update, Statement<'_>)) {
        let (text, lines_before) = (&self.text[..], self.lines_before);
        for (update, place, line) in self.statements {
            let statement = Statement {
                place,
                line,
                text,
                lines_before,
            };
            take(update, statement);
        }
    }
}

/// Reads an entries file as [`read`](super::read) does, and hands its statements to `take` as they
/// are read. `parts` gives the parts of the text, each of whole lines, and then `None`. Neither the
/// text nor the updates of a whole file of statements are in memory. After a statement that cannot
/// be read, the text up to the next line that begins one is. From the first error on, nothing is
/// handed over.
///
/// # Errors
/// The first 1,000 errors of the text.
pub fn read_parts(
    program: &Program,
    file: &str,
    parts: &mut dyn FnMut() -> Option<String>,
    take: &mut dyn FnMut(FilePart),
) -> Result<(), Vec<EntryError>> {
    let schema = Schema::of(program);
    let mut text = parts().unwrap_or_default();
    let mark = text.len() - without_mark(&text).len();
    text.drain(..mark);
    while !EntriesFormat::is_settled(&text)
        && let Some(part) = parts()
    {
        text.push_str(&part);
    }
    if EntriesFormat::of(&text) != EntriesFormat::Statements {
        while let Some(part) = parts() {
            text.push_str(&part);
        }
        let file = read_file(&schema, file, &text, Restrictions::Enforced)?;
        let statements = file.statements().map(|(update, statement)| {
            let Statement { place, line, .. } = statement;
            (update.clone(), place, line)
        });
        let statements = statements.collect();
        take(FilePart {
            text,
            lines_before: 0,
            statements,
        });
        return Ok(());
    }
    let mut reading = Reading::new(&schema, file, Restrictions::Enforced);
    loop {
        let next = parts();
        let is_whole = next.is_none();
        let mut group = Group {
            start: 0,
            lines_before: reading.lines_before,
            statements: Vec::new(),
        };
        let end = reading.statements(&text, is_whole, &mut |update, place, line| {
            let is_at_line_start = text[..place.start].ends_with('\n');
            if group.statements.len() >= STATEMENTS && is_at_line_start {
                let full = group.end_at(place.start, line - 1);
                take(full.part(&text[..place.start]));
            }
            group.statements.push((update, place, line));
        });
        if reading.errors.is_empty() && !group.statements.is_empty() {
            take(group.part(&text[..end]));
        }
        if is_whole {
            return reading.finish();
        }
        reading.lines_before += line_ends(&text[..end]);
        text.drain(..end);
        text.push_str(&next.unwrap_or_default());
    }
}

/// Statements of a [`FilePart`] to be made.
struct Group {
    /// Byte of the text at which the part begins, and the number of lines of the file before it.
    start: usize,
    lines_before: u32,
    statements: Vec<(Update, StatementPlace, u32)>,
}

impl Group {
    /// Ends the group before this byte, and begins the next one there.
    fn end_at(&mut self, start: usize, lines_before: u32) -> Group {
        let next = Group {
            start,
            lines_before,
            statements: Vec::with_capacity(STATEMENTS),
        };
        std::mem::replace(self, next)
    }

    /// Returns the part. `text` ends where it ends.
    fn part(mut self, text: &str) -> FilePart {
        for (_, place, _) in &mut self.statements {
            place.start -= self.start;
            place.end -= self.start;
        }
        FilePart {
            text: text[self.start..].to_owned(),
            lines_before: self.lines_before,
            statements: self.statements,
        }
    }
}

/// Reading of statements, from one text or from parts of it.
pub(super) struct Reading<'s> {
    schema: &'s Schema,
    file: &'s str,
    restrictions: Restrictions,
    errors: Vec<EntryError>,
    /// Number of lines before the text.
    lines_before: u32,
}

impl<'s> Reading<'s> {
    pub(super) fn new(schema: &'s Schema, file: &'s str, restrictions: Restrictions) -> Self {
        Reading {
            schema,
            file,
            restrictions,
            errors: Vec::new(),
            lines_before: 0,
        }
    }

    /// Reads statements, and hands over their updates, places in the text, and lines in the file,
    /// until the first error. If the text is not the whole rest of the file, a statement that
    /// cannot be read may be cut off if no further one follows: reading stops before it. Returns
    /// the number of bytes read.
    pub(super) fn statements(
        &mut self,
        text: &str,
        is_whole: bool,
        take: &mut dyn FnMut(Update, StatementPlace, u32),
    ) -> usize {
        let mut reader = Reader::new(self.schema, text);
        // The line of a byte.
        let (mut line, mut counted) = (self.lines_before + 1, 0);
        while reader.skip_to_statement() {
            let start = reader.at;
            match reader.statement() {
                Ok(update) => {
                    let first_line = text[start..reader.at].lines().next().unwrap_or_default();
                    let shown = first_line.split('#').next().unwrap_or_default();
                    let end = start + shown.trim_end_matches([' ', '\t', ';']).len();
                    if self.restrictions == Restrictions::Enforced
                        && let Err(fault) = restriction::check(self.schema, &update, (start, end))
                    {
                        self.fails(fault, text);
                    }
                    if self.errors.is_empty() {
                        line += line_ends(&text[counted..start]);
                        counted = start;
                        take(update, StatementPlace::of((start, end)), line);
                    }
                }
                Err(fault) => {
                    reader.skip_statement();
                    if !is_whole && reader.rest().is_empty() {
                        return start;
                    }
                    self.fails(fault, text);
                }
            }
        }
        reader.at
    }

    fn fails(&mut self, fault: EntriesError, text: &str) {
        if self.errors.len() == MAX_ERRORS {
            return;
        }
        let mut error = fault.locate(self.file, text);
        error.line += self.lines_before;
        self.errors.push(error);
    }

    pub(super) fn finish(self) -> Result<(), Vec<EntryError>> {
        match self.errors.is_empty() {
            true => Ok(()),
            false => Err(self.errors),
        }
    }
}

/// Returns the number of line ends in a text.
pub(super) fn line_ends(text: &str) -> u32 {
    text.bytes().filter(|&byte| byte == b'\n').count() as u32
}
