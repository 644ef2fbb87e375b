//! The monitor that tunes the threshold of a port's queue to an objective (nanoPU, section 4.1.1
//! b).

use packet::Nanos;

use super::{Finding, MonitoredReport, Observation, Targets};
use crate::decision::{Measured, PathNodes, Subject};
use crate::loops::TuningSpec;
use crate::permission::Wish;
use crate::settings::Threshold;

/// Packets of an interval at most: with more of them it ends earlier.
const MAX_SAMPLES: usize = 16_384;
/// Packets of an interval at least: with fewer of them it goes on.
const MIN_SAMPLES: usize = 50;
/// Part of the objective, in thousandths, that thresholds aim at.
const AIM: u64 = 900;
/// Part of the objective, in thousandths, from which on a threshold does not grow.
const ENOUGH: u64 = 800;
/// Growth and decline of a threshold in one interval, in thousandths, at most.
const MAX_GROWTH: u64 = 1500;
const MAX_DECLINE: u64 = 300;
/// Change of a threshold, in thousandths, below which it stays.
const STEP: u64 = 50;

/// A monitor: times of a port's packets in the node, in an interval.
///
/// The threshold is a number of packets. Of small packets more fit the same delay than of large
/// ones, so it follows the mix of mice and elephants: after each interval it changes in proportion
/// to the objective over the delay that 99 of 100 packets do not exceed. It grows only if the queue
/// came near it. Packets that were in the queue at a change do not count.
#[derive(Clone, Debug)]
pub(crate) struct TuningMonitor {
    spec: TuningSpec,
    /// Delays of the interval, in nanoseconds.
    delays: Vec<u32>,
    bytes: u64,
    /// The most packets that a packet left in the queue.
    occupancy: Option<u32>,
    start: Option<Nanos>,
    /// The threshold; before the first change, the highest one.
    threshold: u64,
    is_set: bool,
    /// The queue does not have the threshold: its change was refused.
    is_refused: bool,
}

impl TuningMonitor {
    /// Creates a monitor.
    pub(crate) fn new(spec: TuningSpec) -> TuningMonitor {
        TuningMonitor {
            spec,
            delays: Vec::with_capacity(MAX_SAMPLES),
            bytes: 0,
            occupancy: None,
            start: None,
            threshold: spec.most.into(),
            is_set: false,
            is_refused: false,
        }
    }

    /// Sets a threshold. A least one above the most counts as the most.
    pub(crate) fn set(&mut self, threshold: Threshold, value: u64) {
        let packets = value.min(u32::MAX.into()) as u32;
        match threshold {
            Threshold::Objective => self.spec.objective = Nanos(value),
            Threshold::Least => self.spec.least = packets,
            Threshold::Most => self.spec.most = packets,
            _ => {}
        }
    }

    /// Notes that the queue did not get the threshold.
    pub(crate) fn refused(&mut self) {
        self.is_refused = true;
    }

    pub(crate) fn take(
        &mut self,
        report: &MonitoredReport<'_>,
        now: Nanos,
        findings: &mut Vec<Finding>,
    ) -> Observation {
        let Some((_, path)) = report.flow_and_path() else {
            return Observation::NoPath;
        };
        let mut hops = path.hops();
        let hop = hops.find(|hop| {
            let egress = hop.interfaces.map(|interfaces| interfaces.egress);
            hop.node == Some(self.spec.node) && egress == Some(self.spec.port)
        });
        let delay = hop.and_then(|hop| hop.residence());
        let delay = delay.and_then(|delay| u32::try_from(delay.0).ok());
        let (Some(delay), Some(bytes)) = (delay, report.frame_bytes) else {
            return Observation::NoSample;
        };
        let occupancy = hop.and_then(|hop| hop.queue).map(|queue| queue.level);
        match self.observe(delay, bytes, occupancy, now) {
            Some(finding) => {
                findings.push(finding);
                Observation::Alarm
            }
            None => Observation::Normal,
        }
    }

    /// Takes a packet. Returns a finding if an interval ends with it and the threshold changes.
    fn observe(
        &mut self,
        delay: u32,
        bytes: u32,
        occupancy: Option<u32>,
        now: Nanos,
    ) -> Option<Finding> {
        let start = *self.start.get_or_insert(now);
        if now < start {
            // The packet was in the queue before the last change.
            return None;
        }
        let is_over = now >= start + self.spec.every && self.delays.len() >= MIN_SAMPLES;
        if is_over || self.delays.len() >= MAX_SAMPLES {
            let finding = self.evaluate();
            self.delays.clear();
            (self.bytes, self.occupancy) = (0, None);
            let drained = match finding.map(|finding| finding.measured) {
                Some(Measured::Queueing { delay, .. }) => now + delay + delay,
                _ => now,
            };
            self.start = Some(drained);
            if finding.is_some() {
                return finding;
            }
        }
        self.delays.push(delay);
        self.bytes += u64::from(bytes);
        self.occupancy = self.occupancy.max(occupancy);
        None
    }

    /// Ends an interval.
    fn evaluate(&mut self) -> Option<Finding> {
        let count = self.delays.len();
        let at = (count * 99 / 100).min(count.checked_sub(1)?);
        let (_, delay, _) = self.delays.select_nth_unstable(at);
        let delay = u64::from(*delay).max(1);
        let objective = self.spec.objective.0;
        // The packet itself was in the queue, too.
        let reached = self.occupancy.map(|level| u64::from(level) + 1);
        let used = reached.map_or(self.threshold, |reached| reached.min(self.threshold));
        let is_near = used * 1000 >= self.threshold * (1000 - STEP) || used + 2 > self.threshold;
        let is_kept = delay <= objective;
        let is_enough = !is_near || delay * 1000 >= objective.saturating_mul(ENOUGH);
        // The bounds may have changed since the threshold was set.
        let (least, most): (u64, u64) = (self.spec.least.into(), self.spec.most.into());
        let mut next = self.threshold;
        if !(is_kept && is_enough) {
            let factor = (objective.saturating_mul(AIM) / delay).clamp(MAX_DECLINE, MAX_GROWTH);
            // A small threshold grows by a packet at least.
            next = used * factor / 1000 + u64::from(factor > 1000);
        }
        let bounded = |threshold: u64| threshold.max(least).min(most);
        let (next, is_within) = (bounded(next), bounded(self.threshold) == self.threshold);
        let differ = next.abs_diff(self.threshold) * 1000;
        let is_small = self.is_set && differ <= self.threshold * STEP;
        let is_same = next == self.threshold || is_small && is_within;
        if is_same && !self.is_refused {
            return None;
        }
        (self.threshold, self.is_set, self.is_refused) = (next, true, false);
        Some(Finding {
            subject: Subject::Tenant,
            path: PathNodes::default(),
            measured: Measured::Queueing {
                delay: Nanos(delay),
                objective: self.spec.objective,
                mean_bytes: (self.bytes / count as u64) as u32,
            },
            wish: Some(Wish::Value(next)),
            targets: Targets::All,
        })
    }
}

#[cfg(test)]
mod tests {
    use telemetry::IntNodeId;

    use super::*;

    /// Runs a queue that is always full of packets with this time of transmission. Returns the
    /// threshold at the end.
    fn run(monitor: &mut TuningMonitor, now: &mut u64, packets: u64, time: u64) -> u64 {
        for _ in 0..packets {
            *now += time;
            let threshold = monitor.threshold;
            let delay = u32::try_from(threshold * time).unwrap();
            let level = Some(threshold as u32 - 1);
            monitor.observe(delay, 1000, level, Nanos(*now));
        }
        monitor.threshold
    }

    fn monitor() -> TuningMonitor {
        TuningMonitor::new(TuningSpec {
            node: IntNodeId(1),
            port: 3,
            objective: Nanos::from_micros(200),
            every: Nanos::from_millis(2),
            least: 4,
            most: 400,
        })
    }

    #[test]
    fn the_threshold_follows_the_size_of_packets_and_keeps_the_objective() {
        let mut monitor = monitor();
        let mut now = 0;
        for (time, packets) in [
            (11_000, 3000),
            (1_600, 20_000),
            (11_000, 3000),
            (100, 200_000),
        ] {
            let threshold = run(&mut monitor, &mut now, packets, time);
            let delay = threshold * time;
            assert!(delay <= 200_000, "{time}: {threshold}");
            let is_enough = delay >= 150_000 || threshold == 400;
            assert!(is_enough, "{time}: {threshold}");
        }
    }

    #[test]
    fn a_threshold_comes_into_bounds_that_change() {
        let mut monitor = monitor();
        // The second change is small.
        for (begin, most) in [(0, 300), (20_000_000, 295)] {
            monitor.set(Threshold::Most, most);
            for at in 0..1000u64 {
                let now = Nanos(begin + at * 10_000);
                let found = monitor.observe(50_000, 1000, Some(5), now);
                if let Some(found) = found {
                    assert_eq!(found.wish, Some(Wish::Value(most)));
                }
            }
            assert_eq!(monitor.threshold, most);
        }
    }

    #[test]
    fn a_queue_that_stays_short_leaves_the_threshold() {
        let mut monitor = monitor();
        for at in 0..10_000u64 {
            let found = monitor.observe(50_000, 1000, Some(5), Nanos(at * 10_000));
            assert_eq!(found, None);
        }
    }
}
