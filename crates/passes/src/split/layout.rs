//! The layout of frames between switch and servers, and the header that both halves have for it.
//!
//! A request and a response have one layout (CLIP, section IV-B). After the MAC addresses and the
//! EtherType of the frame come the packet's own EtherType, the epoch, the parameters, the key of
//! the mirrored table, zeros up to a multiple of four bytes, and the options. The packet's bytes
//! after its first 14 follow.

use bits::{Id, IdSet};
use ir::{
    BlockCode, BlockRole, DataTy, Field, FieldId, Header, HeaderField, HeaderId, HeaderType,
    HeaderTypeId, Program, ScalarTy, TableId,
};

use super::SplitOptions;
use super::cuts::{CutKind, Cuts, Resume, is_cached};
use super::error::SplitError;
use super::liveness::{FieldSet, Liveness, listed_fields};
use super::phv::{self, PhvUse, Places};
use super::recompute::{Computations, Recomputed};
use crate::uses::Uses;

/// Part of the names of all items that a split adds. No P4 name contains it.
pub(super) const ADDED: &str = "$split$";

/// Number of bytes of the MAC addresses and the EtherType of a frame.
pub const ETHERNET_BYTES: u32 = 14;

/// First byte of the epoch. It has this place in the frames of all programs, so that a half can
/// check a frame of another one.
pub const EPOCH_AT: usize = ETHERNET_BYTES as usize + 2;

/// Maximum number of bytes of the header between the EtherType and the packet's payload.
const MAX_HEADER_BYTES: u32 = 4096;

/// Widths of the options in bits, in their order on the wire.
const OPTIONS: [(FrameOption, u32); 6] = [
    (FrameOption::PayloadIndex, 16),
    (FrameOption::PayloadLength, 16),
    (FrameOption::ResumePoint, 16),
    (FrameOption::Server, 16),
    (FrameOption::Flow, 32),
    (FrameOption::Sequence, 32),
];

/// Options of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameOption {
    /// Offset of the bytes of the payload that a server needs.
    PayloadIndex,
    /// Number of these bytes; 0 for all.
    PayloadLength,
    /// In a request the number of the cut, in a response that of the place where the packet
    /// resumes.
    ResumePoint,
    /// Number of the server.
    Server,
    /// Hash of the flow.
    Flow,
    /// Number of the request.
    Sequence,
}

/// Parameter of a frame: a value that travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameParameter {
    /// The name of the field in the program.
    pub name: String,
    /// Its first bit, counted from the start of the frame.
    pub offset: u32,
    /// Its width in bits.
    pub width: u32,
}

/// Layout of frames between switch and servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireLayout {
    /// EtherType of requests.
    pub request_type: u16,
    /// EtherType of responses.
    pub response_type: u16,
    /// Number in the frames of this program, another one than in those of others.
    pub epoch: u16,
    /// The parameters, in their order.
    pub parameters: Vec<FrameParameter>,
    /// First bit of the key, counted from the start of the frame.
    pub key_offset: u32,
    /// Width of the key in bits: that of the longest key.
    pub key_width: u32,
    /// Number of bytes of the header, from the packet's own EtherType to the options.
    pub header_bytes: u32,
}

impl WireLayout {
    /// Returns the layout of frames without parameters and key.
    pub(super) fn without_parameters(request_type: u16, response_type: u16) -> WireLayout {
        let options: u32 = OPTIONS.iter().map(|(_, width)| width).sum();
        WireLayout {
            request_type,
            response_type,
            epoch: 0,
            parameters: Vec::new(),
            key_offset: (ETHERNET_BYTES + 4) * 8,
            key_width: 0,
            header_bytes: (32 + options).next_multiple_of(32) / 8,
        }
    }

    /// Returns the first byte of an option, counted from the start of the frame, and its number of
    /// bytes.
    pub fn option(&self, option: FrameOption) -> (usize, usize) {
        let mut at = (ETHERNET_BYTES + self.header_bytes) as usize;
        for (other, width) in OPTIONS.iter().rev() {
            let bytes = *width as usize / 8;
            at -= bytes;
            if *other == option {
                return (at, bytes);
            }
        }
        (at, 0)
    }

    /// Returns the number of bytes that a frame is longer than its packet.
    pub fn added_bytes(&self) -> u32 {
        self.header_bytes
    }

    /// Returns the number of bits of the parameters.
    pub fn parameter_bits(&self) -> u32 {
        self.parameters
            .iter()
            .map(|parameter| parameter.width)
            .sum()
    }
}

/// A field that travels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    /// The field in the program.
    pub(super) field: FieldId,
    /// Its place in the frame's header.
    pub(super) slot: FieldId,
}

/// An input of the parser that the architecture sets, and its copy that travels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) input: FieldId,
    pub(super) copy: FieldId,
}

/// The frame's header in a program, and the fields that travel.
pub(super) struct FrameHeader {
    pub(super) header: HeaderId,
    pub(super) carried: Vec<Carried>,
    pub(super) arrivals: Vec<Arrival>,
    pub(super) key: Option<FieldId>,
    pub(super) padding: u32,
    pub(super) options: [FieldId; OPTIONS.len()],
    /// Parameters of captured actions, by match stage, action and parameter.
    pub(super) captured: Vec<CapturedStage>,
    pub(super) layout: WireLayout,
    /// Values that both halves compute again instead of sending them.
    pub(super) again: Vec<Recomputed>,
    /// Values that servers compute and the switch does not.
    pub(super) deferred: Vec<Recomputed>,
    /// Places of the computations that the switch does not need.
    pub(super) removed: Places,
    /// Mirrored tables of which the switch holds no entry.
    pub(super) uncached: IdSet<TableId>,
    pub(super) phv: PhvUse,
    /// The values that do not travel: names and widths.
    pub(super) recomputed: Vec<(String, u32)>,
    /// Bits of the live values, those values included.
    pub(super) bits_before: u64,
}

/// A match stage of which a server selects the action and the switch runs it.
#[derive(Clone, Debug)]
pub(super) struct CapturedStage {
    pub(super) stage: ir::StageId,
    pub(super) hit: FieldId,
    pub(super) action_run: FieldId,
    /// Fields of the parameters of each action.
    pub(super) arguments: Vec<Vec<FieldId>>,
}

impl FrameHeader {
    /// Returns the header's field of an option.
    pub(super) fn option(&self, option: FrameOption) -> FieldId {
        let at = OPTIONS.iter().position(|(other, _)| *other == option);
        self.options[at.unwrap_or(0)]
    }

    /// Returns the options in their order on the wire.
    pub(super) fn each_option(&self) -> impl Iterator<Item = (FrameOption, u32)> {
        OPTIONS.into_iter()
    }

    /// Returns true if the switch can hold entries of the table.
    pub(super) fn is_cached(&self, program: &Program, table: TableId) -> bool {
        is_cached(&program.tables[table]) && !self.uncached.contains(table)
    }

    /// Returns the field of the header's validity.
    pub(super) fn valid(&self, program: &Program) -> FieldId {
        program.headers[self.header].valid
    }

    /// Returns the field of the packet's own EtherType.
    pub(super) fn own_type(&self, program: &Program) -> FieldId {
        FieldId::new(program.headers[self.header].valid.get() + 1)
    }
}

/// Adds the header of frames to a program, for both halves.
///
/// # Errors
/// A value that travels has a variable length, or the values are too long for a frame.
pub(super) fn add_header(
    program: &mut Program,
    ingress: ir::ControlId,
    cuts: &Cuts,
    options: &SplitOptions,
) -> Result<FrameHeader, SplitError> {
    let SplitOptions {
        request_type,
        response_type,
        phv_bits,
        ..
    } = *options;
    let captured = captured_stages(program, ingress, cuts);
    let arrivals = arrivals(program);
    let mut fields = travelling(program, ingress, cuts);
    let before = bits_of(program, &fields);
    let control = &program.controls[ingress];
    let mut computations = Computations::new(program, control, cuts);
    let phv = phv::fit(program, control, cuts, &fields, &mut computations, phv_bits)?;
    let open: Vec<FieldId> = fields
        .iter()
        .filter(|&field| !phv.returned.contains(field))
        .collect();
    let again = computations.closure(open);
    let mut recomputed = Vec::new();
    for value in &again {
        if fields.contains(value.field) && !phv.returned.contains(value.field) {
            fields.remove(value.field);
            let field = &program.fields[value.field];
            recomputed.push((field.name.clone(), field.ty.width()));
        }
    }
    for arrival in &arrivals {
        fields.insert(arrival.copy);
    }
    for stage in &captured {
        fields.insert(stage.hit);
        fields.insert(stage.action_run);
        for &field in stage.arguments.iter().flatten() {
            fields.insert(field);
        }
    }
    for field in fields.iter() {
        if let ScalarTy::Varbit(_) = program.fields[field].ty {
            return Err(SplitError::new(
                program,
                None,
                format!(
                    "`{}`, of variable length, is written before a packet leaves the switch",
                    program.fields[field].name
                ),
                "write it behind the mirrored table or the call of the handler",
            ));
        }
    }
    let parameter_bits = bits_of(program, &fields);
    let key_width = key_width(program, cuts, &phv.uncached);
    let options: u32 = OPTIONS.iter().map(|(_, width)| width).sum();
    let used = 32 + parameter_bits + u64::from(key_width) + u64::from(options);
    if used > u64::from(MAX_HEADER_BYTES) * 8 {
        return Err(SplitError::new(
            program,
            None,
            format!(
                "{} bytes travel with a packet to a server, more than {MAX_HEADER_BYTES}",
                used.div_ceil(8)
            ),
            "write fewer fields before the mirrored tables and handlers",
        ));
    }
    let used = used as u32;
    let padding = used.next_multiple_of(32) - used;
    let mut layout = WireLayout {
        request_type,
        response_type,
        epoch: 0,
        parameters: Vec::new(),
        key_offset: 0,
        key_width,
        header_bytes: (used + padding) / 8,
    };
    let mut wire = Wire {
        fields: Vec::new(),
        at: ETHERNET_BYTES * 8,
    };
    wire.push("load_type".to_owned(), 16);
    wire.push("epoch".to_owned(), 16);
    for field in fields.iter() {
        let Field { name, ty } = &program.fields[field];
        let offset = wire.push(name.clone(), ty.width());
        layout.parameters.push(FrameParameter {
            name: name.clone(),
            offset,
            width: ty.width(),
        });
    }
    layout.key_offset = wire.at;
    if key_width > 0 {
        wire.push("key".to_owned(), key_width);
    }
    if padding > 0 {
        wire.push("padding".to_owned(), padding);
    }
    for (option, width) in OPTIONS {
        wire.push(format!("{option:?}"), width);
    }
    let slots = wire.declare(program);
    let carried = fields.iter().zip(&slots.fields[2..]);
    let carried: Vec<Carried> = carried
        .map(|(field, &slot)| Carried { field, slot })
        .collect();
    let key = (key_width > 0).then(|| slots.fields[2 + carried.len()]);
    let first_option = slots.fields.len() - OPTIONS.len();
    let mut options = [FieldId::new(0); OPTIONS.len()];
    options.copy_from_slice(&slots.fields[first_option..]);
    Ok(FrameHeader {
        header: slots.header,
        carried,
        arrivals,
        key,
        padding,
        options,
        captured,
        layout,
        again,
        deferred: phv.deferred,
        removed: phv.removed,
        uncached: phv.uncached,
        phv: phv.used,
        recomputed,
        bits_before: before,
    })
}

/// Returns the width of all fields together.
fn bits_of(program: &Program, fields: &FieldSet) -> u64 {
    let widths = fields.iter().map(|field| program.fields[field].ty.width());
    widths.map(u64::from).sum()
}

/// Fields of the header under construction.
struct Wire {
    fields: Vec<(String, u32)>,
    at: u32,
}

struct DeclaredHeader {
    header: HeaderId,
    fields: Vec<FieldId>,
}

impl Wire {
    /// Appends a field. Returns its first bit.
    fn push(&mut self, name: String, width: u32) -> u32 {
        let offset = self.at;
        self.fields.push((name, width));
        self.at += width;
        offset
    }

    /// Declares the header's type and instance.
    fn declare(self, program: &mut Program) -> DeclaredHeader {
        let name = format!("{ADDED}.frame");
        let fields = self.fields.iter().map(|(name, width)| HeaderField {
            name: name.clone(),
            ty: ScalarTy::Bit(*width),
            data_ty: DataTy::Bit(*width),
            annotations: Vec::new(),
        });
        let ty: HeaderTypeId = program.header_types.push(HeaderType {
            name: format!("{ADDED}.frame_t"),
            fields: fields.collect(),
            annotations: Vec::new(),
        });
        let valid = program.fields.push(Field {
            name: format!("{name}.$valid$"),
            ty: ScalarTy::Bool,
        });
        let made = self.fields.iter().map(|(field, width)| {
            program.fields.push(Field {
                name: format!("{name}.{field}"),
                ty: ScalarTy::Bit(*width),
            })
        });
        let fields = made.collect();
        let header = program.headers.push(Header { name, ty, valid });
        DeclaredHeader { header, fields }
    }
}

/// Returns the fields that travel: those that are live where a packet leaves or resumes, and that
/// have another value there than in a packet that was just parsed.
fn travelling(program: &Program, ingress: ir::ControlId, cuts: &Cuts) -> FieldSet {
    let control = &program.controls[ingress];
    let live = Liveness::of(program, control);
    let set_before = set_by_architecture(program);
    let mut travelling = FieldSet::new();
    let mut add = |live: &FieldSet, written: &FieldSet| {
        for field in live.iter() {
            if written.contains(field) || set_before.contains(field) {
                travelling.insert(field);
            }
        }
    };
    for cut in &cuts.cuts {
        add(&live.before[cut.stage], &cuts.written[cut.stage]);
    }
    for (resume, written) in cuts.resumes.iter().zip(&cuts.written_at_resume) {
        match *resume {
            Resume::End => add(&live.at_end, written),
            Resume::Stage(stage) | Resume::Action(stage) => add(&live.before[stage], written),
        }
    }
    travelling
}

/// Inputs that the architecture sets before it parses a packet.
const ARRIVAL: [&str; 4] = [
    "standard_metadata.ingress_port",
    "standard_metadata.packet_length",
    "standard_metadata.ingress_global_timestamp",
    "standard_metadata.instance_type",
];

/// Returns the fields that have values before a packet is parsed: what the architecture says of the
/// arrival, and what a resubmitted or recirculated packet keeps.
pub(super) fn set_by_architecture(program: &Program) -> FieldSet {
    let intrinsics = &program.pipeline.intrinsics;
    let mut set: FieldSet = ARRIVAL
        .iter()
        .filter_map(|name| intrinsics.get(*name).copied())
        .collect();
    set.union_with(&listed_fields(program));
    set
}

/// Adds a copy of each input of parser and checksum verification.
fn arrivals(program: &mut Program) -> Vec<Arrival> {
    let mut read = FieldSet::new();
    for block in &program.pipeline.blocks {
        let uses = match (block.role, block.code) {
            (BlockRole::Parser, BlockCode::Parser(id)) => {
                Uses::of_parser(program, &program.parsers[id])
            }
            (BlockRole::VerifyChecksum, BlockCode::Control(id)) => {
                Uses::of_control(program, &program.controls[id])
            }
            _ => continue,
        };
        uses.reads.into_iter().for_each(|field| {
            read.insert(field);
        });
    }
    let set = set_by_architecture(program);
    let inputs: Vec<FieldId> = read.iter().filter(|&field| set.contains(field)).collect();
    let copy = |input: FieldId| {
        let Field { name, ty } = program.fields[input].clone();
        let name = format!("{ADDED}.arrival.{name}");
        let copy = program.fields.push(Field { name, ty });
        Arrival { input, copy }
    };
    inputs.into_iter().map(copy).collect()
}

/// Adds the fields of captured actions.
fn captured_stages(
    program: &mut Program,
    ingress: ir::ControlId,
    cuts: &Cuts,
) -> Vec<CapturedStage> {
    let mut all = Vec::new();
    for stage in cuts.captured.iter() {
        let kind = &program.controls[ingress].stages[stage].kind;
        let ir::StageKind::Match { table, .. } = *kind else {
            continue;
        };
        let name = program.tables[table].name.clone();
        let prefix = format!("{ADDED}.{}.{name}", stage.index());
        let listed: Vec<ir::ActionId> = program.tables[table]
            .actions
            .iter()
            .map(|listed| listed.action)
            .collect();
        let hit = program.fields.push(Field {
            name: format!("{prefix}.hit"),
            ty: ScalarTy::Bool,
        });
        let action_run = program.fields.push(Field {
            name: format!("{prefix}.action_run"),
            ty: ScalarTy::Bit(32),
        });
        let arguments = listed.iter().enumerate().map(|(position, &action)| {
            let params = program.actions[action].params.iter();
            let params: Vec<(String, ScalarTy)> = params
                .map(|param| (format!("{prefix}.{position}.{}", param.name), param.ty))
                .collect();
            let fields = params
                .into_iter()
                .map(|(name, ty)| program.fields.push(Field { name, ty }));
            fields.collect()
        });
        all.push(CapturedStage {
            stage,
            hit,
            action_run,
            arguments: arguments.collect(),
        });
    }
    all
}

/// Returns the width of the longest key of a table that the switch caches.
fn key_width(program: &Program, cuts: &Cuts, uncached: &IdSet<TableId>) -> u32 {
    let widths = cuts.cuts.iter().filter_map(|cut| match cut.kind {
        CutKind::Table(table) if is_cached(&program.tables[table]) && !uncached.contains(table) => {
            let keys = program.tables[table].keys.iter();
            let width = |key: &ir::Key| {
                let ty = key.expr.ty(program, None);
                ty.map_or(0, |ty| u64::from(ty.width()))
            };
            Some(keys.map(width).sum::<u64>())
        }
        _ => None,
    });
    widths
        .max()
        .map_or(0, |width| width.min(u64::from(u32::MAX)) as u32)
}
