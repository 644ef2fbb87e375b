//! The coordinator: the whole program's tables, and the changes of the planes that follow from
//! theirs.
//!
//! A change of a mirrored table goes to all servers, and before that to the switch, which drops a
//! cached entry that the change makes wrong. All else goes to the switch. An entry that a handler
//! has added goes from its server to the whole tables and to the other servers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bits::Value;
use ir::{ActionCall, KeyMatch, Program, TableId, limbs_of};
use packet::Nanos;
use passes::split::{CutKind, SplitPlan};
use switch::{
    Action, Change, ControlCode, ControlError, CounterReading, Device, DeviceConfig, EntryId,
    LearnedEntry, LoadError, Record, TableEntry,
};

use crate::cache::MirrorIndex;
use crate::no_engine::NoEngine;
use crate::plane::PlaneControl;
use crate::snapshot;

/// The coordinator of a switch and its servers.
pub struct Coordinator {
    whole: Device,
    records: Arc<Mutex<Vec<Record>>>,
    plan: Arc<SplitPlan>,
    mirrors: Vec<MirrorIndex>,
    /// Changes that a plane has refused.
    refused: Vec<ControlError>,
    /// Use in the switch of entries that it has given up.
    used: HashMap<(TableId, EntryId), PastUse>,
    /// Last uses for which entries were reported as idle.
    idle: HashMap<(TableId, EntryId), u64>,
}

/// Use of an entry in the switch before it gave the entry up.
#[derive(Clone, Copy, Debug, Default)]
struct PastUse {
    last_ns: u64,
    counted: CounterReading,
}

fn add(sum: &mut CounterReading, more: CounterReading) {
    sum.packets += more.packets;
    sum.bytes += more.bytes;
}

impl Coordinator {
    /// Creates the coordinator of a program.
    ///
    /// # Errors
    /// The program cannot be loaded.
    pub fn new(
        whole: Arc<Program>,
        plan: Arc<SplitPlan>,
        config: &DeviceConfig,
    ) -> Result<Coordinator, LoadError> {
        let mut whole = Device::new(whole, &NoEngine, config)?;
        let records: Arc<Mutex<Vec<Record>>> = Arc::default();
        let noted = Arc::clone(&records);
        whole.follow(move |record| {
            let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
            noted.push(record.clone());
        });
        let mut mirrors: Vec<MirrorIndex> = plan.mirrored.iter().map(MirrorIndex::new).collect();
        for mirror in &mut mirrors {
            let entries = whole.configuration().tables[mirror.table].iter();
            for entry in entries {
                let keys: Vec<_> = entry.matches.iter().map(switch::key_match).collect();
                mirror.insert(&keys, entry.id);
            }
        }
        Ok(Coordinator {
            whole,
            records,
            plan,
            mirrors,
            refused: Vec::new(),
            used: HashMap::new(),
            idle: HashMap::new(),
        })
    }

    /// Returns the device with the whole tables.
    pub fn whole(&self) -> &Device {
        &self.whole
    }

    /// Returns the device with the whole tables, for changes. [`Coordinator::propagate`] sends them
    /// to the planes.
    pub fn whole_mut(&mut self) -> &mut Device {
        &mut self.whole
    }

    /// Takes the changes that planes have refused since the last call.
    pub fn take_refused(&mut self) -> Vec<ControlError> {
        std::mem::take(&mut self.refused)
    }

    fn take_records(&self) -> Vec<Record> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *records)
    }

    /// Sends all changes since the last call to the planes.
    pub fn propagate(
        &mut self,
        switch: &mut dyn PlaneControl,
        servers: &mut [&mut dyn PlaneControl],
    ) {
        for record in self.take_records() {
            if let Err(error) = self.spread(&record, switch, servers) {
                self.refused.push(error);
            }
        }
    }

    fn spread(
        &mut self,
        record: &Record,
        switch: &mut dyn PlaneControl,
        servers: &mut [&mut dyn PlaneControl],
    ) -> Result<(), ControlError> {
        let change = &record.change;
        let made = record.entry;
        let mirror = table_of(change).and_then(|table| self.mirror_at(table));
        let Some(mirror) = mirror else {
            match change {
                Change::SetNote(..) | Change::Program => return Ok(()),
                Change::SetValueSet(..)
                | Change::SetHashParameters(_)
                | Change::SetHostPorts(_)
                | Change::SetExpireProfile(..) => {
                    each(servers, change, made)?;
                }
                _ => {}
            }
            return switch.apply(change, made);
        };
        for entry in self.outdated(mirror, change, made) {
            let table = self.mirrors[mirror].table;
            self.withdraw(table, entry, switch)?;
        }
        match change {
            // The switch counts from zero what it counts later.
            Change::WriteDirectCounter(table, entry, _) => {
                if let Some(past) = entry.and_then(|entry| self.used.get_mut(&(*table, entry))) {
                    past.counted = CounterReading::default();
                }
                let zero = Change::WriteDirectCounter(*table, *entry, Default::default());
                switch.apply(&zero, None)?;
                let Some((first, others)) = servers.split_first_mut() else {
                    return Ok(());
                };
                first.apply(change, None)?;
                each(others, &zero, None)
            }
            // These come from a server.
            Change::Learn(..) | Change::Relearn(..) | Change::Forget(..) | Change::Expire(..) => {
                Ok(())
            }
            change => each(servers, change, made),
        }
    }

    fn mirror_at(&self, table: TableId) -> Option<usize> {
        self.mirrors.iter().position(|mirror| mirror.table == table)
    }

    /// Updates the index of a mirrored table. Returns the entries that the switch must give up.
    fn outdated(&mut self, at: usize, change: &Change, made: Option<EntryId>) -> Vec<EntryId> {
        let mirror = &mut self.mirrors[at];
        match change {
            Change::Insert(_, TableEntry { keys, .. }) => match made {
                Some(made) => mirror.insert(keys, made),
                None => Vec::new(),
            },
            Change::Modify(_, entry, ..) => match mirror.evict(*entry) {
                true => vec![*entry],
                false => Vec::new(),
            },
            Change::Delete(_, entry) => match mirror.remove(*entry) {
                true => vec![*entry],
                false => Vec::new(),
            },
            Change::Clear(_) => mirror.clear(),
            _ => Vec::new(),
        }
    }

    /// Takes over what a handler of a server has done to its tables, and sends it to the other
    /// servers. `server` is the server half.
    pub fn learned(
        &mut self,
        change: &Change,
        server: &Program,
        switch: &mut dyn PlaneControl,
        others: &mut [&mut dyn PlaneControl],
    ) {
        let change_of_whole = with_actions_of(change, server, self.whole.program());
        self.set_quietly(change_of_whole.clone());
        if let Err(error) = self.follow_learned(&change_of_whole, switch) {
            self.refused.push(error);
        }
        for other in others {
            match other.apply(change, None) {
                // The entry has expired there, too.
                Err(error) if error.code == ControlCode::NotFound => {}
                Err(error) => self.refused.push(error),
                Ok(()) => {}
            }
        }
    }

    /// Updates the index of a mirrored table after a handler's change, and takes an entry that is
    /// wrong now out of the switch.
    fn follow_learned(
        &mut self,
        change: &Change,
        switch: &mut dyn PlaneControl,
    ) -> Result<(), ControlError> {
        let Some(table) = table_of(change) else {
            return Ok(());
        };
        let Some(at) = self.mirror_at(table) else {
            return Ok(());
        };
        let outdated = match change {
            Change::Learn(_, entry) | Change::Relearn(_, entry) => {
                match learned_entry(self.whole.program(), table, entry) {
                    Some(made) => self.mirrors[at].learn(&entry.key, made),
                    None => None,
                }
            }
            Change::Expire(_, entry) => self.mirrors[at].forget(&entry.key),
            Change::Forget(_, _, key) => self.mirrors[at].forget(key),
            _ => None,
        };
        match outdated {
            Some(entry) => self.withdraw(table, entry, switch),
            None => Ok(()),
        }
    }

    /// Restarts the timers of handlers' entries at all servers if a packet has used the entry in
    /// the switch or at one server.
    pub fn refresh(&mut self, switch: &dyn PlaneControl, servers: &mut [&mut dyn PlaneControl]) {
        for mirror in &self.mirrors {
            for (id, item) in mirror.timed() {
                let past = self.used.remove(&(mirror.table, id));
                let last = switch.last_use(mirror.table, id);
                let at_servers = servers
                    .iter()
                    .filter_map(|server| server.last_restart(mirror.table, &item.key))
                    .max();
                let last = last.max(past.map(|past| past.last_ns)).max(at_servers);
                if let Some(last) = last {
                    for server in servers.iter_mut() {
                        server.touch(mirror.table, &item.key, last);
                    }
                }
            }
        }
    }

    /// Puts the entry that a request's key finds into the switch, instead of the oldest one.
    pub fn asked(&mut self, cut: u16, key: &[u8], switch: &mut dyn PlaneControl) {
        let number = usize::from(cut).checked_sub(1);
        let kind = number
            .and_then(|at| self.plan.cuts.get(at))
            .map(|cut| cut.kind);
        let Some(CutKind::Table(table)) = kind else {
            return;
        };
        let Some(at) = self.mirror_at(table) else {
            return;
        };
        let Some(id) = self.mirrors[at].candidate(key) else {
            return;
        };
        let Some(entry) = self.entry_of(at, id) else {
            return;
        };
        let victim = self.mirrors[at].put(id);
        let moved = match victim {
            Some(victim) => self.withdraw(table, victim, switch),
            None => Ok(()),
        };
        let moved = moved.and_then(|()| switch.apply(&Change::Insert(table, entry), Some(id)));
        if let Err(error) = moved {
            self.mirrors[at].evict(id);
            self.refused.push(error);
        }
    }

    /// Returns an entry of a mirrored table.
    fn entry_of(&self, mirror: usize, id: EntryId) -> Option<TableEntry> {
        let mirror = &self.mirrors[mirror];
        if let Some(item) = mirror.learned(id) {
            return Some(item.entry.clone());
        }
        let entry = self.whole.configuration().tables[mirror.table].get(id)?;
        self.whole.written(mirror.table, entry)
    }

    /// Returns all that the switch must hold, as changes of an empty one with the ids of entries:
    /// but for cells, which are the switch's own.
    pub fn switch_state(&self) -> Vec<(Change, Option<EntryId>)> {
        let is_mirrored = |table| self.mirror_at(table).is_some();
        let mut state = snapshot::changes(&self.whole, |table| !is_mirrored(table));
        for (at, mirror) in self.mirrors.iter().enumerate() {
            let cached = mirror.cached().filter_map(|id| Some((id, self.entry_of(at, id)?)));
            state.extend(cached.map(|(id, entry)| (Change::Insert(mirror.table, entry), Some(id))));
        }
        state
    }

    /// Returns all that a server must hold, as changes of an empty one with the ids of entries. It
    /// includes the entries of handlers, with the actions of `server`, the server half.
    pub fn server_state(&self, server: &Program) -> Vec<(Change, Option<EntryId>)> {
        let is_mirrored = |table| self.mirror_at(table).is_some();
        let mut state = snapshot::changes(&self.whole, is_mirrored);
        state.retain(|(change, _)| {
            table_of(change).is_some()
                || matches!(
                    change,
                    Change::SetValueSet(..)
                        | Change::SetHashParameters(_)
                        | Change::SetHostPorts(_)
                        | Change::SetExpireProfile(..)
                )
        });
        for mirror in &self.mirrors {
            let learned = self.whole.configuration().learned[mirror.table].as_deref();
            let entries = learned.map(table::LearningTable::entries).unwrap_or_default();
            for entry in entries {
                let change = Change::Learn(mirror.table, entry);
                let change = with_actions_of(&change, self.whole.program(), server);
                state.push((change, None));
            }
        }
        state
    }

    /// Notes that the switch has lost its entries of mirrored tables.
    pub fn forget_cached(&mut self) {
        for mirror in &mut self.mirrors {
            mirror.forget_cached();
        }
    }

    /// Forgets the changes of the whole tables that were not sent to the planes.
    pub fn forget_changes(&mut self) {
        self.take_records();
    }

    /// Returns the entry that a handler has added with this key.
    pub fn learned_entry(&self, table: TableId, key: &[u64]) -> Option<LearnedEntry> {
        let learned = self.whole.configuration().learned.get(table)?.as_ref()?;
        match learned.shape().limbs() == key.len() {
            true => learned.get(key),
            false => None,
        }
    }

    /// Takes an entry out of the switch. Its use there still counts.
    fn withdraw(
        &mut self,
        table: TableId,
        entry: EntryId,
        switch: &mut dyn PlaneControl,
    ) -> Result<(), ControlError> {
        let past = self.used.entry((table, entry)).or_default();
        if let Some(last) = switch.last_use(table, entry) {
            past.last_ns = past.last_ns.max(last);
        }
        if let Some(reading) = switch.direct_counter(table, entry) {
            add(&mut past.counted, reading);
        }
        switch.apply(&Change::Delete(table, entry), None)
    }

    /// Returns the entries that no packet has used on any plane for their time-outs. Each is
    /// returned once until it is used again.
    pub fn take_idle(
        &mut self,
        now: Nanos,
        switch: &dyn PlaneControl,
        servers: &[&dyn PlaneControl],
    ) -> Vec<(TableId, EntryId)> {
        let mut idle = Vec::new();
        for (table, entries) in self.whole.configuration().tables.iter() {
            let servers = match self.mirror_at(table) {
                Some(_) => servers,
                None => &[],
            };
            for entry in entries.iter() {
                let Some(timeout) = entry.idle_timeout_ns else {
                    continue;
                };
                let key = (table, entry.id);
                let planes = servers.iter().copied().chain([switch]);
                let uses = planes.filter_map(|plane| plane.last_use(table, entry.id));
                let past = self.used.get(&key).map(|past| past.last_ns);
                let last = uses.chain(past).max().unwrap_or(0);
                let is_idle = now.0.saturating_sub(last) >= timeout;
                if is_idle && self.idle.insert(key, last) != Some(last) {
                    idle.push(key);
                }
            }
        }
        let tables = &self.whole.configuration().tables;
        let mirrors = &self.mirrors;
        let exists = |(table, entry): &(TableId, EntryId)| {
            let mut mirrors = mirrors.iter().filter(|mirror| mirror.table == *table);
            tables[*table].get(*entry).is_some()
                || mirrors.any(|mirror| mirror.learned(*entry).is_some())
        };
        self.used.retain(|key, _| exists(key));
        self.idle.retain(|key, _| exists(key));
        idle
    }

    /// Returns the width of the key of a cut in bits; 0 for the call of a handler.
    pub fn key_width(&self, cut: u16) -> usize {
        let number = usize::from(cut).checked_sub(1);
        match number
            .and_then(|at| self.plan.cuts.get(at))
            .map(|cut| cut.kind)
        {
            Some(CutKind::Table(table)) => {
                let mirror = self.mirror_at(table);
                mirror.map_or(0, |at| self.mirrors[at].width())
            }
            _ => 0,
        }
    }

    /// Adds up what the planes have counted for each entry.
    pub fn collect_counters(&mut self, switch: &dyn PlaneControl, servers: &[&dyn PlaneControl]) {
        let tables: Vec<TableId> = self.whole.program().tables.ids().collect();
        for table in tables {
            let is_mirrored = self.mirror_at(table).is_some();
            let entries = self.whole.configuration().tables[table].iter();
            let entries: Vec<EntryId> = entries.map(|entry| entry.id).collect();
            for entry in entries {
                let of_servers = servers.iter().filter(|_| is_mirrored);
                let readings = of_servers
                    .filter_map(|server| server.direct_counter(table, entry))
                    .chain(switch.direct_counter(table, entry));
                let mut sum = readings.reduce(|mut sum, reading| {
                    add(&mut sum, reading);
                    sum
                });
                if let (Some(sum), Some(past)) = (&mut sum, self.used.get(&(table, entry))) {
                    add(sum, past.counted);
                }
                if let Some(sum) = sum {
                    self.set_quietly(Change::WriteDirectCounter(table, Some(entry), sum));
                }
            }
        }
    }

    /// Changes the whole device's copy of what a plane has counted or written. It is not sent to
    /// the planes.
    pub fn set_quietly(&mut self, change: Change) {
        let before = self.take_records();
        if let Err(error) = self.whole.apply(change)
            && error.code != ControlCode::NotFound
        {
            self.refused.push(error);
        }
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        *records = before;
    }
}

/// Applies a change on each plane.
fn each(
    planes: &mut [&mut dyn PlaneControl],
    change: &Change,
    made: Option<EntryId>,
) -> Result<(), ControlError> {
    planes
        .iter_mut()
        .try_for_each(|plane| plane.apply(change, made))
}

/// Returns the table that a change is about.
fn table_of(change: &Change) -> Option<TableId> {
    match change {
        Change::Insert(table, _)
        | Change::Modify(table, ..)
        | Change::SetMetadata(table, ..)
        | Change::Delete(table, _)
        | Change::Clear(table)
        | Change::SetDefault(table, _)
        | Change::ResetDefault(table)
        | Change::SetDirectMeter(table, ..)
        | Change::WriteDirectColorCounts(table, ..)
        | Change::WriteDirectCounter(table, ..)
        | Change::Learn(table, _)
        | Change::Expire(table, _)
        | Change::Relearn(table, _)
        | Change::Forget(table, ..) => Some(*table),
        _ => None,
    }
}

/// Returns a handler's change with the actions of another program. Both programs have the actions
/// of a table in the same order.
pub fn with_actions_of(change: &Change, from: &Program, to: &Program) -> Change {
    let translated = |table: &TableId, entry: &LearnedEntry| {
        let own = |program: &Program| -> Vec<u32> {
            let actions = program.tables[*table].actions.iter();
            actions.map(|listed| listed.action.get()).collect()
        };
        let mut entry = entry.clone();
        let place = own(from)
            .iter()
            .position(|&action| action == entry.action.action);
        if let Some(action) = place.and_then(|place| own(to).get(place).copied()) {
            entry.action.action = action;
        }
        entry
    };
    match change {
        Change::Learn(table, entry) => Change::Learn(*table, translated(table, entry)),
        Change::Relearn(table, entry) => Change::Relearn(*table, translated(table, entry)),
        Change::Expire(table, entry) => Change::Expire(*table, translated(table, entry)),
        other => other.clone(),
    }
}

/// Returns an entry that a handler has added as a controller would write it.
fn learned_entry(program: &Program, table: TableId, entry: &LearnedEntry) -> Option<TableEntry> {
    let declared = program.tables.get(table)?;
    let mut limbs = &entry.key[..];
    let mut keys = Vec::new();
    for key in &declared.keys {
        let ty = key.expr.ty(program, None)?;
        let (value, rest) = limbs.split_at_checked(limbs_of(ty) as usize)?;
        limbs = rest;
        keys.push(KeyMatch::Exact(Value::from_limbs(value, ty.width())));
    }
    let mut listed = declared.actions.iter();
    let action = listed.position(|listed| listed.action.get() == entry.action.action)?;
    let code = program.actions.get(declared.actions[action].action)?;
    Some(TableEntry {
        keys,
        priority: None,
        action: Action::Call(ActionCall {
            action,
            args: switch::arguments(code, &entry.action.params),
        }),
        idle_timeout: entry.idle_timeout_ns.map(Nanos),
        meter: None,
        counter: None,
    })
}
