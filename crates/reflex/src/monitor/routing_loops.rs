//! The monitor of routing loops: a packet's path that visits a node twice, and drops at the end of
//! a packet's time to live (nanoPU, table 2).

use super::{Finding, MonitoredReport, Observation, Targets};
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
    ) -> Observation {
        let Some(flow) = report.facts.flow else {
            return Observation::NoPath;
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
            return Observation::Alarm;
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
            return Observation::Alarm;
        }
        match path {
            Some(_) => Observation::Normal,
            None => Observation::NoPath,
        }
    }
}

const _: () = assert!(MAX_PATH <= MAX_HOPS);

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use telemetry::{FlowKey, Hop, Instructions, IntNodeId, IntStack, ReportedHops, ReportedPath};

    use super::*;
    use crate::classify::ReportFacts;

    /// The finding of a packet that these nodes sent by port 7, in an incomplete path if it is one.
    fn found(nodes: &[u32], is_cut: bool) -> Option<Finding> {
        let entries = nodes.iter().rev().flat_map(|node| {
            let [a, b, c, d] = node.to_be_bytes();
            [a, b, c, d, 0, 9, 0, 7]
        });
        let entries: Vec<u8> = entries.collect();
        let stack = IntStack::new(Instructions(0xc000), 8, &entries).expect("whole entries");
        let path = ReportedPath::new(stack, None, None, is_cut);
        let (sample, finding) = observe(ReportedHops::Path(path), None);
        let expected = match finding {
            Some(_) => Observation::Alarm,
            None => Observation::Normal,
        };
        assert_eq!(sample, expected);
        finding
    }

    fn observe(hops: ReportedHops<'_>, drop_reason: Option<u8>) -> (Observation, Option<Finding>) {
        let flow = FlowKey {
            source: Ipv4Addr::new(10, 0, 0, 1).into(),
            destination: Ipv4Addr::new(10, 0, 0, 2).into(),
            protocol: 17,
            ports: None,
        };
        let report = MonitoredReport {
            facts: ReportFacts {
                flow: Some(flow),
                node: None,
                ingress_port: None,
                egress_port: None,
                queue: None,
                drop_reason,
            },
            hops,
            frame_bytes: None,
        };
        let ttl_reason = Some(5);
        let mut monitor = RoutingLoopMonitor::new(RoutingLoopSpec { ttl_reason });
        let mut findings = Vec::new();
        let sample = monitor.take(&report, &mut findings);
        assert!(findings.len() <= 1);
        (sample, findings.pop())
    }

    #[test]
    fn a_node_that_comes_twice_is_a_loop_and_its_last_node_closes_it() {
        assert_eq!(found(&[1, 2, 3], false), None);
        for (nodes, is_cut, again, order) in [
            (vec![1, 2, 1], false, 1, vec![2, 1]),
            (vec![9, 1, 2, 3, 1, 2], true, 1, vec![3, 2, 1]),
            (vec![4, 4], false, 4, vec![4]),
        ] {
            let finding = found(&nodes, is_cut).expect("it is a loop");
            assert_eq!(finding.measured, Measured::Revisit(IntNodeId(again)));
            let Targets::FirstOf(targets) = finding.targets else {
                panic!("{finding:?}");
            };
            let targets: Vec<u32> = targets.get().iter().map(|node| node.0).collect();
            assert_eq!(targets, order);
            assert!(finding.wish.is_some());
        }
    }

    #[test]
    fn nodes_that_do_not_know_their_name_are_not_one_node() {
        assert_eq!(found(&[1, u32::MAX, 2, u32::MAX, 3], false), None);
    }

    #[test]
    fn the_end_of_a_time_to_live_is_reported_only() {
        let hop = ReportedHops::Hop(Hop::default());
        let (sample, finding) = observe(hop, Some(5));
        assert_eq!(sample, Observation::Alarm);
        let finding = finding.expect("it is reported");
        assert_eq!(finding.measured, Measured::TimeToLive(5));
        assert_eq!(finding.wish, None);
        assert_eq!(observe(hop, Some(6)), (Observation::NoPath, None));
        assert_eq!(observe(hop, None), (Observation::NoPath, None));
    }
}
