//! Entries that packets add: their insertion, modification and removal are reported as records when
//! a step ends, and they are deleted when they expire. A replica that follows the records has the
//! same entries.

use std::sync::Arc;

use bits::Value;
use ir::{ActionId, ScalarTy, TableId, limbs_of};
use table::{EntryId, LearnError, LearnedChange, LearnedEntry, LearningTable};

use crate::bounded_queue::MAX_WAITING;
use crate::control::{Change, ControlCode, ControlError, refused};
use crate::device::Device;

impl Device {
    /// Deletes the expired entries that packets added.
    pub(crate) fn expire(&mut self) {
        let now = self.core.now.0;
        for (table, learned) in self.learning(|learned| learned.next_expiry() <= now) {
            // The insertion of an entry is reported before its expiry.
            self.tell_inserted(table, &learned);
            for entry in learned.expire(now) {
                self.tell(Change::Expire(table, entry.clone()), None, Vec::new());
                self.put_expired(table, entry);
            }
        }
    }

    /// Records the changes that packets have made since the last call, table by table, in the order
    /// of [`LearningTable::take_changes`].
    pub(crate) fn tell_learned(&mut self) {
        for (table, learned) in self.learning(LearningTable::is_told) {
            self.tell_inserted(table, &learned);
        }
    }

    fn tell_inserted(&mut self, table: TableId, learned: &LearningTable) {
        for change in learned.take_changes() {
            let change = match change {
                LearnedChange::Inserted(entry) => Change::Learn(table, entry),
                LearnedChange::Modified(entry) => Change::Relearn(table, entry),
                LearnedChange::Removed(id, key) => Change::Forget(table, id, key),
            };
            self.tell(change, None, Vec::new());
        }
    }

    /// Returns the learning tables that satisfy `holds`. Allocates nothing if there are none.
    fn learning(
        &self,
        holds: impl Fn(&LearningTable) -> bool,
    ) -> Vec<(TableId, Arc<LearningTable>)> {
        let tables = self.configuration.learned.iter();
        tables
            .filter_map(|(id, learned)| Some((id, learned.as_ref()?)))
            .filter(|(_, learned)| holds(learned))
            .map(|(id, learned)| (id, Arc::clone(learned)))
            .collect()
    }

    pub(crate) fn put_expired(&mut self, table: TableId, entry: LearnedEntry) {
        if self.expired.len() < MAX_WAITING {
            self.expired.push((table, entry));
        } else {
            self.core.lost_messages += 1;
        }
    }

    /// Returns the entries that packets added and that have expired since the last call. If they
    /// are not taken, they are eventually lost, as digests are.
    pub fn take_expired(&mut self) -> Vec<(TableId, LearnedEntry)> {
        std::mem::take(&mut self.expired)
    }

    /// Applies [`Change::Learn`]: adds an entry that a packet added to this table in another
    /// device.
    pub(crate) fn learn(&mut self, id: TableId, entry: &LearnedEntry) -> Result<(), ControlError> {
        let learned = self.fitting(id, entry)?;
        let name = &self.table_of(id)?.name;
        learned.restore(entry).or_else(|error| {
            let code = match error {
                LearnError::Exists | LearnError::Contended => ControlCode::AlreadyExists,
                LearnError::Full => ControlCode::ResourceExhausted,
                LearnError::WrongSize => ControlCode::InvalidArgument,
            };
            refused(code, format!("the table `{name}`: {error}"))
        })
    }

    /// Applies [`Change::Relearn`]: replaces the action of an entry, as a packet did in another
    /// device.
    pub(crate) fn relearn(
        &mut self,
        id: TableId,
        entry: &LearnedEntry,
    ) -> Result<(), ControlError> {
        let learned = self.fitting(id, entry)?;
        self.known(id, entry.id, &entry.key)?;
        let modified = learned.modify(&entry.key, &entry.action);
        match modified {
            Ok(true) => Ok(()),
            Ok(false) => self.missing(id),
            Err(error) => refused(ControlCode::InvalidArgument, error.to_string()),
        }
    }

    /// Applies [`Change::Forget`]: deletes an entry that a packet removed in another device. The
    /// control plane may have cleared the table between the removal and its record.
    pub(crate) fn forget_removed(
        &mut self,
        id: TableId,
        entry: EntryId,
        key: &[u64],
    ) -> Result<(), ControlError> {
        let learned = self.learning_table(id)?;
        if key.len() == learned.shape().limbs() && learned.get(key).is_none() {
            return Ok(());
        }
        self.forget(id, entry, key).map(|_| ())
    }

    /// Applies [`Change::Expire`]: deletes an entry that expired in another device. Returns it.
    pub(crate) fn forget(
        &mut self,
        id: TableId,
        entry: EntryId,
        key: &[u64],
    ) -> Result<LearnedEntry, ControlError> {
        let known = self.known(id, entry, key)?;
        self.learning_table(id)?.delete(&known.key);
        Ok(known)
    }

    /// Returns the entry with this id and key.
    fn known(
        &self,
        id: TableId,
        entry: EntryId,
        key: &[u64],
    ) -> Result<LearnedEntry, ControlError> {
        let learned = self.learning_table(id)?;
        let has_its_shape = key.len() == learned.shape().limbs();
        let known = has_its_shape.then(|| learned.get(key)).flatten();
        match known.filter(|known| known.id == entry) {
            Some(known) => Ok(known),
            None => self.missing(id),
        }
    }

    fn missing<T>(&self, id: TableId) -> Result<T, ControlError> {
        let name = &self.table_of(id)?.name;
        let message = format!("the table `{name}` does not have this entry");
        refused(ControlCode::NotFound, message)
    }

    /// Returns the table if the entry fits it.
    fn fitting(
        &self,
        id: TableId,
        entry: &LearnedEntry,
    ) -> Result<Arc<LearningTable>, ControlError> {
        let learned = self.learning_table(id)?;
        if self.fits(id, &learned, entry) {
            return Ok(learned);
        }
        let name = &self.table_of(id)?.name;
        let message = format!("the entry does not fit the table `{name}`");
        refused(ControlCode::InvalidArgument, message)
    }

    fn learning_table(&self, id: TableId) -> Result<Arc<LearningTable>, ControlError> {
        let name = &self.table_of(id)?.name;
        match &self.configuration.learned[id] {
            Some(learned) => Ok(Arc::clone(learned)),
            None => refused(
                ControlCode::InvalidArgument,
                format!("packets add no entries to the table `{name}`"),
            ),
        }
    }

    /// Returns true if a packet of this program could have added the entry.
    fn fits(&self, id: TableId, learned: &LearningTable, entry: &LearnedEntry) -> bool {
        let program = self.program();
        let fields = learned.shape().fields().iter();
        let key = fields.map(|field| ScalarTy::Bit(field.width));
        let action = ActionId::new(entry.action.action);
        let is_listed = program.tables.get(id).is_some_and(|table| {
            let mut listed = table.actions.iter();
            listed.any(|listed| listed.action == action)
        });
        let params = program.actions.get(action).map(|action| &action.params);
        is_listed
            && are_values(&entry.key, key)
            && params.is_some_and(|params| {
                are_values(&entry.action.params, params.iter().map(|param| param.ty))
            })
    }
}

/// Returns true if `limbs` holds canonical values of these types, one after the other.
fn are_values(limbs: &[u64], types: impl IntoIterator<Item = ScalarTy>) -> bool {
    let mut rest = limbs;
    for ty in types {
        let Some((value, behind)) = rest.split_at_checked(limbs_of(ty) as usize) else {
            return false;
        };
        rest = behind;
        let (length, value) = match ty {
            ScalarTy::Varbit(_) => value.split_at(1),
            _ => value.split_at(0),
        };
        let width = length.first().copied().unwrap_or(ty.width().into());
        if width > u64::from(ty.width()) {
            return false;
        }
        let canonical = Value::from_limbs(value, width as u32);
        let padded = canonical.limbs().iter().chain(std::iter::repeat(&0));
        if !value.iter().eq(padded.take(value.len())) {
            return false;
        }
    }
    rest.is_empty()
}
