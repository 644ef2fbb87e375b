//! Frame filters: checks and changes of frames between ports and a packet processor.

use exec::DropReason;
use packet::{Frame, Nanos, PortId};

/// Checks the frames that a packet processor would get, and changes those that leave it.
pub trait FrameFilter: Send {
    /// Begins a burst. Appends frames to `before` that the filter held: the packet processor gets
    /// them before the burst's.
    fn begin(&mut self, _now: Nanos, _before: &mut Vec<Frame>) {}

    /// Ends a burst, and takes the buffers of the frames of [`FrameFilter::begin`] back.
    fn end(&mut self, before: &mut Vec<Frame>) {
        before.clear();
    }

    /// Returns the number of frames that the filter holds.
    fn held(&self) -> usize {
        0
    }

    /// Checks a received frame.
    ///
    /// # Errors
    /// The reason to drop it.
    fn receive(&mut self, frame: &Frame) -> Result<(), DropReason>;

    /// Completes a frame that leaves by this port. Returns the port by which it leaves, or `None`
    /// if the filter has taken the frame and holds it.
    ///
    /// # Errors
    /// The reason to drop it.
    fn send(&mut self, port: PortId, frame: &mut Frame) -> Result<Option<PortId>, DropReason>;
}

/// Moves the frames that `accepts` returns true for to the front, in their order. Returns their
/// number.
pub fn keep_frames(frames: &mut [Frame], mut accepts: impl FnMut(&Frame) -> bool) -> usize {
    let mut kept = 0;
    for at in 0..frames.len() {
        if accepts(&frames[at]) {
            frames.swap(kept, at);
            kept += 1;
        }
    }
    kept
}

/// Calls `forward` with the frames that a filter held, and after them a burst's, as one slice.
pub fn forward_after(
    before: &mut Vec<Frame>,
    frames: &mut [Frame],
    forward: impl FnOnce(&mut [Frame]),
) {
    if before.is_empty() {
        return forward(frames);
    }
    let held = before.len();
    let take = |frame: &mut Frame| std::mem::replace(frame, Frame::without_buffer());
    before.extend(frames.iter_mut().map(take));
    forward(before);
    // The burst's buffers return to it.
    for (frame, used) in frames.iter_mut().zip(before.drain(held..)) {
        *frame = used;
    }
}
