//! One frame: its bytes, with room in front of them for headers that a program adds.

use crate::Nanos;
use std::fmt;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes kept free in front of a new frame, at least: room for several tunnel headers.
pub const HEADROOM: usize = 128;

/// Bytes that a new buffer holds behind its headroom: an Ethernet frame with several VLAN tags.
pub const USUAL_FRAME: usize = 2048;

/// New frames begin in so many places of their buffers. Allocators lay buffers out at multiples of a power of two, where all frames that begin alike would share an eighth of
/// a cache, or less.
const COLOURS: usize = 7;

/// Bytes of a cache line, from one place to the next.
const LINE: usize = 64;

// What jemalloc gives for the least of them anyway.
const _: () = assert!(HEADROOM + (COLOURS - 1) * LINE + USUAL_FRAME <= 2560);

/// The longest frame, in bytes. Jumbo frames (9216 and their tags) are well below; nothing that a
/// Linux interface hands over as one frame on a wire is above.
pub const MAX_FRAME: usize = 65535;

/// Number of a switch port, as a program sees it in `ingress_port`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why bytes cannot become, or be taken from, a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The frame would have `len` bytes, more than [`MAX_FRAME`].
    TooLong {
        /// Length that the frame would have had, in bytes.
        len: usize,
    },
    /// `wanted` bytes were to be taken from a frame that has `len`.
    TooShort {
        /// Bytes that were asked for.
        wanted: usize,
        /// Bytes that there are.
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

/// A packet's bytes, first byte first on the wire, without preamble and frame check sequence.
///
/// Bytes go away and come in front without moving the others, as long as the headroom lasts. Where
/// it does not, the buffer grows: the slow path, counted in [`Frame::growths`]. A frame that is used
/// again keeps its buffer.
#[derive(Debug)]
pub struct Frame {
    /// Every byte initialised; the frame is `buf[start..start + len]`. No buffer is longer than a few of the longest frames.
    buf: Box<[u8]>,
    start: u32,
    len: u32,
    /// Where in the buffer a frame begins that has its whole headroom: see [`COLOURS`].
    front: u16,
    growths: u16,
    /// Port on which the frame arrived.
    pub ingress: PortId,
    /// When the frame arrived.
    pub arrival: Nanos,
}

// A burst's frames are read, and exchanged, one behind the other.
const _: () = assert!(size_of::<Frame>() <= 40);

/// Where a frame has what, in bytes from its beginning: for code that is made at run time.
#[derive(Clone, Copy, Debug)]
pub struct FrameLayout {
    /// The buffer, a `Box<[u8]>`.
    pub buffer: usize,
    /// Where in the buffer the frame begins, a `u32`.
    pub start: usize,
    /// The frame's length, a `u32`. The buffer ends behind it, and it is at most [`MAX_FRAME`].
    pub len: usize,
    /// The port on which it arrived, a `u32`.
    pub ingress: usize,
}

impl Default for Frame {
    fn default() -> Frame {
        Frame::new()
    }
}

impl Frame {
    /// What code that is made at run time may read, and of which it may change `start` and `len` as [`Frame::move_front`] does.
    pub const LAYOUT: FrameLayout = FrameLayout {
        buffer: offset_of!(Frame, buf),
        start: offset_of!(Frame, start),
        len: offset_of!(Frame, len),
        ingress: offset_of!(Frame, ingress),
    };

    /// An empty frame with the usual room.
    pub fn new() -> Frame {
        static COLOUR: AtomicUsize = AtomicUsize::new(0);
        let colour = COLOUR.fetch_add(1, Ordering::Relaxed) % COLOURS;
        let front = HEADROOM + colour * LINE;
        Frame {
            buf: vec![0; front + USUAL_FRAME].into(),
            start: front as u32,
            len: 0,
            front: front as u16,
            growths: 0,
            ingress: PortId(0),
            arrival: Nanos::ZERO,
        }
    }

    /// An empty frame that allocates nothing until it is given bytes.
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

    /// A new frame with these bytes, from port 0 at time zero.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] above [`MAX_FRAME`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Frame, FrameError> {
        let mut frame = Frame::new();
        frame.assign(bytes)?;
        Ok(frame)
    }

    /// The frame's bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buf[self.place()]
    }

    /// The frame's bytes, to be changed in place.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let place = self.place();
        &mut self.buf[place]
    }

    /// Where in the buffer the frame is.
    #[inline]
    fn place(&self) -> Range<usize> {
        let start = self.headroom();
        start..start + self.len()
    }

    /// The frame is there in the buffer.
    #[inline]
    fn set_place(&mut self, place: Range<usize>) {
        self.start = place.start as u32;
        self.len = place.len() as u32;
    }

    /// Where a frame begins that has its whole headroom.
    #[inline]
    fn front(&self) -> usize {
        self.front.into()
    }

    fn count_growth(&mut self) {
        self.growths = self.growths.saturating_add(1);
    }

    /// The address of the first byte.
    #[inline]
    pub fn address(&self) -> usize {
        self.buf.as_ptr().addr() + self.headroom()
    }

    /// The whole buffer, and where in it the frame begins: for code that puts bytes in front by itself and says so by [`Frame::move_front`].
    #[inline]
    pub fn storage_mut(&mut self) -> (&mut [u8], usize) {
        let start = self.headroom();
        (&mut self.buf, start)
    }

    /// Lets the frame begin so many bytes further on, or further in front, where the headroom's bytes become its first ones. Its end stays. Whether
    /// there is room; otherwise nothing changes.
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

    /// Number of bytes, 0 to [`MAX_FRAME`].
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the frame has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that can still be put in front without growing.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.start as usize
    }

    /// How often the buffer had to grow, or its bytes to move, since [`Frame::take_growths`]; 65,535 and more are as many.
    #[inline]
    pub fn growths(&self) -> u32 {
        self.growths.into()
    }

    /// [`Frame::growths`], counted from zero again.
    pub fn take_growths(&mut self) -> u32 {
        std::mem::take(&mut self.growths).into()
    }

    /// Empties the frame and gives it its whole headroom back. Port and time are zero again.
    pub fn reset(&mut self) {
        let front = self.front();
        self.set_place(front..front);
        self.ingress = PortId(0);
        self.arrival = Nanos::ZERO;
    }

    /// Replaces the bytes, with the whole headroom in front of them; port and time stay.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] above [`MAX_FRAME`]; the frame is unchanged.
    #[inline]
    pub fn assign(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        self.assign_parts(&[bytes])
    }

    /// Replaces the bytes by the concatenation of `parts`; else like [`Frame::assign`].
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
    /// overwrite: what the bytes are is unspecified. Port and time stay.
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

    /// A copy of `other`, with its port and time, in this frame's own buffer.
    pub fn copy_from(&mut self, other: &Frame) {
        // Another frame's length is within the limit already.
        let copied = self.assign(other.bytes());
        debug_assert!(copied.is_ok());
        self.ingress = other.ingress;
        self.arrival = other.arrival;
    }

    /// Puts `bytes` in front.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] above [`MAX_FRAME`]; the frame is unchanged.
    #[inline]
    pub fn push_front(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        self.extend_front(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// Puts `n` bytes in front, for the caller to overwrite: what they are is unspecified.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] above [`MAX_FRAME`]; the frame is unchanged.
    #[inline]
    pub fn extend_front(&mut self, n: usize) -> Result<&mut [u8], FrameError> {
        check_len(self.len().saturating_add(n))?;
        if n > self.headroom() {
            self.grow_front(n);
        }
        // There is room, and no frame is so long that its length would not fit.
        self.start -= n as u32;
        self.len += n as u32;
        let start = self.headroom();
        Ok(&mut self.buf[start..start + n])
    }

    /// Takes `n` bytes away from the front.
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

    /// Puts `bytes` behind.
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

    /// Moves the bytes back so that `wanted` bytes and a new headroom fit in front of them.
    #[cold]
    fn grow_front(&mut self, wanted: usize) {
        self.count_growth();
        self.move_to(self.front() + wanted);
    }

    /// Makes room for `wanted` bytes behind the frame, with no more than a whole headroom in front: a frame that loses bytes in front and gets others behind, again and again, does not
    /// go on through memory.
    #[cold]
    fn grow_back(&mut self, wanted: usize) {
        self.count_growth();
        self.move_to(self.headroom().min(self.front()));
        self.grow(self.place().end + wanted);
    }

    /// The frame begins there in the buffer, which grows if it must.
    fn move_to(&mut self, start: usize) {
        let place = self.place();
        let end = start + place.len();
        self.grow(end);
        self.buf.copy_within(place, start);
        self.set_place(start..end);
    }

    /// The buffer has at least so many bytes.
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

    /// Miri takes a thousand times as long for each.
    const MOST_STEPS: usize = if cfg!(miri) { 4 } else { 60 };

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // Bytes that count up from one drawn number: to draw thousands takes long under Miri. They begin anew where no size of a buffer is a multiple.
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
            0..MOST_STEPS,
        )
    }

    /// Does to the naive model what the frame is asked to do; whether that is allowed.
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
        assert!(frame.storage_mut().0.len() <= frame.front() + USUAL_FRAME);
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
