//! A P4Info, with a mapping between P4Runtime's ids and those of the schema built from it.

use std::collections::HashMap;
use std::fmt;

use bits::IdVec;
use entries::{
    Action, Extern, Format, Key, Object, Param, Restriction, Schema, SerializableEnum, Table,
    ValueSet, ValueTy,
};
use ir::{
    ActionCall, ActionId, AnnotationBody, AnnotationValue, Arch, CounterUnit, EnumTy, ExternId,
    MatchKind, ScalarTy, TableId, ValueSetId,
};
use p4info::P4Info;
use p4info::p4::config::v1::match_field::{Match, MatchType};
use p4info::p4::config::v1::{self as info, P4NamedType, Preamble, p4_new_type_spec};

use crate::number;

/// A controller's knowledge of a program.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// The P4Info, as the server sent it.
    pub info: P4Info,
    /// The schema, to which texts refer.
    pub schema: Schema,
    /// True if replicas' ports are written as numbers, as servers before P4Runtime 1.4 require.
    pub ports_are_numbers: bool,
    pub(crate) tables: Numbers<TableId>,
    pub(crate) actions: Numbers<ActionId>,
    pub(crate) externs: Numbers<ExternId>,
    pub(crate) value_sets: Numbers<ValueSetId>,
    /// P4Runtime ids of each table's match fields.
    pub(crate) fields: IdVec<TableId, Vec<u32>>,
    /// P4Runtime ids of each action's parameters.
    pub(crate) params: IdVec<ActionId, Vec<u32>>,
    /// P4Runtime ids of each value set's fields.
    pub(crate) set_fields: IdVec<ValueSetId, Vec<u32>>,
}

/// Mapping between P4Runtime ids and schema ids, in both directions.
#[derive(Clone, Debug)]
pub(crate) struct Numbers<I> {
    ids: Vec<u32>,
    own: HashMap<u32, I>,
}

impl<I: bits::Id + Copy> Numbers<I> {
    fn new() -> Numbers<I> {
        Numbers {
            ids: Vec::new(),
            own: HashMap::new(),
        }
    }

    fn push(&mut self, id: u32, own: I) {
        self.ids.push(id);
        self.own.insert(id, own);
    }

    pub(crate) fn id(&self, own: I) -> u32 {
        self.ids.get(own.index()).copied().unwrap_or_default()
    }

    pub(crate) fn own(&self, id: u32) -> Option<I> {
        self.own.get(&id).copied()
    }
}

/// Error in a P4Info.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogError(String);

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server's P4Info is wrong: {}", self.0)
    }
}

impl std::error::Error for CatalogError {}

fn named<'a>(what: &str, preamble: Option<&'a Preamble>) -> Result<&'a Preamble, CatalogError> {
    preamble.ok_or_else(|| CatalogError(format!("a {what} has no preamble")))
}

/// Returns the text of `@format(..)`.
fn format_of(annotations: &[String]) -> Option<&str> {
    let find = |text: &'_ String| -> bool { text.starts_with("@format(") };
    let text = annotations.iter().find(|text| find(text))?;
    text.strip_prefix("@format(")?.strip_suffix(')')
}

/// Returns the text of the constraint in the annotation with this name.
fn restriction_text(preamble: &Preamble, name: &str) -> Option<String> {
    let open = format!("@{name}(");
    let mut written = preamble.annotations.iter();
    let body = written.find_map(|text| text.strip_prefix(&open)?.strip_suffix(')'));
    if let Some(body) = body {
        return AnnotationBody::Text(body.to_owned()).strings();
    }
    let mut structured = preamble.structured_annotations.iter();
    let annotation = structured.find(|one| one.name == name)?;
    let Some(info::structured_annotation::Body::ExpressionList(list)) = &annotation.body else {
        return None;
    };
    let value = |one: &info::Expression| {
        Some(match one.value.as_ref()? {
            info::expression::Value::StringValue(text) => AnnotationValue::String(text.clone()),
            info::expression::Value::Int64Value(number) => AnnotationValue::Int(number.to_string()),
            info::expression::Value::BoolValue(value) => AnnotationValue::Bool(*value),
        })
    };
    let values: Option<Vec<AnnotationValue>> = list.expressions.iter().map(value).collect();
    AnnotationBody::Expressions(values?).strings()
}

impl Catalog {
    /// Builds the catalog of a P4Info.
    ///
    /// # Errors
    /// The P4Info refers to objects that it does not contain.
    pub fn new(info: P4Info) -> Result<Catalog, CatalogError> {
        let mut catalog = Catalog {
            schema: Schema {
                arch: arch(&info),
                ..Schema::default()
            },
            info: P4Info::default(),
            ports_are_numbers: false,
            tables: Numbers::new(),
            actions: Numbers::new(),
            externs: Numbers::new(),
            value_sets: Numbers::new(),
            fields: IdVec::default(),
            params: IdVec::default(),
            set_fields: IdVec::default(),
        };
        catalog.add_types(&info);
        catalog.add_actions(&info)?;
        catalog.add_externs(&info)?;
        catalog.add_tables(&info)?;
        catalog.add_value_sets(&info)?;
        catalog.info = info;
        Ok(catalog)
    }

    fn add_types(&mut self, info: &P4Info) {
        let Some(types) = &info.type_info else { return };
        self.schema.errors = types
            .error
            .iter()
            .flat_map(|error| error.members.clone())
            .collect();
        for (name, spec) in &types.enums {
            let members = spec.members.iter().map(|member| member.name.clone());
            self.schema.enums.push(EnumTy {
                name: name.clone(),
                members: members.collect(),
            });
        }
        for (name, spec) in &types.serializable_enums {
            let width = spec
                .underlying_type
                .as_ref()
                .map_or(0, |ty| bits(ty.bitwidth));
            let ty = ValueTy::Scalar(ScalarTy::Bit(width));
            let members = spec.members.iter();
            let members = members.map(|one| (one.name.clone(), number::read(ty, &one.value)));
            self.schema.serializable.push(SerializableEnum {
                name: name.clone(),
                width,
                members: members.collect(),
            });
        }
    }

    fn add_actions(&mut self, info: &P4Info) -> Result<(), CatalogError> {
        for action in &info.actions {
            let preamble = named("action", action.preamble.as_ref())?;
            let params = action.params.iter().map(|param| {
                let ty = value_ty(info, param.bitwidth, param.type_name.as_ref());
                Param {
                    name: param.name.clone(),
                    ty,
                    format: Format::of(format_of(&param.annotations), &param.name, ty.width()),
                }
            });
            let params: Vec<Param> = params.collect();
            let text = restriction_text(preamble, "action_restriction");
            let own = self.schema.actions.push(Action {
                name: preamble.name.clone(),
                restriction: text.and_then(|text| Restriction::of_arguments(&text, &params)),
                params,
            });
            self.actions.push(preamble.id, own);
            self.params
                .push(action.params.iter().map(|param| param.id).collect());
        }
        Ok(())
    }

    fn add_extern(&mut self, preamble: &Preamble, kind: Object) {
        let own = self.schema.externs.push(Extern {
            name: preamble.name.clone(),
            kind,
        });
        self.externs.push(preamble.id, own);
    }

    fn add_externs(&mut self, info: &P4Info) -> Result<(), CatalogError> {
        for profile in &info.action_profiles {
            let preamble = named("action profile", profile.preamble.as_ref())?;
            self.add_extern(preamble, Object::Profile);
        }
        for counter in &info.counters {
            let preamble = named("counter", counter.preamble.as_ref())?;
            let unit = counter.spec.as_ref().map(info::CounterSpec::unit);
            let kind = Object::Counter {
                unit: counter_unit(unit),
                size: cells(counter.size),
            };
            self.add_extern(preamble, kind);
        }
        for meter in &info.meters {
            let preamble = named("meter", meter.preamble.as_ref())?;
            self.add_extern(
                preamble,
                Object::Meter {
                    size: cells(meter.size),
                },
            );
        }
        for register in &info.registers {
            let preamble = named("register", register.preamble.as_ref())?;
            let cell = register
                .type_spec
                .as_ref()
                .and_then(|spec| self.scalars(info, spec));
            let kind = match cell {
                Some(cell) => Object::Register {
                    cell: cell.into(),
                    size: cells(register.size.into()),
                },
                None => Object::Other,
            };
            self.add_extern(preamble, kind);
        }
        for digest in &info.digests {
            let preamble = named("digest", digest.preamble.as_ref())?;
            let fields = digest
                .type_spec
                .as_ref()
                .and_then(|spec| self.scalars(info, spec));
            let fields = fields.unwrap_or_default().into();
            self.add_extern(preamble, Object::Digest { fields });
        }
        Ok(())
    }

    fn add_tables(&mut self, info: &P4Info) -> Result<(), CatalogError> {
        for table in &info.tables {
            let preamble = named("table", table.preamble.as_ref())?;
            let mut actions = Vec::new();
            for listed in &table.action_refs {
                let Some(action) = self.actions.own(listed.id) else {
                    let message = format!(
                        "the table `{}` has an action that is not there",
                        preamble.name
                    );
                    return Err(CatalogError(message));
                };
                actions.push(action);
            }
            let implementation = match table.implementation_id {
                0 => None,
                id => self.externs.own(id),
            };
            let const_default = self.const_default(table, &actions);
            let fields = table.match_fields.iter();
            let keys: Vec<Key> = fields.map(|field| key(info, field)).collect();
            let text = restriction_text(preamble, "entry_restriction");
            let own = self.schema.tables.push(Table {
                name: preamble.name.clone(),
                restriction: text.and_then(|text| Restriction::of_entries(&text, &keys)),
                keys,
                actions,
                const_default,
                entries_are_const: table.is_const_table,
                implementation,
            });
            self.tables.push(preamble.id, own);
            self.fields
                .push(table.match_fields.iter().map(|field| field.id).collect());
        }
        Ok(())
    }

    /// Returns the initial default action of a table, if the P4Info has it (P4Runtime 1.4 and
    /// later).
    pub fn initial_default(&self, table: TableId) -> Option<ActionCall> {
        let id = self.table_id(table);
        let mut tables = self.info.tables.iter();
        let own = tables.find(|one| one.preamble.as_ref().is_some_and(|own| own.id == id))?;
        self.first_default(own, &self.schema.tables[table].actions)
    }

    /// Returns the const default action.
    fn const_default(&self, table: &info::Table, actions: &[ActionId]) -> Option<ActionCall> {
        match table.const_default_action_id {
            0 => None,
            _ => self.first_default(table, actions),
        }
    }

    fn first_default(&self, table: &info::Table, actions: &[ActionId]) -> Option<ActionCall> {
        let initial = table.initial_default_action.as_ref()?;
        let action = self.actions.own(initial.action_id)?;
        let params = self.params[action]
            .iter()
            .zip(&self.schema.actions[action].params);
        let args = params.map(|(id, param)| {
            let given = initial
                .arguments
                .iter()
                .find(|given| given.param_id == *id)?;
            Some(number::read(param.ty, &given.value))
        });
        Some(ActionCall {
            action: actions.iter().position(|listed| *listed == action)?,
            args: args.collect::<Option<_>>()?,
        })
    }

    fn add_value_sets(&mut self, info: &P4Info) -> Result<(), CatalogError> {
        for set in &info.value_sets {
            let preamble = named("value set", set.preamble.as_ref())?;
            let own = self.schema.value_sets.push(ValueSet {
                name: preamble.name.clone(),
                fields: set.r#match.iter().map(|field| key(info, field)).collect(),
                size: cells(set.size.into()),
            });
            self.value_sets.push(preamble.id, own);
            self.set_fields
                .push(set.r#match.iter().map(|field| field.id).collect());
        }
        Ok(())
    }

    /// Returns the type of a register's cells.
    pub(crate) fn cell_spec(&self, register: u32) -> Option<&info::P4DataTypeSpec> {
        let mut registers = self.info.registers.iter();
        let own = registers.find(|one| one.preamble.as_ref().is_some_and(|own| own.id == register));
        own?.type_spec.as_ref()
    }

    /// Returns the P4Runtime id of a table.
    pub fn table_id(&self, table: TableId) -> u32 {
        self.tables.id(table)
    }

    /// Returns the P4Runtime id of an extern instance.
    pub fn extern_id(&self, instance: ExternId) -> u32 {
        self.externs.id(instance)
    }

    /// Returns the P4Runtime id of a value set.
    pub fn value_set_id(&self, set: ValueSetId) -> u32 {
        self.value_sets.id(set)
    }

    /// Returns the name of the object with this id.
    pub fn name(&self, id: u32) -> Option<&str> {
        let info = &self.info;
        let all = (info.tables.iter().map(|one| &one.preamble))
            .chain(info.actions.iter().map(|one| &one.preamble))
            .chain(info.action_profiles.iter().map(|one| &one.preamble))
            .chain(info.counters.iter().map(|one| &one.preamble))
            .chain(info.direct_counters.iter().map(|one| &one.preamble))
            .chain(info.meters.iter().map(|one| &one.preamble))
            .chain(info.direct_meters.iter().map(|one| &one.preamble))
            .chain(info.registers.iter().map(|one| &one.preamble))
            .chain(info.digests.iter().map(|one| &one.preamble))
            .chain(info.value_sets.iter().map(|one| &one.preamble));
        let mut named = all.flatten().filter(|preamble| preamble.id == id);
        named.next().map(|preamble| preamble.name.as_str())
    }
}

fn bits(width: i32) -> u32 {
    u32::try_from(width).unwrap_or(0).min(ir::MAX_WIDTH)
}

/// Converts a number of cells or entries, for which P4Info has a wider type.
fn cells(size: i64) -> u32 {
    u32::try_from(size.max(0)).unwrap_or(u32::MAX)
}

fn counter_unit(unit: Option<info::counter_spec::Unit>) -> CounterUnit {
    match unit {
        Some(info::counter_spec::Unit::Packets) => CounterUnit::Packets,
        Some(info::counter_spec::Unit::Bytes) => CounterUnit::Bytes,
        _ => CounterUnit::Both,
    }
}

fn arch(info: &P4Info) -> Option<Arch> {
    match info.pkg_info.as_ref()?.arch.as_str() {
        "v1model" => Some(Arch::V1model),
        "psa" => Some(Arch::Psa),
        "pna" => Some(Arch::Pna),
        _ => None,
    }
}

fn key(info: &P4Info, field: &info::MatchField) -> Key {
    let ty = value_ty(info, field.bitwidth, field.type_name.as_ref());
    let match_kind = match field.r#match {
        Some(Match::MatchType(kind)) => match MatchType::try_from(kind) {
            Ok(MatchType::Lpm) => MatchKind::Lpm,
            Ok(MatchType::Ternary) => MatchKind::Ternary,
            Ok(MatchType::Range) => MatchKind::Range,
            Ok(MatchType::Optional) => MatchKind::Optional,
            _ => MatchKind::Exact,
        },
        _ => MatchKind::Exact,
    };
    Key {
        name: field.name.clone(),
        match_kind,
        ty,
        format: Format::of_key(
            format_of(&field.annotations),
            &field.name,
            ty.width(),
            match_kind,
        ),
    }
}

/// Returns the type of a match field or parameter. It is a number of this width, or text if a
/// `type` is translated to a string or there is no width.
pub(crate) fn value_ty(info: &P4Info, width: i32, name: Option<&P4NamedType>) -> ValueTy {
    let types = info.type_info.as_ref();
    let spec = name.and_then(|name| types?.new_types.get(&name.name));
    let translated = match spec.and_then(|spec| spec.representation.as_ref()) {
        Some(p4_new_type_spec::Representation::TranslatedType(translated)) => {
            translated.sdn_type.as_ref()
        }
        _ => None,
    };
    use info::p4_new_type_translation::SdnType;
    match translated {
        Some(SdnType::SdnString(_)) => ValueTy::Text,
        Some(SdnType::SdnBitwidth(width)) => ValueTy::Scalar(ScalarTy::Bit(bits(*width))),
        None if width <= 0 => ValueTy::Text,
        None => ValueTy::Scalar(ScalarTy::Bit(bits(width))),
    }
}
