//! `polyplane ctl apply --sync`: computes the writes that make a device's state equal to an
//! entries file, and no others.
//!
//! State that the file does not contain is deleted, or reset to its initial value. The order of
//! the writes follows the references: first deleted entries, and the groups and members that
//! nothing refers to any more. Then new and changed members, groups and entries. Last the groups
//! and members that were in use until then.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use controller::{Catalog, Read};
use entries::{
    CounterValue, EntriesFile, EntryAction, EntryError, MeterConfig, Object, TableEntry, Update,
    UpdateTarget,
};
use ir::{ActionCall, ExternId, KeyMatch, TableId, ValueSetId};
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity;
use p4info::p4::v1::update::Type;

use super::dump;
use super::state::{self, Part};

/// State that the command line excludes from the comparison.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    /// Counters, direct ones too, keep their values.
    pub(super) counters: bool,
    /// Registers keep their values.
    pub(super) registers: bool,
}

/// A write, and the difference that it makes.
#[derive(Clone, Debug)]
pub(super) struct Step {
    stage: Stage,
    /// The statement of the file that requires it.
    pub(super) statement: Option<usize>,
    /// The state before the write, as a statement.
    pub(super) before: Option<String>,
    /// The state after the write, as a statement.
    pub(super) after: Option<String>,
    pub(super) update: rt::Update,
}

impl Step {
    /// Returns the number of the stage. All steps of a batch have the same stage.
    pub(super) fn stage(&self) -> u8 {
        self.stage as u8
    }

    /// Returns the difference as lines: the old state after `- `, the new state after `+ `.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let before = self.before.iter().map(|text| format!("- {text}"));
        before.chain(self.after.iter().map(|text| format!("+ {text}")))
    }
}

/// Stage of a write. Stages are executed in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    DeleteEntries,
    DeleteFreeGroups,
    DeleteFreeMembers,
    Members,
    Groups,
    Entries,
    DeleteGroups,
    DeleteMembers,
    Cells,
}

/// Objects that can be added and deleted, by the name that [`name`] gives them, with their
/// position in the input.
type Named<'u> = BTreeMap<String, (usize, &'u Update)>;

/// State that has no such name.
#[derive(Default)]
struct Settings<'u> {
    defaults: BTreeMap<TableId, (usize, &'u ActionCall)>,
    value_sets: BTreeMap<ValueSetId, (usize, &'u Update)>,
    registers: BTreeMap<(ExternId, u32), (usize, &'u [bits::Value])>,
    meters: BTreeMap<(ExternId, u32), (usize, MeterConfig)>,
    counters: BTreeMap<(ExternId, u32), (usize, CounterValue)>,
}

struct Sides<'u> {
    named: Named<'u>,
    settings: Settings<'u>,
}

impl<'u> Sides<'u> {
    fn new(catalog: &Catalog, updates: impl Iterator<Item = (usize, &'u Update)>) -> Sides<'u> {
        let mut sides = Sides {
            named: Named::new(),
            settings: Settings::default(),
        };
        for (at, update) in updates {
            if let Some(name) = name(catalog, update) {
                sides.named.insert(name, (at, update));
                continue;
            }
            let settings = &mut sides.settings;
            match update {
                Update::SetDefault(table, call) => {
                    settings.defaults.insert(*table, (at, call));
                }
                Update::ValueSet { value_set, .. } => {
                    settings.value_sets.insert(*value_set, (at, update));
                }
                Update::Register {
                    register,
                    index,
                    values,
                } => {
                    for index in cells(catalog, *register, *index) {
                        let cell = (at, values.as_slice());
                        settings.registers.insert((*register, index), cell);
                    }
                }
                Update::Meter {
                    meter,
                    index,
                    config,
                } => {
                    for index in cells(catalog, *meter, *index) {
                        settings.meters.insert((*meter, index), (at, *config));
                    }
                }
                Update::Counter {
                    counter,
                    index,
                    value,
                } => {
                    settings.counters.insert((*counter, *index), (at, *value));
                }
                _ => {}
            }
        }
        sides
    }
}

/// Returns the indices of an array's cells: one cell, or all.
fn cells(catalog: &Catalog, array: ExternId, index: Option<u32>) -> std::ops::Range<u32> {
    let size = match &catalog.schema.externs[array].kind {
        Object::Register { size, .. } | Object::Meter { size } | Object::Counter { size, .. } => {
            *size
        }
        _ => 0,
    };
    match index {
        Some(index) => index..index.saturating_add(1),
        None => 0..size,
    }
}

/// Returns a name for the object that an update adds. Equivalent forms of a match give the same
/// name.
pub(super) fn name(catalog: &Catalog, update: &Update) -> Option<String> {
    let target = match update.target()? {
        UpdateTarget::Entry {
            table,
            keys,
            priority,
        } => UpdateTarget::Entry {
            table,
            keys: keys.iter().map(canonical).collect(),
            priority,
        },
        other => other,
    };
    Some(catalog.schema.target(&target))
}

/// Returns the canonical form of a match: without the bits that the mask ignores. A match that
/// fits every value becomes `_`.
fn canonical(wanted: &KeyMatch) -> KeyMatch {
    match wanted {
        KeyMatch::Lpm(_, 0) => KeyMatch::Any,
        KeyMatch::Lpm(value, length) => {
            let mask = bits::Value::prefix_mask(*length, value.width());
            KeyMatch::Lpm(value.and(&mask), *length)
        }
        KeyMatch::Ternary(_, mask) if mask.is_zero() => KeyMatch::Any,
        KeyMatch::Ternary(value, mask) => KeyMatch::Ternary(value.and(mask), mask.clone()),
        KeyMatch::Range(low, high)
            if low.is_zero() && *high == bits::Value::all_ones(high.width()) =>
        {
            KeyMatch::Any
        }
        other => other.clone(),
    }
}

/// Computes the writes that make the state `have` equal to the file.
///
/// # Errors
/// The file has an entry twice, or P4Runtime cannot express a statement.
pub(super) fn plan(
    catalog: &Catalog,
    file: &EntriesFile<'_>,
    have: &[Read],
    kept: Kept,
) -> Result<Vec<Step>, Vec<EntryError>> {
    let twice = twice(catalog, file);
    if !twice.is_empty() {
        return Err(twice);
    }
    let wanted = Sides::new(catalog, file.updates().iter().enumerate());
    let own = have.iter().filter(|read| !read.is_const);
    let own: Vec<&Update> = own.map(|read| &read.update).collect();
    let found = Sides::new(catalog, own.iter().copied().enumerate());
    let mut plan = Plan {
        catalog,
        kept,
        steps: Vec::new(),
        errors: Vec::new(),
        file,
    };
    plan.named(&wanted.named, &found.named);
    plan.defaults(&wanted.settings, &found.settings);
    plan.value_sets(&wanted.settings, &found.settings);
    plan.cells(&wanted.settings, &found.settings);
    let Plan {
        mut steps, errors, ..
    } = plan;
    if !errors.is_empty() {
        return Err(errors);
    }
    // Within a stage, deletions and changes come first: they free space for insertions.
    steps.sort_by_key(|step| (step.stage, step.update.r#type() == Type::Insert));
    Ok(steps)
}

fn twice(catalog: &Catalog, file: &EntriesFile<'_>) -> Vec<EntryError> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut errors = Vec::new();
    for (at, update) in file.updates().iter().enumerate() {
        let Some(name) = name(catalog, update).filter(|_| matches!(update, Update::Insert(..)))
        else {
            continue;
        };
        match seen.get(&name) {
            Some(&first) => {
                let line = file.line(first);
                let message = format!("the entry stands in line {line}, too; leave one of them");
                errors.push(file.error(at, message));
            }
            None => {
                seen.insert(name, at);
            }
        }
    }
    errors
}

struct Plan<'p, 'f> {
    catalog: &'p Catalog,
    kept: Kept,
    steps: Vec<Step>,
    errors: Vec<EntryError>,
    file: &'p EntriesFile<'f>,
}

impl Plan<'_, '_> {
    fn push(
        &mut self,
        stage: Stage,
        statement: Option<usize>,
        (before, after): (Option<&Update>, Option<&Update>),
    ) {
        let schema = &self.catalog.schema;
        let (kind, entity) = match (before, after) {
            (before, Some(after)) => {
                let kind = match before {
                    None if after.target().is_some() => Type::Insert,
                    _ => Type::Modify,
                };
                (kind, self.catalog.entity(after))
            }
            (Some(before), None) => match before.target() {
                Some(target) => (Type::Delete, Ok(self.catalog.target(&target))),
                None => return,
            },
            (None, None) => return,
        };
        match entity {
            Ok(entity) => self.steps.push(Step {
                stage,
                statement,
                before: before.map(|update| schema.statement(update)),
                after: after.map(|update| schema.statement(update)),
                update: write(kind, entity),
            }),
            Err(error) => {
                let at = statement.unwrap_or_default();
                self.errors.push(self.file.error(at, error.to_string()));
            }
        }
    }

    /// Adds a step that resets an object to its initial value.
    fn reset(&mut self, stage: Stage, before: String, after: Option<String>, entity: Entity) {
        self.steps.push(Step {
            stage,
            statement: None,
            before: Some(before),
            after,
            update: write(Type::Modify, entity),
        });
    }

    fn named(&mut self, wanted: &Named<'_>, found: &Named<'_>) {
        let remade = self.remade(wanted, found);
        let remains = |name: &String, update: &Update| {
            wanted.contains_key(name) && !self.is_remade(&remade, update)
        };
        let used = self.used(found, &remains);
        let mut steps = Vec::new();
        for (name, (_, before)) in found {
            if remains(name, before) {
                continue;
            }
            let stage = match before {
                Update::Group { profile, id, .. } if used.groups.contains(&(*profile, *id)) => {
                    Stage::DeleteGroups
                }
                Update::Group { .. } => Stage::DeleteFreeGroups,
                Update::Member { profile, id, .. } if used.members.contains(&(*profile, *id)) => {
                    Stage::DeleteMembers
                }
                Update::Member { .. } => Stage::DeleteFreeMembers,
                _ => Stage::DeleteEntries,
            };
            steps.push((stage, None, Some(*before), None));
        }
        let mut came: Vec<_> = wanted.iter().collect();
        came.sort_by_key(|(_, (at, _))| *at);
        for (name, (at, after)) in came {
            let before = found.get(name).map(|(_, before)| *before);
            let before = before.filter(|before| !self.is_remade(&remade, before));
            if before.is_some_and(|before| self.is_same(before, after)) {
                continue;
            }
            let stage = match after {
                Update::Member { .. } => Stage::Members,
                Update::Group { .. } => Stage::Groups,
                _ => Stage::Entries,
            };
            steps.push((stage, Some(*at), before, Some(*after)));
        }
        for (stage, at, before, after) in steps {
            let filled = match (before, after) {
                (before, Some(Update::Insert(table, entry))) => {
                    let entry = self.with_counter(before, entry);
                    Some(Update::Insert(*table, entry))
                }
                (_, after) => after.cloned(),
            };
            self.push(stage, at, (before, filled.as_ref()));
        }
    }

    /// Returns the groups that must be deleted and created again, because the `max_size` of a
    /// group cannot change.
    fn remade(&self, wanted: &Named<'_>, found: &Named<'_>) -> HashSet<(ExternId, u32)> {
        let changed = found.iter().filter_map(|(name, (_, before))| {
            let (_, after) = wanted.get(name)?;
            match (before, after) {
                (
                    Update::Group {
                        profile,
                        id,
                        max_size,
                        ..
                    },
                    Update::Group { max_size: most, .. },
                ) if max_size != most => Some((*profile, *id)),
                _ => None,
            }
        });
        changed.collect()
    }

    /// Returns true if an object is deleted and created again: such a group, or an entry that
    /// refers to one.
    fn is_remade(&self, groups: &HashSet<(ExternId, u32)>, update: &Update) -> bool {
        match update {
            Update::Group { profile, id, .. } => groups.contains(&(*profile, *id)),
            Update::Insert(table, entry) => match (self.profile(*table), &entry.action) {
                (Some(profile), EntryAction::Group(id)) => groups.contains(&(profile, *id)),
                _ => false,
            },
            _ => false,
        }
    }

    fn profile(&self, table: TableId) -> Option<ExternId> {
        self.catalog.schema.tables[table].implementation
    }

    /// Returns the groups and members that are still in use during the first deletions: objects
    /// for which `remains` is true refer to them.
    fn used(&self, found: &Named<'_>, remains: &dyn Fn(&String, &Update) -> bool) -> Used {
        let mut used = Used::default();
        let here = || found.iter().filter(|(name, (_, one))| remains(name, one));
        for (_, (_, update)) in here() {
            if let Update::Insert(table, entry) = update
                && let Some(profile) = self.profile(*table)
            {
                match entry.action {
                    EntryAction::Group(id) => drop(used.groups.insert((profile, id))),
                    EntryAction::Member(id) => drop(used.members.insert((profile, id))),
                    _ => {}
                }
            }
        }
        for (name, (_, update)) in found {
            if let Update::Group {
                profile,
                id,
                members,
                ..
            } = update
                && (remains(name, update) || used.groups.contains(&(*profile, *id)))
            {
                let members = members.iter().map(|one| (*profile, one.member));
                used.members.extend(members);
            }
        }
        used
    }

    fn is_same(&self, before: &Update, after: &Update) -> bool {
        match (before, after) {
            (Update::Insert(_, before), Update::Insert(_, after)) => {
                let counts = |entry: &TableEntry| entry.counter.unwrap_or_default();
                before.action == after.action
                    && before.idle_timeout_ns == after.idle_timeout_ns
                    && before.meter == after.meter
                    && (self.kept.counters || counts(before) == counts(after))
            }
            (
                Update::Group {
                    members, max_size, ..
                },
                Update::Group {
                    members: wanted,
                    max_size: most,
                    ..
                },
            ) => max_size == most && sorted(members) == sorted(wanted),
            (
                Update::Multicast { replicas, .. },
                Update::Multicast {
                    replicas: wanted, ..
                },
            ) => sorted(replicas) == sorted(wanted),
            (Update::Clone(before), Update::Clone(after)) => {
                sorted(&before.replicas) == sorted(&after.replicas)
                    && before.truncate == after.truncate
                    && before.class_of_service == after.class_of_service
            }
            _ => before == after,
        }
    }

    /// Returns the entry as it is written. Without counter values in the file, a counter is reset
    /// to zero, unless counters are kept.
    fn with_counter(&self, before: Option<&Update>, entry: &TableEntry) -> TableEntry {
        let was = match before {
            Some(Update::Insert(_, before)) => before.counter,
            _ => None,
        };
        let counter = match self.kept.counters {
            true => None,
            false => entry.counter.or(was.map(|_| CounterValue::default())),
        };
        TableEntry {
            counter,
            ..entry.clone()
        }
    }

    fn defaults(&mut self, wanted: &Settings<'_>, found: &Settings<'_>) {
        let catalog = self.catalog;
        let tables: BTreeSet<TableId> = wanted
            .defaults
            .keys()
            .chain(found.defaults.keys())
            .copied()
            .collect();
        for table in tables {
            let set = |(_, call): &(usize, &ActionCall)| Update::SetDefault(table, (*call).clone());
            let before = found.defaults.get(&table).map(set);
            match wanted.defaults.get(&table) {
                Some(asked) => {
                    let after = set(asked);
                    if before.as_ref() != Some(&after) {
                        let change = (before.as_ref(), Some(&after));
                        self.push(Stage::Entries, Some(asked.0), change);
                    }
                }
                None => {
                    let Some(before) = before.filter(|one| !dump::is_const_default(catalog, one))
                    else {
                        continue;
                    };
                    let initial = catalog.initial_default(table);
                    let initial = initial.map(|call| Update::SetDefault(table, call));
                    if initial.as_ref() != Some(&before) {
                        let text = catalog.schema.statement(&before);
                        let after = initial.map(|one| catalog.schema.statement(&one));
                        let entity = catalog.target(&UpdateTarget::Default(table));
                        self.reset(Stage::Entries, text, after, entity);
                    }
                }
            }
        }
    }

    fn value_sets(&mut self, wanted: &Settings<'_>, found: &Settings<'_>) {
        for set in self.catalog.schema.value_sets.ids() {
            let none = Update::ValueSet {
                value_set: set,
                members: Vec::new(),
            };
            let of = |side: &Settings<'_>| {
                side.value_sets
                    .get(&set)
                    .map(|(at, one)| (*at, (*one).clone()))
            };
            let before = of(found).map_or_else(|| none.clone(), |(_, one)| one);
            let (at, after) = match of(wanted) {
                Some((at, after)) => (Some(at), after),
                None => (None, none),
            };
            let members = |one: &Update| match one {
                Update::ValueSet { members, .. } => sorted(members),
                _ => Vec::new(),
            };
            if members(&before) != members(&after) {
                self.push(Stage::Cells, at, (Some(&before), Some(&after)));
            }
        }
    }

    fn cells(&mut self, wanted: &Settings<'_>, found: &Settings<'_>) {
        let catalog = self.catalog;
        if !self.kept.registers {
            for (&(register, index), &(at, values)) in &wanted.registers {
                let cell = |values: &[bits::Value]| Update::Register {
                    register,
                    index: Some(index),
                    values: values.to_vec(),
                };
                let before = found.registers.get(&(register, index));
                if before.is_none_or(|(_, before)| *before != values) {
                    let before = before.map(|(_, before)| cell(before));
                    self.push(
                        Stage::Cells,
                        Some(at),
                        (before.as_ref(), Some(&cell(values))),
                    );
                }
            }
        }
        for (&(meter, index), &(at, config)) in &wanted.meters {
            let cell = |config| Update::Meter {
                meter,
                index: Some(index),
                config,
            };
            let before = found.meters.get(&(meter, index)).map(|(_, one)| *one);
            if before != Some(config) {
                let before = before.map(cell);
                self.push(
                    Stage::Cells,
                    Some(at),
                    (before.as_ref(), Some(&cell(config))),
                );
            }
        }
        for (&(meter, index), &(_, config)) in &found.meters {
            if !wanted.meters.contains_key(&(meter, index)) {
                let before = Update::Meter {
                    meter,
                    index: Some(index),
                    config,
                };
                let before = catalog.schema.statement(&before);
                let entity = Part::Cells(meter, Some(index)).request(catalog);
                self.reset(Stage::Cells, before, None, entity);
            }
        }
        if !self.kept.counters {
            let both = wanted.counters.keys().chain(found.counters.keys());
            for &(counter, index) in both.collect::<BTreeSet<_>>() {
                let cell = |value| Update::Counter {
                    counter,
                    index,
                    value,
                };
                let of = |side: &Settings<'_>| side.counters.get(&(counter, index)).copied();
                let before = of(found).map_or_else(CounterValue::default, |(_, value)| value);
                let after = of(wanted).map_or_else(CounterValue::default, |(_, value)| value);
                if before != after {
                    let at = of(wanted).map(|(at, _)| at);
                    self.push(Stage::Cells, at, (Some(&cell(before)), Some(&cell(after))));
                }
            }
        }
    }
}

/// Groups and members, by profile and id.
#[derive(Default)]
struct Used {
    groups: HashSet<(ExternId, u32)>,
    members: HashSet<(ExternId, u32)>,
}

/// Returns the elements of an unordered list in a canonical order.
fn sorted<T: std::fmt::Debug>(all: &[T]) -> Vec<String> {
    let mut texts: Vec<String> = all.iter().map(|one| format!("{one:?}")).collect();
    texts.sort_unstable();
    texts
}

fn write(kind: Type, entity: Entity) -> rt::Update {
    rt::Update {
        r#type: kind.into(),
        entity: Some(rt::Entity {
            entity: Some(entity),
        }),
    }
}

/// Returns the parts of the state that are read for the comparison.
pub(super) fn parts(catalog: &Catalog, kept: Kept) -> Vec<state::Part> {
    dump::parts(catalog, !kept.counters, !kept.registers)
}
