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
    /// What runs, by vPDP.
    running: BTreeMap<VpdpId, Holding>,
    /// What may run soon.
    coming: Vec<(VpdpId, Holding)>,
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

/// What is in the slots of a switch.
#[derive(Clone, Debug)]
pub struct SlotView {
    /// What they can hold.
    pub plan: SlotPlan,
    /// What each of them holds; with places of programs that may run soon.
    pub held: Vec<Demand>,
    /// The places of each vPDP's stages.
    pub programs: Vec<(VpdpId, SlotMap)>,
}

impl SlotBook {
    pub(crate) fn new(plan: SlotPlan) -> SlotBook {
        SlotBook(Arc::new(Mutex::new(Book {
            plan,
            pins: BTreeMap::new(),
            running: BTreeMap::new(),
            coming: Vec::new(),
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
        let mut book = self.book();
        let pins = book.pins.get(&id).cloned().unwrap_or_default();
        book.fit(id, given, &pins)
    }

    /// The same, with a stage in this slot.
    pub(crate) fn fit_pinned(
        &self,
        id: VpdpId,
        given: &Arc<Program>,
        (stage, slot): (String, u32),
    ) -> Result<Arc<Program>, SlotError> {
        let mut book = self.book();
        let mut pins = book.pins.get(&id).cloned().unwrap_or_default();
        pins.insert(stage, slot);
        book.fit(id, given, &pins)
    }

    /// A stage of the vPDP's programs is to be in this slot from now on.
    pub(crate) fn pin(&self, id: VpdpId, (stage, slot): (String, u32)) {
        let mut book = self.book();
        book.pins.entry(id).or_default().insert(stage, slot);
    }

    /// The program runs in its vPDP now: what ran before has no places any more. A program that was not fitted has none.
    pub(crate) fn settle(&self, id: VpdpId, made: &Arc<Program>) {
        let mut book = self.book();
        let mut coming = book.coming.iter();
        let found = coming.position(|(of, holding)| *of == id && holding.is_of(made));
        match found {
            Some(at) => {
                let (_, holding) = book.coming.swap_remove(at);
                book.running.insert(id, holding);
            }
            None => drop(book.running.remove(&id)),
        }
    }

    /// The vPDP runs nothing any more.
    pub(crate) fn free(&self, id: VpdpId) {
        let mut book = self.book();
        book.running.remove(&id);
        book.pins.remove(&id);
    }

    /// A program as it was given, by the one that was made of it.
    pub(crate) fn given(&self, id: VpdpId, made: &Arc<Program>) -> Option<Arc<Program>> {
        let book = self.book();
        let running = book.running.get(&id).into_iter();
        let coming = book.coming.iter().filter(|(of, _)| *of == id);
        let mut all = running.chain(coming.map(|(_, holding)| holding));
        let holding = all.find(|holding| holding.is_of(made))?;
        Some(Arc::clone(&holding.given))
    }

    pub(crate) fn view(&self) -> SlotView {
        let book = self.book();
        let programs = book.running.iter();
        SlotView {
            plan: book.plan,
            held: book.slots_but(None).held().to_vec(),
            programs: programs
                .map(|(id, holding)| (*id, holding.map.clone()))
                .collect(),
        }
    }
}

impl Book {
    fn fit(
        &mut self,
        id: VpdpId,
        given: &Arc<Program>,
        pins: &Pins,
    ) -> Result<Arc<Program>, SlotError> {
        self.coming
            .retain(|(_, holding)| holding.made.strong_count() > 0);
        let map = self.slots_but(Some(id)).place(given, pins)?;
        let made = wrap(given, &map).unwrap_or_else(|| Program::clone(given));
        let made = Arc::new(made);
        let holding = Holding {
            made: Arc::downgrade(&made),
            given: Arc::clone(given),
            map,
        };
        self.coming.push((id, holding));
        Ok(made)
    }

    /// The slots without what this vPDP runs.
    fn slots_but(&self, id: Option<VpdpId>) -> Slots {
        let mut slots = Slots::new(self.plan);
        let running = self.running.iter().filter(|(of, _)| Some(**of) != id);
        let running = running.map(|(_, holding)| holding);
        let coming = self.coming.iter().map(|(_, holding)| holding);
        let coming = coming.filter(|holding| holding.made.strong_count() > 0);
        running.chain(coming).for_each(|one| slots.hold(&one.map));
        slots
    }
}
