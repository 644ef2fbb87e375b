//! What packets of virtual data planes cost, by the processor's own counter.

use std::time::Duration;

use bench::clock::{Clock, time_of_thread};
use packet::Nanos;
use tenancy::{Fairness, Gauge, Work};

/// How long what a virtual data plane asked for counts when a processor is shared.
const INTERVAL: Nanos = Nanos::from_millis(2);

/// For how long one that asks for more than its share keeps the others waiting each time: ten times as long as a visit takes beside its packets. Beside one that is visited for half as long, and
/// twice as often, the others' own visits take longer: the processor's nearest caches do not have what they run and touch any more.
const QUANTUM: Nanos = Nanos::from_micros(2);

/// Of a worker's time, what packets may take while it is shared: the rest is for receiving and sending them, and rounds are the longer the less it is.
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

/// Visits that took longer are asked for how much of that the thread had the processor; a look costs as much as a packet or two.
const LONG: Duration = Duration::from_micros(50);

/// How often it is looked at how much of the processor the thread has had.
const LOOKS: Duration = Duration::from_millis(1);

/// How much of the processor a thread has had, at one moment of the clock, both in ticks.
#[derive(Clone, Copy, Default)]
struct Look {
    at: u64,
    had: u64,
}

/// Counts cycles of packets, and takes the shortest visit for what one costs beside its packets: one whose packets come one by one would otherwise pay for it
/// that it does not flood. While its thread does not run, because the system has others run on its core, nobody pays.
pub(crate) struct Cycles {
    clock: Clock,
    ticks_per_ns: f64,
    /// [`LONG`] and [`LOOKS`], in ticks.
    long: u64,
    looks: u64,
    begin: u64,
    last: Look,
    /// Ticks that its thread missed in visits, and nobody was told of yet.
    missed: u64,
    /// The fewest cycles that a visit took in which there were packets.
    shortest: u64,
}

impl Default for Cycles {
    fn default() -> Cycles {
        let clock = Clock::new();
        let ticks_per_ns = clock.rate().ticks_per_ns;
        Cycles {
            clock,
            ticks_per_ns,
            long: ticks(LONG, ticks_per_ns),
            looks: ticks(LOOKS, ticks_per_ns),
            begin: 0,
            last: Look::default(),
            missed: 0,
            shortest: LONGEST_VISIT,
        }
    }
}

fn ticks(time: Duration, ticks_per_ns: f64) -> u64 {
    (time.as_nanos() as f64 * ticks_per_ns) as u64
}

impl Cycles {
    /// Sees how much of the processor the thread has had by now; how much it has missed since the last look, as far as the system tells.
    fn look(&mut self, now: u64) -> u64 {
        let Some(had) = time_of_thread() else {
            return 0;
        };
        let had = ticks(had, self.ticks_per_ns);
        let last = std::mem::replace(&mut self.last, Look { at: now, had });
        let past = now.saturating_sub(last.at);
        past.saturating_sub(had.saturating_sub(last.had))
    }
}

impl Gauge for Cycles {
    fn begin(&mut self) {
        self.begin = self.clock.ticks();
        if self.begin.saturating_sub(self.last.at) > self.looks {
            self.look(self.begin);
        }
    }

    fn end(&mut self, work: Work) -> u64 {
        let now = self.clock.ticks();
        let mut cycles = now.saturating_sub(self.begin);
        if cycles > self.long {
            // What was missed between the last look and this visit is little, and may have been missed in it.
            let ran = cycles.saturating_sub(self.look(now)).max(self.long);
            self.missed += cycles - ran;
            cycles = ran;
        }
        if work.packets > 0 {
            self.shortest = self.shortest.min(cycles);
        }
        cycles
    }

    fn visit(&self) -> u64 {
        self.shortest
    }

    fn missed(&mut self) -> Nanos {
        match std::mem::take(&mut self.missed) {
            0 => Nanos::ZERO,
            ticks => Nanos((ticks as f64 / self.ticks_per_ns) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Nanoseconds that a visit is taken to have cost which does this, and that its thread is taken to have missed.
    fn cost(work: impl FnOnce()) -> (f64, f64) {
        let mut gauge = Cycles::default();
        gauge.begin();
        work();
        let (cost, missed) = (gauge.end(Work::default()), gauge.missed());
        assert_eq!(gauge.missed(), Nanos::ZERO, "it is told once");
        (cost as f64 / gauge.ticks_per_ns, missed.0 as f64)
    }

    #[test]
    fn a_visit_does_not_cost_what_its_thread_did_not_run() {
        let (cost, missed) = cost(|| std::thread::sleep(Duration::from_millis(50)));
        assert!(
            cost < 10e6 && missed > 40e6,
            "{cost} ns, {missed} ns missed"
        );
    }

    #[test]
    fn a_long_visit_costs_what_its_thread_ran() {
        let (mut begin, mut ran) = (Duration::ZERO, Duration::ZERO);
        let (cost, _) = cost(|| {
            begin = time_of_thread().unwrap();
            let since = Instant::now();
            while since.elapsed() < Duration::from_millis(20) {}
            ran = time_of_thread().unwrap() - begin;
        });
        let ran = ran.as_nanos() as f64;
        assert!((cost / ran - 1.0).abs() < 0.2, "{cost} of {ran} ns");
    }
}
