//! The room of tests that concern many rooms: one file, one program and its packets, run on every engine.
//!
//! **In:** `programs/`: a P4 program and an STF test of the same name for each feature of the language and the architectures; `../examples`.
//! **Out:** nothing; this room is outside the product.
//! **May import:** all rooms.
//!
//! Invariants: what a test expects was worked out from the specifications, never copied from what our own program gave; no test names an engine,
//! every engine runs every test; what a fuzz run does depends on its seed alone. Tests: `tests/`; `findings/` holds the inputs that fuzz runs found.

mod engines;
pub mod fuzz;
mod mutate;
mod program;
mod router;
pub mod scale;
mod stepwise;

pub use engines::engines;
pub use program::{compile, compile_policy, compile_steps, compile_text, tested};
pub use router::{configure_router, routed_frame, router};
pub use stepwise::Stepwise;
