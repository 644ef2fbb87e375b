//! [`Arena`]: allocator of variable-length runs of items in one flat array.

/// Fraction by which the items grow: one in `GROWTH_SHARE`.
const GROWTH_SHARE: usize = 8;

/// Number of size classes.
const CLASSES: usize = 28;

/// Allocator of runs of up to 256 items. A run is identified by the index of its first item and its
/// length. Its block is a little longer, so that not every insertion moves it. Index 0 is never
/// allocated.
#[derive(Debug, Clone)]
pub(crate) struct Arena<T> {
    items: Vec<T>,
    /// Free blocks, by size class.
    free: [Vec<u32>; CLASSES],
}

/// Returns the size class for runs of this length. Up to 8 items, each length has a class. Above,
/// there are four classes between a power of two and the next.
fn class(len: usize) -> usize {
    if len <= 8 {
        return len.saturating_sub(1);
    }
    let shift = (len - 1).ilog2() - 2;
    let quarters = (len - 1) >> shift;
    8 + (shift as usize - 1) * 4 + (quarters - 4)
}

/// Returns the number of items in a block of this class.
fn room(class: usize) -> usize {
    if class < 8 {
        return class + 1;
    }
    let (shift, quarter) = ((class - 8) / 4 + 1, (class - 8) % 4);
    (quarter + 5) << shift
}

impl<T: Clone + Default> Arena<T> {
    pub(crate) fn new() -> Self {
        Self {
            items: vec![T::default()],
            free: Default::default(),
        }
    }

    /// Returns all items. Items between runs have no meaning.
    #[cfg(test)]
    pub(crate) fn items(&self) -> &[T] {
        &self.items
    }

    pub(crate) fn items_mut(&mut self) -> &mut [T] {
        &mut self.items
    }

    #[inline(always)]
    pub(crate) fn get(&self, place: u32) -> &T {
        &self.items[place as usize]
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> &mut T {
        &mut self.items[place as usize]
    }

    pub(crate) fn run(&self, first: u32, len: usize) -> &[T] {
        &self.items[first as usize..][..len]
    }

    pub(crate) fn memory(&self) -> usize {
        let free = self.free.iter().map(|free| size_of_val(&free[..]));
        size_of_val(&self.items[..]) + free.sum::<usize>()
    }

    /// Allocates a run of `len` items with unspecified content. Returns index 0 if `len` is 0.
    pub(crate) fn take(&mut self, len: usize) -> u32 {
        if len == 0 {
            return 0;
        }
        let class = class(len);
        if let Some(place) = self.free[class].pop() {
            return place;
        }
        let place = self.items.len();
        if place + room(class) > self.items.capacity() {
            // A large arena grows by a fraction: the rest of a doubling would be unused.
            self.items
                .reserve_exact(room(class).max(place / GROWTH_SHARE));
        }
        self.items.resize(place + room(class), T::default());
        u32::try_from(place).expect("an arena has less than 2^32 places")
    }

    /// Frees the block of a run.
    pub(crate) fn give(&mut self, first: u32, len: usize) {
        if len != 0 {
            self.free[class(len)].push(first);
        }
    }
}

impl<T: Copy + Default> Arena<T> {
    /// Inserts an item into a run, at `at`. Returns the new index of the run.
    pub(crate) fn insert(&mut self, first: u32, len: usize, at: usize, item: T) -> u32 {
        if len != 0 && class(len) == class(len + 1) {
            let run = &mut self.items[first as usize..][..=len];
            run.copy_within(at..len, at + 1);
            run[at] = item;
            return first;
        }
        let moved = self.take(len + 1);
        let (from, to) = (first as usize, moved as usize);
        self.items.copy_within(from..from + at, to);
        self.items[to + at] = item;
        self.items.copy_within(from + at..from + len, to + at + 1);
        self.give(first, len);
        moved
    }

    /// Removes the item at `at` from a run. Returns the new index of the run.
    pub(crate) fn remove(&mut self, first: u32, len: usize, at: usize) -> u32 {
        let run = &mut self.items[first as usize..][..len];
        run.copy_within(at + 1.., at);
        if len > 1 && class(len) == class(len - 1) {
            return first;
        }
        let moved = self.take(len - 1);
        let (from, to) = (first as usize, moved as usize);
        self.items.copy_within(from..from + len - 1, to);
        self.give(first, len);
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_size::usual_or_interpreted;
    use proptest::prelude::*;

    #[test]
    fn rooms_are_as_long_as_the_longest_run_of_their_class() {
        for len in 1..=144 {
            let class = class(len);
            assert!(class < CLASSES && room(class) >= len && room(class) <= len + len / 4);
            assert!(class == 0 || room(class - 1) < len);
        }
    }

    proptest! {
        #[test]
        fn runs_are_as_lists_are(
            steps in proptest::collection::vec((0usize..4, 0u8..3, any::<prop::sample::Index>(), 1u32..99), 0..usual_or_interpreted(300, 60))
        ) {
            let mut arena = Arena::<u32>::new();
            let mut runs = vec![(0, Vec::<u32>::new()); 4];
            for (which, step, at, item) in steps {
                let (first, run) = &mut runs[which];
                if step == 0 && !run.is_empty() {
                    let at = at.index(run.len());
                    *first = arena.remove(*first, run.len(), at);
                    run.remove(at);
                } else {
                    let at = at.index(run.len() + 1);
                    *first = arena.insert(*first, run.len(), at, item);
                    run.insert(at, item);
                }
                for (first, run) in &runs {
                    prop_assert_eq!(arena.run(*first, run.len()), &run[..]);
                    prop_assert_eq!(*first == 0, run.is_empty());
                }
            }
        }
    }
}
