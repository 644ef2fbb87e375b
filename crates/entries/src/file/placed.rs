//! A parsed entries file: its updates, with the position of each statement.

use crate::error::{EntriesError, EntryError};
use crate::restriction;
use crate::schema::Schema;
use crate::update::Update;

/// Updates of an entries file.
#[derive(Clone, Debug)]
pub struct EntriesFile<'a> {
    file: &'a str,
    text: &'a str,
    updates: Vec<Update>,
    /// Byte range of the first line of each update's statement.
    places: Vec<(usize, usize)>,
}

impl<'a> EntriesFile<'a> {
    pub(super) fn new(
        file: &'a str,
        text: &'a str,
        updates: Vec<Update>,
        places: Vec<(usize, usize)>,
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

    /// Returns the error of an update that breaks a restriction of its table or of an action.
    pub fn broken_restriction(&self, schema: &Schema, update: usize) -> Option<EntryError> {
        let at = self.places.get(update).copied().unwrap_or_default();
        let broken = restriction::check(schema, self.updates.get(update)?, at).err()?;
        Some(broken.locate(self.file, self.text))
    }

    /// Returns an error at an update's statement, for errors found after parsing.
    pub fn error(&self, update: usize, message: impl Into<String>) -> EntryError {
        let place = self.places.get(update).copied().unwrap_or_default();
        EntriesError::new(place, message).locate(self.file, self.text)
    }
}
