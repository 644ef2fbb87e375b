//! Time in the data plane: unsigned nanoseconds on a clock that the caller chooses.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// Point in time, or time span, in nanoseconds. The caller defines zero: a capture counts from
/// 1970, a simulation from its start. Arithmetic saturates: time never wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The clock's zero.
    pub const ZERO: Nanos = Nanos(0);
    /// The last representable time, some 584 years after zero.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// Returns `n` microseconds.
    pub const fn from_micros(n: u64) -> Nanos {
        Nanos(n.saturating_mul(1_000))
    }

    /// Returns `n` milliseconds.
    pub const fn from_millis(n: u64) -> Nanos {
        Nanos(n.saturating_mul(1_000_000))
    }

    /// Returns `n` seconds.
    pub const fn from_secs(n: u64) -> Nanos {
        Nanos(n.saturating_mul(1_000_000_000))
    }

    /// Returns whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns whole seconds, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// Returns seconds with a fraction, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the span from `earlier` to `self`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;

    fn add(self, span: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(span.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, span: Nanos) {
        *self = *self + span;
    }
}

impl From<Duration> for Nanos {
    fn from(span: Duration) -> Nanos {
        Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Duration {
        Duration::from_nanos(span.0)
    }
}

/// Writes seconds with nine decimals: `1.000000250`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.as_secs(), self.0 % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_saturates_and_never_wraps() {
        assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
        assert_eq!(Nanos(5).since(Nanos(7)), Nanos::ZERO);
        assert_eq!(Nanos::from_secs(u64::MAX), Nanos::MAX);
        assert_eq!(Nanos::from(Duration::MAX), Nanos::MAX);
    }

    #[test]
    fn time_prints_as_seconds_with_nine_decimals() {
        assert_eq!(
            (Nanos::from_secs(1) + Nanos(250)).to_string(),
            "1.000000250"
        );
    }
}
