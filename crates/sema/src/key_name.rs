//! Control-plane names of keys without `@name`.
//!
//! P4_16 suggests a scheme and leaves it to the target (section "Keys" of control-plane names).
//! This is p4c's scheme, which controllers and tests know: `isValid()` is `$valid$`, constants are
//! their values, and a field with `@name` has that name.

use num_bigint::BigInt;
use syntax::ast;

use crate::hir::{Builtin, Callee, Expr, ExprKind, Ty, TyId};
use crate::{Checker, annotations};

impl Checker<'_> {
    /// Returns the name of a key from its text and meaning. Returns `None` if it is too complex.
    pub(crate) fn key_name(&self, written: &ast::Expr, key: &Expr) -> Option<String> {
        use ast::ExprKind as Written;
        match (&written.kind, &key.kind) {
            (_, ExprKind::Int(value)) => Some(number(written, value)),
            (_, ExprKind::Bool(value)) => Some(value.to_string()),
            (_, ExprKind::EnumMember(id, member)) => {
                let decl = &self.p.enums[*id];
                let (member, _) = decl.members.get(*member)?;
                Some(format!("{}.{}", decl.name.as_str(), member.as_str()))
            }
            (_, ExprKind::Cast(inner)) if !matches!(written.kind, Written::Cast(..)) => {
                self.key_name(written, inner)
            }
            (Written::Name(path), _) => Some(path.name.as_str().to_owned()),
            (Written::Member(base, name), ExprKind::Field(object, index)) => {
                match self.field_name(object.ty, *index) {
                    Some(global) if global.starts_with('.') => Some(global[1..].to_owned()),
                    Some(given) => Some(format!("{}.{given}", self.key_name(base, object)?)),
                    None => Some(format!(
                        "{}.{}",
                        self.key_name(base, object)?,
                        name.as_str()
                    )),
                }
            }
            (
                Written::Member(base, name),
                ExprKind::StackNext(stack)
                | ExprKind::StackLast(stack)
                | ExprKind::StackLastIndex(stack),
            ) => Some(format!("{}.{}", self.key_name(base, stack)?, name.as_str())),
            (Written::Index(base, at), ExprKind::Index(array, index)) => {
                let array = self.key_name(base, array)?;
                Some(format!("{array}[{}]", self.key_name(at, index)?))
            }
            (Written::Slice(base, written_hi, written_lo), ExprKind::Slice(whole, hi, lo)) => {
                let (hi, lo) = (BigInt::from(*hi), BigInt::from(*lo));
                let (hi, lo) = (number(written_hi, &hi), number(written_lo, &lo));
                Some(format!("{}[{hi}:{lo}]", self.key_name(base, whole)?))
            }
            (
                Written::Binary(ast::BinaryOp::And, a, b),
                ExprKind::Binary(ast::BinaryOp::And, left, right),
            ) => {
                let left = self.key_name(a, left)?;
                Some(format!("{left} & {}", self.key_name(b, right)?))
            }
            (Written::Call { callee, .. }, ExprKind::Call(call)) => {
                match (&callee.kind, &call.callee) {
                    (Written::Member(base, _), Callee::Builtin(Builtin::IsValid, header)) => {
                        Some(format!("{}.$valid$", self.key_name(base, header)?))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Returns the `@name` of a field.
    fn field_name(&self, ty: TyId, index: usize) -> Option<&str> {
        let Ty::Record(id, _) = self.ty(ty) else {
            return None;
        };
        let field = self.p.records[*id].fields.get(index)?;
        annotations::str_of(&field.annotations, "name")
    }
}

/// Returns the value in the base in which it is written, without its width.
fn number(written: &ast::Expr, value: &BigInt) -> String {
    match &written.kind {
        ast::ExprKind::Int(literal) => match literal.radix {
            2 => format!("{value:#b}"),
            8 => format!("{value:#o}"),
            16 => format!("{value:#x}"),
            _ => value.to_string(),
        },
        _ => value.to_string(),
    }
}
