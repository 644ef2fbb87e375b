//! Types: substitution of type parameters, scalars, header types, and types as the control plane sees them.

use std::rc::Rc;

use bits::Value;
use ir::{
    ControllerTy, DataTy, EnumTy, HeaderField, HeaderType, HeaderTypeId, NamedType, NamedTypeKind,
    ScalarTy, Translation,
};
use num_bigint::BigInt;
use num_traits::ToPrimitive;
use sema::hir::{self, Ty, TyId, TypeVarId};
use syntax::ast::RecordKind;

use crate::annotate;
use crate::cx::Lower;

/// Names and types of an aggregate's members, in order.
pub(crate) type Members = Rc<Vec<(Rc<str>, TyId)>>;

/// The low `width` bits of a number, two's complement where it is negative.
pub(crate) fn value_of(number: &BigInt, width: u32) -> Value {
    let modulus = BigInt::from(1) << width;
    let canonical = ((number % &modulus) + &modulus) % &modulus;
    let digits: Vec<u64> = canonical.iter_u64_digits().collect();
    Value::from_limbs(&digits, width)
}

impl Lower<'_> {
    /// The type with the type parameters that are bound now replaced.
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

    /// `ty` with `params` replaced by `args`.
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

    /// The type behind `type` declarations.
    pub(crate) fn peel(&mut self, ty: TyId) -> TyId {
        let mut ty = self.subst(ty);
        while let Ty::NewType(id) = *self.types.get(ty) {
            ty = self.hir.new_types[id].underlying;
        }
        ty
    }

    /// The scalar type of the IR; `None` for types with parts and for those that have no run-time values.
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

    /// Names and types of the members of a struct, header, union or tuple.
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

    /// The types of the parts of an aggregate: members or elements.
    pub(crate) fn part_types(&mut self, ty: TyId) -> Vec<TyId> {
        let ty = self.peel(ty);
        match *self.types.get(ty) {
            Ty::Stack(element, len) => vec![element; len as usize],
            _ => self.members(ty).iter().map(|(_, ty)| *ty).collect(),
        }
    }

    /// The IR's header type for a header.
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

    /// The annotations of each member.
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

    /// The type as the control plane sees it.
    pub(crate) fn data_ty(&mut self, ty: TyId) -> DataTy {
        let ty = self.subst(ty);
        match self.types.get(ty).clone() {
            Ty::Bit(width) => DataTy::Bit(width),
            Ty::Int(width) => DataTy::Int(width),
            Ty::Varbit(width) => DataTy::Varbit(width),
            Ty::Bool => DataTy::Bool,
            Ty::ErrorCode => DataTy::Error,
            Ty::Tuple(types) => {
                DataTy::Tuple(types.into_iter().map(|ty| self.data_ty(ty)).collect())
            }
            Ty::Record(_, args) => {
                if !args.is_empty() && !self.is_open(ty) && !self.specialized.contains(&ty) {
                    self.specialized.push(ty);
                }
                DataTy::Named(self.record_name(ty))
            }
            Ty::Enum(id) => DataTy::Named(self.hir.enums[id].name.as_str().to_owned()),
            Ty::NewType(id) => DataTy::Named(self.hir.new_types[id].name.as_str().to_owned()),
            Ty::Stack(element, len) => match self.data_ty(element) {
                DataTy::Named(name) => DataTy::Stack(name, len),
                other => DataTy::Tuple(vec![other; len as usize]),
            },
            _ => DataTy::Tuple(Vec::new()),
        }
    }

    /// A record's name; the type arguments of a generic one follow it, as in p4c's names.
    fn record_name(&self, ty: TyId) -> String {
        match self.types.get(ty) {
            Ty::Record(id, args) => {
                let mut name = self.hir.records[*id].name.as_str().to_owned();
                for &arg in args {
                    name.push('_');
                    name.push_str(&self.type_word(arg));
                }
                name
            }
            _ => String::new(),
        }
    }

    /// A type as a part of a name.
    fn type_word(&self, ty: TyId) -> String {
        match self.types.get(ty) {
            Ty::Bit(width) => format!("bit{width}"),
            Ty::Int(width) => format!("int{width}"),
            Ty::Varbit(width) => format!("varbit{width}"),
            Ty::Bool => "bool".to_owned(),
            Ty::ErrorCode => "error".to_owned(),
            Ty::Enum(id) => self.hir.enums[*id].name.as_str().to_owned(),
            Ty::NewType(id) => self.hir.new_types[*id].name.as_str().to_owned(),
            Ty::Stack(element, len) => format!("{}[{len}]", self.type_word(*element)),
            Ty::Tuple(types) => {
                let words: Vec<String> = types.iter().map(|&ty| self.type_word(ty)).collect();
                format!("tuple{}", words.join("_"))
            }
            _ => self.record_name(ty),
        }
    }

    /// Describes the declared types for P4Info, and the generic ones as far as something mentions them.
    pub(crate) fn describe_types(&mut self) {
        let hir = self.hir;
        for &ty in &hir.type_order {
            self.describe_type(ty);
        }
        let mut at = 0;
        while let Some(&ty) = self.specialized.get(at) {
            self.describe_type(ty);
            at += 1;
        }
    }

    fn describe_type(&mut self, ty: TyId) {
        let hir = self.hir;
        let (name, annotations) = match *self.types.get(ty) {
            Ty::Record(id, _) => (self.record_name(ty), &hir.records[id].annotations),
            Ty::Enum(id) => (
                hir.enums[id].name.as_str().to_owned(),
                &hir.enums[id].annotations,
            ),
            Ty::NewType(id) => {
                let decl = &hir.new_types[id];
                (decl.name.as_str().to_owned(), &decl.annotations)
            }
            _ => return,
        };
        if let Some(kind) = self.named_kind(ty) {
            let annotations = annotate::annotations(self.sources, annotations);
            self.out.named_types.push(NamedType {
                name,
                kind,
                annotations,
            });
        }
    }

    fn named_kind(&mut self, ty: TyId) -> Option<NamedTypeKind> {
        Some(match self.types.get(ty).clone() {
            Ty::Record(id, args) => {
                let record = &self.hir.records[id];
                if record.type_params.len() != args.len()
                    || args.iter().any(|&arg| self.is_open(arg))
                {
                    return None;
                }
                let members = self.members(ty);
                match record.kind {
                    RecordKind::HeaderUnion => {
                        let member = |(name, ty): &(Rc<str>, TyId)| match self.data_ty(*ty) {
                            DataTy::Named(header) => (name.to_string(), header),
                            _ => (name.to_string(), String::new()),
                        };
                        NamedTypeKind::HeaderUnion(members.iter().map(member).collect())
                    }
                    kind => {
                        let member =
                            |(name, ty): &(Rc<str>, TyId)| (name.to_string(), self.data_ty(*ty));
                        let members = members.iter().map(member).collect();
                        if kind == RecordKind::Header {
                            NamedTypeKind::Header(members)
                        } else {
                            NamedTypeKind::Struct(members)
                        }
                    }
                }
            }
            Ty::Enum(id) => {
                let decl = &self.hir.enums[id];
                match decl.underlying.and_then(|ty| self.scalar(ty)) {
                    None => NamedTypeKind::Enum(
                        decl.members
                            .iter()
                            .map(|(name, _)| name.as_str().to_owned())
                            .collect(),
                    ),
                    Some(scalar) => {
                        let member = |(name, value): &(syntax::ast::Name, Option<BigInt>)| {
                            let value = value.as_ref().map(|value| value_of(value, scalar.width()));
                            (
                                name.as_str().to_owned(),
                                value.unwrap_or_else(|| Value::zero(scalar.width())),
                            )
                        };
                        NamedTypeKind::SerializableEnum {
                            width: scalar.width(),
                            signed: scalar.is_signed(),
                            members: decl.members.iter().map(member).collect(),
                        }
                    }
                }
            }
            Ty::NewType(id) => {
                let decl = &self.hir.new_types[id];
                NamedTypeKind::NewType {
                    underlying: self.data_ty(decl.underlying),
                    translation: translation(self.sources, &decl.annotations),
                }
            }
            _ => return None,
        })
    }

    fn is_open(&self, ty: TyId) -> bool {
        match self.types.get(ty) {
            Ty::Var(_) => true,
            Ty::Record(_, args) | Ty::Tuple(args) => args.iter().any(|&arg| self.is_open(arg)),
            Ty::Stack(element, _) | Ty::List(element) => self.is_open(*element),
            _ => false,
        }
    }

    /// The bits of a type on the wire or in an expression; 0 for what has none.
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

/// `@p4runtime_translation(uri, what)`
fn translation(
    sources: &syntax::source::SourceMap,
    annotations: &[hir::Annotation],
) -> Option<Translation> {
    let annotation = annotations
        .iter()
        .find(|a| a.name.as_str() == "p4runtime_translation")?;
    let (uri, what) = annotate::pair(sources, annotation)?;
    let controller = match what
        .strip_prefix("bit")
        .map(|rest| rest.trim().trim_matches(['<', '>']))
    {
        Some(width) => ControllerTy::Bits(width.trim().parse().ok()?),
        None if what == "string" => ControllerTy::String,
        None => ControllerTy::Bits(number(&what)?),
    };
    Some(Translation { uri, controller })
}

fn number(text: &str) -> Option<u32> {
    let text = text.rsplit(['w', 's']).next()?.replace('_', "");
    let (digits, radix) = match text.get(..2) {
        Some("0x" | "0X") => (&text[2..], 16),
        Some("0b" | "0B") => (&text[2..], 2),
        Some("0o" | "0O") => (&text[2..], 8),
        _ => (&*text, 10),
    };
    BigInt::parse_bytes(digits.as_bytes(), radix)?.to_u32()
}
