//! Migration of a table to another program.

use super::{Table, TableSpec};
use crate::entry::{CallRef, EntryAction, EntryActionRef};
use crate::packed_entries::StoredEntry;
use crate::records::RecordStore;
use bits::Id;
use std::collections::HashMap;

impl Table {
    /// Converts the table to the one that another program describes with `spec`. Key, priority
    /// order and direct resources must be the same, and all entries must fit.
    ///
    /// Entries keep their ids, counts and meters. If actions have other numbers in the new program,
    /// `numbers` maps the old number of each action that an entry runs to the new one. Without
    /// `numbers`, and with records that stay valid ([`RecordLayout`](crate::RecordLayout)), the
    /// cost does not depend on the number of entries. Snapshots taken before stay as they are.
    pub fn refit(
        &mut self,
        spec: TableSpec,
        default: EntryAction,
        numbers: Option<&HashMap<u32, u32>>,
    ) {
        debug_assert!(spec.shape == self.spec.shape && self.len() <= spec.capacity);
        debug_assert_eq!(
            spec.direct_counter.is_some(),
            self.spec.direct_counter.is_some()
        );
        if spec.notes_usage {
            self.note_usage();
        }
        let is_rewritten = numbers.is_some() || !self.records.go_over(&spec.records);
        if spec.records != self.spec.records {
            self.snapshot = None;
        }
        self.spec = spec;
        if is_rewritten {
            self.records = RecordStore::new(self.spec.records.clone());
            self.rewrite(numbers);
        }
        if is_rewritten || self.default.action != default {
            self.set_default(default);
        }
    }

    fn rewrite(&mut self, numbers: Option<&HashMap<u32, u32>>) {
        self.entries.widen(self.spec.records.entry_param_limbs());
        let places: Vec<_> = self.by_id.indices().collect();
        for idx in places {
            let entry = self.at(idx);
            let (identity, old) = (entry.identity().to_vec(), entry.action().to_action());
            let action = match (EntryActionRef::from(&old), numbers) {
                (EntryActionRef::Direct(call), Some(numbers)) => {
                    let action = numbers.get(&call.action).copied().unwrap_or(u32::MAX);
                    EntryActionRef::Direct(CallRef { action, ..call })
                }
                (action, _) => action,
            };
            let cold = entry.cold();
            let stored = StoredEntry {
                id: entry.id(),
                is_const: entry.is_const(),
                identity: &identity,
                action,
            };
            self.records.set(idx.index() + 1, action);
            self.entries.set(idx, stored, cold);
        }
    }
}
