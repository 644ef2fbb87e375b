//! Stage slots of the switch (HyperVDP, section IV-D), and the allocation of vPDPs' programs to
//! them.
//!
//! A program is fitted before its device is created: its stages are placed beside those of all
//! other programs. A program longer than the slots is split into turns, which are separate trips
//! through the slots. The places of a program are reserved: while it runs, and before that as long
//! as a reference to it exists. Places of other programs do not change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ir::Program;
use passes::slots::{Demand, Pins, SlotError, SlotMap, SlotPlan, Slots};
use passes::wrap::wrap;

use crate::vpdp::VpdpId;

/// Allocation of a switch's stage slots. Clones share it, for threads that create devices.
#[derive(Clone, Debug)]
pub struct SlotBook(Arc<Mutex<Book>>);

#[derive(Debug)]
struct Book {
    plan: SlotPlan,
    pins: BTreeMap<VpdpId, Pins>,
    programs: BTreeMap<VpdpId, Programs>,
}

/// Programs of a vPDP. Only one runs at a time, so they share places.
#[derive(Debug, Default)]
struct Programs {
    running: Option<Holding>,
    /// Programs that may run soon: those being compiled, and one saved by a controller.
    coming: Vec<Holding>,
}

/// A program with places in the slots.
#[derive(Clone, Debug)]
struct Holding {
    /// The fitted program: whole, or split into turns. It is a separate object, so that its places
    /// become free with its last reference.
    made: Weak<Program>,
    /// The program before it was fitted.
    given: Arc<Program>,
    map: SlotMap,
}

impl Holding {
    fn is_of(&self, made: &Arc<Program>) -> bool {
        Weak::as_ptr(&self.made) == Arc::as_ptr(made)
    }
}

/// Pin of a stage to a slot.
#[derive(Clone, Debug)]
pub(crate) struct Pin {
    pub(crate) stage: String,
    /// The slot; any slot if `None`.
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

/// Snapshot of the stage slots.
#[derive(Clone, Debug)]
pub struct SlotView {
    /// Capacity of the slots.
    pub plan: SlotPlan,
    /// Occupancy of each slot, programs that may run soon included.
    pub held: Vec<Demand>,
    /// Places of each vPDP's stages.
    pub programs: Vec<(VpdpId, SlotMap)>,
    /// Places of programs that may run soon.
    pub coming: Vec<(VpdpId, SlotMap)>,
}

impl Programs {
    /// Returns all programs with places.
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

    /// Fits a program that will replace the vPDP's running one, and reserves its places. Returns
    /// the fitted program.
    ///
    /// # Errors
    /// The first stage or control that does not fit.
    pub fn fit(&self, id: VpdpId, given: &Arc<Program>) -> Result<Arc<Program>, SlotError> {
        self.fit_with(id, given, &self.pins(id))
    }

    /// Fits a program without reserving its places.
    ///
    /// # Errors
    /// As for [`SlotBook::fit`].
    pub fn try_fit(&self, id: VpdpId, given: &Program) -> Result<Arc<Program>, SlotError> {
        let (made, _) = self.cut(id, given, &self.pins(id))?;
        Ok(made)
    }

    /// Fits a program as [`SlotBook::fit`] does, with a stage in this slot, or in any.
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

    /// Returns the pins of a vPDP's stages.
    pub(crate) fn pins(&self, id: VpdpId) -> Pins {
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
            // Another thread may have taken the places meanwhile: try again.
            if self.book().take(id, holding) {
                return Ok(made);
            }
        }
    }

    /// Finds places and builds the fitted program. The lock is not held meanwhile, since this
    /// takes time.
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

    /// Pins a stage of the vPDP's programs to a slot, or unpins it.
    pub(crate) fn pin(&self, id: VpdpId, pin: &Pin) {
        pin.apply(self.book().pins.entry(id).or_default());
    }

    /// Removes all pins of the vPDP's stages.
    pub(crate) fn unpin(&self, id: VpdpId) {
        self.book().pins.remove(&id);
    }

    /// Marks a program as the running one; the places of the previous one become free. A program
    /// that was not fitted has no places.
    pub(crate) fn settle(&self, id: VpdpId, made: &Arc<Program>) {
        let mut book = self.book();
        let programs = book.programs.entry(id).or_default();
        let found = programs.coming.iter().position(|one| one.is_of(made));
        programs.running = found.map(|at| programs.coming.swap_remove(at));
    }

    /// Frees the places of a vPDP's running program, and its pins.
    pub(crate) fn free(&self, id: VpdpId) {
        let mut book = self.book();
        if let Some(programs) = book.programs.get_mut(&id) {
            programs.running = None;
        }
        book.pins.remove(&id);
    }

    /// Returns the program that a fitted one was built from.
    pub fn given(&self, id: VpdpId, made: &Arc<Program>) -> Option<Arc<Program>> {
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
    /// Reserves places. Returns false if other programs have taken them.
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

    /// Returns the slots as occupied by all other vPDPs.
    fn slots_but(&self, id: Option<VpdpId>) -> Slots {
        let mut slots = Slots::new(self.plan);
        let others = self.programs.iter().filter(|(of, _)| Some(**of) != id);
        for (_, programs) in others {
            slots.hold_one_of(programs.holdings().map(|holding| &holding.map));
        }
        slots
    }
}
