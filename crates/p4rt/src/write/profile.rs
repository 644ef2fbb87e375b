//! Members and groups of action profiles, and one-shot action sets (sections "`ActionProfileMember`
//! & `ActionProfileGroup`", "One Shot Action Selector Programming").

#![expect(
    deprecated,
    reason = "P4Runtime still has the fields, and clients still use them"
)]

use std::collections::BTreeSet;
use std::sync::Arc;

use bits::Value;
use ir::{ActionCall, ActionScope, ExternId, Program, TableId};
use p4info::p4::v1 as rt;
use p4info::p4::v1::action_profile_action::WatchKind as ShotWatch;
use p4info::p4::v1::action_profile_action_set::{ActionSelectionMode, SizeSemantics};
use p4info::p4::v1::action_profile_group::Member;
use p4info::p4::v1::action_profile_group::member::WatchKind;
use p4info::p4::v1::update::Type;
use packet::{Nanos, PortId};
use switch::{Action, Change, Device, EntryId, is_one_shot};
use table::{GroupId, MemberId};
use tonic::Code;

use super::check_role;
use super::entry::{GivenAction, arguments, table_call};
use super::replication::read_port;
use crate::controller_state::{Group, Kept, Shot};
use crate::request_error::{Checked, invalid, refuse};
use crate::schema::{ProfileView, Schema, TableView};
use crate::undo::{Op, Target};

/// Returns the watch port, if there is one.
fn watched(watch: Option<&WatchKind>) -> Checked<Option<PortId>> {
    match watch {
        Some(WatchKind::WatchPort(port)) if !port.is_empty() => read_port(port).map(Some),
        Some(WatchKind::Watch(port)) if *port > 0 => Ok(Some(PortId(*port as u32))),
        _ => Ok(None),
    }
}

/// Checks that a watch port exists.
fn check_watched(schema: &Schema, port: Option<PortId>) -> Checked {
    match (port, &schema.ports) {
        (Some(port), Some(ports)) if !ports.contains(port) => {
            invalid(format!("the device has no port {}", port.0))
        }
        _ => Ok(()),
    }
}

/// Returns the members of a group with live watch ports, with their weights, in the device's form.
pub(crate) fn live_members(members: &[Member], down: &BTreeSet<PortId>) -> Vec<(u32, u32)> {
    let is_up = |member: &&Member| match watched(member.watch_kind.as_ref()) {
        Ok(Some(port)) => !down.contains(&port),
        _ => true,
    };
    let live = members.iter().filter(is_up);
    live.map(|member| (member.member_id, member.weight.max(1) as u32))
        .collect()
}

/// Checks weights against the profile's P4Info, and their sum or number against the maximum group
/// size.
fn check_weights(
    profile: &ProfileView,
    place: &str,
    weights: impl Iterator<Item = i32> + Clone,
) -> Checked<i64> {
    for weight in weights.clone() {
        let is_fine = match profile.weights_disallowed {
            true => weight == 0,
            false => weight >= 1,
        };
        if !is_fine {
            let rule = match profile.weights_disallowed {
                true => "must be 0: the profile disallows weights",
                false => "must be at least 1",
            };
            return invalid(format!("{place}: the weight {weight} {rule}"));
        }
        if let Some(most @ 1..) = profile.counts_members
            && weight > most
        {
            return invalid(format!("{place}: the weight {weight} is above {most}"));
        }
    }
    Ok(match profile.counts_members {
        Some(_) => weights.count() as i64,
        None => weights.map(|weight| i64::from(weight.max(1))).sum(),
    })
}

/// Converts an update of a member.
pub(super) fn member(
    schema: &Arc<Schema>,
    role: &str,
    ty: Type,
    member: &rt::ActionProfileMember,
) -> Checked<Op> {
    let view = schema.profile_by(member.action_profile_id)?;
    check_role("action profile", &view.name, view.role.as_deref(), role)?;
    let (profile, id) = (view.profile, member.member_id);
    let place = format!("the member {id} of the action profile `{}`", view.name);
    if id == 0 {
        return invalid(format!("{place}: a member's id is at least 1"));
    }
    if ty == Type::Delete {
        return Ok(Box::new(move |target| {
            let back = target.member_back(profile, id);
            target.change_back(Change::DeleteMember(profile, id), back)
        }));
    }
    let Some(action) = &member.action else {
        return invalid(format!("{place} needs an action"));
    };
    let listed = view.actions.iter().find(|(id, _)| *id == action.action_id);
    let Some((action_id, declared)) = listed.copied() else {
        return invalid(format!(
            "{place}: no table of the profile has an action with the id {}",
            action.action_id
        ));
    };
    let args = arguments(schema, &place, &schema.actions[&action_id], action)?;
    Ok(Box::new(move |target| {
        let is_there = has_member(target, profile, id);
        check_presence(&place, ty, is_there)?;
        check_no_shots(target, profile)?;
        let back = target.member_back(profile, id);
        let set = Change::SetMember {
            profile,
            id,
            action: declared,
            args,
        };
        target.change_back(set, back)
    }))
}

fn has_member(target: &Target<'_>, profile: ExternId, id: u32) -> bool {
    let configured = target.device.configuration().profiles[profile].as_ref();
    configured.is_some_and(|configured| configured.member(MemberId::new(id)).is_some())
}

/// Checks that an INSERT names a new object, and a MODIFY or DELETE an existing one.
pub(super) fn check_presence(place: &str, ty: Type, is_there: bool) -> Checked {
    match (ty, is_there) {
        (Type::Insert, true) => refuse(Code::AlreadyExists, format!("{place} exists")),
        (Type::Modify | Type::Delete, false) => {
            refuse(Code::NotFound, format!("{place} does not exist"))
        }
        _ => Ok(()),
    }
}

/// Converts an update of a group.
pub(super) fn group(
    schema: &Arc<Schema>,
    role: &str,
    ty: Type,
    group: &rt::ActionProfileGroup,
) -> Checked<Op> {
    let view = schema.profile_by(group.action_profile_id)?;
    check_role("action profile", &view.name, view.role.as_deref(), role)?;
    let (profile, id) = (view.profile, group.group_id);
    let place = format!("the group {id} of the action profile `{}`", view.name);
    if !view.with_selector {
        return invalid(format!(
            "{place}: the profile has no selector, and so no groups"
        ));
    }
    if id == 0 {
        return invalid(format!("{place}: a group's id is at least 1"));
    }
    if ty == Type::Delete {
        return Ok(Box::new(move |target| {
            let back = target.group_back(profile, id);
            target.change_back(Change::DeleteGroup(profile, id), back)?;
            target.extras.groups.remove(&(profile, id));
            Ok(())
        }));
    }
    check_group(schema, view, &place, group)?;
    let written = Group {
        members: group.members.clone(),
        max_size: group.max_size,
    };
    Ok(Box::new(move |target| {
        set_group(target, profile, id, &place, ty, written)
    }))
}

/// Checks a group as far as possible without the device (sections "Group Programming", "Rules on
/// Setting `max_size`").
fn check_group(
    schema: &Schema,
    view: &ProfileView,
    place: &str,
    group: &rt::ActionProfileGroup,
) -> Checked {
    let size = check_weights(
        view,
        place,
        group.members.iter().map(|member| member.weight),
    )?;
    for (at, member) in group.members.iter().enumerate() {
        let port = watched(member.watch_kind.as_ref());
        port.and_then(|port| check_watched(schema, port))
            .map_err(|fault| {
                fault.within(&format!(
                    "{place}: the watch port of the member {}",
                    member.member_id
                ))
            })?;
        if group.members[..at]
            .iter()
            .any(|other| other.member_id == member.member_id)
        {
            return invalid(format!(
                "{place} names the member {} twice; give it a weight instead",
                member.member_id
            ));
        }
    }
    let (most, max_size) = (view.max_group_size, group.max_size);
    if max_size < 0 || most > 0 && !(1..=most).contains(&max_size) {
        return invalid(match most {
            1.. => format!("{place}: max_size is {max_size}, but must be within 1 to {most}"),
            _ => format!("{place}: max_size is negative: {max_size}"),
        });
    }
    if max_size > 0 && size > i64::from(max_size) {
        return refuse(
            Code::ResourceExhausted,
            format!("{place} has the size {size}, more than its max_size {max_size}"),
        );
    }
    Ok(())
}

fn set_group(
    target: &mut Target<'_>,
    profile: ExternId,
    id: u32,
    place: &str,
    ty: Type,
    written: Group,
) -> Checked {
    let configured = target.device.configuration().profiles[profile].as_ref();
    let is_there = configured.is_some_and(|all| all.group(GroupId::new(id)).is_some());
    check_presence(place, ty, is_there)?;
    check_no_shots(target, profile)?;
    if let Some(missing) = written
        .members
        .iter()
        .find(|member| !has_member(target, profile, member.member_id))
    {
        let message = format!(
            "{place}: there is no member {}; insert it first",
            missing.member_id
        );
        return refuse(Code::NotFound, message);
    }
    let before = target.extras.groups.get(&(profile, id));
    if let (Type::Modify, Some(before)) = (ty, before)
        && before.max_size != written.max_size
    {
        return invalid(format!(
            "{place}: max_size is {} since the group was inserted, and cannot become {}",
            before.max_size, written.max_size
        ));
    }
    let back = target.group_back(profile, id);
    let members = live_members(&written.members, &target.extras.down);
    target.change_back(
        Change::SetGroup {
            profile,
            id,
            members,
        },
        back,
    )?;
    target.extras.groups.insert((profile, id), written);
    Ok(())
}

/// Checks that the selector has no one-shot entries. They cannot be combined with a controller's
/// members and groups.
fn check_no_shots(target: &Target<'_>, profile: ExternId) -> Checked {
    let configured = target.device.configuration().profiles[profile].as_ref();
    let mut members = configured.into_iter().flat_map(|all| all.members());
    if members.any(|(id, _)| is_one_shot(id.get())) {
        return invalid(
            "the selector's tables are programmed in one shot; members and groups cannot be used beside",
        );
    }
    Ok(())
}

/// Checks that an entry's action has the style in which its selector's tables are programmed.
pub(super) fn check_style(target: &Target<'_>, table: TableId, action: &Action) -> Checked {
    let Some(profile) = target.device.program().tables[table].implementation else {
        return Ok(());
    };
    match action {
        Action::Member(_) | Action::Group(_) => check_no_shots(target, profile),
        Action::OneShot(_) => {
            let configured = target.device.configuration().profiles[profile].as_ref();
            let mut members = configured.into_iter().flat_map(|all| all.members());
            if members.any(|(id, _)| !is_one_shot(id.get())) {
                return invalid(
                    "the selector has members and groups; its tables cannot be programmed in one shot beside",
                );
            }
            Ok(())
        }
        Action::Call(_) => Ok(()),
    }
}

/// Converts a one-shot action set.
pub(super) fn one_shot(
    schema: &Schema,
    view: &TableView,
    profile: &ProfileView,
    place: &str,
    set: &rt::ActionProfileActionSet,
) -> Checked<GivenAction> {
    check_modes(profile, place, set)?;
    let actions = &set.action_profile_actions;
    let size = check_weights(profile, place, actions.iter().map(|action| action.weight))?;
    if profile.max_group_size > 0 && size > i64::from(profile.max_group_size) {
        return invalid(format!(
            "{place}: the actions have the size {size}, more than the {} of a group",
            profile.max_group_size
        ));
    }
    let mut calls = Vec::new();
    let mut shots = Vec::new();
    for shot in actions {
        let weight = shot.weight;
        let Some(action) = &shot.action else {
            return invalid(format!(
                "{place}: an element of the action set has no action"
            ));
        };
        let call = table_call(schema, view, place, action, ActionScope::DefaultOnly)?;
        let (watch_port, watch) = match &shot.watch_kind {
            Some(ShotWatch::WatchPort(port)) => {
                if !port.is_empty() {
                    read_port(port)
                        .map_err(|fault| fault.within(&format!("{place}: a watch port")))?;
                }
                (port.clone(), None)
            }
            Some(ShotWatch::Watch(port)) => (Vec::new(), Some(*port)),
            None => (Vec::new(), None),
        };
        let shot = Shot {
            weight,
            watch_port,
            watch,
            ..Shot::default()
        };
        check_watched(schema, watched_by(&shot))
            .map_err(|fault| fault.within(&format!("{place}: a watch port")))?;
        shots.push(shot);
        calls.push((call, weight.max(1) as u32));
    }
    if shots.iter().any(|shot| watched_by(shot).is_some()) {
        let listed = &schema.program.tables[view.table].actions;
        for (shot, (call, _)) in shots.iter_mut().zip(&calls) {
            let action = &schema.program.actions[listed[call.action].action];
            shot.name.clone_from(&action.control_plane_name);
            shot.args = call.args.iter().map(Value::to_be_bytes).collect();
        }
    }
    Ok(GivenAction {
        action: Action::OneShot(calls),
        kept: Kept {
            shots,
            selection_mode: set.action_selection_mode,
            size_semantics: set.size_semantics,
            ..Kept::default()
        },
    })
}

/// Returns the watch port of a one-shot action.
fn watched_by(shot: &Shot) -> Option<PortId> {
    match shot.watch {
        Some(port) => (port > 0).then_some(PortId(port as u32)),
        None => read_port(&shot.watch_port).ok(),
    }
}

/// Returns the action call as it was written; `None` if the table no longer has the action.
fn shot_call(program: &Program, table: TableId, shot: &Shot) -> Option<ActionCall> {
    let mut listed = program.tables[table].actions.iter();
    let name = |at: &ir::TableAction| &program.actions[at.action].control_plane_name;
    let at = listed.position(|at| *name(at) == shot.name)?;
    let action = &program.actions[program.tables[table].actions[at].action];
    let args = action.params.iter().zip(&shot.args);
    let args = args.map(|(param, bytes)| Value::from_be_bytes(bytes, param.ty.width()).ok());
    Some(ActionCall {
        action: at,
        args: args.collect::<Option<_>>()?,
    })
}

/// Updates an entry's one-shot action set to the actions with live watch ports.
pub(crate) fn settle(device: &mut Device, down: &BTreeSet<PortId>, table: TableId, id: EntryId) {
    let Some(entry) = device.configuration().tables[table].get(id) else {
        return;
    };
    let kept = Kept::from_bytes(&entry.metadata);
    if !kept.is_watching() {
        return;
    }
    let is_up = |shot: &&Shot| watched_by(shot).is_none_or(|port| !down.contains(&port));
    let live = kept.shots.iter().filter(is_up);
    let live = live.filter_map(|shot| {
        let call = shot_call(device.program(), table, shot)?;
        Some((call, shot.weight.max(1) as u32))
    });
    let live = Action::OneShot(live.collect());
    // Cannot fail for lack of space: the live actions are a subset of those written before.
    let timeout = entry.idle_timeout_ns.map(Nanos);
    let _ = device.apply(Change::Modify(table, id, live, timeout));
}

/// Checks the modes of an action set. Selection is by hash, and the size semantics must be the
/// P4Info's. Settings per group are not supported.
fn check_modes(profile: &ProfileView, place: &str, set: &rt::ActionProfileActionSet) -> Checked {
    if set.group_action.is_some() {
        let message = format!("{place}: group_action is not supported");
        return refuse(Code::Unimplemented, message);
    }
    let own = match profile.counts_members {
        Some(_) => SizeSemantics::SumOfMembers,
        None => SizeSemantics::SumOfWeights,
    };
    let is_own_mode = matches!(
        ActionSelectionMode::try_from(set.action_selection_mode),
        Ok(ActionSelectionMode::DefaultModeDeterminedByActionSelector | ActionSelectionMode::Hash)
    );
    let semantics = SizeSemantics::try_from(set.size_semantics);
    let is_own_size = semantics == Ok(SizeSemantics::DefaultSizeDeterminedByActionSelector)
        || semantics == Ok(own);
    match is_own_mode && is_own_size {
        true => Ok(()),
        false => refuse(
            Code::Unimplemented,
            format!("{place}: groups have no selection mode or size semantics of their own"),
        ),
    }
}
