//! Expressions typed by their context (`{ .. }`, `...` and `{#}`), and implicit casts.

use std::sync::Arc;

use syntax::ast::{self, Name, RecordKind};
use syntax::diag::Diagnostic;
use syntax::source::Span;

use crate::hir::{Expr, ExprKind, Field, Record, RecordId, Ty, TyId};
use crate::types::Num;
use crate::unify::Bindings;
use crate::{Checker, code};

impl Checker<'_> {
    /// Checks `{ a, b, ... }`. Without a hint it is a tuple. [`coerce`](Self::coerce) gives it its
    /// type.
    pub(crate) fn list(
        &mut self,
        elements: &[ast::Expr],
        rest: bool,
        span: Span,
        expected: Option<TyId>,
    ) -> Expr {
        let mut values = Vec::with_capacity(elements.len() + 1);
        for (i, element) in elements.iter().enumerate() {
            let hint = expected.and_then(|ty| self.component(ty, i));
            let value = self.expr(element, hint);
            if value.ty == self.t.dots && i + 1 < elements.len() {
                self.error(
                    code::BAD_AGGREGATE,
                    element.span,
                    "`...` must be the last element",
                );
            }
            if value.ty == self.t.error {
                values.push(value);
                continue;
            }
            if !self.is_value(value.ty) && !self.is_object(value.ty) {
                let message = format!("{} cannot be an element of a tuple", self.show(value.ty));
                values.push(self.fail(code::BAD_AGGREGATE, element.span, message));
                continue;
            }
            values.push(value);
        }
        if rest {
            values.push(Expr {
                kind: ExprKind::Default,
                ty: self.t.dots,
                span: span.end(),
            });
        }
        let types = values.iter().map(|value| value.ty).collect();
        let ty = self.intern(Ty::Tuple(types));
        Expr {
            kind: ExprKind::Aggregate(values),
            ty,
            span,
        }
    }

    /// Returns the type of the `i`th component of a type, if it has components.
    fn component(&mut self, ty: TyId, i: usize) -> Option<TyId> {
        match self.ty(ty).clone() {
            Ty::Tuple(elements) => elements.get(i).copied(),
            Ty::List(element) | Ty::Stack(element, _) => Some(element),
            Ty::Record(id, args) if i < self.p.records[id].fields.len() => {
                Some(self.field_type(id, &args, i))
            }
            _ => None,
        }
    }

    /// Checks `{ a = x, b = y, ... }`. Without a hint it has an anonymous struct type.
    pub(crate) fn record(
        &mut self,
        fields: &[(Name, ast::Expr)],
        rest: bool,
        span: Span,
        expected: Option<TyId>,
    ) -> Expr {
        self.duplicate_fields(fields);
        let target = expected.and_then(|ty| match self.ty(ty).clone() {
            Ty::Record(id, args) => Some((id, args)),
            _ => None,
        });
        let mut values = Vec::with_capacity(fields.len());
        for (name, value) in fields {
            let hint = target.as_ref().and_then(|(id, args)| {
                let place = self.p.records[*id]
                    .fields
                    .iter()
                    .position(|field| field.name.text == name.text)?;
                Some(self.field_type(*id, args, place))
            });
            values.push((name.clone(), self.expr(value, hint)));
        }
        if let (Some((id, args)), Some(ty)) = (target, expected)
            && !self.is_open(ty)
        {
            return self.fields_to(values, rest, id, &args, ty, span);
        }
        self.anonymous_record(values, rest, span)
    }

    fn duplicate_fields(&mut self, fields: &[(Name, ast::Expr)]) {
        for (i, (name, _)) in fields.iter().enumerate() {
            if let Some((before, _)) = fields[..i]
                .iter()
                .find(|(other, _)| other.text == name.text)
            {
                let message = format!("field `{}` is given twice", name.as_str());
                let diagnostic = Diagnostic::error(code::DUPLICATE, name.span, message);
                self.report(diagnostic.label(before.span, "given here before"));
            }
        }
    }

    /// Builds a value of an anonymous struct. Its type is found later, or inferred for a type
    /// parameter.
    fn anonymous_record(&mut self, mut values: Vec<(Name, Expr)>, rest: bool, span: Span) -> Expr {
        if rest {
            let name = Name {
                text: "...".into(),
                span,
            };
            values.push((
                name,
                Expr {
                    kind: ExprKind::Default,
                    ty: self.t.dots,
                    span: span.end(),
                },
            ));
        }
        let fields = values
            .iter()
            .map(|(name, value)| Field {
                name: name.clone(),
                ty: value.ty,
                annotations: Vec::new(),
            })
            .collect();
        let names: Vec<&str> = values.iter().map(|(name, _)| name.as_str()).collect();
        let text: Arc<str> = format!("{{{}}}", names.join(", ")).into();
        let record = Record {
            kind: RecordKind::Struct,
            name: Name { text, span },
            type_params: Vec::new(),
            fields,
            annotations: Vec::new(),
        };
        let id = self.p.records.push(record);
        self.anonymous.insert(id);
        let ty = self.intern(Ty::Record(id, Vec::new()));
        Expr {
            kind: ExprKind::Aggregate(values.into_iter().map(|(_, value)| value).collect()),
            ty,
            span,
        }
    }

    /// Returns true if the context must still determine the type of an expression.
    pub(crate) fn is_untyped(&self, e: &Expr) -> bool {
        if self.is_weak(e.ty) {
            return true;
        }
        if !matches!(e.kind, ExprKind::Aggregate(_)) {
            return false;
        }
        match self.ty(e.ty) {
            Ty::Tuple(_) => true,
            Ty::Record(id, _) => self.anonymous.contains(id),
            _ => false,
        }
    }

    /// Converts the expression to a value of `target`, with the implicit casts of the language.
    /// Reports an error if it does not fit.
    pub(crate) fn coerce(&mut self, e: Expr, target: TyId) -> Expr {
        if e.ty == target {
            return e;
        }
        if e.ty == self.t.error || target == self.t.error {
            return Expr {
                ty: self.t.error,
                ..e
            };
        }
        let span = e.span;
        if e.ty == self.t.dots {
            return match self.default_value(target, span) {
                Some(value) => value,
                None => {
                    let message = format!("{} has no default value", self.show(target));
                    self.fail(code::MISMATCH, span, message)
                }
            };
        }
        if e.ty == self.t.invalid {
            return self.invalid_to(target, span);
        }
        if self.is_untyped(&e) {
            return self.aggregate_to(e, target);
        }
        self.implicit_cast(e, target)
    }

    fn invalid_to(&mut self, target: TyId, span: Span) -> Expr {
        if self.is_header_like(target) && !self.is_open(target) {
            return Expr {
                kind: ExprKind::InvalidHeader,
                ty: target,
                span,
            };
        }
        let message = format!(
            "`{{#}}` is an invalid header, but {} is needed here",
            self.show(target)
        );
        self.fail(code::MISMATCH, span, message)
    }

    fn implicit_cast(&mut self, e: Expr, target: TyId) -> Expr {
        let span = e.span;
        match (self.num(e.ty), self.num(target)) {
            (Some(Num::Integer), Some(Num::Bit(_) | Num::Int(_))) => {
                return match self.int_value(&e) {
                    Some(value) => self.int_literal_of(&value, target, span),
                    None => Expr {
                        kind: ExprKind::Cast(Box::new(e)),
                        ty: target,
                        span,
                    },
                };
            }
            (None, Some(_)) if self.enum_underlying(e.ty) == Some(target) => {
                return self.cast_to(e, target);
            }
            // An `int` accepts any number that is known at compile time.
            (Some(Num::Bit(_) | Num::Int(_)), Some(Num::Integer)) if self.is_compile_time(&e) => {
                return self.cast_to(e, target);
            }
            // A literal can be converted to a `type` with a numeric underlying type, too.
            (Some(Num::Integer), None)
                if self.num(self.base(target)).is_some() && self.is_literal(&e) =>
            {
                return match self.int_value(&e) {
                    Some(value) => self.int_literal_of(&value, target, span),
                    None => e,
                };
            }
            _ => {}
        }
        let mut none = Bindings::default();
        if (self.is_object(target) || self.is_open(target)) && self.unify(&mut none, target, e.ty) {
            return e;
        }
        self.mismatch(e.ty, target, span)
    }

    /// Reports that one type was expected and another one found.
    pub(crate) fn mismatch(&mut self, found: TyId, needed: TyId, span: Span) -> Expr {
        let message = format!(
            "{} is needed here, but this is {}",
            self.show(needed),
            self.show(found)
        );
        let mut diagnostic = Diagnostic::error(code::MISMATCH, span, message);
        let castable = |this: &Self, ty: TyId| {
            this.num(this.base(ty)).is_some() || this.enum_underlying(ty).is_some()
        };
        if castable(self, found) && castable(self, needed) && self.num(needed) != Some(Num::Integer)
        {
            diagnostic = diagnostic.hint(format!(
                "cast it explicitly: `({}) ..`",
                crate::show::type_text(&self.p, needed)
            ));
        }
        self.report(diagnostic);
        self.poison(span)
    }

    fn aggregate_to(&mut self, e: Expr, target: TyId) -> Expr {
        let span = e.span;
        let anonymous = self.anonymous_fields(e.ty);
        let ExprKind::Aggregate(mut elements) = e.kind else {
            return self.poison(span);
        };
        if elements.iter().any(|element| element.ty == self.t.error) {
            return self.poison(span);
        }
        let rest = elements.last().is_some_and(|last| last.ty == self.t.dots);
        if let Some(names) = anonymous {
            let Ty::Record(id, args) = self.ty(target).clone() else {
                return self.mismatch(e.ty, target, span);
            };
            if rest {
                elements.pop();
            }
            let values = names
                .into_iter()
                .zip(elements)
                .map(|(text, value)| {
                    (
                        Name {
                            text,
                            span: value.span,
                        },
                        value,
                    )
                })
                .collect();
            return self.fields_to(values, rest, id, &args, target, span);
        }
        let types: Vec<TyId> = match self.ty(target).clone() {
            Ty::Tuple(types) => types,
            Ty::Stack(element, size) => vec![element; size as usize],
            Ty::List(element) => vec![element; elements.len() - usize::from(rest)],
            Ty::Record(id, args) if self.p.records[id].kind != RecordKind::HeaderUnion => {
                (0..self.p.records[id].fields.len())
                    .map(|i| self.field_type(id, &args, i))
                    .collect()
            }
            _ => return self.mismatch(e.ty, target, span),
        };
        self.elements_to(elements, rest, &types, target, span)
    }

    fn elements_to(
        &mut self,
        mut elements: Vec<Expr>,
        rest: bool,
        types: &[TyId],
        target: TyId,
        span: Span,
    ) -> Expr {
        if rest {
            elements.pop();
        }
        let given = elements.len();
        if given > types.len() || (given < types.len() && !rest) {
            let message = format!(
                "{} has {}, but {} given",
                self.show(target),
                support::count::count(types.len() as u64, "element"),
                support::count::are(given as u64)
            );
            let mut diagnostic = Diagnostic::error(code::BAD_AGGREGATE, span, message);
            if given < types.len() {
                diagnostic = diagnostic.hint("end it with `...` to give the rest default values");
            }
            self.report(diagnostic);
            return self.poison(span);
        }
        let mut values = Vec::with_capacity(types.len());
        for (element, &ty) in elements.into_iter().zip(types) {
            values.push(self.coerce(element, ty));
        }
        for &ty in &types[given..] {
            let dots = Expr {
                kind: ExprKind::Default,
                ty: self.t.dots,
                span,
            };
            values.push(self.coerce(dots, ty));
        }
        self.aggregate(values, target, span)
    }

    fn aggregate(&mut self, values: Vec<Expr>, ty: TyId, span: Span) -> Expr {
        if values.iter().any(|value| value.ty == self.t.error) {
            return self.poison(span);
        }
        Expr {
            kind: ExprKind::Aggregate(values),
            ty,
            span,
        }
    }

    /// Converts named values to a struct or header.
    fn fields_to(
        &mut self,
        values: Vec<(Name, Expr)>,
        rest: bool,
        record: RecordId,
        args: &[TyId],
        target: TyId,
        span: Span,
    ) -> Expr {
        if self.p.records[record].kind == RecordKind::HeaderUnion {
            let message = format!(
                "{} cannot be given as a whole: assign one of its headers",
                self.show(target)
            );
            return self.fail(code::BAD_AGGREGATE, span, message);
        }
        let count = self.p.records[record].fields.len();
        let mut slots: Vec<Option<Expr>> = vec![None; count];
        let mut bad = false;
        for (name, value) in values {
            let place = self.p.records[record]
                .fields
                .iter()
                .position(|field| field.name.text == name.text);
            let Some(place) = place else {
                let fields: Vec<String> = self.p.records[record]
                    .fields
                    .iter()
                    .map(|f| f.name.as_str().to_string())
                    .collect();
                self.no_member(target, &name, span, &fields);
                bad = true;
                continue;
            };
            let ty = self.field_type(record, args, place);
            let value = self.coerce(value, ty);
            bad |= value.ty == self.t.error;
            slots[place] = Some(value);
        }
        if bad {
            return self.poison(span);
        }
        self.complete_fields(slots, rest, record, args, target, span)
    }

    fn complete_fields(
        &mut self,
        slots: Vec<Option<Expr>>,
        rest: bool,
        record: RecordId,
        args: &[TyId],
        target: TyId,
        span: Span,
    ) -> Expr {
        let mut values = Vec::with_capacity(slots.len());
        let mut missing = Vec::new();
        for (place, slot) in slots.into_iter().enumerate() {
            let ty = self.field_type(record, args, place);
            match slot {
                Some(value) => values.push(value),
                None if rest => {
                    let dots = Expr {
                        kind: ExprKind::Default,
                        ty: self.t.dots,
                        span,
                    };
                    values.push(self.coerce(dots, ty));
                }
                None => missing.push(format!(
                    "`{}`",
                    self.p.records[record].fields[place].name.as_str()
                )),
            }
        }
        if !missing.is_empty() {
            let s = if missing.len() == 1 { "" } else { "s" };
            let message = format!(
                "no value for field{s} {} of {}",
                missing.join(", "),
                self.show(target)
            );
            let diagnostic = Diagnostic::error(code::BAD_AGGREGATE, span, message);
            self.report(
                diagnostic
                    .hint("give a value, or end the expression with `...` for default values"),
            );
            return self.poison(span);
        }
        self.aggregate(values, target, span)
    }
}
