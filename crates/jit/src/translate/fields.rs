//! Locations of header fields on the fast path: in variables, in the frame, or in the packet where
//! they were parsed.

use std::collections::HashMap;

use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;
use exec::slots::Slot;
use exec::slots::header::{HeaderFieldSite, HeaderSite};
use ir::{FieldId, HeaderId};

use super::Translator;
use super::field_allocation::FieldAllocation;

/// Part of a header that is emitted.
pub(super) enum Run {
    /// Bits that are unchanged in the packet. They are within one word of the header.
    InPacket { width: u32 },
    /// Field with its own value.
    Field(HeaderFieldSite),
}

impl Translator<'_> {
    /// Returns the variable that holds a slot, if there is one.
    pub(super) fn home(&self, slot: Slot) -> Option<Variable> {
        self.fused.as_ref()?.variables.get(&slot).copied()
    }

    /// Returns true if the parser's cursor is always byte-aligned.
    pub(super) fn is_always_at_byte(&self) -> bool {
        self.fused.as_ref().is_some_and(|f| f.homes.is_aligned)
    }

    /// Loads the variables of a header that a helper has written to the frame.
    pub(super) fn take_from_frame(&mut self, site: &HeaderSite) {
        for slot in site.valid..site.valid + site.limbs() {
            if let Some(variable) = self.home(slot) {
                let value = self.load_from(self.limbs, slot, 1)[0];
                self.b.def_var(variable, value);
            }
        }
    }

    /// Stores the variables of a valid header to the frame, for a helper that reads them.
    pub(super) fn give_to_frame(&mut self, site: &HeaderSite) {
        if let Some(valid) = self.home(site.valid) {
            let value = self.b.use_var(valid);
            self.store_in_frame(site.valid, value);
        }
        let mut bit = 0;
        for (index, field) in site.fields.iter().enumerate() {
            if self.home(field.slot).is_some() {
                let limbs = (bits::limbs_for(field.width) as u32).max(1);
                let value = match self.is_clean(site, index) {
                    true => self.bits_of_header(site, bit, field.width),
                    false => self.load_slots(field.slot, limbs),
                };
                for (&limb, slot) in value.iter().zip(field.slot..) {
                    self.store_in_frame(slot, limb);
                }
            }
            bit += field.width;
        }
    }

    /// Records that a header was extracted at the cursor.
    pub(super) fn note_extracted(&mut self, header: HeaderId) {
        self.note_offset(header);
        let sum = self.fused.as_ref().and_then(|f| f.header_sums.get(&header));
        if let Some(&sum) = sum {
            let no = self.number(0);
            self.b.def_var(sum.is_known, no);
        }
    }

    /// Returns true if a field of a valid header can be read from the packet.
    fn is_clean(&self, site: &HeaderSite, index: usize) -> bool {
        let Some(fusing) = self.fused.as_ref().filter(|fusing| fusing.bytes_stand) else {
            return false;
        };
        let field = self.field_of_header(site, index);
        field.is_some_and(|field| fusing.homes.clean.contains(&field))
    }

    /// Returns the parts of a header for emission. Adjacent clean fields are combined within each
    /// word of the header.
    pub(super) fn runs(&self, site: &HeaderSite) -> Vec<Run> {
        let mut runs = Vec::new();
        let mut bit = 0;
        for (index, field) in site.fields.iter().enumerate() {
            if !self.is_clean(site, index) {
                runs.push(Run::Field(*field));
                bit += field.width;
                continue;
            }
            let mut left = field.width;
            while left > 0 {
                let in_word = (64 - bit % 64).min(left);
                match runs.last_mut() {
                    Some(Run::InPacket { width }) if bit % 64 != 0 => *width += in_word,
                    _ => runs.push(Run::InPacket { width: in_word }),
                }
                bit += in_word;
                left -= in_word;
            }
        }
        runs
    }

    pub(super) fn field_of_header(&self, site: &HeaderSite, index: usize) -> Option<FieldId> {
        let header = self.program.headers.get(site.id)?;
        Some(FieldId::new(header.valid.get() + 1 + index as u32))
    }

    /// Loads bits of a header in the packet, `bit` bits after its start.
    pub(super) fn in_packet(&mut self, site: &HeaderSite, bit: u32, width: u32) -> Value {
        self.bits_of_header(site, bit, width)[0]
    }

    fn bits_of_header(&mut self, site: &HeaderSite, bit: u32, width: u32) -> Vec<Value> {
        let at = self.bytes_of_header(site.id);
        self.load_bits(at, bit, width, site.fixed_bits)
    }

    pub(super) fn bytes_of_header(&mut self, header: HeaderId) -> Value {
        let bytes = self.b.use_var(self.bytes);
        match self.offset_of(header) {
            Some(offset) => self.b.ins().iadd(bytes, offset),
            None => bytes,
        }
    }

    /// Returns the header and bit position of each field of tracked headers.
    pub(super) fn places(&self, homes: &FieldAllocation) -> HashMap<FieldId, (HeaderId, u32)> {
        let mut places = HashMap::new();
        for &header in &homes.tracked {
            let Some(site) = self.code.headers.get(header.get() as usize) else {
                continue;
            };
            let mut bit = 0;
            for (index, field) in site.fields.iter().enumerate() {
                if let Some(id) = self.field_of_header(site, index) {
                    places.insert(id, (header, bit));
                }
                bit += field.width;
            }
        }
        places
    }

    /// Returns the header and bit position of a field that has its value in the packet. The value
    /// is zero if the header was not extracted.
    pub(super) fn stands_in_packet(&self, field: FieldId) -> Option<(HeaderId, u32)> {
        let fusing = self.fused.as_ref().filter(|fusing| fusing.bytes_stand)?;
        let is_written = fusing.written.contains(&field);
        fusing.places.get(&field).copied().filter(|_| !is_written)
    }
}
