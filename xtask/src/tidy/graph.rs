//! The crate graph: ARCHITECTURE.md's table against `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::members;
use crate::Outcome;

/// Crates that a crate may import: in production code, and in its tests beside those.
#[derive(Debug, Default, PartialEq, Eq)]
struct Allowed {
    imports: BTreeSet<String>,
    test_imports: BTreeSet<String>,
}

impl Allowed {
    fn has(&self, other: &str, in_tests: bool) -> bool {
        let any = |set: &BTreeSet<String>| set.contains(other) || set.contains("all");
        any(&self.imports) || in_tests && any(&self.test_imports)
    }
}

/// Reads the table's rows: "| `crate` | purpose | `a`, `b` | `c` |". The last cell has the crates
/// that only its tests import.
fn allowed(text: &str) -> BTreeMap<String, Allowed> {
    let mut crates = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let [_, name, _, imports, test_imports, _] = cells[..]
            && let [name] = quoted(name)[..]
        {
            let set = |cell| quoted(cell).into_iter().map(String::from).collect();
            let allowed = Allowed {
                imports: set(imports),
                test_imports: set(test_imports),
            };
            crates.insert(name.to_owned(), allowed);
        }
    }
    crates
}

/// The words in backquotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Checks each dependency of each crate of the workspace, dev-dependencies among them.
///
/// # Errors
/// ARCHITECTURE.md cannot be read.
pub(super) fn check(root: &Path, metadata: &Value, findings: &mut Vec<String>) -> Outcome {
    let path = root.join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    compare(&allowed(&text), &members(metadata), findings);
    Ok(())
}

fn compare(allowed: &BTreeMap<String, Allowed>, packages: &[&Value], findings: &mut Vec<String>) {
    let names: BTreeSet<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(may) = allowed.get(name) else {
            findings.push(format!(
                "ARCHITECTURE.md's table has no row for the crate `{name}`"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let other = dependency["name"].as_str().unwrap_or_default();
            let in_tests = dependency["kind"] == "dev";
            if names.contains(other) && !may.has(other, in_tests) {
                let place = if in_tests { " in its tests" } else { "" };
                findings.push(format!(
                    "`{name}` imports `{other}`{place}, which ARCHITECTURE.md's table does not \
                     allow"
                ));
            }
        }
    }
    for name in allowed.keys().filter(|name| !names.contains(name.as_str())) {
        findings.push(format!(
            "ARCHITECTURE.md's table names `{name}`, which is no crate"
        ));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TABLE: &str = "| crate | purpose | may import | in tests |\n| --- | --- | --- | --- |\n\
                         | `low` | x | | `high` |\n| `high` | y | `low` | |\n";

    fn findings(table: &str, low: Value) -> Vec<String> {
        let high = json!({"name": "high", "dependencies": [{"name": "low", "kind": null}]});
        let mut findings = Vec::new();
        compare(&allowed(table), &[&low, &high], &mut findings);
        findings
    }

    fn low(kind: Value) -> Value {
        json!({"name": "low", "dependencies": [{"name": "high", "kind": kind}]})
    }

    #[test]
    fn imports_of_tests_are_checked_by_their_own_column() {
        assert_eq!(findings(TABLE, low(json!("dev"))), [""; 0]);
        let narrow = TABLE.replace("| `high` |\n", "| |\n");
        let found = findings(&narrow, low(json!("dev")));
        assert!(
            found[0].contains("`low` imports `high` in its tests"),
            "{found:?}"
        );
    }

    #[test]
    fn an_import_that_the_table_lacks_is_found() {
        let found = findings(TABLE, low(json!(null)));
        assert!(
            found[0].contains("`low` imports `high`, which"),
            "{found:?}"
        );
    }

    #[test]
    fn a_row_without_a_crate_and_a_crate_without_a_row_are_found() {
        let extra = format!("{TABLE}| `none` | z | | |\n");
        let found = findings(&extra, low(json!("dev")));
        assert_eq!(
            found,
            ["ARCHITECTURE.md's table names `none`, which is no crate"]
        );
        let found = findings("", low(json!("dev")));
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
