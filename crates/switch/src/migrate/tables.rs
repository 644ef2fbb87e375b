//! Migration of tables: as a whole if nothing changes, else entry by entry.

use std::collections::HashMap;
use std::sync::Arc;

use exec::Configuration;
use ir::{ActionScope, ExternId, Program, TableId};
use table::{
    ActionRef, CounterReading, Entry, EntryAction, EntryId, FieldMatch, LearnedEntry, MeterCell,
    NewEntry, TableError,
};

use super::cells::{counted_by, tell_units};
use super::{Count, Keeper, KeptProfile, Move, declared, tell_size};
use crate::conversion::{ActionConversion, ConversionNotes, KeyConversion};
use crate::migration::StateKind;
use crate::profiles::Own;

impl Keeper<'_> {
    pub(super) fn tables(&mut self) {
        let (before, after) = (self.old.program().clone(), self.new.program().clone());
        for (old_id, table) in before.tables.iter() {
            let mut others = after.tables.iter();
            match others.find(|(_, other)| other.name == table.name) {
                Some((id, _)) => self.table(old_id, id),
                None => self.gone(old_id, "the new program has no such table"),
            }
        }
    }

    /// Reports a table of which no entry is kept.
    fn gone(&mut self, old_id: TableId, reason: &str) {
        let old = self.old;
        let name = &old.program().tables[old_id].name;
        let held = held(old, old_id);
        self.lost(StateKind::Entries, name, reason, held);
        if was_set(old, old_id) && !self.new.program().tables.values().any(|t| t.name == *name) {
            self.lost(StateKind::DefaultAction, name, reason, 1);
        }
        if let Some(learned) = &old.learned[old_id] {
            self.lost(StateKind::LearnedEntries, name, reason, learned.len());
        }
    }

    fn table(&mut self, old_id: TableId, id: TableId) {
        let default = self.default_action(old_id, id);
        let old = self.old;
        let name = old.program().tables[old_id].name.clone();
        let fitted = KeyConversion::of(declared(old, old_id), declared(self.new, id));
        let mut fit = match fitted {
            Ok(keys) => TableFit {
                keys,
                actions: HashMap::new(),
                is_exact: true,
            },
            Err(reason) => {
                self.new.tables[id].set_default(default);
                return self.gone(old_id, &reason);
            }
        };
        let mut notes = std::mem::take(&mut fit.keys.notes);
        let is_same_key = notes.reasons.is_empty();
        self.actions(old_id, id, &mut fit, &mut notes);
        let sizes = (
            old.tables[old_id].spec().capacity,
            self.new.tables[id].spec().capacity,
        );
        tell_size(sizes.0, sizes.1, &mut notes);
        self.direct_counters(old_id, id);
        self.direct_meters(old_id, id);
        let profile = self.profile_of(old_id, id);
        if let Err(reason) = &profile {
            self.new.tables[id].set_default(default);
            return self.gone(old_id, reason);
        }
        let moved = is_same_key && self.is_movable(old_id, id, &fit);
        if moved {
            let held = held(old, old_id);
            self.line(StateKind::Entries, &name, notes, Count::all_kept(held));
            self.note_move(old_id, id, &fit, default);
        } else {
            self.new.tables[id].set_default(default);
            let count = self.entries(old_id, id, &fit, &mut notes);
            self.line(StateKind::Entries, &name, notes, count);
        }
        self.learned(old_id, id, &fit, is_same_key);
    }

    /// Determines the conversion of calls of the old table's actions to those of the new table.
    fn actions(
        &mut self,
        old_id: TableId,
        id: TableId,
        fit: &mut TableFit,
        notes: &mut ConversionNotes,
    ) {
        let before = self.old.program();
        for listed in &before.tables[old_id].actions {
            let action = &before.actions[listed.action];
            if listed.scope == ActionScope::DefaultOnly {
                continue;
            }
            let new = declared(self.new, id);
            let fitted = ActionConversion::of(action, new, ActionScope::DefaultOnly, notes);
            match fitted {
                Ok(one) => {
                    fit.is_exact &= one.keeps_params();
                    fit.actions.insert(listed.action.get(), one);
                }
                Err(reason) => {
                    fit.is_exact = false;
                    notes.risk(reason);
                }
            }
        }
    }

    /// Checks that both tables use the same profile.
    ///
    /// # Errors
    /// Entries of the old table cannot be entries of the new one.
    fn profile_of(&self, old_id: TableId, id: TableId) -> Result<(), String> {
        let before = self.old.program().tables[old_id].implementation;
        let after = self.new.program().tables[id].implementation;
        match (before, after) {
            (None, None) => Ok(()),
            (Some(_), None) => Err("its actions are in no profile any more".to_owned()),
            (None, Some(_)) => Err("its actions are in a profile now".to_owned()),
            (Some(from), Some(to)) => {
                let mut kept = self.profiles.iter();
                let is_kept = kept.any(|one| (one.from, one.to) == (from, to));
                is_kept
                    .then_some(())
                    .ok_or_else(|| "its actions are in another profile".to_owned())
            }
        }
    }

    /// Returns true if the table can be moved as a whole.
    fn is_movable(&self, old_id: TableId, id: TableId, fit: &TableFit) -> bool {
        let (before, after) = (&self.old.tables[old_id], &self.new.tables[id]);
        let (from, to) = (before.spec(), after.spec());
        let profile = self.old.program().tables[old_id].implementation;
        let is_whole = |one: &KeptProfile| Some(one.from) == profile && one.is_whole;
        let has_profile = profile.is_none() || self.profiles.iter().any(is_whole);
        let runs_all = |action: &EntryAction| match action {
            EntryAction::Direct(call) => {
                let fitted = fit.actions.get(&call.action);
                fitted.is_some_and(ActionConversion::keeps_params)
            }
            EntryAction::Member(_) | EntryAction::Group(_) => true,
        };
        from.shape == to.shape
            && (from.order == to.order || !from.shape.needs_priority())
            && (from.direct_counter, from.direct_meter) == (to.direct_counter, to.direct_meter)
            && before.len() <= to.capacity
            && has_profile
            && self.has_same_consts(old_id, id, fit)
            && (fit.is_exact || before.iter().all(|entry| runs_all(&entry.action)))
    }

    /// Returns true if both tables have the same const entries with the same ids. Controllers
    /// derive the priorities of const entries from the ids.
    fn has_same_consts(&self, old_id: TableId, id: TableId, fit: &TableFit) -> bool {
        let (before, after) = (consts(self.old, old_id), consts(self.new, id));
        let declared =
            |configuration: &Configuration, id| configuration.program().tables[id].entries.len();
        let is_numbered = before.is_empty() || declared(self.old, old_id) == declared(self.new, id);
        is_numbered
            && before.len() == after.len()
            && before.iter().zip(&after).all(|(a, b)| {
                let action = match &a.action {
                    EntryAction::Direct(call) => fit.call(call).map(EntryAction::Direct),
                    other => Some(other.clone()),
                };
                (a.id, &a.matches, a.priority, action.as_ref())
                    == (b.id, &b.matches, b.priority, Some(&b.action))
            })
    }

    fn note_move(&mut self, from: TableId, to: TableId, fit: &TableFit, default: EntryAction) {
        let is_renumbered = fit.actions.iter().any(|(old, new)| *old != new.number);
        let numbers = fit.actions.iter().map(|(old, new)| (*old, new.number));
        self.moves.push(Move {
            from,
            to,
            default,
            numbers: is_renumbered.then(|| numbers.collect()),
            initial: self.initial(from, to),
        });
    }

    /// Returns the initial entries of the new program that the old one did not have. All other
    /// entries are by now the control plane's.
    fn initial(&self, old_id: TableId, id: TableId) -> Vec<NewEntry> {
        let began_with = |matches: &[FieldMatch], priority: Option<i32>| {
            let declared = &self.old.program().tables[old_id].entries;
            let fields = self.old.tables[old_id].spec().shape.fields();
            declared.iter().any(|entry| {
                let keys = fields.iter().zip(&entry.keys);
                let keys = keys.map(|(field, key)| exec::field_match(field, key));
                let is_same = keys.collect::<Option<Vec<_>>>().as_deref() == Some(matches);
                is_same && (entry.priority.is_none() || entry.priority == priority)
            })
        };
        let entries = self.new.tables[id].iter();
        let own =
            entries.filter(|entry| !entry.is_const && !began_with(&entry.matches, entry.priority));
        own.map(|entry| NewEntry {
            priority: entry.priority,
            ..NewEntry::new(entry.matches.to_vec(), entry.action.clone())
        })
        .collect()
    }

    /// Returns the new default action: the one that the control plane has set, if the program
    /// allows it, else the program's.
    fn default_action(&mut self, old_id: TableId, id: TableId) -> EntryAction {
        let own = self.new.tables[id].default_action().clone();
        let EntryAction::Direct(default) = self.old.tables[old_id].default_action() else {
            return own;
        };
        if !was_set(self.old, old_id) {
            return own;
        }
        let new = declared(self.new, id);
        let name = new.table.name.clone();
        let mut notes = ConversionNotes::default();
        let kept = match new.table.default_is_const {
            true => Err("the default action is const".to_owned()),
            false => {
                let old = &self.old.program().actions[ir::ActionId::new(default.action)];
                ActionConversion::of(old, new, ActionScope::TableOnly, &mut notes)
            }
        };
        match kept {
            Ok(fit) => {
                let kept = fit.convert(default).map(EntryAction::Direct);
                let mut count = Count::default();
                count.add(kept.is_some());
                self.line(StateKind::DefaultAction, &name, notes, count);
                kept.unwrap_or(own)
            }
            Err(reason) => {
                self.lost(StateKind::DefaultAction, &name, &reason, 1);
                own
            }
        }
    }

    fn direct_counters(&mut self, old_id: TableId, id: TableId) {
        let old = &self.old.tables[old_id];
        let Some(before) = old.spec().direct_counter else {
            return;
        };
        let name = direct_name(
            self.old.program(),
            self.old.program().tables[old_id].direct_counter,
        );
        let after = self.new.tables[id].spec().direct_counter;
        if after == Some(before) {
            return;
        }
        let readings = old.iter().map(|entry| old.counter(Some(entry.id)));
        let readings = readings.chain([old.counter(None)]).flatten();
        let counted = readings.filter(|reading| *reading != CounterReading::default());
        let counted: Vec<_> = counted.collect();
        let Some(after) = after else {
            let reason = "the table has no direct counter any more";
            return self.lost(StateKind::DirectCounters, &name, reason, counted.len());
        };
        let mut notes = ConversionNotes::default();
        tell_units(before, after, &mut notes);
        let mut count = Count::default();
        for reading in counted {
            count.add(counted_by(after, reading) == reading);
        }
        self.line(StateKind::DirectCounters, &name, notes, count);
    }

    fn direct_meters(&mut self, old_id: TableId, id: TableId) {
        let old = &self.old.tables[old_id];
        let (before, after) = (
            old.spec().direct_meter,
            self.new.tables[id].spec().direct_meter,
        );
        if before.is_none() || before == after {
            return;
        }
        let name = direct_name(
            self.old.program(),
            self.old.program().tables[old_id].direct_meter,
        );
        let configs = old
            .iter()
            .filter_map(|entry| entry.meter.as_ref()?.config());
        let default = old.default_meter().and_then(|meter| meter.config());
        let held = configs.count() + usize::from(default.is_some());
        let reason = match after {
            None => "the table has no direct meter any more",
            Some(_) => "it meters another unit",
        };
        self.lost(StateKind::DirectMeters, &name, reason, held);
    }

    /// Converts the entries of the control plane one by one. Usage counts and the token buckets of
    /// direct meters restart. Direct counters are kept.
    fn entries(
        &mut self,
        old_id: TableId,
        id: TableId,
        fit: &TableFit,
        notes: &mut ConversionNotes,
    ) -> Count {
        let old = self.old;
        let initial = self.initial(old_id, id);
        self.new.tables[id].clear();
        let mut count = Count::default();
        for entry in old.tables[old_id].iter().filter(|entry| !entry.is_const) {
            count.add(self.entry(old_id, id, &entry, fit, notes));
        }
        for entry in initial {
            // Existing entries have precedence.
            let _ = self.new.tables[id].insert(entry, self.now.0);
        }
        if let Some(reading) = old.tables[old_id].counter(None) {
            self.write_counter(id, None, reading);
        }
        self.carry_meter((old_id, id), None, old.tables[old_id].default_meter());
        count
    }

    fn write_counter(&mut self, id: TableId, entry: Option<EntryId>, reading: CounterReading) {
        if let Some(kind) = self.new.tables[id].spec().direct_counter {
            self.new.tables[id].write_counter(entry, counted_by(kind, reading));
        }
    }

    /// Copies the rates and the packet counts of the direct meter of an entry or of the default
    /// action.
    fn carry_meter(
        &self,
        (old_id, id): (TableId, TableId),
        entry: Option<EntryId>,
        before: Option<&MeterCell>,
    ) {
        let table = &self.new.tables[id];
        if self.old.tables[old_id].spec().direct_meter != table.spec().direct_meter {
            // Reported elsewhere.
            return;
        }
        let (Some(meter), Some(before)) = (table.meter(entry), before) else {
            return;
        };
        meter.write_counts(before.counts());
        if let Some(config) = before.config() {
            // The configuration was accepted before.
            let _ = meter.configure(config);
        }
    }

    /// Converts an entry. Returns true if it is kept.
    fn entry(
        &mut self,
        old_id: TableId,
        id: TableId,
        entry: &Entry,
        fit: &TableFit,
        notes: &mut ConversionNotes,
    ) -> bool {
        let Some((matches, priority)) = fit.keys.convert(entry) else {
            return false;
        };
        let Some(action) = self.entry_action(old_id, id, &entry.action, fit) else {
            return false;
        };
        let copy = NewEntry {
            priority,
            idle_timeout_ns: entry.idle_timeout_ns,
            owner: entry.owner,
            metadata: entry.metadata.clone(),
            ..NewEntry::new(matches.clone(), action.clone())
        };
        let inserted = match self.new.tables[id].insert(copy, self.now.0) {
            Ok(inserted) => inserted,
            Err(error) => {
                let profile = self.new.program().tables[id].implementation;
                if let Some(profile) = self.new_profile(profile) {
                    Own::taken_from(profile, &action);
                }
                // The program may have it as a const entry.
                let existing = self.new.tables[id].find(&matches, priority);
                let is_same = existing.is_some_and(|existing| existing.action == action);
                let is_there = matches!(error, TableError::Duplicate(_));
                if is_there && !is_same {
                    notes.risk("the program has a const entry in its place".to_owned());
                }
                return is_there && is_same;
            }
        };
        if let Some(counted) = self.old.tables[old_id].counter(Some(entry.id)) {
            self.write_counter(id, Some(inserted), counted);
        }
        self.carry_meter((old_id, id), Some(inserted), entry.meter.as_deref());
        true
    }

    /// Migrates the entries that packets added. If the layout is unchanged, packets of both
    /// programs share one table. Otherwise the entries that fit are copied. Entries that packets of
    /// the old program add from then on are not migrated.
    fn learned(&mut self, old_id: TableId, id: TableId, fit: &TableFit, is_same_key: bool) {
        let old = self.old;
        let name = &old.program().tables[old_id].name;
        let kind = StateKind::LearnedEntries;
        let Some(before) = &old.learned[old_id] else {
            return;
        };
        let Some(after) = &self.new.learned[id] else {
            let reason = "packets add no entries to the table any more";
            return self.lost(kind, name, reason, before.len());
        };
        if !is_same_key || before.shape() != after.shape() {
            return self.lost(kind, name, "its key has another form", before.len());
        }
        let mut notes = ConversionNotes::default();
        tell_size(before.capacity(), after.capacity(), &mut notes);
        let is_same = before.param_limbs() == after.param_limbs()
            && before.capacity() == after.capacity()
            && before.is_for_handlers() == after.is_for_handlers()
            && same_actions(old.program(), old_id, self.new.program(), id);
        if is_same {
            self.new.learned[id] = Some(before.clone());
            let count = Count {
                held: before.len(),
                lost: 0,
            };
            return self.line(kind, name, notes, count);
        }
        let mut count = Count::default();
        for entry in before.entries() {
            let converted = fit
                .call(&entry.action)
                .map(|action| LearnedEntry { action, ..entry });
            count.add(converted.is_some_and(|entry| after.restore(&entry).is_ok()));
        }
        notes.risk("its actions have other numbers or parameters".to_owned());
        self.line(kind, name, notes, count);
    }
}

/// Conversion of a table's entries.
pub(super) struct TableFit {
    keys: KeyConversion,
    /// Action conversions, by the old action's id.
    actions: HashMap<u32, ActionConversion>,
    /// True if the new table has all of the old table's actions with the same parameters.
    is_exact: bool,
}

impl TableFit {
    pub(super) fn call(&self, call: &ActionRef) -> Option<ActionRef> {
        self.actions.get(&call.action)?.convert(call)
    }
}

/// Returns the const entries. Tables for which the program declares no entries are not scanned,
/// because they may be large.
fn consts(configuration: &Configuration, id: TableId) -> Vec<Arc<Entry>> {
    if configuration.program().tables[id].entries.is_empty() {
        return Vec::new();
    }
    let entries = configuration.tables[id].iter();
    entries.filter(|entry| entry.is_const).collect()
}

/// Returns the number of entries that are not const.
fn held(configuration: &Configuration, id: TableId) -> usize {
    configuration.tables[id].len() - consts(configuration, id).len()
}

fn direct_name(program: &Program, id: Option<ExternId>) -> String {
    let instance = id.and_then(|id| program.externs.get(id));
    instance
        .map(|instance| instance.name.clone())
        .unwrap_or_default()
}

/// Returns true if two tables list the same actions with the same ids, to which learned entries
/// refer.
fn same_actions(old: &Program, old_id: TableId, new: &Program, id: TableId) -> bool {
    let (before, after) = (&old.tables[old_id].actions, &new.tables[id].actions);
    before.len() == after.len()
        && before.iter().zip(after).all(|(a, b)| {
            let (old, new) = (&old.actions[a.action], &new.actions[b.action]);
            let sizes = |ty: ir::ScalarTy| (ty.width(), ir::limbs_of(ty));
            let params = old.params.iter().zip(&new.params);
            a.action == b.action
                && old.control_plane_name == new.control_plane_name
                && old.params.len() == new.params.len()
                && params
                    .into_iter()
                    .all(|(a, b)| a.name == b.name && sizes(a.ty) == sizes(b.ty))
        })
}

/// Returns true if the control plane has set the default action.
fn was_set(configuration: &Configuration, id: TableId) -> bool {
    let program = configuration.program();
    let own = program.tables.get(id).and_then(|table| {
        let listed = table.actions.get(table.default.action)?;
        let action = program.actions.get(listed.action)?;
        Some(EntryAction::Direct(ActionRef {
            action: listed.action.get(),
            params: exec::action_params(action, &table.default.args)?,
        }))
    });
    own.as_ref() != Some(configuration.tables[id].default_action())
}
