//! Outputs: the packets that a packet sends.
//!
//! An OUTPUT stores the bytes of the packet as it is then, since later instructions may change it.
//! If none does, and it is the only one, the headers of the packet are sent as they are.

use ir::{BinOp, Dim, Expr, FieldId, HeaderId, Place as IrPlace, Stmt, StmtKind};

use super::CONTROLLER_PORT;
use super::Fault;
use super::code::{Emitter, Fields};
use super::expr::*;
use super::layout::{At, State};
use super::shape::REAL_PORT;
use crate::model::*;
use crate::tables::TableNumber;

/// Width of the prefix of a packet for the controllers: reason, table, port, cookie, length.
pub(super) const PREFIX_BITS: u32 = 8 + 8 + 16 + 64 + 16;

/// Widths of its parts.
pub(super) const PREFIX_PARTS: [u32; 5] = [8, 8, 16, 64, 16];

/// Copies of the packet that wait to be sent.
#[derive(Clone, Debug)]
pub(super) struct Outputs {
    /// The bytes of the first one, left-aligned.
    pub(super) bytes: FieldId,
    /// Width of those.
    pub(super) width: u32,
    /// Number of bytes of the first one, without the unparsed rest.
    pub(super) length: FieldId,
    /// Port of the first one.
    pub(super) port: FieldId,
    /// Number of copies.
    pub(super) count: FieldId,
    /// Maximum number of copies.
    pub(super) most: u32,
    /// True if a packet may ask for more.
    pub(super) may_send_more: bool,
}

impl Outputs {
    /// Returns the field of a copy.
    pub(super) fn element(&self, first: FieldId, copy: FieldId) -> IrPlace {
        let dim = Dim {
            index: read(copy),
            len: self.most,
            stride: 1,
        };
        IrPlace {
            base: first,
            dims: vec![dim],
        }
    }
}

/// Fields of a packet that is sent as it is.
#[derive(Clone, Debug)]
pub(super) struct InPlace {
    /// 1 if this packet is.
    pub(super) is_in_place: FieldId,
    /// Header with the prefix of a packet for the controllers, and its validity.
    pub(super) prefix: HeaderId,
    pub(super) has_prefix: FieldId,
}

impl InPlace {
    /// Returns the code that puts these values in front of the packet.
    fn set_prefix(&self, values: &[Expr; PREFIX_PARTS.len()]) -> Vec<Stmt> {
        let parts = (self.has_prefix.get() + 1..).map(FieldId::new);
        let parts = parts
            .zip(values)
            .map(|(part, value)| assign(part, value.clone()));
        let mut code: Vec<Stmt> = parts.collect();
        code.push(assign(self.has_prefix, truth(true)));
        code
    }
}

/// The code that sends a packet as it is.
pub(super) struct Sent {
    code: Vec<Stmt>,
    /// The condition under which it can be sent so.
    only_if: Option<Expr>,
}

impl Fields {
    /// Returns the code that sends the packet from this byte on as it is, if that is possible: it
    /// is sent for the first time, and headers begin and end where the bytes that are sent do.
    fn sent_in_place(&self, state: State, first: u32) -> Option<Sent> {
        let in_place = self.in_place.as_ref()?;
        if state.count_of_outputs() != Some(0) {
            return None;
        }
        let growth = state.growth()?;
        let segments = &self.frame.segments;
        let parsed = segments
            .iter()
            .rfind(|segment| segment.end <= self.parsed)?;
        let end = u32::try_from(i64::from(self.parsed) + growth).ok()?;
        let ends_at = |byte| byte == 0 || segments.iter().any(|segment| segment.end == byte);
        if !ends_at(first) || !ends_at(end) {
            return None;
        }
        // A shorter packet ends at the same headers only if all bytes are where they were.
        let is_whole = growth == 0 || state.surely_has_bytes(end);
        let mut code = vec![assign(in_place.is_in_place, bit(8, 1))];
        for segment in segments {
            let (valid, is_parsed) = (segment.valid, segment.end <= self.parsed);
            match segment.end <= first || segment.first >= end {
                true if is_parsed => code.push(assign(valid, truth(false))),
                false if !is_parsed => code.push(assign(valid, truth(true))),
                _ => {}
            }
        }
        Some(Sent {
            code,
            only_if: (!is_whole).then(|| read(parsed.valid)),
        })
    }
}

/// Destination of a copy.
#[derive(Clone)]
pub(super) enum Destination {
    /// A port.
    Port(Expr),
    /// All ports but the ingress port.
    Flood,
    /// A port, or a number with a meaning.
    Any(Expr),
}

/// Returns the code that sends the packet there first.
pub(super) fn send_first(fields: &Fields, to: Destination) -> Vec<Stmt> {
    let group = add(cast(16, read(fields.port)), bit(16, 1));
    let flood = assign(fields.group, group);
    match to {
        Destination::Port(port) => vec![assign(fields.egress_spec, port)],
        Destination::Flood => vec![flood],
        Destination::Any(port) => {
            let is = |number: u16| is_equal(port.clone(), bit(NUMBER, number.into()));
            let is_flooded = binary(BinOp::LogicalOr, is(port::FLOOD), is(port::ALL));
            let one = vec![assign(fields.egress_spec, port)];
            vec![stmt(StmtKind::If(is_flooded, vec![flood], one))]
        }
    }
}

/// Emits the code that puts a copy of the packet into the queue of outputs, or sends the packet
/// itself.
pub(super) fn enqueue(
    fields: &Fields,
    state: State,
    to: Destination,
    (bytes, length): (Expr, Expr),
    in_place: Option<Sent>,
    too_many: Vec<Stmt>,
) -> Vec<Stmt> {
    let outputs = &fields.outputs;
    let count = outputs.count;
    let port = match &to {
        Destination::Port(port) | Destination::Any(port) => port.clone(),
        Destination::Flood => number(port::FLOOD.into()),
    };
    let known = state
        .count_of_outputs()
        .filter(|known| *known < outputs.most);
    let element = |first: FieldId| match known {
        Some(known) => FieldId::new(first.get() + known).into(),
        None => outputs.element(first, count),
    };
    let mut code = Vec::new();
    if known.is_none() && outputs.may_send_more {
        let is_full = binary(BinOp::Ge, read(count), number(outputs.most));
        code.push(when(is_full, too_many));
    }
    let copied = [
        assign(element(outputs.port), port),
        assign(element(outputs.bytes), bytes),
        assign(element(outputs.length), length),
    ];
    match in_place {
        None => code.extend(copied),
        Some(Sent {
            code: sent,
            only_if,
        }) => match only_if {
            None => code.extend(sent),
            Some(cond) => code.push(stmt(StmtKind::If(cond, sent, copied.to_vec()))),
        },
    }
    match known {
        Some(0) => code.extend(send_first(fields, to)),
        Some(_) => {}
        None => {
            let is_first = is_equal(read(count), number(0));
            code.push(when(is_first, send_first(fields, to)));
        }
    }
    let next = match known {
        Some(known) => number(known + 1),
        None => add(read(count), number(1)),
    };
    code.push(assign(count, next));
    code
}

/// Emits the code that sends a copy of the whole packet to the controllers.
pub(super) fn packet_in(
    fields: &Fields,
    state: State,
    is_last: bool,
    reason: Expr,
    table: TableNumber,
    cookie: Expr,
    too_many: Vec<Stmt>,
) -> Vec<Stmt> {
    let frame = &fields.frame;
    let rest = fields.outputs.width - PREFIX_BITS - frame.width;
    let prefix = [
        reason,
        bit(8, table.0.into()),
        cast(16, read(fields.port)),
        cookie,
        cast(16, read(frame.total)),
    ];
    let sent = fields.sent_in_place(state, 0).filter(|_| is_last);
    let sent = sent.zip(fields.in_place.as_ref());
    let sent = sent.map(|(mut sent, in_place)| {
        sent.code.extend(in_place.set_prefix(&prefix));
        sent
    });
    let bytes = join(
        prefix
            .into_iter()
            .map(Some)
            .chain([Some(frame.all_bits()), (rest > 0).then(|| zeros(rest))]),
    );
    let length = add(read(frame.held), number(PREFIX_BITS / 8));
    let bytes = bytes.unwrap_or(zeros(fields.outputs.width));
    let to = Destination::Port(number(CONTROLLER_PORT));
    enqueue(fields, state, to, (bytes, length), sent, too_many)
}

impl Emitter<'_> {
    pub(super) fn output(&mut self, action: &Action, state: State) {
        let Action::Output {
            port,
            metadata_offset,
            metadata_length,
            packet_offset,
        } = action
        else {
            return;
        };
        let to = match port {
            &REAL_PORT => Destination::Port(cast(NUMBER, self.param(16))),
            Argument::Immediate(number) if *number as u16 == port::IN_PORT => {
                Destination::Port(read(self.fields.port))
            }
            Argument::Immediate(_) => Destination::Flood,
            Argument::Field(field) => {
                let port = self.operand_field(*field, state);
                let port = and(port, number(u16::MAX.into()));
                let is_back = is_equal(port.clone(), number(port::IN_PORT.into()));
                let back = Box::new(read(self.fields.port));
                let port = Expr::Ternary(Box::new(is_back), back, Box::new(port));
                self.code.push(assign(self.fields.scratch, port));
                Destination::Any(read(self.fields.scratch))
            }
        };
        let skip = u32::from(*packet_offset);
        self.guard_bits(8 * skip, state);
        let (fields, frame) = (self.fields, &self.fields.frame);
        let prefix = u32::from(*metadata_length).next_multiple_of(8);
        let rest = fields.outputs.width - prefix - frame.width;
        let bytes = join([
            (prefix > 0).then(|| {
                let metadata = Field::metadata(*metadata_offset, prefix as u16);
                frame.field(state.at, metadata)
            }),
            Some(frame.bytes_from(state.at, skip)),
            (rest > 0).then(|| zeros(rest)),
        ]);
        let skipped = add(frame.offset(state.at), number(skip));
        let length = add(sub(read(frame.held), skipped), number(prefix / 8));
        let too_many = self.fault(Fault::TooManyOutputs);
        let bytes = bytes.unwrap_or(zeros(fields.outputs.width));
        let sent = match (state.at, prefix, self.is_last) {
            (At::Known(at), 0, true) => fields.sent_in_place(state, at + skip),
            _ => None,
        };
        let code = enqueue(fields, state, to, (bytes, length), sent, too_many);
        self.code.extend(code);
    }
}
