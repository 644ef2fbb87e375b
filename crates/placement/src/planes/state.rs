//! Assignment that a heuristic changes item by item. It never breaks a rule of the problem: what
//! an item needs enters and leaves with it.

use super::problem::{Need, PlaneId, Problem};
use crate::ItemId;

/// Entries that enter a plane for the items that an item needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// Covers wherever they are enough.
    Covers,
    /// The items themselves.
    Items,
}

/// Item with all that enters a plane with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bundle {
    /// Items, the asked one first.
    pub(crate) items: Vec<ItemId>,
    /// Items of which covers enter.
    covers: Vec<ItemId>,
    /// Amount that the bundle adds to each resource. Covers that become items are subtracted.
    pub(crate) weights: Vec<i64>,
    /// Worth of the items above that at home.
    pub(crate) excess: i64,
}

impl Bundle {
    /// Returns the items of the bundle, and those of which it has the cover.
    pub(crate) fn entries(&self) -> impl Iterator<Item = ItemId> {
        self.items.iter().chain(&self.covers).copied()
    }
}

/// Assignment in the making.
#[derive(Clone, Debug)]
pub(crate) struct State<'p> {
    problem: &'p Problem,
    planes: Vec<PlaneId>,
    /// In use of each resource, plane by plane.
    used: Vec<u64>,
    /// Items on each plane that need the other item or its cover, plane by plane. Empty without
    /// requirements.
    users: Vec<u32>,
    /// For each item the last bundle that has it.
    marks: Vec<u64>,
    mark: u64,
}

impl<'p> State<'p> {
    /// Creates the assignment of all items to home.
    pub(crate) fn at_home(problem: &'p Problem) -> State<'p> {
        let (items, planes) = (problem.items(), problem.plane_ids().count());
        let is_used = problem.has_needs();
        State {
            problem,
            planes: vec![PlaneId::HOME; items],
            used: vec![0; planes * problem.resources()],
            users: vec![0; if is_used { planes * items } else { 0 }],
            marks: vec![0; if is_used { items } else { 0 }],
            mark: 0,
        }
    }

    /// Creates the assignment of the items to these planes. One that breaks a rule there is at
    /// home.
    pub(crate) fn at(problem: &'p Problem, planes: &[PlaneId]) -> State<'p> {
        let mut state = State::at_home(problem);
        let mut bundle = Bundle::default();
        let mut alone = |state: &mut State<'p>, item: ItemId, plane| {
            let is_found = state.bundle(item, plane, Company::Covers, &mut bundle);
            if is_found && bundle.items.len() == 1 && state.fits(&bundle, plane) {
                state.add(&bundle, plane);
            }
        };
        let order: Vec<ItemId> = match problem.order() {
            Some(order) => order.to_vec(),
            None => problem.item_ids().collect(),
        };
        // A cover that an item replaces later takes room meanwhile: a second round finds it.
        for _ in 0..2 {
            for &item in &order {
                let plane = planes[item.index()];
                if plane != PlaneId::HOME && state.plane(item) == PlaneId::HOME {
                    alone(&mut state, item, plane);
                }
            }
        }
        state
    }

    pub(crate) fn problem(&self) -> &'p Problem {
        self.problem
    }

    pub(crate) fn plane(&self, item: ItemId) -> PlaneId {
        self.planes[item.index()]
    }

    pub(crate) fn planes(&self) -> &[PlaneId] {
        &self.planes
    }

    pub(crate) fn into_planes(self) -> Vec<PlaneId> {
        self.planes
    }

    fn users(&self, item: ItemId, plane: PlaneId) -> u32 {
        let at = plane
            .limited()
            .map(|at| at * self.planes.len() + item.index());
        at.and_then(|at| self.users.get(at)).copied().unwrap_or(0)
    }

    /// Collects what enters the plane with an item. Returns false if the item or one that it needs
    /// is on another plane than home.
    pub(crate) fn bundle(
        &mut self,
        item: ItemId,
        plane: PlaneId,
        company: Company,
        bundle: &mut Bundle,
    ) -> bool {
        let problem = self.problem;
        bundle.items.clear();
        bundle.covers.clear();
        bundle.weights.clear();
        bundle.excess = problem.excess(item, plane);
        bundle
            .weights
            .extend(problem.weights(item).iter().map(|&weight| weight as i64));
        bundle.items.push(item);
        if self.plane(item) != PlaneId::HOME {
            return false;
        }
        if !problem.has_needs() {
            return true;
        }
        self.mark += 2;
        let (is_item, is_cover) = (self.mark, self.mark - 1);
        self.marks[item.index()] = is_item;
        let mut next = 0;
        while let Some(&item) = bundle.items.get(next) {
            next += 1;
            for need in problem.needs(item) {
                let other = need.item();
                let at = other.index();
                if self.planes[at] == plane || self.marks[at] == is_item {
                    continue;
                }
                if matches!(need, Need::ItemOrCover(_)) && company == Company::Covers {
                    if self.marks[at] != is_cover && self.users(other, plane) == 0 {
                        bundle.covers.push(other);
                    }
                    self.marks[at] = is_cover;
                    continue;
                }
                if self.planes[at] != PlaneId::HOME {
                    return false;
                }
                self.marks[at] = is_item;
                bundle.items.push(other);
                bundle.excess += problem.excess(other, plane);
                add(&mut bundle.weights, problem.weights(other), 1);
            }
        }
        let marks = &self.marks;
        bundle
            .covers
            .retain(|cover| marks[cover.index()] == is_cover);
        for &cover in &bundle.covers {
            add(&mut bundle.weights, problem.cover(cover), 1);
        }
        for &item in &bundle.items {
            if self.users(item, plane) > 0 {
                add(&mut bundle.weights, problem.cover(item), -1);
            }
        }
        true
    }

    /// Returns true if the plane has room for the bundle.
    pub(crate) fn fits(&self, bundle: &Bundle, plane: PlaneId) -> bool {
        let (Some(at), Some(spec)) = (plane.limited(), self.problem.plane(plane)) else {
            return false;
        };
        let used = &self.used[at * bundle.weights.len()..];
        let mut all = used.iter().zip(&bundle.weights).zip(&spec.capacity);
        all.all(|((&used, &more), &capacity)| {
            let capacity = i64::try_from(capacity).unwrap_or(i64::MAX);
            used as i64 + more <= capacity || more <= 0
        })
    }

    /// Adds a bundle that [`State::bundle`] found for this state.
    pub(crate) fn add(&mut self, bundle: &Bundle, plane: PlaneId) {
        let Some(at) = plane.limited() else {
            return;
        };
        let resources = bundle.weights.len();
        let used = &mut self.used[at * resources..(at + 1) * resources];
        for (used, &more) in used.iter_mut().zip(&bundle.weights) {
            *used = used.saturating_add_signed(more);
        }
        for &item in &bundle.items {
            self.planes[item.index()] = plane;
        }
        for &item in &bundle.items {
            self.count_users(item, at, 1);
        }
    }

    /// Counts an item among those that need a cover.
    fn count_users(&mut self, item: ItemId, at: usize, change: i32) {
        for need in self.problem.needs(item) {
            if let Need::ItemOrCover(other) = need {
                let users = &mut self.users[at * self.planes.len() + other.index()];
                *users = users.saturating_add_signed(change);
            }
        }
    }

    /// Sends an item home, with the items that need more than its cover.
    pub(crate) fn remove(&mut self, item: ItemId) {
        let mut leaving = vec![item];
        while let Some(item) = leaving.pop() {
            let plane = self.plane(item);
            let Some(at) = plane.limited() else {
                continue;
            };
            for need in self.problem.needed_by(item) {
                if matches!(need, Need::Item(_)) && self.plane(need.item()) == plane {
                    leaving.push(need.item());
                }
            }
            self.remove_alone(item, plane, at);
        }
    }

    fn remove_alone(&mut self, item: ItemId, plane: PlaneId, at: usize) {
        let problem = self.problem;
        let resources = problem.resources();
        let mut less: Vec<i64> = vec![0; resources];
        add(&mut less, problem.weights(item), 1);
        self.planes[item.index()] = PlaneId::HOME;
        if self.users(item, plane) > 0 {
            add(&mut less, problem.cover(item), -1);
        }
        for need in problem.needs(item) {
            if let Need::ItemOrCover(other) = *need
                && self.plane(other) != plane
                && self.users(other, plane) == 1
            {
                add(&mut less, problem.cover(other), 1);
            }
        }
        self.count_users(item, at, -1);
        let used = &mut self.used[at * resources..(at + 1) * resources];
        for (used, &less) in used.iter_mut().zip(&less) {
            *used = used.saturating_add_signed(-less);
        }
    }
}

/// Adds weights, `times` of them.
fn add(sums: &mut [i64], weights: &[u64], times: i64) {
    for (sum, &weight) in sums.iter_mut().zip(weights) {
        *sum += weight as i64 * times;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planes::workload::{ProblemShape, random_problem};
    use support::rng::Rng;

    #[test]
    fn random_changes_break_no_rule_and_the_use_is_counted() {
        let mut bundle = Bundle::default();
        for seed in 0..300 {
            let problem = random_problem(seed, &ProblemShape::SMALL).unwrap();
            let mut rng = Rng::new(seed);
            let mut state = State::at_home(&problem);
            for _ in 0..60 {
                let item = ItemId(rng.index(problem.items()) as u32);
                let plane = PlaneId(1 + rng.index(problem.plane_ids().count()) as u16);
                let company = [Company::Covers, Company::Items][rng.index(2)];
                if rng.one_in(3) {
                    state.remove(item);
                } else if state.bundle(item, plane, company, &mut bundle)
                    && state.fits(&bundle, plane)
                {
                    state.add(&bundle, plane);
                }
                assert_eq!(problem.usage(state.planes()), state.used, "seed {seed}");
                let over = problem.violations(state.planes());
                let is_limit = |v: &_| matches!(v, crate::planes::Violation::TooManyMoves { .. });
                assert!(over.iter().all(is_limit), "seed {seed}: {over:?}");
            }
        }
    }
}
