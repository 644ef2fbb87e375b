//! Statistics and billing of a vPDP's compilations.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
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
    balance: Mutex<Balance>,
}

/// Relation of a vPDP's compilations to its cycle quota. The quota itself is charged by the control
/// side, some time after a compilation. Both values change together, so no compilation is admitted
/// between its predecessor and the charge.
#[derive(Debug, Default)]
struct Balance {
    /// Time of compilations that the quota was not charged for yet.
    unpaid: Duration,
    /// Cycles that were left after the last charge; negative if compilations are in debt. `None`
    /// without a quota.
    left: Option<i64>,
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

    fn balance(&self) -> MutexGuard<'_, Balance> {
        self.balance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges the unpaid time. `charge` returns the cycles that are left then.
    pub(super) fn settle(&self, charge: impl FnOnce(Duration) -> Option<i64>) {
        let mut balance = self.balance();
        balance.left = charge(balance.unpaid);
        balance.unpaid = Duration::ZERO;
    }

    /// Returns true if compilations have used more than the cycle quota, those included that it was
    /// not charged for yet.
    pub(super) fn is_in_debt(&self, cycles: impl FnOnce(Duration) -> u64) -> bool {
        let balance = self.balance();
        let Some(left) = balance.left else {
            return false;
        };
        left < i64::try_from(cycles(balance.unpaid)).unwrap_or(i64::MAX)
    }
}

impl Drop for Bill<'_> {
    fn drop(&mut self) {
        let took = (self.clock)().saturating_sub(self.begin);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.account.nanos.fetch_add(nanos, Relaxed);
        self.account.balance().unpaid += took;
    }
}
