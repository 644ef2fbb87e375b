//! Contexts that workers of one thread lend each other: those of devices that run the same code use one, which stays in the processor's caches.

use std::sync::{Arc, Weak};

use exec::{Loaded, PacketContext};

use crate::core::Code;

/// Codes that have a context here; workers of others use their own.
const MOST_CODES: usize = 8;

/// Contexts for bursts of several workers, one a code.
#[derive(Default)]
pub struct Contexts {
    places: Vec<Place>,
}

/// Where the context of one code is.
struct Place {
    code: Weak<dyn Loaded>,
    /// Here, unless a worker has it.
    context: Option<Box<PacketContext>>,
}

impl Contexts {
    /// Forgets those of code that is no more.
    pub fn forget_gone(&mut self) {
        self.places.retain(|place| place.code.strong_count() > 0);
    }

    /// The context of this code.
    pub(crate) fn take(&mut self, code: &Code) -> Option<Box<PacketContext>> {
        self.place(code)?.context.take()
    }

    /// Keeps a context of this code for the next worker; gives it back if there is no room.
    pub(crate) fn put_back(
        &mut self,
        context: Box<PacketContext>,
        code: &Code,
    ) -> Result<(), Box<PacketContext>> {
        if self.place(code).is_none() {
            self.make_place(code);
        }
        match self.place(code) {
            Some(place) if !context.is_oversized() => {
                place.context = Some(context);
                Ok(())
            }
            _ => Err(context),
        }
    }

    /// Makes a place for this code if there is room, or code that is no more has one.
    fn make_place(&mut self, code: &Code) {
        let place = Place {
            code: Arc::downgrade(&code.loaded),
            context: None,
        };
        let gone = |place: &Place| place.code.strong_count() == 0;
        match self.places.iter().position(gone) {
            Some(at) => self.places[at] = place,
            None if self.places.len() < MOST_CODES => self.places.push(place),
            None => {}
        }
    }

    fn place(&mut self, code: &Code) -> Option<&mut Place> {
        let own = Arc::as_ptr(&code.loaded).cast::<()>();
        // As long as there is a weak reference, no other code has its address.
        let mut places = self.places.iter_mut();
        places.find(|place| place.code.as_ptr().cast::<()>() == own)
    }
}
