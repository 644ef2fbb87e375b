//! [`Arena`]: runs of items of changing length in one flat array.

/// How many sizes of runs there are.
const CLASSES: usize = 28;

/// Rooms for runs of up to 256 items. A run is named by the place of its first item and its length; its
/// room is a little longer, so that not each item that comes moves it. Place 0 is never given out.
#[derive(Debug, Clone)]
pub(crate) struct Arena<T> {
    items: Vec<T>,
    /// By class: rooms that nobody uses.
    free: [Vec<u32>; CLASSES],
}

/// The class of the rooms for runs of this length: up to 8 items each length has one, and then there are four
/// between a power of two and the next.
fn class(len: usize) -> usize {
    if len <= 8 {
        return len.saturating_sub(1);
    }
    let shift = (len - 1).ilog2() - 2;
    let quarters = (len - 1) >> shift;
    8 + (shift as usize - 1) * 4 + (quarters - 4)
}

/// How many items a room of this class takes.
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

    /// All items; what lies between runs means nothing.
    #[inline(always)]
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

    /// Room for a run, with whatever in it. None for no items: that is place 0.
    pub(crate) fn take(&mut self, len: usize) -> u32 {
        if len == 0 {
            return 0;
        }
        let class = class(len);
        if let Some(place) = self.free[class].pop() {
            return place;
        }
        let place = self.items.len();
        self.items.resize(place + room(class), T::default());
        u32::try_from(place).expect("an arena has less than 2^32 places")
    }

    /// Gives the room of a run back.
    pub(crate) fn give(&mut self, first: u32, len: usize) {
        if len != 0 {
            self.free[class(len)].push(first);
        }
    }
}

impl<T: Copy + Default> Arena<T> {
    /// Puts an item into a run, at `at`, and gives the run's place.
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

    /// Takes the item at `at` out of a run, and gives the run's place.
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
