//! What stays when another program is loaded: state of the same name and shape.

use exec::{Configuration, ExternState};
use ir::{ActionId, ExternId, ExternKind, Program, TableId, limbs_of};
use packet::Nanos;
use table::{
    ActionProfile, ActionRef, Entry, EntryAction, GroupMember, NewEntry, TableError, ValueSetError,
};

use crate::profiles::{Own, is_one_shot};

/// State that a new program has no place for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// What it was.
    pub kind: StateKind,
    /// The name of the table, extern or value set that had it.
    pub name: String,
    /// How many of them.
    pub count: u64,
}

/// Kinds of state that a program may have no place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// Entries of a table that are not const.
    Entries,
    /// Entries that packets added.
    LearnedEntries,
    /// A default action that the control plane had set.
    DefaultAction,
    /// Members of an action profile or selector.
    Members,
    /// Groups of a selector.
    Groups,
    /// Members of a value set.
    ValueSetMembers,
    /// Cells of a counter, meter or register.
    Cells,
}

/// Takes over what has the same name and shape; gives what does not fit.
pub(crate) fn keep(old: &Configuration, new: &mut Configuration, now: Nanos) -> Vec<Dropped> {
    new.hash = old.hash.clone();
    new.expire_profiles = old.expire_profiles.clone();
    // Packets of both programs take from one line of numbers.
    new.next_flow_id = old.next_flow_id.clone();
    let mut keeper = Keeper {
        old,
        new,
        now,
        profiles: Vec::new(),
        dropped: Vec::new(),
    };
    keeper.externs();
    keeper.value_sets();
    keeper.tables();
    keeper.dropped
}

struct Keeper<'c> {
    old: &'c Configuration,
    new: &'c mut Configuration,
    now: Nanos,
    /// Action profiles that stay: the old program's and the new one's.
    profiles: Vec<(ExternId, ExternId)>,
    dropped: Vec<Dropped>,
}

impl Keeper<'_> {
    fn drop(&mut self, kind: StateKind, name: &str, count: usize) {
        if count > 0 {
            self.dropped.push(Dropped {
                kind,
                name: name.to_owned(),
                count: count as u64,
            });
        }
    }

    fn externs(&mut self) {
        let (before, after) = (self.old.program().clone(), self.new.program().clone());
        for (old_id, instance) in before.externs.iter() {
            let same = after.externs.iter().find(|(_, other)| {
                other.name == instance.name && same_shape(&other.kind, &instance.kind)
            });
            let id = same.map(|(id, _)| id);
            if let Some(profile) = &self.old.profiles[old_id] {
                self.profile(&instance.name, profile, id);
                self.profiles.extend(id.map(|id| (old_id, id)));
                continue;
            }
            let cells = &self.old.cells[old_id];
            match (cells, id) {
                (ExternState::None | ExternState::Profile(_), _) => {}
                (cells, Some(id)) => self.new.cells[id] = cells.clone(),
                (ExternState::Counter(cells), None) => {
                    self.drop(StateKind::Cells, &instance.name, cells.len());
                }
                (ExternState::Meter(cells), None) => {
                    self.drop(StateKind::Cells, &instance.name, cells.len());
                }
                (ExternState::Register(cells), None) => {
                    self.drop(StateKind::Cells, &instance.name, cells.size() as usize);
                }
            }
        }
    }

    /// Members and groups but for those of single entries, which come with their entries. A smaller profile keeps what fits, a group what has all its
    /// members.
    fn profile(&mut self, name: &str, before: &ActionProfile, id: Option<ExternId>) {
        let (mut members, mut groups) = (0, 0);
        for (member, action) in before.members().filter(|(id, _)| !is_one_shot(id.get())) {
            let action = self.translated(action);
            let action = action.filter(|action| self.is_listed_for(id, action));
            let kept = self.new_profile(id).zip(action);
            let kept = kept.is_some_and(|(profile, action)| {
                let done = profile.insert_member(member, action);
                done.is_ok()
            });
            members += usize::from(!kept);
        }
        for (group, parts) in before.groups().filter(|(id, _)| !is_one_shot(id.get())) {
            let kept = self
                .new_profile(id)
                .is_some_and(|profile| profile.insert_group(group, parts.to_vec()).is_ok());
            groups += usize::from(!kept);
        }
        self.drop(StateKind::Members, name, members);
        self.drop(StateKind::Groups, name, groups);
    }

    /// Whether a table of the new program that uses this profile has this action.
    fn is_listed_for(&self, profile: Option<ExternId>, action: &ActionRef) -> bool {
        let mut tables = self.new.program().tables.values();
        tables.any(|table| table.implementation == profile && is_listed(table, action))
    }

    fn new_profile(&mut self, id: Option<ExternId>) -> Option<&mut ActionProfile> {
        self.new.profiles.get_mut(id?)?.as_mut()
    }

    fn value_sets(&mut self) {
        let (before, after) = (self.old.program().clone(), self.new.program().clone());
        for (old_id, set) in before.value_sets.iter() {
            let members = self.old.value_sets[old_id].members();
            let same = after.value_sets.iter().find(|(id, other)| {
                let shape = self.new.value_sets[*id].shape();
                other.name == set.name && shape == self.old.value_sets[old_id].shape()
            });
            let Some((id, _)) = same else {
                self.drop(StateKind::ValueSetMembers, &set.name, members.len());
                continue;
            };
            // The first ones stay where there is no room for all.
            let kept = &mut self.new.value_sets[id];
            let refused = members
                .map(|member| kept.insert(member.to_vec()))
                .filter(|done| !matches!(done, Ok(()) | Err(ValueSetError::Duplicate)));
            let refused = refused.count();
            self.drop(StateKind::ValueSetMembers, &set.name, refused);
        }
    }

    fn tables(&mut self) {
        let (before, after) = (self.old.program().clone(), self.new.program().clone());
        for (old_id, table) in before.tables.iter() {
            let same = after.tables.iter().find(|(id, other)| {
                let shape = &self.new.tables[*id].spec().shape;
                other.name == table.name
                    && *shape == self.old.tables[old_id].spec().shape
                    && key_names(table).eq(key_names(other))
            });
            let old = self.old;
            let entries = old.tables[old_id].iter().filter(|entry| !entry.is_const);
            let learned = old.learned[old_id].as_ref();
            let Some((id, _)) = same else {
                self.drop(StateKind::Entries, &table.name, entries.count());
                let learned = learned.map_or(0, |learned| learned.len());
                self.drop(StateKind::LearnedEntries, &table.name, learned);
                continue;
            };
            self.default_action(old_id, id);
            let refused = entries.filter(|entry| !self.entry(old_id, id, entry));
            let refused = refused.count();
            self.drop(StateKind::Entries, &table.name, refused);
            self.learned(old_id, id);
        }
    }

    fn default_action(&mut self, old_id: TableId, id: TableId) {
        let EntryAction::Direct(default) = self.old.tables[old_id].default_action() else {
            return;
        };
        if !was_set(self.old, old_id) {
            return;
        }
        let declared = &self.new.program().tables[id];
        let kept = match declared.default_is_const {
            true => None,
            false => self
                .translated(default)
                .filter(|action| is_listed(declared, action)),
        };
        match kept {
            Some(default) => self.new.tables[id].set_default(EntryAction::Direct(default)),
            None => {
                let name = declared.name.clone();
                self.drop(StateKind::DefaultAction, &name, 1);
            }
        }
    }

    /// An entry of the control plane; whether it stays. Its counts begin anew, but for direct counters, and so do the buckets of its direct meter.
    fn entry(&mut self, old_id: TableId, id: TableId, entry: &Entry) -> bool {
        let Some(action) = self.entry_action(old_id, id, &entry.action) else {
            return false;
        };
        let copy = NewEntry {
            priority: entry.priority,
            idle_timeout_ns: entry.idle_timeout_ns,
            owner: entry.owner,
            metadata: entry.metadata.clone(),
            ..NewEntry::new(entry.matches.to_vec(), action.clone())
        };
        let inserted = match self.new.tables[id].insert(copy, self.now.0) {
            Ok(inserted) => inserted,
            Err(error) => {
                let profile = self.new.program().tables[id].implementation;
                if let Some(profile) = self.new_profile(profile) {
                    Own::taken_from(profile, &action);
                }
                // The program's own entries come first.
                return matches!(error, TableError::Duplicate(_));
            }
        };
        if let Some(counted) = self.old.tables[old_id].counter(Some(entry.id)) {
            self.new.tables[id].write_counter(Some(inserted), counted);
        }
        let inserted = self.new.tables[id].get(inserted);
        let meter = inserted.and_then(|inserted| inserted.meter.as_ref());
        if let (Some(from), Some(to)) = (&entry.meter, meter)
            && let Some(config) = from.config()
        {
            // It was accepted before.
            let _ = to.configure(config);
        }
        true
    }

    /// What an entry does, in the new program's words, if it can do that there. Members and a group of its own come with it.
    fn entry_action(
        &mut self,
        old_id: TableId,
        id: TableId,
        action: &EntryAction,
    ) -> Option<EntryAction> {
        let program = self.new.program().clone();
        let (table, before) = (&program.tables[id], &self.old.program().tables[old_id]);
        let is_own = match action {
            EntryAction::Direct(action) => {
                let was_of_profile = before.implementation.is_some();
                if table.implementation.is_some() && !was_of_profile {
                    return None;
                }
                let action = self.translated(action)?;
                return is_listed(table, &action).then_some(EntryAction::Direct(action));
            }
            EntryAction::Member(member) => is_one_shot(member.get()),
            EntryAction::Group(group) => is_one_shot(group.get()),
        };
        let pair = (before.implementation?, table.implementation?);
        if !self.profiles.contains(&pair) {
            return None;
        }
        if is_own {
            self.bring_own(pair, action)?;
        }
        let profile = self.new.profiles[pair.1].as_ref()?;
        let runs = parts_of(profile, action)?;
        let mut runs = runs.iter().map(|part| profile.member(part.member));
        if runs.all(|run| run.is_some_and(|run| is_listed(table, run))) {
            return Some(action.clone());
        }
        if let Some(profile) = self.new_profile(Some(pair.1)) {
            Own::taken_from(profile, action);
        }
        None
    }

    /// Makes the members and the group that an entry had for itself, all or none.
    fn bring_own(&mut self, pair: (ExternId, ExternId), action: &EntryAction) -> Option<()> {
        let source = self.old.profiles[pair.0].as_ref()?;
        let parts = parts_of(source, action)?;
        let translated = |part: &GroupMember| self.translated(source.member(part.member)?);
        let actions: Vec<ActionRef> = parts.iter().map(translated).collect::<Option<_>>()?;
        let target = self.new_profile(Some(pair.1))?;
        let mut made = Vec::new();
        for (part, action) in parts.iter().zip(actions) {
            if target.insert_member(part.member, action).is_ok() {
                made.push(part.member);
            }
        }
        let is_whole = made.len() == parts.len();
        let is_done = match action {
            EntryAction::Group(group) => is_whole && target.insert_group(*group, parts).is_ok(),
            _ => is_whole,
        };
        if is_done {
            return Some(());
        }
        for member in made {
            // It is in no group.
            let _ = target.delete_member(member);
        }
        None
    }

    /// Entries that packets added. Tables of one layout are one, for packets of both programs; otherwise the entries that fit are copied, and
    /// what packets of the old program add from now on stays with them.
    fn learned(&mut self, old_id: TableId, id: TableId) {
        let name = self.old.program().tables[old_id].name.clone();
        let Some(before) = &self.old.learned[old_id] else {
            return;
        };
        let Some(after) = &self.new.learned[id] else {
            return self.drop(StateKind::LearnedEntries, &name, before.len());
        };
        let is_same = before.param_limbs() == after.param_limbs()
            && before.capacity() == after.capacity()
            && same_actions(self.old.program(), old_id, self.new.program(), id);
        if is_same {
            self.new.learned[id] = Some(before.clone());
            return;
        }
        let table = &self.new.program().tables[id];
        let kept = |mut entry: table::LearnedEntry| {
            let action = self.translated(&entry.action)?;
            entry.action = Some(action).filter(|action| is_listed(table, action))?;
            after.restore(&entry).ok()
        };
        let entries = before.entries();
        let count = entries.len();
        let kept = entries.into_iter().filter_map(kept).count();
        self.drop(StateKind::LearnedEntries, &name, count - kept);
    }

    /// The same action in the new program.
    fn translated(&self, action: &ActionRef) -> Option<ActionRef> {
        let before = self
            .old
            .program()
            .actions
            .get(ActionId::new(action.action))?;
        let mut actions = self.new.program().actions.iter();
        let (id, _) = actions.find(|(_, after)| is_same_action(before, after))?;
        Some(ActionRef {
            action: id.get(),
            params: action.params.clone(),
        })
    }
}

/// Whether two instances hold the same kind of state. Names of types do not matter, and neither do first values.
fn same_shape(a: &ExternKind, b: &ExternKind) -> bool {
    match (a, b) {
        (
            ExternKind::Register {
                cell: a, size: n, ..
            },
            ExternKind::Register {
                cell: b, size: m, ..
            },
        ) => a == b && n == m,
        (
            ExternKind::Counter {
                unit: a, size: n, ..
            },
            ExternKind::Counter {
                unit: b, size: m, ..
            },
        )
        | (
            ExternKind::Meter {
                unit: a, size: n, ..
            },
            ExternKind::Meter {
                unit: b, size: m, ..
            },
        ) => a == b && n == m,
        (ExternKind::ActionProfile { .. }, ExternKind::ActionProfile { .. })
        | (ExternKind::ActionSelector { .. }, ExternKind::ActionSelector { .. }) => true,
        _ => false,
    }
}

/// Whether two actions are one for the control plane and for what is stored: same name, same parameters of the same size.
fn is_same_action(a: &ir::Action, b: &ir::Action) -> bool {
    a.control_plane_name == b.control_plane_name
        && a.params.len() == b.params.len()
        && a.params.iter().zip(&b.params).all(|(a, b)| {
            let sizes = |ty: ir::ScalarTy| (ty.width(), limbs_of(ty));
            a.name == b.name && sizes(a.ty) == sizes(b.ty)
        })
}

/// Whether two tables list the same actions by the same numbers: what learned entries refer to.
fn same_actions(old: &Program, old_id: TableId, new: &Program, id: TableId) -> bool {
    let (before, after) = (&old.tables[old_id].actions, &new.tables[id].actions);
    before.len() == after.len()
        && before.iter().zip(after).all(|(a, b)| {
            a.action == b.action && is_same_action(&old.actions[a.action], &new.actions[b.action])
        })
}

fn is_listed(table: &ir::Table, action: &ActionRef) -> bool {
    let mut listed = table.actions.iter();
    listed.any(|listed| listed.action.get() == action.action)
}

fn key_names(table: &ir::Table) -> impl Iterator<Item = &String> {
    table.keys.iter().map(|key| &key.name)
}

/// The members that an entry with this action runs one of; `None` if its group is not there.
fn parts_of(profile: &ActionProfile, action: &EntryAction) -> Option<Vec<GroupMember>> {
    match *action {
        EntryAction::Direct(_) => Some(Vec::new()),
        EntryAction::Member(member) => Some(vec![GroupMember { member, weight: 1 }]),
        EntryAction::Group(group) => profile.group(group).map(<[_]>::to_vec),
    }
}

/// Whether the control plane had set the default action.
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
