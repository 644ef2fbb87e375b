//! Paths: the sink's hop once, missing hops, latencies.

use packet::Nanos;
use telemetry::{
    Associations, EqualClocks, Exporter, Gaps, Hop, HopTime, Instructions, IntContents, IntNodeId,
    IntStack, LocalMetadata, MainContents, NoSample, ReportEvent, ReportHeader, ReportVersion,
    ReportWriter, ReportedPath, SinkHop, TelemetryReport,
};

use crate::fields::{join, pack};

/// Node and hop latency.
const NODE_LATENCY: Instructions = Instructions(0xa000);
/// Node and both times.
const NODE_TIMES: Instructions = Instructions(0x8c00);
const UNKNOWN: u64 = 0xffff_ffff;

fn latencies(hops: &[(u64, u64)]) -> Vec<u8> {
    let entry = |&(node, latency): &(u64, u64)| pack(&[(32, node), (32, latency)]);
    hops.iter().flat_map(entry).collect()
}

fn times(hops: &[(u64, u64, u64)]) -> Vec<u8> {
    let entry = |&(node, ingress, egress): &(u64, u64, u64)| {
        pack(&[(32, node), (64, ingress), (64, egress)])
    };
    hops.iter().flat_map(entry).collect()
}

/// The exporter's own values, in a report that is kept to the end of the tests.
fn own(hop: Hop) -> LocalMetadata<'static> {
    let mut out = Vec::new();
    let header = ReportHeader {
        version: ReportVersion::V2,
        exporter: Exporter {
            node: hop.node,
            hardware: 0,
        },
        sequence: 0,
    };
    let event = ReportEvent {
        associations: Associations::default(),
        hop,
        drop: None,
        packet: None,
        max_packet: 0,
    };
    ReportWriter::new(&header, &mut out).event(&event).unwrap();
    let report = TelemetryReport::parse(out.leak()).unwrap();
    match report.individuals().next().unwrap().main {
        MainContents::Metadata(local) => local,
        other => panic!("{other:?}"),
    }
}

/// The exporter's own hop with a latency and an interface.
fn local(node: u32, latency: Option<u32>) -> Option<LocalMetadata<'static>> {
    Some(own(Hop {
        node: Some(IntNodeId(node)),
        latency,
        tx_utilisation: Some(1),
        ..Hop::default()
    }))
}

fn nodes(path: &ReportedPath<'_>) -> Vec<u32> {
    path.hops().map(|hop| hop.node.unwrap().0).collect()
}

#[test]
fn the_sinks_own_hop_counts_once() {
    // Newest first: node 3 is the exporter.
    let with_sink = latencies(&[(3, 300), (2, 200), (1, 100)]);
    let without_sink = latencies(&[(2, 200), (1, 100)]);
    let unknown_sink = latencies(&[(3, UNKNOWN), (2, 200), (1, 100)]);
    let sample = |sum| Ok(Nanos(sum));
    let cases = [
        (&with_sink, None, SinkHop::InStack, sample(600), 3),
        (
            &with_sink,
            local(3, Some(300)),
            SinkHop::InBoth,
            sample(600),
            3,
        ),
        (&with_sink, local(3, None), SinkHop::InBoth, sample(600), 3),
        // What one place does not know, the other does.
        (
            &unknown_sink,
            local(3, Some(301)),
            SinkHop::InBoth,
            sample(601),
            3,
        ),
        (
            &unknown_sink,
            None,
            SinkHop::InStack,
            Err(NoSample::UnknownLatency),
            3,
        ),
        (
            &without_sink,
            local(3, Some(300)),
            SinkHop::InReport,
            sample(600),
            3,
        ),
        (&without_sink, None, SinkHop::Absent, sample(300), 2),
    ];
    for (entries, local, position, sum, hops) in cases {
        let stack = IntStack::new(NODE_LATENCY, 5, entries).unwrap();
        let path = ReportedPath::new(stack, Some(IntNodeId(3)), local, false);
        assert_eq!(path.sink_hop(), position);
        assert_eq!(path.summed_hop_latency(), sum);
        assert_eq!(nodes(&path), [1, 2, 3][..hops]);
    }
}

/// Without node IDs, the ingress time identifies the sink's hop.
#[test]
fn the_sinks_own_hop_counts_once_without_node_ids() {
    let entries = pack(&[(64, 2000), (64, 2300), (64, 1000), (64, 1100)]);
    let stack = IntStack::new(Instructions(0x0c00), 5, &entries).unwrap();
    let path = |ingress_time, egress_time| {
        let local = Hop {
            node: Some(IntNodeId(3)),
            ingress_time: Some(HopTime::Full(ingress_time)),
            egress_time: Some(HopTime::Full(egress_time)),
            ..Hop::default()
        };
        ReportedPath::new(stack, Some(IntNodeId(3)), Some(own(local)), false)
    };
    let in_both = path(2000, 2300);
    assert_eq!(in_both.sink_hop(), SinkHop::InBoth);
    assert_eq!(in_both.summed_hop_latency(), Ok(Nanos(400)));
    let in_report = path(2900, 3000);
    assert_eq!(in_report.sink_hop(), SinkHop::InReport);
    assert_eq!(in_report.summed_hop_latency(), Ok(Nanos(500)));
    assert_eq!(in_report.path_hash(1), None);
}

#[test]
fn a_path_that_lacks_hops_is_no_sample() {
    let entries = latencies(&[(2, 200), (1, 100)]);
    let complete = IntStack::new(NODE_LATENCY, 5, &entries).unwrap();
    let stack = |change: fn(&mut IntStack<'_>)| {
        let mut stack = complete;
        change(&mut stack);
        stack
    };
    let none = Gaps::default();
    let cases = [
        (
            stack(|stack| stack.hops_exceeded = true),
            false,
            Gaps {
                hops_exceeded: true,
                ..none
            },
        ),
        (
            stack(|stack| stack.mtu_exceeded = true),
            false,
            Gaps {
                mtu_exceeded: true,
                ..none
            },
        ),
        (
            complete,
            true,
            Gaps {
                intermediate: true,
                ..none
            },
        ),
    ];
    for (stack, intermediate, gaps) in cases {
        let path = ReportedPath::new(stack, Some(IntNodeId(3)), local(3, Some(300)), intermediate);
        assert_eq!(path.gaps(), gaps);
        let no_sample = NoSample::Incomplete(gaps);
        assert_eq!(path.summed_hop_latency(), Err(no_sample));
        assert_eq!(
            path.first_ingress_to_last_egress(EqualClocks),
            Err(no_sample)
        );
        assert_eq!(path.summed_stack_latency(), Err(no_sample));
        assert_eq!(path.first_to_last_ingress(EqualClocks), Err(no_sample));
        assert_eq!(path.path_hash(1), None);
    }
    let path = ReportedPath::new(complete, None, None, false);
    assert_eq!(path.gaps(), none);
    assert_eq!(path.summed_hop_latency(), Ok(Nanos(300)));
}

/// A report that ends anywhere in the stack gives the newest whole entries, and no sample.
#[test]
fn a_cut_stack_has_its_newest_whole_hops() {
    let entries = latencies(&[(4, 400), (3, 300), (2, 200), (1, 100)]);
    let stack = IntStack::new(NODE_LATENCY, 5, &entries).unwrap();
    let int = telemetry::EmbeddedInt {
        next: telemetry::NextProtocol::Payload { dscp: 0 },
        contents: IntContents::Md(stack),
    };
    let mut bytes = Vec::new();
    int.write(&mut bytes).unwrap();
    assert_eq!(
        telemetry::EmbeddedInt::parse(&bytes, None),
        Ok((int, &[][..]))
    );
    let head = bytes.len() - entries.len();
    for length in head..bytes.len() {
        let (int, rest) = telemetry::EmbeddedInt::parse(&bytes[..length], None).unwrap();
        assert_eq!(rest, []);
        let IntContents::Md(stack) = int.contents else {
            panic!("{int:?}")
        };
        assert!(stack.is_cut());
        assert_eq!(stack.hop_count(), 4);
        let path = ReportedPath::new(stack, None, None, false);
        let whole = (length - head) / 8;
        assert_eq!(nodes(&path), &[2, 3, 4][3 - whole..]);
        assert!(path.gaps().cut);
        let sum = path.summed_hop_latency();
        assert_eq!(sum, Err(NoSample::Incomplete(path.gaps())));
        let mut out = Vec::new();
        assert_eq!(int.write(&mut out), Err(telemetry::IntError::CutHeader));
        assert_eq!(out, []);
    }
}

#[test]
fn clocks_of_nodes_are_compared_only_by_promise() {
    // Links of 50 between the nodes.
    let entries = times(&[(2, 1150, 1250), (1, 1000, 1100)]);
    let stack = IntStack::new(NODE_TIMES, 5, &entries).unwrap();
    let path = ReportedPath::new(stack, None, None, false);
    assert_eq!(path.summed_hop_latency(), Ok(Nanos(200)));
    assert_eq!(
        path.first_ingress_to_last_egress(EqualClocks),
        Ok(Nanos(250))
    );
    assert_eq!(path.first_to_last_ingress(EqualClocks), Ok(Nanos(150)));
    // A sink that reports when the packet came, and does not know yet when it leaves.
    let sink = own(Hop {
        node: Some(IntNodeId(3)),
        ingress_time: Some(HopTime::Full(1300)),
        ..Hop::default()
    });
    let path = ReportedPath::new(stack, Some(IntNodeId(3)), Some(sink), false);
    assert_eq!(path.summed_hop_latency(), Err(NoSample::UnknownLatency));
    assert_eq!(path.summed_stack_latency(), Ok(Nanos(200)));
    assert_eq!(path.first_to_last_ingress(EqualClocks), Ok(Nanos(300)));
    let span = path.first_ingress_to_last_egress(EqualClocks);
    assert_eq!(span, Err(NoSample::UnknownTime));
    let cases = [
        // Node 2's clock is slow.
        (
            times(&[(2, 150, 250), (1, 1000, 1100)]),
            Ok(Nanos(200)),
            NoSample::Clocks,
        ),
        (
            times(&[(2, 1150, u64::MAX), (1, 1000, 1100)]),
            Err(NoSample::UnknownLatency),
            NoSample::UnknownTime,
        ),
        (
            times(&[(2, 1150, 1250), (1, u64::MAX, 1100)]),
            Err(NoSample::UnknownLatency),
            NoSample::UnknownTime,
        ),
        (times(&[]), Err(NoSample::NoHops), NoSample::NoHops),
    ];
    for (entries, sum, span) in cases {
        let stack = IntStack::new(NODE_TIMES, 5, &entries).unwrap();
        let path = ReportedPath::new(stack, None, None, false);
        assert_eq!(path.summed_hop_latency(), sum);
        assert_eq!(path.first_ingress_to_last_egress(EqualClocks), Err(span));
    }
}

#[test]
fn the_largest_latencies_add_up() {
    let hops = [(1, UNKNOWN - 1); 31];
    let entries = latencies(&hops);
    let stack = IntStack::new(NODE_LATENCY, 5, &entries).unwrap();
    let path = ReportedPath::new(stack, None, None, false);
    assert_eq!(path.summed_hop_latency(), Ok(Nanos(31 * (UNKNOWN - 1))));
}

#[test]
fn paths_differ_by_their_nodes_and_order() {
    let hash = |nodes: &[u64]| {
        let hops: Vec<(u64, u64)> = nodes.iter().rev().map(|node| (*node, 0)).collect();
        let entries = latencies(&hops);
        let stack = IntStack::new(NODE_LATENCY, 5, &entries).unwrap();
        let path = ReportedPath::new(stack, None, None, false);
        path.path_hash(42).unwrap()
    };
    let paths: &[&[u64]] = &[&[], &[1], &[2], &[0], &[0, 0], &[1, 2], &[2, 1], &[1, 2, 3]];
    for (index, first) in paths.iter().enumerate() {
        for second in &paths[index + 1..] {
            assert_ne!(hash(first), hash(second), "{first:?} {second:?}");
        }
        assert_eq!(hash(first), hash(first));
    }
}

#[test]
fn a_node_that_a_path_visits_twice_is_found() {
    let revisited = |nodes: &[u64]| {
        let hops: Vec<(u64, u64)> = nodes.iter().rev().map(|node| (*node, 0)).collect();
        let entries = join(&[&latencies(&hops)]);
        let stack = IntStack::new(NODE_LATENCY, 5, &entries).unwrap();
        let path = ReportedPath::new(stack, None, None, false);
        path.revisited().map(|node| node.0)
    };
    assert_eq!(revisited(&[1, 2, 3]), None);
    assert_eq!(revisited(&[1, 2, 3, 2, 1]), Some(2));
    assert_eq!(revisited(&[UNKNOWN, UNKNOWN]), None);
    assert_eq!(revisited(&[5, 5]), Some(5));
}
