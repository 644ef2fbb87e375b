//! Cycle accounting: the cost of packets in processor cycles, measured by the caller or estimated.

use packet::Nanos;

/// Work of a packet group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CycleUse {
    /// Packets that were received.
    pub packets: u64,
    /// Recirculations: resubmissions, recirculations, and further turns through the stage slots.
    pub passes: u64,
}

/// Total work and cost for a vPDP on a worker, receiving included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardedFrames {
    /// Admitted packets and their recirculations.
    pub work: CycleUse,
    /// Cycles, as the [`CycleAccounting`] counts them.
    pub cycles: u64,
}

/// Report on the reception of frames. By default, reception is free and more frames are waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reception {
    /// Cycles for receiving the frames, as the [`CycleAccounting`] counts them.
    pub cycles: u64,
    /// Time meanwhile in which the thread did not run: [`CycleAccounting::missed`].
    pub missed: Nanos,
    /// True if more frames are waiting than were received.
    pub is_behind: bool,
}

impl Default for Reception {
    fn default() -> Reception {
        Reception {
            cycles: 0,
            missed: Nanos::ZERO,
            is_behind: true,
        }
    }
}

/// Measures the cost of packet groups. A worker calls it at the start and end of each group, on
/// the worker's thread.
pub trait CycleAccounting: Send {
    /// Starts a group.
    fn begin(&mut self);

    /// Ends a group and returns its cycles.
    fn end(&mut self, work: CycleUse) -> u64;

    /// Returns the fixed cycles of a service turn. Shares are not billed for them, because the
    /// number of turns depends on all senders. Quotas of cycles are.
    fn visit(&self) -> u64 {
        0
    }

    /// Returns the time within groups, since the last call, in which the thread did not run. It is
    /// billed to no vPDP.
    fn missed(&mut self) -> Nanos {
        Nanos::ZERO
    }
}

/// Cost model: computes cycles from the work, so that the same packets always cost the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EstimatedCost {
    /// Cycles per packet.
    pub per_packet: u64,
    /// Cycles per recirculation.
    pub per_pass: u64,
}

impl Default for EstimatedCost {
    fn default() -> Self {
        EstimatedCost {
            per_packet: 200,
            per_pass: 200,
        }
    }
}

impl CycleAccounting for EstimatedCost {
    fn begin(&mut self) {}

    fn end(&mut self, work: CycleUse) -> u64 {
        let packets = work.packets.saturating_mul(self.per_packet);
        packets.saturating_add(work.passes.saturating_mul(self.per_pass))
    }
}
