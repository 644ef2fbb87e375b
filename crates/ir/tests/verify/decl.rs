//! Tests of types, storage, names and ids.

use ir::*;

use crate::rig::*;

#[test]
fn widths_are_bounded() {
    refused(
        "meta.wide: bit<300>",
        "meta.wide: bit<131073>",
        "field meta.wide",
        "more than 131072",
    );
    refused(
        "meta.signed: int<12>",
        "meta.signed: int<0>",
        "field meta.signed",
        "int<0>",
    );
    refused(
        "error: error",
        "error: enum #7",
        "field meta.error",
        "no enum 7",
    );
    let huge = (0..70)
        .map(|i| format!("field huge{i}: bit<131072>\n"))
        .collect::<String>();
    refused(
        "field meta.wide: bit<300>\n",
        &format!("field meta.wide: bit<300>\n{huge}"),
        "program",
        "limbs",
    );
    stmt(
        "meta.ok = (meta.wide ++ bit<131000>(meta.a)) == (meta.wide ++ bit<131000>(meta.a));",
        "131300 bits",
    );
    stmt(
        "meta.ok = bit<131073>(meta.a) == bit<131073>(meta.a);",
        "131073 bits",
    );
}

#[test]
fn headers_have_their_types_fields() {
    refused(
        "hdr.late.$valid$: bool",
        "hdr.late.$valid$: bit<1>",
        "header hdr.late",
        "Bool is expected",
    );
    refused(
        "field late_tci: bit<16>",
        "field late_tci: bit<8>",
        "header hdr.late",
        "Bit(16) is expected",
    );
    refused(
        "vlan_t at hdr.late.$valid$",
        "vlan_t at meta.wide",
        "header hdr.late",
        "not all there",
    );
    refused(
        "hdr.late: vlan_t at",
        "hdr.late: #77 at",
        "header hdr.late",
        "no header type 77",
    );
    refused(
        "stack hdr.vlan:",
        "header again: vlan_t at hdr.late.$valid$\nstack hdr.vlan:",
        "header again",
        "share fields",
    );
    refused(
        "delta: int<7>",
        "delta: error",
        "header type options_t",
        "no form on the wire",
    );
    refused(
        "delta: int<7>",
        "delta: varbit<8>",
        "header type options_t",
        "more than one varbit",
    );
}

#[test]
fn stacks_are_runs_of_one_type() {
    refused(
        "2 from hdr.vlan[0]",
        "0 from hdr.vlan[0]",
        "stack hdr.vlan",
        "not all there",
    );
    refused(
        "2 from hdr.vlan[0]",
        "9 from hdr.vlan[0]",
        "stack hdr.vlan",
        "not all there",
    );
    refused(
        "2 from hdr.vlan[0]",
        "3 from hdr.vlan[0]",
        "stack hdr.vlan",
        "does not follow",
    );
    refused(
        "hdr.vlan[0] next hdr.vlan.$next$",
        "hdr.vlan[0] next meta.a",
        "stack hdr.vlan",
        "Bit(32) is expected",
    );
}

#[test]
fn names_are_unique() {
    changed(
        |p| p.fields[FieldId::new(0)].name = "meta.a".into(),
        "program",
        "two fields are called 'meta.a'",
    );
    changed(
        |p| p.actions[ActionId::new(0)].name = "drop".into(),
        "program",
        "two actions",
    );
    changed(
        |p| p.tables[TableId::new(0)].name = "ingress.choose".into(),
        "program",
        "two tables",
    );
    changed(
        |p| p.externs[ExternId::new(0)].name = "rate".into(),
        "program",
        "two externs",
    );
    changed(
        |p| p.value_sets[ValueSetId::new(0)].name = "pairs".into(),
        "program",
        "two value sets",
    );
    changed(|p| p.errors[1] = "NoMatch".into(), "program", "two errors");
    changed(|p| p.errors[0] = "Other".into(), "program", "not NoError");
    let states =
        |p: &mut Program| p.parsers[ParserId::new(0)].states[StateId::new(0)].name = "vlan".into();
    changed(states, "parser MyParser", "two states");
    let stages = |p: &mut Program| {
        p.controls[ControlId::new(0)].stages[StageId::new(0)].name = "ingress.last".into()
    };
    changed(stages, "control ingress", "two stages");
}

#[test]
fn ids_point_into_their_tables() {
    stmt("#4000 = 8w0x1;", "no field 4000");
    stmt("header #77 = hdr.vlan[0];", "no header 77");
    stmt("push_front #77, 1;", "no stack 77");
    stmt("run #77();", "no action 77");
    stmt("call counter.count on #77 (meta.i);", "no extern 77");
    stmt("meta.error = error.#9;", "not a member");
    stmt("meta.color = enum Color::#3;", "not a member");
    stmt("meta.a = %#0;", "no parameter 0");
    stmt("meta.ok = meta.ok; @7:1:1", "no source file 7");
    refused(
        "@40:5",
        "@9:40:5",
        "control ingress, stage ingress.if",
        "no source file 9",
    );
    refused(
        "fail error.HeaderTooShort",
        "fail error.#99",
        "parser MyParser, state options",
        "no error 99",
    );
    refused(
        "start start",
        "start #9",
        "parser MyParser",
        "no start state 9",
    );
    refused(
        "_): options",
        "_): #9",
        "parser MyParser, state start",
        "no state 9",
    );
    refused(
        "next hit ingress.last",
        "next hit #9",
        "control ingress, stage ingress.choose",
        "no stage 9",
    );
    refused(
        "match ingress.forward",
        "match #9",
        "control ingress, stage ingress.forward",
        "no table 9",
    );
    refused(
        "action next ingress.choose",
        "action next #77",
        "control ingress, stage ingress.code",
        "no stage 77",
    );
    refused(
        "then ingress.forward",
        "then #77",
        "control ingress, stage ingress.if",
        "no stage 77",
    );
    let stray = |p: &mut Program| p.tables[TableId::new(0)].actions[0].action = ActionId::new(77);
    changed(stray, "table ingress.forward", "no action 77");
}
