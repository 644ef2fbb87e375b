//! The program's source lines.

use std::collections::HashMap;

use ir::Loc;

use super::step::Source;

/// Reads a file of the program; `None` where that is not possible.
pub(crate) type ReadSource<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Source files, read when a place in them is first asked for.
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

    /// A place with its file's name and its line's text.
    pub(crate) fn at(&mut self, loc: Option<Loc>) -> Option<Source> {
        let loc = loc?;
        let file = self.files.get(loc.file as usize)?;
        let read = self.read;
        let lines = self.lines.entry(loc.file).or_insert_with(|| {
            let text = read(file).unwrap_or_default();
            text.lines().map(|line| line.trim().to_owned()).collect()
        });
        let line = (loc.line as usize)
            .checked_sub(1)
            .and_then(|at| lines.get(at));
        Some(Source {
            file: file.clone(),
            line: loc.line,
            column: loc.column,
            text: line.filter(|text| !text.is_empty()).cloned(),
        })
    }
}

/// Reads a file from where its name says, or, where that is in angle brackets, from the include files that are built in.
pub(crate) fn read_from_disk(file: &str) -> Option<String> {
    let built_in = file
        .strip_prefix('<')
        .and_then(|name| name.strip_suffix('>'));
    if let Some(name) = built_in {
        return sema::arch::builtin_include(name).map(str::to_owned);
    }
    let bytes = std::fs::read(file).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
