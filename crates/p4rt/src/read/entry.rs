//! Reads of table entries and of their direct resources (section "Wildcard Reads" of `TableEntry`).

#![expect(
    deprecated,
    reason = "P4Runtime still has the fields, and clients still use them"
)]

use std::sync::Arc;

use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::table_action::Type as GivenAction;
use switch::{CounterReading, Device, EntryId, MeterConfig};
use table::{ColorCounts, Entry, EntryAction, FieldMatch};
use tonic::Code;

use super::{chosen, is_told, message};
use crate::controller_state::{ControllerState, Kept};
use crate::request_error::{Checked, invalid, refuse};
use crate::schema::{Schema, TableView};
use crate::undo::{Done, EntryKey, declared_priority, done};
use crate::write::entry_key;

/// Maximum number of entries that one job collects.
const PART: usize = 2048;

/// Part of the entries that is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aspect {
    Entries,
    Counters,
    Meters,
}

/// Query for table entries, with its filters and position.
#[derive(Debug)]
pub(crate) struct EntryQuery {
    aspect: Aspect,
    /// Tables still to be read. The last one is read next.
    tables: Vec<u32>,
    /// The next entry of that table.
    from: EntryId,
    is_default: bool,
    matches: Option<Vec<FieldMatch>>,
    /// Match and priority of a single entry.
    key: Option<EntryKey>,
    priority: i32,
    action: Option<u32>,
    metadata: Vec<u8>,
    controller_metadata: u64,
    wants: Wants,
}

/// Optional fields of entries that the request has set, and that the answer contains.
#[derive(Clone, Copy, Debug)]
struct Wants {
    meter: bool,
    colors: bool,
    counter: bool,
    elapsed: bool,
}

/// Entries of one table, as collected.
pub(crate) struct FoundEntries {
    aspect: Aspect,
    table: u32,
    entries: Vec<FoundEntry>,
    wants: Wants,
}

/// An entry, a default entry, or an entry that a packet added.
struct FoundEntry {
    matches: Arc<[FieldMatch]>,
    priority: i32,
    action: EntryAction,
    /// The profile member, group or one-shot set to which the entry's action refers.
    done: Option<Done>,
    kept: Kept,
    is_default: bool,
    is_const: bool,
    timeout: Option<u64>,
    elapsed: u64,
    direct: Option<Direct>,
}

/// The requested direct resources of an entry.
#[derive(Clone, Copy, Default)]
struct Direct {
    counter: Option<CounterReading>,
    meter: Option<MeterConfig>,
    colors: Option<ColorCounts>,
}

impl EntryQuery {
    /// Returns the query for table entries.
    pub(super) fn entries(
        schema: &Schema,
        role: &str,
        entry: &rt::TableEntry,
    ) -> Checked<EntryQuery> {
        EntryQuery::new(schema, role, entry, Aspect::Entries)
    }

    /// Returns the query for direct counters.
    pub(super) fn counters(
        schema: &Schema,
        role: &str,
        entry: &rt::DirectCounterEntry,
    ) -> Checked<EntryQuery> {
        let all = rt::TableEntry::default();
        let named = entry.table_entry.as_ref().unwrap_or(&all);
        EntryQuery::new(schema, role, &key_of(named), Aspect::Counters)
    }

    /// Returns the query for direct meters.
    pub(super) fn meters(
        schema: &Schema,
        role: &str,
        entry: &rt::DirectMeterEntry,
    ) -> Checked<EntryQuery> {
        let all = rt::TableEntry::default();
        let named = rt::TableEntry {
            meter_counter_data: entry.counter_data,
            ..key_of(entry.table_entry.as_ref().unwrap_or(&all))
        };
        EntryQuery::new(schema, role, &named, Aspect::Meters)
    }

    fn new(
        schema: &Schema,
        role: &str,
        entry: &rt::TableEntry,
        aspect: Aspect,
    ) -> Checked<EntryQuery> {
        let has = |view: &TableView| {
            let table = &schema.program.tables[view.table];
            match aspect {
                Aspect::Entries => true,
                Aspect::Counters => table.direct_counter.is_some(),
                Aspect::Meters => table.direct_meter.is_some(),
            }
        };
        let is_asked = |view: &TableView| is_told(view.role.as_deref(), role) && has(view);
        let mut tables = chosen(&schema.tables, "table", entry.table_id, is_asked)?;
        tables.reverse();
        let wants = Wants {
            meter: entry.meter_config.is_some(),
            colors: entry.meter_counter_data.is_some(),
            counter: entry.counter_data.is_some(),
            elapsed: entry.time_since_last_hit.is_some(),
        };
        let mut query = EntryQuery {
            aspect,
            tables,
            from: EntryId(0),
            is_default: entry.is_default_action,
            matches: None,
            key: None,
            priority: entry.priority,
            action: None,
            metadata: entry.metadata.clone(),
            controller_metadata: entry.controller_metadata,
            wants,
        };
        match entry.table_id {
            0 => check_no_filter(entry)?,
            id => query.narrow(schema, schema.table_of(id)?, entry)?,
        }
        Ok(query)
    }

    /// Sets the filters of a request for one table.
    fn narrow(&mut self, schema: &Schema, view: &TableView, entry: &rt::TableEntry) -> Checked {
        let place = format!("the table `{}`", view.name);
        let table = &schema.program.tables[view.table];
        match self.aspect {
            Aspect::Entries => {}
            Aspect::Counters => crate::write::check_has(
                table.direct_counter.is_some(),
                &view.name,
                "direct counter",
            )?,
            Aspect::Meters => {
                crate::write::check_has(table.direct_meter.is_some(), &view.name, "direct meter")?
            }
        }
        if self.wants.elapsed && (!view.has_idle_timeout || entry.is_default_action) {
            return invalid(format!(
                "{place}: time_since_last_hit is set, but there are no idle time-outs"
            ));
        }
        if entry.is_default_action && (!entry.r#match.is_empty() || entry.priority != 0) {
            return invalid(format!(
                "{place}: the default entry has no match and no priority"
            ));
        }
        match entry
            .action
            .as_ref()
            .and_then(|action| action.r#type.as_ref())
        {
            None => {}
            Some(GivenAction::Action(action)) if action.params.is_empty() => {
                self.action = (action.action_id != 0).then_some(action.action_id);
            }
            Some(_) => return invalid(format!("{place}: reads are filtered by action_id only")),
        }
        if entry.r#match.is_empty() {
            return Ok(());
        }
        if view.needs_priority && entry.priority == 0 {
            // A priority of 0 matches all priorities. Any valid priority lets the match be
            // converted.
            let any = rt::TableEntry {
                priority: 1,
                ..entry.clone()
            };
            self.matches = Some(entry_key(schema, view, &any)?.matches);
        } else {
            self.key = Some(entry_key(schema, view, entry)?);
        }
        Ok(())
    }

    /// Collects the next entries. Returns `None` after the last table.
    pub(super) fn collect(
        &mut self,
        schema: &Schema,
        device: &Device,
        extras: &ControllerState,
    ) -> Checked<Option<FoundEntries>> {
        let Some(&id) = self.tables.last() else {
            return Ok(None);
        };
        let view = schema.table_of(id)?;
        let entries = if self.is_default {
            self.tables.pop();
            vec![self.default_entry(view, device, extras)]
        } else if let Some(key) = &self.key {
            let found = key.find(device);
            self.tables.pop();
            match (found, self.aspect) {
                (Some(entry), _) => vec![self.found(view, device, &entry)],
                (None, Aspect::Entries) => self.learned(view, device),
                (None, _) => {
                    let message = format!("the table `{}` has no such entry", view.name);
                    return refuse(Code::NotFound, message);
                }
            }
        } else {
            self.part(view, device)
        };
        let entries = entries
            .into_iter()
            .filter(|entry| self.is_wanted(schema, entry));
        Ok(Some(FoundEntries {
            aspect: self.aspect,
            table: id,
            entries: entries.collect(),
            wants: self.wants,
        }))
    }

    /// Collects the next entries of a table.
    fn part(&mut self, view: &TableView, device: &Device) -> Vec<FoundEntry> {
        let table = &device.configuration().tables[view.table];
        let part = table.iter_from(self.from).take(PART);
        let mut found: Vec<FoundEntry> = Vec::new();
        let mut last = None;
        for entry in part {
            last = Some(entry.id);
            found.push(self.found(view, device, &entry));
        }
        match last {
            Some(last) if found.len() == PART => self.from = EntryId(last.0 + 1),
            _ => {
                found.extend(self.learned(view, device));
                self.tables.pop();
                self.from = EntryId(0);
            }
        }
        found
    }

    fn found(&self, view: &TableView, device: &Device, entry: &Arc<Entry>) -> FoundEntry {
        let is_direct = matches!(entry.action, EntryAction::Direct(_));
        let priority = match (view.needs_priority, entry.priority) {
            (true, None) => declared_priority(device, view.table, entry),
            (_, priority) => priority.unwrap_or(0),
        };
        let elapsed = match self.wants.elapsed {
            true => {
                let usage = device.configuration().tables[view.table].usage_of(Some(entry.id));
                let last_use = usage.map_or(0, |usage| usage.last_use_ns);
                device.now().0.saturating_sub(last_use)
            }
            false => 0,
        };
        FoundEntry {
            matches: Arc::clone(&entry.matches),
            priority,
            action: entry.action.clone(),
            done: (!is_direct).then(|| done(device, view.table, &entry.action)),
            kept: Kept::from_bytes(&entry.metadata),
            is_default: false,
            is_const: entry.is_const,
            timeout: entry.idle_timeout_ns,
            elapsed,
            direct: Some(self.direct(view, device, Some(entry))),
        }
    }

    /// Returns the requested direct resources of an entry, or of the default entry.
    fn direct(&self, view: &TableView, device: &Device, entry: Option<&Entry>) -> Direct {
        let table = &device.configuration().tables[view.table];
        let wants_counter = self.wants.counter || self.aspect == Aspect::Counters;
        let meter = match entry {
            Some(entry) => entry.meter.as_deref(),
            None => table.default_meter(),
        };
        Direct {
            counter: wants_counter
                .then(|| table.counter(entry.map(|entry| entry.id)))
                .flatten(),
            meter: meter.and_then(|meter| meter.config()),
            colors: meter
                .filter(|_| self.wants.colors)
                .map(|meter| meter.counts()),
        }
    }

    /// Returns the entries that packets added.
    fn learned(&self, view: &TableView, device: &Device) -> Vec<FoundEntry> {
        let Some(learned) = &device.configuration().learned[view.table] else {
            return Vec::new();
        };
        let one = |entry: table::LearnedEntry| FoundEntry {
            matches: message::learned_matches(view, &entry.key).into(),
            priority: 0,
            action: EntryAction::Direct(entry.action),
            done: None,
            kept: Kept::default(),
            is_default: false,
            is_const: false,
            timeout: entry.idle_timeout_ns,
            elapsed: device.now().0.saturating_sub(entry.timer_start_ns),
            direct: None,
        };
        let found = learned.entries().into_iter().map(one);
        let is_it = |entry: &FoundEntry| match &self.key {
            Some(key) => key.matches[..] == entry.matches[..],
            None => true,
        };
        found.filter(is_it).collect()
    }

    fn default_entry(
        &self,
        view: &TableView,
        device: &Device,
        extras: &ControllerState,
    ) -> FoundEntry {
        let table = &device.configuration().tables[view.table];
        FoundEntry {
            matches: Arc::new([]),
            priority: 0,
            action: table.default_action().clone(),
            done: None,
            kept: extras
                .defaults
                .get(&view.table)
                .cloned()
                .unwrap_or_default(),
            is_default: true,
            is_const: device.program().tables[view.table].default_is_const,
            timeout: None,
            elapsed: 0,
            direct: Some(self.direct(view, device, None)),
        }
    }

    fn is_wanted(&self, schema: &Schema, entry: &FoundEntry) -> bool {
        let action = |wanted: u32| match &entry.action {
            EntryAction::Direct(call) => {
                let id = ir::ActionId::new(call.action);
                let declared = schema.program.actions.get(id);
                let view = declared.and_then(|one| schema.action_named(&one.control_plane_name));
                view.is_some_and(|view| view.id == wanted)
            }
            _ => false,
        };
        self.action.is_none_or(action)
            && self
                .matches
                .as_ref()
                .is_none_or(|wanted| wanted[..] == entry.matches[..])
            && (self.priority == 0 || self.priority == entry.priority)
            && (self.metadata.is_empty() || self.metadata == entry.kept.metadata)
            && (self.controller_metadata == 0
                || self.controller_metadata == entry.kept.controller_metadata)
            && (self.aspect == Aspect::Entries || entry.direct.is_some())
    }
}

/// Returns only the key of an entry. Requests for direct resources use nothing else.
fn key_of(entry: &rt::TableEntry) -> rt::TableEntry {
    rt::TableEntry {
        table_id: entry.table_id,
        r#match: entry.r#match.clone(),
        priority: entry.priority,
        is_default_action: entry.is_default_action,
        ..rt::TableEntry::default()
    }
}

fn check_no_filter(entry: &rt::TableEntry) -> Checked {
    if !entry.r#match.is_empty() || entry.action.is_some() || entry.priority != 0 {
        return invalid(
            "table_id is 0, which is all tables: match, action and priority cannot be given",
        );
    }
    Ok(())
}

impl FoundEntries {
    /// Converts the entries to messages.
    pub(super) fn messages(self, schema: &Schema) -> Vec<Kind> {
        let Ok(view) = schema.table_of(self.table) else {
            return Vec::new();
        };
        let entries = self.entries.iter();
        let messages =
            entries.filter_map(|entry| entry.message(schema, view, self.aspect, self.wants));
        messages.collect()
    }
}

impl FoundEntry {
    fn message(
        &self,
        schema: &Schema,
        view: &TableView,
        aspect: Aspect,
        wants: Wants,
    ) -> Option<Kind> {
        let key = rt::TableEntry {
            table_id: view.id,
            r#match: message::matches(&schema.names, &view.keys, &self.matches),
            priority: self.priority,
            is_default_action: self.is_default,
            ..rt::TableEntry::default()
        };
        let direct = self.direct.unwrap_or_default();
        let counter = direct.counter.map(message::counter);
        let config = direct.meter.map(message::meter);
        let colors = direct.colors.map(message::colors);
        Some(match aspect {
            Aspect::Counters => Kind::DirectCounterEntry(rt::DirectCounterEntry {
                table_entry: Some(key),
                data: counter,
            }),
            Aspect::Meters => Kind::DirectMeterEntry(rt::DirectMeterEntry {
                table_entry: Some(key),
                config,
                counter_data: colors,
            }),
            Aspect::Entries => Kind::TableEntry(rt::TableEntry {
                action: self.action(schema),
                metadata: self.kept.metadata.clone(),
                controller_metadata: self.kept.controller_metadata,
                is_const: self.is_const,
                idle_timeout_ns: self.timeout.map_or(0, |timeout| timeout as i64),
                time_since_last_hit: (wants.elapsed && view.has_idle_timeout).then_some(
                    rt::table_entry::IdleTimeout {
                        elapsed_ns: self.elapsed as i64,
                    },
                ),
                meter_config: config.filter(|_| wants.meter),
                meter_counter_data: colors,
                counter_data: counter.filter(|_| wants.counter),
                ..key
            }),
        })
    }

    fn action(&self, schema: &Schema) -> Option<rt::TableAction> {
        match (&self.done, &self.action) {
            (Some(done), _) => message::table_action(schema, done, &self.kept),
            (None, EntryAction::Direct(call)) => {
                message::table_action(schema, &Done::Call(call.clone()), &self.kept)
            }
            (None, _) => None,
        }
    }
}

/// Returns the message for an idle entry: its key, metadata and timeout.
pub(crate) fn idle_entry(schema: &Schema, view: &TableView, entry: &Entry) -> rt::TableEntry {
    let kept = Kept::from_bytes(&entry.metadata);
    rt::TableEntry {
        table_id: view.id,
        r#match: message::matches(&schema.names, &view.keys, &entry.matches),
        priority: entry.priority.unwrap_or(0),
        metadata: kept.metadata,
        controller_metadata: kept.controller_metadata,
        idle_timeout_ns: entry.idle_timeout_ns.map_or(0, |timeout| timeout as i64),
        ..rt::TableEntry::default()
    }
}
