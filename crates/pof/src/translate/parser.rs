//! The parser: it takes the first bytes of a packet.

use ir::{
    BinOp, FieldId, KeySet, Keyset, Parser, SelectCase, State as ParserState, StateId, Stmt,
    StmtKind, Target, Transition,
};

use super::code::Fields;
use super::expr::*;
use super::frame::Segment;
use super::pipeline::{Intrinsics, instance};

fn select(key: ir::Expr, cases: [(KeySet, Target); 2]) -> Transition {
    Transition::Select {
        keys: vec![key],
        cases: cases
            .into_iter()
            .map(|(set, target)| SelectCase {
                keyset: Keyset::Sets(vec![set]),
                target,
            })
            .collect(),
    }
}

fn state(name: String, body: Vec<Stmt>, transition: Transition) -> ParserState {
    ParserState {
        name,
        body,
        transition,
        loc: None,
    }
}

/// Returns the first state: a copy that comes back is not parsed again.
fn start(fields: &Fields, intrinsics: &Intrinsics, next: StateId) -> ParserState {
    let is_back = KeySet::Value(number(instance::RECIRCULATED));
    state(
        "start".to_owned(),
        vec![stmt(StmtKind::PacketLength(fields.frame.total.into()))],
        select(
            read(intrinsics.instance_type),
            [
                (is_back, Target::Accept),
                (KeySet::Any, Target::State(next)),
            ],
        ),
    )
}

/// Returns a state that goes to `enough` if the packet has this many bytes.
fn measure(
    name: String,
    fields: &Fields,
    bytes: u32,
    enough: Target,
    short: Target,
) -> ParserState {
    let is_enough = binary(BinOp::Ge, read(fields.frame.total), number(bytes));
    let cases = [(KeySet::Value(truth(true)), enough), (KeySet::Any, short)];
    state(name, Vec::new(), select(is_enough, cases))
}

/// Returns the parser.
pub(super) fn parser(fields: &Fields, intrinsics: &Intrinsics) -> Parser {
    let states = match fields.frame.segments.is_empty() {
        true => number_states(fields, intrinsics),
        false => header_states(fields, intrinsics),
    };
    Parser {
        name: "parser".to_owned(),
        states: states.into(),
        start: StateId::new(0),
    }
}

/// Returns the states that extract all headers of the packet's first bytes, or as many as a shorter
/// packet has.
fn header_states(fields: &Fields, intrinsics: &Intrinsics) -> Vec<ParserState> {
    let frame = &fields.frame;
    let segments = frame.segments.iter();
    let parsed: Vec<&Segment> = segments.filter(|one| one.end <= fields.parsed).collect();
    let extract = |one: &Segment| stmt(StmtKind::Extract(one.header.into(), None));
    let hold = |bytes| assign(frame.held, number(bytes));
    let (all, first) = (StateId::new(2), StateId::new(3));
    let mut body: Vec<Stmt> = parsed.iter().map(|one| extract(one)).collect();
    body.push(hold(fields.parsed));
    let mut states = vec![
        start(fields, intrinsics, StateId::new(1)),
        measure(
            "measured".to_owned(),
            fields,
            fields.parsed,
            Target::State(all),
            Target::State(first),
        ),
        state("all".to_owned(), body, Transition::Direct(Target::Accept)),
    ];
    for (at, one) in parsed.into_iter().enumerate() {
        let (take, next) = (states.len() as u32 + 1, states.len() as u32 + 2);
        let take = Target::State(StateId::new(take));
        let test = format!("test_{at}");
        states.push(measure(test, fields, one.end, take, Target::Accept));
        // The whole packet is not that long.
        let next = match one.end == fields.parsed {
            true => Target::Accept,
            false => Target::State(StateId::new(next)),
        };
        let body = vec![extract(one), hold(one.end)];
        states.push(state(format!("take_{at}"), body, Transition::Direct(next)));
    }
    states
}

/// Returns the states that take the packet's first bytes as a number: at once if there are enough,
/// else in pieces of decreasing powers of two.
fn number_states(fields: &Fields, intrinsics: &Intrinsics) -> Vec<ParserState> {
    let frame = &fields.frame;
    let parsed = fields.parsed;
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
    let (enough, short) = (StateId::new(1), StateId::new(2));
    let mut take_all = lookahead(intrinsics.whole, 8 * parsed);
    let spare = frame.width - 8 * parsed;
    let spare = (spare > 0).then(|| zeros(spare));
    let bytes = join([Some(read(intrinsics.whole)), spare]);
    take_all.extend(
        bytes
            .into_iter()
            .flat_map(|bytes| frame.set_all_bits(bytes)),
    );
    take_all.push(assign(frame.held, number(parsed)));
    let mut states = vec![
        start(fields, intrinsics, StateId::new(3)),
        state(
            "enough".to_owned(),
            take_all,
            Transition::Direct(Target::Accept),
        ),
        state(
            "short".to_owned(),
            vec![assign(frame.held, read(frame.total))],
            Transition::Direct(Target::State(StateId::new(4))),
        ),
        measure(
            "measured".to_owned(),
            fields,
            parsed,
            Target::State(enough),
            Target::State(short),
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
                [
                    (KeySet::Value(bit(1, 1)), Target::State(StateId::new(take))),
                    (KeySet::Any, after),
                ],
            ),
        ));
        debug_assert_eq!(test + 1, take);
        let field = intrinsics.pieces[piece as usize];
        let mut body = lookahead(field, bits);
        let longer = shl(frame.all_bits(), number(bits));
        let longer = or(longer, cast(frame.width, read(field)));
        body.extend(frame.set_all_bits(longer));
        states.push(state(
            format!("take_{piece}"),
            body,
            Transition::Direct(after),
        ));
    }
    let free = sub(number(frame.width), shl(read(frame.total), bit(8, 3)));
    states.push(state(
        "aligned".to_owned(),
        frame.set_all_bits(shl(frame.all_bits(), free)),
        Transition::Direct(Target::Accept),
    ));
    states
}
