//! The verifier: one refused program for each rule, made from `sample.ir` by one change.

use bits::Value;
use ir::*;

const SAMPLE: &str = include_str!("sample.ir");

/// The sample with one piece of text replaced is refused, with this item and message among the errors.
fn refused(from: &str, to: &str, item: &str, message: &str) {
    assert_eq!(
        SAMPLE.matches(from).count(),
        1,
        "'{from}' is in the sample once"
    );
    let program = read(&SAMPLE.replace(from, to)).unwrap_or_else(|e| panic!("sample.ir:{e}"));
    check_refused(&program, item, message);
}

/// A statement in the place of one of the stage `ingress.code` is refused.
fn stmt(new: &str, message: &str) {
    refused(
        "meta.ok = !meta.ok;",
        new,
        "control ingress, stage ingress.code",
        message,
    );
}

/// A change that text cannot express is refused.
fn changed(change: impl FnOnce(&mut Program), item: &str, message: &str) {
    let mut program = read(SAMPLE).unwrap();
    change(&mut program);
    check_refused(&program, item, message);
}

fn check_refused(program: &Program, item: &str, message: &str) {
    let errors = verify(program).expect_err("the program breaks a rule");
    let found = errors
        .iter()
        .any(|e| e.item == item && e.message.contains(message));
    assert!(found, "'{item}: {message}' is not among {errors:#?}");
}

fn bit(width: u32, number: u128) -> Expr {
    Expr::Const(ScalarTy::Bit(width), Value::truncated(number, width))
}

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

#[test]
fn expressions_are_well_typed() {
    stmt("meta.a = meta.b + 9w0x1;", "Bit(8) is expected, not Bit(9)");
    stmt("meta.ok = meta.ok + meta.ok;", "not Bool");
    stmt(
        "meta.signed = meta.signed / meta.signed;",
        "bit<..> is expected",
    );
    stmt("meta.a = meta.a << meta.signed;", "bit<..> is expected");
    stmt("meta.ok = meta.a && meta.a;", "Bool is expected");
    stmt("meta.ok = meta.error < meta.error;", "not Error");
    stmt("meta.a = !meta.a;", "Bool is expected");
    stmt("meta.ok = ~meta.ok;", "not Bool");
    stmt("meta.a = meta.ok ++ meta.a;", "not Bool");
    stmt("meta.a = meta.a[8:1];", "no bits 8:1");
    stmt("meta.a = meta.a[1:2];", "no bits 1:2");
    stmt("meta.ok = bool(meta.a);", "does not become");
    stmt("meta.a = bit<8>(meta.error);", "does not become");
    stmt("meta.error = error(meta.color);", "does not become");
    stmt("meta.a = meta.a ? meta.a : meta.b;", "Bool is expected");
    stmt("meta.a = meta.ok ? meta.a : 9w0x1;", "Bit(8) is expected");
    stmt("meta.a = meta.ok;", "Bit(8) is expected, not Bool");
    stmt("meta.a[3:0] = meta.b;", "Bit(4) is expected");
    stmt("meta.a[8:1] = meta.b;", "no bits 8:1");
    stmt("meta.ok[0:0] = 1w0x1;", "not Bool");
    stmt("if (meta.a) {}", "Bool is expected");
    refused(
        "condition hdr.ethernet.$valid$",
        "condition meta.a",
        "control ingress, stage ingress.if",
        "Bool is expected",
    );
    let narrow = |p: &mut Program| {
        let kind = StmtKind::Assign(
            FieldId::new(0).into(),
            Expr::Const(ScalarTy::Bool, Value::zero(2)),
        );
        p.actions[ActionId::new(0)]
            .body
            .push(Stmt { kind, loc: None });
    };
    changed(narrow, "action NoAction", "a constant of 2 bits");
}

#[test]
fn varbits_are_data_only() {
    stmt(
        "meta.ok = hdr.options.data == hdr.more.data;",
        "varbit is not allowed",
    );
    stmt("varbit meta.a = hdr.more.data;", "a varbit is expected");
    stmt("clear meta.a;", "a varbit is expected");
    stmt(
        "meta.ok = varbit_eq(meta.a, meta.b);",
        "a varbit is expected",
    );
    stmt("meta.i = varbit_len(meta.i);", "a varbit is expected");
    stmt(
        "call random.read on dice (out hdr.options.data);",
        "varbit is not allowed",
    );
    refused(
        "port: lpm as PortId = meta.port",
        "port: lpm as PortId = hdr.options.data",
        "table ingress.forward",
        "varbit",
    );
    refused(
        "'odd param': bit<8>",
        "'odd param': varbit<8>",
        "action ingress.set#1",
        "varbit is not allowed",
    );
    refused(
        "(8w0x0, 1w0x1)",
        "(8w0x0, 1w0x1, 8w0x0)",
        "extern cells",
        "not as many",
    );
    refused(
        "register (bit<8>, bool)",
        "register (varbit<8>, bool)",
        "extern cells",
        "varbit is not allowed",
    );
}

#[test]
fn dims_reach_equal_fields_only() {
    let code = |place: &str, message| stmt(&format!("{place} = meta.array[0];"), message);
    code(
        "meta.array[0]{meta.i in 5 by 1}",
        "reach 'hdr.late.$valid$'",
    );
    code(
        "meta.array[0]{meta.i in 3 by 2}",
        "reach 'hdr.late.$valid$'",
    );
    code("meta.array[0]{meta.i in 0 by 1}", "empty or reach too far");
    code(
        "meta.array[0]{meta.i in 4000000000 by 0}",
        "empty or reach too far",
    );
    code(
        "meta.array[0]{meta.i in 2 by 4000000000}",
        "beyond all fields",
    );
    code(
        "meta.array[0]{meta.i in 2 by 2}{meta.i in 3 by 1}",
        "reach 'hdr.late.$valid$'",
    );
    code("meta.array[0]{meta.ok in 2 by 1}", "an index is bit<..>");
    stmt(
        "header hdr.vlan[0]{meta.i in 3 by 1} = hdr.vlan[0];",
        "another type or is out of line",
    );
    stmt(
        "header hdr.vlan[0]{meta.i in 99 by 1} = hdr.vlan[0];",
        "empty or reach too far",
    );
    stmt(
        "header hdr.vlan[1]{meta.i in 2 by 9} = hdr.vlan[0];",
        "beyond all headers",
    );
    // hdr.mid has the type of hdr.vlan and follows it, but not at its distance.
    let text = SAMPLE.replace(
        "field hdr.vlan.$next$: bit<32>\n",
        "field hdr.vlan.$next$: bit<32>\nheader hdr.mid: vlan_t\n",
    );
    let copy = "header hdr.vlan[0]{meta.i in 3 by 1} = hdr.vlan[0];";
    let program = read(&text.replace("meta.ok = !meta.ok;", copy)).unwrap();
    let item = "control ingress, stage ingress.code";
    check_refused(
        &program,
        item,
        "reach 'hdr.mid', which has another type or is out of line",
    );
}

#[test]
fn statements_stand_where_they_may() {
    for parsing in [
        "extract hdr.ethernet;",
        "advance meta.i;",
        "lookahead 8 (meta.a at 0);",
        "packet_length meta.i;",
        "verify meta.ok, error.NoMatch;",
        "fail error.NoMatch;",
    ] {
        stmt(parsing, "a statement of parsers");
    }
    refused(
        "packet_length meta.i;",
        "emit hdr.ethernet;",
        "parser MyParser, state options",
        "emit stands in a parser",
    );
    refused(
        "packet_length meta.i;",
        "run NoAction();",
        "parser MyParser, state options",
        "a parser runs an action",
    );
    // The action belongs to a table of ingress.
    refused(
        "call mark_to_drop ();",
        "emit_field meta.a;",
        "pipeline",
        "as only deparsers may",
    );
    refused(
        "meta.ok = !meta.ok;",
        "emit hdr.ethernet;",
        "pipeline",
        "as only deparsers may",
    );
}

#[test]
fn labels_are_unique_and_enclose() {
    stmt("leave 7;", "nothing around is labelled 7");
    stmt("leave 0;", "nothing around is labelled 0");
    stmt("continue 7;", "no loop around is labelled 7");
    stmt("block 7 { continue 7; }", "no loop around is labelled 7");
    stmt("block 0 { leave 0; }", "the label 0 is used twice");
    stmt(
        "loop 7 { loop 7 { leave 7; } }",
        "the label 7 is used twice",
    );
}

#[test]
fn nesting_is_bounded() {
    let deep = |p: &mut Program| {
        let mut e = Expr::Read(FieldId::new(0).into());
        let mut stmts = Vec::new();
        for _ in 0..=MAX_NESTING {
            e = Expr::Unary(UnOp::Not, Box::new(e));
            stmts = vec![Stmt {
                kind: StmtKind::Atomic(stmts),
                loc: None,
            }];
        }
        let kind = StmtKind::Assign(FieldId::new(0).into(), e);
        p.actions[ActionId::new(0)].body = vec![Stmt { kind, loc: None }];
        p.actions[ActionId::new(1)].body = stmts;
    };
    changed(deep, "action NoAction", "an expression is nested deeper");
    changed(deep, "action ingress.set#1", "statements are nested deeper");
}

#[test]
fn parsers_read_what_they_may() {
    let state = |from: &str, to: &str, message: &str| {
        refused(from, to, "parser MyParser, state options", message)
    };
    state(
        "extract hdr.options, 32w0x20;",
        "extract hdr.options;",
        "a size is given exactly",
    );
    state(
        "extract hdr.options, 32w0x20;",
        "extract hdr.ethernet, 32w0x20;",
        "a size is given exactly",
    );
    state(
        "extract hdr.options, 32w0x20;",
        "extract hdr.options, 8w0x20;",
        "Bit(32) is expected",
    );
    state(
        "meta.array[0] at 8",
        "meta.array[0] at 9",
        "bits up to 25 of 24",
    );
    state(
        "meta.array[0] at 8",
        "meta.array[0] at 4294967295",
        "bits up to 4294967295 of 24",
    );
    state("lookahead 24", "lookahead 131073", "131073 bits");
    state(
        "packet_length meta.i",
        "packet_length meta.a",
        "Bit(32) is expected",
    );
    state("advance 32w0x8", "advance 8w0x8", "Bit(32) is expected");
    let vlan = "parser MyParser, state vlan";
    refused(
        "verify hdr.vlan.$next$ < 32w0x3",
        "verify meta.a",
        vlan,
        "Bool is expected",
    );
    refused(
        "32w0x3, error.StackOutOfBounds",
        "32w0x3, meta.a",
        vlan,
        "Error is expected",
    );
}

#[test]
fn select_cases_fit_their_keys() {
    let start = |from: &str, to: &str, message: &str| {
        refused(from, to, "parser MyParser, state start", message)
    };
    start("(16w0x800, _)", "(16w0x800)", "1 sets for 2 keys");
    start("(16w0x800, _)", "(8w0x8, _)", "Bit(16) is expected");
    start("&&& 16w0xfff0", "&&& 8w0xf0", "Bit(16) is expected");
    start("9w0x1 .. 9w0x5", "9w0x1 .. 8w0x5", "Bit(9) is expected");
    start(
        "value_set types, (",
        "value_set pairs, (",
        "value set pairs has 2 fields",
    );
    start(
        "value_set pairs: reject",
        "value_set types: reject",
        "value set types has 1 fields",
    );
    start(
        "value_set pairs: reject",
        "value_set #9: reject",
        "no value set 9",
    );
    start(
        "select (hdr.ethernet.type, meta.port)",
        "select (meta.port, hdr.ethernet.type)",
        "is expected",
    );
}

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
    // 2^15 statements an action are few enough, but not forty times.
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
    // Through an action that the table's action runs.
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

#[test]
fn stages_link_by_every_action() {
    let forward = "control ingress, stage ingress.forward";
    refused(
        "(ingress.code, end, ingress.if)",
        "(ingress.code, end)",
        forward,
        "2 ways on for 3 actions",
    );
    refused(
        "hit meta.ok action_run",
        "hit meta.a action_run",
        forward,
        "Bool is expected",
    );
    refused(
        "action_run meta.i",
        "action_run meta.a",
        forward,
        "Bit(32) is expected",
    );
}

#[test]
fn blocks_and_transfers_fit() {
    refused(
        "block parser = parser MyParser",
        "block parser = control ingress",
        "pipeline",
        "wrong kind",
    );
    refused(
        "block ingress = control ingress",
        "block ingress = parser MyParser",
        "pipeline",
        "wrong kind",
    );
    refused(
        "block ingress =",
        "block deparser =",
        "pipeline",
        "two blocks",
    );
    refused(
        "block ingress = control ingress",
        "block ingress = control MyDeparser",
        "pipeline",
        "only deparsers",
    );
    refused(
        "block ingress = control ingress",
        "block ingress = control #9",
        "pipeline",
        "no control 9",
    );
    refused(
        "egress_spec = meta.port",
        "egress_spec = hdr.more.data",
        "pipeline",
        "varbit is not allowed",
    );
    refused(
        "-> (meta.b, meta.ok)",
        "-> (meta.b)",
        "pipeline",
        "differ in length",
    );
    refused(
        "-> (meta.b, meta.ok)",
        "-> (meta.b, meta.b)",
        "pipeline",
        "Bit(8) is expected",
    );
    refused(
        "field_list 1 (meta.a, meta.b)",
        "field_list 1 (meta.a, #999)",
        "pipeline",
        "no field 999",
    );
}

#[test]
fn expression_types_are_the_verifiers() {
    let program = read(SAMPLE).unwrap();
    let check = |e: Expr, ty| assert_eq!(e.ty(&program, None), Some(ty), "{e:?}");
    let a = || Box::new(bit(8, 1));
    check(Expr::Concat(a(), a()), ScalarTy::Bit(16));
    check(Expr::Slice(a(), 6, 2), ScalarTy::Bit(5));
    check(Expr::Binary(BinOp::Eq, a(), a()), ScalarTy::Bool);
    check(
        Expr::Binary(BinOp::Shl, a(), Box::new(bit(3, 1))),
        ScalarTy::Bit(8),
    );
    let place = HeaderPlace {
        base: HeaderId::new(1),
        dims: vec![Dim {
            index: bit(8, 0),
            len: 2,
            stride: 1,
        }],
    };
    assert_eq!(place.field_strides(&program), [3]);
}

#[test]
fn errors_are_told_up_to_a_hundred_with_their_places() {
    let many = "meta.a = meta.ok; @60:1\n".repeat(300);
    let program = read(&SAMPLE.replace("meta.ok = !meta.ok;", &many)).unwrap();
    let errors = verify(&program).unwrap_err();
    assert_eq!(errors.len(), 100);
    assert_eq!(
        errors[0].to_string(),
        "control ingress, stage ingress.code (60:1): Bit(8) is expected, not Bool"
    );
}

#[test]
fn ports_that_a_chain_copies_have_one_type() {
    let step = Step {
        name: "a".to_owned(),
        next: StepNext::End,
    };
    for name in ["standard_metadata.egress_port", "chain.egress_spec"] {
        let text = format!("{SAMPLE}\nintrinsic {name} = meta.wide\n");
        let mut program = read(&text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(verify(&program), Ok(()));
        program.pipeline.steps.push(step.clone());
        let message = format!("intrinsic {name}: Bit(9) is expected, not Bit(300)");
        check_refused(&program, "pipeline", &message);
    }
}

#[test]
fn steps_of_a_chain_lead_forward() {
    let step = |name: &str, next| Step {
        name: name.to_owned(),
        next,
    };
    let chain =
        |steps: Vec<Step>| move |p: &mut Program| p.pipeline.steps = steps.into_iter().collect();
    let to = |step| StepNext::Step(StepId::new(step));
    let pipeline = "pipeline";
    let back = vec![step("a", to(1)), step("b", to(1))];
    changed(chain(back), pipeline, "step b leads back");
    let nowhere = vec![step("a", to(7))];
    changed(chain(nowhere), pipeline, "there is no step 7");
    let twice = vec![step("a", to(1)), step("a", StepNext::End)];
    changed(chain(twice), pipeline, "two steps are called 'a'");
    let branch = StepNext::Branch {
        arms: vec![(FieldId::new(1), StepId::new(1))],
        otherwise: StepId::new(1),
    };
    let by_no_bool = vec![step("a", branch), step("b", StepNext::End)];
    changed(chain(by_no_bool), pipeline, "Bool is expected");
    let psa = |p: &mut Program| {
        p.arch = Arch::Psa;
        p.pipeline.steps.push(step("a", StepNext::End));
    };
    changed(psa, pipeline, "only programs for v1model");
    let stray = |p: &mut Program| p.pipeline.blocks[1].step = StepId::new(3);
    changed(stray, pipeline, "there is no step 3");
}
