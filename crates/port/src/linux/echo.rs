//! ICMP echo requests (ping).

use super::segment::internet_checksum;
use super::sys;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

/// Length of an ICMP echo header, in bytes.
const HEADER: usize = 8;

const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST: u8 = 8;

/// A raw socket that sends echo requests to one host and receives the replies.
#[derive(Debug)]
pub struct EchoSocket {
    /// A raw socket. The standard library's UDP type provides safe `connect`, `send` and `recv`
    /// for it.
    socket: UdpSocket,
    identifier: u16,
}

impl EchoSocket {
    /// Opens a socket to `host` in the calling thread's network namespace. `identifier`
    /// distinguishes its replies from those to other sockets.
    ///
    /// # Errors
    /// Those of the operating system: no CAP_NET_RAW, or no route to the host.
    pub fn open(host: Ipv4Addr, identifier: u16) -> io::Result<EchoSocket> {
        let raw = sys::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)?;
        let socket = UdpSocket::from(raw);
        socket.connect((host, 0))?;
        Ok(EchoSocket { socket, identifier })
    }

    /// Sends a request with this sequence number and payload.
    ///
    /// # Errors
    /// Those of the operating system, such as a payload that does not fit into a packet.
    pub fn request(&self, sequence: u16, payload: &[u8]) -> io::Result<()> {
        let mut message = vec![ECHO_REQUEST, 0, 0, 0];
        message.extend(self.identifier.to_be_bytes());
        message.extend(sequence.to_be_bytes());
        message.extend(payload);
        let checksum = internet_checksum(&message);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        self.socket.send(&message).map(drop)
    }

    /// Waits for the reply to the request with this sequence number, at most for `timeout`.
    /// Returns true if it came with the same payload. Other replies are skipped.
    ///
    /// # Errors
    /// Those of the operating system, such as a host reported as unreachable.
    pub fn wait_reply(&self, sequence: u16, payload: &[u8], timeout: Duration) -> io::Result<bool> {
        let start = std::time::Instant::now();
        let mut packet = [0; 65536];
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            self.socket.set_read_timeout(Some(left))?;
            match self.socket.recv(&mut packet) {
                Ok(len) => {
                    if self.is_reply(&packet[..len], sequence, payload) {
                        return Ok(true);
                    }
                }
                Err(e) if is_timeout(e.kind()) => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Returns true if `packet`, which starts with its IPv4 header, is the reply.
    fn is_reply(&self, packet: &[u8], sequence: u16, payload: &[u8]) -> bool {
        let header_len = packet.first().map_or(0, |b| usize::from(b & 0xf) * 4);
        let Some(message) = packet.get(header_len..) else {
            return false;
        };
        let Some((header, sent)) = message.split_first_chunk::<HEADER>() else {
            return false;
        };
        let [kind, code, _, _, i0, i1, s0, s1] = *header;
        (kind, code) == (ECHO_REPLY, 0)
            && u16::from_be_bytes([i0, i1]) == self.identifier
            && u16::from_be_bytes([s0, s1]) == sequence
            && sent == payload
            && internet_checksum(message) == 0
    }
}

fn is_timeout(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(kind, WouldBlock | TimedOut | Interrupted)
}
