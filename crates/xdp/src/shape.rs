//! Shapes of the maps: the one definition that the emitted code and its writer share.

use bits::limbs_for;
use exec::DropReason;
use ir::{ExternId, ExternKind, MatchKind, Program, ScalarTy, TableId, limbs_of};
use port::BpfMapKind;

use crate::assembler::MapName;

/// Action number of an entry that the kernel part does not run: its packets leave.
pub(crate) const LEAVES: u32 = u32::MAX - 1;

/// Action number of a result without an action to run.
pub(crate) const NO_ACTION: u32 = u32::MAX;

/// Bit of the first word of a value that is set for a hit.
pub(crate) const HIT: u32 = 32;

/// Number of bytes of a value before its parameters: action number and hit, then the row.
pub(crate) const VALUE_HEADER: usize = 16;

/// Offset of the row.
pub(crate) const ROW: i16 = 8;

/// Number of bytes of a row of counts: packets, then bytes.
pub(crate) const COUNTS: u32 = 16;

/// Largest number of entries for which a table's maps have room.
const MAX_ENTRIES: u32 = 1 << 20;

/// Largest number of rules of a list.
const MAX_RULES: u32 = 1024;

/// Number of instructions that the verifier may follow in all searches of rules. It follows each
/// round of a loop, and at most a million instructions.
const VERIFIED_RULES: u32 = 500_000;

/// Number of bytes before the rules of a list: their number.
pub(crate) const LIST_HEADER: u32 = 8;

/// Number of rules of a list that is too long: its packets leave.
pub(crate) const TOO_LONG: u64 = u64::MAX;

/// Words of [`MapName::Inputs`].
pub(crate) mod inputs {
    /// Number that is added to the kernel's clock.
    pub(crate) const CLOCK_OFFSET: i16 = 0;
    /// Mask of the kernel's clock: zero for a test, in which the offset is the time.
    pub(crate) const CLOCK_MASK: i16 = 8;
    /// Ingress port of a test run.
    pub(crate) const INGRESS_PORT: i16 = 16;
    /// One if packets may be processed, zero if all leave.
    pub(crate) const IS_OPEN: i16 = 24;
    /// Number of bytes.
    pub(crate) const BYTES: usize = 32;
}

/// Fields of a value of [`MapName::Ports`], each 64 bits.
pub(crate) mod traffic {
    pub(crate) const RECEIVED: i16 = 0;
    pub(crate) const RECEIVED_BYTES: i16 = 8;
    pub(crate) const SENT: i16 = 16;
    pub(crate) const SENT_BYTES: i16 = 24;
    /// Number of bytes.
    pub(crate) const BYTES: usize = 32;
}

/// Form of a table's key in its map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    /// A hash table of limbs.
    Exact,
    /// A trie: exact fields, then one field with a prefix, each in whole bytes.
    Prefix,
    /// A list of rules in the order of their ranks.
    Rules,
    /// No key: only the default action runs.
    Empty,
}

/// Shape of a table.
#[derive(Clone, Debug)]
pub(crate) struct TableShape {
    pub(crate) form: KeyForm,
    /// Match kind and width of each key.
    pub(crate) fields: Vec<(MatchKind, u32)>,
    /// True for each key that is signed.
    pub(crate) is_signed: Vec<bool>,
    /// Largest number of rules that are searched, for a list of rules.
    pub(crate) rules: u32,
    /// Largest number of parameter limbs of its actions.
    pub(crate) param_limbs: u32,
    pub(crate) size: u32,
}

impl TableShape {
    /// Returns the shape of a table, or the reason why the kernel part does not search it.
    pub(crate) fn of(program: &Program, table: &ir::Table) -> Result<TableShape, String> {
        let name = &table.name;
        if table.is_written_by_packets() {
            return Err(format!("the table {name}, to which packets add entries"));
        }
        if table.direct_meter.is_some() {
            return Err(format!("the table {name}, which has meters"));
        }
        let matched = table.keys.iter();
        let matched = matched.filter(|key| key.match_kind != MatchKind::Selector);
        let types = matched.clone().map(|key| key.expr.ty(program, None));
        let is_signed: Vec<bool> = types
            .clone()
            .map(|ty| ty.is_some_and(ScalarTy::is_signed))
            .collect();
        let widths = types.map(|ty| ty.map_or(0, ScalarTy::width));
        let fields: Vec<(MatchKind, u32)> = matched.map(|key| key.match_kind).zip(widths).collect();
        let form = match &fields[..] {
            [] => KeyForm::Empty,
            all if all.iter().all(|(kind, _)| *kind == MatchKind::Exact) => KeyForm::Exact,
            all => {
                let prefixes = all.iter().filter(|(kind, _)| *kind == MatchKind::Lpm);
                let others = all.iter().filter(|(kind, _)| *kind != MatchKind::Exact);
                match prefixes.count() == 1 && others.count() == 1 {
                    true => KeyForm::Prefix,
                    false => KeyForm::Rules,
                }
            }
        };
        let shape = TableShape {
            form,
            fields,
            is_signed,
            rules: 0,
            param_limbs: most_param_limbs(program, table),
            size: table.size.clamp(1, MAX_ENTRIES),
        };
        if shape.fields.iter().any(|&(_, width)| width == 0) {
            return Err(format!("the table {name}, which has a key without bits"));
        }
        let is_wide_range = |&(kind, width)| kind == MatchKind::Range && width > 63;
        if shape.fields.iter().any(is_wide_range) {
            return Err(format!(
                "the table {name}, which has a range of more than 63 bits"
            ));
        }
        if shape.key_bytes() > 200 {
            return Err(format!(
                "the table {name}, whose key is longer than 200 bytes"
            ));
        }
        Ok(shape)
    }

    /// Returns the number of bytes of the key in the map.
    pub(crate) fn key_bytes(&self) -> u32 {
        let limbs = |width: u32| limbs_for(width) as u32 * 8;
        match self.form {
            KeyForm::Empty => 4,
            KeyForm::Exact | KeyForm::Rules => {
                self.fields.iter().map(|&(_, width)| limbs(width)).sum()
            }
            KeyForm::Prefix => 4 + self.data_bytes(),
        }
    }

    /// Returns the number of bytes of a trie's key without the length of the prefix.
    fn data_bytes(&self) -> u32 {
        self.fields
            .iter()
            .map(|&(_, width)| width.div_ceil(8))
            .sum()
    }

    /// Returns the number of bits of a trie's key.
    pub(crate) fn data_bits(&self) -> u32 {
        self.data_bytes() * 8
    }

    /// Returns the fields of a trie's key in the order of its bytes: the prefix comes last. Each
    /// is its number, its width, and its number of bytes.
    pub(crate) fn trie_order(&self) -> impl Iterator<Item = (usize, u32, u32)> + '_ {
        let of = |wanted: bool| {
            let fields = self.fields.iter().enumerate();
            fields.filter(move |(_, (kind, _))| (*kind == MatchKind::Lpm) == wanted)
        };
        of(false)
            .chain(of(true))
            .map(|(at, &(_, width))| (at, width, width.div_ceil(8)))
    }

    /// Returns the number of bytes of a rule: two limbs for each limb of the key (mask and value,
    /// or the bounds of a range), then the value.
    pub(crate) fn rule_bytes(&self) -> u32 {
        self.rule_value() + self.value_bytes()
    }

    /// Returns the offset of the value in a rule.
    pub(crate) fn rule_value(&self) -> u32 {
        self.key_bytes() * 2
    }

    /// Returns the sign bit of a key with a signed range, which is inverted in keys and rules, so
    /// that their order is unsigned. For other keys it is 0.
    pub(crate) fn sign_bit(&self, field: usize) -> u64 {
        match self.fields[field] {
            (MatchKind::Range, width) if self.is_signed[field] => 1 << (width - 1),
            _ => 0,
        }
    }

    /// Returns the number of bytes of a value.
    pub(crate) fn value_bytes(&self) -> u32 {
        VALUE_HEADER as u32 + self.param_limbs * 8
    }

    /// Returns the number of rows: one for misses, one for each entry, and those of deleted entries
    /// that some packet may still see.
    pub(crate) fn rows(&self) -> u32 {
        1 + self.size + self.size.min(1024)
    }
}

fn most_param_limbs(program: &Program, table: &ir::Table) -> u32 {
    let actions = table.actions.iter();
    let actions = actions.filter_map(|listed| program.actions.get(listed.action));
    let limbs = |action: &ir::Action| action.params.iter().map(|param| limbs_of(param.ty)).sum();
    actions.map(limbs).max().unwrap_or(0)
}

/// Kind and sizes of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapShape {
    /// The kind.
    pub kind: BpfMapKind,
    /// Number of bytes of a key.
    pub key: u32,
    /// Number of bytes of a value.
    pub value: u32,
    /// Largest number of entries.
    pub entries: u32,
}

impl MapShape {
    fn array(value: u32, entries: u32) -> MapShape {
        MapShape {
            kind: BpfMapKind::Array,
            key: 4,
            value,
            entries: entries.max(1),
        }
    }

    fn hash(key: u32, value: u32, entries: u32) -> MapShape {
        MapShape {
            kind: BpfMapKind::Hash,
            key,
            value,
            entries: entries.max(1),
        }
    }
}

/// Largest number of ports.
pub(crate) const MAX_PORTS: u32 = 4096;

/// Shapes of a program's maps that do not depend on the code.
#[derive(Clone, Debug)]
pub(crate) struct Shapes {
    pub(crate) tables: Vec<Result<TableShape, String>>,
    /// Number of parameter limbs of the longest default action.
    pub(crate) default_limbs: u32,
    counters: Vec<u32>,
}

impl Shapes {
    pub(crate) fn of(program: &Program) -> Shapes {
        let tables = program.tables.values();
        let counters = program
            .externs
            .values()
            .map(|instance| match instance.kind {
                ExternKind::Counter { size, .. } => size,
                _ => 0,
            });
        let limbs = tables.clone().map(|table| most_param_limbs(program, table));
        let mut shapes = Shapes {
            default_limbs: limbs.max().unwrap_or(0),
            tables: tables.map(|table| TableShape::of(program, table)).collect(),
            counters: counters.collect(),
        };
        let tables = shapes.tables.iter_mut().flatten();
        let lists = tables.filter(|table| table.form == KeyForm::Rules);
        let mut lists: Vec<&mut TableShape> = lists.collect();
        let share = VERIFIED_RULES / lists.len().max(1) as u32;
        for list in &mut lists {
            let steps = 12 + 2 * list.key_bytes();
            list.rules = list.size.min(share / steps).clamp(1, MAX_RULES);
        }
        shapes
    }

    /// Returns the shape of a table that the kernel part searches.
    pub(crate) fn table(&self, id: TableId) -> Result<&TableShape, String> {
        let shape = self.tables.get(id.get() as usize);
        let missing = || Err("a table that does not exist".to_owned());
        shape.map_or_else(missing, |shape| shape.as_ref().map_err(Clone::clone))
    }

    pub(crate) fn counter(&self, id: ExternId) -> u32 {
        let size = self.counters.get(id.get() as usize);
        size.copied().unwrap_or(0)
    }

    /// Returns the kind and sizes of a map. `scratch` is the number of bytes of a packet's memory,
    /// `leaves` the number of places at which packets leave.
    pub(crate) fn map(&self, name: MapName, scratch: u32, leaves: u32) -> MapShape {
        let table = |id| self.table(id).ok();
        let rows = |id| MapShape::array(COUNTS, table(id).map_or(1, TableShape::rows));
        match name {
            MapName::Scratch => MapShape {
                kind: BpfMapKind::PerCpuArray,
                ..MapShape::array(scratch, 1)
            },
            MapName::Inputs => MapShape::array(inputs::BYTES as u32, 1),
            MapName::Ports => MapShape::hash(4, traffic::BYTES as u32, MAX_PORTS),
            MapName::Interfaces => MapShape {
                kind: BpfMapKind::DevmapHash,
                ..MapShape::hash(4, 4, MAX_PORTS)
            },
            MapName::Directed => MapShape::hash(4, 4, MAX_PORTS),
            MapName::Sockets => MapShape {
                kind: BpfMapKind::Sockets,
                ..MapShape::array(4, 1)
            },
            MapName::Defaults => MapShape::hash(
                4,
                VALUE_HEADER as u32 + self.default_limbs * 8,
                self.tables.len() as u32,
            ),
            MapName::Drops => MapShape::array(8, DropReason::COUNT as u32),
            MapName::Leaves => MapShape::array(8, leaves),
            // Two lists: one that packets search, and one that is written.
            MapName::Rules(id) => {
                let list = table(id).map_or(0, |shape| shape.rules * shape.rule_bytes());
                MapShape::array(LIST_HEADER + list, 2)
            }
            MapName::Lists => MapShape::array(8, self.tables.len() as u32),
            MapName::Table(id) => match table(id) {
                Some(shape) => MapShape {
                    kind: match shape.form {
                        KeyForm::Prefix => BpfMapKind::LpmTrie,
                        _ => BpfMapKind::Hash,
                    },
                    ..MapShape::hash(shape.key_bytes(), shape.value_bytes(), shape.size)
                },
                None => MapShape::array(8, 1),
            },
            MapName::Rows(id) => rows(id),
            MapName::Counter(id) => MapShape::array(COUNTS, self.counter(id)),
        }
    }
}
