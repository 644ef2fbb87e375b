//! Tests of the migration of members and groups of action profiles and selectors.

use crate::rig::*;

#[test]
fn members_and_groups_stay_where_their_actions_do() {
    let spread = |size: u32, listed: &'static str| {
        Parts {
        declarations: format!("action_selector(HashAlgorithm.crc16, {size}, 16) s1; action other(bit<9> p) {{ s.egress_spec = p; }}").leak(),
        keys: "hdr.h.a : exact @name(\"k\"); hdr.h.c : selector;",
        listed,
        properties: "implementation = s1;",
        ..PARTS
    }
    };
    let both = spread(64, "go; other; drop;");
    let entries = "s1 member 1 -> go(5)\ns1 member 2 -> other(6)\ns1 group 1 { 1 } max_size 4\ns1 group 2 { 1, 2 } max_size 4\n\
        t { k: 1 } -> member 1\nt { k: 2 } -> member 2\nt { k: 3 } -> group 1\nt { k: 4 } -> group 2\nt { k: 5 } -> { go(7) }\nt { k: 6 } -> { other(8), go(8) }";
    let all = [
        ((1, 0, 0), 5),
        ((2, 0, 0), 6),
        ((3, 0, 0), 5),
        ((5, 0, 0), 7),
        ((6, 0, 0), 8),
    ];
    check(&both, entries, &both, &[], &all);
    check(
        &both,
        entries,
        &spread(128, "go; other; drop;"),
        &["s1: members converted, 2 of 2: it takes 128 instead of 64"],
        &all,
    );
    let gone = "the action `I.other` is gone";
    let lines = [
        format!("s1: members what fits, 1 of 2: {gone}"),
        "s1: groups what fits, 1 of 2: groups stay that keep all their members".to_owned(),
        format!("t: entries what fits, 3 of 6: {gone}"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    check(
        &both,
        entries,
        &spread(64, "go; drop;"),
        &lines,
        &[
            ((1, 0, 0), 5),
            ((2, 0, 0), 0),
            ((3, 0, 0), 5),
            ((5, 0, 0), 7),
            ((6, 0, 0), 0),
        ],
    );
    let reason = "the new program has no such action profile or selector";
    let lines = [
        format!("s1: members lost, 0 of 2: {reason}"),
        format!("s1: groups lost, 0 of 2: {reason}"),
        "t: entries lost, 0 of 6: its actions are in no profile any more".to_owned(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    check(&both, entries, &PARTS, &lines, &[((1, 0, 0), 0)]);
    let lines = [
        "t: entries lost, 0 of 2: its actions are in a profile now",
        "s1: members new, 0 of 0: ",
    ];
    check(&PARTS, TWO, &spread(64, "go; drop;"), &lines, &[]);
    // The hash covers other fields, so groups may select other members.
    let other = Parts {
        keys: "hdr.h.a : exact @name(\"k\"); hdr.h.b : selector;",
        ..spread(64, "go; other; drop;")
    };
    check(
        &both,
        entries,
        &other,
        &["t: entries converted, 6 of 6: its selector hashes other fields"],
        &all,
    );
}

#[test]
fn actions_that_go_to_another_profile_leave_their_entries_and_members_behind() {
    // `t` uses `go`, and at first `other`, through its profile; `u` has another profile.
    let with = |of_t: &'static str, of_u: &'static str, listed, listed_by_u: &str| {
        Parts {
        declarations: format!(
            "action_profile(8) s1; action_profile(8) s2; action other(bit<9> p) {{ s.egress_spec = p; }}
             action none() {{ }}
             table u {{ key = {{ hdr.h.b : exact @name(\"k\"); }} actions = {{ {listed_by_u} }} implementation = {of_u}; }}"
        )
        .leak(),
        apply: "u.apply();",
        listed,
        properties: match of_t {
            "s1" => "implementation = s1;",
            _ => "implementation = s2;",
        },
        ..PARTS
    }
    };
    let before = with("s1", "s2", "go; other;", "none;");
    let entries = "s1 member 1 -> go(5)\ns1 member 2 -> other(6)\ns2 member 1 -> none()\n\
        t { k: 1 } -> member 1\nt { k: 2 } -> member 2\nu { k: 9 } -> member 1";
    // The action moves from the profile of `t` to that of `u`.
    check(
        &before,
        entries,
        &with("s1", "s2", "go;", "none; other;"),
        &[
            "s1: members what fits, 1 of 2: the action `I.other` is gone",
            "s1: groups what fits, 0 of 0: groups stay that keep all their members",
            "t: entries what fits, 1 of 2: the action `I.other` is gone",
        ],
        &[((1, 0, 0), 5), ((2, 0, 0), 0)],
    );
    // The tables exchange profiles. Members stay where the profile still has their action. Entries
    // do not move with them.
    let elsewhere = "its actions are in another profile";
    let no_groups = "groups what fits, 0 of 0: groups stay that keep all their members";
    let lines = [
        "s1: members what fits, 0 of 2: the action `I.go` is gone; the action `I.other` is gone"
            .to_owned(),
        format!("s1: {no_groups}"),
        "s2: members what fits, 0 of 1: the action `I.none` is gone".to_owned(),
        format!("s2: {no_groups}"),
        format!("t: entries lost, 0 of 2: {elsewhere}"),
        format!("u: entries lost, 0 of 1: {elsewhere}"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let exchanged = with("s2", "s1", "go; other;", "none;");
    check(&before, entries, &exchanged, &lines, &[((1, 0, 0), 0)]);
}
