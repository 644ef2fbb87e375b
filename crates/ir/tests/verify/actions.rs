//! Tests of calls, and of actions that call each other.

use ir::*;

use crate::rig::*;

#[test]
fn calls_fit_their_signatures() {
    stmt("call mark_to_drop (meta.a);", "0 operands are expected");
    stmt(
        "call counter.count on seen (out meta.i);",
        "an operand is not In",
    );
    stmt(
        "call counter.count on cells (meta.i);",
        "not of the operation's kind",
    );
    stmt(
        "call counter.count (meta.i);",
        "not of the operation's kind",
    );
    stmt(
        "call mark_to_drop on seen ();",
        "not of the operation's kind",
    );
    stmt(
        "call counter.count on seen (meta.signed);",
        "bit<..> is expected",
    );
    stmt(
        "call register.read on cells (meta.i, out {meta.a});",
        "2 scalars are expected",
    );
    stmt(
        "call register.read on cells (meta.i, out {meta.a, meta.b});",
        "Bool is expected",
    );
    stmt(
        "call register.write on cells (meta.i, {meta.ok, true});",
        "Bit(8) is expected",
    );
    stmt(
        "call register.write on cells (meta.ok, {meta.a, true});",
        "bit<..> is expected",
    );
    stmt(
        "call digest.send on learn ({meta.a});",
        "2 scalars are expected",
    );
    stmt(
        "call hash (=99, 16w0x0, 16w0xff, {}, out meta.i);",
        "no algorithm 99",
    );
    stmt(
        "call hash (=0, meta.ok, 16w0xff, {}, out meta.i);",
        "not Bool",
    );
    stmt(
        "call update_checksum (=6, meta.a, {}, out meta.i);",
        "Bool is expected",
    );
    stmt("call assert (meta.a, \"\");", "Bool is expected");
    stmt("call clone (=2, =0, meta.i);", "no kind of clone 2");
    stmt(
        "call add_entry (=0, meta.a, {}, out meta.a);",
        "only the action of a table",
    );
    stmt("call truncate (meta.ok);", "bit<..> is expected");
    stmt(
        "call log_msg (\"\", {meta.a + 9w0x1});",
        "Bit(8) is expected",
    );
    stmt("run drop(8w0x1);", "drop takes 0 arguments");
    stmt("run learn(8w0x1);", "Bit(9) is expected");
}

#[test]
fn actions_do_not_call_each_other_without_end() {
    let drop =
        |to: &str, message: &str| refused("call mark_to_drop ();", to, "action drop", message);
    drop("run drop();", "drop calls itself");
    drop("run 'ingress.set#1'(9w0x1, 8w0x1);", "calls itself");
    // Each action calls the next one twice: 2^40 statements.
    let doubling: String = (0..40)
        .map(|i| {
            format!(
                "action double{i}() {{\n run double{}(); run double{0}();\n}}\n",
                i + 1
            )
        })
        .chain(["action double40() {\n}\n".to_owned()])
        .collect();
    let text = SAMPLE.replace(
        "table ingress.choose",
        &format!("{doubling}table ingress.choose"),
    );
    check_refused(&read(&text).unwrap(), "action double0", "calls come to");
    // 2^15 statements for each action are accepted, but not forty times as many.
    let text = text.replace("run double16(); run double16();", "");
    let text = text.replace("meta.ok = !meta.ok;", &"run double1();\n".repeat(40));
    check_refused(
        &read(&text).unwrap(),
        "control ingress",
        "its stages come to",
    );
    let chain: String = (0..MAX_CALL_DEPTH + 1)
        .map(|i| format!("action chain{i}() {{\n run chain{}();\n}}\n", i + 1))
        .chain([format!("action chain{}() {{\n}}\n", MAX_CALL_DEPTH + 1)])
        .collect();
    let text = SAMPLE.replace(
        "table ingress.choose",
        &format!("{chain}table ingress.choose"),
    );
    check_refused(&read(&text).unwrap(), "action chain0", "deeper than 64");
}
