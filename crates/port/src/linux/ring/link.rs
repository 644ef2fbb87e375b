//! One end of a ring: finds the other end by the ring's name, and exchanges messages with it.
//!
//! The first end listens at a UNIX socket in the abstract namespace, which needs no file and ends
//! with its process. The second one connects, makes the memory, and hands over its descriptor. The
//! first one maps it and answers. From then on messages are in the memory; the socket carries
//! wake-ups, and its end is the sign that the other process is gone. Then both begin again.

use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;

use packet::Nanos;
use support::wakeup::WakeupFd;

use super::lane::{LANE_WORDS, LaneReceiver, LaneSender, NotQueued};
use crate::linux::sys;
use crate::linux::sys::shared::{self, SharedWords};
use crate::spec::is_ring_name;
use crate::{PortError, TxDrop};

/// Time between two looks at the sockets.
const LOOK: Nanos = Nanos::from_millis(1);
/// Time after which an end that could neither listen nor connect tries again.
const RETRY: Nanos = Nanos::from_millis(100);
/// Time within which the other end hands over its memory, or answers.
const GREETING: Nanos = Nanos::from_secs(1);
/// First bytes of a connection: the layout of the memory, which both ends must have.
const HELLO: [u8; 16] = *b"polyplane ring 1";
/// Answer of the end that listens.
const ACCEPTED: [u8; 1] = [1];

/// Words of the memory: a lane for each direction.
const WORDS: usize = 2 * LANE_WORDS;

/// Both lanes of a connection, and its socket.
#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    sender: LaneSender<SharedWords>,
    receiver: LaneReceiver<SharedWords>,
    /// The other end is gone: what it sent is taken, and nothing is sent.
    is_ended: bool,
}

impl Connection {
    /// Takes the lanes of one end. The end that made the memory sends by the first one.
    fn new(stream: UnixStream, memory: SharedWords, is_maker: bool) -> Connection {
        let memory = Arc::new(memory);
        let (out, incoming) = match is_maker {
            true => (0, LANE_WORDS),
            false => (LANE_WORDS, 0),
        };
        Connection {
            stream,
            sender: LaneSender::new(Arc::clone(&memory), out),
            receiver: LaneReceiver::new(memory, incoming),
            is_ended: false,
        }
    }

    /// Takes what the socket has: wake-ups. Returns false if the other end is gone.
    fn is_alive(&mut self) -> bool {
        let mut bytes = [0; 64];
        match self.stream.read(&mut bytes) {
            Ok(length) => length > 0,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    fn publish(&mut self) {
        if self.sender.publish() {
            // A full socket has wake-ups that the other end has not taken; one that has ended is
            // found at the next look.
            let _ = self.stream.write(&[0]);
        }
    }
}

#[derive(Debug)]
enum State {
    /// Neither listens nor is connected; tries again at this time.
    Idle(Nanos),
    /// Listens. A process that connected may still have to hand over its memory, until a time.
    Listening(UnixListener, Option<(UnixStream, Nanos)>),
    /// Connected, and the other end has until a time to answer.
    Greeting(Connection, Nanos),
    /// Messages are exchanged. The listener goes on, and refuses a third end.
    Connected(Connection, Option<UnixListener>),
}

/// One end of a ring: queues in memory that two threads or processes share, one for each
/// direction. What the other end does, or where it stops, harms only messages between both.
#[derive(Debug)]
pub struct RingLink {
    /// `None` for an end of [`RingLink::pair`].
    address: Option<SocketAddr>,
    state: State,
    /// A descriptor that is always readable: messages wait.
    ready: WakeupFd,
    /// The owner may have slept since the last look.
    slept: Cell<bool>,
    next_look: Nanos,
    /// Connections that ended.
    ends: u64,
    scratch: Vec<u8>,
}

impl RingLink {
    /// Opens an end of the ring of this name, which is 1 to 64 letters, digits, `.`, `-` and `_`.
    /// The other end is another link of the same name, in a process of the same user and network
    /// namespace. It may be opened before or after this one, and again after it was closed.
    ///
    /// # Errors
    /// The name is none, or there are too many descriptors.
    pub fn open(name: &str) -> Result<RingLink, PortError> {
        let doing = || format!("opening the ring \"{name}\"");
        if !is_ring_name(name) {
            return Err(PortError::RingName {
                name: name.to_owned(),
            });
        }
        let address = SocketAddr::from_abstract_name(format!("polyplane/ring/{name}"));
        let link = address.and_then(|address| RingLink::new(Some(address), State::Idle(Nanos(0))));
        let mut link = link.map_err(|source| PortError::System {
            doing: doing(),
            source,
        })?;
        link.look(Nanos::ZERO);
        Ok(link)
    }

    /// Returns both ends of a ring without a name. When one is dropped, the other stays down.
    ///
    /// # Errors
    /// There are too many descriptors, or no memory.
    pub fn pair() -> std::io::Result<(RingLink, RingLink)> {
        let (one, other) = UnixStream::pair()?;
        let (memory, fd) = SharedWords::create(WORDS)?;
        let same = SharedWords::of_peer(&fd, WORDS)?;
        let end = |stream: UnixStream, memory, is_maker| {
            stream.set_nonblocking(true)?;
            let connection = Connection::new(stream, memory, is_maker);
            RingLink::new(None, State::Connected(connection, None))
        };
        Ok((end(one, memory, true)?, end(other, same, false)?))
    }

    fn new(address: Option<SocketAddr>, state: State) -> std::io::Result<RingLink> {
        let ready = WakeupFd::armed()?;
        ready.wake();
        Ok(RingLink {
            address,
            state,
            ready,
            slept: Cell::new(false),
            next_look: Nanos::ZERO,
            ends: 0,
            scratch: Vec::new(),
        })
    }

    /// Returns true if the other end is there.
    pub fn is_up(&self) -> bool {
        matches!(&self.state, State::Connected(connection, _) if !connection.is_ended)
    }

    /// Returns the number of connections that ended.
    pub fn ends(&self) -> u64 {
        self.ends
    }

    /// Looks for the other end if a look is due: finds it, or finds that it is gone.
    /// [`RingLink::receive`] does this, too.
    pub fn tend(&mut self, now: Nanos) {
        if self.slept.take() {
            if let State::Connected(connection, _) = &self.state {
                connection.receiver.after_sleep();
            }
        } else if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK;
        self.look(now);
    }

    /// Looks at the sockets.
    fn look(&mut self, now: Nanos) {
        let state = std::mem::replace(&mut self.state, State::Idle(now));
        self.state = match state {
            State::Idle(at) if now < at => State::Idle(at),
            State::Idle(_) => self.meet(now),
            State::Listening(listener, pending) => self.accept(now, listener, pending),
            State::Greeting(mut connection, until) => {
                let mut answer = ACCEPTED;
                match connection.stream.read(&mut answer) {
                    Ok(1) => State::Connected(connection, None),
                    Err(error) if error.kind() == ErrorKind::WouldBlock && now < until => {
                        State::Greeting(connection, until)
                    }
                    // A ring has two ends already, or the other one ended or is stopped.
                    _ => State::Idle(now + RETRY),
                }
            }
            State::Connected(mut connection, listener) => {
                // What the other end sent before it ended is taken first.
                let is_left = matches!(connection.receiver.next_length(), Ok(Some(_)));
                connection.is_ended = connection.is_ended || !connection.is_alive();
                if connection.is_ended && !is_left {
                    self.ended(now, listener)
                } else {
                    if let Some(listener) = &listener {
                        // A third end: it is closed at once.
                        let _ = listener.accept();
                    }
                    State::Connected(connection, listener)
                }
            }
        };
    }

    /// Returns the state after the other end was lost.
    fn ended(&mut self, now: Nanos, listener: Option<UnixListener>) -> State {
        self.ends += 1;
        match listener {
            Some(listener) => State::Listening(listener, None),
            None => State::Idle(now),
        }
    }

    /// Connects to the end that listens, or listens if none does.
    fn meet(&self, now: Nanos) -> State {
        let later = State::Idle(now + RETRY);
        let Some(address) = &self.address else {
            return State::Idle(Nanos(u64::MAX));
        };
        // Never blocks: another end that does not accept must not stop the owner's other work.
        match shared::connect_abstract(address.as_abstract_name().unwrap_or_default()) {
            Ok(stream) => {
                let greeting = |connection| State::Greeting(connection, now + GREETING);
                return greet(stream).map_or(later, greeting);
            }
            // The end that listens has too many connections that it has not accepted.
            Err(error) if error.kind() == ErrorKind::WouldBlock => return later,
            Err(_) => {}
        }
        let listener = UnixListener::bind_addr(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        // Another end may have bound it meanwhile.
        listener.map_or(later, |listener| State::Listening(listener, None))
    }

    /// Takes the next step towards a connection.
    fn accept(
        &self,
        now: Nanos,
        listener: UnixListener,
        pending: Option<(UnixStream, Nanos)>,
    ) -> State {
        let pending = pending.or_else(|| {
            let (stream, _) = listener.accept().ok()?;
            (is_own_user(&stream) && stream.set_nonblocking(true).is_ok())
                .then_some((stream, now + GREETING))
        });
        let Some((mut stream, until)) = pending else {
            return State::Listening(listener, None);
        };
        let mut hello = [0; HELLO.len()];
        let (length, fd) = match shared::receive_with_fd(stream.as_fd(), &mut hello) {
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::WouldBlock && now < until => {
                return State::Listening(listener, Some((stream, until)));
            }
            Err(_) => return State::Listening(listener, None),
        };
        let memory = fd.filter(|_| hello[..length] == HELLO);
        let memory = memory.and_then(|fd| SharedWords::of_peer(&fd, WORDS).ok());
        match memory {
            Some(memory) if stream.write(&ACCEPTED).is_ok() => {
                State::Connected(Connection::new(stream, memory, false), Some(listener))
            }
            _ => State::Listening(listener, None),
        }
    }

    /// Sends a message. The other end sees it after [`RingLink::flush`].
    ///
    /// # Errors
    /// The reason for which it was not sent.
    pub fn send(&mut self, message: &[u8]) -> Result<(), TxDrop> {
        let State::Connected(connection, _) = &mut self.state else {
            return Err(TxDrop::LinkDown);
        };
        if connection.is_ended {
            return Err(TxDrop::LinkDown);
        }
        match connection.sender.push(message) {
            Ok(()) => Ok(()),
            Err(NotQueued::TooLong) => Err(TxDrop::TooLong),
            Err(NotQueued::Full) => Err(TxDrop::QueueFull),
            Err(NotQueued::Nonsense) => {
                self.disconnect();
                Err(TxDrop::LinkDown)
            }
        }
    }

    /// Shows the other end all messages, and wakes it if it sleeps.
    pub fn flush(&mut self) {
        if let State::Connected(connection, _) = &mut self.state {
            connection.publish();
        }
    }

    /// Ends the connection with an end that writes what cannot be.
    fn disconnect(&mut self) {
        let state = std::mem::replace(&mut self.state, State::Idle(self.next_look));
        if let State::Connected(_, listener) = state {
            self.state = self.ended(self.next_look, listener);
        }
    }

    /// Returns the length of the next message, if there is one.
    pub(super) fn next_length(&mut self) -> Option<usize> {
        let State::Connected(connection, _) = &mut self.state else {
            return None;
        };
        let length = connection.receiver.next_length();
        length.unwrap_or_else(|_| {
            self.disconnect();
            None
        })
    }

    /// Takes the message of this length.
    pub(super) fn take(&mut self, out: &mut [u8]) {
        if let State::Connected(connection, _) = &mut self.state {
            connection.receiver.take(out);
        }
    }

    /// Gives the room of taken messages back.
    pub(super) fn release(&mut self) {
        if let State::Connected(connection, _) = &mut self.state {
            connection.receiver.release();
        }
    }

    /// Passes at most `most` messages that wait to `take`. Returns their number.
    pub fn receive(&mut self, now: Nanos, most: usize, mut take: impl FnMut(&[u8])) -> usize {
        self.tend(now);
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut count = 0;
        while count < most
            && let Some(length) = self.next_length()
        {
            if scratch.len() < length {
                scratch.resize(length, 0);
            }
            self.take(&mut scratch[..length]);
            take(&scratch[..length]);
            count += 1;
        }
        self.scratch = scratch;
        self.release();
        count
    }

    /// Returns the descriptor that is readable when messages wait, or when another end appears or
    /// is gone. Call this immediately before waiting for it. `None` while there is none to wait
    /// for.
    pub fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.slept.set(true);
        match &self.state {
            State::Idle(_) => None,
            State::Listening(_, Some((stream, _))) => Some(stream.as_fd()),
            State::Listening(listener, None) => Some(listener.as_fd()),
            State::Greeting(connection, _) => Some(connection.stream.as_fd()),
            State::Connected(connection, _) => Some(match connection.receiver.before_sleep() {
                true => self.ready.fd(),
                false => connection.stream.as_fd(),
            }),
        }
    }
}

/// Hands new memory over to the end that listens.
fn greet(stream: UnixStream) -> Option<Connection> {
    if !is_own_user(&stream) {
        return None;
    }
    let (memory, fd) = SharedWords::create(WORDS).ok()?;
    let sent = shared::send_with_fd(stream.as_fd(), &HELLO, fd.as_fd()).ok()?;
    (sent == HELLO.len()).then(|| Connection::new(stream, memory, true))
}

/// Returns true if the process at the other end has the user of this one.
fn is_own_user(stream: &UnixStream) -> bool {
    let (user, _) = sys::user_and_group();
    shared::peer_user(stream.as_fd()).is_ok_and(|peer| peer == user)
}
