//! UDP sockets of programs that must not receive damaged datagrams.

use super::sys;
use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;

/// Bytes of datagrams, with the kernel's own data, that may wait to be received.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Bytes of datagrams, with the kernel's own data, that may wait to be sent: some full ones. What
/// waits here is neither repeated nor replaced, so it must not wait long.
const SEND_BUFFER: usize = 16 << 10;

/// Opens a UDP socket that never blocks and receives only datagrams with a verified checksum.
/// The kernel would pass on those with checksum 0 without a look at their bytes.
///
/// # Errors
/// The address is not the machine's, or another program has the port.
pub fn bind_datagrams(address: SocketAddrV4) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    sys::refuse_without_checksum(socket.as_fd())?;
    sys::set_receive_buffer(socket.as_fd(), RECEIVE_BUFFER)?;
    sys::set_send_buffer(socket.as_fd(), SEND_BUFFER)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn datagrams_of_the_same_machine_arrive_and_nothing_blocks() {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        let [a, b] = [address; 2].map(|address| bind_datagrams(address).unwrap());
        let mut buffer = [0; 8];
        let nothing = b.recv_from(&mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        a.send_to(b"hello", b.local_addr().unwrap()).unwrap();
        let (len, from) = b.recv_from(&mut buffer).unwrap();
        assert_eq!(
            (&buffer[..len], from),
            (&b"hello"[..], a.local_addr().unwrap())
        );
    }
}
