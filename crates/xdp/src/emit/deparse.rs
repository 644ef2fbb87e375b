//! Emission of deparsers: headers as bytes in a buffer, which replaces the parsed bytes when the
//! packet is sent.

use ir::{FieldId, HeaderPlace, Place, ScalarTy};
use support::work::checkpoint;

use super::control::fields_of;
use super::{Emitted, Emitter, MAX_EMITTED};
use crate::assembler::{Alu, R0, R1, R3, R7, R9, Size, When};

impl Emitter<'_> {
    pub(super) fn emit_header(&mut self, header: &HeaderPlace) -> Emitted {
        if !header.dims.is_empty() {
            return Err("a header selected at run time in a deparser".to_owned());
        }
        let program = self.program;
        let instance = &program.headers[header.base];
        let fields: Vec<FieldId> = fields_of(program, header.base).skip(1).collect();
        let absent = self.asm.label();
        self.load_field(R0, instance.valid, 0);
        self.asm.jump_if_number(When::Equal, R0, 0, absent);
        // Packets leave only if they have such a header.
        self.or_leave(|this| this.emit_fields(&fields));
        self.asm.place(absent);
        Ok(())
    }

    pub(super) fn emit_field(&mut self, place: &Place) -> Emitted {
        self.plain(place)?;
        self.emit_fields(&[place.base])
    }

    fn emit_fields(&mut self, fields: &[FieldId]) -> Emitted {
        let program = self.program;
        let mut pieces = Vec::new();
        let mut bits = 0;
        for &field in fields {
            checkpoint();
            let ty = program.fields[field].ty;
            if matches!(ty, ScalarTy::Varbit(_)) {
                return Err("a header of variable length".to_owned());
            }
            // A piece of a limb: its position in the header, its field, limb and width.
            let width = ty.width();
            for limb in (0..width.div_ceil(64)).rev() {
                let count = (width - limb * 64).min(64);
                pieces.push((bits, field, limb, count));
                bits += count;
            }
        }
        if bits % 8 != 0 {
            return Err("a header that is not a whole number of bytes".to_owned());
        }
        let bytes = bits / 8;
        if bytes > MAX_EMITTED {
            return Err("so long a header".to_owned());
        }
        let long = self.general_leave("more than 2 KiB of headers");
        self.load_memory(R3, self.memory.emitted);
        let room = (MAX_EMITTED - bytes) as i32;
        self.asm.jump_if_number(When::Above, R3, room, long);
        self.asm.copy(R7, R9);
        self.asm.alu(Alu::Add, R7, R3);
        self.asm.alu_number(Alu::Add, R3, bytes as i32);
        self.asm.store(Size::Double, R9, self.memory.emitted, R3);
        let mut at = 0;
        while at < bytes {
            let size = [8, 4, 2, 1].into_iter().find(|size| at + size <= bytes);
            let size = size.unwrap_or(1);
            self.compose(&pieces, at * 8, size * 8);
            self.asm.network_order(R0, Size::of(size));
            let offset = self.memory.buffer + at as i16;
            self.asm.store(Size::of(size), R7, offset, R0);
            at += size;
        }
        Ok(())
    }

    /// Composes `count` bits of a header, from its bit `start` on, in `R0`.
    fn compose(&mut self, pieces: &[(u32, FieldId, u32, u32)], start: u32, count: u32) {
        let end = start + count;
        let mut is_first = true;
        for &(at, field, limb, width) in pieces {
            let (from, to) = (at.max(start), (at + width).min(end));
            if from >= to {
                continue;
            }
            let register = if is_first { R0 } else { R1 };
            self.load_field(register, field, limb);
            // Bits below the part are shifted out, bits above it are masked.
            self.asm
                .alu_number(Alu::Shr, register, (at + width - to) as i32);
            if from > at {
                self.asm.mask(register, to - from);
            }
            self.asm.alu_number(Alu::Shl, register, (end - to) as i32);
            if !is_first {
                self.asm.alu(Alu::Or, R0, R1);
            }
            is_first = false;
        }
        if is_first {
            self.asm.set(R0, 0);
        }
    }
}
