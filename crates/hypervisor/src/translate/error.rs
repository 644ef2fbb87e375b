//! Errors for constructs that entries cannot express.

use std::fmt;

use ir::{Loc, Program};

/// A construct that the hypervisor does not support, and its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranslateError {
    /// The construct.
    pub what: String,
    /// Its location in the function's source.
    pub loc: Option<Loc>,
}

impl TranslateError {
    /// Adds a location, unless there is a more specific one.
    pub(super) fn at(self, loc: Option<Loc>) -> TranslateError {
        TranslateError {
            loc: self.loc.or(loc),
            ..self
        }
    }

    /// Formats the error with file, line and column.
    pub fn text(&self, program: &Program) -> String {
        let what = &self.what;
        let place = self
            .loc
            .and_then(|loc| Some((loc, program.files.get(loc.file as usize)?)));
        match place {
            Some((Loc { line, column, .. }, file)) => {
                format!("{file}:{line}:{column}: the hypervisor does not express {what}")
            }
            None => self.to_string(),
        }
    }
}

impl fmt::Display for TranslateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the hypervisor does not express {}", self.what)
    }
}

impl std::error::Error for TranslateError {}

/// Returns the error for a construct.
pub(super) fn refuse<T>(what: impl Into<String>, loc: Option<Loc>) -> Result<T, TranslateError> {
    Err(TranslateError {
        what: what.into(),
        loc,
    })
}
