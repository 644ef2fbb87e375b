//! The blocks of the program: parser, ingress with the line of tables, egress and deparser.

use std::collections::{BTreeMap, BTreeSet};

use ir::{
    BinOp, Block, BlockCode, BlockRole, Control, Expr, Field, FieldId, KeySet, Keyset, MatchNext,
    MatchOutcome, Next, Op, Operand, Parser, Program, ScalarTy, SelectCase, Stage, StageId,
    StageKind, State as ParserState, StateId, StepId, Stmt, StmtKind, TableId, Target, Transition,
};

use super::action_set::ActionSet;
use super::code::{self, Destination, Externs, Fields, Outputs, PREFIX_BITS, SUM_BITS, Successor};
use super::expr::*;
use super::frame::Frame;
use super::layout::{Layout, MAX_PACKET, State, TableShapes};
use super::{Fault, OnMiss, PACKET_OUT_PORTS, WAITING_PORT, WAITING_SESSION};
use crate::tables::TableNumber;

/// Values of `standard_metadata.instance_type`.
mod instance {
    pub(super) const NORMAL: u32 = 0;
    pub(super) const EGRESS_CLONE: u32 = 2;
    pub(super) const RECIRCULATED: u32 = 4;
}

/// Number of the field list that recirculated copies keep.
const KEPT: u32 = 1;
/// `egress_rid` of the copy of a multicast that goes on with the next output.
pub(crate) const FIRST_REPLICA: u32 = 1;

/// Fields that the pipeline alone uses.
pub(super) struct Intrinsics {
    ingress_port: FieldId,
    egress_port: FieldId,
    instance_type: FieldId,
    replica: FieldId,
    /// Number of the output that this copy sends.
    current: FieldId,
    /// Bytes of the output that are not yet written.
    rest: FieldId,
    rest_length: FieldId,
    /// Pieces of 2^n bytes, by n, for parsing and deparsing.
    pieces: Vec<FieldId>,
    /// A piece of all bytes that are parsed.
    whole: FieldId,
    parsed: u32,
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
    let mut field = |name: &str, width: u32| {
        program.fields.push(Field {
            name: name.to_owned(),
            ty: ScalarTy::Bit(width),
        })
    };
    let width = Frame::width_of(layout);
    let frame = Frame {
        bytes: field("packet.bytes", width),
        width,
        held: field("packet.held", NUMBER),
        total: field("packet.total", NUMBER),
        offset: field("packet.offset", NUMBER),
        metadata: field("packet.metadata", layout.metadata),
        metadata_width: layout.metadata,
    };
    let out_width = width + PREFIX_BITS.max(layout.prefix);
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
    let intrinsics = Intrinsics {
        ingress_port: field("standard_metadata.ingress_port", NUMBER),
        egress_port: field("standard_metadata.egress_port", NUMBER),
        instance_type: field("standard_metadata.instance_type", NUMBER),
        replica: field("standard_metadata.egress_rid", 16),
        current: field("output.current", NUMBER),
        rest: field("deparser.rest", out_width),
        rest_length: field("deparser.length", NUMBER),
        pieces: (0..=largest_piece)
            .map(|n| field(&format!("piece[{n}]"), 8 << n))
            .collect(),
        whole: field("piece.whole", 8 * layout.parsed),
        parsed: layout.parsed,
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

/// Returns a parser that takes the packet's first bytes: at once if there are enough, else in
/// pieces of decreasing powers of two. A copy that comes back is not parsed again.
fn parser(fields: &Fields, intrinsics: &Intrinsics) -> Parser {
    let frame = &fields.frame;
    let parsed = intrinsics.parsed;
    let lookahead = |to: FieldId, bits: u32| {
        vec![
            stmt(StmtKind::Lookahead {
                total: bits,
                dests: vec![(to.into(), 0)],
            }),
            stmt(StmtKind::Advance(number(bits))),
        ]
    };
    // Pieces of a packet that is shorter than what is parsed.
    let pieces = match parsed {
        1 => 0,
        parsed => (parsed - 1).ilog2() + 1,
    };
    let (start, enough, short) = (StateId::new(0), StateId::new(1), StateId::new(2));
    let state = |name: String, body, transition| ParserState {
        name,
        body,
        transition,
        loc: None,
    };
    let select = |key: Expr, cases: Vec<(KeySet, Target)>| Transition::Select {
        keys: vec![key],
        cases: cases
            .into_iter()
            .map(|(set, target)| SelectCase {
                keyset: Keyset::Sets(vec![set]),
                target,
            })
            .collect(),
    };
    let mut states = vec![
        state(
            "start".to_owned(),
            vec![stmt(StmtKind::PacketLength(frame.total.into()))],
            select(
                read(intrinsics.instance_type),
                vec![
                    (
                        KeySet::Value(number(instance::RECIRCULATED)),
                        Target::Accept,
                    ),
                    (KeySet::Any, Target::State(StateId::new(3))),
                ],
            ),
        ),
        {
            let mut body = lookahead(intrinsics.whole, 8 * parsed);
            let spare = frame.width - 8 * parsed;
            let bytes = join([
                Some(read(intrinsics.whole)),
                (spare > 0).then(|| zeros(spare)),
            ]);
            body.push(assign(frame.bytes, bytes.unwrap_or(zeros(frame.width))));
            body.push(assign(frame.held, number(parsed)));
            let accept = Transition::Direct(Target::Accept);
            state("enough".to_owned(), body, accept)
        },
        state(
            "short".to_owned(),
            vec![assign(frame.held, read(frame.total))],
            Transition::Direct(Target::State(StateId::new(4))),
        ),
        state(
            "measured".to_owned(),
            Vec::new(),
            select(
                binary(BinOp::Ge, read(frame.total), number(parsed)),
                vec![
                    (
                        KeySet::Value(Expr::Const(ScalarTy::Bool, bits::Value::truncated(1, 1))),
                        Target::State(enough),
                    ),
                    (KeySet::Any, Target::State(short)),
                ],
            ),
        ),
    ];
    for piece in (0..pieces).rev() {
        let bits = 8u32 << piece;
        let (test, take) = (states.len() as u32, states.len() as u32 + 1);
        let after = Target::State(StateId::new(take + 1));
        let has_piece = slice(read(frame.total), 1, piece);
        states.push(state(
            format!("piece_{piece}"),
            Vec::new(),
            select(
                has_piece,
                vec![
                    (KeySet::Value(bit(1, 1)), Target::State(StateId::new(take))),
                    (KeySet::Any, after),
                ],
            ),
        ));
        debug_assert_eq!(test + 1, take);
        let field = intrinsics.pieces[piece as usize];
        let mut body = lookahead(field, bits);
        let longer = shl(read(frame.bytes), number(bits));
        let longer = or(longer, cast(frame.width, read(field)));
        body.push(assign(frame.bytes, longer));
        states.push(state(
            format!("take_{piece}"),
            body,
            Transition::Direct(after),
        ));
    }
    let free = sub(number(frame.width), shl(read(frame.total), bit(8, 3)));
    states.push(state(
        "aligned".to_owned(),
        vec![assign(frame.bytes, shl(read(frame.bytes), free))],
        Transition::Direct(Target::Accept),
    ));
    Parser {
        name: "parser".to_owned(),
        states: states.into(),
        start,
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
        let resend = code::send_first(fields, Destination::Any(Expr::Read(port)));
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
        let always = || Expr::Const(ScalarTy::Bool, bits::Value::truncated(1, 1));
        let never = Expr::Const(ScalarTy::Bool, bits::Value::zero(1));
        let is_inside = match (needed, state) {
            (0, _) | (_, None) => always(),
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
            code::packet_in(
                lookups.fields,
                state,
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

/// Returns the code of egress: it makes the copy that sends the next output.
fn egress(fields: &Fields, intrinsics: &Intrinsics) -> Vec<Stmt> {
    let is_instance = |kind| is_equal(read(intrinsics.instance_type), number(kind));
    let list = || Operand::Number(u64::from(KEPT) + 1);
    let next = add(read(intrinsics.current), number(1));
    let come_back = vec![
        assign(intrinsics.current, next.clone()),
        call(Op::Recirculate, None, vec![list()]),
    ];
    let is_first = is_equal(read(intrinsics.replica), bit(16, FIRST_REPLICA.into()));
    let leads = binary(BinOp::LogicalOr, is_instance(instance::NORMAL), is_first);
    let has_more = binary(BinOp::Lt, next, read(fields.outputs.count));
    let session = Operand::In(number(WAITING_SESSION));
    // Type 1 is a clone of egress.
    let copy = call(Op::Clone, None, vec![Operand::Number(1), list(), session]);
    let is_waiting = is_equal(read(intrinsics.egress_port), number(WAITING_PORT));
    let send = vec![
        when(binary(BinOp::LogicalAnd, leads, has_more), vec![copy]),
        when(is_waiting, vec![call(Op::MarkToDrop, None, Vec::new())]),
    ];
    vec![stmt(StmtKind::If(
        is_instance(instance::EGRESS_CLONE),
        come_back,
        send,
    ))]
}

/// Returns the code of the deparser: the bytes of the current output, at once if there are as many
/// as were parsed, else in pieces of decreasing powers of two. A copy that comes back writes none.
fn deparser(fields: &Fields, intrinsics: &Intrinsics) -> Vec<Stmt> {
    let outputs = &fields.outputs;
    let element = |first| Expr::Read(outputs.element(first, intrinsics.current));
    let (rest, length) = (intrinsics.rest, intrinsics.rest_length);
    let parsed = 8 * intrinsics.parsed;
    let at_once = vec![
        assign(
            intrinsics.whole,
            slice(read(rest), parsed, outputs.width - parsed),
        ),
        stmt(StmtKind::EmitField(intrinsics.whole.into())),
    ];
    let mut in_pieces = Vec::new();
    for (n, piece) in intrinsics.pieces.iter().enumerate().rev() {
        let bits = 8u32 << n;
        let first = slice(read(rest), bits, outputs.width - bits);
        let has_piece = is_equal(slice(read(length), 1, n as u32), bit(1, 1));
        let emit = vec![
            assign(*piece, first),
            stmt(StmtKind::EmitField((*piece).into())),
            assign(rest, shl(read(rest), number(bits))),
        ];
        in_pieces.push(when(has_piece, emit));
    }
    let is_as_parsed = is_equal(read(length), number(intrinsics.parsed));
    let write = vec![
        assign(rest, element(outputs.bytes)),
        assign(length, element(outputs.length)),
        stmt(StmtKind::If(is_as_parsed, at_once, in_pieces)),
    ];
    let is_copy = is_equal(
        read(intrinsics.instance_type),
        number(instance::EGRESS_CLONE),
    );
    vec![when(not(is_copy), write)]
}
