//! Offsets of extracted headers, as far as they are tracked (`homes.rs`).
//!
//! The offset of each header is in a variable, so that tail duplication knows it. Very many offsets
//! would be live in each parser state, and from there to the deparser. Then they are stored on the
//! stack too and read from there. In that case only a parser with deferred loads (`late.rs`) reads
//! the variables, mostly for the header that was just extracted.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, StackSlot, StackSlotData, StackSlotKind, Value};
use cranelift_frontend::{FunctionBuilder, Variable};
use ir::HeaderId;
use support::work::checkpoint;

use super::{I64, Translator, in_stack};

/// Offset of a header that was not extracted. It is below any valid offset.
const NOWHERE: i64 = -1 << 40;

/// Maximum number of headers with offsets only in variables. A router's paths are duplicated by
/// these offsets. With 21 to 23 headers, the stack lowered its throughput by a third to two fifths.
/// With 24, functions become too large for duplication (`simplify`), and the stack raised it by
/// half.
const MAX_IN_VARIABLES: usize = 23;

/// Bytes of an offset on the stack, and the base-2 logarithm of its alignment.
const WORD: i32 = 8;
const ALIGNMENT: u8 = 3;

/// Offset of each header in bytes, [`NOWHERE`] if it was not extracted.
///
/// Only [`Translator::note_offset`] and [`Translator::forget_offsets`] define the variables. The
/// first assigns a computed value, the second a constant. So a computed value is always the offset
/// of an extracted header (`late.rs`).
pub(super) struct Offsets {
    headers: BTreeMap<HeaderId, Known>,
    /// Stack slot of the offsets, in the order of headers, if they are not only in variables.
    slot: Option<StackSlot>,
}

/// Location of a header's offset.
#[derive(Clone, Copy)]
struct Known {
    variable: Variable,
    /// Byte offset in the stack slot.
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
        let slot = (headers.len() > MAX_IN_VARIABLES).then(|| {
            let size = WORD as u32 * headers.len() as u32;
            let data = StackSlotData::new(StackSlotKind::ExplicitSlot, size, ALIGNMENT);
            b.create_sized_stack_slot(data)
        });
        Offsets { headers, slot }
    }

    /// Returns the tracked headers, in order.
    pub(super) fn headers(&self) -> impl Iterator<Item = HeaderId> {
        self.headers.keys().copied()
    }

    pub(super) fn knows(&self, header: HeaderId) -> bool {
        self.headers.contains_key(&header)
    }
}

impl Translator<'_> {
    /// Records that a header was extracted at the cursor.
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

    /// Marks all headers as not extracted.
    pub(super) fn forget_offsets(&mut self) {
        let offsets = self.fused.as_ref().map(|fusing| &fusing.offsets);
        let headers: Vec<HeaderId> = offsets.into_iter().flat_map(Offsets::headers).collect();
        let nowhere = self.number(NOWHERE as u64);
        for header in headers {
            checkpoint();
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

    /// Returns the offset of a header, if it is tracked.
    pub(super) fn offset_of(&mut self, header: HeaderId) -> Option<Value> {
        match self.offset_place(header) {
            Some(place) => Some(self.b.ins().load(I64, in_stack(), place, 0)),
            None => self.offset_in_parser(header),
        }
    }

    /// Returns the offset from the variable. After an extraction in the parser it is the computed
    /// value.
    pub(super) fn offset_in_parser(&mut self, header: HeaderId) -> Option<Value> {
        let variable = self.offset_variable(header)?;
        Some(self.b.use_var(variable))
    }

    /// Returns a truth value that is set if a header with this offset was extracted.
    pub(super) fn is_there(&mut self, offset: Value) -> Value {
        let at_least = IntCC::SignedGreaterThanOrEqual;
        self.b.ins().icmp_imm(at_least, offset, 0)
    }

    fn offset_variable(&self, header: HeaderId) -> Option<Variable> {
        let offsets = &self.fused.as_ref()?.offsets;
        offsets.headers.get(&header).map(|known| known.variable)
    }

    /// Returns the address of a header's offset on the stack.
    fn offset_place(&mut self, header: HeaderId) -> Option<Value> {
        let offsets = &self.fused.as_ref()?.offsets;
        let place = offsets.headers.get(&header)?.place;
        let slot = offsets.slot?;
        Some(self.b.ins().stack_addr(I64, slot, place))
    }
}
