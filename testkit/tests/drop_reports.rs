//! Reports of drops on every engine, with and without the fast path: which drops have one, what is
//! in it, and how many are made.

use std::sync::Arc;

use exec::DropReason;
use ir::Program;
use packet::{Frame, Nanos, PortId};
use switch::{Change, CloneSession, Device, DeviceConfig, QueueConfig, Replica};

/// Bits of a packet's first byte select what happens to it; the second one is the clone session of
/// its report. A report leaves with the reason and the instance type in their places.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> kind; bit<8> session; bit<8> number; }
struct headers_t { h_t h; }
struct metadata_t {
    @drop_session bit<32> session;
    @drop_reason bit<8> reason;
    bit<8> seen;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t s) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        meta.session = (bit<32>)hdr.h.session;
        meta.seen = hdr.h.number + 100;
        if (hdr.h.kind[0:0] == 1) { mark_to_drop(s); }
        if (hdr.h.kind[1:1] == 1) { s.mcast_grp = 77; }
        if (hdr.h.kind[2:2] == 1) { meta.reason = 200; mark_to_drop(s); }
        if (hdr.h.kind[4:4] == 1) { assert(hdr.h.number > 200); }
        if (hdr.h.kind[6:6] == 1) { s.priority = 3; }
        hdr.h.number = 0;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t s) {
    apply {
        if (meta.reason != 0) {
            hdr.h.session = (bit<8>)s.instance_type + ((bit<8>)s.priority << 4);
            if (hdr.h.kind[5:5] == 1) { mark_to_drop(s); }
            hdr.h.kind = meta.reason;
            hdr.h.number = meta.seen;
        } else if (hdr.h.kind[3:3] == 1) {
            mark_to_drop(s);
        }
    }
}
control U(inout headers_t hdr, inout metadata_t meta) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }

@drop_reports(200)
V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

const SESSION: u8 = 7;
const COLLECTOR: PortId = PortId(9);

/// Frames with their ports.
type Sent = Vec<(u32, Vec<u8>)>;

fn program() -> Arc<Program> {
    let compiled = driver::compile_text("drop_reports.p4", PROGRAM);
    Arc::new(compiled.unwrap_or_else(|error| panic!("{error}")))
}

/// Returns a device with the session of reports, of which frames have 4 bytes.
fn device(engine: &dyn exec::Engine) -> Device {
    device_of(program(), engine)
}

/// Returns a device like [`device`], with this program.
fn device_of(program: Arc<Program>, engine: &dyn exec::Engine) -> Device {
    let mut device = Device::new(program, engine, &DeviceConfig::default()).unwrap();
    let replica = Replica {
        port: COLLECTOR,
        instance: 1,
    };
    let session = CloneSession {
        replicas: vec![replica],
        truncate: Some(4),
        ..CloneSession::default()
    };
    let change = Change::SetCloneSession(SESSION.into(), session);
    device.apply(change).unwrap();
    device
}

/// Carries frames through the device, by the fast path if `by_burst` is set.
fn carry(device: &mut Device, frames: &[Vec<u8>], now: Nanos, by_burst: bool) -> Sent {
    let mut sent = Sent::new();
    if by_burst {
        let mut burst: Vec<Frame> = frames
            .iter()
            .map(|bytes| Frame::from_bytes(bytes).unwrap())
            .collect();
        device.forward(&mut burst, now, |port, frame, _| {
            sent.push((port.0, frame.bytes().to_vec()));
        });
    } else {
        for frame in frames {
            device.receive(PortId(0), frame).unwrap();
        }
        device.step(now);
        device.drain_sent(|port, bytes, _| sent.push((port.0, bytes.to_vec())));
    }
    device.check_conservation().unwrap();
    sent
}

/// Calls a function with each engine, and with both ways through the device.
fn each(test: impl Fn(&dyn exec::Engine, bool)) {
    for engine in testkit::engines() {
        for by_burst in [false, true] {
            test(engine.as_ref(), by_burst);
        }
    }
}

/// Returns a frame with a payload of two bytes.
fn frame(kind: u8, session: u8, number: u8) -> Vec<u8> {
    vec![kind, session, number, 0xaa, 0xbb]
}

#[test]
fn a_watched_packet_that_is_dropped_is_reported_with_its_reason_and_its_metadata() {
    // The packet's kind, and the reason in its report.
    let cases = [
        (0b0_0001, Some(1)),
        (0b0_0010, Some(7)),
        (0b0_0100, Some(200)),
        (0b0_1000, Some(2)),
        // An error of the program's code.
        (0b1_0000, None),
        (0, None),
    ];
    each(|engine, by_burst| {
        let mut device = device(engine);
        for (number, (kind, reason)) in (1..).zip(cases) {
            let frames = [frame(kind, SESSION, number)];
            let sent = carry(&mut device, &frames, Nanos(1), by_burst);
            let expected = match (reason, kind) {
                (Some(reason), _) => vec![(9, vec![reason, 1, number + 100, 0xaa])],
                (None, 0) => vec![(1, vec![0, SESSION, 0, 0xaa, 0xbb])],
                (None, _) => Vec::new(),
            };
            assert_eq!(sent, expected, "{kind:#b} on {}", engine.name());
            // Neither are packets that are not watched, or of which the session is missing.
            for session in [0, SESSION + 1] {
                let frames = [frame(kind, session, number)];
                let sent = carry(&mut device, &frames, Nanos(1), by_burst);
                assert!(sent.iter().all(|(port, _)| *port == 1), "{sent:?}");
            }
        }
        let ledger = device.ledger();
        assert_eq!(ledger.replicated, 4);
        assert_eq!(ledger.dropped(DropReason::NoReplicas), 3);
    });
}

#[test]
fn a_report_has_the_class_of_its_session_and_not_the_priority_of_the_packet() {
    each(|engine, by_burst| {
        let mut device = device(engine);
        for class_of_service in [0, 5] {
            let replica = Replica {
                port: COLLECTOR,
                instance: 1,
            };
            let session = CloneSession {
                replicas: vec![replica],
                truncate: Some(4),
                class_of_service,
                ..CloneSession::default()
            };
            let change = Change::SetCloneSession(SESSION.into(), session);
            device.apply(change).unwrap();
            let frames = [frame(0b100_0001, SESSION, 1)];
            let sent = carry(&mut device, &frames, Nanos(1), by_burst);
            let seen = 1 + ((class_of_service as u8) << 4);
            assert_eq!(sent, [(9, vec![1, seen, 101, 0xaa])], "{}", engine.name());
        }
    });
}

#[test]
fn a_report_that_is_dropped_has_no_report() {
    each(|engine, by_burst| {
        let mut device = device(engine);
        let frames = [frame(0b10_0001, SESSION, 1)];
        assert_eq!(carry(&mut device, &frames, Nanos(1), by_burst), []);
        let ledger = device.ledger();
        assert_eq!(
            (ledger.replicated, ledger.dropped(DropReason::Egress)),
            (1, 1)
        );
    });
}

#[test]
fn packets_that_find_a_queue_full_are_reported() {
    each(|engine, by_burst| {
        let mut device = device(engine);
        let queue = QueueConfig {
            depth: 2,
            packets_per_second: Some(10),
            ..QueueConfig::default()
        };
        device.apply(Change::SetQueue(PortId(1), queue)).unwrap();
        let frames: Vec<Vec<u8>> = (1..=5).map(|number| frame(0, SESSION, number)).collect();
        let sent = carry(&mut device, &frames, Nanos(1), by_burst);
        // One leaves at once, and two wait.
        let report = |number: u8| (9, vec![8, 1, number + 100, 0xaa]);
        let mut expected = vec![(1, vec![0, SESSION, 0, 0xaa, 0xbb])];
        expected.extend([report(4), report(5)]);
        assert_eq!(sent, expected, "{}", engine.name());
        assert_eq!(device.ledger().dropped(DropReason::TailDrop), 2);
    });
}

#[test]
fn reports_keep_to_the_rate_of_the_program_and_a_warm_device_makes_them_without_allocating() {
    each(|engine, by_burst| {
        let mut device = device(engine);
        let mut frames = vec![frame(1, SESSION, 1); 32];
        let first = carry(&mut device, &frames, Nanos(1), by_burst);
        assert_eq!(first.len(), 16);
        // 200 a second: one in 5 ms.
        let later = carry(&mut device, &frames, Nanos::from_millis(51), by_burst);
        assert_eq!(later.len(), 10);
        frames.truncate(2);
        let mut rounds = |rounds: std::ops::Range<u64>| {
            let mut made = 0;
            for round in rounds {
                for frame in &frames {
                    device.receive(PortId(0), frame).unwrap();
                }
                device.step(Nanos::from_millis(60 + 5 * round));
                device.drain_sent(|_, _, _| made += 1);
            }
            made
        };
        rounds(0..10);
        let mut made = 0;
        let measured = allocation_counter::measure(|| made = rounds(10..110));
        assert_eq!(made, 100);
        assert_eq!(measured.count_total, 0, "on {}", engine.name());
    });
}

#[test]
fn a_wrong_annotation_is_refused() {
    let refused = |from: &str, to: &str, words: &str| {
        let text = PROGRAM.replace(from, to);
        assert_ne!(text, PROGRAM);
        let error = driver::compile_text("drop_reports.p4", &text).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("E1104") && error.contains(words), "{error}");
    };
    let field = "for one field of user metadata";
    let other = "bit<32> session; @drop_session bool other";
    refused("@drop_session bit<32> session", other, field);
    refused("bit<8> seen;", "@drop_reason bit<8> seen;", field);
    for rate in ["0", "1000001", "x", "1, 2", "5000, x", "x, 5000"] {
        let rate = format!("@drop_reports({rate})");
        refused("@drop_reports(200)", &rate, "from 1 to 1000000");
    }
    refused(
        "@drop_reports(200)",
        "@drop_reports[1, 2]",
        "from 1 to 1000000",
    );
}

#[test]
fn a_rate_counts_in_each_form_of_a_number() {
    let engines = testkit::engines();
    for rate in [
        "(200)",
        "(0xC8)",
        "(32w200)",
        "(2_00)",
        "[200]",
        "[2 * 100]",
    ] {
        let rate = format!("@drop_reports{rate}");
        let text = PROGRAM.replace("@drop_reports(200)", &rate);
        let compiled = driver::compile_text("drop_reports.p4", &text);
        let program = Arc::new(compiled.unwrap_or_else(|error| panic!("{rate}: {error}")));
        let mut device = device_of(program, engines[0].as_ref());
        let frames = vec![frame(1, SESSION, 1); 32];
        assert_eq!(carry(&mut device, &frames, Nanos(1), false).len(), 16);
        // With the rate of other programs there would be 16 again.
        let later = carry(&mut device, &frames, Nanos::from_millis(51), false);
        assert_eq!(later.len(), 10, "{rate}");
    }
}
