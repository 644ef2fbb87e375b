//! Tests of the migration of actions and their parameters.

use crate::rig::*;

#[test]
fn actions_go_and_change_their_parameters() {
    let go = |params, port| Parts {
        go: (params, port),
        ..PARTS
    };
    let packets = [((1, 0, 0), 5), ((200, 0, 0), 6)];
    let wide = go("bit<70> port", "port");
    check(
        &PARTS,
        TWO,
        &wide,
        &[
            "t: entries converted, 2 of 2: the parameter `port` of the action `I.go` has 70 bits instead of 9",
        ],
        &packets,
    );
    let entries = "t { k: 1 } -> go(5)\nt { k: 200 } -> go(0x100000006)";
    check(
        &wide,
        entries,
        &PARTS,
        &[
            "t: entries what fits, 1 of 2: the parameter `port` of the action `I.go` has 9 bits instead of 70",
        ],
        &[((1, 0, 0), 5), ((200, 0, 0), 0)],
    );
    let (two, turned) = (
        go("bit<9> port, bit<48> x", "port + (bit<9>) x"),
        go("bit<48> x, bit<9> port", "port + (bit<9>) x"),
    );
    let entries = "t { k: 1 } -> go(port: 4, x: 1)";
    check(
        &two,
        entries,
        &turned,
        &[
            "t: entries converted, 1 of 1: the parameters of the action `I.go` come in another order",
        ],
        &[((1, 0, 0), 5)],
    );
    check(
        &PARTS,
        TWO,
        &two,
        &["t: entries what fits, 0 of 2: the parameter `x` of the action `I.go` is new"],
        &[],
    );
    check(
        &two,
        entries,
        &PARTS,
        &["t: entries what fits, 0 of 1: the parameter `x` of the action `I.go` is gone"],
        &[],
    );
    let (signed, more) = (
        go("int<8> n", "((bit<8>) (n + 10))"),
        go("int<16> n", "((bit<16>) (n + 10))"),
    );
    check(
        &signed,
        "t { k: 1 } -> go(-5)",
        &more,
        &[
            "t: entries converted, 1 of 1: the parameter `n` of the action `I.go` has 16 bits instead of 8",
        ],
        &[((1, 0, 0), 5)],
    );
    let entries = "t { k: 1 } -> go(-5)\nt { k: 2 } -> go(-500)";
    check(
        &more,
        entries,
        &signed,
        &[
            "t: entries what fits, 1 of 2: the parameter `n` of the action `I.go` has 8 bits instead of 16",
        ],
        &[((1, 0, 0), 5)],
    );
    check(
        &signed,
        "t { k: 1 } -> go(5)",
        &go("bit<9> n", "n"),
        &["t: entries what fits, 0 of 1: the parameter `n` of the action `I.go` has another type"],
        &[],
    );
    // An action that the table no longer lists, or only as default action.
    let copy = Parts {
        more_actions: "action copy(bit<9> to) { s.egress_spec = to; }",
        listed: "go; copy; drop;",
        ..PARTS
    };
    let entries = "t { k: 1 } -> copy(5)\nt { k: 2 } -> go(6)";
    check(
        &copy,
        entries,
        &PARTS,
        &["t: entries what fits, 1 of 2: the action `I.copy` is gone"],
        &[((1, 0, 0), 0), ((2, 0, 0), 6)],
    );
    let only = Parts {
        listed: "go; @defaultonly copy; drop;",
        ..copy
    };
    check(
        &copy,
        entries,
        &only,
        &["t: entries what fits, 1 of 2: the action `I.copy` is gone"],
        &[((1, 0, 0), 0), ((2, 0, 0), 6)],
    );
}
