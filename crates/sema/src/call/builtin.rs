//! Methods defined by the language: validity, stacks, sizes.

use num_traits::Signed;
use syntax::ast::{Name, RecordKind};
use syntax::source::Span;

use super::Written;
use crate::hir::{Arg, Builtin, Call, Callee, Expr, ExprKind, Ty, TyId};
use crate::{Checker, code};

const SIZES: [&str; 4] = [
    "minSizeInBits",
    "minSizeInBytes",
    "maxSizeInBits",
    "maxSizeInBytes",
];

/// Returns true if a method returns a size and does not evaluate its receiver.
pub(super) fn is_size_method(name: &str) -> bool {
    SIZES.contains(&name)
}

impl Checker<'_> {
    pub(super) fn call_builtin(&mut self, base: Expr, name: &Name, written: Written<'_>) -> Expr {
        if !written.type_args.is_empty() {
            self.type_arg_count(name.as_str(), written.span, 0, written.type_args.len());
            return self.poison_args(written);
        }
        if SIZES.contains(&name.as_str()) {
            return self.size_method(base.ty, name, written);
        }
        let builtin = match (self.ty(base.ty).clone(), name.as_str()) {
            (Ty::Record(id, _), method) => match (self.p.records[id].kind, method) {
                (RecordKind::Header | RecordKind::HeaderUnion, "isValid") => Some(Builtin::IsValid),
                (RecordKind::Header, "setValid") => Some(Builtin::SetValid),
                (RecordKind::Header, "setInvalid") => Some(Builtin::SetInvalid),
                _ => None,
            },
            (Ty::Stack(element, _), "push_front") if self.is_header_like(element) => {
                Some(Builtin::PushFront)
            }
            (Ty::Stack(element, _), "pop_front") if self.is_header_like(element) => {
                Some(Builtin::PopFront)
            }
            _ => None,
        };
        let Some(builtin) = builtin else {
            self.poison_args(written);
            let names = self.builtin_names(base.ty);
            return self.no_member(base.ty, name, written.span, &names);
        };
        match builtin {
            Builtin::PushFront | Builtin::PopFront => self.shift_stack(builtin, base, written),
            _ => self.validity(builtin, base, written),
        }
    }

    fn builtin_names(&self, ty: TyId) -> Vec<String> {
        let names: &[&str] = match self.ty(ty) {
            Ty::Record(id, _) => match self.p.records[*id].kind {
                RecordKind::Header => &["isValid", "setValid", "setInvalid"],
                RecordKind::HeaderUnion => &["isValid"],
                RecordKind::Struct => &[],
            },
            Ty::Stack(..) => &["push_front", "pop_front"],
            Ty::Table(_) | Ty::Parser(_) | Ty::Control(_) => &["apply"],
            _ => &[],
        };
        names.iter().map(|name| name.to_string()).collect()
    }

    fn validity(&mut self, builtin: Builtin, base: Expr, written: Written<'_>) -> Expr {
        if !written.args.is_empty() {
            let message = format!("`{}` takes no arguments", written.name);
            return self.fail(code::BAD_ARGS, written.span, message);
        }
        let ty = if builtin == Builtin::IsValid {
            self.t.boolean
        } else {
            self.t.void
        };
        if builtin != Builtin::IsValid
            && !self.require_lvalue(&base, &format!("the header of `{}`", written.name))
        {
            return self.poison(written.span);
        }
        self.builtin_call(builtin, base, Vec::new(), ty, written.span)
    }

    fn shift_stack(&mut self, builtin: Builtin, base: Expr, written: Written<'_>) -> Expr {
        let [arg] = written.args else {
            let message = format!("`{}` takes one argument: by how much", written.name);
            return self.fail(code::BAD_ARGS, written.span, message);
        };
        if !self.require_lvalue(&base, &format!("the stack of `{}`", written.name)) {
            return self.poison(written.span);
        }
        let Some(value) = &arg.value else {
            return self.fail(code::BAD_ARGS, arg.span, "a count is needed here");
        };
        let Some(count) = self.constant_int(value, &format!("the argument of `{}`", written.name))
        else {
            return self.poison(written.span);
        };
        if count.is_negative() {
            let message = format!(
                "the argument of `{}` cannot be negative: it is {count}",
                written.name
            );
            return self.fail(code::OUT_OF_RANGE, arg.span, message);
        }
        let count = Expr {
            kind: ExprKind::Int(count),
            ty: self.t.integer,
            span: arg.span,
        };
        self.builtin_call(
            builtin,
            base,
            vec![Arg::Expr(count)],
            self.t.void,
            written.span,
        )
    }

    fn builtin_call(
        &mut self,
        builtin: Builtin,
        base: Expr,
        args: Vec<Arg>,
        ty: TyId,
        span: Span,
    ) -> Expr {
        let callee = Callee::Builtin(builtin, Box::new(base));
        let call = Call {
            callee,
            type_args: Vec::new(),
            args,
            order: Vec::new(),
            span,
        };
        Expr {
            kind: ExprKind::Call(call),
            ty,
            span,
        }
    }

    /// Checks `T.minSizeInBits()` and similar methods on a type name.
    pub(super) fn size_method_of_type(
        &mut self,
        ty: TyId,
        name: &Name,
        written: Written<'_>,
    ) -> Expr {
        if SIZES.contains(&name.as_str()) {
            return self.size_method(ty, name, written);
        }
        self.poison_args(written);
        let message = format!(
            "the type {} has no method `{}`",
            self.show(ty),
            name.as_str()
        );
        self.fail(code::NO_MEMBER, name.span, message)
    }

    fn size_method(&mut self, ty: TyId, name: &Name, written: Written<'_>) -> Expr {
        if !written.args.is_empty() {
            let message = format!("`{}` takes no arguments", name.as_str());
            return self.fail(code::BAD_ARGS, written.span, message);
        }
        let Some((least, most)) = self.size_in_bits(ty) else {
            let message = format!(
                "{} has no size that is known at compile time",
                self.show(ty)
            );
            return self.fail(code::BAD_OPERAND, written.span, message);
        };
        let bits = if name.as_str().starts_with("min") {
            least
        } else {
            most
        };
        let size = if name.as_str().ends_with("Bytes") {
            bits.div_ceil(8)
        } else {
            bits
        };
        Expr {
            kind: ExprKind::Int(size.into()),
            ty: self.t.integer,
            span: written.span,
        }
    }
}
