//! Where packets go that leave.

use exec::PackedOutcome;
use packet::{Frame, Nanos, PortId};

/// What takes packets that leave: any function that does, or what has its code stand where packets leave, however long that is.
pub trait Leave {
    /// Takes a packet that leaves by this port at that time; its frame may be swapped for another.
    fn leave(&mut self, port: PortId, frame: &mut Frame, time: Nanos);

    /// Takes the packets of these outcomes, as long as they are sent; how many. There are as many frames as outcomes. Who reaches what it needs by several steps overrides this, so that it takes
    /// them once, and not for each packet.
    #[inline(always)]
    fn leave_sent(
        &mut self,
        frames: &mut [Frame],
        outcomes: &[PackedOutcome],
        time: Nanos,
    ) -> usize {
        leave_sent(self, frames, outcomes, time)
    }
}

/// [`Leave::leave_sent`], one packet after the other.
#[inline(always)]
pub fn leave_sent<L: Leave + ?Sized>(
    leave: &mut L,
    frames: &mut [Frame],
    outcomes: &[PackedOutcome],
    time: Nanos,
) -> usize {
    for (at, (frame, outcome)) in frames.iter_mut().zip(outcomes).enumerate() {
        let Some(port) = outcome.sent() else {
            return at;
        };
        leave.leave(port, frame, time);
    }
    outcomes.len()
}

impl<F: FnMut(PortId, &mut Frame, Nanos)> Leave for F {
    #[inline(always)]
    fn leave(&mut self, port: PortId, frame: &mut Frame, time: Nanos) {
        self(port, frame, time);
    }
}
