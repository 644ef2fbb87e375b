//! Tests with hosts that leave checksums and segmentation to the interface. The switch must still
//! see frames in wire format, and the data must arrive intact.

mod lab;

use lab::{Kind, Lab, clock, wait_up};
use packet::{Batch, Frame};
use port::{Netns, Poller, Port, XdpMode};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Length of the transfer, in bytes.
const BYTES: usize = 4 << 20;

/// Counters of the frames on a wire.
#[derive(Default, Debug)]
struct Seen {
    frames: usize,
    tcp: usize,
    udp: usize,
    longest: usize,
    wrong_checksums: usize,
}

/// Forwards all frames between two ports until `stop` is set.
fn wire(ports: &mut [Box<dyn Port>; 2], stop: &AtomicBool) -> Seen {
    let now = clock();
    let mut seen = Seen::default();
    let mut batch = Batch::default();
    let mut poller = Poller::new();
    while !stop.load(Ordering::Relaxed) {
        let fds = ports.iter().filter_map(|port| port.poll_fd());
        poller.wait(fds, Duration::from_millis(5)).unwrap();
        for from in 0..2 {
            loop {
                batch.clear();
                if ports[from].rx(&mut batch, now()).unwrap() == 0 {
                    break;
                }
                batch.frames().iter().for_each(|frame| seen.look(frame));
                let outcome = ports[1 - from].tx(batch.frames());
                assert_eq!(outcome.sent, batch.len() as u64, "{:?}", outcome.dropped);
            }
        }
    }
    seen
}

impl Seen {
    fn look(&mut self, frame: &Frame) {
        let bytes = frame.bytes();
        self.frames += 1;
        self.longest = self.longest.max(bytes.len());
        let (addresses, protocol, start) = match bytes[12..14] {
            [0x08, 0x00] => (26..34, bytes[23], 34),
            [0x86, 0xdd] => (22..54, bytes[20], 54),
            _ => return,
        };
        match protocol {
            6 => self.tcp += 1,
            17 => self.udp += 1,
            _ => return,
        }
        let end = match bytes[12] {
            0x08 => 14 + usize::from(u16::from_be_bytes([bytes[16], bytes[17]])),
            _ => 54 + usize::from(u16::from_be_bytes([bytes[18], bytes[19]])),
        };
        let segment = &bytes[start..end];
        let mut covered = bytes[addresses].to_vec();
        covered.extend([0, protocol]);
        covered.extend((segment.len() as u16).to_be_bytes());
        covered.extend(segment);
        self.wrong_checksums += usize::from(sum(&covered) != 0xffff);
    }
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).fold(0, |total, word| {
        let word = u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
        let total = total + word;
        (total & 0xffff) + (total >> 16)
    })
}

/// Two hosts, of which the first is the lab's, and their switch ports.
type Hosts = (Lab, Netns, [Box<dyn Port>; 2]);

/// Creates two hosts with these addresses.
fn two_hosts(kind: Kind, a: IpAddr, b: IpAddr, mtu: u32) -> Option<Hosts> {
    let lab = kind.lab()?;
    let second = Netns::create().unwrap();
    let mut switch = lab.at_switch();
    switch.add_veth("s1", "h1", Some(&second)).unwrap();
    switch.set_up("s1").unwrap();
    for name in ["s0", "s1"] {
        switch.set_mtu(name, mtu).unwrap();
    }
    let prefix = if a.is_ipv4() { 24 } else { 64 };
    for (mut host, name, address) in [(lab.at_host(), "h0", a), (second.rtnl().unwrap(), "h1", b)] {
        host.set_mtu(name, mtu).unwrap();
        host.set_up(name).unwrap();
        host.add_address(name, address, prefix).unwrap();
    }
    let mut ports = ["s0", "s1"].map(|name| kind.open(&lab.switch, name));
    ports.iter_mut().for_each(|port| wait_up(&mut **port));
    Some((lab, second, ports))
}

fn pattern() -> Vec<u8> {
    (0..BYTES as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

/// Sends the pattern by TCP from one host to the other.
fn transfer(from: &Netns, to: &Netns, address: SocketAddr) {
    let listener = to.run(|| TcpListener::bind(address)).unwrap().unwrap();
    thread::scope(|scope| {
        let received = scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(10)))
                .unwrap();
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let mut stream = from.run(|| TcpStream::connect(address)).unwrap().unwrap();
        stream.write_all(&pattern()).unwrap();
        drop(stream);
        assert!(
            received.join().unwrap() == pattern(),
            "the data arrived changed"
        );
    });
}

fn check(kind: Kind, a: &str, b: &str, mtu: u32, longest: usize) {
    let (a, b): (IpAddr, IpAddr) = (a.parse().unwrap(), b.parse().unwrap());
    let Some((lab, second, mut ports)) = two_hosts(kind, a, b, mtu) else {
        return;
    };
    let stop = AtomicBool::new(false);
    let seen = thread::scope(|scope| {
        let wire = scope.spawn(|| wire(&mut ports, &stop));
        let receiver = second.run(|| UdpSocket::bind((b, 7000))).unwrap().unwrap();
        receiver
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let sender = lab
            .host
            .run(|| UdpSocket::bind((a, 7001)))
            .unwrap()
            .unwrap();
        sender.send_to(&[7; 333], (b, 7000)).unwrap();
        assert_eq!(receiver.recv(&mut [0; 400]).unwrap(), 333);
        transfer(&lab.host, &second, (b, 7002).into());
        stop.store(true, Ordering::Relaxed);
        wire.join().unwrap()
    });
    assert_eq!(seen.wrong_checksums, 0, "{seen:?}");
    assert_eq!(seen.longest, longest, "{seen:?}");
    assert!(
        seen.tcp >= BYTES / mtu as usize && seen.udp >= 1,
        "{seen:?}"
    );
    for port in &mut ports {
        assert_eq!(port.stats().rx_dropped.total(), 0);
    }
}

#[test]
fn tcp_over_ipv4_is_seen_segment_by_segment() {
    check(Kind::Packet, "10.8.0.1", "10.8.0.2", 1500, 1514);
}

#[test]
fn tcp_over_ipv6_is_seen_segment_by_segment() {
    check(Kind::Packet, "fd00:8::1", "fd00:8::2", 1500, 1514);
}

#[test]
fn tcp_over_jumbo_frames_is_seen_segment_by_segment() {
    check(Kind::Packet, "10.8.0.1", "10.8.0.2", 9000, 9014);
}

const XDP: Kind = Kind::Xdp(XdpMode::Driver);

#[test]
fn tcp_over_ipv4_is_seen_segment_by_segment_by_af_xdp() {
    check(XDP, "10.8.0.1", "10.8.0.2", 1500, 1514);
}

#[test]
fn tcp_over_ipv6_is_seen_segment_by_segment_by_af_xdp() {
    check(XDP, "fd00:8::1", "fd00:8::2", 1500, 1514);
}

#[test]
fn tcp_over_jumbo_frames_is_seen_segment_by_segment_by_af_xdp() {
    check(XDP, "10.8.0.1", "10.8.0.2", 9000, 9014);
}
