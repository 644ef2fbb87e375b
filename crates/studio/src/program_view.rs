//! Parts of a program that the page shows: headers for the packet builder, and tables.

use ir::{Arch, Key, Program};
use serde::Serialize;

/// Parts of a program.
#[derive(Debug, Serialize)]
pub struct ProgramView {
    /// Name of the architecture.
    arch: &'static str,
    /// Header instances that a packet may have, in the order of the program.
    headers: Vec<HeaderView>,
    /// Tables, in the order of the program.
    tables: Vec<TableView>,
}

/// Header instance.
#[derive(Debug, Serialize)]
struct HeaderView {
    name: String,
    fields: Vec<FieldView>,
}

/// Field of a header, in wire order.
#[derive(Debug, Serialize)]
struct FieldView {
    name: String,
    /// Width in bits; of a `varbit` the maximum.
    width: u32,
    is_varbit: bool,
}

/// Table with its key and its actions.
#[derive(Debug, Serialize)]
struct TableView {
    name: String,
    keys: Vec<KeyView>,
    actions: Vec<String>,
    size: u32,
}

/// Part of a table's key.
#[derive(Debug, Serialize)]
struct KeyView {
    name: String,
    #[serde(rename = "match")]
    kind: &'static str,
}

impl ProgramView {
    /// Returns the parts of a program.
    pub(crate) fn of(program: &Program) -> ProgramView {
        let headers = program.headers.values().filter_map(|header| {
            let ty = &program.header_types[header.ty];
            let is_of_controllers = ty
                .annotations
                .iter()
                .any(|it| it.name == "controller_header");
            let fields = ty.fields.iter().map(|field| FieldView {
                name: field.name.clone(),
                width: field.ty.width(),
                is_varbit: matches!(field.ty, ir::ScalarTy::Varbit(_)),
            });
            (!is_of_controllers).then(|| HeaderView {
                name: header.name.clone(),
                fields: fields.collect(),
            })
        });
        let tables = program.tables.values().map(|table| TableView {
            name: table.name.clone(),
            keys: table.keys.iter().map(KeyView::of).collect(),
            actions: table
                .actions
                .iter()
                .map(|action| program.actions[action.action].control_plane_name.clone())
                .collect(),
            size: table.size,
        });
        ProgramView {
            arch: arch_name(program.arch),
            headers: headers.collect(),
            tables: tables.collect(),
        }
    }
}

impl KeyView {
    fn of(key: &Key) -> KeyView {
        KeyView {
            name: key.name.clone(),
            kind: key.match_kind.name(),
        }
    }
}

/// Returns the name of an architecture, as documentation uses it.
fn arch_name(arch: Arch) -> &'static str {
    match arch {
        Arch::V1model => "v1model",
        Arch::Psa => "PSA",
        Arch::Pna => "PNA",
        Arch::Ebpf => "eBPF filter",
        Arch::Ubpf => "uBPF",
        Arch::Xdp => "XDP model",
        Arch::Own => "a package of the program's own",
    }
}
