//! `polyplane p4info`: the P4Info of programs, including those that cannot run here, and its
//! comparison with that of another compiler.

mod lab;

use lab::{Directory, said};

fn program() -> String {
    format!(
        "{}/tests/programs/called_actions.p4",
        env!("CARGO_MANIFEST_DIR")
    )
}

#[test]
fn a_program_with_an_extern_of_its_own_has_a_p4info_and_the_aliases_count_called_actions() {
    let made = said(&["p4info", &program()]);
    assert_eq!(made.status, Some(0), "{}", made.err);
    assert!(made.out.contains("alias: \"c2.drop\""), "{}", made.out);
    assert!(made.out.contains("alias: \"t\""), "{}", made.out);
    // The program cannot run here.
    let compiled = said(&["ir", &program()]);
    assert_eq!(compiled.status, Some(1));
    assert!(compiled.err.contains("flash"), "{}", compiled.err);
}

#[test]
fn p4infos_are_compared_by_meaning_and_what_differs_is_named() {
    let dir = Directory::new("p4info-compare");
    let own = said(&["p4info", &program()]).out;
    let compare = |text: &str| {
        let file = dir.with("other.p4info.txtpb", text);
        said(&["p4info", &program(), "--compare", &file])
    };
    assert_eq!(compare(&own).status, Some(0));
    // p4c also lists actions that are called by other actions.
    let called = "actions { preamble { id: 29480552 name: \"I.helper\" alias: \"helper\" }\n  params { id: 1 name: \"port\" bitwidth: 9 } }\n";
    assert_eq!(compare(&format!("{own}{called}")).status, Some(0));
    let other = compare(&own.replace("bitwidth: 8", "bitwidth: 16"));
    assert_eq!(other.status, Some(1));
    assert!(
        other.err.contains("hdr.h.a") && other.err.contains("16"),
        "{}",
        other.err
    );
    let other = compare("nonsense {");
    assert_eq!(other.status, Some(1));
    assert!(other.err.contains("other.p4info.txtpb"), "{}", other.err);
}

#[test]
fn macros_and_constants_in_annotations_are_values() {
    let program = program().replace("called_actions", "macros_in_annotations");
    let made = said(&["p4info", &program]);
    assert_eq!((made.status, made.err.as_str()), (Some(0), ""));
    for text in [
        "name: \"my.pkg\"",
        "id: 33554448\n",
        "annotations: \"@mine(5, \\\"x\\\")\"",
        "brief: \"x\"",
        "id: 16777233\n",
        "id: 16777223\n",
        "max_group_size: 17\n",
        "name: \"packet_in\"",
        "sdn_bitwidth: 32\n",
        "@entry_restriction(\\\"h.h.a::mask == -1\\\")",
    ] {
        assert!(made.out.contains(text), "{text}: {}", made.out);
    }
}
