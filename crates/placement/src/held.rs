//! Items that the switch holds, with their scores and ages.

use crate::{Count, ItemId};

/// One item in the switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldItem {
    pub(crate) item: ItemId,
    /// Mean of packets in a window; each window before weighs half of the next one.
    pub(crate) score: f64,
    /// Packets in the last window.
    pub(crate) hits: u64,
    /// Number of last windows without a packet.
    pub(crate) idle: u32,
}

/// Set of items in the switch: an array of them, and their places in it by item.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldItems {
    /// Place plus 1 of each item, 0: not held.
    places: Vec<u32>,
    items: Vec<HeldItem>,
}

impl HeldItems {
    fn place(&self, item: ItemId) -> Option<usize> {
        let place = *self.places.get(item.index())?;
        (place as usize).checked_sub(1)
    }

    pub(crate) fn contains(&self, item: ItemId) -> bool {
        self.place(item).is_some()
    }

    pub(crate) fn items(&self) -> &[HeldItem] {
        &self.items
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn get(&self, item: ItemId) -> Option<&HeldItem> {
        self.items.get(self.place(item)?)
    }

    /// Adds an item, unless it is held.
    pub(crate) fn insert(&mut self, item: ItemId, score: f64) {
        if self.contains(item) {
            return;
        }
        if self.places.len() <= item.index() {
            self.places.resize(item.index() + 1, 0);
        }
        self.items.push(HeldItem {
            item,
            score,
            hits: 0,
            idle: 0,
        });
        self.places[item.index()] = self.items.len() as u32;
    }

    /// Removes an item. Returns false if it is not held.
    pub(crate) fn remove(&mut self, item: ItemId) -> bool {
        let Some(place) = self.place(item) else {
            return false;
        };
        self.items.swap_remove(place);
        self.places[item.index()] = 0;
        if let Some(moved) = self.items.get(place) {
            self.places[moved.item.index()] = place as u32 + 1;
        }
        true
    }

    /// Ends a window: updates scores and ages by the counts of the entries. Items without a count
    /// had no packet.
    pub(crate) fn end_window(&mut self, hits: &[Count]) {
        for held in &mut self.items {
            held.hits = 0;
        }
        for count in hits {
            if let Some(place) = self.place(count.item) {
                let hits = &mut self.items[place].hits;
                *hits = hits.saturating_add(count.packets);
            }
        }
        for held in &mut self.items {
            held.score = (held.score + held.hits as f64) / 2.0;
            held.idle = if held.hits == 0 {
                held.idle.saturating_add(1)
            } else {
                0
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use support::rng::Rng;

    #[test]
    fn items_are_found_after_others_are_removed() {
        let mut rng = Rng::new(3);
        let mut held = HeldItems::default();
        let mut naive = BTreeSet::new();
        for _ in 0..5000 {
            let item = ItemId(rng.below(50) as u32);
            if rng.one_in(2) {
                held.insert(item, 1.0);
                naive.insert(item);
            } else {
                assert_eq!(held.remove(item), naive.remove(&item));
            }
            let all: BTreeSet<ItemId> = held.items().iter().map(|held| held.item).collect();
            assert_eq!(all, naive);
            assert!((0..50).all(|i| held.contains(ItemId(i)) == naive.contains(&ItemId(i))));
        }
    }

    #[test]
    fn scores_follow_counts_and_idle_windows_are_counted() {
        let mut held = HeldItems::default();
        held.insert(ItemId(7), 100.0);
        held.insert(ItemId(2), 8.0);
        let count = Count {
            item: ItemId(7),
            packets: 50,
        };
        held.end_window(&[count]);
        held.end_window(&[]);
        let of = |item| held.get(ItemId(item)).map(|held| (held.score, held.idle));
        assert_eq!(of(7), Some((37.5, 1)));
        assert_eq!(of(2), Some((2.0, 2)));
        assert_eq!(of(3), None);
    }
}
