//! Contexts that workers of one thread share. Devices that run the same compiled fast path use one
//! context, which stays in the CPU's caches. All workers use the same buffer for outcomes.

use std::sync::{Arc, Weak};

use exec::{BURST, CompiledFastPath, PackedOutcome, PacketContext};

/// Maximum number of functions with a shared context. Workers of other functions use their own
/// contexts.
const MAX_FUNCTIONS: usize = 8;

/// Shared contexts for bursts of several workers, one for each function.
#[derive(Default)]
pub struct Contexts {
    places: Vec<Place>,
    /// Outcomes of a burst. Allocated once.
    outcomes: Vec<PackedOutcome>,
}

/// Context of one function.
struct Place {
    function: Weak<dyn CompiledFastPath>,
    /// Address of the function. It is not reused while a weak reference exists.
    address: usize,
    /// The context, unless a worker is using it.
    context: Option<Box<PacketContext>>,
}

impl Contexts {
    /// Removes the contexts of functions that no longer exist.
    pub fn forget_gone(&mut self) {
        self.places
            .retain(|place| place.function.strong_count() > 0);
    }

    /// Takes the buffer for outcomes. It still holds those of the previous burst.
    #[inline]
    pub(crate) fn take_outcomes(&mut self) -> Vec<PackedOutcome> {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        if outcomes.len() < BURST {
            outcomes.resize(BURST, PackedOutcome::default());
        }
        outcomes
    }

    /// Returns the buffer for outcomes.
    #[inline]
    pub(crate) fn put_outcomes_back(&mut self, outcomes: Vec<PackedOutcome>) {
        self.outcomes = outcomes;
    }

    /// Takes the context of this function.
    pub(crate) fn take(
        &mut self,
        function: &Arc<dyn CompiledFastPath>,
    ) -> Option<Box<PacketContext>> {
        let at = self.find(function)?;
        self.places[at].context.take()
    }

    /// Stores a context of this function for the next worker. Returns it as the error if there is
    /// no free element.
    pub(crate) fn put_back(
        &mut self,
        context: Box<PacketContext>,
        function: &Arc<dyn CompiledFastPath>,
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

    /// Adds an element for this function if there are few enough, or replaces that of a function
    /// that no longer exists.
    #[cold]
    fn make_place(&mut self, function: &Arc<dyn CompiledFastPath>) -> Option<&mut Place> {
        let place = Place {
            function: Arc::downgrade(function),
            address: address(function),
            context: None,
        };
        let gone = |place: &Place| place.function.strong_count() == 0;
        match self.places.iter().position(gone) {
            Some(at) => self.places[at] = place,
            None if self.places.len() < MAX_FUNCTIONS => self.places.push(place),
            None => return None,
        }
        self.find(function).and_then(|at| self.places.get_mut(at))
    }

    /// Returns the index of a function's context.
    #[inline]
    fn find(&self, function: &Arc<dyn CompiledFastPath>) -> Option<usize> {
        let own = address(function);
        self.places.iter().position(|place| place.address == own)
    }
}

fn address(function: &Arc<dyn CompiledFastPath>) -> usize {
    Arc::as_ptr(function).cast::<()>().addr()
}
