//! Policies that offer items to planes in one order: `fcfs`, `random`, `top` and `threshold`.

use std::cmp::Reverse;

use support::rng::Rng;

use super::SolveOptions;
use super::problem::{PlaneId, Problem};
use super::state::{Bundle, Company, State};
use crate::ItemId;
use crate::threshold::{Adjustment, ThresholdControl};

/// Rounds in which the threshold reaches its band at most. It changes by half or less in one.
const MAX_ROUNDS: usize = 64;

/// Half width of the band: the candidates differ by this part from the places at most.
const EPSILON: f64 = 0.15;

/// Fills planes in the order of arrival. Nothing leaves.
pub(crate) fn fcfs<'p>(problem: &'p Problem) -> State<'p> {
    let mut state = State::at(problem, &problem.current_planes());
    fill(&mut state, problem.item_ids());
    state
}

/// Fills planes in random order. Nothing leaves.
pub(crate) fn random<'p>(problem: &'p Problem, seed: u64) -> State<'p> {
    let mut rng = Rng::new(seed);
    let mut order: Vec<ItemId> = problem.item_ids().collect();
    for at in (1..order.len()).rev() {
        order.swap(at, rng.index(at + 1));
    }
    let mut state = State::at(problem, &problem.current_planes());
    fill(&mut state, order.into_iter());
    state
}

/// Fills empty planes by the greatest excess, whatever the weight.
pub(crate) fn top<'p>(problem: &'p Problem) -> State<'p> {
    let all = problem
        .item_ids()
        .map(|item| (item, best_excess(problem, item)));
    fill_by_excess(problem, all.collect())
}

/// Fills empty planes by the greatest excess of the items above a threshold: k times the mean. The
/// factor k changes until about as many items are above as fit. Returns it, too.
pub(crate) fn threshold<'p>(problem: &'p Problem, options: &SolveOptions) -> (State<'p>, f64) {
    let mut all: Vec<(ItemId, i64)> = (problem.item_ids())
        .map(|item| (item, best_excess(problem, item)))
        .filter(|&(_, excess)| excess > 0)
        .collect();
    let items = all.len() as u64;
    let sum: u64 = all.iter().map(|&(_, excess)| excess as u64).sum();
    let places = fitting(problem);
    let mut control = ThresholdControl::new(options.k, 1.0, EPSILON);
    let mut threshold = control.threshold(sum, items);
    for _ in 0..MAX_ROUNDS {
        let above = all.iter().filter(|&&(_, excess)| excess as u64 > threshold);
        let count = above.count() as u64;
        let are_all_above = count == items && count <= places;
        if are_all_above || control.adjust(count, places) == Adjustment::Kept {
            break;
        }
        threshold = control.threshold(sum, items);
    }
    all.retain(|&(_, excess)| excess as u64 > threshold);
    (fill_by_excess(problem, all), control.k())
}

/// Returns the number of items of mean weight that fit on all planes.
fn fitting(problem: &Problem) -> u64 {
    let mut sums = vec![0u64; problem.resources()];
    for item in problem.item_ids() {
        for (sum, weight) in sums.iter_mut().zip(problem.weights(item)) {
            *sum += weight;
        }
    }
    let items = problem.items() as f64;
    let of_plane = |plane: PlaneId| {
        let capacity = problem
            .plane(plane)
            .map_or(&[][..], |plane| &plane.capacity);
        let pairs = capacity.iter().zip(&sums).filter(|&(_, &sum)| sum > 0);
        let fitting = pairs.map(|(&capacity, &sum)| capacity as f64 / sum as f64 * items);
        fitting.fold(items, f64::min)
    };
    problem.plane_ids().map(of_plane).sum::<f64>().min(items) as u64
}

/// Returns what an item is worth more on its best plane than at home.
pub(crate) fn best_excess(problem: &Problem, item: ItemId) -> i64 {
    let excess = problem.plane_ids().map(|plane| problem.excess(item, plane));
    excess.max().unwrap_or(0)
}

fn fill_by_excess<'p>(problem: &'p Problem, mut items: Vec<(ItemId, i64)>) -> State<'p> {
    items.sort_unstable_by_key(|&(item, excess)| (Reverse(excess), item));
    let mut state = State::at_home(problem);
    fill(&mut state, items.into_iter().map(|(item, _)| item));
    state
}

/// Offers items to planes in this order. An item enters the plane where it is worth most, of those
/// with room for what it needs, if that is worth more than home.
pub(crate) fn fill(state: &mut State, items: impl Iterator<Item = ItemId>) {
    let problem = state.problem();
    let mut bundle = Bundle::default();
    let mut planes: Vec<PlaneId> = problem.plane_ids().collect();
    for item in items {
        if state.plane(item) != PlaneId::HOME {
            continue;
        }
        planes.sort_by_key(|&plane| (Reverse(problem.excess(item, plane)), plane));
        'planes: for &plane in &planes {
            for company in [Company::Covers, Company::Items] {
                let is_found = state.bundle(item, plane, company, &mut bundle);
                if is_found && bundle.excess > 0 && state.fits(&bundle, plane) {
                    state.add(&bundle, plane);
                    break 'planes;
                }
                if !problem.has_needs() {
                    break;
                }
            }
        }
    }
}
