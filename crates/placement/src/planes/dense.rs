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
const WORK: usize = 600_000;

/// Rounds at most.
const MAX_ROUNDS: usize = 4000;

/// Rounds after which a walk must not be worse.
const MEMORY: usize = 40;

/// Items that one round sends home at most, beside those that need them.
const MAX_SENT_HOME: usize = 12;

/// Parts by which a round changes the ranks of items. One of them is drawn.
const NOISES: [f64; 3] = [0.0, 0.3, 1.0];

/// Units of the capacity of a resource in a cost: costs are integers.
const UNITS: f64 = 1e9;

/// Returns the plane of each item.
pub(crate) fn solve(problem: &Problem, seed: u64) -> Vec<PlaneId> {
    if let Ok(planes) = exact::solve(problem) {
        return planes;
    }
    let mut rng = Rng::new(seed);
    let empty = State::at_home(problem);
    let current = State::at(problem, &problem.current_planes());
    let mut best = Valued::new(problem, &current);
    // Items that are on planes hide what a placement from the beginning would gain.
    let starts = match current.planes() == empty.planes() {
        true => vec![empty],
        false => vec![current, empty],
    };
    let rounds = MAX_ROUNDS.min(WORK / problem.items().max(1)) / starts.len();
    let free = vec![Avoided::default(); problem.plane_ids().count() + 1];
    for mut state in starts {
        let mut walk = Valued::new(problem, &state);
        fill(&mut state, &free, &mut |_| 1.0);
        walk.offer(Valued::new(problem, &state));
        // A step is taken if it is as good as the assignment some steps before: so a walk leaves
        // places where each single step is a loss (late acceptance, Burke and Bykov, 2017).
        let mut before = vec![walk.value; MEMORY];
        best.offer(walk.clone());
        for round in 0..rounds {
            let found = Valued::new(problem, &changed(&walk.state, &mut rng));
            let before = &mut before[round % MEMORY];
            if found.value >= walk.value.min(*before) {
                walk = found;
            }
            *before = walk.value;
            if walk.value > best.value {
                best = walk.clone();
            }
        }
    }
    best.state.into_planes()
}

/// Assignment with its objective.
#[derive(Clone)]
struct Valued<'p> {
    value: i64,
    state: State<'p>,
}

impl<'p> Valued<'p> {
    fn new(problem: &'p Problem, state: &State<'p>) -> Valued<'p> {
        let planes = limited(problem, state.planes());
        Valued {
            value: problem.objective(&planes),
            state: State::at(problem, &planes),
        }
    }

    /// Takes an assignment that is as good.
    fn offer(&mut self, found: Valued<'p>) {
        if found.value >= self.value {
            *self = found;
        }
    }
}

/// Batches of one plane that a round avoids.
#[derive(Clone, Copy, Debug, Default)]
struct Avoided {
    /// No item enters that makes a batch in.
    batch_in: bool,
    /// Items come first that make a batch out if they are missing.
    batch_out: bool,
}

impl Avoided {
    /// Draws what a round avoids: mostly the batches that the assignment does not have.
    fn draw(state: &State, plane: PlaneId, rng: &mut Rng) -> Avoided {
        let problem = state.problem();
        let costs = problem.costs(plane);
        let (has_batch_in, has_batch_out) = problem.batches(state.planes(), plane);
        let mut draw = |cost: u64, has_batch: bool| {
            let draw = rng.index(8);
            cost > 0 && if has_batch { draw == 0 } else { draw < 6 }
        };
        Avoided {
            batch_in: draw(costs.batch_in, has_batch_in),
            batch_out: draw(costs.batch_out, has_batch_out),
        }
    }

    /// Returns true if no item of the bundle makes a batch in that is avoided.
    fn allows(self, problem: &Problem, bundle: &Bundle, plane: PlaneId) -> bool {
        let mut items = bundle.items.iter();
        !self.batch_in || items.all(|&item| problem.is_charged_out(item, plane))
    }
}

/// Returns an assignment of which a random part has been sent home and filled again.
fn changed<'p>(from: &State<'p>, rng: &mut Rng) -> State<'p> {
    let problem = from.problem();
    let mut state = from.clone();
    let mut placed: Vec<ItemId> = problem.item_ids().collect();
    let mut avoided = vec![Avoided::default()];
    for plane in problem.plane_ids() {
        let here = Avoided::draw(from, plane, rng);
        for item in problem.item_ids() {
            let is_in_item = problem.is_charged_in(item, plane);
            let has_to_leave = here.batch_in && is_in_item;
            let makes_room = here.batch_out && is_in_item && rng.one_in(2);
            if state.plane(item) == plane && (has_to_leave || makes_room) {
                state.remove(item);
            }
        }
        avoided.push(here);
    }
    placed.retain(|&item| state.plane(item) != PlaneId::HOME);
    let count = 1 + rng.index((placed.len() / 4).clamp(1, MAX_SENT_HOME));
    let mut sent = Vec::new();
    for _ in 0..count {
        if let Some(&item) = rng.pick(&placed) {
            sent.push((item, state.plane(item)));
            state.remove(item);
        }
    }
    for plane in problem.plane_ids() {
        let here = avoided[usize::from(plane.0)];
        if here.batch_out {
            keep(&mut state, plane, here);
        }
    }
    // Others have a chance to take the place: the ranks of items are changed at random, and what
    // was sent home does not come back before others.
    let noise = *rng.pick(&NOISES).unwrap_or(&0.0);
    let is_sent_last = rng.one_in(2);
    let mut factor = |(item, plane): (ItemId, PlaneId)| {
        let here = avoided[usize::from(plane.0)];
        let is_first = here.batch_out && problem.is_charged_out(item, plane);
        let first = if is_first { 1000.0 } else { 1.0 };
        let draw = rng.below(1000) as f64 / 1000.0;
        let last = if is_sent_last && sent.contains(&(item, plane)) {
            0.01
        } else {
            1.0
        };
        first * last * (1.0 + noise * (draw - 0.5))
    };
    fill(&mut state, &avoided, &mut factor);
    state
}

/// Puts the items that are on a plane now back there, with what they need, as far as they fit:
/// without a batch out even those may be worth it that gain nothing.
fn keep(state: &mut State, plane: PlaneId, avoided: Avoided) {
    let problem = state.problem();
    let mut bundle = Bundle::default();
    for item in problem.item_ids() {
        if problem.current(item) == Some(plane) && state.plane(item) != plane {
            state.remove(item);
            for company in [Company::Covers, Company::Items] {
                let is_found = state.bundle(item, plane, company, &mut bundle);
                let is_allowed = is_found && avoided.allows(problem, &bundle, plane);
                if is_allowed && state.fits(&bundle, plane) {
                    state.add(&bundle, plane);
                    break;
                }
            }
        }
    }
}

/// Fills planes with items that are at home. `factor` changes the rank of an item on a plane.
fn fill(state: &mut State, avoided: &[Avoided], factor: &mut dyn FnMut((ItemId, PlaneId)) -> f64) {
    let problem = state.problem();
    let pairs = Pairs(problem.items() as u32);
    let mut candidates: Vec<Candidate> = Vec::new();
    for plane in problem.plane_ids() {
        let items = problem
            .item_ids()
            .filter(|&item| state.plane(item) == PlaneId::HOME);
        candidates.extend(items.map(|item| Candidate {
            item: pairs.key(item, plane),
            weight: factor((item, plane)),
        }));
    }
    let mut filling = Filling {
        pairs,
        inner: RefCell::new(Inner {
            state,
            avoided,
            bundles: Default::default(),
            last: None,
            waiting: Vec::new(),
        }),
    };
    select(&mut candidates, u64::MAX, &mut filling);
}

/// Keys for pairs of an item and a plane with limits: [`select`] chooses among them.
#[derive(Clone, Copy)]
struct Pairs(u32);

impl Pairs {
    fn key(self, item: ItemId, plane: PlaneId) -> ItemId {
        ItemId((u32::from(plane.0) - 1) * self.0 + item.0)
    }

    fn pair(self, key: ItemId) -> (ItemId, PlaneId) {
        (ItemId(key.0 % self.0), PlaneId((key.0 / self.0) as u16 + 1))
    }
}

/// Planes that are filled by [`select`]: an item costs what it needs and is not there yet, as a
/// part of the capacity, and weighs what all of that gains.
struct Filling<'s, 'p> {
    pairs: Pairs,
    /// The assignment in the making. Costs are asked through a shared reference and need the marks
    /// of the state.
    inner: RefCell<Inner<'s, 'p>>,
}

struct Inner<'s, 'p> {
    state: &'s mut State<'p>,
    /// Batches that each plane avoids, home first.
    avoided: &'s [Avoided],
    /// Bundles with covers and without.
    bundles: [Bundle; 2],
    /// The last offer: it is asked for several times.
    last: Option<((ItemId, PlaneId), Option<Offer>)>,
    waiting: Vec<ItemId>,
}

/// Bundle of an item that is the best of those that fit.
#[derive(Clone, Copy)]
struct Offer {
    bundle: usize,
    cost: u64,
    excess: i64,
}

impl Inner<'_, '_> {
    /// Returns the best bundle of an item now. [`Inner::bundles`] has it afterwards.
    fn offer(&mut self, (item, plane): (ItemId, PlaneId)) -> Option<Offer> {
        match self.last {
            Some((key, offer)) if key == (item, plane) => offer,
            _ => {
                let offer = self.new_offer(item, plane);
                self.last = Some(((item, plane), offer));
                offer
            }
        }
    }

    fn new_offer(&mut self, item: ItemId, plane: PlaneId) -> Option<Offer> {
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
            if !self.avoided[usize::from(plane.0)].allows(self.state.problem(), bundle, plane) {
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
    fn cost(&self, key: ItemId) -> Option<u64> {
        let offer = self.inner.borrow_mut().offer(self.pairs.pair(key));
        offer.map(|offer| offer.cost)
    }

    fn weight(&self, candidate: Candidate) -> f64 {
        let pair = self.pairs.pair(candidate.item);
        let offer = self.inner.borrow_mut().offer(pair);
        candidate.weight * offer.map_or(0.0, |offer| offer.excess as f64)
    }

    fn is_selected(&self, key: ItemId) -> bool {
        let (item, _) = self.pairs.pair(key);
        self.inner.borrow().state.plane(item) != PlaneId::HOME
    }

    fn select(&mut self, key: ItemId, changed: &mut Vec<ItemId>) {
        let (pairs, inner) = (self.pairs, self.inner.get_mut());
        let (item, plane) = pairs.pair(key);
        let Some(offer) = inner.offer((item, plane)) else {
            return;
        };
        inner.last = None;
        let bundle = &inner.bundles[offer.bundle];
        inner.state.add(bundle, plane);
        // Items that need one of these, by others, too, cost less now.
        let problem = inner.state.problem();
        inner.waiting.clear();
        inner.waiting.extend(bundle.entries());
        while let Some(item) = inner.waiting.pop() {
            for need in problem.needed_by(item) {
                let other = need.item();
                let key = pairs.key(other, plane);
                if inner.state.plane(other) == PlaneId::HOME && !changed.contains(&key) {
                    changed.push(key);
                    inner.waiting.push(other);
                }
            }
        }
    }
}
