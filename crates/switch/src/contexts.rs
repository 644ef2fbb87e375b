//! Contexts that workers of one thread lend each other: those of devices that run the same function use one, which stays in the processor's caches.

use std::sync::{Arc, Weak};

use exec::{Fused, PacketContext};

/// Functions that have a context here; workers of others use their own.
const MOST_FUNCTIONS: usize = 8;

/// Contexts for bursts of several workers, one a function.
#[derive(Default)]
pub struct Contexts {
    places: Vec<Place>,
}

/// Where the context of one function is.
struct Place {
    function: Weak<dyn Fused>,
    /// Here, unless a worker has it.
    context: Option<Box<PacketContext>>,
}

impl Contexts {
    /// Forgets those of functions that are no more.
    pub fn forget_gone(&mut self) {
        self.places
            .retain(|place| place.function.strong_count() > 0);
    }

    /// The context of this function.
    pub(crate) fn take(&mut self, function: &Arc<dyn Fused>) -> Option<Box<PacketContext>> {
        self.place(function)?.context.take()
    }

    /// Keeps a context of this function for the next worker; gives it back if there is no room.
    pub(crate) fn put_back(
        &mut self,
        context: Box<PacketContext>,
        function: &Arc<dyn Fused>,
    ) -> Result<(), Box<PacketContext>> {
        if self.place(function).is_none() {
            self.make_place(function);
        }
        match self.place(function) {
            Some(place) if !context.is_oversized() => {
                place.context = Some(context);
                Ok(())
            }
            _ => Err(context),
        }
    }

    /// Makes a place for this function if there is room, or one that is no more has one.
    fn make_place(&mut self, function: &Arc<dyn Fused>) {
        let place = Place {
            function: Arc::downgrade(function),
            context: None,
        };
        let gone = |place: &Place| place.function.strong_count() == 0;
        match self.places.iter().position(gone) {
            Some(at) => self.places[at] = place,
            None if self.places.len() < MOST_FUNCTIONS => self.places.push(place),
            None => {}
        }
    }

    fn place(&mut self, function: &Arc<dyn Fused>) -> Option<&mut Place> {
        let own = Arc::as_ptr(function).cast::<()>();
        // As long as there is a weak reference, no other function has its address.
        let mut places = self.places.iter_mut();
        places.find(|place| place.function.as_ptr().cast::<()>() == own)
    }
}
