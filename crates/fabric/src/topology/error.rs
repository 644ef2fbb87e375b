//! Errors of topology files.

use std::fmt;

/// One error in a topology file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyLineError {
    /// Line number, from 1.
    pub line: usize,
    /// Description of the error.
    pub message: String,
    /// Hint how to fix it.
    pub mend: String,
}

/// All errors of a topology file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyError {
    /// File name as given by the user.
    pub file: String,
    /// The errors in the order in which they were found, at least one.
    pub mistakes: Vec<TopologyLineError>,
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, mistake) in self.mistakes.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            let TopologyLineError {
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

/// Start offsets of the lines of a text, except the first.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn of(text: &str) -> Lines {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Lines(ends.map(|(at, _)| at + 1).collect())
    }

    /// Returns the line number, from 1, of a byte offset.
    pub(super) fn of_byte(&self, at: usize) -> usize {
        1 + self.0.partition_point(|start| *start <= at)
    }
}
