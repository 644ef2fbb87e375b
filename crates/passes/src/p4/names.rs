//! Identifiers: P4 identifiers made from names of the IR, each unique in its scope.

use std::collections::HashSet;

/// Keywords.
const KEYWORDS: &[&str] = &[
    "abstract",
    "action",
    "actions",
    "apply",
    "bool",
    "bit",
    "break",
    "const",
    "continue",
    "control",
    "default",
    "else",
    "entries",
    "enum",
    "error",
    "exit",
    "extern",
    "false",
    "for",
    "header",
    "header_union",
    "if",
    "in",
    "inout",
    "int",
    "key",
    "list",
    "match_kind",
    "out",
    "package",
    "parser",
    "pragma",
    "priority",
    "return",
    "select",
    "set",
    "state",
    "string",
    "struct",
    "switch",
    "table",
    "this",
    "transition",
    "true",
    "tuple",
    "type",
    "typedef",
    "value_set",
    "varbit",
    "void",
];

/// Names of `core.p4`, of `v1model.p4` and of the printed text itself.
const DECLARED: &[&str] = &[
    "accept",
    "reject",
    "start",
    "packet_in",
    "packet_out",
    "verify",
    "NoAction",
    "exact",
    "ternary",
    "lpm",
    "static_assert",
    "range",
    "optional",
    "selector",
    "PortId_t",
    "standard_metadata_t",
    "CounterType",
    "MeterType",
    "counter",
    "direct_counter",
    "meter",
    "direct_meter",
    "register",
    "action_profile",
    "random",
    "digest",
    "HashAlgorithm",
    "mark_to_drop",
    "hash",
    "action_selector",
    "CloneType",
    "Checksum16",
    "verify_checksum",
    "update_checksum",
    "verify_checksum_with_payload",
    "update_checksum_with_payload",
    "clone",
    "resubmit",
    "resubmit_preserving_field_list",
    "recirculate",
    "recirculate_preserving_field_list",
    "clone3",
    "clone_preserving_field_list",
    "truncate",
    "assert",
    "assume",
    "log_msg",
    "Parser",
    "VerifyChecksum",
    "Ingress",
    "Egress",
    "ComputeChecksum",
    "Deparser",
    "V1Switch",
    "main",
    "packet",
    "hdr",
    "meta",
    "standard_metadata",
    "headers_t",
    "metadata_t",
];

/// Keywords that are identifiers where a member is declared (P4_16, appendix G: `nonTypeName`).
const NAMES_OF_MEMBERS: &[&str] = &[
    "actions", "apply", "entries", "key", "priority", "state", "type",
];

/// Identifiers that are taken in a scope.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// Creates the scope of a program's declarations.
    pub(super) fn of_declarations() -> Names {
        Names {
            taken: KEYWORDS
                .iter()
                .chain(DECLARED)
                .map(|&word| word.to_owned())
                .collect(),
        }
    }

    /// Creates the scope of a struct's or header's members.
    pub(super) fn of_members() -> Names {
        let words = KEYWORDS.iter();
        let words = words.filter(|word| !NAMES_OF_MEMBERS.contains(word));
        Names {
            taken: words.map(|&word| word.to_owned()).collect(),
        }
    }

    /// Returns a free identifier like the name, which is then taken.
    pub(super) fn fresh(&mut self, name: &str) -> String {
        let plain = identifier(name);
        let mut made = plain.clone();
        let mut number = 1;
        while self.taken.contains(&made) {
            number += 1;
            made = format!("{plain}_{number}");
        }
        self.taken.insert(made.clone());
        made
    }
}

/// Returns the name with all that no identifier has made `_`.
fn identifier(name: &str) -> String {
    let mut made = String::new();
    for c in name.chars() {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => made.push(c),
            _ if made.is_empty() || made.ends_with('_') => {}
            _ => made.push('_'),
        }
    }
    let made = made.trim_end_matches('_');
    match made.chars().next() {
        None => "value".to_owned(),
        Some('0'..='9') => format!("value_{made}"),
        Some(_) => made.to_owned(),
    }
}

/// Returns a text as a string literal of P4.
pub fn quoted(text: &str) -> String {
    let mut literal = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => literal.extend(['\\', c]),
            '\n' => literal.push_str("\\n"),
            '\t' => literal.push_str("\\t"),
            '\r' => literal.push_str("\\r"),
            c => literal.push(c),
        }
    }
    literal.push('"');
    literal
}
