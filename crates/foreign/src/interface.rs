//! [`Interface`]: names, types and limbs of all that C code and a program exchange.

use std::collections::{HashMap, HashSet};

use ir::{
    ActionScope, ExternKind, HandlerField, HandlerFieldTy, HandlerRecord, MatchKind, Program,
    ScalarTy, limbs_of,
};

use crate::names::Scope;

/// Interface between C code and a program. Two programs with equal interfaces can use the same
/// compiled code.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Interface {
    pub(crate) enums: Vec<Enumeration>,
    pub(crate) constants: Vec<ConstantValue>,
    /// Structs, each after those that it contains.
    pub(crate) records: Vec<Record>,
    pub(crate) tables: Vec<MirroredTable>,
    pub(crate) handlers: Vec<Handler>,
}

/// Enum without representation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Enumeration {
    pub(crate) name: String,
    pub(crate) members: Vec<String>,
}

/// Constant of the program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConstantValue {
    pub(crate) name: String,
    pub(crate) ty: Scalar,
    pub(crate) limbs: Vec<u64>,
}

/// Struct of a request or a response.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) fields: Vec<Field>,
}

/// Field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) ty: FieldType,
    /// Option that the field holds: `payload_index` or `payload_length`.
    pub(crate) option: Option<PayloadOption>,
}

/// Option about the payload, in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadOption {
    /// `@payload_index`.
    Index,
    /// `@payload_length`.
    Length,
}

/// Type of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FieldType {
    Scalar(Scalar),
    /// Index into [`Interface::records`].
    Record(usize),
}

/// Scalar type in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Bool,
    /// `bit<N>` of at most 64 bits.
    Unsigned(u32),
    /// `int<N>` of at most 64 bits.
    Signed(u32),
    /// More than 64 bits: bytes in network order.
    Bytes(u32),
    Float,
    Double,
    /// Index into [`Interface::enums`].
    Enum(usize),
}

/// Mirrored table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MirroredTable {
    pub(crate) name: String,
    /// Number of the table in the program.
    pub(crate) id: u32,
    pub(crate) key: Vec<(String, Scalar)>,
    pub(crate) actions: Vec<EntryActionType>,
    /// True if packets may add entries: all keys are exact.
    pub(crate) is_written: bool,
    /// Number of limbs of the longest parameter list of the table's actions.
    pub(crate) param_limbs: usize,
}

/// Action that entries of a mirrored table may have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EntryActionType {
    /// Name of its member in the union.
    pub(crate) name: String,
    /// Name of its constant.
    pub(crate) constant: String,
    /// Position in the table's list of actions.
    pub(crate) position: u32,
    pub(crate) params: Vec<(String, Scalar)>,
}

/// Handler.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Handler {
    /// Its name in the program.
    pub(crate) name: String,
    /// Its function in C.
    pub(crate) function: String,
    /// Index into [`Interface::records`].
    pub(crate) request: usize,
    pub(crate) response: usize,
}

impl Scalar {
    fn of(ty: ScalarTy) -> Scalar {
        match ty {
            ScalarTy::Bool => Scalar::Bool,
            ScalarTy::Int(width @ 1..=64) => Scalar::Signed(width),
            ScalarTy::Bit(width @ 0..=64) => Scalar::Unsigned(width),
            ScalarTy::Enum(id) => Scalar::Enum(id.get() as usize),
            ScalarTy::Error => Scalar::Unsigned(32),
            ScalarTy::Bit(width) | ScalarTy::Int(width) | ScalarTy::Varbit(width) => {
                Scalar::Bytes(width)
            }
        }
    }

    /// Returns the number of limbs of a value.
    pub(crate) fn limbs(self) -> usize {
        match self {
            Scalar::Bytes(width) => width.div_ceil(64) as usize,
            _ => 1,
        }
    }

    /// Returns the declaration of a variable of this type.
    pub(crate) fn declare(self, name: &str, enums: &[Enumeration]) -> String {
        let size = |width: u32| width.next_power_of_two().clamp(8, 64);
        match self {
            Scalar::Bool => format!("bool {name}"),
            Scalar::Unsigned(width) => format!("uint{}_t {name}", size(width)),
            Scalar::Signed(width) => format!("int{}_t {name}", size(width)),
            Scalar::Bytes(width) => format!("uint8_t {name}[{}]", width.div_ceil(8)),
            Scalar::Float => format!("float {name}"),
            Scalar::Double => format!("double {name}"),
            Scalar::Enum(id) => match enums.get(id) {
                Some(declared) => format!("enum {} {name}", declared.name),
                None => format!("uint32_t {name}"),
            },
        }
    }
}

/// Identifiers and records during the construction.
struct Builder<'p> {
    program: &'p Program,
    /// Functions, variables, macros and members of enums.
    ordinary: Scope,
    /// Tags of structs and enums.
    tags: Scope,
    records: Vec<Record>,
    known: HashMap<String, Vec<(&'p HandlerRecord, usize)>>,
}

impl Interface {
    /// Returns the interface of a verified program.
    pub(crate) fn of(program: &Program) -> Interface {
        let mut builder = Builder {
            program,
            ordinary: Scope::default(),
            tags: Scope::default(),
            records: Vec::new(),
            known: HashMap::new(),
        };
        let handlers = builder.handlers();
        let tables = builder.tables();
        let enums = builder.enums();
        let members = members(&builder.records, &tables);
        let constants = program.constants.iter().map(|constant| {
            let mut name = builder.ordinary.add(&constant.name);
            // Large constants are macros, which must not replace members of structs.
            while members.contains(name.as_str()) {
                name = builder.ordinary.add(&format!("{name}_"));
            }
            ConstantValue {
                name,
                ty: Scalar::of(constant.ty),
                limbs: constant.value.limbs().to_vec(),
            }
        });
        let constants = constants.collect();
        Interface {
            enums,
            constants,
            records: builder.records,
            tables,
            handlers,
        }
    }
}

impl<'p> Builder<'p> {
    fn handlers(&mut self) -> Vec<Handler> {
        let externs = self.program.externs.values();
        let declared: Vec<_> = externs
            .filter_map(|instance| match &instance.kind {
                ExternKind::Handler { request, response } => Some((instance, request, response)),
                _ => None,
            })
            .collect();
        let names: Vec<&str> = declared.iter().map(|(one, ..)| one.name.as_str()).collect();
        let functions = self.ordinary.add_last_parts(&names);
        let handlers = declared.into_iter().zip(functions);
        handlers
            .map(|((instance, request, response), function)| Handler {
                name: instance.name.clone(),
                function,
                request: self.record(request),
                response: self.record(response),
            })
            .collect()
    }

    /// Returns the index of a struct. Equal structs of one name are one.
    fn record(&mut self, record: &'p HandlerRecord) -> usize {
        let known = self.known.get(&record.name);
        let known = known.and_then(|known| known.iter().find(|(other, _)| *other == record));
        if let Some(&(_, index)) = known {
            return index;
        }
        let mut scope = Scope::default();
        let fields = record.fields.iter();
        let fields = fields.map(|field| self.field(field, &mut scope)).collect();
        let index = self.records.len();
        let name = self.tags.add(&record.name);
        self.records.push(Record { name, fields });
        let known = self.known.entry(record.name.clone()).or_default();
        known.push((record, index));
        index
    }

    fn field(&mut self, field: &'p HandlerField, scope: &mut Scope) -> Field {
        let ty = match &field.ty {
            HandlerFieldTy::Scalar(ty) => FieldType::Scalar(Scalar::of(*ty)),
            HandlerFieldTy::Float(ty) => FieldType::Scalar(match ty.width() {
                64 => Scalar::Double,
                _ => Scalar::Float,
            }),
            HandlerFieldTy::Record(record) => FieldType::Record(self.record(record)),
        };
        let has = |name: &str| field.annotations.iter().any(|one| one.name == name);
        let option = match (has("payload_index"), has("payload_length")) {
            (true, _) => Some(PayloadOption::Index),
            (_, true) => Some(PayloadOption::Length),
            _ => None,
        };
        Field {
            name: scope.add(&field.name),
            ty,
            option,
        }
    }

    fn enums(&mut self) -> Vec<Enumeration> {
        let program = self.program;
        let enums = program.enums.values();
        enums
            .map(|declared| {
                let name = self.tags.add(&declared.name);
                let members = declared.members.iter();
                let members = members
                    .map(|member| self.ordinary.add(&format!("{}_{member}", declared.name)))
                    .collect();
                Enumeration { name, members }
            })
            .collect()
    }

    fn tables(&mut self) -> Vec<MirroredTable> {
        let program = self.program;
        let tables = program.tables.iter();
        let tables: Vec<_> = tables.filter(|(_, table)| table.mirror.is_some()).collect();
        let names: Vec<&str> = tables
            .iter()
            .map(|(_, table)| table.name.as_str())
            .collect();
        let mut scope = Scope::default();
        let names = scope.add_last_parts(&names);
        let named = tables.into_iter().zip(names);
        named
            .map(|((id, table), name)| self.table(id.get(), table, name))
            .collect()
    }

    /// Returns the name for which the functions and structs of a table are free.
    fn table_name(&mut self, mut name: String) -> String {
        let functions = ["find", "insert", "modify", "delete"];
        loop {
            let is_free = functions
                .iter()
                .all(|function| self.ordinary.is_free(&format!("{name}_{function}")))
                && ["key", "entry"]
                    .iter()
                    .all(|tag| self.tags.is_free(&format!("{name}_{tag}")));
            if is_free {
                break;
            }
            name.push('_');
        }
        for function in functions {
            self.ordinary.add(&format!("{name}_{function}"));
        }
        for tag in ["key", "entry"] {
            self.tags.add(&format!("{name}_{tag}"));
        }
        name
    }

    fn table(&mut self, id: u32, table: &ir::Table, name: String) -> MirroredTable {
        let program = self.program;
        let name = self.table_name(name);
        let keys = table.keys.iter();
        let keys: Vec<_> = keys
            .filter(|key| key.match_kind != MatchKind::Selector)
            .collect();
        let key_names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
        let key_names = Scope::default().add_last_parts(&key_names);
        let ty = |key: &ir::Key| key.expr.ty(program, None).unwrap_or(ScalarTy::Bit(0));
        let key = key_names
            .into_iter()
            .zip(keys.iter().map(|key| Scalar::of(ty(key))));
        let listed: Vec<_> = table
            .actions
            .iter()
            .zip(0..)
            .filter(|(listed, _)| listed.scope != ActionScope::DefaultOnly)
            .filter_map(|(listed, at)| Some((program.actions.get(listed.action)?, at)))
            .filter(|(action, _)| !action.params.iter().any(|param| is_varbit(param.ty)))
            .collect();
        let names: Vec<&str> = listed
            .iter()
            .map(|(action, _)| action.control_plane_name.as_str())
            .collect();
        let members = Scope::default().add_last_parts(&names);
        let actions = listed
            .iter()
            .zip(members)
            .map(|((action, position), member)| {
                let mut scope = Scope::default();
                let params = action.params.iter();
                let params = params
                    .map(|param| (scope.add(&param.name), Scalar::of(param.ty)))
                    .collect();
                let constant = format!("{name}_{}", member.trim_end_matches('_')).to_uppercase();
                EntryActionType {
                    constant: self.ordinary.add(&constant),
                    name: member,
                    position: *position,
                    params,
                }
            });
        let actions = actions.collect();
        let limbs = |action: &ir::Action| -> usize {
            let params = action.params.iter();
            params.map(|param| limbs_of(param.ty) as usize).sum()
        };
        let all = table.actions.iter();
        let all = all.filter_map(|listed| program.actions.get(listed.action));
        MirroredTable {
            id,
            key: key.collect(),
            actions,
            is_written: table.is_written_by_packets(),
            param_limbs: all.map(limbs).max().unwrap_or(0),
            name,
        }
    }
}

/// Returns the names of all members of structs and unions.
fn members<'i>(records: &'i [Record], tables: &'i [MirroredTable]) -> HashSet<&'i str> {
    let fields = records.iter().flat_map(|record| &record.fields);
    let fields = fields.map(|field| field.name.as_str());
    let keys = tables.iter().flat_map(|table| &table.key);
    let actions = || tables.iter().flat_map(|table| &table.actions);
    let params = actions().flat_map(|action| &action.params);
    let named = keys.chain(params).map(|(name, _)| name.as_str());
    let unions = actions().map(|action| action.name.as_str());
    let own = ["action", "u", "unused_"];
    fields.chain(named).chain(unions).chain(own).collect()
}

fn is_varbit(ty: ScalarTy) -> bool {
    matches!(ty, ScalarTy::Varbit(_))
}

impl MirroredTable {
    /// Returns the number of limbs of a key.
    pub(crate) fn key_limbs(&self) -> usize {
        self.matched().map(|(_, ty)| ty.limbs()).sum()
    }

    /// Returns the fields of the key that take limbs. Those of no bits do not.
    pub(crate) fn matched(&self) -> impl Iterator<Item = &(String, Scalar)> {
        let has_bits = |(_, ty): &&(String, Scalar)| *ty != Scalar::Unsigned(0);
        self.key.iter().filter(has_bits)
    }
}
