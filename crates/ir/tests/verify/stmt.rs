//! Tests of statements.

use ir::*;

use crate::rig::*;

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
