//! The monitor of path latencies: nanoPU, section 3.1.2.

use packet::Nanos;
use telemetry::{EqualClocks, FlowKey, NoSample, ReportedPath};

use super::flow_table::FlowTable;
use super::{Finding, MonitoredReport, Observation, Targets};
use crate::decision::{Measured, PathNodes, Subject};
use crate::loops::{Compare, LatencyMeasure, PathLatencySpec};
use crate::permission::{PathPorts, Wish};

/// Maximum number of samples of an average.
pub(crate) const MAX_WINDOW: usize = 1024;
/// Maximum number of flows of a monitor.
pub(crate) const MAX_FLOWS: usize = 1 << 24;

/// A flow on one path: a detour changes what is normal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PathKey {
    flow: FlowKey,
    path: u64,
}

/// Latency of a packet that is not normal for its flow and path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyAlarm {
    /// The packet's latency.
    pub latency: Nanos,
    /// The moving average that it was compared with.
    pub average: Nanos,
}

/// Result of one report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyOutcome {
    /// The latency is normal, or the average is not known yet.
    Normal,
    /// It is not.
    Alarm(LatencyAlarm),
    /// The report is no sample.
    NoSample(NoSample),
    /// A hop has no node ID, so the path is not known.
    UnknownPath,
    /// The latency is 4.29 s or more: clocks that are not equal, rather than a path.
    TooLong,
    /// There is no place for the flow.
    Full,
}

/// A monitor: moving averages of latencies, by flow and path.
#[derive(Clone, Debug)]
pub struct PathLatencyMonitor {
    spec: PathLatencySpec,
    seed: u64,
    flows: FlowTable<PathKey>,
    averages: Box<[Average]>,
    /// The last latencies of each place, [`PathLatencySpec::window`] each, in nanoseconds.
    samples: Box<[u32]>,
}

/// Sum of the last latencies of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    sum: u64,
    count: u16,
    next: u16,
}

impl PathLatencyMonitor {
    /// Creates a monitor. All its memory is allocated at once.
    pub fn new(spec: PathLatencySpec, seed: u64) -> PathLatencyMonitor {
        let flows = FlowTable::new(spec.flows, spec.forget, seed);
        let places = flows.places();
        PathLatencyMonitor {
            spec,
            seed,
            flows,
            averages: vec![Average::default(); places].into(),
            samples: vec![0; places * spec.window].into(),
        }
    }

    /// Takes the path of a packet of a flow.
    #[inline]
    pub fn observe(
        &mut self,
        flow: FlowKey,
        path: &ReportedPath<'_>,
        now: Nanos,
    ) -> LatencyOutcome {
        let latency = match self.spec.measure {
            LatencyMeasure::Hops => path.summed_stack_latency(),
            LatencyMeasure::EqualClocks => path.first_to_last_ingress(EqualClocks),
        };
        let latency = match latency {
            Ok(latency) => latency,
            Err(reason) => return LatencyOutcome::NoSample(reason),
        };
        if u32::try_from(latency.0).is_err() {
            return LatencyOutcome::TooLong;
        }
        let Some(hash) = path.path_hash(self.seed) else {
            return LatencyOutcome::UnknownPath;
        };
        let key = PathKey { flow, path: hash };
        let Some(place) = self.flows.place(&key, now) else {
            return LatencyOutcome::Full;
        };
        if place.is_new {
            self.averages[place.index] = Average::default();
        }
        self.compare(place.index, latency)
    }

    pub(crate) fn take(
        &mut self,
        report: &MonitoredReport<'_>,
        now: Nanos,
        findings: &mut Vec<Finding>,
    ) -> Observation {
        let Some((flow, path)) = report.flow_and_path() else {
            return Observation::NoPath;
        };
        match self.observe(flow, path, now) {
            LatencyOutcome::Normal => Observation::Normal,
            LatencyOutcome::NoSample(_) | LatencyOutcome::UnknownPath | LatencyOutcome::TooLong => {
                Observation::NoSample
            }
            LatencyOutcome::Full => Observation::NoRoom,
            LatencyOutcome::Alarm(LatencyAlarm { latency, average }) => {
                let path_nodes = PathNodes::new(super::nodes(path));
                findings.push(Finding {
                    subject: Subject::Flow(flow),
                    path: path_nodes,
                    measured: Measured::Latency { latency, average },
                    wish: Some(Wish::Entry(PathPorts::new(path))),
                    targets: Targets::FirstOf(path_nodes),
                });
                Observation::Alarm
            }
        }
    }

    /// Compares a latency with the average at a place, and adds it.
    fn compare(&mut self, place: usize, latency: Nanos) -> LatencyOutcome {
        let window = self.spec.window;
        if self.spec.compare == Compare::Paper {
            self.add(place, latency);
        }
        let average = self.averages[place];
        if usize::from(average.count) < window {
            if self.spec.compare == Compare::Above {
                self.add(place, latency);
            }
            return LatencyOutcome::Normal;
        }
        let mean = Nanos(average.sum / u64::from(average.count));
        let differs = match self.spec.compare {
            Compare::Above => latency > mean + self.spec.above,
            Compare::Paper => latency.0.abs_diff(mean.0) > self.spec.above.0,
        };
        if differs {
            return LatencyOutcome::Alarm(LatencyAlarm {
                latency,
                average: mean,
            });
        }
        if self.spec.compare == Compare::Above {
            self.add(place, latency);
        }
        LatencyOutcome::Normal
    }

    fn add(&mut self, place: usize, latency: Nanos) {
        let window = self.spec.window;
        let average = &mut self.averages[place];
        // Longer ones are no samples.
        let sample = latency.0 as u32;
        let slot = &mut self.samples[place * window + usize::from(average.next)];
        if usize::from(average.count) == window {
            average.sum -= u64::from(*slot);
        } else {
            average.count += 1;
        }
        *slot = sample;
        average.sum += u64::from(sample);
        average.next += 1;
        if usize::from(average.next) == window {
            average.next = 0;
        }
    }

    /// Returns the number of flows and paths that are known.
    pub fn flows(&self) -> usize {
        self.flows.flows()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use support::rng::Rng;

    use super::*;

    fn monitor(compare: Compare, window: usize, above: u64) -> PathLatencyMonitor {
        let spec = PathLatencySpec {
            window,
            above: Nanos(above),
            compare,
            measure: LatencyMeasure::Hops,
            flows: 4,
            forget: Nanos::from_secs(1),
        };
        PathLatencyMonitor::new(spec, 1)
    }

    /// Compares latencies of one place by their definition.
    fn naive(compare: Compare, window: usize, above: u64, all: &[u64]) -> Vec<LatencyOutcome> {
        let mut kept: VecDeque<u64> = VecDeque::new();
        let mut outcomes = Vec::new();
        for latency in all {
            let mut with = kept.clone();
            with.push_back(*latency);
            if with.len() > window {
                with.pop_front();
            }
            let compared = if compare == Compare::Paper {
                &with
            } else {
                &kept
            };
            let average = compared.iter().sum::<u64>() / (compared.len() as u64).max(1);
            let is_full = compared.len() == window;
            let is_alarm = is_full
                && match compare {
                    Compare::Above => *latency > average + above,
                    Compare::Paper => latency.abs_diff(average) > above,
                };
            if compare == Compare::Paper || !is_alarm {
                kept = with;
            }
            outcomes.push(match is_alarm {
                true => LatencyOutcome::Alarm(LatencyAlarm {
                    latency: Nanos(*latency),
                    average: Nanos(average),
                }),
                false => LatencyOutcome::Normal,
            });
        }
        outcomes
    }

    #[test]
    fn alarms_are_those_of_the_definition() {
        let mut rng = Rng::new(3);
        for case in 0..500 {
            let window = 1 + rng.index(12);
            let above = rng.below(300);
            let all: Vec<u64> = (0..200)
                .map(|at| 1000 + rng.below(400) + if at > 100 { 350 } else { 0 })
                .collect();
            for compare in [Compare::Above, Compare::Paper] {
                let mut monitor = monitor(compare, window, above);
                let found: Vec<_> = all
                    .iter()
                    .map(|it| monitor.compare(0, Nanos(*it)))
                    .collect();
                assert_eq!(found, naive(compare, window, above, &all), "case {case}");
            }
        }
    }

    #[test]
    fn a_jump_stays_an_alarm_for_as_long_as_it_lasts() {
        let mut monitor = monitor(Compare::Above, 10, 1000);
        for _ in 0..10 {
            assert_eq!(monitor.compare(0, Nanos(5000)), LatencyOutcome::Normal);
        }
        let alarm = LatencyAlarm {
            latency: Nanos(9000),
            average: Nanos(5000),
        };
        for _ in 0..100 {
            assert_eq!(
                monitor.compare(0, Nanos(9000)),
                LatencyOutcome::Alarm(alarm)
            );
        }
        assert_eq!(monitor.compare(0, Nanos(5000)), LatencyOutcome::Normal);
    }
}
