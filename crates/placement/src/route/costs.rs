//! Costs of prefixes while a selection grows, by the rule for nested ones.

use std::collections::{HashMap, HashSet};

use super::Nesting;
use crate::select::Requirements;
use crate::{Address, ItemId, PrefixTree};

/// Selected prefixes, and the costs of the candidates.
pub(super) struct RouteCosts<'a, A> {
    tree: &'a PrefixTree<A>,
    nesting: Nesting,
    selected: HashSet<ItemId>,
    /// Costs of candidates that fit into the switch.
    costs: HashMap<ItemId, u64>,
}

impl<'a, A: Address> RouteCosts<'a, A> {
    /// Computes the costs of these candidates for an empty switch. A candidate that alone takes
    /// more than the capacity can never be selected, because a cost falls only by what is selected
    /// already. Neither can a locked one.
    pub(super) fn new(
        tree: &'a PrefixTree<A>,
        nesting: Nesting,
        capacity: u64,
        candidates: impl Iterator<Item = ItemId>,
        is_locked: impl Fn(ItemId) -> bool,
    ) -> RouteCosts<'a, A> {
        // The walk ends early: /0 may have a million children.
        let most = usize::try_from(capacity).unwrap_or(usize::MAX);
        let cost = |item| {
            let others = match nesting {
                Nesting::Leaf => tree.children(item).take(1).count() * most,
                Nesting::Cover => tree.children(item).take(most).count(),
                Nesting::Dependents => {
                    let below = tree.descendants(item).take(most);
                    let is_free = |count: usize, below| (!is_locked(below)).then_some(count + 1);
                    below.into_iter().try_fold(0, is_free)?
                }
            };
            (others < most && !is_locked(item)).then_some(others as u64 + 1)
        };
        let costs = candidates.filter_map(|item| Some((item, cost(item)?)));
        RouteCosts {
            tree,
            nesting,
            selected: HashSet::new(),
            costs: costs.collect(),
        }
    }

    /// Returns the selected prefixes, with those that others require.
    pub(super) fn into_selected(self) -> HashSet<ItemId> {
        self.selected
    }

    /// Lowers the cost of a candidate.
    fn lower(&mut self, item: ItemId, by: u64, changed: &mut Vec<ItemId>) {
        if let Some(cost) = self.costs.get_mut(&item) {
            *cost = cost.saturating_sub(by);
            changed.push(item);
        }
    }
}

impl<A: Address> Requirements for RouteCosts<'_, A> {
    fn cost(&self, item: ItemId) -> Option<u64> {
        self.costs.get(&item).copied()
    }

    fn is_selected(&self, item: ItemId) -> bool {
        self.selected.contains(&item)
    }

    fn select(&mut self, item: ItemId, changed: &mut Vec<ItemId>) {
        let tree = self.tree;
        self.selected.insert(item);
        match self.nesting {
            Nesting::Leaf => {}
            Nesting::Cover => {
                // The switch now has the item, and its children at least as covers.
                for child in tree.children(item) {
                    self.lower(child, 1, changed);
                }
                if let Some(parent) = tree.parent(item)
                    && !self.selected.contains(&parent)
                {
                    self.lower(parent, 1, changed);
                }
            }
            Nesting::Dependents => {
                let mut count = 1;
                for below in tree.descendants(item) {
                    count += u64::from(self.selected.insert(below));
                }
                for above in tree.ancestors(item) {
                    self.lower(above, count, changed);
                }
            }
        }
    }
}
