//! A clock for stretches of microseconds: the processor's own, where it goes evenly. The only `unsafe` of this room.

use std::time::{Duration, Instant};

/// Reads the time in ticks.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Where the operating system's clock stood when this one was made; what is read where the processor has none.
    start: Instant,
    /// The processor's, then.
    start_ticks: Option<u64>,
}

/// How fast ticks go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Ticks in a nanosecond.
    pub ticks_per_ns: f64,
    /// Whether ticks are the time stamp counter's: cycles at the processor's nominal rate, whatever its rate of the moment.
    pub is_counter: bool,
}

/// How long the clock must have gone before its rate is known to a part in ten thousand.
const LONG_ENOUGH: Duration = Duration::from_millis(10);

impl Clock {
    /// The best clock of this machine.
    pub fn new() -> Self {
        let start = Instant::now();
        let start_ticks = counter::goes_evenly().then(counter::read);
        Self { start, start_ticks }
    }

    /// The time.
    #[inline(always)]
    pub fn ticks(&self) -> u64 {
        match self.start_ticks {
            Some(_) => counter::read(),
            None => self.start.elapsed().as_nanos() as u64,
        }
    }

    /// How fast it has gone since it was made; waits where that is not long enough ago.
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

/// How much of processors the thread has had that asks, where the system tells.
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

    /// The leaf that tells of power management, and the bit in EDX that says that the counter is invariant.
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;

    /// Whether there is a time stamp counter that goes evenly, at any rate of the core and in its sleep.
    pub(super) fn goes_evenly() -> bool {
        __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & INVARIANT != 0
    }

    /// The time stamp counter.
    #[inline(always)]
    #[expect(unsafe_code)]
    pub(super) fn read() -> u64 {
        // SAFETY: reads a register and nothing else; every x86-64 has it.
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
