//! Packet sinks: receivers of transmitted packets.

use exec::PackedOutcome;
use packet::{Frame, Nanos, PortId};

/// Receives transmitted packets. Implemented for closures. Implement it by hand to have the code
/// inlined into the transmit loop.
pub trait PacketSink {
    /// Receives a packet sent to this port at this time. Its frame may be swapped for another.
    fn leave(&mut self, port: PortId, frame: &mut Frame, time: Nanos);

    /// Receives packets as long as their outcomes are sent, and returns their number. There are as
    /// many frames as outcomes. Override this if the target is found by several steps, so that
    /// these run once instead of once for each packet.
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

/// Implements [`PacketSink::leave_sent`] one packet after the other.
#[inline(always)]
pub fn leave_sent<L: PacketSink + ?Sized>(
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

impl<F: FnMut(PortId, &mut Frame, Nanos)> PacketSink for F {
    #[inline(always)]
    fn leave(&mut self, port: PortId, frame: &mut Frame, time: Nanos) {
        self(port, frame, time);
    }
}
