//! Names of types and constants.
//!
//! A type name that many crates define says little where it is read, so a public type name is in at
//! most two crates. `xtask/common_names.txt` lists the exceptions: words of P4 and of the language.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::is_test;
use crate::Outcome;

/// Crates that may define a public type of one name.
const MAX_CRATES: usize = 2;

/// Prefixes of constants that other ones replace.
const PREFIXES: &[(&str, &str)] = &[
    ("MOST_", "MAX_"),
    ("LEAST_", "MIN_"),
    ("LONGEST_", "MAX_"),
    ("USUAL_", "DEFAULT_"),
];

/// Names that no type has: docs/internals/renames.md has their replacements.
const RETIRED: &[&str] = &[
    "Seat", "Desk", "Office", "Crew", "Station", "Bell", "Scout", "Sight", "Lot", "Petition",
    "Diary", "Scene",
];

/// Checks the names in all source files.
///
/// # Errors
/// `xtask/common_names.txt` cannot be read.
pub(super) fn check(
    root: &Path,
    sources: &[(String, String)],
    findings: &mut Vec<String>,
) -> Outcome {
    let path = "xtask/common_names.txt";
    let common = std::fs::read_to_string(root.join(path)).map_err(|e| format!("{path}: {e}"))?;
    let common = common.lines().map(str::trim);
    let common: BTreeSet<&str> = common.filter(|line| !line.starts_with('#')).collect();
    compare(sources, &common, findings);
    Ok(())
}

fn compare(sources: &[(String, String)], common: &BTreeSet<&str>, findings: &mut Vec<String>) {
    let mut types: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, text) in sources {
        for (line, number) in text.lines().zip(1..) {
            let code = line.split("//").next().unwrap_or_default();
            let at = || format!("{path}:{number}");
            if let Some(name) = defined(code, &["const", "static"]) {
                findings.extend(renamed(name).map(|new| format!("{}: call it `{new}`", at())));
            }
            if path.starts_with("crates/") {
                let retired = words(line).filter(|word| RETIRED.contains(word));
                findings.extend(retired.map(|word| format!("{}: `{word}` is retired", at())));
            }
            if !is_test(path)
                && let Some(code) = code.trim_start().strip_prefix("pub ")
                && let Some(name) = defined(code, &["struct", "enum", "trait", "union", "type"])
            {
                types.entry(name).or_default().insert(crate_of(path));
            }
        }
    }
    for (name, crates) in types {
        if crates.len() > MAX_CRATES && !common.contains(name) {
            let crates: Vec<&str> = crates.into_iter().collect();
            findings.push(format!(
                "the public type name `{name}` is in {} crates: {}",
                crates.len(),
                crates.join(", ")
            ));
        }
    }
}

/// The words of a line: runs of letters, digits and underscores.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// The name that a line defines with one of the keywords. A line of a text in quotes defines none.
fn defined<'l>(code: &'l str, keywords: &[&str]) -> Option<&'l str> {
    if code.trim_start().starts_with('"') {
        return None;
    }
    let mut words = words(code).filter(|word| !word.is_empty());
    let is_visibility = |word: &&str| ["pub", "crate", "super", "in", "unsafe"].contains(word);
    let keyword = words.by_ref().find(|word| !is_visibility(word))?;
    keywords.contains(&keyword).then(|| words.next())?
}

/// The name that a constant has by the rules, if that is another one.
fn renamed(name: &str) -> Option<String> {
    let new = |(old, new): &(&str, &str)| Some(format!("{new}{}", name.strip_prefix(old)?));
    PREFIXES.iter().find_map(new)
}

/// The crate of a source file.
fn crate_of(path: &str) -> &str {
    let path = path.strip_prefix("crates/").unwrap_or(path);
    path.split('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sources: &[(&str, &str)], common: &[&str], found: &[&str]) {
        let owned = |(path, text): &(&str, &str)| (path.to_string(), text.to_string());
        let sources: Vec<_> = sources.iter().map(owned).collect();
        let mut findings = Vec::new();
        compare(&sources, &common.iter().copied().collect(), &mut findings);
        assert_eq!(findings, found);
    }

    #[test]
    fn a_public_type_name_is_in_two_crates_at_most() {
        let three = [
            ("crates/a/src/x.rs", "pub struct Plan;"),
            ("crates/b/src/x.rs", "    pub enum Plan {"),
            ("crates/c/src/x.rs", "pub trait Plan {"),
        ];
        check(
            &three,
            &[],
            &["the public type name `Plan` is in 3 crates: a, b, c"],
        );
        check(&three, &["Plan"], &[]);
        check(&three[..2], &[], &[]);
        let hidden = ("crates/c/src/x.rs", "pub(crate) struct Plan;");
        check(&[three[0], three[1], hidden], &[], &[]);
        let test = ("crates/c/tests/x.rs", "pub struct Plan;");
        check(&[three[0], three[1], test], &[], &[]);
    }

    #[test]
    fn constants_have_the_standard_prefixes() {
        let check = |text, found: &[&str]| check(&[("crates/a/src/x.rs", text)], &[], found);
        check(
            "pub(crate) const MOST_KEYS: u32 = 1;",
            &["crates/a/src/x.rs:1: call it `MAX_KEYS`"],
        );
        check(
            "    const USUAL_CPU: u32 = 1;",
            &["crates/a/src/x.rs:1: call it `DEFAULT_CPU`"],
        );
        check(
            "static LEAST_A: u32 = 1;",
            &["crates/a/src/x.rs:1: call it `MIN_A`"],
        );
        check("const MAX_KEYS: u32 = MOST;", &[]);
    }

    #[test]
    fn retired_names_are_found_anywhere() {
        let found = ["crates/a/src/x.rs:1: `Seat` is retired"];
        check(&[("crates/a/src/x.rs", "/// A Seat.")], &[], &found);
        check(&[("crates/a/src/x.rs", "struct Seating;")], &[], &[]);
    }
}
