//! The parser of both halves: it also reads frames between switch and servers.
//!
//! The first header of a packet must be Ethernet: 14 bytes, with the EtherType last. The parser
//! reads a frame's header after it, and then the packet's own bytes, as those of any packet.

use bits::Value;
use ir::{
    BinOp, BlockCode, BlockRole, Call, Expr, Field, FieldId, HeaderId, KeySet, Keyset, Op, Operand,
    ParserId, Place, Program, ScalarTy, SelectCase, State, StateId, Stmt, StmtKind, Target,
    Transition,
};

use super::error::SplitError;
use super::layout::{ADDED, FrameHeader};
use crate::uses::{Uses, fields_of};

const REMEDY: &str = "begin the parser with `packet.extract` of an Ethernet header: 14 bytes, the \
                      EtherType in the last two";

/// The start of the program's parser.
pub(super) struct Start {
    parser: ParserId,
    /// Statements of the first states, without the extraction of Ethernet.
    others: Vec<Stmt>,
    transition: Transition,
    extract: Stmt,
    ether_type: FieldId,
}

/// Kind of a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    Switch,
    /// The switch half without operations of ours.
    FixedSwitch,
    Server,
}

pub(super) fn assign(to: FieldId, value: Expr) -> Stmt {
    statement(StmtKind::Assign(Place::from(to), value))
}

pub(super) fn read(field: FieldId) -> Expr {
    Expr::Read(Place::from(field))
}

pub(super) fn constant(value: u64, width: u32) -> Expr {
    Expr::Const(
        ScalarTy::Bit(width),
        Value::truncated(u128::from(value), width),
    )
}

pub(super) fn statement(kind: StmtKind) -> Stmt {
    Stmt { kind, loc: None }
}

pub(super) fn call(op: Op, operands: Vec<Operand>) -> Stmt {
    statement(StmtKind::Call(Call {
        op,
        instance: None,
        operands,
    }))
}

/// Returns the assignment of a slot of the frame's header to a field of any type.
pub(super) fn restore(program: &Program, field: FieldId, slot: FieldId) -> Stmt {
    let ty = program.fields[field].ty;
    let value = match ty == program.fields[slot].ty {
        true => read(slot),
        false => Expr::Cast(ty, Box::new(read(slot))),
    };
    assign(field, value)
}

impl Start {
    /// Finds the extraction of Ethernet.
    ///
    /// # Errors
    /// The parser does not begin with Ethernet.
    pub(super) fn of(program: &Program) -> Result<Start, SplitError> {
        let mut blocks = program.pipeline.blocks.iter();
        let parser = blocks.find_map(|block| match block.code {
            BlockCode::Parser(id) if block.role == BlockRole::Parser => Some(id),
            _ => None,
        });
        let refused = |loc, message: &str| Err(SplitError::new(program, loc, message, REMEDY));
        let Some(parser) = parser else {
            return refused(None, "the program has no parser");
        };
        let states = &program.parsers[parser].states;
        let mut id = program.parsers[parser].start;
        let mut before: Vec<Stmt> = Vec::new();
        // An empty state may lead to the one that extracts; each is visited once.
        for _ in 0..states.len() {
            let state = &states[id];
            let at = state
                .body
                .iter()
                .position(|stmt| !matches!(stmt.kind, StmtKind::Assign(..)));
            let Some(at) = at else {
                before.extend(state.body.iter().cloned());
                let Transition::Direct(Target::State(next)) = state.transition else {
                    break;
                };
                id = next;
                continue;
            };
            let extract = &state.body[at];
            let StmtKind::Extract(header, None) = &extract.kind else {
                break;
            };
            let Some(ether_type) = ether_type(program, header.base) else {
                break;
            };
            if !header.dims.is_empty() {
                break;
            }
            before.extend(state.body[..at].iter().cloned());
            if depends_on(program, &before, header.base) {
                break;
            }
            before.extend(state.body[at + 1..].iter().cloned());
            return Ok(Start {
                parser,
                others: before,
                transition: state.transition.clone(),
                extract: extract.clone(),
                ether_type,
            });
        }
        refused(
            states[id].loc,
            "the first header that the parser extracts is not Ethernet",
        )
    }

    /// Returns the parser.
    pub(super) fn parser(&self) -> ParserId {
        self.parser
    }

    /// Makes a program's parser read frames.
    pub(super) fn extend(&self, program: &mut Program, frame: &FrameHeader, half: Half) {
        self.correct_lengths(program, frame);
        let valid = frame.valid(program);
        let own_type = frame.own_type(program);
        let mut resume = vec![
            statement(StmtKind::Extract(frame.header.into(), None)),
            assign(self.ether_type, self.cast(program, own_type)),
        ];
        if half != Half::FixedSwitch {
            resume.extend(set_length(program, frame));
        }
        let mut fresh = Vec::new();
        for arrival in &frame.arrivals {
            let carried = frame.carried.iter();
            let slot = carried
                .filter(|carried| carried.field == arrival.copy)
                .map(|carried| carried.slot)
                .next();
            let Some(slot) = slot else { continue };
            fresh.push(assign(arrival.copy, read(arrival.input)));
            resume.push(restore(program, arrival.input, slot));
            resume.push(assign(arrival.copy, read(arrival.input)));
        }
        // Statements before the extraction of Ethernet come after it: the frame's header has their
        // inputs.
        let mut others = self.others.clone();
        correct_body(&mut others, valid, frame.layout.header_bytes);
        let states = &mut program.parsers[self.parser].states;
        let state = |name: &str, body: Vec<Stmt>, transition: Transition| State {
            name: format!("{ADDED}.{name}"),
            body,
            transition,
            loc: None,
        };
        let rest = states.push(state("rest", others, self.transition.clone()));
        let to_rest = Transition::Direct(Target::State(rest));
        let resume = states.push(state("frame", resume, to_rest));
        let start: StateId = match half {
            Half::Server => states.push(state(
                "start",
                vec![self.extract.clone()],
                Transition::Direct(Target::State(resume)),
            )),
            Half::Switch | Half::FixedSwitch => {
                let ty = program.fields[self.ether_type].ty;
                let is_frame = Expr::Const(
                    ty,
                    Value::truncated(u128::from(frame.layout.response_type), 16),
                );
                let case = |set: KeySet, to: StateId| SelectCase {
                    keyset: Keyset::Sets(vec![set]),
                    target: Target::State(to),
                };
                let transition = Transition::Select {
                    keys: vec![read(self.ether_type)],
                    cases: vec![
                        case(KeySet::Value(is_frame), resume),
                        case(KeySet::Any, rest),
                    ],
                };
                fresh.push(self.extract.clone());
                states.push(state("start", fresh, transition))
            }
        };
        program.parsers[self.parser].start = start;
    }

    /// Casts the packet's own EtherType to the type of the program's field.
    fn cast(&self, program: &Program, own_type: FieldId) -> Expr {
        match program.fields[self.ether_type].ty {
            ScalarTy::Bit(16) => read(own_type),
            ty => Expr::Cast(ty, Box::new(read(own_type))),
        }
    }

    /// Takes the frame's header off the packet's length where the parser asks for it.
    fn correct_lengths(&self, program: &mut Program, frame: &FrameHeader) {
        let valid = frame.valid(program);
        let bytes = frame.layout.header_bytes;
        let states = &mut program.parsers[self.parser].states;
        for (_, state) in states.iter_mut() {
            correct_body(&mut state.body, valid, bytes);
        }
    }
}

/// Returns the code that sets the packet's length to that without the frame's header.
fn set_length(program: &mut Program, frame: &FrameHeader) -> [Stmt; 2] {
    let length = program.fields.push(Field {
        name: format!("{ADDED}.length"),
        ty: ScalarTy::Bit(32),
    });
    [
        statement(StmtKind::PacketLength(Place::from(length))),
        call(
            Op::SetPacketLength,
            vec![Operand::In(Expr::Binary(
                BinOp::Sub,
                Box::new(read(length)),
                Box::new(constant(u64::from(frame.layout.header_bytes), 32)),
            ))],
        ),
    ]
}

fn correct_body(body: &mut Vec<Stmt>, valid: FieldId, bytes: u32) {
    let mut corrected = Vec::with_capacity(body.len());
    for mut stmt in std::mem::take(body) {
        match &mut stmt.kind {
            StmtKind::If(_, then, otherwise) => {
                correct_body(then, valid, bytes);
                correct_body(otherwise, valid, bytes);
            }
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
                correct_body(body, valid, bytes);
            }
            _ => {}
        }
        let place = match &stmt.kind {
            StmtKind::PacketLength(place) => Some(place.clone()),
            _ => None,
        };
        corrected.push(stmt);
        if let Some(place) = place {
            let more = Expr::Ternary(
                Box::new(read(valid)),
                Box::new(constant(u64::from(bytes), 32)),
                Box::new(constant(0, 32)),
            );
            let own = Expr::Binary(
                BinOp::Sub,
                Box::new(Expr::Read(place.clone())),
                Box::new(more),
            );
            corrected.push(statement(StmtKind::Assign(place, own)));
        }
    }
    *body = corrected;
}

/// Returns true if statements read or write a header.
fn depends_on(program: &Program, body: &[Stmt], header: HeaderId) -> bool {
    let fields: Vec<FieldId> = fields_of(program, header).collect();
    body.iter().any(|stmt| {
        let uses = Uses::of_stmt(program, stmt);
        let mut touched = uses.reads.iter().chain(&uses.writes);
        touched.any(|field| fields.contains(field))
    })
}

/// Returns the last field of a header of 14 bytes, if it has 16 bits.
fn ether_type(program: &Program, header: HeaderId) -> Option<FieldId> {
    let header = program.headers.get(header)?;
    let fields = &program.header_types.get(header.ty)?.fields;
    if fields
        .iter()
        .any(|field| matches!(field.ty, ScalarTy::Varbit(_)))
    {
        return None;
    }
    let bits: u32 = fields.iter().map(|field| field.ty.width()).sum();
    let last = fields.last()?;
    let is_ethernet = bits == 112 && last.ty == ScalarTy::Bit(16);
    is_ethernet.then(|| FieldId::new(header.valid.get() + fields.len() as u32))
}
