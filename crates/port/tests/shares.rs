//! Tests of ports shared by several workers: every frame is received once, all frames of a flow
//! are received by one share and in order, and every share can send.

mod lab;

use lab::{Lab, clock};
use packet::{Batch, Frame, PortId};
use port::{
    Flows, Generator, Order, Port, PortDriver, PortStats, Sizes, Template, Values, flow_hash,
    open_interface,
};
use std::collections::HashMap;

/// Number of frames. There are half as many flows. The frames of each flow are numbered in
/// ascending order.
const FRAMES: usize = 512;

fn frames() -> Vec<Frame> {
    let ports = Values::From {
        first: 1,
        count: FRAMES as u64 / 2,
    };
    let template = Template::udp4().vary(36, 2, ports);
    let flows = Flows {
        count: FRAMES / 2,
        order: Order::InTurn,
    };
    let mut generator = Generator::new(vec![template], flows, &Sizes::Fixed(100), 1).unwrap();
    let numbered = |number: usize| {
        let mut frame = Frame::new();
        generator.make(&mut frame);
        let at = frame.len() - 2;
        frame.bytes_mut()[at..].copy_from_slice(&(number as u16).to_be_bytes());
        frame
    };
    (0..FRAMES).map(numbered).collect()
}

fn number(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[bytes.len() - 2], bytes[bytes.len() - 1]])
}

fn is_ours(bytes: &[u8]) -> bool {
    bytes.len() == 100 && bytes[12..14] == [8, 0]
}

/// Receives on all shares until there are `n` frames, or for two seconds. Returns the frames of
/// each share.
fn receive(shares: &mut [Box<dyn Port>], n: usize) -> Vec<Vec<Vec<u8>>> {
    let mut got = vec![Vec::new(); shares.len()];
    let (now, mut batch) = (clock(), Batch::with_capacity(9));
    while got.iter().map(Vec::len).sum::<usize>() < n && now().as_secs() < 2 {
        for (share, got) in shares.iter_mut().zip(&mut got) {
            batch.clear();
            share.rx(&mut batch, now()).unwrap();
            let ours = batch.frames().iter().map(Frame::bytes);
            got.extend(ours.filter(|b| is_ours(b)).map(<[u8]>::to_vec));
        }
    }
    got
}

/// Opens the switch's end of a veth pair with `queues` queues for `workers` workers. `how` is the
/// expected description of the driver.
fn check(io: PortDriver, queues: u32, workers: usize, how: &str) {
    let Some(lab) = Lab::new() else { return };
    let made = lab
        .at_switch()
        .add_veth_with_queues("s1", "h1", Some(&lab.host), queues);
    if let Err(error) = made {
        return println!("skipped: {error}");
    }
    lab.at_switch().set_up("s1").unwrap();
    lab.at_host().set_up("h1").unwrap();
    let open = || open_interface(PortId(3), "s1", io, workers);
    let opened = lab.switch.run(open).unwrap().unwrap();
    if !opened.how.starts_with(how) {
        assert!(opened.how.contains("no AF_XDP"), "{}", opened.how);
        return println!("skipped: {}", opened.how);
    }
    let mut shares = opened.shares;
    assert_eq!(shares.len(), workers);
    let mut host = lab::Kind::Packet.open(&lab.host, "h1");
    lab::wait_up(&mut *host);
    for share in &mut shares {
        lab::wait_up(&mut **share);
    }
    let sent = frames();
    assert_eq!(host.tx(&sent).sent, FRAMES as u64);
    let got = receive(&mut shares, FRAMES);
    let mut owner: HashMap<u32, (usize, u16)> = HashMap::new();
    for (worker, frames) in got.iter().enumerate() {
        assert!(!frames.is_empty(), "worker {worker} of {how} has none");
        for bytes in frames {
            let flow = owner.entry(flow_hash(bytes)).or_insert((worker, 0));
            assert_eq!(flow.0, worker, "a flow comes by one share");
            assert!(flow.1 <= number(bytes), "a flow keeps its order");
            flow.1 = number(bytes);
        }
    }
    let mut numbers: Vec<u16> = got.iter().flatten().map(|bytes| number(bytes)).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..FRAMES as u16), "{how}");
    for share in &mut shares {
        assert_eq!(share.tx(&sent[..20]).sent, 20);
    }
    // Shares without a queue have their frames sent by another share when that one receives.
    for share in &mut shares {
        share.rx(&mut Batch::default(), clock()()).unwrap();
    }
    let arrived = receive(std::slice::from_mut(&mut host), 20 * workers);
    assert_eq!(arrived[0].len(), 20 * workers, "{how}");
    let mut stats = PortStats::default();
    shares
        .iter_mut()
        .for_each(|share| stats.add(&share.stats()));
    assert!(stats.rx_frames >= FRAMES as u64);
    assert_eq!(stats.tx_frames, 20 * workers as u64);
    assert_eq!(stats.rx_dropped.total() + stats.tx_dropped.total(), 0);
}

#[test]
fn raw_sockets_share_flows_by_the_kernels_hash() {
    check(PortDriver::Packet, 1, 3, "AF_PACKET (as asked for)");
}

#[test]
fn queues_are_dealt_to_workers() {
    check(
        PortDriver::Auto,
        4,
        2,
        "AF_XDP (driver veth, copying, 4 queues)",
    );
}

#[test]
fn one_queue_is_spread_over_workers() {
    let how = "AF_XDP (driver veth, copying, 1 queue), spread by flow over 2 workers";
    check(PortDriver::Auto, 1, 2, how);
}

#[test]
fn fewer_queues_than_workers_are_spread_over_them() {
    let how = "AF_XDP (driver veth, copying, 2 queues), spread by flow over 4 workers";
    check(PortDriver::Auto, 2, 4, how);
}
