//! What workers of one thread lend each other: those of devices that run the same function use one context, which stays in the processor's caches, and all of them have the same room for outcomes.

use std::sync::{Arc, Weak};

use exec::{BURST, Fused, PackedOutcome, PacketContext};

/// Functions that have a context here; workers of others use their own.
const MOST_FUNCTIONS: usize = 8;

/// Contexts for bursts of several workers, one a function.
#[derive(Default)]
pub struct Contexts {
    places: Vec<Place>,
    /// What became of packets, with room for a burst: it need not be made anew for each.
    outcomes: Vec<PackedOutcome>,
}

/// Where the context of one function is.
struct Place {
    function: Weak<dyn Fused>,
    /// Where the function is. As long as there is a weak reference, no other one is there.
    address: usize,
    /// Here, unless a worker has it.
    context: Option<Box<PacketContext>>,
}

impl Contexts {
    /// Forgets those of functions that are no more.
    pub fn forget_gone(&mut self) {
        self.places
            .retain(|place| place.function.strong_count() > 0);
    }

    /// Room for the outcomes of a burst; those of one before are in it.
    #[inline]
    pub(crate) fn take_outcomes(&mut self) -> Vec<PackedOutcome> {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        if outcomes.len() < BURST {
            outcomes.resize(BURST, PackedOutcome::default());
        }
        outcomes
    }

    /// They are not needed any more.
    #[inline]
    pub(crate) fn put_outcomes_back(&mut self, outcomes: Vec<PackedOutcome>) {
        self.outcomes = outcomes;
    }

    /// The context of this function.
    pub(crate) fn take(&mut self, function: &Arc<dyn Fused>) -> Option<Box<PacketContext>> {
        let at = self.find(function)?;
        self.places[at].context.take()
    }

    /// Keeps a context of this function for the next worker; gives it back if there is no room.
    pub(crate) fn put_back(
        &mut self,
        context: Box<PacketContext>,
        function: &Arc<dyn Fused>,
    ) -> Result<(), Box<PacketContext>> {
        if context.is_oversized() {
            return Err(context);
        }
        let place = match self.find(function) {
            Some(at) => self.places.get_mut(at),
            None => self.make_place(function),
        };
        match place {
            Some(place) => {
                place.context = Some(context);
                Ok(())
            }
            None => Err(context),
        }
    }

    /// Makes a place for this function if there is room, or one that is no more has one.
    #[cold]
    fn make_place(&mut self, function: &Arc<dyn Fused>) -> Option<&mut Place> {
        let place = Place {
            function: Arc::downgrade(function),
            address: address(function),
            context: None,
        };
        let gone = |place: &Place| place.function.strong_count() == 0;
        match self.places.iter().position(gone) {
            Some(at) => self.places[at] = place,
            None if self.places.len() < MOST_FUNCTIONS => self.places.push(place),
            None => return None,
        }
        self.find(function).and_then(|at| self.places.get_mut(at))
    }

    /// Where the context of a function is.
    #[inline]
    fn find(&self, function: &Arc<dyn Fused>) -> Option<usize> {
        let own = address(function);
        self.places.iter().position(|place| place.address == own)
    }
}

fn address(function: &Arc<dyn Fused>) -> usize {
    Arc::as_ptr(function).cast::<()>().addr()
}
