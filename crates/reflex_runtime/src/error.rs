//! Errors of a plane's process.

use std::fmt;

/// Error of opening or running a plane: a message with what failed and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessError(pub(crate) String);

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProcessError {}

impl ProcessError {
    pub(crate) fn new(message: impl fmt::Display) -> ProcessError {
        ProcessError(message.to_string())
    }
}
