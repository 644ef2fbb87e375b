//! Generation of a program's P4Info: tables, actions, value sets, controller headers and the
//! package.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use ir::{
    Action, ActionCall, ActionScope, Annotation, Arch, DataTy, ExternKind, HeaderType, Loc,
    MatchKind, Program, Table, ValueSet,
};
use support::work::checkpoint;

use crate::annotation::{self, KeptAnnotation, PairValue};
use crate::data_type::DataTypes;
use crate::error::{P4InfoError, P4InfoProblem};
use crate::object::{NewObject, Objects, describe, field_ids};
use crate::p4::config::v1::action_ref::Scope;
use crate::p4::config::v1::match_field::{Match, MatchType};
use crate::p4::config::v1::p4_ids::Prefix;
use crate::p4::config::v1::table::IdleTimeoutBehavior;
use crate::p4::config::v1::{
    self as info, P4Info, PkgInfo, PlatformProperties, Preamble, TableActionCall, table_action_call,
};

/// Returns the P4Info of a program. The verifier must have accepted the program. Errors come from
/// annotations to which P4Runtime gives a meaning, and from names that are ambiguous for the
/// control plane.
pub fn p4info(program: &Program) -> Result<P4Info, Vec<P4InfoError>> {
    let mut errors = Vec::new();
    let objects = Objects::allocate(&visible(program), &mut errors);
    let mut cx = Cx {
        program,
        objects,
        types: DataTypes::new(program),
        errors,
    };
    let mut made = P4Info {
        pkg_info: Some(cx.package()),
        ..P4Info::default()
    };
    cx.tables(&mut made);
    cx.actions(&mut made);
    cx.externs(&mut made);
    cx.value_sets(&mut made);
    cx.controller_headers(&mut made);
    made.type_info = cx.types.info.take();
    for (name, problem) in std::mem::take(&mut cx.types.problems) {
        cx.errors.push(P4InfoError {
            object: format!("type {name}"),
            loc: None,
            problem,
        });
    }
    if cx.errors.is_empty() {
        Ok(made)
    } else {
        Err(cx.errors)
    }
}

/// Context of a conversion.
pub(crate) struct Cx<'a> {
    pub(crate) program: &'a Program,
    pub(crate) objects: Objects,
    pub(crate) types: DataTypes<'a>,
    pub(crate) errors: Vec<P4InfoError>,
}

/// Returns all objects with a preamble.
fn visible(program: &Program) -> Vec<NewObject<'_>> {
    let tables = program.tables.values().map(|table| NewObject {
        kind: Prefix::Table,
        name: &table.name,
        annotations: &table.annotations,
        loc: table.loc,
    });
    // Actions that no table lists are included as well, since p4c counts their names.
    let listed: HashSet<&str> = referenced_actions(program)
        .into_iter()
        .map(|action| action.control_plane_name.as_str())
        .collect();
    let is_seen = move |action: &&Action| {
        listed.contains(action.control_plane_name.as_str()) || !is_hidden(&action.annotations)
    };
    let actions = program
        .actions
        .values()
        .filter(is_seen)
        .map(|action| NewObject {
            kind: Prefix::Action,
            name: &action.control_plane_name,
            annotations: &action.annotations,
            loc: action.loc,
        });
    let externs = program.externs.values().filter_map(|made| {
        let kind = extern_prefix(&made.kind)?;
        Some(NewObject {
            kind,
            name: &made.name,
            annotations: &made.annotations,
            loc: made.loc,
        })
    });
    let value_sets = program.value_sets.values().map(|set| NewObject {
        kind: Prefix::ValueSet,
        name: &set.name,
        annotations: &set.annotations,
        loc: None,
    });
    let headers = controller_headers(program).map(|(header, _)| NewObject {
        kind: Prefix::ControllerHeader,
        name: &header.name,
        annotations: &header.annotations,
        loc: None,
    });
    tables
        .chain(actions)
        .chain(externs)
        .chain(value_sets)
        .chain(headers)
        .collect()
}

/// Returns the kind of object of an extern instance, if it is visible to the control plane.
pub(crate) fn extern_prefix(kind: &ExternKind) -> Option<Prefix> {
    match kind {
        ExternKind::Counter { .. } => Some(Prefix::Counter),
        ExternKind::DirectCounter { .. } => Some(Prefix::DirectCounter),
        ExternKind::Meter { .. } => Some(Prefix::Meter),
        ExternKind::DirectMeter { .. } => Some(Prefix::DirectMeter),
        ExternKind::Register { .. } => Some(Prefix::Register),
        ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. } => {
            Some(Prefix::ActionProfile)
        }
        ExternKind::Digest { .. } => Some(Prefix::Digest),
        ExternKind::Hash { .. }
        | ExternKind::Checksum { .. }
        | ExternKind::InternetChecksum
        | ExternKind::Random { .. }
        | ExternKind::TableKind { .. }
        | ExternKind::Handler { .. } => None,
    }
}

/// Returns the actions that tables list, each control-plane name once, in the program's order.
fn referenced_actions(program: &Program) -> Vec<&Action> {
    let listed: HashSet<_> = program
        .tables
        .values()
        .flat_map(|table| table.actions.iter().map(|action| action.action))
        .collect();
    let mut names = HashSet::new();
    program
        .actions
        .iter()
        .filter(|(id, action)| {
            listed.contains(id) && names.insert(action.control_plane_name.as_str())
        })
        .map(|(_, action)| action)
        .collect()
}

/// Returns the header types with `@controller_header`, and the annotation.
fn controller_headers(program: &Program) -> impl Iterator<Item = (&HeaderType, &Annotation)> {
    program.header_types.values().filter_map(|header| {
        let annotation = header
            .annotations
            .iter()
            .find(|annotation| annotation.name == "controller_header")?;
        Some((header, annotation))
    })
}

fn is_hidden(annotations: &[Annotation]) -> bool {
    annotation::has(annotations, "hidden")
}

impl Cx<'_> {
    pub(crate) fn error(&mut self, object: String, loc: Option<Loc>, problem: P4InfoProblem) {
        self.errors.push(P4InfoError {
            object,
            loc,
            problem,
        });
    }

    /// Sorts an object's annotations. Errors in them are reported for the object.
    pub(crate) fn kept(
        &mut self,
        object: &str,
        loc: Option<Loc>,
        annotations: &[Annotation],
        dropped: &[&str],
    ) -> KeptAnnotation {
        let mut problems = Vec::new();
        let kept = annotation::keep(annotations, dropped, &mut problems);
        for problem in problems {
            self.error(object.to_owned(), loc, problem);
        }
        kept
    }

    pub(crate) fn preamble(
        &mut self,
        kind: Prefix,
        name: &str,
        annotations: &[Annotation],
        loc: Option<Loc>,
        dropped: &[&str],
    ) -> Preamble {
        let kept = self.kept(&describe(kind, name), loc, annotations, dropped);
        Preamble {
            annotations: kept.annotations,
            structured_annotations: kept.structured,
            doc: kept.doc,
            ..self.objects.preamble(kind, name)
        }
    }

    /// Converts a size to the 31 bits that P4Info has for it.
    pub(crate) fn size(&mut self, object: &str, loc: Option<Loc>, size: u32) -> i32 {
        i32::try_from(size).unwrap_or_else(|_| {
            self.error(
                object.to_owned(),
                loc,
                P4InfoProblem::TooLarge {
                    what: "its size",
                    value: size.into(),
                },
            );
            i32::MAX
        })
    }

    fn package(&mut self) -> PkgInfo {
        let annotations = &self.program.annotations;
        let object = "the package main";
        let kept = self.kept(object, None, annotations, &["pkginfo", "platform_property"]);
        let arch = match self.program.arch {
            Arch::V1model => "v1model",
            Arch::Psa => "psa",
            Arch::Pna => "pna",
            Arch::Ebpf => "ebpf",
            Arch::Ubpf => "ubpf",
            Arch::Xdp => "xdp",
            Arch::Own => "own",
        };
        let mut package = PkgInfo {
            arch: arch.to_owned(),
            annotations: kept.annotations,
            structured_annotations: kept.structured,
            doc: kept.doc,
            ..PkgInfo::default()
        };
        let filled = fill_package(&mut package, annotations)
            .and_then(|()| fill_platform(&mut package, annotations));
        if let Err(problem) = filled {
            self.error(object.to_owned(), None, problem);
        }
        package
    }

    fn tables(&mut self, made: &mut P4Info) {
        let mut names = HashSet::new();
        for table in self.program.tables.values() {
            checkpoint();
            if !names.insert(table.name.as_str()) {
                self.error(
                    describe(Prefix::Table, &table.name),
                    table.loc,
                    P4InfoProblem::NameTaken,
                );
            }
            self.types.info();
            if !is_hidden(&table.annotations) {
                let table = self.table(table);
                made.tables.push(table);
            }
        }
    }

    fn table(&mut self, table: &Table) -> info::Table {
        let default_action = |call: &ActionCall| {
            table
                .actions
                .get(call.action)
                .map(|listed| &self.program.actions[listed.action])
                .filter(|action| !is_hidden(&action.annotations))
        };
        let initial =
            default_action(&table.default).map(|action| self.action_call(action, &table.default));
        let directs = [table.direct_counter, table.direct_meter];
        let direct_resource_ids = directs
            .into_iter()
            .flatten()
            .map(|id| self.extern_id(id))
            .collect();
        info::Table {
            preamble: Some(self.preamble(
                Prefix::Table,
                &table.name,
                &table.annotations,
                table.loc,
                &[],
            )),
            match_fields: self.match_fields(table),
            action_refs: self.action_refs(table),
            const_default_action_id: initial
                .as_ref()
                .filter(|_| table.default_is_const)
                .map_or(0, |call| call.action_id),
            initial_default_action: initial,
            implementation_id: table.implementation.map_or(0, |id| self.extern_id(id)),
            direct_resource_ids,
            size: table.size.into(),
            idle_timeout_behavior: match table.idle_timeout {
                true => IdleTimeoutBehavior::NotifyControl.into(),
                false => IdleTimeoutBehavior::NoTimeout.into(),
            },
            is_const_table: table.entries_are_const,
            has_initial_entries: !table.entries.is_empty(),
            other_properties: None,
        }
    }

    /// Returns the id of an extern instance; 0 if it is not visible to the control plane.
    pub(crate) fn extern_id(&self, id: ir::ExternId) -> u32 {
        let made = &self.program.externs[id];
        extern_prefix(&made.kind).map_or(0, |kind| self.objects.id(kind, &made.name))
    }

    fn action_call(&mut self, action: &Action, call: &ActionCall) -> TableActionCall {
        let ids = self.parameter_ids(action, &mut Vec::new());
        let argument = |(param_id, value): (u32, &bits::Value)| table_action_call::Argument {
            param_id,
            value: value.to_be_bytes(),
        };
        TableActionCall {
            action_id: self.objects.id(Prefix::Action, &action.control_plane_name),
            arguments: ids.into_iter().zip(&call.args).map(argument).collect(),
        }
    }

    fn parameter_ids(&self, action: &Action, errors: &mut Vec<P4InfoError>) -> Vec<u32> {
        let fields = action
            .params
            .iter()
            .map(|param| (param.name.as_str(), param.annotations.as_slice()));
        let owner = |name: &str, problem| P4InfoError {
            object: format!("parameter {name} of action {}", action.control_plane_name),
            loc: action.loc,
            problem,
        };
        field_ids(fields, &owner, errors)
    }

    fn match_fields(&mut self, table: &Table) -> Vec<info::MatchField> {
        let fields = table
            .keys
            .iter()
            .map(|key| (key.name.as_str(), key.annotations.as_slice()));
        let object = |name: &str| format!("key {name} of table {}", table.name);
        let owner = |name: &str, problem| P4InfoError {
            object: object(name),
            loc: table.loc,
            problem,
        };
        let ids = field_ids(fields, &owner, &mut self.errors);
        let mut made = Vec::new();
        for (id, key) in ids.into_iter().zip(&table.keys) {
            checkpoint();
            let Some(match_type) = match_type(key.match_kind) else {
                continue;
            };
            let kept = self.kept(&object(&key.name), table.loc, &key.annotations, &[]);
            self.types.spec(&key.data_ty);
            made.push(info::MatchField {
                id,
                name: key.name.clone(),
                bitwidth: self.types.bitwidth(&key.data_ty),
                type_name: self.types.new_type_name(&key.data_ty),
                r#match: Some(Match::MatchType(match_type.into())),
                ..match_field(kept)
            });
        }
        made
    }

    fn action_refs(&mut self, table: &Table) -> Vec<info::ActionRef> {
        let mut made = Vec::new();
        for listed in &table.actions {
            checkpoint();
            let action = &self.program.actions[listed.action];
            // P4Info does not contain the action, so its id would refer to nothing.
            if is_hidden(&action.annotations) {
                continue;
            }
            let object = format!(
                "action {} of table {}",
                action.control_plane_name, table.name
            );
            let kept = self.kept(&object, table.loc, &listed.annotations, &[]);
            let scope = match listed.scope {
                _ if annotation::has(&listed.annotations, "groupaction") => Scope::GroupAction,
                ActionScope::TableAndDefault => Scope::TableAndDefault,
                ActionScope::TableOnly => Scope::TableOnly,
                ActionScope::DefaultOnly => Scope::DefaultOnly,
            };
            made.push(info::ActionRef {
                id: self.objects.id(Prefix::Action, &action.control_plane_name),
                scope: scope.into(),
                annotations: kept.annotations,
                annotation_locations: Vec::new(),
                structured_annotations: kept.structured,
            });
        }
        made
    }

    fn actions(&mut self, made: &mut P4Info) {
        for action in referenced_actions(self.program) {
            checkpoint();
            if !is_hidden(&action.annotations) {
                let action = self.action(action);
                made.actions.push(action);
            }
        }
    }

    fn action(&mut self, action: &Action) -> info::Action {
        let mut errors = Vec::new();
        let ids = self.parameter_ids(action, &mut errors);
        self.errors.extend(errors);
        let mut params = Vec::new();
        for (id, param) in ids.into_iter().zip(&action.params) {
            checkpoint();
            let object = format!(
                "parameter {} of action {}",
                param.name, action.control_plane_name
            );
            let kept = self.kept(&object, action.loc, &param.annotations, &[]);
            self.types.spec(&param.data_ty);
            params.push(info::action::Param {
                id,
                name: param.name.clone(),
                bitwidth: self.types.bitwidth(&param.data_ty),
                type_name: self.types.parameter_type_name(&param.data_ty),
                annotations: kept.annotations,
                annotation_locations: Vec::new(),
                structured_annotations: kept.structured,
                doc: kept.doc,
            });
        }
        let preamble = self.preamble(
            Prefix::Action,
            &action.control_plane_name,
            &action.annotations,
            action.loc,
            &[],
        );
        info::Action {
            preamble: Some(preamble),
            params,
        }
    }

    fn value_sets(&mut self, made: &mut P4Info) {
        let mut names = HashSet::new();
        for set in self.program.value_sets.values() {
            checkpoint();
            if !names.insert(set.name.as_str()) {
                self.error(
                    describe(Prefix::ValueSet, &set.name),
                    None,
                    P4InfoProblem::NameTaken,
                );
            }
            let set = self.value_set(set);
            made.value_sets.push(set);
        }
    }

    fn value_set(&mut self, set: &ValueSet) -> info::ValueSet {
        let object = describe(Prefix::ValueSet, &set.name);
        if matches!(set.data_ty, DataTy::Tuple(_)) {
            self.error(object.clone(), None, P4InfoProblem::TupleValueSet);
        }
        info::ValueSet {
            preamble: Some(self.preamble(Prefix::ValueSet, &set.name, &set.annotations, None, &[])),
            r#match: self.value_set_fields(set),
            size: self.size(&object, None, set.size),
        }
    }

    fn value_set_fields(&mut self, set: &ValueSet) -> Vec<info::MatchField> {
        let object = |name: &str| format!("field {name} of value set {}", set.name);
        let owner = |name: &str, problem| P4InfoError {
            object: object(name),
            loc: None,
            problem,
        };
        let fields = set
            .fields
            .iter()
            .map(|field| (field.name.as_str(), field.annotations.as_slice()));
        let ids = field_ids(fields, &owner, &mut self.errors);
        let types = self.value_set_types(set);
        let mut made = Vec::new();
        for ((id, field), ty) in ids.into_iter().zip(&set.fields).zip(types) {
            checkpoint();
            let kept = self.kept(&object(&field.name), None, &field.annotations, &["match"]);
            if self.types.new_type_name(&ty).is_some() {
                self.types.spec(&ty);
            }
            made.push(info::MatchField {
                id,
                name: shown_name(&field.name, &field.annotations),
                bitwidth: self.types.bitwidth(&ty),
                type_name: self.types.new_type_name(&ty),
                r#match: match_type(field.match_kind).map(|kind| Match::MatchType(kind.into())),
                ..match_field(kept)
            });
        }
        made
    }

    /// Returns the type of each field. It comes from the struct's declaration if there is one,
    /// because the field's scalar type lacks the name of a `type`.
    fn value_set_types(&self, set: &ValueSet) -> Vec<DataTy> {
        match self.types.members(&set.data_ty) {
            Some(members) if members.len() == set.fields.len() => {
                members.iter().map(|(_, ty)| ty.clone()).collect()
            }
            _ if set.fields.len() == 1 => vec![set.data_ty.clone()],
            _ => set
                .fields
                .iter()
                .map(|field| DataTy::Bit(field.ty.width()))
                .collect(),
        }
    }

    fn controller_headers(&mut self, made: &mut P4Info) {
        for (header, annotation) in controller_headers(self.program) {
            checkpoint();
            if !is_hidden(&header.annotations) {
                let header = self.controller_header(header, annotation);
                made.controller_packet_metadata.push(header);
            }
        }
    }

    /// Converts a controller header. Its name comes from the annotation, its id from the name of
    /// the header type.
    fn controller_header(
        &mut self,
        header: &HeaderType,
        annotation: &Annotation,
    ) -> info::ControllerPacketMetadata {
        let object = describe(Prefix::ControllerHeader, &header.name);
        let name = match annotation::string(std::slice::from_ref(annotation), &annotation.name) {
            Ok(name) => name.unwrap_or_default(),
            Err(problem) => {
                self.error(object, None, problem);
                String::new()
            }
        };
        let preamble = self.preamble(
            Prefix::ControllerHeader,
            &header.name,
            &header.annotations,
            None,
            &[],
        );
        info::ControllerPacketMetadata {
            preamble: Some(Preamble {
                alias: name.clone(),
                name,
                ..preamble
            }),
            metadata: self.metadata(header),
        }
    }

    fn metadata(&mut self, header: &HeaderType) -> Vec<info::controller_packet_metadata::Metadata> {
        let object = |name: &str| format!("field {name} of controller header {}", header.name);
        let owner = |name: &str, problem| P4InfoError {
            object: object(name),
            loc: None,
            problem,
        };
        let fields = header
            .fields
            .iter()
            .map(|field| (field.name.as_str(), field.annotations.as_slice()));
        let ids = field_ids(fields, &owner, &mut self.errors);
        let mut made = Vec::new();
        for (id, field) in ids.into_iter().zip(&header.fields) {
            checkpoint();
            if is_hidden(&field.annotations) {
                continue;
            }
            let kept = self.kept(&object(&field.name), None, &field.annotations, &[]);
            self.types.info();
            self.types.spec(&field.data_ty);
            made.push(info::controller_packet_metadata::Metadata {
                id,
                name: shown_name(&field.name, &field.annotations),
                bitwidth: self.types.bitwidth(&field.data_ty),
                type_name: self.types.new_type_name(&field.data_ty),
                annotations: kept.annotations,
                annotation_locations: Vec::new(),
                structured_annotations: kept.structured,
            });
        }
        made
    }

    /// Returns the names of the tables that use each action profile.
    pub(crate) fn profile_users(&self) -> BTreeMap<ir::ExternId, BTreeSet<&str>> {
        let mut users: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for table in self.program.tables.values() {
            if let Some(profile) = table.implementation {
                users
                    .entry(profile)
                    .or_default()
                    .insert(table.name.as_str());
            }
        }
        users
    }
}

/// Returns a field's `@name`, or else its name.
fn shown_name(name: &str, annotations: &[Annotation]) -> String {
    match annotation::string(annotations, "name") {
        Ok(Some(given)) => given,
        _ => name.to_owned(),
    }
}

/// Returns the match type of a key in P4Info; `None` for selector keys, which are not match fields.
fn match_type(kind: MatchKind) -> Option<MatchType> {
    match kind {
        MatchKind::Exact => Some(MatchType::Exact),
        MatchKind::Lpm => Some(MatchType::Lpm),
        MatchKind::Ternary => Some(MatchType::Ternary),
        MatchKind::Range => Some(MatchType::Range),
        MatchKind::Optional => Some(MatchType::Optional),
        MatchKind::Selector => None,
    }
}

fn match_field(kept: KeptAnnotation) -> info::MatchField {
    info::MatchField {
        annotations: kept.annotations,
        structured_annotations: kept.structured,
        doc: kept.doc,
        ..info::MatchField::default()
    }
}

/// Evaluates `@pkginfo`. Unknown keys and `arch` are ignored.
fn fill_package(package: &mut PkgInfo, annotations: &[Annotation]) -> Result<(), P4InfoProblem> {
    let mut seen = HashSet::new();
    for (key, value) in annotation::pairs(annotations, "pkginfo")? {
        let field = match key.as_str() {
            "name" => &mut package.name,
            "version" => &mut package.version,
            "organization" => &mut package.organization,
            "contact" => &mut package.contact,
            "url" => &mut package.url,
            _ => continue,
        };
        match value {
            PairValue::String(text) if seen.insert(key) => *field = text,
            _ => {
                return Err(wrong_pairs(
                    "pkginfo",
                    "each key once, with a string in quotes",
                ));
            }
        }
    }
    Ok(())
}

fn fill_platform(package: &mut PkgInfo, annotations: &[Annotation]) -> Result<(), P4InfoProblem> {
    let mut seen = HashSet::new();
    for (key, value) in annotation::pairs(annotations, "platform_property")? {
        let platform = package
            .platform_properties
            .get_or_insert_with(PlatformProperties::default);
        let field = match key.as_str() {
            "multicast_group_table_size" => &mut platform.multicast_group_table_size,
            "multicast_group_table_total_replicas" => {
                &mut platform.multicast_group_table_total_replicas
            }
            "multicast_group_table_max_replicas_per_entry" => {
                &mut platform.multicast_group_table_max_replicas_per_entry
            }
            _ => continue,
        };
        let number = match value {
            PairValue::Number(number) if seen.insert(key) => i32::try_from(number).ok(),
            _ => None,
        };
        *field = number.ok_or_else(|| {
            wrong_pairs(
                "platform_property",
                "each key once, with a number below 2^31",
            )
        })?;
    }
    Ok(())
}

fn wrong_pairs(name: &str, expected: &'static str) -> P4InfoProblem {
    P4InfoProblem::Annotation {
        name: name.to_owned(),
        expected,
    }
}
