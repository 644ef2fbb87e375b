//! The account of a vPDP's compilations.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::compiler::queue::ThreadClock;

/// Figures of a vPDP's compilations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompileFigures {
    /// Compilations that ran, whatever came of them.
    pub begun: u64,
    /// Those that were refused or ended by a limit or a cancellation.
    pub refused: u64,
    /// The processor time that they took.
    pub time: Duration,
    /// Whether one is under way now.
    pub is_running: bool,
}

/// Counts of a vPDP's compilations.
#[derive(Debug, Default)]
pub(super) struct Account {
    begun: AtomicU64,
    refused: AtomicU64,
    nanos: AtomicU64,
    /// Of these, those that the quota of cycles has not paid for.
    unpaid: AtomicU64,
    is_in_debt: AtomicBool,
}

/// One compilation on its thread; counted when dropped.
pub(super) struct Bill<'a> {
    account: &'a Account,
    clock: ThreadClock,
    begin: Duration,
}

impl Account {
    pub(super) fn begin(&self, clock: ThreadClock) -> Bill<'_> {
        self.begun.fetch_add(1, Relaxed);
        Bill {
            account: self,
            clock,
            begin: clock(),
        }
    }

    pub(super) fn refuse(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(super) fn figures(&self, is_running: bool) -> CompileFigures {
        CompileFigures {
            begun: self.begun.load(Relaxed),
            refused: self.refused.load(Relaxed),
            time: Duration::from_nanos(self.nanos.load(Relaxed)),
            is_running,
        }
    }

    pub(super) fn take_unpaid(&self) -> Duration {
        match self.unpaid.load(Relaxed) {
            0 => Duration::ZERO,
            _ => Duration::from_nanos(self.unpaid.swap(0, Relaxed)),
        }
    }

    pub(super) fn set_in_debt(&self, is_in_debt: bool) {
        self.is_in_debt.store(is_in_debt, Relaxed);
    }

    pub(super) fn is_in_debt(&self) -> bool {
        self.is_in_debt.load(Relaxed)
    }
}

impl Drop for Bill<'_> {
    fn drop(&mut self) {
        let took = (self.clock)().saturating_sub(self.begin);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.account.nanos.fetch_add(nanos, Relaxed);
        self.account.unpaid.fetch_add(nanos, Relaxed);
    }
}
