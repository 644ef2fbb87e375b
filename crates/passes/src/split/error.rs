//! The error of a program that cannot be split.

use std::fmt;

use ir::{Loc, Program};

/// A construct that keeps a program from being split, with its place and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitError {
    /// The construct and the reason.
    pub message: String,
    /// `FILE:LINE:COLUMN` of the construct, if it is known.
    pub place: Option<String>,
    /// The remedy.
    pub hint: &'static str,
}

impl SplitError {
    pub(super) fn new(
        program: &Program,
        loc: Option<Loc>,
        message: impl Into<String>,
        hint: &'static str,
    ) -> SplitError {
        SplitError {
            message: message.into(),
            place: place_of(program, loc),
            hint,
        }
    }
}

/// Returns `FILE:LINE:COLUMN` of a construct, if it is known.
pub(super) fn place_of(program: &Program, loc: Option<Loc>) -> Option<String> {
    let loc = loc?;
    let file = program.files.get(loc.file as usize)?;
    Some(format!("{file}:{}:{}", loc.line, loc.column))
}

impl fmt::Display for SplitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        write!(f, "error: {} ({})", self.message, self.hint)
    }
}

impl std::error::Error for SplitError {}
