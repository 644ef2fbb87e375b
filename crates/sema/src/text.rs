//! Expressions as text: names of keys for the control plane, and whether two expressions are written alike.

use syntax::ast::{Arg, Expr, ExprKind, IntLiteral, TypeRef, UnaryOp};

use crate::expr::symbol;

/// The expression in P4's notation, with one blank around binary operators and none elsewhere.
pub(crate) fn expr_text(e: &Expr) -> String {
    let mut out = String::new();
    write(e, &mut out);
    out
}

fn list<T>(items: &[T], out: &mut String, mut each: impl FnMut(&T, &mut String)) {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        each(item, out);
    }
}

fn write(e: &Expr, out: &mut String) {
    match &e.kind {
        ExprKind::Int(literal) => int(literal, out),
        ExprKind::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        ExprKind::String(text) => out.push_str(&format!("{text:?}")),
        ExprKind::Name(path) => {
            if path.absolute {
                out.push('.');
            }
            out.push_str(path.name.as_str());
        }
        ExprKind::This => out.push_str("this"),
        ExprKind::TypeName(ty) => type_ref(ty, out),
        ExprKind::Member(base, name) => {
            write(base, out);
            out.push('.');
            out.push_str(name.as_str());
        }
        ExprKind::Index(base, index) => {
            write(base, out);
            out.push('[');
            write(index, out);
            out.push(']');
        }
        ExprKind::Slice(base, hi, lo) => {
            write(base, out);
            out.push('[');
            write(hi, out);
            out.push(':');
            write(lo, out);
            out.push(']');
        }
        ExprKind::PlusSlice(base, lo, width) => {
            write(base, out);
            out.push('[');
            write(lo, out);
            out.push_str("+:");
            write(width, out);
            out.push(']');
        }
        ExprKind::Unary(op, operand) => {
            out.push(match op {
                UnaryOp::Neg => '-',
                UnaryOp::Plus => '+',
                UnaryOp::Complement => '~',
                UnaryOp::Not => '!',
            });
            write(operand, out);
        }
        ExprKind::Binary(op, a, b) => {
            write(a, out);
            out.push(' ');
            out.push_str(symbol(*op));
            out.push(' ');
            write(b, out);
        }
        ExprKind::Ternary(a, b, c) => {
            write(a, out);
            out.push_str(" ? ");
            write(b, out);
            out.push_str(" : ");
            write(c, out);
        }
        ExprKind::Cast(ty, operand) => {
            out.push('(');
            type_ref(ty, out);
            out.push(')');
            write(operand, out);
        }
        ExprKind::Call {
            callee,
            type_args,
            args,
        } => {
            write(callee, out);
            if !type_args.is_empty() {
                out.push('<');
                list(type_args, out, type_ref);
                out.push('>');
            }
            out.push('(');
            list(args, out, arg);
            out.push(')');
        }
        ExprKind::List {
            elements,
            rest_default,
        } => {
            out.push('{');
            list(elements, out, write);
            if *rest_default {
                out.push_str(", ...");
            }
            out.push('}');
        }
        ExprKind::Record {
            fields,
            rest_default,
        } => {
            out.push('{');
            list(fields, out, |(name, value), out| {
                out.push_str(name.as_str());
                out.push_str(" = ");
                write(value, out);
            });
            if *rest_default {
                out.push_str(", ...");
            }
            out.push('}');
        }
        ExprKind::InvalidHeader => out.push_str("{#}"),
        ExprKind::Default => out.push_str("..."),
        ExprKind::DontCare | ExprKind::Error => out.push('_'),
    }
}

fn int(literal: &IntLiteral, out: &mut String) {
    if let Some((width, signed)) = literal.width {
        out.push_str(&format!("{width}{}", if signed { 's' } else { 'w' }));
    }
    out.push_str(match literal.radix {
        2 => "0b",
        8 => "0o",
        16 => "0x",
        _ => "",
    });
    out.push_str(&literal.digits);
}

/// An argument in P4's notation.
pub(crate) fn arg(arg: &Arg, out: &mut String) {
    if let Some(name) = &arg.name {
        out.push_str(name.as_str());
        out.push_str(" = ");
    }
    match &arg.value {
        Some(value) => write(value, out),
        None => out.push('_'),
    }
}

fn type_ref(ty: &TypeRef, out: &mut String) {
    match ty {
        TypeRef::Bool(_) => out.push_str("bool"),
        TypeRef::Error(_) => out.push_str("error"),
        TypeRef::MatchKind(_) => out.push_str("match_kind"),
        TypeRef::String(_) => out.push_str("string"),
        TypeRef::Void(_) => out.push_str("void"),
        TypeRef::Integer(_) => out.push_str("int"),
        TypeRef::DontCare(_) => out.push('_'),
        TypeRef::Bit(None, _) => out.push_str("bit<1>"),
        TypeRef::Bit(Some(width), _) => sized("bit", width, out),
        TypeRef::Int(width, _) => sized("int", width, out),
        TypeRef::Varbit(width, _) => sized("varbit", width, out),
        TypeRef::Name(path) => out.push_str(path.name.as_str()),
        TypeRef::Specialized(path, args, _) => {
            out.push_str(path.name.as_str());
            out.push('<');
            list(args, out, type_ref);
            out.push('>');
        }
        TypeRef::Array(element, size, _) => {
            type_ref(element, out);
            out.push('[');
            write(size, out);
            out.push(']');
        }
        TypeRef::Tuple(elements, _) => {
            out.push_str("tuple<");
            list(elements, out, type_ref);
            out.push('>');
        }
        TypeRef::List(element, _) => {
            out.push_str("list<");
            type_ref(element, out);
            out.push('>');
        }
    }
}

fn sized(word: &str, width: &Expr, out: &mut String) {
    out.push_str(word);
    out.push('<');
    write(width, out);
    out.push('>');
}
