//! Tests of hosts with tunnel devices, connected by a switch or by a Linux bridge: inner packets
//! must arrive with correct checksums.

mod lab;

use lab::{Kind, Lab, clock, wait_up};
use packet::{Batch, Frame};
use port::{Netns, Poller, Port, RtnlError, Tunnel, XdpMode};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const XDP: Kind = Kind::Xdp(XdpMode::Driver);

/// Number of datagrams sent over each kind of connection.
const DATAGRAMS: u8 = 20;

/// Duration of one TCP measurement.
const TURN: Duration = Duration::from_millis(400);

/// Two hosts connected by a switch, with a tunnel between them.
struct Hosts {
    lab: Lab,
    second: Netns,
    inside: [IpAddr; 2],
}

impl Hosts {
    /// Creates the hosts. Returns `None` and prints the reason if the machine does not allow it or
    /// has no such tunnels.
    fn new(kind: Kind, tunnel: Tunnel, outside: [&str; 2], inside: [&str; 2]) -> Option<Hosts> {
        let lab = kind.lab()?;
        let second = Netns::create().unwrap();
        let mut switch = lab.at_switch();
        switch.add_veth("s1", "h1", Some(&second)).unwrap();
        switch.set_up("s1").unwrap();
        let [a, b] = outside.map(|address| address.parse::<IpAddr>().unwrap());
        let inside = inside.map(|address| address.parse::<IpAddr>().unwrap());
        let ends = [
            (&lab.host, "h0", a, b, inside[0]),
            (&second, "h1", b, a, inside[1]),
        ];
        for (netns, name, local, remote, address) in ends {
            let mut host = netns.rtnl().unwrap();
            let made = host.add_tunnel("t", tunnel, local, remote);
            if !is_there(made) {
                return None;
            }
            let prefix = |address: IpAddr| if address.is_ipv4() { 24 } else { 64 };
            host.set_up(name).unwrap();
            host.add_address(name, local, prefix(local)).unwrap();
            host.set_mtu("t", 1400).unwrap();
            host.set_up("t").unwrap();
            host.add_address("t", address, prefix(address)).unwrap();
        }
        Some(Hosts {
            lab,
            second,
            inside,
        })
    }

    /// Sends datagrams and TCP data while `carry` connects the hosts. Returns the TCP rate in
    /// bytes per second, and the result of `carry`.
    fn talk<T: Send>(&self, carry: impl FnOnce(&AtomicBool) -> T + Send) -> (u64, T) {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let carrying = scope.spawn(|| carry(&stop));
            let talked = thread::scope(|scope| {
                scope
                    .spawn(|| {
                        self.send_datagrams();
                        self.measure_tcp()
                    })
                    .join()
            });
            stop.store(true, Ordering::Relaxed);
            let carried = carrying.join().unwrap();
            (talked.unwrap(), carried)
        })
    }

    fn send_datagrams(&self) {
        let [a, b] = self.inside;
        let bind = |netns: &Netns, address: SocketAddr| {
            let start = Instant::now();
            loop {
                // An IPv6 address is usable only after duplicate address detection.
                match netns.run(|| UdpSocket::bind(address)).unwrap() {
                    Err(error) if start.elapsed() > Duration::from_secs(5) => panic!("{error}"),
                    Err(_) => thread::sleep(Duration::from_millis(20)),
                    Ok(socket) => return socket,
                }
            }
        };
        let receiver = bind(&self.second, (b, 7000).into());
        let sender = bind(&self.lab.host, (a, 7001).into());
        let short = Some(Duration::from_millis(200));
        receiver.set_read_timeout(short).unwrap();
        let mut buf = [0; 2000];
        // The first datagrams may wait for neighbor resolution, and for a bridge to start
        // forwarding.
        let start = Instant::now();
        while receiver.recv(&mut buf).is_err() {
            assert!(
                start.elapsed() < Duration::from_secs(5),
                "no datagram arrives"
            );
            let _ = sender.send_to(&[255; 9], (b, 7000));
        }
        receiver
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        for n in 0..DATAGRAMS {
            sender
                .send_to(&vec![n; 100 + usize::from(n) * 60], (b, 7000))
                .unwrap();
            loop {
                let len = receiver.recv(&mut buf).unwrap();
                if buf[0] != 255 {
                    assert_eq!((len, buf[len - 1]), (100 + usize::from(n) * 60, n));
                    break;
                }
            }
        }
    }

    /// Returns the TCP rate at the receiver, in bytes per second.
    fn measure_tcp(&self) -> u64 {
        let to: SocketAddr = (self.inside[1], 7002).into();
        let listener = self.second.run(|| TcpListener::bind(to)).unwrap().unwrap();
        thread::scope(|scope| {
            let received = scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let limit = Some(Duration::from_secs(10));
                stream.set_read_timeout(limit).unwrap();
                let (mut buf, mut bytes, start) = (vec![0; 1 << 20], 0, Instant::now());
                let mut next = 0u8;
                loop {
                    match stream.read(&mut buf).unwrap() {
                        0 => break,
                        n => {
                            // The first byte of each read is determined by its position in the
                            // pattern.
                            assert_eq!(buf[0], next, "the data arrived changed");
                            bytes += n as u64;
                            next = (bytes % 251) as u8;
                        }
                    }
                }
                (bytes as f64 / start.elapsed().as_secs_f64()) as u64
            });
            let connect = || TcpStream::connect_timeout(&to, Duration::from_secs(5));
            let mut stream = self.lab.host.run(connect).unwrap().unwrap();
            let chunk: Vec<u8> = (0..251 * 1024).map(|n| (n % 251) as u8).collect();
            let start = Instant::now();
            while start.elapsed() < TURN {
                stream.write_all(&chunk).unwrap();
            }
            drop(stream);
            received.join().unwrap()
        })
    }
}

fn is_there(made: Result<(), RtnlError>) -> bool {
    match made {
        Err(error) if error.source.kind() == std::io::ErrorKind::Unsupported => {
            println!("skipped: {error}");
            false
        }
        made => {
            made.unwrap();
            true
        }
    }
}

/// Returns the number of packets of any protocol that a host dropped for wrong checksums.
fn checksum_errors(netns: &Netns) -> u64 {
    let read = || {
        ["snmp", "snmp6", "netstat"].map(|file| {
            let path = format!("/proc/thread-self/net/{file}");
            std::fs::read_to_string(path).unwrap_or_default()
        })
    };
    let [four, six, other] = netns.run(read).unwrap();
    let by_line = six.lines().filter_map(|line| {
        let (name, count) = line.split_once(char::is_whitespace)?;
        name.contains("CsumErrors")
            .then(|| count.trim().parse::<u64>().ok())?
    });
    let mut total: u64 = by_line.sum();
    for text in [four, other] {
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        for [names, counts] in lines.as_chunks().0 {
            let both = names.iter().zip(counts);
            let errors = both.filter(|(name, _)| name.contains("CsumErrors"));
            total += errors.map(|(_, n)| n.parse::<u64>().unwrap()).sum::<u64>();
        }
    }
    total
}

/// Forwards all frames between two ports until `stop` is set. Returns the number of frames that
/// could not be sent.
fn wire(ports: &mut [Box<dyn Port>; 2], stop: &AtomicBool) -> u64 {
    let now = clock();
    let mut lost = 0;
    let mut batch = Batch::with_capacity(Batch::DEFAULT);
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
                let frames: &[Frame] = batch.frames();
                lost += frames.len() as u64 - ports[1 - from].tx(frames).sent;
            }
        }
    }
    lost
}

/// Connects the hosts by a Linux bridge, instead of the switch, until `stop` is set.
fn bridge(lab: &Lab, stop: &AtomicBool) {
    let mut switch = lab.at_switch();
    switch.add_bridge("bridge").unwrap();
    switch.set_up("bridge").unwrap();
    for name in ["s0", "s1"] {
        switch.join_bridge(name, "bridge").unwrap();
    }
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(5));
    }
    switch.delete_link("bridge").unwrap();
}

/// Minimum TCP rate, in bytes per second (10 Mbit/s). TCP falls below it if merged segments are
/// dropped, since each is then retransmitted separately. Even an unoptimized build on a busy
/// machine is far faster.
const CRAWL: u64 = 10_000_000 / 8;

fn check(kind: Kind, tunnel: Tunnel, outside: [&str; 2], inside: [&str; 2]) {
    let Some(hosts) = Hosts::new(kind, tunnel, outside, inside) else {
        return;
    };
    let (by_bridge, ()) = hosts.talk(|stop| bridge(&hosts.lab, stop));
    let mut ports = ["s0", "s1"].map(|name| kind.open(&hosts.lab.switch, name));
    ports.iter_mut().for_each(|port| wait_up(&mut **port));
    let (by_ports, lost) = hosts.talk(|stop| wire(&mut ports, stop));
    let stats = ports.each_mut().map(|port| port.stats());
    let dropped = stats.map(|stats| stats.tx_dropped.total());
    assert_eq!(
        lost,
        dropped.iter().sum::<u64>(),
        "nothing is lost uncounted"
    );
    for stats in stats {
        let other = stats.rx_dropped.total() - stats.rx_dropped.get(port::RxDrop::QueueFull);
        assert_eq!(other, 0, "{}", stats.rx_dropped);
    }
    let errors = [&hosts.lab.host, &hosts.second].map(checksum_errors);
    assert_eq!(errors, [0, 0], "checksum errors at the hosts");
    let mbit = |rate: u64| rate * 8 / 1_000_000;
    let (ours, bridges) = (mbit(by_ports), mbit(by_bridge));
    println!("{kind:?} {tunnel:?}: {ours} Mbit/s, a bridge {bridges} Mbit/s");
    assert!(by_ports >= CRAWL, "{ours} Mbit/s of a bridge's {bridges}");
}

const FOUR: [&str; 2] = ["10.8.0.1", "10.8.0.2"];
const SIX: [&str; 2] = ["fd00:8::1", "fd00:8::2"];
const INSIDE_FOUR: [&str; 2] = ["10.9.0.1", "10.9.0.2"];
const INSIDE_SIX: [&str; 2] = ["fd00:9::1", "fd00:9::2"];

macro_rules! through {
    ($($name:ident: $tunnel:expr, $outside:expr, $inside:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn carries_tcp_and_udp_by_af_packet() {
                check(Kind::Packet, $tunnel, $outside, $inside);
            }

            #[test]
            fn carries_tcp_and_udp_by_af_xdp() {
                check(XDP, $tunnel, $outside, $inside);
            }
        }
    )*};
}

through! {
    vxlan: Tunnel::Vxlan(4789, false), FOUR, INSIDE_FOUR;
    vxlan_with_checksums: Tunnel::Vxlan(4789, true), FOUR, INSIDE_SIX;
    vxlan_over_ipv6: Tunnel::Vxlan(4789, true), SIX, INSIDE_FOUR;
    vxlan_to_another_port: Tunnel::Vxlan(9999, false), FOUR, INSIDE_SIX;
    geneve: Tunnel::Geneve(false), FOUR, INSIDE_FOUR;
    geneve_with_checksums: Tunnel::Geneve(true), FOUR, INSIDE_SIX;
    gre: Tunnel::Gre, FOUR, INSIDE_FOUR;
}
