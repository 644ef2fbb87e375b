//! Where each field lives in a packet's frame of 64-bit limbs.
//!
//! A field of at most 64 bits takes one limb, a wider one as many as it needs (least significant first); a `varbit` takes one more, in front, for its
//! length in bits, and its value stands right-aligned behind it. Fields of one header or array element are consecutive, so elements have a constant stride.

use bits::IdVec;

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
            offsets.push(limbs);
            limbs += limbs_of(field.ty);
        }
        Layout { offsets, limbs }
    }

    /// The first limb of a field.
    pub fn offset(&self, field: FieldId) -> u32 {
        self.offsets[field]
    }

    /// Limbs of the whole frame.
    pub fn limbs(&self) -> u32 {
        self.limbs
    }
}

/// Limbs that a value of this type takes in a frame.
pub fn limbs_of(ty: ScalarTy) -> u32 {
    let value = ty.width().div_ceil(64).max(1);
    match ty {
        ScalarTy::Varbit(_) => value + 1,
        _ => value,
    }
}
