//! Edits of single stages, and the stage slots.

use passes::edit::Edit;
use switch::{MayLose, Migration, MigrationMode};

use super::TenantSwitch;
use crate::error::HypervisorError;
use crate::slots::{Pin, SlotBook, SlotView};
use crate::vpdp::VpdpId;

impl TenantSwitch {
    /// Returns the slot allocation, for threads that build devices ([`SlotBook::fit`]).
    pub fn slot_book(&self) -> &SlotBook {
        &self.slots
    }

    /// Returns a snapshot of the stage slots.
    pub fn slots(&self) -> SlotView {
        self.slots.view()
    }

    /// Returns the stages of a vPDP that are pinned to slots.
    pub fn pins(&self, id: VpdpId) -> Vec<(String, u32)> {
        self.slots.pins(id).into_iter().collect()
    }

    /// Pins stages of the next programs of a vPDP to slots, in place of all other pins. The running
    /// program stays as it is.
    pub fn set_pins(&mut self, id: VpdpId, pins: impl IntoIterator<Item = (String, u32)>) {
        self.slots.unpin(id);
        for (stage, slot) in pins {
            let slot = Some(slot);
            self.slots.pin(id, &Pin { stage, slot });
        }
    }

    /// Unpins all stages of a vPDP, so that its next programs may use any slots.
    pub fn unpin(&mut self, id: VpdpId) {
        self.slots.unpin(id);
    }

    /// Changes one stage of a vPDP's function, which becomes a single program then. Roll back
    /// undoes it.
    ///
    /// # Errors
    /// As for [`Maker::edit`] and [`TenantSwitch::adopt`].
    ///
    /// [`Maker::edit`]: crate::Maker::edit
    pub fn edit(&mut self, id: VpdpId, change: &Edit<'_>) -> Result<Migration, HypervisorError> {
        let edited = self.maker(id)?.edit(change)?;
        // Tables of removed stages are kept, with their entries.
        self.adopt(edited, MigrationMode::State(MayLose::Nothing))
    }

    /// Pins a stage to this slot, or unpins it.
    ///
    /// # Errors
    /// As for [`Maker::move_to_slot`] and [`TenantSwitch::adopt_moved`].
    ///
    /// [`Maker::move_to_slot`]: crate::Maker::move_to_slot
    pub fn move_to_slot(
        &mut self,
        id: VpdpId,
        stage: &str,
        slot: Option<u32>,
    ) -> Result<Migration, HypervisorError> {
        let moved = self.maker(id)?.move_to_slot(stage, slot)?;
        self.adopt_moved(moved)
    }
}
