//! Operations on a packet's limbs, named by slots: what engines share so that each is written once.
//!
//! A [`Slot`] is a place in [`crate::PacketContext::limbs`]: the frame as [`ir::Layout`] says, then the engine's scratch. An engine decides where
//! operands are, what happens to them is here: tables ([`table`]), headers ([`header`]), externs ([`call`]) and numbers of
//! more than one limb ([`wide`]). The limbs are handed in beside the packet, from which engines take them while a block runs.

pub mod call;
mod calling;
pub mod header;
pub mod table;
pub mod wide;

use ir::ScalarTy;

/// A place in [`crate::PacketContext::limbs`].
pub type Slot = u32;

/// A value in slots.
#[derive(Clone, Copy, Debug)]
pub struct SlotValue {
    /// Where it begins.
    pub slot: Slot,
    /// Its type, which says how many limbs it takes ([`ir::limbs_of`]).
    pub ty: ScalarTy,
}
