//! Once warm, the packet path does not allocate.

use packet::{Nanos, PortId};
use switch::Device;
use testkit::{routed_frame, router};

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
