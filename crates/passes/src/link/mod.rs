//! Linking of programs into one: items get the step's name as a prefix, and new ids.
//!
//! Equal types become one type; others are kept apart by name. Standard metadata is shared by all
//! programs, field by field, under the architecture's names. Everything else belongs to its
//! program. `@id` annotations are dropped: two programs may use the same numbers. The ids that
//! P4Runtime derives from names stay the same while a chain changes around a step.

mod places;

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use bits::Id;
use ir::{
    ActionCall, Annotation, DataTy, EnumTy, Extern, ExternKind, Field, FieldId, Header, HeaderId,
    HeaderType, KeyMatch, MatchKind, NamedType, NamedTypeKind, Program, ScalarTy, Stack, Table,
};

use support::work::checkpoint;

pub(crate) use places::Places;

use crate::uses::Uses;

/// Prefix of the names of v1model's intrinsics, which all steps share.
pub(crate) const STANDARD_METADATA: &str = "standard_metadata.";

/// Error of linking a program with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// A field of standard metadata has another type than in an earlier program.
    StandardMetadata {
        /// The field.
        field: String,
        /// Its type here.
        found: ScalarTy,
        /// Its type there.
        expected: ScalarTy,
    },
    /// Two programs declare a controller header differently. A switch has only one.
    ControllerHeader {
        /// Its name in `@controller_header`.
        header: String,
    },
}

/// Items that are not linked: storage that exists already, and unused items.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) fields: HashMap<FieldId, FieldId>,
    pub(crate) headers: HashMap<HeaderId, HeaderId>,
    /// If only a part of the program is linked, the items that it uses. All others get no id.
    pub(crate) only: Option<Uses>,
}

/// Returns the id of an item that is not linked.
fn nowhere<I: Id>() -> I {
    I::from_index(u32::MAX as usize)
}

/// Links all items of a program into `out`, except parsers, controls and blocks. Their names get
/// the prefix `prefix`. Returns their new ids.
pub(crate) fn link(
    out: &mut Program,
    program: &Program,
    prefix: &str,
    known: &Known,
) -> Result<Places, LinkError> {
    let mut linker = Linker {
        out,
        program,
        prefix,
        types: HashMap::new(),
        known,
        places: Places::default(),
    };
    linker.files_and_errors();
    linker.name_types();
    linker.types()?;
    linker.storage()?;
    linker.objects();
    linker.code();
    linker.lists();
    Ok(linker.places)
}

struct Linker<'a> {
    out: &'a mut Program,
    program: &'a Program,
    prefix: &'a str,
    /// New names of the named types that could not keep theirs.
    types: HashMap<String, String>,
    known: &'a Known,
    places: Places,
}

/// Returns the position of an item, which is appended if it is missing.
fn place<T: PartialEq>(items: &mut Vec<T>, item: T) -> usize {
    let found = items.iter().position(|known| *known == item);
    found.unwrap_or_else(|| {
        items.push(item);
        items.len() - 1
    })
}

/// Returns the annotations that an item keeps in a chain.
fn kept(annotations: &[Annotation]) -> Vec<Annotation> {
    let kept = annotations.iter().filter(|a| {
        checkpoint();
        a.name != "id"
    });
    kept.cloned().collect()
}

impl Linker<'_> {
    fn prefixed(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    fn files_and_errors(&mut self) {
        for file in &self.program.files {
            checkpoint();
            let at = place(&mut self.out.files, file.clone());
            self.places.files.push(at as u32);
        }
        for error in &self.program.errors {
            checkpoint();
            let at = place(&mut self.out.errors, error.clone());
            self.places.errors.push(at as u32);
        }
    }

    /// Decides which named types keep their names: those with a name that is free or denotes an
    /// equal type. A type that mentions a renamed type is renamed too.
    fn name_types(&mut self) {
        loop {
            let before = self.types.len();
            for ty in &self.program.named_types {
                checkpoint();
                let renamed = self.named_type(ty);
                let other = |known: &&NamedType| known.name == ty.name;
                let is_other = |known: &NamedType| known.kind != renamed.kind;
                if self
                    .out
                    .named_types
                    .iter()
                    .find(other)
                    .is_some_and(is_other)
                {
                    let name = self.prefixed(&ty.name);
                    self.types.insert(ty.name.clone(), name);
                }
            }
            if self.types.len() == before {
                return;
            }
        }
    }

    fn type_name(&self, name: &str) -> String {
        let renamed = self.types.get(name).cloned();
        renamed.unwrap_or_else(|| name.to_owned())
    }

    fn named_type(&self, ty: &NamedType) -> NamedType {
        let fields = |fields: &[(String, DataTy)]| {
            let fields = fields.iter();
            fields
                .map(|(name, ty)| (name.clone(), self.data_ty(ty)))
                .collect()
        };
        let kind = match &ty.kind {
            NamedTypeKind::Struct(all) => NamedTypeKind::Struct(fields(all)),
            NamedTypeKind::Header(all) => NamedTypeKind::Header(fields(all)),
            NamedTypeKind::HeaderUnion(members) => {
                let members = members.iter();
                let members = members.map(|(name, ty)| (name.clone(), self.type_name(ty)));
                NamedTypeKind::HeaderUnion(members.collect())
            }
            NamedTypeKind::NewType {
                underlying,
                translation,
            } => NamedTypeKind::NewType {
                underlying: self.data_ty(underlying),
                translation: translation.clone(),
            },
            other @ (NamedTypeKind::Enum(_) | NamedTypeKind::SerializableEnum { .. }) => {
                other.clone()
            }
        };
        NamedType {
            name: self.type_name(&ty.name),
            kind,
            annotations: kept(&ty.annotations),
        }
    }

    fn data_ty(&self, ty: &DataTy) -> DataTy {
        checkpoint();
        match ty {
            DataTy::Named(name) => DataTy::Named(self.type_name(name)),
            DataTy::Stack(name, len) => DataTy::Stack(self.type_name(name), *len),
            DataTy::Tuple(items) => {
                DataTy::Tuple(items.iter().map(|ty| self.data_ty(ty)).collect())
            }
            plain => plain.clone(),
        }
    }

    fn types(&mut self) -> Result<(), LinkError> {
        for ty in &self.program.named_types {
            checkpoint();
            let ty = self.named_type(ty);
            place(&mut self.out.named_types, ty);
        }
        for ty in self.program.enums.values() {
            checkpoint();
            let id = self.enum_ty(ty);
            self.places.enums.push(id);
        }
        for ty in self.program.header_types.values() {
            checkpoint();
            let id = self.header_type(ty)?;
            self.places.header_types.push(id);
        }
        Ok(())
    }

    fn enum_ty(&mut self, ty: &EnumTy) -> ir::EnumId {
        let enums = &mut self.out.enums;
        if let Some((id, _)) = enums.iter().find(|(_, known)| *known == ty) {
            return id;
        }
        let is_taken = enums.values().any(|known| known.name == ty.name);
        let name = match is_taken {
            true => self.prefixed(&ty.name),
            false => ty.name.clone(),
        };
        let members = ty.members.clone();
        self.out.enums.push(EnumTy { name, members })
    }

    fn header_type(&mut self, ty: &HeaderType) -> Result<ir::HeaderTypeId, LinkError> {
        let mut linked = HeaderType {
            name: ty.name.clone(),
            fields: ty.fields.clone(),
            annotations: kept(&ty.annotations),
        };
        for field in &mut linked.fields {
            field.ty = self.places.scalar_ty(field.ty);
            field.data_ty = self.data_ty(&field.data_ty);
        }
        let types = &self.out.header_types;
        if let Some((id, _)) = types.iter().find(|(_, known)| **known == linked) {
            return Ok(id);
        }
        let controller = |ty: &HeaderType| {
            let mut annotations = ty.annotations.iter();
            annotations.find(|a| a.name == "controller_header").cloned()
        };
        if let Some(header) = controller(&linked)
            && types
                .values()
                .any(|ty| controller(ty).as_ref() == Some(&header))
        {
            let header = linked.name;
            return Err(LinkError::ControllerHeader { header });
        }
        if types.values().any(|known| known.name == linked.name) {
            linked.name = self.prefixed(&linked.name);
        }
        Ok(self.out.header_types.push(linked))
    }

    /// Returns true if an item is linked, by the set of used items.
    fn is_wanted<I: Eq + Hash>(&self, id: &I, used: impl Fn(&Uses) -> &HashSet<I>) -> bool {
        let only = self.known.only.as_ref();
        only.is_none_or(|only| used(only).contains(id))
    }

    fn storage(&mut self) -> Result<(), LinkError> {
        let shared = self.standard_metadata()?;
        let known = self.known;
        let is_part = known.only.is_some();
        for (id, field) in self.program.fields.iter() {
            checkpoint();
            let there = known.fields.get(&id).or_else(|| shared.get(&id));
            let place = match there {
                Some(place) => *place,
                None if !self.is_wanted(&id, |uses| &uses.writes) => nowhere(),
                None => {
                    let name = self.prefixed(&field.name);
                    let ty = self.places.scalar_ty(field.ty);
                    self.out.fields.push(Field { name, ty })
                }
            };
            self.places.fields.push(place);
        }
        for (id, header) in self.program.headers.iter() {
            checkpoint();
            let place = match known.headers.get(&id) {
                Some(place) => *place,
                None if is_part => nowhere(),
                None => {
                    let linked = Header {
                        name: self.prefixed(&header.name),
                        ty: self.places.header_types[header.ty],
                        valid: self.places.fields[header.valid],
                    };
                    self.out.headers.push(linked)
                }
            };
            self.places.headers.push(place);
        }
        for stack in self.program.stacks.values() {
            checkpoint();
            if is_part {
                let there = self.known_stack(stack);
                self.places.stacks.push(there.unwrap_or_else(nowhere));
                continue;
            }
            let linked = Stack {
                name: self.prefixed(&stack.name),
                first: self.places.headers[stack.first],
                len: stack.len,
                next_index: self.places.fields[stack.next_index],
            };
            self.places.stacks.push(self.out.stacks.push(linked));
        }
        Ok(())
    }

    /// Returns the existing stack that contains a stack's known headers.
    fn known_stack(&self, stack: &Stack) -> Option<ir::StackId> {
        let first = self.known.headers.get(&stack.first)?;
        let mut stacks = self.out.stacks.iter();
        let is_it = |(_, there): &(_, &Stack)| (there.first, there.len) == (*first, stack.len);
        stacks.find(is_it).map(|(id, _)| id)
    }

    /// Maps the fields of standard metadata. They are created by the first program that has them.
    fn standard_metadata(&mut self) -> Result<HashMap<FieldId, FieldId>, LinkError> {
        let mut shared = HashMap::new();
        for (key, id) in &self.program.pipeline.intrinsics {
            checkpoint();
            let ty = self.places.scalar_ty(self.program.fields[*id].ty);
            let there = self.out.pipeline.intrinsics.get(key).copied();
            let place = match there {
                Some(place) if self.out.fields[place].ty == ty => place,
                Some(place) => {
                    return Err(LinkError::StandardMetadata {
                        field: key.clone(),
                        found: ty,
                        expected: self.out.fields[place].ty,
                    });
                }
                None => {
                    let name = match key.starts_with(STANDARD_METADATA) {
                        true => key.clone(),
                        false => self.prefixed(&self.program.fields[*id].name),
                    };
                    let place = self.out.fields.push(Field { name, ty });
                    self.out.pipeline.intrinsics.insert(key.clone(), place);
                    place
                }
            };
            shared.insert(*id, place);
        }
        Ok(shared)
    }

    /// Links value sets and externs, to which other items refer.
    fn objects(&mut self) {
        for set in self.program.value_sets.values() {
            checkpoint();
            if self.known.only.is_some() {
                self.places.value_sets.push(nowhere());
                continue;
            }
            let mut linked = set.clone();
            linked.name = self.prefixed(&set.name);
            linked.data_ty = self.data_ty(&set.data_ty);
            linked.annotations = kept(&set.annotations);
            for field in &mut linked.fields {
                field.ty = self.places.scalar_ty(field.ty);
            }
            self.places
                .value_sets
                .push(self.out.value_sets.push(linked));
        }
        for (id, instance) in self.program.externs.iter() {
            checkpoint();
            if !self.is_wanted(&id, |uses| &uses.externs) {
                self.places.externs.push(nowhere());
                continue;
            }
            let linked = Extern {
                name: self.prefixed(&instance.name),
                kind: self.extern_kind(&instance.kind),
                annotations: kept(&instance.annotations),
                loc: self.places.loc(instance.loc),
            };
            self.places.externs.push(self.out.externs.push(linked));
        }
    }

    fn extern_kind(&self, kind: &ExternKind) -> ExternKind {
        let mut kind = kind.clone();
        match &mut kind {
            ExternKind::Counter { index_ty, .. } | ExternKind::Meter { index_ty, .. } => {
                *index_ty = index_ty.as_ref().map(|ty| self.data_ty(ty));
            }
            ExternKind::Register {
                cell,
                data_ty,
                index_ty,
                ..
            } => {
                self.places.scalar_tys(cell);
                *data_ty = self.data_ty(data_ty);
                *index_ty = index_ty.as_ref().map(|ty| self.data_ty(ty));
            }
            ExternKind::Digest { fields, data_ty } => {
                self.places.scalar_tys(fields);
                *data_ty = self.data_ty(data_ty);
            }
            _ => {}
        }
        kind
    }

    /// Links actions and tables. Actions call each other in any order, so they get their ids first.
    fn code(&mut self) {
        let mut next = self.out.actions.next_id().get();
        for id in self.program.actions.ids() {
            checkpoint();
            if !self.is_wanted(&id, |uses| &uses.actions) {
                self.places.actions.push(nowhere());
                continue;
            }
            self.places.actions.push(ir::ActionId::new(next));
            next += 1;
        }
        self.places.lists = self.new_lists();
        for (id, action) in self.program.actions.iter() {
            checkpoint();
            if !self.is_wanted(&id, |uses| &uses.actions) {
                continue;
            }
            let mut linked = action.clone();
            linked.name = self.prefixed(&action.name);
            linked.control_plane_name = self.prefixed(&action.control_plane_name);
            linked.annotations = kept(&action.annotations);
            linked.loc = self.places.loc(action.loc);
            for param in &mut linked.params {
                checkpoint();
                param.ty = self.places.scalar_ty(param.ty);
                param.data_ty = self.data_ty(&param.data_ty);
            }
            self.places.body(&mut linked.body);
            self.out.actions.push(linked);
        }
        for (id, table) in self.program.tables.iter() {
            checkpoint();
            if !self.is_wanted(&id, |uses| &uses.tables) {
                self.places.tables.push(nowhere());
                continue;
            }
            let linked = self.table(table);
            self.places.tables.push(self.out.tables.push(linked));
        }
    }

    fn table(&self, table: &Table) -> Table {
        let mut linked = table.clone();
        let places = &self.places;
        linked.name = self.prefixed(&table.name);
        linked.annotations = kept(&table.annotations);
        linked.loc = places.loc(table.loc);
        for key in &mut linked.keys {
            places.expr(&mut key.expr);
            key.data_ty = self.data_ty(&key.data_ty);
        }
        self.values(&mut linked, table);
        for listed in &mut linked.actions {
            checkpoint();
            listed.action = places.actions[listed.action];
        }
        let externs = [
            &mut linked.implementation,
            &mut linked.direct_counter,
            &mut linked.direct_meter,
        ];
        for instance in externs {
            *instance = instance.map(|id| places.externs[id]);
        }
        linked
    }

    /// Translates values of a table's default action and entries that are numbers of this program.
    fn values(&self, linked: &mut Table, table: &Table) {
        let args = |call: &mut ActionCall| {
            let listed = table.actions.get(call.action);
            let params = listed.map(|listed| &self.program.actions[listed.action].params);
            for (param, value) in params.into_iter().flatten().zip(&mut call.args) {
                self.places.value(param.ty, value);
            }
        };
        args(&mut linked.default);
        let keys = table.keys.iter();
        let keys = keys.filter(|key| key.match_kind != MatchKind::Selector);
        let tys: Vec<_> = keys.map(|key| key.expr.ty(self.program, None)).collect();
        for entry in &mut linked.entries {
            checkpoint();
            args(&mut entry.action);
            for (key, ty) in entry.keys.iter_mut().zip(&tys) {
                if let (KeyMatch::Exact(value), Some(ty)) = (key, ty) {
                    self.places.value(*ty, value);
                }
            }
        }
    }

    /// Returns the new numbers of the program's field lists. Each keeps its number if that is free.
    fn new_lists(&self) -> HashMap<u64, u64> {
        let taken = &self.out.pipeline.field_lists;
        let own = &self.program.pipeline.field_lists;
        let mut free =
            (0..).filter(|number| !taken.contains_key(number) && !own.contains_key(number));
        let mut places = HashMap::new();
        for number in own.keys() {
            checkpoint();
            let place = match taken.contains_key(number) {
                true => free.next().unwrap_or(*number),
                false => *number,
            };
            places.insert(u64::from(*number), u64::from(place));
        }
        places
    }

    fn lists(&mut self) {
        if self.known.only.is_some() {
            return;
        }
        let pipeline = &self.program.pipeline;
        for (number, fields) in &pipeline.field_lists {
            checkpoint();
            let place = self.places.lists.get(&u64::from(*number));
            let place = place.map_or(*number, |place| *place as u32);
            let fields = fields.iter().map(|field| self.places.fields[*field]);
            let fields = fields.collect();
            self.out.pipeline.field_lists.insert(place, fields);
        }
        for transfer in &pipeline.transfers {
            checkpoint();
            let mut linked = transfer.clone();
            for field in linked.from.iter_mut().chain(&mut linked.to) {
                *field = self.places.fields[*field];
            }
            self.out.pipeline.transfers.push(linked);
        }
    }
}
