//! The fields and blocks of the program, and its ingress control with the line of tables.

use std::collections::{BTreeMap, BTreeSet};

use ir::{
    BinOp, Block, BlockCode, BlockRole, Control, Expr, Field, FieldId, MatchNext, MatchOutcome,
    Next, Program, ScalarTy, Stage, StageId, StageKind, StepId, Stmt, TableId,
};

use super::action_set::ActionSet;
use super::code::{self, Externs, Fields, SUM_BITS, Successor};
use super::expr::*;
use super::frame::{Frame, declare_header};
use super::layout::{Layout, MAX_PACKET, State, TableShapes};
use super::output::{self, Destination, InPlace, Outputs, PREFIX_BITS, PREFIX_PARTS};
use super::parser::parser;
use super::sending::{deparser, egress};
use super::{Fault, OnMiss, PACKET_OUT_PORTS};
use crate::tables::TableNumber;

/// Values of `standard_metadata.instance_type`.
pub(super) mod instance {
    pub(in super::super) const NORMAL: u32 = 0;
    pub(in super::super) const EGRESS_CLONE: u32 = 2;
    pub(in super::super) const RECIRCULATED: u32 = 4;
}

/// Number of the field list that recirculated copies keep.
pub(super) const KEPT: u32 = 1;
/// `egress_rid` of the copy of a multicast that goes on with the next output.
pub(crate) const FIRST_REPLICA: u32 = 1;

/// Fields that the pipeline alone uses.
pub(super) struct Intrinsics {
    pub(super) ingress_port: FieldId,
    pub(super) egress_port: FieldId,
    pub(super) instance_type: FieldId,
    pub(super) replica: FieldId,
    /// Number of the output that this copy sends.
    pub(super) current: FieldId,
    /// Bytes of the output that are not yet written, and their number.
    pub(super) rest: FieldId,
    pub(super) rest_length: FieldId,
    /// Pieces of 2^n bytes, by n, for parsing and deparsing.
    pub(super) pieces: Vec<FieldId>,
    /// A piece of all bytes that are parsed.
    pub(super) whole: FieldId,
}

/// Input for the line of tables.
pub(super) struct Lookups<'a> {
    pub(super) layout: &'a Layout,
    pub(super) fields: &'a Fields,
    pub(super) externs: &'a Externs,
    pub(super) set: &'a ActionSet,
    pub(super) tables: &'a BTreeMap<TableNumber, TableShapes<'a>>,
    pub(super) translated: &'a BTreeMap<TableNumber, TableId>,
    pub(super) successors: &'a BTreeMap<TableNumber, Vec<Successor>>,
    pub(super) on_miss: OnMiss,
}

pub(super) fn declare_fields(program: &mut Program, layout: &Layout) -> (Fields, Intrinsics) {
    let frame = Frame::declare(program, layout);
    let prefix = PREFIX_PARTS.iter().scan(0, |end, width| {
        *end += width;
        Some(*end)
    });
    let prefix =
        (!frame.segments.is_empty()).then(|| declare_header(program, "output.prefix", 0, prefix));
    let mut field = |name: &str, width: u32| {
        program.fields.push(Field {
            name: name.to_owned(),
            ty: ScalarTy::Bit(width),
        })
    };
    let in_place = prefix.map(|(prefix, has_prefix)| InPlace {
        is_in_place: field("output.is_in_place", 8),
        prefix,
        has_prefix,
    });
    let out_width = frame.width + PREFIX_BITS.max(layout.prefix);
    let mut elements = |name: &str, width: u32| {
        let one = |at: u32| field(&format!("output[{at}].{name}"), width);
        let all: Vec<FieldId> = (0..layout.outputs).map(one).collect();
        all[0]
    };
    let (bytes, length) = (elements("bytes", out_width), elements("length", NUMBER));
    let port = elements("port", NUMBER);
    let outputs = Outputs {
        bytes,
        width: out_width,
        length,
        port,
        count: field("output.count", NUMBER),
        most: layout.outputs,
        may_send_more: layout.may_send_more,
    };
    let largest_piece = (out_width / 8).ilog2();
    let (rest, rest_length) = match outputs.most {
        1 => (outputs.bytes, outputs.length),
        _ => (
            field("deparser.rest", out_width),
            field("deparser.length", NUMBER),
        ),
    };
    let intrinsics = Intrinsics {
        ingress_port: field("standard_metadata.ingress_port", NUMBER),
        egress_port: field("standard_metadata.egress_port", NUMBER),
        instance_type: field("standard_metadata.instance_type", NUMBER),
        replica: field("standard_metadata.egress_rid", 16),
        current: field("output.current", NUMBER),
        rest,
        rest_length,
        pieces: (0..=largest_piece)
            .map(|n| field(&format!("piece[{n}]"), 8 << n))
            .collect(),
        whole: field("piece.whole", 8 * layout.parsed),
    };
    let fields = Fields {
        frame,
        outputs,
        next: field("next", 16),
        index: field("index", NUMBER),
        port: field("port", NUMBER),
        instruction: field("instruction", NUMBER),
        scratch: field("scratch", NUMBER),
        sum: field("sum", SUM_BITS),
        egress_spec: field("standard_metadata.egress_spec", NUMBER),
        group: field("standard_metadata.mcast_grp", 16),
        parsed: layout.parsed,
        in_place,
    };
    for (name, id) in [
        ("ingress_port", intrinsics.ingress_port),
        ("egress_port", intrinsics.egress_port),
        ("instance_type", intrinsics.instance_type),
        ("egress_rid", intrinsics.replica),
        ("egress_spec", fields.egress_spec),
        ("mcast_grp", fields.group),
    ] {
        let name = format!("standard_metadata.{name}");
        program.pipeline.intrinsics.insert(name, id);
    }
    let outputs = &fields.outputs;
    let firsts = [outputs.bytes, outputs.length, outputs.port];
    let kept = firsts.into_iter().flat_map(|first| {
        let ids = first.get()..first.get() + outputs.most;
        ids.map(FieldId::new)
    });
    let others = [outputs.count, intrinsics.current, fields.port];
    let kept = kept.chain(others).collect();
    program.pipeline.field_lists.insert(KEPT, kept);
    (fields, intrinsics)
}

pub(super) fn add_blocks(program: &mut Program, lookups: &Lookups<'_>, intrinsics: &Intrinsics) {
    let parser = program.parsers.push(parser(lookups.fields, intrinsics));
    let ingress = program.controls.push(ingress(lookups, intrinsics));
    let egress = program
        .controls
        .push(code_control("egress", egress(lookups.fields, intrinsics)));
    let deparser = deparser(lookups.fields, intrinsics);
    let deparser = program.controls.push(code_control("deparser", deparser));
    let mut block = |role, code| {
        let step = StepId::new(0);
        program.pipeline.blocks.push(Block { step, role, code });
    };
    block(BlockRole::Parser, BlockCode::Parser(parser));
    block(BlockRole::Ingress, BlockCode::Control(ingress));
    block(BlockRole::Egress, BlockCode::Control(egress));
    block(BlockRole::Deparser, BlockCode::Control(deparser));
}

fn code_control(name: &str, body: Vec<Stmt>) -> Control {
    let stage = Stage {
        name: format!("{name}.code"),
        kind: StageKind::Action {
            body,
            next: Next::End,
        },
        loc: None,
    };
    Control {
        name: name.to_owned(),
        stages: vec![stage].into(),
    }
}

/// Returns the control that looks up the tables.
fn ingress(lookups: &Lookups<'_>, intrinsics: &Intrinsics) -> Control {
    let line = Line::of(lookups);
    Control {
        name: "ingress".to_owned(),
        stages: line.stages(lookups, intrinsics).into(),
    }
}

/// The stages of the ingress control, by their positions.
struct Line {
    /// Tables that packets get to, in an order in which most links lead forward.
    order: Vec<TableNumber>,
    /// Position of the first stage of each table.
    first: BTreeMap<TableNumber, u32>,
    /// The stage that runs the action set, if there is one.
    finish: Next,
}

/// Position of the stage that starts a received packet.
const BEGIN: u32 = 1;
/// Position of the stage that sends a copy that came back.
const RESEND: u32 = 2;
/// Position of the stage that distinguishes a packet-out from a received packet.
const SOURCE: u32 = 3;
/// Number of stages before those of tables.
const FIXED: u32 = 4;
/// Number of stages of a table that has shapes: check, outside, lookup.
const OF_TABLE: u32 = 3;

impl Line {
    fn of(lookups: &Lookups<'_>) -> Line {
        let mut order = Vec::new();
        let mut seen = BTreeSet::new();
        if lookups.translated.contains_key(&TableNumber::PACKET_OUT) {
            visit(TableNumber::PACKET_OUT, lookups, &mut seen, &mut order);
        }
        visit(TableNumber::FIRST, lookups, &mut seen, &mut order);
        order.reverse();
        let mut next = FIXED;
        let mut first = BTreeMap::new();
        for table in &order {
            first.insert(*table, next);
            next += Line::length(*table, lookups);
        }
        let finish = match lookups.set.slots.is_empty() {
            true => Next::End,
            false => Next::Stage(StageId::new(next)),
        };
        Line {
            order,
            first,
            finish,
        }
    }

    /// Returns the number of stages of a table.
    fn length(table: TableNumber, lookups: &Lookups<'_>) -> u32 {
        let successors = lookups.successors.get(&table);
        let dynamic = successors.map(|after| dynamic_targets(after).len() as u32);
        dynamic.map_or(1, |dynamic| OF_TABLE + dynamic)
    }

    fn to(&self, table: TableNumber) -> Next {
        let first = self.first.get(&table).copied();
        first.map_or(Next::End, |first| Next::Stage(StageId::new(first)))
    }

    fn stages(&self, lookups: &Lookups<'_>, intrinsics: &Intrinsics) -> Vec<Stage> {
        let fields = lookups.fields;
        let frame = &fields.frame;
        let stage = |name: String, kind| Stage {
            name,
            kind,
            loc: None,
        };
        let outputs = &fields.outputs;
        let port = outputs.element(outputs.port, intrinsics.current);
        let resend = output::send_first(fields, Destination::Any(Expr::Read(port)));
        let ingress_port = || read(intrinsics.ingress_port);
        let is_packet_out = binary(BinOp::Ge, ingress_port(), number(PACKET_OUT_PORTS));
        let is_too_long = binary(BinOp::Gt, read(frame.total), number(MAX_PACKET));
        let too_long = code::fault(Fault::TooLong, TableNumber::FIRST, lookups.externs);
        let begin = vec![
            assign(fields.port, and(ingress_port(), number(u16::MAX.into()))),
            assign(fields.egress_spec, ones(NUMBER, NUMBER)),
            frame.note_length(),
            frame.note_port(ingress_port()),
            when(is_too_long, too_long),
        ];
        let is_back = is_equal(
            read(intrinsics.instance_type),
            number(instance::RECIRCULATED),
        );
        let mut stages = vec![
            stage(
                "arrived".to_owned(),
                StageKind::Condition {
                    cond: is_back,
                    then: Next::Stage(StageId::new(RESEND)),
                    otherwise: Next::Stage(StageId::new(BEGIN)),
                },
            ),
            stage(
                "begin".to_owned(),
                StageKind::Action {
                    body: begin,
                    next: Next::Stage(StageId::new(SOURCE)),
                },
            ),
            stage(
                "resend".to_owned(),
                StageKind::Action {
                    body: resend,
                    next: Next::End,
                },
            ),
            stage(
                "source".to_owned(),
                StageKind::Condition {
                    cond: is_packet_out,
                    then: self.to(TableNumber::PACKET_OUT),
                    otherwise: self.to(TableNumber::FIRST),
                },
            ),
        ];
        for table in &self.order {
            self.table_stages(*table, lookups, &mut stages);
        }
        if self.finish != Next::End {
            stages.push(stage(
                "action_set".to_owned(),
                StageKind::Action {
                    body: code::run_action_set(lookups.set, fields, lookups.externs),
                    next: Next::End,
                },
            ));
        }
        stages
    }

    fn table_stages(&self, table: TableNumber, lookups: &Lookups<'_>, stages: &mut Vec<Stage>) {
        let name = |what: &str| format!("t{}.{what}", table.0);
        let at = stages.len() as u32;
        let mut push = |what: &str, kind| {
            stages.push(Stage {
                name: name(what),
                kind,
                loc: None,
            });
        };
        let known = (
            lookups.tables.get(&table),
            lookups.translated.get(&table),
            lookups.successors.get(&table),
        );
        let (Some(shapes), Some(translated), Some(successors)) = known else {
            push(
                "missing",
                StageKind::Action {
                    body: missing(table, lookups),
                    next: Next::End,
                },
            );
            return;
        };
        let state = lookups.layout.at_table(table);
        let needed = shapes.fields.iter().filter_map(|field| {
            let is_packet = field.place() == crate::model::Place::Packet;
            is_packet.then(|| field.end())
        });
        let needed = needed.max().unwrap_or(0);
        let never = truth(false);
        let is_inside = match (needed, state) {
            (0, _) | (_, None) => truth(true),
            (needed, Some(state)) => {
                let frame = &lookups.fields.frame;
                frame.has_bits(state.at, needed).unwrap_or(never)
            }
        };
        push(
            "check",
            StageKind::Condition {
                cond: is_inside,
                then: Next::Stage(StageId::new(at + 2)),
                otherwise: Next::Stage(StageId::new(at + 1)),
            },
        );
        push(
            "outside",
            StageKind::Action {
                body: code::fault(Fault::FieldOutside, table, lookups.externs),
                next: Next::End,
            },
        );
        let dispatch = Next::Stage(StageId::new(at + OF_TABLE));
        let next = successors.iter().map(|successor| match successor {
            Successor::Miss => Next::End,
            Successor::End => self.finish,
            Successor::Table(table) => self.to(*table),
            Successor::Dynamic(tables) if tables.is_empty() => self.finish,
            Successor::Dynamic(_) => dispatch,
        });
        push(
            "lookup",
            StageKind::Match {
                table: *translated,
                outcome: MatchOutcome::default(),
                next: MatchNext::ByAction(next.collect()),
            },
        );
        let targets = dynamic_targets(successors);
        let count = targets.len() as u32;
        for (position, target) in targets.into_iter().enumerate() {
            let position = position as u32;
            let expected = bit(16, u128::from(target.0) + 1);
            let otherwise = match position + 1 < count {
                true => Next::Stage(StageId::new(at + OF_TABLE + position + 1)),
                false => self.finish,
            };
            push(
                &format!("to_t{}", target.0),
                StageKind::Condition {
                    cond: is_equal(read(lookups.fields.next), expected),
                    then: self.to(target),
                    otherwise,
                },
            );
        }
    }
}

/// Returns the code of a table without entries.
fn missing(table: TableNumber, lookups: &Lookups<'_>) -> Vec<Stmt> {
    match lookups.on_miss {
        OnMiss::Drop => Vec::new(),
        OnMiss::PacketIn => {
            let too_many = code::fault(Fault::TooManyOutputs, table, lookups.externs);
            let state = lookups.layout.at_table(table).unwrap_or(State::ANYWHERE);
            output::packet_in(
                lookups.fields,
                state,
                true,
                bit(8, 0),
                table,
                bit(64, 0),
                too_many,
            )
        }
    }
}

fn dynamic_targets(successors: &[Successor]) -> BTreeSet<TableNumber> {
    let targets = successors.iter().filter_map(|successor| match successor {
        Successor::Dynamic(tables) => Some(tables),
        _ => None,
    });
    targets.flatten().copied().collect()
}

/// Adds a table after all tables that it leads to.
fn visit(
    table: TableNumber,
    lookups: &Lookups<'_>,
    seen: &mut BTreeSet<TableNumber>,
    order: &mut Vec<TableNumber>,
) {
    if !seen.insert(table) {
        return;
    }
    for successor in lookups.successors.get(&table).into_iter().flatten() {
        match successor {
            Successor::Miss | Successor::End => {}
            Successor::Table(next) => visit(*next, lookups, seen, order),
            Successor::Dynamic(tables) => {
                tables
                    .iter()
                    .for_each(|next| visit(*next, lookups, seen, order));
            }
        }
    }
    order.push(table);
}
