//! What is wrong with a topology.

use std::fmt;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub mend: String,
}

/// All that is wrong with a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyError {
    /// The file as the user named it.
    pub file: String,
    /// In the order of being found, at least one.
    pub mistakes: Vec<Mistake>,
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, mistake) in self.mistakes.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            let Mistake {
                line,
                message,
                mend,
            } = mistake;
            write!(
                f,
                "{}:{line}: error: {message}\n  = hint: {mend}",
                self.file
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for TopologyError {}

/// The line of a place in a text.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    1 + before.filter(|byte| **byte == b'\n').count()
}
