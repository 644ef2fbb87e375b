//! Tests of the migration of table keys.

use crate::rig::*;

#[test]
fn keys_change_their_width() {
    let key = |keys| Parts { keys, ..PARTS };
    let wide = key("hdr.h.b : exact @name(\"k\");");
    check(
        &PARTS,
        TWO,
        &wide,
        &["t: entries converted, 2 of 2: the key `k` has 16 bits instead of 8"],
        &[((0, 1, 0), 5), ((0, 200, 0), 6), ((0, 0x101, 0), 0)],
    );
    let entries = "t { k: 1 } -> go(5)\nt { k: 0x101 } -> go(6)";
    check(
        &wide,
        entries,
        &PARTS,
        &["t: entries what fits, 1 of 2: the key `k` has 8 bits instead of 16"],
        &[((1, 0, 0), 5)],
    );
    // Prefixes match the same numbers: the added high bits are 0.
    let (lpm8, lpm16) = (
        key("hdr.h.a : lpm @name(\"k\");"),
        key("hdr.h.b : lpm @name(\"k\");"),
    );
    let entries = "t { k: 0xf0/4 } -> go(5)\nt { k: 0/0 } -> go(6)";
    check(
        &lpm8,
        entries,
        &lpm16,
        &["t: entries converted, 2 of 2: the key `k` has 16 bits instead of 8"],
        &[((0, 0xf7, 0), 5), ((0, 0x1f7, 0), 6), ((0, 0x17, 0), 6)],
    );
    let entries = "t { k: 0x00f0/12 } -> go(5)\nt { k: 0x8000/1 } -> go(6)\nt { k: 0/1 } -> go(7)";
    check(
        &lpm16,
        entries,
        &lpm8,
        &["t: entries what fits, 2 of 3: the key `k` has 8 bits instead of 16"],
        &[((0xf7, 0, 0), 5), ((0x17, 0, 0), 7)],
    );
    let (ternary8, ternary16) = (
        key("hdr.h.a : ternary @name(\"k\");"),
        key("hdr.h.b : ternary @name(\"k\");"),
    );
    let entries = "t { k: 0x0f &&& 0x0f } -> go(5) priority 2\nt { k: _ } -> go(6) priority 1";
    check(
        &ternary8,
        entries,
        &ternary16,
        &["t: entries converted, 2 of 2: the key `k` has 16 bits instead of 8"],
        &[((0, 0xff, 0), 5), ((0, 0x1ff, 0), 6)],
    );
    let entries =
        "t { k: 0x0f &&& 0x0f } -> go(5) priority 2\nt { k: 0x100 &&& 0x100 } -> go(6) priority 1";
    check(
        &ternary16,
        entries,
        &ternary8,
        &["t: entries what fits, 1 of 2: the key `k` has 8 bits instead of 16"],
        &[((0xff, 0, 0), 5), ((1, 0, 0), 0)],
    );
    let (range8, range16) = (
        key("hdr.h.a : range @name(\"k\");"),
        key("hdr.h.b : range @name(\"k\");"),
    );
    let entries = "t { k: 5..9 } -> go(5) priority 2\nt { k: _ } -> go(6) priority 1";
    check(
        &range8,
        entries,
        &range16,
        &["t: entries converted, 2 of 2: the key `k` has 16 bits instead of 8"],
        &[((0, 9, 0), 5), ((0, 0x109, 0), 6)],
    );
    let entries = "t { k: 5..300 } -> go(5) priority 2\nt { k: 300..400 } -> go(6) priority 1";
    check(
        &range16,
        entries,
        &range8,
        &["t: entries what fits, 1 of 2: the key `k` has 8 bits instead of 16"],
        &[((255, 0, 0), 5), ((1, 0, 0), 0)],
    );
    let (any8, any16) = (
        key("hdr.h.a : optional @name(\"k\");"),
        key("hdr.h.b : optional @name(\"k\");"),
    );
    let entries = "t { k: 5 } -> go(5) priority 2\nt { k: _ } -> go(6) priority 1";
    check(
        &any8,
        entries,
        &any16,
        &["t: entries converted, 2 of 2: the key `k` has 16 bits instead of 8"],
        &[((0, 5, 0), 5), ((0, 0x105, 0), 6)],
    );
    let signed = "(int<8>) hdr.h.a : exact @name(\"k\");";
    let signed16 = "(int<16>) hdr.h.b : exact @name(\"k\");";
    let lines = ["t: entries lost, 0 of 1: the signed key `k` has another width"];
    check(
        &key(signed),
        "t { k: -1 } -> go(5)",
        &key(signed16),
        &lines,
        &[],
    );
}

#[test]
fn keys_change_their_match_kind() {
    let key = |keys| Parts { keys, ..PARTS };
    let (lpm, ternary, range, optional) = (
        key("hdr.h.a : lpm @name(\"k\");"),
        key("hdr.h.a : ternary @name(\"k\");"),
        key("hdr.h.a : range @name(\"k\");"),
        key("hdr.h.a : optional @name(\"k\");"),
    );
    let packets = [((1, 0, 0), 5), ((200, 0, 0), 6), ((2, 0, 0), 0)];
    check(
        &PARTS,
        TWO,
        &lpm,
        &["t: entries converted, 2 of 2: the key `k` is lpm instead of exact"],
        &packets,
    );
    for (new, kind) in [
        (&ternary, "ternary"),
        (&range, "range"),
        (&optional, "optional"),
    ] {
        let line = format!(
            "t: entries converted, 2 of 2: the key `k` is {kind} instead of exact; its entries get priorities: the longer prefix goes first"
        );
        check(&PARTS, TWO, new, &[&line], &packets);
    }
    let entries = "t { k: 0x10/4 } -> go(5)\nt { k: 0x12/8 } -> go(6)\nt { k: 0/0 } -> go(7)";
    let line = "t: entries converted, 3 of 3: the key `k` is ternary instead of lpm; its entries get priorities: the longer prefix goes first";
    let by_prefix = [((0x12, 0, 0), 6), ((0x13, 0, 0), 5), ((0x23, 0, 0), 7)];
    check(&lpm, entries, &ternary, &[line], &by_prefix);
    let smallest = Parts {
        properties: "default_action = drop(); largest_priority_wins = false;",
        ..ternary
    };
    check(&lpm, entries, &smallest, &[line], &by_prefix);
    // In the new program the smallest priority wins instead of the largest.
    let entries = "t { k: 1 } -> go(5) priority 1";
    let lines = ["t: entries lost, 0 of 1: the opposite priority wins"];
    check(&ternary, entries, &smallest, &lines, &[((1, 0, 0), 0)]);
    let lines =
        ["t: entries lost, 0 of 1: its entries have priorities, and the new ones have none"];
    check(&ternary, entries, &PARTS, &lines, &[((1, 0, 0), 0)]);
    // Between match kinds with priorities, the entries that the new kind can express are kept.
    let entries = "t { k: 1 } -> go(5) priority 1\nt { k: 0x10 &&& 0x10 } -> go(6) priority 2\nt { k: _ } -> go(7) priority 1";
    let lines = ["t: entries what fits, 2 of 3: the key `k` is range instead of ternary"];
    check(
        &ternary,
        entries,
        &range,
        &lines,
        &[((1, 0, 0), 5), ((0x10, 0, 0), 7)],
    );
    let entries = "t { k: 1 } -> go(5) priority 2\nt { k: _ } -> go(7) priority 1";
    let lines = ["t: entries converted, 2 of 2: the key `k` is ternary instead of optional"];
    check(
        &optional,
        entries,
        &ternary,
        &lines,
        &[((1, 0, 0), 5), ((2, 0, 0), 7)],
    );
}

#[test]
fn keys_come_go_and_change_places() {
    let key = |keys| Parts { keys, ..PARTS };
    let two = key("hdr.h.a : exact @name(\"k\"); hdr.h.b : exact @name(\"l\");");
    let turned = key("hdr.h.b : exact @name(\"l\"); hdr.h.a : exact @name(\"k\");");
    let entries = "t { k: 1; l: 2 } -> go(5)";
    check(
        &two,
        entries,
        &turned,
        &["t: entries converted, 1 of 1: its keys come in another order"],
        &[((1, 2, 0), 5), ((2, 1, 0), 0)],
    );
    check(
        &PARTS,
        TWO,
        &two,
        &["t: entries lost, 0 of 2: the key `l` is new, and it is exact"],
        &[],
    );
    check(
        &two,
        entries,
        &PARTS,
        &["t: entries lost, 0 of 1: the key `l` is gone, and it was exact"],
        &[],
    );
    let loose = key("hdr.h.a : exact @name(\"k\"); hdr.h.b : ternary @name(\"l\");");
    let line = "t: entries converted, 2 of 2: the key `l` is new: entries match any value of it; its entries get priorities: the longer prefix goes first";
    check(
        &PARTS,
        TWO,
        &loose,
        &[line],
        &[((1, 77, 0), 5), ((200, 0, 0), 6)],
    );
    let long = key("hdr.h.a : exact @name(\"k\"); hdr.h.b : lpm @name(\"l\");");
    let line = "t: entries converted, 2 of 2: the key `l` is new: entries match any value of it";
    check(
        &PARTS,
        TWO,
        &long,
        &[line],
        &[((1, 77, 0), 5), ((200, 0, 0), 6)],
    );
    let entries = "t { k: 1; l: 0/0 } -> go(5)\nt { k: 2; l: 0x100/8 } -> go(6)";
    let line = "t: entries what fits, 1 of 2: the key `l` is gone: entries stay that match any value of it";
    check(
        &long,
        entries,
        &PARTS,
        &[line],
        &[((1, 77, 0), 5), ((2, 0x100, 0), 0)],
    );
    // A key with another name is a different key, unless `@name` gives it the old name.
    let renamed = key("hdr.h.a : exact @name(\"other\");");
    check(
        &PARTS,
        TWO,
        &renamed,
        &["t: entries lost, 0 of 2: the key `other` is new, and it is exact"],
        &[],
    );
}
