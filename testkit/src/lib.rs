//! Crate `testkit`: tests that involve several crates. A test is one file with one program and its
//! packets, run on every engine. The crate is not part of the product.
//!
//! **In:** `programs/` has a P4 program and an STF test of the same name for each feature of the
//! language and the architectures. `../examples` is used as well.
//!
//! Invariants:
//! - Expected results are derived from the specifications, never copied from this project's output.
//! - No test names an engine; every engine runs every test.
//! - A fuzz run depends on its seed only.
//!
//! Tests: `tests/`. `findings/` has the inputs that fuzz runs found.

mod engines;
pub mod fuzz;
mod mutate;
mod program;
pub mod reports;
mod router;
pub mod scale;
mod stepwise;

pub use engines::engines;
pub use program::{compile, compile_policy, compile_text, tested};
pub use router::{configure_router, routed_frame, router};
pub use stepwise::Stepwise;
