//! Test environment: network namespaces connected by veth pairs.
#![allow(dead_code, reason = "each test file uses a part")]

use packet::{Batch, Frame, Nanos, PortId};
use port::{AfPacketPort, AfXdpPort, LinkState, Netns, Port, PortError, Rtnl, XdpMode};
use std::time::{Duration, Instant};

/// An Ethernet type for local experiments. No kernel sends such frames by itself.
pub(crate) const EXPERIMENT: [u8; 2] = [0x88, 0xb5];

/// Namespaces of a switch and a host. `s0` at the switch and `h0` at the host are a veth pair,
/// both up.
pub(crate) struct Lab {
    pub(crate) switch: Netns,
    pub(crate) host: Netns,
}

impl Lab {
    /// Creates the namespaces. Returns `None` and prints the reason if the machine forbids them.
    pub(crate) fn new() -> Option<Lab> {
        let switch = match Netns::create() {
            Ok(netns) => netns,
            Err(error) => {
                println!("skipped: {error}");
                return None;
            }
        };
        let host = Netns::create().unwrap();
        let lab = Lab { switch, host };
        lab.at_switch()
            .add_veth("s0", "h0", Some(&lab.host))
            .unwrap();
        lab.at_switch().set_up("s0").unwrap();
        lab.at_host().set_up("h0").unwrap();
        for (netns, name) in [(&lab.switch, "s0"), (&lab.host, "h0")] {
            wait_up(
                &mut netns
                    .run(|| AfPacketPort::open(PortId(0), name))
                    .unwrap()
                    .unwrap(),
            );
        }
        Some(lab)
    }

    pub(crate) fn at_switch(&self) -> Rtnl {
        self.switch.rtnl().unwrap()
    }

    pub(crate) fn at_host(&self) -> Rtnl {
        self.host.rtnl().unwrap()
    }
}

/// Stops the kernel from sending frames by itself, by disabling IPv6.
pub(crate) fn be_silent(netns: &Netns) {
    for which in ["all", "default"] {
        let file = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
        let _ = netns.run(|| std::fs::write(file, "1"));
    }
}

/// The kernel's transmit counters of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelCounts {
    pub(crate) sent: u64,
    pub(crate) dropped: u64,
}

/// Reads the kernel's transmit counters of an interface.
pub(crate) fn kernel_counts(netns: &Netns, name: &str) -> KernelCounts {
    let read = || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let text = netns.run(read).unwrap();
    let line = text.lines().find_map(|line| {
        let (found, counts) = line.split_once(':')?;
        (found.trim() == name).then(|| counts.to_owned())
    });
    let counts: Vec<u64> = line
        .unwrap()
        .split_whitespace()
        .map(|count| count.parse().unwrap())
        .collect();
    KernelCounts {
        sent: counts[9],
        dropped: counts[11],
    }
}

/// Kind of a port on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Packet,
    Xdp(XdpMode),
}

impl Kind {
    /// Opens an interface as port 3.
    pub(crate) fn try_open(self, netns: &Netns, name: &str) -> Result<Box<dyn Port>, PortError> {
        let open = || -> Result<Box<dyn Port>, PortError> {
            Ok(match self {
                Kind::Packet => Box::new(AfPacketPort::open(PortId(3), name)?),
                Kind::Xdp(mode) => Box::new(AfXdpPort::open(PortId(3), name, mode)?),
            })
        };
        netns.run(open).unwrap()
    }

    pub(crate) fn open(self, netns: &Netns, name: &str) -> Box<dyn Port> {
        self.try_open(netns, name).unwrap()
    }

    /// Creates a lab in which ports of this kind can be opened. Returns `None` and prints the
    /// reason if the machine forbids that.
    pub(crate) fn lab(self) -> Option<Lab> {
        let lab = Lab::new()?;
        match self.try_open(&lab.switch, "s0") {
            Err(error @ PortError::NoXdp { .. }) => {
                println!("skipped: {error}");
                None
            }
            opened => opened.map(|_| lab).map_err(|e| panic!("{e}")).ok(),
        }
    }
}

/// Builds an experimental frame of `len` bytes with a number, and with `tags` between the
/// addresses and the type.
pub(crate) fn frame(tags: &[[u8; 4]], len: usize, number: u8) -> Frame {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    tags.iter().for_each(|tag| bytes.extend(tag));
    bytes.extend(EXPERIMENT);
    bytes.push(number);
    bytes.resize(len, number);
    Frame::from_bytes(&bytes).unwrap()
}

/// Returns true if a frame, after any tags, is experimental.
pub(crate) fn is_experiment(bytes: &[u8]) -> bool {
    let mut at = 12;
    while matches!(bytes.get(at..at + 2), Some([0x81, 0x00] | [0x88, 0xa8])) {
        at += 4;
    }
    bytes.get(at..at + 2) == Some(&EXPERIMENT)
}

/// Returns a clock for ports: the time since the test started.
pub(crate) fn clock() -> impl Fn() -> Nanos {
    let start = Instant::now();
    move || Nanos::from(start.elapsed())
}

/// Receives until there are `n` experimental frames, or for two seconds.
pub(crate) fn receive(port: &mut dyn Port, n: usize) -> Result<Vec<Vec<u8>>, PortError> {
    let start = Instant::now();
    let mut batch = Batch::with_capacity(5);
    let mut got = Vec::new();
    while got.len() < n && start.elapsed() < Duration::from_secs(2) {
        batch.clear();
        port.rx(&mut batch, Nanos::from(start.elapsed()))?;
        let new = batch
            .frames()
            .iter()
            .map(Frame::bytes)
            .filter(|bytes| is_experiment(bytes));
        got.extend(new.map(<[u8]>::to_vec));
    }
    Ok(got)
}

/// Polls the port until it returns an error, at most for two seconds.
pub(crate) fn next_error(port: &mut dyn Port) -> PortError {
    let start = Instant::now();
    let mut batch = Batch::default();
    while start.elapsed() < Duration::from_secs(2) {
        batch.clear();
        if let Err(error) = port.rx(&mut batch, Nanos::from(start.elapsed())) {
            return error;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the port gave no error");
}

/// Waits until the port's link is up, at most for two seconds. The kernel reports this with a
/// delay.
pub(crate) fn wait_up(port: &mut dyn Port) {
    let now = clock();
    let mut batch = Batch::default();
    while port.link() != LinkState::Up && now().as_secs() < 2 {
        batch.clear();
        let _ = port.rx(&mut batch, now());
    }
    assert_eq!(port.link(), LinkState::Up);
}
