//! Commands that this project adds to STF.
//!
//! ```text
//! entries FILE                  applies an entries file, relative to the STF file's directory
//! entry STATEMENT               applies one statement of the entries format
//! wait DURATION                 advances time: `wait 5s`, `wait 200ms`
//! expect_digest NAME VALUES..   the digest's next message; `_` is any value; braces and commas
//!                               are layout
//! expect_idle TABLE             the next idle notification is for an entry of this table
//! expect_log TEXT               the next message of log_msg, in full
//! packets PORT FILE             all packets of a capture arrive at a port
//! expect_packets PORT FILE      all packets of a capture leave by a port, in their order
//! ```
//!
//! A digest named by `expect_digest` must send exactly the expected messages, in this order. The
//! same holds for log messages if there is an `expect_log`, and for idle notifications if there is
//! an `expect_idle`.

use bits::Value;
use support::count::{are, count};

use super::{CommandKind, Line};
use crate::error::EntriesError;
use crate::file;
use crate::resolve::{self, Word};
use crate::schema::Object;
use crate::value;

/// The commands' names.
pub(super) const COMMANDS: [&str; 7] = [
    "packets",
    "expect_packets",
    "entries",
    "entry",
    "expect_digest",
    "expect_idle",
    "expect_log",
];

impl<'a> Line<'a> {
    /// Returns the text after the command's name.
    fn behind(&self, name: Word<'a>) -> Word<'a> {
        let from = name.start + name.text.len() - self.word.start;
        Word::new(&self.word.text[from..], self.word.start + from).trim()
    }

    pub(super) fn entries_file(&self, name: Word<'a>) -> Result<CommandKind, EntriesError> {
        let path = self.behind(name);
        if path.text.is_empty() {
            return Err(EntriesError::new(
                name.at(),
                "`entries` is written `entries FILE`",
            ));
        }
        Ok(CommandKind::Entries(path.text.into()))
    }

    /// Reads the port and the file of a capture.
    pub(super) fn capture(
        &self,
        name: Word<'a>,
        args: &[Word<'a>],
    ) -> Result<CommandKind, EntriesError> {
        let (port, _) = self.port_and_data(name, args)?;
        // A path may have blanks.
        let file = args.first().map(|port| self.behind(*port));
        let Some(file) = file.filter(|file| !file.text.is_empty()) else {
            let message = format!("`{0}` is written `{0} PORT FILE`", name.text);
            return Err(EntriesError::new(name.at(), message));
        };
        let file = file.text.to_owned();
        Ok(match name.text.eq_ignore_ascii_case("packets") {
            true => CommandKind::Packets { port, file },
            false => CommandKind::ExpectPackets { port, file },
        })
    }

    pub(super) fn entry(&self, name: Word<'a>) -> Result<CommandKind, EntriesError> {
        file::read_statement(self.schema, self.behind(name)).map(CommandKind::Update)
    }

    pub(super) fn wait(&self, args: &[Word<'a>]) -> Result<CommandKind, EntriesError> {
        match args {
            [] => Ok(CommandKind::Wait),
            [duration] => file::duration(*duration).map(CommandKind::WaitFor),
            [_, more, ..] => Err(EntriesError::new(more.at(), "`wait` takes one duration")),
        }
    }

    pub(super) fn expect_digest(
        &self,
        name: Word<'a>,
        args: &[Word<'a>],
    ) -> Result<CommandKind, EntriesError> {
        let Some(&wanted) = args.first() else {
            let message = "`expect_digest` is written `expect_digest NAME VALUES..`";
            return Err(EntriesError::new(name.at(), message));
        };
        let (digest, fields) =
            resolve::instance(self.schema, wanted, "digest", |object| match object {
                Object::Digest { fields } => Some(fields),
                _ => None,
            })?;
        let words = self.values(self.behind(wanted));
        if words.len() != fields.len() {
            let message = format!(
                "a message of this digest has {}, but {} given",
                count(fields.len() as u64, "value"),
                are(words.len() as u64)
            );
            return Err(EntriesError::new(self.word.at(), message));
        }
        let values: Result<Vec<Option<Value>>, EntriesError> = (fields.iter().zip(words))
            .map(|(&ty, word)| match word.text {
                "_" => Ok(None),
                _ => value::scalar(self.schema, ty, word).map(Some),
            })
            .collect();
        Ok(CommandKind::ExpectDigest {
            digest,
            values: values?,
        })
    }

    /// Returns the words separated by blanks, commas and braces.
    fn values(&self, list: Word<'a>) -> Vec<Word<'a>> {
        let is_layout = |c: char| c.is_whitespace() || matches!(c, ',' | '{' | '}');
        let mut words = Vec::new();
        let mut at = 0;
        for piece in list.text.split(is_layout) {
            if !piece.is_empty() {
                words.push(Word::new(piece, list.start + at));
            }
            at += piece.len() + 1;
        }
        words
    }

    pub(super) fn expect_idle(&self, args: &[Word<'a>]) -> Result<CommandKind, EntriesError> {
        match args {
            [table] => resolve::table(self.schema, *table).map(CommandKind::ExpectIdle),
            _ => Err(EntriesError::new(
                self.word.at(),
                "`expect_idle` is written `expect_idle TABLE`",
            )),
        }
    }

    pub(super) fn expect_log(&self, name: Word<'a>) -> CommandKind {
        CommandKind::ExpectLog(self.behind(name).text.into())
    }
}
