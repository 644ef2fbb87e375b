//! A connection's thread: it carries bytes between its socket and the loop.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use port::Poller;
use support::wakeup::WakeupFd;

use crate::link::{Link, Received};
use crate::mailbox::{Mail, Mailbox};

/// Bytes that wait for the loop, above which no more are read: the controller has to wait.
pub(crate) const MAX_INBOUND: usize = 64 << 10;

/// Bytes that wait for the socket, above which the loop keeps what follows.
const MAX_OUTBOUND: usize = 256 << 10;

/// Time for the last bytes of a connection that is closed.
const LINGER: Duration = Duration::from_secs(2);

/// Bytes between a socket and the loop.
pub(crate) struct Pipe {
    state: Mutex<State>,
    wakeup: WakeupFd,
}

#[derive(Default)]
struct State {
    inbound: Vec<u8>,
    outbound: VecDeque<u8>,
    /// True if the loop has closed the connection: it ends when all bytes are sent.
    is_closing: bool,
    /// True if the socket, which was full, has taken bytes since the loop looked.
    has_progress: bool,
    /// True once the controller has shown that it speaks the protocol.
    is_greeted: bool,
}

impl Pipe {
    /// # Errors
    /// Those of the operating system, such as too many descriptors.
    pub(crate) fn new() -> io::Result<Pipe> {
        Ok(Pipe {
            state: Mutex::default(),
            wakeup: WakeupFd::new()?,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what came from the controller.
    pub(crate) fn take_inbound(&self) -> Vec<u8> {
        let bytes = std::mem::take(&mut self.state().inbound);
        if bytes.len() >= MAX_INBOUND {
            // The thread reads again.
            self.wakeup.wake();
        }
        bytes
    }

    /// Returns true if bytes of the controller wait for the loop.
    pub(crate) fn has_inbound(&self) -> bool {
        !self.state().inbound.is_empty()
    }

    /// Returns true if bytes for the controller may be added.
    pub(crate) fn has_room(&self) -> bool {
        self.state().outbound.len() < MAX_OUTBOUND
    }

    /// Adds bytes for the controller.
    pub(crate) fn send(&self, bytes: &[u8]) {
        self.state().outbound.extend(bytes);
        self.wakeup.wake();
    }

    /// Returns true if the controller has read since the last call, as a full socket shows that
    /// takes bytes again.
    pub(crate) fn take_progress(&self) -> bool {
        std::mem::take(&mut self.state().has_progress)
    }

    /// Ends the connection after the bytes that wait.
    pub(crate) fn close(&self) {
        self.state().is_closing = true;
        self.wakeup.wake();
    }

    /// Says that the controller speaks the protocol.
    pub(crate) fn greet(&self) {
        self.state().is_greeted = true;
    }

    pub(crate) fn is_greeted(&self) -> bool {
        self.state().is_greeted
    }
}

/// Carries the bytes of a connection until it ends. The loop learns of its beginning and its end.
/// Returns true if the controller spoke the protocol.
pub(crate) fn carry(mut link: Link, name: &str, mailbox: &Mailbox) -> bool {
    let id = mailbox.next_id();
    let pipe = match Pipe::new() {
        Ok(pipe) => Arc::new(pipe),
        Err(error) => {
            mailbox.send(Mail::Notice(format!("{name}: no connection: {error}")));
            return false;
        }
    };
    mailbox.send(Mail::Opened {
        id,
        name: name.to_owned(),
        pipe: Arc::clone(&pipe),
    });
    let reason = match carry_bytes(&mut link, &pipe, mailbox) {
        Ok(reason) => reason.to_owned(),
        Err(error) => error.to_string(),
    };
    mailbox.send(Mail::Closed { id, reason });
    pipe.is_greeted()
}

/// Returns the reason of the end.
fn carry_bytes(link: &mut Link, pipe: &Pipe, mailbox: &Mailbox) -> io::Result<&'static str> {
    let mut poller = Poller::new();
    let mut incoming = Vec::new();
    let mut pending = Vec::new();
    // Number of the pending bytes that were sent.
    let mut gone = 0;
    let mut has_unsent = false;
    let mut closing_since: Option<Instant> = None;
    loop {
        let is_closing = closing_since.is_some();
        if !is_closing && receive(link, pipe, &mut incoming)? {
            mailbox.wakeup().wake();
        } else if !is_closing && link.is_at_end() {
            return Ok("the controller closed the connection");
        }
        {
            let mut state = pipe.state();
            if pending.is_empty() && !state.outbound.is_empty() {
                let was_full = state.outbound.len() >= MAX_OUTBOUND;
                pending.extend(state.outbound.drain(..));
                if was_full {
                    mailbox.wakeup().wake();
                }
            }
            if state.is_closing {
                closing_since.get_or_insert_with(Instant::now);
            }
        }
        let sent = link.send(&pending[gone..])?;
        gone += sent;
        if has_unsent && sent > 0 {
            pipe.state().has_progress = true;
        }
        if gone == pending.len() {
            pending.clear();
            gone = 0;
        }
        has_unsent = !pending.is_empty() || link.has_unsent();
        if let Some(since) = closing_since
            && (!has_unsent && pipe.state().outbound.is_empty() || since.elapsed() >= LINGER)
        {
            end(link, &mut poller)?;
            return Ok("the switch closed the connection");
        }
        // Wait for bytes, for room, or for the loop.
        let wakeup = pipe.wakeup.before_sleep();
        let (has_news, may_read) = {
            let state = pipe.state();
            let has_output = pending.is_empty() && !state.outbound.is_empty();
            let has_news = has_output || state.is_closing && closing_since.is_none();
            let may_read = closing_since.is_none() && state.inbound.len() < MAX_INBOUND;
            (has_news, may_read)
        };
        if !has_news {
            let fd = link.fd();
            let readable = may_read.then_some(fd);
            let room = has_unsent.then_some(fd);
            let timeout = match closing_since {
                Some(_) => LINGER,
                None => Duration::from_secs(3600),
            };
            let fds = readable.into_iter().chain([wakeup]);
            poller.wait_with_room(fds, room, timeout)?;
        }
        pipe.wakeup.after_sleep();
    }
}

/// Moves bytes from the socket to the loop, as many as there is room for. Returns true if there
/// were any.
fn receive(link: &mut Link, pipe: &Pipe, incoming: &mut Vec<u8>) -> io::Result<bool> {
    let waiting = pipe.state().inbound.len();
    while waiting + incoming.len() < MAX_INBOUND {
        if link.receive(incoming)? != Received::Bytes {
            break;
        }
    }
    let came = !incoming.is_empty();
    pipe.state().inbound.append(incoming);
    Ok(came)
}

/// Ends a connection. What still comes is read, since a socket that is closed before would take
/// back the last bytes that were sent.
fn end(link: &mut Link, poller: &mut Poller) -> io::Result<()> {
    link.end();
    let since = Instant::now();
    let mut ignored = Vec::new();
    while since.elapsed() < LINGER {
        ignored.clear();
        match link.receive(&mut ignored)? {
            Received::Bytes => {}
            Received::Nothing => drop(poller.wait([link.fd()], LINGER)?),
            Received::End => break,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// A connection with the mailbox of its switch.
    fn begin() -> (TcpStream, Arc<Mailbox>, Arc<Pipe>, pof::SessionId) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = Link::new(listener.accept().unwrap().0, None).unwrap();
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let of_thread = Arc::clone(&mailbox);
        std::thread::spawn(move || carry(near, "test", &of_thread));
        let Mail::Opened { id, pipe, .. } = next(&mailbox) else {
            panic!("not opened");
        };
        (far, mailbox, pipe, id)
    }

    /// Waits for news.
    fn next(mailbox: &Mailbox) -> Mail {
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(20) {
            if let Some(mail) = mailbox.take() {
                return mail;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("no news");
    }

    #[test]
    fn bytes_reach_the_other_side_also_those_before_the_end() {
        let (mut far, mailbox, pipe, _) = begin();
        far.write_all(b"hello").unwrap();
        let mut came = Vec::new();
        while came.len() < 5 {
            came.extend(pipe.take_inbound());
        }
        assert_eq!(came, b"hello");
        pipe.send(&[7; 300_000]);
        pipe.close();
        // These are never read by the loop.
        far.write_all(b"more").unwrap();
        let mut all = Vec::new();
        far.read_to_end(&mut all).unwrap();
        assert_eq!(all, [7; 300_000]);
        drop(far);
        assert!(matches!(next(&mailbox), Mail::Closed { .. }));
    }

    #[test]
    fn a_controller_that_floods_has_to_wait_until_the_loop_takes() {
        let (far, mailbox, pipe, opened) = begin();
        far.set_nonblocking(true).unwrap();
        let mut far = far;
        let mut written = 0;
        let mut since = Instant::now();
        while since.elapsed() < Duration::from_millis(300) {
            if let Ok(count) = far.write(&[1; 65_536]) {
                written += count;
                since = Instant::now();
            }
        }
        let waits = pipe.state().inbound.len();
        assert!((MAX_INBOUND..2 * MAX_INBOUND).contains(&waits), "{waits}");
        drop(far);
        let mut came = 0;
        while came < written {
            came += pipe.take_inbound().len();
        }
        assert_eq!(came, written);
        assert!(matches!(next(&mailbox), Mail::Closed { id, .. } if id == opened));
    }
}
