//! The way by which a member of a store exchanges messages with those in other processes: a UDP
//! socket, frames of an interface, or rings in shared memory.

mod frames;

use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use consensus::{MAX_MESSAGE, TAG_BYTES};
use packet::Nanos;
use port::{RingLink, bind_datagrams};
use reflex::{MemberTransport, StoreSpec};

use crate::error::ProcessError;
use crate::message_tag::MessageTag;
use frames::MemberFrames;

/// Messages that one call receives at most of a socket, or of each ring.
const BATCH: usize = 256;

/// Way to the other members.
#[derive(Debug)]
pub(crate) struct MemberLinks {
    way: Way,
    tag: Option<MessageTag>,
    /// A message with its tag.
    tagged: Vec<u8>,
    /// Messages without the tag of the key.
    pub(crate) forged: u64,
    /// Datagrams of addresses that are no member's.
    pub(crate) strangers: u64,
    /// Messages that were not taken. They are repeated when they are missed.
    pub(crate) unsent: u64,
}

#[derive(Debug)]
enum Way {
    Socket(MemberSocket),
    Frames(MemberFrames),
    /// A ring to each other member; `None` at the own place.
    Rings(Vec<Option<RingLink>>),
}

/// Socket of a member.
#[derive(Debug)]
struct MemberSocket {
    socket: UdpSocket,
    addresses: Vec<SocketAddrV4>,
    buffer: Box<[u8; MAX_MESSAGE + TAG_BYTES + 1]>,
}

impl MemberLinks {
    /// Opens the way of the member at this place of the store's list. Relative files are in
    /// `folder`.
    pub(crate) fn open(
        store: &StoreSpec,
        place: usize,
        folder: &Path,
    ) -> Result<MemberLinks, ProcessError> {
        let key = store.key_file.as_ref();
        let tag = key.map(|file| MessageTag::read(&folder.join(file)));
        let tag = tag.transpose()?;
        let way = match &store.transport {
            MemberTransport::OneProcess => {
                return Err(ProcessError(
                    "the loop file has no `addresses` or `ring` of the store, so all its nodes are in one process: run it without the name of a member".to_owned(),
                ));
            }
            MemberTransport::Udp(addresses) => Way::Socket(MemberSocket::open(addresses, place)?),
            MemberTransport::Frames(addresses, interfaces) => {
                let frames = MemberFrames::open(addresses, &interfaces[place], place);
                Way::Frames(frames?)
            }
            MemberTransport::Rings(name) => {
                let ring = |at: usize| {
                    let ends = [at.min(place), at.max(place)].map(|end| &store.nodes[end]);
                    let name = format!("{name}.{}.{}", ends[0], ends[1]);
                    let opened = RingLink::open(&name);
                    opened.map_err(|error| {
                        ProcessError(format!("cannot exchange messages of the store: {error}"))
                    })
                };
                let rings = 0..store.nodes.len();
                let rings = rings.map(|at| (at != place).then(|| ring(at)).transpose());
                Way::Rings(rings.collect::<Result<_, _>>()?)
            }
        };
        Ok(MemberLinks {
            way,
            tag,
            tagged: Vec::with_capacity(MAX_MESSAGE + TAG_BYTES),
            forged: 0,
            strangers: 0,
            unsent: 0,
        })
    }

    /// Passes each message that waits to `take`, which returns true if it is one of the store.
    /// Returns their number.
    pub(crate) fn receive(&mut self, now: Nanos, mut take: impl FnMut(&[u8]) -> bool) -> usize {
        let (tag, forged) = (&self.tag, &mut self.forged);
        let mut take = |bytes: &[u8]| match tag {
            None => take(bytes),
            Some(tag) => match tag.checked(bytes) {
                Some(message) => take(message),
                None => {
                    *forged += 1;
                    false
                }
            },
        };
        match &mut self.way {
            Way::Socket(socket) => socket.receive(&mut self.strangers, |bytes: &[u8]| {
                take(bytes);
            }),
            Way::Frames(frames) => frames.receive(now, &mut self.strangers, take),
            Way::Rings(rings) => {
                let rings = rings.iter_mut().flatten();
                let mut take = |bytes: &[u8]| {
                    take(bytes);
                };
                rings.map(|ring| ring.receive(now, BATCH, &mut take)).sum()
            }
        }
    }

    /// Sends a message to the member at a place of the list. A ring shows it at the next
    /// [`MemberLinks::flush`].
    pub(crate) fn send(&mut self, place: usize, message: &[u8]) {
        let message = match &self.tag {
            None => message,
            Some(tag) => {
                self.tagged.clear();
                self.tagged.extend_from_slice(message);
                tag.append(&mut self.tagged);
                &self.tagged
            }
        };
        let is_sent = match &mut self.way {
            Way::Socket(socket) => socket.send(place, message),
            Way::Frames(frames) => frames.send(place, message),
            Way::Rings(rings) => match rings.get_mut(place) {
                Some(Some(ring)) => ring.send(message).is_ok(),
                Some(None) | None => true,
            },
        };
        self.unsent += u64::from(!is_sent);
    }

    /// Shows others all messages.
    pub(crate) fn flush(&mut self) {
        match &mut self.way {
            Way::Socket(_) => {}
            Way::Frames(frames) => self.unsent += frames.flush(),
            Way::Rings(rings) => rings.iter_mut().flatten().for_each(RingLink::flush),
        }
    }

    /// Returns the descriptors that are readable when messages wait. Call this immediately before
    /// waiting for them.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (one, rings) = match &self.way {
            Way::Socket(socket) => (Some(socket.socket.as_fd()), &[][..]),
            Way::Frames(frames) => (frames.fd(), &[][..]),
            Way::Rings(rings) => (None, &rings[..]),
        };
        let rings = rings.iter().flatten().filter_map(RingLink::poll_fd);
        one.into_iter().chain(rings)
    }

    /// Returns the time at which an interface that went away is tried again.
    pub(crate) fn next_time(&self) -> Option<Nanos> {
        match &self.way {
            Way::Frames(frames) => frames.next_time(),
            Way::Socket(_) | Way::Rings(_) => None,
        }
    }
}

impl MemberSocket {
    fn open(addresses: &[SocketAddrV4], place: usize) -> Result<MemberSocket, ProcessError> {
        let address = addresses[place];
        let socket = bind_datagrams(address).map_err(|error| {
            ProcessError(format!(
                "cannot receive messages of the store at {address}: {error}; give the node an address of this machine, with a free port"
            ))
        })?;
        Ok(MemberSocket {
            socket,
            addresses: addresses.to_vec(),
            buffer: Box::new([0; MAX_MESSAGE + TAG_BYTES + 1]),
        })
    }

    fn receive(&mut self, strangers: &mut u64, mut take: impl FnMut(&[u8])) -> usize {
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
                false => *strangers += 1,
            }
        }
        BATCH
    }

    fn send(&self, place: usize, message: &[u8]) -> bool {
        match self.addresses.get(place) {
            Some(to) => self.socket.send_to(message, to).is_ok(),
            None => true,
        }
    }
}
