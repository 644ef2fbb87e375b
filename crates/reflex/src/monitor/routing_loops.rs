//! The monitor of routing loops: a packet's path that visits a node twice, and drops at the end of
//! a packet's time to live (nanoPU, table 2).

use super::{Finding, MonitoredReport, Sample, Targets};
use crate::decision::{MAX_PATH, Measured, PathNodes, Subject};
use crate::loops::RoutingLoopSpec;
use crate::permission::{MAX_HOPS, PathPorts, Wish};

/// A monitor without state: each packet shows its own loop.
///
/// Hops that a report lacks cannot hide a loop of those that it has, so an incomplete path is a
/// sample, too. Paths are searched up to 16 hops.
#[derive(Clone, Debug)]
pub(crate) struct RoutingLoopMonitor {
    spec: RoutingLoopSpec,
}

impl RoutingLoopMonitor {
    /// Creates a monitor.
    pub(crate) fn new(spec: RoutingLoopSpec) -> RoutingLoopMonitor {
        RoutingLoopMonitor { spec }
    }

    pub(crate) fn take(
        &mut self,
        report: &MonitoredReport<'_>,
        findings: &mut Vec<Finding>,
    ) -> Sample {
        let Some(flow) = report.facts.flow else {
            return Sample::NoPath;
        };
        let subject = Subject::Flow(flow);
        let path = report.flow_and_path();
        let ports = path.map_or(PathPorts::default(), |(_, path)| PathPorts::new(path));
        let hops = ports.get();
        let mut repeats = (1..hops.len()).filter_map(|at| {
            let first = hops[..at].iter().position(|hop| hop.0 == hops[at].0)?;
            Some((first, at))
        });
        let nodes = |path: &[(_, _)]| PathNodes::new(path.iter().map(|hop| hop.0));
        if let Some((first, again)) = repeats.next() {
            // The entry that closes the loop is the last one before the node comes again; those
            // before it are parts of the loop, too.
            let of_loop = hops[first..again].iter().rev().map(|hop| hop.0);
            findings.push(Finding {
                subject,
                path: nodes(hops),
                measured: Measured::Revisit(hops[again].0),
                wish: Some(Wish::Entry(ports)),
                targets: Targets::FirstOf(PathNodes::new(of_loop)),
            });
            return Sample::Alarm;
        }
        let reason = report.facts.drop_reason;
        if let Some(reason) = reason.filter(|reason| Some(*reason) == self.spec.ttl_reason) {
            // The entry that closes the loop is not known.
            findings.push(Finding {
                subject,
                path: nodes(hops),
                measured: Measured::TimeToLive(reason),
                wish: None,
                targets: Targets::All,
            });
            return Sample::Alarm;
        }
        match path {
            Some(_) => Sample::Normal,
            None => Sample::NoPath,
        }
    }
}

const _: () = assert!(MAX_PATH <= MAX_HOPS);
