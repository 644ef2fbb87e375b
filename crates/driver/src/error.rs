//! Error type for callers that need a program or a reason as text.

use std::fmt;
use std::path::PathBuf;

use passes::compose::{ComposeError, PolicyError};
use syntax::files::ReadError;

use crate::SourceDiagnostics;

/// The reason why there is no program.
#[derive(Debug)]
pub enum CompileError {
    /// Programs or policies have errors. Each text that has diagnostics is listed.
    Diagnostics(Vec<SourceDiagnostics>),
    /// A policy file cannot be read.
    Read {
        /// The policy file.
        file: PathBuf,
        /// The reason.
        error: ReadError,
    },
    /// The names of steps form no policy.
    Policy(PolicyError),
    /// The programs of steps cannot be composed.
    Compose(ComposeError),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::Diagnostics(texts) => texts
                .iter()
                .try_for_each(|diagnostics| f.write_str(&diagnostics.render(false))),
            CompileError::Read { file, error } => match error {
                ReadError::NotText => write!(f, "{} is not a text file", file.display()),
                ReadError::System(_) | ReadError::TooLarge(_) => {
                    write!(f, "cannot read {}: {error}", file.display())
                }
            },
            CompileError::Policy(error) => error.fmt(f),
            CompileError::Compose(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CompileError {}

impl From<CompileError> for String {
    fn from(error: CompileError) -> String {
        error.to_string()
    }
}
