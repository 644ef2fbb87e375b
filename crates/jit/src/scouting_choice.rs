//! Choice by measurement whether prefetch passes run before a burst.
//!
//! Prefetch passes pay where lookups wait for memory. Where traffic keeps to entries that are in
//! the caches they only cost time. Specialised code measures both ways on some bursts, and takes
//! the faster one for those after them. Prefetch passes never change a result, so neither does the
//! choice.

use exec::BURST;
use support::tsc_clock::Clock;

/// Number of bursts from one trial to the next, and of bursts of a trial.
const PERIOD: u64 = 512;
const TRIAL: u64 = 16;

/// Number of pairs of bursts of a trial, of eight, in which the one without prefetch passes must be
/// the faster. A disturbance changes one pair, and equal ways seldom reach the number.
const WINS: u64 = 6;

/// Minimum number of packets of a burst that is measured. Others have higher costs a packet.
const MEASURED: usize = BURST / 2;

/// Words of [`exec::PacketContext::pace`]: bursts so far, ticks of the last burst with prefetch
/// passes, pairs in which the burst without them was faster, and 1 if bursts run without.
mod word {
    pub(super) const BURSTS: usize = 0;
    pub(super) const WITH: usize = 1;
    pub(super) const WINS: usize = 2;
    pub(super) const IS_WITHOUT: usize = 3;
}

/// Choice of a compiled fast path.
pub(crate) struct ScoutingChoice {
    clock: Clock,
}

/// Mode of one burst.
pub(crate) struct BurstMode {
    /// True if its prefetch passes run.
    pub(crate) is_scouted: bool,
    /// Number of its packets.
    count: usize,
    /// Position in the trial and the time of its begin, if it is measured.
    trial: Option<(u64, u64)>,
}

impl ScoutingChoice {
    pub(crate) fn new() -> ScoutingChoice {
        ScoutingChoice {
            clock: Clock::new(),
        }
    }

    /// Begins a burst of `count` packets.
    #[inline]
    pub(crate) fn begin(&self, pace: &[u64; 4], count: usize) -> BurstMode {
        let at = pace[word::BURSTS] % PERIOD;
        let is_measured = at < TRIAL && count >= MEASURED;
        BurstMode {
            is_scouted: match is_measured {
                true => at.is_multiple_of(2),
                false => pace[word::IS_WITHOUT] == 0,
            },
            count,
            trial: is_measured.then(|| (at, self.clock.ticks())),
        }
    }

    /// Ends a burst, of which `done` packets were processed.
    #[inline]
    pub(crate) fn end(&self, mode: &BurstMode, pace: &mut [u64; 4], done: usize) {
        if mode.count >= MEASURED {
            pace[word::BURSTS] = pace[word::BURSTS].wrapping_add(1);
        }
        if let Some((at, begin)) = mode.trial {
            let ticks = self.clock.ticks().saturating_sub(begin);
            let is_whole = done == mode.count;
            note(
                pace,
                at,
                is_whole.then(|| ticks * BURST as u64 / mode.count as u64),
            );
        }
    }
}

/// Notes the ticks of a burst of a trial, for [`BURST`] packets. Bursts with and without prefetch
/// passes follow each other in pairs. The last one decides.
#[cold]
fn note(pace: &mut [u64; 4], at: u64, ticks: Option<u64>) {
    if at == 0 {
        pace[word::WINS] = 0;
    }
    match (at.is_multiple_of(2), ticks) {
        // Without a time the next burst wins nothing.
        (true, ticks) => pace[word::WITH] = ticks.unwrap_or(0),
        (false, Some(ticks)) => pace[word::WINS] += u64::from(ticks < pace[word::WITH]),
        (false, None) => {}
    }
    if at == TRIAL - 1 {
        pace[word::IS_WITHOUT] = (pace[word::WINS] >= WINS).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays bursts in which prefetch passes take `scouts` ticks and save `saved`. Returns the
    /// share of bursts that run prefetch passes.
    fn share(pace: &mut [u64; 4], scouts: u64, saved: u64) -> f64 {
        let choice = ScoutingChoice::new();
        let mut scouted = 0;
        for _ in 0..2 * PERIOD {
            let mode = choice.begin(pace, BURST);
            let ticks = match mode.is_scouted {
                true => 1000 + scouts,
                false => 1000 + saved,
            };
            scouted += u64::from(mode.is_scouted);
            pace[word::BURSTS] += 1;
            if let Some((at, _)) = mode.trial {
                note(pace, at, Some(ticks));
            }
        }
        scouted as f64 / (2 * PERIOD) as f64
    }

    #[test]
    fn the_faster_way_is_taken_and_the_other_tried_seldom() {
        let mut pace = [0; 4];
        assert!(share(&mut pace, 100, 300) > 0.98);
        assert!(share(&mut pace, 300, 100) < 0.02);
        assert!(share(&mut pace, 100, 300) > 0.98);
    }

    #[test]
    fn bursts_of_few_packets_are_not_measured() {
        let choice = ScoutingChoice::new();
        let mut pace = [0; 4];
        let mode = choice.begin(&pace, MEASURED - 1);
        assert!(mode.is_scouted && mode.trial.is_none());
        choice.end(&mode, &mut pace, MEASURED - 1);
        assert_eq!(pace, [0; 4]);
    }

    #[test]
    fn a_burst_that_ends_early_decides_nothing() {
        let mut pace = [0; 4];
        for at in 0..TRIAL {
            note(&mut pace, at, (!at.is_multiple_of(2)).then_some(1));
        }
        assert_eq!(pace[word::IS_WITHOUT], 0);
    }
}
