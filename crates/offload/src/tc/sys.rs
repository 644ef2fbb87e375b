//! Access to the kernel: the only place of this module that makes system calls.

use std::io;

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// Size of the receive queue. An overrun is handled, but costs a dump.
pub(super) const RECEIVE_BUFFER: usize = 1 << 20;

/// Room for an answer. The kernel makes none above 32 KiB.
const ANSWER: usize = 64 << 10;

/// A way for requests and answers: the kernel, or a test's stand-in.
pub(super) trait Transport {
    /// Sends a request.
    fn send(&mut self, request: &[u8]) -> io::Result<()>;

    /// Waits for one datagram of answers.
    fn receive(&mut self) -> io::Result<Vec<u8>>;

    /// Discards the datagrams that are there.
    fn discard(&mut self) -> io::Result<()>;
}

/// A socket of rtnetlink with extended acknowledgements. Needs Linux 4.12.
pub(super) struct Rtnetlink(Socket);

impl Rtnetlink {
    /// Opens a socket in the calling thread's network namespace, with a receive queue of this size
    /// in bytes.
    pub(super) fn open(receive_buffer: usize) -> io::Result<Rtnetlink> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_ext_ack(true)?;
        socket.set_cap_ack(true)?;
        socket.set_rx_buf_sz(i32::try_from(receive_buffer).unwrap_or(i32::MAX))?;
        Ok(Rtnetlink(socket))
    }
}

impl Transport for Rtnetlink {
    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.0.send(request, 0).map(|_| ())
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut answer = Vec::with_capacity(ANSWER);
        self.0.recv(&mut answer, 0)?;
        Ok(answer)
    }

    fn discard(&mut self) -> io::Result<()> {
        self.0.set_non_blocking(true)?;
        let mut buffer = Vec::with_capacity(ANSWER);
        let result = loop {
            buffer.clear();
            match self.0.recv(&mut buffer, 0) {
                Ok(_) => {}
                Err(e) if e.raw_os_error() == Some(ENOBUFS) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(e) => break Err(e),
            }
        };
        self.0.set_non_blocking(false)?;
        result
    }
}

/// The error number by which a socket says that answers are lost.
pub(super) const ENOBUFS: i32 = 105;
