//! Tests of interfaces that are removed and created again while a port uses them.

mod lab;

use lab::{Lab, clock, frame, wait_up};
use packet::{Batch, Frame, Nanos, PortId};
use port::{
    AfPacketPort, LinkState, Netns, Port, PortDriver, PortError, PortSpec, PortStats, PortTarget,
    TxDrop, open_awaited, open_kept,
};
use std::time::Duration;

/// Creates the veth pair between switch and host again.
fn lay(lab: &Lab) {
    lab.at_switch()
        .add_veth("s0", "h0", Some(&lab.host))
        .unwrap();
    lab.at_switch().set_up("s0").unwrap();
    lab.at_host().set_up("h0").unwrap();
}

fn host_port(netns: &Netns) -> AfPacketPort {
    let opened = netns.run(|| AfPacketPort::open(PortId(9), "h0"));
    let mut port = opened.unwrap().unwrap();
    wait_up(&mut port);
    port
}

/// Receives on all shares until there are `n` experimental frames, or for two seconds. Returns
/// their number.
fn receive(shares: &mut [Box<dyn Port>], n: usize, now: &dyn Fn() -> Nanos) -> usize {
    let (mut got, until) = (0, now().as_secs() + 2);
    let mut batch = Batch::default();
    while got < n && now().as_secs() < until {
        for share in &mut *shares {
            batch.clear();
            share.rx(&mut batch, now()).unwrap();
            got += batch
                .frames()
                .iter()
                .filter(|f| lab::is_experiment(f.bytes()))
                .count();
        }
    }
    got
}

fn sum(shares: &mut [Box<dyn Port>]) -> PortStats {
    let mut sum = PortStats::default();
    shares.iter_mut().for_each(|share| sum.add(&share.stats()));
    sum
}

fn check(io: PortDriver, workers: usize) {
    let Some(lab) = Lab::new() else { return };
    let spec = PortSpec {
        id: PortId(3),
        target: PortTarget::Interface("s0".into()),
    };
    let opened = lab.switch.run(|| open_kept(&spec, io, workers));
    let mut shares = match opened.unwrap() {
        Err(error @ PortError::NoXdp { .. }) => return println!("skipped: {error}"),
        opened => opened.unwrap().shares,
    };
    let now = clock();
    let frames: Vec<Frame> = (0..8).map(|n| frame(&[], 60, n)).collect();
    lab::be_silent(&lab.switch);
    lab::be_silent(&lab.host);
    for round in 1..4u64 {
        let mut host = host_port(&lab.host);
        shares.iter_mut().for_each(|share| wait_up(&mut **share));
        assert_eq!(host.tx(&frames).sent, 8);
        assert_eq!(receive(&mut shares, 8, &now), 8, "round {round}");
        assert_eq!(shares[0].tx(&frames).sent, 8);
        drop(host);
        lab.at_switch().delete_link("s0").unwrap();
        for share in &mut shares {
            let error = lab::next_error(&mut **share);
            assert!(matches!(error, PortError::Gone { .. }), "{error}");
            assert_eq!(share.link(), LinkState::Gone);
            assert_eq!(share.comes_back(now()), None);
            assert!(share.poll_fd().is_none());
        }
        let dropped = shares[0].tx(&frames).dropped;
        assert_eq!(dropped.get(TxDrop::LinkDown), 8);
        lay(&lab);
        let mut is_back = vec![false; shares.len()];
        let until = now().as_secs() + 10;
        while is_back.contains(&false) {
            for (share, is_back) in shares.iter_mut().zip(&mut is_back) {
                *is_back |= share.comes_back(now()).is_some();
            }
            assert!(now().as_secs() < until, "{is_back:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        let stats = sum(&mut shares);
        assert!(stats.rx_frames >= 8 * round);
        assert_eq!(stats.tx_frames, 8 * round);
        assert_eq!(stats.tx_dropped.get(TxDrop::LinkDown), 8 * round);
    }
}

#[test]
fn an_interface_that_was_made_again_is_the_port_again_by_af_packet() {
    check(PortDriver::Packet, 1);
}

#[test]
fn an_interface_that_was_made_again_is_the_port_again_by_af_xdp() {
    check(PortDriver::Xdp, 1);
}

#[test]
fn an_interface_that_was_made_again_is_the_port_again_for_several_workers() {
    check(PortDriver::Packet, 3);
    check(PortDriver::Xdp, 3);
}

#[test]
fn a_port_is_open_before_its_interface_is_made() {
    for (io, workers) in [(PortDriver::Packet, 1), (PortDriver::Auto, 2)] {
        let Some(lab) = Lab::new() else { return };
        lab.at_switch().delete_link("s0").unwrap();
        let spec = PortSpec {
            id: PortId(3),
            target: PortTarget::Interface("s0".into()),
        };
        let opened = lab.switch.run(|| open_kept(&spec, io, workers)).unwrap();
        assert!(matches!(opened, Err(PortError::NoSuchInterface { .. })));
        let opened = lab.switch.run(|| open_awaited(&spec, io, workers)).unwrap();
        let mut shares = opened.unwrap().shares;
        assert_eq!(shares.len(), workers);
        let now = clock();
        let mut batch = Batch::default();
        for share in &mut shares {
            assert_eq!(share.link(), LinkState::Gone);
            let error = share.rx(&mut batch, now()).unwrap_err();
            assert!(matches!(error, PortError::Awaited { .. }), "{error}");
            let error = share.rx(&mut batch, now()).unwrap_err();
            assert!(matches!(error, PortError::Gone { .. }), "{error}");
        }
        lay(&lab);
        lab::be_silent(&lab.switch);
        lab::be_silent(&lab.host);
        let mut is_back = vec![false; workers];
        let until = now().as_secs() + 10;
        while is_back.contains(&false) {
            for (share, is_back) in shares.iter_mut().zip(&mut is_back) {
                *is_back |= share.comes_back(now()).is_some();
            }
            assert!(now().as_secs() < until, "{is_back:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut host = host_port(&lab.host);
        shares.iter_mut().for_each(|share| wait_up(&mut **share));
        let frames: Vec<Frame> = (0..8).map(|n| frame(&[], 60, n)).collect();
        assert_eq!(host.tx(&frames).sent, 8);
        assert_eq!(receive(&mut shares, 8, &now), 8);
    }
}
