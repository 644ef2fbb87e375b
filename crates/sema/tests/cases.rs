//! Runs the programs in `tests/cases`. A line with an expected diagnostic is marked
//! `// error[E0301]`; several codes are separated by blanks.
//!
//! The diagnostics must be exactly those, on those lines. A file without marks must be accepted
//! without a warning.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use syntax::ParseOptions;
use syntax::files::FileSystem;
use syntax::source::SourceMap;

type Found = BTreeSet<(u32, String)>;

fn check(path: &Path) -> (Found, String) {
    let options = ParseOptions {
        builtin: Some(sema::arch::builtin_include),
        ..ParseOptions::default()
    };
    let parsed = syntax::parse_file(path, &FileSystem::default(), &options);
    let mut diagnostics = parsed.diagnostics;
    if !diagnostics.has_errors() {
        let checked = sema::check(&parsed.program, &sema::CheckOptions::default());
        diagnostics.extend(checked.diagnostics);
    }
    let found = diagnostics
        .sorted()
        .iter()
        .map(|d| (line(&parsed.sources, d.span.lo), d.code.to_string()))
        .collect();
    (found, diagnostics.render(&parsed.sources, false))
}

fn line(sources: &SourceMap, position: u32) -> u32 {
    sources.lookup(position).map_or(0, |at| at.line)
}

/// Returns the codes that the comments of a text announce.
fn expected(text: &str) -> Found {
    let mut found = Found::new();
    for (number, line) in text.lines().enumerate() {
        for mark in ["// error[", "// warning["] {
            let Some(at) = line.find(mark) else { continue };
            let codes = line[at + mark.len()..].split(']').next().unwrap_or("");
            found.extend(
                codes
                    .split(' ')
                    .map(|code| (number as u32 + 1, code.to_string())),
            );
        }
    }
    found
}

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("tests/cases is a folder")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "p4"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_case_gives_exactly_the_diagnostics_that_it_announces() {
    let mut wrong = String::new();
    let files = cases();
    assert!(files.len() > 10, "the cases are missing");
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a case is text");
        let expected = expected(&text);
        let (found, rendered) = check(&path);
        if found != expected {
            let missing: Vec<_> = expected.difference(&found).collect();
            let extra: Vec<_> = found.difference(&expected).collect();
            wrong += &format!(
                "{}: missing {missing:?}, not expected {extra:?}\n{rendered}\n",
                path.display()
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_embedded_include_files_check_without_a_word() {
    for name in [
        "core.p4",
        "v1model.p4",
        "psa.p4",
        "bmv2/psa.p4",
        "dpdk/psa.p4",
        "pna.p4",
        "bmv2/pna.p4",
        "dpdk/pna.p4",
        "ebpf_model.p4",
        "ubpf_model.p4",
        "xdp_model.p4",
    ] {
        let options = ParseOptions {
            builtin: Some(sema::arch::builtin_include),
            ..ParseOptions::default()
        };
        let text = format!("#include <{name}>\n");
        let parsed = syntax::parse_str("test.p4", &text, &options);
        let checked = sema::check(&parsed.program, &sema::CheckOptions::default());
        let mut all = parsed.diagnostics;
        all.extend(checked.diagnostics);
        assert!(
            all.is_empty(),
            "{name}: {}",
            all.render(&parsed.sources, false)
        );
        assert_eq!(checked.arch, None, "{name} has no `main`");
    }
}

#[test]
fn a_broken_restriction_is_reported_at_the_entry_with_the_false_part_and_its_values() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let (_, rendered) = check(&folder.join("restricted_entries.p4"));
    for message in [
        "this entry breaks the restriction of the table `kinds`: `hs.h.a != 9` does not hold, with",
        "this entry breaks the restriction of the action `send`: `typed != 2` does not hold, with",
        "the default action of `arguments` breaks the restriction of the action `send`: `port",
    ] {
        assert!(rendered.contains(message), "{message}\n{rendered}");
    }
    assert!(rendered.contains("the restriction"), "{rendered}");
}
