//! Policy `exact`: the best assignment in linear time where a capacity is a number of items.
//!
//! With one plane beside home and items that weigh the same, an assignment is a choice of items.
//! The two batches are charged or not, so there are four cases. In each one some items must stay
//! and some may enter, and the best choice is those with the greatest excess over home: a selection
//! without sorting. The model of placement is the case in which nothing is on the plane before.

use std::cmp::Reverse;

use super::Unsupported;
use super::problem::{BatchCharge, PlaneId, Problem};
use crate::ItemId;

/// The plane beside home.
const PLANE: PlaneId = PlaneId(1);

/// Returns the number of items that fit, or the reason why that depends on the items.
pub(crate) fn places(problem: &Problem) -> Result<usize, Unsupported> {
    if problem.plane_ids().count() != 1 {
        return Err(Unsupported::Planes);
    }
    if problem.has_needs() {
        return Err(Unsupported::Requirements);
    }
    if problem.items() == 0 {
        return Ok(0);
    }
    if let Some(item) = problem.first_unequal_weights() {
        return Err(Unsupported::Weights(item));
    }
    let weights = problem.weights(ItemId(0));
    let capacity = problem
        .plane(PLANE)
        .map_or(&[][..], |plane| &plane.capacity);
    let fitting = (capacity.iter().zip(weights))
        .filter(|&(_, &weight)| weight > 0)
        .map(|(&capacity, &weight)| capacity / weight);
    let places = fitting.min().unwrap_or(u64::MAX);
    Ok(places.min(problem.items() as u64) as usize)
}

/// Items of a list below which none is forgotten.
const MIN_KEPT: usize = 1024;

/// Item with its excess over home. Of equal ones that on the plane is greater, then the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ranked {
    excess: i64,
    is_on_plane: bool,
    item: Reverse<u32>,
}

/// Moves the `count` greatest to the front.
fn select(all: &mut [Ranked], count: usize) {
    if (1..all.len()).contains(&count) {
        all.select_nth_unstable_by_key(count - 1, |&ranked| Reverse(ranked));
    }
}

/// The greatest of many items, in linear time and little memory.
struct Greatest {
    count: usize,
    all: Vec<Ranked>,
    /// Items below this are not among the greatest.
    least: Option<Ranked>,
}

impl Greatest {
    fn new(count: usize) -> Greatest {
        Greatest {
            count,
            all: Vec::new(),
            least: None,
        }
    }

    #[inline]
    fn push(&mut self, ranked: Ranked) {
        if self.count > 0 && self.least.is_none_or(|least| ranked > least) {
            self.all.push(ranked);
            if self.all.len() >= 2 * self.count.max(MIN_KEPT) {
                self.keep();
            }
        }
    }

    /// Forgets all but the greatest.
    fn keep(&mut self) {
        select(&mut self.all, self.count);
        self.all.truncate(self.count);
        if self.all.len() == self.count {
            self.least = self.all.iter().min().copied();
        }
    }

    fn into_vec(mut self) -> Vec<Ranked> {
        self.keep();
        self.all
    }
}

/// Choice of items and what it is worth, batches included.
struct Choice {
    value: i64,
    items: Vec<ItemId>,
}

impl Choice {
    fn new<'a>(chosen: impl Iterator<Item = &'a Ranked>, cost: i64) -> Choice {
        let mut choice = Choice {
            value: -cost,
            items: Vec::new(),
        };
        for ranked in chosen {
            choice.value += ranked.excess;
            choice.items.push(ItemId(ranked.item.0));
        }
        choice
    }
}

/// Returns the plane of each item in a best assignment.
pub(crate) fn solve(problem: &Problem) -> Result<Vec<PlaneId>, Unsupported> {
    let places = places(problem)?;
    let (limits, _) = problem.move_limits();
    let choice = match (limits.first().copied().flatten(), problem.charge()) {
        (None, _) => Groups::new(problem, places).best(),
        (Some(limit), BatchCharge::Moves) => {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            Groups::new(problem, places).best_of_few_moves(limit)
        }
        (Some(_), BatchCharge::NewAndFewer) => return Err(Unsupported::MoveLimit),
    };
    let mut planes = vec![PlaneId::HOME; problem.items()];
    for item in choice.items {
        planes[item.index()] = PLANE;
    }
    Ok(planes)
}

/// Items by the batch that they can cause.
struct Groups {
    places: usize,
    /// Items on the plane now.
    before: usize,
    batch_in: i64,
    batch_out: i64,
    /// Items on the plane without a batch in. Fewer of them than before are a batch out. Only those
    /// that can be chosen.
    outs: Vec<Ranked>,
    /// Items on the plane by a batch in. Only those that can be chosen.
    ins: Vec<Ranked>,
}

impl Groups {
    fn new(problem: &Problem, places: usize) -> Groups {
        let costs = problem
            .plane(PLANE)
            .map(|plane| plane.costs)
            .unwrap_or_default();
        let (mut outs, mut ins) = (Greatest::new(places), Greatest::new(places));
        let mut before = 0;
        for item in problem.item_ids() {
            let ranked = Ranked {
                excess: problem.excess(item, PLANE),
                is_on_plane: problem.current(item) == Some(PLANE),
                item: Reverse(item.0),
            };
            before += usize::from(ranked.is_on_plane);
            if problem.is_charged_out(item, PLANE) {
                outs.push(ranked);
            } else if ranked.excess > 0 {
                ins.push(ranked);
            }
        }
        Groups {
            places,
            before,
            batch_in: costs.batch_in as i64,
            batch_out: costs.batch_out as i64,
            outs: outs.into_vec(),
            ins: ins.into_vec(),
        }
    }

    /// Returns the best choice of the four cases. A choice that causes fewer batches than its case
    /// pays for is worth more than its value says, and is found again in the case without them.
    fn best(mut self) -> Choice {
        let mut best: Option<Choice> = None;
        for has_batch_out in [false, true] {
            let stays = if has_batch_out { 0 } else { self.before };
            if stays > self.places {
                continue;
            }
            select(&mut self.outs, stays);
            let (stay, others) = self.outs.split_at(stays);
            for has_batch_in in [false, true] {
                let ins: &[Ranked] = if has_batch_in { &self.ins } else { &[] };
                let free = others.iter().chain(ins).filter(|ranked| ranked.excess > 0);
                let mut free: Vec<Ranked> = free.copied().collect();
                select(&mut free, self.places - stays);
                free.truncate(self.places - stays);
                let cost_in = if has_batch_in { self.batch_in } else { 0 };
                let cost_out = if has_batch_out { self.batch_out } else { 0 };
                let choice = Choice::new(stay.iter().chain(&free), cost_in + cost_out);
                if best.as_ref().is_none_or(|best| choice.value > best.value) {
                    best = Some(choice);
                }
            }
        }
        // A batch out is always possible.
        best.unwrap_or(Choice::new([].iter(), 0))
    }

    /// Returns the best choice with a limit of moves where each move is charged: all numbers of
    /// items that leave, each with the most that can enter then, or none.
    fn best_of_few_moves(mut self, limit: usize) -> Choice {
        self.outs.sort_unstable_by_key(|&ranked| Reverse(ranked));
        self.ins.sort_unstable_by_key(|&ranked| Reverse(ranked));
        let sums = |all: &[Ranked]| -> Vec<i64> {
            let mut sum = 0;
            let rest = all.iter().map(|ranked| {
                sum += ranked.excess;
                sum
            });
            [0].into_iter().chain(rest).collect()
        };
        let (out_sums, in_sums) = (sums(&self.outs), sums(&self.ins));
        let mut best = (i64::MIN, self.before, 0);
        for leaving in 0..=self.before.min(limit) {
            let staying = self.before - leaving;
            let room = self.places.saturating_sub(staying);
            let entering = self.ins.len().min(room).min(limit - leaving);
            for entering in [0, entering] {
                let cost_out = if leaving > 0 { self.batch_out } else { 0 };
                let cost_in = if entering > 0 { self.batch_in } else { 0 };
                let value = out_sums[staying] + in_sums[entering] - cost_in - cost_out;
                if value > best.0 {
                    best = (value, staying, entering);
                }
            }
        }
        let (_, staying, entering) = best;
        let chosen = self.outs[..staying].iter().chain(&self.ins[..entering]);
        Choice::new(chosen, 0)
    }
}
