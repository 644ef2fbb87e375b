//! What only a process with a single thread can do, done before there is a second one.

use port::{NetnsError, Privilege, StopSignals};

/// What was prepared for a command.
pub(crate) struct Early {
    /// Signals that ask to stop, caught from now on.
    pub(crate) signals: StopSignals,
    /// For the demo: by what right the process is in a network namespace of its own, or why it is not.
    pub(crate) private: Option<Result<Privilege, NetnsError>>,
}

impl Early {
    /// Catches the signals that ask to stop; a thread that exists before would still die of them.
    ///
    /// # Errors
    /// The operating system's, as text.
    pub(crate) fn catch_signals() -> Result<Early, String> {
        let signals = StopSignals::catch().map_err(|e| format!("cannot catch signals: {e}"))?;
        Ok(Early {
            signals,
            private: None,
        })
    }

    /// Also puts the process into a network namespace of its own, if the machine allows it.
    ///
    /// # Errors
    /// The operating system's, as text.
    pub(crate) fn go_private() -> Result<Early, String> {
        let mut early = Early::catch_signals()?;
        early.private = Some(port::enter_private());
        Ok(early)
    }
}
