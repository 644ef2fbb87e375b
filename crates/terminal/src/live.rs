//! A status line at the bottom of the terminal that is updated in place.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Minimum time between two updates.
const INTERVAL: Duration = Duration::from_millis(100);

/// The status line. If standard error is not a terminal, nothing is written: log files need no
/// animation.
pub struct LiveLine {
    is_terminal: bool,
    is_shown: bool,
    shown_at: Option<Instant>,
}

impl Default for LiveLine {
    fn default() -> LiveLine {
        LiveLine::new()
    }
}

impl LiveLine {
    /// Returns an empty line.
    pub fn new() -> LiveLine {
        LiveLine {
            is_terminal: std::io::stderr().is_terminal(),
            is_shown: false,
            shown_at: None,
        }
    }

    /// Returns a line that is never shown.
    pub fn never() -> LiveLine {
        LiveLine {
            is_terminal: false,
            ..LiveLine::new()
        }
    }

    /// Returns true if standard error is a terminal and the line may be updated now.
    pub fn is_due(&self) -> bool {
        self.is_terminal && self.shown_at.is_none_or(|at| at.elapsed() >= INTERVAL)
    }

    /// Replaces the line's text.
    pub fn show(&mut self, text: &str) {
        if self.is_terminal {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[2K{text}");
            self.is_shown = true;
            self.shown_at = Some(Instant::now());
        }
    }

    /// Writes a permanent line above this one.
    pub fn note(&mut self, line: &str) {
        self.clear();
        crate::out::note(line);
    }

    /// Removes the line.
    pub fn clear(&mut self) {
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

/// Formats a bar of `width` characters, filled up to `done` of `all`: `[#####     ]  50%`.
pub fn bar(done: u64, all: u64, width: usize) -> String {
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
