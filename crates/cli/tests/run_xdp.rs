//! `polyplane run --engine xdp`: the example router in the kernel, between two hosts in namespaces.

mod lab;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::RawFd;
use std::process::ChildStderr;
use std::time::{Duration, Instant};

use lab::{Running, example, polyplane};
use packet::PortId;
use port::{AfXdpPort, EchoSocket, FrontProgram, Netns, XdpMode};

/// Addresses of the hosts and of the router, as in the example's entries.
const HOSTS: [(Ipv4Addr, Ipv4Addr, [u8; 6]); 2] = [
    (
        Ipv4Addr::new(10, 0, 1, 2),
        Ipv4Addr::new(10, 0, 1, 1),
        [2, 0, 0, 0, 1, 2],
    ),
    (
        Ipv4Addr::new(10, 0, 2, 2),
        Ipv4Addr::new(10, 0, 2, 1),
        [2, 0, 0, 0, 2, 2],
    ),
];

/// An XDP program that gives all frames to the host. With one, a veth interface polls.
struct Pass;

impl FrontProgram for Pass {
    fn instructions(&self, _: RawFd, _: bool) -> Vec<u64> {
        // `r0 = XDP_PASS; exit`
        let code = [[0xb7, 0, 0, 0, 2, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
        code.map(u64::from_ne_bytes).to_vec()
    }
}

/// Two hosts, and the namespace of the switch between them.
struct Network {
    /// Ports that make the hosts' interfaces poll. They are closed before the interfaces go.
    _polling: Vec<AfXdpPort>,
    switch: Netns,
    hosts: Vec<Netns>,
}

impl Network {
    /// Returns `None`, and prints the reason, if the machine forbids namespaces or programs in the
    /// kernel.
    fn new(test: &str, polls: bool) -> Option<Network> {
        if let Err(error) = xdp::permission() {
            println!("skipped: {test}: {error}");
            return None;
        }
        let created: Result<Vec<Netns>, _> = (0..3).map(|_| Netns::create()).collect();
        let mut hosts = match created {
            Ok(created) => created,
            Err(error) => {
                println!("skipped: {test}: {error}");
                return None;
            }
        };
        let switch = hosts.pop().unwrap();
        for netns in hosts.iter().chain([&switch]) {
            let quiet = || std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            let _ = netns.run(quiet).unwrap();
        }
        let mut near = switch.rtnl().unwrap();
        near.set_up("lo").unwrap();
        let mut polling = Vec::new();
        for (number, (host, (address, router, mac))) in hosts.iter().zip(HOSTS).enumerate() {
            let name = format!("port{number}");
            near.add_veth(&name, "eth0", Some(host)).unwrap();
            near.set_up(&name).unwrap();
            let mut far = host.rtnl().unwrap();
            far.set_hardware_address("eth0", mac).unwrap();
            far.add_address("eth0", IpAddr::V4(address), 24).unwrap();
            far.set_up("eth0").unwrap();
            let everything = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
            far.add_route(everything, 0, IpAddr::V4(router)).unwrap();
            if polls {
                let mode = (XdpMode::Driver, 1);
                let open = || AfXdpPort::open_after(PortId(9), "eth0", mode, Some(&Pass));
                polling.extend(host.run(open).unwrap().unwrap());
            }
        }
        Some(Network {
            _polling: polling,
            switch,
            hosts,
        })
    }

    /// Starts the router. Returns the process, the address of P4Runtime, and the lines until it
    /// runs.
    fn start(&self) -> (Running, String, Vec<String>) {
        let mut command = polyplane();
        command.args(["run", &example("router/router.p4"), "--engine", "xdp"]);
        command.args(["--entries", &example("router/router.entries")]);
        command.args(["--port", "0=port0", "--port", "1=port1", "--json"]);
        command.args(["--p4runtime", "127.0.0.1:0"]);
        let mut running = self.switch.run(|| Running::start(&mut command)).unwrap();
        let mut stderr = BufReader::new(running.0.stderr.take().unwrap());
        let (mut lines, mut address) = (Vec::new(), String::new());
        loop {
            let line = next_line(&mut stderr);
            assert_ne!(line, "", "it has ended: {lines:?}");
            if let Some((_, rest)) = line.split_once(" served at ") {
                address = rest.split(';').next().unwrap().trim().to_owned();
            }
            let runs = line.contains("is running on");
            lines.push(line);
            if runs {
                break;
            }
        }
        std::thread::spawn(move || while !next_line(&mut stderr).is_empty() {});
        (running, address, lines)
    }

    /// Sends echo requests from the first host to the second one. Returns the number of replies.
    fn ping(&self, count: u16) -> usize {
        let ping = || {
            let socket = EchoSocket::open(HOSTS[1].0, 7).unwrap();
            let mut replies = 0;
            for sequence in 0..count {
                socket.request(sequence, b"polyplane").unwrap();
                let timeout = Duration::from_secs(2);
                let came = socket.wait_reply(sequence, b"polyplane", timeout);
                replies += usize::from(came.unwrap());
            }
            replies
        };
        self.hosts[0].run(ping).unwrap()
    }

    /// Sends bytes from the first host to the second one by TCP. Returns the number that arrived.
    fn stream(&self, bytes: usize) -> usize {
        let listen = || TcpListener::bind((HOSTS[1].0, 7777)).unwrap();
        let listener = self.hosts[1].run(listen).unwrap();
        let receiver = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            received.len()
        });
        let send = || {
            let address = (IpAddr::V4(HOSTS[1].0), 7777).into();
            let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10));
            stream.unwrap().write_all(&vec![1; bytes]).unwrap();
        };
        self.hosts[0].run(send).unwrap();
        receiver.join().unwrap()
    }
}

fn next_line(lines: &mut BufReader<ChildStderr>) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    line
}

/// Ends the switch. Returns its report.
fn finish(running: Running) -> serde_json::Value {
    running.signal("TERM");
    let said = running.finish();
    assert_eq!(said.status, Some(0), "{}", said.err);
    said.json()
}

/// Runs a command of `polyplane ctl` on the switch. Returns its output, or its error if it fails.
fn try_ctl(network: &Network, address: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = polyplane();
    command.args(["ctl", "--addr", address]).args(arguments);
    let output = network.switch.run(|| command.output().unwrap()).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Runs a command of `polyplane ctl` that succeeds. Returns its output.
fn ctl(network: &Network, address: &str, arguments: &[&str]) -> String {
    try_ctl(network, address, arguments).unwrap()
}

/// Returns the packets of the direct counters of routes, as P4Runtime reads them.
fn route_hits(network: &Network, address: &str) -> u64 {
    let text = ctl(
        network,
        address,
        &["--json", "counters", "RouterIngress.route_hits"],
    );
    let lines = text.lines().map(serde_json::from_str::<serde_json::Value>);
    let packets = lines.map(|line| line.unwrap()["packets"].as_u64().unwrap_or(0));
    packets.sum()
}

fn number(value: &serde_json::Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn hosts_that_poll_are_connected_by_the_kernel_and_controllers_see_the_counts() {
    let test = "hosts_that_poll_are_connected_by_the_kernel_and_controllers_see_the_counts";
    let Some(network) = Network::new(test, true) else {
        return;
    };
    let (running, address, lines) = network.start();
    assert!(
        lines.iter().any(|line| line.contains("runs in the kernel")),
        "{lines:?}"
    );
    assert!(
        !lines.iter().any(|line| line.contains("does not poll")),
        "{lines:?}"
    );
    assert_eq!(network.ping(20), 20);
    assert_eq!(network.stream(300_000), 300_000);
    let start = Instant::now();
    let mut hits = route_hits(&network, &address);
    while hits < 40 && start.elapsed() < Duration::from_secs(5) {
        hits = route_hits(&network, &address);
    }
    assert!(hits >= 40, "only {hits} packets are counted");
    for change in [["add", "7=lo"], ["remove", "1"]] {
        let arguments = ["port", change[0], change[1]];
        let error = try_ctl(&network, &address, &arguments).unwrap_err();
        assert!(error.contains("--engine xdp"), "{change:?}: {error}");
    }
    assert_eq!(network.ping(1), 1);
    let report = finish(running);
    let kernel = &report["kernel"];
    let sent: u64 = (0..2)
        .map(|port| number(&kernel["ports"][port]["sent"]["packets"]))
        .sum();
    // 20 requests and replies; TCP segments with incomplete checksums leave.
    assert!(sent >= 40, "{kernel}");
}

#[test]
fn hosts_that_do_not_poll_are_connected_by_af_xdp_and_a_line_says_so() {
    let test = "hosts_that_do_not_poll_are_connected_by_af_xdp_and_a_line_says_so";
    let Some(network) = Network::new(test, false) else {
        return;
    };
    let (running, _, lines) = network.start();
    assert!(
        lines.iter().any(|line| line.contains("runs in the kernel")),
        "{lines:?}"
    );
    assert_eq!(network.ping(20), 20);
    assert_eq!(network.stream(300_000), 300_000);
    let report = finish(running);
    let kernel = &report["kernel"];
    assert_eq!(
        number(&kernel["ports"][0]["sent"]["packets"]),
        0,
        "{kernel}"
    );
    let left = kernel["left"].as_array().unwrap().iter();
    let left: u64 = left.map(|place| number(&place["packets"])).sum();
    assert!(left >= 40, "{kernel}");
}

#[test]
fn places_at_which_packets_leave_are_known_without_rights() {
    let said = lab::said(&["check", &example("router/router.p4"), "--engine", "xdp"]);
    assert_eq!(said.status, Some(0), "{}", said.err);
    let leaves = said
        .out
        .lines()
        .filter(|line| line.starts_with("leaves the kernel: "));
    let varbit = |line: &str| line.contains("router.p4:") && line.contains("variable length");
    assert!(leaves.clone().any(varbit), "{}", said.out);
    let psa = example("psa_router/psa_router.p4");
    let said = lab::said(&["check", &psa, "--engine", "xdp"]);
    assert_eq!(said.status, Some(1), "{}", said.out);
    assert!(said.out.contains("in the kernel: nothing"), "{}", said.out);
}

#[test]
fn a_check_for_the_kernel_shows_each_warning_once() {
    let dir = lab::Directory::new("check-xdp");
    let router = std::fs::read_to_string(example("router/router.p4")).unwrap();
    let late = "bit<8> late(in bit<8> a) {\n    return a;\n    return 1;\n}\n";
    let program = dir.with("router.p4", format!("{router}\n{late}"));
    let said = lab::said(&["check", &program, "--engine", "xdp"]);
    assert_eq!(said.status, Some(0), "{}", said.err);
    let warnings = said.err.matches("this statement is never reached");
    assert_eq!(warnings.count(), 1, "{}", said.err);
    assert!(said.out.contains("in the kernel: "), "{}", said.out);
}
