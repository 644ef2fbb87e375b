//! Memory shared with the kernel or another process, and the rings of an AF_XDP socket.
#![allow(
    unsafe_code,
    reason = "the kernel is at the other end of shared memory"
)]

use super::check;
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// A memory mapping (mmap), unmapped on drop.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    is_huge: bool,
}

// SAFETY: a mapping belongs to the process, not to a thread, and is unmapped once.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` zero bytes. If `huge`, they are in huge pages, or the call fails.
    pub(super) fn anonymous(len: usize, huge: bool) -> io::Result<Mapping> {
        let pages = if huge { libc::MAP_HUGETLB } else { 0 };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | pages;
        map(len, flags, -1, 0)
    }

    /// Maps the part of a socket's memory at `offset`.
    fn of_socket(fd: &OwnedFd, len: usize, offset: libc::off_t) -> io::Result<Mapping> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        map(len, flags, fd.as_raw_fd(), offset)
    }

    /// Maps the first `len` bytes of a file in memory, shared with others that map it.
    pub(super) fn of_file(fd: &OwnedFd, len: usize) -> io::Result<Mapping> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        map(len, flags, fd.as_raw_fd(), 0)
    }

    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_huge(&self) -> bool {
        self.is_huge
    }

    /// Returns the address `offset` bytes after the start, if the `len` bytes from there are
    /// inside the mapping.
    #[inline]
    pub(super) fn place(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(len)?;
        // SAFETY: the address is inside the mapping, or directly after it if `len` is 0.
        (end <= self.len).then(|| unsafe { self.start.add(offset) })
    }
}

fn map(len: usize, flags: c_int, fd: c_int, offset: libc::off_t) -> io::Result<Mapping> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: requests a new mapping at any free address, so it replaces no other mapping.
    let start = unsafe { libc::mmap(ptr::null_mut(), len, access, flags, fd, offset) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
    let is_huge = flags & libc::MAP_HUGETLB != 0;
    Ok(Mapping {
        start,
        len,
        is_huge,
    })
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast::<c_void>(), self.len) };
    }
}

/// One of a socket's four rings. It determines the option that creates the ring and the offset at
/// which it is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingKind {
    /// Empty chunks for the kernel to receive into.
    Fill,
    /// Chunks of frames that have been sent.
    Completion,
    /// Received frames.
    Rx,
    /// Frames to be sent.
    Tx,
}

impl RingKind {
    fn option(self) -> c_int {
        match self {
            RingKind::Fill => libc::XDP_UMEM_FILL_RING,
            RingKind::Completion => libc::XDP_UMEM_COMPLETION_RING,
            RingKind::Rx => libc::XDP_RX_RING,
            RingKind::Tx => libc::XDP_TX_RING,
        }
    }

    fn page_offset(self) -> libc::off_t {
        match self {
            RingKind::Fill => libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t,
            RingKind::Completion => libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t,
            RingKind::Rx => libc::XDP_PGOFF_RX_RING,
            RingKind::Tx => libc::XDP_PGOFF_TX_RING,
        }
    }

    fn offsets(self, all: &libc::xdp_mmap_offsets) -> libc::xdp_ring_offset {
        match self {
            RingKind::Fill => all.fr,
            RingKind::Completion => all.cr,
            RingKind::Rx => all.rx,
            RingKind::Tx => all.tx,
        }
    }
}

/// A ring shared with the kernel. Its number of entries is a power of two. Both sides count
/// entries from zero, with wrap-around. Entries between the two counters are in the ring.
struct Ring<T> {
    _map: Mapping,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
}

// SAFETY: the ring refers only to its mapping, and its methods need `&mut` to change entries.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Maps the ring of `size` entries, a power of two, that [`make_rings`] created. `T` must be
    /// the kernel's entry type of this kind of ring.
    fn new(
        fd: &OwnedFd,
        kind: RingKind,
        size: u32,
        offsets: &libc::xdp_mmap_offsets,
    ) -> io::Result<Ring<T>> {
        let offsets = kind.offsets(offsets);
        let [producer, consumer, flags, entries] = [
            offsets.producer,
            offsets.consumer,
            offsets.flags,
            offsets.desc,
        ]
        .map(|at| at as usize);
        let entries_len = size as usize * size_of::<T>();
        let map = Mapping::of_socket(fd, entries + entries_len, kind.page_offset())?;
        let place = |offset: usize, len: usize| {
            let inside = map.place(offset, len);
            inside.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
        };
        Ok(Ring {
            producer: place(producer, 4)?.cast(),
            consumer: place(consumer, 4)?.cast(),
            flags: place(flags, 4)?.cast(),
            entries: place(entries, entries_len)?.cast(),
            size,
            _map: map,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY:
        // - The kernel has placed an aligned counter here.
        // - The mapping lives as long as the ring.
        // - Both sides access the counter atomically.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.consumer.as_ref() }
    }

    fn flags(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.flags.as_ref() }
    }

    #[inline]
    fn entry(&self, count: u32) -> NonNull<T> {
        // SAFETY: the masked index is below the size, so the entry is inside the ring.
        unsafe { self.entries.add((count & (self.size - 1)) as usize) }
    }
}

/// The producer side of a ring that this process writes: fill and TX.
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// Number of entries written.
    written: u32,
    /// Number of entries that the kernel is known to have consumed.
    taken: u32,
}

impl<T: Copy> Producer<T> {
    pub(super) fn new(
        fd: &OwnedFd,
        kind: RingKind,
        size: u32,
        offsets: &libc::xdp_mmap_offsets,
    ) -> io::Result<Producer<T>> {
        Ok(Producer {
            ring: Ring::new(fd, kind, size, offsets)?,
            written: 0,
            taken: 0,
        })
    }

    /// Returns true if `n` more entries fit.
    #[inline]
    pub(super) fn has_room(&mut self, n: u32) -> bool {
        let room = |this: &Self| this.ring.size - this.written.wrapping_sub(this.taken);
        if room(self) < n {
            self.taken = self.ring.consumer().load(Ordering::Acquire);
        }
        room(self) >= n
    }

    /// Writes an entry, which the kernel does not see before [`Producer::submit`]. The kernel must
    /// have taken the entry that was in its place, whether it has published that or not.
    #[inline]
    pub(super) fn write(&mut self, entry: T) {
        let place = self.ring.entry(self.written);
        // SAFETY: the entry is inside the ring, and the kernel does not read it before it is
        // submitted.
        unsafe { place.write(entry) };
        self.written = self.written.wrapping_add(1);
    }

    /// Publishes the written entries to the kernel.
    #[inline]
    pub(super) fn submit(&mut self) {
        self.ring.producer().store(self.written, Ordering::Release);
    }

    /// Returns the number of entries that the kernel has not yet reported as consumed.
    pub(super) fn pending(&mut self) -> u32 {
        self.taken = self.ring.consumer().load(Ordering::Acquire);
        self.written.wrapping_sub(self.taken)
    }

    /// Returns the total number of entries written, with wrap-around.
    #[inline]
    pub(super) fn written(&self) -> u32 {
        self.written
    }

    /// Returns the entry with this number. It must have been written and not yet overwritten.
    #[inline]
    pub(super) fn get(&self, count: u32) -> T {
        let place = self.ring.entry(count);
        // SAFETY:
        // - The entry is inside the ring.
        // - This process has written it, and the kernel only reads it. Before the first write it
        //   is zero.
        // - Any bytes are a valid `T`.
        unsafe { place.read() }
    }

    /// Withdraws the entries from number `from` on, which the kernel must not have read.
    pub(super) fn take_back(&mut self, from: u32) {
        self.written = from;
        self.submit();
    }

    /// Returns the entry that the kernel will consume next, or `None` if it has consumed all.
    #[inline]
    pub(super) fn next_taken(&mut self) -> Option<T> {
        let pending = self.pending();
        let place = self.ring.entry(self.taken);
        // SAFETY: the entry is inside the ring. This process has written it, and the kernel only
        // reads it.
        (pending > 0).then(|| unsafe { place.read() })
    }

    /// Returns true if the kernel consumes entries only after a system call.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// The consumer side of a ring that this process reads: completion and RX.
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// Number of entries read and released.
    read: u32,
    /// Number of entries that the kernel is known to have written.
    written: u32,
}

impl<T: Copy> Consumer<T> {
    pub(super) fn new(
        fd: &OwnedFd,
        kind: RingKind,
        size: u32,
        offsets: &libc::xdp_mmap_offsets,
    ) -> io::Result<Consumer<T>> {
        Ok(Consumer {
            ring: Ring::new(fd, kind, size, offsets)?,
            read: 0,
            written: 0,
        })
    }

    /// Returns the number of available entries. Checks for new ones if there are none.
    #[inline]
    pub(super) fn available(&mut self) -> u32 {
        if self.written == self.read {
            self.written = self.ring.producer().load(Ordering::Acquire);
        }
        self.written.wrapping_sub(self.read)
    }

    /// Returns the `i`-th available entry.
    #[inline]
    pub(super) fn get(&self, i: u32) -> T {
        debug_assert!(i < self.written.wrapping_sub(self.read));
        let place = self.ring.entry(self.read.wrapping_add(i));
        // SAFETY:
        // - The entry is inside the ring.
        // - The kernel has written it and does not change it before it is released.
        // - Any bytes are a valid `T`, which consists of integers.
        unsafe { place.read() }
    }

    /// Releases the first `n` entries.
    #[inline]
    pub(super) fn release(&mut self, n: u32) {
        self.read = self.read.wrapping_add(n);
        self.ring.consumer().store(self.read, Ordering::Release);
    }
}

/// Creates rings of these sizes, which are powers of two.
pub(super) fn make_rings(fd: &OwnedFd, sizes: &[(RingKind, u32)]) -> io::Result<()> {
    for (kind, size) in sizes {
        super::set_option(fd, libc::SOL_XDP, kind.option(), *size as c_int)?;
    }
    Ok(())
}

/// Returns the offsets of each ring's parts in its mapping.
pub(super) fn ring_offsets(fd: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: all-zero bytes are a valid xdp_mmap_offsets, which has integers only.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let len = get_xdp_option(fd, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    if len < size_of::<libc::xdp_mmap_offsets>() {
        // Linux before 5.4 has no flags.
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    Ok(offsets)
}

/// Reads an option of an AF_XDP socket into `value`, which must consist of integers as the option
/// defines. Returns the number of bytes that the kernel has filled in.
pub(super) fn get_xdp_option<T>(fd: &OwnedFd, name: c_int, value: &mut T) -> io::Result<usize> {
    let mut len = super::socklen::<T>();
    // SAFETY: both pointers refer to valid variables, and `len` is the size of the first.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            name,
            (&raw mut *value).cast(),
            &raw mut len,
        )
    })?;
    Ok(len as usize)
}
