//! Counters of the server for a device, exported as metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the histogram's buckets, in microseconds.
pub const LATENCY_MICROS: [u64; 12] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000, 1_000_000, 10_000_000,
];

/// Counters of a device's controllers and of the calls that they make.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Number of open sessions (`StreamChannel`).
    pub sessions: u64,
    /// Number of roles with a primary.
    pub primaries: u64,
    /// Durations of `Write` calls, from arrival until the device has made them. If the state is
    /// kept, until they are on the disk.
    pub writes: Latencies,
    /// Number of updates made.
    pub updates: u64,
    /// Number of updates refused.
    pub refused: u64,
    /// Number of calls and sessions refused because the client's certificate does not allow them.
    pub denied: u64,
    /// Number of `Read` calls.
    pub reads: u64,
    /// Number of configs set.
    pub configs: u64,
    /// Number of packets sent to controllers. A packet counts once for each controller.
    pub packet_ins: u64,
    /// Number of controllers' packets passed to the device.
    pub packet_outs: u64,
    /// Number of digest lists sent to controllers.
    pub digest_lists: u64,
    /// Number of digest messages that wait for their list to be full or for an acknowledgement.
    pub digests_waiting: u64,
    /// Number of notifications dropped because no session took them fast enough.
    pub lost: u64,
}

/// A histogram of durations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    /// Count of each bucket: durations up to its bound in [`LATENCY_MICROS`] and above the bound
    /// before. The last bucket counts all longer ones.
    pub counts: [u64; LATENCY_MICROS.len() + 1],
    /// The sum of the durations.
    pub sum: Duration,
}

/// Atomic cells of [`Figures`] in which calls count.
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

/// A counter.
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
    /// Counts a `Write` call of this duration.
    pub(crate) fn wrote(&self, took: Duration) {
        let micros = took.as_micros();
        let ends = LATENCY_MICROS.iter();
        let bucket = ends.take_while(|end| micros > u128::from(**end)).count();
        self.latencies[bucket].fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.latency_sum.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Returns the counts. Figures that are not counted here are 0.
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
