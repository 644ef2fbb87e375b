//! A parsed entries file: its updates, with the position of each statement.

use crate::error::{EntriesError, EntryError};
use crate::restriction;
use crate::schema::Schema;
use crate::update::Update;

/// Position of a statement in the text of an entries file: the byte range of its first line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StatementPlace {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl StatementPlace {
    pub(super) fn of((start, end): (usize, usize)) -> StatementPlace {
        StatementPlace { start, end }
    }

    /// Returns the line of the text, from 1, in which the statement begins.
    pub fn line(self, text: &str) -> u32 {
        self.error("", text, "").line
    }

    /// Returns an error at the statement, for errors found after parsing. `file` is the name of the
    /// file, and `text` its text.
    pub fn error(self, file: &str, text: &str, message: impl Into<String>) -> EntryError {
        let text = super::without_mark(text);
        EntriesError::new((self.start, self.end), message).locate(file, text)
    }
}

/// A statement that was just read, with the part of the file in which it is.
#[derive(Clone, Copy, Debug)]
pub struct Statement<'t> {
    pub(super) place: StatementPlace,
    /// The line of the file, from 1, in which the statement begins.
    pub line: u32,
    /// The text in which the place is.
    pub(super) text: &'t str,
    /// Number of lines of the file before the text.
    pub(super) lines_before: u32,
}

impl Statement<'_> {
    /// Returns an error at the statement, as [`StatementPlace::error`] does.
    pub fn error(self, file: &str, message: impl Into<String>) -> EntryError {
        let mut error = self.place.error(file, self.text, message);
        error.line += self.lines_before;
        error
    }
}

/// Updates of an entries file.
#[derive(Clone, Debug)]
pub struct EntriesFile<'a> {
    file: &'a str,
    text: &'a str,
    updates: Vec<Update>,
    /// Place of each update's statement.
    places: Vec<StatementPlace>,
}

impl<'a> EntriesFile<'a> {
    pub(super) fn new(
        file: &'a str,
        text: &'a str,
        updates: Vec<Update>,
        places: Vec<StatementPlace>,
    ) -> EntriesFile<'a> {
        EntriesFile {
            file,
            text,
            updates,
            places,
        }
    }

    /// The file as the user named it.
    pub fn name(&self) -> &'a str {
        self.file
    }

    /// The updates, in the order of the file.
    pub fn updates(&self) -> &[Update] {
        &self.updates
    }

    /// Returns the text of the file.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Removes the settings of the device, and returns them.
    pub fn take_settings(&mut self) -> Vec<Update> {
        let updates = std::mem::take(&mut self.updates);
        let places = std::mem::take(&mut self.places);
        let mut settings = Vec::new();
        for (update, place) in updates.into_iter().zip(places) {
            if update.is_setting() {
                settings.push(update);
            } else {
                self.updates.push(update);
                self.places.push(place);
            }
        }
        settings
    }

    /// Returns the line, from 1, in which the statement of an update begins.
    pub fn line(&self, update: usize) -> u32 {
        self.error(update, "").line
    }

    /// Returns the updates with the places of their statements, in the order of the file.
    pub fn placed(&self) -> impl Iterator<Item = (&Update, StatementPlace)> {
        self.updates.iter().zip(self.places.iter().copied())
    }

    /// Returns the updates with their statements, in the order of the file.
    pub fn statements(&self) -> impl Iterator<Item = (&Update, Statement<'_>)> {
        let (mut line, mut counted) = (1, 0);
        self.placed().map(move |(update, place)| {
            // Statements are in the order of the text, but for formats in which they are sorted.
            let text = super::without_mark(self.text);
            line = match text.get(counted..place.start) {
                Some(between) => line + super::parts::line_ends(between),
                None => place.line(text),
            };
            counted = place.start;
            let statement = Statement {
                place,
                line,
                text,
                lines_before: 0,
            };
            (update, statement)
        })
    }

    /// Returns the error of an update that breaks a restriction of its table or of an action.
    pub fn broken_restriction(&self, schema: &Schema, update: usize) -> Option<EntryError> {
        let place = self.places.get(update).copied().unwrap_or_default();
        let at = (place.start, place.end);
        let broken = restriction::check(schema, self.updates.get(update)?, at).err()?;
        Some(broken.locate(self.file, self.text))
    }

    /// Returns an error at an update's statement, for errors found after parsing.
    pub fn error(&self, update: usize, message: impl Into<String>) -> EntryError {
        let place = self.places.get(update).copied().unwrap_or_default();
        place.error(self.file, self.text, message)
    }
}
