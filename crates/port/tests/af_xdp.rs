//! Tests of features that only AF_XDP ports have: XDP programs, queues, VLAN tags that senders
//! leave to the interface, and the selection between AF_XDP and raw sockets.

mod lab;

use lab::{Kind, Lab, clock, frame, receive};
use packet::{Batch, Frame, PortId};
use port::{
    AfPacketPort, AfXdpPort, Flows, Generator, Netns, Order, Poller, Port, PortDriver, PortError,
    RtnlError, RxDrop, Sizes, Template, Values, XdpMode, open_interface,
};
use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const XDP: Kind = Kind::Xdp(XdpMode::Driver);

/// Environment variable that makes this program a child that holds a port open.
const HOLDER: &str = "POLYPLANE_TEST_HOLDS";

/// Returns true if the kernel supports what a test needs. Otherwise prints a line.
fn has(made: Result<(), RtnlError>) -> bool {
    match made {
        Err(error) if error.source.kind() == std::io::ErrorKind::Unsupported => {
            println!("skipped: {error}");
            false
        }
        made => made.is_ok(),
    }
}

#[test]
fn tags_that_a_sender_leaves_to_its_interface_are_put_back() {
    let Some(lab) = XDP.lab() else { return };
    // A bridge removes a frame's tag and leaves it to the egress interface to reinsert it.
    let mut config = lab.at_host();
    if !has(config.add_bridge("bridge")) {
        return;
    }
    config.add_veth("x0", "x1", None).unwrap();
    for name in ["bridge", "x0", "x1"] {
        config.set_up(name).unwrap();
    }
    for name in ["x0", "h0"] {
        config.join_bridge(name, "bridge").unwrap();
    }
    let open = || AfXdpPort::open(PortId(0), "s0", XdpMode::Driver);
    let mut switch = lab.switch.run(open).unwrap().unwrap();
    if switch.may_lose_tags() {
        return println!("skipped: this kernel does not tell XDP programs of VLAN tags");
    }
    let mut host = Kind::Packet.open(&lab.host, "x1");
    lab::wait_up(&mut *host);
    let frames = [
        frame(&[[0x81, 0, 0x20, 0x05]], 64, 1),
        frame(&[[0x88, 0xa8, 0, 7], [0x81, 0, 0, 9]], 1500, 2),
        frame(&[], 60, 3),
    ];
    // The bridge starts forwarding with a delay, so the first frames may be lost.
    let mut got = Vec::new();
    for _ in 0..20 {
        host.tx(&frames);
        got = receive(&mut switch, 3).unwrap();
        if got.len() == 3 {
            break;
        }
    }
    let expect: Vec<Vec<u8>> = frames.iter().map(|f| f.bytes().to_vec()).collect();
    assert_eq!(got, expect);
}

/// Returns a lab with a veth pair of several queues: `s1` at the switch, `h1` at the host.
fn lab_with_queues(queues: u32) -> Option<Lab> {
    let lab = XDP.lab()?;
    let made = lab
        .at_switch()
        .add_veth_with_queues("s1", "h1", Some(&lab.host), queues);
    made.unwrap();
    lab.at_switch().set_up("s1").unwrap();
    lab.at_host().set_up("h1").unwrap();
    Some(lab)
}

#[test]
fn frames_of_all_queues_arrive_and_wake_who_waits() {
    let Some(lab) = lab_with_queues(4) else {
        return;
    };
    let open = || AfXdpPort::open(PortId(3), "s1", XdpMode::Driver);
    let mut switch = lab.switch.run(open).unwrap().unwrap();
    let how = switch.to_string();
    assert!(how.starts_with("driver veth, copying, 4 queues"), "{how}");
    let mut host = Kind::Packet.open(&lab.host, "h1");
    lab::wait_up(&mut *host);
    lab::wait_up(&mut switch);
    // The kernel distributes flows over its queues.
    let ports = Values::From {
        first: 1,
        count: 64,
    };
    let template = Template::udp4().vary(36, 2, ports);
    let flows = Flows {
        count: 64,
        order: Order::InTurn,
    };
    let mut generator = Generator::new(vec![template], flows, &Sizes::Fixed(100), 1).unwrap();
    let mut sent = Batch::with_capacity(64);
    generator.fill(&mut sent, PortId(0), packet::Nanos::ZERO);
    let expected: HashSet<Vec<u8>> = sent.frames().iter().map(|f| f.bytes().to_vec()).collect();
    assert_eq!(host.tx(sent.frames()).sent, 64);
    let now = clock();
    let (mut got, mut poller, mut batch) = (HashSet::new(), Poller::new(), Batch::with_capacity(3));
    while got.len() < 64 && now().as_secs() < 3 {
        let ready = poller
            .wait(switch.poll_fd(), Duration::from_secs(3))
            .unwrap();
        assert_eq!(ready, 1, "{} frames have come", got.len());
        batch.clear();
        switch.rx(&mut batch, now()).unwrap();
        let new = batch.frames().iter().map(|f| f.bytes().to_vec());
        got.extend(new.filter(|bytes| bytes[12..14] == [8, 0]));
    }
    assert!(got == expected);
}

#[test]
fn one_queue_wakes_who_waits() {
    let Some(lab) = XDP.lab() else { return };
    let mut switch = XDP.open(&lab.switch, "s0");
    let mut host = Kind::Packet.open(&lab.host, "h0");
    let (mut poller, mut batch, now) = (Poller::new(), Batch::default(), clock());
    // Discard frames that kernels send by themselves on a new link.
    while poller
        .wait(switch.poll_fd(), Duration::from_millis(300))
        .unwrap()
        > 0
    {
        batch.clear();
        switch.rx(&mut batch, now()).unwrap();
    }
    host.tx(&[frame(&[], 60, 1)]);
    let ready = poller
        .wait(switch.poll_fd(), Duration::from_secs(3))
        .unwrap();
    assert_eq!(ready, 1);
    assert_eq!(receive(&mut *switch, 1).unwrap()[0][14], 1);
}

#[test]
fn a_port_that_polls_its_device_carries_frames() {
    let Some(lab) = XDP.lab() else { return };
    let open = || AfXdpPort::open(PortId(3), "s0", XdpMode::Driver);
    let mut switch = lab.switch.run(open).unwrap().unwrap();
    if let Err(error) = switch.set_busy_poll(20, 64) {
        return println!("skipped: {error}");
    }
    let mut host = Kind::Packet.open(&lab.host, "h0");
    let frames: Vec<Frame> = (0..200).map(|i| frame(&[], 60, i)).collect();
    for _ in 0..3 {
        assert_eq!(host.tx(&frames).sent, 200);
        let got = receive(&mut switch, 200).unwrap();
        assert!(
            got.iter()
                .map(Vec::as_slice)
                .eq(frames.iter().map(Frame::bytes))
        );
    }
}

#[test]
fn the_bare_loop_passes_what_a_port_would() {
    let Some(lab) = XDP.lab() else { return };
    let second = Netns::create().unwrap();
    let mut rtnl = lab.at_switch();
    rtnl.add_veth("s1", "h1", Some(&second)).unwrap();
    rtnl.set_up("s1").unwrap();
    second.rtnl().unwrap().set_up("h1").unwrap();
    let open = |name| AfXdpPort::open(PortId(0), name, XdpMode::Driver).unwrap();
    let [mut from, mut to] = lab.switch.run(|| ["s0", "s1"].map(open)).unwrap();
    let mut near = Kind::Packet.open(&lab.host, "h0");
    let mut far = Kind::Packet.open(&second, "h1");
    lab::wait_up(&mut *far);
    // More than the TX ring holds, so the loop must reclaim chunks on the way.
    let frames: Vec<Frame> = (0..3000u16).map(|i| frame(&[], 60, i as u8)).collect();
    assert_eq!(near.tx(&frames).sent, 3000);
    let mut passed = 0;
    while passed < 3000 {
        match from.pass_to(&mut to) {
            0 => break,
            more => passed += more,
        }
    }
    let got = receive(&mut *far, 3000).unwrap();
    assert!(
        got.iter()
            .map(Vec::as_slice)
            .eq(frames.iter().map(Frame::bytes))
    );
    assert_eq!(from.stats().rx_frames, to.stats().tx_frames);
}

#[test]
fn a_port_that_was_overrun_goes_on_as_before() {
    let Some(lab) = XDP.lab() else { return };
    let mut switch = XDP.open(&lab.switch, "s0");
    let mut host = Kind::Packet.open(&lab.host, "h0");
    let burst: Vec<Frame> = (0..64).map(|_| frame(&[], 60, 9)).collect();
    for _ in 0..3 {
        let before = switch.stats();
        for _ in 0..200 {
            host.tx(&burst);
        }
        let got = receive(&mut *switch, usize::MAX).unwrap().len() as u64;
        let after = switch.stats();
        // Frames of the kernels are counted, too.
        assert!(got <= after.rx_frames - before.rx_frames);
        // Each of the kernels' frames may have used a ring entry, so that a frame of the burst was
        // dropped.
        assert!(got >= 4096 - 64, "{got}");
        let full = |stats: port::PortStats| stats.rx_dropped.get(RxDrop::QueueFull);
        assert!(full(after) > full(before));
    }
    assert_eq!(host.tx(&[frame(&[], 60, 1)]).sent, 1);
    assert_eq!(receive(&mut *switch, 1).unwrap()[0][14], 1);
}

#[test]
#[ignore = "another test starts it in a process of its own"]
fn holder() {
    if std::env::var_os(HOLDER).is_none() {
        return;
    }
    let port = AfXdpPort::open(PortId(0), "s0", XdpMode::Driver).unwrap();
    println!("\nholding {}", port.name());
    std::thread::sleep(Duration::from_secs(60));
}

/// Starts a process that holds the switch's port open.
fn hold(netns: &Netns) -> Child {
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "holder", "--ignored", "--nocapture"])
            .env(HOLDER, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut child = netns.run(start).unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "holding s0"));
    child
}

#[test]
fn a_killed_process_leaves_nothing_and_a_living_one_is_respected() {
    let Some(lab) = XDP.lab() else { return };
    let mut child = hold(&lab.switch);
    let error = XDP.try_open(&lab.switch, "s0").err().unwrap();
    assert!(matches!(error, PortError::NoXdp { .. }));
    assert!(
        error
            .to_string()
            .starts_with("s0 cannot be used by AF_XDP: another program uses"),
        "{error}"
    );
    // SIGKILL, so no cleanup code of the process runs.
    child.kill().unwrap();
    child.wait().unwrap();
    let mut host = Kind::Packet.open(&lab.host, "h0");
    let socket = lab.switch.run(|| AfPacketPort::open(PortId(0), "s0"));
    let mut socket = socket.unwrap().unwrap();
    lab::wait_up(&mut *host);
    host.tx(&[frame(&[], 60, 1)]);
    assert_eq!(
        receive(&mut socket, 1).unwrap().len(),
        1,
        "the program is gone"
    );
    drop(socket);
    let mut switch = XDP.open(&lab.switch, "s0");
    lab::wait_up(&mut *switch);
    host.tx(&[frame(&[], 60, 2)]);
    assert_eq!(receive(&mut *switch, 1).unwrap()[0][14], 2);
}

#[test]
fn a_dropped_port_gives_the_interface_back() {
    let Some(lab) = XDP.lab() else { return };
    let address = [10, 7, 0, 1];
    lab.at_switch()
        .add_address("s0", address.into(), 24)
        .unwrap();
    lab.at_host()
        .add_address("h0", [10, 7, 0, 2].into(), 24)
        .unwrap();
    let bind = |netns: &Netns, at: [u8; 4]| {
        netns.run(|| UdpSocket::bind((std::net::IpAddr::from(at), 7000)))
    };
    let machine = bind(&lab.switch, address).unwrap().unwrap();
    machine
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let host = bind(&lab.host, [10, 7, 0, 2]).unwrap().unwrap();
    let reaches = || {
        let _ = host.send_to(b"x", (std::net::IpAddr::from(address), 7000));
        machine.recv(&mut [0; 9]).is_ok()
    };
    assert!(reaches());
    let port = XDP.open(&lab.switch, "s0");
    assert!(!reaches(), "the switch has the frames");
    drop(port);
    assert!(reaches());
}

/// Opens a port and returns the description of its driver.
fn how(netns: &Netns, name: &str, io: PortDriver) -> String {
    let opened = netns.run(|| open_interface(PortId(0), name, io, 1).map(|opened| opened.how));
    opened.unwrap().unwrap()
}

#[test]
fn the_best_way_is_chosen_and_says_why() {
    let Some(lab) = XDP.lab() else { return };
    let by_xdp = how(&lab.switch, "s0", PortDriver::Auto);
    assert!(
        by_xdp.starts_with("AF_XDP (driver veth, copying, 1 queue"),
        "{by_xdp}"
    );
    assert_eq!(
        how(&lab.switch, "s0", PortDriver::Packet),
        "AF_PACKET (as asked for)"
    );
    // The loopback interface's driver has no XDP.
    lab.at_switch().set_up("lo").unwrap();
    let generic = how(&lab.switch, "lo", PortDriver::Xdp);
    assert!(
        generic.starts_with("AF_XDP (driver unknown, in generic mode, 1 queue"),
        "{generic}"
    );
    let mut child = hold(&lab.switch);
    let taken = how(&lab.switch, "s0", PortDriver::Auto);
    assert!(
        taken.starts_with("AF_PACKET (no AF_XDP: another program uses XDP"),
        "{taken}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_interface_that_the_machine_uses_is_shared_with_it() {
    let Some(lab) = XDP.lab() else { return };
    let check = |name: &str, why: &str| {
        let expect = format!("AF_PACKET (AF_XDP would take the machine's own traffic: {why})");
        assert_eq!(how(&lab.switch, name, PortDriver::Auto), expect);
        let forced = how(&lab.switch, name, PortDriver::Xdp);
        assert!(forced.starts_with("AF_XDP (driver "), "{forced}");
    };
    let mut config = lab.at_switch();
    config.add_veth("a", "b", None).unwrap();
    config.set_up("a").unwrap();
    assert!(
        how(&lab.switch, "a", PortDriver::Auto).starts_with("AF_XDP"),
        "a peer is no use"
    );
    if has(config.add_macvlan("c", "a")) {
        check("a", "c is on top of it");
    }
    if has(config.add_bridge("bridge")) {
        config.join_bridge("b", "bridge").unwrap();
        check("b", "it is part of a bridge or bond");
    }
    config.add_address("s0", [192, 0, 2, 1].into(), 24).unwrap();
    check("s0", "it has the address 192.0.2.1");
}
