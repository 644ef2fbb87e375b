//! Types: substitution of type parameters, scalars, and header types.

use std::rc::Rc;

use bits::Value;
use ir::{EnumTy, HeaderField, HeaderType, HeaderTypeId, ScalarTy};
use num_bigint::BigInt;
use sema::hir::{self, Ty, TyId, TypeVarId};
use support::work::checkpoint;
use syntax::ast::RecordKind;

use crate::annotate;
use crate::cx::Lower;

/// Names and types of an aggregate's members, in order.
pub(crate) type Members = Rc<Vec<(Rc<str>, TyId)>>;

/// Returns the low `width` bits of a number, in two's complement if it is negative.
pub(crate) fn value_of(number: &BigInt, width: u32) -> Value {
    let modulus = BigInt::from(1) << width;
    let canonical = ((number % &modulus) + &modulus) % &modulus;
    let digits: Vec<u64> = canonical.iter_u64_digits().collect();
    Value::from_limbs(&digits, width)
}

impl Lower<'_> {
    /// Substitutes the currently bound type parameters in the type.
    pub(crate) fn subst(&mut self, ty: TyId) -> TyId {
        if self.ty_vars.is_empty() {
            return ty;
        }
        let all = |this: &mut Self, ids: &[TyId]| {
            ids.iter().map(|&id| this.subst(id)).collect::<Vec<_>>()
        };
        let new = match self.types.get(ty).clone() {
            Ty::Var(var) => match self.ty_vars.get(&var).copied() {
                Some(bound) if bound != ty => return bound,
                _ => return ty,
            },
            Ty::Record(id, args) if !args.is_empty() => Ty::Record(id, all(self, &args)),
            Ty::Extern(id, args) if !args.is_empty() => Ty::Extern(id, all(self, &args)),
            Ty::BlockType(id, args) if !args.is_empty() => Ty::BlockType(id, all(self, &args)),
            Ty::Tuple(args) => Ty::Tuple(all(self, &args)),
            Ty::Stack(element, len) => Ty::Stack(self.subst(element), len),
            Ty::List(element) => Ty::List(self.subst(element)),
            Ty::Set(element) => Ty::Set(self.subst(element)),
            _ => return ty,
        };
        self.types.intern(new)
    }

    /// Substitutes `args` for `params` in `ty`.
    pub(crate) fn subst_with(&mut self, ty: TyId, params: &[TypeVarId], args: &[TyId]) -> TyId {
        if params.is_empty() {
            return self.subst(ty);
        }
        let args: Vec<TyId> = args.iter().map(|&arg| self.subst(arg)).collect();
        let outer = std::mem::take(&mut self.ty_vars);
        self.ty_vars = params.iter().copied().zip(args).collect();
        let result = self.subst(ty);
        self.ty_vars = outer;
        result
    }

    /// Returns the underlying type of `type` declarations.
    pub(crate) fn peel(&mut self, ty: TyId) -> TyId {
        let mut ty = self.subst(ty);
        while let Ty::NewType(id) = *self.types.get(ty) {
            checkpoint();
            ty = self.hir.new_types[id].underlying;
        }
        ty
    }

    /// Returns the scalar type in the IR; `None` for types with parts and those without run-time
    /// values.
    pub(crate) fn scalar(&mut self, ty: TyId) -> Option<ScalarTy> {
        let ty = self.peel(ty);
        Some(match *self.types.get(ty) {
            Ty::Bool => ScalarTy::Bool,
            Ty::ErrorCode => ScalarTy::Error,
            Ty::Bit(width) => ScalarTy::Bit(width),
            Ty::Int(width) => ScalarTy::Int(width),
            Ty::Varbit(width) => ScalarTy::Varbit(width),
            Ty::Enum(id) => return self.enum_scalar(id),
            _ => return None,
        })
    }

    fn enum_scalar(&mut self, id: hir::EnumId) -> Option<ScalarTy> {
        if let Some(underlying) = self.hir.enums[id].underlying {
            return self.scalar(underlying);
        }
        if let Some(&known) = self.ir_enums.get(&id) {
            return Some(ScalarTy::Enum(known));
        }
        let decl = &self.hir.enums[id];
        let members = decl
            .members
            .iter()
            .map(|(name, _)| name.as_str().to_owned())
            .collect();
        let made = self.out.enums.push(EnumTy {
            name: decl.name.as_str().to_owned(),
            members,
        });
        self.ir_enums.insert(id, made);
        Some(ScalarTy::Enum(made))
    }

    pub(crate) fn record_kind(&mut self, ty: TyId) -> Option<RecordKind> {
        let ty = self.peel(ty);
        match *self.types.get(ty) {
            Ty::Record(id, _) => Some(self.hir.records[id].kind),
            _ => None,
        }
    }

    /// Returns the names and types of the members of a struct, header, union or tuple.
    pub(crate) fn members(&mut self, ty: TyId) -> Members {
        let ty = self.peel(ty);
        if let Some(known) = self.members.get(&ty) {
            return known.clone();
        }
        let members: Vec<(Rc<str>, TyId)> = match self.types.get(ty).clone() {
            Ty::Record(id, args) => {
                let record = &self.hir.records[id];
                let field = |field: &hir::Field| {
                    let ty = self.subst_with(field.ty, &record.type_params, &args);
                    (Rc::from(field.name.as_str()), ty)
                };
                record.fields.iter().map(field).collect()
            }
            Ty::Tuple(types) => types
                .iter()
                .enumerate()
                .map(|(i, &ty)| (Rc::from(format!("f{i}").as_str()), ty))
                .collect(),
            _ => Vec::new(),
        };
        let members = Rc::new(members);
        self.members.insert(ty, members.clone());
        members
    }

    /// Returns the types of the parts of an aggregate: members or elements.
    pub(crate) fn part_types(&mut self, ty: TyId) -> Vec<TyId> {
        let ty = self.peel(ty);
        match *self.types.get(ty) {
            Ty::Stack(element, len) => vec![element; len as usize],
            _ => self.members(ty).iter().map(|(_, ty)| *ty).collect(),
        }
    }

    /// Returns the IR's header type for a header.
    pub(crate) fn header_type(&mut self, ty: TyId) -> HeaderTypeId {
        let ty = self.peel(ty);
        if let Some(&known) = self.header_types.get(&ty) {
            return known;
        }
        let (name, annotations) = match *self.types.get(ty) {
            Ty::Record(id, _) => {
                let record = &self.hir.records[id];
                (
                    self.record_name(ty),
                    annotate::annotations(self.sources, &record.annotations),
                )
            }
            _ => (String::new(), Vec::new()),
        };
        let mut fields = Vec::new();
        self.header_fields("", ty, &mut fields);
        let made = self.out.header_types.push(HeaderType {
            name,
            fields,
            annotations,
        });
        self.header_types.insert(ty, made);
        made
    }

    fn header_fields(&mut self, prefix: &str, ty: TyId, fields: &mut Vec<HeaderField>) {
        let annotations = self.member_annotations(ty);
        let members = self.members(ty);
        for (index, (name, ty)) in members.iter().enumerate() {
            checkpoint();
            let name = format!("{prefix}{name}");
            match self.scalar(*ty) {
                Some(scalar) => fields.push(HeaderField {
                    name,
                    ty: scalar,
                    data_ty: self.data_ty(*ty),
                    annotations: annotations.get(index).cloned().unwrap_or_default(),
                }),
                None => self.header_fields(&format!("{name}."), *ty, fields),
            }
        }
    }

    /// Returns the annotations of each member.
    pub(crate) fn member_annotations(&mut self, ty: TyId) -> Vec<Vec<ir::Annotation>> {
        let ty = self.peel(ty);
        match *self.types.get(ty) {
            Ty::Record(id, _) => {
                let fields = self.hir.records[id].fields.iter();
                fields
                    .map(|field| annotate::annotations(self.sources, &field.annotations))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the width of a type in bits on the wire or in an expression; 0 if it has none.
    pub(crate) fn bits_of(&mut self, ty: TyId) -> u64 {
        match self.scalar(ty) {
            Some(scalar) => u64::from(scalar.width()),
            None => {
                let parts = self.part_types(ty);
                let is_union = self.record_kind(ty) == Some(RecordKind::HeaderUnion);
                let widths = parts.into_iter().map(|part| self.bits_of(part));
                if is_union {
                    widths.max().unwrap_or(0)
                } else {
                    widths.sum()
                }
            }
        }
    }
}
