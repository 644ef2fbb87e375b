//! What packets of virtual data planes cost, by the processor's own counter.

use bench::clock::Clock;
use packet::Nanos;
use tenancy::{Fairness, Gauge, Work};

/// How long what a virtual data plane asked for counts when a processor is shared.
const INTERVAL: Nanos = Nanos::from_millis(2);

/// For how long one that asks for more than its share keeps the others waiting: about as long as the packets of a burst that is not full take to be received.
const QUANTUM: Nanos = Nanos::from_micros(1);

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

/// Counts cycles.
#[derive(Default)]
pub(crate) struct Cycles {
    clock: Clock,
    begin: u64,
}

impl Gauge for Cycles {
    fn begin(&mut self) {
        self.begin = self.clock.ticks();
    }

    fn end(&mut self, _work: Work) -> u64 {
        self.clock.ticks().saturating_sub(self.begin)
    }
}
