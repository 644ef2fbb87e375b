//! The code after ingress: egress with the copies of a packet, and the deparser.

use ir::{BinOp, Expr, Op, Operand, Stmt, StmtKind};

use super::code::Fields;
use super::expr::*;
use super::pipeline::{FIRST_REPLICA, Intrinsics, KEPT, instance};
use super::{WAITING_PORT, WAITING_SESSION};

/// Returns the code of egress: it makes the copy that sends the next output.
pub(super) fn egress(fields: &Fields, intrinsics: &Intrinsics) -> Vec<Stmt> {
    if fields.outputs.most == 1 && !fields.outputs.may_send_more {
        return Vec::new();
    }
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

/// Returns the code of the deparser: the headers of a packet that is sent as it is, else the bytes
/// of the current output.
pub(super) fn deparser(fields: &Fields, intrinsics: &Intrinsics) -> Vec<Stmt> {
    let copied = stored_output(fields, intrinsics);
    let Some(in_place) = &fields.in_place else {
        return copied;
    };
    let segments = fields.frame.segments.iter().map(|segment| segment.header);
    let headers = std::iter::once(in_place.prefix).chain(segments);
    let sent = headers.map(|header| stmt(StmtKind::Emit(header.into())));
    let is_in_place = is_equal(read(in_place.is_in_place), bit(8, 1));
    vec![stmt(StmtKind::If(is_in_place, sent.collect(), copied))]
}

/// Returns the code that writes the bytes of the current output, at once if there are as many as
/// were parsed, else in pieces of decreasing powers of two. A copy that comes back writes none.
fn stored_output(fields: &Fields, intrinsics: &Intrinsics) -> Vec<Stmt> {
    let outputs = &fields.outputs;
    let element = |first| Expr::Read(outputs.element(first, intrinsics.current));
    let (rest, length) = (intrinsics.rest, intrinsics.rest_length);
    let parsed = 8 * fields.parsed;
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
    let is_as_parsed = is_equal(read(length), number(fields.parsed));
    let mut write = Vec::new();
    if rest != outputs.bytes {
        write.push(assign(rest, element(outputs.bytes)));
        write.push(assign(length, element(outputs.length)));
    }
    write.push(stmt(StmtKind::If(is_as_parsed, at_once, in_pieces)));
    let is_copy = is_equal(
        read(intrinsics.instance_type),
        number(instance::EGRESS_CLONE),
    );
    vec![when(not(is_copy), write)]
}
