//! Tests of a budget against a naive model: one number for the work, one for the copies.

use exec::{DropReason, WorkBudget};
use proptest::prelude::*;

use super::{Budgets, COPY_WORK, MAX_ROUNDS, Spending, max_copies};

#[derive(Clone, Debug)]
enum Event {
    /// A packet runs and uses this many work units.
    Spend(usize, u32),
    /// A packet runs, makes this many copies, and the first of them uses this many work units at
    /// once.
    Copy(usize, u32, u32),
    /// A packet recirculates, for this many work units.
    StartOver(usize, u32),
    /// A packet ends.
    End(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let packet = 0..64_usize;
    prop_oneof![
        (packet.clone(), 0..400_u32).prop_map(|(at, units)| Event::Spend(at, units)),
        (packet.clone(), 0..400_u32, 0..40_u32)
            .prop_map(|(at, n, units)| Event::Copy(at, n, units)),
        (packet.clone(), 0..200_u32).prop_map(|(at, units)| Event::StartOver(at, units)),
        packet.prop_map(Event::End),
    ]
}

/// Naive model of a budget.
struct Naive {
    base: u64,
    work: u64,
    copies: u64,
    first_copies: u64,
}

impl Naive {
    fn spend(&mut self, units: u32) -> bool {
        // One run uses at most the units of a received packet.
        let most = self.work.min(self.base);
        let taken = u64::from(units).min(most);
        self.work -= taken;
        taken == u64::from(units)
    }

    fn copy(&mut self, is_first: bool, others: u32, cost: u32) -> Result<(), DropReason> {
        let (others, cost) = (u64::from(others), u64::from(others) * u64::from(cost));
        if !is_first && self.work < cost {
            return Err(DropReason::WorkBudget);
        }
        if self.copies < others {
            return Err(DropReason::CopyBudget);
        }
        self.copies -= others;
        if !is_first {
            self.work -= cost;
            return Ok(());
        }
        let half = self.base / 2;
        let brought = |copies: u64| match copies {
            0 => 0,
            copies => half.max(copies * half.min(COPY_WORK.into())),
        };
        self.work += brought(self.first_copies + others) - brought(self.first_copies);
        self.first_copies += others;
        Ok(())
    }
}

/// A waiting packet: its share, its remaining work, and its rounds.
struct Waiting {
    spending: Spending,
    work: u32,
    rounds: u32,
    is_first: bool,
}

fn run(waiting: &mut Waiting, units: u32) -> bool {
    waiting.spending.resume(&mut waiting.work);
    let left = waiting.work.checked_sub(units);
    waiting.work = left.unwrap_or(0);
    waiting.spending.suspend(&mut waiting.work);
    left.is_some()
}

proptest! {
    #[test]
    fn packets_and_copies_of_one_budget_can_do_what_is_left_of_it_and_no_more(
        base in prop_oneof![256..5_000_u32, Just(65_536)],
        cost in 16..64_u32,
        events in prop::collection::vec(event(), 1..200),
    ) {
        let base = WorkBudget::new(base).expect("a budget that a device gives");
        let mut budgets = Budgets::default();
        let mut naive = Naive {
            base: base.units().into(),
            work: base.units().into(),
            copies: max_copies(base).into(),
            first_copies: 0,
        };
        let whole = Waiting {
            spending: Spending::whole(),
            work: base.units(),
            rounds: MAX_ROUNDS,
            is_first: true,
        };
        let mut all = vec![whole];
        for event in events {
            let (Event::Spend(at, _) | Event::Copy(at, ..) | Event::StartOver(at, _) | Event::End(at)) = event;
            let at = at % all.len();
            let one = &mut all[at];
            match event {
                Event::Spend(_, units) => {
                    prop_assert_eq!(run(one, units), naive.spend(units));
                }
                Event::Copy(_, others, units) => {
                    one.spending.resume(&mut one.work);
                    let taken = one.spending.take_copies(&mut one.work, others, cost, &mut budgets, base);
                    prop_assert_eq!(taken, naive.copy(one.is_first, others, cost));
                    let copies = (0..others.min(40)).filter(|_| taken.is_ok());
                    let mut copies: Vec<Waiting> = copies
                        .map(|_| Waiting {
                            spending: one.spending.of_copy(),
                            work: 0,
                            rounds: one.rounds,
                            is_first: false,
                        })
                        .collect();
                    if let Some(first) = copies.first_mut() {
                        prop_assert_eq!(run(first, units), naive.spend(units));
                    }
                    one.spending.resume(&mut one.work);
                    one.spending.suspend(&mut one.work);
                    all.extend(copies);
                }
                Event::StartOver(_, units) => {
                    let may = one.spending.start_over();
                    prop_assert_eq!(may, one.rounds > 0);
                    one.rounds = one.rounds.saturating_sub(1);
                    one.is_first = false;
                    if may {
                        prop_assert_eq!(run(one, units), naive.spend(units));
                    }
                }
                Event::End(_) if all.len() > 1 => {
                    all.swap_remove(at);
                }
                Event::End(_) => {}
            }
        }
    }
}

#[test]
fn a_budget_is_used_again_when_all_packets_of_it_have_ended() {
    let base = WorkBudget::MAX;
    let mut budgets = Budgets::default();
    for _ in 0..100 {
        let mut first = Spending::whole();
        let mut work = base.units();
        first
            .take_copies(&mut work, 3, 16, &mut budgets, base)
            .expect("three copies");
        let copies = [first.of_copy(), first.of_copy(), first.of_copy()];
        first.resume(&mut work);
        assert_eq!(work, base.units());
        drop(copies);
    }
    assert_eq!(budgets.0.len(), 1);
}

#[test]
fn packets_of_other_workers_find_work_while_one_runs() {
    let base = WorkBudget::MAX;
    let mut budgets = Budgets::default();
    let mut first = Spending::whole();
    let mut work = base.units();
    first
        .take_copies(&mut work, 1, 16, &mut budgets, base)
        .expect("a copy");
    let copy = first.of_copy();
    copy.part();
    let (mut own, mut others) = (0, 0);
    first.resume(&mut own);
    copy.resume(&mut others);
    assert!(own >= base.units() / 2, "{own}");
    assert!(others >= base.units() / 4, "{others}");
    // Unused work is available again.
    first.suspend(&mut own);
    copy.suspend(&mut others);
    first.resume(&mut own);
    assert!(own >= base.units() / 2, "{own}");
}
