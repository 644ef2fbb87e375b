//! Access to the machine's files as a capability. No other module of this crate reads files.
//!
//! The preprocessor accesses files only through a [`FileSystem`] from its caller
//! ([`crate::parse_file`]). A text received over a network is parsed without one
//! ([`crate::parse_str`]). So neither an `#include` nor a message about one depends on this
//! machine's files.

use std::path::{Path, PathBuf};

pub use support::read::ReadError;
use support::read::read_file;

/// Maximum size of a source file in bytes.
pub const MAX_FILE_BYTES: u64 = 16 << 20;

/// Maximum number of directory entries compared with a misspelt name.
const MAX_NAMES: usize = 1000;

/// Permission to read program files of this machine, and the include search path.
#[derive(Clone, Debug, Default)]
pub struct FileSystem {
    /// Directories searched for included files, in order, before the built-in files (`-I`).
    pub include_dirs: Vec<PathBuf>,
}

impl FileSystem {
    /// Returns the path of the file in the first of these directories that has it.
    pub(crate) fn find(&self, directories: &[PathBuf], name: &str) -> Option<PathBuf> {
        let mut candidates = directories.iter().map(|directory| directory.join(name));
        candidates.find(|path| path.is_file())
    }

    /// Returns a canonical path, equal for all names of a file.
    pub(crate) fn identity(&self, path: &Path) -> PathBuf {
        path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
    }

    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        read_file(path, MAX_FILE_BYTES)
    }

    /// Reads the text of a file that belongs to a program, as a policy.
    ///
    /// # Errors
    /// The file cannot be read, is not text or is larger than `limit` bytes.
    pub fn read_text(&self, path: &Path, limit: u64) -> Result<String, ReadError> {
        support::read::read_text(path, limit)
    }

    /// Returns true if there is a file of this path.
    pub fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    /// Returns the names of the files in the directory of `name`, as an include in `directory`
    /// would write them.
    pub(crate) fn names_near(&self, directory: &Path, name: &str) -> Vec<String> {
        let prefix = Path::new(name)
            .parent()
            .map(Path::to_path_buf)
            .unwrap_or_default();
        let mut place = directory.join(&prefix);
        if place.as_os_str().is_empty() {
            place.push(".");
        }
        let Ok(entries) = std::fs::read_dir(place) else {
            return Vec::new();
        };
        let names = entries
            .take(MAX_NAMES)
            .flatten()
            .map(|entry| prefix.join(entry.file_name()).display().to_string());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}
