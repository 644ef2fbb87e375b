//! The thread that dials a controller again and again.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::PofError;
use crate::address::ControllerAddress;
use crate::back_off::BackOff;
use crate::connection::carry;
use crate::link::Link;
use crate::mailbox::{Mail, Mailbox};
use crate::tls::TlsDialer;

/// Time that one address of a controller may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Ends the waiting of all threads that dial.
#[derive(Default)]
pub(crate) struct Hangup {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl Hangup {
    pub(crate) fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits. Returns true if there is nothing more to dial.
    fn wait(&self, time: Duration) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(is_over, time, |is_over| !*is_over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// A controller that the switch dials.
pub(crate) struct Dialer {
    pub(crate) address: ControllerAddress,
    pub(crate) tls: Option<TlsDialer>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) hangup: Arc<Hangup>,
}

impl Dialer {
    /// Dials on a thread of its own. The thread is not waited for: it may be in the middle of
    /// finding the host's address.
    ///
    /// # Errors
    /// The operating system starts no thread.
    pub(crate) fn start(self) -> Result<(), PofError> {
        std::thread::Builder::new()
            .name("controller".to_owned())
            .spawn(move || self.run())
            .map(drop)
            .map_err(PofError::system("start a thread"))
    }

    fn run(self) {
        let mut back_off = BackOff::new();
        // One line for each time without a controller.
        let mut is_told = false;
        loop {
            match self.connect() {
                Ok(link) => {
                    let begin = Instant::now();
                    if carry(link, &self.address.to_string(), &self.mailbox) {
                        back_off.ended(begin.elapsed());
                    }
                    is_told = false;
                }
                Err(error) if !is_told => {
                    is_told = true;
                    let address = &self.address;
                    let line = format!("controller {address}: {error}; the switch goes on dialing");
                    self.mailbox.send(Mail::Notice(line));
                }
                Err(_) => {}
            }
            if self.hangup.wait(back_off.failed()) {
                return;
            }
        }
    }

    fn connect(&self) -> io::Result<Link> {
        let ControllerAddress { host, port, .. } = &self.address;
        connect((host.as_str(), *port), self.tls.as_ref())
    }
}

/// Connects with the first address of a host that answers.
///
/// # Errors
/// The error of the last address.
pub(crate) fn connect(place: (&str, u16), tls: Option<&TlsDialer>) -> io::Result<Link> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in place.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(socket) => {
                let tls = tls.map(TlsDialer::begin).transpose();
                return Link::new(socket, tls.map_err(io::Error::other)?);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
