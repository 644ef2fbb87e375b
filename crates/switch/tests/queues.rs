//! Tests of the traffic manager as programs see it: rates, depths, times, priorities, full queues.

mod common;

use common::{code, device, dropped, ns, packet, sent, slow, v1model};
use exec::DropReason;
use packet::{Nanos, PortId};
use switch::{Change, Device};

/// Returns a device of which port 1 sends one packet per millisecond. Each packet stores its
/// waiting time in microseconds in `value`. It stores the queue depth on arrival (high half) and
/// departure (low half) in `mark`. `kind` is the priority.
fn waiting(depth: usize) -> Device {
    let ingress = code(
        "ingress",
        "sm.egress_spec = 9w0x1; sm.priority = hdr.h.kind[2:0];",
    );
    let egress = code(
        "egress",
        "hdr.h.value = sm.deq_timedelta; hdr.h.mark = sm.enq_qdepth[3:0] ++ sm.deq_qdepth[3:0];",
    );
    let mut device = device(&v1model("", &ingress, &egress));
    let change = Change::SetQueue(PortId(1), slow(1000, depth));
    device.apply(change).unwrap();
    device
}

fn receive(device: &mut Device, kind: u8, payload: u8) {
    device
        .receive(PortId(0), &packet(kind, &[payload]))
        .unwrap();
}

/// Returns for each sent packet: payload, waiting time in microseconds, depths, and departure time
/// in microseconds.
fn told(device: &mut Device) -> Vec<(u8, u32, u8, u64)> {
    let of = |bytes: &[u8]| u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
    sent(device)
        .into_iter()
        .map(|(_, bytes, time)| (bytes[6], of(&bytes), bytes[5], time / 1000))
        .collect()
}

#[test]
fn a_rate_spaces_packets_and_they_see_how_long_they_waited() {
    let mut device = waiting(64);
    for payload in 0..3 {
        receive(&mut device, 0, payload);
    }
    device.step(Nanos::ZERO);
    assert_eq!(told(&mut device), [(0, 0, 0x00, 0)]);
    assert_eq!(device.held(), 2);
    assert_eq!(device.next_time(), Some(Nanos::from_millis(1)));
    device.step(Nanos::from_millis(10));
    // The second packet found no packet waiting, the third found the second. Each left when the
    // port was free.
    assert_eq!(
        told(&mut device),
        [(1, 1000, 0x01, 1000), (2, 2000, 0x10, 2000)]
    );
    assert_eq!(device.held(), 0);
}

#[test]
fn the_higher_priority_leaves_first() {
    let mut device = waiting(64);
    for (kind, payload) in [(0, 10), (0, 11), (7, 12), (3, 13), (7, 14)] {
        receive(&mut device, kind, payload);
    }
    device.step(Nanos::ZERO);
    device.step(Nanos::from_millis(100));
    let order: Vec<u8> = told(&mut device).iter().map(|packet| packet.0).collect();
    assert_eq!(order, [10, 12, 14, 13, 11]);
}

#[test]
fn a_full_queue_drops_what_comes_last() {
    let mut device = waiting(2);
    for payload in 0..5 {
        receive(&mut device, 0, payload);
    }
    device.step(Nanos::ZERO);
    assert_eq!(dropped(&device, DropReason::TailDrop), 2);
    device.check_conservation().unwrap();
    device.step(Nanos::from_millis(100));
    let order: Vec<u8> = told(&mut device).iter().map(|packet| packet.0).collect();
    assert_eq!(order, [0, 1, 2]);
}

#[test]
fn bytes_count_where_the_rate_is_in_bits() {
    let ingress = code("ingress", "sm.egress_spec = 9w0x1;");
    let mut device = device(&v1model("", &ingress, &code("egress", "")));
    let config = switch::QueueConfig {
        depth: 64,
        bits_per_second: Some(8_000_000),
        packets_per_second: None,
        ..switch::QueueConfig::default()
    };
    device.apply(Change::SetQueue(PortId(1), config)).unwrap();
    for payload in [&[0; 94][..], &[0; 194], &[0; 4]] {
        device.receive(PortId(0), &packet(0, payload)).unwrap();
    }
    device.step(Nanos::from_secs(1));
    let times: Vec<u64> = sent(&mut device).iter().map(|packet| packet.2).collect();
    // All three arrived at one second. 100 bytes take 100 microseconds, 200 bytes take 200.
    let at = |micros: u64| 1_000_000_000 + micros * 1000;
    assert_eq!(times[..1], [at(0)]);
    device.step(Nanos::from_secs(2));
    let times: Vec<u64> = sent(&mut device).iter().map(|packet| packet.2).collect();
    assert_eq!(times, [at(100), at(300)]);
}

#[test]
fn what_left_a_queue_before_a_packet_came_ran_before_it() {
    // Egress counts and ingress reads the count. The packet received at 5 ms sees the packets that
    // left by then.
    let declarations =
        "extern r: register (bit<32>) size 1 initial (32w0x0) as bit<32>\nfield tmp: bit<32>";
    let ingress = code(
        "ingress",
        "sm.egress_spec = 9w0x1; if (hdr.h.kind == 8w0x9) { sm.egress_spec = 9w0x2; } call register.read on r (32w0x0, out {hdr.h.value});",
    );
    let egress = code(
        "egress",
        "call register.read on r (32w0x0, out {tmp}); call register.write on r (32w0x0, {tmp + 32w0x1});",
    );
    let mut device = device(&v1model(declarations, &ingress, &egress));
    device
        .apply(Change::SetQueue(PortId(1), slow(1000, 64)))
        .unwrap();
    for _ in 0..9 {
        receive(&mut device, 0, 0);
    }
    device.step(Nanos::ZERO);
    receive(&mut device, 9, 0);
    device.step(Nanos(4_500_000));
    let watcher = sent(&mut device)
        .into_iter()
        .find(|(port, ..)| *port == 2)
        .unwrap();
    assert_eq!(watcher.1[4], 5);
    assert_eq!(watcher.2, ns(4_500_000).0);
}

#[test]
fn what_leaves_a_queue_when_a_packet_comes_runs_before_it_however_many_steps_there_are() {
    // Egress counts and ingress reads the count. The second packet leaves at 1 ms, when the
    // observing packet arrives.
    let declarations =
        "extern r: register (bit<32>) size 1 initial (32w0x0) as bit<32>\nfield tmp: bit<32>";
    let ingress = code(
        "ingress",
        "sm.egress_spec = 9w0x1; if (hdr.h.kind == 8w0x9) { sm.egress_spec = 9w0x2; } call register.read on r (32w0x0, out {hdr.h.value});",
    );
    let egress = code(
        "egress",
        "call register.read on r (32w0x0, out {tmp}); call register.write on r (32w0x0, {tmp + 32w0x1});",
    );
    let program = v1model(declarations, &ingress, &egress);
    let run = |steps_before: bool, forwards: bool| {
        let mut device = device(&program);
        let slow = Change::SetQueue(PortId(1), slow(1000, 64));
        device.apply(slow).unwrap();
        receive(&mut device, 0, 0);
        receive(&mut device, 0, 0);
        device.step(Nanos::ZERO);
        let now = Nanos::from_millis(1);
        if steps_before {
            device.step(now);
        }
        let mut out = sent(&mut device);
        if forwards {
            let mut frames = [packet::Frame::from_bytes(&packet(9, &[0])).unwrap()];
            device.forward(&mut frames, now, |port, frame, time| {
                out.push((port.0, frame.bytes().to_vec(), time.0));
            });
        } else {
            receive(&mut device, 9, 0);
            device.step(now);
            out.extend(sent(&mut device));
        }
        out
    };
    let expected = run(true, false);
    assert_eq!(expected.last().map(|watcher| watcher.1[4]), Some(2));
    assert_eq!(run(false, false), expected);
    assert_eq!(run(false, true), expected);
    assert_eq!(run(true, true), expected);
}

#[test]
fn a_drop_at_a_port_is_counted_for_packets_that_left_only() {
    let mut device = waiting(64);
    device.count_drop(DropReason::NoSuchPort);
    device.check_conservation().unwrap();
    assert_eq!(dropped(&device, DropReason::NoSuchPort), 0);
    receive(&mut device, 0, 0);
    device.step(Nanos::ZERO);
    device.count_drop(DropReason::NoSuchPort);
    device.check_conservation().unwrap();
    assert_eq!(dropped(&device, DropReason::NoSuchPort), 1);
    assert_eq!(device.ledger().sent, 0);
}

#[test]
fn time_does_not_go_back() {
    let mut device = waiting(64);
    device.step(Nanos::from_secs(5));
    device.step(Nanos::from_secs(1));
    assert_eq!(device.now(), Nanos::from_secs(5));
}
