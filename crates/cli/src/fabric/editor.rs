//! Lines of the prompt at a terminal, which can be edited, with those before them.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use port::{Poller, Signal};
use runtime::ProcessSetup;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::Completer;
use rustyline::config::Builder;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper, Result as Edited};
use support::wakeup::WakeupFd;

use super::up::Next;

/// Maximum number of earlier lines.
const MAX_HISTORY: usize = 1000;

/// Interval at which the editor's thread is checked although nothing has woken this one.
const LOOK: Duration = Duration::from_secs(1);

/// Completion of the words of a line: commands and names of nodes at its begin, names of nodes
/// after that.
pub(super) struct Words {
    pub(super) commands: &'static [&'static str],
    pub(super) nodes: Vec<String>,
}

impl Words {
    /// Returns where the last word of a text begins, and the words that it can become.
    fn of(&self, text: &str) -> (usize, Vec<String>) {
        let spaces = text.char_indices().rev();
        let mut spaces = spaces.filter(|(_, letter)| letter.is_whitespace());
        let start = spaces.next().map_or(0, |(at, space)| at + space.len_utf8());
        let (before, word) = text.split_at(start);
        let commands = match before.trim().is_empty() {
            true => self.commands,
            false => &[],
        };
        let nodes = self.nodes.iter().map(String::as_str);
        let all = commands.iter().copied().chain(nodes);
        let found = all.filter(|one| one.starts_with(word));
        (start, found.map(|one| format!("{one} ")).collect())
    }
}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> Edited<(usize, Vec<String>)> {
        Ok(self.of(line.get(..at).unwrap_or(line)))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}

impl Validator for Words {}

impl Helper for Words {}

/// A line editor on a thread of its own, so that a signal ends the prompt while a line is written.
pub(super) struct LineEditor {
    /// Requests for a line.
    asks: Sender<()>,
    lines: Receiver<Edited<String>>,
    bell: Arc<WakeupFd>,
    /// True while the thread reads a line.
    is_reading: bool,
    /// The mode of the terminal before the first line.
    mode: Option<Termios>,
}

impl LineEditor {
    /// Starts the editor's thread.
    ///
    /// # Errors
    /// The operating system provides no thread or descriptor.
    pub(super) fn start(prompt: &'static str, words: Words) -> Result<LineEditor, String> {
        let no_thread = |error: io::Error| format!("cannot read lines: {error}");
        let mode = tcgetattr(io::stdin()).ok();
        let bell = Arc::new(WakeupFd::armed().map_err(no_thread)?);
        let (asks, asked) = channel();
        let (answers, lines) = channel();
        let ring = Arc::clone(&bell);
        let work = move || read_lines((prompt, words), &asked, &answers, &ring);
        let thread = std::thread::Builder::new().name("editor".to_owned());
        // It ends with the process: it may wait for a key.
        thread.spawn(work).map_err(no_thread)?;
        Ok(LineEditor {
            asks,
            lines,
            bell,
            is_reading: false,
            mode,
        })
    }

    /// Returns the next line, or another event before it.
    ///
    /// # Errors
    /// The terminal cannot be read.
    pub(super) fn next(&mut self, early: &ProcessSetup) -> Result<Next, String> {
        let failed = || "cannot read commands: the line editor has ended".to_owned();
        if !self.is_reading {
            self.asks.send(()).map_err(|_| failed())?;
            self.is_reading = true;
        }
        let mut poller = Poller::new();
        loop {
            if let Some(signal) = early.take_signal() {
                return Ok(Next::Signal(signal));
            }
            self.bell.rearm();
            let edited = match self.lines.try_recv() {
                Ok(edited) => edited,
                Err(TryRecvError::Disconnected) => return Err(failed()),
                Err(TryRecvError::Empty) => {
                    let fds = early.signal_fd().into_iter().chain([self.bell.fd()]);
                    let waited = poller.wait(fds, LOOK);
                    waited.map_err(|error| format!("cannot wait for commands: {error}"))?;
                    continue;
                }
            };
            self.is_reading = false;
            return match edited {
                Ok(line) => Ok(Next::Line(line.trim().to_owned())),
                Err(ReadlineError::Interrupted) => Ok(Next::Signal(Signal::Interrupt)),
                Err(ReadlineError::Eof) => Ok(Next::End),
                Err(error) => Err(format!("cannot read commands: {error}")),
            };
        }
    }
}

impl Drop for LineEditor {
    fn drop(&mut self) {
        // A line that is being written leaves the terminal in the editor's mode.
        if let (true, Some(mode)) = (self.is_reading, &self.mode) {
            let _ = tcsetattr(io::stdin(), OptionalActions::Drain, mode);
        }
    }
}

/// Reads a line for each request, until there are no more.
fn read_lines(
    (prompt, words): (&str, Words),
    asked: &Receiver<()>,
    answers: &Sender<Edited<String>>,
    bell: &WakeupFd,
) {
    let config = Builder::new().max_history_size(MAX_HISTORY);
    let config = config.map(|config| config.auto_add_history(true).build());
    let mut editor = config.and_then(Editor::<Words, DefaultHistory>::with_config);
    if let Ok(editor) = &mut editor {
        editor.set_helper(Some(words));
    }
    while asked.recv().is_ok() {
        let line = match &mut editor {
            Ok(editor) => editor.readline(prompt),
            Err(error) => Err(ReadlineError::Io(io::Error::other(error.to_string()))),
        };
        if answers.send(line).is_err() {
            return;
        }
        bell.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_becomes_a_command_or_a_node() {
        let words = Words {
            commands: &["link", "links", "pingall"],
            nodes: vec!["h1".to_owned(), "h2".to_owned(), "s1".to_owned()],
        };
        for (text, start, expected) in [
            ("li", 0, &["link ", "links "][..]),
            ("h", 0, &["h1 ", "h2 "]),
            ("link s", 5, &["s1 "]),
            ("  h2", 2, &["h2 "]),
            ("link li", 5, &[]),
            ("é h1", 3, &["h1 "]),
            ("h1 ", 3, &["h1 ", "h2 ", "s1 "]),
        ] {
            let expected: Vec<String> = expected.iter().map(|one| (*one).to_owned()).collect();
            assert_eq!(words.of(text), (start, expected), "{text:?}");
        }
    }
}
