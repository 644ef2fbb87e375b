//! Application of updates to a device, and the operations that undo them (section "Batch
//! Atomicity").

use std::sync::Arc;

use ir::{ExternId, KeyMatch, TableId};
use switch::{Action, Change, Device, EntryId, TableEntry, arguments, is_one_shot, key_match};
use table::{ActionRef, ColorCounts, Entry, EntryAction, FieldMatch, GroupId, MemberId};

use crate::controller_state::ControllerState;
use crate::request_error::Checked;

/// An update that was checked against the schema.
pub(crate) type Op = Box<dyn FnOnce(&mut Target<'_>) -> Checked + Send>;

/// Reverts an update. It runs on the state directly after the update, so it cannot fail.
pub(crate) type Undo = Box<dyn FnOnce(&mut Device) + Send>;

/// The state to which updates are applied.
pub(crate) struct Target<'a> {
    pub(crate) device: &'a mut Device,
    pub(crate) extras: &'a mut ControllerState,
    /// The undo operations so far; `None` if undo is not needed.
    undos: Option<Vec<Undo>>,
}

/// Key of an entry: its match and priority.
#[derive(Clone, Debug)]
pub(crate) struct EntryKey {
    pub(crate) table: TableId,
    pub(crate) keys: Vec<KeyMatch>,
    pub(crate) matches: Vec<FieldMatch>,
    pub(crate) priority: Option<i32>,
}

/// The action of an entry. Ids that the device assigned internally are resolved to what they refer
/// to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Done {
    Call(ActionRef),
    Member(u32),
    Group(u32),
    OneShot(Vec<(ActionRef, u32)>),
}

/// Returns the action of a table's entry.
pub(crate) fn done(device: &Device, table: TableId, action: &EntryAction) -> Done {
    let profile = device.program().tables[table].implementation;
    let profile = profile.and_then(|id| device.configuration().profiles[id].as_ref());
    let member = |id: MemberId| profile.and_then(|profile| profile.member(id)).cloned();
    match action {
        EntryAction::Direct(call) => Done::Call(call.clone()),
        EntryAction::Member(id) if is_one_shot(id.get()) => {
            Done::OneShot(member(*id).map(|action| (action, 1)).into_iter().collect())
        }
        EntryAction::Member(id) => Done::Member(id.get()),
        EntryAction::Group(id) if is_one_shot(id.get()) => {
            let parts = profile
                .and_then(|profile| profile.group(*id))
                .unwrap_or(&[]);
            let parts = parts
                .iter()
                .filter_map(|part| Some((member(part.member)?, part.weight)));
            Done::OneShot(parts.collect())
        }
        EntryAction::Group(id) => Done::Group(id.get()),
    }
}

/// Returns the priority under which controllers know a const entry without a priority in the
/// program. `p4c` counts down to 1 in the order of declaration (section "Constant Tables"). The
/// program's entries are the first of their table.
pub(crate) fn declared_priority(device: &Device, table: TableId, entry: &Entry) -> i32 {
    let declared = device.program().tables[table].entries.len() as u64;
    i32::try_from(declared.saturating_sub(entry.id.0)).unwrap_or(i32::MAX)
}

impl EntryKey {
    /// Returns the entry with this key.
    pub(crate) fn find(&self, device: &Device) -> Option<Arc<Entry>> {
        let table = &device.configuration().tables[self.table];
        if let Some(entry) = table.find(&self.matches, self.priority) {
            return Some(entry);
        }
        let entry = table.find(&self.matches, None)?;
        let is_it = Some(declared_priority(device, self.table, &entry)) == self.priority;
        is_it.then_some(entry)
    }
}

/// Copy of an entry, from which it can be written again.
struct Snapshot {
    id: EntryId,
    key: EntryKey,
    entry: TableEntry,
    /// Counters of its direct meter's colours.
    colors: Option<ColorCounts>,
    metadata: Box<[u8]>,
}

impl Snapshot {
    fn of(device: &Device, table: TableId, entry: &Entry) -> Option<Snapshot> {
        let written = device.written(table, entry)?;
        let counter = device.configuration().tables[table].counter(Some(entry.id));
        Some(Snapshot {
            id: entry.id,
            entry: TableEntry { counter, ..written },
            colors: entry.meter.as_ref().map(|meter| meter.counts()),
            key: EntryKey {
                table,
                keys: entry.matches.iter().map(key_match).collect(),
                matches: entry.matches.to_vec(),
                priority: entry.priority,
            },
            metadata: entry.metadata.clone(),
        })
    }

    /// Writes the entry, whether or not it exists.
    fn restore(self, device: &mut Device) {
        let table = self.key.table;
        let id = match self.key.find(device) {
            None => {
                let made = device.insert_again(table, self.id, self.entry.clone());
                made.ok().map(|()| self.id)
            }
            Some(entry) if entry.is_const => Some(entry.id),
            Some(entry) => {
                let (action, timeout) = (self.entry.action.clone(), self.entry.idle_timeout);
                let _ = device.apply(Change::Modify(table, entry.id, action, timeout));
                Some(entry.id)
            }
        };
        let Some(id) = id else { return };
        for change in self.cells(device, id) {
            let _ = device.apply(change);
        }
    }

    fn cells(&self, device: &Device, id: EntryId) -> Vec<Change> {
        let table = self.key.table;
        let Some(entry) = device.configuration().tables[table].get(id) else {
            return Vec::new();
        };
        let meter = entry.meter.as_ref();
        let meter = meter.map(|_| Change::SetDirectMeter(table, Some(id), self.entry.meter));
        let colors = self.colors;
        let colors = colors.map(|counts| Change::WriteDirectColorCounts(table, Some(id), counts));
        let counter = self.entry.counter;
        let counter = counter.map(|reading| Change::WriteDirectCounter(table, Some(id), reading));
        let metadata = (!entry.is_const && entry.metadata != self.metadata)
            .then(|| Change::SetMetadata(table, id, self.metadata.clone()));
        let meter = meter.into_iter().chain(colors);
        meter.chain(counter).chain(metadata).collect()
    }
}

impl<'a> Target<'a> {
    /// Creates a target. With `may_undo`, undo operations are recorded.
    pub(crate) fn new(
        device: &'a mut Device,
        extras: &'a mut ControllerState,
        may_undo: bool,
    ) -> Self {
        Target {
            device,
            extras,
            undos: may_undo.then(Vec::new),
        }
    }

    /// Undoes all updates in reverse order.
    pub(crate) fn roll_back(&mut self) {
        for undo in self.undos.take().into_iter().flatten().rev() {
            undo(self.device);
        }
    }

    /// Returns the undo operations.
    pub(crate) fn into_undos(self) -> Vec<Undo> {
        self.undos.unwrap_or_default()
    }

    /// Applies a change. Returns an id if it adds an entry.
    pub(crate) fn change(&mut self, change: Change) -> Checked<Option<EntryId>> {
        Ok(self.device.apply(change)?)
    }

    /// Applies a change that another change reverts.
    pub(crate) fn change_back(&mut self, change: Change, back: Change) -> Checked {
        self.change(change)?;
        self.remember(move |device| {
            let _ = device.apply(back);
        });
        Ok(())
    }

    /// Returns true if undo operations are recorded.
    pub(crate) fn may_undo(&self) -> bool {
        self.undos.is_some()
    }

    /// Records an undo operation.
    pub(crate) fn remember(&mut self, undo: impl FnOnce(&mut Device) + Send + 'static) {
        if let Some(undos) = &mut self.undos {
            undos.push(Box::new(undo));
        }
    }

    /// Records an entry before it is changed or deleted.
    pub(crate) fn before_change(&mut self, table: TableId, entry: &Entry) {
        if self.undos.is_none() {
            return;
        }
        if let Some(snapshot) = Snapshot::of(self.device, table, entry) {
            self.remember(|device| snapshot.restore(device));
        }
    }

    /// Records that an entry was added.
    pub(crate) fn added(&mut self, key: &EntryKey) {
        if self.undos.is_none() {
            return;
        }
        let key = key.clone();
        self.remember(move |device| {
            if let Some(entry) = key.find(device) {
                let _ = device.apply(Change::Delete(key.table, entry.id));
            }
        });
    }

    /// Records the default entry of a table before it is changed.
    pub(crate) fn before_default(&mut self, table: TableId) {
        if self.undos.is_none() {
            return;
        }
        let entries = &self.device.configuration().tables[table];
        let default = match entries.default_action() {
            EntryAction::Direct(_) => self.device.action(table, entries.default_action()),
            _ => None,
        };
        let default = default.and_then(|action| match action {
            Action::Call(call) => Some(call),
            _ => None,
        });
        let meter = entries.default_meter();
        let colors = meter.map(|meter| meter.counts());
        let meter = meter.map(|meter| meter.config());
        let counter = entries.counter(None);
        self.remember(move |device| {
            let default = default.map(|call| Change::SetDefault(table, call));
            let meter = meter.map(|config| Change::SetDirectMeter(table, None, config));
            let counter = counter.map(|value| Change::WriteDirectCounter(table, None, value));
            let colors = colors.map(|counts| Change::WriteDirectColorCounts(table, None, counts));
            let meter = meter.into_iter().chain(colors);
            for change in default.into_iter().chain(meter).chain(counter) {
                let _ = device.apply(change);
            }
        });
    }

    /// Returns the change that restores a member's current action, or deletes the member if it does
    /// not exist.
    pub(crate) fn member_back(&self, profile: ExternId, id: u32) -> Change {
        let configured = self.device.configuration().profiles[profile].as_ref();
        let member = configured.and_then(|configured| configured.member(MemberId::new(id)));
        let declared = member.and_then(|action| {
            let id = ir::ActionId::new(action.action);
            Some((id, self.device.program().actions.get(id)?, &action.params))
        });
        match declared {
            Some((action, declared, params)) => Change::SetMember {
                profile,
                id,
                action,
                args: arguments(declared, params),
            },
            None => Change::DeleteMember(profile, id),
        }
    }

    /// Returns the change that restores a group's current members, or deletes the group if it does
    /// not exist.
    pub(crate) fn group_back(&self, profile: ExternId, id: u32) -> Change {
        let configured = self.device.configuration().profiles[profile].as_ref();
        let group = configured.and_then(|configured| configured.group(GroupId::new(id)));
        match group {
            Some(members) => Change::SetGroup {
                profile,
                id,
                members: members
                    .iter()
                    .map(|part| (part.member.get(), part.weight))
                    .collect(),
            },
            None => Change::DeleteGroup(profile, id),
        }
    }
}
