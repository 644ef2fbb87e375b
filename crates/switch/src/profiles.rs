//! Members and groups of action profiles and selectors, those that entries make for themselves among them.

use bits::Value;
use exec::action_params;
use ir::{ActionCall, ActionId, ActionScope, ExternId, TableId};
use table::{ActionProfile, ActionRef, EntryAction, GroupId, GroupMember, MemberId, ProfileError};

use crate::control::{Action, ControlCode, ControlError, refused};
use crate::device::Device;

/// Members and groups with numbers from here on are the device's own, made for one-shot entries.
const OWN_IDS: u32 = 1 << 31;

/// Whether a member or group of this number is of one entry only, made for it.
pub fn is_one_shot(number: u32) -> bool {
    number >= OWN_IDS
}

type Checked<T = ()> = Result<T, ControlError>;

impl Device {
    /// What an entry of a table does, in `table`'s words; a one-shot group is made here.
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

    /// Members and a group that belong to one entry.
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
            let member = MemberId::new(self.own_id());
            on_profile(self.profile(profile)?.insert_member(member, action))?;
            members.push(GroupMember { member, weight });
        }
        if let [only] = members[..] {
            return Ok(EntryAction::Member(only.member));
        }
        let group = GroupId::new(self.own_id());
        on_profile(self.profile(profile)?.insert_group(group, members.clone()))?;
        Ok(EntryAction::Group(group))
    }

    fn own_id(&mut self) -> u32 {
        let id = OWN_IDS + self.next_own_id;
        self.next_own_id = (self.next_own_id + 1) % OWN_IDS;
        id
    }

    fn forget_members(&mut self, profile: ExternId, members: &[GroupMember]) {
        if let Ok(profile) = self.profile(profile) {
            for member in members {
                // One that was not made is not there to be deleted.
                let _ = profile.delete_member(member.member);
            }
        }
    }

    /// An entry no longer does this: members and a group of its own go with it.
    pub(crate) fn release(&mut self, table: TableId, action: &EntryAction) {
        let implementation = self.table_of(table).map(|table| table.implementation);
        let Ok(Some(profile)) = implementation else {
            return;
        };
        match *action {
            EntryAction::Member(member) if member.get() >= OWN_IDS => {
                self.forget_members(profile, &[GroupMember { member, weight: 1 }]);
            }
            EntryAction::Group(group) if group.get() >= OWN_IDS => {
                let Ok(owner) = self.profile(profile) else {
                    return;
                };
                let members = owner.group(group).map(<[_]>::to_vec).unwrap_or_default();
                // It was made with the entry, so it is there.
                let _ = owner.delete_group(group);
                self.forget_members(profile, &members);
            }
            _ => {}
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

    /// Deletes a member that no entry and no group has.
    pub(crate) fn delete_member(&mut self, profile: ExternId, id: u32) -> Checked {
        not_own(id)?;
        let member = MemberId::new(id);
        if self.is_used(profile, |table| table.uses_of_member(member)) {
            let message = format!("an entry uses the member {id}");
            return refused(ControlCode::FailedPrecondition, message);
        }
        on_profile(self.profile(profile)?.delete_member(member))
    }

    /// Whether an entry of a table with this profile uses something.
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

    /// Deletes a group that no entry has.
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
