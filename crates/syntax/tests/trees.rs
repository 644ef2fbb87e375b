//! Tests of syntax trees: expressions printed with explicit grouping, and a text with the whole
//! grammar.

mod common;

use common::print::{list, print, print_type};
use syntax::ast::{Decl, KeysetElement, Program, StmtKind, Transition};

/// Returns the last constant's initializer in `text`, printed.
fn expression(text: &str) -> String {
    let program = parse(&format!(
        "struct T {{ }} struct U<X> {{ }} const bit<8> v = 1; const int x = {text};"
    ));
    match program.decls.last() {
        Some(Decl::Const(decl)) => print(&decl.init),
        other => panic!("{other:?}"),
    }
}

fn parse(text: &str) -> Program {
    let parsed = common::parse(text);
    assert_eq!(common::said(&parsed), [""; 0], "{text}");
    parsed.program
}

fn check(text: &str, expect: &str) {
    assert_eq!(expression(text), expect, "{text}");
}

#[test]
fn operators_bind_as_the_grammar_says() {
    check("1 + 2 * 3 - 4", "((1 Add (2 Mul 3)) Sub 4)");
    check(
        "a || b && c == d < e | f ^ g & h << i + j",
        "(a LogicalOr (b LogicalAnd (c Eq (d Lt (e Or (f Xor (g And (h Shl (i Add j)))))))))",
    );
    check("a ++ b |+| c |-| d", "(((a Concat b) AddSat c) SubSat d)");
    check("a >> b > c >= d", "(((a Shr b) Gt c) Ge d)");
    check("-a.b[1] * !c - d", "(((Neg a.b[1]) Mul (Not c)) Sub d)");
    check("- - ~ + a", "(Neg (Neg (Complement (Plus a))))");
    check("a ? b : c + d", "(a ? b : (c Add d))");
    check("a ? b ? 1 : 2 : 3", "(a ? (b ? 1 : 2) : 3)");
    check("(a + b) * c", "((a Add b) Mul c)");
}

#[test]
fn casts_are_told_from_parentheses_by_the_names_in_scope() {
    check("(bit<8>) a + b", "((cast bit<8> a) Add b)");
    check("(T) - 1", "(cast T (Neg 1))");
    check("(v) - 1", "(v Sub 1)");
    check("(v)(1, w) + (v).a", "(v(1, w) Add v.a)");
    check("(T) {1, 2}", "(cast T {1, 2})");
    check("(U<bit>) (a)", "(cast U<bit> a)");
    check("(unknown) a", "(cast unknown a)");
    check("(tuple<bit<8>, T[4]>) a", "(cast tuple<bit<8>, T[4]> a)");
    check(
        "(bit<(8 > 4 ? 3 : 2)>) 1",
        "(cast bit<((8 Gt 4) ? 3 : 2)> 1)",
    );
    check("(bit<v + 1>) 1", "(cast bit<(v Add 1)> 1)");
}

#[test]
fn angle_brackets_are_told_from_comparisons() {
    check("a < b", "(a Lt b)");
    check("v < v > (3)", "((v Lt v) Gt 3)");
    check("f<bit<8>>(a)", "f<bit<8>>(a)");
    check("f<T>(a)", "f<T>(a)");
    check("f<_, list<U<T>>>(a)", "f<_, list<U<T>>>(a)");
    check("a.lookahead<bit<8>>()", "a.lookahead<bit<8>>()");
    check("a < (bit<8>) b", "(a Lt (cast bit<8> b))");
    check("U<bit<8>>(1)", "type U<bit<8>>(1)");
    check("(1 >> 2 < 3)", "((1 Shr 2) Lt 3)");
}

#[test]
fn a_local_name_hides_a_type_until_its_scope_ends() {
    let text = "struct N { } control c(inout bit<8> x) { action a(bit<8> N) { x = (N) - 1; } apply { x = (N) - 1; } }";
    let program = parse(text);
    let Some(Decl::Control(control)) = program.decls.last() else {
        panic!()
    };
    let Decl::Action(action) = &control.locals[0] else {
        panic!()
    };
    let assigned = |kind: &StmtKind| match kind {
        StmtKind::Assign(_, value) => print(value),
        other => panic!("{other:?}"),
    };
    assert_eq!(assigned(&action.body.stmts[0].kind), "(N Sub 1)");
    assert_eq!(assigned(&control.body.stmts[0].kind), "(cast N (Neg 1))");
}

#[test]
fn primary_expressions() {
    check("8w0xF_F", "8w16:FF");
    check("4s0b1_0", "4s2:10");
    check("0o17", "8:17");
    check("0d19", "19");
    check("1_000", "1000");
    check("\"a \\\"b\\\" \\\\ c\\nd\"", "\"a \\\"b\\\" \\\\ c\\nd\"");
    check(".a.b", ".a.b");
    check("{1, a, {}}", "{1, a, {}}");
    check("{1, 2, ...}", "{1, 2 ...}");
    check("{a = 1, b = {#}, ...}", "{a = 1, b = {#} ...}");
    check("{a = 1,}", "{a = 1}");
    check("...", "...");
    check("f(1, x = 2, _, y = _)", "f(1, x = 2, _, y = _)");
    check("a[7:0][1][0 +: 4]", "a[7:0][1][0 +: 4]");
    check("error.NoError", "type error.NoError");
    check("this.state.key", "this.state.key");
    check("f()(1).g", "f()(1).g");
}

#[test]
fn keysets_keep_their_elements() {
    let text = "parser p() { state start { transition select(a, b) {
        (1, _): x; (2 &&& 3, 4 .. 5): x; default: x; (default): x; (1 + 2) &&& 3: x; (bit<8>) 1: x; v: x; } } }";
    let program = parse(text);
    let Some(Decl::Parser(parser)) = program.decls.last() else {
        panic!()
    };
    let Transition::Select(select) = &parser.states[0].transition else {
        panic!()
    };
    let element = |e: &KeysetElement| match e {
        KeysetElement::Default(_) => "default".to_string(),
        KeysetElement::DontCare(_) => "_".to_string(),
        KeysetElement::Expr(e) => print(e),
    };
    let printed: Vec<_> = select
        .cases
        .iter()
        .map(|case| list(&case.keyset.elements, element))
        .collect();
    let expect = [
        "1, _",
        "(2 Mask 3), (4 Range 5)",
        "default",
        "default",
        "((1 Add 2) Mask 3)",
        "(cast bit<8> 1)",
        "v",
    ];
    assert_eq!(printed, expect);
}

#[test]
fn else_if_chains_nest_to_the_right() {
    let program = parse("control c() { apply { if (a) f(); else if (b) g(); else h(); } }");
    let Some(Decl::Control(control)) = program.decls.last() else {
        panic!()
    };
    let StmtKind::If(a, _, Some(second)) = &control.body.stmts[0].kind else {
        panic!()
    };
    let StmtKind::If(b, _, Some(third)) = &second.kind else {
        panic!()
    };
    assert!(matches!(third.kind, StmtKind::Call(_)));
    assert_eq!((print(a), print(b)), ("a".to_string(), "b".to_string()));
}

#[test]
fn declarators_may_have_sizes_behind_the_name() {
    let program = parse("struct s { bit<8> a[4]; bit<8>[4] b; }");
    let Some(Decl::Record(record)) = program.decls.last() else {
        panic!()
    };
    assert!(
        record
            .fields
            .iter()
            .all(|field| print_type(&field.ty) == "bit<8>[4]")
    );
}

#[test]
fn the_whole_grammar_parses() {
    let program = parse(include_str!("whole.p4"));
    assert_eq!(program.decls.len(), 25);
}

#[test]
fn contextual_keywords_are_names() {
    for word in [
        "apply", "key", "actions", "state", "entries", "type", "priority", "list",
    ] {
        parse(&format!(
            "struct s {{ bit<8> {word}; }} control c(inout s x) {{ bit<8> {word} = 1; apply {{ x.{word} = {word} + 1; {word} = 2; }} }}"
        ));
    }
}

#[test]
fn spans_lead_back_to_the_text() {
    let parsed = common::parse("const bit<8> one = 1 + 2;\n@x(y)\nconst bit two = f(one);\n");
    let text = |span| parsed.sources.text(span);
    let [Decl::Const(one), Decl::Const(two)] = parsed.program.decls.as_slice() else {
        panic!()
    };
    assert_eq!(text(one.span), "const bit<8> one = 1 + 2;");
    assert_eq!(text(one.init.span), "1 + 2");
    assert_eq!(text(two.name.span), "two");
    assert_eq!(text(two.annotations[0].span), "@x(y)");
    assert_eq!(text(two.init.span), "f(one)");
}

#[test]
fn a_block_of_c_keeps_its_text_and_position() {
    let text = "const bit<8> a = 1;\nextern \"C\" {\n#define A(x) (x)\nint a = A('\\'');\n}\n";
    let program = parse(text);
    let Some(Decl::Foreign(block)) = program.decls.last() else {
        panic!("{:?}", program.decls);
    };
    assert_eq!(&*block.text, "\n#define A(x) (x)\nint a = A('\\'');\n");
    // The position covers the braces, too.
    let length = (block.span.hi - block.span.lo) as usize;
    assert_eq!(length, block.text.len() + 2);
}
