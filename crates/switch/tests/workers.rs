//! Tests of workers: several threads forward for one device, and no shared state is lost.

mod common;

use std::thread;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use common::{code, device, packet, slow, v1model, value};
use exec::{DropReason, TraceEvent};
use ir::ExternId;
use packet::{Frame, Nanos, PortId};
use switch::{Change, Contexts, Device, Worker};

const BURSTS: u64 = 2_000;
const BURST: usize = 16;

fn frames(kind: u8, from: usize) -> Vec<Frame> {
    let frame = |number: usize| {
        let payload = (number as u32).to_be_bytes();
        Frame::from_bytes(&packet(kind, &payload)).unwrap()
    };
    (from..from + BURST).map(frame).collect()
}

/// Runs each worker on a thread with packets of its own kind (0 for the first). Returns the ports
/// and the numbers of the sent packets.
fn run(workers: Vec<Worker>) -> Vec<(u32, u32)> {
    let threads: Vec<_> = workers
        .into_iter()
        .enumerate()
        .map(|(kind, mut worker)| {
            thread::spawn(move || {
                let mut sent = Vec::new();
                for burst in 0..BURSTS {
                    let mut frames = frames(kind as u8, burst as usize * BURST);
                    let now = Nanos::from_micros(burst);
                    worker.forward(&mut frames, now, |port, frame, _| {
                        let bytes = frame.bytes();
                        let number = u32::from_be_bytes(bytes[6..10].try_into().unwrap());
                        sent.push((port.0, number));
                    });
                }
                sent
            })
        })
        .collect();
    let mut all = Vec::new();
    for thread in threads {
        all.extend(thread.join().unwrap());
    }
    all
}

fn forwarding(declarations: &str, body: &str) -> Device {
    let ingress = code("ingress", &format!("sm.egress_spec = 9w0x1; {body}"));
    device(&v1model(declarations, &ingress, &code("egress", "")))
}

#[test]
fn what_workers_count_adds_up() {
    let mut device = forwarding(
        "extern c: counter packets_and_bytes size 2",
        "call counter.count on c (24w0x0 ++ hdr.h.kind);",
    );
    let sent = run(device.workers(2));
    let each = BURSTS * BURST as u64;
    assert_eq!(sent.len() as u64, 2 * each);
    assert_eq!(device.ledger().received, 2 * each);
    assert_eq!(device.ledger().sent, 2 * each);
    device.check_conservation().unwrap();
    for index in 0..2 {
        let reading = device.read_counter(ExternId::new(0), index).unwrap();
        assert_eq!((reading.packets, reading.bytes), (each, 10 * each));
    }
}

#[test]
fn atomic_code_of_workers_does_not_mix() {
    let register =
        "extern r: register (bit<32>) size 1 initial (32w0x0) as bit<32>\nfield tmp: bit<32>";
    let mut device = forwarding(
        register,
        "atomic { call register.read on r (32w0x0, out {tmp}); call register.write on r (32w0x0, {tmp + 32w0x1}); }",
    );
    run(device.workers(2));
    let count = value(u128::from(2 * BURSTS * BURST as u64), 32);
    assert_eq!(device.read_register(ExternId::new(0), 0), Some(vec![count]));
}

#[test]
fn packets_of_a_shaped_port_keep_its_rate_and_none_is_lost() {
    let mut device = forwarding("", "");
    device
        .apply(Change::SetQueue(PortId(1), slow(1_000_000, 100_000)))
        .unwrap();
    let mut workers = device.workers(2);
    let mut times = Vec::new();
    for burst in 0..40u64 {
        for worker in &mut workers {
            let now = Nanos::from_micros(burst);
            worker.forward(&mut frames(0, 0), now, |_, _, time| times.push(time.0));
        }
        device.check_conservation().unwrap();
    }
    for worker in &mut workers {
        let end = Nanos::from_millis(10);
        worker.forward(&mut [], end, |_, _, time| times.push(time.0));
    }
    device.check_conservation().unwrap();
    assert_eq!(times.len(), 40 * 2 * BURST);
    assert!(
        times.windows(2).all(|pair| pair[1] == pair[0] + 1000),
        "{times:?}"
    );
}

#[test]
fn workers_see_what_was_published_from_their_next_burst_on() {
    let mut device = forwarding(
        "extern r: register (bit<32>) size 1 initial (32w0x0) as bit<32>",
        "",
    );
    let mut workers = device.workers(1);
    let next = v1model(
        "",
        &code("ingress", "sm.egress_spec = 9w0x2;"),
        &code("egress", ""),
    );
    let config = switch::DeviceConfig::default();
    device.replace(next, &interp::Interp, &config).unwrap();
    let mut ports = Vec::new();
    let mut forward = |workers: &mut Vec<Worker>| {
        ports.clear();
        workers[0].forward(&mut frames(0, 0)[..1], Nanos::ZERO, |port, _, _| {
            ports.push(port.0)
        });
        ports.clone()
    };
    assert_eq!(forward(&mut workers), [1]);
    device.publish();
    assert_eq!(forward(&mut workers), [2]);
}

#[test]
fn packets_are_conserved_by_reason_while_workers_drop_hand_over_and_strand_them() {
    // Kind 0 goes to port 1, which is slow and has a short queue. Kind 1 goes to port 2, which does
    // not exist. Kind 2 is dropped by the program.
    let mut device = forwarding(
        "",
        "if (hdr.h.kind == 8w0x1) { sm.egress_spec = 9w0x2; } if (hdr.h.kind == 8w0x2) { sm.egress_spec = 9w0x1ff; }",
    );
    device
        .apply(Change::SetQueue(PortId(1), slow(1000, 8)))
        .unwrap();
    let threads: Vec<_> = device
        .workers(3)
        .into_iter()
        .enumerate()
        .map(|(kind, mut worker)| {
            thread::spawn(move || {
                let mut left = [0; 3];
                for burst in 0..BURSTS {
                    let mut frames = frames(kind as u8, 0);
                    let mut stranded = 0;
                    worker.forward(&mut frames, Nanos(burst), |port, _, _| {
                        left[port.0 as usize] += 1;
                        stranded += u32::from(port == PortId(2));
                    });
                    (0..stranded).for_each(|_| worker.count_drop(DropReason::NoSuchPort));
                }
                worker.forward(&mut [], Nanos::ZERO, |port, _, _| {
                    left[port.0 as usize] += 1
                });
                (left, worker)
            })
        })
        .collect();
    let joined: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    device.check_conservation().unwrap();
    let each = BURSTS * BURST as u64;
    let ledger = device.ledger();
    assert_eq!(ledger.received, 3 * each);
    assert_eq!(ledger.dropped(DropReason::NoSuchPort), each);
    assert_eq!(ledger.dropped(DropReason::Ingress), each);
    let sent: u64 = joined.iter().map(|(left, _)| left[1]).sum();
    assert_eq!(ledger.sent, sent);
    assert_eq!(
        ledger.dropped(DropReason::TailDrop) + sent + device.held() as u64,
        each
    );
    assert!(ledger.dropped(DropReason::TailDrop) > 0 && device.held() > 0);
    let by_worker = device.worker_ledgers();
    let dropped = |worker: usize, reason| by_worker[worker].dropped(reason);
    assert_eq!(dropped(1, DropReason::NoSuchPort), each);
    assert_eq!(dropped(2, DropReason::Ingress), each);
    // Drops may also be reported to the device itself.
    device.count_drop(DropReason::NoSuchPort);
    device.check_conservation().unwrap();
    assert_eq!(
        device.ledger().dropped(DropReason::NoSuchPort),
        each + u64::from(sent > 0)
    );
    drop(joined);
    device.check_conservation().unwrap();
}

#[test]
fn a_traced_packet_of_a_worker_tells_each_step_and_goes_where_the_others_go() {
    let mut device = forwarding(
        "extern c: counter packets_and_bytes size 2",
        "call counter.count on c (24w0x0 ++ hdr.h.kind); hdr.h.mark = 8w0x7;",
    );
    let mut worker = device.workers(1).remove(0);
    let mut all = frames(1, 0);
    let mut left = Vec::new();
    let mut events: Vec<TraceEvent> = Vec::new();
    worker.forward(&mut all[..4], Nanos(5), |port, frame, _| {
        left.push((port.0, frame.bytes().to_vec()));
    });
    worker.trace(&mut all[4], Nanos(5), &mut events, |port, frame, _| {
        left.push((port.0, frame.bytes().to_vec()));
    });
    worker.forward(&mut all[5..], Nanos(5), |port, frame, _| {
        left.push((port.0, frame.bytes().to_vec()));
    });
    let expected = frames(1, 0).into_iter().map(|mut frame| {
        frame.bytes_mut()[5] = 7;
        (1, frame.bytes().to_vec())
    });
    assert!(left.into_iter().eq(expected));
    assert_eq!(
        device.read_counter(ExternId::new(0), 1).unwrap().packets,
        BURST as u64
    );
    assert!(matches!(&events[0], TraceEvent::Received { port: 0, bytes } if bytes[0] == 1));
    assert!(matches!(events.last(), Some(TraceEvent::Sent { port: 1, bytes }) if bytes[5] == 7));
    assert!(events.len() > 5, "{events:?}");
}

#[test]
fn a_worker_for_whom_a_packet_is_left_is_woken_and_knows_of_it() {
    let mut device = forwarding("", "");
    let config = slow(1_000_000, 100);
    device.apply(Change::SetQueue(PortId(1), config)).unwrap();
    let mut workers = device.workers(2);
    let woken = Arc::new(AtomicU32::new(0));
    let ring = Arc::clone(&woken);
    workers[1].wake_by(move || {
        ring.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(workers[1].next_time(), None);
    workers[0].forward(&mut frames(0, 0), Nanos(9), |_, _, _| {});
    assert_eq!(woken.load(Ordering::Relaxed), BURST as u32);
    assert!(workers[1].next_time().is_some());
    workers[1].forward(&mut [], Nanos(9), |_, _, _| {});
    assert_eq!(workers[1].next_time(), Some(Nanos(1009)));
    device.check_conservation().unwrap();
}

/// Returns a device that recirculates each packet as many times as its kind. Packets of an odd kind
/// wait in a slow queue before each round. Every round increments a register and stores its value
/// in the packet.
fn recirculating() -> Device {
    let declarations =
        "extern r: register (bit<32>) size 1 initial (32w0x0) as bit<32>\nfield tmp: bit<32>";
    let ingress =
        "sm.egress_spec = 9w0x1; if ((hdr.h.kind & 8w0x1) == 8w0x1) { sm.egress_spec = 9w0x2; }";
    let egress = "call register.read on r (32w0x0, out {tmp}); call register.write on r (32w0x0, {tmp + 32w0x1}); hdr.h.value = tmp; \
        if (hdr.h.mark < hdr.h.kind) { hdr.h.mark = hdr.h.mark + 8w0x1; call recirculate (=0); }";
    let code = [code("ingress", ingress), code("egress", egress)];
    let mut device = device(&v1model(declarations, &code[0], &code[1]));
    let config = slow(1_000_000, 100_000);
    device.apply(Change::SetQueue(PortId(2), config)).unwrap();
    device
}

/// Gives bursts of packets to a worker, in calls of `calls_of` frames and `passes` rounds, until
/// nothing is left to do. Returns the sent packets in order, with their ports and times, and the
/// value of the register.
fn run_by_turns(calls_of: usize, passes: u32) -> (Vec<(u32, Vec<u8>, u64)>, u64) {
    let mut device = recirculating();
    let mut worker = device.workers(1).remove(0);
    let mut contexts = Contexts::default();
    let mut left = Vec::new();
    let mut now = 0;
    let mut call = |frames: &mut [Frame], now| {
        worker.forward_among(
            &mut contexts,
            frames,
            Nanos(now),
            passes,
            |port: PortId, frame: &mut Frame, time: Nanos| {
                left.push((port.0, frame.bytes().to_vec(), time.0));
            },
        );
        worker.tell();
        device.check_conservation().unwrap();
        worker.next_time()
    };
    for burst in 0..40u8 {
        now += 700;
        let kinds = [
            burst % 4,
            burst % 3,
            0,
            200 * u8::from(burst == 7),
            burst % 7,
        ];
        let frame = |kind: &u8| Frame::from_bytes(&packet(*kind, &[burst])).unwrap();
        let mut frames: Vec<_> = kinds.iter().map(frame).collect();
        for part in frames.chunks_mut(calls_of) {
            call(part, now);
        }
    }
    while let Some(next) = call(&mut [], now) {
        now = now.max(next.0);
    }
    assert_eq!(device.ledger().sent, left.len() as u64);
    let count = device.read_register(ExternId::new(0), 0).unwrap();
    (left, count[0].to_u64().unwrap())
}

#[test]
fn passes_in_turns_change_neither_packets_nor_their_order_nor_their_times() {
    let at_once = run_by_turns(5, u32::MAX);
    assert_eq!(at_once.0.len(), 40 * 5);
    for calls_of in [1, 2, 5] {
        for passes in [1, 2, 13, u32::MAX] {
            let by_turns = run_by_turns(calls_of, passes);
            assert_eq!(by_turns, at_once, "{calls_of} at a time, {passes} passes");
        }
    }
}

#[test]
fn packets_behind_one_that_starts_over_wait_and_are_dropped_when_there_are_too_many() {
    let mut device = recirculating();
    let mut worker = device.workers(1).remove(0);
    let mut contexts = Contexts::default();
    let mut frames = vec![Frame::from_bytes(&packet(100, &[])).unwrap()];
    let mut left = 0;
    let mut call = |frames: &mut [Frame], passes| {
        let count = |_: PortId, _: &mut Frame, _: Nanos| left += 1;
        worker.forward_among(&mut contexts, frames, Nanos(1), passes, count);
        worker.tell();
        device.check_conservation().unwrap();
        worker.is_behind()
    };
    frames.extend((0..1100).map(|_| Frame::from_bytes(&packet(0, &[])).unwrap()));
    assert!(call(&mut frames, 99));
    assert_eq!(device.held(), 1 + 1024);
    assert_eq!(device.ledger().dropped(DropReason::TailDrop), 1100 - 1024);
    assert!(!call(&mut [], 1 + 1024));
    assert_eq!(left, 1 + 1024);
}
