//! Reports of the example `examples/int`, read by `telemetry`: a packet passes a source, a transit
//! node and a sink, which are three devices with that program, and the sink's report has its flow
//! and its path.

use std::path::Path;

use exec::Engine;
use packet::{Nanos, PortId};
use support::checksum::internet_checksum;
use switch::{Device, DeviceConfig};
use telemetry::{
    Arrival, EqualClocks, FlowKey, Gaps, HopTime, IntDomain, IntMarker, IntNodeId, Interfaces,
    L4Ports, NoSample, ReportView, ReportedHops, SequenceTracker, SinkHop, TelemetryReport,
    datagram_digest, write_json_line,
};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/int/int");
const DOMAIN: IntDomain = IntDomain::new(IntMarker::Dscp {
    value: 0x17,
    mask: 0x3f,
});
/// Port to other nodes, ports of a host and of the collector.
const NODES: PortId = PortId(3);
const HOST: PortId = PortId(1);
const COLLECTOR: PortId = PortId(4);
/// Headers of the report's datagram: Ethernet, IPv4, UDP.
const OUTER: usize = 14 + 20 + 8;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;

/// A device of the example with this node ID. Packets to host 5 leave by `port`. Sources allow
/// `max_hops` hops.
fn node(engine: &dyn Engine, id: u32, port: PortId, max_hops: u32) -> Device {
    let program = testkit::compile(Path::new(&format!("{EXAMPLE}.p4"))).unwrap();
    let mut device = Device::new(program, engine, &DeviceConfig::default()).unwrap();
    let text = std::fs::read_to_string(format!("{EXAMPLE}.entries")).unwrap();
    let replaced = [
        ("set_node(id: 7", format!("set_node(id: {id}")),
        ("max_hops: 8", format!("max_hops: {max_hops}")),
    ]
    .into_iter()
    .fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, &to)
    });
    let route = format!(
        "forward {{ hdr.ethernet.dst: 02:00:00:00:00:05; }} -> to_port(port: {})",
        port.0
    );
    let text = format!("{replaced}\n{route}\n");
    let entries = entries::read(device.program(), "int.entries", &text).unwrap();
    apply_entries::apply_file(&mut device, &entries).unwrap();
    device
}

/// A frame of a watched flow to host 5, with the checksum of its IP header.
fn frame(protocol: u8, payload: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 5, 2, 0, 0, 0, 0, 1, 8, 0];
    let transport = if protocol == PROTOCOL_TCP { 32 } else { 8 };
    let mut ip = vec![0x45, 0];
    ip.extend(((20 + transport + payload) as u16).to_be_bytes());
    ip.extend([0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 1, 1, 10, 0, 2, 1]);
    let checksum = internet_checksum(&ip);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let mut header = vec![0; transport];
    header[..4].copy_from_slice(&[3, 232, 19, 136]);
    if protocol == PROTOCOL_TCP {
        // Three words of options.
        header[12] = 0x80;
    } else {
        header[4..6].copy_from_slice(&((8 + payload) as u16).to_be_bytes());
    }
    frame.extend(ip);
    frame.extend(header);
    frame.extend(vec![0x55; payload]);
    frame
}

/// Passes a frame through a device. Returns what leaves by the port and by the collector's port.
fn pass(device: &mut Device, from: PortId, frame: &[u8], at: u64, to: PortId) -> [Vec<Vec<u8>>; 2] {
    let mut sent = [Vec::new(), Vec::new()];
    device.receive(from, frame).unwrap();
    device.step(Nanos::from_micros(at));
    device.drain_sent(|port, frame, _| {
        if port == to {
            sent[0].push(frame.to_vec());
        } else if port == COLLECTOR {
            sent[1].push(frame.to_vec());
        }
    });
    sent
}

/// Three nodes in a line.
struct Line([Device; 3]);

impl Line {
    fn new(engine: &dyn Engine, max_hops: u32) -> Line {
        Line([
            node(engine, 101, NODES, max_hops),
            node(engine, 102, NODES, max_hops),
            node(engine, 103, HOST, max_hops),
        ])
    }

    /// Passes a frame from host to host, with these times of arrival at the nodes. Returns the
    /// report's payload.
    fn pass(&mut self, frame: &[u8], times: [u64; 3]) -> Vec<u8> {
        let [source, transit, sink] = &mut self.0;
        let [out, _] = pass(source, HOST, frame, times[0], NODES);
        let [out, _] = pass(transit, NODES, &out[0], times[1], NODES);
        let [out, reports] = pass(sink, NODES, &out[0], times[2], HOST);
        assert_eq!(out, [frame], "the host gets what was sent");
        assert_eq!(reports.len(), 1);
        reports[0][OUTER..].to_vec()
    }
}

#[test]
fn reports_of_the_example_have_the_flow_and_the_whole_path() {
    for engine in testkit::engines() {
        let mut line = Line::new(engine.as_ref(), 8);
        let mut tracker = SequenceTracker::new(1);
        let mut expected = Arrival::First;
        for (round, protocol) in [PROTOCOL_UDP, PROTOCOL_TCP, PROTOCOL_UDP]
            .iter()
            .enumerate()
        {
            let start = 1000 * (round as u64 + 1);
            let times = [start, start + 15, start + 60];
            // No byte of payload is needed for a whole stack, and none is reported.
            let payload = line.pass(&frame(*protocol, 10 * round), times);
            let report = TelemetryReport::parse(&payload).unwrap();
            let exporter = report.header.exporter;
            assert_eq!(exporter.node, Some(IntNodeId(103)));
            let digest = datagram_digest(&payload);
            let sequence = report.header.sequence;
            let arrival = tracker.observe(exporter, report.header.version, sequence, digest);
            assert_eq!(arrival, expected);
            expected = Arrival::Next;
            let individual = report.individuals().next().unwrap();
            assert_eq!(report.individuals().count(), 1);
            let view = ReportView::new(exporter, &individual, &DOMAIN);
            assert_eq!(
                view.flow,
                Some(FlowKey {
                    source: [10, 0, 1, 1].into(),
                    destination: [10, 0, 2, 1].into(),
                    protocol: *protocol,
                    ports: Some(L4Ports {
                        source: 1000,
                        destination: 5000,
                    }),
                })
            );
            let ReportedHops::Path(path) = view.hops else {
                panic!("{view:?}")
            };
            assert_eq!(path.gaps(), Gaps::default());
            assert_eq!(path.sink_hop(), SinkHop::InReport);
            let hops: Vec<_> = path.hops().collect();
            let nodes: Vec<u32> = hops.iter().map(|hop| hop.node.unwrap().0).collect();
            assert_eq!(nodes, [101, 102, 103]);
            let interfaces = [(1, 3), (3, 3), (3, 1)];
            for ((hop, at), (ingress, egress)) in hops.iter().zip(times).zip(interfaces) {
                let time = HopTime::Full(1000 * at);
                assert_eq!(hop.ingress_time, Some(time));
                assert_eq!(hop.interfaces, Some(Interfaces { ingress, egress }));
            }
            // The packets did not wait in the nodes. The sink does not know its own latency.
            assert_eq!(path.summed_stack_latency(), Ok(Nanos(0)));
            assert_eq!(path.summed_hop_latency(), Err(NoSample::UnknownLatency));
            let span = path.first_to_last_ingress(EqualClocks);
            assert_eq!(span, Ok(Nanos::from_micros(60)));
            let mut text = String::new();
            write_json_line(&report.header, &individual, &view, &mut text);
            let line: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(line["hops"][1]["node"], 102);
            assert_eq!(line["flow"]["source"], "10.0.1.1");
        }
    }
}

#[test]
fn reports_are_read_tracked_and_written_without_allocating() {
    let engines = testkit::engines();
    let mut line = Line::new(engines[0].as_ref(), 8);
    let payload = line.pass(&frame(PROTOCOL_TCP, 100), [1000, 1015, 1060]);
    let mut tracker = SequenceTracker::new(4);
    let (mut bytes, mut text) = (Vec::new(), String::new());
    let mut read = |number: u32| {
        let report = TelemetryReport::parse(&payload).unwrap();
        let header = report.header;
        let digest = datagram_digest(&payload);
        tracker.observe(header.exporter, header.version, number, digest);
        bytes.clear();
        text.clear();
        let mut hops = 0;
        for individual in report.individuals() {
            let view = ReportView::new(header.exporter, &individual, &DOMAIN);
            if let ReportedHops::Path(path) = view.hops {
                hops += path.hops().count();
                assert!(path.summed_stack_latency().is_ok());
                assert!(path.path_hash(1).is_some());
            }
            write_json_line(&header, &individual, &view, &mut text);
        }
        report.write(&mut bytes).unwrap();
        assert_eq!(bytes, payload);
        hops
    };
    let cold = allocation_counter::measure(|| {
        read(1);
    });
    assert!(cold.count_total > 0, "the counter counts");
    let mut hops = 0;
    let warm = allocation_counter::measure(|| hops = (2..1000).map(&mut read).sum());
    assert_eq!(hops, 3 * 998);
    assert_eq!(warm.count_total, 0);
}

#[test]
fn a_path_of_the_example_that_lacks_hops_is_no_sample() {
    for engine in testkit::engines() {
        let mut line = Line::new(engine.as_ref(), 1);
        let payload = line.pass(&frame(PROTOCOL_TCP, 100), [1000, 1015, 1060]);
        let report = TelemetryReport::parse(&payload).unwrap();
        let individual = report.individuals().next().unwrap();
        let view = ReportView::new(report.header.exporter, &individual, &DOMAIN);
        let ReportedHops::Path(path) = view.hops else {
            panic!("{view:?}")
        };
        let gaps = Gaps {
            hops_exceeded: true,
            ..Gaps::default()
        };
        let no_sample = Err(NoSample::Incomplete(gaps));
        assert_eq!(path.summed_stack_latency(), no_sample);
        assert_eq!(path.first_to_last_ingress(EqualClocks), no_sample);
    }
}
