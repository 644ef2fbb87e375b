//! Types: declarations of the types that a program needs, and values of types that the control
//! plane sees.

use std::collections::{BTreeMap, BTreeSet};

use bits::IdVec;
use ir::{
    Annotation, ControllerTy, DataTy, ExternId, ExternKind, HeaderTypeId, MatchKind, NamedTypeKind,
    Program, ScalarTy, Translation, ValueSetField,
};

use super::names::{Names, quoted};
use super::text::{Text, annotation_text, given_name};

/// Errors that `core.p4` declares.
const CORE_ERRORS: &[&str] = &[
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
];

/// Types that `v1model.p4` declares.
const V1MODEL_TYPES: &[&str] = &[
    "CounterType",
    "MeterType",
    "HashAlgorithm",
    "CloneType",
    "standard_metadata",
];

/// The declared types of a program, with their names in the text.
pub(super) struct Types<'a> {
    program: &'a Program,
    /// Positions in [`Program::named_types`], by name.
    named: BTreeMap<&'a str, usize>,
    /// Names in the text, by name in the IR.
    idents: BTreeMap<&'a str, String>,
    headers: IdVec<HeaderTypeId, String>,
    /// Names of the members of each header type.
    members: IdVec<HeaderTypeId, Vec<String>>,
    /// Named types to declare.
    needed: BTreeSet<usize>,
    enums: BTreeMap<ir::EnumId, String>,
    /// Structs of the digests with another name than the type of their messages.
    digests: BTreeMap<ExternId, String>,
    /// Fields of the value sets with elements of a struct, by its name.
    matches: BTreeMap<&'a str, &'a [ValueSetField]>,
}

impl<'a> Types<'a> {
    /// Finds and names the types that a program needs.
    pub(super) fn new(program: &'a Program, names: &mut Names) -> Types<'a> {
        let named = program.named_types.iter().enumerate();
        let mut types = Types {
            program,
            named: named.map(|(at, ty)| (ty.name.as_str(), at)).collect(),
            idents: BTreeMap::new(),
            headers: IdVec::new(),
            members: IdVec::new(),
            needed: BTreeSet::new(),
            enums: BTreeMap::new(),
            digests: BTreeMap::new(),
            matches: BTreeMap::new(),
        };
        types.find();
        for &known in V1MODEL_TYPES {
            types.idents.insert(known, known.to_owned());
        }
        types
            .idents
            .insert("standard_metadata", "standard_metadata_t".to_owned());
        for header in program.header_types.values() {
            let ident = names.fresh(&header.name);
            types.idents.entry(&header.name).or_insert(ident.clone());
            types.headers.push(ident);
            let mut members = Names::of_members();
            let members = header.fields.iter().map(|field| members.fresh(&field.name));
            types.members.push(members.collect());
        }
        for (id, made) in program.enums.iter() {
            let ident = match types.idents.get(made.name.as_str()) {
                Some(known) => known.clone(),
                None => names.fresh(&made.name),
            };
            types.idents.insert(&made.name, ident.clone());
            types.enums.insert(id, ident);
        }
        for &at in &types.needed.clone() {
            let name = program.named_types[at].name.as_str();
            if !types.idents.contains_key(name) {
                types.idents.insert(name, names.fresh(name));
            }
        }
        for (id, made) in program.externs.iter() {
            if let ExternKind::Digest { data_ty, .. } = &made.kind
                && let DataTy::Named(name) = data_ty
                && *name != made.name
                && types.struct_members(data_ty).is_some()
            {
                types.digests.insert(id, names.fresh(&made.name));
            }
        }
        types
    }

    /// Returns the type of a digest's messages, which names the digest.
    pub(super) fn digest(&self, id: ExternId, data_ty: &DataTy) -> String {
        match self.digests.get(&id) {
            Some(ident) => ident.clone(),
            None => self.data(data_ty),
        }
    }

    /// Finds the named types that objects of the control plane mention.
    fn find(&mut self) {
        let program = self.program;
        let mut open: Vec<&DataTy> = Vec::new();
        for table in program.tables.values() {
            open.extend(table.keys.iter().map(|key| &key.data_ty));
        }
        for action in program.actions.values() {
            open.extend(action.params.iter().map(|param| &param.data_ty));
        }
        for set in program.value_sets.values() {
            open.push(&set.data_ty);
            if let DataTy::Named(name) = &set.data_ty {
                self.matches.insert(name, &set.fields);
            }
        }
        for made in program.externs.values() {
            match &made.kind {
                ExternKind::Counter { index_ty, .. } | ExternKind::Meter { index_ty, .. } => {
                    open.extend(index_ty);
                }
                ExternKind::Register {
                    data_ty, index_ty, ..
                } => {
                    open.push(data_ty);
                    open.extend(index_ty);
                }
                ExternKind::Digest { data_ty, .. } => open.push(data_ty),
                _ => {}
            }
        }
        for header in program.header_types.values() {
            if is_controller_header(&header.annotations) {
                open.extend(header.fields.iter().map(|field| &field.data_ty));
            }
        }
        while let Some(ty) = open.pop() {
            match ty {
                DataTy::Named(name) | DataTy::Stack(name, _) => {
                    let Some(&at) = self.named.get(name.as_str()) else {
                        continue;
                    };
                    if !self.needed.insert(at) {
                        continue;
                    }
                    match &program.named_types[at].kind {
                        NamedTypeKind::Struct(members) | NamedTypeKind::Header(members) => {
                            open.extend(members.iter().map(|(_, ty)| ty));
                        }
                        NamedTypeKind::NewType { underlying, .. } => open.push(underlying),
                        NamedTypeKind::HeaderUnion(_)
                        | NamedTypeKind::Enum(_)
                        | NamedTypeKind::SerializableEnum { .. } => {}
                    }
                }
                DataTy::Tuple(parts) => open.extend(parts),
                _ => {}
            }
        }
    }

    pub(super) fn header_ident(&self, id: HeaderTypeId) -> &str {
        &self.headers[id]
    }

    pub(super) fn member(&self, id: HeaderTypeId, at: usize) -> &str {
        &self.members[id][at]
    }

    pub(super) fn enum_ident(&self, id: ir::EnumId) -> &str {
        self.enums.get(&id).map_or("", String::as_str)
    }

    fn named_kind(&self, name: &str) -> Option<&'a NamedTypeKind> {
        let at = *self.named.get(name)?;
        Some(&self.program.named_types[at].kind)
    }

    /// Returns the type that the text declares for a header's field. It differs from the scalar if
    /// controllers see the header.
    pub(super) fn member_ty(&self, id: HeaderTypeId, at: usize) -> &'a DataTy {
        let header = &self.program.header_types[id];
        const PLAIN: &DataTy = &DataTy::Tuple(Vec::new());
        let named = self.named.get(header.name.as_str());
        let is_seen = is_controller_header(&header.annotations)
            || named.is_some_and(|at| self.needed.contains(at));
        match is_seen {
            true => &header.fields[at].data_ty,
            false => PLAIN,
        }
    }

    /// Returns the text of a scalar type.
    pub(super) fn scalar(&self, ty: ScalarTy) -> String {
        match ty {
            ScalarTy::Bit(width) => format!("bit<{width}>"),
            ScalarTy::Int(width) => format!("int<{width}>"),
            ScalarTy::Varbit(width) => format!("varbit<{width}>"),
            ScalarTy::Bool => "bool".to_owned(),
            ScalarTy::Error => "error".to_owned(),
            ScalarTy::Enum(id) => self.enum_ident(id).to_owned(),
        }
    }

    /// Returns the text of a type that the control plane sees.
    pub(super) fn data(&self, ty: &DataTy) -> String {
        match ty {
            DataTy::Bit(width) => format!("bit<{width}>"),
            DataTy::Int(width) => format!("int<{width}>"),
            DataTy::Varbit(width) => format!("varbit<{width}>"),
            DataTy::Bool => "bool".to_owned(),
            DataTy::Error => "error".to_owned(),
            DataTy::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.data(part)).collect();
                format!("tuple<{}>", parts.join(", "))
            }
            DataTy::Named(name) => self.ident(name),
            DataTy::Stack(name, len) => format!("{}[{len}]", self.ident(name)),
        }
    }

    fn ident(&self, name: &str) -> String {
        let ident = self.idents.get(name);
        ident.map_or_else(|| name.to_owned(), String::clone)
    }

    /// Returns the type of a scalar declaration: that of the control plane, if it has a name.
    pub(super) fn declared(&self, ty: ScalarTy, data_ty: &DataTy) -> String {
        match self.is_named_scalar(data_ty) {
            true => self.data(data_ty),
            false => self.scalar(ty),
        }
    }

    /// Returns true if values of a scalar type need a cast from and to `bit` or `int`.
    pub(super) fn is_named_scalar(&self, ty: &DataTy) -> bool {
        let DataTy::Named(name) = ty else {
            return false;
        };
        matches!(
            self.named_kind(name),
            Some(NamedTypeKind::NewType { .. } | NamedTypeKind::SerializableEnum { .. })
        )
    }

    /// Returns the width of a number, and true if it is signed.
    pub(super) fn scalar_width(&self, ty: &DataTy) -> Option<(u32, bool)> {
        match ty {
            DataTy::Bit(width) => Some((*width, false)),
            DataTy::Int(width) => Some((*width, true)),
            DataTy::Named(name) => match self.named_kind(name)? {
                NamedTypeKind::NewType { underlying, .. } => self.scalar_width(underlying),
                NamedTypeKind::SerializableEnum { width, signed, .. } => Some((*width, *signed)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Casts a scalar to a type that the control plane sees. The text is an operand.
    pub(super) fn cast_to(&self, ty: &DataTy, text: String) -> String {
        let DataTy::Named(name) = ty else {
            return text;
        };
        match self.named_kind(name) {
            Some(NamedTypeKind::NewType { underlying, .. }) => {
                let inner = self.cast_to(underlying, text);
                format!("({}){}", self.ident(name), inner)
            }
            Some(NamedTypeKind::SerializableEnum { .. }) => {
                format!("({}){text}", self.ident(name))
            }
            _ => text,
        }
    }

    /// Casts a value of a type that the control plane sees to its scalar. The text is an operand.
    pub(super) fn cast_from(&self, ty: &DataTy, text: String) -> String {
        let DataTy::Named(name) = ty else {
            return text;
        };
        match self.named_kind(name) {
            Some(NamedTypeKind::NewType { underlying, .. }) => {
                let text = format!("({}){text}", self.data(underlying));
                self.cast_from(underlying, text)
            }
            Some(NamedTypeKind::SerializableEnum { width, signed, .. }) => {
                let sign = if *signed { "int" } else { "bit" };
                format!("({sign}<{width}>){text}")
            }
            _ => text,
        }
    }

    /// Returns the members of a struct, with the names that the text gives them.
    pub(super) fn struct_members(&self, ty: &DataTy) -> Option<Vec<(String, &'a DataTy)>> {
        let DataTy::Named(name) = ty else {
            return None;
        };
        match self.named_kind(name)? {
            NamedTypeKind::Struct(members) => {
                let mut names = Names::of_members();
                let member = |(name, ty): &'a (String, DataTy)| (names.fresh(name), ty);
                Some(members.iter().map(member).collect())
            }
            NamedTypeKind::NewType { underlying, .. } => self.struct_members(underlying),
            _ => None,
        }
    }

    /// Returns the header type with this name, if the type is one.
    pub(super) fn header_of(&self, ty: &DataTy) -> Option<HeaderTypeId> {
        let DataTy::Named(name) = ty else {
            return None;
        };
        match self.named_kind(name)? {
            NamedTypeKind::Header(_) => {
                let mut headers = self.program.header_types.iter();
                headers
                    .find(|(_, header)| header.name == *name)
                    .map(|(id, _)| id)
            }
            _ => None,
        }
    }

    /// Prints the declarations.
    pub(super) fn print(&self, text: &mut Text) {
        let errors = self.program.errors.iter();
        let errors: Vec<&str> = errors
            .map(String::as_str)
            .filter(|error| !CORE_ERRORS.contains(error))
            .collect();
        if !errors.is_empty() {
            text.block("error", |text| {
                text.list(errors.iter().map(|error| (*error).to_owned()));
            });
            text.blank();
        }
        let mut done: BTreeSet<&str> = V1MODEL_TYPES.iter().copied().collect();
        for (at, ty) in self.program.named_types.iter().enumerate() {
            let is_header = matches!(ty.kind, NamedTypeKind::Header(_));
            if is_header && let Some(id) = self.header_of(&DataTy::Named(ty.name.clone())) {
                if done.insert(&ty.name) {
                    self.print_header(id, text);
                }
            } else if let NamedTypeKind::Enum(members) = &ty.kind {
                let is_used = self.program.enums.values().any(|made| made.name == ty.name);
                if (is_used || self.needed.contains(&at)) && done.insert(&ty.name) {
                    self.print_enum(&ty.name, members, &ty.annotations, text);
                }
            } else if self.needed.contains(&at) && done.insert(&ty.name) {
                self.print_named(at, text);
            }
        }
        for made in self.program.enums.values() {
            if done.insert(&made.name) {
                self.print_enum(&made.name, &made.members, &[], text);
            }
        }
        for (id, header) in self.program.header_types.iter() {
            let is_first = self.header_of(&DataTy::Named(header.name.clone())) == Some(id);
            if !is_first || done.insert(&header.name) {
                self.print_header(id, text);
            }
        }
    }

    /// Prints the structs of digests that have a name of their own.
    pub(super) fn print_digests(&self, text: &mut Text) {
        for (&id, ident) in &self.digests {
            let made = &self.program.externs[id];
            let ExternKind::Digest { data_ty, .. } = &made.kind else {
                continue;
            };
            self.annotated(&made.annotations, &made.name, ident, text);
            text.block(&format!("struct {ident}"), |text| {
                for (member, ty) in self.struct_members(data_ty).unwrap_or_default() {
                    text.line(format!("{} {member};", self.data(ty)));
                }
            });
            text.blank();
        }
    }

    fn annotated(&self, annotations: &[Annotation], name: &str, ident: &str, text: &mut Text) {
        for annotation in annotations {
            if annotation.name != "name" {
                text.line(annotation_text(annotation));
            }
        }
        if name != ident {
            text.line(format!("@name({})", quoted(name)));
        }
    }

    fn print_enum(
        &self,
        name: &str,
        members: &[String],
        annotations: &[Annotation],
        text: &mut Text,
    ) {
        let ident = self.ident(name);
        self.annotated(annotations, name, &ident, text);
        text.block(&format!("enum {ident}"), |text| {
            text.list(members.iter().cloned());
        });
        text.blank();
    }

    fn print_header(&self, id: HeaderTypeId, text: &mut Text) {
        let header = &self.program.header_types[id];
        let ident = &self.headers[id];
        let is_first = self.header_of(&DataTy::Named(header.name.clone())) == Some(id);
        let name = if is_first {
            header.name.as_str()
        } else {
            ident
        };
        self.annotated(&header.annotations, name, ident, text);
        text.block(&format!("header {ident}"), |text| {
            for (at, field) in header.fields.iter().enumerate() {
                let member = &self.members[id][at];
                let mut line = String::new();
                for annotation in &field.annotations {
                    if annotation.name != "name" {
                        line += &annotation_text(annotation);
                        line.push(' ');
                    }
                }
                let shown = given_name(&field.annotations).unwrap_or(field.name.clone());
                if shown != *member {
                    line += &format!("@name({}) ", quoted(&shown));
                }
                let ty = self.declared(field.ty, self.member_ty(id, at));
                text.line(format!("{line}{ty} {member};"));
            }
        });
        text.blank();
    }

    fn print_named(&self, at: usize, text: &mut Text) {
        let ty = &self.program.named_types[at];
        let ident = self.ident(&ty.name);
        self.annotated(&ty.annotations, &ty.name, &ident, text);
        match &ty.kind {
            NamedTypeKind::Struct(members) | NamedTypeKind::Header(members) => {
                let word = match ty.kind {
                    NamedTypeKind::Header(_) => "header",
                    _ => "struct",
                };
                let matches = self.matches.get(ty.name.as_str());
                let mut names = Names::of_members();
                text.block(&format!("{word} {ident}"), |text| {
                    for (name, ty) in members {
                        let member = names.fresh(name);
                        let mut line = String::new();
                        let field = matches
                            .and_then(|fields| fields.iter().find(|field| field.name == *name));
                        if let Some(field) = field {
                            line += &value_set_annotations(field);
                        }
                        if member != *name {
                            line += &format!("@name({}) ", quoted(name));
                        }
                        text.line(format!("{line}{} {member};", self.data(ty)));
                    }
                });
            }
            NamedTypeKind::HeaderUnion(members) => {
                text.block(&format!("header_union {ident}"), |text| {
                    for (name, header) in members {
                        text.line(format!("{} {name};", self.ident(header)));
                    }
                });
            }
            NamedTypeKind::Enum(_) => {}
            NamedTypeKind::SerializableEnum {
                width,
                signed,
                members,
            } => {
                let sign = if *signed { "int" } else { "bit" };
                text.block(&format!("enum {sign}<{width}> {ident}"), |text| {
                    let members = members.iter();
                    text.list(members.map(|(name, value)| {
                        let value = match signed {
                            true => format!("(int<{width}>){value:?}"),
                            false => format!("{value:?}"),
                        };
                        format!("{name} = {value}")
                    }));
                });
            }
            NamedTypeKind::NewType {
                underlying,
                translation,
            } => {
                let is_printed = ty
                    .annotations
                    .iter()
                    .any(|annotation| annotation.name == "p4runtime_translation");
                if let (Some(translation), false) = (translation, is_printed) {
                    text.line(translation_text(translation));
                }
                text.line(format!("type {} {ident};", self.data(underlying)));
            }
        }
        text.blank();
    }
}

fn is_controller_header(annotations: &[Annotation]) -> bool {
    annotations
        .iter()
        .any(|annotation| annotation.name == "controller_header")
}

fn translation_text(translation: &Translation) -> String {
    let controller = match translation.controller {
        ControllerTy::Bits(width) => format!("bit<{width}>"),
        ControllerTy::String => "string".to_owned(),
    };
    let uri = quoted(&translation.uri);
    format!("@p4runtime_translation({uri}, {controller})")
}

/// Returns the annotations of a value set's field, with a blank after each.
fn value_set_annotations(field: &ValueSetField) -> String {
    let mut line = String::new();
    for annotation in &field.annotations {
        if !matches!(annotation.name.as_str(), "name" | "match") {
            line += &annotation_text(annotation);
            line.push(' ');
        }
    }
    if field.match_kind != MatchKind::Exact {
        line += &format!("@match({}) ", field.match_kind.name());
    }
    line
}
