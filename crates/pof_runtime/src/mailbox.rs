//! News for the loop: connections, programs.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pof::{MadeProgram, SessionId};
use support::wakeup::WakeupFd;

use crate::connection::Pipe;

/// News for the loop.
pub(crate) enum Mail {
    /// A controller is connected.
    Opened {
        id: SessionId,
        name: String,
        pipe: Arc<Pipe>,
    },
    /// Its connection has ended, for this reason.
    Closed { id: SessionId, reason: String },
    /// A line for the user.
    Notice(String),
    /// A program was made, or could not be.
    Made(Box<MadeProgram>),
}

/// Mailbox of the loop.
pub(crate) struct Mailbox {
    mails: Mutex<VecDeque<Mail>>,
    wakeup: WakeupFd,
    next_id: AtomicU64,
}

impl Mailbox {
    /// # Errors
    /// Those of the operating system, such as too many descriptors.
    pub(crate) fn new() -> io::Result<Mailbox> {
        Ok(Mailbox {
            mails: Mutex::default(),
            wakeup: WakeupFd::new()?,
            next_id: AtomicU64::new(0),
        })
    }

    /// Returns the number of a new session.
    pub(crate) fn next_id(&self) -> SessionId {
        SessionId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn send(&self, mail: Mail) {
        let mut mails = self.mails.lock().unwrap_or_else(PoisonError::into_inner);
        mails.push_back(mail);
        drop(mails);
        self.wakeup.wake();
    }

    pub(crate) fn take(&self) -> Option<Mail> {
        let mut mails = self.mails.lock().unwrap_or_else(PoisonError::into_inner);
        mails.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        let mails = self.mails.lock().unwrap_or_else(PoisonError::into_inner);
        mails.is_empty()
    }

    /// Returns the descriptor on which the loop sleeps.
    pub(crate) fn wakeup(&self) -> &WakeupFd {
        &self.wakeup
    }
}
