//! [`IdIndex`]: the entries of a table in the order of their ids.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;

use crate::entry::{EntryId, EntryIdx};

/// Least number of gaps that are worth closing, and of late entries that are worth merging.
const MIN_GAPS: usize = 64;

/// Map from entry ids to entry indices, in the order of the ids.
///
/// Ids ascend in order of insertion, so that sorted arrays suffice: 12 bytes for each entry. A
/// removed entry leaves a gap. Gaps are closed when there are more of them than entries. An entry
/// that is inserted again after its gap was closed is late: it is in a map until there are half as
/// many late entries as others. So a change takes logarithmic time on average in any order of ids.
#[derive(Debug, Default)]
pub(crate) struct IdIndex {
    ids: Vec<EntryId>,
    /// For each id the index, `None` for a gap.
    indices: Vec<Option<EntryIdx>>,
    /// Entries with ids that are not in `ids`.
    late: BTreeMap<EntryId, EntryIdx>,
    len: usize,
    /// Number of entries that were copied to other places of the arrays.
    #[cfg(test)]
    moved: usize,
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
        match self.ids.binary_search(&id) {
            Ok(at) => self.indices[at],
            Err(_) => self.late.get(&id).copied(),
        }
    }

    /// Adds an entry.
    pub(crate) fn insert(&mut self, id: EntryId, idx: EntryIdx) {
        self.len += 1;
        if self.ids.last().is_none_or(|&last| last < id) {
            if self
                .late
                .last_key_value()
                .is_none_or(|(&last, _)| last < id)
            {
                self.ids.push(id);
                self.indices.push(Some(idx));
                return;
            }
        } else if let Ok(at) = self.ids.binary_search(&id) {
            debug_assert!(self.indices[at].is_none(), "entry {id} exists");
            self.indices[at] = Some(idx);
            return;
        }
        self.late.insert(id, idx);
        if self.late.len() > MIN_GAPS.max(self.ids.len() / 2) {
            self.compact();
        }
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, id: EntryId) {
        let removed = match self.ids.binary_search(&id) {
            Ok(at) => self.indices[at].take(),
            Err(_) => self.late.remove(&id),
        };
        if removed.is_none() {
            return;
        }
        self.len -= 1;
        if self.ids.len() > 2 * self.len + MIN_GAPS {
            self.compact();
        }
    }

    /// Closes all gaps and merges the late entries.
    fn compact(&mut self) {
        let mut ids = Vec::with_capacity(self.len);
        let mut indices = Vec::with_capacity(self.len);
        for (id, idx) in self.iter() {
            ids.push(id);
            indices.push(Some(idx));
        }
        #[cfg(test)]
        {
            self.moved += ids.len();
        }
        (self.ids, self.indices) = (ids, indices);
        self.late.clear();
    }

    /// Iterates over the indices of all entries, in the order of their ids.
    pub(crate) fn indices(&self) -> Indices<'_> {
        Indices {
            entries: self.entries_from(EntryId(0)),
            len: self.len,
        }
    }

    /// Iterates over all entries, in the order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (EntryId, EntryIdx)> {
        self.iter_from(EntryId(0))
    }

    /// Iterates over the entries from this id on, in order.
    pub(crate) fn iter_from(&self, from: EntryId) -> impl Iterator<Item = (EntryId, EntryIdx)> {
        self.entries_from(from)
    }

    fn entries_from(&self, from: EntryId) -> Entries<'_> {
        let first = self.ids.partition_point(|&id| id < from);
        Entries {
            ids: &self.ids[first..],
            indices: &self.indices[first..],
            late: self.late.range(from..),
        }
    }
}

/// Iterator over entries in the order of their ids.
#[derive(Clone, Debug)]
struct Entries<'i> {
    ids: &'i [EntryId],
    /// For each of `ids` the index, `None` for a gap.
    indices: &'i [Option<EntryIdx>],
    late: Range<'i, EntryId, EntryIdx>,
}

impl Iterator for Entries<'_> {
    type Item = (EntryId, EntryIdx);

    fn next(&mut self) -> Option<(EntryId, EntryIdx)> {
        while let ([id, ids @ ..], [idx, indices @ ..]) = (self.ids, self.indices) {
            if idx.is_some()
                && let Some((late, _)) = self.late.clone().next()
                && late < id
            {
                break;
            }
            (self.ids, self.indices) = (ids, indices);
            if let Some(idx) = idx {
                return Some((*id, *idx));
            }
        }
        self.late.next().map(|(&id, &idx)| (id, idx))
    }
}

impl DoubleEndedIterator for Entries<'_> {
    fn next_back(&mut self) -> Option<(EntryId, EntryIdx)> {
        while let ([ids @ .., id], [indices @ .., idx]) = (self.ids, self.indices) {
            if idx.is_some()
                && let Some((late, _)) = self.late.clone().next_back()
                && late > id
            {
                break;
            }
            (self.ids, self.indices) = (ids, indices);
            if let Some(idx) = idx {
                return Some((*id, *idx));
            }
        }
        self.late.next_back().map(|(&id, &idx)| (id, idx))
    }
}

/// Iterator over entry indices in the order of the entries' ids.
#[derive(Clone, Debug)]
pub(crate) struct Indices<'i> {
    entries: Entries<'i>,
    len: usize,
}

impl Iterator for Indices<'_> {
    type Item = EntryIdx;

    fn next(&mut self) -> Option<EntryIdx> {
        let (_, idx) = self.entries.next()?;
        self.len -= 1;
        Some(idx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len, Some(self.len))
    }
}

impl DoubleEndedIterator for Indices<'_> {
    fn next_back(&mut self) -> Option<EntryIdx> {
        let (_, idx) = self.entries.next_back()?;
        self.len -= 1;
        Some(idx)
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

    #[test]
    fn deletions_that_are_undone_in_any_order_move_each_entry_a_few_times() {
        const ENTRIES: u64 = 50_000;
        let ascending = || (0..ENTRIES).map(EntryId);
        let orders: [(&str, Vec<EntryId>); 3] = [
            ("the first one first", ascending().collect()),
            ("the last one first", ascending().rev().collect()),
            (
                "mixed",
                ascending()
                    .map(|id| EntryId(id.0 * 7919 % ENTRIES))
                    .collect(),
            ),
        ];
        for (order, ids) in orders {
            let mut index = IdIndex::default();
            for id in ascending() {
                index.insert(id, EntryIdx::new(id.0 as u32));
            }
            for &id in &ids {
                index.remove(id);
            }
            for &id in ids.iter().rev() {
                index.insert(id, EntryIdx::new(id.0 as u32));
            }
            assert!(
                index.moved <= 6 * ENTRIES as usize,
                "{order}: {}",
                index.moved
            );
            assert!(index.iter().map(|(id, _)| id).eq(ascending()), "{order}");
        }
    }
}
