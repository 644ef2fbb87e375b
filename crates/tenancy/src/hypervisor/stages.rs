//! Stages of vPDPs' programs, changed one by one, and the slots that they are in.

use std::sync::Arc;

use ir::Program;
use passes::edit::{self, Edit};
use switch::{Carry, MayLose, Migration};

use super::Hypervisor;
use crate::function::Function;
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

    /// Changes one stage of what a vPDP does; what it was then is one program. Roll back undoes it.
    ///
    /// # Errors
    /// The stage cannot be changed so; as of [`Hypervisor::update`].
    pub fn edit(&mut self, id: VpdpId, change: &Edit<'_>) -> Result<Migration, Refusal> {
        self.catch_up(id)?;
        let edited = Hypervisor::edited(id, &self.loaded_mut(id)?.given, change)?;
        // Tables of stages that go stay, and all that they hold.
        self.update(id, edited, Carry::State(MayLose::Nothing))
    }

    /// What a vPDP's program becomes by a change of one stage, for a thread that may take its time.
    ///
    /// # Errors
    /// The stage cannot be changed so.
    pub fn edited(id: VpdpId, given: &Program, change: &Edit<'_>) -> Result<Function, Refusal> {
        let edited = edit::edit(given, change);
        let edited = edited.map_err(|error| Refusal::Edit(id, Box::new(error)))?;
        Ok(Function::Program(Arc::new(edited)))
    }

    /// Has a stage be in this slot from now on, in whatever program of the vPDP. What it does, and did before, stays.
    ///
    /// # Errors
    /// There is no such stage; the slot does not hold it.
    pub fn move_to_slot(
        &mut self,
        id: VpdpId,
        stage: &str,
        slot: u32,
    ) -> Result<Migration, Refusal> {
        self.catch_up(id)?;
        let given = Arc::clone(&self.loaded_mut(id)?.given);
        let found = edit::check_stage(&given, stage);
        found.map_err(|error| Refusal::Edit(id, Box::new(error)))?;
        let pin = (stage.to_owned(), slot);
        let fitted = self.slots.fit_pinned(id, &given, pin.clone());
        let device = self.maker(id)?.device(fitted)?;
        let migration = self.replace(id, device, Carry::State(MayLose::Nothing))?;
        self.slots.pin(id, pin);
        Ok(migration)
    }
}
