//! The coordinator: the whole program's tables, and the changes of the planes that follow from
//! theirs.
//!
//! A change of a mirrored table goes to all servers, and before that to the switch, where the
//! packets that it concerns fly from then on. All else goes to the switch. An entry that a handler
//! has added goes from its server to the whole tables and to the other servers.
//!
//! [`Coordinator::end_window`] and [`Coordinator::asked`] move entries into the switch and out of
//! it, by the policy of [`SplitPlacement`].

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bits::Value;
use exec::Lookups;
use ir::{ActionCall, KeyMatch, Program, TableId, limbs_of};
use packet::Nanos;
use passes::split::{CutKind, SplitPlan};
use placement::{Decision, Move, OptionsError};
use switch::{
    Action, Change, ControlCode, ControlError, CounterReading, Device, DeviceConfig, EntryId,
    LearnedEntry, LoadError, Record, TableEntry,
};
use table::Entry;

use crate::flights::WindowCounts;
use crate::mirror::{InSwitch, LearnedItem, MirrorIndex, SplitPlacement};
use crate::missed::{MissedRemovals, RemovedEntry};
use crate::no_engine::NoEngine;
use crate::order::NotInstalled;
use crate::plane::PlaneControl;
use crate::requests::cuts_of;
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
    /// Number of moves of entries into the switch and out of it.
    moves: u64,
    /// Removals that servers miss.
    missed: MissedRemovals,
}

/// State of a mirrored table, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorState {
    /// The table.
    pub table: TableId,
    /// Its name.
    pub name: String,
    /// Number of entries at the servers.
    pub entries: usize,
    /// Number of them in the switch.
    pub in_switch: usize,
    /// Number of covers in the switch.
    pub covers: usize,
    /// Number of entries that the switch holds at most.
    pub capacity: usize,
}

/// End of a window for one mirrored table.
#[derive(Clone, Debug)]
pub struct TableWindow {
    /// The table.
    pub table: TableId,
    /// Number of keys that the switch reported.
    pub reports: usize,
    /// The moves, which are applied, and the next threshold.
    pub decision: Decision,
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
        let whole = Device::new(whole, &NoEngine, &Coordinator::device_config(config))?;
        Ok(Coordinator::with_device(whole, plan))
    }

    /// Returns the configuration of the device with the whole tables: no packet searches them.
    pub fn device_config(config: &DeviceConfig) -> DeviceConfig {
        DeviceConfig {
            lookups: Lookups::None,
            ..config.clone()
        }
    }

    /// Creates the coordinator with a device that has the whole tables.
    pub fn with_device(mut whole: Device, plan: Arc<SplitPlan>) -> Coordinator {
        let records: Arc<Mutex<Vec<Record>>> = Arc::default();
        let noted = Arc::clone(&records);
        whole.follow(move |record| {
            let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
            noted.push(record.clone());
        });
        let placement = SplitPlacement::default();
        let mirrors = plan.mirrored.iter();
        // The default parameters are in their ranges.
        let mirrors = mirrors.filter_map(|mirrored| MirrorIndex::new(mirrored, &placement).ok());
        let mut mirrors: Vec<MirrorIndex> = mirrors.collect();
        for mirror in &mut mirrors {
            for (keys, entry) in entries_of(&whole, mirror.table) {
                mirror.insert(&keys, entry);
            }
            let learned = whole.configuration().learned[mirror.table].as_deref();
            let learned = learned.map_or_else(Vec::new, table::LearningTable::entries);
            for entry in learned {
                if let Some(made) = learned_entry(whole.program(), mirror.table, &entry) {
                    mirror.learn(&entry.key, entry.id, made);
                }
            }
        }
        Coordinator {
            whole,
            records,
            plan,
            mirrors,
            refused: Vec::new(),
            used: HashMap::new(),
            idle: HashMap::new(),
            moves: 0,
            missed: MissedRemovals::default(),
        }
    }

    /// Sets the placement of entries. All entries leave the switch.
    ///
    /// # Errors
    /// An option is outside of its range; then nothing changes.
    pub fn set_placement(
        &mut self,
        placement: &SplitPlacement,
        switch: &mut dyn PlaneControl,
    ) -> Result<(), OptionsError> {
        placement.options.check()?;
        for at in 0..self.mirrors.len() {
            let table = self.mirrors[at].table;
            let held: Vec<Move> = self.mirrors[at]
                .in_switch
                .keys()
                .rev()
                .map(|&item| Move::Evict(item))
                .collect();
            // Without shorter prefixes first, none is right; so packets of all fly.
            for step in self.evictions_by_length(at, held) {
                if let Err(error) = self.move_entry(at, step, switch) {
                    self.refused.push(error);
                }
            }
            let entries = entries_of(&self.whole, table);
            self.mirrors[at].set_placement(placement, entries)?;
        }
        Ok(())
    }

    /// Returns the number of moves of entries into the switch and out of it.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// Returns the numbers of entries and of covers of a table in the switch.
    pub fn in_switch(&self, table: TableId) -> (usize, usize) {
        let Some(at) = self.mirror_at(table) else {
            return (0, 0);
        };
        let held = &self.mirrors[at].in_switch;
        let covers = held.values().filter(|held| held.is_cover).count();
        (held.len() - covers, covers)
    }

    /// Returns the mirrored tables with the numbers of their entries.
    pub fn tables(&self) -> Vec<MirrorState> {
        let state = |mirror: &MirrorIndex| {
            let (in_switch, covers) = self.in_switch(mirror.table);
            let learned = self.whole.configuration().learned[mirror.table].as_deref();
            let written = self.whole.configuration().tables[mirror.table].len();
            MirrorState {
                table: mirror.table,
                name: self.whole.program().tables[mirror.table].name.clone(),
                entries: written + learned.map_or(0, table::LearningTable::len),
                in_switch,
                covers,
                capacity: mirror.capacity(),
            }
        };
        self.mirrors.iter().map(state).collect()
    }

    /// Ends a window: moves entries by the policy. [`Coordinator::thresholds`] has the next
    /// window's thresholds.
    pub fn end_window(
        &mut self,
        counts: &WindowCounts,
        switch: &mut dyn PlaneControl,
    ) -> Vec<TableWindow> {
        let mut windows = Vec::new();
        for at in 0..self.mirrors.len() {
            if !self.mirrors[at].is_cached() {
                continue;
            }
            let table = self.mirrors[at].table;
            let cuts = cuts_of(&self.plan, table);
            let flown = cuts.iter().map(|&cut| counts.packets(cut)).sum();
            let own = counts.reports.iter();
            let own = own.filter(|report| cuts.contains(&report.cut));
            let own: Vec<_> = own.cloned().collect();
            let decision =
                self.mirrors[at].end_window(flown, &own, |entry| switch.hits(table, entry));
            self.apply_moves(at, decision.moves.clone(), switch);
            windows.push(TableWindow {
                table,
                reports: own.len(),
                decision,
            });
        }
        windows
    }

    /// Returns the thresholds of the cuts of tables of which the switch can hold entries: keys with
    /// more packets are reported.
    pub fn thresholds(&self) -> Vec<(u16, u64)> {
        let cached = self.mirrors.iter().filter(|mirror| mirror.is_cached());
        let of_table = |mirror: &MirrorIndex| {
            let threshold = mirror.threshold();
            let cuts = cuts_of(&self.plan, mirror.table).into_iter();
            cuts.map(move |cut| (cut, threshold))
        };
        cached.flat_map(of_table).collect()
    }

    /// Notes that an entry did not begin to work.
    pub fn not_installed(&mut self, refused: NotInstalled, switch: &mut dyn PlaneControl) {
        let Some(at) = self.mirror_at(refused.table) else {
            return;
        };
        let Some(item) = self.mirrors[at].held_item(refused.entry) else {
            return;
        };
        match self.mirrors[at].in_switch.get_mut(&item) {
            Some(held) if refused.is_covered => held.is_cover = true,
            _ => {
                self.mirrors[at].in_switch.remove(&item);
            }
        }
        self.refused.extend(refused.error);
        let moves = self.mirrors[at].refused(item);
        self.apply_moves(at, moves, switch);
    }

    /// Applies moves one by one. A refused one leads to others that keep the switch right.
    fn apply_moves(&mut self, at: usize, moves: Vec<Move>, switch: &mut dyn PlaneControl) {
        let mut open: VecDeque<Move> = moves.into();
        while let Some(step) = open.pop_front() {
            if let Err(error) = self.move_entry(at, step, switch) {
                self.refused.push(error);
                if let Move::Install(item) | Move::Cover(item) = step {
                    for then in self.mirrors[at].refused(item).into_iter().rev() {
                        open.push_front(then);
                    }
                }
            }
        }
    }

    /// Returns evictions in the order of their prefixes, the shortest ones first.
    fn evictions_by_length(&self, at: usize, mut moves: Vec<Move>) -> Vec<Move> {
        let mirror = &self.mirrors[at];
        moves.sort_by_key(|step| match step {
            Move::Evict(item) | Move::Install(item) | Move::Cover(item) => {
                mirror.prefix_length(*item)
            }
        });
        moves
    }

    /// Returns an entry as the switch gets it.
    fn written(&self, at: usize, id: EntryId) -> Option<TableEntry> {
        let table = self.mirrors[at].table;
        match self.mirrors[at].learned(id) {
            Some(item) => Some(item.entry.clone()),
            None => {
                let entry = self.whole.configuration().tables[table].get(id);
                entry.and_then(|entry| self.whole.written(table, &entry))
            }
        }
    }

    /// Returns the action that makes packets fly.
    fn miss_action(&self, table: TableId) -> Action {
        let mirrored = self.plan.mirrored_table(table);
        Action::Call(ActionCall {
            action: mirrored.map_or(0, |mirrored| mirrored.miss_action),
            args: Vec::new(),
        })
    }

    /// Returns all that the switch must hold, as changes of an empty one with the ids of entries:
    /// but for cells, which are the switch's own.
    pub fn switch_state(&self) -> Vec<(Change, Option<EntryId>)> {
        let is_mirrored = |table| self.mirror_at(table).is_some();
        let mut state = snapshot::changes(&self.whole, |table| !is_mirrored(table));
        for (at, mirror) in self.mirrors.iter().enumerate() {
            let held = mirror.in_switch.values().filter_map(|held| {
                let mut entry = self.written(at, held.entry)?;
                if held.is_cover {
                    entry.action = self.miss_action(mirror.table);
                    entry.idle_timeout = None;
                }
                Some((Change::Insert(mirror.table, entry), Some(held.entry)))
            });
            state.extend(held);
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
                    Change::SetValueSet(..) | Change::SetHashParameters(_)
                )
        });
        for mirror in &self.mirrors {
            let learned = self.whole.configuration().learned[mirror.table].as_deref();
            let entries = learned.map(table::LearningTable::entries);
            for entry in entries.unwrap_or_default() {
                let change = Change::Learn(mirror.table, entry);
                let change = with_actions_of(&change, self.whole.program(), server);
                state.push((change, None));
            }
        }
        state
    }

    /// Returns true if handlers may have changed the table.
    pub fn has_handlers(&self, table: TableId) -> bool {
        let learned = self.whole.configuration().learned.get(table);
        self.mirror_at(table).is_some() && learned.is_some_and(Option::is_some)
    }

    /// Returns the entry that a handler has added with this key.
    pub fn learned_entry(&self, table: TableId, key: &[u64]) -> Option<LearnedEntry> {
        let learned = self.whole.configuration().learned.get(table)?.as_ref()?;
        match learned.shape().limbs() == key.len() {
            true => learned.get(key),
            false => None,
        }
    }

    /// Applies one move.
    fn move_entry(
        &mut self,
        at: usize,
        step: Move,
        switch: &mut dyn PlaneControl,
    ) -> Result<(), ControlError> {
        let table = self.mirrors[at].table;
        let (item, is_cover) = match step {
            Move::Install(item) => (item, false),
            Move::Cover(item) => (item, true),
            Move::Evict(item) => {
                return match self.mirrors[at].in_switch.remove(&item) {
                    Some(held) => {
                        self.moves += 1;
                        self.withdraw(table, held, switch)
                    }
                    None => Ok(()),
                };
            }
        };
        let held = self.mirrors[at].in_switch.get(&item).copied();
        if held.is_some_and(|held| held.is_cover == is_cover) {
            return Ok(());
        }
        self.moves += 1;
        if let Some(held) = held {
            let (action, timeout) = match is_cover {
                true => (self.miss_action(table), None),
                false => match self.written(at, held.entry) {
                    Some(written) => (written.action, written.idle_timeout),
                    None => return Ok(()),
                },
            };
            if is_cover {
                self.note_use(table, held.entry, switch);
            } else if switch.direct_counter(table, held.entry).is_some() {
                // What flew is counted at servers.
                let zero = Change::WriteDirectCounter(table, Some(held.entry), Default::default());
                switch.apply(&zero, None)?;
            }
            switch.apply(&Change::Modify(table, held.entry, action, timeout), None)?;
            if let Some(held) = self.mirrors[at].in_switch.get_mut(&item) {
                held.is_cover = is_cover;
                held.hits = switch.hits(table, held.entry).unwrap_or(held.hits);
            }
            return Ok(());
        }
        let Some(entry) = self.mirrors[at].winner(item) else {
            return Ok(());
        };
        let Some(mut written) = self.written(at, entry) else {
            return Ok(());
        };
        if is_cover {
            written.action = self.miss_action(table);
            written.idle_timeout = None;
        }
        switch.apply(&Change::Insert(table, written), Some(entry))?;
        let hits = 0;
        self.mirrors[at].in_switch.insert(
            item,
            InSwitch {
                entry,
                is_cover,
                hits,
            },
        );
        Ok(())
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
                    each(servers, change, made, &[])?;
                }
                _ => {}
            }
            return switch.apply(change, made);
        };
        // The packets of an entry that changes fly before servers change it.
        let touched = self.touched(record);
        let keys = touched.first().map(|entry| keys_of(entry));
        let mut removal = None;
        let before = match change {
            Change::Insert(_, TableEntry { keys, .. }) => match made {
                Some(made) => self.mirrors[mirror].insert(keys, made),
                None => Vec::new(),
            },
            Change::Modify(_, entry, ..) => match &keys {
                Some(keys) => self.mirrors[mirror].begin_change(keys, *entry),
                None => Vec::new(),
            },
            Change::Delete(_, entry) => match &keys {
                Some(keys) => {
                    let begun = self.mirrors[mirror].begin_removal(keys, *entry);
                    let moves = begun.moves.clone();
                    removal = Some(begun);
                    moves
                }
                None => Vec::new(),
            },
            Change::Clear(_) => {
                let removed = record.removed.iter();
                let removed = removed.map(|entry| (keys_of(entry), entry.id));
                let removed: Vec<(Vec<KeyMatch>, EntryId)> = removed.collect();
                let index = &self.mirrors[mirror];
                for (number, item) in index.all_learned() {
                    self.missed
                        .note(mirror, number, &removed_entry(index.table, item));
                }
                self.mirrors[mirror].clear(&removed)
            }
            _ => Vec::new(),
        };
        self.apply_moves(mirror, before, switch);
        let result = match change {
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
                first.apply_to(change, None, &touched)?;
                each(others, &zero, None, &touched)
            }
            // These come from a server.
            Change::Learn(..) | Change::Relearn(..) | Change::Forget(..) | Change::Expire(..) => {
                Ok(())
            }
            change => each(servers, change, made, &touched),
        };
        let after = match (change, removal) {
            (Change::Modify(..), _) => match &keys {
                Some(keys) => self.mirrors[mirror].end_change(keys),
                None => Vec::new(),
            },
            (_, Some(removal)) => self.mirrors[mirror].end_removal(&removal),
            _ => Vec::new(),
        };
        self.apply_moves(mirror, after, switch);
        result
    }

    /// Returns the entries that a change is about: those that it removed, or the one that it
    /// changed, unless a later change has removed it.
    fn touched(&self, record: &Record) -> Vec<Arc<Entry>> {
        match &record.change {
            Change::Modify(table, entry, ..)
            | Change::SetMetadata(table, entry, _)
            | Change::SetDirectMeter(table, Some(entry), _)
            | Change::WriteDirectColorCounts(table, Some(entry), _)
            | Change::WriteDirectCounter(table, Some(entry), _) => {
                let entries = self.whole.configuration().tables.get(*table);
                let entry = entries.and_then(|entries| entries.get(*entry));
                entry.into_iter().collect()
            }
            _ => record.removed.clone(),
        }
    }

    /// Returns the covers of a table in the switch.
    fn covers(&self, table: TableId) -> HashSet<EntryId> {
        let Some(at) = self.mirror_at(table) else {
            return HashSet::new();
        };
        let held = self.mirrors[at].in_switch.values();
        let covers = held.filter(|held| held.is_cover);
        covers.map(|held| held.entry).collect()
    }

    fn mirror_at(&self, table: TableId) -> Option<usize> {
        self.mirrors.iter().position(|mirror| mirror.table == table)
    }

    /// Notes that a server is away: it misses removals of entries.
    pub fn goes_away(&mut self, server: u16) {
        let since = self.mirrors.iter().map(MirrorIndex::next_learned);
        self.missed.goes_away(server, since.collect());
    }

    /// Notes that a server misses no more removals, and has reported all its entries.
    pub fn is_back(&mut self, server: u16) {
        self.missed.is_back(server);
    }

    /// Returns true if this entry of a handler was removed while the server was away.
    pub fn has_missed_removal(&self, server: u16, table: TableId, entry: &LearnedEntry) -> bool {
        let removal = RemovedEntry {
            table,
            key: entry.key.clone(),
            id: entry.id,
        };
        self.missed.has(server, &removal)
    }

    /// Notes the removal of a handler's entry for the servers that are away and have it.
    fn note_missed(&mut self, at: usize, key: &[u64]) {
        let mirror = &self.mirrors[at];
        if let Some((number, item)) = mirror.learned_with(key) {
            self.missed
                .note(at, number, &removed_entry(mirror.table, item));
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
        if let Change::Expire(table, LearnedEntry { key, .. }) | Change::Forget(table, _, key) =
            &change_of_whole
            && let Some(at) = self.mirror_at(*table)
        {
            self.note_missed(at, key);
        }
        self.set_quietly(change_of_whole.clone());
        self.follow_learned(&change_of_whole, switch);
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
    fn follow_learned(&mut self, change: &Change, switch: &mut dyn PlaneControl) {
        let Some(table) = table_of(change) else {
            return;
        };
        let Some(at) = self.mirror_at(table) else {
            return;
        };
        let moves = match change {
            Change::Learn(_, entry) | Change::Relearn(_, entry) => {
                match learned_entry(self.whole.program(), table, entry) {
                    Some(made) => self.mirrors[at].learn(&entry.key, entry.id, made),
                    None => Vec::new(),
                }
            }
            Change::Expire(_, entry) => self.mirrors[at].forget(&entry.key),
            Change::Forget(_, _, key) => self.mirrors[at].forget(key),
            _ => Vec::new(),
        };
        self.apply_moves(at, moves, switch);
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
                    restart_timer(&self.whole, mirror.table, &item.key, last);
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
        let moves = self.mirrors[at].ask(key);
        self.apply_moves(at, moves, switch);
    }

    /// Takes an entry out of the switch. Its use there still counts.
    fn withdraw(
        &mut self,
        table: TableId,
        held: InSwitch,
        switch: &mut dyn PlaneControl,
    ) -> Result<(), ControlError> {
        if !held.is_cover {
            self.note_use(table, held.entry, switch);
        }
        switch.apply(&Change::Delete(table, held.entry), None)
    }

    /// Notes the use of an entry that leaves the switch.
    fn note_use(&mut self, table: TableId, entry: EntryId, switch: &dyn PlaneControl) {
        let last = switch.last_use(table, entry);
        let counted = switch.direct_counter(table, entry);
        if last.is_none() && counted.is_none() {
            return;
        }
        let past = self.used.entry((table, entry)).or_default();
        past.last_ns = past.last_ns.max(last.unwrap_or(0));
        add(&mut past.counted, counted.unwrap_or_default());
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
            if !self.whole.program().tables[table].idle_timeout {
                continue;
            }
            let servers = match self.mirror_at(table) {
                Some(_) => servers,
                None => &[],
            };
            for (entry, timeout) in entries.timeouts() {
                let key = (table, entry);
                let planes = servers.iter().copied().chain([switch]);
                let uses = planes.filter_map(|plane| plane.last_use(table, entry));
                let past = self.used.get(&key).map(|past| past.last_ns);
                let last = uses.chain(past).max().unwrap_or(0);
                let is_idle = now.0.saturating_sub(last) >= timeout;
                if is_idle && self.idle.insert(key, last) != Some(last) {
                    idle.push(key);
                }
            }
        }
        idle
    }

    /// Forgets the uses of entries that are gone.
    pub fn forget_gone(&mut self) {
        let mut used = std::mem::take(&mut self.used);
        let mut idle = std::mem::take(&mut self.idle);
        used.retain(|(table, entry), _| self.has_entry(*table, *entry));
        idle.retain(|(table, entry), _| self.has_entry(*table, *entry));
        (self.used, self.idle) = (used, idle);
    }

    /// Returns true if the whole tables have the entry, of a controller or a handler.
    pub fn has_entry(&self, table: TableId, entry: EntryId) -> bool {
        let written = self.whole.configuration().tables.get(table);
        let mut mirrors = self.mirrors.iter().filter(|mirror| mirror.table == table);
        written.is_some_and(|written| written.contains(entry))
            || mirrors.any(|mirror| mirror.learned(entry).is_some())
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
        let tables = self.whole.program().tables.iter();
        let counted = tables.filter(|(_, table)| table.direct_counter.is_some());
        let counted: Vec<TableId> = counted.map(|(id, _)| id).collect();
        for table in counted {
            let is_mirrored = self.mirror_at(table).is_some();
            let covers = self.covers(table);
            let entries = self.whole.configuration().tables[table].ids();
            let entries: Vec<EntryId> = entries.collect();
            for entry in entries {
                let of_servers = servers.iter().filter(|_| is_mirrored);
                // The packets of a cover are counted at servers.
                let at_switch = match covers.contains(&entry) {
                    true => None,
                    false => switch.direct_counter(table, entry),
                };
                let readings = of_servers
                    .filter_map(|server| server.direct_counter(table, entry))
                    .chain(at_switch);
                let mut sum = readings.reduce(|mut sum, reading| {
                    add(&mut sum, reading);
                    sum
                });
                if let (Some(sum), Some(past)) = (&mut sum, self.used.get(&(table, entry))) {
                    add(sum, past.counted);
                }
                let known = self.whole.read_direct_counter(table, entry);
                if let Some(sum) = sum.filter(|sum| Some(*sum) != known) {
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

/// Returns the entry of a handler as servers name it.
fn removed_entry(table: TableId, item: &LearnedItem) -> RemovedEntry {
    RemovedEntry {
        table,
        key: item.key.clone(),
        id: item.id,
    }
}

/// Restarts the timer of the whole device's entry that a handler has added.
fn restart_timer(whole: &Device, table: TableId, key: &[u64], time_ns: u64) {
    let Some(learned) = whole.configuration().learned[table].as_deref() else {
        return;
    };
    let mut params = vec![0; learned.param_limbs()];
    if let Some(hit) = learned.find(key, &mut params) {
        learned.restart_timer(&hit, time_ns);
    }
}

/// Returns the keys of an entry.
fn keys_of(entry: &Entry) -> Vec<KeyMatch> {
    entry.matches.iter().map(switch::key_match).collect()
}

/// Returns the keys and ids of a table's entries.
fn entries_of(device: &Device, table: TableId) -> impl Iterator<Item = (Vec<KeyMatch>, EntryId)> {
    let entries = device.configuration().tables[table].iter();
    entries.map(|entry| (keys_of(&entry), entry.id))
}

/// Applies a change on each plane.
fn each(
    planes: &mut [&mut dyn PlaneControl],
    change: &Change,
    made: Option<EntryId>,
    touched: &[Arc<Entry>],
) -> Result<(), ControlError> {
    planes
        .iter_mut()
        .try_for_each(|plane| plane.apply_to(change, made, touched))
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
            let listed = program.tables.get(*table).map(|table| &table.actions);
            let listed = listed.into_iter().flatten();
            listed.map(|listed| listed.action.get()).collect()
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
