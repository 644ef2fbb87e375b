//! Time to check a report, and to read all of its hops and its flow, in nanoseconds: the median and
//! the least of 21 runs. Run: `cargo run --release -p telemetry --example parse`.

use std::hint::black_box;
use std::time::Instant;

use telemetry::{
    Associations, EmbeddedInt, Exporter, Hop, HopTime, Instructions, IntContents, IntDomain,
    IntMarker, IntNodeId, IntStack, NextProtocol, PacketKind, ReportEvent, ReportHeader,
    ReportVersion, ReportView, ReportWriter, ReportedHops, SequenceTracker, TelemetryReport,
    datagram_digest, write_json_line,
};

/// Payloads in turn, so that no branch is learned from one of them.
const PAYLOADS: usize = 256;
const RUNS: usize = 21;
const ROUNDS: usize = 2_000;

/// Report 2.0 with the sink's hop, and a packet with five hops of five words.
fn payload(number: u32) -> Vec<u8> {
    let instructions = Instructions(0xb000).with(Instructions::INGRESS_TIME);
    let mut entries = Vec::new();
    for hop in 0..5u32 {
        entries.extend((5 - hop).to_be_bytes());
        entries.extend((1000 + number + hop).to_be_bytes());
        entries.extend((number % 64).to_be_bytes());
        entries.extend(u64::from(number * 1000).to_be_bytes());
    }
    let stack = IntStack::new(instructions, 3, &entries).expect("the entries fit");
    let mut packet = vec![2; 12];
    packet.extend([
        8,
        0,
        0x45,
        0x17 << 2,
        0,
        0,
        0,
        0,
        0,
        0,
        64,
        17,
        0,
        0,
        10,
        0,
        1,
        1,
    ]);
    packet.extend([10, 0, 2, number as u8, 3, 232, 19, 136, 0, 0, 0, 0]);
    EmbeddedInt {
        next: NextProtocol::Payload { dscp: 0 },
        contents: IntContents::Md(stack),
    }
    .write(&mut packet)
    .expect("INT 2.1 is written");
    packet.extend([0; 16]);
    let mut out = Vec::new();
    let header = ReportHeader {
        version: ReportVersion::V2,
        exporter: Exporter {
            node: Some(IntNodeId(9)),
            hardware: 0,
        },
        sequence: number,
    };
    let event = ReportEvent {
        associations: Associations {
            tracked: true,
            ..Associations::default()
        },
        hop: Hop {
            latency: Some(900),
            ingress_time: Some(HopTime::Full(1)),
            ..Hop::default()
        },
        drop: None,
        packet: Some((PacketKind::Ethernet, &packet)),
        max_packet: 256,
    };
    ReportWriter::new(&header, &mut out)
        .event(&event)
        .expect("one report fits");
    out
}

/// Median time of one call, over all payloads.
fn measure(name: &str, payloads: &[Vec<u8>], mut call: impl FnMut(&[u8])) {
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                for payload in payloads {
                    call(black_box(payload));
                }
            }
            start.elapsed().as_secs_f64() * 1e9 / (ROUNDS * PAYLOADS) as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{name:40} {:6.1} {:6.1}", times[RUNS / 2], times[0]);
}

fn main() {
    let payloads: Vec<Vec<u8>> = (0..PAYLOADS as u32).map(payload).collect();
    let domain = IntDomain::new(IntMarker::Dscp {
        value: 0x17,
        mask: 0x3f,
    });
    println!("a report of {} bytes with 5 hops", payloads[0].len());
    measure("check", &payloads, |payload| {
        black_box(TelemetryReport::parse(payload).is_ok());
    });
    measure("check, flow", &payloads, |payload| {
        let report = TelemetryReport::parse(payload).expect("it is a report");
        for individual in report.individuals() {
            black_box(individual.packet(&domain));
        }
    });
    measure("check, flow, sum of hop latencies", &payloads, |payload| {
        let report = TelemetryReport::parse(payload).expect("it is a report");
        for individual in report.individuals() {
            let view = ReportView::new(report.header.exporter, &individual, &domain);
            if let ReportedHops::Path(path) = view.hops {
                black_box((view.flow, path.summed_hop_latency().is_ok()));
            }
        }
    });
    let mut tracker = SequenceTracker::new(16);
    let mut number = 0;
    measure("digest and sequence", &payloads, |payload| {
        number += 1;
        let digest = datagram_digest(payload);
        black_box(tracker.observe(7u64, ReportVersion::V2, number & 0x3f_ffff, digest));
    });
    let mut out = Vec::new();
    measure("check, write again", &payloads, |payload| {
        let report = TelemetryReport::parse(payload).expect("it is a report");
        out.clear();
        report.write(&mut out).expect("it fits");
        black_box(&out);
    });
    let mut line = String::new();
    measure("check, line of JSON", &payloads, |payload| {
        let report = TelemetryReport::parse(payload).expect("it is a report");
        line.clear();
        for individual in report.individuals() {
            let view = ReportView::new(report.header.exporter, &individual, &domain);
            write_json_line(&report.header, &individual, &view, &mut line);
        }
        black_box(&line);
    });
}
