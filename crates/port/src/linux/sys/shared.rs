//! Memory that two processes share (memfd), and the socket that hands it over.
#![allow(
    unsafe_code,
    reason = "another process may be at the other end of shared memory"
)]

use std::ffi::c_int;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use super::ring::Mapping;
use super::{check, own, socklen};

/// Seals of shared memory: its length is fixed, so no access fails because it was cut.
const SEALS: c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// Words of memory that another thread or process reads and writes, too. All accesses are atomic,
/// so whatever the other side does, a read has some value.
#[derive(Debug)]
pub(in crate::linux) struct SharedWords {
    _map: Mapping,
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the memory belongs to the process, not to a thread.
unsafe impl Send for SharedWords {}

// SAFETY: the memory is only accessed by atomic operations.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Makes memory of `words` zeros. Returns the descriptor that gives it to another process.
    /// Linux 3.17.
    pub(in crate::linux) fn create(words: usize) -> io::Result<(SharedWords, OwnedFd)> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a constant string with its end.
        let fd = own(unsafe { libc::memfd_create(c"polyplane ring".as_ptr(), flags) })?;
        let length = libc::off_t::try_from(words * size_of::<AtomicU64>());
        let length = length.map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: takes numbers only.
        check(unsafe { libc::ftruncate(fd.as_raw_fd(), length) })?;
        // SAFETY: takes numbers only.
        check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, SEALS) })?;
        Ok((SharedWords::map(&fd, words)?, fd))
    }

    /// Maps memory that another process made. It must be sealed and have the length of `words`:
    /// then that process cannot take it away.
    pub(in crate::linux) fn of_peer(fd: &OwnedFd, words: usize) -> io::Result<SharedWords> {
        // SAFETY: takes numbers only.
        let seals = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) })?;
        // SAFETY: all-zero bytes are a valid stat, which has integers only.
        let mut stat: libc::stat = unsafe { mem::zeroed() };
        // SAFETY: the pointer is that of a local variable.
        check(unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) })?;
        let is_whole = u64::try_from(stat.st_size) == Ok((words * size_of::<AtomicU64>()) as u64);
        match seals & SEALS == SEALS && is_whole {
            true => SharedWords::map(fd, words),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn map(fd: &OwnedFd, words: usize) -> io::Result<SharedWords> {
        let length = words * size_of::<AtomicU64>();
        let map = Mapping::of_file(fd, length)?;
        let start = map.place(0, length).ok_or(io::ErrorKind::InvalidData)?;
        Ok(SharedWords {
            start: start.cast(),
            words,
            _map: map,
        })
    }
}

impl AsRef<[AtomicU64]> for SharedWords {
    #[inline]
    fn as_ref(&self) -> &[AtomicU64] {
        // SAFETY:
        // - The mapping has this many words, begins at a page, and lives as long as the reference.
        // - Its pages stay: the file is sealed against a shorter length.
        // - Atomics may change at any time, also by another process.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

/// Connects to a UNIX socket of this name in the abstract namespace, without waiting. The stream
/// does not block.
///
/// # Errors
/// `WouldBlock` if the socket that listens has too many connections that it has not accepted;
/// otherwise no socket of this name listens.
pub(in crate::linux) fn connect_abstract(name: &[u8]) -> io::Result<UnixStream> {
    // SAFETY: all-zero bytes are a valid sockaddr_un, which has integers only.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // The first byte is 0 in this namespace.
    let places = address.sun_path.get_mut(1..=name.len());
    let places = places.ok_or(io::ErrorKind::InvalidInput)?;
    for (place, byte) in places.iter_mut().zip(name) {
        *place = *byte as libc::c_char;
    }
    let length = mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    let fd = super::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0)?;
    // SAFETY: the pointer is that of a local variable, and `length` is at most its size.
    check(unsafe {
        libc::connect(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            length as libc::socklen_t,
        )
    })?;
    Ok(fd.into())
}

/// Room for the control message of one descriptor.
const CONTROL: usize = 64;

/// Memory of a control message, aligned as its header.
#[repr(align(8))]
struct Control([u8; CONTROL]);

/// Sends bytes with a descriptor over a UNIX socket. Returns the number of bytes.
pub(in crate::linux) fn send_with_fd(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fd: BorrowedFd<'_>,
) -> io::Result<usize> {
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut control = Control([0; CONTROL]);
    let number = fd.as_raw_fd();
    // SAFETY:
    // - All-zero bytes are a valid msghdr.
    // - The control message has room for one descriptor: CMSG_SPACE(4) is at most 64, and the
    //   first header is at the aligned start of `control`.
    // - The kernel reads the bytes and the control message during the call only.
    let sent = unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control.0).cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
        libc::CMSG_DATA(header)
            .cast::<c_int>()
            .write_unaligned(number);
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives bytes and the descriptor that came with them. Further descriptors are closed.
pub(in crate::linux) fn receive_with_fd(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut control = Control([0; CONTROL]);
    let mut first = None;
    // SAFETY:
    // - All-zero bytes are a valid msghdr; the kernel writes inside both buffers.
    // - Headers are read only where CMSG_FIRSTHDR and CMSG_NXTHDR return them, that is inside what
    //   the kernel wrote; a message of SCM_RIGHTS has as many descriptors as its length says.
    // - Each descriptor is new in this process, and owned once.
    let received = unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control.0).cast();
        message.msg_controllen = CONTROL as _;
        let received = libc::recvmsg(
            socket.as_raw_fd(),
            &raw mut message,
            libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT,
        );
        let mut header = match received >= 0 {
            true => libc::CMSG_FIRSTHDR(&raw const message),
            false => ptr::null_mut(),
        };
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let data = libc::CMSG_DATA(header).cast::<c_int>();
                let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                for at in 0..bytes / size_of::<c_int>() {
                    let fd = OwnedFd::from_raw_fd(data.add(at).read_unaligned());
                    first.get_or_insert(fd);
                }
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
        received
    };
    match usize::try_from(received) {
        Ok(received) => Ok((received, first)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Returns the user of the process at the other end of a UNIX socket.
pub(in crate::linux) fn peer_user(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = socklen::<libc::ucred>();
    // SAFETY: both pointers refer to local variables, and `length` is the size of the first.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    })?;
    Ok(peer.uid)
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    use packet::Nanos;

    use super::*;
    use crate::RingLink;

    #[test]
    fn an_end_does_not_wait_for_one_that_does_not_accept() {
        let name = format!("test.{}.full", std::process::id());
        let address = format!("polyplane/ring/{name}");
        let listener = SocketAddr::from_abstract_name(&address)
            .and_then(|address| UnixListener::bind_addr(&address))
            .expect("no other test has the name");
        // SAFETY: takes numbers only.
        check(unsafe { libc::listen(listener.as_raw_fd(), 0) }).expect("a shorter queue");
        let mut waiting = Vec::new();
        let refused = loop {
            match connect_abstract(address.as_bytes()) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        let mut link = RingLink::open(&name).expect("the name is one");
        link.tend(Nanos::from_secs(1));
        assert!(!link.is_up());
        // Later the other end accepts.
        drop(waiting);
        drop(listener);
        let mut other = RingLink::open(&name).expect("the name is one");
        for at in (2000..3000).step_by(100).map(Nanos::from_millis) {
            link.tend(at);
            other.tend(at);
        }
        assert!(link.is_up() && other.is_up());
    }
}
