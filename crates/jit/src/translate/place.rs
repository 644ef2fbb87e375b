//! Locations: fields of the frame, scratch slots, and addresses computed at run time.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I64, I64X2};
use cranelift_codegen::ir::{AliasRegion, InstBuilder, Value};
use exec::Unsupported;
use exec::slots::Slot;
use ir::{Dim, HeaderPlace, Place, ScalarTy, limbs_of};

use super::{INLINE_LIMBS, Translator, in_limbs, memory};
use crate::helpers::{Helper, OUT_OF_RANGE};

/// Limbs of a vector, by which long values are copied and compared.
pub(super) const LIMBS_OF_VECTOR: usize = 2;

/// Run-time distance in limbs, and a truth value for all indices in range. The distance is a sum
/// without the indices that are out of range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Distance {
    pub(super) limbs: Value,
    pub(super) in_range: Value,
}

/// Location of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Located {
    /// Slot of the element with index 0.
    pub(super) base: Slot,
    pub(super) at: Option<Distance>,
    pub(super) ty: ScalarTy,
}

impl Located {
    pub(super) fn limbs(&self) -> u32 {
        limbs_of(self.ty)
    }

    /// Returns true if the value is stored in slots.
    pub(super) fn is_wide(&self) -> bool {
        self.limbs() > INLINE_LIMBS || matches!(self.ty, ScalarTy::Varbit(_))
    }
}

/// Returns true if a helper clears this number of limbs.
pub(super) fn is_cleared_by_helper(limbs: u32) -> bool {
    limbs > 2 * INLINE_LIMBS
}

/// Returns the byte offset of a slot.
fn byte_offset(slot: Slot) -> i32 {
    // A frame has at most 2^17 limbs, and scratch a few times as many.
    slot as i32 * 8
}

impl Translator<'_> {
    pub(super) fn load_slots(&mut self, slot: Slot, limbs: u32) -> Vec<Value> {
        (slot..slot + limbs)
            .map(|slot| self.load_slot(slot))
            .collect()
    }

    fn load_slot(&mut self, slot: Slot) -> Value {
        if let Some(value) = self.speculation.as_ref().and_then(|s| s.load(slot)) {
            return value;
        }
        if let Some(known) = self.told(slot).or_else(|| self.late(slot)) {
            return known;
        }
        match self.home(slot) {
            Some(variable) => self.b.use_var(variable),
            None => {
                let (flags, offset) = (in_limbs(), byte_offset(slot));
                self.b.ins().load(I64, flags, self.limbs, offset)
            }
        }
    }

    pub(super) fn load_from(&mut self, base: Value, slot: Slot, limbs: u32) -> Vec<Value> {
        (slot..slot + limbs)
            .map(|slot| {
                let offset = byte_offset(slot);
                self.b.ins().load(I64, in_limbs(), base, offset)
            })
            .collect()
    }

    pub(super) fn store_slots(&mut self, slot: Slot, values: &[Value]) {
        for (&value, slot) in values.iter().zip(slot..) {
            if let Some(speculation) = &mut self.speculation {
                speculation.store(slot, value);
                continue;
            }
            match self.home(slot) {
                Some(variable) => self.b.def_var(variable, value),
                None => self.store_in_frame(slot, value),
            }
        }
    }

    pub(super) fn store_in_frame(&mut self, slot: Slot, value: Value) {
        let (flags, offset) = (in_limbs(), byte_offset(slot));
        self.b.ins().store(flags, value, self.limbs, offset);
    }

    pub(super) fn store_to(&mut self, base: Value, slot: Slot, values: &[Value]) {
        for (&value, slot) in values.iter().zip(slot..) {
            let offset = byte_offset(slot);
            self.b.ins().store(in_limbs(), value, base, offset);
        }
    }

    /// Returns the base address for slots at a distance.
    pub(super) fn limbs_behind(&mut self, at: Option<Distance>) -> Value {
        match at {
            None => self.limbs,
            Some(at) => {
                let bytes = self.b.ins().ishl_imm(at.limbs, 3);
                self.b.ins().iadd(self.limbs, bytes)
            }
        }
    }

    /// Encodes the distance for helpers.
    pub(super) fn distance_number(&mut self, at: Option<Distance>) -> Value {
        match at {
            None => self.number(0),
            Some(at) => {
                let nowhere = self.number(OUT_OF_RANGE);
                self.b.ins().select(at.in_range, at.limbs, nowhere)
            }
        }
    }

    pub(super) fn locate(&mut self, place: &Place) -> Result<Located, Unsupported> {
        let ty = place
            .ty(self.program)
            .ok_or_else(|| self.unsupported("a place of no type"))?;
        let base = self.slot(place.base);
        let strides: Vec<u32> = place
            .dims
            .iter()
            .map(|dim| self.field_distance(place.base.get(), dim.len, dim.stride))
            .collect();
        let at = self.distance(&place.dims, &strides)?;
        Ok(Located { base, at, ty })
    }

    /// Returns the number of limbs between two elements of a place.
    fn field_distance(&self, base: u32, len: u32, stride: u32) -> u32 {
        let offset = |field: u32| {
            let field = ir::FieldId::new(field);
            self.program.fields.get(field).map(|_| self.slot(field))
        };
        let second = base.checked_add(stride).and_then(offset);
        match (len > 1, second, offset(base)) {
            (true, Some(second), Some(first)) => second.saturating_sub(first),
            _ => 0,
        }
    }

    /// Returns the header's index in [`crate::abi::Code::headers`], and the distance to add.
    pub(super) fn locate_header(
        &mut self,
        place: &HeaderPlace,
    ) -> Result<(usize, Option<Distance>), Unsupported> {
        let header = self.program.headers.get(place.base);
        let first = header
            .map(|header| header.valid.get())
            .ok_or_else(|| self.unsupported("a header that does not exist"))?;
        let fields = place.field_strides(self.program);
        let strides: Vec<u32> = place
            .dims
            .iter()
            .zip(fields)
            .map(|(dim, stride)| self.field_distance(first, dim.len, stride))
            .collect();
        let at = self.distance(&place.dims, &strides)?;
        Ok((place.base.get() as usize, at))
    }

    fn distance(&mut self, dims: &[Dim], strides: &[u32]) -> Result<Option<Distance>, Unsupported> {
        let mut sum: Option<Distance> = None;
        for (dim, &stride) in dims.iter().zip(strides) {
            let index = self.small(&dim.index)?;
            let below = IntCC::UnsignedLessThan;
            let in_range = self.b.ins().icmp_imm(below, index, i64::from(dim.len));
            let zero = self.number(0);
            let index = self.b.ins().select(in_range, index, zero);
            let limbs = self.b.ins().imul_imm(index, i64::from(stride));
            sum = Some(match sum {
                None => Distance { limbs, in_range },
                Some(sum) => Distance {
                    limbs: self.b.ins().iadd(sum.limbs, limbs),
                    in_range: self.b.ins().band(sum.in_range, in_range),
                },
            });
        }
        Ok(sum)
    }

    /// Reads a narrow location. Returns zeros if it is out of range.
    pub(super) fn load(&mut self, from: Located) -> Vec<Value> {
        let Some(at) = from.at else {
            return self.load_slots(from.base, from.limbs());
        };
        let base = self.limbs_behind(Some(at));
        let loaded = self.load_from(base, from.base, from.limbs());
        let zeros = self.zeros(loaded.len());
        self.select(at.in_range, &loaded, &zeros)
    }

    /// Writes a narrow location. Writes nothing if it is out of range.
    pub(super) fn store(&mut self, to: Located, values: &[Value]) {
        let Some(at) = to.at else {
            return self.store_slots(to.base, values);
        };
        // A write that is out of range goes to a slot that is never read.
        let there = self.limbs_behind(Some(at));
        let there = self.b.ins().iadd_imm(there, i64::from(to.base) * 8);
        let nowhere = i64::from(self.nowhere) * 8;
        let nowhere = self.b.ins().iadd_imm(self.limbs, nowhere);
        let base = self.b.ins().select(at.in_range, there, nowhere);
        self.store_to(base, 0, values);
    }

    /// Returns slots with the value of a location: its own slots, or a copy of a run-time element.
    pub(super) fn in_slots(&mut self, from: Located) -> Slot {
        match from.at {
            None => from.base,
            Some(_) => {
                let d = self.temporary(from.limbs());
                self.load_into(from, d);
                d
            }
        }
    }

    /// Copies a location's limbs into slots.
    pub(super) fn load_into(&mut self, from: Located, d: Slot) {
        match from.at {
            None => self.copy(d, from.base, from.limbs()),
            Some(_) => {
                let (to, base) = (self.number(d.into()), self.number(from.base.into()));
                let (at, n) = (
                    self.distance_number(from.at),
                    self.number(from.limbs().into()),
                );
                self.help(Helper::LoadAt, &[to, base, at, n]);
            }
        }
    }

    /// Copies slots into a location.
    pub(super) fn store_from(&mut self, to: Located, a: Slot) {
        match to.at {
            None => self.copy(to.base, a, to.limbs()),
            Some(_) => {
                let (base, from) = (self.number(to.base.into()), self.number(a.into()));
                let (at, n) = (self.distance_number(to.at), self.number(to.limbs().into()));
                self.help(Helper::StoreAt, &[base, at, from, n]);
            }
        }
    }

    /// Returns the slot of a value of several vectors that is in the frame, and nowhere else.
    pub(super) fn vectors_in_frame(&self, place: &Place) -> Option<Slot> {
        let field = self.program.fields.get(place.base)?;
        let slots = self.slot(place.base)..self.slot(place.base) + limbs_of(field.ty);
        let has_vectors = slots.len() >= 2 * LIMBS_OF_VECTOR && slots.len() % LIMBS_OF_VECTOR == 0;
        let is_in_frame = place.dims.is_empty() && self.speculation.is_none();
        let is_number = !matches!(field.ty, ScalarTy::Varbit(_));
        (has_vectors
            && is_in_frame
            && is_number
            && !slots.clone().any(|slot| self.home(slot).is_some()))
        .then_some(slots.start)
    }

    /// Loads a number of limbs from the frame as vectors.
    pub(super) fn load_vectors(&mut self, slot: Slot, limbs: u32) -> Vec<Value> {
        (slot..slot + limbs)
            .step_by(LIMBS_OF_VECTOR)
            .map(|slot| {
                let (flags, offset) = (memory(AliasRegion::Heap), byte_offset(slot));
                self.b.ins().load(I64X2, flags, self.limbs, offset)
            })
            .collect()
    }

    /// Stores vectors to the frame.
    pub(super) fn store_vectors(&mut self, slot: Slot, vectors: &[Value]) {
        for (&vector, slot) in vectors.iter().zip((slot..).step_by(LIMBS_OF_VECTOR)) {
            let (flags, offset) = (memory(AliasRegion::Heap), byte_offset(slot));
            self.b.ins().store(flags, vector, self.limbs, offset);
        }
    }

    /// Copies slots, which may overlap.
    pub(super) fn copy(&mut self, d: Slot, a: Slot, limbs: u32) {
        if d == a {
            return;
        }
        if limbs <= 2 * INLINE_LIMBS {
            let values = self.load_slots(a, limbs);
            self.store_slots(d, &values);
        } else {
            self.help_with(Helper::Copy, &[d.into(), a.into(), limbs.into()]);
        }
    }

    /// Writes zeros into slots.
    pub(super) fn clear(&mut self, d: Slot, limbs: u32) {
        if is_cleared_by_helper(limbs) {
            self.help_with(Helper::Clear, &[d.into(), limbs.into()]);
        } else {
            let zeros = self.zeros(limbs as usize);
            self.store_slots(d, &zeros);
        }
    }

    /// Adds a constant. Returns its index in [`crate::abi::Code::constants`].
    pub(super) fn constant(&mut self, limbs: Vec<u64>) -> u64 {
        self.code.constants.push(limbs.into());
        self.code.constants.len() as u64 - 1
    }
}
