//! Programs and directories for the tests.
#![allow(dead_code)]

use std::path::PathBuf;

/// A v1model program that drops all packets.
pub(crate) const V1MODEL: &str = include_str!("drop.p4");

/// Returns the program with declarations and statements in its ingress control.
pub(crate) fn with_ingress(locals: &str, statements: &str) -> String {
    V1MODEL
        .replace("/* locals */", locals)
        .replace("/* statements */", statements)
}

/// Asserts that the text has each of these parts.
#[track_caller]
pub(crate) fn assert_parts(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
}

/// A temporary directory with files.
pub(crate) struct Directory(tempfile::TempDir);

impl Directory {
    /// Creates a directory with files of these names and texts.
    pub(crate) fn new(files: &[(&str, &str)]) -> Directory {
        let directory = Directory(tempfile::tempdir().unwrap());
        for (name, text) in files {
            let path = directory.path(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        directory
    }

    /// Returns the path of a file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}
