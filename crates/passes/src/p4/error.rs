//! The error for an IR program that P4_16 text cannot express.

use std::fmt;

/// A construct of the IR that P4_16 text for v1model cannot express, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintError {
    /// The construct.
    pub construct: String,
    /// The block, action or table that contains it, with its source position if that is known.
    pub place: String,
}

impl PrintError {
    pub(super) fn new(construct: impl Into<String>, place: impl Into<String>) -> PrintError {
        PrintError {
            construct: construct.into(),
            place: place.into(),
        }
    }
}

impl fmt::Display for PrintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: P4_16 for v1model has no text for {}",
            self.place, self.construct
        )
    }
}

impl std::error::Error for PrintError {}
