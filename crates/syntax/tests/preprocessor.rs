//! Tests of the preprocessor: the remaining declarations, and the diagnostics.

mod common;

use syntax::ast::{AnnotationBody, Decl};
use syntax::files::FileSystem;

/// Returns the tokens in `@t(..)` of the last declaration, separated by blanks.
fn expand(text: &str) -> String {
    let parsed = common::parse(text);
    assert!(
        common::said(&parsed).is_empty(),
        "{text}\n{:#?}",
        common::said(&parsed)
    );
    let Some(Decl::Const(last)) = parsed.program.decls.last() else {
        panic!("no constant at the end of\n{text}")
    };
    let AnnotationBody::Tokens(tokens) = &last.annotations[0].body else {
        panic!("no tokens in\n{text}")
    };
    tokens
        .iter()
        .map(|t| &*t.text)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Checks the expansion of `text` with `definitions`.
fn check(definitions: &str, text: &str, expect: &str) {
    let program = format!("{definitions}\n@t({text}) const bit x = 1;\n");
    assert_eq!(expand(&program), expect, "{program}");
}

/// Checks the names of the remaining constants.
fn check_kept(text: &str, expect: &str) {
    let parsed = common::parse(text);
    assert!(
        common::said(&parsed).is_empty(),
        "{text}\n{:#?}",
        common::said(&parsed)
    );
    let names = parsed.program.decls.iter().filter_map(|decl| match decl {
        Decl::Const(decl) => Some(decl.name.as_str()),
        _ => None,
    });
    assert_eq!(names.collect::<Vec<_>>().join(" "), expect, "{text}");
}

/// Checks the diagnostics, without the file's name.
fn check_said(text: &str, expect: &[&str]) {
    let said = common::said(&common::parse(text));
    assert_eq!(said.len(), expect.len(), "{text:.200}\n{said:#?}");
    for (said, expect) in said.iter().zip(expect) {
        let (place, message) = expect.split_once(' ').unwrap();
        assert!(
            said.contains(&format!(":{place}:").replace("::", ":")) && said.contains(message),
            "{text:.200}\n{said}\n{expect}"
        );
    }
}

#[test]
fn tokens_that_make_no_single_one_together_stay_side_by_side() {
    check("#define C(a, b) a##b", "C(x, =) C(=, x)", "x = = x");
    check("#define C(a, b) a##b##(1)", "C(f, 0)", "f0 ( 1 )");
}

#[test]
fn lines_that_are_no_directives_are_passed_over() {
    check_said(
        "# send it's \"all\n# (more\nconst bit<1> x = 1;\n",
        &["1:1 `#send` is no directive", "2:1 `#(` is no directive"],
    );
    check_said("#if 0\n# send it's\n#endif\n", &[]);
}

#[test]
fn object_like_macros_are_replaced_and_looked_at_again() {
    check("#define A B\n#define B 1 + 2", "A * A", "1 + 2 * 1 + 2");
    check("#define EMPTY", "a EMPTY b", "a b");
    check("#define W 8\n#undef W", "W", "W");
    check(
        "#define LONG 1 \\\n  + 2 /* three\n  lines */ + 3",
        "LONG",
        "1 + 2 + 3",
    );
    check("#define state hello", "state", "hello");
}

#[test]
fn a_macro_is_not_expanded_in_itself() {
    check("#define A A + 1", "A", "A + 1");
    check("#define A B\n#define B A", "A B", "A B");
    check(
        "#define f(x) x + f(x)",
        "f(f(1))",
        "1 + f ( 1 ) + f ( 1 + f ( 1 ) )",
    );
}

#[test]
fn function_like_macros_take_arguments() {
    check(
        "#define MAX(a, b) ((a) > (b) ? (a) : (b))",
        "MAX(x, f(y, z))",
        "( ( x ) > ( f ( y , z ) ) ? ( x ) : ( f ( y , z ) ) )",
    );
    check(
        "#define F(x) [x]",
        "F F (1) F\n(2) F()",
        "F [ 1 ] [ 2 ] [ ]",
    );
    check("#define F() none", "F() F", "none F");
    check("#define NOT (x) y", "NOT", "( x ) y");
    check(
        "#define APPLY(f, x) f(x)\n#define INC(x) x + 1",
        "APPLY(INC, 2)",
        "2 + 1",
    );
    check(
        "#define ID(x) x\n#define L (",
        "ID(ID(1) ID L 2))",
        "1 ID ( 2 )",
    );
}

#[test]
fn hash_makes_strings_and_double_hash_makes_tokens() {
    check("#define S(x) #x", "S(a + \"q\\\\\"   b)", "a + \"q\\\\\" b");
    check(
        "#define CAT(a, b) a##b",
        "CAT(foo, 1) CAT(8w, 0xff) CAT(, x) CAT(x,) CAT(<, <)",
        "foo1 8w0xff x x <<",
    );
    check(
        "#define HEX(d) 0x##d\n#define W(n, v) n##w##v",
        "HEX(ff) W(16, 7)",
        "0xff 16w7",
    );
    check(
        "#define X one\n#define CAT(a, b) a##b\n#define XCAT(a, b) CAT(a, b)",
        "CAT(X, X) XCAT(X, X)",
        "XX oneone",
    );
    check(
        "#define S(x) #x\n#define X one\n#define T(x) S(x)",
        "S(X) T(X)",
        "X one",
    );
}

#[test]
fn variadic_macros_pass_the_rest_on() {
    check(
        "#define V(f, ...) f(__VA_ARGS__)",
        "V(g, 1, 2) V(g) V(g,)",
        "g ( 1 , 2 ) g ( ) g ( )",
    );
    check(
        "#define V(f, ...) f(0, ## __VA_ARGS__)",
        "V(g, 1, 2) V(g)",
        "g ( 0 , 1 , 2 ) g ( 0 )",
    );
    check("#define V(rest...) [rest]", "V(1, 2)", "[ 1 , 2 ]");
}

#[test]
fn file_and_line_are_known() {
    check("", "__FILE__ __LINE__", "t.p4 2");
    check("#line 40 \"other.p4\"", "__FILE__ __LINE__", "other.p4 40");
}

#[test]
fn conditions_are_c_expressions() {
    let holds = |condition: &str| {
        let text = format!(
            "#define ONE 1\n#if {condition}\nconst bit y = 1;\n#else\nconst bit n = 1;\n#endif\n"
        );
        check_kept(&text, "y");
    };
    for condition in [
        "1",
        "!0",
        "ONE",
        "defined ONE && defined(ONE)",
        "!defined TWO",
        "UNKNOWN == 0",
        "1 + 2 * 3 == 7",
        "(1 + 2) * 3 == 9",
        "-1 < 0",
        "~0 == -1",
        "7 / 2 == 3 && 7 % 2 == 1",
        "1 << 4 == 16",
        "256 >> 4 == 16",
        "0x1F == 31",
        "010 == 8",
        "5UL == 5",
        "0b101 == 5",
        "1 ? 2 : 0",
        "0 ? 0 : 1 ? 1 : 0",
        "0 && 1 / 0 || 1",
        "(1 | 2 ^ 2 & 3) == 1",
        "1 || 1 / 0",
        "true",
        "!false",
        "3 >= 3 && 3 <= 3 && 3 != 4",
        "__LINE__ == 2",
    ] {
        holds(condition);
    }
    check_said("#if 1 / 0\n#endif\n", &["1:7 division by zero"]);
    check_said("#if 1 +\n#endif\n", &["1:7 ends too early"]);
    check_said("#if\n#endif\n", &["1:1 the condition is missing"]);
    check_said("#if (1\n#endif\n", &["1:6 ends too early"]);
    check_said("#if 1 2\n#endif\n", &["1:7 unexpected `2`"]);
    check_said("#if defined\n#endif\n", &["1:5 `defined` needs a name"]);
    check_said(
        &format!("#if {}1\n#endif\n", "(".repeat(100_000)),
        &["1: nested more than"],
    );
    check_said(
        &format!("#if {}1\n#endif\n", "1 ? 1 : ".repeat(100_000)),
        &["1: nested more than"],
    );
}

#[test]
fn one_group_of_a_conditional_is_kept() {
    let chain = |a: u8, b: u8| {
        format!(
            "#if {a}\nconst bit a = 1;\n#elif {b}\nconst bit b = 1;\n#else\nconst bit c = 1;\n#endif\nconst bit d = 1;\n"
        )
    };
    check_kept(&chain(1, 1), "a d");
    check_kept(&chain(0, 1), "b d");
    check_kept(&chain(0, 0), "c d");
    check_kept(
        "#ifdef X\n#if 1\nconst bit a = 1;\n#else\n#endif\n#else\nconst bit b = 1;\n#endif\n",
        "b",
    );
    check_kept(
        "#ifndef X\n#define X\nconst bit a = 1;\n#endif\n#ifndef X\nconst bit b = 1;\n#endif\n",
        "a",
    );
    check_kept(
        "#if 0\nan unfinished \"string and ' /* a comment with\n#endif\n in it */\n#unknown\n#error no\n#endif\nconst bit a = 1;\n",
        "a",
    );
    check_kept(
        "  #  if 1 // comment\nconst bit a = 1;\n # endif /* comment */\n",
        "a",
    );
}

#[test]
fn conditionals_must_be_balanced() {
    check_said("#if 1\n\n", &["1:1 this conditional has no `#endif`"]);
    check_said(
        "#if 0\nconst bit x = 1;\n",
        &["1:1 this conditional has no `#endif`"],
    );
    check_said(
        "#endif\n#else\n",
        &["1:1 `#endif` without `#if`", "2:1 `#else` without `#if`"],
    );
    check_said(
        "#if 0\n#else\n#elif 1\n#endif\n",
        &["3:1 `#elif` after `#else`"],
    );
    check_said(
        "#if 1\n#else\n#else\n#endif\n",
        &["3:1 `#else` after `#else`"],
    );
}

#[test]
fn mistakes_in_directives_are_located() {
    check_said("#inclde <core.p4>\n", &["1:1 `#inclde` is no directive"]);
    check_said("#define 5\n", &["1:9 `5` cannot be a macro's name"]);
    check_said("#define\n", &["1:1 a macro's name is missing"]);
    check_said("#define F(a, a) a\n", &["1:14 parameters of a macro"]);
    check_said("#define F(a\n", &["1:11 parameters of a macro"]);
    check_said("#define F(a) #b\n", &["1:14 must stand before a parameter"]);
    check_said("#define A ## b\n", &["1:11 needs a token on either side"]);
    check_said(
        "#define F(a, b) a b\nF(1)\n#undef F\n",
        &["2:1 takes 2 arguments, but 1 is given"],
    );
    check_said(
        "#define F(a) a\nF(1, 2)\n",
        &["2:1 takes 1 argument, but 2 are given"],
    );
    check_said("#define F(a) a\nF(1\n", &["2:1 has no `)`"]);
    check_said(
        "#define A 1\n#define A 1\n#define A 2\n",
        &["3:9 gets another definition"],
    );
    check_said(
        "#error stop, don't\n#warning look \"out\n",
        &["1:1 #error stop, don't", "2:1 #warning look \"out"],
    );
    check_said("#line x\n", &["1:1 not a line directive"]);
    check_said("#pragma anything \"at all\n", &[]);
}

#[test]
fn line_directives_move_what_is_reported() {
    check_said(
        "#line 40 \"other.p4\"\nconst bit = 1;\n",
        &["40:11 expected a name"],
    );
    check_said(
        "# 7 \"other.p4\" 2\nconst bit = 1;\n",
        &["7:11 expected a name"],
    );
}

#[test]
fn tokens_of_a_macro_stand_where_it_is_used() {
    check_said(
        "#define BAD = ;\n\nconst bit x BAD\n",
        &["3:13 expected an expression"],
    );
}

#[test]
fn expansions_are_bounded() {
    let mut text = String::from("#define A0 x x x x x x x x x x\n");
    for i in 1..30 {
        text += &format!(
            "#define A{i} A{p} A{p} A{p} A{p} A{p} A{p} A{p} A{p} A{p} A{p}\n",
            p = i - 1
        );
    }
    let said = common::said(&common::parse(&(text + "@t(A29) const bit x = 1;\n")));
    assert!(
        said.len() == 1 && said[0].contains("expand to more than"),
        "{said:?}"
    );
    let twice = "#define D(x) x x\n#define C(a, b) a##b\n#define P(x) C(x, x)\n#define S(x) #x\n#define T(x) S(x)\n";
    for name in ["D", "P", "T"] {
        let call = |n: usize| {
            format!(
                "{twice}@t({}\"\\\\\"{}) const bit x = 1;\n",
                format!("{name}(").repeat(n),
                ")".repeat(n)
            )
        };
        let text = call(90).replace("\"\\\\\"", if name == "T" { "\"\\\\\"" } else { "a" });
        let said = common::said(&common::parse(&text));
        assert!(
            said.iter()
                .any(|s| s.contains("expand to more than")
                    || s.contains("makes a string of more than")),
            "{name} {said:?}"
        );
        let said = common::said(&common::parse(&call(1000).replace("\"\\\\\"", "a")));
        assert!(
            said.iter().any(|s| s.contains("nested more than")),
            "{name} {said:?}"
        );
    }
}

#[test]
fn includes_are_found_beside_the_file_then_in_the_directories_then_built_in() {
    let root = std::env::temp_dir().join(format!("polyplane-include-{}", std::process::id()));
    let write = |name: &str, text: &str| {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    };
    write("own/near.p4", "const bit near = 1;\n");
    write("own/both.p4", "const bit own_both = 1;\n");
    write("dir/both.p4", "const bit dir_both = 1;\n");
    write("dir/sub/deep.p4", "#include \"deeper.p4\"\n");
    write("dir/sub/deeper.p4", "const bit deeper = 1;\n");
    write("dir/guarded.p4", "#pragma once\nconst bit guarded = 1;\n");
    let run = |text: &str| {
        let path = write("own/main.p4", text);
        let files = FileSystem {
            include_dirs: vec![root.join("dir")],
        };
        let parsed = syntax::parse_file(&path, &files, &common::options());
        let names = parsed.program.decls.iter().filter_map(|decl| match decl {
            Decl::Const(decl) => Some(decl.name.as_str()),
            _ => None,
        });
        (
            names.collect::<Vec<_>>().join(" "),
            parsed.diagnostics.render(&parsed.sources, false),
        )
    };
    let kept = |text: &str, expect: &str| {
        let (names, said) = run(text);
        assert_eq!((names.as_str(), said.as_str()), (expect, ""), "{text}");
    };
    kept(
        "#include \"near.p4\"\n#include \"both.p4\"\n",
        "near own_both",
    );
    kept("#include <both.p4>\n", "dir_both");
    kept("#include \"sub/deep.p4\"\n", "deeper");
    kept(
        "#include <guarded.p4>\n#include \"guarded.p4\"\n#include <twice.p4>\n#include <twice.p4>\n",
        "guarded twice",
    );
    kept("#include <core.p4>\n", "");
    kept(
        "#define WHERE <sub/deep.p4>\n#include WHERE\n#define NEAR \"near.p4\"\n#include NEAR\n",
        "deeper near",
    );
    write("dir/core.p4", "const bit my_core = 1;\n");
    kept("#include <core.p4>\n", "my_core");

    let (_, said) = run("const bit a = 1;\n#include \"naer.p4\"\n");
    assert!(
        said.contains("main.p4:2:10: error[E0010]: cannot find the file `naer.p4`"),
        "{said}"
    );
    assert!(
        said.contains("searched: ") && said.contains("/own`") && said.contains("/dir`"),
        "{said}"
    );
    assert!(said.contains("= hint: did you mean `near.p4`?"), "{said}");
    let (_, said) = run("#include <core.p5>\n");
    assert!(said.contains("did you mean `core.p4`?"), "{said}");
    let (_, said) = run("#include <entirely_else.p4>\n");
    assert!(said.contains("with `-I DIRECTORY`"), "{said}");
    let (_, said) = run("#include core.p4\n");
    assert!(said.contains("this include names no file"), "{said}");
    let (_, said) = run("#include <itself.p4>\n");
    assert!(said.contains("is included 64 files deep"), "{said}");
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn the_command_line_defines_and_undefines() {
    let mut options = common::options();
    options.defines = vec![
        ("A".into(), "1".into()),
        ("F(x)".into(), "x + 1".into()),
        ("GONE".into(), "1".into()),
    ];
    options.undefs = vec!["GONE".into()];
    let text = "#if A == 1 && !defined GONE\nconst bit y = F(2);\n#endif\n";
    let parsed = syntax::parse_str("t.p4", text, &options);
    assert!(common::said(&parsed).is_empty() && parsed.program.decls.len() == 1);
    options.defines = vec![("1x".into(), "1".into())];
    let said = common::said(&syntax::parse_str("t.p4", text, &options));
    assert!(said[0].starts_with("<command line>:1:9: error"), "{said:?}");
}
