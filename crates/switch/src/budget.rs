//! Budget of a received packet: the work, copies and rounds that the packet and its copies may
//! take.
//!
//! A packet without copies has its work in its own context. With the first copy the work moves to a
//! [`Budget`], which the packet, its copies and their copies share. Each of them borrows available
//! work when a block starts to run it, and gives back the rest when it waits or ends. So a copy
//! that does nothing costs only the copying. All of them together cannot exceed the budget, however
//! the program arranges copies and rounds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use exec::{DropReason, WorkBudget};

/// Work units of a received packet for each copy that it may make. The time of a copy is hardly
/// less than that of a short program, so the limit of work also limits the copies.
const WORK_A_COPY: u32 = 4;

/// Returns the maximum number of copies of one received packet, including copies of copies: 16,384
/// with the largest budget.
const fn max_copies(base: WorkBudget) -> u32 {
    base.units() / WORK_A_COPY
}

/// Maximum number of recirculations of a packet. A copy also counts those of the packet from which
/// it was made.
pub(crate) const MAX_ROUNDS: u32 = 512;

/// Maximum work units that each copy of a packet in its first round adds to the budget. Large
/// multicast groups are the control plane's choice, so their copies get work.
const COPY_WORK: u32 = 4096;

/// Maximum number of budgets that are kept for reuse, and the number of them that are tried.
const MAX_KEPT: usize = 1024;
const MAX_LOOKED_AT: usize = 4;

/// Budget that a received packet and all its copies share.
#[derive(Debug)]
struct Budget {
    /// Work units that none of them has borrowed.
    work: AtomicU32,
    /// Number of copies that may still be made.
    copies: AtomicU32,
    /// Number of copies made in the packet's first round.
    first_copies: AtomicU32,
    /// Work units of a received packet.
    base: u32,
    /// True if a packet of this budget is at another worker. Then each may borrow only half of the
    /// available units.
    is_parted: AtomicBool,
}

impl Budget {
    fn new(base: WorkBudget) -> Budget {
        Budget {
            work: AtomicU32::new(0),
            copies: AtomicU32::new(max_copies(base)),
            first_copies: AtomicU32::new(0),
            base: base.units(),
            is_parted: AtomicBool::new(false),
        }
    }

    /// Borrows work for a packet that starts to run with `has` units. It gets at most the units of
    /// a received packet in total.
    fn borrow(&self, has: u32) -> u32 {
        let room = self.base.saturating_sub(has);
        let part = |all: u32| match self.is_parted.load(Relaxed) {
            true => all.div_ceil(2).min(room),
            false => all.min(room),
        };
        let mut all = self.work.load(Relaxed);
        loop {
            let taken = part(all);
            match (self.work).compare_exchange_weak(all, all - taken, Relaxed, Relaxed) {
                Ok(_) => return taken,
                Err(now) => all = now,
            }
        }
    }

    /// Takes back the units that a packet has not used.
    fn give_back(&self, work: u32) {
        if work > 0 {
            self.work.fetch_add(work, Relaxed);
        }
    }

    /// Marks the budget as shared with another worker.
    fn part(&self) {
        self.is_parted.store(true, Relaxed);
    }

    /// Takes copies in the packet's first round. Together they add half of the packet's work to the
    /// budget, or [`COPY_WORK`] each if that is more.
    ///
    /// # Errors
    /// The packet's limit of copies is exceeded.
    fn take_first_copies(&self, others: u32) -> Result<(), DropReason> {
        self.take_count(others)?;
        let half = self.base / 2;
        let brought = |copies: u32| match copies {
            0 => 0,
            copies => half.max(copies.saturating_mul(COPY_WORK.min(half))),
        };
        let before = self.first_copies.fetch_add(others, Relaxed);
        self.give_back(brought(before + others) - brought(before));
        Ok(())
    }

    /// Takes copies of a copy or of a recirculated packet. Each costs `cost` work units.
    ///
    /// # Errors
    /// The packet's limit of copies is exceeded, or there is too little work.
    fn take_later_copies(&self, others: u32, cost: u32) -> Result<(), DropReason> {
        let work = others.saturating_mul(cost);
        if self.work.load(Relaxed) < work {
            return Err(DropReason::WorkBudget);
        }
        self.take_count(others)?;
        let taken = self
            .work
            .fetch_update(Relaxed, Relaxed, |all| all.checked_sub(work));
        taken.map(|_| ()).map_err(|_| DropReason::WorkBudget)
    }

    fn take_count(&self, others: u32) -> Result<(), DropReason> {
        let taken = self
            .copies
            .fetch_update(Relaxed, Relaxed, |all| all.checked_sub(others));
        taken.map(|_| ()).map_err(|_| DropReason::CopyBudget)
    }
}

/// A packet's share of its budget.
#[derive(Clone, Debug)]
pub(crate) struct Spending {
    /// Budget shared with its copies; `None` until there is a copy.
    shared: Option<Arc<Budget>>,
    /// Number of recirculations left.
    rounds_left: u32,
    /// True if the packet is no copy and has not been recirculated.
    is_first_pass: bool,
}

impl Spending {
    /// Returns the share of a received packet.
    pub(crate) fn whole() -> Spending {
        Spending {
            shared: None,
            rounds_left: MAX_ROUNDS,
            is_first_pass: true,
        }
    }

    /// Returns the share of a copy of this packet.
    pub(crate) fn of_copy(&self) -> Spending {
        Spending {
            shared: self.shared.clone(),
            rounds_left: self.rounds_left,
            is_first_pass: false,
        }
    }

    /// Starts to run the packet: adds borrowed units to `work`.
    #[inline]
    pub(crate) fn resume(&self, work: &mut u32) {
        if let Some(shared) = &self.shared {
            *work += shared.borrow(*work);
        }
    }

    /// Suspends or ends the packet: its remaining work becomes available to its copies.
    #[inline]
    pub(crate) fn suspend(&self, work: &mut u32) {
        if let Some(shared) = &self.shared {
            shared.give_back(std::mem::take(work));
        }
    }

    /// Records that the packet is handed to another worker.
    pub(crate) fn part(&self) {
        if let Some(shared) = &self.shared {
            shared.part();
        }
    }

    /// Takes one recirculation. Returns false if there is none left.
    pub(crate) fn start_over(&mut self) -> bool {
        self.is_first_pass = false;
        let left = self.rounds_left.checked_sub(1);
        self.rounds_left = left.unwrap_or(0);
        left.is_some()
    }

    /// Takes copies of the packet. After the first round each costs `cost` work units. The packet
    /// is suspended in any case.
    ///
    /// # Errors
    /// The reason why no copy may be made.
    pub(crate) fn take_copies(
        &mut self,
        work: &mut u32,
        others: u32,
        cost: u32,
        budgets: &mut Budgets,
        base: WorkBudget,
    ) -> Result<(), DropReason> {
        let shared = self.shared.get_or_insert_with(|| budgets.get(base));
        shared.give_back(std::mem::take(work));
        match self.is_first_pass {
            true => shared.take_first_copies(others),
            false => shared.take_later_copies(others, cost),
        }
    }
}

/// Budgets for reuse.
#[derive(Debug, Default)]
pub(crate) struct Budgets(VecDeque<Arc<Budget>>);

impl Budgets {
    /// Returns an unused budget without work.
    fn get(&mut self, base: WorkBudget) -> Arc<Budget> {
        for _ in 0..self.0.len().min(MAX_LOOKED_AT) {
            let Some(mut budget) = self.0.pop_front() else {
                break;
            };
            let free = Arc::get_mut(&mut budget);
            let is_free = free.map(|free| *free = Budget::new(base)).is_some();
            self.0.push_back(Arc::clone(&budget));
            if is_free {
                return budget;
            }
        }
        let budget = Arc::new(Budget::new(base));
        if self.0.len() < MAX_KEPT {
            self.0.push_back(Arc::clone(&budget));
        }
        budget
    }
}

#[cfg(test)]
#[path = "budget/tests.rs"]
mod tests;
