//! `cargo xtask tidy`: checks of the source tree by machine.
//!
//! Crate graph and licences, headers and sizes of files, places of `unsafe` and of file access,
//! language of comments and docs, names of types and constants. CONTRIBUTING.md has the rules.

mod comments;
mod docs;
mod graph;
mod names;
mod words;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::Outcome;

/// Maximum number of lines of production code in a file.
const MAX_LINES: usize = 1000;

/// Paths that may have `unsafe` blocks: system calls, buffers, prefetches, native code.
const UNSAFE_PLACES: &[&str] = &[
    "crates/port/",
    "crates/table/src/compare.rs",
    "crates/table/src/prefetch.rs",
    "crates/support/src/tsc_clock.rs",
    "crates/jit/src/abi.rs",
    "crates/jit/src/abi/",
    "crates/jit/src/backend.rs",
    "crates/foreign/src/abi.rs",
];

/// Paths that may access files: crates that get a path from the command line, and the two files
/// by which all others read. Text from a network reaches none of them.
const FILE_PLACES: &[&str] = &[
    "crates/cli/",
    "crates/command/",
    "crates/lab/",
    "crates/aggregate_runtime/src/stream.rs",
    "crates/reflex_runtime/src/control.rs",
    "crates/reflex_runtime/src/message_tag.rs",
    "crates/apply_entries/examples/",
    "crates/foreign/src/compile.rs",
    "crates/foreign/tests/",
    "crates/p4info/build.rs",
    "crates/port/",
    "crates/store/src/place.rs",
    "crates/support/src/read.rs",
    "crates/syntax/src/files.rs",
    "testkit/",
    "xtask/",
];

/// Code that accesses files.
const FILE_WORDS: &[&str] = &[
    "std::fs",
    "tokio::fs",
    "support::read",
    "args::read",
    ".is_file()",
    ".is_dir()",
    ".read_dir()",
    ".canonicalize()",
];

/// Licences that dependencies may have. An `OR` needs one of them, an `AND` all.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Runs all checks and reports every finding.
pub(crate) fn run(root: &Path) -> Outcome {
    let metadata = metadata(root)?;
    let mut findings = Vec::new();
    let words = words::read(root)?;
    let sources = texts(root, "*.rs")?;
    graph::check(root, &metadata, &mut findings)?;
    check_licences(&metadata, &mut findings);
    check_files(&sources, &mut findings);
    for (path, text) in &sources {
        comments::check(path, text, &words, &mut findings);
    }
    names::check(root, &sources, &mut findings)?;
    for (path, text) in texts(root, "*.md")? {
        docs::check(&path, &text, &words, &mut findings);
    }
    if findings.is_empty() {
        println!("tidy: all in order");
        return Ok(());
    }
    for finding in &findings {
        eprintln!("tidy: {finding}");
    }
    Err(format!("{} findings", findings.len()))
}

fn metadata(root: &Path) -> Result<Value, String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

fn members(metadata: &Value) -> Vec<&Value> {
    let ids: BTreeSet<&str> = metadata["workspace_members"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .filter(|p| p["id"].as_str().is_some_and(|id| ids.contains(id)))
        .collect()
}

fn check_licences(metadata: &Value, findings: &mut Vec<String>) {
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let licence = package["license"].as_str().unwrap_or("none stated");
        if !licence_is_fine(licence) {
            let name = package["name"].as_str().unwrap_or_default();
            findings.push(format!("the dependency `{name}` has the licence {licence}"));
        }
    }
}

/// Returns true if [`LICENCES`] satisfies an SPDX expression. Crates write `A OR B`,
/// `(A OR B) AND C` or `A/B`.
fn licence_is_fine(expression: &str) -> bool {
    let flat = expression.replace(['(', ')'], "").replace('/', " OR ");
    flat.split(" AND ")
        .all(|all| all.split(" OR ").any(|one| LICENCES.contains(&one.trim())))
}

fn check_files(sources: &[(String, String)], findings: &mut Vec<String>) {
    for (path, text) in sources {
        if !text.starts_with("//!") {
            findings.push(format!(
                "{path}: no `//!` header saying what the file is for"
            ));
        }
        let is_test = is_test(path);
        let lines = text
            .split("#[cfg(test)]\nmod ")
            .next()
            .unwrap_or_default()
            .lines()
            .count();
        if !is_test && lines > MAX_LINES {
            findings.push(format!(
                "{path}: {lines} lines of production code (at most {MAX_LINES})"
            ));
        }
        if path.ends_with("src/lib.rs") && path.starts_with("crates/") && !has_interface(text) {
            findings.push(format!("{path}: the header needs **In:** and **Out:**"));
        }
        check_unsafe(path, text, findings);
        if !is_test {
            check_file_access(path, text, findings);
        }
    }
}

/// Checks that files are accessed only where a path comes from the command line.
fn check_file_access(path: &str, text: &str, findings: &mut Vec<String>) {
    if FILE_PLACES.iter().any(|place| path.starts_with(place)) {
        return;
    }
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    for (number, line) in code.lines().enumerate() {
        let line = line.split("//").next().unwrap_or_default();
        if let Some(word) = FILE_WORDS.iter().find(|word| line.contains(**word)) {
            let at = format!("{path}:{}", number + 1);
            findings.push(format!(
                "{at}: `{word}` reaches files, which this place may not"
            ));
        }
    }
}

/// Returns true if a crate's header states its inputs and outputs.
fn has_interface(text: &str) -> bool {
    text.contains("**In:**") && text.contains("**Out:**")
}

/// Returns true for files of tests and benches.
fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("tests.rs") || path.contains("/benches/")
}

/// Returns tracked and new files that match a pattern: paths from the root, and texts.
fn texts(root: &Path, pattern: &str) -> Result<Vec<(String, String)>, String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .arg(pattern)
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot start git: {error}"))?;
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths = list.lines().filter(|line| root.join(line).is_file());
    let text = |path: &str| {
        let text = std::fs::read_to_string(root.join(path));
        let text = text.map_err(|error| format!("{path}: {error}"))?;
        Ok((path.to_owned(), text))
    };
    paths.map(text).collect()
}

fn check_unsafe(path: &str, text: &str, findings: &mut Vec<String>) {
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        if !code.contains(concat!("unsafe", " {")) && !code.contains(concat!("unsafe", " impl")) {
            continue;
        }
        if !UNSAFE_PLACES.iter().any(|place| path.starts_with(place)) {
            findings.push(format!(
                "{path}:{}: unsafe code outside the places that may have it",
                number + 1
            ));
        }
        if !has_reason(&lines[..=number]) {
            findings.push(format!(
                "{path}:{}: an unsafe block without its reason (`// SAFETY:`)",
                number + 1
            ));
        }
    }
}

/// Returns true if the last of these lines or one of the comments above it has `SAFETY:`. At most
/// six lines of code are between.
fn has_reason(lines: &[&str]) -> bool {
    let mut code = 0;
    for line in lines.iter().rev() {
        if line.contains("SAFETY:") {
            return true;
        }
        code += usize::from(!line.trim_start().starts_with("//"));
        if code > 6 {
            return false;
        }
    }
    false
}
