//! [`Paged`]: an array in pages that copies share, so that a copy is free and a change costs a page.

use std::sync::Arc;

/// Items in a leaf.
const LEAF: usize = 16;
/// Leaves in a branch.
const BRANCH: usize = 256;

type Leaf<T> = Arc<[T]>;
type Branch<T> = Arc<[Leaf<T>]>;

/// An array of fixed length. A clone shares all pages; a write copies the page that it changes and
/// the way to it, unless nobody shares them.
#[derive(Debug, Clone)]
pub(crate) struct Paged<T> {
    branches: Arc<[Branch<T>]>,
    len: usize,
}

impl<T: Clone> Paged<T> {
    /// `len` times `item`, in pages that all are one until written. The length is rounded up to
    /// whole pages inside, never outside.
    pub(crate) fn filled(len: usize, item: T) -> Self {
        let leaf: Leaf<T> = std::iter::repeat_n(item, LEAF.min(len)).collect();
        let leaves = len.div_ceil(LEAF);
        let branch: Branch<T> = std::iter::repeat_n(leaf, BRANCH.min(leaves)).collect();
        let branches = std::iter::repeat_n(branch, leaves.div_ceil(BRANCH)).collect();
        Self { branches, len }
    }

    /// About how many bytes the pages take, as if no two were one.
    pub(crate) fn memory(&self) -> usize {
        self.len * size_of::<T>() + self.len.div_ceil(LEAF) * size_of::<Leaf<T>>()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The item at `index`, which is less than the length.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> &T {
        debug_assert!(index < self.len);
        &self.branches[index / (LEAF * BRANCH)][index / LEAF % BRANCH][index % LEAF]
    }

    /// The item at `index`, which is less than the length, to be changed here and in no copy.
    pub(crate) fn get_mut(&mut self, index: usize) -> &mut T {
        debug_assert!(index < self.len);
        let branch = &mut Arc::make_mut(&mut self.branches)[index / (LEAF * BRANCH)];
        let leaf = &mut Arc::make_mut(branch)[index / LEAF % BRANCH];
        &mut Arc::make_mut(leaf)[index % LEAF]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_what_the_original_changes() {
        for len in [1, 15, 16, 17, 4096, 4097, 10_000] {
            let mut array = Paged::filled(len, 0);
            *array.get_mut(len - 1) = 1;
            let copy = array.clone();
            *array.get_mut(len - 1) = 2;
            *array.get_mut(0) += 5;
            assert_eq!(*copy.get(len - 1), 1);
            assert_eq!(*array.get(len - 1), if len == 1 { 7 } else { 2 });
            assert_eq!((1..len - 1).filter(|&i| *array.get(i) != 0).count(), 0);
        }
    }

    #[test]
    fn a_change_copies_one_page() {
        let mut array = Paged::filled(10_000, 0);
        let copy = array.clone();
        *array.get_mut(5000) = 1;
        let shared = |i: usize| std::ptr::eq(array.get(i), copy.get(i));
        assert!(shared(0) && shared(4096) && shared(9999) && !shared(5000) && !shared(5007));
    }
}
