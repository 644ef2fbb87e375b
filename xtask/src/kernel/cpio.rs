//! Archives of the format `newc` of cpio, from which a kernel makes its first file system.

use std::collections::BTreeSet;
use std::path::Path;

/// An archive that grows.
#[derive(Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    names: BTreeSet<String>,
}

/// File types and permissions.
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

impl Archive {
    /// Appends an empty folder.
    pub(crate) fn folder(&mut self, name: &str) {
        self.entry(name, FOLDER, &[]);
    }

    /// Appends a program with this text.
    pub(crate) fn text(&mut self, name: &str, text: &str) {
        self.entry(name, PROGRAM, text.as_bytes());
    }

    /// Appends a copy of a file as a program. A name that is there already stays as it is.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn file(&mut self, name: &str, path: &Path) -> Result<(), String> {
        if self.names.contains(name) {
            return Ok(());
        }
        let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        self.entry(name, PROGRAM, &bytes);
        Ok(())
    }

    /// Appends the end and returns the archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, data: &[u8]) {
        self.names.insert(name.to_owned());
        let fields = [
            self.names.len() as u32, // inode
            mode,
            0, // owner
            0, // group
            1, // links
            0, // time
            data.len() as u32,
            0, // device of the file
            0,
            0, // device that the file is
            0,
            name.len() as u32 + 1,
            0, // checksum
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(data);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
