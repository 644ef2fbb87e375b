//! Checks of an entries file against a P4Info, for `ctl apply --sync --dry-run`: the reasons for
//! which a server refuses a statement, as far as the P4Info and the file contain them.
//!
//! Names, widths, match kinds, priorities and const tables are checked when the file is read. Free
//! space, ports, roles and the style in which a selector is programmed are known to the server
//! only.

use std::collections::{HashMap, HashSet};

use controller::Catalog;
use entries::{EntriesFile, EntryAction, MeterConfig, TableEntry, Update};
use ir::{ActionCall, ExternId, TableId};
use p4info::p4::config::v1::{self as info, action_ref::Scope, meter_spec, table};

/// Knowledge of a P4Info and of a file about the file's statements.
pub(super) struct Validity<'c, 'f> {
    catalog: &'c Catalog,
    file: &'c EntriesFile<'f>,
    tables: HashMap<u32, &'c info::Table>,
    /// Members and groups that the file contains, by profile and id.
    members: HashSet<(ExternId, u32)>,
    groups: HashSet<(ExternId, u32)>,
}

/// Result of a check: the reason for a refusal.
type Checked = Result<(), String>;

impl<'c, 'f> Validity<'c, 'f> {
    pub(super) fn new(catalog: &'c Catalog, file: &'c EntriesFile<'f>) -> Validity<'c, 'f> {
        let tables = catalog.info.tables.iter();
        let tables = tables.filter_map(|table| Some((table.preamble.as_ref()?.id, table)));
        let members = file.updates().iter().filter_map(|update| match update {
            Update::Member { profile, id, .. } => Some((*profile, *id)),
            _ => None,
        });
        let groups = file.updates().iter().filter_map(|update| match update {
            Update::Group { profile, id, .. } => Some((*profile, *id)),
            _ => None,
        });
        Validity {
            catalog,
            file,
            tables: tables.collect(),
            members: members.collect(),
            groups: groups.collect(),
        }
    }

    /// Returns the reason why a server refuses a statement, if it is known here.
    pub(super) fn refusal(&self, statement: usize) -> Option<String> {
        if let Some(broken) = self
            .file
            .broken_restriction(&self.catalog.schema, statement)
        {
            return Some(broken.message);
        }
        let checked = match self.file.updates().get(statement)? {
            Update::Insert(table, entry) => self.entry(*table, entry),
            Update::SetDefault(table, call) => {
                self.scope(*table, call, Scope::TableOnly, "as default action")
            }
            Update::Group {
                profile,
                members,
                max_size,
                ..
            } => {
                let sizes = members.iter().map(|one| (one.member, one.weight));
                self.group(*profile, &sizes.collect::<Vec<_>>(), *max_size)
            }
            Update::Meter { meter, config, .. } => self.meter(*meter, config),
            _ => Ok(()),
        };
        checked.err()
    }

    fn name(&self, table: TableId) -> &str {
        &self.catalog.schema.tables[table].name
    }

    fn entry(&self, table: TableId, entry: &TableEntry) -> Checked {
        let name = self.name(table);
        let Some(declared) = self.tables.get(&self.catalog.table_id(table)) else {
            return Ok(());
        };
        if declared.match_fields.is_empty() {
            return Err(format!(
                "the table `{name}` has no key; only its default action can be set"
            ));
        }
        let no_timeout = table::IdleTimeoutBehavior::NoTimeout as i32;
        if entry.idle_timeout_ns.is_some() && declared.idle_timeout_behavior == no_timeout {
            return Err(format!("the table `{name}` has no idle time-outs"));
        }
        let has = |id: Option<&info::Preamble>| {
            id.is_some_and(|one| declared.direct_resource_ids.contains(&one.id))
        };
        let info = &self.catalog.info;
        let mut counters = info.direct_counters.iter();
        if entry.counter.is_some() && !counters.any(|one| has(one.preamble.as_ref())) {
            return Err(format!("the table `{name}` has no direct counter"));
        }
        if let Some(config) = &entry.meter {
            let mut meters = info.direct_meters.iter();
            let Some(meter) = meters.find(|one| has(one.preamble.as_ref())) else {
                return Err(format!("the table `{name}` has no direct meter"));
            };
            rates(name, meter.spec.as_ref(), config)?;
        }
        self.action(table, &entry.action)
    }

    fn action(&self, table: TableId, action: &EntryAction) -> Checked {
        let (name, scope) = (self.name(table), Scope::DefaultOnly);
        let implementation = self.catalog.schema.tables[table].implementation;
        let profile = implementation.and_then(|own| Some((own, self.profile(own)?)));
        match (action, profile) {
            (EntryAction::Call(call), None) => self.scope(table, call, scope, "in entries"),
            (EntryAction::Call(_), Some((own, _))) => Err(format!(
                "the actions of the table `{name}` are in `{}`; give a member or a group",
                self.catalog.schema.externs[own].name
            )),
            (EntryAction::Group(_) | EntryAction::OneShot(_), Some((own, profile)))
                if !profile.with_selector =>
            {
                Err(format!(
                    "the action profile `{}` has no selector; give a member",
                    self.catalog.schema.externs[own].name
                ))
            }
            (EntryAction::Member(id), Some((own, _))) => self.has_member(own, *id),
            (EntryAction::Group(id), Some((own, _))) => match self.groups.contains(&(own, *id)) {
                true => Ok(()),
                false => Err(format!("the file has no group {id}, which the entry uses")),
            },
            (EntryAction::OneShot(calls), Some((_, profile))) => {
                for (call, _) in calls {
                    self.scope(table, call, scope, "in entries")?;
                }
                let size = size(profile, calls.iter().map(|(_, weight)| *weight));
                match u64::try_from(profile.max_group_size) {
                    Ok(most @ 1..) if size > most => Err(format!(
                        "the actions have the size {size}, more than the {most} of a group"
                    )),
                    _ => Ok(()),
                }
            }
            (_, None) => Ok(()),
        }
    }

    /// Checks that an action is not used where `@defaultonly` or `@tableonly` forbids it.
    fn scope(&self, table: TableId, call: &ActionCall, forbidden: Scope, place: &str) -> Checked {
        let declared = self.tables.get(&self.catalog.table_id(table));
        let listed = declared.and_then(|declared| declared.action_refs.get(call.action));
        if listed.is_none_or(|listed| listed.scope != forbidden as i32) {
            return Ok(());
        }
        let schema = &self.catalog.schema;
        let action = schema.tables[table].actions.get(call.action);
        Err(format!(
            "the action `{}` of the table `{}` cannot be used {place}",
            action.map_or("", |action| &schema.actions[*action].name),
            self.name(table)
        ))
    }

    fn profile(&self, profile: ExternId) -> Option<&'c info::ActionProfile> {
        let id = self.catalog.extern_id(profile);
        let mut profiles = self.catalog.info.action_profiles.iter();
        profiles.find(|one| one.preamble.as_ref().is_some_and(|own| own.id == id))
    }

    fn has_member(&self, profile: ExternId, id: u32) -> Checked {
        match self.members.contains(&(profile, id)) {
            true => Ok(()),
            false => Err(format!("the file has no member {id}, which is used here")),
        }
    }

    fn group(&self, profile: ExternId, members: &[(u32, u32)], max_size: u32) -> Checked {
        for (member, _) in members {
            self.has_member(profile, *member)?;
        }
        let Some(declared) = self.profile(profile) else {
            return Ok(());
        };
        if let Ok(most @ 1..) = u32::try_from(declared.max_group_size)
            && !(1..=most).contains(&max_size)
        {
            return Err(format!(
                "the group's max_size is {max_size}, but must be within 1 to {most}"
            ));
        }
        let size = size(declared, members.iter().map(|(_, weight)| *weight));
        match max_size > 0 && size > u64::from(max_size) {
            true => Err(format!(
                "the group has the size {size}, more than its max_size {max_size}"
            )),
            false => Ok(()),
        }
    }

    fn meter(&self, meter: ExternId, config: &MeterConfig) -> Checked {
        let id = self.catalog.extern_id(meter);
        let mut meters = self.catalog.info.meters.iter();
        let own = meters.find(|one| one.preamble.as_ref().is_some_and(|own| own.id == id));
        let name = &self.catalog.schema.externs[meter].name;
        rates(name, own.and_then(|own| own.spec.as_ref()), config)
    }
}

/// Returns the size of a group: its number of members, or the sum of their weights.
fn size(profile: &info::ActionProfile, weights: impl Iterator<Item = u32>) -> u64 {
    use info::action_profile::SelectorSizeSemantics::SumOfMembers;
    match profile.selector_size_semantics {
        Some(SumOfMembers(_)) => weights.count() as u64,
        _ => weights.map(u64::from).sum(),
    }
}

/// Checks that the rates fit the meter's type.
fn rates(name: &str, spec: Option<&info::MeterSpec>, config: &MeterConfig) -> Checked {
    let kind = spec.map_or(meter_spec::Type::TwoRateThreeColor, info::MeterSpec::r#type);
    let is_single = (config.pir, config.pburst) == (config.cir, config.cburst);
    let has_excess = config.eburst.is_some_and(|eburst| eburst > 0);
    if has_excess && kind != meter_spec::Type::SingleRateThreeColor {
        return Err(format!(
            "the meter of `{name}` has no excess burst: it is not of a single rate and three colours"
        ));
    }
    match kind == meter_spec::Type::TwoRateThreeColor || is_single {
        true => Ok(()),
        false => Err(format!(
            "the meter of `{name}` has a single rate, so that pir and pburst must equal cir and cburst"
        )),
    }
}
