//! Mistakes of a file, and their collection while it is checked.

use std::fmt;

use toml::Spanned;

use crate::Text;
use crate::quantity::Quantity;

/// Maximum number of mistakes that are reported.
pub const MAX_MISTAKES: usize = 100;

/// One mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMistake {
    /// Line number, from 1.
    pub line: usize,
    /// Description of the mistake.
    pub message: String,
    /// Hint how to correct it.
    pub mend: String,
}

/// All mistakes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// File name as given by the user.
    pub file: String,
    /// The mistakes in the order in which they were found, at least one.
    pub mistakes: Vec<FileMistake>,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, mistake) in self.mistakes.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            let FileMistake {
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

impl std::error::Error for FileError {}

/// Collector of the mistakes of one file, at most [`MAX_MISTAKES`] and a last one that says so.
#[derive(Clone, Debug)]
pub struct Mistakes {
    /// Start offsets of the lines, except the first.
    line_starts: Vec<usize>,
    list: Vec<FileMistake>,
}

impl Mistakes {
    /// Creates the collector for a text.
    pub fn of(text: &str) -> Mistakes {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Mistakes {
            line_starts: ends.map(|(at, _)| at + 1).collect(),
            list: Vec::new(),
        }
    }

    /// Returns whether there is no mistake.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the mistakes.
    pub fn into_list(self) -> Vec<FileMistake> {
        self.list
    }

    /// Returns the line number, from 1, of a byte offset.
    pub fn line_of(&self, at: usize) -> usize {
        1 + self.line_starts.partition_point(|start| *start <= at)
    }

    /// Returns the line number, from 1, of a value.
    pub fn line<T>(&self, at: &Spanned<T>) -> usize {
        self.line_of(at.span().start)
    }

    /// Adds a mistake.
    pub fn add(&mut self, mistake: FileMistake) {
        match self.list.len() {
            ..MAX_MISTAKES => self.list.push(mistake),
            MAX_MISTAKES => self.list.push(FileMistake {
                line: mistake.line,
                message: format!("there are more than {MAX_MISTAKES} mistakes"),
                mend: "correct those above first".to_owned(),
            }),
            _ => {}
        }
    }

    /// Adds a mistake of a value.
    pub fn at<T>(&mut self, at: &Spanned<T>, message: String, mend: impl Into<String>) {
        self.add(FileMistake {
            line: self.line(at),
            message,
            mend: mend.into(),
        });
    }

    /// Reads a quantity, or adds a mistake.
    pub fn quantity(&mut self, text: &Text, quantity: Quantity) -> Option<u64> {
        let parsed = quantity.parse(text.get_ref());
        if parsed.is_none() {
            let message = format!("\"{}\" is not understood", text.get_ref());
            self.at(text, message, quantity.form());
        }
        parsed
    }

    /// Reads a number that is at least `least` and fits its type, or adds a mistake. `default` is
    /// the number where none is given.
    pub fn number<T: TryFrom<i64>>(
        &mut self,
        given: &Option<Spanned<i64>>,
        least: i64,
        default: T,
    ) -> T {
        let Some(given) = given else {
            return default;
        };
        let number = *given.get_ref();
        match T::try_from(number) {
            Ok(fits) if number >= least => fits,
            _ => {
                let message = format!(
                    "{number} is too {}",
                    ["large", "small"][usize::from(number < least)]
                );
                let mend = format!("write a number from {least} on");
                self.at(given, message, mend);
                default
            }
        }
    }
}
