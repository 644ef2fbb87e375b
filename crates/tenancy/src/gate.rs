//! What a virtual data plane may ask of processors: rates, shared by all workers without locks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use exec::DropReason;
use packet::Nanos;

use crate::quota::{Quotas, Rate};

/// Parts of a nanosecond that a bucket counts in, so that rates of millions a second are exact to a part in a thousand; from a bucket's making on they
/// last for 36 years.
const PARTS: u64 = 16;

const PARTS_A_SECOND: u128 = PARTS as u128 * 1_000_000_000;

/// Units that come at a rate (GCRA): how far they are paid for is a moment in time.
#[derive(Debug)]
struct Bucket {
    per_second: u64,
    /// The time that units at once may be worth.
    burst: u64,
    /// Time is counted from here.
    origin: Nanos,
    /// Up to this moment units were taken.
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

    /// The time that so many units are worth, in parts.
    fn time_of(&self, units: u64) -> u64 {
        let parts = u128::from(units) * PARTS_A_SECOND / u128::from(self.per_second);
        u64::try_from(parts).unwrap_or(u64::MAX)
    }

    fn parts(&self, now: Nanos) -> u64 {
        now.since(self.origin).0.saturating_mul(PARTS)
    }

    /// Takes up to so many units: as many as there are.
    fn take(&self, units: u64, now: Nanos) -> u64 {
        let now = self.parts(now);
        let one = self.time_of(1).max(1);
        let mut given = 0;
        // Never fails: the change is always some.
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

    /// Takes units that were used already, there or not.
    fn charge(&self, units: u64, now: Nanos) {
        let (now, time) = (self.parts(now), self.time_of(units));
        let _ = self
            .taken_until
            .fetch_update(Relaxed, Relaxed, |taken_until| {
                Some(taken_until.max(now).saturating_add(time))
            });
    }

    /// Whether more was charged than there was.
    fn is_in_debt(&self, now: Nanos) -> bool {
        let most = self.parts(now).saturating_add(self.burst);
        self.taken_until.load(Relaxed) > most
    }
}

/// The rates of one vPDP.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    packets: Option<Bucket>,
    passes: Option<Bucket>,
    cycles: Option<Bucket>,
    /// The quota of cycles as compilations alone have used it.
    compile: Option<Bucket>,
    pub(crate) weight: u32,
}

/// What a group of packets was let in for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// How often packets started over.
    pub(crate) passes: u64,
    /// Processor cycles.
    pub(crate) cycles: u64,
}

impl Gate {
    pub(crate) fn new(quotas: &Quotas, now: Nanos) -> Gate {
        let bucket = |rate: Option<Rate>| rate.map(|rate| Bucket::new(rate, now));
        Gate {
            packets: bucket(quotas.packets),
            passes: bucket(quotas.passes),
            cycles: bucket(quotas.cycles),
            compile: bucket(quotas.cycles),
            weight: quotas.weight.max(1),
        }
    }

    /// Whether nothing is limited, so that nothing has to be told it.
    pub(crate) fn is_open(&self) -> bool {
        self.packets.is_none() && self.passes.is_none() && self.cycles.is_none()
    }

    /// How many of so many packets come in; why not the others.
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

    /// Charges cycles that compilations have used: packets of the vPDP wait for them to be paid as
    /// for their own.
    pub(crate) fn charge_compilations(&self, cycles: u64, now: Nanos) {
        for bucket in self.cycles.iter().chain(&self.compile) {
            bucket.charge(cycles, now);
        }
    }

    /// Whether compilations alone have used more cycles than there were.
    pub(crate) fn compiles_in_debt(&self, now: Nanos) -> bool {
        let bucket = self.compile.as_ref();
        bucket.is_some_and(|bucket| bucket.is_in_debt(now))
    }

    /// Charges what packets have used.
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
        // What is not taken is kept up to the burst.
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
