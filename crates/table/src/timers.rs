//! [`Timers`]: priority queue of the times at which buckets of a learning table must be checked.

/// Number of children of a node. Four keeps the tree flat, and the children of a node are adjacent
/// in memory.
const ARITY: usize = 4;

/// [`Timers::places`] of a bucket that is not in the heap.
const NOWHERE: u32 = u32::MAX;

/// Heap of buckets by time, with at most one time for each bucket. All operations take logarithmic
/// time. Adding a time that is later than most, as is usual for timeouts, takes almost none.
#[derive(Debug)]
pub(crate) struct Timers {
    heap: Vec<Node>,
    /// Position of each bucket in the heap.
    places: Box<[u32]>,
}

/// Heap node, ordered by time, then by bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    at: u64,
    slot: u32,
}

impl Timers {
    /// Creates an empty heap for buckets with indices below `slots`, which is less than 2^32.
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            heap: Vec::new(),
            places: vec![NOWHERE; slots].into(),
        }
    }

    /// Returns the earliest time and its bucket.
    pub(crate) fn first(&self) -> Option<(u64, usize)> {
        self.heap.first().map(|node| (node.at, node.slot as usize))
    }

    /// Sets the time of a bucket, replacing the previous one if there is one.
    pub(crate) fn file(&mut self, slot: usize, at: u64) {
        let node = Node {
            at,
            slot: slot as u32,
        };
        let place = self.places[slot];
        if place == NOWHERE {
            self.heap.push(node);
            self.rise(self.heap.len() - 1, node);
        } else {
            self.settle(place as usize, node);
        }
    }

    /// Removes the time of a bucket.
    pub(crate) fn remove(&mut self, slot: usize) {
        let place = std::mem::replace(&mut self.places[slot], NOWHERE);
        if place == NOWHERE {
            return;
        }
        if let Some(last) = self.heap.pop()
            && (place as usize) < self.heap.len()
        {
            self.settle(place as usize, last);
        }
    }

    /// Replaces the node at `place` by `node` and restores the heap order.
    fn settle(&mut self, place: usize, node: Node) {
        if node < self.heap[place] {
            self.rise(place, node);
        } else {
            self.sink(place, node);
        }
    }

    fn rise(&mut self, mut place: usize, node: Node) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.heap[parent] <= node {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, node);
    }

    fn sink(&mut self, mut place: usize, node: Node) {
        loop {
            let first = place * ARITY + 1;
            let children = first..(first + ARITY).min(self.heap.len());
            let Some(least) = children.min_by_key(|&child| self.heap[child]) else {
                break;
            };
            if node <= self.heap[least] {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, node);
    }

    fn put(&mut self, place: usize, node: Node) {
        self.heap[place] = node;
        self.places[node.slot as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_size::usual_or_interpreted;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_first_is_the_earliest_of_a_map(
            steps in proptest::collection::vec((0usize..50, proptest::option::weighted(0.7, 0u64..100)), 0..usual_or_interpreted(300, 60)),
        ) {
            let mut timers = Timers::new(50);
            let mut model: BTreeMap<usize, u64> = BTreeMap::new();
            for (slot, at) in steps {
                match at {
                    Some(at) => {
                        timers.file(slot, at);
                        model.insert(slot, at);
                    }
                    None => {
                        timers.remove(slot);
                        model.remove(&slot);
                    }
                }
                prop_assert_eq!(timers.first(), model.iter().map(|(&slot, &at)| (at, slot)).min());
            }
            while let Some((at, slot)) = timers.first() {
                timers.remove(slot);
                prop_assert_eq!(model.remove(&slot), Some(at));
            }
            prop_assert!(model.is_empty());
        }
    }
}
