//! Tests of members, groups and one-shot action sets.

use p4info::p4::v1 as rt;
use p4info::p4::v1::action_profile_action::WatchKind as ShotWatch;
use p4info::p4::v1::action_profile_group::Member;
use p4info::p4::v1::action_profile_group::member::WatchKind;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action as ConfigAction;
use p4info::p4::v1::table_action::Type as Given;
use p4info::p4::v1::update::Type;
use packet::PortId;
use tonic::Code;

use crate::rig::*;

fn member(objects: &Objects, profile: &str, member_id: u32, port: u8) -> Kind {
    Kind::ActionProfileMember(rt::ActionProfileMember {
        action_profile_id: objects.id(profile),
        member_id,
        action: Some(call(objects.id("forward"), &[&[port]])),
    })
}

fn part(member_id: u32, weight: i32, watch: Option<u8>) -> Member {
    Member {
        member_id,
        weight,
        watch_kind: watch.map(|port| WatchKind::WatchPort(vec![port])),
    }
}

fn group(objects: &Objects, group_id: u32, members: Vec<Member>) -> rt::ActionProfileGroup {
    rt::ActionProfileGroup {
        action_profile_id: objects.id("selector"),
        group_id,
        members,
        max_size: 4,
    }
}

fn uses(objects: &Objects, table: &str, given: Given) -> Kind {
    let action = Some(rt::TableAction {
        r#type: Some(given),
    });
    Kind::TableEntry(entry(objects.id(table), vec![exact(1, b"\x01")], action))
}

#[tokio::test]
async fn members_live_from_insert_to_delete_and_entries_hold_them() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let one = |port| member(&objects, "profile", 7, port);
    assert_eq!(client.refused(Type::Modify, one(3)).await, Code::NotFound);
    assert_eq!(client.refused(Type::Delete, one(3)).await, Code::NotFound);
    let through = uses(&objects, "indirect", Given::ActionProfileMemberId(7));
    assert_eq!(
        client.refused(Type::Insert, through.clone()).await,
        Code::NotFound
    );
    client.insert(one(3)).await;
    assert_eq!(
        client.refused(Type::Insert, one(3)).await,
        Code::AlreadyExists
    );
    client.insert(through.clone()).await;
    rig.receive(1, &frame(1, 2, 0x9999));
    assert_eq!(rig.sent().expect("it is forwarded").0, 3);
    client.modify(one(4)).await;
    rig.receive(1, &frame(1, 2, 0x9999));
    assert_eq!(rig.sent().expect("it is forwarded").0, 4);
    assert_eq!(
        client.refused(Type::Delete, one(4)).await,
        Code::FailedPrecondition
    );
    client.insert(member(&objects, "selector", 7, 5)).await;
    let everything = Kind::ActionProfileMember(rt::ActionProfileMember::default());
    assert_eq!(client.read(everything).await.len(), 2);
    let of_profile = Kind::ActionProfileMember(rt::ActionProfileMember {
        action_profile_id: objects.id("profile"),
        ..Default::default()
    });
    assert_eq!(client.read(of_profile).await, [one(4)]);
    client.delete(through).await;
    client.delete(one(4)).await;
}

#[tokio::test]
async fn malformed_members_are_refused() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let zero = member(&objects, "profile", 0, 1);
    assert_eq!(
        client.refused(Type::Insert, zero).await,
        Code::InvalidArgument
    );
    let actionless = Kind::ActionProfileMember(rt::ActionProfileMember {
        action_profile_id: objects.id("profile"),
        member_id: 1,
        action: None,
    });
    assert_eq!(
        client.refused(Type::Insert, actionless).await,
        Code::InvalidArgument
    );
    let foreign = Kind::ActionProfileMember(rt::ActionProfileMember {
        action_profile_id: objects.id("profile"),
        member_id: 1,
        action: Some(call(objects.id("learn"), &[])),
    });
    assert_eq!(
        client.refused(Type::Insert, foreign).await,
        Code::InvalidArgument
    );
    for id in 1..=4 {
        client.insert(member(&objects, "profile", id, 1)).await;
    }
    let fifth = member(&objects, "profile", 5, 1);
    assert_eq!(
        client.refused(Type::Insert, fifth).await,
        Code::ResourceExhausted
    );
}

#[tokio::test]
async fn groups_live_from_insert_to_delete_and_entries_hold_them() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    for (id, port) in [(1, 3), (2, 4)] {
        client.insert(member(&objects, "selector", id, port)).await;
    }
    let one = group(&objects, 9, vec![part(1, 1, None), part(2, 3, Some(4))]);
    let kind = |group: &rt::ActionProfileGroup| Kind::ActionProfileGroup(group.clone());
    assert_eq!(
        client.refused(Type::Modify, kind(&one)).await,
        Code::NotFound
    );
    assert_eq!(
        client.refused(Type::Delete, kind(&one)).await,
        Code::NotFound
    );
    let through = uses(&objects, "balanced", Given::ActionProfileGroupId(9));
    assert_eq!(
        client.refused(Type::Insert, through.clone()).await,
        Code::NotFound
    );
    client.insert(kind(&one)).await;
    assert_eq!(
        client.refused(Type::Insert, kind(&one)).await,
        Code::AlreadyExists
    );
    assert_eq!(client.read(kind(&one)).await, [kind(&one)]);
    client.insert(through.clone()).await;
    let in_group = member(&objects, "selector", 1, 3);
    assert_eq!(
        client.refused(Type::Delete, in_group).await,
        Code::FailedPrecondition
    );
    assert_eq!(
        client.refused(Type::Delete, kind(&one)).await,
        Code::FailedPrecondition
    );
    let smaller = group(&objects, 9, vec![part(2, 1, None)]);
    client.modify(kind(&smaller)).await;
    rig.receive(1, &frame(1, 2, 0x9999));
    assert_eq!(rig.sent().expect("it is forwarded").0, 4);
    let mut resized = smaller.clone();
    resized.max_size = 3;
    assert_eq!(
        client.refused(Type::Modify, kind(&resized)).await,
        Code::InvalidArgument
    );
    client.delete(through).await;
    client.delete(kind(&one)).await;
    let everything = Kind::ActionProfileGroup(rt::ActionProfileGroup::default());
    assert_eq!(client.read(everything).await, []);
}

#[tokio::test]
async fn malformed_groups_are_refused() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    client.insert(member(&objects, "selector", 1, 3)).await;
    let with = |members| group(&objects, 9, members);
    let sized = |max_size| rt::ActionProfileGroup {
        max_size,
        ..with(vec![])
    };
    let bad = [
        (group(&objects, 0, vec![]), Code::InvalidArgument),
        (with(vec![part(5, 1, None)]), Code::NotFound),
        (
            with(vec![part(1, 1, None), part(1, 1, None)]),
            Code::InvalidArgument,
        ),
        (with(vec![part(1, 0, None)]), Code::InvalidArgument),
        (with(vec![part(1, -1, None)]), Code::InvalidArgument),
        (with(vec![part(1, 5, None)]), Code::ResourceExhausted),
        // The device has no such port.
        (with(vec![part(1, 1, Some(200))]), Code::InvalidArgument),
        (sized(0), Code::InvalidArgument),
        (sized(5), Code::InvalidArgument),
        (sized(-1), Code::InvalidArgument),
    ];
    for (group, code) in bad {
        let kind = Kind::ActionProfileGroup(group.clone());
        assert_eq!(client.refused(Type::Insert, kind).await, code, "{group:?}");
    }
    let mut of_profile = with(vec![]);
    of_profile.action_profile_id = objects.id("profile");
    let kind = Kind::ActionProfileGroup(of_profile);
    assert_eq!(
        client.refused(Type::Insert, kind).await,
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn a_member_whose_watch_port_is_down_is_not_chosen_and_reads_do_not_tell() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    for (id, port) in [(1, 3), (2, 4)] {
        client.insert(member(&objects, "selector", id, port)).await;
    }
    let one = Kind::ActionProfileGroup(group(
        &objects,
        9,
        vec![part(1, 1, Some(3)), part(2, 1, Some(4))],
    ));
    client.insert(one.clone()).await;
    client
        .insert(uses(&objects, "balanced", Given::ActionProfileGroupId(9)))
        .await;
    let ports = |rig: &Rig| {
        let mut ports: Vec<u32> = Vec::new();
        for source in 0..32 {
            rig.receive(1, &frame(1, source, 0x9999));
            ports.push(rig.sent().expect("it is forwarded").0);
        }
        ports.sort_unstable();
        ports.dedup();
        ports
    };
    // Port changes take effect after a short time.
    let becomes = |expected: &[u32]| (0..50).any(|_| ports(&rig) == expected);
    assert!(becomes(&[3, 4]));
    rig.server.port_changed(1, PortId(3), false);
    assert!(becomes(&[4]));
    assert_eq!(client.read(one.clone()).await, vec![one.clone()]);
    rig.server.port_changed(1, PortId(3), true);
    assert!(becomes(&[3, 4]));
    assert_eq!(client.read(one.clone()).await, [one]);
}

fn shot(objects: &Objects, port: u8, weight: i32, watch: Option<u8>) -> rt::ActionProfileAction {
    rt::ActionProfileAction {
        action: Some(call(objects.id("forward"), &[&[port]])),
        weight,
        watch_kind: watch.map(|port| ShotWatch::WatchPort(vec![port])),
    }
}

fn shots(objects: &Objects, shots: Vec<rt::ActionProfileAction>) -> Kind {
    let set = rt::ActionProfileActionSet {
        action_profile_actions: shots,
        ..Default::default()
    };
    uses(objects, "balanced", Given::ActionProfileActionSet(set))
}

#[tokio::test]
async fn actions_in_one_shot_are_read_back_as_they_were_written() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let sets = [
        vec![
            shot(&objects, 3, 2, Some(3)),
            shot(&objects, 3, 1, None),
            shot(&objects, 4, 1, None),
        ],
        vec![shot(&objects, 5, 4, Some(7))],
        vec![],
    ];
    let all = Kind::TableEntry(entry(objects.id("balanced"), vec![], None));
    client.insert(shots(&objects, sets[2].clone())).await;
    for set in sets {
        let one = shots(&objects, set);
        client.modify(one.clone()).await;
        assert_eq!(client.read(all.clone()).await, [one]);
    }
    // Members and groups that the device creates for one-shot sets cannot be read.
    let members = Kind::ActionProfileMember(rt::ActionProfileMember::default());
    assert_eq!(client.read(members).await, []);
    client
        .modify(shots(&objects, vec![shot(&objects, 5, 1, None)]))
        .await;
    rig.receive(1, &frame(1, 2, 0x9999));
    assert_eq!(rig.sent().expect("it is forwarded").0, 5);
}

#[tokio::test]
async fn malformed_actions_in_one_shot_are_refused() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let with = |change: &dyn Fn(&mut rt::ActionProfileActionSet)| {
        let mut set = rt::ActionProfileActionSet {
            action_profile_actions: vec![shot(&objects, 3, 1, None)],
            ..Default::default()
        };
        change(&mut set);
        uses(&objects, "balanced", Given::ActionProfileActionSet(set))
    };
    let bad = [
        (
            with(&|set| set.action_profile_actions[0].weight = 0),
            Code::InvalidArgument,
        ),
        (
            with(&|set| set.action_profile_actions[0].weight = 5),
            Code::InvalidArgument,
        ),
        (
            with(&|set| {
                let watch = ShotWatch::WatchPort(vec![200]);
                set.action_profile_actions[0].watch_kind = Some(watch);
            }),
            Code::InvalidArgument,
        ),
        (
            with(&|set| set.action_profile_actions[0].action = None),
            Code::InvalidArgument,
        ),
        (
            with(&|set| set.group_action = Some(rt::Action::default())),
            Code::Unimplemented,
        ),
        (
            with(&|set| set.action_selection_mode = 2),
            Code::Unimplemented,
        ),
        (with(&|set| set.size_semantics = 2), Code::Unimplemented),
        (
            shots(
                &objects,
                vec![shot(&objects, 1, 3, None), shot(&objects, 2, 3, None)],
            ),
            Code::InvalidArgument,
        ),
    ];
    for (kind, code) in bad {
        assert_eq!(
            client.refused(Type::Insert, kind.clone()).await,
            code,
            "{kind:?}"
        );
    }
    // The default values may be given explicitly.
    let explicit = with(&|set| (set.action_selection_mode, set.size_semantics) = (1, 1));
    client.insert(explicit).await;
    let on_profile = rt::ActionProfileActionSet::default();
    let kind = uses(
        &objects,
        "indirect",
        Given::ActionProfileActionSet(on_profile),
    );
    assert_eq!(
        client.refused(Type::Insert, kind).await,
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn one_shot_and_members_do_not_go_together() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let one = shots(&objects, vec![shot(&objects, 3, 1, None)]);
    client.insert(one.clone()).await;
    let beside = member(&objects, "selector", 1, 3);
    assert_eq!(
        client.refused(Type::Insert, beside.clone()).await,
        Code::InvalidArgument
    );
    client.delete(one.clone()).await;
    client.insert(beside).await;
    assert_eq!(
        client.refused(Type::Insert, one).await,
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn an_action_in_one_shot_whose_watch_port_is_down_is_not_chosen() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let set = |weight| {
        let watching = shot(&objects, 3, weight, Some(3));
        shots(
            &objects,
            vec![
                watching,
                shot(&objects, 4, 1, Some(4)),
                shot(&objects, 5, 1, None),
            ],
        )
    };
    client.insert(set(1)).await;
    let ports = |rig: &Rig| {
        let mut ports: Vec<u32> = Vec::new();
        for source in 0..48u64 {
            rig.receive(1, &frame(1, source * 0x9e37_79b9, 0x9999));
            ports.push(rig.sent().expect("it is forwarded").0);
        }
        ports.sort_unstable();
        ports.dedup();
        ports
    };
    let becomes = |expected: &[u32]| (0..50).any(|_| ports(&rig) == expected);
    let all = Kind::TableEntry(entry(objects.id("balanced"), vec![], None));
    assert!(becomes(&[3, 4, 5]));
    rig.server.port_changed(1, PortId(3), false);
    assert!(becomes(&[4, 5]));
    assert_eq!(client.read(all.clone()).await, vec![set(1)]);
    // Updates made while a port is down take effect as well.
    client.modify(set(2)).await;
    assert!(becomes(&[4, 5]));
    rig.server.port_changed(1, PortId(4), false);
    assert!(becomes(&[5]));
    assert_eq!(client.read(all.clone()).await, vec![set(2)]);
    rig.server.port_changed(1, PortId(3), true);
    rig.server.port_changed(1, PortId(4), true);
    assert!(becomes(&[3, 4, 5]));
    assert_eq!(client.read(all).await, vec![set(2)]);
    client.delete(set(1)).await;
    // The one-shot entries are gone, so members can be used.
    client.insert(member(&objects, "selector", 1, 3)).await;
}

#[tokio::test]
async fn a_direct_meter_needs_a_member_whose_action_executes_it() {
    let rig = Rig::empty();
    let mut client = rig.client().await;
    let _stream = client.open(Some(1), "").await;
    let action = "action drop() {";
    let with_meter = ALL
        .replacen(
            action,
            "direct_meter<bit<2>>(MeterType.bytes) other_meter;
             action read_other() { other_meter.read(colour); }
             action drop() {",
            1,
        )
        .replace(
            "actions = { forward; drop; NoAction; }
        implementation = profile;",
            "actions = { forward; drop; NoAction; read_other; }
        implementation = profile;
        meters = other_meter;",
        );
    client
        .load(ConfigAction::VerifyAndCommit, &with_meter)
        .await
        .expect("it loads");
    let objects = Objects::of(&client.config().await);
    client.insert(member(&objects, "profile", 1, 3)).await;
    let reading = rt::ActionProfileMember {
        action_profile_id: objects.id("profile"),
        member_id: 2,
        action: Some(call(objects.id("read_other"), &[])),
    };
    client.insert(Kind::ActionProfileMember(reading)).await;
    let metered = |member| {
        let Kind::TableEntry(mut one) =
            uses(&objects, "indirect", Given::ActionProfileMemberId(member))
        else {
            panic!("an entry");
        };
        one.meter_config = Some(rt::MeterConfig {
            cir: 1,
            cburst: 1,
            pir: 1,
            pburst: 1,
            ..Default::default()
        });
        Kind::TableEntry(one)
    };
    let refused = client.write(Type::Insert, metered(1)).await;
    let refused = refused.expect_err("forward does not execute it");
    assert_eq!(refused.canonical_code, Code::InvalidArgument as i32);
    assert!(refused.message.contains("forward"), "{}", refused.message);
    client.insert(metered(2)).await;
    assert_eq!(
        client.refused(Type::Modify, metered(1)).await,
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn a_group_may_be_empty_and_a_modification_replaces_all_its_members() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    for (id, port) in [(1, 3), (2, 4)] {
        client.insert(member(&objects, "selector", id, port)).await;
    }
    let with = |members| Kind::ActionProfileGroup(group(&objects, 9, members));
    client.insert(with(vec![])).await;
    for members in [
        vec![part(1, 1, None), part(2, 2, None)],
        vec![part(2, 1, None)],
        vec![],
    ] {
        client.modify(with(members.clone())).await;
        assert_eq!(client.read(with(vec![])).await, [with(members)]);
    }
    client.delete(member(&objects, "selector", 1, 3)).await;
}
