//! Members and groups of action profiles and selectors, including those created for one-shot
//! entries.

use bits::Value;
use exec::action_params;
use ir::{ActionCall, ActionId, ActionScope, ExternId, TableId};
use table::{ActionProfile, ActionRef, EntryAction, GroupId, GroupMember, MemberId, ProfileError};

use crate::control::{Action, ControlCode, ControlError, refused};
use crate::device::Device;

/// First number of the members and groups that the device creates for one-shot entries.
const OWN_IDS: u32 = 1 << 31;

/// Returns true if the member or group with this number was created for a single entry.
pub fn is_one_shot(number: u32) -> bool {
    number >= OWN_IDS
}

type Checked<T = ()> = Result<T, ControlError>;

/// Members and group of a single entry, removed from its table's profile.
#[derive(Default)]
pub(crate) struct Own {
    group: Option<GroupId>,
    members: Vec<(GroupMember, ActionRef)>,
}

impl Device {
    /// Converts the action of an entry to `table`'s form. Creates the members and the group of a
    /// one-shot action.
    pub(crate) fn entry_action(&mut self, id: TableId, action: &Action) -> Checked<EntryAction> {
        let table = self.table_of(id)?;
        let (name, profile) = (table.name.clone(), table.implementation);
        match (action, profile) {
            (Action::Call(call), None) => {
                let call = self.table_call(id, call, ActionScope::DefaultOnly)?;
                Ok(EntryAction::Direct(call))
            }
            (Action::Call(call), Some(profile)) => self.one_shot(id, profile, &[(call.clone(), 1)]),
            (_, None) => {
                let message = format!("the table `{name}` has no action profile or selector");
                refused(ControlCode::InvalidArgument, message)
            }
            (Action::Member(member), Some(profile)) => {
                let member = MemberId::new(*member);
                match self.profile(profile)?.member(member) {
                    Some(_) => Ok(EntryAction::Member(member)),
                    None => missing("member", member.get()),
                }
            }
            (Action::Group(group), Some(profile)) => {
                let group = GroupId::new(*group);
                match self.profile(profile)?.group(group) {
                    Some(_) => Ok(EntryAction::Group(group)),
                    None => missing("group", group.get()),
                }
            }
            (Action::OneShot(calls), Some(profile)) => self.one_shot(id, profile, calls),
        }
    }

    /// Creates members and a group for a single entry.
    fn one_shot(
        &mut self,
        table: TableId,
        profile: ExternId,
        calls: &[(ActionCall, u32)],
    ) -> Checked<EntryAction> {
        let actions = calls
            .iter()
            .map(|(call, weight)| {
                let action = self.table_call(table, call, ActionScope::DefaultOnly)?;
                Ok((action, *weight))
            })
            .collect::<Checked<Vec<_>>>()?;
        let mut members = Vec::new();
        let made = self.make_one_shot(profile, actions, &mut members);
        if made.is_err() {
            self.forget_members(profile, &members);
        }
        made
    }

    fn make_one_shot(
        &mut self,
        profile: ExternId,
        actions: Vec<(ActionRef, u32)>,
        members: &mut Vec<GroupMember>,
    ) -> Checked<EntryAction> {
        for (action, weight) in actions {
            let member = MemberId::new(self.own_id(profile)?);
            on_profile(self.profile(profile)?.insert_member(member, action))?;
            members.push(GroupMember { member, weight });
        }
        if let [only] = members[..] {
            return Ok(EntryAction::Member(only.member));
        }
        let group = GroupId::new(self.own_id(profile)?);
        on_profile(self.profile(profile)?.insert_group(group, members.clone()))?;
        Ok(EntryAction::Group(group))
    }

    /// Returns a number in the device's own range that is unused in the profile. The numbers wrap
    /// around after 2^31 one-shot entries.
    fn own_id(&mut self, profile: ExternId) -> Checked<u32> {
        loop {
            let id = OWN_IDS + self.next_own_id;
            self.next_own_id = (self.next_own_id + 1) % OWN_IDS;
            let profile = self.profile(profile)?;
            let is_member = profile.member(MemberId::new(id)).is_some();
            if !is_member && profile.group(GroupId::new(id)).is_none() {
                return Ok(id);
            }
        }
    }

    fn forget_members(&mut self, profile: ExternId, members: &[GroupMember]) {
        if let Ok(profile) = self.profile(profile) {
            for member in members {
                // Members that were not created cannot be deleted, which is no error here.
                let _ = profile.delete_member(member.member);
            }
        }
    }

    /// Removes the members and the group that belong to an entry alone, after its action has
    /// changed.
    pub(crate) fn release(&mut self, table: TableId, action: &EntryAction) {
        self.take_own(table, action);
    }

    /// Removes the members and the group that belong to an entry with this action alone, and
    /// returns them.
    pub(crate) fn take_own(&mut self, table: TableId, action: &EntryAction) -> Own {
        let implementation = self.table_of(table).map(|table| table.implementation);
        match implementation {
            Ok(Some(profile)) => self.profile(profile).map_or_else(
                |_| Own::default(),
                |profile| Own::taken_from(profile, action),
            ),
            _ => Own::default(),
        }
    }

    /// Undoes [`Device::take_own`]. Nothing else may have been added to the profile meanwhile.
    pub(crate) fn put_back(&mut self, table: TableId, own: Own) {
        let implementation = self.table_of(table).map(|table| table.implementation);
        if let Ok(Some(profile)) = implementation
            && let Ok(profile) = self.profile(profile)
        {
            own.put_into(profile);
        }
    }

    fn profile(&mut self, id: ExternId) -> Checked<&mut ActionProfile> {
        let profile = self.configuration.profiles.get_mut(id);
        match profile.and_then(Option::as_mut) {
            Some(profile) => Ok(profile),
            None => refused(ControlCode::NotFound, "there is no such action profile"),
        }
    }

    fn member_action(
        &self,
        profile: ExternId,
        action: ActionId,
        args: &[Value],
    ) -> Checked<ActionRef> {
        let Some(found) = self.program().actions.get(action) else {
            return refused(ControlCode::NotFound, "there is no such action");
        };
        let name = &found.control_plane_name;
        let Some(params) = action_params(found, args) else {
            let message = format!("the action `{name}` takes other parameters");
            return refused(ControlCode::InvalidArgument, message);
        };
        let lists_it = |table: &ir::Table| {
            table.implementation == Some(profile)
                && table.actions.iter().any(|listed| listed.action == action)
        };
        if self.program().tables.values().any(lists_it) {
            return Ok(ActionRef {
                action: action.get(),
                params,
            });
        }
        let message = format!("no table that uses this profile has the action `{name}`");
        refused(ControlCode::InvalidArgument, message)
    }

    /// Adds or replaces a member.
    pub(crate) fn set_member(
        &mut self,
        profile: ExternId,
        id: u32,
        action: ActionId,
        args: &[Value],
    ) -> Checked {
        not_own(id)?;
        let action = self.member_action(profile, action, args)?;
        let id = MemberId::new(id);
        let profile = self.profile(profile)?;
        on_profile(match profile.member(id) {
            Some(_) => profile.modify_member(id, action),
            None => profile.insert_member(id, action),
        })
    }

    /// Deletes a member that no entry and no group uses.
    pub(crate) fn delete_member(&mut self, profile: ExternId, id: u32) -> Checked {
        not_own(id)?;
        let member = MemberId::new(id);
        if self.is_used(profile, |table| table.uses_of_member(member)) {
            let message = format!("an entry uses the member {id}");
            return refused(ControlCode::FailedPrecondition, message);
        }
        on_profile(self.profile(profile)?.delete_member(member))
    }

    /// Returns true if an entry of a table with this profile satisfies `uses`.
    fn is_used(&self, profile: ExternId, uses: impl Fn(&table::Table) -> usize) -> bool {
        let tables = self.program().tables.iter();
        tables
            .filter(|(_, table)| table.implementation == Some(profile))
            .any(|(id, _)| uses(&self.configuration.tables[id]) > 0)
    }

    /// Adds or replaces a group: members and weights.
    pub(crate) fn set_group(
        &mut self,
        profile: ExternId,
        id: u32,
        members: &[(u32, u32)],
    ) -> Checked {
        not_own(id)?;
        let id = GroupId::new(id);
        let member = |&(member, weight): &(u32, u32)| GroupMember {
            member: MemberId::new(member),
            weight,
        };
        let members: Vec<GroupMember> = members.iter().map(member).collect();
        let profile = self.profile(profile)?;
        on_profile(match profile.group(id) {
            Some(_) => profile.modify_group(id, members),
            None => profile.insert_group(id, members),
        })
    }

    /// Deletes a group that no entry uses.
    pub(crate) fn delete_group(&mut self, profile: ExternId, id: u32) -> Checked {
        not_own(id)?;
        let group = GroupId::new(id);
        if self.is_used(profile, |table| table.uses_of_group(group)) {
            let message = format!("an entry uses the group {id}");
            return refused(ControlCode::FailedPrecondition, message);
        }
        on_profile(self.profile(profile)?.delete_group(group))
    }
}

impl Own {
    pub(crate) fn taken_from(profile: &mut ActionProfile, action: &EntryAction) -> Own {
        let (group, members) = match *action {
            EntryAction::Member(member) if is_one_shot(member.get()) => {
                (None, vec![GroupMember { member, weight: 1 }])
            }
            EntryAction::Group(group) if is_one_shot(group.get()) => {
                let members = profile.group(group).map(<[_]>::to_vec);
                // The group was created with the entry, so it exists.
                let _ = profile.delete_group(group);
                (Some(group), members.unwrap_or_default())
            }
            _ => return Own::default(),
        };
        let take = |part: GroupMember| {
            let action = profile.member(part.member)?.clone();
            profile.delete_member(part.member).ok()?;
            Some((part, action))
        };
        let members = members.into_iter().filter_map(take).collect();
        Own { group, members }
    }

    /// Inserts the members and the group again. They fit, because they were there before.
    fn put_into(self, profile: &mut ActionProfile) {
        let mut parts = Vec::new();
        for (part, action) in self.members {
            if profile.insert_member(part.member, action).is_ok() {
                parts.push(part);
            }
        }
        if let Some(group) = self.group {
            let _ = profile.insert_group(group, parts);
        }
    }
}

fn missing<T>(what: &str, id: u32) -> Checked<T> {
    let message = format!("there is no {what} {id}; add it first");
    refused(ControlCode::NotFound, message)
}

fn not_own(id: u32) -> Checked {
    if id < OWN_IDS {
        return Ok(());
    }
    let message =
        format!("numbers from {OWN_IDS} on are kept for entries with actions of their own");
    refused(ControlCode::InvalidArgument, message)
}

fn on_profile(done: Result<(), ProfileError>) -> Checked {
    use ProfileError::{
        DuplicateGroup, DuplicateMember, Full, GroupTooLarge, MemberInGroup, NoSuchGroup,
        NoSuchMember,
    };
    done.or_else(|error| {
        let code = match &error {
            DuplicateGroup(_) | DuplicateMember(_) => ControlCode::AlreadyExists,
            NoSuchGroup(_) | NoSuchMember(_) => ControlCode::NotFound,
            Full { .. } | GroupTooLarge { .. } => ControlCode::ResourceExhausted,
            MemberInGroup { .. } => ControlCode::FailedPrecondition,
            _ => ControlCode::InvalidArgument,
        };
        refused(code, error.to_string())
    })
}
