//! Where a pass has the fields of headers: in variables, in the frame, or in the packet, where they stand as they were parsed.

use std::collections::HashMap;

use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;
use exec::slots::Slot;
use exec::slots::header::{HeaderFieldSite, HeaderSite};
use ir::{FieldId, HeaderId};

use super::Translator;
use super::homes::Homes;

/// A part of a header that is emitted.
pub(super) enum Run {
    /// Bits that stand in the packet as they were parsed, at most one word of the header.
    InPacket { width: u32 },
    /// A field with a value of its own.
    Field(HeaderFieldSite),
}

impl Translator<'_> {
    /// The variable that stands for a slot, if one does.
    pub(super) fn home(&self, slot: Slot) -> Option<Variable> {
        self.fused.as_ref()?.variables.get(&slot).copied()
    }

    /// Whether the parser is always at a byte's beginning.
    pub(super) fn is_always_at_byte(&self) -> bool {
        self.fused.as_ref().is_some_and(|f| f.homes.is_aligned)
    }

    /// A helper has written a header in the frame: its variables follow.
    pub(super) fn take_from_frame(&mut self, site: &HeaderSite) {
        for slot in site.valid..site.valid + site.limbs() {
            if let Some(variable) = self.home(slot) {
                let value = self.load_from(self.limbs, slot, 1)[0];
                self.b.def_var(variable, value);
            }
        }
    }

    /// A helper is about to read a header, which is valid, in the frame.
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

    /// A header was extracted at the cursor.
    pub(super) fn note_extracted(&mut self, header: HeaderId) {
        self.note_offset(header);
        let sum = self.fused.as_ref().and_then(|f| f.header_sums.get(&header));
        if let Some(&sum) = sum {
            let no = self.number(0);
            self.b.def_var(sum.is_known, no);
        }
    }

    /// Whether a field of a valid header is to be found in the packet.
    fn is_clean(&self, site: &HeaderSite, index: usize) -> bool {
        let Some(fusing) = self.fused.as_ref().filter(|fusing| fusing.bytes_stand) else {
            return false;
        };
        let field = self.field_of_header(site, index);
        field.is_some_and(|field| fusing.homes.clean.contains(&field))
    }

    /// The parts of a header as they are emitted: neighbouring clean fields together, a word of the header at a time.
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

    /// Bits of a header in the packet, `bit` bits behind its beginning.
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

    /// Where the fields of tracked headers stand.
    pub(super) fn places(&self, homes: &Homes) -> HashMap<FieldId, (HeaderId, u32)> {
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

    /// Where a field of a header stands in the packet, if that has its value. It is zero if the header was not extracted.
    pub(super) fn stands_in_packet(&self, field: FieldId) -> Option<(HeaderId, u32)> {
        let fusing = self.fused.as_ref().filter(|fusing| fusing.bytes_stand)?;
        let is_written = fusing.written.contains(&field);
        fusing.places.get(&field).copied().filter(|_| !is_written)
    }
}
