//! Result of a decision: which plane has each item, the moves to get there, and what it is worth.

use std::collections::BTreeSet;
use std::fmt;

use super::problem::{Need, PlaneId, Problem, ResourceId};
use crate::{ItemId, Move};

/// Move of one entry on a plane with limits. Home has all entries, so nothing moves there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaneMove {
    /// The plane.
    pub plane: PlaneId,
    /// The move.
    pub kind: Move,
}

/// Decision for all items of a problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Plane of each item.
    pub planes: Vec<PlaneId>,
    /// Covers on planes with limits.
    pub covers: Vec<(PlaneId, ItemId)>,
    /// Moves, in the order in which they are applied. After each one the plane has what its items
    /// need, and no more than its capacity.
    pub moves: Vec<PlaneMove>,
    /// Gains less the costs of moves.
    pub objective: i64,
    /// No solution has a greater objective. `None`: not known.
    pub bound: Option<i64>,
    /// Causes of a solution that is worse than it could be, or not allowed.
    pub warnings: Vec<SolveWarning>,
    /// Factor k of the policy `threshold` at the end, to begin the next decision with.
    pub k: Option<f64>,
}

impl Solution {
    /// Returns the difference to the bound as a part of the objective, or `None` without a bound.
    pub fn gap(&self) -> Option<f64> {
        let missing = self.bound?.saturating_sub(self.objective).max(0);
        Some(missing as f64 / (self.objective.unsigned_abs() as f64).max(1.0))
    }
}

/// Cause of a solution that is worse than it could be, or not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SolveWarning {
    /// A rule of the problem does not hold. Only the policy `paper-literal` has such solutions.
    Violation(Violation),
    /// The time limit ended the search. The solution is the best that was found.
    TimeLimit,
    /// The current items of a plane are more than it may have, so its limit of moves does not
    /// apply.
    MoveLimitIgnored {
        /// Name of the plane.
        plane: String,
    },
}

impl fmt::Display for SolveWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SolveWarning::Violation(violation) => violation.fmt(f),
            SolveWarning::TimeLimit => f.write_str(
                "the time limit ended the search: give more time, or use the policy dense",
            ),
            SolveWarning::MoveLimitIgnored { plane } => write!(
                f,
                "plane {plane} has items now that it may not have, so its limit of moves does not \
                 apply"
            ),
        }
    }
}

/// Rule of a problem that an assignment breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A plane has more of a resource in use than it has.
    OverFull {
        /// Name of the plane.
        plane: String,
        /// The resource.
        resource: ResourceId,
        /// In use.
        used: u64,
        /// Capacity.
        capacity: u64,
    },
    /// An item is on a plane without what it needs.
    Missing {
        /// Name of the plane.
        plane: String,
        /// The item.
        item: ItemId,
        /// The item that it needs.
        needs: ItemId,
    },
    /// More items move than the plane's limit.
    TooManyMoves {
        /// Name of the plane.
        plane: String,
        /// Items that move.
        moves: u64,
        /// The limit.
        limit: u64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::OverFull {
                plane,
                resource,
                used,
                capacity,
            } => write!(
                f,
                "plane {plane} would have {used} of resource {} in use but has {capacity}",
                resource.0
            ),
            Violation::Missing { plane, item, needs } => write!(
                f,
                "item {} would be on plane {plane} without item {}, which it needs",
                item.0, needs.0
            ),
            Violation::TooManyMoves {
                plane,
                moves,
                limit,
            } => write!(
                f,
                "{moves} items would move into plane {plane} and out of it, but {limit} may"
            ),
        }
    }
}

/// Items on one plane that decide whether its batches are charged.
#[derive(Clone, Copy, Debug, Default)]
struct BatchCounts {
    /// One makes a batch in.
    is_in: bool,
    /// Those on it before.
    before: u64,
    /// Those on it afterwards of which fewer than before make a batch out.
    after: u64,
}

impl BatchCounts {
    #[inline]
    fn add(&mut self, is_charged_in: bool) {
        self.is_in |= is_charged_in;
        self.after += u64::from(!is_charged_in);
    }

    /// Returns whether there is a batch in and a batch out.
    fn batches(self) -> (bool, bool) {
        (self.is_in, self.after < self.before)
    }
}

impl Problem {
    /// Returns the plane that has each item now: home for new ones.
    pub fn current_planes(&self) -> Vec<PlaneId> {
        self.item_ids()
            .map(|item| self.current_or_home(item))
            .collect()
    }

    /// Returns gains less the costs of moves if these planes have the items: an entry for each
    /// item.
    pub fn objective(&self, planes: &[PlaneId]) -> i64 {
        let mut values = 0;
        let mut counts = vec![BatchCounts::default(); self.plane_ids().count() + 1];
        for (item, &plane) in self.item_ids().zip(planes) {
            values += self.value(item, plane);
            counts[usize::from(plane.0)].add(self.is_charged_in(item, plane));
            counts[usize::from(self.current_or_home(item).0)].before += 1;
        }
        let costs = self.plane_ids().map(|plane| {
            let costs = self.costs(plane);
            let (is_in, is_out) = counts[usize::from(plane.0)].batches();
            let cost_in = if is_in { costs.batch_in } else { 0 };
            let cost_out = if is_out { costs.batch_out } else { 0 };
            (cost_in + cost_out) as i64
        });
        values - costs.sum::<i64>()
    }

    /// Returns whether a plane has a batch in and a batch out.
    pub(crate) fn batches(&self, planes: &[PlaneId], plane: PlaneId) -> (bool, bool) {
        let mut counts = BatchCounts::default();
        for (item, &new) in self.item_ids().zip(planes) {
            if new == plane {
                counts.add(self.is_charged_in(item, plane));
            }
            counts.before += u64::from(self.current_or_home(item) == plane);
        }
        counts.batches()
    }

    /// Returns the covers that these planes need.
    pub fn covers(&self, planes: &[PlaneId]) -> BTreeSet<(PlaneId, ItemId)> {
        let mut covers = BTreeSet::new();
        if !self.has_needs() {
            return covers;
        }
        for (item, &plane) in self.item_ids().zip(planes) {
            if plane == PlaneId::HOME {
                continue;
            }
            for need in self.needs(item) {
                if let Need::ItemOrCover(other) = *need
                    && planes[other.index()] != plane
                {
                    covers.insert((plane, other));
                }
            }
        }
        covers
    }

    /// Returns what is in use of each resource of each plane with limits, plane by plane.
    pub fn usage(&self, planes: &[PlaneId]) -> Vec<u64> {
        let resources = self.resources();
        let mut used = vec![0; self.plane_ids().count() * resources];
        let mut add = |plane: PlaneId, weights: &[u64]| {
            if let Some(at) = plane.limited() {
                let used = &mut used[at * resources..(at + 1) * resources];
                for (used, weight) in used.iter_mut().zip(weights) {
                    *used += weight;
                }
            }
        };
        for (item, &plane) in self.item_ids().zip(planes) {
            add(plane, self.weights(item));
        }
        for (plane, item) in self.covers(planes) {
            add(plane, self.cover(item));
        }
        used
    }

    /// Returns the number of items that enter or leave a plane.
    pub fn move_count(&self, planes: &[PlaneId], plane: PlaneId) -> u64 {
        let items = self.item_ids().zip(planes);
        let is_move = |&(item, &new): &(ItemId, &PlaneId)| {
            (self.current(item) == Some(plane)) != (new == plane)
        };
        items.filter(is_move).count() as u64
    }

    /// Returns the rules that these planes break. The limit of moves is one of them only where the
    /// current items of the plane are allowed.
    pub fn violations(&self, planes: &[PlaneId]) -> Vec<Violation> {
        let mut found = self.state_violations(planes);
        let current = self.state_violations(&self.current_planes());
        for plane in self.plane_ids() {
            let name = self.plane_name(plane);
            if let Some(limit) = self.move_limit(plane)
                && !current.iter().any(|violation| violation.plane() == name)
            {
                let moves = self.move_count(planes, plane);
                if moves > limit {
                    found.push(Violation::TooManyMoves {
                        plane: name.to_owned(),
                        moves,
                        limit,
                    });
                }
            }
        }
        found
    }

    /// Returns the rules that these planes break, whatever was before.
    fn state_violations(&self, planes: &[PlaneId]) -> Vec<Violation> {
        let mut found = Vec::new();
        let used = self.usage(planes);
        for (plane, used) in self.plane_ids().zip(used.chunks(self.resources())) {
            let capacity = self.plane(plane).map_or(&[][..], |plane| &plane.capacity);
            for (at, (&used, &capacity)) in used.iter().zip(capacity).enumerate() {
                if used > capacity {
                    found.push(Violation::OverFull {
                        plane: self.plane_name(plane).to_owned(),
                        resource: ResourceId(at as u16),
                        used,
                        capacity,
                    });
                }
            }
        }
        if self.has_needs() {
            for (item, &plane) in self.item_ids().zip(planes) {
                let is_missing = |need: &&Need| matches!(need, Need::Item(other) if planes[other.index()] != plane);
                let missing = self.needs(item).iter().filter(is_missing);
                if plane != PlaneId::HOME {
                    found.extend(missing.map(|need| Violation::Missing {
                        plane: self.plane_name(plane).to_owned(),
                        item,
                        needs: need.item(),
                    }));
                }
            }
        }
        found
    }

    /// Returns the limit of moves of each plane with limits, `None` where it does not apply, and
    /// warnings for planes of which the current items are not allowed.
    pub(crate) fn move_limits(&self) -> (Vec<Option<u64>>, Vec<SolveWarning>) {
        let mut limits: Vec<_> = self
            .plane_ids()
            .map(|plane| self.move_limit(plane))
            .collect();
        let mut warnings = Vec::new();
        if limits.iter().any(Option::is_some) {
            let current = self.state_violations(&self.current_planes());
            for (plane, limit) in self.plane_ids().zip(&mut limits) {
                let name = self.plane_name(plane);
                let is_wrong = current.iter().any(|violation| violation.plane() == name);
                if is_wrong && limit.take().is_some() {
                    let plane = name.to_owned();
                    warnings.push(SolveWarning::MoveLimitIgnored { plane });
                }
            }
        }
        (limits, warnings)
    }

    /// Returns the moves from the current planes to these, in an order that keeps requirements and
    /// capacities: entries leave before others enter, and an item is on a plane only while what it
    /// needs is.
    pub fn moves(&self, planes: &[PlaneId]) -> Vec<PlaneMove> {
        let current = self.current_planes();
        let (old_covers, new_covers) = (self.covers(&current), self.covers(planes));
        let is_changed = |item: &ItemId| planes[item.index()] != current[item.index()];
        let changed: Vec<ItemId> = match self.order() {
            Some(order) => order.iter().copied().filter(is_changed).collect(),
            None => self.item_ids().filter(is_changed).collect(),
        };
        let mut moves = Vec::new();
        // An item leaves after those that need it. Where only its cover is needed, that takes its
        // place.
        for &item in changed.iter().rev() {
            let plane = current[item.index()];
            if plane != PlaneId::HOME {
                let kind = match new_covers.contains(&(plane, item)) {
                    true => Move::Cover(item),
                    false => Move::Evict(item),
                };
                moves.push(PlaneMove { plane, kind });
            }
        }
        for &(plane, item) in old_covers.difference(&new_covers) {
            if planes[item.index()] != plane {
                let kind = Move::Evict(item);
                moves.push(PlaneMove { plane, kind });
            }
        }
        for &(plane, item) in new_covers.difference(&old_covers) {
            if current[item.index()] != plane {
                let kind = Move::Cover(item);
                moves.push(PlaneMove { plane, kind });
            }
        }
        for item in changed {
            let plane = planes[item.index()];
            if plane != PlaneId::HOME {
                let kind = Move::Install(item);
                moves.push(PlaneMove { plane, kind });
            }
        }
        moves
    }

    /// Returns the solution in which these planes have the items.
    pub(crate) fn solution(&self, planes: Vec<PlaneId>) -> Solution {
        Solution {
            covers: self.covers(&planes).into_iter().collect(),
            moves: self.moves(&planes),
            objective: self.objective(&planes),
            bound: None,
            warnings: Vec::new(),
            k: None,
            planes,
        }
    }
}

impl Violation {
    /// Returns the name of the plane.
    pub fn plane(&self) -> &str {
        match self {
            Violation::OverFull { plane, .. }
            | Violation::Missing { plane, .. }
            | Violation::TooManyMoves { plane, .. } => plane,
        }
    }
}
