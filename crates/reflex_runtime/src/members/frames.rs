//! Messages of members as frames of an interface, by AF_XDP or raw sockets.
//!
//! A message is a UDP datagram, as a socket would send it, so captures and switches on the way can
//! read it. There is no ARP: a message goes to the MAC address that the last message of its
//! receiver came from, and before that to all. So the interfaces of all members are in one network.
//! Messages that are refused, such as those with a wrong tag, change no MAC address.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::BorrowedFd;

use consensus::{MAX_MESSAGE, TAG_BYTES};
use packet::{Batch, Frame, Nanos, PortId};
use port::{Port, PortDriver, PortError, interfaces, open_interface};
use reflex::{DATAGRAM_HEADERS, MemberInterface, datagram, write_datagram};

use super::BATCH;
use crate::error::ProcessError;

/// Bytes of a message and its headers after the one of Ethernet.
const MTU: u32 = (MAX_MESSAGE + TAG_BYTES + DATAGRAM_HEADERS - 14) as u32;
/// Frames that wait for a flush at most.
const MAX_OUTGOING: usize = 1024;
/// Time between two attempts to open an interface again.
const REOPEN: Nanos = Nanos::from_secs(1);
const BROADCAST: [u8; 6] = [0xff; 6];

/// Frames of the interface of a member.
pub(super) struct MemberFrames {
    port: Box<dyn Port>,
    batch: Batch,
    /// Time at which an interface that went away is tried again.
    reopen: Option<Nanos>,
    mac: [u8; 6],
    place: usize,
    addresses: Vec<SocketAddrV4>,
    /// MAC addresses of the last messages of all members.
    macs: Vec<[u8; 6]>,
    outgoing: Vec<Frame>,
    /// Frames of [`MemberFrames::outgoing`] in use.
    count: usize,
    bytes: Vec<u8>,
}

impl fmt::Debug for MemberFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemberFrames({})", self.port.name())
    }
}

impl MemberFrames {
    /// Opens the interface of the member at this place of the store's list.
    pub(super) fn open(
        addresses: &[SocketAddrV4],
        interface: &MemberInterface,
        place: usize,
    ) -> Result<MemberFrames, ProcessError> {
        let name = &interface.name;
        let failed = |error: &dyn fmt::Display| {
            ProcessError(format!(
                "cannot exchange messages of the store by {name}: {error}"
            ))
        };
        let driver = match interface.is_xdp {
            true => PortDriver::Xdp,
            false => PortDriver::Packet,
        };
        let all = interfaces().map_err(|error| failed(&error))?;
        let own = all.iter().find(|it| it.name == *name);
        if let Some(own) = own.filter(|own| own.mtu < MTU) {
            return Err(failed(&format!(
                "its MTU is {}, and messages have up to {MTU} bytes: `ip link set {name} mtu {MTU}`, \
                 and so at all interfaces on the way",
                own.mtu
            )));
        }
        let mut opened =
            open_interface(PortId(0), name, driver, 1).map_err(|error| failed(&error))?;
        let port = opened.shares.pop();
        Ok(MemberFrames {
            port: port.ok_or_else(|| failed(&"it has no share"))?,
            batch: Batch::with_capacity(BATCH),
            reopen: None,
            mac: own.map_or([0; 6], |own| own.address),
            place,
            addresses: addresses.to_vec(),
            macs: vec![BROADCAST; addresses.len()],
            outgoing: Vec::new(),
            count: 0,
            bytes: Vec::with_capacity(DATAGRAM_HEADERS + MAX_MESSAGE + TAG_BYTES),
        })
    }

    /// Passes each message that waits to `take`, which returns true if it is one of a member.
    /// Returns their number.
    pub(super) fn receive(
        &mut self,
        now: Nanos,
        strangers: &mut u64,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> usize {
        if let Some(at) = self.reopen {
            if now < at {
                return 0;
            }
            self.reopen = match self.port.comes_back(now) {
                Some(_) => None,
                None => Some(now + REOPEN),
            };
        }
        self.batch.clear();
        if let Err(PortError::Gone { .. }) = self.port.rx(&mut self.batch, now) {
            self.reopen = Some(now + REOPEN);
        }
        let own = self.addresses[self.place];
        for frame in self.batch.frames() {
            let bytes = frame.bytes();
            let Some((from, port, message)) = datagram(bytes) else {
                continue;
            };
            // A broadcast reaches members that it is not for.
            if port != own.port() || destination(bytes) != Some(*own.ip()) {
                continue;
            }
            let sender = SocketAddrV4::new(from, source_port(bytes));
            match self.addresses.iter().position(|it| *it == sender) {
                Some(member) => {
                    // An address of a forged message would take the member's messages away.
                    if take(message) {
                        self.macs[member].copy_from_slice(&bytes[6..12]);
                    }
                }
                None => *strangers += 1,
            }
        }
        self.batch.len()
    }

    /// Keeps a message for the next flush. Returns false if too many wait.
    pub(super) fn send(&mut self, place: usize, message: &[u8]) -> bool {
        let Some(to) = self.addresses.get(place).copied() else {
            return true;
        };
        if self.count == MAX_OUTGOING {
            return false;
        }
        let from = (self.mac, self.addresses[self.place]);
        write_datagram(&mut self.bytes, from, (self.macs[place], to), message);
        if self.outgoing.len() == self.count {
            self.outgoing.push(Frame::new());
        }
        // It is shorter than the longest frame.
        let is_taken = self.outgoing[self.count].assign(&self.bytes).is_ok();
        self.count += usize::from(is_taken);
        is_taken
    }

    /// Sends the frames that wait. Returns the number of those that were not taken.
    pub(super) fn flush(&mut self) -> u64 {
        if self.count == 0 {
            return 0;
        }
        let outcome = self.port.tx(&self.outgoing[..self.count]);
        let unsent = self.count as u64 - outcome.sent;
        self.count = 0;
        unsent
    }

    /// Returns the descriptor that is readable when messages wait.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self.reopen {
            None => self.port.poll_fd(),
            Some(_) => None,
        }
    }

    pub(super) fn next_time(&self) -> Option<Nanos> {
        self.reopen
    }
}

/// Returns the destination of a frame that is a datagram.
fn destination(frame: &[u8]) -> Option<Ipv4Addr> {
    let address: [u8; 4] = frame.get(30..34)?.try_into().ok()?;
    Some(Ipv4Addr::from(address))
}

/// Returns the UDP source port of a frame that is a datagram.
fn source_port(frame: &[u8]) -> u16 {
    let header = 14 + usize::from(frame[14] & 0x0f) * 4;
    u16::from_be_bytes([frame[header], frame[header + 1]])
}
