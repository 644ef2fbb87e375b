//! [`SlotSet`]: bit set in which packets mark changed buckets of a learning table, and which the
//! control side empties.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Binary logarithm of the number of elements for which one word of a level stands.
const FAN: u32 = u64::BITS.trailing_zeros();

/// Concurrent set of numbers below a bound. Insertion is wait-free. The cost of taking all elements
/// is in proportion to their number.
///
/// The set is a bitmap of three levels. A bit of an upper level says that a word of the level below
/// may have set bits. Insertion goes from the bottom up, and taking from the top down. An element
/// is therefore never left below a clear bit.
#[derive(Debug)]
pub(crate) struct SlotSet {
    levels: [Box<[AtomicU64]>; 3],
}

impl SlotSet {
    /// Creates the empty set of numbers below `bound`.
    pub(crate) fn new(bound: usize) -> Self {
        let level = |depth: u32| {
            let words = bound.div_ceil(1 << (FAN * (depth + 1)));
            (0..words).map(|_| AtomicU64::new(0)).collect()
        };
        Self {
            levels: [level(0), level(1), level(2)],
        }
    }

    /// Inserts a number, which must be below the bound.
    #[inline]
    pub(crate) fn insert(&self, number: usize) {
        let mut number = number;
        for level in &self.levels {
            let (word, bit) = (&level[number >> FAN], 1 << (number % (1 << FAN)));
            if word.load(SeqCst) & bit == 0 {
                word.fetch_or(bit, SeqCst);
            }
            number >>= FAN;
        }
    }

    /// Returns true if the set is empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.levels[2].iter().all(|word| word.load(SeqCst) == 0)
    }

    /// Removes all numbers and passes each to `take`, in order.
    pub(crate) fn take(&self, mut take: impl FnMut(usize)) {
        for at in 0..self.levels[2].len() {
            self.take_word(2, at, &mut take);
        }
    }

    fn take_word(&self, level: usize, at: usize, take: &mut impl FnMut(usize)) {
        let mut bits = self.levels[level][at].swap(0, SeqCst);
        while bits != 0 {
            let number = (at << FAN) + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            match level.checked_sub(1) {
                Some(below) => self.take_word(below, number, take),
                None => take(number),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_size::usual_or_interpreted;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicBool;

    fn taken(set: &SlotSet) -> Vec<usize> {
        let mut all = Vec::new();
        set.take(|number| all.push(number));
        all
    }

    proptest! {
        #[test]
        fn it_gives_what_was_inserted_once(numbers in proptest::collection::vec(0usize..300_000, 0..200)) {
            let set = SlotSet::new(300_000);
            for &number in &numbers {
                set.insert(number);
            }
            prop_assert_eq!(set.is_empty(), numbers.is_empty());
            let model: BTreeSet<usize> = numbers.into_iter().collect();
            prop_assert_eq!(taken(&set), model.into_iter().collect::<Vec<_>>());
            prop_assert!(set.is_empty());
        }
    }

    #[test]
    fn what_is_inserted_while_it_is_emptied_comes_out_too() {
        const NUMBERS: usize = usual_or_interpreted(20_000, 300);
        let (set, done) = (SlotSet::new(NUMBERS), AtomicBool::new(false));
        let mut all = std::thread::scope(|scope| {
            scope.spawn(|| {
                // Adjacent numbers share words, which the other thread is emptying.
                (0..NUMBERS).for_each(|number| set.insert(number));
                done.store(true, SeqCst);
            });
            let mut all = Vec::new();
            while !done.load(SeqCst) {
                all.extend(taken(&set));
            }
            all
        });
        all.extend(taken(&set));
        all.sort_unstable();
        assert_eq!(all, (0..NUMBERS).collect::<Vec<_>>());
    }
}
