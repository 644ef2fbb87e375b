//! Cycle accounting of virtual data planes, with the processor's time stamp counter.

use std::time::Duration;

use packet::Nanos;
use support::tsc_clock::{Clock, time_of_thread};
use tenancy::{CycleAccounting, CycleUse, Fairness};

/// Interval of fair sharing: the demand of the vPDPs in one interval sets their shares in the next.
const INTERVAL: Nanos = Nanos::from_millis(2);

/// Scheduling quantum (deficit round robin) of a vPDP above its share. Ten times the fixed cost
/// of a service turn. Half of it, with twice the turns, also slows the turns of the other vPDPs:
/// their code and data leave the first-level caches.
const QUANTUM: Nanos = Nanos::from_micros(2);

/// Share of a worker's time for packet processing. The rest is for receiving and sending; the
/// smaller it is, the longer the rounds.
const PACKETS_SHARE: f64 = 0.8;

/// Returns the parameters of fair sharing, in the cycles of [`Cycles`].
pub fn fairness() -> Fairness {
    let rate = Clock::new().rate();
    Fairness {
        interval: INTERVAL,
        cycles_per_second: (rate.ticks_per_ns * 1e9 * PACKETS_SHARE) as u64,
        quantum: QUANTUM,
    }
}

/// Maximum assumed fixed cost of a service turn, in cycles.
const MAX_VISIT: u64 = 2048;

/// Length of a turn above which the thread's CPU time is read. A read costs as much as one or two
/// packets.
const LONG: Duration = Duration::from_micros(50);

/// Interval of reads of the thread's CPU time.
const LOOKS: Duration = Duration::from_millis(1);

/// CPU time of a thread at one time of the clock, both in ticks.
#[derive(Clone, Copy, Default)]
struct Look {
    at: u64,
    had: u64,
}

/// Cycle accounting of one worker thread. The shortest turn counts as the fixed cost of a turn: a
/// vPDP with single packets would otherwise pay for not flooding. Time during which the thread
/// was preempted is not billed.
pub struct Cycles {
    clock: Clock,
    ticks_per_ns: f64,
    /// [`LONG`] and [`LOOKS`], in ticks.
    long: u64,
    looks: u64,
    begin: u64,
    last: Look,
    /// Ticks of preemption during turns, not reported yet.
    missed: u64,
    /// Minimum number of cycles of a turn with packets.
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
            shortest: MAX_VISIT,
        }
    }
}

fn ticks(time: Duration, ticks_per_ns: f64) -> u64 {
    (time.as_nanos() as f64 * ticks_per_ns) as u64
}

impl Cycles {
    /// Reads the thread's CPU time. Returns the ticks of preemption since the last read, or 0 if
    /// the system does not report it.
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

impl CycleAccounting for Cycles {
    fn begin(&mut self) {
        self.begin = self.clock.ticks();
        if self.begin.saturating_sub(self.last.at) > self.looks {
            self.look(self.begin);
        }
    }

    fn end(&mut self, work: CycleUse) -> u64 {
        let now = self.clock.ticks();
        let mut cycles = now.saturating_sub(self.begin);
        if cycles > self.long {
            // Preemption between the last read and this turn is short, and may belong to the
            // turn.
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

    /// Returns the billed cost of a turn that runs `work`, and the reported preemption, in
    /// nanoseconds.
    fn cost(work: impl FnOnce()) -> (f64, f64) {
        let mut gauge = Cycles::default();
        gauge.begin();
        work();
        let (cost, missed) = (gauge.end(CycleUse::default()), gauge.missed());
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
