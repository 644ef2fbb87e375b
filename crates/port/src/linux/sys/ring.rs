//! Memory shared with the kernel, and the rings of an AF_XDP socket in it.
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

/// Memory from mmap, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    is_huge: bool,
}

// SAFETY: a mapping belongs to the process, not to a thread, and is unmapped once.
unsafe impl Send for Mapping {}

impl Mapping {
    /// `len` bytes of zeros, in huge pages or not at all if `huge`.
    pub(super) fn anonymous(len: usize, huge: bool) -> io::Result<Mapping> {
        let pages = if huge { libc::MAP_HUGETLB } else { 0 };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | pages;
        map(len, flags, -1, 0)
    }

    /// The part of a socket's memory at `offset`.
    fn of_socket(fd: &OwnedFd, len: usize, offset: libc::off_t) -> io::Result<Mapping> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        map(len, flags, fd.as_raw_fd(), offset)
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

    /// The place `offset` bytes behind the start, if `len` bytes from there are inside.
    #[inline]
    pub(super) fn place(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(len)?;
        // SAFETY: the place is inside the mapping, or right behind it if `len` is 0.
        (end <= self.len).then(|| unsafe { self.start.add(offset) })
    }
}

fn map(len: usize, flags: c_int, fd: c_int, offset: libc::off_t) -> io::Result<Mapping> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: asks for a new mapping wherever there is room: it covers no other.
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
        // SAFETY: this is the mapping's start and length, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast::<c_void>(), self.len) };
    }
}

/// Which of a socket's four rings: the option that makes it and where it is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingKind {
    /// Chunks for the kernel to fill.
    Fill,
    /// Chunks whose frames are sent.
    Completion,
    /// Frames that have arrived.
    Rx,
    /// Frames to send.
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

/// A ring of a power of two entries, shared with the kernel. Both ends count entries from zero on, and
/// wrap: what is between the counts is in the ring.
struct Ring<T> {
    _map: Mapping,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
}

// SAFETY: the ring refers to its own mapping only, and its methods need `&mut` to touch the entries.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Makes the ring of `size` entries, a power of two, and maps it. `T` must be what the kernel has
    /// in a ring of this kind.
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
        // SAFETY: the kernel has put this counter here, aligned, in a mapping that lives as long as the
        // ring, and both ends access it atomically. So for the next two.
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
        // SAFETY: the masked count is below the size: inside the entries.
        unsafe { self.entries.add((count & (self.size - 1)) as usize) }
    }
}

/// The end of a ring that we write: fill and tx.
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// Entries written.
    written: u32,
    /// Entries that the kernel is known to have taken.
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

    /// Whether there is room for `n` more entries.
    #[inline]
    pub(super) fn has_room(&mut self, n: u32) -> bool {
        let room = |this: &Self| this.ring.size - this.written.wrapping_sub(this.taken);
        if room(self) < n {
            self.taken = self.ring.consumer().load(Ordering::Acquire);
        }
        room(self) >= n
    }

    /// Writes an entry, which the kernel does not see yet; there must be room for it.
    #[inline]
    pub(super) fn write(&mut self, entry: T) {
        debug_assert!(self.has_room(1));
        let place = self.ring.entry(self.written);
        // SAFETY: the place is inside the ring, and the kernel reads it only when it is submitted.
        unsafe { place.write(entry) };
        self.written = self.written.wrapping_add(1);
    }

    /// Shows the kernel what is written.
    #[inline]
    pub(super) fn submit(&mut self) {
        self.ring.producer().store(self.written, Ordering::Release);
    }

    /// Entries that the kernel has not said it has taken.
    pub(super) fn pending(&mut self) -> u32 {
        self.taken = self.ring.consumer().load(Ordering::Acquire);
        self.written.wrapping_sub(self.taken)
    }

    /// How many entries were written from the beginning on; wraps.
    #[inline]
    pub(super) fn written(&self) -> u32 {
        self.written
    }

    /// The entry of this count, which was written and is not overwritten yet.
    #[inline]
    pub(super) fn get(&self, count: u32) -> T {
        let place = self.ring.entry(count);
        // SAFETY: the place is inside the ring, and we have written the entry, which the kernel
        // only
        // reads. Before the first round it holds zeros, and any bytes are a valid `T`.
        unsafe { place.read() }
    }

    /// Takes entries from this count on back, which the kernel has not looked at.
    pub(super) fn take_back(&mut self, from: u32) {
        self.written = from;
        self.submit();
    }

    /// The entry that the kernel takes next; none if it has taken all.
    #[inline]
    pub(super) fn next_taken(&mut self) -> Option<T> {
        let pending = self.pending();
        let place = self.ring.entry(self.taken);
        // SAFETY: the place is inside the ring, and we have written the entry, which the kernel only reads.
        (pending > 0).then(|| unsafe { place.read() })
    }

    /// Whether the kernel takes entries only when it is called.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// The end of a ring that we read: completion and rx.
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// Entries read and given back.
    read: u32,
    /// Entries that the kernel is known to have written.
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

    /// Looks for new entries if there are none; how many there are.
    #[inline]
    pub(super) fn available(&mut self) -> u32 {
        if self.written == self.read {
            self.written = self.ring.producer().load(Ordering::Acquire);
        }
        self.written.wrapping_sub(self.read)
    }

    /// The `i`-th entry, which must be available.
    #[inline]
    pub(super) fn get(&self, i: u32) -> T {
        debug_assert!(i < self.written.wrapping_sub(self.read));
        let place = self.ring.entry(self.read.wrapping_add(i));
        // SAFETY: the place is inside the ring, and the kernel has written the entry and does not change
        // it before it is given back. Any bytes are a valid `T`, which is plain integers.
        unsafe { place.read() }
    }

    /// Gives the first `n` entries back.
    #[inline]
    pub(super) fn release(&mut self, n: u32) {
        self.read = self.read.wrapping_add(n);
        self.ring.consumer().store(self.read, Ordering::Release);
    }
}

/// Asks for rings of these sizes, powers of two.
pub(super) fn make_rings(fd: &OwnedFd, sizes: &[(RingKind, u32)]) -> io::Result<()> {
    for (kind, size) in sizes {
        super::set_option(fd, libc::SOL_XDP, kind.option(), *size as c_int)?;
    }
    Ok(())
}

/// Where the parts of each ring are in its mapping.
pub(super) fn ring_offsets(fd: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: all-zero bytes are a valid xdp_mmap_offsets, which has integers only.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let len = get_xdp_option(fd, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    if len < size_of::<libc::xdp_mmap_offsets>() {
        // Before Linux 5.4 there were no flags.
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    Ok(offsets)
}

/// Reads an option of an AF_XDP socket into `value`, which must be plain integers as the option defines
/// them; how many bytes the kernel has filled in.
pub(super) fn get_xdp_option<T>(fd: &OwnedFd, name: c_int, value: &mut T) -> io::Result<usize> {
    let mut len = super::socklen::<T>();
    // SAFETY: both pointers are to variables of the caller's, and `len` is the size of the first.
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
