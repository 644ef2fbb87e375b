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

/// Where the lines of a text begin.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn of(text: &str) -> Lines {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Lines(ends.map(|(at, _)| at + 1).collect())
    }

    /// The line, from 1, of a byte.
    pub(super) fn of_byte(&self, at: usize) -> usize {
        1 + self.0.partition_point(|start| *start <= at)
    }
}
