//! The packet inside a program, and the code that reads and changes it.
//!
//! The first bytes of the packet are one sequence of bits, left-aligned: its first bit is the
//! packet's. Bits after the bytes that the program holds are zero. A field is a slice of it, at a
//! fixed place if the packet offset is known, else after a shift. The rest of the packet stays
//! unparsed, and follows when the packet is sent.
//!
//! The sequence is one field of the program, or the fields of headers ([`super::pieces`]).

use ir::{
    BinOp, DataTy, Expr, FieldId, Header, HeaderField, HeaderId, HeaderType, Program, ScalarTy,
    Stmt, StmtKind,
};

use super::expr::*;
use super::layout::{At, Layout, MAX_PACKET};
use super::pieces::Pieces;
use crate::model::{Field, Place};

/// Bits of the packet in one field.
#[derive(Clone, Copy, Debug)]
struct Piece {
    field: FieldId,
    /// Its first bit, and the one after its last.
    first: u32,
    end: u32,
}

/// Bytes of the packet in one header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) header: HeaderId,
    pub(super) valid: FieldId,
    /// Its first byte, and the one after its last.
    pub(super) first: u32,
    pub(super) end: u32,
}

/// Fields of the program that hold the packet.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// The first bytes of the packet.
    pieces: Vec<Piece>,
    /// The headers that have these fields. It is empty if they are one field of no header.
    pub(super) segments: Vec<Segment>,
    /// Fields for a value of at most [`SHORT`] bits and for all bits, while it is written to
    /// several fields.
    value: FieldId,
    wide_value: FieldId,
    /// Number of bits.
    pub(super) width: u32,
    /// Number of bytes of the packet among these.
    pub(super) held: FieldId,
    /// Number of bytes of the packet.
    pub(super) total: FieldId,
    /// The packet offset.
    pub(super) offset: FieldId,
    /// The metadata.
    pub(super) metadata: FieldId,
    /// Width of that.
    pub(super) metadata_width: u32,
}

/// Maximum width of a field that is set at once.
const SHORT: u32 = 128;
/// Width of the packet's length at the start of the metadata.
const LENGTH_BITS: u32 = 16;

/// Declares a header with one field for each of these ends, which count from `first`.
pub(super) fn declare_header(
    program: &mut Program,
    name: &str,
    first: u32,
    ends: impl Iterator<Item = u32>,
) -> (HeaderId, FieldId) {
    let mut at = first;
    let mut fields = Vec::new();
    for end in ends {
        fields.push((format!("b{at}"), ScalarTy::Bit(end - at)));
        at = end;
    }
    let valid = program.fields.push(ir::Field {
        name: format!("{name}.$valid$"),
        ty: ScalarTy::Bool,
    });
    for (field, ty) in &fields {
        program.fields.push(ir::Field {
            name: format!("{name}.{field}"),
            ty: *ty,
        });
    }
    let fields = fields.into_iter().map(|(name, ty)| HeaderField {
        name,
        ty,
        data_ty: DataTy::Bit(ty.width()),
        annotations: Vec::new(),
    });
    let ty = program.header_types.push(HeaderType {
        name: format!("{name}_t"),
        fields: fields.collect(),
        annotations: Vec::new(),
    });
    let header = program.headers.push(Header {
        name: name.to_owned(),
        ty,
        valid,
    });
    (header, valid)
}

/// Declares the headers of the packet.
fn declare_pieces(program: &mut Program, pieces: &Pieces) -> (Vec<Piece>, Vec<Segment>) {
    let (mut all, mut segments) = (Vec::new(), Vec::new());
    let (mut first, mut fields) = (0, pieces.fields.iter().copied().peekable());
    for (at, end) in pieces.headers.iter().copied().enumerate() {
        let mut inside = Vec::new();
        while let Some(field) = fields.next_if(|field| *field <= 8 * end) {
            inside.push(field);
        }
        let name = format!("packet.h{at}");
        let ends = inside.iter().copied();
        let (header, valid) = declare_header(program, &name, 8 * first, ends);
        let mut begin = 8 * first;
        for (field, end) in (valid.get() + 1..).map(FieldId::new).zip(inside) {
            let first = std::mem::replace(&mut begin, end);
            all.push(Piece { field, first, end });
        }
        segments.push(Segment {
            header,
            valid,
            first,
            end,
        });
        first = end;
    }
    (all, segments)
}

impl Frame {
    /// Declares the fields of the packet.
    pub(super) fn declare(program: &mut Program, layout: &Layout) -> Frame {
        let width = 8 * layout.held;
        let declared = layout.pieces.as_ref();
        let declared = declared.map(|pieces| declare_pieces(program, pieces));
        let mut field = |name: &str, width: u32| {
            program.fields.push(ir::Field {
                name: name.to_owned(),
                ty: ScalarTy::Bit(width),
            })
        };
        let one = |field| {
            let (first, end) = (0, width);
            (vec![Piece { field, first, end }], Vec::new())
        };
        let (pieces, segments) = declared.unwrap_or_else(|| one(field("packet.bytes", width)));
        let value = field("packet.value", SHORT);
        let wide_value = match &pieces[..] {
            // It is not used.
            [_] => value,
            _ => field("packet.wide_value", width.max(SHORT)),
        };
        Frame {
            pieces,
            segments,
            value,
            wide_value,
            width,
            held: field("packet.held", NUMBER),
            total: field("packet.total", NUMBER),
            offset: field("packet.offset", NUMBER),
            metadata: field("packet.metadata", layout.metadata),
            metadata_width: layout.metadata,
        }
    }

    /// Returns this many bits from the first one on, all of which the program holds.
    pub(super) fn bits(&self, first: u32, count: u32) -> Expr {
        let end = first + count;
        let pieces = self.pieces.iter();
        let inside = pieces.filter(|piece| piece.first < end && first < piece.end);
        let parts = inside.map(|piece| {
            let (from, to) = (first.max(piece.first), end.min(piece.end));
            match (from, to) == (piece.first, piece.end) {
                true => read(piece.field),
                false => slice(read(piece.field), to - from, piece.end - to),
            }
        });
        join(parts.map(Some)).unwrap_or(zeros(count))
    }

    /// Returns all bits.
    pub(super) fn all_bits(&self) -> Expr {
        self.bits(0, self.width)
    }

    /// Returns the statements that set these bits to a value of their width.
    fn set_bits(&self, first: u32, count: u32, value: Expr) -> Vec<Stmt> {
        let end = first + count;
        let pieces = self.pieces.iter();
        let inside = pieces.filter(|piece| piece.first < end && first < piece.end);
        let inside: Vec<&Piece> = inside.collect();
        let set = |piece: &Piece, value: Expr| {
            let (from, to) = (first.max(piece.first), end.min(piece.end));
            match (from, to) == (piece.first, piece.end) {
                true => assign(piece.field, value),
                false => {
                    let (high, low) = (piece.end - from - 1, piece.end - to);
                    stmt(StmtKind::AssignSlice(piece.field.into(), high, low, value))
                }
            }
        };
        let (mut code, value, width) = match &inside[..] {
            [] => return Vec::new(),
            [piece] => return vec![set(piece, value)],
            _ if is_immediate(&value) => (Vec::new(), value, count),
            // The value may depend on the fields that are written.
            _ if count <= SHORT => {
                let keep = assign(self.value, cast(SHORT, value));
                (vec![keep], read(self.value), SHORT)
            }
            _ => {
                let width = self.width.max(SHORT);
                let keep = assign(self.wide_value, cast(width, value));
                (vec![keep], read(self.wide_value), width)
            }
        };
        for piece in inside {
            let (from, to) = (first.max(piece.first), end.min(piece.end));
            let part = match to - from == width {
                true => value.clone(),
                false => slice(value.clone(), to - from, end - to),
            };
            code.push(set(piece, part));
        }
        code
    }

    /// Returns the statements that set all bits.
    pub(super) fn set_all_bits(&self, value: Expr) -> Vec<Stmt> {
        self.set_bits(0, self.width, value)
    }

    /// Returns the packet offset.
    pub(super) fn offset(&self, at: At) -> Expr {
        match at {
            At::Known(at) => number(at),
            At::UpTo(_) => read(self.offset),
        }
    }

    /// Returns the packet offset in bits.
    fn bit_offset(&self, at: At) -> Expr {
        match at {
            At::Known(at) => number(8 * at),
            At::UpTo(_) => shl(read(self.offset), bit(8, 3)),
        }
    }

    /// Returns the condition that the packet has this many bits after the packet offset, or `None`
    /// if no packet does.
    pub(super) fn has_bits(&self, at: At, bits: u32) -> Option<Expr> {
        let bytes = bits.div_ceil(8);
        let needed = match at {
            At::Known(at) => (at + bytes <= MAX_PACKET).then(|| number(at + bytes)),
            At::UpTo(_) => (bytes <= MAX_PACKET).then(|| add(read(self.offset), number(bytes))),
        };
        Some(binary(BinOp::Ge, read(self.total), needed?))
    }

    /// Returns a field. Beyond what the program holds it is zero.
    pub(super) fn field(&self, at: At, field: Field) -> Expr {
        let (end, length) = (field.end(), u32::from(field.length));
        let (all, width) = match (field.place(), at) {
            (Place::Metadata, _) => (read(self.metadata), self.metadata_width),
            (_, At::Known(at)) if 8 * at + end <= self.width => {
                return self.bits(8 * at + end - length, length);
            }
            (_, At::Known(_)) => return zeros(length),
            (_, At::UpTo(_)) => (shl(self.all_bits(), self.bit_offset(at)), self.width),
        };
        match width.checked_sub(end) {
            Some(low) => slice(all, length, low),
            None => zeros(length),
        }
    }

    /// Returns the statement that sets a field to a value of its width.
    pub(super) fn set_field(&self, at: At, field: Field, value: Expr) -> Vec<Stmt> {
        let (end, length) = (field.end(), u32::from(field.length));
        match (field.place(), at) {
            (Place::Metadata, _) => {
                let low = self.metadata_width.checked_sub(end);
                let to = || self.metadata.into();
                let set = |low| StmtKind::AssignSlice(to(), low + length - 1, low, value);
                low.map(|low| stmt(set(low))).into_iter().collect()
            }
            (_, At::Known(at)) if 8 * at + end <= self.width => {
                self.set_bits(8 * at + end - length, length, value)
            }
            (_, At::Known(_)) => Vec::new(),
            (_, At::UpTo(_)) => {
                let Some(low) = self.width.checked_sub(end) else {
                    return Vec::new();
                };
                let up = sub(number(low), self.bit_offset(at));
                let place = |value| shl(value, up.clone());
                let mask = complement(place(ones(length, self.width)));
                let kept = and(self.all_bits(), mask);
                let set = or(kept, place(cast(self.width, value)));
                self.set_all_bits(set)
            }
        }
    }

    /// Returns the first bits of the packet, from `skip` bytes on, followed by zeros up to the
    /// width.
    pub(super) fn bytes_from(&self, at: At, skip: u32) -> Expr {
        match at {
            At::Known(at) => {
                let skipped = 8 * (at + skip);
                match self.width.checked_sub(skipped) {
                    None | Some(0) => zeros(self.width),
                    Some(left) => {
                        let rest = self.bits(skipped, left);
                        let zeros = (skipped > 0).then(|| zeros(skipped));
                        join([Some(rest), zeros]).unwrap_or(self.all_bits())
                    }
                }
            }
            At::UpTo(_) => {
                let by = add(self.bit_offset(at), number(8 * skip));
                shl(self.all_bits(), by)
            }
        }
    }

    /// Moves the bits after this one by a number of bits to the end, and puts a value before them,
    /// which does not depend on the packet.
    fn insert_bits(&self, before: u32, length: u32, value: &Expr) -> Vec<Stmt> {
        let after = before + length;
        let mut code = Vec::new();
        // From the end on: each field takes bits of fields that are not changed yet.
        for piece in self.pieces.iter().rev() {
            let (first, end) = (piece.first, piece.end);
            let kept = (first < before).then(|| self.bits(first, before.min(end) - first));
            let (from, to) = (first.max(before), end.min(after));
            let new = (from < to).then(|| match to - from == length {
                true => value.clone(),
                false => slice(value.clone(), to - from, after - to),
            });
            let from = first.max(after);
            let moved = (from < end).then(|| self.bits(from - length, end - from));
            if end > before {
                let bits = join([kept, new, moved]);
                code.extend(bits.map(|bits| assign(piece.field, bits)));
            }
        }
        code
    }

    /// Removes bits after this one: those that follow move to its place, and zeros to theirs.
    fn remove_bits(&self, before: u32, length: u32) -> Vec<Stmt> {
        let mut code = Vec::new();
        let pieces = self.pieces.iter().filter(|piece| piece.end > before);
        for Piece { field, first, end } in pieces.copied() {
            let kept = (first < before).then(|| self.bits(first, before - first));
            let (from, to) = (first.max(before) + length, end + length);
            let last = to.min(self.width);
            let moved = (from < last).then(|| self.bits(from, last - from));
            let free = to - last.max(from);
            let free = (free > 0).then(|| zeros(free));
            let bits = join([kept, moved, free]);
            code.extend(bits.map(|bits| assign(field, bits)));
        }
        code
    }

    /// Inserts a value of `length` bits at this bit after the packet offset, and zeros after the
    /// packet up to whole bytes.
    pub(super) fn insert(&self, at: At, bit_at: u32, length: u32, value: Expr) -> Vec<Stmt> {
        let bytes = number(length.div_ceil(8));
        let mut code = match at {
            At::Known(at) => {
                let before = 8 * at + bit_at;
                if before + length > self.width {
                    return Vec::new();
                }
                self.insert_bits(before, length, &value)
            }
            At::UpTo(_) => {
                let before = add(self.bit_offset(at), number(bit_at));
                let after = sub(number(self.width), before.clone());
                let kept = self.high_bits(after.clone());
                let up = sub(after, number(length));
                let value = shl(cast(self.width, value), up);
                let rest = shl(self.all_bits(), before.clone());
                let rest = shr(rest, add(before, number(length)));
                self.set_all_bits(or(or(kept, value), rest))
            }
        };
        code.push(assign(self.held, add(read(self.held), bytes.clone())));
        code.push(assign(self.total, add(read(self.total), bytes)));
        code.push(self.note_length());
        code
    }

    /// Returns the bytes without their last bits, this many.
    fn high_bits(&self, without: Expr) -> Expr {
        shl(shr(self.all_bits(), without.clone()), without)
    }

    /// Removes bits, from this bit after the packet offset on. Zeros follow the packet up to whole
    /// bytes.
    pub(super) fn remove(&self, at: At, bit_at: u32, length: u32) -> Vec<Stmt> {
        let mut code = match at {
            At::Known(at) => {
                let before = 8 * at + bit_at;
                if before + length > self.width {
                    return Vec::new();
                }
                self.remove_bits(before, length)
            }
            At::UpTo(_) => self.set_all_bits(self.without(at, bit_at, number(length))),
        };
        // A part of a byte stays, with zeros.
        code.extend(self.shrink(number(length / 8)));
        code
    }

    /// As [`Frame::remove`], for a length in bits that is an expression.
    pub(super) fn remove_variable(&self, at: At, bit_at: u32, length: Expr) -> Vec<Stmt> {
        let mut code = self.set_all_bits(self.without(at, bit_at, length.clone()));
        code.extend(self.shrink(shr(length, bit(8, 3))));
        code
    }

    fn without(&self, at: At, bit_at: u32, length: Expr) -> Expr {
        let before = add(self.bit_offset(at), number(bit_at));
        let kept = self.high_bits(sub(number(self.width), before.clone()));
        let rest = shl(self.all_bits(), add(before.clone(), length));
        or(kept, shr(rest, before))
    }

    fn shrink(&self, bytes: Expr) -> Vec<Stmt> {
        vec![
            assign(self.held, sub(read(self.held), bytes.clone())),
            assign(self.total, sub(read(self.total), bytes)),
            self.note_length(),
        ]
    }

    /// Writes the packet's length to the metadata.
    pub(super) fn note_length(&self) -> Stmt {
        let length = cast(LENGTH_BITS, read(self.total));
        let low = self.metadata_width - LENGTH_BITS;
        let set = StmtKind::AssignSlice(self.metadata.into(), self.metadata_width - 1, low, length);
        stmt(set)
    }

    /// Writes the ingress port to the metadata.
    pub(super) fn note_port(&self, port: Expr) -> Stmt {
        let low = self.metadata_width - LENGTH_BITS - 8;
        let set = StmtKind::AssignSlice(self.metadata.into(), low + 7, low, cast(8, port));
        stmt(set)
    }
}

/// Returns true if a value does not depend on fields.
fn is_immediate(value: &Expr) -> bool {
    match value {
        Expr::Const(..) | Expr::Param(_) => true,
        Expr::Unary(_, value) | Expr::Slice(value, ..) | Expr::Cast(_, value) => {
            is_immediate(value)
        }
        _ => false,
    }
}
