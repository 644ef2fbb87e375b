//! Source files of programs, for the lines that traces show.

use std::collections::BTreeSet;
use std::path::Path;

use support::read::read_file;

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

    pub(crate) fn read(&self, file: &str) -> Option<String> {
        let is_built_in = file.starts_with('<');
        match is_built_in || self.0.contains(file) {
            true => read_from_disk(file),
            false => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OwnFiles;

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
}
