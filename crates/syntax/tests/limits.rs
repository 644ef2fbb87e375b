//! Tests of limits: the files that a text can reach, and the work that it can cause.

mod common;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use syntax::Parsed;
use syntax::files::FileSystem;

/// A temporary directory, removed when the value is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("polyplane-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn parse_file(path: &std::path::Path) -> Parsed {
    syntax::parse_file(path, &FileSystem::default(), &common::options())
}

fn rendered(parsed: &Parsed) -> String {
    parsed.diagnostics.render(&parsed.sources, false) + &parsed.diagnostics.to_json(&parsed.sources)
}

/// Returns all diagnostics of texts that include `target` in several forms.
fn said_of_includes(name: &str, target: &str) -> String {
    let mut said = String::new();
    for text in [
        format!("#include \"{target}\"\n"),
        format!("#include <{target}>\n"),
        format!("#define F \"{target}\"\n#include F\n"),
        format!("#define F <{target}>\n#include F\n"),
        format!("#define S(x) #x\n#define F(x) S(x)\n#include F({target})\n"),
        format!("#include __FILE__\n// {target}\n"),
        format!("#include_next \"{target}\"\n"),
        format!("#import \"{target}\"\n"),
        format!("#line 1 \"{target}\"\n#include __FILE__\nerror here\n"),
        format!("#if __has_include(\"{target}\")\nconst bit x = 1;\n#endif\n"),
        format!("#pragma include \"{target}\"\n#embed \"{target}\"\n"),
    ] {
        let parsed = syntax::parse_str(name, &text, &common::options());
        said.push_str(&rendered(&parsed));
        said.push_str(&format!("{:?}", parsed.program.decls));
        let files = parsed.sources.files().iter();
        said.extend(files.map(|file| file.path().to_owned() + "\n"));
    }
    said
}

#[test]
fn a_text_learns_nothing_of_files_of_the_machine() {
    let directory = Directory::new("reach");
    let secret = directory.write("secret.p4", "const bit<8> key_of_the_switch = 42;\n");
    directory.write("secrets.txt", "hunter2\n");
    let there = secret.display().to_string();
    // The same length, so that the columns in messages are the same.
    let missing = there.replace("secret.p4", "absent.p4");
    let name = directory.0.join("program.p4").display().to_string();
    let (of_there, of_missing) = (
        said_of_includes(&name, &there),
        said_of_includes(&name, &missing),
    );
    assert_eq!(of_there.replace("secret.p4", "absent.p4"), of_missing);
    for target in [
        "secret.p4",
        "./secret.p4",
        "secret.p5",
        "../",
        "secrets.txt",
        "sub/secret.p4",
    ] {
        let said = said_of_includes(&name, target);
        for leak in [
            "key_of_the_switch",
            "hunter2",
            "did you mean `secret",
            "did you mean `./",
        ] {
            assert!(!said.contains(leak), "{target} shows {leak}: {said}");
        }
        assert!(said.contains("searched: the standard includes\n"), "{said}");
        assert!(!said.contains("searched: `"), "{said}");
    }
}

#[test]
fn a_text_includes_the_built_in_files() {
    let parsed = common::parse("#include <core.p4>\n");
    assert!(parsed.diagnostics.is_empty(), "{}", rendered(&parsed));
    let said = common::said(&common::parse("#include \"core.p5\"\n"));
    assert!(
        said[0].contains("cannot find the file `core.p5`"),
        "{said:?}"
    );
}

/// Checks that a text is rejected with the expected error in a short time.
#[track_caller]
fn refused_soon(text: &str, expected: &str) {
    let start = Instant::now();
    let parsed = common::parse(text);
    let said = rendered(&parsed);
    assert!(
        said.contains(expected),
        "no `{expected}` in {}",
        &said[..said.len().min(2000)]
    );
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    assert!(said.len() < 4 << 20, "{} bytes are said", said.len());
}

#[test]
fn includes_that_fan_out_end_at_a_limit() {
    let directory = Directory::new("fan");
    directory.write("e0.inc", "");
    for i in 0..12 {
        directory.write(
            &format!("e{}.inc", i + 1),
            &format!("#include \"e{i}.inc\"\n").repeat(10),
        );
    }
    let program = directory.write("p.p4", "#include \"e12.inc\"\n");
    let said = rendered(&parse_file(&program));
    let expected = "e1.inc:3:10: error[E0019]: the program includes more than 10000 files";
    assert!(said.contains(expected), "{said}");
    // One error, and no further errors about the rest.
    assert_eq!(said.matches("error[").count(), 1, "{said}");
}

#[test]
fn a_file_counts_each_time_that_it_is_included() {
    let directory = Directory::new("bytes");
    directory.write("large.inc", &format!("// {}\n", "x".repeat(1 << 20)));
    let program = directory.write("p.p4", &"#include \"large.inc\"\n".repeat(40));
    let said = rendered(&parse_file(&program));
    assert!(
        said.contains("p.p4:32:10: error[E0019]: the program's files have more than"),
        "{said}"
    );
}

#[test]
fn an_endless_file_is_refused_with_its_limit() {
    let parsed = parse_file(std::path::Path::new("/dev/zero"));
    let said = rendered(&parsed);
    let expected = "error[E0003]: cannot read `/dev/zero`: it is larger than the limit of 16 MiB";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn work_of_the_preprocessor_is_bounded_with_a_named_limit() {
    let long = "x".repeat(1 << 20);
    refused_soon(
        &"#if 1\n".repeat(2000),
        "conditionals are nested more than 1000 deep",
    );
    refused_soon(
        &"; ".repeat(4_000_001),
        "the program has more than 4000000 tokens",
    );
    refused_soon(
        &format!("const bit {long} = 1;"),
        "this is longer than 65536 bytes",
    );
    refused_soon(
        &format!("#define A {long}\n{}", "A ".repeat(50_000)),
        "longer than 65536",
    );
    let text = format!("#define S(x) #x\n@a(S({}))", "y ".repeat(40_000));
    refused_soon(&text, "`#` makes a string of more than 65536 bytes here");
    refused_soon(
        &"#nothing\n".repeat(300_000),
        "... and 299950 more warnings",
    );
    refused_soon(
        &"#warning same\n".repeat(100_000),
        "... and 99950 more warnings",
    );
    refused_soon(
        &"bit<8> x; ".repeat(100_000),
        "there are no variables at the top level",
    );
    // A line of unterminated quotes, in an excluded group.
    refused_soon(
        &format!("#if 0\n{}\n", "\\\"".repeat(500_000)),
        "this conditional has no `#endif`",
    );
}

#[test]
fn long_lines_and_long_names_make_short_messages() {
    let text = format!(
        "{}\nconst bit x = {};",
        "y ".repeat(500_000),
        "z".repeat(60_000)
    );
    let parsed = common::parse(&text);
    let said = rendered(&parsed);
    assert!(said.len() < 8000, "{} bytes", said.len());
}
