//! Tests of P4 text: the structure that lines of stages get, and constructs without text.

use passes::p4::print;

/// Prints a program with this ingress control. `more` are declarations.
fn printed(more: &str, stages: &str) -> Result<String, passes::p4::PrintError> {
    let text = format!(
        "program p v1model
errors {{NoError, PacketTooShort, NoMatch, StackOutOfBounds, HeaderTooShort}}
header_type h_t {{
    a: bit<8>;
    b: bit<8>;
}}
header_type v_t {{
    data: varbit<32>;
}}
header hdr.h: h_t
header hdr.v: v_t
field meta.x: bit<8>
field meta.i: bit<32>
field standard_metadata.egress_spec: bit<9>
{more}
action NoAction() {{
}}
table Ingress.t {{
    key hdr.h.a: exact as bit<8> = hdr.h.a;
    action NoAction table_and_default;
    default NoAction();
    size 16 declared;
    largest_priority_wins;
}}
parser Parser start start {{
    state start {{
        extract hdr.h;
        goto accept;
    }}
}}
control Ingress {{
{stages}
}}
control Deparser {{
    stage Deparser.do: action next end {{
        emit hdr.h;
        emit hdr.v;
    }}
}}
block parser = parser Parser
block ingress = control Ingress
block deparser = control Deparser
intrinsic standard_metadata.egress_spec = standard_metadata.egress_spec
"
    );
    let program = ir::read(&text).expect("the IR is well formed");
    ir::verify(&program).expect("the IR is right");
    print(&program)
}

/// Checks the statements of the ingress control.
fn check(stages: &str, expected: &str) {
    let text = printed("", stages).expect("P4 has text for it");
    let (_, ingress) = text.split_once("control Ingress").expect("a control");
    let (_, apply) = ingress.split_once("    apply {\n").expect("its code");
    let (apply, _) = apply.split_once("\n    }\n").expect("its end");
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.trim().to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    };
    assert_eq!(lines(apply), lines(expected), "\n{apply}");
}

/// Checks the error for a construct.
fn check_error(more: &str, body: &str, construct: &str) {
    let stages = format!("stage Ingress.do @7:3: action next end {{\n{body}\n}}");
    let error = printed(&format!("file \"a.p4\"\n{more}"), &stages).expect_err("no text");
    assert!(error.construct.contains(construct), "{error}");
    assert!(error.place.contains("Ingress"), "{error}");
}

#[test]
fn a_link_behind_another_branch_needs_no_copy() {
    check(
        "stage a: condition hdr.h.a == 8w0x1 then b else d;
         stage b: condition hdr.h.b == 8w0x1 then c else e;
         stage c: match Ingress.t next d;
         stage d: action next e { meta.x = 8w0x1; }
         stage e: action next end { meta.x = meta.x + 8w0x1; }",
        "bool leaves = false;
         if (hdr.h.a == 8w1) {
             if (hdr.h.b == 8w1) {
                 t.apply();
             } else {
                 leaves = true;
             }
         }
         if (!leaves) {
             meta.x = 8w1;
         }
         meta.x = meta.x + 8w1;",
    );
}

#[test]
fn an_early_end_is_the_other_side_of_a_branch() {
    check(
        "stage a: condition hdr.h.a == 8w0x1 then b else c;
         stage b: action next end { meta.x = 8w0x1; }
         stage c: match Ingress.t next hit d miss end;
         stage d: action next end { meta.x = 8w0x2; }",
        "if (hdr.h.a == 8w1) {
             meta.x = 8w1;
         } else if (t.apply().hit) {
             meta.x = 8w2;
         }",
    );
}

#[test]
fn code_after_a_chain_of_branches_runs_after_each_that_reaches_it() {
    check(
        "stage a: action next end {
             block 0 {
                 if (hdr.h.a == 8w0x1) {
                     meta.x = 8w0x1;
                 }
                 else {
                     if (hdr.h.a == 8w0x2) { leave 0; }
                 }
                 meta.x = meta.x + 8w0x1;
             }
             meta.i = 32w0x1;
         }",
        "bool leaves = false;
         if (hdr.h.a == 8w1) {
             meta.x = 8w1;
         } else if (hdr.h.a == 8w2) {
             leaves = true;
         }
         if (!leaves) {
             meta.x = meta.x + 8w1;
         }
         meta.i = 32w1;
         if (true) {
             return;
         }
         t.apply();",
    );
}

#[test]
fn a_backward_link_is_a_loop() {
    check(
        "stage a: condition meta.i < 32w0x4 then b else c;
         stage b: match Ingress.t next d;
         stage d: action next a { meta.i = meta.i + 32w0x1; }
         stage c: action next end { meta.x = 8w0x2; }",
        "for (; meta.i < 32w4; ) {
             t.apply();
             meta.i = meta.i + 32w1;
         }
         meta.x = 8w2;",
    );
}

#[test]
fn a_jump_out_of_two_loops_has_a_flag() {
    check(
        "stage a: action next end {
             block 0 {
                 loop 1 {
                     loop 2 {
                         if (meta.x == 8w0x1) { leave 0; }
                         if (meta.x == 8w0x2) { leave 2; }
                         meta.x = meta.x + 8w0x1;
                     }
                     meta.x = meta.x + 8w0x3;
                 }
             }
             meta.x = 8w0x0;
         }",
        "bool leaves = false;
         for (; true; ) {
             for (; true; ) {
                 if (meta.x == 8w1) {
                     leaves = true;
                     break;
                 } else if (meta.x == 8w2) {
                     break;
                 } else {
                     meta.x = meta.x + 8w1;
                 }
             }
             if (leaves) {
                 break;
             }
             meta.x = meta.x + 8w3;
         }
         meta.x = 8w0;
         if (true) {
             return;
         }
         t.apply();",
    );
}

#[test]
fn a_construct_without_text_is_an_error_with_its_place() {
    check_error(
        "",
        "meta.i = varbit_len(hdr.v.data);",
        "the length of a `varbit`",
    );
    check_error("", "clear hdr.v.data;", "an empty `varbit`");
    check_error(
        "extern Ingress.h: hash width 32 crc32",
        "call hash.get on Ingress.h ({meta.x}, out meta.i);",
        "a hash engine",
    );
    check_error("", "call drop_packet ();", "the operation `drop_packet`");
}

#[test]
fn another_architecture_has_no_text() {
    let program = ir::Program::empty("p", ir::Arch::Psa);
    let error = print(&program).expect_err("no text");
    assert_eq!(error.construct, "another architecture");
}
