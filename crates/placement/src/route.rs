//! Placement of entries with longest-prefix keys.
//!
//! A switch that holds a prefix but not a longer one inside it would forward packets of the longer
//! one by the wrong entry. So each entry in the switch has all its children there, as entries or
//! as covers: a packet then finds the right entry, or flies. [`Nesting`] has the three ways to
//! keep that. [`RoutePlacement`] also keeps it while routes change, and answers each change with
//! the moves that come before servers change.

mod costs;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use support::rng::Rng;

use crate::held::HeldItems;
use crate::select::{Candidate, Requirements, select};
use crate::threshold::ReportThreshold;
use crate::{
    Address, Count, Decision, ItemId, Move, OptionsError, PlacementOptions, Plane, Policy, Prefix,
    PrefixTree,
};
use costs::RouteCosts;

/// Weight that no number of packets reaches: entries that the policy `random` keeps.
const KEPT: f64 = 1e30;

/// Rule by which prefixes may be in the switch while longer ones are inside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Nesting {
    /// Prefixes without a longer one alone: CLIP's filter (section V-A).
    Leaf,
    /// A prefix with all longer ones inside it: CacheFlow's dependent sets.
    Dependents,
    /// A prefix, and for each longer one just below it the entry itself or a cover that sends to a
    /// server: CacheFlow's cover sets. Covers count against the capacity.
    #[default]
    Cover,
}

impl Nesting {
    /// All rules.
    pub const ALL: [Nesting; 3] = [Nesting::Leaf, Nesting::Dependents, Nesting::Cover];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Nesting::Leaf => "leaf",
            Nesting::Dependents => "dependents",
            Nesting::Cover => "cover",
        }
    }

    /// Returns the rule of a name.
    pub fn named(name: &str) -> Option<Nesting> {
        Nesting::ALL
            .into_iter()
            .find(|nesting| nesting.name() == name)
    }
}

/// Counts of one window.
#[derive(Clone, Copy, Debug)]
pub struct RouteWindow<'a, A> {
    /// Packets that arrived, in the switch and at servers.
    pub packets: u64,
    /// Addresses that servers know.
    pub flows: u64,
    /// Addresses that the switch reported, with their packets in the window or an estimate of
    /// them. For the policies `heap` and `random` these are all addresses that were counted.
    pub reports: &'a [(A, u64)],
    /// Packets of entries in the switch, by their counters.
    pub hits: &'a [Count],
}

/// Answer to the insertion of a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteInsertion {
    /// The item of the prefix.
    pub item: ItemId,
    /// True if the prefix is new.
    pub is_new: bool,
    /// Moves that come before servers learn the prefix.
    pub moves: Vec<Move>,
}

/// Placement of entries with longest-prefix keys in one switch: all prefixes, and those that the
/// switch holds.
#[derive(Clone, Debug)]
pub struct RoutePlacement<A> {
    options: PlacementOptions,
    nesting: Nesting,
    plane: Plane,
    tree: PrefixTree<A>,
    entries: HeldItems,
    covers: BTreeSet<ItemId>,
    /// Items that servers are changing, with the scores of those that return to the switch.
    changing: BTreeMap<ItemId, Option<f64>>,
    reports: ReportThreshold,
    rng: Rng,
}

impl<A: Address> RoutePlacement<A> {
    /// Creates the placement of an empty switch, without prefixes. Moves cost nothing.
    ///
    /// # Errors
    /// An option is outside of its range.
    pub fn new(
        options: PlacementOptions,
        nesting: Nesting,
    ) -> Result<RoutePlacement<A>, OptionsError> {
        options.check()?;
        Ok(RoutePlacement {
            options,
            nesting,
            plane: Plane::new(options.top),
            tree: PrefixTree::default(),
            entries: HeldItems::default(),
            covers: BTreeSet::new(),
            changing: BTreeMap::new(),
            reports: ReportThreshold::new(&options, options.share),
            rng: Rng::new(options.seed),
        })
    }

    /// Sets policy and parameters, and the capacity to `top`. The next window follows them, and the
    /// threshold begins again.
    ///
    /// # Errors
    /// An option is outside of its range; then nothing changes.
    pub fn set_options(&mut self, options: PlacementOptions) -> Result<(), OptionsError> {
        options.check()?;
        self.options = options;
        self.plane.capacity = options.top;
        self.reports = ReportThreshold::new(&options, options.share);
        Ok(())
    }

    /// Sets capacity and costs of the switch. The next window follows them.
    pub fn set_plane(&mut self, plane: Plane) {
        self.plane = plane;
    }

    /// Returns the prefixes.
    pub fn tree(&self) -> &PrefixTree<A> {
        &self.tree
    }

    /// Returns the threshold of the running window: addresses with more packets are reported.
    pub fn threshold(&self) -> u64 {
        self.reports.threshold()
    }

    /// Returns true if the entry is in the switch.
    pub fn holds(&self, item: ItemId) -> bool {
        self.entries.contains(item)
    }

    /// Returns the entries in the switch, in no particular order.
    pub fn items(&self) -> impl Iterator<Item = ItemId> {
        self.entries.items().iter().map(|held| held.item)
    }

    /// Returns the covers in the switch.
    pub fn covers(&self) -> impl Iterator<Item = ItemId> {
        self.covers.iter().copied()
    }

    /// Returns the capacity that entries and covers use.
    pub fn used(&self) -> u64 {
        (self.entries.len() + self.covers.len()) as u64
    }

    fn is_present(&self, item: ItemId) -> bool {
        self.entries.contains(item) || self.covers.contains(&item)
    }

    fn parent_entry(&self, item: ItemId) -> Option<ItemId> {
        let parent = self.tree.parent(item)?;
        self.entries.contains(parent).then_some(parent)
    }

    fn install(&mut self, item: ItemId, score: f64, moves: &mut Vec<Move>) {
        self.covers.remove(&item);
        self.entries.insert(item, score);
        moves.push(Move::Install(item));
    }

    fn cover(&mut self, item: ItemId, moves: &mut Vec<Move>) {
        self.entries.remove(item);
        if self.covers.insert(item) {
            moves.push(Move::Cover(item));
        }
    }

    fn evict(&mut self, item: ItemId, moves: &mut Vec<Move>) {
        let was_entry = self.entries.remove(item);
        if self.covers.remove(&item) || was_entry {
            moves.push(Move::Evict(item));
        }
    }

    /// Removes covers of the item's children. The item must not be an entry in the switch.
    fn evict_covers_below(&mut self, item: ItemId, moves: &mut Vec<Move>) {
        // The children of an item that was in the switch are there: the walk is bounded by the
        // capacity unless the item is new.
        let is_cover = |child: &ItemId| self.covers.contains(child);
        let children: Vec<ItemId> = self.tree.children(item).filter(is_cover).collect();
        for child in children {
            self.evict(child, moves);
        }
    }

    /// Takes an entry out of the switch, with the shorter ones that require it.
    fn demote(&mut self, item: ItemId, moves: &mut Vec<Move>) {
        match self.nesting {
            Nesting::Cover if self.parent_entry(item).is_some() => self.cover(item, moves),
            Nesting::Dependents => {
                let is_held = |other: &ItemId| self.entries.contains(*other);
                let above: Vec<ItemId> = self.tree.ancestors(item).filter(is_held).collect();
                for other in above {
                    self.evict(other, moves);
                }
                self.evict(item, moves);
            }
            _ => self.evict(item, moves),
        }
        self.evict_covers_below(item, moves);
    }

    /// Inserts a prefix. Its moves make its packets fly in the switch, so they come before servers
    /// learn the prefix. A prefix that is there already changes by
    /// [`RoutePlacement::begin_change`].
    pub fn insert(&mut self, prefix: Prefix<A>) -> RouteInsertion {
        let (item, is_new) = self.tree.insert(prefix);
        let mut moves = Vec::new();
        if is_new && let Some(parent) = self.parent_entry(item) {
            let has_room = self.used() < self.plane.capacity;
            if self.nesting == Nesting::Cover && has_room {
                self.cover(item, &mut moves);
            } else {
                self.demote(parent, &mut moves);
            }
            // The new prefix stands between its children and the parent that required their covers.
            self.evict_covers_below(item, &mut moves);
        }
        RouteInsertion {
            item,
            is_new,
            moves,
        }
    }

    /// Takes an item out that the switch could not install, or that shall leave at once. The moves
    /// keep the entries right that remain.
    pub fn refuse(&mut self, item: ItemId) -> Vec<Move> {
        let mut moves = Vec::new();
        if self.entries.contains(item) {
            self.demote(item, &mut moves);
        } else if self.covers.contains(&item) {
            if let Some(parent) = self.parent_entry(item) {
                self.demote(parent, &mut moves);
            }
            self.evict(item, &mut moves);
        }
        moves
    }

    /// Begins a change or the deletion of an entry. The moves make its packets fly, so they come
    /// before servers change. Until [`RoutePlacement::end_change`] or [`RoutePlacement::delete`]
    /// the entry stays out of the switch.
    pub fn begin_change(&mut self, item: ItemId) -> Vec<Move> {
        let mut moves = Vec::new();
        let score = self.entries.get(item).map(|held| held.score);
        if score.is_some() {
            match self.nesting {
                Nesting::Cover => self.cover(item, &mut moves),
                Nesting::Leaf | Nesting::Dependents => self.demote(item, &mut moves),
            }
        }
        let before = self.changing.entry(item).or_default();
        *before = before.or(score);
        moves
    }

    /// Ends a change of an entry after servers changed. It returns to the switch if it was there
    /// and still has what it requires; the policy `dependents` waits for the next window.
    pub fn end_change(&mut self, item: ItemId) -> Vec<Move> {
        let mut moves = Vec::new();
        let Some(Some(score)) = self.changing.remove(&item) else {
            return moves;
        };
        let may_return = match self.nesting {
            Nesting::Leaf => {
                self.used() < self.plane.capacity && self.tree.children(item).next().is_none()
            }
            Nesting::Dependents => false,
            Nesting::Cover => {
                self.covers.contains(&item)
                    && self.tree.children(item).all(|child| self.is_present(child))
            }
        };
        if may_return {
            self.install(item, score, &mut moves);
        }
        moves
    }

    /// Deletes a prefix after servers deleted it. The deletion begins with
    /// [`RoutePlacement::begin_change`], before servers delete it. The item's number names the
    /// prefix in these moves, and may be used again by the next insertion.
    pub fn delete(&mut self, item: ItemId) -> Vec<Move> {
        let mut moves = Vec::new();
        if self.entries.contains(item) {
            moves = self.begin_change(item);
        }
        self.changing.remove(&item);
        if let Some(parent) = self.parent_entry(item) {
            // The children become the parent's.
            let free = self.plane.capacity.saturating_sub(self.used());
            let is_absent = |child: &ItemId| !self.is_present(*child);
            let absent = self.tree.children(item).filter(is_absent);
            let absent: Vec<ItemId> = absent.take(free as usize + 1).collect();
            if self.nesting == Nesting::Cover && absent.len() as u64 <= free {
                for child in absent {
                    self.cover(child, &mut moves);
                }
                self.evict(item, &mut moves);
                self.tree.remove(item);
                return moves;
            }
            self.demote(parent, &mut moves);
        }
        if self.covers.contains(&item) {
            self.evict(item, &mut moves);
            self.evict_covers_below(item, &mut moves);
        }
        self.tree.remove(item);
        moves
    }

    /// Ends a window and decides the moves before the next one.
    pub fn end_window(&mut self, window: &RouteWindow<A>) -> Decision {
        self.entries.end_window(window.hits);
        let mut newcomers: BTreeMap<ItemId, u64> = BTreeMap::new();
        for &(address, packets) in window.reports {
            if let Some(item) = self.tree.lookup(address)
                && !self.entries.contains(item)
            {
                let sum = newcomers.entry(item).or_default();
                *sum = sum.saturating_add(packets);
            }
        }
        let mut candidates = self.candidates(&newcomers);
        let tracked = candidates.iter().map(|candidate| candidate.item);
        let capacity = self.plane.capacity.saturating_sub(self.options.reserve);
        let is_locked = |item: ItemId| self.changing.contains_key(&item);
        let mut costs = RouteCosts::new(&self.tree, self.nesting, capacity, tracked, is_locked);
        let threshold = self.reports.threshold();
        let above = self.entries.items().iter();
        let above = above.filter(|held| held.hits > threshold).count();
        let able = newcomers.keys().filter(|item| costs.cost(**item).is_some());
        let above = (above + able.count()) as u64;
        if self.options.policy != Policy::None {
            select(&mut candidates, capacity, &mut costs);
        }
        let selected = costs.into_selected();
        let moves = self.apply(&selected, &candidates);
        let (packets, flows) = (window.packets, window.flows);
        let warning = self.reports.end_window(above, packets, flows);
        Decision {
            moves,
            threshold: self.reports.threshold(),
            k: self.reports.k(),
            candidates: above,
            warning,
        }
    }

    /// Returns the entries in the switch that are not too old, and the newcomers.
    fn candidates(&mut self, newcomers: &BTreeMap<ItemId, u64>) -> Vec<Candidate> {
        let is_random = self.options.policy == Policy::Random;
        let (plane, margin, age) = (self.plane, self.options.margin, self.options.age);
        let held = self.entries.items().iter().filter(|held| held.idle < age);
        let held = held.map(|held| Candidate {
            item: held.item,
            weight: match is_random {
                true => KEPT,
                false => plane.weight(held.score, true, margin),
            },
        });
        let mut candidates: Vec<Candidate> = held.collect();
        for (&item, &packets) in newcomers {
            let weight = match is_random {
                true => (self.rng.below(1 << 32) + 1) as f64,
                false => plane.weight(packets as f64, false, margin),
            };
            if weight > 0.0 {
                candidates.push(Candidate { item, weight });
            }
        }
        candidates
    }

    /// Moves the switch to the selected entries and their covers. Each list of moves is right
    /// after each of its moves: entries leave shortest first, then covers leave, and entries
    /// arrive longest first, each after the covers of its children.
    fn apply(&mut self, selected: &HashSet<ItemId>, candidates: &[Candidate]) -> Vec<Move> {
        let mut moves = Vec::new();
        let needs_cover = |placement: &Self, item| {
            let parent = placement.tree.parent(item);
            placement.nesting == Nesting::Cover && parent.is_some_and(|p| selected.contains(&p))
        };
        let mut leaving: Vec<ItemId> = self.items().collect();
        leaving.retain(|item| !selected.contains(item));
        self.sort_by_length(&mut leaving);
        for item in leaving {
            if needs_cover(self, item) {
                self.cover(item, &mut moves);
            } else {
                self.evict(item, &mut moves);
            }
        }
        let covers: Vec<ItemId> = self.covers().collect();
        for item in covers {
            if !selected.contains(&item) && !needs_cover(self, item) {
                self.evict(item, &mut moves);
            }
        }
        let arriving = selected.iter().copied();
        let mut arriving: Vec<ItemId> = arriving.filter(|&item| !self.holds(item)).collect();
        self.sort_by_length(&mut arriving);
        for item in arriving.into_iter().rev() {
            let is_absent = |child: &ItemId| !self.is_present(*child);
            let absent: Vec<ItemId> = self.tree.children(item).filter(is_absent).collect();
            for child in absent {
                self.cover(child, &mut moves);
            }
            let at = candidates.binary_search_by_key(&item, |candidate| candidate.item);
            let weight = at.map_or(0.0, |at| candidates[at].weight);
            self.install(item, weight + self.plane.install_cost as f64, &mut moves);
        }
        moves
    }

    /// Sorts items by the lengths of their prefixes, and by number.
    fn sort_by_length(&self, items: &mut [ItemId]) {
        let len = |item| self.tree.prefix(item).map(Prefix::len);
        items.sort_unstable_by_key(|&item| (len(item), item));
    }
}
