//! Prints expressions with explicit grouping.

use syntax::ast::{Arg, Expr, ExprKind, TypeRef};

pub(crate) fn list<T>(items: &[T], print: impl Fn(&T) -> String) -> String {
    items.iter().map(print).collect::<Vec<_>>().join(", ")
}

fn print_arg(arg: &Arg) -> String {
    let value = arg.value.as_ref().map_or("_".to_string(), print);
    arg.name
        .as_ref()
        .map_or(value.clone(), |name| format!("{} = {value}", name.as_str()))
}

pub(crate) fn print(e: &Expr) -> String {
    match &e.kind {
        ExprKind::Int(i) => match i.width {
            Some((width, signed)) => format!(
                "{width}{}{}:{}",
                if signed { 's' } else { 'w' },
                i.radix,
                i.digits
            ),
            None => format!("{}:{}", i.radix, i.digits).replace("10:", ""),
        },
        ExprKind::Bool(b) => b.to_string(),
        ExprKind::String(s) => format!("{s:?}"),
        ExprKind::Name(p) => format!("{}{}", if p.absolute { "." } else { "" }, p.name.as_str()),
        ExprKind::This => "this".to_string(),
        ExprKind::TypeName(t) => format!("type {}", print_type(t)),
        ExprKind::Member(e, name) => format!("{}.{}", print(e), name.as_str()),
        ExprKind::Index(e, i) => format!("{}[{}]", print(e), print(i)),
        ExprKind::Slice(e, h, l) => format!("{}[{}:{}]", print(e), print(h), print(l)),
        ExprKind::PlusSlice(e, l, w) => format!("{}[{} +: {}]", print(e), print(l), print(w)),
        ExprKind::Unary(op, e) => format!("({op:?} {})", print(e)),
        ExprKind::Binary(op, a, b) => format!("({} {op:?} {})", print(a), print(b)),
        ExprKind::Ternary(c, a, b) => format!("({} ? {} : {})", print(c), print(a), print(b)),
        ExprKind::Cast(t, e) => format!("(cast {} {})", print_type(t), print(e)),
        ExprKind::Call {
            callee,
            type_args,
            args,
        } => {
            let types = if type_args.is_empty() {
                String::new()
            } else {
                format!("<{}>", list(type_args, print_type))
            };
            format!("{}{types}({})", print(callee), list(args, print_arg))
        }
        ExprKind::List {
            elements,
            rest_default,
        } => {
            format!(
                "{{{}{}}}",
                list(elements, print),
                if *rest_default { " ..." } else { "" }
            )
        }
        ExprKind::Record {
            fields,
            rest_default,
        } => {
            let fields = list(fields, |(name, e)| {
                format!("{} = {}", name.as_str(), print(e))
            });
            format!("{{{fields}{}}}", if *rest_default { " ..." } else { "" })
        }
        ExprKind::InvalidHeader => "{#}".to_string(),
        ExprKind::Default => "...".to_string(),
        ExprKind::DontCare => "_".to_string(),
        ExprKind::Error => "error".to_string(),
    }
}

pub(crate) fn print_type(t: &TypeRef) -> String {
    match t {
        TypeRef::Bool(_) => "bool".to_string(),
        TypeRef::Error(_) => "error".to_string(),
        TypeRef::MatchKind(_) => "match_kind".to_string(),
        TypeRef::String(_) => "string".to_string(),
        TypeRef::Void(_) => "void".to_string(),
        TypeRef::Integer(_) => "int".to_string(),
        TypeRef::DontCare(_) => "_".to_string(),
        TypeRef::Bit(width, _) => width
            .as_ref()
            .map_or("bit".to_string(), |w| format!("bit<{}>", print(w))),
        TypeRef::Int(width, _) => format!("int<{}>", print(width)),
        TypeRef::Varbit(width, _) => format!("varbit<{}>", print(width)),
        TypeRef::Name(path) => path.name.as_str().to_string(),
        TypeRef::Specialized(path, args, _) => {
            format!("{}<{}>", path.name.as_str(), list(args, print_type))
        }
        TypeRef::Array(element, size, _) => format!("{}[{}]", print_type(element), print(size)),
        TypeRef::Tuple(elements, _) => format!("tuple<{}>", list(elements, print_type)),
        TypeRef::List(element, _) => format!("list<{}>", print_type(element)),
    }
}
