//! Stages of vPDPs' programs, changed one by one, and the slots that they are in.

use passes::edit::Edit;
use switch::{Carry, MayLose, Migration};

use super::Hypervisor;
use crate::refusal::Refusal;
use crate::slots::{SlotBook, SlotView};
use crate::vpdp::VpdpId;

impl Hypervisor {
    /// The stage slots, for a thread that makes devices of vPDPs' programs ([`SlotBook::fit`]).
    pub fn slot_book(&self) -> &SlotBook {
        &self.slots
    }

    /// What is in the stage slots.
    pub fn slots(&self) -> SlotView {
        self.slots.view()
    }

    /// Lets all stages of a vPDP's programs be in any slot: those that come need not have what the present one has.
    pub fn unpin(&mut self, id: VpdpId) {
        self.slots.unpin(id);
    }

    /// Changes one stage of what a vPDP does; what it was then is one program. Roll back undoes it.
    ///
    /// # Errors
    /// As of [`Maker::edit`] and [`Hypervisor::adopt`].
    ///
    /// [`Maker::edit`]: crate::Maker::edit
    pub fn edit(&mut self, id: VpdpId, change: &Edit<'_>) -> Result<Migration, Refusal> {
        let edited = self.maker(id)?.edit(change)?;
        // Tables of stages that go stay, and all that they hold.
        self.adopt(edited, Carry::State(MayLose::Nothing))
    }

    /// Has a stage be in this slot from now on, or in any.
    ///
    /// # Errors
    /// As of [`Maker::move_to_slot`] and [`Hypervisor::adopt_moved`].
    ///
    /// [`Maker::move_to_slot`]: crate::Maker::move_to_slot
    pub fn move_to_slot(
        &mut self,
        id: VpdpId,
        stage: &str,
        slot: Option<u32>,
    ) -> Result<Migration, Refusal> {
        let moved = self.maker(id)?.move_to_slot(stage, slot)?;
        self.adopt_moved(moved)
    }
}
