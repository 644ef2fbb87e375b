//! Waiting times between attempts to reach a controller.

use std::time::Duration;

/// First waiting time.
const FIRST: Duration = Duration::from_millis(100);

/// Longest waiting time.
const LONGEST: Duration = Duration::from_secs(8);

/// The waiting times of a controller: each is twice the one before, up to a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackOff {
    next: Duration,
}

impl BackOff {
    pub(crate) fn new() -> BackOff {
        BackOff { next: FIRST }
    }

    /// Returns the time to wait after a failed attempt.
    pub(crate) fn failed(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(LONGEST);
        wait
    }

    /// Notes the end of a connection with a controller that spoke the protocol. The times begin
    /// again if it lasted as long as the longest of them, so that one that closes at once is dialed
    /// ever less often.
    pub(crate) fn ended(&mut self, lasted: Duration) {
        if lasted >= LONGEST {
            *self = BackOff::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_times_double_up_to_a_limit_and_begin_again_after_a_long_connection() {
        let mut back_off = BackOff::new();
        let times: Vec<u128> = (0..9).map(|_| back_off.failed().as_millis()).collect();
        let doubled = [100, 200, 400, 800, 1_600, 3_200, 6_400, 8_000, 8_000];
        assert_eq!(times, doubled);
        back_off.ended(Duration::from_secs(7));
        assert_eq!(back_off.failed(), LONGEST);
        back_off.ended(LONGEST);
        assert_eq!(back_off.failed(), FIRST);
    }
}
