//! Lines of the prompt at a terminal, which can be edited, with those before them.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use port::{Poller, Signal};
use runtime::ProcessSetup;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::config::Builder;
use rustyline::error::ReadlineError;
use rustyline::{DefaultEditor, Result as Edited};
use support::wakeup::WakeupFd;

use super::up::Next;

/// Maximum number of earlier lines.
const MAX_HISTORY: usize = 1000;

/// Interval at which the editor's thread is checked although nothing has woken this one.
const LOOK: Duration = Duration::from_secs(1);

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
    pub(super) fn start(prompt: &'static str) -> Result<LineEditor, String> {
        let no_thread = |error: io::Error| format!("cannot read lines: {error}");
        let mode = tcgetattr(io::stdin()).ok();
        let bell = Arc::new(WakeupFd::armed().map_err(no_thread)?);
        let (asks, asked) = channel();
        let (answers, lines) = channel();
        let ring = Arc::clone(&bell);
        let work = move || read_lines(prompt, &asked, &answers, &ring);
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
    prompt: &str,
    asked: &Receiver<()>,
    answers: &Sender<Edited<String>>,
    bell: &WakeupFd,
) {
    let config = Builder::new().max_history_size(MAX_HISTORY);
    let config = config.map(|config| config.auto_add_history(true).build());
    let mut editor = config.and_then(DefaultEditor::with_config);
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
