//! Commands of the control loop about a worker's port shares: queues that the worker looks at
//! between two rounds.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use packet::PortId;
use port::Port;
use support::wakeup::WakeupFd;

/// A command of the control loop.
pub(crate) enum PortCommand {
    /// Adds a share. The flag is true if it reports the port's events.
    Attach(Box<dyn Port>, bool),
    /// Removes the share of a port, and gives it back.
    Detach(PortId, Sender<Box<dyn Port>>),
    /// Closes the share of a port, so that it is opened again. The answer is false if it cannot
    /// be.
    Reopen(PortId, Sender<bool>),
}

/// Queue of commands for one worker.
pub(crate) struct PortCommands {
    /// True if commands may wait. A worker reads only this once a round.
    has_any: AtomicBool,
    waiting: Mutex<VecDeque<PortCommand>>,
    bell: Arc<WakeupFd>,
}

impl PortCommands {
    /// Creates an empty queue. `bell` wakes the worker.
    pub(crate) fn new(bell: &Arc<WakeupFd>) -> PortCommands {
        PortCommands {
            has_any: AtomicBool::new(false),
            waiting: Mutex::default(),
            bell: Arc::clone(bell),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<PortCommand>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a command, and wakes the worker.
    pub(crate) fn give(&self, command: PortCommand) {
        self.waiting().push_back(command);
        self.has_any.store(true, Ordering::Release);
        self.bell.wake();
    }

    /// Returns true if a command may wait.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    /// Removes the next command.
    pub(crate) fn take(&self) -> Option<PortCommand> {
        let mut waiting = self.waiting();
        let command = waiting.pop_front();
        if command.is_none() {
            self.has_any.store(false, Ordering::Release);
        }
        command
    }
}
