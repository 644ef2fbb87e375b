//! Where updates are applied, and what takes them back (section "Batch Atomicity").

use std::sync::Arc;

use ir::{ExternId, KeyMatch, TableId};
use switch::{Action, Change, Device, EntryId, TableEntry, arguments, is_one_shot, key_match};
use table::{ActionRef, ColorCounts, Entry, EntryAction, FieldMatch, GroupId, MemberId};

use crate::extras::Extras;
use crate::fault::Checked;

/// An update that was checked against the schema.
pub(crate) type Op = Box<dyn FnOnce(&mut Target<'_>) -> Checked + Send>;

/// What makes an update not to have been. The state is as it was right behind the update, so nothing of it can be refused.
pub(crate) type Undo = Box<dyn FnOnce(&mut Device) + Send>;

/// Where updates are applied.
pub(crate) struct Target<'a> {
    pub(crate) device: &'a mut Device,
    pub(crate) extras: &'a mut Extras,
    /// What takes back what was done so far, if it may have to be.
    undos: Option<Vec<Undo>>,
}

/// The name of an entry: its match and priority.
#[derive(Clone, Debug)]
pub(crate) struct EntryKey {
    pub(crate) table: TableId,
    pub(crate) keys: Vec<KeyMatch>,
    pub(crate) matches: Vec<FieldMatch>,
    pub(crate) priority: Option<i32>,
}

/// What an entry does, with what is behind the numbers that the device made for itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Done {
    Call(ActionRef),
    Member(u32),
    Group(u32),
    OneShot(Vec<(ActionRef, u32)>),
}

/// What an entry of a table does.
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

/// The priority by which controllers know a const entry for which the program gives none: `p4c` counts down to 1 in the order of declaration
/// (section "Constant Tables"). The program's entries are the first that a table has.
pub(crate) fn declared_priority(device: &Device, table: TableId, entry: &Entry) -> i32 {
    let declared = device.program().tables[table].entries.len() as u64;
    i32::try_from(declared.saturating_sub(entry.id.0)).unwrap_or(i32::MAX)
}

impl EntryKey {
    /// The entry of this name.
    pub(crate) fn find(&self, device: &Device) -> Option<Arc<Entry>> {
        let table = &device.configuration().tables[self.table];
        if let Some(entry) = table.find(&self.matches, self.priority) {
            return Some(Arc::clone(entry));
        }
        let entry = table.find(&self.matches, None)?;
        let is_it = Some(declared_priority(device, self.table, entry)) == self.priority;
        is_it.then(|| Arc::clone(entry))
    }
}

/// All that is written of an entry, to write it again.
struct Snapshot {
    id: EntryId,
    key: EntryKey,
    entry: TableEntry,
    /// What its direct meter has marked.
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

    /// Writes the entry, whether it is there or not.
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
    /// With `may_undo`, what is done can be taken back.
    pub(crate) fn new(device: &'a mut Device, extras: &'a mut Extras, may_undo: bool) -> Self {
        Target {
            device,
            extras,
            undos: may_undo.then(Vec::new),
        }
    }

    /// Takes back all that was done, the last thing first.
    pub(crate) fn roll_back(&mut self) {
        for undo in self.undos.take().into_iter().flatten().rev() {
            undo(self.device);
        }
    }

    /// What takes back what was done.
    pub(crate) fn into_undos(self) -> Vec<Undo> {
        self.undos.unwrap_or_default()
    }

    /// Makes a change; an id if it adds an entry.
    pub(crate) fn change(&mut self, change: Change) -> Checked<Option<EntryId>> {
        Ok(self.device.apply(change)?)
    }

    /// Makes a change that another one takes back.
    pub(crate) fn change_back(&mut self, change: Change, back: Change) -> Checked {
        self.change(change)?;
        self.remember(move |device| {
            let _ = device.apply(back);
        });
        Ok(())
    }

    /// Whether what is done may be taken back.
    pub(crate) fn may_undo(&self) -> bool {
        self.undos.is_some()
    }

    /// How to take back what was done.
    pub(crate) fn remember(&mut self, undo: impl FnOnce(&mut Device) + Send + 'static) {
        if let Some(undos) = &mut self.undos {
            undos.push(Box::new(undo));
        }
    }

    /// An entry is about to be changed or deleted.
    pub(crate) fn before_change(&mut self, table: TableId, entry: &Entry) {
        if self.undos.is_none() {
            return;
        }
        if let Some(snapshot) = Snapshot::of(self.device, table, entry) {
            self.remember(|device| snapshot.restore(device));
        }
    }

    /// An entry was added.
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

    /// The default entry of a table is about to be changed.
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

    /// The change that gives a member the action that it has, or deletes it if there is none.
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

    /// The change that gives a group the members that it has, or deletes it if there is none.
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
