//! Problem of items and planes: what a caller knows before a decision. It is checked once, when it
//! is built, and does not change afterwards.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::ItemId;

/// Index of a plane. Plane 0 is home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlaneId(pub u16);

impl PlaneId {
    /// Plane that can process each item and has no limits, for example the kernel beside a NIC, or
    /// the servers beside a switch. An item that is on no other plane is here.
    pub const HOME: PlaneId = PlaneId(0);

    /// Returns the index of the plane among those with limits, or `None` for home.
    #[inline]
    pub(crate) fn limited(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1)
    }
}

/// Index of a resource that planes have, for example entries or bytes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub u16);

/// Costs of moves into a plane and out of it, in the unit of gains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoveCosts {
    /// Cost of a batch of items into the plane, whatever their number.
    pub batch_in: u64,
    /// Cost of a batch of items out of the plane, whatever their number.
    pub batch_out: u64,
    /// Cost of each item that enters.
    pub item_in: u64,
    /// Cost of each item that leaves.
    pub item_out: u64,
    /// Items that enter or leave in a second at most. With the time until the next decision this
    /// limits the moves of one decision. Covers are not counted.
    pub items_per_second: Option<u64>,
}

/// Plane with limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitedPlane {
    /// Name in messages.
    pub name: String,
    /// Capacity of each resource.
    pub capacity: Vec<u64>,
    /// Costs of moves.
    pub costs: MoveCosts,
}

impl LimitedPlane {
    /// Creates a plane of which moves cost nothing.
    pub fn new(name: &str, capacity: Vec<u64>) -> LimitedPlane {
        LimitedPlane {
            name: name.to_owned(),
            capacity,
            costs: MoveCosts::default(),
        }
    }
}

/// Rule by which batches are charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchCharge {
    /// A batch in costs when any item enters the plane, a batch out when any item leaves it.
    #[default]
    Moves,
    /// The rule of OVS-POF-TC's model of replacement: a batch in costs when any *new* item is on
    /// the plane, a batch out when fewer *old* items are on it than before. To exchange an old item
    /// for an old one costs nothing.
    NewAndFewer,
}

/// Rates of an item: what the thresholds of OVS-POF-TC's heuristics compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Rate at which traffic of the item arrives.
    pub offered: u64,
    /// Rate up to which home carries it well, in the same unit.
    pub home_limit: u64,
}

impl Load {
    /// Returns true if the item has more traffic than home carries well.
    pub fn is_heavy(self) -> bool {
        self.offered > self.home_limit
    }
}

/// Item as a caller describes it.
#[derive(Clone, Copy, Debug)]
pub struct ItemSpec<'a> {
    /// Amount of each resource that the item takes on a plane with limits.
    pub weights: &'a [u64],
    /// Gain on each plane: home first, then planes in their order. Negative for a cost.
    pub gains: &'a [i64],
    /// Plane that has the item now. `None`: the item is new.
    pub current: Option<PlaneId>,
    /// Rates, for the policies `paper` and `paper-literal`.
    pub load: Load,
    /// Amount of each resource that its cover takes: an entry with the same match that sends its
    /// packets home. `None`: there is no such entry.
    pub cover: Option<&'a [u64]>,
}

/// Entry that must be on a plane with limits while an item is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// The other item.
    Item(ItemId),
    /// The other item, or its cover.
    ItemOrCover(ItemId),
}

impl Need {
    /// Returns the other item.
    pub fn item(self) -> ItemId {
        match self {
            Need::Item(item) | Need::ItemOrCover(item) => item,
        }
    }
}

/// Lists of values by item, in one array.
#[derive(Clone, Debug)]
struct Lists<T> {
    /// Begin of the list of each item, and the end of the last one. Empty: all lists are.
    starts: Vec<u32>,
    values: Vec<T>,
}

impl<T: Copy> Lists<T> {
    /// Lists without values.
    const EMPTY: Lists<T> = Lists {
        starts: Vec::new(),
        values: Vec::new(),
    };

    /// Sorts pairs into lists. A list has its values in the order of the pairs.
    fn new(items: usize, pairs: &[(ItemId, T)]) -> Lists<T> {
        if pairs.is_empty() {
            return Lists::EMPTY;
        }
        let mut order: Vec<usize> = (0..pairs.len()).collect();
        order.sort_by_key(|&at| pairs[at].0);
        let mut starts = vec![0; items + 1];
        for (item, _) in pairs {
            starts[item.index() + 1] += 1;
        }
        for at in 0..items {
            starts[at + 1] += starts[at];
        }
        Lists {
            starts,
            values: order.into_iter().map(|at| pairs[at].1).collect(),
        }
    }

    fn of(&self, item: ItemId) -> &[T] {
        let at = item.index();
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(&from), Some(&to)) => &self.values[from as usize..to as usize],
            _ => &[],
        }
    }
}

/// Items and planes of a decision, checked.
#[derive(Clone, Debug)]
pub struct Problem {
    resources: usize,
    planes: Vec<LimitedPlane>,
    charge: BatchCharge,
    period: Duration,
    items: usize,
    weights: Vec<u64>,
    gains: Vec<i64>,
    currents: Vec<Option<PlaneId>>,
    loads: Vec<Load>,
    /// Empty without covers.
    covers: Vec<u64>,
    /// Costs of an item that enters and that leaves, of each plane.
    item_costs: Vec<(i64, i64)>,
    needs: Lists<Need>,
    needed_by: Lists<Need>,
    /// Items so that each comes after those that it needs. Empty without requirements.
    order: Vec<ItemId>,
}

/// Error in a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemError {
    /// There are more pairs of an item and a plane than indices.
    Items,
    /// There are no or too many planes or resources.
    Size {
        /// Planes with limits.
        planes: usize,
        /// Resources.
        resources: usize,
    },
    /// Two planes have the same name, or one is called `home`.
    PlaneName(String),
    /// A plane has a number of capacities that is not the number of resources.
    Capacities {
        /// Name of the plane.
        plane: String,
        /// Its capacities.
        found: usize,
        /// Number of resources.
        expected: usize,
    },
    /// An item has a wrong number of weights, gains or weights of its cover.
    Length {
        /// The item.
        item: ItemId,
        /// Name of the list.
        list: &'static str,
        /// Its length.
        found: usize,
        /// The length that it must have.
        expected: usize,
    },
    /// A cover takes more than its item.
    Cover(ItemId),
    /// An item needs a cover of an item that has none.
    NoCover {
        /// The item.
        item: ItemId,
        /// The item without a cover.
        needs: ItemId,
    },
    /// An index is of no item.
    UnknownItem(ItemId),
    /// The current plane of an item is none of the problem.
    UnknownPlane {
        /// The item.
        item: ItemId,
        /// Its plane.
        plane: PlaneId,
    },
    /// An item needs itself, perhaps by others.
    Cycle(ItemId),
    /// Sums of gains and costs, or of weights, could overflow.
    Sum,
}

impl fmt::Display for ProblemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProblemError::Items => write!(f, "more than {} pairs of an item and a plane", u32::MAX),
            ProblemError::Size { planes, resources } => write!(
                f,
                "{planes} planes and {resources} resources: write 1 to {MAX_PLANES} of each"
            ),
            ProblemError::PlaneName(name) => {
                write!(f, "two planes have the name {name}: choose another one")
            }
            ProblemError::Capacities {
                plane,
                found,
                expected,
            } => write!(
                f,
                "plane {plane} has {found} capacities: write one for each of {expected} resources"
            ),
            ProblemError::Length {
                item,
                list,
                found,
                expected,
            } => write!(f, "item {} has {found} {list}: write {expected}", item.0),
            ProblemError::Cover(item) => write!(
                f,
                "the cover of item {} takes more of a resource than the item: make it smaller",
                item.0
            ),
            ProblemError::NoCover { item, needs } => write!(
                f,
                "item {} needs item {} or its cover, which has none: add a cover",
                item.0, needs.0
            ),
            ProblemError::UnknownItem(item) => {
                write!(f, "a requirement names item {}: add it first", item.0)
            }
            ProblemError::UnknownPlane { item, plane } => write!(
                f,
                "item {} is on plane {}: name a plane of the problem",
                item.0, plane.0
            ),
            ProblemError::Cycle(item) => write!(
                f,
                "item {} needs itself by others: requirements must have an order",
                item.0
            ),
            ProblemError::Sum => f.write_str(
                "gains and costs, or weights, have sums of 2^62 or more: choose a larger unit",
            ),
        }
    }
}

impl std::error::Error for ProblemError {}

/// Maximum number of planes with limits, and of resources.
pub const MAX_PLANES: usize = 1000;

/// Sums of gains and costs, and of weights, are below this.
const SUM_LIMIT: u128 = 1 << 62;

/// Builder of a [`Problem`].
#[derive(Clone, Debug)]
pub struct ProblemBuilder {
    problem: Problem,
    needs: Vec<(ItemId, Need)>,
    has_cover: Vec<bool>,
    /// First error of an item.
    error: Option<ProblemError>,
}

impl ProblemBuilder {
    /// Begins a problem with these resources and planes with limits. The first plane is
    /// `PlaneId(1)`.
    pub fn new(resources: usize, planes: Vec<LimitedPlane>) -> ProblemBuilder {
        ProblemBuilder {
            problem: Problem {
                resources,
                planes,
                charge: BatchCharge::default(),
                period: Duration::from_secs(1),
                items: 0,
                weights: Vec::new(),
                gains: Vec::new(),
                currents: Vec::new(),
                loads: Vec::new(),
                covers: Vec::new(),
                item_costs: Vec::new(),
                needs: Lists::EMPTY,
                needed_by: Lists::EMPTY,
                order: Vec::new(),
            },
            needs: Vec::new(),
            has_cover: Vec::new(),
            error: None,
        }
    }

    /// Sets the rule by which batches are charged.
    pub fn charge(&mut self, charge: BatchCharge) {
        self.problem.charge = charge;
    }

    /// Sets the time until the next decision: a second if it is not set.
    pub fn period(&mut self, period: Duration) {
        self.problem.period = period;
    }

    /// Makes room for items, so that memory is allocated once.
    pub fn reserve(&mut self, items: usize) {
        let problem = &mut self.problem;
        problem.weights.reserve_exact(items * problem.resources);
        problem
            .gains
            .reserve_exact(items * (problem.planes.len() + 1));
        problem.currents.reserve_exact(items);
        problem.loads.reserve_exact(items);
    }

    /// Adds an item and returns its index. Items are numbered from 0; policies take the number as
    /// the order of arrival. An error of the item is that of [`ProblemBuilder::build`].
    #[inline]
    pub fn add(&mut self, spec: ItemSpec) -> ItemId {
        let item = ItemId(self.problem.items as u32);
        if let Some(error) = self.error_of(item, &spec) {
            self.error.get_or_insert(error);
            return item;
        }
        let problem = &mut self.problem;
        problem.items += 1;
        problem.weights.extend_from_slice(spec.weights);
        problem.gains.extend_from_slice(spec.gains);
        problem.currents.push(spec.current);
        problem.loads.push(spec.load);
        if let Some(cover) = spec.cover {
            let before = item.index() * problem.resources;
            problem.covers.resize(before, 0);
            problem.covers.extend_from_slice(cover);
            self.has_cover.resize(item.index(), false);
            self.has_cover.push(true);
        }
        item
    }

    /// Returns what is wrong with an item.
    #[inline]
    fn error_of(&self, item: ItemId, spec: &ItemSpec) -> Option<ProblemError> {
        let (resources, planes) = (self.problem.resources, self.problem.planes.len() + 1);
        let cover = spec.cover.unwrap_or(spec.weights);
        for (list, found, expected) in [
            ("weights", spec.weights.len(), resources),
            ("gains", spec.gains.len(), planes),
            ("weights of its cover", cover.len(), resources),
        ] {
            if found != expected {
                return Some(ProblemError::Length {
                    item,
                    list,
                    found,
                    expected,
                });
            }
        }
        let mut pairs = cover.iter().zip(spec.weights);
        if let Some(plane) = spec.current.filter(|plane| usize::from(plane.0) >= planes) {
            Some(ProblemError::UnknownPlane { item, plane })
        } else if self.problem.items >= u32::MAX as usize / planes {
            Some(ProblemError::Items)
        } else if spec.cover.is_some() && pairs.any(|(cover, weight)| cover > weight) {
            Some(ProblemError::Cover(item))
        } else {
            None
        }
    }

    /// Adds a requirement: while the item is on a plane with limits, the plane has what it needs.
    pub fn require(&mut self, item: ItemId, need: Need) {
        self.needs.push((item, need));
    }

    /// Checks the problem.
    ///
    /// # Errors
    /// A list has a wrong length, an index is unknown, a cover is missing or larger than its item,
    /// requirements have a cycle, or sums could overflow.
    pub fn build(self) -> Result<Problem, ProblemError> {
        let ProblemBuilder {
            mut problem,
            mut needs,
            has_cover,
            error,
        } = self;
        let (planes, resources) = (problem.planes.len(), problem.resources);
        if !(1..=MAX_PLANES).contains(&planes) || !(1..=MAX_PLANES).contains(&resources) {
            return Err(ProblemError::Size { planes, resources });
        }
        let mut names = BTreeSet::from(["home"]);
        if let Some(plane) = problem
            .planes
            .iter()
            .find(|plane| !names.insert(&plane.name))
        {
            return Err(ProblemError::PlaneName(plane.name.clone()));
        }
        let wrong = problem
            .planes
            .iter()
            .find(|plane| plane.capacity.len() != resources);
        if let Some(plane) = wrong {
            return Err(ProblemError::Capacities {
                plane: plane.name.clone(),
                found: plane.capacity.len(),
                expected: resources,
            });
        }
        if let Some(error) = error {
            return Err(error);
        }
        check_sums(&problem)?;
        let costs = problem.planes.iter().map(|plane| plane.costs);
        let costs = costs.map(|costs| (costs.item_in as i64, costs.item_out as i64));
        problem.item_costs = [(0, 0)].into_iter().chain(costs).collect();
        let items = problem.items;
        for &(item, need) in &needs {
            let mut both = [item, need.item()].into_iter();
            if let Some(unknown) = both.find(|item| item.index() >= items) {
                return Err(ProblemError::UnknownItem(unknown));
            }
            let other = need.item();
            let is_covered = has_cover.get(other.index()) == Some(&true);
            if matches!(need, Need::ItemOrCover(_)) && !is_covered {
                return Err(ProblemError::NoCover { item, needs: other });
            }
        }
        // Of two needs of the same item the strict one counts.
        needs.sort_unstable_by_key(|&(item, need)| (item, need.item(), need));
        needs.dedup_by_key(|&mut (item, need)| (item, need.item()));
        if !problem.covers.is_empty() {
            problem.covers.resize(items * resources, 0);
        }
        let reversed: Vec<(ItemId, Need)> = (needs.iter())
            .map(|&(item, need)| match need {
                Need::Item(other) => (other, Need::Item(item)),
                Need::ItemOrCover(other) => (other, Need::ItemOrCover(item)),
            })
            .collect();
        problem.needs = Lists::new(items, &needs);
        problem.needed_by = Lists::new(items, &reversed);
        if !needs.is_empty() {
            problem.order = order(&problem)?;
        }
        Ok(problem)
    }
}

/// Checks that no sum of gains and costs, or of weights, can overflow.
fn check_sums(problem: &Problem) -> Result<(), ProblemError> {
    let planes = problem.planes.len() + 1;
    let mut sum: u128 = 0;
    for gains in problem.gains.chunks_exact(planes) {
        let largest = gains.iter().map(|gain| gain.unsigned_abs()).max();
        sum += u128::from(largest.unwrap_or(0));
    }
    for MoveCosts {
        batch_in,
        batch_out,
        item_in,
        item_out,
        ..
    } in problem.planes.iter().map(|plane| plane.costs)
    {
        let each = u128::from(item_in) + u128::from(item_out);
        let batches = u128::from(batch_in) + u128::from(batch_out);
        sum = sum.saturating_add(batches + each * problem.items as u128);
    }
    let mut weights = vec![0u128; problem.resources];
    // A plane has an item or its cover, which is not larger.
    for item in problem.weights.chunks_exact(problem.resources) {
        for (sum, &weight) in weights.iter_mut().zip(item) {
            *sum += u128::from(weight);
        }
    }
    match sum < SUM_LIMIT && weights.iter().all(|&sum| sum < SUM_LIMIT) {
        true => Ok(()),
        false => Err(ProblemError::Sum),
    }
}

/// Returns the items so that each comes after those that it needs.
fn order(problem: &Problem) -> Result<Vec<ItemId>, ProblemError> {
    let all = || problem.item_ids();
    let mut missing: Vec<usize> = all().map(|item| problem.needs(item).len()).collect();
    let mut order: Vec<ItemId> = all().filter(|item| missing[item.index()] == 0).collect();
    let mut at = 0;
    while let Some(&item) = order.get(at) {
        at += 1;
        for need in problem.needed_by(item) {
            let missing = &mut missing[need.item().index()];
            *missing -= 1;
            if *missing == 0 {
                order.push(need.item());
            }
        }
    }
    match all().find(|item| missing[item.index()] > 0) {
        Some(item) => Err(ProblemError::Cycle(item)),
        None => Ok(order),
    }
}

impl Problem {
    /// Returns the number of items.
    pub fn items(&self) -> usize {
        self.items
    }

    /// Returns all items.
    pub fn item_ids(&self) -> impl DoubleEndedIterator<Item = ItemId> + use<> {
        (0..self.items as u32).map(ItemId)
    }

    /// Returns the planes with limits.
    pub fn plane_ids(&self) -> impl DoubleEndedIterator<Item = PlaneId> + use<> {
        (1..=self.planes.len() as u16).map(PlaneId)
    }

    /// Returns a plane with limits, or `None` for home.
    pub fn plane(&self, plane: PlaneId) -> Option<&LimitedPlane> {
        self.planes.get(plane.limited()?)
    }

    /// Returns the name of a plane.
    pub fn plane_name(&self, plane: PlaneId) -> &str {
        self.plane(plane).map_or("home", |plane| &plane.name)
    }

    /// Returns the number of resources.
    pub fn resources(&self) -> usize {
        self.resources
    }

    /// Returns the rule by which batches are charged.
    pub fn charge(&self) -> BatchCharge {
        self.charge
    }

    /// Returns what an item takes of each resource.
    pub fn weights(&self, item: ItemId) -> &[u64] {
        let from = item.index() * self.resources;
        &self.weights[from..from + self.resources]
    }

    /// Returns the first item that does not weigh what the one before does.
    pub(crate) fn first_unequal_weights(&self) -> Option<ItemId> {
        let next = self.weights.get(self.resources..).unwrap_or(&[]);
        let mut pairs = self.weights.iter().zip(next);
        let at = pairs.position(|(weight, next)| weight != next)?;
        Some(ItemId((at / self.resources + 1) as u32))
    }

    /// Returns what the cover of an item takes of each resource. Empty if no item has a cover.
    pub(crate) fn cover(&self, item: ItemId) -> &[u64] {
        let from = item.index() * self.resources;
        self.covers.get(from..from + self.resources).unwrap_or(&[])
    }

    /// Returns the gain of an item on a plane.
    #[inline]
    pub fn gain(&self, item: ItemId, plane: PlaneId) -> i64 {
        self.gains[item.index() * (self.planes.len() + 1) + usize::from(plane.0)]
    }

    /// Returns the plane that has an item now. `None`: the item is new.
    #[inline]
    pub fn current(&self, item: ItemId) -> Option<PlaneId> {
        self.currents[item.index()]
    }

    /// Returns the plane that has an item now: home if it is new.
    #[inline]
    pub fn current_or_home(&self, item: ItemId) -> PlaneId {
        self.current(item).unwrap_or(PlaneId::HOME)
    }

    /// Returns the rates of an item.
    pub fn load(&self, item: ItemId) -> Load {
        self.loads[item.index()]
    }

    /// Returns what an item needs.
    pub fn needs(&self, item: ItemId) -> &[Need] {
        self.needs.of(item)
    }

    /// Returns the items that need an item.
    pub(crate) fn needed_by(&self, item: ItemId) -> &[Need] {
        self.needed_by.of(item)
    }

    /// Returns true if items have requirements.
    pub fn has_needs(&self) -> bool {
        !self.order.is_empty()
    }

    /// Returns the items so that each comes after those that it needs, or `None` without
    /// requirements.
    pub(crate) fn order(&self) -> Option<&[ItemId]> {
        self.has_needs().then_some(&self.order)
    }

    /// Returns the costs of moves of a plane. Home has none.
    pub(crate) fn costs(&self, plane: PlaneId) -> MoveCosts {
        self.plane(plane)
            .map_or(MoveCosts::default(), |plane| plane.costs)
    }

    /// Returns the moves into a plane and out of it that one decision may have, if they are
    /// limited.
    pub fn move_limit(&self, plane: PlaneId) -> Option<u64> {
        let a_second = self.plane(plane)?.costs.items_per_second?;
        let moves = u128::from(a_second) * self.period.as_nanos() / 1_000_000_000;
        Some(u64::try_from(moves).unwrap_or(u64::MAX))
    }

    /// Returns the gain of an item on a plane less the costs of its own moves. Batches are not
    /// counted.
    #[inline]
    pub(crate) fn value(&self, item: ItemId, plane: PlaneId) -> i64 {
        let current = self.current_or_home(item);
        let gain = self.gain(item, plane);
        if current == plane {
            return gain;
        }
        let (entering, _) = self.item_costs[usize::from(plane.0)];
        let (_, leaving) = self.item_costs[usize::from(current.0)];
        gain - entering - leaving
    }

    /// Returns what an item on a plane is worth more than at home.
    #[inline]
    pub(crate) fn excess(&self, item: ItemId, plane: PlaneId) -> i64 {
        self.value(item, plane) - self.value(item, PlaneId::HOME)
    }

    /// Returns true if an item on this plane makes a batch in.
    #[inline]
    pub(crate) fn is_charged_in(&self, item: ItemId, plane: PlaneId) -> bool {
        match self.charge {
            BatchCharge::Moves => self.current(item) != Some(plane),
            BatchCharge::NewAndFewer => self.current(item).is_none(),
        }
    }

    /// Returns true if an item counts among those of which fewer on this plane make a batch out.
    #[inline]
    pub(crate) fn is_charged_out(&self, item: ItemId, plane: PlaneId) -> bool {
        !self.is_charged_in(item, plane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec<'a>(weights: &'a [u64], gains: &'a [i64]) -> ItemSpec<'a> {
        ItemSpec {
            weights,
            gains,
            current: None,
            load: Load::default(),
            cover: None,
        }
    }

    #[test]
    fn wrong_problems_are_refused_with_the_place_and_the_remedy() {
        let check = |change: fn(&mut ProblemBuilder), expected: &str| {
            let mut builder = ProblemBuilder::new(1, vec![LimitedPlane::new("nic", vec![4])]);
            builder.add(spec(&[1], &[0, 5]));
            builder.add(ItemSpec {
                cover: Some(&[1]),
                ..spec(&[2], &[0, 5])
            });
            change(&mut builder);
            let found = builder.build().map_err(|error| error.to_string());
            assert_eq!(found.err().unwrap_or_default(), expected);
        };
        check(|_| (), "");
        check(
            |b| {
                b.add(spec(&[1, 2], &[0, 5]));
            },
            "item 2 has 2 weights: write 1",
        );
        check(
            |b| {
                b.add(spec(&[1], &[0]));
            },
            "item 2 has 1 gains: write 2",
        );
        check(
            |b| {
                b.add(ItemSpec {
                    current: Some(PlaneId(2)),
                    ..spec(&[1], &[0, 5])
                });
            },
            "item 2 is on plane 2: name a plane of the problem",
        );
        check(
            |b| {
                b.add(ItemSpec {
                    cover: Some(&[3]),
                    ..spec(&[2], &[0, 5])
                });
            },
            "the cover of item 2 takes more of a resource than the item: make it smaller",
        );
        check(
            |b| b.require(ItemId(1), Need::ItemOrCover(ItemId(0))),
            "item 1 needs item 0 or its cover, which has none: add a cover",
        );
        check(
            |b| b.require(ItemId(0), Need::Item(ItemId(9))),
            "a requirement names item 9: add it first",
        );
        check(
            |b| {
                b.require(ItemId(0), Need::ItemOrCover(ItemId(1)));
                b.require(ItemId(1), Need::Item(ItemId(0)));
            },
            "item 0 needs itself by others: requirements must have an order",
        );
        check(
            |b| {
                b.add(spec(&[1], &[i64::MIN, 0]));
            },
            "gains and costs, or weights, have sums of 2^62 or more: choose a larger unit",
        );
        check(
            |b| b.problem.planes[0].capacity.push(1),
            "plane nic has 2 capacities: write one for each of 1 resources",
        );
        check(
            |b| b.problem.planes[0].name = "home".to_owned(),
            "two planes have the name home: choose another one",
        );
        check(
            |b| b.problem.planes.clear(),
            "0 planes and 1 resources: write 1 to 1000 of each",
        );
    }

    #[test]
    fn a_rate_and_the_period_limit_the_moves() {
        let mut plane = LimitedPlane::new("nic", vec![4]);
        plane.costs.items_per_second = Some(3);
        let mut builder = ProblemBuilder::new(1, vec![plane]);
        builder.period(Duration::from_millis(2500));
        let problem = builder.build().unwrap();
        assert_eq!(problem.move_limit(PlaneId(1)), Some(7));
        assert_eq!(problem.move_limit(PlaneId::HOME), None);
    }

    #[test]
    fn items_come_after_those_that_they_need() {
        let mut builder = ProblemBuilder::new(1, vec![LimitedPlane::new("nic", vec![4])]);
        for _ in 0..4 {
            builder.add(spec(&[1], &[0, 1]));
        }
        for (item, need) in [(0, 2), (2, 3), (0, 1), (1, 3)] {
            builder.require(ItemId(item), Need::Item(ItemId(need)));
        }
        let problem = builder.build().unwrap();
        assert_eq!(problem.order(), Some(&[3, 1, 2, 0].map(ItemId)[..]));
        assert_eq!(problem.needs(ItemId(0)).len(), 2);
        assert_eq!(problem.needed_by(ItemId(3)).len(), 2);
    }
}
