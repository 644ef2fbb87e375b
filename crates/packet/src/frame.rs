//! Frames: packet bytes with headroom for headers that a program adds.

use crate::Nanos;
use std::fmt;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Minimum headroom of a new frame in bytes: space for several tunnel headers.
pub const HEADROOM: usize = 128;

/// Default capacity of a new buffer after its headroom, in bytes: an Ethernet frame with several
/// VLAN tags.
pub const DEFAULT_FRAME: usize = 2048;

/// Number of different start offsets of new frames (cache colouring). Allocators align buffers to a
/// power of two. Frames with equal offsets would then share an eighth of a cache, or less.
const COLOURS: usize = 7;

/// Size of a cache line in bytes: the distance between two start offsets.
const LINE: usize = 64;

// For any of these sizes jemalloc allocates 2560 bytes anyway.
const _: () = assert!(HEADROOM + (COLOURS - 1) * LINE + DEFAULT_FRAME <= 2560);

/// Maximum length of a frame in bytes. It is well above jumbo frames (9216 bytes and tags), and at
/// least as large as any frame that a Linux interface delivers.
pub const MAX_FRAME: usize = 65535;

/// Number of a switch port, as programs see it in `ingress_port`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Error of putting bytes into a frame or removing them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The frame would have `len` bytes, more than [`MAX_FRAME`].
    TooLong {
        /// Length that the frame would have, in bytes.
        len: usize,
    },
    /// The frame has `len` bytes, fewer than the `wanted` ones.
    TooShort {
        /// Number of bytes requested.
        wanted: usize,
        /// Number of bytes of the frame.
        len: usize,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::TooLong { len } => {
                write!(
                    f,
                    "a frame of {len} bytes is longer than the limit of {MAX_FRAME}"
                )
            }
            FrameError::TooShort { wanted, len } => {
                write!(f, "{wanted} bytes wanted of a frame of {len}")
            }
        }
    }
}

impl std::error::Error for FrameError {}

/// Bytes of a packet in wire order, without preamble and frame check sequence.
///
/// Bytes can be removed and added at the front without moving the others, as long as the headroom
/// suffices. If it does not, the buffer grows. This is the slow path, counted in
/// [`Frame::growths`]. A reused frame keeps its buffer.
#[derive(Debug)]
pub struct Frame {
    /// Buffer, with every byte initialised. The frame is `buf[start..start + len]`. The buffer is
    /// at most a few times as long as [`MAX_FRAME`].
    buf: Box<[u8]>,
    start: u32,
    len: u32,
    /// Start offset of a frame with its whole headroom: see [`COLOURS`].
    front: u16,
    growths: u16,
    /// Port at which the frame arrived.
    pub ingress: PortId,
    /// Time of arrival.
    pub arrival: Nanos,
}

// Frames of a burst are read and swapped one after the other, so they must be compact.
const _: () = assert!(size_of::<Frame>() <= 40);

/// Offsets of a frame's fields in bytes, for code generated at run time.
#[derive(Clone, Copy, Debug)]
pub struct FrameLayout {
    /// Offset of the buffer, a `Box<[u8]>`.
    pub buffer: usize,
    /// Offset of the frame's start within the buffer, a `u32`.
    pub start: usize,
    /// Offset of the frame's length, a `u32`. `start + len` is within the buffer, and `len` is at
    /// most [`MAX_FRAME`].
    pub len: usize,
    /// Offset of the ingress port, a `u32`.
    pub ingress: usize,
}

impl Default for Frame {
    fn default() -> Frame {
        Frame::new()
    }
}

impl Frame {
    /// Offsets for code generated at run time. Such code may read these fields, and may change
    /// `start` and `len` as [`Frame::move_front`] does.
    pub const LAYOUT: FrameLayout = FrameLayout {
        buffer: offset_of!(Frame, buf),
        start: offset_of!(Frame, start),
        len: offset_of!(Frame, len),
        ingress: offset_of!(Frame, ingress),
    };

    /// Creates an empty frame with the default capacity.
    pub fn new() -> Frame {
        static COLOUR: AtomicUsize = AtomicUsize::new(0);
        let colour = COLOUR.fetch_add(1, Ordering::Relaxed) % COLOURS;
        let front = HEADROOM + colour * LINE;
        Frame {
            buf: vec![0; front + DEFAULT_FRAME].into(),
            start: front as u32,
            len: 0,
            front: front as u16,
            growths: 0,
            ingress: PortId(0),
            arrival: Nanos::ZERO,
        }
    }

    /// Creates an empty frame without a buffer. It allocates when bytes are added.
    #[inline]
    pub fn without_buffer() -> Frame {
        Frame {
            buf: Box::default(),
            start: 0,
            len: 0,
            front: HEADROOM as u16,
            growths: 0,
            ingress: PortId(0),
            arrival: Nanos::ZERO,
        }
    }

    /// Creates a frame with these bytes, from port 0 at time zero.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] above [`MAX_FRAME`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Frame, FrameError> {
        let mut frame = Frame::new();
        frame.assign(bytes)?;
        Ok(frame)
    }

    /// Returns the frame's bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buf[self.place()]
    }

    /// Returns the frame's bytes for writing.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let place = self.place();
        &mut self.buf[place]
    }

    /// Returns the frame's range in the buffer.
    #[inline]
    fn place(&self) -> Range<usize> {
        let start = self.headroom();
        start..start + self.len()
    }

    /// Sets the frame's range in the buffer.
    #[inline]
    fn set_place(&mut self, place: Range<usize>) {
        self.start = place.start as u32;
        self.len = place.len() as u32;
    }

    /// Returns the start of a frame with its whole headroom.
    #[inline]
    fn front(&self) -> usize {
        self.front.into()
    }

    fn count_growth(&mut self) {
        self.growths = self.growths.saturating_add(1);
    }

    /// Returns the address of the first byte.
    #[inline]
    pub fn address(&self) -> usize {
        self.buf.as_ptr().addr() + self.headroom()
    }

    /// Returns the whole buffer, and the frame's start in it. For code that writes in front of the
    /// frame and then calls [`Frame::move_front`].
    #[inline]
    pub fn storage_mut(&mut self) -> (&mut [u8], usize) {
        let start = self.headroom();
        (&mut self.buf, start)
    }

    /// Moves the frame's start by this number of bytes. With a negative number, bytes of the
    /// headroom become part of the frame. The end does not move. Returns false, with nothing
    /// changed, if it is not possible.
    #[inline]
    pub fn move_front(&mut self, by: isize) -> bool {
        let Range { start, end } = self.place();
        let start = start.checked_add_signed(by);
        let start = start.filter(|&start| start <= end && end - start <= MAX_FRAME);
        if let Some(start) = start {
            self.set_place(start..end);
        }
        start.is_some()
    }

    /// Returns the number of bytes, 0 to [`MAX_FRAME`].
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns true if the frame has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of bytes that can be added in front without growing the buffer.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.start as usize
    }

    /// Returns how many times the buffer grew, or its bytes were moved, since
    /// [`Frame::take_growths`]. Saturates at 65,535.
    #[inline]
    pub fn growths(&self) -> u32 {
        self.growths.into()
    }

    /// Returns [`Frame::growths`] and resets the counter.
    pub fn take_growths(&mut self) -> u32 {
        std::mem::take(&mut self.growths).into()
    }

    /// Empties the frame and restores its whole headroom. Resets port and time to zero.
    pub fn reset(&mut self) {
        let front = self.front();
        self.set_place(front..front);
        self.ingress = PortId(0);
        self.arrival = Nanos::ZERO;
    }

    /// Replaces the bytes, with the whole headroom in front of them. Port and time are kept.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] above [`MAX_FRAME`]; the frame is unchanged.
    #[inline]
    pub fn assign(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        self.assign_parts(&[bytes])
    }

    /// Replaces the bytes by the concatenation of `parts`. Otherwise like [`Frame::assign`].
    ///
    /// # Errors
    /// [`FrameError::TooLong`] above [`MAX_FRAME`]; the frame is unchanged.
    #[inline]
    pub fn assign_parts(&mut self, parts: &[&[u8]]) -> Result<(), FrameError> {
        let len = parts.iter().map(|p| p.len()).sum();
        self.make_space(len)?;
        let mut at = self.headroom();
        for part in parts {
            self.buf[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        Ok(())
    }

    /// Makes the frame `len` bytes long, with the whole headroom in front, for the caller to
    /// overwrite. The contents are unspecified. Port and time are kept.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] above [`MAX_FRAME`]; the frame is unchanged.
    #[inline]
    pub fn make_space(&mut self, len: usize) -> Result<&mut [u8], FrameError> {
        check_len(len)?;
        let place = self.front()..self.front() + len;
        if place.end > self.buf.len() {
            self.count_growth();
            self.grow(place.end);
        }
        self.set_place(place);
        Ok(self.bytes_mut())
    }

    /// Copies the bytes, port and time of `other` to this frame's buffer.
    pub fn copy_from(&mut self, other: &Frame) {
        // The length of the other frame is within the limit.
        let copied = self.assign(other.bytes());
        debug_assert!(copied.is_ok());
        self.ingress = other.ingress;
        self.arrival = other.arrival;
    }

    /// Adds `bytes` at the front.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] above [`MAX_FRAME`]; the frame is unchanged.
    #[inline]
    pub fn push_front(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        self.extend_front(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// Adds `n` bytes at the front, for the caller to overwrite. Their contents are unspecified.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] above [`MAX_FRAME`]; the frame is unchanged.
    #[inline]
    pub fn extend_front(&mut self, n: usize) -> Result<&mut [u8], FrameError> {
        check_len(self.len().saturating_add(n))?;
        if n > self.headroom() {
            self.grow_front(n);
        }
        // The headroom suffices, and the length fits a `u32`.
        self.start -= n as u32;
        self.len += n as u32;
        let start = self.headroom();
        Ok(&mut self.buf[start..start + n])
    }

    /// Removes `n` bytes from the front.
    ///
    /// # Errors
    /// [`FrameError::TooShort`] if there are fewer; the frame is unchanged.
    #[inline]
    pub fn pull_front(&mut self, n: usize) -> Result<(), FrameError> {
        let Range { start, end } = self.place();
        if n > end - start {
            return Err(FrameError::TooShort {
                wanted: n,
                len: end - start,
            });
        }
        self.set_place(start + n..end);
        Ok(())
    }

    /// Adds `bytes` at the end.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] above [`MAX_FRAME`]; the frame is unchanged.
    pub fn push_back(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        check_len(self.len() + bytes.len())?;
        if self.place().end + bytes.len() > self.buf.len() {
            self.grow_back(bytes.len());
        }
        let Range { start, end } = self.place();
        let last = end + bytes.len();
        self.buf[end..last].copy_from_slice(bytes);
        self.set_place(start..last);
        Ok(())
    }

    /// Keeps at most the first `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        let Range { start, end } = self.place();
        self.set_place(start..end.min(start + len.min(MAX_FRAME)));
    }

    /// Moves the bytes towards the end so that `wanted` bytes and a new headroom fit in front of
    /// them.
    #[cold]
    fn grow_front(&mut self, wanted: usize) {
        self.count_growth();
        self.move_to(self.front() + wanted);
    }

    /// Makes space for `wanted` bytes after the frame, with at most a whole headroom in front. So a
    /// frame that repeatedly loses bytes at the front and gains others at the end does not move
    /// through memory.
    #[cold]
    fn grow_back(&mut self, wanted: usize) {
        self.count_growth();
        self.move_to(self.headroom().min(self.front()));
        self.grow(self.place().end + wanted);
    }

    /// Moves the frame to this start in the buffer, which grows if necessary.
    fn move_to(&mut self, start: usize) {
        let place = self.place();
        let end = start + place.len();
        self.grow(end);
        self.buf.copy_within(place, start);
        self.set_place(start..end);
    }

    /// Grows the buffer to at least this number of bytes.
    fn grow(&mut self, bytes: usize) {
        if bytes > self.buf.len() {
            let mut grown = std::mem::take(&mut self.buf).into_vec();
            grown.reserve_exact(bytes - grown.len());
            grown.resize(bytes, 0);
            self.buf = grown.into_boxed_slice();
        }
    }
}

#[inline]
fn check_len(len: usize) -> Result<(), FrameError> {
    if len > MAX_FRAME {
        Err(FrameError::TooLong { len })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Assign(Vec<u8>),
        PushFront(Vec<u8>),
        PullFront(usize),
        PushBack(Vec<u8>),
        Truncate(usize),
    }

    /// Maximum number of steps. Under Miri each takes a thousand times as long.
    const MAX_STEPS: usize = if cfg!(miri) { 4 } else { 60 };

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // Bytes that count up from one random number, because drawing thousands is slow under Miri.
        // The period of 251 divides no buffer size.
        let run = |(len, first): (u16, u8)| {
            let bytes = (0..len).map(|i| first.wrapping_add((i % 251) as u8));
            bytes.collect()
        };
        let bytes = move || (0u16..3000, any::<u8>()).prop_map(run);
        prop::collection::vec(
            prop_oneof![
                bytes().prop_map(Step::Assign),
                bytes().prop_map(Step::PushFront),
                (0usize..4000).prop_map(Step::PullFront),
                bytes().prop_map(Step::PushBack),
                (0usize..4000).prop_map(Step::Truncate),
            ],
            0..MAX_STEPS,
        )
    }

    /// Applies the step to the naive model. Returns false if the step is not allowed.
    fn model(bytes: &mut Vec<u8>, step: &Step) -> bool {
        let mut next = bytes.clone();
        match step {
            Step::Assign(b) => next = b.clone(),
            Step::PushFront(b) => next = [b.as_slice(), &next].concat(),
            Step::PullFront(n) if *n > next.len() => return false,
            Step::PullFront(n) => drop(next.drain(..n)),
            Step::PushBack(b) => next.extend(b),
            Step::Truncate(n) => next.truncate(*n),
        }
        if next.len() > MAX_FRAME {
            return false;
        }
        *bytes = next;
        true
    }

    proptest! {
        #[test]
        fn a_frame_behaves_as_a_vector(steps in steps()) {
            let mut frame = Frame::new();
            let mut naive = Vec::new();
            for step in &steps {
                let done = match step {
                    Step::Assign(b) => frame.assign(b).is_ok(),
                    Step::PushFront(b) => frame.push_front(b).is_ok(),
                    Step::PullFront(n) => frame.pull_front(*n).is_ok(),
                    Step::PushBack(b) => frame.push_back(b).is_ok(),
                    Step::Truncate(n) => { frame.truncate(*n); true }
                };
                prop_assert_eq!(done, model(&mut naive, step));
                prop_assert_eq!(frame.bytes(), naive.as_slice());
                prop_assert_eq!(frame.len(), naive.len());
            }
        }
    }

    #[test]
    fn headers_within_the_headroom_do_not_grow_the_buffer() {
        let mut frame = Frame::from_bytes(&[7; 1514]).unwrap();
        let headroom = frame.headroom();
        assert!(headroom >= HEADROOM);
        frame.push_front(&vec![1; headroom]).unwrap();
        assert_eq!(frame.growths(), 0);
        frame.push_front(&[2]).unwrap();
        assert_eq!(frame.growths(), 1);
        assert_eq!(frame.headroom(), headroom);
        assert_eq!(frame.bytes()[..2], [2, 1]);
    }

    #[test]
    fn a_frame_that_loses_bytes_in_front_and_gets_others_behind_stays_where_it_is() {
        let mut frame = Frame::from_bytes(&[7; 1000]).unwrap();
        for round in 0..100 {
            frame.pull_front(500).unwrap();
            frame.push_back(&[round; 500]).unwrap();
            assert_eq!(frame.bytes()[999], round);
        }
        assert!(frame.storage_mut().0.len() <= frame.front() + DEFAULT_FRAME);
    }

    #[test]
    fn the_front_moves_within_the_headroom_and_the_frame() {
        let mut frame = Frame::from_bytes(&[1, 2, 3]).unwrap();
        assert!(frame.move_front(1));
        assert_eq!(frame.bytes(), [2, 3]);
        let (buffer, start) = frame.storage_mut();
        buffer[start - 2..start].copy_from_slice(&[8, 9]);
        assert!(frame.move_front(-2));
        assert_eq!(frame.bytes(), [8, 9, 2, 3]);
        assert!(!frame.move_front(5));
        let headroom = frame.headroom() as isize;
        assert!(!frame.move_front(-headroom - 1));
        assert_eq!(frame.bytes(), [8, 9, 2, 3]);
        assert!(frame.move_front(4));
        assert!(frame.is_empty());
    }

    #[test]
    fn a_frame_that_was_jumbo_once_does_not_grow_again() {
        let mut frame = Frame::new();
        frame.assign(&[1; 9216]).unwrap();
        frame.assign(&[1; 60]).unwrap();
        frame.assign(&[1; 9216]).unwrap();
        assert_eq!(frame.take_growths(), 1);
        assert_eq!(frame.growths(), 0);
    }

    #[test]
    fn a_frame_above_the_limit_is_refused_and_nothing_changes() {
        let mut frame = Frame::from_bytes(&[1; MAX_FRAME]).unwrap();
        let too_long = FrameError::TooLong { len: MAX_FRAME + 1 };
        assert_eq!(frame.push_front(&[0]), Err(too_long));
        assert_eq!(frame.push_back(&[0]), Err(too_long));
        assert_eq!(frame.assign(&[0; MAX_FRAME + 1]), Err(too_long));
        assert_eq!(frame.bytes(), [1; MAX_FRAME]);
    }
}
