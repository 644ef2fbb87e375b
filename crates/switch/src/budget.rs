//! The budget of a received packet: the work, copies and rounds that it and its copies may take.
//!
//! A packet without copies keeps its work in its own context. With the first copy the work moves
//! to a [`Budget`] that the packet, its copies and the copies of those share: each of them borrows
//! what is there when a block begins to run it, and gives back what is left when it waits or ends.
//! So a copy that does nothing costs what it costs to make it, and all of them together cannot do
//! more than the budget has, however the program arranges copies and rounds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use exec::{DropReason, WorkBudget};

/// Copies that may be made of one packet that came in, copies of copies among them.
pub(crate) const MOST_COPIES: u32 = 1 << 14;

/// Rounds of a packet: how often it may start over, and how often a copy of it may, together with
/// what it is a copy of.
pub(crate) const MOST_ROUNDS: u32 = 512;

/// Units of work that each copy of a packet as it came brings with it at most: large groups of
/// copies are the control plane's wish.
const COPY_WORK: u32 = 4096;

/// Budgets that are kept to be used again, and how many of them are looked at for a free one.
const MOST_KEPT: usize = 1024;
const MOST_LOOKED_AT: usize = 4;

/// What a packet that came in and all its copies share.
#[derive(Debug)]
struct Budget {
    /// Units of work that none of them has borrowed.
    work: AtomicU32,
    /// Copies that may still be made.
    copies: AtomicU32,
    /// Copies that were made of the packet as it came.
    first_copies: AtomicU32,
    /// Units of work that a packet has which comes in.
    base: u32,
    /// Whether another worker has one of them: each may then borrow half of what is there.
    is_parted: AtomicBool,
}

impl Budget {
    fn new(base: WorkBudget) -> Budget {
        Budget {
            work: AtomicU32::new(0),
            copies: AtomicU32::new(MOST_COPIES),
            first_copies: AtomicU32::new(0),
            base: base.units(),
            is_parted: AtomicBool::new(false),
        }
    }

    /// Borrows work for a packet that begins to run and still has so much: no more than a packet
    /// has which comes in.
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

    /// Takes back what a packet has left of what it borrowed.
    fn give_back(&self, work: u32) {
        if work > 0 {
            self.work.fetch_add(work, Relaxed);
        }
    }

    /// Says that other workers get packets of this budget.
    fn part(&self) {
        self.is_parted.store(true, Relaxed);
    }

    /// Takes copies of the packet as it came. Copies bring half of the packet's work with them,
    /// or [`COPY_WORK`] each where that is more.
    ///
    /// # Errors
    /// So many more copies may not be made of the packet.
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

    /// Takes copies of a copy, or of a packet that has started over; each costs so much work.
    ///
    /// # Errors
    /// So many more copies may not be made of the packet, or there is not the work to make them.
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

/// A packet's part in its budget.
#[derive(Clone, Debug)]
pub(crate) struct Spending {
    /// What it shares with its copies, or with those it is a copy of; none until there is a copy.
    shared: Option<Arc<Budget>>,
    /// How often it may still start over.
    rounds_left: u32,
    /// Whether it is no copy and has not started over.
    is_first_pass: bool,
}

impl Spending {
    /// The part of a packet that came in.
    pub(crate) fn whole() -> Spending {
        Spending {
            shared: None,
            rounds_left: MOST_ROUNDS,
            is_first_pass: true,
        }
    }

    /// The part of a copy of this packet.
    pub(crate) fn of_copy(&self) -> Spending {
        Spending {
            shared: self.shared.clone(),
            rounds_left: self.rounds_left,
            is_first_pass: false,
        }
    }

    /// Begins to run the packet: the work that it may do goes to `work`.
    #[inline]
    pub(crate) fn resume(&self, work: &mut u32) {
        if let Some(shared) = &self.shared {
            *work += shared.borrow(*work);
        }
    }

    /// The packet waits or ends: what is left of its work is its copies', too.
    #[inline]
    pub(crate) fn suspend(&self, work: &mut u32) {
        if let Some(shared) = &self.shared {
            shared.give_back(std::mem::take(work));
        }
    }

    /// The packet goes to another worker.
    pub(crate) fn part(&self) {
        if let Some(shared) = &self.shared {
            shared.part();
        }
    }

    /// Takes one more round; whether there was one.
    pub(crate) fn start_over(&mut self) -> bool {
        self.is_first_pass = false;
        let left = self.rounds_left.checked_sub(1);
        self.rounds_left = left.unwrap_or(0);
        left.is_some()
    }

    /// Takes copies of the packet, each of which costs so much work if it is not the packet as it
    /// came. The packet is suspended then, in any case.
    ///
    /// # Errors
    /// The reason for which none of them may be made.
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

/// Budgets that were used and can be used again.
#[derive(Debug, Default)]
pub(crate) struct Budgets(VecDeque<Arc<Budget>>);

impl Budgets {
    /// A budget without work that nothing else uses.
    fn get(&mut self, base: WorkBudget) -> Arc<Budget> {
        for _ in 0..self.0.len().min(MOST_LOOKED_AT) {
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
        if self.0.len() < MOST_KEPT {
            self.0.push_back(Arc::clone(&budget));
        }
        budget
    }
}

#[cfg(test)]
#[path = "budget/tests.rs"]
mod tests;
