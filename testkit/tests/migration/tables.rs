//! Tests of the migration of entries, const entries and default actions.

use crate::rig::*;

#[test]
fn entries_stay_where_key_and_actions_are_the_same() {
    let packets = [((1, 0, 0), 5), ((200, 0, 0), 6), ((2, 0, 0), 0)];
    check(&PARTS, TWO, &PARTS, &[], &packets);
    // The actions have other ids.
    let more = Parts {
        more_actions: "action first() { } action second(bit<48> x) { s.mcast_grp = (bit<16>) x; }",
        listed: "first; second; go; drop;",
        ..PARTS
    };
    check(&PARTS, TWO, &more, &[], &packets);
    let back = check(
        &more,
        TWO,
        &PARTS,
        &[
            "t: entries what fits, 2 of 2: the action `I.first` is gone; the action `I.second` is gone",
        ],
        &packets,
    );
    assert_eq!(
        back.configuration().tables.values().next().unwrap().len(),
        2
    );
    // Tables that grow and shrink.
    let large = Parts {
        properties: "default_action = drop(); size = 4096;",
        ..PARTS
    };
    check(
        &PARTS,
        TWO,
        &large,
        &["t: entries converted, 2 of 2: it takes 4096 instead of 1024"],
        &packets,
    );
    check(
        &large,
        TWO,
        &PARTS,
        &["t: entries what fits, 2 of 2: it takes 1024 instead of 4096"],
        &packets,
    );
    let one = Parts {
        properties: "default_action = drop(); size = 1;",
        ..PARTS
    };
    let lines = ["t: entries what fits, 1 of 2: it takes 1 instead of 1024"];
    check(
        &PARTS,
        TWO,
        &one,
        &lines,
        &[((1, 0, 0), 5), ((200, 0, 0), 0)],
    );
}

#[test]
fn a_table_that_is_gone_is_lost_and_a_new_one_is_empty() {
    let renamed = Parts {
        properties: "@name(\"I.u\") default_action = drop();",
        ..PARTS
    };
    let other = Parts {
        declarations: "action nothing() { } table u { key = { hdr.h.b : exact; } actions = { nothing; } }",
        apply: "u.apply();",
        ..renamed
    };
    check(
        &PARTS,
        TWO,
        &other,
        &["u: entries new, 0 of 0: "],
        &[((1, 0, 0), 5)],
    );
    let entries = "t { k: 1 } -> go(5)\nu { b: 3 } -> nothing()";
    let lines = ["u: entries lost, 0 of 1: the new program has no such table"];
    check(&other, entries, &PARTS, &lines, &[((1, 0, 0), 5)]);
}

#[test]
fn default_actions_stay_where_they_were_set() {
    let set = "t default -> go(9)";
    let other = Parts {
        properties: "default_action = go(3);",
        ..PARTS
    };
    check(&PARTS, set, &other, &[], &[((1, 0, 0), 9)]);
    check(&PARTS, "", &other, &[], &[((1, 0, 0), 3)]);
    let fixed = Parts {
        properties: "const default_action = drop();",
        ..PARTS
    };
    check(
        &PARTS,
        set,
        &fixed,
        &["t: default action lost, 0 of 1: the default action is const"],
        &[((1, 0, 0), 0)],
    );
    let only = Parts {
        listed: "@tableonly go; drop;",
        ..PARTS
    };
    check(
        &PARTS,
        set,
        &only,
        &["t: default action lost, 0 of 1: the action `I.go` is gone"],
        &[((1, 0, 0), 0)],
    );
    let wide = Parts {
        go: ("bit<32> port", "port"),
        ..PARTS
    };
    check(
        &PARTS,
        set,
        &wide,
        &[
            "t: default action converted, 1 of 1: the parameter `port` of the action `I.go` has 32 bits instead of 9",
            "t: entries converted, 0 of 0: the parameter `port` of the action `I.go` has 32 bits instead of 9",
        ],
        &[((1, 0, 0), 9)],
    );
}

#[test]
fn const_entries_are_the_program_s_and_initial_ones_the_device_s() {
    let ternary = "hdr.h.a : ternary @name(\"k\");";
    let consts = |properties| Parts {
        keys: ternary,
        properties,
        ..PARTS
    };
    let one = consts("default_action = drop(); const entries = { 1 : go(5); }");
    let two = consts("default_action = drop(); const entries = { 1 : go(6); 2 : go(7); }");
    check(&one, "", &two, &[], &[((1, 0, 0), 6), ((2, 0, 0), 7)]);
    check(&two, "", &one, &[], &[((1, 0, 0), 5), ((2, 0, 0), 0)]);
    // Initial entries that both programs have belong to the control plane. Its changes to them are
    // kept.
    let begin = |properties| Parts {
        properties,
        ..PARTS
    };
    let first = begin("default_action = drop(); entries = { 1 : go(5); 2 : go(6); }");
    let second = begin("default_action = drop(); entries = { 1 : go(7); 2 : go(6); 3 : go(8); }");
    let packets = [((1, 0, 0), 5), ((2, 0, 0), 6), ((3, 0, 0), 8)];
    check(&first, "", &second, &[], &packets);
    // A control plane entry with the key of a const entry is lost, unless it is equal.
    let mixed = begin("default_action = drop(); entries = { const 1 : go(9); }");
    check(
        &PARTS,
        TWO,
        &mixed,
        &["t: entries what fits, 1 of 2: the program has a const entry in its place"],
        &[((1, 0, 0), 9), ((200, 0, 0), 6)],
    );
    let same = begin("default_action = drop(); entries = { const 1 : go(5); }");
    check(&PARTS, TWO, &same, &[], &[((1, 0, 0), 5), ((200, 0, 0), 6)]);
}
