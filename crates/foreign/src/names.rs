//! C identifiers for P4 names.

use std::collections::BTreeSet;

/// Words that a generated identifier must not be: keywords of C11 and of common compilers, and
/// names that the standard headers of `clip.h` define as macros or types.
const RESERVED: &[&str] = &[
    "BUFSIZ",
    "EOF",
    "FILE",
    "NULL",
    "alignas",
    "alignof",
    "asm",
    "auto",
    "bool",
    "break",
    "case",
    "char",
    "const",
    "constexpr",
    "continue",
    "default",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "false",
    "float",
    "for",
    "goto",
    "if",
    "inline",
    "int",
    "int16_t",
    "int32_t",
    "int64_t",
    "int8_t",
    "linux",
    "long",
    "main",
    "nullptr",
    "offsetof",
    "register",
    "restrict",
    "return",
    "short",
    "signed",
    "size_t",
    "sizeof",
    "static",
    "static_assert",
    "stderr",
    "stdin",
    "stdout",
    "struct",
    "switch",
    "thread_local",
    "true",
    "typedef",
    "typeof",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "uint8_t",
    "union",
    "unix",
    "unsigned",
    "va_arg",
    "va_end",
    "va_list",
    "va_start",
    "void",
    "volatile",
    "while",
];

/// Set of the identifiers of one name space of C.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    used: BTreeSet<String>,
}

impl Scope {
    /// Returns true if the identifier is free here.
    pub(crate) fn is_free(&self, name: &str) -> bool {
        !self.used.contains(name)
    }

    /// Returns the identifier for a name, different from all others of the scope. Invalid
    /// characters become `_`. Underscores are appended to reserved words and used identifiers.
    pub(crate) fn add(&mut self, name: &str) -> String {
        let mut name = identifier(name);
        while !self.used.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    /// Returns the identifiers for full names of the control plane: the last part of each if that
    /// is unique among them, else all parts with underscores.
    pub(crate) fn add_last_parts(&mut self, names: &[&str]) -> Vec<String> {
        let last: Vec<String> = names
            .iter()
            .map(|name| identifier(last_part(name)))
            .collect();
        let is_unique = |part: &String| last.iter().filter(|other| *other == part).count() == 1;
        let parts = names.iter().zip(&last);
        parts
            .map(|(name, part)| match is_unique(part) {
                true => self.add(part),
                false => self.add(name),
            })
            .collect()
    }
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Returns a valid C identifier for a name.
fn identifier(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        let is_kept = c.is_ascii_alphanumeric() || c == '_';
        match is_kept {
            true => out.push(c),
            // A run of other characters is one underscore.
            false if !out.ends_with('_') => out.push('_'),
            false => {}
        }
    }
    let trimmed = match name.ends_with('_') {
        true => out.as_str(),
        false => out.trim_end_matches('_'),
    };
    let trimmed = match name.starts_with('_') {
        true => trimmed,
        false => trimmed.trim_start_matches('_'),
    };
    let mut out = trimmed.to_owned();
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, '_');
    }
    // Identifiers that start like this are the C implementation's.
    let is_implementation = out.starts_with("__")
        || out.starts_with('_') && out[1..].starts_with(|c: char| c.is_ascii_uppercase());
    if is_implementation {
        out.insert(0, 'p');
    }
    let is_own = ["clip_", "CLIP_"].iter().any(|own| out.starts_with(own));
    if is_own || RESERVED.contains(&out.as_str()) {
        out.push('_');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_valid_identifiers() {
        for (name, expect) in [
            ("port", "port"),
            ("int", "int_"),
            ("hdr.ipv4.src", "hdr_ipv4_src"),
            ("hdr.h.$valid$", "hdr_h_valid"),
            ("hdr.h.isValid()", "hdr_h_isValid"),
            ("stack[0].x", "stack_0_x"),
            ("_x", "_x"),
            ("__x", "p__x"),
            ("_X", "p_X"),
            ("x__", "x__"),
            ("1", "_1"),
            ("", "_"),
            ("clip_t", "clip_t_"),
            ("\u{e9}", "_"),
        ] {
            assert_eq!(identifier(name), expect, "{name}");
        }
    }

    #[test]
    fn last_parts_are_used_where_they_are_unique() {
        let mut scope = Scope::default();
        let names = scope.add_last_parts(&["ingress.nat", "a.fib", "b.fib", "x.while"]);
        assert_eq!(names, ["nat", "a_fib", "b_fib", "while_"]);
        assert_eq!(scope.add("nat"), "nat_");
        assert_eq!(scope.add("nat"), "nat__");
    }
}
