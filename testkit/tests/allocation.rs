//! Once warm, the packet path does not allocate.

use std::sync::Arc;

use exec::Engine;
use packet::{Frame, Nanos, PortId};
use switch::Device;
use tenancy::{Connection, Hypervisor, Spec, Worker};
use testkit::{configure_router, routed_frame, router};

/// Takes frames of several lengths through the device.
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

/// More than go through their program together, and ports of each.
const VPDPS: u32 = 20;
const PORTS: u32 = 4;

/// Routers in vPDPs, on a switch with one worker.
fn routers(engine: &Arc<dyn Engine>) -> (Hypervisor, Worker) {
    let program = Arc::clone(router(engine.as_ref()).unwrap().program());
    let mut hypervisor = Hypervisor::new(Arc::clone(engine));
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
