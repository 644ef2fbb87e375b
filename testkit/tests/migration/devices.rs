//! Tests of device state that does not depend on the program.

use packet::Nanos;
use switch::{MayLose, MigrationMode};

use crate::cells::*;
use crate::rig::*;

#[test]
fn groups_and_sessions_are_the_device_s() {
    let multicast = Parts {
        listed: "go; many; drop;",
        more_actions: "action many() { s.mcast_grp = 4; }",
        ..PARTS
    };
    let entries = "multicast 4 { port 7 }\nclone 3 { port 8 }\nt { k: 1 } -> many()";
    let kept = check(&multicast, entries, &multicast, &[], &[((1, 0, 0), 7)]);
    assert!(kept.replication().session(3).is_some());
    let mut kept = check(
        &multicast,
        entries,
        &PARTS,
        &["t: entries what fits, 0 of 1: the action `I.many` is gone"],
        &[],
    );
    assert!(kept.replication().session(3).is_some());
    kept.adopt(device(&program(&multicast)), MigrationMode::Nothing)
        .unwrap();
    assert!(kept.replication().session(3).is_none());
}

#[test]
fn what_belongs_to_no_object_of_a_program_is_the_device_s() {
    let (before, after) = (program(&PARTS), program(&with_cells("", COUNTER, "")));
    let mut changed = device(&before);
    let hash = exec::HashParameters {
        toeplitz_key: vec![7; 40],
        ..changed.configuration().hash.as_ref().clone()
    };
    for change in [
        switch::Change::SetHostPorts(vec![4, 2]),
        switch::Change::SetExpireProfile(3, Some(Nanos(77))),
        switch::Change::SetHashParameters(hash.clone()),
    ] {
        changed.apply(change).unwrap();
    }
    changed
        .adopt(device(&after), MigrationMode::State(MayLose::Nothing))
        .unwrap();
    let kept = changed.configuration();
    assert_eq!(kept.host_ports[..], [2, 4]);
    assert_eq!(kept.expire_profiles.timeout_ns(3), Some(77));
    assert_eq!(*kept.hash, hash);
}
