//! Translation of a function to entries of an emitted hypervisor.

pub(crate) mod cells;
mod code;
mod contents;
mod deparse;
mod error;
mod externs;
mod flow;
mod frame;
mod keys;
mod node;
mod paths;
mod pattern;
pub(crate) mod shuffle;
mod stages;
mod walk;
mod words;

use std::collections::BTreeSet;

use bits::Value;
use entries::Update;
use ir::{BlockCode, BlockRole, ControlId, ExternKind, ParserId, Program};

pub use error::TranslateError;

use crate::entry::{Entry, Key};
use crate::shape::Shape;
use cells::Cells;
use contents::Contents;
use deparse::Sent;
use error::refuse;
use flow::{Flow, MAX_ARGUMENTS};
use frame::{Frame, Layout};
use node::{NodeId, Nodes};
use paths::{Path, Surroundings};
use pattern::Places;
use stages::{Gress, Stages};
use walk::{construct, map_places, support};
use words::number;

/// Location of a hosted function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPlace {
    /// The virtual data plane.
    pub vpdp: u16,
    /// Number of the program within it.
    pub program: u8,
    /// The hypervisor's numbers of slots.
    pub shape: Shape,
    /// Number of register, counter and meter cells that other functions use.
    pub cells: u32,
}

/// A hosted function.
#[derive(Clone, Debug)]
pub struct Hosted {
    /// Its entries.
    pub entries: Vec<Entry>,
    /// Entries file statements about cells, groups and sessions.
    pub statements: Vec<String>,
    /// Number of stages.
    pub stages: usize,
    /// Maximum number of resubmissions of a packet, not counting loops.
    pub resubmissions: u32,
}

/// Translates a program with the contents of its tables.
///
/// # Errors
/// The first construct that the hypervisor does not support.
pub fn translate(
    program: &Program,
    updates: &[Update],
    place: &FieldPlace,
) -> Result<Hosted, TranslateError> {
    let contents = Contents::new(program, updates)?;
    let blocks = Blocks::of(program)?;
    let Some(cells) = Cells::new(program, place.cells) else {
        return refuse("so many cells of registers, counters and meters", None);
    };
    let emitted = deparse::emitted(program, blocks.deparser)?;
    let written = walk::written(program);
    let surroundings = Surroundings {
        value_sets: &contents.value_sets,
        emitted: &emitted,
    };
    let paths::Parsed { paths, held } = paths::paths(program, blocks.parser, surroundings)?;
    let arguments = arguments(program)?;
    let read = paths.iter().map(|path| path.seen).max().unwrap_or(0);
    let layout = Layout::new(program, &written, &held, arguments, read);
    let sent = Sent::new(program, &layout, emitted, &paths)?;
    let mut nodes = Nodes::new();
    let mut roots = Vec::new();
    for path in &paths {
        if path.cursor % 8 != 0 {
            return refuse("a parser that consumes parts of bytes", None);
        }
        let frame = Frame {
            layout: &layout,
            path,
            action: None,
            params: Vec::new(),
        };
        let mut flow = Flow {
            program,
            nodes: &mut nodes,
            frame,
            cells: &cells,
        };
        roots.push(path_code(&mut flow, &blocks, &sent, &written.resubmits)?);
    }
    layout.check()?;
    let mut stages = Stages::new(
        program,
        &nodes,
        &contents,
        place.vpdp.into(),
        place.program.into(),
    );
    let (ingress, egress): (Vec<NodeId>, Vec<NodeId>) = roots.iter().copied().unzip();
    stages.place(Gress::Ingress, &ingress, place.shape.ingress)?;
    stages.place(Gress::Egress, &egress, place.shape.egress)?;
    let mut all = Vec::new();
    for (order, (path, (ingress, egress))) in paths.iter().zip(&roots).enumerate() {
        let links = [
            stages.link(Gress::Ingress, *ingress),
            stages.link(Gress::Egress, *egress),
        ];
        let links = links.into_iter().flat_map(stages::Link::args).collect();
        let kept = path_kept(&layout, path, &written.resubmits)?;
        all.push(begin(
            place,
            path,
            (paths.len() - order) as i32,
            &kept,
            links,
        ));
    }
    let (stage_count, resubmissions) = (stages.count(), stages.resubmissions());
    all.extend(stages.entries());
    Ok(Hosted {
        entries: all,
        statements: statements(program, &contents, &cells)?,
        stages: stage_count,
        resubmissions,
    })
}

/// The blocks of a v1model program.
struct Blocks {
    parser: ParserId,
    verify: Option<ControlId>,
    ingress: Option<ControlId>,
    egress: Option<ControlId>,
    compute: Option<ControlId>,
    deparser: Option<ControlId>,
}

impl Blocks {
    fn of(program: &Program) -> Result<Blocks, TranslateError> {
        if !program.pipeline.steps.is_empty() {
            return refuse("a chain whose steps parse packets anew", None);
        }
        if program.arch != ir::Arch::V1model {
            return refuse(
                format!("architectures but v1model (this is {:?})", program.arch),
                None,
            );
        }
        let find = |role: BlockRole| {
            let mut blocks = program.pipeline.blocks.iter();
            blocks
                .find(|block| block.role == role)
                .map(|block| block.code)
        };
        let control = |role: BlockRole| match find(role) {
            Some(BlockCode::Control(control)) => Some(control),
            _ => None,
        };
        let Some(BlockCode::Parser(parser)) = find(BlockRole::Parser) else {
            return refuse("a program without a parser", None);
        };
        Ok(Blocks {
            parser,
            verify: control(BlockRole::VerifyChecksum),
            ingress: control(BlockRole::Ingress),
            egress: control(BlockRole::Egress),
            compute: control(BlockRole::ComputeChecksum),
            deparser: control(BlockRole::Deparser),
        })
    }
}

/// Returns the maximum number of argument bits of an entry.
fn arguments(program: &Program) -> Result<u32, TranslateError> {
    let mut most = 0;
    for action in program.tables.values().flat_map(|table| &table.actions) {
        let action = &program.actions[action.action];
        let bits: u32 = action.params.iter().map(|param| param.ty.width()).sum();
        if bits > MAX_ARGUMENTS {
            return refuse(
                format!("action with more than {MAX_ARGUMENTS} bits of arguments"),
                action.loc,
            );
        }
        most = most.max(bits);
    }
    Ok(most)
}

/// Translates one path. Returns the first nodes of ingress and egress.
fn path_code(
    flow: &mut Flow<'_>,
    blocks: &Blocks,
    sent: &Sent,
    resubmits: &BTreeSet<u64>,
) -> Result<(NodeId, NodeId), TranslateError> {
    let mut egress = flow.nodes.end();
    let deparse = sent.code(flow)?;
    egress = flow.nodes.run(deparse, egress);
    for control in [blocks.compute, blocks.egress].into_iter().flatten() {
        egress = flow.control(control, egress)?;
    }
    let end = flow.nodes.end();
    let mut ingress = begun_again(flow, resubmits, end)?;
    for control in [blocks.ingress, blocks.verify].into_iter().flatten() {
        ingress = flow.control(control, ingress)?;
    }
    let parsed = parsed(flow)?;
    ingress = flow.nodes.run(parsed, ingress);
    Ok((ingress, egress))
}

/// Translates the end of ingress: a packet that the function resubmits starts over with only the
/// fields of its field list.
fn begun_again(
    flow: &mut Flow<'_>,
    resubmits: &BTreeSet<u64>,
    end: NodeId,
) -> Result<NodeId, TranslateError> {
    let mut next = end;
    for list in resubmits {
        let Some(at) = flow.frame.layout.again() else {
            continue;
        };
        let kept = kept(&flow.frame, *list)?;
        let again = node::Primitive {
            action: "begin_again",
            args: vec![kept],
        };
        let then = flow.nodes.run(vec![again], end);
        let marked = flow::range(at, frame::AGAIN_BITS);
        let cube = pattern::Cube::equal(&marked, &number(*list as u32 + 1, frame::AGAIN_BITS));
        next = flow.nodes.branch(cube.into_iter().collect(), then, next);
    }
    Ok(next)
}

/// Returns the mask of the fields that a resubmitted packet keeps.
fn kept(frame: &Frame<'_>, list: u64) -> Result<Value, TranslateError> {
    let program = frame.program();
    let index = list
        .checked_sub(1)
        .and_then(|index| u32::try_from(index).ok());
    let fields = index.and_then(|index| program.pipeline.field_lists.get(&index));
    let mut all = Value::zero(crate::FILE_BITS);
    for field in fields.into_iter().flatten() {
        for bit in frame.field(*field).unwrap_or_default() {
            match bit {
                pattern::Bit::At(at) if at < crate::USER_BITS => {
                    all = words::or(&all, &words::ones(at, 1, crate::FILE_BITS));
                }
                pattern::Bit::Is(_) => {}
                pattern::Bit::At(_) => {
                    let name = &program.fields[*field].name;
                    return refuse(
                        format!(
                            "resubmission that keeps {name}, which is beyond the user metadata"
                        ),
                        None,
                    );
                }
            }
        }
    }
    Ok(all)
}

/// Returns the code that copies parsed fields to their allocated positions.
fn parsed(flow: &Flow<'_>) -> Result<Vec<node::Primitive>, TranslateError> {
    let (layout, path) = (flow.frame.layout, flow.frame.path);
    let mut code = code::Code::new(&flow.frame);
    for (field, bits) in &path.fields {
        let Some(at) = layout.used(*field) else {
            continue;
        };
        if bits.iter().all(|bit| *bit == pattern::Bit::Is(false)) {
            continue;
        }
        code.of_bits(bits, Some(at))?;
    }
    for field in &path.lengths {
        if let Some(at) = layout.used(*field) {
            code.read_standard("packet_length", 0, at, 32);
        }
    }
    Ok(code.made)
}

/// Returns the mask of the register file bits with which a packet on this path starts: the parsed
/// bits, and fields kept at a resubmission.
fn path_kept(
    layout: &Layout<'_>,
    path: &Path,
    resubmits: &BTreeSet<u64>,
) -> Result<Value, TranslateError> {
    let frame = Frame {
        layout,
        path,
        action: None,
        params: Vec::new(),
    };
    let seen = words::ones(crate::FILE_BITS - path.seen, path.seen, crate::FILE_BITS);
    resubmits
        .iter()
        .try_fold(seen, |all, list| Ok(words::or(&all, &kept(&frame, *list)?)))
}

/// Returns the entry that starts a packet on this path.
fn begin(place: &FieldPlace, path: &Path, priority: i32, kept: &Value, links: Vec<Value>) -> Entry {
    let bytes = path.cursor / 8;
    let value = Value::zero(crate::FILE_BITS);
    let mut keys = vec![
        ("vpdp", Key::Is(number(place.vpdp.into(), 16))),
        ("program", Key::Is(number(place.program.into(), 8))),
        ("length", Key::Between(path.least_bytes, path.most_bytes)),
    ];
    keys.extend(stages::header_keys(&path.cube));
    Entry {
        table: "HypervisorIngress.parse".to_owned(),
        keys,
        priority: Some(priority),
        action: "begin".to_owned(),
        args: [
            vec![number(bytes, 7), number(bytes, 7), kept.clone(), value],
            links,
        ]
        .concat(),
        idle_timeout_ns: None,
    }
}

/// Converts updates of cells, groups and sessions to statements for the hypervisor.
fn statements(
    program: &Program,
    contents: &Contents,
    cells: &Cells,
) -> Result<Vec<String>, TranslateError> {
    let schema = entries::Schema::of(program);
    let mut all = Vec::new();
    for (id, instance) in program.externs.iter() {
        if let (ExternKind::Register { initial, .. }, Some(range)) = (&instance.kind, cells.of(id))
        {
            let each = range.count / initial.len().max(1) as u32;
            for (scalar, value) in initial
                .iter()
                .enumerate()
                .filter(|(_, value)| !value.is_zero())
            {
                let first = range.base + each * scalar as u32;
                all.extend(
                    (first..first + each).map(|at| format!("register cells[{at}] = {value}")),
                );
            }
        }
    }
    for update in &contents.others {
        match update {
            Update::Multicast { .. } | Update::Clone(_) => all.push(schema.statement(update)),
            Update::Register {
                register,
                index,
                values,
            } => {
                let Some(range) = cells.of(*register) else {
                    continue;
                };
                let each = range.count / values.len().max(1) as u32;
                let indices = index.map_or(0..each, |index| index..index + 1);
                for index in indices {
                    for (scalar, value) in values.iter().enumerate() {
                        let at = range.base + each * scalar as u32 + index;
                        all.push(format!("register cells[{at}] = {}", value.resized(64)));
                    }
                }
            }
            Update::Counter {
                counter,
                index,
                value,
            } => {
                let Some(range) = cells.of(*counter) else {
                    continue;
                };
                let entries::CounterValue { packets, bytes } = value;
                let at = range.base + index;
                all.push(format!(
                    "counter counts[{at}] = packets {packets} bytes {bytes}"
                ));
            }
            Update::Meter {
                meter,
                index,
                config,
            } => {
                let Some(range) = cells.of(*meter) else {
                    continue;
                };
                let kind = &program.externs[*meter].kind;
                let array = match kind {
                    ExternKind::Meter {
                        unit: ir::CounterUnit::Bytes,
                        ..
                    } => "byte_rates",
                    _ => "packet_rates",
                };
                let entries::MeterConfig {
                    cir,
                    cburst,
                    pir,
                    pburst,
                    ..
                } = config;
                let indices = index.map_or(0..range.count, |index| index..index + 1);
                all.extend(indices.map(|index| {
                    let at = range.base + index;
                    format!(
                        "meter {array}[{at}] cir {cir} cburst {cburst} pir {pir} pburst {pburst}"
                    )
                }));
            }
            _ => {}
        }
    }
    Ok(all)
}
