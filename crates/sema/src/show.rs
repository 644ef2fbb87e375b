//! Formats types for messages.

use std::fmt::Write as _;

use crate::Checker;
use crate::hir::{BlockTypeKind, Program, Ty, TyId};
use syntax::ast::RecordKind;

impl Checker<'_> {
    /// Returns the type as P4 text, with its kind: `header ipv4_t`.
    pub(crate) fn show(&self, ty: TyId) -> String {
        if ty == self.t.dots {
            return "a default value `...`".into();
        }
        if ty == self.t.invalid {
            return "an invalid header `{#}`".into();
        }
        format!("`{}`", type_text(&self.p, ty))
    }
}

/// Returns the type as P4 text.
pub(crate) fn type_text(p: &Program, ty: TyId) -> String {
    let mut out = String::new();
    write_type(p, ty, &mut out);
    out
}

fn write_args(p: &Program, args: &[TyId], out: &mut String) {
    for (i, &arg) in args.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write_type(p, arg, out);
    }
}

fn write_named(p: &Program, word: &str, name: &str, args: &[TyId], out: &mut String) {
    let _ = write!(out, "{word}{name}");
    if !args.is_empty() {
        out.push('<');
        write_args(p, args, out);
        out.push('>');
    }
}

fn write_type(p: &Program, ty: TyId, out: &mut String) {
    match p.types.get(ty) {
        Ty::Error => out.push_str("unknown type"),
        Ty::Void => out.push_str("void"),
        Ty::Bool => out.push_str("bool"),
        Ty::String => out.push_str("string"),
        Ty::ErrorCode => out.push_str("error"),
        Ty::MatchKind => out.push_str("match_kind"),
        Ty::Integer => out.push_str("int"),
        Ty::Bit(w) => _ = write!(out, "bit<{w}>"),
        Ty::Int(w) => _ = write!(out, "int<{w}>"),
        Ty::Varbit(w) => _ = write!(out, "varbit<{w}>"),
        Ty::Enum(id) => out.push_str(p.enums[*id].name.as_str()),
        Ty::Record(id, args) => {
            let record = &p.records[*id];
            let word = match record.kind {
                RecordKind::Header => "header ",
                RecordKind::HeaderUnion => "header_union ",
                RecordKind::Struct => "struct ",
            };
            write_named(p, word, record.name.as_str(), args, out);
        }
        Ty::Stack(element, size) => {
            write_type(p, *element, out);
            let _ = write!(out, "[{size}]");
        }
        Ty::Tuple(elements) => {
            out.push_str("tuple<");
            write_args(p, elements, out);
            out.push('>');
        }
        Ty::List(element) => {
            out.push_str("list<");
            write_type(p, *element, out);
            out.push('>');
        }
        Ty::NewType(id) => out.push_str(p.new_types[*id].name.as_str()),
        Ty::Extern(id, args) => write_named(p, "", p.externs[*id].name.as_str(), args, out),
        Ty::Parser(id) => write_named(p, "parser ", p.parsers[*id].name.as_str(), &[], out),
        Ty::Control(id) => write_named(p, "control ", p.controls[*id].name.as_str(), &[], out),
        Ty::BlockType(id, args) => {
            let block = &p.block_types[*id];
            let word = match block.kind {
                BlockTypeKind::Parser => "parser ",
                BlockTypeKind::Control => "control ",
                BlockTypeKind::Package => "package ",
            };
            write_named(p, word, block.name.as_str(), args, out);
        }
        Ty::Action => out.push_str("action"),
        Ty::Table(id) => write_named(p, "table ", p.tables[*id].name.as_str(), &[], out),
        Ty::ApplyResult(id) => {
            _ = write!(out, "result of applying {}", p.tables[*id].name.as_str())
        }
        Ty::ActionEnum(id) => _ = write!(out, "actions of {}", p.tables[*id].name.as_str()),
        Ty::Set(element) => {
            out.push_str("set<");
            write_type(p, *element, out);
            out.push('>');
        }
        Ty::Var(var) => out.push_str(p.type_vars[*var].as_str()),
    }
}
