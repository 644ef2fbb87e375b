//! Typed indices, and the vector and the set that are indexed by them.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// Index of items of one kind. Defined by [`define_id!`](crate::define_id).
pub trait Id: Copy + Eq + Ord + Hash + fmt::Debug {
    /// Returns the id of the item at position `index`. Panics above `u32::MAX`.
    fn from_index(index: usize) -> Self;
    /// Returns the position of the item.
    fn index(self) -> usize;
}

/// Defines an index type: a newtype over `u32` that implements [`Id`].
///
/// ```
/// bits::define_id! {
///     /// Names a table of a pipeline.
///     pub struct TableId;
/// }
/// assert_eq!(TableId::new(3).get(), 3);
/// ```
#[macro_export]
macro_rules! define_id {
    ($(#[$attr:meta])* $vis:vis struct $name:ident;) => {
        $(#[$attr])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis struct $name(u32);

        #[allow(dead_code)]
        impl $name {
            /// Returns the id with this number.
            #[inline]
            $vis const fn new(number: u32) -> Self {
                Self(number)
            }

            /// Returns the number of this id.
            #[inline]
            $vis const fn get(self) -> u32 {
                self.0
            }
        }

        impl $crate::Id for $name {
            #[inline]
            fn from_index(index: usize) -> Self {
                match u32::try_from(index) {
                    Ok(number) => Self(number),
                    Err(_) => panic!("more than u32::MAX things of one kind"),
                }
            }

            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

/// Vector that is indexed by ids of type `I`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdVec<I, T> {
    items: Vec<T>,
    ids: PhantomData<fn(I) -> I>,
}

impl<I: Id, T> IdVec<I, T> {
    /// Creates an empty vector.
    pub const fn new() -> Self {
        Self {
            items: Vec::new(),
            ids: PhantomData,
        }
    }

    /// Creates an empty vector with capacity for `capacity` items.
    pub fn with_capacity(capacity: usize) -> Self {
        Vec::with_capacity(capacity).into()
    }

    /// Appends `item` and returns its id.
    pub fn push(&mut self, item: T) -> I {
        let id = self.next_id();
        self.items.push(item);
        id
    }

    /// Returns the id that the next [`push`](Self::push) will return.
    pub fn next_id(&self) -> I {
        I::from_index(self.items.len())
    }

    /// Returns the number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns true if there are no items.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the item with this id, if there is one.
    #[inline]
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }

    /// Returns the item with this id for writing, if there is one.
    #[inline]
    pub fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.items.get_mut(id.index())
    }

    /// Returns the ids of all items, ascending.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.items.len()).map(I::from_index)
    }

    /// Returns all items with their ids, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.items
            .iter()
            .enumerate()
            .map(|(index, item)| (I::from_index(index), item))
    }

    /// Returns all items with their ids, ascending, for writing.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (I, &mut T)> + ExactSizeIterator {
        self.items
            .iter_mut()
            .enumerate()
            .map(|(index, item)| (I::from_index(index), item))
    }

    /// Returns all items, ascending by id.
    pub fn values(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    /// Returns all items as a slice, in the order of their ids.
    pub fn as_slice(&self) -> &[T] {
        &self.items
    }

    /// Returns all items as a vector, in the order of their ids.
    pub fn into_vec(self) -> Vec<T> {
        self.items
    }
}

impl<I: Id, T> From<Vec<T>> for IdVec<I, T> {
    fn from(items: Vec<T>) -> Self {
        Self {
            items,
            ids: PhantomData,
        }
    }
}

impl<I: Id, T> FromIterator<T> for IdVec<I, T> {
    fn from_iter<S: IntoIterator<Item = T>>(items: S) -> Self {
        Vec::from_iter(items).into()
    }
}

impl<I: Id, T> Default for IdVec<I, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Id, T: fmt::Debug> fmt::Debug for IdVec<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<I: Id, T> Index<I> for IdVec<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for IdVec<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

/// Set of ids, as a bit vector that grows to the largest id inserted.
#[derive(Clone)]
pub struct IdSet<I> {
    words: Vec<u64>,
    ids: PhantomData<fn(I) -> I>,
}

impl<I: Id> IdSet<I> {
    /// Creates an empty set.
    pub const fn new() -> Self {
        Self {
            words: Vec::new(),
            ids: PhantomData,
        }
    }

    /// Inserts `id`. Returns true if it was new.
    pub fn insert(&mut self, id: I) -> bool {
        let (word, bit) = Self::place(id);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Removes `id`. Returns true if it was in the set.
    pub fn remove(&mut self, id: I) -> bool {
        let (word, bit) = Self::place(id);
        let Some(word) = self.words.get_mut(word) else {
            return false;
        };
        let was_in = *word & bit != 0;
        *word &= !bit;
        was_in
    }

    /// Returns true if `id` is in the set.
    #[inline]
    pub fn contains(&self, id: I) -> bool {
        let (word, bit) = Self::place(id);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Inserts all ids of `other`. Returns true if any was new.
    pub fn union_with(&mut self, other: &Self) -> bool {
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        let mut grew = false;
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            grew |= theirs & !*mine != 0;
            *mine |= theirs;
        }
        grew
    }

    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Returns the ids, ascending.
    pub fn iter(&self) -> impl Iterator<Item = I> {
        self.words.iter().enumerate().flat_map(|(place, &word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |b| I::from_index(place * 64 + b))
        })
    }

    #[inline]
    fn place(id: I) -> (usize, u64) {
        (id.index() / 64, 1 << (id.index() % 64))
    }
}

impl<I: Id> PartialEq for IdSet<I> {
    fn eq(&self, other: &Self) -> bool {
        let shared = self.words.len().min(other.words.len());
        self.words[..shared] == other.words[..shared]
            && self.words[shared..]
                .iter()
                .chain(&other.words[shared..])
                .all(|&word| word == 0)
    }
}

impl<I: Id> Eq for IdSet<I> {}

impl<I: Id> Default for IdSet<I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Id> FromIterator<I> for IdSet<I> {
    fn from_iter<S: IntoIterator<Item = I>>(ids: S) -> Self {
        let mut set = Self::new();
        ids.into_iter().for_each(|id| {
            set.insert(id);
        });
        set
    }
}

impl<I: Id> fmt::Debug for IdSet<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
