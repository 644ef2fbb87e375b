//! Measurement of a running switch: entries, shapes and tables that a controller makes over
//! loopback TCP while frames are forwarded.
//!
//! `cargo run --release -p pof_runtime --example run_time [PART]... [--load 0.8] [--workers 1]
//! [--changes N]`, where PART is `rate`, `known`, `shapes` or `tables`. Each part makes at most N
//! changes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ::port::{LinkState, MemoryPort, OpenedPort, Port, PortError, PortStats, TxOutcome};
use packet::{Batch, Frame, Nanos, PortId};
use pof::ForwarderOptions;
use pof::model::*;
use pof::wire::*;
use pof_runtime::{Fail, Listen, PofSwitch, Stop, SwitchOptions, TlsOptions};
use runtime::WorkerConfig;
use support::quantile::{median, quantile};

/// Entries of a measurement of their rate.
const FLOWS: u32 = 100_000;
/// Messages between two barriers.
const BARRIER_EVERY: u32 = 100;
/// Barriers without a reply, at most.
const WINDOW: u32 = 4;
/// Frames that a port queues.
const DEPTH: usize = 8_192;

/// A port that the switch polls all the time.
struct Polled {
    port: MemoryPort,
    /// Frames that the switch sent and that its queue to the measurement had no place for.
    overrun: Arc<AtomicU64>,
    /// A socket with a byte that is never read, and its other end.
    readable: (UnixStream, UnixStream),
}

impl Port for Polled {
    fn id(&self) -> PortId {
        self.port.id()
    }

    fn name(&self) -> &str {
        self.port.name()
    }

    fn rx(&mut self, batch: &mut Batch, now: Nanos) -> Result<usize, PortError> {
        self.port.rx(batch, now)
    }

    fn tx(&mut self, frames: &[Frame]) -> TxOutcome {
        let outcome = self.port.tx(frames);
        self.overrun
            .fetch_add(outcome.dropped.total(), Ordering::Relaxed);
        outcome
    }

    fn stats(&mut self) -> PortStats {
        self.port.stats()
    }

    fn link(&self) -> LinkState {
        self.port.link()
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.readable.0.as_fd())
    }
}

/// The controller's side of the connection.
struct Link {
    socket: TcpStream,
    input: Vec<u8>,
}

impl Link {
    fn new(address: SocketAddr) -> Link {
        let socket = TcpStream::connect(address).expect("the switch listens");
        socket.set_nodelay(true).expect("a socket");
        let mut link = Link {
            socket,
            input: Vec::new(),
        };
        link.send(&bytes(Body::Hello));
        link.barrier();
        link
    }

    fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("the switch reads");
    }

    /// Waits for this many replies to barriers. All other answers are errors.
    fn wait(&mut self, mut barriers: u32) {
        let mut chunk = [0; 65_536];
        while barriers > 0 {
            while barriers > 0
                && let Some(length) = message_length(&self.input)
                && length <= self.input.len()
            {
                let message = decode(&self.input[..length]).expect("a message");
                self.input.drain(..length);
                match message.body {
                    Body::BarrierReply => barriers -= 1,
                    Body::Error(error) => panic!("{error:?}"),
                    _ => {}
                }
            }
            if barriers > 0 {
                let read = self.socket.read(&mut chunk).expect("the switch answers");
                assert!(read > 0, "the switch has closed the connection");
                self.input.extend_from_slice(&chunk[..read]);
            }
        }
    }

    fn barrier(&mut self) {
        self.send(&bytes(Body::BarrierRequest));
        self.wait(1);
    }
}

fn bytes(body: Body) -> Vec<u8> {
    encode(&Message { xid: 1, body })
}

/// The destination address of IPv4 after Ethernet.
fn destination() -> Field {
    Field::packet(240, 32)
}

fn left(bytes: &[u8]) -> FieldValue {
    let mut value = FieldValue::default();
    value[..bytes.len()].copy_from_slice(bytes);
    value
}

fn table(command: Command, id: u8) -> Vec<u8> {
    bytes(Body::TableMod(TableMod {
        command,
        id,
        table_type: TableType::Masked,
        size: 1 << 20,
        key_length: 32,
        slot: 0,
        name: ObjectName::new("flows"),
        fields: vec![destination()],
    }))
}

fn set(offset: u16, value: &[u8]) -> Action {
    Action::SetField(Match {
        field: Field::packet(offset, 8 * value.len() as u16),
        value: left(value),
        mask: [0xFF; VALUE_BYTES],
    })
}

/// Returns the message of an entry that writes a number to two places, and runs more actions.
fn flow(command: FlowCommand, index: u32, number: u32, more: Vec<Action>) -> Vec<u8> {
    let number = number.to_be_bytes();
    let mut actions = vec![
        set(8 * FIRST as u16, &number),
        set(8 * SECOND as u16, &number),
    ];
    actions.extend(more);
    actions.push(Action::Output {
        port: Argument::Immediate(2),
        metadata_offset: 0,
        metadata_length: 0,
        packet_offset: 0,
    });
    bytes(Body::FlowMod(FlowMod {
        command,
        counter: 0,
        cookie: 0,
        cookie_mask: 0,
        table: 0,
        table_type: TableType::Masked,
        idle_timeout: 0,
        hard_timeout: 0,
        priority: 10,
        index,
        slot: 0,
        matches: vec![Match {
            field: destination(),
            value: left(&(0x0A00_0000 + index).to_be_bytes()),
            mask: left(&[255; 4]),
        }],
        instructions: vec![Instruction::ApplyActions(actions)],
    }))
}

/// Bytes of a frame that the entry writes, twice the same number, and that of the frame's number.
const FIRST: usize = 0;
const SECOND: usize = 40;
const SEQUENCE: usize = 48;

/// Byte of the source address that differs between the flows, and their number.
const FLOW: usize = 29;
const TRAFFIC_FLOWS: usize = 64;

/// Prints the rate of entries with a barrier after each hundred.
fn rate(link: &mut Link) {
    // Deletions would be answered by reports, which this controller does not read while it sends.
    for command in [FlowCommand::Add, FlowCommand::Modify] {
        let chunks = (1..=FLOWS / BARRIER_EVERY).map(|chunk| {
            let first = 1 + (chunk - 1) * BARRIER_EVERY;
            let flows = (first..first + BARRIER_EVERY)
                .flat_map(|index| flow(command, index, command as u32, Vec::new()));
            flows.chain(bytes(Body::BarrierRequest)).collect()
        });
        let chunks: Vec<Vec<u8>> = chunks.collect();
        let begin = Instant::now();
        for (sent, chunk) in chunks.iter().enumerate() {
            link.send(chunk);
            if sent as u32 >= WINDOW {
                link.wait(1);
            }
        }
        link.wait(WINDOW);
        let rate = f64::from(FLOWS) / begin.elapsed().as_secs_f64();
        println!("{command:?}: {rate:.0} FlowMods a second, a barrier each {BARRIER_EVERY}");
    }
}

/// Frames through the switch, and what became of them.
struct Traffic {
    entry: MemoryPort,
    exit: MemoryPort,
    batch: Batch,
    frame: Frame,
    sent: u64,
    received: u64,
    /// Frames that were lost before this measurement.
    lost_before: u64,
    /// Frames that the switch sent and this thread did not read in time, of all measurements.
    overrun: Arc<AtomicU64>,
    overrun_before: u64,
    refused: u64,
    reordered: u64,
    mixed: u64,
    /// Number that the next frame of each flow has at least.
    next: [u64; TRAFFIC_FLOWS],
    /// Number that the entry of each flow's last frame wrote.
    numbers: [u32; TRAFFIC_FLOWS],
    /// Largest one.
    number: u32,
}

impl Traffic {
    fn send(&mut self) {
        let place = SEQUENCE..SEQUENCE + 8;
        let bytes = self.frame.bytes_mut();
        bytes[place].copy_from_slice(&self.sent.to_be_bytes());
        bytes[FLOW] = (self.sent % TRAFFIC_FLOWS as u64) as u8;
        let outcome = self.entry.tx(std::slice::from_ref(&self.frame));
        self.refused += u64::from(outcome.sent == 0);
        self.sent += u64::from(outcome.sent > 0);
    }

    fn receive(&mut self) {
        self.batch.clear();
        let _ = self.exit.rx(&mut self.batch, Nanos(0));
        for frame in self.batch.frames() {
            let bytes = frame.bytes();
            let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4"));
            let sequence = bytes[SEQUENCE..SEQUENCE + 8].try_into().expect("8 bytes");
            let sequence = u64::from_be_bytes(sequence);
            let flow = usize::from(bytes[FLOW]) % TRAFFIC_FLOWS;
            self.reordered += u64::from(sequence < self.next[flow]);
            self.next[flow] = sequence + 1;
            let (first, second) = (number(FIRST), number(SECOND));
            // A flow that has seen a list sees no earlier one.
            self.mixed += u64::from(first != second || first < self.numbers[flow]);
            self.numbers[flow] = first;
            self.number = self.number.max(first);
            self.received += 1;
        }
    }

    /// Sends at this rate until `is_over`.
    fn run(&mut self, rate: f64, mut is_over: impl FnMut(&Traffic) -> bool) {
        let begin = Instant::now();
        let before = self.sent + self.refused;
        while !is_over(self) {
            let due = (begin.elapsed().as_secs_f64() * rate) as u64;
            let offered = self.sent + self.refused - before;
            for _ in offered..due.min(offered + 256) {
                self.send();
            }
            self.receive();
        }
    }

    /// Waits for the frames inside.
    fn settle(&mut self) {
        let end = Instant::now() + Duration::from_secs(2);
        while self.received < self.sent && Instant::now() < end {
            self.receive();
        }
    }

    /// Returns the rate that the switch forwards at most.
    fn capacity(&mut self) -> f64 {
        let begin = Instant::now();
        let before = self.received;
        let time = Duration::from_secs(1);
        self.run(f64::INFINITY, |_| begin.elapsed() >= time);
        let rate = (self.received - before) as f64 / begin.elapsed().as_secs_f64();
        self.settle();
        self.count_again();
        rate
    }

    /// Returns the frames that the switch sent and this thread did not read in time.
    fn overrun(&self) -> u64 {
        self.overrun.load(Ordering::Relaxed) - self.overrun_before
    }

    /// Begins to count again.
    fn count_again(&mut self) {
        self.lost_before = self.sent - self.received;
        self.overrun_before = self.overrun.load(Ordering::Relaxed);
        (self.refused, self.reordered, self.mixed) = (0, 0, 0);
    }
}

/// Sends changes one by one under load. Prints the times from the bytes to the first frame by the
/// new list, and what became of the frames.
fn under_load(
    name: &str,
    (link, traffic): (&mut Link, &mut Traffic),
    rate: f64,
    changes: impl Iterator<Item = Vec<u8>>,
) {
    let mut times = Vec::new();
    let number = traffic.number;
    for (change, number) in changes.zip(number + 1..) {
        link.send(&change);
        let sent = Instant::now();
        traffic.run(rate, |traffic| {
            traffic.number >= number || sent.elapsed() > Duration::from_secs(5)
        });
        times.push(sent.elapsed().as_secs_f64() * 1e3);
        let pause = Instant::now();
        let time = Duration::from_micros(500);
        traffic.run(rate, |_| pause.elapsed() >= time);
    }
    traffic.settle();
    println!(
        "{name}: {} changes at {:.2} Mpps: median {:.3} ms, p99 {:.3} ms; {} frames: {} lost in the switch, {} not taken by its full queue, {} not read in time by the measurement, {} reordered, {} mixed",
        times.len(),
        rate / 1e6,
        median(&mut times).unwrap_or(0.0),
        quantile(&mut times, 0.99).unwrap_or(0.0),
        traffic.sent,
        (traffic.sent - traffic.received - traffic.lost_before).saturating_sub(traffic.overrun()),
        traffic.refused,
        traffic.overrun(),
        traffic.reordered,
        traffic.mixed
    );
    traffic.count_again();
}

/// Returns one or two actions that no other number has.
fn new_shape(number: u32) -> Vec<Action> {
    let (one, two) = (number % 20, number / 20);
    let mut actions = vec![set(8 * (4 + one as u16), &[7])];
    if two > 0 {
        actions.push(set(8 * (4 + two as u16), &[7, 8]));
    }
    actions
}

/// Options of the command line.
struct Options {
    wanted: Vec<String>,
    /// Share of the largest rate that is offered.
    load: f64,
    workers: usize,
    /// Maximum number of changes of each part.
    changes: u32,
}

impl Options {
    fn new() -> Options {
        let mut wanted: Vec<String> = std::env::args().skip(1).collect();
        let mut value = |name: &str| {
            let at = wanted.iter().position(|word| word == name)?;
            let words: Vec<String> = wanted.drain(at..at + 2).collect();
            Some(words[1].parse::<f64>().expect("a number"))
        };
        Options {
            load: value("--load").unwrap_or(0.8),
            workers: value("--workers").unwrap_or(1.0) as usize,
            changes: value("--changes").map_or(u32::MAX, |count| count as u32),
            wanted,
        }
    }
}

fn measure(link: &mut Link, traffic: &mut Traffic, options: &Options) {
    let Options {
        wanted,
        load,
        changes: most,
        ..
    } = options;
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    link.send(&table(Command::Add, 0));
    link.send(&flow(FlowCommand::Add, 0, 0, Vec::new()));
    link.barrier();
    if wants("rate") {
        rate(link);
    }
    let rate = *load * traffic.capacity();
    let modify = |number, more| flow(FlowCommand::Modify, 0, number, more);
    if wants("known") {
        let first = traffic.number + 1;
        let changes = (first..first + most.min(&10_000)).map(|number| modify(number, Vec::new()));
        under_load("known shapes", (link, traffic), rate, changes);
    }
    if wants("shapes") {
        let first = traffic.number + 1;
        // Each entry stays, so that the program has ever more shapes.
        let changes = (0..*most.min(&300)).map(|shape| {
            let mut text = flow(FlowCommand::Add, 1 + shape, 0, new_shape(shape));
            text.extend(modify(first + shape, new_shape(shape)));
            text
        });
        under_load("new shapes", (link, traffic), rate, changes);
    }
    if wants("tables") {
        let first = traffic.number + 1;
        let changes = (0..*most.min(&200)).map(|at| {
            let id = 1 + (at % 9) as u8;
            let mut text = table(Command::Add, id);
            text.extend(table(Command::Delete, id));
            text.extend(modify(first + at, Vec::new()));
            text
        });
        under_load("tables made and deleted", (link, traffic), rate, changes);
    }
}

fn main() {
    let given = Options::new();
    let (near, far): (Vec<_>, Vec<_>) = [1, 2]
        .map(|id| MemoryPort::pair(PortId(id), PortId(id), DEPTH))
        .into_iter()
        .unzip();
    let overrun = Arc::new(AtomicU64::new(0));
    let ports = near.into_iter().map(|port| {
        let mut readable = UnixStream::pair().expect("two sockets");
        readable.1.write_all(&[0]).expect("room for a byte");
        let description = pof::port(1, port.id().0 as u16, "memory");
        let port: Box<dyn Port> = Box::new(Polled {
            port,
            overrun: Arc::clone(&overrun),
            readable,
        });
        let opened = OpenedPort::new(port, "memory", given.workers).expect("descriptors");
        (description, opened)
    });
    let ports = ports.collect();
    let options = SwitchOptions {
        engine: Arc::new(jit::Jit::new(Arc::new(interp::Interp))),
        forwarder: ForwarderOptions::default(),
        device: 1,
        fail: Fail::Secure,
        offload: None,
        workers: WorkerConfig::default(),
    };
    let mut switch = PofSwitch::new(options, ports, None).expect("a switch");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listen = Listen::open(any, &TlsOptions::default()).expect("an address");
    let address = listen.address().expect("an address");
    switch.listen(listen).expect("a thread");
    let mut frame = vec![0; 64];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17]);
    frame[30..34].copy_from_slice(&[10, 0, 0, 0]);
    let mut ends = far.into_iter();
    let (Some(entry), Some(exit)) = (ends.next(), ends.next()) else {
        return;
    };
    let mut traffic = Traffic {
        entry,
        exit,
        batch: Batch::with_capacity(Batch::DEFAULT),
        frame: Frame::from_bytes(&frame).expect("64 bytes"),
        sent: 0,
        received: 0,
        lost_before: 0,
        overrun,
        overrun_before: 0,
        refused: 0,
        reordered: 0,
        mixed: 0,
        next: [0; TRAFFIC_FLOWS],
        numbers: [0; TRAFFIC_FLOWS],
        number: 0,
    };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let switch = scope.spawn(|| {
            let stop = Stop {
                is_over: &|| is_over.load(Ordering::Relaxed),
                fd: None,
            };
            let ran = switch.run(&stop, &mut |line| eprintln!("{line}"), &mut |_| {});
            ran.expect("the switch runs");
        });
        let measured = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            measure(&mut Link::new(address), &mut traffic, &given);
        }));
        is_over.store(true, Ordering::Relaxed);
        switch.join().expect("the switch ends");
        measured.expect("all is measured");
    });
}
