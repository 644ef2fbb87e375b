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

    fn copied(&self) -> Bucket {
        Bucket {
            taken_until: AtomicU64::new(self.taken_until.load(Relaxed)),
            ..*self
        }
    }

    /// Returns the time in which this many tokens accrue, in parts.
    fn time_of(&self, units: u64) -> u64 {
        let parts = u128::from(units) * PARTS_A_SECOND / u128::from(self.per_second);
        u64::try_from(parts).unwrap_or(u64::MAX)
    }

    /// Creates a bucket with another rate. The tokens that this one has given beyond those that
    /// have accrued count in the new one.
    fn with_rate(&self, rate: Rate, now: Nanos) -> Bucket {
        let bucket = Bucket::new(rate, now);
        bucket.charge(self.used(now), now);
        bucket
    }

    /// Returns the number of tokens by which the bucket is below its burst size.
    fn used(&self, now: Nanos) -> u64 {
        let time = self
            .taken_until
            .load(Relaxed)
            .saturating_sub(self.parts(now));
        let units = (u128::from(time) * u128::from(self.per_second)).div_ceil(PARTS_A_SECOND);
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    /// Returns the number of tokens that are left; negative if more were charged than had accrued.
    fn left(&self, now: Nanos) -> i64 {
        let most = self.parts(now).saturating_add(self.burst);
        let time = i128::from(most) - i128::from(self.taken_until.load(Relaxed));
        let units = (time * i128::from(self.per_second)).div_euclid(PARTS_A_SECOND as i128);
        units.clamp(i64::MIN.into(), i64::MAX.into()) as i64
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
    /// Buckets of removed quotas: what was used of them counts when they are set again.
    removed: Removed,
}

/// Buckets of quotas that were removed.
#[derive(Debug, Default)]
struct Removed {
    passes: Option<Bucket>,
    cycles: Option<Bucket>,
    compile: Option<Bucket>,
}

/// Returns the bucket of a quota, and that of a removed quota, after a change of the quota.
fn changed(
    (before, removed): (&Option<Bucket>, &Option<Bucket>),
    rate: Option<Rate>,
    now: Nanos,
) -> (Option<Bucket>, Option<Bucket>) {
    let last = before.as_ref().or(removed.as_ref());
    match (rate, last) {
        (Some(rate), Some(last)) => (Some(last.with_rate(rate, now)), None),
        (Some(rate), None) => (Some(Bucket::new(rate, now)), None),
        (None, last) => (None, last.map(Bucket::copied)),
    }
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
            removed: Removed::default(),
        }
    }

    /// Returns the limiter of changed quotas. What was used of passes and cycles stays used, debts
    /// included. Packets that were admitted count up to the new burst size.
    pub(crate) fn with_quotas(&self, quotas: &Quotas, now: Nanos) -> RateLimiter {
        let removed = &self.removed;
        let (passes, no_passes) = changed((&self.passes, &removed.passes), quotas.passes, now);
        let (cycles, no_cycles) = changed((&self.cycles, &removed.cycles), quotas.cycles, now);
        let (compile, no_compile) = changed((&self.compile, &removed.compile), quotas.cycles, now);
        let packets = quotas.packets.map(|rate| {
            let bucket = Bucket::new(rate, now);
            let used = self.packets.as_ref().map_or(0, |before| before.used(now));
            bucket.charge(used.min(rate.burst), now);
            bucket
        });
        RateLimiter {
            packets,
            passes,
            cycles,
            compile,
            weight: quotas.weight.max(1),
            removed: Removed {
                passes: no_passes,
                cycles: no_cycles,
                compile: no_compile,
            },
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

    /// Returns the cycles that compilations have left; negative if they alone have used more than
    /// accrued. `None` without a quota of cycles.
    pub(crate) fn compile_cycles_left(&self, now: Nanos) -> Option<i64> {
        Some(self.compile.as_ref()?.left(now))
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
    fn what_was_used_stays_used_when_a_quota_changes() {
        let rate = |per_second, burst| Some(Rate { per_second, burst });
        let quotas = |rate| Quotas {
            packets: rate,
            passes: rate,
            cycles: rate,
            ..Quotas::default()
        };
        let now = Nanos::from_secs(5);
        let limiter = RateLimiter::new(&quotas(rate(1_000, 100)), now);
        limiter.charge_compilations(500, now);
        let used = Used {
            passes: 300,
            cycles: 0,
        };
        limiter.charge(used, now);
        assert_eq!(limiter.packets.as_ref().unwrap().take(80, now), 80);
        let others = [
            (rate(1_000, 100), -400, -200, 20),
            (rate(10, 200), -300, -100, 120),
            (rate(1_000_000, 10), -490, -290, 0),
            (rate(1_000, 1_000), 500, 700, 920),
        ];
        for (other, cycles, passes, packets) in others {
            let removed = limiter.with_quotas(&Quotas::default(), now);
            assert!(removed.is_open() && removed.compile_cycles_left(now).is_none());
            for from in [&limiter, &removed] {
                let changed = from.with_quotas(&quotas(other), now);
                assert_eq!(changed.compile_cycles_left(now), Some(cycles));
                assert_eq!(changed.cycles.as_ref().unwrap().left(now), cycles);
                assert_eq!(changed.passes.as_ref().unwrap().left(now), passes);
            }
            let changed = limiter.with_quotas(&quotas(other), now);
            assert_eq!(changed.packets.unwrap().take(1_000, now), packets);
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
