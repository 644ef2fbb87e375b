//! Rules of tables in all architectures: match kinds and the entries that they can express.

use num_bigint::BigInt;
use support::work::checkpoint;
use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::Span;

use super::Arch;
use crate::annotations::has;
use crate::code;
use crate::hir::{Expr, ExprKind, Key, KeySet, Program, Table, Ty, TyId};

pub(super) fn check(arch: Arch, program: &Program, diagnostics: &mut Diagnostics) {
    for table in program.tables.values() {
        if arch == Arch::V1Model {
            one_prefix(program, table, diagnostics);
        }
    }
    check_entries(program, diagnostics);
    for table in program.tables.values() {
        plain_enums(program, table, diagnostics);
    }
}

/// Reports keys of an enum without an underlying type: a controller cannot write their values.
fn plain_enums(program: &Program, table: &Table, diagnostics: &mut Diagnostics) {
    if table.entries_are_const || has(&table.annotations, "hidden") {
        return;
    }
    for key in &table.keys {
        // Entries contain no selector keys.
        if program.match_kinds[key.match_kind].as_str() == "selector" {
            continue;
        }
        let Ty::Enum(id) = program.types.get(key.expr.ty) else {
            continue;
        };
        let decl = &program.enums[*id];
        if decl.underlying.is_none() {
            let message = format!(
                "the key `{}` is of the enum `{}`, which has no underlying type: no controller can \
                 write its values",
                key.control_plane_name,
                decl.name.as_str()
            );
            let hint = "give the enum a type, `enum bit<8> ..`, or the table `const entries`";
            diagnostics.push(Diagnostic::error(code::BAD_KEY, key.expr.span, message).hint(hint));
        }
    }
}

/// Checks that the match kinds of the keys can express the entries.
fn check_entries(program: &Program, diagnostics: &mut Diagnostics) {
    for table in program.tables.values() {
        for entry in &table.entries {
            checkpoint();
            for (set, key) in entry.keys.iter().zip(&table.keys) {
                key_set(program, set, key, entry.span, diagnostics);
            }
        }
    }
}

/// Checks that a table has at most one `lpm` key, the limit of simple_switch.
fn one_prefix(program: &Program, table: &Table, diagnostics: &mut Diagnostics) {
    let is_lpm = |key: &&Key| program.match_kinds[key.match_kind].as_str() == "lpm";
    let mut prefixes = table.keys.iter().filter(is_lpm);
    if let (Some(first), Some(second)) = (prefixes.next(), prefixes.next()) {
        let message = format!(
            "table `{}` has two `lpm` keys: v1model allows one",
            table.name.as_str()
        );
        diagnostics.push(
            Diagnostic::error(code::ARCHITECTURE, second.expr.span, message)
                .label(first.expr.span, "the first one")
                .hint("use `ternary` for the others"),
        );
    }
}

fn key_set(program: &Program, set: &KeySet, key: &Key, entry: Span, diagnostics: &mut Diagnostics) {
    let kind = program.match_kinds[key.match_kind].as_str();
    let (at, word): (&Expr, &str) = match set {
        KeySet::Mask(value, _) => (value, "mask"),
        KeySet::Range(low, _) => (low, "range"),
        KeySet::Any if kind == "exact" => {
            let message = format!(
                "`_` and `default` cannot be given for `{}`, a key of kind `exact`",
                key.control_plane_name
            );
            let hint = "give a value, or make the key `ternary` or `optional`";
            diagnostics.push(Diagnostic::error(code::BAD_ENTRY, entry, message).hint(hint));
            return;
        }
        _ => return,
    };
    let allowed = match word {
        "mask" => !matches!(kind, "exact" | "range" | "optional"),
        _ => !matches!(kind, "exact" | "lpm" | "ternary" | "optional"),
    };
    if !allowed {
        let message = format!("a {word} cannot be given for a key of kind `{kind}`");
        diagnostics.push(Diagnostic::error(code::BAD_ENTRY, at.span, message));
        return;
    }
    if let (KeySet::Mask(_, mask), "lpm") = (set, kind)
        && !is_prefix(program, mask)
    {
        let message = "the mask of an `lpm` key must be ones followed by zeros";
        diagnostics.push(Diagnostic::error(code::BAD_ENTRY, mask.span, message));
    }
}

/// Returns true if a mask is ones followed by zeros, or unknown.
fn is_prefix(program: &Program, mask: &Expr) -> bool {
    let (ExprKind::Int(value), Some(width)) = (&mask.kind, width(program, mask.ty)) else {
        return true;
    };
    let zeros = ((BigInt::from(1) << width) - 1) - crate::consteval::unsigned(value, width);
    (&zeros & (&zeros + 1u8)) == BigInt::ZERO
}

pub(super) fn width(program: &Program, ty: TyId) -> Option<u32> {
    match program.types.get(ty) {
        Ty::Bit(width) | Ty::Int(width) => Some(*width),
        Ty::NewType(id) => width(program, program.new_types[*id].underlying),
        Ty::Enum(id) => program.enums[*id]
            .underlying
            .and_then(|ty| width(program, ty)),
        _ => None,
    }
}
