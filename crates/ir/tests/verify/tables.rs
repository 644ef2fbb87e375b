//! Tests of tables, their entries and externs.

use ir::*;

use crate::rig::*;

#[test]
fn table_entries_and_defaults_fit() {
    let forward =
        |from: &str, to: &str, message: &str| refused(from, to, "table ingress.forward", message);
    forward("const NoAction()", "const #9()", "no such action");
    forward(
        "const NoAction()",
        "const NoAction(8w0x1)",
        "takes 0 arguments",
    );
    forward(
        "const NoAction()",
        "const learn(9w0x1)",
        "may not be used here",
    );
    forward("learn(9w0x3)", "NoAction()", "may not be used here");
    forward("learn(9w0x3)", "learn(8w0x3)", "9 bits is expected");
    forward(
        "(48w0x2, _, _, _, 8w0x1)",
        "(48w0x2, _, _, _)",
        "5 keys are expected",
    );
    forward(
        "(48w0x2, _, _, _, 8w0x1)",
        "(_, _, _, _, 8w0x1)",
        "does not match so",
    );
    forward(
        "(48w0x2, _, _, _, 8w0x1)",
        "(47w0x2, _, _, _, 8w0x1)",
        "48 bits is expected",
    );
    forward(
        "(48w0x2, _, _, _, 8w0x1)",
        "(48w0x2 / 4, _, _, _, 8w0x1)",
        "does not match so",
    );
    forward("9w0x100 / 1", "9w0x100 / 10", "prefix of 10 bits");
    forward(
        "12w0xfff .. 12w0x1",
        "12w0x1 .. 12w0xfff",
        "ends before it begins",
    );
    forward("8w0x1 &&& 8w0xf", "8w0x1 &&& 9w0xf", "8 bits is expected");
    forward(
        "key port: lpm as PortId = meta.port",
        "key port: lpm as PortId = %#0",
        "no parameter 0",
    );
    refused(
        "implementation chosen;",
        "implementation chosen;\n entry (8w0x1) -> NoAction();",
        "table ingress.choose",
        "0 keys are expected",
    );
}

#[test]
fn table_externs_are_of_their_kind() {
    refused(
        "implementation chosen",
        "implementation seen",
        "table ingress.choose",
        "wrong kind",
    );
    refused(
        "implementation chosen",
        "implementation #99",
        "table ingress.choose",
        "no extern 99",
    );
    refused(
        "direct_counter hits",
        "direct_counter limit",
        "table ingress.forward",
        "wrong kind",
    );
    refused(
        "direct_meter limit;",
        "direct_meter hits;",
        "table ingress.forward",
        "wrong kind",
    );
    refused(
        "implementation chosen;",
        "direct_counter hits;",
        "table ingress.choose",
        "belongs to another table too",
    );
    refused(
        "meter bytes",
        "meter packets_and_bytes",
        "extern rate",
        "not both",
    );
    refused(
        "8w0x1 .. 8w0x6",
        "8w0x1 .. 9w0x6",
        "extern dice",
        "differ in width",
    );
    refused("width 14", "width 65", "extern chosen", "wider than 64");
}

#[test]
fn what_actions_do_concerns_their_table() {
    let forward =
        |from: &str, to: &str, message: &str| refused(from, to, "table ingress.forward", message);
    forward(
        "    direct_counter hits;\n",
        "",
        "an extern of another table",
    );
    forward(
        "    direct_meter limit;\n",
        "",
        "an extern of another table",
    );
    forward("    add_on_miss;\n", "", "without add_on_miss");
    forward(
        "add_entry (=1,",
        "add_entry (=9,",
        "an action that the table does not have",
    );
    forward(
        "add_entry (=1, 8w0x3, {}",
        "add_entry (=2, 8w0x3, {}",
        "learn takes 1 arguments",
    );
    forward(
        "add_entry (=1, 8w0x3, {}",
        "add_entry (=2, 8w0x3, {meta.a}",
        "Bit(9) is expected",
    );
    // Through an action that the table's action calls.
    let text = SAMPLE.replace("    direct_meter limit;\n", "");
    let text = text.replace("    call direct_meter.execute on limit (out meta.a);\n", "");
    let text = text.replace(
        "call mark_to_drop ();",
        "call direct_meter.execute on limit (out meta.a);",
    );
    check_refused(
        &read(&text).unwrap(),
        "table ingress.forward",
        "an extern of another table",
    );
}
