//! Contents of a table for code that is made for them: few entries, in the order in which they win.

use super::Table;
use crate::entry::{Entry, EntryIdx};

impl Table {
    /// Returns all entries with their indices, the one that wins first, or `None` if there are more
    /// than `most`. The time is in proportion to `most`, not to the size of the table.
    pub fn ranked(&self, most: usize) -> Option<Vec<(EntryIdx, Entry)>> {
        if self.len() > most {
            return None;
        }
        let entries = self
            .by_id
            .indices()
            .map(|idx| (idx, self.at(idx).to_entry()));
        let mut entries: Vec<(EntryIdx, Entry)> = entries.collect();
        entries.sort_by_key(|(_, entry)| self.rank(&entry.matches, entry.priority, entry.id));
        Some(entries)
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        ActionRef, EntryAction, EntryId, FieldMatch, KeyField, KeyShape, MatchKind, NewEntry,
        Table, TableSpec,
    };
    use bits::Value;

    #[test]
    fn the_entry_that_wins_is_first_and_many_entries_are_none() {
        let shape = KeyShape::new([KeyField {
            width: 16,
            kind: MatchKind::Ternary,
        }]);
        let action = || {
            EntryAction::Direct(ActionRef {
                action: 0,
                params: Box::default(),
            })
        };
        let mut table = Table::new(TableSpec::new(shape, 8), action());
        assert_eq!(table.ranked(0).map(|entries| entries.len()), Some(0));
        for (value, priority) in [(1, 5), (2, 9), (3, 5)] {
            let matches = vec![FieldMatch::Ternary {
                value: Value::truncated(value, 16),
                mask: Value::all_ones(16),
            }];
            let new = NewEntry {
                priority: Some(priority),
                ..NewEntry::new(matches, action())
            };
            table.insert(new, 0).unwrap();
        }
        let ranked = table.ranked(3).unwrap();
        let ids: Vec<EntryId> = ranked.iter().map(|(_, entry)| entry.id).collect();
        assert_eq!(ids, [EntryId(1), EntryId(0), EntryId(2)]);
        assert!(table.ranked(2).is_none());
    }
}
