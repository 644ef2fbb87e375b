//! What a virtual data plane may use, and the error that says that it asked for more.

use exec::WorkBudget;
use switch::Limits;

use crate::compiler::CompileQuota;

/// So many a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Units a second.
    pub per_second: u64,
    /// Units that may come at once.
    pub burst: u64,
}

/// What each packet of a vPDP may do unless its quotas say otherwise: packets of others wait for so much at most.
pub const WORK_OF_A_PACKET: WorkBudget = match WorkBudget::new(1 << 12) {
    Some(budget) => budget,
    None => WorkBudget::LEAST,
};

/// Bytes of state that a vPDP may have unless its quotas say otherwise: a program that declares
/// more than the machine has ends nobody's switch.
pub const STATE_BYTES: u64 = 1 << 30;

/// The quotas of a vPDP; what is not given is not limited, but for the work of a packet
/// ([`WORK_OF_A_PACKET`]), the bytes of
/// state ([`STATE_BYTES`]) and compilations ([`CompileQuota`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// What its device may hold, which the device itself refuses to exceed: no way to write to it goes around.
    pub limits: Limits,
    /// What compiling its texts may take ([`crate::Hypervisor::compiler`]).
    pub compile: CompileQuota,
    /// Packets that come in.
    pub packets: Option<Rate>,
    /// Passes of packets that start over: resubmitted and recirculated ones.
    pub passes: Option<Rate>,
    /// Processor cycles, as the workers' [`crate::Gauge`]s count them, and those of its
    /// compilations.
    pub cycles: Option<Rate>,
    /// Its share of a processor that has too much to do, beside others' weights; 0 counts as 1.
    pub weight: u32,
}

impl Quotas {
    /// What its device is held to.
    pub(crate) fn of_device(&self) -> Limits {
        Limits {
            work: Some(self.limits.work.unwrap_or(WORK_OF_A_PACKET)),
            state_bytes: Some(self.limits.state_bytes.unwrap_or(STATE_BYTES)),
            ..self.limits
        }
    }
}
