//! Robustness tests with random texts. The parser always returns a tree and diagnostics, and every
//! position is inside the files.

mod common;

use proptest::prelude::*;
use syntax::diag::Diagnostics;

/// Words and punctuation of P4 and of the preprocessor, and some unterminated tokens.
const PIECES: &[&str] = &[
    "abstract",
    "action",
    "actions",
    "apply",
    "bit",
    "bool",
    "break",
    "const",
    "continue",
    "control",
    "default",
    "else",
    "entries",
    "enum",
    "error",
    "exit",
    "extern",
    "false",
    "for",
    "header",
    "header_union",
    "if",
    "in",
    "inout",
    "int",
    "key",
    "list",
    "match_kind",
    "out",
    "package",
    "parser",
    "priority",
    "return",
    "select",
    "state",
    "string",
    "struct",
    "switch",
    "table",
    "this",
    "transition",
    "true",
    "tuple",
    "type",
    "typedef",
    "value_set",
    "varbit",
    "void",
    "_",
    "a",
    "b",
    "T",
    "8w5",
    "0x",
    "1",
    "\"s\"",
    "\"",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    ">>",
    "<<",
    ";",
    ",",
    ":",
    ".",
    "..",
    "...",
    "@",
    "@pragma",
    "=",
    "==",
    "+",
    "+=",
    "-",
    "|+|",
    "&&&",
    "?",
    "!",
    "~",
    "{#}",
    "#",
    "##",
    "/*",
    "*/",
    "//",
    "\\",
    "'",
    "é",
    "\u{fffd}",
    "\n",
    "\n",
    "\n#define A a A(",
    "\n#define F(x, y...) x ## y #x\n",
    "F(",
    "A",
    "\n#if",
    "\n#ifdef A\n",
    "\n#elif 1\n",
    "\n#else\n",
    "\n#endif\n",
    "defined",
    "\n#include <twice.p4>\n",
    "\n#include \"\n",
    "\n#line 3 \"x\"\n",
    "\n#undef A\n",
    "\n#error",
    "__LINE__",
    "__VA_ARGS__",
];

/// Checks that every reported position can be shown.
fn check_places(diagnostics: &Diagnostics, sources: &syntax::source::SourceMap) {
    for diagnostic in diagnostics.sorted() {
        let span = diagnostic.span;
        assert!(
            sources.lookup(span.lo).is_some() && span.lo <= span.hi,
            "{diagnostic:?}"
        );
    }
    diagnostics.render(sources, true);
    diagnostics.to_json(sources);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn token_soup_never_panics(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..120)) {
        let parsed = common::parse(&pieces.join(" "));
        check_places(&parsed.diagnostics, &parsed.sources);
    }

    #[test]
    fn any_text_never_panics(text in "\\PC{0,200}") {
        let parsed = common::parse(&text);
        check_places(&parsed.diagnostics, &parsed.sources);
    }

    #[test]
    fn a_program_cut_anywhere_never_panics(cut in 0..PROGRAM.len(), insert in prop::sample::select(PIECES)) {
        prop_assume!(PROGRAM.is_char_boundary(cut));
        let text = format!("{}{insert}{}", &PROGRAM[..cut], &PROGRAM[cut..]);
        let parsed = common::parse(&text);
        check_places(&parsed.diagnostics, &parsed.sources);
        let parsed = common::parse(&PROGRAM[..cut]);
        check_places(&parsed.diagnostics, &parsed.sources);
    }
}

#[test]
fn the_program_that_is_cut_is_whole() {
    assert_eq!(common::said(&common::parse(PROGRAM)), [""; 0]);
}

const PROGRAM: &str = include_str!("whole.p4");
