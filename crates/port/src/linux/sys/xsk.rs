//! An AF_XDP socket of one queue, with its packet memory (UMEM).
//!
//! A chunk of that memory has exactly one owner at a time: the fill ring or the kernel receiving
//! into it, the RX ring, this process, the TX ring or the kernel sending it, or the completion
//! ring. This module accesses only chunks owned by this process, so the access is sound.
//! Descriptors from the kernel are bounds-checked nevertheless.
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

/// Bytes that the kernel reserves before a received frame in its chunk (XDP_PACKET_HEADROOM).
pub(in crate::linux) const KERNEL_HEADROOM: usize = 256;

/// Maximum number of chunks per frame that the kernel sends without support by the device: the
/// head of a socket buffer and all its fragments except one (MAX_SKB_FRAGS is 17).
const MAX_PARTS: usize = 17;

/// Socket option of Linux 6.17: number of frames that the kernel sends per call, in copy mode.
const MAX_TX_SKB_BUDGET: i32 = 9;

const HUGE_PAGE: usize = 2 << 20;

/// Configuration of a socket.
#[derive(Clone, Copy, Debug)]
pub(in crate::linux) struct XskConfig {
    /// Index of the interface.
    pub(in crate::linux) index: u32,
    /// Number of its queue.
    pub(in crate::linux) queue: u32,
    /// Size of a chunk in bytes: 2048 or 4096.
    pub(in crate::linux) chunk: usize,
    /// Capacity for received frames, a power of two.
    pub(in crate::linux) rx: u32,
    /// Capacity for frames to be sent, a power of two.
    pub(in crate::linux) tx: u32,
    /// True if the device must transfer the frames by DMA (zero copy).
    pub(in crate::linux) zero_copy: bool,
    /// True if a frame may occupy several chunks.
    pub(in crate::linux) scattered: bool,
    /// True if chunks that the kernel has copied are returned by the call that sends them, and
    /// nothing reads them afterwards.
    pub(in crate::linux) returns_at_once: bool,
}

/// Counters of frames that were not received, since the socket was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::linux) struct XskDrops {
    /// Frames for which no chunk was free, or that did not fit.
    pub(in crate::linux) no_room: u64,
    /// Frames dropped because the RX ring was full.
    pub(in crate::linux) ring_full: u64,
}

/// A socket bound to one queue.
pub(in crate::linux) struct Xsk {
    // Field order is drop order: the memory must outlive the socket and its rings.
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
    /// Free chunks for frames to be sent.
    free: Vec<u64>,
    /// Number of TX descriptors that the kernel is known to have consumed. The kernel's own
    /// counter may be lower, because it is published only occasionally.
    taken: u32,
    /// Number of TX descriptors that the kernel may have read, consumed or not.
    seen: u32,
    /// Temporary flags, by chunk: the chunk has just been returned.
    came_back: Vec<bool>,
}

impl Xsk {
    /// Creates the socket and binds it. It receives nothing before an XDP program redirects to it.
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
        // Linux 6.17. Earlier kernels send fewer frames per call.
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
        // SAFETY: pointer and length are those of `address`, which outlives the call.
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

    /// Lets the kernel poll the device for up to `budget` frames whenever it is called for this
    /// socket, instead of using interrupts (Linux 5.11).
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

    /// Returns true if the device transfers the frames by DMA.
    pub(in crate::linux) fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Returns true if the memory is in huge pages.
    pub(in crate::linux) fn is_huge(&self) -> bool {
        self.memory.is_huge()
    }

    /// Returns true if received frames are available.
    #[inline]
    pub(in crate::linux) fn has_received(&mut self) -> bool {
        self.rx.available() > 0
    }

    /// Returns the descriptor that becomes readable when frames arrive.
    pub(in crate::linux) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Passes received frames to `take`, in order, until there are no more or `take` returns
    /// false. The refused frame stays in the ring. Then all consumed chunks are returned to the
    /// kernel.
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
            // The fill ring has as many entries as there are receive chunks, so the kernel has
            // taken an entry for each received one. It publishes received entries before that, so
            // the ring may look full here for a moment.
            let address = self.rx.get(i).addr & !(self.chunk as u64 - 1);
            self.fill.write(address);
        }
        self.fill.submit();
        self.rx.release(done);
        if !self.zero_copy {
            self.ask_for_next();
        }
    }

    /// Prefetches the memory to which the kernel will copy the start of the next frame. It was
    /// last used one fill ring length ago, so it is not in the cache.
    #[inline]
    fn ask_for_next(&mut self) {
        let next = self.fill.next_taken();
        let place = next.and_then(|next| self.memory.place(next as usize + KERNEL_HEADROOM, 1));
        if let Some(place) = place {
            prefetch(place);
        }
    }

    /// Returns the number of descriptors of the frame that starts at `first`. Returns `None` if
    /// its end has not arrived yet.
    #[inline]
    fn whole(&self, first: u32, available: u32) -> Option<u32> {
        let last = |i: &u32| self.rx.get(*i).options & libc::XDP_PKT_CONTD == 0;
        let end = (first..available).find(last)?;
        Some(end - first + 1)
    }

    /// Makes the kernel receive frames, if it waits for a call.
    #[inline]
    pub(in crate::linux) fn wake_rx(&mut self) {
        if self.fill.needs_wakeup() {
            self.poll_device();
        }
    }

    /// Makes the kernel receive frames. Errors are ignored: a later call reports them.
    pub(in crate::linux) fn poll_device(&self) {
        // SAFETY: a receive of zero bytes accesses no memory.
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

    /// Returns true if a frame of this length can be sent at all.
    pub(in crate::linux) fn can_carry(&self, len: usize) -> bool {
        let parts = if self.scattered { MAX_PARTS } else { 1 };
        len <= self.chunk * parts
    }

    /// Copies a frame of a supported length to the TX ring, from which [`Xsk::transmit`] sends it.
    /// Returns false if the ring or the chunks are exhausted.
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
            debug_assert!(self.tx.has_room(1));
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

    /// Copies bytes into a chunk owned by this process.
    #[inline]
    fn put(&mut self, address: u64, bytes: &[u8]) {
        let Some(place) = self.memory.place(address as usize, bytes.len()) else {
            // All addresses in use are inside the memory.
            debug_assert!(false, "a chunk outside the memory");
            return;
        };
        // SAFETY:
        // - The bytes fit inside the chunk.
        // - Neither the kernel nor any reference uses the chunk.
        unsafe {
            place.copy_from_nonoverlapping(std::ptr::NonNull::from(bytes).cast(), bytes.len())
        };
    }

    /// Reclaims the chunks of frames that have been sent.
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

    /// Makes the kernel send the queued frames. `lost` is called with the length of each frame
    /// that the kernel consumed but did not send. Frames that the kernel does not consume now stay
    /// queued for the next call.
    ///
    /// # Errors
    /// The link is down or gone. Frames that the kernel has not read are withdrawn and lost.
    pub(in crate::linux) fn transmit(&mut self, mut lost: impl FnMut(usize)) -> io::Result<()> {
        self.tx.submit();
        // Each iteration ends the loop or makes progress in the ring.
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
            // A zero-copy device consumes frames asynchronously and does not report dropped ones.
            if self.zero_copy {
                return match error {
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => Ok(()),
                    _ => called,
                };
            }
            if error == Some(libc::EBUSY) {
                lost(self.take_refused());
            }
            // The next frame reuses the chunk of the last one, which is in the cache.
            if self.returns_at_once {
                self.reclaim();
            }
            match error {
                None | Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => {
                    self.seen = self.tx.written();
                    // No progress: more frames are queued than the kernel sends per call, or than
                    // it tried.
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

    /// Adds `more` descriptors to those that the kernel has consumed.
    fn took(&mut self, more: u32) {
        let pending = self.tx.written().wrapping_sub(self.taken);
        self.taken = self.taken.wrapping_add(more.min(pending));
    }

    /// Returns the number of TX descriptors that the kernel has not consumed.
    fn pending(&mut self) -> u32 {
        let unshown = self.tx.pending();
        let written = self.tx.written();
        if written.wrapping_sub(self.taken) > unshown {
            self.taken = written.wrapping_sub(unshown);
        }
        written.wrapping_sub(self.taken)
    }

    /// Finds the frame that the kernel has just reported as consumed but not sent, and returns its
    /// length. It is the last consumed frame: its chunks have been returned, while those after it
    /// in the ring have not.
    #[cold]
    fn take_refused(&mut self) -> usize {
        // The value before the call. The kernel may have published its counter since.
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
        // A kernel that returns chunks later either has published that it consumed the frame, or
        // the frame was the first one.
        match last {
            Some(last) => self.took(last + 1),
            None if self.pending() < pending => {}
            None => self.took(self.frame_at(start, pending).0),
        }
        self.frame_before(self.taken)
    }

    /// Returns the numbers of descriptors and bytes of the frame that starts at descriptor
    /// `count`. `pending` is the number of descriptors from there.
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

    /// Returns the length of the frame that ends before descriptor `count`.
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

    /// Withdraws the frames from descriptor `from` on, which the kernel has not read, from the TX
    /// ring.
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

    /// Discards the queued frames of an interface that no longer exists. `lost` is called with the
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
        // SAFETY: sends a message of zero bytes without an address, so no memory is accessed.
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

    /// Returns true if queued frames need another call of the kernel.
    pub(in crate::linux) fn has_pending(&mut self) -> bool {
        self.pending() > 0
    }

    /// Returns the counters of frames that the kernel could not deliver.
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

/// Prefetches a cache line.
#[inline]
fn prefetch(place: std::ptr::NonNull<u8>) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint without visible effects. It is part of SSE, which every
        // x86-64 has.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.as_ptr().cast_const().cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// A received frame, in one chunk or several.
pub(in crate::linux) struct Packet<'a> {
    xsk: &'a Xsk,
    first: u32,
    parts: u32,
}

impl<'a> Packet<'a> {
    /// Iterates over the parts of the frame, one per chunk.
    #[inline]
    pub(in crate::linux) fn parts(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        (self.first..self.first + self.parts).map(|i| self.xsk.bytes(i))
    }

    /// Returns the frame's bytes, if they are in one chunk.
    #[inline]
    pub(in crate::linux) fn bytes(&self) -> Option<&'a [u8]> {
        (self.parts == 1).then(|| self.xsk.bytes(self.first))
    }
}

impl Xsk {
    /// Returns the bytes of the `i`-th available descriptor, or an empty slice if they are outside
    /// the memory.
    #[inline]
    fn bytes(&self, i: u32) -> &[u8] {
        let desc = self.rx.get(i);
        let len = desc.len as usize;
        match self.memory.place(desc.addr as usize, len) {
            // SAFETY:
            // - The bytes are inside the memory, which is initialized.
            // - This process owns the chunk until the descriptor is released, which needs
            //   `&mut self`.
            Some(place) => unsafe { std::slice::from_raw_parts(place.as_ptr(), len) },
            None => &[],
        }
    }
}

/// Allocates `len` bytes of packet memory and registers it with the socket. Huge pages are
/// preferred, because they cause fewer TLB misses. Normal pages are the fallback.
///
/// Huge pages must not be touched before they are registered. If the control group's limit is
/// exceeded, touching them kills the process, while registering them only fails.
fn share_memory(fd: &OwnedFd, len: usize, chunk: usize) -> io::Result<Mapping> {
    let share = |memory: Mapping| register(fd, &memory, chunk).map(|()| memory);
    let whole = len.next_multiple_of(HUGE_PAGE);
    let huge = Mapping::anonymous(whole, true).and_then(share);
    huge.or_else(|_| Mapping::anonymous(len, false).and_then(share))
}

/// Registers the memory with the socket.
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

/// Returns one descriptor (epoll) that is readable if any of `fds` is.
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
        // SAFETY: the pointer refers to a local variable, which the kernel copies.
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
