//! Monitors of a reflex plane that are P4 programs: the same decisions on all engines, state that
//! outlives a program, and no allocation once they are warm.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use driver::{Options, Source};
use exec::Engine;
use ir::Program;
use packet::Nanos;
use reflex::{
    AcceptingElement, CommandTarget, Decision, DecisionRefusal, Loops, Measured, MonitorIndex,
    Outcome, PlaneDriver, ReflexPlane, SourceIndex, Subject,
};
use support::rng::Rng;
use switch::{Device, DeviceConfig};
use testkit::engines;
use testkit::reports::{FROM, LOOPS, five_hops};

/// Time at which the store has a leader.
const START: Nanos = Nanos::from_secs(1);
const MONITOR: MonitorIndex = MonitorIndex(0);

/// A monitor that sums the latencies of the hops, and asks for another port for flows above 10 us.
/// By the flow's source port it asks for other changes, too, and sends frames that are none.
const LATENCY: &str = r#"
#include <core.p4>
#include <v1model.p4>
#include <reflex.p4>

struct headers_t {
    reflex_report_t report;
    reflex_hop_t[16] hops;
    reflex_command_t command;
}

struct metadata_t { bit<8> left; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.report);
        meta.left = hdr.report.hop_count;
        transition next;
    }
    state next {
        transition select(meta.left) {
            0: accept;
            default: hop;
        }
    }
    state hop {
        packet.extract(hdr.hops.next);
        meta.left = meta.left - 1;
        transition next;
    }
}

control C(inout headers_t hdr, inout metadata_t meta) { apply { } }

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<64>>(1) alarms;
    bit<64> sum = 0;

    action add(in bit<1> has, in bit<64> latency) {
        if (has == 1) { sum = sum + latency; }
    }

    apply {
        add(hdr.hops[0].has_latency, hdr.hops[0].latency);
        add(hdr.hops[1].has_latency, hdr.hops[1].latency);
        add(hdr.hops[2].has_latency, hdr.hops[2].latency);
        add(hdr.hops[3].has_latency, hdr.hops[3].latency);
        add(hdr.hops[4].has_latency, hdr.hops[4].latency);
        bool is_path = hdr.report.has_path == 1 && hdr.report.is_complete == 1 && hdr.report.has_flow == 1;
        if (!is_path || sum <= 10000) {
            mark_to_drop(std);
        } else {
            bit<64> before;
            alarms.read(before, 0);
            alarms.write(0, before + 1);
            hdr.command.setValid();
            hdr.command.version = COMMAND_VERSION;
            hdr.command.change = ReflexChange.ENTRY;
            hdr.command.subject = ReflexSubject.FLOW;
            hdr.command.ip_version = hdr.report.ip_version;
            hdr.command.reflex = REFLEX_DETOUR;
            hdr.command.protocol = hdr.report.protocol;
            hdr.command.has_ports = hdr.report.has_ports;
            hdr.command.src_port = hdr.report.src_port;
            hdr.command.dst_port = hdr.report.dst_port;
            hdr.command.src_addr = hdr.report.src_addr;
            hdr.command.dst_addr = hdr.report.dst_addr;
            hdr.command.measured = sum;
            hdr.command.limit = before;
            std.egress_spec = 1;
            if (hdr.report.src_port == 1) {
                hdr.command.change = ReflexChange.PORT;
                hdr.command.argument = 1;
            } else if (hdr.report.src_port == 2) {
                hdr.command.change = ReflexChange.PORT;
                hdr.command.argument = 9;
            } else if (hdr.report.src_port == 3) {
                hdr.command.change = ReflexChange.RATE;
            } else if (hdr.report.src_port == 4) {
                hdr.command.reflex = 1;
            } else if (hdr.report.src_port == 5) {
                hdr.command.change = ReflexChange.NONE;
            } else if (hdr.report.src_port == 6) {
                hdr.command.version = 9;
            } else if (hdr.report.src_port == 7) {
                std.egress_spec = 2;
            } else if (hdr.report.src_port == 8) {
                hdr.command.subject = ReflexSubject.HOST;
            } else if (hdr.report.src_port == 9) {
                hdr.command.reflex = FIRST_REFLEX_ON_PATH;
            } else if (hdr.report.src_port == 10) {
                hdr.command.reflex = EVERY_REFLEX;
            }
        }
        hdr.report.setInvalid();
        hdr.hops[0].setInvalid();
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.command);
        packet.emit(hdr.hops);
    }
}
V1Switch(P(), C(), I(), E(), C(), D()) main;
"#;

/// The loop file of [`testkit::reports`] with a program as its monitor.
fn loops() -> Loops {
    let (monitor, rest) = ("kind = \"path_latency\"", "window = 10\nabove = \"1 us\"\n");
    assert!(LOOPS.contains(monitor) && LOOPS.contains(rest));
    let text = LOOPS.replace(monitor, "program = \"monitor.p4\"");
    let text = text.replace(rest, "");
    Loops::read("loops", &text).expect("the loop file is correct")
}

fn options() -> Options {
    Options {
        defines: loops().program_macros(MONITOR),
        ..Options::default()
    }
}

fn compile(source: &Source<'_>, options: &Options) -> Arc<Program> {
    let program = driver::compile(source, options).into_result();
    Arc::new(program.unwrap_or_else(|error| panic!("{error}")))
}

fn latency_program() -> Arc<Program> {
    let source = Source::Text {
        name: "monitor.p4",
        text: LATENCY,
    };
    compile(&source, &options())
}

fn example(file: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/reflex/p4_burst");
    root.join(file)
}

fn burst_program() -> Arc<Program> {
    let files = driver::FileSystem::default();
    let path = &example("burst.p4");
    let files = &files;
    compile(&Source::File { path, files }, &options())
}

fn burst_device(engine: &dyn Engine, program: &Arc<Program>) -> Device {
    let device = Device::new(Arc::clone(program), engine, &DeviceConfig::default());
    let mut device = device.unwrap_or_else(|error| panic!("{error}"));
    let text = std::fs::read_to_string(example("burst.entries")).expect("the entries are there");
    let entries = entries::read(program, "burst.entries", &text);
    let entries = entries.unwrap_or_else(|errors| panic!("{}", errors[0]));
    apply_entries::apply_file(&mut device, &entries).unwrap_or_else(|error| panic!("{error}"));
    device
}

fn driver_with(device: Device) -> PlaneDriver {
    let mut plane = ReflexPlane::new(loops(), Nanos::ZERO);
    let program = plane.program_mut(MONITOR).expect("it is a program");
    program.set_device(device);
    let element: Box<dyn CommandTarget> = Box::<AcceptingElement>::default();
    let mut driver = PlaneDriver::new(plane, vec![element]);
    driver.run_until(START);
    driver
}

/// Gives reports to a plane, one each 100 ns, and returns the decisions.
fn decide(device: Device, reports: &[Vec<u8>], batch: usize) -> (PlaneDriver, Vec<Decision>) {
    let mut driver = driver_with(device);
    let mut now = START;
    for batch in reports.chunks(batch) {
        for report in batch {
            now += Nanos(100);
            driver.receive(now, SourceIndex(0), FROM, report);
        }
        driver.step(now);
    }
    driver.run_until(now + Nanos::from_millis(10));
    let decisions = driver.plane().decisions().map(|decision| {
        let mut decision = *decision;
        if let Outcome::Made(change) = &mut decision.outcome {
            // They depend on the time of a step.
            (change.committed, change.answered, change.log_index) = (None, None, None);
        }
        decision
    });
    let decisions = decisions.collect();
    (driver, decisions)
}

#[test]
fn all_engines_make_the_same_decisions_in_any_batch_size() {
    let mut rng = Rng::new(7);
    let reports: Vec<Vec<u8>> = (0..3_000u32)
        .map(|n| {
            let latency = if rng.one_in(20) { 4_000 } else { 500 };
            five_hops(n, rng.below(40) as u16, latency).unwrap()
        })
        .collect();
    let program = latency_program();
    let mut first: Option<Vec<Decision>> = None;
    for engine in engines() {
        for batch in [1, 64] {
            let device = Device::new(Arc::clone(&program), &*engine, &DeviceConfig::default());
            let (driver, decisions) = decide(device.unwrap(), &reports, batch);
            let counts = driver.plane().monitor_counts(MONITOR);
            assert_eq!(counts.reports, 3_000);
            assert_eq!(counts.normal + counts.alarms, counts.reports);
            match &first {
                Some(first) => assert_eq!(&decisions, first, "{}, {batch}", engine.name()),
                None => first = Some(decisions),
            }
        }
    }
    let decisions = first.expect("there are engines");
    let made = |decision: &&Decision| matches!(decision.outcome, Outcome::Made(_));
    assert!(decisions.iter().filter(made).count() > 20);
}

#[test]
fn what_a_command_asks_for_is_authorised_as_the_wish_of_a_built_in_monitor() {
    let program = latency_program();
    let engine = engines().remove(0);
    let refused = |refusal| Some(Outcome::Refused(refusal));
    // Source port and outcome; `None`: a change to this port is made.
    for (port, outcome, to) in [
        (0, None, Some(1)),
        (1, None, Some(1)),
        (2, refused(DecisionRefusal::NotAllowed), None),
        (3, refused(DecisionRefusal::NotAllowed), None),
        (4, refused(DecisionRefusal::NotAllowed), None),
        (5, Some(Outcome::Reported), None),
        (8, refused(DecisionRefusal::NoKey), None),
        (9, None, Some(1)),
        (10, None, Some(1)),
    ] {
        let device = Device::new(Arc::clone(&program), &*engine, &DeviceConfig::default());
        let report = five_hops(0, port, 4_000).unwrap();
        let (_, decisions) = decide(device.unwrap(), &[report], 1);
        let [decision] = decisions[..] else {
            panic!("{port}: {decisions:?}");
        };
        match outcome {
            Some(outcome) => assert_eq!(decision.outcome, outcome, "{port}"),
            None => {
                let Outcome::Made(change) = decision.outcome else {
                    panic!("{port}: {decision:?}");
                };
                assert_eq!(change.setting.port(), to, "{port}");
            }
        }
        let measured = Measured::ByProgram {
            measured: 20_000,
            limit: 0,
        };
        assert_eq!(decision.measured, measured, "{port}");
        assert_eq!(decision.path.get().len(), 6, "{port}");
    }
    for (port, malformed) in [(6, 1), (7, 0)] {
        let device = Device::new(Arc::clone(&program), &*engine, &DeviceConfig::default());
        let report = five_hops(0, port, 4_000).unwrap();
        let (driver, decisions) = decide(device.unwrap(), &[report], 1);
        assert_eq!(decisions, []);
        let counts = driver.plane().monitor_counts(MONITOR);
        assert_eq!((counts.malformed, counts.normal), (malformed, 1));
    }
}

#[test]
fn a_program_that_is_replaced_between_reports_keeps_its_state() {
    let program = burst_program();
    for engine in engines() {
        let mut driver = driver_with(burst_device(&*engine, &program));
        let mut now = START;
        for n in 0..110u32 {
            if n == 60 {
                let monitor = driver.plane_mut().program_mut(MONITOR);
                let device = monitor.and_then(|monitor| monitor.device_mut()).unwrap();
                let other = burst_program();
                let replaced = device.replace(other, &*engine, &DeviceConfig::default());
                assert!(replaced.is_ok());
            }
            now += Nanos(100);
            let report = five_hops(n, n as u16, 500).unwrap();
            driver.receive(now, SourceIndex(0), FROM, &report);
            driver.step(now);
            let alarms = driver.plane().monitor_counts(MONITOR).alarms;
            assert_eq!(alarms, u64::from(n.saturating_sub(99)), "{}", engine.name());
        }
        let decision = driver.plane().decisions().next().expect("an alarm");
        assert!(matches!(decision.subject, Subject::Host(_)));
    }
}

#[test]
fn a_warm_program_takes_reports_without_allocating() {
    let reports = (0..20_000u32).map(|n| five_hops(n, n as u16 % 256, 500).unwrap());
    let reports: Vec<Vec<u8>> = reports.collect();
    let program = burst_program();
    for engine in engines() {
        let mut driver = driver_with(burst_device(&*engine, &program));
        let mut now = START;
        let mut give = |reports: &[Vec<u8>]| {
            for report in reports {
                // Below 100 packets in a millisecond.
                now += Nanos::from_micros(11);
                driver.receive(now, SourceIndex(0), FROM, report);
                driver.step(now);
            }
        };
        let (cold, warm) = reports.split_at(10_000);
        give(cold);
        let measured = allocation_counter::measure(|| give(warm));
        let name = engine.name();
        assert_eq!(
            measured.count_total, 0,
            "{name}: {} bytes",
            measured.bytes_total
        );
        let counts = driver.plane().monitor_counts(MONITOR);
        assert_eq!((counts.normal, counts.alarms), (20_000, 0));
    }
}
