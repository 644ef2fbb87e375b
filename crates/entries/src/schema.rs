//! Schema of the control plane: the objects and types to which names and values in a text refer. It
//! is built from a program, or by a controller from P4Info.

use std::sync::Arc;

use bits::IdVec;
use ir::{
    ActionCall, ActionId, Arch, CounterUnit, EnumId, EnumTy, ExternId, ExternKind, MatchKind,
    NamedTypeKind, Program, ScalarTy, TableId, ValueSetId,
};

use crate::error::{EntriesError, EntryError};
use crate::file::{self, EntriesFile};
use crate::resolve::{self, Word};
use crate::restriction::Restriction;
use crate::update::UpdateTarget;
use crate::value;

/// The names, types and limits of a program that a control plane knows.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// The architecture. Without it, numbers of ports and groups are not checked.
    pub arch: Option<Arch>,
    /// Error codes, by number.
    pub errors: Vec<String>,
    /// Enums without an underlying type.
    pub enums: IdVec<EnumId, EnumTy>,
    /// Enums with an underlying type.
    pub serializable: Vec<SerializableEnum>,
    /// Actions.
    pub actions: IdVec<ActionId, Action>,
    /// Tables.
    pub tables: IdVec<TableId, Table>,
    /// Value sets.
    pub value_sets: IdVec<ValueSetId, ValueSet>,
    /// Extern instances.
    pub externs: IdVec<ExternId, Extern>,
}

/// A serializable enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SerializableEnum {
    /// Its name.
    pub name: String,
    /// Width of its values in bits.
    pub width: u32,
    /// Names and values.
    pub members: Vec<(String, bits::Value)>,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueTy {
    /// A scalar of the program.
    Scalar(ScalarTy),
    /// A string that the server translates (`@p4runtime_translation(uri, string)`). Its value has 8
    /// bits per byte.
    Text,
}

impl ValueTy {
    /// Returns the width of a value in bits; 0 for text, of which each value has its own width.
    pub fn width(self) -> u32 {
        match self {
            ValueTy::Scalar(ty) => ty.width(),
            ValueTy::Text => 0,
        }
    }

    /// Returns true if comparisons are signed.
    pub fn is_signed(self) -> bool {
        matches!(self, ValueTy::Scalar(ty) if ty.is_signed())
    }
}

/// Display format of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Decimal. Masked and very large numbers are hexadecimal.
    #[default]
    Plain,
    /// Hexadecimal.
    Hex,
    /// IPv4 address.
    Ipv4,
    /// IPv6 address.
    Ipv6,
    /// MAC address.
    Mac,
}

impl Format {
    /// Returns the format of a key. A 32-bit LPM key is an IPv4 address, whatever its name.
    pub fn of_key(annotation: Option<&str>, name: &str, width: u32, kind: MatchKind) -> Format {
        match Format::of(annotation, name, width) {
            Format::Plain if kind == MatchKind::Lpm && width == 32 => Format::Ipv4,
            format => format,
        }
    }

    /// Returns the format given by `@format`, or else derived from the width and the name.
    pub fn of(annotation: Option<&str>, name: &str, width: u32) -> Format {
        let wanted = match annotation.map(str::trim) {
            Some("IPV4_ADDRESS") => Some((Format::Ipv4, 32)),
            Some("IPV6_ADDRESS") => Some((Format::Ipv6, 128)),
            Some("MAC_ADDRESS") => Some((Format::Mac, 48)),
            Some("HEX_STRING" | "HEX_STR") => Some((Format::Hex, width)),
            _ => None,
        };
        match (wanted, width) {
            (Some((format, own)), _) if own == width => format,
            (_, 48) => Format::Mac,
            (_, 128) => Format::Ipv6,
            (_, 16) if is_type(name) => Format::Hex,
            (_, 32) if is_address(name) => Format::Ipv4,
            _ => Format::Plain,
        }
    }

    fn of_annotations(annotations: &[ir::Annotation], name: &str, width: u32) -> Format {
        Format::of(format_text(annotations), name, width)
    }
}

/// Returns the text of `@format(..)`.
fn format_text(annotations: &[ir::Annotation]) -> Option<&str> {
    annotations.iter().find_map(|one| match &one.body {
        ir::AnnotationBody::Text(text) if one.name == "format" => Some(text.as_str()),
        _ => None,
    })
}

/// Returns true if a 16-bit value with this name is an EtherType, which is shown in hexadecimal.
fn is_type(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    last.to_ascii_lowercase().contains("type")
}

/// Returns true if a 32-bit value with this name is an address: `hdr.ipv4.dst`, `srcAddr`,
/// `meta.next_hop`, `target_ip`.
fn is_address(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let has = |word: &str| name.contains(word);
    ["addr", "ipv4", "next_hop", "nexthop", "nhop"]
        .into_iter()
        .any(has)
        || name.split(['.', '_']).any(|part| part == "ip")
}

/// A match field of a table or of a value set.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its name.
    pub name: String,
    /// Its match kind, never selector.
    pub match_kind: MatchKind,
    /// Its type.
    pub ty: ValueTy,
    /// Display format of its values.
    pub format: Format,
}

/// An action.
#[derive(Clone, Debug)]
pub struct Action {
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub params: Vec<Param>,
    /// The restriction on their values.
    pub restriction: Option<Restriction>,
}

/// A parameter of an action.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: ValueTy,
    /// Display format of its values.
    pub format: Format,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its key, without selector elements.
    pub keys: Vec<Key>,
    /// Its actions.
    pub actions: Vec<ActionId>,
    /// The default action, if it is const.
    pub const_default: Option<ActionCall>,
    /// True if no entries may be added.
    pub entries_are_const: bool,
    /// The action profile or selector that holds its actions.
    pub implementation: Option<ExternId>,
    /// The restriction on its entries.
    pub restriction: Option<Restriction>,
}

impl Table {
    /// Returns true if entries have priorities: the key has ternary, range or optional elements
    /// (P4Runtime, section 9.1.1).
    pub fn needs_priority(&self) -> bool {
        let overlaps = |kind| {
            matches!(
                kind,
                MatchKind::Ternary | MatchKind::Range | MatchKind::Optional
            )
        };
        self.keys.iter().any(|key| overlaps(key.match_kind))
    }
}

/// A value set.
#[derive(Clone, Debug)]
pub struct ValueSet {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub fields: Vec<Key>,
    /// Its capacity.
    pub size: u32,
}

/// An extern instance.
#[derive(Clone, Debug)]
pub struct Extern {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Object,
}

/// Kind of an extern instance, as far as the control plane uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// An action profile or selector.
    Profile,
    /// An array of counters.
    Counter {
        /// The counted unit.
        unit: CounterUnit,
        /// Number of counters.
        size: u32,
    },
    /// An array of meters.
    Meter {
        /// Number of meters.
        size: u32,
    },
    /// An array of cells.
    Register {
        /// The scalars of a cell.
        cell: Arc<[ValueTy]>,
        /// Number of cells.
        size: u32,
    },
    /// A digest.
    Digest {
        /// The scalars of a message.
        fields: Arc<[ValueTy]>,
    },
    /// An object that a text cannot name.
    Other,
}

impl Object {
    fn of(kind: &ExternKind) -> Object {
        let scalars = |all: &[ScalarTy]| all.iter().copied().map(ValueTy::Scalar).collect();
        match kind {
            ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. } => Object::Profile,
            ExternKind::Counter { unit, size, .. } => Object::Counter {
                unit: *unit,
                size: *size,
            },
            ExternKind::Meter { size, .. } => Object::Meter { size: *size },
            ExternKind::Register { cell, size, .. } => Object::Register {
                cell: scalars(cell),
                size: *size,
            },
            ExternKind::Digest { fields, .. } => Object::Digest {
                fields: scalars(fields),
            },
            _ => Object::Other,
        }
    }
}

impl Schema {
    /// Reads an entries file. All errors are reported, not only the first. Restrictions are left to
    /// the server; [`EntriesFile::broken_restriction`] checks them.
    ///
    /// # Errors
    /// The errors of all statements, in file order.
    pub fn read<'a>(
        &self,
        file: &'a str,
        text: &'a str,
    ) -> Result<EntriesFile<'a>, Vec<EntryError>> {
        file::read_file(self, file, text, file::Restrictions::LeftToServer)
    }

    /// Reads one statement that names an object to be removed: an entry's key (with its priority),
    /// a member, a group, a session or a default action. Text after the name is permitted.
    ///
    /// # Errors
    /// The statement is not valid.
    pub fn read_target(&self, file: &str, text: &str) -> Result<UpdateTarget, EntryError> {
        file::read_target(self, file, text)
    }

    /// Reads one value.
    ///
    /// # Errors
    /// A message of one line.
    pub fn read_value(&self, ty: ValueTy, text: &str) -> Result<bits::Value, String> {
        value::scalar(self, ty, Word::new(text, 0)).map_err(EntriesError::into_line)
    }

    /// Returns the table that a name denotes, in full or by its last parts.
    ///
    /// # Errors
    /// A message of one line that suggests a name.
    pub fn find_table(&self, name: &str) -> Result<TableId, String> {
        resolve::table(self, Word::new(name, 0)).map_err(EntriesError::into_line)
    }

    /// Returns the extern instance that a name denotes, among those that `fits` accepts. `what` is
    /// their kind, for the error.
    ///
    /// # Errors
    /// A message of one line that suggests a name.
    pub fn find_extern(
        &self,
        what: &str,
        name: &str,
        fits: impl Fn(&Object) -> bool,
    ) -> Result<ExternId, String> {
        let fits = |object: &Object| fits(object).then_some(());
        let found = resolve::instance(self, Word::new(name, 0), what, fits);
        found.map(|(id, ())| id).map_err(EntriesError::into_line)
    }

    /// Returns the schema of a program.
    pub fn of(program: &Program) -> Schema {
        let externs = program.externs.values().map(|instance| Extern {
            name: instance.name.clone(),
            kind: Object::of(&instance.kind),
        });
        Schema {
            arch: Some(program.arch),
            errors: program.errors.clone(),
            enums: program.enums.values().cloned().collect(),
            serializable: program
                .named_types
                .iter()
                .filter_map(serializable)
                .collect(),
            actions: program
                .actions
                .values()
                .map(|own| action(program, own))
                .collect(),
            tables: program
                .tables
                .values()
                .map(|table| Table::of(program, table))
                .collect(),
            value_sets: program.value_sets.values().map(value_set).collect(),
            externs: externs.collect(),
        }
    }
}

fn serializable(named: &ir::NamedType) -> Option<SerializableEnum> {
    match &named.kind {
        NamedTypeKind::SerializableEnum { width, members, .. } => Some(SerializableEnum {
            name: named.name.clone(),
            width: *width,
            members: members.clone(),
        }),
        _ => None,
    }
}

fn action(program: &Program, action: &ir::Action) -> Action {
    let params = action.params.iter().map(|param| Param {
        name: param.name.clone(),
        ty: ValueTy::Scalar(param.ty),
        format: Format::of_annotations(&param.annotations, &param.name, param.ty.width()),
    });
    let params: Vec<Param> = params.collect();
    Action {
        name: action.control_plane_name.clone(),
        restriction: Restriction::of_action(program, action, &params),
        params,
    }
}

impl Table {
    fn of(program: &Program, table: &ir::Table) -> Table {
        let keys = table.keys.iter();
        let keys = keys.filter(|key| key.match_kind != MatchKind::Selector);
        let keys = keys.map(|key| {
            let ty = key.expr.ty(program, None).unwrap_or(ScalarTy::Bit(1));
            Key {
                name: key.name.clone(),
                match_kind: key.match_kind,
                ty: ValueTy::Scalar(ty),
                format: Format::of_key(
                    format_text(&key.annotations),
                    &key.name,
                    ty.width(),
                    key.match_kind,
                ),
            }
        });
        let keys: Vec<Key> = keys.collect();
        Table {
            name: table.name.clone(),
            restriction: Restriction::of_table(program, table, &keys),
            keys,
            actions: table.actions.iter().map(|listed| listed.action).collect(),
            const_default: table.default_is_const.then(|| table.default.clone()),
            entries_are_const: table.entries_are_const,
            implementation: table.implementation,
        }
    }
}

fn value_set(set: &ir::ValueSet) -> ValueSet {
    let fields = set.fields.iter().map(|field| Key {
        name: field.name.clone(),
        match_kind: field.match_kind,
        ty: ValueTy::Scalar(field.ty),
        format: Format::of_annotations(&field.annotations, &field.name, field.ty.width()),
    });
    ValueSet {
        name: set.name.clone(),
        fields: fields.collect(),
        size: set.size,
    }
}
