//! What parsers and deparsers do: extract, look ahead, emit; and header operations.

use bits::{limbs_for, wire};

use super::{Machine, Tap};
use crate::code::{HeaderCode, NONE, OUT_OF_RANGE, Slot};

impl Machine<'_> {
    /// The address in a slot: 0 without one, nothing out of range.
    #[inline]
    fn distance(&self, at: Slot) -> Option<usize> {
        if at == NONE {
            return Some(0);
        }
        match self.limbs[at as usize] {
            OUT_OF_RANGE => None,
            at => Some(at as usize),
        }
    }

    /// Extracts a header; the error's number if that fails, with nothing changed.
    #[inline]
    pub(super) fn extract<T: Tap>(
        &mut self,
        header: u32,
        at: Slot,
        size: Slot,
        tap: &mut T,
    ) -> Result<(), u32> {
        let code = self.code;
        let header = &code.headers[header as usize];
        let distance = self.distance(at).ok_or(code.errors.stack_out_of_bounds)?;
        let start = self.packet.cursor;
        let bytes = self.packet.bytes.bytes();
        let end = if header.is_plain && size == NONE {
            let end = start + header.fixed_bits as usize;
            if end > bytes.len() * 8 {
                return Err(code.errors.packet_too_short);
            }
            let mut offset = start;
            for field in &header.fields {
                // Inside of the bytes, as was checked for the whole header.
                if let Ok(value) = wire::read_u64(bytes, offset, field.width) {
                    self.limbs[field.slot as usize + distance] = value;
                }
                offset += field.width as usize;
            }
            end
        } else {
            self.extract_any(header, distance, size)?
        };
        self.limbs[header.valid as usize + distance] = 1;
        self.packet.cursor = end;
        if T::ON {
            tap.extracted(header, distance, &self.limbs, start, end - start);
        }
        Ok(())
    }

    /// The same for headers with wide fields or a varbit; where it ends.
    fn extract_any(
        &mut self,
        header: &HeaderCode,
        distance: usize,
        size: Slot,
    ) -> Result<usize, u32> {
        let errors = &self.code.errors;
        let varbit_bits = match size {
            NONE => 0,
            size => self.limbs[size as usize],
        };
        // A header of whole bytes stays one (BMv2).
        if !varbit_bits.is_multiple_of(8)
            && !(u64::from(header.fixed_bits) + varbit_bits).is_multiple_of(8)
        {
            return Err(errors.invalid_argument);
        }
        let most = header.fields.iter().find(|field| field.is_varbit);
        if varbit_bits > u64::from(most.map_or(0, |field| field.width)) {
            return Err(errors.header_too_short);
        }
        let start = self.packet.cursor;
        let end = start + header.fixed_bits as usize + varbit_bits as usize;
        let bytes = self.packet.bytes.bytes();
        if end > bytes.len() * 8 {
            return Err(errors.packet_too_short);
        }
        let mut offset = start;
        for field in &header.fields {
            let mut slot = field.slot as usize + distance;
            let mut width = field.width;
            let limbs = limbs_for(width).max(1);
            if field.is_varbit {
                width = varbit_bits as u32;
                self.limbs[slot] = varbit_bits;
                slot += 1;
            }
            let value = &mut self.limbs[slot..slot + limbs];
            if limbs_for(width) < limbs {
                value.fill(0);
            }
            let read = wire::read(bytes, offset, width, value);
            debug_assert!(read.is_ok());
            offset += width as usize;
        }
        Ok(end)
    }

    pub(super) fn advance<T: Tap>(&mut self, bits: u64, tap: &mut T) -> Result<(), u32> {
        let end = self.packet.cursor as u64 + bits.min(u64::from(u32::MAX));
        if end > self.packet.bytes.len() as u64 * 8 {
            return Err(self.code.errors.packet_too_short);
        }
        self.packet.cursor = end as usize;
        if T::ON {
            tap.advanced(bits);
        }
        Ok(())
    }

    pub(super) fn lookahead(&mut self, at: u32) -> Result<(), u32> {
        let lookahead = &self.code.lookaheads[at as usize];
        let bytes = self.packet.bytes.bytes();
        let start = self.packet.cursor;
        if start + lookahead.total as usize > bytes.len() * 8 {
            return Err(self.code.errors.packet_too_short);
        }
        for &(slot, width, offset) in &lookahead.dests {
            let slot = slot as usize;
            let value = &mut self.limbs[slot..slot + limbs_for(width).max(1)];
            value.fill(0);
            if wire::read(bytes, start + offset as usize, width, value).is_err() {
                return Err(self.code.errors.packet_too_short);
            }
        }
        Ok(())
    }

    #[inline]
    pub(super) fn emit<T: Tap>(&mut self, header: u32, at: Slot, tap: &mut T) {
        let header = &self.code.headers[header as usize];
        let Some(distance) = self.distance(at) else {
            return;
        };
        let before = self.packet.emitted.bits();
        let is_valid = self.limbs[header.valid as usize + distance] != 0;
        if is_valid {
            for field in &header.fields {
                let slot = field.slot as usize + distance;
                if field.is_varbit {
                    self.emit_varbit(slot as u32);
                } else if field.width <= 64 {
                    let value = self.limbs[slot];
                    self.packet.emitted.push_u64(value, field.width);
                } else {
                    self.emit_field(slot as u32, field.width);
                }
            }
        }
        if T::ON {
            let bits = self.packet.emitted.bits() - before;
            tap.emitted(header, distance, is_valid.then_some(bits));
        }
    }

    pub(super) fn emit_field(&mut self, a: Slot, width: u32) {
        let a = a as usize;
        let value = &self.limbs[a..a + limbs_for(width).max(1)];
        self.packet.emitted.push(value, width);
    }

    pub(super) fn emit_varbit(&mut self, a: Slot) {
        let a = a as usize;
        let width = self.limbs[a] as u32;
        let value = &self.limbs[a + 1..a + 1 + limbs_for(width)];
        self.packet.emitted.push(value, width);
    }

    pub(super) fn copy_header(&mut self, at: u32) {
        let copy = self.code.header_copies[at as usize];
        let limbs = copy.limbs as usize;
        let Some(to) = self.distance(copy.dst_at) else {
            return;
        };
        let d = copy.dst as usize + to;
        match self.distance(copy.src_at) {
            Some(from) => {
                let a = copy.src as usize + from;
                self.limbs.copy_within(a..a + limbs, d);
            }
            None => self.limbs[d..d + limbs].fill(0),
        }
    }

    /// P4_16, section 8.18: elements move up by `n`, the first `n` become invalid.
    pub(super) fn push_front(&mut self, stack: u32, n: u32) {
        let stack = self.code.stacks[stack as usize];
        let (first, limbs) = (stack.first as usize, stack.limbs as usize);
        let n = n.min(stack.len);
        let moved = (stack.len - n) as usize * limbs;
        self.limbs
            .copy_within(first..first + moved, first + n as usize * limbs);
        for i in 0..n as usize {
            self.limbs[first + i * limbs] = 0;
        }
        let next = &mut self.limbs[stack.next_index as usize];
        *next = (*next + u64::from(n)).min(u64::from(stack.len));
    }

    /// P4_16, section 8.18: elements move down by `n`, the last `n` become invalid.
    pub(super) fn pop_front(&mut self, stack: u32, n: u32) {
        let stack = self.code.stacks[stack as usize];
        let (first, limbs) = (stack.first as usize, stack.limbs as usize);
        let n = n.min(stack.len);
        let from = first + n as usize * limbs;
        let end = first + stack.len as usize * limbs;
        self.limbs.copy_within(from..end, first);
        for i in (stack.len - n) as usize..stack.len as usize {
            self.limbs[first + i * limbs] = 0;
        }
        let next = &mut self.limbs[stack.next_index as usize];
        *next = next.saturating_sub(u64::from(n));
    }
}
