//! `polyplane diff`: its report on a program change, and its exit status.

mod lab;

use lab::{Directory, said};

const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<16> b; }
struct H { h_t h; }
struct M { }
parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout H hdr, inout M m) { apply { } }
control I(inout H hdr, inout M m, inout standard_metadata_t s) {
    counter(4, CounterType.packets) seen;
    action go(bit<9> port) { s.egress_spec = port; seen.count(0); }
    table t { key = { hdr.h.a : exact @name("k"); } actions = { go; } }
    table u { key = { hdr.h.b : exact; } actions = { go; } }
    apply { t.apply(); u.apply(); }
}
control E(inout H hdr, inout M m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in H hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#;

#[test]
fn a_change_is_foretold_line_by_line_and_the_status_says_whether_a_switch_accepts_it() {
    let dir = Directory::new("diff");
    let old = dir.with("old.p4", PROGRAM);
    let wide = PROGRAM.replace(
        "hdr.h.a : exact @name(\"k\")",
        "hdr.h.b : exact @name(\"k\")",
    );
    let new = dir.with(
        "new.p4",
        wide.replace("table u", "table w")
            .replace("u.apply", "w.apply"),
    );
    let entries = dir.with(
        "some.entries",
        "t { k: 1 } -> go(1)\nt { k: 2 } -> go(2)\nu { b: 3 } -> go(3)\n",
    );

    // There is no state, so nothing is lost.
    let told = said(&["diff", &old, &new]);
    assert_eq!((told.status, told.err.as_str()), (Some(0), ""));
    let expected = "object  state    fate       why\n\
        I.t     entries  converted  the key `k` has 16 bits instead of 8\n\
        I.u     entries  lost       the new program has no such table\n\
        I.w     entries  new\n\
        kept as they are: counters of 1\n";
    assert_eq!(told.out, expected);

    let told = said(&["diff", &old, &new, "--entries", &entries]);
    assert_eq!(told.status, Some(1), "{}", told.err);
    assert!(told.out.contains("2 of 2"), "{}", told.out);
    let refused = "0 of 1  the new program has no such table; needs your word: --may-lose I.u\n";
    assert!(told.out.contains(refused), "{}", told.out);

    let told = said(&[
        "diff",
        &old,
        &new,
        "--entries",
        &entries,
        "--may-lose",
        "I.u",
        "--json",
    ]);
    assert_eq!(told.status, Some(0), "{}", told.err);
    let json: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(json["accepted"], true);
    let lines = json["lines"].as_array().unwrap();
    let line = lines.iter().find(|line| line["object"] == "I.u").unwrap();
    assert_eq!(
        (&line["held"], &line["lost"], &line["refused"]),
        (&1.into(), &1.into(), &false.into())
    );

    let told = said(&["diff", &old, &old, "--entries", &entries]);
    assert_eq!(
        (told.status, told.out.as_str()),
        (Some(0), "kept as they are: counters of 1, entries of 2\n")
    );
}

#[test]
fn errors_in_either_program_are_told() {
    let dir = Directory::new("diff-errors");
    let (good, bad) = (dir.with("good.p4", PROGRAM), dir.with("bad.p4", "parser"));
    for pair in [[&good, &bad], [&bad, &good]] {
        let told = said(&["diff", pair[0], pair[1]]);
        assert_eq!(told.status, Some(1));
        assert!(told.err.contains("bad.p4"), "{}", told.err);
    }
}
