//! The socket of engines: a thread that accepts, and two threads for each connection.
//!
//! The agent's thread never waits for an engine: events come by a channel with a wake-up, and
//! frames for an engine go to the thread that writes to it.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use aggregate::{Pair, Vector};
use serde::Serialize;
use support::wakeup::WakeupFd;

use super::frame::{
    CollectRequest, ENGINE_PROTOCOL, EngineHello, Frame, FrameError, FrameKind, JoinRequest,
    Submission, pairs_bodies, read_frame, write_frame,
};
use super::store::PartStore;
use crate::stream::{Address, Listener, Stream};

/// Number of an engine's connection to its agent. Numbers are not used again.
pub type EngineNumber = u64;

/// Most connections at once.
const MAX_CONNECTIONS: usize = 1024;

/// Time within which an engine says who it is.
const GREETING: Duration = Duration::from_secs(10);

/// Time within which an engine takes some bytes. A garbage collection may take long.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of vectors under way, above which no more are read from an engine.
const ROOM: usize = 256 << 20;

/// Pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Event of an engine.
pub(crate) enum EngineEvent {
    /// It wants a reduction of stored parts.
    Collect(EngineNumber, CollectRequest, EngineOutbox),
    /// It joins a group.
    Join(EngineNumber, JoinRequest, EngineOutbox),
    /// It submits a vector.
    Reduce(EngineNumber, Submission),
    /// It leaves its group.
    Leave(EngineNumber),
    /// Its connection has ended, for this reason. It is the last event of the engine.
    Gone(EngineNumber, String),
}

/// Frame that is written to an engine.
enum Outgoing {
    Frame(FrameKind, Vec<u8>),
    Pairs(Vec<Pair>),
    Vector(Vector),
    /// The connection ends.
    End,
}

/// Room for vectors under way of an engine.
#[derive(Default)]
struct Room {
    used: Mutex<usize>,
    freed: Condvar,
}

impl Room {
    /// Waits for room. A vector alone may be larger than all of it.
    fn take(&self, bytes: usize) {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |used: &mut usize| *used > 0 && *used + bytes > ROOM;
        let used = self.freed.wait_while(used, is_full);
        *used.unwrap_or_else(PoisonError::into_inner) += bytes;
    }

    fn give(&self, bytes: usize) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = used.saturating_sub(bytes);
        self.freed.notify_one();
    }
}

/// Sends frames to the thread that writes to an engine.
#[derive(Clone)]
pub(crate) struct EngineOutbox {
    sender: Sender<Outgoing>,
    room: Arc<Room>,
}

impl EngineOutbox {
    fn send(&self, outgoing: Outgoing) {
        // Fails if the engine has gone, which an event says.
        let _ = self.sender.send(outgoing);
    }

    pub(crate) fn json(&self, kind: FrameKind, body: &impl Serialize) {
        // Bodies are plain objects, which can be written.
        if let Ok(body) = serde_json::to_vec(body) {
            self.send(Outgoing::Frame(kind, body));
        }
    }

    pub(crate) fn error(&self, why: &str) {
        self.send(Outgoing::Frame(FrameKind::Error, why.into()));
    }

    /// Sends an error and ends the connection.
    pub(crate) fn end_with(&self, why: &str) {
        self.error(why);
        self.end();
    }

    /// Ends the connection after what has been sent.
    pub(crate) fn end(&self) {
        self.send(Outgoing::End);
        // A reader that waits for room sees the end of the connection.
        self.room.give(usize::MAX);
    }

    pub(crate) fn pairs(&self, pairs: Vec<Pair>) {
        self.send(Outgoing::Pairs(pairs));
    }

    pub(crate) fn reduced(&self, vector: Vector) {
        self.send(Outgoing::Vector(vector));
    }
}

/// The open socket of engines. Its file is removed with it.
pub(crate) struct EngineSocket {
    address: Address,
}

impl Drop for EngineSocket {
    fn drop(&mut self) {
        // The thread that accepts has the listener to the end of the process.
        self.address.remove_file();
    }
}

/// Target of the events of engines' connections.
#[derive(Clone)]
pub(crate) struct EngineSink {
    pub(crate) host: Ipv4Addr,
    pub(crate) store: Arc<PartStore>,
    pub(crate) events: Sender<EngineEvent>,
    pub(crate) wakeup: Arc<WakeupFd>,
}

impl EngineSocket {
    /// Opens a Unix socket, and starts the thread that accepts engines.
    ///
    /// # Errors
    /// It is no Unix socket, or another process listens there.
    pub(crate) fn open(address: &Address, sink: EngineSink) -> Result<EngineSocket, String> {
        if let Address::Tcp(_) = address {
            return Err(format!(
                "{address}: engines are on this host; give --engines unix:PATH"
            ));
        }
        let listener = Listener::bind(address)?;
        let accept = move || {
            let count = Arc::new(AtomicUsize::new(0));
            for engine in 1.. {
                let Ok(stream) = listener.accept() else {
                    // Too many descriptors for now, or it has gone again.
                    thread::sleep(PAUSE);
                    continue;
                };
                serve(stream, engine, &count, &sink);
            }
        };
        let thread = thread::Builder::new().name("engines".to_owned());
        let started = thread.spawn(accept);
        started.map_err(|error| format!("cannot start a thread: {error}"))?;
        let address = address.clone();
        Ok(EngineSocket { address })
    }
}

/// Starts the threads of a connection. Without them the engine sees its end.
fn serve(mut stream: Stream, engine: EngineNumber, count: &Arc<AtomicUsize>, sink: &EngineSink) {
    if stream.set_patience(Some(GREETING), WRITE_PATIENCE).is_err() {
        return;
    }
    if count.fetch_add(1, Relaxed) >= MAX_CONNECTIONS {
        count.fetch_sub(1, Relaxed);
        let why = format!("the agent has {MAX_CONNECTIONS} engines already; end some of them");
        // It may have gone again.
        let _ = write_frame(&mut stream, FrameKind::Error, why.as_bytes());
        return;
    }
    let (count, sink) = (Arc::clone(count), sink.clone());
    let own = Arc::clone(&count);
    let thread = thread::Builder::new().name("engine".to_owned());
    let started = thread.spawn(move || {
        // The engine has got the error.
        let _ = read_engine(stream, engine, &sink);
        own.fetch_sub(1, Relaxed);
    });
    if started.is_err() {
        count.fetch_sub(1, Relaxed);
    }
}

/// Serves a connection to its end.
///
/// # Errors
/// The engine has sent something wrong, of which it has got the error, or the connection is broken.
pub(super) fn read_engine(
    mut stream: Stream,
    engine: EngineNumber,
    sink: &EngineSink,
) -> Result<(), FrameError> {
    let writer = stream.try_clone()?;
    let (sender, outgoing) = mpsc::channel();
    let thread = thread::Builder::new().name("engine-out".to_owned());
    let room = Arc::new(Room::default());
    let own = Arc::clone(&room);
    let written = thread.spawn(move || write_engine(writer, &outgoing, &own))?;
    let outbox = EngineOutbox { sender, room };
    outbox.json(
        FrameKind::Hello,
        &EngineHello {
            protocol: ENGINE_PROTOCOL,
            polyplane: Some(env!("CARGO_PKG_VERSION").to_owned()),
            host: Some(sink.host),
            engine: None,
        },
    );
    let mut reader = EngineReader {
        engine,
        sink,
        outbox,
        purpose: Purpose::Open,
    };
    let ended = reader.read(&mut stream);
    let why = match &ended {
        Ok(()) => "it has ended its connection".to_owned(),
        Err(error) => {
            reader.outbox.end_with(&error.to_string());
            error.to_string()
        }
    };
    if matches!(reader.purpose, Purpose::Parts | Purpose::Member) {
        reader.report(EngineEvent::Gone(engine, why));
    }
    reader.outbox.end();
    // The error is written before the connection ends.
    let _ = written.join();
    stream.shut_down();
    ended
}

/// Use of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// None yet.
    Open,
    /// Stored parts.
    Parts,
    /// A group.
    Member,
    /// A group that was left.
    Left,
}

/// Reads the frames of an engine.
struct EngineReader<'a> {
    engine: EngineNumber,
    sink: &'a EngineSink,
    outbox: EngineOutbox,
    purpose: Purpose,
}

impl EngineReader<'_> {
    fn report(&self, event: EngineEvent) {
        // The agent may have ended.
        let _ = self.sink.events.send(event);
        self.sink.wakeup.wake();
    }

    fn read(&mut self, stream: &mut Stream) -> Result<(), FrameError> {
        let Some(first) = read_frame(stream)? else {
            return Ok(());
        };
        if first.kind != FrameKind::Hello {
            let why = "it comes before HELLO; send HELLO first".to_owned();
            return Err(FrameError::Body(first.kind, why));
        }
        first.hello()?;
        // Engines may be silent for ever.
        stream.set_patience(None, WRITE_PATIENCE)?;
        while let Some(frame) = read_frame(stream)? {
            self.take(&frame)?;
        }
        Ok(())
    }

    fn take(&mut self, frame: &Frame) -> Result<(), FrameError> {
        match (frame.kind, self.purpose) {
            (FrameKind::Store, Purpose::Open | Purpose::Parts) => {
                self.purpose = Purpose::Parts;
                match self.store(frame) {
                    Ok(pairs) => {
                        let stored = serde_json::json!({ "pairs": pairs });
                        self.outbox.json(FrameKind::Stored, &stored);
                    }
                    Err(why) => self.outbox.error(&why),
                }
            }
            (FrameKind::Forget, Purpose::Open | Purpose::Parts) => {
                self.purpose = Purpose::Parts;
                self.sink.store.forget(frame.forget()?);
            }
            (FrameKind::Collect, Purpose::Open | Purpose::Parts) => {
                self.purpose = Purpose::Parts;
                match frame.collect() {
                    Ok(request) => {
                        let outbox = self.outbox.clone();
                        self.report(EngineEvent::Collect(self.engine, request, outbox));
                    }
                    Err(error) => self.outbox.error(&error.to_string()),
                }
            }
            (FrameKind::Join, Purpose::Open) => {
                let request = frame.join()?;
                self.purpose = Purpose::Member;
                let outbox = self.outbox.clone();
                self.report(EngineEvent::Join(self.engine, request, outbox));
            }
            (FrameKind::Reduce, Purpose::Member) => {
                let submission = frame.reduce()?;
                self.outbox.room.take(submission.bytes());
                self.report(EngineEvent::Reduce(self.engine, submission));
            }
            (FrameKind::Leave, Purpose::Member) => {
                self.purpose = Purpose::Left;
                self.report(EngineEvent::Leave(self.engine));
            }
            (kind, purpose) => {
                let why = match purpose {
                    Purpose::Open => "it is not for an engine that has joined no group",
                    Purpose::Parts => "this connection is for stored parts; open another one",
                    Purpose::Member => "this connection is for a group; open another one",
                    Purpose::Left => "the group was left; open another connection",
                };
                return Err(FrameError::Body(kind, why.to_owned()));
            }
        }
        Ok(())
    }

    /// Stores a part. Returns the number of its pairs, or an error message.
    fn store(&self, frame: &Frame) -> Result<usize, String> {
        let (name, pairs) = frame.store().map_err(|error| error.to_string())?;
        let count = pairs.len();
        let stored = self.sink.store.put(name, pairs, Instant::now());
        stored.map_err(|error| error.to_string())?;
        Ok(count)
    }
}

/// Writes frames to an engine, until its connection ends or it takes nothing for some time. Then
/// the connection is ended, which its reader sees.
fn write_engine(mut stream: Stream, outgoing: &Receiver<Outgoing>, room: &Room) {
    while let Ok(next) = outgoing.recv() {
        let written = match next {
            Outgoing::Frame(kind, body) => write_frame(&mut stream, kind, &body),
            Outgoing::Pairs(pairs) => pairs_bodies(&pairs)
                .try_for_each(|body| write_frame(&mut stream, FrameKind::Pairs, &body)),
            Outgoing::Vector(vector) => {
                let body = vector_body(&vector);
                let written = write_frame(&mut stream, FrameKind::Reduced, &body);
                room.give(body.len());
                written
            }
            Outgoing::End => break,
        };
        if written.is_err() {
            break;
        }
    }
    stream.shut_down();
}

/// Returns the values of a vector, 4 bytes each. Mappers get integers in 32 bits.
fn vector_body(vector: &Vector) -> Vec<u8> {
    match vector {
        Vector::Integers(values) => {
            let values = values.iter().map(|value| (*value as i32).to_le_bytes());
            values.flatten().collect()
        }
        Vector::Floats(values) => values.iter().flat_map(|it| it.to_le_bytes()).collect(),
    }
}
