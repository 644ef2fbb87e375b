//! Statistics and billing of a vPDP's compilations.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::compiler::queue::ThreadClock;

/// Statistics of a vPDP's compilations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompileFigures {
    /// Compilations that ran, with any result.
    pub begun: u64,
    /// Compilations that were refused, or ended by a limit or a cancellation.
    pub refused: u64,
    /// Total processor time.
    pub time: Duration,
    /// True if one is running now.
    pub is_running: bool,
}

/// Counters of a vPDP's compilations.
#[derive(Debug, Default)]
pub(super) struct Account {
    begun: AtomicU64,
    refused: AtomicU64,
    nanos: AtomicU64,
    /// Nanoseconds that the cycle quota was not charged for yet.
    unpaid: AtomicU64,
    is_in_debt: AtomicBool,
}

/// A running compilation; its time is counted when it is dropped.
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
