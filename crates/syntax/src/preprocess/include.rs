//! `#include`: finds and reads files. Files of the machine are accessed only through the caller's
//! [`crate::files::FileSystem`].

use std::path::{Path, PathBuf};

use crate::diag::{Diagnostic, suggest};
use crate::files::{FileSystem, ReadError};
use crate::source::Span;
use crate::token::{Token, TokenKind};

use super::{After, INCLUDE_DEPTH, MAX_INCLUDES, Preprocessor, Root};

/// The standard includes for suggestions on a misspelt name.
const STANDARD: [&str; 8] = [
    "core.p4",
    "v1model.p4",
    "psa.p4",
    "pna.p4",
    "bmv2/psa.p4",
    "ebpf_model.p4",
    "ubpf_model.p4",
    "xdp_model.p4",
];

/// The name in an `#include`.
struct IncludeName {
    name: String,
    angle: bool,
    span: Span,
}

/// Location of an included file.
enum Found<'a> {
    File(&'a FileSystem, PathBuf),
    Builtin(&'static str),
}

impl<'a> Preprocessor<'a> {
    pub(super) fn open_root(&mut self, root: Root<'_>) {
        match root {
            Root::Text(name, text) => {
                if let Some(index) = self.sources.add(name, text) {
                    self.open(index, None, Span::NONE);
                }
            }
            Root::File(path, system) => {
                if let Some(index) = self.read_file(system, path, Span::NONE) {
                    self.open(index, Some(directory_of(path)), Span::NONE);
                }
            }
        }
    }

    pub(super) fn include(&mut self, directive: Span) -> After {
        let Some(include) = self.include_name(directive) else {
            return After::Go;
        };
        if self.files.len() >= INCLUDE_DEPTH {
            let message = format!("`{}` is included {INCLUDE_DEPTH} files deep", include.name);
            let hint = "a file that includes itself needs `#pragma once` or an `#ifndef` around it";
            self.error(Diagnostic::error("E0011", include.span, message).hint(hint));
            return After::Stop;
        }
        let Some(left) = self.includes_left.checked_sub(1) else {
            let message = format!("the program includes more than {MAX_INCLUDES} files");
            let hint = "each time counts; put `#pragma once` or an `#ifndef` around files";
            self.stop(include.span, message, hint);
            return After::Stop;
        };
        self.includes_left = left;
        let (index, directory) = match self.find(&include) {
            Some(Found::File(system, path)) => (
                self.read_file(system, &path, include.span),
                Some(directory_of(&path)),
            ),
            Some(Found::Builtin(text)) => (self.read_builtin(&include.name, text), None),
            None => {
                let diagnostic = self.not_found(&include);
                self.error(diagnostic);
                return After::Go;
            }
        };
        match index.filter(|index| !self.once.contains(index)) {
            Some(index) => After::Open(index, directory, include.span),
            None => After::Go,
        }
    }

    fn include_name(&mut self, directive: Span) -> Option<IncludeName> {
        let file = self.files.last_mut()?;
        let written = file.lexer.header_name(&mut self.found);
        let name = match written {
            Some((name, angle, span)) => Some(IncludeName { name, angle, span }),
            None => self.computed_name(),
        };
        let name = name.filter(|include| !include.name.is_empty());
        if name.is_none() {
            let hint = "write `#include <FILE>` or `#include \"FILE\"`";
            self.error(
                Diagnostic::error("E0012", directive, "this include names no file").hint(hint),
            );
        }
        name
    }

    /// Returns the name given by macros.
    fn computed_name(&mut self) -> Option<IncludeName> {
        let tokens = self.rest_of_directive();
        let tokens = self.expand_list(tokens);
        let text = |token: &Token| self.interner.text(token.symbol);
        match tokens.as_slice() {
            [string] if string.kind == TokenKind::String => Some(IncludeName {
                name: text(string).to_string(),
                angle: false,
                span: string.span,
            }),
            [open, name @ .., close]
                if open.kind == TokenKind::Lt && close.kind == TokenKind::Gt =>
            {
                let name = name.iter().map(|token| &**text(token)).collect();
                Some(IncludeName {
                    name,
                    angle: true,
                    span: open.span.to(close.span),
                })
            }
            _ => None,
        }
    }

    fn find(&self, include: &IncludeName) -> Option<Found<'a>> {
        let file = self.system.and_then(|system| {
            let path = system.find(&self.searched(system, include), &include.name)?;
            Some(Found::File(system, path))
        });
        file.or_else(|| self.builtin(&include.name).map(Found::Builtin))
    }

    fn builtin(&self, name: &str) -> Option<&'static str> {
        self.options.builtin.and_then(|builtin| builtin(name))
    }

    /// Returns the directories that are searched for an include, in order.
    fn searched(&self, system: &FileSystem, include: &IncludeName) -> Vec<PathBuf> {
        let own = self
            .files
            .last()
            .and_then(|file| file.directory.clone())
            .filter(|_| !include.angle);
        own.into_iter()
            .chain(system.include_dirs.iter().cloned())
            .collect()
    }

    fn not_found(&self, include: &IncludeName) -> Diagnostic {
        let message = format!("cannot find the file `{}`", include.name);
        let diagnostic = Diagnostic::error("E0010", include.span, message);
        let standard = STANDARD.iter().filter(|name| self.builtin(name).is_some());
        let mut near: Vec<String> = standard.map(|name| (*name).to_string()).collect();
        let (searched, hint) = match self.system {
            None => (
                "the standard includes".to_string(),
                "a program that is given as text includes standard files alone; put the text of \
                 other files in the place of their includes",
            ),
            Some(system) => {
                let directories = self.searched(system, include);
                let mut searched: Vec<String> = directories
                    .iter()
                    .map(|directory| format!("`{}`", shown_directory(directory)))
                    .collect();
                searched.push("the standard includes".to_string());
                for directory in &directories {
                    near.extend(system.names_near(directory, &include.name));
                }
                (
                    searched.join(", "),
                    "add the directory that has the file with `-I DIRECTORY`",
                )
            }
        };
        let diagnostic = diagnostic.note(format!("searched: {searched}"));
        match suggest(&include.name, near.iter().map(String::as_str)) {
            Some(close) => diagnostic.hint(format!("did you mean `{close}`?")),
            None => diagnostic.hint(hint),
        }
    }

    fn read_builtin(&mut self, name: &str, text: &'static str) -> Option<usize> {
        let key = PathBuf::from(format!("<{name}>"));
        if let Some(&index) = self.read.get(&key) {
            return Some(index);
        }
        let index = self.sources.add(format!("<{name}>"), text)?;
        self.read.insert(key, index);
        Some(index)
    }

    fn read_file(&mut self, system: &FileSystem, path: &Path, at: Span) -> Option<usize> {
        let key = system.identity(path);
        if let Some(&index) = self.read.get(&key) {
            return Some(index);
        }
        let shown = path.display().to_string();
        let bytes = match system.read(path) {
            Ok(bytes) => bytes,
            Err(problem) => {
                let code = match problem {
                    ReadError::TooLarge(_) => "E0003",
                    ReadError::System(_) | ReadError::NotText => "E0001",
                };
                let message = format!("cannot read `{shown}`: {problem}");
                self.error(Diagnostic::error(code, at, message));
                return None;
            }
        };
        let is_binary = bytes.contains(&0);
        // Bytes that are not UTF-8 are allowed in comments (P4_16, section "Lexical constructs")
        // and rejected elsewhere.
        let text = if is_binary {
            String::new()
        } else {
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let Some(index) = self.sources.add(shown.clone(), text) else {
            self.error(Diagnostic::error(
                "E0003",
                at,
                format!("`{shown}` is too large: all files together may have 4 GiB"),
            ));
            return None;
        };
        if is_binary {
            let base = self.sources.files()[index].base();
            let message = format!("`{shown}` is not a text file");
            self.error(
                Diagnostic::error("E0002", Span::new(base, base), message)
                    .hint("give the P4 source of the program"),
            );
        }
        self.read.insert(key, index);
        Some(index)
    }
}

fn directory_of(path: &Path) -> PathBuf {
    path.parent().map(Path::to_path_buf).unwrap_or_default()
}

fn shown_directory(directory: &Path) -> String {
    if directory.as_os_str().is_empty() {
        ".".to_string()
    } else {
        directory.display().to_string()
    }
}
