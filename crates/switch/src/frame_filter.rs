//! Frame filters: checks and changes of frames between ports and a packet processor.

use exec::DropReason;
use packet::{Frame, PortId};

/// Checks the frames that a packet processor would get, and changes those that leave it.
pub trait FrameFilter: Send {
    /// Checks a received frame.
    ///
    /// # Errors
    /// The reason to drop it.
    fn receive(&mut self, frame: &Frame) -> Result<(), DropReason>;

    /// Completes a frame that leaves by this port. Returns the port by which it leaves.
    ///
    /// # Errors
    /// The reason to drop it.
    fn send(&mut self, port: PortId, frame: &mut Frame) -> Result<PortId, DropReason>;
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
