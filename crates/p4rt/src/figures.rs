//! What the server counts of a device, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper ends of a histogram's buckets, in microseconds.
pub const LATENCY_MICROS: [u64; 12] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000, 1_000_000, 10_000_000,
];

/// What a device's controllers have done, and what is done for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Sessions (`StreamChannel`) that are there.
    pub sessions: u64,
    /// Roles that have a primary.
    pub primaries: u64,
    /// How long `Write` calls took, from their arrival until the device had made them and, where state is kept, they were kept.
    pub writes: Latencies,
    /// Updates that were made.
    pub updates: u64,
    /// Updates that were refused.
    pub refused: u64,
    /// Calls and sessions that were refused because the client's certificate does not allow them.
    pub denied: u64,
    /// `Read` calls.
    pub reads: u64,
    /// Configs that were set.
    pub configs: u64,
    /// Packets that controllers were sent; each counts once for every controller.
    pub packet_ins: u64,
    /// Packets of controllers that the device was given.
    pub packet_outs: u64,
    /// Lists of digests that controllers were sent.
    pub digest_lists: u64,
    /// Digest messages that wait: for their list to be full, or for the acknowledgement.
    pub digests_waiting: u64,
    /// Notifications that no session took fast enough.
    pub lost: u64,
}

/// A histogram of durations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    /// How many were at most as long as the bucket's end in [`LATENCY_MICROS`], and longer than the one before; the last is for all longer ones.
    pub counts: [u64; LATENCY_MICROS.len() + 1],
    /// Their sum.
    pub sum: Duration,
}

/// The cells behind [`Figures`] that calls count in.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    latencies: [AtomicU64; LATENCY_MICROS.len() + 1],
    latency_sum: AtomicU64,
    pub(crate) updates: Count,
    pub(crate) refused: Count,
    pub(crate) denied: Count,
    pub(crate) reads: Count,
    pub(crate) configs: Count,
    pub(crate) packet_ins: Count,
    pub(crate) packet_outs: Count,
    pub(crate) digest_lists: Count,
    pub(crate) lost: Count,
}

/// A number that grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Cells {
    /// A `Write` call took so long.
    pub(crate) fn wrote(&self, took: Duration) {
        let micros = took.as_micros();
        let ends = LATENCY_MICROS.iter();
        let bucket = ends.take_while(|end| micros > u128::from(**end)).count();
        self.latencies[bucket].fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.latency_sum.fetch_add(nanos, Ordering::Relaxed);
    }

    /// What was counted; the rest is 0.
    pub(crate) fn read(&self) -> Figures {
        Figures {
            writes: Latencies {
                counts: std::array::from_fn(|at| self.latencies[at].load(Ordering::Relaxed)),
                sum: Duration::from_nanos(self.latency_sum.load(Ordering::Relaxed)),
            },
            updates: self.updates.read(),
            refused: self.refused.read(),
            denied: self.denied.read(),
            reads: self.reads.read(),
            configs: self.configs.read(),
            packet_ins: self.packet_ins.read(),
            packet_outs: self.packet_outs.read(),
            digest_lists: self.digest_lists.read(),
            lost: self.lost.read(),
            ..Figures::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_the_bucket_that_it_fits() {
        let cells = Cells::default();
        for micros in [50, 51, 20_000_000] {
            cells.wrote(Duration::from_micros(micros));
        }
        let writes = cells.read().writes;
        assert_eq!(writes.counts[..2], [1, 1]);
        assert_eq!(writes.counts[LATENCY_MICROS.len()], 1);
        assert_eq!(writes.sum, Duration::from_micros(20_000_101));
    }
}
