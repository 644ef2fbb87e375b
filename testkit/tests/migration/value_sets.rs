//! Tests of the migration of value set members.

use crate::rig::*;

#[test]
fn value_sets_keep_members_that_fit() {
    let with = |value_sets, start| Parts {
        value_sets,
        start,
        properties: "default_action = go(3);",
        ..PARTS
    };
    let of8 = with(
        "value_set<bit<8>>(4) vs;",
        "transition select(hdr.h.a) { vs: accept; default: reject; }",
    );
    let of16 = with(
        "value_set<bit<16>>(4) vs;",
        "transition select(hdr.h.b) { vs: accept; default: reject; }",
    );
    let two = with(
        "value_set<bit<8>>(2) vs;",
        "transition select(hdr.h.a) { vs: accept; default: reject; }",
    );
    let entries = "value_set vs { 1, 2, 3 }";
    check(&of8, entries, &of8, &[], &[]);
    check(
        &of8,
        entries,
        &of16,
        &["vs: value set members converted, 3 of 3: the key `P.vs` has 16 bits instead of 8"],
        &[],
    );
    check(
        &of16,
        "value_set vs { 1, 0x101 }",
        &of8,
        &["vs: value set members what fits, 1 of 2: the key `P.vs` has 8 bits instead of 16"],
        &[],
    );
    check(
        &of8,
        entries,
        &two,
        &["vs: value set members what fits, 2 of 3: it takes 2 instead of 4"],
        &[],
    );
    check(
        &of8,
        entries,
        &PARTS,
        &["vs: value set members lost, 0 of 3: the new program has no such value set"],
        &[],
    );
    check(
        &PARTS,
        "",
        &of8,
        &["vs: value set members new, 0 of 0: "],
        &[],
    );
}
