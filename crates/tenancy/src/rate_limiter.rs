//! Rate limiter of a vPDP for packets, recirculations and cycles. Shared by all workers,
//! lock-free.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use exec::DropReason;
use packet::Nanos;

use crate::quota::{Quotas, Rate};

/// Time units per nanosecond. With these, rates of millions per second are exact to a part in a
/// thousand. The counter lasts for 36 years from the creation of a bucket.
const PARTS: u64 = 16;

const PARTS_A_SECOND: u128 = PARTS as u128 * 1_000_000_000;

/// Token bucket (GCRA): its state is the time up to which tokens are used.
#[derive(Debug)]
struct Bucket {
    per_second: u64,
    /// Burst size, as the time in which its tokens accrue.
    burst: u64,
    /// Time 0 of the bucket.
    origin: Nanos,
    /// Time up to which tokens are used (theoretical arrival time).
    taken_until: AtomicU64,
}

impl Bucket {
    fn new(rate: Rate, origin: Nanos) -> Bucket {
        let mut bucket = Bucket {
            per_second: rate.per_second.max(1),
            burst: 0,
            origin,
            taken_until: AtomicU64::new(0),
        };
        bucket.burst = bucket.time_of(rate.burst.max(1));
        bucket
    }

    /// Returns the time in which this many tokens accrue, in parts.
    fn time_of(&self, units: u64) -> u64 {
        let parts = u128::from(units) * PARTS_A_SECOND / u128::from(self.per_second);
        u64::try_from(parts).unwrap_or(u64::MAX)
    }

    fn parts(&self, now: Nanos) -> u64 {
        now.since(self.origin).0.saturating_mul(PARTS)
    }

    /// Takes at most `units` tokens; returns the number taken.
    fn take(&self, units: u64, now: Nanos) -> u64 {
        let now = self.parts(now);
        let one = self.time_of(1).max(1);
        let mut given = 0;
        // The closure always returns `Some`, so this cannot fail.
        let _ = self
            .taken_until
            .fetch_update(Relaxed, Relaxed, |taken_until| {
                let from = taken_until.max(now);
                let room = now.saturating_add(self.burst).saturating_sub(from) / one;
                given = units.min(room);
                Some(from.saturating_add(given.saturating_mul(one)))
            });
        given
    }

    /// Takes tokens that were already used, available or not.
    fn charge(&self, units: u64, now: Nanos) {
        let (now, time) = (self.parts(now), self.time_of(units));
        let _ = self
            .taken_until
            .fetch_update(Relaxed, Relaxed, |taken_until| {
                Some(taken_until.max(now).saturating_add(time))
            });
    }

    /// Returns true if more tokens were charged than had accrued.
    fn is_in_debt(&self, now: Nanos) -> bool {
        let most = self.parts(now).saturating_add(self.burst);
        self.taken_until.load(Relaxed) > most
    }
}

/// Rate limits of one vPDP.
#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    packets: Option<Bucket>,
    passes: Option<Bucket>,
    cycles: Option<Bucket>,
    /// The cycle quota, charged for compilations only.
    compile: Option<Bucket>,
    pub(crate) weight: u32,
}

/// Resources used by admitted packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// Recirculations.
    pub(crate) passes: u64,
    /// Processor cycles.
    pub(crate) cycles: u64,
}

impl RateLimiter {
    pub(crate) fn new(quotas: &Quotas, now: Nanos) -> RateLimiter {
        let bucket = |rate: Option<Rate>| rate.map(|rate| Bucket::new(rate, now));
        RateLimiter {
            packets: bucket(quotas.packets),
            passes: bucket(quotas.passes),
            cycles: bucket(quotas.cycles),
            compile: bucket(quotas.cycles),
            weight: quotas.weight.max(1),
        }
    }

    /// Returns true if there are no limits, so that the limiter need not be called.
    pub(crate) fn is_open(&self) -> bool {
        self.packets.is_none() && self.passes.is_none() && self.cycles.is_none()
    }

    /// Returns the number of packets that are admitted, and the drop reason of the others.
    pub(crate) fn admit(&self, packets: usize, now: Nanos) -> (usize, DropReason) {
        let is_in_debt = |bucket: &Option<Bucket>| {
            let bucket = bucket.as_ref();
            bucket.is_some_and(|bucket| bucket.is_in_debt(now))
        };
        if is_in_debt(&self.passes) {
            return (0, DropReason::PassQuota);
        }
        if is_in_debt(&self.cycles) {
            return (0, DropReason::CycleQuota);
        }
        let given = match &self.packets {
            Some(bucket) => bucket.take(packets as u64, now) as usize,
            None => packets,
        };
        (given, DropReason::RateQuota)
    }

    /// Charges cycles of compilations: packets of the vPDP wait until they are paid, as for cycles
    /// of packets.
    pub(crate) fn charge_compilations(&self, cycles: u64, now: Nanos) {
        for bucket in self.cycles.iter().chain(&self.compile) {
            bucket.charge(cycles, now);
        }
    }

    /// Returns true if compilations alone have used more cycles than accrued.
    pub(crate) fn compiles_in_debt(&self, now: Nanos) -> bool {
        let bucket = self.compile.as_ref();
        bucket.is_some_and(|bucket| bucket.is_in_debt(now))
    }

    /// Charges resources that packets have used.
    pub(crate) fn charge(&self, used: Used, now: Nanos) {
        if let Some(bucket) = &self.passes {
            bucket.charge(used.passes, now);
        }
        if let Some(bucket) = &self.cycles {
            bucket.charge(used.cycles, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(per_second: u64, burst: u64) -> Bucket {
        Bucket::new(Rate { per_second, burst }, Nanos::from_secs(5))
    }

    #[test]
    fn a_bucket_gives_its_burst_at_once_and_its_rate_later() {
        let bucket = bucket(1_000_000, 10);
        let start = Nanos::from_secs(5);
        assert_eq!(bucket.take(64, start), 10);
        assert_eq!(bucket.take(64, start), 0);
        assert_eq!(bucket.take(64, start + Nanos::from_micros(3)), 3);
        // Unused tokens are kept up to the burst size.
        assert_eq!(bucket.take(64, start + Nanos::from_secs(9)), 10);
    }

    #[test]
    fn rates_hold_over_a_second() {
        for per_second in [1, 7, 1000, 999_983, 14_880_952] {
            let bucket = bucket(per_second, 2);
            assert_eq!(bucket.take(2, Nanos::from_secs(5)), 2);
            let step = (1_000_000_000 / (per_second * 2)).max(1);
            let mut given = 0;
            let mut now = 0;
            while now < 1_000_000_000 {
                given += bucket.take(3, Nanos::from_secs(5) + Nanos(now));
                now += step;
            }
            let wrong = given.abs_diff(per_second);
            assert!(wrong <= 1 + per_second / 500, "{given} of {per_second}");
        }
    }

    #[test]
    fn debts_are_paid_by_time() {
        let bucket = bucket(1_000, 100);
        let start = Nanos::from_secs(5);
        bucket.charge(100, start);
        assert!(!bucket.is_in_debt(start));
        bucket.charge(500, start);
        assert!(bucket.is_in_debt(start + Nanos::from_millis(499)));
        assert!(!bucket.is_in_debt(start + Nanos::from_millis(500)));
    }
}
