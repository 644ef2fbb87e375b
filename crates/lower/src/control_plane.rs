//! Control-plane types: names, and the type declarations for P4Info.

use std::rc::Rc;

use bits::Value;
use ir::{ControllerTy, DataTy, NamedType, NamedTypeKind, Translation};
use num_bigint::BigInt;
use num_traits::ToPrimitive;
use sema::hir::{self, Ty, TyId};
use support::work::checkpoint;
use syntax::ast::RecordKind;

use crate::annotate;
use crate::cx::Lower;
use crate::types::value_of;

impl Lower<'_> {
    /// Returns the type as the control plane sees it.
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

    /// Returns a record's name: its `@name`, else its own. A generic one is followed by its type
    /// arguments, as in p4c.
    pub(crate) fn record_name(&self, ty: TyId) -> String {
        match self.types.get(ty) {
            Ty::Record(id, args) => {
                let record = &self.hir.records[*id];
                if let Some(given) = annotate::name(&record.annotations) {
                    return given.trim_start_matches('.').to_owned();
                }
                let mut name = record.name.as_str().to_owned();
                for &arg in args {
                    checkpoint();
                    name.push('_');
                    name.push_str(&self.type_word(arg));
                }
                name
            }
            _ => String::new(),
        }
    }

    /// Returns a type as a part of a name.
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

    /// Describes the declared types for P4Info. Generic types are included if something mentions
    /// them.
    pub(crate) fn describe_types(&mut self) {
        let hir = self.hir;
        for &ty in &hir.type_order {
            checkpoint();
            self.describe_type(ty);
        }
        let mut at = 0;
        while let Some(&ty) = self.specialized.get(at) {
            checkpoint();
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
                match record.kind {
                    RecordKind::HeaderUnion => {
                        let members = self.shown_members(ty);
                        let member = |(name, ty): (String, TyId)| match self.data_ty(ty) {
                            DataTy::Named(header) => (name, header),
                            _ => (name, String::new()),
                        };
                        NamedTypeKind::HeaderUnion(members.into_iter().map(member).collect())
                    }
                    RecordKind::Header => {
                        let mut members = Vec::new();
                        self.flat_members("", ty, &mut members);
                        NamedTypeKind::Header(members)
                    }
                    RecordKind::Struct => {
                        let members = self.shown_members(ty).into_iter();
                        NamedTypeKind::Struct(
                            members.map(|(name, ty)| (name, self.data_ty(ty))).collect(),
                        )
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

    /// Returns the members of a record by their control-plane names.
    fn shown_members(&mut self, ty: TyId) -> Vec<(String, TyId)> {
        let members = self.members(ty);
        let ty = self.peel(ty);
        let fields: &[hir::Field] = match *self.types.get(ty) {
            Ty::Record(id, _) => &self.hir.records[id].fields,
            _ => &[],
        };
        let given = fields
            .iter()
            .map(|field| annotate::name(&field.annotations));
        let given = given.chain(std::iter::repeat(None));
        let shown = |((name, ty), given): (&(Rc<str>, TyId), Option<String>)| {
            (given.unwrap_or_else(|| name.to_string()), *ty)
        };
        members.iter().zip(given).map(shown).collect()
    }

    /// Collects the members of a header. Members of a nested struct count as the header's.
    fn flat_members(&mut self, prefix: &str, ty: TyId, flat: &mut Vec<(String, DataTy)>) {
        for (name, ty) in self.shown_members(ty) {
            checkpoint();
            let name = format!("{prefix}{name}");
            match self.scalar(ty) {
                Some(_) => flat.push((name, self.data_ty(ty))),
                None => self.flat_members(&format!("{name}."), ty, flat),
            }
        }
    }

    fn is_open(&self, ty: TyId) -> bool {
        match self.types.get(ty) {
            Ty::Var(_) => true,
            Ty::Record(_, args) | Ty::Tuple(args) => args.iter().any(|&arg| self.is_open(arg)),
            Ty::Stack(element, _) | Ty::List(element) => self.is_open(*element),
            _ => false,
        }
    }
}

/// Parses `@p4runtime_translation(uri, type)`.
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
