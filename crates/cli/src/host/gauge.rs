//! What packets of virtual data planes cost, by the processor's own counter.

use bench::clock::Clock;
use packet::Nanos;
use tenancy::{Gauge, Work};

/// How long what a virtual data plane asked for counts when a processor is shared.
pub(crate) const INTERVAL: Nanos = Nanos::from_millis(2);

/// Of a worker's time, what packets may take while it is shared: the rest is for receiving and sending them.
const PACKETS_SHARE: f64 = 0.8;

/// Cycles that packets may take of one worker in a second.
pub(crate) fn cycles_per_second() -> u64 {
    let rate = Clock::new().rate();
    (rate.ticks_per_ns * 1e9 * PACKETS_SHARE) as u64
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
