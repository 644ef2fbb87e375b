//! Synchronisation: makes the state that a control plane writes equal to that of another device,
//! which runs an equal program and gets no packets. All changes are made or none.
//!
//! The caller publishes once afterwards, so packets see all changes together. No order of the
//! changes is visible to packets, and each step needs no more space than the states before and
//! after: what goes is removed first.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use exec::ExternState;
use ir::{ExternId, TableId};
use table::{CounterReading, Entry, EntryId, FieldMatch};

use crate::control::{Action, Change, ControlError, TableEntry};
use crate::device::Device;
use crate::object::{Object, ObjectPlace};

/// Identity of an entry in a table: its matches and its priority.
type EntryKey = (Box<[FieldMatch]>, Option<i32>);

/// Members and groups of action profiles that a synchronisation removes.
#[derive(Default)]
struct Removed {
    members: HashSet<(ExternId, u32)>,
    groups: HashSet<(ExternId, u32)>,
}

/// Steps that undo changes which were made.
#[derive(Default)]
pub struct UndoSteps(Vec<Undo>);

/// Step that undoes a change.
enum Undo {
    /// Makes this change.
    Change(Change),
    /// Deletes the entry with this number.
    Delete(TableId, EntryId),
    /// Inserts an entry under its former number.
    Insert(TableId, EntryId, TableEntry, Box<[u8]>),
}

impl Device {
    /// Makes tables, profiles, value sets, meters, multicast groups, clone sessions, queues and
    /// parameters equal to those of another device with an equal program. Counters, learned entries
    /// and registers keep their values; only these registers get those of the other device. Entries
    /// that stay keep their number, counter, meter and idle time. Returns the number of changes,
    /// which the caller publishes.
    ///
    /// # Errors
    /// A change is refused. The device is as it was.
    pub fn synchronise(
        &mut self,
        wanted: &Device,
        registers: &[(ExternId, Option<u32>)],
    ) -> Result<usize, ControlError> {
        let mut undo = UndoSteps::default();
        let made = self.make_equal(wanted, registers, &mut undo);
        if made.is_err() {
            self.take_back(undo);
        }
        made
    }

    /// Makes a change as [`Device::apply`] does, and adds the steps that undo it. It is one of
    /// those that a synchronisation makes.
    ///
    /// # Errors
    /// Those of [`Device::apply`]. Nothing is changed.
    pub fn apply_with_undo(
        &mut self,
        change: Change,
        undo: &mut UndoSteps,
    ) -> Result<Option<EntryId>, ControlError> {
        let before = self.inverse(&change);
        let added = match &change {
            Change::Insert(table, _) => Some(*table),
            _ => None,
        };
        let made = self.apply(change)?;
        undo.0.extend(before);
        if let (Some(table), Some(id)) = (added, made) {
            undo.0.push(Undo::Delete(table, id));
        }
        Ok(made)
    }

    /// Undoes changes, the last one first.
    pub fn take_back(&mut self, undo: UndoSteps) {
        for step in undo.0.into_iter().rev() {
            self.undo(step);
        }
    }

    fn make_equal(
        &mut self,
        wanted: &Device,
        registers: &[(ExternId, Option<u32>)],
        undo: &mut UndoSteps,
    ) -> Result<usize, ControlError> {
        let removed = self.removed(wanted);
        let own_places = self.synchronised_places();
        let wanted_places = wanted.synchronised_places();
        let mut first = Vec::new();
        let mut entries = Vec::new();
        for (table, _) in self.configuration.tables.iter() {
            self.entry_changes(wanted, table, &removed, &mut first, &mut entries);
        }
        let mut later = Vec::new();
        for place in own_places.difference(&wanted_places) {
            self.removal(place, &mut first);
        }
        // Places are in the order of references: members come before groups.
        for place in &wanted_places {
            let (own, other) = (self.object(place), wanted.object(place));
            if own != other {
                self.placement(place, own.is_some(), other, &mut first, &mut later);
            }
        }
        for (id, index) in registers {
            self.register_changes(wanted, *id, *index, &mut later);
        }
        // Entries go first, then groups, then members; `first` is sorted by that.
        first.sort_by_key(removal_order);
        let all = first.into_iter().chain(later).chain(entries);
        let mut count = 0;
        for change in all {
            self.apply_with_undo(change, undo)?;
            count += 1;
        }
        Ok(count)
    }

    /// Returns the places of all objects that are synchronised, but for entries.
    fn synchronised_places(&self) -> BTreeSet<ObjectPlace> {
        let objects = self.objects_with(|_| false);
        let places = objects.map(|(place, _)| place).filter(|place| {
            !matches!(
                place,
                ObjectPlace::Program
                    | ObjectPlace::Note(_)
                    | ObjectPlace::NextEntry(_)
                    | ObjectPlace::NextFlow
                    | ObjectPlace::Learned(..)
            )
        });
        places.collect()
    }

    fn removed(&self, wanted: &Device) -> Removed {
        let mut removed = Removed::default();
        for (place, _) in self.objects_with(|_| false) {
            match place {
                ObjectPlace::Member(profile, id) if wanted.object(&place).is_none() => {
                    removed.members.insert((profile, id));
                }
                ObjectPlace::Group(profile, id) if wanted.object(&place).is_none() => {
                    removed.groups.insert((profile, id));
                }
                _ => {}
            }
        }
        removed
    }

    /// Adds the changes of a table: to `first` those that remove entries, to `later` the others.
    fn entry_changes(
        &self,
        wanted: &Device,
        table: TableId,
        removed: &Removed,
        first: &mut Vec<Change>,
        later: &mut Vec<Change>,
    ) {
        let key = |entry: &Arc<Entry>| -> EntryKey {
            (entry.matches.iter().cloned().collect(), entry.priority)
        };
        let Some(other) = wanted.configuration.tables.get(table) else {
            return;
        };
        let own = &self.configuration.tables[table];
        let profile = self.program().tables[table].implementation;
        let mut found: HashMap<EntryKey, Arc<Entry>> =
            own.iter().map(|entry| (key(&entry), entry)).collect();
        for entry in other.iter() {
            let Some(mut new) = wanted.written(table, &entry) else {
                continue;
            };
            let before = found.remove(&key(&entry));
            let written = before.and_then(|before| {
                let written = self.written(table, &before)?;
                Some((before, written))
            });
            let Some((before, old)) = written else {
                new.counter = counter(wanted, table, entry.id);
                later.push(Change::Insert(table, new));
                continue;
            };
            let id = before.id;
            if !before.is_const
                && (old.action != new.action || old.idle_timeout != new.idle_timeout)
            {
                let is_free = match (&old.action, profile) {
                    (Action::Member(member), Some(profile)) => {
                        !removed.members.contains(&(profile, *member))
                    }
                    (Action::Group(group), Some(profile)) => {
                        !removed.groups.contains(&(profile, *group))
                    }
                    // Its members go before others need their space.
                    (Action::OneShot(_), _) => false,
                    _ => true,
                };
                if !is_free {
                    first.push(Change::Delete(table, id));
                    new.counter = counter(self, table, id);
                    later.push(Change::Insert(table, new));
                    continue;
                }
                let change = Change::Modify(table, id, new.action, new.idle_timeout);
                later.push(change);
            }
            if old.meter != new.meter {
                later.push(Change::SetDirectMeter(table, Some(id), new.meter));
            }
            if !before.is_const && before.metadata != entry.metadata {
                let metadata = entry.metadata.clone();
                later.push(Change::SetMetadata(table, id, metadata));
            }
        }
        let mut gone: Vec<EntryId> = found
            .into_values()
            .filter(|entry| !entry.is_const)
            .map(|entry| entry.id)
            .collect();
        gone.sort_unstable();
        first.extend(gone.into_iter().map(|id| Change::Delete(table, id)));
    }

    /// Adds the changes that remove an object that the other device does not have.
    fn removal(&self, place: &ObjectPlace, first: &mut Vec<Change>) {
        first.extend(match *place {
            ObjectPlace::Member(profile, id) => Some(Change::DeleteMember(profile, id)),
            ObjectPlace::Group(profile, id) => Some(Change::DeleteGroup(profile, id)),
            ObjectPlace::Multicast(id) => Some(Change::DeleteMulticast(id)),
            ObjectPlace::CloneSession(id) => Some(Change::DeleteCloneSession(id)),
            ObjectPlace::ExpireProfile(profile) => Some(Change::SetExpireProfile(profile, None)),
            ObjectPlace::Queue(port) => {
                let config = self.core.queues.default_config();
                (self.queue(port) != config).then_some(Change::SetQueue(port, config))
            }
            _ => None,
        });
        match *place {
            ObjectPlace::Default(table) => {
                let Some(Object::Default(call, meter)) = self.object(place) else {
                    return;
                };
                first.extend(call.map(|_| Change::ResetDefault(table)));
                first.extend(meter.map(|_| Change::SetDirectMeter(table, None, None)));
            }
            ObjectPlace::Meters(id, chunk) => {
                let cells = self.cells_of_chunk(id, chunk);
                let set = cells.filter(|index| self.read_meter(id, *index).is_some());
                first.extend(set.map(|index| Change::ResetMeter(id, Some(index))));
            }
            _ => {}
        }
    }

    /// Adds the changes that give an object this value, which differs from its own.
    fn placement(
        &self,
        place: &ObjectPlace,
        is_there: bool,
        other: Option<Object>,
        first: &mut Vec<Change>,
        later: &mut Vec<Change>,
    ) {
        let Some(other) = other else {
            return;
        };
        match (place, other) {
            (ObjectPlace::Hash, Object::Hash(parameters)) => {
                later.push(Change::SetHashParameters(parameters));
            }
            (ObjectPlace::HostPorts, Object::HostPorts(ports)) => {
                later.push(Change::SetHostPorts(ports));
            }
            (ObjectPlace::ExpireProfile(profile), Object::Timeout(timeout)) => {
                later.push(Change::SetExpireProfile(*profile, timeout));
            }
            (ObjectPlace::Queue(port), Object::Queue(config)) => {
                later.push(Change::SetQueue(*port, config));
            }
            (ObjectPlace::ValueSet(id), Object::ValueSet(members)) => {
                later.push(Change::SetValueSet(*id, members));
            }
            (ObjectPlace::Member(profile, id), Object::Member(action, args)) => {
                later.push(Change::SetMember {
                    profile: *profile,
                    id: *id,
                    action,
                    args,
                });
            }
            (ObjectPlace::Group(profile, id), Object::Group(members)) => {
                let set = |members| Change::SetGroup {
                    profile: *profile,
                    id: *id,
                    members,
                };
                if is_there {
                    // It may have members that go.
                    first.push(set(Vec::new()));
                }
                later.push(set(members));
            }
            (ObjectPlace::Default(table), Object::Default(call, meter)) => {
                let (own_call, own_meter) = match self.object(place) {
                    Some(Object::Default(call, meter)) => (call, meter),
                    _ => (None, None),
                };
                if own_call != call {
                    later.push(match call {
                        Some(call) => Change::SetDefault(*table, call),
                        None => Change::ResetDefault(*table),
                    });
                }
                if own_meter != meter {
                    later.push(Change::SetDirectMeter(*table, None, meter));
                }
            }
            (ObjectPlace::Multicast(id), Object::Replicas(replicas)) => {
                later.push(Change::SetMulticast(*id, replicas));
            }
            (ObjectPlace::CloneSession(id), Object::CloneSession(session)) => {
                later.push(Change::SetCloneSession(*id, session));
            }
            (ObjectPlace::Meters(id, chunk), Object::Meters(configs)) => {
                let cells = self.cells_of_chunk(*id, *chunk).zip(configs);
                for (index, config) in cells {
                    if self.read_meter(*id, index) != config {
                        later.push(match config {
                            Some(config) => Change::SetMeter(*id, Some(index), config),
                            None => Change::ResetMeter(*id, Some(index)),
                        });
                    }
                }
            }
            _ => {}
        }
    }

    fn register_changes(
        &self,
        wanted: &Device,
        id: ExternId,
        index: Option<u32>,
        later: &mut Vec<Change>,
    ) {
        let size = match self.configuration.cells.get(id) {
            Some(ExternState::Register(registers)) => registers.size(),
            _ => return,
        };
        let cells = match index {
            Some(index) => index..index.saturating_add(1),
            None => 0..size,
        };
        for index in cells {
            let value = wanted.read_register(id, index);
            if let Some(value) = value.filter(|value| {
                self.read_register(id, index)
                    .is_some_and(|own| own != *value)
            }) {
                later.push(Change::WriteRegister(id, Some(index), value));
            }
        }
    }

    /// Returns the steps that undo a change that is not made yet, in the reverse order of their
    /// execution. Those of [`Change::Insert`] are known only when it is made.
    fn inverse(&self, change: &Change) -> Vec<Undo> {
        let object = |place: ObjectPlace| self.object(&place);
        let change = match change {
            Change::Delete(table, id) | Change::Modify(table, id, ..) => {
                return self.inverse_of_entry(change, *table, *id);
            }
            Change::SetMetadata(table, id, _) => {
                let entry = self.configuration.tables[*table].get(*id);
                let metadata = entry.map(|entry| entry.metadata.clone());
                Change::SetMetadata(*table, *id, metadata.unwrap_or_default())
            }
            Change::SetDirectMeter(table, Some(id), _) => {
                let meter = self.configuration.tables[*table].meter(Some(*id));
                let meter = meter.and_then(|meter| meter.config());
                Change::SetDirectMeter(*table, Some(*id), meter)
            }
            Change::SetDirectMeter(table, None, _) => {
                let meter = self.configuration.tables[*table].default_meter();
                let meter = meter.and_then(|meter| meter.config());
                Change::SetDirectMeter(*table, None, meter)
            }
            Change::SetDefault(table, _) | Change::ResetDefault(table) => {
                match object(ObjectPlace::Default(*table)) {
                    Some(Object::Default(Some(call), _)) => Change::SetDefault(*table, call),
                    _ => Change::ResetDefault(*table),
                }
            }
            Change::SetMember { profile, id, .. } | Change::DeleteMember(profile, id) => {
                let (profile, id) = (*profile, *id);
                match object(ObjectPlace::Member(profile, id)) {
                    Some(Object::Member(action, args)) => Change::SetMember {
                        profile,
                        id,
                        action,
                        args,
                    },
                    _ => Change::DeleteMember(profile, id),
                }
            }
            Change::SetGroup { profile, id, .. } | Change::DeleteGroup(profile, id) => {
                let (profile, id) = (*profile, *id);
                match object(ObjectPlace::Group(profile, id)) {
                    Some(Object::Group(members)) => Change::SetGroup {
                        profile,
                        id,
                        members,
                    },
                    _ => Change::DeleteGroup(profile, id),
                }
            }
            Change::SetMulticast(id, _) | Change::DeleteMulticast(id) => {
                match object(ObjectPlace::Multicast(*id)) {
                    Some(Object::Replicas(replicas)) => Change::SetMulticast(*id, replicas),
                    _ => Change::DeleteMulticast(*id),
                }
            }
            Change::SetCloneSession(id, _) | Change::DeleteCloneSession(id) => {
                match self.replication.session(*id) {
                    Some(session) => Change::SetCloneSession(*id, session.clone()),
                    None => Change::DeleteCloneSession(*id),
                }
            }
            Change::SetMeter(id, Some(index), _) | Change::ResetMeter(id, Some(index)) => {
                match self.read_meter(*id, *index) {
                    Some(config) => Change::SetMeter(*id, Some(*index), config),
                    None => Change::ResetMeter(*id, Some(*index)),
                }
            }
            Change::WriteRegister(id, Some(index), _) => match self.read_register(*id, *index) {
                Some(values) => Change::WriteRegister(*id, Some(*index), values),
                None => return Vec::new(),
            },
            Change::SetValueSet(id, _) => match object(ObjectPlace::ValueSet(*id)) {
                Some(Object::ValueSet(members)) => Change::SetValueSet(*id, members),
                _ => return Vec::new(),
            },
            Change::SetHashParameters(_) => {
                Change::SetHashParameters((*self.configuration.hash).clone())
            }
            Change::SetHostPorts(_) => Change::SetHostPorts(self.configuration.host_ports.to_vec()),
            Change::SetExpireProfile(profile, _) => {
                let timeout = match object(ObjectPlace::ExpireProfile(*profile)) {
                    Some(Object::Timeout(timeout)) => timeout,
                    _ => None,
                };
                Change::SetExpireProfile(*profile, timeout)
            }
            Change::SetQueue(port, _) => Change::SetQueue(*port, self.queue(*port)),
            // A synchronisation makes no other change.
            _ => return Vec::new(),
        };
        vec![Undo::Change(change)]
    }

    fn inverse_of_entry(&self, change: &Change, table: TableId, id: EntryId) -> Vec<Undo> {
        let entry = self.configuration.tables[table].get(id);
        let written = entry.and_then(|entry| {
            let written = self.written(table, &entry)?;
            Some((entry, written))
        });
        let Some((entry, mut written)) = written else {
            return Vec::new();
        };
        vec![match change {
            Change::Delete(..) => {
                written.counter = counter(self, table, id);
                Undo::Insert(table, id, written, entry.metadata.clone())
            }
            _ => {
                let (action, timeout) = (written.action, written.idle_timeout);
                Undo::Change(Change::Modify(table, id, action, timeout))
            }
        }]
    }

    /// Undoes a step. It cannot fail: the state before was valid.
    fn undo(&mut self, step: Undo) {
        let _ = match step {
            Undo::Change(change) => self.apply(change).map(drop),
            Undo::Delete(table, id) => self.apply(Change::Delete(table, id)).map(drop),
            Undo::Insert(table, id, entry, metadata) => {
                let made = self.insert_again(table, id, entry);
                match metadata.is_empty() {
                    true => made,
                    false => made.and_then(|()| {
                        let change = Change::SetMetadata(table, id, metadata);
                        self.apply(change).map(drop)
                    }),
                }
            }
        };
    }
}

/// Returns the counter of an entry, if it has counted.
fn counter(device: &Device, table: TableId, id: EntryId) -> Option<CounterReading> {
    let reading = device.read_direct_counter(table, id)?;
    (reading != CounterReading::default()).then_some(reading)
}

/// Returns the rank of a change that removes something: entries refer to groups, and groups to
/// members.
fn removal_order(change: &Change) -> u8 {
    match change {
        Change::Delete(..) => 0,
        Change::DeleteGroup(..) => 1,
        Change::SetGroup { .. } => 2,
        Change::DeleteMember(..) => 3,
        _ => 4,
    }
}
