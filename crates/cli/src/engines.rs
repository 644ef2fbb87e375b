//! The engines that the command knows, by name.

use exec::Engine;

/// All of them; the first defines the meaning.
pub(crate) const ENGINES: &[&dyn Engine] = &[&interp::Interp];
