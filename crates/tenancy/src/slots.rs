//! The stage slots of the switch (HyperVDP, section IV-D), and what each vPDP's program holds of them.
//!
//! A program that is to run is fitted before a device is made of it: its stages get places beside those of all other programs, and it is cut into turns
//! where it is longer than the slots. The places are its own from then on: as those of the program that the vPDP runs once its device does, and until
//! then as long as somebody has the program. Others keep theirs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ir::Program;
use passes::slots::{Demand, Pins, SlotError, SlotMap, SlotPlan, Slots};
use passes::wrap::wrap;

use crate::vpdp::VpdpId;

/// The slots of a switch. Clones are the same ones, for threads that make devices of vPDPs' programs.
#[derive(Clone, Debug)]
pub struct SlotBook(Arc<Mutex<Book>>);

#[derive(Debug)]
struct Book {
    plan: SlotPlan,
    pins: BTreeMap<VpdpId, Pins>,
    programs: BTreeMap<VpdpId, Programs>,
}

/// The programs of a vPDP: one runs at a time, so they have room in common.
#[derive(Debug, Default)]
struct Programs {
    running: Option<Holding>,
    /// What may run soon: those that are being made, and one that a controller has saved.
    coming: Vec<Holding>,
}

/// A program in slots.
#[derive(Clone, Debug)]
struct Holding {
    /// As it runs: whole, or in turns. It is one of its own, so that the places are free again when nobody has it.
    made: Weak<Program>,
    /// As it was given.
    given: Arc<Program>,
    map: SlotMap,
}

impl Holding {
    fn is_of(&self, made: &Arc<Program>) -> bool {
        Weak::as_ptr(&self.made) == Arc::as_ptr(made)
    }
}

/// Where a stage is to be.
#[derive(Clone, Debug)]
pub(crate) struct Pin {
    pub(crate) stage: String,
    /// Any without it.
    pub(crate) slot: Option<u32>,
}

impl Pin {
    fn apply(&self, pins: &mut Pins) {
        match self.slot {
            Some(slot) => pins.insert(self.stage.clone(), slot),
            None => pins.remove(&self.stage),
        };
    }
}

/// What is in the slots of a switch.
#[derive(Clone, Debug)]
pub struct SlotView {
    /// What they can hold.
    pub plan: SlotPlan,
    /// What each of them holds; with places of programs that may run soon.
    pub held: Vec<Demand>,
    /// The places of each vPDP's stages.
    pub programs: Vec<(VpdpId, SlotMap)>,
    /// The places of what may run soon.
    pub coming: Vec<(VpdpId, SlotMap)>,
}

impl Programs {
    /// All that somebody has still.
    fn holdings(&self) -> impl Iterator<Item = &Holding> {
        self.running.iter().chain(self.coming())
    }

    fn coming(&self) -> impl Iterator<Item = &Holding> {
        let coming = self.coming.iter();
        coming.filter(|holding| holding.made.strong_count() > 0)
    }
}

impl SlotBook {
    pub(crate) fn new(plan: SlotPlan) -> SlotBook {
        SlotBook(Arc::new(Mutex::new(Book {
            plan,
            pins: BTreeMap::new(),
            programs: BTreeMap::new(),
        })))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds places for a program that is to run in a vPDP in place of the one that does: what is to be run.
    ///
    /// # Errors
    /// The first stage or control that has no place.
    pub fn fit(&self, id: VpdpId, given: &Arc<Program>) -> Result<Arc<Program>, SlotError> {
        self.fit_with(id, given, &self.pins(id))
    }

    /// What would be run; it gets no places.
    ///
    /// # Errors
    /// As of [`SlotBook::fit`].
    pub fn try_fit(&self, id: VpdpId, given: &Program) -> Result<Arc<Program>, SlotError> {
        let (made, _) = self.cut(id, given, &self.pins(id))?;
        Ok(made)
    }

    /// The same as [`SlotBook::fit`], with a stage in this slot, or in any.
    pub(crate) fn fit_pinned(
        &self,
        id: VpdpId,
        given: &Arc<Program>,
        pin: &Pin,
    ) -> Result<Arc<Program>, SlotError> {
        let mut pins = self.pins(id);
        pin.apply(&mut pins);
        self.fit_with(id, given, &pins)
    }

    fn pins(&self, id: VpdpId) -> Pins {
        self.book().pins.get(&id).cloned().unwrap_or_default()
    }

    fn fit_with(
        &self,
        id: VpdpId,
        given: &Arc<Program>,
        pins: &Pins,
    ) -> Result<Arc<Program>, SlotError> {
        loop {
            let (made, map) = self.cut(id, given, pins)?;
            let holding = Holding {
                made: Arc::downgrade(&made),
                given: Arc::clone(given),
                map,
            };
            // Others may have taken the places meanwhile: then there are perhaps others.
            if self.book().take(id, holding) {
                return Ok(made);
            }
        }
    }

    /// Finds places, and makes of a program what runs in them. That takes time, and the slots are everybody's: they are not locked for it.
    fn cut(
        &self,
        id: VpdpId,
        given: &Program,
        pins: &Pins,
    ) -> Result<(Arc<Program>, SlotMap), SlotError> {
        let mut slots = self.book().slots_but(Some(id));
        let map = slots.place(given, pins)?;
        let made = wrap(given, &map).unwrap_or_else(|| Program::clone(given));
        Ok((Arc::new(made), map))
    }

    /// A stage of the vPDP's programs is to be in this slot, or in any, from now on.
    pub(crate) fn pin(&self, id: VpdpId, pin: &Pin) {
        pin.apply(self.book().pins.entry(id).or_default());
    }

    /// Stages of the vPDP's programs may be in any slot from now on.
    pub(crate) fn unpin(&self, id: VpdpId) {
        self.book().pins.remove(&id);
    }

    /// The program runs in its vPDP now: what ran before has no places any more. A program that was not fitted has none.
    pub(crate) fn settle(&self, id: VpdpId, made: &Arc<Program>) {
        let mut book = self.book();
        let programs = book.programs.entry(id).or_default();
        let found = programs.coming.iter().position(|one| one.is_of(made));
        programs.running = found.map(|at| programs.coming.swap_remove(at));
    }

    /// The vPDP runs nothing any more.
    pub(crate) fn free(&self, id: VpdpId) {
        let mut book = self.book();
        if let Some(programs) = book.programs.get_mut(&id) {
            programs.running = None;
        }
        book.pins.remove(&id);
    }

    /// A program as it was given, by the one that was made of it.
    pub(crate) fn given(&self, id: VpdpId, made: &Arc<Program>) -> Option<Arc<Program>> {
        let book = self.book();
        let mut holdings = book.programs.get(&id)?.holdings();
        let holding = holdings.find(|holding| holding.is_of(made))?;
        Some(Arc::clone(&holding.given))
    }

    pub(crate) fn view(&self) -> SlotView {
        let book = self.book();
        let running = book.programs.iter().filter_map(|(id, programs)| {
            let holding = programs.running.as_ref()?;
            Some((*id, holding.map.clone()))
        });
        let coming = book.programs.iter().flat_map(|(id, programs)| {
            let coming = programs.coming();
            coming.map(|holding| (*id, holding.map.clone()))
        });
        SlotView {
            plan: book.plan,
            held: book.slots_but(None).held().to_vec(),
            programs: running.collect(),
            coming: coming.collect(),
        }
    }
}

impl Book {
    /// Keeps places, if others have left them free; whether they have.
    fn take(&mut self, id: VpdpId, holding: Holding) -> bool {
        let is_free = self.slots_but(Some(id)).have_room_for(&holding.map);
        if is_free {
            self.forget_gone();
            self.programs.entry(id).or_default().coming.push(holding);
        }
        is_free
    }

    fn forget_gone(&mut self) {
        self.programs.retain(|_, programs| {
            let coming = &mut programs.coming;
            coming.retain(|holding| holding.made.strong_count() > 0);
            programs.running.is_some() || !coming.is_empty()
        });
    }

    /// The slots without what this vPDP has in them.
    fn slots_but(&self, id: Option<VpdpId>) -> Slots {
        let mut slots = Slots::new(self.plan);
        let others = self.programs.iter().filter(|(of, _)| Some(**of) != id);
        for (_, programs) in others {
            slots.hold_one_of(programs.holdings().map(|holding| &holding.map));
        }
        slots
    }
}
