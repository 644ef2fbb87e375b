//! Type declarations: records, enums, typedefs, errors and match kinds.

use std::collections::HashMap;

use num_bigint::BigInt;
use syntax::ast::{self, Decl, Name, TypedefTarget};
use syntax::diag::Diagnostic;
use syntax::source::Span;

use crate::hir::{Enum, Expr, ExprKind, Field, NewType, Record, Ty, TyId};
use crate::scope::Entity;
use crate::types::{Container, Num};
use crate::{Checker, code};

impl Checker<'_> {
    pub(super) fn record_decl(&mut self, decl: &ast::RecordDecl) -> TyId {
        let annotations = self.annotations(&decl.annotations);
        self.open(&decl.name);
        let container = Container::of(decl.kind);
        let mut bad = false;
        let (type_params, fields) = self.scoped(|this| {
            let type_params = this.type_params(&decl.type_params);
            let mut fields = Vec::with_capacity(decl.fields.len());
            for field in &decl.fields {
                let mut ty = this.resolve_closed(&field.ty, field.name.span);
                if ty != this.t.error
                    && !this.check_member(container, ty, Some(&field.name), field.name.span)
                {
                    bad = true;
                    ty = this.t.error;
                }
                bad |= ty == this.t.error;
                let annotations = this.annotations(&field.annotations);
                fields.push(Field {
                    name: field.name.clone(),
                    ty,
                    annotations,
                });
            }
            (type_params, fields)
        });
        self.unique(decl.fields.iter().map(|field| &field.name), "field");
        let generic = !type_params.is_empty();
        let record = Record {
            kind: decl.kind,
            name: decl.name.clone(),
            type_params,
            fields,
            annotations,
        };
        let id = self.p.records.push(record);
        if bad {
            self.bad_records.insert(id);
        }
        let ty = self.intern(Ty::Record(id, Vec::new()));
        if !bad && !self.check_leaves(ty, decl.name.span) {
            bad = true;
            self.bad_records.insert(id);
        }
        if !generic {
            self.p.type_order.push(ty);
        }
        self.close(&decl.name, Entity::Record(id));
        if bad { self.t.error } else { ty }
    }

    /// Reports duplicate names.
    pub(crate) fn unique<'n>(&mut self, names: impl Iterator<Item = &'n Name>, what: &str) {
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for name in names {
            if let Some(&before) = seen.get(name.as_str()) {
                let message = format!("{what} `{}` is declared twice", name.as_str());
                let diagnostic = Diagnostic::error(code::DUPLICATE, name.span, message);
                self.report(diagnostic.label(before, "declared here before"));
            } else {
                seen.insert(name.as_str(), name.span);
            }
        }
    }

    pub(super) fn enum_decl(&mut self, decl: &ast::EnumDecl) -> TyId {
        let annotations = self.annotations(&decl.annotations);
        self.open(&decl.name);
        self.unique(decl.members.iter().map(|(name, _)| name), "enum member");
        let underlying = decl
            .underlying
            .as_ref()
            .map(|ty| (self.resolve_type(ty), type_span(ty)));
        let underlying = underlying.map(|(ty, span)| self.enum_representation(ty, span));
        let (members, bad) = self.scoped(|this| this.enum_members(decl, underlying));
        let id = self.p.enums.push(Enum {
            name: decl.name.clone(),
            underlying,
            members,
            annotations,
        });
        let ty = self.intern(Ty::Enum(id));
        self.p.type_order.push(ty);
        self.close(
            &decl.name,
            if bad {
                Entity::Poison
            } else {
                Entity::Enum(id)
            },
        );
        if bad { self.t.error } else { ty }
    }

    /// Checks the members of an enum. A later member may use an earlier one by its bare name.
    fn enum_members(
        &mut self,
        decl: &ast::EnumDecl,
        underlying: Option<TyId>,
    ) -> (Vec<(Name, Option<BigInt>)>, bool) {
        let mut members = Vec::with_capacity(decl.members.len());
        let mut bad = underlying == Some(self.t.error);
        for (name, value) in &decl.members {
            let value = match (underlying, value) {
                (Some(ty), Some(value)) => {
                    let number = self.enum_value(name, value, ty);
                    bad |= number.is_none();
                    self.declare_member(name, number.as_ref(), ty);
                    number
                }
                (Some(_), None) => {
                    let message = format!(
                        "member `{}` needs a value: the enum has an underlying type",
                        name.as_str()
                    );
                    self.error(code::BAD_DECL, name.span, message);
                    bad = true;
                    None
                }
                (None, Some(value)) => {
                    let message = "a member has a value only when the enum has an underlying type";
                    let diagnostic = Diagnostic::error(code::BAD_DECL, value.span, message);
                    self.report(diagnostic.hint(format!(
                        "write `enum bit<8> {} {{ .. }}`",
                        decl.name.as_str()
                    )));
                    None
                }
                (None, None) => None,
            };
            members.push((name.clone(), value));
        }
        (members, bad)
    }

    fn declare_member(&mut self, name: &Name, value: Option<&BigInt>, ty: TyId) {
        let entity = match value {
            Some(value) => {
                let kind = ExprKind::Int(value.clone());
                self.consts.push(Expr {
                    kind,
                    ty,
                    span: name.span,
                });
                Entity::Const(self.consts.len() - 1)
            }
            None => Entity::Poison,
        };
        if self.scopes.find_here(name.as_str()).is_none() {
            self.redeclare(name, entity);
        }
    }

    fn enum_representation(&mut self, ty: TyId, span: Span) -> TyId {
        match self.ty(ty) {
            Ty::Bit(_) | Ty::Int(_) | Ty::Error => ty,
            _ => {
                let message = format!(
                    "an enum can be represented by `bit<w>` or `int<w>` only, not by {}",
                    self.show(ty)
                );
                self.error(code::BAD_TYPE, span, message);
                self.t.error
            }
        }
    }

    fn enum_value(&mut self, name: &Name, value: &ast::Expr, ty: TyId) -> Option<BigInt> {
        let typed = self.expr(value, Some(ty));
        if typed.ty == self.t.error || ty == self.t.error {
            return None;
        }
        let number = self.int_value(&typed);
        if typed.ty != self.t.integer && typed.ty != ty {
            self.mismatch(typed.ty, ty, value.span);
            return None;
        }
        let Some(number) = number else {
            self.error(
                code::NOT_CONSTANT,
                value.span,
                "the value of an enum member must be known at compile time",
            );
            return None;
        };
        let num = self.num(ty).unwrap_or(Num::Integer);
        if !Self::in_range(&number, num) {
            let message = format!(
                "{number}, the value of `{}`, does not fit into {}",
                name.as_str(),
                self.show(ty)
            );
            self.error(code::OUT_OF_RANGE, value.span, message);
            return None;
        }
        Some(number)
    }

    pub(super) fn typedef(&mut self, decl: &ast::TypedefDecl) {
        let annotations = self.annotations(&decl.annotations);
        self.open(&decl.name);
        let target = match &decl.target {
            TypedefTarget::Type(ty) => self.resolve_closed(ty, decl.name.span),
            TypedefTarget::Derived(inner) => match &**inner {
                Decl::Record(record) => self.record_decl(record),
                Decl::Enum(decl) => self.enum_decl(decl),
                _ => self.t.error,
            },
        };
        if target == self.t.error {
            return self.close(&decl.name, Entity::Poison);
        }
        if !decl.is_new {
            if matches!(self.ty(target), Ty::String | Ty::MatchKind) {
                let message = format!("`typedef` cannot rename {}", self.show(target));
                self.error(code::BAD_TYPE, decl.name.span, message);
                return self.close(&decl.name, Entity::Poison);
            }
            return self.close(&decl.name, Entity::Typedef(target));
        }
        if !matches!(
            self.ty(target),
            Ty::Bit(_) | Ty::Int(_) | Ty::Bool | Ty::NewType(_)
        ) {
            let message = format!(
                "`type` can be made of `bit<w>`, `int<w>`, `bool` or another `type` only, not of {}",
                self.show(target)
            );
            self.error(code::BAD_TYPE, decl.name.span, message);
            return self.close(&decl.name, Entity::Poison);
        }
        let id = self.p.new_types.push(NewType {
            name: decl.name.clone(),
            underlying: target,
            annotations,
        });
        let ty = self.intern(Ty::NewType(id));
        self.p.type_order.push(ty);
        if !self.check_leaves(ty, decl.name.span) {
            return self.close(&decl.name, Entity::Poison);
        }
        self.close(&decl.name, Entity::NewType(id));
    }

    pub(super) fn error_decl(&mut self, list: &ast::IdentifierListDecl) {
        for name in &list.names {
            let before = self
                .error_ids
                .get(&name.text)
                .map(|&id| self.p.errors[id].span);
            match before {
                Some(before) => self.duplicate(name, before),
                None => {
                    let id = self.p.errors.push(name.clone());
                    self.error_ids.insert(name.text.clone(), id);
                }
            }
        }
    }

    pub(super) fn match_kind_decl(&mut self, list: &ast::IdentifierListDecl) {
        for name in &list.names {
            if self
                .p
                .match_kinds
                .values()
                .any(|kind| kind.text == name.text)
            {
                let before = self
                    .p
                    .match_kinds
                    .values()
                    .find(|kind| kind.text == name.text)
                    .map(|kind| kind.span);
                self.duplicate(name, before.unwrap_or(Span::NONE));
                continue;
            }
            let id = self.p.match_kinds.push(name.clone());
            self.declare(name, Entity::MatchKind(id));
        }
    }
}

/// Returns the source position of a type.
pub(crate) fn type_span(ty: &ast::TypeRef) -> Span {
    use ast::TypeRef::*;
    match ty {
        Bool(span) | Error(span) | MatchKind(span) | String(span) | Void(span) | Integer(span)
        | DontCare(span) => *span,
        Bit(_, span) | Int(_, span) | Varbit(_, span) => *span,
        Name(path) => path.span(),
        Specialized(_, _, span) | Array(_, _, span) | Tuple(_, span) | List(_, span) => *span,
    }
}
