//! Work budget of a packet.

/// Maximum number of work units ([`ir::work`]) of each received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkBudget(u32);

impl WorkBudget {
    /// Minimum that a device accepts. Engines need not count work on a fast path that never exceeds
    /// it.
    pub const MIN: WorkBudget = WorkBudget(1 << 8);

    /// Maximum, and the default.
    pub const MAX: WorkBudget = WorkBudget(1 << 16);

    /// Returns a budget of `units`, or `None` if it is out of range.
    pub const fn new(units: u32) -> Option<WorkBudget> {
        match WorkBudget::MIN.0 <= units && units <= WorkBudget::MAX.0 {
            true => Some(WorkBudget(units)),
            false => None,
        }
    }

    /// Returns the number of units.
    pub const fn units(self) -> u32 {
        self.0
    }
}

impl Default for WorkBudget {
    fn default() -> WorkBudget {
        WorkBudget::MAX
    }
}
