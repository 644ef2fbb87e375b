//! Policy `dense`: items by their gain for a unit of capacity, with what they require.
//!
//! Where a capacity is a number of items this order is exact, and the policy `exact` finds it. Else
//! [`select`] fills planes greedily, each item with what it needs or with covers in its place. Then
//! parts of the best assignment are sent home and filled again, in a number of rounds that depends
//! on the problem alone.

use std::cell::RefCell;

use support::rng::Rng;

use super::exact;
use super::limit::limited;
use super::problem::{PlaneId, Problem};
use super::state::{Bundle, Company, State};
use crate::ItemId;
use crate::select::{Candidate, Requirements, select};

/// Rounds times items.
const WORK: usize = 400_000;

/// Rounds at most.
const MAX_ROUNDS: usize = 4000;

/// Units of the capacity of a resource in a cost: costs are integers.
const UNITS: f64 = 1e9;

/// Returns the plane of each item.
pub(crate) fn solve(problem: &Problem, seed: u64) -> Vec<PlaneId> {
    if let Ok(planes) = exact::solve(problem) {
        return planes;
    }
    let mut rng = Rng::new(seed);
    let planes: Vec<PlaneId> = problem.plane_ids().collect();
    let starts = [
        State::at_home(problem),
        State::at(problem, &problem.current_planes()),
    ];
    let mut best: Option<(i64, State)> = None;
    for mut state in starts {
        let unfilled = state.clone();
        fill(&mut state, &planes, &mut |_| 1.0);
        for state in [unfilled, state] {
            let planes = limited(problem, state.planes());
            let value = problem.objective(&planes);
            if best.as_ref().is_none_or(|(best, _)| value > *best) {
                best = Some((value, State::at(problem, &planes)));
            }
        }
    }
    let Some((mut value, mut best)) = best else {
        return problem.current_planes();
    };
    for _ in 0..MAX_ROUNDS.min(WORK / problem.items().max(1)) {
        let state = changed(&best, &planes, &mut rng);
        let found = limited(problem, state.planes());
        let new = problem.objective(&found);
        if new >= value {
            value = new;
            best = State::at(problem, &found);
        }
    }
    best.into_planes()
}

/// Returns an assignment of which a random part has been sent home and filled again.
fn changed<'p>(from: &State<'p>, planes: &[PlaneId], rng: &mut Rng) -> State<'p> {
    let problem = from.problem();
    let mut state = from.clone();
    let placed: Vec<ItemId> = (problem.item_ids())
        .filter(|&item| state.plane(item) != PlaneId::HOME)
        .collect();
    let count = 1 + rng.index((placed.len() / 4).clamp(1, 12));
    let mut sent = Vec::new();
    for _ in 0..count {
        if let Some(&item) = rng.pick(&placed) {
            state.remove(item);
            sent.push(item);
        }
    }
    let mut order = planes.to_vec();
    for at in (1..order.len()).rev() {
        order.swap(at, rng.index(at + 1));
    }
    // Others have a chance to take the place: the gains of some items are changed for the order.
    let noise = [0.0, 0.3, 1.0][rng.index(3)];
    let is_kept_home = rng.one_in(2);
    let mut factor = |item: ItemId| {
        let draw = rng.below(1000) as f64 / 1000.0;
        match is_kept_home && sent.contains(&item) {
            true => 0.01,
            false => 1.0 + noise * (draw - 0.5),
        }
    };
    fill(&mut state, &order, &mut factor);
    state
}

/// Fills planes one after the other with items that are at home. `factor` changes the rank of an
/// item.
fn fill(state: &mut State, planes: &[PlaneId], factor: &mut dyn FnMut(ItemId) -> f64) {
    let problem = state.problem();
    for &plane in planes {
        let mut candidates: Vec<Candidate> = (problem.item_ids())
            .filter(|&item| state.plane(item) == PlaneId::HOME)
            .map(|item| Candidate {
                item,
                weight: factor(item),
            })
            .collect();
        let mut filling = Filling::new(state, plane);
        select(&mut candidates, u64::MAX, &mut filling);
    }
}

/// Plane that is filled by [`select`]: an item costs what it needs and is not there yet, as a part
/// of the capacity, and weighs what all of that gains.
struct Filling<'s, 'p> {
    /// The assignment, and bundles with and without covers. Costs are asked through a shared
    /// reference and need the marks of the state.
    inner: RefCell<Inner<'s, 'p>>,
    plane: PlaneId,
}

struct Inner<'s, 'p> {
    state: &'s mut State<'p>,
    bundles: [Bundle; 2],
    waiting: Vec<ItemId>,
}

/// Bundle of an item that is the best of those that fit.
#[derive(Clone, Copy)]
struct Offer {
    bundle: usize,
    cost: u64,
    excess: i64,
}

impl<'s, 'p> Filling<'s, 'p> {
    fn new(state: &'s mut State<'p>, plane: PlaneId) -> Filling<'s, 'p> {
        Filling {
            inner: RefCell::new(Inner {
                state,
                bundles: Default::default(),
                waiting: Vec::new(),
            }),
            plane,
        }
    }
}

impl Inner<'_, '_> {
    fn offer(&mut self, item: ItemId, plane: PlaneId) -> Option<Offer> {
        let mut best: Option<Offer> = None;
        let has_needs = self.state.problem().has_needs();
        for (at, company) in [Company::Covers, Company::Items].into_iter().enumerate() {
            if at > 0 && !has_needs {
                break;
            }
            let bundle = &mut self.bundles[at];
            let is_found = self.state.bundle(item, plane, company, bundle);
            if !is_found || bundle.excess <= 0 || !self.state.fits(bundle, plane) {
                continue;
            }
            let offer = Offer {
                bundle: at,
                cost: self.cost(&self.bundles[at].weights, plane),
                excess: self.bundles[at].excess,
            };
            let ratio = |offer: &Offer| offer.excess as f64 / offer.cost.max(1) as f64;
            if best.is_none_or(|best| ratio(&offer) > ratio(&best)) {
                best = Some(offer);
            }
        }
        best
    }

    /// Returns the sum of the parts of all capacities.
    fn cost(&self, weights: &[i64], plane: PlaneId) -> u64 {
        let spec = self.state.problem().plane(plane);
        let capacity = spec.map_or(&[][..], |spec| &spec.capacity);
        let parts = weights.iter().zip(capacity);
        let parts =
            parts.map(|(&weight, &capacity)| weight.max(0) as f64 / capacity.max(1) as f64 * UNITS);
        parts.sum::<f64>().ceil() as u64
    }
}

impl Requirements for Filling<'_, '_> {
    fn cost(&self, item: ItemId) -> Option<u64> {
        let offer = self.inner.borrow_mut().offer(item, self.plane);
        offer.map(|offer| offer.cost)
    }

    fn weight(&self, candidate: Candidate) -> f64 {
        let offer = self.inner.borrow_mut().offer(candidate.item, self.plane);
        candidate.weight * offer.map_or(0.0, |offer| offer.excess as f64)
    }

    fn is_selected(&self, item: ItemId) -> bool {
        self.inner.borrow().state.plane(item) != PlaneId::HOME
    }

    fn select(&mut self, item: ItemId, changed: &mut Vec<ItemId>) {
        let plane = self.plane;
        let inner = self.inner.get_mut();
        let Some(offer) = inner.offer(item, plane) else {
            return;
        };
        let bundle = &inner.bundles[offer.bundle];
        inner.state.add(bundle, plane);
        // Items that need one of these, by others, too, cost less now.
        let problem = inner.state.problem();
        inner.waiting.clear();
        inner.waiting.extend(bundle.entries());
        while let Some(item) = inner.waiting.pop() {
            for need in problem.needed_by(item) {
                let other = need.item();
                if inner.state.plane(other) == PlaneId::HOME && !changed.contains(&other) {
                    changed.push(other);
                    inner.waiting.push(other);
                }
            }
        }
    }
}
