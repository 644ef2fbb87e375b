//! Tests of ports on interfaces of a real kernel: frames in wire format, links that go down,
//! errors.

mod lab;

use lab::{KernelCounts, Kind, Lab, clock, frame, kernel_counts, next_error, receive, wait_up};
use packet::{Batch, Frame, PortId};
use port::{EchoSocket, LinkState, Netns, Port, PortError, RxDrop, TapPort, TxDrop};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

/// Instantiates each of these tests for each kind of port.
macro_rules! on_each_kind {
    ($($test:ident,)*) => {
        mod af_packet {
            on_each_kind!(@ super::Kind::Packet, $($test,)*);
        }
        mod af_xdp {
            on_each_kind!(@ super::Kind::Xdp(port::XdpMode::Driver), $($test,)*);
        }
        mod af_xdp_generic {
            on_each_kind!(@ super::Kind::Xdp(port::XdpMode::Generic), $($test,)*);
        }
    };
    (@ $kind:expr, $($test:ident,)*) => {$(
        #[test]
        fn $test() {
            if let Some(lab) = $kind.lab() {
                super::$test(&lab, $kind);
            }
        }
    )*};
}

on_each_kind! {
    tags_are_where_they_were_on_the_wire,
    frames_of_any_length_that_the_link_carries_are_whole,
    more_frames_than_a_system_call_takes_arrive_in_order,
    what_the_port_itself_sends_does_not_come_back,
    received_frames_carry_their_port_and_time,
    frames_that_the_link_does_not_carry_are_dropped_by_name,
    frames_that_nobody_fetches_are_counted,
    a_link_that_goes_down_is_told_once_and_carries_again_when_it_is_up,
    a_link_without_carrier_is_down_and_swallows_nothing,
    a_link_that_stays_down_for_another_cause_is_told_again,
    an_interface_that_is_down_when_opened_works_when_it_is_up,
    a_removed_interface_is_gone,
    frames_that_are_too_long_for_the_far_end_are_dropped_by_name,
    what_is_sent_and_dropped_is_what_the_kernel_counts,
    frames_for_a_far_end_that_has_just_gone_down_are_not_counted_as_sent,
    frames_for_a_link_that_has_just_gone_down_do_not_leave_when_it_is_up_again,
    frames_for_an_interface_that_has_just_been_removed_are_dropped,
    an_interface_that_does_not_exist_is_answered_with_those_that_do,
}

fn packet_port(netns: &Netns, name: &str) -> Box<dyn Port> {
    Kind::Packet.open(netns, name)
}

/// Checks that `frames` arrive unchanged, in both directions.
fn check_carried(lab: &Lab, kind: Kind, frames: &[Frame]) {
    let (mut switch, mut host) = (kind.open(&lab.switch, "s0"), packet_port(&lab.host, "h0"));
    assert_eq!(host.tx(frames).sent, frames.len() as u64);
    assert_eq!(receive(&mut *switch, frames.len()).unwrap(), bytes(frames));
    assert_eq!(switch.tx(frames).sent, frames.len() as u64);
    assert_eq!(receive(&mut *host, frames.len()).unwrap(), bytes(frames));
    assert_eq!(switch.stats().rx_dropped.total(), 0);
}

fn bytes(frames: &[Frame]) -> Vec<Vec<u8>> {
    frames.iter().map(|frame| frame.bytes().to_vec()).collect()
}

fn tags_are_where_they_were_on_the_wire(lab: &Lab, kind: Kind) {
    let frames = [
        frame(&[], 60, 0),
        frame(&[[0x81, 0, 0x20, 0x05]], 64, 1),
        frame(&[[0x81, 0, 0, 0]], 64, 2),
        frame(&[[0x88, 0xa8, 0x0f, 0xff], [0x81, 0, 0, 7]], 1514, 3),
        frame(&[[0x81, 0, 0, 6], [0x81, 0, 0, 7], [0x81, 0, 0, 8]], 100, 4),
    ];
    check_carried(lab, kind, &frames);
}

fn frames_of_any_length_that_the_link_carries_are_whole(lab: &Lab, kind: Kind) {
    lab.at_switch().set_mtu("s0", 65535).unwrap();
    lab.at_host().set_mtu("h0", 65535).unwrap();
    let mut frames: Vec<Frame> = [15, 59, 1514, 9014, 9216, 65531]
        .map(|len| frame(&[], len, 1))
        .into();
    frames.push(frame(&[[0x81, 0, 0, 1]], 65535, 2));
    check_carried(lab, kind, &frames);
}

fn more_frames_than_a_system_call_takes_arrive_in_order(lab: &Lab, kind: Kind) {
    let frames: Vec<Frame> = (0..200).map(|i| frame(&[], 60, i)).collect();
    check_carried(lab, kind, &frames);
}

fn what_the_port_itself_sends_does_not_come_back(lab: &Lab, kind: Kind) {
    let (mut switch, mut host) = (kind.open(&lab.switch, "s0"), packet_port(&lab.host, "h0"));
    assert_eq!(switch.tx(&[frame(&[], 60, 1)]).sent, 1);
    assert_eq!(receive(&mut *host, 1).unwrap().len(), 1);
    host.tx(&[frame(&[], 60, 2)]);
    let got = receive(&mut *switch, 1).unwrap();
    assert_eq!(got[0][14], 2, "the first that arrives is the other end's");
}

fn received_frames_carry_their_port_and_time(lab: &Lab, kind: Kind) {
    let (mut switch, mut host) = (kind.open(&lab.switch, "s0"), packet_port(&lab.host, "h0"));
    host.tx(&[frame(&[], 60, 1)]);
    let now = clock();
    let mut batch = Batch::default();
    while switch.rx(&mut batch, now()).unwrap() == 0 {}
    assert_eq!(batch.frames()[0].ingress, PortId(3));
    assert!(batch.frames()[0].arrival <= now());
    assert!(switch.poll_fd().is_some());
}

fn frames_that_the_link_does_not_carry_are_dropped_by_name(lab: &Lab, kind: Kind) {
    let mut port = kind.open(&lab.switch, "s0");
    let frames = [
        frame(&[], 60, 0),
        frame(&[], 13, 0),
        frame(&[], 9000, 0),
        frame(&[], 60, 0),
    ];
    let outcome = port.tx(&frames);
    assert_eq!(outcome.sent, 2);
    assert_eq!(outcome.dropped.get(TxDrop::TooShort), 1);
    assert_eq!(outcome.dropped.get(TxDrop::TooLong), 1);
    assert_eq!(port.stats().tx_dropped, outcome.dropped);
}

fn frames_that_nobody_fetches_are_counted(lab: &Lab, kind: Kind) {
    let (mut switch, mut host) = (kind.open(&lab.switch, "s0"), packet_port(&lab.host, "h0"));
    let burst: Vec<Frame> = (0..64).map(|_| frame(&[], 1514, 9)).collect();
    let mut sent = 0;
    while sent < 60_000 {
        sent += host.tx(&burst).sent;
    }
    let mut got = 0;
    loop {
        let new = receive(&mut *switch, 1).unwrap().len() as u64;
        got += new;
        if new == 0 {
            break;
        }
    }
    let missed = switch.stats().rx_dropped.get(RxDrop::QueueFull);
    assert!(missed > 0);
    assert!(
        got + missed >= sent,
        "{got} received and {missed} dropped of {sent}"
    );
}

fn a_link_that_goes_down_is_told_once_and_carries_again_when_it_is_up(lab: &Lab, kind: Kind) {
    let (mut switch, mut host) = (kind.open(&lab.switch, "s0"), packet_port(&lab.host, "h0"));
    host.tx(&[frame(&[], 60, 1)]);
    lab.at_switch().set_down("s0").unwrap();
    assert_eq!(
        receive(&mut *switch, 1).unwrap().len(),
        1,
        "what came before is delivered"
    );
    let error = next_error(&mut *switch);
    assert!(
        matches!(error, PortError::Down { .. }) && error.is_recoverable(),
        "{error}"
    );
    assert_eq!(
        error.to_string(),
        "s0 is down: its frames are missed until it comes up ('ip link set s0 up')"
    );
    assert_eq!(switch.link(), LinkState::Down);
    assert_eq!(
        switch
            .tx(&[frame(&[], 60, 1)])
            .dropped
            .get(TxDrop::LinkDown),
        1
    );
    let mut batch = Batch::default();
    let now = clock();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(120) {
        assert!(switch.rx(&mut batch, now()).is_ok(), "told once");
    }
    lab.at_switch().set_up("s0").unwrap();
    assert_eq!(receive(&mut *host, 0).unwrap().len(), 0);
    wait_up(&mut *switch);
    wait_up(&mut *host);
    host.tx(&[frame(&[], 60, 2)]);
    assert_eq!(receive(&mut *switch, 1).unwrap()[0][14], 2);
    assert_eq!(switch.tx(&[frame(&[], 60, 3)]).sent, 1);
}

fn a_link_without_carrier_is_down_and_swallows_nothing(lab: &Lab, kind: Kind) {
    let mut switch = kind.open(&lab.switch, "s0");
    lab.at_host().set_down("h0").unwrap();
    let error = next_error(&mut *switch);
    assert!(
        matches!(error, PortError::NoCarrier { .. }) && error.is_recoverable(),
        "{error}"
    );
    assert_eq!(
        error.to_string(),
        "s0 is up but has no carrier, because its other end is down: its frames are missed until \
         that end comes up ('ip link set PEER up' there; of a veth pair, 'ip link show s0' names \
         the peer after '@')"
    );
    let outcome = switch.tx(&[frame(&[], 60, 1)]);
    assert_eq!(
        (outcome.sent, outcome.dropped.get(TxDrop::LinkDown)),
        (0, 1)
    );
}

fn a_link_that_stays_down_for_another_cause_is_told_again(lab: &Lab, kind: Kind) {
    let mut switch = kind.open(&lab.switch, "s0");
    lab.at_switch().set_down("s0").unwrap();
    assert!(matches!(next_error(&mut *switch), PortError::Down { .. }));
    lab.at_host().set_down("h0").unwrap();
    lab.at_switch().set_up("s0").unwrap();
    let error = next_error(&mut *switch);
    assert!(matches!(error, PortError::NoCarrier { .. }), "{error}");
}

fn an_interface_that_is_down_when_opened_works_when_it_is_up(lab: &Lab, kind: Kind) {
    lab.at_switch().set_down("s0").unwrap();
    let mut switch = kind.open(&lab.switch, "s0");
    assert!(matches!(next_error(&mut *switch), PortError::Down { .. }));
    lab.at_switch().set_up("s0").unwrap();
    let mut host = packet_port(&lab.host, "h0");
    wait_up(&mut *switch);
    wait_up(&mut *host);
    host.tx(&[frame(&[], 60, 5)]);
    assert_eq!(receive(&mut *switch, 1).unwrap()[0][14], 5);
}

fn a_removed_interface_is_gone(lab: &Lab, kind: Kind) {
    let mut switch = kind.open(&lab.switch, "s0");
    lab.at_switch().delete_link("s0").unwrap();
    let error = next_error(&mut *switch);
    assert!(
        matches!(error, PortError::Gone { .. }) && !error.is_recoverable(),
        "{error}"
    );
    assert!(error.to_string().starts_with("s0 is gone"), "{error}");
    assert_eq!(
        switch
            .tx(&[frame(&[], 60, 1)])
            .dropped
            .get(TxDrop::LinkDown),
        1
    );
}

/// Opens the switch's port and a port at the host, in namespaces where kernels send nothing by
/// themselves.
fn both_ends(lab: &Lab, kind: Kind) -> [Box<dyn Port>; 2] {
    lab::be_silent(&lab.switch);
    lab::be_silent(&lab.host);
    let mut ends = [kind.open(&lab.switch, "s0"), packet_port(&lab.host, "h0")];
    ends.iter_mut().for_each(|port| wait_up(&mut **port));
    ends
}

fn frames_that_are_too_long_for_the_far_end_are_dropped_by_name(lab: &Lab, kind: Kind) {
    lab.at_switch().set_mtu("s0", 3000).unwrap();
    let [mut switch, mut host] = both_ends(lab, kind);
    let before = kernel_counts(&lab.switch, "s0");
    let frames: Vec<Frame> = (0..20)
        .flat_map(|n| [frame(&[], 2500, n), frame(&[], 60, n)])
        .collect();
    let outcome = switch.tx(&frames);
    assert_eq!(outcome.sent, 20);
    assert_eq!(outcome.dropped.get(TxDrop::TooLong), 20);
    let stats = switch.stats();
    assert_eq!((stats.tx_frames, stats.tx_bytes), (20, 20 * 60));
    assert_eq!(stats.tx_dropped, outcome.dropped);
    let short: Vec<Vec<u8>> = (0..20)
        .map(|n| frame(&[], 60, n).bytes().to_vec())
        .collect();
    assert_eq!(receive(&mut *host, 20).unwrap(), short);
    let after = kernel_counts(&lab.switch, "s0");
    let more = (after.sent - before.sent, after.dropped - before.dropped);
    assert_eq!(more, (20, 20), "each was tried once");
}

fn what_is_sent_and_dropped_is_what_the_kernel_counts(lab: &Lab, kind: Kind) {
    lab.at_switch().set_mtu("s0", 3000).unwrap();
    let [mut switch, _host] = both_ends(lab, kind);
    let before = kernel_counts(&lab.switch, "s0");
    let mut seed = 7u32;
    let mut asked = 0;
    for _ in 0..200 {
        let mut random = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % below
        };
        let burst: Vec<Frame> = (0..random(150) + 1)
            .map(|n| {
                frame(
                    &[],
                    [60, 900, 1514, 1519, 2500][random(5) as usize % 5],
                    n as u8,
                )
            })
            .collect();
        asked += burst.len() as u64;
        switch.tx(&burst);
    }
    let stats = switch.stats();
    let after = kernel_counts(&lab.switch, "s0");
    let ours = KernelCounts {
        sent: stats.tx_frames,
        dropped: stats.tx_dropped.total(),
    };
    let kernels = KernelCounts {
        sent: after.sent - before.sent,
        dropped: after.dropped - before.dropped,
    };
    assert_eq!(ours, kernels, "{:?}", stats.tx_dropped);
    assert_eq!(ours.sent + ours.dropped, asked);
    assert!(ours.sent > 0 && ours.dropped > 0, "{ours:?}");
}

fn frames_for_a_far_end_that_has_just_gone_down_are_not_counted_as_sent(lab: &Lab, kind: Kind) {
    let [mut switch, host] = both_ends(lab, kind);
    drop(host);
    lab.at_host().set_down("h0").unwrap();
    // The port has not queried its link since.
    let frames: Vec<Frame> = (0..70).map(|n| frame(&[], 60, n)).collect();
    let outcome = switch.tx(&frames);
    assert_eq!(outcome.sent, 0);
    assert_eq!(outcome.dropped.get(TxDrop::LinkDown), 70);
    assert_eq!(switch.stats().tx_dropped, outcome.dropped);
}

fn frames_for_a_link_that_has_just_gone_down_do_not_leave_when_it_is_up_again(
    lab: &Lab,
    kind: Kind,
) {
    let [mut switch, mut host] = both_ends(lab, kind);
    let frames: Vec<Frame> = (0..70).map(|n| frame(&[], 60, n)).collect();
    for _ in 0..3 {
        lab.at_switch().set_down("s0").unwrap();
        let outcome = switch.tx(&frames);
        assert_eq!(outcome.sent, 0);
        assert_eq!(outcome.dropped.get(TxDrop::LinkDown), 70);
        lab.at_switch().set_up("s0").unwrap();
        wait_up(&mut *switch);
        wait_up(&mut *host);
        assert_eq!(switch.tx(&frames[..5]).sent, 5);
        let got = receive(&mut *host, 5).unwrap();
        assert_eq!(got, bytes(&frames[..5]));
    }
    assert_eq!(switch.stats().tx_frames, 15);
}

fn frames_for_an_interface_that_has_just_been_removed_are_dropped(lab: &Lab, kind: Kind) {
    let [mut switch, host] = both_ends(lab, kind);
    drop(host);
    lab.at_switch().delete_link("s0").unwrap();
    let frames: Vec<Frame> = (0..70).map(|n| frame(&[], 60, n)).collect();
    let outcome = switch.tx(&frames);
    assert_eq!(outcome.sent, 0);
    assert_eq!(outcome.dropped.get(TxDrop::LinkDown), 70);
    assert_eq!(switch.stats().tx_dropped, outcome.dropped);
}

fn an_interface_that_does_not_exist_is_answered_with_those_that_do(lab: &Lab, kind: Kind) {
    let open = |name: &str| kind.try_open(&lab.switch, name);
    let error = open("s1").err().unwrap().to_string();
    assert_eq!(
        error,
        "there is no network interface \"s1\"; did you mean \"s0\"? (there is: lo, s0)"
    );
    assert!(matches!(
        open("").err().unwrap(),
        PortError::NoSuchInterface { .. }
    ));
    assert!(matches!(
        open(&"x".repeat(99)).err().unwrap(),
        PortError::NoSuchInterface { .. }
    ));
}

#[test]
fn a_tap_device_carries_frames_to_and_from_the_kernel() {
    let Some(lab) = Lab::new() else { return };
    let mut tap = lab
        .switch
        .run(|| TapPort::open(PortId(7), "t0"))
        .unwrap()
        .unwrap();
    let mut config = lab.at_switch();
    let peer = Ipv4Addr::new(10, 9, 0, 2);
    config
        .set_hardware_address("t0", [2, 0, 0, 0, 0, 1])
        .unwrap();
    config
        .add_address("t0", Ipv4Addr::new(10, 9, 0, 1).into(), 24)
        .unwrap();
    config
        .set_neighbour("t0", peer.into(), [2, 0, 0, 0, 0, 2])
        .unwrap();
    let socket = lab
        .switch
        .run(|| UdpSocket::bind("10.9.0.1:4000"))
        .unwrap()
        .unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    socket.send_to(b"hello", (peer, 5000)).unwrap();
    let mut reply = next_udp(&mut tap);
    assert_eq!(&reply[..12], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    assert_eq!(&reply[42..], b"hello");
    assert_ne!(
        reply[40..42],
        [0, 0],
        "the kernel has completed the checksum"
    );
    // Addresses and ports are swapped in pairs, so all checksums stay valid.
    for (a, b, n) in [(0, 6, 6), (26, 30, 4), (34, 36, 2)] {
        for i in 0..n {
            reply.swap(a + i, b + i);
        }
    }
    assert_eq!(tap.tx(&[Frame::from_bytes(&reply).unwrap()]).sent, 1);
    let mut got = [0; 100];
    let (len, from) = socket.recv_from(&mut got).unwrap();
    assert_eq!((&got[..len], from), (&b"hello"[..], (peer, 5000).into()));
    assert_eq!(
        tap.tx(&[frame(&[], 10, 0)]).dropped.get(TxDrop::TooShort),
        1
    );
}

/// Returns the next UDP frame over IPv4.
fn next_udp(port: &mut dyn Port) -> Vec<u8> {
    let now = clock();
    let mut batch = Batch::default();
    while now().as_secs() < 2 {
        batch.clear();
        port.rx(&mut batch, now()).unwrap();
        let is_udp = |b: &&[u8]| b.len() > 42 && b[12..14] == [8, 0] && b[23] == 17;
        if let Some(bytes) = batch.frames().iter().map(Frame::bytes).find(is_udp) {
            return bytes.to_vec();
        }
    }
    panic!("no UDP frame came");
}

#[test]
fn a_tap_device_that_goes_down_or_away_says_so() {
    let Some(lab) = Lab::new() else { return };
    let mut tap = lab
        .switch
        .run(|| TapPort::open(PortId(7), "t0"))
        .unwrap()
        .unwrap();
    lab.at_switch().set_down("t0").unwrap();
    assert!(matches!(next_error(&mut tap), PortError::Down { .. }));
    assert_eq!(
        tap.tx(&[frame(&[], 60, 0)]).dropped.get(TxDrop::LinkDown),
        1
    );
    lab.at_switch().set_up("t0").unwrap();
    wait_up(&mut tap);
    assert_eq!(tap.tx(&[frame(&[], 60, 0)]).sent, 1);
    lab.at_switch().delete_link("t0").unwrap();
    assert!(matches!(next_error(&mut tap), PortError::Gone { .. }));
}

#[test]
fn a_tap_name_that_is_taken_is_refused() {
    let Some(lab) = Lab::new() else { return };
    let open = |name: &str| lab.switch.run(|| TapPort::open(PortId(0), name)).unwrap();
    let _first = open("t0").unwrap();
    for name in ["t0", "s0"] {
        let error = open(name).err().unwrap();
        assert!(
            matches!(error, PortError::TapUnavailable { .. }),
            "{name}: {error}"
        );
    }
}

#[test]
fn a_host_answers_an_echo_request_and_a_silent_one_is_noticed() {
    let Some(lab) = Lab::new() else { return };
    let [asker, asked, silent] = [1, 2, 3].map(|n| Ipv4Addr::new(192, 0, 2, n));
    lab.at_switch().add_address("s0", asker.into(), 24).unwrap();
    lab.at_host().add_address("h0", asked.into(), 24).unwrap();
    let ask = |host, payload: &[u8]| {
        lab.switch
            .run(|| {
                let socket = EchoSocket::open(host, 7).unwrap();
                socket.request(1, payload).unwrap();
                socket.wait_reply(1, payload, Duration::from_millis(500))
            })
            .unwrap()
    };
    assert!(ask(asked, b"odd").unwrap());
    assert!(ask(asked, &[9; 1400]).unwrap());
    // No host has this address: there is no reply, or the kernel reports it as unreachable.
    assert!(!ask(silent, b"").unwrap_or(false));
}
