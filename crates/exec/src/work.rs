//! How much work a packet may do.

/// Units of work ([`ir::work`]) that each packet has that comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkBudget(u32);

impl WorkBudget {
    /// The least that a device gives: engines need not measure a pass that never takes more.
    pub const LEAST: WorkBudget = WorkBudget(1 << 8);

    /// The most, which a device gives unless it is told otherwise.
    pub const MOST: WorkBudget = WorkBudget(1 << 16);

    /// So many units, if that is neither too few nor too many.
    pub const fn new(units: u32) -> Option<WorkBudget> {
        match WorkBudget::LEAST.0 <= units && units <= WorkBudget::MOST.0 {
            true => Some(WorkBudget(units)),
            false => None,
        }
    }

    /// How many units these are.
    pub const fn units(self) -> u32 {
        self.0
    }
}

impl Default for WorkBudget {
    fn default() -> WorkBudget {
        WorkBudget::MOST
    }
}
