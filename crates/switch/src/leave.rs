//! Where packets go that leave.

use packet::{Frame, Nanos, PortId};

/// What takes packets that leave: any function that does, or what has its code stand where each packet leaves, however long that is.
pub trait Leave {
    /// Takes a packet that leaves by this port at that time; its frame may be swapped for another.
    fn leave(&mut self, port: PortId, frame: &mut Frame, time: Nanos);
}

impl<F: FnMut(PortId, &mut Frame, Nanos)> Leave for F {
    #[inline(always)]
    fn leave(&mut self, port: PortId, frame: &mut Frame, time: Nanos) {
        self(port, frame, time);
    }
}
