//! An AF_XDP socket of one queue, with the memory that its frames are in.
//!
//! A chunk of that memory is always at one place: in the fill ring or being filled, in the rx ring, in
//! our hands, in the tx ring or being sent, in the completion ring. Only what is in our hands is
//! accessed here, which makes the access sound; descriptors that the kernel gives are checked all the
//! same.
#![allow(
    unsafe_code,
    reason = "the kernel is at the other end of shared memory"
)]

use super::ring::{
    Consumer, Mapping, Producer, RingKind, get_xdp_option, make_rings, ring_offsets,
};
use super::{check, set_option, set_option_to, socket, socklen};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Bytes that the kernel keeps free in front of a received frame in its chunk (XDP_PACKET_HEADROOM).
pub(in crate::linux) const KERNEL_HEADROOM: usize = 256;

/// The most chunks of one frame that the kernel sends without the device's help: a buffer's head and
/// all its fragments but one (MAX_SKB_FRAGS is 17).
const MAX_PARTS: usize = 17;

/// Option of Linux 6.17: frames that the kernel sends in one call, in copy mode.
const MAX_TX_SKB_BUDGET: i32 = 9;

const HUGE_PAGE: usize = 2 << 20;

/// What a socket is to be.
#[derive(Clone, Copy, Debug)]
pub(in crate::linux) struct XskConfig {
    /// The interface.
    pub(in crate::linux) index: u32,
    /// Its queue.
    pub(in crate::linux) queue: u32,
    /// Bytes of a chunk: 2048 or 4096.
    pub(in crate::linux) chunk: usize,
    /// Frames that may wait to be received, a power of two.
    pub(in crate::linux) rx: u32,
    /// Frames that may wait to be sent, a power of two.
    pub(in crate::linux) tx: u32,
    /// Whether the device must move the frames itself.
    pub(in crate::linux) zero_copy: bool,
    /// Whether a frame may be in several chunks.
    pub(in crate::linux) scattered: bool,
    /// Whether chunks that the kernel has copied come back with the call that sends them, and nobody reads them any more.
    pub(in crate::linux) returns_at_once: bool,
}

/// Frames that did not come in, since the socket was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::linux) struct XskDrops {
    /// No chunk was free, or the frame did not fit.
    pub(in crate::linux) no_room: u64,
    /// The rx ring was full.
    pub(in crate::linux) ring_full: u64,
}

/// A socket bound to one queue.
pub(in crate::linux) struct Xsk {
    // The order is that of dropping: the memory outlives the socket and its rings.
    fd: OwnedFd,
    rx: Consumer<libc::xdp_desc>,
    tx: Producer<libc::xdp_desc>,
    fill: Producer<u64>,
    completion: Consumer<u64>,
    memory: Mapping,
    chunk: usize,
    scattered: bool,
    zero_copy: bool,
    returns_at_once: bool,
    /// Chunks to send frames in.
    free: Vec<u64>,
    /// Descriptors to send up to here, by the count of the tx ring, have been taken by the kernel:
    /// its own count of them may be behind, and is shown now and then only.
    taken: u32,
    /// Up to here the kernel may have looked at descriptors, taken or not.
    seen: u32,
    /// By chunk, for a moment: whether it has just come back.
    came_back: Vec<bool>,
}

impl Xsk {
    /// Makes the socket and binds it. It receives nothing before a program redirects to it.
    pub(in crate::linux) fn open(config: &XskConfig) -> io::Result<Xsk> {
        let chunks = (config.rx + config.tx) as usize;
        let fd = socket(libc::AF_XDP, libc::SOCK_RAW, 0)?;
        let memory = share_memory(&fd, chunks * config.chunk, config.chunk)?;
        let sizes = [
            (RingKind::Fill, config.rx),
            (RingKind::Completion, config.tx),
            (RingKind::Rx, config.rx),
            (RingKind::Tx, config.tx),
        ];
        make_rings(&fd, &sizes)?;
        let offsets = ring_offsets(&fd)?;
        let mut xsk = Xsk {
            rx: Consumer::new(&fd, RingKind::Rx, config.rx, &offsets)?,
            tx: Producer::new(&fd, RingKind::Tx, config.tx, &offsets)?,
            fill: Producer::new(&fd, RingKind::Fill, config.rx, &offsets)?,
            completion: Consumer::new(&fd, RingKind::Completion, config.tx, &offsets)?,
            fd,
            memory,
            chunk: config.chunk,
            scattered: config.scattered,
            zero_copy: false,
            returns_at_once: config.returns_at_once,
            free: Vec::with_capacity(config.tx as usize),
            taken: 0,
            seen: 0,
            came_back: vec![false; chunks],
        };
        let address = |i: u32| u64::from(i) * config.chunk as u64;
        for i in 0..config.rx {
            xsk.fill.write(address(i));
        }
        xsk.fill.submit();
        xsk.free
            .extend((config.rx..config.rx + config.tx).map(address));
        // Linux 6.17; before it, a call sends fewer frames.
        let budget = config.tx.min(i32::MAX as u32) as i32;
        let _ = set_option(&xsk.fd, libc::SOL_XDP, MAX_TX_SKB_BUDGET, budget);
        xsk.bind(config)?;
        xsk.zero_copy = xsk.options()? & libc::XDP_OPTIONS_ZEROCOPY != 0;
        Ok(xsk)
    }

    fn bind(&self, config: &XskConfig) -> io::Result<()> {
        let mut flags = libc::XDP_USE_NEED_WAKEUP;
        flags |= if config.zero_copy {
            libc::XDP_ZEROCOPY
        } else {
            libc::XDP_COPY
        };
        if config.scattered {
            flags |= libc::XDP_USE_SG;
        }
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: config.index,
            sxdp_queue_id: config.queue,
            sxdp_shared_umem_fd: 0,
        };
        // SAFETY: the pointer and the length are those of `address`, which outlives the call.
        check(unsafe {
            libc::bind(
                self.fd.as_raw_fd(),
                (&raw const address).cast(),
                socklen::<libc::sockaddr_xdp>(),
            )
        })
        .map(drop)
    }

    fn options(&self) -> io::Result<u32> {
        let mut options = libc::xdp_options { flags: 0 };
        get_xdp_option(&self.fd, libc::XDP_OPTIONS, &mut options)?;
        Ok(options.flags)
    }

    /// Lets the kernel poll the device for up to `budget` frames whenever it is called for this socket,
    /// instead of by interrupts (Linux 5.11).
    pub(in crate::linux) fn set_busy_poll(&self, microseconds: u32, budget: u32) -> io::Result<()> {
        const SO_PREFER_BUSY_POLL: i32 = 69;
        const SO_BUSY_POLL_BUDGET: i32 = 70;
        set_option(&self.fd, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, 1)?;
        set_option(
            &self.fd,
            libc::SOL_SOCKET,
            libc::SO_BUSY_POLL,
            microseconds as i32,
        )?;
        set_option(
            &self.fd,
            libc::SOL_SOCKET,
            SO_BUSY_POLL_BUDGET,
            budget as i32,
        )
    }

    /// Whether the device moves the frames itself.
    pub(in crate::linux) fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Whether the memory is in huge pages.
    pub(in crate::linux) fn is_huge(&self) -> bool {
        self.memory.is_huge()
    }

    /// Whether frames have arrived.
    #[inline]
    pub(in crate::linux) fn has_received(&mut self) -> bool {
        self.rx.available() > 0
    }

    /// The descriptor that becomes readable when frames arrive.
    pub(in crate::linux) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Hands frames that have arrived to `take`, in order, until there is none or it says that it does
    /// not take one more, which stays. Then the kernel has all their chunks again.
    #[inline]
    pub(in crate::linux) fn receive(&mut self, mut take: impl FnMut(&Packet<'_>) -> bool) {
        let available = self.rx.available();
        let mut done = 0;
        while done < available {
            let Some(parts) = self.whole(done, available) else {
                break;
            };
            if !take(&Packet {
                xsk: self,
                first: done,
                parts,
            }) {
                break;
            }
            done += parts;
        }
        if done == 0 {
            return;
        }
        for i in 0..done {
            // The fill ring has as many entries as there are chunks to receive in.
            let address = self.rx.get(i).addr & !(self.chunk as u64 - 1);
            self.fill.write(address);
        }
        self.fill.submit();
        self.rx.release(done);
        if !self.zero_copy {
            self.ask_for_next();
        }
    }

    /// Asks the processor for the memory to which the kernel will copy the beginning of the next frame: it was last used as many frames ago as the fill ring has chunks, and is far.
    #[inline]
    fn ask_for_next(&mut self) {
        let next = self.fill.next_taken();
        let place = next.and_then(|next| self.memory.place(next as usize + KERNEL_HEADROOM, 1));
        if let Some(place) = place {
            prefetch(place);
        }
    }

    /// Descriptors of the frame that starts at `first`; none if its end has not come yet.
    #[inline]
    fn whole(&self, first: u32, available: u32) -> Option<u32> {
        let last = |i: &u32| self.rx.get(*i).options & libc::XDP_PKT_CONTD == 0;
        let end = (first..available).find(last)?;
        Some(end - first + 1)
    }

    /// Lets the kernel look for frames, if it waits for that.
    #[inline]
    pub(in crate::linux) fn wake_rx(&mut self) {
        if self.fill.needs_wakeup() {
            self.poll_device();
        }
    }

    /// Lets the kernel look for frames. What hinders it, an error tells with the next frame.
    pub(in crate::linux) fn poll_device(&self) {
        // SAFETY: a receive of zero bytes touches no memory.
        unsafe {
            libc::recvfrom(
                self.fd.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
    }

    /// Whether a frame of this length can be sent at all.
    pub(in crate::linux) fn can_carry(&self, len: usize) -> bool {
        let parts = if self.scattered { MAX_PARTS } else { 1 };
        len <= self.chunk * parts
    }

    /// Copies a frame of a length that can be carried to where the kernel will send it from when it is
    /// told to by [`Xsk::transmit`]; whether there was room.
    #[inline]
    pub(in crate::linux) fn queue(&mut self, bytes: &[u8]) -> bool {
        let parts = bytes.len().div_ceil(self.chunk);
        debug_assert!(self.can_carry(bytes.len()) && parts > 0);
        if self.free.len() < parts {
            self.reclaim();
        }
        if self.free.len() < parts || !self.tx.has_room(parts as u32) {
            return false;
        }
        let mut rest = bytes;
        while let Some(address) = self.free.pop() {
            let (part, behind) = rest.split_at(rest.len().min(self.chunk));
            rest = behind;
            self.put(address, part);
            let options = if rest.is_empty() {
                0
            } else {
                libc::XDP_PKT_CONTD
            };
            self.tx.write(libc::xdp_desc {
                addr: address,
                len: part.len() as u32,
                options,
            });
            if rest.is_empty() {
                break;
            }
        }
        true
    }

    /// Copies bytes into a chunk that is in our hands.
    #[inline]
    fn put(&mut self, address: u64, bytes: &[u8]) {
        let Some(place) = self.memory.place(address as usize, bytes.len()) else {
            // No address that we have given out is outside.
            debug_assert!(false, "a chunk outside the memory");
            return;
        };
        // SAFETY: the place has room for the bytes, inside a chunk that neither the kernel nor any
        // reference uses.
        unsafe {
            place.copy_from_nonoverlapping(std::ptr::NonNull::from(bytes).cast(), bytes.len())
        };
    }

    /// Takes back the chunks of frames that are sent.
    pub(in crate::linux) fn reclaim(&mut self) {
        loop {
            let n = self.completion.available();
            if n == 0 {
                return;
            }
            for i in 0..n {
                let address = self.completion.get(i) & !(self.chunk as u64 - 1);
                self.free.push(address);
            }
            self.completion.release(n);
        }
    }

    /// Has the kernel send what is queued; `lost` is given the length of each frame that it took
    /// and did not send. What it does not take now waits for the next call.
    ///
    /// # Errors
    /// The link is down or gone. What the kernel has not looked at is taken back, and lost.
    pub(in crate::linux) fn transmit(&mut self, mut lost: impl FnMut(usize)) -> io::Result<()> {
        self.tx.submit();
        // Each turn ends this, or gets further in the ring.
        loop {
            if !self.tx.needs_wakeup() {
                return Ok(());
            }
            let before = self.pending();
            if before == 0 {
                return Ok(());
            }
            let called = self.call_to_send();
            let error = called.as_ref().err().and_then(io::Error::raw_os_error);
            // The device takes frames when it has time to, and tells nobody of those that it drops.
            if self.zero_copy {
                return match error {
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => Ok(()),
                    _ => called,
                };
            }
            if error == Some(libc::EBUSY) {
                lost(self.take_refused());
            }
            // The next frame goes where the last one was, which is near.
            if self.returns_at_once {
                self.reclaim();
            }
            match error {
                None | Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => {
                    self.seen = self.tx.written();
                    // There are more than the kernel sends in a call, or than it tried.
                    if self.pending() == before {
                        return Ok(());
                    }
                }
                Some(libc::ENETDOWN | libc::ENXIO) => {
                    self.take_back(self.seen, &mut lost);
                    return called;
                }
                Some(_) => {
                    self.seen = self.tx.written();
                    return called;
                }
            }
        }
    }

    /// The kernel has taken so many descriptors more.
    fn took(&mut self, more: u32) {
        let pending = self.tx.written().wrapping_sub(self.taken);
        self.taken = self.taken.wrapping_add(more.min(pending));
    }

    /// Descriptors to send that the kernel has not taken.
    fn pending(&mut self) -> u32 {
        let unshown = self.tx.pending();
        let written = self.tx.written();
        if written.wrapping_sub(self.taken) > unshown {
            self.taken = written.wrapping_sub(unshown);
        }
        written.wrapping_sub(self.taken)
    }

    /// Finds the frame that the kernel has taken and not sent, when it has just said so: the last
    /// that it took. Its chunks have come back, while those behind it in the ring have not. Its
    /// length.
    #[cold]
    fn take_refused(&mut self) -> usize {
        // As it was before the call: the kernel may have shown its count since.
        let pending = self.tx.written().wrapping_sub(self.taken);
        let chunk = |address: u64, size: usize| address as usize / size;
        let first = self.free.len();
        self.reclaim();
        for address in &self.free[first..] {
            if let Some(place) = self.came_back.get_mut(chunk(*address, self.chunk)) {
                *place = true;
            }
        }
        let (start, size) = (self.taken, self.chunk);
        let is_back = |n: &u32| {
            let address = self.tx.get(start.wrapping_add(*n)).addr;
            self.came_back.get(chunk(address, size)) == Some(&true)
        };
        let last = (0..pending).rev().find(is_back);
        for address in &self.free[first..] {
            if let Some(place) = self.came_back.get_mut(chunk(*address, self.chunk)) {
                *place = false;
            }
        }
        // A kernel that gives the chunks back later has shown that it took the frame, or it was the
        // first.
        match last {
            Some(last) => self.took(last + 1),
            None if self.pending() < pending => {}
            None => self.took(self.frame_at(start, pending).0),
        }
        self.frame_before(self.taken)
    }

    /// Descriptors and bytes of the frame that starts at this count, of so many that there are.
    fn frame_at(&self, count: u32, pending: u32) -> (u32, usize) {
        let mut len = 0;
        for n in 0..pending {
            let desc = self.tx.get(count.wrapping_add(n));
            len += desc.len as usize;
            if desc.options & libc::XDP_PKT_CONTD == 0 {
                return (n + 1, len);
            }
        }
        (pending, len)
    }

    /// Bytes of the frame that ends before this count.
    fn frame_before(&self, count: u32) -> usize {
        let mut count = count.wrapping_sub(1);
        let mut len = self.tx.get(count).len as usize;
        for _ in 1..MAX_PARTS {
            count = count.wrapping_sub(1);
            let desc = self.tx.get(count);
            if desc.options & libc::XDP_PKT_CONTD == 0 {
                break;
            }
            len += desc.len as usize;
        }
        len
    }

    /// Takes frames from this count on, which the kernel has not looked at, back from the tx ring.
    #[cold]
    fn take_back(&mut self, from: u32, lost: &mut impl FnMut(usize)) {
        let mut at = from;
        while at != self.tx.written() {
            let left = self.tx.written().wrapping_sub(at);
            let (parts, len) = self.frame_at(at, left);
            for n in 0..parts {
                self.free.push(self.tx.get(at.wrapping_add(n)).addr);
            }
            lost(len);
            at = at.wrapping_add(parts);
        }
        self.tx.take_back(from);
    }

    /// Gives up what is queued, as the interface does not exist any more; `lost` is given the
    /// length of each frame.
    #[cold]
    pub(in crate::linux) fn give_up(&mut self, mut lost: impl FnMut(usize)) {
        let pending = self.pending();
        let mut left = pending;
        while left > 0 {
            let (parts, len) = self.frame_at(self.tx.written().wrapping_sub(left), left);
            lost(len);
            left -= parts;
        }
        self.taken = self.tx.written();
    }

    fn call_to_send(&self) -> io::Result<()> {
        // SAFETY: a message of zero bytes without an address: no memory is touched.
        let sent = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            )
        };
        if sent < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Whether frames wait for the kernel to be called again.
    pub(in crate::linux) fn has_pending(&mut self) -> bool {
        self.pending() > 0
    }

    /// Frames that the kernel could not hand over.
    pub(in crate::linux) fn drops(&self) -> io::Result<XskDrops> {
        // SAFETY: all-zero bytes are a valid xdp_statistics, which has integers only.
        let mut all: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        get_xdp_option(&self.fd, libc::XDP_STATISTICS, &mut all)?;
        Ok(XskDrops {
            no_room: all.rx_dropped,
            ring_full: all.rx_ring_full,
        })
    }
}

/// Asks the processor for a line of memory.
#[inline]
fn prefetch(place: std::ptr::NonNull<u8>) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint: nothing is read that the program sees. SSE, which has it, is part of every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.as_ptr().cast_const().cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// A frame that has arrived, in one chunk or several.
pub(in crate::linux) struct Packet<'a> {
    xsk: &'a Xsk,
    first: u32,
    parts: u32,
}

impl<'a> Packet<'a> {
    /// The frame's bytes, part by part.
    #[inline]
    pub(in crate::linux) fn parts(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        (self.first..self.first + self.parts).map(|i| self.xsk.bytes(i))
    }

    /// The frame's bytes, if they are in one part.
    #[inline]
    pub(in crate::linux) fn bytes(&self) -> Option<&'a [u8]> {
        (self.parts == 1).then(|| self.xsk.bytes(self.first))
    }
}

impl Xsk {
    /// The bytes of the `i`-th descriptor that is available; none if they are outside the memory.
    #[inline]
    fn bytes(&self, i: u32) -> &[u8] {
        let desc = self.rx.get(i);
        let len = desc.len as usize;
        match self.memory.place(desc.addr as usize, len) {
            // SAFETY: the place is inside the memory, which is initialised; the chunk is in our hands
            // until the descriptor is released, which needs `&mut self`.
            Some(place) => unsafe { std::slice::from_raw_parts(place.as_ptr(), len) },
            None => &[],
        }
    }
}

/// Gives the socket memory for so many bytes of chunks: in huge pages if there are enough, which saves the
/// processor looking pages up, else in usual ones.
///
/// Nothing may touch huge pages before the socket has them: a group's limit for them kills who does, but
/// is an error to the socket.
fn share_memory(fd: &OwnedFd, len: usize, chunk: usize) -> io::Result<Mapping> {
    let share = |memory: Mapping| register(fd, &memory, chunk).map(|()| memory);
    let whole = len.next_multiple_of(HUGE_PAGE);
    let huge = Mapping::anonymous(whole, true).and_then(share);
    huge.or_else(|_| Mapping::anonymous(len, false).and_then(share))
}

/// Gives the memory to the socket.
fn register(fd: &OwnedFd, memory: &Mapping, chunk: usize) -> io::Result<()> {
    let request = libc::xdp_umem_reg {
        addr: memory.address(),
        len: memory.len() as u64,
        chunk_size: chunk as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set_option_to(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &request)
}

/// Has the kernel and the caller wait for all of `fds` at one descriptor.
pub(in crate::linux) fn join_fds<'a>(
    fds: impl IntoIterator<Item = BorrowedFd<'a>>,
) -> io::Result<OwnedFd> {
    // SAFETY: takes and returns numbers only.
    let joined = super::own(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    for fd in fds {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 0,
        };
        // SAFETY: the pointer is to a local variable, which the kernel copies.
        check(unsafe {
            libc::epoll_ctl(
                joined.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                fd.as_raw_fd(),
                &raw mut event,
            )
        })?;
    }
    Ok(joined)
}
