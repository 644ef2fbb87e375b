//! The socket by which a member of a store exchanges messages with those in other processes.

use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use consensus::MAX_MESSAGE;
use port::bind_datagrams;

use crate::error::ProcessError;

/// Messages that one call receives at most.
const BATCH: usize = 256;

/// Socket of a member.
#[derive(Debug)]
pub(crate) struct MemberSocket {
    socket: UdpSocket,
    addresses: Vec<SocketAddrV4>,
    buffer: Box<[u8; MAX_MESSAGE + 1]>,
    /// Datagrams of addresses that are no member's.
    pub(crate) strangers: u64,
    /// Messages that the kernel did not take. They are repeated when they are missed.
    pub(crate) unsent: u64,
}

impl MemberSocket {
    /// Opens the socket of the member at this place of the list.
    pub(crate) fn open(
        addresses: &[SocketAddrV4],
        place: usize,
    ) -> Result<MemberSocket, ProcessError> {
        let address = addresses[place];
        let socket = bind_datagrams(address).map_err(|error| {
            ProcessError(format!(
                "cannot receive messages of the store at {address}: {error}; give the node an address of this machine, with a free port"
            ))
        })?;
        Ok(MemberSocket {
            socket,
            addresses: addresses.to_vec(),
            buffer: Box::new([0; MAX_MESSAGE + 1]),
            strangers: 0,
            unsent: 0,
        })
    }

    /// Passes each message that waits to `take`. Returns their number.
    pub(crate) fn receive(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        for count in 0..BATCH {
            // An error is that of an earlier message to a member that is away.
            let received = match self.socket.recv_from(&mut self.buffer[..]) {
                Ok(received) => received,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return count,
                Err(_) => continue,
            };
            let (length, from) = received;
            let is_member = match from {
                SocketAddr::V4(from) => self.addresses.contains(&from),
                SocketAddr::V6(_) => false,
            };
            match is_member {
                true => take(&self.buffer[..length]),
                false => self.strangers += 1,
            }
        }
        BATCH
    }

    /// Sends a message to the member at a place of the list.
    pub(crate) fn send(&mut self, place: usize, message: &[u8]) {
        if let Some(to) = self.addresses.get(place) {
            let sent = self.socket.send_to(message, to);
            self.unsent += u64::from(sent.is_err());
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
