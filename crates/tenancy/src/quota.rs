//! Quotas of a virtual data plane.

use exec::WorkBudget;
use switch::Limits;

use crate::compiler::CompileQuota;

/// A rate limit with a burst size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Units per second.
    pub per_second: u64,
    /// Maximum number of units at once.
    pub burst: u64,
}

/// Default work budget of each packet of a vPDP. It bounds the time that other vPDPs' packets
/// wait.
pub const WORK_OF_A_PACKET: WorkBudget = match WorkBudget::new(1 << 12) {
    Some(budget) => budget,
    None => WorkBudget::MIN,
};

/// Default maximum of a vPDP's state, in bytes. Without it, a program that declares more state
/// than the machine has would end the switch.
pub const STATE_BYTES: u64 = 1 << 30;

/// Quotas of a vPDP. A missing quota means no limit. Exceptions are the work of a packet
/// ([`WORK_OF_A_PACKET`]), the bytes of state ([`STATE_BYTES`]) and compilations
/// ([`CompileQuota`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Limits of its device. The device itself enforces them, so that every write path is covered.
    pub limits: Limits,
    /// Limits of compilations ([`crate::Hypervisor::compiler`]).
    pub compile: CompileQuota,
    /// Rate of received packets.
    pub packets: Option<Rate>,
    /// Rate of resubmissions and recirculations.
    pub passes: Option<Rate>,
    /// Processor cycles of its packets, as the workers' [`crate::Gauge`]s count them, and of its
    /// compilations.
    pub cycles: Option<Rate>,
    /// Weight of its share of an overloaded processor; 0 counts as 1.
    pub weight: u32,
}

impl Quotas {
    /// Returns the limits of its device.
    pub(crate) fn of_device(&self) -> Limits {
        Limits {
            work: Some(self.limits.work.unwrap_or(WORK_OF_A_PACKET)),
            state_bytes: Some(self.limits.state_bytes.unwrap_or(STATE_BYTES)),
            ..self.limits
        }
    }
}
