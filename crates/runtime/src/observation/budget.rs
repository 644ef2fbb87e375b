//! Limits of an observer and the counts against them.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use packet::Nanos;

/// Limits of an observer.
#[derive(Clone, Copy, Debug)]
pub struct ObserverLimits {
    /// Maximum number of packets.
    pub packets: Option<u64>,
    /// Maximum number of packets a second.
    pub rate: u64,
}

/// Approximate number of windows a second in which packets are counted against a rate.
const WINDOWS_A_SECOND: u64 = 100;

/// Counts of an observer's packets. What delivers them shares it.
pub(super) struct PacketBudget {
    limit: Option<u64>,
    /// Packets that may still be taken.
    left: AtomicU64,
    /// Packets that the consumer has.
    delivered: AtomicU64,
    /// Maximum number of packets of a window, and its length.
    in_a_window: u64,
    window_length: u64,
    /// Number of the present window, and of its packets.
    window: AtomicU64,
    in_window: AtomicU64,
    /// Matching packets that were not taken.
    skipped: AtomicU64,
}

impl PacketBudget {
    pub(super) fn new(limits: ObserverLimits) -> PacketBudget {
        let rate = limits.rate.max(1);
        // Windows are longer for rates that are lower than their number.
        let in_a_window = (rate / WINDOWS_A_SECOND).max(1);
        let second = u128::from(Nanos::from_secs(1).0);
        let window_length = second * u128::from(in_a_window) / u128::from(rate);
        PacketBudget {
            limit: limits.packets,
            left: AtomicU64::new(limits.packets.unwrap_or(u64::MAX)),
            delivered: AtomicU64::new(0),
            in_a_window,
            window_length: u64::try_from(window_length).unwrap_or(u64::MAX).max(1),
            window: AtomicU64::new(0),
            in_window: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
        }
    }

    /// Counts a matching packet. Returns true if it is taken. Then [`PacketBudget::delivered`] or
    /// [`PacketBudget::give_back`] follows.
    pub(super) fn takes(&self, now: Nanos) -> bool {
        if self.left.load(Acquire) == 0 {
            return false;
        }
        let window = now.0 / self.window_length;
        if self.window.swap(window, Relaxed) != window {
            self.in_window.store(0, Relaxed);
        }
        if self.in_window.fetch_add(1, Relaxed) >= self.in_a_window {
            self.skipped.fetch_add(1, Relaxed);
            return false;
        }
        let lower = |left: u64| left.checked_sub(1);
        self.left.fetch_update(AcqRel, Acquire, lower).is_ok()
    }

    /// Counts a packet that was taken and that the consumer has. Returns true if it is the last
    /// one.
    pub(super) fn delivered(&self) -> bool {
        let delivered = self.delivered.fetch_add(1, AcqRel) + 1;
        self.limit == Some(delivered)
    }

    /// Counts a packet as skipped that was taken and that the consumer does not get.
    pub(super) fn give_back(&self) {
        self.skipped.fetch_add(1, Relaxed);
        self.left.fetch_add(1, AcqRel);
    }

    /// Takes back that a packet was taken. It is as if it had not matched.
    pub(super) fn forget(&self) {
        self.left.fetch_add(1, AcqRel);
    }

    /// Returns true if the consumer has as many packets as it may get.
    pub(super) fn is_used_up(&self) -> bool {
        self.limit == Some(self.delivered.load(Acquire))
    }

    /// Returns the number of matching packets that were not taken, for their rate or because the
    /// consumer had no room.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(packets: Option<u64>, rate: u64) -> PacketBudget {
        PacketBudget::new(ObserverLimits { packets, rate })
    }

    #[test]
    fn no_more_is_taken_than_the_count_and_the_rate() {
        let budget = budget(Some(5), 300);
        let window = Nanos::from_millis(10).0;
        let taken = |at| (0..10).filter(|_| budget.takes(Nanos(at))).count();
        assert_eq!(taken(0), 3);
        assert_eq!(budget.skipped(), 7);
        assert_eq!(taken(window), 2);
        assert_eq!(taken(window * 2), 0);
        assert_eq!(budget.skipped(), 7);
    }

    #[test]
    fn a_packet_that_is_not_delivered_does_not_use_up_the_count() {
        let budget = budget(Some(2), 100_000);
        assert!(budget.takes(Nanos(0)));
        budget.give_back();
        assert!(budget.takes(Nanos(0)));
        assert!(!budget.delivered());
        assert!(budget.takes(Nanos(0)));
        assert!(!budget.takes(Nanos(0)));
        assert!(!budget.is_used_up());
        assert!(budget.delivered());
        assert!(budget.is_used_up());
        assert_eq!(budget.skipped(), 1);
    }

    #[test]
    fn every_rate_is_kept() {
        const SECONDS: u64 = 10;
        for rate in [1, 3, 99, 100, 101, 150, 199, 300, 1_000] {
            let budget = budget(None, rate);
            // More packets than the rate, spread over the time.
            let packets = SECONDS * 5_000;
            let interval = Nanos::from_secs(1).0 / 5_000;
            let taken = (0..packets).filter(|n| budget.takes(Nanos(n * interval)));
            let taken = taken.count() as u64;
            let expect = rate * SECONDS;
            assert!(taken <= expect + rate.div_ceil(100), "{taken} at {rate}");
            assert!(taken >= expect * 9 / 10, "{taken} at {rate}");
        }
    }
}
