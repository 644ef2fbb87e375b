//! Tests of diagnostics. A line of a snippet with an error ends with `//~ text`: an error on that
//! line must contain the text.

mod common;

use syntax::files::FileSystem;

/// Checks that every `//~` has an error on its line, and that there are no other diagnostics.
fn check(snippet: &str) {
    let parsed = common::parse(snippet);
    let said = common::said(&parsed);
    let wanted: Vec<(usize, &str)> = snippet
        .lines()
        .enumerate()
        .filter_map(|(i, line)| Some((i + 1, line.split_once("//~")?.1.trim())))
        .collect();
    let is_answered = |&(line, text): &(usize, &str)| {
        said.iter()
            .any(|s| s.starts_with(&format!("t.p4:{line}:")) && s.contains(text))
    };
    let missing: Vec<_> = wanted.iter().filter(|w| !is_answered(w)).collect();
    let is_wanted = |s: &&String| {
        wanted
            .iter()
            .any(|(line, text)| s.starts_with(&format!("t.p4:{line}:")) && s.contains(text))
    };
    let surplus: Vec<_> = said.iter().filter(|s| !is_wanted(s)).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "in\n{snippet}\nmissing {missing:?}\nsurplus {surplus:#?}"
    );
}

#[test]
fn a_missing_semicolon_is_reported_where_the_next_token_stands() {
    check("const bit<8> a = 1\nconst bit<8> b = 2; //~ expected `;`, found `const`\n");
}

/// Returns the diagnostics as text.
fn text(snippet: &str) -> String {
    let parsed = common::parse(snippet);
    parsed.diagnostics.render(&parsed.sources, false)
}

#[test]
fn a_missing_brace_is_told_once_with_the_brace_that_is_open() {
    // The innermost brace, if the indentation does not say otherwise.
    let snippet = "header h {\n    bit<8> x;\nheader g { }\nheader i { }\n";
    let expect = "\
t.p4:3:1: error[E0120]: syntax error: expected a type, found `header`
3 | header g { }
  | ^^^^^^
1 | header h {
  |          - this `{` has no `}`
";
    assert_eq!(text(snippet), expect);
    // The brace that the next `}` skips.
    let snippet = "control c(inout bit<8> x) {\n    apply {\n        if (x == 1) {\n            x = 2;\n    }\n}\nconst bit a = 1;\n";
    let said = text(snippet);
    assert!(
        said.contains("3 |         if (x == 1) {\n  |                     - this `{` has no `}`"),
        "{said}"
    );
    assert_eq!(said.matches("error[").count(), 1, "{said}");
    // Earlier lines with careless indentation do not matter.
    let snippet = "control c() { apply {\n  if (true) {\n} } }\nparser p(packet_in b) {\n    state start {\n        transition accept;\n    }\n";
    let said = text(snippet);
    assert!(
        said.contains(
            "4 | parser p(packet_in b) {\n  |                       - this `{` has no `}`"
        ),
        "{said}"
    );
}

#[test]
fn a_type_is_no_width() {
    check("extern e<W> { bit<W> f(); } //~ the width of `bit<W>` is a number, but `W` is a type\n");
    check("void f<W>(in tuple<int<W>> x) { } //~ the width of `int<W>` is a number\n");
    check("const bit<32> W = 8;\nconst bit<W> x = 1;\nconst bit<(W + 1)> y = 1;\n");
    let said = text("extern void f<W>(in bit<W> x);\n");
    assert!(
        said.contains(
            "hint: a type parameter stands for the whole type: write `W` in place of `bit<W>`"
        ),
        "{said}"
    );
}

#[test]
fn a_file_that_includes_itself_is_one_mistake() {
    let said = text("#include <itself_twice.p4>\nconst bit a = ;\n");
    assert_eq!(said.matches("error[").count(), 1, "{said}");
    assert!(
        said.contains("`itself_twice.p4` is included 64 files deep"),
        "{said}"
    );
}

#[test]
fn a_long_line_is_shown_around_the_mistake() {
    let many = "x = x + 1; ".repeat(100);
    let line = format!("control c(inout bit<8> x) {{ apply {{ {many}x = ; {many}}} }}\n");
    let said = text(&line);
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[1].starts_with("1 | ...") && lines[1].ends_with("...") && lines[1].len() < 160,
        "{said}"
    );
    let at = lines[2].find('^').expect("the place is marked");
    assert!(lines[1][at..].starts_with("; x = x + 1;"), "{said}");
    let short = "const bit<8> xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx = ; // until the hundredth column\n";
    assert!(
        text(short).contains("until the hundredth column"),
        "{}",
        text(short)
    );
}

#[test]
fn several_mistakes_are_reported_in_one_run() {
    check(
        "control c(inout bit<8> x) {
    action a( { } //~ expected a type
    apply {
        x = ; //~ expected an expression, found `;`
        x = 1;
        if x { } //~ expected `(`
    }
}
struct s {
    bit<8> 5; //~ expected a name
    bit<8> good;
}
",
    );
}

#[test]
fn types_are_no_values() {
    check(
        "parser p<H>(in bit<16> b, out H h) { bool v; state start { v = b > H; } } //~ behind the type `H`\n",
    );
    check("const bit<32> x = bit; //~ expected an expression, found `bit`\n");
    check("control c<H>(bool v);\npackage p<H>(c<H> v = c(H > 3)); //~ behind the type `H`\n");
}

#[test]
fn reserved_words_and_the_underscore_are_no_names() {
    check("const bit _ = 1; //~ expected a name, found `_`\n");
    check("const bit table = 1; //~ this word is reserved\n");
    check("header h { bit<8> _; } //~ expected a name\n");
    check("control c() { table t { actions = { default; } } apply {} } //~ expected an action\n");
}

#[test]
fn only_the_lists_of_the_grammar_may_end_with_a_comma() {
    check("enum E { a, b, }\nmatch_kind { c, }\n");
    check("error { a, b, } //~ expected a name, found `}`\n");
    check("control c(bit<8> a,) { apply {} } //~ expected a type\n");
    check("control c() { apply { f(1,); } } //~ expected an expression\n");
}

#[test]
fn variables_live_in_blocks_only() {
    check("bit<8> x; //~ no variables at the top level\n");
    check("bit<8> x = 1; //~ no variables at the top level\n");
}

#[test]
fn a_parser_state_has_no_control_flow() {
    check("parser p() { state start { return; } } //~ a statement that a parser state may have\n");
    check(
        "parser p() { state start { { exit; } } } //~ a statement that a parser state may have\n",
    );
    check("parser p() { state start { if (true) { } transition accept; } }\n");
    check("parser p() { } //~ at least one state\n");
}

#[test]
fn statements_must_be_assignments_or_calls() {
    check("control c(inout bit<8> a) { apply { a; } } //~ expected `=`\n");
    check("control c() { apply { { a, b } //~ found `,`\n = f(); } } //~ expected a statement\n");
    check("control c() { apply { t.apply()(); } } //~ expected `;`, found `(`\n");
    check(
        "control c() { apply { for (i in 1..6) { } } } //~ a type in front of the loop's variable\n",
    );
    check("control c() { apply { if (true) bit<8> x; } } //~ needs braces\n");
}

#[test]
fn table_properties_have_their_own_shapes() {
    check("control c() { table t { const actions = { } } apply {} } //~ cannot be `const`\n");
    check("control c() { table t { key = 5; } apply {} } //~ expected `{`\n");
    check("control c() { table t { } apply {} } //~ at least one property\n");
}

#[test]
fn extern_methods_have_a_return_type_and_constructors_their_name() {
    check("extern Y { Y<T>(in T a); } //~ expected a name\n");
    check("extern Z { m(); } //~ is not the constructor of `Z`\n");
}

#[test]
fn structured_annotations_do_not_mix() {
    check("@a[k = 4, 5] //~ expected a name\nextern e {}\n");
    check("@a[4, k = 5] //~ expected `,` or `]`\nextern e {}\n");
    check("@a[1, 2 + 3, \"x\"] @b[k = 1] @c[] @d(any (tokens) ; $ 'x) extern e {}\n");
}

#[test]
fn numbers_are_checked() {
    check("const bit<8> x = 0x_; //~ no digits\n");
    check("const bit<8> x = 8w0xFG; //~ `G` is no digit of a number in base 16\n");
    check("const bit<8> x = 8w; //~ no digits\n");
    check("const bit<8> x = 99999999999w1; //~ too large\n");
    check("const bit<8> x = 0b1_0; const bit<8> y = 8w0o17; const int z = 4s0d3;\n");
}

#[test]
fn strings_and_comments_must_end() {
    let said = common::said(&common::parse("@a(\"x\n\ny) extern e {}\n"));
    assert!(
        said[0].starts_with("t.p4:1:4: error[E0100]: this string has no end"),
        "{said:?}"
    );
    let said = common::said(&common::parse("const bit x = 1;\n/* for ever\n"));
    assert_eq!(said, ["t.p4:2:1: error[E0101]: this comment has no end"]);
}

#[test]
fn the_end_of_the_program_is_where_its_last_token_ends() {
    let said = common::said(&common::parse("   x\n\n\n"));
    assert_eq!(said.len(), 1);
    assert!(
        said[0].starts_with("t.p4:1:5:") && said[0].contains("the end of the program"),
        "{said:?}"
    );
}

#[test]
fn programs_in_p4_14_are_recognised() {
    check(
        "header_type h { fields { a : 8; } } //~ this looks like P4_14\nparser start { return ingress; }\n",
    );
    check("control ingress { apply(t); } //~ this looks like P4_14\n");
}

#[test]
fn nesting_is_bounded_and_so_are_chains() {
    let deep = |open: &str, close: &str, n: usize| {
        format!("const bit x = {}1{};\n", open.repeat(n), close.repeat(n))
    };
    for (open, close) in [
        ("(", ")"),
        ("-", ""),
        ("{", "}"),
        ("f(", ")"),
        ("a[", "]"),
        ("(bit<8>)", ""),
        ("true ? 1 : ", ""),
    ] {
        assert!(
            common::said(&common::parse(&deep(open, close, 50))).is_empty(),
            "{open}"
        );
        let said = common::said(&common::parse(&deep(open, close, 100_000)));
        assert!(
            said.len() == 1 && said[0].contains("nested more than"),
            "{open} {said:?}"
        );
    }
    for operator in ["+", "&&", "++", "<", "<<"] {
        let chain = |n: usize| format!("const bit x = 1{};\n", format!(" {operator} a").repeat(n));
        assert!(
            common::said(&common::parse(&chain(3000))).is_empty(),
            "{operator}"
        );
        let said = common::said(&common::parse(&chain(100_000)));
        assert!(
            said.len() == 1 && said[0].contains("in a chain"),
            "{operator} {said:?}"
        );
    }
    for suffix in [".a", "[0]", "()"] {
        let said = common::said(&common::parse(&format!(
            "const bit x = a{};\n",
            suffix.repeat(100_000)
        )));
        assert!(
            said.len() == 1 && said[0].contains("in a chain"),
            "{suffix} {said:?}"
        );
    }
    let blocks = format!(
        "control c() {{ apply {{ {} {} }} }}",
        "{".repeat(100_000),
        "}".repeat(100_000)
    );
    assert!(common::said(&common::parse(&blocks))[0].contains("nested more than"));
    let branches = |n: usize| {
        format!(
            "control c() {{ apply {{ {} {{ }} }} }}",
            "if (a) { } else ".repeat(n)
        )
    };
    assert!(common::said(&common::parse(&branches(900))).is_empty());
    assert!(common::said(&common::parse(&branches(100_000)))[0].contains("branches"));
    let types = format!(
        "const {}bit{} x = 1;",
        "tuple<".repeat(100_000),
        ">".repeat(100_000)
    );
    assert!(!common::said(&common::parse(&types)).is_empty());
}

#[test]
fn a_flood_of_errors_is_cut_off() {
    let parsed = common::parse(&"const bit = ;\n".repeat(10_000));
    assert!(parsed.diagnostics.error_count() <= 200);
    assert!(
        parsed
            .diagnostics
            .render(&parsed.sources, false)
            .ends_with("more errors\n")
    );
}

#[test]
fn files_that_are_no_text_are_refused() {
    let directory = std::env::temp_dir().join(format!("polyplane-syntax-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let said = |name: &str, bytes: &[u8]| {
        let path = directory.join(name);
        std::fs::write(&path, bytes).unwrap();
        common::said(&syntax::parse_file(
            &path,
            &FileSystem::default(),
            &common::options(),
        ))
        .join("\n")
    };
    assert!(said("binary", b"\x7fELF\0\0\x01\xff").contains(":1:1: error[E0002]: "));
    assert!(
        said("latin.p4", b"// caf\xe9\nconst bit x = 1;\n").is_empty(),
        "comments may hold any bytes"
    );
    assert!(
        said("latin2.p4", b"const bit x = \xe9;\n")
            .contains(":1:15: error[E0002]: this file is not UTF-8")
    );
    assert!(
        said("latin3.p4", b"@n(\"\xe9\") const bit x = 1;\n")
            .contains(":1:4: error[E0002]: this file is not UTF-8")
    );
    let missing = syntax::parse_file(
        &directory.join("missing.p4"),
        &FileSystem::default(),
        &common::options(),
    );
    assert!(
        missing
            .diagnostics
            .render(&missing.sources, false)
            .contains("there is no such file")
    );
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_block_of_c_ends_at_its_brace_and_is_the_only_foreign_language() {
    check("extern \"C\" { int f(void) { return '}' + \"}\"[0]; } /* } */ }\nconst bit<8> a = 1;\n");
    check("extern \"C\" { // } \\\n }\n}\nconst bit<8> a = 1;\n");
    check("extern \"C\" { //~ this block of C has no end\nint x;\n");
    check("extern \"Rust\" { } //~ the only foreign language is \"C\"\n");
    check("extern \"C\" void f(); //~ expected `{` and the text in C\n");
}
