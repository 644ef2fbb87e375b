//! Translation of tables and shapes to a program.
//!
//! The program is for v1model. Its parser takes the bytes that some instruction may touch
//! ([`layout`]). Its ingress control looks up the tables; each shape of a table is an action. An
//! OUTPUT stores a copy of the packet as it is then. The first copy leaves by the egress
//! port; egress clones the packet for each further one, and the clone comes back to ingress, which
//! gives it its port. The deparser writes the stored bytes.

mod action_set;
mod code;
mod expr;
mod frame;
mod layout;
mod output;
mod parser;
mod pieces;
mod pipeline;
mod sending;
mod shape;

use std::collections::BTreeMap;
use std::sync::Arc;

use bits::Value;
use ir::{
    ActionCall, ActionId, ActionScope, Arch, CounterUnit, DataTy, Expr, Extern, ExternId,
    ExternKind, Key, MatchKind, Program, ScalarTy, Table, TableAction, TableId,
};

use crate::model::{Field, Match, TableType};
use crate::tables::{Limits, TableNumber, Tables};
use crate::wire::ErrorCode;
use action_set::ActionSet;
use code::{Externs, Fields, ListPlace, Successor};
use expr::*;
pub(crate) use layout::MAX_PACKET;
use layout::{At, Layout, State, TableShapes};
pub(crate) use shape::Shape;

/// Port of packets for the controllers.
pub const CONTROLLER_PORT: u32 = 0x1_0000;
/// Port at which copies of a packet start that wait for their own port.
pub const WAITING_PORT: u32 = 0x1_0001;
/// Clone session of these copies.
pub(crate) const WAITING_SESSION: u32 = 1;
/// First of the ingress ports of packet-outs: it counts from their ports.
pub(crate) const PACKET_OUT_PORTS: u32 = 0x2_0000;
/// Number of bytes in front of a packet for the controllers.
pub(crate) const PREFIX_BYTES: usize = output::PREFIX_BITS as usize / 8;

/// Reason for which an instruction ends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A field or the packet offset is outside the packet.
    FieldOutside,
    /// A jump leads outside the list.
    Jump,
    /// The packet would be longer than the longest one.
    TooLong,
    /// The packet would be sent more often than allowed.
    TooManyOutputs,
}

impl Fault {
    /// All reasons, in the order of their counters.
    pub const ALL: [Fault; 4] = [
        Fault::FieldOutside,
        Fault::Jump,
        Fault::TooLong,
        Fault::TooManyOutputs,
    ];

    /// Returns the error for the controllers.
    pub fn code(self) -> ErrorCode {
        match self {
            Fault::FieldOutside | Fault::TooLong => ErrorCode::PacketLength,
            Fault::Jump => ErrorCode::BadJump,
            Fault::TooManyOutputs => ErrorCode::TooManyActions,
        }
    }
}

/// A program and its objects.
#[derive(Clone, Debug)]
pub(crate) struct Translation {
    pub(crate) program: Program,
    /// The tables of the program.
    pub(crate) tables: BTreeMap<TableNumber, TableId>,
    pub(crate) counters: ExternId,
    pub(crate) meters: ExternId,
    pub(crate) fault_counts: ExternId,
}

/// Shapes of each table, with a number that stays as long as the shape is used. Their actions
/// follow that of a miss, in this order.
pub(crate) type ShapesByTable = BTreeMap<TableNumber, Vec<(u64, Arc<Shape>)>>;

/// Action on a miss: what becomes of packets that no entry matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMiss {
    /// They go to the controllers, as with POFSwitch.
    #[default]
    PacketIn,
    /// They are dropped.
    Drop,
}

/// Makes the program of all tables that have shapes.
pub(crate) fn translate(tables: &Tables, shapes: &ShapesByTable, on_miss: OnMiss) -> Translation {
    let of_tables = shapes.iter().filter_map(|(number, shapes)| {
        let fields: &[Field] = match *number {
            TableNumber::PACKET_OUT => &[],
            number => &tables.table(number)?.fields,
        };
        let shapes = shapes.iter().map(|(_, shape)| &**shape).collect();
        Some((*number, TableShapes { fields, shapes }))
    });
    let of_tables: BTreeMap<_, _> = of_tables.collect();
    let layout = Layout::of(&of_tables);
    let mut program = Program::empty("pof", Arch::V1model);
    program.errors = [
        "NoError",
        "PacketTooShort",
        "NoMatch",
        "StackOutOfBounds",
        "HeaderTooShort",
    ]
    .map(str::to_owned)
    .to_vec();
    let (fields, intrinsics) = pipeline::declare_fields(&mut program, &layout);
    let externs = declare_externs(&mut program, tables.limits());
    let set = ActionSet::declare(&mut program, shapes);
    let mut translated = BTreeMap::new();
    let mut successors = BTreeMap::new();
    for (number, table) in &of_tables {
        let numbers = &shapes[number];
        let maker = TableMaker {
            number: *number,
            layout: &layout,
            fields: &fields,
            externs: &externs,
            set: &set,
            on_miss,
        };
        let (id, after) = maker.add(&mut program, tables, table, numbers);
        translated.insert(*number, id);
        successors.insert(*number, after);
    }
    let lookups = pipeline::Lookups {
        layout: &layout,
        fields: &fields,
        externs: &externs,
        set: &set,
        tables: &of_tables,
        translated: &translated,
        successors: &successors,
        on_miss,
    };
    pipeline::add_blocks(&mut program, &lookups, &intrinsics);
    Translation {
        program,
        tables: translated,
        counters: externs.counters,
        meters: externs.meters,
        fault_counts: externs.fault_counts,
    }
}

fn extern_of(name: &str, kind: ExternKind) -> Extern {
    Extern {
        name: name.to_owned(),
        kind,
        annotations: Vec::new(),
        loc: None,
    }
}

fn declare_externs(program: &mut Program, limits: &Limits) -> Externs {
    let counter = |size| ExternKind::Counter {
        unit: CounterUnit::Both,
        size,
        index_ty: None,
    };
    let meter = ExternKind::Meter {
        unit: CounterUnit::Bytes,
        size: limits.meters,
        index_ty: None,
    };
    let message = [ScalarTy::Bit(16), ScalarTy::Bit(8)];
    let digest = ExternKind::Digest {
        fields: message.to_vec(),
        data_ty: DataTy::Tuple(message.map(|ty| DataTy::Bit(ty.width())).to_vec()),
    };
    let mut add = |name, kind| program.externs.push(extern_of(name, kind));
    Externs {
        counters: add("counters", counter(limits.counters)),
        meters: add("meters", meter),
        faults: add("faults", digest),
        fault_counts: add("fault_counts", counter(Fault::ALL.len() as u32)),
    }
}

/// Translation of one table.
struct TableMaker<'a> {
    number: TableNumber,
    layout: &'a Layout,
    fields: &'a Fields,
    externs: &'a Externs,
    set: &'a ActionSet,
    on_miss: OnMiss,
}

impl TableMaker<'_> {
    /// Adds the table and its actions. Returns the successors of the actions, that of a miss first.
    fn add(
        &self,
        program: &mut Program,
        tables: &Tables,
        table: &TableShapes<'_>,
        numbers: &[(u64, Arc<Shape>)],
    ) -> (TableId, Vec<Successor>) {
        let name = format!("t{}", self.number.0);
        let kind = ExternKind::DirectCounter {
            unit: CounterUnit::Both,
        };
        let direct_counter = program
            .externs
            .push(extern_of(&format!("{name}.counter"), kind));
        let miss = self.miss();
        let mut actions = vec![add_action(
            program,
            format!("{name}.miss"),
            Vec::new(),
            miss,
        )];
        let mut successors = vec![Successor::Miss];
        for (at, (number, _)) in numbers.iter().enumerate() {
            let place = ListPlace {
                table: self.number,
                shape: at,
                direct_counter,
            };
            let shape = table.shapes[at];
            let code = code::translate(
                shape,
                place,
                self.layout,
                self.fields,
                self.externs,
                self.set,
            );
            let name = format!("{name}.s{number}");
            actions.push(add_action(program, name, code.params, code.body));
            successors.push(code.successor);
        }
        let listed = actions
            .into_iter()
            .enumerate()
            .map(|(at, action)| TableAction {
                action,
                scope: match at {
                    0 => ActionScope::DefaultOnly,
                    _ => ActionScope::TableOnly,
                },
                annotations: Vec::new(),
            });
        let spec = tables.table(self.number);
        let table_type = spec.map_or(TableType::Exact, |spec| spec.table_type);
        let id = program.tables.push(Table {
            name,
            keys: self.keys(table_type, table.fields),
            actions: listed.collect(),
            default: ActionCall {
                action: 0,
                args: Vec::new(),
            },
            default_is_const: true,
            entries: Vec::new(),
            entries_are_const: false,
            largest_priority_wins: true,
            size: spec.map_or(1, |spec| spec.size),
            size_is_declared: true,
            implementation: None,
            direct_counter: Some(direct_counter),
            direct_meter: None,
            idle_timeout: true,
            add_on_miss: false,
            mirror: None,
            annotations: Vec::new(),
            loc: None,
        });
        (id, successors)
    }

    fn miss(&self) -> Vec<ir::Stmt> {
        match self.on_miss {
            OnMiss::Drop => Vec::new(),
            OnMiss::PacketIn => {
                let too_many = code::fault(Fault::TooManyOutputs, self.number, self.externs);
                let state = self.layout.at_table(self.number);
                let state = state.unwrap_or(State::ANYWHERE);
                let (reason, cookie) = (bit(8, 0), bit(64, 0));
                let table = self.number;
                output::packet_in(self.fields, state, true, reason, table, cookie, too_many)
            }
        }
    }

    fn keys(&self, table_type: TableType, fields: &[Field]) -> Vec<Key> {
        let at = self.layout.at_table(self.number).unwrap_or(State::START).at;
        let (kind, parts) = match table_type {
            TableType::Linear => {
                return vec![key(0, 32, read(self.fields.index), MatchKind::Exact)];
            }
            TableType::Exact => (MatchKind::Exact, self.parts(at, fields)),
            TableType::Masked => (MatchKind::Ternary, self.parts(at, fields)),
            TableType::LongestPrefix => {
                let widths = fields.iter().map(|field| u32::from(field.length));
                let width = widths.sum::<u32>();
                let parts = self.parts(at, fields).into_iter();
                let all = join(parts.map(|(_, part)| Some(part)));
                let parts = all.map(|all| (width, all)).into_iter().collect();
                (MatchKind::Lpm, parts)
            }
        };
        if parts.is_empty() {
            // A table without match fields has one value to match.
            return vec![key(0, 1, bit(1, 0), kind)];
        }
        let keys = parts.into_iter().enumerate();
        keys.map(|(number, (width, expr))| key(number, width, expr, kind))
            .collect()
    }

    fn parts(&self, at: At, fields: &[Field]) -> Vec<(u32, Expr)> {
        let part = |field: &Field| (field.length.into(), self.fields.frame.field(at, *field));
        fields.iter().map(part).collect()
    }
}

fn key(number: usize, width: u32, expr: Expr, match_kind: MatchKind) -> Key {
    Key {
        name: format!("f{number}"),
        expr,
        match_kind,
        data_ty: DataTy::Bit(width),
        annotations: Vec::new(),
    }
}

fn add_action(
    program: &mut Program,
    name: String,
    params: Vec<ir::ActionParam>,
    body: Vec<ir::Stmt>,
) -> ActionId {
    program.actions.push(ir::Action {
        control_plane_name: name.clone(),
        name,
        params,
        body,
        annotations: Vec::new(),
        loc: None,
    })
}

/// Returns the match of an entry as the program's table has it.
pub(crate) fn key_matches(
    table_type: TableType,
    matches: &[Match],
    index: u32,
) -> Vec<ir::KeyMatch> {
    use ir::KeyMatch;
    let value = |bytes: &crate::model::FieldValue, width: u16| {
        let number = u128::from_be_bytes(*bytes) >> (128 - u32::from(width.clamp(1, 128)));
        Value::truncated(number, width.into())
    };
    let of_value = |one: &Match| value(&one.value, one.field.length);
    match table_type {
        TableType::Linear => vec![KeyMatch::Exact(Value::truncated(index.into(), 32))],
        TableType::Exact if matches.is_empty() => vec![KeyMatch::Exact(Value::zero(1))],
        TableType::Masked | TableType::LongestPrefix if matches.is_empty() => vec![KeyMatch::Any],
        TableType::Exact => matches
            .iter()
            .map(|one| KeyMatch::Exact(of_value(one)))
            .collect(),
        TableType::Masked => matches
            .iter()
            .map(|one| {
                let mask = value(&one.mask, one.field.length);
                match mask.is_zero() {
                    true => KeyMatch::Any,
                    false => KeyMatch::Ternary(of_value(one).and(&mask), mask),
                }
            })
            .collect(),
        TableType::LongestPrefix => {
            let widths = matches.iter().map(|one| u32::from(one.field.length));
            let width: u32 = widths.sum();
            let bits = matches.iter().flat_map(|one| {
                let bit = |at: u16| one.value[usize::from(at / 8)] >> (7 - at % 8) & 1;
                (0..one.field.length).map(bit)
            });
            let bits: Vec<u8> = bits.collect();
            let length = crate::tables::prefix_length(matches).unwrap_or(0);
            if length == 0 {
                return vec![KeyMatch::Any];
            }
            let mut bytes = vec![0u8; width.div_ceil(8) as usize];
            let padding = bytes.len() * 8 - bits.len();
            for (at, bit) in bits.iter().enumerate().take(length as usize) {
                let at = at + padding;
                bytes[at / 8] |= bit << (7 - at % 8);
            }
            let value = Value::from_be_bytes(&bytes, width);
            vec![KeyMatch::Lpm(value.unwrap_or(Value::zero(width)), length)]
        }
    }
}
