//! `#include`: finding and reading files.

use std::path::{Path, PathBuf};

use crate::diag::{Diagnostic, suggest};
use crate::source::Span;
use crate::token::{Token, TokenKind};

use super::{After, INCLUDE_DEPTH, Preprocessor, Root};

/// The standard includes that a misspelt name is compared with.
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

/// Where an include was found.
enum Found {
    File(PathBuf),
    Builtin(&'static str),
}

impl Preprocessor<'_> {
    pub(super) fn open_root(&mut self, root: Root<'_>) {
        match root {
            Root::Text(name, text) => {
                if let Some(index) = self.sources.add(name, text) {
                    self.open(index, Some(directory_of(Path::new(name))));
                }
            }
            Root::File(path) => {
                if let Some(index) = self.read_file(path, Span::NONE) {
                    self.open(index, Some(directory_of(path)));
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
        match self.find(&include) {
            Some(Found::File(path)) => {
                let index = self
                    .read_file(&path, include.span)
                    .filter(|index| !self.once.contains(index));
                index.map_or(After::Go, |index| {
                    After::Open(index, Some(directory_of(&path)))
                })
            }
            Some(Found::Builtin(text)) => {
                let index = self
                    .read_builtin(&include.name, text)
                    .filter(|index| !self.once.contains(index));
                index.map_or(After::Go, |index| After::Open(index, None))
            }
            None => {
                let diagnostic = self.not_found(&include);
                self.error(diagnostic);
                After::Go
            }
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

    /// The name that macros expand to.
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

    fn find(&self, include: &IncludeName) -> Option<Found> {
        let mut candidates = self
            .searched(include)
            .into_iter()
            .map(|directory| directory.join(&include.name));
        let file = candidates.find(|path| path.is_file());
        file.map(Found::File)
            .or_else(|| self.builtin(&include.name).map(Found::Builtin))
    }

    fn builtin(&self, name: &str) -> Option<&'static str> {
        self.options.builtin.and_then(|builtin| builtin(name))
    }

    /// The directories where an include is looked for, in order.
    fn searched(&self, include: &IncludeName) -> Vec<PathBuf> {
        let own = self
            .files
            .last()
            .and_then(|file| file.directory.clone())
            .filter(|_| !include.angle);
        own.into_iter()
            .chain(self.options.include_dirs.iter().cloned())
            .collect()
    }

    fn not_found(&self, include: &IncludeName) -> Diagnostic {
        let directories = self.searched(include);
        let mut diagnostic = Diagnostic::error(
            "E0010",
            include.span,
            format!("cannot find the file `{}`", include.name),
        );
        let shown: Vec<String> = directories
            .iter()
            .map(|d| format!("`{}`", shown_directory(d)))
            .collect();
        let last = "the standard includes";
        let searched = if shown.is_empty() {
            last.to_string()
        } else {
            format!("{}, {last}", shown.join(", "))
        };
        diagnostic = diagnostic.note(format!("searched: {searched}"));
        let mut near: Vec<String> = STANDARD
            .iter()
            .filter(|n| self.builtin(n).is_some())
            .map(|n| n.to_string())
            .collect();
        for directory in directories {
            near.extend(files_beside(&directory, &include.name));
        }
        match suggest(&include.name, near.iter().map(String::as_str)) {
            Some(close) => diagnostic.hint(format!("did you mean `{close}`?")),
            None => diagnostic.hint("add the directory that has the file with `-I DIRECTORY`"),
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

    fn read_file(&mut self, path: &Path, at: Span) -> Option<usize> {
        let key = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        if let Some(&index) = self.read.get(&key) {
            return Some(index);
        }
        let shown = path.display().to_string();
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(problem) => {
                self.error(Diagnostic::error(
                    "E0001",
                    at,
                    format!("cannot read `{shown}`: {}", reason(&problem)),
                ));
                return None;
            }
        };
        let is_binary = bytes.contains(&0);
        // Bytes that are not UTF-8 may stand in comments (P4_16, section "Lexical constructs"); elsewhere they are refused.
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

/// The system's reason, without its number.
fn reason(problem: &std::io::Error) -> String {
    match problem.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_string(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_string(),
        std::io::ErrorKind::IsADirectory => "it is a directory".to_string(),
        _ => problem.to_string(),
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

/// The names, as an include would write them, of the files in the directory that `name` looked into.
fn files_beside(directory: &Path, name: &str) -> Vec<String> {
    /// A directory may be large; near names are worth no more than this.
    const LOOKED_AT: usize = 1000;
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
        .take(LOOKED_AT)
        .flatten()
        .map(|entry| prefix.join(entry.file_name()).display().to_string());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}
