//! Tests of TAP devices, from both ends.

mod lab;

use lab::{Lab, clock, frame, wait_up};
use packet::{Batch, Frame, PortId};
use port::{AfPacketPort, Port, RxDrop, TapPort};

#[test]
fn frames_that_the_kernel_drops_before_the_switch_fetches_them_are_counted() {
    let Some(lab) = Lab::new() else { return };
    lab::be_silent(&lab.switch);
    let mut tap = match lab.switch.run(|| TapPort::open(PortId(1), "tap0")).unwrap() {
        Ok(tap) => tap,
        Err(error) => return println!("skipped: {error}"),
    };
    let opened = lab.switch.run(|| AfPacketPort::open(PortId(2), "tap0"));
    let mut kernel = opened.unwrap().unwrap();
    wait_up(&mut tap);
    wait_up(&mut kernel);
    let now = clock();
    let frames: Vec<Frame> = (0..64).map(|n| frame(&[], 60, n)).collect();
    // More frames than are queued for a device: 1,000 in its queue, 1,000 in the kernel's.
    let sent: u64 = (0..100).map(|_| kernel.tx(&frames).sent).sum();
    let mut batch = Batch::default();
    let mut fetched = 0;
    let until = now().as_secs() + 2;
    while now().as_secs() < until {
        batch.clear();
        tap.rx(&mut batch, now()).unwrap();
        let frames = batch.frames().iter();
        fetched += frames.filter(|f| lab::is_experiment(f.bytes())).count() as u64;
    }
    let dropped = tap.stats().rx_dropped.get(RxDrop::QueueFull);
    assert!(sent > fetched, "nothing was dropped of {sent}");
    assert_eq!(fetched + dropped, sent);
}
