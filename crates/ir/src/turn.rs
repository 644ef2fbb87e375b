//! What marks an ingress that packets go through in several turns: a device with few stage slots takes a packet through them again and again, each time
//! from the stage on at which the turn before has stopped (`passes::wrap`).

use crate::program::Stage;

/// The intrinsic that says, when an ingress control has run, whether it is to be run again on the same fields: 0 when it is through.
pub const RESUME: &str = "slots.resume";

/// What is in the names of all that was made for turns. No name in P4 has it.
pub const OF_TURNS: &str = "$slots$";

impl Stage {
    /// Whether the stage leads packets through turns, and is none of the program's own.
    pub fn is_of_turns(&self) -> bool {
        self.name.contains(OF_TURNS)
    }
}
