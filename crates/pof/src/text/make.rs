//! A switch's objects of a text.

use std::fmt;

use super::{ObjectTextError, TextReader};
use crate::forwarder::Forwarder;
use crate::wire::ErrorCode;

/// Error of a text of which a switch has made the objects up to a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MakeTextError {
    /// A line is not one of the language.
    Line(ObjectTextError),
    /// The switch refuses the object of a line.
    Refused {
        /// Number of the line, from 1.
        line: usize,
        /// The switch's reason.
        error: ErrorCode,
    },
}

impl fmt::Display for MakeTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MakeTextError::Line(error) => error.fmt(f),
            MakeTextError::Refused { line, error } => {
                let meaning = error.meaning();
                write!(f, "line {line}: a switch refuses it: {error}: {meaning}")
            }
        }
    }
}

impl std::error::Error for MakeTextError {}

impl Forwarder {
    /// Makes the objects of a text, line by line.
    ///
    /// # Errors
    /// A line is wrong, or is refused. The objects of the lines before it are made.
    pub fn make_text(&mut self, text: &str) -> Result<(), MakeTextError> {
        let mut reader = TextReader::new(self.tables().clone());
        for line in text.lines() {
            let Some(body) = reader.read(line).map_err(MakeTextError::Line)? else {
                continue;
            };
            let line = reader.line();
            let refused = |error| MakeTextError::Refused { line, error };
            self.make(&body).map_err(refused)?;
        }
        Ok(())
    }
}
