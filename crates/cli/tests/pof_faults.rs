//! Faults of `polyplane pof`: wrong controllers, storms of packets, and interfaces that go down.
//! Frames of the flows go on.

mod lab;

use std::io::Write;
use std::time::{Duration, Instant};

use lab::pof::{Bed, Script, TWO_FLOWS, ipv4};
use packet::Frame;
use pof::wire::{Body, Message, encode};
use port::Port;

/// A switch with two flows, and its address.
fn begin() -> Option<(Bed, String)> {
    let bed = Bed::start(&["--listen", "127.0.0.1:0", "--engine", "interp"])?;
    let address = bed.address();
    let mut script = Script::connect(&bed.cables, &address);
    script.make(TWO_FLOWS);
    drop(script);
    bed.wait_for("is gone");
    Some((bed, address))
}

/// Checks that the flows are there.
fn check(bed: &mut Bed) {
    let frame = ipv4([10, 0, 1, 1]);
    let arrived = bed.once(0, &frame);
    let is_frame = |(end, bytes): &(usize, Vec<u8>)| (*end, bytes) == (1, &frame);
    assert!(arrived.iter().any(is_frame), "{arrived:?}");
}

#[test]
fn nonsense_and_messages_that_break_off_end_their_connection_only() {
    let Some((mut bed, address)) = begin() else {
        return;
    };
    let mut good = Script::connect(&bed.cables, &address);
    let starts: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        &[0xFF; 5_000],
        // HELLO of another version.
        &[5, 0, 0, 8, 0, 0, 0, 1],
        // Something else than HELLO.
        &[4, 5, 0, 8, 0, 0, 0, 1],
    ];
    for start in starts {
        let script = Script::raw(&bed.cables, &address);
        (&script.stream).write_all(start).unwrap();
        assert!(script.closes(), "{start:?}");
        check(&mut bed);
    }
    // A controller dies in the middle of a message.
    let mut reader = pof::text::TextReader::new(pof::tables::Tables::new(Default::default()));
    let body = reader.read("flow add mm/0 index 9 match 96/16=1 do output 1");
    let whole = encode(&Message {
        xid: 1,
        body: body.unwrap().unwrap(),
    });
    for length in [1, 7, 8, 400, whole.len() - 1] {
        let mut script = Script::connect(&bed.cables, &address);
        script.stream.write_all(&whole[..length]).unwrap();
        drop(script);
        bed.wait_for("is gone");
    }
    // Messages that are no messages of the protocol, within a session: errors, and it goes on.
    for body in [
        vec![4, 99, 0, 8, 0, 0, 0, 3],
        vec![4, 15, 0, 9, 0, 0, 0, 3, 0],
    ] {
        good.stream.write_all(&body).unwrap();
        assert!(matches!(good.next().body, Body::Error(_)));
    }
    assert_eq!(good.ask(Body::BarrierRequest), Body::BarrierReply);
    let dump = bed.ctl(&address, &["dump"]).out;
    assert_eq!(dump.lines().count(), TWO_FLOWS.lines().count(), "{dump}");
    check(&mut bed);
    bed.stop();
}

#[test]
fn a_controller_that_floods_and_does_not_read_delays_no_frame_of_others() {
    let Some((mut bed, address)) = begin() else {
        return;
    };
    let script = Script::connect(&bed.cables, &address);
    let stream = script.stream.try_clone().unwrap();
    stream.set_nonblocking(true).unwrap();
    let request = encode(&Message {
        xid: 1,
        body: Body::GetConfigRequest,
    });
    let requests = request.repeat(1_000);
    let mut written = 0;
    let start = Instant::now();
    let mut other = Script::connect(&bed.cables, &address);
    while start.elapsed() < Duration::from_secs(2) {
        while let Ok(count) = (&stream).write(&requests) {
            written += count;
        }
        check(&mut bed);
        assert_eq!(other.ask(Body::BarrierRequest), Body::BarrierReply);
    }
    // The socket's buffers and those of the switch are full, so the controller has to wait.
    assert!(written > 100_000, "{written}");
    bed.stop();
}

#[test]
fn a_storm_of_packets_for_controllers_is_bounded_and_its_losses_are_counted() {
    let Some((mut bed, address)) = begin() else {
        return;
    };
    // This controller reads nothing, and the others go on.
    let deaf = Script::connect(&bed.cables, &address);
    let mut sent = 0;
    let mut frame = ipv4([10, 9, 9, 9]);
    frame.resize(1_400, 7);
    let storm: Vec<Frame> = (0..32)
        .map(|_| Frame::from_bytes(&frame).unwrap())
        .collect();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        bed.cables.ends[0].tx(&storm);
        sent += storm.len() as u64;
        std::thread::sleep(Duration::from_millis(2));
    }
    check(&mut bed);
    drop(deaf);
    bed.wait_for("is gone");
    check(&mut bed);
    // Without any controller they are counted, too.
    bed.once(0, &frame);
    let report = bed.stop();
    let lost = report["packet_ins_dropped"].as_u64().unwrap();
    assert!(lost > 0 && lost < sent, "{lost} of {sent}: {report}");
    assert!(
        report["packet_ins_without_controller"].as_u64().unwrap() > 0,
        "{report}"
    );
}

#[test]
fn an_interface_that_goes_down_or_away_is_reported_and_comes_back() {
    let Some((mut bed, address)) = begin() else {
        return;
    };
    let mut script = Script::connect(&bed.cables, &address);
    let mut rtnl = bed.cables.switch.rtnl().unwrap();
    let wait_for_state = |script: &mut Script, is_down: bool| {
        loop {
            if let Body::PortStatus(status) = script.next().body
                && (status.port.state & 1 != 0) == is_down
            {
                assert_eq!((status.port.id, status.reason), (1, 2));
                return;
            }
        }
    };
    rtnl.set_down("port1").unwrap();
    wait_for_state(&mut script, true);
    bed.wait_for("port 1: ");
    let frame = ipv4([10, 0, 1, 1]);
    assert_eq!(bed.once(0, &frame), []);
    rtnl.set_up("port1").unwrap();
    wait_for_state(&mut script, false);
    check(&mut bed);
    bed.cables.renew(1);
    bed.wait_for("is back");
    wait_for_state(&mut script, true);
    wait_for_state(&mut script, false);
    let start = Instant::now();
    while bed.once(0, &frame).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(10), "nothing passes");
    }
    bed.stop();
}

#[test]
fn a_controller_that_is_silent_is_asked_and_given_up() {
    let Some((bed, address)) = begin() else {
        return;
    };
    let mut silent = Script::connect(&bed.cables, &address);
    assert!(matches!(silent.next_of_all().body, Body::EchoRequest(_)));
    assert!(silent.closes());
    bed.wait_for("has been silent");
    bed.stop();
}

#[test]
fn a_port_that_a_controller_switches_off_takes_and_gives_nothing() {
    let Some((mut bed, address)) = begin() else {
        return;
    };
    let mut script = Script::connect(&bed.cables, &address);
    script.send(9, Body::GetConfigRequest);
    let mut status = loop {
        if let Body::PortStatus(status) = script.next().body
            && status.port.id == 1
        {
            break status;
        }
    };
    status.port.config = 1;
    script.send(1, Body::PortMod(status));
    assert_eq!(script.ask(Body::BarrierRequest), Body::BarrierReply);
    assert_eq!(bed.once(0, &ipv4([10, 0, 1, 1])), []);
    assert_eq!(bed.once(1, &ipv4([10, 0, 2, 1])), []);
    status.port.config = 0;
    script.send(1, Body::PortMod(status));
    assert_eq!(script.ask(Body::BarrierRequest), Body::BarrierReply);
    check(&mut bed);
    let report = bed.stop();
    assert_eq!(report["ports"][1]["refused"], 2, "{report}");
}
