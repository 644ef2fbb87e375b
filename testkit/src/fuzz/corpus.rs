//! Seed texts of the fuzz targets.

use std::path::{Path, PathBuf};

/// A seed program.
pub(crate) struct Seed {
    /// Its file.
    pub(crate) path: PathBuf,
    /// Its text, in which `#include`s of files in its own directory are expanded.
    pub(crate) text: String,
    /// The text of its STF test, if it has one.
    pub(crate) test: Option<String>,
}

/// Returns all programs of this repository and of the directories `more`, sorted by path.
pub(crate) fn seeds(more: &[PathBuf]) -> Vec<Seed> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = ["programs", "findings", "../examples"].map(|name| here.join(name));
    let mut paths = Vec::new();
    for directory in own.iter().chain(more) {
        find(directory, &mut paths);
    }
    paths.sort();
    paths.iter().filter_map(|path| seed(path)).collect()
}

fn find(directory: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            find(&path, found);
        } else if path.extension().is_some_and(|e| e == "p4") {
            found.push(path);
        }
    }
}

fn seed(path: &Path) -> Option<Seed> {
    let text = std::fs::read_to_string(path).ok()?;
    let directory = path.parent()?;
    Some(Seed {
        path: path.to_path_buf(),
        text: with_includes(directory, &text),
        test: std::fs::read_to_string(path.with_extension("stf")).ok(),
    })
}

/// Expands the files that the text includes by a name in quotes, one level deep.
fn with_includes(directory: &Path, text: &str) -> String {
    let expand = |line: &str| {
        let name = line.trim().strip_prefix("#include \"")?.strip_suffix('"')?;
        std::fs::read_to_string(directory.join(name)).ok()
    };
    let lines = text.split_inclusive('\n');
    lines
        .map(|line| expand(line).unwrap_or_else(|| line.to_string()))
        .collect()
}
