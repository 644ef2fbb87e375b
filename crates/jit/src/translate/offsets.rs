//! Where headers were extracted, as far as that is known (`homes.rs`).
//!
//! A variable tells it of each header, so that ways that are parted know it. Of very many headers that would be carried through each state of a parser, and from there to the deparser: it stands on the stack too,
//! and is read there. Only a parser that leaves fields in the packet (`late.rs`) asks the variables then, and mostly for the header that it has just extracted.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, StackSlot, StackSlotData, StackSlotKind, Value};
use cranelift_frontend::{FunctionBuilder, Variable};
use ir::HeaderId;

use super::{I64, Translator, in_stack};

/// The offset of a header that was not extracted: before any place where a header may come to be.
const NOWHERE: i64 = -1 << 40;

/// Headers of which variables alone tell where they were extracted, at most. With 21 to 23 a router of ways that are parted by them carried a third to two fifths less from the stack; with 24, where functions
/// become too large for that (`simplify`), half as much again.
const MOST_IN_VARIABLES: usize = 23;

/// Bytes of an offset on the stack, and the bits of its address that are zero.
const WORD: i32 = 8;
const ALIGNMENT: u8 = 3;

/// Where each header was extracted, in bytes; [`NOWHERE`] if it was not.
///
/// Only [`Translator::note_offset`] defines the variables, each time by an instruction's result, and [`Translator::forget_offsets`], by a constant: so a result of an instruction always is where its
/// header was extracted (`late.rs`).
pub(super) struct Offsets {
    headers: BTreeMap<HeaderId, Known>,
    /// Where they stand, in the order of headers, if that is not in variables alone.
    slot: Option<StackSlot>,
}

/// What tells a header's offset.
#[derive(Clone, Copy)]
struct Known {
    variable: Variable,
    /// How many bytes behind the slot's beginning it stands.
    place: i32,
}

impl Offsets {
    pub(super) fn new(
        b: &mut FunctionBuilder<'_>,
        headers: impl Iterator<Item = HeaderId>,
    ) -> Offsets {
        let headers: BTreeSet<HeaderId> = headers.collect();
        let known = (0..).step_by(WORD as usize).map(|place| Known {
            variable: b.declare_var(I64),
            place,
        });
        let headers: BTreeMap<HeaderId, Known> = headers.into_iter().zip(known).collect();
        let slot = (headers.len() > MOST_IN_VARIABLES).then(|| {
            let size = WORD as u32 * headers.len() as u32;
            let data = StackSlotData::new(StackSlotKind::ExplicitSlot, size, ALIGNMENT);
            b.create_sized_stack_slot(data)
        });
        Offsets { headers, slot }
    }

    /// The headers of which it is known, in order.
    pub(super) fn headers(&self) -> impl Iterator<Item = HeaderId> {
        self.headers.keys().copied()
    }

    pub(super) fn knows(&self, header: HeaderId) -> bool {
        self.headers.contains_key(&header)
    }
}

impl Translator<'_> {
    /// A header was extracted at the cursor.
    pub(super) fn note_offset(&mut self, header: HeaderId) {
        if self
            .fused
            .as_ref()
            .is_some_and(|fusing| fusing.offsets.knows(header))
        {
            let cursor = self.b.use_var(self.cursor);
            let byte = self.b.ins().ushr_imm(cursor, 3);
            self.set_offset(header, byte);
        }
    }

    /// No header is extracted.
    pub(super) fn forget_offsets(&mut self) {
        let offsets = self.fused.as_ref().map(|fusing| &fusing.offsets);
        let headers: Vec<HeaderId> = offsets.into_iter().flat_map(Offsets::headers).collect();
        let nowhere = self.number(NOWHERE as u64);
        for header in headers {
            self.set_offset(header, nowhere);
        }
    }

    fn set_offset(&mut self, header: HeaderId, offset: Value) {
        if let Some(variable) = self.offset_variable(header) {
            self.b.def_var(variable, offset);
        }
        if let Some(place) = self.offset_place(header) {
            self.b.ins().store(in_stack(), offset, place, 0);
        }
    }

    /// Where a header was extracted, if that is known.
    pub(super) fn offset_of(&mut self, header: HeaderId) -> Option<Value> {
        match self.offset_place(header) {
            Some(place) => Some(self.b.ins().load(I64, in_stack(), place, 0)),
            None => self.offset_in_parser(header),
        }
    }

    /// The same where the header at hand has just been extracted: its offset is computed there.
    pub(super) fn offset_in_parser(&mut self, header: HeaderId) -> Option<Value> {
        let variable = self.offset_variable(header)?;
        Some(self.b.use_var(variable))
    }

    /// Whether a header with this offset was extracted.
    pub(super) fn is_there(&mut self, offset: Value) -> Value {
        let at_least = IntCC::SignedGreaterThanOrEqual;
        self.b.ins().icmp_imm(at_least, offset, 0)
    }

    fn offset_variable(&self, header: HeaderId) -> Option<Variable> {
        let offsets = &self.fused.as_ref()?.offsets;
        offsets.headers.get(&header).map(|known| known.variable)
    }

    /// The address of a header's offset on the stack.
    fn offset_place(&mut self, header: HeaderId) -> Option<Value> {
        let offsets = &self.fused.as_ref()?.offsets;
        let place = offsets.headers.get(&header)?.place;
        let slot = offsets.slot?;
        Some(self.b.ins().stack_addr(I64, slot, place))
    }
}
