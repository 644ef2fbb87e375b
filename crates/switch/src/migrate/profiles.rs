//! Migration of action profiles and selectors.

use ir::{ActionScope, ExternId, ExternKind, Program, TableId};
use table::{ActionProfile, ActionRef, EntryAction, GroupMember};

use super::tables::TableFit;
use super::{Count, Keeper, KeptProfile, declared, tell_size};
use crate::conversion::{ActionConversion, ConversionNotes};
use crate::migration::StateKind;
use crate::profiles::{Own, is_one_shot};

impl Keeper<'_> {
    /// Migrates members and groups. Unless the whole profile is kept, one-shot members are left
    /// out: they are migrated with their entries. A smaller profile keeps what fits, and a group is
    /// kept if all of its members are.
    pub(super) fn profile(
        &mut self,
        name: &str,
        before: &ActionProfile,
        from: ExternId,
        to: Option<ExternId>,
    ) {
        let mut notes = [ConversionNotes::default(), ConversionNotes::default()];
        let (mut members, mut groups) = (Count::default(), Count::default());
        let mut is_whole = true;
        for (member, action) in before.members() {
            let action = to.and_then(|to| self.member_action(to, action, &mut notes[0]));
            let is_kept = action.is_some_and(|action| {
                let profile = self.new_profile(to);
                profile.is_some_and(|profile| profile.insert_member(member, action).is_ok())
            });
            is_whole &= is_kept;
            if !is_one_shot(member.get()) {
                members.add(is_kept);
            }
        }
        for (group, parts) in before.groups() {
            let profile = self.new_profile(to);
            let is_kept =
                profile.is_some_and(|profile| profile.insert_group(group, parts.to_vec()).is_ok());
            is_whole &= is_kept;
            if !is_one_shot(group.get()) {
                groups.add(is_kept);
            }
        }
        if !is_whole {
            self.forget_one_shots(to, before);
        }
        let sizes = |id: ExternId, program: &Program| match program.externs[id].kind {
            ExternKind::ActionProfile { size } | ExternKind::ActionSelector { size, .. } => size,
            _ => 0,
        };
        let Some(to) = to else {
            let reason = "the new program has no such action profile or selector";
            self.lost(StateKind::Members, name, reason, members.held);
            return self.lost(StateKind::Groups, name, reason, groups.held);
        };
        let size = (
            sizes(from, self.old.program()),
            sizes(to, self.new.program()),
        );
        tell_size(size.0 as usize, size.1 as usize, &mut notes[0]);
        notes[1].may_lose = notes[0].may_lose;
        if notes[1].may_lose {
            notes[1].tell("groups stay that keep all their members".to_owned());
        }
        let [of_members, of_groups] = notes;
        self.line(StateKind::Members, name, of_members, members);
        self.line(StateKind::Groups, name, of_groups, groups);
        self.profiles.push(KeptProfile { from, to, is_whole });
    }

    /// Removes one-shot members and groups again.
    fn forget_one_shots(&mut self, to: Option<ExternId>, before: &ActionProfile) {
        let Some(profile) = self.new_profile(to) else {
            return;
        };
        let groups = before.groups().filter(|(id, _)| is_one_shot(id.get()));
        for (group, _) in groups {
            // A group that did not fit does not exist.
            let _ = profile.delete_group(group);
        }
        let members = before.members().filter(|(id, _)| is_one_shot(id.get()));
        for (member, _) in members {
            let _ = profile.delete_member(member);
        }
    }

    /// Converts the action of a member for the first table of the new program that uses the profile
    /// and has the action.
    fn member_action(
        &self,
        profile: ExternId,
        action: &ActionRef,
        notes: &mut ConversionNotes,
    ) -> Option<ActionRef> {
        let old = self
            .old
            .program()
            .actions
            .get(ir::ActionId::new(action.action))?;
        let program = self.new.program();
        let mut why = ConversionNotes::default();
        for (id, table) in program.tables.iter() {
            if table.implementation != Some(profile) {
                continue;
            }
            let declared = declared(self.new, id);
            match ActionConversion::of(old, declared, ActionScope::DefaultOnly, notes) {
                Ok(fit) => return fit.convert(action),
                Err(reason) => why.risk(reason),
            }
        }
        notes.may_lose = true;
        notes.reasons.extend(why.reasons);
        None
    }

    /// Converts the action of an entry for the new program, if possible. Creates its one-shot
    /// members and group.
    pub(super) fn entry_action(
        &mut self,
        old_id: TableId,
        id: TableId,
        action: &EntryAction,
        fit: &TableFit,
    ) -> Option<EntryAction> {
        let program = self.new.program().clone();
        let (table, before) = (&program.tables[id], &self.old.program().tables[old_id]);
        let is_own = match action {
            EntryAction::Direct(action) => return fit.call(action).map(EntryAction::Direct),
            EntryAction::Member(member) => is_one_shot(member.get()),
            EntryAction::Group(group) => is_one_shot(group.get()),
        };
        let (from, to) = (before.implementation?, table.implementation?);
        let kept = self
            .profiles
            .iter()
            .find(|one| (one.from, one.to) == (from, to))?;
        if is_own && !kept.is_whole {
            self.bring_own(from, to, action, fit)?;
        }
        let profile = self.new.profiles[to].as_ref()?;
        let runs = parts_of(profile, action)?;
        let mut runs = runs.iter().map(|part| profile.member(part.member));
        if runs.all(|run| run.is_some_and(|run| is_listed(table, run))) {
            return Some(action.clone());
        }
        if let Some(profile) = self.new_profile(Some(to)) {
            Own::taken_from(profile, action);
        }
        None
    }

    /// Creates the one-shot members and the group of an entry, all or none.
    fn bring_own(
        &mut self,
        from: ExternId,
        to: ExternId,
        action: &EntryAction,
        fit: &TableFit,
    ) -> Option<()> {
        let source = self.old.profiles[from].as_ref()?;
        let parts = parts_of(source, action)?;
        let converted = |part: &GroupMember| fit.call(source.member(part.member)?);
        let actions: Vec<ActionRef> = parts.iter().map(converted).collect::<Option<_>>()?;
        let target = self.new_profile(Some(to))?;
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
            // The member is in no group.
            let _ = target.delete_member(member);
        }
        None
    }

    pub(super) fn new_profile(&mut self, id: Option<ExternId>) -> Option<&mut ActionProfile> {
        self.new.profiles.get_mut(id?)?.as_mut()
    }
}

fn is_listed(table: &ir::Table, action: &ActionRef) -> bool {
    let mut listed = table.actions.iter();
    listed.any(|listed| {
        listed.action.get() == action.action && listed.scope != ActionScope::DefaultOnly
    })
}

/// Returns the members of which an entry with this action runs one. `None` if its group does not
/// exist.
fn parts_of(profile: &ActionProfile, action: &EntryAction) -> Option<Vec<GroupMember>> {
    match *action {
        EntryAction::Direct(_) => Some(Vec::new()),
        EntryAction::Member(member) => Some(vec![GroupMember { member, weight: 1 }]),
        EntryAction::Group(group) => profile.group(group).map(<[_]>::to_vec),
    }
}
