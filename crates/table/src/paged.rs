//! [`Paged`]: array in copy-on-write pages. A clone costs almost nothing, and a change copies one
//! page.

use std::sync::Arc;

/// Number of items in a leaf.
const LEAF: usize = 16;
/// Number of leaves in a branch.
const BRANCH: usize = 256;

type Leaf<T> = Arc<[T]>;
type Branch<T> = Arc<[Leaf<T>]>;

/// Array of fixed length. A clone shares all pages. A write copies the page that it changes and the
/// path to it, unless they are not shared.
#[derive(Debug, Clone)]
pub(crate) struct Paged<T> {
    branches: Arc<[Branch<T>]>,
    len: usize,
}

impl<T: Clone> Paged<T> {
    /// Creates an array of `len` times `item`. All pages are one shared page until they are
    /// written. Internally, the length is rounded up to whole pages.
    pub(crate) fn filled(len: usize, item: T) -> Self {
        let leaf: Leaf<T> = std::iter::repeat_n(item, LEAF.min(len)).collect();
        let leaves = len.div_ceil(LEAF);
        let branch: Branch<T> = std::iter::repeat_n(leaf, BRANCH.min(leaves)).collect();
        let branches = std::iter::repeat_n(branch, leaves.div_ceil(BRANCH)).collect();
        Self { branches, len }
    }

    /// Returns the approximate size of the pages in bytes, as if none were shared.
    pub(crate) fn memory(&self) -> usize {
        self.len * size_of::<T>() + self.len.div_ceil(LEAF) * size_of::<Leaf<T>>()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the item at `index`, which must be less than the length.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> &T {
        debug_assert!(index < self.len);
        &self.branches[index / (LEAF * BRANCH)][index / LEAF % BRANCH][index % LEAF]
    }

    /// Returns the item at `index`, which must be less than the length, for writing. Clones do not
    /// see the change.
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
