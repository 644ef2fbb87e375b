//! The packet inside a program, and the code that reads and changes it.
//!
//! The first bytes of the packet are one wide number, left-aligned: its first bit is the packet's.
//! Bits after the bytes that the program holds are zero. A field is a slice of the number, at a
//! fixed place if the packet offset is known, else after a shift. The rest of the packet stays
//! unparsed, and follows the number when the packet is sent.

use ir::{BinOp, Expr, FieldId, Stmt, StmtKind};

use super::expr::*;
use super::layout::{At, Layout, MAX_PACKET};
use crate::model::{Field, Place};

/// Fields of the program that hold the packet.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// The first bytes of the packet.
    pub(super) bytes: FieldId,
    /// Width of that.
    pub(super) width: u32,
    /// Number of bytes of the packet in `bytes`.
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

/// Width of the packet's length at the start of the metadata.
const LENGTH_BITS: u32 = 16;

impl Frame {
    /// Returns the number of bits that a program holds of a packet.
    pub(super) fn width_of(layout: &Layout) -> u32 {
        8 * layout.held
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
        let (all, width, skipped) = match field.place() {
            Place::Metadata => (read(self.metadata), self.metadata_width, 0),
            _ => match at {
                At::Known(at) => (read(self.bytes), self.width, 8 * at),
                At::UpTo(_) => (shl(read(self.bytes), self.bit_offset(at)), self.width, 0),
            },
        };
        match width.checked_sub(skipped + end) {
            Some(low) => slice(all, length, low),
            None => zeros(length),
        }
    }

    /// Returns the statement that sets a field to a value of its width.
    pub(super) fn set_field(&self, at: At, field: Field, value: Expr) -> Vec<Stmt> {
        let (end, length) = (field.end(), u32::from(field.length));
        let set_slice = |to: FieldId, width: u32, end: u32| {
            let low = width.checked_sub(end);
            let set = |low| StmtKind::AssignSlice(to.into(), low + length - 1, low, value.clone());
            low.map(|low| stmt(set(low))).into_iter().collect()
        };
        match (field.place(), at) {
            (Place::Metadata, _) => set_slice(self.metadata, self.metadata_width, end),
            (_, At::Known(at)) => set_slice(self.bytes, self.width, 8 * at + end),
            (_, At::UpTo(_)) => {
                let Some(low) = self.width.checked_sub(end) else {
                    return Vec::new();
                };
                let up = sub(number(low), self.bit_offset(at));
                let place = |value| shl(value, up.clone());
                let mask = complement(place(ones(length, self.width)));
                let kept = and(read(self.bytes), mask);
                let set = or(kept, place(cast(self.width, value)));
                vec![assign(self.bytes, set)]
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
                    Some(left) if skipped > 0 => {
                        let rest = slice(read(self.bytes), left, 0);
                        join([Some(rest), Some(zeros(skipped))]).unwrap_or(zeros(self.width))
                    }
                    Some(_) => read(self.bytes),
                }
            }
            At::UpTo(_) => {
                let by = add(self.bit_offset(at), number(8 * skip));
                shl(read(self.bytes), by)
            }
        }
    }

    /// Inserts a value of `length` bits at this bit after the packet offset, and zeros after the
    /// packet up to whole bytes.
    pub(super) fn insert(&self, at: At, bit_at: u32, length: u32, value: Expr) -> Vec<Stmt> {
        let bytes = number(length.div_ceil(8));
        let inserted = match at {
            At::Known(at) => {
                let before = 8 * at + bit_at;
                let Some(after) = self.width.checked_sub(before + length) else {
                    return Vec::new();
                };
                let bytes = || read(self.bytes);
                join([
                    (before > 0).then(|| slice(bytes(), before, self.width - before)),
                    Some(value),
                    (after > 0).then(|| slice(bytes(), after, length)),
                ])
            }
            At::UpTo(_) => {
                let before = add(self.bit_offset(at), number(bit_at));
                let after = sub(number(self.width), before.clone());
                let kept = self.high_bits(after.clone());
                let up = sub(after, number(length));
                let value = shl(cast(self.width, value), up);
                let rest = shl(read(self.bytes), before.clone());
                let rest = shr(rest, add(before, number(length)));
                Some(or(or(kept, value), rest))
            }
        };
        let inserted = inserted.map(|bytes| assign(self.bytes, bytes));
        let mut code: Vec<Stmt> = inserted.into_iter().collect();
        code.push(assign(self.held, add(read(self.held), bytes.clone())));
        code.push(assign(self.total, add(read(self.total), bytes)));
        code.push(self.note_length());
        code
    }

    /// Returns the bytes without their last bits, this many.
    fn high_bits(&self, without: Expr) -> Expr {
        shl(shr(read(self.bytes), without.clone()), without)
    }

    /// Removes bits, from this bit after the packet offset on. Zeros follow the packet up to whole
    /// bytes.
    pub(super) fn remove(&self, at: At, bit_at: u32, length: u32) -> Vec<Stmt> {
        let removed = match at {
            At::Known(at) => {
                let before = 8 * at + bit_at;
                let Some(after) = self.width.checked_sub(before + length) else {
                    return Vec::new();
                };
                let part = |count, low| (count > 0).then(|| slice(read(self.bytes), count, low));
                join([
                    part(before, self.width - before),
                    part(after, 0),
                    (length > 0).then(|| zeros(length)),
                ])
            }
            At::UpTo(_) => Some(self.without(at, bit_at, number(length))),
        };
        let bytes = removed.map(|bytes| assign(self.bytes, bytes));
        // A part of a byte stays, with zeros.
        let mut code: Vec<Stmt> = bytes.into_iter().collect();
        code.extend(self.shrink(number(length / 8)));
        code
    }

    /// As [`Frame::remove`], for a length in bits that is an expression.
    pub(super) fn remove_variable(&self, at: At, bit_at: u32, length: Expr) -> Vec<Stmt> {
        let bytes = assign(self.bytes, self.without(at, bit_at, length.clone()));
        let mut code = vec![bytes];
        code.extend(self.shrink(shr(length, bit(8, 3))));
        code
    }

    fn without(&self, at: At, bit_at: u32, length: Expr) -> Expr {
        let before = add(self.bit_offset(at), number(bit_at));
        let kept = self.high_bits(sub(number(self.width), before.clone()));
        let rest = shl(read(self.bytes), add(before.clone(), length));
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
