//! Headers in slots: extract, look ahead, emit, copy, and shift a header stack.

use bits::{limbs_for, wire};
use ir::{FieldId, HeaderId, Layout, Program, ScalarTy, Stack};

use super::Slot;
use crate::{PacketContext, ParserErrors};

/// Header layout for extract and emit. Slots are those of the instance. An element of a header
/// stack is at a distance from them.
#[derive(Clone, Debug)]
pub struct HeaderSite {
    /// Id of the header.
    pub id: HeaderId,
    /// Slot of the validity bit.
    pub valid: Slot,
    /// Fields, in wire order.
    pub fields: Box<[HeaderFieldSite]>,
    /// Number of bits of all fields except the varbit.
    pub fixed_bits: u32,
    /// True if no field has more than 64 bits and none is a varbit.
    pub is_plain: bool,
}

/// Field of a header.
#[derive(Clone, Copy, Debug)]
pub struct HeaderFieldSite {
    /// First slot of the field.
    pub slot: Slot,
    /// Number of bits; the maximum for a varbit.
    pub width: u32,
    /// True for a varbit.
    pub is_varbit: bool,
}

impl HeaderSite {
    /// Creates the layout of a header of a verified program.
    pub fn new(program: &Program, layout: &Layout, id: HeaderId) -> Option<HeaderSite> {
        let header = program.headers.get(id)?;
        let types = &program.header_types.get(header.ty)?.fields;
        let fields = types.iter().zip(header.valid.get() + 1..);
        let fields: Box<[HeaderFieldSite]> = fields
            .map(|(field, id)| HeaderFieldSite {
                slot: layout.offset(FieldId::new(id)),
                width: field.ty.width(),
                is_varbit: matches!(field.ty, ScalarTy::Varbit(_)),
            })
            .collect();
        let fixed = fields.iter().filter(|field| !field.is_varbit);
        Some(HeaderSite {
            id,
            valid: layout.offset(header.valid),
            fixed_bits: fixed.map(|field| field.width).sum(),
            is_plain: fields.iter().all(|f| !f.is_varbit && f.width <= 64),
            fields,
        })
    }

    /// Returns the number of limbs of the header, including its validity.
    pub fn limbs(&self) -> u32 {
        let end = self.fields.last().map_or(self.valid + 1, |field| {
            let limbs = (limbs_for(field.width) as u32).max(1);
            field.slot + limbs + u32::from(field.is_varbit)
        });
        end - self.valid
    }

    /// Extracts the header at `distance` limbs from the instance. Its varbit gets `varbit_bits`
    /// bits.
    ///
    /// # Errors
    /// The error's number. Nothing has changed.
    #[inline]
    pub fn extract(
        &self,
        limbs: &mut [u64],
        packet: &mut PacketContext,
        errors: &ParserErrors,
        distance: usize,
        varbit_bits: Option<u64>,
    ) -> Result<(), u32> {
        let start = packet.cursor;
        let bytes = packet.bytes.bytes();
        let end = if self.is_plain && varbit_bits.is_none() {
            let end = start + self.fixed_bits as usize;
            if end > bytes.len() * 8 {
                return Err(errors.packet_too_short);
            }
            let mut offset = start;
            for field in &self.fields {
                // Within the bytes: the length of the whole header was checked above.
                if let Ok(value) = wire::read_u64(bytes, offset, field.width) {
                    limbs[field.slot as usize + distance] = value;
                }
                offset += field.width as usize;
            }
            end
        } else {
            let varbit_bits = varbit_bits.unwrap_or(0);
            self.extract_any(limbs, (bytes, start), errors, distance, varbit_bits)?
        };
        limbs[self.valid as usize + distance] = 1;
        packet.cursor = end;
        Ok(())
    }

    /// Extracts a header with wide fields or a varbit. Returns the position of its end in bits.
    fn extract_any(
        &self,
        limbs: &mut [u64],
        (bytes, start): (&[u8], usize),
        errors: &ParserErrors,
        distance: usize,
        varbit_bits: u64,
    ) -> Result<usize, u32> {
        // The size of a header must be a whole number of bytes (BMv2).
        let fixed = u64::from(self.fixed_bits);
        if !varbit_bits.is_multiple_of(8) && !fixed.wrapping_add(varbit_bits).is_multiple_of(8) {
            return Err(errors.invalid_argument);
        }
        // P4_16, "Variable-width extraction": check the length of the packet first, then the
        // maximum size of the header. The size may be any number, so the sum saturates.
        let end = (start as u64 + fixed).saturating_add(varbit_bits);
        if end > bytes.len() as u64 * 8 {
            return Err(errors.packet_too_short);
        }
        let end = end as usize;
        let most = self.fields.iter().find(|field| field.is_varbit);
        if varbit_bits > u64::from(most.map_or(0, |field| field.width)) {
            return Err(errors.header_too_short);
        }
        let mut offset = start;
        for field in &self.fields {
            let mut slot = field.slot as usize + distance;
            let mut width = field.width;
            let most = limbs_for(width).max(1);
            if field.is_varbit {
                width = varbit_bits as u32;
                limbs[slot] = varbit_bits;
                slot += 1;
            }
            let value = &mut limbs[slot..slot + most];
            if limbs_for(width) < most {
                value.fill(0);
            }
            let read = wire::read(bytes, offset, width, value);
            debug_assert!(read.is_ok());
            offset += width as usize;
        }
        Ok(end)
    }

    /// Emits the header at `distance` limbs from the instance if it is valid. Returns true if it
    /// is.
    #[inline]
    pub fn emit(&self, limbs: &[u64], packet: &mut PacketContext, distance: usize) -> bool {
        if limbs[self.valid as usize + distance] == 0 {
            return false;
        }
        for field in &self.fields {
            let slot = field.slot as usize + distance;
            if field.is_varbit {
                emit_varbit(limbs, packet, slot as Slot);
            } else if field.width <= 64 {
                packet.emitted.push_u64(limbs[slot], field.width);
            } else {
                emit_field(limbs, packet, slot as Slot, field.width);
            }
        }
        true
    }
}

/// Emits the scalar of `width` bits at a slot.
pub fn emit_field(limbs: &[u64], packet: &mut PacketContext, slot: Slot, width: u32) {
    let at = slot as usize;
    let value = &limbs[at..at + limbs_for(width).max(1)];
    packet.emitted.push(value, width);
}

/// Emits the varbit at a slot.
pub fn emit_varbit(limbs: &[u64], packet: &mut PacketContext, slot: Slot) {
    let at = slot as usize;
    let width = limbs[at] as u32;
    let value = &limbs[at + 1..at + 1 + limbs_for(width)];
    packet.emitted.push(value, width);
}

/// Advances the parser's cursor.
///
/// # Errors
/// The error's number. The cursor has not moved.
pub fn advance(packet: &mut PacketContext, errors: &ParserErrors, bits: u64) -> Result<(), u32> {
    let end = packet.cursor as u64 + bits.min(u64::from(u32::MAX));
    if end > packet.bytes.len() as u64 * 8 {
        return Err(errors.packet_too_short);
    }
    packet.cursor = end as usize;
    Ok(())
}

/// A `lookahead`: bits that a parser reads without advancing.
#[derive(Clone, Debug)]
pub struct Lookahead {
    /// Number of bits that the packet must still have.
    pub total: u32,
    /// Destination slot, width and bit offset of each value.
    pub dests: Box<[(Slot, u32, u32)]>,
}

impl Lookahead {
    /// Reads the values.
    ///
    /// # Errors
    /// The error's number. Nothing has changed.
    pub fn read(
        &self,
        limbs: &mut [u64],
        packet: &PacketContext,
        errors: &ParserErrors,
    ) -> Result<(), u32> {
        let bytes = packet.bytes.bytes();
        let start = packet.cursor;
        if start + self.total as usize > bytes.len() * 8 {
            return Err(errors.packet_too_short);
        }
        for &(slot, width, offset) in &self.dests {
            let slot = slot as usize;
            let value = &mut limbs[slot..slot + limbs_for(width).max(1)];
            value.fill(0);
            if wire::read(bytes, start + offset as usize, width, value).is_err() {
                return Err(errors.packet_too_short);
            }
        }
        Ok(())
    }
}

/// Copy of a header to another one of the same type.
#[derive(Clone, Copy, Debug)]
pub struct HeaderCopy {
    /// First slot of the destination at distance 0.
    pub dst: Slot,
    /// First slot of the source at distance 0.
    pub src: Slot,
    /// Number of limbs of each header.
    pub limbs: u32,
}

impl HeaderCopy {
    /// Copies between headers at these distances. Without a destination nothing happens. Without a
    /// source the destination is zeroed.
    pub fn run(&self, limbs: &mut [u64], to: Option<usize>, from: Option<usize>) {
        let Some(to) = to else {
            return;
        };
        let (d, n) = (self.dst as usize + to, self.limbs as usize);
        match from {
            Some(from) => {
                let a = self.src as usize + from;
                limbs.copy_within(a..a + n, d);
            }
            None => limbs[d..d + n].fill(0),
        }
    }
}

/// Layout of a header stack.
#[derive(Clone, Copy, Debug)]
pub struct StackSite {
    /// First slot of the first element.
    pub first: Slot,
    /// Number of elements.
    pub len: u32,
    /// Number of limbs of an element.
    pub limbs: u32,
    /// Slot of `nextIndex`.
    pub next_index: Slot,
}

impl StackSite {
    /// Creates the layout of a header stack of a verified program.
    pub fn new(program: &Program, layout: &Layout, stack: &Stack) -> Option<StackSite> {
        let first = HeaderSite::new(program, layout, stack.first)?;
        Some(StackSite {
            first: first.valid,
            len: stack.len,
            limbs: first.limbs(),
            next_index: layout.offset(stack.next_index),
        })
    }

    /// Moves the elements up by `n` (P4_16, section 8.18). The first `n` become invalid. Their
    /// fields are zeroed, as in simple_switch.
    pub fn push_front(&self, limbs: &mut [u64], n: u32) {
        let (first, element) = (self.first as usize, self.limbs as usize);
        let n = n.min(self.len);
        let moved = (self.len - n) as usize * element;
        limbs.copy_within(first..first + moved, first + n as usize * element);
        limbs[first..first + n as usize * element].fill(0);
        let next = &mut limbs[self.next_index as usize];
        *next = (*next + u64::from(n)).min(u64::from(self.len));
    }

    /// Moves the elements down by `n` (P4_16, section 8.18). The last `n` become invalid.
    pub fn pop_front(&self, limbs: &mut [u64], n: u32) {
        let (first, element) = (self.first as usize, self.limbs as usize);
        let n = n.min(self.len);
        let from = first + n as usize * element;
        let end = first + self.len as usize * element;
        limbs.copy_within(from..end, first);
        for i in (self.len - n) as usize..self.len as usize {
            limbs[first + i * element] = 0;
        }
        let next = &mut limbs[self.next_index as usize];
        *next = next.saturating_sub(u64::from(n));
    }
}
