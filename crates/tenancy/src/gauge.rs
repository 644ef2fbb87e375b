//! What packets cost: processor cycles, counted by whoever runs the workers, or reckoned.

use packet::Nanos;

/// What a group of packets did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Packets that came in.
    pub packets: u64,
    /// Passes of packets that started over.
    pub passes: u64,
}

/// What was done for a vPDP on a worker, and what it took, to receive its packets too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Packets that were let in, and their passes.
    pub work: Work,
    /// The gauge's cycles.
    pub cycles: u64,
}

/// How frames came. What is not told is taken to have cost nothing, and to be no more than a part of what waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reception {
    /// What it took to receive them, in the gauge's cycles.
    pub cycles: u64,
    /// The time meanwhile in which the thread did not run: [`Gauge::missed`].
    pub missed: Nanos,
    /// Whether more wait than were taken.
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

/// Tells what groups of packets cost. A worker asks it at each group's begin and end, on its own thread.
pub trait Gauge: Send {
    /// A group begins.
    fn begin(&mut self);

    /// The cycles that the group has cost.
    fn end(&mut self, work: Work) -> u64;

    /// What a visit to a vPDP costs beside its packets, which nobody's share pays for: how many visits there are is up to all who send. Quotas of cycles
    /// pay for it.
    fn visit(&self) -> u64 {
        0
    }

    /// The time in groups, since it was asked last, in which the thread did not run: nobody has used it, and nobody can.
    fn missed(&mut self) -> Nanos {
        Nanos::ZERO
    }
}

/// Reckons cycles by what packets did, so that the same packets always cost the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reckoned {
    /// Cycles of a packet.
    pub per_packet: u64,
    /// Cycles of each pass after its first.
    pub per_pass: u64,
}

impl Default for Reckoned {
    fn default() -> Self {
        Reckoned {
            per_packet: 200,
            per_pass: 200,
        }
    }
}

impl Gauge for Reckoned {
    fn begin(&mut self) {}

    fn end(&mut self, work: Work) -> u64 {
        let packets = work.packets.saturating_mul(self.per_packet);
        packets.saturating_add(work.passes.saturating_mul(self.per_pass))
    }
}
