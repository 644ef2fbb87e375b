//! Translation of extraction, lookahead and advance.
//!
//! An inline extraction compares the end of the header with the end of the packet once. Then it
//! loads the fields directly from the bytes, with loads that stay inside the header. This works for
//! byte-aligned headers, as nearly all are at run time. A helper extracts unaligned headers and
//! those with a varbit.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I16, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use exec::Unsupported;
use exec::slots::header::{HeaderSite, Lookahead};
use ir::{Expr, HeaderPlace, Place, limbs_of};

use super::arith::limbs_of_width;
use super::place::{Distance, Located};
use super::{INLINE_LIMBS, Translator, in_bytes};
use crate::abi::{Outcome, offset};
use crate::helpers::{Helper, NO_SIZE};

/// Maximum number of bits and fields of a header that is extracted and emitted inline.
const INLINE_BITS: u32 = 2048;
const INLINE_FIELDS: usize = 64;

/// Returns true if a header's fields are handled inline.
pub(super) fn is_inline(header: &HeaderSite) -> bool {
    header.fixed_bits <= INLINE_BITS
        && header.fields.len() <= INLINE_FIELDS
        && header.fields.iter().all(|f| !f.is_varbit && fits(f.width))
}

/// Returns true if a field of this width is handled inline.
fn fits(width: u32) -> bool {
    limbs_of_width(width) <= INLINE_LIMBS as usize
}

/// Range of the packet from which several numbers are loaded.
struct Bits {
    /// Address of its first byte.
    bytes: Value,
    /// Number of bytes that may be read.
    there: u32,
    /// Last loaded word, with its offset and size. Fields that share bytes are mostly adjacent.
    last: Option<((u32, u32), Value)>,
}

impl Bits {
    fn new(bytes: Value, total: u32) -> Bits {
        Bits {
            bytes,
            there: total.div_ceil(8),
            last: None,
        }
    }
}

impl Translator<'_> {
    /// Returns the length of the packet in bits.
    pub(super) fn packet_bits(&mut self) -> Value {
        self.b.use_var(self.bits)
    }

    /// Returns the position `length` bits after the cursor. Rejects the packet if it is shorter.
    fn end_of(&mut self, length: Value) -> Value {
        let cursor = self.b.use_var(self.cursor);
        let end = self.b.ins().iadd(cursor, length);
        let bits = self.packet_bits();
        let is_short = self.b.ins().icmp(IntCC::UnsignedGreaterThan, end, bits);
        self.end_if(is_short, Outcome::Reject(self.code.errors.packet_too_short));
        end
    }

    /// Returns a number other than 0 if the cursor is not byte-aligned.
    fn is_inside_byte(&mut self) -> Value {
        let cursor = self.b.use_var(self.cursor);
        self.b.ins().band_imm(cursor, 7)
    }

    /// Returns the address of the byte at the cursor.
    fn bytes_at_cursor(&mut self) -> Value {
        let bytes = self.b.use_var(self.bytes);
        let cursor = self.b.use_var(self.cursor);
        let at = self.b.ins().ushr_imm(cursor, 3);
        self.b.ins().iadd(bytes, at)
    }

    pub(super) fn extract(
        &mut self,
        header: &HeaderPlace,
        size: Option<&Expr>,
    ) -> Result<(), Unsupported> {
        let (which, at) = self.locate_header(header)?;
        if let Some(at) = at {
            let is_outside = self.b.ins().icmp_imm(IntCC::Equal, at.in_range, 0);
            let error = self.code.errors.stack_out_of_bounds;
            self.end_if(is_outside, Outcome::Reject(error));
        }
        let site = self.code.headers[which].clone();
        if size.is_none() && is_inline(&site) {
            self.extract_inline(which, &site, at);
            return Ok(());
        }
        if self.is_ahead() {
            // The helper would move the frame into the packet's context, which a prefetch pass must
            // not change.
            return self.pass_by(&site, size);
        }
        let size = match size {
            Some(size) => {
                let size = self.small(size)?;
                // `NO_SIZE` is far above the size of any header, but a size must not be mistaken
                // for it.
                let most = self.number(NO_SIZE - 1);
                self.b.ins().umin(size, most)
            }
            None => self.number(NO_SIZE),
        };
        self.extract_by_helper(which, at, size);
        Ok(())
    }

    /// Imitates the extraction helper in a prefetch pass. It omits varbits, the fields after them,
    /// and wide fields.
    fn pass_by(&mut self, site: &HeaderSite, size: Option<&Expr>) -> Result<(), Unsupported> {
        let fixed = self.number(site.fixed_bits.into());
        let length = match size {
            Some(size) => {
                let size = self.small(size)?;
                self.refuse_size(site, size);
                self.b.ins().iadd(size, fixed)
            }
            None => fixed,
        };
        let end = self.end_of(length);
        if site.fixed_bits <= INLINE_BITS && site.fields.len() <= INLINE_FIELDS {
            self.load_fields(site, None);
        }
        let one = self.number(1);
        self.store_slots(site.valid, &[one]);
        self.b.def_var(self.cursor, end);
        Ok(())
    }

    /// Rejects the packet if a header's varbit would exceed its maximum or would not be whole
    /// bytes. All fixed fields together are whole bytes.
    fn refuse_size(&mut self, site: &HeaderSite, size: Value) {
        let varbit = site.fields.iter().find(|field| field.is_varbit);
        let most = i64::from(varbit.map_or(0, |field| field.width));
        let is_long = self
            .b
            .ins()
            .icmp_imm(IntCC::UnsignedGreaterThan, size, most);
        let inside_byte = self.b.ins().band_imm(size, 7);
        let is_odd = self.is_set(inside_byte);
        let is_refused = self.b.ins().bor(is_long, is_odd);
        let error = self.code.errors.header_too_short;
        self.end_if(is_refused, Outcome::Reject(error));
    }

    fn extract_by_helper(&mut self, which: usize, at: Option<Distance>, size: Value) {
        self.show_progress();
        let header = self.number(which as u64);
        let distance = match at {
            Some(at) => at.limbs,
            None => self.number(0),
        };
        let done = self.help(Helper::Extract, &[header, distance, size]);
        self.end_unless_done(done);
        let cursor = self.load_invocation(offset::CURSOR);
        self.b.def_var(self.cursor, cursor);
    }

    fn extract_inline(&mut self, which: usize, site: &HeaderSite, at: Option<Distance>) {
        let length = self.number(site.fixed_bits.into());
        let end = self.end_of(length);
        let after = self.b.create_block();
        if !self.is_always_at_byte() {
            let (inside, aligned) = (self.cold_block(), self.b.create_block());
            let is_inside = self.is_inside_byte();
            self.branch(is_inside, inside, aligned);
            self.start_sealed(inside);
            let no_size = self.number(NO_SIZE);
            self.extract_by_helper(which, at, no_size);
            self.take_from_frame(site);
            self.jump(after);
            self.start_sealed(aligned);
        }
        if !self.is_late(site.id) {
            self.load_fields(site, at);
            let one = self.number(1);
            self.put_behind(at, site.valid, &[one]);
        }
        self.note_extracted(site.id);
        self.b.def_var(self.cursor, end);
        self.jump(after);
        self.start_sealed(after);
    }

    /// Loads the inline fields of a header at the cursor, up to the first varbit. Headers that are
    /// extracted inline are loaded completely.
    fn load_fields(&mut self, site: &HeaderSite, at: Option<Distance>) {
        let mut bits = Bits::new(self.bytes_at_cursor(), site.fixed_bits);
        let mut bit = 0;
        for field in site.fields.iter().take_while(|field| !field.is_varbit) {
            if fits(field.width) {
                let value = self.load_from_bits(&mut bits, bit, field.width);
                self.put_behind(at, field.slot, &value);
            }
            bit += field.width;
        }
    }

    /// Writes slots at a distance that is in range.
    fn put_behind(&mut self, at: Option<Distance>, slot: u32, values: &[Value]) {
        if at.is_none() {
            return self.store_slots(slot, values);
        }
        let base = self.limbs_behind(at);
        self.store_to(base, slot, values);
    }

    /// Loads a number of `width` bits, `bit` bits after an address. `total` bits may be read.
    pub(super) fn load_bits(
        &mut self,
        bytes: Value,
        bit: u32,
        width: u32,
        total: u32,
    ) -> Vec<Value> {
        self.load_from_bits(&mut Bits::new(bytes, total), bit, width)
    }

    /// Loads a number of `width` bits from a range.
    fn load_from_bits(&mut self, bits: &mut Bits, bit: u32, width: u32) -> Vec<Value> {
        let mut limbs = Vec::with_capacity(limbs_of_width(width));
        let mut left = width;
        while left > 64 {
            limbs.push(self.load_narrow(bits, bit + left - 64, 64));
            left -= 64;
        }
        limbs.push(self.load_narrow(bits, bit, left));
        limbs
    }

    /// Loads a number of at most 64 bits from a range.
    fn load_narrow(&mut self, bits: &mut Bits, bit: u32, width: u32) -> Value {
        if width == 0 {
            return self.number(0);
        }
        let (first, end) = (bit / 8, (bit + width).div_ceil(8));
        let size = (end - first).next_power_of_two();
        if size > 8 || size > bits.there {
            // Splits the number at a byte boundary.
            let cut = if size > 8 {
                first + 1
            } else {
                first + size / 2
            };
            let low = bit + width - cut * 8;
            let high = self.load_narrow(bits, bit, width - low);
            let rest = self.load_narrow(bits, cut * 8, low);
            let high = self.b.ins().ishl_imm(high, i64::from(low));
            return self.b.ins().bor(high, rest);
        }
        let from = first.min(bits.there - size);
        let word = match bits.last {
            Some((at, word)) if at == (from, size) => word,
            _ => self.load_word(bits.bytes, from, size),
        };
        bits.last = Some(((from, size), word));
        let behind = (from + size) * 8 - (bit + width);
        let number = match behind {
            0 => word,
            _ => self.b.ins().ushr_imm(word, i64::from(behind)),
        };
        match size * 8 - behind == width {
            true => number,
            false => self.cut(number, width),
        }
    }

    /// Loads a big-endian word of 1, 2, 4 or 8 bytes.
    fn load_word(&mut self, bytes: Value, from: u32, size: u32) -> Value {
        let (flags, from) = (in_bytes(), from as i32);
        if size == 1 {
            return self.b.ins().uload8(I64, flags, bytes, from);
        }
        let ty = match size {
            2 => I16,
            4 => I32,
            _ => I64,
        };
        let word = self.b.ins().load(ty, flags, bytes, from);
        let word = self.b.ins().bswap(word);
        match size {
            8 => word,
            _ => self.b.ins().uextend(I64, word),
        }
    }

    pub(super) fn advance(&mut self, bits: &Expr) -> Result<(), Unsupported> {
        let bits = self.small(bits)?;
        let most = self.number(u32::MAX.into());
        let bits = self.b.ins().umin(bits, most);
        let end = self.end_of(bits);
        self.b.def_var(self.cursor, end);
        Ok(())
    }

    pub(super) fn lookahead(
        &mut self,
        total: u32,
        dests: &[(Place, u32)],
    ) -> Result<(), Unsupported> {
        let mut places: Vec<(Located, u32)> = Vec::new();
        for (place, offset) in dests {
            places.push((self.locate(place)?, *offset));
        }
        let is_inline = total <= INLINE_BITS
            && places.len() <= INLINE_FIELDS
            && places.iter().all(|(to, _)| !to.is_wide());
        if is_inline {
            self.lookahead_inline(total, &places);
        } else {
            let slots = self.lookahead_by_helper(total, &places);
            for ((to, _), slot) in places.into_iter().zip(slots) {
                self.store_from(to, slot);
            }
        }
        Ok(())
    }

    /// Reads ahead into temporaries with a helper.
    fn lookahead_by_helper(&mut self, total: u32, places: &[(Located, u32)]) -> Vec<u32> {
        let mut dests = Vec::new();
        for (to, offset) in places {
            let slot = self.temporary(to.limbs());
            dests.push((slot, to.ty.width(), *offset));
        }
        let slots = dests.iter().map(|dest| dest.0).collect();
        let dests = dests.into();
        self.code.lookaheads.push(Lookahead { total, dests });
        let which = self.code.lookaheads.len() as u64 - 1;
        self.show_progress();
        let done = self.help_with(Helper::Lookahead, &[which]);
        self.end_unless_done(done);
        slots
    }

    fn lookahead_inline(&mut self, total: u32, places: &[(Located, u32)]) {
        let length = self.number(total.into());
        self.end_of(length);
        let limbs: u32 = places.iter().map(|(to, _)| limbs_of(to.ty)).sum();
        let (after, read) = self.block_with(limbs as usize);
        if !self.is_always_at_byte() {
            let (inside, aligned) = (self.cold_block(), self.b.create_block());
            let is_inside = self.is_inside_byte();
            self.branch(is_inside, inside, aligned);
            self.start_sealed(inside);
            let slots = self.lookahead_by_helper(total, places);
            let mut values = Vec::new();
            for ((to, _), slot) in places.iter().zip(slots) {
                values.extend(self.load_slots(slot, to.limbs()));
            }
            self.jump_with(after, &values);
            self.start_sealed(aligned);
        }
        let mut bits = Bits::new(self.bytes_at_cursor(), total);
        let mut values = Vec::new();
        for (to, offset) in places {
            values.extend(self.load_from_bits(&mut bits, *offset, to.ty.width()));
        }
        self.jump_with(after, &values);
        self.start_sealed(after);
        let mut read = &read[..];
        for (to, _) in places {
            let (value, rest) = read.split_at(to.limbs() as usize);
            self.store(*to, value);
            read = rest;
        }
    }
}
