//! A clock for intervals of microseconds: the processor's time stamp counter, if it is invariant.
//! This file has the only `unsafe` code of the crate.

use std::time::{Duration, Instant};

/// A clock that returns the time in ticks.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Time of creation by the operating system's clock, which is used if there is no invariant
    /// counter.
    start: Instant,
    /// Counter value at creation, if the counter is invariant.
    start_ticks: Option<u64>,
}

/// Tick rate of a clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Ticks per nanosecond.
    pub ticks_per_ns: f64,
    /// True if ticks are those of the time stamp counter: cycles at the processor's nominal
    /// frequency, independent of its current frequency.
    pub is_counter: bool,
}

/// Minimum interval for a rate with a precision of about 1 in 10,000.
const LONG_ENOUGH: Duration = Duration::from_millis(10);

impl Clock {
    /// Creates the best clock of this machine.
    pub fn new() -> Self {
        let start = Instant::now();
        let start_ticks = counter::goes_evenly().then(counter::read);
        Self { start, start_ticks }
    }

    /// Returns the current time in ticks.
    #[inline(always)]
    pub fn ticks(&self) -> u64 {
        match self.start_ticks {
            Some(_) => counter::read(),
            None => self.start.elapsed().as_nanos() as u64,
        }
    }

    /// Returns the tick rate, measured since creation. Waits if that is too short ago.
    pub fn rate(&self) -> Rate {
        let Some(start_ticks) = self.start_ticks else {
            return Rate {
                ticks_per_ns: 1.0,
                is_counter: false,
            };
        };
        std::thread::sleep(LONG_ENOUGH.saturating_sub(self.start.elapsed()));
        let (ticks, time) = (counter::read(), self.start.elapsed());
        Rate {
            ticks_per_ns: (ticks - start_ticks) as f64 / time.as_nanos() as f64,
            is_counter: true,
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the processor time consumed by the calling thread, if the system reports it.
pub fn time_of_thread() -> Option<Duration> {
    #[cfg(target_os = "linux")]
    {
        use rustix::time::{ClockId, clock_gettime};
        Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).ok()
    }
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{__cpuid, _rdtsc};

    /// CPUID leaf with power management features, and the EDX bit for an invariant time stamp
    /// counter.
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;

    /// Returns true if there is a time stamp counter with a constant rate, in all frequency and
    /// sleep states.
    pub(super) fn goes_evenly() -> bool {
        __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & INVARIANT != 0
    }

    /// Returns the time stamp counter.
    #[inline(always)]
    #[expect(unsafe_code)]
    pub(super) fn read() -> u64 {
        // SAFETY: only reads a register, which every x86-64 has.
        unsafe { _rdtsc() }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod counter {
    pub(super) fn goes_evenly() -> bool {
        false
    }

    pub(super) fn read() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_go_on_at_the_rate_that_the_clock_tells() {
        let clock = Clock::new();
        let (start, before) = (Instant::now(), clock.ticks());
        std::thread::sleep(Duration::from_millis(30));
        let (ticks, time) = (clock.ticks() - before, start.elapsed());
        let told = ticks as f64 / clock.rate().ticks_per_ns;
        let real = time.as_nanos() as f64;
        assert!((told / real - 1.0).abs() < 0.02, "{told} of {real} ns");
    }
}
