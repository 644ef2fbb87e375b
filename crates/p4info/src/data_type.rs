//! Types in P4Info (P4Runtime, "Representation of Arbitrary P4 Types").

use std::collections::HashMap;

use ir::{ControllerTy, DataTy, NamedType, NamedTypeKind, Program, Translation};
use support::work::checkpoint;

use crate::annotation::{self, KeptAnnotation};
use crate::error::P4InfoProblem;
use crate::p4::config::v1::p4_bitstring_like_type_spec::TypeSpec as BitstringKind;
use crate::p4::config::v1::p4_data_type_spec::TypeSpec;
use crate::p4::config::v1::p4_new_type_spec::Representation;
use crate::p4::config::v1::p4_new_type_translation::{SdnString, SdnType};
use crate::p4::config::v1::{
    P4BitTypeSpec, P4BitstringLikeTypeSpec, P4BoolType, P4DataTypeSpec, P4EnumTypeSpec,
    P4ErrorType, P4ErrorTypeSpec, P4HeaderStackTypeSpec, P4HeaderTypeSpec,
    P4HeaderUnionStackTypeSpec, P4HeaderUnionTypeSpec, P4IntTypeSpec, P4NamedType, P4NewTypeSpec,
    P4NewTypeTranslation, P4SerializableEnumTypeSpec, P4StructTypeSpec, P4TupleTypeSpec,
    P4TypeInfo, P4VarbitTypeSpec, p4_enum_type_spec, p4_header_type_spec,
    p4_header_union_type_spec, p4_serializable_enum_type_spec, p4_struct_type_spec,
};

/// Converts types, and collects the declarations of those that are used.
pub(crate) struct DataTypes<'a> {
    declared: HashMap<&'a str, &'a NamedType>,
    errors: &'a [String],
    /// The declarations so far; `None` until an object is converted that can refer to types.
    pub(crate) info: Option<P4TypeInfo>,
    /// Errors in declarations: the type's name, and the problem.
    pub(crate) problems: Vec<(String, P4InfoProblem)>,
}

impl<'a> DataTypes<'a> {
    pub(crate) fn new(program: &'a Program) -> Self {
        Self {
            declared: program
                .named_types
                .iter()
                .map(|ty| (ty.name.as_str(), ty))
                .collect(),
            errors: &program.errors,
            info: None,
            problems: Vec::new(),
        }
    }

    /// Returns the declarations so far.
    pub(crate) fn info(&mut self) -> &mut P4TypeInfo {
        self.info.get_or_insert_default()
    }

    /// Converts a type. The types that it refers to are declared.
    pub(crate) fn spec(&mut self, ty: &DataTy) -> P4DataTypeSpec {
        checkpoint();
        let spec = match ty {
            DataTy::Bit(_) | DataTy::Int(_) | DataTy::Varbit(_) => {
                TypeSpec::Bitstring(bitstring(ty))
            }
            DataTy::Bool => TypeSpec::Bool(P4BoolType {}),
            DataTy::Error => {
                self.declare_errors();
                TypeSpec::Error(P4ErrorType {})
            }
            DataTy::Tuple(members) => {
                let members = members.iter().map(|member| self.spec(member)).collect();
                TypeSpec::Tuple(P4TupleTypeSpec { members })
            }
            DataTy::Named(name) => self.mention(name),
            DataTy::Stack(name, size) => self.stack(name, *size),
        };
        P4DataTypeSpec {
            type_spec: Some(spec),
        }
    }

    /// Returns the width of a value that a controller sends. For translated types it is the width
    /// on the controller's side, and 0 for strings.
    pub(crate) fn bitwidth(&self, ty: &DataTy) -> i32 {
        let width = match ty {
            DataTy::Bit(width) | DataTy::Int(width) | DataTy::Varbit(width) => *width,
            DataTy::Bool => 1,
            DataTy::Error | DataTy::Tuple(_) | DataTy::Stack(..) => 0,
            DataTy::Named(name) => match self.declared.get(name.as_str()).map(|ty| &ty.kind) {
                Some(NamedTypeKind::SerializableEnum { width, .. }) => *width,
                Some(NamedTypeKind::NewType {
                    translation: Some(translation),
                    ..
                }) => match translation.controller {
                    ControllerTy::Bits(width) => width,
                    ControllerTy::String => 0,
                },
                Some(NamedTypeKind::NewType { .. }) => return self.bitwidth(self.underlying(ty)),
                _ => 0,
            },
        };
        i32::try_from(width).unwrap_or(i32::MAX)
    }

    /// Returns the name of a `type`, which is given in addition to the width.
    pub(crate) fn new_type_name(&self, ty: &DataTy) -> Option<P4NamedType> {
        self.named(ty, |kind| matches!(kind, NamedTypeKind::NewType { .. }))
    }

    /// Returns the name of a `type`, or of an enum without an underlying type. A parameter of such
    /// an enum is sent as the member's name.
    pub(crate) fn parameter_type_name(&self, ty: &DataTy) -> Option<P4NamedType> {
        self.named(ty, |kind| {
            matches!(kind, NamedTypeKind::NewType { .. } | NamedTypeKind::Enum(_))
        })
    }

    fn named(
        &self,
        ty: &DataTy,
        is_wanted: impl Fn(&NamedTypeKind) -> bool,
    ) -> Option<P4NamedType> {
        match ty {
            DataTy::Named(name)
                if self
                    .declared
                    .get(name.as_str())
                    .is_some_and(|ty| is_wanted(&ty.kind)) =>
            {
                Some(named_type(name))
            }
            _ => None,
        }
    }

    /// Returns the members of a struct.
    pub(crate) fn members(&self, ty: &DataTy) -> Option<&'a [(String, DataTy)]> {
        match ty {
            DataTy::Named(name) => match self.declared.get(name.as_str()).map(|ty| &ty.kind) {
                Some(NamedTypeKind::Struct(members)) => Some(members),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the type under a chain of `type`s. The number of steps is limited, in case the IR is
    /// cyclic.
    fn underlying<'b>(&'b self, ty: &'b DataTy) -> &'b DataTy {
        let mut ty = ty;
        for _ in 0..=self.declared.len() {
            match ty {
                DataTy::Named(name) => match self.declared.get(name.as_str()).map(|ty| &ty.kind) {
                    Some(NamedTypeKind::NewType { underlying, .. }) => ty = underlying,
                    _ => return ty,
                },
                _ => return ty,
            }
        }
        // A cycle. An error type has no width and refers to no other type.
        &DataTy::Error
    }

    fn mention(&mut self, name: &str) -> TypeSpec {
        self.declare(name);
        let mention = named_type(name);
        match self.declared.get(name).map(|ty| &ty.kind) {
            Some(NamedTypeKind::Struct(_)) | None => TypeSpec::Struct(mention),
            Some(NamedTypeKind::Header(_)) => TypeSpec::Header(mention),
            Some(NamedTypeKind::HeaderUnion(_)) => TypeSpec::HeaderUnion(mention),
            Some(NamedTypeKind::Enum(_)) => TypeSpec::Enum(mention),
            Some(NamedTypeKind::SerializableEnum { .. }) => TypeSpec::SerializableEnum(mention),
            Some(NamedTypeKind::NewType { .. }) => TypeSpec::NewType(mention),
        }
    }

    fn stack(&mut self, name: &str, size: u32) -> TypeSpec {
        self.declare(name);
        let element = Some(named_type(name));
        let size = i32::try_from(size).unwrap_or(i32::MAX);
        match self.declared.get(name).map(|ty| &ty.kind) {
            Some(NamedTypeKind::HeaderUnion(_)) => {
                TypeSpec::HeaderUnionStack(P4HeaderUnionStackTypeSpec {
                    header_union: element,
                    size,
                })
            }
            _ => TypeSpec::HeaderStack(P4HeaderStackTypeSpec {
                header: element,
                size,
            }),
        }
    }

    fn declare_errors(&mut self) {
        let members = self.errors.to_vec();
        self.info().error.get_or_insert(P4ErrorTypeSpec { members });
    }

    /// Adds the declaration of a type to the P4Info, and those of the types that it refers to. The
    /// entry is created before its members are visited, so cycles end.
    fn declare(&mut self, name: &str) {
        let Some(&ty) = self.declared.get(name) else {
            let problem = (
                name.to_owned(),
                P4InfoProblem::UnknownType {
                    name: name.to_owned(),
                },
            );
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
            return;
        };
        if self.is_declared(ty) {
            return;
        }
        let key = name.to_owned();
        match &ty.kind {
            NamedTypeKind::Struct(members) => {
                self.info()
                    .structs
                    .insert(key.clone(), P4StructTypeSpec::default());
                let spec = self.structure(ty, members);
                self.info().structs.insert(key, spec);
            }
            NamedTypeKind::Header(members) => {
                let spec = self.header(ty, members);
                self.info().headers.insert(key, spec);
            }
            NamedTypeKind::HeaderUnion(members) => {
                self.info()
                    .header_unions
                    .insert(key.clone(), P4HeaderUnionTypeSpec::default());
                let spec = self.header_union(ty, members);
                self.info().header_unions.insert(key, spec);
            }
            NamedTypeKind::Enum(members) => {
                let spec = self.enumeration(ty, members);
                self.info().enums.insert(key, spec);
            }
            NamedTypeKind::SerializableEnum { width, members, .. } => {
                let spec = self.serializable_enum(ty, *width, members);
                self.info().serializable_enums.insert(key, spec);
            }
            NamedTypeKind::NewType { translation, .. } => {
                self.info()
                    .new_types
                    .insert(key.clone(), P4NewTypeSpec::default());
                let spec = self.new_type(ty, translation.as_ref());
                self.info().new_types.insert(key, spec);
            }
        }
    }

    fn is_declared(&self, ty: &NamedType) -> bool {
        let Some(info) = &self.info else {
            return false;
        };
        let name = &ty.name;
        match ty.kind {
            NamedTypeKind::Struct(_) => info.structs.contains_key(name),
            NamedTypeKind::Header(_) => info.headers.contains_key(name),
            NamedTypeKind::HeaderUnion(_) => info.header_unions.contains_key(name),
            NamedTypeKind::Enum(_) => info.enums.contains_key(name),
            NamedTypeKind::SerializableEnum { .. } => info.serializable_enums.contains_key(name),
            NamedTypeKind::NewType { .. } => info.new_types.contains_key(name),
        }
    }

    fn kept(&mut self, ty: &NamedType, dropped: &[&str]) -> KeptAnnotation {
        let mut problems = Vec::new();
        let kept = annotation::keep(&ty.annotations, dropped, &mut problems);
        self.problems.extend(
            problems
                .into_iter()
                .map(|problem| (ty.name.clone(), problem)),
        );
        kept
    }

    fn structure(&mut self, ty: &NamedType, members: &[(String, DataTy)]) -> P4StructTypeSpec {
        let member = |(name, ty): &(String, DataTy)| p4_struct_type_spec::Member {
            name: name.clone(),
            type_spec: Some(self.spec(ty)),
        };
        let members = members.iter().map(member).collect();
        let kept = self.kept(ty, &[]);
        P4StructTypeSpec {
            members,
            annotations: kept.annotations,
            annotation_locations: Vec::new(),
            structured_annotations: kept.structured,
        }
    }

    fn header(&mut self, ty: &NamedType, members: &[(String, DataTy)]) -> P4HeaderTypeSpec {
        let member = |(name, ty): &(String, DataTy)| p4_header_type_spec::Member {
            name: name.clone(),
            type_spec: Some(self.header_field(ty)),
        };
        let members = members.iter().map(member).collect();
        let kept = self.kept(ty, &[]);
        P4HeaderTypeSpec {
            members,
            annotations: kept.annotations,
            annotation_locations: Vec::new(),
            structured_annotations: kept.structured,
        }
    }

    /// Converts the type of a header field, which is always a bit string.
    fn header_field(&self, ty: &DataTy) -> P4BitstringLikeTypeSpec {
        let ty = self.underlying(ty);
        match ty {
            DataTy::Named(name) => match self.declared.get(name.as_str()).map(|ty| &ty.kind) {
                Some(NamedTypeKind::SerializableEnum {
                    width,
                    signed: true,
                    ..
                }) => bitstring(&DataTy::Int(*width)),
                _ => bitstring(&DataTy::Bit(u32::try_from(self.bitwidth(ty)).unwrap_or(0))),
            },
            DataTy::Bool => bitstring(&DataTy::Bit(1)),
            ty => bitstring(ty),
        }
    }

    fn header_union(
        &mut self,
        ty: &NamedType,
        members: &[(String, String)],
    ) -> P4HeaderUnionTypeSpec {
        let member = |(name, header): &(String, String)| {
            self.declare(header);
            p4_header_union_type_spec::Member {
                name: name.clone(),
                header: Some(named_type(header)),
            }
        };
        let members = members.iter().map(member).collect();
        let kept = self.kept(ty, &[]);
        P4HeaderUnionTypeSpec {
            members,
            annotations: kept.annotations,
            annotation_locations: Vec::new(),
            structured_annotations: kept.structured,
        }
    }

    fn enumeration(&mut self, ty: &NamedType, members: &[String]) -> P4EnumTypeSpec {
        let member = |name: &String| p4_enum_type_spec::Member {
            name: name.clone(),
            ..Default::default()
        };
        let kept = self.kept(ty, &[]);
        P4EnumTypeSpec {
            members: members.iter().map(member).collect(),
            annotations: kept.annotations,
            annotation_locations: Vec::new(),
            structured_annotations: kept.structured,
        }
    }

    fn serializable_enum(
        &mut self,
        ty: &NamedType,
        width: u32,
        members: &[(String, bits::Value)],
    ) -> P4SerializableEnumTypeSpec {
        let member =
            |(name, value): &(String, bits::Value)| p4_serializable_enum_type_spec::Member {
                name: name.clone(),
                value: value.to_be_bytes(),
                ..Default::default()
            };
        let kept = self.kept(ty, &[]);
        P4SerializableEnumTypeSpec {
            underlying_type: Some(P4BitTypeSpec {
                bitwidth: i32::try_from(width).unwrap_or(i32::MAX),
            }),
            members: members.iter().map(member).collect(),
            annotations: kept.annotations,
            annotation_locations: Vec::new(),
            structured_annotations: kept.structured,
        }
    }

    fn new_type(&mut self, ty: &NamedType, translation: Option<&Translation>) -> P4NewTypeSpec {
        let named = DataTy::Named(ty.name.clone());
        let underlying = self.underlying(&named).clone();
        // The underlying type is declared even if the controller sees a translation.
        let original = self.spec(&underlying);
        let representation = match translation {
            None => Representation::OriginalType(original),
            Some(translation) => Representation::TranslatedType(P4NewTypeTranslation {
                uri: translation.uri.clone(),
                sdn_type: Some(match translation.controller {
                    ControllerTy::Bits(width) => {
                        SdnType::SdnBitwidth(i32::try_from(width).unwrap_or(i32::MAX))
                    }
                    ControllerTy::String => SdnType::SdnString(SdnString {}),
                }),
            }),
        };
        let kept = self.kept(ty, &["p4runtime_translation"]);
        P4NewTypeSpec {
            representation: Some(representation),
            annotations: kept.annotations,
            annotation_locations: Vec::new(),
            structured_annotations: kept.structured,
        }
    }
}

fn named_type(name: &str) -> P4NamedType {
    P4NamedType {
        name: name.to_owned(),
    }
}

/// Converts `bit`, `int` or `varbit`. Other types have no bit string kind.
fn bitstring(ty: &DataTy) -> P4BitstringLikeTypeSpec {
    let width = |width: u32| i32::try_from(width).unwrap_or(i32::MAX);
    let kind = match *ty {
        DataTy::Bit(bits) => BitstringKind::Bit(P4BitTypeSpec {
            bitwidth: width(bits),
        }),
        DataTy::Int(bits) => BitstringKind::Int(P4IntTypeSpec {
            bitwidth: width(bits),
        }),
        DataTy::Varbit(bits) => BitstringKind::Varbit(P4VarbitTypeSpec {
            max_bitwidth: width(bits),
        }),
        _ => BitstringKind::Bit(P4BitTypeSpec { bitwidth: 0 }),
    };
    P4BitstringLikeTypeSpec {
        type_spec: Some(kind),
        ..Default::default()
    }
}
