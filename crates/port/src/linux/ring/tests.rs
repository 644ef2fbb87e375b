//! Tests of ring ports: ends that meet, part, sleep, and write what cannot be.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use support::rng::Rng;

use super::*;
use crate::linux::ring::lane::LANE_WORDS;
use crate::linux::sys::shared::{SharedWords, send_with_fd};
use crate::{Poller, TxDrop};

/// Returns a name that no other test has.
fn name(test: &str) -> String {
    format!("test.{}.{test}", std::process::id())
}

fn open(id: u32, name: &str) -> RingPort {
    RingPort::open(PortId(id), name).expect("a ring needs nothing")
}

/// A clock of tests that advances with each look.
struct Time(Nanos);

impl Time {
    fn next(&mut self) -> Nanos {
        self.0 += Nanos::from_millis(20);
        self.0
    }
}

/// Lets both ports look for each other. Errors are those of an earlier end.
fn look(ports: &mut [&mut RingPort], time: &mut Time) {
    for _ in 0..20 {
        for port in &mut *ports {
            let _ = port.rx(&mut Batch::default(), time.next());
        }
    }
}

fn frames(count: u8) -> Vec<Frame> {
    let frame = |at: u8| Frame::from_bytes(&[at; 60]).expect("a short frame");
    (0..count).map(frame).collect()
}

/// Checks that frames go both ways, and only the frames sent now.
fn check_up(one: &mut RingPort, other: &mut RingPort, time: &mut Time) {
    assert_eq!((one.link(), other.link()), (LinkState::Up, LinkState::Up));
    for round in 1..5 {
        assert_eq!(one.tx(&frames(round)).sent, u64::from(round));
        assert_eq!(other.tx(&frames(1)).sent, 1);
        let mut batch = Batch::default();
        assert_eq!(
            other.rx(&mut batch, time.next()).unwrap(),
            usize::from(round)
        );
        assert_eq!(batch.frames()[0].bytes(), [0; 60]);
        assert_eq!(batch.frames()[0].ingress, other.id());
        assert_eq!(one.rx(&mut Batch::default(), time.next()).unwrap(), 1);
    }
}

#[test]
fn ends_find_each_other_by_name_and_again_after_either_was_closed() {
    let (name, mut time) = (name("again"), Time(Nanos::ZERO));
    let mut one = open(1, &name);
    assert_eq!(one.link(), LinkState::Down);
    let dropped = one.tx(&frames(2)).dropped;
    assert_eq!(dropped.get(TxDrop::LinkDown), 2);
    let mut other = open(2, &name);
    look(&mut [&mut one, &mut other], &mut time);
    check_up(&mut one, &mut other, &mut time);
    // The first one listens, the second one connected. Each is closed in turn.
    for closes_second in [true, false, false, true] {
        if !closes_second {
            std::mem::swap(&mut one, &mut other);
        }
        other.tx(&frames(3));
        drop(other);
        let mut batch = Batch::default();
        let count = one.rx(&mut batch, time.next()).unwrap();
        assert_eq!(count, 3, "frames sent before the end");
        let errors = (0..5).filter_map(|_| one.rx(&mut Batch::default(), time.next()).err());
        let errors: Vec<PortError> = errors.collect();
        assert!(
            matches!(errors[..], [PortError::RingEnded { .. }]) && errors[0].is_recoverable(),
            "{errors:?}"
        );
        assert_eq!(one.link(), LinkState::Down);
        other = open(3, &name);
        look(&mut [&mut one, &mut other], &mut time);
        check_up(&mut one, &mut other, &mut time);
    }
}

#[test]
fn an_end_that_is_gone_gets_no_message_while_its_own_are_taken() {
    let (mut one, mut other) = RingLink::pair().unwrap();
    other.send(b"last words").unwrap();
    other.flush();
    drop(other);
    one.tend(Nanos::from_millis(10));
    assert_eq!(one.send(b"too late"), Err(TxDrop::LinkDown));
    assert!(!one.is_up());
    let mut taken = Vec::new();
    let count = one.receive(Nanos::from_millis(20), 8, |message| {
        taken.push(message.to_vec());
    });
    assert_eq!((count, taken), (1, vec![b"last words".to_vec()]));
    assert_eq!(one.receive(Nanos::from_millis(30), 8, |_| {}), 0);
    assert_eq!(one.ends(), 1);
}

#[test]
fn a_third_end_stays_down_until_one_of_the_two_is_closed() {
    let (name, mut time) = (name("third"), Time(Nanos::ZERO));
    let (mut one, mut other, mut third) = (open(1, &name), open(2, &name), open(3, &name));
    look(&mut [&mut one, &mut other, &mut third], &mut time);
    check_up(&mut one, &mut other, &mut time);
    assert_eq!(third.link(), LinkState::Down);
    drop(other);
    look(&mut [&mut one, &mut third], &mut time);
    check_up(&mut one, &mut third, &mut time);
}

#[test]
fn a_full_ring_drops_by_name_and_has_room_again_when_frames_are_taken() {
    let (mut one, mut other) = RingPort::pair(PortId(1), PortId(2)).unwrap();
    let long = [Frame::from_bytes(&[1; 9000]).unwrap()];
    let mut sent = 0;
    while one.tx(&long).sent == 1 {
        sent += 1;
    }
    assert_eq!(one.stats().tx_dropped.get(TxDrop::QueueFull), 1);
    let mut batch = Batch::default();
    other.rx(&mut batch, Nanos(1)).unwrap();
    assert_eq!(batch.len(), sent);
    assert_eq!(batch.frames()[sent - 1].bytes(), long[0].bytes());
    assert_eq!(one.tx(&long).sent, 1);
}

#[test]
fn a_thread_that_waits_for_the_descriptor_is_woken_by_each_frame() {
    const FRAMES: u64 = 2000;
    let (mut one, mut other) = RingPort::pair(PortId(1), PortId(2)).unwrap();
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut rng = Rng::new(1);
            let mut sent = 0;
            while sent < FRAMES {
                sent += one.tx(&frames(1)).sent;
                if rng.one_in(50) {
                    std::thread::yield_now();
                }
            }
            one
        });
        let mut poller = Poller::new();
        let (mut received, mut now) = (0, Nanos::ZERO);
        while received < FRAMES {
            let late = Duration::from_secs(20);
            let ready = poller.wait(other.poll_fd(), late).unwrap();
            assert_eq!(ready, 1, "a wake-up is lost after {received} frames");
            let mut batch = Batch::default();
            now += Nanos(1);
            received += other.rx(&mut batch, now).unwrap_or(0) as u64;
        }
    });
    assert!(start.elapsed() < Duration::from_secs(20));
}

/// A process that connects to the end that listens, and does not do what an end does.
fn stranger(name: &str) -> UnixStream {
    let address = SocketAddr::from_abstract_name(format!("polyplane/ring/{name}")).unwrap();
    UnixStream::connect_addr(&address).expect("an end listens")
}

/// Connects and hands over memory, as an end does.
fn join(name: &str, port: &mut RingPort, time: &mut Time) -> (UnixStream, SharedWords) {
    let mut stream = stranger(name);
    let (memory, fd) = SharedWords::create(2 * LANE_WORDS).unwrap();
    send_with_fd(stream.as_fd(), b"polyplane ring 1", fd.as_fd()).unwrap();
    look(&mut [port], time);
    stream.read_exact(&mut [0]).unwrap();
    assert_eq!(port.link(), LinkState::Up);
    (stream, memory)
}

#[test]
fn an_end_that_writes_nonsense_harms_only_itself() {
    let (name, mut time) = (name("nonsense"), Time(Nanos::ZERO));
    let mut port = open(1, &name);
    let mut rng = Rng::new(1);
    let mut ended = 0;
    for _ in 0..60 {
        let (mut stream, memory) = join(&name, &mut port, &mut time);
        for _ in 0..20 {
            // The counts, the mark of sleep, and any words.
            let words = memory.as_ref();
            for lane in [0, LANE_WORDS] {
                for at in [0, 16, 32, 48 + rng.index(1000)] {
                    let value = match rng.below(3) {
                        0 => rng.bits(),
                        1 => rng.below(100_000),
                        _ => continue,
                    };
                    words[lane + at].store(value, Ordering::Relaxed);
                }
            }
            let _ = stream.write(&[0; 3]);
            let outcome = port.tx(&frames(4));
            assert_eq!(outcome.sent + outcome.dropped.total(), 4);
            let mut batch = Batch::default();
            let _ = port.rx(&mut batch, time.next());
            let _ = port.poll_fd();
        }
        ended += u32::from(port.link() == LinkState::Down);
        drop(stream);
        // What it left is taken.
        for _ in 0..2000 {
            let _ = port.rx(&mut Batch::default(), time.next());
        }
        assert_eq!(port.link(), LinkState::Down);
    }
    assert!(ended > 40, "{ended}");
    let mut other = open(2, &name);
    look(&mut [&mut port, &mut other], &mut time);
    check_up(&mut port, &mut other, &mut time);
}

#[test]
fn memory_that_its_maker_can_cut_is_not_mapped() {
    let (name, mut time) = (name("memory"), Time(Nanos::ZERO));
    let mut port = open(1, &name);
    let socket = || OwnedFd::from(UnixStream::pair().unwrap().0);
    let short = || SharedWords::create(LANE_WORDS).unwrap().1;
    let whole = || SharedWords::create(2 * LANE_WORDS).unwrap().1;
    let unsealed = || OwnedFd::from(std::fs::File::open("/dev/zero").unwrap());
    let cases: [(&[u8], &dyn Fn() -> OwnedFd); 4] = [
        (b"polyplane ring 1", &socket),
        (b"polyplane ring 1", &short),
        (b"polyplane ring 1", &unsealed),
        (b"polyplane ring 0", &whole),
    ];
    for (hello, fd) in cases {
        let mut stream = stranger(&name);
        send_with_fd(stream.as_fd(), hello, fd().as_fd()).unwrap();
        look(&mut [&mut port], &mut time);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it is closed");
        assert_eq!(port.link(), LinkState::Down);
    }
    // One that says nothing keeps its place for a second only.
    let silent = stranger(&name);
    look(&mut [&mut port], &mut time);
    time.0 += Nanos::from_secs(2);
    let mut other = open(2, &name);
    look(&mut [&mut port, &mut other], &mut time);
    check_up(&mut port, &mut other, &mut time);
    drop(silent);
    drop((port, other));
    // Neither does one that listens, and does not answer.
    let address = SocketAddr::from_abstract_name(format!("polyplane/ring/{name}")).unwrap();
    let listener = UnixListener::bind_addr(&address).expect("no end has the name");
    let mut port = open(1, &name);
    let silent = listener.accept().expect("the port connected");
    look(&mut [&mut port], &mut time);
    drop(listener);
    time.0 += Nanos::from_secs(2);
    let mut other = open(2, &name);
    look(&mut [&mut port, &mut other], &mut time);
    check_up(&mut port, &mut other, &mut time);
    drop(silent);
    for wrong in ["", "a b", "a/b", &"a".repeat(65)] {
        let error = RingPort::open(PortId(1), wrong).expect_err("it is no name");
        assert!(
            error.to_string().contains("write 1 to 64 letters"),
            "{error}"
        );
    }
}
