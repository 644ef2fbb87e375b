//! [`IdIndex`]: the entries of a table in the order of their ids.

use crate::entry::{EntryId, EntryIdx};

/// Least number of gaps that are worth closing.
const MIN_GAPS: usize = 64;

/// Map from entry ids to entry indices, in the order of the ids.
///
/// Ids ascend in order of insertion, so that sorted arrays suffice: 12 bytes for each entry. A
/// removed entry leaves a gap. Gaps are closed when there are more of them than entries.
#[derive(Debug, Default)]
pub(crate) struct IdIndex {
    ids: Vec<EntryId>,
    /// For each id the index, `None` for a gap.
    indices: Vec<Option<EntryIdx>>,
    len: usize,
}

impl IdIndex {
    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the index of an entry.
    pub(crate) fn get(&self, id: EntryId) -> Option<EntryIdx> {
        self.indices[self.ids.binary_search(&id).ok()?]
    }

    /// Adds an entry. An id that is less than that of the last entry costs time in proportion to
    /// the number of entries, unless it was just removed.
    pub(crate) fn insert(&mut self, id: EntryId, idx: EntryIdx) {
        self.len += 1;
        match self.ids.last() {
            Some(&last) if last >= id => match self.ids.binary_search(&id) {
                Ok(at) => {
                    debug_assert!(self.indices[at].is_none(), "entry {id} exists");
                    self.indices[at] = Some(idx);
                }
                Err(at) => {
                    self.ids.insert(at, id);
                    self.indices.insert(at, Some(idx));
                }
            },
            _ => {
                self.ids.push(id);
                self.indices.push(Some(idx));
            }
        }
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, id: EntryId) {
        let Ok(at) = self.ids.binary_search(&id) else {
            return;
        };
        if self.indices[at].take().is_none() {
            return;
        }
        self.len -= 1;
        if self.ids.len() > 2 * self.len + MIN_GAPS {
            let indices = &self.indices;
            let mut at = 0;
            self.ids.retain(|_| {
                at += 1;
                indices[at - 1].is_some()
            });
            self.indices.retain(Option::is_some);
        }
    }

    /// Iterates over the indices of all entries, in the order of their ids.
    pub(crate) fn indices(&self) -> Indices<'_> {
        Indices {
            rest: &self.indices,
            len: self.len,
        }
    }

    /// Iterates over all entries, in the order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (EntryId, EntryIdx)> {
        self.iter_from(EntryId(0))
    }

    /// Iterates over the entries from this id on, in order.
    pub(crate) fn iter_from(&self, from: EntryId) -> impl Iterator<Item = (EntryId, EntryIdx)> {
        let first = self.ids.partition_point(|&id| id < from);
        let all = self.ids[first..].iter().zip(&self.indices[first..]);
        all.filter_map(|(&id, idx)| Some((id, (*idx)?)))
    }
}

/// Iterator over entry indices in the order of the entries' ids.
#[derive(Clone, Debug)]
pub(crate) struct Indices<'i> {
    rest: &'i [Option<EntryIdx>],
    /// Number of entries in `rest`.
    len: usize,
}

impl Iterator for Indices<'_> {
    type Item = EntryIdx;

    fn next(&mut self) -> Option<EntryIdx> {
        while let Some((first, rest)) = self.rest.split_first() {
            self.rest = rest;
            if let Some(idx) = first {
                self.len -= 1;
                return Some(*idx);
            }
        }
        None
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len, Some(self.len))
    }
}

impl DoubleEndedIterator for Indices<'_> {
    fn next_back(&mut self) -> Option<EntryIdx> {
        while let Some((last, rest)) = self.rest.split_last() {
            self.rest = rest;
            if let Some(idx) = last {
                self.len -= 1;
                return Some(*idx);
            }
        }
        None
    }
}

impl ExactSizeIterator for Indices<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_a_map_in_the_order_of_ids(
            steps in proptest::collection::vec((any::<bool>(), 0u64..300), 0..600),
        ) {
            let (mut index, mut model) = (IdIndex::default(), BTreeMap::new());
            for (at, (is_inserted, id)) in steps.into_iter().enumerate() {
                let (id, idx) = (EntryId(id), EntryIdx::new(at as u32));
                match is_inserted {
                    true if !model.contains_key(&id) => {
                        index.insert(id, idx);
                        model.insert(id, idx);
                    }
                    true => {}
                    false => {
                        index.remove(id);
                        model.remove(&id);
                    }
                }
                prop_assert_eq!(index.get(id), model.get(&id).copied());
                prop_assert_eq!(index.len(), model.len());
                prop_assert!(index.ids.len() <= 2 * index.len() + MIN_GAPS);
            }
            let all: Vec<_> = model.iter().map(|(&id, &idx)| (id, idx)).collect();
            prop_assert_eq!(index.iter().collect::<Vec<_>>(), all.clone());
            let half = EntryId(150);
            let late: Vec<_> = model.range(half..).map(|(&id, &idx)| (id, idx)).collect();
            prop_assert_eq!(index.iter_from(half).collect::<Vec<_>>(), late);
            let forward: Vec<_> = index.indices().collect();
            let mut backward: Vec<_> = index.indices().rev().collect();
            backward.reverse();
            prop_assert_eq!(&forward, &backward);
            prop_assert_eq!(forward.len(), index.indices().len());
            prop_assert_eq!(forward, all.into_iter().map(|(_, idx)| idx).collect::<Vec<_>>());
        }
    }
}
