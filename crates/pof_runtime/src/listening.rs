//! The thread that takes connections of controllers.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::PofError;
use crate::connection::carry;
use crate::link::Link;
use crate::mailbox::{Mail, Mailbox};
use crate::tls::{TlsListener, TlsOptions};

/// Maximum number of connections at a time. Further ones are closed at once.
const MAX_CONNECTIONS: usize = 16;

/// Pause after an error of `accept`, such as too many descriptors.
const RETRY: Duration = Duration::from_millis(50);

/// A socket at which a switch or a controller listens.
pub struct Listen {
    listener: TcpListener,
    tls: Option<TlsListener>,
}

impl Listen {
    /// Listens at an address. Port 0 is any free one. An address that other machines reach needs a
    /// certificate of this side and a CA for those of the others.
    ///
    /// # Errors
    /// The address is not available, or is open to anyone.
    pub fn open(address: SocketAddr, tls: &TlsOptions) -> Result<Listen, PofError> {
        let is_guarded = tls.identity.is_some() && tls.ca.is_some();
        if !address.ip().is_loopback() && !is_guarded {
            return Err(PofError::Reachable(address));
        }
        let listener = TcpListener::bind(address);
        Ok(Listen {
            listener: listener.map_err(PofError::system(format!("listen at {address}")))?,
            tls: tls.listener()?,
        })
    }

    /// Returns the address, with the port that the system chose.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn address(&self) -> Result<SocketAddr, PofError> {
        let address = self.listener.local_addr();
        address.map_err(PofError::system("find the address of a socket"))
    }

    /// Waits for a connection.
    pub(crate) fn accept(&self) -> Result<(Link, SocketAddr), PofError> {
        let failed = || PofError::system("take a connection");
        let (socket, peer) = self.listener.accept().map_err(failed())?;
        let tls = self.tls.as_ref().map(TlsListener::begin).transpose();
        let tls = tls.map_err(|error| failed()(std::io::Error::other(error)))?;
        Ok((Link::new(socket, tls).map_err(failed())?, peer))
    }

    /// Takes connections on a thread of its own, each on one more.
    ///
    /// # Errors
    /// The operating system starts no thread.
    pub(crate) fn start(self, mailbox: Arc<Mailbox>) -> Result<(), PofError> {
        std::thread::Builder::new()
            .name("listen".to_owned())
            .spawn(move || self.run(&mailbox))
            .map(drop)
            .map_err(PofError::system("start a thread"))
    }

    fn run(&self, mailbox: &Arc<Mailbox>) {
        let open = Arc::new(AtomicUsize::new(0));
        loop {
            let Ok((link, peer)) = self.accept() else {
                std::thread::sleep(RETRY);
                continue;
            };
            if open.fetch_add(1, Ordering::AcqRel) >= MAX_CONNECTIONS {
                open.fetch_sub(1, Ordering::AcqRel);
                mailbox.send(Mail::Notice(format!(
                    "{peer} is refused: {MAX_CONNECTIONS} controllers are connected"
                )));
                continue;
            }
            let (mailbox, of_thread) = (Arc::clone(mailbox), Arc::clone(&open));
            let started = std::thread::Builder::new()
                .name("controller".to_owned())
                .spawn(move || {
                    carry(link, &peer.to_string(), &mailbox);
                    of_thread.fetch_sub(1, Ordering::AcqRel);
                });
            if started.is_err() {
                open.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}
