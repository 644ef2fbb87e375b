//! Counts of a plane and of its monitors, and what they found so far.

use telemetry::SequenceCounts;

use super::ReflexPlane;
use crate::decision::DecisionRefusal;
use crate::loops::{MonitorIndex, ReflexIndex, SourceIndex};
use crate::monitor::Detector;
use crate::monitor::microburst::Burst;

/// Counts of a plane. Received datagrams = those that are not allowed, malformed or repeated, and
/// accepted ones. Reports of accepted datagrams = classified + unclassified ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaneCounts {
    /// Datagrams received.
    pub received: u64,
    /// Datagrams of an address or node that is not allowed.
    pub not_allowed: u64,
    /// Datagrams that are no report.
    pub malformed: u64,
    /// Datagrams that came before.
    pub repeated: u64,
    /// Datagrams taken.
    pub accepted: u64,
    /// Reports in them.
    pub reports: u64,
    /// Reports that concern a monitor.
    pub classified: u64,
    /// Reports that concern none.
    pub unclassified: u64,
    /// Commands sent to elements, those included that were sent again.
    pub commands: u64,
    /// Commands sent again.
    pub resent: u64,
    /// Decisions that were dropped since there were too many.
    pub lost_decisions: u64,
    /// Places that are restored at the end of their life.
    pub ended: u64,
}

/// Counts of a monitor. Its reports = samples + those that are none, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonitorCounts {
    /// Reports given to it.
    pub reports: u64,
    /// Samples that are normal.
    pub normal: u64,
    /// Samples that are not.
    pub alarms: u64,
    /// Reports without a flow or a path: they are about one hop.
    pub no_path: u64,
    /// Paths that lack hops, times or other values that the monitor needs.
    pub no_sample: u64,
    /// Samples of flows, hosts or queues without a place.
    pub no_room: u64,
    /// Decisions without effect, by [`DecisionRefusal::ALL`].
    pub refused: [u64; DecisionRefusal::ALL.len()],
    /// Decisions that the store took.
    pub made: u64,
    /// Frames that a program sent to the port of commands and that are no command.
    pub malformed: u64,
}

impl ReflexPlane {
    /// Returns the counts.
    pub fn counts(&self) -> PlaneCounts {
        self.counts
    }

    /// Returns a monitor's counts.
    pub fn monitor_counts(&self, monitor: MonitorIndex) -> MonitorCounts {
        let monitor = &self.monitors[monitor.0];
        let malformed = match monitor.instances.first() {
            Detector::Program(program) => program.malformed(),
            _ => 0,
        };
        MonitorCounts {
            malformed,
            ..monitor.counts
        }
    }

    /// Returns the number of instances of a monitor.
    pub fn instances(&self, monitor: MonitorIndex) -> usize {
        self.monitors[monitor.0].instances.count()
    }

    /// Returns the bursts that a monitor of kind `microburst` found, oldest first.
    pub fn bursts(&self, monitor: MonitorIndex) -> impl Iterator<Item = &Burst> {
        let bursts = match self.monitors[monitor.0].instances.first() {
            Detector::Microburst(monitor) => Some(monitor.bursts()),
            _ => None,
        };
        bursts.into_iter().flatten()
    }

    /// Returns the number of places that a permission changed.
    pub fn entries(&self, reflex: ReflexIndex) -> usize {
        self.permissions[reflex.0].entries()
    }

    /// Returns the sequences of a source's exporters together.
    pub fn sequences(&self, source: SourceIndex) -> SequenceCounts {
        self.sources[source.0].tracker.total()
    }

    /// Returns the number of datagrams of a source that had no place in a sequence.
    pub fn untracked(&self, source: SourceIndex) -> u64 {
        self.sources[source.0].tracker.untracked()
    }
}
