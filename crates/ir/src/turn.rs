//! Markers of an ingress control that was split into rounds. A device with few stage slots
//! processes a packet in several rounds, each of which continues where the previous one stopped
//! (`passes::wrap`).

use crate::program::Stage;

/// The intrinsic that requests another round on the same fields after an ingress control. It is 0
/// when the packet is finished.
pub const RESUME: &str = "slots.resume";

/// Part of the names of all items that were added for rounds. No P4 name contains it.
pub const OF_TURNS: &str = "$slots$";

impl Stage {
    /// Returns true if the stage was added for rounds and is not one of the program's own.
    pub fn is_of_turns(&self) -> bool {
        self.name.contains(OF_TURNS)
    }
}
