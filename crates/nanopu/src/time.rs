//! Time in picoseconds, and the clock of the cores.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A time or a duration in picoseconds. 64 bits last for 213 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picos(pub u64);

impl Picos {
    /// The latest time.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns a duration of whole nanoseconds, at most [`Picos::MAX`].
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos.saturating_mul(1000))
    }

    /// Returns the duration in nanoseconds.
    pub fn as_nanos(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// Returns the difference, or zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Picos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Picos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Picos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.since(other)
    }
}

impl fmt::Display for Picos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} ns", self.0 / 1000, self.0 % 1000)
    }
}

/// The clock of the cores: cycles to picoseconds and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    megahertz: u64,
}

impl Clock {
    /// Creates a clock of a frequency in megahertz, at least 1.
    pub fn new(megahertz: u64) -> Self {
        Self {
            megahertz: megahertz.max(1),
        }
    }

    /// Returns the start of a cycle, rounded down to a picosecond.
    pub fn start_of(self, cycle: u64) -> Picos {
        let picos = u128::from(cycle) * 1_000_000 / u128::from(self.megahertz);
        Picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }

    /// Returns the first cycle that starts at `time` or later.
    pub fn cycle_at(self, time: Picos) -> u64 {
        let cycle = (u128::from(time.0) * u128::from(self.megahertz)).div_ceil(1_000_000);
        let cycle = u64::try_from(cycle).unwrap_or(u64::MAX);
        // `start_of` rounds down: the cycle before may start in the same picosecond.
        match cycle.checked_sub(1) {
            Some(before) if self.start_of(before) >= time => before,
            _ => cycle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_of_3200_megahertz_is_312_and_a_half_picoseconds() {
        let clock = Clock::new(3200);
        assert_eq!(clock.start_of(1), Picos(312));
        assert_eq!(clock.start_of(2), Picos(625));
        assert_eq!(clock.start_of(3_200_000_000), Picos(1_000_000_000_000));
    }

    #[test]
    fn cycle_at_is_the_first_cycle_not_before_the_time() {
        for megahertz in [1, 7, 999, 1000, 3200, 4001] {
            let clock = Clock::new(megahertz);
            for time in (0..2000).map(Picos) {
                let cycle = clock.cycle_at(time);
                assert!(clock.start_of(cycle) >= time);
                assert!(cycle == 0 || clock.start_of(cycle - 1) < time);
            }
        }
    }
}
