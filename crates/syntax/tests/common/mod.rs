//! Helpers of this crate's tests: they parse a snippet and summarise the result.

#[allow(dead_code, reason = "some tests show no expression")]
pub(crate) mod print;

use syntax::{ParseOptions, Parsed};

/// Returns the built-in includes of the tests.
fn builtin(name: &str) -> Option<&'static str> {
    match name {
        "core.p4" => Some("error { NoError }\n"),
        "twice.p4" => Some("#pragma once\nconst bit twice = 1;\n"),
        "itself_twice.p4" => {
            Some("#include <itself_twice.p4>\nheader h { }\n#include <itself_twice.p4>\n")
        }
        "itself.p4" => Some("#include <itself.p4>\n"),
        _ => None,
    }
}

/// Returns the options of a test.
pub(crate) fn options() -> ParseOptions {
    ParseOptions {
        builtin: Some(builtin),
        ..ParseOptions::default()
    }
}

/// Parses `text` as `t.p4`.
pub(crate) fn parse(text: &str) -> Parsed {
    syntax::parse_str("t.p4", text, &options())
}

/// Returns each diagnostic as `FILE:LINE:COL: severity[CODE]: message`, by position.
pub(crate) fn said(parsed: &Parsed) -> Vec<String> {
    let text = parsed.diagnostics.render(&parsed.sources, false);
    let is_head = |line: &&str| line.contains(": error[") || line.contains(": warning[");
    text.lines().filter(is_head).map(str::to_string).collect()
}
