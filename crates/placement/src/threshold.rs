//! Threshold above which the switch reports a flow, and the control of its factor k (CLIP,
//! section V-A).
//!
//! The threshold of a window is `k * packets / flows` of the window before. More candidates than N
//! by over `epsilon * N` raise k, fewer by over that lower it, and inside this band k stays. The
//! paper has no band: its two conditions overlap.

use crate::{PlacementOptions, Policy, Warning};

/// First exponent of the ratio of candidates to N by which k changes.
const DEFAULT_GAIN: f64 = 0.7;

/// Minimum exponent.
const MIN_GAIN: f64 = 0.05;

/// Maximum change of k in one window, as a factor.
const MAX_STEP: f64 = 2.0;

/// Range of k.
const RANGE: (f64, f64) = (1e-3, 1e6);

/// Direction of a change of k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjustment {
    /// More candidates than the band allows.
    Raised,
    /// Fewer candidates than the band allows.
    Lowered,
    /// As many candidates as the band allows.
    Kept,
}

/// Controller of the factor k.
///
/// The step is a power of the ratio of candidates to N. The number of candidates falls faster
/// with the threshold the less flows differ, so one exponent for all traffic would overshoot or
/// be slow: it shrinks when the direction changes, and grows while it stays.
#[derive(Clone, Debug)]
pub struct ThresholdControl {
    k: f64,
    /// Factor of the threshold beside k.
    share: f64,
    epsilon: f64,
    gain: f64,
    last: Adjustment,
}

impl ThresholdControl {
    /// Creates a controller with the first k, another constant factor of the threshold, and the
    /// half width of the band.
    pub fn new(k: f64, share: f64, epsilon: f64) -> ThresholdControl {
        ThresholdControl {
            k,
            share,
            epsilon,
            gain: DEFAULT_GAIN,
            last: Adjustment::Kept,
        }
    }

    /// Returns k.
    pub fn k(&self) -> f64 {
        self.k
    }

    /// Returns the threshold after a window with these packets and flows: a flow with more packets
    /// is reported. Without flows no threshold is known, and none is reported.
    pub fn threshold(&self, packets: u64, flows: u64) -> u64 {
        if flows == 0 {
            return u64::MAX;
        }
        (self.k * self.share * packets as f64 / flows as f64) as u64
    }

    /// Adjusts k after a window with this number of candidates, for `top` entries.
    pub fn adjust(&mut self, candidates: u64, top: u64) -> Adjustment {
        let ratio = candidates as f64 / top.max(1) as f64;
        let now = if ratio > 1.0 + self.epsilon {
            Adjustment::Raised
        } else if ratio < 1.0 - self.epsilon {
            Adjustment::Lowered
        } else {
            return Adjustment::Kept;
        };
        if self.last != Adjustment::Kept {
            let change = if self.last == now { 1.2 } else { 0.6 };
            self.gain = (self.gain * change).clamp(MIN_GAIN, 1.0);
        }
        self.last = now;
        let step = ratio.powf(self.gain).clamp(1.0 / MAX_STEP, MAX_STEP);
        self.k = (self.k * step).clamp(RANGE.0, RANGE.1);
        now
    }
}

/// Threshold of the running window, as a policy has it.
#[derive(Clone, Debug)]
pub(crate) struct ReportThreshold {
    policy: Policy,
    top: u64,
    columns: u32,
    control: ThresholdControl,
    threshold: u64,
}

impl ReportThreshold {
    /// Creates the threshold of the first window. `share` is a factor beside k.
    pub(crate) fn new(options: &PlacementOptions, share: f64) -> ReportThreshold {
        ReportThreshold {
            policy: options.policy,
            top: options.top,
            columns: options.sketch.columns,
            control: ThresholdControl::new(options.k, share, options.epsilon),
            threshold: match options.policy {
                // The first window measures the mean.
                Policy::None | Policy::Threshold => u64::MAX,
                Policy::Random | Policy::Heap => 0,
            },
        }
    }

    pub(crate) fn threshold(&self) -> u64 {
        self.threshold
    }

    pub(crate) fn k(&self) -> f64 {
        self.control.k()
    }

    /// Ends a window with this number of candidates above its threshold.
    pub(crate) fn end_window(
        &mut self,
        candidates: u64,
        packets: u64,
        flows: u64,
    ) -> Option<Warning> {
        if self.policy != Policy::Threshold {
            return None;
        }
        if self.threshold != u64::MAX {
            self.control.adjust(candidates, self.top);
        }
        self.threshold = self.control.threshold(packets, flows);
        let columns = self.columns;
        (u64::from(columns) < flows).then_some(Warning::FewColumns { columns, flows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k_moves_outside_of_the_band_alone() {
        let check = |candidates, expected| {
            let mut control = ThresholdControl::new(2.0, 1.0, 0.1);
            assert_eq!(control.adjust(candidates, 100), expected, "{candidates}");
            let order = control.k().total_cmp(&2.0);
            let up = matches!(expected, Adjustment::Raised);
            let kept = matches!(expected, Adjustment::Kept);
            assert_eq!((order.is_gt(), order.is_eq()), (up, kept), "{candidates}");
        };
        check(0, Adjustment::Lowered);
        check(89, Adjustment::Lowered);
        check(90, Adjustment::Kept);
        check(110, Adjustment::Kept);
        check(111, Adjustment::Raised);
        check(u64::MAX, Adjustment::Raised);
    }

    #[test]
    fn the_threshold_is_k_times_the_mean_and_the_share() {
        let control = ThresholdControl::new(2.0, 0.593, 0.1);
        assert_eq!(control.threshold(100_000, 1000), 118);
        assert_eq!(control.threshold(0, 1000), 0);
        assert_eq!(control.threshold(10, 0), u64::MAX);
    }

    #[test]
    fn candidates_reach_the_band_for_flat_and_steep_traffic() {
        // A power law: the number of flows above a threshold is `threshold ^ -slope`.
        for slope in [0.3, 1.0, 2.0, 5.0, 8.0] {
            for start in [0.2, 1.0, 5.0] {
                let mut control = ThresholdControl::new(start, 1.0, 0.1);
                let count = |k: f64| (1000.0 * k.powf(-slope)).min(10_000.0) as u64;
                let kept = (0..40).any(|_| {
                    let candidates = count(control.k());
                    control.adjust(candidates, 1000) == Adjustment::Kept
                });
                assert!(kept, "slope {slope}, k from {start} to {}", control.k());
            }
        }
    }
}
