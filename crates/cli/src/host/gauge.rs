//! What packets of virtual data planes cost, by the processor's own counter.

use bench::clock::Clock;
use packet::Nanos;
use tenancy::{Fairness, Gauge, Work};

/// How long what a virtual data plane asked for counts when a processor is shared.
const INTERVAL: Nanos = Nanos::from_millis(2);

/// For how long one that asks for more than its share keeps the others waiting: about as long as a visit takes beside its packets.
const QUANTUM: Nanos = Nanos(500);

/// Of a worker's time, what packets may take while it is shared: the rest is for receiving and sending them.
const PACKETS_SHARE: f64 = 0.8;

/// How a worker's processor is shared, in the cycles of [`Cycles`].
pub(crate) fn fairness() -> Fairness {
    let rate = Clock::new().rate();
    Fairness {
        interval: INTERVAL,
        cycles_per_second: (rate.ticks_per_ns * 1e9 * PACKETS_SHARE) as u64,
        quantum: QUANTUM,
    }
}

/// The most cycles that a visit is taken to cost beside its packets.
const LONGEST_VISIT: u64 = 2048;

/// Counts cycles of packets, and takes the shortest visit for what one costs beside its packets: one whose packets come one by one would otherwise pay for it
/// that it does not flood.
pub(crate) struct Cycles {
    clock: Clock,
    begin: u64,
    /// The fewest cycles that a visit took in which there were packets.
    shortest: u64,
}

impl Default for Cycles {
    fn default() -> Cycles {
        Cycles {
            clock: Clock::default(),
            begin: 0,
            shortest: LONGEST_VISIT,
        }
    }
}

impl Gauge for Cycles {
    fn begin(&mut self) {
        self.begin = self.clock.ticks();
    }

    fn end(&mut self, work: Work) -> u64 {
        let cycles = self.clock.ticks().saturating_sub(self.begin);
        if work.packets == 0 {
            return cycles;
        }
        self.shortest = self.shortest.min(cycles);
        cycles
    }

    fn visit(&self) -> u64 {
        self.shortest
    }
}
