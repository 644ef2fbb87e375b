//! A line at the bottom of the terminal that changes in place while something runs.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often the line changes at most.
const INTERVAL: Duration = Duration::from_millis(100);

/// The line. Where standard error is no terminal nothing is written: a log file wants no animation.
pub(crate) struct LiveLine {
    is_terminal: bool,
    is_shown: bool,
    shown_at: Option<Instant>,
}

impl LiveLine {
    /// A line that is empty so far.
    pub(crate) fn new() -> LiveLine {
        LiveLine {
            is_terminal: std::io::stderr().is_terminal(),
            is_shown: false,
            shown_at: None,
        }
    }

    /// A line that is never shown.
    pub(crate) fn never() -> LiveLine {
        LiveLine {
            is_terminal: false,
            ..LiveLine::new()
        }
    }

    /// Whether it is time to change the line, on a terminal.
    pub(crate) fn is_due(&self) -> bool {
        self.is_terminal && self.shown_at.is_none_or(|at| at.elapsed() >= INTERVAL)
    }

    /// Replaces the line's text.
    pub(crate) fn show(&mut self, text: &str) {
        if self.is_terminal {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[2K{text}");
            self.is_shown = true;
            self.shown_at = Some(Instant::now());
        }
    }

    /// Writes a line that stays, above this one.
    pub(crate) fn note(&mut self, line: &str) {
        self.clear();
        crate::out::note(line);
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if self.is_shown {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[2K");
            self.is_shown = false;
        }
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A bar of `width` places, filled up to `done` of `all`: `[#####     ]  50%`.
pub(crate) fn bar(done: u64, all: u64, width: usize) -> String {
    let share = if all == 0 {
        1.0
    } else {
        (done as f64 / all as f64).min(1.0)
    };
    let full = (share * width as f64) as usize;
    format!(
        "[{}{}] {:3.0}%",
        "#".repeat(full),
        " ".repeat(width - full),
        share * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_the_share_that_is_done() {
        assert_eq!(bar(1, 2, 10), "[#####     ]  50%");
        assert_eq!(bar(0, 0, 4), "[####] 100%");
        assert_eq!(bar(9, 3, 4), "[####] 100%");
    }
}
