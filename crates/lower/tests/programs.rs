//! Each `programs/NAME.p4` lowers to the code in `programs/NAME.ir`: value sets, actions, tables,
//! parsers and controls, without source positions.
//!
//! `BLESS=1 cargo test -p lower` writes the current output; review the difference before you keep
//! it.

use std::path::{Path, PathBuf};

/// Runs `f` with a stack that suffices for any nesting that the parser accepts.
fn on_a_large_stack<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(f);
    thread
        .expect("a thread can be made")
        .join()
        .expect("no panic")
}

/// Returns the IR, or all diagnostics as text.
fn lower(path: &str, text: &str) -> Result<ir::Program, String> {
    let (path, text) = (path.to_owned(), text.to_owned());
    on_a_large_stack(move || {
        let source = driver::Source::Text {
            name: &path,
            text: &text,
        };
        let checked = driver::check(&source, &driver::Options::default());
        let diagnostics = &checked.diagnostics;
        assert!(!diagnostics.has_errors(), "{}", diagnostics.render(false));
        Ok(checked.lower().into_result()?)
    })
}

/// Returns the code of a program as text, without types, storage, pipeline and source positions.
fn code(program: &ir::Program) -> String {
    let text = program.to_string();
    let is_code = |line: &&str| {
        ["value_set ", "action ", "table ", "parser ", "control "]
            .iter()
            .any(|word| line.starts_with(word))
    };
    let mut code = String::new();
    let mut inside = false;
    for line in text.lines() {
        inside |= is_code(&line);
        if inside {
            code.push_str(&without_place(line));
            code.push('\n');
        }
        inside &= line != "}";
    }
    code
}

/// Removes ` @line:column` and ` @file:line:column`.
fn without_place(line: &str) -> String {
    let is_place = |word: &str| {
        let word = word.trim_end_matches([';', ':']);
        word.strip_prefix('@').is_some_and(|place| {
            place.contains(':') && place.chars().all(|c| c.is_ascii_digit() || c == ':')
        })
    };
    let mut kept = String::new();
    for word in line.split_inclusive(' ') {
        let bare = word.trim_end();
        if is_place(bare) {
            let end = &bare[bare.trim_end_matches([';', ':']).len()..];
            kept.truncate(kept.trim_end().len());
            kept.push_str(end);
            kept.push_str(&word[bare.len()..]);
            if end.is_empty() && !kept.ends_with(' ') {
                kept.push(' ');
            }
        } else {
            kept.push_str(word);
        }
    }
    kept.trim_end().to_owned()
}

fn programs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut programs: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "p4"))
        .collect();
    programs.sort();
    programs
}

#[test]
fn programs_lower_to_the_code_beside_them() {
    let mut different = Vec::new();
    for path in programs() {
        let text = std::fs::read_to_string(&path).expect("the program is there");
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default()
            .to_owned();
        let program = lower(&name, &text).unwrap_or_else(|message| panic!("{message}"));
        ir::verify(&program).unwrap_or_else(|errors| panic!("{name}: {errors:#?}"));
        let read =
            ir::read(&program.to_string()).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!(read, program, "{name} reads back");
        let expected = path.with_extension("ir");
        let found = code(&program);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&expected, &found).expect("the expectation can be written");
        }
        let expected = std::fs::read_to_string(&expected).unwrap_or_default();
        if expected != found {
            different.push(format!("{name} lowers to\n{found}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// Checks that the text lowers to a diagnostic with each of these parts.
fn refuse(text: &str, parts: &[&str]) {
    let message = lower("test.p4", text)
        .map(|program| program.to_string())
        .expect_err("this cannot run");
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in\n{message}");
    }
}

#[test]
fn a_program_without_main_is_told_so() {
    refuse("#include <core.p4>\n", &["E1102", "no `main`"]);
}

#[test]
fn a_package_of_no_architecture_is_named() {
    let text = "#include <core.p4>\ncontrol c(); package top(c x);\ncontrol d() { apply {} }\ntop(d()) main;\n";
    refuse(text, &["E1103", "`top`", "test.p4:4"]);
}

#[test]
fn a_package_that_borrows_a_name_is_no_architecture() {
    let text = "#include <core.p4>\ncontrol c(); package V1Switch(c x);\ncontrol d() { apply {} }\nV1Switch(d()) main;\n";
    refuse(text, &["E1103", "test.p4:4"]);
}

#[test]
fn a_method_that_nobody_implements_is_named_where_it_is_called() {
    let text = r#"
#include <v1model.p4>
extern lamp { lamp(); void flash(in bit<8> times); }
struct empty {}
parser P(packet_in p, out empty h, inout empty m, inout standard_metadata_t s) { state start { transition accept; } }
control V(inout empty h, inout empty m) { apply {} }
control I(inout empty h, inout empty m, inout standard_metadata_t s) {
    lamp() l;
    apply { l.flash(3); }
}
control E(inout empty h, inout empty m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in empty h) { apply {} }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#;
    refuse(text, &["E1101", "`flash`", "`lamp`", "test.p4:9"]);
}

#[test]
fn a_very_deep_expression_is_taken_apart() {
    let sum = vec!["m.x"; 400].join(" + ");
    let text = format!(
        r#"
#include <v1model.p4>
struct empty {{}}
struct meta {{ bit<32> x; }}
parser P(packet_in p, out empty h, inout meta m, inout standard_metadata_t s) {{ state start {{ transition accept; }} }}
control V(inout empty h, inout meta m) {{ apply {{}} }}
control I(inout empty h, inout meta m, inout standard_metadata_t s) {{ apply {{ m.x = {sum}; }} }}
control E(inout empty h, inout meta m, inout standard_metadata_t s) {{ apply {{}} }}
control D(packet_out p, in empty h) {{ apply {{}} }}
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#
    );
    let program = lower("test.p4", &text).unwrap_or_else(|message| panic!("{message}"));
    ir::verify(&program).expect("the verifier's bound on nesting holds");
}

#[test]
fn a_table_without_a_size_or_of_size_0_has_room_for_1024_entries() {
    let text = "#include <core.p4>\n#include <v1model.p4>\nstruct h_t { } struct m_t { bit<8> a; }\n\
        parser P(packet_in p, out h_t h, inout m_t m, inout standard_metadata_t s) {\n\
            state start { transition accept; } }\n\
        control V(inout h_t h, inout m_t m) { apply { } }\n\
        control I(inout h_t h, inout m_t m, inout standard_metadata_t s) {\n\
            table none { key = { m.a : exact; } actions = { NoAction; } }\n\
            table zero { key = { m.a : exact; } actions = { NoAction; } size = 0; }\n\
            table some { key = { m.a : exact; } actions = { NoAction; } size = 7; }\n\
            apply { none.apply(); zero.apply(); some.apply(); } }\n\
        control E(inout h_t h, inout m_t m, inout standard_metadata_t s) { apply { } }\n\
        control D(packet_out p, in h_t h) { apply { } }\n\
        V1Switch(P(), V(), I(), E(), V(), D()) main;\n";
    let program = lower("test.p4", text).unwrap_or_else(|message| panic!("{message}"));
    let sizes: Vec<u32> = program.tables.values().map(|table| table.size).collect();
    assert_eq!(sizes, [1024, 1024, 7]);
}
