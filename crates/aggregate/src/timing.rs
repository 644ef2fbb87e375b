//! Round-trip times and the time after which a message counts as lost (RFC 6298).

use packet::Nanos;

/// Shortest time-out. Timers of hosts are not finer.
const SHORTEST: Nanos = Nanos(200_000);

/// Longest time-out.
const LONGEST: Nanos = Nanos::from_millis(200);

/// First time-out, before any round trip was measured.
const FIRST: Nanos = Nanos::from_millis(5);

/// Estimate of the round-trip time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundTrip {
    /// Smoothed time and its variation.
    estimate: Option<(Nanos, Nanos)>,
}

impl RoundTrip {
    /// Adds the time of a message that was sent once.
    pub(crate) fn add(&mut self, time: Nanos) {
        self.estimate = Some(match self.estimate {
            None => (time, Nanos(time.0 / 2)),
            Some((smooth, variation)) => {
                let error = smooth.0.abs_diff(time.0);
                (
                    Nanos((smooth.0 * 7 + time.0) / 8),
                    Nanos((variation.0 * 3 + error) / 4),
                )
            }
        });
    }

    /// Returns the estimate with the longer time. One without a measurement is left out.
    pub(crate) fn longer(self, other: RoundTrip) -> RoundTrip {
        let time = |of: &RoundTrip| of.estimate.map(|(smooth, _)| smooth);
        match time(&self) >= time(&other) {
            true => self,
            false => other,
        }
    }

    /// Returns the time-out of the message's transmission with this number, from 1.
    pub(crate) fn timeout(&self, transmission: u32) -> Nanos {
        let first = match self.estimate {
            None => FIRST,
            Some((smooth, variation)) => Nanos(smooth.0 + 4 * variation.0).max(SHORTEST),
        };
        let doublings = transmission.saturating_sub(1).min(8);
        Nanos(first.0.saturating_mul(1 << doublings)).min(LONGEST)
    }

    /// Returns the smoothed time.
    pub(crate) fn smooth(&self) -> Nanos {
        self.estimate.map_or(FIRST, |(smooth, _)| smooth)
    }
}
