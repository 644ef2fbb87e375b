//! Checks that the packet path does not allocate after warm-up.

use std::sync::Arc;

use exec::Engine;
use packet::{Frame, Nanos, PortId};
use switch::Device;
use tenancy::{Connection, Spec, TenantSwitch, Worker};
use testkit::{configure_router, routed_frame, router};

/// Forwards frames of several lengths through the device.
fn carry(device: &mut Device, frames: &[Vec<u8>], start: u64, rounds: u64) -> usize {
    let mut sent = 0;
    for round in start..start + rounds {
        for frame in frames {
            device.receive(PortId(0), frame).unwrap();
        }
        device.step(Nanos::from_micros(round * 100));
        device.drain_sent(|_, _, _| sent += 1);
    }
    sent
}

#[test]
fn a_warm_router_forwards_without_allocating() {
    for engine in testkit::engines() {
        forwards_without_allocating(engine.as_ref());
    }
}

fn forwards_without_allocating(engine: &dyn exec::Engine) {
    let mut device = router(engine).unwrap();
    let frames: Vec<Vec<u8>> = [64, 65, 200, 1514, 9014]
        .iter()
        .map(|&len| routed_frame(len, len as u16))
        .collect();
    let cold = allocation_counter::measure(|| {
        carry(&mut device, &frames, 0, 10);
    });
    assert!(cold.count_total > 0, "the counter counts");
    let mut sent = 0;
    let measured = allocation_counter::measure(|| sent = carry(&mut device, &frames, 10, 100));
    assert_eq!(sent, 500);
    assert_eq!(
        measured.count_total,
        0,
        "allocations of {} bytes on {}",
        measured.bytes_total,
        engine.name()
    );
    device.check_conservation().unwrap();
}

/// More vPDPs than one shared burst takes, and the number of ports of each.
const VPDPS: u32 = 20;
const PORTS: u32 = 4;

/// Returns routers in vPDPs, on a switch with one worker.
fn routers(engine: &Arc<dyn Engine>) -> (TenantSwitch, Worker) {
    let program = Arc::clone(router(engine.as_ref()).unwrap().program());
    let mut hypervisor = TenantSwitch::new(Arc::clone(engine));
    for vpdp in 0..VPDPS {
        let ports = (0..PORTS).map(|port| PortId(vpdp * PORTS + port));
        let spec = Spec {
            name: vpdp.to_string(),
            ports: ports.map(Connection::Physical).collect(),
            ..Spec::default()
        };
        let id = hypervisor.create(spec).unwrap();
        hypervisor.load(id, Arc::clone(&program)).unwrap();
        let device = hypervisor.device_mut(id).unwrap();
        configure_router(device).unwrap();
        device.publish();
    }
    let worker = hypervisor.workers(1).remove(0);
    (hypervisor, worker)
}

#[test]
fn warm_vpdps_of_one_program_forward_without_allocating() {
    for engine in testkit::engines() {
        let (_hypervisor, mut worker) = routers(&engine);
        let mut frames: Vec<Frame> = (0..256).map(|_| Frame::new()).collect();
        let mut sent = 0;
        let mut carry = |rounds: std::ops::Range<u64>| {
            for round in rounds {
                for (number, frame) in (0..).zip(&mut frames) {
                    frame.ingress = PortId(number % VPDPS * PORTS);
                    frame.assign(&routed_frame(64, number as u16)).unwrap();
                }
                let now = Nanos::from_micros(round * 100);
                let forwarded = allocation_counter::measure(|| {
                    worker.forward(&mut frames, now, |_, _, _| sent += 1);
                });
                let allocations = forwarded.count_total;
                assert!(round < 40 || allocations == 0, "{}", engine.name());
            }
        };
        carry(0..80);
        assert_eq!(sent, 80 * 256, "{}", engine.name());
    }
}

/// Returns a program with a table of which the first key has this match kind.
fn program_with(kind: &str) -> Arc<ir::Program> {
    let text = format!(
        r#"
#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<32> a; bit<8> b; }}
struct headers_t {{ h_t h; }}
struct metadata_t {{ }}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    state start {{ packet.extract(hdr.h); transition accept; }}
}}
control Verify(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    action to(bit<9> port) {{ standard.egress_spec = port; }}
    table t {{ key = {{ hdr.h.a : {kind}; hdr.h.b : exact; }} actions = {{ to; }} default_action = to(1); size = 64; }}
    apply {{ t.apply(); }}
}}
control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{ apply {{}} }}
control Compute(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
control Deparse(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr.h); }} }}
V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
"#
    );
    testkit::compile_text(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns a device of such a program with its only worker, and packets for it.
fn with_a_worker(engine: &dyn Engine, kind: &str) -> (Device, switch::Worker, Vec<Frame>) {
    let config = switch::DeviceConfig::default();
    let mut device = Device::new(program_with(kind), engine, &config).unwrap();
    let worker = device.workers(1).remove(0);
    let frames = (0..64).map(|n| Frame::from_bytes(&[0, 0, 0, n, n, 1, 2]).unwrap());
    (device, worker, frames.collect())
}

/// Adds an entry. Workers take it before their next burst.
fn add_entry(device: &mut Device, kind: &str, number: u64) {
    let priority = if kind == "exact" { "" } else { " priority 1" };
    let entry =
        format!("In.t {{ hdr.h.a: {number}; hdr.h.b: {number}; }} -> In.to(port: 2){priority}\n");
    let entry = entries::read(device.program(), "entry", &entry).expect("an entry");
    apply_entries::apply_file(device, &entry).expect("it is taken");
    device.publish();
}

/// Returns the number of allocations of a worker in the burst after each of several changes.
fn allocations_behind_changes(engine: &dyn Engine, kind: &str) -> Vec<u64> {
    let (mut device, mut worker, mut frames) = with_a_worker(engine, kind);
    let allocations = (0..24u64).map(|round| {
        add_entry(&mut device, kind, round);
        let measured = allocation_counter::measure(|| {
            worker.forward(&mut frames, Nanos::from_micros(round), |_, _, _| {});
        });
        measured.count_total
    });
    allocations.collect()
}

#[test]
fn a_warm_worker_allocates_nothing_to_see_entries_that_have_changed() {
    for engine in testkit::engines() {
        for kind in ["exact", "ternary", "range"] {
            let allocations = allocations_behind_changes(engine.as_ref(), kind);
            let warm = &allocations[8..];
            let is_none = warm.iter().all(|&count| count == 0);
            assert!(is_none, "{} {kind}: {allocations:?}", engine.name());
        }
    }
}

/// Returns how many more objects a worker frees than it allocates in a burst. The worker took the
/// change before packets arrived, and its device then freed the old objects.
fn freed_behind_changes(engine: &dyn Engine) -> i64 {
    let kind = "ternary";
    let (mut device, mut worker, mut frames) = with_a_worker(engine, kind);
    let freed = (0..16u64).map(|round| {
        let now = Nanos::from_micros(round);
        add_entry(&mut device, kind, round);
        worker.forward(&mut [], now, |_, _, _| {});
        device.step(now);
        let measured = allocation_counter::measure(|| {
            worker.forward(&mut frames, now, |_, _, _| {});
        });
        -measured.count_current
    });
    freed.max().unwrap_or(0)
}

#[test]
fn what_a_worker_needs_no_more_is_freed_by_its_device() {
    for engine in testkit::engines() {
        assert!(
            freed_behind_changes(engine.as_ref()) <= 0,
            "{}",
            engine.name()
        );
    }
}
