//! Tests of action profiles and selectors.

use proptest::prelude::*;
use table::*;

fn action(action: u32) -> ActionRef {
    ActionRef {
        action,
        params: [u64::from(action)].into(),
    }
}

fn part(member: u32, weight: u32) -> GroupMember {
    GroupMember {
        member: MemberId::new(member),
        weight,
    }
}

fn profile(members: u32) -> ActionProfile {
    let mut profile = ActionProfile::new(8, Some(10));
    for id in 0..members {
        profile
            .insert_member(MemberId::new(id), action(id))
            .unwrap();
    }
    profile
}

proptest! {
    #[test]
    fn a_group_spreads_hashes_by_weight(weights in proptest::collection::vec(1u32..4, 1..4), hash in any::<u64>()) {
        let mut profile = profile(8);
        let group = GroupId::new(9);
        let members: Vec<_> = weights.iter().enumerate().map(|(i, &w)| part(7 - i as u32, w)).collect();
        profile.insert_group(group, members.clone()).unwrap();
        let lookup = profile.snapshot();
        // Each member as often as its weight, in the order given.
        let spread: Vec<MemberId> =
            members.iter().flat_map(|m| std::iter::repeat_n(m.member, m.weight as usize)).collect();
        prop_assert_eq!(lookup.pick(group, hash), Some(spread[(hash % spread.len() as u64) as usize]));
        for (share, &member) in spread.iter().enumerate() {
            prop_assert_eq!(lookup.pick(group, share as u64), Some(member));
        }
    }
}

proptest! {
    #[test]
    fn a_member_goes_when_the_last_of_its_groups_has_let_it_go(
        steps in proptest::collection::vec((0u32..4, proptest::collection::btree_set(0u32..4, 0..4), any::<bool>()), 0..30),
    ) {
        let mut profile = profile(4);
        let mut model = std::collections::BTreeMap::new();
        for (group, members, is_deleted) in steps {
            let id = GroupId::new(group);
            let parts = || members.iter().map(|&member| part(member, 1)).collect();
            if is_deleted {
                prop_assert_eq!(profile.delete_group(id).is_ok(), model.remove(&group).is_some());
            } else if model.insert(group, members.clone()).is_some() {
                profile.modify_group(id, parts()).unwrap();
            } else {
                profile.insert_group(id, parts()).unwrap();
            }
            let member = MemberId::new(group);
            let first = model.iter().find(|(_, members)| members.contains(&group));
            let expect = match first {
                Some((&other, _)) => Err(ProfileError::MemberInGroup { member, group: GroupId::new(other) }),
                None => Ok(()),
            };
            prop_assert_eq!(profile.delete_member(member), expect.clone());
            if expect.is_ok() {
                profile.insert_member(member, action(group)).unwrap();
            }
        }
    }
}

#[test]
fn an_empty_or_missing_group_picks_nobody() {
    let mut profile = profile(1);
    profile.insert_group(GroupId::new(1), vec![]).unwrap();
    let lookup = profile.snapshot();
    assert_eq!(lookup.pick(GroupId::new(1), 5), None);
    assert_eq!(lookup.pick(GroupId::new(2), 5), None);
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut profile = profile(8);
    let (group, missing) = (GroupId::new(1), MemberId::new(70));
    assert_eq!(
        profile.insert_member(missing, action(0)),
        Err(ProfileError::Full { capacity: 8 })
    );
    assert_eq!(
        profile.insert_member(MemberId::new(0), action(0)),
        Err(ProfileError::DuplicateMember(MemberId::new(0)))
    );
    assert_eq!(
        profile.modify_member(missing, action(0)),
        Err(ProfileError::NoSuchMember(missing))
    );
    assert_eq!(
        profile.delete_member(missing),
        Err(ProfileError::NoSuchMember(missing))
    );
    let mut check = |members, expect| {
        assert_eq!(profile.insert_group(group, members), Err(expect));
        assert_eq!(profile.group(group), None);
    };
    check(
        vec![part(0, 1), part(70, 1)],
        ProfileError::NoSuchMember(missing),
    );
    check(vec![part(0, 0)], ProfileError::ZeroWeight(MemberId::new(0)));
    check(
        vec![part(0, 1), part(0, 2)],
        ProfileError::RepeatedMember(MemberId::new(0)),
    );
    check(
        vec![part(0, 5), part(1, 6)],
        ProfileError::GroupTooLarge { size: 11, max: 10 },
    );
    assert_eq!(
        profile.modify_group(group, vec![]),
        Err(ProfileError::NoSuchGroup(group))
    );
    assert_eq!(
        profile.delete_group(group),
        Err(ProfileError::NoSuchGroup(group))
    );
    profile.insert_group(group, vec![part(3, 1)]).unwrap();
    assert_eq!(
        profile.insert_group(group, vec![]),
        Err(ProfileError::DuplicateGroup(group))
    );
    assert_eq!(
        profile.delete_member(MemberId::new(3)),
        Err(ProfileError::MemberInGroup {
            member: MemberId::new(3),
            group
        })
    );
}

#[test]
fn a_snapshot_keeps_the_members_and_groups_of_its_time() {
    let mut profile = profile(3);
    let group = GroupId::new(1);
    profile.insert_group(group, vec![part(1, 1)]).unwrap();
    let before = profile.snapshot();
    profile.modify_member(MemberId::new(1), action(50)).unwrap();
    profile.modify_group(group, vec![part(2, 1)]).unwrap();
    profile.delete_member(MemberId::new(0)).unwrap();
    let after = profile.snapshot();
    assert_eq!(before.pick(group, 0), Some(MemberId::new(1)));
    assert_eq!(after.pick(group, 0), Some(MemberId::new(2)));
    assert_eq!(before.member(MemberId::new(1)), Some(&action(1)));
    assert_eq!(after.member(MemberId::new(1)), Some(&action(50)));
    assert_eq!(
        (
            before.member(MemberId::new(0)).is_some(),
            after.member(MemberId::new(0))
        ),
        (true, None)
    );
    assert_eq!(
        profile
            .members()
            .map(|(id, _)| id.get())
            .collect::<Vec<_>>(),
        [1, 2]
    );
    profile.clear();
    assert_eq!((profile.members().len(), profile.groups().len()), (0, 0));
    assert_eq!(profile.snapshot().pick(group, 0), None);
}
