//! Parser and deparser operations (extract, advance, emit, copy) with addresses in slots, and their
//! trace events.

use exec::slots::{Slot, header};

use super::{Machine, TraceSink};
use crate::code::{NONE, OUT_OF_RANGE};

impl Machine<'_> {
    /// Returns the address in a slot: 0 without a slot, `None` if it is out of range.
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

    /// Extracts a header. Returns the error's number on failure, with nothing changed.
    #[inline]
    pub(super) fn extract<T: TraceSink>(
        &mut self,
        header: u32,
        at: Slot,
        size: Slot,
        tap: &mut T,
    ) -> Result<(), u32> {
        let errors = &self.code.errors;
        let header = &self.code.headers[header as usize];
        let distance = self.distance(at).ok_or(errors.stack_out_of_bounds)?;
        let start = self.packet.cursor;
        let varbit_bits = match size {
            NONE => None,
            size => Some(self.limbs[size as usize]),
        };
        header.extract(&mut self.limbs, self.packet, errors, distance, varbit_bits)?;
        if T::ON {
            let bits = self.packet.cursor - start;
            tap.extracted(header, distance, &self.limbs, start, bits);
        }
        Ok(())
    }

    pub(super) fn advance<T: TraceSink>(&mut self, bits: u64, tap: &mut T) -> Result<(), u32> {
        header::advance(self.packet, &self.code.errors, bits)?;
        if T::ON {
            tap.advanced(bits);
        }
        Ok(())
    }

    #[inline]
    pub(super) fn emit<T: TraceSink>(&mut self, header: u32, at: Slot, tap: &mut T) {
        let header = &self.code.headers[header as usize];
        let Some(distance) = self.distance(at) else {
            return;
        };
        let before = self.packet.emitted.bits();
        let is_valid = header.emit(&self.limbs, self.packet, distance);
        if T::ON {
            let bits = self.packet.emitted.bits() - before;
            tap.emitted(header, distance, is_valid.then_some(bits));
        }
    }

    pub(super) fn copy_header(&mut self, at: u32) {
        let copied = self.code.header_copies[at as usize];
        let (to, from) = (self.distance(copied.dst_at), self.distance(copied.src_at));
        copied.copy.run(&mut self.limbs, to, from);
    }
}
