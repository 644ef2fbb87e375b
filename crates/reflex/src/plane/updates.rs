//! Updates of controllers: changes of managed tables that no monitor decided.

use std::collections::{HashMap, VecDeque};

use consensus::{ChangeBytes, Key};

use super::{ReflexPlane, id_of};
use crate::decision::DecisionRefusal;
use crate::loops::ElementIndex;
use crate::store::RequestId;

/// Update of an element by a controller, to be committed before the element makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementUpdate {
    /// Number that the element gave it.
    pub token: u64,
    /// Name of the entry in the store.
    pub name: Key,
    /// Content ([`crate::controller_change`]); `None` removes the entry.
    pub change: Option<ChangeBytes>,
}

/// Updates that the store has not answered, and those that it refused.
#[derive(Default)]
pub(super) struct Updates {
    requests: HashMap<RequestId, (ElementIndex, u64)>,
    refused: VecDeque<(ElementIndex, u64)>,
}

impl Updates {
    pub(super) fn committed(&mut self, request: RequestId) {
        self.requests.remove(&request);
    }

    pub(super) fn full(&mut self, request: RequestId) {
        self.refused.extend(self.requests.remove(&request));
    }
}

impl ReflexPlane {
    /// Requests an update at the store. The element gets it as a command, or
    /// [`ReflexPlane::next_refused_update`] has it.
    ///
    /// # Errors
    /// The store takes no request now. There was no effect.
    pub fn request_update(
        &mut self,
        element: ElementIndex,
        update: &ElementUpdate,
    ) -> Result<(), DecisionRefusal> {
        let (name, change) = (update.name, update.change);
        let request = self.store.change(id_of(element), name, change)?;
        let of = (element, update.token);
        self.controllers.requests.insert(request, of);
        Ok(())
    }

    /// Returns the element and the number of the next update for which the store has no room.
    pub fn next_refused_update(&mut self) -> Option<(ElementIndex, u64)> {
        self.controllers.refused.pop_front()
    }
}
