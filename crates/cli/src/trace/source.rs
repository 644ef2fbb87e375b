//! Source lines of the program.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use ir::Loc;
use support::read::read_file;
use syntax::diag::ELLIPSIS;
use syntax::source;

use super::step::Source;

/// Reads a file of the program. Returns `None` if that is not possible.
pub(crate) type ReadSource<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Source files. Each is read at its first use.
pub(crate) struct SourceLines<'a> {
    files: &'a [String],
    read: ReadSource<'a>,
    lines: HashMap<u32, Vec<String>>,
}

impl<'a> SourceLines<'a> {
    pub(crate) fn new(files: &'a [String], read: ReadSource<'a>) -> SourceLines<'a> {
        SourceLines {
            files,
            read,
            lines: HashMap::new(),
        }
    }

    /// Returns a source position with its file name and its line's text.
    pub(crate) fn at(&mut self, loc: Option<Loc>) -> Option<Source> {
        let loc = loc?;
        let file = self.files.get(loc.file as usize)?;
        let read = self.read;
        let lines = self.lines.entry(loc.file).or_insert_with(|| {
            let text = read(file).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        });
        let line = (loc.line as usize)
            .checked_sub(1)
            .and_then(|at| lines.get(at));
        Some(Source {
            file: file.clone(),
            line: loc.line,
            column: loc.column,
            text: line
                .map(|line| excerpt(line, loc.column as usize))
                .filter(|text| !text.is_empty()),
        })
    }
}

/// Maximum number of shown characters of a line.
const MAX: usize = 80;

/// Returns a line without its indentation. Of a long line, the part around `column`, which counts
/// characters from 1.
fn excerpt(line: &str, column: usize) -> String {
    let text = line.trim();
    let indentation = line.len() - line.trim_start().len();
    let at = line
        .char_indices()
        .nth(column.saturating_sub(1))
        .map_or(line.len(), |(byte, _)| byte);
    let shown = source::excerpt(text, at.saturating_sub(indentation), MAX);
    let before = if shown.start > 0 { ELLIPSIS } else { "" };
    let behind = if shown.is_cut_behind { ELLIPSIS } else { "" };
    format!("{before}{}{behind}", shown.text.trim())
}

/// Reads a file by its name. A name in angle brackets is a built-in include file.
pub(crate) fn read_from_disk(file: &str) -> Option<String> {
    let built_in = file
        .strip_prefix('<')
        .and_then(|name| name.strip_suffix('>'));
    if let Some(name) = built_in {
        return sema::arch::builtin_include(name).map(str::to_owned);
    }
    let path = Path::new(file);
    // A `#line` directive may name a device file or a pipe.
    let bytes = path
        .is_file()
        .then(|| read_file(path, syntax::files::MAX_FILE_BYTES));
    let bytes = bytes?.ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Source files that a running switch may read for traces: those of the command line's program. A
/// controller's program may name any file as its source, so its files are not read.
#[derive(Default)]
pub(crate) struct OwnFiles(BTreeSet<String>);

impl OwnFiles {
    /// Returns the files of this program.
    pub(crate) fn of(program: &ir::Program) -> OwnFiles {
        OwnFiles(program.files.iter().cloned().collect())
    }

    pub(super) fn read(&self, file: &str) -> Option<String> {
        let is_built_in = file.starts_with('<');
        match is_built_in || self.0.contains(file) {
            true => read_from_disk(file),
            false => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{OwnFiles, excerpt};

    #[test]
    fn a_running_switch_reads_the_files_of_its_own_program_alone() {
        let place = std::env::temp_dir().join(format!("polyplane-own-{}", std::process::id()));
        std::fs::write(&place, "a line\n").unwrap();
        let file = place.display().to_string();
        let program = ir::Program {
            files: vec![file.clone()],
            ..ir::Program::empty("own", ir::Arch::V1model)
        };
        let own = OwnFiles::of(&program);
        assert_eq!(own.read(&file).as_deref(), Some("a line\n"));
        assert_eq!(OwnFiles::default().read(&file), None);
        assert!(OwnFiles::default().read("<core.p4>").is_some());
        for path in [
            "/dev/zero",
            "/",
            "/etc/passwd",
            "</etc/passwd>",
            "<../core.p4>",
        ] {
            assert_eq!(own.read(path), None, "{path}");
        }
        std::fs::remove_file(&place).unwrap();
    }

    #[test]
    fn a_long_line_is_cut_around_the_place_that_is_meant() {
        assert_eq!(excerpt("    a = b;\t", 5), "a = b;");
        let long: String = (0..100).map(|n| format!("{n:02}äö;")).collect();
        assert_eq!(long.chars().count(), 500);
        let head: String = long.chars().take(80).collect();
        assert_eq!(excerpt(&long, 1), format!("{head}..."));
        assert_eq!(excerpt(&format!("   {long}"), 20), format!("{head}..."));
        let around = excerpt(&long, 251);
        assert!(
            around.starts_with("...;47") && around.contains("50äö;"),
            "{around}"
        );
        assert_eq!(around.chars().count(), 3 + 80 + 3);
        let tail: String = long.chars().skip(420).collect();
        assert_eq!(excerpt(&long, 499), format!("...{tail}"));
        assert_eq!(
            excerpt(&long, 4000),
            format!("...{tail}"),
            "a place outside"
        );
    }
}
