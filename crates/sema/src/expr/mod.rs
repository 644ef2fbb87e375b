//! Expressions: names, members, indices, slices, conditionals. Every expression is folded when it
//! is built.

mod cast;
mod ops;
mod slice;

pub(crate) use ops::symbol;

use num_bigint::BigInt;
use num_traits::ToPrimitive;
use support::work::checkpoint;
use syntax::ast::{self, IntLiteral, Name, Path, TypeRef};
use syntax::diag::Diagnostic;
use syntax::source::Span;

use crate::hir::{ApplyMember, Callee, Expr, ExprKind, RecordId, Ty, TyId};
use crate::scope::Entity;
use crate::types::{MAX_CONSTANTS, MAX_WIDTH, Num};
use crate::{Checker, Members, code};

/// Maximum number of digits of a literal.
const MAX_DIGITS: usize = MAX_WIDTH as usize;

impl Checker<'_> {
    /// Returns the placeholder for an expression with a reported error.
    pub(crate) fn poison(&self, span: Span) -> Expr {
        Expr {
            kind: ExprKind::Default,
            ty: self.t.error,
            span,
        }
    }

    /// Reports an error and returns the placeholder.
    pub(crate) fn fail(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
    ) -> Expr {
        self.error(code, span, message);
        self.poison(span)
    }

    /// Checks an expression. `expected` is only a hint for `{ .. }`, `...`, `{#}` and generic
    /// calls: the type may differ.
    pub(crate) fn expr(&mut self, e: &ast::Expr, expected: Option<TyId>) -> Expr {
        use ast::ExprKind::*;
        checkpoint();
        let span = e.span;
        match &e.kind {
            Int(literal) => self.int_literal(literal, span),
            Bool(value) => Expr {
                kind: ExprKind::Bool(*value),
                ty: self.t.boolean,
                span,
            },
            String(text) => Expr {
                kind: ExprKind::String(text.clone()),
                ty: self.t.string,
                span,
            },
            Name(path) => self.name_expr(path, span),
            This => self.this_expr(span),
            TypeName(_) => self.fail(code::WRONG_KIND, span, "a type cannot be used as a value"),
            Member(base, name) => self.member(base, name, span),
            Index(base, index) => self.index(base, index, span),
            Slice(base, hi, lo) => self.slice(base, hi, lo, span),
            PlusSlice(base, lo, width) => self.plus_slice(base, lo, width, span),
            Unary(op, operand) => self.unary(*op, operand, span),
            Binary(op, a, b) => self.binary(*op, a, b, span),
            Ternary(cond, a, b) => self.ternary(cond, a, b, span, expected),
            Cast(ty, operand) => self.cast(ty, operand, span),
            Call {
                callee,
                type_args,
                args,
            } => self.call(callee, type_args, args, span, expected),
            List {
                elements,
                rest_default,
            } => self.list(elements, *rest_default, span, expected),
            Record {
                fields,
                rest_default,
            } => self.record(fields, *rest_default, span, expected),
            InvalidHeader => Expr {
                kind: ExprKind::InvalidHeader,
                ty: self.t.invalid,
                span,
            },
            Default => Expr {
                kind: ExprKind::Default,
                ty: self.t.dots,
                span,
            },
            DontCare => self.fail(code::WRONG_KIND, span, "`_` is not a value"),
            Error => self.poison(span),
        }
    }

    /// Checks an expression and converts it to `target`.
    pub(crate) fn expr_to(&mut self, e: &ast::Expr, target: TyId) -> Expr {
        let expr = self.expr(e, Some(target));
        self.coerce(expr, target)
    }

    /// Checks a condition.
    pub(crate) fn condition(&mut self, e: &ast::Expr, what: &str) -> Expr {
        let expr = self.expr(e, Some(self.t.boolean));
        if expr.ty != self.t.boolean && expr.ty != self.t.error {
            let message = format!(
                "{what} must be a `bool`, but this is {}",
                self.show(expr.ty)
            );
            let mut diagnostic = Diagnostic::error(code::MISMATCH, e.span, message);
            if self.is_numeric(expr.ty) {
                diagnostic = diagnostic.hint("compare it: `.. != 0`");
            }
            self.report(diagnostic);
            return self.poison(e.span);
        }
        expr
    }

    fn int_literal(&mut self, literal: &IntLiteral, span: Span) -> Expr {
        let digits = Some(literal.digits.as_bytes()).filter(|digits| digits.len() <= MAX_DIGITS);
        let value = digits.and_then(|digits| BigInt::parse_bytes(digits, literal.radix));
        let Some(value) = value else {
            return self.fail(code::CONST_EVAL, span, "this number is too long");
        };
        let ty = match literal.width {
            None => self.t.integer,
            Some((width, _)) if width > MAX_WIDTH => {
                let message =
                    format!("the width of a literal is {width}; at most {MAX_WIDTH} is supported");
                return self.fail(code::BAD_SIZE, span, message);
            }
            Some((0, true)) => {
                return self.fail(
                    code::BAD_SIZE,
                    span,
                    "a signed integer has at least one bit",
                );
            }
            Some((width, true)) => self.intern(Ty::Int(width)),
            Some((width, false)) => self.intern(Ty::Bit(width)),
        };
        self.int_literal_of(&value, ty, span)
    }

    fn name_expr(&mut self, path: &Path, span: Span) -> Expr {
        let entity = self.resolve(path);
        let (kind, ty) = match entity {
            Entity::Var(var) => (ExprKind::Var(var), self.p.vars[var].ty),
            Entity::Const(index) => {
                let mut value = self.constant(index, span);
                value.span = span;
                return value;
            }
            Entity::Instance(id) => (ExprKind::Instance(id), self.p.instances[id].ty),
            Entity::Table(id) => (ExprKind::Table(id), self.intern(Ty::Table(id))),
            Entity::MatchKind(id) => (ExprKind::MatchKind(id), self.t.match_kind),
            Entity::Poison => return self.poison(span),
            other => {
                let message = format!(
                    "`{}` is {}, not a value",
                    path.name.as_str(),
                    other.describe()
                );
                return self.fail(code::WRONG_KIND, span, message);
            }
        };
        Expr { kind, ty, span }
    }

    /// Returns the value of a constant. Structs are written out at each use, up to a limit.
    fn constant(&mut self, index: usize, span: Span) -> Expr {
        let ty = self.consts[index].ty;
        if let ExprKind::Aggregate(elements) = &self.consts[index].kind {
            let count = (elements.len() as u64).max(self.leaves(ty));
            match self.constants_left.checked_sub(count) {
                Some(left) => self.constants_left = left,
                None => {
                    let message = format!(
                        "here the constants that are named come to more than {MAX_CONSTANTS} values"
                    );
                    return self.fail(code::BAD_SIZE, span, message);
                }
            }
        }
        self.consts[index].clone()
    }

    fn this_expr(&mut self, span: Span) -> Expr {
        match self.cx.this {
            Some(this) => Expr {
                kind: ExprKind::This,
                ty: this.ty,
                span,
            },
            None => self.fail(
                code::WRONG_PLACE,
                span,
                "`this` can only be used in the body of an abstract method",
            ),
        }
    }

    /// Returns the type that an expression before a dot names: `E.member`, `T.apply()`.
    pub(crate) fn as_type_name(&self, e: &ast::Expr) -> Option<TypeRef> {
        match &e.kind {
            ast::ExprKind::TypeName(ty) => Some((**ty).clone()),
            ast::ExprKind::Name(path) if self.peek(path).is_some_and(Entity::is_type) => {
                Some(TypeRef::Name(path.clone()))
            }
            _ => None,
        }
    }

    fn member(&mut self, base: &ast::Expr, name: &Name, span: Span) -> Expr {
        if let Some(ty) = self.as_type_name(base) {
            return self.type_member(&ty, name, span);
        }
        if let Some(element) = self.member_of_constant(base, name, span) {
            return element;
        }
        let base = self.expr(base, None);
        self.member_of(base, name, span)
    }

    /// Returns a member of a constant struct, without writing out the others.
    fn member_of_constant(&mut self, base: &ast::Expr, name: &Name, span: Span) -> Option<Expr> {
        let ast::ExprKind::Name(path) = &base.kind else {
            return None;
        };
        let Some(Entity::Const(index)) = self.peek(path) else {
            return None;
        };
        let Ty::Record(id, _) = *self.ty(self.consts[index].ty) else {
            return None;
        };
        self.resolve(path);
        let position = self.position(Members::Record(id), name.as_str())?;
        let ExprKind::Aggregate(elements) = &self.consts[index].kind else {
            return None;
        };
        let element = elements.get(position)?;
        if matches!(element.kind, ExprKind::Aggregate(_)) {
            return None;
        }
        let mut element = element.clone();
        element.span = span;
        Some(element)
    }

    fn type_member(&mut self, ty: &TypeRef, name: &Name, span: Span) -> Expr {
        match ty {
            TypeRef::Error(_) => return self.error_member(name, span),
            TypeRef::MatchKind(_) => {
                let path = Path {
                    absolute: true,
                    name: name.clone(),
                };
                return self.name_expr(&path, span);
            }
            _ => {}
        }
        let ty = self.resolve_type(ty);
        match *self.ty(ty) {
            Ty::Error => self.poison(span),
            Ty::Enum(id) => match self.position(Members::Enum(id), name.as_str()) {
                Some(index) => Expr {
                    kind: ExprKind::EnumMember(id, index),
                    ty,
                    span,
                },
                None => {
                    let message =
                        format!("enum {} has no member `{}`", self.show(ty), name.as_str());
                    let members = &self.p.enums[id].members;
                    let names = members.iter().map(|(member, _)| member.as_str());
                    let diagnostic = Diagnostic::error(code::NO_MEMBER, name.span, message)
                        .suggest(name.as_str(), names);
                    self.report(diagnostic);
                    self.poison(span)
                }
            },
            _ => {
                let message = format!(
                    "the type {} has no member `{}`",
                    self.show(ty),
                    name.as_str()
                );
                self.fail(code::NO_MEMBER, span, message)
            }
        }
    }

    fn error_member(&mut self, name: &Name, span: Span) -> Expr {
        let found = self.error_ids.get(&name.text).copied();
        match found {
            Some(id) => Expr {
                kind: ExprKind::ErrorCode(id),
                ty: self.t.error_code,
                span,
            },
            None => {
                let message = format!("unknown error code `{}`", name.as_str());
                let names = self.p.errors.values().map(Name::as_str);
                let diagnostic = Diagnostic::error(code::UNKNOWN_NAME, span, message)
                    .suggest(name.as_str(), names);
                self.report(diagnostic);
                self.poison(span)
            }
        }
    }

    fn member_of(&mut self, base: Expr, name: &Name, span: Span) -> Expr {
        match self.ty(base.ty).clone() {
            Ty::Error => self.poison(span),
            Ty::Record(id, args) => self.field(base, id, &args, name, span),
            Ty::Stack(element, size) => self.stack_member(base, element, size, name, span),
            Ty::ApplyResult(table) => self.apply_member(base, table, name, span),
            _ => self.no_member(base.ty, name, span, &[]),
        }
    }

    pub(crate) fn no_member(
        &mut self,
        ty: TyId,
        name: &Name,
        span: Span,
        candidates: &[String],
    ) -> Expr {
        let message = format!("{} has no member `{}`", self.show(ty), name.as_str());
        let near = candidates.iter().map(String::as_str);
        self.report(
            Diagnostic::error(code::NO_MEMBER, name.span, message).suggest(name.as_str(), near),
        );
        self.poison(span)
    }

    fn field(
        &mut self,
        base: Expr,
        record: RecordId,
        args: &[TyId],
        name: &Name,
        span: Span,
    ) -> Expr {
        let position = self.position(Members::Record(record), name.as_str());
        let Some(index) = position else {
            let names: Vec<String> = self.p.records[record]
                .fields
                .iter()
                .map(|field| field.name.as_str().to_string())
                .collect();
            return self.no_member(base.ty, name, span, &names);
        };
        let ty = self.field_type(record, args, index);
        match base.kind {
            ExprKind::Aggregate(mut elements) if index < elements.len() => {
                let mut element = elements.swap_remove(index);
                element.span = span;
                element
            }
            _ => Expr {
                kind: ExprKind::Field(Box::new(base), index),
                ty,
                span,
            },
        }
    }

    fn stack_member(
        &mut self,
        base: Expr,
        element: TyId,
        size: u32,
        name: &Name,
        span: Span,
    ) -> Expr {
        let bit32 = self.intern(Ty::Bit(32));
        let member = name.as_str();
        if member == "size" {
            return Expr {
                kind: ExprKind::Int(size.into()),
                ty: bit32,
                span,
            };
        }
        if !matches!(member, "next" | "last" | "lastIndex") || !self.is_header_like(element) {
            let names = ["next", "last", "lastIndex", "size"].map(String::from);
            return self.no_member(base.ty, name, span, &names);
        }
        if !self.cx.place.in_parser() {
            let message = format!("`{member}` of a header stack can only be used in a parser");
            return self.fail(code::WRONG_PLACE, span, message);
        }
        let base = Box::new(base);
        match member {
            "next" => Expr {
                kind: ExprKind::StackNext(base),
                ty: element,
                span,
            },
            "last" => Expr {
                kind: ExprKind::StackLast(base),
                ty: element,
                span,
            },
            _ => Expr {
                kind: ExprKind::StackLastIndex(base),
                ty: bit32,
                span,
            },
        }
    }

    fn apply_member(
        &mut self,
        base: Expr,
        table: crate::hir::TableId,
        name: &Name,
        span: Span,
    ) -> Expr {
        let applied =
            matches!(&base.kind, ExprKind::Call(call) if matches!(call.callee, Callee::Table(_)));
        let (member, ty) = match name.as_str() {
            "hit" => (ApplyMember::Hit, self.t.boolean),
            "miss" => (ApplyMember::Miss, self.t.boolean),
            "action_run" => {
                if !self.cx.switch_subject {
                    let message = "`action_run` can only be the expression of a `switch` statement";
                    return self.fail(code::WRONG_PLACE, span, message);
                }
                (ApplyMember::ActionRun, self.intern(Ty::ActionEnum(table)))
            }
            _ => {
                let names = ["hit", "miss", "action_run"].map(String::from);
                return self.no_member(base.ty, name, span, &names);
            }
        };
        if !applied {
            return self.poison(span);
        }
        Expr {
            kind: ExprKind::ApplyResult(table, member),
            ty,
            span,
        }
    }

    fn index(&mut self, base: &ast::Expr, index: &ast::Expr, span: Span) -> Expr {
        let base = self.expr(base, None);
        match self.ty(base.ty).clone() {
            Ty::Error => {
                self.expr(index, None);
                self.poison(span)
            }
            Ty::Stack(element, size) => self.stack_index(base, element, size, index, span),
            Ty::Tuple(elements) => self.tuple_index(base, &elements, index, span),
            _ => {
                let message = format!("{} cannot be indexed", self.show(base.ty));
                self.fail(code::BAD_OPERAND, span, message)
            }
        }
    }

    fn stack_index(
        &mut self,
        base: Expr,
        element: TyId,
        size: u32,
        index: &ast::Expr,
        span: Span,
    ) -> Expr {
        let index = self.expr(index, None);
        let index = self.underlying_of(index);
        if index.ty == self.t.error {
            return self.poison(span);
        }
        if self.num(index.ty).is_none() {
            let message = format!(
                "an index must be an integer, but this is {}",
                self.show(index.ty)
            );
            return self.fail(code::MISMATCH, index.span, message);
        }
        if let Some(value) = self.int_value(&index).filter(|_| self.cx.evaluated) {
            let Some(place) = value.to_u32().filter(|&n| n < size) else {
                let message = format!(
                    "index {value} is out of range: {}",
                    support::count::there_are(size.into(), "element")
                );
                return self.fail(code::OUT_OF_RANGE, index.span, message);
            };
            if let ExprKind::Aggregate(mut elements) = base.kind {
                let mut element = elements.swap_remove(place as usize);
                element.span = span;
                return element;
            }
        }
        Expr {
            kind: ExprKind::Index(Box::new(base), Box::new(index)),
            ty: element,
            span,
        }
    }

    fn tuple_index(
        &mut self,
        base: Expr,
        elements: &[TyId],
        index: &ast::Expr,
        span: Span,
    ) -> Expr {
        let Some(value) = self.constant_int(index, "the index of a tuple") else {
            return self.poison(span);
        };
        let Some(place) = value.to_usize().filter(|&n| n < elements.len()) else {
            let message = format!(
                "index {value} is out of range: the tuple has {}",
                support::count::count(elements.len() as u64, "element")
            );
            return self.fail(code::OUT_OF_RANGE, index.span, message);
        };
        let ty = elements[place];
        match base.kind {
            ExprKind::Aggregate(mut values) if place < values.len() => {
                let mut value = values.swap_remove(place);
                value.span = span;
                value
            }
            _ => Expr {
                kind: ExprKind::Field(Box::new(base), place),
                ty,
                span,
            },
        }
    }

    fn ternary(
        &mut self,
        cond: &ast::Expr,
        a: &ast::Expr,
        b: &ast::Expr,
        span: Span,
        expected: Option<TyId>,
    ) -> Expr {
        let cond = self.condition(cond, "the condition of `?:`");
        let a = self.expr(a, expected);
        let b = self.expr(b, expected);
        let (a, b) = match expected {
            Some(target) if self.is_untyped(&a) || self.is_untyped(&b) => {
                (self.coerce(a, target), self.coerce(b, target))
            }
            _ => self.balance(a, b),
        };
        if [&cond, &a, &b].iter().any(|e| e.ty == self.t.error) {
            return self.poison(span);
        }
        if a.ty != b.ty {
            let (a, b) = (self.show(a.ty), self.show(b.ty));
            let message = format!("the branches of `?:` have different types: {a} and {b}");
            return self.fail(code::MISMATCH, span, message);
        }
        if !self.is_value(a.ty) {
            let message = format!("{} cannot be chosen by `?:`", self.show(a.ty));
            return self.fail(code::BAD_OPERAND, span, message);
        }
        if let ExprKind::Bool(value) = cond.kind {
            let mut chosen = if value { a } else { b };
            chosen.span = span;
            return chosen;
        }
        if a.ty == self.t.integer && !self.is_compile_time(&cond) {
            let message =
                "the width of the result is not known: both branches are integers without width";
            self.report(
                Diagnostic::error(code::NOT_INFERRED, span, message)
                    .hint("give one of them a width, as in `8w1`"),
            );
            return self.poison(span);
        }
        let ty = a.ty;
        Expr {
            kind: ExprKind::Ternary(Box::new(cond), Box::new(a), Box::new(b)),
            ty,
            span,
        }
    }

    /// Converts a serializable enum to its underlying type. Other expressions are unchanged.
    pub(crate) fn underlying_of(&mut self, e: Expr) -> Expr {
        match self.enum_underlying(e.ty) {
            Some(under) => self.cast_to(e, under),
            None => e,
        }
    }

    /// Builds a cast that is known to be valid, and folds it.
    pub(crate) fn cast_to(&mut self, e: Expr, ty: TyId) -> Expr {
        let span = e.span;
        match self.int_value(&e) {
            Some(value) if self.num(self.base(ty)).is_some() => self.computed(&value, ty, span),
            Some(value) if self.enum_underlying(self.base(ty)).is_some() => {
                let under = self.enum_underlying(self.base(ty)).unwrap_or(ty);
                let mut cast = self.computed(&value, under, span);
                cast.ty = ty;
                cast
            }
            _ => Expr {
                kind: ExprKind::Cast(Box::new(e)),
                ty,
                span,
            },
        }
    }

    /// Converts two operands to a common type. Integers without width and untyped expressions take
    /// the other's type.
    pub(crate) fn balance(&mut self, a: Expr, b: Expr) -> (Expr, Expr) {
        if a.ty == b.ty || a.ty == self.t.error || b.ty == self.t.error {
            return (a, b);
        }
        if self.is_untyped(&b) && !self.is_untyped(&a) {
            let target = a.ty;
            return (a, self.coerce(b, target));
        }
        if self.is_untyped(&a) && !self.is_untyped(&b) {
            let target = b.ty;
            return (self.coerce(a, target), b);
        }
        let (a, b) = if self.num(a.ty).is_some() || (self.is_numeric(a.ty) && self.is_numeric(b.ty))
        {
            (self.underlying_of(a), self.underlying_of(b))
        } else if self.num(b.ty).is_some() {
            (self.underlying_of(a), b)
        } else {
            (a, b)
        };
        match (self.num(a.ty), self.num(b.ty)) {
            (Some(Num::Integer), Some(Num::Bit(_) | Num::Int(_))) => {
                let target = b.ty;
                (self.coerce(a, target), b)
            }
            (Some(Num::Bit(_) | Num::Int(_)), Some(Num::Integer)) => {
                let target = a.ty;
                let b = self.coerce(b, target);
                (a, b)
            }
            _ => (a, b),
        }
    }
}
