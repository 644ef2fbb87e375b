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
    /// Doublings of the time-out of all messages, until the next measurement (RFC 6298, 5.5).
    /// Without them a queue that has become longer would have each message sent twice for ever,
    /// since only messages that were sent once are measured.
    backoff: u32,
}

impl RoundTrip {
    /// Adds the time of a message that was sent once.
    pub(crate) fn add(&mut self, time: Nanos) {
        self.backoff = 0;
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

    /// Notes that a message's transmission with this number, from 1, timed out.
    pub(crate) fn timed_out(&mut self, transmission: u32) {
        self.backoff = self.backoff.max(transmission);
    }

    /// Returns the estimate with the longer time. One without a measurement is left out.
    pub(crate) fn longer(self, other: RoundTrip) -> RoundTrip {
        let time = |of: &RoundTrip| of.estimate.map(|(smooth, _)| smooth);
        match time(&self) >= time(&other) {
            true => self,
            false => other,
        }
    }

    /// Returns the time-out of the message's transmission with this number, from 1: three round
    /// trips at least, since replies that begin to come fill the queue of the receipts at once.
    pub(crate) fn timeout(&self, transmission: u32) -> Nanos {
        let first = match self.estimate {
            None => FIRST,
            Some((smooth, variation)) => {
                Nanos(smooth.0 + (4 * variation.0).max(2 * smooth.0)).max(SHORTEST)
            }
        };
        let doublings = transmission.saturating_sub(1).max(self.backoff).min(8);
        Nanos(first.0.saturating_mul(1 << doublings)).min(LONGEST)
    }

    /// Returns the smoothed time.
    pub(crate) fn smooth(&self) -> Nanos {
        self.estimate.map_or(FIRST, |(smooth, _)| smooth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_sent_once_again_after_the_round_trip_has_become_longer() {
        const SHORT: Nanos = Nanos(20_000);
        const LONG: Nanos = Nanos(3_000_000);
        let mut round_trip = RoundTrip::default();
        round_trip.add(SHORT);
        let mut repeats = 0;
        for _ in 0..100 {
            // One message after the other; those that are repeated are not measured.
            let mut transmissions = 1;
            while transmissions < 8 && round_trip.timeout(transmissions) < LONG {
                round_trip.timed_out(transmissions);
                transmissions += 1;
            }
            repeats += transmissions - 1;
            if transmissions == 1 {
                round_trip.add(LONG);
            }
        }
        assert!(repeats < 8, "{repeats}");
        assert!(round_trip.timeout(1) <= Nanos(LONG.0 * 3));
    }
}
