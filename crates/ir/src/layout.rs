//! Layout of a packet's frame: the offset of each field in 64-bit limbs.
//!
//! A field of at most 64 bits takes one limb. A wider one takes as many as it needs, least
//! significant first. A `varbit` has one more limb in front, its length in bits; the value follows,
//! right-aligned. Fields of one header or array element are consecutive, so elements have a
//! constant stride.

use bits::IdVec;
use support::work::checkpoint;

use crate::program::{FieldId, Program};
use crate::types::ScalarTy;

/// The layout of a program's frame.
#[derive(Clone, Debug)]
pub struct Layout {
    offsets: IdVec<FieldId, u32>,
    limbs: u32,
}

impl Layout {
    /// Lays out all fields of a program, in order.
    pub fn of(program: &Program) -> Layout {
        let mut offsets = IdVec::default();
        let mut limbs = 0;
        for (_, field) in program.fields.iter() {
            checkpoint();
            offsets.push(limbs);
            limbs += limbs_of(field.ty);
        }
        Layout { offsets, limbs }
    }

    /// Returns the first limb of a field.
    pub fn offset(&self, field: FieldId) -> u32 {
        self.offsets[field]
    }

    /// Returns the size of the frame in limbs.
    pub fn limbs(&self) -> u32 {
        self.limbs
    }
}

/// Returns the number of limbs that a value of this type takes in a frame.
pub fn limbs_of(ty: ScalarTy) -> u32 {
    let value = ty.width().div_ceil(64).max(1);
    match ty {
        ScalarTy::Varbit(_) => value + 1,
        _ => value,
    }
}
