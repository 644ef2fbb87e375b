//! Loop of the fast path over the packets of a burst: start of a packet, end of a packet, and exit
//! from the fast path.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use exec::{PackedOutcome, PassInput};
use ir::{FieldId, HeaderId, limbs_of};

use super::field_allocation::fields_of;
use super::{Block, I64, Translator, in_constants, in_invocation};
use crate::abi::{flags, frames, offset};
use crate::helpers::Helper;

/// Exit block for packets that leave the fast path. `bytes_stand` is true if the packet's bytes are
/// still those that were parsed.
pub(super) struct Exit {
    block: Block,
    bytes_stand: bool,
}

impl Translator<'_> {
    /// Starts a packet: sets its bytes and clears its fields.
    pub(super) fn begin_packet(&mut self) {
        let frame = self.frame_at_hand();
        let buffer = self
            .b
            .ins()
            .load(I64, in_invocation(), frame, frames::BUFFER);
        let [start, len] = [frames::START, frames::LEN].map(|at| self.load_half(frame, at));
        // The select of equal values for a start of 0 has a purpose. Of a plain sum both operands
        // would stay live, to be added in each instruction that reads the packet.
        let sum = self.b.ins().iadd(buffer, start);
        let bytes = self.b.ins().select(start, sum, buffer);
        self.b.def_var(self.bytes, bytes);
        let bits = self.b.ins().ishl_imm(len, 3);
        self.b.def_var(self.bits, bits);
        self.b.def_var(self.headroom, start);
        let at = self.at();
        self.look_at_device(at);
        self.begin_work();
        let flags = self.load_constant(offset::FIRST_FLAGS);
        self.set_flags(flags);
        let zero = self.number(0);
        if let Some(fusing) = &self.fused {
            self.b.def_var(fusing.frame, frame);
            self.b.def_var(fusing.received, len);
            self.b.def_var(fusing.egress, zero);
        }
        self.all_zero();
    }

    /// Returns the index of the current packet in the burst.
    pub(super) fn at(&mut self) -> Value {
        match self.fused.as_ref().map(|fusing| fusing.at) {
            Some(at) => self.b.use_var(at),
            None => self.number(0),
        }
    }

    /// Sets the index of the current packet.
    pub(super) fn set_at(&mut self, at: Value) {
        if let Some(fusing) = &self.fused {
            self.b.def_var(fusing.at, at);
        }
    }

    fn frame_at_hand(&mut self) -> Value {
        let at = self.at();
        let frames = self.load_constant(offset::FRAMES);
        let behind = self.b.ins().ishl_imm(at, 3);
        let place = self.b.ins().iadd(frames, behind);
        self.b.ins().load(I64, in_constants(), place, 0)
    }

    /// Returns the address of the packet's frame in the burst. While the context holds the packet's
    /// frame, the context's former frame is at this address.
    fn frame(&mut self) -> Value {
        match self.fused.as_ref().map(|fusing| fusing.frame) {
            Some(frame) if !self.is_in_cold() => self.b.use_var(frame),
            // Cold code loads the address again. Otherwise it would stay live in all code.
            _ => self.frame_at_hand(),
        }
    }

    /// Returns the ingress port. The burst's frame keeps it even while the context holds the
    /// packet's frame.
    pub(super) fn ingress(&mut self) -> Value {
        let frame = self.frame();
        self.b.ins().uload32(in_constants(), frame, frames::INGRESS)
    }

    /// Loads 32 bits of a frame's fields.
    fn load_half(&mut self, frame: Value, at: i32) -> Value {
        self.b.ins().uload32(in_invocation(), frame, at)
    }

    /// Ends a packet that has an outcome. Continues with the next one, unless the burst is finished
    /// or the device must handle notifications first.
    pub(super) fn end_packet(&mut self, begin: Block, ended: Block) {
        self.start(ended);
        let number = self.b.block_params(ended)[0];
        let at = self.write_outcome(number);
        let [next, through, stopped] = [(); 3].map(|()| self.b.create_block());
        let flags = self.flags();
        let seen = flags::HELD | flags::ASKED;
        if self.code.may_move {
            // For most packets a single test suffices.
            let either = self.b.ins().band_imm(flags, (seen | flags::MOVED) as i64);
            let unusual = self.b.create_block();
            self.branch(either, unusual, next);
            self.start_sealed(unusual);
        }
        let must_see = self.b.ins().band_imm(flags, seen as i64);
        self.return_if(must_see, |this| {
            let stops = this.help(Helper::EndPacket, &[]);
            this.branch(stops, stopped, next);
        });
        if self.code.may_move {
            self.move_frame();
        }
        self.jump(next);
        self.start(next);
        self.set_at(at);
        let count = self.load_constant(offset::COUNT);
        let goes_on = self.b.ins().icmp(IntCC::UnsignedLessThan, at, count);
        self.branch(goes_on, begin, through);
        self.start(through);
        self.end_lot(at);
        self.start(stopped);
        self.return_from_burst(at);
    }

    /// Moves the start of the current frame to the start of its packet. The headroom was checked
    /// when the packet was moved.
    fn move_frame(&mut self) {
        let frame = self.frame_at_hand();
        let shift = self.load_invocation(offset::SHIFT);
        let [start, len] = [frames::START, frames::LEN].map(|at| self.load_half(frame, at));
        let start = self.b.ins().iadd(start, shift);
        let len = self.b.ins().isub(len, shift);
        for (number, at) in [(start, frames::START), (len, frames::LEN)] {
            self.b.ins().istore32(in_invocation(), number, frame, at);
        }
    }

    /// Writes the outcome of the current packet. Returns the number of packets that have one.
    fn write_outcome(&mut self, number: Value) -> Value {
        let at = self.at();
        let outcomes = self.load_constant(offset::OUTCOMES);
        let behind = self.b.ins().ishl_imm(at, 3);
        let place = self.b.ins().iadd(outcomes, behind);
        self.b.ins().store(in_invocation(), number, place, 0);
        self.b.ins().iadd_imm(at, 1)
    }

    /// Leaves the fast path at a step.
    pub(super) fn leave(&mut self, step: u32) {
        self.write_down_told();
        let egress = self.egress();
        let left = PackedOutcome::LEFT | u64::from(step) << PackedOutcome::STEP_SHIFT;
        let left = self.number(left);
        let number = self.b.ins().bor(egress, left);
        if let Some(exit) = self.exit() {
            self.jump_with(exit, &[number]);
        }
    }

    /// Writes the inputs of the architecture to their variables too.
    fn write_down_told(&mut self) {
        let told = self.fused.iter().flat_map(|fusing| &fusing.told);
        let mut told: Vec<(FieldId, PassInput)> = told.map(|(&at, &input)| (at, input)).collect();
        told.sort_by_key(|(field, _)| field.get());
        for (field, input) in told {
            let value = self.given(input);
            self.set_value(field, value);
        }
    }

    /// Returns the exit block for packets with unchanged or with changed bytes.
    fn exit(&mut self) -> Option<Block> {
        let fusing = self.fused.as_ref()?;
        let mut exits = fusing.exits.iter();
        if let Some(known) = exits.find(|exit| exit.bytes_stand == fusing.bytes_stand) {
            return Some(known.block);
        }
        let block = self.cold_block();
        self.b.append_block_param(block, I64);
        let fusing = self.fused.as_mut()?;
        fusing.exits.push(Exit {
            block,
            bytes_stand: fusing.bytes_stand,
        });
        Some(block)
    }

    /// Translates the exit blocks after all jumps to them are known. They store all fields and are
    /// shared by several positions.
    pub(super) fn exits(&mut self) {
        let Some(fusing) = self.fused.as_mut() else {
            return;
        };
        fusing.told.clear();
        for exit in std::mem::take(&mut fusing.exits) {
            self.start_sealed(exit.block);
            if let Some(fusing) = self.fused.as_mut() {
                fusing.bytes_stand = exit.bytes_stand;
            }
            let number = self.b.block_params(exit.block)[0];
            self.hand_over(number);
        }
    }

    /// Stores everything that is known of a leaving packet where the code outside the fast path
    /// expects it.
    fn hand_over(&mut self, number: Value) {
        self.show_fields();
        self.show_sums();
        self.show_wrong();
        self.show_progress();
        let emitted = self.b.use_var(self.emitted);
        self.store_invocation(emitted, offset::EMITTED);
        let done = self.write_outcome(number);
        self.show_packet();
        self.return_from_burst(done);
        self.is_live = false;
    }

    fn show_fields(&mut self) {
        let Some(fusing) = self.fused.as_ref() else {
            return;
        };
        let bytes_stand = fusing.bytes_stand;
        let is_shown = |field: FieldId| bytes_stand || fusing.kept.contains(&field);
        let mut fields: Vec<FieldId> = fusing.homes.in_variables.iter().copied().collect();
        fields.retain(|&field| is_shown(field));
        fields.retain(|field| !(bytes_stand && fusing.homes.clean.contains(field)));
        fields.sort_by_key(|field| field.get());
        let mut headers: Vec<HeaderId> = fusing.homes.in_packet.iter().copied().collect();
        headers.sort_by_key(|header| header.get());
        for field in fields {
            self.show_field(field);
        }
        if bytes_stand {
            for header in headers {
                self.show_clean_fields(header);
            }
        }
    }

    fn show_field(&mut self, field: FieldId) {
        let limbs = self.program.fields.get(field).map_or(0, |f| limbs_of(f.ty));
        let slot = self.slot(field);
        let value = self.load_slots(slot, limbs);
        for (&value, slot) in value.iter().zip(slot..) {
            self.store_in_frame(slot, value);
        }
    }

    /// Loads the clean fields of a header from the packet again. They are zero if it was not
    /// extracted.
    fn show_clean_fields(&mut self, header: HeaderId) {
        let Some(site) = self.code.headers.get(header.get() as usize).cloned() else {
            return;
        };
        let Some(fusing) = self.fused.as_ref() else {
            return;
        };
        let fields = fields_of(self.program, header);
        let is_clean: Vec<bool> = fields[1..]
            .iter()
            .map(|f| fusing.homes.clean.contains(f))
            .collect();
        let Some(offset) = self.offset_of(header) else {
            return;
        };
        let is_there = self.is_there(offset);
        let (there, missing, after) = (self.cold_block(), self.cold_block(), self.cold_block());
        self.branch(is_there, there, missing);
        self.start_sealed(there);
        let bytes = self.bytes_of_header(header);
        let mut bit = 0;
        for (field, is_clean) in site.fields.iter().zip(&is_clean) {
            if *is_clean {
                let value = self.load_bits(bytes, bit, field.width, site.fixed_bits);
                for (&limb, slot) in value.iter().zip(field.slot..) {
                    self.store_in_frame(slot, limb);
                }
            }
            bit += field.width;
        }
        self.jump(after);
        self.start_sealed(missing);
        let zero = self.number(0);
        for (field, is_clean) in site.fields.iter().zip(&is_clean) {
            if *is_clean {
                let limbs = (bits::limbs_for(field.width) as u32).max(1);
                for slot in field.slot..field.slot + limbs {
                    self.store_in_frame(slot, zero);
                }
            }
        }
        self.jump(after);
        self.start_sealed(after);
    }
}
