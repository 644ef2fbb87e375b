//! Operations on a packet's limbs, shared by all engines.
//!
//! A [`Slot`] is an index into [`crate::PacketContext::limbs`]: the frame in the order of
//! [`ir::Layout`], then the engine's scratch limbs. An engine decides where operands are stored.
//! The operations are here: tables ([`table`]), headers ([`header`]), externs ([`call`]) and
//! numbers of more than one limb ([`wide`]). The limbs are passed separately from the packet,
//! because engines take them out of it while a block runs.

pub mod call;
mod call_context;
pub mod header;
pub mod table;
pub mod wide;

use ir::ScalarTy;

/// Index into [`crate::PacketContext::limbs`].
pub type Slot = u32;

/// Value in slots.
#[derive(Clone, Copy, Debug)]
pub struct SlotValue {
    /// First slot.
    pub slot: Slot,
    /// Type of the value, which determines its number of limbs ([`ir::limbs_of`]).
    pub ty: ScalarTy,
}
