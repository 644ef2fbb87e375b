//! A running switch of which the engine stands still in the middle of a program: frames, other
//! controllers and the stored state go on.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use exec::{Engine, Loaded, Natives, Unsupported};
use ir::{Layout, Program};
use packet::{Batch, Frame, Nanos, PortId};
use pof::text::TextReader;
use pof::wire::{Body, Message};
use pof::{Forwarder, ForwarderOptions};
use pof_runtime::{
    Controller, Fail, Listen, PofReport, PofSwitch, Stop, StoredState, SwitchAnswer, SwitchOptions,
    TlsOptions,
};
use port::{MemoryPort, OpenedPort, Port};
use runtime::WorkerConfig;

/// Time that something may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An engine that makes programs while its gate is open.
#[derive(Default)]
struct Gated {
    state: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Default)]
struct Gate {
    is_closed: bool,
    /// True while a program waits.
    is_waiting: bool,
}

impl Gated {
    fn set_closed(&self, is_closed: bool) {
        self.state.lock().unwrap().is_closed = is_closed;
        self.changed.notify_all();
    }

    /// Waits until a program is under way.
    fn wait_for_program(&self) {
        let state = self.state.lock().unwrap();
        let waits = |gate: &mut Gate| !gate.is_waiting;
        let (_state, waited) = self
            .changed
            .wait_timeout_while(state, PATIENCE, waits)
            .unwrap();
        assert!(!waited.timed_out(), "no program is made");
    }
}

impl Engine for Gated {
    fn name(&self) -> &'static str {
        "gated"
    }

    fn load(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        natives: &Natives,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        let mut state = self.state.lock().unwrap();
        state.is_waiting = state.is_closed;
        self.changed.notify_all();
        while state.is_closed {
            state = self.changed.wait(state).unwrap();
        }
        state.is_waiting = false;
        drop(state);
        interp::Interp.load(program, layout, natives)
    }
}

/// A directory of a test, which goes with it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pof-{name}-{}-{number}", std::process::id());
        let place = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&place).unwrap();
        Directory(place)
    }

    /// Copies the files as they are now, as a crash of the process leaves them.
    fn copy(&self) -> Directory {
        let copy = Directory::new("copy");
        for file in std::fs::read_dir(&self.0).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copy.0.join(file.file_name())).unwrap();
        }
        copy
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A switch with two ports on a thread.
struct Running {
    engine: Arc<Gated>,
    address: SocketAddr,
    ends: Vec<MemoryPort>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<PofReport>>,
    reader: TextReader,
}

impl Running {
    fn start(workers: usize, state: Option<&Path>) -> Running {
        let (near, ends): (Vec<_>, Vec<_>) = (0..2)
            .map(|id| MemoryPort::pair(PortId(id), PortId(id), 4_096))
            .unzip();
        let ports = near.into_iter().map(|near| {
            let description = pof::port(1, near.id().0 as u16, "memory");
            let opened = OpenedPort::new(Box::new(near), "memory", workers).unwrap();
            (description, opened)
        });
        let engine = Arc::new(Gated::default());
        let options = SwitchOptions {
            engine: engine.clone(),
            forwarder: ForwarderOptions::default(),
            device: 1,
            fail: Fail::Secure,
            offload: None,
            workers: WorkerConfig {
                // A port in memory does not wake a worker that sleeps.
                spin: PATIENCE * 60,
                ..WorkerConfig::default()
            },
        };
        let stored = state.map(|state| StoredState::open(state).unwrap());
        let mut switch = PofSwitch::new(options, ports.collect(), stored).unwrap();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listen = Listen::open(any, &TlsOptions::default()).unwrap();
        let address = listen.address().unwrap();
        switch.listen(listen).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let of_thread = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let stop = Stop {
                is_over: &|| of_thread.load(Ordering::Acquire),
                fd: None,
            };
            let ran = switch.run(&stop, &mut |line| println!("switch: {line}"), &mut |_| {});
            ran.unwrap();
            switch.report()
        });
        let tables = Forwarder::new(Arc::new(interp::Interp), ForwarderOptions::default());
        Running {
            engine,
            address,
            ends,
            is_over,
            thread: Some(thread),
            reader: TextReader::new(tables.unwrap().tables().clone()),
        }
    }

    fn connect(&self) -> Controller {
        let address = format!("tcp:{}", self.address).parse().unwrap();
        Controller::connect(&address, &TlsOptions::default()).unwrap()
    }

    fn message(&mut self, xid: u32, line: &str) -> Message {
        let body = self.reader.read(line).unwrap().unwrap();
        Message { xid, body }
    }

    /// Makes objects, all of which the switch takes.
    fn make(&mut self, controller: &mut Controller, lines: &[&str]) {
        let messages: Vec<Message> = (1..)
            .zip(lines)
            .map(|(xid, line)| self.message(xid, line))
            .collect();
        assert_eq!(controller.ask(&messages).unwrap(), []);
    }

    fn stop(&mut self) -> PofReport {
        self.engine.set_closed(false);
        self.is_over.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.engine.set_closed(false);
        self.is_over.store(true, Ordering::Release);
    }
}

const TABLE: &str = "table add mm/0 size 16 fields dst=240/32";
const OLD: &str = "flow add mm/0 index 0 counter 1 match 240/32=10.0.0.1 do set_field 0/8=1, set_field 320/8=1, output 1";
const NEW: &str = "flow modify mm/0 index 0 counter 1 match 240/32=10.0.0.1 do set_field 0/16=0x0202, set_field 320/8=2, output 1";

const FLOWS: u64 = 16;

/// Frames of some flows, and what became of them.
#[derive(Default)]
struct Traffic {
    sent: u64,
    received: u64,
    /// Number of the next frame of each flow, and the list that the last one had.
    flows: Vec<(u64, u8)>,
    by_new: u64,
}

impl Traffic {
    fn send(&mut self, end: &mut MemoryPort) {
        // No more than the queues hold.
        if self.sent - self.received >= 1_024 {
            return;
        }
        let mut bytes = vec![0; 64];
        bytes[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17]);
        bytes[29] = (self.sent % FLOWS) as u8;
        bytes[30..34].copy_from_slice(&[10, 0, 0, 1]);
        bytes[48..56].copy_from_slice(&(self.sent / FLOWS).to_be_bytes());
        let frame = Frame::from_bytes(&bytes).unwrap();
        assert_eq!(end.tx(&[frame]).sent, 1);
        self.sent += 1;
    }

    /// Checks the frames that have arrived: each by one list as a whole, in order, none missing.
    fn receive(&mut self, end: &mut MemoryPort) {
        self.flows.resize(FLOWS as usize, (0, 1));
        let mut batch = Batch::default();
        end.rx(&mut batch, Nanos(0)).unwrap();
        for frame in batch.frames() {
            let bytes = frame.bytes();
            let (next, list) = &mut self.flows[usize::from(bytes[29])];
            let number = u64::from_be_bytes(bytes[48..56].try_into().unwrap());
            assert_eq!(number, *next, "lost or reordered");
            let by = match (bytes[0], bytes[1], bytes[40]) {
                (1, 0, 1) => 1,
                (2, 2, 2) => 2,
                other => panic!("a mixture of two lists: {other:?}"),
            };
            assert!(by >= *list, "by the old list after the new one");
            (*next, *list) = (number + 1, by);
            self.by_new += u64::from(by == 2);
            self.received += 1;
        }
    }

    /// Sends until this number of frames more has arrived, or of those by the new list.
    fn run(&mut self, running: &mut Running, is_over: impl Fn(&Traffic) -> bool) {
        let begin = Instant::now();
        while !is_over(self) {
            assert!(begin.elapsed() < PATIENCE, "frames do not arrive");
            self.send(&mut running.ends[0]);
            self.receive(&mut running.ends[1]);
        }
    }

    fn settle(&mut self, running: &mut Running) {
        let begin = Instant::now();
        while self.received < self.sent {
            assert!(begin.elapsed() < PATIENCE, "frames do not arrive");
            self.receive(&mut running.ends[1]);
        }
    }
}

#[test]
fn a_program_change_under_load_loses_reorders_and_mixes_nothing() {
    for workers in [1, 2] {
        let mut running = Running::start(workers, None);
        let mut controller = running.connect();
        running.make(&mut controller, &[TABLE, OLD]);
        let mut traffic = Traffic::default();
        traffic.run(&mut running, |traffic| traffic.received >= 500);
        running.engine.set_closed(true);
        let change = running.message(1, NEW);
        controller.send(&change).unwrap();
        running.engine.wait_for_program();
        // All of these pass while the engine stands still.
        let before = traffic.received;
        traffic.run(&mut running, |traffic| traffic.received >= before + 3_000);
        assert_eq!(traffic.by_new, 0);
        // Another controller is answered meanwhile.
        let mut other = running.connect();
        running.make(&mut other, &["table add mm/1 size 16 fields 96/16"]);
        running.engine.set_closed(false);
        traffic.run(&mut running, |traffic| traffic.by_new >= 1_000);
        traffic.settle(&mut running);
        // A frame after the answer follows the new list.
        assert_eq!(controller.ask(&[]).unwrap(), []);
        let (sent, by_new) = (traffic.sent, traffic.by_new);
        traffic.run(&mut running, |traffic| traffic.sent == sent + 100);
        traffic.settle(&mut running);
        assert_eq!(traffic.by_new, by_new + 100);
        let report = running.stop();
        assert_eq!(report.ports[0].received, traffic.sent);
        assert_eq!(report.ports[1].sent, traffic.sent);
        assert_eq!(report.tables[0].hits, traffic.sent, "{workers} workers");
    }
}

#[test]
fn a_controller_that_dies_while_its_program_is_made_leaves_what_it_has_sent() {
    let mut running = Running::start(1, None);
    let mut controller = running.connect();
    running.make(&mut controller, &[TABLE, OLD]);
    running.engine.set_closed(true);
    let change = running.message(1, NEW);
    controller.send(&change).unwrap();
    running.engine.wait_for_program();
    drop(controller);
    let mut other = running.connect();
    running.make(&mut other, &["counter add 9"]);
    running.engine.set_closed(false);
    let mut traffic = Traffic::default();
    traffic.run(&mut running, |traffic| traffic.by_new > 0);
    traffic.settle(&mut running);
    let report = running.stop();
    assert_eq!(report.connections, 2);
    assert_eq!(report.entries, 1);
}

#[test]
fn a_crash_while_a_program_is_made_leaves_what_was_answered() {
    let directory = Directory::new("state");
    let mut running = Running::start(1, Some(&directory.0));
    let mut controller = running.connect();
    running.make(&mut controller, &[TABLE, OLD]);
    running.engine.set_closed(true);
    let second = running.message(
        7,
        "flow add mm/0 index 5 match 240/32=10.0.0.5 do set_field 0/24=5, output 1",
    );
    let echo = Message {
        xid: 8,
        body: Body::EchoRequest(vec![8]),
    };
    let barrier = Message {
        xid: 9,
        body: Body::BarrierRequest,
    };
    for message in [second, echo.clone(), barrier.clone()] {
        controller.send(&message).unwrap();
    }
    running.engine.wait_for_program();
    let answer = controller.receive(PATIENCE).unwrap().unwrap();
    assert_eq!((answer.xid, answer.body), (8, Body::EchoReply(vec![8])));
    // A table, a flow and its counter.
    let crashed = directory.copy();
    assert_eq!(StoredState::open(&crashed.0).unwrap().len(), 3);
    running.engine.set_closed(false);
    let answer = controller.receive(PATIENCE).unwrap().unwrap();
    assert_eq!((answer.xid, answer.body), (9, Body::BarrierReply));
    let crashed = directory.copy();
    assert_eq!(StoredState::open(&crashed.0).unwrap().len(), 4);
    running.stop();
}

#[test]
fn a_port_that_a_controller_switched_off_is_off_after_a_restart() {
    let directory = Directory::new("ports");
    let off = |is_off: bool| {
        let port = pof::wire::Port {
            config: u32::from(is_off),
            ..pof::port(1, 1, "memory")
        };
        let body = Body::PortMod(pof::wire::PortStatus { reason: 2, port });
        Message { xid: 1, body }
    };
    let mut running = Running::start(1, Some(&directory.0));
    let mut controller = running.connect();
    running.make(&mut controller, &[TABLE, OLD]);
    assert_eq!(controller.ask(&[off(true)]).unwrap(), []);
    running.stop();
    let mut running = Running::start(1, Some(&directory.0));
    let mut controller = running.connect();
    let request = Message {
        xid: 1,
        body: Body::GetConfigRequest,
    };
    let answers = controller.ask(&[request]).unwrap();
    let configs: Vec<u32> = answers
        .into_iter()
        .filter_map(|(_, answer)| match answer {
            SwitchAnswer::Reply(Body::PortStatus(status)) => Some(status.port.config),
            _ => None,
        })
        .collect();
    assert_eq!(configs, [0, 1]);
    assert_eq!(controller.ask(&[off(false)]).unwrap(), []);
    // A port as at the start is not stored.
    assert_eq!(StoredState::open(&directory.copy().0).unwrap().len(), 3);
    let mut traffic = Traffic::default();
    traffic.run(&mut running, |traffic| traffic.received >= 10);
    running.stop();
}

#[test]
fn packets_of_the_controllers_and_for_them_pass_the_workers() {
    for workers in [1, 2] {
        let mut running = Running::start(workers, None);
        let mut controller = running.connect();
        running.make(&mut controller, &["table add mm/1 size 16 fields 96/16"]);
        let mut frame = vec![0; 64];
        frame[0] = 7;
        // Without table 0 a packet goes to the controllers, and comes back as a packet-out.
        running.ends[0].tx(&[Frame::from_bytes(&frame).unwrap()]);
        let packet = loop {
            if let Body::PacketIn(packet) = controller.receive(PATIENCE).unwrap().unwrap().body {
                break packet;
            }
        };
        assert_eq!((packet.port, &packet.data), (0, &frame));
        let out = pof::wire::PacketOut {
            buffer: pof::wire::NO_BUFFER,
            in_port: 0,
            actions: vec![pof::model::Action::Output {
                port: pof::model::Argument::Immediate(1),
                metadata_offset: 0,
                metadata_length: 0,
                packet_offset: 0,
            }],
            data: packet.data,
        };
        let out = Message {
            xid: 1,
            body: Body::PacketOut(out),
        };
        assert_eq!(controller.ask(&[out]).unwrap(), []);
        let mut batch = Batch::default();
        let begin = Instant::now();
        while batch.is_empty() {
            assert!(begin.elapsed() < PATIENCE, "the packet does not leave");
            running.ends[1].rx(&mut batch, Nanos(0)).unwrap();
        }
        assert_eq!(batch.frames()[0].bytes(), frame);
        assert_eq!(running.stop().ports[1].sent, 1);
    }
}
