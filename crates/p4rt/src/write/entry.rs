//! Updates of table entries, default entries and their direct resources (sections "`TableEntry`",
//! "Direct Resources").

#![expect(
    deprecated,
    reason = "P4Runtime still has the fields, and clients still use them"
)]

use std::sync::Arc;

use ir::{ActionCall, ActionScope, TableId};
use p4info::p4::v1 as rt;
use p4info::p4::v1::table_action::Type as Given;
use p4info::p4::v1::update::Type;
use packet::Nanos;
use switch::{Action, Change, ColorCounts, CounterReading, EntryId, MeterConfig, TableEntry};
use table::Entry;
use tonic::Code;

use super::{check_modify, check_role, direct, field, profile};
use crate::controller_state::Kept;
use crate::request_error::{Checked, invalid, refuse};
use crate::restriction;
use crate::schema::{ActionView, MeterKind, Schema, TableView};
use crate::undo::{EntryKey, Op, Target};

/// Converts an update of an entry or of a default entry.
pub(super) fn convert(
    schema: &Arc<Schema>,
    role: &str,
    ty: Type,
    entry: &rt::TableEntry,
) -> Checked<Op> {
    let view = schema.table_of(entry.table_id)?;
    check_role("table", &view.name, view.role.as_deref(), role)?;
    let place = format!("the table `{}`", view.name);
    if entry.is_const {
        return invalid(format!(
            "{place}: is_const is set, which only the program can do"
        ));
    }
    if entry.is_default_action {
        return default_entry(schema, view, &place, ty, entry);
    }
    let is_const = schema.program.tables[view.table].entries_are_const;
    if is_const && ty != Type::Modify {
        return refuse(
            Code::PermissionDenied,
            format!("{place}: its entries are const"),
        );
    }
    if view.keys.is_empty() {
        return invalid(format!(
            "{place} has no key; only its default entry can be set"
        ));
    }
    let key = entry_key(schema, view, entry)?;
    if ty == Type::Delete {
        return Ok(delete(key, place));
    }
    if let Some(constraint) = &view.constraint {
        let (names, priority) = (&schema.names, key.priority);
        restriction::check_entry(&place, constraint, names, &view.keys, &key.keys, priority)?;
    }
    check_idle(view, &place, entry)?;
    check_direct(schema, view, entry)?;
    let action = entry
        .action
        .as_ref()
        .and_then(|action| action.r#type.as_ref());
    let action = action
        .map(|action| given_action(schema, view, &place, action))
        .transpose()?;
    let written = Written {
        kept: Kept {
            metadata: entry.metadata.clone(),
            controller_metadata: entry.controller_metadata,
            ..Kept::default()
        },
        timeout: (entry.idle_timeout_ns > 0).then_some(Nanos(entry.idle_timeout_ns as u64)),
        meter: meter_config(&place, view.meter, entry.meter_config.as_ref())?,
        clears_colors: clears_colors(&place, entry.meter_counter_data.as_ref())?,
        counter: reading(&place, entry.counter_data.as_ref())?,
    };
    match (ty, action) {
        (Type::Insert, Some(action)) => Ok(insert(key, place, action, written)),
        (Type::Insert, None) => invalid(format!("{place}: an entry to insert needs an action")),
        (_, action) => Ok(modify(key, place, action, written)),
    }
}

/// The parts of an update of an entry other than its action.
struct Written {
    kept: Kept,
    timeout: Option<Nanos>,
    meter: Option<MeterConfig>,
    clears_colors: bool,
    counter: Option<CounterReading>,
}

/// An action in the device's form, with the data that the device does not interpret.
pub(super) struct GivenAction {
    pub(super) action: Action,
    /// Data of a one-shot action set.
    pub(super) kept: Kept,
}

/// Converts the key of an entry.
pub(crate) fn entry_key(
    schema: &Schema,
    view: &TableView,
    entry: &rt::TableEntry,
) -> Checked<EntryKey> {
    let place = format!("the table `{}`", view.name);
    let keys = field::matches(&schema.names, &place, &view.keys, &entry.r#match)?;
    let matches = view.keys.iter().zip(&keys);
    let matches = matches.map(|(field, wanted)| exec::field_match(&field.field, wanted));
    let Some(matches) = matches.collect::<Option<Vec<_>>>() else {
        return invalid(format!("{place}: the match does not fit the key"));
    };
    let priority = match (view.needs_priority, entry.priority) {
        (true, 1..) => Some(entry.priority),
        (false, 0) => None,
        (true, other) => {
            return invalid(format!(
                "{place} has ternary, range or optional fields, so that the priority must be at least 1, not {other}"
            ));
        }
        (false, other) => {
            return invalid(format!(
                "{place} has exact and lpm fields only, so that the priority must be 0, not {other}"
            ));
        }
    };
    Ok(EntryKey {
        table: view.table,
        keys,
        matches,
        priority,
    })
}

fn check_idle(view: &TableView, place: &str, entry: &rt::TableEntry) -> Checked {
    if entry.time_since_last_hit.is_some() {
        return invalid(format!("{place}: time_since_last_hit is for reading only"));
    }
    if entry.idle_timeout_ns < 0 {
        return invalid(format!(
            "{place}: the idle time-out {} is negative",
            entry.idle_timeout_ns
        ));
    }
    if entry.idle_timeout_ns != 0 && !view.has_idle_timeout {
        return invalid(format!(
            "{place}: idle_timeout_ns is set, but the table has no idle time-outs (support_timeout in v1model, psa_idle_timeout in PSA)"
        ));
    }
    Ok(())
}

/// Checks that the table has the direct resources that an update sets.
fn check_direct(schema: &Schema, view: &TableView, entry: &rt::TableEntry) -> Checked {
    let table = &schema.program.tables[view.table];
    if entry.meter_config.is_some() || entry.meter_counter_data.is_some() {
        check_has(table.direct_meter.is_some(), &view.name, "direct meter")?;
    }
    if entry.counter_data.is_some() {
        check_has(table.direct_counter.is_some(), &view.name, "direct counter")?;
    }
    Ok(())
}

/// Returns true if an update clears a meter's counters of each colour. They cannot be set to
/// anything else (section "`MeterCounterData`").
pub(super) fn clears_colors(place: &str, data: Option<&rt::MeterCounterData>) -> Checked<bool> {
    let Some(data) = data else { return Ok(false) };
    for (color, counts) in [
        ("green", &data.green),
        ("yellow", &data.yellow),
        ("red", &data.red),
    ] {
        if counts.is_some_and(|counts| counts != rt::CounterData::default()) {
            return invalid(format!(
                "{place}: the counts of {color} packets can be set to 0 only"
            ));
        }
    }
    Ok(true)
}

/// Converts rates and burst sizes for this type of meter (section "MeterEntry & DirectMeterEntry").
pub(super) fn meter_config(
    place: &str,
    kind: MeterKind,
    config: Option<&rt::MeterConfig>,
) -> Checked<Option<MeterConfig>> {
    let Some(config) = config else {
        return Ok(None);
    };
    let number = |name: &str, value: i64| match u64::try_from(value) {
        Ok(value) => Ok(value),
        Err(_) => invalid(format!("{place}: {name} is negative: {value}")),
    };
    let (cir, cburst) = (number("cir", config.cir)?, number("cburst", config.cburst)?);
    let (pir, pburst) = (number("pir", config.pir)?, number("pburst", config.pburst)?);
    let eburst = number("eburst", config.eburst)?;
    if kind != MeterKind::SingleRate && eburst != 0 {
        return invalid(format!(
            "{place}: eburst is set, but the meter has no excess burst"
        ));
    }
    if kind == MeterKind::TwoRate {
        if cir > pir {
            return invalid(format!(
                "{place}: the committed rate {cir} is above the peak rate {pir}"
            ));
        }
        return Ok(Some(MeterConfig::TwoRate {
            cir,
            cburst,
            pir,
            pburst,
        }));
    }
    if (pir, pburst) != (cir, cburst) {
        return invalid(format!(
            "{place}: the meter has a single rate, so that pir and pburst must equal cir and cburst"
        ));
    }
    Ok(Some(MeterConfig::SingleRate {
        cir,
        cburst,
        eburst,
    }))
}

/// Converts a counter value.
pub(super) fn reading(
    place: &str,
    data: Option<&rt::CounterData>,
) -> Checked<Option<CounterReading>> {
    let Some(data) = data else { return Ok(None) };
    let count = |name: &str, value: i64| match u64::try_from(value) {
        Ok(value) => Ok(value),
        Err(_) => invalid(format!("{place}: {name} is negative: {value}")),
    };
    Ok(Some(CounterReading {
        packets: count("packet_count", data.packet_count)?,
        bytes: count("byte_count", data.byte_count)?,
    }))
}

/// Converts the action of an entry, in the form that the table's implementation requires (section
/// "Action Specification").
fn given_action(
    schema: &Schema,
    view: &TableView,
    place: &str,
    action: &Given,
) -> Checked<GivenAction> {
    let plain = |action| GivenAction {
        action,
        kept: Kept::default(),
    };
    let profile = view.profile.and_then(|id| schema.profiles.get(&id));
    match (action, profile) {
        (Given::Action(action), None) => {
            let call = table_call(schema, view, place, action, ActionScope::DefaultOnly)?;
            Ok(plain(Action::Call(call)))
        }
        (Given::Action(_), Some(profile)) => invalid(format!(
            "{place}: its actions are in the action profile `{}`; give a member or a group",
            profile.name
        )),
        (_, None) => invalid(format!("{place} has no action profile; give an action")),
        (Given::ActionProfileMemberId(id), Some(_)) => Ok(plain(Action::Member(*id))),
        (Given::ActionProfileGroupId(_) | Given::ActionProfileActionSet(_), Some(profile))
            if !profile.with_selector =>
        {
            invalid(format!(
                "{place}: the action profile `{}` has no selector; give a member",
                profile.name
            ))
        }
        (Given::ActionProfileGroupId(id), Some(_)) => Ok(plain(Action::Group(*id))),
        (Given::ActionProfileActionSet(set), Some(profile)) => {
            profile::one_shot(schema, view, profile, place, set)
        }
    }
}

/// Converts a call of an action that a table lists. `forbidden` is the scope that is not permitted
/// here.
pub(super) fn table_call(
    schema: &Schema,
    view: &TableView,
    place: &str,
    action: &rt::Action,
    forbidden: ActionScope,
) -> Checked<ActionCall> {
    let listed = view.actions.iter().find(|(id, _)| *id == action.action_id);
    let (Some((id, at)), true) = (listed, action.action_id != 0) else {
        return invalid(format!(
            "{place} has no action with the id {}",
            action.action_id
        ));
    };
    let declared = &schema.program.tables[view.table].actions[*at];
    let action_view = &schema.actions[id];
    if declared.scope == forbidden {
        let where_to = match forbidden {
            ActionScope::DefaultOnly => "in entries (it is @defaultonly)",
            _ => "as default action (it is @tableonly)",
        };
        return refuse(
            Code::PermissionDenied,
            format!(
                "{place}: the action `{}` cannot be used {where_to}",
                action_view.name
            ),
        );
    }
    Ok(ActionCall {
        action: *at,
        args: arguments(schema, place, action_view, action)?,
    })
}

/// Converts an action's arguments, in the order of declaration.
pub(super) fn arguments(
    schema: &Schema,
    place: &str,
    view: &ActionView,
    action: &rt::Action,
) -> Checked<Vec<bits::Value>> {
    let name = &view.name;
    for (at, param) in action.params.iter().enumerate() {
        if view
            .params
            .iter()
            .all(|declared| declared.id != param.param_id)
        {
            return invalid(format!(
                "{place}: the action `{name}` has no parameter with the id {}",
                param.param_id
            ));
        }
        if action.params[..at]
            .iter()
            .any(|other| other.param_id == param.param_id)
        {
            return invalid(format!(
                "{place}: the parameter {} of the action `{name}` is given twice",
                param.param_id
            ));
        }
    }
    let value = |declared: &crate::schema::ParamView| {
        let mut given = action.params.iter();
        let Some(param) = given.find(|param| param.param_id == declared.id) else {
            return invalid(format!(
                "{place}: the parameter `{}` of the action `{name}` is missing",
                declared.name
            ));
        };
        declared
            .coding
            .read(&schema.names, &param.value)
            .map_err(|fault| {
                let place = format!(
                    "{place}: the parameter `{}` of the action `{name}`",
                    declared.name
                );
                // A type with no number left for another string is exhausted; the value itself is
                // valid.
                let code = match fault.code {
                    Code::ResourceExhausted => Code::ResourceExhausted,
                    _ => Code::InvalidArgument,
                };
                fault.within(&place).coded(code)
            })
    };
    let values: Vec<bits::Value> = view.params.iter().map(value).collect::<Checked<_>>()?;
    if let Some(constraint) = &view.constraint {
        let place = format!("{place}: the action `{name}`");
        restriction::check_call(&place, constraint, &schema.names, &view.params, &values)?;
    }
    Ok(values)
}

/// Checks that an action fits its selector's programming style, and executes the direct resources
/// that the update sets.
fn check_action(
    target: &Target<'_>,
    table: TableId,
    place: &str,
    given: &GivenAction,
    written: &Written,
) -> Checked {
    profile::check_style(target, table, &given.action)?;
    let set = direct::Set {
        meter: written.meter.is_some() || written.clears_colors,
        counter: written.counter.is_some(),
    };
    let actions = direct::actions(target.device, table, &given.action);
    let program = target.device.program();
    direct::check_executed(program, &program.tables[table], place, &actions, set)
}

fn insert(key: EntryKey, place: String, given: GivenAction, written: Written) -> Op {
    Box::new(move |target| {
        check_action(target, key.table, &place, &given, &written)?;
        let kept = merged(&written.kept, given.kept);
        let entry = TableEntry {
            keys: key.keys.clone(),
            priority: key.priority,
            action: given.action,
            idle_timeout: written.timeout,
            meter: written.meter,
            counter: written.counter,
        };
        if key.find(target.device).is_some() {
            return refuse(
                Code::AlreadyExists,
                told(target, &key, "has an entry with this match and priority"),
            );
        }
        let made = target.change(Change::Insert(key.table, entry))?;
        target.added(&key);
        set_kept(target, key.table, made, &kept)
    })
}

/// Combines an entry's metadata with its one-shot data.
fn merged(kept: &Kept, shots: Kept) -> Kept {
    Kept {
        metadata: kept.metadata.clone(),
        controller_metadata: kept.controller_metadata,
        ..shots
    }
}

fn set_kept(target: &mut Target<'_>, table: TableId, id: Option<EntryId>, kept: &Kept) -> Checked {
    if let Some(id) = id {
        let before = target.device.configuration().tables[table].get(id);
        let bytes = kept.to_bytes();
        if before.is_some_and(|entry| entry.metadata != bytes) {
            target.change(Change::SetMetadata(table, id, bytes))?;
        }
        if kept.is_watching() && !target.extras.down.is_empty() {
            profile::settle(target.device, &target.extras.down, table, id);
        }
    }
    Ok(())
}

fn told(target: &Target<'_>, key: &EntryKey, what: &str) -> String {
    format!(
        "the table `{}` {what}",
        target.device.program().tables[key.table].name
    )
}

fn delete(key: EntryKey, place: String) -> Op {
    Box::new(move |target| {
        let entry = found(target, &key)?;
        if entry.is_const {
            return refuse(
                Code::PermissionDenied,
                format!("{place}: the entry is const"),
            );
        }
        target.before_change(key.table, &entry);
        target.change(Change::Delete(key.table, entry.id))?;
        Ok(())
    })
}

fn found(target: &Target<'_>, key: &EntryKey) -> Checked<Arc<Entry>> {
    match key.find(target.device) {
        Some(entry) => Ok(entry),
        None => refuse(
            Code::NotFound,
            told(target, key, "has no entry with this match and priority"),
        ),
    }
}

fn modify(key: EntryKey, place: String, given: Option<GivenAction>, written: Written) -> Op {
    Box::new(move |target| {
        let entry = found(target, &key)?;
        target.before_change(key.table, &entry);
        if entry.is_const {
            check_const(&place, given.is_some(), &written)?;
        } else {
            if let Some(given) = &given {
                check_action(target, key.table, &place, given, &written)?;
            }
            set_entry(target, &key, &entry, given, &written)?;
        }
        set_direct(target, key.table, Some(entry.id), &written)
    })
}

/// Checks an update of a const entry, which may set direct resources only (section "Constant
/// Tables").
fn check_const(place: &str, has_action: bool, written: &Written) -> Checked {
    if has_action {
        let message =
            format!("{place}: the entry is const; its action cannot be given, even as it is");
        return refuse(Code::PermissionDenied, message);
    }
    if written.timeout.is_some() {
        return invalid(format!("{place}: const entries have no idle time-outs"));
    }
    if written.kept != Kept::default() {
        let message = format!("{place}: the entry is const; its metadata cannot be set");
        return refuse(Code::PermissionDenied, message);
    }
    Ok(())
}

/// Sets the action, if there is one, the idle timeout and the metadata.
fn set_entry(
    target: &mut Target<'_>,
    key: &EntryKey,
    entry: &Entry,
    given: Option<GivenAction>,
    written: &Written,
) -> Checked {
    let before = Kept::from_bytes(&entry.metadata);
    let is_same_time = entry.idle_timeout_ns == written.timeout.map(|time| time.0);
    let shots = match given {
        Some(given) => {
            let (table, timeout) = (key.table, written.timeout);
            target.change(Change::Modify(table, entry.id, given.action, timeout))?;
            given.kept
        }
        None => {
            if !is_same_time {
                let Some(action) = target.device.action(key.table, &entry.action) else {
                    return refuse(Code::Internal, "the entry's action is not the table's");
                };
                target.change(Change::Modify(key.table, entry.id, action, written.timeout))?;
            }
            before
        }
    };
    set_kept(
        target,
        key.table,
        Some(entry.id),
        &merged(&written.kept, shots),
    )
}

/// Sets direct resources. A meter without rates is reset; a counter without a value is not changed
/// (section "Direct Resources").
fn set_direct(
    target: &mut Target<'_>,
    table: TableId,
    entry: Option<EntryId>,
    written: &Written,
) -> Checked {
    let entries = &target.device.configuration().tables[table];
    let is_configured = entries
        .meter(entry)
        .is_some_and(|meter| meter.config().is_some());
    if written.meter.is_some() || is_configured {
        target.change(Change::SetDirectMeter(table, entry, written.meter))?;
    }
    if written.clears_colors {
        let none = ColorCounts::default();
        target.change(Change::WriteDirectColorCounts(table, entry, none))?;
    }
    if let Some(reading) = written.counter {
        target.change(Change::WriteDirectCounter(table, entry, reading))?;
    }
    Ok(())
}

/// Converts an update of the default entry (section "Default Entry").
fn default_entry(
    schema: &Arc<Schema>,
    view: &TableView,
    place: &str,
    ty: Type,
    entry: &rt::TableEntry,
) -> Checked<Op> {
    let place = format!("{place}: the default entry");
    if ty != Type::Modify {
        return invalid(format!(
            "{place} can only be modified, not {}",
            super::verb(ty)
        ));
    }
    if !entry.r#match.is_empty() || entry.priority != 0 {
        return invalid(format!("{place} has no match and no priority"));
    }
    if entry.idle_timeout_ns != 0 || entry.time_since_last_hit.is_some() {
        return invalid(format!("{place} has no idle time-out"));
    }
    check_direct(schema, view, entry)?;
    if schema.program.tables[view.table].default_is_const {
        return refuse(Code::PermissionDenied, format!("{place} is const"));
    }
    let action = entry
        .action
        .as_ref()
        .and_then(|action| action.r#type.as_ref());
    if view.profile.is_some() && action.is_some() {
        let message = format!("{place} of a table with an action profile is const in P4Runtime");
        return refuse(Code::PermissionDenied, message);
    }
    let call = match action {
        None => None,
        Some(Given::Action(action)) => Some(table_call(
            schema,
            view,
            &place,
            action,
            ActionScope::TableOnly,
        )?),
        Some(_) => return invalid(format!("{place} needs an action, no member or group")),
    };
    let written = Written {
        kept: Kept {
            metadata: entry.metadata.clone(),
            controller_metadata: entry.controller_metadata,
            ..Kept::default()
        },
        timeout: None,
        meter: meter_config(&place, view.meter, entry.meter_config.as_ref())?,
        clears_colors: clears_colors(&place, entry.meter_counter_data.as_ref())?,
        counter: reading(&place, entry.counter_data.as_ref())?,
    };
    Ok(set_default(view.table, call, written))
}

/// Returns the operation that sets the default entry. Without an action, it resets the entry to the
/// program's declaration and removes all other data.
fn set_default(table: TableId, call: Option<ActionCall>, written: Written) -> Op {
    Box::new(move |target| {
        target.before_default(table);
        let Some(call) = call else {
            target.change(Change::ResetDefault(table))?;
            let entries = &target.device.configuration().tables[table];
            let has_counter = entries.counter(None).is_some();
            let has_meter = entries.default_meter().is_some();
            target.extras.defaults.remove(&table);
            let nothing = Written {
                kept: Kept::default(),
                timeout: None,
                meter: None,
                clears_colors: has_meter,
                counter: has_counter.then(CounterReading::default),
            };
            return set_direct(target, table, None, &nothing);
        };
        target.change(Change::SetDefault(table, call))?;
        set_direct(target, table, None, &written)?;
        match written.kept == Kept::default() {
            true => target.extras.defaults.remove(&table),
            false => target.extras.defaults.insert(table, written.kept),
        }
        Ok(())
    })
}

/// Returns the table and the key of a direct resource; `None` as key means the default entry.
fn direct_place<'s>(
    schema: &'s Schema,
    what: &str,
    role: &str,
    ty: Type,
    entry: Option<&rt::TableEntry>,
) -> Checked<(&'s TableView, Option<EntryKey>)> {
    let Some(entry) = entry else {
        return invalid(format!("a {what} needs a table_entry"));
    };
    let view = schema.table_of(entry.table_id)?;
    check_role("table", &view.name, view.role.as_deref(), role)?;
    check_modify(&format!("{what} of the table"), &view.name, ty)?;
    if entry.is_default_action {
        return Ok((view, None));
    }
    Ok((view, Some(entry_key(schema, view, entry)?)))
}

/// Finds the entry of a direct resource.
fn direct_target(
    target: &mut Target<'_>,
    table: TableId,
    key: Option<&EntryKey>,
) -> Checked<Option<EntryId>> {
    match key {
        None => {
            target.before_default(table);
            Ok(None)
        }
        Some(key) => {
            let entry = found(target, key)?;
            target.before_change(table, &entry);
            Ok(Some(entry.id))
        }
    }
}

/// Converts an update of a direct counter.
pub(super) fn direct_counter(
    schema: &Arc<Schema>,
    role: &str,
    ty: Type,
    entry: &rt::DirectCounterEntry,
) -> Checked<Op> {
    let what = "direct counter";
    let (view, key) = direct_place(schema, what, role, ty, entry.table_entry.as_ref())?;
    let (table, place) = (
        view.table,
        format!("the direct counter of the table `{}`", view.name),
    );
    check_has(
        schema.program.tables[table].direct_counter.is_some(),
        &view.name,
        what,
    )?;
    let reading = reading(&place, entry.data.as_ref())?;
    Ok(Box::new(move |target| {
        let id = direct_target(target, table, key.as_ref())?;
        if let Some(reading) = reading {
            target.change(Change::WriteDirectCounter(table, id, reading))?;
        }
        Ok(())
    }))
}

/// Converts an update of a direct meter.
pub(super) fn direct_meter(
    schema: &Arc<Schema>,
    role: &str,
    ty: Type,
    entry: &rt::DirectMeterEntry,
) -> Checked<Op> {
    let what = "direct meter";
    let (view, key) = direct_place(schema, what, role, ty, entry.table_entry.as_ref())?;
    let (table, place) = (
        view.table,
        format!("the direct meter of the table `{}`", view.name),
    );
    check_has(
        schema.program.tables[table].direct_meter.is_some(),
        &view.name,
        what,
    )?;
    let clears_colors = clears_colors(&place, entry.counter_data.as_ref())?;
    let config = meter_config(&place, view.meter, entry.config.as_ref())?;
    Ok(Box::new(move |target| {
        let id = direct_target(target, table, key.as_ref())?;
        target.change(Change::SetDirectMeter(table, id, config))?;
        if clears_colors {
            let none = ColorCounts::default();
            target.change(Change::WriteDirectColorCounts(table, id, none))?;
        }
        Ok(())
    }))
}

/// Checks that a table has a direct resource.
pub(crate) fn check_has(has: bool, table: &str, what: &str) -> Checked {
    match has {
        true => Ok(()),
        false => invalid(format!("the table `{table}` has no {what}")),
    }
}
