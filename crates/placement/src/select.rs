//! Selection of items for a plane: the greatest weight for a unit of capacity first.
//!
//! For items of one size without requirements this is the top N by a max-heap. Requirements
//! between items give each item a cost that depends on the items selected before: an item may need
//! others on the same plane, or entries that stand for them. A cost falls while items are added,
//! and rises only where the cheaper way has no room left. The greedy order is the one of CacheFlow
//! (Katta et al., SOSR 2016, section 3).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::ItemId;

/// Item that may be selected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The item.
    pub item: ItemId,
    /// Weight: packets in a window, with margin and costs ([`crate::Plane::weight`]).
    pub weight: f64,
}

/// Costs of items, and the items that are selected.
pub trait Requirements {
    /// Returns the capacity that the item takes if it is selected now, with all that it requires
    /// and that is not on the plane yet, or `None` if it may not be selected.
    fn cost(&self, item: ItemId) -> Option<u64>;

    /// Returns the weight of a candidate if it is selected now, with all that it requires.
    fn weight(&self, candidate: Candidate) -> f64 {
        candidate.weight
    }

    /// Returns true if the item is selected.
    fn is_selected(&self, item: ItemId) -> bool;

    /// Selects an item and what it requires. Adds items of which the cost has fallen to `changed`.
    fn select(&mut self, item: ItemId, changed: &mut Vec<ItemId>);
}

/// Items without requirements: the cost of each is its size.
#[derive(Clone, Copy, Debug)]
pub struct Independent<F>(pub F);

impl<F: Fn(ItemId) -> u64> Requirements for Independent<F> {
    fn cost(&self, item: ItemId) -> Option<u64> {
        Some((self.0)(item))
    }

    fn is_selected(&self, _: ItemId) -> bool {
        false
    }

    fn select(&mut self, _: ItemId, _: &mut Vec<ItemId>) {}
}

/// Element of the heap: greater is better.
#[derive(Clone, Copy, Debug)]
struct Ranked {
    /// Weight for a unit of capacity. Infinite if the item takes none.
    ratio: f64,
    weight: f64,
    cost: u64,
    item: ItemId,
}

impl Ranked {
    fn new(candidate: Candidate, cost: u64, requirements: &impl Requirements) -> Ranked {
        let weight = requirements.weight(candidate);
        let ratio = match cost {
            0 => f64::INFINITY,
            _ => weight / cost as f64,
        };
        Ranked {
            ratio,
            weight,
            cost,
            item: candidate.item,
        }
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_weight = |a: &Ranked, b: &Ranked| a.weight.total_cmp(&b.weight);
        self.ratio
            .total_cmp(&other.ratio)
            .then_with(|| by_weight(self, other))
            .then_with(|| other.item.cmp(&self.item))
            .then_with(|| other.cost.cmp(&self.cost))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

/// Selects items until the capacity is used, and returns them in the order of their choice. Items
/// that others require are not among them. Of equal items the one with the smaller index is
/// better. Each item is at most once in `candidates`, which are sorted by item afterwards.
pub fn select(
    candidates: &mut [Candidate],
    capacity: u64,
    requirements: &mut impl Requirements,
) -> Vec<ItemId> {
    candidates.sort_unstable_by_key(|candidate| candidate.item);
    let ranked = candidates.iter().filter_map(|&candidate| {
        let cost = requirements.cost(candidate.item)?;
        Some(Ranked::new(candidate, cost, requirements))
    });
    let mut heap: BinaryHeap<Ranked> = ranked.collect();
    let mut free = capacity;
    let mut selected = Vec::new();
    let mut changed = Vec::new();
    while let Some(top) = heap.pop() {
        if top.cost > 0 && free == 0 {
            // Items without a cost come first, so none is left.
            break;
        }
        if requirements.is_selected(top.item) {
            continue;
        }
        match requirements.cost(top.item) {
            Some(cost) if cost == top.cost && cost <= free => {}
            // What was cheapest has no room left, and something else does its work.
            Some(cost) if cost > top.cost => {
                changed.push(top.item);
                push_changed(candidates, &mut changed, &mut heap, requirements);
                continue;
            }
            // An item of which the cost fell is in the heap again with its new cost.
            _ => continue,
        }
        free -= top.cost;
        requirements.select(top.item, &mut changed);
        selected.push(top.item);
        push_changed(candidates, &mut changed, &mut heap, requirements);
    }
    selected
}

/// Puts items into the heap again, with their costs of now. `candidates` are sorted by item.
fn push_changed(
    candidates: &[Candidate],
    changed: &mut Vec<ItemId>,
    heap: &mut BinaryHeap<Ranked>,
    requirements: &impl Requirements,
) {
    for item in changed.drain(..) {
        let at = candidates.binary_search_by_key(&item, |candidate| candidate.item);
        if let Ok(at) = at
            && let Some(cost) = requirements.cost(item)
        {
            heap.push(Ranked::new(candidates[at], cost, requirements));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use support::rng::Rng;

    fn candidate(item: u32, weight: f64) -> Candidate {
        Candidate {
            item: ItemId(item),
            weight,
        }
    }

    #[test]
    fn items_of_one_size_are_the_top_ones() {
        let mut rng = Rng::new(5);
        for n in [0, 1, 10, 100, 1000] {
            let mut all: Vec<Candidate> = (0..500)
                .map(|item| candidate(item, rng.below(100) as f64))
                .collect();
            let selected = select(&mut all, n, &mut Independent(|_| 1));
            all.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.item.cmp(&b.item)));
            let top: Vec<ItemId> = all.iter().take(n as usize).map(|c| c.item).collect();
            assert_eq!(selected, top);
        }
    }

    #[test]
    fn weight_counts_by_size() {
        let sizes = [4, 1, 1, 2];
        let mut all = vec![
            candidate(0, 10.0),
            candidate(1, 5.0),
            candidate(2, 1.0),
            candidate(3, 8.0),
        ];
        let mut requirements = Independent(|item: ItemId| sizes[item.index()]);
        let selected = select(&mut all, 4, &mut requirements);
        assert_eq!(selected, [ItemId(1), ItemId(3), ItemId(2)]);
    }

    /// Items of which each requires the next one.
    struct Line(Vec<bool>);

    impl Requirements for Line {
        fn cost(&self, item: ItemId) -> Option<u64> {
            let missing = self.0[item.index()..].iter().take_while(|is_in| !**is_in);
            Some(missing.count() as u64)
        }

        fn is_selected(&self, item: ItemId) -> bool {
            self.0[item.index()]
        }

        fn select(&mut self, item: ItemId, changed: &mut Vec<ItemId>) {
            self.0[item.index()..].fill(true);
            changed.extend((0..item.0).map(ItemId));
        }
    }

    #[test]
    fn an_item_comes_with_those_that_it_requires() {
        let mut all = vec![candidate(0, 1.0), candidate(1, 9.0), candidate(3, 8.0)];
        // Item 3 costs 1; item 1 then costs 2, and item 0 another 1.
        let selected = select(&mut all.clone(), 3, &mut Line(vec![false; 4]));
        assert_eq!(selected, [ItemId(3), ItemId(1)]);
        let selected = select(&mut all, 4, &mut Line(vec![false; 4]));
        assert_eq!(selected, [ItemId(3), ItemId(1), ItemId(0)]);
    }
}
