//! Translation of `emit`: appends headers and scalars to the emitted bits.
//!
//! If the position is byte-aligned and the buffer has room, a header is assembled in eight-byte
//! words, which are stored. Otherwise a helper appends it.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use exec::Unsupported;
use exec::slots::header::HeaderSite;
use ir::{HeaderPlace, Place, ScalarTy};

use super::extract::is_inline;
use super::fields::Run;
use super::place::Distance;
use super::{Translator, in_invocation};
use crate::abi::offset;
use crate::helpers::Helper;

impl Translator<'_> {
    pub(super) fn emit(&mut self, header: &HeaderPlace) -> Result<(), Unsupported> {
        if self.put_off(header) {
            return Ok(());
        }
        let (which, at) = self.locate_header(header)?;
        let site = self.code.headers[which].clone();
        let after = self.b.create_block();
        if let Some(at) = at {
            let inside = self.b.create_block();
            self.branch(at.in_range, inside, after);
            self.start_sealed(inside);
        }
        let is_valid = self.get_behind(at, site.valid, 1)[0];
        let valid = self.b.create_block();
        self.branch(is_valid, valid, after);
        self.start_sealed(valid);
        if is_inline(&site) {
            let slow = self.cold_block();
            self.emit_inline(&site, at, slow);
            self.jump(after);
            self.start_sealed(slow);
        }
        self.give_to_frame(&site);
        self.show_emitted();
        let header = self.number(which as u64);
        let distance = match at {
            Some(at) => at.limbs,
            None => self.number(0),
        };
        let done = self.help(Helper::Emit, &[header, distance]);
        self.take_emitted();
        self.end_unless_done(done);
        self.jump(after);
        self.start_sealed(after);
        Ok(())
    }

    /// Publishes the emitted bits and the parser's progress for helpers.
    pub(super) fn show_emitted(&mut self) {
        let emitted = self.b.use_var(self.emitted);
        self.store_invocation(emitted, offset::EMITTED);
        self.show_progress();
    }

    fn take_emitted(&mut self) {
        let emitted = self.load_invocation(offset::EMITTED);
        self.b.def_var(self.emitted, emitted);
    }

    fn emit_inline(&mut self, site: &HeaderSite, at: Option<Distance>, slow: Block) {
        let pieces = self.pieces_of_header(site, at);
        self.append(&pieces, site.fixed_bits, slow);
    }

    /// Returns the fields of a valid header as numbers, each with its width.
    pub(super) fn pieces_of_header(
        &mut self,
        site: &HeaderSite,
        at: Option<Distance>,
    ) -> Vec<(Value, u32)> {
        let mut pieces = Vec::new();
        let mut bit = 0;
        for run in self.runs(site) {
            match run {
                Run::InPacket { width } => {
                    let value = self.in_packet(site, bit, width);
                    pieces.push((value, width));
                    bit += width;
                }
                Run::Field(field) => {
                    let limbs = bits::limbs_for(field.width) as u32;
                    let value = self.get_behind(at, field.slot, limbs);
                    pieces.extend(pieces_of(&value, field.width));
                    bit += field.width;
                }
            }
        }
        pieces
    }

    /// Reads slots at a distance that is in range.
    fn get_behind(&mut self, at: Option<Distance>, slot: u32, limbs: u32) -> Vec<Value> {
        if at.is_none() {
            return self.load_slots(slot, limbs);
        }
        let base = self.limbs_behind(at);
        self.load_from(base, slot, limbs)
    }

    /// Appends numbers, each with its width and with `total` bits in all. Branches to `slow`
    /// without changes if they must be appended by a helper.
    fn append(&mut self, pieces: &[(Value, u32)], total: u32, slow: Block) {
        let emitted = self.b.use_var(self.emitted);
        let end = self.b.ins().iadd_imm(emitted, i64::from(total));
        let room = self.load_invocation(offset::EMITTED_ROOM);
        let is_full = self.b.ins().icmp(IntCC::UnsignedGreaterThan, end, room);
        let inside = self.b.ins().band_imm(emitted, 7);
        let is_inside = self.is_set(inside);
        let is_slow = self.b.ins().bor(is_full, is_inside);
        let fast = self.b.create_block();
        self.branch(is_slow, slow, fast);
        self.start_sealed(fast);
        let memory = self.load_invocation(offset::EMITTED_AT);
        let byte = self.b.ins().ushr_imm(emitted, 3);
        let memory = self.b.ins().iadd(memory, byte);
        for (i, word) in self.words(pieces).into_iter().enumerate() {
            let word = self.b.ins().bswap(word);
            // The bits after the last one of the last word are zeros, as is the rest of the buffer.
            let at = i as i32 * 8;
            self.b.ins().store(in_invocation(), word, memory, at);
        }
        self.b.def_var(self.emitted, end);
    }

    /// Concatenates numbers into 64-bit words, most significant bit first. The last word is padded
    /// with zeros.
    pub(super) fn words(&mut self, pieces: &[(Value, u32)]) -> Vec<Value> {
        let mut words: Vec<Value> = Vec::new();
        let mut filled = 64;
        for &(value, width) in pieces {
            if width == 0 {
                continue;
            }
            if filled == 64 {
                let word = self.b.ins().ishl_imm(value, i64::from(64 - width));
                words.push(word);
                filled = width;
                continue;
            }
            let free = 64 - filled;
            let part = if width <= free {
                self.b.ins().ishl_imm(value, i64::from(free - width))
            } else {
                self.b.ins().ushr_imm(value, i64::from(width - free))
            };
            if let Some(last) = words.last_mut() {
                *last = self.b.ins().bor(*last, part);
            }
            filled += width;
            if filled > 64 {
                filled -= 64;
                let rest = self.b.ins().ishl_imm(value, i64::from(64 - filled));
                words.push(rest);
            }
        }
        words
    }

    pub(super) fn emit_field(&mut self, place: &Place) -> Result<(), Unsupported> {
        let from = self.locate(place)?;
        let after = self.b.create_block();
        if !from.is_wide() {
            let slow = self.cold_block();
            let value = self.load(from);
            let width = from.ty.width();
            self.append(&pieces_of(&value, width), width, slow);
            self.jump(after);
            self.start_sealed(slow);
        }
        let a = self.in_slots(from);
        self.show_emitted();
        let done = match from.ty {
            ScalarTy::Varbit(_) => self.help_with(Helper::EmitVarbit, &[a.into()]),
            ty => self.help_with(Helper::EmitField, &[a.into(), ty.width().into()]),
        };
        self.take_emitted();
        self.end_unless_done(done);
        self.jump(after);
        self.start_sealed(after);
        Ok(())
    }
}

/// Returns a number's limbs, most significant first, each with its width.
pub(super) fn pieces_of(limbs: &[Value], width: u32) -> Vec<(Value, u32)> {
    let mut pieces = Vec::with_capacity(limbs.len());
    let mut left = width;
    for &limb in limbs {
        let width = left.min(64);
        pieces.push((limb, width));
        left -= width;
    }
    pieces.reverse();
    pieces
}
